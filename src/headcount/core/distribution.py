"""The answers that are read from an estimated distribution: shares, quantiles and their intervals.

All answers are computed from one release. So the guarantee of this release covers all of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.core import checks
from headcount.core.dates import Calendar, Moment
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Answer, Estimate, Interval, plain
from headcount.core.postprocessing import monotone
from headcount.core.table import Table, number, short

EdgeMargins: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64]]
QUARTILES = (0.25, 0.5, 0.75)
_COARSE = 5.0  # quantiles with at least this error are shown as whole numbers
_SHARES = 9  # a table shows at most this many shares


class DistributionError(Protocol):
    """The law of the errors of a distribution. Each edge between two cells has its own error, which
    is that of the share of people below the edge.

    Margins are pairs (a, b) such that −a ≤ estimate − truth ≤ b holds with at least the given
    probability. They hold for each edge separately, unless a method says otherwise.
    """

    @property
    def standard_error(self) -> NDArray[np.float64]: ...

    def margins(self, confidence: float) -> EdgeMargins: ...

    def band_margins(self, confidence: float) -> EdgeMargins:
        """Margins that hold for all edges at once."""

    def query_margins(self, weights: NDArray[np.float64], confidence: float) -> tuple[float, float]:
        """The margins of a weighted sum of the shares of people in all cells."""

    def population_margins(self, share: float, confidence: float) -> EdgeMargins:
        """Margins that include sampling, for an edge with this share of the population below it."""


@dataclass(frozen=True, eq=False)
class SharesBelow:
    """Shares of people below the edges of cells, from 0 at the first edge to 1 at the last."""

    edges: NDArray[np.float64]
    below: NDArray[np.float64]

    @classmethod
    def of(cls, edges: ArrayLike, inner: NDArray[np.float64]) -> "SharesBelow":
        """The curve with these shares at the edges between two cells."""
        return cls(np.asarray(edges, dtype=np.float64), np.concatenate([[0.0], inner, [1.0]]))

    def share(self, x: float) -> float:
        """The share below x. Within a cell, people are assumed to be spread evenly."""
        return float(np.interp(x, self.edges, self.below))

    def quantiles(self, shares: Sequence[float]) -> NDArray[np.float64]:
        """The quantiles at these shares. Where the curve falls, it is first made monotone."""
        below = np.concatenate([[0.0], monotone(self.below[1:-1]), [1.0]])
        after = np.searchsorted(below, shares, side="left")
        before, reached = below[after - 1], below[after]
        part = (np.asarray(shares) - before) / (reached - before)
        found: NDArray[np.float64] = (1 - part) * self.edges[after - 1] + part * self.edges[after]
        return found

    def quantile_ends(
        self, share: float, margins: EdgeMargins, most: float | None = None
    ) -> tuple[float, float]:
        """The ends of the range of cells that may hold the quantile, by tests at each cell's edges.
        If the share is not known exactly, it is between `share` and `most`.

        The range misses the quantile only if a test at an edge of the true cell is wrong. So the
        margins need not hold for all edges at once.
        """
        below, above = (np.pad(np.maximum(margin, 0.0), 1) for margin in margins)
        low, high = self.below - above, self.below + below
        highest = share if most is None else most
        cells = np.flatnonzero((low[:-1] < highest) & (share <= high[1:]))
        return float(self.edges[cells[0]]), float(self.edges[cells[-1] + 1])


def last_before(places: Any) -> Any:
    """The last whole number before each place. It stands for the day or second that ends at this
    place or contains it.
    """
    return np.ceil(places) - 1


@dataclass(frozen=True, eq=False)
class DistributionEstimate(Estimate):
    """An estimated distribution. `value` has the share of people below each edge in `buckets`.

    Any number of shares and quantiles can be read from the estimate, at no further cost in privacy.
    If people hold dates or times, `calendar` says how `edges` count them. Then quantiles are of
    NumPy's type `datetime64`, and dates or times are accepted wherever a number is.
    """

    calendar: Calendar | None = None

    def cdf(self, x: float | Moment) -> float:
        """The share of people below x. Within a cell, people are assumed to be spread evenly."""
        return self._shown.share(self._number("x", x))

    def cdf_interval(
        self, x: float | Moment, confidence: float = 0.95, *, sampling: bool = False
    ) -> Interval:
        """An interval for the share of people below x: see `share_interval`."""
        high = self._number("x", x)
        return self._share_interval(float(self._edges[0]), high, confidence, sampling=sampling)

    def share(self, low: float | Moment, high: float | Moment) -> float:
        """The share of people from `low` up to, but not including, `high`."""
        low, high = self._range(low, high)
        return self._shown.share(high) - self._shown.share(low)

    def share_interval(
        self,
        low: float | Moment,
        high: float | Moment,
        confidence: float = 0.95,
        *,
        sampling: bool = False,
    ) -> Interval:
        """An interval for the share of people from `low` up to, but not including, `high`.

        If `low` or `high` is inside a cell, the interval covers both extremes: everybody in that
        cell is in the range, or nobody is. With `sampling=True`, the share is that of the
        population from which the people were drawn at random.
        """
        return self._share_interval(*self._range(low, high), confidence, sampling=sampling)

    def _share_interval(
        self, low: float, high: float, confidence: float, *, sampling: bool
    ) -> Interval:
        confidence, edges = checks.confidence(confidence), self._edges
        inner = int(np.searchsorted(edges, low, "left")), int(np.searchsorted(edges, high, "right"))
        outer = int(np.searchsorted(edges, low, "right")), int(np.searchsorted(edges, high, "left"))
        ends = (
            self._range_ends(inner[0], inner[1] - 1, confidence, sampling)[0],
            self._range_ends(outer[0] - 1, outer[1], confidence, sampling)[1],
        )
        least, most = np.clip(ends, 0.0, 1.0).tolist()
        return Interval(least, most, confidence)

    def quantile(self, share: float) -> Any:
        """The number below which this share of the people lies. 0.5 gives the median.

        For dates or times, it is the day or second in which this share is reached.
        """
        found = float(self._unbiased.quantiles([checks.share("share", share)])[0])
        return found if self.calendar is None else self.calendar.moments(last_before(found))

    def quantile_interval(
        self, share: float, confidence: float = 0.95, *, sampling: bool = False
    ) -> Interval:
        """An interval for a quantile. It consists of whole cells.

        It covers the quantile of the people who took part or, with `sampling=True`, of the
        population from which they were drawn at random.
        """
        share, confidence = checks.share("share", share), checks.confidence(confidence)
        law = self._law
        margins = law.population_margins(share, confidence) if sampling else law.margins(confidence)
        low, high = self._unbiased.quantile_ends(share, margins)
        if self.calendar is None:
            return Interval(low, high, confidence)
        # Both ends belong to the interval, so it ends with the last day or second of its last cell.
        first, last = self.calendar.moments([low, high - 1])
        return Interval(first, last, confidence)

    def interval(
        self, confidence: float = 0.95, *, sampling: bool = False, simultaneous: bool = False
    ) -> Interval:
        """An interval for the share of people below each edge, or with `simultaneous=True` a band
        that contains all shares at once.

        With `sampling=True`, the shares are those of the population from which the people were
        drawn at random. Then the probability of an error is divided between noise and sampling. The
        margins of sampling are exact (Clopper, Pearson 1934), and those of a band hold for every
        population (Massart 1990).
        """
        confidence = checks.confidence(confidence)
        margins = self._law.band_margins if simultaneous else self._law.margins
        if not sampling:
            low, high = self._ends(margins(confidence))
            return self._possible(low, high, confidence)
        noise, drawn = self._divided(1 - confidence)
        low, high = self._ends(margins(1 - noise))
        if simultaneous:
            reach = math.sqrt(math.log(2 / drawn) / (2 * self.users))
            return self._possible(low - reach, high + reach, confidence)
        return self._possible(*self._population_ends(low, high, drawn), confidence)

    @property
    def sampling_error(self) -> Answer:
        """The standard deviation of each share that comes from drawing people from a population."""
        likely = np.clip(self.unbiased_value, 0.0, 1.0)
        return np.sqrt(likely * (1 - likely) / self.users)

    def table(
        self, confidence: float = 0.95, *, sampling: bool = False, simultaneous: bool = False
    ) -> Table:
        """The quartiles and the share of people below some edges, with their intervals."""
        edges, whose = self._edges, " of the population" * sampling
        band = self.interval(confidence, sampling=sampling, simultaneous=simultaneous)
        rows = self._quantile_rows(QUARTILES, confidence, sampling=sampling)
        error = float(np.max(self._law.standard_error))
        step = -(-len(self.value) // _SHARES)
        for at in range(step - 1, len(self.value), step):
            ends = f"{number(band.low[at], error)} to {number(band.high[at], error)}"
            rows.append(
                (
                    f"share below {self._place(float(edges[at + 1]))}",
                    number(float(self.value[at]), error),
                    ends,
                )
            )
        left = len(self.value) - (len(rows) - len(QUARTILES))
        kept = ", all shares at once" * simultaneous
        more = f"… and {left:,} more shares: see --json, or `value`, `share` and `quantile`"
        return Table(
            ("reading", "estimate", f"{100 * confidence:.10g} % interval{whose}{kept}"),
            tuple(rows),
            notes=(*self._warnings, *([more] if left else [])),
        )

    def to_dict(
        self, confidence: float = 0.95, *, sampling: bool = False, simultaneous: bool = False
    ) -> dict[str, Any]:
        """The estimate for JSON, with intervals and the quartiles."""
        whole = super().to_dict(confidence, sampling=sampling, simultaneous=simultaneous)
        if self.calendar is not None:
            whole["edges"] = self.calendar.texts(self.edges)
        quartiles = [
            {
                "share": share,
                "value": plain(self.quantile(share)),
                "interval": self.quantile_interval(share, confidence, sampling=sampling).to_dict(),
            }
            for share in QUARTILES
        ]
        return {**whole, "quantiles": quartiles}

    def quantile_text(self, value: Any, interval: Interval) -> str:
        """A quantile or an end of its interval as text, with as many digits as its error allows."""
        if self.calendar is not None:
            return str(value)
        error = (interval.high - interval.low) / 4  # about the standard error
        return number(float(round(value)) if error >= _COARSE else float(value), error)

    # Parts --------------------------------------------------------------------------------------

    def _quantile_rows(
        self, shares: Sequence[float], confidence: float, *, sampling: bool
    ) -> list[tuple[str, ...]]:
        """A row for each quantile: its name, the quantile and its interval."""
        rows: list[tuple[str, ...]] = []
        for share in shares:
            ends = self.quantile_interval(share, confidence, sampling=sampling)
            value, low, high = (
                self.quantile_text(one, ends) for one in (self.quantile(share), ends.low, ends.high)
            )
            rows.append((quantile_name(share), value, f"{low} to {high}"))
        return rows

    @property
    def _warnings(self) -> tuple[str, ...]:
        return (self.guarantee.warning,) if self.guarantee.warning else ()

    @property
    def _edges(self) -> NDArray[np.float64]:
        return np.array(self.edges)

    @property
    def _law(self) -> DistributionError:
        law: Any = self.error_law
        stated: DistributionError = law
        return stated

    @property
    def _sampled(self) -> bool:
        return True

    @property
    def _unbiased(self) -> SharesBelow:
        return SharesBelow.of(self._edges, self.unbiased_value)

    @property
    def _shown(self) -> SharesBelow:
        """The curve after post-processing."""
        return SharesBelow.of(self._edges, self.value)

    def _divided(self, wrong: float) -> tuple[float, float]:
        """The probability of an error, divided in proportion to the sizes of noise and sampling."""
        noise = float(np.sqrt(np.mean(np.square(self._law.standard_error))))
        drawn = 0.5 / math.sqrt(self.users)
        share = min(max(drawn / (noise + drawn), 0.02), 0.98)
        return wrong * (1 - share), wrong * share

    def _population_ends(
        self, low: NDArray[np.float64], high: NDArray[np.float64], wrong: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The ends of an interval for the population's share, if the share of the people who took
        part is between `low` and `high`.
        """
        from scipy.special import betaincinv  # loaded here, since it is slow to load

        users, grain = self.users, 1e-9
        least = np.clip(np.ceil(low * users - grain), 0, users)
        most = np.clip(np.floor(high * users + grain), 0, users)
        # A beta law needs positive parameters. The ends 0 and 1 are set below.
        lowest = betaincinv(np.maximum(least, 1), users - least + 1, wrong / 2)
        highest = betaincinv(most + 1, np.maximum(users - most, 1), 1 - wrong / 2)
        return np.where(least > 0, lowest, 0.0), np.where(most < users, highest, 1.0)

    def _range_ends(
        self, first: int, last: int, confidence: float, sampling: bool
    ) -> tuple[float, float]:
        """The interval for the share of people in the cells first, …, last − 1."""
        if first >= last or last - first == len(self._edges) - 1:
            known = float(first < last)
            return known, known
        below = self._unbiased.below
        estimate = below[last] - below[first]
        noise, drawn = self._divided(1 - confidence) if sampling else (1 - confidence, 0.0)
        cells = np.arange(len(below) - 1)
        inside = ((first <= cells) & (cells < last)).astype(np.float64)
        under, over = self._law.query_margins(inside, 1 - noise)
        low, high = np.asarray(estimate - over), np.asarray(estimate + under)
        if sampling:
            low, high = self._population_ends(low, high, drawn)
        return float(low), float(high)

    def _place(self, edge: float) -> str:
        """An edge as text."""
        if self.calendar is None:
            return number(edge, float(self._edges[1] - self._edges[0]))
        return str(self.calendar.texts(edge))

    def _number(self, name: str, x: float | Moment) -> float:
        calendar, (low, high) = self.calendar, (self._edges[0], self._edges[-1])
        given = checks.real(name, x) if calendar is None else float(calendar.number(name, x))
        if not low <= given <= high:
            least, most, got = (
                short(one) if calendar is None else calendar.texts(one)
                for one in (low, high, given)
            )
            raise InvalidParameter(f"`{name}` must be from {least} to {most}, got {got}")
        return given

    def _range(self, low: float | Moment, high: float | Moment) -> tuple[float, float]:
        first, last = self._number("low", low), self._number("high", high)
        if first > last:
            raise InvalidParameter(f"`low` must not be above `high`, got {low} and {high}")
        return first, last


def quantile_name(share: float) -> str:
    """The name of a quantile."""
    return "median" if share == 0.5 else f"{short(100 * share)} % quantile"
