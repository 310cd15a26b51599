"""Random command lines, as a newcomer, a careless script or an attacker might type them.

Commands, options and their types are read from the command line itself, so that a new option is
tried automatically. `RECIPES` are lines that work. Most lines are recipes with small changes, and
some are made of random options.
"""

import os
import random
import shlex
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import typer

from fuzzing import zoo
from headcount.cli.app import app
from headcount.protocols.registry import protocol_names

SHELL = ("install_completion", "show_completion")  # these commands change the files of their user


@dataclass(frozen=True)
class Setting:
    """An option or argument; `kind` is the type of its values, `flag` is empty for arguments."""

    name: str
    flag: str
    kind: Any
    choices: tuple[str, ...] = ()
    help: str = ""

    @property
    def switch(self) -> bool:
        return self.kind is bool


@dataclass(frozen=True)
class Command:
    words: tuple[str, ...]
    arguments: tuple[Setting, ...]
    options: tuple[Setting, ...]

    def option(self, flag: str) -> Setting | None:
        return next((one for one in self.options if one.flag == flag), None)

    @property
    def serves(self) -> bool:
        """Whether it belongs to the collection service or opens the guide. Both have own tests."""
        return self.words[0] in ("analyzer", "shuffler", "console", "guide") or self.words[1:] in (
            ("open",), ("answer",), ("export",), ("demo",),
        )  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A command line. An option without a value is a switch; `loose` words stand at the end."""

    words: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    options: tuple[tuple[str, str | None], ...] = ()
    loose: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    glued: bool = False  # --option=value

    @property
    def typed(self) -> tuple[str, ...]:
        found = [*self.words, *self.arguments]
        for flag, value in self.options:
            if value is None:
                found.append(flag)
            elif self.glued:
                found.append(f"{flag}={value}")
            else:
                found += [flag, value]
        return (*found, *self.loose)

    def value(self, flag: str) -> str | None:
        """The value that holds, which is the last one."""
        return next((value for one, value in reversed(self.options) if one == flag), None)

    def has(self, flag: str) -> bool:
        return any(one == flag for one, _ in self.options)

    @property
    def asks_help(self) -> bool:
        return bool({"--help", "--version"} & {*self.typed}) or not self.words

    def __str__(self) -> str:
        settings = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join([*settings, "headcount", *(map(_shown, self.typed))])


def _shown(word: str) -> str:
    text = shlex.quote(word).encode("utf-8", "backslashreplace").decode()
    text = text if text.isprintable() else f"$'{word.encode('unicode_escape').decode()}'"
    return text if len(text) <= 200 else f"{text[:40]}…({len(word)} characters)"


@cache
def commands() -> dict[tuple[str, ...], Command]:
    """All commands, as they are built."""
    return {one.words: one for one in _commands(typer.main.get_command(app()), ())}


def _commands(built: Any, words: tuple[str, ...]) -> Iterator[Command]:
    inside = getattr(built, "commands", {})
    for name, one in inside.items():
        yield from _commands(one, (*words, name))
    if inside:
        return
    hints = typing.get_type_hints(built.callback)
    settings = [_setting(one, hints) for one in built.params if one.name not in SHELL]
    yield Command(
        words,
        tuple(one for one in settings if not one.flag),
        tuple(one for one in settings if one.flag),
    )


def _setting(built: Any, hints: dict[str, Any]) -> Setting:
    kinds = [kind for kind in typing.get_args(hints[built.name]) if kind is not type(None)]
    kind = kinds[0] if kinds else hints[built.name]
    kind = next(iter(typing.get_args(kind)), kind)  # list[str] is str, several times
    flag = next((one for one in built.opts if one.startswith("--")), "")
    choices = tuple(one.value for one in kind) if issubclass(kind, Enum) else ()
    return Setting(built.name, flag, kind, choices, built.help)


# Values: plausible ones by the name or type of an option, boundaries, and absurd ones.

_FIGURES = ("new.png", "new.svg", "new.pdf", "new.html")
PLAUSIBLE: dict[str, tuple[str, ...]] = {
    "task": (
        "count",
        "sum",
        "mean",
        "histogram",
        "table",
        "margins",
        "density",
        "distribution",
        "quantiles",
        "median",
    ),
    "column": zoo.COLUMNS,
    "person": ("who",),
    "group": ("city", "color"),
    "groups": ("Ulm,Bonn", "red,green,blue", "Ulm"),
    "rows": ("2", "red,green,blue", "Ulm,Bonn"),
    "columns": ("2", "3", "red,green,blue"),
    "within": ("rows", "columns"),
    "among": ("red,green", "red", "0,1"),
    "contrast": ("Ulm,Bonn", "red,green", "Ulm"),
    "difference": ("5%", "0.2"),
    "lower_share": ("30%", "0", "0.5"),
    "power": ("80%", "0.9"),
    "epsilon": ("0.1", "0.5", "1", "1.0", "2", "8", "500"),
    "delta": ("0", "1e-9", "1e-6", "1e-3", "0.01"),
    "users": ("1", "2", "3", "8", "50", "240", "2000"),
    "honest": ("1", "8", "100", "240"),
    "dishonest": ("0%", "10%", "0%,10%,50%", "0.1"),
    "buckets": ("2", "5", "20", "red,green,blue", "0,1", "100"),
    "bins": ("0,18,65,120", "0,50,100", "40,80,120"),
    "low": ("0", "-1", "0.5", "40"),
    "high": ("1", "10", "100", "120"),
    "smoothness": ("0.1", "1", "2", "4"),
    "at": ("0.5", "0.25,0.5,0.75", "10%,90%"),
    "cells": ("2", "3", "16", "100"),
    "missing": ("error", "drop", "0", "1", "red"),
    "outside": ("error", "clamp", "other"),
    "rows_per_person": ("1", "2", "5"),
    "calibration": ("exact", "paper", "both"),
    "confidence": ("0.5", "0.9", "0.95", "0.999"),
    "postprocess": ("clip", "round", "normalize", "project", "clamp"),
    "option": ("error_ratio=1.1", "rate=0.1", "levels=8", "max_messages=4", "analyzer=zero-exact"),
    "margin": ("5%", "1%", "10", "0.5"),
    "max_messages": ("1", "2.5", "10"),
    "max_slots": ("1", "10", "64"),
    "max_bytes": ("112", "16000"),
    "max_influence": ("1", "2.5", "50"),
    "name": tuple(protocol_names()),
    "protocols": ("all", "central", "shuffle,local", "shuffle.zero-exact", "local.k-ary"),
    "over": ("users", "epsilon", "buckets", "messages", "slots"),
    "values": ("100,1000", "0.5,1,2", "2,4", "1", "[0, 1]"),
    "runs": ("0", "2", "1000", "2000"),
    "seed": ("0", "1", "12345"),
    "releases": ("1", "2", "10"),
    "view": ("local", "shuffle", "central"),
    "dataset": ("people", "[0, 1, 1]", "[0]", "0"),
    "neighbor": ("[1, 1, 1]", "[1]", "1"),
    "threshold": ("odds=5", "exception=1e-6", "advantage=0.2", "singled_out=0.05"),
    "secret": ("2", "10", "100"),
    "query": (
        "SELECT smoker FROM 'people.csv'",
        "SELECT * FROM 'people.parquet' WHERE age > 50",
        "SELECT smoker FROM 'people-half.parquet'",
        "SELECT smoker FROM 'nul.csv'",
        "SELECT 1 AS smoker FROM range(100)",
        "SELECT color FROM 'latin.csv'",
        "SELECT 1 / 0 AS smoker",
        "SELECT error('it fails') AS smoker",
        "SELECT 1 AS smoker; SELECT 2",
        "COPY (SELECT 1) TO 'stolen.csv'",
        "SELECT",
        "",
    ),
    "path": (
        "people.csv",
        "people.parquet",
        "people.jsonl",
        "parts",
        "parts/*.csv",
        "hive",
    ),
    "plan": ("plan.json", "colors.json"),
    "ledger": ("spent.db", "new.db", "two.db", "tight.db"),
    "place": ("spent.db", "two.db", "tight.db", "new.db", "fresh.db"),
    "target": (*protocol_names(), *(f"mine.py:{name}" for name in zoo.FUNCTIONS), "mine:lie"),
    "out": ("new.json", *_FIGURES, "new.parquet", "new.csv", "new.txt", "old.json", "old.html"),
}
_BOUNDARY = {
    int: ("0", "1", "-1", "2", "999", "1001", "2147483648", "9223372036854775808", "-0", "1.5"),
    float: (
        "0", "-0", "-1", "1", "0.9999999999999999", "1e-300", "5e-324", "1e300", "1e400", "nan",
        "inf", "-inf", "1e-12", "50", "1000",
    ),
    str: ("", " ", "0", "1", "-1", "a", "a,a", "nan", "inf", "10%", "101%", "error", "drop"),
    Path: (
        "", ".", "..", "new.json", "nowhere/new.json", "nowhere", "people.csv/x.json", "no.suffix",
        f"{'n' * 300}.json", "new.JSON", "~/new.json", "-", "*", "?.csv", "[", "**/*.csv",
        "readonly/new.json", "locked/new.json", "nothing*.csv",
    ),
}  # fmt: skip
ABSURD = (
    "", " ", "-", "--", ",", ",,,", "%", "-5%", "nan%", "1e400%", "9" * 5000, "-" + "9" * 6000,
    "0." + "0" * 5000 + "1", "9" * 5000 + "%", "1," * 2000 + "1", "0x10", "1_000", "١٢٣", "²", "½",
    "1e5", "\x01\x02", "\x1b[31mred\x1b[0m", "\u202etxt", os.fsdecode(b"\xff\xfe"), "é" * 300,
    "😀", "a\nb", "\t", "\r\n", "x" * 70_000, "[[[[", "[" * 20_000, "{}", "null", '{"a": 1}',
    "[1e999]", "NaN", "'; DROP TABLE entries; --", "%s%n", "${HOME}", "a=b", "=", "a=", "=1",
    "error_ratio=nan", "levels=1e400", "rate=" + "9" * 5000, "true", "None", "postgresql://",
    "postgresql://127.0.0.1:1/x", "postgresql://[", "http://x", "file:spent.db?mode=memory",
    ":memory:", "sqlite://spent.db", "mine.py", "mine.py:", ":lie", "mine.py:lie:lie", "math:sin",
    "headcount:__doc__", ".", "..:x", "mine.py:__class__",
)  # fmt: skip
_FUNCTION_FILES = ("empty", "syntax", "latin", "fails", "leaves", "binary", "nul", "deep", "pipe",
                   "interrupts", "nowhere")  # fmt: skip
_WHEREVER = ("new.json", *_BOUNDARY[Path])
_PLACES = ("path", "plan", "ledger", "place", "out")


class Somewhere(NamedTuple):
    """A place of the zoo whose name has this ending."""

    ending: str


Choice = str | Sequence[str] | Somewhere | None
Options = dict[str, Choice]


@dataclass(frozen=True)
class Recipe:
    """A line that works. Any of the listed values works."""

    words: str
    arguments: tuple[Sequence[str] | Somewhere, ...]
    options: Options
    weight: int = 2


_BUDGET: Options = {"--epsilon": ("0.5", "1", "2"), "--delta": ("1e-6", "1e-3")}
_FILES = ("people.csv", "people.parquet", "people.jsonl", "parts", "parts/*.csv")
_LEDGERS = ("spent.db", "new.db")
_SMOKERS: Options = {"--column": "smoker", "--epsilon": "0.5"}
_SAVED = ("new.json", "new.parquet", "new.html", "old.json", "old.html")
RECIPES = (
    Recipe("plan", (("count",),), {**_BUDGET, "--users": ("2", "240", "2000")}),
    Recipe("plan", (("histogram",),), {**_BUDGET, "--users": "240", "--buckets": ("2", "a,b,c")}),
    Recipe(
        "plan",
        (("sum", "mean"),),
        {**_BUDGET, "--users": "240", "--low": "0", "--high": ("1", "10"), "--whole": None},
    ),
    Recipe("plan", (("density",),), {**_BUDGET, "--users": "240", "--low": "0", "--high": "1"}, 1),
    Recipe("plan", (("count",),), {"--margin": ("5%", "20"), "--epsilon": "1", "--delta": "1e-6"}),
    Recipe("plan", (("count",),), {"--margin": ("5%", "20"), "--users": "2000"}),
    Recipe("plan", (("count",),), {"--difference": ("5%", "0.2"), "--epsilon": ("0.5", "1")}),
    Recipe("plan", (("count",),), {**_BUDGET, "--users": "240", "--dishonest": "0%,10%"}, 1),
    Recipe("plan", (("count",),), {**_BUDGET, "--users": "240", "--prices": None}, 1),
    Recipe(
        "plan",
        (("count",),),
        {**_BUDGET, "--users": "240", "--trust": "shuffle", "--out": ("new.json", "old.json")},
        3,
    ),
    Recipe("estimate", (_FILES,), {**_SMOKERS}, 4),
    Recipe("estimate", (_FILES,), {**_SMOKERS, "--ledger": _LEDGERS}, 4),
    Recipe("estimate", (_FILES,), {**_SMOKERS, "--ledger": _LEDGERS, "--out": _SAVED}, 6),
    Recipe("estimate", (_FILES,), {**_SMOKERS, "--out": _SAVED}, 2),
    Recipe("estimate", (_FILES,), {**_SMOKERS, "--ledger": "tight.db"}, 1),
    Recipe("estimate", (_FILES,), {**_SMOKERS, "--trust": ("local", "shuffle"), "--delta": "1e-6"}),
    Recipe("estimate", (_FILES,), {**_SMOKERS, "--group": "city", "--ledger": _LEDGERS}, 3),
    Recipe("estimate", (_FILES,), {**_SMOKERS, "--group": "city", "--contrast": "Ulm,Bonn"}),
    Recipe("estimate", (_FILES,), {**_SMOKERS, "--person": "who", "--rows-per-person": ("1", "3")}),
    Recipe(
        "estimate",
        (_FILES,),
        {
            "--column": "color",
            "--buckets": "red,green,blue",
            "--epsilon": "1",
            "--ledger": _LEDGERS,
            "--out": _SAVED,
        },
        3,
    ),
    Recipe(
        "estimate",
        (_FILES,),
        {
            "--column": "color",
            "--buckets": "red,green",
            "--open": None,
            "--trust": "shuffle",
            **_BUDGET,
        },
        1,
    ),
    Recipe("estimate", (_FILES,), {"--column": "age", "--bins": "0,18,65,120", "--epsilon": "1"}),
    Recipe(
        "estimate",
        (_FILES,),
        {
            "--column": "weight",
            "--low": "40",
            "--high": "120",
            "--epsilon": "1",
            "--clamp": None,
            "--task": ("mean", "sum"),
            "--out": _SAVED,
        },
    ),
    Recipe(
        "estimate",
        (_FILES,),
        {
            "--column": "weight",
            "--low": "40",
            "--high": "120",
            "--task": "density",
            "--epsilon": "1",
            "--out": ("new.png", "new.svg", "new.json"),
            "--ledger": _LEDGERS,
        },
        1,
    ),
    Recipe(
        "estimate",
        (_FILES,),
        {
            "--column": "weight",
            "--low": "40",
            "--high": "120",
            "--task": ("distribution", "quantiles"),
            "--cells": "16",
            "--epsilon": "1",
            "--out": ("new.svg", "new.json"),
            "--ledger": _LEDGERS,
        },
        1,
    ),
    Recipe(
        "estimate", (_FILES,), {"--column": "gap", "--missing": ("drop", "0"), "--epsilon": "1"}
    ),
    Recipe(
        "estimate",
        (_FILES,),
        {"--column": "smoker", "--plan": "plan.json", "--ledger": "spent.db", "--out": _SAVED},
        3,
    ),
    Recipe("estimate", (_FILES,), {"--column": "color", "--plan": "colors.json"}, 1),
    Recipe(
        "estimate",
        (),
        {
            "--query": PLAUSIBLE["query"][:2],
            "--column": "smoker",
            "--epsilon": "1",
            "--ledger": _LEDGERS,
            "--out": _SAVED,
        },
        2,
    ),
    Recipe("estimate", (_FILES,), {**_SMOKERS, "--seed": "1", "--not-private": None}, 1),
    Recipe("compare", (("count", "mean"),), {"--values": "100,1000", "--over": "users"}, 1),
    Recipe(
        "compare",
        (("count",),),
        {"--values": "1,2", "--over": "epsilon", "--users": "240", "--runs": "2"},
        1,
    ),
    Recipe(
        "compare",
        (("histogram",),),
        {"--values": "2,4", "--over": "buckets", "--users": "240", "--out": _FIGURES},
        1,
    ),
    Recipe(
        "curve",
        (("shuffle.zero-exact", "local.randomized-response", "shuffle.randomized-response"),),
        {"--users": ("240", "2000"), **_BUDGET},
        2,
    ),
    Recipe(
        "curve", (("shuffle.zero-exact",),), {"--users": "240", **_BUDGET, "--releases": "2"}, 1
    ),
    Recipe(
        "curve", (("shuffle.zero-exact",),), {"--users": "240", **_BUDGET, "--out": _FIGURES}, 1
    ),
    Recipe("audit", (("local.randomized-response",),), {"--epsilon": "1", "--runs": "1000"}, 3),
    Recipe(
        "audit",
        (("shuffle.randomized-response",),),
        {"--epsilon": "1", "--delta": "0.1", "--users": "6", "--exact": None},
        2,
    ),
    Recipe(
        "audit",
        (("shuffle.zero-exact",),),
        {
            **_BUDGET,
            "--users": "240",
            "--report": None,
            "--out": ("new.txt", "new.json", "new.html", "new.png", "old.json"),
        },
        2,
    ),
    Recipe(
        "audit",
        (("mine.py:lie", "mine.py:chatty", "mine.py:leak"),),
        {"--epsilon": ("0.1", "2"), "--dataset": "[0]", "--neighbor": "[1]", "--runs": "1000"},
        5,
    ),
    Recipe(
        "audit",
        (("mine.py:many",),),
        {
            "--epsilon": "2",
            "--dataset": "[0]",
            "--neighbor": "[1]",
            "--batch": None,
            "--runs": "1000",
        },
        2,
    ),
    Recipe(
        "audit",
        (("mine.py:law",),),
        {"--epsilon": ("1", "2"), "--exact": None, "--users": "3", "--values": "[0, 1]"},
        2,
    ),
    Recipe(
        "ledger create", (("fresh.db", "spent.db"),), {"--dataset": "others", "--epsilon": "1"}, 4
    ),
    Recipe("ledger show", (("spent.db", "two.db", "new.db"),), {}, 5),
    Recipe(
        "ledger export",
        (("spent.db", "two.db"),),
        {"--out": ("new.json", "new.csv", "new.parquet", "old.json")},
        5,
    ),
    Recipe("demo", (), {"--out": ("new.svg", "new.png")}, 1),
)


_PAIR: Options = {"--dataset": "[0]", "--neighbor": "[1]", "--runs": "1000", "--epsilon": "1"}
# Lines that mostly do not work: damaged files, and places that are not files.
TRAPS = (
    Recipe("estimate", (Somewhere(".csv"),), {**_SMOKERS}, 8),
    Recipe("estimate", (Somewhere("l"),), {**_SMOKERS}, 4),
    Recipe("estimate", (Somewhere(".parquet"),), {**_SMOKERS, "--ledger": _LEDGERS}, 3),
    Recipe("estimate", (Somewhere(""),), {**_SMOKERS, "--ledger": _LEDGERS}, 4),
    Recipe(
        "estimate",
        (Somewhere(".csv"),),
        {
            "--column": "color",
            "--buckets": "red,green",
            "--open": None,
            "--trust": "shuffle",
            **_BUDGET,
        },
        4,
    ),
    Recipe("estimate", (Somewhere(".csv"),), {**_SMOKERS, "--group": ("city", "color", "")}, 4),
    Recipe("estimate", (Somewhere(".csv"),), {**_SMOKERS, "--person": ("who", "city", "")}, 4),
    Recipe("estimate", (_FILES,), {"--column": "smoker", "--plan": Somewhere(".json")}, 8),
    Recipe("estimate", (_FILES,), {**_SMOKERS, "--ledger": Somewhere(".db")}, 8),
    Recipe("estimate", (_FILES,), {**_SMOKERS, "--ledger": _LEDGERS, "--out": Somewhere("n")}, 6),
    Recipe("estimate", (_FILES,), {**_SMOKERS, "--ledger": _LEDGERS, "--out": _WHEREVER}, 5),
    Recipe("estimate", (_FILES,), {"--column": zoo.COLUMNS, "--epsilon": "1", "--buckets": ABSURD}),
    Recipe("estimate", (_FILES,), {"--column": "age", "--epsilon": "1", "--bins": ABSURD}, 1),
    Recipe(
        "estimate", (), {"--query": PLAUSIBLE["query"], "--column": "smoker", "--epsilon": "1"}, 3
    ),
    Recipe("audit", (PLAUSIBLE["target"][-len(zoo.FUNCTIONS) - 1 :],), {**_PAIR}, 8),
    Recipe("audit", ([f"{name}.py:lie" for name in _FUNCTION_FILES],), {**_PAIR}, 4),
    Recipe("audit", (("mine.py:lie",),), {**_PAIR, "--dataset": ABSURD}, 2),
    Recipe(
        "audit", (("mine.py:law",),), {"--epsilon": "1", "--exact": None, "--values": ABSURD}, 2
    ),
    Recipe("ledger show", (Somewhere(".db"),), {}, 5),
    Recipe("ledger export", (Somewhere(".db"),), {"--out": _WHEREVER}, 4),
    Recipe("ledger export", (("spent.json",),), {"--out": Somewhere(".json")}, 2),
    Recipe("ledger create", (Somewhere(".db"),), {"--dataset": "others", "--epsilon": "1"}, 3),
    Recipe("ledger create", (("fresh.db",),), {"--dataset": ABSURD, "--epsilon": "1"}, 3),
    Recipe(
        "plan",
        (("count",),),
        {**_BUDGET, "--users": "240", "--trust": "local", "--out": Somewhere(".json")},
        3,
    ),
    Recipe("curve", (("shuffle.amplified",),), {"--users": "8", **_BUDGET, "--option": ABSURD}, 1),
)


def lines(seed: str, count: int, places: Sequence[str]) -> list[Line]:
    """Some command lines, always the same for a seed. `places` are the names of the zoo."""
    chance = random.Random(seed)
    return [_line(chance, places) for _ in range(count)]


def whole(recipe: Recipe, chance: random.Random, places: Sequence[str]) -> Line:
    """A recipe without changes."""

    def one(choice: Choice) -> str | None:
        if choice is None or isinstance(choice, str):
            return choice
        if isinstance(choice, Somewhere):
            choice = [place for place in places if place.endswith(choice.ending)]
        return chance.choice(choice)

    return Line(
        tuple(recipe.words.split()),
        tuple(str(one(choice)) for choice in recipe.arguments),
        tuple((flag, one(choice)) for flag, choice in recipe.options.items()),
    )


def _line(chance: random.Random, places: Sequence[str]) -> Line:
    maker = _Maker(chance, places)
    if chance.random() < 0.12:
        line = maker.anything()
    else:
        recipes = (*RECIPES, *TRAPS)
        recipe = chance.choices(recipes, [one.weight for one in recipes])[0]
        line = whole(recipe, chance, places)
        for _ in range(chance.choice((0, 0, 1, 1, 1, 2, 3))):
            line = maker.changed(line)
    known = commands().get(line.words)
    line = replace(line, options=tuple(_bounded(line.words, *option) for option in line.options))
    if known and known.option("--json") and chance.random() < 0.5:
        line = replace(line, options=(*line.options, ("--json", None)))
    return replace(line, glued=chance.random() < 0.1, environment=maker.environment())


def _bounded(words: tuple[str, ...], flag: str, value: str | None) -> tuple[str, str | None]:
    """Limit the number of simulations: more of them take long, which is not a mistake."""
    most = 4 if words == ("compare",) else 5000
    if flag == "--runs" and value and value.isdecimal() and int(value[:20]) > most:
        return flag, str(most)
    return flag, value


@dataclass(frozen=True)
class _Maker:
    chance: random.Random
    places: Sequence[str]

    def anything(self) -> Line:
        """A command with random arguments and options."""
        chance = self.chance
        command = chance.choice([one for one in commands().values() if not one.serves])
        if command.words == ("demo",) and chance.random() < 0.8:
            command = commands()["estimate",]
        chosen = chance.sample(command.options, min(len(command.options), chance.randrange(9)))
        return Line(
            command.words if chance.random() < 0.97 else (chance.choice(("", "ledger", "plans")),),
            tuple(self.value(one) for one in command.arguments if chance.random() < 0.9),
            tuple((one.flag, None if one.switch else self.value(one)) for one in chosen),
        )

    def changed(self, line: Line) -> Line:
        """A line with one change."""
        chance, command = self.chance, commands()[line.words]
        way = chance.choices(
            ("value", "argument", "add", "drop", "again", "loose"), (36, 24, 24, 7, 4, 5)
        )[0]
        at = chance.randrange(len(line.options)) if line.options else 0
        flag = line.options[at][0] if line.options else ""
        setting = command.option(flag)
        before, after = line.options[:at], line.options[at + 1 :]
        if way == "drop" and line.options:
            return replace(line, options=(*before, *after))
        if way == "again" and line.options:
            return replace(line, options=(*line.options, line.options[at]))
        if way == "argument" and line.arguments:
            position = chance.randrange(len(line.arguments))
            changed = [*line.arguments]
            changed[position] = self.value(command.arguments[position])
            return replace(line, arguments=tuple(changed))
        if way == "loose":
            word = chance.choice(
                ("--help", "--nope", "-x", "--", "extra", "--json", "--version", "")
            )
            return replace(line, loose=(*line.loose, word))
        if way != "value" or setting is None or setting.switch:
            setting, before, after = chance.choice(command.options), line.options, ()
        value = None if setting.switch else self.value(setting)
        return replace(line, options=(*before, (setting.flag, value), *after))

    def value(self, setting: Setting) -> str:
        chance = self.chance
        plausible = setting.choices or PLAUSIBLE.get(setting.name, ())
        boundary = _BOUNDARY.get(setting.kind, _BOUNDARY[str])
        if setting.name in _PLACES and chance.random() < 0.5:
            return self.place(setting.name)
        if setting.name == "target" and chance.random() < 0.2:
            return f"{chance.choice(_FUNCTION_FILES)}.py:lie"
        kind = chance.choices((plausible, boundary, ABSURD), (6 if plausible else 0, 2, 2))[0]
        return chance.choice(kind)

    def place(self, name: str) -> str:
        """A place of the zoo, mostly of the kind that fits."""
        chance = self.chance
        wanted = {"path": (".csv", ".parquet", ".jsonl"), "plan": (".json",), "ledger": (".db",),
                  "place": (".db",), "out": (".json",)}[name]  # fmt: skip
        fitting = [place for place in self.places if place.endswith(wanted)]
        return chance.choice(fitting if chance.random() < 0.8 else self.places)

    def environment(self) -> dict[str, str]:
        chance = self.chance
        found = {}
        if chance.random() < 0.15:
            found["COLUMNS"] = chance.choice(("0", "1", "20", "40", "100", "-5", "many", "100000"))
        if chance.random() < 0.04:
            found["PYTHONIOENCODING"] = chance.choice(("ascii", "latin-1", "utf-8"))
        if chance.random() < 0.08:
            found["HEADCOUNT_CACHE"] = chance.choice(
                ("cache", "cache-flip", "cache-half", "people.csv", "nowhere/cache", "locked", "",
                 "readonly", "loop.json", "pipe.db")
            )  # fmt: skip
        if chance.random() < 0.03:
            found["NO_COLOR"] = "1"
        return found
