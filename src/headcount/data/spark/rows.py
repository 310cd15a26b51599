"""Batches of a partition as parts of a question, and the random bits for them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from headcount.core.source import Source
from headcount.data.frames import StreamRows
from headcount.data.parts import Numbering, Part, Parts
from headcount.data.question import Question
from headcount.data.spark.columns import restored
from headcount.data.spark.home import Batches
from headcount.randomness.sources import SecureSource, SeededSource


def partition_source(seed: SeededSource | None) -> Source:
    """The source of a task: one of its own, or the partition's part of one that repeats."""
    if seed is None:
        return SecureSource()
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None
    return seed.part(task.partitionId())


class Reader(Protocol):
    """How the batches of a partition become parts."""

    @property
    def question(self) -> Question: ...

    def parts(self, batches: Batches, groups: Numbering) -> Iterator[tuple[Part, float]]: ...


@dataclass(frozen=True)
class RawRows:
    """Rows as they are: the columns of a question, in its order."""

    question: Question

    def parts(self, batches: Batches, groups: Numbering) -> Iterator[tuple[Part, float]]:
        columns = list(self.question.columns)
        named: Any = (batch.rename_columns(columns) for batch in batches)
        return iter(Parts(StreamRows(columns, lambda _: named), self.question, groups))


@dataclass(frozen=True)
class ChosenRows:
    """Rows that `Choosing` has encoded."""

    question: Question

    def parts(self, batches: Batches, groups: Numbering) -> Iterator[tuple[Part, float]]:
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


def quietly(share: float) -> None:
    """Progress is Spark's to show."""
