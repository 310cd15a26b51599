"""Counts of messages with dummies: the estimate and its error.

Notation    n people each send one of d messages, and c of them send a given message. y is the
            number of copies of this message, including dummies, and m is the mean number of its
            dummies. η is the probability that the messages of all people are thrown away. If people
            use randomized response, p is the probability of the truth and q is the probability of
            each lie.
Analyzer    r = (y − m − ηn/d)/(1 − η) is an unbiased estimate of c. If people use randomized
            response, r estimates the number of people who respond with the message, and
            (r − nq)/(p − q) estimates the number of people who hold this value. If the buckets have
            independent noise and people do not use randomized response, the excess of the total
            over n, divided by d, is subtracted from each estimate (see `known_total`).
Error       Let V be the variance of the number of dummies of a message, and N the number of all
            messages, including dummies. If people's messages are thrown away, y has the variance
            U = N(N+d)(d−1)/(d²(d+1)). The variance of r is ((1−η)V + ηU + η(1−η)(c − n/d)²)/(1−η)².
            Randomized response and noise that the analyzer adds increase the variance further.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headcount.accounting import laws
from headcount.accounting.geometric import listed_laws, noise_law
from headcount.accounting.laws import Law
from headcount.core.bucket_sums import Part, Weights, independent_parts
from headcount.core.cached import cached_property
from headcount.core.estimate import Answer
from headcount.core.estimator import Estimator
from headcount.core.influence import Shifts
from headcount.core.lattice import LatticeLaw, Reports
from headcount.core.messages import Alphabet
from headcount.core.randomizer import MOST_BUNDLES
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding
from headcount.protocols.dummies import DummyShuffler
from headcount.protocols.frequency_oracle import Support, SupportError
from headcount.protocols.geometric_error import GeometricError
from headcount.protocols.known_total import KnownTotalError, with_known_total
from headcount.protocols.responses import responded
from headcount.randomness.discrete_laplace import discrete_laplace
from headcount.randomness.sources import SecureSource

_LISTED = 128  # in larger crowds, the law of responses is computed only for about this many counts


@lru_cache(maxsize=64)
def _lattice(noise: "AddedNoise") -> LatticeLaw:
    return noise.law.lattice(0)


@dataclass(frozen=True)
class AddedNoise:
    """The noise that shufflers and the analyzer add to the number of copies of a message."""

    shuffler: DummyShuffler
    published: Fraction | None  # the rate of the noise that the analyzer adds, or None

    grain: ClassVar[int] = 1

    @property
    def mean(self) -> int:
        """The mean number m of dummies of a message."""
        return self.shuffler.shufflers * self.shuffler.dummies.most // 2

    @cached_property
    def variance(self) -> float:
        """The variance V of the number of dummies of a message."""
        return self.shuffler.shufflers * self.shuffler.dummies.variance

    @property
    def published_variance(self) -> float:
        if self.published is None:
            return 0.0
        return GeometricError(float(self.published)).standard_error ** 2

    @property
    def standard_error(self) -> float:
        return math.sqrt(self.variance + self.published_variance)

    @cached_property
    def law(self) -> Law:
        """The law of the total noise of a message, minus its mean, if people's messages are
        not thrown away.
        """
        one = self.shuffler.dummies.one
        law = one
        for _ in range(self.shuffler.shufflers - 1):
            law = law.plus(one)
        return law if self.published is None else law.plus(noise_law(float(self.published)))

    def thrown_away(self, users: int) -> Fraction:
        """The probability η that people's messages are thrown away."""
        if self.shuffler.pure_epsilon is None:
            return Fraction(0)
        return self.shuffler.dummies.thrown_away(users, self.shuffler.pure_epsilon)


