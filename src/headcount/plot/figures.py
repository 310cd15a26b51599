"""Draws figures. Each is one Altair chart. A notebook shows it, and `save` writes it to a file."""

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from headcount.core import checks
from headcount.core.contrasts.contrast import Contrast
from headcount.core.contrasts.many import Contrasts
from headcount.core.estimate import Estimate, Interval
from headcount.core.table import number
from headcount.planner.comparison import AXIS_TITLES, Comparison
from headcount.plot.distributions import distribution_figure, quantiles_figure
from headcount.plot.heat_map import table_figure
from headcount.plot.lines import Measured, Points, numbers, panel
from headcount.plot.palette import colors, markers, trust_color
from headcount.plot.style import (
    FORMATS,
    GRAY,
    HEIGHT,
    INK,
    PANEL_WIDTH,
    TEXT_SIZE,
    WIDTH,
    Axis,
    Figure,
    axis_name,
    check_path,
    estimate_title,
    finish,
    legend,
    load_altair,
    rows,
    save,
    zoom,
)

MOST_BARS = 50

__all__ = [
    "FORMATS",
    "Figure",
    "check_path",
    "comparison_figure",
    "contrast_figure",
    "curve_figure",
    "density_figure",
    "distribution_figure",
    "error_figure",
    "histogram_figure",
    "quantiles_figure",
    "rate_figure",
    "save",
    "table_figure",
    "trust_figure",
]


def curve_figure(title: str, curves: Mapping[str, Points]) -> Figure:
    """A figure of privacy curves. `curves` maps the label of each mechanism to its points
    (epsilon, delta).
    """
    x = Axis.of("ε  (smaller is more private)", [0.0, *numbers(curves.values(), 0)], log=False)
    y = Axis.of("δ", numbers(curves.values(), 1), log=True)
    return finish(panel(x, y, curves), title)


def comparison_figure(
    title: str,
    *,
    x_title: str,
    y_title: str,
    lines: Mapping[str, Points],
    measured: Mapping[str, Measured],
    bounds: Mapping[str, Points],
    subtitle: str = "",
) -> Figure:
    """A figure that compares protocols.

    `lines` has the errors that formulas give. `measured` has simulations (x, y, low, high), which
    are drawn as points with bars. `bounds` has bounds from theory, which are drawn as dashed lines.

    Lines and points with the same label have the same color. An axis is logarithmic if all of its
    numbers are positive and span more than a factor of ten.
    """
    everything = [*lines.values(), *measured.values(), *bounds.values()]
    x = Axis.of(x_title, numbers(everything, 0))
    heights = numbers(everything, 1)
    y = Axis.of(y_title, heights)
    # The axis is extended to the ends of the bars. On a logarithmic axis, ends that are close to
    # zero are left out, since they would extend the axis far too much.
    ends = [end for *_, low, high in chain(*measured.values()) for end in (low, high)]
    if y.log:
        ends = [end for end in ends if y.low / 10 < end < 10 * y.high]
    y = Axis.of(y_title, [*heights, *ends], log=y.log)
    return finish(panel(x, y, lines, measured, bounds), title, subtitle)


def error_figure(comparison: Comparison) -> Figure:
    """A figure of the errors of protocols: formulas, simulations, and proven lower bounds."""
    lines = {one.label: [(p.at, p.standard_error) for p in one.points] for one in comparison.series}
    measured = {
        one.label: [
            (p.at, p.measured, p.low, p.high)
            for p in one.points
            if p.measured is not None and p.low is not None and p.high is not None
        ]
        for one in comparison.series
    }
    trusts: dict[Points, list[str]] = {}  # the trust models that share each lower bound
    for known in comparison.theory:
        if known.kind == "lower bound" and known.name.endswith(".lower"):
            trusts.setdefault(known.points, []).append(str(known.trust))
    bounds = {
        f"lower bound for the worst data, {' and '.join(names)}": points
        for points, names in trusts.items()
    }
    return comparison_figure(
        f"What privacy costs {checks.a_task(comparison.task.name)}",
        subtitle=f"{comparison.setting}; {comparison.data}"
        + (
            f"; points: {comparison.runs} simulated runs, 95 % intervals" if comparison.runs else ""
        ),
        x_title=AXIS_TITLES[comparison.axis],
        y_title=f"standard error of the {comparison.task.name}{comparison.task.error_unit}",
        lines=lines,
        measured={label: points for label, points in measured.items() if points},
        bounds=bounds,
    )


