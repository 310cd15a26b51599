"""Randomized response with a shuffler (Cheu, Smith, Ullman, Zeber, Zhilyaev 2019).

Notation    x ∈ {0,1} is a person's value. n is the number of people; h of them are honest.
            λ is the expected number of honest people who report a coin flip. q = λ/(2h) = t/2^64 is
            the probability of a lie, where t is an integer.
Randomizer  With probability λ/h report a fair coin flip, and otherwise x. So the report differs
            from x with probability q.
Analyzer    The analyzer of `flipped_bits`. If everyone is honest, the estimate is
            n/(n−λ)·(Σy − λ/2), where the sum is over all reports y.
Privacy     The view is the number of ones among the reports. One honest person's value is replaced.
            Let k of the other h−1 honest people hold a one, and let
            W_k = Bin(h−1−k, q) − Bin(k, q). Up to a shift, the view is W_k + Bernoulli(q) or
            W_k + Bernoulli(1−q). δ is the largest divergence of these two laws over all k and both
            directions. The worst k is not always 0, and the divergence has many local maxima in k.
            δ is exact for up to 10,000 honest people. For more people, it is within one part in
            10,000 of the exact value (see `accounting.amplification`).
            With `calibration="paper"`, λ = (64/ε²) ln(4/δ), or λ = h − εh^{3/2}/√(432 ln(4/δ)) if ε
            is below √(192 ln(4/δ)/h).
Error       The standard error of `flipped_bits`, which is about √(λ/2) in a large crowd if everyone
            is honest.
Messages    1 message of 1 bit. If the shuffler and the analyzer collude, little protection is left:
            the privacy loss is ln((1−q)/q).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

from headcount.accounting.amplification import BinaryResponse, flip_delta
from headcount.accounting.divergence import SymmetricCurve
from headcount.accounting.inversion import edge_delta
from headcount.core.budget import Budget, Trust
from headcount.core.cached import cached_property
from headcount.core.guarantee import Guarantee
from headcount.core.promise import paper_is_not_private, promise
from headcount.core.protocol import Calibration, Protocol
from headcount.core.task import Task
from headcount.core.tasks.count import Count
from headcount.protocols.flipped_bits import FlipEstimator, FlipRandomizer
from headcount.protocols.responses import lie_weight
from headcount.randomness.draws import WHOLE


@lru_cache(maxsize=256)
def _calibrate(honest: int, budget: Budget, calibration: Calibration) -> tuple[int, float] | None:
    """A weight t whose δ is within the budget, and this δ, which is the largest over all datasets.

    None if the δ of the paper's t exceeds the budget.
    """
    if calibration == "paper":
        weight = paper_weight(honest, budget.epsilon, budget.delta)
    else:
        most = BinaryResponse(honest).local_epsilon(budget.epsilon, budget.delta)
        weight = lie_weight(2, most)
    delta = 0.0  # if a report satisfies ε even without the shuffler, δ is 0
    if weight < lie_weight(2, budget.epsilon):
        delta = flip_delta(honest, Fraction(weight, WHOLE), budget.epsilon)
    return (weight, delta) if delta <= budget.delta else None


def paper_weight(honest: int, epsilon: float, delta: float) -> int:
    """The paper's weight t of a lie. A lie has probability t/2^64."""
    if delta == 0:
        return lie_weight(2, epsilon)
    log = math.log(4 / delta)
    if epsilon >= math.sqrt(192 * log / honest):
        coins = 64 / epsilon**2 * log
    else:
        coins = honest - epsilon * honest**1.5 / math.sqrt(432 * log)
    return math.ceil(Fraction(coins) / (2 * honest) * WHOLE)


@dataclass(frozen=True)
class ShuffledResponse(Protocol):
    name = "shuffle.randomized-response"
    trust = Trust.SHUFFLE
    tasks: ClassVar[tuple[type[Task], ...]] = (Count,)

    @cached_property
    def _calibrated(self) -> tuple[int, float]:
        """The weight t of a lie, which has probability t/2^64, and the δ for this t."""
        calibrated = _calibrate(self.crowd.honest, self.budget, self.calibration)
        if calibrated is None:
            raise paper_is_not_private(self)
        return calibrated

    @cached_property
    def randomizer(self) -> FlipRandomizer:
        return FlipRandomizer(self._calibrated[0])

    @cached_property
    def estimator(self) -> FlipEstimator:
        return FlipEstimator(self.task, self.randomizer.lie_probability)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"lambda": float(2 * self.crowd.honest * self.randomizer.lie_probability)}

    @cached_property
    def curve(self) -> SymmetricCurve:
        honest, lie = self.crowd.honest, self.randomizer.lie_probability
        return SymmetricCurve(
            lambda epsilon: flip_delta(honest, lie, epsilon),
            self.local_epsilon,
            quick_at=lambda epsilon: edge_delta(honest, lie, epsilon),
        )

    @property
    def guarantee(self) -> Guarantee:
        computed = self.calibration == "exact"
        bound = BinaryResponse(self.crowd.honest)
        return promise(
            self,
            bound.method if computed else "Cheu, Smith, Ullman, Zeber, Zhilyaev 2019",
            delta=self._calibrated[1] if computed else self.budget.delta,
            exact=computed and bound.exact,
        )

    @property
    def local_epsilon(self) -> float:
        return self.randomizer.local_epsilon
