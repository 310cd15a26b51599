"""Exact draws from a finite law whose probabilities are irrational."""

from bisect import bisect_right
from collections.abc import Callable
from decimal import Decimal
from itertools import accumulate

from headcount.core.cached import cached_property
from headcount.core.decimal_digits import decimal_digits
from headcount.core.source import Source
from headcount.randomness.draws import uniform_below

_BITS = 128  # the number of random bits in the first try, which almost always suffices
_MORE = 64  # the number of random bits that are added in each further try
_SPARE = 8  # weights have about this many more decimal digits than the random bits are worth
_ROOM = 12  # additional digits for the rounding errors of a sum


class ExactTable:
    """Draws k with a probability that is exactly proportional to the k-th weight.

    `weights(digits)` returns all weights with a relative error below 10^−digits. A uniform number
    falls between two cumulative sums of the weights, and this decides k. At first, only some bits
    of the number are drawn. If these bits do not decide k, more bits are drawn, and the weights are
    computed with more digits. So the draw is exact, and nothing is added to δ.
    """

    def __init__(self, weights: Callable[[int], list[Decimal]]) -> None:
        self._weights = weights

    def sample(self, source: Source) -> int:
        """Draw one k."""
        bits, number, sums = _BITS, uniform_below(source, 1 << _BITS), self._first
        while True:
            digits = _digits(bits)
            with decimal_digits(digits + _ROOM):
                low, error = Decimal(number) / (1 << bits), 4 * Decimal(10) ** -digits
                high = low + Decimal(1) / (1 << bits)
                place = bisect_right(sums, low - error)
                if place == bisect_right(sums, high + error):
                    return place
            number = number << _MORE | uniform_below(source, 1 << _MORE)
            bits += _MORE
            sums = self._sums(_digits(bits))

    @cached_property
    def _first(self) -> list[Decimal]:
        return self._sums(_digits(_BITS))

    def _sums(self, digits: int) -> list[Decimal]:
        """The probability of drawing at most k, for all k but the last. The error is below
        4·10^−digits.
        """
        with decimal_digits(digits + _ROOM):
            sums = list(accumulate(self._weights(digits)))
            return [one / sums[-1] for one in sums[:-1]]


def _digits(bits: int) -> int:
    return bits * 31 // 100 + _SPARE
