"""`headcount estimate`: a private statistic of a column."""

from collections.abc import Callable
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
    only_task,
    options_of,
    question,
)
from headcount.cli.output import console, facts, messages, print_json, print_table, progress
from headcount.core import checks
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Estimate, Interval
from headcount.core.postprocessing import STEPS, check_step
from headcount.core.protocol import Protocol
from headcount.core.source import Source
from headcount.core.table import number
from headcount.core.task import Task
from headcount.data.columns import read_column
from headcount.planner.plan import Plan, best_protocol
from headcount.plot import figures
from headcount.protocols.registry import protocol, protocol_class
from headcount.protocols.run import run
from headcount.randomness.sources import SecureSource, SeededSource


def estimate(
    path: Annotated[Path, typer.Argument(help="A .csv or .parquet file, one row a person.")],
    column: Annotated[str, typer.Option(help="The column that holds people's values.")],
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
        Path | None, typer.Option(help="Save a figure of a density: .png, .svg, .pdf or .html.")
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
    source = _source(seed, not_private)
    confidence = checks.confidence(confidence)
    options = options_of(option)
    if calibration is not None:
        if "calibration" in options:
            raise InvalidParameter("`calibration` must be given once, got it twice")
        options["calibration"] = calibration
    if plan is None:
        asked = task or (only_task(name) if name else None)
        wanted = question(asked, buckets, open_buckets, low, high, whole, clamp, smoothness)
        build = _chosen(wanted, epsilon, delta, honest, trust, name, options)
    else:
        _left_to_plan(
            {
                "--task": task, "--epsilon": epsilon, "--delta": delta or None,
                "--buckets": buckets, "--open": open_buckets, "--low": low, "--high": high,
                "--whole": whole, "--clamp": clamp, "--smoothness": smoothness, "--trust": trust,
                "--honest": honest, "--calibration": calibration, "--option": option,
            }
        )  # fmt: skip
        planned = Plan.load(plan)
        planned = planned.choose(name) if name else planned
        wanted, build = planned.task, lambda users: planned.protocol()
    _check_flags(
        wanted, sampling=sampling, simultaneous=simultaneous, postprocess=postprocess, out=out
    )
    with progress("reading") as step:
        values = read_column(path, column, wanted, lambda share: step("reading", share))
    with messages.status("calibrating"):
        chosen = build(len(values))
    answer = run(chosen, values, source)
    if postprocess is not None:
        answer = answer.postprocess(postprocess)
    kind = {"sampling": sampling, "simultaneous": simultaneous}
    if out:
        figures.save(figures.density_figure(answer, confidence, **kind), out)
    remarks = {} if plan is None else {"plan": planned.digest}
    if seed is not None:
        remarks["not_private"] = f"the randomness repeats with seed {seed}"
    if as_json:
        print_json({**answer.to_dict(confidence, **kind), **facts(chosen), **remarks})
        return
    print_table(answer.table(confidence, **kind))
    _print_cost(chosen, answer, answer.interval(confidence, **kind))
    for what, remark in remarks.items():
        console.print(f"{what.replace('_', ' ')}: {remark}", soft_wrap=True)
    if out:
        console.print(f"figure: {out}", soft_wrap=True)


def _source(seed: int | None, not_private: bool) -> Source:
    if (seed is not None) != not_private:
        raise InvalidParameter(
            "--seed and --not-private must come together: with a known seed anyone can take the "
            "noise away again"
        )
    return SecureSource() if seed is None else SeededSource(seed)


def _chosen(
    wanted: Task,
    epsilon: float | None,
    delta: float,
    honest: int | None,
    trust: Trust | None,
    name: str | None,
    options: dict[str, Any],
) -> Callable[[int], Protocol]:
    """The protocol that is asked for by name or by trust, for a crowd of any size."""
    if epsilon is None:
        raise InvalidParameter("--epsilon or --plan must be given, got neither")
    budget = Budget(epsilon, delta)
    if name is None:
        if options:
            raise InvalidParameter(f"`{next(iter(options))}` must come with --protocol, got none")
        return lambda users: best_protocol(
            wanted, budget, Crowd(users, honest), trust or Trust.CENTRAL
        )
    if trust not in (None, needed := protocol_class(name).trust):
        raise InvalidParameter(f"`trust` must be {needed} with {name}, got {trust}")
    return lambda users: protocol(name, wanted, budget, Crowd(users, honest), **options)


def _left_to_plan(given: dict[str, Any]) -> None:
    for flag, value in given.items():
        if value is not None and value is not False:
            raise InvalidParameter(f"{flag} must be left to the plan, got {value}")


def _print_cost(chosen: Protocol, answer: Estimate, interval: Interval) -> None:
    steps = answer.postprocessing
    marked = f", post-processed: {' and '.join(steps)}" if steps else ""
    sent = f"{chosen.messages_per_user:.4g} message(s) each"
    console.print(f"\n{chosen.name}, {number(answer.users)} people, {sent}{marked}")
    console.print(f"spent: {answer.guarantee}; {answer.guarantee.method}", soft_wrap=True)
    if answer.value not in interval:
        console.print(
            "The interval is that of the unbiased value, before post-processing."
            if steps
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
        ("--out", out, ("density",)),
    ):
        if present and question.name not in kinds:
            wanted = " or ".join(kinds)
            raise InvalidParameter(f"{flag} must come with a {wanted}, got a {question.name}")
    if out:
        figures.check_path(out)
