"""Sample and threshold, compared with the full law of small views and sums over larger ones."""

import math
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from math import comb
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

import headcount as hc
from enumeration import exactly, hockey_stick
from headcount import InvalidParameter
from headcount.accounting.composition import compose
from headcount.accounting.sampling import (
    MOST_THRESHOLD,
    ThresholdCurve,
    closed_form,
    least_threshold,
    threshold_delta,
)

MANY = 10**9
View = dict[tuple[int, ...], Fraction]


def rate_of(alpha: float, epsilon: float) -> Fraction:
    return Fraction(int(alpha * (1 - math.exp(-epsilon)) * 2**64), 2**64)


# Judges -------------------------------------------------------------------------------------


@cache
def bucket(people: int, rate: Fraction, threshold: int) -> dict[int, Fraction]:
    law: dict[int, Fraction] = defaultdict(Fraction)
    for seen in range(people + 1):
        chance = comb(people, seen) * rate**seen * (1 - rate) ** (people - seen)
        law[seen if seen >= threshold else 0] += chance
    return dict(law)


@cache
def exact_view(counts: tuple[int, ...], rate: Fraction, threshold: int) -> View:
    """The law of all buckets together, in rational numbers."""
    laws = [bucket(count, rate, threshold).items() for count in counts]
    return {
        tuple(seen for seen, _ in outcome): math.prod((x for _, x in outcome), start=Fraction(1))
        for outcome in product(*laws)
    }


def pairs(honest: int) -> Iterator[tuple[int, int]]:
    for leaving in range(1, honest + 1):
        for joining in range(honest - leaving + 1):
            yield leaving, joining


def exact_delta(honest: int, rate: Fraction, threshold: int, epsilon: float) -> mpmath.mpf:
    return max(
        hockey_stick(
            exact_view((leaving, joining), rate, threshold),
            exact_view((leaving - 1, joining + 1), rate, threshold),
            epsilon,
        )
        for leaving, joining in pairs(honest)
    )


def floats(people: int, rate: Fraction, threshold: int, stop: int) -> NDArray[np.float64]:
    """Masses of "nothing" and of all counts from the threshold to `stop`, by scipy."""
    p = float(rate)
    shown = binom.pmf(np.arange(threshold, stop), people, p)
    out: NDArray[np.float64] = np.concatenate([[binom.cdf(threshold - 1, people, p)], shown])
    return out


def float_delta(
    leaving: int, joining: int, rate: Fraction, threshold: int, epsilon: float
) -> float:
    """δ of one pair, summed over the whole two-dimensional view."""
    stop = threshold + 60 + int(2 * max(leaving, joining) * float(rate))
    p, q = (floats(c, rate, threshold, stop) for c in (leaving, leaving - 1))
    r, s = (floats(c, rate, threshold, stop) for c in (joining, joining + 1))
    one, other = p > 1e-25, r > 1e-25
    excess = np.outer(p[one], r[other]) - math.exp(epsilon) * np.outer(q[one], s[other])
    return float(excess[excess > 0].sum())


def grid_delta(
    rate: Fraction, threshold: int, epsilon: float, leaving: int, joining: int, honest: int = MANY
) -> float:
    """The largest δ over all pairs up to (leaving, joining), by such sums."""
    stop = threshold + 60 + int(2 * max(leaving, joining) * float(rate))
    laws = np.array([floats(c, rate, threshold, stop) for c in range(max(leaving, joining) + 2)])
    worst = 0.0
    for c in range(1, leaving + 1):
        most = min(joining, honest - c)
        if most < 0:
            break
        p, q = laws[c], math.exp(epsilon) * laws[c - 1]
        some = p > 1e-25
        r, s = laws[: most + 1, np.newaxis, :], laws[1 : most + 2, np.newaxis, :]
        excess = p[some][:, np.newaxis] * r - q[some][:, np.newaxis] * s
        worst = max(worst, float(np.maximum(excess, 0.0).sum(axis=(1, 2)).max()))
    return worst


# Every small crowd ----------------------------------------------------------------------------

