"""Saves the results of a collected survey as a page, as JSON, or as a table in Parquet.

All formats show the results that the analyzer stored. Nothing is computed again.
"""

import math
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

from headcount.core.cells import BETWEEN
from headcount.core.errors import InvalidParameter
from headcount.core.guarantee import rounded_up
from headcount.core.table import counted, counted_people, short
from headcount.core.writing import json_text, parquet_bytes, write_file
from headcount.plot.page import bars, crossed, hundred, page, paragraphs, pdf, place
from headcount.plot.survey_pages import RESULT_FORMATS, by_column, check_path, lead
from headcount.survey.answers import NO_ANSWER
from headcount.survey.readings import Reading
from headcount.survey.results import shown

Facts = Mapping[str, Any]


def check_collected(path: Path) -> None:
    """Refuse a path that results cannot be saved to, before any work is done."""
    check_path(path, RESULT_FORMATS)


def save_collected(found: Facts, path: Path) -> None:
    """Save results as a page (.html or .pdf), as .json, or as a table (.parquet)."""
    check_collected(path)
    ending = path.suffix.lower()
    if ending == ".json":
        write_file(path, json_text(found) + "\n")
    elif "results" not in found:
        raise InvalidParameter(
            f"results without the words of their questions must be saved as .json, got {path.name}"
        )
    elif ending == ".parquet":
        write_file(path, _parquet(found))
    else:
        text = collected_page(found)
        write_file(path, pdf(text) if ending == ".pdf" else text)


def collected_page(found: Facts) -> str:
    """The results as a page that needs no other files."""
    made = "<footer>Made with Headcount.</footer>"
    return page(found["title"] or "Results", f"{collected_body(found)}\n{made}")


def collected_body(found: Facts) -> str:
    """The body of the page. It shows all answers with intervals, what was promised, who could see
    what, and which messages were refused.
    """
    read, promise = found["results"], found["guarantee"]
    confidence = f"{100 * read['confidence']:.10g} %"
    parts = [
        lead(read["introduction"]),
        *(f'<p class="warning">{escape(one)}</p>' for one in _warnings(found)),
        paragraphs(
            f"{counted_people(found['people'])} answered. The lines on the bars are {confidence} "
            "intervals for the people who answered. They allow for the noise that protects "
            "people. The interval after the word “population” is for the population from which "
            "these people were drawn at random. It also allows for sampling."
        ),
        *(_card(one) for one in read["questions"]),
        *(
            _failed(name, one["error"])
            for name, one in found["questions"].items()
            if "error" in one
        ),
        *(_table(one) for one in read["tables"]),
        "<h2>What was promised</h2>",
        _odds(read["odds"]),
        paragraphs(
            f"Spent: epsilon {rounded_up(promise['epsilon'])} and delta "
            f"{rounded_up(promise['delta'])}, for everything that one person said, together"
            + (f", in all {found['waves']} waves." if found.get("waves", 1) > 1 else "."),
            f"This relies on {promise['relies_on']}.",
        ),
        "<h2>Who could see what</h2>",
        _rows((one["who"], one["what"]) for one in read["sees"]),
        "<h2>Messages</h2>",
        _rows(_messages(found["messages"])),
        f'<p class="soft">Fingerprint of the survey (SHA-256): {escape(found["survey"])}</p>',
    ]
    return "\n".join(filter(None, parts))


def _warnings(found: Facts) -> Iterator[str]:
    if found["admission"] == "open":
        yield "Anybody could answer any number of times. So results may have been manipulated."
    refused = found["messages"]["refused"]
    if refused:
        were = "was" if refused == 1 else "were"
        yield f"{counted(refused, 'message')} could not be read, and {were} not counted."


def _messages(found: Facts) -> list[tuple[str, str]]:
    names = {
        "received": "received, mixed",
        "dummies": "dummies, which hide how many messages a person sent",
        "refused": "refused: sealed for another key or survey, or not a possible message",
        "copies": "copies of other messages, not counted",
    }
    return [(f"{found[name]:,}", words) for name, words in names.items() if name in found]


def _rows(rows: Any) -> str:
    lines = "".join(f"<tr><th>{escape(a)}</th><td>{escape(b)}</td></tr>" for a, b in rows)
    return f'<table class="wide"><tbody>{lines}</tbody></table>'


