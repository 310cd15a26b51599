"""Two-sided geometric noise on every bucket of a histogram.

Notation    n people, each in one bucket. The noise has m steps per person (here m = 1), and
            a = e^{−ε/(2m)}.
Randomizer  None: people send their bucket to the curator.
Analyzer    Each count + Z/m, with P(Z = z) = (1−a)/(1+a)·a^|z|. Z is drawn exactly, with ε/(2m) as
            a rational number.
Privacy     Replacing one value changes two counts by 1 each, so the guarantee is pure ε.
            `accounting.buckets` computes the privacy curve of these two buckets.
Error       Unbiased. The variance of each bucket is 2a/(m(1−a))² for all data.
Messages    1, to a curator who must be trusted: the local ε is infinite.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.buckets import MovedCurve
from headcount.accounting.geometric import listed_law, moved_laws
from headcount.core.budget import Trust
from headcount.core.cached import cached_property
from headcount.core.estimate import Answer
from headcount.core.estimator import Estimator
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.influence import Shifts
from headcount.core.messages import Alphabet
from headcount.core.promise import promise
from headcount.core.protocol import Protocol
from headcount.core.randomizer import MOST_BUNDLES
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task
from headcount.core.tasks.histogram import Histogram
from headcount.protocols.disclosure import Disclosure
from headcount.protocols.fixed_point import RoundedError
from headcount.protocols.geometric_error import GeometricError
from headcount.randomness.discrete_laplace import discrete_laplace
from headcount.randomness.sources import SecureSource


@dataclass(frozen=True)
class CuratedBuckets(Estimator):
    """Counts buckets, and adds noise to every count."""

    rate: Fraction  # ε/(2m)
    steps: int  # m

    @property
    def tally_size(self) -> int:
        return self.task.domain

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        return held.counts

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        source = source or SecureSource()
        noise = discrete_laplace(source, self.rate, len(tally.counts))
        return (tally.counts * self.steps + noise).astype(np.float64) / self.steps

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        return Shifts(most=1.0, least=0.0)  # the noise is the curator's

    def release_law(self, tally: Tally) -> Mapping[Any, Fraction] | None:
        most = tally.users * self.steps
        if (most + 1) ** self.task.domain > MOST_BUNDLES:
            return None
        every = [listed_law(int(c) * self.steps, most, self.rate) for c in tally.counts]
        return {
            outcome: math.prod(
                (law[z] for law, z in zip(every, outcome, strict=True)), start=Fraction(1)
            )
            for outcome in product(range(most + 1), repeat=self.task.domain)
        }

    def standard_error(self, users: int, held: Holding | None) -> float:
        return self.error_law(users, None).standard_error

    def error_law(self, users: int, unbiased: Answer) -> RoundedError:
        return RoundedError(GeometricError(float(self.rate)), 1 / self.steps, users, 0.0)


@dataclass(frozen=True)
class GeometricHistogram(Protocol):
    name = "central.geometric"
    trust = Trust.CENTRAL
    tasks: ClassVar[tuple[type[Task], ...]] = (Histogram,)

    steps: ClassVar[int] = 1
    method: ClassVar[str] = "two-sided geometric noise, sampled exactly"

    @property
    def rate(self) -> Fraction:
        """The rate ε/(2m) of the noise."""
        return Fraction(self.budget.epsilon) / (2 * self.steps)

    @cached_property
    def randomizer(self) -> Disclosure:
        return Disclosure(Alphabet.numbers(self.task.domain))

    @cached_property
    def estimator(self) -> CuratedBuckets:
        return CuratedBuckets(self.task, self.rate, self.steps)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"scale": 2 / self.budget.epsilon}

    @cached_property
    def curve(self) -> PrivacyCurve:
        return MovedCurve.of(*moved_laws(float(self.rate), self.steps))

    @property
    def guarantee(self) -> Guarantee:
        return promise(self, self.method)

    @property
    def local_epsilon(self) -> float:
        return math.inf
