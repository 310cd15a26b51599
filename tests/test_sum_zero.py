"""Geometric noise that adds up to 0: its law by enumeration, its error, privacy and draws."""

import itertools
import math
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest

import headcount as hc
from enumeration import log_likelihood_ratio
from headcount.core.bucket_sums import sum_error

ALARM = 1e-6
NAME = "central.sum-zero"
# The standard error of a bucket at epsilon = 1. That of independent noise is 2.79918.
ERRORS = {2: 1.35696, 3: 1.77848, 5: 2.15148, 8: 2.37961, 20: 2.62469}


def build(buckets: int, epsilon: float = 1.0, users: int = 10) -> hc.Protocol:
    return hc.protocol(NAME, hc.Histogram(buckets), hc.Budget(epsilon), hc.Crowd(users))


@cache
def law(buckets: int, epsilon: float, reach: int) -> tuple[Any, Any, float]:
    """The law by its definition, for noise that is no larger than `reach`: every noise, its
    probability, and the sum of all weights.
    """
    first = np.indices((2 * reach + 1,) * (buckets - 1)).reshape(buckets - 1, -1).T - reach
    noise = np.column_stack([first, -first.sum(axis=1)])
    weights = weight(noise, epsilon)
    return noise, weights / weights.sum(), float(weights.sum())


def weight(noise: Any, epsilon: float) -> Any:
    return np.exp(-epsilon / 2 * np.abs(noise).sum(axis=1))


LAWS = pytest.mark.parametrize(
    ("buckets", "epsilon", "reach"), [(2, 0.4, 300), (3, 1.5, 60), (4, 3.0, 18)]
)


@pytest.mark.parametrize(("buckets", "error"), ERRORS.items())
def test_standard_errors(buckets: int, error: float) -> None:
    assert build(buckets).standard_error() == pytest.approx(error, rel=3e-6)


@LAWS
def test_error_and_intervals_are_those_of_the_law(buckets: int, epsilon: float, reach: int) -> None:
    protocol, (noise, chances, _) = build(buckets, epsilon), law(buckets, epsilon, reach)
    own = noise[:, 0]
    assert protocol.standard_error() == pytest.approx(math.sqrt(own**2 @ chances), rel=1e-9)
    error = protocol.estimate(hc.Tally(np.full(buckets, 10), 10 * buckets, NAME)).error_law
    for confidence in (0.5, 0.9, 0.99, 0.9999):
        below, above = error.margins(confidence)
        assert below == above == int(above)
        half = (1 - confidence) / 2
        assert chances[own > above].sum() <= half * (1 + 1e-9)
        assert above == 0 or chances[own >= above].sum() > half * (1 - 1e-9)


@LAWS
def test_curve_is_that_of_every_move(buckets: int, epsilon: float, reach: int) -> None:
    protocol, (noise, chances, total) = build(buckets, epsilon), law(buckets, epsilon, reach)
    assert protocol.guarantee.epsilon == epsilon
    assert protocol.guarantee.delta == 0
    assert protocol.guarantee.exact
    for left, entered in itertools.permutations(range(buckets), 2):
        move = np.eye(buckets, dtype=int)
        others = weight(noise + move[entered] - move[left], epsilon) / total
        losses = np.log(chances / others)
        assert np.abs(losses).max() <= epsilon * (1 + 1e-12)
        for smaller in (-0.7, 0.0, epsilon / 3, 0.9 * epsilon):
            truth = float(np.maximum(chances - math.exp(smaller) * others, 0).sum())
            assert protocol.curve.delta(smaller) == pytest.approx(truth, rel=1e-9, abs=1e-12)
    assert protocol.curve.delta(epsilon) == 0


@pytest.mark.parametrize("counts", [(3, 0, 0), (1, 2, 0), (1, 1, 1)])
def test_law_of_a_release(counts: tuple[int, ...]) -> None:
    """Numbers beyond 0 and n are merged with these ends, which tells apart no less."""
    epsilon, users = 1.5, sum(counts)
    protocol = build(3, epsilon, users)
    stated = protocol.estimator.release_law(hc.Tally(np.array(counts), users, NAME))
    assert stated is not None
    assert sum(stated.values()) == 1
    truth: Counter[tuple[int, ...]] = Counter()
    noise, chances, _ = law(3, epsilon, 60)
    released = np.clip(noise + counts, 0, users).tolist()
    for seen, chance in zip(released, chances.tolist(), strict=True):
        truth[tuple(seen)] += chance
    for seen, chance in stated.items():
        assert float(chance) == pytest.approx(float(truth[seen]), rel=1e-12, abs=1e-15)
    many = hc.Tally(np.array(counts) * 50, users * 50, NAME)
    assert protocol.estimator.release_law(many) is None


