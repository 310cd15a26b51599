"""What a job learns about its charges: their entries, and what became of them after an error."""

import contextlib
import json
import logging
import resource
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headcount as hc
from commands import Headcount
from headcount.core.writing import write_file
from headcount.data import estimate as road
from headcount.ledger import sqlite
from ledgers import made, spend

ASKED = ["estimate", "people.parquet", "--column", "smoker", "--epsilon", "0.5"]
PAID = [*ASKED, "--ledger", "spent.db"]


@pytest.fixture
def ledger(headcount: Headcount, people: None) -> hc.Ledger:
    created = headcount("ledger", "create", "spent.db", "--dataset", "town", "--epsilon", "2")
    assert created.status == 0
    return hc.Ledger.open("spent.db")


def test_a_job_can_store_the_entry(headcount: Headcount, ledger: hc.Ledger) -> None:
    """The same receipt is printed and saved, and has no path of this machine."""
    done = headcount(*PAID, "--json", "--out", "answer.json")
    (entry,) = ledger.spending().entries
    receipt = {"ledger": "spent.db", "dataset": "town", "entry": 1, "id": entry.id}
    assert json.loads(done.out)["charge"] == receipt
    assert json.loads(Path("answer.json").read_text())["charge"] == receipt
    assert "recorded in: spent.db, entry 2 of dataset 'town'" in headcount(*PAID).out
    assert "charge" not in json.loads(headcount(*ASKED, "--json").out)


# Charges with a name ------------------------------------------------------------------------------


def test_a_name_pays_for_one_answer(tmp_path: Path) -> None:
    """A job is killed after its charge. If it runs again, the answer would have other noise."""
    ledger = made(tmp_path / "spent.db", 3)
    asked: dict[str, Any] = {"data": [0, 1] * 50, "task": hc.Count(), "budget": hc.Budget(1)}
    paid = hc.prepare(**asked).charge(ledger, once="night 1")
    for again in (
        lambda: hc.prepare(**asked).charge(ledger, once="night 1"),
        lambda: hc.estimate(**asked, ledger=tmp_path / "spent.db", once="night 1"),
        lambda: hc.estimate(**{**asked, "budget": hc.Budget(0.1)}, ledger=ledger, once="night 1"),
        lambda: hc.estimate(**{**asked, "budget": hc.Budget(9)}, ledger=ledger, once="night 1"),
    ):
        with pytest.raises(hc.AlreadyCharged, match="got a name that was charged at 20") as refused:
            again()
        assert refused.value.entry["id"] == paid.id
        assert refused.value.exit_status == 4
    assert len(ledger.spending().entries) == 1
    assert hc.estimate(**asked, ledger=ledger, once="night 2").users == 100
    assert [one.note["once"] for one in ledger.spending().entries] == ["night 1", "night 2"]


def test_a_prepared_estimate_that_was_refused_never_answers_for_the_name(tmp_path: Path) -> None:
    """If several estimates are charged under one name at once, only one may answer."""
    ledger = made(tmp_path / "spent.db", 30)
    paid, refused = list[str](), list[str]()

    def job() -> None:
        ready = hc.prepare([0, 1] * 50, hc.Count(), budget=hc.Budget(1))
        try:
            paid.append(ready.charge(ledger, once="night").id)
        except hc.AlreadyCharged as error:
            refused.append(error.entry["id"])

    threads = [threading.Thread(target=job) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(paid), len(refused)) == (1, 5)
    assert {*paid} == {*refused}


def test_names_of_estimates_and_of_other_charges_do_not_meet(tmp_path: Path) -> None:
    """Otherwise an estimate could pay for a survey, or a survey for an estimate."""
    ledger = made(tmp_path / "spent.db", 3)
    spend(ledger, 1.0, once="survey 1")
    hc.estimate([0, 1], hc.Count(), budget=hc.Budget(1), ledger=ledger, once="survey 1")
    assert len(ledger.spending().entries) == 2


@pytest.mark.parametrize("once", ["", "two\nlines", "x" * 201, 7])
def test_a_name_is_short_text(tmp_path: Path, once: Any) -> None:
    ledger = made(tmp_path / "spent.db", 3)
    ready = hc.prepare([0, 1], hc.Count(), budget=hc.Budget(1))
    with pytest.raises(hc.InvalidParameter, match="`once` must"):
        ready.charge(ledger, once=once)
    with pytest.raises(hc.InvalidParameter, match="`once` must come with a ledger"):
        hc.estimate([0, 1], hc.Count(), budget=hc.Budget(1), once=once)
    assert ready.charge(ledger).number == 1


def test_a_nightly_command_is_paid_once(headcount: Headcount, ledger: hc.Ledger) -> None:
    first = headcount(*PAID, "--once", "2024-05-01", "--json")
    assert (first.status, first.err) == (0, "")
    again = headcount(*PAID, "--once", "2024-05-01", "--json")
    assert again.status == 4
    error = json.loads(again.out)["error"]
    assert (error["code"], error["charged"]) == ("already-charged", False)
    charge = json.loads(first.out)["charge"]
    assert {**error["entry"], "time": None} == {**charge, "time": None}
    assert "value" not in again.out
    assert headcount(*PAID, "--once", "2024-05-02").status == 0
    assert len(ledger.spending().entries) == 2
    assert headcount(*ASKED, "--once", "a").status == 2


# What became of a charge --------------------------------------------------------------------------


@contextlib.contextmanager
def locked(path: str | Path) -> Iterator[None]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield


