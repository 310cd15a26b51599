"""A ledger in PostgreSQL. Its tables are in the schema `headcount`.

Each charge locks the row of its dataset (SELECT … FOR UPDATE), so charges to the same dataset wait
for each other. A charge always has the isolation level READ COMMITTED. So once a charge holds the
lock, it sees everything that was committed before. When a commit returns, the changes are on disk
(synchronous_commit). There are two exceptions. A server may be configured not to sync its files
(fsync = off), or it may fail over to a replica that lags behind. Such servers may lose a charge.

A server may stop answering while a connection is made or in the middle of a statement. Then the
server's own timeouts do not help. So the client also sets a deadline for every statement. After the
deadline, it shuts down the connection. If a commit is never answered, the charge fails with an
error, although the server may have recorded it. In that case, budget is wasted.
"""

import logging
import math
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import urlsplit

from headcount.core.errors import LedgerLocked, MissingPackage, UnreadableData
from headcount.ledger.store import NOTICE, Run, one_line

_log = logging.getLogger(__name__)

_ONE_CREATOR = 0x6865616463  # the advisory lock that allows only one creator at a time
_IDLE = 600  # seconds after which the server drops a silent client and releases its lock
_GRACE = 3  # additional seconds in which the server can report that a wait for a lock failed
_PROBES = 3  # the number of probes of a silent connection before it counts as lost


@dataclass(frozen=True)
class PostgresStore:
    """A ledger on a PostgreSQL server.

    `wait` is the longest time, in seconds, to wait for a locked dataset. Each answer from the
    server may take a few seconds longer.
    """

    url: str = field(repr=False)  # not shown, since it may contain a password
    wait: float
    bytes_type: ClassVar[str] = "BYTEA"
    row_lock: ClassVar[str] = " FOR UPDATE"

    @property
    def shown(self) -> str:
        return without_password(self.url)

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
        names = run("SELECT tablename FROM pg_tables WHERE schemaname = 'headcount'", ())
        return {name for (name,) in names}

    @contextmanager
    def _transaction(self, kind: str) -> Iterator[Run]:
        address = address_of(self.url, "a ledger", **self._limits)
        import psycopg

        try:
            # An exception closes the connection, and closing it rolls the transaction back.
            with closing(psycopg.connect(address, autocommit=True)) as connection:

                def run(statement: str, values: Any) -> list[tuple[Any, ...]]:
                    with self._answered(connection.fileno()):
                        done = connection.execute(statement.replace("?", "%s"), values or None)
                        return done.fetchall() if done.description else []

                run(f"BEGIN ISOLATION LEVEL {kind}", ())
                for name, value in (
                    ("search_path", "headcount, pg_catalog"),
                    ("lock_timeout", f"{max(1, int(1000 * self.wait))}ms"),  # 0 would mean no limit
                    ("statement_timeout", f"{int(1000 * (self.wait + _GRACE / 2))}ms"),
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
                run("COMMIT", ())
        except (psycopg.errors.ConnectionTimeout, psycopg.errors.QueryCanceled):
            raise self._silent() from None
        except psycopg.errors.LockNotAvailable:
            raise LedgerLocked(
                f"{self.shown} must be free within {self.wait:g} s, but another process keeps it "
                "locked",
                hint="nothing was charged; try again later",
            ) from None
        except (
            psycopg.errors.InsufficientPrivilege,
            psycopg.errors.ReadOnlySqlTransaction,
        ) as error:
            raise UnreadableData(
                f"{self.shown} must be writable by its user: {one_line(error)}"
            ) from None
        except psycopg.OperationalError as error:
            raise UnreadableData(f"{self.shown} must be reachable: {one_line(error)}") from None
        except psycopg.Error as error:
            raise UnreadableData(
                f"{self.shown} must be a ledger that can be read: {one_line(error)}"
            ) from None

    @property
    def _limits(self) -> dict[str, int]:
        """Time limits for libpq. `tcp_user_timeout` is in milliseconds, the others in seconds."""
        whole = self._deadline
        return {
            "connect_timeout": max(2, whole),
            "keepalives": 1,
            "keepalives_idle": max(1, whole // 2),
            "keepalives_interval": max(1, whole // (2 * _PROBES)),
            "keepalives_count": _PROBES,
            "tcp_user_timeout": 1000 * whole,
        }

    @property
    def _deadline(self) -> int:
        return math.ceil(self.wait) + _GRACE

    @contextmanager
    def _answered(self, connection: int) -> Iterator[None]:
        """Log a wait for the server, and shut down a connection if the server has not answered by
        the deadline. `connection` is a file descriptor.
        """
        late = threading.Event()
        with socket.socket(fileno=os.dup(connection)) as end:

            def give_up() -> None:
                late.set()
                with suppress(OSError):  # the connection is closed already
                    end.shutdown(socket.SHUT_RDWR)

            def tell() -> None:
                _log.warning("waiting up to %g s for %s to answer", self.wait, self.shown)

            timers = [threading.Timer(self._deadline, give_up)]
            if self.wait > NOTICE:
                timers.append(threading.Timer(NOTICE, tell))
            for timer in timers:
                timer.daemon = True
                timer.start()
            try:
                yield
            except Exception:
                if late.is_set():
                    raise self._silent() from None
                raise
            finally:
                for timer in timers:
                    timer.cancel()
                    timer.join()

    def _silent(self) -> UnreadableData:
        return UnreadableData(
            f"{self.shown} must answer within {self._deadline} s, but the server is silent"
        )


def address_of(url: str, what: str, **limits: int) -> str:
    """The address of a database for psycopg, with these time limits. `what` says in messages what
    the database holds.
    """
    try:
        import psycopg
    except ImportError:
        raise MissingPackage(
            f"{what} in PostgreSQL needs psycopg", hint="pip install 'headcount[postgres]'"
        ) from None
    try:
        return psycopg.conninfo.make_conninfo(url, **limits)
    except psycopg.Error:  # its message is not shown, since it may contain a password
        raise UnreadableData(
            f"{without_password(url)} must have the form postgresql://user:password@host/database"
        ) from None


def without_password(url: str) -> str:
    """The address of a database as messages show it."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the database in PostgreSQL"
    if "@" in parts.path + parts.query + parts.fragment:  # the password has a / ? or #
        return "the database in PostgreSQL"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
