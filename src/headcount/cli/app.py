"""The commands. Each one reads its options, calls the library and shows what came back."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from headcount import __version__
from headcount.cli import demo as demonstration
from headcount.cli.output import (
    console,
    messages,
    number,
    print_answer,
    print_json,
)
from headcount.core import checks
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.errors import InvalidParameter
from headcount.core.postprocessing import STEPS, check_step
from headcount.core.protocol import Protocol
from headcount.core.task import Count, Density, Histogram, Mean, Sum, Task
from headcount.data.columns import read_column
from headcount.plot import figures
from headcount.protocols.registry import (
    best_protocol,
    protocol,
    protocol_class,
    protocol_names,
)
from headcount.protocols.run import run

app = typer.Typer(
    name="headcount",
    help="Count a crowd without looking at anyone: estimates with differential privacy.",
    epilog="Exit status: 0 done, 2 bad usage or input, 3 not feasible within the budget, "
    "130 interrupted.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

TASKS = ("count", "sum", "mean", "histogram", "density")

Epsilon = Annotated[float, typer.Option(help="Privacy loss that may be spent, above 0.")]
Delta = Annotated[
    float,
    typer.Option(help="Chance of a larger loss, in [0, 1). Without it, shuffling gains nothing."),
]
Honest = Annotated[
    int | None,
    typer.Option(help="How many of the people surely follow the protocol. [default: all]"),
]
Calibration = Annotated[
    str, typer.Option(help="exact: from the law of the view; paper: the published closed form.")
]
Buckets = Annotated[
    str | None,
    typer.Option(help="Of a histogram: their number (values 0 to d−1), or labels: red,green,blue."),
]
Open = Annotated[
    bool,
    typer.Option("--open", help="People may hold other values than these buckets, too."),
]
Low = Annotated[
    float | None, typer.Option(help="Of a sum, mean or density: the least value there can be.")
]
High = Annotated[float | None, typer.Option(help="Of a sum, mean or density: the largest one.")]
Smoothness = Annotated[
    float | None,
    typer.Option(
        help="Of a density: how often it can be differentiated, from 0.1 to 4. [default: 1]"
    ),
]
Whole = Annotated[bool, typer.Option("--whole", help="Values are whole numbers.")]
Clamp = Annotated[
    bool, typer.Option("--clamp", help="Move values that lie outside to the nearest bound.")
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        help="Of the protocol, as NAME=VALUE: error_ratio=1.02, rate=0.1, levels=8, …; a wrong "
        "name is answered with the right ones.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
FigureOut = Annotated[
    Path | None, typer.Option("--out", help="Also save a figure: .png, .svg or .pdf.")
]


@app.callback(invoke_without_command=True)
def headcount(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and stop.")] = False,
) -> None:
    if version:
        print(f"headcount {__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


@app.command(
    epilog="Example: headcount estimate people.csv --column smoker --task count --epsilon 1"
)
def estimate(
    path: Annotated[Path, typer.Argument(help="A .csv or .parquet file, one row a person.")],
    column: Annotated[str, typer.Option(help="The column that holds people's values.")],
    epsilon: Epsilon,
    delta: Delta = 0.0,
    task: Annotated[
        str | None,
        typer.Option(
            help="The question: count (how many ones?), sum, mean, histogram or density. "
            "[default: count; histogram with --buckets, density with --smoothness, mean with "
            "--low or --high]"
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
        ),
    ] = None,
    honest: Honest = None,
    calibration: Annotated[
        str | None, typer.Option(help="exact or paper; goes with --protocol.")
    ] = None,
    option: Options = None,
    confidence: Annotated[float, typer.Option(help="Of the interval, in (0, 1).")] = 0.95,
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
        Path | None, typer.Option(help="Save a figure of a density: .png, .svg or .pdf.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Estimate a statistic of a column, privately."""
    asked = task or (_only_task(name) if name else None)
    question = _question(asked, buckets, open_buckets, low, high, whole, clamp, smoothness)
    _check_flags(
        question, sampling=sampling, simultaneous=simultaneous, postprocess=postprocess, out=out
    )
    budget = Budget(epsilon, delta)
    if not 0 < confidence < 1:
        raise InvalidParameter(f"`confidence` must lie strictly in (0, 1), got {confidence}")
    options = _options(option)
    if calibration is not None:
        options["calibration"] = calibration
    if options and name is None:
        raise InvalidParameter(f"`{next(iter(options))}` must come with --protocol, got none")
    if name and trust not in (None, needed := protocol_class(name).trust):
        raise InvalidParameter(f"`trust` must be {needed} with {name}, got {trust}")

    with Progress(
        TextColumn("reading"),
        BarColumn(),
        TimeRemainingColumn(),
        console=messages,
        transient=True,
        disable=not messages.is_terminal,
    ) as bar:
        reading = bar.add_task("reading", total=1.0)
        values = read_column(
            path, column, question, lambda share: bar.update(reading, completed=share)
        )
    crowd = Crowd(len(values), honest)
    with messages.status("calibrating"):
        if name is None:
            chosen = best_protocol(question, budget, crowd, trust or Trust.CENTRAL)
        else:
            chosen = protocol(name, question, budget, crowd, **options)
    answer = run(chosen, values)
    if postprocess is not None:
        answer = answer.postprocess(postprocess)
    kind = {"sampling": sampling, "simultaneous": simultaneous}
    if out:
        figures.save(figures.density_figure(answer, confidence, **kind), out)
    if as_json:
        print_json({**answer.to_dict(confidence, **kind), **_facts(chosen)})
        return
    print_answer(answer, confidence, **kind)
    steps = answer.postprocessing
    marked = f", post-processed: {' and '.join(steps)}" if steps else ""
    sent = f"{chosen.messages_per_user:.4g} message(s) each"
    console.print(f"\n{chosen.name}, {number(answer.users)} people, {sent}{marked}")
    console.print(f"spent: {answer.guarantee}; {answer.guarantee.method}", soft_wrap=True)
    if out:
        console.print(f"figure: {out}", soft_wrap=True)
    if answer.value not in answer.interval(confidence, **kind):
        console.print(
            "The interval is that of the unbiased value, before post-processing."
            if steps
            else "The estimate is unbiased and may be impossible; the interval holds what is "
            "possible.",
            soft_wrap=True,
        )


