"""Comparisons of two estimates: their laws, intervals, tests, refusals and words.

Everything is recomputed here by listing all outcomes. Nothing is shared with the library.
"""

import json
import math
from copy import copy
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from numpy.typing import NDArray
from scipy import stats

import headcount as hc
from commands import Headcount
from headcount.core.errors import InvalidParameter, UnknownName
from headcount.core.estimate import NormalError
from headcount.core.lattice import LatticeLaw, ReportedLaw, WholeLaw

Law = dict[int, float]
Pair = tuple[int, int]
Reals = NDArray[np.float64]
SOURCE = hc.SeededSource(19)
CENTRAL = "central.geometric"


def built(name: str, users: int, epsilon: float, task: hc.Task | None = None) -> hc.Protocol:
    pure = name.startswith(("central.", "local."))
    budget = hc.Budget(epsilon, 0 if pure else 1e-6)
    return hc.protocol(name, task or hc.Count(), budget, hc.Crowd(users))


@cache
def answered(protocol: hc.Protocol) -> hc.Estimate:
    people = protocol.task.example(protocol.crowd.users)
    return protocol.estimate(protocol.simulate(people, SOURCE), SOURCE)


def estimate(value: Any, users: int, epsilon: float, name: str = CENTRAL) -> hc.Estimate:
    """An estimate of this value."""
    protocol = built(name, users, epsilon)
    law = protocol.estimator.error_law(users, float(value))
    return replace(answered(protocol), value=float(value), error_law=law)


def geometric(epsilon: float) -> Law:
    """Two-sided geometric noise, up to a probability of 1e-20."""
    a, reach = math.exp(-epsilon), math.ceil(46 / epsilon)
    return {z: (1 - a) / (1 + a) * a ** abs(z) for z in range(-reach, reach + 1)}


def binomial(trials: int, chance: float) -> Law:
    return dict(enumerate(stats.binom.pmf(np.arange(trials + 1), trials, chance).tolist()))


def plus(one: Law, other: Law) -> Law:
    masses = np.convolve(list(one.values()), list(other.values()))  # of consecutive integers
    return dict(enumerate(masses.tolist(), start=min(one) + min(other)))


def halved_difference(mean: float) -> Law:
    """The law of Z − Z' for two Poisson numbers. The error of two buckets, with n known, is half of
    it.
    """
    one = {k: float(stats.poisson.pmf(k, mean)) for k in range(int(mean + 20 * mean**0.5))}
    return plus(one, dict(sorted((-k, p) for k, p in one.items())))


def arrays(law: Law) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.array(list(law), dtype=np.float64), np.array(list(law.values()))


def reached(first: Law, users: int, second: Law, others: int, distance: int) -> float:
    """P(|X/users − Y/others| ≥ distance/(users·others)), by listing all pairs."""
    (x, p), (y, q) = arrays(first), arrays(second)
    far = np.abs(x[:, None] * others - y[None, :] * users) >= distance - 1e-6
    return float(p @ far @ q)


# Crowds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "margin", "beyond"), [(0.5, 8, 0.0430356), (1, 4, 0.0313904), (2, 2, 0.0139468)]
)
def test_margins_of_equal_crowds(epsilon: float, margin: int, beyond: float) -> None:
    found = estimate(40, 100, epsilon) - estimate(40, 100, epsilon)
    assert found.interval().high == pytest.approx(margin / 100, rel=1e-7)
    # The p-value of the next larger distance is the probability outside the interval.
    further = estimate(40 + margin + 1, 100, epsilon) - estimate(40, 100, epsilon)
    assert further.p_value == pytest.approx(beyond, rel=4e-6)
    a = math.exp(-epsilon)
    closed = [((1 - a) / (1 + a)) ** 2 * a**k * (k + (1 + a * a) / (1 - a * a)) for k in range(200)]
    assert further.p_value == pytest.approx(2 * sum(closed[margin + 1 :]), rel=1e-9)


@pytest.mark.parametrize(
    ("first", "second", "margin"),
    [
        ((1, 1000), (1, 3000), 0.003),
        ((1, 1000), (0.5, 1000), 0.006),
        ((0.5, 400), (2, 700), 0.015),
    ],
)
def test_margins_of_unequal_crowds(
    first: tuple[float, int], second: tuple[float, int], margin: float
) -> None:
    one, other = (estimate(0.4 * users, users, epsilon) for epsilon, users in (first, second))
    interval = hc.difference(one, other).interval(0.95)
    assert (interval.high - interval.low) / 2 == pytest.approx(margin, rel=1e-7)
    for yes in (0, 3, 7):  # p-values, with ties
        found = hc.difference(replace(one, value=0.4 * first[1] + yes), other)
        distance = yes * second[1]
        laws = geometric(first[0]), geometric(second[0])
        exact = reached(laws[0], first[1], laws[1], second[1], distance)
        assert found.p_value == pytest.approx(exact, rel=1e-9)


