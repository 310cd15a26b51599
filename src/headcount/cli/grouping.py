"""Groups of options. A command has one parameter for each group. The type of the parameter is a
dataclass, and every field of the dataclass is an option.

Every command also gets the options --quiet and --verbose.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

from headcount.cli.loudness import Quiet, Verbose, loudness


def ungrouped(command: Callable[..., None]) -> Callable[..., None]:
    """The same command, but with a parameter for each field of its dataclasses, as Typer needs."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        group = groups.get(parameter.name)
        parameters += [parameter] if group is None else _options(group)
    for name, kind in (("quiet", Quiet), ("verbose", Verbose)):
        parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=False, annotation=kind))

    @wraps(command)
    def called(*, quiet: bool, verbose: bool, **given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        with loudness(quiet=quiet, verbose=verbose):
            command(**given)

    vars(called)["__signature__"] = Signature(parameters)
    called.__annotations__ = {one.name: one.annotation for one in parameters}
    return called


def _options(group: Any) -> list[Parameter]:
    kinds = get_type_hints(group, include_extras=True)
    return [_option(field, kinds[field.name]) for field in fields(group)]


def _option(field: Field[Any], kind: Any) -> Parameter:
    default = Parameter.empty if field.default is MISSING else field.default
    return Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
