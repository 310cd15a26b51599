"""Draws the total noise of a whole crowd in one step, for `simulate`.

The total is drawn from a table of its law. The table has at most about 20·√n entries for n people.
Once it is made, a draw for a billion people takes as long as a draw for a thousand. The table
differs from the law by a small total variation, which is the error of a draw. Where such errors
matter for privacy, the source of random bits is an `Owing`, which adds up the errors.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.accounting import laws
from headcount.accounting.laws import Law
from headcount.core.errors import InvalidParameter
from headcount.core.source import Source
from headcount.randomness.shares import NegativeBinomialShare
from headcount.randomness.table import ThresholdTable

_LARGEST_R = 500  # a number with a larger r is the sum of several shares with a smaller r
_COINS = 2**28  # up to this many coins are tossed one by one; more coins use a table
_LARGEST_VARIANCE = 2**32  # a table of a law with this variance has about a million entries


@lru_cache(maxsize=64)
def table(law: Callable[..., Law], *parameters: int | Fraction) -> ThresholdTable:
    """The table of law(*parameters). Its `total_variation` is the error of a draw."""
    return ThresholdTable.of(law(*parameters))


def poisson(source: Source, mean: Fraction, count: int = 1) -> NDArray[np.int64]:
    """`count` independent draws from Poisson(mean)."""
    return table(laws.poisson, mean).sample(source, count)


def negative_binomial(
    source: Source, r: Fraction, p: Fraction, count: int = 1
) -> NDArray[np.int64]:
    """`count` independent draws from NB(r, p)."""
    return table(laws.negative_binomial, r, p).sample(source, count)


def long_negative_binomial(
    source: Source, r: Fraction, gamma: Fraction, count: int = 1
) -> NDArray[np.int64]:
    """`count` independent draws from NB(r, e^−γ), also if this law is too long for a table."""
    parts = math.ceil(r / _LARGEST_R)
    places, drawn = NegativeBinomialShare(r / parts, gamma).draw(source, parts * count)
    out = np.zeros(count, dtype=np.int64)
    np.add.at(out, places // parts, drawn)
    return out


def binomial(source: Source, trials: int, p: Fraction, count: int = 1) -> NDArray[np.int64]:
    """`count` independent draws from Bin(trials, p).

    If a table for all trials would be too large, the trials are divided into parts. Then a draw is
    the sum of one draw for each part, and the errors of the parts add up.
    """
    part = trials
    while part * p * (1 - p) > _LARGEST_VARIANCE:
        part //= 2
    parts, rest = divmod(trials, part) if part else (0, 0)
    drawn = table(laws.binomial, part, p).sample(source, parts * count)
    total: NDArray[np.int64] = drawn.reshape(count, parts).sum(axis=1)
    return total + table(laws.binomial, rest, p).sample(source, count) if rest else total


def multinomial(source: Source, trials: int, weights: Sequence[int]) -> NDArray[np.int64]:
    """The number of people with each outcome, among `trials` people. Each person has outcome i with
    a probability proportional to weights[i].

    The outcomes are divided into two halves, and the number of people in the left half is drawn.
    Then each half is divided in the same way.
    """
    if not weights or min(weights) < 0 or not sum(weights):
        raise InvalidParameter("`weights` must be non-negative integers, not all zero")
    sums = np.concatenate([[0], np.cumsum(np.array(weights, dtype=object))])
    out = np.zeros(len(weights), dtype=np.int64)
    pending = [(0, len(weights), trials)]
    while pending:
        low, high, people = pending.pop()
        if high - low == 1:
            out[low] = people
        elif people:
            middle = (low + high) // 2
            p = Fraction(sums[middle] - sums[low], sums[high] - sums[low])
            left = int(binomial(source, people, p)[0])
            pending += [(low, middle, left), (middle, high, people - left)]
    return out


def geometric_sum(source: Source, people: int, p: Fraction) -> int:
    """One draw of the sum of `people` independent NB(1, p) numbers. Its law is NB(people, p).

    If a table for the whole crowd would be too large, the crowd is divided into parts. Then the
    draw is the sum of one draw for each part.
    """
    part = people
    while part > 1 and part * p / (1 - p) ** 2 > _LARGEST_VARIANCE:
        part //= 2
    parts, rest = divmod(people, part) if part else (0, 0)
    total = int(negative_binomial(source, Fraction(part), p, parts).sum()) if parts else 0
    if rest:
        total += int(negative_binomial(source, Fraction(rest), p)[0])
    return total


def uniform_sum(source: Source, people: int, below: int) -> int:
    """One draw of the sum of `people` independent numbers that are uniform on 0 … below − 1.

    The range is divided into blocks. If binary digit b of `below` is 1, there is a block of 2^b
    numbers. Within a block, the lowest b binary digits of a number are fair coins. So for each
    digit, the number of people with a 1 is binomial.
    """
    sizes = [b for b in range(below.bit_length()) if below >> b & 1]
    inside = multinomial(source, people, [1 << b for b in sizes]).tolist()
    # Each block begins where the smaller blocks end, so its first number is `below` modulo 2^b.
    total = 0
    for b, count in zip(sizes, inside, strict=True):
        total += int(count) * (below % (1 << b))
    for digit in range(sizes[-1]):
        coins = sum(count for b, count in zip(sizes, inside, strict=True) if b > digit)
        total += int(binomial(source, coins, Fraction(1, 2))[0]) << digit
    return total


def binomials(
    source: Source, trials: NDArray[np.int64], weights: NDArray[np.uint64], digits: int
) -> NDArray[np.int64]:
    """A draw of Bin(trials[i], weights[i]/2^digits) for each i.

    The draw is exact if no trials[i] exceeds 2^28. Each trial has a uniform number, and succeeds if
    this number is below the weight. The binary digits of the number and of the weight are compared
    one by one, beginning with the most significant. On average, each digit decides half of the
    numbers that were still equal to the weight.
    """
    below = np.where(weights >> np.uint64(digits), trials, 0)
    equal = trials - below
    for place in reversed(range(digits)):
        if not equal.any():
            break
        zeros = _heads(source, equal)
        one = (weights >> np.uint64(place)) & np.uint64(1) == 1
        below += np.where(one, zeros, 0)
        equal = np.where(one, equal - zeros, zeros)
    return below


def _heads(source: Source, coins: NDArray[np.int64]) -> NDArray[np.int64]:
    """A draw of Bin(coins[i], ½) for each i: the number of ones among coins[i] random bits."""
    out = np.zeros(len(coins), dtype=np.int64)
    some = np.flatnonzero((coins > 0) & (coins <= _COINS))
    words = -(-coins[some] // 64)
    ends = np.cumsum(words)
    bits = source.integers(int(words.sum()), np.uint64)
    bits[ends - 1] >>= (64 * words - coins[some]).astype(np.uint64)
    if len(some):
        out[some] = np.add.reduceat(np.bitwise_count(bits), ends - words, dtype=np.int64)
    for i in np.flatnonzero(coins > _COINS).tolist():
        out[i] = binomial(source, int(coins[i]), Fraction(1, 2))[0]
    return out


def groups(counts: NDArray[np.int64]) -> Sequence[tuple[int, NDArray[Any]]]:
    """The distinct counts, each with the indices of the buckets that have this count."""
    order = np.argsort(counts, kind="stable")
    different, firsts = np.unique(counts[order], return_index=True)
    return list(zip(different.tolist(), np.split(order, firsts[1:]), strict=True))
