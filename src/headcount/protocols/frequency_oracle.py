"""Frequency oracles: each report *supports* some buckets, and its owner's bucket most often.

Notation    x ∈ {0, …, d−1} is a person's bucket, and n is the number of people. c is the true count
            of a bucket, and N is the number of reports that support this bucket. A report supports
            its owner's bucket with probability p, and a given other bucket with probability q. It
            supports both its owner's bucket and a given other bucket with probability s. It
            supports two given other buckets with probability r.
Randomizer  Each oracle has its own randomizer. The probability of a report depends on its owner's
            bucket only through whether the report supports this bucket.
Analyzer    The estimate of c is ĉ = (N − nq)/(p − q). A tally holds the numbers N of all buckets.
Privacy     A report supports both, one or neither of two buckets x and x'. If its owner moves from
            x to x', the probability of the report changes only if the report supports exactly one
            of the two buckets. So each report is ε'-private with ε' = ln((p−s)/(q−s)), where p, q
            and s are exact rational numbers.
Error       Unbiased. The estimate for a bucket of c people has the variance
            (cp(1−p) + (n−c)q(1−q))/(p−q)². The covariance of N and N' for two buckets of c and c'
            people is (n−c−c')(r−q²) + (c+c')(s−pq).
Messages    1 per person.
"""

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.divergence import PairCurve
from headcount.core.budget import Trust
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible
from headcount.core.estimate import Answer
from headcount.core.estimator import Estimator
from headcount.core.guarantee import Guarantee
from headcount.core.influence import Shifts
from headcount.core.lattice import LatticeLaw, Reports
from headcount.core.messages import Alphabet
from headcount.core.promise import promise_alone
from headcount.core.protocol import Protocol
from headcount.core.source import Source
from headcount.core.table import short
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task
from headcount.core.tasks.histogram import Histogram
from headcount.protocols.responses import ratio_epsilon, response_curve
from headcount.randomness.totals import binomial, groups, multinomial

# A simulation draws how many reports support each possible set of buckets, unless this needs more
# draws than this number.
MOST_DRAWS = 512


@dataclass(frozen=True)
class Support:
    """The probabilities p, q, s and r with which a report supports buckets."""

    own: Fraction
    other: Fraction
    own_and_other: Fraction
    two_others: Fraction

    @property
    def slope(self) -> Fraction:
        return self.own - self.other

    @cached_property
    def variances(self) -> tuple[float, float]:
        """The variances that a report adds to N, for its owner's bucket and for another bucket."""
        return float(self.own * (1 - self.own)), float(self.other * (1 - self.other))

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of a report's probabilities for two owners, minus 1."""
        return self.slope / (self.other - self.own_and_other)

    @property
    def cells(self) -> tuple[Fraction, Fraction, Fraction, Fraction]:
        """The probabilities that a report supports only the owner's bucket, only a given other
        bucket, both, or neither.
        """
        own, other = self.own - self.own_and_other, self.other - self.own_and_other
        return own, other, self.own_and_other, 1 - self.own - other


# Analyzer and its error -----------------------------------------------------------------------


