"""Two-sided geometric noise on counts (Ghosh, Roughgarden, Sundararajan 2012).

Notation    x_i the value of person i, n people. ε1 = ε for a count, ε/2 for each bucket of a
            histogram, a = e^−ε1.
Randomizer  none: people hand the curator x_i as it is.
Analyzer    Each count + Z, with P(Z = z) = (1−a)/(1+a)·a^|z|, drawn exactly for the rational number
            that the float ε1 is.
Privacy     Replacing one value moves a count by at most 1, and P(z)/P(z±1) ≤ e^ε1; of a histogram
            it moves two buckets. So pure ε. The pair of views of one count has the curve of binary
            randomized response, HS_ε'(P‖Q) = (1 − e^{ε'−ε1})₊/(1+a), both ways.
Error       Unbiased; variance 2a/(1−a)² each, whatever the data. No ε-private count has less.
Messages    1, to somebody who must be trusted: local ε is infinite.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.buckets import MovedCurve
from headcount.accounting.divergence import PairCurve
from headcount.accounting.laws import UNIT, Law
from headcount.core.budget import Trust
from headcount.core.estimate import Answer
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.messages import Alphabet, Messages
from headcount.core.protocol import BundleLaw, Protocol
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Count, Histogram
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
    tasks = (Count, Histogram)
    fixed_messages = 1

    @property
    def _touched(self) -> int:
        """Of how many counts one person can change."""
        return 2 if isinstance(self.task, Histogram) else 1

    @property
    def _epsilon1(self) -> float:
        return self.budget.epsilon / self._touched  # exact: a power of two

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.numbers(self.task.domain)

    @property
    def tally_size(self) -> int:
        return self.task.domain

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"scale": 1 / self._epsilon1}

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
    def curve(self) -> PrivacyCurve:
        stay = 1 / (1 + math.exp(-self._epsilon1))
        move = 1 / (1 + math.exp(self._epsilon1))
        # Both are good to a few units; e^ε itself errs by ε units where ε is large.
        slack = (8 + 2 * self._epsilon1) * UNIT
        law = Law(0, np.array([stay, move]), slack)
        other = Law(0, law.mass[::-1], slack)
        if self._touched == 2:
            return MovedCurve(law, other)
        return PairCurve.both_directions(law, other)

    @property
    def messages_per_user(self) -> float:
        return 1.0

    @property
    def local_epsilon(self) -> float:
        return math.inf

    def law(self, value: int) -> BundleLaw:
        return {((value, 1),): Fraction(1)}

    def _standard_error(self, users: int, counts: NDArray[np.int64] | None) -> float:
        return GeometricError(self._epsilon1).standard_error

    def _randomize(self, encoded: NDArray[np.uint8], source: Source) -> Messages:
        return Messages.one_each(encoded)

    def _unbiased(self, tally: Tally, source: Source | None) -> Answer:
        source, epsilon1 = source or SecureSource(), Fraction(self._epsilon1)
        if isinstance(self.task, Histogram):
            noise = [discrete_laplace(source, epsilon1) for _ in tally.counts]
            return (tally.counts + noise).astype(np.float64)
        return float(int(tally.counts[1]) + discrete_laplace(source, epsilon1))

    def _error_law(self, users: int, value: Answer) -> GeometricError:
        return GeometricError(self._epsilon1)

    def _simulate(self, counts: NDArray[np.int64], source: Source) -> NDArray[np.int64]:
        return counts
