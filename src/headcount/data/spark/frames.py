"""Frames of Spark as the driver handles them: columns by name, steps, and what comes home."""

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headcount.core.errors import InvalidParameter, MissingPackage, UnreadableData
from headcount.core.source import Source
from headcount.data.frames import DATA
from headcount.data.rows import check_column, require_pyarrow
from headcount.data.spark.home import HOME, Adding, Batches, counts_of, home_rows
from headcount.data.spark.refusals import Refusal, refuse
from headcount.randomness.sources import SecureSource, SeededSource
from headcount.road.people import Group

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def needed(data: Any, columns: Sequence[str]) -> "DataFrame":
    """These columns of a frame and no others, under names that need no quoting: c0, c1, …"""
    require_pyarrow()
    try:
        from pyspark.sql import DataFrame, functions
    except ImportError:
        raise MissingPackage(
            "Spark's frames need pyspark", hint="pip install 'headcount[spark]'"
        ) from None
    if not isinstance(data, DataFrame):
        raise InvalidParameter(
            f"data must be a DataFrame of Spark for this engine, got {type(data).__name__}"
        )
    with spark_errors():
        names = data.columns
    for column in columns:
        check_column(column, names, DATA)
    quoted = ["`" + column.replace("`", "``") + "`" for column in columns]
    with spark_errors():
        return data.select(*[functions.col(name).alias(f"c{at}") for at, name in enumerate(quoted)])


def mapped(frame: "DataFrame", step: Callable[[Batches], Batches], schema: str) -> "DataFrame":
    """What a step makes of every partition."""
    with warnings.catch_warnings():
        # Of pandas 3, of which nothing is used here: rows are Arrow's on both sides.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        return frame.mapInArrow(step, schema)


def gathered(
    frame: "DataFrame",
    step: Callable[[Batches], Batches],
    allowed: str,
    kinds: Mapping[Group, tuple[str, int | None]] | None = None,
) -> dict[Group, tuple[int, Any]]:
    """People and counts of each group, added up before they come home; or what was refused."""
    parts = mapped(frame, step, HOME)
    # By one task: if a partition has to be computed again, exactly one of its results is added.
    whole = mapped(parts.repartition(1), Adding(kinds), HOME).toArrow()
    found = {}
    for name, users, held, refusal in home_rows(whole):
        if refusal is not None:
            refuse(Refusal.from_json(refusal), allowed)
        found[json.loads(name)] = users, counts_of(held)
    return found


def kept(frame: "DataFrame") -> "DataFrame":
    """Rows that are computed now and kept by the executors, who read them more than once. If an
    executor is lost with them, reading fails.
    """
    return frame.localCheckpoint(eager=True)


def written(frame: "DataFrame") -> "DataFrame":
    """Rows that are computed now and written down, one result of every partition, however often it
    was computed: what is random is the same whenever it is read, and a second draw is never seen.

    Rows that executors only keep could be there twice, from two runs of one task.
    """
    with spark_errors("checkpoint directory"):
        return frame.checkpoint(eager=True)


def seed_of(source: Source) -> SeededSource | None:
    """What executors need to know of a source: nothing, unless it is seeded."""
    if isinstance(source, SeededSource):
        return source
    if isinstance(source, SecureSource):
        return None
    raise InvalidParameter(
        f"`source` must be a SecureSource or a SeededSource for Spark, where every task has its "
        f"own, got {type(source).__name__}"
    )


@contextmanager
def spark_errors(lacking: str = "") -> Iterator[None]:
    """What Spark raises becomes a refusal of one line, with Spark's own error behind it.

    `lacking` is what Spark speaks of if it has no place to write to.
    """
    from pyspark.sql import SparkSession

    try:
        yield
    except (AssertionError, AttributeError):
        if SparkSession.getActiveSession() is not None:
            raise
        raise UnreadableData("Spark must be running, got a session that was stopped") from None
    except _failures() as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        traced = any(line.startswith("Traceback") for line in lines)
        reason = lines[-1 if traced else 0] if lines else type(error).__name__
        if lacking and lacking in str(error).lower():
            raise InvalidParameter(
                "Spark must have a checkpoint directory to write messages to, got none",
                hint="spark.sparkContext.setCheckpointDir(…), or the setting spark.checkpoint.dir",
            ) from None
        raise UnreadableData(f"Spark must be able to do its work, got: {reason}") from error


def _failures() -> tuple[type[Exception], ...]:
    """What Spark raises; a remote session has no Java beside it to raise anything."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JError
    except ImportError:
        return (PySparkException,)
    return PySparkException, Py4JError
