"""The demonstration: one sensitive question to a made-up town, under all three trusts."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headcount.cli.output import console, interval_picture, print_estimates, print_json
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.task import Count
from headcount.plot import figures
from headcount.protocols.registry import best_protocol
from headcount.protocols.run import run
from headcount.randomness.draws import bernoulli
from headcount.randomness.sources import SeededSource

PEOPLE = 20_000
BUDGET = Budget(1.0, 1e-6)


def population() -> NDArray[np.uint8]:
    """Who drove after drinking last month? The same town every time; about one in nine did."""
    return bernoulli(SeededSource(1), PEOPLE, weight=115, bits=10)


def show(out: Path, *, as_json: bool) -> None:
    values = population()
    truth = int(values.sum())
    protocols = [best_protocol(Count(), BUDGET, Crowd(PEOPLE), trust) for trust in Trust]
    estimates = [run(protocol, values) for protocol in protocols]
    errors = {
        str(trust): [
            (users, best_protocol(Count(), BUDGET, Crowd(users), trust).standard_error())
            for users in (100, 1000, 10_000, 100_000, 1_000_000)
        ]
        for trust in Trust
    }
    title = f"Who drove after drinking? {PEOPLE:,} people, ε = 1"
    figures.save(figures.trust_figure(title, truth, estimates, errors), out)
    if as_json:
        print_json({"truth": truth, "estimates": [e.to_dict() for e in estimates]})
        return
    console.print(
        f"{PEOPLE:,} people of a made-up town: who drove after drinking last month?\n"
        f"{truth:,} did, and nobody should learn who. Asked under three trusts, "
        f"epsilon {BUDGET.epsilon:g}:\n"
    )
    print_estimates(estimates, 0.95)
    console.print()
    console.print(interval_picture(truth, estimates, min(console.width, 100)))
    console.print(
        "\ncentral: a curator sees every answer and adds noise."
        "\nshuffle: people add a little noise, and a shuffler mixes their messages."
        "\nlocal:   people lie now and then; nobody has to be trusted at all."
        f"\n\nfigure: {out}"
    )
