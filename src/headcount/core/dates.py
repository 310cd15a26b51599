"""Dates and times as whole numbers: days or seconds since the beginning of 1970."""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.errors import InvalidParameter

# A date or a time, also as text such as 2020-12-31 or 2020-12-31T18:30. The type `date` includes
# its subclass `datetime`.
Moment: TypeAlias = date | np.datetime64 | str
Unit: TypeAlias = Literal["D", "s"]
_FIRST, _LAST = np.datetime64("0001-01-01", "s"), np.datetime64("9999-12-31T23:59:59", "s")
_UNITS_OF_DATES = ("Y", "M", "W", "D")  # the units of NumPy's dates without a time
_NONE = np.datetime64("NaT", "us")


@dataclass(frozen=True)
class Calendar:
    """Dates, which are counted in days ("D"), or times, which are counted in seconds ("s").

    A time belongs to the day or second that contains it. Its time zone is ignored: the time is
    read as clocks in that zone show it.
    """

    unit: Unit

    @classmethod
    def of(cls, low: object, high: object) -> "Calendar | None":
        """The calendar of two bounds, or None if they are numbers."""
        units = [_unit(name, bound) for name, bound in (("low", low), ("high", high))]
        if units[0] != units[1]:
            raise InvalidParameter(
                "`low` and `high` must both be numbers, both dates, or both times, got "
                f"{checks.shown(low)} and {checks.shown(high)}"
            )
        return None if units[0] is None else cls(units[0])

    @property
    def noun(self) -> str:
        return "date" if self.unit == "D" else "time"

    def number(self, name: str, given: object) -> int:
        """The number of days or seconds since 1970. Error messages call the given date or time
        `name`.
        """
        found, _ = moment(given)
        if not _FIRST <= found <= _LAST:
            example = "2020-12-31" if self.unit == "D" else "2020-12-31T18:30"
            raise InvalidParameter(
                f"`{name}` must be a {self.noun} such as {example}, got {checks.shown(given)}"
            )
        return int(found.astype(f"datetime64[{self.unit}]").astype(np.int64))

    def numbers(self, given: NDArray[Any]) -> NDArray[np.float64]:
        """The numbers of dates or times. They may already be given as numbers, which are rounded
        down. Anything else becomes NaN.
        """
        if given.dtype.kind in "iuf":
            return np.floor(given.astype(np.float64))
        if given.dtype.kind != "M":
            given = np.array([moment(one)[0] for one in given.tolist()], dtype="datetime64[us]")
        found = given.astype(f"datetime64[{self.unit}]")  # this rounds down
        numbers: NDArray[np.float64] = np.where(np.isnat(found), np.nan, found.astype(np.int64))
        return numbers

    def moments(self, numbers: Any) -> Any:
        """The dates or times with these numbers, of NumPy's type `datetime64`."""
        return np.asarray(numbers).astype(np.int64).astype(f"datetime64[{self.unit}]")[()]

    def milliseconds(self, numbers: Any) -> Any:
        """The dates or times with these numbers in milliseconds since the beginning of 1970."""
        return np.asarray(numbers, dtype=np.float64) * (86_400_000 if self.unit == "D" else 1000)

    def texts(self, numbers: Any) -> Any:
        """The dates or times with these numbers as text, such as 2020-12-31."""
        return iso_texts(self.moments(numbers))


def iso_texts(moments: Any) -> Any:
    """Dates or times as text, such as 2020-12-31."""
    return np.datetime_as_string(moments).tolist()


def _unit(name: str, bound: object) -> Unit | None:
    if not isinstance(bound, str | date | np.datetime64):
        return None
    found, unit = moment(bound)
    if np.isnat(found):
        raise InvalidParameter(
            f"`{name}` must be a number, a date such as 2020-12-31, or a time such as "
            f"2020-12-31T18:30, got {checks.shown(bound)}"
        )
    return unit


def moment(given: object) -> tuple[np.datetime64, Unit]:
    """A date or time, and its unit. Anything else becomes `_NONE`."""
    if isinstance(given, str):
        for parse in (date.fromisoformat, datetime.fromisoformat):
            try:
                return moment(parse(given.strip()))
            except ValueError:
                pass
    elif isinstance(given, datetime):
        return np.datetime64(given.replace(tzinfo=None), "us"), "s"
    elif isinstance(given, date):
        return np.datetime64(given, "us"), "D"
    elif isinstance(given, np.datetime64):
        return given, "D" if np.datetime_data(given.dtype)[0] in _UNITS_OF_DATES else "s"
    return _NONE, "D"
