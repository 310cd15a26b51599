"""Two-sided geometric noise on a count, a sum or a mean (Ghosh, Roughgarden, Sundararajan 2012).

Notation    x_i is the number that person i holds, n is the number of people, the levels are 0, …, L
            (see `fixed_point`), and a = e^{−ε/L}. A count has L = 1.
Randomizer  People round their number to a level and send the level to the curator. They add no
            noise.
Analyzer    Add noise Z to the sum of all levels, where P(Z = z) = (1−a)/(1+a)·a^|z|. Z is sampled
            exactly, with ε/L as a rational number.
Privacy     Replacing one value changes the sum by at most L, and P(z)/P(z±L) ≤ e^ε. So the
            guarantee is pure ε-differential privacy. `accounting.geometric` computes the whole
            privacy curve.
Error       Unbiased. In squared levels, the variance of the noise is 2a/(1−a)² for all data. No
            ε-private count has a smaller variance. Real numbers are rounded to levels at random,
            without bias. There are so many levels that rounding adds less than one ten-thousandth
            of this variance, unless the sum of all levels would then exceed 2^60.
Messages    1 per person, to the curator. The local ε is infinite, so the curator must be trusted.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.geometric import listed_law, moved_steps_curve
from headcount.core.budget import Trust
from headcount.core.cached import cached_property
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.influence import Shifts
from headcount.core.messages import Alphabet
from headcount.core.promise import promise
from headcount.core.protocol import Protocol
from headcount.core.randomizer import MOST_BUNDLES
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task
from headcount.core.tasks.bounded import Mean, Sum
from headcount.core.tasks.count import Count
from headcount.protocols.disclosure import Disclosure
from headcount.protocols.fixed_point import Grid
from headcount.protocols.geometric_error import GeometricError
from headcount.protocols.levels import (
    MOST_SUM,
    NoisySum,
    Rounding,
    bounded,
    enough_levels,
    level_sum,
)
from headcount.randomness.discrete_laplace import discrete_laplace
from headcount.randomness.sources import SecureSource

_ROUNDING_SHARE = 2.0**-14  # rounding may add at most this share of the variance of the noise


@dataclass(frozen=True)
class CuratedSum(NoisySum):
    """Adds up all levels, and adds noise to the sum."""

    rate: Fraction  # ε/L

    tally_size = 1

    def count(self, payload: NDArray[np.integer]) -> NDArray[np.int64]:
        if self.grid.levels == 1:  # counting is many times faster than adding
            return np.array([np.count_nonzero(payload)])
        return np.array([payload.sum(dtype=np.int64)])

    def simulate_levels(self, held: Holding, source: Source) -> NDArray[np.int64]:
        return np.array([level_sum(held)])

    def level_sum(self, tally: Tally, source: Source | None) -> int:
        noise = discrete_laplace(source or SecureSource(), self.rate, 1)
        return int(tally.counts[0]) + int(noise[0])

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        # The curator's noise does not depend on the messages.
        return self.level_shifts(users, 0, self.grid.levels)

    def noise_error(self, users: int) -> GeometricError:
        return GeometricError(float(self.rate))

    def release_law(self, tally: Tally) -> Mapping[Any, Fraction] | None:
        most = tally.users * self.grid.levels
        return listed_law(int(tally.counts[0]), most, self.rate) if most <= MOST_BUNDLES else None


@dataclass(frozen=True)
class Geometric(Protocol):
    name = "central.geometric"
    trust = Trust.CENTRAL
    tasks: ClassVar[tuple[type[Task], ...]] = (Count, Sum, Mean)

    steps: ClassVar[int] = 1  # the number of smaller steps into which each level is divided
    method: ClassVar[str] = "two-sided geometric noise, sampled exactly"

    @cached_property
    def grid(self) -> Grid:
        task, users = bounded(self), self.crowd.users
        levels = enough_levels(task, users, self.budget.epsilon, _ROUNDING_SHARE)
        # Smaller steps are left out if the sum of all levels would exceed MOST_SUM. Then there are
        # many levels already, and smaller steps would make no difference.
        finer = levels * self.steps
        return Grid(task, finer if finer <= MOST_SUM // users else levels)

    @property
    def rate(self) -> Fraction:
        """The rate ε/L of the noise."""
        return Fraction(self.budget.epsilon) / self.grid.levels

    @cached_property
    def randomizer(self) -> Rounding:
        return Rounding(self.grid, Disclosure(self._levels_held))

    @property
    def _levels_held(self) -> Alphabet:
        """The levels that people can have."""
        levels = self.grid.levels
        if not self.grid.exact:
            return Alphabet.numbers(levels + 1)
        step = levels // int(self.grid.task.span)
        return Alphabet(np.min_scalar_type(levels).type, range(0, levels + 1, step))

    @cached_property
    def estimator(self) -> CuratedSum:
        return CuratedSum(self.task, self.grid, self.rate)

    @property
    def parameters(self) -> Mapping[str, float]:
        span, levels = self.grid.task.span, self.grid.levels
        return {"scale": float(span) / self.budget.epsilon, "levels": levels}

    @cached_property
    def curve(self) -> PrivacyCurve:
        return moved_steps_curve(float(self.rate), self.grid.levels)

    @property
    def guarantee(self) -> Guarantee:
        return promise(self, self.method)

    @property
    def local_epsilon(self) -> float:
        return math.inf
