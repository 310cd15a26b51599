"""The options that say how a table is written. All commands that read tables share them."""

from dataclasses import dataclass
from typing import Annotated

import typer

from headcount.cli.texts import listed
from headcount.data.reading import Reading
from headcount.data.written import TableSettings, Written


@dataclass(frozen=True)
class ReadingOptions:
    """The options for how files are written, and for words that mean yes, no or a missing value."""

    yes: Annotated[
        str | None,
        typer.Option(
            help="Answers that mean yes, such as Yes. Case does not matter. Several answers are "
            "separated by commas."
        ),
    ] = None
    no: Annotated[
        str | None,
        typer.Option(
            help="Answers that mean no. [default: the opposite of --yes, if it is yes, y, true, t, "
            "on, 1 or the like]"
        ),
    ] = None
    na: Annotated[
        str | None,
        typer.Option(
            help="Words that mean a missing value, such as NA,-. An empty value is always missing "
            "in a file."
        ),
    ] = None
    separator: Annotated[
        str | None,
        typer.Option(
            help="Separator of a .csv file: comma, semicolon, tab or pipe. [default: the one that "
            "divides the first lines evenly]"
        ),
    ] = None
    quote: Annotated[str, typer.Option(help="Quote around values of a .csv file: \" or '.")] = '"'
    encoding: Annotated[
        str | None,
        typer.Option(
            help="Encoding of a .csv file, such as latin-1. [default: UTF-8, or UTF-16 if the file "
            "begins with a byte order mark of UTF-16]"
        ),
    ] = None
    decimal: Annotated[
        str, typer.Option(help="Decimal separator of numbers: a point or a comma.")
    ] = "."
    thousands: Annotated[
        str | None,
        typer.Option(
            help="Thousands separator of numbers: a comma, a point, ' or a space. [default: none]"
        ),
    ] = None
    date_format: Annotated[
        str | None,
        typer.Option(
            help="Form of dates that are text, such as %d.%m.%Y or %m/%d/%Y. The directives are "
            "those of Python's strptime. [default: 2024-12-31 or 2024-12-31T18:30]"
        ),
    ] = None
    trim: Annotated[
        bool,
        typer.Option(
            "--trim",
            help="Ignore blanks around labels, groups and persons. A text of blanks alone is then "
            "a missing value.",
        ),
    ] = False
    sheet: Annotated[
        str | None, typer.Option(help="Sheet of an .xlsx file. [default: the only sheet]")
    ] = None
    header_row: Annotated[
        int | None,
        typer.Option(
            help="Row with the names of the columns in a .csv or .xlsx file, counted from 1. Rows "
            "above it are skipped. [default: the first row]"
        ),
    ] = None

    def rules(self, period: str | None) -> Reading:
        """The rules for reading columns. If there is a period, dates are put into its buckets."""
        return Written.of(period, **self.arguments()).rules

    def arguments(self) -> TableSettings:
        """The arguments of `estimate` and `Survey.run` that say how the table is written."""
        return {
            "yes": _words(self.yes),
            "no": _words(self.no),
            "na": _words(self.na),
            "separator": self.separator,
            "quote": self.quote,
            "encoding": self.encoding,
            "decimal": self.decimal,
            "thousands": self.thousands,
            "date_format": self.date_format,
            "trim": self.trim,
            "sheet": self.sheet,
            "header_row": self.header_row,
        }


def _words(text: str | None) -> list[str] | None:
    return None if text is None else listed(text)
