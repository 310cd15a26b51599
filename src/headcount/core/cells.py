"""The names of the cells of a two-way table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, overload

Label: TypeAlias = int | str

BETWEEN = " × "  # stands between a row's label and a column's label in the name of a cell


@dataclass(frozen=True)
class Cells(Sequence[str]):
    """The names of all cells of a table, row by row: "north × yes", "north × no", …"""

    rows: tuple[Label, ...]
    columns: tuple[Label, ...]

    def __len__(self) -> int:
        return len(self.rows) * len(self.columns)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[str, ...]: ...
    def __getitem__(self, at: int | slice) -> str | tuple[str, ...]:
        if isinstance(at, slice):
            return tuple(self[place] for place in range(*at.indices(len(self))))
        row, column = divmod(range(len(self))[at], len(self.columns))
        return self.name(self.rows[row], self.columns[column])

    def name(self, row: Label, column: Label) -> str:
        """The name of a cell."""
        return f"{row}{BETWEEN}{column}"
