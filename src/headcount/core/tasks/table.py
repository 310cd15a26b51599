"""The number of people in each cell of a two-way table."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.core.cached import cached_property
from headcount.core.cells import BETWEEN, Cells
from headcount.core.errors import InvalidParameter, InvalidValue
from headcount.core.task import Counts, Holding, Task
from headcount.core.tasks.histogram import Histogram
from headcount.core.tasks.uses import Uses
from headcount.core.values import array_of_counts

if TYPE_CHECKING:
    from headcount.core.two_way import TableEstimate

MOST_CELLS = 2**16


@dataclass(frozen=True, init=False)
class Table(Histogram):
    """How many people hold each pair of two values?

    `Table(["north", "south"], ["yes", "no"])` has two rows and two columns. `Table(2, 3)` has the
    rows 0 and 1 and the columns 0, 1 and 2. A person's value is a pair, such as `("north", "yes")`,
    or the name of a cell, such as `"north × yes"`, or its number, which is 0 for the first cell.
    A table is a histogram whose buckets are the cells. So every protocol for histograms answers it.
    """

    rows: tuple[int | str, ...] | int
    columns: tuple[int | str, ...] | int

    name = "table"
    error_unit = ", in a cell (people)"
    uses = Uses(sampling="binomial", shares="cells", simultaneous=True, figure="one group")
    example_settings = Task.example_settings
    example_words = "people are spread evenly over the cells"

    def __init__(self, rows: int | Iterable[int | str], columns: int | Iterable[int | str]) -> None:
        sides = [_side("rows", rows), _side("columns", columns)]
        cells = sides[0].domain * sides[1].domain
        if cells > MOST_CELLS:
            raise InvalidParameter(f"a table must have at most {MOST_CELLS:,} cells, got {cells:,}")
        object.__setattr__(self, "rows", sides[0].labels)
        object.__setattr__(self, "columns", sides[1].labels)
        super().__init__(self.buckets)

    def estimate(self, **parts: Any) -> "TableEstimate":
        from headcount.core.two_way import TableEstimate

        return TableEstimate(**parts)

    def __str__(self) -> str:
        rows, columns = (side.domain for side in self.sides)
        return f"Table of {rows} rows and {columns} columns"

    @property
    def settings(self) -> dict[str, Any]:
        given = {"rows": self.rows, "columns": self.columns}
        return {
            name: labels if isinstance(labels, int) else list(labels)
            for name, labels in given.items()
        }

    @cached_property
    def sides(self) -> tuple[Histogram, Histogram]:
        """The rows and the columns, each as a histogram."""
        return Histogram(self.rows), Histogram(self.columns)

    @property
    def buckets(self) -> Sequence[int | str]:
        rows, columns = self.sides
        return Cells(tuple(rows.buckets), tuple(columns.buckets))

    def encode(self, values: ArrayLike, *, first: int = 0) -> NDArray[Any]:
        """The number of each person's cell."""
        pairs = _pairs(values)
        if pairs is None:
            if _are_numbers(values):
                return Histogram(self.domain).encode(values, first=first)
            return super().encode(values, first=first)
        rows, columns = (
            side.encode(_plain(pairs[:, at]), first=first).astype(np.int64)
            for at, side in enumerate(self.sides)
        )
        return (rows * self.sides[1].domain + columns).astype(self.encoded_dtype)

    def holding(self, counts: Counts) -> Holding:
        """How many people hold each pair. `counts` is a matrix, or a list of all cells."""
        array = array_of_counts(counts)
        shape = tuple(side.domain for side in self.sides)
        return super().holding(array.reshape(-1) if array.shape == shape else counts)


def _side(name: str, labels: int | Iterable[int | str]) -> Histogram:
    try:
        side = Histogram(labels)
    except InvalidParameter as error:
        raise InvalidParameter(error.message.replace("`buckets`", f"`{name}`")) from None
    if any(BETWEEN in label for label in side.buckets if isinstance(label, str)):
        raise InvalidParameter(f"no label of `{name}` may contain {BETWEEN!r}, got such a label")
    return side


def _pairs(values: ArrayLike) -> NDArray[Any] | None:
    """The values as two columns. None if they are not pairs."""
    try:
        array = np.asarray(values, dtype=None if isinstance(values, np.ndarray) else object)
    except (ValueError, TypeError, OverflowError):
        return None
    if array.ndim == 1:
        return None
    if array.ndim != 2 or array.shape[1] != 2:
        raise InvalidValue(
            f"values must be a pair for each person, got an array of the shape {array.shape}"
        )
    return array


def _plain(column: NDArray[Any]) -> Any:
    """The column. If it has objects, it becomes a list, so that NumPy infers a better type."""
    return column.tolist() if column.dtype == object else column


def _are_numbers(values: ArrayLike) -> bool:
    try:
        return np.asarray(values).dtype.kind in "biuf"
    except (ValueError, TypeError, OverflowError):
        return False


@runtime_checkable
class OfPairs(Protocol):
    """A task whose values are pairs of a row and a column."""

    @property
    def sides(self) -> tuple[Histogram, Histogram]: ...


def sides_of(task: object) -> tuple[Histogram, Histogram] | None:
    """The rows and the columns of a task. None if its values are not pairs."""
    return task.sides if isinstance(task, OfPairs) else None
