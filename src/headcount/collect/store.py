"""The databases of the shuffler and of the analyzer: one interface, for SQLite and PostgreSQL.

A store keeps one connection, so that many responses can be committed together. All statements of
a block are one transaction, which is on the disk when the block ends. Errors of the database become
`Full` (no room on the disk) or `Unavailable` (anything else).
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Protocol


class Run(Protocol):
    """Runs one statement and returns its rows. Each `?` stands for one parameter."""

    def __call__(self, statement: str, *values: object) -> list[tuple[Any, ...]]: ...

    def many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Run one statement for many rows of parameters."""


class Store(Protocol):
    """A database that holds surveys."""

    bytes_type: ClassVar[str]  # the type of a column of bytes
    place_type: ClassVar[str]  # the type of a place: a key by which rows are ordered on the disk
    table_end: ClassVar[str]  # the end of a CREATE TABLE statement
    largest_row: ClassVar[int]  # bytes; the place of a longer row in the file would show its age

    @property
    def shown(self) -> str:
        """The name of the store in messages, without a password."""

    def writing(self) -> AbstractContextManager[Run]:
        """A transaction that writes everything or nothing. Other writers wait."""

    def reading(self) -> AbstractContextManager[Run]:
        """A transaction that only reads one consistent state."""

    def scrub(self, tables: Sequence[str]) -> None:
        """Remove what deleted rows of these tables left behind."""

    def close(self) -> None:
        """Close the connection."""


def opened(place: str, *, wait: float = 30.0) -> Store:
    """The store at a path, or at postgresql://user@host/database."""
    if place.startswith(("postgresql://", "postgres://")):
        from headcount.collect.postgres import PostgresStore

        return PostgresStore(place, wait)
    from headcount.collect.sqlite import SqliteStore

    return SqliteStore(Path(place), wait)
