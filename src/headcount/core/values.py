"""Checks of people's values that several tasks share."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.core import checks
from headcount.core.errors import InvalidValue


def vector(values: ArrayLike, *, strings: bool = False) -> NDArray[Any]:
    """Values as a non-empty vector of strings, or of bools or numbers; or an error that says
    what came instead.
    """
    wanted = "string" if strings else "number"
    try:
        array = np.asarray(values)
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
    if strings:
        if array.dtype.kind == "O" and all(isinstance(value, str) for value in array):
            array = array.astype(np.str_)
        if array.dtype.kind not in "UT":
            raise InvalidValue(f"values must be strings, got {array.dtype} data")
    elif array.dtype.kind not in "biuf":
        raise InvalidValue(f"values must be numbers or true/false, got {array.dtype} data")
    return array


def bad_value(
    array: NDArray[Any], wrong: NDArray[np.bool_], allowed: str, first: int
) -> InvalidValue:
    at = int(np.argmax(wrong))
    more = int(np.count_nonzero(wrong)) - 1
    others = f", and {more} more like it" if more else ""
    person = first + at + 1
    return InvalidValue(
        f"every value must be {allowed}, got {checks.shown(array[at])} from person {person}{others}"
    )
