"""How a table is written. `estimate` and `Survey.run` share these settings."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack

from headcount.data.dialect import PLAIN, Dialect
from headcount.data.reading import Reading, reading


class TableSettings(TypedDict, total=False):
    """The keyword arguments that say how a table is written. `estimate` documents them."""

    separator: str | None
    quote: str
    encoding: str | None
    sheet: str | None
    header_row: int | None
    decimal: str
    thousands: str | None
    date_format: str | None
    trim: bool
    na: str | Sequence[str] | None
    yes: str | Sequence[str] | None
    no: str | Sequence[str] | None


_OF_FILES = ("separator", "quote", "encoding", "sheet", "header_row")


@dataclass(frozen=True)
class Written:
    """The rules for the columns of a table, and the dialect of its files."""

    rules: Reading = field(default_factory=Reading)
    dialect: Dialect = PLAIN

    @classmethod
    def of(cls, period: str | None = None, **settings: Unpack[TableSettings]) -> "Written":
        """Create the rules and the dialect from these settings, and check the settings."""
        given: dict[str, Any] = {**settings}
        files = {name: given.pop(name) for name in _OF_FILES if name in given}
        rules = reading(**given, period=period)
        return cls(rules, Dialect(**files, rules=rules))


USUAL = Written()
