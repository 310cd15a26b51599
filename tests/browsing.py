"""A real browser for the tests: Debian's Chromium, driven by Playwright.

The client is written in TypeScript. `harness` bundles what the tests call in the
browser and in Node.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

PATIENCE = 120_000  # milliseconds that a test waits for anything, since machines may be busy
ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "browser"
_SWITCHES = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
expect.set_options(timeout=PATIENCE)


@cache
def harness() -> str:
    """The bundle of `browser/tests/harness.ts`, an ES module."""
    tool = FOLDER / "node_modules" / ".bin" / "esbuild"
    assert tool.exists(), "run `make browser` first"
    done = subprocess.run(
        [str(tool), "tests/harness.ts", "--bundle", "--format=esm", "--log-level=warning"],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser that runs during the block."""
    with sync_playwright() as running:
        path = shutil.which("chromium")
        assert path is not None, "run `make chromium` first"
        found = running.chromium.launch(executable_path=path, args=_SWITCHES, timeout=PATIENCE)
        try:
            yield found
        finally:
            found.close()


@contextmanager
def phone(browser: Browser, *, width: int = 375, **settings: Any) -> Iterator[BrowserContext]:
    """A device of its own, which remembers nothing. It is a phone, or wider."""
    told = {"locale": "en-US", "viewport": {"width": width, "height": 740}, **settings}
    made = browser.new_context(**told)
    made.set_default_timeout(PATIENCE)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def harness_page(browser: Browser) -> Iterator[Page]:
    """A page with the functions of the harness as `window.harness`.

    The page is at an address with HTTPS, since browsers encrypt nothing elsewhere. No request
    leaves the machine.
    """
    page = browser.new_page()
    page.route(
        "**/*",
        lambda route: (
            route.fulfill(body=harness(), content_type="text/javascript")
            if route.request.url.endswith(".js")
            else route.fulfill(body="<!doctype html><title>Tests</title>", content_type="text/html")
        ),
    )
    page.goto("https://tests.invalid/")
    page.evaluate("import('/harness.js').then((found) => { window.harness = found; })")
    try:
        yield page
    finally:
        page.close()


def in_node(function: str, calls: list[list[Any]]) -> list[Any]:
    """What a function of the harness returns in Node, for each list of arguments."""
    folder = Path(mkdtemp())
    try:
        (folder / "harness.mjs").write_text(harness())
        (folder / "calls.json").write_text(json.dumps(calls))
        (folder / "run.mjs").write_text(
            "import { readFileSync } from 'node:fs';\n"
            "import * as harness from './harness.mjs';\n"
            "const found = [];\n"
            "for (const call of JSON.parse(readFileSync('calls.json'))) {\n"
            f"  found.push(await harness.{function}(...call));\n"
            "}\n"
            "console.log(JSON.stringify(found));\n"
        )
        done = subprocess.run(
            ["node", "--no-warnings", "run.mjs"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert not done.returncode, done.stderr
        found: list[Any] = json.loads(done.stdout)
        return found
    finally:
        shutil.rmtree(folder)


def in_browser(page: Page, function: str, calls: list[list[Any]]) -> list[Any]:
    """What a function of the harness returns in the browser, for each list of arguments."""
    found: list[Any] = page.evaluate(
        "async ([name, calls]) => {"
        " const found = [];"
        " for (const call of calls) found.push(await window.harness[name](...call));"
        " return found; }",
        [function, calls],
    )
    return found


def serious(page: Page) -> list[str]:
    """What axe calls serious or critical."""
    tool = (FOLDER / "node_modules" / "axe-core" / "axe.min.js").read_text()
    found: list[dict[str, Any]] = page.evaluate(
        # Style sheets are not loaded again, since the policies of pages forbid requests for them.
        tool + "; axe.run({ preload: false }).then((found) => found.violations)"
    )
    return [
        f"{one['id']}: {one['nodes'][0]['html']}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


def check_view(page: Page) -> None:
    """A page is accessible, and no wider than the screen."""
    assert serious(page) == [], page.url
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), page.url
