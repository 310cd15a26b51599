"""From a column of any Arrow type to encoded values, by a policy for what does not fit.

A batch is cleaned alone and by a frozen object, so that any engine can do it anywhere. What must be
refused is counted and not raised, so that the refusal can speak of all the data: see `Problems`.
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
from headcount.data.columns import is_number, is_text, listed, no_number, numbers, plain, present
from headcount.data.problems import Problems
from headcount.data.rows import Kind

if TYPE_CHECKING:
    import pyarrow

Fill: TypeAlias = str | int | float | bool
OUTSIDE = ("error", "clamp", "other")
OTHER = "other"  # the bucket of whatever is in no other
_FEW_VALUES = 2**22  # of which there is a count each, in one pass


@dataclass(frozen=True, eq=False)
class Cleaned:
    """The encoded values of a batch; `kept` says which rows they are of, if not of all."""

    codes: NDArray[Any]
    kept: NDArray[np.bool_] | None
    problems: Problems


@dataclass(frozen=True)
class Cleaning:
    """How a column becomes values of a task.

    `asked` is the task before there was a bucket for everything else; `edges` are those of bins.
    Made by `cleaning`.
    """

    column: str
    task: Task
    asked: Task
    missing: Fill
    outside: str
    edges: tuple[float, ...] | None = None

    @property
    def few_values(self) -> bool:
        """Whether one count for each value says all about a crowd."""
        return self.task.numbered and self.task.domain <= _FEW_VALUES

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of encoded values."""
        return self.task.encoded_dtype

    @property
    def kind(self) -> Kind | None:
        """What the column is, where a file does not say."""
        if self._of_text:
            return "text"
        return "real" if self.edges or self.task.value_kind == "real numbers" else None

    @property
    def dropping(self) -> bool:
        return self.missing == "drop"

    @cached_property
    def fill(self) -> Any:
        """What a missing value is encoded as, where it is not an error and not left out."""
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
        """The values that fit, in words."""
        if self.edges:
            return f"a number from {self.edges[0]} to {self.edges[-1]}"
        return self.asked.allowed

    @property
    def _of_text(self) -> bool:
        """Whether values are words."""
        return not self.edges and self.asked.value_kind == "words"

    def clean(self, column: "pyarrow.Array", first: int = 0) -> Cleaned:
        """The values of a batch; `first` is how many rows came before it."""
        from pyarrow import types

        column = plain(column)
        here = present(column, nan=self.missing != "error")
        some = column if here is None else column.filter(here)
        codes, wrong = self._codes(some)
        if wrong is not None and self.outside == "other":
            none = numbers(some) if types.is_floating(some.type) else None
            other = wrong if none is None else wrong & ~np.isnan(none)
            codes = np.where(other, self.dtype.type(self.task.domain - 1), codes)
            wrong = wrong & ~other
        problems, kept = Problems(), None
        if here is not None:
            kept = here.to_numpy(zero_copy_only=False)
            if self.missing == "error":
                problems += Problems.of_missing(np.flatnonzero(~kept) + first)
        if wrong is not None and wrong.any():
            rows = None if kept is None else np.flatnonzero(kept)
            problems += Problems.of_outside(some, np.flatnonzero(wrong), rows, first)
        if kept is None or self.missing in ("error", "drop"):
            return Cleaned(codes, kept, problems)
        filled = np.full(len(column), self.fill, dtype=self.dtype)
        filled[kept] = codes
        return Cleaned(filled, None, problems)

    def _codes(self, array: "pyarrow.Array") -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """Encoded values of those that are there, and which of them do not fit, if any."""
        from pyarrow import types

        if not len(array):
            return np.zeros(0, dtype=self.dtype), None
        kind = array.type
        if types.is_dictionary(kind):
            codes, wrong = self._codes(array.dictionary)
            at = array.indices.to_numpy()
            return codes[at], None if wrong is None else wrong[at]
        text = is_text(kind)
        if not text and not is_number(kind):
            raise InvalidValue(
                f"column {self.column!r} must hold numbers, true/false or text, got {kind}"
            )
        if text != self._of_text:
            wanted = "text" if self._of_text else "numbers or true/false"
            got = f"text like {no_number(array)}" if text else f"{kind} like {array[0].as_py()}"
            raise InvalidValue(f"column {self.column!r} must hold {wanted}, got {got}")
        if self.edges:
            return self._binned(numbers(array))
        if self.asked.listed_values is not None and (text or types.is_integer(kind)):
            return self._labels(array)
        if text:
            words, at = listed(array, self.column)
            return self.asked.encode(words)[at], None
        return self._numbers(numbers(array))

    def _labels(self, array: "pyarrow.Array") -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        """By Arrow's own search, which does not turn numbers beyond 2^53 into floats."""
        from pyarrow import compute

        labels, places = _label_set(self.asked, array.type, self.dtype)
        found = compute.index_in(array, value_set=labels)
        wrong = None
        if found.null_count:
            wrong = found.is_null().to_numpy(zero_copy_only=False)
            found = found.fill_null(0)
        at = found.to_numpy()
        if not len(labels):
            return np.zeros(len(array), dtype=self.dtype), wrong
        return places[at], wrong

    def _binned(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        assert self.edges
        edges = np.array(self.edges)
        if edges.dtype.kind == "i" and values.dtype == np.uint64:
            values = np.minimum(values, np.uint64(2**63 - 1)).astype(np.int64)
        elif edges.dtype.kind == "f" or values.dtype.kind == "f":
            values = values.astype(np.float64, copy=False)
        wrong = ~((values >= edges[0]) & (values <= edges[-1]))
        at = np.searchsorted(edges, values, side="right") - 1
        codes = np.clip(at, 0, len(edges) - 2).astype(self.dtype)
        if self.outside == "clamp":
            wrong = np.isnan(values) if values.dtype.kind == "f" else np.zeros_like(wrong)
        return codes, wrong if wrong.any() else None

    def _numbers(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
        try:
            return self.asked.encode(values).astype(self.dtype, copy=False), None
        except InvalidValue:
            wrong = ~self.asked.fits(values)
        codes = np.zeros(len(values), dtype=self.dtype)
        if not wrong.all():
            codes[~wrong] = self.asked.encode(values[~wrong])
        return codes, wrong


def cleaning(
    column: str,
    task: Task | None,
    *,
    missing: Fill = "error",
    outside: str = "error",
    bins: Sequence[float] | None = None,
) -> Cleaning:
    """How a column shall be cleaned for a task, or for bins; what does not go together is refused.

    missing   "error"; "drop", and then who has no value is not hidden; or a value to fill in.
    outside   "error"; "clamp" moves numbers to the nearest bound or bin; "other" makes one more
              bucket of a histogram, for whatever is in none.
    bins      edges, rising: [0, 18, 65] has the buckets "[0, 18)" and "[18, 65]".
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
                f"`outside` clamp must come with a sum, mean or density or with bins, "
                f"got a {task.name}"
            )
        task = task.changed(clamp=True)
    asked = task
    if outside == "other":
        if "buckets" not in task.settings or task.buckets is None or task.open_values:
            raise InvalidParameter(
                f"`outside` other must come with a histogram that is not open, got a {task.name}"
            )
        labels = [str(bucket) for bucket in task.buckets]
        if OTHER in labels:
            raise InvalidParameter(f"no bucket must be named {OTHER!r} already, got one")
        task = task.changed(buckets=[*labels, OTHER])
    return _checked(Cleaning(column, task, asked, missing, outside))


def _checked(made: Cleaning) -> Cleaning:
    if made.missing not in ("error", "drop"):
        _ = made.fill
    return made


@lru_cache(maxsize=8)
def _label_set(
    task: Task, kind: "pyarrow.DataType", index: np.dtype[Any]
) -> tuple["pyarrow.Array", NDArray[Any]]:
    """The labels that such a column can hold, and the number of the bucket of each."""
    import pyarrow

    held = list(enumerate(task.listed_values or ()))
    if not is_text(kind):
        limits = np.iinfo(kind.to_pandas_dtype())
        held = [(at, label) for at, label in held if limits.min <= int(label) <= limits.max]
    places, labels = zip(*held, strict=True) if held else ((), ())
    return pyarrow.array(labels, type=kind), np.array(places, dtype=index)
