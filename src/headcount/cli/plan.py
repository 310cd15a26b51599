"""`headcount plan`: what each protocol would cost, before any budget is spent."""

from pathlib import Path
from typing import Annotated

import typer

from headcount.cli.arguments import AsJson, Delta, OptionalEpsilon
from headcount.cli.honesty import Honesty
from headcount.cli.needs import Needed, deliver_groups
from headcount.cli.output import console, deliver, print_table, progress
from headcount.cli.plan_options import (
    CrowdOptions,
    DifferenceOptions,
    LimitOptions,
    MarginOptions,
    SavedOptions,
    check_usage,
)
from headcount.cli.task_options import Clamp, TaskName, TaskOptions
from headcount.cli.usage import given_options
from headcount.core.budget import Budget, Trust
from headcount.core.errors import HeadcountError
from headcount.planner.needs import Price, price_of_trust
from headcount.planner.plan import Plan
from headcount.planner.plan import plan as make_plan


def plan(
    *,
    context: typer.Context,
    task: TaskName,
    crowd: CrowdOptions,
    epsilon: OptionalEpsilon = None,
    delta: Delta = 0.0,
    accuracy: MarginOptions,
    groups: DifferenceOptions,
    question: TaskOptions,
    clamp: Clamp = False,
    trust: Annotated[
        Trust | None, typer.Option(help="Consider only this trust model. [default: all]")
    ] = None,
    limits: LimitOptions,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact", help="Consider only protocols whose guarantee is exact, not an upper bound."
        ),
    ] = False,
    prices: Annotated[
        bool,
        typer.Option(
            "--prices",
            help="Show how many people each trust model needs to match the accuracy of the best "
            "trust model.",
        ),
    ] = False,
    saving: SavedOptions,
    as_json: AsJson = False,
) -> None:
    """Rank protocols by their error, before any budget is spent.

    With --for collection, rank only protocols that can collect data from real people. With
    --margin, find the epsilon or the number of people that a margin of error requires. With
    --difference, find how many people two groups need, so that a test finds a difference.
    """
    asked = question.task(task, clamp=clamp)
    margin = accuracy.wanted()
    shares = crowd.shares()
    saving.check(trust, limits.purpose)
    check_usage(given_options(context), len(shares))
    detection = groups.wanted(accuracy.confidence)
    if detection is not None:
        dishonest = shares[0] if shares else 0.0
        deliver_groups(detection, epsilon, delta, dishonest, trust, as_json=as_json)
        return
    if crowd.users is None or epsilon is None:
        needed = Needed(asked, margin, delta, shares[0] if shares else 0.0, trust)
        needed.deliver(crowd.users, epsilon, as_json=as_json)
        return
    budget = Budget(epsilon, delta)
    if len(shares) > 1:
        compared = Honesty(asked, budget, crowd.users, accuracy.confidence)
        compared.deliver(shares, trust, as_json=as_json)
        return
    with progress("planning") as step:
        found = make_plan(
            asked, budget, crowd.crowd(crowd.users), trust=trust, purpose=limits.purpose,
            exact=exact, margin=margin, confidence=accuracy.confidence, progress=step,
            **limits.wanted,
        )  # fmt: skip
        found = found.choose(saving.name) if saving.name else found
        paid = price_of_trust(found, step) if prices else []
    refusal = _refusal(found)
    priced = {"prices": [one.to_dict() for one in paid]} if prices else {}
    deliver(
        lambda: {**found.to_dict(), **priced},
        lambda saved: _show(found, paid, saved),
        as_json=as_json,
        out=saving.out if refusal is None else None,  # a plan that cannot be run is not saved
        save=found.save,
        refusal=refusal,
    )


def _refusal(found: Plan) -> HeadcountError | None:
    """The reason why no protocol is suitable, or None."""
    try:
        _ = found.best
    except HeadcountError as reason:
        return reason
    return None


def _show(found: Plan, paid: list[Price], saved: Path | None) -> None:
    if found.candidates:
        print_table(found.table())
    if paid:
        console.print()
        _, *others = paid
        for price in others:
            console.print(f"price: {price}", soft_wrap=True)
    if saved is not None:
        console.print(
            f"\nsaved: {saved} (runs {found.best.protocol}, digest {found.digest[:12]})",
            soft_wrap=True,
        )
