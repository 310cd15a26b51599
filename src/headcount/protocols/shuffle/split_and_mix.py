"""Split and mix (Ishai, Kushilevitz, Ostrovsky, Sahai 2006; Balle, Bell, Gascón, Nissim 2020).

Notation    The levels are 0, …, L of `fixed_point`. n is the number of people; h of them are
            honest. A person sends m shares, which are numbers modulo q = 2^b.
Randomizer  Add a share Z1 − Z2 of geometric noise to the person's level, Z1, Z2 ~ NB(1/h, a) with
            a = e^{−ε/L}. Send m numbers modulo q that add up to the result and are otherwise
            uniform.
Analyzer    The sum of all messages modulo q, read as a number between about −q/2 + nL/2 and
            q/2 + nL/2.
Privacy     The messages of the honest people are within total variation 2^−σ of messages that
            depend only on their sum, if m ≥ 2 + (2σ + log2 q)/(log2 h − log2 e) and h ≥ 19. The sum
            has the noise of a trusted curator. So δ(ε') is at most the δ of geometric noise moved
            by L, which is 0 for ε' ≥ ε, plus (1 + e^ε')·(2^−σ + the total variation of the tables
            of noise). This follows from the paper's theorem. (A variant of the theorem with 1
            instead of 2 is wrong, as tests show.)
Error       Geometric noise of ε/L, as in central trust, plus rounding, which adds one part in 256
            to the variance. The sum with noise exceeds the range of q with probability below 2^−99.
Messages    m messages of b bits. Each is uniform, but all messages of one person together reveal
            the value, apart from a little noise. So the local ε is infinite.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.geometric import moved_curve
from headcount.accounting.laws import ROUNDING
from headcount.core.budget import MOST_USERS, Budget, Crowd, Trust
from headcount.core.bundles import RESERVED
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible
from headcount.core.guarantee import Guarantee, NearCurve
from headcount.core.influence import Shifts
from headcount.core.limits import Limits
from headcount.core.messages import Alphabet, Messages
from headcount.core.promise import check_curve, promise
from headcount.core.protocol import Protocol
from headcount.core.randomizer import BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.core.table import short
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task
from headcount.core.tasks.bounded import Mean, Sum
from headcount.protocols.fixed_point import Grid
from headcount.protocols.geometric_error import GeometricError
from headcount.protocols.levels import (
    NoisySum,
    Rounding,
    bounded,
    check_levels,
    enough_levels,
    level_sum,
)
from headcount.randomness.shares import LEAST_GAMMA, NegativeBinomialShare
from headcount.randomness.totals import long_negative_binomial

_LEAST_HONEST = 19  # the smallest number of honest people for which the theorem holds
_ROUNDING_SHARE = 2.0**-8  # the share of the variance that rounding may add
_MOST_MODULUS = 2**63
_RARE_BITS = 100  # the sum leaves the range of q on either side with probability below 2^−100
_CHUNK = 1 << 18  # the number of bytes of shares that are made at a time


@dataclass(frozen=True)
class SplitRandomizer(Randomizer):
    """Adds a share of noise to the level, and splits the result into m shares modulo q."""

    modulus: int  # q, a power of two
    shares: int  # m
    noise: NegativeBinomialShare

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.numbers(self.modulus)

    @property
    def fixed_messages(self) -> int:
        return self.shares

    def send(self, encoded: NDArray[np.integer], source: Source) -> Messages:
        users, shares, dtype = len(encoded), self.shares, self.alphabet.dtype
        # Numbers modulo 2^64, and q divides 2^64. Converting to a smaller type keeps the low bits,
        # which are enough.
        secrets = encoded.astype(np.uint64)
        for sign in (1, -1):
            people, noise = self.noise.draw(source, users)
            secrets[people] += (sign * noise).astype(np.uint64)
        payload = np.empty((users, shares), dtype=dtype)
        mask = dtype.type(self.modulus - 1)
        rows = max(1, _CHUNK // (shares * dtype.itemsize))
        for start in range(0, users, rows):
            piece = payload[start : start + rows]
            source.fill(piece.reshape(-1).view(np.uint8))
            last = secrets[start : start + rows].astype(dtype)
            for column in range(shares - 1):
                last -= piece[:, column]
            piece[:, -1] = last
            piece &= mask
        counts = np.broadcast_to(np.int64(shares), users)
        return Messages(payload.reshape(-1), users, counts)

    def law(self, value: int) -> BundleLaw | None:
        return None


def room(users: int, honest: int, levels: int, rate: Fraction) -> int:
    """The number of different sums for which the modulus must have room.

    The sum ΣZ1 exceeds the reach z with probability below 2^−100, and so does ΣZ2. The reason is
    that E[a^{−Z/2}] = (1 + √a)^t ≤ 2^t for Z ~ NB(t, a), so P(Z > z) ≤ 2^t·a^{z/2}.
    """
    times = users / honest
    reach = math.ceil(2 * math.log(2) * (_RARE_BITS + times) / float(rate)) + 1
    return users * levels + 2 * reach + 1


@dataclass(frozen=True)
class SplitEstimator(NoisySum):
    """Adds up all shares modulo q. The result is the sum of all levels and of all noise."""

    rate: Fraction  # ε/L
    honest: int  # h
    modulus: int  # q

    tally_size = 1

    @property
    def tally_modulus(self) -> int:
        return self.modulus

    @cached_property
    def most_users(self) -> int:
        few, many = 1, MOST_USERS + 1
        while many - few > 1:
            middle = (few + many) // 2
            fits = room(middle, self.honest, self.grid.levels, self.rate) <= self.modulus
            few, many = (middle, many) if fits else (few, middle)
        return few

    def count(self, payload: NDArray[np.unsignedinteger]) -> NDArray[np.int64]:
        total = int(payload.sum(dtype=np.uint64)) % self.modulus
        return np.array([total], dtype=np.int64)

    def level_sum(self, tally: Tally, source: Source | None) -> int:
        total = int(tally.counts[0])
        # Modulo q, the impossible sums lie between the largest and the smallest possible sum. A
        # total above their middle stands for a negative sum.
        beyond = 2 * total > tally.users * self.grid.levels + self.modulus
        return total - self.modulus if beyond else total

    def simulate_levels(self, held: Holding, source: Source) -> NDArray[np.int64]:
        times = Fraction(held.users, self.honest)
        plus, minus = (long_negative_binomial(source, times, self.rate) for _ in range(2))
        return np.array([(level_sum(held) + plus - minus) % self.modulus], dtype=np.int64)

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        # One share changes the sum to any number modulo q.
        most = (users * self.grid.levels + self.modulus) // 2
        nothing = self.grid.task.answer(Holding(np.array([self.grid.task.low]), np.array([users])))
        least, largest = (
            float(nothing + float(self.unit(users) * total))
            for total in (most + 1 - self.modulus, most)
        )
        return replace(self.level_shifts(users, 0, 0), answers=(least, largest))

    def noise_error(self, users: int) -> GeometricError:
        return GeometricError(float(self.rate), Fraction(users, self.honest))


def shares_needed(honest: int, modulus: int, sigma: float) -> int:
    """The smallest m for which inputs of the same sum have views within total variation 2^−σ."""
    gained = math.log2(honest) - math.log2(math.e)
    return math.ceil(2 + (2 * sigma + math.log2(modulus)) / gained * (1 + 16 * ROUNDING))


def _security(honest: int, modulus: int, shares: int) -> float:
    """The largest σ for this number of shares."""
    gained = math.log2(honest) - math.log2(math.e)
    return ((shares - 2) * gained - math.log2(modulus)) / 2 * (1 - 16 * ROUNDING)


@dataclass(frozen=True)
class SplitAndMix(Protocol):
    name = "shuffle.split-and-mix"
    trust = Trust.SHUFFLE
    tasks: ClassVar[tuple[type[Task], ...]] = (Sum, Mean)

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
    def rate(self) -> Fraction:
        """The rate ε/L of the noise."""
        return Fraction(self.budget.epsilon) / self.grid.levels

    @cached_property
    def modulus(self) -> int:
        """The smallest power of two with room for at least twice the number of sums."""
        self._check_feasible()
        return 1 << (2 * self._room - 1).bit_length()

    @property
    def _room(self) -> int:
        return room(self.crowd.users, self.crowd.honest, self.grid.levels, self.rate)

    def _check_feasible(self) -> None:
        if not self.budget.delta:
            raise Infeasible(
                f"{self.name} needs delta above 0: with a small probability shares reveal a value",
                nearest={"delta": 1e-9},
            )
        if self.crowd.honest < _LEAST_HONEST:
            raise Infeasible(
                f"{self.name} needs at least {_LEAST_HONEST} honest people, "
                f"got {self.crowd.honest}",
                nearest={"honest": _LEAST_HONEST},
            )
        if self.rate < LEAST_GAMMA:
            most = int(self.budget.epsilon / LEAST_GAMMA)
            raise Infeasible(
                f"{self.name} needs fewer than {self.grid.levels} levels for epsilon="
                f"{short(self.budget.epsilon)}",
                nearest={"precision": most} if most else None,
            )
        if 2 * self._room > _MOST_MODULUS:
            raise Infeasible(
                f"{self.name} needs a modulus above 2^63 for {self.crowd.users} people, "
                f"{self.grid.levels} levels and epsilon={short(self.budget.epsilon)}"
            )

    @cached_property
    def shares(self) -> int:
        """The number m of shares per person."""
        # (1 + e^ε)·2^−σ is δ, except for the part that is reserved for the tables.
        allowed = self.budget.delta * (1 - RESERVED)
        sigma = math.log2(1 + math.exp(self.budget.epsilon)) - math.log2(allowed)
        return shares_needed(self.crowd.honest, self.modulus, sigma)

    @cached_property
    def noise(self) -> NegativeBinomialShare:
        """The law of Z1 and of Z2."""
        return NegativeBinomialShare(Fraction(1, self.crowd.honest), self.rate)

    @cached_property
    def randomizer(self) -> Rounding:
        check_curve(self)
        return Rounding(self.grid, SplitRandomizer(self.modulus, self.shares, self.noise))

    @cached_property
    def estimator(self) -> SplitEstimator:
        return SplitEstimator(self.task, self.grid, self.rate, self.crowd.honest, self.modulus)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {
            "shares": self.shares,
            "modulus": self.modulus,
            "precision": self.grid.levels,
            "sigma": _security(self.crowd.honest, self.modulus, self.shares),
        }

    @cached_property
    def curve(self) -> NearCurve:
        security = _security(self.crowd.honest, self.modulus, self.shares)
        drawn = 2 * self.crowd.honest * self.noise.variation
        # The largest loss is exactly ε, although the float of the rate is rounded.
        noise = moved_curve(float(self.rate), self.grid.levels)
        return NearCurve(replace(noise, pure_epsilon=self.budget.epsilon), 2.0**-security + drawn)

    @cached_property
    def guarantee(self) -> Guarantee:
        return promise(
            self,
            "split and mix (Balle, Bell, Gascón, Nissim 2020) of exact noise",
            delta=self.curve.delta(self.budget.epsilon),
            exact=False,
        )

    @property
    def local_epsilon(self) -> float:
        return math.inf
