"""How results reach the user: tables and pictures for people, one JSON document for programs."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from headcount.core.estimate import Estimate
from headcount.core.protocol import Protocol
from headcount.core.table import Table
from headcount.core.writing import json_text

console = Console(highlight=False, markup=False)
messages = Console(
    stderr=True, highlight=False, markup=False
)  # progress and remarks: never on standard output


def print_json(document: Mapping[str, Any]) -> None:
    """One JSON document on standard output."""
    print(json_text(document))


def print_table(table: Table) -> None:
    """A table; where a terminal is narrow, without some columns, or a line for each number."""
    if table.title:
        console.print(f"{table.title}\n", soft_wrap=True)
    room = console.width if console.is_terminal or "COLUMNS" in os.environ else sys.maxsize
    shown = table.within(room)
    gone = [column for column in table.columns if column not in shown.columns]
    table = (
        replace(shown, notes=(*shown.notes, f"no room for: {', '.join(gone)}")) if gone else shown
    )
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
    """A bar on the terminal for long work; the block calls what it gets, as (step, share done)."""
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=messages,
        transient=True,
        disable=not messages.is_terminal,
    ) as bar:
        work = bar.add_task(what, total=1.0)

        def step(name: str, share: float) -> None:
            described = what if name == what else f"{what} {name}"
            bar.update(work, description=described, completed=share)

        yield step


def facts(chosen: Protocol) -> dict[str, Any]:
    """What a protocol costs, for JSON."""
    return {
        "parameters": chosen.parameters,
        "messages_per_user": chosen.messages_per_user,
        "bits_per_message": chosen.bits_per_message,
        "local_epsilon": chosen.local_epsilon,
    }


def interval_picture(truth: float, estimates: Sequence[Estimate], width: int) -> str:
    """Intervals as lines of text over one scale; `|` stands at the true answer."""
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
