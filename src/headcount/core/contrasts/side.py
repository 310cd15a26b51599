"""One side of a comparison: an estimate, and what is known about its errors.

Counts and buckets are divided by the number of people. So they become shares, and crowds of
different sizes can be compared.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeAlias

import numpy as np

from headcount.core import checks
from headcount.core.cached import cached_property
from headcount.core.contrasts.populations import Sample
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Answer, Estimate, Interval
from headcount.core.lattice import LatticeLaw, ReportedLaw, Reports, WholeLaw

Ends: TypeAlias = tuple[float, float, float]  # the low end, the estimate and the high end

_MOST_EXACT = 2_000  # with more buckets than this, intervals for populations are approximate
_FAR = 3.3  # true counts are nearly always within this many standard errors of the estimate


@dataclass(frozen=True, eq=False)
class Side:
    """An estimate whose numbers are compared one by one with those of another estimate."""

    estimate: Estimate

    @property
    def _of_shares(self) -> bool:
        return self.estimate.uses.comparison == "share"

    @property
    def divisor(self) -> float:
        """The number that answers are divided by to get the quantity that is compared."""
        return float(self.estimate.users) if self._of_shares else 1.0

    @property
    def values(self) -> list[float]:
        """The unbiased estimates."""
        return self._listed(self.estimate.unbiased_value)

    @property
    def standard_errors(self) -> list[float]:
        """The standard errors of the unbiased estimates."""
        if self._noise is not None:
            return [math.sqrt(self._noise.variance)] * len(self.values)
        return self._listed(self.estimate.standard_error)

    @property
    def limits(self) -> tuple[float, float]:
        """The least and the largest value that the compared quantity can have."""
        least, most = self.estimate.answer_range
        return least / self.divisor, most / self.divisor

    @cached_property
    def reports(self) -> Reports | None:
        """The `Reports` from which the shares are computed.

        They are None if the law of the shares is not known, or if the quantity is not a share.
        """
        law, users = self.estimate.error_law, self.estimate.users
        if not self._of_shares:
            return None
        if isinstance(law, ReportedLaw):
            return law.reports()
        return Reports(users, 1.0, 0.0, law.lattice()) if isinstance(law, WholeLaw) else None

    @cached_property
    def _noise(self) -> LatticeLaw | None:
        """The law of the error if it is the same for all data."""
        law = self.estimate.error_law
        if self.reports is not None:
            return None if self.reports.responding else self.reports.crowd(0)
        if isinstance(law, ReportedLaw) or not isinstance(law, WholeLaw):
            return None
        return law.lattice().scaled(1 / self.divisor)

    def law(self, at: int) -> LatticeLaw | None:
        """The law of the error of quantity number `at`, or None if it is not known.

        If people respond at random, the law depends on the true count. In that case, each count
        near the estimate has its own law, and the widest of these laws is returned.
        """
        if self.reports is None or not self.reports.responding:
            return self._noise
        return self.reports.near(self.values[at], _FAR * self.standard_errors[at])

    @property
    def samples(self) -> list[Sample]:
        """For each share, a `Sample` that treats the crowd as drawn from a population.

        The list is empty if `reports` is None.
        """
        reports = self.reports
        return [] if reports is None else [Sample(reports, value) for value in self.values]

    def crowd_ends(self, confidence: float) -> list[Ends]:
        """An interval for each quantity of the crowd, from the margins of the estimate."""
        below, above = self.estimate.error_law.margins(confidence)
        sides = zip(self._listed(above), self.values, self._listed(below), strict=True)
        return [(value - a, value, value + b) for a, value, b in sides]

    def population_ends(self, confidence: float) -> list[Ends]:
        """An interval for each quantity of the population.

        The estimate is clamped to the interval.
        """
        if self.reports is not None and len(self.values) <= _MOST_EXACT:
            found = [one.ends(1 - confidence) for one in self.samples]
        elif self._of_shares:
            found = [self._with_sampling(ends, confidence) for ends in self.crowd_ends(confidence)]
        else:
            interval = self.estimate.interval(confidence, sampling=True)
            found = [(float(interval.low), float(interval.high))]
        return [
            (low, min(max(value, low), high), high)
            for (low, high), value in zip(found, self.values, strict=True)
        ]

    def _with_sampling(self, ends: Ends, confidence: float) -> tuple[float, float]:
        """The ends after the sampling error is added (Wilson 1927). These ends are approximate."""
        low, value, high = ends
        square = NormalDist().inv_cdf((1 - confidence) / 2) ** 2 / self.estimate.users
        share = min(max(value, 0.0), 1.0)
        middle, spread = share + square / 2, math.sqrt(square * (share * (1 - share) + square / 4))
        least, most = ((middle + sign * spread) / (1 + square) for sign in (-1, 1))
        return (
            max(share - math.hypot(value - low, share - least), 0.0),
            min(share + math.hypot(high - value, most - share), 1.0),
        )

    def _listed(self, numbers: Answer) -> list[float]:
        """One number for each quantity, divided by the divisor."""
        size = np.size(self.estimate.unbiased_value)
        listed: list[float] = (np.broadcast_to(numbers, size) / self.divisor).tolist()
        return listed


def population_share(estimate: Estimate, confidence: float = 0.95) -> Interval:
    """An interval for the population's share, from a count or from each bucket of a histogram.

    The people who took part must be a random sample of the population. If the law of the noise is
    known, the interval covers the share with a probability of at least `confidence`. With more than
    2,000 buckets, or without a known law, the interval is approximate.
    """
    checks.instance("estimate", estimate, Estimate)
    if estimate.uses.comparison != "share":
        raise InvalidParameter(
            "`estimate` must be an estimate of a count or a histogram, got "
            f"{checks.a_task(estimate.task)}"
        )
    found = Side(estimate).population_ends(checks.confidence(confidence))
    low, _, high = (np.array(ends) for ends in zip(*found, strict=True))
    if np.ndim(estimate.value) == 0:
        return Interval(float(low[0]), float(high[0]), confidence)
    return Interval(low, high, confidence)
