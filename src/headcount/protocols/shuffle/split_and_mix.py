"""Split and mix (Ishai, Kushilevitz, Ostrovsky, Sahai 2006; Balle, Bell, Gascón, Nissim 2020).

Notation    The levels are 0, …, L (see `fixed_point`); a count has L = 1. n is the number of
            people; h of them are honest. A person sends m shares, which are numbers modulo q = 2^b.
            NB is the negative binomial law (see `geometric_error`).
Randomizer  Add a share Z1 − Z2 of geometric noise to the person's level, where Z1 and Z2 are
            independent and have the law NB(1/h, a) with a = e^{−ε/L}. Send m numbers modulo q that
            add up to the result and are otherwise uniform.
Analyzer    The estimate of the sum of all levels is the sum of all messages modulo q, read as a
            number between about −q/2 + nL/2 and q/2 + nL/2.
Privacy     The messages of the honest people are within total variation 2^−σ of messages that
            depend only on the sum of their noisy levels, if m ≥ 2 + (2σ + log2 q)/(log2 h − log2 e)
            and h ≥ 19 (see `secret_sharing`). This sum has the same noise as a sum from a trusted
            curator. Let v be the total variation between the noise, which is drawn from tables, and
            its exact law. By the paper's theorem, δ(ε') is at most the δ of geometric noise shifted
            by L, plus (1 + e^ε')·(2^−σ + v). The δ of the geometric noise is 0 for ε' ≥ ε.
Error       Geometric noise of rate ε/L, as in central trust, plus rounding, which by default adds
            at most 1/256 of the variance of central noise. If n > h, the variance of the noise is
            n/h times as large. The sum with noise exceeds the range of q with probability below
            2^−99.
Messages    m messages of b bits. Each message is uniform, but all messages of one person together
            reveal the value, apart from a little noise. So the local ε is infinite.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.divergence import SymmetricCurve
from headcount.accounting.geometric import moved_steps_curve
from headcount.core.budget import Budget, Crowd
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible
from headcount.core.limits import Limits
from headcount.core.messages import Messages
from headcount.core.promise import check_curve
from headcount.core.source import Source
from headcount.core.table import short
from headcount.core.task import Holding, Task
from headcount.core.tasks.bounded import Mean, Sum
from headcount.core.tasks.count import Count
from headcount.protocols.fixed_point import Grid
from headcount.protocols.geometric_error import GeometricError
from headcount.protocols.levels import (
    Rounding,
    bounded,
    check_levels,
    enough_levels,
    level_sum,
)
from headcount.protocols.secret_sharing import (
    SecretSharing,
    SharedNoise,
    SharedSum,
    ShareRandomizer,
    add_noise,
)
from headcount.randomness.shares import LEAST_GAMMA, NegativeBinomialShare

_ROUNDING_SHARE = 2.0**-8  # the share of the variance that rounding may add


# Randomizer -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class SplitRandomizer(ShareRandomizer):
    """Adds a share of noise to the level, and splits the result into m shares modulo q."""

    noise: NegativeBinomialShare

    @property
    def instructions(self) -> Mapping[str, Any]:
        return {**super().instructions, "noise": self.noise.instructions}

    def send(self, encoded: NDArray[np.integer], source: Source) -> Messages:
        return self.split(add_noise(encoded.astype(np.uint64), self.noise, source), source)


# Analyzer and its error -----------------------------------------------------------------------


@dataclass(frozen=True)
class SplitEstimator(SharedSum):
    """Adds up all shares. The sum has the noise of all people who took part."""

    noise: SharedNoise

    @cached_property
    def most_users(self) -> int:
        return self.noise.most_users(self.grid.levels, self.modulus)

    def simulate_levels(self, held: Holding, source: Source) -> NDArray[np.int64]:
        total = level_sum(held) + int(self.noise.totals(held.users, source)[0])
        return np.array([total % self.modulus], dtype=np.int64)

    def noise_error(self, users: int) -> GeometricError:
        return self.noise.error(users)


# Calibration and privacy ----------------------------------------------------------------------


@dataclass(frozen=True)
class SplitAndMix(SecretSharing):
    name = "shuffle.split-and-mix"
    tasks: ClassVar[tuple[type[Task], ...]] = (Count, Sum, Mean)

    # There is one sum, which a person changes by up to L, and each person has one secret.
    numbers = changed = changed_secrets = 1

    precision: int | None = None  # the number of levels; by default enough to make rounding small

    @classmethod
    def settings_within(
        cls, task: Task, budget: Budget, crowd: Crowd, limits: Limits
    ) -> Iterator[dict[str, Any]]:
        yield {}
        try:
            usual = cls(task, budget, crowd)
        except Infeasible:
            return
        # Fewer levels need a smaller modulus, and a smaller modulus needs fewer shares.
        low, high = 0, usual.grid.levels + 1
        while high - low > 1:
            middle = (low + high) // 2
            fits = cls(task, budget, crowd, precision=middle).messages_per_user <= limits.fixed
            low, high = (middle, high) if fits else (low, middle)
        yield {"precision": max(low, 1)}

    def check_options(self) -> None:
        check_levels(self, "precision")

    @cached_property
    def grid(self) -> Grid:
        task, users, epsilon = bounded(self), self.crowd.users, self.budget.epsilon
        return Grid(task, self.precision or enough_levels(task, users, epsilon, _ROUNDING_SHARE))

    @property
    def levels(self) -> int:
        return self.grid.levels

    @property
    def rate(self) -> Fraction:
        """The rate ε/L of the noise."""
        return Fraction(self.budget.epsilon) / self.levels

    def _too_small_rate(self) -> Infeasible:
        most = int(self.budget.epsilon / LEAST_GAMMA)
        return Infeasible(
            f"{self.name} needs fewer than {self.levels} levels for epsilon="
            f"{short(self.budget.epsilon)}",
            nearest={"precision": most} if most else None,
        )

    @cached_property
    def randomizer(self) -> Rounding:
        check_curve(self)
        return Rounding(self.grid, SplitRandomizer(self.modulus, self.shares, self.noise))

    @cached_property
    def estimator(self) -> SplitEstimator:
        return SplitEstimator(self.task, self.grid, self.modulus, self.shared_noise)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {
            "shares": self.shares,
            "modulus": self.modulus,
            "precision": self.levels,
            "sigma": self.sigma,
        }

    @property
    def sum_curve(self) -> SymmetricCurve:
        # The largest loss is exactly ε, although the float of the rate is rounded.
        noise = moved_steps_curve(float(self.rate), self.levels)
        return replace(noise, pure_epsilon=self.budget.epsilon)