def rate_figure(title: str, panels: Mapping[str, Mapping[str, Points]]) -> Figure:
    """A figure of errors against the size of the crowd, on two logarithmic axes. `panels` maps the
    title of each panel to its lines.
    """
    alt = load_altair()
    charts = []
    for at, (name, lines) in enumerate(panels.items()):
        x = Axis.of("people in the crowd", numbers(lines.values(), 0), log=True)
        y = Axis.of("mean integrated squared error", numbers(lines.values(), 1), log=True)
        chart = panel(x, y, lines, name=f"zoom{at}", width=PANEL_WIDTH)
        charts.append(chart.properties(title=name))
    # Each panel has its own labels, colors and markers.
    side_by_side = alt.hconcat(*charts, spacing=40).resolve_scale(
        color="independent", shape="independent"
    )
    return finish(side_by_side, title, width=PANEL_WIDTH * len(panels))


def density_figure(
    estimate: Estimate, confidence: float, *, sampling: bool = False, simultaneous: bool = False
) -> Figure:
    """A figure of a density with its confidence band."""
    alt = load_altair()
    band = estimate.interval(confidence, sampling=sampling, simultaneous=simultaneous)
    grid = [float(place) for place in estimate.buckets or ()]
    half = (grid[-1] - grid[0]) / (len(grid) - 1) / 2
    whose = " of the population" * sampling + ", everywhere at once" * simultaneous
    steps = " and ".join(estimate.postprocessing)
    line = f"{estimate.protocol}, post-processed: {steps}" if steps else estimate.protocol
    label = f"{100 * confidence:.10g} % band{whose}"
    columns = [
        {
            "line": line,
            "band": label,
            "at": at,
            "left": at - half,
            "right": at + half,
            **_finite(density=value, low=low, high=high),
        }
        for at, value, low, high in zip(grid, estimate.value, band.low, band.high, strict=True)
    ]

    def key(channel: type[Any], field: str, **symbol: Any) -> Any:
        scale = alt.Scale(range=[trust_color(estimate.guarantee.trust)])
        shown = legend([field], WIDTH, symbolSize=150, **symbol)
        return channel(field, type="nominal", scale=scale, legend=shown)

    # Each density is drawn as a step from one edge of the grid to the next. So the last density is
    # repeated at the last edge.
    edges = rows([*columns, {**columns[-1], "left": grid[-1] + half}])

    x = Axis(axis_name(estimate), grid[0] - half, grid[-1] + half, log=False)
    y = Axis.of(
        f"density (per unit of {x.title})", [0.0, *estimate.value, *band.low, *band.high], False
    )
    left = x.channel("x", "left")
    area = alt.Chart(edges).mark_area(interpolate="step-after", opacity=0.2, clip=True)
    curve = alt.Chart(edges).mark_line(interpolate="step-after", clip=True)
    zero = alt.Chart(rows([{"zero": 0.0}])).mark_rule(color=GRAY, strokeWidth=1, clip=True)
    # Each column of the panel has a tooltip over its whole height.
    over = alt.Chart(rows(columns)).mark_rect(opacity=0, aria=False)
    chart = alt.layer(
        area.encode(
            x=left,
            y=y.channel("y", "low"),
            y2="high",
            fill=key(alt.Fill, "band", symbolType="square", symbolStrokeWidth=0),
        ).add_params(zoom("zoom")),
        zero.encode(y=y.channel("y", "zero")),
        curve.encode(
            x=left,
            y=y.channel("y", "density"),
            stroke=key(alt.Stroke, "line", symbolType="stroke"),
        ),
        over.encode(
            x=left,
            x2="right",
            tooltip=[
                alt.Tooltip("line", type="nominal", title=" "),
                x.tooltip("at"),
                y.tooltip("density", "density"),
                y.tooltip("low", "from"),
                y.tooltip("high", "to"),
            ],
        ),
    ).properties(width=WIDTH, height=HEIGHT)
    return finish(chart, estimate_title("Density", estimate))


