"""Two-sided geometric noise on every bucket of a histogram.

Notation    n people, each in one bucket; m steps make one person (here 1), a = e^{−ε/(2m)}.
Randomizer  none: people hand the curator their bucket.
Analyzer    Each count + Z/m, with P(Z = z) = (1−a)/(1+a)·a^|z|, drawn exactly for the rational
            number that ε/(2m) is.
Privacy     Replacing one value moves two counts by 1 each: pure ε. The curve is that of the pair of
            buckets: see `accounting.buckets`.
Error       Unbiased; variance 2a/(m(1−a))² each, whatever the data.
Messages    1, to somebody who must be trusted: local ε is infinite.
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
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.messages import Alphabet, Messages
from headcount.core.old_form import OldForm
from headcount.core.randomizer import MOST_BUNDLES, BundleLaw
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Histogram, Holding, Task
from headcount.protocols.fixed_point import RoundedError
from headcount.protocols.geometric_error import GeometricError
from headcount.randomness.discrete_laplace import discrete_laplace
from headcount.randomness.sources import SecureSource


@dataclass(frozen=True)
class GeometricHistogram(OldForm):
    name = "central.geometric"
    trust = Trust.CENTRAL
    tasks: ClassVar[tuple[type[Task], ...]] = (Histogram,)
    fixed_messages = 1

    steps: ClassVar[int] = 1
    method: ClassVar[str] = "two-sided geometric noise, sampled exactly"

    @cached_property
    def _rate(self) -> Fraction:
        return Fraction(self.budget.epsilon) / (2 * self.steps)

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.numbers(self.task.domain)

    @property
    def tally_size(self) -> int:
        return self.task.domain

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"scale": 2 / self.budget.epsilon}

    @property
    def guarantee(self) -> Guarantee:
        return self._promise(self.method)

    @cached_property
    def curve(self) -> PrivacyCurve:
        return MovedCurve(*moved_laws(float(self._rate), self.steps))

    @property
    def local_epsilon(self) -> float:
        return math.inf

    def law(self, value: int) -> BundleLaw:
        return {((value, 1),): Fraction(1)}

    def release_law(self, tally: Tally) -> Mapping[Any, Fraction] | None:
        most = tally.users * self.steps
        if (most + 1) ** self.task.domain > MOST_BUNDLES:
            return None
        every = [listed_law(int(c) * self.steps, most, self._rate) for c in tally.counts]
        return {
            outcome: math.prod(
                (law[z] for law, z in zip(every, outcome, strict=True)), start=Fraction(1)
            )
            for outcome in product(range(most + 1), repeat=self.task.domain)
        }

    def _standard_error(self, users: int, held: Holding | None) -> float:
        return self._error_law(users, None).standard_error

    def _error_law(self, users: int, value: Answer) -> RoundedError:
        return RoundedError(GeometricError(float(self._rate)), 1 / self.steps, users, 0.0)

    def _randomize(self, encoded: NDArray[np.integer], source: Source) -> Messages:
        return Messages.one_each(encoded)

    def _unbiased(self, tally: Tally, source: Source | None) -> Answer:
        source = source or SecureSource()
        noise = [discrete_laplace(source, self._rate) for _ in tally.counts]
        return (tally.counts * self.steps + noise).astype(np.float64) / self.steps

    def _simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        return held.counts
