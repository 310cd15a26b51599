"""The zero-exact histogram (Balcer, Cheu 2020): the zero-exact count in every bucket.

Notation    x ∈ {0, …, d−1} a person's bucket, n people, h of them honest, c_b the true count of
            bucket b, p = 1 − t/2^64 the probability of a noise message, q = 1 − p.
Randomizer  Send x, and with probability p a noise message of each bucket.
Analyzer    That of the zero-exact count, in every bucket: see `zero_exact`. With `zero-exact`, an
            empty bucket is answered 0 with certainty.
Privacy     Buckets are seen as c_b + Bin(n, p), independently. A person who moves touches two of
            them: δ is the exact divergence of the pair. Paper: two counts of (ε/2, δ/2) each.
Error       That of the zero-exact count in each bucket, whatever d is.
Messages    1 + dp of a bucket each, at most d + 1. The bucket sent twice, if any, is x: local ε is
            infinite.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.accounting import laws
from headcount.core.messages import Alphabet, Messages
from headcount.core.protocol import MOST_BUNDLES, BundleLaw, Protocol
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Histogram, Holding
from headcount.protocols.shuffle.zero_exact import ZeroExact
from headcount.randomness.draws import WHOLE, bernoulli
from headcount.randomness.totals import binomial


@dataclass(frozen=True)
class ZeroExactHistogram(ZeroExact):
    name = "shuffle.zero-exact-histogram"
    tasks = (Histogram,)

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.numbers(self.task.domain, dummies=True)

    @property
    def tally_size(self) -> int:
        return self.task.domain

    @property
    def _moved(self) -> bool:
        return True

    def _held(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        return counts

    @property
    def messages_per_user(self) -> float:
        return float(1 + self.task.domain * (1 - self._withheld))

    def law(self, value: int) -> BundleLaw | None:
        if 2**self.task.domain > MOST_BUNDLES:
            return None
        out: dict[Any, Fraction] = {}
        for noise in product((0, 1), repeat=self.task.domain):
            copies = [number + (bucket == value) for bucket, number in enumerate(noise)]
            sent = sum(noise)
            chance = (1 - self._withheld) ** sent * self._withheld ** (len(noise) - sent)
            out[tuple(pair for pair in enumerate(copies) if pair[1])] = chance
        return out

    def _excess(self, slots: int) -> float:
        noise = laws.binomial(self.task.domain, 1 - self._withheld)
        return 0.0 if slots > self.task.domain else noise.above(slots - 1)

    def _randomize(self, encoded: NDArray[Any], source: Source) -> Messages:
        buckets, dtype = self.task.domain, self.alphabet.dtype
        noise = bernoulli(source, len(encoded) * buckets, WHOLE - self._weight)
        # A row for each person: the own message, then the noise of each bucket.
        sent = np.ones((len(encoded), buckets + 1), dtype=np.bool_)
        sent[:, 1:] = noise.reshape(len(encoded), buckets)
        every = np.empty(sent.shape, dtype=dtype)
        every[:, 0] = encoded
        every[:, 1:] = np.arange(buckets, dtype=dtype)
        return Messages(every[sent], len(encoded), sent.sum(axis=1, dtype=np.int64))

    def _tally(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        return Protocol._tally(self, payload)  # by number, unlike the count

    def _unbiased(self, tally: Tally, source: Source | None) -> Any:
        return tally.counts - float(tally.users * (1 - self._withheld))

    def _simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        users = held.users
        return held.counts + users - binomial(source, users, self._withheld, len(held.counts))
