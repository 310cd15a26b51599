"""How results reach the user: tables and pictures for people, one JSON document for programs."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from headcount.core.estimate import Estimate
from headcount.core.guarantee import rounded_up

MOST_ROWS = 20  # of a histogram on the terminal
_BAR = 24  # the length of the longest bar
console = Console(highlight=False)
messages = Console(stderr=True, highlight=False)  # progress and remarks: never on standard output


def print_json(document: Mapping[str, Any]) -> None:
    """One JSON document on standard output. JSON has no infinity: it becomes null."""
    print(json.dumps(_finite(document), indent=2, ensure_ascii=False, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def number(value: float, error: float = 1.0) -> str:
    """A number with two digits of its error; of a large error, one after the point."""
    if value == round(value) or (abs(value) >= 1e6 and error >= 0.5):
        return f"{value:,.0f}"
    places = 1 if error >= 0.5 or not error else min(15, 1 - math.floor(math.log10(error)))
    return f"{value:,.{places}f}"


def print_estimates(
    estimates: Sequence[Estimate], confidence: float, *, sampling: bool = False
) -> None:
    """A table; where it does not fit, a line for each number."""
    between = f"{100 * confidence:.10g} % interval{' of the population' * sampling}"
    columns = ("trust", "estimate", between, "standard error", "epsilon", "delta")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="left" if column == "trust" else "right", no_wrap=True)
    rows = [_cells(estimate, confidence, sampling) for estimate in estimates]
    for row in rows:
        table.add_row(*row)
    if console.measure(table, options=console.options.update(max_width=1000)).maximum <= (
        console.width
    ):
        console.print(table)
        return
    for row in rows:
        for column, cell in zip(columns, row, strict=True):
            console.print(f"{column}: {cell}", soft_wrap=True)


def print_answer(
    estimate: Estimate, confidence: float, *, sampling: bool, simultaneous: bool
) -> None:
    """What fits the kind of answer."""
    if estimate.task == "density":
        _print_density(estimate, confidence, sampling, simultaneous)
    elif estimate.buckets is not None:
        _print_histogram(estimate, confidence, simultaneous)
    else:
        print_estimates([estimate], confidence, sampling=sampling)
        if sampling:
            console.print(f"sampling error: {number(*[estimate.sampling_error] * 2)} at most")


def _print_density(
    estimate: Estimate, confidence: float, sampling: bool, simultaneous: bool
) -> None:
    """Some points of the grid, with bars."""
    interval = estimate.interval(confidence, sampling=sampling, simultaneous=simultaneous)
    grid = estimate.buckets or ()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("at", "density", f"{100 * confidence:.10g} % interval"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("")
    largest = max(float(estimate.value.max()), 1e-300)
    step = (float(grid[-1]) - float(grid[0])) / max(1, len(grid) - 1)
    # Two digits of the error, but no more than tell the densities themselves apart.
    error = max(float(estimate.standard_error.max()), largest / 1000)
    for row in range(min(MOST_ROWS, len(grid))):
        at = (2 * row + 1) * len(grid) // (2 * min(MOST_ROWS, len(grid)))
        bar = "█" * round(_BAR * max(0.0, float(estimate.value[at])) / largest)
        table.add_row(
            number(float(grid[at]), step),
            number(float(estimate.value[at]), error),
            f"{number(interval.low[at], error)} to {number(interval.high[at], error)}",
            bar,
        )
    console.print(table)
    if sampling or simultaneous:
        where = "everywhere at once" if simultaneous else "at each point"
        console.print(f"intervals{' of the population' * sampling}, {where}")
    if len(grid) > MOST_ROWS:
        console.print(f"{MOST_ROWS} of {len(grid)} points: see --json for all")


def _print_histogram(estimate: Estimate, confidence: float, simultaneous: bool) -> None:
    """The largest buckets, and what holds for all of them."""
    interval = estimate.interval(confidence, simultaneous=simultaneous)
    place = {bucket: at for at, bucket in enumerate(estimate.buckets or ())}
    table = Table(box=None, pad_edge=False, header_style="bold")
    between = f"{100 * confidence:.10g} % interval{', all at once' * simultaneous}"
    for column in ("bucket", "estimate", between, "standard error"):
        table.add_column(column, justify="left" if column == "bucket" else "right", no_wrap=True)
    for bucket, value in estimate.largest(MOST_ROWS):
        at = place[bucket]
        table.add_row(
            str(bucket),
            number(value),
            f"{number(interval.low[at])} to {number(interval.high[at])}",
            number(estimate.standard_error[at]),
        )
    console.print(table)
    if len(place) > MOST_ROWS:
        console.print(f"… and {number(len(place) - MOST_ROWS)} smaller buckets: see --json")


def _cells(estimate: Estimate, confidence: float, sampling: bool) -> tuple[str, ...]:
    interval, guarantee = estimate.interval(confidence, sampling=sampling), estimate.guarantee
    error = estimate.standard_error
    return (
        guarantee.trust,
        number(estimate.value, error),
        f"{number(interval.low, error)} to {number(interval.high, error)}",
        number(error, error),
        rounded_up(guarantee.epsilon),
        rounded_up(guarantee.delta),
    )


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
