"""Rules for every registered protocol: laws of messages, privacy, and the size of bundles.

A new protocol is tested here as soon as it is registered.
"""

import dataclasses
import itertools
import math
from collections import Counter, defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import enumeration
import headcount as hc
from conformance import (
    ALARM,
    JUDGED_ELSEWHERE,
    LARGE,
    OPTIONS_TRIED_ELSEWHERE,
    SMALL,
    SMALL_OPTIONS,
    WORDS_JUDGED_ELSEWHERE,
    build,
    choices,
    crowds,
    every,
    every_enumerated,
    is_twin,
    large,
    mixed,
    small,
    small_decentral,
    small_settings,
    sparing_decentral,
    standard,
    tried_options,
    variants,
)
from enumeration import log_likelihood_ratio
from headcount.core.protocol import option_names
from headcount.core.randomizer import RARE, BundleLaw
from headcount.protocols.registry import protocol_class


def law_of(protocol: hc.Protocol, value: int) -> BundleLaw:
    return enumeration.laws_of(protocol)[value]


def sent_counts(messages: hc.Messages, kinds: list[Any]) -> np.ndarray[Any, Any]:
    """How often each person sent each kind of message, with a row for each person."""
    which = kinds_of(messages, kinds)
    owner = np.repeat(np.arange(messages.users), messages.counts)
    cells = np.bincount(owner * len(kinds) + which, minlength=messages.users * len(kinds))
    return cells.reshape(messages.users, len(kinds))


def kinds_of(messages: hc.Messages, kinds: list[Any]) -> np.ndarray[Any, Any]:
    """The number of each message's kind."""
    table = np.array(kinds, dtype=np.int64).reshape(len(kinds), -1)
    sent = messages.payload.astype(np.int64).reshape(len(messages.payload), table.shape[1])
    # Rows as numbers, in the same order.
    scale = np.cumprod([1, *(np.maximum(table.max(axis=0), 1) + 1)[:0:-1]])[::-1]
    which = np.searchsorted(table @ scale, sent @ scale)
    assert np.array_equal(table[which], sent)
    return which


def places(protocol: hc.Protocol, messages: hc.Messages, kinds: list[Any], law: Any) -> Any:
    """The outcome of the law that each person sent, or −1 if it is not an outcome."""
    if protocol.randomizer.fixed_messages == 1:
        return kinds_of(messages, kinds)
    return numbered(sent_counts(messages, kinds), law)


def numbered(rows: np.ndarray[Any, Any], law: dict[Any, float]) -> np.ndarray[Any, Any]:
    """The place of each row among the outcomes of a law, or −1 if it is not among them."""
    table = np.array(list(law))
    scale = np.cumprod([1, *(np.maximum(table.max(axis=0), rows.max(axis=0))[:-1] + 1)])
    codes = table @ scale
    order = np.argsort(codes)
    at = np.minimum(np.searchsorted(codes[order], rows @ scale), len(codes) - 1)
    return np.where(codes[order][at] == rows @ scale, order[at], -1)


def counted(which: np.ndarray[Any, Any], law: dict[Any, float]) -> Counter[Any]:
    found = Counter(dict(zip(law, np.bincount(which[which >= 0], minlength=len(law)), strict=True)))
    if (which < 0).any():
        found["unknown"] = int(np.count_nonzero(which < 0))
    return +found


def counts_law(protocol: hc.Protocol, value: int) -> tuple[list[Any], dict[Any, float]]:
    """The kinds of messages, and the law of how often a person who holds a value sends each.

    If everybody sends one message, it is the law of that message.
    """
    kinds = enumeration.kinds(enumeration.laws_of(protocol))
    if protocol.randomizer.fixed_messages == 1:
        alone = law_of(protocol, value)
        return kinds, {kind: float(alone.get(((kind, 1),), 0)) for kind in kinds}
    law = enumeration.as_counts(law_of(protocol, value), kinds)
    return kinds, {counts: float(chance) for counts, chance in law.items()}


