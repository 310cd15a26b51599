"""Laplace noise on every number (Dwork, McSherry, Nissim, Smith 2006), on levels: geometric.

Notation    Levels 0, …, L of `fixed_point`, n people; r the rate of the noise and a = e^−r its
            ratio; C levels beyond both ends that a message may lie.
Randomizer  Add z to one's level, P(z) = (1−a)/(1+a)·a^|z|, and move what is below −C or above L + C
            to there. Chances of z are rounded down to 2^−128, what is left over goes to z = 0.
Analyzer    S = Σy over the sent y.
Privacy     Pure: ε' ≤ ε is the largest logarithm of a ratio of the rounded chances, over all
            messages and all levels; r is ε/L, less what keeps ε' within the budget.
Error       Variance 2a/(1−a)² for each person, about 2(L/ε)², whatever the data; by rounding at
            most ¼ more, which with L = 16ε levels is one part in two thousand. C is 45 times L/ε:
            what is moved has a chance of e^−45, which no crowd can see as bias or variance. For the
            mean of numbers in [−M, M]: 8M²/(nε²).
Messages    1 of L + 2C + 1 numbers, y + C.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.divergence import SymmetricCurve
from headcount.accounting.geometric import moved_delta
from headcount.accounting.laws import UNIT
from headcount.core.budget import Trust
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible
from headcount.core.estimate import NormalError
from headcount.core.guarantee import Guarantee
from headcount.core.messages import Alphabet, Messages
from headcount.core.randomizer import MOST_BUNDLES, BundleLaw
from headcount.core.source import Source
from headcount.core.table import short
from headcount.core.tally import Tally
from headcount.core.task import Holding
from headcount.protocols.fixed_point import RoundedError
from headcount.protocols.geometric_error import GeometricError
from headcount.protocols.level_protocol import MOST_SUM, LevelProtocol, level_sum
from headcount.protocols.response_sum import MOST_RESPONSES, in_parts
from headcount.protocols.responses import ratio_epsilon
from headcount.randomness.table import FINE, ThresholdTable
from headcount.randomness.totals import geometric_sum

_FINENESS = 16  # levels for each unit of ε, by default
_REACH = 45  # C, in L/ε
_MOST_EPSILON = 30.0  # beyond, chances of 128 bits tell no more: the noise stays as it is
_LONGEST = 2**18  # table of noise; messages are then smaller, too
_FEW = 1000  # people up to whom the law of their noise is summed; beyond, it is normal


@dataclass(frozen=True, eq=False)
class _Noise:
    """The chances of z = 0, …, L + C over 2^128; the last is that of all z from there on."""

    rate: float
    levels: int
    weights: list[int] = field(repr=False)

    @classmethod
    def of(cls, rate: float, levels: int, most: int) -> "_Noise":
        with localcontext() as context:
            context.prec = 60
            ratio = (-Decimal(rate)).exp()
            mass = FINE / (1 + ratio)
            weights = []
            for _ in range(most):
                weights.append(int(mass * (1 - ratio)))
                mass *= ratio
            weights.append(int(mass))
        weights[0] = FINE - 2 * sum(weights[1:])
        return cls(rate, levels, weights)

    @cached_property
    def local_epsilon(self) -> float:
        """The number ε'.

        Chances fall with |z|, so that those of a message differ most for the levels 0 and L: from
        z to z + L, and at the ends of the range by their sums.
        """
        last = len(self.weights) - 1
        tails = list(accumulate(reversed(self.weights)))[: self.levels + 1]
        more, less = tails[-1], tails[0]
        for z in range(last - self.levels):
            if self.weights[z] * less > more * self.weights[z + self.levels]:
                more, less = self.weights[z], self.weights[z + self.levels]
        return ratio_epsilon(Fraction(more - less, less))

    @property
    def both_sides(self) -> list[int]:
        return [*self.weights[:0:-1], *self.weights]

    @cached_property
    def table(self) -> ThresholdTable:
        return ThresholdTable(self.both_sides, 1 - len(self.weights))


@lru_cache(maxsize=32)
def _calibrate(epsilon: float, levels: int, reach: int) -> _Noise:
    """The noise with the largest rate, or nearly, that is within ε."""
    target = min(epsilon, _MOST_EPSILON)
    # What is rounded off is one part in the least weight, and of a float some units.
    least = FINE * math.tanh(target / levels / 2) * math.exp(-target * (1 + reach / levels))
    spare = 2 / (least * target) + 64 * UNIT
    while True:
        noise = _Noise.of(target * (1 - spare) / levels, levels, levels + reach)
        if noise.local_epsilon <= epsilon:
            return noise
        spare *= 2


@dataclass(frozen=True)
class LaplaceMean(LevelProtocol):
    name = "local.laplace-mean"
    trust = Trust.LOCAL
    tally_size = 1
    most_users = MOST_SUM // _LONGEST
    fixed_messages = 1

    levels: int | None = None  # by default so many that rounding hardly matters

    def _check_options(self) -> None:
        self._keep_levels("levels", MOST_RESPONSES)

    def __post_init__(self) -> None:
        super().__post_init__()
        if 2 * (self._levels + self._reach) >= _LONGEST:
            # 2L(1 + 45/ε) + 2 is then below.
            least = 2 * _REACH * self._levels / (_LONGEST - 2 * self._levels - 4)
            raise Infeasible(
                f"{self.name} has no table for the noise of epsilon={short(self.budget.epsilon)} "
                f"with {self._levels} level(s)",
                nearest={"epsilon": least},
            )
        _ = self._noise  # calibrated now, not at the first use

    @cached_property
    def _levels(self) -> int:
        if self.levels is not None:
            return self.levels
        found = max(1, math.ceil(_FINENESS * min(self.budget.epsilon, _MOST_EPSILON)))
        return min(found, int(self._bounds.span)) if self._bounds.whole else found

    @property
    def _reach(self) -> int:
        """The number C."""
        return math.ceil(_REACH * self._levels / min(self.budget.epsilon, _MOST_EPSILON))

    @cached_property
    def _noise(self) -> _Noise:
        return _calibrate(self.budget.epsilon, self._levels, self._reach)

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.numbers(self._levels + 2 * self._reach + 1)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"levels": self._levels, "rate": self._noise.rate, "reach": self._reach}

    @property
    def guarantee(self) -> Guarantee:
        return self._promise_alone()

    @property
    def local_epsilon(self) -> float:
        return self._noise.local_epsilon

    @cached_property
    def curve(self) -> SymmetricCurve:
        # What is moved into the range has the loss of its ends already. Rounding moves no more than
        # this from some outcomes to others; at ε' nothing is left.
        variation = 2 * len(self._noise.weights) / FINE
        return SymmetricCurve(
            lambda epsilon: (
                moved_delta(self._noise.rate, self._levels, epsilon)
                + (1 + math.exp(epsilon)) * variation
            ),
            self.local_epsilon,
            self._levels,
        )

    def _level_law(self, level: int) -> BundleLaw | None:
        last = self._levels + 2 * self._reach
        if last >= MOST_BUNDLES:
            return None
        weights = [0] * (last + 1)
        for moved, weight in enumerate(self._noise.both_sides, level - self._levels):
            weights[min(max(moved, 0), last)] += weight
        return {((sent, 1),): Fraction(weight, FINE) for sent, weight in enumerate(weights)}

    def _variance(self, users: int, held: Holding | None) -> float:
        return self._noise_error(users).standard_error ** 2 + self.grid.variance(users, held)

    def _noise_error(self, users: int) -> GeometricError:
        # The noises of n people add up to the difference of two NB(n, a).
        return GeometricError(self._noise.rate, Fraction(users))

    def _error_law(self, users: int, value: float) -> RoundedError | NormalError:
        unit = float(self._unit(users))
        if users > _FEW:
            return NormalError(self._standard_error(users, None), unit)
        return RoundedError(self._noise_error(users), unit, users, self.grid.variance(users, None))

    def _send(self, levels: NDArray[np.integer], source: Source) -> Messages:
        return in_parts(self._respond, levels, source, self.alphabet.dtype)

    def _respond(self, levels: NDArray[np.integer], source: Source) -> NDArray[np.int64]:
        noisy = levels + self._reach + self._noise.table.sample(source, len(levels))
        sent: NDArray[np.int64] = np.clip(noisy, 0, self._levels + 2 * self._reach)
        return sent

    def _tally(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        return np.array([payload.sum(dtype=np.int64)])

    def _level_sum(self, tally: Tally, source: Source | None) -> int:
        return int(tally.counts[0]) - tally.users * self._reach

    def _simulate_levels(self, held: Holding, source: Source) -> NDArray[np.int64]:
        ratio = Fraction(math.exp(-self._noise.rate))
        up, down = (geometric_sum(source, held.users, ratio) for _ in range(2))
        return np.array([level_sum(held) + held.users * self._reach + up - down])
