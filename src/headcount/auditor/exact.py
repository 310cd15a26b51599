"""Exact audits: every outcome of a small crowd is listed, for every pair of neighboring datasets.

A randomizer is known by its law: for each value a mapping from what is sent, messages without
their order, to chances that are fractions. Registered protocols state theirs; for your own, write
it down.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from operator import add
from typing import Any, TypeAlias

from headcount.auditor.losses import Law, Loss, least_loss
from headcount.core import checks
from headcount.core.budget import Trust
from headcount.core.errors import InvalidParameter
from headcount.core.protocol import Protocol
from headcount.core.task import Bounded

Counts: TypeAlias = tuple[int, ...]
MOST_OUTCOMES = 200_000  # of a view, beyond which nothing is listed
MOST_PEOPLE = 64
MOST_VALUES = 64
_ROUNDING = 1e-9  # of an ε, within which floats say the same


@dataclass(frozen=True)
class ExactAudit:
    """The least ε that a crowd has, and two datasets and an event that show it."""

    view: Trust
    users: int
    delta: float
    claim: float | None
    dataset: tuple[Any, ...]
    neighbor: tuple[Any, ...]
    loss: Loss

    @property
    def epsilon(self) -> float:
        return self.loss.epsilon

    @property
    def refuted(self) -> bool:
        """Whether it was claimed to be less."""
        return self.claim is not None and self.epsilon > self.claim * (1 + _ROUNDING)

    def to_dict(self) -> dict[str, Any]:
        found = asdict(self)
        del found["loss"]
        return {
            **found,
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
    view: Trust | str | None = None,
    delta: float | None = None,
    claim: float | None = None,
) -> ExactAudit:
    """The least ε at δ of what an adversary sees, over all neighboring datasets of these values.

    The view is that of one person's messages (local) or of all messages of a crowd of `users`
    without their order (shuffle). A protocol brings its values, honest people and trust; asked for
    no δ, also its claim. Real numbers cannot be listed: the result is for the `values` given.

        exact_audit(protocol("local.k-ary", Histogram(4), Budget(1), Crowd(5)))
        exact_audit(lambda x: {((x, 1), (1 - x, 1)): Fraction(1)}, [0, 1], users=3, view="shuffle")
    """
    if isinstance(target, Protocol):
        view = view or target.trust
        users = target.crowd.honest if users is None else users
        values = _values(target) if values is None else values
        if claim is None and delta is None:
            claim, delta = target.guarantee.epsilon, target.guarantee.delta
    delta = 0.0 if delta is None else checks.real("delta", delta)
    if values is None or len(set(values)) < 2:
        raise InvalidParameter(f"`values` must be two at least that people may hold, got {values}")
    seen = Trust(checks.choice("view", view or Trust.LOCAL, (Trust.LOCAL, Trust.SHUFFLE)))
    people = 1 if seen is Trust.LOCAL else checks.whole("users", users, low=1, high=MOST_PEOPLE)
    least_copies = target.least_copies if isinstance(target, Protocol) else 1
    crowds = _Crowds({value: _law(target, value) for value in values}, least_copies)
    worst: ExactAudit | None = None
    exactly = Fraction(delta)
    for others, value, other in _neighbors(values, people):
        loss = least_loss(crowds.view((*others, value)), crowds.view((*others, other)), exactly)
        if worst is None or loss > worst.loss:
            worst = ExactAudit(seen, people, delta, claim, (*others, value), (*others, other), loss)
    assert worst is not None
    return worst


def _values(protocol: Protocol) -> Sequence[Any]:
    """Everything that people may hold."""
    task = protocol.task
    if not isinstance(task, Bounded):
        return range(task.domain)
    if task.whole and task.domain <= MOST_VALUES:
        return range(int(task.low), int(task.high) + 1)
    raise InvalidParameter(f"`values` must be given where there is no list, got none for {task}")


def _law(target: Protocol | Callable[[Any], Law], value: Any) -> Law:
    law = target.law(value) if isinstance(target, Protocol) else target(value)
    if law is None:
        raise InvalidParameter("the law must be short enough to list, got none")
    total = sum(law.values(), Fraction(0))
    if not all(isinstance(chance, Fraction | int) for chance in law.values()) or total != 1:
        raise InvalidParameter(f"a law must have fractions that add up to 1, got {float(total)}")
    return law


def _neighbors(values: Sequence[Any], people: int) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    """What the others hold, and two different values of the one who is replaced."""
    for others in combinations_with_replacement(values, people - 1):
        for value in values:
            for other in values:
                if value != other:
                    yield others, value, other


class _Crowds:
    """Laws of how often each message occurs among those of a crowd."""

    def __init__(self, laws: Mapping[Any, Law], least_copies: int) -> None:
        kinds = sorted(
            {message for law in laws.values() for bag in law for message, _ in bag}, key=repr
        )
        self._none = (0,) * len(kinds)
        self._least_copies = least_copies
        self._laws = {
            value: {
                tuple(dict(bag).get(kind, 0) for kind in kinds): Fraction(chance)
                for bag, chance in law.items()
            }
            for value, law in laws.items()
        }
        self._sent: dict[tuple[Any, ...], dict[Counts, Fraction]] = {(): {self._none: Fraction(1)}}

    def view(self, held: tuple[Any, ...]) -> Law:
        """What a shuffler passes on, which withholds messages with too few copies."""
        out: dict[Counts, Fraction] = {}
        for counts, chance in self._all_sent(held).items():
            seen = tuple(count if count >= self._least_copies else 0 for count in counts)
            out[seen] = out.get(seen, Fraction(0)) + chance
        return out

    def _all_sent(self, held: tuple[Any, ...]) -> dict[Counts, Fraction]:
        if held not in self._sent:
            out: dict[Counts, Fraction] = {}
            for counts, chance in self._all_sent(held[:-1]).items():
                for more, its_chance in self._laws[held[-1]].items():
                    together = tuple(map(add, counts, more))
                    out[together] = out.get(together, Fraction(0)) + chance * its_chance
            if len(out) > MOST_OUTCOMES:
                raise InvalidParameter(
                    f"a view must have {MOST_OUTCOMES} outcomes at most to be listed, got more"
                )
            self._sent[held] = out
        return self._sent[held]
