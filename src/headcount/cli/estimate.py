"""`headcount estimate`: a private statistic of a column."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headcount.cli.answers import Answer, AnswerOptions
from headcount.cli.arguments import AsJson, Delta, OptionalEpsilon, OptionalLedger
from headcount.cli.estimate_options import DataOptions, check_usage
from headcount.cli.interrupts import unbroken
from headcount.cli.output import messages, progress
from headcount.cli.protocol_options import ProtocolOptions, complete_protocol
from headcount.cli.reading_options import ReadingOptions
from headcount.cli.refusals import ledger_use
from headcount.cli.share_options import ShareOptions
from headcount.cli.task_options import Clamp, TaskOptions, complete_task, only_task, takes
from headcount.cli.usage import given_options
from headcount.core import checks
from headcount.core.budget import Budget, Trust
from headcount.core.errors import InvalidParameter
from headcount.core.protocol import Protocol
from headcount.core.task import Task
from headcount.core.tasks.registry import TASKS
from headcount.data.estimate import prepare
from headcount.data.grouped import GroupedEstimate
from headcount.randomness.sources import SecureSource, SeededSource

if TYPE_CHECKING:
    from headcount.ledger.ledger import Ledger
    from headcount.planner.plan import Plan

_PAID = (
    "headcount: the budget is already spent, so the answer is finished first; "
    "press Ctrl-C again to discard it"
)


def estimate(
    *,
    context: typer.Context,
    data: DataOptions,
    written: ReadingOptions,
    epsilon: OptionalEpsilon = None,
    delta: Delta = 0.0,
    plan: Annotated[
        Path | None,
        typer.Option(
            help="Plan saved by `headcount plan --out`. It sets the task, the budget and the "
            "protocol, so leave out the options that would set them."
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            help=f"What to estimate: {', '.join(TASKS)}. [default: histogram if --bins or --period "
            "is given; otherwise the task of --protocol if it answers only one; otherwise table if "
            "--table is given; otherwise histogram if --dictionary or --buckets is given; "
            "otherwise boxes if --labels is given; otherwise table if --rows or --columns is "
            "given; otherwise density if --smoothness is given; otherwise quantiles if --at is "
            "given; otherwise mean if --low or --high is given; otherwise count, the number of "
            "values equal to 1]",
            autocompletion=complete_task,
        ),
    ] = None,
    question: TaskOptions,
    clamp: Clamp = False,
    ledger: OptionalLedger = None,
    dataset: Annotated[
        str | None,
        typer.Option(help="Dataset of the ledger to charge. [default: the only dataset]"),
    ] = None,
    once: Annotated[
        str | None,
        typer.Option(
            help="Charge at most once under this name. If an earlier run charged the dataset under "
            "this name, nothing is charged or released, and the exit status is 4."
        ),
    ] = None,
    trust: Annotated[
        Trust | None,
        typer.Option(
            help="Whom people trust: a curator with their values (central), a shuffler that mixes "
            "their messages (shuffle), or nobody (local). [default: central]"
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--protocol",
            help="Name of the protocol. It is required with --calibration and --option. [default: "
            "the protocol with the smallest worst-case error under --trust]",
            autocompletion=complete_protocol,
        ),
    ] = None,
    calibrated: ProtocolOptions,
    stated: AnswerOptions,
    shares: ShareOptions,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seed that makes the noise repeatable, for tests. Requires --not-private."
        ),
    ] = None,
    not_private: Annotated[
        bool,
        typer.Option(
            "--not-private",
            help="Confirm that --seed gives no privacy: anyone who knows the seed can remove the "
            "noise.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Estimate a statistic of a column with differential privacy."""
    check_usage(given_options(context))
    if stated.out is not None:
        data.check_apart(stated.out, plan, ledger)
    source = SecureSource() if seed is None else SeededSource(seed)
    ledger_use.asked = ledger is not None
    book = None if ledger is None else _opened(ledger)
    checks.confidence(stated.confidence)
    options = calibrated.named()
    wanted: Task | None = None  # stays None if --bins or --period defines the task
    budget: Budget | None = None
    planned: Plan | None = None
    if plan is not None:
        planned = _loaded(plan, name)
        wanted = planned.task
    else:
        if data.bins is None and data.period is None:
            meant = task or (only_task(name) if name else None)
            meant = meant or (None if data.table is None else "table")
            labels = data.labels(question, meant)
            meant = meant or ("histogram" if "buckets" in labels else None)
            wanted = _labeled(question, meant, data.column).task(meant, clamp=clamp, others=labels)
        budget = _budget(epsilon, delta, name, options)
    rules = written.rules(data.period)
    cleaned = data.task(wanted, rules)
    shares.check(cleaned, data.group)
    stated.check(cleaned, data.group, shares=shares.wanted)
    remarks: dict[str, str] = {}
    protocol: str | Protocol | None = name
    if planned is not None:
        remarks["plan"] = planned.digest
        with messages.status("calibrating"):
            protocol = planned.protocol()
    with unbroken(_PAID) as begin:
        with progress("estimating") as step:
            ready = prepare(
                data.path, wanted, **data.arguments(wanted, rules), **written.arguments(),
                budget=budget, trust=trust,
                protocol=protocol, honest=calibrated.honest, options=options, source=source,
                progress=step,
            )  # fmt: skip
            pairs = stated.pairs(ready)
            if book is not None:
                begin()
                entry = ready.charge(book, dataset, once=once)
                ledger_use.charge = entry.receipt(book.store.shown)
            found = ready.answer()
        if stated.postprocess is not None:
            found = found.postprocess(stated.postprocess)
        compared = None
        if isinstance(found, GroupedEstimate) and pairs:
            from headcount.core.contrasts.many import contrasts

            # If a person may have several rows, these rows may be in different groups.
            compared = contrasts(found, pairs, same_people=data.rows_per_person > 1)
        answer = Answer(
            found, ready.release, stated, shares, remarks, data.place, compared, ledger_use.charge
        )
        answer.deliver(as_json=as_json)


def _opened(place: str) -> "Ledger":
    from headcount.ledger.ledger import Ledger

    return Ledger.open(place)


def _loaded(path: Path, name: str | None) -> "Plan":
    """A saved plan. If `name` is given, the plan runs the protocol with this name."""
    from headcount.planner.plan import Plan

    plan = Plan.load(path)
    return plan.choose(name) if name else plan


def _labeled(question: TaskOptions, task: str | None, column: str | None) -> TaskOptions:
    """The options of a task. If people tick boxes, and each box has a column of its own, the names
    of the columns are the labels of the boxes, unless --labels gives other labels.
    """
    if takes(task or "", "labels") and question.labels is None and "," in (column or ""):
        return replace(question, labels=column)
    return question


def _budget(
    epsilon: float | None, delta: float, name: str | None, options: dict[str, Any]
) -> Budget:
    if epsilon is None:
        raise InvalidParameter("--epsilon or --plan must be given, got neither")
    if options and name is None:
        raise InvalidParameter(f"`{next(iter(options))}` must come with --protocol, got none")
    return Budget(epsilon, delta)
