"""The steps that an executor runs on one partition of a data frame.

A step is an immutable object. The driver sends the step to the executors, and each executor calls
it with the record batches of a partition. No secure random bits are sent: every Spark task creates
a secure source of its own where it runs. A seeded source is sent, since it is not private anyway.
Each partition then uses its own numbered part of the seeded source.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headcount.core.errors import HeadcountError
from headcount.core.protocol import Protocol
from headcount.core.tally import Tally
from headcount.data.counting import Counting
from headcount.data.encoded_rows import Numbering
from headcount.data.piece_cutter import pieces
from headcount.data.question import Question
from headcount.data.reading import Reading
from headcount.data.row_choice import RowChoice
from headcount.data.spark.columns import stored
from headcount.data.spark.remote_refusals import RemoteRefusal
from headcount.data.spark.results import Batches, count_result, refusal_result
from headcount.data.spark.rows import RawRows, Reader, partition_source, quietly
from headcount.randomness.sources import SeededSource
from headcount.road.people import Group
from headcount.road.pieces import joined, tally_of_part

_ROWS = 2**16  # the largest number of rows in a batch that is yielded


@dataclass(frozen=True)
class CensusStep:
    """Counts people by group, and also by value if the driver may see counts by value."""

    reader: Reader

    def __call__(self, batches: Batches) -> Batches:
        question = self.reader.question
        groups = Numbering.of_groups(question.groups)
        counting = Counting(question, groups)
        try:
            for rows, _ in self.reader.encoded_rows(batches, groups):
                counting.add(rows)
        except HeadcountError as error:
            yield refusal_result(error, question)
            return
        for name, census in counting.censuses().items():
            yield count_result(name, census.users, census.counts)


@dataclass(frozen=True)
class ChoiceStep:
    """Chooses the rows of each person that count, and encodes them. All rows of a person must be in
    one partition.
    """

    question: Question
    seed: SeededSource | None

    def __call__(self, batches: Batches) -> Batches:
        import pyarrow

        groups = Numbering.of_groups(self.question.groups)
        choice = RowChoice(self.question.rows_per_person, partition_source(self.seed))
        columns = ["code", "name", "refusal"]
        try:
            for rows, _ in RawRows(self.question).encoded_rows(batches, groups):
                choice.add(rows)
        except HeadcountError as error:
            kind = stored(np.zeros(0, dtype=self.question.cleaning.dtype)).dtype
            code = pyarrow.array([None], pyarrow.from_numpy_dtype(kind))
            why = pyarrow.array([RemoteRefusal.of(error, self.question).to_json()])
            nobody = pyarrow.nulls(1, pyarrow.string())
            yield pyarrow.RecordBatch.from_arrays([code, nobody, why], columns)
            return
        names = pyarrow.array([json.dumps(name) for name in groups.numbers], pyarrow.string())
        for part in choice.rows():
            for start in range(0, len(part.codes), _ROWS):
                some = part.cut(start, start + _ROWS)
                none = pyarrow.nulls(len(some.codes), pyarrow.string())
                group = none if some.groups is None else names.take(pyarrow.array(some.groups))
                arrays = [pyarrow.array(stored(some.codes)), group, none]
                yield pyarrow.RecordBatch.from_arrays(arrays, columns)


@dataclass(frozen=True)
class NamesStep:
    """Replaces the words that mean a missing name by nulls, in a frame that has only names. It also
    removes blanks around names if they are ignored.
    """

    reading: Reading

    def __call__(self, batches: Batches) -> Batches:
        import pyarrow

        for batch in batches:
            names = self.reading.with_nulls(batch.column(0))
            yield pyarrow.RecordBatch.from_arrays([names], batch.schema.names)


@dataclass(frozen=True)
class TallyStep:
    """Makes the messages of each group and counts them. Only the tally is returned."""

    reader: Reader
    groups: tuple[Group, ...]
    protocols: Mapping[Group, Protocol]
    seed: SeededSource | None

    def __call__(self, batches: Batches) -> Batches:
        source = partition_source(self.seed)
        sources = {group: source.part(at) for at, group in enumerate(self.groups)}
        names = Numbering.of_found(self.groups, self.reader.question)
        tallies: dict[Group, Tally] = {}
        try:
            rows = self.reader.encoded_rows(batches, names)
            for group, number, codes in pieces(rows, self.protocols, names, quietly):
                bits = sources[group].part(number)
                tally = tally_of_part(self.protocols[group], joined(codes), bits)
                tallies[group] = tallies[group] + tally if group in tallies else tally
        except HeadcountError as error:
            yield refusal_result(error, self.reader.question)
            return
        for group, tally in tallies.items():
            yield count_result(group, tally.users, tally.counts)
