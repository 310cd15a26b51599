"""`headcount plan`: what each protocol would cost, before any budget is spent."""

import math
from pathlib import Path
from typing import Annotated

import typer

from headcount.cli.arguments import (
    AsJson,
    Buckets,
    Clamp,
    Confidence,
    Delta,
    High,
    Low,
    OneTrust,
    Open,
    Smoothness,
    TaskName,
    Whole,
    complete_protocol,
    listed,
    question,
    share,
)
from headcount.cli.output import console, print_json, print_table, progress
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.errors import Infeasible, InvalidParameter
from headcount.core.table import Table, size
from headcount.core.task import Task
from headcount.planner import needs
from headcount.planner.margin import Margin
from headcount.planner.plan import Plan
from headcount.planner.plan import plan as make_plan


def plan(
    task: TaskName,
    users: Annotated[int | None, typer.Option(help="How many people take part, at least.")] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Privacy loss that may be spent, above 0.")
    ] = None,
    delta: Delta = 0.0,
    margin: Annotated[
        str | None,
        typer.Option(
            help="How far off the answer may be: a number, or a share of the crowd or range, as "
            "1%. Without --users it asks how many people that needs, without --epsilon which "
            "epsilon."
        ),
    ] = None,
    confidence: Confidence = 0.95,
    buckets: Buckets = None,
    open_buckets: Open = False,
    low: Low = None,
    high: High = None,
    whole: Whole = False,
    clamp: Clamp = False,
    smoothness: Smoothness = None,
    trust: OneTrust = None,
    honest: Annotated[
        int | None,
        typer.Option(help="How many of the people surely follow the protocol. [default: all]"),
    ] = None,
    dishonest: Annotated[
        str | None,
        typer.Option(
            help="The share that may not follow it, instead of --honest: 10%; several, as "
            "0%,10%,50%, are compared."
        ),
    ] = None,
    max_messages: Annotated[
        float | None, typer.Option(help="The most messages a person may send, on average.")
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Only guarantees that are exact, no upper bounds.")
    ] = False,
    prices: Annotated[
        bool,
        typer.Option(
            "--prices", help="How many people each trust needs for the accuracy of the best one."
        ),
    ] = False,
    name: Annotated[
        str | None,
        typer.Option(
            "--protocol",
            help="The candidate that the saved plan shall run. [default: the best]",
            autocompletion=complete_protocol,
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Save the plan, for `headcount estimate --plan`: .json.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Rank all protocols by their exact error, or ask which epsilon or crowd a margin needs."""
    asked = question(task, buckets, open_buckets, low, high, whole, clamp, smoothness)
    wanted = None if margin is None else _margin(margin, confidence)
    shares = [share("dishonest", one) for one in listed(dishonest or "")]
    if dishonest is not None and not shares:
        raise InvalidParameter(f"`dishonest` must be a share like 10% or 0.1, got {dishonest!r}")
    if honest is not None and shares:
        raise InvalidParameter("--honest or --dishonest must be given, got both")
    _check_saving(out, trust, name)
    single = {
        "--out": out, "--protocol": name, "--prices": prices, "--max-messages": max_messages,
        "--exact": exact,
    }  # fmt: skip
    if users is None or epsilon is None:
        _refuse({**single, "--honest": honest}, "--users and --epsilon")
        if len(shares) > 1:
            raise InvalidParameter(f"one share must be `dishonest` here, got {dishonest}")
        _ask(asked, users, epsilon, delta, wanted, shares[0] if shares else 0.0, trust, as_json)
        return
    budget = Budget(epsilon, delta)
    if len(shares) > 1:
        _refuse({**single, "--margin": margin}, "one share of dishonest people")
        _compare_honesty(asked, budget, users, shares, confidence, trust, as_json)
        return
    crowd = needs.crowd_with(users, shares[0]) if shares else Crowd(users, honest)
    with progress("planning") as step:
        found = make_plan(
            asked, budget, crowd, trust=trust, max_messages=max_messages, exact=exact,
            margin=wanted, confidence=confidence, progress=step,
        )  # fmt: skip
        found = found.choose(name) if name else found
        paid = needs.price_of_trust(found, step) if prices else []
    if out is not None:
        _ = found.best  # nothing is saved that cannot be run
        found.save(out)
    if as_json:
        priced = {"prices": [one.to_dict() for one in paid]} if prices else {}
        print_json({**found.to_dict(), **priced})
    else:
        _show(found, paid, out)
    if found.chosen is None:
        _ = found.best  # says why


def _check_saving(out: Path | None, trust: Trust | None, name: str | None) -> None:
    if out is None:
        return
    if out.suffix != ".json":
        raise InvalidParameter(f"a plan must end in .json, got {out.name!r}")
    if trust is None and name is None:
        raise InvalidParameter(
            "--out must come with --trust or --protocol: a saved plan is run as it is, and the "
            "best of all trusts is central"
        )


def _refuse(given: dict[str, object], needed: str) -> None:
    for flag, value in given.items():
        if value:
            raise InvalidParameter(f"{flag} must come with {needed}, got {value}")


def _show(found: Plan, paid: list[needs.Price], out: Path | None) -> None:
    if found.candidates:
        print_table(found.table())
    if paid:
        console.print()
        _, *others = paid
        for price in others:
            console.print(f"price: {price}", soft_wrap=True)
    if out is not None:
        console.print(
            f"\nsaved: {out}, which runs {found.best.protocol}; digest {found.digest[:12]}",
            soft_wrap=True,
        )


def _margin(text: str, confidence: float) -> Margin:
    if text.strip().endswith("%"):
        return Margin(share("margin", text), confidence, share=True)
    try:
        return Margin(float(text), confidence)
    except ValueError as error:
        if isinstance(error, InvalidParameter):
            raise
        raise InvalidParameter(f"`margin` must be a number or a share, got {text!r}") from None


def _ask(
    task: Task,
    users: int | None,
    epsilon: float | None,
    delta: float,
    margin: Margin | None,
    dishonest: float,
    trust: Trust | None,
    as_json: bool,
) -> None:
    """The inverse questions."""
    if margin is None or (users is None and epsilon is None):
        raise InvalidParameter("--users and --epsilon must be given, or --margin with one of them")
    with progress("searching") as step:
        if epsilon is None and users is not None:
            crowd = needs.crowd_with(users, dishonest)
            found = needs.needed_epsilon(
                task, crowd, margin, delta=delta, trust=trust, progress=step
            )
        elif epsilon is not None:
            found = needs.needed_crowd(
                task, Budget(epsilon, delta), margin, dishonest=dishonest, trust=trust,
                progress=step,
            )  # fmt: skip
    if as_json:
        print_json(found.to_dict())
    elif found.answers:
        print_table(found.table())
    if not found.answers:
        reason = f"no protocol does: {found.refused[0]}" if found.refused else f"none for {task}"
        raise Infeasible(reason)


def _compare_honesty(
    task: Task,
    budget: Budget,
    users: int,
    shares: list[float],
    confidence: float,
    trust: Trust | None,
    as_json: bool,
) -> None:
    with progress("planning") as step:
        plans = needs.dishonest_plans(
            task, budget, users, shares, confidence=confidence, trust=trust, progress=step
        )
    if as_json:
        print_json({"plans": [{"dishonest": one, **p.to_dict()} for one, p in plans.items()]})
        return
    names = sorted({one.protocol for found in plans.values() for one in found.candidates})
    first = next(iter(plans.values()))
    names.sort(key=lambda name: _margins(first).get(name, math.inf))
    rows = tuple(
        (name, *(_shown(_margins(found).get(name)) for found in plans.values())) for name in names
    )
    title = f"{task}: ± {100 * confidence:.4g} %, {users:,} people, ε = {budget.epsilon:g}, "
    print_table(
        Table(
            ("protocol", *(f"{100 * one:g} % dishonest" for one in plans)),
            rows,
            title=title + f"δ = {budget.delta:g}",
            notes=(
                "Noise is made for the honest people alone; what the others do to the answer "
                "itself is in no margin.",
            ),
        )
    )


def _margins(found: Plan) -> dict[str, float]:
    return {one.protocol: one.margin for one in found.candidates}


def _shown(margin: float | None) -> str:
    return "–" if margin is None else size(margin)
