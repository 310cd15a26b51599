"""Checks of parameters, shared by many classes.

The docstring of a check says which values are accepted. Most checks return the accepted value as a
plain Python type.
"""

import math
import reprlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.core.errors import InvalidParameter

_shorter = reprlib.Repr()
_shorter.maxstring = _shorter.maxother = 60


def shown(value: object) -> str:
    """A value of any kind as one short line, for error messages."""
    plain = value.item() if isinstance(value, np.generic) else value
    try:
        return " ".join(_shorter.repr(plain).split())
    except Exception:  # the object's repr failed, or a number has too many digits
        return f"a {type(value).__name__}"


def few(names: Sequence[object]) -> str:
    """The first few names of a list, for an error message."""
    return ", ".join(map(str, names[:5])) + ", …" * (len(names) > 5)


def a_task(names: str) -> str:
    """The name of a task, or several names, for an error message: "a count or histogram". A plural
    has no article: "boxes".
    """
    return names if names.split(maxsplit=1)[0].endswith("s") else f"a {names}"


def real(name: str, value: object) -> float:
    """A finite real number. Bools, strings and arrays are refused."""
    not_numbers = bool | np.bool_ | str | bytes | complex
    scalar = not isinstance(value, np.ndarray) or value.ndim == 0
    if isinstance(value, not_numbers) or not hasattr(value, "__float__") or not scalar:
        raise InvalidParameter(f"`{name}` must be a real number, got {shown(value)}")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameter(f"`{name}` must be a real number, got {shown(value)}") from None
    if not math.isfinite(number):
        raise InvalidParameter(f"`{name}` must be finite, got {number}")
    return number


def reals(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """A list of real numbers. The numbers may be infinite."""
    try:
        array = np.asarray(values)
    except ValueError:  # nested lists of different lengths
        array = np.empty(0, dtype=object)
    if array.ndim != 1 or array.dtype.kind not in "iuf":
        raise InvalidParameter(f"`{name}` must be a list of real numbers, got {shown(values)}")
    numbers = array.astype(np.float64)
    if np.isnan(numbers).any():
        raise InvalidParameter(f"`{name}` must not contain NaN")
    return numbers


def integer(name: str, value: object) -> int:
    """A whole number. 5.0 is accepted as 5, but True is refused."""
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        number = real(name, value)
        if not number.is_integer():
            raise InvalidParameter(f"`{name}` must be a whole number, got {shown(value)}")
        return int(number)
    try:
        index: int = value.__index__()
    except TypeError:  # an array that is not exactly one whole number
        raise InvalidParameter(f"`{name}` must be a whole number, got {shown(value)}") from None
    return index


def whole(name: str, value: object, *, low: int, high: int) -> int:
    """An integer in [low, high]."""
    number = integer(name, value)
    if not low <= number <= high:
        raise InvalidParameter(f"`{name}` must be between {low} and {high}, got {shown(number)}")
    return number


def confidence(value: object) -> float:
    """The confidence of an interval: a number strictly between 0 and 1."""
    number = real("confidence", value)
    if not 0 < number < 1:
        raise InvalidParameter(f"`confidence` must be strictly between 0 and 1, got {number}")
    return number


def share(name: str, value: object) -> float:
    """A share of the people: a number strictly between 0 and 1."""
    number = real(name, value)
    if not 0 < number < 1:
        raise InvalidParameter(f"`{name}` must be strictly between 0 and 1, got {number:g}")
    return number


def instance(name: str, value: object, kind: type) -> None:
    """Refuse a value that is not an instance of this class."""
    if not isinstance(value, kind):
        raise InvalidParameter(f"`{name}` must be a {kind.__name__}, got {shown(value)}")


def flag(name: str, value: object) -> bool:
    """True or False. Nothing else is accepted, not even 1."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidParameter(f"`{name}` must be True or False, got {shown(value)}")
    return bool(value)


def choice(name: str, value: object, choices: Sequence[str]) -> str:
    """One of the strings in `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidParameter(f"`{name}` must be one of {', '.join(choices)}, got {shown(value)}")
    return value


def is_utf8(text: str) -> bool:
    """Whether a text can be encoded as UTF-8. A text with unpaired surrogates cannot."""
    return text.encode(errors="replace").decode() == text
