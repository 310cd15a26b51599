"""Sums and means: people round their numbers to levels, and the analyzer adds up the levels.

See `fixed_point` for the notation, the rounding and the error.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.budget import MOST_USERS
from headcount.core.estimate import ErrorLaw
from headcount.core.estimator import Estimator, is_average
from headcount.core.influence import Shifts
from headcount.core.messages import Alphabet, Messages
from headcount.core.protocol import Protocol
from headcount.core.randomizer import BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding
from headcount.core.tasks.bounded import MOST_LEVELS, Bounded
from headcount.protocols.fixed_point import Grid, LevelNoise, RoundedError

MOST_SUM = 2**60  # the largest sum of all levels; a tally can hold this sum plus noise


@dataclass(frozen=True)
class Rounding(Randomizer):
    """Rounds a number to a level at random, and passes the level to another randomizer."""

    grid: Grid
    levels: Randomizer  # the randomizer that gets the level as its value

    @property
    def alphabet(self) -> Alphabet:
        return self.levels.alphabet

    @property
    def fixed_messages(self) -> int | None:
        return self.levels.fixed_messages

    @property
    def messages_per_user(self) -> float:
        return self.levels.messages_per_user

    @property
    def instructions(self) -> Mapping[str, Any] | None:
        then = self.levels.instructions
        if then is None:
            return None
        return {
            "kind": "rounding",
            "low": str(Fraction(self.grid.task.low)),
            "unit": str(self.grid.unit),
            "exact": self.grid.exact,
            "then": then,
        }

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        return self.levels.send(self.grid.round(encoded, source), source)

    def law(self, value: float) -> BundleLaw | None:
        out: dict[Any, Fraction] = {}
        for level, chance in self.grid.chances(value):
            law = self.levels.law(level)
            if law is None:
                return None
            for bundle, probability in law.items():
                out[bundle] = out.get(bundle, Fraction(0)) + chance * probability
        return out

    def overflow(self, slots: int) -> float:
        return self.levels.overflow(slots)

    def send_fitting(self, encoded: NDArray[Any], source: Source, slots: int) -> Messages:
        # The level decides how many messages are not noise, and so how much noise fits. Therefore
        # the level is drawn first.
        return self.levels.send_fitting(self.grid.round(encoded, source), source, slots)


@dataclass(frozen=True)
class LevelEstimator(Estimator):
    """Computes the answer from an estimate S of the sum of all levels."""

    grid: Grid

    @abstractmethod
    def level_sum(self, tally: Tally, source: Source | None) -> Fraction | int:
        """The unbiased estimate S."""

    @abstractmethod
    def variance(self, users: int, held: Holding | None) -> float:
        """The variance of S plus that of rounding, or its maximum if `held` is None."""

    @abstractmethod
    def simulate_levels(self, held: Holding, source: Source) -> NDArray[np.int64]:
        """The counts in a random tally of people who have these levels."""

    @property
    def most_users(self) -> int:
        return min(MOST_USERS, MOST_SUM // self.grid.levels)

    def unit(self, users: int) -> Fraction:
        """How much the answer changes if the sum of levels changes by one."""
        return self.grid.unit / self.grid.task.divisor(users)

    def unbiased(self, tally: Tally, source: Source | None = None) -> float:
        bounds, users = self.grid.task, tally.users
        base = Fraction(bounds.low) * users / bounds.divisor(users)
        return float(base + self.unit(users) * self.level_sum(tally, source))

    def level_shifts(self, users: int, least: float, most: float) -> Shifts:
        """The shifts of the answer if each message adds between `least` and `most` to S."""
        bounds, unit = self.grid.task, float(self.unit(users))
        low, high = bounds.answer_range(1)
        if is_average(bounds):
            low, high = 0.0, (high - low) / users
        return Shifts(unit * most, unit * least, person=low, honest=(low, high))

    def standard_error(self, users: int, held: Holding | None) -> float:
        return float(self.unit(users)) * math.sqrt(self.variance(users, held))

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        return self.simulate_levels(self.grid.rounded(held, source), source)


@dataclass(frozen=True)
class NoisySum(LevelEstimator):
    """Computes the answer from the sum of all levels plus noise."""

    @abstractmethod
    def noise_error(self, users: int) -> LevelNoise:
        """The law of the noise, in levels."""

    def variance(self, users: int, held: Holding | None) -> float:
        return self.noise_error(users).standard_error ** 2 + self.grid.variance(users, held)

    def error_law(self, users: int, unbiased: float) -> ErrorLaw:
        rounding = self.grid.variance(users, None)
        return RoundedError(self.noise_error(users), float(self.unit(users)), users, rounding)


def check_levels(protocol: Protocol, option: str, most: int = MOST_LEVELS) -> None:
    """If the option for the number of levels is set, check it and convert it to an int."""
    value = getattr(protocol, option)
    if value is not None:
        most = min(most, MOST_SUM // protocol.crowd.users)
        object.__setattr__(protocol, option, checks.whole(option, value, low=1, high=most))


def bounded(protocol: Protocol) -> Bounded:
    """The task that states the bounds of the numbers that a protocol adds up."""
    task = protocol.task.bounded
    assert task is not None
    return task


def level_sum(held: Holding) -> int:
    """The sum of all people's levels."""
    return int(held.values @ held.counts)


def enough_levels(task: Bounded, users: int, epsilon: float, share: float) -> int:
    """The number of levels for which rounding adds at most `share` times the variance of central
    noise. If this number is too large, the result is the largest allowed number.

    For L levels, the variance of central noise is 2L²/ε², in squared levels. If the task is about
    whole numbers, the levels are these numbers, unless there are too many of them.
    """
    most = min(MOST_LEVELS, MOST_SUM // users)
    if task.whole and task.span <= most:
        return int(task.span)
    return max(1, min(most, math.ceil(epsilon * math.sqrt(users / (8 * share)))))
