"""The survey file: TOML that a person writes. Errors name the file, the line and the fix.

TOML's parser reports lines only for syntax errors. So the text is scanned once more for the line of
each key.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Any

from headcount.core import checks
from headcount.core.budget import Budget, Trust
from headcount.core.errors import HeadcountError, InvalidParameter, UnreadableData
from headcount.survey.design import NOISES
from headcount.survey.questions import KINDS, Question
from headcount.survey.survey import Survey

_ABOUT = ("title", "introduction", "contact")
_PRIVACY = ("trust", "epsilon", "delta", "least_people", "noise", "waves", "keep_answers")
_TABLES = ("privacy", "question", "table")
_MOST_BYTES = 1_000_000
_HEADER = re.compile(r"\s*(\[{1,2})\s*([A-Za-z0-9_.\-\"' ]+?)\s*\]{1,2}\s*(#.*)?$")
_KEY = re.compile(r"\s*([A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')\s*=")
_NAMED = re.compile(r"`([^`]+)`")
_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_SYNTAX = (  # the beginning of the parser's message, what must hold, and the fix
    (
        "Invalid value",
        "a value must be a number, true or false, a list, or text",
        'put text in "…"',
    ),
    ("Cannot overwrite", "a key must be given only once in a table", "delete one of the two lines"),
    ("Cannot declare", "a table such as [privacy] must be given only once", "delete one of them"),
    ("Expected '='", "a line must read key = value", 'as in title = "Campus health"'),
    ("Invalid statement", "a line must read key = value, or be a heading", "use # for comments"),
    ("Illegal character", "text must end on its own line", "add the missing quotation mark"),
    ("Unterminated string", "text must end with a quotation mark", "add the missing mark"),
    ("Unclosed array", "a list must end with ]", "add the missing bracket"),
    ("Expected newline", "nothing may follow a value on its line", 'delete it, or put text in "…"'),
    ("Expected ']", "a heading must end with its bracket", "write [privacy] or [[question]]"),
)


def load(path: str | PathLike[str]) -> Survey:
    """The survey in a file."""
    place = Path(path)
    try:
        with place.open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
        if len(raw) > _MOST_BYTES:
            raise UnreadableData(f"a survey file must be smaller than 1 MB, got {place.name!r}")
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise UnreadableData(f"{str(place)!r} must be readable, got: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UnreadableData(f"{str(place)!r} must be text in UTF-8, got other bytes") from None
    return read(text, place.name)


def read(text: str, name: str = "the survey") -> Survey:
    """The survey in a text. Errors call the text `name`."""
    lines = _Lines.of(text, name)
    for at, line in _plain_lines(text):
        heading = _HEADER.match(line)
        if heading and heading[1] == "[" and heading[2] in ("question", "table"):
            raise lines.error(_brackets(heading[2]), at)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(str(error), lines) from None
    return _survey(data, lines)


def survey_from(data: Mapping[str, Any]) -> Survey:
    """The survey that `survey_data` turned into data."""
    checks.instance("data", data, Mapping)
    return _survey(data, _Lines("the survey", {}))


def survey_data(survey: Survey) -> dict[str, Any]:
    """A survey as data, in the form that its file has."""
    about = {name: getattr(survey, name) for name in _ABOUT if getattr(survey, name)}
    privacy: dict[str, Any] = {
        "trust": str(survey.trust),
        "epsilon": survey.budget.epsilon,
        "delta": survey.budget.delta,
        "least_people": survey.least_people,
    }
    for name, default in (("noise", "people"), ("waves", 1), ("keep_answers", False)):
        if getattr(survey, name) != default:
            privacy[name] = getattr(survey, name)
    tables = [{"of": list(pair)} for pair in survey.tables]
    return {
        **about,
        "privacy": privacy,
        "question": [one.to_dict() for one in survey.questions],
        **({"table": tables} if tables else {}),
    }


# Where things are -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Lines:
    """The lines of a file: where each table begins, and where each of its keys is.

    A table is named by its heading and its number, such as ("question", 2). The line of its
    heading has the key "".
    """

    name: str
    known: Mapping[tuple[str, int, str], int]

    @classmethod
    def of(cls, text: str, name: str) -> "_Lines":
        known: dict[tuple[str, int, str], int] = {("", 0, ""): 1}
        heading, number = "", 0
        for at, line in _plain_lines(text):
            if found := _HEADER.match(line):
                heading = found[2].strip()
                number = sum(key == "" and one == heading for one, _, key in known)
                known[heading, number, ""] = at
            elif key := _KEY.match(line):
                known.setdefault((heading, number, key[1].strip("\"'")), at)
        return cls(name, known)

    def at(self, heading: str, number: int, key: str) -> int | None:
        """The line of a key, or of its table if the table lacks the key."""
        return self.known.get((heading, number, key), self.known.get((heading, number, "")))

    def error(self, error: HeadcountError, line: int | None) -> InvalidParameter:
        where = self.name if line is None else f"{self.name}, line {line}"
        return InvalidParameter(f"{where}: {error.message}", hint=error.hint)

    @contextmanager
    def within(self, heading: str, number: int = 0) -> Iterator[None]:
        """Add a line number to errors from this block: the line of the key that they mention."""
        try:
            yield
        except HeadcountError as error:
            names = [*_NAMED.findall(error.message), ""]
            known = (self.known.get((heading, number, name)) for name in names)
            line = next((at for at in known if at is not None), None)
            raise self.error(error, line or self.at(heading, number, "")) from None


def _plain_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a text with their numbers, without lines that continue a text or a list."""
    mark, depth = "", 0
    for at, line in enumerate(text.splitlines(), start=1):
        if not mark and not depth:
            yield at, line
        mark, depth = _after(line, mark, depth)


