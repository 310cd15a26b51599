"""Sampling from any finite law with a table of thresholds of up to 128 bits."""

from bisect import bisect_right
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.laws import ROUNDING, Law
from headcount.core.cached import cached_property
from headcount.core.errors import InvalidParameter
from headcount.core.source import Source
from headcount.randomness.draws import WHOLE, successes, uniform

FINE = 1 << 128  # weights add up to this number or to 2^64
_UNDECIDED = -1  # marks 16 bits that do not decide the outcome
_FEW = 4096  # with fewer draws, making `_guide` would take longer than it saves
_MOSTLY = 224  # if at least this many of 256 first bytes mean 0, zeros are skipped


class ThresholdTable:
    """Draws start + i with probability exactly weights[i] / Σ weights.

    The sum of all weights must be 2^64 or 2^128. The thresholds are the cumulative sums of the
    weights. A uniform 64-bit number falls between two thresholds, and these decide the outcome. In
    large samples, the first 16 bits of the number are drawn first. They are usually enough to find
    the two thresholds. If not, the other 48 bits are drawn and the thresholds are searched. If the
    64 bits equal the first 64 bits of a 128-bit threshold, 64 more bits are drawn.

    `total_variation` is an upper bound on the total variation distance between the table and the
    law that the table was made from. If the messages of n people are sampled from the table, δ must
    include this distance times n·(1 + e^ε).
    """

    def __init__(self, weights: Sequence[int], start: int = 0, total_variation: float = 0.0):
        total = sum(weights)
        if not weights or min(weights) < 0 or total not in (WHOLE, FINE):
            raise InvalidParameter("`weights` must be non-negative integers with sum 2^64 or 2^128")
        scale = FINE // total
        drawn = [i for i, weight in enumerate(weights) if weight]  # the others have probability 0
        exact = [0, *accumulate(weights[i] * scale for i in drawn[:-1])]
        firsts = np.array([threshold >> 64 for threshold in exact], dtype=np.uint64)
        outcomes = np.array(drawn, dtype=np.int64) + start
        self._set(outcomes, firsts, total_variation, exact if scale == 1 else None)

    @classmethod
    def of(cls, law: Law) -> "ThresholdTable":
        """The table of a law. Masses are rounded down to multiples of 2^−64.

        The missing probability is added to the largest mass.
        """
        shares = np.minimum(law.mass / law.mass.sum(), 1 - ROUNDING)
        weights = np.ldexp(shares, 64).astype(np.uint64)
        left = -int(weights.sum(dtype=np.uint64)) % WHOLE
        if left >= WHOLE // 2:  # rounding errors may have made the sum too large
            left -= WHOLE
        drawn = np.flatnonzero(weights)
        firsts = np.cumsum(weights[drawn], dtype=np.uint64) - weights[drawn]
        firsts[drawn > weights.argmax()] += np.uint64(left % WHOLE)
        # Rounding moves a weight of `left` between outcomes. The division of the masses by their
        # sum has one rounding error for each outcome.
        variation = abs(left) / WHOLE + law.slack + law.tail + len(weights) * ROUNDING
        table = cls.__new__(cls)
        table._set(drawn + law.start, firsts, variation)
        return table

    @classmethod
    def fine(cls, masses: Sequence[Decimal | Fraction], start: int = 0) -> "ThresholdTable":
        """The table of masses with at least 45 digits, rounded down to multiples of 2^−128.

        The missing probability is added to the largest mass, so that the sum is 1.
        """
        weights = [int(mass * FINE) for mass in masses]
        left = FINE - sum(weights)
        weights[weights.index(max(weights))] += left
        return cls(weights, start, (abs(left) + len(weights)) / FINE)

    def _set(
        self,
        outcomes: NDArray[np.int64],
        firsts: NDArray[np.uint64],
        total_variation: float,
        exact: list[int] | None = None,
    ) -> None:
        # outcomes[j] belongs to the uniform numbers from firsts[j] up to firsts[j+1] − 1. If
        # thresholds have 128 bits, `firsts` holds the first 64 bits of each threshold, and `exact`
        # holds all bits.
        self._outcomes = outcomes
        self._firsts = firsts
        self._exact = exact
        self.total_variation = total_variation

    @cached_property
    def law(self) -> dict[int, Fraction]:
        """The exact probability of every outcome."""
        total = WHOLE if self._exact is None else FINE
        starts = self._exact or [int(first) for first in self._firsts]
        stops = [*starts[1:], total]
        return {
            int(outcome): Fraction(stop - start, total)
            for outcome, start, stop in zip(self._outcomes, starts, stops, strict=True)
        }

    def sample(self, source: Source, count: int) -> NDArray[np.int64]:
        """`count` independent draws."""
        source.owe(count * self.total_variation)
        if count < _FEW:
            places = self._find(source.integers(count, np.uint64), source)
        else:
            tops = source.integers(count, np.uint16)
            places = self._guide[tops]
            ties = np.flatnonzero(places == _UNDECIDED)
            rest = source.integers(len(ties), np.uint64) >> np.uint64(16)
            firsts = tops[ties].astype(np.uint64) << np.uint64(48)
            places[ties] = self._find(firsts | rest, source)
        return self._outcomes[places]

    def sample_nonzero(
        self, source: Source, count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The positions and the outcomes of those of `count` independent draws that are not 0.

        The positions are in increasing order. If most draws are 0, this is faster than `sample`:
        only those draws are completed whose first byte does not already mean 0.
        """
        zeros = self._zero_bytes
        if count < _FEW or zeros < _MOSTLY:
            outcomes = self.sample(source, count)
            positions = np.flatnonzero(outcomes)
            return positions, outcomes[positions]
        source.owe(count * self.total_variation)
        open_ones = successes(source, count, 256 - zeros, bits=8)
        # The first byte of each of them is uniform on the bytes from `zeros` to 255.
        tops = uniform(source, len(open_ones), 256 - zeros) + np.uint64(zeros)
        rest = source.integers(len(open_ones), np.uint64) >> np.uint64(8)
        outcomes = self._outcomes[self._find(tops << np.uint64(56) | rest, source)]
        drawn = outcomes != 0
        return open_ones[drawn], outcomes[drawn]

    @property
    def _zero_bytes(self) -> int:
        """The number z such that the outcome is 0 if the first byte is below z."""
        if self._outcomes[0] != 0:
            return 0
        return int(self._firsts[1]) >> 56 if len(self._firsts) > 1 else 255

    def _find(self, uniforms: NDArray[np.uint64], source: Source) -> NDArray[np.int64]:
        places = self._search(uniforms)
        if self._exact is not None:
            for tie in np.flatnonzero(self._firsts[places] == uniforms):
                more = int(source.integers(1, np.uint64)[0])
                places[tie] = bisect_right(self._exact, (int(uniforms[tie]) << 64) | more) - 1
        return places

    def _search(self, uniforms: NDArray[np.uint64]) -> NDArray[np.int64]:
        places: NDArray[np.int64] = np.searchsorted(self._firsts, uniforms, side="right") - 1
        return places

    @cached_property
    def _guide(self) -> NDArray[np.signedinteger]:
        """For each value of the first 16 bits, the place of the outcome, or `_UNDECIDED`.

        The array has the smallest possible type, since small arrays are read faster.
        """
        edges = np.arange(1 << 16, dtype=np.uint64) << np.uint64(48)
        first, last = self._search(edges), self._search(edges | np.uint64((1 << 48) - 1))
        first[first != last] = _UNDECIDED
        if self._exact is not None:
            first[(first > 0) & (self._firsts[first] == edges)] = _UNDECIDED
        return first.astype(np.min_scalar_type(-len(self._outcomes)))
