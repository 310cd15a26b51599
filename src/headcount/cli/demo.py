"""`headcount demo` asks a made-up town one sensitive question under all three trust models."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headcount.cli.arguments import AsJson, Figure
from headcount.cli.output import console, deliver, interval_picture, print_table, progress
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.estimate import Estimate
from headcount.core.table import short
from headcount.core.tasks.count import Count
from headcount.planner.best import best_protocol
from headcount.planner.plan import plan
from headcount.plot import figures
from headcount.randomness.draws import bernoulli
from headcount.randomness.sources import SeededSource
from headcount.road.road import run

PEOPLE = 20_000
BUDGET = Budget(1.0, 1e-6)


def population() -> NDArray[np.uint8]:
    """The answers of the town, which are the same every time. A 1 means that the person drove after
    drinking last month. About one person in nine did.
    """
    return bernoulli(SeededSource(1), PEOPLE, weight=115, bits=10)


def demo(
    out: Figure = Path("headcount-demo.png"),
    as_json: AsJson = False,
) -> None:
    """Ask a made-up town one sensitive question under each trust model."""
    figures.check_path(out)
    values = population()
    truth = int(values.sum())
    protocols = [best_protocol(Count(), BUDGET, Crowd(PEOPLE), trust) for trust in Trust]
    estimates = [run(protocol, values) for protocol in protocols]
    sizes = (100, 1000, 10_000, 100_000, 1_000_000)
    with progress("planning") as step:
        plans = []
        for at, users in enumerate(sizes):
            step(f"{users:,} people", at / len(sizes))
            plans.append(plan(Count(), BUDGET, Crowd(users)))
    errors = {
        str(trust): [
            (found.crowd.users, best.standard_error)
            for found in plans
            if (best := found.best_of(trust)) is not None
        ]
        for trust in Trust
    }
    title = f"Who drove after drinking? {PEOPLE:,} people, ε = 1"
    figure = figures.trust_figure(title, truth, estimates, errors)
    deliver(
        lambda: {"truth": truth, "estimates": [e.to_dict() for e in estimates]},
        lambda saved: _show(truth, estimates, saved),
        as_json=as_json,
        out=out,
        save=lambda place: figures.save(figure, place),
    )


def _show(truth: int, estimates: list[Estimate], saved: Path | None) -> None:
    console.print(
        f"A made-up town has {PEOPLE:,} people. Who drove after drinking last month?\n"
        f"{truth:,} people did, and nobody should learn who they are. "
        "These are the estimates under each trust model, with epsilon "
        f"{short(BUDGET.epsilon)}:\n"
    )
    tables = [estimate.table() for estimate in estimates]
    print_table(replace(tables[0], rows=tuple(row for table in tables for row in table.rows)))
    console.print()
    console.print(interval_picture(truth, estimates, min(console.width, 100)))
    console.print(
        "\ncentral: a curator sees every answer and adds noise."
        "\nshuffle: people add a little noise, and a shuffler mixes their messages."
        "\nlocal:   people sometimes give random answers; nobody has to be trusted."
    )
    if saved:
        console.print(f"\nfigure: {saved}", soft_wrap=True)
