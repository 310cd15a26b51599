"""The driver's part of the work: select columns, run steps, collect results, translate errors."""

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from headcount.core.errors import InvalidParameter, MissingPackage, UnreadableData
from headcount.core.source import Source
from headcount.data.frames import DATA
from headcount.data.rows import check_column, require_pyarrow
from headcount.data.spark.remote_refusals import RemoteRefusal, refuse
from headcount.data.spark.results import (
    RESULT_SCHEMA,
    Batches,
    ShufflerNoise,
    SumStep,
    counts_of,
    result_rows,
)
from headcount.randomness.sources import SecureSource, SeededSource
from headcount.road.people import Group

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def needed(data: Any, columns: Sequence[str]) -> "DataFrame":
    """Only these columns of a data frame. They are renamed to c0, c1, …, which need no quotes."""
    require_pyarrow()
    try:
        from pyspark.sql import DataFrame, functions
    except ImportError:
        raise MissingPackage(
            "Spark data frames need pyspark", hint="pip install 'headcount[spark]'"
        ) from None
    if not isinstance(data, DataFrame):
        raise InvalidParameter(
            f"data must be a Spark DataFrame for this engine, got {type(data).__name__}"
        )
    with spark_errors():
        names = data.columns
    for column in columns:
        check_column(column, names, DATA)
    quoted = ["`" + column.replace("`", "``") + "`" for column in columns]
    with spark_errors():
        return data.select(*[functions.col(name).alias(f"c{at}") for at, name in enumerate(quoted)])


def mapped(frame: "DataFrame", step: Callable[[Batches], Batches], schema: str) -> "DataFrame":
    """Run a step on every partition. The rows that the step yields form a new data frame."""
    with warnings.catch_warnings():
        # This warning is about pandas 3, which is not used here: all rows are in Arrow format.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        return frame.mapInArrow(step, schema)


def gathered(
    frame: "DataFrame",
    step: Callable[[Batches], Batches],
    allowed: str,
    kinds: Mapping[Group, tuple[str, int | None]] | None = None,
    noise: ShufflerNoise | None = None,
) -> dict[Group, tuple[int, Any]]:
    """The number of people and the counts of each group. Executors add up the results of all
    partitions, and add the noise of shufflers, before the driver sees them. If an executor refuses
    rows, an error is raised.
    """
    results = mapped(frame, step, RESULT_SCHEMA)
    # One task adds all results. If Spark computes a partition twice, only one result is added.
    whole = mapped(results.repartition(1), SumStep(kinds, noise), RESULT_SCHEMA).toArrow()
    groups = {}
    for name, users, encoded, refusal in result_rows(whole):
        if refusal is not None:
            refuse(RemoteRefusal.from_json(refusal), allowed)
        groups[json.loads(name)] = users, counts_of(encoded)
    return groups


def kept(frame: "DataFrame") -> "DataFrame":
    """Compute the rows now and keep them on the executors, since the rows are read more than once.
    If an executor fails, its rows are lost, and a later read raises an error.
    """
    return frame.localCheckpoint(eager=True)


def written(frame: "DataFrame") -> "DataFrame":
    """Compute the rows now and write them to the checkpoint directory.

    Every partition is stored only once, even if Spark computes it several times. So random rows are
    the same each time they are read, and nobody sees a second draw. With `kept`, two executors
    could keep different draws of the same rows, if Spark runs a task twice.
    """
    with spark_errors("checkpoint directory"):
        return frame.checkpoint(eager=True)


def seed_of(source: Source) -> SeededSource | None:
    """The seeded source to send to executors, or None if the source is secure."""
    if isinstance(source, SeededSource):
        return source
    if isinstance(source, SecureSource):
        return None
    raise InvalidParameter(
        f"`source` must be a SecureSource or a SeededSource for Spark, got {type(source).__name__}"
    )


@contextmanager
def spark_errors(lacking: str = "") -> Iterator[None]:
    """Turn a Spark error into a Headcount error with a one-line message.

    If Spark's session was stopped, the message says so. If `lacking` occurs in the Spark error, the
    message says that there is no checkpoint directory. Any other Spark error is the cause of the
    Headcount error.
    """
    from pyspark.sql import SparkSession

    try:
        yield
    except (AssertionError, AttributeError):
        if SparkSession.getActiveSession() is not None:
            raise
        raise UnreadableData("Spark must be running, but its session was stopped") from None
    except _failures() as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        traced = any(line.startswith("Traceback") for line in lines)
        reason = lines[-1 if traced else 0] if lines else type(error).__name__
        if lacking and lacking in str(error).lower():
            raise InvalidParameter(
                "Spark must have a checkpoint directory to write messages to, got none",
                hint="spark.sparkContext.setCheckpointDir(…), or the setting spark.checkpoint.dir",
            ) from None
        raise UnreadableData(f"Spark must run without errors, got: {reason}") from error


def _failures() -> tuple[type[Exception], ...]:
    """The exceptions that Spark raises. A remote session has no py4j and no Java errors."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JError
    except ImportError:
        return (PySparkException,)
    return PySparkException, Py4JError
