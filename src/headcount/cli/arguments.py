"""Options that several commands share, each declared once."""

from pathlib import Path
from typing import Annotated

import typer

_epsilon = typer.Option(
    help="Privacy budget: the largest epsilon that may be spent. It must be above 0."
)
_users = typer.Option(help="Minimum number of people who take part.")
_figure = typer.Option(help="Save a figure: .png, .svg, .pdf or .html.")

Epsilon = Annotated[float, _epsilon]
OptionalEpsilon = Annotated[float | None, _epsilon]
Delta = Annotated[
    float,
    typer.Option(
        help="Delta of the guarantee, in [0, 1). Replacing one person's value by another "
        "multiplies the probability of any event by at most e^epsilon, and then adds at most "
        "delta. With delta 0, no protocol gains anything from shuffling, unless the shuffler "
        "adds noise."
    ),
]
Users = Annotated[int, _users]
OptionalUsers = Annotated[int | None, _users]
Honest = Annotated[
    int | None,
    typer.Option(
        help="Number of people who are certain to follow the protocol. With shuffle trust, the "
        "guarantee relies on these people alone. [default: all]",
    ),
]
OptionalLedger = Annotated[
    str | None,
    typer.Option(
        help="Ledger that records the spent budget before the answer is released: a file, or "
        "postgresql://… for a database. A release that would exceed the dataset's limit is "
        "refused."
    ),
]
Confidence = Annotated[float, typer.Option(help="Confidence level, in (0, 1).")]
Figure = Annotated[Path, _figure]
OptionalFigure = Annotated[Path | None, _figure]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, even for an error.")]
