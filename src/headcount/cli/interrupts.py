"""Handles signals to stop, such as Ctrl-C. A signal either ends the process at once, or waits until
a block of code is done.
"""

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
    """Inside the `with` block, Ctrl-C prints the line `said` and ends the process at once. An
    exception would not be enough, since packages may catch it while they load.
    """

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        with suppress(OSError):
            os.write(2, f"{said}\n".encode())
        os._exit(INTERRUPTED)

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield  # whoever started the process handles Ctrl-C in another way
        return
    signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def unbroken(said: str = "") -> Iterator[Callable[[], None]]:
    """Gives a function to the `with` block. Once the block has called this function, a signal to
    stop writes `said` to standard error, and stops the program only after the block is done. A
    second signal stops the block at once with an exception.
    """
    before: dict[int, Any] = {}
    waiting: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        if waiting:
            restore()
            _stop(number)
        waiting.append(number)
        if said:
            with suppress(OSError):  # not `print`, since the signal may have interrupted a print
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
