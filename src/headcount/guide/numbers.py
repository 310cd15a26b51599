"""All numbers of the guide. They are the same every time."""

from collections.abc import Callable, Mapping
from typing import Any

from headcount.guide import colors, crowds, doorbell, glossary, guessing, quiz

# The parts by their names in the prose, in the order of the page.
PARTS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "colors": colors.numbers,
    "doorbell": doorbell.numbers,
    "crowds": crowds.numbers,
    "guessing": guessing.numbers,
    "quiz": quiz.numbers,
    "glossary": glossary.numbers,
}


def numbers() -> dict[str, Any]:
    """The numbers of every part, as values that JSON can hold."""
    return {name: compute() for name, compute in PARTS.items()}
