"""A histogram by correlated noise (Ghazi, Kumar, Manurangsi, Pagh 2020, in every bucket).

Notation    x ∈ {0, …, d−1} a person's bucket, n people, h of them honest, ε1 = −ln a.
Randomizer  Send +1 of bucket x, and in every bucket noise of +1 and −1 that mostly cancels: see
            `correlated_noise`.
Analyzer    (number of +1) − (number of −1), in every bucket.
Privacy     A person who moves touches two buckets, which are independent: δ is the exact divergence
            of the pair. Paper: two counts of (ε/2, δ/2) each.
Error       Two-sided geometric noise of ε1 < ε/2 in each bucket if everyone is honest, whatever d
            is. Central noise is that of ε/2.
Messages    1 + 2d(a/(1−a) + rp/(1−p))/h of a bucket and a sign. Local ε is infinite.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.messages import Alphabet, Messages
from headcount.core.protocol import Protocol
from headcount.core.randomizer import BundleLaw
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Histogram
from headcount.protocols.shuffle.correlated import Correlated


@dataclass(frozen=True)
class CorrelatedHistogram(Correlated):
    name = "shuffle.correlated-histogram"
    tasks = (Histogram,)

    @property
    def _cells(self) -> int:
        return self.task.domain

    @property
    def alphabet(self) -> Alphabet:
        """2·bucket for +1, one more for −1."""
        return Alphabet.numbers(2 * self._cells, dummies=True)

    def _own(self, encoded: NDArray[Any]) -> Messages:
        return Messages.one_each(self._coded(encoded, 1))

    def _coded(self, cells: NDArray[Any], sign: int) -> NDArray[Any]:
        codes = cells.astype(self.alphabet.dtype)
        codes *= 2
        codes += sign < 0
        return codes

    def law(self, value: int) -> BundleLaw | None:
        return None  # a product over all buckets

    def _tally(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        return Protocol._tally(self, payload)  # by number, unlike the count

    def _unbiased(self, tally: Tally, source: Source | None) -> Any:
        return (tally.counts[::2] - tally.counts[1::2]).astype(np.float64)

    def _truth(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        return counts
