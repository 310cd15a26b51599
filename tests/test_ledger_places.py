"""Places for ledgers: places that are not ledgers, locked ones, and servers that are lost or
silent.
"""

import contextlib
import os
import signal
import socket
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import headcount as hc
from commands import Headcount
from headcount.ledger.postgres import PostgresStore, without_password
from headcount.ledger.store import Run
from ledgers import (
    made,
    new_database,
    rows_of,
    spend,
)


def test_what_is_no_ledger(tmp_path: Path, headcount: Headcount) -> None:
    (tmp_path / "text.db").write_text("no database, but long enough for a heading" * 100)
    (tmp_path / "empty.db").touch()
    with contextlib.closing(sqlite3.connect(tmp_path / "other.db")) as other, other:
        other.execute("CREATE TABLE entries (a)")
    for name, wanted in (
        ("missing.db", "there must be a ledger at 'missing.db', got none"),
        ("text.db", "text.db must be a ledger, got another kind of file"),
        ("empty.db", "empty.db must be a ledger, got none"),
        ("other.db", "other.db must be a ledger, got none"),
        (".", "must be a file that can be opened, but opening it failed"),
    ):
        done = headcount("ledger", "show", name)
        assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
        assert wanted in done.err
    assert not (tmp_path / "missing.db").exists()
    for name in ("text.db", "other.db", "no/such/folder.db"):
        done = headcount("ledger", "create", name, "--dataset", "people", "--epsilon", "1")
        assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert headcount("ledger", "create", "empty.db", "--dataset", "a", "--epsilon", "1").status == 0


