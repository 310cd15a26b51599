"""The number of people who ticked each of several boxes."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.core import checks
from headcount.core.budget import MOST_USERS
from headcount.core.cached import cached_property
from headcount.core.errors import InvalidParameter, InvalidValue
from headcount.core.estimate import Answer
from headcount.core.task import Counts, Holding, Task, ValueKind
from headcount.core.tasks.uses import Uses
from headcount.core.values import array_of_counts, bad_value, evenly, vector

MOST_BOXES = 62
_MOST_LISTED = 2**20


@dataclass(frozen=True, init=False)
class Boxes(Task):
    """How many people ticked each of several boxes?

    `Boxes(["bus", "train", "car"])` has these labels, and `at_most=2` limits the ticks of each
    person. A person's value is a collection of labels, such as `["bus", "car"]`, or a row with 0 or
    1 for each box. It may also be a whole number that has a binary digit for each box. The last
    digit stands for the first box.
    """

    labels: tuple[str, ...]
    at_most: int

    name = "boxes"
    error_unit = ", in a box (people)"
    uses = Uses(shares="boxes")
    example_settings = MappingProxyType({"labels": [f"box {number}" for number in range(1, 11)]})
    whole_answers = True
    example_words = "everybody ticks one box, and people are spread evenly over the boxes"

    def __init__(self, labels: Iterable[str], at_most: int | None = None) -> None:
        given = [] if isinstance(labels, str) or not isinstance(labels, Iterable) else list(labels)
        words = [word for word in given if isinstance(word, str) and word and checks.is_utf8(word)]
        if not 1 <= len(given) <= MOST_BOXES or len(words) < len(given):
            raise InvalidParameter(
                f"`labels` must be 1 to {MOST_BOXES} words, got {checks.shown(labels)}"
            )
        if len(set(words)) < len(words):
            raise InvalidParameter("`labels` must be different from each other, got one twice")
        most = len(words) if at_most is None else at_most
        object.__setattr__(self, "labels", tuple(words))
        object.__setattr__(self, "at_most", checks.whole("at_most", most, low=1, high=len(words)))

    def __str__(self) -> str:
        limit = "" if self.at_most == len(self.labels) else f", at most {self.at_most} ticked"
        return f"Boxes: {len(self.labels)}{limit}"

    @property
    def settings(self) -> dict[str, Any]:
        return {"labels": list(self.labels), "at_most": self.at_most}

    @property
    def changed_boxes(self) -> int:
        """The largest number of boxes in which two values can differ."""
        return min(2 * self.at_most, len(self.labels))

    @property
    def buckets(self) -> Sequence[str]:
        return self.labels

    # What people may hold -----------------------------------------------------------------------

    @property
    def domain(self) -> int:
        return sum(math.comb(len(self.labels), ticks) for ticks in range(self.at_most + 1))

    @property
    def codes(self) -> Sequence[int]:
        """All encoded values, in order. Bit b of a code says whether box b is ticked."""
        if self.numbered:
            return range(self.domain)
        if self.domain > _MOST_LISTED:
            raise InvalidParameter(
                f"values must be given, since boxes are listed only if they have at most "
                f"{_MOST_LISTED} values, got {self}"
            )
        places = [1 << place for place in range(len(self.labels))]
        every = (combinations(places, ticks) for ticks in range(self.at_most + 1))
        return sorted(sum(ticked) for ticked in chain.from_iterable(every))

    @property
    def numbered(self) -> bool:
        return self.at_most == len(self.labels)

    @property
    def value_kind(self) -> ValueKind:
        return "collections"

    @property
    def encoded_dtype(self) -> np.dtype[Any]:
        return np.min_scalar_type((1 << len(self.labels)) - 1)

    @property
    def allowed(self) -> str:
        limit = "" if self.numbered else f"at most {self.at_most} of "
        return f"a collection of {limit}the boxes {checks.few(self.labels)}"

    @cached_property
    def _places(self) -> dict[str, int]:
        return {label: 1 << place for place, label in enumerate(self.labels)}

    def encode(self, values: ArrayLike, *, first: int = 0) -> NDArray[Any]:
        """A whole number for each person. Bit b says whether the person ticked box b."""
        people: Any = values
        if isinstance(values, np.ndarray) and values.ndim == 2:
            people = list(values)
        elif not isinstance(values, Collection) or isinstance(values, str | Mapping):
            raise InvalidValue(
                f"values must be a list of people's values, got {type(values).__name__}"
            )
        if not all(map(_is_collection, people)):
            return self._encode_numbers(vector(values), first)
        if not people:
            raise InvalidValue("there must be the value of at least one person, got none")
        codes = [self._code(value) for value in people]
        wrong = np.array([not self._fits(code) for code in codes])
        if wrong.any():
            raise bad_value([list(value) for value in people], wrong, self.allowed, first)
        return np.array(codes, dtype=self.encoded_dtype)

    def _encode_numbers(self, array: NDArray[Any], first: int) -> NDArray[Any]:
        fits = self.fits(array)
        if not fits.all():
            raise bad_value(array, ~fits, self.allowed, first)
        return array.astype(self.encoded_dtype)

    def fits(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        if values.ndim == 2:
            return np.array([self._fits(self._code(row)) for row in values], dtype=np.bool_)
        limit = 1 << len(self.labels)
        if values.dtype.kind == "f":  # from 2^53 on, a float may stand for several numbers
            whole = (values >= 0) & (values < min(limit, 2**53)) & (values == np.floor(values))
        else:
            whole = (values >= 0) & (values < limit)
        few: NDArray[np.bool_] = whole & (ticks_of(np.where(whole, values, 0)) <= self.at_most)
        return few

    def _code(self, value: Collection[Any]) -> int:
        """The code of a collection of labels, or of a row. It is −1 if the value is neither, or if
        a label is unknown or appears twice.
        """
        ticked = list(value)
        if all(isinstance(label, str) for label in ticked):
            known = all(label in self._places for label in ticked)
            different = len(set(ticked)) == len(ticked)
            return sum(self._places[label] for label in ticked) if known and different else -1
        bits = [tick == 1 for tick in ticked if not isinstance(tick, str) and tick in (0, 1)]
        if not len(bits) == len(ticked) == len(self.labels):
            return -1
        return sum(1 << place for place, bit in enumerate(bits) if bit)

    def _fits(self, code: int) -> bool:
        return code >= 0 and code.bit_count() <= self.at_most

    def holding(self, counts: Counts) -> Holding:
        """How many people hold each value. `counts` may map values to counts: {0b101: 30, 0: 7}. If
        it is a list, it must have a count for each possible value.
        """
        if not isinstance(counts, Mapping):
            held = super().holding(counts)
            return Holding(np.array(self.codes, dtype=self.encoded_dtype), held.counts)
        array = array_of_counts(list(counts.values()))
        whole = array.dtype.kind in "iu" and array.ndim == 1 and array.size > 0
        if not whole or array.min() < 0 or not 1 <= sum(array.tolist()) <= MOST_USERS:
            raise InvalidValue(
                f"true counts must be whole numbers, none negative, with a sum of 1 to "
                f"{MOST_USERS}, got {checks.shown(counts)}"
            )
        return Holding(self.encode(list(counts)), array.astype(np.int64))

    def example(self, users: int) -> Counts:
        each = evenly(users, len(self.labels)).tolist()
        return {1 << place: number for place, number in enumerate(each)}

    # What is answered ---------------------------------------------------------------------------

    def answer(self, held: Holding) -> Answer:
        return box_counts(held.values, len(self.labels), held.counts).astype(np.float64)

    def answer_range(self, users: int) -> tuple[float, float]:
        return 0.0, float(users)


def ticks_of(codes: NDArray[Any]) -> NDArray[np.int64]:
    """How many boxes are ticked in each of these codes."""
    return np.bitwise_count(codes.astype(np.uint64)).astype(np.int64)


def box_counts(
    codes: NDArray[Any], boxes: int, people: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """How many people ticked each box. people[i] people hold codes[i], by default one person."""
    numbers = codes.astype(np.uint64)
    ticked = ((numbers >> np.uint64(box)) & np.uint64(1) for box in range(boxes))
    times = np.int64(1) if people is None else people
    return np.array([int((box.astype(np.int64) * times).sum()) for box in ticked])


def _is_collection(value: object) -> bool:
    """Whether a value is a collection of labels, or a row of numbers."""
    return isinstance(value, Collection | np.ndarray) and not isinstance(value, str | bytes)
