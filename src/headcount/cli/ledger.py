"""`headcount ledger`: the budget that was spent on each dataset, and the budget that is left."""

from pathlib import Path
from typing import Annotated

import typer

from headcount.cli.arguments import AsJson, Epsilon
from headcount.cli.exports import check_ending, document, write
from headcount.cli.grouping import ungrouped
from headcount.cli.output import console, deliver, messages, print_table
from headcount.core.budget import Budget
from headcount.core.table import short
from headcount.core.writing import check_apart, check_writable
from headcount.ledger.entry import words
from headcount.ledger.ledger import Ledger
from headcount.ledger.rule import Rule, Terms
from headcount.ledger.spending import Spending

Place = Annotated[
    str,
    typer.Argument(help="The ledger: a file, or postgresql://user@host/database.", metavar="PLACE"),
]
OneDataset = Annotated[
    str | None, typer.Option("--dataset", help="Name of the dataset. [default: all]")
]

ledger = typer.Typer(
    name="ledger",
    help="Record the privacy budget that is spent on each dataset.",
    rich_markup_mode=None,
)


@ledger.command(
    epilog="Example: headcount ledger create spent.db --dataset people --epsilon 3 --delta 1e-6"
)
@ungrouped
def create(
    place: Place,
    dataset: Annotated[str, typer.Option(help="Name of the new dataset.")],
    epsilon: Epsilon,
    delta: Annotated[
        float,
        typer.Option(
            help="Delta of the limit, in [0, 1). Replacing one person's value by another "
            "multiplies the probability of any event by at most e^epsilon, and then adds at most "
            "delta. This holds for all releases together."
        ),
    ] = 0.0,
    rule: Annotated[
        Rule,
        typer.Option(
            help="How releases are added up. The rule composed is valid if all privacy curves are "
            "fixed before the first answer. The rule adaptive is valid even if releases depend on "
            "earlier answers."
        ),
    ] = Rule.COMPOSED,
) -> None:
    """Add a dataset and its limit.

    The limit holds for all releases together. The limit and the rule cannot be changed later. The
    ledger is created if it does not exist.
    """
    terms = Terms.of(Budget(epsilon, delta), rule)
    words("dataset", dataset, least=1)  # checked before a file is made
    Ledger.create(place).create_dataset(dataset, terms.limit, rule=rule)
    console.print(
        f"{dataset}: at most ε = {short(terms.limit.epsilon)}, δ = {short(terms.limit.delta)}, "
        f"for all releases together\n{terms.condition}",
        soft_wrap=True,
    )


@ledger.command(epilog="Example: headcount ledger show spent.db")
@ungrouped
def show(place: Place, dataset: OneDataset = None, as_json: AsJson = False) -> None:
    """Show all entries, their total and the remaining budget."""
    found = _spendings(place, dataset)
    deliver(lambda: document(found), lambda saved: _show(found), as_json=as_json)


def _show(found: list[Spending]) -> None:
    for at, one in enumerate(found):
        if at:
            console.print()
        print_table(one.table())
    if not found:
        console.print("no datasets yet", soft_wrap=True)


@ledger.command(epilog="Example: headcount ledger export spent.db --out spending.csv")
@ungrouped
def export(
    place: Place,
    out: Annotated[
        Path,
        typer.Option(
            help="File to write: .json for entries and totals, .csv or .parquet for one row per "
            "entry."
        ),
    ],
    dataset: OneDataset = None,
) -> None:
    """Save all entries to a file."""
    check_ending(out)
    check_apart(out, {"the ledger": [Path(place)]})
    check_writable(out)
    found = _spendings(place, dataset)
    deliver(
        lambda: document(found),
        lambda saved: console.print(f"exported: {saved}", soft_wrap=True) if saved else None,
        as_json=False,
        out=out,
        save=lambda path: write(found, path),
    )


def _spendings(place: str, dataset: str | None) -> list[Spending]:
    opened = Ledger.open(place)
    names = opened.datasets if dataset is None else [dataset]
    with messages.status("composing"):
        return [opened.spending(name) for name in names]
