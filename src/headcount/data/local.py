"""The default engine: this process, its threads, and no more memory than a few batches.

One pass counts. Of a task of many values, rows are kept, encoded, if they are few or cannot be read
again; otherwise a second pass reads them anew.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.errors import InvalidValue, UnreadableData
from headcount.core.protocol import Protocol
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.data.chosen import Chosen
from headcount.data.collecting import PIECE, Piece, collected, works_alone
from headcount.data.engine import Crowds, Engine, Progress, Survey
from headcount.data.parts import Numbering, Part, Parts, group_order
from headcount.data.question import Group, Question
from headcount.data.rows import Rows
from headcount.data.sources import rows_of

_KEPT = 2**26  # bytes of encoded rows that are kept rather than read again
_MOST_CELLS = 2**26  # groups times values


class LocalEngine(Engine):
    name = "local"

    def survey(self, data: Any, question: Question, source: Source, progress: Progress) -> Crowds:
        rows = rows_of(data)
        groups = Numbering()
        if question.groups is not None:
            groups = Numbering({name: at for at, name in enumerate(question.groups)}, closed=True)
        parts = Parts(rows, question, groups)
        counting = Counting(question, groups)
        if question.person is not None:
            chosen = Chosen(question.rows_per_person, source)
            for part, share in parts:
                chosen.add(part)
                progress(share)
            whole = chosen.part()
            kept: list[Part] | None = [] if whole is None else [whole]
            if whole is not None:
                counting.add(whole)
        else:
            kept, size = [], 0
            for part, share in parts:
                counting.add(part)
                progress(share)
                size += part.size
                if kept is not None and not question.cleaning.few_values:
                    kept.append(part)
                    if rows.again and size > _KEPT:
                        kept = None
        surveys = counting.surveys()
        if not surveys:
            raise InvalidValue(
                f"column {question.cleaning.column!r} of {rows.name} must have at least one row "
                f"with a value, got none"
            )
        return LocalCrowds(rows, question, groups, surveys, kept)


@dataclass(eq=False)
class Counting:
    """How many people there are in each group, and with each value where these are few."""

    question: Question
    groups: Numbering
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def _values(self) -> int:
        return self.question.task.domain if self.question.counting else 1

    def add(self, part: Part) -> None:
        groups = max(1, len(self.groups.numbers))
        if groups * self._values > _MOST_CELLS:
            raise InvalidValue(
                f"groups times buckets must be at most {_MOST_CELLS:,}, "
                f"got {groups:,} times {self._values:,}"
            )
        if self._values == 1 and part.groups is None:
            found = np.array([len(part.codes)])
        else:
            cells: NDArray[Any] = part.codes if self._values > 1 else np.zeros(1, dtype=np.int64)
            if part.groups is not None:
                cells = part.groups * self._values + cells
            found = np.bincount(cells, minlength=groups * self._values)
        if len(self.counts) < len(found):
            self.counts = np.concatenate(
                [self.counts, np.zeros(len(found) - len(self.counts), dtype=np.int64)]
            )
        self.counts[: len(found)] += found

    def surveys(self) -> dict[Group, Survey]:
        """Of each group that has people or was declared, in order."""
        numbers: Mapping[Group, int] = self.groups.numbers if self.question.group else {None: 0}
        by_group = self.counts.reshape(-1, self._values)
        out: dict[Group, Survey] = {}
        for name in group_order([*numbers]) if self.question.group else [None]:
            at = numbers[name]
            counts = by_group[at] if at < len(by_group) else np.zeros(self._values, dtype=np.int64)
            users = int(counts.sum())
            if users or self.groups.closed:
                out[name] = Survey(users, counts if self.question.counting else None)
        return out if any(survey.users for survey in out.values()) else {}


@dataclass(frozen=True, eq=False)
class LocalCrowds(Crowds):
    rows: Rows
    question: Question
    groups: Numbering
    surveys: Mapping[Group, Survey]
    kept: list[Part] | None

    def tallies(
        self, protocols: Mapping[Group, Protocol], source: Source, progress: Progress
    ) -> Mapping[Group, Tally]:
        sources = {group: source.part(at) for at, group in enumerate(self.surveys)}
        made = (
            (group, Piece(protocols[group], codes, sources[group].part(number)))
            for group, number, codes in pieces(self._parts(), protocols, self.groups, progress)
        )
        out = collected(made, alone=works_alone(source))
        for group in protocols:
            seen, again = self.surveys[group].users, out[group].users if group in out else 0
            if seen != again:
                raise UnreadableData(
                    f"{self.rows.name} must have the same rows when read again, "
                    f"got {again:,} people instead of {seen:,}"
                )
        return out

    def _parts(self) -> Iterable[tuple[Part, float]]:
        if self.kept is None:
            return Parts(self.rows, self.question, self.groups)
        kept = self.kept
        return ((part, (at + 1) / len(kept)) for at, part in enumerate(kept))


def pieces(
    parts: Iterable[tuple[Part, float]],
    wanted: Iterable[Group],
    groups: Numbering,
    progress: Progress,
) -> Iterator[tuple[Group, int, NDArray[Any]]]:
    """Encoded values, as many at a time as a piece has, whatever the batches are."""
    cutters = {group: Cutter() for group in wanted}
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
    """Arrays of any length in, arrays of `PIECE` out."""

    def __init__(self) -> None:
        self._arrays: list[NDArray[Any]] = []
        self._size = self._number = 0

    def add(self, array: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
        while self._size + len(array) >= PIECE:
            cut = PIECE - self._size
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
