"""Opening and counting a batch on Spark.

Executors read the Parquet files of a batch, open their messages and count them. The driver gets
only the totals. Every executor gets the analyzer's private key: it is part of the step that Spark
sends to the Python processes of the executors. So all machines of the cluster belong to the
analyzer, and need the same protection as the key.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headcount.collect.batch_files import COLUMN, MANIFEST, BatchFiles
from headcount.collect.opening import Opened, Opener
from headcount.core.errors import MissingPackage, UnreadableData
from headcount.data.spark.frames import gathered, needed, spark_errors
from headcount.data.spark.results import Batches, count_result
from headcount.road.people import Group

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DUMMIES, _REFUSED = "dummies", "refused"


@dataclass(frozen=True)
class OpenStep:
    """Opens and counts the messages of a partition. A result has a row for each release, named by
    its number, and rows for dummies and refusals.
    """

    opener: Opener

    def __call__(self, batches: Batches) -> Batches:
        total = self.opener.added(
            self.opener(_joined(batch.column(0), self.opener.envelope.size)) for batch in batches
        )
        for number, counts in enumerate(total.counts):
            if total.sent[number]:
                yield count_result(number, total.sent[number], counts)
        yield count_result(_DUMMIES, total.dummies, None)
        yield count_result(_REFUSED, total.refused, None)


def _joined(column: Any, size: int) -> bytes:
    """Sealed messages one after another. A message of a wrong size becomes one that is refused."""
    wrong = bytes(size)
    return b"".join(one if one and len(one) == size else wrong for one in column.to_pylist())


def session() -> "SparkSession":
    """The session of this program, or a new one with the settings of the environment."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingPackage(
            "counting on Spark needs pyspark", hint="pip install 'headcount[spark]'"
        ) from None
    return SparkSession.builder.appName("headcount").getOrCreate()


def files_on_spark(folder: str, spark: "SparkSession") -> BatchFiles:
    """The batch in a folder that Spark can read."""
    place = folder.rstrip("/")
    with spark_errors():
        rows = spark.read.text(f"{place}/{MANIFEST}", wholetext=True).collect()
    return BatchFiles.from_text(rows[0][0] if rows else "", place)


def opened_on_spark(files: BatchFiles, opener: Opener, spark: "SparkSession") -> Opened:
    """Open and count all messages of a batch, each of them once."""
    if not files.files:
        return opener.added([])
    places = [f"{files.folder}/{one.name}" for one in files.files]
    with spark_errors():
        _check_files(files, places, spark)
        rows = needed(spark.read.schema(f"{COLUMN} binary").parquet(*places), [COLUMN])
        if rows.count() != files.messages:
            raise UnreadableData(f"the files must have the messages that {MANIFEST} states")
        kinds: dict[Group, tuple[str, int | None]] = {
            number: (one.name, one.estimator.tally_modulus)
            for number, one in enumerate(opener.protocols)
        }
        found = gathered(rows.distinct(), OpenStep(opener), "a sealed message", kinds)
    releases = range(len(opener.protocols))
    empty = [np.zeros(one.estimator.tally_size, dtype=np.int64) for one in opener.protocols]
    opened = Opened(
        tuple(found[at][1] if at in found else empty[at] for at in releases),
        tuple(found[at][0] if at in found else 0 for at in releases),
        found.get(_DUMMIES, (0, None))[0],
        found.get(_REFUSED, (0, None))[0],
    )
    return replace(opened, copies=files.messages - opened.messages)


def _check_files(files: BatchFiles, places: list[str], spark: "SparkSession") -> None:
    """Refuse files whose bytes are not those that `batch.json` states."""
    from pyspark.sql import functions

    read = spark.read.format("binaryFile").load(places)
    rows = read.select("path", functions.sha2("content", 256).alias("sha256")).toArrow().to_pylist()
    found = {row["path"].rpartition("/")[2]: row["sha256"] for row in rows}
    for one in files.files:
        if found.get(one.name) != one.sha256:
            raise UnreadableData(f"{one.name} must have the SHA-256 that {MANIFEST} states")
