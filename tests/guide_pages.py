"""The built guide, opened in Chromium from its folder, as `headcount guide` opens it."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page

from headcount.guide.files import FOLDER

PHONE, DESKTOP = {"width": 375, "height": 740}, {"width": 1280, "height": 900}


def embedded() -> Any:
    """The numbers that the page holds."""
    page = (FOLDER / "index.html").read_text()
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found, "run `make guide` first"
    return json.loads(found[1])


@contextmanager
def opened(
    browser: Browser, *, seed: int | None = 1, all_parts: bool = True, **settings: Any
) -> Iterator[Page]:
    """The guide without motion. Nothing may fail, and nothing may leave the machine.

    Its random bytes follow from `seed`. If this is None, they are the browser's. The browser lays
    out all parts. If `all_parts` is false, it does so for parts in sight alone, as for readers.
    """
    settings = {"viewport": DESKTOP, "reduced_motion": "reduce", "locale": "en-US", **settings}
    context = browser.new_context(**settings)
    context.set_default_timeout(60_000)
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda asked: wrong.append(asked.url) if _leaves(asked.url) else None)
    page.goto((FOLDER / "index.html").as_uri())
    if seed is not None:
        page.evaluate("(seed) => window.guide.seed(seed)", seed)
    if all_parts:
        page.evaluate(
            "document.querySelectorAll('.part').forEach("
            "(one) => { one.style.contentVisibility = 'visible'; })"
        )
    try:
        yield page
        assert not wrong
    finally:
        context.close()


def unfold(page: Page) -> None:
    """Open everything that is folded."""
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")


def _leaves(url: str) -> bool:
    return not url.startswith((FOLDER.as_uri(), "data:"))


def shown_number(text: str) -> float:
    """The first number in a text of the page."""
    found = re.search(r"[−-]?[\d,]*\.?\d+", text)
    assert found, text
    return float(found[0].replace(",", "").replace("−", "-"))
