"""The question that is asked of the crowd, and which values may answer it."""

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.core import checks
from headcount.core.budget import MOST_USERS
from headcount.core.cached import cached_property
from headcount.core.errors import InvalidParameter, InvalidValue
from headcount.core.estimate import Answer
from headcount.core.table import short
from headcount.core.values import bad_value, vector, words

MOST_BUCKETS = 2**24  # of which there can be a count each
MOST_WHOLE = 2**61  # in size, of the bounds of whole numbers
LEAST_REAL, MOST_REAL = 1e-150, 1e150  # in size, of bounds that are not 0
MOST_LEVELS = 2**40  # to which numbers are rounded
LEAST_SMOOTHNESS, MOST_SMOOTHNESS = 0.1, 4.0  # of densities
MOST_POINTS = 2**16


# How many people hold each value; for numbers within bounds, by value: {0.5: 1000, 2: 300}.
Counts: TypeAlias = ArrayLike | Mapping[float, int]


@dataclass(frozen=True, eq=False)
class Holding:
    """What a crowd holds: counts[j] people the (encoded) value values[j]."""

    values: NDArray[Any]
    counts: NDArray[np.int64]

    @property
    def users(self) -> int:
        return int(self.counts.sum())


class Task(ABC):
    """A question. It knows its values; protocols see them only after `encode`."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def whole_answers(self) -> bool:
        """Whether the answer is a whole number, or several."""

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
    def answer(self, held: Holding) -> Answer:
        """The true answer of a crowd that holds such values."""

    @property
    def numbered(self) -> bool:
        """Whether encoded values are the numbers 0, …, domain − 1."""
        return False

    @property
    def open_values(self) -> bool:
        """Whether people may hold values that are not declared."""
        return False

    @property
    def bounded(self) -> "Bounded | None":
        """The same question about numbers within bounds; None if it cannot be asked so."""
        return None

    @property
    def buckets(self) -> Sequence[int | str | float] | None:
        """What the numbers of an answer belong to, where there are several."""
        return None

    def total(self, users: int) -> float | None:
        """What the numbers of an answer add up to, where that is known beforehand."""
        return None

    @abstractmethod
    def answer_range(self, users: int) -> tuple[float, float]:
        """Between which bounds the answer lies, whatever the values of `users` people."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the name, and the settings as `task_from` takes them."""
        return {"name": self.name, **self._settings()}

    def _settings(self) -> dict[str, Any]:
        """The arguments that make the same task."""
        return {}

    def holding(self, counts: Counts) -> Holding:
        """How many people hold each value: here a number for every one of the domain, in order."""
        array = _array(counts)
        whole = array.dtype.kind in "iu" and array.shape == (self.domain,)
        if not whole or array.min() < 0 or not 1 <= sum(array.tolist()) <= MOST_USERS:
            raise InvalidValue(
                f"true counts must be {self.domain} whole numbers, none negative, of 1 to "
                f"{MOST_USERS} people (how many hold each value), got {checks.shown(counts)}"
            )
        return Holding(np.arange(self.domain), array.astype(np.int64))


def _array(counts: ArrayLike | Mapping[float, int]) -> NDArray[Any]:
    try:
        return np.asarray(counts)
    except ValueError:
        return np.empty(0)  # lists of different lengths are no counts


