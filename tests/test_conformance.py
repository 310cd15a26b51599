"""What every registered protocol must keep. A new protocol is tested here by being registered."""

import dataclasses
import itertools
import math
import typing
from collections import Counter
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any, TypeAlias

import numpy as np
import pytest
from scipy.stats import chi2

import enumeration
import headcount as hc
from enumeration import log_likelihood_ratio
from headcount.core.protocol import option_names
from headcount.core.randomizer import RARE, BundleLaw
from headcount.protocols.registry import protocol_class

Options: TypeAlias = tuple[tuple[str, Any], ...]
# A test of a law with a fixed seed fails below this. A wrong law must fall far below it.
ALARM = 1e-6
# Each protocol is tested with every one of these tasks that it can answer.
TASKS: list[hc.Task] = [
    hc.Count(),
    hc.Histogram(3),
    hc.Sum(-1, 1, whole=True),
    hc.Mean(-0.5, 1),
    hc.Density(-0.5, 1, points=6),
]
PAIRS = [(name, task) for task in TASKS for name in hc.protocol_names(task)]
# epsilon, delta, users, honest: crowds small enough to enumerate every view.
SMALL = [
    (2.0, 0.05, 5, 5),
    (1.0, 0.05, 8, 8),
    (0.5, 0.2, 6, 6),
    (1.0, 0.3, 6, 4),
    (3.0, 0.1, 7, 4),
    (8.0, 0.3, 4, 4),
    (16.0, 0.3, 5, 5),
    (6.0, 0.4, 3, 3),
]
LARGE = [(1.0, 1e-6, 100_000, 100_000), (0.5, 1e-10, 20_000, 15_000), (3.0, 1e-8, 1000, 999)]
# Options that are no choice of a word, for crowds that are enumerated, and for large ones.
SMALL_OPTIONS: dict[str, list[dict[str, Any]]] = {
    "shuffle.correlated": [{"error_ratio": 2.0}],
    "shuffle.unary-sum": [{"bits": 2}],
    "shuffle.fixed-point-sum": [{"levels": 2}],
    "local.hashing": [{"values": 4}, {"values": 2}],
    "local.laplace-mean": [{"levels": 1}],
    "local.piecewise-mean": [{"levels": 2}, {"levels": 1}],
    "local.hybrid-mean": [{"levels": 2}, {"levels": 1}],
    "local.density-histogram": [{"bins": 2}],
    "local.density-series": [{"terms": 3}, {"terms": 1}],
    "shuffle.density-histogram": [{"bins": 2}],
}
# Of the settings of one protocol with its options, so many are tried each time, and one where a
# test takes long; the others by the slow tests.
QUICK_SETTINGS = 2
LARGE_OPTIONS: dict[str, list[dict[str, Any]]] = {
    "shuffle.unary-sum": [{"bits": 5}],
    "shuffle.correlated-sum": [{"levels": 2}],
}
# Bundles of these are too many to list; where their views are judged instead.
JUDGED_ELSEWHERE = {
    "shuffle.correlated-histogram": "tests/test_histograms.py",
    "shuffle.hashed-histogram": "tests/test_hashed_histogram.py",
    "shuffle.split-and-mix": "tests/test_split_and_mix.py",
    "shuffle.correlated-sum": "tests/test_correlated_sums.py, tests/test_sums.py",
}


def numeric(task: hc.Task) -> bool:
    """Then the error depends on the numbers that people hold, by how they are rounded."""
    return isinstance(task, hc.Sum | hc.Mean | hc.Density)


def variants(name: str, task: hc.Task) -> list[dict[str, Any]]:
    """Every combination of the options that are choices of a word."""
    found = protocol_class(name, task)
    hints = typing.get_type_hints(found)
    choices = {
        option: typing.get_args(hints[option])
        for option in option_names(found)
        if typing.get_origin(hints[option]) is typing.Literal
    }
    return [
        dict(zip(choices, words, strict=True)) for words in itertools.product(*choices.values())
    ]


@cache
def build(
    name: str, task: hc.Task, setting: tuple[float, float, int, int], options: Options
) -> hc.Protocol | None:
    epsilon, delta, users, honest = setting
    try:
        return hc.protocol(
            name, task, hc.Budget(epsilon, delta), hc.Crowd(users, honest), **dict(options)
        )
    except hc.Infeasible:
        return None


