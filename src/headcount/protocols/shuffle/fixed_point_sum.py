"""The sum of numbers, with one message from each person (Balle, Bell, Gascón, Nissim 2019).

Notation    The levels are 0, …, k (see `fixed_point`). n is the number of people; h of them are
            honest. γ is the probability of a uniform message. ε0 is the ε of the local response.
Randomizer  Report the person's level, or with probability γ a uniform level among all k + 1. This
            is k-ary randomized response with ε0 = ln(1 + (1−γ)(k+1)/γ).
Analyzer    The estimate of the sum of all levels is S = (Σy − nγk/2)/(1−γ) over the reports y.
Privacy     The privacy of k-ary response with a shuffler. The privacy blanket gives an upper bound
            on δ. For k = 1, δ is that of binary response, which is exact for up to 10,000 honest
            people (see `accounting.amplification`).
            With `calibration="paper"`, γ = (k+1)·max(14 ln(2/δ)/ε², 27/ε)/(h−1).
Error       A person at level j adds γ(k(k+2)/12 + (1−γ)(j−k/2)²)/(1−γ)² to the variance of S. With
            more levels, rounding adds less error, but more messages must be uniform, which adds
            noise. By default, k minimizes the total error, and k is about (n/c)^{1/3}, where
            c = nγ/(k+1) is the expected number of uniform messages per level. The error then grows
            like n^{1/6}, which is the best rate for one message per person.
Messages    1 message, which is one of k + 1 levels. If the shuffler and the analyzer collude, the
            privacy loss is ε0.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.amplification import Amplification, BinaryResponse, Blanket
from headcount.accounting.divergence import SymmetricCurve
from headcount.core.budget import MOST_EPSILON, Budget, Trust
from headcount.core.cached import cached_property
from headcount.core.guarantee import Guarantee
from headcount.core.promise import paper_is_not_private, promise
from headcount.core.protocol import Calibration, Protocol
from headcount.core.task import Task
from headcount.core.tasks.bounded import Mean, Sum
from headcount.core.tasks.histogram import MOST_BUCKETS, Histogram
from headcount.protocols.fixed_point import Grid
from headcount.protocols.level_responses import CountedLevels
from headcount.protocols.levels import MOST_SUM, Rounding, bounded, check_levels
from headcount.protocols.registry import protocol

_STEPS = 6  # the largest number of steps of the search for the best number of levels
_FEW = 64  # with at most this many levels, one level more or less matters


def _variances(levels: int, blind: float) -> NDArray[np.float64]:
    """The variance that a person at each level adds to S, with γ = `blind`."""
    away = np.square(np.arange(levels + 1) - levels / 2)
    noise: NDArray[np.float64] = levels * (levels + 2) / 12 + (1 - blind) * away
    return noise * (blind / (1 - blind) ** 2)


def _amplification(honest: int, levels: int) -> Amplification:
    return BinaryResponse(honest) if levels == 1 else Blanket.k_ary(honest, levels + 1)


def _coins(budget: Budget) -> float:
    """The expected number of uniform messages per level in the paper."""
    return max(14 * math.log(2 / budget.delta) / budget.epsilon**2, 27 / budget.epsilon)


@lru_cache(maxsize=256)
def _calibrate(
    honest: int, budget: Budget, levels: int, calibration: Calibration
) -> tuple[float, float] | None:
    """An ε0 whose δ is within the budget, and this δ; None if the paper's ε0 has a larger δ."""
    bound = _amplification(honest, levels)
    if calibration == "exact":
        local_epsilon = min(bound.local_epsilon(budget.epsilon, budget.delta), MOST_EPSILON)
    else:
        gamma = (levels + 1) * _coins(budget) / max(honest - 1, 1)
        if gamma >= 1:
            return None
        local_epsilon = math.log1p((1 - gamma) * (levels + 1) / gamma)
    delta = bound.delta(local_epsilon, budget.epsilon)
    return (local_epsilon, delta) if delta <= budget.delta else None


