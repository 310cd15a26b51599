"""Exact draws of whole numbers that add up to a fixed total."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headcount.core.source import Source
from headcount.randomness.draws import uniform_below
from headcount.randomness.table import ThresholdTable


def with_total(source: Source, weights: Sequence[int], count: int, total: int) -> NDArray[np.int64]:
    """`count` independent numbers from 0 to len(weights) − 1, given that they add up to `total`.

    The probability of i is proportional to weights[i]. All numbers but the last are drawn, and the
    last number is chosen so that the total is correct. The draw is accepted with a probability
    proportional to the weight of the last number. Otherwise, it is repeated.
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
