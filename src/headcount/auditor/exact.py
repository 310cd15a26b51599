"""Exact audits: all outcomes of a small crowd are listed, for all pairs of neighboring datasets.

A bundle consists of all messages that a person sends, without their order. The law of a value maps
each bundle to its probability, which is a fraction. A randomizer is described by the laws of all
values. Registered protocols state their laws. For your own randomizer, write a function that
returns the law of a value.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations_with_replacement, permutations, product
from operator import add
from typing import Any, TypeAlias

import numpy as np

from headcount.auditor.losses import Law, Loss, least_loss
from headcount.auditor.view import View
from headcount.auditor.views import checked_view, promised, seen_people
from headcount.core import checks
from headcount.core.budget import Trust
from headcount.core.errors import InvalidParameter
from headcount.core.messages import Batch
from headcount.core.protocol import Protocol
from headcount.core.randomizer import Bundle
from headcount.core.shuffler import NoiseLaw, Shuffler
from headcount.core.table import Table, short
from headcount.core.tally import Tally
from headcount.core.task import all_codes

Counts: TypeAlias = tuple[int, ...]
MOST_OUTCOMES = 200_000  # a view with more outcomes is refused
MOST_PEOPLE = 64
MOST_VALUES = 64
MOST_DATASETS = 4096  # the largest number of datasets that are tried if the order of people matters
_RARE: Bundle = (((-1,), 1),)  # stands for all rare bundles that a law leaves out
_MOST_RATIO = Fraction(10**9)  # cap on the certified e^ε when a law leaves out rare bundles
_RELEASED = (View.CENTRAL, View.SHUFFLER)  # views that show a release
_ROUNDING = 1e-9  # a claim is refuted only if ε exceeds it by more than this relative amount


@dataclass(frozen=True)
class ExactAudit:
    """The least ε for the given δ, with two datasets and an event that show it."""

    view: View
    users: int
    delta: float
    claim: float | None
    dataset: tuple[Any, ...]
    neighbor: tuple[Any, ...]
    loss: Loss

    @property
    def epsilon(self) -> float:
        """The least ε for this δ, or `inf` if no ε is large enough."""
        return self.loss.epsilon

    @property
    def refuted(self) -> bool:
        """Whether the claim is less than the least ε."""
        return self.claim is not None and self.epsilon > self.claim * (1 + _ROUNDING)

    @property
    def verdict(self) -> str:
        """One of "refuted", "kept" and "no claim"."""
        return "no claim" if self.claim is None else "refuted" if self.refuted else "kept"

    def table(self) -> Table:
        """The claim, the least ε, and the event that shows it."""
        title = {
            "refuted": "Refuted: less privacy than was claimed",
            "kept": "Kept: no event of any two neighboring datasets shows less privacy",
            "no claim": "Computed, without a claim",
        }[self.verdict]
        return Table(
            ("claimed ε", "at δ", "least ε", "view", "people"),
            (
                (
                    "none" if self.claim is None else short(self.claim),
                    short(self.delta),
                    "none is enough" if self.loss.ratio is None else short(self.epsilon),
                    str(self.view),
                    str(self.users),
                ),
            ),
            title=title,
            notes=(
                f"event: {self._shown_event}",
                f"it has a probability of {short(float(self.loss.chance))} for {self.dataset}",
                f"and of {short(float(self.loss.other_chance))} for {self.neighbor}",
            ),
            words=0,
        )

    @property
    def _shown_event(self) -> str:
        if not self.loss.event:
            return "none"
        first, others = self.loss.event[0], len(self.loss.event) - 1
        shown = str(first) if self.view in _RELEASED else _copies(first)
        return f"{shown}, or one of {others:,} others" if others else shown

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table().html()

    def to_dict(self) -> dict[str, Any]:
        """The audit and its verdict as a dictionary for JSON. None stands for infinity."""
        fields = asdict(self)
        del fields["loss"]
        return {
            "verdict": self.verdict,
            **fields,
            "epsilon": None if self.loss.ratio is None else self.epsilon,
            "refuted": self.refuted,
            "event": [str(outcome) for outcome in self.loss.event],
            "chance": float(self.loss.chance),
            "other_chance": float(self.loss.other_chance),
        }


def exact_audit(
    target: Protocol | Callable[[Any], Mapping[Any, Fraction]],
    values: Sequence[Any] | None = None,
    *,
    users: int | None = None,
    view: View | Trust | str | None = None,
    delta: float | None = None,
    claim: float | None = None,
) -> ExactAudit:
    """The least ε for which a view is (ε, δ)-private, for all neighboring datasets of `values`.

    In the local view, the adversary sees one person's messages. In the shuffle view, the adversary
    sees the messages of `users` people without their order. In the central view, the adversary sees
    the release. If `target` is a function in this view, it must map a dataset (a tuple of values)
    to the law of the release. In the shuffler view, the adversary is a shuffler that knows the
    noise it added, and sees the release. If `target` is a protocol, `values`, `users`, `view`,
    `delta` and `claim` have defaults. Real numbers cannot be listed, so the result holds only for
    the given `values`. If a protocol's law leaves out rare bundles, the result is a lower bound.

        exact_audit(protocol("local.k-ary", Histogram(4), Budget(1), Crowd(5)))
        exact_audit(lambda x: {((x, 1), (1 - x, 1)): Fraction(1)}, [0, 1], users=3, view="shuffle")
    """
    if isinstance(target, Protocol):
        view = target.trust if view is None else view
        users = seen_people(target) if users is None else users
        values = _values(target) if values is None else values
        if claim is None:
            claim, delta = promised(target, checked_view(view, target), delta)
    elif not callable(target):
        raise InvalidParameter(
            f"`target` must be a protocol or a function, got {checks.shown(target)}"
        )
    delta = 0.0 if delta is None else checks.real("delta", delta)
    claim = None if claim is None else checks.real("claim", claim)
    values = _listed(values)
    seen = checked_view(View.LOCAL if view is None else view, target)
    people = 1 if seen is View.LOCAL else checks.whole("users", users, low=1, high=MOST_PEOPLE)
    law_of, rare = _view(target, values, seen)
    in_order = seen is View.CENTRAL and not isinstance(target, Protocol)
    worst: ExactAudit | None = None
    exactly = Fraction(delta)
    silent = True
    for dataset, neighbor in _neighbors(values, people, in_order=in_order):
        silent = silent and all(map(_nothing, law_of(dataset)))
        loss = _certain(law_of(dataset), law_of(neighbor), exactly, people * rare)
        if worst is None or loss > worst.loss:
            worst = ExactAudit(seen, people, delta, claim, dataset, neighbor, loss)
    assert worst is not None
    if silent:
        raise InvalidParameter("a law must have an outcome that is not None, got only None")
    return worst


def _nothing(outcome: Any) -> bool:
    """Whether an outcome is None, or consists of messages that are all None."""
    if isinstance(outcome, tuple) and outcome:
        return all(isinstance(pair, tuple) and pair and pair[0] is None for pair in outcome)
    return outcome is None


def _values(protocol: Protocol) -> Sequence[Any]:
    """All values that people may hold. If a range of reals is divided into cells, the values are
    the middles of the cells.
    """
    task, bounded = protocol.task, protocol.task.bounded
    if bounded is None and task.domain <= MOST_VALUES:
        return all_codes(task)
    if bounded is not None and bounded.whole and bounded.domain <= MOST_VALUES:
        return range(int(bounded.low), int(bounded.high) + 1)
    if bounded is not None and task.numbered and task.domain <= MOST_VALUES:
        middles = (np.arange(task.domain) + 0.5) / task.domain
        places: list[float] = (bounded.low + float(bounded.span) * middles).tolist()
        return places
    raise InvalidParameter(
        f"`values` must be given for a task with more than {MOST_VALUES} values, got {task}"
    )


def _listed(values: Any) -> Sequence[Any]:
    try:
        if 2 <= len(set(values)) <= MOST_VALUES:
            return list(values)
    except TypeError:
        pass
    raise InvalidParameter(
        f"`values` must be 2 to {MOST_VALUES} values that people hold, got {checks.shown(values)}"
    )


def _view(
    target: Protocol | Callable[[Any], Law], values: Sequence[Any], seen: View
) -> tuple[Callable[[tuple[Any, ...]], Law], Fraction]:
    """Two results: a function that maps a dataset to the law of the view, and the largest
    probability that the law of a value leaves out.
    """
    if isinstance(target, Protocol):
        laws, rare = _stated(target, values)
        if seen is View.CENTRAL:
            return _Releases(target, laws).view, rare
        if seen is View.SHUFFLER:
            return _Published(target, laws).view, rare
        shuffler = target.shuffler if seen is View.SHUFFLE else Shuffler()
        return _Crowds(laws, shuffler).view, rare
    if seen is View.CENTRAL:
        cached = lru_cache(maxsize=MOST_DATASETS)(lambda dataset: _asked(target, dataset))
        return cached, Fraction(0)
    sent = {value: _sent(target, value) for value in values}
    return _Crowds(sent, Shuffler()).view, Fraction(0)


def _asked(target: Callable[[Any], Law], value: Any) -> Law:
    """The law that the user's function returns for a value."""
    try:
        law = dict(target(value))
    except (Exception, SystemExit) as error:  # the user's function may raise anything
        raise InvalidParameter(
            f"a law must be given for {value!r}, got {type(error).__name__}: {error}"
        ) from error
    chances = list(law.values())
    exact = all(isinstance(chance, Fraction | int) and chance >= 0 for chance in chances)
    if not exact or sum(chances, Fraction(0)) != 1:
        raise InvalidParameter(
            f"a law must have nonnegative fractions that add up to 1, got {chances}"
        )
    return law


