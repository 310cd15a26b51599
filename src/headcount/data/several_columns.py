"""Turns two columns into the cells of a two-way table, or columns of 0 and 1 into ticked boxes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.cells import BETWEEN
from headcount.core.errors import InvalidParameter
from headcount.core.task import Task
from headcount.core.tasks.count import Count
from headcount.core.tasks.histogram import Histogram
from headcount.core.tasks.table import sides_of
from headcount.data.cleaning import Cleaned, Cleaning, Fill, cleaning
from headcount.data.problems import Problems
from headcount.data.reading import Reading
from headcount.data.rows import Kind

if TYPE_CHECKING:
    import pyarrow

_AS_IT_IS = Reading()


@dataclass(frozen=True)
class SeveralColumns(Cleaning):
    """The rules that turn several columns into one value. `sides` has the rules for each column.
    The function `cleaning_of` creates these objects.
    """

    sides: tuple[Cleaning, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(side.column for side in self.sides)

    @property
    def kinds(self) -> dict[str, Kind]:
        return {column: kind for side in self.sides for column, kind in side.kinds.items()}

    def of_table(self, holder: str) -> Cleaning:
        sides = tuple(side.of_table(holder) for side in self.sides)
        return replace(self, holder=holder, sides=sides)

    def reading_hint(self, texts: Sequence[str]) -> str:
        return next(filter(None, (side.reading_hint(texts) for side in self.sides)), "")

    @property
    def allowed(self) -> str:
        return " and ".join(f"{side.allowed} in {side.column!r}" for side in self.sides)

    def clean_batch(self, batch: "pyarrow.RecordBatch", first: int = 0) -> Cleaned:
        """The encoded values of a batch. A row is kept only if the rules of every column keep it.
        `first` is the number of rows before the batch.
        """
        cleaned = [side.clean_batch(batch, first) for side in self.sides]
        masks = [one.kept for one in cleaned if one.kept is not None]
        kept = np.logical_and.reduce(masks) if masks else None
        codes = self._together([_spread(one, batch.num_rows, kept) for one in cleaned])
        problems = sum((one.problems for one in cleaned), Problems())
        return Cleaned(codes.astype(self.dtype), kept, problems + self._misfits(codes, kept, first))

    def _together(self, columns: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Combine the codes of all columns into one code for each row."""
        raise NotImplementedError

    def _misfits(
        self, codes: NDArray[np.int64], kept: NDArray[np.bool_] | None, first: int
    ) -> Problems:
        """The problems of rows whose values are allowed in each column, but do not fit together."""
        return Problems()


@dataclass(frozen=True)
class PairCleaning(SeveralColumns):
    """The rules that turn two columns into the cells of a two-way table. The value in the first
    column decides the row of the cell. The value in the second column decides the column.
    """

    def _together(self, columns: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        across, down = columns
        return across * self.sides[1].task.domain + down


@dataclass(frozen=True)
class BoxCleaning(SeveralColumns):
    """The rules that turn columns of 0 and 1 into ticked boxes. Each box has its own column."""

    @property
    def allowed(self) -> str:
        return f"0 or 1 in each column, and together {self.task.allowed}"

    def _together(self, columns: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
        ticked = [column << box for box, column in enumerate(columns)]
        codes: NDArray[np.int64] = np.bitwise_or.reduce(ticked)
        return codes

    def _misfits(
        self, codes: NDArray[np.int64], kept: NDArray[np.bool_] | None, first: int
    ) -> Problems:
        import pyarrow

        wrong = np.flatnonzero(~self.task.fits(codes))
        names = self.task.buckets or ()
        texts = [
            ";".join(str(name) for box, name in enumerate(names) if codes[at] >> box & 1)
            for at in wrong.tolist()
        ]
        rows = wrong if kept is None else np.flatnonzero(kept)[wrong]
        if not texts:
            return Problems()
        return Problems.of_outside(pyarrow.array(texts), np.arange(len(texts)), rows, first)


def cleaning_of(
    column: str | Sequence[str],
    task: Task | None,
    *,
    missing: Fill = "error",
    outside: str = "error",
    bins: Sequence[float | str] | None = None,
    reading: Reading = _AS_IT_IS,
) -> Cleaning:
    """The rules that clean one column (see `cleaning`), the two columns of a two-way table, or the
    columns of boxes. The column of a box holds 0 or 1.

    For a two-way table, `missing` may be a label of the rows or of the columns. This label is
    filled in on each side that has it. A side without this label refuses missing values. For boxes,
    a value that is filled in must be 0 or 1.
    """
    if isinstance(column, str):
        return cleaning(column, task, missing=missing, outside=outside, bins=bins, reading=reading)
    sides = sides_of(task)
    boxes = task is not None and task.value_kind == "collections"
    if task is None or (sides is None and not boxes):
        raise InvalidParameter(
            "`column` must be one column unless the task is a table or boxes, "
            f"got {checks.shown(column)}"
        )
    if bins is not None or outside != "error":
        raise InvalidParameter(
            "several columns must come without `bins` and `outside`, got one of them"
        )
    names = list(column)
    number = 2 if sides else len(task.buckets or ())
    words = all(isinstance(name, str) for name in names)
    if len(names) != number or not words or len(set(names)) < len(names):
        raise InvalidParameter(
            f"`column` must be {number} different columns for the task {task.name}, "
            f"got {checks.shown(column)}"
        )
    if sides:
        return _pair(names, task, sides, missing, reading)
    ticks = tuple(cleaning(name, Count(), missing=missing, reading=reading) for name in names)
    name = ", ".join(names)
    return BoxCleaning(name, task, task, missing, "error", reading=reading, sides=ticks)


def _pair(
    names: list[str],
    task: Task,
    tasks: tuple[Histogram, Histogram],
    missing: Fill,
    reading: Reading,
) -> PairCleaning:
    sides = []
    for column, side in zip(names, tasks, strict=True):
        fills = missing in ("error", "drop", "bucket") or missing in side.buckets
        fill = missing if fills else "error"
        sides.append(cleaning(column, side, missing=fill, reading=reading))
    if missing != "error" and all(side.missing == "error" for side in sides):
        raise InvalidParameter(
            "`missing` must be error, drop, bucket, or a label of the rows or columns, "
            f"got {checks.shown(missing)}"
        )
    if missing == "bucket":
        rows, columns = (list(side.task.buckets or ()) for side in sides)
        task = task.changed(rows=rows, columns=columns)
    name = BETWEEN.join(names)
    return PairCleaning(name, task, task, missing, "error", reading=reading, sides=tuple(sides))


def _spread(side: Cleaned, rows: int, kept: NDArray[np.bool_] | None) -> NDArray[np.int64]:
    """The codes of one column, in the rows that the rules of all columns keep. `kept` marks these
    rows among all rows of the batch.
    """
    codes = side.codes.astype(np.int64)
    if side.kept is not None:
        every = np.zeros(rows, dtype=np.int64)
        every[side.kept] = codes
        codes = every
    return codes if kept is None else codes[kept]
