"""Random settings, each run through a public interface: the printed and saved guarantees are
checked.

A setting is drawn from a seed, built, and asked for an answer. Every guarantee that a person could
read (in text, JSON, pages and metadata of tables) becomes a `Reading`. `adversary` then computes
how much an adversary learns in the situation that the reading describes.
"""

import html
import json
import re
import typing
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Literal, TypeAlias

import adversary
import enumeration
import headcount as hc
from adversary import Crowd
from commands import Headcount
from headcount.core.protocol import option_names
from headcount.protocols.registry import protocol_class

ROOT = Path(__file__).parents[1]
TASKS: list[hc.Task] = [
    hc.Count(),
    hc.Histogram(2),
    hc.Histogram(3),
    hc.Sum(0, 2, whole=True),
    hc.Sum(0, 1, whole=True),
    hc.Mean(-0.5, 1),
    hc.Density(0, 1, points=4),
    hc.Table(2, 2),
    hc.Margins(2, 2),
    hc.Boxes(["a", "b"], at_most=1),
    hc.Boxes(["a", "b"]),
    hc.Boxes(["a", "b", "c"], at_most=1),
    # Whole numbers are in different cells.
    hc.Distribution(0, 2, cells=2),
    hc.Distribution(0, 2.4, cells=3),
    hc.Distribution(0, 4, cells=4),
    hc.Quantiles(0, 2.4, at=(0.25, 0.5), cells=3),
    hc.Median(0, 4, cells=4),
]
EPSILONS = (0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0)
DELTAS = (0.0, 0.01, 0.05, 0.1, 0.2, 0.4)
# Calibrating these takes a second each, so only a few of them are tried.
SLOW = {
    "shuffle.amplified": TASKS[2:],
    "shuffle.k-ary": TASKS[2:],
    "shuffle.fixed-point-sum": TASKS,
    "shuffle.correlated-sum": TASKS,
}
# Options that are numbers or names, for small crowds.
NUMBERS: dict[str, tuple[Any, ...]] = {
    "error_ratio": (None, None, 1.5, 2.0, 3.0),
    "epsilon1": (None, 0.2, 0.4),
    "bits": (1, 2, 3),
    "levels": (1, 2, 3),
    "values": (2, 3, 4),
    "bins": (2, 3),
    "terms": (1, 2, 3),
    "rate": (None, 0.1, 0.3, 0.5),
    "cells": (None, 2, 4),
    "precision": (None, 1, 2),
    "fanouts": (None, "2", "3", "4", "2,2"),
    "margins": (0.01, 0.3, 0.5, 0.99),
}
LOCAL = {
    "count": ("local.randomized-response",),
    "histogram": ("local.k-ary", "local.unary-symmetric", "local.hadamard", "local.subset"),
    "sum": ("local.one-bit-mean",),
    "mean": ("local.one-bit-mean",),
    "table": ("local.k-ary", "local.unary-optimized"),
}
_TEXT = re.compile(r"\(([^\s,()]+), ([^\s,()]+)\)-DP, (\w+) trust, (exact|upper bound)")
_WHOLE = 1e-6  # how far an exact guarantee may be above the truth
_SHOWN = 1e-3  # how far it may be above the truth in a page, which shows four digits
# The losses of several moves are rounded up to a grid, which may change δ as much as a page does.
_ON_A_GRID = ("shuffle.tree", "shuffle.correlated-tree", "shuffle.margins")

Honest: TypeAlias = int | Mapping[str, int] | None


class Refused(Exception):
    """The setting has no answer, so another is drawn."""


@dataclass(frozen=True)
class Reading:
    """A guarantee as a person reads it. `honest` is the number of honest people in the table, or in
    the `group` if one is named. It is None if none is stated.
    """

    where: str
    epsilon: float
    delta: float
    exact: bool = False
    honest: Honest = None
    group: str | None = None


@dataclass(frozen=True)
class Finding:
    """A reading that is false, or that claims to be exact and is far from the truth."""

    setting: str
    reading: Reading
    truth: float
    honest: str

    def __str__(self) -> str:
        return f"{self.setting}\n  {self.reading}\n  truth: delta = {self.truth:.6g} {self.honest}"


# What can be read -----------------------------------------------------------------------------


def in_text(text: str, where: str) -> list[Reading]:
    return [
        Reading(where, float(epsilon), float(delta), kind == "exact")
        for epsilon, delta, _, kind in _TEXT.findall(text)
    ]


