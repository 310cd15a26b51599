"""At most k rows of each person, chosen uniformly, in one pass over rows in any order.

Every row gets a random key, and of each person those with the k smallest keys stay. Keys have
nothing to do with values, so what is chosen betrays nothing; and any k rows are equally likely to
stay, since keys that are equal are told apart by further keys. Memory is that of the rows that
stay, and as many more.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headcount.core.source import Source
from headcount.data.parts import Part

_SPARE = 2**22  # rows that are looked at together, at least


@dataclass(frozen=True, eq=False)
class _Keyed:
    part: Part
    keys: NDArray[np.uint64]
    further: NDArray[np.uint64]  # of rows whose first keys were once equal; 0 is none yet

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, which: NDArray[np.intp]) -> "_Keyed":
        return _Keyed(self.part.take(which), self.keys[which], self.further[which])


class Chosen:
    """The rows that are chosen so far."""

    def __init__(self, rows_per_person: int, source: Source) -> None:
        self._most, self._source = rows_per_person, source
        self._pieces: list[_Keyed] = []
        self._kept = 0  # rows of the first piece, after the last sorting out
        self._rows = 0

    def add(self, part: Part) -> None:
        keys = self._source.integers(len(part.codes), np.uint64)
        self._pieces.append(_Keyed(part, keys, np.zeros(len(keys), dtype=np.uint64)))
        self._rows += len(keys)
        if self._rows > max(_SPARE, 2 * self._kept):
            self._sort_out()

    def part(self) -> Part | None:
        """What was chosen, by person; None if there was nothing."""
        if not self._pieces:
            return None
        self._sort_out()
        return self._pieces[0].part

    def _sort_out(self) -> None:
        whole = _joined(self._pieces)
        persons = whole.part.persons
        assert persons is not None
        further = [whole.further] if whole.further.any() else []
        order = np.lexsort((*further, whole.keys, persons))
        while len(equal := self._equal(whole, persons, order)):
            whole.further[equal] = self._source.integers(len(equal), np.uint64)
            order = np.lexsort((whole.further, whole.keys, persons))
        ordered = persons[order]
        new = np.concatenate([[True], ordered[1:] != ordered[:-1]])
        starts = np.flatnonzero(new)
        place = np.arange(len(order)) - np.repeat(starts, np.diff([*starts, len(order)]))
        kept = whole.take(order[place < self._most])
        self._pieces, self._kept, self._rows = [kept], len(kept), len(kept)

    @staticmethod
    def _equal(
        whole: _Keyed, persons: NDArray[np.int64], order: NDArray[np.intp]
    ) -> NDArray[np.intp]:
        """Rows that are still to be told apart from others of the same person."""
        one, other = order[:-1], order[1:]
        same = (
            (persons[one] == persons[other])
            & (whole.keys[one] == whole.keys[other])
            & (whole.further[one] == whole.further[other])
        )
        return np.union1d(one[same], other[same])


def _joined(pieces: list[_Keyed]) -> _Keyed:
    def joined(arrays: list[NDArray[np.int64] | None]) -> NDArray[np.int64] | None:
        some = [array for array in arrays if array is not None]
        return np.concatenate(some) if some else None

    part = Part(
        np.concatenate([piece.part.codes for piece in pieces]),
        joined([piece.part.persons for piece in pieces]),
        joined([piece.part.groups for piece in pieces]),
    )
    keys, further = (
        np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("keys", "further")
    )
    return _Keyed(part, keys, further)
