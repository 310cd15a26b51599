"""`headcount curve`: every (epsilon, delta) that a protocol satisfies."""

import math
import typing
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from headcount.cli.arguments import AsJson, Delta, Epsilon, OptionalFigure, Users
from headcount.cli.output import console, deliver, facts, messages, print_table
from headcount.cli.protocol_options import ProtocolOptions, complete_protocol
from headcount.cli.task_options import TaskOptions
from headcount.core import checks
from headcount.core.budget import Budget
from headcount.core.protocol import Protocol
from headcount.core.table import Table, counted_people, short
from headcount.plot import figures
from headcount.protocols.registry import own_names

_POINTS = 200  # the number of points on the line that is drawn
_DELTAS = [10.0**-power for power in range(1, 13)]


def curve(
    *,
    name: Annotated[
        str,
        typer.Argument(
            help=f"Name of the protocol: {', '.join(own_names())}, or a protocol from another "
            "package.",
            autocompletion=complete_protocol,
        ),
    ],
    users: Users,
    epsilon: Epsilon,
    delta: Delta = 0.0,
    question: TaskOptions,
    calibrated: ProtocolOptions,
    releases: Annotated[int, typer.Option(help="Number of releases about the same people.")] = 1,
    out: OptionalFigure = None,
    as_json: AsJson = False,
) -> None:
    """Show the epsilon that a protocol satisfies for each delta.

    The result is the privacy curve of the protocol. With --releases, it is the curve of several
    releases together.
    """
    checks.whole("releases", releases, low=1, high=1000)
    if out:
        figures.check_path(out)
    task = question.task_of(name)
    with messages.status("computing"):
        chosen = calibrated.protocol(name, task, Budget(epsilon, delta), users)
        found = chosen.curve if releases == 1 else _composed(chosen, releases)
        points = [(found.epsilon(value), value) for value in _DELTAS]
        line = _line(found, points) if out else []
    deliver(
        lambda: {
            "protocol": name,
            "releases": releases,
            "curve": [{"epsilon": at, "delta": value} for at, value in points],
            **facts(chosen),
        },
        lambda saved: _show(points, saved),
        as_json=as_json,
        out=out,
        save=lambda place: figures.save(_figure(chosen, releases, line), place),
    )


def _figure(chosen: Protocol, releases: int, line: list[tuple[float, float]]) -> figures.Figure:
    label = chosen.name if releases == 1 else f"{chosen.name}, {releases} releases"
    title = f"Privacy curve, {counted_people(chosen.crowd.honest, 'honest')}"
    return figures.curve_figure(title, {label: line})


def _show(points: list[tuple[float, float]], saved: Path | None) -> None:
    rows = (
        (short(value), short(epsilon) if epsilon < math.inf else "none")
        for epsilon, value in points
    )
    print_table(Table(("delta", "epsilon"), tuple(rows), words=0))
    if any(epsilon == math.inf for epsilon, _ in points):
        console.print("\nnone: no finite epsilon is known for this delta", soft_wrap=True)
    if saved:
        console.print(f"\nfigure: {saved}", soft_wrap=True)


class _Curve(typing.Protocol):
    """The methods that the curves of a protocol and of a composition have in common."""

    def delta(self, epsilon: float) -> float: ...

    def epsilon(self, delta: float) -> float: ...


def _composed(chosen: Protocol, releases: int) -> _Curve:
    from headcount.accounting.composition import compose  # this import takes a second or more

    return compose([(chosen.curve, releases)])


def _line(curve: _Curve, points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points of a smooth line through the curve, for a figure."""
    finite = [epsilon for epsilon, _ in points if epsilon < math.inf]
    if not finite:
        return []
    between = np.linspace(finite[0], finite[-1], _POINTS).tolist()
    return [(epsilon, curve.delta(epsilon)) for epsilon in sorted({*finite, *between})]
