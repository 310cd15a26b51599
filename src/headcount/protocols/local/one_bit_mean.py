"""One bit for a number (Duchi, Jordan, Wainwright 2018).

Notation    x ∈ [low, high] a person's number, n people.
Randomizer  Round x to one of the two ends, at random and without bias; then randomized response.
Analyzer    low + (high−low)·(share of the upper end), estimated as in randomized response.
Privacy     That of `local.randomized-response`: pure ε for each person alone.
Error       With γ the half of (e^ε−1)/(e^ε+1), a number at f between the ends has the variance
            (¼−γ²)/(4γ²) + f(1−f): largest in the middle, where it is 1/(16γ²), times (high−low)².
Messages    1 of 1 bit.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headcount.core.budget import Trust
from headcount.core.cached import cached_property
from headcount.core.task import Count
from headcount.protocols.local.randomized_response import RandomizedResponse
from headcount.protocols.response_sum import CountedSum


@dataclass(frozen=True)
class OneBitMean(CountedSum):
    name = "local.one-bit-mean"
    trust = Trust.LOCAL
    _levels = 1

    @cached_property
    def _inner(self) -> RandomizedResponse:
        return RandomizedResponse(Count(), self.budget, self.crowd)

    @cached_property
    def _level_variances(self) -> NDArray[np.float64]:
        return np.full(2, self._inner.standard_error([0, 1]) ** 2)

    @property
    def _width(self) -> float:
        return 1 / float(1 - 2 * self._inner._lie_probability)
