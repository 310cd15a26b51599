"""Tables of estimates: a number, the largest buckets of a histogram, or points of a density."""

from dataclasses import replace
from typing import TYPE_CHECKING

from headcount.core.table import Table, number

if TYPE_CHECKING:
    from headcount.core.estimate import Estimate

MOST_ROWS = 20
_MOST_PERIODS = 100  # the largest number of periods, such as months, that a table shows
_LONGEST_BAR = 24  # in characters


def answer_table(
    estimate: "Estimate", confidence: float, *, sampling: bool, simultaneous: bool
) -> Table:
    """The table of an estimate. Its form depends on the task."""
    if estimate.uses.curve:
        table = _density(estimate, confidence, sampling, simultaneous)
    elif estimate.buckets is not None:
        table = _histogram(estimate, confidence, sampling, simultaneous)
    else:
        table = _number(estimate, confidence, sampling)
    warning = estimate.guarantee.warning
    return replace(table, notes=(warning, *table.notes)) if warning else table


def _number(estimate: "Estimate", confidence: float, sampling: bool) -> Table:
    interval, guarantee = estimate.interval(confidence, sampling=sampling), estimate.guarantee
    error, shares = estimate.standard_error, estimate.proportion(interval)
    between = f"{100 * confidence:.10g} % interval{' for the population' * sampling}"
    cells = {
        "trust": str(guarantee.trust),
        "estimate": number(estimate.value, error),
        between: f"{number(interval.low, error)} to {number(interval.high, error)}",
    }
    if shares is not None:
        cells["share of people"] = _percentages(*shares)
    cells["standard error"] = number(error, error)
    if sampling:
        most = ", at most" * (estimate.uses.sampling == "widest")
        drawn = estimate.sampling_error
        cells[f"sampling error{most}"] = number(drawn, drawn)
    cells |= dict(zip(("epsilon", "delta"), guarantee.shown_pair, strict=True))
    dropped = [name for name in cells if name.startswith("sampling error")]
    dropped += [name for name in ("standard error", "share of people") if name in cells]
    return Table(tuple(cells), (tuple(cells.values()),), spare=tuple(dropped))


def _percentages(value: float, low: float, high: float) -> str:
    """A share and its interval in percent. They have more than one decimal place if the interval is
    short.
    """
    error = 100 * (high - low) / 4
    digits = 1.0 if error >= 0.05 else error
    shown, least, most = (number(100 * one, digits) for one in (value, low, high))
    return f"{shown} % ({least} to {most})"


def _histogram(
    estimate: "Estimate", confidence: float, sampling: bool, simultaneous: bool
) -> Table:
    """A row for each bucket, in order. If there are many buckets, only the largest are shown, from
    the largest down. Periods always stay in the order of time, and a table shows more of them.
    """
    interval = estimate.interval(confidence, sampling=sampling, simultaneous=simultaneous)
    place = {bucket: at for at, bucket in enumerate(estimate.buckets or ())}
    between = (
        f"{'simultaneous ' * simultaneous}{100 * confidence:.10g} % interval"
        f"{' for the population' * sampling}"
    )
    most = _MOST_PERIODS if estimate.in_time else MOST_ROWS
    left = len(place) - most
    everything = zip(place, estimate.value, strict=True)
    shown = estimate.largest(most) if left > 0 else [*everything]
    if estimate.in_time:
        shown = sorted(shown, key=lambda one: place[one[0]])
    return Table(
        ("bucket", "estimate", between, "standard error"),
        tuple(
            (
                str(bucket),
                number(value),
                f"{number(interval.low[at])} to {number(interval.high[at])}",
                number(estimate.standard_error[at]),
            )
            for bucket, value in shown
            for at in (place[bucket],)
        ),
        notes=(f"… and {left:,} smaller buckets; `--json` and `value` have all of them",)
        if left > 0
        else (),
    )


def _density(estimate: "Estimate", confidence: float, sampling: bool, simultaneous: bool) -> Table:
    """The density at some points of the grid, with bars."""
    interval = estimate.interval(confidence, sampling=sampling, simultaneous=simultaneous)
    grid = estimate.buckets or ()
    largest = max(float(estimate.value.max()), 1e-300)
    step = (float(grid[-1]) - float(grid[0])) / max(1, len(grid) - 1)
    # Numbers are rounded to two significant digits of the error. An error below a thousandth of the
    # largest density is raised to this size, since it would show too many digits.
    error = max(float(estimate.standard_error.max()), largest / 1000)
    lines = min(MOST_ROWS, len(grid))
    places = [(2 * row + 1) * len(grid) // (2 * lines) for row in range(lines)]
    notes = []
    if sampling or simultaneous:
        kind = "simultaneous intervals" if simultaneous else "intervals at each point"
        notes.append(f"{kind}{' for the population' * sampling}")
    if len(grid) > lines:
        notes.append(f"{lines} of {len(grid)} points; `--json` and `value` have all of them")
    return Table(
        ("at", "density", f"{100 * confidence:.10g} % interval", ""),
        tuple(
            (
                number(float(grid[at]), step),
                number(float(estimate.value[at]), error),
                f"{number(interval.low[at], error)} to {number(interval.high[at], error)}",
                "█" * round(_LONGEST_BAR * max(0.0, float(estimate.value[at])) / largest),
            )
            for at in places
        ),
        words=0,
        bars=True,
        notes=tuple(notes),
    )
