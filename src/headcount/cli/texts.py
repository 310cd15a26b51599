"""Parses the text of an option: numbers, shares, lists, labels, or NAME=VALUE."""

from typing import Any

from headcount.core import checks
from headcount.core.errors import InvalidParameter


def listed(text: str) -> list[str]:
    """The words between commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def labels_of(name: str, text: str) -> list[int | str]:
    """The labels between commas. They become integers if all of them are whole numbers. If one of
    them has a leading zero, such as 01, all labels stay text.
    """
    labels = [label.strip() for label in text.split(",")]
    whole = all(label.isdecimal() and (label == "0" or label[0] != "0") for label in labels)
    return [whole_number(name, label) for label in labels] if whole else [*labels]


def whole_number(name: str, text: str) -> int:
    """The whole number in a text. A text of more than 4,300 digits is refused, since Python does
    not convert it.
    """
    try:
        return int(text)
    except ValueError:
        raise InvalidParameter(
            f"`{name}` must have only whole numbers, got {checks.shown(text)}"
        ) from None


def number_of(name: str, text: str) -> float:
    """The number in a text. A whole number becomes an integer."""
    if text.lstrip("+-").isdecimal():
        return whole_number(name, text)
    try:
        return float(text)
    except ValueError:
        raise InvalidParameter(
            f"`{name}` must have only numbers, got {checks.shown(text)}"
        ) from None


def bound_of(text: str) -> float | str:
    """The number in a text, or the text itself, which may be a date or time."""
    try:
        return float(text)
    except ValueError:
        return text


def share(name: str, text: str) -> float:
    """The share in a text, which may be written as 10% or 0.1."""
    number = text.strip()
    try:
        return float(number[:-1]) / 100 if number.endswith("%") else float(number)
    except ValueError:
        raise InvalidParameter(f"`{name}` must be a share like 10% or 0.1, got {text!r}") from None


def options_of(given: list[str] | None) -> dict[str, Any]:
    """Options given as NAME=VALUE. Numbers, true and false are recognized."""
    options: dict[str, Any] = {}
    for pair in given or []:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidParameter(f"an option must be NAME=VALUE, got {pair!r}")
        if name in options:
            raise InvalidParameter(f"an option must be given once, got {name!r} twice")
        try:
            options[name] = float(value)
        except ValueError:
            options[name] = {"true": True, "false": False}.get(value.lower(), value)
    return options
