"""Rounding of numbers to levels, and the error of the sum. All protocols for sums use this module.

Notation    x ∈ [low, high] is a person's number, n is the number of people, L is the number of
            levels above 0, and u = (high−low)/L is the distance between levels. t = (x−low)/u is
            the place of x among the levels 0, …, L.
Randomizer  Round t at random, and without bias, to the level below or above it. If t is itself a
            level, it does not change. Then the protocol randomizes the level.
Analyzer    Let S be an unbiased estimate of the sum of all levels. The sum of all numbers is
            estimated by n·low + u·S, and the mean by this estimate divided by n.
Error       The variance of the estimated sum is u²·(variance of S + Σ f(1−f)), where f = t − ⌊t⌋
            for each person. Rounding adds at most u²·n/4. If all numbers are whole and each of them
            is a level, rounding adds nothing.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headcount.core.bucket_sums import Part, Weights, independent_parts, lattice_of
from headcount.core.cached import cached_property
from headcount.core.lattice import LatticeLaw
from headcount.core.source import Source
from headcount.core.task import Holding
from headcount.core.tasks.bounded import Bounded
from headcount.randomness.rounding import rounded
from headcount.randomness.totals import binomial

_SMALL = 1000  # up to this many people, Hoeffding's inequality bounds the rounding error
_TERMS = 4096  # the largest number of terms in a sum over the values of the noise
# If a whole crowd is rounded in a single step, probabilities are multiples of 1/_FINEST.
_FINEST = 2**128
_CHUNK = 1 << 15  # the number of values that are rounded at a time


@dataclass(frozen=True)
class Grid:
    """The levels 0, …, L between the bounds of a task."""

    task: Bounded
    levels: int

    @cached_property
    def unit(self) -> Fraction:
        """The distance between two levels."""
        return self.task.span / self.levels

    @property
    def exact(self) -> bool:
        """Whether every number that a person may hold is a level. Then nothing is rounded."""
        return self.task.whole and self.levels % int(self.task.span) == 0

    @property
    def full(self) -> bool:
        """Whether every level is a number that a person may hold."""
        return not self.task.whole or self.unit.denominator == 1

    def place(self, value: float) -> Fraction:
        """The place t of a number among the levels."""
        return (Fraction(value) - Fraction(self.task.low)) / self.unit

    def round(self, values: NDArray[Any], source: Source) -> NDArray[np.integer]:
        """The level to which each value is rounded. The result may share memory with `values`."""
        low = self.task.low
        if self.exact:
            factor = self.levels // int(self.task.span)
            same = low == 0 and factor == 1
            return values if same else (values.astype(np.int64) - int(low)) * factor
        # The difference, the product and the factor each have one rounding error. So a computed
        # place is off by less than `error`.
        scale, error = float(1 / self.unit), self.levels * 2.0**-51
        out = np.empty(len(values), dtype=np.int64)
        for start in range(0, len(values), _CHUNK):  # a chunk stays in the cache
            piece = values[start : start + _CHUNK]
            exactly = partial(self._place_of, piece)
            out[start : start + _CHUNK] = rounded(source, (piece - low) * scale, error, exactly)
        return out

    def _place_of(self, values: NDArray[Any], person: int) -> Fraction:
        return self.place(values[person].item())

    def chances(self, value: float) -> list[tuple[int, Fraction]]:
        """The levels that a number may be rounded to, and their probabilities."""
        below, share = divmod(self.place(value), 1)
        both = ((int(below), 1 - share), (int(below) + 1, share))
        return [(level, chance) for level, chance in both if chance]

    def rounded(self, held: Holding, source: Source) -> Holding:
        """The number of people at each level after random rounding, drawn for everybody at once."""
        levels: dict[int, int] = {}
        for value, people in zip(held.values.tolist(), held.counts.tolist(), strict=True):
            (below, *_), *above = self.chances(value)
            # The probability may be too small for a float, so it is a fraction.
            share = Fraction(round(above[0][1] * _FINEST), _FINEST) if above else Fraction(0)
            up = int(binomial(source, people, share)[0]) if people else 0
            for level, count in ((below, people - up), (below + 1, up)):
                if count:
                    levels[level] = levels.get(level, 0) + count
        return Holding(np.array(list(levels), dtype=np.int64), np.array(list(levels.values())))

    def variance(self, users: int, held: Holding | None) -> float:
        """The variance Σ f(1−f) that rounding adds, or its maximum if `held` is None."""
        if held is not None:
            places = [self.place(value) % 1 for value in held.values.tolist()]
            shares = np.array([float(place * (1 - place)) for place in places])
            return float(held.counts @ shares)
        if not self.task.whole:
            return users / 4
        # The places of whole numbers are multiples of L/(high−low), so f can be any multiple of
        # 1/steps.
        steps = self.unit.numerator
        return float(users * Fraction(steps // 2 * (steps - steps // 2), steps * steps))


class LevelNoise(Protocol):
    """The law of noise on the sum of levels. The noise is symmetric and takes integer values."""

    @property
    def standard_error(self) -> float: ...

    def tail(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(error > z) for integers z, or an upper bound."""

    def margins(self, confidence: float) -> tuple[float, float]: ...

    def lattice(self) -> LatticeLaw: ...


