"""Commands that start quickly.

Typer makes a validator for every option, even for options that are left out. It uses pydantic for
this, which takes 0.1 s. A `Command` or `Group` converts plain values by itself, and leaves all
other values to Typer.
"""

import re
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

from typer.core import TyperCommand, TyperGroup

_NUMBERS = {
    int: re.compile(r"[+-]?[0-9]{1,18}"),
    float: re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE),
}


class Command(TyperCommand):
    """A Typer command that needs no pydantic for plain values."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _quick(super().get_params(ctx))


class Group(TyperGroup):
    """A Typer group of commands that needs no pydantic for plain values."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _quick(super().get_params(ctx))


def _quick(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        vars(parameter)["process_value"] = partial(_value, parameter)
    return parameters


def _value(parameter: Any, context: Any, given: Any) -> Any:
    """The value of a parameter. `given` is the text from the command line, or the default."""
    kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    value = None
    if given is None and not parameter.required:
        value = () if parameter.multiple else None
    elif not isinstance(kind, type) or (value := _converted(kind, given)) is None:
        return type(parameter).process_value(parameter, context, given)
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


def _converted(kind: type[Any], given: Any) -> Any:
    """The value of type `kind` for `given`, or None if Typer must convert it."""
    if isinstance(given, kind):
        return given
    if not isinstance(given, str):
        return None
    if issubclass(kind, Path):
        return kind(given)
    if issubclass(kind, Enum):
        return next((member for member in kind if member.value == given), None)
    number = _NUMBERS.get(kind)
    return kind(given) if number is not None and number.fullmatch(given) else None
