"""Audits: known exact values, and broken mechanisms that must be found."""

import math
import os
import signal
import sys
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import enumeration
import headcount as hc
from broken_mechanisms import BATTERY, TRUTH, Broken
from broken_protocols import PROTOCOLS, VIEWS, BrokenProtocol
from headcount.auditor.bounds import lower_chance, upper_chance
from headcount.auditor.events import best_event
from headcount.auditor.features import last_bits, same
from headcount.auditor.losses import least_loss
from headcount.auditor.view import View
from headcount.auditor.views import neighbors, view_of

THIRD = Fraction(1, 3)


# Exact ----------------------------------------------------------------------------------------


def response(value: int) -> dict[Any, Fraction]:
    """Randomized response with e^ε = 2."""
    return {((value, 1),): 2 * THIRD, ((1 - value, 1),): THIRD}


def test_losses_are_those_of_the_worst_event() -> None:
    law = {"a": Fraction(1, 2), "b": Fraction(1, 4), "c": Fraction(1, 4)}
    other = {"a": Fraction(1, 4), "b": Fraction(1, 4), "c": Fraction(1, 2)}
    pure = least_loss(law, other, Fraction(0))
    assert pure.ratio == 2
    assert pure.event == ("a",)
    loose = least_loss(law, other, Fraction(1, 8))
    assert loose.ratio == Fraction(3, 2)
    assert least_loss(law, other, Fraction(1, 4)).epsilon == 0
    missing = least_loss(law, {"b": Fraction(1)}, Fraction(1, 2))
    assert missing.epsilon == math.inf
    assert set(missing.event) == {"a", "c"}
    assert least_loss(law, {"b": Fraction(1)}, Fraction(3, 4)).epsilon == 0


def test_single_messages_gain_nothing_of_pure_privacy() -> None:
    """Everybody except the replaced person holds one value. A view of equal messages has the ratio
    of the randomizer.
    """
    for users in range(1, 7):
        found = hc.exact_audit(response, [0, 1], users=users, view="shuffle")
        assert found.loss.ratio == 2
    assert hc.exact_audit(response, [0, 1], view="local").loss.ratio == 2


def test_both_bits_are_private_only_when_shuffled() -> None:
    def both(value: int) -> dict[Any, Fraction]:
        return {((value, 1), (1 - value, 1)): Fraction(1)}

    def in_order(value: int) -> dict[Any, Fraction]:
        return {(((value, 1 - value), 1),): Fraction(1)}

    for users in (1, 2, 4):
        assert hc.exact_audit(both, [0, 1], users=users, view="shuffle").epsilon == 0
    assert hc.exact_audit(in_order, [0, 1], view="local").epsilon == math.inf


def gap(value: int) -> dict[Any, Fraction]:
    """Four bits: all strings, or all strings that do not have exactly two ones."""
    chances = {ones: Fraction(math.comb(4, ones), 16) for ones in range(5)}
    if value:
        chances = {ones: chance * Fraction(16, 10) for ones, chance in chances.items() if ones != 2}
    return {
        tuple((bit, count) for bit, count in ((0, 4 - ones), (1, ones)) if count): chance
        for ones, chance in chances.items()
    }


def test_a_randomizer_that_needs_a_crowd() -> None:
    """One person's messages reveal the value. With two people or more, some ε is enough."""
    assert hc.exact_audit(gap, [0, 1], users=1, view="shuffle").epsilon == math.inf
    several = [
        hc.exact_audit(gap, [0, 1], users=users, view="shuffle").epsilon for users in (2, 3, 4)
    ]
    assert all(math.isfinite(epsilon) for epsilon in several)
    uniform, never_two = (
        np.array([Fraction(weight, total) for weight in weights])
        for weights, total in (([1, 4, 6, 4, 1], 16), ([1, 4, 0, 4, 1], 10))
    )
    views = [
        np.convolve(one, other)
        for one, other in ((uniform, uniform), (uniform, never_two), (never_two, never_two))
    ]
    ratios = [max(a / b, b / a) for pair in pairwise(views) for a, b in zip(*pair, strict=True)]
    assert hc.exact_audit(gap, [0, 1], users=2, view="shuffle").loss.ratio == max(ratios)