@dataclass(frozen=True)
class Count(Task):
    """How many people say yes? Values are 0 and 1, or False and True."""

    name = "count"
    whole_answers = True
    numbered = True

    def __str__(self) -> str:
        return "Count"

    @property
    def domain(self) -> int:
        return 2

    @property
    def bounded(self) -> "Bounded":
        return Sum(0, 1, whole=True)

    def encode(self, values: ArrayLike, *, first: int = 0) -> NDArray[np.uint8]:
        array = vector(values)
        if array.dtype == np.bool_:
            array = array.view(np.uint8)  # and checked as such: a bool may hold any byte
        if array.dtype == np.uint8:
            # The common case in bulk: one pass, no copy.
            if array.max() > 1:
                raise bad_value(array, array > 1, "0 or 1", first)
            return array
        wrong = (array != 0) & (array != 1)
        if wrong.any():
            raise bad_value(array, wrong, "0 or 1", first)
        return array.astype(np.uint8)

    def answer(self, held: Holding) -> Answer:
        return float(held.counts[1])

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
                    f"numbers, got {len(labels)} of {len(kinds)} kinds"
                )
            if len(set(labels)) < len(labels):
                raise InvalidParameter(
                    "`buckets` must be different from each other, got some twice"
                )
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "open", opened)
        if self.open and any(not 0 <= key < 2**64 for key in self.buckets if isinstance(key, int)):
            raise InvalidParameter("`buckets` must be between 0 and 2^64 − 1 if open, got others")
        if self.domain < 2:
            raise InvalidParameter(f"`buckets` must be at least 2, got {list(self.buckets)}")

    @property
    def buckets(self) -> Sequence[int | str]:
        return range(self.labels) if isinstance(self.labels, int) else self.labels

    @property
    def numbered(self) -> bool:
        return not self.open

    @property
    def open_values(self) -> bool:
        return self.open

    @property
    def domain(self) -> int:
        """The buckets; with open ones, anything else is one value more."""
        return len(self.buckets) + self.open

    @property
    def _of_strings(self) -> bool:
        return isinstance(self.buckets[0], str)

    @cached_property
    def _order(self) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """The labels that are numbers, sorted, and where each stands among the buckets."""
        labels = np.array(self.buckets)
        order = np.argsort(labels)
        return labels[order], order

    @cached_property
    def _places(self) -> dict[int | str, int]:
        """Where each label stands among the buckets."""
        return {label: at for at, label in enumerate(self.buckets)}

    def encode(self, values: ArrayLike, *, first: int = 0) -> NDArray[Any]:
        """The number of everybody's bucket; with open ones, a 64-bit key of the value itself."""
        if self.open:
            return self._keys(values, first)
        index = np.min_scalar_type(len(self.buckets) - 1)
        if isinstance(self.labels, int):
            array = vector(values)
            if array.dtype == np.bool_:
                array = array.view(np.uint8)
            if array.dtype.kind in "iu" and array.min() >= 0 and array.max() < self.labels:
                return array.astype(index, copy=False)
            # NaN is in no range.
            wrong = ~((array >= 0) & (array < self.labels))
            if array.dtype.kind == "f":
                wrong |= array != np.floor(array)
            if wrong.any():
                raise bad_value(array, wrong, f"a bucket from 0 to {self.labels - 1}", first)
            return array.astype(index, copy=False)
        given: list[str] | NDArray[Any]
        if self._of_strings:
            given = words(values)
            places = np.array([self._places.get(word, -1) for word in given])
            wrong = places < 0
        else:
            given = vector(values)
            labels, order = self._order
            at = np.minimum(np.searchsorted(labels, given), len(labels) - 1)
            places, wrong = order[at], labels[at] != given
        if wrong.any():
            raise bad_value(given, wrong, f"one of {checks.few(self.labels)}", first)
        return places.astype(index)

    def _keys(self, values: ArrayLike, first: int) -> NDArray[np.uint64]:
        if self._of_strings:
            given = words(values)
            digests = {word: _digest(word) for word in dict.fromkeys(given)}
            joined = b"".join([digests[word] for word in given])
            return np.frombuffer(joined, dtype="<u8").astype(np.uint64)
        array = vector(values)
        # A list with numbers on both sides of 2^63 becomes floats, which lose digits.
        exact = np.asarray(values, dtype=object)
        if array.dtype.kind == "f" and all(isinstance(value, int) for value in exact):
            array = exact
        most = 2**64 if array.dtype.kind in "iuO" else 2**53
        wrong = ~((array >= 0) & (array < most) & (array == array // 1)).astype(np.bool_)
        if wrong.any():
            raise bad_value(array, wrong, "a whole number from 0 to 2^64 − 1", first)
        return array.astype(np.uint64)

    @cached_property
    def keys(self) -> NDArray[np.uint64]:
        """What the buckets themselves are encoded as."""
        return self.encode(list(self.buckets)).astype(np.uint64)

    def _settings(self) -> dict[str, Any]:
        labels = self.labels if isinstance(self.labels, int) else list(self.labels)
        return {"buckets": labels, "open": self.open}

    def answer(self, held: Holding) -> Answer:
        return held.counts[: len(self.buckets)].astype(np.float64)

    def total(self, users: int) -> float | None:
        return None if self.open else float(users)

    def answer_range(self, users: int) -> tuple[float, float]:
        return 0.0, float(users)

    def __str__(self) -> str:
        return f"Histogram of {len(self.buckets)} {'candidates' if self.open else 'buckets'}"


def _as_whole(given: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Numbers as int64, and which of them are not whole; beyond all bounds stays beyond them."""
    if given.dtype == np.bool_:
        given = given.view(np.uint8)  # a bool may hold any byte
    beyond = 2 * MOST_WHOLE
    if given.dtype.kind == "f":
        given = given.astype(np.promote_types(given.dtype, np.float64), copy=False)
        wrong = (given != np.floor(given)) | np.isnan(given)
        near = np.where(wrong, 0.0, np.clip(given, -beyond, beyond))
        return near.astype(np.int64), wrong
    if given.dtype == np.uint64:
        given = np.minimum(given, np.uint64(beyond))
    return given.astype(np.int64), np.zeros(len(given), dtype=np.bool_)


def _exact(values: ArrayLike, given: NDArray[Any]) -> NDArray[Any]:
    """A list with numbers on both sides of 2^63 becomes floats, which lose digits."""
    listed = np.asarray(values, dtype=object).tolist()
    if not all(isinstance(value, int) for value in listed):
        return given
    beyond = 2 * MOST_WHOLE
    return np.array([min(max(value, -beyond), beyond) for value in listed], dtype=np.int64)


def _as_real(given: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Numbers as float64, and which of them are none."""
    if given.dtype == np.bool_:
        given = given.view(np.uint8)
    with np.errstate(over="ignore"):  # a longer float may be beyond all bounds
        array = given.astype(np.float64, copy=False)
    return array, np.isnan(array)


def _digest(word: str) -> bytes:
    try:
        return hashlib.blake2b(word.encode(), digest_size=8).digest()
    except UnicodeEncodeError:
        raise InvalidValue(f"every value must be whole characters, got {word!r}") from None


def _label(bucket: object) -> int | str:
    if isinstance(bucket, str) and bucket and checks.is_utf8(bucket):
        return str(bucket)
    if isinstance(bucket, bool | np.bool_) or not hasattr(bucket, "__index__"):
        shown = checks.shown(bucket)
        raise InvalidParameter(f"a bucket must be a word or a whole number, got {shown}")
    number = int(bucket.__index__())
    if abs(number) >= 2**64:
        raise InvalidParameter(
            f"a bucket must be a whole number below 2^64 in size, got {checks.shown(number)}"
        )
    return number


@dataclass(frozen=True, init=False)
class Bounded(Task):
    """Numbers between bounds that are known beforehand, both included.

    Real numbers, or with `whole=True` whole ones only. A value outside is an error, unless
    `clamp=True` moves it to the nearest bound.
    """

    low: float
    high: float
    whole: bool
    clamp: bool

    def __init__(
        self, low: float, high: float, *, whole: bool = False, clamp: bool = False
    ) -> None:
        whole, clamp = checks.flag("whole", whole), checks.flag("clamp", clamp)
        bounds: list[float] = []
        for name, bound in (("low", low), ("high", high)):
            if whole:
                bounds.append(checks.whole(name, bound, low=-MOST_WHOLE, high=MOST_WHOLE))
                continue
            number = checks.real(name, bound)
            if number and not LEAST_REAL <= abs(number) <= MOST_REAL:
                raise InvalidParameter(
                    f"`{name}` must be 0 or between {short(LEAST_REAL)} and {short(MOST_REAL)} "
                    f"in size, got {short(number)}"
                )
            bounds.append(number)
        if not bounds[0] < bounds[1]:
            raise InvalidParameter(f"`low` must be below `high`, got {low} and {high}")
        for name, value in zip(
            ("low", "high", "whole", "clamp"), (*bounds, bool(whole), bool(clamp)), strict=True
        ):
            object.__setattr__(self, name, value)

    def _settings(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def bounded(self) -> "Bounded":
        return self

    @property
    def domain(self) -> int:
        """The whole numbers; of reals, the most that are told apart."""
        return int(self.high) - int(self.low) + 1 if self.whole else MOST_LEVELS

    @property
    def span(self) -> Fraction:
        """From the lowest value to the highest."""
        return Fraction(self.high) - Fraction(self.low)

    def encode(self, values: ArrayLike, *, first: int = 0) -> NDArray[Any]:
        """The values themselves, as int64 or as float64."""
        given = vector(values)
        if self.whole and given.dtype.kind == "f" and not isinstance(values, np.ndarray):
            given = _exact(values, given)
        array: NDArray[Any]
        array, wrong = _as_whole(given) if self.whole else _as_real(given)
        if self.clamp:
            array = np.clip(array, self.low, self.high)
        else:
            wrong |= (array < self.low) | (array > self.high)
        if wrong.any():
            kind = "whole number" if self.whole else "number"
            raise bad_value(given, wrong, f"a {kind} from {self.low} to {self.high}", first)
        return array

    def holding(self, counts: Counts) -> Holding:
        """How many people hold each value, by the value: {0.5: 1000, 2: 300}."""
        if not isinstance(counts, Mapping) or not counts:
            raise InvalidValue(
                f"true counts of numbers must say how many people hold each value, as in "
                f"{{{short(self.low)}: 600, {short(self.high)}: 400}}, got {checks.shown(counts)}"
            )
        values = self.encode(list(counts))
        array = _array(list(counts.values()))
        whole = array.dtype.kind in "iu" and array.ndim == 1
        if not whole or array.min() < 0 or not 1 <= sum(array.tolist()) <= MOST_USERS:
            raise InvalidValue(
                f"true counts must be whole numbers, none negative, of 1 to {MOST_USERS} people, "
                f"got {checks.shown(counts)}"
            )
        return Holding(values, array.astype(np.int64))

    def divisor(self, users: int) -> int:
        """The number by which the sum of all values is divided to get the answer."""
        return 1

    def exact_sum(self, held: Holding) -> Fraction:
        """The exact sum of all values."""
        pairs = zip(held.values.tolist(), held.counts.tolist(), strict=True)
        return sum((Fraction(value) * count for value, count in pairs), Fraction(0))

    def __str__(self) -> str:
        kind = "whole numbers" if self.whole else "numbers"
        return f"{type(self).__name__} of {kind} from {self.low} to {self.high}"


@dataclass(frozen=True, init=False)
class Sum(Bounded):
    """What do people's numbers add up to? Bounds are explicit: `Sum(0, 120)`."""

    name = "sum"

    @property
    def whole_answers(self) -> bool:
        return self.whole

    def answer(self, held: Holding) -> Answer:
        return float(self.exact_sum(held))

    def answer_range(self, users: int) -> tuple[float, float]:
        return float(self.low * users), float(self.high * users)


@dataclass(frozen=True, init=False)
class Mean(Bounded):
    """What do people's numbers come to on average? Bounds are explicit: `Mean(0, 120)`."""

    name = "mean"
    whole_answers = False

    def divisor(self, users: int) -> int:
        return users

    def answer(self, held: Holding) -> Answer:
        return float(self.exact_sum(held) / held.users)

    def answer_range(self, users: int) -> tuple[float, float]:
        return float(self.low), float(self.high)


@dataclass(frozen=True, init=False)
class Density(Bounded):
    """How are people's numbers spread? The density of a population, of which they are a sample.

    `smoothness` is β: how often the density can be differentiated, the last time in part (Hölder
    or Sobolev). It decides, with the crowd and the budget and never with the data, how finely a
    protocol looks. The answer is the density in the middles of `points` equal steps from low to
    high.
    """

    smoothness: float
    points: int

    name = "density"
    whole_answers = False

    def __init__(
        self,
        low: float,
        high: float,
        smoothness: float = 1.0,
        *,
        points: int = 256,
        clamp: bool = False,
    ) -> None:
        super().__init__(low, high, clamp=clamp)
        found = checks.real("smoothness", smoothness)
        if not LEAST_SMOOTHNESS <= found <= MOST_SMOOTHNESS:
            raise InvalidParameter(
                f"`smoothness` must be between {LEAST_SMOOTHNESS} and {MOST_SMOOTHNESS}, "
                f"got {short(found)}"
            )
        object.__setattr__(self, "smoothness", found)
        object.__setattr__(self, "points", checks.whole("points", points, low=2, high=MOST_POINTS))

    def _settings(self) -> dict[str, Any]:
        settings = super()._settings()
        del settings["whole"]
        return settings

    def __str__(self) -> str:
        return f"{super().__str__()}, smoothness {short(self.smoothness)}"

    @cached_property
    def grid(self) -> NDArray[np.float64]:
        """Where the density is asked for."""
        middles = (np.arange(self.points) + 0.5) / self.points
        return self.low + float(self.span) * middles

    @property
    def buckets(self) -> Sequence[float]:
        return tuple(self.grid.tolist())

    def places(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Where values lie between low, which is 0, and high, which is 1."""
        return np.clip((values - self.low) / float(self.span), 0.0, 1.0)

    def answer(self, held: Holding) -> Answer:
        """Of the crowd itself, at the resolution of the grid."""
        steps = np.minimum(self.places(held.values) * self.points, self.points - 1).astype(int)
        counts = np.bincount(steps, held.counts, minlength=self.points)
        return counts / held.users * self.points / float(self.span)

    def answer_range(self, users: int) -> tuple[float, float]:
        """A density is not negative, but what smoothing makes of it may be."""
        return -math.inf, math.inf

    def total(self, users: int) -> float | None:
        return self.points / float(self.span)


TASKS: dict[str, type[Task]] = {kind.name: kind for kind in (Count, Sum, Mean, Histogram, Density)}


def task_from(document: object) -> Task:
    """The task that `Task.to_dict` wrote."""
    if not isinstance(document, Mapping) or document.get("name") not in TASKS:
        raise InvalidParameter(
            f"a task must have a name, one of {', '.join(TASKS)}, got {checks.shown(document)}"
        )
    settings = {str(key): value for key, value in document.items() if key != "name"}
    kind = TASKS[document["name"]]
    try:
        return kind(**settings)
    except TypeError:
        raise InvalidParameter(
            f"a {kind.name} must have its own settings, got {', '.join(settings) or 'none'}"
        ) from None
