"""`headcount plan`: what each protocol would cost, before any budget is spent."""

import math
from pathlib import Path
from typing import Annotated, Any

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
    check_matters,
    complete_protocol,
    given_options,
    listed,
    question,
    share,
)
from headcount.cli.output import console, deliver, print_table, progress
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.errors import HeadcountError, Infeasible, InvalidParameter
from headcount.core.table import Table, short, size
from headcount.core.task import Task
from headcount.planner import needs
from headcount.planner.margin import Margin
from headcount.planner.plan import Plan
from headcount.planner.plan import plan as make_plan

_OF_ONE_PLAN = ("--out", "--protocol", "--prices", "--max-messages", "--exact")


def plan(
    context: typer.Context,
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
    _check_usage(given_options(context), len(shares))
    if users is None or epsilon is None:
        _ask(asked, users, epsilon, delta, wanted, shares[0] if shares else 0.0, trust, as_json)
        return
    budget = Budget(epsilon, delta)
    if len(shares) > 1:
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
    refusal = _refusal(found)
    priced = {"prices": [one.to_dict() for one in paid]} if prices else {}
    deliver(
        lambda: {**found.to_dict(), **priced},
        lambda saved: _show(found, paid, saved),
        as_json=as_json,
        out=out if refusal is None else None,  # nothing is saved that cannot be run
        save=found.save,
        refusal=refusal,
    )


def _check_usage(given: dict[str, Any], shares: int) -> None:
    """Refuse options that would change nothing."""
    one_plan = "--users" in given and "--epsilon" in given
    check_matters(
        given,
        [
            (one_plan, [*_OF_ONE_PLAN, "--honest"], "come with --users and --epsilon"),
            (one_plan or shares <= 1, ["--dishonest"], "be one share without --users or --epsilon"),
            (shares <= 1, [*_OF_ONE_PLAN, "--margin"], "come with one share of dishonest people"),
            ("--trust" not in given, ["--prices"], "come without --trust"),
        ],
    )


def _refusal(found: Plan) -> HeadcountError | None:
    """Why no protocol will do, if none does."""
    try:
        _ = found.best
    except HeadcountError as reason:
        return reason
    return None


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


def _show(found: Plan, paid: list[needs.Price], saved: Path | None) -> None:
    if found.candidates:
        print_table(found.table())
    if paid:
        console.print()
        _, *others = paid
        for price in others:
            console.print(f"price: {price}", soft_wrap=True)
    if saved is not None:
        console.print(
            f"\nsaved: {saved}, which runs {found.best.protocol}; digest {found.digest[:12]}",
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
    reason = f"no protocol does: {found.refused[0]}" if found.refused else f"none for {task}"
    deliver(
        found.to_dict,
        lambda saved: print_table(found.table()) if found.answers else None,
        as_json=as_json,
        refusal=None if found.answers else Infeasible(reason),
    )


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
    deliver(
        lambda: {"plans": [{"dishonest": one, **p.to_dict()} for one, p in plans.items()]},
        lambda saved: print_table(_honesty_table(task, budget, users, confidence, plans)),
        as_json=as_json,
    )


def _honesty_table(
    task: Task, budget: Budget, users: int, confidence: float, plans: dict[float, Plan]
) -> Table:
    names = sorted({one.protocol for found in plans.values() for one in found.candidates})
    first = next(iter(plans.values()))
    names.sort(key=lambda name: _margins(first).get(name, math.inf))
    rows = tuple(
        (name, *(_shown(_margins(found).get(name)) for found in plans.values())) for name in names
    )
    title = f"{task}: ± {100 * confidence:.4g} %, {users:,} people, ε = {short(budget.epsilon)}, "
    return Table(
        ("protocol", *(f"{100 * one:g} % dishonest" for one in plans)),
        rows,
        title=title + f"δ = {short(budget.delta)}",
        notes=(
            "Noise is made for the honest people alone; what the others do to the answer "
            "itself is in no margin.",
        ),
    )


def _margins(found: Plan) -> dict[str, float]:
    return {one.protocol: one.margin for one in found.candidates}


def _shown(margin: float | None) -> str:
    return "–" if margin is None else size(margin)