SMALL = [
    ("local.k-ary", hc.Histogram(3), 4),
    ("local.unary-symmetric", hc.Histogram(3), 3),
    ("shuffle.randomized-response", hc.Count(), 8),
    ("shuffle.zero-exact", hc.Count(), 8),
    ("shuffle.sample-threshold", hc.Histogram(3), 6),
    ("shuffle.k-ary", hc.Histogram(3), 5),
]


@pytest.mark.parametrize(("name", "task", "users"), SMALL, ids=[case[0] for case in SMALL])
def test_registered_protocols_are_as_enumerated(name: str, task: hc.Task, users: int) -> None:
    protocol = hc.protocol(name, task, hc.Budget(1, 0.05), hc.Crowd(users))
    found = hc.exact_audit(protocol)
    assert not found.refuted
    assert found.epsilon <= 1 + 1e-9
    if protocol.trust is hc.Trust.SHUFFLE:
        curve = max(
            enumeration.hockey_stick(
                enumeration.crowd_view(protocol, one), enumeration.crowd_view(protocol, other), 0.5
            )
            for one in enumeration.datasets(users, task.domain)
            for other in enumeration.datasets(users, task.domain)
            if sum(map(abs, np.subtract(one, other))) == 2
        )
        at_half = hc.exact_audit(protocol, delta=float(curve) * 1.0001, claim=0.5)
        assert at_half.epsilon <= 0.5 + 1e-6
        less = hc.exact_audit(protocol, delta=float(curve) * 0.99, claim=0.5)
        assert less.epsilon > 0.5
    else:
        assert found.epsilon == pytest.approx(protocol.local_epsilon, abs=1e-12)


def test_what_is_asked_of_a_protocol_is_what_is_answered() -> None:
    protocol = hc.protocol("shuffle.k-ary", hc.Histogram(3), hc.Budget(1, 0.05), hc.Crowd(5))
    pure, loose = hc.exact_audit(protocol, delta=0.0), hc.exact_audit(protocol, delta=0.2)
    assert pure.epsilon == pytest.approx(protocol.local_epsilon, abs=1e-9)
    assert loose.epsilon < hc.exact_audit(protocol).epsilon < pure.epsilon
    for found in (pure, loose):
        assert found.claim is not None
        assert found.epsilon <= found.claim * (1 + 1e-9)
    whole = hc.protocol("local.one-bit-mean", hc.Sum(0, 3, whole=True), hc.Budget(1), hc.Crowd(3))
    assert hc.exact_audit(whole).epsilon == pytest.approx(whole.local_epsilon, abs=1e-9)
    real = hc.protocol("local.one-bit-mean", hc.Mean(0, 3), hc.Budget(1), hc.Crowd(3))
    with pytest.raises(hc.InvalidParameter, match="for a task with more than 64 values"):
        hc.exact_audit(real)
    assert hc.exact_audit(real, [0.0, 3.0]).epsilon == pytest.approx(real.local_epsilon, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "task", "users"),
    [
        ("central.geometric", hc.Count(), 4),
        ("central.laplace", hc.Count(), 2),
        ("central.geometric", hc.Sum(0, 3, whole=True), 3),
        ("central.geometric", hc.Histogram(3), 2),
    ],
)
def test_releases_of_a_curator_are_audited_exactly(name: str, task: hc.Task, users: int) -> None:
    protocol = hc.protocol(name, task, hc.Budget(0.7), hc.Crowd(users))
    found = hc.exact_audit(protocol)
    assert found.view is View.CENTRAL
    assert not found.refuted
    assert found.epsilon == pytest.approx(0.7, abs=1e-9)
    assert hc.exact_audit(protocol, claim=0.69).refuted


