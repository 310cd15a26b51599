"""How a file of text is written: its separator, quotes and encoding."""

import codecs
import csv
import io
from dataclasses import dataclass, field, replace
from typing import Any

from headcount.core import checks
from headcount.core.errors import InvalidParameter, UnreadableData
from headcount.data.reading import Reading

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
BEGINNING = 2**16  # how many bytes of a file are used to find its separator and its encoding
_NAMES = {name: sign for sign, name in SEPARATORS.items()} | {"\\t": "\t"}
_LAST_ROW = 2**20  # the last row of a workbook
_LINES = 100  # how many lines are used to find the separator
_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


@dataclass(frozen=True)
class Dialect:
    """How files are written. A `separator` or an `encoding` of None is inferred from the beginning
    of each file.

    `sheet` is the sheet of a workbook. It may be None if the workbook has only one sheet.
    `header_row` is the row with the names of the columns, counted from 1. If it is None, this is
    the first row. `rules` say how the values of columns are written.
    """

    separator: str | None = None
    quote: str = '"'
    encoding: str | None = None
    sheet: str | None = None
    header_row: int | None = None
    rules: Reading = field(default_factory=Reading)
    for_excel: bool = False  # whether the first line is a line for Excel, such as `sep=;`

    def __post_init__(self) -> None:
        if self.separator is not None:
            sign = _NAMES.get(self.separator, self.separator)
            if not isinstance(sign, str) or sign not in SEPARATORS:
                raise InvalidParameter(
                    f"`separator` must be one of , ; | or tab, got {checks.shown(self.separator)}"
                )
            object.__setattr__(self, "separator", sign)
        checks.choice("quote", self.quote, ['"', "'"])
        if self.header_row is not None:
            checks.whole("header_row", self.header_row, low=1, high=_LAST_ROW)
        if self.encoding is not None:
            try:
                b" ".decode(self.encoding, "replace")
            except (LookupError, TypeError, ValueError):
                raise InvalidParameter(
                    "`encoding` must be an encoding of text, such as utf-8, latin-1 or cp1252, "
                    f"got {checks.shown(self.encoding)}"
                ) from None

    def of_file(self, name: str, beginning: bytes, *, tabs: bool) -> "Dialect":
        """The dialect of a file, from its first bytes. If several separators would divide all lines
        evenly, the file is refused. `tabs` says whether the file's suffix, such as .tsv, means that
        tabs separate the values.
        """
        encoding = self.encoding or _MARKS.get(beginning[:2], "utf-8")
        decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        text = decoder.decode(beginning).lstrip("\ufeff")
        found = replace(self, encoding=encoding)
        first = text.partition("\n")[0].rstrip("\r")
        # A first line such as `sep=;` is not data. It tells Excel the separator of the file.
        if first[:4].lower() == "sep=" and first[4:] in SEPARATORS:
            return replace(found, separator=self.separator or first[4:], for_excel=True)
        if self.separator is None:
            text = "".join(io.StringIO(text, newline="").readlines()[self.skipped :])
            whole = len(beginning) < BEGINNING
            found = replace(found, separator="\t" if tabs else self._separator(name, text, whole))
        return found

    def _separator(self, name: str, text: str, whole: bool) -> str:
        lines = text.splitlines(keepends=True)[: _LINES + 1]
        if len(lines) > _LINES or not whole:
            lines = lines[:-1] or lines
        widths = {sign: self._widths(lines, sign) for sign in SEPARATORS}
        several = [sign for sign, found in widths.items() if found and found[0] > 1]
        equal = [sign for sign in several if len({*widths[sign]}) == 1]
        if "," in (self.decimal, self.rules.thousands) and len(equal) > 1:
            equal = [sign for sign in equal if sign != ","]
        if len(equal) > 1:
            named = " and ".join(SEPARATORS[sign] for sign in equal)
            raise UnreadableData(
                f"{name} must have a clear separator, got lines that {named} both divide evenly",
                hint=f"say which one: separator={equal[0]!r} (--separator {SEPARATORS[equal[0]]})",
            )
        return (equal or ([","] if "," in several else several) or [","])[0]

    def _widths(self, lines: list[str], sign: str) -> list[int]:
        """The number of values in each line if `sign` separates them. If the lines cannot be read
        with this separator, the list is empty.
        """
        rows = csv.reader(lines, delimiter=sign, quotechar=self.quote)
        try:
            return [len(row) for row in rows if row]
        except csv.Error:
            return []

    @property
    def skipped(self) -> int:
        """How many lines are skipped before the line with the names of columns."""
        return max(int(self.for_excel), (self.header_row or 1) - 1)

    @property
    def decimal(self) -> str:
        """The decimal sign of numbers."""
        return self.rules.decimal

    @property
    def na(self) -> tuple[str, ...]:
        """Words for missing values, besides empty values, NULL and NaN."""
        return self.rules.na

    @property
    def utf8(self) -> bool:
        """Whether the text is in UTF-8."""
        return self.encoding is None or codecs.lookup(self.encoding).name in ("utf-8", "utf-8-sig")

    def check_matters(self, name: str, *, text: bool = False, sheets: bool = False) -> None:
        """Refuse settings that have no effect on the data. Errors call the data `name`. `text` says
        whether the data are files of separated values. `sheets` says whether they are workbooks.
        """
        settings = (
            ("separator", self.separator is not None, text, "files of separated values"),
            ("quote", self.quote != '"', text, "files of separated values"),
            ("encoding", self.encoding is not None, text, "files of separated values"),
            ("sheet", self.sheet is not None, sheets, "an .xlsx file"),
            (
                "header_row",
                self.header_row is not None,
                text or sheets,
                "files of separated values or an .xlsx file",
            ),
        )
        for setting, given, matters, kinds in settings:
            if given and not matters:
                raise InvalidParameter(f"`{setting}` must come with {kinds}, got {name}")


PLAIN = Dialect()


class Recoded(io.RawIOBase):
    """Text of another encoding as a stream of UTF-8."""

    def __init__(self, stored: Any, encoding: str) -> None:
        self._stored, self._decoder = stored, codecs.getincrementaldecoder(encoding)()

    def read(self, size: int = -1) -> bytes:
        # One byte becomes at most three bytes of UTF-8. So a third of `size` is read, and the
        # result has at most `size` bytes.
        while block := self._stored.read(max(1, size // 3)):
            if text := self._decoder.decode(block):
                return text.encode()
        return self._decoder.decode(b"", final=True).encode()
