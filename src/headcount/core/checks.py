"""Checks of parameters that several nouns share: they return the value in its plain type."""

import math
from collections.abc import Sequence

import numpy as np

from headcount.core.errors import InvalidParameter


def shown(value: object) -> str:
    """A value in a refusal; Python itself refuses to show numbers of thousands of digits."""
    try:
        return repr(value)
    except ValueError:
        return "a number of too many digits"


def real(name: str, value: object) -> float:
    """A finite real number; bools and strings are not numbers."""
    not_numbers = bool | np.bool_ | str | bytes | complex
    if isinstance(value, not_numbers) or not hasattr(value, "__float__"):
        raise InvalidParameter(f"`{name}` must be a real number, got {shown(value)}")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameter(f"`{name}` must be a real number, got {shown(value)}") from None
    if not math.isfinite(number):
        raise InvalidParameter(f"`{name}` must be finite, got {number}")
    return number


def whole(name: str, value: object, *, low: int, high: int) -> int:
    """An integer in [low, high]; 5.0 is taken for 5, and True is not a number."""
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        number = real(name, value)
        if not number.is_integer():
            raise InvalidParameter(f"`{name}` must be a whole number, got {shown(value)}")
        integer = int(number)
    else:
        integer = value.__index__()
    if not low <= integer <= high:
        raise InvalidParameter(f"`{name}` must be between {low} and {high}, got {shown(integer)}")
    return integer


def confidence(value: object) -> float:
    """Of an interval."""
    number = real("confidence", value)
    if not 0 < number < 1:
        raise InvalidParameter(f"`confidence` must lie strictly in (0, 1), got {number}")
    return number


def instance(name: str, value: object, kind: type) -> None:
    """One of our own nouns."""
    if not isinstance(value, kind):
        raise InvalidParameter(f"`{name}` must be a {kind.__name__}, got {shown(value)}")


def choice(name: str, value: object, choices: Sequence[str]) -> str:
    """One of a few words."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidParameter(f"`{name}` must be one of {', '.join(choices)}, got {shown(value)}")
    return value


def is_utf8(text: str) -> bool:
    """Whether a text has no half characters, which no file can hold."""
    return text.encode(errors="replace").decode() == text
