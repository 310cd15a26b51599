"""Unary encoding: a bit for every bucket (Duchi, Jordan, Wainwright 2013; basic RAPPOR of
Erlingsson, Pihur, Korolova 2014; optimized by Wang, Blocki, Li, Jha 2017).

Notation    x ∈ {0, …, d−1} is a person's bucket. p is the probability that the bit of x is 1, and q
            is the probability that a given other bit is 1.
Randomizer  Send d independent bits. Symmetric: flip each bit of the one-hot vector of x with
            probability q = t/2^64 = 1 − p, which is near 1/(1+e^{ε/2}). Optimized: p = ½, and
            q = t/2^64 is near 1/(1+e^ε). In both cases, t is the smallest integer with
            ((1−q)p)/(q(1−p)) ≤ e^ε.
Analyzer    A report supports the buckets whose bits are 1 (see `frequency_oracle`).
Privacy     Pure: for two different values of x, only two bits have different laws. So
            ε' = ln(p(1−q)/(q(1−p))) ≤ ε.
Error       Symmetric: the variance per person is e^{ε/2}/(e^{ε/2}−1)² for all data. Optimized: for
            a rare bucket, the variance per person is 4e^ε/(e^ε−1)², which is smaller than the
            symmetric variance. For a bucket that holds everybody, the variance is larger by 1 than
            for a rare bucket. In both cases, the errors of different buckets are independent.
Messages    1 message of d bits.
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
from headcount.core.randomizer import MOST_BUNDLES, BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.protocols import packed_bits
from headcount.protocols.frequency_oracle import FrequencyOracle, Support, SupportEstimator
from headcount.protocols.responses import lie_weight
from headcount.randomness.draws import WHOLE, bernoulli, packed_bernoulli


@dataclass(frozen=True)
class UnaryRandomizer(Randomizer):
    """Sends a bit for every bucket.

    The bit of x is 1 with probability p, and every other bit is 1 with probability q.
    """

    buckets: int
    own: int  # p·2^64
    other: int  # q·2^64

    fixed_messages = 1

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.packed(self.buckets)

    @property
    def instructions(self) -> Mapping[str, Any]:
        return {
            "kind": "unary",
            "buckets": self.buckets,
            "own": str(self.own),
            "other": str(self.other),
        }

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        people, width = len(encoded), packed_bits.row_bytes(self.buckets)
        rows = packed_bernoulli(source, people * width, self.other).reshape(people, width)
        packed_bits.put(rows, encoded, bernoulli(source, people, self.own))
        return Messages.one_each(packed_bits.as_payload(packed_bits.cleared(rows, self.buckets)))

    def law(self, value: int) -> BundleLaw | None:
        if 2**self.buckets > MOST_BUNDLES:
            return None
        own, other = Fraction(self.own, WHOLE), Fraction(self.other, WHOLE)
        chances = [own if bucket == value else other for bucket in range(self.buckets)]
        out: dict[Any, Fraction] = {}
        for bits in product((0, 1), repeat=self.buckets):
            chance = Fraction(1)
            for bit, one in zip(bits, chances, strict=True):
                chance *= one if bit else 1 - one
            out[((packed_bits.message(np.array(bits)), 1),)] = chance
        return out


@dataclass(frozen=True)
class UnaryEstimator(SupportEstimator):
    """Counts, for each bucket, the reports whose bit is 1."""

    simulates_exactly = True

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        bits = self.task.domain
        return packed_bits.column_sums(packed_bits.as_rows(payload, bits), bits)


@dataclass(frozen=True)
class Unary(FrequencyOracle):
    """Unary encoding. A subclass calibrates p and q."""

    @property
    @abstractmethod
    def weights(self) -> tuple[int, int]:
        """The integers p·2^64 and q·2^64."""

    @cached_property
    def support(self) -> Support:
        own, other = (Fraction(weight, WHOLE) for weight in self.weights)
        return Support(own, other, own * other, other * other)

    @cached_property
    def randomizer(self) -> UnaryRandomizer:
        return UnaryRandomizer(self.task.domain, *self.weights)

    @cached_property
    def estimator(self) -> UnaryEstimator:
        return UnaryEstimator(self.task, self.support)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"p": float(self.support.own), "q": float(self.support.other)}


@dataclass(frozen=True)
class UnarySymmetric(Unary):
    name = "local.unary-symmetric"

    @cached_property
    def weights(self) -> tuple[int, int]:
        lie = lie_weight(2, self.budget.epsilon / 2)
        return WHOLE - lie, lie


@dataclass(frozen=True)
class UnaryOptimized(Unary):
    name = "local.unary-optimized"

    @cached_property
    def weights(self) -> tuple[int, int]:
        return WHOLE // 2, lie_weight(2, self.budget.epsilon)
