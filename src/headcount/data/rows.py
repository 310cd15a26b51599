"""Rows of a table, whatever it is: batches of the columns that are asked for, and no others."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from headcount.core.errors import HeadcountError, MissingPackage, UnreadableData

if TYPE_CHECKING:
    import pyarrow

# What a column of a file without types is read as; without a word for it, it is guessed.
Kind: TypeAlias = Literal["text", "real"]
Kinds: TypeAlias = Mapping[str, Kind]
# A batch, and the share of all rows that have been read with it, where that is known.
Batch: TypeAlias = "tuple[pyarrow.RecordBatch, float]"
_LISTED = 12  # names of columns that a refusal shows


class Rows(ABC):
    """A stream of record batches. Most can be read again, and then give the same rows."""

    again: ClassVar[bool] = True
    name: str  # in refusals
    wanted: str = "readable"  # what it must be, in refusals

    @property
    @abstractmethod
    def columns(self) -> Sequence[str]:
        """The names of all columns."""

    @abstractmethod
    def _batches(self, columns: Sequence[str], kinds: Kinds) -> Iterator[Batch]:
        """Batches with these columns."""

    @property
    def holder(self) -> str:
        """What a refusal names as having the columns."""
        return self.name

    def batches(self, columns: Sequence[str], kinds: Kinds) -> Iterator[Batch]:
        """Batches with these columns, each of which must be there, once."""
        with readable(self.name, self.wanted):
            names = self.columns
            for column in columns:
                check_column(column, names, self.holder)
            yield from self._batches(columns, kinds)

    def only_column(self) -> str:
        """The name of the only column, for who named none."""
        with readable(self.name, self.wanted):
            names = self.columns
        if len(names) != 1:
            raise UnreadableData(
                f"`column` must name one of the columns of {self.name}, got none of "
                f"{_listed(names)}"
            )
        return names[0]


def check_column(column: str, names: Sequence[str], holder: str) -> None:
    """Refuse what is not there once; `holder` is what has the columns."""
    found = names.count(column)
    if found == 1:
        return
    near = get_close_matches(column, names, n=1)
    raise UnreadableData(
        f"{holder} must have a column {column!r}, got {'it twice' if found else _listed(names)}",
        hint=f"did you mean {near[0]!r}?" if near and not found else "",
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return (", ".join(name or "''" for name in names[:_LISTED]) or "none") + more


def require_pyarrow() -> None:
    """Refuse without pyarrow, which all reading goes through."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingPackage(
            "reading data needs pyarrow", hint="pip install 'headcount[data]'"
        ) from None


@contextmanager
def readable(name: str, wanted: str = "readable") -> Iterator[None]:
    """What others raise about unreadable data becomes a refusal of one line."""
    import pyarrow

    try:
        yield
    except HeadcountError:
        raise
    except UnicodeDecodeError:
        raise UnreadableData(f"{name} must be {wanted}, got text that is no UTF-8") from None
    except (OSError, OverflowError, TypeError, ValueError, pyarrow.ArrowException) as error:
        raise unreadable(name, error, wanted) from None


def unreadable(name: str, error: Exception, wanted: str = "readable") -> UnreadableData:
    known = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    lines = known.splitlines()
    reason = lines[0].rstrip(":. ") if lines and lines[0] else type(error).__name__
    return UnreadableData(f"{name} must be {wanted}, got: {reason}")