def test_a_release_of_your_own_is_a_law_of_the_dataset() -> None:
    """The first person's value is revealed with a chance of 1/3, and the last person's never."""

    def first(data: tuple[int, ...]) -> dict[Any, Fraction]:
        law = {0: THIRD, 1: THIRD}
        return {**law, data[0]: law[data[0]] + THIRD}

    found = hc.exact_audit(first, [0, 1], users=3, view="central")
    assert found.loss.ratio == 2
    assert found.dataset[1:] == found.neighbor[1:]
    assert found.dataset[0] != found.neighbor[0]
    with pytest.raises(hc.InvalidParameter, match="at most 4096 datasets"):
        hc.exact_audit(first, [0, 1], users=20, view="central")


def test_claims_below_the_truth_are_refuted_with_datasets_that_show_it() -> None:
    found = hc.exact_audit(response, [0, 1], users=3, view="shuffle", claim=0.6)
    assert found.refuted
    assert sorted(map(abs, np.subtract(found.dataset, found.neighbor))) == [0, 0, 1]
    shown = found.to_dict()
    assert shown["chance"] / shown["other_chance"] == pytest.approx(2)


@pytest.mark.parametrize(
    ("law", "values", "settings", "message"),
    [
        (response, [0], {}, "`values` must be 2 to 64"),
        (lambda _: {((0, 1),): Fraction(1, 2)}, [0, 1], {}, "add up to 1"),
        (lambda _: {((0, 1),): 1.0}, [0, 1], {}, "fractions"),
        (
            lambda x: {((0, 1),): Fraction(2 - x), ((1, 1),): Fraction(x - 1)},
            [0, 1],
            {},
            "negative",
        ),
        (lambda _: None, [0, 1], {}, "a law must be given for 0"),
        (lambda _: {5: Fraction(1)}, [0, 1], {}, "each outcome must have the form"),
        (response, 5, {}, "`values` must be 2 to 64"),
        (response, [[1], [2]], {}, "`values` must be 2 to 64"),
        (5, [0, 1], {}, "`target` must be"),
        (response, [0, 1], {"claim": "x"}, "`claim` must be"),
        (response, [0, 1], {"view": "central"}, "`users` must be"),
        (response, [0, 1], {"view": "cloud"}, "`view` must be one of"),
        (response, [0, 1], {"view": "shuffle", "users": 1000}, "`users` must be between"),
    ],
)
def test_bad_exact_audits_are_refused(
    law: Any, values: list[int], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(hc.InvalidParameter, match=message):
        hc.exact_audit(law, values, **settings)


# Empirical ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("hits", "runs"), [(0, 50), (3, 50), (25, 50), (50, 50), (700, 1000)])
def test_bounds_are_those_of_clopper_and_pearson(hits: int, runs: int) -> None:
    wrong = 0.01
    low, high = lower_chance(hits, runs, wrong), upper_chance(hits, runs, wrong)
    assert low <= hits / runs <= high
    if hits:
        assert binom.sf(hits - 1, runs, low) == pytest.approx(wrong, rel=1e-6)
    if hits < runs:
        assert binom.cdf(hits, runs, high) == pytest.approx(wrong, rel=1e-6)


generator = np.random.default_rng(19)


def coin(value: int, runs: int) -> Any:
    return np.where(generator.random(runs) < TRUTH, value, 1 - value)


def geometric_count(data: list[int], runs: int) -> Any:
    up, down = (generator.geometric(1 - 1 / math.e, runs) for _ in range(2))
    return sum(data) + up - down


def test_the_bound_comes_near_the_truth() -> None:
    found = hc.audit(coin, [(0, 1)], claim=1.0, runs=10**6, batch=True)
    assert 0.97 < found.epsilon < 1
    assert not found.refuted
    assert found.runs > 900_000


def test_bounds_are_wrong_as_seldom_as_they_say() -> None:
    """At 80 % confidence, 300 audits of a true claim may refute about 60. Here they refute far
    fewer.
    """
    wrong = [
        hc.audit(coin, [(0, 1)], claim=1.0, runs=4000, confidence=0.8, batch=True).refuted
        for _ in range(300)
    ]
    assert sum(wrong) <= 90


every = pytest.mark.parametrize(
    "broken",
    [*BATTERY, *VIEWS],
    ids=[*(f"{b.name}" for b in BATTERY), *(f"our {b.name}" for b in VIEWS)],
)


def judged(broken: Broken, run: Any, confidence: float) -> hc.Audit:
    return hc.audit(
        run,
        [broken.datasets],
        claim=broken.claim,
        delta=broken.delta,
        runs=broken.runs,
        confidence=confidence,
        batch=True,
    )


@every
def test_broken_mechanisms_are_refuted(broken: Broken) -> None:
    found = judged(broken, broken.run, 0.999)
    assert found.refuted, found
    assert found.epsilon > broken.claim
    assert found.to_dict()["event"] == found.event


@every
def test_their_sound_twins_are_not(broken: Broken) -> None:
    """Otherwise the audit would have found something other than the fault."""
    found = judged(broken, broken.sound, 1 - 1e-7)
    assert not found.refuted, found


@pytest.mark.parametrize("broken", PROTOCOLS, ids=lambda broken: broken.name)
def test_our_own_code_with_a_fault_is_refuted(broken: BrokenProtocol) -> None:
    asked: dict[str, Any] = {"claim": broken.claim, "delta": broken.sound.guarantee.delta}
    asked |= {"datasets": [broken.datasets], "runs": 40_000, "source": hc.SeededSource(5)}
    assert hc.audit(broken.protocol, confidence=0.999, **asked).refuted
    assert not hc.audit(broken.sound, confidence=1 - 1e-7, **asked).refuted


@pytest.mark.parametrize(
    ("run", "datasets"), [(coin, (0, 1)), (geometric_count, ([0, 1, 1], [0, 0, 1]))]
)
def test_sound_mechanisms_are_not(run: Any, datasets: Any) -> None:
    found = hc.audit(run, [datasets], claim=1.0, runs=200_000, confidence=0.999999, batch=True)
    assert not found.refuted
    assert found.epsilon > 0.9


def test_what_delta_allows_is_not_held_against_a_mechanism() -> None:
    """The mechanism reveals the value with a chance of 0.3, and nothing else."""

    def telling(value: int, runs: int) -> Any:
        told = generator.random(runs) < 0.3
        return np.where(told, value, generator.integers(0, 2, runs))

    asked: dict[str, Any] = {"runs": 100_000, "confidence": 0.999999, "batch": True}
    assert not hc.audit(telling, [(0, 1)], claim=0.01, delta=0.3, **asked).refuted
    assert hc.audit(telling, [(0, 1)], claim=0.01, delta=0.25, **asked).refuted


def test_one_person_changes_between_any_two_values() -> None:
    """Moving a tick from one box to another shows twice as much as adding one."""
    boxes = hc.protocol(
        "central.geometric", hc.Boxes(["a", "b"], at_most=1), hc.Budget(1), hc.Crowd(12)
    )
    pairs = neighbors(boxes, View.CENTRAL)
    assert {frozenset((one[-1], other[-1])) for one, other in pairs} == {
        frozenset(pair) for pair in [(0, 1), (0, 2), (1, 2)]
    }
    moved = [pair for pair in pairs if {pair[0][-1], pair[1][-1]} == {1, 2}]
    found = hc.audit(boxes, moved[:1], claim=0.6, runs=16_000, source=hc.SeededSource(1))
    assert found.refuted


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_large_datasets_are_shown_on_one_line(kind: Any) -> None:
    one, other = kind([1] + [0] * 999), kind([0] * 1000)
    found = hc.audit(lambda held: int(sum(held) > 0), [(one, other)], claim=1, runs=1000)
    assert "for [1, 999 × 0]" in str(found)
    assert "for [1,000 × 0]" in str(found)
    mixed = kind([0, 1] * 500)
    found = hc.audit(lambda held: int(sum(held) > 0), [(mixed, other)], claim=1, runs=1000)
    assert "for 1,000 values, " in str(found)
    assert max(map(len, str(found).splitlines())) < 200


def test_mechanisms_that_are_called_once_a_run_and_several_pairs() -> None:
    source = np.random.default_rng(9)

    def lying(data: list[int]) -> list[int]:
        return [bit ^ (source.random() > 0.9) for bit in data]

    same, different = ([0, 0], [0, 0]), ([0, 0], [0, 1])
    found = hc.audit(lying, [same, different], claim=1.0, runs=20_000)
    assert found.refuted
    assert {tuple(found.dataset), tuple(found.neighbor)} == {(0, 0), (0, 1)}


Base = Callable[[np.random.Generator, int, int], Any]


def a_response(generator: np.random.Generator, value: int, runs: int) -> Any:
    return np.where(generator.random(runs) < TRUTH, value, 1 - value)


def whole_noise(generator: np.random.Generator, value: int, runs: int) -> Any:
    up, down = (generator.geometric(1 - 1 / math.e, runs) for _ in range(2))
    return value + up - down


def real_noise(generator: np.random.Generator, value: int, runs: int) -> Any:
    return np.rint((value + generator.laplace(0, 1, runs)) * 2**20) / 2**20


def with_words(generator: np.random.Generator, value: int, runs: int) -> Any:
    """Each run has its own word beside the answer, so few outputs are ever equal."""
    words = generator.integers(0, 10 * runs, runs).tolist()
    answers = a_response(generator, value, runs).tolist()
    return [(answer, f"word {word}") for answer, word in zip(answers, words, strict=True)]


@pytest.mark.parametrize(
    ("base", "secret"),
    [
        *((base, 777) for base in (a_response, whole_noise, real_noise, with_words)),
        *((a_response, secret) for secret in (None, "told", (), math.nan)),
    ],
)
def test_leaks_are_found_as_often_as_stated(base: Base, secret: Any) -> None:
    """A leak is planted with exactly the stated chance, in a mechanism that keeps the claim. It is
    rare, so all other events look better.
    """
    asked: dict[str, Any] = {"claim": 1.0, "runs": 2000, "batch": True}

    def audited(seed: int, chance: float) -> hc.Audit:
        source = np.random.default_rng(seed)

        def leaky(value: int, runs: int) -> Any:
            outputs = list(base(source, value, runs))
            for at in np.flatnonzero(value * source.random(runs) > 1 - chance):
                outputs[at] = secret
            return outputs

        return hc.audit(leaky, [(0, 1)], **asked)

    chance = audited(0, 0.0).smallest_leak
    assert chance is not None
    assert 0.03 < chance < 0.07
    found = [audited(seed, chance).refuted for seed in range(30)]
    assert sum(found) >= 27


@pytest.mark.parametrize(("claim", "delta"), [(1.0, 0.0), (1.0, 0.02), (3.0, 0.0), (0.1, 0.0)])
def test_violations_are_found_as_often_as_stated(claim: float, delta: float) -> None:
    asked: dict[str, Any] = {"claim": claim, "delta": delta, "runs": 8000, "batch": True}

    def audited(seed: int, lie: float, leak: float) -> hc.Audit:
        source = np.random.default_rng(seed)

        def broken(value: int, runs: int) -> Any:
            outputs = np.where(source.random(runs) < lie, 1 - value, value)
            return np.where(value * source.random(runs) > 1 - leak, 7, outputs)

        return hc.audit(broken, [(0, 1)], **asked)

    stated = audited(0, 0.5, 0.0)
    assert stated.smallest_seen is not None
    assert stated.smallest_leak is not None
    lie = (1 - delta) / (1 + math.exp(stated.smallest_seen))
    assert sum(audited(seed, lie, 0.0).refuted for seed in range(100)) >= 90
    sound = 1 / (1 + math.exp(claim))
    assert sum(audited(seed, sound, stated.smallest_leak).refuted for seed in range(100)) >= 90


def test_a_leak_of_one_in_a_thousand_is_found() -> None:
    """The audit has 100,000 runs. An earlier version missed the leak in most audits."""
    for seed in range(6):
        source = np.random.default_rng(seed)

        def leaky(value: int, runs: int, source: np.random.Generator = source) -> Any:
            told = source.random(runs) < 0.001
            return np.where(told, 2 + value, a_response(source, value, runs))

        found = hc.audit(leaky, [(0, 1)], claim=1.0, runs=100_000, batch=True)
        assert found.refuted
        assert found.event in ("output 2", "output 3")


def test_too_few_runs_promise_nothing() -> None:
    found = hc.audit(coin, [(0, 1)], claim=8.0, runs=1000, batch=True)
    assert found.smallest_seen == math.inf
    assert found.smallest_leak == math.inf
    assert (found.to_dict()["smallest_seen"], found.to_dict()["power"]) == (None, 0.9)
    assert "of such audits: no randomized response" in str(found)


def test_outputs_that_are_equal_and_no_others_are_the_same() -> None:
    """-1 and -2 have the same hash, and two NaNs are not equal."""
    assert len(set(same([[-1], [-2], (-1,), "-1", [math.nan], [float("nan")]]))) == 4


def test_what_was_not_seen_at_first_is_no_error() -> None:
    """One of 500 runs gives an answer of another kind."""
    for other in (None, "word", (), 0.5, 10**20, [1]):
        source = np.random.default_rng(4)
        for usual in (0, 0.25, [1, 2], "yes"):

            def moody(
                _: int, source: np.random.Generator = source, usual: Any = usual, other: Any = other
            ) -> Any:
                return other if source.random() < 0.002 else usual

            assert not hc.audit(moody, [(0, 1)], claim=0.1, runs=1000).refuted


@pytest.mark.parametrize("view", ["local", "shuffle", "central"])
@pytest.mark.parametrize("batch", [False, True])
def test_what_says_nothing_is_not_audited(view: str, batch: bool) -> None:
    def silent(_: Any, runs: int = 0) -> Any:
        return [None] * runs if batch else None

    with pytest.raises(hc.InvalidParameter, match="must give something, got None"):
        hc.audit(silent, [([0], [1])], claim=1.0, view=view, runs=1000, batch=batch)
    law = {None: Fraction(1)} if view == "central" else {((None, 1),): Fraction(1)}
    with pytest.raises(hc.InvalidParameter, match="an outcome that is not None, got only None"):
        hc.exact_audit(lambda _: law, [0, 1], users=2, view=view)


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        (lambda _: [{}], "numbers, words or lists of them"),
        (lambda _: object(), "numbers, words or lists of them"),
        (lambda _: 10**400, "that a float can hold, got a number of 1329 bits"),
        (lambda _: [1, [10**5000]], "that a float can hold"),
        (lambda _: sys.exit(3), "got SystemExit: 3"),
        (lambda _: 1 / 0, "got ZeroDivisionError"),
    ],
)
def test_outputs_that_cannot_be_read(mechanism: Any, message: str, parallel: bool) -> None:
    with pytest.raises(hc.InvalidParameter, match=message):
        hc.audit(mechanism, [(0, 1)], claim=1.0, runs=1000, parallel=parallel)


