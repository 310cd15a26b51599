"""k-ary randomized response (Warner 1965; Kairouz, Bonawitz, Ramage 2016).

Notation    x ∈ {0, …, k−1} a person's bucket, q = t/2^64 the probability of each lie,
            p = 1 − (k−1)q that of the truth.
Randomizer  Report x, or with probability q each of the other buckets. t is the least integer for
            which p/q ≤ e^ε: the rounding is on the private side, and the law is exactly this one.
Analyzer    A report supports the bucket that it names: see `frequency_oracle`.
Privacy     Pure: ε' = ln(p/q) ≤ ε for each person alone.
Error       Near (e^ε+k−2)/(e^ε−1)² for each person where a bucket is rare; if it is common, up to
            p(1−p)/(p−q)², which may be far more.
Messages    1 of a bucket.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.cached import cached_property
from headcount.core.messages import Alphabet, Messages
from headcount.core.randomizer import BundleLaw
from headcount.core.source import Source
from headcount.core.task import Holding
from headcount.protocols.frequency_oracle import FrequencyOracle, Support
from headcount.protocols.responses import lie_weight, respond
from headcount.randomness.draws import WHOLE
from headcount.randomness.totals import binomial, multinomial


@dataclass(frozen=True)
class KAry(FrequencyOracle):
    name = "local.k-ary"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_told_apart(self.task.domain, "buckets")

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.numbers(self.task.domain)

    @cached_property
    def _weight(self) -> int:
        """The number t."""
        return lie_weight(self.task.domain, self.budget.epsilon)

    @cached_property
    def support(self) -> Support:
        lie = Fraction(self._weight, WHOLE)
        return Support(1 - (self.task.domain - 1) * lie, lie, Fraction(0), Fraction(0))

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"lie_probability": float(1 - self.support.own)}

    def law(self, value: int) -> BundleLaw:
        return {
            ((bucket, 1),): self.support.own if bucket == value else self.support.other
            for bucket in range(self.task.domain)
        }

    def _randomize(self, encoded: NDArray[Any], source: Source) -> Messages:
        return Messages.one_each(respond(encoded, self.task.domain, self._weight, source))

    @property
    def simulates_exactly(self) -> bool:
        return True

    def _simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        share = self.task.domain * self.support.other
        blind = [int(binomial(source, n, share)[0]) for n in held.counts.tolist()]
        return held.counts - blind + multinomial(source, sum(blind), [1] * len(held.counts))