@dataclass(frozen=True)
class SupportError:
    """The error of the estimate ĉ for a bucket, where N has the law Bin(c, p) + Bin(n−c, q).

    Intervals are computed from this exact law (see `supported_counts`).
    """

    users: int
    support: Support
    value: Answer

    def _variance(self, count: Answer) -> Answer:
        """The variance of N."""
        own, other = self.support.variances
        return self.users * other + count * (own - other)

    @property
    def _slope(self) -> float:
        return float(self.support.slope)

    @property
    def _likely(self) -> Answer:
        """The estimate ĉ, clipped to the range of possible counts."""
        return np.clip(self.value, 0, self.users)

    @property
    def standard_error(self) -> Answer:
        return self._spread(self._likely)

    def combined(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The standard errors of weighted sums of all counts. Each row of `weights` gives a sum."""
        p, q = self.support.own, self.support.other
        apart = float(self.support.two_others - q * q)
        near = float(self.support.own_and_other - p * q) - apart
        counts, sums, squares = self._likely, weights.sum(axis=1), weights**2
        # Each bucket with the weight a adds a²·(variance of N). Each pair of buckets with weights
        # a and a' adds 2aa'(n·apart + (c+c')·near).
        variance = squares @ self._variance(counts)
        variance += self.users * apart * (sums**2 - squares.sum(axis=1))
        variance += 2 * near * (sums * (weights @ counts) - squares @ counts)
        spread: NDArray[np.float64] = np.sqrt(np.maximum(variance, 0.0)) / self._slope
        return spread

    def largest_report(self, weights: NDArray[np.float64]) -> float:
        return float(max(weights.max(), 0.0) - min(weights.min(), 0.0)) / self._slope

    def margins(self, confidence: float) -> tuple[Answer, Answer]:
        from headcount.protocols.supported_counts import supported_counts  # slow: loads SciPy

        expected = self.users * float(self.support.other)
        reports = np.rint(self.value * self._slope + expected).astype(np.int64)
        low, high = supported_counts(
            self.users, self.support.own, self.support.other, reports, confidence
        )
        return high - self.value, self.value - low

    def reports(self) -> Reports:
        own, other = float(self.support.own), float(self.support.other)
        return Reports(self.users, own, other, LatticeLaw.none())

    def _spread(self, count: Answer) -> Answer:
        return np.sqrt(self._variance(count)) / self._slope


@dataclass(frozen=True, eq=False)
class SupportSets:
    """All sets of buckets that a report can support, and how many possible reports support each.

    The sets are rows of bits. All reports that support a person's own bucket have one probability,
    and all reports that do not support it have another.
    """

    rows: NDArray[np.bool_]
    reports: NDArray[np.int64]

    @classmethod
    def of(cls, rows: NDArray[np.bool_]) -> "SupportSets | None":
        """The distinct sets in `rows`, which has a row for each possible report.

        The result is None if there are too many sets.
        """
        sets, reports = np.unique(rows, axis=0, return_counts=True)
        return cls(sets, reports) if sets.size <= MOST_DRAWS else None

    def simulate(self, held: Holding, own: Fraction, source: Source) -> NDArray[np.int64]:
        """How many reports support each bucket. `own` is the probability p."""
        supported = np.zeros(len(held.counts), dtype=np.int64)
        for bucket, people in enumerate(held.counts.tolist()):
            lies = int(binomial(source, people, 1 - own)[0])
            for some, having in ((people - lies, True), (lies, False)):
                among = self.rows[:, bucket] == having
                if some:
                    drawn = multinomial(source, some, self.reports[among].tolist())
                    supported += drawn @ self.rows[among]
        return supported


@dataclass(frozen=True)
class SupportEstimator(Estimator):
    """Computes ĉ = (N − nq)/(p − q) from the number N of reports that support each bucket."""

    support: Support

    @property
    def tally_size(self) -> int:
        return self.task.domain

    @cached_property
    def supports(self) -> SupportSets | None:
        """The sets of buckets that reports support. None if there are too many to list."""
        return None

    @property
    def simulates_exactly(self) -> bool:
        return self.supports is not None

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        """The simulated number of reports that support each bucket.

        If `supports` lists all sets of buckets, the number of reports for every set is drawn, which
        is exact. Otherwise the number for each bucket is drawn from its exact law, but
        independently of the other buckets. Independence is exact for oracles that flip each bit
        separately. For oracles that hash, independence is an approximation: the numbers of two
        buckets are nearly uncorrelated, but those of three buckets need not be independent.
        """
        if self.supports is not None:
            return self.supports.simulate(held, self.support.own, source)
        supported = np.zeros(len(held.counts), dtype=np.int64)
        for count, alike in groups(held.counts):
            supported[alike] = binomial(source, count, self.support.own, len(alike))
            supported[alike] += binomial(source, held.users - count, self.support.other, len(alike))
        return supported

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        expected = float(tally.users * self.support.other)
        return (tally.counts - expected) / float(self.support.slope)

    @property
    def supported(self) -> tuple[int, int]:
        """The smallest and the largest number of buckets that one report can support."""
        return 0, self.task.domain

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        # A report adds 1/(p − q) to the estimates of the buckets that it supports. One more person
        # adds −q/(p − q) to the estimates of all buckets.
        slope, places = self.support.slope, self.supported
        return Shifts(
            most=float(1 / slope),
            least=0.0,
            person=float(-self.support.other / slope),
            places=places,
            everywhere=places[1] >= self.task.domain,
        )

    def standard_error(self, users: int, held: Holding | None) -> float:
        # The variance is linear in the count, so it is largest at 0 or at n.
        counts = np.array([0, users]) if held is None else held.counts
        return float(np.max(self.error_law(users, counts.astype(np.float64)).standard_error))

    def error_law(self, users: int, unbiased: Answer) -> SupportError:
        return SupportError(users, self.support, unbiased)


# Privacy --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FrequencyOracle(Protocol):
    """A local protocol for histograms. Its privacy follows from the probabilities of support."""

    trust = Trust.LOCAL
    tasks: ClassVar[tuple[type[Task], ...]] = (Histogram,)

    @property
    @abstractmethod
    def support(self) -> Support:
        """The probabilities with which a report supports its owner's bucket and other buckets."""

    @cached_property
    def curve(self) -> PairCurve:
        return response_curve(*self.support.cells)

    @property
    def guarantee(self) -> Guarantee:
        return promise_alone(self)

    @property
    def local_epsilon(self) -> float:
        return ratio_epsilon(self.support.ratio)


def check_told_apart(oracle: FrequencyOracle, among: int, kind: str) -> None:
    """Raise an error if a report supports its owner's bucket no more often than other buckets."""
    if oracle.support.slope <= 0:
        raise Infeasible(
            f"{oracle.name} needs a larger epsilon for {among} {kind}, "
            f"got {short(oracle.budget.epsilon)}",
            nearest={"epsilon": among * 2.0**-60},
        )
