"""Writes the pages of a survey: the plan for an ethics board, and the results. A plan can also be
saved as JSON, and results can be saved as JSON, CSV or Parquet.
"""

import math
from html import escape
from pathlib import Path
from typing import Any

from headcount.core.budget import Trust
from headcount.core.cells import BETWEEN
from headcount.core.errors import InvalidParameter
from headcount.core.table import counted, counted_people, short, size
from headcount.core.writing import check_writable, csv_text, json_text, parquet_bytes, write_file
from headcount.plot.page import bars, crossed, hundred, page, paragraphs, pdf, place
from headcount.survey.answers import NO_ANSWER
from headcount.survey.plan import SurveyPlan
from headcount.survey.questions import Question
from headcount.survey.readings import Reading
from headcount.survey.results import Answered, Crossed, SurveyResults, shown
from headcount.survey.words import Odds

PLAN_FORMATS = (".html", ".pdf", ".json")
RESULT_FORMATS = (".html", ".pdf", ".json", ".csv", ".parquet")
_NOT_PROMISED = (
    "Facts about people in general are not hidden. If the survey finds that most smokers sleep "
    "badly, everybody learns this about all smokers, even about those who did not take part.",
    "Answering the same questions again elsewhere adds to what can be learned about a person.",
    "Whoever sees a person's screen or device sees the answers.",
)


def check_path(path: Path, formats: tuple[str, ...]) -> None:
    """Refuse a path to which nothing can be saved, before any work is done."""
    if path.suffix.lower() not in formats:
        raise InvalidParameter(f"the file name must end in {', '.join(formats)}, got {path.name!r}")
    check_writable(path)


def save_plan(plan: SurveyPlan, path: Path) -> None:
    """Save a plan: the page for an ethics board as .html or .pdf, or the plan as .json."""
    check_path(path, PLAN_FORMATS)
    if path.suffix.lower() == ".json":
        write_file(path, json_text(plan.to_dict()) + "\n")
    else:
        _write_page(path, board_page(plan))


def save_results(results: SurveyResults, path: Path) -> None:
    """Save results as a page (.html or .pdf), as .json, or as a table (.csv or .parquet)."""
    check_path(path, RESULT_FORMATS)
    ending = path.suffix.lower()
    if ending == ".json":
        write_file(path, json_text(results.to_dict()) + "\n")
    elif ending == ".parquet":
        write_file(path, _parquet(results))
    elif ending == ".csv":
        write_file(path, csv_text(_columns(results)))
    else:
        _write_page(path, results_page(results))


def _write_page(path: Path, text: str) -> None:
    write_file(path, pdf(text) if path.suffix.lower() == ".pdf" else text)


# The page for an ethics board -----------------------------------------------------------------


def board_page(plan: SurveyPlan) -> str:
    """The page of a plan, for readers who do not program, such as members of an ethics board."""
    survey = plan.survey
    parts = [
        lead(survey.introduction),
        _cards(plan),
        "<h2>What is asked, and how exact the answers will be</h2>",
        paragraphs(
            f"Margins hold with {100 * plan.confidence:.10g} % confidence, for "
            f"{counted_people(plan.users)}. If a share is estimated at 30 % ±2 points, the true "
            "share is between 28 % and 32 %."
        ),
        margins(plan),
        "<h2>What leaves a person’s device</h2>",
        paragraphs(plan.sends, _response(plan), *plan.repeated),
        "<h2>Who could see what</h2>",
        seen(plan.seen),
        paragraphs(plan.relies_on),
        "<h2>What the promise means</h2>",
        odds_drawn(plan.odds),
        "<h2>What is not promised</h2>",
        "<ul>"
        + "".join(f"<li>{escape(one)}</li>" for one in (*plan.not_hidden, *_NOT_PROMISED))
        + "</ul>",
        "<h2>A consent text to copy</h2>",
        f'<div class="card">{paragraphs(*plan.consent)}</div>',
        "<h2>Technical details</h2>",
        _details(plan),
        _footer(),
    ]
    return page(survey.title or "Survey", "\n".join(filter(None, parts)))


def lead(introduction: str) -> str:
    """The introduction at the top of a page, or an empty text if there is none."""
    return f'<p class="lead">{escape(introduction)}</p>' if introduction else ""


