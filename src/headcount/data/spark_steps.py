"""What an executor does with one partition of a Spark frame: rows in, a few numbers out.

Steps are frozen objects that travel to the executors, where each is called with the record batches
of a partition. What is meant for the driver are rows of `HOME`, one for each group; they are added
up by an executor (`Adding`), so that no part of a crowd is ever seen alone at home.

Nothing random travels: every task has a secure source of its own, keyed where it runs. Only a
seeded source, which is not private anyway, gives each partition its part.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from typing import Protocol as Shape

import numpy as np
from numpy.typing import NDArray

from headcount.core.errors import HeadcountError
from headcount.core.protocol import Protocol
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.data.chosen import Chosen
from headcount.data.engine import Survey
from headcount.data.frames import StreamRows
from headcount.data.local import Counting, Cutter, pieces
from headcount.data.parts import Numbering, Part, Parts
from headcount.data.question import Group, Question
from headcount.data.refusals import Refusal, joint
from headcount.data.spark_columns import message_column, payload_of, restored, stored
from headcount.randomness.sources import SecureSource, SeededSource

if TYPE_CHECKING:
    import pyarrow

    Batches = Iterator[pyarrow.RecordBatch]

HOME = "name string, users bigint, counts binary, refusal string"
_ROWS = 2**16  # of a batch that is made here


def partition_source(seed: SeededSource | None) -> Source:
    """The source of a task: one of its own, or the partition's part of one that repeats."""
    if seed is None:
        return SecureSource()
    from pyspark import TaskContext

    context = TaskContext.get()
    return seed.part(0 if context is None else context.partitionId())


def home_rows(table: "pyarrow.RecordBatch | pyarrow.Table") -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def _home(name: Group, users: int, counts: NDArray[np.int64] | None) -> "pyarrow.RecordBatch":
    held = None if counts is None else counts.astype("<i8").tobytes()
    return _home_batch(json.dumps(name), users, held, None)


def _refused(error: HeadcountError, question: Question) -> "pyarrow.RecordBatch":
    return _home_batch(None, None, None, Refusal.of(error, question).to_json())


def _home_batch(*row: Any) -> "pyarrow.RecordBatch":
    import pyarrow

    kinds = (pyarrow.string(), pyarrow.int64(), pyarrow.binary(), pyarrow.string())
    arrays = [pyarrow.array([cell], kind) for cell, kind in zip(row, kinds, strict=True)]
    return pyarrow.RecordBatch.from_arrays(arrays, [part.split()[0] for part in HOME.split(", ")])


def counts_of(held: bytes | None) -> NDArray[np.int64] | None:
    return None if held is None else np.frombuffer(held, "<i8").astype(np.int64)


def _numbering(groups: tuple[Group, ...] | None) -> Numbering:
    if groups is None:
        return Numbering()
    return Numbering({name: at for at, name in enumerate(groups)}, closed=True)


class Reader(Shape):
    """How the batches of a partition become parts."""

    @property
    def question(self) -> Question: ...

    def parts(self, batches: "Batches", groups: Numbering) -> Iterator[tuple[Part, float]]: ...


@dataclass(frozen=True)
class RawRows:
    """Rows as they are: the columns of a question, in its order."""

    question: Question

    def parts(self, batches: "Batches", groups: Numbering) -> Iterator[tuple[Part, float]]:
        columns = list(self.question.columns)
        named: Any = (batch.rename_columns(columns) for batch in batches)
        return iter(Parts(StreamRows(columns, lambda _: named), self.question, groups))


@dataclass(frozen=True)
class ChosenRows:
    """Rows that `Choosing` has encoded."""

    question: Question

    def parts(self, batches: "Batches", groups: Numbering) -> Iterator[tuple[Part, float]]:
        for batch in batches:
            if not batch.num_rows:
                continue
            codes = restored(batch.column("code").to_numpy(), self.question.cleaning.dtype)
            at = None
            if self.question.group is not None:
                listed = batch.column("name").dictionary_encode()
                names = [json.loads(name) for name in listed.dictionary.to_pylist()]
                numbers = [groups.numbers.setdefault(name, len(groups.numbers)) for name in names]
                at = np.array(numbers, dtype=np.int64)[listed.indices.to_numpy()]
            yield Part(codes, groups=at), 1.0


@dataclass(frozen=True)
class Surveying:
    """How many people there are in each group, and where that may be known, with each value."""

    reader: Reader

    def __call__(self, batches: "Batches") -> "Batches":
        question = self.reader.question
        groups = _numbering(question.groups)
        counting = Counting(question, groups)
        try:
            for part, _ in self.reader.parts(batches, groups):
                counting.add(part)
        except HeadcountError as error:
            yield _refused(error, question)
            return
        for name, survey in counting.surveys().items():
            yield _home(name, survey.users, survey.counts)


@dataclass(frozen=True)
class Choosing:
    """The rows that count of each person, all of whose rows are in one partition, encoded."""

    question: Question
    seed: SeededSource | None

    def __call__(self, batches: "Batches") -> "Batches":
        import pyarrow

        groups = _numbering(self.question.groups)
        chosen = Chosen(self.question.rows_per_person, partition_source(self.seed))
        columns = ["code", "name", "refusal"]
        try:
            for part, _ in RawRows(self.question).parts(batches, groups):
                chosen.add(part)
        except HeadcountError as error:
            kind = stored(np.zeros(0, dtype=self.question.cleaning.dtype)).dtype
            code = pyarrow.array([None], pyarrow.from_numpy_dtype(kind))
            why = pyarrow.array([Refusal.of(error, self.question).to_json()])
            nobody = pyarrow.nulls(1, pyarrow.string())
            yield pyarrow.RecordBatch.from_arrays([code, nobody, why], columns)
            return
        whole = chosen.part()
        if whole is None:
            return
        names = pyarrow.array([json.dumps(name) for name in groups.numbers], pyarrow.string())
        for start in range(0, len(whole.codes), _ROWS):
            part = whole.take(np.arange(start, min(start + _ROWS, len(whole.codes))))
            none = pyarrow.nulls(len(part.codes), pyarrow.string())
            group = none if part.groups is None else names.take(pyarrow.array(part.groups))
            arrays = [pyarrow.array(stored(part.codes)), group, none]
            yield pyarrow.RecordBatch.from_arrays(arrays, columns)


