"""The page on which people answer: in Chromium, with a real shuffler."""

import gzip
import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from browsing import chromium, serious
from collection import Service, free_port, shuffler
from headcount.collect import keys
from headcount.collect.document import Addresses, Document
from headcount.collect.page_files import FOLDER as PAGES
from headcount.collect.page_files import export_page
from headcount.survey.file import survey_from
from headcount.survey.words import Odds

HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>{{7*7}}'
SURVEY = f"""
title = 'Health {HOSTILE}'
introduction = '''Five questions.

{HOSTILE}'''
contact = "javascript:alert(1)"
[privacy]
trust = "shuffle"
epsilon = 3
delta = 1e-3
least_people = 200
[[question]]
id = "smoke"
text = 'Do you smoke? {HOSTILE}'
kind = "yes-no"
[[question]]
id = "sex"
text = "What is your sex?"
kind = "choice"
choices = ["female", "male", '{HOSTILE}']
optional = true
[[question]]
id = "drugs"
text = "Which of these did you take?"
kind = "several"
choices = ["cannabis", "stimulants", "opioids"]
at_most = 2
[[question]]
id = "sleep"
text = "How well do you sleep?"
kind = "scale"
[[question]]
id = "partners"
text = "How many partners did you have?"
kind = "number"
low = 0
high = 9
whole = true
want = ["quantiles"]
optional = true
"""


PLACES = f"""
[[question]]
id = "places"
text = "Where have you been?"
kind = "several"
choices = {[f"place {number}" for number in range(20)]}
at_most = 2
"""
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
    pytest.param(
        '[privacy]\ntrust = "local"\nepsilon = 2\nleast_people = 200\n', is_random_set, id="local"
    ),
    pytest.param(
        '[privacy]\ntrust = "shuffle"\nnoise = "shuffler"\nepsilon = 3\ndelta = 1e-3\n'
        "least_people = 200\n",
        lambda messages: messages == [FILLER, "place 7"],
        id="shuffle",
        marks=pytest.mark.slow,
    ),
]


def survey_of(folder: Path, text: str, **settings: Any) -> Document:
    key = keys.create(folder, None)
    places = Addresses(*(f"http://127.0.0.1:{free_port()}" for _ in range(2)))
    return Document.of(survey_from(tomllib.loads(text)), key, places, **settings)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("page")
    service = Service("shuffler", folder, survey_of(folder, SURVEY))
    service.start()
    yield service
    service.kill()


@pytest.fixture
def device(browser: Browser) -> Iterator[BrowserContext]:
    """A phone of its own: a browser that remembers nothing."""
    made = browser.new_context(viewport={"width": 375, "height": 740}, locale="en-US")
    made.set_default_timeout(15_000)
    yield made
    made.close()


def address(service: Service) -> str:
    return f"{service.url}/surveys/{service.survey.digest}/"


def opened(device: BrowserContext, service: Service) -> Page:
    page = device.new_page()
    page.goto(address(service))
    return page


def to_questions(page: Page) -> None:
    page.get_by_label("I have read this").check()
    page.get_by_role("button", name="Begin").click()


def answer_all(page: Page) -> None:
    """Yes, male, stimulants, 4, and no number."""
    page.locator("#question-1").get_by_text("Yes", exact=True).click()
    page.locator("#question-2").get_by_text("male", exact=True).click()
    page.locator("#question-3").get_by_text("stimulants").click()
    page.locator("#question-4 label").nth(3).click()
    page.locator("#question-5").get_by_text("prefer not").click()


def to_sealed(page: Page) -> None:
    to_questions(page)
    answer_all(page)
    page.get_by_role("button", name="Check my answers").click()
    page.get_by_role("button", name="Randomize and seal").click()
    expect(page.get_by_role("heading", name="What leaves your device")).to_be_visible()


def send(page: Page, *, again: bool = False) -> None:
    page.get_by_role("button", name="Send again" if again else "Send").click()


def thanked(page: Page) -> None:
    expect(page.get_by_role("heading", name="Thank you")).to_be_visible(timeout=30_000)


def stored_responses(service: Service) -> int:
    return shuffler(service.folder).status(service.survey.digest).responses


def remembered(page: Page) -> list[dict[str, Any]]:
    """Everything that the device remembers about surveys, without the sealed bytes themselves."""
    found: list[dict[str, Any]] = page.evaluate(
        """async () => {
            const names = (await indexedDB.databases()).map((one) => one.name);
            if (!names.length) return [];
            const open = indexedDB.open(names[0]);
            await new Promise((done) => { open.onsuccess = done; });
            const ask = open.result.transaction('responses').objectStore('responses').getAll();
            await new Promise((done) => { ask.onsuccess = done; });
            open.result.close();
            return ask.result.map((one) => ({ ...one, sealed: one.sealed && one.sealed.length }));
        }"""
    )
    return found


# Answering ------------------------------------------------------------------------------------


