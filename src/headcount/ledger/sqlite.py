"""A ledger in an SQLite file.

SQLite uses a rollback journal (the default), not a write-ahead log. So the file is complete after
each charge, and a copy of the file has every charge. The setting synchronous=EXTRA syncs the folder
after the journal is deleted. Otherwise, a power failure could restore the journal, which would undo
a charge after its release was made. If a process is killed, the next process that opens the file
rolls back the unfinished transaction.

Only SQLite opens the file. If other code in the process opened and closed the file, the process
would lose all its locks on the file.
"""

import logging
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from headcount.core.errors import DiskFull, LedgerLocked, UnreadableData
from headcount.ledger.store import NOTICE, Run, one_line

_log = logging.getLogger(__name__)

_WRONG = {
    "SQLITE_CANTOPEN": "must be a file that can be opened, but opening it failed",
    "SQLITE_READONLY": "must be writable, but the file or its folder is read-only",
    "SQLITE_NOTADB": "must be a ledger, got another kind of file",
    "SQLITE_IOERR": "must be on a disk that works, but reading or writing failed",
}
_BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED")


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
            soon = min(self.wait, NOTICE)
            opened = sqlite3.connect(place, uri=True, timeout=soon, isolation_level=None)
            with closing(opened) as connection:

                def run(statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
                    return self._run(connection, statement, values)

                run("PRAGMA synchronous = EXTRA")
                # Without this setting, macOS does not wait for the disk.
                run("PRAGMA fullfsync = ON")
                run(f"BEGIN {kind}")
                # An exception closes the connection, and closing it rolls the transaction back.
                yield run
                run("COMMIT")
        except (sqlite3.Error, UnicodeDecodeError) as error:  # damaged text cannot be decoded
            raise self._refusal(error) from None

    def _run(
        self, connection: sqlite3.Connection, statement: str, values: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        """Run a statement. If another process keeps the file locked, log it, and wait longer."""
        try:
            return connection.execute(statement, values).fetchall()
        except sqlite3.OperationalError as error:
            if _name(error) not in _BUSY or self.wait <= NOTICE:
                raise
        _log.warning(
            "another process keeps %s locked; waiting up to %g s for it", self.shown, self.wait
        )
        connection.execute(f"PRAGMA busy_timeout = {int(1000 * (self.wait - NOTICE))}")
        try:
            return connection.execute(statement, values).fetchall()
        finally:
            connection.execute(f"PRAGMA busy_timeout = {int(1000 * NOTICE)}")

    def _refusal(self, error: Exception) -> UnreadableData:
        name = _name(error)
        if name in _BUSY:
            return LedgerLocked(
                f"{self.shown} must be free within {self.wait:g} s, but another process keeps it "
                "locked",
                hint="nothing was charged; try again later",
            )
        if name == "SQLITE_FULL":
            return DiskFull(f"{self.shown} must have room on its disk, but the disk is full")
        if name == "SQLITE_IOERR" and (most := _largest_file()) is not None:
            return DiskFull(
                f"{self.shown} must have room to grow, but this process may write only {most:,} "
                "bytes to a file",
                hint="raise the limit, which `ulimit -f` shows",
            )
        said = _WRONG.get(name, f"must be a ledger that can be read: {one_line(error)}")
        return UnreadableData(f"{self.shown} {said}")


def _name(error: Exception) -> str:
    """SQLite's name for this kind of error, or "" if the error is not from SQLite."""
    return "_".join(getattr(error, "sqlite_errorname", "").split("_")[:2])


def _largest_file() -> int | None:
    """How many bytes this process may write to a file, or None if there is no limit."""
    try:
        import resource
    except ImportError:  # there are no such limits on Windows
        return None
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return None if most == resource.RLIM_INFINITY else most
