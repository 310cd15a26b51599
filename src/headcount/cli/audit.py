"""`headcount audit`: privacy measured, listed, or put into words."""

import importlib
import importlib.util
import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from headcount.auditor.audit import Audit
from headcount.auditor.audit import audit as measured
from headcount.auditor.exact import ExactAudit, exact_audit
from headcount.auditor.report import PrivacyReport, Thresholds, privacy_report
from headcount.auditor.sampling import apart
from headcount.cli.arguments import (
    AsJson,
    Buckets,
    Calibration,
    Delta,
    High,
    Honest,
    Low,
    Open,
    Options,
    Smoothness,
    Whole,
    asked_of,
    check_matters,
    complete_protocol,
    given_options,
    options_of,
)
from headcount.cli.output import console, deliver, messages, print_table, progress
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.checks import shown
from headcount.core.errors import InvalidParameter, UnreadableData
from headcount.core.protocol import Protocol
from headcount.plot.report_page import check_report_path, save_report
from headcount.protocols.registry import likely_name, protocol, protocol_names

_OF_RUNS = ("--dataset", "--neighbor", "--batch", "--runs", "--confidence")
_OF_PROTOCOL = (
    "--report", "--honest", "--calibration", "--buckets", "--open", "--low", "--high", "--whole",
    "--smoothness", "--option",
)  # fmt: skip