@pytest.mark.slow
@every_enumerated
def test_small_crowds_are_enumerated_for_every_variant(name: str, task: hc.Task) -> None:
    found = [p for p, _ in crowds(True, name, task, False)]
    for words in variants(name, task):
        alike = [p for p in found if all(getattr(p, key) == word for key, word in words.items())]
        # A closed form may hold only for large crowds.
        none = all(build(name, task, one, tuple(words.items())) is None for one in SMALL)
        if any((name, word) in WORDS_JUDGED_ELSEWHERE for word in words.values()):
            continue
        paper = words["calibration"] == "paper"
        if paper and not none and not alike:
            # Then it is the exact one.
            assert found
            continue
        assert len(alike) >= (2 if not paper else not none), words


@every
def test_quick_tests_try_every_choice_of_a_word(name: str, task: hc.Task) -> None:
    """Each choice is tried in at least one setting, unless the paper's calibration is missing or is
    the exact one.
    """
    sizes = (False,) if name in JUDGED_ELSEWHERE else (True, False)
    tried = [p for size in sizes for p, _ in crowds(size, name, task, True)]
    for option, words in choices(name, task).items():
        missing = {*words} - {getattr(p, option) for p in tried}
        assert missing <= ({"paper"} if option == "calibration" else set())
        for word in missing:
            chosen = ((option, word),)
            for setting in [*small_settings(task), *LARGE]:
                p = build(name, task, setting, chosen)
                assert p is None or is_twin(p, setting, chosen)


@every
def test_every_choice_of_a_word_makes_a_difference(name: str, task: hc.Task) -> None:
    """An option that makes no difference was forgotten somewhere."""
    for option, words in choices(name, task).items():
        if option == "calibration":
            continue  # the paper's may be the exact one
        built = [build(name, task, LARGE[0], ((option, word),)) for word in words]
        told = [what_is_told(p) for p in built if p is not None]
        assert len(told) == len(words)
        assert all(one != other for one, other in itertools.combinations(told, 2))


@every_enumerated
def test_every_tried_number_makes_a_difference(name: str, task: hc.Task) -> None:
    """For each choice of words there is a crowd in which all listed settings differ."""
    listed = [tuple(options.items()) for options in tried_options(SMALL_OPTIONS, name, task)]
    if name not in OPTIONS_TRIED_ELSEWHERE:
        for option in {*option_names(protocol_class(name, task))} - {*choices(name, task)}:
            values = {dict(options).get(option) for options in listed}
            assert len(values) > 1, f"SMALL_OPTIONS must list two values of {option}"
    if len(listed) < 2:
        return
    for words in variants(name, task):
        complete = differ = False
        for setting in small_settings(task):
            built = [build(name, task, setting, (*words.items(), *one)) for one in listed]
            told = [what_is_told(p) for p in built if p is not None]
            if len(told) == len(listed):
                complete = True
                differ |= all(one != other for one, other in itertools.combinations(told, 2))
        assert differ or not complete


def what_is_told(protocol: hc.Protocol) -> tuple[Any, ...]:
    """What people see of a protocol: its parameters, its errors and its answers."""
    counts = [protocol.estimator.tally_size * [share] for share in (0, 1000)]
    answers = [
        protocol.estimate(
            hc.Tally(
                np.array(one),
                protocol.crowd.users,
                protocol.name,
                protocol.estimator.tally_modulus,
                noises=int(protocol.shuffler.adds),
            ),
            hc.SeededSource(1),
        )
        for one in counts
    ]
    return (
        dict(protocol.parameters),
        protocol.guarantee,
        protocol.standard_error(),
        [np.asarray(one.value).tolist() for one in answers],
    )


@small
def test_law_sums_to_one_over_its_alphabet(protocol: hc.Protocol) -> None:
    for law in enumeration.laws_of(protocol):
        total = sum(law.values())
        assert total == 1 or 1 - 10_000 * RARE < total < 1
        assert all(isinstance(chance, Fraction) and chance > 0 for chance in law.values())
        for bundle in law:
            assert list(bundle) == sorted(bundle)
            assert all(copies > 0 for _, copies in bundle)
        kinds = np.array(enumeration.kinds([law]), dtype=protocol.alphabet.dtype)
        assert np.array_equal(protocol.alphabet.messages(kinds), kinds)
    if isinstance(protocol.task, hc.Density):
        return  # it has more bins than there are values here
    # No range needs more bits than the largest message that is sent.
    sent = np.array(enumeration.kinds(enumeration.laws_of(protocol)))
    for column, numbers in zip(
        protocol.alphabet.columns, sent.reshape(len(sent), -1).T, strict=True
    ):
        assert int(numbers.max()).bit_length() == column[-1].bit_length()


