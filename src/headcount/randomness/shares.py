"""Noise shares: the laws of a little noise that n people's add up to a lot of.

A share is mostly zero, with a long and light tail. Masses are computed to 50 digits and rounded to
2^−128, so that even the shares of 2^50 people together differ from their law by less than any δ.
Where the tail is too long for a table, a share is drawn cluster by cluster.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import count, islice

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.cached import cached_property
from headcount.core.errors import InvalidParameter
from headcount.core.source import Source
from headcount.core.table import short
from headcount.randomness.discrete_laplace import coin, exponential_coin, geometric
from headcount.randomness.draws import successes, uniform_below
from headcount.randomness.table import FINE, ThresholdTable

_DIGITS = 60
_NEGLIGIBLE = Decimal(1) / (FINE << 8)
_LARGEST_CLUSTER = 1 << 12  # that has an entry in a table of its own
LEAST_GAMMA = Fraction(1, 2**40)  # a cluster is then far from 2^63
_LARGEST_GAMMA = 2**10
_LARGEST_SIZE = 1000  # r; the number of clusters has a table of some 30·r entries


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / number.denominator


def _masses(first: Decimal, ratios: Iterator[Decimal], limit: Decimal) -> list[Decimal]:
    """From P(0) and P(k)/P(k−1) on, until all that is left weighs nothing.

    From the mode on, ratios stay on one side of `limit` < 1, so what is left is geometric at most.
    """
    masses = [first]
    for ratio in ratios:
        largest = max(ratio, limit)
        if largest < 1 and masses[-1] * largest / (1 - largest) < _NEGLIGIBLE:
            break
        masses.append(masses[-1] * ratio)
    return masses


@lru_cache(maxsize=64)
def negative_binomial_share(r: Fraction, p: Fraction) -> ThresholdTable:
    """NB(r, p): P(0) = (1−p)^r, P(k)/P(k−1) = p(k−1+r)/k."""
    with localcontext() as context:
        context.prec = _DIGITS
        size, ratio = _decimal(r), _decimal(p)
        first = ((1 - ratio).ln() * size).exp()
        ratios = (ratio * (k - 1 + size) / k for k in count(1))
        return ThresholdTable.fine(_masses(first, ratios, ratio))


@lru_cache(maxsize=64)
def poisson_share(mean: Fraction) -> ThresholdTable:
    """Poisson(mean): P(0) = e^−mean, P(k)/P(k−1) = mean/k."""
    with localcontext() as context:
        context.prec = _DIGITS
        rate = _decimal(mean)
        ratios = (rate / k for k in count(1))
        return ThresholdTable.fine(_masses((-rate).exp(), ratios, Decimal(0)))


@dataclass(frozen=True)
class NegativeBinomialShare:
    """NB(r, e^−γ), whose tail may be millions long; mostly zero if r is small.

    It is a sum of N ~ Poisson(rL) clusters, L = −ln(1−e^−γ), of sizes P(k) = e^−γk/(kL), k ≥ 1.
    A whole crowd whose r add up to 1 has only about L of them, so nearly all people have none.
    """

    r: Fraction
    gamma: Fraction

    def __post_init__(self) -> None:
        _check("r", self.r, Fraction(0), _LARGEST_SIZE)
        _check("gamma", self.gamma, LEAST_GAMMA, _LARGEST_GAMMA)
        if not self.r:
            raise InvalidParameter("`r` must be above 0, got 0")

    @cached_property
    def variation(self) -> float:
        """At most how far a share is from its law, in total variation.

        TV(N) + E[N]·TV(size): two sums are the same if their numbers and all their sizes are. For
        N, its table, the table of N ≥ 1, and the mean, which has 50 digits and more.
        """
        mean = float(self._mean)
        drawn_number = self._table.total_variation + self._several.total_variation + mean * 1e-50
        return drawn_number + mean * _clusters(self.gamma).variation

    def draw(self, source: Source, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Independent shares of `count` people: which of them have any (sorted), and how much."""
        people = checks.whole("count", count, low=0, high=2**53)
        having = successes(source, people, self._any, bits=128)
        if not len(having):
            return having, np.zeros(0, dtype=np.int64)
        numbers = self._several.sample(source, len(having))
        ends = np.cumsum(numbers)
        sizes = _clusters(self.gamma).sample(source, int(ends[-1]))
        amounts: NDArray[np.int64] = np.add.reduceat(sizes, ends - numbers)
        return having, amounts

    def law(self, least: Fraction) -> dict[int, Fraction]:
        """Masses from 0 on to 50 digits, up to where they stay below `least`.

        P(0) = (1−e^−γ)^r, P(k)/P(k−1) = e^−γ(k−1+r)/k.
        """
        if least <= 0:
            raise InvalidParameter(f"`least` must be above 0, got {least}")
        with localcontext() as context:
            context.prec = _DIGITS
            size, decay, limit = _decimal(self.r), (-_decimal(self.gamma)).exp(), _decimal(least)
            mass = (-_decimal(self._mean)).exp()
            masses = {0: Fraction(mass)}
            for k in count(1):
                # Ratios go one way to e^−γ < 1: past the first below 1, masses only fall.
                ratio = decay * (k - 1 + size) / k
                mass *= ratio
                if ratio < 1 and mass < limit:
                    break
                masses[k] = Fraction(mass)
        return masses

    @cached_property
    def _mean(self) -> Fraction:
        return self.r * _clusters(self.gamma).rate

    @property
    def _table(self) -> ThresholdTable:
        return poisson_share(self._mean)

    @cached_property
    def _any(self) -> int:
        """The chance, over 2^128, of a cluster at all."""
        return FINE - int(self._table.law.get(0, 0) * FINE)

    @property
    def _several(self) -> ThresholdTable:
        return _poisson_above_zero(self._mean)


