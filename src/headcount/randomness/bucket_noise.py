"""Exact draws of whole numbers that add up to a fixed total."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.sum_zero import SumZero
from headcount.core.cached import cached_property
from headcount.core.source import Source
from headcount.randomness.discrete_laplace import geometric
from headcount.randomness.draws import uniform_below
from headcount.randomness.exact_table import ExactTable
from headcount.randomness.table import ThresholdTable


def with_total(source: Source, weights: Sequence[int], count: int, total: int) -> NDArray[np.int64]:
    """`count` independent numbers from 0 to len(weights) − 1, given that they add up to `total`.

    Each number is i with a probability proportional to weights[i]. All numbers but the last are
    drawn, and the last number is chosen so that the total is correct. All numbers are accepted with
    a probability proportional to the weight of the last number. Otherwise, they are drawn again.
    """
    table, most = ThresholdTable(weights), max(weights)
    while True:
        drawn = table.sample(source, count - 1)
        last = total - int(drawn.sum())
        if 0 <= last < len(weights) and uniform_below(source, most) < weights[last]:
            return np.append(drawn, last)


def composition(source: Source, total: int, parts: int) -> NDArray[np.int64]:
    """A uniform choice among all ways to write `total` as a sum of `parts` whole numbers ≥ 0.

    The choice is a uniform set of parts − 1 bars among total + parts − 1 places (stars and bars).
    The set is drawn by Floyd's algorithm.
    """
    places = total + parts - 1
    bars: set[int] = set()
    for last in range(places - parts + 1, places):
        place = uniform_below(source, last + 1)
        bars.add(last if place in bars else place)
    ends = [-1, *sorted(bars), places]
    return np.array([after - before - 1 for before, after in pairwise(ends)])


@dataclass(frozen=True)
class SumZeroDraws:
    """Draws two-sided geometric noise for all buckets, given that the noise adds up to 0."""

    noise: SumZero

    def draw(self, source: Source) -> NDArray[np.int64]:
        """The noise of all buckets: the difference of two uniform compositions of one total."""
        total = self._start.sample(source)
        total += int(geometric(source, self.noise.epsilon, self.noise.parts).sum())
        plus, minus = (composition(source, total, self.noise.buckets) for _ in range(2))
        return plus - minus

    @cached_property
    def _start(self) -> ExactTable:
        return ExactTable(self.noise.weights)
