"""What commands are told: options that several of them share, and what they mean."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from headcount.core import checks
from headcount.core.budget import Trust
from headcount.core.errors import InvalidParameter
from headcount.core.task import Task
from headcount.core.tasks.bounded import Mean, Sum
from headcount.core.tasks.count import Count
from headcount.core.tasks.density import Density
from headcount.core.tasks.histogram import Histogram
from headcount.core.tasks.registry import TASKS
from headcount.protocols.registry import protocol_class, protocol_names


def complete_protocol(incomplete: str) -> list[str]:
    """For the shell: the names that begin so, the last of several."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in protocol_names() if name.startswith(last)]


def complete_task(incomplete: str) -> list[str]:
    return [name for name in TASKS if name.startswith(incomplete)]


TaskName = Annotated[
    str,
    typer.Argument(
        help=f"The question: {', '.join(TASKS)}.", metavar="TASK", autocompletion=complete_task
    ),
]
Epsilon = Annotated[float, typer.Option(help="Privacy loss that may be spent, above 0.")]
Delta = Annotated[
    float,
    typer.Option(
        help="In [0, 1). Any event is at most e^epsilon times as likely with one person's value as "
        "with any other value in its place, plus delta. If it is 0, shuffling gains nothing."
    ),
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
OneTrust = Annotated[
    Trust | None, typer.Option(help="Only protocols of this trust. [default: all]")
]
Confidence = Annotated[float, typer.Option(help="Of the interval, in (0, 1).")]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        help="An option of the protocol, as NAME=VALUE: error_ratio=1.02, rate=0.1, levels=8, …; "
        "a wrong name is answered with the right ones.",
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="One JSON document on standard output, also for an error.")
]
FigureOut = Annotated[
    Path | None, typer.Option("--out", help="Also save a figure: .png, .svg, .pdf or .html.")
]


def given_options(context: typer.Context) -> dict[str, Any]:
    """The options of the command line and their values, without those that were left out."""
    return {
        parameter.opts[0]: context.params[parameter.name]
        for parameter in context.command.params
        if parameter.name in context.params
        and (source := context.get_parameter_source(parameter.name)) is not None
        and source.name == "COMMANDLINE"
    }


def check_matters(
    given: Mapping[str, Any], rules: Iterable[tuple[bool, Sequence[str], str]]
) -> None:
    """Refuse options that would change nothing.

    A rule says whether some options matter, which they are, and what they must do if they do not.
    """
    for matters, options, how in rules:
        for option in options:
            if option in given and not matters:
                value = given[option]
                words = value if isinstance(value, list) else ["it" if value is True else value]
                raise InvalidParameter(f"{option} must {how}, got {' '.join(map(str, words))}")


def question(
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
    meant = checks.choice("task", task or likely, list(TASKS))
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
    if buckets.strip().isdecimal() and not open_buckets:
        return Histogram(whole_number("buckets", buckets))
    return Histogram(labels_of("buckets", buckets), open=open_buckets)


def labels_of(name: str, text: str) -> list[int | str]:
    """Labels between commas: whole numbers, if all of them are."""
    labels = [label.strip() for label in text.split(",")]
    whole = all(label.isdecimal() for label in labels)
    return [whole_number(name, label) for label in labels] if whole else [*labels]


def whole_number(name: str, text: str) -> int:
    """The whole number that a text says. Python reads no more than 4,300 digits."""
    try:
        return int(text)
    except ValueError:
        raise InvalidParameter(
            f"`{name}` must be whole numbers, got {checks.shown(text)}"
        ) from None


def number_of(name: str, text: str) -> float:
    """A whole number, or a real one."""
    if text.lstrip("+-").isdecimal():
        return whole_number(name, text)
    try:
        return float(text)
    except ValueError:
        raise InvalidParameter(f"`{name}` must be numbers, got {checks.shown(text)}") from None


def filling(text: str, task: Task | None) -> str | float:
    """What --missing says: a word of its own, a label, or a number."""
    words = task is not None and task.value_kind == "words"
    return text if text in ("error", "drop") or words else number_of("missing", text)


def asked_of(
    name: str,
    buckets: str | None,
    open_buckets: bool,
    low: float | None,
    high: float | None,
    whole: bool,
    smoothness: float | None,
) -> Task:
    """The task of a protocol; where it answers several and nothing tells which, the first."""
    asked = only_task(name)
    if buckets is None and low is None and high is None and smoothness is None:
        asked = protocol_class(name).tasks[0].name
    return question(asked, buckets, open_buckets, low, high, whole, smoothness=smoothness)


def options_of(given: list[str] | None) -> dict[str, Any]:
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


def only_task(name: str) -> str | None:
    """What a protocol answers, if it is one question."""
    kinds = protocol_class(name).tasks
    return kinds[0].name if len(kinds) == 1 else None


def share(name: str, text: str) -> float:
    """A share of the whole: 10%, or 0.1."""
    number = text.strip()
    try:
        return float(number[:-1]) / 100 if number.endswith("%") else float(number)
    except ValueError:
        raise InvalidParameter(f"`{name}` must be a share like 10% or 0.1, got {text!r}") from None


def listed(text: str) -> list[str]:
    """What stands between commas."""
    return [part.strip() for part in text.split(",") if part.strip()]
