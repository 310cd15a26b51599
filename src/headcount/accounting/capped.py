"""The privacy of capped noise: each person sends a jump and pairs, with at most K − 1 messages.

Notation    Each person has K slots for messages. J = K − 1 of them are for noise. A cell is a
            count, or a bucket of a histogram. About `crowd` honest people have their noise in a
            cell. A person's jump is +j with probability c·e^{−ε₊j}/(j·crowd), and −j with
            probability c·e^{−ε₋j}/(j·crowd), for j = 1, …, J. For j = J, both probabilities are
            multiplied by κ. With the remaining probability, the jump is 0. A jump of ±j is sent as
            j messages ±1. Then the person draws a number R of pairs of +1 and −1. With
            m = ⌊(J − |jump|)/2⌋, R is 0 or m with probability 0.45 each, and 1 with probability
            0.1. If m = 1, R is 0 or 1 with probability ½ each. If m = 0, R is 0. If R were never 1,
            the sum of all R would lie on a lattice, which could reveal an odd jump.
View        The adversary sees (x + D + V, V), where x is the true count, D is the sum of all jumps,
            and V is the number of messages −1. So x + D + V is the number of messages +1. The noise
            does not depend on x, so all neighbors differ by a shift of D by 1.
The law     The number k of people who jump is binomial. The law of (D, V) is a mixture over k. For
            each k, the law of k people who jump is convolved with the law of all others' pairs. All
            sums are direct and have only positive terms, so even tiny probabilities are accurate.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from headcount.accounting import laws
from headcount.accounting.laws import ROUNDING, Law
from headcount.core.cached import cached_property

_EDGE, _ONE = Fraction(9, 20), Fraction(1, 10)  # P(R = 0) = P(R = m), and P(R = 1)
# Laws are cut off where probabilities are below this fraction of δ. The first number is for a
# count, the second for two buckets.
RARE = (2.0**-40, 2.0**-18)
_MISSED = 2.0**-12  # the fraction of δ that covers unlikely small numbers of people in a cell
_BLOCK = 2048  # the number of sums in each row that one matrix product computes
_OUTSIDE = 2.0**-260  # about the probability outside the window of a binomial law
_RANGES = 8  # the number of ranges into which the numbers of people in a bucket are divided
_MORE_RANGES = 12  # the number of ranges if a bucket has few people, whose number varies more
_FEW_PEOPLE = 1000  # at most this many people in a bucket are few
# The largest size of a law, and the largest number of multiplications to compute a law. The first
# number of each pair is for a count, the second for a bucket.
_LARGEST_LAW = (6e6, 1.6e6)
_MOST_WORK = (5e9, 1e9)
_TILTS = np.geomspace(1e-2, 300, 240)  # the tilts that are tried in Chernoff's bound


@dataclass(frozen=True)
class CappedNoise:
    """The noise of one person in a cell. The floats in `chances` are taken as exact.

    `crowd` is the average number of honest people who have their noise in the cell.
    """

    slots: int  # K
    crowd: float
    plus_rate: float  # ε₊
    minus_rate: float  # ε₋
    scale: float  # c
    last: float  # κ

    @property
    def longest(self) -> int:
        """The longest jump J."""
        return self.slots - 1

    @cached_property
    def jumps(self) -> NDArray[np.int64]:
        """All jumps but 0: −1, …, −J and 1, …, J."""
        sizes = np.arange(1, self.slots)
        return np.concatenate([-sizes, sizes])

    @cached_property
    def chances(self) -> NDArray[np.float64]:
        """The probability of each jump in `jumps`."""
        sizes = np.arange(1.0, self.slots)
        factors = np.where(sizes == self.longest, self.last, 1.0) * (self.scale / self.crowd)
        rates = (self.minus_rate, self.plus_rate)
        return np.concatenate([np.exp(-rate * sizes) / sizes * factors for rate in rates])

    @cached_property
    def jumping(self) -> Fraction:
        """The probability θ that a person jumps. The noise is only defined if θ ≤ 1."""
        return sum((Fraction(chance) for chance in self.chances.tolist()), Fraction(0))

    def most_pairs(self, jump: int) -> int:
        """The largest number m of pairs that fit beside a jump."""
        return (self.longest - abs(jump)) // 2

    @property
    def variance(self) -> float:
        """The variance of the jumps of `crowd` people."""
        mean = float(self.chances @ self.jumps)
        return self.crowd * (float(self.chances @ np.square(self.jumps)) - mean**2)

    @property
    def mean(self) -> Fraction:
        """The mean jump."""
        return self._moment(1)

    @property
    def square(self) -> Fraction:
        """The mean square of the jump."""
        return self._moment(2)

    def _moment(self, power: int) -> Fraction:
        both = zip(self.jumps.tolist(), self.chances.tolist(), strict=True)
        return sum((jump**power * Fraction(chance) for jump, chance in both), Fraction(0))

    def outcomes(self) -> Iterator[tuple[int, int, Fraction]]:
        """All (jump, R) with their probabilities."""
        chances = [1 - self.jumping, *map(Fraction, self.chances.tolist())]
        for jump, chance in zip([0, *self.jumps.tolist()], chances, strict=True):
            for pairs, part in pair_law(self.most_pairs(jump)).items():
                yield jump, pairs, chance * part

    def jump_law(self, share: Fraction) -> Law:
        """The law of a person's jump in a cell. With probability `share`, the person has noise in
        this cell. Otherwise the jump is 0.
        """
        mass = np.zeros(2 * self.longest + 1)
        mass[self.jumps + self.longest] = self.chances * float(share)
        mass[self.longest] = float(1 - self.jumping * share)
        return Law(-self.longest, mass, 4 * ROUNDING)


def pair_law(most: int) -> dict[int, Fraction]:
    """The law of one person's number R of pairs, if at most `most` pairs fit."""
    if most < 2:
        return {pairs: Fraction(1, most + 1) for pairs in range(most + 1)}
    return {0: _EDGE, 1: _ONE, most: _EDGE}


