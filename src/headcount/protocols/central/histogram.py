"""Two-sided geometric noise on every bucket of a histogram.

Notation    There are n people, each in one bucket. The noise is a multiple of 1/m. m is 1 for
            geometric noise, and 1024 for the Laplace noise of `laplace_histogram`. a = e^{−ε/(2m)}.
Randomizer  None. People send their bucket to the curator.
Analyzer    Add Z/m to each count, where P(Z = z) = (1−a)/(1+a)·a^|z|. Z is sampled exactly, with
            ε/(2m) as a rational number. Then correct the total: divide its excess over n by the
            number d of buckets, and subtract the result from each estimate (see `known_total`).
Privacy     Replacing one value changes two counts by 1 each, so the guarantee is pure
            ε-differential privacy. `accounting.buckets` computes the privacy curve from the laws of
            these two noisy counts.
Error       Unbiased. The variance of each bucket is 2a/(m(1−a))²·(1 − 1/d) for all data.
Messages    1 per person, to the curator. The local ε is infinite, so the curator must be trusted.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.buckets import MovedCurve
from headcount.accounting.geometric import listed_laws, moved_laws
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
from headcount.protocols.geometric_error import GeometricError
from headcount.protocols.known_total import (
    KnownTotalError,
    known_total_shifts,
    with_known_total,
)
from headcount.randomness.discrete_laplace import discrete_laplace
from headcount.randomness.sources import SecureSource


@dataclass(frozen=True)
class CuratedBuckets(Estimator):
    """Counts people in buckets, adds noise to every count, and makes the total equal to n."""

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
        noisy = (tally.counts * self.steps + noise).astype(np.float64) / self.steps
        return with_known_total(noisy, tally.users)

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        # The curator's noise does not depend on the messages.
        return known_total_shifts(self.task.domain)

    def release_law(self, tally: Tally) -> Mapping[Any, Fraction] | None:
        levels = (tally.counts * self.steps).tolist()
        return listed_laws(levels, tally.users * self.steps, self.rate, MOST_BUNDLES)

    def standard_error(self, users: int, held: Holding | None) -> float:
        return self.error_law(users, None).standard_error

    def error_law(self, users: int, unbiased: Answer) -> KnownTotalError:
        noise = GeometricError(float(self.rate))
        return KnownTotalError(self.task.domain, noise, 1 / self.steps)


@dataclass(frozen=True)
class GeometricHistogram(Protocol):
    name = "central.geometric"
    trust = Trust.CENTRAL
    tasks: ClassVar[tuple[type[Task], ...]] = (Histogram,)

    steps: ClassVar[int] = 1  # m
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
