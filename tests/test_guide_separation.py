"""Part 7 of the guide: the page lists all outcomes of small crowds, as the library does."""

import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from math import comb
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect

import headcount as hc
from guide_pages import embedded, opened, shown_number
from guide_widgets import reading, slide

Law = Mapping[Any, Fraction]
KINDS = ["One bit, may be a lie", "The two bits x and 1 − x", "Four bits with a gap"]


@pytest.fixture
def widget(browser: Browser) -> Iterator[Locator]:
    with opened(browser) as page:
        yield page.locator("[data-widget=enumeration]")


def response(x: int) -> Law:
    return {((x, 1),): Fraction(2, 3), ((1 - x, 1),): Fraction(1, 3)}


def both(x: int) -> Law:
    return {((x, 1), (1 - x, 1)): Fraction(1)}


def gap(never: int) -> Callable[[int], Law]:
    def law(x: int) -> Law:
        ones = [k for k in range(5) if not (x and k == never)]
        total = sum(comb(4, k) for k in ones)
        return {((0, 4 - k), (1, k)): Fraction(comb(4, k), total) for k in ones}

    return law


def library_ratio(law: Callable[[int], Law], people: int, delta: float) -> Fraction | None:
    return hc.exact_audit(law, [0, 1], users=people, view="shuffle", delta=delta).loss.ratio


def check(widget: Locator, law: Callable[[int], Law], people: int, delta: float) -> None:
    """Both readings of the page are those of the library."""
    ratio = library_ratio(law, people, delta)
    shown, epsilon = reading(widget, "e^ε, exactly"), reading(widget, "ε, rounded up")
    if ratio is None:
        assert (shown, epsilon) == ("infinite", "infinite")
        return
    if shown.startswith("about"):
        assert shown_number(shown) == pytest.approx(float(ratio), rel=1e-3)
    else:
        # The page's δ is the decimal fraction, and the library's is the nearest float.
        assert abs(Fraction(shown) - ratio) <= (1e-12 if delta else 0)
    loss = math.log(ratio)
    assert loss - 1e-9 <= shown_number(epsilon) <= loss + 1.01e-4


@pytest.mark.slow
def test_every_crowd_has_the_ratio_of_the_library(widget: Locator) -> None:
    for kind, law in zip(KINDS, (response, both, gap(2)), strict=True):
        widget.get_by_text(kind).click()
        for place, delta in enumerate((0.0, 0.01, 0.05)):
            slide(widget, "δ", place)
            for people in (1, 2, 3, 4, 5):
                slide(widget, "People", people - 1)
                check(widget, law, people, delta)
                assert reading(widget, "Pairs compared") == str(2 * people)


@pytest.mark.slow
def test_every_gap_has_the_ratio_of_the_library(widget: Locator) -> None:
    widget.get_by_text(KINDS[2]).click()
    for never in range(5):
        widget.get_by_role("radio", name=f"{never} one").check()
        for people in (1, 2, 4):
            slide(widget, "People", people - 1)
            check(widget, gap(never), people, 0.0)


def test_gap_is_asked_for_only_if_there_is_one(widget: Locator) -> None:
    gaps = widget.get_by_role("group", name="A person who holds 1 never sends")
    expect(gaps).to_be_hidden()
    widget.get_by_text(KINDS[2]).click()
    expect(gaps).to_be_visible()
    expect(gaps.get_by_role("radio", name="2 ones")).to_be_checked()
    widget.get_by_text(KINDS[1]).click()
    expect(gaps).to_be_hidden()


def test_one_person_without_a_shuffler(widget: Locator) -> None:
    """Only one bit that is sometimes a lie protects a person alone."""
    expected = [math.log(2), math.inf, math.inf]
    for kind, epsilon in zip(KINDS, expected, strict=True):
        widget.get_by_text(kind).click()
        shown = reading(widget, "ε without a shuffler")
        if epsilon < math.inf:
            assert epsilon <= shown_number(shown) <= epsilon + 1.01e-4
        else:
            assert shown == "infinite"


def test_words_name_the_event(widget: Locator) -> None:
    """Two ones prove that a person alone holds 0, which has the probability 6/16."""
    widget.get_by_text(KINDS[2]).click()
    slide(widget, "People", 0)
    said = widget.locator(".result")
    expect(said).to_contain_text("No ε is large enough.")
    expect(said).to_contain_text("the view shows 2 ones with probability 0.375.")
    expect(said).to_contain_text("the probability is 0.")
    widget.get_by_text(KINDS[1]).click()
    expect(said).to_contain_text("The view tells nothing.")


def test_chart_shows_both_laws(widget: Locator) -> None:
    """Four people send one bit each. The worst event is that nobody sends a one."""
    slide(widget, "People", 3)
    reader = widget.get_by_role("slider", name="Read the chart")
    reader.focus()
    reader.press("Home")
    text = reader.get_attribute("aria-valuetext") or ""
    # In the worst pair, the other three people hold 0, and "no ones" is the worst event.
    assert text.startswith("ones among all 4 bits 0")
    numbers = [float(part.split()[-1]) for part in text.partition(": ")[2].split(", ")]
    assert sorted(numbers) == pytest.approx([(2 / 3) ** 3 / 3, (2 / 3) ** 4], abs=1e-3)


def test_keyboard_moves_the_crowd(widget: Locator) -> None:
    people = widget.get_by_role("slider", name="People", exact=True)
    people.focus()
    before = reading(widget, "Pairs compared")
    widget.page.keyboard.press("ArrowRight")
    assert (before, reading(widget, "Pairs compared")) == ("4", "6")


def test_prose_has_the_numbers_of_the_library() -> None:
    found = embedded()["separation"]
    assert [row["ratio"] for row in found["response"]] == ["2"] * 5
    assert [row["ratio"] for row in found["gaps"][:4]] == ["infinite", "5/2", "125/64", "8/5"]
    assert found["least"] == "8/5"
    # One person at δ = 0.05: (2/3 − 1/20)/(1/3)
    assert found["loose"][0]["factor"] == pytest.approx(1.85)