def in_json(document: Mapping[str, Any], where: str, group: str | None = None) -> list[Reading]:
    said = document["guarantee"]
    readings = [
        Reading(
            where, said["epsilon"], said["delta"], said["exact"], _honest(said["honest"]), group
        )
    ]
    for one in document.get("groups", ()):
        readings += in_json(one, f"{where}, group {one['group']}", str(one["group"]))
    return readings


def in_page(page: str, where: str) -> list[Reading]:
    """The guarantees in a page: in the table with a column for honest people, and in its text."""
    readings = []
    for table in re.findall(r"<table>(.*?)</table>", page, flags=re.DOTALL):
        names, *rows = (
            [html.unescape(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)]
            for row in re.findall(r"<tr>(.*?)</tr>", table, flags=re.DOTALL)
        )
        for cells in rows:
            said = dict(zip(names, cells, strict=True))
            if {"epsilon", "delta", "computed"} <= said.keys():
                readings.append(
                    Reading(
                        where,
                        float(said["epsilon"]),
                        float(said["delta"]),
                        said["computed"] == "exactly",
                        _honest(said.get("honest people")),
                    )
                )
    return readings + in_text(html.unescape(page), where)


def in_parquet(path: Path) -> list[Reading]:
    from pyarrow import parquet

    about = json.loads(parquet.read_schema(path).metadata[b"headcount"])
    return in_json(about, path.name)


def _honest(said: Any) -> Honest:
    if isinstance(said, Mapping):
        return {str(group): int(people) for group, people in said.items()}
    if isinstance(said, str):
        return int(said.replace(",", "")) if re.fullmatch(r"[\d,]+", said) else None
    return None if said is None else int(said)


# What is asked --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """A protocol by name, with its task, budget and crowd."""

    name: str
    task: hc.Task
    budget: hc.Budget
    options: Mapping[str, Any]

    def built(self, users: int, honest: int | None = None) -> hc.Protocol:
        try:
            found = hc.protocol(
                self.name, self.task, self.budget, hc.Crowd(users, honest), **self.options
            )
        except hc.HeadcountError as error:
            raise Refused(str(error)) from None
        if not adversary.can_be_listed(found):
            raise Refused(f"{self.name} cannot be listed")
        return found

    def __str__(self) -> str:
        options = ", ".join(f"{key}={value!r}" for key, value in self.options.items())
        return f"{self.name}, {self.task}, {self.budget}" + (f", {options}" if options else "")


PAIRS = [(name, task) for task in TASKS for name in hc.protocol_names(task)]


def drawn(random: Random, trust: hc.Trust | None = None) -> Asked:
    """A random setting. All pairs of a protocol and one of its tasks are equally likely."""
    while True:
        name, task = random.choice(PAIRS)
        if trust in (None, protocol_class(name, task).trust):
            break
    budget = hc.Budget(random.choice(EPSILONS), random.choice(DELTAS))
    if name in SLOW and task in SLOW[name]:
        budget = hc.Budget(*random.choice(((1.0, 0.1), (3.0, 0.2))))
    return Asked(name, task, budget, _options(random, name, task, budget))


def _options(random: Random, name: str, task: hc.Task, budget: hc.Budget) -> dict[str, Any]:
    found = protocol_class(name, task)
    hints = typing.get_type_hints(found)
    options: dict[str, Any] = {}
    for option in option_names(found):
        if words := _words(hints[option]):
            options[option] = random.choice(words)
        elif option == "local" and task.name in LOCAL:
            options[option] = random.choice((None, *LOCAL[task.name]))
        elif option in NUMBERS:
            options[option] = random.choice(NUMBERS[option])
    if options.get("epsilon1"):
        options["epsilon1"] *= budget.epsilon
        options.pop("error_ratio", None)
    return {option: value for option, value in options.items() if value is not None}


def _words(hint: Any) -> tuple[Any, ...]:
    """The choices of a word, if an option is one, or may be left out."""
    listed = (one for one in (hint, *typing.get_args(hint)) if typing.get_origin(one) is Literal)
    return next((typing.get_args(one) for one in listed), ())


# Tables ---------------------------------------------------------------------------------------

Row: TypeAlias = tuple[str, str, Any]  # the person, the group, and the value or None


