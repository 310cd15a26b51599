"""Binary randomized response (Warner 1965).

Notation    x ∈ {0,1} is a person's value, n is the number of people, and t/2^64 is the probability
            of a lie.
Randomizer  Report x, or its opposite with probability t/2^64. t is the smallest integer with
            (2^64−t)/t ≤ e^ε. Reports have exactly these probabilities.
Analyzer    The number of people with the value 1 is estimated by ĉ = (Σy − qn)/(1−2q), where the
            sum is over all reports y, and q = t/2^64 (see `flipped_bits`).
Privacy     Pure: each report is ε'-private with ε' = ln((2^64−t)/t) ≤ ε. The guarantee does not
            depend on who else takes part.
Error       With γ = ½ − t/2^64, the variance is n(¼−γ²)/(4γ²). The error of any local protocol is
            Ω(√n/ε) (Beimel, Nissim, Omri 2008; Chan, Shi, Song 2012).
Messages    1 message of 1 bit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headcount.accounting.divergence import PairCurve
from headcount.accounting.laws import ROUNDING, Law
from headcount.core.budget import Trust
from headcount.core.cached import cached_property
from headcount.core.guarantee import Guarantee
from headcount.core.promise import promise_alone
from headcount.core.protocol import Protocol
from headcount.core.task import Task
from headcount.core.tasks.count import Count
from headcount.protocols.flipped_bits import FlipEstimator, FlipRandomizer
from headcount.protocols.responses import lie_weight


@dataclass(frozen=True)
class RandomizedResponse(Protocol):
    name = "local.randomized-response"
    trust = Trust.LOCAL
    tasks: ClassVar[tuple[type[Task], ...]] = (Count,)

    @cached_property
    def randomizer(self) -> FlipRandomizer:
        return FlipRandomizer(lie_weight(2, self.budget.epsilon))

    @cached_property
    def estimator(self) -> FlipEstimator:
        return FlipEstimator(self.task, self.randomizer.lie_probability)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"lie_probability": float(self.randomizer.lie_probability)}

    @cached_property
    def curve(self) -> PairCurve:
        lie = self.randomizer.lie_probability
        truth = np.array([float(1 - lie), float(lie)])
        return PairCurve.both_directions(Law(0, truth, ROUNDING), Law(0, truth[::-1], ROUNDING))

    @property
    def guarantee(self) -> Guarantee:
        return promise_alone(self)

    @property
    def local_epsilon(self) -> float:
        return self.randomizer.local_epsilon
