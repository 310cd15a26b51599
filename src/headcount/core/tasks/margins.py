"""The totals of the rows and of the columns of a two-way table."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.core.cached import cached_property
from headcount.core.estimate import Answer
from headcount.core.task import Counts, Holding, Task
from headcount.core.tasks.histogram import Histogram
from headcount.core.tasks.table import Table


@dataclass(frozen=True, init=False)
class Margins(Task):
    """How many people are in each row, and how many in each column, of a two-way table?

    People hold pairs, as for a `Table` with the same rows and columns. The answer has the totals of
    all rows, then those of all columns. It does not say how rows and columns depend on each other.
    """

    rows: tuple[int | str, ...] | int
    columns: tuple[int | str, ...] | int

    name = "margins"
    histograms = 2
    whole_answers = True
    numbered = True
    example_words = Table.example_words

    def __init__(self, rows: int | Iterable[int | str], columns: int | Iterable[int | str]) -> None:
        table = Table(rows, columns)
        object.__setattr__(self, "rows", table.rows)
        object.__setattr__(self, "columns", table.columns)

    def __str__(self) -> str:
        rows, columns = self.shape
        return f"Margins of {rows} rows and {columns} columns"

    @cached_property
    def table(self) -> Table:
        """The question about the cells of the same table."""
        return Table(self.rows, self.columns)

    @property
    def settings(self) -> dict[str, Any]:
        return self.table.settings

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns."""
        rows, columns = self.sides
        return rows.domain, columns.domain

    # What people may hold -----------------------------------------------------------------------

    @property
    def sides(self) -> tuple[Histogram, Histogram]:
        """The rows and the columns, each as a histogram."""
        return self.table.sides

    @property
    def domain(self) -> int:
        return self.table.domain

    @property
    def allowed(self) -> str:
        return self.table.allowed

    @property
    def value_kind(self) -> Any:
        return self.table.value_kind

    @property
    def listed_values(self) -> Sequence[int | str] | None:
        return self.table.listed_values

    def encode(self, values: ArrayLike, *, first: int = 0) -> NDArray[Any]:
        """The number of each person's cell."""
        return self.table.encode(values, first=first)

    def holding(self, counts: Counts) -> Holding:
        """How many people hold each pair: see `Table.holding`."""
        return self.table.holding(counts)

    # What is answered ---------------------------------------------------------------------------

    @property
    def buckets(self) -> Sequence[str]:
        rows, columns = self.sides
        return (
            *(f"row {label}" for label in rows.buckets),
            *(f"column {label}" for label in columns.buckets),
        )

    def totals(self, cells: NDArray[Any]) -> NDArray[Any]:
        """The totals of all rows and columns, computed from the numbers in all cells."""
        matrix = cells.reshape(self.shape)
        return np.concatenate([matrix.sum(axis=1), matrix.sum(axis=0)])

    def answer(self, held: Holding) -> Answer:
        return self.totals(held.counts).astype(np.float64)

    def answer_range(self, users: int) -> tuple[float, float]:
        return 0.0, float(users)
