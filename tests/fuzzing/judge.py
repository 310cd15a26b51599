"""Judgments about a run, from its streams, its status and its files only.

Every judgment is a sentence about something wrong. If there is none, all is well.
"""

import csv
import io
import json
import os
import re
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from pyarrow import parquet

from fuzzing.lines import Line
from fuzzing.runs import Ended
from fuzzing.zoo import Change, Zoo

DONE, REFUTED, BAD, INFEASIBLE, EXHAUSTED, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 4, 130, 143
DOCUMENTED = (DONE, REFUTED, BAD, INFEASIBLE, EXHAUSTED, INTERRUPTED, TERMINATED)
ANSWERED = (DONE, REFUTED)
_TRACES = (
    "Traceback (most recent call last)", "Exception ignored", "Fatal Python error", "core dumped",
    "terminate called",
)  # fmt: skip
_WARNING = re.compile(r"\b[A-Z]\w*Warning\b")
_LOGGED = re.compile(r"\d{4}-\d\d-\d\d [\d:,]+ headcount[\w.]* (INFO|WARNING): ")
_CAUTION = re.compile(
    r"headcount: ([δε] = \S+ is large: |shuffling gains nothing |DuckDB guesses the types )"
)
_NOISE = re.compile(r"<class |<function |Errno|0x[0-9a-fA-F]{6,}| object at ")
_CHATTER = "chatter"  # what an audited function prints


def judged(line: Line, ended: Ended, zoo: Zoo) -> list[str]:
    """Judgments about a run without faults."""
    wrong = [*streams(line, ended)]
    if ended.hung:
        return wrong
    changes = zoo.changes()
    answered = ended.status in ANSWERED and not line.asks_help
    wrong += _files(line, zoo, changes, answered=answered, failed=not answered)
    wrong += _ledgers(line, ended, zoo, changes)
    return wrong


def streams(line: Line, ended: Ended, *, lost: bool = False) -> Iterator[str]:
    """Judgments about status and text. If a stream was `lost`, it may be empty."""
    if ended.hung:
        yield f"hangs: {_innermost(ended.place)}"
        return
    if ended.left:
        yield "processes are left behind"
    if ended.status not in (*DOCUMENTED, -signal.SIGINT):  # of which a shell says 130
        yield f"status {ended.status} is not documented"
    if ended.status == REFUTED and line.words != ("audit",):
        yield "status 1, which only audits have"
    out, err = _text(ended.out), _text(ended.err)
    leaks = [*_leaks("output", out), *_leaks("error", err)]
    yield from leaks
    if leaks:
        return
    said = [one for one in err.splitlines() if one != _CHATTER and not _CAUTION.match(one)]
    if "--verbose" in line.typed:
        said = [one for one in said if not _LOGGED.match(one)]
    yield from _refusals(said)
    if lost:
        return
    yield from _said(ended.status, out, said)
    if "--json" in line.typed and not line.asks_help:
        yield from _json(out, ended.status)


def _leaks(name: str, text: str) -> Iterator[str]:
    """Text that Python writes for programmers."""
    for trace in _TRACES:
        if trace in text:
            yield f"{trace!r} on standard {name}: {_last_line(text)}"
            return
    if found := _WARNING.search(text):
        yield f"a warning on standard {name}: {found.group()}"


def _refusals(said: list[str]) -> Iterator[str]:
    for refusal in said:
        if found := _NOISE.search(refusal):
            yield f"noise in a refusal, {found.group()!r}: {refusal[:300]}"
        if not refusal.isprintable():
            yield f"characters that a terminal obeys in a refusal: {refusal[:200]!r}"


def _said(status: int, out: str, said: list[str]) -> Iterator[str]:
    """An answer stands alone, and a failure is one line."""
    if status in ANSWERED and not out.strip():
        yield "an answer that says nothing"
    if status == DONE and said:
        yield f"standard error of a success: {said[0][:200]}"
    most = 1 if status != DONE else 0
    least = 1 if status > REFUTED else 0
    ours = all(one.startswith("headcount: ") for one in said)
    if status != DONE and not (least <= len(said) <= most and ours):
        first = f": {said[0][:200]}" if said else ""
        yield f"a failure must say one line, and said {len(said)}{first}"


def _json(out: str, status: int) -> Iterator[str]:
    if status not in ANSWERED and not out:
        return
    try:
        document = json.loads(out, parse_constant=_no_number, parse_float=_number)
    except ValueError as error:
        yield f"standard output is not one JSON document: {error}; {out[:80]!r}"
        return
    if not isinstance(document, dict):
        yield f"standard output is JSON, but no object: {out[:80]!r}"


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def _number(text: str) -> float:
    if abs(float(text)) == float("inf"):
        raise ValueError(f"{text} is no finite number")
    return float(text)


def _files(
    line: Line, zoo: Zoo, changes: list[Change], *, answered: bool, failed: bool
) -> Iterator[str]:
    """Only requested files are written, and they are complete."""
    out = line.value("--out")
    may = may_change(line, zoo)
    for change in changes:
        if change.path not in may and not _in_cache(line, change.path):
            yield f"{change.what}: {change.path!r}"
    if out is None:
        return
    touched = [change for change in changes if change.path in out_paths(line, zoo)]
    if failed and touched:
        yield f"a failure that leaves its output {touched[0].what}"
    if answered:
        if os.path.realpath(zoo.box / out) in _inputs(line, zoo):
            yield f"an output over an input: {out!r}"
        yield from incomplete(zoo.box / out)


