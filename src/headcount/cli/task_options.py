"""The options that describe a task."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any

import typer

from headcount.cli.texts import bound_of, labels_of, listed, share, whole_number
from headcount.core import checks
from headcount.core.errors import InvalidParameter
from headcount.core.task import Task
from headcount.core.tasks.registry import TASKS, task_class
from headcount.protocols.registry import protocol_class


def complete_task(incomplete: str) -> list[str]:
    """The tasks whose names begin with this text, for shell completion."""
    return [name for name in TASKS if name.startswith(incomplete)]


TaskName = Annotated[
    str,
    typer.Argument(
        help=f"What to estimate: {', '.join(TASKS)}.",
        metavar="TASK",
        autocompletion=complete_task,
    ),
]
Clamp = Annotated[
    bool,
    typer.Option("--clamp", help="Move values outside --low and --high to the nearest bound."),
]


@dataclass(frozen=True)
class TaskOptions:
    """The options for the settings of a task."""

    buckets: Annotated[
        str | None,
        typer.Option(
            help="Buckets of a histogram: a number d, for the values 0 to d−1, or labels, such as "
            "red,green,blue."
        ),
    ] = None
    open_buckets: Annotated[
        bool,
        typer.Option("--open", help="People may also hold values that are in none of the buckets."),
    ] = False
    labels: Annotated[
        str | None,
        typer.Option(help="Labels of boxes that people tick, such as bus,train,car."),
    ] = None
    at_most: Annotated[
        int | None, typer.Option(help="Maximum number of boxes that a person ticks. [default: all]")
    ] = None
    rows: Annotated[
        str | None,
        typer.Option(help="Rows of a table: a number, or labels, such as north,south."),
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(help="Columns of a table: a number, or labels, such as yes,no."),
    ] = None
    low: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER",
            help="Smallest possible value, for a sum, mean, density, distribution or quantiles. "
            "For a distribution or quantiles, it may be a date or time, such as 2020-12-31.",
        ),
    ] = None
    high: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER",
            help="Largest possible value, for a sum, mean, density, distribution or quantiles. "
            "For a distribution or quantiles, it may be a date or time, such as 2020-12-31.",
        ),
    ] = None
    whole: Annotated[
        bool, typer.Option("--whole", help="All values of a sum or mean are whole numbers.")
    ] = False
    smoothness: Annotated[
        float | None,
        typer.Option(
            help="Smoothness of a density, from 0.1 to 4: how many times it can be differentiated. "
            "[default: 1]"
        ),
    ] = None
    at: Annotated[
        str | None,
        typer.Option(
            help="Quantiles to estimate, each given as the share of the people below it, such as "
            "0.1,0.5,0.9. "
            "[default: 0.25,0.5,0.75]"
        ),
    ] = None
    cells: Annotated[
        int | None,
        typer.Option(
            help="Number of equal cells from --low to --high, for a distribution or quantiles. "
            "[default: 1024]"
        ),
    ] = None

    def task(
        self,
        name: str | None,
        *,
        clamp: bool = False,
        others: Mapping[str, Any] = MappingProxyType({}),
    ) -> Task:
        """The task with this name. `others` are settings that do not come from options, such as
        labels from a data dictionary. Without a name, buckets mean a histogram, labels mean boxes,
        rows or columns mean a table, smoothness means a density, `at` means quantiles, and bounds
        alone mean the task `mean`. If none of these options is given, the task is a count.
        """
        meant = checks.choice("task", name or self._likely(), list(TASKS))
        settings = {**others, **self._settings(clamp)}
        for setting in settings:
            takers = [task for task in TASKS if setting in _parameters(task)]
            if meant not in takers:
                wanted = checks.a_task(" or ".join(takers))
                raise InvalidParameter(
                    f"--{setting.replace('_', '-')} must come with {wanted}, "
                    f"got {checks.a_task(meant)}"
                )
        needed = [
            name for name, value in _parameters(meant).items() if value.default is value.empty
        ]
        missing = [f"--{name}" for name in needed if name not in settings]
        if missing:
            raise InvalidParameter(
                f"{checks.a_task(meant)} must have {' and '.join(missing)}, got none"
            )
        return task_class(meant)(**settings)

    @property
    def asks(self) -> bool:
        """Whether an option describes the task. The options --open, --at-most and --whole do not
        count, since they only change a task that other options describe.
        """
        given = (
            self.buckets, self.labels, self.rows, self.columns, self.low, self.high,
            self.smoothness, self.at, self.cells,
        )  # fmt: skip
        return any(one is not None for one in given)

    def task_of(self, protocol: str) -> Task:
        """The task for a protocol. If no option describes a task, the protocol's first task is
        taken.
        """
        if not self.asks:
            return self.task(protocol_class(protocol).tasks[0].name)
        return self.task(only_task(protocol))

    def _likely(self) -> str:
        if self.buckets is not None:
            return "histogram"
        if self.labels is not None:
            return "boxes"
        if self.rows is not None or self.columns is not None:
            return "table"
        if self.smoothness is not None:
            return "density"
        if self.at is not None:
            return "quantiles"
        return "count" if self.low is None and self.high is None else "mean"

    def _settings(self, clamp: bool) -> dict[str, Any]:
        """The given settings, under the names of the tasks' parameters."""
        given = {
            "buckets": self._labels("buckets", self.buckets),
            "rows": self._labels("rows", self.rows),
            "columns": self._labels("columns", self.columns),
            "open": self.open_buckets or None,
            "labels": None if self.labels is None else listed(self.labels),
            "at_most": self.at_most,
            "low": None if self.low is None else bound_of(self.low),
            "high": None if self.high is None else bound_of(self.high),
            "whole": self.whole or None,
            "clamp": clamp or None,
            "smoothness": self.smoothness,
            "at": self._shares(),
            "cells": self.cells,
        }
        return {name: value for name, value in given.items() if value is not None}

    def _shares(self) -> list[float] | None:
        return None if self.at is None else [share("at", text) for text in listed(self.at)]

    def _labels(self, name: str, text: str | None) -> int | list[Any] | None:
        """The number of labels, or the labels themselves. With --open, a number is a label too."""
        if text is None:
            return None
        if text.strip().isdecimal() and not self.open_buckets:
            return whole_number(name, text)
        return labels_of(name, text)


def takes(task: str, setting: str) -> bool:
    """Whether `task` is the name of a task that takes this setting."""
    return task in TASKS and setting in _parameters(task)


def _parameters(task: str) -> Mapping[str, inspect.Parameter]:
    """The parameters of a task's constructor."""
    return inspect.signature(task_class(task)).parameters


def only_task(protocol: str) -> str | None:
    """The name of the task that a protocol answers, if it answers only one."""
    kinds = protocol_class(protocol).tasks
    return kinds[0].name if len(kinds) == 1 else None
