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
    complete_protocol,
    complete_task,
    filling,
    labels_of,
    listed,
    number_of,
    only_task,
    options_of,
    question,
)
from headcount.cli.output import console, facts, messages, print_json, print_table, progress
from headcount.core import checks
from headcount.core.budget import Budget, Trust
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Estimate
from headcount.core.guarantee import PLAIN_NEIGHBORS
from headcount.core.postprocessing import STEPS, check_step
from headcount.core.protocol import Protocol
from headcount.core.source import Source
from headcount.core.table import number
from headcount.core.task import Task
from headcount.data.cleaning import cleaning
from headcount.data.estimate import estimate as estimate_table
from headcount.data.grouped import GroupedEstimate
from headcount.data.release import Release
from headcount.ledger.ledger import Ledger
from headcount.planner.plan import Plan
from headcount.plot import results
from headcount.randomness.sources import SecureSource, SeededSource


def estimate(
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
            help="Of values that do not fit: error; clamp (numbers, bins: the nearest that fits); "
            "or other (one more bucket)."
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
            "--not-private", help="Says that you know: what a known seed hides is not private."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Estimate a statistic of a column, privately."""
    _check_place(path, column, query)
    source = _source(seed, not_private)
    if ledger is not None and not_private:
        raise InvalidParameter("--ledger must come without --not-private, which keeps no limit")
    book = None if ledger is None else Ledger.open(ledger)
    confidence = checks.confidence(confidence)
    options = _options(option, calibration)
    budget: Budget | None = None
    protocol: str | Protocol | None = name
    if plan is None:
        wanted = _wanted(
            task or (only_task(name) if name and not bins else None),
            bins, buckets, open_buckets, low, high, whole, clamp, smoothness,
        )  # fmt: skip
        budget = _budget(epsilon, delta, name, options)
    else:
        _left_to_plan(
            {
                "--task": task, "--epsilon": epsilon, "--delta": delta or None,
                "--buckets": buckets, "--open": open_buckets, "--low": low, "--high": high,
                "--whole": whole, "--clamp": clamp, "--smoothness": smoothness, "--trust": trust,
                "--honest": honest, "--calibration": calibration, "--option": option,
                "--bins": bins,
            }
        )  # fmt: skip
        planned = Plan.load(plan)
        planned = planned.choose(name) if name else planned
        wanted = planned.task
    edges = None if bins is None else [number_of("bins", edge) for edge in listed(bins)]
    fill = filling(missing, wanted)
    asked = cleaning(column or "", wanted, missing=fill, outside=outside, bins=edges).task
    _check_flags(
        asked, sampling=sampling, simultaneous=simultaneous, postprocess=postprocess, out=out
    )
    if group is not None and out and out.suffix.lower() in results.DRAWN:
        raise InvalidParameter(f"a figure must be of one group, got --group {group}; try .html")
    if plan is not None:
        with messages.status("calibrating"):
            protocol = planned.protocol()
    releases: list[Release] = []
    with progress("estimating") as step:
        answer = estimate_table(
            path, wanted, column=column, budget=budget, trust=trust,
            protocol=protocol, honest=honest, query=query, missing=fill, outside=outside,
            bins=edges, person=person, rows_per_person=rows_per_person, group=group,
            groups=None if groups is None else labels_of("groups", groups), source=source,
            ledger=book, dataset=dataset, charge=releases.append, progress=step,
            options=options,
        )  # fmt: skip
    if postprocess is not None:
        answer = answer.postprocess(postprocess)
    kind = {"sampling": sampling, "simultaneous": simultaneous}
    remarks = {} if plan is None else {"plan": planned.digest}
    if book is not None:
        remarks["recorded_in"] = book.store.shown
    if seed is not None:
        remarks["not_private"] = f"the randomness repeats with seed {seed}"
    if as_json:
        known = facts(releases[0].protocols[0]) if isinstance(answer, Estimate) else {}
        print_json({**answer.to_dict(confidence, **kind), **known, **remarks})
    else:
        _show(answer, releases[0], confidence, kind, remarks, out)
    if out:  # last: what was spent is shown, even if it cannot be saved
        results.save(answer, out, confidence, **kind)


def _show(
    answer: Estimate | GroupedEstimate,
    release: Release,
    confidence: float,
    kind: dict[str, bool],
    remarks: dict[str, str],
    out: Path | None,
) -> None:
    print_table(answer.table(confidence, **kind))
    _print_cost(release, answer, confidence, kind)
    if out:
        place = "figure" if out.suffix.lower() in results.DRAWN else "saved"
        remarks = {**remarks, place: str(out)}
    for what, remark in remarks.items():
        console.print(f"{what.replace('_', ' ')}: {remark}", soft_wrap=True)


def _check_place(path: Path | None, column: str | None, query: str | None) -> None:
    """Refuse what is no usage: a file and its column, or a query."""
    if (path is None) == (query is None):
        raise typer.BadParameter("a file or --query must be given, and not both")
    if query is None and column is None:
        raise typer.BadParameter("--column must be given with a file")


def _options(option: list[str] | None, calibration: str | None) -> dict[str, Any]:
    options = options_of(option)
    if calibration is not None:
        if "calibration" in options:
            raise InvalidParameter("`calibration` must be given once, got it twice")
        options["calibration"] = calibration
    return options


def _wanted(task: str | None, bins: str | None, *settings: Any) -> Task | None:
    """The task, unless bins make it."""
    if bins is None:
        return question(task, *settings)
    if task not in (None, "histogram") or any(settings):
        raise InvalidParameter("--bins must come without --buckets, --low or another task")
    return None


def _source(seed: int | None, not_private: bool) -> Source:
    if (seed is not None) != not_private:
        raise InvalidParameter(
            "--seed and --not-private must come together: with a known seed anyone can take the "
            "noise away again"
        )
    return SecureSource() if seed is None else SeededSource(seed)


def _budget(
    epsilon: float | None, delta: float, name: str | None, options: dict[str, Any]
) -> Budget:
    if epsilon is None:
        raise InvalidParameter("--epsilon or --plan must be given, got neither")
    if options and name is None:
        raise InvalidParameter(f"`{next(iter(options))}` must come with --protocol, got none")
    return Budget(epsilon, delta)


def _left_to_plan(given: dict[str, Any]) -> None:
    for flag, value in given.items():
        if value is not None and value is not False:
            raise InvalidParameter(f"{flag} must be left to the plan, got {value}")


def _print_cost(
    release: Release, answer: Estimate | GroupedEstimate, confidence: float, kind: dict[str, bool]
) -> None:
    promise, spent = answer.guarantee, "spent"
    if isinstance(answer, Estimate):
        steps = answer.postprocessing
        sent = f"{release.protocols[0].messages_per_user:.4g} message(s) each"
        marked = f", post-processed: {' and '.join(steps)}" if steps else ""
        console.print(f"\n{release.name}, {number(answer.users)} people, {sent}{marked}")
    else:
        console.print(f"\n{release.name}, {len(answer)} groups, {number(answer.users)} people")
        spent = "spent once"
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
        ("--out", out and out.suffix.lower() in results.DRAWN, ("density",)),
    ):
        if present and question.name not in kinds:
            wanted = " or ".join(kinds)
            raise InvalidParameter(f"{flag} must come with a {wanted}, got a {question.name}")
    if out:
        results.check_path(out)
