"""All numbers of the guide. They are the same every time."""

from collections.abc import Callable, Mapping
from typing import Any

from headcount.guide import (
    answers,
    breaking,
    colors,
    crowds,
    doorbell,
    glossary,
    guessing,
    means,
    measuring,
    mixing,
    planning,
    quiz,
    separation,
    shapes,
    smooth,
)

# The parts by their names in the prose, in the order of the page.
PARTS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "colors": colors.numbers,
    "doorbell": doorbell.numbers,
    "crowds": crowds.numbers,
    "guessing": guessing.numbers,
    "answers": answers.numbers,
    "shapes": shapes.numbers,
    "mixing": mixing.numbers,
    "smooth": smooth.numbers,
    "means": means.numbers,
    "separation": separation.numbers,
    "breaking": breaking.numbers,
    "measuring": measuring.numbers,
    "planning": planning.numbers,
    "quiz": quiz.numbers,
    "glossary": glossary.numbers,
}


def numbers() -> dict[str, Any]:
    """The numbers of every part, as values that JSON can hold."""
    return {name: compute() for name, compute in PARTS.items()}
