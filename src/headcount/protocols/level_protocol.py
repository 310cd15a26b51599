"""Protocols for sums and means: numbers are rounded to levels, and a protocol adds these up.

See `fixed_point` for the notation, the rounding and the error.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.budget import MOST_USERS, Crowd
from headcount.core.cached import cached_property
from headcount.core.messages import Messages
from headcount.core.old_form import OldForm
from headcount.core.randomizer import BundleLaw
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import MOST_LEVELS, Bounded, Holding, Mean, Sum, Task
from headcount.protocols.fixed_point import Grid, RoundedError
from headcount.protocols.geometric_error import GeometricError

MOST_SUM = 2**60  # of all levels: what a tally holds with room for noise


@dataclass(frozen=True)
class LevelProtocol(OldForm):
    """A protocol for the sum of levels; a subclass says how many, and what is sent for one."""

    tasks: ClassVar[tuple[type[Task], ...]] = (Sum, Mean)

    def __post_init__(self) -> None:
        # An option may say how many levels there are, and the check of a crowd asks for them.
        if isinstance(self.crowd, Crowd):
            self._check_options()
        super().__post_init__()

    def _check_options(self) -> None:
        """Refuse what is no number of levels, and keep it as a plain one.

        Asked before the task and the budget are looked at; the crowd is one.
        """
        return

    def _keep_levels(self, option: str, most: int = MOST_LEVELS) -> None:
        """Check an option that says how many levels there are, if it is given."""
        value = getattr(self, option)
        if value is not None:
            most = min(most, MOST_SUM // self.crowd.users)
            object.__setattr__(self, option, checks.whole(option, value, low=1, high=most))

    @property
    @abstractmethod
    def _levels(self) -> int:
        """The number L."""

    @abstractmethod
    def _level_law(self, level: int) -> BundleLaw | None:
        """The law of a bundle for a level."""

    @abstractmethod
    def _send(self, levels: NDArray[np.integer], source: Source) -> Messages:
        """People's messages for their levels."""

    @abstractmethod
    def _level_sum(self, tally: Tally, source: Source | None) -> Fraction | int:
        """The unbiased estimate S."""

    @abstractmethod
    def _variance(self, users: int, held: Holding | None) -> float:
        """That of S, rounding included; without values, for the worst ones."""

    @abstractmethod
    def _simulate_levels(self, held: Holding, source: Source) -> NDArray[np.int64]:
        """A tally's counts, for people who have such levels."""

    # What follows from it ---------------------------------------------------------------------

    @cached_property
    def grid(self) -> Grid:
        return Grid(self._bounds, self._levels)

    @property
    def _bounds(self) -> Bounded:
        assert isinstance(self.task, Bounded)
        return self.task

    @property
    def most_users(self) -> int:
        return min(MOST_USERS, MOST_SUM // self._levels)

    def _unit(self, users: int) -> Fraction:
        """What one level is in the answer."""
        return self.grid.unit / (users if isinstance(self.task, Mean) else 1)

    def law(self, value: float) -> BundleLaw | None:
        out: dict[Any, Fraction] = {}
        for level, chance in self.grid.chances(value):
            law = self._level_law(level)
            if law is None:
                return None
            for bundle, probability in law.items():
                out[bundle] = out.get(bundle, Fraction(0)) + chance * probability
        return out

    def _standard_error(self, users: int, held: Holding | None) -> float:
        return float(self._unit(users)) * math.sqrt(self._variance(users, held))

    def _randomize(self, encoded: NDArray[Any], source: Source) -> Messages:
        return self._send(self.grid.round(encoded, source), source)

    def _unbiased(self, tally: Tally, source: Source | None) -> float:
        users = tally.users
        share = users if isinstance(self.task, Mean) else 1
        base = Fraction(self._bounds.low) * users / share
        return float(base + self._unit(users) * self._level_sum(tally, source))

    def _simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        return self._simulate_levels(self.grid.rounded(held, source), source)


@dataclass(frozen=True)
class NoisySum(LevelProtocol):
    """The sum of all levels, and geometric noise; a subclass says how much."""

    @abstractmethod
    def _noise_error(self, users: int) -> GeometricError:
        """The law of the noise, in levels."""

    def _variance(self, users: int, held: Holding | None) -> float:
        return self._noise_error(users).standard_error ** 2 + self.grid.variance(users, held)

    def _error_law(self, users: int, value: float) -> RoundedError:
        rounding = self.grid.variance(users, None)
        return RoundedError(self._noise_error(users), float(self._unit(users)), users, rounding)


def level_sum(held: Holding) -> int:
    """What the levels of a crowd add up to."""
    return int(held.values @ held.counts)


def enough_levels(task: Bounded, users: int, epsilon: float, share: float) -> int:
    """So many that rounding adds no more than a share of the variance of central noise, 2L²/ε².

    Whole numbers are levels themselves if they are not too many.
    """
    most = min(MOST_LEVELS, MOST_SUM // users)
    if task.whole and task.span <= most:
        return int(task.span)
    return max(1, min(most, math.ceil(epsilon * math.sqrt(users / (8 * share)))))
