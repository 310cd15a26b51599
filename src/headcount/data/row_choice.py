"""Chooses at most k rows of each person, uniformly, in one pass. Rows may come in any order.

Every row gets a random key. For each person, the k rows with the smallest keys are kept. Keys do
not depend on values, so the choice reveals nothing. Rows with equal keys get further random keys,
so all sets of k rows of a person are equally likely. The memory is at most twice the memory of the
kept rows, or the memory of `_SPARE` rows if that is larger.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headcount.core.source import Source
from headcount.data.encoded_rows import EncodedRows

_SPARE = 2**22  # at least this many rows are collected before some are dropped


@dataclass(frozen=True, eq=False)
class _Keyed:
    """Rows with their random keys. `further` has keys that break ties; 0 means no such key."""

    rows: EncodedRows
    keys: NDArray[np.uint64]
    further: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, which: NDArray[np.intp]) -> "_Keyed":
        return _Keyed(self.rows.take(which), self.keys[which], self.further[which])


class RowChoice:
    """The rows that have been chosen so far."""

    def __init__(self, rows_per_person: int, source: Source) -> None:
        self._most, self._source = rows_per_person, source
        self._pieces: list[_Keyed] = []
        self._kept = 0  # the number of rows that the last selection kept
        self._collected = 0

    def add(self, rows: EncodedRows) -> None:
        keys = self._source.integers(len(rows.codes), np.uint64)
        self._pieces.append(_Keyed(rows, keys, np.zeros(len(keys), dtype=np.uint64)))
        self._collected += len(keys)
        if self._collected > max(_SPARE, 2 * self._kept):
            self._select()

    def rows(self) -> EncodedRows | None:
        """The chosen rows, sorted by person, or None if no rows were added."""
        if not self._pieces:
            return None
        self._select()
        return self._pieces[0].rows

    def _select(self) -> None:
        """For each person, keep the rows with the smallest keys. Drop the other rows."""
        whole = _joined(self._pieces)
        persons = whole.rows.persons
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
        self._pieces, self._kept, self._collected = [kept], len(kept), len(kept)

    @staticmethod
    def _equal(
        whole: _Keyed, persons: NDArray[np.int64], order: NDArray[np.intp]
    ) -> NDArray[np.intp]:
        """The rows whose keys all equal the keys of another row of the same person."""
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

    rows = EncodedRows(
        np.concatenate([piece.rows.codes for piece in pieces]),
        joined([piece.rows.persons for piece in pieces]),
        joined([piece.rows.groups for piece in pieces]),
    )
    keys, further = (
        np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("keys", "further")
    )
    return _Keyed(rows, keys, further)
