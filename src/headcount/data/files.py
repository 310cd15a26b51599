"""Rows of files: CSV, Parquet and JSON lines; one file, a folder of them, or a pattern."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headcount.core.cached import cached_property
from headcount.core.errors import UnreadableData
from headcount.core.writing import same_file
from headcount.data.rows import Batch, Kind, Kinds, Rows, check_column, readable

if TYPE_CHECKING:
    import pyarrow

_PARQUET, _CSV, _JSON = (".parquet", ".pq"), (".csv",), (".jsonl", ".ndjson", ".json")
ENDINGS = (".csv", ".parquet", ".jsonl", ".ndjson", ".json", ".pq")
_BATCH = 2**17  # rows of a Parquet file at a time
_BLOCK = 2**22  # bytes of a text file at a time
_NONE = ["", "NULL", "null", "NaN", "nan"]


def file_rows(place: Path | str) -> Rows:
    """The rows of all files at a place, which are of one kind."""
    files = _files(place)
    endings = {path.suffix.lower() for path in files}
    name = files[0].name if len(files) == 1 else str(place)
    if endings <= {*_PARQUET}:
        folder = Path(place)
        return ParquetRows(name, files, folder if folder.is_dir() else None)
    if endings <= {*_CSV}:
        return CsvRows(name, files)
    if endings <= {*_JSON}:
        return JsonRows(name, files)
    raise UnreadableData(f"files must be of one kind, got {', '.join(sorted(endings))} in {name}")


def _files(place: Path | str) -> list[Path]:
    path = Path(place)
    if path.is_dir():
        found = [
            file
            for file in sorted(path.rglob("*"))
            if file.suffix.lower() in ENDINGS
            and file.is_file()
            and not any(part[0] in "._" for part in file.relative_to(path).parts)
        ]
        if not found:
            raise UnreadableData(
                f"there must be a file of {', '.join(ENDINGS[:3])} in {str(place)!r}, got none"
            )
        return found
    if not path.exists() and has_magic(str(place)):
        found = sorted(Path(name) for name in glob(str(place), recursive=True))  # noqa: PTH207
        found = [file for file in found if file.is_file()]
    else:
        found = [path]
    for file in found:
        if file.suffix.lower() not in ENDINGS:
            raise UnreadableData(f"a file must end in {' or '.join(ENDINGS)}, got {file.name!r}")
    if not found or not found[0].is_file():
        raise UnreadableData(f"there must be a file at {str(place)!r}, got none")
    return found


def belongs_to(file: Path, place: Path | str) -> bool:
    """Whether a file is among those at a place, or would be once it is written."""
    if any(same_file(file, found) for found in _files(place)):
        return True
    path, name = Path(os.path.realpath(place)), Path(os.path.realpath(file))
    if path.is_dir():
        return name.is_relative_to(path) and name.suffix.lower() in ENDINGS
    return has_magic(str(place)) and fnmatch(str(name), str(path).replace("**/", "*"))


class DatasetRows(Rows):
    """Rows of a dataset of pyarrow's, which skips columns and reads by several threads."""

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
    """Parquet files; folders named key=value are columns."""

    wanted = "a readable .parquet file"

    def __init__(self, name: str, files: Sequence[Path], folder: Path | None) -> None:
        self.name, self._files, self._folder = name, files, folder

    @cached_property
    def dataset(self) -> Any:
        from pyarrow import dataset

        folder = str(self._folder) if self._folder else None
        return dataset.dataset(
            [str(file) for file in self._files],
            format="parquet",
            partitioning=dataset.HivePartitioning.discover(infer_dictionary=False),
            partition_base_dir=folder,
        )


@dataclass(frozen=True)
class _TextRows(Rows):
    """Files without types: these are guessed from the beginning of each."""

    name: str
    files: Sequence[Path]

    @cached_property
    def columns(self) -> Sequence[str]:
        with self._open(self.files[0], {}) as reader:
            names: list[str] = reader.schema.names
            return names

    def _batches(self, columns: Sequence[str], kinds: Kinds) -> Iterator[Batch]:
        sizes = [file.stat().st_size for file in self.files]
        done, whole = 0, max(1, sum(sizes))
        for file, size in zip(self.files, sizes, strict=True):
            with readable(file.name, self.wanted):
                for batch, place in self._read(file, columns, kinds):
                    yield batch, (done + min(place, size)) / whole
            done += size

    def _open(self, file: Any, types: dict[str, Any]) -> Any:
        raise NotImplementedError

    def _read(
        self, file: Path, columns: Sequence[str], kinds: Kinds
    ) -> "Iterator[tuple[pyarrow.RecordBatch, int]]":
        with self._open(file, {}) as reader:
            schema = reader.schema
        for column in columns:
            check_column(column, schema.names, self.name)
        types = {name: _type(schema.field(name).type, kinds.get(name)) for name in columns}
        with file.open("rb") as stream, self._open(stream, types) as reader:
            for batch in reader:
                yield batch.select(list(columns)), stream.tell()


def _type(guessed: "pyarrow.DataType", kind: Kind | None) -> "pyarrow.DataType":
    """What a column is read as: not by its first block alone, where the question knows better."""
    import pyarrow
    from pyarrow import types

    if kind == "text":
        return pyarrow.string()
    if types.is_null(guessed) or (kind == "real" and types.is_integer(guessed)):
        return pyarrow.float64()
    return guessed


class CsvRows(_TextRows):
    wanted = "a readable .csv file"

    def _open(self, file: Any, types: dict[str, Any]) -> Any:
        from pyarrow import csv

        return csv.open_csv(
            file,
            read_options=csv.ReadOptions(block_size=_BLOCK),
            # An empty line of a one-column file is a person without a value.
            parse_options=csv.ParseOptions(ignore_empty_lines=False),
            convert_options=csv.ConvertOptions(
                strings_can_be_null=True, null_values=_NONE, column_types=types
            ),
        )


class JsonRows(_TextRows):
    wanted = "a readable file of JSON lines"

    def _open(self, file: Any, types: dict[str, Any]) -> Any:
        import pyarrow
        from pyarrow import json

        return json.open_json(
            file,
            read_options=json.ReadOptions(block_size=_BLOCK),
            parse_options=json.ParseOptions(
                explicit_schema=pyarrow.schema(types.items()) if types else None
            ),
        )
