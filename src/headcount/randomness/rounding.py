"""Unbiased randomized rounding of real numbers to integers.

A number t becomes ⌈t − U⌉ with U uniform on [0, 1). The result is ⌊t⌋ + 1 with probability t − ⌊t⌋,
and ⌊t⌋ otherwise. An integer t does not change. Floating-point arithmetic decides only if t − U is
certainly not close to an integer. All other cases, about one in millions, are decided in rational
numbers.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headcount.core.source import Source
from headcount.randomness.draws import WHOLE

_ONE = np.float64(1).view(np.uint64)  # the 64 bits of the float 1


def rounded(
    source: Source,
    near: NDArray[np.float64],
    error: float,
    exactly: Callable[[int], Fraction],
) -> NDArray[np.int64]:
    """Numbers t_i ≥ 0, rounded at random without bias.

    `near[i]` is t_i with an error of at most `error`, and `exactly(i)` is t_i itself.
    """
    uniforms = source.integers(len(near), np.uint64)
    # The first 52 bits of U are put behind the sign and exponent of 1. This gives the float 1 + U.
    left = near - ((uniforms >> np.uint64(12)) | _ONE).view(np.float64)
    left += 1.0
    up = np.ceil(left)
    out = up.astype(np.int64)
    # `left` becomes the signed distance of t − U from the middle between two integers. If this
    # distance is near ±½, errors may have changed the result. U has an error of 2^−52, because only
    # 52 bits are used. The rounding errors of the differences are less than `error`.
    left -= up
    left += 0.5
    sure = 0.5 - (3 * error + 2.0**-48)
    for i in np.flatnonzero(np.abs(left, out=left) >= sure).tolist():
        out[i] = _decided(source, exactly(i), int(uniforms[i]))
    return out


def _decided(source: Source, t: Fraction, uniform: int) -> int:
    """⌈t − U⌉ for a U whose first 64 bits are `uniform`. More bits of U are drawn until the result
    is certain.
    """
    whole, rest = divmod(t, 1)
    while True:
        digit, rest = divmod(rest * WHOLE, 1)
        if uniform != digit or rest == 0:
            # t is rounded up if U < t − ⌊t⌋. If t has no more digits and all its digits equal those
            # of U, then U ≥ t − ⌊t⌋.
            return int(whole) + (uniform < digit)
        uniform = int(source.integers(1, np.uint64)[0])
