"""A histogram with correlated noise in every bucket (Ghazi, Kumar, Manurangsi, Pagh 2020).

Notation    x ∈ {0, …, d−1} is a person's bucket, n the number of people; h of them are honest.
            ε1 = −ln a.
Randomizer  Send +1 of bucket x, and for every bucket noise of +1 and −1 that mostly cancels (see
            `correlated_noise`).
Analyzer    (number of +1) − (number of −1), in every bucket.
Privacy     A person who moves changes two buckets, which are independent. δ is the exact divergence
            of these two buckets. Paper: two counts of (ε/2, δ/2) each.
Error       Two-sided geometric noise of ε1 < ε/2 in each bucket if everyone is honest, for any d.
            Central noise is that of ε/2.
Messages    1 + 2d(a/(1−a) + rp/(1−p))/h, each a bucket and a sign. The local ε is infinite.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.laws import Law
from headcount.core.cached import cached_property
from headcount.core.estimate import Answer
from headcount.core.estimator import Estimator
from headcount.core.messages import Alphabet, Messages
from headcount.core.randomizer import BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding
from headcount.core.tasks.histogram import Histogram
from headcount.protocols.correlated_noise import CorrelatedNoise
from headcount.protocols.shuffle.correlated import Correlated, SignedCounts


@dataclass(frozen=True)
class HistogramRandomizer(Randomizer):
    """Sends +1 of a person's bucket, and noise of +1 and −1 of every bucket."""

    buckets: int
    noise: CorrelatedNoise

    @property
    def alphabet(self) -> Alphabet:
        """The message is 2·bucket for +1, and 2·bucket + 1 for −1."""
        return Alphabet.numbers(2 * self.buckets, dummies=True)

    @property
    def messages_per_user(self) -> float:
        return self.noise.messages_per_user(self.buckets)

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        own = Messages.one_each(self._plus(encoded))
        touched, copies = self.noise.draw(source, len(encoded) * self.buckets)
        people, buckets = np.divmod(touched, self.buckets)
        # For each bucket that has noise, its +1 and then its −1.
        plus = self._plus(buckets)
        codes = np.stack([plus, plus + 1], axis=1).ravel()
        return own.plus(np.repeat(people, copies.sum(axis=1)), np.repeat(codes, copies.ravel()))

    def _plus(self, buckets: NDArray[Any]) -> NDArray[Any]:
        """The message +1 of each of these buckets."""
        codes = buckets.astype(self.alphabet.dtype)
        codes *= 2
        return codes

    def law(self, value: int) -> BundleLaw | None:
        return None  # it is a product over all buckets, too long to list

    def overflow(self, slots: int) -> float:
        return self._noise_messages.above(slots - 1)

    @cached_property
    def _noise_messages(self) -> Law:
        return self.noise.number_law(self.buckets)


@dataclass(frozen=True)
class SignedBuckets(SignedCounts):
    """Computes the answer of the correlated-noise count in every bucket."""

    @property
    def tally_size(self) -> int:
        return 2 * self.task.domain

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        return Estimator.count(self, payload)

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        return (tally.counts[::2] - tally.counts[1::2]).astype(np.float64)

    def true_counts(self, held: Holding) -> NDArray[np.int64]:
        return held.counts


@dataclass(frozen=True)
class CorrelatedHistogram(Correlated):
    name = "shuffle.correlated-histogram"
    tasks = (Histogram,)

    @property
    def cells(self) -> int:
        return self.task.domain

    @cached_property
    def randomizer(self) -> Randomizer:
        return HistogramRandomizer(self.cells, self.noise)

    @cached_property
    def estimator(self) -> SignedCounts:
        return SignedBuckets(self.task, self.noise)
