"""Reads rows of Excel workbooks (.xlsx). The first row of a sheet has the names of its columns,
unless a setting names another row.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headcount.core.cached import cached_property
from headcount.core.errors import MissingPackage, UnreadableData
from headcount.data.date_formats import whole_text
from headcount.data.dialect import Dialect
from headcount.data.reading import Reading
from headcount.data.rows import Batch, Kind, Kinds, Rows, check_column, readable, unreadable

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True)
class SheetRows(Rows):
    """Rows of workbooks. If a workbook has several sheets, `dialect` must name one of them."""

    name: str
    files: Sequence[Path]
    dialect: Dialect
    wanted = "a readable .xlsx file"

    @cached_property
    def columns(self) -> Sequence[str]:
        return self._names(self._cells(self.files[0]))

    @property
    def holder(self) -> str:
        return self._shown(self.files[0])

    def _shown(self, file: Path) -> str:
        return self.name if len(self.files) == 1 else str(file)

    def _batches(self, columns: Sequence[str], kinds: Kinds) -> Iterator[Batch]:
        import pyarrow

        for number, file in enumerate(self.files, 1):
            cells = self._cells(file)
            names = self._names(cells)
            arrays = []
            for column in columns:
                check_column(column, names, self._shown(file))
                at = names.index(column)
                with readable(f"column {column!r} of {self._shown(file)}"):
                    held = [row[at] for row in cells[1:]]
                    arrays.append(_array(held, kinds.get(column), self.dialect.rules))
            yield pyarrow.RecordBatch.from_arrays(arrays, list(columns)), number / len(self.files)

    def _names(self, cells: list[list[Any]]) -> list[str]:
        return [_text(cell) or "" for cell in cells[0]] if cells else []

    def _cells(self, file: Path) -> list[list[Any]]:
        """The cells of the sheet, from the row with the names of columns. Empty rows at the end are
        left out.
        """
        try:
            from python_calamine import CalamineError, CalamineWorkbook
        except ImportError:
            raise MissingPackage(
                "reading .xlsx files needs python-calamine", hint="pip install 'headcount[excel]'"
            ) from None
        shown = self._shown(file)
        try:
            book = CalamineWorkbook.from_path(str(file))
            names, wanted = book.sheet_names, self.dialect.sheet
            if wanted is None and len(names) != 1:
                raise UnreadableData(
                    f"{shown} has several sheets ({', '.join(names)}), so `sheet` (--sheet) must "
                    "name one"
                )
            if wanted not in (None, *names):
                raise UnreadableData(
                    f"{shown} must have the sheet that `sheet` names, got {wanted!r}",
                    hint=f"the sheets are {', '.join(names)}",
                )
            sheet, row = book.get_sheet_by_name(wanted or names[0]), self.dialect.header_row
            # With `header_row`, empty rows at the top count as rows.
            rows = sheet.to_python(skip_empty_area=row is None)[(row or 1) - 1 :]
        except CalamineError as error:
            raise unreadable(shown, error, self.wanted) from None
        while rows and all(cell == "" for cell in rows[-1]):
            rows.pop()
        return rows


def _array(cells: list[Any], kind: Kind | None, rules: Reading) -> "pyarrow.Array":
    """The cells of a column as an Arrow array. If numbers are expected, texts of numbers are read
    as numbers. If any other cell is text, or `kind` is "text", all cells are read as text.
    """
    held = [cell for cell in cells if _text(cell)]
    dated = bool(held) and all(isinstance(cell, date) for cell in held)
    if kind in ("real", "whole") and any(isinstance(cell, str) for cell in held):
        return _numbers(cells, rules)
    if kind == "date" and not dated:
        return _texts([_dated(cell, rules.date_format) for cell in cells])
    if kind == "text" or any(isinstance(cell, str) for cell in held):
        return _texts(cells)
    return _values([cell if _text(cell) else None for cell in cells], dated=dated)


def _values(values: list[Any], *, dated: bool) -> "pyarrow.Array":
    """Numbers, dates or truth values as an Arrow array. `dated` says whether all are dates."""
    import pyarrow

    held = [value for value in values if value is not None]
    if dated:
        return pyarrow.array([_moment(cell) for cell in values], type=pyarrow.timestamp("us"))
    if all(isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53 for cell in held):
        return pyarrow.array([None if cell is None else int(cell) for cell in values])
    if not held:
        return pyarrow.nulls(len(values), type=pyarrow.float64())
    return pyarrow.array(values)


def _texts(cells: list[Any]) -> "pyarrow.Array":
    import pyarrow

    return pyarrow.array([_text(cell) or None for cell in cells], type=pyarrow.string())


def _numbers(cells: list[Any], rules: Reading) -> "pyarrow.Array":
    """The numbers in cells, some of which are text. If any text is not a number, all cells become
    text, and their numbers have the decimal sign of the other texts.
    """
    import pyarrow

    given = (_text(cell) for cell in cells)
    texts = rules.with_nulls(
        _texts(
            [
                text.replace(".", rules.decimal) if isinstance(cell, float) else text
                for text, cell in zip(given, cells, strict=True)
            ]
        )
    )
    try:
        return rules.parsed(texts)
    except pyarrow.ArrowInvalid:
        return texts


def _dated(cell: Any, date_format: str | None) -> Any:
    """A cell of a column of texts. A date becomes a text that is read in every format."""
    plain = date_format is None or not isinstance(cell, date)
    return cell if plain else whole_text(cell)


def _moment(cell: date | None) -> datetime | None:
    return cell if cell is None or isinstance(cell, datetime) else datetime.combine(cell, time())


def _text(cell: Any) -> str:
    """The text of a cell, as it would be in a CSV file. An empty cell gives an empty text."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, date | time):
        return cell.isoformat()
    return "" if cell is None else str(cell).strip()
