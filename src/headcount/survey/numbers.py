"""What people read from the distribution of a number: the mean, quantiles, and shares in bins.

If the question is optional, the highest cell of the distribution has the people who did not answer.
Then all readings are about the people below this cell.
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.cached import cached_property
from headcount.core.distribution import (
    DistributionError,
    DistributionEstimate,
    SharesBelow,
    quantile_name,
)
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Answer, Estimate
from headcount.core.table import short
from headcount.survey.answers import NO_ANSWER
from headcount.survey.readings import ANSWERED, EVERYBODY, Reading, hull, mean_of

# In the interval of a quantile, this part of the error probability is for the estimated share of
# the people who answered.
_SPENT = 0.2


class NumberAsked(Protocol):
    """What has to be known about a question that asks for a number."""

    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def want(self) -> tuple[str, ...]: ...
    @property
    def at(self) -> tuple[float, ...]: ...
    @property
    def bins(self) -> tuple[float, ...]: ...
    @property
    def exact(self) -> bool: ...
    @property
    def grid(self) -> tuple[float, int]: ...
    @property
    def top(self) -> float: ...


def mean_reading(estimate: Estimate, confidence: float, *, sampling: bool) -> Reading:
    """The reading of a mean that was released by itself."""
    return mean_of("mean", estimate, confidence, sampling=sampling)


def number_readings(
    asked: NumberAsked, estimate: Estimate, confidence: float, *, sampling: bool
) -> tuple[Reading, ...]:
    """The readings of a question that everybody answered."""
    read = _Whole(asked, _distribution(estimate), confidence, sampling)
    found: list[Reading] = []
    if "mean" in asked.want:
        found.append(read.mean)
    if "quantiles" in asked.want:
        found += [_quantile(asked, share, *read.quantile(share), EVERYBODY) for share in asked.at]
    if "shares" in asked.want:
        found += [_bin(asked, at, *read.share(at), EVERYBODY) for at in range(len(asked.bins) - 1)]
    return tuple(found)


def part_readings(
    asked: NumberAsked, estimate: Estimate, confidence: float, *, sampling: bool
) -> tuple[Reading, ...]:
    """The readings of an optional question, among those who answered."""
    read = _Part(asked, _distribution(estimate), confidence, sampling)
    found: list[Reading] = []
    if "mean" in asked.want:
        found.append(read.mean)
    if "quantiles" in asked.want:
        found += [_quantile(asked, share, *read.quantile(share), ANSWERED) for share in asked.at]
    if "shares" in asked.want:
        found += [_bin(asked, at, *read.share(at), ANSWERED) for at in range(len(asked.bins) - 1)]
    low, value, high = read.answered
    ends = max(1 - high, 0.0), min(max(1 - value, 0.0), 1.0), min(1 - low, 1.0)
    found.append(Reading(NO_ANSWER, ends[1], ends[0], ends[2], True, EVERYBODY, NO_ANSWER))
    return tuple(found)


def _distribution(estimate: Estimate) -> DistributionEstimate:
    if not isinstance(estimate, DistributionEstimate):
        raise InvalidParameter(
            f"`estimate` must be that of a distribution, got {checks.a_task(estimate.task)}"
        )
    return estimate


def _quantile(
    asked: NumberAsked, share: float, low: float, value: float, high: float, among: str
) -> Reading:
    if asked.exact:  # a cell is a whole number; the last cell below `high` is ⌈high⌉ − 1
        low, value, high = math.floor(low), math.floor(value), max(math.ceil(high) - 1, low)
        value = min(max(value, low), high)
    high = min(high, asked.high)
    return Reading(quantile_name(share), min(value, high), low, high, False, among)


def _bin(asked: NumberAsked, at: int, low: float, value: float, high: float, among: str) -> Reading:
    begin, end = asked.bins[at], asked.bins[at + 1]
    last = at == len(asked.bins) - 2 and end >= asked.high
    between = "to" if last else "to under"
    name = f"{short(begin)} {between} {short(end)}"
    return Reading(name, value, low, high, True, among, name)


@dataclass(frozen=True, eq=False)
class _LinearError:
    """The error of a weighted sum of the cells. `blur` is added to its margins, because a number
    may differ by up to `blur` from the number that stands for its cell.
    """

    law: DistributionError
    weights: NDArray[np.float64]
    blur: float

    @property
    def standard_error(self) -> Answer:
        below, above = self.law.query_margins(self.weights, 0.6827)  # one standard deviation
        return (below + above) / 2

    def margins(self, confidence: float) -> tuple[Answer, Answer]:
        below, above = self.law.query_margins(self.weights, confidence)
        return below + self.blur, above + self.blur


@dataclass(frozen=True, eq=False)
class _Whole:
    """Readings among everybody."""

    asked: NumberAsked
    estimate: DistributionEstimate
    confidence: float
    sampling: bool

    @property
    def law(self) -> DistributionError:
        law: Any = self.estimate.error_law
        stated: DistributionError = law
        return stated

    @cached_property
    def cells(self) -> NDArray[np.float64]:
        """The unbiased share of people in each cell."""
        below: NDArray[np.float64] = np.asarray(self.estimate.unbiased_value, dtype=np.float64)
        return np.diff(below, prepend=0.0, append=1.0)

    @property
    def numbers(self) -> NDArray[np.float64]:
        """The number that stands for each cell of numbers: the whole number, or the middle."""
        width, cells = self.asked.grid
        places = np.arange(cells) + (0.0 if self.asked.exact else 0.5)
        return np.asarray(self.asked.low + width * places, dtype=np.float64)

    @property
    def blur(self) -> float:
        """How far a number may be from the number that stands for its cell."""
        return 0.0 if self.asked.exact else self.asked.grid[0] / 2

    @property
    def mean(self) -> Reading:
        weights = self.numbers
        mean = Estimate(
            task="mean",
            protocol=self.estimate.protocol,
            value=float(weights @ self.cells),
            users=self.estimate.users,
            guarantee=self.estimate.guarantee,
            answer_range=(float(self.asked.low), float(self.asked.high)),
            whole=False,
            error_law=_LinearError(self.law, weights, self.blur),
        )
        return mean_of("mean", mean, self.confidence, sampling=self.sampling)

    def quantile(self, share: float) -> tuple[float, float, float]:
        found = self.estimate.quantile_interval(share, self.confidence, sampling=self.sampling)
        return found.low, self.estimate.quantile(share), found.high

    def share(self, at: int) -> tuple[float, float, float]:
        begin, end = _bin_edges(self.asked, at)
        found = self.estimate.share_interval(begin, end, self.confidence, sampling=self.sampling)
        value = self.estimate.share(begin, end)
        return found.low, min(max(value, found.low), found.high), found.high


@dataclass(frozen=True, eq=False)
class _Part(_Whole):
    """Readings among those who answered. Their share is a. The last cell has all other people.

    Cell c stands for the number x_c and has the share s_c of the people. If θ is the mean of those
    who answered, T(θ) = Σ_c (x_c − θ)·s_c over the cells of numbers is 0. If θ is their share in a
    bin, T(θ) = (share in the bin) − θ·a is 0. So T(θ), computed from estimates, is the error alone.
    A θ is possible if this error is possible (Fieller 1954). The quantile of those who answered at
    the share q is the quantile of everybody at q·a. A part of the error probability is for the
    error of a.
    """

    @cached_property
    def answered(self) -> tuple[float, float, float]:
        return self._answered(1 - self.confidence, sampling=self.sampling)

    def _answered(self, wrong: float, *, sampling: bool) -> tuple[float, float, float]:
        """The share of the people who answered, with the ends of its interval."""
        top = self.asked.top
        found = self.estimate.cdf_interval(top, 1 - wrong, sampling=sampling)
        value = min(max(self.estimate.cdf(top), found.low), found.high)
        return found.low, value, found.high

    @property
    def mean(self) -> Reading:
        low, high = float(self.asked.low), float(self.asked.high)
        ends = self._ratio(self.numbers, low, high, self.blur)
        return Reading("mean", ends[1], ends[0], ends[2], False, ANSWERED)

    def share(self, at: int) -> tuple[float, float, float]:
        begin, end = _bin_edges(self.asked, at)
        width, cells = self.asked.grid
        edges = self.asked.low + width * np.arange(cells + 1)
        # If an edge of a bin cuts a cell, between none and all of the cell's people are in the bin.
        grain = 1e-9 * width
        inside = ((edges[:-1] >= begin - grain) & (edges[1:] <= end + grain)).astype(np.float64)
        touched = ((edges[1:] > begin + grain) & (edges[:-1] < end - grain)).astype(np.float64)
        part = np.clip((np.minimum(edges[1:], end) - np.maximum(edges[:-1], begin)) / width, 0, 1)
        low = self._ratio(inside, 0.0, 1.0, 0.0)[0]
        high = self._ratio(touched, 0.0, 1.0, 0.0)[2]
        value = self._ratio(part, 0.0, 1.0, 0.0)[1]
        return low, value if math.isnan(value) else min(max(value, low), high), high

    def _ratio(
        self, numbers: NDArray[np.float64], least: float, most: float, blur: float
    ) -> tuple[float, float, float]:
        """The mean of `numbers` over those who answered, with the ends of its interval. `numbers`
        has one number for each cell of numbers. The interval is within `least` and `most`, and
        `blur` is added to the margins.
        """
        wrong, drawn = 1 - self.confidence, 0.0
        if self.sampling:  # Hoeffding's inequality, for at most n people
            wrong /= 2
            users = self.estimate.users
            drawn = (most - least) * math.sqrt(math.log(2 / wrong) / (2 * users))
        counted = self.cells[: len(numbers)]

        def is_possible(mean: float) -> bool:
            weights = np.append(numbers - mean, 0.0)
            below, above = self.law.query_margins(weights, 1 - wrong)
            statistic = float((numbers - mean) @ counted)
            return -below - blur - drawn <= statistic <= above + blur + drawn

        answered = float(counted.sum())
        value = float(numbers @ counted) / answered if answered > 0 else math.nan
        low, high = hull(is_possible, least, most)
        return low, value if math.isnan(value) else min(max(value, low), high), high

    def quantile(self, share: float) -> tuple[float, float, float]:
        wrong = 1 - self.confidence
        low, value, high = self._answered(_SPENT * wrong, sampling=False)
        each = 1 - (1 - _SPENT) * wrong
        curve = self._curve
        # The variance grows with the share below an edge, up to one half. So the margins are those
        # at the largest possible share.
        if self.sampling:
            level = min(max(share * high, 1e-9), 0.5)
            margins = self.law.population_margins(level, each)
        else:
            margins = self.law.margins(each)
        ends = curve.quantile_ends(share * low, margins, share * high)
        middle = float(curve.quantiles([max(share * value, 1e-12)])[0])
        top = self.asked.top
        last = min(max(ends[1], ends[0]), top)
        return min(ends[0], top), min(max(middle, ends[0]), last), last

    @property
    def _curve(self) -> SharesBelow:
        return SharesBelow.of(self.estimate.edges or (), np.asarray(self.estimate.unbiased_value))


def _bin_edges(asked: NumberAsked, at: int) -> tuple[float, float]:
    """The ends of a bin. The highest number belongs to the last bin."""
    begin, end = asked.bins[at], asked.bins[at + 1]
    return begin, asked.top if end >= asked.high else end
