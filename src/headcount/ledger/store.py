"""The interface of the two databases that can hold a ledger: SQLite and PostgreSQL."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Final, Protocol, TypeAlias

# A function that runs one statement and returns its rows. Each `?` in the statement stands for one
# parameter.
Run: TypeAlias = Callable[[str, Sequence[object]], list[tuple[Any, ...]]]


NOTICE: Final = 1.0  # seconds after which a wait for a ledger is logged


class Store(Protocol):
    """Transactions in a database.

    Each transaction has its own connection. So threads share nothing, a forked process inherits
    nothing, and a killed process leaves nothing behind. A database error becomes an
    `UnreadableData` error with a one-line message.
    """

    bytes_type: ClassVar[str]  # the type of a column of bytes in this database
    row_lock: ClassVar[str]  # text that makes a SELECT statement lock its rows for writing

    @property
    def shown(self) -> str:
        """The name of the ledger in messages, without a password."""

    def reading(self) -> AbstractContextManager[Run]:
        """A transaction that only reads. It sees one consistent state."""

    def writing(self) -> AbstractContextManager[Run]:
        """A transaction that writes all of its changes or none. The changes are on disk when the
        block ends.

        Each statement sees everything that other transactions have committed so far. Alternatively,
        a store may make all other writing transactions wait until the block ends.
        """

    def creating(self) -> AbstractContextManager[Run]:
        """Like `writing`, but the database may still be empty. Only one `creating` transaction runs
        at a time.
        """

    def tables(self, run: Run) -> set[str]:
        """The names of the tables in the database."""


def one_line(error: Exception) -> str:
    """The first line of a database error, without unprintable characters."""
    first = str(error).strip().partition("\n")[0]
    return "".join(letter for letter in first if letter.isprintable()) or type(error).__name__
