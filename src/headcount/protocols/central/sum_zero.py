"""Geometric noise that adds up to 0 in a histogram (K-norm mechanism: Hardt, Talwar 2010).

Notation    There are n people, each in one of d buckets. Z_b is the noise of bucket b, and Z is the
            vector of all Z_b. x = e^−ε.
Randomizer  None. People send their bucket to the curator.
Analyzer    Add Z_b to the count of each bucket b. P(z) is proportional to e^{−(ε/2)·Σ|z_b|} for all
            vectors z that add up to 0. So the noisy counts add up to n. Z is sampled exactly (see
            `accounting.sum_zero`).
Privacy     A person who moves to another bucket changes two counts by 1 each, and the total stays
            the same. So the guarantee is pure ε-differential privacy. The privacy loss is ε, 0 or
            −ε, and the probability of each of these losses is known.
Error       Unbiased. The variance of a bucket is 2(d−1)/(d(d+1))·((1+x)·E[t] + xd)/(1−x), where t
            is the total that `accounting.sum_zero` defines. This is less than the variance of
            `central.geometric`, which adds independent noise and then corrects the total. For two
            buckets, it is at most half of that variance. The errors of any two buckets have the
            correlation −1/(d−1).
Messages    1 per person, to the curator. The local ε is infinite, so the curator must be trusted.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.sum_zero import SumZero
from headcount.core.bucket_sums import SumError, Weights, lattice_of, sum_of_zeros
from headcount.core.budget import Trust
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible
from headcount.core.estimate import Answer
from headcount.core.estimator import Estimator
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.influence import Shifts
from headcount.core.lattice import LatticeLaw
from headcount.core.messages import Alphabet
from headcount.core.promise import promise
from headcount.core.protocol import Protocol
from headcount.core.randomizer import MOST_BUNDLES
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task
from headcount.core.tasks.histogram import Histogram
from headcount.protocols.disclosure import Disclosure
from headcount.protocols.fixed_total import FixedTotalError
from headcount.protocols.geometric_error import GeometricError
from headcount.randomness.bucket_noise import SumZeroDraws
from headcount.randomness.sources import SecureSource

# For more buckets, the noise takes long to draw, and its error is practically the same as that of
# independent noise.
_MOST_BUCKETS = 2**16


@dataclass(frozen=True)
class SumZeroError(FixedTotalError):
    """The error of one bucket. The errors of all buckets add up to 0."""

    noise: SumZero

    @property
    def standard_error(self) -> float:
        return math.sqrt(self.noise.variance)

    def margins(self, confidence: float) -> tuple[float, float]:
        # If the law of one bucket takes too long to compute, the margins of independent noise are
        # used, which are wide enough.
        if self.noise.one is None:
            return GeometricError(float(self.noise.epsilon) / 2).margins(confidence)
        low, high = self.noise.one.central_interval(confidence)
        return float(-low), float(high)

    def lattice(self) -> LatticeLaw:
        if self.noise.one is None:
            law = GeometricError(float(self.noise.epsilon) / 2).lattice()
            return replace(law, exact=False)
        return self.noise.one.lattice(0)

    def summed(self, weights: Weights) -> SumError | None:
        law = lattice_of(GeometricError(float(self.noise.epsilon) / 2))
        return None if law.blur else sum_of_zeros(law, weights)


@dataclass(frozen=True)
class SumZeroBuckets(Estimator):
    """Counts the people in each bucket, and adds noise that adds up to 0."""

    noise: SumZero

    @property
    def tally_size(self) -> int:
        return self.task.domain

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        return held.counts

    @cached_property
    def _draws(self) -> SumZeroDraws:
        return SumZeroDraws(self.noise)

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        return (tally.counts + self._draws.draw(source or SecureSource())).astype(np.float64)

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        # The curator's noise does not depend on the messages.
        return Shifts(most=1.0, least=0.0)

    def release_law(self, tally: Tally) -> Mapping[Any, Fraction] | None:
        if not self.noise.can_list(tally.users, MOST_BUNDLES):
            return None
        return self.noise.listed(tuple(tally.counts.tolist()), tally.users)

    def standard_error(self, users: int, held: Holding | None) -> float:
        return self.error_law(users, None).standard_error

    def error_law(self, users: int, unbiased: Answer) -> SumZeroError:
        return SumZeroError(self.task.domain, self.noise)


@dataclass(frozen=True)
class SumZeroHistogram(Protocol):
    name = "central.sum-zero"
    trust = Trust.CENTRAL
    tasks: ClassVar[tuple[type[Task], ...]] = (Histogram,)

    @cached_property
    def noise(self) -> SumZero:
        buckets = self.task.domain
        if buckets > _MOST_BUCKETS:
            raise Infeasible(
                f"{self.name} must have at most {_MOST_BUCKETS} buckets, got {buckets}; "
                "for so many buckets, central.geometric has the same error"
            )
        return SumZero(Fraction(self.budget.epsilon), buckets)

    @cached_property
    def randomizer(self) -> Disclosure:
        return Disclosure(Alphabet.numbers(self.task.domain))

    @cached_property
    def estimator(self) -> SumZeroBuckets:
        return SumZeroBuckets(self.task, self.noise)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"scale": 2 / self.budget.epsilon}

    @cached_property
    def curve(self) -> PrivacyCurve:
        return self.noise.curve

    @property
    def guarantee(self) -> Guarantee:
        return promise(self, "geometric noise that adds up to 0, sampled exactly")

    @property
    def local_epsilon(self) -> float:
        return math.inf
