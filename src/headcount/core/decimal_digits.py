"""Decimal numbers with a given number of digits.

Python programs can change how decimal numbers are rounded, how large they may be and what raises an
error. A privacy computation must not depend on these settings. So all of them are stated here.
"""

from contextlib import AbstractContextManager
from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DivisionByZero,
    InvalidOperation,
    Overflow,
    localcontext,
)
from fractions import Fraction


def decimal_digits(digits: int, rounding: str = ROUND_HALF_EVEN) -> AbstractContextManager[Context]:
    """In this context, decimal numbers are rounded to this many digits. Exponents are limited only
    by the size of the machine's integers.
    """
    return localcontext(
        Context(
            prec=digits,
            rounding=rounding,
            Emin=MIN_EMIN,
            Emax=MAX_EMAX,
            capitals=1,
            clamp=0,
            flags=[],
            traps=[DivisionByZero, InvalidOperation, Overflow],
        )
    )


def as_decimal(number: Fraction | float) -> Decimal:
    """The number, rounded to the digits of the current context."""
    exact = Fraction(number)
    return Decimal(exact.numerator) / exact.denominator


def exponential(exponent: Fraction | float) -> Decimal:
    """e^exponent, rounded to the digits of the current context."""
    return as_decimal(exponent).exp()
