"""The rules of the house: small parts, short files, and no use of others' private names."""

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import headcount as hc
from fuzzing.lines import commands
from headcount.core.estimator import Estimator
from headcount.core.randomizer import Randomizer
from headcount.core.tasks.registry import task_modules

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
MOST_METHODS = 25
MOST_PARAMETERS = 12
LONGEST_SOURCE, LONGEST_TEST = 500, 800
COMMANDS = {name for words in commands() for name in words}
TASKS = {*task_modules(), "Bounded"}


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def functions(path: Path) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, ast.FunctionDef))


def is_command(path: Path, function: ast.FunctionDef) -> bool:
    """Whether the function is a command. The parameters of a command are its options."""
    return path.parent.name == "cli" and function.name in COMMANDS


def too_long(paths: list[Path], most: int) -> list[str]:
    return [named(path) for path in paths if len(path.read_text().splitlines()) > most]


def test_files_are_short() -> None:
    assert not too_long(SOURCES, LONGEST_SOURCE)
    assert not too_long(TESTS, LONGEST_TEST)


def number_of_parameters(function: ast.FunctionDef) -> int:
    given = function.args
    number = len([*given.posonlyargs, *given.args, *given.kwonlyargs])
    number += (given.vararg is not None) + (given.kwarg is not None)
    return number - (bool(given.args) and given.args[0].arg in ("self", "cls"))


def test_functions_have_few_parameters() -> None:
    assert not [
        f"{named(path)}: {function.name}"
        for path in SOURCES
        for function in functions(path)
        if not is_command(path, function) and number_of_parameters(function) > MOST_PARAMETERS
    ]


def test_classes_have_few_methods() -> None:
    wrong = []
    for path in SOURCES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                methods = [one.name for one in node.body if isinstance(one, ast.FunctionDef)]
                if len([name for name in methods if not name.startswith("_")]) > MOST_METHODS:
                    wrong.append(f"{named(path)}: {node.name}")
    assert not wrong


@pytest.mark.parametrize("contract", [hc.Protocol, Randomizer, Estimator, hc.Task])
def test_contracts_are_small_and_documented(contract: type) -> None:
    """Inherited methods count, too. No protocol is extended by methods with an underscore."""
    names = [name for name in dir(contract) if not name.startswith("__")]
    methods = [
        name
        for name in names
        if callable(getattr(contract, name))
        or isinstance(inspect.getattr_static(contract, name), property)
    ]
    assert len(methods) <= MOST_METHODS
    assert not [
        name for name in vars(contract) if re.match(r"_[a-z]", name) and name != "_abc_impl"
    ]
    undocumented = [name for name in methods if not inspect.getdoc(getattr(contract, name))]
    assert not undocumented


def names_of_this_file(module: ast.Module) -> set[str]:
    """The functions, classes and annotated names that a file defines."""
    defined = {
        node.name for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    return defined | {
        node.target.id
        for node in ast.walk(module)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def test_nobody_calls_what_is_another_objects_own() -> None:
    """Private names begin with an underscore. `self`, `cls` and the same file may use them."""
    wrong = []
    for path in SOURCES:
        private = [
            node
            for node in ast.walk(tree(path))
            if isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr)
        ]
        own = names_of_this_file(tree(path)) if private else set()
        for node in private:
            receiver = ast.unparse(node.value)
            if receiver not in ("self", "cls", "super()", "os", "sys") and node.attr not in own:
                wrong.append(f"{receiver}.{node.attr} in line {node.lineno} of {named(path)}")
    assert not wrong


def test_only_tasks_know_tasks() -> None:
    """What depends on the task is a method of the task, not a check of its type."""
    wrong = []
    for path in SOURCES:
        if "core/task" in str(path):
            continue
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                kinds = {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
                if kinds & TASKS:
                    wrong.append(f"line {node.lineno} of {named(path)}")
    assert not wrong


def test_decimal_numbers_do_not_depend_on_the_caller() -> None:
    """Only one file makes contexts of decimal numbers. It states all of their settings."""
    found = [
        path.name
        for path in SOURCES
        if re.search(r"localcontext|getcontext|\bContext\(", path.read_text())
    ]
    assert found == ["decimal_digits.py"]
