"""The entry point. It imports little, so that Ctrl-C prints only one line from the start."""

import gc

from headcount.cli.interrupts import at_once


def main() -> None:
    """Entry point of the `headcount` command."""
    with at_once("headcount: interrupted: stopped before the command was done"):
        gc.disable()  # loading makes many objects that stay, so there is no garbage to collect
        from headcount.cli.program import load, run

        app = load()
        gc.freeze()
        gc.enable()
    run(app)
