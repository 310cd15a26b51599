"""One column of a CSV or Parquet file as an array of people's values, one row a person."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.errors import InvalidValue, MissingPackage, UnreadableData
from headcount.core.task import Task

if TYPE_CHECKING:
    import pyarrow

# Called with the share of the file that has been read, from 0 to 1.
Progress = Callable[[float], None]


def read_column(
    path: Path, column: str, task: Task, progress: Progress = lambda share: None
) -> NDArray[Any]:
    """The values of a column, checked for a task, read batch by batch."""
    parts: list[NDArray[Any]] = []
    rows = 0
    for batch, share in _batches(path, column):
        parts.append(_checked(batch, task, rows))
        rows += len(batch)
        progress(share)
    if not rows:
        raise InvalidValue(f"column {column!r} of {path.name} must have at least one row, got none")
    return np.concatenate(parts)


def _batches(path: Path, column: str) -> Iterator[tuple["pyarrow.Array", float]]:
    try:
        import pyarrow
        from pyarrow import csv, parquet
    except ImportError:
        raise MissingPackage(
            "reading files needs pyarrow", hint="pip install 'headcount[data]'"
        ) from None

    kinds = (".csv", ".parquet")
    if path.suffix.lower() not in kinds:
        raise UnreadableData(f"a file must end in {' or '.join(kinds)}, got {path.name!r}")
    if not path.is_file():
        raise UnreadableData(f"there must be a file at {str(path)!r}, got none")
    try:
        if path.suffix.lower() == ".csv":
            with (
                path.open("rb") as file,
                csv.open_csv(
                    # An empty line of a one-column file is a person without a value.
                    file,
                    parse_options=csv.ParseOptions(ignore_empty_lines=False),
                    convert_options=csv.ConvertOptions(
                        strings_can_be_null=True, null_values=["", "NULL", "null", "NaN", "nan"]
                    ),
                ) as reader,
            ):
                _check_column(column, reader.schema.names, path)
                for batch in reader:
                    yield batch.column(column), file.tell() / max(1, path.stat().st_size)
        else:
            with parquet.ParquetFile(path) as table:
                _check_column(column, table.schema_arrow.names, path)
                read = 0
                for batch in table.iter_batches(columns=[column]):
                    read += batch.num_rows
                    yield batch.column(column), read / max(1, table.metadata.num_rows)
    except (OSError, pyarrow.ArrowException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UnreadableData(
            f"{path.name} must be a readable {path.suffix} file: {reason}"
        ) from None


def _check_column(column: str, names: list[str], path: Path) -> None:
    if names.count(column) != 1:
        found = "it twice" if column in names else ", ".join(names)
        raise UnreadableData(f"{path.name} must have a column {column!r}, got {found}")


def _checked(batch: "pyarrow.Array", task: Task, first: int) -> NDArray[Any]:
    if batch.null_count:
        at = first + int(np.argmax(batch.is_null().to_numpy(zero_copy_only=False)))
        raise InvalidValue(f"everyone must have a value, got none for person {at + 1}")
    values = batch.to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "biuf" and not all(isinstance(value, str) for value in values):
        raise InvalidValue(
            f"a column must hold numbers, true/false or text, "
            f"got {batch.type} like {batch[0].as_py()!r}"
        )
    task.encode(values, first=first)  # refuses what is outside the domain, by its row
    checked: NDArray[Any] = values
    return checked
