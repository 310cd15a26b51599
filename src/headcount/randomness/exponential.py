"""The exponential mechanism, drawn exactly (McSherry, Talwar 2007)."""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headcount.core.source import Source
from headcount.randomness.discrete_laplace import exponential_coins
from headcount.randomness.draws import uniform

_MOST_TRIES = 1 << 16  # at most this many places are tried at once


def exponential_choice(
    source: Source, rate: Fraction, numbers: NDArray[np.int64], target: Fraction
) -> int:
    """A place t, drawn with probability proportional to e^{−rate·|numbers[t] − target|}.

    Places are drawn uniformly until one is accepted. Let d be the distance of numbers[t] from the
    target, minus the least such distance. The place t is accepted with probability e^{−rate·d}. For
    this, one coin is tossed for each binary digit of ⌊d⌋ that is 1, and one coin for the fractional
    part of d. All coins must accept the place.
    """
    floor = math.floor(target)
    part = target - floor
    # A distance is a whole number plus a fraction. The fraction is the same for all numbers on one
    # side of the target.
    sides = numbers <= floor, numbers > floor
    wholes, parts = (floor - numbers, numbers - floor - 1), (part, 1 - part)
    least = min(
        int(whole[side].min()) + rest
        for side, whole, rest in zip(sides, wholes, parts, strict=True)
        if side.any()
    )
    offsets = [rest - least for rest in parts]
    distances = np.where(
        sides[0], wholes[0] + math.floor(offsets[0]), wholes[1] + math.floor(offsets[1])
    )
    rests = [offset - math.floor(offset) for offset in offsets]
    digits = int(distances.max()).bit_length()
    tries = 64
    while True:
        tried = uniform(source, tries, len(numbers)).astype(np.int64)
        for side, rest in zip(sides, rests, strict=True):
            if rest:
                tried = _accepted(source, rate * rest, tried, side[tried])
        for digit in reversed(range(digits)):
            tried = _accepted(source, rate * 2**digit, tried, distances[tried] >> digit & 1 == 1)
        if len(tried):
            return int(tried[0])
        tries = min(2 * tries, _MOST_TRIES)


def _accepted(
    source: Source, exponent: Fraction, tried: NDArray[np.int64], tossed: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """The tried places that remain after one coin is tossed for each place marked in `tossed`. A
    coin keeps its place with probability e^−exponent.
    """
    kept = np.ones(len(tried), dtype=np.bool_)
    kept[tossed] = exponential_coins(source, exponent, int(np.count_nonzero(tossed))) == 1
    return tried[kept]
