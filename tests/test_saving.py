"""Answers are saved completely before they are printed, and are never lost once paid for."""

import errno
import json
import os
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headcount as hc
from commands import Headcount
from headcount.auditor.report import privacy_report
from headcount.core.errors import UnreadableData
from headcount.core.writing import check_writable, json_text, write_file
from headcount.plot import figures, results
from headcount.plot.report_page import save_report
from headcount.road.road import walk

ASKED = ["estimate", "people.csv", "--column", "smoker", "--epsilon", "1"]
PAID = [*ASKED, "--ledger", "spent.db"]


@pytest.fixture
def ledger(headcount: Headcount, people: None) -> Callable[[], int]:
    """A ledger, and how many entries it has."""
    made = headcount("ledger", "create", "spent.db", "--dataset", "town", "--epsilon", "50")
    assert made.status == 0
    return lambda: len(hc.Ledger.open("spent.db").spending().entries)


def full(*arguments: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def temporary_files(folder: Path) -> list[Path]:
    return list(folder.glob(".headcount-*"))


# Files ------------------------------------------------------------------------------------------


def answer() -> hc.Estimate:
    found = hc.estimate([0, 1] * 50, hc.Density(0, 1), column="value", budget=hc.Budget(1))
    assert isinstance(found, hc.Estimate)
    return found


def zero_exact() -> hc.Protocol:
    return hc.protocol("shuffle.zero-exact", hc.Count(), hc.Budget(1, 1e-6), hc.Crowd(1000))


SAVES: dict[str, Callable[[Path], None]] = {
    "plan.json": lambda path: hc.plan(
        hc.Count(), hc.Budget(1), hc.Crowd(100), trust="central"
    ).save(path),
    "result.json": lambda path: results.save(answer(), path, 0.95),
    "result.parquet": lambda path: results.save(answer(), path, 0.95),
    "result.html": lambda path: results.save(answer(), path, 0.95),
    "result.svg": lambda path: results.save(answer(), path, 0.95),
    "report.txt": lambda path: save_report(privacy_report(zero_exact()), path),
    "curve.png": lambda path: figures.save(
        figures.curve_figure("Curve", {"one": [(0.1, 1e-3), (1.0, 1e-6)]}), path
    ),
}


@pytest.mark.parametrize("name", SAVES)
def test_a_file_is_replaced_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / name
    path.write_text("before")
    with monkeypatch.context() as broken:
        if name.startswith("result"):
            broken.setattr(os, "fsync", full)
        else:
            broken.setattr(Path, "replace", full)
        with pytest.raises(UnreadableData, match="must be a place to write to, got: No space left"):
            SAVES[name](path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
    SAVES[name](path)
    assert path.stat().st_size > 100
    assert list(tmp_path.iterdir()) == [path]


def test_zero_has_no_sign() -> None:
    assert json_text({"value": [-0.0]}) == '{\n  "value": [\n    0.0\n  ]\n}'


def test_permissions_and_links_stay(tmp_path: Path) -> None:
    path, link, dangling = tmp_path / "a.txt", tmp_path / "link.txt", tmp_path / "dangling.txt"
    path.write_text("before")
    path.chmod(0o640)
    link.symlink_to("a.txt")
    dangling.symlink_to("b.txt")
    for place in (link, dangling):
        check_writable(place)
        write_file(place, "after")
        assert place.is_symlink()
        assert place.read_text() == "after"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    umask = os.umask(0o027)
    try:
        write_file(tmp_path / "new.txt", "new")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "new.txt").stat().st_mode) == 0o640
    assert temporary_files(tmp_path) == []


