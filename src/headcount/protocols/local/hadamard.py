"""Hadamard response: a coefficient and one bit (Bassily, Smith 2015; Nguyên et al. 2016).

Notation    x ∈ {0, …, d−1} is a person's bucket, and n is the number of people. D = 2^m is the
            smallest power of two with D ≥ d. ⟨j, x⟩ is the parity of the number of bits that are
            set in both j and x, so the entries of the Hadamard matrix are (−1)^⟨j, x⟩. j is called
            the coefficient.
Randomizer  Draw j uniformly from 1, …, D − 1. Report j and the bit ⟨j, x⟩, flipped with probability
            t/2^64. t is the smallest integer with (2^64−t)/t ≤ e^ε. A report with j = 0 is refused,
            because it could support all buckets at once.
Analyzer    A report (j, b) supports the buckets with ⟨j, x⟩ = b (see `frequency_oracle`). One fast
            transform computes the number N of reports that support each bucket:
            N = (n + Σ_j (zeros_j − ones_j)(−1)^⟨j, x⟩)/2. Here zeros_j and ones_j are the numbers
            of reports (j, 0) and (j, 1).
Privacy     Pure ε-privacy. Only the bit reveals anything about x, because j does not depend on x.
Error       A report supports the owner's bucket with probability p = 1 − t/2^64. It supports any
            other bucket with probability q = αp + (1−α)(1−p), where α = (D/2 − 1)/(D − 1) (see
            `linear_hashes`). For many buckets, α is near ½, and the variance per person for a rare
            bucket is near ((e^ε+1)/(e^ε−1))². For few buckets, the variance is smaller.
Messages    1 message, 2j + b, of m + 1 bits.
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
from headcount.protocols.frequency_oracle import (
    MOST_DRAWS,
    FrequencyOracle,
    Support,
    SupportEstimator,
    SupportSets,
)
from headcount.protocols.linear_hashes import guard_pair, guard_triple, parity, walsh
from headcount.protocols.responses import lie_weight
from headcount.randomness.draws import WHOLE, bernoulli, uniform


@dataclass(frozen=True)
class HadamardRandomizer(Randomizer):
    """Sends a random coefficient j and the bit ⟨j, x⟩, flipped with probability t/2^64."""

    log_size: int  # m
    weight: int  # t

    fixed_messages = 1

    @property
    def alphabet(self) -> Alphabet:
        every = range(2, 2 << self.log_size)  # without j = 0
        return Alphabet(np.min_scalar_type(every[-1]).type, every)

    @property
    def instructions(self) -> Mapping[str, Any]:
        return {"kind": "hadamard", "log_size": self.log_size, "weight": str(self.weight)}

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        dtype, every = self.alphabet.dtype, self.alphabet.columns[0]
        small: Any = dtype.type
        reports = uniform(source, len(encoded), len(every), small)
        reports += dtype.type(every[0])
        # Each of `reports` is 2j or 2j + 1 for a uniform j. Its last bit is replaced by the
        # randomized bit.
        bits = bernoulli(source, len(encoded), self.weight)
        bits ^= parity((reports >> dtype.type(1)) & encoded)
        reports &= ~dtype.type(1)
        reports |= bits
        return Messages.one_each(reports)

    def law(self, value: int) -> BundleLaw | None:
        messages = self.alphabet.columns[0]
        if len(messages) > MOST_BUNDLES:
            return None
        lie = Fraction(self.weight, WHOLE)
        return {
            ((message, 1),): (
                1 - lie if (message >> 1 & value).bit_count() % 2 == message % 2 else lie
            )
            / (len(messages) // 2)
            for message in messages
        }


@dataclass(frozen=True)
class HadamardEstimator(SupportEstimator):
    """Counts the reports that support each bucket, with one fast transform."""

    log_size: int  # m

    @property
    def supported(self) -> tuple[int, int]:
        half = 1 << (self.log_size - 1)
        return self.task.domain - half, half

    @cached_property
    def supports(self) -> SupportSets | None:
        messages = np.arange(2, 2 << self.log_size, dtype=np.int64)
        if len(messages) * self.task.domain > MOST_DRAWS:
            return None
        parities = parity(
            (messages[:, None] >> 1).view(np.uint64) & np.arange(self.task.domain, dtype=np.uint64)
        )
        return SupportSets.of(parities == (messages[:, None] & 1))

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
        """The weight t of a lie, which has probability t/2^64."""
        return lie_weight(2, self.budget.epsilon)

    @cached_property
    def support(self) -> Support:
        lie = Fraction(self.weight, WHOLE)
        equal, different = guard_pair(self.log_size)
        all_equal, owner_differs = guard_triple(self.log_size)
        return Support(
            own=1 - lie,
            other=equal * (1 - lie) + different * lie,
            own_and_other=equal * (1 - lie),
            two_others=all_equal * (1 - lie) + owner_differs * lie,
        )

    @cached_property
    def randomizer(self) -> HadamardRandomizer:
        return HadamardRandomizer(self.log_size, self.weight)

    @cached_property
    def estimator(self) -> HadamardEstimator:
        return HadamardEstimator(self.task, self.support, self.log_size)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"lie_probability": self.weight / WHOLE, "coefficients": (1 << self.log_size) - 1}
