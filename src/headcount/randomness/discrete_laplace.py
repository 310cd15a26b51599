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

from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.source import Source
from headcount.randomness.draws import real_bernoulli

_LARGE = 14  # the first J digits are enough if γ·2^J is at least this
_MOST_DIGITS = 50  # with more digits, numbers may not fit into 64 bits
_CHUNK = 1 << 17


def exponential_coins(source: Source, gamma: Fraction, count: int) -> NDArray[np.uint8]:
    """`count` independent bits that are 1 with probability e^−γ, for γ > 0."""
    return real_bernoulli(source, count, lambda digits: _binary(gamma, 0, digits))


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
    for place in range(places):
        digit = real_bernoulli(source, count, partial(_binary, gamma * 2**place, 1))
        out += digit.astype(exact) * 2**place
    beyond = gamma * 2**places
    more = np.flatnonzero(exponential_coins(source, beyond, count))
    while len(more):
        out[more] += 2**places
        more = more[exponential_coins(source, beyond, len(more)).view(np.bool_)]
    return out


def discrete_laplace(source: Source, gamma: Fraction, count: int) -> NDArray[Any]:
    """`count` independent draws of two-sided geometric noise with ratio e^−γ, for γ > 0."""
    drawn: NDArray[Any] = geometric(source, gamma, count) - geometric(source, gamma, count)
    return drawn


@lru_cache(maxsize=4096)
def _binary(gamma: Fraction, plus: int, digits: int) -> int:
    """⌊2^digits/(e^γ + plus)⌋.

    e^γ is not rational, so enough decimal digits decide what the number is rounded to.
    """
    precision = digits // 3 + 30
    while True:
        with localcontext() as context:
            context.prec = precision
            context.Emax, context.Emin = 10**17, -(10**17)
            exponent = Decimal(gamma.numerator) / Decimal(gamma.denominator)
            scaled = Decimal(2**digits) / (exponent.exp() + plus)
            # Rounding of the exponent counts γ times. There are four more roundings.
            error = scaled * (exponent + 4) * Decimal(10) ** (2 - precision)
            low, high = (
                int(end.to_integral_value(ROUND_FLOOR)) for end in (scaled - error, scaled + error)
            )
        if low == high:
            return low
        precision += 40
