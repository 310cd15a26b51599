"""Windows of outputs around a level, for the piecewise and the hybrid mechanism.

See `local.piecewise-mean` for the notation, the law and the error.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.core.budget import Trust
from headcount.core.cached import cached_property
from headcount.core.guarantee import Guarantee
from headcount.core.promise import promise_alone
from headcount.core.protocol import Protocol
from headcount.core.source import Source
from headcount.core.task import Holding, Task
from headcount.core.tasks.bounded import Bounded, Mean, Sum
from headcount.protocols.fixed_point import Grid
from headcount.protocols.level_responses import MOST_RESPONSES
from headcount.protocols.levels import MOST_SUM, bounded, check_levels
from headcount.protocols.responses import ratio_epsilon, share_weight
from headcount.randomness.draws import WHOLE, bernoulli, uniform
from headcount.randomness.totals import binomial, uniform_sum

# The smallest default number of levels, except for whole numbers in a smaller range. With this many
# levels, an output fits into a byte.
_LEAST_LEVELS = 2**7
# The default number of levels makes the variance of responses at least this many times the variance
# of rounding, unless this would take more than the allowed number of levels.
_RESPONSE_TO_ROUNDING = 1000


def paper_window(levels: int, epsilon: float) -> int:
    """The window size that the paper of the piecewise mechanism recommends."""
    return max(1, round(levels * math.exp(-epsilon / 2)))


def window_variances(
    levels: int, epsilon: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each window size from 1 to L, the probability β and the variance at levels 0 and L."""
    window = np.arange(1.0, levels + 1)
    outputs, gain = levels + window, window * math.expm1(epsilon)
    blind, seen = outputs / (outputs + gain), gain / (outputs + gain)
    spread = (seen * (window**2 - 1) + blind * (outputs**2 - 1)) / 12
    return blind, spread / seen**2 + levels**2 / 4 * (blind / seen)


def enough_windows(task: Bounded, users: int, epsilon: float) -> int:
    """A number of levels that makes the variance of rounding negligible, up to a maximum.

    For whole numbers, the result is at most high − low, because with that many levels every number
    is a level.
    """
    most = min(MOST_RESPONSES, MOST_SUM // (2 * users))
    levels = _LEAST_LEVELS
    while levels < most and window_variances(levels, epsilon)[1].min() < _RESPONSE_TO_ROUNDING / 4:
        levels *= 2
    return min(levels, int(task.span)) if task.whole else levels


@dataclass(frozen=True)
class Windows:
    """The response law in which each level has a window of W outputs."""

    levels: int
    size: int
    epsilon: float

    @property
    def outputs(self) -> int:
        """The number T of outputs."""
        return self.levels + self.size

    @cached_property
    def weight(self) -> int:
        """The smallest b with 1 + (2^64−b)T/(bW) ≤ e^ε, which is ⌈2^64·T/(T + W(e^ε−1))⌉."""
        return share_weight(self.outputs, self.size, self.levels, self.epsilon)

    @property
    def blind(self) -> Fraction:
        """The probability β of an output that does not depend on the level."""
        return Fraction(self.weight, WHOLE)

    @property
    def parameters(self) -> Mapping[str, float]:
        blind = float(self.blind)
        return {"levels": self.levels, "window": self.size, "blind_probability": blind}

    @property
    def local_epsilon(self) -> float:
        excess = Fraction((WHOLE - self.weight) * self.outputs, self.weight * self.size)
        return ratio_epsilon(excess)

    @property
    def ends(self) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
        """The laws of the response for the levels 0 and L.

        Each law has three probabilities: of the window of level 0, of the window of level L, and of
        all other outputs. If two levels are at a distance d, the window of each has min(d, W)
        outputs that the other lacks. All other outputs have the same probability for both levels.
        So divergences grow with d, and they are largest for the levels 0 and L.
        """
        other = self.blind * self.size / self.outputs
        own, neither = 1 - self.blind + other, self.blind - 2 * other
        return (own, other, neither), (other, own, neither)

    def law(self, level: int) -> dict[int, Fraction]:
        outside = self.blind / self.outputs
        inside = outside + (1 - self.blind) / self.size
        window = range(level, level + self.size)
        return {out: inside if out in window else outside for out in range(self.outputs)}

    @cached_property
    def variances(self) -> NDArray[np.float64]:
        """The variance of a response for each level from 0 to L, in squared levels."""
        blind, seen = float(self.blind), float(1 - self.blind)
        spread = (seen * (self.size**2 - 1) + blind * (self.outputs**2 - 1)) / 12
        away = np.arange(0.0, self.levels + 1) - self.levels / 2
        return spread / seen**2 + away**2 * (blind / seen)

    @property
    def width(self) -> float:
        return (self.outputs - 1) / float(1 - self.blind)

    def respond(self, levels: NDArray[np.integer], source: Source) -> NDArray[np.int64]:
        """Random outputs of people who have these levels."""
        blind = bernoulli(source, len(levels), self.weight).view(np.bool_)
        seeing, blinded = np.flatnonzero(~blind), np.flatnonzero(blind)
        out = levels.astype(np.int64)
        out[seeing] += uniform(source, len(seeing), self.size).astype(np.int64)
        out[blinded] = uniform(source, len(blinded), self.outputs)
        return out

    @property
    def instructions(self) -> Mapping[str, Any]:
        """The numbers that other programs need to draw outputs with the same law."""
        return {
            "outputs": self.outputs,
            "window": self.size,
            "weight": str(self.weight),
        }

    def level_sum(self, outputs: int, people: int) -> Fraction:
        """The estimate S for this number of people, from the sum of their outputs."""
        apart = people * ((self.size - 1) * WHOLE + self.weight * self.levels)
        return Fraction(2 * outputs * WHOLE - apart, 2 * (WHOLE - self.weight))

    def simulate(self, held: Holding, source: Source) -> int:
        """A simulated sum of all outputs."""
        blind = [int(binomial(source, n, self.blind)[0]) for n in held.counts.tolist()]
        seen = held.counts - np.array(blind, dtype=np.int64)
        inside = uniform_sum(source, int(seen.sum()), self.size)
        return int(held.values @ seen) + inside + uniform_sum(source, sum(blind), self.outputs)


@dataclass(frozen=True)
class WindowedMean(Protocol):
    """A local protocol in which people often respond with an output near their level."""

    trust = Trust.LOCAL
    tasks: ClassVar[tuple[type[Task], ...]] = (Sum, Mean)

    levels: int | None = None  # the number of levels; by default enough to make rounding negligible

    def check_options(self) -> None:
        check_levels(self, "levels", MOST_RESPONSES)

    @cached_property
    def grid(self) -> Grid:
        task, users = bounded(self), self.crowd.users
        return Grid(task, self.levels or enough_windows(task, users, self.budget.epsilon))

    @property
    def guarantee(self) -> Guarantee:
        return promise_alone(self)