class Unwilling:
    """An object that can be pickled but not unpickled."""

    def __reduce__(self) -> Any:
        return int, ("no number",)


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        (lambda _: os._exit(0), "must not stop the process that runs it, got exit status 0"),
        (lambda _: os._exit(7), "got exit status 7"),
        (lambda _: os.kill(os.getpid(), signal.SIGKILL), "got signal 9"),
        (lambda _: Unwilling(), "a mechanism must give outputs, got ValueError"),
    ],
)
def test_a_side_that_dies_is_reported(mechanism: Any, message: str) -> None:
    with pytest.raises(hc.InvalidParameter, match=message):
        hc.audit(mechanism, [(0, 1)], claim=1.0, runs=1000, parallel=True)


def test_features_find_what_tells() -> None:
    noise = np.random.default_rng(2).laplace(0, 1, 4000)
    event = best_event(noise[:2000], 1 + noise[2000:], 0.0)
    assert event.feature.name == "last bits"
    assert last_bits(np.array([1.0, 0.5, 0.75, 3.0, 2.0**-60])).tolist() == [0, -1, -2, 0, -60]


def test_many_numbers_that_tell_a_little_each_are_put_together() -> None:
    """Some numbers rise and some fall, so neither a single number nor their sum shows much. All are
    whole, since the last bits of floats would show everything.
    """
    drawn = np.rint(np.random.default_rng(3).normal(0, 10, (2, 4000, 6))).astype(int)
    event = best_event(drawn[0], drawn[1] + [4, -4] * 3, 0.0)
    assert event.feature.name == "odds of all numbers"
    alone = best_event(drawn[0][:, 0], drawn[1][:, 0] + 4, 0.0)
    assert event.expected_epsilon > 2 * alone.expected_epsilon


