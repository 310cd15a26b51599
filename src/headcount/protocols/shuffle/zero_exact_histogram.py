"""The zero-exact histogram (Balcer, Cheu 2020): the zero-exact count in every bucket.

Notation    x ∈ {0, …, d−1} is a person's bucket. n is the number of people; h of them are honest.
            c_b is the true count of bucket b. p = 1 − t/2^64 is the probability of a noise message,
            where t is an integer, and q = 1 − p.
Randomizer  Send x. For each bucket, also send a noise message with probability p.
Analyzer    The analyzer of the zero-exact count in every bucket (see `zero_exact`). With
            `unbiased`, the excess of the total over n, divided by d, is subtracted from each
            estimate (see `known_total`). With `zero-exact`, the answer for an empty bucket is
            certainly 0.
Privacy     The adversary sees c_b + Bin(n, p) messages of each bucket b, independently. A person
            who moves to another bucket changes two buckets. δ is the exact divergence of the views
            of these two buckets. With `calibration="paper"`, q is that of a zero-exact count with
            ε/2 and δ/2.
Error       Each bucket has the error of the zero-exact count, for any d. With `unbiased`, the
            variance is npq·(1 − 1/d), since n is known.
Messages    1 + dp messages on average and at most d + 1, each with a bucket. If a person sends a
            bucket twice, this bucket is x. So the local ε is infinite.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.accounting import laws
from headcount.accounting.buckets import MovedCurve
from headcount.core.cached import cached_property
from headcount.core.estimate import Answer, ErrorLaw
from headcount.core.estimator import Estimator
from headcount.core.influence import Shifts
from headcount.core.messages import Alphabet, Messages
from headcount.core.randomizer import MOST_BUNDLES, BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding
from headcount.core.tasks.histogram import Histogram
from headcount.protocols.known_total import (
    KnownTotalError,
    known_total_shifts,
    with_known_total,
)
from headcount.protocols.shuffle.zero_exact import (
    MissingNoise,
    Neighbors,
    NoisyCounts,
    ZeroExact,
)
from headcount.randomness.draws import WHOLE, bernoulli


@dataclass(frozen=True)
class HistogramRandomizer(Randomizer):
    """Sends x, and for each bucket a noise message with probability p = 1 − t/2^64."""

    buckets: int
    weight: int  # t

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.numbers(self.buckets, dummies=True)

    @property
    def sent(self) -> Fraction:
        """The probability p of a noise message."""
        return Fraction(WHOLE - self.weight, WHOLE)

    @property
    def messages_per_user(self) -> float:
        return float(1 + self.buckets * self.sent)

    @property
    def instructions(self) -> Mapping[str, Any]:
        return {
            "kind": "one-of-each",
            "buckets": self.buckets,
            "weight": str(WHOLE - self.weight),
        }

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        dtype = self.alphabet.dtype
        noise = bernoulli(source, len(encoded) * self.buckets, WHOLE - self.weight)
        # Each person has a row: first the message x, then the noise message of each bucket.
        sent = np.ones((len(encoded), self.buckets + 1), dtype=np.bool_)
        sent[:, 1:] = noise.reshape(len(encoded), self.buckets)
        every = np.empty(sent.shape, dtype=dtype)
        every[:, 0] = encoded
        every[:, 1:] = np.arange(self.buckets, dtype=dtype)
        return Messages(every[sent], len(encoded), sent.sum(axis=1, dtype=np.int64))

    def law(self, value: int) -> BundleLaw | None:
        if 2**self.buckets > MOST_BUNDLES:
            return None
        out: dict[Any, Fraction] = {}
        for noise in product((0, 1), repeat=self.buckets):
            copies = [number + (bucket == value) for bucket, number in enumerate(noise)]
            chance = self.sent ** sum(noise) * (1 - self.sent) ** (self.buckets - sum(noise))
            out[tuple(pair for pair in enumerate(copies) if pair[1])] = chance
        return out

    def overflow(self, slots: int) -> float:
        noise = laws.binomial(self.buckets, self.sent)
        return 0.0 if slots > self.buckets else noise.above(slots - 1)


@dataclass(frozen=True)
class NoisyBuckets(NoisyCounts):
    """Computes the answer of the zero-exact count in every bucket."""

    @property
    def tally_size(self) -> int:
        return self.task.domain

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        return Estimator.count(self, payload)

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        if not self.thresholded:
            return with_known_total(tally.counts, tally.users)
        return tally.counts - float(tally.users * Fraction(WHOLE - self.weight, WHOLE))

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        if self.thresholded:
            return super().shifts(users, alphabet)
        return known_total_shifts(self.task.domain)

    def standard_error(self, users: int, held: Holding | None) -> float:
        if self.thresholded:
            return super().standard_error(users, held)
        return self._known_total(users).standard_error

    def error_law(self, users: int, unbiased: Answer) -> ErrorLaw:
        if self.thresholded:
            return super().error_law(users, unbiased)
        return self._known_total(users)

    def _known_total(self, users: int) -> KnownTotalError:
        return KnownTotalError(self.task.domain, MissingNoise(users, self.weight))

    def true_counts(self, held: Holding) -> NDArray[np.int64]:
        return held.counts


@dataclass(frozen=True)
class ZeroExactHistogram(ZeroExact):
    name = "shuffle.zero-exact-histogram"
    tasks = (Histogram,)
    neighbors = Neighbors(2, MovedCurve.of)

    @cached_property
    def randomizer(self) -> Randomizer:
        return HistogramRandomizer(self.task.domain, self.weight)

    @cached_property
    def estimator(self) -> NoisyCounts:
        return NoisyBuckets(self.task, self.weight, self.analyzer == "zero-exact")
