"""A keyboard is enough: for people who answer, and for researchers. No test here uses a mouse."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from asked import DRUGS, PARTNERS, SEX, SHUFFLED, SLEEP, SMOKE
from browsing import chromium, phone
from collection import shuffler
from consoles import console
from headcount.collect.client import Respondent
from headcount.collect.client import opened as survey_at
from respondents import opened, serving, stored_responses, survey_of

SURVEY = """\
title = "Habits"

[privacy]
trust = "local"
epsilon = 7
least_people = 5

[[question]]
id = "smoke"
text = "Do you smoke?"
kind = "yes-no"
"""


def to(page: Page, wanted: Locator) -> None:
    """Press Tab until this element has the focus, which must be visible."""
    expect(wanted).to_be_visible()
    for _ in range(60):
        page.keyboard.press("Tab")
        if wanted.evaluate("(one) => one === document.activeElement"):
            assert wanted.evaluate("(one) => one.matches(':focus-visible')")
            return
    raise AssertionError(f"{wanted} must be reached by the Tab key")


def pressed(page: Page, name: str, *, role: str = "button") -> None:
    """Go to a button or link, and press it."""
    kind = page.get_by_role("link" if role == "link" else "button", name=name, exact=True)
    to(page, kind)
    page.keyboard.press("Enter")


@pytest.mark.slow
def test_people_answer_every_kind_of_question(tmp_path: Path) -> None:
    """From the link to the receipt, with an invitation code and a question that is left out."""
    questions = [SMOKE, {**SEX, "optional": True}, DRUGS, SLEEP, PARTNERS]
    survey = survey_of(tmp_path, SHUFFLED, questions, admission="codes", title="Health")
    with (
        serving(tmp_path, survey) as service,
        chromium() as browser,
        phone(browser) as device,
    ):
        (code,) = shuffler(tmp_path).new_codes(survey.digest, 1)
        page = opened(device, service)
        to(page, page.get_by_label("Invitation code"))
        page.keyboard.type(code)
        to(page, page.get_by_label("I have read this"))
        page.keyboard.press("Space")
        pressed(page, "Begin")
        expect(page.get_by_role("heading", name="Health")).to_be_focused()
        for number, keys in {1: ["Space"], 2: ["ArrowDown"], 4: 3 * ["ArrowRight"]}.items():
            to(page, page.locator(f"#question-{number} input").first)
            for key in keys:
                page.keyboard.press(key)
            if number == 2:
                to(page, page.get_by_label("stimulants"))
                page.keyboard.press("Space")
        pressed(page, "Check my answers")
        expect(page.locator(".problems")).to_be_focused()
        pressed(page, "How many partners did you have?", role="link")
        expect(page.locator("#question-5 input[type=number]")).to_be_focused()
        page.keyboard.type("7")
        expect(page.locator(".problems")).to_be_hidden()
        pressed(page, "Check my answers")
        expect(page.get_by_role("heading", name="Your answers")).to_be_focused()
        assert page.locator("dd").all_inner_texts() == ["Yes", "male", "stimulants", "4", "7"]
        pressed(page, "Change my answers")
        to(page, page.locator("#question-5 input[type=checkbox]"))
        page.keyboard.press("Space")  # rather no answer
        pressed(page, "Check my answers")
        expect(page.locator("dd").last).to_have_text("I prefer not to answer")
        pressed(page, "Randomize and seal")
        expect(page.get_by_role("heading", name="What leaves your device")).to_be_focused()
        to(page, page.locator("summary"))
        page.keyboard.press("Enter")
        expect(page.locator("pre")).to_be_visible()
        pressed(page, "Send")
        expect(page.get_by_role("heading", name="Thank you")).to_be_focused()
        assert stored_responses(service) == 1


@pytest.mark.slow
def test_researchers_come_from_a_survey_file_to_results(tmp_path: Path) -> None:
    with (
        console(str(tmp_path)) as address,
        chromium() as browser,
        phone(browser, width=1280) as device,
    ):
        page = device.new_page()
        page.goto(address)
        pressed(page, "New survey as a file", role="link")
        to(page, page.get_by_label("Name of the file"))
        page.keyboard.type("habits")
        to(page, page.get_by_label("Survey file"))
        page.keyboard.press("Control+A")
        page.keyboard.insert_text(SURVEY)
        pressed(page, "Check and save")
        to(page, page.get_by_label("Privacy budget"))
        page.keyboard.press("ArrowRight")  # the next step is 10
        expect(page.get_by_text("The margins below are for ε = 10.")).to_be_visible()
        to(page, page.get_by_role("button", name="Use ε = 10").first)
        page.keyboard.press("Enter")
        to(page, page.get_by_role("radio", name="Only people with an invitation code"))
        page.keyboard.press("ArrowDown")
        pressed(page, "Open the survey")
        expect(page.get_by_text("People are answering")).to_be_visible()
        assert "epsilon = 10" in (tmp_path / "habits.toml").read_text()
        survey = survey_at(page.locator("main a").first.inner_text().rstrip("/"))
        for number in range(5):
            person = Respondent(survey, tmp_path / "people" / str(number))
            person.answer({"smoke": number < 2})
            person.send()
        expect(page.locator("#minimum")).to_have_class("note")
        pressed(page, "Close and count")
        expect(page.get_by_role("heading", name="What was promised")).to_be_visible()
        with page.expect_download() as found:
            pressed(page, "JSON", role="link")
        assert json.loads(found.value.path().read_text())["people"] == 5
