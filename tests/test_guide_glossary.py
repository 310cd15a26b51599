"""The glossary of the guide, its references, and its list of mistakes in circulation."""

import math
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, expect

from guide_pages import embedded, opened, unfold

ROOT = Path(__file__).parents[1]
PARTS = ROOT / "browser" / "guide" / "parts"
TERMS = (
    "ε (epsilon)", "δ (delta)", "neighbors", "central trust", "shuffle trust", "local trust",
    "shuffler", "analyzer", "curator", "randomizer", "standard error", "interval", "confidence",
    "unbiased", "hockey-stick divergence", "dominating pair", "blanket", "amplification", "honest",
    "influence", "budget", "composition", "wave", "view", "differential privacy",
)  # fmt: skip


# Glossary -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_term_has_one_sentence(browser: Browser) -> None:
    with opened(browser) as page:
        names = page.locator(".glossary dt").all_inner_texts()
        assert set(TERMS) <= set(names)
        ids = [term.get_attribute("id") for term in page.locator(".glossary dt").all()]
        assert ids == sorted(ids, key=str)
        assert len(set(ids)) == len(ids) == page.locator(".glossary dd").count()
        for entry in page.locator(".glossary dd").all():
            text = re.sub(r"\s*Part \d+\.$", "", entry.inner_text().strip())
            assert re.fullmatch(r"[A-ZW](?:[^.?!]|\.(?=\S))*\.", text, re.DOTALL), text


def test_links_of_the_page_lead_somewhere(browser: Browser) -> None:
    with opened(browser) as page:
        numbers = {int(part) for part in page.locator(".part .ordinal").all_inner_texts()}
        missing = page.evaluate(
            "[...document.querySelectorAll('a[href^=\"#\"]')].map((a) => a.hash.slice(1))"
            ".filter((id) => !document.getElementById(id))"
        )
        for target in missing:  # parts that are not written yet
            found = re.fullmatch(r"part-(\d+)", target)
            assert found, target
            assert int(found[1]) not in numbers
            assert int(found[1]) <= 12


@pytest.mark.slow
def test_terms_are_linked_where_they_are_first_used(browser: Browser) -> None:
    with opened(browser) as page:
        unfold(page)
        for name in page.locator(".glossary dt").all_inner_texts():
            used = page.locator(f".part:not(#glossary) em:text-is('{name}')")
            if used.count():
                link = used.first.locator("xpath=..")
                expect(link).to_have_class("term")
                link.press("Enter")
                expect(page.locator(".glossary dt:target")).to_have_text(name)
                assert page.locator(f".term:has(em:text-is('{name}'))").count() == 1


# References ---------------------------------------------------------------------------------------


class Reference(NamedTuple):
    authors: Sequence[str]
    year: str
    title: str
    venue: str
    parts: Sequence[int]


LINE = re.compile(
    r"- (?P<authors>[^\d.]+) (?P<year>\d{4})\. "
    r"(?:\*(?P<title>[^*]+)\*\. (?:(?P<venue>[A-Z]+)\. )?)?"
    r"[A-Z][^.]*\.(?: Parts? (?P<parts>[\d, and]+)\.)?"
)


@cache
def references() -> list[Reference]:
    text = (PARTS / "12-glossary.md").read_text()
    listed = text.partition("## References")[2].partition("## Mistakes")[0]
    lines = [line for line in listed.splitlines() if line.startswith("- ")]
    found = []
    for line in lines:
        match = LINE.fullmatch(line)
        assert match, line
        parts = [int(part) for part in re.findall(r"\d+", match["parts"] or "")]
        authors = match["authors"].split(", ")
        found.append(
            Reference(authors, match["year"], match["title"] or "", match["venue"] or "", parts)
        )
    return found


@cache
def sources() -> str:
    """The library and its documentation, in which texts of several lines are joined."""
    files = [*(ROOT / "src" / "headcount").rglob("*.py"), *(ROOT / "docs").glob("*.md")]
    text = "\n".join(
        path.read_text() for path in sorted(files) if "guide" not in path.relative_to(ROOT).parts
    )
    return re.sub(r"\s+", " ", re.sub(r"\"\s*\n\s*\"", "", text))


