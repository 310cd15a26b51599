"""Fixtures that tests share: commands and their data, a browser, a separate cache of plans, and the
protocols of the conformance suite.
"""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import postgres
from commands import Headcount, Outcome
from ledgers import new_database

if TYPE_CHECKING:
    from playwright.sync_api import Browser

os.environ["HEADCOUNT_CACHE"] = tempfile.mkdtemp(prefix="headcount-tests-")
# A shell lets programs in the background ignore Ctrl-C. Tests send it, so it must have its effect.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--protocol", help="the only protocol that the conformance suite tries")


@cache
def folder_of_workers() -> "tempfile.TemporaryDirectory[str]":
    return tempfile.TemporaryDirectory(prefix="headcount-workers-")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give all workers the same folder, where they share the protocols that they build."""
    node.workerinput["built"] = folder_of_workers().name


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marks = {mark.name for mark in metafunc.definition.iter_markers()}
    if marks & {"crowds", "pairs"}:
        import conformance  # loads all protocols

        conformance.worker = conformance.Worker.of(metafunc.config)
        conformance.parametrize(metafunc)


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """A browser for all tests of a file."""
    from browsing import chromium  # loads Playwright

    with chromium() as found:
        yield found


@pytest.fixture
def headcount(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Headcount:
    """Run the command in an empty folder."""
    from headcount.cli import output
    from headcount.cli.main import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    # Consoles that another test loaded have another width.
    for console in (output.console, output.messages):
        monkeypatch.setattr(console, "width", 100)

    def call(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["headcount", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return Outcome(int(stop.value.code or 0), captured.out, captured.err)

    return call


@pytest.fixture
def people(tmp_path: Path) -> None:
    """2,000 people in both formats; 500 of them smoke."""
    smokes = np.arange(2000) % 4 == 0
    table = pyarrow.table(
        {
            "smoker": smokes,
            "number": smokes.astype(np.int64),
            "age": np.arange(2000) % 90,
            "name": [f"p{i}" for i in range(2000)],
            "missing": [None, *smokes[1:].tolist()],
            "unsure": np.where(smokes, 1.0, np.nan),
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "people.parquet", row_group_size=300)
    lines = [f"{int(smoker)},{i % 90}" for i, smoker in enumerate(smokes)]
    (tmp_path / "people.csv").write_text("\n".join(["smoker,age", *lines]) + "\n")
    (tmp_path / "empty.csv").write_text("smoker\n")
    (tmp_path / "nothing.csv").write_text("")
    (tmp_path / "gap.csv").write_text("smoker\n1\n0\n\n1\n")
    (tmp_path / "twice.csv").write_text("smoker,smoker\n1,0\n")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no, not really")
    (tmp_path / "people.txt").write_text("smoker\n1\n")
    (tmp_path / "folder.csv").mkdir()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a PostgreSQL server that runs while the tests do."""
    with postgres.running() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty place for a ledger."""
    if request.param == "sqlite":
        return str(tmp_path / "spent.db")
    return new_database(request.getfixturevalue("postgres_server"))
