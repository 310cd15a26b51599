"""Dummies: noise messages that a shuffler adds to people's messages.

Notation    n people each send one of d different messages. The shuffler adds Z_b dummies, which are
            copies of message b. T is the largest possible value of Z_b, and T/2 is the mean of Z_b.
            A view states how many copies of each of the d messages there are, including dummies.
Shuffler    Draw the numbers Z_b and add the dummies. For pure privacy, there is an exception with
            probability η: throw away the messages of all people, and send only dummies. The total
            number of messages stays the same. In the exception, all ways to divide this number
            among the d messages are equally likely.
Privacy     If η = 0, some outcomes at the ends of the range of the noise are impossible after one
            value is replaced. δ is the probability of these outcomes. Let p be the largest
            probability of one of them, and C the number of all possible views. If η > 0, every view
            has a probability of at least η/C. The largest ratio of a view's probabilities for two
            neighbors equals 1 + (1−η)p·C/η, which is e^ε for η = 1/(1 + (e^ε−1)/(C·p)).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.bucket_noise import BucketCurve, BucketNoise
from headcount.accounting.divergence import SymmetricCurve
from headcount.accounting.laws import ROUNDING, Law
from headcount.accounting.truncated_geometric import (
    TOTAL,
    ShiftCurve,
    TruncatedGeometric,
    exp_below,
)
from headcount.core.cached import cached_property
from headcount.core.guarantee import PrivacyCurve
from headcount.core.randomizer import MOST_BUNDLES, bundle_of
from headcount.core.shuffler import Noise, NoiseLaw, Shuffler
from headcount.core.source import Source
from headcount.randomness.bucket_noise import composition, with_total
from headcount.randomness.draws import uniform_below
from headcount.randomness.table import ThresholdTable

Copies = tuple[int, ...]
_ROUNDED = 2.0**-10  # if a weight has a larger rounding error, the bound on p is 1


@dataclass(frozen=True)
class Dummies(ABC):
    """The law of the numbers of dummies that one shuffler adds."""

    @property
    @abstractmethod
    def buckets(self) -> int:
        """The number d of different messages."""

    @property
    @abstractmethod
    def most(self) -> int:
        """The largest number T of dummies of one message."""

    @property
    def total(self) -> int:
        """The total number of dummies, or its mean if the total is not fixed."""
        return self.buckets * self.most // 2

    @property
    def fixed_total(self) -> bool:
        """Whether the total number of dummies is always the same."""
        return True

    @abstractmethod
    def draw(self, source: Source) -> NDArray[np.int64]:
        """A random number of dummies for each message."""

    @abstractmethod
    def law(self) -> Mapping[Copies, Fraction] | None:
        """The exact law of `draw`, or None if it is too long to list."""

    @property
    @abstractmethod
    def one(self) -> Law:
        """The law of the number of dummies of one message, minus its mean T/2."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance of the number of dummies of one message."""

    @property
    def covariance(self) -> float:
        """The covariance of the numbers of dummies of two different messages."""
        return -self.variance / (self.buckets - 1) if self.fixed_total else 0.0

    @property
    @abstractmethod
    def curve(self) -> PrivacyCurve:
        """The privacy curve, if people's messages are never thrown away."""

    @property
    @abstractmethod
    def likeliest_end(self) -> Fraction:
        """An upper bound on p, which is the largest probability of an outcome that is impossible
        after one value is replaced.
        """

    # Pure privacy -------------------------------------------------------------------------------

    def views(self, users: int) -> int:
        """The number C of possible views."""
        return math.comb(users + self.total + self.buckets - 1, self.buckets - 1)

    def thrown_away(self, users: int, epsilon: float) -> Fraction:
        """The probability η, rounded up to a multiple of 2^−128."""
        weight = self.views(users) * self.likeliest_end
        share = weight / (weight + exp_below(epsilon) - 1)
        return Fraction(math.ceil(share * TOTAL), TOTAL)

    def pure_curve(self, users: int, epsilon: float) -> PrivacyCurve:
        """The privacy curve if people's messages are thrown away with probability η.

        δ is convex in e^ε, so it is below its chord from ε = 0 to the largest loss, at which δ = 0.
        """
        kept = float(1 - self.thrown_away(users, epsilon))

        def delta_at(at: float) -> float:
            chord = self.curve.delta(0.0) * math.expm1(at - epsilon) / math.expm1(-epsilon)
            return kept * min(self.curve.delta(at), chord) * (1 + 16 * ROUNDING)

        return SymmetricCurve(delta_at, epsilon, steps=1)


@dataclass(frozen=True)
class CountDummies(Dummies):
    """The dummies of a count: Z ones and T − Z zeros."""

    noise: TruncatedGeometric

    buckets = 2

    @property
    def most(self) -> int:
        return self.noise.most

    def draw(self, source: Source) -> NDArray[np.int64]:
        ones = int(ThresholdTable(self.noise.weights).sample(source, 1)[0])
        return np.array([self.most - ones, ones])

    def law(self) -> Mapping[Copies, Fraction] | None:
        return {
            (self.most - ones, ones): Fraction(weight, TOTAL)
            for ones, weight in enumerate(self.noise.weights)
        }

    @property
    def one(self) -> Law:
        return self.noise.centered

    @cached_property
    def variance(self) -> float:
        return float(self.noise.variance)

    @cached_property
    def curve(self) -> ShiftCurve:
        return ShiftCurve(self.noise)

    @property
    def likeliest_end(self) -> Fraction:
        return self.noise.below(1)


