"""How results reach the user: tables and pictures for people, one JSON document for programs."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from headcount.cli.interrupts import unbroken
from headcount.cli.refusals import description_of
from headcount.core.errors import HeadcountError, UnreadableData
from headcount.core.estimate import Estimate
from headcount.core.protocol import Protocol
from headcount.core.table import Table
from headcount.core.writing import json_text

_WIDEST = 10_000


def _console(*, stderr: bool = False) -> Console:
    """A console of the terminal's size, but with at most `_WIDEST` columns and lines. The setting
    COLUMNS=0 is ignored.
    """
    found = shutil.get_terminal_size()
    width, height = min(found.columns, _WIDEST), min(found.lines, _WIDEST)
    return Console(
        stderr=stderr, highlight=False, markup=False, emoji=False, width=width, height=height
    )


console = _console()
messages = _console(stderr=True)  # progress and remarks: never on standard output


class UnsavedAnswer(UnreadableData):
    """An answer was made, but it could not be saved."""

    code = "unsaved-answer"


class Unwritable(HeadcountError):
    """An answer could not be written to standard output."""

    code = "unwritable"


@dataclass
class StandardOutput:
    """Whether an answer was written to standard output. If so, nothing else may follow."""

    answered: bool = False


standard_output = StandardOutput()


def deliver(
    document: Callable[[], Mapping[str, Any]],
    show: Callable[[Path | None], None],
    *,
    as_json: bool,
    out: Path | None = None,
    save: Callable[[Path], None] = lambda path: None,
    paid: bool = False,
    refusal: HeadcountError | None = None,
) -> None:
    """Save an answer, then print it. With `as_json`, the document is printed as JSON. Otherwise
    `show` prints the answer on the console. `show` is called with the path to which the answer was
    saved, or with None.

    An answer is printed even if it cannot be saved, and the error is raised afterwards. An answer
    must not be lost if `out` is given, or if budget was spent on it (`paid`). If such an answer is
    not saved and cannot be printed, it is written to standard error as JSON, and an error is
    raised. If the reader of a pipe stops early, as `head` does, any other answer is cut off without
    an error. `refusal` is an error that belongs to the answer. It is raised after the answer is
    printed.
    """
    failure: BaseException | None = refusal
    saved = None
    with unbroken() as begin:
        begin()
        if out is not None:
            try:
                save(out)
                saved = out
            except BaseException as error:  # whatever the error is, the answer is printed first
                failure = _unsaved(error) if paid else error
        try:
            sys.stdout.write(_text(document, show, saved, as_json, failure))
            sys.stdout.flush()
            standard_output.answered = True
        except BaseException as error:
            sys.stdout = None  # otherwise Python would write again when it exits
            lost = saved is None and (paid or out is not None)
            if lost:
                print(json_text(document()), file=sys.stderr, flush=True)
            if not isinstance(error, OSError | MemoryError):
                raise
            if lost or not isinstance(error, BrokenPipeError):
                raise Unwritable(_unprinted(error, failure, saved, lost)) from None
    if failure is not None:
        raise failure


def _text(
    document: Callable[[], Mapping[str, Any]],
    show: Callable[[Path | None], None],
    saved: Path | None,
    as_json: bool,
    failure: BaseException | None,
) -> str:
    """The whole output as one string, so that it is written at once."""
    if as_json:
        wrong = {} if failure is None else description_of(failure).to_dict()
        return json_text({**document(), **wrong}) + "\n"
    with console.capture() as captured:
        show(saved)
    return captured.get()


def _unsaved(error: BaseException) -> BaseException:
    """The error for an answer that was paid for and cannot be saved."""
    if not isinstance(error, HeadcountError | OSError):
        return error
    return UnsavedAnswer(
        f"the answer could not be saved: {description_of(error).message}",
        hint="keep the printed answer, since asking again spends budget again",
    )


def _unprinted(
    error: OSError | MemoryError, failure: BaseException | None, saved: Path | None, lost: bool
) -> str:
    reason = getattr(error, "strerror", None) or "no memory left"
    said = [f"the output could not be written: {reason}"]
    if failure is not None:
        said.append(description_of(failure).message)
    if saved is not None:
        said.append(f"the answer is saved in {str(saved)!r}")
    elif lost:
        said.append("the answer is printed above, as JSON")
    return "; ".join(said)


def print_table(table: Table) -> None:
    """Print a table. If the terminal is narrow, leave out some columns, or print each number on a
    line of its own.
    """
    if table.title:
        console.print(f"{table.title}\n", soft_wrap=True)
    room = console.width if console.is_terminal or "COLUMNS" in os.environ else sys.maxsize
    shown = table.within(room)
    gone = [column for column in table.columns if column not in shown.columns]
    left_out = (f"columns left out to fit the width: {', '.join(gone)}",) if gone else ()
    table = replace(shown, notes=(*shown.notes, *left_out))
    if table.width <= room:
        heading, *rows = table.lines()
        console.print(heading, style="bold", soft_wrap=True)
        for row in rows:
            console.print(row, soft_wrap=True)
    else:
        for line in table.narrow_lines():
            console.print(line, soft_wrap=True)
    if table.notes:
        console.print()
    for note in table.notes:
        console.print(note, soft_wrap=not console.is_terminal)


@contextmanager
def progress(what: str) -> Iterator[Callable[[str, float], None]]:
    """Show a progress bar on the terminal. The block gets a function, and calls it with the name of
    a step and the share of the work that is done.
    """
    if not messages.is_terminal or messages.quiet:
        yield lambda name, share: None
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=messages,
        transient=True,
    ) as bar:
        work = bar.add_task(what, total=1.0)

        def step(name: str, share: float) -> None:
            described = what if name == what else f"{what} {name}"
            bar.update(work, description=described, completed=share)

        yield step


def facts(chosen: Protocol) -> dict[str, Any]:
    """The parameters and costs of a protocol, for JSON."""
    return {
        "parameters": chosen.parameters,
        "messages_per_user": chosen.messages_per_user,
        "bits_per_message": chosen.alphabet.bits,
        "local_epsilon": chosen.local_epsilon,
    }


def interval_picture(truth: float, estimates: Sequence[Estimate], width: int) -> str:
    """Intervals as lines of text on one scale. A `|` marks the true answer."""
    intervals = [estimate.interval(0.95) for estimate in estimates]
    low = min(truth, *(interval.low for interval in intervals))
    high = max(truth, *(interval.high for interval in intervals))
    label = max(len(estimate.guarantee.trust) for estimate in estimates)
    cells = max(20, width - label - 3)

    def cell(value: float) -> int:
        share = (value - low) / (high - low) if high > low else 0.5
        return min(cells - 1, max(0, round(share * (cells - 1))))

    lines = []
    for estimate, interval in zip(estimates, intervals, strict=True):
        line = [" "] * cells
        for position in range(cell(interval.low), cell(interval.high) + 1):
            line[position] = "─"
        line[cell(truth)] = "|"
        line[cell(estimate.value)] = "●"
        lines.append(f"{estimate.guarantee.trust:<{label}}  {''.join(line).rstrip()}")
    ends = f"{low:,.0f}".ljust(cells - len(f"{high:,.0f}")) + f"{high:,.0f}"
    return "\n".join([*lines, f"{'':<{label}}  {ends}"])
