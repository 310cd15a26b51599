"""`headcount compare`: protocols side by side, as a table and a figure."""

from pathlib import Path
from typing import Annotated

import typer

from headcount.cli.arguments import (
    AsJson,
    Buckets,
    Delta,
    FigureOut,
    High,
    Low,
    Open,
    Smoothness,
    TaskName,
    Whole,
    check_matters,
    complete_protocol,
    given_options,
    listed,
    question,
    share,
)
from headcount.cli.output import console, deliver, print_table, progress
from headcount.core.budget import Budget, Trust
from headcount.core.errors import Infeasible, InvalidParameter
from headcount.core.task import Task
from headcount.planner.comparison import AXES, Comparison
from headcount.planner.comparison import compare as compared
from headcount.planner.needs import crowd_with
from headcount.plot import figures
from headcount.protocols.registry import protocol_names
from headcount.randomness.sources import SecureSource, SeededSource


def compare(
    context: typer.Context,
    task: TaskName,
    protocols: Annotated[
        str | None,
        typer.Option(
            help="Names, with commas between them; a trust stands for all of its protocols, and "
            "all for everything. [default: the best of each trust]",
            autocompletion=complete_protocol,
        ),
    ] = None,
    over: Annotated[
        str, typer.Option(help=f"What changes: {', '.join(AXES)} (per person).")
    ] = "users",
    values: Annotated[
        str | None, typer.Option(help="Where to look, with commas between: 1000,10000,100000.")
    ] = None,
    users: Annotated[int, typer.Option(help="How many people take part, at least.")] = 100_000,
    epsilon: Annotated[float, typer.Option(help="Privacy loss that may be spent.")] = 1.0,
    delta: Delta = 1e-6,
    dishonest: Annotated[
        str | None, typer.Option(help="The share of people who may not follow it: 10%.")
    ] = None,
    buckets: Buckets = None,
    open_buckets: Open = False,
    low: Low = None,
    high: High = None,
    whole: Whole = False,
    smoothness: Smoothness = None,
    calibration: Annotated[
        str,
        typer.Option(help="exact, paper (the published closed form), or both side by side."),
    ] = "exact",
    runs: Annotated[int, typer.Option(help="Simulate so many runs at every point.")] = 0,
    seed: Annotated[
        int | None,
        typer.Option(help="Of the simulation, to repeat it: its people are made up."),
    ] = None,
    out: FigureOut = None,
    as_json: AsJson = False,
) -> None:
    """Compare errors of protocols over crowd sizes, epsilons, buckets or messages."""
    check_matters(
        given_options(context),
        [
            (runs > 0, ["--seed"], "come with --runs"),
            (protocols is None or over != "users", ["--users"], "be among --values"),
            (protocols is None or over != "epsilon", ["--epsilon"], "be among --values"),
            (protocols is None or over != "buckets", ["--buckets"], "be among --values"),
        ],
    )
    if out:
        figures.check_path(out)
    if task in ("sum", "mean", "density") and low is None and high is None:
        low, high = 0.0, 1.0
    if task == "histogram" and buckets is None:
        buckets = "20"
    asked = question(task, buckets, open_buckets, low, high, whole, smoothness=smoothness)
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


def _show(found: Comparison, saved: Path | None) -> None:
    print_table(found.table())
    if saved:
        console.print(f"\nfigure: {saved}", soft_wrap=True)


def _named(text: str, task: Task) -> list[str]:
    """Protocols by name, by trust, or all that answer."""
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
        raise InvalidParameter(f"`values` must be numbers with commas, got {text!r}")
    return found
