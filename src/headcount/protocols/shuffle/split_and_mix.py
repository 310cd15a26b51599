"""Split and mix (Ishai, Kushilevitz, Ostrovsky, Sahai 2006; Balle, Bell, Gascón, Nissim 2020).

Notation    Levels 0, …, L of `fixed_point`; n people, h of them honest; q = 2^b the modulus of m
            shares.
Randomizer  Add to one's level a share Z1 − Z2 of geometric noise, Z1, Z2 ~ NB(1/h, a) with
            a = e^{−ε/L}; send m numbers modulo q that add up to that and are otherwise uniform.
Analyzer    Sum of all messages modulo q, read as a number from about −q/2 + nL/2 to q/2 + nL/2.
Privacy     The messages of the honest are within total variation 2^−σ of messages that depend on
            their sum alone, if m ≥ 2 + (2σ + log2 q)/(log2 h − log2 e) and h ≥ 19; and the sum has
            the noise of a trusted curator. So δ(ε') = that of geometric noise moved by L (0 from ε
            on), plus (1 + e^ε')(2^−σ + what the tables of noise are off): a proven upper bound, by
            the paper's theorem. (A variant with 1 in place of 2 is wrong, as tests show.)
Error       Geometric noise of ε/L, as in central trust, and rounding: a 256th of the variance.
            q leaves room: sum and noise wrap around with a probability below 2^−99.
Messages    m of b bits, each of them uniform by itself. All of one person's together tell the value
            but for a little noise: local ε is infinite.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.geometric import moved_curve
from headcount.accounting.laws import UNIT
from headcount.core.budget import MOST_USERS, Budget, Crowd, Trust
from headcount.core.bundles import RESERVED
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible
from headcount.core.guarantee import Guarantee, NearCurve
from headcount.core.messages import Alphabet, Messages
from headcount.core.randomizer import BundleLaw
from headcount.core.source import Source
from headcount.core.table import short
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task
from headcount.protocols.geometric_error import GeometricError
from headcount.protocols.level_protocol import (
    NoisySum,
    enough_levels,
    level_sum,
)
from headcount.randomness.shares import LEAST_GAMMA, NegativeBinomialShare
from headcount.randomness.totals import long_negative_binomial

_LEAST_HONEST = 19  # of the theorem
_ROUNDING_SHARE = 2.0**-8  # of the variance
_MOST_MODULUS = 2**63
_RARE_BITS = 100  # a wrap on one side is rarer than 2^−100
_CHUNK = 1 << 18  # bytes of shares that are made at a time


def shares_needed(honest: int, modulus: int, sigma: float) -> int:
    """The least m for which inputs of the same sum have views within 2^−σ of each other."""
    gained = math.log2(honest) - math.log2(math.e)
    return math.ceil(2 + (2 * sigma + math.log2(modulus)) / gained * (1 + 16 * UNIT))


def _security(honest: int, modulus: int, shares: int) -> float:
    """The σ of so many shares."""
    gained = math.log2(honest) - math.log2(math.e)
    return ((shares - 2) * gained - math.log2(modulus)) / 2 * (1 - 16 * UNIT)


@dataclass(frozen=True)
class SplitAndMix(NoisySum):
    name = "shuffle.split-and-mix"
    trust = Trust.SHUFFLE
    tally_size = 1

    precision: int | None = None  # levels; by default so many that rounding matters little

    @classmethod
    def settings_within(
        cls, task: Task, budget: Budget, crowd: Crowd, max_messages: float
    ) -> Iterator[dict[str, Any]]:
        yield {}
        try:
            usual = cls(task, budget, crowd)
        except Infeasible:
            return
        # Fewer levels need a smaller modulus, and that fewer shares.
        low, high = 0, usual._levels + 1
        while high - low > 1:
            middle = (low + high) // 2
            fits = cls(task, budget, crowd, precision=middle).messages_per_user <= max_messages
            low, high = (middle, high) if fits else (low, middle)
        if low:
            yield {"precision": low}

    def _check_options(self) -> None:
        self._keep_levels("precision")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.budget.delta:
            raise Infeasible(
                f"{self.name} needs delta above 0: shares hide a value but for a small chance",
                nearest={"delta": 1e-9},
            )
        if self.crowd.honest < _LEAST_HONEST:
            raise Infeasible(
                f"{self.name} needs at least {_LEAST_HONEST} honest people, "
                f"got {self.crowd.honest}",
                nearest={"honest": _LEAST_HONEST},
            )
        if self._rate < LEAST_GAMMA:
            most = int(self.budget.epsilon / LEAST_GAMMA)
            raise Infeasible(
                f"{self.name} needs fewer than {self._levels} levels for epsilon="
                f"{short(self.budget.epsilon)}",
                nearest={"precision": most} if most else None,
            )
        if 2 * self._room(self.crowd.users) > _MOST_MODULUS:
            raise Infeasible(
                f"{self.name} needs a modulus above 2^63 for {self.crowd.users} people, "
                f"{self._levels} levels and epsilon={short(self.budget.epsilon)}"
            )
        self._check_curve()

    # Calibration --------------------------------------------------------------------------------

    @cached_property
    def _levels(self) -> int:
        if self.precision is not None:
            return self.precision
        users, epsilon = self.crowd.users, self.budget.epsilon
        return enough_levels(self._bounds, users, epsilon, _ROUNDING_SHARE)

    @cached_property
    def _rate(self) -> Fraction:
        return Fraction(self.budget.epsilon) / self._levels

    def _reach(self, users: int) -> int:
        """Beyond it, either noise of a crowd is rarer than 2^−100.

        E[a^{−Z/2}] = (1 + √a)^t ≤ 2^t for Z ~ NB(t, a), so P(Z > z) ≤ 2^t·a^{z/2}.
        """
        times = users / self.crowd.honest
        return math.ceil(2 * math.log(2) * (_RARE_BITS + times) / float(self._rate)) + 1

    def _room(self, users: int) -> int:
        """How many sums the modulus must tell apart."""
        return users * self._levels + 2 * self._reach(users) + 1

    @cached_property
    def modulus(self) -> int:
        """The least power of two with room for twice the crowd."""
        return 1 << (2 * self._room(self.crowd.users) - 1).bit_length()

    @cached_property
    def most_users(self) -> int:
        few, many = self.crowd.users, MOST_USERS + 1
        while many - few > 1:
            middle = (few + many) // 2
            few, many = (middle, many) if self._room(middle) <= self.modulus else (few, middle)
        return few

    @cached_property
    def fixed_messages(self) -> int:
        # (1 + e^ε)·2^−σ is δ, but for what is reserved for the tables.
        allowed = self.budget.delta * (1 - RESERVED)
        sigma = math.log2(1 + math.exp(self.budget.epsilon)) - math.log2(allowed)
        return shares_needed(self.crowd.honest, self.modulus, sigma)

    @cached_property
    def _share(self) -> NegativeBinomialShare:
        return NegativeBinomialShare(Fraction(1, self.crowd.honest), self._rate)

    # What follows -------------------------------------------------------------------------------

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.numbers(self.modulus)

    @property
    def tally_modulus(self) -> int:
        return self.modulus

    @property
    def parameters(self) -> Mapping[str, float]:
        return {
            "shares": self.fixed_messages,
            "modulus": self.modulus,
            "precision": self._levels,
            "sigma": _security(self.crowd.honest, self.modulus, self.fixed_messages),
        }

    @cached_property
    def guarantee(self) -> Guarantee:
        return self._promise(
            "split and mix (Balle, Bell, Gascón, Nissim 2020) of exact noise",
            delta=self.curve.delta(self.budget.epsilon),
            exact=False,
        )

    @cached_property
    def curve(self) -> NearCurve:
        security = _security(self.crowd.honest, self.modulus, self.fixed_messages)
        drawn = 2 * self.crowd.honest * self._share.variation
        # The largest loss is ε itself, whatever a float loses of the rate.
        noise = moved_curve(float(self._rate), self._levels)
        return NearCurve(replace(noise, pure_epsilon=self.budget.epsilon), 2.0**-security + drawn)

    @property
    def local_epsilon(self) -> float:
        return math.inf

    def _level_law(self, level: int) -> BundleLaw | None:
        return None

    def _noise_error(self, users: int) -> GeometricError:
        return GeometricError(float(self._rate), Fraction(users, self.crowd.honest))

    def _send(self, levels: NDArray[np.integer], source: Source) -> Messages:
        users, shares, dtype = len(levels), self.fixed_messages, self.alphabet.dtype
        # Numbers modulo 2^64, of which q is a divisor; a smaller type keeps what it holds of them.
        secrets = levels.astype(np.uint64)
        for sign in (1, -1):
            people, noise = self._share.draw(source, users)
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

    def _tally(self, payload: NDArray[np.unsignedinteger]) -> NDArray[np.int64]:
        total = int(payload.sum(dtype=np.uint64)) % self.modulus
        return np.array([total], dtype=np.int64)

    def _level_sum(self, tally: Tally, source: Source | None) -> int:
        total = int(tally.counts[0])
        # What no sum can be lies in the middle between the largest and, modulo q, the least.
        beyond = 2 * total > tally.users * self._levels + self.modulus
        return total - self.modulus if beyond else total

    def _simulate_levels(self, held: Holding, source: Source) -> NDArray[np.int64]:
        times = Fraction(held.users, self.crowd.honest)
        plus, minus = (long_negative_binomial(source, times, self._rate) for _ in range(2))
        return np.array([(level_sum(held) + plus - minus) % self.modulus], dtype=np.int64)
