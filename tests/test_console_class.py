"""Class mode in a real browser: one command, one QR code, a live number, one button, the result."""

import json
import re
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Literal
from urllib.parse import urljoin, urlsplit

import httpx
import pytest
from playwright.sync_api import Page, expect

from browsing import check_view, chromium, phone
from consoles import console
from headcount.collect.analyzer import Analyzer
from headcount.collect.client import Respondent, opened
from headcount.collect.store import opened as store
from headcount.plot.collected_page import collected_page
from respondents import choose, press, seal, thanked, to_questions

PEOPLE = 20
SURVEY = f"""\
title = "<b onclick=alert(1)>Nerves</b>"

[privacy]
trust = "local"
epsilon = 80
least_people = {PEOPLE}

[[question]]
id = "nervous"
text = "Are you nervous <script>alert(1)</script> before exams?"
kind = "yes-no"
"""


def answered(page: Page, folder: Path, people: range) -> None:
    """Every fifth person is not nervous."""
    document = opened(page.locator("main a").first.inner_text().rstrip("/"))
    for number in people:
        person = Respondent(document, folder / str(number))
        person.answer({"nervous": "no" if number % 5 == 0 else "yes"})
        person.send()


def check_looks(page: Page, *paths: str, signed_in: bool = True) -> None:
    """Pages are accessible and fit, on a phone and on a large screen, light and dark."""
    browser = page.context.browser
    assert browser is not None
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for width, scheme in product((375, 1280), schemes):
        with phone(
            browser,
            width=width,
            color_scheme=scheme,
            storage_state=page.context.storage_state() if signed_in else None,
            bypass_csp=True,  # otherwise axe could not be loaded
        ) as device:
            shown = device.new_page()
            for path in paths:
                shown.goto(urljoin(page.url, path))
                check_view(shown)


@pytest.mark.slow
def test_a_class_answers_and_sees_the_result(tmp_path: Path) -> None:
    (tmp_path / "nerves.toml").write_text(SURVEY)
    hosts: set[str | None] = set()
    complaints: list[str] = []
    with (
        chromium() as browser,
        console("--class", str(tmp_path / "nerves.toml")) as address,
    ):
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.goto(address)
        expect(page.locator("h1")).to_have_text("<b onclick=alert(1)>Nerves</b>")
        expect(page.get_by_text("0 responses", exact=True)).to_be_visible()
        # A phone could not follow the link, so there is no QR code.
        expect(page.get_by_text("Open this link to answer")).to_be_visible()
        assert page.locator(".qr").count() == 0
        assert "token" not in page.url

        check_looks(page, page.url)

        answered(page, tmp_path / "people", range(PEOPLE - 1))
        expect(page.get_by_text(f"{PEOPLE - 1} responses")).to_be_visible()  # without loading
        expect(page.locator("#minimum")).to_have_class("alarm")
        page.get_by_role("button", name="Close and show the result").click()
        expect(page.get_by_role("alert")).to_contain_text("must answer before")
        answered(page, tmp_path / "people", range(PEOPLE - 1, PEOPLE))
        expect(page.locator("#minimum")).to_have_class("note")
        page.get_by_role("button", name="Close and show the result").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_text("What was promised")).to_be_visible()

        pair = tmp_path / "nerves.rounds" / "1"
        found = Analyzer(store(str(pair / "analyzer" / "analyzer.db")), None)
        results = found.results(found.surveys()[0])
        assert results["people"] == PEOPLE
        assert results["questions"]["nervous"]["value"] == pytest.approx(PEOPLE * 4 / 5)
        expect(page.locator(".bars td").last).to_contain_text("80.0 %")
        cookies = {one["name"]: one["value"] for one in page.context.cookies()}
        place = re.sub(r"/class.*", "", page.url)
        downloads = {
            ending: httpx.get(f"{place}/results.{ending}", cookies=cookies).content
            for ending in ("json", "html", "parquet")
        }
        assert json.loads(downloads["json"]) == results
        assert downloads["html"].decode() == collected_page(results)
        assert downloads["parquet"][:4] == b"PAR1"
        services = found.document(results["survey"]).addresses
        assert hosts == {urlsplit(address).netloc}
        assert complaints == []
    # Both services end with the console.
    for url in (services.shuffler, services.analyzer):
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/healthz")


@pytest.mark.slow
def test_thirty_browsers_answer_at_once(tmp_path: Path) -> None:
    """All devices have the page open before the first of them sends."""
    many = 30
    text = SURVEY.replace(f"least_people = {PEOPLE}", f"least_people = {many}")
    (tmp_path / "nerves.toml").write_text(text)
    with (
        chromium() as browser,
        console("--class", str(tmp_path / "nerves.toml")) as address,
        ExitStack() as devices,
    ):
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(address)
        link = page.locator("main a").first.inner_text()
        pages = []
        for number in range(many):
            pages.append(devices.enter_context(phone(browser)).new_page())
            pages[-1].goto(link)
            to_questions(pages[-1])
            choose(pages[-1], {1: "No" if number % 5 == 0 else "Yes"})
            seal(pages[-1])
        expect(page.get_by_text("0 responses", exact=True)).to_be_visible()
        for one in pages:
            press(one, "Send")
        for one in pages:
            thanked(one)
        expect(page.get_by_text(f"{many} responses", exact=True)).to_be_visible()
        page.get_by_role("button", name="Close and show the result").click()
        expect(page.get_by_text("What was promised")).to_be_visible()
        pair = tmp_path / "nerves.rounds" / "1"
        found = Analyzer(store(str(pair / "analyzer" / "analyzer.db")), None)
        results = found.results(found.surveys()[0])
        assert results["people"] == many
        assert results["questions"]["nervous"]["value"] == pytest.approx(many * 4 / 5)


@pytest.mark.slow
def test_an_open_round_goes_on_after_the_console_was_stopped(tmp_path: Path) -> None:
    for name in ("nerves", "draft"):
        (tmp_path / f"{name}.toml").write_text(SURVEY)
    with chromium() as browser:
        for part in (range(5), range(5, PEOPLE)):
            with console("--class", str(tmp_path / "nerves.toml")) as address:
                page = browser.new_page()
                page.goto(address)
                expect(page.get_by_text(f"{part.start} responses", exact=True)).to_be_visible()
                answered(page, tmp_path / "people", part)
                expect(page.get_by_text(f"{part.stop} responses", exact=True)).to_be_visible()
                if part.stop < PEOPLE:
                    paths = ("/", "/new", "/form", "/surveys/nerves", "/surveys/nerves/plan")
                    check_looks(page, *paths, "/surveys/draft/edit", "/surveys/draft")
                    check_looks(page, "/", signed_in=False)
                else:
                    page.get_by_role("button", name="Close and show the result").click()
                    expect(page.get_by_text("What was promised")).to_be_visible()
                    check_looks(page, page.url)
        # The next round begins at 0.
        with console("--class", str(tmp_path / "nerves.toml")) as address:
            page = browser.new_page()
            page.goto(address)
            expect(page.get_by_text("0 responses", exact=True)).to_be_visible()
    assert [one.name for one in (tmp_path / "nerves.rounds").iterdir()] in (["1", "2"], ["2", "1"])