@cache
def crowds(small: bool, name: str, task: hc.Task, quick: bool) -> list[tuple[hc.Protocol, int]]:
    """What is asked of a protocol, and how many like it were before. If quick, no more of these
    than are tried each time.
    """
    found, tried = [], Counter[Any]()
    most = quick_settings(name, task) if quick else math.inf
    options = SMALL_OPTIONS if small else LARGE_OPTIONS
    for words, others in itertools.product(variants(name, task), options.get(name, [{}])):
        chosen: Options = tuple({**words, **others}.items())
        alike = () if quick_settings(name, task) == 1 else chosen
        for setting in settings_for(task, SMALL if small else LARGE):
            if tried[alike] >= most:
                break
            p = build(name, task, setting, chosen)
            # The long tails of some noise at small epsilon are too much to enumerate.
            if p and not is_twin(p, setting, chosen) and (not small or enumeration.is_small(p)):
                found.append((p, tried[alike]))
                tried[alike] += 1
    return found


def is_twin(protocol: hc.Protocol, setting: Any, chosen: Options) -> bool:
    """Where the paper's calibration is the exact one, one of them is enough."""
    if protocol.calibration != "paper":
        return False
    exact = build(protocol.name, protocol.task, setting, (*chosen, ("calibration", "exact")))
    return exact is not None and (
        (exact.parameters, exact.guarantee) == (protocol.parameters, protocol.guarantee)
    )


def quick_settings(name: str, task: hc.Task) -> int:
    """Where one person's law is all that matters, or what is inside is tried by itself, one setting
    is enough each time.
    """
    local = protocol_class(name, task).trust is hc.Trust.LOCAL
    return 1 if local or isinstance(task, hc.Density) else QUICK_SETTINGS


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for each protocol; most settings are built and tried for the slow tests alone."""
    asked = metafunc.definition.get_closest_marker("crowds")
    if not asked:
        return
    small, sparing, central = (asked.kwargs[key] for key in ("small", "sparing", "central"))
    quick = metafunc.config.getoption("markexpr") == "not slow"
    found = []
    for name, task in PAIRS:
        if small and name in JUDGED_ELSEWHERE:
            continue
        for p, before in crowds(small, name, task, quick):
            if p.trust is hc.Trust.CENTRAL and not central:
                continue
            late = before >= (1 if sparing else quick_settings(name, task))
            # Sums share all but a factor with means, papers' parameters all but the numbers.
            late |= sparing and (isinstance(p.task, hc.Sum) or p.calibration == "paper")
            setting = (p.name, p.task.name, f"{p.budget.epsilon:g}", p.crowd.users, p.crowd.honest)
            named = "-".join(
                map(str, (*setting, *(getattr(p, option) for option in option_names(type(p)))))
            )
            found.append(pytest.param(p, id=named, marks=[pytest.mark.slow] if late else []))
    metafunc.parametrize("protocol", found)


def settings_for(
    task: hc.Task, settings: list[tuple[float, float, int, int]]
) -> list[tuple[float, float, int, int]]:
    """Sums and means share their accounting: some of the small settings for each."""
    if settings is not SMALL or not numeric(task):
        return settings
    return SMALL[0::2] if task.name != "mean" else SMALL[3::2]


# Crowds that are enumerated, and large ones; sparing for tests that take long. In central trust
# the noise is in the release, not in the messages: tests/test_central.py.
small = pytest.mark.crowds(small=True, sparing=False, central=True)
small_decentral = pytest.mark.crowds(small=True, sparing=False, central=False)
sparing_small = pytest.mark.crowds(small=True, sparing=True, central=True)
sparing_decentral = pytest.mark.crowds(small=True, sparing=True, central=False)
large = pytest.mark.crowds(small=False, sparing=False, central=True)
sparing_large = pytest.mark.crowds(small=False, sparing=True, central=True)
listed = [(name, task) for name, task in PAIRS if name not in JUDGED_ELSEWHERE]
every = pytest.mark.parametrize(
    ("name", "task"), [pytest.param(*pair, id=f"{pair[0]}-{pair[1].name}") for pair in PAIRS]
)


def law_of(protocol: hc.Protocol, value: int) -> BundleLaw:
    return enumeration.laws_of(protocol)[value]


def sent_counts(messages: hc.Messages, kinds: list[Any]) -> np.ndarray[Any, Any]:
    """How often each person sent each kind of message: a row for each person."""
    which = kinds_of(messages, kinds)
    owner = np.repeat(np.arange(messages.users), messages.counts)
    cells = np.bincount(owner * len(kinds) + which, minlength=messages.users * len(kinds))
    return cells.reshape(messages.users, len(kinds))


def kinds_of(messages: hc.Messages, kinds: list[Any]) -> np.ndarray[Any, Any]:
    """Which of the kinds every message is."""
    table = np.array(kinds, dtype=np.int64).reshape(len(kinds), -1)
    sent = messages.payload.astype(np.int64).reshape(len(messages.payload), table.shape[1])
    # Rows as numbers, in the same order.
    scale = np.cumprod([1, *(np.maximum(table.max(axis=0), 1) + 1)[:0:-1]])[::-1]
    which = np.searchsorted(table @ scale, sent @ scale)
    assert np.array_equal(table[which], sent)
    return which


def places(protocol: hc.Protocol, messages: hc.Messages, kinds: list[Any], law: Any) -> Any:
    """Which outcome of the law every person sent; −1 where it is none of them."""
    if protocol.randomizer.fixed_messages == 1:
        return kinds_of(messages, kinds)
    return numbered(sent_counts(messages, kinds), law)


def numbered(rows: np.ndarray[Any, Any], law: dict[Any, float]) -> np.ndarray[Any, Any]:
    """The place of each row among the outcomes of a law; −1 where it is none of them."""
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

    Where everybody sends one, it is the law of that.
    """
    kinds = enumeration.kinds(enumeration.laws_of(protocol))
    if protocol.randomizer.fixed_messages == 1:
        alone = law_of(protocol, value)
        return kinds, {kind: float(alone.get(((kind, 1),), 0)) for kind in kinds}
    law = enumeration.as_counts(law_of(protocol, value), kinds)
    return kinds, {counts: float(chance) for counts, chance in law.items()}