def _odds(odds: Facts) -> str:
    crowds = (
        (odds["without"], f"Without your answers, on average {odds['without']} of 100 are right."),
        (odds["with"], f"With your answers, on average at most {odds['with']} of 100 are right."),
    )
    drawn = "".join(f"<div>{hundred(right)}<p>{escape(words)}</p></div>" for right, words in crowds)
    said = paragraphs(
        f"Imagine that you took part, and that 100 people guess about you. {odds['explanation']}"
    )
    return f'{said}<div class="crowds">{drawn}</div>{paragraphs(odds["delta"])}'


def _card(one: Facts) -> str:
    readings = [reading for reading in one["readings"] if reading["name"] != NO_ANSWER]
    shares = [reading for reading in readings if reading["unit"] == "share"]
    numbers = [reading for reading in readings if reading["unit"] == "number"]
    drawn = bars([_bar(reading, 0.0, 1.0) for reading in shares]) if shares else ""
    if numbers:
        low, high = one["range"] or _reach(numbers)
        placed = bars([_bar(reading, low, high) for reading in numbers], points=True)
        said = f'<p class="soft">on a line from {short(low)} to {short(high)}</p>'
        drawn = placed + said + drawn
    answered = ""
    if one["answered"] is not None:
        value, interval, population = _texts({**one["answered"], "name": "", "unit": "share"})
        answered = (
            f'<p class="soft">{value} answered this question ({interval}; population: '
            f"{population}). Others skipped it, and are left out here.</p>"
        )
    head = f'<section class="card"><h3>{escape(one["text"])}</h3>'
    return f"{head}{drawn}{answered}</section>"


def _reach(readings: list[Facts]) -> tuple[float, float]:
    """The ends of a line that is long enough for all intervals."""
    ends = [end for reading in readings for end in _ends(reading)]
    return min(ends), max(ends)


def _failed(name: str, error: str) -> str:
    head = f'<section class="card"><h3>{escape(name)}</h3>'
    return f"{head}<p>This question has no estimate: {escape(error)}.</p></section>"


def _ends(reading: Facts) -> tuple[float, float, float, float]:
    wide = reading["population"]
    return reading["low"], reading["high"], wide["low"], wide["high"]


def _texts(reading: Facts) -> tuple[str, str, str]:
    """Three texts about a reading, which is a share or another number: its value, the interval for
    the people who answered, and the interval for the population.
    """
    value = math.nan if reading["value"] is None else reading["value"]
    low, high, lower, higher = _ends(reading)
    share = reading["unit"] == "share"
    value_text, interval = shown(Reading("", value, low, high, share))
    return value_text, interval, shown(Reading("", value, lower, higher, share))[1]


def _bar(reading: Facts, low: float, high: float) -> tuple[str, float, float, float, str]:
    value, interval, population = _texts(reading)
    at = -1.0 if reading["value"] is None else place(reading["value"], low, high)
    ends = place(reading["low"], low, high), place(reading["high"], low, high)
    return reading["name"], at, *ends, f"{value} ({interval}; population: {population})"


def _table(one: Facts) -> str:
    shares, wide = one["shares"], one["population"]["shares"]
    return crossed(
        " × ".join(one["texts"]),
        "Shares within each row, with both intervals.",
        shares["columns"],
        [
            (line["line"], list(map(_cell, line["shares"], others["shares"])))
            for line, others in zip(shares["lines"], wide["lines"], strict=True)
        ],
    )


def _cell(cell: Facts, other: Facts) -> str:
    ends = {name: cell["interval"][name] for name in ("low", "high")}
    both = {**ends, "value": cell["value"], "unit": "share", "population": other["interval"]}
    value, interval, population = _texts(both)
    return f"{value} ({interval}; {population})"


def _parquet(found: Facts) -> bytes:
    """A Parquet table with a row for each reading, which is a share or another number. Each cell of
    a two-way table has two rows: the number of people in the cell, and their share of the cell's
    row. Facts about the whole survey are in the metadata of the Parquet table.
    """
    read = found["results"]
    readings = [
        (one["id"], reading, reading["population"])
        for one in read["questions"]
        for reading in one["readings"]
    ]
    readings += [
        (BETWEEN.join(one["of"]), cell, wide)
        for one in read["tables"]
        for cell, wide in zip(one["cells"], one["population"]["cells"], strict=True)
    ]
    rows = [
        {
            "question": question,
            **{name: reading[name] for name in ("name", "value", "low", "high")},
            "population_low": wide["low"],
            "population_high": wide["high"],
            **{name: reading[name] for name in ("unit", "among")},
            "users": found["people"],
        }
        for question, reading, wide in readings
    ]
    about = {name: value for name, value in found.items() if name not in ("results", "questions")}
    about["confidence"] = found["results"]["confidence"]
    return parquet_bytes(by_column(rows), about)
