"""Attacks on ledgers: earlier answers may choose each next release.

The releases are about the same person, but about different columns. So the other people may hold
any values in each of them. The worst strategy is found backwards: after every outcome, it chooses
the release with the largest divergence among those that the ledger accepts. The choices are those
that the ledger says it allows.
"""

import math
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import adversary
import headcount as hc
from adversary import Array, Crowd
from adversary_settings import Asked, Finding, Reading, Refused

_ERROR = 1e-10
_OUTCOMES = 40  # the most outcomes of one release; more are merged, which reveals less
_NUMBER = r"([0-9.e+-]+\d)"
_LATER = (
    ("shuffle.randomized-response", hc.Count()),
    ("shuffle.fake-users", hc.Histogram(2)),
    ("shuffle.sample-threshold", hc.Histogram(2)),
    ("shuffle.sample-threshold", hc.Histogram(3)),
    ("shuffle.unary-sum", hc.Sum(0, 1, whole=True)),
    ("shuffle.correlated", hc.Count()),
    ("local.randomized-response", hc.Count()),
    ("central.geometric", hc.Count()),
)


@dataclass(frozen=True)
class Releases:
    """One release that is always made, and other releases from which the next ones are chosen."""

    limit: hc.Budget
    rule: str | None  # None means the default rule of a ledger
    first: hc.Protocol
    later: tuple[hc.Protocol, ...]
    depth: int = 1  # how many of the other releases may follow

    def __str__(self) -> str:
        shown = ", ".join(
            f"{p.name} of {p.task} {p.budget} {p.crowd}" for p in (self.first, *self.later)
        )
        return f"a ledger with {self.limit}, rule {self.rule or 'by default'}: {shown}"


def releases(random: Random) -> Releases:
    """Releases for a limit that plain sums do not keep, or for an adaptive or a pure limit."""
    rule = random.choice((None, None, "adaptive"))
    pure = rule is None and random.random() < 0.3
    epsilon = random.choice((0.2, 0.4, 0.7))
    budget = hc.Budget(epsilon, 0.0 if pure else random.choice((0.02, 0.05, 0.1)))
    small = hc.Budget(random.choice((0.02, 0.05, 0.1, 0.2)))
    first = Asked("local.randomized-response", hc.Count(), small, {}).built(1)
    later = tuple(
        Asked(name, task, budget, {}).built(random.randint(2, 4))
        for name, task in random.sample(_LATER, 2 if rule is None else 3)
    )
    above = random.uniform(0.9, 1.1) if rule is None and not pure else random.uniform(1.0, 2.2)
    limit = hc.Budget(round(above * epsilon + random.random() * small.epsilon, 3), budget.delta)
    if pure:
        return Releases(limit, rule, first, later, depth=2)
    if rule is not None:
        more = hc.Budget(limit.epsilon, round(limit.delta * random.uniform(1.0, 2.5), 4))
        return Releases(more, rule, first, later, depth=2)
    return Releases(limit, rule, first, later)


def by_ledger(made: Releases, folder: Path) -> Iterator[Finding]:
    """Findings about everything that a ledger accepts, and about the spending that it states."""
    book = _Book(folder / "start.db")
    book.create(made.limit, made.rule)
    if not book.takes(made.first):
        raise Refused("the first release does not fit")
    tree = _Node.of(book, made, made.depth)
    if not tree.next:
        raise Refused("no further release fits")
    last = tree.last
    text = str(last.spending)
    limit = Reading("limit", made.limit.epsilon, made.limit.delta)
    for choices in _choices(tree, text, made.rule):
        start = _Node(book, ((made.first, choices),))
        yield from _false(made, limit, start)
    # The stated spending is for the releases that were made. Each may be about any question.
    spent = _chain(last.charged)
    for reading in (*spent_in_text(text), *spent_in_json(last.spending.to_dict()["spent"])):
        yield from _false(made, reading, spent)


def tightened(made: Releases, folder: Path) -> Releases:
    """The releases with the least δ for which a ledger accepts each later release, as it is
    printed.
    """
    deltas = []
    for later in made.later:
        book = _Book(folder / "wide.db")
        book.create(hc.Budget(made.limit.epsilon, 0.9), made.rule)
        if not (book.takes(made.first) and book.takes(later)):
            raise Refused("no limit is wide enough")
        at = rf"δ = {_NUMBER} at ε = {re.escape(f'{made.limit.epsilon:g}')}"
        found = re.search(at, str(book.spending))
        deltas.append(float(found[1]) if found else 0.0)
    if not 0 < max(deltas) < 0.9:
        raise Refused("there is nothing to spend")
    limit = hc.Budget(made.limit.epsilon, max(deltas))
    return Releases(limit, made.rule, made.first, made.later)


def spent_in_text(text: str) -> list[Reading]:
    (line,) = (line for line in text.splitlines() if line.startswith("spent"))
    forth = re.findall(rf"ε = {_NUMBER} at δ = {_NUMBER}", line)
    back = re.findall(rf"δ = {_NUMBER} at ε = {_NUMBER}", line)
    return [
        *(Reading("spent, printed", float(e), float(d)) for e, d in forth),
        *(Reading("spent, printed", float(e), float(d)) for d, e in back),
    ]


