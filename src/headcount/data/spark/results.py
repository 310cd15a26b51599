"""The results that executors return to the driver.

A result has a row for each group, with the number of people and the counts of the group. If any
row of the data is refused, the result is instead a single row with the reason. An executor adds up
the results of all partitions, so the driver never sees the result of a single partition.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headcount.core.errors import HeadcountError
from headcount.core.protocol import Protocol, passed_on
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.data.engine import Census
from headcount.data.question import Question
from headcount.data.spark.remote_refusals import RemoteRefusal, joint_refusal
from headcount.randomness.sources import SecureSource, SeededSource
from headcount.road.people import Group

if TYPE_CHECKING:
    import pyarrow

# The rows of a partition in batches. A step takes batches of rows, and yields batches of rows.
Batches: TypeAlias = "Iterator[pyarrow.RecordBatch]"

RESULT_SCHEMA = "name string, users bigint, counts binary, refusal string"
_NOISE = 2**31  # the part of a seeded source for the shuffler's noise; no partition has this number


def result_rows(table: "pyarrow.RecordBatch | pyarrow.Table") -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def count_result(
    name: Group, users: int, counts: NDArray[np.int64] | None
) -> "pyarrow.RecordBatch":
    encoded = None if counts is None else counts.astype("<i8").tobytes()
    return result_batch(json.dumps(name), users, encoded, None)


def refusal_result(error: HeadcountError, question: Question) -> "pyarrow.RecordBatch":
    return result_batch(None, None, None, RemoteRefusal.of(error, question).to_json())


def result_batch(*row: Any) -> "pyarrow.RecordBatch":
    import pyarrow

    kinds = (pyarrow.string(), pyarrow.int64(), pyarrow.binary(), pyarrow.string())
    arrays = [pyarrow.array([cell], kind) for cell, kind in zip(row, kinds, strict=True)]
    return pyarrow.RecordBatch.from_arrays(
        arrays, [column.split()[0] for column in RESULT_SCHEMA.split(", ")]
    )


def counts_of(encoded: bytes | None) -> NDArray[np.int64] | None:
    return None if encoded is None else np.frombuffer(encoded, "<i8").astype(np.int64)


def noise_source(seed: SeededSource | None, number: int) -> Source:
    """The source of random bits for the noise that the shuffler adds to the messages of group
    `number`. The executor that draws the noise must call this function, since a secure source is
    never sent from one machine to another.
    """
    return SecureSource() if seed is None else seed.part(_NOISE).part(number)


@dataclass(frozen=True)
class ShufflerNoise:
    """The noise that shufflers add to whole tallies. An executor draws it, since the guarantee
    holds only if the driver neither knows the noise nor sees a tally without noise.
    """

    protocols: Mapping[Group, Protocol]
    groups: tuple[Group, ...]  # all groups of the table, also those whose shufflers add no noise
    seed: SeededSource | None

    def added(self, group: Group, tally: Tally) -> Tally:
        number = self.groups.index(group)
        return passed_on(self.protocols[group], tally, noise_source(self.seed, number))


@dataclass(frozen=True)
class SumStep:
    """Adds up the results of all partitions, so that each group has one row.

    The results are censuses if `kinds` is None. Otherwise they are tallies, and `kinds` has the
    name of the protocol and the modulus of the tally for each group. If `noise` is given, it is
    added to the sums.
    """

    kinds: Mapping[Group, tuple[str, int | None]] | None = None
    noise: ShufflerNoise | None = None

    def __call__(self, batches: Batches) -> Batches:
        totals: dict[Group, Any] = {}
        refusals: list[RemoteRefusal] = []
        for batch in batches:
            for name, users, encoded, refusal in result_rows(batch):
                if refusal is not None:
                    refusals.append(RemoteRefusal.from_json(refusal))
                    continue
                group = json.loads(name)
                result = self._result(group, users, counts_of(encoded))
                totals[group] = totals[group] + result if group in totals else result
        refused = joint_refusal(refusals)
        if refused is not None:
            yield result_batch(None, None, None, refused.to_json())
            return
        for group, total in totals.items():
            passed = total if self.noise is None else self.noise.added(group, total)
            yield count_result(group, passed.users, passed.counts)

    def _result(self, group: Group, users: int, counts: NDArray[np.int64] | None) -> Census | Tally:
        if self.kinds is None or counts is None:
            return Census(users, counts)
        protocol, modulus = self.kinds[group]
        return Tally(counts, users, protocol, modulus)