@small
def test_sampler_follows_its_law_and_no_other(protocol: hc.Protocol) -> None:
    for value, held in enumerate(enumeration.asked(protocol)):
        kinds, law = counts_law(protocol, value)
        # Few outcomes are quick to count. So there are enough people that even a rare lie is
        # measured to 2 %.
        people = 2_000_000 if len(law) <= 4 else 200_000
        source = hc.SeededSource(1000 + value)
        messages = protocol.randomize(np.full(people, held), source)
        assert messages.users == people == len(messages.counts)
        assert messages.counts.sum(dtype=np.int64) == len(messages.payload)
        observed = counted(places(protocol, messages, kinds, law), law)
        assert log_likelihood_ratio(observed, law)[1] > ALARM
        for bundle, chance in sorted(law.items(), key=lambda item: -item[1])[:20]:
            # Two percent of a probability p change its count by 0.02·√(np/(1−p)) standard
            # deviations. At 7 the test must notice this, or at more if there are many bundles.
            common = sum(chance * people >= 10 for chance in law.values())
            needed = 7 + math.sqrt(2 * math.sqrt(2 * common))
            if 0.02 * math.sqrt(people * chance / (1 - chance + 1e-9)) > needed:
                wrong = moved(law, bundle, 0.02)
                assert log_likelihood_ratio(observed, wrong)[1] < ALARM


def moved(law: dict[Any, float], bundle: Any, share: float) -> dict[Any, float]:
    """A wrong law: a share of one bundle's chance is given to the others, or to a new bundle."""
    others = [other for other in law if other != bundle] or ["never"]
    given = share * law[bundle] / len(others)
    wrong = {other: law.get(other, 0.0) + given for other in others}
    return {**wrong, bundle: (1 - share) * law[bundle]}


@small_decentral
def test_people_are_randomized_independently(protocol: hc.Protocol) -> None:
    """Noise that people share would show as too many or too few equal neighbors."""
    people = 200_000
    held = enumeration.asked(protocol)[0]
    messages = protocol.randomize(np.full(people, held), hc.SeededSource(5))
    kinds, law = counts_law(protocol, 0)
    # The most frequent bundles, and all others merged.
    common = dict(sorted(law.items(), key=lambda item: -item[1])[:20])
    chances = [*common.values(), max(0.0, 1 - sum(common.values()))]
    found_at = {bundle: at for at, bundle in enumerate(common)}
    renamed = np.array([found_at.get(bundle, len(common)) for bundle in law] + [len(common)])
    seen = renamed[places(protocol, messages, kinds, law)]
    expected = {
        (a, b): chances[a] * chances[b]
        for a, b in itertools.product(range(len(chances)), repeat=2)
        if chances[a] * chances[b] > 0
    }
    for gap in (1, 2, 256, 65_536):
        # Every person is in at most one pair, so the pairs are independent of each other.
        whole = people // (2 * gap) * 2 * gap
        first, second = seen[:whole].reshape(-1, 2, gap).transpose(1, 0, 2).reshape(2, -1)
        found = np.bincount(first * len(chances) + second, minlength=len(chances) ** 2)
        pairs = Counter({divmod(at, len(chances)): int(n) for at, n in enumerate(found) if n})
        assert log_likelihood_ratio(pairs, expected)[1] > ALARM


def relied_on(protocol: hc.Protocol) -> int:
    """How many honest people a guarantee needs: one, the own person, if the shuffler adds noise."""
    return 1 if protocol.shuffler.adds else protocol.crowd.honest