def test_estimates_are_seen_beside_messages() -> None:
    """Noise messages cancel in pairs, so their counts alone show less than the estimate."""
    name = "shuffle.correlated-histogram"
    protocol = hc.protocol(name, hc.Histogram(3), hc.Budget(1, 0.05), hc.Crowd(12))
    seen = np.asarray(view_of(protocol, View.SHUFFLE, hc.SeededSource(1))([0] * 12, 50))
    assert seen.shape == (50, 9)
    counts = seen[:, 0:6:2] - seen[:, 1:6:2]
    excess = (counts.sum(axis=1, keepdims=True) - 12) / 3  # the number of people is known
    assert seen[:, 6:] == pytest.approx(counts - excess)
    hashing = hc.protocol("local.hashing", hc.Histogram(3), hc.Budget(1), hc.Crowd(12))
    supported = np.asarray(view_of(hashing, View.LOCAL, hc.SeededSource(1))(1, 2000))[:, -3:]
    assert set(np.unique(supported)) == {0, 1}
    assert supported[:, 1].mean() > supported[:, 0].mean() + 0.02


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"claim": -1.0}, "ε ≥ 0"),
        ({"claim": 1.0, "delta": 1.0}, "δ in"),
        ({"claim": 1.0, "runs": 10}, "`runs` must be between"),
        ({"claim": 1.0, "confidence": 1.0}, "strictly between"),
        ({"claim": 1.0, "datasets": []}, "pairs of neighbors"),
        ({"claim": 1.0, "datasets": [0, 1]}, "pairs of neighbors"),
        ({"claim": 1.0, "datasets": 5}, "pairs of neighbors"),
        ({"claim": 1.0, "datasets": "ab"}, "pairs of neighbors"),
        ({"claim": 1.0, "view": "shuffle"}, "lists of people's values in this view"),
        ({"claim": 1.0, "view": "shuffle", "datasets": [([], [1])]}, "lists of people's values"),
    ],
)
def test_bad_audits_are_refused(settings: dict[str, Any], message: str) -> None:
    asked = {"datasets": [(0, 1)], **settings}
    pairs = asked.pop("datasets")
    with pytest.raises(hc.InvalidParameter, match=message):
        hc.audit(coin, pairs, batch=True, **asked)
