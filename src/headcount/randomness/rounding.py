"""Randomized rounding: real numbers to whole ones, without bias.

A number t becomes ⌈t − U⌉ with U uniform on [0, 1): ⌊t⌋ + 1 with probability t − ⌊t⌋, else ⌊t⌋; a
whole t stays what it is. Floating point only finds the cases in which t − U is surely far from a
whole number; all others, one in millions, are decided in rational numbers.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headcount.core.source import Source
from headcount.randomness.draws import WHOLE

_ONE = np.float64(1).view(np.uint64)


def rounded(
    source: Source,
    near: NDArray[np.float64],
    error: float,
    exactly: Callable[[int], Fraction],
) -> NDArray[np.int64]:
    """Numbers t_i ≥ 0, rounded at random: exactly(i) is t_i, and near[i] is it up to `error`."""
    uniforms = source.integers(len(near), np.uint64)
    # The first 52 bits behind the sign and exponent of 1: a float, without a conversion.
    left = near - ((uniforms >> np.uint64(12)) | _ONE).view(np.float64)
    left += 1.0
    up = np.ceil(left)
    out = up.astype(np.int64)
    # How far the next whole number is from the middle of its step; near ½ it may be another one.
    # The uniform is off by 2^−52, a difference by a unit of its size, less than `error`.
    left -= up
    left += 0.5
    sure = 0.5 - (3 * error + 2.0**-48)
    for i in np.flatnonzero(np.abs(left, out=left) >= sure).tolist():
        out[i] = _decided(source, exactly(i), int(uniforms[i]))
    return out


def _decided(source: Source, t: Fraction, uniform: int) -> int:
    """⌈t − U⌉ for a U whose first 64 bits are given; the next are drawn until they decide."""
    whole, rest = divmod(t, 1)
    while True:
        digit, rest = divmod(rest * WHOLE, 1)
        if uniform != digit or rest == 0:
            # U < t − ⌊t⌋ rounds up; where the first digits are all there are, equal is not below.
            return int(whole) + (uniform < digit)
        uniform = int(source.integers(1, np.uint64)[0])