@dataclass(frozen=True)
class Table:
    """Rows of people in groups, and the settings of the question."""

    asked: Asked
    rows: tuple[Row, ...]
    honest: Honest
    grouped: bool
    persons: bool
    rows_per_person: int
    missing: Any
    built: hc.Protocol | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        given: dict[str, Any] = {"column": "v", "missing": self.missing}
        if self.built is None:
            given |= {"budget": self.asked.budget, "protocol": self.asked.name}
            given |= {"task": self.asked.task, "options": dict(self.asked.options)}
            given |= {} if self.honest is None else {"honest": self.honest}
        else:
            given["protocol"] = self.built
        given |= {"group": "g"} if self.grouped else {}
        given |= {"person": "who"} if self.persons else {}
        given |= {"rows_per_person": self.rows_per_person} if self.rows_per_person > 1 else {}
        return given

    def __str__(self) -> str:
        shown = [f"{who}/{group}/{value}" for who, group, value in self.rows]
        made = "" if self.built is None else f", built for {self.built.crowd}"
        return (
            f"table {shown} of {self.asked}; honest={self.honest}, group={self.grouped}, "
            f"person={self.persons}, rows_per_person={self.rows_per_person}, "
            f"missing={self.missing!r}{made}"
        )

    # Who counts how often ---------------------------------------------------------------------

    @property
    def everybody(self) -> dict[str, Counter[str]]:
        """How many rows of a person count in each group. People who are left out have none."""
        counted: dict[str, Counter[str]] = {}
        for who, group, value in self.rows:
            rows = counted.setdefault(who, Counter())
            if value is not None or self.missing != "drop":
                rows[group if self.grouped else ""] += 1
        if self.rows_per_person == 1:  # if a person has several rows in one group, one counts
            return {who: Counter(list(rows)) for who, rows in counted.items()}
        return counted

    @property
    def sizes(self) -> Counter[str]:
        return sum(self.everybody.values(), Counter())

    def left(self, victim: str, reading: Reading, protocols: Mapping[str, hc.Protocol]) -> Any:
        """The least number of honest rows in each of the victim's groups, including the victim's
        own. It follows from what the library was told and from what it states.
        """
        own, sizes = self.everybody[victim], self.sizes
        told = self._told(victim)
        said = self._said(victim, reading)
        relied = {group: protocols[group].crowd.honest for group in own}
        found = {}
        for group in own:
            known = [of[group] for of in (told, said) if of is not None]
            fewest = min(known) if known else relied[group]
            found[group] = min(max(fewest, own[group]), sizes[group])
        return found

    def _told(self, victim: str) -> Mapping[str, int] | None:
        """The number by the argument `honest`, which counts everybody in the table. Dishonest
        people have a value.
        """
        if self.built is not None:
            return None
        everybody, sizes = self.everybody, self.sizes
        own = everybody[victim]
        if isinstance(self.honest, Mapping):
            groups = {who: group for who, group, _ in self.rows}
            lost = {
                group: sum(group == one for one in groups.values()) - self.honest[group]
                for group in own
            }
            return {group: sizes[group] - lost[group] * self.rows_per_person for group in own}
        dishonest = 0 if self.honest is None else len(everybody) - self.honest
        others = [rows for who, rows in everybody.items() if who != victim]
        others.sort(key=lambda rows: -sum(rows[group] for group in own))
        gone: Counter[str] = sum(others[:dishonest], Counter())
        return {group: sizes[group] - gone[group] for group in own}

    def _said(self, victim: str, reading: Reading) -> Mapping[str, int] | None:
        """The number by the guarantee, which counts all rows that count."""
        own, sizes = self.everybody[victim], self.sizes
        if reading.honest is None:
            return None
        if isinstance(reading.honest, Mapping):
            return {group: reading.honest.get(group, sizes[group]) for group in own}
        among = sizes[reading.group] if reading.group is not None else sum(sizes.values())
        dishonest = among - reading.honest
        if self.rows_per_person > 1:  # it may count people or rows; the weaker reading is used
            people = max(0, len(self.everybody) - reading.honest)
            dishonest = min(dishonest, people * self.rows_per_person)
        found = {}
        for group in own:
            taken = min(dishonest, sizes[group] - own[group])
            found[group], dishonest = sizes[group] - taken, dishonest - taken
        return found


