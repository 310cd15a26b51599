"""The rules of the house: small parts, short files, and no use of others' private names."""

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest

import headcount as hc
from fuzzing.lines import commands
from headcount.core.estimator import Estimator
from headcount.core.randomizer import Randomizer
from headcount.core.tasks import registry

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
MOST_METHODS = 25
MOST_PARAMETERS = 12
LONGEST_SOURCE, LONGEST_TEST = 500, 800
COMMANDS = {name for words in commands() for name in words}
TASKS = {*registry.task_modules(), "Bounded"}
OUTSIDE_TASKS = [path for path in SOURCES if "core/task" not in str(path)]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree(path)))


Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> Iterator[Function]:
    return (node for node in nodes(path) if isinstance(node, Function))


def is_command(path: Path, function: Function) -> bool:
    """Whether the function is a command. The parameters of a command are its options."""
    return path.parent.name == "cli" and function.name in COMMANDS


def too_long(paths: list[Path], most: int) -> list[str]:
    return [named(path) for path in paths if len(path.read_text().splitlines()) > most]


def test_files_are_short() -> None:
    assert not too_long(SOURCES, LONGEST_SOURCE)
    assert not too_long(TESTS, LONGEST_TEST)


def number_of_parameters(function: Function) -> int:
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
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                methods = [one.name for one in node.body if isinstance(one, Function)]
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


def names_of_this_file(path: Path) -> set[str]:
    """The functions, classes and annotated names that a file defines."""
    defined = {node.name for node in nodes(path) if isinstance(node, Function | ast.ClassDef)}
    return defined | {
        node.target.id
        for node in nodes(path)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def test_nobody_calls_what_is_another_objects_own() -> None:
    """Private names begin with an underscore. `self`, `cls` and the same file may use them."""
    wrong = []
    for path in SOURCES:
        private = [
            node
            for node in nodes(path)
            if isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr)
        ]
        own = names_of_this_file(path) if private else set()
        for node in private:
            receiver = ast.unparse(node.value)
            if receiver not in ("self", "cls", "super()", "os", "sys") and node.attr not in own:
                wrong.append(f"{receiver}.{node.attr} in line {node.lineno} of {named(path)}")
    assert not wrong


def test_only_tasks_know_tasks() -> None:
    """What depends on the task is a method of the task, not a check of its type."""
    wrong = []
    for path in OUTSIDE_TASKS:
        for node in nodes(path):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                kinds = {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
                if kinds & TASKS:
                    wrong.append(f"line {node.lineno} of {named(path)}")
    assert not wrong


def words_in(node: ast.AST) -> set[str]:
    """The texts that an expression consists of, itself or as a list or the keys of a mapping."""
    match node:
        case ast.Constant(value=str(word)):
            return {word}
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return {word for part in parts for word in words_in(part)}
        case ast.Dict(keys=keys):
            return {word for key in keys if key is not None for word in words_in(key)}
        case ast.Call(args=parts):  # such as frozenset(("count", "mean"))
            return {word for part in parts for word in words_in(part)}
    return set()


def listings_of_tasks() -> set[str]:
    """The constants that list names of tasks, in any file."""
    assigned = [
        (target, node.value)
        for path in OUTSIDE_TASKS
        for node in tree(path).body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    return {
        target.id
        for target, value in assigned
        if isinstance(target, ast.Name) and words_in(value) & {*registry.TASKS}
    }


def names_a_task(node: ast.AST, *, in_commands: bool) -> bool:
    """Whether an expression is the name of a task. In commands, a variable `task` is what the user
    typed.
    """
    match node:
        case ast.Attribute(attr="name" | "task"):
            return True
        case ast.Name(id="task" | "task_name"):
            return not in_commands
    return False


def compared_names(
    parts: Iterable[ast.AST], listings: set[str], *, in_commands: bool
) -> Iterator[int]:
    """The lines that compare the name of a task with known names, or a task with another one that
    is made there.
    """
    for node in parts:
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.Match):
            values = [one.value for one in ast.walk(node) if isinstance(one, ast.MatchValue)]
            sides = [node.subject, *values]
        else:
            continue
        known = [
            side
            for side in sides
            if words_in(side) & {*registry.TASKS}
            or (isinstance(side, ast.Name) and side.id in listings)
        ]
        made = [ast.unparse(side.func) for side in sides if isinstance(side, ast.Call)]
        named = any(names_a_task(side, in_commands=in_commands) for side in sides)
        if (named and known) or {*made} & TASKS:
            yield node.lineno


def test_nobody_compares_the_name_of_a_task() -> None:
    """What depends on the task is an attribute of the task, not a comparison with its name. So a
    new task needs no change elsewhere.
    """
    listings = listings_of_tasks()
    assert not [
        f"line {line} of {named(path)}"
        for path in OUTSIDE_TASKS
        for line in compared_names(nodes(path), listings, in_commands=path.parent.name == "cli")
    ]


@pytest.mark.parametrize(
    "line",
    [
        'ask.task.name == "count"',
        '"count" != task.name',
        'estimate.task in ("mean", "count")',
        "estimate.task not in LISTED",
        "ask.task == Count()",
        'task == "density"',
        'match self.task:\n    case "mean" | "sum":\n        pass',
    ],
)
def test_a_comparison_with_the_name_of_a_task_is_found(line: str) -> None:
    assert [*compared_names(ast.walk(ast.parse(line)), {"LISTED"}, in_commands=False)] == [1]


@pytest.mark.parametrize(
    "line", ["one.task != other.task", 'kind.name == "odds"', 'want == ("mean",)', 'f("mean") == 1']
)
def test_other_comparisons_are_fine(line: str) -> None:
    assert not [*compared_names(ast.walk(ast.parse(line)), {"LISTED"}, in_commands=False)]


def test_decimal_numbers_do_not_depend_on_the_caller() -> None:
    """Only one file makes contexts of decimal numbers. It states all of their settings."""
    found = [
        path.name
        for path in SOURCES
        if re.search(r"localcontext|getcontext|\bContext\(", path.read_text())
    ]
    assert found == ["decimal_digits.py"]
