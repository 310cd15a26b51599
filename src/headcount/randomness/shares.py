"""Noise shares: each person draws a little noise, and the sum of n shares has a known law.

Most shares are zero, but their law has a long and light tail. Probability masses are computed to 50
digits and rounded to multiples of 2^−128. So even for 2^50 people, the total variation between all
drawn shares and their exact law is smaller than any allowed δ. If the tail is too long for a table,
a share is drawn as a sum of clusters (see `NegativeBinomialShare`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import count, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.cached import cached_property
from headcount.core.decimal_digits import as_decimal, decimal_digits, exponential
from headcount.core.errors import InvalidParameter
from headcount.core.source import Source
from headcount.core.table import short
from headcount.randomness.discrete_laplace import exponential_coins, geometric
from headcount.randomness.draws import successes, uniform_below
from headcount.randomness.table import FINE, ThresholdTable

_DIGITS = 60
# A table may leave out this mass. It is below 2^−136, far less than the unit 2^−128 of all masses.
_NEGLIGIBLE = Decimal("1e-41")
_LARGEST_CLUSTER = 1 << 12  # all larger sizes of a cluster share one entry of the table
LEAST_GAMMA = Fraction(1, 2**40)  # the least γ: with a smaller γ, a cluster might exceed 2^63
_LARGEST_GAMMA = 2**10
_LARGEST_SIZE = 1000  # the largest r; the table of the number of clusters has about 30·r entries


def _masses(first: Decimal, ratios: Iterator[Decimal], limit: Decimal) -> list[Decimal]:
    """The masses P(0), P(1), …, computed from P(0) = `first` and the ratios P(k)/P(k−1).

    The list ends when the sum of all further masses is negligible. The ratios tend monotonically to
    `limit` < 1, so a geometric series bounds this sum.
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
    """The law NB(r, p), with P(0) = (1−p)^r and P(k)/P(k−1) = p(k−1+r)/k."""
    with decimal_digits(_DIGITS):
        size, ratio = as_decimal(r), as_decimal(p)
        first = ((1 - ratio).ln() * size).exp()
        ratios = (ratio * (k - 1 + size) / k for k in count(1))
        return ThresholdTable.fine(_masses(first, ratios, ratio))


@lru_cache(maxsize=64)
def poisson_share(mean: Fraction) -> ThresholdTable:
    """The law Poisson(mean), with P(0) = e^−mean and P(k)/P(k−1) = mean/k."""
    with decimal_digits(_DIGITS):
        rate = as_decimal(mean)
        ratios = (rate / k for k in count(1))
        return ThresholdTable.fine(_masses(exponential(-mean), ratios, Decimal(0)))


