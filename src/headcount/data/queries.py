"""Reads the rows of an SQL query or of a relation with DuckDB."""

import logging
import re
from glob import glob
from pathlib import Path
from typing import Any

from headcount.core.checks import is_utf8
from headcount.core.errors import InvalidParameter, MissingPackage
from headcount.data.frames import DATA, FrameRows
from headcount.data.rows import Rows, unreadable

_BATCH = 2**17  # how many rows are read at a time
_TYPED = re.compile(r"\b(all_varchar|columns)\b\s*:?=", re.IGNORECASE)
_GUESSED = (
    "DuckDB guesses the types of a CSV file's columns from its rows. The guarantee assumes that no "
    "person's value changes such a type. Name the types, as in read_csv('file.csv', "
    "columns={'age': 'INTEGER'}), or read text, as in read_csv('file.csv', all_varchar=true)"
)
_log = logging.getLogger(__name__)


def query_rows(query: str) -> Rows:
    """The rows that a query selects from the files that it names."""
    try:
        import duckdb
    except ImportError:
        raise MissingPackage("queries need duckdb", hint="pip install 'headcount[sql]'") from None
    if not isinstance(query, str) or not query.strip() or not is_utf8(query):
        raise InvalidParameter(f"`query` must be a single SELECT statement, got {query!r}")
    connection = duckdb.connect()
    try:
        kinds = [statement.type for statement in connection.extract_statements(query)]
        if kinds != [duckdb.StatementType.SELECT]:
            raise InvalidParameter(f"`query` must be a single SELECT statement, got {query!r}")
        relation = connection.sql(query)
        plan = relation.explain().upper()
    except duckdb.Error as error:
        raise unreadable("the query", error) from None
    if "READ_CSV" in plan and not _TYPED.search(query):
        _log.warning("headcount: %s", _GUESSED)
    return relation_rows(relation, "the query")


def files_named(query: str) -> list[Path]:
    """The files that a query names in quotes. A name may be a pattern."""
    quoted = (one or other for one, other in re.findall(r"'([^']+)'|\"([^\"]+)\"", query))
    return [Path(name) for text in quoted for name in glob(text, recursive=True)]  # noqa: PTH207


def relation_rows(relation: Any, name: str = DATA) -> Rows:
    import duckdb

    def stream(columns: list[str]) -> Any:
        quoted = ", ".join('"' + column.replace('"', '""') + '"' for column in columns)
        try:
            yield from relation.project(quoted).to_arrow_reader(_BATCH)
        except duckdb.Error as error:
            raise unreadable(name, error) from None

    return FrameRows(relation.columns, stream, name=name)