RATES = (Fraction(1, 20), Fraction(1, 4), Fraction(5, 8), Fraction(19, 20))


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("threshold", [1, 2, 3, 5])
@pytest.mark.parametrize("honest", [1, 3, 8])
def test_every_view_of_small_crowds(honest: int, rate: Fraction, threshold: int) -> None:
    curve = ThresholdCurve(honest, rate, threshold)
    for epsilon in (0.0, 0.2, 1.0, 2.5):
        truth = exact_delta(honest, rate, threshold, epsilon)
        stated = curve.worst(epsilon)
        assert truth <= stated.delta <= truth * (1 + 1e-9) + mpmath.mpf(10) ** -28
        assert stated.exact
        assert threshold_delta(honest, rate, threshold, epsilon) == stated.delta
        attained = hockey_stick(
            exact_view((stated.leaving, stated.joining), rate, threshold),
            exact_view((stated.leaving - 1, stated.joining + 1), rate, threshold),
            epsilon,
        )
        assert attained >= truth * (1 - mpmath.mpf(10) ** -9)


@pytest.mark.parametrize("honest", [4, 5, 6, 7])
def test_between_small_crowds(honest: int) -> None:
    for threshold, rate, epsilon in ((2, Fraction(1, 3), 0.4), (3, Fraction(2, 5), 0.7)):
        truth = exact_delta(honest, rate, threshold, epsilon)
        stated = threshold_delta(honest, rate, threshold, epsilon)
        assert truth <= stated <= truth * (1 + 1e-9)


def sampled(values: tuple[int, ...], rate: Fraction, threshold: int) -> View:
    """The law of three buckets, from who takes part, without binomial formulas."""
    law: View = defaultdict(Fraction)
    for part in product((0, 1), repeat=len(values)):
        took = sum(part)
        counts = [sum(x for x, v in zip(part, values, strict=True) if v == b) for b in range(3)]
        shown = tuple(count if count >= threshold else 0 for count in counts)
        law[shown] += rate**took * (1 - rate) ** (len(values) - took)
    return law


@pytest.mark.parametrize(("threshold", "epsilon"), [(1, 0.3), (2, 0.3), (2, 1.0), (3, 0.1)])
def test_a_third_bucket_changes_nothing(threshold: int, epsilon: float) -> None:
    honest, rate = 4, Fraction(1, 3)
    worst = mpmath.mpf(0)
    for values in product(range(3), repeat=honest):
        if values[1:] != tuple(sorted(values[1:])):
            continue  # the order of the others does not matter
        view = sampled(values, rate, threshold)
        for other in range(3):
            if other != values[0]:
                neighbor = sampled((other, *values[1:]), rate, threshold)
                worst = max(worst, hockey_stick(view, neighbor, epsilon))
    stated = threshold_delta(honest, rate, threshold, epsilon)
    assert worst <= stated <= worst * (1 + 1e-9)


def test_a_sample_of_fixed_size_is_not_private() -> None:
    """All people but one are in a bucket. Its count is below the sample size only if the last
    person was drawn.
    """
    people, size, threshold = 6, 3, 2

    def view(values: str) -> View:
        law: View = defaultdict(Fraction)
        samples = list(combinations(values, size))
        for sample in samples:
            seen = sample.count("a")
            law[(seen if seen >= threshold else 0,)] += Fraction(1, len(samples))
        return law

    alone, crowd = view("a" * (people - 1) + "b"), view("a" * people)
    assert alone[size - 1,] == Fraction(size, people)
    assert (size - 1,) not in crowd
    assert hockey_stick(alone, crowd, 20.0) >= 0.5
    # With independent sampling at the same rate, the chance of certainty is at most
    # rate^threshold.
    independent = threshold_delta(people, Fraction(size, people), threshold, 20.0)
    assert independent == 0.5**threshold


