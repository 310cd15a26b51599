"""A store in an SQLite file. The layout of the file does not show who answered first.

- Responses are kept in `Buckets`, which are blocks that are made before they are filled. The
  contents of the blocks depend only on the set of responses. The size of a block never changes, so
  SQLite always writes a block to the same pages. If each response had rows of its own, the rows
  would lie on the pages in the order of arrival.
- The rollback journal is truncated at each commit. A write-ahead log would list the arrivals.
- `secure_delete` overwrites deleted rows with zeros.

With synchronous = FULL, SQLite syncs the truncated journal to the disk before a commit returns. So
a commit that has returned survives a power failure.
"""

import errno
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from headcount.collect.inbox import Buckets
from headcount.collect.store import Store

_PAGE = 16384


class _Run:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __call__(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, values).fetchall()

    def many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        self._connection.executemany(statement, rows)


class SqliteStore(Store):
    """An SQLite file. `wait` is the longest time, in seconds, to wait for another process."""

    bytes_type = "BLOB"
    table_end = " WITHOUT ROWID"
    inbox = Buckets
    largest_row = 16_000  # a response with longer rows would rewrite too much of the file
    failure = sqlite3.Error

    def __init__(self, path: Path, wait: float = 30.0) -> None:
        super().__init__(path.name)
        self._path, self._wait = path, wait

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=self._wait, isolation_level=None, check_same_thread=False
        )
        for setting in (
            f"page_size = {_PAGE}",
            "journal_mode = TRUNCATE",
            "synchronous = FULL",
            "fullfsync = ON",
            "secure_delete = ON",
            "temp_store = MEMORY",
        ):
            connection.execute(f"PRAGMA {setting}").fetchall()
        return connection

    def _begin(self, connection: sqlite3.Connection, *, write: bool) -> _Run:
        connection.execute(f"BEGIN {'IMMEDIATE' if write else 'DEFERRED'}")
        return _Run(connection)

    def _remove_traces(self, connection: sqlite3.Connection, tables: Sequence[str]) -> None:
        """Do nothing, because `secure_delete` has already overwritten deleted rows."""

    def _is_full(self, error: Exception) -> bool:
        # If a write finds no room, SQLite reports SQLITE_FULL. If another call finds no room, such
        # as a sync, SQLite reports SQLITE_IOERR, as it does for all other errors of a disk.
        name = getattr(error, "sqlite_errorname", "")
        return name == "SQLITE_FULL" or (name.startswith("SQLITE_IOERR") and self._has_no_room())

    def _has_no_room(self) -> bool:
        """Whether the disk has no room for another page. SQLite does not say why a call failed. So
        this method tries to write a page to a temporary file.
        """
        try:
            with TemporaryFile(dir=self._path.parent, buffering=0) as file:
                file.write(bytes(_PAGE))
                os.fsync(file.fileno())
        except OSError as failure:
            return failure.errno in (errno.ENOSPC, errno.EDQUOT)
        return False