@small_decentral
def test_guarantee_is_that_of_every_view(protocol: hc.Protocol) -> None:
    promised = protocol.guarantee
    assert promised.epsilon <= protocol.budget.epsilon
    assert promised.delta <= protocol.budget.delta
    assert promised.honest == relied_on(protocol)
    truth = enumeration.worst_delta(protocol, promised.epsilon)
    a_view = enumeration.neighboring_views(protocol)[0][0]
    off = enumeration.error_of(a_view, promised.epsilon)
    # The float of epsilon is rounded. A pure guarantee is compared with the ratio before rounding.
    assert truth <= promised.delta + 1e-15 + off
    # At the budget nothing is rounded: the probability must be private to the last bit.
    allowed = protocol.budget.delta if promised.delta else 0.0
    assert enumeration.worst_delta(protocol, protocol.budget.epsilon) <= allowed + off
    if promised.exact:
        assert truth >= promised.delta * (1 - 1e-9) - off
        pure = promised.delta == 0
        if pure or not protocol.shuffler.adds:  # dummies are whole: tests/test_noisy_shuffler.py
            assert (promised.epsilon if pure else promised.delta) >= 0.99 * (
                protocol.budget.epsilon if pure else protocol.budget.delta
            )


@sparing_decentral
def test_curve_is_that_of_every_view(protocol: hc.Protocol) -> None:
    a_view = enumeration.neighboring_views(protocol)[0][0]
    for epsilon in (0.0, 0.25, 0.7, 1.3, 2.6):
        off = enumeration.error_of(a_view, epsilon)
        truth = enumeration.worst_delta(protocol, epsilon)
        stated = protocol.curve.delta(epsilon)
        assert truth <= stated + off
        # If the shuffler withholds messages, the worst crowd is larger than this one.
        if protocol.guarantee.exact and protocol.shuffler.least_copies == 1:
            assert stated <= truth * (1 + 1e-9) + 1e-15 + off
        # `deltas` may round up a little more. Chords between a few points may be higher still.
        chords = 1.2 if protocol.shuffler.least_copies > 1 else 1 + 1e-6
        many = protocol.curve.deltas(np.array([epsilon, -0.5, 0.1]))
        assert stated * (1 - 1e-9) - 1e-15 <= many[0] <= chords * stated + 1e-12
        back = protocol.curve.epsilon(stated)
        assert back <= epsilon * (1 + 1e-9) + 1e-12
        assert enumeration.worst_delta(protocol, back) <= stated + off


@small
def test_local_epsilon_is_what_one_bundle_betrays(protocol: hc.Protocol) -> None:
    laws = enumeration.laws_of(protocol)
    ratios = [
        math.log(one[bundle]) - math.log(other[bundle]) if bundle in other else math.inf
        for one in laws
        for other in laws
        for bundle in one
    ]
    if protocol.trust is hc.Trust.LOCAL and not protocol.guarantee.exact:
        assert max(ratios) <= protocol.local_epsilon * (1 + 1e-12)
    else:
        assert protocol.local_epsilon == pytest.approx(max(ratios))


@small
def test_messages_per_user_and_bundles(protocol: hc.Protocol) -> None:
    sizes = [
        [(sum(copies for _, copies in bundle), chance) for bundle, chance in law.items()]
        for law in enumeration.laws_of(protocol)
    ]
    means = [float(sum(size * chance for size, chance in law)) for law in sizes]
    assert protocol.messages_per_user == pytest.approx(max(means))
    for slots in (0, 1, 2, protocol.slots):
        more = float(max(sum(chance for size, chance in law if size > slots) for law in sizes))
        assert more <= protocol.randomizer.overflow(slots) <= more * (1 + 1e-6) + 1e-12
    bundled = enumeration.bundled_curve(protocol).delta(protocol.budget.epsilon)
    assert protocol.curve.delta(protocol.budget.epsilon) <= bundled <= protocol.budget.delta
    # No smaller bundle keeps the budget, and this one does.
    assert redrawn_delta(protocol, protocol.slots) <= protocol.budget.delta
    smaller = protocol.slots - 1
    assert not smaller or redrawn_delta(protocol, smaller) > protocol.budget.delta


