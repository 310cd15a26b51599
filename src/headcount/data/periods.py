"""Buckets for dates and times: calendar periods, such as months, or days of the week."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.dates import moment
from headcount.core.errors import InvalidParameter

_CALENDAR = ("year", "quarter", "month", "week", "day")
_REPEATED = {
    "weekday": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "hour": tuple(f"{hour:02}" for hour in range(24)),
}
PERIODS = (*_CALENDAR, *_REPEATED)
_NO_DAY = re.compile(r"[0-9]{4}(-[0-9]{2})?")
_MOST = 100_000  # the largest number of periods


@dataclass(frozen=True)
class Periods:
    """The buckets of dates. Calendar periods are numbered from the beginning of 1970, and bucket i
    is the period with the number `first` + i. `ends` are the first and the last day. Days of the
    week and hours of the day are numbered from 0, and have no `ends`.
    """

    name: str
    labels: tuple[str, ...]
    first: int = 0
    ends: tuple[str, str] | None = None

    @property
    def allowed(self) -> str:
        """A description of the dates that fit."""
        return "a date or time" if self.ends is None else "a date from {} to {}".format(*self.ends)

    def codes(
        self, moments: NDArray[Any], *, clamp: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The bucket of each date, and a mask of dates that are in no bucket. With `clamp`, a date
        outside all buckets is moved to the nearest bucket, and only texts that are not dates are in
        the mask.
        """
        if moments.dtype.kind != "M":
            moments = np.array([moment_of(text) for text in moments], dtype="M8[us]")
        absent = np.isnat(moments)
        codes = _numbers(self.name, moments) - self.first
        last = len(self.labels) - 1
        outside = (codes < 0) | (codes > last)
        return np.clip(codes, 0, last), absent if clamp else absent | outside


def periods(name: str, ends: Sequence[Any] | None) -> Periods:
    """The periods from the first to the last day in `ends`. For days of the week and hours, `ends`
    must be None.
    """
    checks.choice("period", name, PERIODS)
    if name in _REPEATED:
        if ends is not None:
            raise InvalidParameter(f"`bins` must not come with period={name!r}, got both")
        return Periods(name, _REPEATED[name])
    days = [moment_of(str(end)) for end in ends or ()] if _is_pair(ends) else []
    if len(days) != 2 or np.isnat(days).any() or days[0] > days[1]:
        raise InvalidParameter(
            f"`bins` must be the first and the last day if `period` is {name}, such as 2024-01-01 "
            f"and 2024-12-31, got {'none' if ends is None else checks.shown(ends)}"
        )
    first, last = _numbers(name, np.array(days, dtype="M8[us]")).tolist()
    if not 1 <= last - first < _MOST:
        raise InvalidParameter(
            f"there must be 2 to {_MOST:,} periods, got {last - first + 1:,} with period={name!r}"
        )
    labels = tuple(_label(name, number) for number in range(first, last + 1))
    shown = tuple(str(day.astype("M8[D]")) for day in days)
    return Periods(name, labels, first, (shown[0], shown[1]))


def _is_pair(ends: Any) -> bool:
    return isinstance(ends, Sequence) and not isinstance(ends, str) and len(ends) == 2


def moment_of(text: str) -> np.datetime64:
    """The date or time that a text states, or NaT if it states neither. A year or a month, such as
    2024-12, stands for its first day.
    """
    bare = text.strip()
    whole = bare + "-01-01"[len(bare) - 4 :] if _NO_DAY.fullmatch(bare) else bare
    return moment(whole)[0]


def _numbers(name: str, moments: NDArray[Any]) -> NDArray[np.int64]:
    """The number of the period of each date."""
    unit = {"year": "Y", "quarter": "M", "month": "M", "hour": "h"}.get(name, "D")
    numbers: NDArray[np.int64] = moments.astype(f"M8[{unit}]").astype(np.int64)
    if name == "quarter":
        return numbers // 3
    if name == "week":
        return (numbers + 3) // 7  # weeks begin on Monday, and 1970 began on a Thursday
    if name == "weekday":
        return (numbers + 3) % 7
    return numbers % 24 if name == "hour" else numbers


def _label(name: str, number: int) -> str:
    if name == "quarter":
        return f"{1970 + number // 4}-Q{number % 4 + 1}"
    if name == "week":
        year, week, _ = (date(1970, 1, 1) + timedelta(days=7 * number - 3)).isocalendar()
        return f"{year}-W{week:02}"
    unit = {"year": "Y", "month": "M", "day": "D"}[name]
    return str(np.array(number).astype(f"M8[{unit}]"))
