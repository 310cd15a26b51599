"""A store in PostgreSQL. Its tables are in the schema `collect`.

PostgreSQL keeps traces of arrivals and of deleted rows. As long as a survey is open, the system
columns `ctid` and `xmin` show the order in which responses came. When the survey is closed,
`VACUUM FULL` rewrites the tables. But the files of the write-ahead log, and their archives, keep
sealed responses until these files are recycled. `docs/collection.md` says how to limit such traces.
SQLite leaves far fewer traces.
"""

from collections.abc import Sequence
from typing import Any

from headcount.collect.inbox import Rows
from headcount.collect.store import Store
from headcount.ledger.postgres import address_of, without_password

_ONE_WRITER = 0x636F6C6C  # the advisory lock that allows only one writer at a time


class _Run:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __call__(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        done = self._connection.execute(statement.replace("?", "%s"), values or None)
        return done.fetchall() if done.description else []

    def many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(statement.replace("?", "%s"), rows)


class PostgresStore(Store):
    """A database on a server. `wait` is the longest time, in seconds, to wait for an answer."""

    bytes_type = "BYTEA"
    table_end = ""
    inbox = Rows
    largest_row = 2**20

    def __init__(self, url: str, wait: float = 30.0) -> None:
        self._address = address_of(
            url, "a store", connect_timeout=max(2, int(wait)), tcp_user_timeout=int(1000 * wait)
        )
        super().__init__(without_password(url))
        import psycopg

        self.failure, self._wait = psycopg.Error, wait

    def _open(self) -> Any:
        import psycopg

        connection = psycopg.connect(self._address, autocommit=True)
        for name, value in (
            ("search_path", "collect, pg_catalog"),
            ("lock_timeout", f"{int(1000 * self._wait)}ms"),
            ("synchronous_commit", "on"),
            ("idle_in_transaction_session_timeout", "600s"),
        ):
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        connection.execute("SELECT pg_advisory_lock(%s)", (_ONE_WRITER,))
        connection.execute("CREATE SCHEMA IF NOT EXISTS collect")
        connection.execute("SELECT pg_advisory_unlock(%s)", (_ONE_WRITER,))
        return connection

    def _begin(self, connection: Any, *, write: bool) -> _Run:
        kind = "READ COMMITTED, READ WRITE" if write else "REPEATABLE READ, READ ONLY"
        connection.execute(f"BEGIN ISOLATION LEVEL {kind}")
        run = _Run(connection)
        if write:
            run("SELECT pg_advisory_xact_lock(?)", _ONE_WRITER)
        return run

    def _remove_traces(self, connection: Any, tables: Sequence[str]) -> None:
        """Rewrite the tables, so that their files no longer hold deleted rows."""
        for table in tables:
            connection.execute(f"VACUUM FULL {table}")

    def _is_full(self, error: Exception) -> bool:
        import psycopg

        return isinstance(error, psycopg.errors.DiskFull)
