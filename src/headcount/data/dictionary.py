"""Reads a data dictionary: a file that says which labels a column may hold.

It would not be private to take the labels from people's rows, since a label may belong to only one
person. So the owner of the data states the labels, in one of these forms:

- TOML or JSON: `region = ["north", "south"]`, or `{"region": ["north", "south"]}`
- JSON as in Frictionless Table Schema: `{"fields": [{"name": …, "constraints": {"enum": […]}}]}`
- CSV with the columns `column` and `label`
"""

import csv
import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headcount.core.errors import InvalidParameter, UnreadableData
from headcount.data.rows import unreadable


class DataDictionary:
    """The labels of some columns."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        readers: dict[str, Callable[[str], dict[str, Any]]] = {
            ".json": _json,
            ".toml": tomllib.loads,
            ".csv": _csv,
        }
        if path.suffix.lower() not in readers:
            raise InvalidParameter(
                f"the file name of a data dictionary must end in {', '.join(readers)}, "
                f"got {path.name!r}"
            )
        try:
            found = readers[path.suffix.lower()](path.read_text(encoding="utf-8-sig"))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise unreadable(self.name, error, "a readable data dictionary") from None
        wrong = [column for column, labels in found.items() if not _are_labels(labels)]
        if wrong:
            raise UnreadableData(
                f"{self.name} must have a list of labels for each column, got none for {wrong[0]!r}"
            )
        self._labels: dict[str, list[Any]] = found

    def __contains__(self, column: str) -> bool:
        return column in self._labels

    def labels(self, column: str) -> list[Any]:
        """The labels of a column."""
        if column not in self._labels:
            raise InvalidParameter(
                f"{self.name} must have the labels of column {column!r}, "
                f"got only those of {', '.join(self._labels) or 'none'}"
            )
        return self._labels[column]


def _json(text: str) -> dict[str, Any]:
    found = json.loads(text)
    fields = found.get("fields") if isinstance(found, dict) else None
    if isinstance(fields, list) and all(isinstance(field, dict) for field in fields):
        named = {field["name"]: field.get("constraints", {}).get("enum") for field in fields}
        return {name: labels for name, labels in named.items() if labels is not None}
    if not isinstance(found, dict):
        raise ValueError("JSON that is not an object")
    return found


def _csv(text: str) -> dict[str, Any]:
    labels: dict[str, Any] = {}
    for row in csv.DictReader(text.splitlines()):
        labels.setdefault(row["column"], []).append(row["label"])
    return labels


def _are_labels(labels: Any) -> bool:
    return (
        isinstance(labels, list)
        and len(labels) > 0
        and all(isinstance(label, str | int) and not isinstance(label, bool) for label in labels)
    )
