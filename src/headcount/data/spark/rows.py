"""Encodes the rows of a partition for a question, and provides random bits for the partition."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from headcount.core.source import Source
from headcount.data.encoded_rows import EncodedRows, EncodedTable, Numbering
from headcount.data.frames import StreamRows
from headcount.data.question import Question
from headcount.data.spark.columns import restored
from headcount.data.spark.results import Batches
from headcount.randomness.sources import SecureSource, SeededSource


def partition_source(seed: SeededSource | None) -> Source:
    """The source of random bits for one partition. It is a new secure source, or the partition's
    part of a seeded source.
    """
    if seed is None:
        return SecureSource()
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None
    return seed.part(task.partitionId())


class Reader(Protocol):
    """Turns the batches of a partition into encoded rows."""

    @property
    def question(self) -> Question: ...

    def encoded_rows(
        self, batches: Batches, groups: Numbering
    ) -> Iterator[tuple[EncodedRows, float]]: ...


@dataclass(frozen=True)
class RawRows:
    """Reads raw rows. They have the columns of the question, in the same order."""

    question: Question

    def encoded_rows(
        self, batches: Batches, groups: Numbering
    ) -> Iterator[tuple[EncodedRows, float]]:
        columns = list(self.question.columns)
        named: Any = (batch.rename_columns(columns) for batch in batches)
        return iter(EncodedTable(StreamRows(columns, lambda _: named), self.question, groups))


@dataclass(frozen=True)
class EncodedChoice:
    """Reads rows that `ChoiceStep` has chosen and encoded."""

    question: Question

    def encoded_rows(
        self, batches: Batches, groups: Numbering
    ) -> Iterator[tuple[EncodedRows, float]]:
        for batch in batches:
            if not batch.num_rows:
                continue
            codes = restored(batch.column("code").to_numpy(), self.question.cleaning.dtype)
            group_numbers = None
            if self.question.group is not None:
                listed = batch.column("name").dictionary_encode()
                names = [json.loads(name) for name in listed.dictionary.to_pylist()]
                numbers = [groups.numbers.setdefault(name, len(groups.numbers)) for name in names]
                group_numbers = np.array(numbers, dtype=np.int64)[listed.indices.to_numpy()]
            yield EncodedRows(codes, groups=group_numbers), 1.0


def quietly(share: float) -> None:
    """Show no progress, since Spark shows its own progress."""
