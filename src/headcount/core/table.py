"""Tables for human readers: rows with a title and notes, as text or as HTML.

The method `table()` of a result decides what the result shows. A terminal, a notebook and `print`
all show this table.
"""

import math
from dataclasses import dataclass, replace

_GAP = "  "
_STYLE = "text-align:{};padding:0.15em 0.9em 0.15em 0"


@dataclass(frozen=True)
class Table:
    """Rows of words and numbers.

    The first `words` columns are aligned to the left, and so is the last column if it shows `bars`.
    The other columns contain numbers, and are aligned to the right.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    notes: tuple[str, ...] = ()
    words: int = 1
    bars: bool = False
    spare: tuple[str, ...] = ()  # columns that may be dropped to save room, in this order

    def within(self, width: int) -> "Table":
        """The table without some of the spare columns, so that it fits the width. If it cannot fit,
        all columns stay.
        """
        table = self
        for column in self.spare:
            if table.width <= width:
                break
            table = table._without(column)
        return table if table.width <= width else self

    def _without(self, column: str) -> "Table":
        gone = self.columns.index(column)
        columns, *rows = (line[:gone] + line[gone + 1 :] for line in (self.columns, *self.rows))
        words = self.words - (gone < self.words)
        return replace(self, columns=columns, rows=tuple(rows), words=words)

    @property
    def width(self) -> int:
        """The number of characters in a full line of the table."""
        return sum(self._widths) + len(_GAP) * (len(self.columns) - 1)

    @property
    def _widths(self) -> list[int]:
        lines = (self.columns, *self.rows)
        return [max(len(line[at]) for line in lines) for at in range(len(self.columns))]

    def _is_left(self, column: int) -> bool:
        return column < self.words or (self.bars and column == len(self.columns) - 1)

    def lines(self) -> list[str]:
        """The heading and the rows, as lines of text."""
        return [
            _GAP.join(
                cell.ljust(width) if self._is_left(at) else cell.rjust(width)
                for at, (cell, width) in enumerate(zip(line, self._widths, strict=True))
            ).rstrip()
            for line in (self.columns, *self.rows)
        ]

    def narrow_lines(self) -> list[str]:
        """The table with each cell on a line of its own, for narrow terminals."""
        return [
            f"  {column}: {cell}" if at else cell
            for row in self.rows
            for at, (column, cell) in enumerate(zip(self.columns, row, strict=True))
        ]

    def __str__(self) -> str:
        parts = [[self.title] if self.title else [], self.lines(), list(self.notes)]
        return "\n\n".join("\n".join(part) for part in parts if part)

    def html(self) -> str:
        from html import escape

        def line(cells: tuple[str, ...], tag: str) -> str:
            sides = ("left" if self._is_left(at) else "right" for at in range(len(cells)))
            whole = ";white-space:nowrap" * (tag == "td")  # headings wrap, to save room
            return "".join(
                f'<{tag} style="{_STYLE.format(side)}{whole}">{escape(cell)}</{tag}>'
                for cell, side in zip(cells, sides, strict=True)
            )

        body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in self.rows)
        title = f"<p><strong>{escape(self.title)}</strong></p>" if self.title else ""
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        head = f"<thead><tr>{line(self.columns, 'th')}</tr></thead>"
        table = f"<table>{head}<tbody>{body}</tbody></table>"
        return f'<div>{title}<div style="overflow-x:auto">{table}</div>{notes}</div>'


def number(value: float, error: float = 1.0) -> str:
    """A number with no more digits than its error justifies.

    It is rounded to two significant digits of the error, or to one decimal place if the error is 0
    or at least 0.5. Whole numbers, and numbers from a million on with an error of at least 0.5,
    have no decimal places.
    """
    if not math.isfinite(value):
        return "none" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if value == round(value) or (abs(value) >= 1e6 and error >= 0.5):
        return f"{value:z,.0f}"
    places = 1 if error >= 0.5 or not error else min(15, 1 - math.floor(math.log10(error)))
    return f"{value:z,.{places}f}"


def counted(count: int, one: str, many: str = "") -> str:
    """A number of things in words: "1 message", "2 messages"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def counted_people(count: int, which: str = "") -> str:
    """A number of people in words: "1 person", "2,000 honest people"."""
    before = f"{which} " if which else ""
    return counted(count, f"{before}person", f"{before}people")


def size(value: float) -> str:
    """A number with four significant digits. Large numbers show all digits before the decimal
    point.
    """
    if not math.isfinite(value):
        return number(value)
    return f"{value:,.0f}" if abs(value) >= 1e4 and abs(value) < 1e15 else short(value, 4)


def short(value: float, digits: int = 6) -> str:
    """A number with a few significant digits, as people write it: 1e-6, not 1e-06.

    −0 becomes 0.
    """
    return _plain(f"{value:z.{digits}g}")


def exact(value: float) -> str:
    """A number with all of its digits, in the same notation as `short`."""
    return _plain(repr(value + 0.0).removesuffix(".0"))


def _plain(text: str) -> str:
    mantissa, e, power = text.partition("e")
    return f"{mantissa}e{int(power)}" if e else text
