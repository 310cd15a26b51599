"""The way in: turns every refusal into one line and a documented exit status."""

import sys

from headcount.core.errors import HeadcountError


def main() -> None:
    """Entry point of the `headcount` command."""
    try:
        import typer

        from headcount.cli.app import app
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        sys.exit(_refuse("missing-package", "the command line: pip install 'headcount[cli]'", 2))

    try:
        status = app(standalone_mode=False)
    except HeadcountError as error:
        status = _refuse(error.code, str(error), error.exit_status)
    except typer.TyperException as error:
        status = _refuse("usage", error.format_message(), error.exit_code)
    except typer.Abort:
        status = _refuse("interrupted", "stopped before it was done", 130)
    sys.exit(status or 0)


def _refuse(code: str, reason: str, status: int) -> int:
    print(f"headcount: {code}: {' '.join(reason.split())}", file=sys.stderr)
    return status