def histogram_figure(
    estimate: Estimate, confidence: float, *, sampling: bool = False, simultaneous: bool = False
) -> Figure:
    """A figure of buckets as bars with intervals. Bins of numbers are all shown. If there are more
    than `MOST_BARS` other buckets, only the largest ones are shown.

    If buckets are bins of numbers, a bar is as wide as its bin, and its area shows the number of
    people in the bin.
    """
    alt = load_altair()
    interval = estimate.interval(confidence, sampling=sampling, simultaneous=simultaneous)
    place = {bucket: at for at, bucket in enumerate(estimate.buckets or ())}
    edges = estimate.edges
    many = len(place) > MOST_BARS and edges is None
    shown = [bucket for bucket, _ in estimate.largest(MOST_BARS)] if many else [*place]
    if estimate.in_time:
        shown.sort(key=lambda bucket: place[bucket])
    if edges is not None:
        shown = shown[: len(edges) - 1]  # the bucket of all other values has no place on the axis
    bars = [_bar(estimate, interval, str(bucket), place[bucket]) for bucket in shown]
    ends = [bar[end] for bar in bars for end in ("top", "bottom", "above") if bar[end] is not None]
    whose = " for the population" * sampling + ", all at once" * simultaneous
    unit = estimate.noun if edges is None else f"{estimate.noun} per unit of {axis_name(estimate)}"
    y = Axis.of(f"{unit} ({100 * confidence:.10g} % intervals{whose})", [0.0, *ends], log=False)
    data = alt.Chart(rows(bars))
    told = [
        alt.Tooltip("bucket", type="nominal", title=" "),
        alt.Tooltip("people", type="quantitative", title="estimate", format=",.6~r"),
        alt.Tooltip("low", type="quantitative", title="from", format=",.6~r"),
        alt.Tooltip("high", type="quantitative", title="to", format=",.6~r"),
    ]
    if edges is None:
        title = axis_name(estimate) if estimate.column_names else None
        words = [str(bucket) for bucket in shown]
        # Labels lie flat if each of them fits below its bar.
        flat = max(map(len, words)) * TEXT_SIZE * 0.6 < WIDTH / len(words)
        axis = alt.Axis(labelAngle=0 if flat else -90)
        across = {"x": alt.X("bucket", type="nominal", title=title, sort=words, axis=axis)}
        middle = across
    else:
        x = Axis(axis_name(estimate), float(edges[0]), float(edges[-1]), log=False)
        across = {"x": x.channel("x", "left"), "x2": "right"}
        middle = {"x": x.channel("x", "middle")}
    color = trust_color(estimate.guarantee.trust)
    chart = alt.layer(
        data.mark_bar(color=color, opacity=0.5, stroke="white", clip=True).encode(
            **across, y=y.channel("y", "top"), y2="zero", tooltip=told
        ),
        data.mark_rule(color=INK, strokeWidth=1.5, clip=True).encode(
            **middle, y=y.channel("y", "bottom"), y2="above"
        ),
    ).properties(width=WIDTH, height=HEIGHT)
    remarks = "; ".join(_histogram_remarks(estimate, interval, shown))
    return finish(chart, estimate_title(estimate.task.capitalize(), estimate), remarks)


def _bar(estimate: Estimate, interval: Interval, bucket: str, at: int) -> dict[str, Any]:
    """The bar of a bucket. The bar ends within the interval, even if the estimate is outside it."""
    low, high = float(interval.low[at]), float(interval.high[at])
    people = float(estimate.value[at])
    edges = estimate.edges
    left, right = (0.0, 1.0) if edges is None else (float(edges[at]), float(edges[at + 1]))
    width = right - left
    return {
        "bucket": bucket,
        "left": left,
        "right": right,
        "middle": (left + right) / 2,
        "zero": 0.0,
        **_finite(people=people, low=low, high=high),
        **_finite(top=min(max(people, low), high) / width, bottom=low / width, above=high / width),
    }


def _histogram_remarks(
    estimate: Estimate, interval: Interval, shown: Sequence[int | str | float]
) -> list[str]:
    """Facts that the bars do not show."""
    buckets = list(estimate.buckets or ())
    outside = int(((estimate.value < interval.low) | (estimate.value > interval.high)).sum())
    remarks = []
    if estimate.edges is None and len(shown) < len(buckets):
        remarks.append(f"the {len(shown)} largest of {len(buckets):,} buckets")
    elif len(shown) < len(buckets):
        remarks.append(f"{buckets[-1]}: {number(float(estimate.value[-1]))} {estimate.noun}")
    if outside:
        estimates = "1 estimate lies" if outside == 1 else f"{outside:,} estimates lie"
        remarks.append(f"{estimates} outside the possible range; a bar ends within its interval")
    return remarks


