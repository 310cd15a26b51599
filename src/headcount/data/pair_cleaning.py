"""Turns two columns into the cells of a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.errors import InvalidParameter
from headcount.core.task import Task
from headcount.core.tasks.histogram import Histogram
from headcount.core.tasks.table import sides_of
from headcount.core.two_way import BETWEEN
from headcount.data.cleaning import Cleaned, Cleaning, Fill, cleaning
from headcount.data.rows import Kind

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class PairCleaning(Cleaning):
    """How two columns become the cells of a table. The function `cleaning_of` makes it.

    `sides` says how the column of the rows and the column of the columns are cleaned.
    """

    sides: tuple[Cleaning, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(side.column for side in self.sides)

    @property
    def kinds(self) -> dict[str, Kind]:
        return {column: kind for side in self.sides for column, kind in side.kinds.items()}

    @property
    def allowed(self) -> str:
        return " and ".join(f"{side.allowed} in {side.column!r}" for side in self.sides)

    def clean_batch(self, batch: "pyarrow.RecordBatch", first: int = 0) -> Cleaned:
        rows, columns = (side.clean_batch(batch, first) for side in self.sides)
        kept = rows.kept
        if columns.kept is not None:
            kept = columns.kept if kept is None else kept & columns.kept
        across, down = (_spread(side, batch.num_rows, kept) for side in (rows, columns))
        codes = across * self.sides[1].task.domain + down
        return Cleaned(codes.astype(self.dtype), kept, rows.problems + columns.problems)


def cleaning_of(
    column: str | Sequence[str],
    task: Task | None,
    *,
    missing: Fill = "error",
    outside: str = "error",
    bins: Sequence[float] | None = None,
) -> Cleaning:
    """How to clean a column (see `cleaning`), or a table's columns of rows and of columns.

    If there are two columns and `missing` is a value to fill in, it must be a label of the rows or
    of the columns. It is filled in where it is a label.
    """
    sides = sides_of(task)
    if isinstance(column, str) or sides is None or task is None:
        if not isinstance(column, str):
            raise InvalidParameter(
                "`column` must be one column unless the task is a table, "
                f"got {checks.shown(column)}"
            )
        return cleaning(column, task, missing=missing, outside=outside, bins=bins)
    if bins is not None or outside != "error":
        raise InvalidParameter("a table must come without `bins` and `outside`, got one of them")
    names = list(column)
    if len(names) != 2 or not all(isinstance(name, str) for name in names) or names[0] == names[1]:
        raise InvalidParameter(
            f"`column` must be two different columns for a table, got {checks.shown(column)}"
        )
    return _pair(names, task, sides, missing)


def _pair(
    names: list[str], task: Task, tasks: tuple[Histogram, Histogram], missing: Fill
) -> PairCleaning:
    sides = []
    for column, side in zip(names, tasks, strict=True):
        fills = missing in ("error", "drop") or missing in side.buckets
        sides.append(cleaning(column, side, missing=missing if fills else "error"))
    if missing != "error" and all(side.missing == "error" for side in sides):
        raise InvalidParameter(
            "`missing` must be error, drop, or a label of the rows or columns, "
            f"got {checks.shown(missing)}"
        )
    name = BETWEEN.join(names)
    return PairCleaning(name, task, task, missing, "error", sides=tuple(sides))


def _spread(side: Cleaned, rows: int, kept: NDArray[np.bool_] | None) -> NDArray[np.int64]:
    """The codes of one column in the rows that are kept."""
    codes = side.codes.astype(np.int64)
    if side.kept is not None:
        every = np.zeros(rows, dtype=np.int64)
        every[side.kept] = codes
        codes = every
    return codes if kept is None else codes[kept]
