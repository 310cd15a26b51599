"""Probability laws on consecutive integers, with certified bounds on their errors.

The window of a law is the range of integers for which the law stores masses. Each mass is within a
factor 1 ± slack of the true mass, even far out in the tails. The probability of all integers
outside the window is at most `tail`. Because the errors of masses are *relative*, a divergence of
1e-12 has as many correct digits as a divergence of 0.1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headcount.core.lattice import LatticeLaw

ROUNDING = 2.0**-53  # the relative rounding error of one floating-point operation
TAIL = 2.0**-80  # windows are so large that the probability outside is about this
_LOG_TAIL = math.log(2 / TAIL)
LEAST_FLOAT = 5e-324  # the smallest positive float
# Masses below e^−600 times the largest mass are cut off, since floats below e^−708 lose precision.
LEAST_LOG = -600.0


@dataclass(frozen=True, eq=False)
class Law:
    """P(X = start + i) is mass[i], up to a factor 1 ± slack. P(X outside the window) ≤ tail."""

    start: int
    mass: NDArray[np.float64] = field(repr=False)
    slack: float = 0.0
    tail: float = 0.0

    @property
    def stop(self) -> int:
        return self.start + len(self.mass)

    @property
    def values(self) -> NDArray[np.int64]:
        """The integers of the window, one for each mass."""
        return np.arange(self.start, self.stop)

    def shift(self, by: int) -> "Law":
        """The law of X + by."""
        return replace(self, start=self.start + by)

    def mirror(self) -> "Law":
        """The law of −X."""
        return replace(self, start=1 - self.stop, mass=self.mass[::-1])

    def plus(self, other: "Law") -> "Law":
        """The law of X + Y for independent X and Y.

        The masses are direct sums of products. Nothing cancels, so the far tails stay accurate.
        """
        mass = np.convolve(self.mass, other.mass)
        rounding = ROUNDING * (2 + min(len(self.mass), len(other.mass)))
        slack = (1 + self.slack) * (1 + other.slack) * (1 + rounding) - 1 + 4 * ROUNDING
        return Law(self.start + other.start, mass, slack, self.tail + other.tail)

    def times(self, count: int) -> "Law":
        """The law of the sum of `count` independent copies of X, by repeated doubling."""
        total, power = Law(0, np.ones(1)), self
        while True:
            if count & 1:
                total = total.plus(power).trimmed(TAIL**2)
            count >>= 1
            if not count:
                return total
            power = power.plus(power).trimmed(TAIL**2)

    def trimmed(self, rare: float) -> "Law":
        """The law without its two ends, which together have a probability of at most `rare`."""
        below, above = np.cumsum(self.mass), np.cumsum(self.mass[::-1])
        first = int(np.searchsorted(below, rare / 2))
        last = len(self.mass) - int(np.searchsorted(above, rare / 2))
        return Law(self.start + first, self.mass[first:last], self.slack, self.tail + 2 * rare)

    def binned(self, step: int) -> "Law":
        """The law of ⌊X/step⌋."""
        first = self.start // step
        mass = np.bincount(self.values // step - first, self.mass).astype(np.float64)
        return replace(self, start=first, mass=mass, slack=self.slack + step * ROUNDING)

    def plus_geometric(self, ratio: float) -> "Law":
        """The law of X + Y for Y ~ NB(1, ratio) (see `negative_binomial`).

        The float `ratio` is taken as exact. The binary digits of Y are independent, and digit j is
        1 with odds ratio^(2^j). So one pass over the masses per digit is enough.
        """
        if ratio < TAIL:
            return replace(self, slack=self.slack + ROUNDING, tail=self.tail + TAIL)
        digits = math.ceil(math.log2(_LOG_TAIL / -math.log(ratio) + 2))
        mass = np.concatenate([self.mass, np.zeros((1 << digits) - 1)])
        odds = ratio
        for digit in range(digits):
            step = 1 << digit
            mass[step:] += odds * mass[:-step]
            mass /= 1 + odds
            odds *= odds
        # After repeated squaring, ratio^(2^j) has a relative error of 2^j times `ROUNDING`. So
        # P(Y = k) has a relative error of k times `ROUNDING`. Each pass adds a few more rounding
        # errors.
        slack = (1 + self.slack) * (1 + ROUNDING * (2 * (1 << digits) + 16 * digits)) - 1
        return Law(self.start, mass, slack, self.tail + TAIL)

    def lattice(self, mean: Fraction | float) -> LatticeLaw:
        """The law of X − mean as a `LatticeLaw`, from which statistics are computed."""
        return LatticeLaw(float(self.start - mean), self.mass, missing=self.slack + self.tail)

    def above(self, value: int) -> float:
        """P(X > value), rounded up."""
        inside = self.mass[max(0, value + 1 - self.start) :]
        return min(1.0, float(inside.sum()) * (1 + self.slack + len(inside) * ROUNDING) + self.tail)

    def central_interval(self, confidence: float) -> tuple[int, int]:
        """The narrowest [a, b] such that P(X < a) and P(X > b) are each at most
        (1 − confidence)/2.
        """
        half = (1 - confidence) / 2
        # Probability that may be missing from the window counts as outside the interval.
        spare = max(half - self.tail - self.slack, 0.0)
        below = np.cumsum(self.mass)
        above = np.cumsum(self.mass[::-1])
        low = self.start + int(np.searchsorted(below, spare, side="right"))
        high = self.stop - 1 - int(np.searchsorted(above, spare, side="right"))
        return min(low, self.stop - 1), max(high, self.start)


def binomial(trials: int, p: Fraction, beyond: float = TAIL) -> Law:
    """The law Bin(trials, p), computed from the mode outward by the ratios of neighboring masses.

    The probability outside the window is about `beyond`, or less.

    P(k)/P(k−1) = (trials−k+1)p / (k(1−p)) = 1 + ((trials+1)p − k) / (k(1−p)). The integer part of
    (trials+1)p − k is exact, so even ratios near 1 have logarithms with a small relative error.
    """
    if p in (0, 1):
        return Law(trials * int(p), np.ones(1))
    p_float, q_float = float(p), float(1 - p)
    mode, fraction = divmod((trials + 1) * p, 1)
    # Bernstein's inequality is P(|X − mean| ≥ h) ≤ 2 exp(−h²/(2(v + h/3))), where v is the
    # variance. It only sets the size of the window.
    log = math.log(2 / beyond)
    reach = log / 3 + math.sqrt(log**2 / 9 + 2 * trials * p_float * q_float * log)

    def log_ratio(k: NDArray[np.float64]) -> NDArray[np.float64]:
        excess = ((mode - k) + float(fraction)) / (k * q_float)
        direct = (trials - k + 1) * p_float / (k * q_float)
        near = np.abs(excess) < 0.5
        return np.where(near, np.log1p(np.where(near, excess, 0.0)), np.log(direct))

    return _from_mode(int(mode), reach, reach, log_ratio, most=trials)


def poisson(mean: Fraction) -> Law:
    """The law Poisson(mean), mean > 0, with P(k)/P(k−1) = mean/k."""
    reach = _LOG_TAIL + math.sqrt(2 * float(mean) * _LOG_TAIL)
    return _from_mode(math.floor(mean), reach, reach, lambda k: np.log(float(mean) / k))


def negative_binomial(r: Fraction, p: Fraction) -> Law:
    """The law NB(r, p), r > 0, with P(k) = C(k+r−1, k)(1−p)^r p^k, so P(k)/P(k−1) = p(k−1+r)/k.

    Many people can draw such a number together, because NB(r, p) is the law of the sum of n
    independent NB(r/n, p).
    """
    r_float, p_float, q_float = float(r), float(p), float(1 - p)
    mode = max(0, math.floor((r - 1) * p / (1 - p)))
    # NB(r, p) resembles a gamma law. The variance of NB(r, p) is rp/q², and its tail falls like
    # p^k.
    spread = math.sqrt(2 * r_float * p_float * _LOG_TAIL) / q_float

    def log_ratio(k: NDArray[np.float64]) -> NDArray[np.float64]:
        ratio: NDArray[np.float64] = np.log((k - 1 + r_float) / k * p_float)
        return ratio

    return _from_mode(mode, spread, spread + _LOG_TAIL / q_float, log_ratio, limit=p_float)


def _from_mode(
    mode: int,
    below: float,
    above: float,
    log_ratio: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    *,
    most: int | None = None,
    limit: float = 0.0,
) -> Law:
    """The law on 0, …, most with ln(P(k)/P(k−1)) = log_ratio(k).

    `log_ratio` may have an absolute error of 8 times `ROUNDING`, and also a relative error of this
    size. The window is from about mode − below to mode + above, without masses that `LEAST_LOG`
    cuts off. The ratios P(k)/P(k−1) are monotone in k, and approach `limit` < 1. So outside the
    window, the ratio of each mass to its neighbor nearer to the mode is at most the larger of
    `limit` and the ratio at the edge of the window.
    """
    low = max(0, mode - math.ceil(below) - 1)
    high = mode + math.ceil(above) + 1
    high = high if most is None else min(most, high)
    up = log_ratio(np.arange(mode + 1, high + 1, dtype=np.float64))
    down = -log_ratio(np.arange(mode, low, -1, dtype=np.float64))
    rising, falling = (sums[sums > LEAST_LOG] for sums in (np.cumsum(up), np.cumsum(down)))
    low, high = mode - len(falling), mode + len(rising)
    weights = np.exp(np.concatenate([falling[::-1], [0.0], rising]))
    total = float(weights.sum())

    tail = 0.0
    for logs, sums, ends, limiting in (
        (up, rising, high != most, limit),
        (down, falling, low > 0, 0.0),
    ):
        if ends:
            # `ratio` is at least the first mass outside the window, divided by the last inside it.
            ratio = max(math.exp(logs[min(len(sums), len(logs) - 1)]), limiting)
            last = math.exp(sums[-1]) if len(sums) else 1.0
            tail += max(2 * last * ratio / (1 - ratio) / total, LEAST_FLOAT)
    # Each step of a running sum adds a rounding error in proportion to the sum so far.
    steps = max(
        8 * (len(logs) + float(np.abs(logs).sum())) + float(np.abs(sums).sum())
        for logs, sums in ((up, rising), (down, falling))
    )
    slack = 2 * ROUNDING * (steps + 64) + tail
    return Law(low, weights / total, slack, tail)