def contrast_figure(contrasts: Contrasts, confidence: float = 0.95) -> Figure:
    """A figure of comparisons with intervals, one below the other. A dashed line marks equality.

    Thick lines are intervals for the crowds. Thin lines are intervals for the populations. At most
    the first `MOST_BARS` comparisons are shown.
    """
    alt = load_altair()
    every = list(contrasts.values())
    first = every[0]
    marks = [mark for one in every for mark in _contrast_marks(one, confidence)]
    shown = list(dict.fromkeys(mark["label"] for mark in marks))[:MOST_BARS]
    marks = [mark for mark in marks if mark["label"] in shown]
    equal = 0.0 if first.kind == "difference" else 1.0
    numbers = [mark[key] for mark in marks for key in ("value", "low", "high")]
    compared = f"{first.kind} of {first.quantity}s{_of_column(first)}"
    x = Axis.of(
        f"{compared} ({100 * confidence:.10g} % intervals)",
        [equal, *(number for number in numbers if math.isfinite(number))],
        log=False,
    )
    # An infinite end is drawn to the end of the axis.
    data = alt.Chart(
        rows(
            {
                **mark,
                **_finite(value=mark["value"], high=mark["high"]),
                "end": min(mark["high"], x.high),
            }
            for mark in marks
        )
    )
    room = 0.62 * TEXT_SIZE * max(map(len, shown))  # enough in fonts that are wider than ours
    axis = alt.Axis(grid=False, minExtent=room)
    row = alt.Y("label", type="nominal", title=None, sort=shown, axis=axis)
    kinds = list(dict.fromkeys(mark["of"] for mark in marks))
    trust = first.guarantee.trust
    told = [
        alt.Tooltip("label", type="nominal", title=" "),
        alt.Tooltip("of", type="nominal", title="interval of"),
        x.tooltip("value", first.kind),
        x.tooltip("low", "from"),
        x.tooltip("high", "to"),
    ]

    def by_kind(channel: type[Any], range_: list[Any], shown_legend: Any) -> Any:
        scale = alt.Scale(domain=kinds, range=range_[: len(kinds)])
        return channel("of", type="nominal", scale=scale, legend=shown_legend)

    line = alt.Chart(rows([{"equal": equal}])).mark_rule(
        color=GRAY, strokeDash=[5, 4], strokeWidth=1.5, clip=True
    )
    chart = alt.layer(
        line.encode(x=x.channel("x", "equal")).add_params(zoom("zoom")),
        data.mark_rule(clip=True).encode(
            x=x.channel("x", "low"),
            x2="end",
            y=row,
            color=by_kind(alt.Color, [trust_color(trust), INK], legend(kinds, WIDTH)),
            strokeWidth=by_kind(alt.StrokeWidth, [6, 1.5], None),
            tooltip=told,
        ),
        data.mark_point(filled=True, size=90, opacity=1, color=INK, clip=True).encode(
            x=x.channel("x", "value"), y=row, tooltip=told
        ),
    ).properties(width=WIDTH, height=max(120, 36 * len(shown)))
    kept = f"{trust} trust" if all(one.guarantee.secure for one in every) else "not private"
    left = sum(len(one.labels) for one in every) - len(shown)
    return finish(
        chart,
        f"Comparison of {first.quantity}s, {kept}",
        f"the first {len(shown)} of {len(shown) + left:,} comparisons" if left else "",
    )


def _of_column(contrast: Contrast) -> str:
    """The words in the title of an axis that name the compared column."""
    names = contrast.first.column_names
    return f" of {axis_name(contrast.first)}" if names else ""


