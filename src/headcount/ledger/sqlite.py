"""A ledger in an SQLite file.

SQLite uses a rollback journal (the default), not a write-ahead log. So the file is complete after
each charge, and a copy of the file has every charge. The setting synchronous=EXTRA syncs the folder
after the journal is deleted. Otherwise, a power failure could restore the journal, which would undo
a charge after its release was made. If a process is killed, the next process that opens the file
rolls back the unfinished transaction.

Only SQLite opens the file. If other code in the process opened and closed the file, the process
would lose all its locks on the file.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from headcount.core.errors import UnreadableData
from headcount.ledger.store import Run, one_line

_WRONG = {
    "SQLITE_CANTOPEN": "must be a file that can be opened, but opening it failed",
    "SQLITE_READONLY": "must be writable, but the file or its folder is read-only",
    "SQLITE_NOTADB": "must be a ledger, got another kind of file",
    "SQLITE_FULL": "must have room on its disk, but the disk is full",
}


@dataclass(frozen=True)
class SqliteStore:
    """A ledger in a file. `wait` is the longest time, in seconds, to wait for a locked file."""

    path: Path
    wait: float
    bytes_type: ClassVar[str] = "BLOB"
    row_lock: ClassVar[str] = ""  # a transaction that writes locks the whole file

    @property
    def shown(self) -> str:
        return self.path.name

    @contextmanager
    def reading(self) -> Iterator[Run]:
        with self._transaction("DEFERRED", "rw") as run:
            yield run

    @contextmanager
    def writing(self) -> Iterator[Run]:
        with self._transaction("IMMEDIATE", "rw") as run:
            yield run

    @contextmanager
    def creating(self) -> Iterator[Run]:
        with self._transaction("IMMEDIATE", "rwc") as run:
            yield run

    def tables(self, run: Run) -> set[str]:
        return {name for (name,) in run("SELECT name FROM sqlite_master", ())}

    @contextmanager
    def _transaction(
        self, kind: Literal["DEFERRED", "IMMEDIATE"], mode: Literal["rw", "rwc"]
    ) -> Iterator[Run]:
        if self.path.exists() and not (self.path.is_file() or self.path.is_dir()):
            # SQLite would create a journal beside a device or a pipe.
            raise UnreadableData(f"{self.shown} must be a file, got a device or a pipe")
        try:
            place = f"{self.path.absolute().as_uri()}?mode={mode}"
            opened = sqlite3.connect(place, uri=True, timeout=self.wait, isolation_level=None)
            with closing(opened) as connection:
                connection.execute("PRAGMA synchronous = EXTRA")
                # Without this setting, macOS does not wait for the disk.
                connection.execute("PRAGMA fullfsync = ON")
                connection.execute(f"BEGIN {kind}")
                # An exception closes the connection, and closing it rolls the transaction back.
                yield lambda statement, values: connection.execute(statement, values).fetchall()
                connection.execute("COMMIT")
        except (sqlite3.Error, UnicodeDecodeError) as error:  # damaged text cannot be decoded
            raise UnreadableData(f"{self.shown} {self._wrong(error)}") from None

    def _wrong(self, error: Exception) -> str:
        name = "_".join(getattr(error, "sqlite_errorname", "").split("_")[:2])
        if name in ("SQLITE_BUSY", "SQLITE_LOCKED"):
            return f"must be free within {self.wait:g} s, but another process keeps it locked"
        return _WRONG.get(name, f"must be a ledger that can be read: {one_line(error)}")
