"""Sums of levels that are sent as shares. The shuffler adds the shares of dummy people.

Notation    The levels are 0, …, L (see `fixed_point`). A share is a number modulo q = 2^b. σ states
            how well shares hide the numbers that are shared (see `secret_sharing`).
Randomizer  Send m shares that add up to the person's level, without noise (see `secret_sharing`).
Shuffler    Add m shares for each of k dummy people. The first dummy person shares the noise Z, and
            all other dummy people share the number 0. Z is drawn exactly, with
            P(Z = z) = (1−a)/(1+a)·a^|z| and a = e^{−ε/L}.
Analyzer    The sum of all shares modulo q.
Privacy     One honest person and the dummy people are N = 1 + k people who send shares. Their
            messages are within total variation 2^−σ of messages that depend only on the sum of the
            numbers that these people share. So δ(ε') is at most the divergence of Z and Z + L at
            ε', plus (1 + e^ε')·2^−σ. No other person needs to be honest: the adversary may know the
            shares of all other people.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.laws import ROUNDING
from headcount.core.budget import MOST_USERS
from headcount.core.shuffler import Noise, NoiseLaw, Shuffler
from headcount.core.source import Source
from headcount.core.task import Holding
from headcount.protocols.geometric_error import GeometricError
from headcount.protocols.levels import level_sum
from headcount.protocols.secret_sharing import (
    LEAST_SHARERS,
    RARE_BITS,
    SharedSum,
    ShareRandomizer,
    security,
    shares_needed,
)
from headcount.randomness.discrete_laplace import discrete_laplace

LEAST_DUMMIES = LEAST_SHARERS - 1  # with this many dummy people, one honest person is enough
MOST_DUMMIES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class ShareShuffler(Shuffler):
    """Adds shares of k dummy people, whose numbers add up to the noise, and mixes all shares."""

    sharing: ShareRandomizer
    people: int  # k
    rate: Fraction  # ε/L

    adds = True

    def fits(self, users: int, messages: int) -> bool:
        return messages == self.sharing.shares * (users + self.people)

    def noise(self, users: int, source: Source) -> Noise:
        numbers = np.zeros(self.people, dtype=np.uint64)
        numbers[0] = int(discrete_laplace(source, self.rate, 1)[0]) % self.sharing.modulus
        return Noise(self.sharing.split(numbers, source).payload)

    def noise_law(self, users: int) -> NoiseLaw | None:
        return None


@dataclass(frozen=True)
class ShareSum(SharedSum):
    """Adds up all shares. Only the shuffler adds noise."""

    rate: Fraction  # ε/L

    @property
    def most_users(self) -> int:
        return min(MOST_USERS, (self.modulus - noise_room(self.rate)) // self.grid.levels)

    def simulate_levels(self, held: Holding, source: Source) -> NDArray[np.int64]:
        return np.array([level_sum(held) % self.modulus], dtype=np.int64)

    def noise_error(self, users: int) -> GeometricError:
        return GeometricError(float(self.rate))


def noise_room(rate: Fraction) -> int:
    """The number of values in a range around 0 that the noise leaves with probability at most
    2^−100 on each side.

    P(Z > z) = a^{z+1}/(1 + a) ≤ e^{−rate·z}.
    """
    return 2 * math.ceil(RARE_BITS * math.log(2) / float(rate) + 1) + 1


def dummies_for(shares: int, modulus: int, sigma: float) -> int | None:
    """The least number k of dummy people for m = `shares` and σ = `sigma`, or None if k would
    exceed `MOST_DUMMIES`.
    """
    digits = (2 * sigma + math.log2(modulus)) / (shares - 2) + math.log2(math.e)
    if digits > math.log2(MOST_DUMMIES) + 1:
        return None
    people = max(LEAST_DUMMIES, math.ceil(2**digits) - 1)
    # Rounding errors may have made the ceiling too small.
    while shares_needed(1 + people, math.log2(modulus), sigma) > shares:
        people += 1
    return people if people <= MOST_DUMMIES else None


def fewest_messages(users: int, modulus: int, sigma: float) -> int:
    """The k with which people and dummy people together send the fewest shares, m·(n + k)."""
    most = shares_needed(LEAST_SHARERS, math.log2(modulus), sigma)
    dummies = {m: dummies_for(m, modulus, sigma) for m in range(3, most + 1)}
    found = {m: k for m, k in dummies.items() if k is not None}
    return found[min(found, key=lambda m: m * (users + found[m]))]


def distance(people: int, modulus: int, shares: int) -> float:
    """The total variation 2^−σ for one honest person and k = `people` dummy people."""
    return math.exp2(-security(1 + people, math.log2(modulus), shares)) * (1 + 4 * ROUNDING)
