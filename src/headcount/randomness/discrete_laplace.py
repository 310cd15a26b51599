"""Geometric numbers and two-sided geometric noise, drawn exactly and many at a time.

A geometric number has P(k) = (1−a)·a^k for k ≥ 0, with a = e^−γ for any rational γ > 0. Its binary
digits are independent: digit j is 1 with probability 1/(1 + e^{γ·2^j}). The part above the first J
digits is again geometric, with a^{2^J} in place of a. So every number is made from a few coins of
known bias, and each coin is tossed for all numbers at once. J is so large that the part above the
first J digits is rarely positive.

The difference of two independent geometric numbers has P(z) = (1−a)/(1+a)·a^|z|. This is two-sided
geometric noise, also called discrete Laplace noise. OpenDP draws the same law one number at a time
(Canonne, Kamath, Steinke 2020).
"""

from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.decimal_digits import as_decimal, decimal_digits
from headcount.core.source import Source
from headcount.randomness.draws import decided, real_bernoulli

_LARGE = 14  # J ≥ 0 is the smallest integer for which γ·2^J is at least this
_MOST_DIGITS = 50  # with more digits, numbers may not fit into 64 bits
_CHUNK = 1 << 17
_FEW = 1024  # for fewer numbers, `_few_coins` draws the digits of all numbers in one call


def exponential_coins(source: Source, gamma: Fraction, count: int) -> NDArray[np.uint8]:
    """`count` independent bits that are 1 with probability e^−γ, for γ > 0."""
    return real_bernoulli(source, count, partial(_binary, gamma, 0))


def geometric(source: Source, gamma: Fraction, count: int) -> NDArray[Any]:
    """`count` independent geometric numbers with ratio e^−γ, for γ > 0.

    They are 64-bit integers, or Python integers if γ is so small that they may be larger.
    """
    places = max(0, (-(-_LARGE // gamma) - 1).bit_length())
    exact = np.int64 if places <= _MOST_DIGITS else object
    pieces = [
        _geometric(source, gamma, min(_CHUNK, count - start), places, exact)
        for start in range(0, count, _CHUNK)
    ]
    return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int64)


def _geometric(
    source: Source, gamma: Fraction, count: int, places: int, exact: type
) -> NDArray[Any]:
    out: NDArray[Any] = np.zeros(count, dtype=exact)
    beyond = gamma * 2**places
    if count < _FEW:
        coins = _few_coins(source, gamma, count, places)
        for place in range(places):
            out += coins[:, place].astype(exact) * 2**place
        more = np.flatnonzero(coins[:, places])
    else:
        for place in range(places):
            digit = real_bernoulli(source, count, partial(_binary, gamma * 2**place, 1))
            out += digit.astype(exact) * 2**place
        more = np.flatnonzero(exponential_coins(source, beyond, count))
    while len(more):
        out[more] += 2**places
        more = more[exponential_coins(source, beyond, len(more)).view(np.bool_)]
    return out


def _few_coins(source: Source, gamma: Fraction, count: int, places: int) -> NDArray[np.bool_]:
    """All coins of a few numbers, with one row per number. A row holds the first J digits of the
    number, and whether the part above them is positive.

    One call of the source draws 64 random bits for each coin. For a few numbers, this is faster
    than a separate call for each digit.
    """
    thresholds = _thresholds(gamma, places)
    drawn = source.integers(count * (places + 1), np.uint64).reshape(count, places + 1)
    coins: NDArray[np.bool_] = drawn < thresholds
    for number, place in np.argwhere(drawn == thresholds).tolist():
        binary = partial(_binary, gamma * 2**place, int(place < places))
        coins[number, place] = decided(source, binary)
    return coins


@lru_cache(maxsize=256)
def _thresholds(gamma: Fraction, places: int) -> NDArray[np.uint64]:
    """The first 64 binary digits of the bias of each coin."""
    biases = [_binary(gamma * 2**place, int(place < places), 64) for place in range(places + 1)]
    return np.array(biases, dtype=np.uint64)


def discrete_laplace(source: Source, gamma: Fraction, count: int) -> NDArray[Any]:
    """`count` independent draws of two-sided geometric noise with ratio e^−γ, for γ > 0."""
    difference: NDArray[Any] = geometric(source, gamma, count) - geometric(source, gamma, count)
    return difference


@lru_cache(maxsize=4096)
def _binary(gamma: Fraction, plus: int, digits: int) -> int:
    """⌊2^digits/(e^γ + plus)⌋.

    e^γ is irrational, so the result is certain once enough decimal digits are computed.
    """
    precision = digits // 3 + 30
    while True:
        with decimal_digits(precision):
            exponent = as_decimal(gamma)
            scaled = Decimal(2**digits) / (exponent.exp() + plus)
            # The relative error of e^γ is γ times the relative error of the exponent. There are
            # four more roundings.
            error = scaled * (exponent + 4) * Decimal(10) ** (2 - precision)
            low, high = (
                int(end.to_integral_value(ROUND_FLOOR)) for end in (scaled - error, scaled + error)
            )
        if low == high:
            return low
        precision += 40