def _cards(plan: SurveyPlan) -> str:
    survey = plan.survey
    worst = max(plan.answers, key=lambda one: one.with_sampling)
    facts = (
        (f"{survey.least_people:,}", "people at least; with fewer, nothing is analyzed"),
        (str(len(survey.questions)), "questions, with one budget for all answers of a person"),
        (worst.shown[1], "largest margin of error, privacy and sampling together"),
        (f"{plan.odds.within} of 100", "at most guess right about a person, instead of 50"),
    )
    boxes = "".join(f"<div><strong>{escape(a)}</strong>{escape(b)}</div>" for a, b in facts)
    return f'<div class="cards">{boxes}</div>'


def margins(plan: SurveyPlan) -> str:
    """A list of the questions and two-way tables. Each has two margins of error: from privacy
    alone, and with sampling.
    """
    heads = ("question", "answers", "privacy alone", "with sampling")
    rows = [
        _row(
            heads,
            (one.text, _choices(question), *one.shown),
        )
        for question, one in zip(plan.survey.questions, plan.answers, strict=True)
    ]
    rows += [_row(heads, (one.text, "both answers together", *one.shown)) for one in plan.tables]
    return _wide(heads, rows)


def _row(heads: tuple[str, ...], cells: tuple[str, ...]) -> str:
    first, *others = cells
    shown_cells = "".join(
        f'<td data-name="{escape(head)}"{_number(head)}>{escape(cell)}</td>'
        for head, cell in zip(heads[1:], others, strict=True)
    )
    return f"<tr><td>{escape(first)}</td>{shown_cells}</tr>"


def _number(head: str) -> str:
    return ' class="number"' if head in ("privacy alone", "with sampling") else ""


