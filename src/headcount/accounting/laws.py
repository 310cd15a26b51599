"""Finite laws on consecutive integers, with a certificate of how far they are from the truth.

A probability is carried with *relative* error: a law's masses are all within a factor 1 ± slack of
the true ones, far out in the tails too, and what lies outside its window weighs at most `tail`.
Divergences of 1e-12 then come out as exactly as those of 0.1.
"""

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

UNIT = 2.0**-53  # relative rounding error of one floating-point operation
TAIL = 2.0**-80  # what a window may leave outside, before it is certified
LEAST_FLOAT = 5e-324
LEAST_LOG = -600.0  # smaller masses lose their relative precision as floats, and are cut


@dataclass(frozen=True, eq=False)
class Law:
    """P(X = start + i) is mass[i], up to a factor 1 ± slack; P(X outside) ≤ tail."""

    start: int
    mass: NDArray[np.float64] = field(repr=False)
    slack: float = 0.0
    tail: float = 0.0

    @property
    def stop(self) -> int:
        return self.start + len(self.mass)

    def shift(self, by: int) -> "Law":
        """The law of X + by."""
        return replace(self, start=self.start + by)

    def mirror(self) -> "Law":
        """The law of −X."""
        return replace(self, start=1 - self.stop, mass=self.mass[::-1])

    def plus(self, other: "Law") -> "Law":
        """The law of X + Y for independent X and Y.

        By direct sums of products: nothing cancels, so that the far tails stay exact too.
        """
        mass = np.convolve(self.mass, other.mass)
        rounding = UNIT * (2 + min(len(self.mass), len(other.mass)))
        slack = (1 + self.slack) * (1 + other.slack) * (1 + rounding) - 1 + 4 * UNIT
        return Law(self.start + other.start, mass, slack, self.tail + other.tail)

    def central_interval(self, confidence: float) -> tuple[int, int]:
        """The narrowest [a, b] that leaves at most half of 1 − confidence on either side."""
        half = (1 - confidence) / 2
        # The certificate is spent on the safe side: what may be missing counts as outside.
        spare = max(half - self.tail - self.slack, 0.0)
        below = np.cumsum(self.mass)
        above = np.cumsum(self.mass[::-1])
        low = self.start + int(np.searchsorted(below, spare, side="right"))
        high = self.stop - 1 - int(np.searchsorted(above, spare, side="right"))
        return min(low, self.stop - 1), max(high, self.start)


def binomial(trials: int, p: Fraction) -> Law:
    """Bin(trials, p), from the mode outwards by the ratios of neighboring masses.

    P(k)/P(k−1) = (trials−k+1)p / (k(1−p)) = 1 + ((trials+1)p − k) / (k(1−p)). The integer part of
    (trials+1)p − k is exact, so that ratios near 1 are known to relative precision, and so is
    their logarithm.
    """
    if p in (0, 1):
        return Law(trials * int(p), np.ones(1))
    p_float, q_float = float(p), float(1 - p)
    mode, fraction = divmod((trials + 1) * p, 1)
    # Bernstein: P(|X − mean| ≥ h) ≤ 2 exp(−h²/(2(v + h/3))). It only sizes the window.
    log_tail = math.log(2 / TAIL)
    reach = log_tail / 3 + math.sqrt(log_tail**2 / 9 + 2 * trials * p_float * q_float * log_tail)
    low, high = max(0, mode - math.ceil(reach) - 1), min(trials, mode + math.ceil(reach) + 1)

    def log_ratio(k: NDArray[np.float64]) -> NDArray[np.float64]:
        excess = ((mode - k) + float(fraction)) / (k * q_float)
        direct = (trials - k + 1) * p_float / (k * q_float)
        near = np.abs(excess) < 0.5
        return np.where(near, np.log1p(np.where(near, excess, 0.0)), np.log(direct))

    up = log_ratio(np.arange(mode + 1, high + 1, dtype=np.float64))
    down = -log_ratio(np.arange(mode, low, -1, dtype=np.float64))
    rising, falling = (sums[sums > LEAST_LOG] for sums in (np.cumsum(up), np.cumsum(down)))
    low, high = mode - len(falling), mode + len(rising)
    weights = np.exp(np.concatenate([falling[::-1], [0.0], rising]))
    total = float(weights.sum())

    # Away from the mode, masses fall faster than geometrically.
    tail = 0.0
    for logs, sums, ends in ((up, rising, high < trials), (down, falling, low > 0)):
        if ends:
            # At least the ratio of the first mass outside to the last inside, where it is known.
            ratio = math.exp(logs[min(len(sums), len(logs) - 1)])
            last = math.exp(sums[-1]) if len(sums) else 1.0
            tail += max(2 * last * ratio / (1 - ratio) / total, LEAST_FLOAT)
    # A logarithm is good to 8 units; a running sum adds one unit of its size at each step.
    steps = max(
        8 * (len(logs) + float(np.abs(logs).sum())) + float(np.abs(sums).sum())
        for logs, sums in ((up, rising), (down, falling))
    )
    slack = 2 * UNIT * (steps + 64) + tail
    return Law(low, weights / total, slack, tail)
