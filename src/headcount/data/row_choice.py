"""Chooses at most k rows of each person, uniformly, in one pass. Rows may come in any order.

Every row gets a random key. For each person, the k rows with the smallest keys are kept. Keys do
not depend on values, so the choice reveals nothing. Rows with equal keys get further random keys,
so all sets of k rows of a person are equally likely.

If there are many rows, they are divided into parts, and all rows of a person are in one part. Parts
are small enough for the cache of a core, and several cores work on them. The rows that are not kept
are dropped from time to time: when there are more than `_SPARE` rows, and also more than 1.5 times
as many as were kept the last time. While rows are dropped, the choice needs up to about twice the
memory of all these rows.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headcount.core.source import Source
from headcount.data.columns import numbered, spread
from headcount.data.encoded_rows import EncodedRows

if TYPE_CHECKING:
    import pyarrow

_SPARE = 2**22  # at least this many rows are collected before some are dropped
# Whenever there are this many new rows, they are divided into parts. If the table has fewer rows,
# all of them are one part.
_FEW = 2**17
_PARTS = 64  # how many parts there are
_LAST = np.uint64(2**64 - 1)  # the largest key


@dataclass(frozen=True, eq=False)
class _Keyed:
    """Rows with their random keys. `further` has the keys that break ties. A row without such a key
    has a 0 there.
    """

    rows: EncodedRows
    keys: NDArray[np.uint64]
    further: NDArray[np.uint64] | None = None

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def persons(self) -> "pyarrow.Array":
        assert self.rows.persons is not None
        return self.rows.persons

    def take(self, which: NDArray[np.intp]) -> "_Keyed":
        further = None if self.further is None else self.further[which]
        return _Keyed(self.rows.take(which), self.keys[which], further)

    def cut(self, start: int, stop: int) -> "_Keyed":
        further = None if self.further is None else self.further[start:stop]
        return _Keyed(self.rows.cut(start, stop), self.keys[start:stop], further)


class RowChoice:
    """The rows that have been chosen so far."""

    def __init__(self, rows_per_person: int, source: Source) -> None:
        self._most, self._source = rows_per_person, source
        self._new: list[_Keyed] = []  # rows that are not yet divided into parts
        self._parts: list[list[_Keyed]] = []
        self._kept = 0  # the number of rows that the last selection kept
        self._collected = self._undivided = 0

    def add(self, rows: EncodedRows) -> None:
        keys = self._source.integers(len(rows.codes), np.uint64)
        self._new.append(_Keyed(rows, keys))
        self._undivided += len(keys)
        if self._undivided >= _FEW:
            self._divide()
        if self._collected > max(_SPARE, self._kept + self._kept // 2):
            self._select()

    def rows(self) -> list[EncodedRows]:
        """The chosen rows in parts. All rows of a person are in one part."""
        if self._parts and self._new:
            self._divide()
        elif self._new:
            self._parts, self._new = [self._new], []
        self._select()
        return [part.rows for pieces in self._parts for part in pieces]

    def _divide(self) -> None:
        """Move the new rows into the parts of their persons."""
        whole = _joined(self._new)
        places = spread(whole.persons, _PARTS)
        ordered = whole.take(np.argsort(places, kind="stable"))
        ends = np.cumsum(np.bincount(places, minlength=_PARTS)).tolist()
        self._parts = self._parts or [[] for _ in range(_PARTS)]
        for pieces, start, stop in zip(self._parts, [0, *ends], ends, strict=False):
            if start < stop:
                pieces.append(ordered.cut(start, stop))
        self._collected += self._undivided
        self._new, self._undivided = [], 0

    def _select(self) -> None:
        """For each person, keep the rows with the smallest keys. Drop the other rows."""
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            tried = pool.map(partial(_selected, most=self._most), self._parts)
            self._parts = [self._settled(part) for part in tried]
        self._kept = self._collected = sum(len(part) for pieces in self._parts for part in pieces)

    def _settled(self, tried: "_Tried") -> list[_Keyed]:
        """The selected rows. If equal keys prevented the selection, further keys decide. They are
        drawn by the calling thread, since a source need not be safe to share between threads.
        """
        while not tried.done:
            (whole,) = tried.pieces
            tried = _selected([_with_further_keys(whole, self._source)], self._most)
        return tried.pieces


class _Tried(NamedTuple):
    """The rows that a selection kept. If equal keys prevented it, `done` is false and `pieces` has
    all rows.
    """

    pieces: list[_Keyed]
    done: bool = True


def _selected(pieces: list[_Keyed], most: int) -> _Tried:
    """For each person, the rows with the smallest keys."""
    if not pieces:
        return _Tried([])
    whole = _joined(pieces)
    which = _smallest(whole, most)
    return _Tried([whole], done=False) if which is None else _Tried([whole.take(which)])


def _smallest(whole: _Keyed, most: int) -> NDArray[np.intp] | None:
    """The positions of the rows to keep, or None if equal keys prevent the selection."""
    persons, number = numbered(whole.persons)
    if most == 1:
        least = np.full(number, _LAST)
        np.minimum.at(least, persons, whole.keys)
        which = np.flatnonzero(whole.keys == least[persons])
        if len(which) == number:
            return which
    keep = np.bincount(persons, minlength=number)[persons] <= most
    crowded = np.flatnonzero(~keep)
    if not len(crowded):
        return np.arange(len(whole))
    order, same = _ordered(whole, persons, crowded)
    if same.any():
        return None
    ordered = persons[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    place = np.arange(len(order)) - np.repeat(starts, np.diff([*starts.tolist(), len(order)]))
    keep[order[place < most]] = True
    return np.flatnonzero(keep)


def _ordered(
    whole: _Keyed, persons: NDArray[np.integer], some: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Some rows in the order of persons and keys, and a mask of the rows that are tied with the
    next row.
    """
    further = whole.further
    columns = [persons, whole.keys] if further is None else [persons, whole.keys, further]
    order = some[np.lexsort([column[some] for column in reversed(columns)])]
    one, other = order[:-1], order[1:]
    same = (persons[one] == persons[other]) & (whole.keys[one] == whole.keys[other])
    if further is not None:
        same &= (further[one] == further[other]) | (further[one] == 0)
    return order, same


def _with_further_keys(whole: _Keyed, source: Source) -> _Keyed:
    """The same rows, with more further keys. If two rows of a person have equal keys, both rows get
    a further key. A row that already has a further key keeps it, unless the further keys of both
    rows are equal.
    """
    persons, _ = numbered(whole.persons)
    further = np.zeros(len(whole), dtype=np.uint64) if whole.further is None else whole.further
    order, same = _ordered(replace(whole, further=further), persons, np.arange(len(whole)))
    one, other = order[:-1][same], order[1:][same]
    both = further[one] == further[other]
    tied = np.union1d(one, other[both])
    new = further.copy()
    new[tied] = source.integers(len(tied), np.uint64)
    return replace(whole, further=new)


def _joined(pieces: Sequence[_Keyed]) -> _Keyed:
    if len(pieces) == 1:
        return pieces[0]
    keys = np.concatenate([piece.keys for piece in pieces])
    further = None
    if any(piece.further is not None for piece in pieces):
        zeros = [np.zeros(len(piece), dtype=np.uint64) for piece in pieces]
        some = [zero if one.further is None else one.further
                for zero, one in zip(zeros, pieces, strict=True)]  # fmt: skip
        further = np.concatenate(some)
    return _Keyed(EncodedRows.joined([piece.rows for piece in pieces]), keys, further)
