"""Additive shares: a number becomes m numbers modulo q that add up to it and are otherwise uniform.

Notation    N people share a number each, in m shares modulo q = 2^b. An adversary sees all N·m
            shares without their order.
Privacy     Numbers with the same sum have views within total variation 2^−σ of each other, if
            m ≥ 2 + (2σ + log2 q)/(log2 N − log2 e) and N ≥ 19 (Balle, Bell, Gascón, Nissim 2020).
            A variant of the theorem with 1 instead of 2 is wrong, as tests show.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.laws import ROUNDING
from headcount.core.messages import Alphabet, Messages
from headcount.core.randomizer import BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.protocols.levels import NoisySum

LEAST_SHARERS = 19  # the smallest N for which the theorem holds
MOST_MODULUS = 2**63
RARE_BITS = 100  # noise leaves the range of q on either side with probability below 2^−100
_CHUNK = 1 << 18  # the number of bytes of shares that are made at a time


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
        """The shares of each secret, which is a number modulo 2^64. Note that q divides 2^64."""
        users, shares, dtype = len(secrets), self.shares, self.alphabet.dtype
        payload = np.empty((users, shares), dtype=dtype)
        mask = dtype.type(self.modulus - 1)
        rows = max(1, _CHUNK // (shares * dtype.itemsize))
        for start in range(0, users, rows):
            piece = payload[start : start + rows]
            source.fill(piece.reshape(-1).view(np.uint8))
            # Converting to a smaller type keeps the low bits, which are enough.
            last = secrets[start : start + rows].astype(dtype)
            for column in range(shares - 1):
                last -= piece[:, column]
            piece[:, -1] = last
            piece &= mask
        counts = np.broadcast_to(np.int64(shares), users)
        return Messages(payload.reshape(-1), users, counts)

    def law(self, value: int) -> BundleLaw | None:
        return None


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
        total = int(tally.counts[0])
        # Modulo q, the impossible sums lie between the largest and the smallest possible sum. A
        # total above their middle stands for a negative sum.
        beyond = 2 * total > tally.users * self.grid.levels + self.modulus
        return total - self.modulus if beyond else total


def modulus_for(room: int) -> int:
    """The smallest power of two with room for at least twice this number of sums."""
    return 1 << (2 * room - 1).bit_length()


def shares_needed(sharers: int, modulus: int, sigma: float) -> int:
    """The smallest m for which numbers of the same sum have views within 2^−σ of each other."""
    gained = math.log2(sharers) - math.log2(math.e)
    return math.ceil(2 + (2 * sigma + math.log2(modulus)) / gained * (1 + 16 * ROUNDING))


def security(sharers: int, modulus: int, shares: int) -> float:
    """The largest σ for this number of shares."""
    gained = math.log2(sharers) - math.log2(math.e)
    return ((shares - 2) * gained - math.log2(modulus)) / 2 * (1 - 16 * ROUNDING)