def _sent(target: Callable[[Any], Law], value: Any) -> Law:
    """The law of a person's messages without their order, as the user's function states it."""
    law = _asked(target, value)
    try:
        return {tuple((message, int(count)) for message, count in bag): law[bag] for bag in law}
    except (TypeError, ValueError):
        raise InvalidParameter(
            f"each outcome must have the form ((message, copies), …), got {next(iter(law))!r}"
        ) from None


def _stated(protocol: Protocol, values: Sequence[Any]) -> tuple[dict[Any, Law], Fraction]:
    """The law of each value, and the largest probability that one of these laws leaves out. The
    outcome `_RARE` stands for all bundles that a law leaves out.
    """
    laws: dict[Any, Law] = {}
    most = Fraction(0)
    for value in values:
        law = protocol.law(value)
        if law is None:
            raise InvalidParameter("the law has too many outcomes to list")
        rare = 1 - sum(law.values(), Fraction(0))
        laws[value] = {**law, _RARE: rare} if rare else law
        most = max(most, rare)
    return laws, most


def _certain(law: Law, other: Law, delta: Fraction, rare: Fraction) -> Loss:
    """A lower bound on the loss. Each of the two laws may leave out outcomes with a probability of
    at most `rare`. Whatever these outcomes are, they change δ by at most rare·(1 + e^ε).
    """
    loss = least_loss(law, other, delta)
    if not rare:
        return loss
    most = _MOST_RATIO if loss.ratio is None else min(loss.ratio, _MOST_RATIO)
    loss = least_loss(law, other, delta + rare * (1 + most))
    return replace(loss, ratio=most) if loss.ratio is None or loss.ratio > most else loss


