"""The API reference has every public name, and each has a description."""

import ast
import inspect
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import headcount as hc
from headcount.core.estimator import Estimator
from headcount.core.randomizer import Randomizer

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from docs import reference  # noqa: E402

PATHS = [path for paths in reference.documented().values() for path in paths]


def test_reference_has_every_public_name_once() -> None:
    assert Counter(PATHS) == Counter(set(PATHS))
    assert {f"headcount.{name}" for name in hc.__all__} <= set(PATHS)


def test_every_public_name_is_imported_for_type_checkers_and_pages() -> None:
    tree = ast.parse(Path(hc.__file__).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert set(hc.__all__) <= {alias.name for node in imports for alias in node.names}


def test_pages_ask_for_every_entry() -> None:
    pages = {path: make() for path, make in reference.pages_made().items()}
    for page, paths in reference.documented().items():
        assert re.findall(r"^::: (\S+)$", pages[page], flags=re.MULTILINE) == paths
        for path in paths:
            assert f"][{path}]" in pages["reference/index.md"]


@pytest.mark.parametrize("path", PATHS)
def test_entries_say_what_they_are(path: str) -> None:
    """Methods and properties of classes have one too, in their own docstring or that of a base."""
    thing: Any = reference.found(path)
    assert (thing.__doc__ or "").strip()
    if not inspect.isclass(thing):
        return
    assert not (thing.__doc__ or "").startswith(f"{thing.__name__}("), "made by dataclass"
    for name in reference.public_members(thing):
        member = inspect.getattr_static(thing, name, None)
        if callable(member) or hasattr(type(member), "__get__"):
            assert inspect.getdoc(getattr(thing, name)), f"{path}.{name}"


def test_contract_has_what_must_be_stated() -> None:
    page = reference.pages_made()["reference/contract.md"]()
    for contract in (hc.Protocol, Randomizer, Estimator):
        for name in contract.__abstractmethods__:
            assert re.search(rf"\[`{name}`\]\[\S+\] \| must \| \S", page), name
