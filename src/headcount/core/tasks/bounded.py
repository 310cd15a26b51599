"""The sum and the mean of people's numbers, which lie within known bounds."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.core import checks
from headcount.core.budget import MOST_USERS
from headcount.core.errors import InvalidParameter, InvalidValue
from headcount.core.estimate import Answer
from headcount.core.table import short
from headcount.core.task import Counts, Holding, Task, ValueKind
from headcount.core.tasks.uses import Uses
from headcount.core.values import array_of_counts, bad_value, check_exact, vector

MOST_WHOLE = 2**61  # the largest absolute value of a bound of whole numbers
LEAST_REAL, MOST_REAL = 1e-150, 1e150  # limits on the absolute value of a nonzero real bound
MOST_LEVELS = 2**40  # real numbers are rounded to at most this many equally spaced levels


@dataclass(frozen=True, init=False)
class Bounded(Task):
    """A question about numbers between two bounds. The bounds themselves are allowed values.

    The bounds are public. With `whole=True`, values must be whole numbers. A value outside the
    bounds is an error, unless `clamp=True` moves it to the nearest bound.
    """

    low: float
    high: float
    whole: bool
    clamp: bool

    example_settings = MappingProxyType({"low": 0.0, "high": 1.0})
    example_words = "half of the people hold the lowest value, and half hold the highest"

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
                    f"in absolute value, got {short(number)}"
                )
            bounds.append(number)
        if not bounds[0] < bounds[1]:
            raise InvalidParameter(f"`low` must be below `high`, got {low} and {high}")
        for name, value in zip(
            ("low", "high", "whole", "clamp"), (*bounds, bool(whole), bool(clamp)), strict=True
        ):
            object.__setattr__(self, name, value)

    @property
    def settings(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def bounded(self) -> "Bounded":
        return self

    @property
    def domain(self) -> int:
        """The number of integers within the bounds. For real numbers, it is the largest number of
        levels to which they are rounded.
        """
        return int(self.high) - int(self.low) + 1 if self.whole else MOST_LEVELS

    @property
    def allowed(self) -> str:
        return f"a {'whole ' * self.whole}number from {self.low} to {self.high}"

    @property
    def value_kind(self) -> ValueKind:
        return "whole numbers" if self.whole else "real numbers"

    @property
    def encoded_dtype(self) -> np.dtype[Any]:
        return np.dtype(np.int64 if self.whole else np.float64)

    @property
    def span(self) -> Fraction:
        """The difference between the highest and the lowest value."""
        return Fraction(self.high) - Fraction(self.low)

    def encode(self, values: ArrayLike, *, first: int = 0) -> NDArray[Any]:
        """The values themselves, as int64 if they are whole numbers, or else as float64."""
        given = self._given(values)
        if self._all_fit(given):
            return given
        array, wrong = self._read(given)
        if wrong.any():
            raise bad_value(given, wrong, self.allowed, first)
        return array

    def _all_fit(self, given: NDArray[Any]) -> bool:
        """Whether all numbers are allowed and need no conversion. This check is fast. It returns
        False for numbers of another type, even if they are allowed.
        """
        right = given.dtype == self.encoded_dtype and len(given) > 0
        return right and bool(self.low <= given.min() and given.max() <= self.high)

    def fits(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        return ~self._read(values)[1]

    def _given(self, values: ArrayLike) -> NDArray[Any]:
        """The values as a vector. They may still be outside the bounds."""
        given = vector(values)
        if self.whole and given.dtype.kind == "f" and not isinstance(values, np.ndarray):
            given = _exact(values, given)
        return given

    def _read(self, given: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The encoded numbers, and a mask of the numbers that are not allowed."""
        array: NDArray[Any]
        if self.whole:
            check_exact(given, max(abs(self.low), abs(self.high)))
        array, wrong = _as_whole(given) if self.whole else _as_real(given)
        if self.clamp:
            return np.clip(array, self.low, self.high), wrong
        wrong |= (array < self.low) | (array > self.high)
        return array, wrong

    def holding(self, counts: Counts) -> Holding:
        """How many people hold each value. `counts` maps values to counts: {0.5: 1000, 2: 300}."""
        if not isinstance(counts, Mapping) or not counts:
            raise InvalidValue(
                f"true counts of numbers must say how many people hold each value, as in "
                f"{{{short(self.low)}: 600, {short(self.high)}: 400}}, got {checks.shown(counts)}"
            )
        values = self.encode(list(counts))
        array = array_of_counts(list(counts.values()))
        whole = array.dtype.kind in "iu" and array.ndim == 1
        if not whole or array.min() < 0 or not 1 <= sum(array.tolist()) <= MOST_USERS:
            raise InvalidValue(
                f"true counts must be whole numbers, none negative, with a sum of 1 to "
                f"{MOST_USERS}, got {checks.shown(counts)}"
            )
        return Holding(values, array.astype(np.int64))

    def example(self, users: int) -> Counts:
        return {self.low: users - users // 2, self.high: users // 2}

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
    """What is the sum of people's numbers? Their bounds must be given: `Sum(0, 120)`."""

    name = "sum"
    uses = Uses(instead="mean")

    @property
    def whole_answers(self) -> bool:
        return self.whole

    def answer(self, held: Holding) -> Answer:
        return float(self.exact_sum(held))

    def answer_range(self, users: int) -> tuple[float, float]:
        return float(self.low * users), float(self.high * users)


@dataclass(frozen=True, init=False)
class Mean(Bounded):
    """What is the mean of people's numbers? Their bounds must be given: `Mean(0, 120)`."""

    name = "mean"
    uses = Uses(sampling="widest", comparison="mean")
    whole_answers = False

    def divisor(self, users: int) -> int:
        return users

    def answer(self, held: Holding) -> Answer:
        return float(self.exact_sum(held) / held.users)

    def answer_range(self, users: int) -> tuple[float, float]:
        return float(self.low), float(self.high)


def _as_whole(given: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The numbers as int64, and a mask of the numbers that are not whole.

    Numbers that are too large for int64 become ±2^62, which is outside the bounds of every task.
    """
    if given.dtype == np.bool_:
        given = given.view(np.uint8)  # NumPy may store any byte in a bool, so bytes are checked
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
    """The numbers of a list as int64 if all of them are whole, and otherwise `given`.

    NumPy turns a list into floats if one of its numbers is a float, or if it has integers on both
    sides of 2^63. Floats lose digits.
    """
    listed = np.asarray(values, dtype=object).tolist()
    if not all(isinstance(value, int) or float(value).is_integer() for value in listed):
        return given
    beyond = 2 * MOST_WHOLE
    return np.array([min(max(int(value), -beyond), beyond) for value in listed], dtype=np.int64)


def _as_real(given: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The numbers as float64, and a mask of those that are NaN."""
    if given.dtype == np.bool_:
        given = given.view(np.uint8)
    with np.errstate(over="ignore"):  # a number beyond the range of float64 becomes infinite
        array = given.astype(np.float64, copy=False)
    return array, np.isnan(array)
