"""A ledger in PostgreSQL, in a schema of its own, `headcount`.

Charges of a data set wait for each other at its row (SELECT … FOR UPDATE), and what is read after
the lock is what was committed before it: READ COMMITTED, whatever the server's default. A commit
has reached the disk (synchronous_commit) when it returns; a server that is set not to sync its
files (fsync = off), or that fails over to one that lags behind, may forget it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import urlsplit

from headcount.core.errors import MissingPackage, UnreadableData
from headcount.ledger.store import Run

_ONE_CREATOR = 0x6865616463  # the number of a lock
_IDLE = 600  # seconds after which the server gives up a silent client, and its lock


@dataclass(frozen=True)
class PostgresStore:
    """`wait`: for how many seconds others may keep a data set locked."""

    url: str = field(repr=False)  # may hold a password
    wait: float
    bytes_type: ClassVar[str] = "BYTEA"
    row_lock: ClassVar[str] = " FOR UPDATE"

    @property
    def shown(self) -> str:
        try:
            parts = urlsplit(self.url)
        except ValueError:
            return "the ledger in PostgreSQL"
        _, _, host = parts.netloc.rpartition("@")
        return f"{parts.scheme}://{host}{parts.path}"

    @contextmanager
    def reading(self) -> Iterator[Run]:
        with self._transaction("REPEATABLE READ, READ ONLY") as run:
            yield run

    @contextmanager
    def writing(self) -> Iterator[Run]:
        with self._transaction("READ COMMITTED, READ WRITE") as run:
            yield run

    @contextmanager
    def creating(self) -> Iterator[Run]:
        with self._transaction("READ COMMITTED, READ WRITE") as run:
            run("SELECT pg_advisory_xact_lock(?)", (_ONE_CREATOR,))
            if not self._has_schema(run):
                run("CREATE SCHEMA headcount", ())
            yield run

    def _has_schema(self, run: Run) -> bool:
        return bool(run("SELECT 1 FROM pg_namespace WHERE nspname = 'headcount'", ()))

    def tables(self, run: Run) -> set[str]:
        found = run("SELECT tablename FROM pg_tables WHERE schemaname = 'headcount'", ())
        return {name for (name,) in found}

    @contextmanager
    def _transaction(self, kind: str) -> Iterator[Run]:
        try:
            import psycopg
        except ImportError:
            raise MissingPackage(
                "a ledger in PostgreSQL needs psycopg", hint="pip install 'headcount[postgres]'"
            ) from None
        try:
            psycopg.conninfo.conninfo_to_dict(self.url)
        except psycopg.Error:  # which may quote a password
            raise UnreadableData(
                f"{self.shown} must be like postgresql://user:password@host/database"
            ) from None
        try:
            with psycopg.connect(
                self.url, autocommit=True, connect_timeout=max(2, int(self.wait))
            ) as connection:

                def run(statement: str, values: Any) -> list[tuple[Any, ...]]:
                    done = connection.execute(statement.replace("?", "%s"), values or None)
                    return done.fetchall() if done.description else []

                with connection.transaction():
                    run(f"SET TRANSACTION ISOLATION LEVEL {kind}", ())
                    for name, value in (
                        ("search_path", "headcount, pg_catalog"),
                        ("lock_timeout", f"{int(1000 * self.wait)}ms"),
                        ("idle_in_transaction_session_timeout", f"{_IDLE}s"),
                    ):
                        run("SELECT set_config(?, ?, true)", (name, value))
                    run(
                        "SELECT set_config('synchronous_commit', 'on', true) "
                        "WHERE current_setting('synchronous_commit') IN "
                        "('off', 'local', 'remote_write')",
                        (),
                    )
                    yield run
        except psycopg.errors.LockNotAvailable:
            raise UnreadableData(
                f"{self.shown} must be free within {self.wait:g} s, got one that others keep locked"
            ) from None
        except (
            psycopg.errors.InsufficientPrivilege,
            psycopg.errors.ReadOnlySqlTransaction,
        ) as error:
            raise UnreadableData(
                f"{self.shown} must be writable by its user: {_line(error)}"
            ) from None
        except psycopg.OperationalError as error:
            raise UnreadableData(f"{self.shown} must be reachable: {_line(error)}") from None
        except psycopg.Error as error:
            raise UnreadableData(
                f"{self.shown} must be a ledger that can be read: {_line(error)}"
            ) from None


def _line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
