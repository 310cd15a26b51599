"""Colors and markers of the series in a figure. No color occurs twice.

Each trust model has its own family of colors, and its protocols have shades from this family. So a
reader recognizes the trust model immediately.
"""

import re
from collections.abc import Sequence
from itertools import cycle, islice

import numpy as np

from headcount.core.budget import Trust

# Okabe and Ito's palette. Color-blind readers can distinguish its colors, even in print.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
MARKERS = (  # if there are more series than markers, markers repeat
    "circle",
    "square",
    "diamond",
    "triangle-up",
    "triangle-down",
    "cross",
    "triangle-left",
)
# Shades from dark to light. The middle shade stands for the trust model itself. Each shade has a
# contrast of at least 3 to 1 with a white page, as accessibility rules require for lines.
_SHADES = {
    Trust.CENTRAL: ("#002B49", COLORS[0], "#4795CE"),
    Trust.SHUFFLE: ("#5C2300", COLORS[1], "#C65A8E"),
    Trust.LOCAL: ("#003D2E", COLORS[2], "#5E9A1E"),
}
_OTHER_SHADES = ("#221155", "#6A4FB3", "#9A86CF")  # for labels without a trust model


def trust_of(label: str) -> Trust | None:
    """The trust model with which a label begins, as names of protocols do, or None."""
    match = re.match(rf"({'|'.join(Trust)})\b", label)
    return Trust(match[1]) if match else None


def trust_color(trust: Trust) -> str:
    return _SHADES[trust][1]


def trust_shades(trust: Trust, count: int) -> list[str]:
    """`count` different shades from the family of colors of a trust model."""
    return _ramp(_SHADES[trust], count)


def colors(labels: Sequence[str]) -> list[str]:
    """A color for each label."""
    trusts = [trust_of(label) for label in labels]
    shades = {trust: iter(trust_shades(trust, trusts.count(trust))) for trust in Trust}
    others = trusts.count(None)
    if others == len(labels):
        free = list(COLORS) if others <= len(COLORS) else _ramp(COLORS, others)
    else:
        free = _ramp(_OTHER_SHADES, others)
    rest = iter(free)
    return [next(rest) if trust is None else next(shades[trust]) for trust in trusts]


def markers(labels: Sequence[str]) -> list[str]:
    return list(islice(cycle(MARKERS), len(labels)))


def _ramp(stops: Sequence[str], count: int) -> list[str]:
    """`count` colors at equal distances along the line through the colors in `stops`. If `count` is
    1, the color is the middle one of the stops.
    """
    places = np.linspace(0, len(stops) - 1, count) if count > 1 else np.array([len(stops) // 2])
    channels = [
        np.interp(places, range(len(stops)), [int(stop[at : at + 2], 16) for stop in stops])
        for at in (1, 3, 5)
    ]
    return [
        "#" + "".join(f"{round(float(value)):02X}" for value in color)
        for color in zip(*channels, strict=True)
    ]
