"""`headcount curve`: every (epsilon, delta) that a protocol satisfies."""

import math
import typing
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from headcount.cli.arguments import (
    AsJson,
    Buckets,
    Calibration,
    Delta,
    Epsilon,
    FigureOut,
    High,
    Honest,
    Low,
    Open,
    Options,
    Smoothness,
    Whole,
    asked_of,
    complete_protocol,
    options_of,
)
from headcount.cli.output import console, deliver, facts, messages, print_table
from headcount.core import checks
from headcount.core.budget import Budget, Crowd
from headcount.core.protocol import Protocol
from headcount.core.table import Table, short
from headcount.plot import figures
from headcount.protocols.registry import own_names, protocol

_POINTS = 200  # of the line that is drawn


def curve(
    name: Annotated[
        str,
        typer.Argument(
            help=f"One of {', '.join(own_names())}, or of an installed package.",
            autocompletion=complete_protocol,
        ),
    ],
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
    wanted = asked_of(name, buckets, open_buckets, low, high, whole, smoothness)
    deltas = [10.0**-power for power in range(1, 13)]
    with messages.status("computing"):
        chosen = protocol(
            name,
            wanted,
            Budget(epsilon, delta),
            Crowd(users, honest),
            **{"calibration": calibration, **options_of(option)},
        )
        asked = chosen.curve if releases == 1 else _composed(chosen, releases)
        points = [(asked.epsilon(value), value) for value in deltas]
        line = _line(asked, points) if out else []
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
    title = f"Privacy curve, {chosen.crowd.honest:,} honest people"
    return figures.curve_figure(title, {label: line})


def _show(points: list[tuple[float, float]], saved: Path | None) -> None:
    rows = (
        (short(value), short(epsilon) if epsilon < math.inf else "none")
        for epsilon, value in points
    )
    print_table(Table(("delta", "epsilon"), tuple(rows), words=0))
    if any(epsilon == math.inf for epsilon, _ in points):
        console.print("\nnone: no epsilon is known for so small a delta", soft_wrap=True)
    if saved:
        console.print(f"\nfigure: {saved}", soft_wrap=True)


class _Curve(typing.Protocol):
    """What the curves of a protocol and of a composition have in common."""

    def delta(self, epsilon: float) -> float: ...

    def epsilon(self, delta: float) -> float: ...


def _composed(chosen: Protocol, releases: int) -> _Curve:
    from headcount.accounting.composition import compose  # takes a second or more

    return compose([(chosen.curve, releases)])


def _line(curve: _Curve, points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points of a smooth line through the curve, for a figure."""
    finite = [epsilon for epsilon, _ in points if epsilon < math.inf]
    if not finite:
        return []
    between = np.linspace(finite[0], finite[-1], _POINTS).tolist()
    return [(epsilon, curve.delta(epsilon)) for epsilon in sorted({*finite, *between})]
