"""Two-sided geometric noise on every box that people tick.

Notation    There are m boxes, and each person ticks at most k of them. Two values differ in up to
            s = min(2k, m) boxes, since each of the two may have k ticks that the other does not
            have. Let a = e^{−ε/s}.
Randomizer  None. People send their ticks to the curator.
Analyzer    Add noise Z to each count, where P(Z = z) = (1−a)/(1+a)·a^|z|. Z is sampled exactly.
Privacy     Replacing one value changes at most s counts by 1 each. The noise of each box is
            independent of the others, so the guarantee is pure ε-differential privacy. The privacy
            loss is (s − 2j)·ε/s with probability C(s,j)·p^{s−j}·(1−p)^j, where p = 1/(1+a).
Error       Unbiased. The variance of each box is 2a/(1−a)² for all data. `central.cube` has a
            smaller error for two boxes or more.
Messages    1 per person, to the curator. The local ε is infinite, so the curator must be trusted.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.geometric import listed_laws, moved_together_curve
from headcount.core.budget import Trust
from headcount.core.cached import cached_property
from headcount.core.errors import InvalidValue
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
from headcount.core.tasks.boxes import Boxes, box_counts, ticks_of
from headcount.protocols.disclosure import Disclosure
from headcount.protocols.geometric_error import GeometricError
from headcount.randomness.discrete_laplace import discrete_laplace
from headcount.randomness.sources import SecureSource


@dataclass(frozen=True)
class CountedBoxes(Estimator):
    """Counts the ticks of each box. A subclass adds the curator's noise."""

    task: Boxes

    @property
    def tally_size(self) -> int:
        return len(self.task.labels)

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        most = int(ticks_of(payload).max(initial=0))
        if most > self.task.at_most:
            raise InvalidValue(
                f"every message must have at most {self.task.at_most} ticks, got one with {most}"
            )
        return box_counts(payload, self.tally_size)

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        return box_counts(held.values, self.tally_size, held.counts)

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        most = self.task.at_most
        everywhere = 1 < self.tally_size == most
        return Shifts(most=1.0, least=0.0, places=(0, most), everywhere=everywhere)


@dataclass(frozen=True)
class GeometricCounts(CountedBoxes):
    """Adds independent noise to the ticks of each box."""

    rate: Fraction  # ε/s

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        source = source or SecureSource()
        noise = discrete_laplace(source, self.rate, len(tally.counts))
        return (tally.counts + noise).astype(np.float64)

    def release_law(self, tally: Tally) -> Mapping[Any, Fraction] | None:
        return listed_laws(tally.counts.tolist(), tally.users, self.rate, MOST_BUNDLES)

    def standard_error(self, users: int, held: Holding | None) -> float:
        return self.error_law(users, None).standard_error

    def error_law(self, users: int, unbiased: Answer) -> GeometricError:
        return GeometricError(float(self.rate))


@dataclass(frozen=True)
class GeometricBoxes(Protocol):
    name = "central.geometric"
    trust = Trust.CENTRAL
    tasks: ClassVar[tuple[type[Task], ...]] = (Boxes,)

    task: Boxes

    @property
    def rate(self) -> Fraction:
        """The rate ε/s of the noise."""
        return Fraction(self.budget.epsilon) / self.task.changed_boxes

    @cached_property
    def randomizer(self) -> Disclosure:
        return Disclosure(Alphabet.numbers(1 << len(self.task.labels)))

    @cached_property
    def estimator(self) -> GeometricCounts:
        return GeometricCounts(self.task, self.rate)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"scale": self.task.changed_boxes / self.budget.epsilon}

    @cached_property
    def curve(self) -> PrivacyCurve:
        return moved_together_curve(self.budget.epsilon, self.task.changed_boxes)

    @property
    def guarantee(self) -> Guarantee:
        return promise(self, "two-sided geometric noise, sampled exactly")

    @property
    def local_epsilon(self) -> float:
        return math.inf
