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
from headcount.data.spark.results import RESULT_SCHEMA, Batches, SumStep, counts_of, result_rows
from headcount.randomness.sources import SecureSource, SeededSource
from headcount.road.people import Group

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def needed(data: Any, columns: Sequence[str]) -> "DataFrame":
    """Only these columns of a frame, renamed to c0, c1, …, which need no quotes."""
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
    """Run a step on every partition. The rows that it yields are a new frame."""
    with warnings.catch_warnings():
        # This warning is about pandas 3. Pandas is not used here: all rows are Arrow's.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
        return frame.mapInArrow(step, schema)


def gathered(
    frame: "DataFrame",
    step: Callable[[Batches], Batches],
    allowed: str,
    kinds: Mapping[Group, tuple[str, int | None]] | None = None,
) -> dict[Group, tuple[int, Any]]:
    """The people and counts of each group. Executors add them up before the driver sees them. If an
    executor refuses rows, the refusal is raised.
    """
    results = mapped(frame, step, RESULT_SCHEMA)
    # One task adds all results. If Spark computes a partition twice, only one result is added.
    whole = mapped(results.repartition(1), SumStep(kinds), RESULT_SCHEMA).toArrow()
    groups = {}
    for name, users, encoded, refusal in result_rows(whole):
        if refusal is not None:
            refuse(RemoteRefusal.from_json(refusal), allowed)
        groups[json.loads(name)] = users, counts_of(encoded)
    return groups


def kept(frame: "DataFrame") -> "DataFrame":
    """Compute the rows now, and keep them on the executors, since they are read more than once. If
    an executor is lost, its rows are lost, and reading them fails.
    """
    return frame.localCheckpoint(eager=True)


def written(frame: "DataFrame") -> "DataFrame":
    """Compute the rows now, and write them to the checkpoint directory.

    Every partition is stored once, even if Spark computes it several times. So random rows are the
    same at each reading, and nobody sees a second draw. Rows that executors keep could be there
    twice, from two runs of one task.
    """
    with spark_errors("checkpoint directory"):
        return frame.checkpoint(eager=True)


def seed_of(source: Source) -> SeededSource | None:
    """The seeded source that executors need, or None if the source is secure."""
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
    """Turn an error of Spark into one of ours, with a message of one line. Spark's own error is its
    cause.

    `lacking` is the phrase in Spark's error if it has no place to write to.
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
        raise UnreadableData(f"Spark must be able to do its work, got: {reason}") from error


def _failures() -> tuple[type[Exception], ...]:
    """The exceptions that Spark raises. A remote session has no py4j, and no errors of Java."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JError
    except ImportError:
        return (PySparkException,)
    return PySparkException, Py4JError