def test_a_person_answers_once(device: BrowserContext, running: Service) -> None:
    page, survey = opened(device, running), running.survey
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    before = stored_responses(running)
    to_sealed(page)
    kept = {"digest": survey.digest, "epsilon": survey.guarantee.epsilon}
    size = survey.response_bytes
    assert remembered(page) == [{**kept, "sealed": size, "accepted": False}]
    expect(page.get_by_text(f"{survey.messages} sealed messages")).to_be_visible()
    expect(page.get_by_text("male", exact=True)).to_be_visible()
    bodies: list[bytes | None] = []
    page.on("request", lambda request: bodies.append(request.post_data_buffer))
    send(page)
    thanked(page)
    assert [len(body or b"") for body in bodies] == [size]
    assert stored_responses(running) == before + 1
    assert remembered(page) == [{**kept, "sealed": None, "accepted": True}]
    assert {url.split("/")[2] for url in asked} <= {survey.addresses.shuffler.split("/")[2]}
    again = opened(device, running)
    expect(again.get_by_role("heading", name="You have already answered")).to_be_visible()
    assert not again.get_by_role("button", name="Begin").count()


def test_nothing_is_stored_before_consent(device: BrowserContext, running: Service) -> None:
    page = opened(device, running)
    expect(page.get_by_role("button", name="Begin")).to_be_visible()

    def left() -> list[Any]:
        stored = page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]")
        databases = page.evaluate("indexedDB.databases()")
        return [*stored, len(databases), len(device.cookies())]

    assert left() == [0, 0, "", 0, 0]
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_text("Please agree before you begin")).to_be_visible()
    to_questions(page)
    answer_all(page)
    page.get_by_role("button", name="Check my answers").click()
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
    send(page)
    expect(page.get_by_text("stay on this device")).to_be_visible()
    page.reload()
    expect(page.get_by_text("sealed your answers earlier")).to_be_visible()
    send(page)
    expect(page.get_by_text("stay on this device")).to_be_visible()

    def lost_on_the_way_back(route: Route) -> None:
        bodies.append(route.request.post_data_buffer)
        route.fetch()  # the shuffler stores it, but the device never learns
        route.abort()

    page.unroute("**/responses")
    page.route("**/responses", lost_on_the_way_back)
    send(page, again=True)
    expect(page.get_by_role("button", name="Send again")).to_be_visible()
    page.unroute("**/responses")
    send(page, again=True)
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
    second.get_by_role("button", name="Check my answers").click()
    second.get_by_role("button", name="Randomize and seal").click()
    expect(second.get_by_text("has already answered this survey")).to_be_visible()
    assert len(remembered(second)) == 1


def test_incomplete_answers_are_named(device: BrowserContext, running: Service) -> None:
    page = opened(device, running)
    to_questions(page)
    page.locator("#question-5 input[type=number]").fill("9.5")
    for label in ("cannabis", "stimulants", "opioids"):
        page.locator("#question-3").get_by_text(label).click()
    page.get_by_role("button", name="Check my answers").click()
    expect(page.get_by_text("5 questions need your attention")).to_be_visible()
    expect(page.locator(".problems")).to_be_focused()
    expect(page.get_by_text("Please choose at most 2.")).to_be_visible()
    expect(page.get_by_text("Please enter a whole number from 0 to 9.")).to_be_visible()
    page.get_by_role("link", name="How well do you sleep?").click()
    assert page.evaluate("document.activeElement.closest('fieldset').id") == "question-4"


def test_a_keyboard_is_enough(device: BrowserContext, running: Service) -> None:
    page = opened(device, running)
    expect(page.get_by_role("button", name="Begin")).to_be_visible()

    def press(*names: str) -> None:
        for name in names:
            page.keyboard.press(name)

    press("Tab", "Space", "Tab", "Enter")  # agree, begin
    expect(page.locator("#question-1")).to_be_visible()
    press("Tab", "Space")  # yes
    press("Tab", "ArrowDown")  # male, the second choice
    press("Tab", "Tab", "Space", "Tab")  # the second box
    press("Tab", "ArrowRight")
    press("Tab", "3", "Tab", "Tab", "Enter")  # a number, and check
    expect(page.get_by_role("heading", name="Your answers")).to_be_focused()
    expect(page.get_by_text("stimulants")).to_be_visible()
    press("Tab", "Tab", "Enter")
    expect(page.get_by_role("heading", name="What leaves your device")).to_be_focused()
    press("Tab", "Tab", "Enter")
    thanked(page)


@pytest.mark.parametrize(("privacy", "said"), BOXES)
def test_boxes_are_filled_up(
    browser: Browser, tmp_path: Path, privacy: str, said: Callable[[list[str]], bool]
) -> None:
    """A person ticks one of two allowed places. Nothing tells how many were ticked."""
    service = Service("shuffler", tmp_path, survey_of(tmp_path, privacy + PLACES))
    service.start()
    with killed(service):
        device = browser.new_context(locale="en-US")
        page = opened(device, service)
        to_questions(page)
        page.get_by_text("place 7", exact=True).click()
        page.get_by_role("button", name="Check my answers").click()
        page.get_by_role("button", name="Randomize and seal").click()
        expect(page.get_by_role("heading", name="What leaves your device")).to_be_visible()
        assert said(page.locator(".messages li").all_inner_texts())
        send(page)
        thanked(page)
        assert stored_responses(service) == 1
        device.close()


