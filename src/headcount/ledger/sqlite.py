"""A ledger in a file, by SQLite.

The rollback journal (SQLite's default) is chosen over a write-ahead log: after each charge the one
file is complete, so that a copy of it forgets nothing. synchronous=EXTRA also syncs the folder
after the journal is gone: with less, a power cut could bring the journal back, and with it undo a
charge whose release was made. A killed process's journal is rolled back by whoever comes next.

The file is never opened but by SQLite: to close it would give up the locks of the whole process.
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
    "SQLITE_CANTOPEN": "must be a file that can be opened, got none",
    "SQLITE_READONLY": "must be writable, got a place that is read-only",
    "SQLITE_NOTADB": "must be a ledger, got another kind of file",
    "SQLITE_FULL": "must have room on its disk, got none",
}


@dataclass(frozen=True)
class SqliteStore:
    """`wait`: for how many seconds others may keep the file locked."""

    path: Path
    wait: float
    bytes_type: ClassVar[str] = "BLOB"
    row_lock: ClassVar[str] = ""  # a transaction that writes has the whole file

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
            # SQLite would put a journal beside it.
            raise UnreadableData(f"{self.shown} must be a file, got a device or a pipe")
        try:
            place = f"{self.path.absolute().as_uri()}?mode={mode}"
            opened = sqlite3.connect(place, uri=True, timeout=self.wait, isolation_level=None)
            with closing(opened) as connection:
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.execute("PRAGMA fullfsync = ON")  # or macOS only asks the disk
                connection.execute(f"BEGIN {kind}")
                # Left by an exception, the connection closes, and that rolls back.
                yield lambda statement, values: connection.execute(statement, values).fetchall()
                connection.execute("COMMIT")
        except (sqlite3.Error, UnicodeDecodeError) as error:  # the latter if text is damaged
            raise UnreadableData(f"{self.shown} {self._wrong(error)}") from None

    def _wrong(self, error: Exception) -> str:
        name = "_".join(getattr(error, "sqlite_errorname", "").split("_")[:2])
        if name in ("SQLITE_BUSY", "SQLITE_LOCKED"):
            return f"must be free within {self.wait:g} s, got one that others keep locked"
        return _WRONG.get(name, f"must be a ledger that can be read: {one_line(error)}")
