"""The error of a sum if a shuffler adds noise to each binary place: N = Σ 2^j·(Z_j − T_j/2).

Z_j is the noise of place j, which is the binary digit of weight 2^j. Its law is truncated geometric
on 0, …, T_j. If there is only one place, the error is Z_0 − T_0/2.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.laws import ROUNDING
from headcount.accounting.truncated_geometric import TruncatedGeometric
from headcount.core.lattice import LatticeLaw

_MOST_MASSES = 1 << 20  # a law with more masses is rounded to a coarser grid
_TRANSFORMED = 1e-13  # an upper bound on the error of a tail due to Fourier transforms


@dataclass(frozen=True)
class TruncatedError:
    """The sum over all j of 2^j times the centered noise of place j. Its law is symmetric."""

    places: tuple[TruncatedGeometric, ...]

    @property
    def standard_error(self) -> float:
        return math.sqrt(sum(4**j * law.variance for j, law in enumerate(self.places)))

    def tail(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """An upper bound on P(error > z) = P(error < −z) for integers z."""
        step, tails = _tails(self.places)
        at = np.floor(values / step).astype(np.int64) + len(tails) // 2
        return tails[np.clip(at, 0, len(tails) - 1)]

    def margins(self, confidence: float) -> tuple[float, float]:
        """The margin on each side: the smallest z ≥ 0 with P(error > z) ≤ (1 − confidence)/2, among
        the multiples of the step of `_tails`.
        """
        step, tails = _tails(self.places)
        beyond = tails[len(tails) // 2 :]  # P(error > 0), P(error > step), …
        half = (1 - confidence) / 2 * (1 + 1e-12)
        margin = float(step * np.argmax(beyond <= half))
        return margin, margin

    def lattice(self) -> LatticeLaw:
        step, tails = _tails(self.places)
        blur = float(step) if step > 1 else 0.0
        start = -step * (len(tails) // 2 - 1)
        return LatticeLaw(float(start), -np.diff(tails), float(step), _TRANSFORMED, blur)


@lru_cache(maxsize=64)
def _tails(places: tuple[TruncatedGeometric, ...]) -> tuple[int, NDArray[np.float64]]:
    """A step, and bounds on P(error ≥ i·step) for i = −r, …, r + 1. The largest error is r·step.

    If the step is not 1, the error of the lower places is rounded up to a multiple of the step. So
    the probabilities are never too small.
    """
    step, masses = 1, places[0].centered.mass
    for j, law in enumerate(places[1:], start=1):
        spaced = np.zeros(law.most * ((1 << j) // step) + 1)
        spaced[:: (1 << j) // step] = law.centered.mass
        masses = _convolved(masses, spaced)
        if len(masses) > _MOST_MASSES and j + 1 < len(places):
            masses, step = _coarser(masses), 2 * step
    grow = (len(masses) + 8) * ROUNDING
    tails = np.cumsum(masses[::-1])[::-1] * (1 + grow)
    slack = _TRANSFORMED if len(places) > 1 else 0.0
    return step, np.concatenate([np.minimum(tails + slack, 1.0), [0.0]])


def _convolved(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    size = len(one) + len(other) - 1
    length = 1 << (size - 1).bit_length()
    product = np.fft.rfft(one, length) * np.fft.rfft(other, length)
    return np.maximum(np.fft.irfft(product, length)[:size], 0.0)


def _coarser(masses: NDArray[np.float64]) -> NDArray[np.float64]:
    """The masses at the even numbers, after the mass at each odd number moves up by one.

    The entries of `masses` are the masses at −r, …, r.
    """
    half = len(masses) // 2
    if half % 2:
        masses = np.concatenate([[0.0], masses, [0.0]])
    # Now the outermost numbers are even. Each even number gets the mass of the odd number below it.
    coarse = masses[::2].copy()
    coarse[1:] += masses[1::2]
    return coarse