def table(random: Random, trust: hc.Trust | None = None) -> Table:
    asked = drawn(random, trust)
    values = values_of(asked.task)
    grouped = random.random() < 0.5
    groups = "abc"[: random.randint(1, 3)] if grouped else "a"
    sizes = {group: random.randint(1, 5 if grouped else 7) for group in groups}
    persons = random.random() < 0.35
    rows_per_person = random.choice((1, 2, 2, 3)) if persons else 1
    missing = random.choice(("error", "error", "drop", values[0]))
    rows: list[Row] = []
    for group, people in sizes.items():
        for at in range(people):
            copies = random.randint(1, max(2, rows_per_person)) if persons else 1
            for _ in range(copies):
                gap = missing != "error" and random.random() < 0.25
                # If all rows count, a person may have them in several groups.
                place = random.choice(groups) if rows_per_person >= copies > 1 else group
                rows.append((f"{group}{at}", place, None if gap else random.choice(values)))
    people = len({who for who, _, _ in rows})
    honest: Honest = random.choice((None, None, random.randint(1, people)))
    if honest is not None and grouped and not persons and random.random() < 0.5:
        honest = {group: random.randint(1, size) for group, size in sizes.items()}
    made = Table(asked, tuple(rows), honest, grouped, persons, rows_per_person, missing)
    if not sum(made.sizes.values()) or (grouped and set(made.sizes) != set(groups)):
        raise Refused("a group is empty")
    if rows_per_person == 1 and not persons and random.random() < 0.25:
        least = min(made.sizes.values())
        users = random.randint(1, least)
        built = asked.built(users, random.choice((None, random.randint(1, users))))
        made = Table(asked, tuple(rows), None, grouped, False, 1, missing, built)
    return made


def values_of(task: hc.Task) -> list[Any]:
    """The values that people hold in tables. The adversary chooses which of them are counted."""
    if isinstance(task, hc.Density):
        return [task.low, (task.low + task.high) / 2]
    if isinstance(task, hc.Sum | hc.Mean):
        whole = range(int(task.low), int(task.high) + 1) if task.whole else ()
        return [*whole] or [task.low, task.high]
    if isinstance(task, hc.Table | hc.Margins):
        return [f"{row} × {column}" for row in range(2) for column in range(2)]
    return [*task.codes] if isinstance(task, hc.Boxes) else [*range(task.domain)]


def answered(made: Table) -> tuple[hc.Estimate | hc.GroupedEstimate, dict[str, hc.Protocol]]:
    """The answer, and the protocol of each group."""
    import pyarrow

    columns = {
        "who": [who for who, _, _ in made.rows],
        "g": [group for _, group, _ in made.rows],
        "v": [value for _, _, value in made.rows],
    }
    try:
        ready = hc.prepare(pyarrow.table(columns), **made.arguments)
        answer = ready.answer()
    except hc.HeadcountError as error:
        raise Refused(str(error)) from None
    names = sorted(made.sizes)
    protocols = dict(zip(names, ready.release.protocols, strict=True))
    if not all(map(adversary.can_be_listed, protocols.values())):
        raise Refused("cannot be listed")
    return answer, protocols


def by_python(made: Table) -> Iterator[Finding]:
    answer, protocols = answered(made)
    readings = [
        *in_json(answer.to_dict(), "to_dict"),
        *in_text(str(answer), "str"),
        *in_page(answer._repr_html_(), "notebook"),
    ]
    yield from judged_table(made, readings, protocols)


def by_command(
    made: Table, headcount: Headcount, folder: Path, random: Random
) -> Iterator[Finding]:
    if made.built is not None or isinstance(made.honest, Mapping):
        raise Refused("the command line has no such argument")
    _, protocols = answered(made)
    lines = [f"{who},{group},{'' if v is None else v}" for who, group, v in made.rows]
    (folder / "people.csv").write_text("\n".join(["who,g,v", *lines]) + "\n")
    ending, as_json = random.choice((".json", ".html", ".parquet")), random.random() < 0.5
    out = folder / f"result{ending}"
    done = headcount(*_command(made), "--out", str(out), *["--json"] * as_json)
    if done.status:
        raise Refused(done.err)
    readings = in_json(json.loads(done.out), "--json") if as_json else in_text(done.out, "printed")
    if ending == ".json":
        readings += in_json(json.loads(out.read_text()), out.name)
    elif ending == ".html":
        readings += in_page(out.read_text(), out.name)
    else:
        readings += in_parquet(out)
    assert readings, done.out
    yield from judged_table(made, readings, protocols)


