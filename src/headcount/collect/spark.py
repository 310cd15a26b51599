"""Opening and counting a batch on Spark.

Executors read the Parquet files of a batch, open their messages and count them. The driver gets
only the totals. Every executor gets the analyzer's private key, because the key is part of the step
that Spark sends to the Python processes of the executors. So every machine of the cluster must
belong to the analyzer, and needs the same protection as the key.
"""

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from headcount.collect.batch_files import COLUMN, MANIFEST, BatchFiles, column_of
from headcount.collect.opening import Opened, Opener
from headcount.core import checks
from headcount.core.errors import InvalidParameter, MissingPackage, UnreadableData
from headcount.core.table import counted
from headcount.data.spark.frames import gathered, mapped, needed, spark_errors
from headcount.data.spark.results import Batches, count_result, result_rows
from headcount.road.people import Group

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DUMMIES, _REFUSED, _COPIES = "dummies", "refused", "copies"
_PATTERN = re.compile(r"[*?\[\]{}]")  # Spark takes an address with such a character for a pattern
_ROWS = 2**16  # messages that a step yields at a time


@dataclass(frozen=True)
class OpenStep:
    """Opens and counts the messages of a partition. Each row of the partition has a message, and
    how often the batch has this message. The result has a row for each release with messages, named
    by the number of the release, and rows for dummies, refused messages and copies.
    """

    opener: Opener

    def __call__(self, batches: Batches) -> Batches:
        total = self.opener.added(
            replace(
                self.opener(b"".join(batch.column(0).to_pylist())),
                copies=sum(batch.column(1).to_pylist()) - batch.num_rows,
            )
            for batch in batches
        )
        for number, counts in enumerate(total.counts):
            if total.sent[number]:
                yield count_result(number, total.sent[number], counts)
        yield count_result(_DUMMIES, total.dummies, None)
        yield count_result(_REFUSED, total.refused, None)
        yield count_result(_COPIES, total.copies, None)


@dataclass(frozen=True)
class ReadStep:
    """Reads the messages of files. Each file is read once, and is checked before its messages are
    used.
    """

    files: BatchFiles

    def __call__(self, batches: Batches) -> Batches:
        import pyarrow

        known, size = {one.name: one for one in self.files.files}, self.files.message_bytes
        for batch in batches:
            for path, data in result_rows(batch):
                messages = known[path.rpartition("/")[2]].sealed(data, size)
                for start in range(0, len(messages), _ROWS * size):
                    column = column_of(messages[start : start + _ROWS * size], size)
                    binary = column.cast(pyarrow.binary())
                    yield pyarrow.RecordBatch.from_arrays([binary], [COLUMN])


def session() -> "SparkSession":
    """The Spark session of this program, or a new session with the settings of the environment."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingPackage(
            "counting on Spark needs pyspark", hint="pip install 'headcount[spark]'"
        ) from None
    return SparkSession.builder.appName("headcount").getOrCreate()


def files_on_spark(folder: str, spark: "SparkSession", token: str) -> BatchFiles:
    """The batch in a folder that Spark can read. It must come from a shuffler with this token."""
    place = folder.rstrip("/")
    if _PATTERN.search(place):
        raise InvalidParameter(
            "the address of a batch for Spark must have none of the characters * ? [ ] { }, "
            f"got {checks.shown(folder)}",
            hint="Spark would read every folder that fits this pattern",
        )
    with spark_errors():
        rows = spark.read.text(f"{place}/{MANIFEST}", wholetext=True).collect()
    return BatchFiles.from_text(rows[0][0] if rows else "", place, token)


def opened_on_spark(files: BatchFiles, opener: Opener, spark: "SparkSession") -> Opened:
    """Open and count all messages of a batch. A message that has copies is opened once.

    Spark leaves out empty files without an error. It may also be set up to leave out files that are
    missing or damaged. The noise messages in these files would then be missing from the counts. So
    a batch is refused unless all of its messages were read.
    """
    if not files.files:
        return opener.added([])
    places = [f"{files.folder}/{one.name}" for one in files.files]
    with spark_errors():
        read = needed(spark.read.format("binaryFile").load(places), ["path", "content"])
        rows = mapped(read, ReadStep(files), f"{COLUMN} binary")
        kinds: dict[Group, tuple[str, int | None]] = {
            number: (one.name, one.estimator.tally_modulus)
            for number, one in enumerate(opener.protocols)
        }
        found = gathered(rows.groupBy(COLUMN).count(), OpenStep(opener), "a sealed message", kinds)
    releases = range(len(opener.protocols))
    empty = [np.zeros(one.estimator.tally_size, dtype=np.int64) for one in opener.protocols]
    opened = Opened(
        tuple(found[at][1] if at in found else empty[at] for at in releases),
        tuple(found[at][0] if at in found else 0 for at in releases),
        *(found.get(name, (0, None))[0] for name in (_DUMMIES, _REFUSED, _COPIES)),
    )
    if opened.messages != files.messages:
        raise UnreadableData(
            f"Spark must read all {counted(files.messages, 'message')} of the batch, got "
            f"{opened.messages:,}",
            hint="every file of the batch must be as the shuffler has written it",
        )
    return opened
