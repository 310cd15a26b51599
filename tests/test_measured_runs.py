"""200 runs on real messages, against laws of the noise that are computed here.

The laws share no code with the package. Limits come from the law of the sum of 200 errors or of
their squares, so a correct protocol fails a test with a probability below 1e-6, for any seed.
"""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import headcount as hc

pytestmark = pytest.mark.slow

Array = NDArray[np.float64]
RUNS = 200
ALARM = 1e-8  # of one side of one comparison; a test has fewer than 50 of them
CONFIDENCE = 0.9
# The probabilities of the errors −REACH, …, REACH, in units of the protocol.
REACH = 300


def centered(masses: Array) -> Array:
    """The law of −REACH, …, REACH from a law with an odd number of values around 0."""
    away = len(masses) // 2 - REACH
    cut = masses[away : away + 2 * REACH + 1] if away >= 0 else np.pad(masses, -away)
    assert cut.sum() == pytest.approx(1, abs=1e-12)
    out: Array = cut / cut.sum()
    return out


def geometric(rate: float, times: float = 1.0) -> Array:
    """Two-sided noise: the difference of two negative binomial numbers."""
    masses = stats.nbinom.pmf(np.arange(REACH + 1), times, -math.expm1(-rate))
    return centered(np.convolve(masses, masses[::-1]))


def spread(law: Array, factor: int) -> Array:
    """The law of `factor` times the error."""
    out = np.zeros(factor * (len(law) - 1) + 1)
    out[::factor] = law
    return out


def less_the_mean(law: Array, buckets: int) -> Array:
    """The law of d·Z_1 − (Z_1 + … + Z_d), for independent Z."""
    total = spread(law, buckets - 1)
    for _ in range(buckets - 1):
        total = np.convolve(total, law[::-1])
    return centered(total)


def given_the_total(law: Array, buckets: int) -> Array:
    """The law of Z_1 if Z_1 + … + Z_d = 0, for independent Z."""
    others = np.ones(1)
    for _ in range(buckets - 1):
        others = np.convolve(others, law)
    middle = len(others) // 2
    together = law * others[middle - REACH : middle + REACH + 1][::-1]
    return centered(together / together.sum())


def limits(law: Array, power: int) -> tuple[float, float]:
    """Limits of the sum of RUNS errors, or of the sum of their squares."""
    size = 2**21
    values = np.arange(-REACH, REACH + 1) ** power
    table = np.bincount(values % size, law, size)
    masses = np.fft.irfft(np.fft.rfft(table) ** RUNS, size)
    below = np.cumsum(np.roll(masses, size // 2))  # from −size/2 on
    low, high = np.searchsorted(below, [ALARM, 1 - ALARM]).tolist()
    return low - size // 2, high - size // 2


def measure(protocol: hc.Protocol, values: Any, truth: Any, unit: float, law: Array) -> None:
    """Errors and intervals of each answer. The error is a multiple of `unit` with this law."""
    places = np.arange(-REACH, REACH + 1)
    deviation = unit * math.sqrt(law @ places**2)
    assert protocol.standard_error() == pytest.approx(deviation, rel=1e-9)
    source, errors, covered, margins = hc.SeededSource(8), [], [], []
    for _ in range(RUNS):
        batch = hc.shuffle(protocol.randomize(values, source), source, protocol)
        answer = protocol.estimate(protocol.tally(batch), source)
        interval = answer.interval(CONFIDENCE)
        errors.append(np.atleast_1d(answer.unbiased_value - truth) / unit)
        margins.append(np.atleast_1d(interval.high - answer.unbiased_value)[np.argmax(truth)])
        covered.append(np.atleast_1d((interval.low <= truth) & (truth <= interval.high)))
        assert np.asarray(answer.standard_error) == pytest.approx(deviation, rel=1e-9)
    whole = np.rint(errors)
    assert np.abs(whole - errors).max() < 1e-6
    for power in (1, 2):
        low, high = limits(law, power)
        sums = (whole**power).sum(axis=0)
        assert np.all((low <= sums) & (sums <= high))
    assert low > 0  # so noise that is left out would be seen
    # All errors up to the margin are covered, and no others. Ends of intervals are whole if counts
    # are, so the margin is that of the longest interval. The largest answer is never cut off.
    margin = math.floor(max(margins) / unit + 1e-6)
    chance = float(law[np.abs(places) <= margin].sum())
    assert chance >= CONFIDENCE
    most = stats.binom.ppf([ALARM, 1 - ALARM], RUNS, chance)
    found = np.sum(covered, axis=0)
    assert np.all((most[0] <= found) & (found <= most[1]))


@pytest.mark.parametrize(("users", "honest"), [(300, 300), (300, 100)])
def test_split_and_mix_of_a_count(users: int, honest: int) -> None:
    budget, crowd = hc.Budget(1, 1e-6), hc.Crowd(users, honest)
    protocol = hc.protocol("shuffle.split-and-mix", hc.Count(), budget, crowd)
    values = np.arange(users) % 3 == 0
    measure(protocol, values, values.sum(), 1.0, geometric(1.0, users / honest))


@pytest.mark.parametrize("sharing", ["vectors", "buckets"])
@pytest.mark.parametrize(("users", "honest"), [(120, 120), (120, 60)])
def test_split_and_mix_of_a_histogram(users: int, honest: int, sharing: str) -> None:
    """The analyzer subtracts the surplus over the known number of people from all buckets."""
    buckets = 4
    protocol = hc.protocol(
        "shuffle.split-and-mix",
        hc.Histogram(buckets),
        hc.Budget(2, 1e-6),
        hc.Crowd(users, honest),
        sharing=sharing,
    )
    values = np.arange(users) % 7 % buckets
    law = less_the_mean(geometric(1.0, users / honest), buckets)
    measure(protocol, values, np.bincount(values, minlength=buckets), 1 / buckets, law)


@pytest.mark.parametrize("total", ["fixed", "free"])
def test_a_noisy_shuffler_of_a_density(total: str) -> None:
    users, bins, task = 500, 6, hc.Density(-3, 5, points=24)
    protocol = hc.protocol(
        "shuffle.noisy-shuffler", task, hc.Budget(2, 1e-6), hc.Crowd(users), bins=bins, total=total
    )
    counts = np.array([150, 20, 0, 80, 100, 150])
    edges = np.linspace(-3, 5, bins + 1)
    values = np.repeat((edges[1:] + edges[:-1]) / 2, counts)
    most = {"fixed": 20, "free": 28}[total]
    assert protocol.parameters == {"bins": bins, "dummies": most, "all_dummies": bins * most // 2}
    away = np.abs(np.arange(-REACH, REACH + 1))
    masses = np.where(away <= most // 2, np.exp(-away), 0.0)
    law, height = masses / masses.sum(), bins / (users * 8)
    unit = height if total == "fixed" else height / bins
    law = given_the_total(law, bins) if total == "fixed" else less_the_mean(law, bins)
    measure(protocol, values, np.repeat(counts, 4) * height, unit, law)
