"""What tests of the guide's widgets have in common: moving controls and reading numbers."""

import math
import re

from playwright.sync_api import Locator, Page, expect

from guide_pages import shown_number

DEVIATIONS = 5  # a normal variable is farther from its mean less than once in a million draws
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")


def reading(widget: Locator, name: str) -> str:
    """The value beside a name."""
    return widget.locator("dt").get_by_text(name, exact=True).locator("xpath=../dd").inner_text()


def slide(widget: Locator, name: str, place: int) -> None:
    """Move a slider to a place, counted from 0."""
    widget.get_by_role("slider", name=name, exact=True).fill(str(place))


def number_in(text: str) -> float:
    """The first number in a text, which may be written with a power of ten."""
    found = re.search(r"(?:(\S+) · )?10([⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+)", text)
    if not found:
        return shown_number(text)
    return shown_number(found[1] or "1") * 10.0 ** int(found[2].translate(_RAISED))


def table(widget: Locator, chart: int = 0) -> list[list[str]]:
    """The cells in the table of a chart's numbers."""
    numbers = widget.locator(".numbers").nth(chart)
    if numbers.get_attribute("open") is None:
        numbers.locator("summary").click()
    rows = numbers.locator("tbody tr")
    expect(rows.first).to_be_visible()
    return [row.locator("th, td").all_inner_texts() for row in rows.all()]


def widget(page: Page, name: str) -> Locator:
    return page.locator(f'[data-widget="{name}"]')


def said(place: Locator) -> str:
    """What the library says, in its own words."""
    return place.locator(".library-says samp").inner_text()


def numbers_in(text: str) -> list[float]:
    return [float(one.replace(",", "")) for one in re.findall(r"\d[\d,]*\.?\d*", text)]


def to(slider: Locator, at: int) -> None:
    """Move a slider with the keyboard alone."""
    slider.focus()
    slider.press("Home")
    for _ in range(at):
        slider.press("ArrowRight")


def near(count: float, trials: int, chance: float) -> bool:
    """Whether a count fits its probability. A count of something certain must be exact."""
    spread = math.sqrt(trials * chance * (1 - chance))
    return abs(count - trials * chance) <= max(DEVIATIONS * spread, 1e-9)


def raised(text: str, value: float) -> bool:
    """Whether a text shows this ε, rounded up to four digits."""
    [shown] = re.findall(r"ε = ([\d.]+)", text)
    return value * (1 - 1e-9) <= float(shown) <= value * (1 + 1e-3)