def test_a_confidence_that_no_law_can_reach() -> None:
    found = (estimate(40, 100, 1) - estimate(40, 100, 1)).interval(1 - 2**-53)
    assert (found.low, found.high) == (-1, 1)


def test_other_noise_than_geometric() -> None:
    """The zero-exact count misses Bin(n, q) messages; fake users add Poisson(μ) messages."""
    name, users = "shuffle.zero-exact", 400
    protocol = built(name, users, 1)
    missing = binomial(users, 1 - protocol.parameters["p"])
    zero_exact = {-k: p for k, p in missing.items()}
    one, other = (estimate(value, users, 1, name) for value in (100, 110.0))
    expected = reached(zero_exact, users, zero_exact, users, 10 * users)
    assert (one - other).p_value == pytest.approx(expected, rel=1e-9)

    # Different protocols: their laws are combined.
    (x, p), (y, q) = arrays(zero_exact), arrays(geometric(0.5))
    errors = x[:, None] + users * (1 - protocol.parameters["p"]) - y[None, :]
    chance = float(p @ (np.abs(errors) >= 8 - 1e-6) @ q)
    assert (one - estimate(108, users, 0.5)).p_value == pytest.approx(chance, rel=1e-9)

    task = hc.Histogram(2)
    protocol = built("shuffle.fake-users", users, 1, task)
    mean = protocol.parameters["noise_per_bucket"]
    law = halved_difference(mean)
    first = replace(answered(protocol), value=np.array([300.0, 100.0]))
    second = replace(first, value=np.array([290.0, 117.0]), error_law=copy(first.error_law))
    chances = (first - second).p_value
    assert chances == pytest.approx(
        [reached(law, users, law, users, 2 * yes * users) for yes in (10, 17)], rel=1e-9
    )


def test_the_ratio_of_crowds() -> None:
    found = estimate(80, 500, 1) / estimate(50, 500, 1)
    assert found.value == pytest.approx(1.6)
    interval = found.interval(0.95)
    assert [interval.low, interval.high] == pytest.approx([1.5, 82 / 48], rel=1e-7)
    # Each ratio in it passes the test of A = ρB, and those outside do not.
    (x, p), (y, q) = arrays(geometric(1)), arrays(geometric(1))
    for ratio, inside in ((1.4999, False), (1.5001, True), (1.7083, True), (1.7084, False)):
        far = np.abs(x[:, None] - ratio * y[None, :]) >= abs(80 - ratio * 50) - 1e-9
        assert (p @ far @ q > 0.05) == inside


def test_ratios_may_be_unbounded_or_unknown() -> None:
    found = estimate(12, 100, 0.3) / estimate(1, 100, 0.3)
    assert found.interval().low < 3
    assert found.interval().high == math.inf
    assert found.to_dict()["interval"]["high"] is None
    assert "∞" in str(found)
    unknown = estimate(12, 100, 0.3) / estimate(-4, 100, 0.3)
    assert math.isnan(unknown.value)
    assert unknown.to_dict()["value"] is None
    assert unknown.interval().high == math.inf
    # Both may be 0, so nothing is known.
    nothing = estimate(-3, 100, 0.3) / estimate(-4, 100, 0.3)
    assert (nothing.interval().low, nothing.interval().high) == (0, math.inf)


def reported_coverage(protocol: hc.Protocol, own: float, other: float, yes: int) -> float:
    """The coverage if `yes` people in both crowds hold the first bucket, by listing all reports."""
    users = protocol.crowd.users
    law = plus(binomial(yes, own), binomial(users - yes, other))
    likely = [ones for ones in law if law[ones] > 1e-5]
    found = {}
    for ones in likely:
        count = (ones - users * other) / (own - other)
        value: Any = count if protocol.task.buckets is None else np.array([count, 0.0, 0.0])
        error = protocol.estimator.error_law(users, value)
        found[ones] = replace(answered(protocol), value=value, error_law=error)
    covered = 0.0
    for one, two in product(likely, repeat=2):
        second = replace(found[two], error_law=copy(found[two].error_law))
        interval = (found[one] - second).interval(0.95)
        inside = np.atleast_1d(interval.low)[0] <= 0 <= np.atleast_1d(interval.high)[0]
        covered += law[one] * law[two] * bool(inside)
    return covered


def test_the_interval_covers_the_difference_of_reports() -> None:
    """With random responses the law depends on the truth."""
    protocol, lie = built("local.randomized-response", 15, 1), 1 / (1 + math.e)
    assert reported_coverage(protocol, 1 - lie, lie, 3) >= 0.95
    second = estimate(3, 15, 1, "local.randomized-response")
    assert "approximate" in (answered(protocol) - second).method


@pytest.mark.slow
@pytest.mark.parametrize("yes", [0, 2, 15, 30])
def test_the_interval_covers_the_difference_in_every_crowd(yes: int) -> None:
    protocol, lie = built("local.randomized-response", 30, 1), 1 / (1 + math.e)
    assert reported_coverage(protocol, 1 - lie, lie, yes) >= 0.95
    # Here the variance of a report depends on its owner's bucket.
    protocol, lie = built("local.k-ary", 30, 2, hc.Histogram(3)), 1 / (2 + math.e**2)
    assert reported_coverage(protocol, 1 - 2 * lie, lie, yes) >= 0.95


