"""The page on which people answer: in Chromium, with a real shuffler."""

import gzip
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Request, Route, expect

from asked import DRINK, DRUGS, LOCAL, PARTNERS, PLACES, SEX, SHUFFLED, SLEEP, SMOKE, document
from browsing import check_view, phone
from collection import Service, shuffler
from headcount.collect.page_files import FOLDER as PAGES
from headcount.collect.page_files import export_page
from headcount.survey.words import Odds
from respondents import (
    address,
    choose,
    opened,
    press,
    remembered,
    seal,
    serving,
    stored_responses,
    survey_of,
    thanked,
    to_questions,
)

HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>{{7*7}}'
ABOUT = {
    "title": f"Health {HOSTILE}",
    "introduction": f"Five questions.\n\n{HOSTILE}",
    "contact": "javascript:alert(1)",
}
QUESTIONS = [
    {**SMOKE, "text": f"Do you smoke? {HOSTILE}"},
    {**SEX, "choices": ["female", "male", HOSTILE], "optional": True},
    DRUGS,
    SLEEP,
    PARTNERS,
]
FILLER = "filler (no further choice)"


def is_random_set(messages: list[str]) -> bool:
    """Whether one message names three places, or fillers instead of some of them."""
    (message,) = messages
    parts = [part.split(" × ") for part in message.split(", ")]
    places = [part for part in parts if re.fullmatch(r"place 1?\d", part[0])]
    fillers = [int(part[0]) for part in parts if part[1:] == [FILLER]]
    return len(places) + len(fillers) == len(parts) and len(places) + sum(fillers) == 3


# A survey's privacy, and what the page says about the messages of a person who ticks place 7.
BOXES = [
    pytest.param(LOCAL, is_random_set, id="local"),
    pytest.param(
        {**SHUFFLED, "noise": "shuffler"},
        lambda messages: messages == [FILLER, "place 7"],
        id="shuffle",
        marks=pytest.mark.slow,
    ),
]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("page")
    with serving(folder, survey_of(folder, SHUFFLED, QUESTIONS, **ABOUT)) as service:
        yield service


@pytest.fixture
def device(browser: Browser) -> Iterator[BrowserContext]:
    with phone(browser) as made:
        yield made


def answer_all(page: Page) -> None:
    """Yes, male, stimulants, 4, and no number."""
    choose(page, {1: "Yes", 2: "male", 3: "stimulants", 4: "4", 5: "I prefer not to answer"})


def to_sealed(page: Page) -> None:
    to_questions(page)
    answer_all(page)
    seal(page)


# Answering ------------------------------------------------------------------------------------


def requests(place: Page | BrowserContext) -> list[str]:
    """The addresses that a page, or any page of a device, asks for from now on."""
    found: list[str] = []
    place.on("request", lambda request: found.append(request.url))
    return found


def posts(page: Page) -> list[bytes]:
    """The bodies that the page sends from now on."""
    found: list[bytes] = []

    def look(request: Request) -> None:
        if request.method == "POST":
            found.append(request.post_data_buffer or b"")

    page.on("request", look)
    return found


def test_a_person_answers_once(device: BrowserContext, running: Service) -> None:
    asked = requests(device)
    page, survey = opened(device, running), running.survey
    bodies = posts(page)
    before = stored_responses(running)
    to_sealed(page)
    assert not bodies
    kept = {"digest": survey.digest, "epsilon": survey.guarantee.epsilon}
    size = survey.response_bytes
    assert remembered(page) == [{**kept, "sealed": size, "accepted": False}]
    expect(page.get_by_text(f"{survey.messages} sealed messages")).to_be_visible()
    said = page.locator(".said > li", has_text="What is your sex?").locator(".messages > li")
    # Noise may have added further messages of the same kind.
    assert any(re.fullmatch(r"male( \d+ times)?", one) for one in said.all_inner_texts())
    press(page, "Send")
    thanked(page)
    # If the shuffler is too busy, the same bytes are sent again.
    assert {len(body) for body in bodies} == {size}
    assert len(set(bodies)) == 1
    assert stored_responses(running) == before + 1
    assert remembered(page) == [{**kept, "sealed": None, "accepted": True}]
    again = opened(device, running)
    expect(again.get_by_role("heading", name="You have already answered")).to_be_visible()
    assert not again.get_by_role("button", name="Begin").count()
    assert asked[0] == page.url
    assert {urlsplit(url)[:2] for url in asked} == {urlsplit(survey.addresses.shuffler)[:2]}


