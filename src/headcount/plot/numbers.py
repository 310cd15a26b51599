"""Draws single numbers with their intervals, such as a count for each group."""

from collections.abc import Mapping
from typing import Any

from headcount.core.estimate import Estimate
from headcount.core.table import number
from headcount.plot.palette import trust_color
from headcount.plot.style import (
    GRID,
    TEXT_SIZE,
    WIDTH,
    Axis,
    Figure,
    estimate_title,
    finish,
    load_altair,
    rows,
)

_ROW = 40  # the height of a row, in pixels


def numbers_figure(
    estimates: Mapping[Any, Estimate],
    confidence: float,
    *,
    group: str = "",
    sampling: bool = False,
    simultaneous: bool = False,
) -> Figure:
    """A figure of numbers as dots with intervals. It has a row for each group. Without groups, it
    has one row.
    """
    alt = load_altair()
    dots: list[dict[str, Any]] = []
    for name, estimate in estimates.items():
        interval = estimate.interval(confidence, sampling=sampling, simultaneous=simultaneous)
        dots.append(
            {
                "row": str(name) if group else estimate.task,
                "x": float(estimate.value),
                "low": float(interval.low),
                "high": float(interval.high),
                "says": number(estimate.value, estimate.standard_error),
            }
        )
    one = next(iter(estimates.values()))
    whose = " of the population" * sampling
    title = f"{one.task} ({100 * confidence:.10g} % intervals{whose})"
    x = Axis.of(title, [dot[end] for dot in dots for end in ("x", "low", "high")], log=False)
    listed = [dot["row"] for dot in dots]
    y = alt.Y(
        "row", type="nominal", title=group or None, sort=listed, axis=alt.Axis(gridColor=GRID)
    )
    told = [x.tooltip("x", "estimate"), x.tooltip("low", "from"), x.tooltip("high", "to")]
    data = alt.Chart(rows(dots))
    color = trust_color(one.guarantee.trust)
    chart = alt.layer(
        data.mark_rule(strokeWidth=3, color=color, clip=True).encode(
            x=x.channel("x", "low"), x2="high", y=y
        ),
        data.mark_point(filled=True, size=70, color=color, clip=True).encode(
            x=x.channel("x", "x"), y=y, tooltip=told
        ),
        data.mark_text(dy=-13, fontSize=TEXT_SIZE - 2).encode(
            x=x.channel("x", "x"), y=y, text=alt.Text("says", type="nominal")
        ),
    ).properties(width=WIDTH, height=_ROW * (len(dots) + 1))
    people = sum(estimate.users for estimate in estimates.values())
    return finish(chart, estimate_title(one.task.capitalize(), one, people))