# Larger crowds --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "threshold", "epsilon"),
    [
        (rate_of(0.1, 1.0), 6, 1.0),
        (rate_of(0.5, 1.0), 9, 1.0),
        (rate_of(0.7, 0.5), 12, 0.5),
        (Fraction(3, 4), 20, 1.0),
    ],
)
@pytest.mark.parametrize("honest", [40, 101])
def test_a_hundred_people(rate: Fraction, threshold: int, epsilon: float, honest: int) -> None:
    truth = grid_delta(rate, threshold, epsilon, honest, honest, honest)
    stated = ThresholdCurve(honest, rate, threshold).worst(epsilon)
    assert stated.exact
    assert stated.delta == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize(
    ("alpha", "epsilon", "delta", "threshold", "leaving", "joining"),
    [
        (0.1, 1.0, 1e-6, 6, 40, 400),
        (0.2, 1.0, 1e-6, 9, 40, 300),
        (0.5, 1.0, 1e-6, 18, 60, 250),
        (0.3, 0.5, 1e-6, 11, 60, 300),
        (0.7, 0.5, 1e-6, 28, 110, 250),
        (0.7, 1.0, 1e-6, 29, 80, 180),
        (0.2, 2.0, 1e-9, 13, 40, 250),
    ],
)
def test_any_number_of_people(
    alpha: float, epsilon: float, delta: float, threshold: int, leaving: int, joining: int
) -> None:
    rate = rate_of(alpha, epsilon)
    assert least_threshold(MANY, rate, epsilon, delta) == threshold
    worst = ThresholdCurve(MANY, rate, threshold).worst(epsilon)
    assert worst.exact
    assert worst.delta <= delta < threshold_delta(MANY, rate, threshold - 1, epsilon)
    # The worst pair is well inside the grid, and pairs beyond it are no worse.
    assert 2 * worst.leaving <= leaving
    assert 1.5 * worst.joining <= joining
    assert worst.delta == pytest.approx(
        grid_delta(rate, threshold, epsilon, leaving, joining), rel=1e-9
    )
    draws = np.random.default_rng(1)
    for c, other in (2 ** draws.uniform(0, 12, size=(100, 2))).astype(int).tolist():
        assert float_delta(c, other, rate, threshold, epsilon) <= worst.delta * (1 + 1e-9)


def one_bucket(rate: Fraction, threshold: int, epsilon: float, most: int) -> float:
    """Adding or removing a person: the judge for the difference from replacement."""
    laws = np.array([floats(c, rate, threshold, most + 1) for c in range(most + 1)])
    up = laws[1:] - math.exp(epsilon) * laws[:-1]
    down = laws[:-1] - math.exp(epsilon) * laws[1:]
    return max(float(np.maximum(way, 0.0).sum(axis=1).max()) for way in (up, down))


# replacement, add or remove, closed form; at delta = 1e-6 and 1e-9
THRESHOLDS = {
    (0.5, 0.05): ((5, 5, 7), (7, 7, 11)),
    (0.5, 0.1): ((6, 6, 10), (10, 10, 15)),
    (0.5, 0.2): ((9, 9, 18), (14, 14, 27)),
    (0.5, 0.3): ((11, 11, 32), (19, 19, 48)),
    (0.5, 0.5): ((18, 18, 522), (31, 31, 783)),
    (0.5, 0.7): ((28, 27, None), (48, 46, None)),
    (1.0, 0.05): ((5, 5, 7), (7, 7, 11)),
    (1.0, 0.1): ((6, 6, 10), (10, 10, 15)),
    (1.0, 0.2): ((9, 9, 18), (14, 14, 27)),
    (1.0, 0.3): ((11, 11, 32), (18, 18, 48)),
    (1.0, 0.5): ((18, 18, 522), (30, 30, 783)),
    (1.0, 0.7): ((29, 28, None), (49, 47, None)),
    (2.0, 0.05): ((5, 5, 7), (7, 7, 11)),
    (2.0, 0.1): ((6, 6, 10), (9, 9, 15)),
    (2.0, 0.2): ((8, 8, 18), (13, 13, 27)),
    (2.0, 0.3): ((11, 11, 32), (17, 17, 48)),
    (2.0, 0.5): ((19, 19, 522), (29, 29, 783)),
    (2.0, 0.7): ((32, 32, None), (51, 50, None)),
}


