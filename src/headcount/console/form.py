"""Makes a survey file from the fields of a form."""

import json
from collections.abc import Mapping

from headcount.core.errors import InvalidParameter

QUESTIONS = 8  # the most questions that the form has room for


def survey_text(fields: Mapping[str, str]) -> str:
    """The text of a survey file. It is checked when it is saved."""
    about = [
        f"{name} = {_text(fields[name])}"
        for name in ("title", "introduction", "contact")
        if fields.get(name, "").strip()
    ]
    people = fields.get("least_people", "").strip()
    if not people.isdecimal():
        raise InvalidParameter(f"`least_people` must be a whole number, got {people!r}")
    trust = fields.get("trust", "shuffle")
    privacy = [
        "[privacy]",
        f"trust = {_text(trust)}",
        "epsilon = 2          # for everything that one person says, together",
        *(["delta = 1e-8"] if trust == "shuffle" else []),
        f"least_people = {int(people)}   # with fewer responses, nothing is analyzed",
    ]
    asked = [
        _question(number, fields)
        for number in range(1, QUESTIONS + 1)
        if fields.get(f"text{number}", "").strip()
    ]
    if not asked:
        raise InvalidParameter("a survey must have at least one question, got none")
    return "\n".join([*about, "", *privacy, *asked]) + "\n"


def _question(number: int, fields: Mapping[str, str]) -> str:
    kind = fields.get(f"kind{number}", "yes-no")
    lines = [
        "",
        "[[question]]",
        f'id = "q{number}"',
        f"text = {_text(fields[f'text{number}'])}",
        f"kind = {_text(kind)}",
    ]
    if kind in ("choice", "several"):
        given = [one.strip() for one in fields.get(f"choices{number}", "").split(",")]
        lines.append(f"choices = [{', '.join(_text(one) for one in given if one)}]")
    if kind == "scale":
        lines += ["low = 1", "high = 5"]
    if fields.get(f"optional{number}"):
        lines.append("optional = true")
    return "\n".join(lines)


def _text(value: str) -> str:
    """A text in TOML, on one line. The escapes of JSON are escapes of TOML as well. TOML also
    requires an escape for the character DEL.
    """
    return json.dumps(" ".join(value.split()), ensure_ascii=False).replace("\x7f", "\\u007f")
