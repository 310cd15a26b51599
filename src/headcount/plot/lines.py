"""A panel of a figure with lines, measured points and theoretical bounds."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, cycle, islice
from typing import Any, TypeAlias

from headcount.plot.palette import colors, markers
from headcount.plot.style import GRAY, HEIGHT, WIDTH, Axis, legend, load_altair, rows, zoom

Points: TypeAlias = Sequence[tuple[float, float]]
Measured: TypeAlias = Sequence[tuple[float, float, float, float]]  # x, y, low, high

_MOST_MARKERS = 16  # more markers than this would hide a line
_DASHES = ([7, 4], [2, 3], [10, 3, 2, 3], [14, 5], [4, 2, 1, 2])


def panel(
    x: Axis,
    y: Axis,
    lines: Mapping[str, Points],
    measured: Mapping[str, Measured] | None = None,
    bounds: Mapping[str, Points] | None = None,
    *,
    name: str = "zoom",
    width: int = WIDTH,
) -> Any:
    """A panel with lines and markers. If a line has measured points, these are its markers.

    Numbers that an axis cannot show are left out: infinite numbers, NaN, and numbers that are not
    positive on a logarithmic axis. A bar that would leave the panel ends at its border.
    """
    alt = load_altair()
    measured, bounds = measured or {}, bounds or {}
    labels = list(dict.fromkeys([*lines, *measured]))
    key = legend(labels, width)
    color, shape = (
        channel("label", type="nominal", legend=key, scale=alt.Scale(domain=labels, range=range_))
        for channel, range_ in ((alt.Color, colors(labels)), (alt.Shape, markers(labels)))
    )
    place = {"x": x.channel("x", "x"), "y": y.channel("y", "y")}
    says = [alt.Tooltip("label", type="nominal", title=" "), x.tooltip("x"), y.tooltip("y")]

    drawn = [_records(x, y, label, points) for label, points in lines.items()]
    dashed = [_records(x, y, label, points) for label, points in bounds.items()]
    measured_bars = _bars(x, y, measured)
    marked = [r for line in drawn for r in _markers(line) if r["label"] not in measured]
    # Points without a marker also have a tooltip.
    silent = [r for line in [*drawn, *dashed] for r in line if r not in marked]

    layers = []
    if bounds:
        dash = alt.StrokeDash(
            "label",
            type="nominal",
            scale=alt.Scale(domain=list(bounds), range=list(islice(cycle(_DASHES), len(bounds)))),
            legend=legend(
                list(bounds),
                width,
                "bottom",
                symbolType="stroke",
                symbolStrokeColor=GRAY,
                symbolSize=600,
            ),
        )
        theory = alt.Chart(rows(chain(*dashed))).mark_line(color=GRAY, clip=True)
        layers.append(theory.encode(**place, strokeDash=dash))
    formulas = alt.Chart(rows(chain(*drawn))).mark_line(clip=True)
    layers.append(formulas.encode(**place, color=color))
    # This layer is needed even without points, since it has the legend.
    points = alt.Chart(rows(marked)).mark_point(filled=True, size=50, opacity=1, clip=True)
    layers.append(points.encode(**place, color=color, shape=shape, tooltip=says))
    if measured:
        ends = {"x": place["x"], "y": y.channel("y", "low"), "y2": "high"}
        bars = alt.Chart(rows(measured_bars)).mark_rule(strokeWidth=2, clip=True)
        layers.append(bars.encode(**ends, color=color))
        points = alt.Chart(rows(measured_bars)).mark_point(
            filled=True, size=80, opacity=1, clip=True
        )
        says_all = [*says, y.tooltip("low", "from"), y.tooltip("high", "to")]
        layers.append(points.encode(**place, color=color, shape=shape, tooltip=says_all))
    if silent:
        points = alt.Chart(rows(silent)).mark_point(size=120, opacity=0, clip=True, aria=False)
        layers.append(points.encode(**place, tooltip=says))
    layers[0] = layers[0].add_params(zoom(name))
    return alt.layer(*layers).properties(width=width, height=HEIGHT)


def numbers(points: Iterable[Sequence[tuple[float, ...]]], column: int) -> list[float]:
    """One coordinate of all points of all lines. `column` is its place in a point."""
    return [point[column] for line in points for point in line]


def _records(x: Axis, y: Axis, label: str, points: Points) -> list[dict[str, Any]]:
    return [
        {"label": label, "x": float(at), "y": float(value)}
        for at, value in points
        if x.holds(at) and y.holds(value)
    ]


def _markers(line: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return line[:: -(-len(line) // _MOST_MARKERS) or 1]


def _bars(x: Axis, y: Axis, measured: Mapping[str, Measured]) -> list[dict[str, Any]]:
    return [
        {**record, "low": _end(y, low, value), "high": _end(y, high, value)}
        for label, points in measured.items()
        for at, value, low, high in points
        for record in _records(x, y, label, [(at, value)])
    ]


def _end(y: Axis, end: float, value: float) -> float:
    """The end of a bar, cut at the border of the panel. If `end` is NaN, the bar ends at
    `value`.
    """
    return float(value if math.isnan(end) else min(max(end, y.low), y.high))