@pytest.mark.parametrize(("epsilon", "alpha"), THRESHOLDS)
def test_thresholds(epsilon: float, alpha: float) -> None:
    rate = rate_of(alpha, epsilon)
    for delta, row in zip((1e-6, 1e-9), THRESHOLDS[epsilon, alpha], strict=True):
        replaced, removed, closed = row
        assert least_threshold(MANY, rate, epsilon, delta) == replaced
        most = 30 + int(3 * replaced / (1 - math.exp(-epsilon)))
        assert one_bucket(rate, removed, epsilon, most) <= delta
        assert removed == 1 or one_bucket(rate, removed - 1, epsilon, most) > delta
        if closed is None:
            with pytest.raises(InvalidParameter, match="the closed form needs"):
                closed_form(epsilon, delta, alpha)
        else:
            assert closed_form(epsilon, delta, alpha) == (rate, closed)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("delta", [0.5, 0.01, 1e-6, 1e-12])
def test_the_closed_form_is_private(epsilon: float, delta: float) -> None:
    for alpha in (0.02, 0.1, 0.2, 0.35, 0.45):
        rate, threshold = closed_form(epsilon, delta, alpha)
        if threshold <= MOST_THRESHOLD:
            assert threshold_delta(MANY, rate, threshold, epsilon) <= delta


def test_even_a_large_rate_has_a_threshold() -> None:
    """Large counts hide a person at any rate. A rate above 1 − e^−ε needs a higher threshold."""
    rate, epsilon = Fraction(3, 4), 1.0
    threshold = least_threshold(MANY, rate, epsilon, 1e-3)
    assert threshold == 43
    for tried in (threshold - 1, threshold):
        truth = grid_delta(rate, tried, epsilon, 120, 140)
        assert threshold_delta(MANY, rate, tried, epsilon) == pytest.approx(truth, rel=1e-9)
    assert least_threshold(MANY, Fraction(99, 100), epsilon, 1e-6) is None


# What lies outside the table ------------------------------------------------------------------


def test_leaving_a_count_beyond_the_table() -> None:
    """The worst bucket has more people than the table has counts."""
    rate, threshold, epsilon = Fraction(1, 4000), 12, 5e-4
    worst = ThresholdCurve(MANY, rate, threshold).worst(epsilon)
    assert not worst.exact
    known = [float_delta(c, 0, rate, threshold, epsilon) for c in range(400, 24_000, 400)]
    assert 10 * max(known[:20]) < max(known) <= worst.delta


def test_joining_a_count_beyond_the_table() -> None:
    rate, threshold, epsilon = Fraction(1, 500), 30, 0.005
    worst = ThresholdCurve(MANY, rate, threshold).worst(epsilon)
    assert not worst.exact
    known = [float_delta(4150, c, rate, threshold, epsilon) for c in range(0, 16_000, 500)]
    assert 1.1 * max(known[:17]) < max(known) <= worst.delta <= 2 * max(known)


# Monotone, and ties ---------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [Fraction(1, 16), Fraction(1, 3), Fraction(3, 4)])
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_people_never_lower_delta_and_thresholds_never_raise_it(
    rate: Fraction, epsilon: float
) -> None:
    crowds = [1, 2, 3, 5, 8, 13, 30, 80, 200, 1000, 10**5, MANY]
    known = {
        (honest, threshold): threshold_delta(honest, rate, threshold, epsilon)
        for honest in crowds
        for threshold in range(1, 12)
    }
    room = 1 + 1e-9
    for (honest, threshold), delta in known.items():
        assert delta <= known.get((honest, threshold - 1), 1.0) * room
        assert all(delta <= known[more, threshold] * room for more in crowds if more > honest)
        assert (delta == 0) == (honest < threshold)
        assert delta >= float(rate) ** threshold or honest < threshold
    assert known[10**5, 6] == pytest.approx(known[MANY, 6], rel=1e-9)


