"""What the tests of the guide's last parts do with widgets."""

import math
import re

from playwright.sync_api import Locator, Page

DEVIATIONS = 5  # a normal variable is farther from its mean less than once in a million draws


def widget(page: Page, name: str) -> Locator:
    return page.locator(f'[data-widget="{name}"]')


def reading(place: Locator, name: str) -> str:
    """One of the named numbers of a widget."""
    return place.locator(f'.readings div:has(dt:text-is("{name}")) dd').inner_text()


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
