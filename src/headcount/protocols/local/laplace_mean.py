"""Laplace noise on every number (Dwork, McSherry, Nissim, Smith 2006), in a discrete form.

Notation    The levels are 0, …, L (see `fixed_point`). n is the number of people. r is the rate of
            the noise, and a = e^−r is the ratio of its successive probabilities. Noisy levels are
            limited to the range from −C to L + C.
Randomizer  Add discrete Laplace noise z to the person's level, with P(z) = (1−a)/(1+a)·a^|z|.
            Replace a result below −C by −C, and a result above L + C by L + C. The probabilities of
            z are rounded down to multiples of 2^−128, and the missing probability is added to that
            of z = 0.
Analyzer    The estimate of the sum of all levels is S = Σy over the noisy levels y.
Privacy     Pure: ε' ≤ ε is the largest logarithm of the ratio of a message's probabilities for two
            levels. It is computed from the rounded probabilities. r is slightly less than ε/L, to
            keep ε' within the budget.
Error       The variance per person is 2a/(1−a)² for all data, about 2(L/ε)². Rounding adds at most
            ¼, which with L = 16ε levels is one part in two thousand. C is 45·L/ε, so a result is
            replaced with probability at most e^−45. The bias and the variance from such
            replacements are negligible in any crowd. The estimated mean of numbers in [−M, M]
            has the variance 8M²/(nε²).
Messages    1 message, y + C, which is one of L + 2C + 1 numbers.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.divergence import SymmetricCurve
from headcount.accounting.geometric import moved_delta
from headcount.accounting.laws import ROUNDING
from headcount.core.budget import Trust
from headcount.core.cached import cached_property
from headcount.core.decimal_digits import decimal_digits, exponential
from headcount.core.errors import Infeasible
from headcount.core.estimate import ErrorLaw, NormalError
from headcount.core.estimator import linear_shifts
from headcount.core.guarantee import Guarantee
from headcount.core.influence import Shifts, end_messages
from headcount.core.messages import Alphabet, Messages
from headcount.core.promise import promise_alone
from headcount.core.protocol import Protocol
from headcount.core.randomizer import MOST_BUNDLES, BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.core.table import short
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task
from headcount.core.tasks.bounded import Mean, Sum
from headcount.protocols.fixed_point import Grid
from headcount.protocols.geometric_error import GeometricError
from headcount.protocols.level_responses import MOST_RESPONSES, in_parts
from headcount.protocols.levels import (
    MOST_SUM,
    NoisySum,
    Rounding,
    bounded,
    check_levels,
    level_sum,
)
from headcount.protocols.responses import ratio_epsilon
from headcount.randomness.table import FINE, ThresholdTable
from headcount.randomness.totals import geometric_sum

_FINENESS = 16  # the default number of levels for each unit of ε
_REACH = 45  # C divided by L/ε
_MOST_EPSILON = 30.0  # a larger ε gets the noise of this ε, as probabilities have only 128 bits
_LONGEST = 2**18  # the longest table of noise; it limits the size of messages too
_FEW = 1000  # with more people, the law of the noise is treated as normal


@dataclass(frozen=True, eq=False)
class Noise:
    """The law of the noise: `weights` are the probabilities of z = 0, …, L + C, times 2^128.

    The last weight is for all z ≥ L + C.
    """

    rate: float
    levels: int
    weights: list[int] = field(repr=False)

    @classmethod
    def of(cls, rate: float, levels: int, most: int) -> "Noise":
        with decimal_digits(60):
            ratio = exponential(-rate)
            mass = FINE / (1 + ratio)
            weights = []
            for _ in range(most):
                weights.append(int(mass * (1 - ratio)))
                mass *= ratio
            weights.append(int(mass))
        weights[0] = FINE - 2 * sum(weights[1:])
        return cls(rate, levels, weights)

    @property
    def reach(self) -> int:
        """The number C of levels beyond each end of the range."""
        return len(self.weights) - 1 - self.levels

    @property
    def last(self) -> int:
        """The largest message, L + 2C."""
        return self.levels + 2 * self.reach

    @cached_property
    def local_epsilon(self) -> float:
        """The local privacy loss ε'.

        Probabilities fall as |z| grows, so the probabilities of a message differ most for the
        levels 0 and L. The ratio of these two probabilities is P(z)/P(z + L). For a message at an
        end of the range, tails take the place of single probabilities: the ratio is that of the
        tail from z and the tail from z + L.
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


@dataclass(frozen=True)
class LaplaceRandomizer(Randomizer):
    """Sends the level with noise, limited to the range of messages."""

    noise: Noise

    fixed_messages = 1

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.numbers(self.noise.last + 1)

    @property
    def instructions(self) -> Mapping[str, Any]:
        return {
            "kind": "laplace",
            "rate": str(Fraction(self.noise.rate)),
            "levels": self.noise.levels,
            "reach": self.noise.reach,
        }

    def send(self, encoded: NDArray[np.integer], source: Source) -> Messages:
        return in_parts(self._respond, encoded, source, self.alphabet.dtype)

    def _respond(self, levels: NDArray[np.integer], source: Source) -> NDArray[np.int64]:
        noisy = levels + self.noise.reach + self.noise.table.sample(source, len(levels))
        sent: NDArray[np.int64] = np.clip(noisy, 0, self.noise.last)
        return sent

    def law(self, value: int) -> BundleLaw | None:
        last = self.noise.last
        if last >= MOST_BUNDLES:
            return None
        weights = [0] * (last + 1)
        for moved, weight in enumerate(self.noise.both_sides, value - self.noise.levels):
            weights[min(max(moved, 0), last)] += weight
        return {((sent, 1),): Fraction(weight, FINE) for sent, weight in enumerate(weights)}


