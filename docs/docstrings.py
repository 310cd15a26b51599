"""How the API reference reads the code. This is an extension of griffe, which mkdocstrings loads.
Docstrings are plain text: indented lines are code, and aligned lists explain words. A comment
beside a field, or above it, is the docstring of the field.
"""

import ast
import re
from collections.abc import Iterator
from typing import Any

import griffe

import headcount as hc

# The package has its own cached_property, which griffe must treat as a property.
griffe.stdlib_decorators["headcount.core.cached.cached_property"] = {"cached", "property"}

_ITEM = re.compile(r"(\w+)(\s{2,})(?=\S)")
_RULE = re.compile(r"-{4,}$")  # ends comments that head a part of a class


class PlainDocstrings(griffe.Extension):
    """Docstrings as Markdown, and comments of fields as their docstrings."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of every object that has one."""
        if obj.docstring:
            obj.docstring.value = markdown(obj.docstring.value)

    def on_attribute_instance(
        self, *, node: ast.AST | griffe.ObjectNode, attr: griffe.Attribute, **_: Any
    ) -> None:
        """Use the comment of a field as its docstring."""
        if isinstance(node, ast.Assign | ast.AnnAssign) and not attr.docstring:
            told = comment(attr)
            if told and attr.parent and attr.parent.is_class:
                attr.docstring = griffe.Docstring(markdown(told), parent=attr)


def comment(attr: griffe.Attribute) -> str:
    """The comment beside a field, or else above it."""
    lines = attr.lines_collection[attr.filepath]
    at = (attr.lineno or 1) - 1
    if beside := re.search(r"  # (?!noqa|type:)(.+)$", lines[at]):
        return sentence(beside[1])
    above: list[str] = []
    while found := re.match(r"\s+# (.+)$", lines[at - 1 - len(above)]):
        if _RULE.search(found[1]):
            break
        above.insert(0, found[1])
    return sentence(" ".join(above))


def sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].removesuffix('.')}." if text else ""


def markdown(text: str) -> str:
    """A docstring as Markdown."""
    return "\n\n".join(_blocks(text))


def _blocks(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        rows = paragraph.splitlines()
        if all(row.startswith("    ") for row in rows):
            code = "\n".join(row.removeprefix("    ") for row in rows)
            yield f"```python\n{code}\n```"
        elif _ITEM.match(rows[0]):
            yield from _items(rows)
        else:
            yield linked(paragraph)


def _items(rows: list[str]) -> Iterator[str]:
    """An aligned list, as a list of definitions."""
    margin, name, told = 0, "", []
    for row in [*rows, ""]:
        found = _ITEM.match(row)
        if (found or not row) and name:
            yield f"`{name}`\n\n:   {linked(' '.join(told))}"
            told = []
        if found:
            margin, name = found.end(), found[1]
        told.append(row[margin:])


def linked(text: str) -> str:
    """The text with links from public names to their entries."""
    pieces = re.split(r"(`[^`]+`)", text)
    return "".join(
        _link(piece.strip("`")) if piece.startswith("`") else piece.replace("<", "&lt;")
        for piece in pieces
    )


def _link(code: str) -> str:
    named = re.match(r"\w+", code)
    whole = named and code.removesuffix("()") == named[0]
    return f"[`{code}`][headcount.{named[0]}]" if whole and named[0] in hc.__all__ else f"`{code}`"
