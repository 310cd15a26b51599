"""Part 5, shapes: densities from bins with noise and from waves, and how fast errors fall."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

import headcount as hc
from headcount.core.protocol import Protocol
from headcount.randomness.draws import WHOLE

QUESTION = "How much do you earn in a year?"
LOW, HIGH = 0, 100  # thousands
# The made-up population: two groups, each with a beta density on a range scaled to [0, 1].
GROUPS = ((0.65, 4, 10), (0.35, 14, 6))  # share, and the two parameters
POINTS = 240  # the number of places at which the density is drawn
CROWDS = (1000, 3000, 10_000, 30_000, 100_000)
EPSILONS = (0.5, 1.0, 2.0, 4.0)
DELTA = 1e-6  # in shuffle trust
MOST_BINS, MOST_WAVES = 40, 31  # the largest numbers that the reader can choose
MANY_BINS = 220  # enough for the best error of a million people
SIZES = tuple(round(10 ** (2 + step / 2)) for step in range(9))
SMOOTHNESSES = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
CROWD = hc.Crowd(10_000)  # an example, since the variance per person is the same for all crowds

Numbers = NDArray[np.float64]


# The population -------------------------------------------------------------------------------


def density(places: Numbers) -> Numbers:
    total = np.zeros_like(places)
    for share, a, b in GROUPS:
        total += share * places ** (a - 1) * (1 - places) ** (b - 1) / special.beta(a, b)
    return total


def below(places: Numbers) -> Numbers:
    """The share of the population below each place."""
    total = np.zeros_like(places)
    for share, a, b in GROUPS:
        total += share * special.betainc(a, b, places)
    return total


def square_integral() -> float:
    """The integral of the squared density."""
    total: float = sum(
        one * other * special.beta(a + c - 1, b + d - 1) / special.beta(a, b) / special.beta(c, d)
        for one, a, b in GROUPS
        for other, c, d in GROUPS
    )
    return total


def bin_bias(bins: int) -> float:
    """The integrated squared difference between the density and its averages over bins."""
    shares = np.diff(below(np.linspace(0, 1, bins + 1)))
    return square_integral() - bins * float(np.sum(shares**2))


def wave_coefficients(waves: int) -> Numbers:
    """The means of √2·cos(2πmx) and √2·sin(2πmx) for m = 1, 2, …, as `local.density-series` orders
    them.
    """
    count = 1 << 14
    places = (np.arange(count) + 0.5) / count
    values = density(places)
    return np.array(
        [
            np.mean(
                values
                * math.sqrt(2)
                * (np.sin if j % 2 else np.cos)(2 * math.pi * (j // 2 + 1) * places)
            )
            for j in range(waves)
        ]
    )


# Protocols ------------------------------------------------------------------------------------


def laplace_bins(epsilon: float) -> Protocol:
    """Bins with Laplace noise on integers. The noise of a bin is the same for any number of bins,
    so two bins are enough here.
    """
    made: Any = hc.protocol(
        "local.density-histogram",
        hc.Density(0, 1),
        hc.Budget(epsilon),
        CROWD,
        calibration="paper",
        bins=2,
    )
    counting: Protocol = made.inner
    return counting


def amplitude(epsilon: float, waves: int) -> float:
    """The factor B of `local.density-series`, by which mean signs are multiplied."""
    made = hc.protocol(
        "local.density-series", hc.Density(0, 1), hc.Budget(epsilon), CROWD, terms=waves
    )
    estimator: Any = made.estimator
    found: float = estimator.amplitude
    return found


def count_variance(name: str, epsilon: float) -> float:
    """The variance of the count of a bin, for a protocol whose variance does not grow with the
    crowd.
    """
    task = hc.Histogram(MOST_BINS)
    made = hc.protocol(name, task, hc.Budget(epsilon, DELTA), hc.Crowd(100_000))
    return made.standard_error() ** 2


def level(epsilon: float) -> dict[str, Any]:
    noise = laplace_bins(epsilon)
    series = hc.protocol("local.density-series", hc.Density(0, 1), hc.Budget(epsilon), CROWD)
    ratio = math.exp(-noise.parameters["rate"])
    return {
        "epsilon": epsilon,
        "ratio_weight": str(round(ratio * 2**53) * (WHOLE // 2**53)),
        "variance": noise.standard_error() ** 2 / CROWD.users,
        "lie": series.parameters["lie_probability"],
        "amplitudes": [amplitude(epsilon, waves) for waves in range(1, MOST_WAVES + 1, 2)],
        "shuffle": count_variance("shuffle.fake-users", epsilon),
        "central": count_variance("central.geometric", epsilon),
    }


def rounded(numbers: Iterable[float], digits: int = 7) -> list[float]:
    return [float(f"{number:.{digits}g}") for number in numbers]


def numbers() -> dict[str, Any]:
    places = (np.arange(POINTS) + 0.5) / POINTS
    example: Any = hc.protocol("local.density-histogram", hc.Density(0, 1), hc.Budget(1), CROWD)
    return {
        "question": QUESTION,
        "low": LOW,
        "high": HIGH,
        "density": rounded(density(places).tolist()),
        "square": square_integral(),
        "crowds": CROWDS,
        "levels": [level(epsilon) for epsilon in EPSILONS],
        "delta": DELTA,
        "most_bins": MOST_BINS,
        "bias": rounded(bin_bias(bins) for bins in range(1, MANY_BINS + 1)),
        "coefficients": rounded(wave_coefficients(MOST_WAVES).tolist()),
        "sizes": SIZES,
        "smoothnesses": SMOOTHNESSES,
        # The protocol that the library chooses for bins at ε = 1: the number of its bins, and its
        # variance divided by the variance of Laplace noise.
        "oracle": {"bins": example.inner.task.domain, "ratio": _variance_ratio(example)},
    }


def _variance_ratio(example: Any) -> float:
    bins = example.inner.task.domain
    even = [CROWD.users // bins + (place < CROWD.users % bins) for place in range(bins)]
    ratio = example.inner.standard_error(even) / laplace_bins(1).standard_error()
    return float(ratio**2)
