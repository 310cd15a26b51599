"""Lists the files at a path. A file of an unknown format is refused, so no rows are lost silently.

In a folder, files and folders whose names begin with `.` or `_` are skipped, since they are not
data. A folder `_name=value` may hold data, so it is not skipped. A path that the caller gives is
never skipped.
"""

import os
import stat
from collections.abc import Iterator
from fnmatch import fnmatch
from glob import glob, has_magic
from pathlib import Path

from headcount.core.errors import UnreadableData
from headcount.core.writing import same_file
from headcount.data.rows import readable, unreadable

TABS = (".tsv", ".tab")  # files of text whose values are separated by tabs
PARQUET, CSV, JSON = (".parquet", ".pq"), (".csv", *TABS), (".jsonl", ".ndjson", ".json")
_OTHER_SHEETS = (".xls", ".xlsb", ".xlsm", ".ods")
ARROW, EXCEL = (".feather", ".arrow", ".ipc"), (".xlsx",)
# Suffixes of compressed text files that Arrow can read. Parquet files need no such suffix, since
# they compress their own columns.
PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4", ".br": "brotli"}
ENDINGS = (
    ".csv", ".parquet", ".jsonl", ".ndjson", ".json", ".pq", ".tsv", ".tab", ".xlsx",
    ".feather", ".arrow", ".ipc",
)  # fmt: skip


def ending(file: Path) -> str:
    """The suffix that names the format of a file, or "" if the format is unknown. For a compressed
    text file such as people.csv.gz, it is the suffix before the one for compression.
    """
    inner = file.with_suffix("") if file.suffix.lower() in PACKED else file
    suffix = inner.suffix.lower()
    packable = suffix in (*CSV, *JSON)
    return suffix if packable or (inner is file and suffix in ENDINGS) else ""


def files_at(place: Path | str) -> list[Path]:
    """The file at a path, all files in a folder, or all files that match a pattern. They are sorted
    by name.
    """
    with readable(str(place), "a readable file or folder"):
        named = Path(place)
        paths = [named] if os.path.lexists(named) else _matches(str(place))
        if not paths:
            raise UnreadableData(f"there must be a file or folder at {str(place)!r}, got none")
        files = sorted({file for path in paths for file in _files(path, ())})
        if not files:
            raise UnreadableData(
                f"there must be a file that ends in {', '.join(ENDINGS[:2])} or {ENDINGS[2]} "
                f"in {str(place)!r}, got none"
            )
        _check_different(files)
        return files


def belongs_to(file: Path, place: Path | str) -> bool:
    """Whether a file is among the files at a path, or would be if it were written."""
    if any(same_file(file, one) for one in files_at(place)):
        return True
    path, name = Path(os.path.realpath(place)), Path(os.path.realpath(file))
    if path.is_dir():
        inside = name.relative_to(path).parts if name.is_relative_to(path) else None
        return inside is not None and not any(map(_is_left_out, inside))
    return has_magic(str(place)) and fnmatch(str(name), str(path).replace("**/", "*"))


def _files(path: Path, above: tuple[Path, ...]) -> Iterator[Path]:
    """The file at a path, or all files in the folder at the path. `above` has the folders that
    contain this path.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if path.is_symlink():
            raise UnreadableData(f"{path} must be a file or folder, got a broken link") from None
        raise unreadable(str(path), error) from None
    if stat.S_ISDIR(mode):
        folder = path.resolve()
        if folder in above:
            raise UnreadableData(
                f"{path} must be a folder, got a link to a folder that contains it"
            )
        for name in _names(path):
            if not _is_left_out(name):
                yield from _files(path / name, (*above, folder))
    elif not stat.S_ISREG(mode):
        raise UnreadableData(f"{path} must be a file or folder, got something else")
    elif not ending(path):
        raise UnreadableData(
            f"a file must end in {' or '.join(ENDINGS)}, got {str(path)!r}", hint=_hint(path, above)
        )
    else:
        yield path


def _hint(path: Path, above: tuple[Path, ...]) -> str:
    if path.suffix.lower() in _OTHER_SHEETS:
        return "save it as .xlsx"
    return "in a folder, files whose names begin with . or _ are skipped" if above else ""


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries]
    except OSError as error:
        raise unreadable(str(folder), error, "a readable folder") from None


def _is_left_out(name: str) -> bool:
    """Whether a file or folder with this name is skipped. Spark and Arrow also skip names that
    begin with `.` or `_`.

    A folder `_name=value` is a partition of a dataset, so it is not skipped.
    """
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _matches(pattern: str) -> list[Path]:
    """The paths that match a pattern. A folder that cannot be read is refused, since `glob` would
    skip it.
    """
    parts = Path(pattern).parts
    first = next((at for at, part in enumerate(parts) if has_magic(part)), len(parts))
    # A pattern may explicitly ask for names that would otherwise be skipped.
    asked = any(map(_is_left_out, parts[first:]))

    def matching(wanted: Path) -> list[Path]:
        every = (Path(name) for name in glob(str(wanted), recursive=True))  # noqa: PTH207
        return [path for path in every if asked or not any(map(_is_left_out, path.parts[first:]))]

    for at in range(first, len(parts)):
        for folder in matching(Path(*parts[:at])):
            if folder.is_dir():
                _names(folder)
                if not os.access(folder, os.X_OK):
                    raise UnreadableData(
                        f"{folder} must be a readable folder, got: access is denied"
                    )
    return matching(Path(pattern)) if first < len(parts) else []


def _check_different(files: list[Path]) -> None:
    """Refuse a file that is listed under two names, since its people would count twice."""
    names: dict[Path, Path] = {}
    for file in files:
        other = names.setdefault(file.resolve(), file)
        if other is not file:
            raise UnreadableData(
                f"{other} and {file} must be different files, got two names of the same file"
            )
