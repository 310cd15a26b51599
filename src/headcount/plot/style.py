"""Gives all figures the same look, and saves them.

Altair is loaded only when the first figure is made.
"""

import json
import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from io import BytesIO, StringIO
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from headcount.core.cells import BETWEEN
from headcount.core.errors import InvalidParameter, MissingPackage
from headcount.core.estimate import Estimate
from headcount.core.writing import check_writable, write_file

if TYPE_CHECKING:
    import altair

FORMATS = (".png", ".svg", ".pdf", ".html")
INK, GRAY, GRID = "#222222", "#767676", "#E6E6E6"
WIDTH, HEIGHT = 640, 400  # the size of a single panel, in pixels
PANEL_WIDTH = 480  # the width of each panel if there are several, in pixels
TITLE_SIZE, TEXT_SIZE = 18, 14
_MOST = 1e150  # the largest number on an axis; ratios of larger numbers could overflow
_MARGIN = 0.03  # this share of the axis is added at both ends, so that marks there are not cut
# This font comes with vl-convert, so figures look the same everywhere. It has Greek letters, but no
# superscript minus and no superscript digits above 4. So powers of ten are written 1e-6.
_FONT = "'Liberation Sans', Arial, Helvetica, sans-serif"
_DAY = 86_400_000.0  # in milliseconds
_DATE_FORMATS = (  # the least length of an axis of dates, and the format of the dates on this axis
    (7 * 365 * _DAY, "%Y"),
    (200 * _DAY, "%Y-%m"),
    (7 * _DAY, "%Y-%m-%d"),
    (_DAY / 24, "%m-%d %H:%M"),
    (0.0, "%H:%M:%S"),
)
_FEW_DECADES = 2  # an axis with fewer decades has labels between the powers of ten

Figure: TypeAlias = "altair.LayerChart | altair.HConcatChart"


def check_path(path: Path) -> None:
    """Refuse a path that a figure cannot be saved to, before any work is done."""
    if path.suffix.lower() not in FORMATS:
        raise InvalidParameter(
            f"the file name of a figure must end in {', '.join(FORMATS)}, got {path.name!r}"
        )
    check_writable(path)
    for package in ("altair", "vl_convert"):
        if find_spec(package) is None:
            raise _missing()


def save(figure: Figure, path: Path) -> None:
    """Write a figure to a file. The file extension determines the format. An HTML file works
    offline.
    """
    check_path(path)
    kind = cast(Literal["png", "svg", "pdf", "html"], path.suffix.lower()[1:])
    out = StringIO() if kind in ("svg", "html") else BytesIO()
    figure.save(
        out,
        format=kind,
        scale_factor=2 if kind == "png" else 1,
        inline=kind == "html",
        embed_options={
            "renderer": "svg",
            "actions": {"export": True, "source": False, "compiled": False, "editor": False},
        },
        json_kwds={"cls": _ScriptEncoder},
    )
    write_file(path, out.getvalue())


class _ScriptEncoder(json.JSONEncoder):
    """Encodes JSON for a script in a page, so that no label can end the script."""

    def encode(self, o: Any) -> str:
        return super().encode(o).replace("</", "<\\/")


def load_altair() -> ModuleType:
    try:
        import altair
    except ImportError:
        raise _missing() from None
    return altair


def _missing() -> MissingPackage:
    return MissingPackage(
        "figures need altair and vl-convert-python", hint="pip install 'headcount[plot]'"
    )


