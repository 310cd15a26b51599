"""Encoded values, cut into pieces of one size for each group, whatever the batches of rows."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.protocol import Protocol
from headcount.data.parts import Numbering, Part
from headcount.road.people import Group, Progress


def pieces(
    parts: Iterable[tuple[Part, float]],
    protocols: Mapping[Group, Protocol],
    groups: Numbering,
    progress: Progress,
) -> Iterator[tuple[Group, int, NDArray[Any]]]:
    """Encoded values, as many at a time as their protocol takes, whatever the batches are."""
    cutters = {
        group: Cutter(protocol.randomizer.people_at_once) for group, protocol in protocols.items()
    }
    names = {at: name for name, at in groups.numbers.items()}
    for part, share in parts:
        if part.groups is None:
            split: Iterable[tuple[Group, NDArray[Any]]] = [(None, part.codes)]
        else:
            order = np.argsort(part.groups, kind="stable")
            found, firsts = np.unique(part.groups[order], return_index=True)
            cut = np.split(part.codes[order], firsts[1:])
            split = [(names[at], codes) for at, codes in zip(found.tolist(), cut, strict=True)]
        for group, codes in split:
            if group in cutters:
                for number, piece in cutters[group].add(codes):
                    yield group, number, piece
        progress(share)
    for group, cutter in cutters.items():
        for number, piece in cutter.rest():
            yield group, number, piece


class Cutter:
    """Takes arrays of any length, and gives arrays of one length."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._arrays: list[NDArray[Any]] = []
        self._size = self._number = 0

    def add(self, array: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
        while self._size + len(array) >= self._length:
            cut = self._length - self._size
            self._arrays.append(array[:cut])
            array = array[cut:]
            yield from self.rest()
        if len(array):
            self._arrays.append(array)
            self._size += len(array)

    def rest(self) -> Iterator[tuple[int, NDArray[Any]]]:
        if self._arrays:
            whole = self._arrays[0] if len(self._arrays) == 1 else np.concatenate(self._arrays)
            number, self._arrays, self._size = self._number, [], 0
            self._number += 1
            yield number, whole