def _command(made: Table) -> list[str]:
    asked = made.asked
    task, budget = asked.task, asked.budget
    line = ["estimate", "people.csv", "--column", "v", "--task", task.name]
    line += ["--protocol", asked.name, "--epsilon", repr(budget.epsilon)]
    line += ["--delta", repr(budget.delta), "--missing", str(made.missing)]
    if isinstance(task, hc.Table | hc.Margins):
        line += ["--rows", str(task.rows), "--columns", str(task.columns)]
    elif isinstance(task, hc.Histogram):
        line += ["--buckets", str(task.domain)]
    if isinstance(task, hc.Boxes):
        line += ["--labels", ",".join(task.labels), "--at-most", str(task.at_most)]
    if isinstance(task, hc.Distribution):
        line += ["--cells", str(task.cells)]
    if task.name == "quantiles":
        line += ["--at", ",".join(map(str, task.settings["at"]))]
    if isinstance(task, hc.Sum | hc.Mean | hc.Density | hc.Distribution):
        line += ["--low", str(task.low), "--high", str(task.high)]
        line += ["--whole"] * (isinstance(task, hc.Sum | hc.Mean) and task.whole)
    for option, value in asked.options.items():
        line += ["--option", f"{option}={value}"]
    line += [] if made.honest is None else ["--honest", str(made.honest)]
    line += ["--group", "g"] * made.grouped + ["--person", "who"] * made.persons
    if made.rows_per_person > 1:
        line += ["--rows-per-person", str(made.rows_per_person)]
    return line


def judged_table(
    made: Table, readings: Sequence[Reading], protocols: Mapping[str, hc.Protocol]
) -> Iterator[Finding]:
    everybody = made.everybody
    # People with the same rows in the same groups are interchangeable.
    victims = {tuple(sorted(rows.items())): who for who, rows in everybody.items() if rows}
    sizes = made.sizes
    for reading in readings:
        for victim in victims.values():
            own = everybody[victim]
            if reading.group is not None and set(own) != {reading.group}:
                continue
            left = made.left(victim, reading, protocols)
            crowds = [
                Crowd(protocols[group], honest, own[group], sizes[group] - honest)
                for group, honest in left.items()
            ]
            yield from false(str(made), reading, crowds)
    if made.rows_per_person == 1:
        full = [reading for reading in readings if isinstance(reading.honest, int | Mapping)]
        for reading in full[:1]:
            yield from unattained(str(made), reading, list(protocols.values()))


def false(setting: str, reading: Reading, crowds: Sequence[Crowd]) -> Iterator[Finding]:
    found = adversary.truth(tuple(crowds), reading.epsilon, reading.delta)
    if found.exceeds(reading.delta):
        honest = ", ".join(f"{one.honest} honest" for one in crowds)
        yield Finding(setting, reading, max(found.delta, float(found.exact or 0)), f"with {honest}")


def unattained(
    setting: str, reading: Reading, protocols: Sequence[hc.Protocol]
) -> Iterator[Finding]:
    """A finding if no crowd attains an exact guarantee, although all crowds are listed."""
    if not reading.exact or isinstance(protocols[0].task, hc.Density):
        return
    crowds = [
        (Crowd(one, one.crowd.honest, 1, one.crowd.users - one.crowd.honest),) for one in protocols
    ]
    if not all(adversary.seen(one).complete for one in crowds):
        return
    above = _WHOLE
    if reading.where.endswith(".html") or protocols[0].name in _ON_A_GRID:
        above = _SHOWN
    if reading.delta:
        most = max(adversary.truth(one, reading.epsilon).delta for one in crowds)
        attained = reading.delta <= most * (1 + above) + 1e-10
    else:
        most = max(map(adversary.least_epsilon, crowds))
        attained = reading.epsilon <= most * (1 + above) + 1e-10
    if not attained:
        yield Finding(setting, reading, most, "at the most, though it is called exact")


# One process, and bundles ---------------------------------------------------------------------


@dataclass(frozen=True)
class Gathering:
    """People who run a protocol that was built before."""

    asked: Asked
    protocol: hc.Protocol
    values: tuple[int, ...]
    more_slots: int = 0
    curve_at: float = 1.0

    @property
    def people(self) -> list[Any]:
        held = enumeration.asked(self.protocol)
        return [held[value] for value in self.values]

    @property
    def crowd(self) -> Crowd:
        honest = self.protocol.crowd.honest
        return Crowd(self.protocol, honest, 1, len(self.values) - honest)

    def __str__(self) -> str:
        return f"{len(self.values)} people run {self.asked}, built for {self.protocol.crowd}"