@dataclass(frozen=True)
class BucketDummies(Dummies):
    """The dummies of a histogram.

    The numbers of dummies in the buckets are independent. If their total is fixed, they have the
    law of independent numbers, given that these add up to d·T/2.
    """

    noise: BucketNoise

    @property
    def buckets(self) -> int:
        return self.noise.buckets

    @property
    def most(self) -> int:
        return self.noise.most

    @property
    def fixed_total(self) -> bool:
        return self.noise.fixed_total

    def draw(self, source: Source) -> NDArray[np.int64]:
        weights = self.noise.bucket.weights
        if self.fixed_total:
            return with_total(source, weights, self.buckets, self.total)
        return ThresholdTable(weights).sample(source, self.buckets)

    def law(self) -> Mapping[Copies, Fraction] | None:
        return _bucket_law(self.noise)

    @property
    def one(self) -> Law:
        return self.noise.one

    @property
    def variance(self) -> float:
        return self.noise.variance

    @cached_property
    def curve(self) -> BucketCurve:
        return BucketCurve(self.noise)

    @cached_property
    def likeliest_end(self) -> Fraction:
        # If Z_i = T, the sum of the other numbers is T/2 below its mean. So the absolute
        # deviations of all numbers from their means add up to at least T. Up to rounding, this
        # gives p ≤ a^T·w(0)^d/S_d(0), where a = e^−rate. See `accounting.bucket_noise` for w
        # and S.
        noise, size = self.noise, float(self.noise.bucket.rate) * self.most
        if noise.rounding > _ROUNDED or not noise.middle:
            return Fraction(1)  # the smallest weights are rounded too coarsely
        middle = Fraction(max(noise.bucket.weights), TOTAL) * Fraction(1 + noise.rounding)
        above = (1 + 8 * noise.slack) * (1 + ROUNDING * (8 + size))
        # As a float, the power would underflow, so it is computed with rational numbers.
        parts = math.ceil(size / 500) + 1
        falling = Fraction(math.exp(-size / parts) * (1 + 8 * ROUNDING))
        found = middle**self.buckets * falling**parts * Fraction(above) / Fraction(noise.middle)
        return min(found, Fraction(1))


@lru_cache(maxsize=32)
def _bucket_law(noise: BucketNoise) -> Mapping[Copies, Fraction] | None:
    free = noise.buckets - noise.fixed_total
    if (noise.most + 1) ** free > MOST_BUNDLES:
        return None
    weights, out = noise.bucket.weights, {}
    for copies in product(range(noise.most + 1), repeat=free):
        last = noise.total - sum(copies)
        if noise.fixed_total and not 0 <= last <= noise.most:
            continue
        drawn = (*copies, last) if noise.fixed_total else copies
        out[drawn] = math.prod(weights[number] for number in drawn)
    total = sum(out.values())
    return {drawn: Fraction(weight, total) for drawn, weight in out.items()}


@dataclass(frozen=True, kw_only=True)
class DummyShuffler(Shuffler):
    """A chain of shufflers, each of which adds its own dummies."""

    dummies: Dummies
    each: int = 1  # how many messages a person sends
    shufflers: int = 1
    pure_epsilon: float | None = None  # if given, people's messages are sometimes thrown away

    adds = True

    def fits(self, users: int, messages: int) -> bool:
        added, dummies = messages - self.each * users, self.dummies
        if dummies.fixed_total:
            return added == self.shufflers * dummies.total
        return 0 <= added <= self.shufflers * dummies.buckets * dummies.most

    def noise(self, users: int, source: Source) -> Noise:
        if self.pure_epsilon is not None:
            share = self.dummies.thrown_away(users, self.pure_epsilon)
            if uniform_below(source, share.denominator) < share.numerator:
                total = users + self.dummies.total
                copies = composition(source, total, self.dummies.buckets)
                return Noise(self._messages(copies), alone=True)
        drawn = [self.dummies.draw(source) for _ in range(self.shufflers)]
        return Noise(self._messages(np.sum(drawn, axis=0)))

    def _messages(self, copies: NDArray[np.int64]) -> NDArray[np.unsignedinteger]:
        kinds = np.arange(self.dummies.buckets, dtype=np.min_scalar_type(self.dummies.buckets - 1))
        return np.repeat(kinds, copies)

    def noise_law(self, users: int) -> NoiseLaw | None:
        one = self.dummies.law()
        if one is None:
            return None
        law: dict[Copies, Fraction] = {(0,) * self.dummies.buckets: Fraction(1)}
        for _ in range(self.shufflers):
            more: dict[Copies, Fraction] = {}
            if len(law) * len(one) > MOST_BUNDLES:
                return None
            for copies, chance in law.items():
                for added, its_chance in one.items():
                    both = tuple(map(sum, zip(copies, added, strict=True)))
                    more[both] = more.get(both, Fraction(0)) + chance * its_chance
            law = more
        if self.pure_epsilon is None:
            return {(bundle_of(enumerate(each)), False): chance for each, chance in law.items()}
        share = self.dummies.thrown_away(users, self.pure_epsilon)
        views = self.dummies.views(users)
        if views > MOST_BUNDLES:
            return None
        alone = _compositions(users + self.dummies.total, self.dummies.buckets)
        return {
            **{
                (bundle_of(enumerate(copies)), False): (1 - share) * chance
                for copies, chance in law.items()
            },
            **{(bundle_of(enumerate(copies)), True): share / views for copies in alone},
        }


def _compositions(total: int, parts: int) -> list[Copies]:
    if parts == 1:
        return [(total,)]
    return [
        (first, *rest)
        for first in range(total + 1)
        for rest in _compositions(total - first, parts - 1)
    ]
