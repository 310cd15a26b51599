"""Runs one command. Every error becomes one line and a documented exit status."""

import io
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from headcount.cli.interrupts import INTERRUPTED
from headcount.cli.refusals import BUG, description_of, ledger_use
from headcount.core.errors import MissingPackage, UnreadableData
from headcount.core.writing import json_text


def load() -> Callable[..., Any]:
    """Import the command on the command line and everything that it needs."""
    try:
        from headcount.cli.app import app
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        missing = MissingPackage(
            "the command line needs typer and rich", hint="pip install 'headcount[cli]'"
        )
        sys.exit(_explained(missing))
    return app(*sys.argv[1:2])


def run(app: Callable[..., Any]) -> NoReturn:
    """Run a command, report its error if there is one, and exit with a status."""
    from headcount.cli.output import standard_output

    if sys.stdout is None:  # an answer would be lost after its budget was spent
        sys.exit(_explained(UnreadableData("standard output must be open, but it is closed")))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # old terminals lack a few of the characters
    standard_output.answered = False
    ledger_use.asked, ledger_use.charge = False, None
    try:
        status = app(standalone_mode=False)
        if status == INTERRUPTED:
            raise KeyboardInterrupt
        if sys.stdout is not None:
            sys.stdout.flush()
    except BaseException as error:
        status = _explained(error, answered=standard_output.answered)
        _let_go_of_streams()
    sys.exit(status or 0)


def _explained(error: BaseException, *, answered: bool = False) -> int:
    """Report an error in one line, and with --json also in a document. Return the exit status."""
    if isinstance(error, SystemExit):
        # A pipe that is closed early, as in `headcount --help | head`, is not an error.
        early = isinstance(error.__context__, BrokenPipeError)
        return 0 if early or not isinstance(error.code, int) else error.code
    described = description_of(error, answered=answered)
    if described.status == BUG:
        traceback.print_exception(error)
    if _wants_json() and not answered:
        with suppress(OSError):
            print(json_text(described.to_dict()))
    with suppress(OSError):
        print(described, file=sys.stderr)
    return described.status


def _wants_json() -> bool:
    """Whether --json is on the command line. The words of the command line are searched here, since
    an error may occur before the options are parsed.
    """
    return "--json" in sys.argv[1 : sys.argv.index("--") if "--" in sys.argv else None]


def _let_go_of_streams() -> None:
    """Drop streams that cannot be flushed. Otherwise Python would try again when it exits, and
    replace the exit status by its own.
    """
    for name in ("stdout", "stderr"):
        try:
            if (stream := getattr(sys, name)) is not None:
                stream.flush()
        except OSError:
            setattr(sys, name, None)