def test_laws_that_are_not_known_are_taken_as_normal() -> None:
    one, other = (
        replace(estimate(value, 1000, 1), error_law=NormalError(10.0)) for value in (300, 330)
    )
    found = one - other
    spread = math.sqrt(2) * 0.01
    assert found.interval(0.9).high == pytest.approx(-0.03 + 1.644854 * spread, rel=1e-6)
    assert found.p_value == pytest.approx(2 * NormalDist().cdf(-0.03 / spread), rel=1e-6)
    assert found.method.startswith("approximate")
    wide = found.interval(0.9, sampling=True)
    spread = math.hypot(spread, math.sqrt((0.3 * 0.7 + 0.33 * 0.67) / 1000))
    assert wide.high == pytest.approx(-0.03 + 1.644854 * spread, rel=0.01)
    assert found.population_p_value == pytest.approx(2 * NormalDist().cdf(-0.03 / spread), rel=0.02)


def test_a_change_has_less_noise_if_it_is_asked_directly() -> None:
    change = hc.difference(estimate(40, 100, 0.5), estimate(40, 100, 0.5), same_people=True)
    assert change.standard_error * 100 == pytest.approx(3.95864, rel=2e-6)
    asked = built(CENTRAL, 100, 1, hc.Sum(-1, 1, whole=True))
    assert asked.standard_error() == pytest.approx(2.79918, rel=2e-6)


# Populations --------------------------------------------------------------------------------------


def test_one_share_of_a_population() -> None:
    for yes, low, high in ((80, 0.128535, 0.195580), (50, 0.0746301, 0.130266)):
        found = hc.population_share(estimate(yes, 500, 1), 0.95)
        assert [found.low, found.high] == pytest.approx([low, high], rel=4e-6)
        for share, up in ((found.low, True), (found.high, False)):
            law = plus(binomial(500, share), geometric(1))
            tail = sum(p for k, p in law.items() if (k >= yes if up else k <= yes))
            assert tail == pytest.approx(0.025, rel=1e-6)
    assert hc.population_share(estimate(-3, 500, 1)).low == 0
    assert hc.population_share(estimate(-300, 500, 1)).high == 0
    with pytest.raises(InvalidParameter, match="estimate of a count or a histogram, got"):
        hc.population_share(answered(built("central.geometric", 100, 1, hc.Mean(0, 1))))