def _check(name: str, value: object, low: Fraction, high: int) -> None:
    if not isinstance(value, Fraction):
        raise InvalidParameter(f"`{name}` must be a Fraction, got {value!r}")
    if not low <= value <= high:
        raise InvalidParameter(
            f"`{name}` must be between {short(float(low))} and {high}, got {value}"
        )


@lru_cache(maxsize=64)
def _poisson_above_zero(mean: Fraction) -> ThresholdTable:
    """What is drawn from `poisson_share`, if it is not 0."""
    chances = [(k, chance) for k, chance in poisson_share(mean).law.items() if k]
    if not chances:  # so rare that the table has none
        return ThresholdTable.fine([Fraction(1)], start=1)
    total = sum(chance for _, chance in chances)
    # Outcomes are consecutive: the law has one mode, and only its ends are left out.
    return ThresholdTable.fine([chance / total for _, chance in chances], start=chances[0][0])


class _Clusters:
    """The logarithmic law: sizes k ≥ 1 with P(k) = a^k/(kL), a = e^−γ and L = −ln(1−a).

    Small sizes have a table, with one more outcome for all that are larger. Those are proposed from
    a law above a^k/k, piece by piece: a^s/s for k from s to 2s−1, while γs < 1, and a^k/s from the
    last s on. At least a fourth of every piece is accepted: ln 2/e, and a half in the last, where
    proposals are 1/γ ≤ s beyond s on average.
    """

    def __init__(self, gamma: Fraction):
        self._gamma = gamma
        with localcontext() as context:
            # 1−a and L lose twelve digits at most where γ is small, and γ/ln 10 where it is large.
            context.prec = _DIGITS + 20 + int(gamma)
            a = (-_decimal(gamma)).exp()
            rate = -(1 - a).ln()
            self.rate = Fraction(rate)  # L
            context.prec = _DIGITS
            ratios = (a * (k - 1) / k for k in count(2))
            masses = _masses(a / rate, islice(ratios, _LARGEST_CLUSTER - 1), a)
            beyond = max(1 - sum(masses, Decimal(0)), Decimal(0))
            self._small = ThresholdTable.fine([*masses, beyond], start=1)
            self._beyond = len(masses) + 1
            self._starts = [self._beyond]
            while gamma * self._starts[-1] < 1:
                self._starts.append(2 * self._starts[-1])
            above = [a**start for start in self._starts]
            above[-1] /= self._starts[-1] * (1 - a)
            self._pieces = ThresholdTable.fine([mass / sum(above) for mass in above])
        # If proposals are off by t, and a fourth is accepted, what is accepted is off by 2t·4.
        self.variation = self._small.total_variation + 8 * self._pieces.total_variation

    def sample(self, source: Source, count: int) -> NDArray[np.int64]:
        """`count` independent sizes."""
        sizes = self._small.sample(source, count)
        for i in np.flatnonzero(sizes == self._beyond):
            sizes[i] = self._large(source)
        return sizes

    def _large(self, source: Source) -> int:
        """One size from `_beyond` on."""
        while True:
            piece = int(self._pieces.sample(source, 1)[0])
            start = self._starts[piece]
            if start == self._starts[-1]:
                more = geometric(source, self._gamma)
                decayed = True
            else:
                more = uniform_below(source, start)
                decayed = exponential_coin(source, self._gamma * more)
            if decayed and coin(source, Fraction(start, start + more)):
                return start + more


@lru_cache(maxsize=64)
def _clusters(gamma: Fraction) -> _Clusters:
    return _Clusters(gamma)
