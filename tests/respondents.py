"""People who answer a survey in Chromium, with a real shuffler: the steps from the link to the
receipt.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, Page, expect

from asked import document
from collection import Service, free_port, shuffler
from headcount.collect import keys
from headcount.collect.document import Addresses, Document


def survey_of(
    folder: Path, privacy: dict[str, Any], questions: Sequence[dict[str, Any]], **settings: Any
) -> Document:
    """A survey whose services run on this machine. Its key is in the folder."""
    places = Addresses(*(f"http://127.0.0.1:{free_port()}" for _ in range(2)))
    return document(privacy, questions, keys.create(folder, None), places, **settings)


@contextmanager
def serving(folder: Path, survey: Document, **settings: str) -> Iterator[Service]:
    """A shuffler that runs during the block. It waits for people on a busy machine."""
    service = Service("shuffler", folder, survey, SETTINGS='{"body_seconds": 20}')
    service.start(**settings)
    try:
        yield service
    finally:
        service.kill()


def address(service: Service) -> str:
    return f"{service.url}/surveys/{service.survey.digest}/"


def opened(device: BrowserContext, service: Service, fragment: str = "") -> Page:
    page = device.new_page()
    page.goto(address(service) + fragment)
    return page


def press(page: Page, name: str) -> None:
    """Press a button."""
    page.get_by_role("button", name=name).click()


def to_questions(page: Page) -> None:
    page.get_by_label("I have read this").check()
    press(page, "Begin")


def choose(page: Page, labels: dict[int, str]) -> None:
    """Choose the answer with a label, for each number of a question."""
    for number, label in labels.items():
        page.locator(f"#question-{number}").get_by_label(label, exact=True).check()


def seal(page: Page) -> None:
    """From the questions to what leaves the device."""
    press(page, "Check my answers")
    press(page, "Randomize and seal")
    expect(page.get_by_role("heading", name="What leaves your device")).to_be_visible()


def thanked(page: Page) -> None:
    expect(page.get_by_role("heading", name="Thank you")).to_be_visible()


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
