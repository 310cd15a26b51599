"""The interface of the two databases that can hold a ledger: SQLite and PostgreSQL."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Protocol, TypeAlias

# A function that runs one statement and returns its rows. `?` stands for each parameter.
Run: TypeAlias = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]


class Store(Protocol):
    """Transactions in a database.

    Each transaction has its own connection. So threads share nothing, a forked process inherits
    nothing, and a killed process leaves nothing behind. An error of the database becomes an
    `UnreadableData` with a message of one line.
    """

    bytes_type: ClassVar[str]  # the database's type of a column of bytes
    row_lock: ClassVar[str]  # the end of a SELECT statement that locks its rows for writing

    @property
    def shown(self) -> str:
        """The name of the place in messages, without a password."""

    def reading(self) -> AbstractContextManager[Run]:
        """A transaction that only reads. It sees one consistent state."""

    def writing(self) -> AbstractContextManager[Run]:
        """A transaction that writes all of its changes or none. They are on disk when the block
        ends.

        Each statement sees what others have committed so far. A store may also make others wait
        until the block ends; then there is nothing new to see.
        """

    def creating(self) -> AbstractContextManager[Run]:
        """Like `writing`, but only one process at a time, and the place may still be empty."""

    def tables(self, run: Run) -> set[str]:
        """The names of the tables at the place."""


def one_line(error: Exception) -> str:
    """The first line of a database's error, without characters that cannot be shown."""
    first = str(error).strip().partition("\n")[0]
    return "".join(letter for letter in first if letter.isprintable()) or type(error).__name__
