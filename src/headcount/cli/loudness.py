"""The options --quiet and --verbose, which set how much a command prints on standard error."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from headcount.cli.output import messages
from headcount.core.errors import InvalidParameter

Quiet = Annotated[
    bool, typer.Option("--quiet", help="Say nothing on standard error, except for errors.")
]
Verbose = Annotated[
    bool, typer.Option("--verbose", help="Log each step on standard error, with its time.")
]


@contextmanager
def loudness(*, quiet: bool, verbose: bool) -> Iterator[None]:
    """Apply --quiet and --verbose to the logger `headcount` and the progress bar in this block."""
    if quiet and verbose:
        raise InvalidParameter("--quiet and --verbose must not come together, got both")
    logger = logging.getLogger("headcount")
    level, before = logger.level, messages.quiet
    handler = logging.StreamHandler()  # it writes to standard error
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s: %(message)s"))
    if verbose:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    if quiet:
        logger.setLevel(logging.CRITICAL)
    messages.quiet = quiet or verbose
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        messages.quiet = before
