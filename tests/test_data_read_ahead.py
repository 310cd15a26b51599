"""Text files are read ahead in a thread, which has stopped before the program ends."""

import subprocess
import sys
from pathlib import Path
from time import sleep

import pytest
from pyarrow import ArrowInvalid, csv

import headcount as hc
from headcount.data.read_ahead import ReadAhead, Text

# A process aborts if a thread calls Python while the interpreter shuts down. Slow reads make this
# certain instead of rare.
SLOW = """
import sys, time
from headcount.data import read_ahead
import headcount as hc

plain = read_ahead.Text.read

def slow(self, size):
    time.sleep(0.1)
    return plain(self, size)

read_ahead.Text.read = slow
"""
ASK = "hc.estimate(sys.argv[1], hc.Count(), column='v', budget=hc.Budget(1))"
ENDS = {
    "uncaught": (ASK, 1),
    "caught": (f"try:\n    {ASK}\nexcept hc.HeadcountError as refusal:\n    kept = refusal", 0),
    "unread": (
        "from headcount.data.sources import rows_of\n"
        "batches = rows_of(sys.argv[1]).batches(['v'], {})\n"
        "next(batches)",
        0,
    ),
}


@pytest.mark.parametrize("kind", ["csv", "json"])
@pytest.mark.parametrize("end", ENDS)
def test_a_program_ends_cleanly_while_a_file_is_read(tmp_path: Path, kind: str, end: str) -> None:
    path, (program, status) = tmp_path / f"words.{kind}l", ENDS[end]
    if kind == "csv":
        path = tmp_path / "words.csv"
        path.write_text("v\n" + "word\n" * 60_000)
    else:
        path.write_text('{"v": "word"}\n' * 60_000)
    command = [sys.executable, "-c", SLOW + program, str(path)]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert found.returncode == status, found.stderr
    assert "Fatal" not in found.stderr
    assert "terminate" not in found.stderr


class Endless:
    """A text without an end."""

    reads, row = 0, b"word\n"

    def read(self, size: int) -> bytes:
        self.reads += 1
        return self.row * (size // len(self.row))


def test_a_reader_that_rests_is_stopped() -> None:
    """Arrow's thread rests while many batches wait. If they are taken, it must not read on."""
    endless = Endless()
    text = Text(endless)
    with ReadAhead(csv.open_csv(text), text) as found:
        next(iter(found))
        before = 0
        while before != endless.reads:
            before = endless.reads
            sleep(0.1)
        assert before > 3
    sleep(0.1)
    assert endless.reads == before


def test_damage_ends_the_reading() -> None:
    endless = Endless()
    text = Text(endless)
    with ReadAhead(csv.open_csv(text), text) as found:
        next(iter(found))
        endless.row = b"a,b\n"
        with pytest.raises(ArrowInvalid):
            list(found)
    assert text.read(3) == b""


def test_nobody_waits_forever_for_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read of a pipe may never return."""
    monkeypatch.setattr("headcount.data.read_ahead._PATIENCE", 0.05)
    text = Text(Endless())
    text.end()
    text.wait()


def test_empty_lines_are_people_only_in_a_single_column(tmp_path: Path) -> None:
    """Elsewhere, an empty line is no row, as in other programs. Quoted values keep empty lines."""
    path = tmp_path / "people.csv"
    for line in ("\n", "\r\n"):
        lines = ["age,note", "1,x", "", '2,"y', "", 'z"', "3,", "", ""]
        path.write_bytes(line.join(lines).encode())
        found = hc.estimate(path, hc.Sum(0, 3), column="age", budget=hc.Budget(500))
        assert (found.users, round(float(found.value))) == (3, 6)
        path.write_bytes(line.join(["age", "1", "", "2", ""]).encode())
        with pytest.raises(hc.InvalidValue, match="got none for person 2"):
            hc.estimate(path, hc.Sum(0, 3), column="age", budget=hc.Budget(500))
