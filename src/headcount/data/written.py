"""How a table is written. `estimate` and `Survey.run` share these settings."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from headcount.data.dialect import PLAIN, Dialect
from headcount.data.reading import Reading, reading


class TableSettings(TypedDict, total=False):
    """The keyword arguments that say how a table is written. `estimate` documents them."""

    separator: str | None
    quote: str
    encoding: str | None
    sheet: str | None
    decimal: str
    na: str | Sequence[str] | None
    yes: str | Sequence[str] | None
    no: str | Sequence[str] | None


@dataclass(frozen=True)
class Written:
    """The rules for the columns of a table, and the dialect of its files."""

    rules: Reading = field(default_factory=Reading)
    dialect: Dialect = PLAIN

    @classmethod
    def of(
        cls,
        *,
        separator: str | None = None,
        quote: str = '"',
        encoding: str | None = None,
        sheet: str | None = None,
        decimal: str = ".",
        na: str | Sequence[str] | None = None,
        yes: str | Sequence[str] | None = None,
        no: str | Sequence[str] | None = None,
        period: str | None = None,
    ) -> "Written":
        """Create the rules and the dialect from these settings, and check the settings."""
        rules = reading(yes, no, na, decimal, period)
        return cls(rules, Dialect(separator, quote, encoding, sheet, decimal, rules.na))


USUAL = Written()
