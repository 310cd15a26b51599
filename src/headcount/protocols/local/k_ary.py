"""k-ary randomized response (Warner 1965; Kairouz, Bonawitz, Ramage 2016).

Notation    x ∈ {0, …, k−1} is a person's bucket, q = t/2^64 the probability of each lie, and
            p = 1 − (k−1)q the probability of the truth.
Randomizer  Report x, or each of the other buckets with probability q. t is the smallest integer
            with p/q ≤ e^ε. Reports have exactly these probabilities.
Analyzer    A report supports the bucket that it names (see `frequency_oracle`).
Privacy     Pure: each report is ε'-private with ε' = ln(p/q) ≤ ε.
Error       The variance per person is near (e^ε+k−2)/(e^ε−1)² for a rare bucket. For a common
            bucket it is up to p(1−p)/(p−q)², which may be much larger.
Messages    1, a bucket.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.cached import cached_property
from headcount.core.messages import Alphabet, Messages
from headcount.core.randomizer import BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.core.task import Holding
from headcount.protocols.frequency_oracle import (
    FrequencyOracle,
    Support,
    SupportEstimator,
    check_told_apart,
)
from headcount.protocols.responses import lie_weight, respond
from headcount.randomness.draws import WHOLE
from headcount.randomness.totals import binomial, multinomial


@dataclass(frozen=True)
class KAryRandomizer(Randomizer):
    """Sends a person's bucket, or each of the others with probability t/2^64."""

    buckets: int
    weight: int  # t

    fixed_messages = 1

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.numbers(self.buckets)

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        return Messages.one_each(respond(encoded, self.buckets, self.weight, source))

    def law(self, value: int) -> BundleLaw:
        lie = Fraction(self.weight, WHOLE)
        truth = 1 - (self.buckets - 1) * lie
        return {((bucket, 1),): truth if bucket == value else lie for bucket in range(self.buckets)}


@dataclass(frozen=True)
class KAryEstimator(SupportEstimator):
    """Counts how often each bucket is named."""

    simulates_exactly = True
    supported = (1, 1)

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        # With probability kq a report is a uniform bucket, and otherwise the truth.
        share = self.task.domain * self.support.other
        blind = [int(binomial(source, n, share)[0]) for n in held.counts.tolist()]
        return held.counts - blind + multinomial(source, sum(blind), [1] * len(held.counts))


@dataclass(frozen=True)
class KAry(FrequencyOracle):
    name = "local.k-ary"

    @cached_property
    def weight(self) -> int:
        """The weight t of each lie, over 2^64."""
        return lie_weight(self.task.domain, self.budget.epsilon)

    @cached_property
    def support(self) -> Support:
        lie = Fraction(self.weight, WHOLE)
        return Support(1 - (self.task.domain - 1) * lie, lie, Fraction(0), Fraction(0))

    @cached_property
    def randomizer(self) -> KAryRandomizer:
        return KAryRandomizer(self.task.domain, self.weight)

    @cached_property
    def estimator(self) -> KAryEstimator:
        check_told_apart(self, self.task.domain, "buckets")
        return KAryEstimator(self.task, self.support)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"lie_probability": float(1 - self.support.own)}