@dataclass(frozen=True)
class DummyError:
    """The error of a count whose estimate is `value`."""

    users: int
    noise: AddedNoise
    response: Support | None
    value: Answer

    @property
    def _likely(self) -> Answer:
        return np.clip(self.value, 0, self.users)

    @property
    def _dropped(self) -> float:
        return float(self.noise.thrown_away(self.users))

    @property
    def _slope(self) -> float:
        return 1.0 if self.response is None else float(self.response.slope)

    @property
    def standard_error(self) -> Answer:
        return np.sqrt(self._variance(self._likely))

    def _responses(self, counts: Answer) -> tuple[Answer, Answer]:
        """The mean and the variance of the number of people who respond with each message.

        `counts` are the numbers of people with each true value.
        """
        if self.response is None:
            return counts, 0.0
        own, other = self.response.variances
        mean = counts * self._slope + self.users * float(self.response.other)
        return mean, counts * own + (self.users - counts) * other

    def _variance(self, counts: Answer) -> Answer:
        mean, spread = self._responses(counts)
        away = self._apart(mean) ** 2 + spread
        noise = self._mixed(self.noise.variance, self._thrown_variance, away)
        noise += self.noise.published_variance / (1 - self._dropped) ** 2
        return (noise + spread) / self._slope**2

    def _apart(self, responses: Answer) -> Answer:
        """The difference between the number of people who respond with a message and n/d."""
        return responses - self.users / self._buckets

    def _mixed(self, kept: Answer, thrown: Answer, away: Answer) -> Answer:
        """The variance ((1−η)V + ηU + η(1−η)·away)/(1−η)², where V is `kept` and U is `thrown`."""
        eta = self._dropped
        return ((1 - eta) * kept + eta * thrown + eta * (1 - eta) * away) / (1 - eta) ** 2

    @property
    def _thrown_variance(self) -> float:
        """The variance U = N(N+d)(d−1)/(d²(d+1))."""
        dummies = self.noise.shuffler.dummies
        buckets, total = dummies.buckets, self.users + dummies.total
        return total * (total + buckets) * (buckets - 1) / (buckets**2 * (buckets + 1))

    def combined(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The standard errors of weighted sums of all counts. Each row of `weights` gives a sum.

        If the total number of dummies is fixed, the noise of two buckets has covariance −V/(d−1).
        """
        dummies, sums, squares = self.noise.shuffler.dummies, weights.sum(axis=1), weights**2
        mean, spread = self._responses(self._likely)
        squared, others = squares.sum(axis=1), sums**2 - squares.sum(axis=1)
        kept = self.noise.variance * squared
        kept = kept + self.noise.shuffler.shufflers * dummies.covariance * others
        thrown = self._thrown_variance * (squared - others / (dummies.buckets - 1))
        away = (weights @ np.broadcast_to(self._apart(mean), weights.shape[1:])) ** 2
        away = away + squares @ np.broadcast_to(spread, weights.shape[1:])
        variance: NDArray[np.float64] = self._mixed(kept, thrown, away)
        variance = variance + squared * self.noise.published_variance / (1 - self._dropped) ** 2
        variance = variance / self._slope**2
        if self.response is not None:
            variance += SupportError(self.users, self.response, self._likely).combined(weights) ** 2
        spreads: NDArray[np.float64] = np.sqrt(np.maximum(variance, 0.0))
        return spreads

    def margins(self, confidence: float) -> tuple[Answer, Answer]:
        """The margins at a confidence level.

        With probability η, people's messages are thrown away, and the margins may fail. Otherwise,
        the law of the noise is known, and the margins hold with probability confidence/(1 − η). If
        people use randomized response, the law depends on the true count.
        """
        kept = 1 - self._dropped
        if confidence >= kept:
            everybody = np.full(np.shape(self.value), float(self.users))
            return everybody, everybody
        # The error of a count is (Z + η(c − n/d))/(1−η), where Z is the noise minus its mean.
        shift = self._dropped * self.users
        if self.response is None:
            low, high = self.noise.law.central_interval(confidence / kept)
            return (shift - low) / kept, (shift + high) / kept
        own, other = self.response.own, self.response.other
        ends = _ends(self.noise.law, self.users, own, other, confidence / kept)
        value, most = np.asarray(self.value, dtype=np.float64), len(ends.people) - 1
        expected = value * self._slope + self.users * float(other)
        if len(ends.people) > self.users:  # then every count is listed
            # The interval has all counts that are consistent with the observed number.
            seen = np.rint(expected * kept + self._dropped * self.users / self._buckets)
            least = np.minimum(np.searchsorted(ends.high, seen, side="left"), most)
            largest = np.maximum(np.searchsorted(ends.low, seen, side="right") - 1, 0)
            return largest - value, value - least
        # In a large crowd, the law hardly changes between the listed counts around the estimate.
        after = np.clip(np.searchsorted(ends.people, self._likely), 1, most)
        mean = ends.people * self._slope + self.users * float(other)
        sides = mean - ends.low, ends.high - mean
        below, above = (np.maximum(side[after - 1], side[after]) for side in sides)
        return (shift + below) / (kept * self._slope), (shift + above) / (kept * self._slope)

    def reports(self) -> Reports | None:
        if self._dropped:
            return None
        own, other = (1.0, 0.0)
        if self.response is not None:
            own, other = float(self.response.own), float(self.response.other)
        return Reports(self.users, own, other, _lattice(self.noise))

    def weighted(self, weights: Weights) -> list[Part] | None:
        known = self.response is None and not self._dropped
        if not known or self.noise.shuffler.dummies.fixed_total:
            return None
        return independent_parts(_lattice(self.noise), weights)

    @property
    def _buckets(self) -> int:
        return self.noise.shuffler.dummies.buckets


class _Ends(NamedTuple):
    """For each listed count of people, an interval for the number of responses plus noise."""

    people: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]


@lru_cache(maxsize=64)
def _ends(noise: Law, users: int, own: Fraction, other: Fraction, confidence: float) -> _Ends:
    """The intervals for all counts, or only for some counts if the crowd is large."""
    people = np.unique(np.linspace(0, users, min(users, _LISTED) + 1).astype(np.int64))
    found = []
    for count in people.tolist():
        law = noise.plus(laws.binomial(count, own)).plus(laws.binomial(users - count, other))
        found.append(law.central_interval(confidence))
    low, high = (np.maximum.accumulate(side) for side in np.array(found).T)
    return _Ends(people, low, high)


@dataclass(frozen=True)
class DummyCounts(Estimator):
    """Subtracts the mean number of dummies from the number of copies of each message.

    A count needs only the number of ones. A histogram needs the numbers of all buckets.
    """

    noise: AddedNoise
    response: Support | None = None

    @property
    def adds_noise(self) -> bool:
        return self.noise.published is not None

    @property
    def tally_size(self) -> int:
        return self.task.domain

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        if self.response is None:
            return held.counts
        return responded(held.counts, self.response.other, source)

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        if self.noise.published is None:
            return super().shifts(users, alphabet)
        # The noise that the analyzer adds does not depend on the messages.
        quiet = replace(self, noise=replace(self.noise, published=None))
        return quiet.shifts(users, alphabet)

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        copies = self._answered(tally.counts)
        if (rate := self.noise.published) is not None:
            source = source or SecureSource()
            copies = copies + discrete_laplace(source, rate, len(copies))
        dropped = self.noise.thrown_away(tally.users)
        even = tally.users * dropped / self.task.domain
        responses: Answer = (copies - self.noise.mean - float(even)) / float(1 - dropped)
        if self.response is not None:
            lies = tally.users * float(self.response.other)
            responses = (responses - lies) / float(self.response.slope)
        if self._independent:
            return with_known_total(responses, tally.users)
        return responses if self._has_buckets else float(responses[0])

    @property
    def _independent(self) -> bool:
        """Whether buckets have independent noise, and people do not use randomized response."""
        return self.response is None and not self.noise.shuffler.dummies.fixed_total

    @property
    def _has_buckets(self) -> bool:
        return self.task.buckets is not None

    def _answered(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers that the task needs. A count needs only the number of ones."""
        return counts if self._has_buckets else counts[1:]

    def release_law(self, tally: Tally) -> Mapping[Any, Fraction] | None:
        rate, copies = self.noise.published, self._answered(tally.counts)
        dummies, shufflers = self.noise.shuffler.dummies, self.noise.shuffler.shufflers
        # If people's messages are thrown away, all dummies may be copies of one message.
        kept = self.noise.shuffler.pure_epsilon is None
        most = tally.users + (shufflers * dummies.most if kept else dummies.total)
        return None if rate is None else listed_laws(copies.tolist(), most, rate, MOST_BUNDLES)

    def standard_error(self, users: int, held: Holding | None) -> float:
        if self._independent:
            return self._known_total.standard_error
        # The variance is convex in the count, so it is largest at 0 or at n.
        counts = np.array([0, users]) if held is None else self._answered(held.counts)
        return float(np.max(self.error_law(users, counts.astype(np.float64)).standard_error))

    @property
    def _known_total(self) -> KnownTotalError:
        return KnownTotalError(self.task.domain, self.noise)

    def error_law(self, users: int, unbiased: Answer) -> DummyError | KnownTotalError:
        if self._independent:
            return self._known_total
        return DummyError(users, self.noise, self.response, unbiased)
