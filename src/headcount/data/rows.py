"""Reads rows of a table of any kind in batches. Only the requested columns are read."""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from headcount.core.errors import HeadcountError, MissingPackage, UnreadableData
from headcount.core.table import counted
from headcount.data.dialect import SEPARATORS
from headcount.data.hints import HEADER, hint_for
from headcount.data.lists import same_lists

if TYPE_CHECKING:
    import pyarrow

# The kind of a column in a file without types. Without a kind, the type of the column is guessed.
Kind: TypeAlias = Literal["text", "date", "real", "whole"]
Kinds: TypeAlias = Mapping[str, Kind]
# A batch, and the share of all rows that has been read so far. The share may be a guess.
Batch: TypeAlias = "tuple[pyarrow.RecordBatch, float]"
_OLD_TEXT = "encoding='latin-1' (--encoding latin-1) reads many older files"
# Messages of Arrow about data in memory. Each has a refusal in plain words, and a hint.
_KNOWN = {
    "Byte-swapped arrays not supported": (
        "have numbers in the byte order of this machine, got the other byte order",
        "`array.astype(array.dtype.newbyteorder('='))` changes it",
    ),
    "Expected integer, got bool": (
        "have values of one kind in a column, got whole numbers and true/false",
        "use 0 and 1, or only true and false",
    ),
}
_SMALL = 2**14  # batches are joined until they have at least this many rows
_RAGGED = re.compile(r"CSV parse error: (?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")
_LISTED = 12  # the largest number of column names that a message lists


class Rows(ABC):
    """A stream of record batches. If `again` is true, it can be read again and has the same rows.

    Error messages refer to the data as `name`, and say that the data must be `wanted`.
    """

    again: ClassVar[bool] = True
    name: str
    wanted: str = "readable"

    @property
    @abstractmethod
    def columns(self) -> Sequence[str]:
        """The names of all columns."""

    @abstractmethod
    def _batches(self, columns: Sequence[str], kinds: Kinds) -> Iterator[Batch]:
        """Batches with these columns."""

    @property
    def holder(self) -> str:
        """The name of the data in error messages about columns."""
        return self.name

    def batches(self, columns: Sequence[str], kinds: Kinds) -> Iterator[Batch]:
        """Batches with these columns. Each column must occur exactly once in the data."""
        with readable(self.name, self.wanted):
            names = self.columns
            for column in columns:
                check_column(column, names, self.holder)
            for batch, share in _merged(self._batches(columns, kinds)):
                yield same_lists(batch), share

    def only_column(self) -> str:
        """The name of the only column. An error is raised if there are several columns."""
        with readable(self.name, self.wanted):
            names = self.columns
        if len(names) != 1:
            raise UnreadableData(
                f"`column` must name one of the columns of {self.name} ({_listed(names)}), got none"
            )
        return names[0]


def _merged(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The same rows in fewer batches. Small batches with the same columns are joined, since even a
    small batch takes some time to clean.
    """
    waiting: list[pyarrow.RecordBatch] = []
    rows, share = 0, 0.0
    for batch, now in batches:
        if waiting and batch.schema != waiting[0].schema:
            yield from ((one, share) for one in _joined(waiting))
            waiting, rows = [], 0
        waiting.append(batch)
        rows, share = rows + batch.num_rows, now
        if rows >= _SMALL:
            yield from ((one, share) for one in _joined(waiting))
            waiting, rows = [], 0
    yield from ((one, share) for one in _joined(waiting))


def _joined(batches: "list[pyarrow.RecordBatch]") -> "list[pyarrow.RecordBatch]":
    """One batch with all rows, or several batches if a column is too long for one batch."""
    import pyarrow

    if len(batches) < 2:
        return batches
    joined: list[pyarrow.RecordBatch] = (
        pyarrow.Table.from_batches(batches).combine_chunks().to_batches()
    )
    return joined


def check_column(column: str, names: Sequence[str], holder: str) -> None:
    """Refuse a column that does not occur exactly once. Messages call the data `holder`."""
    copies = names.count(column)
    if copies == 1:
        return
    near = get_close_matches(column, names, n=1)
    raise UnreadableData(
        f"{holder} must have a column {column!r}, "
        f"got {f'{copies} columns with this name' if copies else _listed(names)}",
        hint="" if copies else f"did you mean {near[0]!r}?" if near else _hint_of_names(names),
    )


def _hint_of_names(names: Sequence[str]) -> str:
    """A hint about names of columns that suggest another separator or another header row."""
    signs = [sign for sign in SEPARATORS if len(names) == 1 and sign in names[0]]
    if signs:
        return f"separator={signs[0]!r} (--separator {SEPARATORS[signs[0]]}) divides this name"
    empty = sum(not name.strip() for name in names)
    return HEADER if 2 * empty >= len(names) > 1 else ""


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return (", ".join(name or "''" for name in names[:_LISTED]) or "none") + more


def require_pyarrow() -> None:
    """Raise an error if pyarrow is not installed, since it is needed to read data."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingPackage(
            "reading data needs pyarrow", hint="pip install 'headcount[data]'"
        ) from None


@contextmanager
def readable(name: str, wanted: str = "readable") -> Iterator[None]:
    """Turn errors about unreadable data into `UnreadableData` with a one-line message."""
    import pyarrow

    try:
        yield
    except HeadcountError:
        raise
    except UnicodeDecodeError as error:
        code = error.encoding.upper()
        raise UnreadableData(
            f"{name} must be {wanted}, got text that is not {code}",
            hint=_OLD_TEXT if code == "UTF-8" else "`encoding` names the right encoding",
        ) from None
    except (OSError, OverflowError, TypeError, ValueError, pyarrow.ArrowException) as error:
        raise unreadable(name, error, wanted) from None


def unreadable(name: str, error: Exception, wanted: str = "readable") -> UnreadableData:
    known = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    lines = known.splitlines()
    reason = lines[0].rstrip(":. ") if lines and lines[0] else type(error).__name__
    if "invalid UTF8" in reason:
        return UnreadableData(
            f"{name} must be {wanted}, got text that is not UTF-8", hint=_OLD_TEXT
        )
    if ragged := _RAGGED.match(reason):
        row, expected, got = ragged.groups()
        return UnreadableData(
            f"{name} must have {counted(int(expected), 'value')} in each row, as in its first row, "
            f"got {got} in {f'row {row}' if row else 'another row'}",
            hint=HEADER if int(got) > int(expected) else "",
        )
    for arrows, (must, hint) in _KNOWN.items():
        if arrows in reason:
            return UnreadableData(f"{name} must {must}", hint=hint)
    return UnreadableData(f"{name} must be {wanted}, got: {reason}", hint=_hint(reason))


def _hint(reason: str) -> str:
    """A hint for a value that Arrow cannot read as a number."""
    value = re.search(r"CSV conversion error to .*: invalid value '(.*)'", reason)
    return hint_for(value[1], counting=False) if value else ""
