"""One bit for a number (Duchi, Jordan, Wainwright 2018).

Notation    x ∈ [low, high] is a person's number, and n is the number of people.
Randomizer  Round x at random, and without bias, to low or high. Then apply randomized response.
Analyzer    Estimate the share s of people whose number was rounded to high, as in randomized
            response. The estimated mean is low + (high−low)·s.
Privacy     The privacy of `local.randomized-response`: each report is ε-private.
Error       Let γ be half of (e^ε−1)/(e^ε+1), and f = (x−low)/(high−low). The variance per person is
            (high−low)²·((¼−γ²)/(4γ²) + f(1−f)). It is largest for f = ½, where it is
            (high−low)²/(16γ²).
Messages    1 message of 1 bit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from headcount.core.budget import Trust
from headcount.core.cached import cached_property
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.protocol import Protocol
from headcount.core.task import Task
from headcount.core.tasks.bounded import Mean, Sum
from headcount.core.tasks.count import Count
from headcount.protocols.fixed_point import Grid
from headcount.protocols.level_responses import CountedLevels
from headcount.protocols.levels import Rounding, bounded
from headcount.protocols.local.randomized_response import RandomizedResponse


@dataclass(frozen=True)
class OneBitMean(Protocol):
    name = "local.one-bit-mean"
    trust = Trust.LOCAL
    tasks: ClassVar[tuple[type[Task], ...]] = (Sum, Mean)

    @cached_property
    def grid(self) -> Grid:
        return Grid(bounded(self), 1)

    @cached_property
    def response(self) -> RandomizedResponse:
        """The protocol by which people report whether their number was rounded to low or high."""
        return RandomizedResponse(Count(), self.budget, self.crowd)

    @cached_property
    def randomizer(self) -> Rounding:
        return Rounding(self.grid, self.response.randomizer)

    @cached_property
    def estimator(self) -> CountedLevels:
        variance = self.response.standard_error([0, 1]) ** 2
        slope = 1 - 2 * self.response.randomizer.lie_probability
        counts = self.response.estimator
        return CountedLevels(self.task, self.grid, counts, np.full(2, variance), float(1 / slope))

    @property
    def parameters(self) -> Mapping[str, float]:
        return self.response.parameters

    @property
    def curve(self) -> PrivacyCurve:
        return self.response.curve

    @property
    def guarantee(self) -> Guarantee:
        return self.response.guarantee

    @property
    def local_epsilon(self) -> float:
        return self.response.local_epsilon
