"""Finds which options were given, and checks whether they go together."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer

from headcount.core.errors import InvalidParameter


def given_options(context: typer.Context) -> dict[str, Any]:
    """The options that were given on the command line, and their values."""
    return {
        parameter.opts[0]: context.params[parameter.name]
        for parameter in context.command.params
        if parameter.name in context.params
        and (source := context.get_parameter_source(parameter.name)) is not None
        and source.name == "COMMANDLINE"
    }


def check_matters(
    given: Mapping[str, Any], rules: Iterable[tuple[bool, Sequence[str], str]]
) -> None:
    """Refuse options that would have no effect.

    A rule has three parts: whether the options matter, the options, and the words after "must" in
    the error message.
    """
    for matters, options, how in rules:
        for option in options:
            if option in given and not matters:
                raise InvalidParameter(f"{option} must {how}{_got(given[option])}")


def _got(value: Any) -> str:
    """The end of an error message, which shows the given value. A switch has no value to show."""
    if value is True:
        return ""
    return f", got {' '.join(map(str, value if isinstance(value, list) else [value]))}"
