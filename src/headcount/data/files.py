"""Reads the rows of files at a path: CSV, Parquet, Arrow, JSON lines or Excel."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

import numpy as np

from headcount.core.cached import cached_property
from headcount.core.errors import UnreadableData
from headcount.data.dialect import BEGINNING, PLAIN, Dialect, Recoded
from headcount.data.folders import ARROW, CSV, EXCEL, JSON, PACKED, PARQUET, TABS, ending, files_at
from headcount.data.objects import may_convert
from headcount.data.read_ahead import Readable, ReadAhead, Text
from headcount.data.rows import Batch, Kind, Kinds, Rows, check_column, readable
from headcount.data.steady import SteadyRows

if TYPE_CHECKING:
    import pyarrow

Types: TypeAlias = "dict[str, pyarrow.DataType]"
_BATCH = 2**17  # how many rows of a Parquet file are read at a time
_AHEAD = 4  # how many batches of a Parquet file are read ahead
_SMALL = 2**14  # if the average row group has fewer rows, Arrow's datasets are not used
_BLOCK = 2**22  # how many bytes of a text file are read at a time
_DEEPEST = 100  # how many levels of nested lists and objects a JSON value may have
_NO_MARKS = bytes({*range(256)} - {*b'"[]{}'})  # all bytes except quotes, brackets and braces
_STEPS = np.zeros(256, dtype=np.int8)  # how each byte changes the depth of nesting
_STEPS[[*b"[{"]], _STEPS[[*b"]}"]] = 1, -1
_MISSING = ["", "NULL", "null", "NaN", "nan"]  # the texts that mean a missing value


def file_rows(place: Path | str, dialect: Dialect = PLAIN) -> Rows:
    """The rows of all files at a path or pattern. All files must have the same format, and must
    stay the same while they are read.
    """
    files = files_at(place)
    return SteadyRows(_rows_of(files, place, dialect), files)


def _rows_of(files: Sequence[Path], place: Path | str, dialect: Dialect) -> Rows:
    endings = {ending(file) for file in files}
    name = files[0].name if len(files) == 1 else str(place)
    dialect.check_matters(name, text=endings <= {*CSV}, sheets=endings <= {*EXCEL})
    if endings <= {*PARQUET} or endings <= {*ARROW}:
        folder = Path(place)
        kind = "parquet" if endings <= {*PARQUET} else "ipc"
        if kind == "parquet" and len(files) == 1 and "=" not in str(files[0].absolute()):
            return OneParquetFile(name, files[0])
        return ParquetRows(name, files, folder if folder.is_dir() else None, kind)
    if endings <= {*CSV}:
        return CsvRows(name, files, dialect)
    if endings <= {*JSON}:
        return JsonRows(name, files, dialect)
    if endings <= {*EXCEL}:
        from headcount.data.sheets import SheetRows

        return SheetRows(name, files, dialect)
    raise UnreadableData(
        f"files must all have the same format, got {', '.join(sorted(endings))} in {name}"
    )


class DatasetRows(Rows):
    """Rows of a pyarrow dataset. Only the needed columns are read, by several threads."""

    def __init__(self, name: str, dataset: "pyarrow.dataset.Dataset") -> None:
        self.name, self._dataset = name, dataset

    @property
    def dataset(self) -> Any:
        return self._dataset

    @property
    def columns(self) -> Sequence[str]:
        names: list[str] = self.dataset.schema.names
        return names

    @cached_property
    def count(self) -> int:
        with readable(self.name, self.wanted):
            return int(self.dataset.count_rows())

    def _batches(self, columns: Sequence[str], kinds: Kinds) -> Iterator[Batch]:
        read, all_rows = 0, max(1, self.count)
        scanned = self.dataset.to_batches(
            columns=list(columns), batch_size=_BATCH, batch_readahead=8, fragment_readahead=2
        )
        for batch in scanned:
            read += batch.num_rows
            yield batch, read / all_rows


class ParquetRows(DatasetRows):
    """Rows of Parquet or Arrow files. A folder named key=value gives its rows a column `key`."""

    def __init__(
        self, name: str, files: Sequence[Path], folder: Path | None, kind: str = "parquet"
    ) -> None:
        self.name, self._files, self._folder, self._kind = name, files, folder, kind
        self.wanted = f"a readable {'.parquet' if kind == 'parquet' else 'Arrow'} file"

    @cached_property
    def dataset(self) -> Any:
        from pyarrow import dataset

        folder = str(self._folder) if self._folder else None
        # With `pre_buffer`, Arrow would hold the bytes of a whole file in memory.
        parquet = dataset.ParquetFileFormat(pre_buffer=False)
        return dataset.dataset(
            [str(file) for file in self._files],
            format=parquet if self._kind == "parquet" else self._kind,
            partitioning=dataset.HivePartitioning.discover(infer_dictionary=False),
            partition_base_dir=folder,
        )

    def _batches(self, columns: Sequence[str], kinds: Kinds) -> Iterator[Batch]:
        """The batches of the dataset. A file that lacks one of the columns is refused, since Arrow
        would fill this column with nulls.
        """
        from pyarrow import dataset

        keyed, groups = [], 0
        for fragment in self.dataset.get_fragments():
            keys = dataset.get_partition_keys(fragment.partition_expression)
            for column in columns:
                if column in keys and kinds.get(column) in ("text", "date"):
                    _check_key(column, keys[column], fragment.path)
                elif column not in keys:
                    schema = fragment.physical_schema
                    check_column(column, schema.names, fragment.path)
                    self._check_type(schema.field(column), fragment.path)
            keyed.append((fragment, keys))
            groups += fragment.metadata.num_row_groups if self._kind == "parquet" else 0
        if self.count >= _SMALL * groups:
            yield from super()._batches(columns, kinds)
            return
        read = 0
        for fragment, keys in keyed:
            for batch in self._of_file(fragment.path, keys, columns):
                read += batch.num_rows
                yield batch, read / max(1, self.count)

    def _check_type(self, field: "pyarrow.Field", path: str) -> None:
        """Refuse a column whose type differs too much from that in the first file. Arrow would
        convert the column to the type in the first file, which may change values.
        """
        expected = self.dataset.schema.field(field.name).type
        if not may_convert(field.type, expected):
            raise UnreadableData(
                f"all files must have the same type of column {field.name!r}, got {expected} in "
                f"{self._files[0]} and {field.type} in {path}"
            )

    def _of_file(
        self, path: str, keys: Mapping[str, Any], columns: Sequence[str]
    ) -> "Iterator[pyarrow.RecordBatch]":
        """The batches of one file. Small row groups are joined, since a dataset would make a small
        batch of each. `keys` maps columns to the values that the names of folders give them.
        """
        import pyarrow
        from pyarrow import parquet

        schema = pyarrow.schema([self.dataset.schema.field(column) for column in columns])
        stored = [column for column in columns if column not in keys]
        with parquet.ParquetFile(path) as file:
            for batch in _batches_of(file, stored):
                arrays = [
                    pyarrow.repeat(pyarrow.scalar(keys[field.name], field.type), batch.num_rows)
                    if field.name in keys
                    else batch.column(field.name).cast(field.type)
                    for field in schema
                ]
                yield pyarrow.RecordBatch.from_arrays(arrays, schema=schema)

    @property
    def holder(self) -> str:
        """The name of the first file. Errors about columns name this file, since Arrow expects its
        columns in all files.
        """
        return self.name if len(self._files) == 1 else str(self._files[0])


def _check_key(column: str, value: Any, path: str) -> None:
    """Refuse a folder if Arrow read its name as another text, such as 01 as 1. If the names of all
    folders are numbers, Arrow reads them as numbers.
    """
    folders = (part.partition("=") for part in Path(path).parts)
    written = next((unquote(text) for name, _, text in folders if unquote(name) == column), "")
    if value is not None and str(value) != written:
        raise UnreadableData(
            f"folders must name numbers without leading zeros, got {column}={written}",
            hint="put the values into a column of the files",
        )


class OneParquetFile(Rows):
    """Rows of one Parquet file. The file is read without Arrow's datasets. Importing them would
    also import pandas, which takes a long time.
    """

    wanted = "a readable .parquet file"

    def __init__(self, name: str, file: Path) -> None:
        self.name, self._file = name, file

    @cached_property
    def columns(self) -> Sequence[str]:
        with self._opened() as file:
            names: list[str] = file.schema_arrow.names
            return names

    def _batches(self, columns: Sequence[str], kinds: Kinds) -> Iterator[Batch]:
        read = 0
        with self._opened() as file:
            rows = max(1, file.metadata.num_rows)
            for batch in _ahead(_batches_of(file, columns)):
                read += batch.num_rows
                yield batch, read / rows

    def _opened(self) -> Any:
        from pyarrow import parquet

        return parquet.ParquetFile(self._file)


def _batches_of(file: Any, columns: Sequence[str]) -> "Iterator[pyarrow.RecordBatch]":
    """The batches of a Parquet file. Small row groups are read together, until they have `_BATCH`
    rows. No more are read together, since Arrow holds all of them in memory.
    """
    together, rows = [], 0
    for group in range(file.num_row_groups):
        together.append(group)
        rows += file.metadata.row_group(group).num_rows
        if rows >= _BATCH or group == file.num_row_groups - 1:
            yield from file.iter_batches(_BATCH, row_groups=together, columns=list(columns))
            together, rows = [], 0


def _ahead(batches: "Iterator[pyarrow.RecordBatch]") -> "Iterator[pyarrow.RecordBatch]":
    """The same batches. A thread reads a few batches ahead while earlier batches are in use."""
    with ThreadPoolExecutor(1) as reader:
        waiting = deque(reader.submit(next, batches, None) for _ in range(_AHEAD))
        while (batch := waiting.popleft().result()) is not None:
            waiting.append(reader.submit(next, batches, None))
            yield batch


@dataclass(frozen=True)
class _TextRows(Rows):
    """Rows of files without types. The types are guessed from the beginning of each file."""

    name: str
    files: Sequence[Path]
    dialect: Dialect = PLAIN

    @cached_property
    def columns(self) -> Sequence[str]:
        with readable(self.holder, self.wanted):
            dialect = self._dialect(self.files[0])
            with _opened(self.files[0], dialect) as (text, _):
                names: list[str] = self._guess(text, dialect).names
                return names

    def _dialect(self, file: Path) -> Dialect:
        """How a file is written."""
        return self.dialect

    @property
    def holder(self) -> str:
        return self._shown(self.files[0])

    def _shown(self, file: Path) -> str:
        return self.name if len(self.files) == 1 else str(file)

    def _batches(self, columns: Sequence[str], kinds: Kinds) -> Iterator[Batch]:
        sizes: list[int] = []
        for file in self.files:
            with readable(self._shown(file), self.wanted):
                sizes.append(file.stat().st_size)
        done, whole = 0, max(1, sum(sizes))
        for file, size in zip(self.files, sizes, strict=True):
            with readable(self._shown(file), self.wanted):
                for batch, place in self._file(file, columns, kinds):
                    yield batch, (done + min(place, size)) / whole
            done += size

    def _file(
        self, file: Path, columns: Sequence[str], kinds: Kinds
    ) -> "Iterator[tuple[pyarrow.RecordBatch, int]]":
        """The batches of a file. Each batch comes with the number of bytes read so far."""
        dialect = self._dialect(file)
        with _opened(file, dialect) as (text, _):
            schema = self._guess(text, dialect)
        for column in columns:
            check_column(column, schema.names, self._shown(file))
        grouped = bool(dialect.rules.thousands)
        types = {
            name: _type(schema.field(name).type, kinds.get(name), grouped=grouped)
            for name in columns
        }
        with _opened(file, dialect) as (text, stored):
            for batch in self._read(text, types, schema, dialect):
                yield batch.select(list(columns)), stored.tell()

    def _guess(self, text: Any, dialect: Dialect) -> "pyarrow.Schema":
        """The columns and their types, guessed from the beginning of the text."""
        raise NotImplementedError

    def _read(
        self, text: Any, types: Types, guessed: "pyarrow.Schema", dialect: Dialect
    ) -> "Iterator[pyarrow.RecordBatch]":
        """Batches of the columns in `types`. `guessed` has the guessed types of all columns."""
        raise NotImplementedError


@contextmanager
def _opened(file: Path, dialect: Dialect = PLAIN) -> Iterator[tuple[Any, Any]]:
    """Two streams of a file: its text, and its stored bytes, which may be compressed."""
    import pyarrow

    packed = PACKED.get(file.suffix.lower())
    with file.open("rb") as stored:
        text = pyarrow.CompressedInputStream(stored, packed) if packed else stored
        yield text if dialect.utf8 else Recoded(text, str(dialect.encoding)), stored


def _type(guessed: "pyarrow.DataType", kind: Kind | None, *, grouped: bool) -> "pyarrow.DataType":
    """The type of a column. The guess from the first block is widened to the expected kind.

    Dates are read as text, since Arrow would infer their type from the first rows alone. Numbers
    are read as text if their digits may be `grouped`, since Arrow cannot read grouped digits.
    """
    import pyarrow
    from pyarrow import types

    other = types.is_boolean(guessed) or types.is_nested(guessed)
    if grouped and kind in ("real", "whole") and not other:
        return pyarrow.string()
    # Binary columns are read as text, so that Arrow refuses text that is not UTF-8.
    if kind in ("text", "date") or types.is_binary(guessed):
        return pyarrow.string()
    if types.is_null(guessed) or (kind == "real" and types.is_integer(guessed)):
        return pyarrow.float64()
    return guessed


class CsvRows(_TextRows):
    wanted = "a readable .csv file"

    def _dialect(self, file: Path) -> Dialect:
        tabs = ending(file) in TABS
        with _opened(file) as (text, _):
            return self.dialect.of_file(self._shown(file), text.read(BEGINNING), tabs=tabs)

    def _guess(self, text: Any, dialect: Dialect) -> "pyarrow.Schema":
        with _csv(_CsvText(text, ""), {}, dialect) as reader:
            return reader.schema

    def _read(
        self, text: Any, types: Types, guessed: "pyarrow.Schema", dialect: Dialect
    ) -> "Iterator[pyarrow.RecordBatch]":
        """The batches of a CSV file.

        A row with one column too many is added at the end. Arrow must report this row as an error.
        If Arrow does not report it, a quoted value has no closing quote, and all later rows became
        part of that value.
        """
        import pyarrow

        mark = token_hex(16)
        last = mark + str(dialect.separator) * len(guessed)
        try:
            single = len(guessed) == 1  # in a single column, an empty line is a missing value
            with _csv(_CsvText(text, last), types, dialect, empty_lines=single) as reader:
                yield from reader
        except pyarrow.ArrowInvalid as error:
            if mark in str(error):
                return
            raise
        raise ValueError("a quoted value without a closing quote")


def _csv(
    written: "_CsvText", types: Types, dialect: Dialect, *, empty_lines: bool = True
) -> ReadAhead:
    """The batches of a CSV file. `empty_lines` says whether an empty line is a row."""
    from pyarrow import csv

    text = Text(written)
    reader = csv.open_csv(
        text,
        read_options=csv.ReadOptions(block_size=_BLOCK, skip_rows=dialect.skipped),
        parse_options=csv.ParseOptions(
            delimiter=dialect.separator,
            quote_char=dialect.quote,
            ignore_empty_lines=not empty_lines,
            newlines_in_values=True,  # quoted values may contain line ends
        ),
        convert_options=csv.ConvertOptions(
            strings_can_be_null=True,
            null_values=[*_MISSING, *dialect.na],
            decimal_point=dialect.decimal,
            column_types=types,
            include_columns=list(types),
        ),
    )
    return ReadAhead(reader, text)


class _CsvText:
    """The text of a CSV file in blocks. The row `last` follows in a block of its own.

    No block ends between the two bytes of a line end (CR LF). Otherwise Arrow would drop the second
    byte, although the line end may be part of a person's value.
    """

    def __init__(self, text: Readable, last: str) -> None:
        self._text, self._ahead, self._last = text, b"", last.encode()

    def read(self, size: int) -> bytes:
        block = self._ahead or self._text.read(size - 1)
        self._ahead = self._text.read(size - 1) if block else b""
        if block.endswith(b"\r") and self._ahead.startswith(b"\n"):
            block, self._ahead = block + b"\n", self._ahead[1:] or self._text.read(size - 1)
        if self._ahead:
            return block
        last, self._last = self._last, b""
        self._ahead = last if block else b""
        return block + b"\n" if last and not block.endswith((b"\r", b"\n")) else block


class JsonRows(_TextRows):
    wanted = "a readable file of JSON lines"

    def _guess(self, text: Any, dialect: Dialect) -> "pyarrow.Schema":
        block: bytes = text.read(_BLOCK)
        if len(block) == _BLOCK:
            block = block[: block.rfind(b"\n") + 1] or block
        # Arrow guesses types by recursion. Values that are nested too deeply crash the process.
        if (depth := _depth(block)) > _DEEPEST:
            raise ValueError(f"values that are nested {depth:,} levels deep")
        with _json(BytesIO(block)) as reader:
            return reader.schema

    def _read(
        self, text: Any, types: Types, guessed: "pyarrow.Schema", dialect: Dialect
    ) -> "Iterator[pyarrow.RecordBatch]":
        """The batches of a file of JSON lines.

        If a column must be text but holds values without quotes, the values are first read with
        their own type, and then turned into text. Columns of fractional numbers stay numbers: as
        floats they may have lost digits, so their text could differ from the text in the file.
        """
        import pyarrow
        from pyarrow.types import is_boolean, is_floating, is_integer, is_string

        written, wanted = dict(types), dict(types)
        for name in (name for name, goal in types.items() if is_string(goal)):
            kind = guessed.field(name).type
            if is_integer(kind) or is_boolean(kind):
                written[name] = kind
            elif is_floating(kind):
                written[name] = wanted[name] = kind
        schema, goal = pyarrow.schema(written.items()), pyarrow.schema(wanted.items())
        with _json(text, explicit_schema=schema, unexpected_field_behavior="ignore") as reader:
            for batch in reader:
                yield batch.cast(goal)


def _json(written: Readable, **options: Any) -> ReadAhead:
    from pyarrow import json

    text = Text(written)
    reader = json.open_json(
        text,
        read_options=json.ReadOptions(block_size=_BLOCK),
        parse_options=json.ParseOptions(**options),
    )
    return ReadAhead(reader, text)


def _depth(text: bytes) -> int:
    """The number of levels to which lists and objects are nested in JSON text."""
    marks = text.replace(rb"\\", b"").replace(rb"\"", b"").translate(None, _NO_MARKS)
    codes = np.frombuffer(marks, dtype=np.uint8)
    in_string = np.cumsum(codes == ord('"')) % 2 == 1
    steps = np.where(in_string, np.int8(0), _STEPS[codes])
    return int(np.cumsum(steps, dtype=np.int64).max(initial=0))
