"""The error of geometric noise: the difference between independent variables NB(t, b) and NB(t, a).

NB(t, a) is the negative binomial law, under which k has a probability proportional to
binom(k+t−1, k)·a^k. If t = 1 and b = a, the difference is two-sided geometric:
P(z) = (1−a)/(1+a)·a^|z|. This is the law of central noise of rate −ln a. In some protocols, each
person adds a share of noise with t = 1/h, where h is the number of honest people. Then the sum of
the shares of h people has t = 1, and the sum of the shares of all n people has t = n/h.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.accounting import laws
from headcount.accounting.geometric import noise_law
from headcount.accounting.lattice_sums import Term, known_sum_law
from headcount.accounting.laws import Law
from headcount.core.bucket_sums import Part, Weights, independent_parts, lattice_of
from headcount.core.lattice import MOST_MASSES, LatticeLaw

_FINEST = 2.0**-12  # the smallest rate for which a law is tabulated
_REACH = 45.0  # P(|Z| > _REACH/rate) is below 1e-19
_WIDEST = 2.0**16  # the largest standard deviation of a tabulated law, in steps


@dataclass(frozen=True)
class GeometricError:
    """The difference between two independent variables with the law NB(t, e^−rate)."""

    rate: float
    times: Fraction = Fraction(1)  # t

    @property
    def standard_error(self) -> float:
        # √(2a)/(1−a) = 1/(√2·sinh(rate/2)). The second form is accurate for small rates.
        return math.sqrt(self.times / 2) / math.sinh(self.rate / 2)

    def tail(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(error > z) = P(error < −z) for integers z. If t ≠ 1, it is an upper bound for z ≥ 0."""
        if self.times == 1:
            inside = np.exp(-self.rate * (np.abs(values + 0.5) + 0.5)) / (1 + math.exp(-self.rate))
            return np.where(values >= 0, inside, 1 - inside)
        step = math.ceil(_FINEST / self.rate)
        beyond = _tails(self.times, self.rate * step)
        # If a step is longer than 1, the table has no entry for the integers between two steps. The
        # entry of the step before is an upper bound for them.
        at = np.floor(np.abs(values + 0.5) / step).astype(np.int64)
        known = beyond[np.clip(at - (step > 1), 0, len(beyond) - 1)]
        known = np.where(at < (step > 1), 0.5, known)  # by symmetry, an upper bound for z ≥ 0
        return np.where(values >= 0, known, 1.0 if step > 1 else 1 - known)

    def margins(self, confidence: float) -> tuple[float, float]:
        margin = float(_quantile(self, (1 - confidence) / 2))
        return margin, margin

    def lattice(self) -> LatticeLaw:
        if self.times == 1:
            # If there are too many integers, each point stands for an odd number of them.
            reach = math.ceil(_REACH / self.rate)
            aside = reach // MOST_MASSES
            step = 2 * aside + 1
            points = step * np.arange(-math.ceil(reach / step), math.ceil(reach / step) + 1.0)
            tails = self.tail(np.append(points - aside - 1, points[-1] + aside))
            return LatticeLaw(points[0], -np.diff(tails), float(step), 1e-15, float(aside))
        step = math.ceil(_FINEST / self.rate)
        beyond = _tails(self.times, self.rate * step)
        upper = -np.diff(beyond)
        mass = np.concatenate([upper[::-1], [1 - 2 * beyond[0]], upper])
        blur = float(step) if step > 1 else 0.0
        return LatticeLaw(-step * len(upper), mass, float(step), 1e-12, blur)

    def weighted(self, weights: Weights) -> list[Part]:
        return independent_parts(lattice_of(self), weights)

    @property
    def grain(self) -> int:
        """The step of `law`. It is above 1 if the law would otherwise be too long."""
        step = math.ceil(_FINEST / self.rate)
        return step * math.ceil(self.standard_error / step / _WIDEST)

    @property
    def law(self) -> Law:
        """The law of the error in steps of `grain`.

        A geometric variable that is divided by a step and rounded down is geometric again. So the
        law in steps has the same form, with a larger rate.
        """
        return _law(self)


class CenteredError(ABC):
    """The error of noise whose mean is subtracted. A subclass states the law of the noise."""

    @property
    @abstractmethod
    def mean(self) -> Fraction | float:
        """The mean of the noise."""

    @property
    @abstractmethod
    def law(self) -> Law:
        """The law of the noise, before the mean is subtracted."""

    def margins(self, confidence: float) -> tuple[float, float]:
        low, high = self.law.central_interval(confidence)
        mean = float(self.mean)
        return mean - low, high - mean

    def lattice(self) -> LatticeLaw:
        return self.law.lattice(self.mean)


@dataclass(frozen=True)
class UnequalError(CenteredError):
    """The difference between NB(t, e^−plus_rate) and NB(t, e^−minus_rate), minus its mean."""

    plus_rate: float
    minus_rate: float
    times: Fraction = Fraction(1)  # t

    grain: ClassVar[int] = 1

    @property
    def standard_error(self) -> float:
        # a/(1−a)² = 1/(4·sinh²(rate/2)).
        rates = (self.plus_rate, self.minus_rate)
        return math.sqrt(self.times / 4 * sum(math.sinh(rate / 2) ** -2 for rate in rates))

    @property
    def mean(self) -> float:
        """The mean of NB(t, e^−plus_rate) minus the mean of NB(t, e^−minus_rate)."""
        plus, minus = (1 / math.expm1(rate) for rate in (self.plus_rate, self.minus_rate))
        return float(self.times) * (plus - minus)

    @property
    def law(self) -> Law:
        return _difference(self)

    def weighted(self, weights: Weights) -> list[Part]:
        return independent_parts(lattice_of(self), weights)


@lru_cache(maxsize=64)
def _difference(error: UnequalError) -> Law:
    plus, minus = (
        laws.negative_binomial(error.times, Fraction(math.exp(-rate)))
        for rate in (error.plus_rate, error.minus_rate)
    )
    return plus.plus(minus.mirror())


@lru_cache(maxsize=64)
def _law(error: GeometricError) -> Law:
    step = math.ceil(_FINEST / error.rate)
    if error.times == 1:
        return noise_law(error.rate * step)
    one = laws.negative_binomial(error.times, Fraction(math.exp(-error.rate * step)))
    one = one.binned(error.grain // step)
    return known_sum_law([Term.of(one), Term.of(one, -1)])


@lru_cache(maxsize=256)
def _quantile(error: GeometricError, half: float) -> int:
    """The smallest z ≥ 0 with P(error > z) ≤ half."""
    half *= 1 + 1e-12
    low, high = -1, 1
    while error.tail(np.array([float(high)]))[0] > half:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        enough = error.tail(np.array([float(middle)]))[0] <= half
        low, high = (low, middle) if enough else (middle, high)
    return high


@lru_cache(maxsize=64)
def _tails(times: Fraction, rate: float) -> NDArray[np.float64]:
    """Upper bounds on P(difference > z) for z = 0, 1, …"""
    law = laws.negative_binomial(times, Fraction(math.exp(-rate)))
    size = 1 << (2 * len(law.mass)).bit_length()
    mass = np.fft.irfft(np.abs(np.fft.rfft(law.mass, size)) ** 2, size)[: size // 2]
    # Fourier transforms have an error of about 1e-16 per entry. 1e-13 covers the sum of errors.
    tails: NDArray[np.float64] = np.cumsum(np.maximum(mass, 0.0)[::-1])[::-1][1:] + 1e-13
    # Beyond the table, there is only the mass that was cut off from the law.
    return np.append(tails, 2 * law.tail)