def as_another_user(work: Callable[[], None]) -> str:
    """The exception of a function in a process that is not root."""
    receive, send = os.pipe()
    child = os.fork()
    if not child:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            work()
        except hc.HeadcountError as error:
            os.write(send, str(error).encode())
        finally:
            os._exit(0)
    os.close(send)
    os.waitpid(child, 0)
    with os.fdopen(receive) as told:
        return told.read()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_read_only_file_is_shown_but_not_charged(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spent.db"
        ledger = made(path, 1)
        spend(ledger, 0.25)
        path.chmod(0o444)
        Path(folder).chmod(0o555)

        def look() -> None:
            assert len(hc.Ledger.open(path).spending().entries) == 1
            spend(hc.Ledger.open(path), 0.25)

        told = as_another_user(look)
        Path(folder).chmod(0o755)
    assert told == "spent.db must be writable, but the file or its folder is read-only"


def test_a_locked_file_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "spent.db"
    made(path, 1)
    ledger = hc.Ledger.open(path, wait=0.2)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(hc.UnreadableData, match=r"must be free within 0\.2 s"):
            spend(ledger, 0.1)
    spend(ledger, 0.1)


def test_a_locked_row_is_waited_for(postgres_server: str) -> None:
    place = new_database(postgres_server)
    made(place, 1)
    ledger = hc.Ledger.open(place, wait=0.2)
    with psycopg.connect(place) as other:
        other.execute("SELECT * FROM headcount.datasets FOR UPDATE")
        with pytest.raises(hc.UnreadableData, match=r"must be free within 0\.2 s"):
            spend(ledger, 0.1)
    spend(ledger, 0.1)


def test_a_lost_server(postgres_server: str) -> None:
    """The server is lost during a charge. Nothing is charged, and the message has no password."""
    place = new_database(postgres_server)
    ledger = made(place.replace("user=postgres", "user=postgres&password=geheim"), 1)

    def cut_off() -> None:
        with ledger.store.writing() as run:
            ((own,),) = run("SELECT pg_backend_pid()", ())
            run(
                "INSERT INTO datasets VALUES ('a', 2, '1.0', '0.0', 'composed', NULL, '', 0, '')",
                (),
            )
            with psycopg.connect(place, autocommit=True) as other:
                other.execute("SELECT pg_terminate_backend(%s, 5000)", (own,))

    with pytest.raises(hc.UnreadableData, match="must be reachable") as lost:
        cut_off()
    assert ledger.datasets == ["people"]
    for address in (
        "postgresql://someone:geheim@127.0.0.1:1/x",
        "postgresql://someone:gehe%zzim@127.0.0.1:1/x",
        "postgresql://someone:geheim@127.0.0.1:many/x",
        "postgresql://[someone:geheim",
    ):
        with pytest.raises(hc.UnreadableData) as refused:
            hc.Ledger.open(address)
        for told in (str(refused.value), str(lost.value), repr(ledger)):
            assert "gehe" not in told
            assert "\n" not in told


@pytest.mark.parametrize(
    "password", ["geheim", "ge/heim", "ge#heim", "ge?heim", "ge@heim", "[heim"]
)
def test_addresses_are_shown_without_passwords(password: str) -> None:
    shown = without_password(f"postgresql://me:{password}@host/ledger")
    assert "heim" not in shown
    assert "ge" not in shown.replace("postgresql", "").replace("ledger", "")


def test_a_user_who_may_not_write(postgres_server: str) -> None:
    place = new_database(postgres_server)
    spend(made(place, 1), 0.1)
    name = f"reader_{os.getpid()}"
    for statement in (
        f"CREATE USER {name}",
        f"GRANT USAGE ON SCHEMA headcount TO {name}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA headcount TO {name}",
    ):
        rows_of(place, statement)
    reader = hc.Ledger.open(place.replace("user=postgres", f"user={name}"))
    assert len(reader.spending().entries) == 1
    with pytest.raises(hc.UnreadableData, match="must be writable by its user: permission denied"):
        spend(reader, 0.1)


def silence(work: Callable[[], object]) -> float:
    """How long the refusal of a silent server took."""
    start = time.monotonic()
    with pytest.raises(hc.UnreadableData) as refused:
        work()
    assert str(refused.value).endswith("must answer within 3 s, but the server is silent")
    return time.monotonic() - start


def test_a_server_that_never_answers() -> None:
    """The server accepts connections, but never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"postgresql://someone@127.0.0.1:{server.getsockname()[1]}/x"
        assert silence(lambda: hc.Ledger.open(address, wait=0)) < 8


@pytest.mark.parametrize("silent", ["SELECT version", "COMMIT"])
def test_a_server_that_falls_silent(
    postgres_server: str, monkeypatch: pytest.MonkeyPatch, silent: str
) -> None:
    """The server stops in the middle of a charge, before it is read or before it is committed."""
    made(new_database(postgres_server), 1)
    ledger = hc.Ledger.open(postgres_server, wait=0)
    writing, stopped = PostgresStore.writing, []

    def stop(process: int) -> None:
        os.kill(process, signal.SIGSTOP)
        stopped.append(process)

    @contextlib.contextmanager
    def watched(store: PostgresStore) -> Iterator[Run]:
        with writing(store) as run:
            ((own,),) = run("SELECT pg_backend_pid()", ())

            def watch(statement: str, values: Any) -> list[tuple[Any, ...]]:
                if statement.startswith(silent):
                    stop(own)
                return run(statement, values)

            yield watch
            stop(own)

    monkeypatch.setattr(PostgresStore, "writing", watched)
    try:
        assert silence(lambda: spend(ledger, 0.1)) < 8
    finally:
        for process in stopped:
            os.kill(process, signal.SIGCONT)
    assert len(stopped) == 1
    monkeypatch.undo()
    assert hc.Ledger.open(postgres_server).spending().epsilon <= 0.1


def test_a_statement_that_takes_too_long(postgres_server: str) -> None:
    store = PostgresStore(postgres_server, wait=0)

    def sleep() -> None:
        with store.reading() as run:
            run("SELECT pg_sleep(20)", ())

    assert silence(sleep) < 8


def test_a_place_is_no_ledger_yet(tmp_path: Path) -> None:
    for place in ("spent.db", tmp_path / "spent.db"):
        with pytest.raises(hc.InvalidParameter, match="a ledger must be opened") as refused:
            hc.Ledger(place)  # type: ignore[arg-type]
        assert f"`Ledger.open({str(place)!r})`" in str(refused.value)


@pytest.mark.parametrize("name", ["", "x" * 201, "two\nlines"])
def test_a_bad_name_leaves_no_file(tmp_path: Path, headcount: Headcount, name: str) -> None:
    done = headcount("ledger", "create", "new.db", "--dataset", name, "--epsilon", "1")
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert "`dataset` must" in done.err
    assert not (tmp_path / "new.db").exists()


def test_a_device_is_no_place_for_a_ledger(tmp_path: Path) -> None:
    """Nothing is left beside the device, where SQLite would put a journal."""
    (tmp_path / "zeros.db").symlink_to("/dev/zero")
    for opening in (hc.Ledger.create, hc.Ledger.open):
        with pytest.raises(hc.UnreadableData, match=r"zeros\.db must be a file, got"):
            opening(tmp_path / "zeros.db")
    assert [path.name for path in tmp_path.iterdir()] == ["zeros.db"]