def test_the_page_speaks_german(browser: Browser, running: Service) -> None:
    device = browser.new_context(locale="de-AT")
    page = opened(device, running)
    expect(page.get_by_role("heading", name="Wer was sehen kann")).to_be_visible()
    assert page.evaluate("document.documentElement.lang") == "de"
    page.get_by_role("button", name="English").click()
    expect(page.get_by_role("heading", name="Who can see what")).to_be_visible()
    device.close()


@pytest.mark.slow
def test_codes_are_asked_for(browser: Browser, tmp_path: Path) -> None:
    text = SURVEY[: SURVEY.index('[[question]]\nid = "sex"')]
    service = Service("shuffler", tmp_path, survey_of(tmp_path, text, admission="codes"))
    service.start()
    try:
        device = browser.new_context(locale="en-US")
        page = device.new_page()
        page.goto(address(service) + "#code=wrong")
        to_questions(page)
        page.locator("#question-1").get_by_text("Yes", exact=True).click()
        page.get_by_role("button", name="Check my answers").click()
        page.get_by_role("button", name="Randomize and seal").click()
        expect(page.get_by_label("Invitation code")).to_have_value("wrong")
        send(page)
        expect(page.get_by_text("This invitation code is unknown")).to_be_visible()
        device.close()
    finally:
        service.kill()


class Quiet(SimpleHTTPRequestHandler):
    """A site that logs nothing."""

    def log_message(self, *words: Any) -> None:
        pass


@contextmanager
def killed(service: Service) -> Iterator[None]:
    """Kill a service after the block."""
    try:
        yield
    finally:
        service.kill()


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
    text = SURVEY[: SURVEY.index('[[question]]\nid = "sex"')]
    service = Service("shuffler", tmp_path, survey_of(tmp_path, text))
    folder = tmp_path / "site"
    place_in_folder = export_page(service.survey, folder)
    with site(folder) as known, site(folder) as other, killed(service):
        service.start(HEADCOUNT_SHUFFLER_SITES=known)
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
        device = browser.new_context(locale="en-US")
        page = device.new_page()
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.goto(f"{known}/{place_in_folder}")
        to_questions(page)
        page.locator("#question-1").get_by_text("Yes", exact=True).click()
        page.get_by_role("button", name="Check my answers").click()
        page.get_by_role("button", name="Randomize and seal").click()
        send(page)
        thanked(page)
        device.close()
        assert stored_responses(service) == 2
        assert said == []


# Safety ---------------------------------------------------------------------------------------


def test_hostile_texts_are_only_shown(device: BrowserContext, running: Service) -> None:
    page = opened(device, running)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
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
    device = browser.new_context(
        viewport={"width": width, "height": 740},
        color_scheme=scheme,
        locale="en-US",
        bypass_csp=True,  # otherwise axe could not be loaded
    )
    page = opened(device, running)
    expect(page.get_by_role("button", name="Begin")).to_be_visible()

    def check() -> None:
        assert serious(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    page.get_by_text("Technical details").click()
    check()
    to_questions(page)
    page.get_by_role("button", name="Check my answers").click()
    check()
    answer_all(page)
    page.get_by_role("button", name="Check my answers").click()
    check()
    page.get_by_role("button", name="Randomize and seal").click()
    page.get_by_text("The very bytes").click()
    check()
    send(page)
    thanked(page)
    check()
    device.close()


def test_the_odds_are_those_of_the_plan(device: BrowserContext, running: Service) -> None:
    page = opened(device, running)
    design: Any = running.survey.design
    assert Odds.of(design).sentence in page.locator(".odds").inner_text()


def test_the_page_is_light_and_quick(device: BrowserContext, running: Service) -> None:
    names = ("respond.html", "respond.css", "respond.js", "icon.svg")
    size = sum(len(gzip.compress((PAGES / name).read_bytes())) for name in names)
    assert size + len(gzip.compress(running.survey.data)) < 60_000
    page = device.new_page()
    session = device.new_cdp_session(page)
    session.send("Network.enable")
    # A phone with 1.6 Mbit/s and a round trip of 150 ms.
    session.send(
        "Network.emulateNetworkConditions",
        {"offline": False, "latency": 150, "downloadThroughput": 200_000, "uploadThroughput": 9e4},
    )
    page.goto(address(running))
    expect(page.get_by_role("button", name="Begin")).to_be_visible()
    ready = page.evaluate(
        "performance.getEntriesByType('resource').find((one) => one.name.endsWith('"
        f"{running.survey.digest}')).responseEnd"
    )
    assert ready < 4_000  # on a busy machine; about 900 ms on an idle one


def test_sealing_is_quick(device: BrowserContext, running: Service) -> None:
    page = opened(device, running)
    to_questions(page)
    answer_all(page)
    page.get_by_role("button", name="Check my answers").click()

    start = page.evaluate("performance.now()")
    page.get_by_role("button", name="Randomize and seal").click()
    expect(page.get_by_role("heading", name="What leaves your device")).to_be_visible()
    took = page.evaluate("performance.now()") - start
    assert took < 5_000  # on a busy machine; about 200 ms on an idle one
