"""A whole survey: people answer in Chromium and in Python, and the analyzer counts all of them."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

import headcount as hc
from asked import DRUGS, PARTNERS, SEX, SLEEP, SMOKE
from browsing import chromium, phone
from collection import Service, free_port, pair, post, results
from consoles import console
from headcount.collect import keys
from headcount.collect.analyzer import Analyzer
from headcount.collect.client import opened as survey_at
from headcount.collect.client import response
from headcount.collect.document import Addresses, Document
from headcount.collect.store import opened as store
from headcount.survey.design import Noise
from headcount.survey.questions import Choice, Several, YesNo
from headcount.survey.survey import Survey
from respondents import choose, opened, press, seal, thanked, to_questions

BROWSERS, PROGRAMS = 30, 300
FEW = 3
WAYS = ("on foot", "bicycle", "bus", "car")


def truthful(folder: Path) -> Document:
    """A survey in local trust with so large an epsilon that nobody lies. So each person's answer
    can be found in the results.
    """
    survey = Survey(
        (Choice("way", "How do you come here?", choices=WAYS),),
        hc.Budget(80),
        hc.Trust.LOCAL,
        BROWSERS + PROGRAMS,
        title="The way here",
    )
    return Document.of(survey, keys.create(folder, None), places())


def noisy(folder: Path) -> Document:
    survey = Survey(
        (
            YesNo("smoke", "Do you smoke?"),
            Several("drugs", "Which of these?", choices=("a", "b", "c"), optional=True),
        ),
        hc.Budget(3, 1e-4),
        hc.Trust.SHUFFLE,
        BROWSERS + PROGRAMS,
        title="Habits",
    )
    return Document.of(survey, keys.create(folder, None), places())


def many_boxes(folder: Path, trust: hc.Trust, noise: Noise) -> Document:
    """A survey whose people fill up their ticks."""
    choices = tuple(f"place {number}" for number in range(20))
    survey = Survey(
        (Several("been", "Where have you been?", choices=choices, at_most=2),),
        hc.Budget(3, 0 if trust is hc.Trust.LOCAL else 1e-4),
        trust,
        FEW + PROGRAMS,
        noise=noise,
    )
    return Document.of(survey, keys.create(folder, None), places())


def places() -> Addresses:
    return Addresses(*(f"http://127.0.0.1:{free_port()}" for _ in range(2)))


def answered(browser: Browser, service: Service, labels: dict[int, str]) -> None:
    """One person answers on a device of their own. `labels` has the label of each answer."""
    with phone(browser) as device:
        answer(opened(device, service), labels)


def answer(page: Page, labels: dict[int, str]) -> None:
    to_questions(page)
    choose(page, labels)
    seal(page)
    press(page, "Send")
    thanked(page)


@pytest.mark.slow
def test_everybody_is_counted_once(tmp_path: Path) -> None:
    survey, source = truthful(tmp_path), hc.SecureSource()
    with pair(tmp_path, survey, CLOSES_WITH=str(BROWSERS + PROGRAMS)) as (one, other):
        one.start()
        other.start()
        given = [WAYS[number * 7 % 10 // 3] for number in range(BROWSERS + PROGRAMS)]
        with chromium() as browser:
            for way in given[:BROWSERS]:
                answered(browser, one, {1: way})
        for way in given[BROWSERS:]:
            assert post(survey, response(survey, {"way": way}, source)).status_code == 201
        found = results(survey)
    values = found["questions"]["way"]["value"]
    counts = Counter(given)
    assert [round(value) for value in values] == [counts[way] for way in WAYS]


FILE = """\
title = "Campus"