def some_datasets(protocol: hc.Protocol) -> list[tuple[int, ...]]:
    """Ways in which the users can hold values: all if they are few."""
    every_way = list(enumeration.datasets(protocol.crowd.users, len(enumeration.asked(protocol))))
    return every_way if len(every_way) <= 9 else every_way[:: len(every_way) // 3]


def values_of(protocol: hc.Protocol, holding: typing.Sequence[int]) -> np.ndarray[Any, Any]:
    return np.repeat(np.array(enumeration.asked(protocol)), holding)


@lru_cache(maxsize=512)
def tally_law(protocol: hc.Protocol, holding: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """The law of the tally, from the declared laws of the bundles.

    A tally is the sum of the tallies of single messages.
    """
    if protocol.trust is hc.Trust.LOCAL:
        every, weight = enumeration.outcomes(enumeration.tally_view(protocol, holding))
        return dict(zip(map(tuple, every.tolist()), weight.tolist(), strict=True))
    kinds = enumeration.kinds(enumeration.laws_of(protocol))
    alone = np.array([protocol.estimator.count(payload_of(protocol, [kind])) for kind in kinds])
    seen, chances = enumeration.outcomes(enumeration.crowd_view(protocol, holding))
    every_tally = seen @ alone
    # One number for each tally, which is quicker to sort by than rows.
    scale = np.cumprod([1, *(every_tally.max(axis=0)[:-1] + 1)])
    _, first, which = np.unique(every_tally @ scale, return_index=True, return_inverse=True)
    tallies, weights = every_tally[first], np.bincount(which, weights=chances)
    some = payload_of(protocol, np.repeat(np.arange(len(kinds)), seen[-1]), kinds)
    assert np.array_equal(protocol.tally(hc.Batch(some, sum(holding))).counts, seen[-1] @ alone)
    return dict(zip(map(tuple, tallies.tolist()), weights.tolist(), strict=True))


def payload_of(
    protocol: hc.Protocol, which: typing.Sequence[Any] | np.ndarray[Any, Any], kinds: Any = None
) -> np.ndarray[Any, Any]:
    messages = which if kinds is None else [kinds[at] for at in which]
    empty = np.zeros((0, len(protocol.alphabet.columns)), dtype=protocol.alphabet.dtype)
    array = np.array(messages, dtype=protocol.alphabet.dtype) if len(messages) else empty
    return array if array.ndim == 1 or len(protocol.alphabet.columns) > 1 else array[:, 0]


@lru_cache(maxsize=512)
def estimates(protocol: hc.Protocol, holding: tuple[int, ...]) -> list[tuple[hc.Estimate, float]]:
    """Every estimate that local or shuffle trust can give for such a crowd, with its chance."""
    law = tally_law(protocol, holding)
    tallies, chances = np.array(list(law)), np.array(list(law.values()))
    if len(tallies) > 3000:
        # The value is linear in the tally: one tally for each value stands for all.
        values = linear_values(protocol, tallies, sum(holding))
        _, first, which = np.unique(
            np.round(values, 6), axis=0, return_index=True, return_inverse=True
        )
        tallies, chances = tallies[first], np.bincount(which.ravel(), weights=chances)
    return [
        (estimate_of(protocol, tally, sum(holding)), float(chance))
        for tally, chance in zip(tallies, chances, strict=True)
    ]


def estimate_of(protocol: hc.Protocol, tally: Any, users: int) -> hc.Estimate:
    modulus = protocol.estimator.tally_modulus
    return protocol.estimate(hc.Tally(np.array(tally), users, protocol.name, modulus))


def linear_values(
    protocol: hc.Protocol, tallies: np.ndarray[Any, Any], users: int
) -> np.ndarray[Any, Any]:
    size = tallies.shape[1]
    unit = np.eye(size, dtype=np.int64)
    at_zero = np.atleast_1d(estimate_of(protocol, 0 * unit[0], users).value)
    slopes = [np.atleast_1d(estimate_of(protocol, row, users).value) - at_zero for row in unit]
    values: np.ndarray[Any, Any] = at_zero + tallies @ np.array(slopes)
    for index in range(0, len(tallies), len(tallies) // 100):
        assert estimate_of(protocol, tallies[index], users).value == pytest.approx(values[index])
    return values


def truth_of(protocol: hc.Protocol, holding: typing.Sequence[int]) -> Any:
    return protocol.truth(enumeration.held(protocol, holding))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "task"), listed)
def test_small_crowds_are_enumerated_for_every_variant(name: str, task: hc.Task) -> None:
    found = [p for p, _ in crowds(True, name, task, False)]
    for words in variants(name, task):
        alike = [p for p in found if all(getattr(p, key) == word for key, word in words.items())]
        # A closed form may hold for large crowds only.
        none = all(build(name, task, one, tuple(words.items())) is None for one in SMALL)
        paper = words["calibration"] == "paper"
        if paper and not none and not alike:
            # Then it is the exact one.
            assert found
            continue
        assert len(alike) >= (2 if not paper else not none), words


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


@small
def test_sampler_follows_its_law_and_no_other(protocol: hc.Protocol) -> None:
    people = 200_000
    for value, held in enumerate(enumeration.asked(protocol)):
        source = hc.SeededSource(1000 + value)
        messages = protocol.randomize(np.full(people, held), source)
        assert messages.users == people == len(messages.counts)
        assert messages.counts.sum(dtype=np.int64) == len(messages.payload)
        kinds, law = counts_law(protocol, value)
        observed = counted(places(protocol, messages, kinds, law), law)
        assert log_likelihood_ratio(observed, law)[1] > ALARM
        for bundle, chance in sorted(law.items(), key=lambda item: -item[1])[:20]:
            # Two percent of a chance p move its count by 0.02·√(np/(1−p)) standard deviations;
            # at 7 the test must see it, and at more if there are many bundles.
            common = sum(chance * people >= 10 for chance in law.values())
            needed = 7 + math.sqrt(2 * math.sqrt(2 * common))
            if 0.02 * math.sqrt(people * chance / (1 - chance + 1e-9)) > needed:
                wrong = moved(law, bundle, 0.02)
                assert log_likelihood_ratio(observed, wrong)[1] < ALARM


def moved(law: dict[Any, float], bundle: Any, share: float) -> dict[Any, float]:
    """A wrong law: a share of one bundle's chance given to the others, or to one never seen."""
    others = [other for other in law if other != bundle] or ["never"]
    given = share * law[bundle] / len(others)
    wrong = {other: law.get(other, 0.0) + given for other in others}
    return {**wrong, bundle: (1 - share) * law[bundle]}


@small_decentral
def test_people_are_randomized_independently(protocol: hc.Protocol) -> None:
    """Noise shared between people would show as too many or too few equal neighbors."""
    people = 200_000
    held = enumeration.asked(protocol)[0]
    messages = protocol.randomize(np.full(people, held), hc.SeededSource(5))
    kinds, law = counts_law(protocol, 0)
    # The commonest bundles, and all others as one.
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
        # Every person stands in one pair at most, so the pairs are independent of each other.
        whole = people // (2 * gap) * 2 * gap
        first, second = seen[:whole].reshape(-1, 2, gap).transpose(1, 0, 2).reshape(2, -1)
        found = np.bincount(first * len(chances) + second, minlength=len(chances) ** 2)
        pairs = Counter({divmod(at, len(chances)): int(n) for at, n in enumerate(found) if n})
        assert log_likelihood_ratio(pairs, expected)[1] > ALARM


@small_decentral
def test_unbiased_value_is_unbiased(protocol: hc.Protocol) -> None:
    if protocol.least_copies > 1:
        return  # what the shuffler withholds cannot be made up for: tests of the protocol's own
    for holding in some_datasets(protocol):
        possible = estimates(protocol, holding)
        mean = sum(e.unbiased_value * chance for e, chance in possible)
        assert mean == pytest.approx(truth_of(protocol, holding), abs=1e-9)
        for e, _ in possible:
            assert e.postprocessing or np.array_equal(e.value, e.unbiased_value)


@small_decentral
def test_stated_error_is_that_of_all_outcomes(protocol: hc.Protocol) -> None:
    errors = []
    for holding in some_datasets(protocol):
        truth, possible = truth_of(protocol, holding), estimates(protocol, holding)
        error = math.sqrt(
            np.max(sum(np.square(e.value - truth) * chance for e, chance in possible))
        )
        assert protocol.standard_error(enumeration.held(protocol, holding)) == pytest.approx(
            error, rel=1e-9, abs=1e-9
        )
        errors.append(error)
        stated = [np.square(e.standard_error) for e, _ in possible]
        alike = all(np.array_equal(one, stated[0]) for one in stated)
        spread = sum(np.square(e.value - truth) * chance for e, chance in possible)
        if getattr(protocol, "analyzer", None) == "zero-exact":  # the largest that is possible
            assert all(np.all(one >= spread * (1 - 1e-9)) for one in stated)
        elif alike and protocol.least_copies == 1:  # neither the data nor the shuffler matter
            if numeric(protocol.task):
                assert np.all(stated[0] >= spread * (1 - 1e-9) - 1e-20)  # that of the worst data
            else:
                assert stated[0] == pytest.approx(spread, rel=1e-9)
    everywhere = [
        protocol.standard_error(enumeration.held(protocol, holding))
        for holding in enumeration.datasets(protocol.crowd.users, len(enumeration.asked(protocol)))
    ]
    assert protocol.standard_error() >= max(everywhere) * (1 - 1e-9)
    # Of real numbers, another one than is asked here may be worse by a little.
    near = 1.1 if numeric(protocol.task) else 1 + 1e-9
    assert protocol.standard_error() <= max(everywhere) * near


@sparing_decentral
def test_intervals_cover(protocol: hc.Protocol) -> None:
    @cache
    def interval_of(value: bytes, confidence: float) -> hc.Interval:
        return same[value].interval(confidence)

    same: dict[bytes, hc.Estimate] = {}  # crowds of different data may give the same estimate
    for holding in some_datasets(protocol):
        truth, possible = truth_of(protocol, holding), estimates(protocol, holding)
        for confidence in (0.5, 0.95, 0.999):
            covered: Any = 0.0
            for e, chance in possible:
                value = np.asarray(e.unbiased_value).tobytes()
                same.setdefault(value, e)
                interval = interval_of(value, confidence)
                covered += chance * ((interval.low <= truth) & (truth <= interval.high))
            assert np.min(covered) >= confidence - 1e-12


@small_decentral
def test_guarantee_is_that_of_every_view(protocol: hc.Protocol) -> None:
    promised = protocol.guarantee
    assert promised.epsilon <= protocol.budget.epsilon
    assert promised.delta <= protocol.budget.delta
    assert promised.honest == protocol.crowd.honest
    truth = enumeration.worst_delta(protocol, promised.epsilon)
    a_view = enumeration.neighboring_views(protocol)[0][0]
    off = enumeration.error_of(a_view, promised.epsilon)
    # A float of epsilon is rounded; a pure promise is compared with the ratio it rounds.
    assert truth <= promised.delta + 1e-15 + off
    assert enumeration.worst_delta(protocol, protocol.budget.epsilon) <= protocol.budget.delta + off
    if promised.exact:
        assert truth >= promised.delta * (1 - 1e-9) - off
        pure = promised.delta == 0
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
        # Where the shuffler withholds, the worst crowd is larger than this one.
        if protocol.guarantee.exact and protocol.least_copies == 1:
            assert stated <= truth * (1 + 1e-9) + 1e-15 + off
        # Many at once may be rounded up a little more; chords between a few points, more.
        chords = 1.2 if protocol.least_copies > 1 else 1 + 1e-6
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
    bundled = protocol.bundled_curve.delta(protocol.budget.epsilon)
    assert protocol.curve.delta(protocol.budget.epsilon) <= bundled <= protocol.budget.delta
    # No smaller bundle keeps the budget, and this one does.
    price = (1 + math.exp(protocol.budget.epsilon)) * protocol.crowd.honest
    spare = protocol.budget.delta - protocol.curve.delta(protocol.budget.epsilon)
    assert protocol.randomizer.overflow(protocol.slots) * price <= spare
    assert protocol.slots == 1 or protocol.randomizer.overflow(protocol.slots - 1) * price > spare


@small
def test_bundles_all_have_one_size(protocol: hc.Protocol) -> None:
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
    """Bundles, without their dummies, follow the law of those that fit."""
    if protocol.randomizer.fixed_messages:
        return
    source, people = hc.SeededSource(33), 3000
    # As if a smaller size were private, so that some bundles do not fit; but not too many.
    fits = (size for size in range(1, 20) if 0.05 < protocol.randomizer.overflow(size) < 0.6)
    slots = next(fits, protocol.slots)
    protocol = dataclasses.replace(protocol)
    vars(protocol)["slots"] = slots
    for value, held in enumerate(enumeration.asked(protocol)):
        kinds, law = counts_law(protocol, value)
        kept = [
            protocol.alphabet.messages(protocol.bundle(held, source, slots=slots).payload)
            for _ in range(people)
        ]
        together = hc.Messages(np.concatenate(kept), people, np.array([len(one) for one in kept]))
        fitting = {counts: chance for counts, chance in law.items() if sum(counts) <= slots}
        total = sum(fitting.values())
        fitting = {counts: chance / total for counts, chance in fitting.items()}
        observed = counted(places(protocol, together, kinds, fitting), fitting)
        assert log_likelihood_ratio(observed, fitting)[1] > ALARM


@sparing_small
def test_simulation_and_messages_have_the_law_of_the_tally(protocol: hc.Protocol) -> None:
    users, repetitions = protocol.crowd.users, 3000
    different = len(enumeration.asked(protocol))
    holding = [users // different] * different
    holding[0] += users - sum(holding)
    counts = enumeration.held(protocol, holding)
    law = {
        tally: chance for tally, chance in tally_law(protocol, tuple(holding)).items() if chance > 0
    }
    source = hc.SeededSource(77)
    simulated = Counter(
        tuple(protocol.simulate(counts, source).counts.tolist()) for _ in range(repetitions)
    )
    assert log_likelihood_ratio(simulated, law)[1] > ALARM
    values = values_of(protocol, holding)
    sent = Counter(
        tuple(protocol.tally(shuffled(protocol, values, source)).counts.tolist())
        for _ in range(repetitions)
    )
    assert log_likelihood_ratio(sent, law)[1] > ALARM


def shuffled(protocol: hc.Protocol, values: np.ndarray[Any, Any], source: hc.Source) -> hc.Batch:
    return mixed(protocol, protocol.randomize(values, source), source)


def mixed(protocol: hc.Protocol, messages: hc.Messages, source: hc.Source) -> hc.Batch:
    return hc.shuffle(messages, source, least_copies=protocol.least_copies)


@large
def test_budget_is_met_and_used_at_full_size(protocol: hc.Protocol) -> None:
    promised = protocol.guarantee
    assert promised.epsilon <= protocol.budget.epsilon
    assert promised.delta <= protocol.budget.delta
    if promised.exact and promised.delta:
        assert promised.delta >= 0.99 * protocol.budget.delta
    price = (1 + math.exp(protocol.budget.epsilon)) * protocol.crowd.honest
    known = protocol.curve.delta(protocol.budget.epsilon)
    assert known + price * protocol.randomizer.overflow(protocol.slots) <= protocol.budget.delta


@large
def test_parts_order_and_journey_do_not_matter(protocol: hc.Protocol) -> None:
    source = hc.SeededSource(8)
    held = np.array(enumeration.asked(protocol))
    # A part, where rare messages of a whole crowd would be refused.
    users = protocol.crowd.users - (protocol.least_copies > 1)
    messages = protocol.randomize(held[np.arange(users) % len(held)], source)
    whole = protocol.tally(messages)
    permuted = protocol.tally(hc.shuffle(messages, source))
    people = list(itertools.islice(messages, 50))
    received = [hc.Messages.receive(one.to_bytes(), protocol.alphabet) for one in people]
    for one, other in zip(people, received, strict=True):
        assert np.array_equal(one.payload, other.payload)
    start = sum(len(one.payload) for one in people)
    rest = hc.Messages(messages.payload[start:], messages.users - 50, messages.counts[50:])
    parts = [protocol.tally(part) for part in (hc.Messages.join(received), rest)]
    for tally in (
        permuted,
        parts[0] + parts[1],
        protocol.tally(hc.Messages.join([*received, rest])),
    ):
        assert tally.users == whole.users
        assert np.array_equal(tally.counts, whole.counts)


# Where the mean square of so many normal errors lies but once in ten million times. Errors with
# heavier tails than normal ones, as geometric noise has, spread more.
SPREADS = {
    runs: (float(chi2.ppf(5e-8, runs)) / runs, 1.4 * float(chi2.isf(5e-8, runs)) / runs)
    for runs in (5, 40, 200)
}


@sparing_large
def test_estimates_are_near_the_truth(protocol: hc.Protocol) -> None:
    """Runs of the message path and of simulation: right center, right spread, in every bucket."""
    users, values = protocol.crowd.users, len(enumeration.asked(protocol))
    # Each run of many messages takes a while; fewer of them still see a wrong center.
    sent_each = users * protocol.messages_per_user
    runs = 200 if sent_each < 50_000 else 40 if sent_each < 500_000 else 5
    source = hc.SeededSource(4)
    holding = [users // 3 // (values - 1)] * values
    holding[0] += users - sum(holding)
    truth, counts = truth_of(protocol, holding), enumeration.held(protocol, holding)
    data = values_of(protocol, holding)
    sent = [hc.run(protocol, data, source) for _ in range(runs)]
    simulated = [protocol.estimate(protocol.simulate(counts, source), source) for _ in range(200)]
    # Of sums and means for these data; else as each estimate states it, in each bucket.
    whole = isinstance(protocol.task, hc.Sum | hc.Mean)
    known = protocol.standard_error(counts) if whole else None
    if getattr(protocol, "analyzer", "") == "zero-exact":
        # Its estimates state the largest error that is possible, with the bias of their answers.
        options: dict[str, Any] = {"analyzer": "unbiased"}
        known = dataclasses.replace(protocol, **options).standard_error(counts)
        least = protocol.standard_error(counts) * (1 - 1e-9)
        assert all(np.max(e.standard_error) >= least for e in (*sent, *simulated))
    for found in (sent, simulated):
        z = np.array([(e.unbiased_value - truth) / (known or e.standard_error) for e in found])
        if protocol.least_copies > 1:  # of what is withheld there is no center
            assert all(truth in e.interval(0.999999) for e in found)
            z = z[:, np.all([e.value > 0 for e in found], axis=0)]
        assert np.max(np.abs(z.mean(axis=0)), initial=0.0) * math.sqrt(len(found)) < 5
        low, high = SPREADS[len(found)]
        assert np.all((low < np.mean(z**2, axis=0)) & (np.mean(z**2, axis=0) < high))


def standard(name: str, task: hc.Task, users: int = 200, honest: int | None = None) -> hc.Protocol:
    return hc.protocol(name, task, hc.Budget(1, 1e-3), hc.Crowd(users, honest))


@every
def test_more_people_are_welcome_and_fewer_refused(name: str, task: hc.Task) -> None:
    protocol = standard(name, task)
    if protocol.least_copies > 1:  # cheaters among them could undo the withholding
        with pytest.raises(hc.CrowdMismatch, match="may be dishonest"):
            hc.run(protocol, [1] * 400)
    else:
        assert hc.run(protocol, [1] * 400).users == 400
    with pytest.raises(hc.CrowdMismatch, match="at least 200 people, got 199"):
        hc.run(protocol, [1] * 199)
    for users in (199, 2**60):
        with pytest.raises(hc.CrowdMismatch):
            protocol.estimate(
                hc.Tally(
                    np.full(protocol.estimator.tally_size, 5),
                    users,
                    name,
                    protocol.estimator.tally_modulus,
                )
            )


@every
def test_fewer_honest_people_never_means_less_noise(name: str, task: hc.Task) -> None:
    everyone, some = standard(name, task, 1000), standard(name, task, 1000, 500)
    assert some.guarantee.honest == 500
    assert some.standard_error() >= everyone.standard_error()


@every
def test_protocols_are_values(name: str, task: hc.Task) -> None:
    protocol = standard(name, task)
    assert protocol == standard(name, task)
    assert hash(protocol) == hash(standard(name, task))
    with pytest.raises(dataclasses.FrozenInstanceError):
        protocol.budget = hc.Budget(2)  # type: ignore[misc]
    assert protocol.name == name
    assert name.split(".", maxsplit=1)[0] == protocol.trust
    assert protocol.bits_per_message >= 1
    assert all(math.isfinite(value) for value in protocol.parameters.values())


@every
@pytest.mark.parametrize(
    "values",
    [
        [0, 1, 3],
        [0, -1.5],
        [0.5, 2.5],
        [float("nan")],
        [float("inf")],
        ["1"],
        [None],
        [],
        [[0, 1]],
        [[0], [0, 1]],
        3,
        "101",
        [2**70],
        np.array([300], dtype=np.uint16),
        np.array([1 + 0j]),
    ],
    ids=str,
)
def test_bad_values_are_refused(name: str, task: hc.Task, values: Any) -> None:
    protocol = standard(name, task)
    with pytest.raises(hc.InvalidValue) as caught:
        protocol.randomize(values, hc.SeededSource(1))
    assert caught.value.code == "invalid-value"
    assert "must be" in caught.value.message


@every
def test_bad_messages_tallies_and_counts_are_refused(name: str, task: hc.Task) -> None:
    protocol = standard(name, task)
    for wrong in (np.array([7], np.int64), np.array([1.0]), np.ones((2, 7), np.uint8)):
        with pytest.raises(hc.InvalidValue):
            protocol.tally(hc.Batch(wrong, 200))
    right = np.full(protocol.estimator.tally_size, 1)
    for counts in (-right, np.append(right, 1)):
        with pytest.raises(hc.InvalidValue):
            protocol.estimate(hc.Tally(counts, 200, name, protocol.estimator.tally_modulus))
    with pytest.raises(hc.InvalidValue, match="must be of"):
        protocol.estimate(hc.Tally(right, 200, "another", protocol.estimator.tally_modulus))
    with pytest.raises(hc.InvalidValue, match="modulo"):
        protocol.estimate(hc.Tally(right, 200, name, 12345))
    lists = ([1], [1, 2, 3, 4], [-1, 5, 5], [-1, 5], [0, 0], [0.5, 1.5], "ab", None)
    for people in (*lists, {}, {7: 300}, {0: -1, 1: 300}, {0: 0}, {0: 200.5}, {"a": 300}):
        with pytest.raises(hc.InvalidValue):
            protocol.simulate(typing.cast(Any, people), hc.SeededSource(1))


@every
def test_bad_options_are_refused(name: str, task: hc.Task) -> None:
    budget, crowd = hc.Budget(1, 1e-3), hc.Crowd(200)
    with pytest.raises(hc.UnknownName, match="takes the options calibration"):
        hc.protocol(name, task, budget, crowd, colour="red")
    with pytest.raises(hc.InvalidParameter, match="`calibration` must be one of exact, paper"):
        hc.protocol(name, task, budget, crowd, calibration="guess")
    wrong: Any = 1.0
    with pytest.raises(hc.InvalidParameter, match="`budget` must be a Budget"):
        hc.protocol(name, task, wrong, crowd)
    with pytest.raises(hc.InvalidParameter, match="`crowd` must be a Crowd"):
        hc.protocol(name, task, budget, wrong)
    with pytest.raises(hc.InvalidParameter, match="`task` must be a Task"):
        hc.protocol(name, wrong, budget, crowd)
