"""`headcount audit`: privacy measured, computed exactly, or explained in words."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from headcount.auditor.audit import Audit
from headcount.auditor.audit import audit as measured
from headcount.auditor.exact import ExactAudit, exact_audit
from headcount.auditor.report import PrivacyReport, privacy_report
from headcount.auditor.sampling import apart
from headcount.auditor.view import View
from headcount.cli.arguments import AsJson, Delta
from headcount.cli.audit_options import ListOptions, ReportOptions, RunOptions, check_usage
from headcount.cli.audited_functions import function_of
from headcount.cli.output import console, deliver, messages, print_table, progress
from headcount.cli.protocol_options import ProtocolOptions, complete_protocol
from headcount.cli.task_options import TaskOptions
from headcount.cli.usage import given_options
from headcount.core.budget import Budget
from headcount.core.errors import InvalidParameter
from headcount.core.protocol import Protocol
from headcount.plot.report_page import save_report
from headcount.protocols.registry import protocol_names


def audit(
    *,
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            help="Name of a protocol, or your own function: my_file.py:my_function or "
            "my_module:my_function.",
            autocompletion=complete_protocol,
        ),
    ],
    epsilon: Annotated[
        float | None,
        typer.Option(help="Epsilon that a protocol is built for, or that a function claims."),
    ] = None,
    delta: Delta = 0.0,
    users: Annotated[int, typer.Option(help="Number of people who take part.")] = 8,
    question: TaskOptions,
    calibrated: ProtocolOptions,
    view: Annotated[
        View | None,
        typer.Option(
            help="What an attacker sees: one person's messages (local), everyone's messages "
            "without their order (shuffle), the released result (central), or the result and the "
            "noise that a shuffler added (shuffler). [default: the protocol's trust model; for "
            "a function, central, or local with --exact]"
        ),
    ] = None,
    run: RunOptions,
    listing: ListOptions,
    words: ReportOptions,
    as_json: AsJson = False,
) -> None:
    """Check or explain the privacy of a protocol or function.

    The exit status is 1 if the claim is refuted, or if a report exceeds a threshold.
    """
    of_protocol = target in protocol_names()
    check_usage(given_options(context), of_protocol=of_protocol)
    thresholds = words.thresholds()
    words.check_out()
    pairs = run.pairs()
    chosen: Protocol | Callable[..., Any]
    if of_protocol:
        task, budget = question.task_of(target), _claimed(epsilon, delta)
        with messages.status("calibrating"):
            chosen = calibrated.protocol(target, task, budget, users)
    else:
        with _quiet():
            chosen = function_of(target)
        if pairs is None and not listing.exact:
            raise InvalidParameter(
                "--dataset and --neighbor must be given for a function: two datasets that differ "
                "in one person's value, as JSON"
            )
    claim, at = (None, None) if of_protocol else (epsilon, delta)
    found: Audit | ExactAudit | PrivacyReport
    if words.report and isinstance(chosen, Protocol):
        found = privacy_report(chosen, secret=words.secret, thresholds=thresholds)
    elif listing.exact:
        held, crowd = listing.held(), None if of_protocol else users

        def listed() -> ExactAudit:
            return exact_audit(chosen, held, users=crowd, view=view, delta=at, claim=claim)

        with messages.status("listing"), _quiet():
            found = listed() if of_protocol else apart(listed)
    else:
        with progress("auditing") as step, _quiet():
            found = measured(
                chosen, pairs, claim=claim, delta=at, view=view, runs=run.runs,
                confidence=run.confidence, batch=run.batch, parallel=True, progress=step,
            )  # fmt: skip
    deliver(
        found.to_dict,
        lambda saved: _show(found, saved),
        as_json=as_json,
        out=words.out,
        save=lambda place: _save(found, place),
    )
    raise typer.Exit(_status(found))


def _claimed(epsilon: float | None, delta: float) -> Budget:
    if epsilon is None:
        raise InvalidParameter("--epsilon must be given, got none")
    return Budget(epsilon, delta)


def _quiet() -> AbstractContextManager[Any]:
    """Redirects a function's own output to standard error. Standard output is for the answer."""
    return redirect_stdout(sys.stderr)


def _show(found: Audit | ExactAudit | PrivacyReport, saved: Path | None) -> None:
    print_table(found.table())
    if saved:
        console.print(f"\nreport: {saved}", soft_wrap=True)


def _save(found: Audit | ExactAudit | PrivacyReport, place: Path) -> None:
    assert isinstance(found, PrivacyReport)
    save_report(found, place)


def _status(found: Audit | ExactAudit | PrivacyReport) -> int:
    """The exit status: 1 if a claim is refuted, or a report exceeds a threshold."""
    return int(not found.within if isinstance(found, PrivacyReport) else found.refuted)
