"""Mistakes that are planted into the command line, to test that each is found."""

import contextlib
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import headcount.cli.main as way_in

_real = way_in.main


def _fails() -> None:
    raise RuntimeError("planted")


def _says(text: str, status: int, *, error: str = "") -> Callable[[], NoReturn]:
    def main() -> NoReturn:
        sys.stdout.write(text)
        sys.stderr.write(error)
        sys.exit(status)

    return main


def _ends(deed: Callable[[], object]) -> Callable[[], None]:
    """Call the original function, and then do something else."""

    def main() -> None:
        try:
            _real()
        finally:
            deed()

    return main


def _loses() -> NoReturn:
    """The answer is charged and then lost."""
    at = sys.argv.index("--out")
    del sys.argv[at : at + 2]
    out = sys.stdout
    with Path(os.devnull).open("w") as sys.stdout, contextlib.suppress(SystemExit):
        _real()
    sys.stdout = out
    sys.stderr.write("headcount: unwritable: the output is lost\n")
    sys.exit(2)


def _charges_nothing() -> None:
    at = sys.argv.index("--ledger")
    del sys.argv[at : at + 2]
    _real()


def _cut(name: str) -> None:
    place = Path(name)
    place.write_bytes(place.read_bytes()[:-5])


def _forks() -> None:
    if not os.fork():
        time.sleep(1000)
        os._exit(0)
    _real()


def _busy() -> None:
    while True:
        pass


PLANTS: dict[str, Callable[[], None]] = {
    "traceback": _fails,
    "warning": _ends(lambda: warnings.warn("planted", RuntimeWarning, stacklevel=1)),
    "status": _says("", 77, error="headcount: odd: a status of its own\n"),
    "silent": _says("", 2),
    "two lines": _says("", 2, error="headcount: bad: one\nand another\n"),
    "noise": _says("", 2, error="headcount: bad: got <class 'int'>\n"),
    "escape": _says("", 2, error="headcount: bad: got \x1b[31m\n"),
    "two documents": _says("{}\n{}\n", 0),
    "not finite": _says('{"value": NaN}\n', 0),
    "lost": _loses,
    "uncharged": _charges_nothing,
    "left behind": _ends(lambda: Path(".new.json.part").write_text("half")),
    "half": _ends(lambda: _cut("new.json")),
    "input": _ends(lambda: _cut("people.csv")),
    "gone": _ends(lambda: Path("people.csv").unlink()),
    "process": _forks,
    "hang": lambda: time.sleep(1000),
    "busy": _busy,
    "memory": lambda: print(len(bytearray(20 * 2**30))),
}


def plant(name: str) -> None:
    way_in.main = PLANTS[name]
