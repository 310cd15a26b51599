"""Turns a column of any Arrow type into encoded values.

A `Cleaning` is immutable and cleans each batch independently of the others, so any engine can clean
rows on any machine. Values that must be refused raise no error here. They are counted, so that a
later error can describe all the data: see `Problems`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.cached import cached_property
from headcount.core.errors import InvalidParameter, InvalidValue
from headcount.core.task import Task
from headcount.core.tasks.histogram import Histogram
from headcount.data.bins import bin_names, edges_of
from headcount.data.columns import (
    BETWEEN_LABELS,
    is_moment,
    is_number,
    is_text,
    listed,
    moments,
    no_number,
    numbers,
    plain,
    present,
)
from headcount.data.problems import Problems, value_text
from headcount.data.rows import Kind

if TYPE_CHECKING:
    import pyarrow

Fill: TypeAlias = str | int | float | bool
OUTSIDE = ("error", "clamp", "other")
OTHER = "other"  # the bucket for values that are in no other bucket
_FEW_VALUES = 2**22  # up to this many possible values, one pass counts the people by value


@dataclass(frozen=True, eq=False)
class Cleaned:
    """The encoded values of a batch. `kept` marks rows that have a value; None means all rows."""

    codes: NDArray[Any]
    kept: NDArray[np.bool_] | None
    problems: Problems


@dataclass(frozen=True)
class Cleaning:
    """The rules that turn a column into values of a task. The function `cleaning` creates them.

    `declared` is the same as `task`, except that it lacks the bucket `OTHER` if `outside` added
    this bucket to the task. `edges` are the edges of the bins, if there are bins. With bins,
    `declared` is always the same as `task`.
    """

    column: str
    task: Task
    declared: Task
    missing: Fill
    outside: str
    edges: tuple[float, ...] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are cleaned."""
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
        if self._of_text or self._of_dates:  # Arrow would guess dates from the first rows alone
            return "text"
        return "real" if self.edges or self.task.value_kind == "real numbers" else None

    @property
    def kinds(self) -> dict[str, Kind]:
        """The kinds of the columns that must be of one kind."""
        return {self.column: self.kind} if self.kind else {}

    @property
    def dropping(self) -> bool:
        """Whether rows without a value are left out."""
        return self.missing == "drop"

    @cached_property
    def fill(self) -> Any:
        """The code that stands for a missing value, if `missing` is a value to fill in."""
        import pyarrow

        try:
            codes, wrong = self._codes(pyarrow.array([self.missing]))
        except (InvalidValue, pyarrow.ArrowException, OverflowError):
            codes, wrong = np.zeros(1), np.ones(1, dtype=np.bool_)
        if wrong is not None and wrong[0]:
            raise InvalidParameter(
                f"`missing` must be error, drop, or {self.allowed}, "
                f"got {checks.shown(self.missing)}"
            )
        return codes[0]

    @property
    def allowed(self) -> str:
        """A description of the values that fit."""
        if self.edges:
            return f"a number from {self.edges[0]} to {self.edges[-1]}"
        return self.declared.allowed

    @property
    def _of_text(self) -> bool:
        """Whether values are text."""
        return not self.edges and self.declared.value_kind == "words"

    @property
    def _of_collections(self) -> bool:
        """Whether values are several labels."""
        return not self.edges and self.declared.value_kind == "collections"

    @property
    def _of_dates(self) -> bool:
        """Whether values are dates or times, or their texts."""
        return not self.edges and self.declared.value_kind == "dates"

    def clean_batch(self, batch: "pyarrow.RecordBatch", first: int = 0) -> Cleaned:
        """The encoded values of a batch. `first` is the number of rows before it."""
        return self.clean(batch.column(self.column), first)

    def clean(self, column: "pyarrow.Array", first: int = 0) -> Cleaned:
        """The encoded values of a column. `first` is the number of rows before it."""
        from pyarrow import types

        column = plain(column)
        is_present = present(column, nan=self.missing != "error")
        given = column if is_present is None else column.filter(is_present)
        codes, wrong = self._codes(given)
        if wrong is not None and self.outside == "other":
            floats = numbers(given) if types.is_floating(given.type) else None
            other = wrong if floats is None else wrong & ~np.isnan(floats)
            codes = np.where(other, self.dtype.type(self.task.domain - 1), codes)
            wrong = wrong & ~other
        problems, kept = Problems(), None
        if is_present is not None:
            kept = is_present.to_numpy(zero_copy_only=False)
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

    def _codes(self, array: "pyarrow.Array") -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """The codes of values, and a mask of values that do not fit (None if all values fit)."""
        from pyarrow import types

        if not len(array):
            return np.zeros(0, dtype=self.dtype), None
        kind = array.type
        if types.is_dictionary(kind):
            codes, wrong = self._codes(array.dictionary)
            indices = array.indices.to_numpy()
            return codes[indices], None if wrong is None else wrong[indices]
        self._check_kind(array)
        text = is_text(kind)
        if self.edges:
            return self._binned(numbers(array))
        if self.declared.listed_values is not None and (text or types.is_integer(kind)):
            return self._labels(array)
        if text and not self._of_dates:
            return self._words(array)
        return self._numbers(moments(array) if self._of_dates else numbers(array))

    def _words(self, array: "pyarrow.Array") -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """The codes of words, or of several labels with a semicolon between them."""
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

    def _check_kind(self, array: "pyarrow.Array") -> None:
        """Refuse a column of another kind than the task's values."""
        kind, text = array.type, is_text(array.type)
        if self._of_dates:
            if not text and not is_moment(kind):
                raise InvalidValue(
                    f"column {self.column!r} must hold dates, times or their texts, "
                    f"got {kind} like {value_text(array[0])}"
                )
            return
        if not text and not is_number(kind):
            raise InvalidValue(
                f"column {self.column!r} must hold numbers, true/false or text, got {kind}"
            )
        if text != self._of_text and not (text and self._of_collections):
            wanted = "text" if self._of_text else "numbers or true/false"
            got = f"text like {no_number(array)}" if text else f"{kind} like {array[0].as_py()}"
            raise InvalidValue(f"column {self.column!r} must hold {wanted}, got {got}")

    def _labels(self, array: "pyarrow.Array") -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """The codes of labels. Arrow looks them up without rounding large numbers to floats."""
        from pyarrow import compute

        labels, places = _label_set(self.declared, array.type, self.dtype)
        indices = compute.index_in(array, value_set=labels)
        wrong = None
        if indices.null_count:
            wrong = indices.is_null().to_numpy(zero_copy_only=False)
            indices = indices.fill_null(0)
        if not len(labels):
            return np.zeros(len(array), dtype=self.dtype), wrong
        return places[indices.to_numpy()], wrong

    def _binned(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        assert self.edges
        edges = np.array(self.edges)
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
    bins: Sequence[float] | None = None,
) -> Cleaning:
    """The rules for cleaning a column, for a task or for bins. Invalid settings are refused.

    missing   "error" refuses missing values. "drop" leaves out their rows, but then it is not
              hidden which people have no value. Any other setting is the value to fill in.
    outside   "error" refuses values that do not fit. "clamp" moves numbers to the nearest bound or
              bin. "other" adds a bucket to a histogram, for values that are in no other bucket.
    bins      the edges in increasing order. [0, 18, 65] gives the buckets "[0, 18)" and "[18, 65]".
    """
    checks.choice("outside", outside, OUTSIDE)
    if bins is not None:
        if task is not None:
            raise InvalidParameter(f"`bins` must come without a task, got a {task.name}")
        edges = edges_of(bins)
        task = Histogram([*bin_names(edges), *[OTHER] * (outside == "other")])
        return _checked(Cleaning(column, task, task, missing, outside, edges))
    if task is None:
        raise InvalidParameter("there must be a task or `bins`, got neither")
    checks.instance("task", task, Task)
    if outside == "clamp":
        if "clamp" not in task.settings:
            raise InvalidParameter(
                f"`outside` may be clamp only with numbers within bounds or with bins, "
                f"got a {task.name}"
            )
        task = task.changed(clamp=True)
    declared = task
    if outside == "other":
        if "buckets" not in task.settings or task.buckets is None or task.open_values:
            raise InvalidParameter(
                f"`outside` may be other only with a histogram that is not open, got a {task.name}"
            )
        labels = [str(bucket) for bucket in task.buckets]
        if OTHER in labels:
            raise InvalidParameter(
                f"no bucket may be named {OTHER!r} if `outside` is other, got such a bucket"
            )
        task = task.changed(buckets=[*labels, OTHER])
    return _checked(Cleaning(column, task, declared, missing, outside))


def _checked(made: Cleaning) -> Cleaning:
    if made.missing not in ("error", "drop"):
        _ = made.fill  # refuses a value that does not fit
    return made


@lru_cache(maxsize=8)
def _label_set(
    task: Task, kind: "pyarrow.DataType", index: np.dtype[Any]
) -> tuple["pyarrow.Array", NDArray[Any]]:
    """The labels that a column of this type can hold, and the number of each label's bucket."""
    import pyarrow

    held = list(enumerate(task.listed_values or ()))
    if not is_text(kind):
        limits = np.iinfo(kind.to_pandas_dtype())
        held = [(place, label) for place, label in held if limits.min <= int(label) <= limits.max]
    places, labels = zip(*held, strict=True) if held else ((), ())
    return pyarrow.array(labels, type=kind), np.array(places, dtype=index)