def _only_task(name: str) -> str | None:
    """What a protocol answers, if it is one question."""
    kinds = protocol_class(name).tasks
    return kinds[0].name if len(kinds) == 1 else None


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


@app.command(
    epilog="Example: headcount curve shuffle.zero-exact --users 100000 --epsilon 1 --delta 1e-6"
)
def curve(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(protocol_names())}.")],
    users: Annotated[int, typer.Option(help="How many people take part, at least.")],
    epsilon: Epsilon,
    delta: Delta = 0.0,
    honest: Honest = None,
    calibration: Calibration = "exact",
    buckets: Buckets = None,
    open_buckets: Open = False,
    low: Low = None,
    high: High = None,
    whole: Whole = False,
    smoothness: Smoothness = None,
    option: Options = None,
    releases: Annotated[int, typer.Option(help="How often the same people are asked.")] = 1,
    out: FigureOut = None,
    as_json: AsJson = False,
) -> None:
    """Show every (epsilon, delta) that a protocol satisfies, alone or asked repeatedly."""
    checks.whole("releases", releases, low=1, high=1000)
    if out:
        figures.check_path(out)
    asked = _only_task(name)
    if buckets is None and low is None and high is None and smoothness is None:
        asked = protocol_class(name).tasks[0].name
    question = _question(asked, buckets, open_buckets, low, high, whole, smoothness=smoothness)
    deltas = [10.0**-power for power in range(1, 13)]
    with messages.status("computing"):
        chosen = protocol(
            name,
            question,
            Budget(epsilon, delta),
            Crowd(users, honest),
            calibration=calibration,
            **_options(option),
        )
        epsilon_at = chosen.curve.epsilon if releases == 1 else _composed(chosen, releases)
        points = [(epsilon_at(value), value) for value in deltas]
    if out:
        label = name if releases == 1 else f"{name}, {releases} releases"
        finite = [point for point in points if point[0] < float("inf")]
        title = f"Privacy curve, {chosen.crowd.honest:,} honest people"
        figures.save(figures.curve_figure(title, {label: finite}), out)
    if as_json:
        curve_points = [{"epsilon": point[0], "delta": point[1]} for point in points]
        print_json(
            {"protocol": name, "releases": releases, "curve": curve_points, **_facts(chosen)}
        )
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("delta", justify="right")
    table.add_column("epsilon", justify="right")
    for point in points:
        table.add_row(f"{point[1]:.0e}", f"{point[0]:.6g}" if point[0] < float("inf") else "none")
    console.print(table)
    if any(point[0] == float("inf") for point in points):
        console.print("\nnone: no epsilon is known for so small a delta", soft_wrap=True)
    if out:
        console.print(f"\nfigure: {out}", soft_wrap=True)


