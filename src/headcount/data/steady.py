"""Rows of files that must stay the same while they are read.

Otherwise an answer could mix rows of an old file with rows of a new file. A file is the same as
before if its size, the time of its last change and its inode are the same.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from headcount.core.errors import UnreadableData
from headcount.data.rows import Batch, Kinds, Rows, unreadable

_State: TypeAlias = tuple[int, int, int]


class SteadyRows(Rows):
    """The rows of files. Each pass over the rows ends with an error if a file has changed since the
    files were listed.
    """

    def __init__(self, rows: Rows, files: Sequence[Path]) -> None:
        self.name, self.wanted = rows.name, rows.wanted
        self._rows = rows
        self._files = {file: _state(file) for file in files}

    @property
    def columns(self) -> Sequence[str]:
        return self._rows.columns

    @property
    def holder(self) -> str:
        return self._rows.holder

    def _batches(self, columns: Sequence[str], kinds: Kinds) -> Iterator[Batch]:
        try:
            yield from self._rows._batches(columns, kinds)
        except Exception:
            self._check()  # the reason may be that a file changed
            raise
        self._check()

    def _check(self) -> None:
        for file, before in self._files.items():
            if _state(file) != before:
                raise UnreadableData(
                    f"{file} must stay the same until the answer is made, but it changed while it "
                    "was read",
                    hint="write files under another name, and rename them before they are read",
                )


def _state(file: Path) -> _State:
    try:
        found = file.stat()
    except FileNotFoundError:
        raise UnreadableData(
            f"{file} must stay where it is until the answer is made, but it vanished"
        ) from None
    except OSError as error:
        raise unreadable(str(file), error, "a readable file") from None
    return found.st_size, found.st_mtime_ns, found.st_ino