def gathering(random: Random, trust: hc.Trust | None = None) -> Gathering:
    asked = drawn(random, trust)
    users = random.choice((1, 2, 3, 3, 4, 5, 6, 8))
    if asked.name == "shuffle.split-and-mix":
        users = 30
    protocol = asked.built(users, random.choice((None, random.randint(1, users))))
    # If cheaters could undo the withholding, no more people than planned may take part.
    more = random.choice((0, 0, 1)) if protocol.shuffler.least_copies == 1 else 0
    more = min(more, protocol.estimator.most_users - users)
    values = [random.randrange(len(enumeration.asked(protocol))) for _ in range(users + more)]
    return Gathering(asked, protocol, tuple(values), random.choice((0, 0, 2)), random.uniform(0, 4))


def by_run(made: Gathering) -> Iterator[Finding]:
    protocol = made.protocol
    answer = hc.run(protocol, made.people)
    if protocol.trust is not hc.Trust.CENTRAL:
        sent = protocol.randomize(made.people, hc.SecureSource())
        assert all(map(partial(adversary.is_possible, protocol), sent, made.values))
    readings = [
        *in_json(answer.to_dict(), "to_dict"),
        *in_text(str(answer), "str"),
        *in_page(protocol.guarantee._repr_html_(), "notebook"),
    ]
    for reading in readings:
        yield from false(str(made), reading, [made.crowd])
    yield from unattained(str(made), readings[0], [protocol])
    stated = protocol.curve.delta(made.curve_at)
    yield from false(str(made), Reading("curve", made.curve_at, stated), [made.crowd])


def by_bundles(made: Gathering) -> Iterator[Finding]:
    """Bundles as the README describes them, sealed as SECURITY.md describes."""
    protocol = made.protocol
    if protocol.trust is not hc.Trust.SHUFFLE:
        raise Refused("bundles are for shufflers")
    try:
        slots = protocol.slots + made.more_slots * (protocol.randomizer.fixed_messages is None)
    except hc.Infeasible as error:
        raise Refused(str(error)) from None
    crowd = Crowd(
        protocol,
        made.crowd.honest,
        1,
        made.crowd.dishonest,
        slots=slots,
        whole=not slots_are_sealed() and slots > 1,
        withholds=False,
    )
    guarantees = collected(made, slots)
    for guarantee in guarantees:
        for reading in (
            *in_json({"guarantee": guarantee.to_dict()}, "README, to_dict"),
            *in_text(str(guarantee), "README, printed"),
        ):
            yield from false(f"bundles of {made}", reading, [crowd])
    # The least size is used, since it needs the most redrawing.
    least = Crowd(protocol, crowd.honest, 1, crowd.dishonest, slots=protocol.slots)
    for epsilon in (protocol.budget.epsilon, made.curve_at):
        delta = enumeration.bundled_curve(protocol).delta(epsilon)
        stated = Reading("bundled_curve", epsilon, delta)
        yield from false(f"bundles of {made}", stated, [least])


def slots_are_sealed() -> bool:
    """Whether SECURITY.md says to seal each slot by itself. Otherwise bundles are opened as a
    whole.
    """
    advice = (ROOT / "SECURITY.md").read_text()
    return re.search(r"\bslots?\b", advice, flags=re.IGNORECASE) is not None


def collected(made: Gathering, slots: int) -> list[hc.Guarantee]:
    """The output of the README's example for collecting messages, run with these people."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    (block,) = (one for one in blocks if "p.bundle(" in one)
    text, changes = block, 0
    for old, new in (
        (r"^p = hc\.protocol\(.*\)$", ""),
        (r"p\.bundle\([^,()]+, source\)", "p.bundle(people[i], source, slots=slots)"),
        (r"range\(2000\)", "range(len(people))"),
        (r"p\.alphabet, p\.slots\)", "p.alphabet, slots)"),
    ):
        text, found = re.subn(old, new, text, flags=re.MULTILINE)
        changes += found
    assert changes == 4, block
    shown: list[Any] = []
    names = {"hc": hc, "p": made.protocol, "people": made.people, "slots": slots}
    try:
        printing = {"print": lambda *what: shown.extend(what)}
        exec(compile(text, "README.md", "exec"), {**names, **printing})
    except hc.InvalidValue:
        # Rare messages that nobody withheld are refused. Otherwise the promise is the same.
        if made.protocol.shuffler.least_copies == 1:
            raise
        return [made.protocol.guarantee]
    guarantees = [what for what in shown if isinstance(what, hc.Guarantee)]
    assert guarantees, "the README prints no guarantee of what was collected"
    return guarantees