def test_one_share_with_noise_that_is_not_symmetric() -> None:
    """Zero-exact noise is the mean of Bin(n, q) minus Bin(n, q). Fake users are Poisson(μ) in
    each of two buckets, and the number of people is known.
    """
    users, q = 60, 1 - built("shuffle.zero-exact", 60, 3).parameters["p"]
    found = hc.population_share(estimate(20, users, 3, "shuffle.zero-exact"))
    assert min(q, 1 - q) < 0.4
    missing = dict(sorted((-k, p) for k, p in binomial(users, q).items()))
    cases = [(found, missing, 20 - users * q)]
    protocol = built("shuffle.fake-users", users, 2, hc.Histogram(2))
    mean = protocol.parameters["noise_per_bucket"]
    shares = hc.population_share(replace(answered(protocol), value=np.array([20.0, 40.0])))
    noise = halved_difference(mean)
    cases += [(hc.Interval(shares.low[0], shares.high[0], 0.95), noise, 40)]
    for interval, law, seen in cases:
        for share, up in ((interval.low, True), (interval.high, False)):
            people = binomial(users, share)
            if law is noise:  # in halves
                people = {k: people[k // 2] * (1 - k % 2) for k in range(2 * users + 1)}
            total = plus(people, law)
            tail = sum(p for k, p in total.items() if (k > seen - 1e-6 if up else k < seen + 1e-6))
            assert tail == pytest.approx(0.025, rel=1e-6)


def test_the_difference_of_two_shares() -> None:
    found = estimate(80, 500, 1) - estimate(50, 500, 1)
    interval = found.interval(0.95, sampling=True)
    assert interval.low == pytest.approx(0.0163412, rel=4e-6)
    assert interval.high == pytest.approx(0.103698, rel=5e-6)
    assert found.population_p_value == pytest.approx(0.00655252, rel=2e-6)
    assert statistic_tail((500, 500), (1, 1), (80, 50), 0.13) == pytest.approx(0.00549987, rel=2e-6)
    # Without dividing by the standard error, the p-value would depend on the share far more.
    for share, chance in ((0.13, 0.00636130), (0.5, 0.0639528)):
        law = plus(binomial(500, share), geometric(1))
        assert reached(law, 1, law, 1, 30) == pytest.approx(chance, rel=2e-6)
    ignoring = 2 * NormalDist().cdf(-0.06 / math.sqrt(2 * 0.13 * 0.87 / 500))
    assert ignoring == pytest.approx(0.00478869, rel=2e-6)


def statistic_tail(users: Pair, epsilons: tuple[float, float], seen: Pair, share: float) -> float:
    """P(T ≥ t) for two groups, by listing all pairs."""
    n, m = users
    noise = [2 * math.exp(-e) / (1 - math.exp(-e)) ** 2 for e in epsilons]

    def statistic(x: Any, y: Any) -> Any:
        mean = np.clip((x + y) / (n + m), 0, 1)
        variance = mean * (1 - mean) * (1 / n + 1 / m) + noise[0] / n**2 + noise[1] / m**2
        return np.abs(x / n - y / m) / np.sqrt(variance)

    pairs = zip(users, epsilons, strict=True)
    laws = [arrays(plus(binomial(k, share), geometric(epsilon))) for k, epsilon in pairs]
    (x, p), (y, q) = (
        (values[chances > 1e-18], chances[chances > 1e-18]) for values, chances in laws
    )
    far = statistic(x[:, None], y[None, :]) >= statistic(*seen) * (1 - 1e-9)
    return float(p @ far @ q)


PAIRS = [
    (one, other)
    for at, one in enumerate((0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8))
    for other in (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8)[at:]
] + [(0.5, 0.9), (0.97, 0.5)]  # 30 pairs


def together(one: Reals, other: Reals, first: Reals, second: Reals) -> Reals:
    """The sum of squares for all pairs of distances, or their sum if one is to an end of 0 or 1."""
    certain = np.logical_or.outer(first % 1 == 0, second % 1 == 0)
    found: Reals = np.where(certain, np.add.outer(one, other), np.hypot.outer(one, other))
    return found


def coverage(users: int, epsilon: float) -> float:
    """The least coverage of the 95 % interval for all pairs of shares, by listing all outcomes."""
    reach = math.ceil(12 / epsilon)
    values = np.arange(-reach, users + reach + 1)
    ends = [hc.population_share(estimate(value, users, epsilon)) for value in values]
    low, high = np.array([one.low for one in ends]), np.array([one.high for one in ends])
    likely = np.clip(values / users, low, high)
    # Square-and-add, or add at an end of 0 or 1, checked against the library for some pairs.
    bottom = np.subtract.outer(likely, likely) - together(likely - low, high - likely, low, high)
    top = np.subtract.outer(likely, likely) + together(high - likely, likely - low, high, low)
    for at, other in ((reach + users // 3, reach + users // 5), (reach + 1, reach + users // 3)):
        found = estimate(values[at], users, epsilon) - estimate(values[other], users, epsilon)
        interval = found.interval(0.95, sampling=True)
        assert [interval.low, interval.high] == pytest.approx([bottom[at, other], top[at, other]])
    least = 1.0
    for pair in PAIRS:
        laws = [plus(binomial(users, share), geometric(epsilon)) for share in pair]
        first, second = (np.array([law.get(int(k), 0.0) for k in values]) for law in laws)
        inside = (bottom <= pair[0] - pair[1]) & (pair[0] - pair[1] <= top)
        least = min(least, float(first @ inside @ second))
    return least


def test_coverage_in_small_crowds() -> None:
    assert len(PAIRS) == 30
    assert coverage(40, 1) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1, 0.3])
def test_coverage_in_larger_crowds(epsilon: float) -> None:
    assert coverage(100, epsilon) > 0.95


WRONG = [
    (200, 0.5, 0.1, 0.101369, 0.0507335),
    (200, 0.5, 0.02, 0.272687, 0.0579137),
    (2000, 0.1, 0.1, 0.169974, 0.0523262),
    (500, 1, 0.05, 0.0583006, 0.0491402),
]


@pytest.mark.parametrize(("users", "epsilon", "share", "ignoring", "added"), WRONG)
def test_normal_tests_reject_too_often(
    users: int, epsilon: float, share: float, ignoring: float, added: float
) -> None:
    """What goes wrong without the exact law, as a reference for the test of this library."""
    values, chances = arrays(plus(binomial(users, share), geometric(epsilon)))
    kept = chances > 1e-12
    values, chances = values[kept], chances[kept]
    noise = 2 * math.exp(-epsilon) / (1 - math.exp(-epsilon)) ** 2
    x, y = values[:, None], values[None, :]
    # The common share is at least half a person, so that there is some variance.
    mean = np.clip((x + y) / (2 * users), 1 / (4 * users), 1)
    z = NormalDist().inv_cdf(0.975)
    for variance, expected in ((0.0, ignoring), (noise, added)):
        spread = 2 * mean * (1 - mean) / users + 2 * variance / users**2
        rejected = ((x - y) / users) ** 2 > z * z * spread
        assert float(chances @ rejected @ chances) == pytest.approx(expected, rel=6e-6)


def rejections(users: int, epsilon: float, shares: list[float], level: float = 0.05) -> list[float]:
    """How often the test rejects equal shares, by asking the library about every outcome.

    Very rare outcomes count as rejections.
    """
    laws = [plus(binomial(users, share), geometric(epsilon)) for share in shares]
    seen = sorted(k for k in set().union(*laws) if any(law.get(k, 0) > 1e-5 for law in laws))
    total = [1 - sum(law.get(k, 0.0) for k in seen) ** 2 for law in laws]
    for one, other in product(seen, repeat=2):
        if one <= other:
            continue
        found = estimate(one, users, epsilon) - estimate(other, users, epsilon)
        if found.population_p_value <= level:
            for at, law in enumerate(laws):
                total[at] += 2 * law.get(one, 0) * law.get(other, 0)
    return total


@pytest.mark.slow
def test_our_test_is_valid_in_small_crowds() -> None:
    found = rejections(12, 2, [0.05, 0.3, 0.5])
    assert max(found) <= 0.05
    assert max(found) > 0.01


# With estimates below 0 the p-value may be a little larger than needed.
@pytest.mark.parametrize(
    ("users", "seen", "spare"),
    [
        ((12, 12), (9, 3), 0.01),
        ((12, 12), (4, -2), 0.1),
        ((12, 12), (14, 9), 0.05),
        ((9, 16), (-1, 6), 0.1),
        ((9, 16), (8, 5), 0.01),
    ],
)
def test_the_p_value_is_the_largest_of_all_shares(users: Pair, seen: Pair, spare: float) -> None:
    """All shares count that an exact interval of 99.9 % for the common share contains."""
    epsilons = (2.0, 1.5)
    one, other = map(estimate, seen, users, epsilons)
    found = one - other
    both = plus(*map(geometric, epsilons))
    largest = 0.0
    for share in np.linspace(0, 1, 201):
        values, chances = arrays(plus(binomial(sum(users), share), both))
        tails = chances[values >= sum(seen)].sum(), chances[values <= sum(seen)].sum()
        if min(tails) > 0.0005:
            largest = max(largest, statistic_tail(users, epsilons, seen, share))
    assert found.population_p_value == pytest.approx(0.001 + largest, rel=spare)
    assert found.population_p_value >= 0.001 + largest * (1 - 1e-5)


@pytest.mark.slow
def test_our_test_is_valid_where_the_normal_test_fails() -> None:
    users, epsilon, share, ignoring, _ = WRONG[1]
    (found,) = rejections(users, epsilon, [share])
    assert 0.03 < found <= 0.05 < ignoring


def test_reports_of_local_trust_are_tested_themselves() -> None:
    """The reports are Bernoulli(π(2p−1) + 1 − p). The p-value covers a known exact test's size."""
    users, lie = 60, 1 / (1 + math.e**2)
    name = "local.randomized-response"

    def of(ones: int) -> hc.Estimate:
        return estimate((ones - users * lie) / (1 - 2 * lie), users, 2, name)

    found = of(40) - of(20)
    share = hc.population_share(of(40))
    for end, up in ((share.low, True), (share.high, False)):
        chance = lie + (1 - 2 * lie) * end
        tail = stats.binom.sf(39, users, chance) if up else stats.binom.cdf(40, users, chance)
        assert tail == pytest.approx(0.025, rel=1e-6)
    # By listing: the largest chance of a statistic as large, over the common chance of a report.
    x = np.arange(users + 1)
    mean = (x[:, None] + x[None, :]) / (2 * users)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.nan_to_num(
            np.abs(x[:, None] - x[None, :]) / users / np.sqrt(2 * mean * (1 - mean) / users)
        )
    far = statistic >= statistic[40, 20] * (1 - 1e-9)
    sizes = []
    for chance in np.linspace(0.35, 0.65, 301):
        law = stats.binom.pmf(x, users, chance)
        sizes.append(float(law @ far @ law))
    assert found.population_p_value == pytest.approx(0.001 + max(sizes), rel=1e-4)
    assert "valid" in found.population_method


# Laws of protocols --------------------------------------------------------------------------------


NAMES = [
    (name, task)
    for task in (hc.Count(), hc.Histogram(3))
    for name in hc.protocol_names(task)
    if name not in ("shuffle.amplified", "shuffle.sample-threshold")
]


@pytest.mark.parametrize(("name", "task"), NAMES, ids=str)
def test_every_protocol_states_its_law(name: str, task: hc.Task) -> None:
    found = answered(built(name, 3000, 1, task))
    law = found.error_law
    assert isinstance(law, WholeLaw | ReportedLaw)
    values, errors = np.atleast_1d(found.unbiased_value), np.atleast_1d(found.standard_error)
    if isinstance(law, ReportedLaw):
        reports = law.reports()
        assert reports is not None
        count = round(min(max(float(values[0]), 0), 3000))
        stated = reports.crowd(count).scaled(3000)
    else:
        stated = law.lattice()
    assert stated.mass.sum() == pytest.approx(1, abs=1e-9)
    assert float(stated.mass @ stated.values) == pytest.approx(0, abs=1e-6 * errors[0])
    assert math.sqrt(stated.variance) == pytest.approx(errors[0], rel=1e-3)
    again = replace(found, error_law=copy(law))
    assert np.all(np.atleast_1d((found - again).p_value) > 0.999)


def test_laws_can_be_made_coarser() -> None:
    """If ε is tiny, a law would be very long. Its points then stand for several numbers."""
    one, other = estimate(4000, 10**7, 1e-6), estimate(5_000_000, 10**7, 1e-6)
    chance = (one - other).p_value
    exact = math.exp(-4.996) * (1 + 4.996 / 2)  # the law of two Laplace variables
    assert chance == pytest.approx(exact, rel=1e-3)
    assert chance > exact * (1 - 1e-5)
    law = LatticeLaw.binomial(1000, 0.3)
    assert law.coarser(7).variance == pytest.approx(210, rel=0.03)


def test_means_compare_as_means() -> None:
    protocol = built("central.geometric", 1000, 1, hc.Mean(0, 10, whole=True))
    one = replace(answered(protocol), value=4.0)
    other = replace(one, value=3.95, error_law=protocol.estimator.error_law(1000, 3.95))
    found = one - other
    # The noise of a sum is geometric with ε/10.
    law = geometric(0.1)
    assert found.quantity == "mean"
    assert found.p_value == pytest.approx(reached(law, 1000, law, 1000, 50 * 1000), rel=1e-9)
    assert found.method == "exact law of the noise"
    wide = found.interval(sampling=True)
    assert wide.low < found.interval().low < found.interval().high < wide.high
    assert "approximate" in found.population_method
    real = built("central.geometric", 1000, 1, hc.Mean(0, 10))
    again = answered(real)
    near = again - replace(again, error_law=real.estimator.error_law(1000, 5.0))
    assert "rounding" in near.method
    # Rounding adds almost nothing to the noise.
    assert near.interval().high == pytest.approx((one - other).interval().high - 0.05, rel=0.02)
    local = built("local.one-bit-mean", 1000, 1, hc.Mean(0, 10))
    far = replace(answered(local), value=9.0)
    close = replace(far, value=1.0, error_law=local.estimator.error_law(1000, 1.0))
    assert (far - close).p_value < 1e-4
    assert "square-and-add" in (far - close).method
    assert 0.0 not in (far - close).interval(0.99)


# Refusals and words -------------------------------------------------------------------------------


def test_what_cannot_be_compared_is_refused() -> None:
    count = estimate(10, 100, 1)
    histogram = answered(built("central.geometric", 100, 1, hc.Histogram(2)))
    other_buckets = answered(built("central.geometric", 100, 1, hc.Histogram(["a", "b"])))
    total = answered(built("central.geometric", 100, 1, hc.Sum(0, 1)))
    mean = answered(built("central.geometric", 100, 1, hc.Mean(-1, 1)))
    wide = answered(built("central.geometric", 100, 1, hc.Mean(-2, 2)))
    sampled = answered(built("shuffle.sample-threshold", 1000, 1, hc.Histogram(2)))
    table: Any = answered(built("central.sum-zero", 100, 1, hc.Table(2, 2)))
    for one, other, reason in (
        (count, histogram, "the same question, got a count and a histogram"),
        (count, count, "the same release twice"),
        (count, count.postprocess("clip"), "the same release twice"),
        (table.rows, table.rows, "the same release twice"),
        (histogram, other_buckets, "the same buckets"),
        (total, total, "got a sum; ask for a mean"),
        (mean, wide, "the same bounds, got -1 to 1 and -2 to 2"),
        (sampled, sampled, "withholds rare values"),
    ):
        with pytest.raises(InvalidParameter, match=reason):
            hc.difference(one, other)
    again = replace(mean, error_law=copy(mean.error_law))
    with pytest.raises(InvalidParameter, match="never negative, got a lower bound of -1"):
        hc.ratio(mean, again)
    with pytest.raises(TypeError):
        count - 3  # type: ignore[operator]
    with pytest.raises(InvalidParameter, match="`second` must be a Estimate"):
        hc.difference(count, 3)  # type: ignore[arg-type]


def test_changed_values_are_not_compared() -> None:
    one, other = estimate(-4, 100, 0.5), estimate(3, 100, 0.5)
    found = one.postprocess("clip") - other
    assert found.value == pytest.approx(-0.07)
    assert "The values before clip are compared." in str(found)


def test_who_is_protected() -> None:
    one, other = estimate(40, 100, 1), estimate(45, 100, 0.5)
    found = hc.difference(one, other)
    assert (found.guarantee.epsilon, found.guarantee.exact) == (1, False)
    panel = hc.difference(one, other, same_people=True)
    assert panel.guarantee.epsilon == pytest.approx(1.5)
    assert panel.guarantee.epsilon >= 1.5
    assert panel.interval().low == found.interval().low
    assert panel.to_dict()["populations"] is None
    assert "populations" not in str(panel)
    for asked in (lambda: panel.population_p_value, lambda: panel.interval(sampling=True)):
        with pytest.raises(InvalidParameter, match="different people"):
            asked()
    shuffled = estimate(40, 400, 1, "shuffle.zero-exact")
    mixed = (one - shuffled).guarantee
    assert mixed.trust is hc.Trust.CENTRAL
    assert mixed.delta == shuffled.guarantee.delta
    assert "shuffler" in mixed.relies_on
    assert "curator" in mixed.relies_on


@pytest.mark.parametrize("same_people", [False, True])
def test_enough_people_of_both_crowds_are_honest(same_people: bool) -> None:
    """The dishonest people may all be in one crowd, which still keeps its own guarantee."""
    budget, sizes = hc.Budget(1, 0.01), ((400, 390), (700, 500))
    protocols = [
        hc.protocol("shuffle.zero-exact", hc.Count(), budget, hc.Crowd(*size)) for size in sizes
    ]
    one, other = (hc.run(p, [0] * p.crowd.users, SOURCE) for p in protocols)
    people = 700 if same_people else 400 + 700
    dishonest = people - hc.difference(one, other, same_people=same_people).guarantee.honest
    assert [users - dishonest >= honest for users, honest in sizes] == [True, True]
    assert dishonest == 10


def test_many_comparisons() -> None:
    values = {"a": 40, "b": 43, "c": 52, "d": 41}
    estimates = {name: estimate(value, 100, 1) for name, value in values.items()}
    found = hc.contrasts(estimates)
    assert len(found) == 6
    order = sorted(found, key=lambda pair: found[pair].p_value)
    least = 0.0
    for at, pair in enumerate(order):
        least = max(least, min(1.0, (6 - at) * found[pair].p_value))
        assert found.adjusted_p_values[pair] == pytest.approx(least, rel=1e-12)
    document = found.to_dict()["contrasts"]
    assert document[0]["adjusted_p_value"] == found.adjusted_p_values["a", "b"]
    assert json.dumps(document, allow_nan=False)
    assert "corrected for 6 comparisons (Holm)" in str(found)
    assert list(hc.contrasts(estimates, [("c", "a")], kind="ratio")) == [("c", "a")]
    with pytest.raises(UnknownName, match="one of a, b, c, d, got 'e'"):
        hc.contrasts(estimates, [("a", "e")])
    with pytest.raises(InvalidParameter, match="two names"):
        hc.contrasts(estimates, ["abc"])  # type: ignore[list-item]
    with pytest.raises(InvalidParameter, match="at least one pair to compare, got 1 estimate"):
        hc.contrasts({"a": estimates["a"]})


# Planning -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shares", "people"),
    [
        ((0.30, 0.35), (1377, 1385, 1468, 7158)),
        ((0.10, 0.12), (3841, 3860, 4048, 39973)),
        ((0.30, 0.40), (356, 364, 434, 1802)),
        ((0.50, 0.51), (39240, 39247, 39325, 183765)),
    ],
)
def test_the_people_that_a_difference_needs(
    shares: tuple[float, float], people: tuple[int, ...]
) -> None:
    from headcount.planner.differences import Detection

    wanted = Detection(shares[1] - shares[0], shares[0])
    each = 1 / (4 * math.sinh(0.5) ** 2)
    noises = [lambda n: 0.0, lambda n: 2 * each, lambda n: 21.3273, lambda n: n * each]
    assert tuple(wanted.needed(noise) for noise in noises) == people


def test_the_people_that_protocols_need() -> None:
    for trust, people in (("central", 364), ("local", 1802)):
        found = hc.needed_groups(0.1, hc.Budget(1), share=0.3, trust=trust)
        assert found.without_privacy == 356
        assert found.answers[0].users == people
    assert hc.needed_groups(0.1, hc.Budget(1), trust="local").detection.shares == (0.45, 0.55)
    for given, reason in (({"difference": 1.0}, "difference"), ({"power": 0.0}, "power")):
        with pytest.raises(InvalidParameter, match=rf"`{reason}` must be strictly between"):
            hc.needed_groups(**{"difference": 0.1, "budget": hc.Budget(1), **given})  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match=r"between 0 and 0\.9"):
        hc.needed_groups(0.1, hc.Budget(1), share=0.95)


