"""A two-way table as a heat map. Each cell shows its estimate and its interval."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Estimate
from headcount.core.table import number
from headcount.core.two_way import TableEstimate, total_label
from headcount.plot.palette import trust_color
from headcount.plot.style import INK, TEXT_SIZE, WIDTH, Figure, finish, load_altair, rows

_MOST_ROWS, _MOST_COLUMNS = 40, 12  # a larger table cannot be read
_CELL = 52  # the height and the least width of a cell, in pixels


def can_be_read(estimate: Estimate) -> bool:
    """Whether the estimate is a table that is small enough for a heat map."""
    if not isinstance(estimate, TableEstimate):
        return False
    return len(estimate.names.rows) <= _MOST_ROWS and len(estimate.names.columns) <= _MOST_COLUMNS


def table_figure(
    estimate: Estimate, confidence: float, *, sampling: bool = False, simultaneous: bool = False
) -> Figure:
    """A heat map of a table of counts. The last column and the last row are totals."""
    if not isinstance(estimate, TableEstimate) or not can_be_read(estimate):
        raise InvalidParameter(
            f"a heat map must show a table with at most {_MOST_ROWS} rows and {_MOST_COLUMNS} "
            f"columns, got {checks.a_task(estimate.task)} of {len(estimate.buckets or ())} numbers"
        )
    names = estimate.names
    alt = load_altair()
    cells = _cells(estimate, confidence, {"sampling": sampling, "simultaneous": simultaneous})
    largest = max([float(estimate.value.max()), 1.0])
    sort_rows = [*map(str, names.rows), total_label(names.rows)]
    sort_columns = [*map(str, names.columns), total_label(names.columns)]
    across, down = reversed(estimate.column_names or (None, None))
    place: dict[str, Any] = {
        "x": alt.X(
            "column", type="nominal", title=across, sort=sort_columns,
            axis=alt.Axis(orient="top", labelAngle=0, ticks=False, domain=False),
        ),
        "y": alt.Y(
            "row", type="nominal", title=down, sort=sort_rows,
            axis=alt.Axis(ticks=False, domain=False),
        ),
    }  # fmt: skip
    told = [
        alt.Tooltip("row", type="nominal"),
        alt.Tooltip("column", type="nominal"),
        alt.Tooltip("people", type="quantitative", title="estimate", format=",.6~r"),
        alt.Tooltip("between", type="nominal", title="interval"),
    ]
    data = alt.Chart(rows(cells))
    shades = ["#FFFFFF", trust_color(estimate.guarantee.trust)]
    counted = data.transform_filter("datum.cell")
    dark = _dark_from(shades[1])
    ink = alt.condition(f"datum.shade > {dark * largest}", alt.value("white"), alt.value(INK))
    shown, between = (alt.Text(field, type="nominal") for field in ("shown", "between"))
    wide = max(_CELL, min(150, WIDTH // len(sort_columns)))
    chart = alt.layer(
        counted.mark_rect(stroke="white", strokeWidth=2).encode(
            **place,
            color=alt.Color(
                "shade", type="quantitative", legend=None,
                scale=alt.Scale(domain=[0, largest], range=shades, interpolate="rgb"),
            ),
            tooltip=told,
        ),
        counted.mark_text(dy=-8, fontSize=TEXT_SIZE).encode(**place, text=shown, color=ink),
        counted.mark_text(dy=10, fontSize=TEXT_SIZE - 3).encode(
            **place, text=between, color=ink
        ),
        data.transform_filter("!datum.cell")
        .mark_text(dy=-8, fontSize=TEXT_SIZE, color=INK)
        .encode(**place, text=shown),
        data.transform_filter("!datum.cell")
        .mark_text(dy=10, fontSize=TEXT_SIZE - 3, color=INK)
        .encode(**place, text=between),
    ).properties(width=wide * len(sort_columns), height=_CELL * len(sort_rows))  # fmt: skip
    whose = " for the population" * sampling + ", all cells at once" * simultaneous
    trust = f"{estimate.guarantee.trust} trust" if estimate.guarantee.secure else "not private"
    title = f"Table of {estimate.crowd}, {trust}"
    note = f"{estimate.noun}, with {100 * confidence:.10g} % intervals{whose}"
    return finish(chart, title, note, width=wide * len(sort_columns))


def _cells(
    estimate: TableEstimate, confidence: float, kind: dict[str, bool]
) -> list[dict[str, Any]]:
    """All cells and totals, each with its interval."""
    names = estimate.names
    labels = [(str(row), str(column)) for row in names.rows for column in names.columns]
    right, below = total_label(names.columns), total_label(names.rows)
    parts = (
        (estimate, labels),
        (estimate.rows, [(str(row), right) for row in names.rows]),
        (estimate.columns, [(below, str(column)) for column in names.columns]),
    )
    found: list[dict[str, Any]] = []
    for part, where in parts:
        interval = part.interval(confidence, **kind)
        for at, (row, column) in enumerate(where):
            people = float(part.value[at])
            low, high = float(interval.low[at]), float(interval.high[at])
            found.append(
                {
                    "row": row,
                    "column": column,
                    "cell": part is estimate,
                    "people": people,
                    "shade": max(people, 0.0),
                    "shown": number(people),
                    "between": f"{number(low)} to {number(high)}",
                }
            )
    everyone = number(float(estimate.users))
    found.append(
        {"row": below, "column": right, "cell": False, "shown": everyone, "between": "known"}
    )
    return found


def _dark_from(color: str) -> float:
    """The share of the largest count from which a cell is dark: from there on, white text has more
    contrast with the cell than dark text. `color` is the color of the cell with the largest count.
    """
    shares = np.linspace(0, 1, 101)
    whole = np.array([int(color[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    mixed = _luminance(1 - shares[:, None] * (1 - whole))
    ink = _luminance(np.array([int(INK[at : at + 2], 16) for at in (1, 3, 5)]) / 255)
    # The contrast of two colors is (lighter + 0.05)/(darker + 0.05).
    dark = 1.05 / (mixed + 0.05) > (mixed + 0.05) / (ink + 0.05)
    return float(shares[int(np.argmax(dark))]) if dark.any() else 1.0


def _luminance(colors: NDArray[np.float64]) -> NDArray[np.float64]:
    """The relative luminance of colors. Each color is an array of its red, green and blue, from 0
    to 1.
    """
    linear = np.where(colors <= 0.04045, colors / 12.92, ((colors + 0.055) / 1.055) ** 2.4)
    found: NDArray[np.float64] = linear @ np.array([0.2126, 0.7152, 0.0722])
    return found