def spent_in_json(said: Any) -> list[Reading]:
    """Every pair of an epsilon and a delta in a JSON document, at any depth."""
    if isinstance(said, Mapping):
        pair = [said.get("epsilon"), said.get("delta")]
        if all(isinstance(number, int | float) for number in pair):
            return [Reading("spent, to_dict", float(said["epsilon"]), float(said["delta"]))]
        said = list(said.values())
    if isinstance(said, Sequence) and not isinstance(said, str):
        return [reading for one in said for reading in spent_in_json(one)]
    return []


@dataclass
class _Book:
    """A ledger in a file, with the charges to it."""

    path: Path
    charged: tuple[hc.Protocol, ...] = ()

    def create(self, limit: hc.Budget, rule: str | None) -> None:
        self.path.unlink(missing_ok=True)
        ledger = hc.Ledger.create(self.path)
        named: dict[str, Any] = {} if rule is None else {"rule": rule}
        try:
            ledger.create_dataset("people", limit, **named)
        except TypeError:
            raise Refused(f"ledgers have no rule {rule!r} yet") from None

    def takes(self, protocol: hc.Protocol) -> bool:
        try:
            hc.Ledger.open(self.path).charge(
                "people", protocol.guarantee, protocol.curve, protocol=protocol.name
            )
        except hc.BudgetExhausted:
            return False
        self.charged = (*self.charged, protocol)
        return True

    def copied(self, name: str) -> "_Book":
        path = self.path.with_name(name)
        shutil.copyfile(self.path, path)
        return _Book(path, self.charged)

    @property
    def spending(self) -> Any:
        return hc.Ledger.open(self.path).spending("people")


@dataclass(frozen=True)
class _Node:
    """The releases that may come next, and those after them."""

    book: _Book
    next: tuple[tuple[hc.Protocol, "_Node"], ...] = ()

    @classmethod
    def of(cls, book: _Book, made: Releases, depth: int) -> "_Node":
        accepted = []
        for at, protocol in enumerate(made.later if depth else ()):
            after = book.copied(f"{book.path.stem}-{at}.db")
            if after.takes(protocol):
                accepted.append((protocol, cls.of(after, made, depth - 1)))
        return cls(book, tuple(accepted))

    @property
    def last(self) -> _Book:
        return self.next[-1][1].last if self.next else self.book


def _choices(tree: _Node, text: str, rule: str | None) -> list[_Node]:
    """The releases that earlier answers may choose, according to the ledger."""
    composed = [line for line in text.splitlines() if "compose" in line]
    if rule == "adaptive" or not composed:
        return [tree]
    if any(re.search("curve|protocol", line) for line in composed):
        return [_Node(tree.book, (one,)) for one in tree.next]  # each by itself
    # The sequence of costs is fixed, but not the questions.
    alike = {(protocol.budget, protocol.guarantee.delta > 0) for protocol, _ in tree.next}
    return [
        _Node(
            tree.book,
            tuple(one for one in tree.next if (one[0].budget, one[0].guarantee.delta > 0) == spent),
        )
        for spent in alike
    ]


def _chain(charged: Sequence[hc.Protocol]) -> _Node:
    node = _Node(_Book(Path()))
    for protocol in reversed(charged):
        node = _Node(node.book, ((protocol, node),))
    return node


def _false(made: Releases, reading: Reading, start: _Node) -> Iterator[Finding]:
    factor = math.exp(reading.epsilon)
    found = _worst(start, np.ones(1), np.ones(1), factor)
    if found - _ERROR * (1 + factor) > reading.delta:
        yield Finding(str(made), reading, float(found), "by the worst choice of what comes next")


def _worst(node: _Node, one: Array, other: Array, factor: float) -> float:
    """The largest divergence from here on, summed over the outcomes so far with these chances."""
    best = np.maximum(one - factor * other, 0.0)
    for protocol, after in node.next:
        for more, less in pairs(protocol):
            ones, others = np.multiply.outer(one, more), np.multiply.outer(other, less)
            if after.next:
                gains = np.array(
                    [_worst(after, *both, factor) for both in zip(ones, others, strict=True)]
                )
            else:
                gains = np.maximum(ones - factor * others, 0.0).sum(axis=1)
            best = np.maximum(best, gains)
    return float(best.sum())


@lru_cache(maxsize=64)
def pairs(protocol: hc.Protocol) -> list[tuple[Array, Array]]:
    """The pairs with the largest divergence at some ε."""
    found = adversary.seen((Crowd(protocol, protocol.crowd.honest),)).pairs
    best = set()
    for epsilon in (0.0, 0.1, 0.3, 0.6, 1.0):
        factor = math.exp(epsilon)
        gains = [float(np.maximum(p.one - factor * p.other, 0).sum()) for p in found]
        best.add(int(np.argmax(gains)))
    turned = [(found[at].other, found[at].one) for at in best]
    return [_few(*pair) for pair in [*((found[at].one, found[at].other) for at in best), *turned]]


def _few(one: Array, other: Array) -> tuple[Array, Array]:
    """Merge outcomes with the same likelihood ratio. If there are very many, merge neighbors."""
    some = (one > 0) | (other > 0)
    one, other = one[some], other[some]
    order = np.argsort(one / (one + other), kind="stable")
    told = (one / (one + other))[order]
    new = np.concatenate([[True], np.diff(told) > 1e-12])
    which = np.cumsum(new) - 1
    which = which * min(1.0, _OUTCOMES / (which[-1] + 1))
    few = np.zeros((2, int(which[-1]) + 1))
    for side, law in zip(few, (one, other), strict=True):
        np.add.at(side, which.astype(int), law[order])
    return few[0], few[1]
