"""What comes home: a row for each group, with people, counts, or why rows are refused.

Rows of all partitions are added up by an executor, so that no part of a crowd is ever seen alone
by the driver.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headcount.core.errors import HeadcountError
from headcount.core.tally import Tally
from headcount.data.engine import Survey
from headcount.data.question import Question
from headcount.data.spark.refusals import Refusal, joint
from headcount.road.people import Group

if TYPE_CHECKING:
    import pyarrow

# What a step is called with, a partition, and what it yields.
Batches: TypeAlias = "Iterator[pyarrow.RecordBatch]"

HOME = "name string, users bigint, counts binary, refusal string"


def home_rows(table: "pyarrow.RecordBatch | pyarrow.Table") -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def home(name: Group, users: int, counts: NDArray[np.int64] | None) -> "pyarrow.RecordBatch":
    held = None if counts is None else counts.astype("<i8").tobytes()
    return home_batch(json.dumps(name), users, held, None)


def refused(error: HeadcountError, question: Question) -> "pyarrow.RecordBatch":
    return home_batch(None, None, None, Refusal.of(error, question).to_json())


def home_batch(*row: Any) -> "pyarrow.RecordBatch":
    import pyarrow

    kinds = (pyarrow.string(), pyarrow.int64(), pyarrow.binary(), pyarrow.string())
    arrays = [pyarrow.array([cell], kind) for cell, kind in zip(row, kinds, strict=True)]
    return pyarrow.RecordBatch.from_arrays(arrays, [part.split()[0] for part in HOME.split(", ")])


def counts_of(held: bytes | None) -> NDArray[np.int64] | None:
    return None if held is None else np.frombuffer(held, "<i8").astype(np.int64)


@dataclass(frozen=True)
class Adding:
    """One row for each group from those of all partitions: surveys, or tallies of protocols."""

    kinds: Mapping[Group, tuple[str, int | None]] | None = None

    def __call__(self, batches: Batches) -> Batches:
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
            yield home_batch(None, None, None, refused.to_json())
            return
        for group, total in found.items():
            yield home(group, total.users, total.counts)

    def _part(self, group: Group, users: int, counts: NDArray[np.int64] | None) -> Survey | Tally:
        if self.kinds is None or counts is None:
            return Survey(users, counts)
        protocol, modulus = self.kinds[group]
        return Tally(counts, users, protocol, modulus)
