"""Draws a privacy report, and saves it as text, JSON, HTML, or as the figure alone."""

from dataclasses import replace
from html import escape
from pathlib import Path

from headcount.auditor.report import PrivacyReport
from headcount.core.errors import InvalidParameter
from headcount.core.writing import check_writable, json_text, write_file
from headcount.plot.lines import Points, panel
from headcount.plot.page import drawing, page
from headcount.plot.style import (
    FORMATS,
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


def report_figure(report: PrivacyReport) -> Figure:
    """A figure with two panels: what an attacker can detect, and what an attacker can learn about a
    person. Both panels also show an attacker who sees no answer, and the thresholds.
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
            Axis.of("chance of detecting a value", (0.0, 1.0), log=False),
            "upper bound for every test",
            "guessing",
        ),
        "belief": (
            "What an attacker can learn about a person",
            Axis.of("belief before the answer, as a probability", (0.0, 1.0), log=False),
            Axis.of("belief after the answer", (0.0, 1.0), log=False),
            f"upper bound{report.but_for and f', {report.but_for}'}",
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
    """Refuse a path that a report cannot be saved to, before any work is done."""
    kind = path.suffix.lower()
    if kind not in REPORT_FORMATS:
        raise InvalidParameter(
            f"the file name of a report must end in {', '.join(REPORT_FORMATS)}, got {path.name!r}"
        )
    (check_path if kind in FORMATS else check_writable)(path)


def save_report(report: PrivacyReport, path: Path) -> None:
    """Write a report to a file. The file extension determines the format."""
    check_report_path(path)
    kind = path.suffix.lower()
    if kind in FORMATS and kind != ".html":
        save(report_figure(report), path)
        return
    if kind == ".txt":
        text = f"{report}\n"
    elif kind == ".json":
        text = json_text(report.to_dict()) + "\n"
    else:
        text = _page(report)
    write_file(path, text)


def _page(report: PrivacyReport) -> str:
    said = "\n".join(f"<li>{escape(sentence)}</li>" for sentence in report.sentences)
    table = replace(report.table(), title="", notes=()).html()
    drawn = drawing(report_figure(report))
    return page(report.title, f"<ul>\n{said}\n</ul>\n{table}\n{drawn}")
