"""Hadamard response: one coefficient, one bit (Bassily, Smith 2015; Nguyên et al. 2016).

Notation    x ∈ {0, …, d−1} is a person's bucket, D = 2^m ≥ d. ⟨j, x⟩ is the parity of the bits that
            are set in both j and x, so (−1)^⟨j, x⟩ are the entries of the Hadamard matrix.
Randomizer  Draw j uniformly below D. Report j and the bit ⟨j, x⟩, flipped with probability t/2^64.
            t is the smallest integer for which the ratio of probabilities is at most e^ε.
Analyzer    A report (j, b) supports the buckets with ⟨j, x⟩ = b (see `frequency_oracle`). One fast
            transform counts the reports for all buckets:
            N = (n + Σ_j (zeros_j − ones_j)(−1)^⟨j, x⟩)/2.
Privacy     Pure: the privacy of the bit, because j does not depend on x.
Error       The variance is ((e^ε+1)/(e^ε−1))² per person for a rare bucket, and slightly less for
            others. Buckets are uncorrelated, because ⟨j, x⊕x'⟩ and ⟨j, x⊕x''⟩ are independent.
Messages    1 message of m + 1 bits, 2j + b.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.cached import cached_property
from headcount.core.messages import Alphabet, Messages
from headcount.core.randomizer import MOST_BUNDLES, BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.protocols.frequency_oracle import FrequencyOracle, Support, SupportEstimator
from headcount.protocols.linear_hashes import parity, walsh
from headcount.protocols.responses import lie_weight
from headcount.randomness.draws import WHOLE, bernoulli


@dataclass(frozen=True)
class HadamardRandomizer(Randomizer):
    """Sends a random coefficient j and the bit ⟨j, x⟩, flipped with probability t/2^64."""

    log_size: int  # m
    weight: int  # t

    fixed_messages = 1

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.numbers(2 << self.log_size)

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        dtype = self.alphabet.dtype
        reports = source.integers(len(encoded), dtype)
        reports >>= dtype.type(8 * dtype.itemsize - 1 - self.log_size)
        # Each number is 2j or 2j + 1. Its last bit is replaced.
        bits = bernoulli(source, len(encoded), self.weight)
        bits ^= parity((reports >> dtype.type(1)) & encoded)
        reports &= ~dtype.type(1)
        reports |= bits
        return Messages.one_each(reports)

    def law(self, value: int) -> BundleLaw | None:
        messages = 2 << self.log_size
        if messages > MOST_BUNDLES:
            return None
        lie = Fraction(self.weight, WHOLE)
        return {
            ((message, 1),): (
                1 - lie if (message >> 1 & value).bit_count() % 2 == message % 2 else lie
            )
            / (messages // 2)
            for message in range(messages)
        }


@dataclass(frozen=True)
class HadamardEstimator(SupportEstimator):
    """Counts the reports that support each bucket with one fast transform."""

    log_size: int  # m

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        counts = np.bincount(payload, minlength=2 << self.log_size).astype(np.int64)
        differences = walsh(counts[::2] - counts[1::2])
        return (len(payload) + differences[: self.task.domain]) >> 1


@dataclass(frozen=True)
class Hadamard(FrequencyOracle):
    name = "local.hadamard"

    @property
    def log_size(self) -> int:
        """The number m of bits of a coefficient."""
        return (self.task.domain - 1).bit_length()

    @cached_property
    def weight(self) -> int:
        """The weight t of a lie, over 2^64."""
        return lie_weight(2, self.budget.epsilon)

    @cached_property
    def support(self) -> Support:
        own, other = 1 - Fraction(self.weight, WHOLE), Fraction(1, 2)
        return Support(own, other, own * other, other * other)

    @cached_property
    def randomizer(self) -> HadamardRandomizer:
        return HadamardRandomizer(self.log_size, self.weight)

    @cached_property
    def estimator(self) -> HadamardEstimator:
        return HadamardEstimator(self.task, self.support, self.log_size)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"lie_probability": self.weight / WHOLE, "coefficients": 1 << self.log_size}