@dataclass(frozen=True, eq=False)
class CrowdLaw:
    """The joint law of D and V in one array. There is one row for each D, and the rows follow each
    other. Each row has `width` masses, one for each V.
    """

    law: Law
    width: int

    @property
    def moved(self) -> Law:
        """The law if the true count of the cell is larger by 1."""
        return self.law.shift(self.width)


def crowd_law(noise: CappedNoise, people: int, rare: float) -> CrowdLaw:
    """The law of (D, V) for this number of honest people.

    Outcomes with a total probability of a few times `rare` are cut off. The law's tail includes
    this probability.
    """
    jumpers = laws.binomial(people, noise.jumping).trimmed(rare)
    most = jumpers.stop - 1
    jumped = _jumpers_law(noise, jumpers, rare)
    flood = flood_law(noise.most_pairs(0), people - most, rare)
    mass = _convolved_rows(jumped.law.mass.reshape(-1, jumped.width), flood.mass)
    slack = (1 + jumped.law.slack) * (1 + flood.slack) * (1 + (jumped.width + 2) * ROUNDING) - 1
    tail = jumped.law.tail + flood.tail
    return CrowdLaw(Law(0, mass.ravel(), slack + 4 * ROUNDING, tail), mass.shape[1])


def _jumpers_law(noise: CappedNoise, jumpers: Law, rare: float) -> CrowdLaw:
    """The law of (D, V) for a group of people that contains everybody who jumps.

    `jumpers` is the law P(k) of the number of people who jump. The size `most` of the group is the
    largest k. Let A be the law of (jump, number of −1) for a person who jumps, and B the law for a
    person who does not. The result is Σ_k P(k) A^k B^{most−k}, where products are convolutions. It
    is computed by Horner's rule.
    """
    most, longest = jumpers.stop - 1, noise.longest
    down, up = (min(_reach(noise, jumpers, rare, sign), most * longest) for sign in (-1, 1))
    rows, theta = down + up + 1, float(noise.jumping)
    chances = noise.chances / theta
    unmoved = _floats(pair_law(noise.most_pairs(0)))
    others = np.ones(1)  # B^{most−k}
    chance = dict(zip(jumpers.values.tolist(), jumpers.mass.tolist(), strict=True))
    total = np.zeros((rows, 1))
    total[down, 0] = chance[most]
    for k in range(most - 1, -1, -1):
        others = np.convolve(others, unmoved)
        grown = np.zeros((rows, total.shape[1] + longest))
        for room in range(longest // 2 + 1):
            sizes = [j for j in range(1, longest + 1) if noise.most_pairs(j) == room]
            if not sizes:
                continue
            paired = _with_pairs(total, room)
            for j in sizes:
                if j < rows:
                    wide = paired.shape[1]
                    grown[:-j, j : j + wide] += chances[j - 1] * paired[j:]
                    grown[j:, :wide] += chances[longest + j - 1] * paired[:-j]
        grown[down, : len(others)] += chance.get(k, 0.0) * others
        total = grown
    # Each step adds up at most 2J + 1 numbers, and `_with_pairs` adds up at most three.
    slack = jumpers.slack + most * (2 * longest + 12) * ROUNDING
    used = np.flatnonzero(total.sum(axis=0))
    total = np.ascontiguousarray(total[:, : used[-1] + 1])
    return CrowdLaw(Law(0, total.ravel(), slack, jumpers.tail + 2 * rare), total.shape[1])


def _reach(noise: CappedNoise, jumpers: Law, rare: float, sign: int) -> int:
    """A number that the largest partial sum of jumps exceeds with a probability of at most `rare`.

    If `sign` is −1, the jumps are negated. Chernoff's bound holds for the sum of all jumps. By
    Doob's inequality, this bound also holds for the largest partial sum if the mean of
    e^{tilt·jump} is at least 1. So only tilts with this property are used.
    """
    theta = float(noise.jumping)
    tilts = _TILTS / noise.longest
    growth = np.exp(np.multiply.outer(tilts, sign * noise.jumps)) @ (noise.chances / theta)
    powers = np.multiply.outer(np.log(growth), jumpers.values)
    with np.errstate(divide="ignore"):
        logs = np.logaddexp.reduce(powers + np.log(jumpers.mass), axis=1)
    reaches = (logs - math.log(rare)) / tilts
    return math.ceil(float(reaches[growth >= 1].min()) + 1e-6)


def _with_pairs(total: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """The law of (D, V) after one more person has drawn a number of pairs, at most `most`."""
    if not most:
        return total
    wide = total.shape[1]
    out = np.zeros((len(total), wide + most))
    for pairs, part in pair_law(most).items():
        out[:, pairs : pairs + wide] += float(part) * total
    return out


def _floats(law: dict[int, Fraction]) -> NDArray[np.float64]:
    mass = np.zeros(max(law) + 1)
    for value, chance in law.items():
        mass[value] = float(chance)
    return mass


@lru_cache(maxsize=32)
def flood_law(most: int, people: int, rare: float) -> Law:
    """The law of the total number of pairs of `people` people who do not jump."""
    if not most or not people:
        return Law(0, np.ones(1))
    if most == 1:
        return laws.binomial(people, Fraction(1, 2)).trimmed(rare)
    # `ones` is the law of the number of people with one pair. Each of the other M people has `most`
    # pairs or none.
    ones = laws.binomial(people, _ONE).trimmed(rare)
    trials = people - np.arange(ones.start, ones.stop)
    half = laws.binomial(int(trials[0]), Fraction(1, 2), _OUTSIDE)
    spread = math.sqrt(people / 2 * math.log(2 / rare))
    low = max(half.start, math.floor(float(trials[-1]) / 2 - spread))
    high = min(half.stop, math.ceil(float(trials[0]) / 2 + spread) + 1)
    inside = half.mass[low - half.start : high - half.start].copy()
    values = np.arange(low, high, dtype=np.float64)
    mass = np.zeros(len(trials) + most * len(inside))
    for i, (chance, left) in enumerate(zip(ones.mass.tolist(), trials.tolist(), strict=True)):
        mass[i : i + most * len(inside) : most] += chance * inside
        if left:  # for P_M = Bin(M, ½), P_{M−1}(k) = P_M(k)·2(M−k)/M
            inside *= np.maximum(left - values, 0.0) * (2 / left)
    # By Hoeffding's inequality, Bin(M, ½) is at least M/2 + s with a probability of at most
    # e^{−2s²/M}. The same bound holds for the probability that it is at most M/2 − s.
    beyond = np.zeros(len(trials))
    for away, cut in ((trials / 2 - low + 1, low > 0), (high - trials / 2, high <= trials)):
        beyond += np.where(cut, np.exp(-2 * away**2 / np.maximum(trials, 1)), 0.0)
    tail = ones.tail + float(ones.mass @ beyond) * 1.001
    slack = ones.slack + half.slack + (8 * len(trials) + 16) * ROUNDING
    return Law(ones.start + most * low, mass, slack, tail)


def _convolved_rows(rows: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """The convolution of each row with `other`, by direct sums."""
    width = rows.shape[1]
    padded = np.concatenate([np.zeros(width - 1), other, np.zeros(width - 1)])
    windows = sliding_window_view(padded, width)
    reversed_rows = np.ascontiguousarray(rows[:, ::-1])
    out = np.empty((len(rows), len(windows)))
    for start in range(0, len(windows), _BLOCK):
        block = np.ascontiguousarray(windows[start : start + _BLOCK].T)
        np.matmul(reversed_rows, block, out=out[:, start : start + _BLOCK])
    return out


# The honest people of a cell --------------------------------------------------------------------


@dataclass(frozen=True)
class PeopleRange:
    """A range of possible numbers of people in a cell.

    The weights of this range and of all lower ranges add up to at least the probability that the
    number of people is in one of them.
    """

    people: int  # the lowest number in the range
    weight: float


@dataclass(frozen=True)
class HonestPeople:
    """How many honest people have their noise in the cells that a person changes.

    Each of the `honest` people has noise in a cell with probability `share`. If the share is below
    1, the analysis reveals to the adversary how many people have noise in each of these cells. Such
    a number does not depend on the data. The possible numbers are divided into ranges. δ is larger
    for fewer people, so the lowest number of each range stands for the whole range.

    If there are too many people for the exact law, the analysis marks each person independently
    with probability 2^−halvings. People with a mark jump 2^halvings times as often. People without
    a mark do not jump, and the analysis reveals to the adversary everything that they send.
    """

    honest: int
    share: Fraction
    moved: bool  # whether a person changes two cells
    halvings: int = 0
    missed: float = 0.0  # the probability of fewer people than in any range

    @classmethod
    def of(cls, honest: int, cells: int, slots: int, rate: float, delta: float) -> "HonestPeople":
        """The honest people of a count (with one cell) or of the buckets of a histogram. `halvings`
        is chosen for noise of about this rate.
        """
        moved = cells > 1
        crowds = cls(honest, Fraction(1, cells), moved, 0, delta * _MISSED)
        reach = math.log(1 / (delta * RARE[moved]))
        rows = 2 * reach / rate + slots
        columns = (reach / 2 + 2) * slots
        people, halvings = honest / cells, 0
        while people > _FEW_PEOPLE:
            size = rows * (math.sqrt(2 * reach * people) * slots / 2 + columns)
            if size < _LARGEST_LAW[moved] and size * columns < _MOST_WORK[moved]:
                break
            people, halvings = people / 2, halvings + 1
        return replace(crowds, halvings=halvings)

    @property
    def average(self) -> float:
        return float(self.honest * self.share)

    @property
    def exact(self) -> bool:
        """Whether the analysis reveals nothing but the view to the adversary."""
        return self.share == 1 and not self.halvings

    def thinned(self, noise: CappedNoise) -> CappedNoise:
        """The noise of people with a mark."""
        return replace(noise, crowd=math.ldexp(noise.crowd, -self.halvings))

    @cached_property
    def ranges(self) -> tuple[PeopleRange, ...]:
        """The ranges, in ascending order. Their weights add up to at most 1."""
        if self.exact:
            return (PeopleRange(self.honest, 1.0),)
        law = laws.binomial(self.honest, self.share / 2**self.halvings)
        # For two cells, the smaller one of the two numbers of people is used. The probability that
        # it is below a bound is at most twice the probability for a single cell.
        below = np.cumsum(law.mass) * ((2 if self.moved else 1) * (1 + law.slack + 1e-12))
        below += law.tail
        first = int(np.searchsorted(below, self.missed, side="right"))
        if first >= len(below) or law.start + first < 1:
            return ()
        middle = law.start + int(np.searchsorted(below, 0.5))
        count = (_RANGES if middle > _FEW_PEOPLE else _MORE_RANGES) if self.share < 1 else 1
        edges = np.unique(np.linspace(law.start + first, middle + 1, count + 1).astype(int))
        reached = np.minimum(below[edges - 1 - law.start], 1.0)
        reached[0], reached[-1] = 0.0, 1.0
        return tuple(
            PeopleRange(int(people), float(weight))
            for people, weight in zip(edges[:-1], np.diff(reached), strict=True)
        )
