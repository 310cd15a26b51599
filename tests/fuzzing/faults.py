"""Full disks, limits on files, broken pipes and signals, at every write."""

import errno
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from fuzzing import judge
from fuzzing.lines import Line
from fuzzing.runs import Ended, Fault, Nursery, Run, Stream
from fuzzing.zoo import Zoo

JSON: tuple[str, str | None] = ("--json", None)
_SPENDING = (("--column", "smoker"), ("--epsilon", "0.5"), ("--ledger", "spent.db"))
_LEDGER = (("--dataset", "others"), ("--epsilon", "1"))
_PLAN = (("--users", "240"), ("--epsilon", "1"), ("--trust", "local"), ("--out", "old.json"))
CHARGING = tuple(
    Line(("estimate",), ("people.csv",), (*_SPENDING, *more))
    for more in (
        (),
        (JSON,),
        (("--out", "new.json"),),
        (("--out", "old.json"), JSON),
        (("--out", "new.parquet"),),
        (("--out", "old.html"),),
    )
)
WRITING = (
    *CHARGING,
    Line(("ledger", "create"), ("fresh.db",), _LEDGER),
    Line(("ledger", "create"), ("spent.db",), _LEDGER),
    *(
        Line(("ledger", "export"), ("spent.db",), (("--out", out),))
        for out in ("old.json", "new.csv", "new.parquet")
    ),
    Line(("plan",), ("count",), _PLAN),
    *(
        Line(
            ("audit",),
            ("local.randomized-response",),
            (("--epsilon", "1"), ("--report", None), ("--out", out)),
        )
        for out in ("new.txt", "old.html")
    ),
    Line(
        ("curve",),
        ("local.randomized-response",),
        (("--epsilon", "1"), ("--users", "8"), ("--out", "new.png")),
    ),
)
FULL, BROKEN = errno.ENOSPC, errno.EIO
UNANSWERED = "charged without an answer"
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def built_shim(folder: Path) -> Path:
    """The library that makes system calls fail."""
    place = folder / "shim.so"
    source = Path(__file__).with_name("shim.c")
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-o", str(place), str(source), "-ldl"], check=True
    )
    return place


def at_every_write(
    nest: Nursery, zoo: Zoo, line: Line, *, error: int = 0, ending: int = 0, lasting: bool = True
) -> Iterator[tuple[int, list[str]]]:
    """What is wrong with each fault: at the first write, at the second, and so on, until no write
    is left.
    """
    for at in range(1, 1000):
        ended = _run(nest, zoo, line, fault=Fault(at, error, ending, lasting))
        yield at, faulted(nest, zoo, line, ended, ending=ending)
        if not ended.struck:
            return
    raise AssertionError(f"{line} does not end")


def under_limits(nest: Nursery, zoo: Zoo, line: Line, sizes: Sequence[int]) -> Iterator[
    tuple[int, list[str]]
]:  # fmt: skip
    """What is wrong if no file may grow beyond each of these sizes."""
    for size in sizes:
        ended = _run(nest, zoo, line, file_size=size, stdout="piped", stderr="piped")
        yield size, faulted(nest, zoo, line, ended)


def without_stream(
    nest: Nursery, zoo: Zoo, line: Line, *, stdout: Stream = "kept", stderr: Stream = "kept",
    fresh: bool = False,
) -> list[str]:  # fmt: skip
    """What is wrong if a stream is full, closed or broken."""
    ended = _run(nest, zoo, line, stdout=stdout, stderr=stderr, fresh=fresh)
    wrong = faulted(nest, zoo, line, ended, lost=True, keep=True)
    if stdout == "pipe-one-line" and ended.status == judge.DONE:
        # The pipe took all of it before its reader left: nobody can know.
        wrong = [one for one in wrong if one != UNANSWERED]
    if stdout in ("full", "closed") and ended.status == judge.DONE:
        wrong.append("a success whose output is lost")
    if stderr == "kept" and ended.status > judge.REFUTED and not ended.err:
        wrong.append("a failure that says nothing")
    zoo.tidy()
    return wrong


def interrupted(
    nest: Nursery, zoo: Zoo, line: Line, seconds: float, ending: int, *, fresh: bool = True
) -> list[str]:
    """What is wrong after a signal that comes after some seconds."""
    ended = _run(nest, zoo, line, after=(seconds, ending), fresh=fresh)
    return faulted(nest, zoo, line, ended, ending=ending)


def _run(nest: Nursery, zoo: Zoo, line: Line, **settings: object) -> Ended:
    run = Run(line.typed, str(zoo.box), zoo.environment(**line.environment))
    return nest.run(run._replace(**settings))  # type: ignore[arg-type]


def faulted(
    nest: Nursery, zoo: Zoo, line: Line, ended: Ended, *, ending: int = 0, lost: bool = False,
    keep: bool = False,
) -> list[str]:  # fmt: skip
    """What is wrong after a fault: with the messages, the files and the ledger."""
    killed = ending in (signal.SIGTERM, signal.SIGKILL) and ended.status == -ending
    wrong = (
        ["processes are left behind"] * ended.left
        if killed
        else [*judge.streams(line, ended, lost=lost or bool(ending))]
    )
    wrong += _ledger_is_whole(nest, zoo, line, failed=ended.status != judge.DONE)
    changes = zoo.changes()
    may = judge.may_change(line, zoo)
    if not killed:  # a killed process cannot clean up
        wrong += [f"{one.what}: {one.path!r}" for one in changes if one.path not in may]
    saved = False
    out = line.value("--out")
    if out is not None and any(one.path in judge.out_paths(line, zoo) for one in changes):
        unsaved = [*judge.incomplete(zoo.box / out)]
        wrong += unsaved
        saved = not unsaved
    charges = judge.charged(line, zoo)
    if charges not in (None, 0, 1):
        wrong.append(f"{charges} charges for one answer")
    # A disk that fails at the last sync of a charge: nothing may be released then.
    told = b"nothing was released, but the charge is recorded" in ended.err
    answered = saved or judge.answer_shown(ended) or told
    if charges and not ending and not answered:
        wrong.append(UNANSWERED)
    if ended.status == judge.DONE and out is not None and not saved:
        wrong.append("a success that did not save")
    if not keep:
        zoo.tidy()
    return wrong


def _ledger_is_whole(nest: Nursery, zoo: Zoo, line: Line, *, failed: bool) -> list[str]:
    """The next process can read the ledger. If a new ledger could not be made, the same line can
    make it. An empty file must stay, since another process may be making the ledger.
    """
    book = judge.book_of(line)
    if book is None or not os.path.lexists(zoo.box / book):
        return []
    shown = _run(nest, zoo, Line(("ledger", "show"), (book,)))
    if failed and shown.status != judge.DONE and book not in zoo.things:
        shown = _run(nest, zoo, line)
    return [] if shown.status == judge.DONE else [f"a ledger that cannot be read: {shown.err!r}"]
