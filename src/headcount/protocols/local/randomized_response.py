"""Binary randomized response (Warner 1965).

Notation    x ∈ {0,1} a person's value, n people, t/2^64 the probability of a lie.
Randomizer  Report x, or with probability t/2^64 its opposite. t is the least integer for which
            (2^64−t)/t ≤ e^ε: the rounding is on the private side, and the law is exactly this one.
Analyzer    Of flipped bits, ĉ = (Σy − qn)/(1−2q) with q = t/2^64: see `flipped_bits`.
Privacy     Pure: ε' = ln((2^64−t)/t) ≤ ε for each person alone, whoever else takes part or lies.
Error       With γ = ½ − t/2^64: variance n(¼−γ²)/(4γ²). Any local protocol errs by Ω(√n/ε)
            (Beimel, Nissim, Omri 2008; Chan, Shi, Song 2012).
Messages    1 of 1 bit.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headcount.accounting.divergence import PairCurve
from headcount.accounting.laws import UNIT, Law
from headcount.core.budget import Trust
from headcount.core.cached import cached_property
from headcount.core.guarantee import Guarantee
from headcount.protocols.flipped_bits import FlippedBits
from headcount.protocols.responses import lie_weight


@dataclass(frozen=True)
class RandomizedResponse(FlippedBits):
    name = "local.randomized-response"
    trust = Trust.LOCAL

    @cached_property
    def _lie(self) -> int:
        return lie_weight(2, self.budget.epsilon)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"lie_probability": float(self.lie_probability)}

    @property
    def guarantee(self) -> Guarantee:
        return self._promise_alone()

    @cached_property
    def curve(self) -> PairCurve:
        truth = np.array([float(1 - self.lie_probability), float(self.lie_probability)])
        return PairCurve.both_directions(Law(0, truth, UNIT), Law(0, truth[::-1], UNIT))
