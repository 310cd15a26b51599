"""Counts the values that are missing or do not fit, over all rows, for one error message."""

from ast import literal_eval
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.errors import InvalidValue

if TYPE_CHECKING:
    import pyarrow

_SHOWN = 3  # how many values or rows a message shows


class DoesNotFit(InvalidValue):
    """The error for refused rows. Their `problems` can be added to the problems of other rows."""

    def __init__(self, message: str, problems: "Problems", *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.problems = problems


@dataclass(frozen=True)
class Problems:
    """How many rows have no value, how many rows have a value that does not fit, and the first few
    rows of both kinds.

    Problems of consecutive rows can be added.
    """

    missing: int = 0
    first_missing: tuple[int, ...] = ()
    outside: int = 0
    first_outside: tuple[tuple[int, str], ...] = ()  # pairs of row and value

    @classmethod
    def of_missing(cls, rows: NDArray[np.int64]) -> "Problems":
        return cls(missing=len(rows), first_missing=tuple(rows[:_SHOWN].tolist()))

    @classmethod
    def of_outside(
        cls,
        values: "pyarrow.Array",
        places: NDArray[np.int64],
        rows: NDArray[np.int64] | None,
        first: int,
    ) -> "Problems":
        """The problems of values that do not fit. `places` has the indices of these values.

        `rows` has the row of each value within its batch. If `rows` is None, value i is in row i.
        `first` is the number of rows before the batch.
        """
        shown = places[:_SHOWN].tolist()
        at = shown if rows is None else rows[shown].tolist()
        texts = [value_text(values[place]) for place in shown]
        pairs = tuple((row + first, text) for row, text in zip(at, texts, strict=True))
        return cls(outside=len(places), first_outside=pairs)

    @property
    def texts(self) -> list[str]:
        """The first few values that do not fit, without quotes."""
        return [without_quotes(text) for _, text in self.first_outside]

    @property
    def any(self) -> bool:
        return bool(self.missing or self.outside)

    def __add__(self, other: "Problems") -> "Problems":
        return Problems(
            self.missing + other.missing,
            (*self.first_missing, *other.first_missing)[:_SHOWN],
            self.outside + other.outside,
            (*self.first_outside, *other.first_outside)[:_SHOWN],
        )

    def refuse(self, allowed: str, unit: str = "person", hint: str = "") -> None:
        """Raise an error if there are problems.

        `allowed` describes the values that fit. `hint` says what to do about values that do not
        fit. `unit` is "person" if each row is a person, or else "row".
        """
        if self.missing:
            first, *others = (f"{unit} {row + 1}" for row in self.first_missing)
            raise DoesNotFit(
                f"everyone must have a value, got none for {first}"
                + _more(self.missing - 1, others),
                self,
                hint="missing='drop' (--missing drop) leaves such rows out, 'bucket' gives a "
                "histogram a bucket for them, or set `missing` to a value to fill in",
            )
        if self.outside:
            first, *others = (f"{text} from {unit} {row + 1}" for row, text in self.first_outside)
            raise DoesNotFit(
                f"every value must be {allowed}, got {first}" + _more(self.outside - 1, others),
                self,
                hint=hint,
            )


def _more(count: int, shown: list[str]) -> str:
    if not count:
        return ""
    return f", and {count:,} more like it: {', '.join(shown)}" + ", …" * (count > len(shown))


def without_quotes(shown: str) -> str:
    """The text that `value_text` shows in quotes. Other values are returned as they are shown."""
    try:
        return str(literal_eval(shown)) if shown[:1] in ("'", '"') else shown
    except (SyntaxError, ValueError):  # the end of a long text is not shown
        return shown


def value_text(value: Any) -> str:
    """A value as text for a message. Bytes that are not UTF-8 are shown as bytes."""
    try:
        plain = value.as_py()
    except UnicodeDecodeError:
        plain = value.as_buffer().to_pybytes()
    shown = str(plain) if isinstance(plain, Decimal | date) else repr(plain)
    return shown if len(shown) <= 40 else f"{shown[:37]}…"
