"""Secret sharing for all split-and-mix protocols: people divide their secrets into shares.

Notation    A secret is a number modulo q = 2^b, or a vector of d such numbers. So secrets form a
            group of Q elements, with Q = q or Q = q^d. h people are honest, and each of them sends
            m shares.
Randomizer  Send m elements of the group that add up to the secret and are otherwise uniform. The
            secret is the person's value plus, for each number, a share Z1 − Z2 of geometric noise,
            where Z1, Z2 ~ NB(1/h, e^−rate). NB is the negative binomial law (see
            `geometric_error`).
Analyzer    Add up all messages modulo q. Read each total as a number between about −q/2 + s/2 and
            q/2 + s/2, where s is the largest possible sum without noise.
Privacy     If m ≥ 2 + (2σ + log2 Q)/(log2 h − log2 e) and h ≥ 19, the messages of the honest people
            are within total variation 2^−σ of messages that depend only on the sum of their
            secrets. Balle, Bell, Gascón and Nissim (2020) prove this for numbers modulo q. (The
            same bound with 1 + … instead of 2 + … is wrong, as tests show.) The bound holds for
            every group, because the following proof depends on the group only through Q. Suppose
            that, for each j, the j-th shares of all people are mixed only with each other. This
            reveals more than mixing all shares. The view is the list of all messages after mixing.
            Compare the view with uniform messages of the same sum. The χ² divergence is at most
            E[Q^{C−1}] − 1, where C is the number of orbits of m − 1 random permutations of h
            people. The reason is that two ways of mixing agree on a view if the shares add up
            correctly on each of the C orbits. E[Q^C] is the sum of 1/M^{m−2} over all multinomial
            coefficients M = h!/(h_1!⋯h_Q!). Q of these coefficients are 1, and the others
            contribute less than Q²(e/h)^{m−2} = Q·2^{−2σ}. Tests compute these sums.
Error       If everyone is honest, the sum of all noise is geometric noise, as in central trust.
            Otherwise the sum is larger (see `geometric_error`). The probability that the noisy sum
            leaves the range of the analyzer is below 2^−99.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.laws import ROUNDING
from headcount.core.budget import MOST_USERS, Trust
from headcount.core.bundles import RESERVED
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible
from headcount.core.guarantee import Guarantee, NearCurve, PrivacyCurve
from headcount.core.influence import Shifts
from headcount.core.messages import Alphabet, Messages
from headcount.core.promise import promise
from headcount.core.protocol import Protocol
from headcount.core.randomizer import BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.core.table import short
from headcount.core.tally import Tally
from headcount.core.task import Holding
from headcount.protocols.geometric_error import GeometricError
from headcount.protocols.levels import NoisySum
from headcount.randomness.shares import LEAST_GAMMA, NegativeBinomialShare
from headcount.randomness.totals import long_negative_binomial

LEAST_SHARERS = 19  # the smallest number h of honest people for which the theorem holds
MOST_MODULUS = 2**63
RARE_BITS = 100  # on each side, the noisy sum leaves its range with probability below 2^−100
_CHUNK = 1 << 18  # the number of bytes of shares that are made at a time


# Shares ---------------------------------------------------------------------------------------


def split(
    secrets: NDArray[np.uint64], shares: int, modulus: int, source: Source
) -> NDArray[np.unsignedinteger]:
    """The shares of each secret. Entry (i, j) is share j of person i, a number or a vector.

    Secrets are given modulo 2^64. Converting them to a smaller type keeps their low bits, which are
    enough to compute modulo q, because q divides 2^64.
    """
    users, width = len(secrets), math.prod(secrets.shape[1:])
    dtype = np.min_scalar_type(modulus - 1)
    payload = np.empty((users, shares, *secrets.shape[1:]), dtype=dtype)
    mask = dtype.type(modulus - 1)
    rows = max(1, _CHUNK // (shares * width * dtype.itemsize))
    for start in range(0, users, rows):
        piece = payload[start : start + rows]
        source.fill(piece.reshape(-1).view(np.uint8))
        last = secrets[start : start + rows].astype(dtype)
        for column in range(shares - 1):
            last -= piece[:, column]
        piece[:, -1] = last
        piece &= mask
    return payload


def add_noise(
    secrets: NDArray[np.uint64], noise: NegativeBinomialShare, source: Source
) -> NDArray[np.uint64]:
    """The secrets with a share Z1 − Z2 of noise on each number, modulo 2^64."""
    flat = secrets.reshape(-1)
    for sign in (1, -1):
        places, drawn = noise.draw(source, len(flat))
        flat[places] += (sign * drawn).astype(np.uint64)
    return secrets


def read(totals: NDArray[np.int64], modulus: int, most: int) -> NDArray[np.int64]:
    """The sums that the totals modulo q represent, if sums without noise are from 0 to `most`.

    Totals between `most` and q occur only because of noise. A total above the middle of this gap
    represents a negative sum.
    """
    half = modulus // 2  # q itself may be 2^63, which is too large for an int64
    return np.where(totals > (most + modulus) // 2, totals - half - half, totals)


def modulus_for(room: int) -> int:
    """The smallest power of two that is at least twice `room`, the number of possible sums."""
    return 1 << (2 * room - 1).bit_length()


def sigma_for(epsilon: float, delta: float) -> float:
    """A number slightly above the least σ with (1 + e^ε)·2^−σ ≤ δ."""
    return (math.log2(1 + math.exp(epsilon)) - math.log2(delta)) * (1 + 2.0**-40)


def shares_needed(honest: int, group_bits: float, sigma: float) -> int:
    """The smallest m for which messages depend only on the sum, up to total variation 2^−σ.

    `group_bits` is log2 Q.
    """
    gained = math.log2(honest) - math.log2(math.e)
    return math.ceil(2 + (2 * sigma + group_bits) / gained * (1 + 16 * ROUNDING))


def security(honest: int, group_bits: float, shares: int) -> float:
    """The largest σ that the theorem gives for this number of shares."""
    gained = math.log2(honest) - math.log2(math.e)
    return ((shares - 2) * gained - group_bits) / 2 * (1 - 16 * ROUNDING)


# Randomizer and analyzer for a sum of levels --------------------------------------------------


@dataclass(frozen=True)
class ShareRandomizer(Randomizer):
    """Splits the level into m shares modulo q."""

    modulus: int  # q, a power of two
    shares: int  # m

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.numbers(self.modulus)

    @property
    def fixed_messages(self) -> int:
        return self.shares

    @property
    def instructions(self) -> Mapping[str, Any]:
        return {"kind": "shares", "modulus": str(self.modulus), "shares": self.shares}

    def send(self, encoded: NDArray[np.integer], source: Source) -> Messages:
        return self.split(encoded.astype(np.uint64), source)

    def split(self, secrets: NDArray[np.uint64], source: Source) -> Messages:
        """The shares of each secret, which is a number modulo 2^64."""
        payload = split(secrets, self.shares, self.modulus, source)
        counts = np.broadcast_to(np.int64(self.shares), len(secrets))
        return Messages(payload.reshape(-1), len(secrets), counts)

    def law(self, value: int) -> BundleLaw | None:
        return None  # there are too many possible shares to list


@dataclass(frozen=True)
class SharedSum(NoisySum):
    """Adds up all shares modulo q. The result is the sum of all levels plus all noise."""

    modulus: int  # q

    tally_size = 1

    @property
    def tally_modulus(self) -> int:
        return self.modulus

    def count(self, payload: NDArray[np.unsignedinteger]) -> NDArray[np.int64]:
        total = int(payload.sum(dtype=np.uint64)) % self.modulus
        return np.array([total], dtype=np.int64)

    def level_sum(self, tally: Tally, source: Source | None) -> int:
        return int(read(tally.counts, self.modulus, tally.users * self.grid.levels)[0])

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        # One share can change the sum to any number modulo q.
        most = (users * self.grid.levels + self.modulus) // 2
        nothing = self.grid.task.answer(Holding(np.array([self.grid.task.low]), np.array([users])))
        least, largest = (
            float(nothing + float(self.unit(users) * total))
            for total in (most + 1 - self.modulus, most)
        )
        return replace(self.level_shifts(users, 0, 0), answers=(least, largest))


# The noise of many people ---------------------------------------------------------------------


@dataclass(frozen=True)
class SharedNoise:
    """The noise on each number, divided into shares for `honest` people."""

    rate: Fraction
    honest: int  # h

    def room(self, users: int, levels: int) -> int:
        """The number of different noisy sums of `users` people that the modulus must represent.

        Each person adds between 0 and `levels`. Let z be the `reach` of the noise. ΣZ1 exceeds z
        with probability below 2^−100, and so does ΣZ2. The reason is that
        E[a^{−Z/2}] = (1 + √a)^t ≤ 2^t for Z ~ NB(t, a), so P(Z > z) ≤ 2^t·a^{z/2}. Here t is
        `users`/`honest` and a is e^−rate.
        """
        times = users / self.honest
        reach = math.ceil(2 * math.log(2) * (RARE_BITS + times) / float(self.rate)) + 1
        return users * levels + 2 * reach + 1

    def most_users(self, levels: int, modulus: int) -> int:
        """The largest number of people whose noisy sums the modulus can represent."""
        few, many = 1, MOST_USERS + 1
        while many - few > 1:
            middle = (few + many) // 2
            fits = self.room(middle, levels) <= modulus
            few, many = (middle, many) if fits else (few, middle)
        return few

    def totals(self, users: int, source: Source, count: int = 1) -> NDArray[np.int64]:
        """The noise of all people together on each of `count` numbers."""
        times = Fraction(users, self.honest)
        plus, minus = (long_negative_binomial(source, times, self.rate, count) for _ in range(2))
        return plus - minus

    def error(self, users: int) -> GeometricError:
        return GeometricError(float(self.rate), Fraction(users, self.honest))


# Calibration and privacy ----------------------------------------------------------------------


@dataclass(frozen=True)
class SecretSharing(Protocol):
    """A protocol that computes one or more sums of levels 0, …, L from shares."""

    trust = Trust.SHUFFLE

    @property
    @abstractmethod
    def levels(self) -> int:
        """The largest number L that a person adds to a sum."""

    @property
    @abstractmethod
    def rate(self) -> Fraction:
        """The rate of the noise of each sum."""

    @property
    @abstractmethod
    def numbers(self) -> int:
        """The number d of numbers in one secret."""

    @property
    @abstractmethod
    def changed(self) -> int:
        """The number of sums that change if one value is replaced."""

    @property
    @abstractmethod
    def changed_secrets(self) -> int:
        """The number of a person's secrets to which the changed sums belong."""

    @property
    @abstractmethod
    def sum_curve(self) -> PrivacyCurve:
        """The privacy curve of the sums with their noise. δ is 0 at the budget's ε."""

    @cached_property
    def modulus(self) -> int:
        """The modulus q."""
        self._check_feasible()
        return modulus_for(self._room)

    @cached_property
    def shared_noise(self) -> SharedNoise:
        return SharedNoise(self.rate, self.crowd.honest)

    @cached_property
    def noise(self) -> NegativeBinomialShare:
        """The law of Z1 and of Z2."""
        return NegativeBinomialShare(Fraction(1, self.crowd.honest), self.rate)

    @cached_property
    def shares(self) -> int:
        """The number m of shares of each secret."""
        bits = self._group_bits  # raises `Infeasible` if there is no modulus
        # Each changed secret costs (1 + e^ε)·2^−σ of δ. A part of δ is reserved for rounded tables.
        allowed = self.budget.delta * (1 - RESERVED) / self.changed_secrets
        return shares_needed(self.crowd.honest, bits, sigma_for(self.budget.epsilon, allowed))

    @property
    def sigma(self) -> float:
        """The security parameter σ of the shares of one secret."""
        return security(self.crowd.honest, self._group_bits, self.shares)

    @cached_property
    def curve(self) -> NearCurve:
        shown = self.changed_secrets * 2.0**-self.sigma
        drawn = 2 * self.changed * self.crowd.honest * self.noise.variation
        return NearCurve(self.sum_curve, shown + drawn)

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

    @property
    def _group_bits(self) -> int:
        """The number log2 Q."""
        return self.numbers * (self.modulus.bit_length() - 1)

    @property
    def _room(self) -> int:
        return self.shared_noise.room(self.crowd.users, self.levels)

    def _check_feasible(self) -> None:
        if not self.budget.delta:
            raise Infeasible(
                f"{self.name} needs delta above 0: with a small probability, shares reveal a value",
                nearest={"delta": 1e-9},
            )
        if self.crowd.honest < LEAST_SHARERS:
            raise Infeasible(
                f"{self.name} needs at least {LEAST_SHARERS} honest people, "
                f"got {self.crowd.honest}",
                nearest={"honest": LEAST_SHARERS},
            )
        if self.rate < LEAST_GAMMA:
            raise self._too_small_rate()
        if 2 * self._room > MOST_MODULUS:
            raise Infeasible(
                f"{self.name} needs a modulus above 2^63 for {self.crowd.users} people, "
                f"{self.levels} levels and epsilon={short(self.budget.epsilon)}"
            )

    @abstractmethod
    def _too_small_rate(self) -> Infeasible:
        """The exception to raise if the rate is below `LEAST_GAMMA`."""
