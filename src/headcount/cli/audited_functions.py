"""Loads the functions that users audit, from a Python file or a module."""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from headcount.core.errors import InvalidParameter, UnreadableData
from headcount.protocols.registry import likely_name, protocol_names


def function_of(target: str) -> Callable[..., Any]:
    """The function that FILE.py:NAME or MODULE:NAME stands for."""
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise InvalidParameter(
            f"the target must be a protocol ({', '.join(protocol_names())}) or a function as "
            f"FILE.py:NAME or MODULE:NAME, got {target!r}",
            hint=likely_name(target),
        )
    function = getattr(_module(place), name, None)
    if not callable(function):
        raise UnreadableData(f"{place} must have a function {name!r}, got none")
    found: Callable[..., Any] = function
    return found


def _module(place: str) -> ModuleType:
    path = Path(place)
    try:
        if path.suffix != ".py":
            sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
            return importlib.import_module(place)
        if not path.is_file():
            raise UnreadableData(f"there must be a file at {place!r}, got none")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise UnreadableData(f"{place!r} must be a Python file, got something else")
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        return module
    except UnreadableData:
        raise
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise UnreadableData(
            f"{place} must load as Python, got {type(error).__name__}: {error}"
        ) from None
