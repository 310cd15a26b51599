"""Two-sided geometric noise, truncated to 0, …, T, so that it is never negative. T is even.

Up to rounding, P(k) is proportional to a^|k − T/2| with a = e^−rate. P(k) is w(k)/2^128, where the
weights w(k) are integers with w(k) = w(T − k). The ratio of neighboring weights never exceeds
e^rate. So if a person shifts the noise by m, no finite loss exceeds m·rate, and only the m outcomes
at one end have an infinite loss. Hence δ(m·rate) = P(k < m) exactly, in both directions.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.calibration import least_private
from headcount.accounting.laws import ROUNDING, Law
from headcount.core.cached import cached_property
from headcount.core.decimal_digits import decimal_digits, exponential
from headcount.core.guarantee import PrivacyCurve

TOTAL = 1 << 128  # the sum of all weights
MOST = 1 << 18  # the largest T
_DIGITS = 100
_SURE = Decimal("1e-50")  # exceeds all rounding errors of numbers below 2^128 with `_DIGITS` digits


@dataclass(frozen=True)
class TruncatedGeometric:
    """Noise on 0, …, `most` with mean most/2. Up to rounding, each step away from the mean
    multiplies P(k) by e^−rate.
    """

    rate: Fraction
    most: int  # T

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """The probabilities of 0, …, T, times 2^128. `randomness.table` draws from them."""
        return _weights(self.rate, self.most)

    def below(self, value: int) -> Fraction:
        """P(k < value)."""
        return Fraction(sum(self.weights[:value]), TOTAL)

    @property
    def falls(self) -> bool:
        """Whether P(0) ≤ P(1). If not, multiples of 2^−128 are too coarse for this T."""
        return self.weights[0] <= self.weights[1]

    @cached_property
    def variance(self) -> Fraction:
        half = self.most // 2
        squares = sum((k - half) ** 2 * weight for k, weight in enumerate(self.weights))
        return Fraction(squares, TOTAL)

    @cached_property
    def centered(self) -> Law:
        """The law of the noise minus its mean."""
        mass = np.array([weight / TOTAL for weight in self.weights])
        return Law(-(self.most // 2), mass, slack=ROUNDING)


@lru_cache(maxsize=64)
def _weights(rate: Fraction, most: int) -> tuple[int, ...]:
    """The weights w(0), …, w(T).

    Let h = T/2. w(h) is even, and w(k−1) = ⌈a·w(k)⌉ for k ≤ h. So w(k)/w(k−1) ≤ e^rate. w(h) is
    chosen so small that the sum of all weights is at most 2^128. The weight that is missing from
    2^128 is added to w(0) and w(T), half to each.
    """
    half = most // 2
    with decimal_digits(_DIGITS):
        shrink = exponential(-rate)
        norm = 1 + 2 * shrink * (1 - shrink**half) / (1 - shrink)
        falling = [int((TOTAL - half * (half + 1)) / norm) // 2 * 2]
        for _ in range(half):
            exact = shrink * falling[-1] + _SURE
            falling.append(int(exact.to_integral_value(ROUND_CEILING)))
    falling[-1] += (TOTAL - falling[0] - 2 * sum(falling[1:])) // 2
    return (*reversed(falling[1:]), *falling)


def least_most(rate: Fraction, steps: int, delta: float) -> int | None:
    """The smallest even T with P(k < steps) ≤ δ, or None if it exceeds `MOST`."""
    step, first = float(rate), max(1, -(-steps // 2))

    def before_rounding(half: int) -> float:
        # With h = half and m = steps:
        # Σ_{k<m} a^{h−k}(1−a)/(1 + a − 2a^{h+1}) = a^{h−m+1}(1−a^m)/(1 + a − 2a^{h+1})
        norm = -math.expm1(-step * (half + 1)) + math.exp(-step) - math.exp(-step * (half + 1))
        return math.exp(-step * (half - steps + 1)) * -math.expm1(-step * steps) / norm

    def rounded(half: int) -> float:
        law = TruncatedGeometric(rate, 2 * half)
        return float_above(law.below(steps)) if law.falls else 1.0

    near = least_private(before_rounding, delta, start=first, stop=MOST // 2, steps=1)
    if near is None:
        return None
    start, stop = max(first, near - 1), min(near + 3, MOST // 2)
    half = least_private(rounded, delta, start=start, stop=stop)
    return None if half is None else 2 * half


@dataclass(frozen=True, eq=False)
class ShiftCurve(PrivacyCurve):
    """The privacy curve of a number with noise of this law, if a person changes the number by
    `steps`.

    The curve is computed in rational numbers, and only the result is rounded. The law is symmetric,
    so both directions have the same curve. A smaller change of the number has a smaller δ, because
    the law is log-concave.
    """

    law: TruncatedGeometric
    steps: int = 1  # m

    def _delta(self, epsilon: float) -> float:
        ratios, high, low = self._sorted
        factor = exp_below(epsilon)
        inside = bisect_left(ratios, -factor)
        excess = self.law.below(self.steps) * TOTAL + high[inside] - factor * low[inside]
        return min(1.0, float_above(excess / TOTAL))

    def _deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.array([self._delta(float(epsilon)) for epsilon in epsilons])

    @property
    def bends(self) -> NDArray[np.float64]:
        """The finite losses that the law would have without the rounding of its weights. Rounding
        does not widen the range of these losses.
        """
        return float(self.law.rate) * np.arange(-self.steps, self.steps + 1, 2.0)

    @cached_property
    def _sorted(self) -> tuple[Sequence[Fraction], Sequence[int], Sequence[int]]:
        """The ratios −P/Q of all outcomes that are possible under both laws, in ascending order,
        and the cumulative sums of P and of Q in this order.

        P is the law of the noise, and Q is the same law shifted by m.
        """
        weights = self.law.weights
        pairs = sorted(
            zip(weights[self.steps :], weights, strict=False),
            key=lambda pair: Fraction(-pair[0], pair[1]),
        )
        high, low = (list(accumulate(masses, initial=0)) for masses in zip(*pairs, strict=True))
        return [Fraction(-own, other) for own, other in pairs], high, low


def float_above(exact: Fraction) -> float:
    """The smallest float that is not below `exact`."""
    near = float(exact)
    return near if near >= exact else math.nextafter(near, math.inf)


def exp_below(exponent: float) -> Fraction:
    """e^exponent, rounded down after 60 digits. For an exponent above 700 it is e^700, which can
    only increase δ.
    """
    with decimal_digits(80):
        return Fraction(Decimal(min(exponent, 700.0)).exp() * (1 - Decimal("1e-60")))