@pytest.mark.parametrize(("buckets", "epsilon", "reach"), [(2, 1.0, 90), (3, 0.7, 90), (4, 6, 9)])
def test_noise_has_its_law_and_no_other(buckets: int, epsilon: float, reach: int) -> None:
    source, tally = hc.SeededSource(5), hc.Tally(np.full(buckets, 5), 5 * buckets, NAME)
    estimator = build(buckets, epsilon).estimator
    seen = np.array([estimator.unbiased(tally, source) - 5 for _ in range(1_500)], dtype=int)
    assert not seen.sum(axis=1).any()

    def alike(noise: Any, bucket: int) -> list[tuple[int, ...]]:
        """What is compared of a noise: one bucket, and Σ|z|, on which the probability depends."""
        return list(zip(noise[:, bucket].tolist(), np.abs(noise).sum(axis=1).tolist(), strict=True))

    def fits(wrong: float, bucket: int) -> float:
        noise, chances, _ = law(buckets, wrong, reach)
        summed: Counter[tuple[int, ...]] = Counter()
        for kind, chance in zip(alike(noise, 0), chances.tolist(), strict=True):
            summed[kind] += chance
        return log_likelihood_ratio(Counter(alike(seen, bucket)), summed)[1]

    assert all(fits(epsilon, bucket) > ALARM for bucket in range(buckets))
    assert fits(1.3 * epsilon, 0) < ALARM
    assert fits(epsilon / 1.3, 0) < ALARM


def check_many_buckets(epsilon: float, buckets: int = 10_000) -> None:
    protocol = build(buckets, epsilon, 2 * buckets)
    tally = hc.Tally(np.full(buckets, 2), 2 * buckets, NAME)
    noise = protocol.estimate(tally, hc.SeededSource(3)).value - 2
    assert noise.sum() == 0
    # The noise of so many buckets is nearly independent. The variance differs by about its kurtosis
    # divided by the number of buckets.
    independent = 1 / (math.sqrt(2) * math.sinh(epsilon / 4))
    assert protocol.standard_error() == pytest.approx(
        independent, rel=(9 + independent**-2) / buckets
    )
    assert protocol.standard_error() < independent
    # The fourth moment is at most 6 + 1/variance times the square of the variance.
    rough = 6 * math.sqrt((5 + 1 / independent**2) / buckets)
    assert np.mean(noise**2) == pytest.approx(independent**2, rel=rough)


def test_ten_thousand_buckets() -> None:
    check_many_buckets(1.0, 4_000)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 10.0])
def test_ten_thousand_buckets_at_every_epsilon(epsilon: float) -> None:
    check_many_buckets(epsilon)


def test_buckets_are_correlated_in_densities() -> None:
    """A sum of two of three buckets errs as much as the third."""
    error: Any = build(3).estimate(hc.Tally(np.array([4, 4, 2]), 10, NAME)).error_law
    pairs = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [1.0, -1.0, 0.0]])
    variance = error.standard_error**2
    expected = np.sqrt(np.array([1.0, 1.0, 0.0, 3.0]) * variance)
    assert error.combined(pairs) == pytest.approx(expected, abs=1e-12)


def test_tiny_epsilon_has_safe_margins() -> None:
    protocol = build(2, 1e-6)
    error = protocol.estimate(hc.Tally(np.array([5, 5]), 10, NAME)).error_law
    # Two buckets have noise of rate epsilon.
    assert protocol.standard_error() == pytest.approx(math.sqrt(2) * 1e6, rel=1e-6)
    assert error.margins(0.95)[0] >= math.log(20) * 1e6


def test_too_many_buckets_are_refused() -> None:
    with pytest.raises(hc.Infeasible, match="at most 65536 buckets"):
        build(2**16 + 1)


# Weighted sums -----------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.7, 2.0, 8.0])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 1.0])
def test_sums_are_tested_with_their_exact_law(epsilon: float, share: float) -> None:
    """P(|(1−θ)Z₁ − θZ₂| ≥ t) for noise of three buckets that adds up to 0, ties included."""
    reach = math.ceil(36 / epsilon)
    line = np.arange(-reach, reach + 1)
    x, y = np.meshgrid(line, line, indexing="ij")
    mass = np.exp(-epsilon / 2 * (np.abs(x) + np.abs(y) + np.abs(x + y)))
    mass /= mass.sum()
    sums = np.round((1 - share) * x - share * y, 12)
    protocol = hc.protocol("central.sum-zero", hc.Histogram(3), hc.Budget(epsilon), hc.Crowd(9))
    law = protocol.estimator.error_law(9, np.zeros(3))
    error = sum_error(law, np.array([1 - share, -share, 0.0]))
    deviation = math.sqrt((mass * sums**2).sum())
    assert error.standard_error == pytest.approx(deviation, rel=1e-6)
    for at in (0.5, 1.0, 2.0, 3.0):
        # The nearest possible sum is a tie. Right above it, the probability is smaller.
        tie = float(np.abs(sums).ravel()[np.argmin(np.abs(np.abs(sums) - at * deviation))])
        for value in (tie, tie + 1e-4):
            truth = float(mass[np.abs(sums) >= value - 1e-9].sum())
            assert error.is_possible(value, truth * (1 - 1e-6) - 1e-8)
            assert error.is_possible(-value, truth * (1 - 1e-6) - 1e-8)
            assert not error.is_possible(value, truth * (1 + 1e-6) + 1e-7)
