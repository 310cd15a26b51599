"""Figures of distributions and quantiles."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from headcount.core.distribution import (
    QUARTILES,
    DistributionEstimate,
    quantile_name,
)
from headcount.core.estimate import Estimate, Interval
from headcount.core.quantiles import QuantilesEstimate
from headcount.core.table import counted
from headcount.plot.palette import markers, trust_color, trust_shades
from headcount.plot.style import (
    GRAY,
    GRID,
    HEIGHT,
    INK,
    TEXT_SIZE,
    WIDTH,
    Axis,
    Figure,
    axis_name,
    estimate_title,
    finish,
    legend,
    load_altair,
    rows,
    zoom,
)

_ROW = 52  # the height of a row of dots, in pixels
_LETTER = 6.5  # the width of a digit in the text at a dot, in pixels
_ROOM = 0.65  # up to this share of the axis, there is room for a name to the right of a dot
_MOST_POINTS = 2048  # a curve is drawn through at most this many edges


def distribution_figure(
    estimate: DistributionEstimate,
    confidence: float,
    *,
    sampling: bool = False,
    simultaneous: bool = False,
) -> Figure:
    """A figure of the share of people below each number, with a confidence band. It also shows the
    quartiles with intervals.
    """
    alt = load_altair()
    band = estimate.interval(confidence, sampling=sampling, simultaneous=simultaneous)
    edges = _places(estimate, np.asarray(estimate.edges))
    whose = " of the population" * sampling + ", everywhere at once" * simultaneous
    steps = " and ".join(estimate.postprocessing)
    line = f"{estimate.protocol}, post-processed: {steps}" if steps else estimate.protocol
    label = f"{100 * confidence:.10g} % band{whose}"
    # Where unbiased estimates are outside the band, the curve follows the nearest end of the band.
    inside = np.clip(estimate.value, band.low, band.high)
    outside = int(np.count_nonzero(inside != estimate.value))
    shares = np.concatenate([[0.0], inside, [1.0]])
    low, high = (np.concatenate([[0.0], end, [1.0]]) for end in (band.low, band.high))
    shown = np.unique(np.linspace(0, len(edges) - 1, min(len(edges), _MOST_POINTS)).astype(int))
    curve = [
        {
            "line": line,
            "band": label,
            "x": float(edges[at]),
            "share": float(shares[at]),
            "low": float(low[at]),
            "high": float(high[at]),
        }
        for at in shown
    ]
    quartiles = [_quantile(estimate, share, confidence, sampling=sampling) for share in QUARTILES]
    dates = estimate.calendar is not None
    x = Axis(axis_name(estimate), float(edges[0]), float(edges[-1]), log=False, dates=dates)
    y = Axis("share of people below", -0.02, 1.02, log=False)

    def key(channel: type[Any], field: str, **symbol: Any) -> Any:
        scale = alt.Scale(range=[trust_color(estimate.guarantee.trust)])
        shown = legend([field], WIDTH, symbolSize=150, **symbol)
        return channel(field, type="nominal", scale=scale, legend=shown)

    data, marks = alt.Chart(rows(curve)), alt.Chart(rows(quartiles))
    across = x.channel("x", "x")
    told = [
        alt.Tooltip("name", type="nominal", title=" "),
        x.tooltip("x", "estimate"),
        x.tooltip("low", "from"),
        x.tooltip("high", "to"),
    ]
    # The name of a quartile is to the lower right or to the upper left of its dot. The curve rises,
    # so the name does not cover the curve. Names near the right end are on the left, so that they
    # stay within the panel.
    right = f"datum.x < {x.low + _ROOM * (x.high - x.low)}"
    beside: dict[str, Any] = {
        "fontSize": TEXT_SIZE,
        "align": alt.expr(f"{right} ? 'left' : 'right'"),
        "dx": alt.expr(f"{right} ? 12 : -12"),
        "dy": alt.expr(f"{right} ? 14 : -14"),
        "clip": True,
    }
    words = marks.encode(x=across, y=y.channel("y", "share"), text=alt.Text("says", type="nominal"))
    chart = alt.layer(
        data.mark_area(opacity=0.25, clip=True)
        .encode(
            x=across,
            y=y.channel("y", "low"),
            y2="high",
            fill=key(alt.Fill, "band", symbolType="square", symbolStrokeWidth=0),
        )
        .add_params(zoom("zoom")),
        data.mark_line(strokeWidth=1.5, strokeJoin="round", clip=True).encode(
            x=across,
            y=y.channel("y", "share"),
            stroke=key(alt.Stroke, "line", symbolType="stroke"),
        ),
        marks.mark_rule(color=GRAY, strokeDash=[2, 3], strokeWidth=1, clip=True).encode(
            x=across, y=y.channel("y", "zero"), y2="share"
        ),
        marks.mark_rule(color=INK, strokeWidth=3, clip=True).encode(
            x=x.channel("x", "low"), x2="high", y=y.channel("y", "share")
        ),
        marks.mark_point(color=INK, filled=True, size=70, opacity=1, clip=True).encode(
            x=across, y=y.channel("y", "share"), tooltip=told
        ),
        words.mark_text(**beside, stroke="white", strokeWidth=4, aria=False),
        words.mark_text(**beside, color=INK),
    ).properties(width=WIDTH, height=HEIGHT)
    estimates = f"{outside:,} of {counted(len(inside), 'estimate')}"
    remark = f"{estimates} outside the band; the line stays within it" if outside else ""
    return finish(chart, estimate_title("Distribution", estimate), remark)


def quantiles_figure(
    estimates: Mapping[Any, Estimate],
    confidence: float,
    *,
    group: str = "",
    sampling: bool = False,
    simultaneous: bool = False,
) -> Figure:
    """A figure of quantiles as dots with intervals, with a row for each group.

    Without groups, `estimates` has one estimate, and each quantile has its own row.
    """
    alt = load_altair()
    kind = {"sampling": sampling, "simultaneous": simultaneous}
    dots: list[dict[str, Any]] = []
    for name, estimate in estimates.items():
        assert isinstance(estimate, QuantilesEstimate)
        interval = estimate.interval(confidence, **kind)
        for share, value, low, high in zip(
            estimate.shares,
            *(np.atleast_1d(one) for one in (estimate.value, interval.low, interval.high)),
            strict=True,
        ):
            dot = _dot(estimate, share, value, Interval(low, high, confidence))
            dots.append({"row": str(name) if group else dot["name"], **dot})
    names = list(dict.fromkeys(dot["name"] for dot in dots))
    listed = list(dict.fromkeys(dot["row"] for dot in dots))
    whose = " of the population" * sampling + ", all at once" * simultaneous
    first = next(iter(estimates.values()))
    title = f"{axis_name(first)} ({100 * confidence:.10g} % intervals{whose})"
    x = Axis.of(title, [dot[end] for dot in dots for end in ("x", "low", "high")], log=False)
    x = replace(x, dates=getattr(first, "calendar", None) is not None)
    row = alt.Y(
        "row", type="nominal", title=group or None, sort=listed, axis=alt.Axis(gridColor=GRID)
    )
    # Without groups, each quantile has its own row, so all quantiles have the same color and shape.
    palette = trust_shades(first.guarantee.trust, len(names) if group else 1)
    signs = markers(names) if group else markers(names[:1])
    shown = legend(names, WIDTH) if group and len(names) > 1 else None
    _keep_apart(dots, WIDTH / (x.high - x.low))
    color, shape = (
        channel("name", type="nominal", legend=shown, scale=alt.Scale(domain=names, range=range_))
        for channel, range_ in ((alt.Color, palette), (alt.Shape, signs))
    )
    data = alt.Chart(rows(dots))
    words = data.encode(x=x.channel("x", "x"), y=row, text=alt.Text("says", type="nominal"))
    text = {"fontSize": TEXT_SIZE - 2, "clip": False, "color": INK}
    told = [
        alt.Tooltip("row", type="nominal", title=" "),
        alt.Tooltip("name", type="nominal", title="quantile"),
        x.tooltip("x", "estimate"),
        x.tooltip("low", "from"),
        x.tooltip("high", "to"),
    ]
    chart = alt.layer(
        data.mark_rule(strokeWidth=3, clip=True)
        .encode(x=x.channel("x", "low"), x2="high", y=row, color=color)
        .add_params(zoom("zoom")),
        data.mark_point(filled=True, size=70, opacity=1, clip=True).encode(
            x=x.channel("x", "x"), y=row, color=color, shape=shape, tooltip=told
        ),
        words.transform_filter("!datum.under").mark_text(**text, dy=-13),
        words.transform_filter("datum.under").mark_text(**text, dy=15),
    ).properties(width=WIDTH, height=max(2, len(listed)) * _ROW)
    what = "Median" if names == ["median"] else "Quantiles"
    users = sum(estimate.users for estimate in estimates.values())
    return finish(chart, estimate_title(what, first, users))


def _keep_apart(dots: list[dict[str, Any]], scale: float) -> None:
    """Put the text of a dot under the dot if there is no room above it.

    `scale` is the number of pixels for one unit of the axis.
    """
    # For each row, where the last text above the dots and the last text under them end.
    ends: dict[tuple[str, bool], float] = {}
    for dot in sorted(dots, key=lambda dot: float(dot["x"])):
        half = _LETTER * (len(dot["says"]) + 1) / 2
        begin = dot["x"] * scale - half
        dot["under"] = begin < ends.get((dot["row"], False), -np.inf)
        ends[dot["row"], dot["under"]] = begin + 2 * half


def _quantile(
    estimate: DistributionEstimate, share: float, confidence: float, *, sampling: bool
) -> dict[str, Any]:
    interval = estimate.quantile_interval(share, confidence, sampling=sampling)
    dot = _dot(estimate, share, estimate.quantile(share), interval)
    return {**dot, "zero": 0.0, "says": f"{dot['name']}: {dot['says']}"}


def _places(estimate: DistributionEstimate, values: Any) -> Any:
    """The positions of numbers, dates or times on an axis."""
    calendar = estimate.calendar
    if calendar is None:
        return values
    return calendar.milliseconds(calendar.numbers(np.asarray(values)))


def _dot(
    estimate: DistributionEstimate, share: float, value: Any, interval: Interval
) -> dict[str, Any]:
    """The data that a figure shows about one quantile."""
    x, low, high = (float(_places(estimate, one)) for one in (value, interval.low, interval.high))
    says = estimate.quantile_text(value, interval)
    name = quantile_name(share)
    return {"name": name, "share": share, "x": x, "low": low, "high": high, "says": says}
