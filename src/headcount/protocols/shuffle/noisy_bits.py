"""Sums of levels that are sent as bits. The shuffler adds bits as noise.

Notation    The levels are 0, …, L (see `fixed_point`), and they have b binary digits. A bit has a
            place j and stands for 2^j levels.
Randomizer  Levels as bits: send L bits of place 0. The number of ones is the person's level. Levels
            as digits: send one bit for each binary digit of the level, at the digit's place.
Shuffler    Add T_j bits of each place j. Z_j of them are ones. The law of Z_j is truncated
            geometric on 0, …, T_j with rate ε_j (see `accounting.truncated_geometric`).
Analyzer    Count the ones y_j of each place. The estimate of the sum of all levels is
            S = Σ 2^j·(y_j − T_j/2).
Error       The variance of S is Σ 4^j Var Z_j for all data.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.divergence import PairCurve
from headcount.accounting.laws import ROUNDING, Law
from headcount.accounting.truncated_geometric import TOTAL, TruncatedGeometric, float_above
from headcount.core.cached import cached_property
from headcount.core.guarantee import NearCurve, PrivacyCurve
from headcount.core.messages import Alphabet, Messages
from headcount.core.randomizer import MOST_BUNDLES, Bundle, BundleLaw, Randomizer, bundle_of
from headcount.core.shuffler import Noise, NoiseLaw, Shuffler
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding
from headcount.protocols.levels import NoisySum, level_sum
from headcount.protocols.truncated_error import TruncatedError
from headcount.randomness.table import ThresholdTable

_CHUNK = 1 << 18  # the number of bits that are set at a time

# Randomizers ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class BitRandomizer(Randomizer):
    """Sends L bits, with the person's level as the number of ones."""

    bits: int  # L

    alphabet = Alphabet(np.uint8, range(2))

    @property
    def fixed_messages(self) -> int:
        return self.bits

    @property
    def instructions(self) -> Mapping[str, Any]:
        return {"kind": "bits", "bits": self.bits, "weight": "0"}

    def send(self, encoded: NDArray[np.integer], source: Source) -> Messages:
        users, bits = len(encoded), self.bits
        payload = np.empty((users, bits), dtype=np.uint8)
        places = np.arange(bits)
        rows = max(1, _CHUNK // bits)
        for start in range(0, users, rows):
            payload[start : start + rows] = places < encoded[start : start + rows, None]
        return Messages(payload.reshape(-1), users, np.broadcast_to(np.int64(bits), users))

    def law(self, value: int) -> BundleLaw:
        return {bundle_of([(0, self.bits - value), (1, value)]): Fraction(1)}


@dataclass(frozen=True)
class DigitRandomizer(Randomizer):
    """Sends 2j + d for each binary digit d of the person's level, where j is the digit's place."""

    digits: int  # b

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.numbers(2 * self.digits)

    @property
    def fixed_messages(self) -> int:
        return self.digits

    @property
    def instructions(self) -> Mapping[str, Any]:
        return {"kind": "digits", "digits": self.digits}

    def send(self, encoded: NDArray[np.integer], source: Source) -> Messages:
        users = len(encoded)
        places = np.arange(self.digits)
        payload = (2 * places + (encoded.astype(np.int64)[:, None] >> places & 1)).astype(np.uint8)
        return Messages(payload.reshape(-1), users, np.broadcast_to(np.int64(self.digits), users))

    def law(self, value: int) -> BundleLaw:
        return {tuple((2 * j + (value >> j & 1), 1) for j in range(self.digits)): Fraction(1)}


# Shuffler -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class BitShuffler(Shuffler):
    """Mixes all bits, and adds T_j bits of each place j, of which Z_j are ones."""

    places: tuple[TruncatedGeometric, ...]
    each: int  # the number of bits that a person sends

    adds = True

    @property
    def dummies(self) -> int:
        """The number of bits that the shuffler adds."""
        return sum(law.most for law in self.places)

    def fits(self, users: int, messages: int) -> bool:
        return messages == self.each * users + self.dummies

    @cached_property
    def _tables(self) -> tuple[ThresholdTable, ...]:
        return tuple(ThresholdTable(law.weights) for law in self.places)

    def noise(self, users: int, source: Source) -> Noise:
        ones = [int(table.sample(source, 1)[0]) for table in self._tables]
        copies = [n for law, z in zip(self.places, ones, strict=True) for n in (law.most - z, z)]
        return Noise(np.repeat(np.arange(len(copies), dtype=np.uint8), copies))

    def noise_law(self, users: int) -> NoiseLaw | None:
        if math.prod(law.most + 1 for law in self.places) > MOST_BUNDLES:
            return None
        law: dict[tuple[Bundle, bool], Fraction] = {}
        for ones in product(*(range(place.most + 1) for place in self.places)):
            copies: list[tuple[int, int]] = []
            chance = Fraction(1)
            for j, (place, z) in enumerate(zip(self.places, ones, strict=True)):
                copies += [(2 * j, place.most - z), (2 * j + 1, z)]
                chance *= Fraction(place.weights[z], TOTAL)
            law[bundle_of(copies), False] = chance
        return law


# Analyzer and its error -----------------------------------------------------------------------


@dataclass(frozen=True)
class BitSum(NoisySum):
    """Counts the ones of each place, and subtracts the mean of the shuffler's ones."""

    places: tuple[TruncatedGeometric, ...]

    @property
    def tally_size(self) -> int:
        return len(self.places)

    def count(self, payload: NDArray[np.uint8]) -> NDArray[np.int64]:
        if len(self.places) == 1:  # many times faster than counting zeros and ones
            return np.array([np.count_nonzero(payload)])
        return np.bincount(payload, minlength=2 * len(self.places))[1::2].astype(np.int64)

    def level_sum(self, tally: Tally, source: Source | None) -> int:
        ones = zip(tally.counts.tolist(), self.places, strict=True)
        return sum((y - law.most // 2) << j for j, (y, law) in enumerate(ones))

    def simulate_levels(self, held: Holding, source: Source) -> NDArray[np.int64]:
        if len(self.places) == 1:
            return np.array([level_sum(held)])
        places = np.arange(len(self.places))
        digits: NDArray[np.int64] = held.values[:, None] >> places & 1
        return held.counts @ digits

    def noise_error(self, users: int) -> TruncatedError:
        return TruncatedError(self.places)


# Privacy of digits ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DigitCurve(PrivacyCurve):
    """The privacy curve of the numbers of ones, if every digit of a level may change.

    Compare Z_j with Z_j shifted by 1. There are three kinds of outcomes. The outcome 0 has no
    partner, since it is impossible after the shift. Outcomes up to the middle have the loss ε_j,
    and those above the middle have the loss −ε_j. So for ε ≥ Σ ε_j, δ(ε) = 1 − Π(1 − P(Z_j = 0))
    exactly. If fewer digits change, δ is smaller. The law of every Z_j is symmetric, so it does not
    matter which digits change from 0 to 1, and which from 1 to 0.
    """

    places: tuple[TruncatedGeometric, ...]

    @cached_property
    def hidden(self) -> Fraction:
        """The probability that the outcome of at least one Z_j is 0, and so has no partner."""
        return 1 - math.prod((1 - law.below(1) for law in self.places), start=Fraction(1))

    def _delta(self, epsilon: float) -> float:
        if epsilon >= sum(law.rate for law in self.places):
            return float_above(self.hidden)
        return self._below.delta(epsilon)

    def _deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.array([self._delta(float(epsilon)) for epsilon in epsilons])

    @property
    def bends(self) -> NDArray[np.float64]:
        return self._below.bends

    @cached_property
    def _below(self) -> NearCurve:
        """The curve for all ε. Outcomes of the same kind are merged, which would be exact if the
        weights were not rounded. So δ is increased by a bound on the effect of rounding.
        """
        laws = [_kinds(law) for law in self.places]
        own, others = (reduce(np.kron, masses) for masses in zip(*laws, strict=True))
        slack = (16 + 4 * len(laws)) * ROUNDING
        upper = Law(0, np.concatenate([[float(self.hidden)], own]), slack)
        return NearCurve(
            PairCurve(((upper, Law(1, others, slack)),)), sum(map(_rounded, self.places))
        )


def _kinds(law: TruncatedGeometric) -> tuple[NDArray[Any], NDArray[Any]]:
    """The probabilities of outcomes with a partner, up to the middle and above the middle.

    The first array has these probabilities for Z_j, and the second has them for Z_j shifted by 1.
    """
    half, weights = law.most // 2, law.weights
    sides = (slice(1, half + 1), slice(half + 1, None)), (slice(0, half), slice(half, -1))
    own, moved = ([sum(weights[side]) / TOTAL for side in both] for both in sides)
    return np.array(own), np.array(moved)


def _rounded(law: TruncatedGeometric) -> float:
    """A bound on twice the total variation between the integer weights and the law before rounding.

    From the middle to each end, weights are rounded up by less than 1 per step, and each error
    shrinks in later steps. So each of T + 1 weights has an error of at most h = T/2. The error in
    the middle is smaller. The weight that is then missing from the total is at most
    h(h + 1) + 2(T + 1), and each end gets half of it.
    """
    return 4 * (law.most + 1) ** 2 / TOTAL


def digit_rates(epsilon: float, digits: int) -> Iterator[Fraction]:
    """The rates ε_j of the places 0, 1, …, which add up to ε exactly. They are proportional to
    4^{j/3}, because this minimizes Σ 4^j·2/ε_j², which is about the variance of S.
    """
    weights = [4 ** (j / 3) for j in range(digits)]
    left = Fraction(epsilon)
    for weight in weights[:-1]:
        rate = Fraction(epsilon * weight / math.fsum(weights))
        left -= rate
        yield rate
    yield left