def redrawn_delta(protocol: hc.Protocol, slots: int) -> float:
    """What bundles of this size promise at the budget's epsilon, at most 1."""
    redrawn = protocol.crowd.honest * protocol.randomizer.overflow(slots)
    if not redrawn:
        return protocol.curve.delta(protocol.budget.epsilon)
    known, factor = protocol.curve.delta(protocol.budget.epsilon), math.exp(protocol.budget.epsilon)
    return min(1.0, (known + factor * redrawn) / (1 - redrawn)) if redrawn < 1 else 1.0


@small
def test_noise_has_one_law(protocol: hc.Protocol) -> None:
    """Then drawing again until the noise fits tells nothing about the value."""
    found = []
    for value, law in zip(enumeration.asked(protocol), enumeration.laws_of(protocol), strict=True):
        fewer = protocol.randomizer.fewer_messages(protocol.task.encode([value]))
        sizes: dict[int, Fraction] = defaultdict(Fraction)
        for bundle, chance in law.items():
            sizes[enumeration.size_of(bundle) + fewer] += chance
        found.append({size: float(chance) for size, chance in sizes.items()})
    for sizes_of_noise in found:
        assert sizes_of_noise == pytest.approx(found[0], abs=1e-12)


@small
def test_bundles_all_have_one_size(protocol: hc.Protocol) -> None:
    assert protocol.randomizer.fixed_messages or protocol.alphabet.dummy is not None
    source = hc.SeededSource(31)
    for slots in (protocol.slots, protocol.slots + 3):
        if protocol.randomizer.fixed_messages and slots != protocol.slots:
            with pytest.raises(hc.InvalidParameter, match="`slots` must be between"):
                protocol.bundle(0, source, slots=slots)
            continue
        sent = [
            protocol.bundle(value, source, slots=slots)
            for value in enumeration.asked(protocol)
            for _ in range(20)
        ]
        assert {len(one.payload) for one in sent} == {slots}
        received = [hc.Messages.receive(one.to_bytes(), protocol.alphabet) for one in sent]
        batch = mixed(protocol, hc.Messages.join(received), source)
        assert protocol.tally(batch).users == len(sent)
    with pytest.raises(hc.InvalidParameter, match="`slots` must be between"):
        protocol.bundle(0, source, slots=protocol.slots - 1)


@sparing_decentral
def test_dummies_change_nothing_but_the_size(protocol: hc.Protocol) -> None:
    """Bundles without their dummies follow the law of the bundles whose noise fits."""
    if protocol.randomizer.fixed_messages:
        return
    source, people = hc.SeededSource(33), 3000
    # The size is made too small, so that some bundles do not fit, but not too many.
    fits = (size for size in range(1, 20) if 0.05 < protocol.randomizer.overflow(size) < 0.6)
    slots = next(fits, protocol.slots)
    protocol = dataclasses.replace(protocol)
    vars(protocol)["slots"] = slots
    laws = enumeration.laws_of(protocol)
    kinds, fits_in = enumeration.kinds(laws), enumeration.fitting(laws, slots)
    for value, held in enumerate(enumeration.asked(protocol)):
        kept = [
            protocol.alphabet.messages(protocol.bundle(held, source, slots=slots).payload)
            for _ in range(people)
        ]
        together = hc.Messages(np.concatenate(kept), people, np.array([len(one) for one in kept]))
        law = enumeration.as_counts(fits_in[value], kinds)
        fitting = {counts: float(chance) for counts, chance in law.items()}
        observed = counted(places(protocol, together, kinds, fitting), fitting)
        assert log_likelihood_ratio(observed, fitting)[1] > ALARM


@large
def test_budget_is_met_and_used_at_full_size(protocol: hc.Protocol) -> None:
    promised = protocol.guarantee
    assert promised.epsilon <= protocol.budget.epsilon
    assert promised.delta <= protocol.budget.delta
    if promised.exact and promised.delta and not protocol.shuffler.adds:
        assert promised.delta >= 0.99 * protocol.budget.delta
    assert redrawn_delta(protocol, protocol.slots) <= protocol.budget.delta


@every
def test_fewer_honest_people_never_means_less_noise(name: str, task: hc.Task) -> None:
    everyone, some = standard(name, task, 1000), standard(name, task, 1000, 500)
    assert some.guarantee.honest == relied_on(some) in (1, 500)
    assert some.standard_error() >= everyone.standard_error()
