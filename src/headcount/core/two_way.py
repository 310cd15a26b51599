"""Two-way tables of counts: cells, totals of rows and columns, and conditional shares.

All are computed from one release of the cells, so the guarantee of this release covers them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.bucket_sums import SumError, sum_error
from headcount.core.cached import cached_property
from headcount.core.cells import Cells, Label
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Answer, ErrorLaw, Estimate
from headcount.core.shares import Share, share
from headcount.core.table import Table, number

Direction: TypeAlias = Literal["rows", "columns"]

_MOST_ROWS, _MOST_COLUMNS = 20, 8  # a larger table is shown as a list of cells


@dataclass(frozen=True, eq=False)
class TotalsError:
    """The errors of the totals of all rows, of all columns, or of both, in the order of `sides`."""

    cells: ErrorLaw
    shape: tuple[int, int]
    sides: tuple[Direction, ...]

    @cached_property
    def _sums(self) -> list[SumError]:
        return [sum_error(self.cells, weights) for weights in self._weights()]

    def _weights(self) -> Iterator[NDArray[np.float64]]:
        """The weights of each total: 1 for its own cells, and 0 for all others."""
        for side in self.sides:
            for at in range(self.shape[0 if side == "rows" else 1]):
                marked = np.zeros(self.shape)
                marked[(at, slice(None)) if side == "rows" else (slice(None), at)] = 1.0
                yield marked.ravel()

    @property
    def standard_error(self) -> Answer:
        return np.array([one.standard_error for one in self._sums])

    def margins(self, confidence: float) -> tuple[Answer, Answer]:
        below, above = zip(*(one.margins(confidence) for one in self._sums), strict=True)
        return np.array(below), np.array(above)


@dataclass(frozen=True, eq=False)
class TableEstimate(Estimate):
    """An estimated table of counts. `value` has its cells row by row, in the order of `buckets`."""

    @property
    def names(self) -> Cells:
        """The labels of rows and columns."""
        assert isinstance(self.buckets, Cells)
        return self.buckets

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns."""
        return len(self.names.rows), len(self.names.columns)

    @property
    def cells(self) -> NDArray[np.float64]:
        """The estimated counts as a matrix."""
        return self._matrix(self.value)

    @cached_property
    def rows(self) -> Estimate:
        """The total of each row, as a histogram."""
        return self._totals("rows")

    @cached_property
    def columns(self) -> Estimate:
        """The total of each column, as a histogram."""
        return self._totals("columns")

    def _totals(self, side: Direction) -> Estimate:
        names, across = self.names, 1 if side == "rows" else 0
        return Estimate(
            task="histogram",
            protocol=self.protocol,
            value=self._matrix(self.value).sum(axis=across),
            users=self.users,
            guarantee=self.guarantee,
            answer_range=self.answer_range,
            whole=self.whole,
            error_law=TotalsError(self.error_law, self.shape, (side,)),
            buckets=names.rows if side == "rows" else names.columns,
            total=self.total,
            postprocessing=self.postprocessing,
            unbiased_value=self._matrix(self.unbiased_value).sum(axis=across),
            way=self.way,
            rows_per_person=self.rows_per_person,
        )

    def share(
        self,
        label: Label,
        *,
        given_row: Label | None = None,
        given_column: Label | None = None,
        confidence: float = 0.95,
        sampling: bool = False,
    ) -> Share:
        """The share of a row among the people in a column, or of a column among those in a row.

            table.share("yes", given_row="north")     # which share of the north says yes?
            table.share("north", given_column="yes")  # which share of those who say yes is north?

        The share is that of the people who took part or, with `sampling=True`, that of the
        population from which they were drawn.
        """
        if (given_row is None) == (given_column is None):
            raise InvalidParameter(
                "`given_row` or `given_column` must be given, and not both, got "
                f"{checks.shown(given_row)} and {checks.shown(given_column)}"
            )
        names = self.names
        if given_row is not None:
            _check_label("given_row", given_row, names.rows)
            _check_label("label", label, names.columns)
            chosen = names.name(given_row, label)
            among = [names.name(given_row, column) for column in names.columns]
        else:
            assert given_column is not None
            _check_label("given_column", given_column, names.columns)
            _check_label("label", label, names.rows)
            chosen = names.name(label, given_column)
            among = [names.name(row, given_column) for row in names.rows]
        return share(self, chosen, among, confidence, sampling=sampling)

    def shares(
        self, within: Direction = "rows", confidence: float = 0.95, *, sampling: bool = False
    ) -> list[list[Share]]:
        """All shares within each row or within each column, as a matrix."""
        checks.choice("within", within, ("rows", "columns"))
        names = self.names
        kind: dict[str, Any] = {"confidence": confidence, "sampling": sampling}
        if within == "rows":
            return [self._line(names.columns, given_row=row, **kind) for row in names.rows]
        lines = [self._line(names.rows, given_column=column, **kind) for column in names.columns]
        return [list(row) for row in zip(*lines, strict=True)]

    def _line(self, labels: Sequence[Label], **kind: Any) -> list[Share]:
        """The shares of these labels in one row or column."""
        if len(labels) == 2:  # the interval of one share follows from that of the other
            first = self.share(labels[0], **kind)
            return [first, first.of_others]
        return [self.share(label, **kind) for label in labels]

    def _matrix(self, numbers: Answer) -> NDArray[np.float64]:
        return np.asarray(numbers).reshape(self.shape)

    def table(
        self, confidence: float = 0.95, *, sampling: bool = False, simultaneous: bool = False
    ) -> Table:
        """The cells and totals as a matrix, with intervals. A large table is a list of cells."""
        names = self.names
        if len(names.rows) > _MOST_ROWS or len(names.columns) > _MOST_COLUMNS:
            return super().table(confidence, sampling=sampling, simultaneous=simultaneous)
        kind = {"sampling": sampling, "simultaneous": simultaneous}
        rows, columns = self.rows, self.columns
        cells = self._matrix(_with_intervals(self, confidence, kind))
        across, down = (_with_intervals(one, confidence, kind) for one in (rows, columns))
        every = ", all cells at once" * simultaneous
        whose = " for the population" * sampling
        note = f"estimates with {100 * confidence:.10g} % intervals{whose}{every}"
        warning = self.guarantee.warning
        return Table(
            ("", *map(str, names.columns), total_label(names.columns)),
            (
                *(
                    (str(label), *line, total)
                    for label, line, total in zip(names.rows, cells.tolist(), across, strict=True)
                ),
                (total_label(names.rows), *down, f"{self.users:,}"),
            ),
            notes=(*([warning] if warning else []), note),
        )

    def records(
        self, confidence: float = 0.95, *, sampling: bool = False, simultaneous: bool = False
    ) -> dict[str, list[Any]]:
        """A row for each cell, and then a row for each total. The column `kind` tells cells from
        totals. The first two columns have the labels of rows and columns. They have the names of
        the columns of the data, or are called `row` and `column` if these names cannot be used.
        """
        kind = {"sampling": sampling, "simultaneous": simultaneous}
        names, (down, across) = self.names, self.shape
        right, below = total_label(names.columns), total_label(names.rows)
        parts = (
            super().records(confidence, **kind),
            self.rows.records(confidence, **kind),
            self.columns.records(confidence, **kind),
        )
        numbers = {key: [one for part in parts for one in part[key]] for key in parts[0]}
        del numbers["bucket"]
        known = {"value": self.users, "unbiased_value": self.users, "standard_error": 0.0,
                 "low": self.users, "high": self.users}  # fmt: skip
        for key, column in numbers.items():
            column.append(float(known[key]) if key in known else column[0])
        lines = [str(row) for row in names.rows for _ in names.columns]
        heads = [str(column) for _ in names.rows for column in names.columns]
        marks = {"cell": down * across, "total of a row": down, "total of a column": across}
        labels = {
            "row": [*lines, *map(str, names.rows), *[below] * (across + 1)],
            "column": [*heads, *[right] * down, *map(str, names.columns), right],
            "kind": [*(mark for mark, many in marks.items() for _ in range(many)), "total"],
        }
        given = self.column_names
        if len({*given} - {*numbers, "kind", "group"}) == 2:
            labels = dict(zip((*given, "kind"), labels.values(), strict=True))
        return {**labels, **numbers}

    def to_dict(
        self, confidence: float = 0.95, *, sampling: bool = False, simultaneous: bool = False
    ) -> dict[str, Any]:
        """The table for JSON, with the totals of rows and columns."""
        kind = {"sampling": sampling, "simultaneous": simultaneous}
        document = super().to_dict(confidence, **kind)
        told = ("buckets", "value", "unbiased_value", "standard_error", "interval")
        for side, one in (("rows", self.rows), ("columns", self.columns)):
            stated = one.to_dict(confidence, **kind)
            document[side] = {name: stated[name] for name in told}
        return document


def total_label(labels: Sequence[Label]) -> str:
    """The label of totals: "all", or "all together" if one of these labels is already "all"."""
    total = "all"
    while total in labels:
        total += " together"
    return total


def _check_label(name: str, label: object, labels: Sequence[Label]) -> None:
    if not isinstance(label, str | int) or label not in labels:
        raise InvalidParameter(
            f"`{name}` must be one of {checks.few(labels)}, got {checks.shown(label)}"
        )


def _with_intervals(estimate: Estimate, confidence: float, kind: dict[str, bool]) -> list[str]:
    interval = Estimate.interval(estimate, confidence, **kind)
    return [
        f"{number(value)} ({number(low)} to {number(high)})"
        for value, low, high in zip(estimate.value, interval.low, interval.high, strict=True)
    ]