def cited(reference: Reference) -> str:
    """A pattern for the authors and the year in a text."""
    names = r"(?:,| and|, and) ".join(map(re.escape, reference.authors))
    return rf"{names}\W{{1,2}}{reference.year}"


def test_references_are_those_of_the_library() -> None:
    assert len(references()) > 30
    for reference in references():
        assert re.search(cited(reference), sources()), reference
        if reference.title:
            stated = f", {re.escape(reference.title)}"
            stated += rf" \({reference.venue}\)" if reference.venue else r"(?! \([A-Z]+\))"
            assert re.search(cited(reference) + stated, sources()), reference
        else:
            assert not re.search(cited(reference) + ", [A-Z][a-z]+ [A-Z]", sources()), reference


def test_references_name_the_parts_that_use_them() -> None:
    names = [reference.authors for reference in references()]
    paths = sorted(PARTS.glob("*.md"))
    complete = len(paths) == 12  # otherwise, some parts are not written yet
    for path in paths:
        number = int(path.name[:2])
        text = path.read_text()
        if number == 12:
            text = text.partition("## References")[0] + text.partition("## Mistakes")[2]
        for reference in references():
            alone = names.count(reference.authors) == 1
            joined = r"(?:,| and|, and)\s".join(map(re.escape, reference.authors))
            pattern = joined if alone else rf"{joined}[^.;]{{0,15}}{reference.year}"
            if re.search(pattern, text):
                assert number in reference.parts, (path.name, reference)
            elif complete:
                assert number not in reference.parts, (path.name, reference)


# Mistakes in circulation --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data() -> Any:
    return embedded()["glossary"]


def test_misplaced_one(data: Any) -> None:
    q = 1 / (1 + math.exp(1 / 2))
    assert data["moment"]["wrong"] == pytest.approx((q - 1) / (1 - 2 * q), rel=1e-12)


def test_lost_sign(data: Any) -> None:
    for row in data["bins"]:
        assert row["bins"] == round(row["people"] ** 0.25)
        assert row["wrong"] == pytest.approx(row["people"] ** -0.25)


def test_lost_n(data: Any) -> None:
    lemma = data["lemma"]
    n, gamma, alpha = lemma["trials"], lemma["gamma"], lemma["alpha"]
    assert lemma["distance"] == math.floor(alpha * gamma * n / 2)
    mean = gamma * n
    bound = math.exp(-(alpha**2) * mean / 8) + math.exp(-(alpha**2) * mean / (8 + 2 * alpha))
    assert lemma["delta"] == pytest.approx(bound)
    logs = [
        math.lgamma(n + 1)
        - math.lgamma(k + 1)
        - math.lgamma(n - k + 1)
        + k * math.log(gamma)
        + (n - k) * math.log1p(-gamma)
        for k in range(n + 1)
    ]
    epsilon = math.log((1 + alpha) / (1 - alpha))
    worst = 0.0
    for step in range(-lemma["distance"], lemma["distance"] + 1):
        if step:
            steep = [
                k
                for k in range(n + 1)
                if not 0 <= k + step <= n or logs[k] - logs[k + step] >= abs(step) * epsilon
            ]
            worst = max(worst, sum(math.exp(logs[k]) for k in steep))
    assert lemma["exact"] == pytest.approx(worst, rel=1e-6)
    assert lemma["exact"] < lemma["delta"]


def test_rates_of_densities(data: Any) -> None:
    people = data["density"]["people"]
    assert data["density"]["without_privacy"] == pytest.approx(people ** (-2 / 3))
    assert data["density"]["local"] == pytest.approx(people ** (-1 / 2))


def test_programs_show_that_ties_break_privacy(browser: Browser) -> None:
    with opened(browser) as page:
        unfold(page)
        shown = page.locator("#glossary samp").last.inner_text()
        assert shown.split("\n")[:2] == [
            "ties in both halves: True 4",
            "ties in both halves: False 3",
        ]