def _neighbors(
    values: Sequence[Any], people: int, *, in_order: bool
) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """All pairs of datasets that differ in one person's value. If `in_order`, the order of the
    values in a dataset matters.
    """
    if in_order:
        if len(values) ** people > MOST_DATASETS:
            raise InvalidParameter(
                f"there must be at most {MOST_DATASETS} datasets to try them all, got more"
            )
        crowds: Iterator[tuple[Any, ...]] = product(values, repeat=people - 1)
        places = range(people)
    else:
        crowds = combinations_with_replacement(values, people - 1)
        places = range(people - 1, people)
    for others in crowds:
        for place in places:
            for one, other in permutations(values, 2):
                first, last = others[:place], others[place:]
                yield (*first, one, *last), (*first, other, *last)


def _copies(bundle: Bundle) -> str:
    """The messages of a bundle in words, each with its number of copies."""
    return ", ".join(f"{count} × {message}" for message, count in bundle) or "no messages"


class _Crowds:
    """The laws of a crowd's messages. An outcome is the number of copies of each message."""

    def __init__(self, laws: Mapping[Any, Law], shuffler: Shuffler) -> None:
        bags = [bag for law in laws.values() for bag in law]
        kinds = sorted({message for bag in bags for message, _ in bag}, key=repr)
        self.kinds = kinds
        self._none = (0,) * len(kinds)
        self._shuffler = shuffler
        self._laws = {
            value: {
                tuple(dict(bag).get(kind, 0) for kind in kinds): Fraction(chance)
                for bag, chance in law.items()
            }
            for value, law in laws.items()
        }
        self._sent: dict[tuple[Any, ...], dict[Counts, Fraction]] = {(): {self._none: Fraction(1)}}

    def view(self, held: tuple[Any, ...]) -> Law:
        """The law of the messages that the shuffler passes on. The shuffler may add noise, and may
        withhold messages with too few copies.
        """
        noise = _noise_law(self._shuffler, len(held))
        out: dict[Bundle, Fraction] = {}
        for (added, alone), its_chance in noise.items():
            more = dict(added)
            for counts, chance in self.sent(held).items():
                mine = {} if alone else dict(zip(self.kinds, counts, strict=True))
                copies = {kind: mine.get(kind, 0) + more.get(kind, 0) for kind in {**mine, **more}}
                passed = [pair for pair in copies.items() if self._shuffler.passes(pair[1])]
                seen = tuple(sorted(passed, key=repr))
                out[seen] = out.get(seen, Fraction(0)) + chance * its_chance
        return out

    def sent(self, held: tuple[Any, ...]) -> dict[Counts, Fraction]:
        """The law of all messages of people who hold these values."""
        if held not in self._sent:
            out: dict[Counts, Fraction] = {}
            for counts, chance in self.sent(held[:-1]).items():
                for more, its_chance in self._laws[held[-1]].items():
                    together = tuple(map(add, counts, more))
                    out[together] = out.get(together, Fraction(0)) + chance * its_chance
            if len(out) > MOST_OUTCOMES:
                raise InvalidParameter(
                    f"a view must have at most {MOST_OUTCOMES} outcomes to be listed, got more"
                )
            self._sent[held] = out
        return self._sent[held]