def _after(line: str, mark: str, depth: int) -> tuple[str, int]:
    """The quotation marks of a long text that is still open after a line, and the number of lists
    that are still open. `mark` and `depth` say the same about the beginning of the line.
    """
    heading = not mark and not depth and _HEADER.match(line)
    at = 0
    while at < len(line) and not heading:
        if mark:
            end = line.find(mark, at)
            if end < 0:
                return mark, depth
            mark, at = "", end + 3
        elif line[at : at + 3] in ('"""', "'''"):
            mark, at = line[at : at + 3], at + 3
        elif line[at] in "\"'":
            at = _string_end(line, at)
        elif line[at] == "#":
            break
        else:
            depth = max(0, depth + {"[": 1, "]": -1}.get(line[at], 0))
            at += 1
    return mark, depth


def _string_end(line: str, at: int) -> int:
    """The index after the closing quotation mark of the text that begins at this index."""
    end = at + 1
    while end < len(line) and line[end] != line[at]:
        end += 2 if line[end] == "\\" and line[at] == '"' else 1
    return end + 1


def _syntax_error(message: str, lines: _Lines) -> InvalidParameter:
    place = _PLACE.search(message)
    line = int(place[1]) if place and place[1] else max(lines.known.values(), default=1)
    plain = _PLACE.sub("", message)
    for beginning, wanted, fix in _SYNTAX:
        if plain.startswith(beginning):
            return lines.error(InvalidParameter(wanted, hint=fix), line)
    return lines.error(InvalidParameter(f"the file must be TOML, got: {plain}"), line)


# What is in the file --------------------------------------------------------------------------


def _survey(data: Mapping[str, Any], lines: _Lines) -> Survey:
    _check_keys(data, (*_ABOUT, *_TABLES), "a survey", lines, "", 0)
    with lines.within(""):
        for name in _ABOUT:
            if not isinstance(data.get(name, ""), str):
                raise InvalidParameter(f"`{name}` must be text, got {checks.shown(data[name])}")
    privacy = _privacy(data, lines)
    questions = [
        _question(one, number, lines)
        for number, one in enumerate(_array(data, "question", lines, least=1))
    ]
    _check_ids(questions, lines)
    tables = [
        _table(one, number, questions, lines)
        for number, one in enumerate(_array(data, "table", lines, least=0))
    ]
    about = {name: data[name] for name in _ABOUT if name in data}
    with lines.within("privacy"):
        return Survey(questions, tables=tuple(tables), **privacy, **about)


def _privacy(data: Mapping[str, Any], lines: _Lines) -> dict[str, Any]:
    given = data.get("privacy")
    if not isinstance(given, Mapping):
        raise lines.error(
            InvalidParameter(
                "a survey must have a table [privacy], got none",
                hint="it has trust, epsilon, delta and least_people",
            ),
            None,
        )
    _check_keys(given, _PRIVACY, "[privacy]", lines, "privacy", 0)
    with lines.within("privacy"):
        for name, example in (("trust", '"shuffle"'), ("epsilon", "2")):
            if name not in given:
                raise InvalidParameter(
                    f"[privacy] must have the key {name}, got none", hint=f"{name} = {example}"
                )
        trust = Trust(checks.choice("trust", given["trust"], list(Trust)))
        if trust == Trust.SHUFFLE and not given.get("delta"):
            raise InvalidParameter(
                "`delta` must be above 0 in shuffle trust, got none" if "delta" not in given
                else f"`delta` must be above 0 in shuffle trust, got {given['delta']}",
                hint="delta = 1e-8",
            )  # fmt: skip
        # In central trust, the noise does not depend on the number of people, so `least_people` is
        # optional.
        if trust != Trust.CENTRAL and "least_people" not in given:
            raise InvalidParameter(
                f"[privacy] must have the key least_people in {trust} trust, got none",
                hint="least_people = 300: with fewer answers, nothing is analyzed",
            )
        budget = Budget(given["epsilon"], given.get("delta", 0.0))
        noise = checks.choice("noise", given.get("noise", "people"), NOISES)
        return {
            "trust": trust,
            "budget": budget,
            "least_people": given.get("least_people", 1),
            "noise": noise,
            "waves": given.get("waves", 1),
            "keep_answers": given.get("keep_answers", False),
        }


