"""Write results to files, completely or not at all.

Paths that cannot be written to are refused.
"""

import csv
import errno
import json
import math
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

from headcount.core.errors import DiskFull, InvalidParameter, MissingPackage, UnreadableData

_NO_ROOM = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG)


def json_text(document: Mapping[str, Any]) -> str:
    """A document as JSON. JSON has no infinity and no NaN, so they become null."""
    return json.dumps(_finite(document), indent=2, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float):
        return value + 0.0 if math.isfinite(value) else None  # adding 0 turns −0 into 0
    return value


def csv_text(columns: Mapping[str, list[Any]]) -> str:
    """A table as CSV."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def parquet_bytes(columns: Mapping[str, list[Any]], about: Mapping[str, Any]) -> bytes:
    """A table as a Parquet file. `about` becomes its metadata, as JSON."""
    try:
        import pyarrow
        from pyarrow.parquet import write_table
    except ImportError:
        raise MissingPackage(
            "writing Parquet needs pyarrow", hint="pip install 'headcount[data]'"
        ) from None
    table, out = pyarrow.table(dict(columns)), BytesIO()
    write_table(table.replace_schema_metadata({"headcount": json.dumps(about)}), out)
    return out.getvalue()


def write_file(path: Path, contents: str | bytes, *, private: bool = False) -> None:
    """Create or replace a file in one step. The file never holds only a part of the contents. If
    `private`, other users cannot read a file that did not exist before.

    The contents are written to a temporary file in the same folder. When they are on the disk, the
    temporary file is renamed to `path`. A file that is replaced keeps its permissions. A symbolic
    link stays, and the file that it points to is replaced. Devices and pipes are written to
    directly. A pipe without a reader is refused, since waiting for a reader could take forever.
    """
    data = contents.encode() if isinstance(contents, str) else contents
    with _written(path):
        before = _status(path)
        if before is not None and stat.S_ISFIFO(before.st_mode):
            _write_to_pipe(path, data)
            return
        if before is not None and not stat.S_ISREG(before.st_mode):
            path.write_bytes(data)
            return
        place = Path(os.path.realpath(path))
        with _temporary(place.parent) as temporary:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with os.fdopen(os.open(temporary, flags, 0o600 if private else 0o666), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if before is not None:
                with suppress(OSError):  # only root can change the owner of a file
                    os.chown(temporary, before.st_uid, before.st_gid)
                temporary.chmod(stat.S_IMODE(before.st_mode))
            temporary.replace(place)
        _sync_folder(place.parent)


def _write_to_pipe(path: Path, data: bytes) -> None:
    try:
        opened = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(None, "a pipe that nobody reads") from None
        raise
    os.set_blocking(opened, True)
    with os.fdopen(opened, "wb") as pipe:
        pipe.write(data)


def check_writable(path: Path) -> None:
    """Refuse a path that cannot be written to. This does not change anything at the path, so it can
    be called before the contents are known.
    """
    with _written(path):
        before = _status(path)
        folder = Path(os.path.realpath(path)).parent
        if before is None and not folder.is_dir():
            shown = str(folder if path.is_symlink() else path.parent)
            raise UnreadableData(f"there must be a folder {shown!r} to write to, got none")
        if before is not None and stat.S_ISDIR(before.st_mode):
            raise IsADirectoryError(None, "a folder")
        # Only permissions are checked, since opening a pipe would wait for its reader.
        if before is not None and not os.access(path, os.W_OK):
            raise PermissionError(None, "a file that may not be written to")
        replaced = before is None or stat.S_ISREG(before.st_mode)
        if replaced and not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(None, "a folder that may not be written to")


def check_apart(out: Path, inputs: Mapping[str, Iterable[Path]]) -> None:
    """Refuse an output path that leads to an input file, even by another name or a link.

    The values of `inputs` are the input files. The keys name them in the error message.
    """
    for what, paths in inputs.items():
        if any(same_file(out, path) for path in paths):
            raise InvalidParameter(
                f"--out must be a different file from {what}, which it would replace, "
                f"got {str(out)!r}"
            )


def same_file(one: Path, other: Path) -> bool:
    """Whether two paths lead to the same file, by any name or link. The file may not exist yet."""
    try:
        return one.samefile(other)
    except OSError:
        # Unlike `Path.resolve`, `realpath` does not fail for a link that leads to itself.
        return os.path.realpath(one) == os.path.realpath(other)


@contextmanager
def _temporary(folder: Path) -> Iterator[Path]:
    """A path for a temporary file in a folder. If the file exists at the end, it is deleted."""
    path = folder / f".headcount-{os.urandom(8).hex()}.tmp"
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _status(path: Path) -> os.stat_result | None:
    """The status of the file that a path leads to, or None if there is no file."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _sync_folder(folder: Path) -> None:
    """Write a folder's list of files to the disk, if possible, to survive a power failure."""
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


@contextmanager
def _written(path: Path) -> Iterator[None]:
    """Turn an error from writing a file into `UnreadableData` with a one-line message."""
    try:
        yield
    except OSError as error:
        kind = DiskFull if error.errno in _NO_ROOM else UnreadableData
        raise kind(
            f"{str(path)!r} must be a place to write to, got: {error.strerror or error}"
        ) from None
