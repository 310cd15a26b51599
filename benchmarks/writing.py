"""Made-up tables, which are written to Parquet files. Their values are random and repeatable."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

_PART = 10**7  # the number of rows that are written at a time


def write_reals(folder: Path, rows: int) -> Path:
    """A column `value` of real numbers from 0 to 120."""
    random = np.random.default_rng(1)
    return _write(folder / "reals.parquet", rows, lambda part: {"value": 120 * random.random(part)})


def write_whole(folder: Path, rows: int, columns: Mapping[str, int]) -> Path:
    """Columns of whole numbers. The numbers of each column are below its entry in `columns`."""
    random = np.random.default_rng(1)
    return _write(
        folder / "whole.parquet",
        rows,
        lambda part: {name: random.integers(0, most, part) for name, most in columns.items()},
    )


def write_persons(folder: Path, kind: str, rows: int, persons: int) -> Path:
    """Rows of random persons. If `persons` is 0, every row is another person."""
    import pyarrow

    random, written = np.random.default_rng(1), 0

    def table(part: int) -> dict[str, Any]:
        nonlocal written
        names = np.arange(written, written + part)
        if persons:
            names = random.integers(0, persons, part)
        written += part
        listed = pyarrow.array(names)
        if kind == "text":
            listed = listed.cast(pyarrow.string())
        return {"person": listed, "value": random.integers(0, 2, part)}

    return _write(folder / "persons.parquet", rows, table)


def _write(file: Path, rows: int, columns: Callable[[int], dict[str, Any]]) -> Path:
    """Write a file in parts. `columns` makes the columns of so many rows."""
    import pyarrow
    from pyarrow import parquet

    first = pyarrow.table(columns(min(_PART, rows)))
    with parquet.ParquetWriter(file, first.schema) as writer:
        writer.write_table(first)
        for start in range(_PART, rows, _PART):
            writer.write_table(pyarrow.table(columns(min(_PART, rows - start))))
    return file
