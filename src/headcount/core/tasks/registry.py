"""All tasks by name. Each task has one line, and its module is loaded when it is first used."""

from importlib import import_module
from typing import TYPE_CHECKING

from headcount.core.tasks.uses import Uses

if TYPE_CHECKING:
    from headcount.core.task import Task

TASKS = {
    "count": "headcount.core.tasks.count:Count",
    "sum": "headcount.core.tasks.bounded:Sum",
    "mean": "headcount.core.tasks.bounded:Mean",
    "histogram": "headcount.core.tasks.histogram:Histogram",
    "boxes": "headcount.core.tasks.boxes:Boxes",
    "table": "headcount.core.tasks.table:Table",
    "margins": "headcount.core.tasks.margins:Margins",
    "density": "headcount.core.tasks.density:Density",
    "distribution": "headcount.core.tasks.distribution:Distribution",
    "quantiles": "headcount.core.tasks.quantiles:Quantiles",
    "median": "headcount.core.tasks.quantiles:Median",
}


def task_class(name: str) -> "type[Task]":
    """The class of the task with this name."""
    module, _, noun = TASKS[name].partition(":")
    kind: type[Task] = getattr(import_module(module), noun)
    return kind


def uses_of(task: str) -> Uses:
    """What the estimates of the task with this name can be used for. A task that is not registered
    gets the defaults of `Uses`.
    """
    return task_class(task).uses if task in TASKS else Uses()


def tasks_with(use: str) -> list[str]:
    """The names of all tasks for which the field `use` of `Uses` is set, grouped by its value."""
    values = {name: getattr(uses_of(name), use) for name in TASKS}
    distinct = dict.fromkeys(value for value in values.values() if value)
    return [name for value in distinct for name in TASKS if values[name] == value]


def task_modules() -> dict[str, str]:
    """The module of each task, by the name of its class."""
    places = (place.partition(":") for place in TASKS.values())
    return {noun: module for module, _, noun in places}
