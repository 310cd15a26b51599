"""`headcount estimate`: a private statistic of a column."""

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
    Honest,
    Low,
    Open,
    Options,
    Smoothness,
    Whole,
    check_matters,
    complete_protocol,
    complete_task,
    filling,
    given_options,
    labels_of,
    listed,
    number_of,
    only_task,
    options_of,
    question,
)
from headcount.cli.interrupts import unbroken
from headcount.cli.output import console, deliver, facts, messages, print_table, progress
from headcount.core import checks
from headcount.core.budget import Budget, Trust
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Estimate
from headcount.core.guarantee import PLAIN_NEIGHBORS
from headcount.core.postprocessing import STEPS, check_step
from headcount.core.protocol import Protocol
from headcount.core.table import number, short
from headcount.core.task import Task
from headcount.core.writing import check_apart
from headcount.data.cleaning import cleaning
from headcount.data.estimate import prepare
from headcount.data.folders import belongs_to
from headcount.data.grouped import GroupedEstimate
from headcount.data.queries import files_named
from headcount.data.release import Release
from headcount.ledger.ledger import Ledger
from headcount.planner.plan import Plan
from headcount.plot import results
from headcount.randomness.sources import SecureSource, SeededSource

_PAID = "headcount: the answer is paid for, and is finished first; Ctrl-C again gives it up"
_NOT_OF_BINS = (
    "--buckets", "--open", "--low", "--high", "--whole", "--clamp", "--smoothness",
)  # fmt: skip
_IN_PLAN = (
    "--task", "--epsilon", "--delta", *_NOT_OF_BINS, "--bins", "--trust", "--honest",
    "--calibration", "--option",
)  # fmt: skip