def test_a_locked_ledger_has_its_own_code(
    headcount: Headcount, ledger: hc.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vars(hc.Ledger)["open"].__func__, "__kwdefaults__", {"wait": 0.1})
    del ledger
    with locked("spent.db"):
        done = headcount(*PAID, "--json")
    error = json.loads(done.out)["error"]
    assert (done.status, error["code"], error["charged"]) == (2, "ledger-locked", False)
    assert "nothing was charged; try again later" in done.err


def test_a_wait_is_logged_at_its_beginning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "NOTICE", 0.05)
    made(tmp_path / "spent.db", 1)
    ledger = hc.Ledger.open(tmp_path / "spent.db", wait=30)
    holding = contextlib.ExitStack()
    holding.enter_context(locked(tmp_path / "spent.db"))

    class Freeing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno == logging.WARNING:  # the wait is over as soon as it is logged
                holding.close()

    logger = logging.getLogger("headcount")
    handler = Freeing()
    logger.addHandler(handler)
    try:
        assert spend(ledger, 0.1).number == 1
    finally:
        logger.removeHandler(handler)
    warnings = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert [one.getMessage() for one in warnings] == [
        "another process keeps spent.db locked; waiting up to 30 s for it"
    ]


LIMITED = """
import resource, sys
import headcount as hc
ledger = hc.Ledger.open("spent.db")
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    hc.estimate([0, 1], hc.Count(), budget=hc.Budget(1), ledger=ledger)
except hc.DiskFull as error:
    print(error.code, error)
"""


@pytest.mark.usefixtures("ledger")
def test_a_limit_on_files_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED], capture_output=True, text=True, check=True
    )
    assert done.stdout == (
        "disk-full spent.db must have room to grow, but this process may write only 4,096 bytes to "
        "a file (raise the limit, which `ulimit -f` shows)\n"
    )
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 4096
    assert not hc.Ledger.open("spent.db").spending().entries


def test_a_full_disk_has_its_own_code(tmp_path: Path) -> None:
    with pytest.raises(hc.DiskFull, match="No space left") as full:
        write_file(Path("/dev/full"), "x" * 10**6)
    assert full.value.code == "disk-full"
    failed = sqlite3.OperationalError("database or disk is full")
    failed.sqlite_errorname = "SQLITE_FULL"
    store = sqlite.SqliteStore(tmp_path / "spent.db", 1)
    with pytest.raises(hc.DiskFull, match="must have room on its disk"), store.creating():
        raise failed


def failing(error: BaseException) -> Callable[..., Any]:
    def work(*arguments: object) -> Any:
        raise error

    return work


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), OSError(5, "I/O error")])
def test_an_error_after_the_charge_names_the_entry(
    headcount: Headcount, ledger: hc.Ledger, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(road, "walk", failing(error))
        lost = json.loads(headcount(*PAID, "--json").out)
    (entry,) = ledger.spending().entries
    assert lost["error"]["charged"] is True
    assert lost["charge"]["id"] == entry.id
    refused = json.loads(headcount(*PAID, "--json", "--epsilon", "1.9").out)
    assert (refused["error"]["code"], refused["error"]["charged"]) == ("budget-exhausted", False)
    assert "charge" not in refused
    without = json.loads(headcount(*ASKED, "--json", "--column", "nothing").out)
    assert "charged" not in without["error"]


@pytest.mark.parametrize("readable", [True, False])
def test_a_charge_that_is_not_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, readable: bool
) -> None:
    """The commit fails after it was made, and perhaps the ledger cannot be read either."""
    ledger = made(tmp_path / "spent.db", 1)
    writing = sqlite.SqliteStore.writing

    @contextlib.contextmanager
    def broken(store: sqlite.SqliteStore) -> Iterator[Any]:
        with writing(store) as run:
            yield run
        if not readable:
            (tmp_path / "spent.db").rename(tmp_path / "gone.db")
        raise hc.UnreadableData("the connection is lost")

    with monkeypatch.context() as patched:
        patched.setattr(sqlite.SqliteStore, "writing", broken)
        with pytest.raises(hc.UnconfirmedCharge) as caught:
            spend(ledger, 0.5)
    assert caught.value.charged is (True if readable else None)
    assert ("may be recorded" in caught.value.message) == (not readable)


def test_an_interrupted_commit_says_that_it_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = made(tmp_path / "spent.db", 1)
    writing = sqlite.SqliteStore.writing

    @contextlib.contextmanager
    def stopped(store: sqlite.SqliteStore) -> Iterator[Any]:
        with writing(store) as run:
            yield run
        raise KeyboardInterrupt

    monkeypatch.setattr(sqlite.SqliteStore, "writing", stopped)
    with pytest.raises(KeyboardInterrupt) as caught:
        spend(ledger, 0.5)
    assert "the charge is recorded as entry 1 of dataset 'people'" in caught.value.__notes__[0]


def test_the_command_says_that_an_interrupted_commit_was_made(
    headcount: Headcount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path / "spent.db", 2)
    (tmp_path / "people.csv").write_text("v\n" + "1\n0\n" * 50)
    writing = sqlite.SqliteStore.writing

    @contextlib.contextmanager
    def stopped(store: sqlite.SqliteStore) -> Iterator[Any]:
        with writing(store) as run:
            yield run
        raise MemoryError

    monkeypatch.setattr(sqlite.SqliteStore, "writing", stopped)
    question = ("estimate", "people.csv", "--column", "v", "--epsilon", "1", "--ledger", "spent.db")
    refused = json.loads(headcount(*question, "--json").out)
    assert refused["error"]["charged"] is True