@app.command(epilog="Example: headcount demo --out demo.svg")
def demo(
    out: Annotated[Path, typer.Option(help="Where the figure goes: .png, .svg or .pdf.")] = Path(
        "headcount-demo.png"
    ),
    as_json: AsJson = False,
) -> None:
    """Ask one sensitive question of a made-up town, under all three trusts."""
    figures.check_path(out)
    demonstration.show(out, as_json=as_json)


def _question(
    task: str | None,
    buckets: str | None,
    open_buckets: bool,
    low: float | None,
    high: float | None,
    whole: bool,
    clamp: bool = False,
    smoothness: float | None = None,
) -> Task:
    """The task that is meant: buckets make a histogram, bounds a mean, smoothness a density."""
    bounded = low is not None or high is not None
    likely = "density" if smoothness is not None else "mean" if bounded else "count"
    likely = "histogram" if buckets is not None else likely
    meant = checks.choice("task", task or likely, TASKS)
    given = {
        "--buckets": (buckets is not None, ["histogram"]),
        "--open": (open_buckets, ["histogram"]),
        "--low": (low is not None, ["sum", "mean", "density"]),
        "--high": (high is not None, ["sum", "mean", "density"]),
        "--whole": (whole, ["sum", "mean"]),
        "--clamp": (clamp, ["sum", "mean", "density"]),
        "--smoothness": (smoothness is not None, ["density"]),
    }
    for flag, (present, wanted) in given.items():
        if present and meant not in wanted:
            kinds = " or ".join(wanted)
            raise InvalidParameter(f"{flag} must come with a {kinds}, got a {meant}")
    if meant == "count":
        return Count()
    if meant != "histogram":
        if low is None or high is None:
            missing = " and ".join(
                flag for flag, bound in (("--low", low), ("--high", high)) if bound is None
            )
            raise InvalidParameter(f"a {meant} must have {missing}, got none")
        if meant == "density":
            return Density(low, high, 1.0 if smoothness is None else smoothness, clamp=clamp)
        return (Sum if meant == "sum" else Mean)(low, high, whole=whole, clamp=clamp)
    if buckets is None:
        raise InvalidParameter("a histogram must have --buckets, got none")
    labels = [label.strip() for label in buckets.split(",")]
    if len(labels) == 1 and labels[0].isdecimal() and not open_buckets:
        return Histogram(int(labels[0]))
    whole = all(label.isdecimal() for label in labels)
    return Histogram([int(label) for label in labels] if whole else labels, open=open_buckets)


def _options(given: list[str] | None) -> dict[str, Any]:
    """NAME=VALUE each; a value that reads as a number is one."""
    options: dict[str, Any] = {}
    for pair in given or []:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InvalidParameter(f"an option must be NAME=VALUE, got {pair!r}")
        if name in options:
            raise InvalidParameter(f"an option must be given once, got {name!r} twice")
        try:
            options[name] = float(value)
        except ValueError:
            options[name] = value
    return options


def _composed(chosen: Protocol, releases: int) -> Callable[[float], float]:
    from headcount.accounting.composition import compose  # takes a second or more

    return compose([(chosen.curve, releases)]).epsilon


def _facts(chosen: Protocol) -> dict[str, Any]:
    return {
        "parameters": chosen.parameters,
        "messages_per_user": chosen.messages_per_user,
        "bits_per_message": chosen.bits_per_message,
        "local_epsilon": chosen.local_epsilon,
    }
