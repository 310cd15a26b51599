"""The pages and tables that are made of a survey: the note on top, PDF files, and Parquet files."""

import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

import headcount as hc
from commands import Headcount
from headcount.plot.survey_pages import results_page, save_plan, save_results
from headcount.survey.questions import Choice, YesNo
from pdfs import pages

PEOPLE = 200
HOSTILE = "<script>alert(1)</script> & \"quotes\" <img src=x onerror='x'>"
SURVEY = hc.Survey(
    [YesNo("smoke", "Do you smoke? <b>"), Choice("way", "How do you come?", ("foot", "<i>car"))],
    hc.Budget(4),
    hc.Trust.CENTRAL,
    100,
    title="Town <u>",
    introduction=HOSTILE,
    tables=[("way", "smoke")],
)
ANSWERS = {
    "smoke": ["yes", "no", "no", "no"] * (PEOPLE // 4),
    "way": ["foot", "<i>car"] * (PEOPLE // 2),
}


@pytest.fixture(scope="module")
def results() -> hc.SurveyResults:
    return SURVEY.run(ANSWERS)


class Texts(HTMLParser):
    """The visible texts of a page, its elements, and the text of its note."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.note = ""
        self._in_note = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._in_note = ("class", "lead") in attrs

    def handle_endtag(self, tag: str) -> None:
        self._in_note = False

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())
        self.note += data if self._in_note else ""


def test_the_page_has_the_title_the_note_the_questions_and_the_promise(
    results: hc.SurveyResults,
) -> None:
    page = Texts(results_page(results))
    assert page.note == HOSTILE
    assert not {"script", "img", "b", "i", "u"} & set(page.tags)
    order = [
        "Town <u>",
        HOSTILE,
        "Do you smoke? <b>",
        "yes or no",
        "How do you come?",
        "one of foot, <i>car",
        "What was promised",
        f"Spent: {results.guarantee}, for everything that one person said, together.",
    ]
    places = [page.texts.index(text) for text in order]
    assert places == sorted(places)
    assert results.to_dict()["introduction"] == HOSTILE


def test_a_page_without_a_note_has_no_empty_one() -> None:
    survey = hc.Survey([YesNo("a", "?")], hc.Budget(1), hc.Trust.CENTRAL, 1)
    assert 'class="lead"' not in results_page(survey.run({"a": ["yes", "no"]}))


@pytest.mark.slow
def test_pages_are_printed_as_pdf(results: hc.SurveyResults, tmp_path: Path) -> None:
    save_plan(SURVEY.plan(), tmp_path / "board.pdf")
    save_results(results, tmp_path / "results.pdf")
    assert 2 <= pages((tmp_path / "board.pdf").read_bytes()) <= 4
    assert 1 <= pages((tmp_path / "results.pdf").read_bytes()) <= 2


def test_a_report_is_printed_as_pdf(headcount: Headcount, tmp_path: Path) -> None:
    (tmp_path / "q.toml").write_text(
        'title = "Town"\nintroduction = "A note"\n[privacy]\ntrust = "central"\nepsilon = 1\n'
        '[[question]]\nid = "smoke"\ntext = "Smokers"\nkind = "yes-no"\n'
    )
    (tmp_path / "town.csv").write_text("smoke\n" + "yes\nno\n" * 50)
    out = tmp_path / "report.pdf"
    call = ("report", str(tmp_path / "q.toml"), str(tmp_path / "town.csv"), "--out", str(out))
    done = headcount(*call)
    assert done.status == 0, done.err
    assert pages(out.read_bytes()) == 1


def test_parquet_has_the_cells_of_tables(results: hc.SurveyResults, tmp_path: Path) -> None:
    path = tmp_path / "results.parquet"
    save_results(results, path)
    rows = pyarrow.parquet.read_table(path).to_pylist()
    assert {row["question"] for row in rows} == {"smoke", "way", "way × smoke"}
    cells = [row for row in rows if row["question"] == "way × smoke"]
    counts = [row for row in cells if row["unit"] == "people"]
    shares = [row for row in cells if row["unit"] == "share"]
    names = [f"{way} × {smoke}" for way in ("foot", "<i>car") for smoke in ("no", "yes")]
    assert [row["name"] for row in counts] == names == [row["name"] for row in shares]
    assert [row["among"] for row in shares] == ["way = foot"] * 2 + ["way = <i>car"] * 2
    estimate = results["way × smoke"]
    ends = estimate.interval(0.95)
    for name, expected in (("value", estimate.value), ("low", ends.low), ("high", ends.high)):
        assert [row[name] for row in counts] == np.asarray(expected).tolist()
    lines = json.loads(json.dumps(results.to_dict()))["tables"][0]["shares"]["lines"]
    listed = [one for line in lines for one in line["shares"]]
    for row, one in zip(shares, listed, strict=True):
        assert (row["value"], row["low"]) == (one["value"], one["interval"]["low"])
        assert row["high"] == one["interval"]["high"]
    assert {row["users"] for row in rows} == {PEOPLE}


@pytest.mark.slow
def test_cells_are_of_the_population_if_sampling_is_wanted() -> None:
    found = SURVEY.run(ANSWERS)
    wide = hc.SurveyResults(SURVEY, found.design, found.estimates, found.users, sampling=True)
    (here,), (population,) = found.tables, wide.tables
    for one, other in zip(here.cells(), population.cells(), strict=True):
        assert other["value"] == one["value"]
        assert other["low"] < one["low"] or one["low"] == 0
        assert other["high"] > one["high"] or one["high"] == 1
