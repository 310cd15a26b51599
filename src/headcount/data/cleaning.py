"""Turns an Arrow column into encoded values.

A `Cleaning` is immutable and cleans each batch independently of the others, so any engine can clean
rows on any machine. A value that must be refused raises no error here. Such values are collected as
`Problems`, so that one error at the end can describe all of them. Only a column of a wrong type is
refused at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.cached import cached_property
from headcount.core.errors import InvalidParameter, InvalidValue
from headcount.core.task import Task
from headcount.core.tasks.histogram import Histogram
from headcount.core.values import check_exact
from headcount.data.bins import bin_names, edges_of
from headcount.data.columns import (
    BETWEEN_LABELS,
    as_numpy,
    is_moment,
    is_number,
    is_text,
    label_set,
    listed,
    moments,
    numbers,
    plain,
    present,
)
from headcount.data.date_formats import moment_in
from headcount.data.hints import CODES, TRIM, date_hint, hint_for
from headcount.data.periods import Periods, moment_of, periods
from headcount.data.problems import Problems, value_text, without_quotes
from headcount.data.reading import Reading
from headcount.data.rows import Kind

if TYPE_CHECKING:
    import pyarrow

Fill: TypeAlias = str | int | float | bool
OUTSIDE = ("error", "clamp", "other")
OTHER = "other"  # the bucket for values that are in no other bucket
MISSING = "missing"  # the bucket for people without a value, if `missing` is "bucket"
_AS_IT_IS = Reading()
_FEW_VALUES = 2**22  # if a task has at most this many possible values, people are counted by value


@dataclass(frozen=True, eq=False)
class Cleaned:
    """The codes of a batch. `kept` marks the rows that have a code. None means all rows."""

    codes: NDArray[Any]
    kept: NDArray[np.bool_] | None
    problems: Problems


@dataclass(frozen=True)
class Cleaning:
    """The rules that turn a column into values of a task. The function `cleaning` creates them.

    `declared` is the task without the buckets that `missing` and `outside` add. But with bins or
    periods, `declared` also has these buckets, and is the same as `task`. `edges` are the edges of
    the bins, if there are bins. `holder` is the name of the table in error messages. It is empty if
    the table has no name.
    """

    column: str
    task: Task
    declared: Task
    missing: Fill
    outside: str
    edges: tuple[float, ...] | None = None
    reading: Reading = _AS_IT_IS
    periods: Periods | None = None
    holder: str = ""

    def of_table(self, holder: str) -> "Cleaning":
        """The same rules for a column of the table that is called `holder`."""
        return replace(self, holder=holder)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that are cleaned."""
        return (self.column,)

    @property
    def few_values(self) -> bool:
        """Whether the task has few enough possible values to count people by value."""
        return self.task.numbered and self.task.domain <= _FEW_VALUES

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of encoded values."""
        return self.task.encoded_dtype

    @property
    def kind(self) -> Kind | None:
        """The kind of column to expect in a file without types. None means any kind."""
        if self._of_dates or self.periods:
            return "date"
        if self._of_text or self._of_collections or self.reading.yes:
            return "text"
        if self.edges or self.task.value_kind == "real numbers":
            return "real"
        return "whole" if self.task.value_kind == "whole numbers" else None

    @property
    def kinds(self) -> dict[str, Kind]:
        """The expected kind of each column. Columns that may be of any kind are left out."""
        return {self.column: self.kind} if self.kind else {}

    @property
    def dropping(self) -> bool:
        """Whether rows without a value are left out."""
        return self.missing == "drop"

    @cached_property
    def fill(self) -> Any:
        """The code that is filled in for a missing value."""
        import pyarrow

        if self.missing == "bucket":
            return self.task.domain - 1 - (self.outside == "other")
        # A date in a setting has the default form, not the form of the column.
        usual = replace(self, reading=replace(self.reading, date_format=None))
        try:
            codes, wrong = usual._codes(pyarrow.array([self.missing]))
        except (InvalidValue, pyarrow.ArrowException, OverflowError):
            codes, wrong = np.zeros(1), np.ones(1, dtype=np.bool_)
        if wrong is not None and wrong[0]:
            raise InvalidParameter(
                f"`missing` must be error, drop, bucket, or {self.allowed}, "
                f"got {checks.shown(self.missing)}"
            )
        return codes[0]

    @property
    def allowed(self) -> str:
        """A description of the values that fit."""
        if self.reading.yes:
            return self.reading.allowed
        if self.reading.date_format is not None:
            dates = self.periods or self.declared
            return f"{dates.allowed}, in the form {self.reading.date_format}"
        if self.periods:
            return self.periods.allowed
        if self.edges:
            return f"a number from {self.edges[0]} to {self.edges[-1]}"
        return self.declared.allowed

    @property
    def fix(self) -> str:
        """A hint for users who have values that do not fit. It is empty if no setting helps."""
        if self.outside != "error":
            return ""
        if self.edges or self.periods or "clamp" in self.declared.settings:
            where = "bound" if "clamp" in self.declared.settings else "bucket"
            return f"outside='clamp' (--outside clamp) moves them to the nearest {where}"
        if "buckets" in self.declared.settings and not self.declared.open_values:
            return "outside='other' (--outside other) counts them in a bucket of their own"
        return ""

    def hint(self, texts: Sequence[str]) -> str:
        """A hint for users whose values do not fit. `texts` has the first few of these values."""
        if self.periods or self._of_dates:
            strange = [text for text in texts if not self._is_date(text)]
            if strange:
                return "" if self.reading.date_format else date_hint(strange)
        return self.reading_hint(texts) or self.fix

    def reading_hint(self, texts: Sequence[str]) -> str:
        """A hint about blanks around labels, or about the codes 1 and 2. Otherwise it is empty."""
        if self._of_text and not self.reading.trim:
            labels = {str(label) for label in self.declared.listed_values or ()}
            if any(text.strip() in labels for text in texts):
                return TRIM
        coded = self.task.yes_no and not self.reading.yes and {*texts} in ({"2"}, {"2.0"})
        return CODES if coded else ""

    def _is_date(self, text: str) -> bool:
        """Whether a text is a date, or a time, in the form that the column has."""
        if self.reading.date_format is not None:
            return moment_in(text, self.reading.date_format) is not None
        return not np.isnat(moment_of(text))

    @property
    def _title(self) -> str:
        """The name of the column in error messages."""
        return f"column {self.column!r}" + (f" of {self.holder}" if self.holder else "")

    @property
    def _of_text(self) -> bool:
        """Whether values are text."""
        named = self.declared.value_kind == "words"
        return named and self.edges is None and self.periods is None

    @property
    def _of_collections(self) -> bool:
        """Whether each value is a set of labels."""
        return not self.edges and self.declared.value_kind == "collections"

    @property
    def _of_dates(self) -> bool:
        """Whether values are dates or times, possibly written as text."""
        return not self.edges and self.declared.value_kind == "dates"

    def clean_batch(self, batch: "pyarrow.RecordBatch", first: int = 0) -> Cleaned:
        """The encoded values of a batch. `first` is the number of rows before it."""
        return self.clean(batch.column(self.column), first)

    def clean(self, column: "pyarrow.Array", first: int = 0) -> Cleaned:
        """The encoded values of a column. `first` is the number of rows in earlier batches."""
        from pyarrow import types

        column = self._read(plain(column))
        is_present = present(column, nan=self.missing != "error")
        given = column if is_present is None else column.filter(is_present)
        codes, wrong = self._codes(given)
        if wrong is not None and self.outside == "other":
            floats = numbers(given) if types.is_floating(given.type) else None
            other = wrong if floats is None else wrong & ~np.isnan(floats)
            other = other & ~self._padded(given, other)
            codes = np.where(other, self.dtype.type(self.task.domain - 1), codes)
            wrong = wrong & ~other
        problems, kept = Problems(), None
        if is_present is not None:
            kept = as_numpy(is_present)
            if self.missing == "error":
                problems += Problems.of_missing(np.flatnonzero(~kept) + first)
        if wrong is not None and wrong.any():
            rows = None if kept is None else np.flatnonzero(kept)
            problems += Problems.of_outside(given, np.flatnonzero(wrong), rows, first)
        if kept is None or self.missing in ("error", "drop"):
            return Cleaned(codes, kept, problems)
        filled = np.full(len(column), self.fill, dtype=self.dtype)
        filled[kept] = codes
        return Cleaned(filled, None, problems)

    def _padded(self, given: "pyarrow.Array", other: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """A mask of the rows in `other` whose text is a label with blanks around it. Unless blanks
        are ignored, such a text is refused, and does not count as another value.
        """
        import pyarrow
        from pyarrow import compute

        padded = np.zeros(len(given), dtype=np.bool_)
        if self._of_text and not self.reading.trim and other.any():
            texts = given.filter(pyarrow.array(other)).cast(pyarrow.string())
            _, unknown = self._codes(compute.utf8_trim_whitespace(texts))
            padded[other] = True if unknown is None else ~unknown
        return padded

    def _read(self, column: "pyarrow.Array") -> "pyarrow.Array":
        """The column with nulls for missing values. A number in `reading.na` is missing whether it
        is stored as a number or as text.
        """
        column = self.reading.with_nulls(column)
        if not is_text(column.type) or not self._of_numbers or not self.reading.parses:
            return column
        return self.reading.with_nulls(self._parsed(column))

    @property
    def _of_numbers(self) -> bool:
        """Whether values are numbers, possibly written as text."""
        strange = self._of_text or self._of_collections or self._of_dates
        return not (strange or self.periods or self.reading.yes)

    def _codes(self, array: "pyarrow.Array") -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """The codes of values, and a mask of values that do not fit (None if all values fit)."""
        from pyarrow import types

        if not len(array):
            return np.zeros(0, dtype=self.dtype), None
        kind = array.type
        if types.is_dictionary(kind):
            codes, wrong = self._codes(array.dictionary)
            indices = as_numpy(array.indices)
            return codes[indices], None if wrong is None else wrong[indices]
        if self._of_dates or self.periods:
            self._check_dates(array)
            return self._dated(moments(array, self.reading.date_format))
        if not is_text(kind) and not is_number(kind):
            raise InvalidValue(f"{self._title} must hold numbers, true/false or text, got {kind}")
        return self._answers_or_values(array)

    def _answers_or_values(
        self, array: "pyarrow.Array"
    ) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """Like `_codes`, for a column of text or numbers."""
        import pyarrow
        from pyarrow import types

        if self.reading.yes:
            return self.reading.answers(array, self.dtype)
        if is_text(array.type) and self._of_numbers and self.reading.parses:
            array = self._parsed(array)
        # Whole numbers may be labels. They become text, as in a CSV file.
        if self._of_text and types.is_integer(array.type):
            array = array.cast(pyarrow.string())
        text = is_text(array.type)
        if text != self._of_text and not (text and self._of_collections):
            raise self._of_other_kind(array)
        if self.edges:
            return self._binned(numbers(array))
        if self.declared.listed_values is not None and (text or types.is_integer(array.type)):
            return self._labels(array)
        if text:
            return self._words(array)
        return self._numbers(numbers(array))

    def _words(self, array: "pyarrow.Array") -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """The codes of words, or of texts that list labels with semicolons between them."""
        words, indices = listed(array, self.column)
        if not self._of_collections:
            return self.declared.encode(words)[indices], None
        codes, wrong = np.zeros(len(words), dtype=self.dtype), np.zeros(len(words), dtype=np.bool_)
        for at, word in enumerate(words):
            parts = (part.strip() for part in word.split(BETWEEN_LABELS))
            try:
                codes[at] = self.declared.encode([[part for part in parts if part]])[0]
            except InvalidValue:
                wrong[at] = True
        return codes[indices], wrong[indices] if wrong.any() else None

    def _dated(self, dates: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        if self.periods is None:
            return self._numbers(dates)
        codes, wrong = self.periods.codes(dates, clamp=self.outside == "clamp")
        return codes.astype(self.dtype), wrong if wrong.any() else None

    def _check_dates(self, array: "pyarrow.Array") -> None:
        """Refuse a column that holds neither dates nor times nor text, which may state them."""
        if not is_text(array.type) and not is_moment(array.type):
            raise InvalidValue(
                f"{self._title} must hold dates, times or their texts, "
                f"got {array.type} like {value_text(array[0])}"
            )

    def _parsed(self, text: "pyarrow.Array") -> "pyarrow.Array":
        """The numbers in a column of text. If any text is not a number, the column is returned
        unchanged.
        """
        import pyarrow

        try:
            return self.reading.parsed(text)
        except pyarrow.ArrowInvalid:
            return text

    def _of_other_kind(self, array: "pyarrow.Array") -> InvalidValue:
        """The error for text in place of numbers, or for numbers in place of text."""
        if self._of_text:
            got = f"{array.type} like {array[0].as_py()}"
            return InvalidValue(f"{self._title} must hold text, got {got}")
        # Arrow reads a column as text if a single word in it is not a number.
        at = self.reading.first_unparsed(array)
        word = value_text(array[at if at < len(array) else 0])
        return InvalidValue(
            f"{self._title} must hold numbers or true/false, got text like {word}",
            hint=hint_for(without_quotes(word), counting=self.task.yes_no),
        )

    def _labels(self, array: "pyarrow.Array") -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """The codes of labels. Arrow looks them up without rounding large numbers to floats."""
        from pyarrow import compute

        labels, places = label_set(self.declared, array.type, self.dtype)
        indices = compute.index_in(array, value_set=labels)
        wrong = None
        if indices.null_count:
            wrong = as_numpy(indices.is_null())
            indices = indices.fill_null(0)
        if not len(labels):
            return np.zeros(len(array), dtype=self.dtype), wrong
        return places[as_numpy(indices)], wrong

    def _binned(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        assert self.edges
        edges = np.array(self.edges)
        if edges.dtype.kind == "i":
            check_exact(values, max(abs(self.edges[0]), abs(self.edges[-1])))
        if edges.dtype.kind == "i" and values.dtype == np.uint64:
            values = np.minimum(values, np.uint64(2**63 - 1)).astype(np.int64)
        elif edges.dtype.kind == "f" or values.dtype.kind == "f":
            values = values.astype(np.float64, copy=False)
        wrong = ~((values >= edges[0]) & (values <= edges[-1]))
        bins = np.searchsorted(edges, values, side="right") - 1
        codes = np.clip(bins, 0, len(edges) - 2).astype(self.dtype)
        if self.outside == "clamp":
            wrong = np.isnan(values) if values.dtype.kind == "f" else np.zeros_like(wrong)
        return codes, wrong if wrong.any() else None

    def _numbers(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        try:
            return self.declared.encode(values).astype(self.dtype, copy=False), None
        except InvalidValue:
            wrong = ~self.declared.fits(values)
        codes = np.zeros(len(values), dtype=self.dtype)
        if not wrong.all():
            codes[~wrong] = self.declared.encode(values[~wrong])
        return codes, wrong


def cleaning(
    column: str,
    task: Task | None,
    *,
    missing: Fill = "error",
    outside: str = "error",
    bins: Sequence[float | str] | None = None,
    reading: Reading = _AS_IT_IS,
) -> Cleaning:
    """The rules that clean a column for a task, bins or a period. Invalid settings are refused.

    missing   "error" refuses missing values. "drop" leaves out their rows, but then the answer does
              not hide which people have no value. "bucket" adds a bucket to a histogram, for people
              without a value. Any other setting is the value to fill in.
    outside   "error" refuses values that do not fit. "clamp" moves numbers to the nearest bound or
              bin. "other" adds a bucket to a histogram, for values that are in no other bucket.
    bins      the edges in increasing order. [0, 18, 65] gives the buckets "[0, 18)" and "[18, 65]".
              If `reading` has a period, `bins` are the first and the last day.
    reading   which words mean yes, no or a missing value, how numbers and dates are written, and
              which period of time is a bucket.
    """
    checks.choice("outside", outside, OUTSIDE)
    if reading.yes and (task is None or not task.yes_no):
        given = "bins" if task is None else checks.a_task(task.name)
        raise InvalidParameter(f"`yes` must come with a count, got {given}")
    dates = reading.period is not None or (task is not None and task.value_kind == "dates")
    if reading.date_format is not None and not dates:
        given = "bins" if task is None else checks.a_task(task.name)
        raise InvalidParameter(
            f"`date_format` must come with `period` or with dates as bounds, got {given}"
        )
    if reading.period is not None:
        if task is not None:
            raise InvalidParameter(
                f"`period` must come without a task, got {checks.a_task(task.name)}"
            )
        found = periods(reading.period, bins)
        task = Histogram([*found.labels, *_more_buckets(missing, outside)])
        return _checked(Cleaning(column, task, task, missing, outside, None, reading, found))
    if bins is not None:
        if task is not None:
            raise InvalidParameter(
                f"`bins` must come without a task, got {checks.a_task(task.name)}"
            )
        edges = edges_of(bins)
        task = Histogram([*bin_names(edges), *_more_buckets(missing, outside)])
        return _checked(Cleaning(column, task, task, missing, outside, edges, reading))
    if task is None:
        raise InvalidParameter("there must be a task or `bins`, got neither")
    checks.instance("task", task, Task)
    if outside == "clamp":
        if "clamp" not in task.settings:
            raise InvalidParameter(
                f"`outside` may be clamp only with numbers within bounds or with bins, "
                f"got {checks.a_task(task.name)}"
            )
        task = task.changed(clamp=True)
    declared = task
    for setting, chosen in (("outside", "other"), ("missing", "bucket")):
        if chosen == (outside if setting == "outside" else missing):
            _check_closed(setting, chosen, task)
    if more := _more_buckets(missing, outside):
        task = task.changed(buckets=[*map(str, task.buckets or ()), *more])
    return _checked(Cleaning(column, task, declared, missing, outside, None, reading))


def _more_buckets(missing: Fill, outside: str) -> list[str]:
    """The buckets that are added to a histogram."""
    return [*[MISSING] * (missing == "bucket"), *[OTHER] * (outside == "other")]


def _check_closed(setting: str, chosen: str, task: Task) -> None:
    """Refuse a task to which the bucket for `chosen` cannot be added, or which already has it."""
    if "buckets" not in task.settings or task.buckets is None or task.open_values:
        raise InvalidParameter(
            f"`{setting}` may be {chosen} only with a histogram that is not open, got "
            f"{checks.a_task(task.name)}"
        )
    name = OTHER if chosen == "other" else MISSING
    if any(str(bucket) in (name, chosen) for bucket in task.buckets):
        raise InvalidParameter(
            f"no bucket may be named {name!r} if `{setting}` is {chosen}, got such a bucket"
        )


def _checked(made: Cleaning) -> Cleaning:
    if made.missing not in ("error", "drop"):
        _ = made.fill  # refuses a value that does not fit
    return made