@dataclass(frozen=True)
class LaplaceEstimator(NoisySum):
    """Computes S from the sum of all messages."""

    rate: float  # r
    reach: int  # C

    tally_size = 1
    most_users = MOST_SUM // _LONGEST

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        return np.array([payload.sum(dtype=np.int64)])

    def level_sum(self, tally: Tally, source: Source | None) -> int:
        return int(tally.counts[0]) - tally.users * self.reach

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        # A dishonest person may send any message. So a message adds between −C/L and 1 + C/L times
        # the length of the range to the sum.
        return linear_shifts(self, users, end_messages(alphabet))

    def simulate_levels(self, held: Holding, source: Source) -> NDArray[np.int64]:
        ratio = Fraction(math.exp(-self.rate))
        up, down = (geometric_sum(source, held.users, ratio) for _ in range(2))
        return np.array([level_sum(held) + held.users * self.reach + up - down])

    def noise_error(self, users: int) -> GeometricError:
        # The noise of n people together is the difference of two negative binomial variables
        # NB(n, a).
        return GeometricError(self.rate, Fraction(users))

    def error_law(self, users: int, unbiased: float) -> ErrorLaw:
        if users > _FEW:
            return NormalError(self.standard_error(users, None), float(self.unit(users)))
        return super().error_law(users, unbiased)


@lru_cache(maxsize=32)
def _calibrate(epsilon: float, levels: int, reach: int) -> Noise:
    """The noise with nearly the largest rate whose local privacy loss is at most ε."""
    target = min(epsilon, _MOST_EPSILON)
    # `least` is about the smallest weight. Rounding to integers changes a weight by at most 1, and
    # floats add a few rounding errors. The rate is smaller by the share `spare` to allow for both.
    least = FINE * math.tanh(target / levels / 2) * math.exp(-target * (1 + reach / levels))
    spare = 2 / (least * target) + 64 * ROUNDING
    while True:
        noise = Noise.of(target * (1 - spare) / levels, levels, levels + reach)
        if noise.local_epsilon <= epsilon:
            return noise
        spare *= 2


@dataclass(frozen=True)
class LaplaceMean(Protocol):
    name = "local.laplace-mean"
    trust = Trust.LOCAL
    tasks: ClassVar[tuple[type[Task], ...]] = (Sum, Mean)

    levels: int | None = None  # the number of levels; by default enough to make rounding negligible

    def check_options(self) -> None:
        check_levels(self, "levels", MOST_RESPONSES)

    @cached_property
    def grid(self) -> Grid:
        task = bounded(self)
        if self.levels is not None:
            return Grid(task, self.levels)
        enough = max(1, math.ceil(_FINENESS * min(self.budget.epsilon, _MOST_EPSILON)))
        return Grid(task, min(enough, int(task.span)) if task.whole else enough)

    @cached_property
    def noise(self) -> Noise:
        levels, epsilon = self.grid.levels, self.budget.epsilon
        reach = math.ceil(_REACH * levels / min(epsilon, _MOST_EPSILON))
        if 2 * (levels + reach) >= _LONGEST:
            # With ε = `least`, 2L(1 + 45/ε) + 2 is below the length of the longest table.
            least = 2 * _REACH * levels / (_LONGEST - 2 * levels - 4)
            raise Infeasible(
                f"{self.name} needs too long a table of noise for epsilon={short(epsilon)} "
                f"with {levels} level(s)",
                nearest={"epsilon": least},
            )
        return _calibrate(epsilon, levels, reach)

    @cached_property
    def randomizer(self) -> Rounding:
        return Rounding(self.grid, LaplaceRandomizer(self.noise))

    @cached_property
    def estimator(self) -> LaplaceEstimator:
        return LaplaceEstimator(self.task, self.grid, self.noise.rate, self.noise.reach)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"levels": self.grid.levels, "rate": self.noise.rate, "reach": self.noise.reach}

    @cached_property
    def curve(self) -> SymmetricCurve:
        # Limiting messages to the range does not change the privacy losses, which are constant
        # beyond the ends of the range. `variation` bounds the total variation by which rounding
        # changes the law. At the local ε, δ is 0.
        variation = 2 * len(self.noise.weights) / FINE
        levels, rate = self.grid.levels, self.noise.rate
        return SymmetricCurve(
            lambda epsilon: (
                moved_delta(rate, levels, epsilon) + (1 + math.exp(epsilon)) * variation
            ),
            self.local_epsilon,
            levels,
        )

    @property
    def guarantee(self) -> Guarantee:
        return promise_alone(self)

    @property
    def local_epsilon(self) -> float:
        return self.noise.local_epsilon