@dataclass(frozen=True)
class RoundedError:
    """The error of an answer: noise on the sum of levels, plus the error of rounding.

    For small crowds, the error of rounding n numbers is bounded by Hoeffding's inequality:
    P(sum of errors > y) ≤ e^{−2y²/n}. For large crowds, the rounding error is treated as normal,
    with a variance of at most n/4.
    """

    noise: LevelNoise
    unit: float  # how much the answer changes if the sum of levels changes by one
    people: int  # the number of people whose numbers were rounded
    variance: float  # an upper bound on the variance of rounding

    @property
    def standard_error(self) -> float:
        return self.unit * math.hypot(self.noise.standard_error, math.sqrt(self.variance))

    def margins(self, confidence: float) -> tuple[float, float]:
        if not self.variance:
            above, below = self.noise.margins(confidence)
            return self.unit * above, self.unit * below
        margin = self.unit * _margin(self, (1 - confidence) / 2)
        return margin, margin

    def lattice(self) -> LatticeLaw:
        law = self.noise.lattice()
        if self.variance:
            law = law.plus(LatticeLaw.normal(math.sqrt(self.variance), law.step))
        return law.scaled(self.unit)

    def weighted(self, weights: Weights) -> list[Part]:
        return independent_parts(lattice_of(self), weights)

    def tail(self, margin: float) -> float:
        """An upper bound on both P(error > margin) and P(error < −margin). Units are levels."""
        reach = 9 * math.sqrt(self.people)
        step = math.ceil(2 * reach / _TERMS)
        # If the noise is in (z − step, z], the error exceeds the margin only if the rounding error
        # exceeds margin − z. The sum is over all z above margin − reach. The last term bounds the
        # probability that the rounding error exceeds `reach`.
        ends = math.floor(margin - reach) + step * np.arange(math.ceil(2 * reach / step) + 1)
        tails = self.noise.tail(ends.astype(np.float64))
        masses = np.maximum(tails[:-1] - tails[1:], 0.0)
        beyond = float(tails[-1]) + float(
            masses @ self._rounding(margin - ends[1:].astype(np.float64))
        )
        return beyond + math.exp(-2 * 81)

    def _rounding(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """An upper bound on P(rounding error > y), or its normal approximation."""
        from scipy import special  # loaded here, since it is slow to load

        if self.people <= _SMALL:
            return np.exp(-2 * np.maximum(values, 0.0) ** 2 / self.people)
        deviations = (values - 0.5) / math.sqrt(self.variance)
        normal: NDArray[np.float64] = special.ndtr(-deviations)
        return normal


@lru_cache(maxsize=256)
def _margin(error: RoundedError, half: float) -> float:
    """The smallest margin with tail(margin) ≤ half, rounded up by at most one part in 2^16."""
    low, high = 0.0, 1.0
    while error.tail(high) > half:
        low, high = high, 2 * high
    while high - low > 2.0**-16 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if error.tail(middle) <= half else (middle, high)
    return high
