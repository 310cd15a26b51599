"""Reads texts of dates in other forms than 2024-12-31. A format has the directives of Python's
`strptime`.
"""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.errors import InvalidParameter

_SAMPLE = datetime(2001, 11, 22, 13, 14, 15, tzinfo=UTC)
# How many of the parts of a date each period needs. Other periods need three.
_NEEDED = {"year": 1, "quarter": 2, "month": 2, "hour": 4}
_WHOLE = "%Y-%m-%dT%H:%M:%S.%f"
_PARTS = ("year", "month", "day", "hour")
_DAYS = (
    "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%y",
    "%m/%d/%y", "%d/%m/%y",
)  # fmt: skip
_CLOCKS = ("", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", " %I:%M %p", " %I:%M:%S %p")


def check_format(date_format: Any, period: str | None) -> None:
    """Refuse a format that is wrong, or that does not have all parts of a date that matter."""
    if not isinstance(date_format, str):
        raise InvalidParameter(
            f"`date_format` must be a text such as %d.%m.%Y, got {checks.shown(date_format)}"
        )
    needed = _NEEDED.get(period or "", 3)
    found = moment_in(_SAMPLE.strftime(date_format), date_format)
    if found is None or found.timetuple()[:needed] != _SAMPLE.timetuple()[:needed]:
        example = "%d.%m.%Y %H:%M" if needed > 3 else "%d.%m.%Y"
        *first, last = _PARTS[:needed]
        parts = f"{', '.join(first)} and {last}" if first else last
        raise InvalidParameter(
            f"`date_format` must say where the {parts} are, such as {example}, "
            f"got {checks.shown(date_format)}"
        )


def moment_in(text: str, date_format: str) -> datetime | None:
    """The date or time that a text states in this format. Its time zone is ignored: the time is
    read as clocks in that zone show it. The result is None if the text has another form.
    """
    try:
        return datetime.strptime(text.strip(), date_format).replace(tzinfo=None)
    except (ValueError, re.error):  # `re` refuses a directive that occurs twice
        return None


def moments_in(texts: Sequence[str], date_format: str) -> NDArray[Any]:
    """The dates or times that texts state in this format, and NaT for all other texts. A text that
    `whole_text` wrote is read in every format.
    """
    found = (moment_in(text, date_format) or moment_in(text, _WHOLE) for text in texts)
    return np.array([*found], dtype="M8[us]")


def whole_text(moment: date) -> str:
    """A date or time as a text with all its parts."""
    whole = moment if isinstance(moment, datetime) else datetime.combine(moment, time())
    return whole.isoformat(timespec="microseconds")


def formats_of(texts: Sequence[str]) -> list[str]:
    """The usual formats in which all of these texts are dates or times."""
    every = (day + clock for clock, day in product(_CLOCKS, _DAYS))
    return [one for one in every if all(moment_in(text, one) is not None for text in texts)]
