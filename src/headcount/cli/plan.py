"""`headcount plan`: what each protocol would cost, before any budget is spent."""

from pathlib import Path
from typing import Annotated, Any

import typer

from headcount.cli.arguments import (
    AsJson,
    Confidence,
    Delta,
    Honest,
    OneTrust,
    OptionalEpsilon,
    OptionalUsers,
)
from headcount.cli.honesty import Honesty
from headcount.cli.needs import Needed
from headcount.cli.output import console, deliver, print_table, progress
from headcount.cli.protocol_options import complete_protocol
from headcount.cli.task_options import Clamp, TaskName, TaskOptions
from headcount.cli.texts import listed, share
from headcount.cli.usage import check_matters, given_options
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.errors import HeadcountError, InvalidParameter
from headcount.planner.margin import Margin
from headcount.planner.needs import Price, crowd_with, price_of_trust
from headcount.planner.plan import Plan
from headcount.planner.plan import plan as make_plan

_OF_ONE_PLAN = ("--out", "--protocol", "--prices", "--max-messages", "--exact")


def plan(
    *,
    context: typer.Context,
    task: TaskName,
    users: OptionalUsers = None,
    epsilon: OptionalEpsilon = None,
    delta: Delta = 0.0,
    margin: Annotated[
        str | None,
        typer.Option(
            help="Maximum margin of error: a number, or a share of the crowd or range, such as 1%. "
            "Without --users, the number of people needed is computed; without --epsilon, the "
            "epsilon needed."
        ),
    ] = None,
    confidence: Confidence = 0.95,
    question: TaskOptions,
    clamp: Clamp = False,
    trust: OneTrust = None,
    honest: Honest = None,
    dishonest: Annotated[
        str | None,
        typer.Option(
            help="Share of people who may not follow the protocol, such as 10%, instead of "
            "--honest. Several shares, such as 0%,10%,50%, are compared."
        ),
    ] = None,
    max_messages: Annotated[
        float | None,
        typer.Option(help="Maximum average number of messages per person."),
    ] = None,
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Consider only guarantees that are exact, not upper bounds."),
    ] = False,
    prices: Annotated[
        bool,
        typer.Option(
            "--prices",
            help="Show how many people each trust needs to match the most accurate one.",
        ),
    ] = False,
    name: Annotated[
        str | None,
        typer.Option(
            "--protocol",
            help="Protocol that the saved plan runs. [default: the best]",
            autocompletion=complete_protocol,
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Save the plan for `headcount estimate --plan`: .json.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Rank protocols by their error, before any budget is spent.

    With --margin, find the epsilon or the number of people that a margin of error needs.
    """
    asked = question.task(task, clamp=clamp)
    wanted = None if margin is None else _margin(margin, confidence)
    shares = [share("dishonest", one) for one in listed(dishonest or "")]
    if dishonest is not None and not shares:
        raise InvalidParameter(f"`dishonest` must be a share like 10% or 0.1, got {dishonest!r}")
    if honest is not None and shares:
        raise InvalidParameter("--honest or --dishonest must be given, got both")
    _check_saving(out, trust, name)
    _check_usage(given_options(context), len(shares))
    if users is None or epsilon is None:
        Needed(asked, wanted, delta, shares[0] if shares else 0.0, trust).deliver(
            users, epsilon, as_json=as_json
        )
        return
    budget = Budget(epsilon, delta)
    if len(shares) > 1:
        Honesty(asked, budget, users, confidence).deliver(shares, trust, as_json=as_json)
        return
    crowd = crowd_with(users, shares[0]) if shares else Crowd(users, honest)
    with progress("planning") as step:
        found = make_plan(
            asked, budget, crowd, trust=trust, max_messages=max_messages, exact=exact,
            margin=wanted, confidence=confidence, progress=step,
        )  # fmt: skip
        found = found.choose(name) if name else found
        paid = price_of_trust(found, step) if prices else []
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


def _margin(text: str, confidence: float) -> Margin:
    if text.strip().endswith("%"):
        return Margin(share("margin", text), confidence, share=True)
    try:
        return Margin(float(text), confidence)
    except ValueError as error:
        if isinstance(error, InvalidParameter):
            raise
        raise InvalidParameter(f"`margin` must be a number or a share, got {text!r}") from None


def _check_saving(out: Path | None, trust: Trust | None, name: str | None) -> None:
    if out is None:
        return
    if out.suffix != ".json":
        raise InvalidParameter(f"a plan must end in .json, got {out.name!r}")
    if trust is None and name is None:
        raise InvalidParameter(
            "--out must come with --trust or --protocol: otherwise the plan would always run a "
            "central protocol, which has the least error"
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
