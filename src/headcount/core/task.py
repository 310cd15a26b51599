"""The question that is asked of the crowd, and which values may answer it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.core.budget import MOST_USERS
from headcount.core.errors import InvalidValue


class Task(ABC):
    """A question. It knows its values; protocols see them only after `encode`."""

    name: ClassVar[str]
    whole_answers: ClassVar[bool]

    @property
    @abstractmethod
    def domain(self) -> int:
        """How many different values a person can hold."""

    @abstractmethod
    def encode(self, values: ArrayLike, *, first: int = 0) -> NDArray[Any]:
        """People's values as protocols take them; `InvalidValue` for one outside the domain.

        The result may share memory with `values`.

        `first` is how many people came before these, for the error's text.
        """

    @abstractmethod
    def answer_range(self, users: int) -> tuple[float, float]:
        """Between which bounds the answer lies, whatever the values of `users` people."""

    def check_counts(self, counts: ArrayLike) -> NDArray[np.int64]:
        """How many people hold each value of the domain, as a vector of int64."""
        array = np.asarray(counts)
        whole = array.dtype.kind in "iu" and array.shape == (self.domain,)
        if not whole or array.min() < 0 or not 1 <= sum(array.tolist()) <= MOST_USERS:
            raise InvalidValue(
                f"true counts must be {self.domain} whole numbers, none negative, of 1 to "
                f"{MOST_USERS} people (how many hold each value), got {counts!r}"
            )
        return array.astype(np.int64)


@dataclass(frozen=True)
class Count(Task):
    """How many people say yes? Values are 0 and 1, or False and True."""

    name = "count"
    whole_answers = True

    @property
    def domain(self) -> int:
        return 2

    def encode(self, values: ArrayLike, *, first: int = 0) -> NDArray[np.uint8]:
        array = _vector(values)
        if array.dtype == np.bool_:
            array = array.view(np.uint8)  # and checked as such: a bool may hold any byte
        if array.dtype == np.uint8:
            # The common case in bulk: one pass, no copy.
            if array.max() > 1:
                raise _bad_value(array, array > 1, "0 or 1", first)
            return array
        wrong = (array != 0) & (array != 1)
        if wrong.any():
            raise _bad_value(array, wrong, "0 or 1", first)
        return array.astype(np.uint8)

    def answer_range(self, users: int) -> tuple[float, float]:
        return 0.0, float(users)


def _vector(values: ArrayLike) -> NDArray[Any]:
    """Values as a non-empty vector of bools or numbers; an error that says what came instead."""
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        raise InvalidValue(
            f"values must be a flat list of numbers, got {type(values).__name__}"
        ) from None
    if array.ndim != 1:
        raise InvalidValue(
            f"values must be one number for each person, got an array of {array.ndim} dimensions"
        )
    if not array.size:
        raise InvalidValue("there must be a value of at least one person, got none")
    if array.dtype.kind not in "biuf":
        raise InvalidValue(f"values must be numbers or true/false, got {array.dtype} data")
    return array


def _bad_value(
    array: NDArray[Any], wrong: NDArray[np.bool_], allowed: str, first: int
) -> InvalidValue:
    at = int(np.argmax(wrong))
    more = int(np.count_nonzero(wrong)) - 1
    others = f", and {more} more like it" if more else ""
    person = first + at + 1
    return InvalidValue(
        f"every value must be {allowed}, got {array[at].item()!r} from person {person}{others}"
    )
