"""The databases of the shuffler and of the analyzer: one interface, for SQLite and PostgreSQL.

A store keeps one connection, so that many responses can be committed together. All statements in a
`with` block are one transaction. When the block ends, the transaction is on the disk. Errors of the
database become `Full` (no room on the disk) or `Unavailable` (anything else).
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Protocol

from headcount.collect.inbox import Inbox
from headcount.collect.refusals import Full, Unavailable
from headcount.ledger.store import one_line


class Run(Protocol):
    """Runs one statement and returns its rows. Each `?` stands for one parameter."""

    def __call__(self, statement: str, *values: object) -> list[tuple[Any, ...]]: ...

    def many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Run one statement for many rows of parameters."""


class Store(ABC):
    """A database that holds surveys. `shown` is its name in messages, without a password."""

    bytes_type: ClassVar[str]  # the type of a column of bytes
    table_end: ClassVar[str]  # the end of a CREATE TABLE statement
    inbox: ClassVar[type[Inbox]]  # the kind of table that keeps responses until a survey is closed
    largest_row: ClassVar[int]  # the most bytes of a response in one row
    failure: type[Exception]  # the base class of all errors that the database raises

    def __init__(self, shown: str) -> None:
        self.shown = shown
        self._lock = threading.RLock()
        self._connection: Any = None

    # Methods that each database defines ---------------------------------------------------------

    @abstractmethod
    def _open(self) -> Any:
        """A new connection."""

    @abstractmethod
    def _begin(self, connection: Any, *, write: bool) -> Run:
        """Begin a transaction. If `write` is true, other writers wait until it ends."""

    @abstractmethod
    def _remove_traces(self, connection: Any, tables: Sequence[str]) -> None:
        """Remove the traces of deleted rows from the files of these tables."""

    @abstractmethod
    def _is_full(self, error: Exception) -> bool:
        """Whether the database failed because there is no room on its disk."""

    # Methods that all databases share -----------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[Run]:
        """A transaction that writes everything or nothing. Other writers wait."""
        with self._connected() as connection:
            yield self._begin(connection, write=True)
            connection.execute("COMMIT")

    @contextmanager
    def reading(self) -> Iterator[Run]:
        """A transaction that only reads. It sees one consistent state."""
        with self._connected() as connection:
            yield self._begin(connection, write=False)
            connection.execute("COMMIT")

    def _refusal(self, error: Exception) -> Full | Unavailable:
        if self._is_full(error):
            return Full(f"{self.shown} must have room on its disk, but the disk is full")
        return Unavailable(f"{self.shown} must be a database that can be used: {one_line(error)}")

    def scrub(self, tables: Sequence[str]) -> None:
        """Remove the traces of deleted rows from the files of these tables."""
        with self._connected() as connection:
            self._remove_traces(connection, tables)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """The connection, for one thread at a time. After any error, the connection is closed. This
        rolls the transaction back. The next transaction opens a new connection.
        """
        with self._lock:
            try:
                self._connection = self._connection or self._open()
                yield self._connection
            except self.failure as error:
                self.close()
                raise self._refusal(error) from None
            except BaseException:
                self.close()
                raise


def opened(place: str, *, wait: float = 30.0) -> Store:
    """The store at a path, or at postgresql://user@host/database."""
    if place.startswith(("postgresql://", "postgres://")):
        from headcount.collect.postgres import PostgresStore

        return PostgresStore(place, wait)
    from headcount.collect.sqlite import SqliteStore

    return SqliteStore(Path(place), wait)
