"""Tables of noise shares: the laws of a little noise that n people's add up to a lot of.

A share is mostly zero, with a long and light tail. Masses are computed to 50 digits and rounded to
2^−128, so that even the shares of 2^50 people together differ from their law by less than any δ.
"""

from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import count

from headcount.randomness.table import FINE, ThresholdTable

_DIGITS = 60
_NEGLIGIBLE = Decimal(1) / (FINE << 8)


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