@dataclass(frozen=True)
class Tallying:
    """The tally of the messages of each group; messages themselves are forgotten at once."""

    reader: Reader
    groups: tuple[Group, ...]
    protocols: Mapping[Group, Protocol]
    seed: SeededSource | None

    def __call__(self, batches: "Batches") -> "Batches":
        source = partition_source(self.seed)
        sources = {group: source.part(at) for at, group in enumerate(self.groups)}
        numbering = _numbering(self.groups if self.reader.question.group else None)
        tallies: dict[Group, Tally] = {}
        try:
            parts = self.reader.parts(batches, numbering)
            for group, number, codes in pieces(parts, self.protocols, numbering, _quietly):
                part = sources[group].part(number)
                tally = self.protocols[group].collect_encoded(codes, part)
                tallies[group] = tallies[group] + tally if group in tallies else tally
        except HeadcountError as error:
            yield _refused(error, self.reader.question)
            return
        for group, tally in tallies.items():
            yield _home(group, tally.users, tally.counts)


@dataclass(frozen=True)
class Sending:
    """The messages of a group, one a row; if mixed, with keys to sort them by."""

    reader: Reader
    groups: tuple[Group, ...]
    group: Group
    protocol: Protocol
    mixed: bool
    seed: SeededSource | None

    def __call__(self, batches: "Batches") -> "Batches":
        source = partition_source(self.seed).part(self.groups.index(self.group))
        numbering = _numbering(self.groups if self.reader.question.group else None)
        parts = self.reader.parts(batches, numbering)
        for _, number, codes in pieces(parts, [self.group], numbering, _quietly):
            part = source.part(number)
            for start in range(0, len(codes), _ROWS):
                messages = self.protocol.randomize_encoded(codes[start : start + _ROWS], part)
                payload = messages.payload
                if self.protocol.least_copies > 1:
                    # Whoever sent several could make a rare message pass.
                    payload = payload[np.repeat(messages.counts <= 1, messages.counts)]
                payload = self.protocol.alphabet.messages(payload)
                for at in range(0, len(payload), _ROWS):
                    yield self._batch(payload[at : at + _ROWS], part)

    def _batch(self, payload: NDArray[Any], source: Source) -> "pyarrow.RecordBatch":
        import pyarrow

        arrays = [message_column(payload)]
        if self.mixed:
            keys = source.integers(2 * len(payload), np.uint64).view(np.int64).reshape(2, -1)
            arrays += [pyarrow.array(key) for key in keys]
        return pyarrow.RecordBatch.from_arrays(arrays, ["message", "key", "tie"][: len(arrays)])


@dataclass(frozen=True)
class Counted:
    """What stored messages add to a tally; `users` are how many messages there are."""

    protocol: Protocol

    def __call__(self, batches: "Batches") -> "Batches":
        alphabet, cutter, sent = self.protocol.alphabet, Cutter(), 0
        total: Tally | None = None
        try:
            for payload in self._pieces(batches, cutter):
                alphabet.messages(payload)
                sent += len(payload)
                counts = self.protocol.count(payload)
                tally = Tally(counts, 1, self.protocol.name, self.protocol.tally_modulus)
                total = tally if total is None else total + tally
        except HeadcountError as error:
            yield _home_batch(None, None, None, Refusal(error.message, error.hint, None).to_json())
            return
        if total is not None:
            yield _home(None, sent, total.counts)

    def _pieces(self, batches: "Batches", cutter: Cutter) -> Iterator[NDArray[Any]]:
        for batch in batches:
            payload = payload_of(batch.column(0), self.protocol.alphabet)
            yield from (piece for _, piece in cutter.add(payload))
        yield from (piece for _, piece in cutter.rest())


@dataclass(frozen=True)
class Adding:
    """One row for each group from those of all partitions: surveys, or tallies of protocols."""

    kinds: Mapping[Group, tuple[str, int | None]] | None = None

    def __call__(self, batches: "Batches") -> "Batches":
        found: dict[Group, Any] = {}
        refusals: list[Refusal] = []
        for batch in batches:
            for name, users, held, refusal in home_rows(batch):
                if refusal is not None:
                    refusals.append(Refusal.from_json(refusal))
                    continue
                group = json.loads(name)
                part = self._part(group, users, counts_of(held))
                found[group] = found[group] + part if group in found else part
        refused = joint(refusals)
        if refused is not None:
            yield _home_batch(None, None, None, refused.to_json())
            return
        for group, total in found.items():
            yield _home(group, total.users, total.counts)

    def _part(self, group: Group, users: int, counts: NDArray[np.int64] | None) -> Survey | Tally:
        if self.kinds is None or counts is None:
            return Survey(users, counts)
        protocol, modulus = self.kinds[group]
        return Tally(counts, users, protocol, modulus)


def _quietly(share: float) -> None:
    """Progress is Spark's to show."""
