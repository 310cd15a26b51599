"""Exports the entries of a ledger to a document or a file."""

import csv
import io
import json
from pathlib import Path
from typing import Any

from headcount.core.errors import InvalidParameter, MissingPackage
from headcount.core.writing import json_text, write_file
from headcount.ledger.spending import Spending

_KINDS = (".json", ".csv", ".parquet")
_COLUMNS = {
    "dataset": "string", "number": "int64", "id": "string", "time": "string",
    "protocol": "string", "trust": "string", "task": "string", "epsilon": "float64",
    "delta": "float64", "times": "int64", "users": "int64", "curve": "string", "note": "string",
}  # fmt: skip


def check_ending(out: Path) -> None:
    if out.suffix not in _KINDS:
        raise InvalidParameter(
            f"the file name of an export must end in {', '.join(_KINDS)}, got {out.name!r}"
        )


def write(found: list[Spending], out: Path) -> None:
    """Save all entries, in the format that the file extension names."""
    if out.suffix == ".json":
        write_file(out, json_text(document(found)) + "\n")
    elif out.suffix == ".csv":
        write_file(out, _csv(_rows(found)))
    else:
        write_file(out, _parquet(_rows(found)))


def document(found: list[Spending]) -> dict[str, Any]:
    return {"datasets": [one.to_dict() for one in found]}


def _rows(found: list[Spending]) -> list[dict[str, Any]]:
    """One row for each entry, with its note as JSON."""
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
