"""Where a ledger is kept: what the two kinds of places, SQLite and PostgreSQL, have in common."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Protocol, TypeAlias

# Runs one statement, with ? for each parameter, and returns its rows.
Run: TypeAlias = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]


class Store(Protocol):
    """Transactions in a database. Each has a connection of its own, so that nothing is shared by
    threads or inherited by a fork, and a killed process leaves nothing behind.

    What the database refuses is an `UnreadableData` of one line.
    """

    bytes_type: ClassVar[str]  # what the database calls a column of bytes
    row_lock: ClassVar[str]  # what ends a SELECT that keeps its rows for a transaction that writes

    @property
    def shown(self) -> str:
        """The place as a person may see it: without a password."""

    def reading(self) -> AbstractContextManager[Run]:
        """One consistent view."""

    def writing(self) -> AbstractContextManager[Run]:
        """All or nothing, and durable when the block has been left; what others commit meanwhile
        is seen by the next statement, or cannot be.
        """

    def creating(self) -> AbstractContextManager[Run]:
        """`writing`, alone, in a place that may still be empty."""

    def tables(self, run: Run) -> set[str]:
        """The names of what is at the place."""


def one_line(error: Exception) -> str:
    """The first line of a database's error, without characters that cannot be shown."""
    first = str(error).strip().partition("\n")[0]
    return "".join(letter for letter in first if letter.isprintable()) or type(error).__name__