def test_ties() -> None:
    """If δ is exactly rate^threshold, a budget with this delta is met."""
    rate, epsilon = Fraction(1, 8), 3.0
    for threshold in (1, 2, 5, 12):
        delta = 8.0**-threshold
        for honest in (threshold, 50, MANY):
            assert threshold_delta(honest, rate, threshold, epsilon) == delta
            assert least_threshold(honest, rate, epsilon, delta) == threshold
            less = math.nextafter(delta, 0.0)
            assert least_threshold(honest, rate, epsilon, less) == threshold + 1
    # A power that is not a float is rounded up to the next float.
    third = Fraction(1, 3)
    stated = threshold_delta(MANY, third, 7, 3.0)
    assert Fraction(math.nextafter(stated, 0.0)) < third**7 <= Fraction(stated)


def test_rates_at_the_edge() -> None:
    for t in (1, 2**64 - 1):
        rate = Fraction(t, 2**64)
        for threshold, epsilon in ((1, 0.5), (3, 2.0)):
            truth = exact_delta(4, rate, threshold, epsilon)
            stated = threshold_delta(4, rate, threshold, epsilon)
            assert truth <= stated <= truth * (1 + 1e-9) + mpmath.mpf(10) ** -28
    assert least_threshold(MANY, Fraction(1, 2**64), 1.0, 1e-6) == 1
    assert least_threshold(MANY, 1 - Fraction(1, 2**64), 1.0, 1e-6) is None


def test_few_people_and_pure_privacy() -> None:
    assert least_threshold(4, Fraction(1, 2), 1.0, 0.0) == 5
    assert least_threshold(4, Fraction(1, 2), 1.0, 1e-9) == 5
    assert least_threshold(MANY, Fraction(1, 2), 1.0, 0.0) is None
    assert least_threshold(MANY, Fraction(1, 2), 1.0, 1.0) == 1
    assert threshold_delta(4, Fraction(1, 2), 5, 0.0) == 0.0


# The whole curve ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("honest", "rate", "threshold"),
    [
        (MANY, rate_of(0.1, 1.0), 6),
        (MANY, rate_of(0.7, 1.0), 29),
        (MANY, Fraction(3, 4), 43),
        (30, Fraction(1, 3), 4),
        (4, Fraction(1, 3), 2),
    ],
)
def test_curve(honest: int, rate: Fraction, threshold: int) -> None:
    curve = ThresholdCurve(honest, rate, threshold)
    points = np.array([-9.0, -2.0, -0.3, 0.0, 0.1, 0.31, 0.77, 1.3, 2.0, 3.5, 6.0, 40.0])
    for epsilon, chord in zip(points.tolist(), curve.deltas(points).tolist(), strict=True):
        known = threshold_delta(honest, rate, threshold, abs(epsilon))
        if epsilon < 0:
            known = 1 - math.exp(epsilon) * (1 - known)
        assert curve.delta(epsilon) == pytest.approx(known, rel=1e-12)
        assert known * (1 - 1e-12) <= chord <= known * 1.25
    assert curve.delta(curve.last) == pytest.approx(float(rate) ** threshold, rel=1e-9)
    bends = curve.bends
    assert (np.diff(bends) > 0).all()
    middle = np.log((np.exp(bends[:-1]) + np.exp(bends[1:])) / 2)
    ends = curve.deltas(bends)
    assert curve.deltas(middle) == pytest.approx((ends[:-1] + ends[1:]) / 2, rel=1e-9)
    for delta in (0.1, 1e-3, 1e-6):
        epsilon = curve.epsilon(delta)
        assert curve.delta(epsilon) <= delta or epsilon == math.inf
        assert (epsilon == math.inf) == (delta < rate**threshold)


def test_negative_epsilons_are_the_other_direction() -> None:
    rate, threshold, honest = Fraction(1, 4), 2, 5
    for epsilon in (-0.2, -1.0):
        truth = exact_delta(honest, rate, threshold, epsilon)
        stated = ThresholdCurve(honest, rate, threshold).delta(epsilon)
        assert truth <= stated <= truth * (1 + 1e-9)


