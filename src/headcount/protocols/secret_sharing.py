"""Secrets that people divide into shares, which all protocols of split and mix use.

Notation    A secret is a number modulo q = 2^b, or a vector of d such numbers. So secrets form a
            group of Q elements, with Q = q or Q = q^d. h people are honest, and each of them sends
            m shares.
Randomizer  Send m elements of the group that add up to the secret and are otherwise uniform. The
            secret is what the person holds, plus a share Z1 − Z2 of geometric noise for each
            number, Z1, Z2 ~ NB(1/h, e^−rate).
Analyzer    The sum of all messages modulo q, read as numbers between about −q/2 + s/2 and
            q/2 + s/2, where s is the largest true sum.
Privacy     If m ≥ 2 + (2σ + log2 Q)/(log2 h − log2 e) and h ≥ 19, the messages of the honest people
            are within total variation 2^−σ of messages that depend only on the sum of their
            secrets. Balle, Bell, Gascón and Nissim (2020) prove this for numbers modulo q. (A
            variant with 1 instead of 2 is wrong, as tests show.) It holds for every group, since
            the following proof needs nothing but Q. Suppose that share j of everybody is mixed only
            with the other shares j, which shows more. Compare the view with uniform messages of the
            same sum. Their χ² divergence is at most E[Q^{C−1}] − 1, where C is the number of orbits
            of m − 1 random permutations of h people: two ways to mix agree on a view if the shares
            add up on each of C components of a graph. And E[Q^C] is the sum of 1/M^{m−2} over all
            multinomial coefficients M = h!/(h_1!⋯h_Q!). Q of them are 1, and the others add
            less than Q²(e/h)^{m−2} = Q·2^{−2σ}. Tests compute these sums.
Error       The sum of all noise is geometric noise, as in central trust. The sum with noise exceeds
            the range of q with probability below 2^−99.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction

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

LEAST_SHARERS = 19  # the smallest number h of people for which the theorem is stated
MOST_MODULUS = 2**63
RARE_BITS = 100  # the sum leaves the range of q on either side with probability below 2^−100
_CHUNK = 1 << 18  # the number of bytes of shares that are made at a time


# Shares ---------------------------------------------------------------------------------------


def split(
    secrets: NDArray[np.uint64], shares: int, modulus: int, source: Source
) -> NDArray[np.unsignedinteger]:
    """The shares of each secret. Entry (i, j) is share j of person i, a number or a vector.

    Secrets are numbers modulo 2^64, which q divides. Converting to a smaller type keeps the low
    bits, which are enough.
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
    """The sums that the totals modulo q stand for, if true sums are between 0 and `most`.

    Modulo q, the impossible sums lie between the largest and the smallest possible sum. A total
    above their middle stands for a negative sum.
    """
    half = modulus // 2  # q itself may be 2^63, which is too large for the type
    return np.where(totals > (most + modulus) // 2, totals - half - half, totals)


def modulus_for(room: int) -> int:
    """The smallest power of two with room for at least twice this number of sums."""
    return 1 << (2 * room - 1).bit_length()


def shares_needed(honest: int, group_bits: float, sigma: float) -> int:
    """The smallest m for which secrets of the same sum have views within total variation 2^−σ.

    `group_bits` is log2 Q.
    """
    gained = math.log2(honest) - math.log2(math.e)
    return math.ceil(2 + (2 * sigma + group_bits) / gained * (1 + 16 * ROUNDING))


def security(honest: int, group_bits: float, shares: int) -> float:
    """The largest σ for this number of shares."""
    gained = math.log2(honest) - math.log2(math.e)
    return ((shares - 2) * gained - group_bits) / 2 * (1 - 16 * ROUNDING)


# The roles of a sum of levels -------------------------------------------------------------------


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

    def send(self, encoded: NDArray[np.integer], source: Source) -> Messages:
        return self.split(encoded.astype(np.uint64), source)

    def split(self, secrets: NDArray[np.uint64], source: Source) -> Messages:
        """The shares of each secret, which is a number modulo 2^64."""
        payload = split(secrets, self.shares, self.modulus, source)
        counts = np.broadcast_to(np.int64(self.shares), len(secrets))
        return Messages(payload.reshape(-1), len(secrets), counts)

    def law(self, value: int) -> BundleLaw | None:
        return None  # shares are too many to list


@dataclass(frozen=True)
class SharedSum(NoisySum):
    """Adds up all shares modulo q. The result is the sum of all levels and of all noise."""

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
        # One share changes the sum to any number modulo q.
        most = (users * self.grid.levels + self.modulus) // 2
        nothing = self.grid.task.answer(Holding(np.array([self.grid.task.low]), np.array([users])))
        least, largest = (
            float(nothing + float(self.unit(users) * total))
            for total in (most + 1 - self.modulus, most)
        )
        return replace(self.level_shifts(users, 0, 0), answers=(least, largest))


# Sums of the noise of many people --------------------------------------------------------------


@dataclass(frozen=True)
class SharedNoise:
    """The noise of each number, in shares of `honest` people."""

    rate: Fraction
    honest: int  # h

    def room(self, users: int, levels: int) -> int:
        """The number of different sums of this many people for which the modulus must have room.

        A person adds 0, …, `levels`. The sum ΣZ1 exceeds the reach z with probability below 2^−100,
        and so does ΣZ2. The reason is that E[a^{−Z/2}] = (1 + √a)^t ≤ 2^t for Z ~ NB(t, a), so
        P(Z > z) ≤ 2^t·a^{z/2}.
        """
        times = users / self.honest
        reach = math.ceil(2 * math.log(2) * (RARE_BITS + times) / float(self.rate)) + 1
        return users * levels + 2 * reach + 1

    def most_users(self, levels: int, modulus: int) -> int:
        """The largest crowd for whose sums the modulus has room."""
        few, many = 1, MOST_USERS + 1
        while many - few > 1:
            middle = (few + many) // 2
            fits = self.room(middle, levels) <= modulus
            few, many = (middle, many) if fits else (few, middle)
        return few

    def totals(self, users: int, source: Source, count: int = 1) -> NDArray[np.int64]:
        """All people's noise on each of `count` numbers."""
        times = Fraction(users, self.honest)
        plus, minus = (long_negative_binomial(source, times, self.rate, count) for _ in range(2))
        return plus - minus

    def error(self, users: int) -> GeometricError:
        return GeometricError(float(self.rate), Fraction(users, self.honest))


# Calibration and privacy ----------------------------------------------------------------------


@dataclass(frozen=True)
class SecretSharing(Protocol):
    """The number of shares and the privacy, for one or more sums of levels 0, …, L."""

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
        """The number d of numbers that are shared together."""

    @property
    @abstractmethod
    def changed(self) -> int:
        """How many sums change if one value is replaced."""

    @property
    @abstractmethod
    def changed_secrets(self) -> int:
        """How many secrets of a person, each with its own shares, these sums belong to."""

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
        bits = self._group_bits  # this refuses what is not feasible
        # (1 + e^ε)·2^−σ for each secret is δ, except for the part that is reserved for the tables.
        allowed = self.budget.delta * (1 - RESERVED) / self.changed_secrets
        sigma = math.log2(1 + math.exp(self.budget.epsilon)) - math.log2(allowed)
        return shares_needed(self.crowd.honest, bits, sigma)

    @property
    def sigma(self) -> float:
        """The security σ of the shares of one secret."""
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
                f"{self.name} needs delta above 0: with a small probability shares reveal a value",
                nearest={"delta": 1e-9},
            )
        if self.crowd.honest < LEAST_SHARERS:
            raise Infeasible(
                f"{self.name} needs at least {LEAST_SHARERS} honest people, "
                f"got {self.crowd.honest}",
                nearest={"honest": LEAST_SHARERS},
            )
        if self.rate < LEAST_GAMMA:
            raise self._too_little_noise()
        if 2 * self._room > MOST_MODULUS:
            raise Infeasible(
                f"{self.name} needs a modulus above 2^63 for {self.crowd.users} people, "
                f"{self.levels} levels and epsilon={short(self.budget.epsilon)}"
            )

    @abstractmethod
    def _too_little_noise(self) -> Infeasible:
        """The error if the rate is below `LEAST_GAMMA`."""
