"""`headcount ledger`: what was spent on which data set, and what is left."""

import csv
import io
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from headcount.cli.arguments import AsJson, Epsilon
from headcount.cli.output import console, deliver, messages, print_table
from headcount.core.budget import Budget
from headcount.core.errors import InvalidParameter, MissingPackage
from headcount.core.table import short
from headcount.core.writing import check_apart, check_writable, json_text, write_file
from headcount.ledger.entry import words
from headcount.ledger.ledger import Ledger
from headcount.ledger.rule import Rule, Terms
from headcount.ledger.spending import Spending

Place = Annotated[
    str,
    typer.Argument(help="The ledger: a file, or postgresql://user@host/database.", metavar="PLACE"),
]
OneDataset = Annotated[
    str | None, typer.Option("--dataset", help="Name of the data set. [default: all]")
]
_KINDS = (".json", ".csv", ".parquet")

ledger = typer.Typer(
    name="ledger",
    help="Record the privacy budget that is spent on each data set.",
    rich_markup_mode=None,
)


@ledger.command(
    epilog="Example: headcount ledger create spent.db --dataset people --epsilon 3 --delta 1e-6"
)
def create(
    place: Place,
    dataset: Annotated[str, typer.Option(help="Name of the new data set.")],
    epsilon: Epsilon,
    delta: Annotated[
        float,
        typer.Option(
            help="Delta of the limit, in [0, 1). Any event of all releases together is at most "
            "e^epsilon times as likely with one person's value as with any other value in its "
            "place, plus delta."
        ),
    ] = 0.0,
    rule: Annotated[
        Rule,
        typer.Option(
            help="How releases are added up: composed is valid if all privacy curves are fixed "
            "before the first answer, adaptive is valid even if answers decide the next release."
        ),
    ] = Rule.COMPOSED,
) -> None:
    """Add a data set and its limit.

    The limit holds for all releases together. Limit and rule cannot be changed later. The ledger is
    created if it does not exist.
    """
    terms = Terms.of(Budget(epsilon, delta), rule)
    words("dataset", dataset, least=1)  # before a file is made
    Ledger.create(place).create_dataset(dataset, terms.limit, rule=rule)
    console.print(
        f"{dataset}: at most ε = {short(terms.limit.epsilon)}, δ = {short(terms.limit.delta)}, "
        f"for all releases together\n{terms.condition}",
        soft_wrap=True,
    )


@ledger.command(epilog="Example: headcount ledger show spent.db")
def show(place: Place, dataset: OneDataset = None, as_json: AsJson = False) -> None:
    """Show all entries, their total and the remaining budget."""
    found = _spendings(place, dataset)
    deliver(lambda: _document(found), lambda saved: _show(found), as_json=as_json)


def _show(found: list[Spending]) -> None:
    for at, one in enumerate(found):
        if at:
            console.print()
        print_table(one.table())
    if not found:
        console.print("no data sets yet", soft_wrap=True)


@ledger.command(epilog="Example: headcount ledger export spent.db --out spending.csv")
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
    if out.suffix not in _KINDS:
        raise InvalidParameter(f"an export must end in {', '.join(_KINDS)}, got {out.name!r}")
    check_apart(out, {"the ledger": [Path(place)]})
    check_writable(out)
    found = _spendings(place, dataset)
    deliver(
        lambda: _document(found),
        lambda saved: console.print(f"exported: {saved}", soft_wrap=True) if saved else None,
        as_json=False,
        out=out,
        save=lambda path: _export(found, path),
    )


def _export(found: list[Spending], out: Path) -> None:
    if out.suffix == ".json":
        write_file(out, json_text(_document(found)) + "\n")
    elif out.suffix == ".csv":
        write_file(out, _csv(_rows(found)))
    else:
        write_file(out, _parquet(_rows(found)))


def _spendings(place: str, dataset: str | None) -> list[Spending]:
    opened = Ledger.open(place)
    names = opened.datasets if dataset is None else [dataset]
    with messages.status("composing"):
        return [opened.spending(name) for name in names]


def _document(found: list[Spending]) -> dict[str, Any]:
    return {"datasets": [one.to_dict() for one in found]}


_COLUMNS = {
    "dataset": "string", "number": "int64", "id": "string", "time": "string",
    "protocol": "string", "trust": "string", "task": "string", "epsilon": "float64",
    "delta": "float64", "times": "int64", "users": "int64", "curve": "string", "note": "string",
}  # fmt: skip


def _rows(found: list[Spending]) -> list[dict[str, Any]]:
    """An entry each, with its note as JSON."""
    return [
        {
            column: json.dumps(value) if column == "note" else value
            for column, value in ((column, entry[column]) for column in _COLUMNS)
        }
        for one in found
        for entry in one.to_dict()["entries"]
    ]


def _csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(_COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingPackage(
            "writing Parquet files needs pyarrow", hint="pip install 'headcount[data]'"
        ) from None
    schema = pyarrow.schema(
        [(column, pyarrow.type_for_alias(kind)) for column, kind in _COLUMNS.items()]
    )
    out = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), out)
    return out.getvalue()
