"""The question that is asked of the crowd, and which values may answer it."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.core import checks
from headcount.core.budget import MOST_USERS
from headcount.core.errors import InvalidParameter, InvalidValue
from headcount.core.estimate import Answer

MOST_BUCKETS = 2**24  # of which there can be a count each


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
    def answer(self, counts: NDArray[np.int64]) -> Answer:
        """The true answer for a crowd in which `counts[v]` people hold value v."""

    @property
    def buckets(self) -> Sequence[int | str] | None:
        """What the numbers of an answer belong to, where there are several."""
        return None

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

    def answer(self, counts: NDArray[np.int64]) -> Answer:
        return float(counts[1])

    def answer_range(self, users: int) -> tuple[float, float]:
        return 0.0, float(users)


@dataclass(frozen=True, init=False)
class Histogram(Task):
    """How many people hold each of some values?

    `Histogram(20)` has the buckets 0 to 19, `Histogram(["red", "green"])` these labels, and nobody
    may hold anything else. With `open=True` people may: any string, or any whole number from 0 to
    2^64 − 1, and `buckets` are only the candidates that are counted. Few protocols take that.
    """

    labels: tuple[int | str, ...] | int
    open: bool

    name = "histogram"
    whole_answers = True

    def __init__(self, buckets: int | Iterable[int | str], *, open: bool = False) -> None:  # noqa: A002
        if isinstance(buckets, str) or not isinstance(buckets, Iterable):
            labels: tuple[int | str, ...] | int = checks.whole(
                "buckets", buckets, low=1 if open else 2, high=MOST_BUCKETS
            )
        else:
            labels = tuple(_label(bucket) for bucket in buckets)
            kinds = {type(label) for label in labels}
            if not 1 <= len(labels) <= MOST_BUCKETS or len(kinds) > 1:
                raise InvalidParameter(
                    f"`buckets` must be 1 to {MOST_BUCKETS} labels, all strings or all whole "
                    f"numbers, got {len(labels)} of {len(kinds)} kinds"
                )
            if len(set(labels)) < len(labels):
                raise InvalidParameter(
                    "`buckets` must be different from each other, got some twice"
                )
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "open", bool(open))
        if self.open and any(not 0 <= key < 2**64 for key in self.buckets if isinstance(key, int)):
            raise InvalidParameter("`buckets` must be between 0 and 2^64 − 1 if open, got others")
        if self.domain < 2:
            raise InvalidParameter(f"`buckets` must be at least 2, got {list(self.buckets)}")

    @property
    def buckets(self) -> Sequence[int | str]:
        return range(self.labels) if isinstance(self.labels, int) else self.labels

    @property
    def domain(self) -> int:
        """The buckets; with open ones, anything else is one value more."""
        return len(self.buckets) + self.open

    @property
    def _of_strings(self) -> bool:
        return isinstance(self.buckets[0], str)

    @cached_property
    def _order(self) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """The labels, sorted, and where each stands among the buckets."""
        labels = np.array(self.buckets)
        order = np.argsort(labels)
        return labels[order], order

    def encode(self, values: ArrayLike, *, first: int = 0) -> NDArray[Any]:
        """The number of everybody's bucket; with open ones, a 64-bit key of the value itself."""
        if self.open:
            return self._keys(values, first)
        index = np.min_scalar_type(len(self.buckets) - 1)
        if isinstance(self.labels, int):
            array = _vector(values)
            if array.dtype == np.bool_:
                array = array.view(np.uint8)
            # NaN is in no range.
            wrong = ~((array >= 0) & (array < self.labels))
            if array.dtype.kind == "f":
                wrong |= array != np.floor(array)
            if wrong.any():
                raise _bad_value(array, wrong, f"a bucket from 0 to {self.labels - 1}", first)
            return array.astype(index, copy=False)
        array = _vector(values, strings=self._of_strings)
        labels, order = self._order
        at = np.minimum(np.searchsorted(labels, array), len(labels) - 1)
        wrong = labels[at] != array
        if wrong.any():
            shown = ", ".join(map(str, self.labels[:5])) + (", …" if len(self.labels) > 5 else "")
            raise _bad_value(array, wrong, f"one of {shown}", first)
        return order[at].astype(index)

    def _keys(self, values: ArrayLike, first: int) -> NDArray[np.uint64]:
        array = _vector(values, strings=self._of_strings)
        if self._of_strings:
            different, where = np.unique(array, return_inverse=True)
            digests = [hashlib.blake2b(str(s).encode(), digest_size=8).digest() for s in different]
            keys = np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)
            return keys[where]
        # A list with numbers on both sides of 2^63 becomes floats, which lose digits.
        exact = np.asarray(values, dtype=object)
        if array.dtype.kind == "f" and all(isinstance(value, int) for value in exact):
            array = exact
        most = 2**64 if array.dtype.kind in "iuO" else 2**53
        wrong = ~((array >= 0) & (array < most) & (array == array // 1)).astype(np.bool_)
        if wrong.any():
            raise _bad_value(array, wrong, "a whole number from 0 to 2^64 − 1", first)
        return array.astype(np.uint64)

    @cached_property
    def keys(self) -> NDArray[np.uint64]:
        """What the buckets themselves are encoded as."""
        return self.encode(list(self.buckets)).astype(np.uint64)

    def answer(self, counts: NDArray[np.int64]) -> Answer:
        return counts[: len(self.buckets)].astype(np.float64)

    def answer_range(self, users: int) -> tuple[float, float]:
        return 0.0, float(users)

    def __str__(self) -> str:
        return f"Histogram of {len(self.buckets)} {'candidates' if self.open else 'buckets'}"


def _label(bucket: object) -> int | str:
    if isinstance(bucket, str) and bucket:
        return str(bucket)
    if isinstance(bucket, bool | np.bool_) or not hasattr(bucket, "__index__"):
        raise InvalidParameter(f"a bucket must be a word or a whole number, got {bucket!r}")
    return int(bucket.__index__())


def _vector(values: ArrayLike, *, strings: bool = False) -> NDArray[Any]:
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


def _plain(value: Any) -> object:
    return value.item() if isinstance(value, np.generic) else value


def _bad_value(
    array: NDArray[Any], wrong: NDArray[np.bool_], allowed: str, first: int
) -> InvalidValue:
    at = int(np.argmax(wrong))
    more = int(np.count_nonzero(wrong)) - 1
    others = f", and {more} more like it" if more else ""
    person = first + at + 1
    return InvalidValue(
        f"every value must be {allowed}, got {_plain(array[at])!r} from person {person}{others}"
    )
