"""The page on which people answer, on an emulated slow phone: Chromium, with a real shuffler.

The network has 1.6 Mbit/s and a round trip of 150 ms, and scripts run four times slower. Chromium
emulates both. Other work of the machine is not taken out.
"""

import gzip
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.comparison import Comparison
from benchmarks.surveys import campus
from headcount.collect.document import Addresses, Document
from headcount.collect.keys import PublicKey
from headcount.collect.page_files import FOLDER
from headcount.collect.pair import Pair
from headcount.core.budget import Trust

_VISITS = 10
_PATIENCE = 60_000  # milliseconds
_FILES = ("respond.html", "respond.css", "respond.js", "icon.svg")
_NETWORK = {"offline": False, "latency": 150, "downloadThroughput": 2e5, "uploadThroughput": 9e4}
# Adds a function that waits until an element is there and painted. It gives the time since the page
# was opened, in milliseconds.
_PAINTED = """window.painted = (wanted) => new Promise((done) => {
    const look = () => {
        if (!document.querySelector(wanted)) return false;
        watching.disconnect();
        requestAnimationFrame(() => setTimeout(() => done(performance.now())));
        return true;
    };
    const watching = new MutationObserver(look);
    if (!look()) watching.observe(document, { childList: true, subtree: true });
});
window.firstView = painted("#agree");"""
_PRESS = """async (wanted) => {
    const start = performance.now();
    document.querySelector("button.primary").click();
    return (await painted(wanted)) - start;
}"""
# To each question, the last answer. It may be "no answer".
_ANSWER = """() => {
    for (const one of document.querySelectorAll("fieldset")) {
        [...one.querySelectorAll("input")].at(-1).click();
    }
}"""


def pages() -> Iterator[Comparison]:
    """How soon the first question is shown, and how long it takes to randomize and to seal."""
    with tempfile.TemporaryDirectory() as folder, Pair.create(Path(folder), _survey) as running:
        running.start()
        survey = running.document
        visits = list(_visits(survey))
        first = min(shown + began for shown, began, _ in visits)
        sealed = min(took for *_, took in visits)
        phone = "slow phone"
        yield Comparison.of_times(
            f"first question of a survey of 12 questions, {phone}", first, "time allowed", 1, "≥ 1"
        )
        yield Comparison.of_times(
            f"randomize and seal 12 answers, {survey.messages} messages, {phone}", sealed,
            "time allowed", 1, "≥ 1",
        )  # fmt: skip
        contents = [survey.data, *((FOLDER / name).read_bytes() for name in _FILES)]
        weight = sum(len(gzip.compress(one)) for one in contents)
        yield Comparison(
            "weight of the page and of a document of 12 questions, compressed",
            f"{weight / 1000:.3g} kB", "weight allowed", "120 kB", 120_000 / weight, "≥ 1",
        )  # fmt: skip


def _survey(key: PublicKey, places: Addresses) -> Document:
    """Twelve questions, with every kind. People add the noise."""
    return Document.of(campus(Trust.SHUFFLE), key, places)


def _visits(survey: Document) -> Iterator[tuple[float, float, float]]:
    """Seconds until a new phone shows the first view, the first question, and sealed messages."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium")
    assert path is not None, "run `make chromium` first"
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for _ in range(_VISITS):
            phone = browser.new_context(viewport={"width": 375, "height": 740}, locale="en-US")
            yield _visit(phone, f"{survey.addresses.shuffler}/surveys/{survey.digest}/")
            phone.close()
        browser.close()


def _visit(phone: Any, address: str) -> tuple[float, float, float]:
    page = phone.new_page()
    page.set_default_timeout(_PATIENCE)
    devtools = phone.new_cdp_session(page)
    devtools.send("Network.enable")
    devtools.send("Network.emulateNetworkConditions", _NETWORK)
    devtools.send("Emulation.setCPUThrottlingRate", {"rate": 4})
    page.add_init_script(_PAINTED)
    page.goto(address)
    shown = page.evaluate("firstView")
    page.locator("#agree").check()
    began = page.evaluate(_PRESS, "#question-1")
    page.evaluate(_ANSWER)
    page.locator("button.primary").click()
    page.locator("dl").wait_for()
    sealed = page.evaluate(_PRESS, "details pre")
    return shown / 1000, began / 1000, sealed / 1000
