"""Joins and cuts batches of any size, so that each group's values come in pieces of equal size."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.protocol import Protocol
from headcount.data.encoded_rows import EncodedRows, Numbering
from headcount.road.people import Group, Progress
from headcount.road.pieces import Arrays


def pieces(
    batches: Iterable[tuple[EncodedRows, float]],
    protocols: Mapping[Group, Protocol],
    groups: Numbering,
    progress: Progress,
) -> Iterator[tuple[Group, int, Arrays]]:
    """The encoded values of each group in pieces: (group, number of the piece, values).

    A piece is a list of arrays. The protocol of a group sets the number of values in each piece of
    the group. The last piece may have fewer values.
    """
    cutters = {
        group: Cutter(protocol.randomizer.people_at_once) for group, protocol in protocols.items()
    }
    names = {at: name for name, at in groups.numbers.items()}
    for rows, share in batches:
        if rows.groups is None:
            split: Iterable[tuple[Group, NDArray[Any]]] = [(None, rows.codes)]
        else:
            order = np.argsort(rows.groups, kind="stable")
            present, firsts = np.unique(rows.groups[order], return_index=True)
            cut = np.split(rows.codes[order], firsts[1:])
            split = [(names[at], codes) for at, codes in zip(present.tolist(), cut, strict=True)]
        for group, codes in split:
            if group in cutters:
                for number, piece in cutters[group].add(codes):
                    yield group, number, piece
        progress(share)
    for group, cutter in cutters.items():
        for number, piece in cutter.rest():
            yield group, number, piece


class Cutter:
    """Takes arrays of any length, and yields numbered pieces of equal length. A piece is a list of
    arrays.
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self._arrays: list[NDArray[Any]] = []
        self._size = self._number = 0

    def add(self, array: NDArray[Any]) -> Iterator[tuple[int, Arrays]]:
        while self._size + len(array) >= self._length:
            cut = self._length - self._size
            self._arrays.append(array[:cut])
            array = array[cut:]
            yield from self.rest()
        if len(array):
            self._arrays.append(array)
            self._size += len(array)

    def rest(self) -> Iterator[tuple[int, Arrays]]:
        """Yields the values that are left as one more piece, or nothing if no values are left."""
        if self._arrays:
            number, arrays = self._number, self._arrays
            self._number, self._arrays, self._size = number + 1, [], 0
            yield number, arrays