@dataclass(frozen=True)
class FixedPointSum(Protocol):
    name = "shuffle.fixed-point-sum"
    trust = Trust.SHUFFLE
    tasks: ClassVar[tuple[type[Task], ...]] = (Sum, Mean)

    levels: int | None = None  # the number of levels; the default has the least error

    def check_options(self) -> None:
        check_levels(self, "levels", MOST_BUCKETS - 1)

    @cached_property
    def grid(self) -> Grid:
        task = bounded(self)
        if self.levels is not None:
            return Grid(task, self.levels)
        if self.calibration == "paper" and self.budget.delta:
            levels = math.ceil(math.cbrt(self.crowd.honest / _coins(self.budget)))
        else:
            levels = self._best()
        return Grid(task, min(levels, int(task.span)) if task.whole else levels)

    def _best(self) -> int:
        """The number of levels with the smallest error.

        The number of uniform messages per level is about the same for all numbers of levels, so a
        few steps are enough.
        """
        most = min(MOST_BUCKETS - 1, MOST_SUM // self.crowd.users)
        tried: dict[int, float] = {}
        levels = 1
        while levels not in tried and len(tried) < _STEPS:
            candidate = replace(self, levels=levels)
            tried[levels] = candidate.standard_error()
            # Here nγ = c(k+1), where c is `coins`. The error is largest for numbers between an end
            # of the range and the next level (see `level_responses`).
            coins = self.crowd.users * candidate.blind / (levels + 1)
            k = np.arange(1, 2 + math.ceil(math.cbrt(6 * self.crowd.users / coins)))
            k = k[(coins * (k + 1) < self.crowd.users) & (k <= most)]
            blind = coins * (k + 1) / self.crowd.users
            end = blind * (k * (k + 2) / 12 + (1 - blind) * k**2 / 4) / (1 - blind) ** 2
            fall = blind * (k - 1) / (1 - blind)
            worst = (end + np.maximum(1 - fall, 0) ** 2 / 4) / k**2
            levels = int(k[worst.argmin()])

        def error(levels: int) -> float:
            if levels not in tried:
                tried[levels] = replace(self, levels=levels).standard_error()
            return tried[levels]

        # In a small crowd, the number of uniform messages per level varies more, and the best
        # number of levels may be a few levels away from the number found so far.
        best = min(tried, key=error)
        for step in (1, -1) * _STEPS:
            if 1 <= best + step <= min(most, _FEW) and error(best + step) < error(best):
                best += step
        # If each whole number is a level, nothing is rounded.
        task = bounded(self)
        span = int(task.span)
        near = task.whole and span <= min(most, 2 * best)
        return min(best, span, key=error) if near else best

    @cached_property
    def _calibrated(self) -> tuple[float, float]:
        calibrated = None
        if self.calibration == "exact" or self.budget.delta:
            levels = self.grid.levels
            calibrated = _calibrate(self.crowd.honest, self.budget, levels, self.calibration)
        if calibrated is None:
            raise paper_is_not_private(self)
        return calibrated

    @cached_property
    def response(self) -> Protocol:
        """The local protocol with which people report their level."""
        levels = Histogram(self.grid.levels + 1)
        return protocol("local.k-ary", levels, Budget(self._calibrated[0]), self.crowd)

    @property
    def blind(self) -> float:
        """The probability γ of a uniform message."""
        levels = self.grid.levels
        return self.response.parameters["lie_probability"] * (levels + 1) / levels

    @cached_property
    def randomizer(self) -> Rounding:
        return Rounding(self.grid, self.response.randomizer)

    @cached_property
    def estimator(self) -> CountedLevels:
        levels, blind, counts = self.grid.levels, self.blind, self.response.estimator
        variances, largest_step = _variances(levels, blind), levels / (1 - blind)
        return CountedLevels(self.task, self.grid, counts, variances, largest_step)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {
            "levels": self.grid.levels,
            "gamma": self.blind,
            "local_epsilon": self._calibrated[0],
        }

    @cached_property
    def curve(self) -> SymmetricCurve:
        # The response rounds its probabilities so that its privacy loss is at most ε0.
        local_epsilon, bound = self._calibrated[0], self._amplification
        return SymmetricCurve(lambda epsilon: bound.delta(local_epsilon, epsilon), local_epsilon)

    @property
    def guarantee(self) -> Guarantee:
        computed, bound = self.calibration == "exact", self._amplification
        return promise(
            self,
            bound.method if computed else "Balle, Bell, Gascón and Nissim 2019",
            delta=self._calibrated[1] if computed else self.budget.delta,
            exact=computed and bound.exact,
        )

    @property
    def _amplification(self) -> Amplification:
        return _amplification(self.crowd.honest, self.grid.levels)

    @property
    def local_epsilon(self) -> float:
        return self.response.local_epsilon
