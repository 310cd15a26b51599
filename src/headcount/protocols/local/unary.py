"""Unary encoding: a bit for every bucket (Duchi, Jordan, Wainwright 2013; basic RAPPOR of
Erlingsson, Pihur, Korolova 2014; optimized by Wang, Blocki, Li, Jha 2017).

Notation    x ∈ {0, …, d−1} a person's bucket; p and q the probabilities of a 1 at x and elsewhere.
Randomizer  d bits, drawn independently. Symmetric: every bit of the one-hot vector is flipped with
            probability q = t/2^64 = 1 − p, near 1/(1+e^{ε/2}). Optimized: p = ½, q near 1/(1+e^ε).
            t is the least integer with ((1−q)p)/(q(1−p)) ≤ e^ε.
Analyzer    A report supports the buckets whose bits are 1: see `frequency_oracle`.
Privacy     Pure: two bits tell two buckets apart, so ε' = ln(p(1−q)/(q(1−p))) ≤ ε.
Error       For each person, where a bucket is rare: symmetric e^{ε/2}/(e^{ε/2}−1)², whatever the
            data; optimized 4e^ε/(e^ε−1)², less, and 1 more where all people are in a bucket.
            Buckets are independent.
Messages    1 of d bits.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.cached import cached_property
from headcount.core.messages import Alphabet, Messages
from headcount.core.randomizer import MOST_BUNDLES, BundleLaw
from headcount.core.source import Source
from headcount.protocols import packed_bits
from headcount.protocols.frequency_oracle import FrequencyOracle, Support
from headcount.protocols.responses import lie_weight
from headcount.randomness.draws import WHOLE, bernoulli, packed_bernoulli


@dataclass(frozen=True)
class Unary(FrequencyOracle):
    @property
    @abstractmethod
    def _weights(self) -> tuple[int, int]:
        """The numbers p and q, over 2^64."""

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.packed(self.task.domain)

    @cached_property
    def support(self) -> Support:
        own, other = (Fraction(weight, WHOLE) for weight in self._weights)
        return Support(own, other, own * other, other * other)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"p": float(self.support.own), "q": float(self.support.other)}

    def law(self, value: int) -> BundleLaw | None:
        buckets = self.task.domain
        if 2**buckets > MOST_BUNDLES:
            return None
        chances = [self.support.own if x == value else self.support.other for x in range(buckets)]
        out: dict[Any, Fraction] = {}
        for bits in product((0, 1), repeat=buckets):
            chance = Fraction(1)
            for bit, one in zip(bits, chances, strict=True):
                chance *= one if bit else 1 - one
            out[((packed_bits.message(np.array(bits)), 1),)] = chance
        return out

    def _randomize(self, encoded: NDArray[Any], source: Source) -> Messages:
        bits, people = self.task.domain, len(encoded)
        own, other = self._weights
        width = packed_bits.row_bytes(bits)
        rows = packed_bernoulli(source, people * width, other).reshape(people, width)
        packed_bits.put(rows, encoded, bernoulli(source, people, own))
        return Messages.one_each(packed_bits.as_payload(packed_bits.cleared(rows, bits)))

    @property
    def simulates_exactly(self) -> bool:
        return True

    def _tally(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        bits = self.task.domain
        return packed_bits.column_sums(packed_bits.as_rows(payload, bits), bits)


@dataclass(frozen=True)
class UnarySymmetric(Unary):
    name = "local.unary-symmetric"

    @cached_property
    def _weights(self) -> tuple[int, int]:
        lie = lie_weight(2, self.budget.epsilon / 2)
        return WHOLE - lie, lie


@dataclass(frozen=True)
class UnaryOptimized(Unary):
    name = "local.unary-optimized"

    @cached_property
    def _weights(self) -> tuple[int, int]:
        return WHOLE // 2, lie_weight(2, self.budget.epsilon)
