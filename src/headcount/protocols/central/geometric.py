"""Two-sided geometric noise on a count, a sum or a mean (Ghosh, Roughgarden, Sundararajan 2012).

Notation    x_i the number of person i, n people, L levels (see `fixed_point`; of a count, 1),
            a = e^{−ε/L}.
Randomizer  none but rounding: people hand the curator their level.
Analyzer    Sum of all levels + Z, with P(Z = z) = (1−a)/(1+a)·a^|z|, drawn exactly for the rational
            number that ε/L is.
Privacy     Replacing one value moves the sum by at most L, and P(z)/P(z±L) ≤ e^ε. So pure ε. The
            whole curve is that of noise moved by L steps: see `accounting.geometric`.
Error       Unbiased; variance 2a/(1−a)² in levels, whatever the data, and rounding. No ε-private
            count has less. Reals are rounded so finely that it adds a ten-thousandth.
Messages    1, to somebody who must be trusted: local ε is infinite.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.geometric import listed_law, moved_curve
from headcount.core.budget import Trust
from headcount.core.cached import cached_property
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.messages import Alphabet, Messages
from headcount.core.randomizer import MOST_BUNDLES, BundleLaw
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Bounded, Count, Holding, Mean, Sum, Task
from headcount.protocols.geometric_error import GeometricError
from headcount.protocols.level_protocol import MOST_SUM, NoisySum, enough_levels, level_sum
from headcount.randomness.discrete_laplace import discrete_laplace
from headcount.randomness.sources import SecureSource

_ROUNDING_SHARE = 2.0**-14  # of the variance


@dataclass(frozen=True)
class Geometric(NoisySum):
    name = "central.geometric"
    trust = Trust.CENTRAL
    tasks: ClassVar[tuple[type[Task], ...]] = (Count, Sum, Mean)
    tally_size = 1
    fixed_messages = 1

    steps: ClassVar[int] = 1  # into which the levels of whole numbers are divided
    method: ClassVar[str] = "two-sided geometric noise, sampled exactly"

    @cached_property
    def _bounds(self) -> Bounded:
        return Sum(0, 1, whole=True) if isinstance(self.task, Count) else super()._bounds

    @cached_property
    def _levels(self) -> int:
        users, epsilon = self.crowd.users, self.budget.epsilon
        found = enough_levels(self._bounds, users, epsilon, _ROUNDING_SHARE)
        # Finer steps make no difference where there are many levels already.
        return found * self.steps if found * self.steps <= MOST_SUM // users else found

    @cached_property
    def _rate(self) -> Fraction:
        return Fraction(self.budget.epsilon) / self._levels

    @property
    def alphabet(self) -> Alphabet:
        if not self.grid.exact:
            return Alphabet.numbers(self._levels + 1)
        step = self._levels // int(self._bounds.span)
        return Alphabet(np.min_scalar_type(self._levels).type, range(0, self._levels + 1, step))

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"scale": float(self._bounds.span) / self.budget.epsilon, "levels": self._levels}

    @property
    def guarantee(self) -> Guarantee:
        return self._promise(self.method)

    @cached_property
    def curve(self) -> PrivacyCurve:
        return moved_curve(float(self._rate), self._levels)

    @property
    def local_epsilon(self) -> float:
        return math.inf

    def _level_law(self, level: int) -> BundleLaw:
        return {((level, 1),): Fraction(1)}

    def _send(self, levels: NDArray[np.integer], source: Source) -> Messages:
        return Messages.one_each(levels.astype(self.alphabet.dtype, copy=False))

    def _tally(self, payload: NDArray[np.integer]) -> NDArray[np.int64]:
        if self._levels == 1:  # many times faster
            return np.array([np.count_nonzero(payload)])
        return np.array([payload.sum(dtype=np.int64)])

    def release_law(self, tally: Tally) -> Mapping[Any, Fraction] | None:
        most = tally.users * self._levels
        return listed_law(int(tally.counts[0]), most, self._rate) if most <= MOST_BUNDLES else None

    def _level_sum(self, tally: Tally, source: Source | None) -> int:
        return int(tally.counts[0]) + discrete_laplace(source or SecureSource(), self._rate)

    def _noise_error(self, users: int) -> GeometricError:
        return GeometricError(float(self._rate))

    def _simulate_levels(self, held: Holding, source: Source) -> NDArray[np.int64]:
        return np.array([level_sum(held)])
