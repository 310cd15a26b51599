"""A store in an SQLite file. It is laid out so that the file does not remember who came first.

- Responses are ordered by a keyed hash of their bytes, which is their INTEGER PRIMARY KEY. Keys
  that SQLite chooses would number the arrivals. In a table WITHOUT ROWID, inner pages of the tree
  hold rows too, mostly old ones. In a table with integer keys, only leaves hold rows.
- A rollback journal is truncated at each commit. A write-ahead log would list the arrivals.
- `secure_delete` overwrites deleted rows with zeros.
- Rows are short enough to stay on their leaf. Longer rows would continue on pages that are
  allocated in the order of arrival. That is why `largest_row` is stated.

What is left is small. A page that was added late was added because of a late row, and rows within a
page often lie in the order of arrival. So pages are large and rows are short: then a guess about
two responses out of 2,000 is right with probability 0.50 to 0.52.

With synchronous = FULL, SQLite syncs the journal after truncating it. So a commit that returned
survives a power failure.
"""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from headcount.collect.refusals import Full, Unavailable
from headcount.ledger.store import one_line

_PAGE = 16384


class _Run:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __call__(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, values).fetchall()

    def many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        self._connection.executemany(statement, rows)


class SqliteStore:
    """A file. `wait` is the longest time, in seconds, to wait for another process."""

    bytes_type: ClassVar[str] = "BLOB"
    place_type: ClassVar[str] = "INTEGER"
    table_end: ClassVar[str] = " WITHOUT ROWID"
    largest_row: ClassVar[int] = 16_000  # a row stays on its leaf up to 16,384 − 35 bytes

    def __init__(self, path: Path, wait: float = 30.0) -> None:
        self._path, self._wait = path, wait
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None

    @property
    def shown(self) -> str:
        return self._path.name

    @contextmanager
    def writing(self) -> Iterator[_Run]:
        with self._transaction("IMMEDIATE") as run:
            yield run

    @contextmanager
    def reading(self) -> Iterator[_Run]:
        with self._transaction("DEFERRED") as run:
            yield run

    def scrub(self, tables: Sequence[str]) -> None:
        """Nothing is left to do: `secure_delete` has overwritten deleted rows."""

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _transaction(self, kind: str) -> Iterator[_Run]:
        with self._lock:
            try:
                connection = self._connection = self._connection or self._open()
                connection.execute(f"BEGIN {kind}")
                yield _Run(connection)
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                self.close()  # this rolls back, and the next transaction connects anew
                raise self._refusal(error) from None
            except BaseException:
                self.close()
                raise

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

    def _refusal(self, error: sqlite3.Error) -> Full | Unavailable:
        name = "_".join(getattr(error, "sqlite_errorname", "").split("_")[:2])
        if name == "SQLITE_FULL" or (name == "SQLITE_IOERR" and "disk" in str(error)):
            return Full(f"{self.shown} must have room on its disk, but the disk is full")
        return Unavailable(f"{self.shown} must be a database that can be used: {one_line(error)}")
