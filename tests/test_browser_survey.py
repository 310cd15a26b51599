"""A whole survey: people answer in Chromium and in Python, and the analyzer counts all of them."""

from collections import Counter
from pathlib import Path

import pytest
from playwright.sync_api import Browser

import headcount as hc
from browsing import chromium, phone
from collection import Service, free_port, pair, post, results
from headcount.collect import keys
from headcount.collect.client import response
from headcount.collect.document import Addresses, Document
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
        page = opened(device, service)
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