@dataclass(frozen=True)
class NegativeBinomialShare:
    """A share with the law NB(r, e^−γ). It may reach millions, but is usually zero if r is small.

    It is a sum of the sizes of N ~ Poisson(rL) clusters, with L = −ln(1−e^−γ). The size k ≥ 1 of a
    cluster has the law P(k) = e^−γk/(kL). If the parameters r of a whole crowd add up to 1, the
    crowd has only about L clusters, so nearly all people have no cluster.
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
        """An upper bound on the total variation between a drawn share and its ideal law.

        Let TV be the total variation of a draw. The bound is TV(N) + E[N]·TV(size), because two
        sums are equal if their numbers of clusters and all sizes are equal. TV(N) includes the
        errors of the table of N, of the table of N given N ≥ 1, and of the mean, which is correct
        to at least 50 digits.
        """
        mean = float(self._mean)
        drawn_number = self._table.total_variation + self._several.total_variation + mean * 1e-50
        return drawn_number + mean * _clusters(self.gamma).variation

    def draw(self, source: Source, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Independent shares of `count` people.

        The result has the indices of all people with a positive share, in increasing order, and
        these shares.
        """
        people = checks.whole("count", count, low=0, high=2**53)
        having = successes(source, people, self._any, bits=128)
        if not len(having):
            return having, np.zeros(0, dtype=np.int64)
        numbers = self._several.sample(source, len(having))
        ends = np.cumsum(numbers)
        sizes = _clusters(self.gamma).sample(source, int(ends[-1]))
        amounts: NDArray[np.int64] = np.add.reduceat(sizes, ends - numbers)
        return having, amounts

    @property
    def instructions(self) -> Mapping[str, Any]:
        """The parameters that other programs need to draw such shares, as data for JSON."""
        return {"r": str(self.r), "gamma": str(self.gamma)}

    def law(self, least: Fraction) -> dict[int, Fraction]:
        """The probability masses P(0), P(1), …, with 50 digits. The list ends where all further
        masses are below `least`.

        P(0) = (1−e^−γ)^r and P(k)/P(k−1) = e^−γ(k−1+r)/k.
        """
        if least <= 0:
            raise InvalidParameter(f"`least` must be above 0, got {least}")
        with decimal_digits(_DIGITS):
            size, decay, limit = as_decimal(self.r), exponential(-self.gamma), as_decimal(least)
            mass = exponential(-self._mean)
            masses = {0: Fraction(mass)}
            for k in count(1):
                # The ratios tend monotonically to e^−γ < 1. So masses decrease after the first
                # ratio below 1.
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
        """The probability of at least one cluster, times 2^128."""
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
    """The law of `poisson_share`, given that the drawn number is not 0."""
    chances = [(k, chance) for k, chance in poisson_share(mean).law.items() if k]
    if not chances:  # a positive number is too rare for the table
        return ThresholdTable.fine([Fraction(1)], start=1)
    total = sum(chance for _, chance in chances)
    # The outcomes are consecutive, because the law has one mode, and rounding to multiples of
    # 2^−128 removes only outcomes at its ends.
    return ThresholdTable.fine([chance / total for _, chance in chances], start=chances[0][0])


class _Clusters:
    """The logarithmic law: sizes k ≥ 1 with P(k) = a^k/(kL), a = e^−γ and L = −ln(1−a).

    Small sizes are drawn from a table, which has one more outcome for all larger sizes. Larger
    sizes are drawn by rejection. Proposals come from an envelope: a function above a^k/k that
    consists of pieces. The start s of each piece is twice the start of the previous piece. In all
    pieces but the last, γs < 1, and the envelope is a^s/s for k from s to 2s−1. In the last piece,
    it is a^k/s for all k ≥ s. In each piece, at least a fourth of the proposals are accepted: at
    least ln 2/e of them in all pieces but the last, and at least a half in the last piece, because
    its proposals exceed s by at most 1/γ ≤ s on average.
    """

    def __init__(self, gamma: Fraction):
        self._gamma = gamma
        # The computation of 1−a and L loses at most twelve digits for a small γ, and γ/ln 10 digits
        # for a large γ.
        with decimal_digits(_DIGITS + 20 + int(gamma)) as context:
            a = exponential(-gamma)
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
        # If the total variation of proposals is t, and at least a fourth are accepted, then the
        # total variation of accepted sizes is at most 2t·4.
        self.variation = self._small.total_variation + 8 * self._pieces.total_variation

    def sample(self, source: Source, count: int) -> NDArray[np.int64]:
        """`count` independent sizes."""
        sizes = self._small.sample(source, count)
        for i in np.flatnonzero(sizes == self._beyond):
            sizes[i] = self._large(source)
        return sizes

    def _large(self, source: Source) -> int:
        """One size that is at least `_beyond`."""
        while True:
            piece = int(self._pieces.sample(source, 1)[0])
            start = self._starts[piece]
            if start == self._starts[-1]:
                more = int(geometric(source, self._gamma, 1)[0])
                decayed = True
            else:
                more = uniform_below(source, start)
                decayed = not more or bool(exponential_coins(source, self._gamma * more, 1)[0])
            if decayed and uniform_below(source, start + more) < start:
                return start + more


@lru_cache(maxsize=64)
def _clusters(gamma: Fraction) -> _Clusters:
    return _Clusters(gamma)
