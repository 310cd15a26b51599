"""A histogram with correlated noise in every bucket (Ghazi, Kumar, Manurangsi, Pagh 2020).

Notation    x ∈ {0, …, d−1} is a person's bucket. n is the number of people; h of them are honest.
            ε1 = −ln a is the rate of the noise. r and p are the parameters of the noise pairs that
            cancel (see `correlated_noise`).
Randomizer  Send the message +1 of bucket x. For every bucket, also send noise messages +1 and −1,
            which mostly cancel (see `correlated_noise`).
Analyzer    (number of +1) − (number of −1), in every bucket. Then the excess of the total over n,
            divided by d, is subtracted from each estimate (see `known_total`).
Privacy     A person who moves to another bucket changes two buckets, whose noise is independent. δ
            is the exact divergence of the views of these two buckets. With `calibration="paper"`,
            every bucket has the noise of the paper's count for ε/2 and δ/2.
Error       If everyone is honest, each bucket has two-sided geometric noise of rate ε1 < ε/2, for
            any d. In central trust, the rate is ε/2. Since n is known, the variance is 1 − 1/d
            times that of the noise. The option `error_ratio` compares the noise with central noise.
            It ignores this factor, which is the same for both.
Bundles     With `max_slots=K`, nobody ever has more than K messages. With `minimize="slots"`, K is
            the smallest number of slots that allows the wanted error. With either option, each
            person sends noise for only one bucket, which is secret (see `capped_noise`).
Messages    1 + 2d(a/(1−a) + rp/(1−p))/h messages on average, each with a bucket and a sign. The
            local ε is infinite.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.laws import Law
from headcount.core.cached import cached_property
from headcount.core.estimate import Answer
from headcount.core.estimator import Estimator
from headcount.core.influence import Shifts
from headcount.core.messages import Alphabet, Messages
from headcount.core.randomizer import MOST_BUNDLES, BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding
from headcount.core.tasks.histogram import Histogram
from headcount.protocols.capped_noise import CappedShares, CappedTotalError
from headcount.protocols.correlated_noise import CorrelatedNoise
from headcount.protocols.fixed_total import FixedTotalError
from headcount.protocols.known_total import (
    KnownTotalError,
    known_total_shifts,
    with_known_total,
)
from headcount.protocols.shuffle.correlated import Correlated, SignedCounts
from headcount.randomness.draws import uniform


def signed_buckets(buckets: int) -> Alphabet:
    """The alphabet of messages: 2·bucket for +1, and 2·bucket + 1 for −1."""
    return Alphabet.numbers(2 * buckets, dummies=True)


@dataclass(frozen=True)
class HistogramRandomizer(Randomizer):
    """Sends +1 for the person's bucket, and noise messages +1 and −1 for every bucket."""

    buckets: int
    noise: CorrelatedNoise

    @property
    def alphabet(self) -> Alphabet:
        return signed_buckets(self.buckets)

    @property
    def own_messages(self) -> int:
        """The number of messages that tell a person's value."""
        return 1

    def own(self, encoded: NDArray[Any]) -> NDArray[Any]:
        """The buckets that tell each person's value, in one row per person."""
        return encoded[:, None]

    @property
    def messages_per_user(self) -> float:
        return self.noise.messages_per_user(self.buckets, self.own_messages)

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        counts = np.broadcast_to(np.int64(self.own_messages), len(encoded))
        own = Messages(self._plus(self.own(encoded)).reshape(-1), len(encoded), counts)
        touched, copies = self.noise.draw(source, len(encoded) * self.buckets)
        people, buckets = np.divmod(touched, self.buckets)
        # In each bucket with noise, a person's messages +1 come before the messages −1.
        plus = self._plus(buckets)
        codes = np.stack([plus, plus + 1], axis=1).ravel()
        return own.plus(np.repeat(people, copies.sum(axis=1)), np.repeat(codes, copies.ravel()))

    def _plus(self, buckets: NDArray[Any]) -> NDArray[Any]:
        """The message +1 of each of these buckets."""
        codes = buckets.astype(self.alphabet.dtype)
        codes *= 2
        return codes

    def law(self, value: int) -> BundleLaw | None:
        return None  # the law is a product over all buckets, which is too long to list

    def overflow(self, slots: int) -> float:
        return self._noise_messages.above(slots - self.own_messages)

    @cached_property
    def _noise_messages(self) -> Law:
        return self.noise.number_law(self.buckets)


@dataclass(frozen=True)
class CappedHistogramRandomizer(Randomizer):
    """Sends +1 for the person's bucket, and at most K − 1 noise messages for one bucket."""

    buckets: int
    noise: CappedShares

    @property
    def alphabet(self) -> Alphabet:
        return signed_buckets(self.buckets)

    @property
    def messages_per_user(self) -> float:
        return self.noise.messages_per_user

    @property
    def instructions(self) -> Mapping[str, Any]:
        return {"kind": "signed-buckets", "buckets": self.buckets, **self.noise.instructions}

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        users = len(encoded)
        entries = self.noise.table.sample(source, users)
        # Each row has the codes of the person's own message, and of +1 and −1 for the bucket with
        # noise.
        codes = np.empty((users, 3), dtype=self.alphabet.dtype)
        codes[:, 0] = encoded
        codes[:, 1] = uniform(source, users, self.buckets)
        codes[:, :2] *= 2
        codes[:, 2] = codes[:, 1] + 1
        copies = np.ones((users, 3), dtype=np.uint8)
        copies[:, 1] = self.noise.plus[entries]
        copies[:, 2] = self.noise.minus[entries]
        payload = np.repeat(codes.ravel(), copies.ravel())
        return Messages(payload, users, copies.sum(axis=1, dtype=np.uint8))

    def law(self, value: int) -> BundleLaw | None:
        drawn = self.noise.law()
        if self.buckets * len(drawn) > MOST_BUNDLES:
            return None
        out: dict[Any, Fraction] = {}
        for bucket, ((plus, minus), chance) in product(range(self.buckets), drawn.items()):
            copies = Counter({2 * value: 1})
            copies.update({2 * bucket: plus, 2 * bucket + 1: minus})
            bundle = tuple(sorted((code, number) for code, number in copies.items() if number))
            out[bundle] = out.get(bundle, Fraction(0)) + chance / self.buckets
        return out

    def overflow(self, slots: int) -> float:
        return self.noise.above(slots - 1)


@dataclass(frozen=True)
class SignedBuckets(SignedCounts):
    """Computes (number of +1) − (number of −1) in every bucket, and corrects the total to n."""

    @property
    def tally_size(self) -> int:
        return 2 * self.task.domain

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        return Estimator.count(self, payload)

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        return with_known_total(tally.counts[::2] - tally.counts[1::2], tally.users)

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        return known_total_shifts(self.task.domain, most=1.0, least=-1.0)

    def standard_error(self, users: int, held: Holding | None) -> float:
        return self.error_law(users, None).standard_error

    def error_law(self, users: int, unbiased: Answer) -> FixedTotalError:
        if isinstance(self.noise, CappedShares):
            return CappedTotalError(self.task.domain, self.noise.error(users))
        return KnownTotalError(self.task.domain, self.noise.error(users))

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
        if self.capped:
            return CappedHistogramRandomizer(self.cells, self.capped_noise)
        return HistogramRandomizer(self.cells, self.noise)

    @cached_property
    def estimator(self) -> SignedCounts:
        return SignedBuckets(self.task, self.shares)
