"""Sums from people who respond with their level, or now and then with something else.

Notation    Levels 0, …, L of `fixed_point`; V(j) the variance that randomizing adds to the estimate
            for a person of level j, in squared levels.
Error       A person whose place is j + f is rounded to j + 1 with probability f, else to j:
            variance f(1−f) + (1−f)V(j) + fV(j+1). People are independent, and messages bounded: the
            error is near normal where there are many, and bounded by Bernstein where few.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from headcount.core.cached import cached_property
from headcount.core.messages import Messages
from headcount.core.randomizer import BundleLaw
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding
from headcount.protocols.inner import InnerProtocol
from headcount.protocols.level_protocol import LevelProtocol

MOST_RESPONSES = 2**12  # levels of those who respond for themselves
_CHUNK = 1 << 16  # people who respond at a time
_MANY = 10  # times what one message weighs is the standard error: then the sum is near normal


@dataclass(frozen=True)
class BoundedError:
    """The error of a sum of independent messages, none of which moves it by more than `width`."""

    standard_error: float
    width: float

    def margins(self, confidence: float) -> tuple[float, float]:
        if self.standard_error >= _MANY * self.width:
            # Half a step of their lattice keeps coverage up.
            deviations = -NormalDist().inv_cdf((1 - confidence) / 2)
            margin = deviations * self.standard_error + self.width / 2
        else:
            # Bernstein: P(error > s) ≤ exp(−s²/(2(variance + width·s/3))).
            log = math.log(2 / (1 - confidence))
            third = log * self.width / 3
            margin = third + math.sqrt(third**2 + 2 * log * self.standard_error**2)
        return margin, margin


@dataclass(frozen=True)
class ResponseSum(LevelProtocol):
    """A subclass says what is sent for a level, and how far that may be from it."""

    @property
    @abstractmethod
    def _level_variances(self) -> NDArray[np.float64]:
        """The variances V(0), …, V(L)."""

    @property
    @abstractmethod
    def _width(self) -> float:
        """How far one message moves the estimate of the sum of levels, at most."""

    def _variance(self, users: int, held: Holding | None) -> float:
        if held is None:
            return users * self._worst
        rounding = self.grid.variance(users, held)
        noise = [
            float(chance) * self._level_variances[level] * people
            for value, people in zip(held.values.tolist(), held.counts.tolist(), strict=True)
            for level, chance in self.grid.chances(value)
        ]
        return rounding + math.fsum(noise)

    @cached_property
    def _worst(self) -> float:
        """The largest variance of one person."""
        if self.grid.exact:
            return float(self._level_variances.max())
        below, rise = self._level_variances[:-1], np.diff(self._level_variances)
        share = np.clip((1 + rise) / 2, 0, 1)
        return float(np.max(below + share * (1 - share) + share * rise))

    @property
    def worst_is_attained(self) -> bool:
        """Whole numbers that are rounded need not reach the worst place between two levels."""
        return self.grid.exact or not self._bounds.whole

    def _error_law(self, users: int, value: float) -> BoundedError:
        unit = float(self._unit(users))
        return BoundedError(self._standard_error(users, None), unit * self._width)


@dataclass(frozen=True)
class CountedSum(ResponseSum, InnerProtocol):
    """Levels are counted by another protocol, and the counts added up, each times its level.

    The one inside is for a count, or for a histogram of all levels.
    """

    def _level_law(self, level: int) -> BundleLaw | None:
        return self._inner.law(level)

    def _send(self, levels: NDArray[np.integer], source: Source) -> Messages:
        return self._inner._randomize(levels.astype(self.alphabet.dtype, copy=False), source)

    def _level_sum(self, tally: Tally, source: Source | None) -> Fraction:
        counts = np.atleast_1d(self._inner._unbiased(tally, source))
        # A count is that of level 1; a histogram begins with level 0.
        return Fraction(float(counts @ np.arange(self._levels + 1)[-len(counts) :]))

    def _simulate_levels(self, held: Holding, source: Source) -> NDArray[np.int64]:
        counts = np.zeros(self._levels + 1, dtype=np.int64)
        counts[held.values] = held.counts
        return self._inner._simulate(Holding(np.arange(self._levels + 1), counts), source)


def in_parts(
    respond: Callable[[NDArray[np.integer], Source], NDArray[np.int64]],
    levels: NDArray[np.integer],
    source: Source,
    dtype: np.dtype[np.integer],
) -> Messages:
    """Everybody's response, by parts of the crowd that fit into memory."""
    out = np.empty(len(levels), dtype=dtype)
    for start in range(0, len(levels), _CHUNK):
        out[start : start + _CHUNK] = respond(levels[start : start + _CHUNK], source)
    return Messages.one_each(out)
