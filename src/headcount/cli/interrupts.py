"""Signals that ask to stop, such as Ctrl-C: when they may, and when they wait."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

INTERRUPTED = 130
_STOPPING = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


@contextmanager
def at_once(said: str) -> Iterator[None]:
    """Inside, Ctrl-C ends the process with a line: while packages load, no exception
    finds its way through them.
    """

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        with suppress(OSError):
            os.write(2, f"{said}\n".encode())
        os._exit(INTERRUPTED)

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield  # whoever started us wants something else
        return
    signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def unbroken(said: str = "") -> Iterator[Callable[[], None]]:
    """From when the block calls what it gets, a signal to stop waits until the block is done, and
    `said` goes to standard error. A second one does not wait, but still cleans up.
    """
    before: dict[int, Any] = {}
    waiting: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        if waiting:
            restore()
            _stop(number)
        waiting.append(number)
        if said:
            with suppress(OSError):  # and not by print, which may be what was interrupted
                os.write(2, f"{said}\n".encode())

    def begin() -> None:
        for number in _STOPPING:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                before.setdefault(number, signal.signal(number, hold))

    def restore() -> None:
        while before:
            signal.signal(*before.popitem())

    try:
        yield begin
    finally:
        restore()
    if waiting:
        _stop(waiting[0])


def _stop(number: int) -> NoReturn:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)
