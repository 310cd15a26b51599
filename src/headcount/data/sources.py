"""Turns data of any kind into rows."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from headcount.core.errors import InvalidParameter, UnreadableData
from headcount.data import files, frames, queries
from headcount.data.dialect import PLAIN, Dialect
from headcount.data.rows import Rows, readable, require_pyarrow


def rows_of(data: Any, query: str | None = None, dialect: Dialect = PLAIN) -> Rows:
    """The rows of a data frame, an array, an iterable, a path, a pattern of paths, or a query.

    `dialect` says how files are written.
    """
    require_pyarrow()
    if query is not None and data is not None:
        raise InvalidParameter("`query` must come without other data, got both")
    if query is None and isinstance(data, str) and re.match(r"(?i)\s*(select|with|from)\s", data):
        query = data
    if query is not None:
        dialect.check_matters("a query, whose read_csv has such settings")
        return queries.query_rows(query)
    if isinstance(data, str | Path):
        return files.file_rows(data, dialect)
    dialect.check_matters("other data")
    with readable(frames.DATA):
        return _rows_in_memory(data)


def _rows_in_memory(data: Any) -> Rows:  # noqa: PLR0911
    # Checking the name of the package avoids importing packages that are not needed.
    package = type(data).__module__.partition(".")[0].removeprefix("_")
    if isinstance(data, Rows):
        return data
    if package == "pandas":
        if data.ndim == 2 and (levels := data.columns.nlevels) > 1:
            raise UnreadableData(
                f"each column of the data must have one name, got names with {levels} levels",
                hint="`frame.columns = frame.columns.map('.'.join)` joins them",
            )
        return frames.pandas_rows(data)
    if package == "polars":
        return frames.polars_rows(data)
    if package == "duckdb":
        return queries.relation_rows(data)
    if package == "pyarrow":
        from pyarrow import dataset

        if isinstance(data, dataset.Dataset):
            return files.DatasetRows(frames.DATA, data)
        return frames.arrow_rows(data)
    if hasattr(data, "__arrow_c_stream__"):
        return frames.arrow_rows(data)
    if isinstance(data, np.ndarray | Mapping):
        return frames.numpy_rows(data)
    if isinstance(data, Iterable) and not isinstance(data, bytes):
        return frames.iterable_rows(data)
    raise frames.unknown(data)
