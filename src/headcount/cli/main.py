"""The way in: turns every refusal into one line and a documented exit status."""

import io
import sys

from headcount.core.errors import HeadcountError

_INTERRUPTED = 130


def main() -> None:
    """Entry point of the `headcount` command."""
    try:
        import typer

        from headcount.cli.app import app
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        sys.exit(_refuse("missing-package", "the command line: pip install 'headcount[cli]'", 2))

    if sys.stdout is None:
        sys.exit(2)  # nowhere to put an answer that would cost budget
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # old terminals lack a few of the characters
    try:
        status = app(standalone_mode=False)
        sys.stdout.flush()
        if status == _INTERRUPTED:
            _refuse("interrupted", "stopped before it was done", _INTERRUPTED)
    except HeadcountError as error:
        status = _refuse(error.code, str(error), error.exit_status)
    except typer.TyperException as error:
        status = _refuse("usage", error.format_message(), error.exit_code)
    except OSError as error:
        status = _refuse("unwritable", f"the output could not be written: {error.strerror}", 2)
        sys.stdout = None  # or Python would try again, and complain, when it stops
    sys.exit(status or 0)


def _refuse(code: str, reason: str, status: int) -> int:
    print(f"headcount: {code}: {' '.join(reason.split())}", file=sys.stderr)
    return status