def estimate(
    context: typer.Context,
    path: Annotated[
        Path | None,
        typer.Argument(
            help="A .csv, .parquet or .jsonl file, a folder of them, or a pattern in quotes; one "
            "row a person. Left out with --query."
        ),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option(
            help="The column that holds people's values; may be left out if a query has only one."
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Privacy loss that may be spent, above 0; needed unless --plan has it."),
    ] = None,
    delta: Delta = 0.0,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan", help="A plan that `headcount plan --out` saved: it says all but the data."
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            help="The question: count (how many ones?), sum, mean, histogram or density. "
            "[default: count; histogram with --buckets, density with --smoothness, mean with "
            "--low or --high]",
            autocompletion=complete_task,
        ),
    ] = None,
    buckets: Buckets = None,
    open_buckets: Open = False,
    low: Low = None,
    high: High = None,
    whole: Whole = False,
    clamp: Clamp = False,
    smoothness: Smoothness = None,
    bins: Annotated[
        str | None,
        typer.Option(help="Of numbers: the edges of a histogram's buckets, as in 0,18,30,65,120."),
    ] = None,
    missing: Annotated[
        str,
        typer.Option(
            help="Of people without a value: error; drop, and then who has none is not hidden; or "
            "a value to fill in."
        ),
    ] = "error",
    outside: Annotated[
        str,
        typer.Option(
            help="What to do with values that do not fit: error, clamp (to the nearest number or "
            "bin), or other (one more bucket)."
        ),
    ] = "error",
    person: Annotated[
        str | None,
        typer.Option(help="The column that says whose row it is. [default: a row is a person]"),
    ] = None,
    rows_per_person: Annotated[
        int,
        typer.Option(help="How many rows of a person count at most, chosen at random."),
    ] = 1,
    group: Annotated[
        str | None,
        typer.Option(
            help="A column: ask the same of each group. Groups, and how many people each has, are "
            "not hidden."
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(help="The groups there are: north,south. [default: those that are found]"),
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(
            help="Instead of a file: a query for DuckDB, like SELECT smoker FROM 'people.csv'."
        ),
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(
            help="Record what is spent in this ledger, a file or postgresql://…, before it is "
            "released; refused beyond its limit."
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(help="Whose budget is spent. [default: the ledger's only data set]"),
    ] = None,
    trust: Annotated[
        Trust | None,
        typer.Option(help="Who may see a value: the curator, or nobody. [default: central]"),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--protocol",
            help="A protocol by name. [default: that of the trust with the least error, for the "
            "worst data]",
            autocompletion=complete_protocol,
        ),
    ] = None,
    honest: Honest = None,
    calibration: Annotated[
        str | None, typer.Option(help="exact or paper; goes with --protocol.")
    ] = None,
    option: Options = None,
    confidence: Confidence = 0.95,
    sampling: Annotated[
        bool,
        typer.Option(
            "--sampling",
            help="The interval is for the mean or density of the population that people were "
            "drawn from, however widely their values spread.",
        ),
    ] = False,
    simultaneous: Annotated[
        bool,
        typer.Option("--simultaneous", help="Intervals hold for all buckets at once, not each."),
    ] = False,
    postprocess: Annotated[
        str | None,
        typer.Option(help=f"What is done to the private answer: {', '.join(STEPS)}."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Save the result: .json, .parquet, a page (.html), or the figure of a density "
            "(.png, .svg, .pdf)."
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Repeat the same randomness, for tests; only with --not-private."),
    ] = None,
    not_private: Annotated[
        bool,
        typer.Option(
            "--not-private",
            help="Goes with --seed: whoever knows the seed can take the noise away.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Estimate a statistic of a column, privately."""
    _check_usage(given_options(context))
    if out is not None:
        _check_apart(out, path, query, plan, ledger)
    source = SecureSource() if seed is None else SeededSource(seed)
    book = None if ledger is None else Ledger.open(ledger)
    confidence = checks.confidence(confidence)
    options = _options(option, calibration)
    budget: Budget | None = None
    protocol: str | Protocol | None = name
    wanted: Task | None = None  # bins make it
    if plan is not None:
        planned = Plan.load(plan)
        planned = planned.choose(name) if name else planned
        wanted = planned.task
    else:
        if bins is None:
            wanted = question(
                task or (only_task(name) if name else None), buckets, open_buckets, low, high,
                whole, clamp, smoothness,
            )  # fmt: skip
        budget = _budget(epsilon, delta, name, options)
    edges = None if bins is None else [number_of("bins", edge) for edge in listed(bins)]
    fill = filling(missing, wanted)
    asked = cleaning(column or "", wanted, missing=fill, outside=outside, bins=edges).task
    _check_flags(
        asked, sampling=sampling, simultaneous=simultaneous, postprocess=postprocess, out=out
    )
    if group is not None and out and out.suffix.lower() in results.DRAWN:
        raise InvalidParameter(f"a figure must be of one group, got --group {group}; try .html")
    remarks: dict[str, str] = {}
    if plan is not None:
        remarks["plan"] = planned.digest
        with messages.status("calibrating"):
            protocol = planned.protocol()
    if book is not None:
        remarks["recorded_in"] = book.store.shown
    kind = {"sampling": sampling, "simultaneous": simultaneous}
    with unbroken(_PAID) as begin:
        with progress("estimating") as step:
            ready = prepare(
                path, wanted, column=column, budget=budget, trust=trust,
                protocol=protocol, honest=honest, query=query, missing=fill, outside=outside,
                bins=edges, person=person, rows_per_person=rows_per_person, group=group,
                groups=None if groups is None else labels_of("groups", groups), source=source,
                progress=step, options=options,
            )  # fmt: skip
            if book is not None:
                begin()
                ready.charge(book, dataset)
            answer = ready.answer()
        if postprocess is not None:
            answer = answer.postprocess(postprocess)
        _deliver(answer, ready.release, confidence, kind, remarks, out, as_json)


def _deliver(
    answer: Estimate | GroupedEstimate,
    release: Release,
    confidence: float,
    kind: dict[str, bool],
    remarks: dict[str, str],
    out: Path | None,
    as_json: bool,
) -> None:
    known = facts(release.protocols[0]) if isinstance(answer, Estimate) else {}
    if not answer.guarantee.secure:
        known["not_private"] = answer.guarantee.warning
    deliver(
        lambda: {**answer.to_dict(confidence, **kind), **known, **remarks},
        lambda saved: _show(answer, release, confidence, kind, remarks, saved),
        as_json=as_json,
        out=out,
        save=lambda place: results.save(answer, place, confidence, **kind),
        paid=True,
    )


def _show(
    answer: Estimate | GroupedEstimate,
    release: Release,
    confidence: float,
    kind: dict[str, bool],
    remarks: dict[str, str],
    saved: Path | None,
) -> None:
    print_table(answer.table(confidence, **kind))
    _print_cost(release, answer, confidence, kind)
    if saved:
        place = "figure" if saved.suffix.lower() in results.DRAWN else "saved"
        remarks = {**remarks, place: str(saved)}
    for what, remark in remarks.items():
        console.print(f"{what.replace('_', ' ')}: {remark}", soft_wrap=True)


def _check_apart(
    out: Path, path: Path | None, query: str | None, plan: Path | None, ledger: str | None
) -> None:
    """Refuse to save over a file that is read, or where it would be read the next time."""
    check_apart(
        out,
        {
            "the plan": [] if plan is None else [plan],
            "the ledger": [] if ledger is None else [Path(ledger)],
            "the data of the query": [] if query is None else files_named(query),
        },
    )
    if path is not None and belongs_to(out, path):
        raise InvalidParameter(
            f"--out must be no file of the data at {str(path)!r}, got {str(out)!r}"
        )


def _check_usage(given: dict[str, Any]) -> None:
    """Refuse options that do not go together, or that would change nothing."""
    if ("path" in given) == ("--query" in given):
        raise typer.BadParameter("a file or --query must be given, and not both")
    if "path" in given and "--column" not in given:
        raise typer.BadParameter("--column must be given with a file")
    if ("--seed" in given) != ("--not-private" in given):
        raise InvalidParameter(
            "--seed and --not-private must come together: with a known seed anyone can take the "
            "noise away again"
        )
    bins, task = "--bins" in given, given.get("--task", "histogram")
    check_matters(
        given,
        [
            ("--plan" not in given, _IN_PLAN, "be left to the plan"),
            (not bins, _NOT_OF_BINS, "come without --bins"),
            (not bins or task == "histogram", ["--task"], "be a histogram with --bins"),
            ("--person" in given, ["--rows-per-person"], "come with --person"),
            ("--group" in given, ["--groups"], "come with --group"),
            ("--ledger" in given, ["--dataset"], "come with a ledger"),
            ("--seed" not in given, ["--ledger"], "come without --seed (such noise hides nothing)"),
        ],
    )


def _options(option: list[str] | None, calibration: str | None) -> dict[str, Any]:
    options = options_of(option)
    if calibration is not None:
        if "calibration" in options:
            raise InvalidParameter("`calibration` must be given once, got it twice")
        options["calibration"] = calibration
    return options


def _budget(
    epsilon: float | None, delta: float, name: str | None, options: dict[str, Any]
) -> Budget:
    if epsilon is None:
        raise InvalidParameter("--epsilon or --plan must be given, got neither")
    if options and name is None:
        raise InvalidParameter(f"`{next(iter(options))}` must come with --protocol, got none")
    return Budget(epsilon, delta)


def _print_cost(
    release: Release, answer: Estimate | GroupedEstimate, confidence: float, kind: dict[str, bool]
) -> None:
    promise, spent = answer.guarantee, "spent"
    if isinstance(answer, Estimate):
        steps = answer.postprocessing
        each = short(release.protocols[0].messages_per_user, 4)
        sent = f"{each} message{'s' * (each != '1')} each"
        marked = f", post-processed: {' and '.join(steps)}" if steps else ""
        line = f"{release.name}, {number(answer.users)} people, {sent}{marked}"
    else:
        line = f"{release.name}, {len(answer)} groups, {number(answer.users)} people"
        spent = "spent once"
    console.print(f"\n{line}", soft_wrap=True)
    console.print(f"{spent}: {promise}; {promise.method}", soft_wrap=True)
    if promise.neighbors != PLAIN_NEIGHBORS:
        console.print(f"protected: {promise.neighbors}", soft_wrap=True)
    if isinstance(answer, Estimate) and answer.value not in answer.interval(confidence, **kind):
        console.print(
            "The interval is that of the unbiased value, before post-processing."
            if answer.postprocessing
            else "The estimate is unbiased and may be impossible; the interval holds what is "
            "possible.",
            soft_wrap=True,
        )


def _check_flags(
    question: Task,
    *,
    sampling: bool,
    simultaneous: bool,
    postprocess: str | None,
    out: Path | None,
) -> None:
    """Refuse what does not go with the question, before anything is read."""
    if postprocess is not None:
        check_step(postprocess, question.name)
    for flag, present, kinds in (
        ("--sampling", sampling, ("mean", "density")),
        ("--simultaneous", simultaneous, ("histogram", "density")),
        (f"--out {out}", out and out.suffix.lower() in results.DRAWN, ("density",)),
    ):
        if present and question.name not in kinds:
            wanted = " or ".join(kinds)
            raise InvalidParameter(f"{flag} must come with a {wanted}, got a {question.name}")
    if out:
        results.check_path(out)
