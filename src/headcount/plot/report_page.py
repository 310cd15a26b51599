"""The privacy report as a figure, and as a file: text, JSON, a page, or the figure alone."""

import json
from dataclasses import replace
from html import escape
from io import StringIO
from pathlib import Path

from headcount.auditor.report import PrivacyReport
from headcount.core.errors import InvalidParameter, UnreadableData
from headcount.plot.lines import Points, panel
from headcount.plot.style import (
    FORMATS,
    GRAY,
    GRID,
    INK,
    PANEL_WIDTH,
    Axis,
    Figure,
    check_path,
    finish,
    load_altair,
    save,
)

REPORT_FORMATS = (".txt", ".json", ".html", *(kind for kind in FORMATS if kind != ".html"))
_GUESSING: Points = ((0.0, 0.0), (1.0, 1.0))
_STYLE = f"""
body {{ font-family: 'Liberation Sans', Arial, Helvetica, sans-serif; color: {INK};
  max-width: 70em; margin: 2em auto; padding: 0 1em; line-height: 1.5; }}
h1 {{ font-size: 1.5em; }}
table {{ border-collapse: collapse; }}
tr {{ border-bottom: 1px solid {GRID}; }}
figure {{ margin: 2em 0; }}
figcaption {{ color: {GRAY}; }}
svg {{ max-width: 100%; height: auto; }}
"""


def report_figure(report: PrivacyReport) -> Figure:
    """What an attacker can detect, and what can be learned, against knowing nothing and against
    the thresholds.
    """
    alt = load_altair()
    limit, odds = report.advantage.threshold, report.odds.threshold
    accepted = {
        "detection": [(0.0, limit), (1 - limit, 1.0)],
        "belief": [
            (before, before * odds / (1 - before + before * odds))
            for before, _ in report.points["belief"]
        ],
    }
    panels = {
        "detection": (
            "What an attacker can detect",
            Axis.of("chance of a false alarm", (0.0, 1.0), log=False),
            Axis.of("chance to detect a value", (0.0, 1.0), log=False),
            "no test detects more",
            "guessing",
        ),
        "belief": (
            "What can be learned about a person",
            Axis.of("belief before, as a chance", (0.0, 1.0), log=False),
            Axis.of("belief after", (0.0, 1.0), log=False),
            f"nobody believes more{report.but_for and f', {report.but_for}'}",
            "nothing is learned",
        ),
    }
    charts = []
    for name, (title, x, y, most, nothing) in panels.items():
        chart = panel(
            x,
            y,
            {most: report.points[name]},
            bounds={nothing: _GUESSING, "your threshold": accepted[name]},
            name=f"zoom_{name}",
            width=PANEL_WIDTH,
        )
        charts.append(chart.properties(title=title))
    side_by_side = alt.hconcat(*charts, spacing=40).resolve_scale(
        color="independent", shape="independent", strokeDash="independent"
    )
    return finish(side_by_side, report.title, width=2 * PANEL_WIDTH)


def check_report_path(path: Path) -> None:
    """Refuse a file that cannot become a report, before the work that would fill it."""
    kind = path.suffix.lower()
    if kind not in REPORT_FORMATS:
        raise InvalidParameter(
            f"a report must end in {', '.join(REPORT_FORMATS)}, got {path.name!r}"
        )
    if kind in FORMATS:
        check_path(path)
    elif not path.absolute().parent.is_dir():
        raise UnreadableData(f"there must be a folder {str(path.parent)!r} to write to, got none")


def save_report(report: PrivacyReport, path: Path) -> None:
    """Write a report; its ending says as what. A page holds all that it needs."""
    check_report_path(path)
    kind = path.suffix.lower()
    if kind in FORMATS and kind != ".html":
        save(report_figure(report), path)
        return
    if kind == ".txt":
        text = f"{report}\n"
    elif kind == ".json":
        text = json.dumps(report.to_dict(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    else:
        text = _page(report)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UnreadableData(
            f"{str(path)!r} must be a place to write to, got: {error.strerror}"
        ) from None


def _page(report: PrivacyReport) -> str:
    drawing = StringIO()
    report_figure(report).save(drawing, format="svg")
    title = escape(report.title)
    said = "\n".join(f"<li>{escape(sentence)}</li>" for sentence in report.sentences)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{title}</h1>
<ul>
{said}
</ul>
{replace(report.table(), title="", notes=()).html()}
<figure>
{drawing.getvalue()}
</figure>
</body>
</html>
"""
