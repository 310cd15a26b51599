"""k-ary randomized response (Warner 1965; Kairouz, Bonawitz, Ramage 2016).

Notation    x ∈ {0, …, k−1} is a person's bucket. q = t/2^64 is the probability of each lie, and
            p = 1 − (k−1)q is the probability of the truth.
Randomizer  Report x with probability p, and each of the other buckets with probability q. t is the
            smallest integer with p/q ≤ e^ε. Reports have exactly these probabilities.
Analyzer    A report supports the bucket that it names (see `frequency_oracle`).
Privacy     Pure: each report is ε'-private with ε' = ln(p/q) ≤ ε.
Error       The variance per person is near (e^ε+k−2)/(e^ε−1)² for a rare bucket. For a common
            bucket it is up to p(1−p)/(p−q)², which may be much larger.
Messages    1 message, which is a bucket.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headcount.core.cached import cached_property
from headcount.core.source import Source
from headcount.core.task import Holding
from headcount.protocols.frequency_oracle import (
    FrequencyOracle,
    Support,
    SupportEstimator,
    check_told_apart,
)
from headcount.protocols.responses import KAryRandomizer, lie_weight, responded
from headcount.randomness.draws import WHOLE


@dataclass(frozen=True)
class KAryEstimator(SupportEstimator):
    """Counts how often each bucket is named."""

    simulates_exactly = True
    supported = (1, 1)

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        return responded(held.counts, self.support.other, source)


@dataclass(frozen=True)
class KAry(FrequencyOracle):
    name = "local.k-ary"

    @cached_property
    def weight(self) -> int:
        """The weight t of each lie, which has probability t/2^64."""
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