@pytest.mark.slow
def test_a_device_says_what_it_has_spent_before(device: BrowserContext, running: Service) -> None:
    """Surveys of one shuffler are charged to the device that answers them, and ε adds up."""
    survey, page = running.survey, device.new_page()
    said = page.get_by_text(re.compile("This device has answered .*"))

    def spend(epsilon: float) -> None:
        privacy = {**LOCAL, "epsilon": epsilon}
        other = document(privacy, [SMOKE], survey.key, survey.addresses)
        shuffler(running.folder).register(other)
        page.goto(f"{running.url}/surveys/{other.digest}/")
        expect(page.get_by_role("button", name="Begin")).to_be_visible()
        before.append(said.all_inner_texts())
        to_questions(page)
        choose(page, {1: "Yes"})
        seal(page)
        press(page, "Send")
        thanked(page)

    before: list[list[str]] = []
    spend(2)
    spend(0.5)
    page.goto(address(running))
    expect(said).to_be_visible()
    adds_up = "What surveys reveal about you adds up."
    assert [*before, said.all_inner_texts()] == [
        [],
        [f"This device has answered 1 other survey here, with ε = 2. {adds_up}"],
        [f"This device has answered 2 other surveys here, with ε = 2.5 altogether. {adds_up}"],
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("locale", "details", "meaning"),
    [
        ("en-US", "Technical details", "multiplies the probability of any event by at most e^ε, "
         "and then adds at most δ."),
        ("de-AT", "Technische Einzelheiten", "so wird die Wahrscheinlichkeit jedes Ereignisses mit "
         "höchstens e^ε multipliziert, und dann kommt höchstens δ hinzu."),
    ],
)  # fmt: skip
def test_the_page_says_what_delta_means(
    browser: Browser, running: Service, locale: str, details: str, meaning: str
) -> None:
    with phone(browser, locale=locale) as device:
        page = opened(device, running)
        page.get_by_text(details).click()
        expect(page.get_by_text(meaning)).to_be_visible()


def test_nothing_is_stored_before_consent(device: BrowserContext, running: Service) -> None:
    page = opened(device, running)
    expect(page.get_by_role("button", name="Begin")).to_be_visible()

    def left() -> list[Any]:
        stored = page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]")
        databases = page.evaluate("indexedDB.databases()")
        return [*stored, len(databases), len(device.cookies())]

    assert left() == [0, 0, "", 0, 0]
    press(page, "Begin")
    expect(page.get_by_text("Please agree before you begin")).to_be_visible()
    to_questions(page)
    answer_all(page)
    press(page, "Check my answers")
    expect(page.get_by_role("heading", name="Your answers")).to_be_visible()
    assert left() == [0, 0, "", 0, 0]


def test_the_same_bytes_are_repeated_until_they_arrive(
    device: BrowserContext, running: Service
) -> None:
    page = opened(device, running)
    bodies: list[bytes | None] = []

    def lost(route: Route) -> None:
        bodies.append(route.request.post_data_buffer)
        route.abort("internetdisconnected")

    before = stored_responses(running)
    to_sealed(page)
    page.route("**/responses", lost)
    press(page, "Send")
    expect(page.get_by_text("stay on this device")).to_be_visible()
    page.reload()
    expect(page.get_by_text("sealed your answers earlier")).to_be_visible()
    press(page, "Send")
    expect(page.get_by_text("stay on this device")).to_be_visible()

    def lost_on_the_way_back(route: Route) -> None:
        bodies.append(route.request.post_data_buffer)
        route.fetch()  # the shuffler stores it, but the device never learns
        route.abort()

    page.unroute("**/responses")
    page.route("**/responses", lost_on_the_way_back)
    press(page, "Send again")
    expect(page.get_by_role("button", name="Send again")).to_be_visible()
    page.unroute("**/responses")
    press(page, "Send again")
    thanked(page)
    assert len(set(bodies)) == 1 < len(bodies)
    assert stored_responses(running) == before + 1


def test_two_windows_of_one_device_answer_once(device: BrowserContext, running: Service) -> None:
    first, second = opened(device, running), opened(device, running)
    to_questions(second)
    answer_all(second)
    first.bring_to_front()
    to_sealed(first)
    second.bring_to_front()
    press(second, "Check my answers")
    press(second, "Randomize and seal")
    expect(second.get_by_text("has already answered this survey")).to_be_visible()
    assert len(remembered(second)) == 1


def test_incomplete_answers_are_named(device: BrowserContext, running: Service) -> None:
    page = opened(device, running)
    to_questions(page)
    page.locator("#question-5 input[type=number]").fill("9.5")
    for label in ("cannabis", "stimulants", "opioids"):
        page.locator("#question-3").get_by_text(label).click()
    press(page, "Check my answers")
    expect(page.get_by_text("5 questions need your attention")).to_be_visible()
    expect(page.locator(".problems")).to_be_focused()
    expect(page.get_by_text("Please choose at most 2.")).to_be_visible()
    expect(page.get_by_text("Please enter a whole number from 0 to 9.")).to_be_visible()
    page.get_by_role("link", name="How well do you sleep?").click()
    assert page.evaluate("document.activeElement.closest('fieldset').id") == "question-4"