def audit(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            help="A protocol by name, or a function of yours: my_file.py:my_function, or "
            "my_module:my_function.",
            autocompletion=complete_protocol,
        ),
    ],
    epsilon: Annotated[
        float | None,
        typer.Option(help="What a protocol is built for, or what a function claims to keep."),
    ] = None,
    delta: Delta = 0.0,
    users: Annotated[int, typer.Option(help="How many people take part.")] = 8,
    honest: Honest = None,
    calibration: Calibration = "exact",
    buckets: Buckets = None,
    open_buckets: Open = False,
    low: Low = None,
    high: High = None,
    whole: Whole = False,
    smoothness: Smoothness = None,
    option: Options = None,
    view: Annotated[
        Trust | None,
        typer.Option(
            help="What is seen: one person's messages (local), all of them without order "
            "(shuffle), or what is released (central). [default: a protocol's trust; central]"
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(help="What a function is run on, as JSON: '[0, 1, 1]'. Needs --neighbor."),
    ] = None,
    neighbor: Annotated[
        str | None, typer.Option(help="The same with one person's value replaced: '[0, 0, 1]'.")
    ] = None,
    batch: Annotated[
        bool, typer.Option("--batch", help="The function takes (dataset, count), many at once.")
    ] = False,
    runs: Annotated[int, typer.Option(help="On each side, at most.")] = 100_000,
    confidence: Annotated[
        float, typer.Option(help="That the measured epsilon is below the true one.")
    ] = 0.99,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="List all outcomes of all neighboring datasets of a small crowd, in fractions. A "
            "function gives the law of a value: {((message, copies), …): Fraction}.",
        ),
    ] = False,
    values: Annotated[
        str | None,
        typer.Option(help="With --exact: what people may hold, as JSON. [default: a protocol's]"),
    ] = None,
    report: Annotated[
        bool,
        typer.Option("--report", help="Run nothing: say what the promise means, in words."),
    ] = False,
    threshold: Annotated[
        list[str] | None,
        typer.Option(
            help="Of the report, as NAME=VALUE: odds=5, exception=1e-6, advantage=0.2, "
            "singled_out=0.05."
        ),
    ] = None,
    secret: Annotated[
        int, typer.Option(help="Of the report: how many values a secret might have.")
    ] = 100,
    out: Annotated[
        Path | None,
        typer.Option(help="Save the report: .html, .txt, .json, or its figure: .png, .svg, .pdf."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the privacy of a protocol or of a function of yours, or say what it means.

    The exit status is 1 if the claim is refuted, or if a report is beyond its thresholds.
    """
    _check_usage(given_options(context), of_protocol=target in protocol_names())
    limits = Thresholds.of(options_of(threshold))
    if out:
        check_report_path(out)
    pair = _pair(dataset, neighbor)
    chosen: Protocol | Callable[..., Any]
    if target in protocol_names():
        asked = asked_of(target, buckets, open_buckets, low, high, whole, smoothness)
        budget, crowd = _claimed(epsilon, delta), Crowd(users, honest)
        with messages.status("calibrating"):
            options = {"calibration": calibration, **options_of(option)}
            chosen = protocol(target, asked, budget, crowd, **options)
        claim, at = None, None
    else:
        if report:
            raise InvalidParameter(
                f"--report must come with a protocol, whose promise it explains, got {target!r}"
            )
        with _quiet():
            chosen = function_of(target)
        claim, at = epsilon, delta
        if pair is None and not exact:
            raise InvalidParameter(
                "--dataset and --neighbor must be given for a function: two that differ in one "
                "person, as JSON"
            )
    found: Audit | ExactAudit | PrivacyReport
    if report and isinstance(chosen, Protocol):
        found = privacy_report(chosen, secret=secret, thresholds=limits)
    elif exact:
        held = None if values is None else _json("values", values)
        crowd_of = None if isinstance(chosen, Protocol) else users

        def listed() -> ExactAudit:
            return exact_audit(chosen, held, users=crowd_of, view=view, delta=at, claim=claim)

        with messages.status("listing"), _quiet():
            found = listed() if isinstance(chosen, Protocol) else apart(listed)
    else:
        with progress("auditing") as step, _quiet():
            found = measured(
                chosen,
                None if pair is None else [pair],
                claim=claim,
                delta=at,
                view=view,
                runs=runs,
                confidence=confidence,
                batch=batch,
                parallel=True,
                progress=step,
            )
    deliver(
        found.to_dict,
        lambda saved: _show(found, saved),
        as_json=as_json,
        out=out,
        save=lambda place: _save(found, place),
    )
    raise typer.Exit(_status(found))


def _status(found: Audit | ExactAudit | PrivacyReport) -> int:
    """The exit status: 1 if a claim is refuted, or a report is beyond its thresholds."""
    return int(not found.within if isinstance(found, PrivacyReport) else found.refuted)


def _save(found: Audit | ExactAudit | PrivacyReport, place: Path) -> None:
    assert isinstance(found, PrivacyReport)
    save_report(found, place)


def _show(found: Audit | ExactAudit | PrivacyReport, saved: Path | None) -> None:
    print_table(found.table())
    if saved:
        console.print(f"\nreport: {saved}", soft_wrap=True)


def _quiet() -> AbstractContextManager[Any]:
    """Whatever a function prints goes with the progress: the answer stands alone."""
    return redirect_stdout(sys.stderr)


def _claimed(epsilon: float | None, delta: float) -> Budget:
    if epsilon is None:
        raise InvalidParameter("--epsilon must be given, got none")
    return Budget(epsilon, delta)


def function_of(target: str) -> Callable[..., Any]:
    """The function that FILE.py:NAME or MODULE:NAME stands for."""
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise InvalidParameter(
            f"what is audited must be a protocol ({', '.join(protocol_names())}) or a function as "
            f"FILE.py:NAME or MODULE:NAME, got {target!r}",
            hint=likely_name(target),
        )
    function = getattr(_module(place), name, None)
    if not callable(function):
        raise UnreadableData(f"{place} must have a function {name!r}, got none")
    found: Callable[..., Any] = function
    return found


def _module(place: str) -> ModuleType:
    path = Path(place)
    try:
        if path.suffix != ".py":
            sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
            return importlib.import_module(place)
        if not path.is_file():
            raise UnreadableData(f"there must be a file at {place!r}, got none")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise UnreadableData(f"{place!r} must be a Python file, got something else")
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        return module
    except UnreadableData:
        raise
    except (Exception, SystemExit) as error:  # of code that is not ours: whatever it is
        raise UnreadableData(
            f"{place} must load as Python, got {type(error).__name__}: {error}"
        ) from None


def _pair(dataset: str | None, neighbor: str | None) -> tuple[Any, Any] | None:
    if dataset is None and neighbor is None:
        return None
    if dataset is None or neighbor is None:
        raise InvalidParameter("--dataset and --neighbor must come together, got one of them")
    one, other = _json("dataset", dataset), _json("neighbor", neighbor)
    if one == other:
        raise InvalidParameter(f"--neighbor must differ from --dataset, got {neighbor} twice")
    return one, other


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidParameter(
            f"--{name} must be JSON, such as '[0, 1, 1]', got {shown(text)}"
        ) from None


def _check_usage(given: dict[str, Any], *, of_protocol: bool) -> None:
    """Refuse options that would change nothing."""
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
