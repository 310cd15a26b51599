"""Sampling from any finite law by a table of 64-bit thresholds."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.laws import UNIT, Law
from headcount.core.errors import InvalidParameter
from headcount.core.source import Source
from headcount.randomness.draws import WHOLE

_UNDECIDED = -1
_FEW = 4096  # draws below which the guide is not worth its making


class ThresholdTable:
    """Draws start + i with probability exactly weights[i] / 2^64; the weights sum to 2^64.

    A 64-bit uniform falls between two thresholds. Its first 16 bits mostly decide between which;
    where they do not, the other 48 are drawn and the threshold is searched.

    `total_variation` is how far the table is from the law it was made of. Whoever samples people's
    messages from it owes (1 + e^ε) times that, times the number of people, to δ.
    """

    def __init__(self, weights: Sequence[int], start: int = 0, total_variation: float = 0.0):
        if not weights or min(weights) < 0 or sum(weights) != WHOLE:
            raise InvalidParameter("`weights` must be non-negative integers that sum to 2^64")
        drawn = [i for i, weight in enumerate(weights) if weight]  # the others never are
        firsts = np.zeros(len(drawn), dtype=np.uint64)
        np.cumsum(np.array([weights[i] for i in drawn[:-1]], dtype=np.uint64), out=firsts[1:])
        self._set(np.array(drawn, dtype=np.int64) + start, firsts, total_variation)

    @classmethod
    def of(cls, law: Law) -> "ThresholdTable":
        """The table of a law: masses rounded down to 2^−64, what is left over to the largest."""
        shares = np.minimum(law.mass / law.mass.sum(), 1 - UNIT)
        weights = np.ldexp(shares, 64).astype(np.uint64)
        left = -int(weights.sum(dtype=np.uint64)) % WHOLE
        if left >= WHOLE // 2:  # rounding errors of the division may have made the sum too large
            left -= WHOLE
        drawn = np.flatnonzero(weights)
        firsts = np.cumsum(weights[drawn], dtype=np.uint64) - weights[drawn]
        firsts[drawn > weights.argmax()] += np.uint64(left % WHOLE)
        # Rounding moves `left` between outcomes; the division errs by a unit for each.
        variation = abs(left) / WHOLE + law.slack + law.tail + len(weights) * UNIT
        table = cls.__new__(cls)
        table._set(drawn + law.start, firsts, variation)
        return table

    def _set(
        self, outcomes: NDArray[np.int64], firsts: NDArray[np.uint64], total_variation: float
    ) -> None:
        # outcomes[j] is drawn by the uniforms from firsts[j] up to firsts[j+1].
        self._outcomes = outcomes
        self._firsts = firsts
        self.total_variation = total_variation

    def sample(self, source: Source, count: int) -> NDArray[np.int64]:
        """`count` independent draws."""
        if count < _FEW:
            found = self._search(source.integers(count, np.uint64))
        else:
            tops = source.integers(count, np.uint16).astype(np.uint64)
            found = self._guide[tops]
            ties = np.flatnonzero(found == _UNDECIDED)
            rest = source.integers(len(ties), np.uint64) >> np.uint64(16)
            found[ties] = self._search((tops[ties] << np.uint64(48)) | rest)
        return self._outcomes[found]

    def _search(self, uniforms: NDArray[np.uint64]) -> NDArray[np.int64]:
        found: NDArray[np.int64] = np.searchsorted(self._firsts, uniforms, side="right") - 1
        return found

    @cached_property
    def _guide(self) -> NDArray[np.int64]:
        """Where a uniform lies, by its first 16 bits, if they decide it."""
        edges = np.arange(1 << 16, dtype=np.uint64) << np.uint64(48)
        first, last = self._search(edges), self._search(edges | np.uint64((1 << 48) - 1))
        first[first != last] = _UNDECIDED
        return first