def _noise_law(shuffler: Shuffler, people: int) -> NoiseLaw:
    noise = shuffler.noise_law(people)
    if noise is None:
        raise InvalidParameter("the law of the noise has too many outcomes to list")
    return noise


class _Releases:
    """The laws of a curator's releases."""

    def __init__(self, protocol: Protocol, laws: Mapping[Any, Law]) -> None:
        if protocol.trust is not Trust.CENTRAL:
            raise InvalidParameter(
                f"`view` must be local or shuffle for {protocol.name}, whose noise is in the "
                "messages, got central"
            )
        self._protocol, self._crowds = protocol, _Crowds(laws, Shuffler())
        self._known: dict[tuple[Any, ...], Law] = {}

    def view(self, held: tuple[Any, ...]) -> Law:
        if held not in self._known:
            out: dict[Any, Fraction] = {}
            for counts, chance in self._crowds.sent(held).items():
                for outcome, its_chance in self._released(counts, len(held)).items():
                    out[outcome] = out.get(outcome, Fraction(0)) + chance * its_chance
            self._known[held] = out
        return self._known[held]

    def _released(self, counts: Counts, people: int) -> Law:
        dtype = self._protocol.alphabet.dtype
        payload = np.repeat(np.array(self._crowds.kinds, dtype=dtype), counts)
        return _release_law(self._protocol, self._protocol.tally(Batch(payload, people)))


class _Published:
    """The joint laws of the release and of the noise that the shuffler added."""

    def __init__(self, protocol: Protocol, laws: Mapping[Any, Law]) -> None:
        self._protocol, self._crowds = protocol, _Crowds(laws, Shuffler())
        self._known: dict[tuple[Any, ...], Law] = {}

    def view(self, held: tuple[Any, ...]) -> Law:
        if held not in self._known:
            self._known[held] = self._view(held)
        return self._known[held]

    def _view(self, held: tuple[Any, ...]) -> Law:
        out: dict[Any, Fraction] = {}
        for (added, alone), its_chance in _noise_law(self._protocol.shuffler, len(held)).items():
            for counts, chance in self._crowds.sent(held).items():
                sent = () if alone else tuple(zip(self._crowds.kinds, counts, strict=True))
                for release, last_chance in self._released((*sent, *added), len(held)).items():
                    seen = added, alone, release
                    out[seen] = out.get(seen, Fraction(0)) + chance * its_chance * last_chance
        return out

    def _released(self, bundle: Bundle, people: int) -> Law:
        """The law of the release for these messages. Without noise from the analyzer, the release
        has only one outcome.
        """
        kinds, copies = zip(*bundle, strict=True)
        payload = np.repeat(np.array(kinds, dtype=self._protocol.alphabet.dtype), copies)
        tally = self._protocol.tally(Batch(payload, people))
        if not self._protocol.estimator.adds_noise:
            return {tuple(tally.counts.tolist()): Fraction(1)}
        return _release_law(self._protocol, tally)


def _release_law(protocol: Protocol, tally: Tally) -> Law:
    law = protocol.estimator.release_law(tally)
    if law is None:
        raise InvalidParameter("the law of the release is unknown or has too many outcomes to list")
    return law