def test_two_releases_of_any_pairs() -> None:
    rate, threshold, honest = Fraction(1, 4), 2, 3
    composed = compose([(ThresholdCurve(honest, rate, threshold), 2)])
    releases = [
        [
            (exactly(chance), exactly(after.get(seen, Fraction(0))))
            for seen, chance in exact_view((leaving, joining), rate, threshold).items()
        ]
        for leaving, joining in pairs(honest)
        for after in [exact_view((leaving - 1, joining + 1), rate, threshold)]
    ]
    for epsilon in (0.1, 0.5, 1.5):
        factor = mpmath.exp(epsilon)
        truth = max(
            sum(max(p * r - factor * q * s, 0) for p, q in one for r, s in other)
            for one in releases
            for other in releases
        )
        assert truth <= composed.delta(epsilon) <= 1.3 * truth


def test_nobody_is_ever_shown() -> None:
    curve = ThresholdCurve(3, Fraction(1, 2), 4)
    assert curve.worst(0.5) == (0.0, True, 1, 0)
    assert curve.deltas(np.array([0.0, 1.0])).tolist() == [0.0, 0.0]
    assert curve.delta(-1.0) == pytest.approx(1 - math.exp(-1))
    assert curve.epsilon(0.0) == 0.0


# Refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("honest", (0, Fraction(1, 2), 3, 1.0)),
        ("honest", (2.5, Fraction(1, 2), 3, 1.0)),
        ("rate", (10, Fraction(0), 3, 1.0)),
        ("rate", (10, Fraction(1), 3, 1.0)),
        ("rate", (10, Fraction(1, 2**65), 3, 1.0)),
        ("rate", (10, 0.5, 3, 1.0)),
        ("threshold", (10, Fraction(1, 2), 0, 1.0)),
        ("threshold", (10, Fraction(1, 2), MOST_THRESHOLD + 1, 1.0)),
        ("epsilon", (10, Fraction(1, 2), 3, -1.0)),
        ("epsilon", (10, Fraction(1, 2), 3, math.nan)),
    ],
)
def test_bad_parameters(name: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidParameter, match=f"`{name}` must be"):
        threshold_delta(*arguments)
    if name != "threshold":
        honest, rate, _, epsilon = arguments
        with pytest.raises(InvalidParameter, match=f"`{name}` must be"):
            least_threshold(honest, rate, epsilon, 1e-6)


@pytest.mark.parametrize("delta", [-1e-9, 1.5, math.nan, "small"])
def test_bad_delta(delta: Any) -> None:
    with pytest.raises(InvalidParameter, match="`delta` must be"):
        least_threshold(10, Fraction(1, 2), 1.0, delta)


@pytest.mark.parametrize(
    "arguments",
    [(0.0, 1e-6, 0.1), (-1e4, 1e-6, 0.1), (1.0, 0.0, 0.1), (1.0, 1.0, 0.1), (1.0, 1e-6, 0.0)],
)
def test_bad_closed_forms(arguments: tuple[float, float, float]) -> None:
    with pytest.raises(InvalidParameter, match="the closed form needs"):
        closed_form(*arguments)
    with pytest.raises(InvalidParameter, match="`alpha` must be"):
        closed_form(1.0, 1e-6, math.nan)


@pytest.mark.parametrize(("epsilon", "delta", "users"), [(0.1, 1e-9, 5000), (1.0, 1e-6, 1000)])
def test_the_worst_error_is_that_of_the_worst_count(
    epsilon: float, delta: float, users: int
) -> None:
    protocol = hc.protocol(
        "shuffle.sample-threshold", hc.Histogram(3), hc.Budget(epsilon, delta), hc.Crowd(users)
    )
    errors = [
        protocol.standard_error(np.array([held, users - held, 0])) for held in range(users // 2 + 1)
    ]
    assert protocol.standard_error() == pytest.approx(max(errors), rel=1e-12)