def _array(data: Mapping[str, Any], name: str, lines: _Lines, *, least: int) -> list[Any]:
    given = data.get(name, [])
    if not isinstance(given, list):
        raise lines.error(_brackets(name), lines.at("", 0, name))
    if len(given) < least:
        none = f"a survey must have at least one {name}, got none"
        fix = f"write [[{name}]] above each {name}"
        raise lines.error(InvalidParameter(none, hint=fix), None)
    return given


def _brackets(name: str) -> InvalidParameter:
    return InvalidParameter(
        f"a {name} must begin with [[{name}]], got something else",
        hint="use two brackets on each side",
    )


def _question(given: Any, number: int, lines: _Lines) -> Question:
    with lines.within("question", number):
        if not isinstance(given, Mapping):
            raise InvalidParameter(f"a question must be a table, got {checks.shown(given)}")
        if "kind" not in given:
            raise InvalidParameter(
                "a question must have a kind, got none", hint=f"one of {', '.join(KINDS)}"
            )
        kind = given["kind"]
        if not isinstance(kind, str) or kind not in KINDS:
            raise InvalidParameter(
                f"`kind` must be one of {', '.join(KINDS)}, got {checks.shown(kind)}",
                hint=_nearest(kind, KINDS),
            )
    known = [one.name for one in fields(KINDS[kind])]
    _check_keys(given, (*known, "kind"), f"a question of kind {kind}", lines, "question", number)
    settings = {name: given[name] for name in given if name != "kind"}
    with lines.within("question", number):
        for one in fields(KINDS[kind]):
            required = one.default is MISSING and one.default_factory is MISSING
            if (required or one.name == "choices") and one.name not in settings:
                raise InvalidParameter(
                    f"a question of kind {kind} must have the key {one.name}, got none",
                    hint=_example(one.name),
                )
        make: Callable[..., Question] = KINDS[kind]
        return make(**{name: _frozen(value) for name, value in settings.items()})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _check_ids(questions: list[Question], lines: _Lines) -> None:
    seen: dict[str, int] = {}
    for number, one in enumerate(questions):
        if one.id in seen:
            first = lines.at("question", seen[one.id], "id")
            where = f" and also in line {first}" if first else ""
            twice = InvalidParameter(f"every question must have its own id, got {one.id!r}{where}")
            raise lines.error(twice, lines.at("question", number, "id"))
        seen[one.id] = number


def _table(given: Any, number: int, questions: list[Question], lines: _Lines) -> tuple[str, str]:
    if isinstance(given, Mapping):
        _check_keys(given, ("of",), "[[table]]", lines, "table", number)
    with lines.within("table", number):
        pair = given.get("of") if isinstance(given, Mapping) else None
        if not isinstance(pair, list) or len(pair) != 2 or pair[0] == pair[1]:
            raise InvalidParameter(
                f"`of` must be a list of the ids of two questions, got {checks.shown(pair)}",
                hint='of = ["sex", "smoke"]',
            )
        listed = {one.id: one for one in questions}
        for one in pair:
            if one not in listed:
                raise InvalidParameter(
                    f"`of` must name questions of the survey, got {checks.shown(one)}",
                    hint=_nearest(one, listed),
                )
            if listed[one].kind not in ("yes-no", "choice", "scale"):
                raise InvalidParameter(
                    "`of` must name questions of kind yes-no, choice or scale, got "
                    f"{one!r} of kind {listed[one].kind}"
                )
        return pair[0], pair[1]


def _check_keys(
    given: Mapping[str, Any],
    known: tuple[str, ...],
    holder: str,
    lines: _Lines,
    heading: str,
    number: int,
) -> None:
    """Refuse unknown keys, and suggest the nearest known key."""
    for key in given:
        if key in known:
            continue
        line = lines.at(heading, number, key)
        if not heading and isinstance(given[key], Mapping | list):
            line = lines.at(key, 0, "") or line
        fix = _nearest(key, known) or f"it has {', '.join(_shown(known))}"
        if not heading and key in _PRIVACY:
            fix = f"write it below [privacy]: {key} = …"
        raise lines.error(
            InvalidParameter(f"{holder} must not have the key {key!r}", hint=fix), line
        )


def _shown(known: tuple[str, ...]) -> list[str]:
    """The keys as they are written in a file."""
    tables = {"privacy": "[privacy]", "question": "[[question]]", "table": "[[table]]"}
    return [tables.get(one, one) for one in known]


def _nearest(word: object, known: Any) -> str:
    near = get_close_matches(str(word), [*known], n=1, cutoff=0.55)
    return f"did you mean {near[0]!r}?" if near else ""


def _example(name: str) -> str:
    return {
        "id": 'id = "smoke"',
        "text": 'text = "Do you smoke?"',
        "choices": 'choices = ["first", "second"]',
    }[name]
