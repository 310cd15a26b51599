"""Texts that Arrow reads ahead in a thread, and the batches that it finds in them."""

import atexit
import os
from collections.abc import Iterator
from contextlib import suppress
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

if TYPE_CHECKING:
    import pyarrow

_PATIENCE = 1.0  # how many seconds to wait for the end of a text, since a pipe may have no end


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Text:
    """A text that `end` cuts short."""

    closed = False

    def __init__(self, text: Readable) -> None:
        self._text = text
        self._ends = False
        self._ended = Event()

    def read(self, size: int) -> bytes:
        """The next bytes, or none at the end."""
        block = b"" if self._ends else self._text.read(size)
        if not block:
            self._ended.set()
        return block

    def end(self) -> None:
        """Let the text end here."""
        self._ends = True

    def wait(self) -> None:
        """Wait until the reader has seen the end, but not forever."""
        self._ended.wait(_PATIENCE)

    def close(self) -> None:
        """Do nothing. The code that opened the text closes it."""


class ReadAhead:
    """The batches that one of Arrow's readers finds in a text.

    The reader has a thread that calls `Text.read`. A process aborts if such a thread calls Python
    while the interpreter shuts down. So the text ends as soon as its batches are no longer needed,
    and at the latest when the program ends.
    """

    def __init__(self, reader: Any, text: Text) -> None:
        self.schema: pyarrow.Schema = reader.schema
        self._reader, self._text = reader, text
        self._process = os.getpid()
        _OPEN.add(self)

    def __enter__(self) -> "ReadAhead":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> "Iterator[pyarrow.RecordBatch]":
        while self._reader is not None:
            try:
                batch = self._reader.read_next_batch()
            except StopIteration:
                return
            yield batch

    def close(self) -> None:
        """Stop the thread. A forked process does nothing, since it has no such thread."""
        if self._reader is None or self._process != os.getpid():
            return
        from pyarrow import ArrowException

        reader, self._reader = self._reader, None
        self._text.end()
        # The thread pauses while many batches wait. So all batches are taken, up to the end.
        with suppress(ArrowException):
            for _ in reader:
                pass
        self._text.wait()


_OPEN: "WeakSet[ReadAhead]" = WeakSet()


@atexit.register
def _close_all() -> None:
    for reader in list(_OPEN):
        reader.close()
