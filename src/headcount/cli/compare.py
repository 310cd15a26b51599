"""`headcount compare`: protocols side by side, as a table and a figure."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from headcount.cli.arguments import AsJson, Delta, Epsilon, OptionalFigure, Users
from headcount.cli.output import console, deliver, print_table, progress
from headcount.cli.protocol_options import complete_protocol
from headcount.cli.task_options import TaskName, TaskOptions
from headcount.cli.texts import listed, share
from headcount.cli.usage import check_matters, given_options
from headcount.core.budget import Budget, Trust
from headcount.core.errors import Infeasible, InvalidParameter
from headcount.core.task import Task
from headcount.core.tasks.registry import TASKS, task_class
from headcount.planner.comparison import AXES, Comparison
from headcount.planner.comparison import compare as compared
from headcount.planner.needs import crowd_with
from headcount.plot import figures
from headcount.protocols.registry import protocol_names
from headcount.randomness.sources import SecureSource, SeededSource


def compare(
    *,
    context: typer.Context,
    task: TaskName,
    protocols: Annotated[
        str | None,
        typer.Option(
            help="Protocols to compare, separated by commas: names, a trust model (all of "
            "its protocols), or all. [default: the best of each trust model]",
            autocompletion=complete_protocol,
        ),
    ] = None,
    over: Annotated[
        str,
        typer.Option(
            help=f"Setting that varies: {', '.join(AXES)}. Messages and slots are maximums per "
            "person."
        ),
    ] = "users",
    values: Annotated[
        str | None,
        typer.Option(
            help="Values of the setting that varies, separated by commas, such as "
            "1000,10000,100000."
        ),
    ] = None,
    users: Users = 100_000,
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    dishonest: Annotated[
        str | None,
        typer.Option(help="Share of people who might not follow the protocol, such as 10%."),
    ] = None,
    question: TaskOptions,
    calibration: Annotated[
        str,
        typer.Option(
            help="How the noise is calibrated: exact computes the privacy loss, paper uses the "
            "published formula, and both compares the two."
        ),
    ] = "exact",
    runs: Annotated[
        int, typer.Option(help="Number of simulated runs with made-up people at every point.")
    ] = 0,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the simulation, which makes it repeatable.")
    ] = None,
    out: OptionalFigure = None,
    as_json: AsJson = False,
) -> None:
    """Compare the errors of protocols, as a table and a figure.

    One setting varies: the number of people, epsilon, or the number of buckets, messages or slots.
    """
    varied = f"be given in --values, because --over {over} varies it"
    check_matters(
        given_options(context),
        [
            (runs > 0, ["--seed"], "come with --runs"),
            (protocols is None or over != "users", ["--users"], varied),
            (protocols is None or over != "epsilon", ["--epsilon"], varied),
            (protocols is None or over != "buckets", ["--buckets"], varied),
        ],
    )
    if out:
        figures.check_path(out)
    asked = question.task(task, others=_example_settings(task, question))
    with progress("comparing") as step:
        found = compared(
            asked,
            Budget(epsilon, delta),
            crowd_with(users, share("dishonest", dishonest or "0")),
            protocols=None if protocols is None else _named(protocols, asked),
            over=over,
            values=None if values is None else _numbers(values),
            calibration=calibration,
            runs=runs,
            source=SecureSource() if seed is None else SeededSource(seed),
            progress=step,
        )
    if not any(one.points for one in found.series):
        raise Infeasible(next(why for one in found.series for why in one.refused.values()))
    deliver(
        found.to_dict,
        lambda saved: _show(found, saved),
        as_json=as_json,
        out=out,
        save=lambda place: figures.save(figures.error_figure(found), place),
    )


def _example_settings(task: str, question: TaskOptions) -> Mapping[str, Any]:
    """The settings of the task if the options give none of them: 20 buckets for a histogram, 10
    boxes to tick, or bounds of 0 and 1. A task without such examples gets no settings.
    """
    settings = task_class(task).example_settings if task in TASKS else {}
    given = any(getattr(question, name) is not None for name in settings)
    return {} if given else settings


def _show(found: Comparison, saved: Path | None) -> None:
    print_table(found.table())
    if saved:
        console.print(f"\nfigure: {saved}", soft_wrap=True)


def _named(text: str, task: Task) -> list[str]:
    """The names of the protocols that the text lists. A trust model stands for its protocols that
    answer the task, and `all` stands for all protocols that answer the task.
    """
    names: list[str] = []
    for word in listed(text):
        if word == "all":
            names += protocol_names(task)
        elif word in list(Trust):
            names += protocol_names(task, Trust(word))
        else:
            names.append(word)
    return list(dict.fromkeys(names))


def _numbers(text: str) -> list[float]:
    try:
        found = [float(number) for number in listed(text)]
    except ValueError:
        found = []
    if not found:
        raise InvalidParameter(f"`values` must be numbers separated by commas, got {text!r}")
    return found
