"""Two-sided geometric noise on a count (Ghosh, Roughgarden, Sundararajan 2012).

Notation    x_i ∈ {0,1} the value of person i, n people, a = e^−ε.
Randomizer  none: people hand the curator x_i as it is.
Analyzer    Σ x_i + Z, with P(Z = z) = (1−a)/(1+a)·a^|z|, drawn exactly for the rational number that
            the float ε is.
Privacy     Replacing one value moves the sum by at most 1, and P(z)/P(z±1) ≤ e^ε: pure ε. The pair
            of neighboring views has the curve of binary randomized response,
            HS_ε'(P‖Q) = (1 − e^{ε'−ε})₊/(1+a), both ways.
Error       Unbiased; variance 2a/(1−a)², whatever the data. No ε-private count has less.
Messages    1 of 1 bit, to somebody who must be trusted: local ε is infinite.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.accounting.divergence import PairCurve
from headcount.accounting.laws import UNIT, Law
from headcount.core.budget import Trust
from headcount.core.guarantee import Guarantee
from headcount.core.messages import Alphabet, Messages
from headcount.core.protocol import BundleLaw, Protocol
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Count
from headcount.randomness.discrete_laplace import discrete_laplace
from headcount.randomness.sources import SecureSource


@dataclass(frozen=True)
class GeometricError:
    """The law of two-sided geometric noise of the given ε."""

    epsilon: float

    @property
    def standard_error(self) -> float:
        # √(2a)/(1−a) = 1/(√2·sinh(ε/2)), which does not cancel for small ε.
        return 1 / (math.sqrt(2) * math.sinh(self.epsilon / 2))

    def margins(self, confidence: float) -> tuple[float, float]:
        # P(|Z| > m) = 2a^{m+1}/(1+a) ≤ 1 − confidence.
        allowed = (1 - confidence) * (1 + math.exp(-self.epsilon)) / 2
        margin = max(0, math.ceil(-math.log(allowed) / self.epsilon - 1))
        return float(margin), float(margin)


@dataclass(frozen=True)
class Geometric(Protocol):
    name = "central.geometric"
    trust = Trust.CENTRAL
    tasks = (Count,)
    alphabet = Alphabet(np.uint8, range(2))
    tally_size = 1
    fixed_messages = 1

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"scale": 1 / self.budget.epsilon}

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(
            epsilon=self.budget.epsilon,
            delta=0.0,
            trust=self.trust,
            exact=True,
            method="two-sided geometric noise, sampled exactly",
            honest=self.crowd.honest,
        )

    @cached_property
    def curve(self) -> PairCurve:
        stay = 1 / (1 + math.exp(-self.budget.epsilon))
        move = 1 / (1 + math.exp(self.budget.epsilon))
        # Both are good to a few units; e^ε itself errs by ε units where ε is large.
        slack = (8 + 2 * self.budget.epsilon) * UNIT
        law = Law(0, np.array([stay, move]), slack)
        return PairCurve.both_directions(law, Law(0, law.mass[::-1], slack))

    @property
    def messages_per_user(self) -> float:
        return 1.0

    @property
    def local_epsilon(self) -> float:
        return math.inf

    def law(self, value: int) -> BundleLaw:
        return {(value,): Fraction(1)}

    def standard_error(self, counts: ArrayLike | None = None) -> float:
        if counts is not None:
            self.task.check_counts(counts)
        return self._error_law(self.crowd.users).standard_error

    def _randomize(self, encoded: NDArray[np.uint8], source: Source) -> Messages:
        return Messages.one_each(encoded)

    def _tally(self, payload: NDArray[np.uint8], users: int) -> NDArray[np.int64]:
        return np.array([np.count_nonzero(payload)])

    def _unbiased(self, tally: Tally, source: Source | None) -> float:
        noise = discrete_laplace(source or SecureSource(), Fraction(self.budget.epsilon))
        return float(int(tally.counts[0]) + noise)

    def _error_law(self, users: int) -> GeometricError:
        return GeometricError(self.budget.epsilon)

    def _simulate(self, counts: NDArray[np.int64], source: Source) -> NDArray[np.int64]:
        return counts[1:]
