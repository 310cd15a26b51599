"""The entry point. It imports little, so that Ctrl-C prints only one line from the start."""

from headcount.cli.interrupts import at_once


def main() -> None:
    """Entry point of the `headcount` command."""
    with at_once("headcount: interrupted: stopped before the command was done"):
        from headcount.cli.program import load, run

        app = load()
    run(app)