@pytest.mark.parametrize(("privacy", "said"), BOXES)
def test_boxes_are_filled_up(
    browser: Browser, tmp_path: Path, privacy: dict[str, Any], said: Callable[[list[str]], bool]
) -> None:
    """A person ticks one of two allowed places. Nothing tells how many were ticked."""
    survey = survey_of(tmp_path, privacy, [PLACES])
    with serving(tmp_path, survey) as service, phone(browser) as device:
        page = opened(device, service)
        to_questions(page)
        choose(page, {1: "place 7"})
        seal(page)
        assert said(page.locator(".messages li").all_inner_texts())
        press(page, "Send")
        thanked(page)
        assert stored_responses(service) == 1


def test_a_device_asks_only_what_it_has_drawn(browser: Browser, tmp_path: Path) -> None:
    """What a device draws is kept with the consent. Loading the page again draws nothing."""
    survey = survey_of(tmp_path, {**LOCAL, "epsilon": 1}, [SMOKE, DRINK, SEX, SLEEP])
    with serving(tmp_path, survey) as service, phone(browser) as device:
        page = opened(device, service)
        expect(page.get_by_text("asks you only some of the questions")).to_be_visible()
        assert remembered(page) == []

        def asked() -> list[str]:
            to_questions(page)
            expect(page.get_by_text(re.compile(r"asks you \d of 4 questions"))).to_be_visible()
            return page.locator("legend").all_inner_texts()

        drawn = asked()
        kept = remembered(page)
        assert [(one["sealed"], one["accepted"]) for one in kept] == [(None, False)]
        for again in range(4):
            if again < 3:
                page.reload()
            else:
                page = opened(device, service)  # another window
            assert asked() == drawn
            assert remembered(page) == kept
        for number in range(1, len(drawn) + 1):
            page.locator(f"#question-{number} input").first.check()
        seal(page)
        assert set(remembered(page)[0]) == {"digest", "sealed", "accepted", "epsilon"}
        said = page.locator(".said .who").all_inner_texts()
        assert all(text.split("\n")[-1] in " ".join(said) for text in drawn)
        press(page, "Send")
        thanked(page)
        assert stored_responses(service) == 1


def test_the_page_speaks_german(browser: Browser, running: Service) -> None:
    with phone(browser, locale="de-AT") as device:
        page = opened(device, running)
        expect(page.get_by_role("heading", name="Wer was sehen kann")).to_be_visible()
        assert page.evaluate("document.documentElement.lang") == "de"
        press(page, "English")
        expect(page.get_by_role("heading", name="Who can see what")).to_be_visible()


@pytest.mark.slow
def test_codes_are_asked_for(browser: Browser, tmp_path: Path) -> None:
    survey = survey_of(tmp_path, SHUFFLED, [SMOKE], admission="codes")
    with serving(tmp_path, survey) as service, phone(browser) as device:
        page = opened(device, service, "#code=wrong")
        to_questions(page)
        choose(page, {1: "Yes"})
        seal(page)
        expect(page.get_by_label("Invitation code")).to_have_value("wrong")
        press(page, "Send")
        expect(page.get_by_text("This invitation code is unknown")).to_be_visible()


class Quiet(SimpleHTTPRequestHandler):
    """A site that logs nothing."""

    def log_message(self, *words: Any) -> None:
        pass


@contextmanager
def site(folder: Path) -> Iterator[str]:
    """The address of another site on this machine, with the files of a folder."""
    files = partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), files) as server:
        Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@pytest.mark.slow
def test_other_sites_answer_only_if_they_are_allowed(browser: Browser, tmp_path: Path) -> None:
    survey, folder = survey_of(tmp_path, SHUFFLED, [SMOKE]), tmp_path / "site"
    place_in_folder = export_page(survey, folder)
    with (
        site(folder) as known,
        site(folder) as other,
        serving(tmp_path, survey, HEADCOUNT_SHUFFLER_SITES=known) as service,
        phone(browser) as device,
    ):
        for place, receipt in ((known, "stored"), (other, "TypeError")):
            page = browser.new_page()
            page.goto(f"{place}/survey.json")
            found = page.evaluate(
                """async (url) => {
                    try {
                        const { Respondent } = await import(`${url}client.js`);
                        const person = await Respondent.open(url);
                        await person.answer({ smoke: true });
                        return await person.send();
                    } catch (error) { return error.name; }
                }""",
                address(service),
            )
            assert found == receipt
            page.close()
        assert stored_responses(service) == 1
        page = device.new_page()
        asked, said = requests(page), complaints(page)
        page.goto(f"{known}/{place_in_folder}")
        to_questions(page)
        choose(page, {1: "Yes"})
        seal(page)
        press(page, "Send")
        thanked(page)
        assert stored_responses(service) == 2
        assert said == []
        assert asked.count(f"{known}/survey.json") == 1