[privacy]
trust = "shuffle"
noise = "shuffler"
epsilon = 4
delta = 1e-4
least_people = PEOPLE
"""
ASKED = [
    SMOKE,
    {**SEX, "optional": True},
    DRUGS,
    SLEEP,
    {**PARTNERS, "want": ["mean", "quantiles"]},
]
ANSWERS: dict[str, Any] = {"smoke": False, "drugs": []}
TABLE = '[[table]]\nof = ["sex", "smoke"]\n'


def in_file(question: dict[str, Any]) -> str:
    """A question as a survey file has it. The values of JSON are values of TOML."""
    lines = (f"{name} = {json.dumps(value)}" for name, value in question.items())
    return "\n".join(["[[question]]", *lines, ""])


def numbers(text: str) -> list[tuple[float, float]]:
    """The numbers of a text, each with half a unit of its last digit."""
    found = re.findall(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?", text)
    plain = [one.replace(",", "") for one in found]
    return [(float(one), 0.5 * 10.0 ** -len(one.partition(".")[2])) for one in plain]


def check_shown(text: str, reading: dict[str, Any]) -> None:
    """A text of the page has the value, its interval, and the interval for the population."""
    wide, value = reading["population"], reading["value"]
    wanted = [reading["low"], reading["high"], wide["low"], wide["high"]]
    wanted = wanted if value is None else [value, *wanted]
    scale = 100 if reading["unit"] == "share" else 1
    assert text.startswith("–") is (value is None)
    assert len(numbers(text)) == len(wanted), text
    for (number, within), true in zip(numbers(text), wanted, strict=True):
        assert abs(number - scale * true) <= within * 1.0001, (text, reading)


@pytest.mark.slow
def test_the_results_page_shows_what_the_analyzer_counted(tmp_path: Path) -> None:
    """A survey file is opened in the console, people answer in browsers and in Python, and the
    browser shows the analyzer's numbers for every question and every table.
    """
    people = BROWSERS + PROGRAMS
    text = FILE.replace("PEOPLE", str(people)) + "".join(map(in_file, ASKED)) + TABLE
    (tmp_path / "campus.toml").write_text(text)
    with (
        chromium() as browser,
        console(str(tmp_path)) as address,
        phone(browser, width=1280) as desk,
    ):
        page = desk.new_page()
        page.goto(address)
        page.get_by_role("link", name="campus").click()
        page.get_by_label("Anybody with the link").check()
        press(page, "Open the survey")
        link = page.locator("main a").first.inner_text()
        expect(page.locator("#minimum")).to_have_class("alarm")
        for number in range(BROWSERS):
            with phone(browser) as device:
                mine = device.new_page()
                mine.goto(link)
                answer(mine, {1: "Yes", 2: "male", 3: "opioids", 4: str(number % 5 + 1),
                              5: "I prefer not to answer"})  # fmt: skip
        survey = survey_at(link.rstrip("/"))
        for number in range(PROGRAMS):
            given = {**ANSWERS, "sex": ["female", "other", None][number % 3],
                     "sleep": number % 5 + 1, "partners": number % 10}  # fmt: skip
            body = response(survey, given, hc.SecureSource())
            assert post(survey, body).status_code == 201
        expect(page.locator("#minimum")).to_have_class("note")
        press(page, "Close and count")
        expect(page.get_by_role("heading", name="What was promised")).to_be_visible()
        found = stored_results(tmp_path / "campus.rounds" / "1")
        assert found["people"] == people
        assert found["messages"]["refused"] == 0
        shown = 0
        for one in found["results"]["questions"]:
            card = page.locator("section.card", has=page.get_by_role("heading", name=one["text"],
                                                                    exact=True))  # fmt: skip
            rows = {
                row.locator("td").first.inner_text(): row.locator("td").last.inner_text()
                for row in card.locator(".bars tr").all()
            }
            readings = [row for row in one["readings"] if row["name"] != "no answer"]
            assert set(rows) == {row["name"] for row in readings}
            for reading in readings:
                check_shown(rows[reading["name"]], reading)
                shown += 1
            if one["answered"] is not None:
                said = card.locator("p.soft").last.inner_text()
                check_shown(said, {**one["answered"], "unit": "share"})
        for one in found["results"]["tables"]:
            card = page.locator("section.card", has=page.locator(
                "h3", has_text=" × ".join(one["texts"])))  # fmt: skip
            wide = one["population"]["shares"]["lines"]
            for line, others in zip(one["shares"]["lines"], wide, strict=True):
                row = card.locator("tr", has=page.locator(f'th:text-is("{line["line"]}")'))
                cells = row.locator("td").all_inner_texts()
                for cell, own, other in zip(cells, line["shares"], others["shares"], strict=True):
                    check_shown(cell, {**own["interval"], "value": own["value"], "unit": "share",
                                       "population": other["interval"]})  # fmt: skip
                    shown += 1
        assert shown >= 20
        # The truth: a share of the browsers' people smoke.
        smoke = next(one for one in found["results"]["questions"] if one["id"] == "smoke")
        error = survey.design.standard_error("smoke") / people
        # The error exceeds eight standard errors with probability below 1e-9.
        assert abs(smoke["readings"][0]["value"] - BROWSERS / people) <= 8 * error + 1 / people


def stored_results(folder: Path) -> dict[str, Any]:
    """The results as the analyzer of a round stored them."""
    found = Analyzer(store(str(folder / "analyzer" / "analyzer.db")), None)
    return found.results(found.surveys()[0])


@pytest.mark.slow
def test_noisy_answers_of_browsers_and_programs_are_counted_together(tmp_path: Path) -> None:
    survey, source = noisy(tmp_path), hc.SecureSource()
    with pair(tmp_path, survey, CLOSES_WITH=str(BROWSERS + PROGRAMS)) as (one, other):
        one.start()
        other.start()
        with chromium() as browser:
            for number in range(BROWSERS):
                drugs = "a" if number % 2 else "I prefer not to answer"
                answered(browser, one, {1: "Yes", 2: drugs})
        for _ in range(PROGRAMS):
            body = response(survey, {"smoke": False, "drugs": ["b"]}, source)
            assert post(survey, body).status_code == 201
        found = results(survey)
    smoke = found["questions"]["smoke"]
    # The error exceeds eight standard errors with probability below 1e-9.
    assert abs(smoke["value"] - BROWSERS) <= 8 * survey.design.standard_error("smoke") + 1
    assert found["messages"]["refused"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trust", "noise", "name"),
    [
        (hc.Trust.LOCAL, "people", "local.padded-boxes"),
        (hc.Trust.SHUFFLE, "shuffler", "shuffle.noisy-shuffler"),
    ],
)
def test_boxes_that_are_filled_up_are_counted(
    tmp_path: Path, trust: hc.Trust, noise: Noise, name: str
) -> None:
    survey, source = many_boxes(tmp_path, trust, noise), hc.SecureSource()
    assert [one.protocol.name for one in survey.design.releases] == [name]
    with pair(tmp_path, survey, CLOSES_WITH=str(FEW + PROGRAMS)) as (one, other):
        one.start()
        other.start()
        with chromium() as browser:
            for _ in range(FEW):
                answered(browser, one, {1: "place 7"})
        for _ in range(PROGRAMS):
            body = response(survey, {"been": ["place 0", "place 19"]}, source)
            assert post(survey, body).status_code == 201
        found = results(survey)
    assert found["messages"]["refused"] == 0
    counts = {0: PROGRAMS, 7: FEW, 19: PROGRAMS}
    # The error exceeds eight standard errors with probability below 1e-8.
    allowed = 8 * survey.design.standard_error("been") + 1
    for box, value in enumerate(found["questions"]["been"]["value"]):
        assert abs(value - counts.get(box, 0)) <= allowed