@dataclass(frozen=True)
class Axis:
    """One axis of a panel: its title with the unit, and the range of its numbers.

    An axis of `dates` has dates or times in milliseconds since the beginning of 1970.
    """

    title: str
    low: float
    high: float
    log: bool
    dates: bool = False

    @classmethod
    def of(cls, title: str, numbers: Iterable[float], log: bool | None = None) -> "Axis":
        """An axis for these numbers. Numbers that it cannot show are ignored.

        If `log` is None, the axis is logarithmic if all numbers are positive and span more than a
        factor of ten.
        """
        finite = [float(number) for number in numbers if _can_show(number, bool(log))]
        if not finite:
            kind = "positive and finite" if log else "finite"
            raise InvalidParameter(f"a figure must have {kind} numbers to show, got none")
        low, high = min(finite), max(finite)
        if log is None:
            log = low > 1 / _MOST and high > 10 * low
        if log:
            factor = (high / low) ** _MARGIN if high > low else 2.0
            return cls(title, low / factor, high * factor, True)
        margin = _MARGIN * (high - low) if high > low else abs(high) / 2 or 1.0
        # If all numbers are positive and some are close to zero, the axis begins at zero.
        bottom = 0.0 if 0 < low < 0.4 * high else low - margin
        return cls(title, bottom, high + margin, False)

    def holds(self, number: float) -> bool:
        return _can_show(number, self.log)

    @property
    def powers(self) -> bool:
        """Whether numbers on the axis are written as powers of ten."""
        largest = max(abs(self.low), abs(self.high))
        smallest = self.low if self.log else largest
        return smallest < 0.999e-3 or largest > 2e7

    def channel(self, name: str, field: str) -> Any:
        """Altair's x or y channel, which places marks on this axis by the values of a field."""
        alt = load_altair()
        if self.dates:
            scale = alt.Scale(type="utc", domain=[self.low, self.high], nice=False)
            return getattr(alt, name.upper())(
                field,
                type="temporal",
                title=self.title,
                scale=scale,
                axis=alt.Axis(tickCount=6, format=self._date_format()),
            )
        return getattr(alt, name.upper())(
            field,
            type="quantitative",
            title=self.title,
            scale=alt.Scale(
                type="log" if self.log else "linear",
                domain=[self.low, self.high],
                nice=False,
            ),
            axis=alt.Axis(
                # Vega leaves some labels of a logarithmic axis empty on purpose. They stay empty.
                labelExpr=f"datum.label === '' ? '' : ({self._number('datum.value')})",
                tickCount=self._ticks(),
                titleAngle=0 if name == "y" and len(self.title) < 3 else alt.Undefined,
                **self._lesser_ticks(),
            ),
        )

    def tooltip(self, field: str, title: str = "") -> Any:
        if self.dates:
            whole_days = self.high - self.low > 60 * _DAY
            return load_altair().Tooltip(
                field,
                type="temporal",
                timeUnit="utcyearmonthdate"
                if whole_days
                else "utcyearmonthdatehoursminutesseconds",
                title=title or self.title,
                format="%Y-%m-%d" if whole_days else "%Y-%m-%d %H:%M:%S",
            )
        return load_altair().Tooltip(
            field,
            type="quantitative",
            title=title or self.title,
            format=".4~g" if self.powers else ",.6~r",
        )

    def _date_format(self) -> str:
        """The format of dates on this axis."""
        length = self.high - self.low
        return next(form for least, form in _DATE_FORMATS if length >= least)

    def _number(self, value: str) -> str:
        if not self.powers:
            return f"format({value}, ',.10~r')"
        near_one = f"abs({value}) > 0.5 && abs({value}) < 50 || {value} === 0"
        return f"{near_one} ? format({value}, '~r') : replace(format({value}, '.3~e'), '+', '')"

    def _ticks(self) -> int:
        """The number of ticks. A logarithmic axis labels its powers of ten. It labels other ticks
        only if it has few decades.
        """
        if not self.log:
            return 6
        decades = math.log10(self.high / self.low)
        return 6 if decades < _FEW_DECADES else min(math.ceil(decades), 10)

    def _lesser_ticks(self) -> dict[str, Any]:
        """The style of ticks without a label: they are short and have no grid line."""
        if not self.log:
            return {}
        alt = load_altair()
        unlabeled = "datum.label === ''"
        return {
            "gridOpacity": alt.condition(unlabeled, alt.value(0), alt.value(1)),
            "tickSize": alt.condition(unlabeled, alt.value(3), alt.value(5)),
        }


def _can_show(number: float, log: bool) -> bool:
    return 1 / _MOST < number < _MOST if log else abs(number) < _MOST


def rows(records: Iterable[dict[str, Any]]) -> Any:
    return load_altair().InlineData(values=list(records))


def zoom(name: str) -> Any:
    """Lets a reader move and zoom the figure with the mouse, if it is saved as an HTML page."""
    return load_altair().selection_interval(name=name, bind="scales")


def legend(labels: Sequence[str], width: int, orient: str = "top", **settings: Any) -> Any:
    """A legend above or below the panel, with as many columns as fit."""
    longest = max(map(len, labels), default=1)
    columns = max(1, min(len(labels), int(width / (longest * TEXT_SIZE * 0.5 + 40))))
    return load_altair().Legend(
        title=None, orient=orient, direction="horizontal", columns=columns, **settings
    )


def estimate_title(kind: str, estimate: Estimate, users: int | None = None) -> str:
    """The title of a figure of an estimate. If a figure shows several estimates, `users` is the
    number of people in all of them.
    """
    whole = estimate if users is None else replace(estimate, users=users)
    kept = f"{estimate.guarantee.trust} trust" if estimate.guarantee.secure else "not private"
    return f"{kind} of {whole.crowd}, {kept}"


def axis_name(estimate: Estimate) -> str:
    """The title of an axis of people's values, which is the name of their column."""
    return BETWEEN.join(estimate.column_names) or "value"


def finish(figure: Any, title: str, subtitle: str = "", *, width: int = WIDTH) -> Figure:
    """Give a figure its title, and the look that all figures share."""
    alt = load_altair()
    heading = alt.TitleParams(
        text=_wrapped(title, width / (0.52 * TITLE_SIZE)),
        subtitle=_wrapped(subtitle, width / (0.46 * TEXT_SIZE)) or alt.Undefined,
        anchor="start",
        frame="bounds",
        fontSize=TITLE_SIZE,
        subtitleFontSize=TEXT_SIZE,
        subtitleColor=GRAY,
        color=INK,
        offset=14,
        subtitlePadding=5,
    )
    figure = figure.properties(title=heading, background="white", padding=12)
    return cast(
        "Figure",
        figure.configure(font=_FONT)
        .configure_view(stroke=None)
        .configure_axis(
            labelFontSize=TEXT_SIZE,
            titleFontSize=TEXT_SIZE,
            titleFontWeight="normal",
            titlePadding=10,
            labelColor=INK,
            titleColor=INK,
            gridColor=GRID,
            domainColor=GRAY,
            tickColor=GRAY,
        )
        .configure_legend(
            labelFontSize=TEXT_SIZE,
            labelColor=INK,
            labelLimit=0,
            symbolSize=90,
            symbolStrokeWidth=2,
            columnPadding=24,
            rowPadding=4,
            offset=10,
        )
        .configure_title(fontSize=TEXT_SIZE, anchor="start", frame="group", color=INK),
    )


def _wrapped(text: str, letters: float) -> list[str]:
    return textwrap.wrap(text, int(letters))
