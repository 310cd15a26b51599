"""What people read from the release of a question: shares and means, each with an interval.

If a question is optional, shares and means are those among the people who answered. The number of
these people is not known exactly, so intervals are computed with Fieller's method. It uses the
exact law of the noise where this law is known (`core/shares.py`). If the data exclude no value, the
interval is the whole range.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headcount.core.bucket_sums import SumError, Weights, sum_error
from headcount.core.contrasts.side import population_share
from headcount.core.estimate import Answer, Estimate
from headcount.core.shares import Share, share
from headcount.survey.answers import NO_ANSWER

EVERYBODY = "everybody"
ANSWERED = "those who answered"
_TRIED = 129  # how many numbers `hull` tries before it finds the ends by bisection
_HALVINGS = 40  # how many steps a bisection has


@dataclass(frozen=True)
class Reading:
    """A number that is read from a release. `value` is NaN if nobody seems to have answered.

    `is_share` tells shares from other numbers. `among` names the people to whom the number refers.
    `label` is the answer that a share belongs to.
    """

    name: str
    value: float
    low: float
    high: float
    is_share: bool
    among: str = EVERYBODY
    label: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The reading for JSON. The value is null if there is none."""
        return {
            "name": self.name,
            "value": None if math.isnan(self.value) else self.value,
            "low": self.low,
            "high": self.high,
            "unit": "share" if self.is_share else "number",
            "among": self.among,
        }


def share_reading(name: str, found: Share, among: str, label: str = "") -> Reading:
    return Reading(name, found.value, found.interval.low, found.interval.high, True, among, label)


def yes_readings(estimate: Estimate, confidence: float, *, sampling: bool) -> tuple[Reading, ...]:
    """The share of yes, from a count."""
    users = estimate.users
    if sampling:
        ends = population_share(estimate, confidence)
        low, high = float(ends.low), float(ends.high)
    else:
        found = estimate.interval(confidence)
        low, high = float(found.low) / users, float(found.high) / users
    value = min(max(float(estimate.value) / users, low), high)
    return (Reading("yes", value, low, high, True, label="yes"),)


def share_readings(
    estimate: Estimate,
    labels: Sequence[str],
    confidence: float,
    *,
    sampling: bool,
    optional: bool,
) -> tuple[Reading, ...]:
    """The share of each label, from a histogram."""
    among = list(labels) if optional else None
    whom = ANSWERED if optional else EVERYBODY
    found = [
        share_reading(
            label, share(estimate, label, among, confidence, sampling=sampling), whom, label
        )
        for label in labels
    ]
    if optional:
        skipped = share(estimate, NO_ANSWER, None, confidence, sampling=sampling)
        found.append(share_reading(NO_ANSWER, skipped, EVERYBODY, NO_ANSWER))
    return tuple(found)


def box_readings(
    estimate: Estimate,
    labels: Sequence[str],
    confidence: float,
    *,
    sampling: bool,
    optional: bool,
) -> tuple[Reading, ...]:
    """The share of people who ticked each box."""
    without = NO_ANSWER if optional else None
    whom = ANSWERED if optional else EVERYBODY
    found = [
        share_reading(
            label,
            share(estimate, label, None, confidence, without=without, sampling=sampling),
            whom,
            label,
        )
        for label in labels
    ]
    if optional:
        skipped = share(estimate, NO_ANSWER, None, confidence, sampling=sampling)
        found.append(share_reading(NO_ANSWER, skipped, EVERYBODY, NO_ANSWER))
    return tuple(found)


# The mean of a scale --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _MeanOfBuckets:
    """The error of a mean that is a weighted sum of buckets, divided by the number of people."""

    total: SumError
    users: int

    @property
    def standard_error(self) -> Answer:
        return self.total.standard_error / self.users

    def margins(self, confidence: float) -> tuple[Answer, Answer]:
        below, above = self.total.margins(confidence)
        return below / self.users, above / self.users


def level_readings(
    estimate: Estimate,
    levels: Sequence[int],
    confidence: float,
    *,
    sampling: bool,
    optional: bool,
) -> Reading:
    """The mean of a scale, from the histogram of its levels. If the question is optional, it is the
    mean of those who answered.
    """
    if optional:
        low, value, high = _answered_mean(estimate, levels, confidence, sampling=sampling)
        return Reading("mean", value, low, high, False, ANSWERED)
    middle = (levels[0] + levels[-1]) / 2
    weights: Weights = np.array(levels, dtype=np.float64) - middle
    # The number of people is known, so a constant may be subtracted from all levels. The error is
    # the smallest if this constant is the middle.
    mean = Estimate(
        task="mean",
        protocol=estimate.protocol,
        value=middle + float(weights @ estimate.unbiased_value) / estimate.users,
        users=estimate.users,
        guarantee=estimate.guarantee,
        answer_range=(float(levels[0]), float(levels[-1])),
        whole=False,
        error_law=_MeanOfBuckets(sum_error(estimate.error_law, weights), estimate.users),
    )
    return mean_of("mean", mean, confidence, sampling=sampling)


def mean_of(name: str, mean: Estimate, confidence: float, *, sampling: bool) -> Reading:
    """The reading of an estimated mean."""
    found = mean.interval(confidence, sampling=sampling)
    low, high = float(found.low), float(found.high)
    return Reading(name, min(max(float(mean.value), low), high), low, high, False)


def _answered_mean(
    estimate: Estimate, levels: Sequence[int], confidence: float, *, sampling: bool
) -> tuple[float, float, float]:
    """The mean μ of those who answered, with the ends of its interval.

    Level j was chosen by c_j people, so Σ (j − μ)·c_j = 0. If the c_j are replaced by their
    estimates ĉ_j, the sum is the error alone. So μ is possible if this error is possible. If people
    are sampled, one half of the error probability is for sampling. The error from sampling is a sum
    over at most n people. Each term has the range of the levels, so Hoeffding's inequality applies.
    """
    counts, ends = np.asarray(estimate.unbiased_value), (float(levels[0]), float(levels[-1]))
    numbers = np.array(levels, dtype=np.float64)
    wrong = (1 - confidence) / (2 if sampling else 1)
    drawn = 0.0
    if sampling:  # Hoeffding's inequality, for at most n people
        drawn = (ends[1] - ends[0]) * math.sqrt(estimate.users * math.log(2 / wrong) / 2)

    def is_possible(mean: float) -> bool:
        weights = np.append(numbers - mean, 0.0)
        statistic = float(weights @ counts)
        error = sum_error(estimate.error_law, weights)
        if not drawn:
            return error.is_possible(statistic, wrong)
        below, above = error.margins(1 - wrong)
        return -below - drawn <= statistic <= above + drawn

    answered = float(counts[:-1].sum())
    value = float(numbers @ counts[:-1]) / answered if answered > 0 else math.nan
    low, high = hull(is_possible, *ends)
    return low, value if math.isnan(value) else min(max(value, low), high), high


def hull(is_possible: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """The least and the largest possible number from `low` to `high`. If none is found, these are
    `low` and `high`.
    """
    tried = np.linspace(low, high, _TRIED).tolist()
    possible = [at for at, number in enumerate(tried) if is_possible(number)]
    if not possible:
        return low, high

    def end(inside: float, outside: float) -> float:
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if is_possible(middle) else (inside, middle)
        return outside

    first, last = possible[0], possible[-1]
    return (
        tried[0] if first == 0 else end(tried[first], tried[first - 1]),
        tried[-1] if last == len(tried) - 1 else end(tried[last], tried[last + 1]),
    )