@pytest.mark.slow
def test_a_crowd_that_a_protocol_can_protect() -> None:
    """If a protocol refuses the small crowd that the test needs, it needs a larger one."""
    found = hc.needed_groups(0.9, hc.Budget(1, 1e-6), trust="shuffle")
    users = {need.protocol: need.users for need in found.answers}["shuffle.zero-exact"]
    assert users > 10 * found.without_privacy
    built("shuffle.zero-exact", users, 1)
    with pytest.raises(hc.Infeasible):
        built("shuffle.zero-exact", int(0.95 * users), 1)


# Commands -----------------------------------------------------------------------------------------


@pytest.fixture
def arms(tmp_path: Path) -> Path:
    path = tmp_path / "arms.csv"
    lines = [f"{'AB'[i % 2]},{int(i % 10 < 3 + i % 2)},{i // 3}" for i in range(400)]
    path.write_text("arm,yes,who\n" + "\n".join(lines))
    return path


def test_contrasts_on_the_command_line(headcount: Headcount, arms: Path, tmp_path: Path) -> None:
    asked = ["estimate", str(arms), "--column", "yes", "--epsilon", "1", "--group", "arm"]
    both = [*asked, "--contrast", "A,B", "--contrast", "B,A"]
    document = json.loads(headcount(*both, "--json").out)
    first, second = document["contrasts"]
    assert first["value"] == pytest.approx(-second["value"])
    assert first["populations"]["adjusted_p_value"] <= 1
    assert first["guarantee"] == document["guarantee"]
    shown = headcount(*both).out
    assert "A − B" in shown
    assert "corrected for 2 comparisons" in shown
    for ending in ("json", "parquet"):
        headcount(*both, "--out", str(tmp_path / f"saved.{ending}"))
    assert json.loads((tmp_path / "saved.json").read_text())["contrasts"][0]["first"] == "A"
    metadata = pyarrow.parquet.read_schema(tmp_path / "saved.parquet").metadata[b"headcount"]
    assert json.loads(metadata)["contrasts"][1]["second"] == "A"


