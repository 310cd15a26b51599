"""Sums of levels from people who respond with their level, or sometimes with another number.

Notation    The levels are 0, …, L (see `fixed_point`). V(j) is the variance that a person at level
            j adds to the estimate because of the random response, in squared levels.
Error       A person whose place is j + f is rounded to j + 1 with probability f, and otherwise to
            j. The person's variance is f(1−f) + (1−f)V(j) + fV(j+1). People are independent and
            messages are bounded. So the error is nearly normal for many people. For few people it
            is bounded by Bernstein's inequality.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.cached import cached_property
from headcount.core.estimator import Estimator, linear_shifts
from headcount.core.influence import Shifts, end_messages
from headcount.core.messages import Alphabet, Messages
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding
from headcount.protocols.levels import LevelEstimator

MOST_RESPONSES = 2**12  # the largest number of levels in a local protocol
_CHUNK = 1 << 16  # the number of people whose responses are drawn at a time
_MANY = 10  # the error is treated as normal if (standard error)/`width` is at least this


@dataclass(frozen=True)
class BoundedError:
    """The error of a sum of independent messages. A message changes the sum by at most `width`."""

    standard_error: float
    width: float

    def margins(self, confidence: float) -> tuple[float, float]:
        if self.standard_error >= _MANY * self.width:
            # Sums lie on a lattice whose step is at most `width`. Adding half of `width` keeps the
            # coverage high enough.
            deviations = -NormalDist().inv_cdf((1 - confidence) / 2)
            margin = deviations * self.standard_error + self.width / 2
        else:
            # Bernstein: P(error > s) ≤ exp(−s²/(2(variance + width·s/3))).
            log = math.log(2 / (1 - confidence))
            third = log * self.width / 3
            margin = third + math.sqrt(third**2 + 2 * log * self.standard_error**2)
        return margin, margin


@dataclass(frozen=True, eq=False)
class ResponseEstimator(LevelEstimator):
    """Adds up people's responses. A subclass gives the variance of a response."""

    @property
    @abstractmethod
    def level_variances(self) -> NDArray[np.float64]:
        """The variances V(0), …, V(L)."""

    @property
    @abstractmethod
    def width(self) -> float:
        """The largest change that one message makes to the estimated sum of levels."""

    def variance(self, users: int, held: Holding | None) -> float:
        if held is None:
            return users * self._worst
        rounding = self.grid.variance(users, held)
        noise = [
            float(chance) * self.level_variances[level] * people
            for value, people in zip(held.values.tolist(), held.counts.tolist(), strict=True)
            for level, chance in self.grid.chances(value)
        ]
        return rounding + math.fsum(noise)

    @cached_property
    def _worst(self) -> float:
        """The largest variance that one person can add."""
        if self.grid.exact:
            return float(self.level_variances.max())
        below, rise = self.level_variances[:-1], np.diff(self.level_variances)
        share = np.clip((1 + rise) / 2, 0, 1)
        return float(np.max(below + share * (1 - share) + share * rise))

    @property
    def worst_is_attained(self) -> bool:
        """Whether some values attain the largest variance.

        If whole numbers are rounded, there may be no number at the worst place between two levels.
        """
        return self.grid.exact or not self.grid.task.whole

    def error_law(self, users: int, unbiased: float) -> BoundedError:
        unit = float(self.unit(users))
        return BoundedError(self.standard_error(users, None), unit * self.width)


@dataclass(frozen=True, eq=False)
class CountedLevels(ResponseEstimator):
    """Multiplies the count of each level by the level, and adds up the products.

    The counts come from another estimator, `counts`. This estimator estimates either a single count
    or a histogram of all levels.
    """

    counts: Estimator
    variances: NDArray[np.float64]  # V(0), …, V(L)
    largest_step: float  # `width`

    @property
    def level_variances(self) -> NDArray[np.float64]:
        return self.variances

    @property
    def width(self) -> float:
        return self.largest_step

    @property
    def tally_size(self) -> int:
        return self.counts.tally_size

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        return self.counts.count(payload)

    @property
    def simulates_exactly(self) -> bool:
        return self.counts.simulates_exactly

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        # The amount that a message adds grows with its level, so it is enough to look at the
        # smallest and the largest message.
        return linear_shifts(self, users, end_messages(alphabet))

    def level_sum(self, tally: Tally, source: Source | None) -> Fraction:
        counts = np.atleast_1d(self.counts.unbiased(tally, source))
        # A single count is the count of level 1. A histogram begins with level 0.
        return Fraction(float(counts @ np.arange(self.grid.levels + 1)[-len(counts) :]))

    def simulate_levels(self, held: Holding, source: Source) -> NDArray[np.int64]:
        counts = np.zeros(self.grid.levels + 1, dtype=np.int64)
        counts[held.values] = held.counts
        return self.counts.simulate(Holding(np.arange(len(counts)), counts), source)


def in_parts(
    respond: Callable[[NDArray[np.integer], Source], NDArray[np.int64]],
    levels: NDArray[np.integer],
    source: Source,
    dtype: np.dtype[np.integer],
) -> Messages:
    """Everybody's response, drawn for one part of the crowd at a time to save memory."""
    out = np.empty(len(levels), dtype=dtype)
    for start in range(0, len(levels), _CHUNK):
        out[start : start + _CHUNK] = respond(levels[start : start + _CHUNK], source)
    return Messages.one_each(out)