def complaints(page: Page) -> list[str]:
    """What the console of the browser says from now on."""
    found: list[str] = []
    page.on("console", lambda message: found.append(message.text))
    page.on("pageerror", lambda error: found.append(str(error)))
    return found


# Safety ---------------------------------------------------------------------------------------


def test_hostile_texts_are_only_shown(device: BrowserContext, running: Service) -> None:
    page = opened(device, running)
    said = complaints(page)
    expect(page.get_by_role("heading", level=1)).to_contain_text("<script>")
    to_sealed(page)
    assert page.evaluate("window.hacked") is None
    assert not page.locator("img, iframe, a[href^='javascript']").count()
    assert said == []


def test_the_policy_has_no_exceptions(running: Service) -> None:
    reply = httpx.get(address(running), headers={"Accept-Encoding": "identity"})
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert not any(word in policy for word in ("unsafe", "*", "http", "data:", "blob:"))
    for name in ("style=", "onclick", "<style", "http://", "https://"):
        assert name not in reply.text
    assert httpx.get(f"{running.url}/surveys/{'0' * 64}/").status_code == 404
    assert httpx.get(address(running) + "respond.ts").status_code == 404
    assert httpx.get(address(running) + "..%2Fdocument.py").status_code == 404


def replied(body: bytes, route: Route) -> None:
    route.fulfill(body=body)


def test_junk_documents_are_refused_kindly(device: BrowserContext, running: Service) -> None:
    page = device.new_page()
    for junk in (b"", b"<html>", b"{}", b"[" * 200_000, b"0" * 3_000_000):
        page.unroute_all()
        page.route(f"**/surveys/{running.survey.digest}", partial(replied, junk))
        page.goto(address(running))
        expect(page.get_by_text("its document is damaged")).to_be_visible()


def test_an_unreachable_document_is_explained(device: BrowserContext, running: Service) -> None:
    page = device.new_page()
    page.route(f"**/surveys/{running.survey.digest}", lambda route: route.abort())
    page.goto(address(running))
    expect(page.get_by_text("check your connection")).to_be_visible()


# Form -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (375, "light"),
        pytest.param(375, "dark", marks=pytest.mark.slow),
        pytest.param(1280, "light", marks=pytest.mark.slow),
        (1280, "dark"),
    ],
)
def test_every_view_is_accessible_and_fits(
    browser: Browser, running: Service, width: int, scheme: Any
) -> None:
    # Axe could not be loaded under the page's own policy.
    with phone(browser, width=width, color_scheme=scheme, bypass_csp=True) as device:
        page = opened(device, running)
        expect(page.get_by_role("button", name="Begin")).to_be_visible()
        page.get_by_text("Technical details").click()
        check_view(page)
        to_questions(page)
        press(page, "Check my answers")
        check_view(page)
        answer_all(page)
        press(page, "Check my answers")
        check_view(page)
        press(page, "Randomize and seal")
        page.get_by_text("The bytes themselves").click()
        check_view(page)
        press(page, "Send")
        thanked(page)
        check_view(page)


def test_the_odds_are_those_of_the_plan(device: BrowserContext, running: Service) -> None:
    page = opened(device, running)
    design: Any = running.survey.design
    assert Odds.of(design).sentence in page.locator(".odds").inner_text()


def test_the_page_is_light(running: Service) -> None:
    names = ("respond.html", "respond.css", "respond.js", "icon.svg")
    files = [(PAGES / name).read_bytes() for name in names]
    weight = sum(len(gzip.compress(data)) for data in (*files, running.survey.data))
    assert weight < 60_000
    for url in (address(running), address(running).rstrip("/")):
        assert httpx.get(url).headers["content-encoding"] == "gzip"


def test_the_document_does_not_wait_for_the_script(
    device: BrowserContext, running: Service
) -> None:
    """The script arrives only when the document was asked for, and uses what arrived."""
    page = device.new_page()
    asked, held = requests(page), list[Route]()

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/respond.js", hold)
    document = address(running).rstrip("/")
    with page.expect_request(document), page.expect_request("**/respond.js"):
        page.goto(address(running), wait_until="commit")
    expect(page.get_by_role("button", name="Begin")).to_have_count(0)
    held[0].continue_()
    expect(page.get_by_role("button", name="Begin")).to_be_visible()
    assert asked.count(document) == 1