@pytest.mark.slow
def test_contrasts_on_a_page(headcount: Headcount, arms: Path, tmp_path: Path) -> None:
    asked = ["estimate", str(arms), "--column", "yes", "--epsilon", "1", "--group", "arm"]
    headcount(*asked, "--contrast", "A,B", "--out", str(tmp_path / "saved.html"))
    page = (tmp_path / "saved.html").read_text()
    assert "<h2>Comparisons</h2>" in page
    assert "difference of shares of yes (95 % intervals)" in page


def test_rows_of_one_person_are_not_independent(headcount: Headcount, arms: Path) -> None:
    asked = ["estimate", str(arms), "--column", "yes", "--epsilon", "1", "--group", "arm"]
    several = ["--person", "who", "--rows-per-person", "2", "--contrast", "A,B", "--json"]
    document = json.loads(headcount(*asked, *several).out)
    (found,) = document["contrasts"]
    assert found["populations"] is None
    assert found["guarantee"] == document["guarantee"]


THRESHOLD = ["--protocol", "shuffle.sample-threshold", "--buckets", "2", "--delta", "0.001"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--group", "arm", "--contrast", "A"], "--contrast must name two groups"),
        (["--group", "arm", "--contrast", "A,C"], "--contrast must name groups of A, B, got 'C'"),
        (["--contrast", "A,B"], "--contrast must come with --group"),
        (
            ["--group", "arm", "--contrast", "A,B", "--task", "sum", "--low", "0", "--high", "1"],
            "--contrast must come with a count or histogram or mean, got a sum",
        ),
        (
            ["--group", "arm", "--contrast", "A,B", *THRESHOLD],
            "withholds rare values",
        ),
    ],
)
def test_contrasts_are_refused_before_they_are_paid_for(
    headcount: Headcount, arms: Path, tmp_path: Path, given: list[str], says: str
) -> None:
    book = str(tmp_path / "spent.db")
    headcount("ledger", "create", book, "--dataset", "arms", "--epsilon", "1", "--delta", "0.01")
    asked = ["estimate", str(arms), "--column", "yes", "--epsilon", "1", "--ledger", book]
    refused = headcount(*asked, *given)
    assert refused.status == 2
    assert says in refused.err
    assert not json.loads(headcount("ledger", "show", book, "--json").out)["datasets"][0]["entries"]


def test_differences_on_the_command_line(headcount: Headcount) -> None:
    asked = ["plan", "count", "--difference", "0.1", "--epsilon", "1", "--trust", "local"]
    document = json.loads(headcount(*asked, "--share", "0.3", "--power", "0.8", "--json").out)
    assert document["without_privacy"] == 356
    assert document["answers"][0]["users"] == 1802
    shown = headcount(*asked, "--share", "30%").out
    assert "30 % and 40 % apart with a power of 80 %" in shown
    assert "1,802" in shown
    for given, says in (
        (["plan", "count", "--difference", "0.1"], "--difference must come with --epsilon"),
        ([*asked, "--users", "100"], "--users must come without --difference"),
        ([*asked, "--margin", "1%"], "--margin must come without --difference"),
        ([*asked, "--share", "95%"], "`share` must be between 0 and 0.9"),
        (["plan", "count", "--power", "0.9", "--epsilon", "1"], "must come with --difference"),
        (
            ["plan", "histogram", "--buckets", "3", *asked[2:]],
            "--difference must come with a count",
        ),
    ):
        refused = headcount(*given)
        assert refused.status == 2
        assert says in refused.err
