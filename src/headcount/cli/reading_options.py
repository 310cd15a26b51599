"""The options that say how a table is written. All commands that read tables share them."""

from dataclasses import dataclass
from typing import Annotated

import typer

from headcount.cli.texts import listed
from headcount.data.reading import Reading, reading
from headcount.data.written import TableSettings


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
    sheet: Annotated[
        str | None, typer.Option(help="Sheet of an .xlsx file. [default: the only sheet]")
    ] = None

    def rules(self, period: str | None) -> Reading:
        """The rules for reading columns. If there is a period, dates are put into its buckets."""
        return reading(_words(self.yes), _words(self.no), _words(self.na), self.decimal, period)

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
            "sheet": self.sheet,
        }


def _words(text: str | None) -> list[str] | None:
    return None if text is None else listed(text)
