"""Randomizers that users give as matrices: checks of their privacy, and classes of messages."""

import math
from decimal import Decimal
from fractions import Fraction
from numbers import Rational

from headcount.core import checks
from headcount.core.decimal_digits import as_decimal, decimal_digits, exponential
from headcount.core.errors import InvalidParameter

LOOSE = 2.0**-40  # if a randomizer is given in floats, losses may exceed ε₀ by this amount

# For a pair of values, three numbers for each class of messages (see `amplification.Blanket`).
Classes = tuple[tuple[float, float, float], ...]


def private_laws(rows: object, local_epsilon: float) -> tuple[list[list[Fraction]], float]:
    """The laws as fractions, and an upper bound on their losses. Larger losses raise an error.

    The bound is ε₀ if all entries were given as fractions, and otherwise slightly more (`LOOSE`).
    """
    table, exactly = _matrix(rows)
    # A float has a relative error of up to 2^−50, so a ratio of two floats may be off by 2^−49.
    blur = Fraction(0 if exactly else 2.0**-49)
    pure = local_epsilon if exactly else math.nextafter(local_epsilon + LOOSE, math.inf)
    for chances in zip(*table, strict=True):
        least, most = min(chances), max(chances)
        private = not _above_exp(most / least * (1 + blur), pure) if least > 0 else most == 0
        if least < 0 or not private:
            raise InvalidParameter(
                "`randomizer` must give probabilities that are at least 0, and that differ between "
                "two values by a factor of at most e^local_epsilon, got other numbers at "
                f"local_epsilon={local_epsilon!r}"
            )
    return table, pure


def value_pairs(table: list[list[Fraction]]) -> list[Classes]:
    """The classes of every ordered pair of values. Pairs with the same classes are listed once."""
    columns = list(zip(*table, strict=True))
    kinds = set()
    for x, here in enumerate(table):
        for there in table[:x] + table[x + 1 :]:
            classes: dict[tuple[Fraction, Fraction], Fraction] = {}
            for column, one, other in zip(columns, here, there, strict=True):
                if least := min(column):
                    ratios = one / least, other / least
                    classes[ratios] = classes.get(ratios, Fraction(0)) + least
            kinds.add(frozenset((omega, *ratios) for ratios, omega in classes.items()))
    return [
        tuple((float(omega), float(one), float(other)) for omega, one, other in kind)
        for kind in kinds
    ]


def _matrix(rows: object) -> tuple[list[list[Fraction]], bool]:
    """The laws as fractions, one row per value, and whether all entries were given as fractions."""
    try:
        given = [list(row) for row in rows]  # type: ignore[attr-defined]
    except TypeError:
        raise InvalidParameter(
            f"`randomizer` must give rows of probabilities, got {type(rows).__name__}"
        ) from None
    if len(given) < 2 or len({len(row) for row in given}) > 1:
        raise InvalidParameter("`randomizer` must give two rows or more, all of the same length")
    exactly = all(isinstance(chance, Rational) for row in given for chance in row)
    table = [
        [
            Fraction(chance)
            if isinstance(chance, Rational)
            else Fraction(checks.real("randomizer", chance))
            for chance in row
        ]
        for row in given
    ]
    off = max(abs(sum(row, Fraction(0)) - 1) for row in table)
    if off > (0 if exactly else 2.0**-40):
        raise InvalidParameter("`randomizer` must give rows that sum to 1")
    return table, exactly


def _above_exp(ratio: Fraction, exponent: float) -> bool:
    """Whether ratio > e^exponent.

    The precision grows until the two numbers differ. They must differ at some digit, because e^x
    is irrational for every rational x except 0.
    """
    if exponent == 0 or ratio <= 1:
        return ratio > 1
    digits = 30
    # If the numerator has b bits and b ≤ exponent, then ratio < 2^b < e^exponent.
    while exponent < ratio.numerator.bit_length():
        with decimal_digits(digits):
            power, quotient = exponential(exponent), as_decimal(ratio)
            # `margin` exceeds 1 by more than the relative rounding errors of both numbers and of
            # their products.
            margin = 1 + Decimal(1).scaleb(3 - digits)
            if power > quotient * margin:
                return False
            if quotient > power * margin:
                return True
        digits *= 2
    return False
