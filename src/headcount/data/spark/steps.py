"""What an executor does with one partition of a frame: rows in, a few numbers out.

Steps are frozen objects that travel to the executors, where each is called with the record batches
of a partition. Nothing random travels: every task has a secure source of its own, keyed where it
runs. Only a seeded source, which is not private anyway, gives each partition its part.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headcount.core.errors import HeadcountError
from headcount.core.protocol import Protocol
from headcount.core.tally import Tally
from headcount.data.chosen import Chosen
from headcount.data.counting import Counting
from headcount.data.cutting import pieces
from headcount.data.parts import Numbering
from headcount.data.question import Question
from headcount.data.spark.columns import stored
from headcount.data.spark.home import Batches, home, refused
from headcount.data.spark.refusals import Refusal
from headcount.data.spark.rows import RawRows, Reader, partition_source, quietly
from headcount.randomness.sources import SeededSource
from headcount.road.people import Group
from headcount.road.pieces import tally_of_part

_ROWS = 2**16  # of a batch that is made here


@dataclass(frozen=True)
class Surveying:
    """How many people there are in each group, and where that may be known, with each value."""

    reader: Reader

    def __call__(self, batches: Batches) -> Batches:
        question = self.reader.question
        groups = Numbering.of_groups(question.groups)
        counting = Counting(question, groups)
        try:
            for part, _ in self.reader.parts(batches, groups):
                counting.add(part)
        except HeadcountError as error:
            yield refused(error, question)
            return
        for name, survey in counting.surveys().items():
            yield home(name, survey.users, survey.counts)


@dataclass(frozen=True)
class Choosing:
    """The rows that count of each person, all of whose rows are in one partition, encoded."""

    question: Question
    seed: SeededSource | None

    def __call__(self, batches: Batches) -> Batches:
        import pyarrow

        groups = Numbering.of_groups(self.question.groups)
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

    def __call__(self, batches: Batches) -> Batches:
        source = partition_source(self.seed)
        sources = {group: source.part(at) for at, group in enumerate(self.groups)}
        names = Numbering.of_found(self.groups, self.reader.question)
        tallies: dict[Group, Tally] = {}
        try:
            parts = self.reader.parts(batches, names)
            for group, number, codes in pieces(parts, self.protocols, names, quietly):
                part = sources[group].part(number)
                tally = tally_of_part(self.protocols[group], codes, part)
                tallies[group] = tallies[group] + tally if group in tallies else tally
        except HeadcountError as error:
            yield refused(error, self.reader.question)
            return
        for group, tally in tallies.items():
            yield home(group, tally.users, tally.counts)