def test_pipes_and_devices_are_written_to_as_they_are(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    check_writable(pipe)  # without a reader
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_file(pipe, "through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    with pytest.raises(UnreadableData, match="No space left"):
        write_file(Path("/dev/full"), "x" * 10**6)
    with pytest.raises(UnreadableData, match="got: a folder"):
        check_writable(tmp_path)


# Answers that were paid for -----------------------------------------------------------------------


@pytest.mark.usefixtures("ledger")
def test_what_cannot_be_saved_is_printed(
    headcount: Headcount, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "r.json").write_text("before")
    monkeypatch.setattr(Path, "replace", full)
    shown = headcount(*PAID, "--out", "r.json")
    assert shown.status == 2
    assert "central.geometric, 2,000 people" in shown.out
    assert "saved" not in shown.out
    said = "headcount: unsaved-answer: the answer could not be saved: 'r.json' must be a place"
    assert shown.err.startswith(said)
    assert shown.err.count("\n") == 1
    document = json.loads(headcount(*PAID, "--out", "r.json", "--json").out)
    assert document["value"] > 0
    assert document["error"]["code"] == "unsaved-answer"
    assert document["error"]["charged"] is True
    assert (tmp_path / "r.json").read_text() == "before"
    assert temporary_files(tmp_path) == []


class Closed:
    """A standard output that cannot be written to."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def write(self, text: str) -> int:
        raise self.error

    def flush(self) -> None:
        raise self.error


@pytest.mark.usefixtures("ledger")
@pytest.mark.parametrize("more", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("saves", ["saved", "unsaved", "cannot"])
def test_what_cannot_be_printed_is_said(
    headcount: Headcount,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    more: list[str],
    saves: str,
) -> None:
    monkeypatch.setattr(sys, "stdout", Closed(OSError(errno.ENOSPC, "No space left on device")))
    if saves == "cannot":
        monkeypatch.setattr(os, "fsync", full)
    shown = headcount(*PAID, *more, *([] if saves == "unsaved" else ["--out", "r.json"]))
    assert shown.status == 2
    *above, last = shown.err.splitlines()
    assert last.startswith("headcount: unwritable: the output could not be written: No space left")
    if saves == "saved":
        assert above == []
        assert last.endswith("the answer is saved in 'r.json'")
        assert json.loads((tmp_path / "r.json").read_text())["users"] == 2000
    else:
        assert json.loads("\n".join(above))["users"] == 2000
        assert last.endswith("the answer is printed above, as JSON")


@pytest.mark.usefixtures("ledger")
@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("a bug")], ids=repr)
def test_whatever_happens_while_it_is_saved_the_answer_is_printed(
    headcount: Headcount, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def broken(*arguments: Any, **more: Any) -> None:
        raise error

    monkeypatch.setattr(results, "save", broken)
    shown = headcount(*PAID, "--out", "r.json", "--json")
    assert json.loads(shown.out)["users"] == 2000
    bug = isinstance(error, RuntimeError)
    assert shown.status == (70 if bug else 2)
    assert shown.err.splitlines()[-1].startswith(f"headcount: {'bug' if bug else 'out-of-memory'}:")


@pytest.mark.parametrize(
    ("signals", "status", "saved"),
    [
        ([signal.SIGINT], 130, True),
        ([signal.SIGTERM], 143, True),
        ([signal.SIGINT, signal.SIGINT], 130, False),
        ([signal.SIGTERM, signal.SIGTERM], 143, False),
    ],
    ids=str,
)
@pytest.mark.parametrize("more", [[], ["--json"]], ids=["text", "json"])
def test_signals_wait_until_it_is_saved_and_printed(
    headcount: Headcount,
    ledger: Callable[[], int],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    signals: list[int],
    status: int,
    saved: bool,
    more: list[str],
) -> None:
    (tmp_path / "r.json").write_text("before")
    real, handler = os.fsync, signal.getsignal(signal.SIGINT)

    def interrupted(file: int) -> None:
        for number in signals:
            signal.raise_signal(number)
        real(file)

    monkeypatch.setattr(os, "fsync", interrupted)
    shown = headcount(*PAID, "--out", "r.json", *more)
    assert shown.status == status
    text = (tmp_path / "r.json").read_text()
    assert text == "before" if not saved else json.loads(text)["users"] == 2000
    assert json.loads(shown.out)["users"] == 2000 if more else "2,000 people" in shown.out
    assert temporary_files(tmp_path) == []
    assert ledger() == 1
    assert signal.getsignal(signal.SIGINT) is handler  # Spark has its own


def test_an_interrupt_after_the_charge_waits_for_the_answer(
    headcount: Headcount, ledger: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return walk(*arguments)

    monkeypatch.setattr("headcount.data.estimate.walk", interrupted)
    shown = headcount(*PAID, "--json")
    assert (shown.status, ledger()) == (130, 1)
    assert json.loads(shown.out)["users"] == 2000
    assert (
        shown.err.splitlines()[-1] == "headcount: interrupted: stopped after the answer was printed"
    )
    unpaid = headcount(*ASKED, "--json")
    assert unpaid.status == 130
    assert json.loads(unpaid.out)["error"]["code"] == "interrupted"


# Nothing that is read is written over ------------------------------------------------------------


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(
    ("arguments", "out", "says"),
    [
        (["ledger", "export", "spent.json"], "spent.json", "a different file from the ledger"),
        (["ledger", "export", "spent.json"], "hard.json", "a different file from the ledger"),
        (["ledger", "export", "spent.json"], "soft.json", "a different file from the ledger"),
        ([*ASKED, "--ledger", "spent.json"], "soft.json", "a different file from the ledger"),
        ([*ASKED, "--ledger", "loop.db"], "new.json", "there must be a ledger at 'loop.db'"),
        (
            ["estimate", "people.parquet", *ASKED[2:]],
            "people.parquet",
            "must not be a file of the data",
        ),
        (
            ["estimate", "people.parquet", *ASKED[2:]],
            "people.html",
            "must not be a file of the data",
        ),
        (["estimate", "folder", *ASKED[2:]], "folder/a.parquet", "must not be a file of the data"),
        (
            ["estimate", "folder", *ASKED[2:]],
            "folder/new.parquet",
            "must not be a file of the data",
        ),
        (
            ["estimate", "folder/*.parquet", *ASKED[2:]],
            "folder/new.parquet",
            "must not be a file of the data",
        ),
        ([*ASKED[:4], "--plan", "plan.json"], "plan.json", "a different file from the plan"),
        (
            ["estimate", "--query", "SELECT smoker FROM 'folder/*.parquet'", "--epsilon", "1"],
            "folder/a.parquet",
            "a different file from the data of the query",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_nothing_that_is_read_is_written_over(
    headcount: Headcount, tmp_path: Path, arguments: list[str], out: str, says: str
) -> None:
    limit = ["--dataset", "town", "--epsilon", "50"]
    assert headcount("ledger", "create", "spent.json", *limit).status == 0
    Path("hard.json").hardlink_to("spent.json")
    Path("soft.json").symlink_to("spent.json")
    Path("loop.db").symlink_to("loop.db")
    Path("people.html").symlink_to("people.parquet")
    Path("folder").mkdir()
    Path("folder/a.parquet").write_bytes(Path("people.parquet").read_bytes())
    hc.plan(hc.Count(), hc.Budget(1), hc.Crowd(2000), trust="central").save("plan.json")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    shown = headcount(*arguments, "--out", out)
    assert (shown.status, shown.out) == (2, "")
    assert says in shown.err
    assert shown.err.count("\n") == 1
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


# A process of its own ----------------------------------------------------------------------------


def run(*arguments: str, **more: Any) -> "subprocess.CompletedProcess[str]":
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    return subprocess.run(
        [sys.executable, "-m", "headcount", *arguments], text=True, check=False, **settings
    )


def test_a_pipe_that_closes_early(ledger: Callable[[], int], tmp_path: Path) -> None:
    outcomes = []
    for more in (["--out", "r.json"], []):
        reading, writing = os.pipe()
        os.close(reading)
        outcomes.append(run(*PAID, *more, stdout=writing))
        os.close(writing)
    saved, unsaved = outcomes
    assert (saved.returncode, saved.stderr) == (0, "")
    assert json.loads((tmp_path / "r.json").read_text())["users"] == 2000
    assert unsaved.returncode == 2
    *above, last = unsaved.stderr.splitlines()
    assert json.loads("\n".join(above))["users"] == 2000
    assert last.startswith("headcount: unwritable: ")
    assert ledger() == 2


def test_a_full_device_and_a_terminal_without_columns(
    ledger: Callable[[], int], tmp_path: Path
) -> None:
    with Path("/dev/full").open("w") as device:
        done = run(*PAID, "--out", "r.json", stdout=device)
    assert done.returncode == 2
    assert done.stderr.endswith("the answer is saved in 'r.json'\n")
    assert done.stderr.count("\n") == 1
    assert json.loads((tmp_path / "r.json").read_text())["users"] == 2000
    narrow = run(*PAID, env={**os.environ, "COLUMNS": "0", "LINES": "²"})
    assert (narrow.returncode, narrow.stderr) == (0, "")
    assert "2,000 people" in narrow.stdout
    assert ledger() == 2


def test_a_file_that_may_not_grow(ledger: Callable[[], int], tmp_path: Path) -> None:
    """A result of about 300 kB, with a limit of 100 kB for every file."""
    (tmp_path / "r.json").write_text("before")
    done = run(
        "estimate", "people.parquet", "--column", "age", "--buckets", "5000", "--epsilon", "1",
        "--ledger", "spent.db", "--out", "r.json",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)),
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "2,000 people" in done.stdout
    assert "'r.json' must be a place to write to, got: File too large" in done.stderr
    assert (tmp_path / "r.json").read_text() == "before"
    assert temporary_files(tmp_path) == []
    assert ledger() == 1


@pytest.mark.slow
def test_killed_at_any_moment_the_old_file_or_the_new_one_is_there(
    ledger: Callable[[], int], tmp_path: Path
) -> None:
    """The process is killed by SIGINT, SIGTERM or SIGKILL. Except after SIGKILL, an answer that was
    charged is saved or printed.
    """
    import random

    chance = random.Random(7)
    for number in [signal.SIGINT, signal.SIGTERM, signal.SIGKILL] * 20:
        (tmp_path / "r.json").write_text("before")
        before = ledger()
        started = subprocess.Popen(
            [sys.executable, "-m", "headcount", *PAID, "--epsilon", "0.5", "--out", "r.json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            out, err = started.communicate(timeout=chance.uniform(0.3, 2.0))
        except subprocess.TimeoutExpired:
            started.send_signal(number)
            out, err = started.communicate()
        text = (tmp_path / "r.json").read_text()
        assert text == "before" or json.loads(text)["users"] == 2000
        if number != signal.SIGKILL:
            assert temporary_files(tmp_path) == []
            assert ledger() == before or text != "before" or "2,000 people" in out, err
        for file in temporary_files(tmp_path):
            file.unlink()


def test_an_answer_does_not_wait_for_the_reader_of_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(UnreadableData, match="a pipe that nobody reads"):
        write_file(tmp_path / "pipe.json", "answer")
