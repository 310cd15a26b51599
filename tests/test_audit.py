"""The audit lab: exact values that are known, and everything broken is found."""

import math
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
from headcount.auditor.bounds import lower_chance, lower_epsilon, smallest_seen, upper_chance
from headcount.auditor.events import best_event
from headcount.auditor.losses import least_loss
from headcount.auditor.readings import last_bits
from headcount.auditor.views import view_of

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
    """All hold one value but the replaced: all messages alike have the ratio of the randomizer."""
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
    """Four bits: all strings, or never exactly two ones."""
    chances = {ones: Fraction(math.comb(4, ones), 16) for ones in range(5)}
    if value:
        chances = {ones: chance * Fraction(16, 10) for ones, chance in chances.items() if ones != 2}
    return {
        tuple((bit, count) for bit, count in ((0, 4 - ones), (1, ones)) if count): chance
        for ones, chance in chances.items()
    }


def test_a_randomizer_that_needs_a_crowd() -> None:
    """Alone it gives itself away; with two people or more some ε is enough."""
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
    with pytest.raises(hc.InvalidParameter, match="where there is no list"):
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
    assert found.view is hc.Trust.CENTRAL
    assert not found.refuted
    assert found.epsilon == pytest.approx(0.7, abs=1e-9)
    assert hc.exact_audit(protocol, claim=0.69).refuted


def test_a_release_of_your_own_is_a_law_of_the_dataset() -> None:
    """Whoever comes first is told with a chance of 1/3, whoever comes last never."""

    def first(data: tuple[int, ...]) -> dict[Any, Fraction]:
        law = {0: THIRD, 1: THIRD}
        return {**law, data[0]: law[data[0]] + THIRD}

    found = hc.exact_audit(first, [0, 1], users=3, view="central")
    assert found.loss.ratio == 2
    assert found.dataset[1:] == found.neighbor[1:]
    assert found.dataset[0] != found.neighbor[0]
    with pytest.raises(hc.InvalidParameter, match="datasets at most"):
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
        (lambda _: {5: Fraction(1)}, [0, 1], {}, "a law must be of messages"),
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
    """At 80 % confidence 300 audits of a true claim may refute some 60, and here far fewer."""
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
    """Else it would not be the fault that was found."""
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
    """It tells the value with a chance of 0.3, and nothing else."""

    def telling(value: int, runs: int) -> Any:
        told = generator.random(runs) < 0.3
        return np.where(told, value, generator.integers(0, 2, runs))

    asked: dict[str, Any] = {"runs": 100_000, "confidence": 0.999999, "batch": True}
    assert not hc.audit(telling, [(0, 1)], claim=0.01, delta=0.3, **asked).refuted
    assert hc.audit(telling, [(0, 1)], claim=0.01, delta=0.25, **asked).refuted


def test_mechanisms_that_are_called_once_a_run_and_several_pairs() -> None:
    source = np.random.default_rng(9)

    def lying(data: list[int]) -> list[int]:
        return [bit ^ (source.random() > 0.9) for bit in data]

    same, different = ([0, 0], [0, 0]), ([0, 0], [0, 1])
    found = hc.audit(lying, [same, different], claim=1.0, runs=20_000)
    assert found.refuted
    assert {tuple(found.dataset), tuple(found.neighbor)} == {(0, 0), (0, 1)}


def test_what_could_have_been_seen() -> None:
    seen = smallest_seen(1.0, 0.0, 100_000, 0.01)
    assert 1 < seen < 1.05
    lie = 1 / (1 + math.exp(seen))
    hits = round(100_000 * (1 - lie))
    assert lower_epsilon(hits, 100_000 - hits, 100_000, 0, 0.01) == pytest.approx(1, abs=1e-3)
    assert smallest_seen(1.0, 0.0, 100, 0.01) > 1.3


def test_readings_find_what_tells() -> None:
    noise = np.random.default_rng(2).laplace(0, 1, 4000)
    event = best_event(noise[:2000], 1 + noise[2000:], 0.0)
    assert event.reading.name == "last bits"
    assert last_bits(np.array([1.0, 0.5, 0.75, 3.0, 2.0**-60])).tolist() == [0, -1, -2, 0, -60]


def test_many_numbers_that_tell_a_little_each_are_put_together() -> None:
    """Some rise and some fall, so that neither one of them nor their sum shows much. All are whole:
    last bits of floats would show everything.
    """
    drawn = np.rint(np.random.default_rng(3).normal(0, 10, (2, 4000, 6))).astype(int)
    event = best_event(drawn[0], drawn[1] + [4, -4] * 3, 0.0)
    assert event.reading.name == "odds of all numbers,"
    alone = best_event(drawn[0][:, 0], drawn[1][:, 0] + 4, 0.0)
    assert event.promise > 2 * alone.promise


def test_estimates_are_seen_beside_messages() -> None:
    """Messages of noise cancel in pairs: their numbers alone show less than what is left."""
    name = "shuffle.correlated-histogram"
    protocol = hc.protocol(name, hc.Histogram(3), hc.Budget(1, 0.05), hc.Crowd(12))
    seen = np.asarray(view_of(protocol, hc.Trust.SHUFFLE, hc.SeededSource(1))([0] * 12, 50))
    assert seen.shape == (50, 9)
    assert np.array_equal(seen[:, 6:], seen[:, 0:6:2] - seen[:, 1:6:2])
    hashing = hc.protocol("local.hashing", hc.Histogram(3), hc.Budget(1), hc.Crowd(12))
    supported = np.asarray(view_of(hashing, hc.Trust.LOCAL, hc.SeededSource(1))(1, 2000))[:, -3:]
    assert set(np.unique(supported)) == {0, 1}
    assert supported[:, 1].mean() > supported[:, 0].mean() + 0.02


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"claim": -1.0}, "ε ≥ 0"),
        ({"claim": 1.0, "delta": 1.0}, "δ in"),
        ({"claim": 1.0, "runs": 10}, "`runs` must be between"),
        ({"claim": 1.0, "confidence": 1.0}, "strictly in"),
        ({"claim": 1.0, "datasets": []}, "pairs of neighbors"),
    ],
)
def test_bad_audits_are_refused(settings: dict[str, Any], message: str) -> None:
    asked = {"datasets": [(0, 1)], **settings}
    pairs = asked.pop("datasets")
    with pytest.raises(hc.InvalidParameter, match=message):
        hc.audit(coin, pairs, batch=True, **asked)