def _wide(heads: tuple[str, ...], rows: list[str]) -> str:
    head = "".join(f"<th{_number(one)}>{escape(one)}</th>" for one in heads)
    return (
        f'<table class="wide stack"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _choices(question: Question) -> str:
    """The possible answers to a question, in words."""
    said = question.allowed.removeprefix("with ")
    return f"{said}, or no answer" if question.optional else said


def _response(plan: SurveyPlan) -> str:
    if plan.survey.trust != Trust.SHUFFLE:
        return ""
    kilobytes = plan.design.sealed_bytes / 1000
    return f"Each response has {size(kilobytes)} kB, whoever sends it."


def seen(parties: tuple[tuple[str, str], ...]) -> str:
    """A list of who could see what."""
    rows = [f"<tr><th>{escape(who)}</th><td>{escape(what)}</td></tr>" for who, what in parties]
    return f'<table class="wide"><tbody>{"".join(rows)}</tbody></table>'


def odds_drawn(odds: Odds) -> str:
    """A drawing of how many of 100 people guess right, with an explanation in words."""
    crowds = (
        (odds.without, f"Without your answers, on average {odds.without} of 100 guess right."),
        (odds.within, f"With your answers, on average at most {odds.within} of 100 guess right."),
    )
    drawn = "".join(f"<div>{hundred(right)}<p>{escape(words)}</p></div>" for right, words in crowds)
    said = paragraphs(
        f"Imagine that you take part, and that 100 people guess about you. {odds.explanation}",
    )
    return f'{said}<div class="crowds">{drawn}</div>' + paragraphs(
        odds.delta, *odds.report.sentences[1:3]
    )


def _details(plan: SurveyPlan) -> str:
    promise, design = plan.guarantee, plan.design
    epsilon, delta = promise.shown_pair
    facts = [
        ("trust model", str(promise.trust)),
        ("epsilon, for all answers of one person", epsilon),
        ("delta", delta),
        ("computed", "exactly" if promise.exact else "as an upper bound"),
        ("neighboring datasets", promise.neighbors),
        ("method", promise.method),
        ("relies on", promise.relies_on),
        ("messages of a person, on average", size(design.messages_per_user)),
    ]
    rows = [f"<tr><th>{escape(a)}</th><td>{escape(b)}</td></tr>" for a, b in facts]
    heads = ("questions", "protocol", "parameters")
    protocols = [
        _row(heads, (", ".join(release.ids), release.protocol.name, _parameters(release.protocol)))
        for release in design.releases
    ]
    facts_table = f'<table class="wide"><tbody>{"".join(rows)}</tbody></table>'
    return f"{facts_table}{_wide(heads, protocols)}"


def _parameters(protocol: object) -> str:
    given = getattr(protocol, "parameters", {})
    return ", ".join(
        f"{key} = {short(value, 4)}"
        for key, value in given.items()
        if isinstance(value, int | float)
    )


def _footer() -> str:
    said = "Made with Headcount. All figures were computed before any answer was given."
    return f"<footer>{said}</footer>"


# The page of results --------------------------------------------------------------------------


def results_page(results: SurveyResults) -> str:
    """The page of results. It has all answers with figures and intervals, and what was promised."""
    survey, promise = results.survey, results.guarantee
    whose = "the population" if results.sampling else "the people who took part"
    parts = [
        lead(survey.introduction),
        f'<p class="warning">{escape(promise.warning)}</p>' if promise.warning else "",
        paragraphs(
            f"{counted_people(results.users)} were asked "
            f"{counted(len(survey.questions), 'question')}. Lines at the bars are "
            f"{100 * results.confidence:.10g} % intervals for {whose}."
        ),
        *(_answered(one) for one in results.answers),
        *(_crossed(one) for one in results.tables),
        "<h2>What was promised</h2>",
        "" if promise.warning else odds_drawn(results.odds),
        paragraphs(f"Spent: {promise}, for {results.protected}."),
        paragraphs(f"This relies on {promise.relies_on}."),
        paragraphs(f"Contact: {survey.contact}" if survey.contact else ""),
        "<footer>Made with Headcount.</footer>",
    ]
    return page(survey.title or "Results", "\n".join(filter(None, parts)))


def _answered(one: Answered) -> str:
    shares = [reading for reading in one.readings if reading.is_share and reading.label]
    skipped = [reading for reading in shares if reading.label == NO_ANSWER]
    shares = [reading for reading in shares if reading.label != NO_ANSWER]
    others = [reading for reading in one.readings if not reading.is_share]
    drawn = bars([_bar(reading, 0.0, 1.0) for reading in shares]) if shares else ""
    placed = ""
    if others:
        low, high = _range(one.question, others)
        placed = bars([_bar(reading, low, high) for reading in others], points=True)
        placed += f'<p class="soft">on a line from {short(low)} to {short(high)}</p>'
    left = ""
    if skipped:
        value, interval = shown(skipped[0])
        left = f'<p class="soft">{value} gave no answer ({interval}), and are left out here.</p>'
    asked = f"{escape(one.question.text)} <small>{escape(_choices(one.question))}</small>"
    return f'<section class="card"><h3>{asked}</h3>{placed}{drawn}{left}</section>'


def _range(question: Question, readings: list[Reading]) -> tuple[float, float]:
    """The range of the possible answers to a question. If the question has no bounds, the range of
    the intervals of all readings.
    """
    low, high = (getattr(question, name, math.nan) for name in ("low", "high"))
    if math.isnan(low) or math.isnan(high):
        return min(one.low for one in readings), max(one.high for one in readings)
    return float(low), float(high)


def _bar(reading: Reading, low: float, high: float) -> tuple[str, float, float, float, str]:
    value, interval = shown(reading)
    if reading.is_share:
        interval = interval.removesuffix(" %")
    at = -1.0 if math.isnan(reading.value) else place(reading.value, low, high)
    ends = place(reading.low, low, high), place(reading.high, low, high)
    return reading.name, at, *ends, f"{value} ({interval})"


def _crossed(one: Crossed) -> str:
    names = one.estimate.names
    return crossed(
        f"{one.rows.text} × {one.columns.text}",
        "Shares within each row, with intervals.",
        [str(label) for label in names.columns],
        [
            (str(label), [str(share) for share in line])
            for label, line in zip(names.rows, one.shares.shares, strict=True)
        ],
    )


def _columns(results: SurveyResults) -> dict[str, list[Any]]:
    """A table with a row for each reading, which is a share or another number. Each cell of a
    two-way table has two rows: the number of people in the cell, and their share of the cell's row.
    """
    found = {one.question.id: [each.to_dict() for each in one.readings] for one in results.answers}
    found |= {f"{one.rows.id}{BETWEEN}{one.columns.id}": one.cells() for one in results.tables}
    rows = [
        {
            "question": name,
            **reading,
            "users": results.users,
            "confidence": results.confidence,
            "interval_of": "population" if results.sampling else "crowd",
        }
        for name, readings in found.items()
        for reading in readings
    ]
    return by_column(rows)


def _parquet(results: SurveyResults) -> bytes:
    """The results as a Parquet table. The guarantee is in its metadata."""
    about = {
        "title": results.survey.title,
        "confidence": results.confidence,
        "sampling": results.sampling,
        "guarantee": results.guarantee.to_dict(),
    }
    return parquet_bytes(_columns(results), about)


def by_column(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The columns of a table with these rows. All rows must have the same keys."""
    return {name: [row[name] for row in rows] for name in rows[0]}