def incomplete(place: Path) -> Iterator[str]:
    """Why the content of a file does not match its suffix, from the first to the last byte."""
    if place.is_char_device() or place.is_fifo():
        return  # devices take an answer and keep nothing of it
    if not place.is_file():
        yield f"no output at {place.name!r}"
        return
    content = place.read_bytes()
    suffix = place.suffix.lower()
    try:
        good = _complete(suffix, content)
    except (ValueError, OSError) as error:
        yield f"the output is not readable as {suffix}: {error}"
        return
    if not good:
        yield f"the output is not a whole {suffix}: it ends in {content[-30:]!r}"


def _complete(suffix: str, content: bytes) -> bool:
    if suffix == ".json":
        json.loads(content, parse_constant=_no_number, parse_float=_number)
        return True
    if suffix == ".parquet":
        parquet.read_table(io.BytesIO(content))
        return True
    if suffix == ".csv":
        rows = list(csv.reader(io.StringIO(content.decode(), newline="")))
        return content.endswith(b"\n") and len({len(row) for row in rows}) == 1
    ends = {
        ".html": (b"<", b"</html>"), ".svg": (b"<svg", b"</svg>"), ".pdf": (b"%PDF", b"%%EOF"),
        ".png": (b"\x89PNG", b"IEND\xaeB`\x82"), ".txt": (b"", b""),
    }  # fmt: skip
    begins, closes = ends[suffix]
    return bool(content) and content.startswith(begins) and content.rstrip().endswith(closes)


def may_change(line: Line, zoo: Zoo) -> set[str]:
    """The files that a line may write, with names relative to the folder of commands."""
    may = out_paths(line, zoo)
    if (book := book_of(line)) is not None:
        may |= _names(book, zoo)
    if line.words == ("demo",) and not line.has("--out"):
        may.add("headcount-demo.png")
    if line.words == ("survey", "new") and not line.has("--out"):
        may.add("survey.toml")
    return may


def out_paths(line: Line, zoo: Zoo) -> set[str]:
    out = line.value("--out")
    return set() if out is None else _names(out, zoo)


def _names(place: str, zoo: Zoo) -> set[str]:
    """A place, and the target of its link."""
    path = zoo.box / place
    return {os.path.relpath(one, zoo.box) for one in (path, os.path.realpath(path))}


def book_of(line: Line) -> str | None:
    """The ledger that a line may write to."""
    if line.words == ("ledger", "create"):
        return line.arguments[0] if line.arguments else None
    return line.value("--ledger")


def _inputs(line: Line, zoo: Zoo) -> set[str]:
    """The files that a line reads, as real paths."""
    named = [
        *line.arguments,
        *(value for flag, value in line.options if flag in ("--plan", "--ledger")),
    ]
    return {os.path.realpath(zoo.box / one) for one in named if one}


def _in_cache(line: Line, path: str) -> bool:
    cache = line.environment.get("HEADCOUNT_CACHE")
    if cache is None:
        return False
    places = ("../home/.cache",) if cache == "" else (cache, cache.split("/")[0])
    return any(path == one or path.startswith(f"{one}/") for one in places)


def _ledgers(line: Line, ended: Ended, zoo: Zoo, changes: list[Change]) -> Iterator[str]:
    """An answer is charged once, and nothing else is charged."""
    book = book_of(line)
    if book is None:
        return
    written = [change for change in changes if change.path in _names(book, zoo)]
    if line.words == ("ledger", "create"):
        if written and ended.status != DONE:
            yield f"a failure that leaves a ledger {written[0].what}"
        return
    charges = charged(line, zoo)
    if charges is None:
        return
    if written and charges == 0:
        yield "a ledger that was changed without a charge"
    if charges not in (0, 1):
        yield f"{charges} charges for one answer"
    if charges and ended.status not in ANSWERED and not answer_shown(ended):
        yield "charged without an answer"
    if (
        line.words == ("estimate",)
        and ended.status in ANSWERED
        and not line.asks_help
        and not charges
    ):
        yield "an answer that was not charged"


def answer_shown(ended: Ended) -> bool:
    """Whether one of the streams shows the answer of an estimate."""
    return any("estimate" in text or '"value"' in text or '"groups"' in text
               for text in (_text(ended.out), _text(ended.err)))  # fmt: skip


def charged(line: Line, zoo: Zoo) -> int | None:
    """The number of entries added to the line's ledger. None if it has no intact ledger."""
    book = book_of(line)
    if book is None:
        return None
    place = Path(os.path.realpath(zoo.box / book))
    before = zoo.things.get(os.path.relpath(place, zoo.box))
    if before is None or before.kind != "file":
        return None
    old = entries(before.content)
    now = entries(place.read_bytes()) if place.is_file() else None
    if old is None:
        return None
    if now is None or now[: len(old)] != old:
        return -1
    return len(now) - len(old)


def entries(content: bytes) -> list[Any] | None:
    """The entries of a ledger, read by SQLite alone. None if it is not a ledger."""
    if not content:
        return None
    try:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.deserialize(content)
            return list(connection.execute("SELECT * FROM entries ORDER BY rowid"))
    except sqlite3.Error:
        return None


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def _last_line(text: str) -> str:
    return ([one for one in text.splitlines() if one.strip()] or [""])[-1][:300]


def _innermost(place: str) -> str:
    found = [one.strip() for one in place.splitlines() if one.strip().startswith("File")]
    return next((one for one in found if "headcount" in one), found[0] if found else "no place")
