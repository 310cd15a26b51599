"""The answers that are read from an estimated distribution: shares, quantiles and their intervals.

All are computed from one release. So they cost nothing beyond its guarantee.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Estimate, Interval
from headcount.core.table import short

Margins = tuple[NDArray[np.float64], NDArray[np.float64]]


class DistributionError(Protocol):
    """The law of the error of the shares below all edges between cells.

    Margins are pairs (a, b) such that −a ≤ estimate − truth ≤ b holds with at least the given
    probability. They hold for each edge separately, unless it says otherwise.
    """

    @property
    def standard_error(self) -> NDArray[np.float64]: ...

    def margins(self, confidence: float) -> Margins: ...

    def band_margins(self, confidence: float) -> Margins:
        """Margins that hold for all edges at once."""

    def range_margins(self, first: int, last: int, confidence: float) -> tuple[float, float]:
        """The margins of the share of people in the cells first, …, last − 1."""

    def population_margins(self, share: float, confidence: float) -> Margins:
        """Margins that include sampling, for an edge with this share of the population below."""


def quantile_of(edges: NDArray[np.float64], below: NDArray[np.float64], share: float) -> float:
    """The number below which a share of the people is, by straight lines between the edges.

    `below` rises from 0 to 1.
    """
    after = int(np.searchsorted(below, share, side="left"))
    before, reached = below[after - 1], below[after]
    part = (share - before) / (reached - before)
    return float(edges[after - 1] + part * (edges[after] - edges[after - 1]))


def monotone(below: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest rising shares in squared distance, within [0, 1].

    Neighbors in the wrong order are pooled (Ayer et al. 1955).
    """
    means: list[float] = []
    sizes: list[int] = []
    for number in below.tolist():
        mean, size = number, 1
        while means and means[-1] >= mean:
            other, others = means.pop(), sizes.pop()
            mean = (mean * size + other * others) / (size + others)
            size += others
        means.append(mean)
        sizes.append(size)
    return np.clip(np.repeat(means, sizes), 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Curve:
    """Estimated shares of people below the edges of cells, with the law of their error.

    `below` is unbiased. It begins with 0 and ends with 1, which are known.
    """

    edges: NDArray[np.float64]
    below: NDArray[np.float64]
    error: DistributionError

    def quantile(self, share: float) -> float:
        rising = monotone(self.below[1:-1])
        return quantile_of(self.edges, np.concatenate([[0.0], rising, [1.0]]), share)

    def quantile_interval(self, share: float, margins: Margins) -> tuple[float, float]:
        """The ends of all cells that may hold the quantile, by tests at their two edges.

        Only the tests at the true cell's edges can be wrong. So no band is needed.
        """
        below, above = (np.concatenate([[0.0], margin, [0.0]]) for margin in margins)
        low, high = self.below - above, self.below + below
        cells = np.flatnonzero((low[:-1] < share) & (share <= high[1:]))
        if not len(cells):  # the estimate contradicts itself; the nearest cell is as good as any
            at = self.quantile(share)
            return at, at
        return float(self.edges[cells[0]]), float(self.edges[cells[-1] + 1])


@dataclass(frozen=True, eq=False)
class DistributionEstimate(Estimate):
    """An estimated distribution. `value` has the share of people below each edge in `buckets`.

    Shares and quantiles are read from it, as many as you like, at no cost of privacy.
    """

    def cdf(self, x: float) -> float:
        """The share of people below x. Within a cell, people are assumed to be spread evenly."""
        below = np.concatenate([[0.0], self.value, [1.0]])
        return float(np.interp(self._number(x), self._edges, below))

    def cdf_interval(self, x: float, confidence: float = 0.95) -> Interval:
        """An interval for the share of people below x. Inside a cell, nothing is assumed."""
        return self.share_interval(self._edges[0], x, confidence)

    def share(self, low: float, high: float) -> float:
        """The share of people from `low` up to, but without, `high`."""
        self._check_range(low, high)
        return self.cdf(high) - self.cdf(low)

    def share_interval(self, low: float, high: float, confidence: float = 0.95) -> Interval:
        """An interval for the share of people from `low` up to, but without, `high`.

        If `low` or `high` is inside a cell, the interval allows for everybody or nobody of that
        cell to be in the range.
        """
        self._check_range(low, high)
        confidence = checks.confidence(confidence)
        edges = self._edges
        inner = int(np.searchsorted(edges, low, "left")), int(np.searchsorted(edges, high, "right"))
        outer = int(np.searchsorted(edges, low, "right")), int(np.searchsorted(edges, high, "left"))
        ends = (
            self._range_ends(inner[0], max(inner[0], inner[1] - 1), confidence)[0],
            self._range_ends(max(0, outer[0] - 1), outer[1], confidence)[1],
        )
        return Interval(*np.clip(ends, 0.0, 1.0).tolist(), confidence)

    def quantile(self, share: float) -> float:
        """The number below which this share of the people is. 0.5 gives the median."""
        return self._curve.quantile(_share(share))

    def quantile_interval(
        self, share: float, confidence: float = 0.95, *, sampling: bool = False
    ) -> Interval:
        """An interval for a quantile. It consists of whole cells.

        It covers the quantile of the people who took part or, with `sampling=True`, of the
        population from which they were drawn at random.
        """
        share, confidence = _share(share), checks.confidence(confidence)
        error = self._curve.error
        margins = (
            error.population_margins(share, confidence) if sampling else error.margins(confidence)
        )
        return Interval(*self._curve.quantile_interval(share, margins), confidence)

    # Parts --------------------------------------------------------------------------------------

    @property
    def _edges(self) -> NDArray[np.float64]:
        assert self.edges is not None
        return np.array(self.edges)

    @property
    def _curve(self) -> Curve:
        error: Any = self.error_law
        below = np.concatenate([[0.0], self.unbiased_value, [1.0]])
        return Curve(self._edges, below, error)

    def _range_ends(self, first: int, last: int, confidence: float) -> tuple[float, float]:
        """The interval of the share of people in the cells first, …, last − 1."""
        cells = len(self._edges) - 1
        if first >= last or (first, last) == (0, cells):
            known = float(first < last)
            return known, known
        curve = self._curve
        estimate = curve.below[last] - curve.below[first]
        below, above = curve.error.range_margins(first, last, confidence)
        return estimate - above, estimate + below

    def _number(self, x: float) -> float:
        number, (low, high) = checks.real("x", x), (self._edges[0], self._edges[-1])
        if not low <= number <= high:
            raise InvalidParameter(
                f"`x` must be from {short(low)} to {short(high)}, got {short(number)}"
            )
        return number

    def _check_range(self, low: float, high: float) -> None:
        if self._number(low) > self._number(high):
            raise InvalidParameter(f"`low` must not be above `high`, got {low} and {high}")


def _share(value: float) -> float:
    share = checks.real("share", value)
    if not 0 < share < 1:
        raise InvalidParameter(f"`share` must be between 0 and 1, got {short(share)}")
    return share
