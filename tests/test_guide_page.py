"""The frame of the guide: it works from a folder, for everybody, and it is light."""

import gzip
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from browsing import serious
from guide_pages import DESKTOP, PHONE, opened, unfold
from headcount.guide.files import FOLDER

MOST_BYTES = 400_000
PARTS = Path(__file__).parents[1] / "browser/guide/parts"


def test_page_is_light() -> None:
    files = [path.read_bytes() for path in FOLDER.iterdir()]
    assert sum(len(gzip.compress(file)) for file in files) < MOST_BYTES


def test_page_has_a_strict_policy_and_nothing_inline() -> None:
    page = (FOLDER / "index.html").read_text()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert "default-src 'none'" in policy[1]
    assert "unsafe" not in policy[1]
    assert not re.search(r"<[^>]* style=", page)
    assert not re.search(r"<[^>]* on[a-z]+=", page)
    assert not re.search(r"(src|href)=\"(https?:)?//", page.partition("<main>")[0])
    scripts = re.findall(r"<script([^>]*)>", page)
    assert [("src=" in one, "application/json" in one) for one in scripts] == [
        (True, False),
        (False, True),
    ]


def test_parts_are_numbered_without_gaps() -> None:
    names = [path.stem for path in sorted(PARTS.iterdir())]
    assert [int(name[:2]) for name in names] == list(range(1, 13))
    page = (FOLDER / "index.html").read_text()
    shown = re.findall(r'<section class="part" id="([a-z]+)" aria-labelledby="part-(\d+)"', page)
    assert [f"{int(number):02}-{part}" for part, number in shown] == names


@pytest.mark.slow
@pytest.mark.parametrize(
    ("viewport", "scheme"),
    [
        pytest.param(PHONE, "dark", id="phone-dark"),
        pytest.param(DESKTOP, "light", id="desktop-light"),
        pytest.param(PHONE, "light", id="phone-light"),
        pytest.param(DESKTOP, "dark", id="desktop-dark"),
    ],
)
def test_page_is_for_everybody(browser: Browser, viewport: dict[str, int], scheme: str) -> None:
    """Everything is unfolded first. No formula is wider than a phone."""
    with opened(browser, viewport=viewport, color_scheme=scheme) as page:
        unfold(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        wide = page.evaluate(
            "[...document.querySelectorAll('.formula')].filter("
            "(one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)"
        )
        assert not wide
        page.evaluate("document.fonts.ready")
        unused = page.evaluate(
            "[...document.fonts].filter((one) => one.status !== 'loaded').map((one) => one.family)"
        )
        assert not unused
        assert not serious(page)


def test_links_lead_somewhere(browser: Browser) -> None:
    with opened(browser) as page:
        missing = page.evaluate(
            "[...document.querySelectorAll('a[href^=\"#\"]')].map((one) => one.hash.slice(1))"
            ".filter((name) => !document.getElementById(name))"
        )
        assert not missing
        names = page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
        assert len(names) == len(set(names))


def test_contents_lead_to_all_parts(browser: Browser) -> None:
    with opened(browser, all_parts=False) as page:
        parts = page.locator(".part")
        links = page.locator(".contents a")
        expect(links).to_have_count(parts.count())
        for at in range(parts.count()):
            links.nth(at).focus()
            page.keyboard.press("Enter")
            expect(links.nth(at)).to_have_attribute("aria-current", "true")
            assert page.evaluate("location.hash") == f"#{parts.nth(at).get_attribute('id')}"
            expect(page.locator(".progress")).to_contain_text(f"Part {at + 1} of {parts.count()}")
            for chart in parts.nth(at).locator(".reader:visible svg").all():
                expect(chart).not_to_be_empty()  # it is drawn when its part comes into sight
