"""Checks of people's values that several tasks share."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.core import checks
from headcount.core.errors import InvalidValue

_EXACT = 2**53  # below this number, a float stands for only one whole number


def vector(values: ArrayLike) -> NDArray[Any]:
    """Values as a non-empty vector of bools or numbers. Other data are refused."""
    array = _flat(values, "number")
    if array.dtype.kind not in "biuf":
        kind = "text" if array.dtype.kind in "US" else f"{array.dtype} data"
        raise InvalidValue(f"values must be numbers or true/false, got {kind}")
    return array


def check_exact(array: NDArray[Any], largest: float) -> None:
    """Refuse floats that may stand for several whole numbers, if `largest` is such a number.

    A single fraction turns a whole column into floats. Without this check, one person's value would
    change how other people's large numbers are read.
    """
    if array.dtype.kind != "f" or largest <= _EXACT:
        return
    exact = max(_EXACT, 2.0 ** (np.finfo(array.dtype).nmant + 1))  # some types have more digits
    if (np.abs(array) >= exact).any():
        raise InvalidValue(
            "whole numbers from 2^53 on must be stored as whole numbers, got floats, which round "
            "them"
        )


def moments(values: ArrayLike) -> NDArray[Any]:
    """Values as a non-empty vector of any type. The caller must check that they are dates."""
    return _flat(values, "date")


def words(values: ArrayLike) -> list[str]:
    """Values as a non-empty list of strings. Other data are refused.

    NumPy's own strings are not used. Each would take as much memory as the longest string, and
    would lose NUL characters at its end.
    """
    strings: list[Any] = _flat(values, "string", object).tolist()
    for one in strings:
        if not isinstance(one, str):
            raise InvalidValue(f"values must be strings, got {type(one).__name__} data")
    return strings


def array_of_counts(counts: object) -> NDArray[Any]:
    """Counts of people as an array. The caller must check that the numbers are valid counts."""
    try:
        return np.asarray(counts)
    except ValueError:
        return np.empty(0)  # nested lists of different lengths are not counts


def evenly(users: int, among: int) -> NDArray[np.int64]:
    """The counts of `users` people who are divided as evenly as possible among `among` values."""
    return np.diff(np.arange(among + 1) * users // among)


def _flat(values: ArrayLike, wanted: str, kind: type | None = None) -> NDArray[Any]:
    try:
        array = np.asarray(values, dtype=kind)
    except (ValueError, TypeError, OverflowError):
        raise InvalidValue(
            f"values must be a flat list of {wanted}s, got {type(values).__name__}"
        ) from None
    if array.ndim != 1:
        raise InvalidValue(
            f"values must be one {wanted} for each person, got an array of {array.ndim} dimensions"
        )
    if not array.size:
        raise InvalidValue("there must be a value of at least one person, got none")
    return array


def bad_value(
    array: Sequence[Any] | NDArray[Any], wrong: NDArray[np.bool_], allowed: str, first: int
) -> InvalidValue:
    at = int(np.argmax(wrong))
    more = int(np.count_nonzero(wrong)) - 1
    others = f", and {more} more like it" if more else ""
    person = first + at + 1
    return InvalidValue(
        f"every value must be {allowed}, got {checks.shown(array[at])} from person {person}{others}"
    )
