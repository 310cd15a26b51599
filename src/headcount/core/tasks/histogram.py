"""The number of people who hold each of several values."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.core import checks
from headcount.core.cached import cached_property
from headcount.core.errors import InvalidParameter, InvalidValue
from headcount.core.estimate import Answer
from headcount.core.task import Holding, Task, ValueKind
from headcount.core.tasks.uses import Uses
from headcount.core.values import bad_value, check_exact, vector, words

MOST_BUCKETS = 2**24


@dataclass(frozen=True, init=False)
class Histogram(Task):
    """How many people hold each of several values?

    `Histogram(20)` has the buckets 0 to 19, and `Histogram(["red", "green"])` has these labels as
    buckets. People may not hold any other value. With `open=True`, people may hold any string, or
    any whole number from 0 to 2^64 − 1, and `buckets` are the candidates to be counted. Few
    protocols answer an open histogram.
    """

    labels: tuple[int | str, ...] | int
    open: bool

    name = "histogram"
    error_unit = ", in a bucket (people)"
    postprocessing = ("clip", "norm-sub", "simplex")
    uses = Uses(sampling="binomial", comparison="share", shares="buckets", simultaneous=True)
    example_settings: ClassVar[Mapping[str, Any]] = MappingProxyType({"buckets": 20})
    whole_answers = True
    example_words = "people are spread evenly over the buckets"

    def __init__(self, buckets: int | Iterable[int | str], *, open: bool = False) -> None:  # noqa: A002
        opened = checks.flag("open", open)
        buckets = buckets.tolist() if isinstance(buckets, np.ndarray) else buckets
        if isinstance(buckets, str) or not isinstance(buckets, Iterable):
            labels: tuple[int | str, ...] | int = checks.whole(
                "buckets", buckets, low=1 if opened else 2, high=MOST_BUCKETS
            )
        else:
            labels = tuple(_label(bucket) for bucket in buckets)
            kinds = {type(label) for label in labels}
            if not 1 <= len(labels) <= MOST_BUCKETS or len(kinds) > 1:
                raise InvalidParameter(
                    f"`buckets` must be 1 to {MOST_BUCKETS} labels, all strings or all whole "
                    f"numbers, got {len(labels)} labels of {len(kinds)} types"
                )
            if len(set(labels)) < len(labels):
                raise InvalidParameter(
                    "`buckets` must be different from each other, got a duplicate"
                )
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "open", opened)
        if self.open and any(not 0 <= key < 2**64 for key in self.buckets if isinstance(key, int)):
            raise InvalidParameter(
                "`buckets` of an open histogram must be between 0 and 2^64 − 1, got other numbers"
            )
        if self.domain < 2:
            raise InvalidParameter(f"`buckets` must be at least 2 labels, got {list(self.buckets)}")

    def __str__(self) -> str:
        noun = "candidate" if self.open else "bucket"
        return f"Histogram of {len(self.buckets)} {noun}{'s' * (len(self.buckets) > 1)}"

    @property
    def settings(self) -> dict[str, Any]:
        labels = self.labels if isinstance(self.labels, int) else list(self.labels)
        return {"buckets": labels, "open": self.open}

    @property
    def buckets(self) -> Sequence[int | str]:
        return range(self.labels) if isinstance(self.labels, int) else self.labels

    @property
    def domain(self) -> int:
        """The number of buckets. In an open histogram, all other values form one more bucket."""
        return len(self.buckets) + self.open

    @property
    def allowed(self) -> str:
        if self.open:
            return "a word" if self._of_words else "a whole number from 0 to 2^64 − 1"
        if isinstance(self.labels, int):
            return f"a bucket from 0 to {self.labels - 1}"
        return f"one of {checks.few(self.labels)}"

    @property
    def value_kind(self) -> ValueKind:
        return "words" if self._of_words else "whole numbers"

    @property
    def listed_values(self) -> Sequence[int | str] | None:
        return None if self.open or isinstance(self.labels, int) else self.labels

    @property
    def numbered(self) -> bool:
        return not self.open

    @property
    def encoded_dtype(self) -> np.dtype[Any]:
        return np.dtype(np.uint64) if self.open else super().encoded_dtype

    @property
    def open_values(self) -> bool:
        return self.open

    @property
    def _of_words(self) -> bool:
        return isinstance(self.buckets[0], str)

    @cached_property
    def _order(self) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """The numeric labels in sorted order, and the index of each label's bucket."""
        labels = np.array(self.buckets)
        if labels.dtype.kind == "f":  # some labels are negative, others are 2^63 or more
            labels = np.array(self.buckets, dtype=object)
        order = np.argsort(labels)
        return labels[order], order

    @cached_property
    def _places(self) -> dict[int | str, int]:
        """The index of each label's bucket."""
        return {label: index for index, label in enumerate(self.buckets)}

    def encode(self, values: ArrayLike, *, first: int = 0) -> NDArray[Any]:
        """The index of each person's bucket, or a 64-bit key of the value in an open histogram."""
        if self._of_words:
            return self._encode_words(words(values), first)
        array = vector(values)
        if array.dtype.kind == "f" and not isinstance(values, np.ndarray):
            # NumPy turns a list with numbers on both sides of 2^63 into floats, which lose digits.
            exact = np.asarray(values, dtype=object)
            if all(isinstance(value, int) for value in exact):
                array = exact
        if isinstance(self.labels, int):
            if array.dtype == np.bool_:
                array = array.view(np.uint8)
            if array.dtype.kind in "iu" and array.min() >= 0 and array.max() < self.labels:
                return array.astype(self.encoded_dtype, copy=False)
        fits = self.fits(array)
        if not fits.all():
            raise bad_value(array, ~fits, self.allowed, first)
        if self.listed_values is not None:
            array = self._search(array)[0]
        return array.astype(self.encoded_dtype, copy=False)

    def fits(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        if self.listed_values is not None:
            return self._search(values)[1]
        kind = values.dtype.kind
        # From 2^53 on, a float may stand for several whole numbers.
        limit = (2**64 if kind in "iuO" else 2**53) if self.open else self.domain
        in_range: NDArray[np.bool_] = (values >= 0) & (values < limit)  # false for NaN
        return in_range & (values == np.floor(values)) if kind == "f" else in_range

    def _search(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The index of each number's bucket, and whether the number is a label at all."""
        labels, order = self._order
        check_exact(values, max(abs(int(labels[0])), abs(int(labels[-1]))))
        wanted = values
        # NumPy would compare such numbers as floats.
        if {labels.dtype.kind, values.dtype.kind} == {"i", "u"}:
            small = labels.dtype.kind == "i" and values.max(initial=0) < 2**63
            wanted = values.astype(np.int64 if small else object)
        nearest = np.minimum(np.searchsorted(labels, wanted), len(labels) - 1)
        return order[nearest], labels[nearest] == wanted

    def _encode_words(self, given: list[str], first: int) -> NDArray[Any]:
        if self.open:
            digests = {word: _digest(word) for word in dict.fromkeys(given)}
            joined = b"".join([digests[word] for word in given])
            return np.frombuffer(joined, dtype="<u8").astype(np.uint64)
        places = np.array([self._places.get(word, -1) for word in given])
        if (places < 0).any():
            raise bad_value(given, places < 0, self.allowed, first)
        return places.astype(self.encoded_dtype)

    @cached_property
    def keys(self) -> NDArray[np.uint64]:
        """The encoded values of the buckets."""
        return self.encode(list(self.buckets)).astype(np.uint64)

    def answer(self, held: Holding) -> Answer:
        return held.counts[: len(self.buckets)].astype(np.float64)

    def answer_range(self, users: int) -> tuple[float, float]:
        return 0.0, float(users)

    def total(self, users: int) -> float | None:
        return None if self.open else float(users)


def _digest(word: str) -> bytes:
    try:
        return hashlib.blake2b(word.encode(), digest_size=8).digest()
    except UnicodeEncodeError:
        raise InvalidValue(f"every value must be valid Unicode text, got {word!r}") from None


def _label(bucket: object) -> int | str:
    if isinstance(bucket, str) and bucket and checks.is_utf8(bucket):
        return str(bucket)
    if isinstance(bucket, bool | np.bool_) or not hasattr(bucket, "__index__"):
        shown = checks.shown(bucket)
        raise InvalidParameter(f"a bucket must be a word or a whole number, got {shown}")
    number = int(bucket.__index__())
    if abs(number) >= 2**64:
        raise InvalidParameter(
            f"a bucket must be a whole number between −2^64 and 2^64, got {checks.shown(number)}"
        )
    return number
