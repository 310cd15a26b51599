"""The options of `headcount audit` for runs, for lists of outcomes and for reports."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from headcount.auditor.report import Thresholds
from headcount.cli.texts import options_of
from headcount.cli.usage import check_matters
from headcount.core.checks import shown
from headcount.core.errors import InvalidParameter
from headcount.plot.report_page import check_report_path

_OF_RUNS = ("--dataset", "--neighbor", "--batch", "--runs", "--confidence")
_OF_PROTOCOL = (
    "--report", "--honest", "--calibration", "--buckets", "--open", "--labels", "--at-most",
    "--low", "--high", "--whole", "--smoothness", "--option",
)  # fmt: skip


@dataclass(frozen=True)
class RunOptions:
    """The options for measuring privacy by running the protocol or function."""

    dataset: Annotated[
        str | None,
        typer.Option(
            help="Dataset that a function is run on, as JSON, such as '[0, 1, 1]'. Requires "
            "--neighbor."
        ),
    ] = None
    neighbor: Annotated[
        str | None,
        typer.Option(
            help="The same dataset, with one person's value replaced, such as '[0, 0, 1]'."
        ),
    ] = None
    batch: Annotated[
        bool,
        typer.Option(
            "--batch",
            help="The function takes (dataset, count) and returns the results of `count` runs.",
        ),
    ] = False
    runs: Annotated[int, typer.Option(help="Maximum number of runs on each dataset.")] = 100_000
    confidence: Annotated[
        float,
        typer.Option(help="Confidence that the true epsilon is at least the measured one."),
    ] = 0.99

    def pairs(self) -> list[tuple[Any, Any]] | None:
        """The pair of neighboring datasets that was given, or None if none was given."""
        if self.dataset is None and self.neighbor is None:
            return None
        if self.dataset is None or self.neighbor is None:
            raise InvalidParameter("--dataset and --neighbor must come together, got one of them")
        one, other = _json("dataset", self.dataset), _json("neighbor", self.neighbor)
        if one == other:
            raise InvalidParameter(
                f"--neighbor must differ from --dataset, got {self.neighbor} twice"
            )
        return [(one, other)]


@dataclass(frozen=True)
class ListOptions:
    """The options for an exact audit, which lists all outcomes."""

    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Compute the exact epsilon of a small crowd. All outcomes of all neighboring "
            "datasets are listed, with fractions as probabilities. A function must return the "
            "distribution of one person's messages: {((message, copies), …): Fraction}.",
        ),
    ] = False
    values: Annotated[
        str | None,
        typer.Option(
            help="Values that people may hold, as JSON, for --exact. [default: the values of the "
            "protocol]"
        ),
    ] = None

    def held(self) -> Any:
        return None if self.values is None else _json("values", self.values)


@dataclass(frozen=True)
class ReportOptions:
    """The options for a report, which explains a guarantee in words."""

    report: Annotated[
        bool,
        typer.Option("--report", help="Explain in words what the guarantee means. Nothing is run."),
    ] = False
    threshold: Annotated[
        list[str] | None,
        typer.Option(
            help="Threshold of the report, as NAME=VALUE, such as odds=5. May be repeated. The "
            "names are: odds, the factor by which the odds of any statement about a person may "
            "rise; exception, the probability that the odds rise further; advantage, the "
            "probability that a test detects a value, minus the probability of a false alarm; and "
            "singled_out, the probability that a secret is guessed correctly."
        ),
    ] = None
    secret: Annotated[
        int, typer.Option(help="Number of values that a secret may have, for the report.")
    ] = 100
    out: Annotated[
        Path | None,
        typer.Option(help="Save the report (.html, .txt, .json) or its figure (.png, .svg, .pdf)."),
    ] = None

    def thresholds(self) -> Thresholds:
        return Thresholds.of(options_of(self.threshold))

    def check_out(self) -> None:
        if self.out:
            check_report_path(self.out)


def check_usage(given: dict[str, Any], *, of_protocol: bool) -> None:
    """Refuse options that would have no effect."""
    exact, report = "--exact" in given, "--report" in given
    if exact and report:
        raise InvalidParameter("--exact and --report must not come together, got both")
    check_matters(
        given,
        [
            (exact, ["--values"], "come with --exact"),
            (report, ["--threshold", "--secret", "--out"], "come with --report"),
            (not exact, _OF_RUNS, "come without --exact"),
            (not report, [*_OF_RUNS, "--view"], "come without --report"),
            (of_protocol, _OF_PROTOCOL, "come with a protocol"),
            (of_protocol or exact, ["--users"], "come with a protocol or --exact"),
            (not of_protocol, ["--batch"], "come with a function"),
        ],
    )


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidParameter(
            f"--{name} must be JSON, such as '[0, 1, 1]', got {shown(text)}"
        ) from None