def _contrast_marks(contrast: Contrast, confidence: float) -> list[dict[str, Any]]:
    """The intervals of a comparison for the crowds. If nobody can be in both crowds, there are also
    intervals for the populations.
    """
    intervals = {"crowds": contrast.interval(confidence)}
    if not contrast.same_people:
        intervals["populations"] = contrast.interval(confidence, sampling=True)
    return [
        {"label": label, "of": of, "value": float(value), "low": float(low), "high": float(high)}
        for of, interval in intervals.items()
        for label, value, low, high in zip(
            contrast.labels,
            np.atleast_1d(contrast.value),
            np.atleast_1d(interval.low),
            np.atleast_1d(interval.high),
            strict=True,
        )
    ]


def trust_figure(
    title: str,
    truth: float,
    estimates: Sequence[Estimate],
    errors: Mapping[str, Sequence[tuple[int, float]]],
) -> Figure:
    """A figure of one question under several trust models. It shows the answers with intervals, and
    the errors against the size of the crowd.
    """
    alt = load_altair()
    trusts = [str(estimate.guarantee.trust) for estimate in estimates]
    labels = list(dict.fromkeys([*errors, *trusts]))
    intervals = [estimate.interval(0.95) for estimate in estimates]
    answers = [
        {
            "label": trust,
            "x": float(estimate.value),
            "low": float(interval.low),
            "high": float(interval.high),
            "says": f"{estimate.value:,.0f} ±{(interval.high - interval.low) / 2:,.0f}",
        }
        for trust, estimate, interval in zip(trusts, estimates, intervals, strict=True)
    ]
    ends = [end for interval in intervals for end in (interval.low, interval.high)]
    x = Axis.of(
        "people who answered yes (95 % interval)",
        [truth, *(estimate.value for estimate in estimates), *ends],
        log=False,
    )
    row = alt.Y("label", type="nominal", title=None, sort=trusts, axis=alt.Axis(grid=False))
    color, shape = (
        channel("label", type="nominal", legend=None, scale=alt.Scale(domain=labels, range=range_))
        for channel, range_ in ((alt.Color, colors(labels)), (alt.Shape, markers(labels)))
    )
    data = alt.Chart(rows(answers))
    words = data.encode(x=x.channel("x", "x"), y=row, text=alt.Text("says", type="nominal"))
    above = {"fontSize": TEXT_SIZE, "dy": -18, "clip": True}
    told = [
        alt.Tooltip("label", type="nominal", title=" "),
        x.tooltip("x", "estimate"),
        x.tooltip("low", "from"),
        x.tooltip("high", "to"),
    ]
    mark = alt.Chart(rows([{"x": truth, "says": f"truth: {truth:,.0f}"}]))
    left = alt.layer(
        mark.mark_rule(color=GRAY, strokeDash=[5, 4], strokeWidth=1.5, clip=True)
        .encode(x=x.channel("x", "x"))
        .add_params(zoom("zoom_answers")),
        mark.mark_text(color=INK, fontSize=TEXT_SIZE, dy=-10, clip=False).encode(
            x=x.channel("x", "x"), y=alt.value(0), text=alt.Text("says", type="nominal")
        ),
        data.mark_rule(strokeWidth=3, clip=True).encode(
            x=x.channel("x", "low"), x2="high", y=row, color=color
        ),
        data.mark_point(filled=True, size=110, opacity=1, clip=True).encode(
            x=x.channel("x", "x"), y=row, color=color, shape=shape, tooltip=told
        ),
        # A white edge keeps the words readable where the dashed line passes behind them.
        words.mark_text(**above, stroke="white", strokeWidth=5, aria=False),
        words.mark_text(**above).encode(color=color),
    ).properties(width=PANEL_WIDTH, height=HEIGHT)
    right = panel(
        Axis.of("people in the crowd", numbers(errors.values(), 0), log=True),
        Axis.of("standard error of the count (people)", numbers(errors.values(), 1), log=True),
        errors,
        name="zoom_errors",
        width=PANEL_WIDTH,
    )
    side_by_side = alt.hconcat(left, right, spacing=40).resolve_scale(
        color="independent", shape="independent"
    )
    kept = all(estimate.guarantee.secure for estimate in estimates)
    return finish(side_by_side, title if kept else f"{title}, not private", width=2 * PANEL_WIDTH)


def _finite(**numbers: float) -> dict[str, float | None]:
    """The numbers for JSON. Numbers that are not finite become None, which is a gap in a figure."""
    return {name: float(n) if math.isfinite(n) else None for name, n in numbers.items()}
