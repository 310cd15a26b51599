"""The inverse questions: which epsilon, or how large a crowd, does a margin of error need?

Every answer is found by asking the protocols themselves: with it the margin holds, and with one
percent less it does not.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any, Literal, TypeAlias

from headcount.core import checks
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.errors import InvalidParameter
from headcount.core.guarantee import rounded_up
from headcount.core.table import Table, short, size
from headcount.core.task import Task
from headcount.planner.candidate import Candidate, Refusal, assess
from headcount.planner.margin import Margin
from headcount.planner.plan import Plan, crowd_words, plan, trust_of
from headcount.protocols.registry import protocol_names

Progress: TypeAlias = Callable[[str, float], None]
LEAST_ASKED, MOST_ASKED = 1e-3, 100.0  # epsilons
MOST_PEOPLE = 10**12
_CLOSE = 1.005  # how near a limit is found, as a factor
_FALLING = 0.97  # what ten times the people must make of an error
_ASIDE = 1.0007  # how far beside the crossing of a line it is looked for


@dataclass(frozen=True)
class Need:
    """What a protocol needs for a margin: an epsilon, or a crowd of `users`, at the most
    `most_users` where the error grows with the crowd.
    """

    protocol: str
    trust: Trust
    epsilon: float
    users: int
    most_users: int | None
    candidate: Candidate

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "candidate": self.candidate.to_dict()}


@dataclass(frozen=True)
class Needs:
    """The answer to an inverse question: protocols that can, those that need least first."""

    task: Task
    margin: Margin
    asked: Literal["epsilon", "users"]
    given: str  # in words
    answers: tuple[Need, ...]
    refused: tuple[Refusal, ...]

    def table(self) -> Table:
        """What each protocol needs, least first."""
        what = "smallest epsilon" if self.asked == "epsilon" else "smallest crowd"
        return Table(
            title=f"{self.task}: {what} for {self.margin} with {100 * self.margin.confidence:g} % "
            f"confidence; {self.given}",
            columns=(
                "protocol",
                "trust",
                "ε" if self.asked == "epsilon" else "people",
                "margin",
                "standard error",
                "messages",
            ),
            rows=tuple(
                (
                    need.protocol,
                    str(need.trust),
                    self._needed(need),
                    size(need.candidate.margin),
                    size(need.candidate.standard_error),
                    size(need.candidate.messages_per_user),
                )
                for need in self.answers
            ),
            words=2,
            spare=("trust", "messages", "standard error"),
            notes=tuple(self._notes()),
        )

    def _notes(self) -> Iterator[str]:
        yield from (f"refused: {one}" for one in self.refused)
        if any(need.most_users for need in self.answers):
            yield "Errors that grow with the crowd allow so many people at most."
        if self.task.margin_note:
            yield self.task.margin_note

    def _needed(self, need: Need) -> str:
        if self.asked == "epsilon":
            return rounded_up(need.epsilon)
        return f"{need.users:,}" + (f" to {need.most_users:,}" if need.most_users else "")

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table().html()

    def to_dict(self) -> dict[str, Any]:
        """The answer for JSON."""
        return {
            "task": self.task.to_dict(),
            "margin": asdict(self.margin),
            "asked": self.asked,
            "given": self.given,
            "answers": [need.to_dict() for need in self.answers],
            "refused": [refusal.to_dict() for refusal in self.refused],
        }


def needed_epsilon(
    task: Task,
    crowd: Crowd,
    margin: Margin,
    *,
    delta: float = 0.0,
    trust: Trust | str | None = None,
    progress: Progress = lambda name, share: None,
) -> Needs:
    """The smallest epsilon, 0.001 at least, with which each protocol stays within a margin.

    needed_epsilon(Count(), Crowd(20_000), Margin(0.01, share=True), delta=1e-6)
    """
    _check(task, margin)
    checks.instance("crowd", crowd, Crowd)
    allowed = margin.allowed(task, crowd.users)
    start = [1.0]  # what the protocol before needed is a good guess

    def attempt(name: str) -> Need | Refusal:
        asked: list[Candidate | Refusal] = []

        def ask(epsilon: float) -> Candidate | Refusal:
            asked.append(assess(name, task, Budget(epsilon, delta), crowd, margin.confidence))
            return asked[-1]

        def excess(epsilon: float) -> float:
            return _excess(ask(epsilon), allowed)

        around = _around(excess, start[0])
        if around is None:
            nearest = min(asked, key=lambda found: _excess(found, allowed))
            return _refusal(nearest, margin, f"epsilon is {short(MOST_ASKED)} at most")
        low, epsilon = around
        epsilon = _least(excess, low, epsilon) if low else epsilon
        for less in (epsilon / 2, epsilon / 4):  # where the law of an interval changes
            if less > LEAST_ASKED and excess(less) <= 1:
                epsilon = _least(excess, max(less / 10, LEAST_ASKED), less)
        start[0] = epsilon
        found = ask(epsilon)
        assert isinstance(found, Candidate)
        return Need(name, found.trust, epsilon, crowd.users, None, found)

    known = f"{crowd_words(crowd)}, δ = {short(delta)}"
    return _answers(task, margin, "epsilon", known, trust, attempt, progress)


def needed_crowd(
    task: Task,
    budget: Budget,
    margin: Margin,
    *,
    dishonest: float = 0.0,
    trust: Trust | str | None = None,
    progress: Progress = lambda name, share: None,
) -> Needs:
    """The smallest crowd with which each protocol stays within a margin.

    `dishonest` is the share of people who may not follow the protocol. Errors of counts and sums
    that grow with the crowd have a largest crowd as well.

        needed_crowd(Count(), Budget(1, 1e-6), Margin(0.01, share=True))
    """
    _check(task, margin)
    checks.instance("budget", budget, Budget)

    def attempt(name: str) -> Need | Refusal:
        def ask(users: float) -> Candidate | Refusal:
            crowd = crowd_with(round(users), dishonest)
            return assess(name, task, budget, crowd, margin.confidence)

        def excess(users: float) -> float:
            return _excess(ask(users), margin.allowed(task, round(users)))

        people = 1.0
        while excess(people) > 1 and people < MOST_PEOPLE:
            people *= 10
            found = ask(people)
            possible = task.answer_size(round(people))  # half of which margins are at most
            useful = isinstance(found, Candidate) and found.margin < 0.4 * possible
            if useful and excess(people) > _FALLING * excess(people / 10):
                break  # more people are no help
        if excess(people) > 1:
            return _refusal(
                ask(people), margin, f"and more than {short(people)} people are no help"
            )
        users = round(people if people == 1 else _least(excess, people / 10, people, integers=True))
        found = ask(users)
        assert isinstance(found, Candidate)
        grows = task.answer_size(2) > task.answer_size(1) and not margin.share
        most = _most(excess, people) if grows else None
        return Need(name, found.trust, budget.epsilon, users, most, found)

    honest = f"{100 * (1 - dishonest):.4g} % honest, " if dishonest else ""
    known = f"{honest}ε = {short(budget.epsilon)}, δ = {short(budget.delta)}"
    return _answers(task, margin, "users", known, trust, attempt, progress)


def _answers(
    task: Task,
    margin: Margin,
    asked: Literal["epsilon", "users"],
    given: str,
    trust: Trust | str | None,
    attempt: Callable[[str], Need | Refusal],
    progress: Progress,
) -> Needs:
    found = []
    names = protocol_names(task, trust_of(trust))
    for at, name in enumerate(names):
        progress(name, at / len(names))
        found.append(attempt(name))
    answers = [one for one in found if isinstance(one, Need)]
    answers.sort(key=lambda need: (getattr(need, asked), need.candidate.margin))
    refused = tuple(one for one in found if isinstance(one, Refusal))
    return Needs(task, margin, asked, given, tuple(answers), refused)


def _check(task: Task, margin: Margin) -> None:
    checks.instance("task", task, Task)
    checks.instance("margin", margin, Margin)


def _excess(found: Candidate | Refusal, allowed: float) -> float:
    """How many times larger an error is than allowed."""
    return found.margin / allowed if isinstance(found, Candidate) else math.inf


def _refusal(found: Candidate | Refusal, margin: Margin, reach: str) -> Refusal:
    if isinstance(found, Refusal):
        return found
    reason = (
        f"its margin is ±{short(found.margin, 4)} at least, and {margin} was asked for; {reach}"
    )
    return Refusal(found.protocol, found.trust, reason)


def _around(excess: Callable[[float], float], start: float) -> tuple[float, float] | None:
    """An ε that is too small, or 0, and one that is enough, near each other; none if there is none.

    Errors fall about like 1/ε, so that ε·excess is just enough: a little more or less is on the
    other side. Beyond some ε a protocol may have no parameters.
    """
    low, high, most = 0.0, math.inf, MOST_ASKED
    at, below = start, math.inf  # the excess at low
    while True:
        found = excess(at)
        if found <= 1:
            high = at
            if low or at <= LEAST_ASKED:
                return low, high
            at = max(at * max(found / 1.01, 0.1), LEAST_ASKED)
        elif math.isinf(found) and below < math.inf:
            most = at
            if most / low < 1.2:
                return None
            at = math.sqrt(low * most)
        else:
            low, below = at, found
            if high < math.inf:
                return low, high
            if at >= most:
                return None
            at = min(at * (10.0 if math.isinf(found) else min(found * 1.01, 10.0)), most)


def _least(
    excess: Callable[[float], float], low: float, high: float, *, integers: bool = False
) -> float:
    """The least x with excess(x) ≤ 1, which `high` has, to one in 200.

    On logarithmic scales errors are nearly straight lines, which say where to look next: a little
    above the crossing, a little below it, and in the middle to make sure. Where errors go up and
    down, the search goes on until 1 % less fails.
    """
    below, above = excess(low), excess(high)
    if below <= 1:
        return low
    for step in count():
        if high / low <= _CLOSE or (integers and high - low <= 1):
            break
        guess = math.sqrt(low * high)
        if math.isfinite(below) and above > 0 and step % 3 < 2:
            share = math.log(below) / (math.log(below) - math.log(above))
            guess = low * (high / low) ** share * (_ASIDE if step % 3 == 0 else 1 / _ASIDE)
        inside = (high / low) ** 0.01
        guess = min(max(guess, low * inside), high / inside)
        if integers:
            guess = min(max(round(guess), low + 1), high - 1)
        found = excess(guess)
        if found <= 1:
            high, above = guess, found
        else:
            low, below = guess, found
    less = math.floor(0.99 * high) if integers else 0.99 * high
    if less >= (1 if integers else LEAST_ASKED) and excess(less) <= 1:
        return _least(excess, max(less / 10, 1) if integers else less / 10, less, integers=integers)
    return high


def _most(excess: Callable[[float], float], people: float) -> int | None:
    """The largest crowd that is still within the margin, where the error grows with the crowd."""
    if not 2 * excess(people) < excess(100 * people) < math.inf:
        return None
    low = people
    while excess(low * 10) <= 1:
        low *= 10
        if low >= MOST_PEOPLE:
            return None
    high = low * 10
    while high / low > _CLOSE and high - low > 1:
        middle = float(round(math.sqrt(low * high)))
        low, high = (middle, high) if excess(middle) <= 1 else (low, middle)
    return round(low)


# What trust and honesty cost -------------------------------------------------------------------


@dataclass(frozen=True)
class Price:
    """How many people each trust needs for the accuracy that another one has."""

    trust: Trust
    protocol: str
    users: int
    times: float
    share: float  # the margin, of all that could be

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        whom = "anyone" if self.trust is Trust.LOCAL else "a curator"
        return (
            f"the same margin, {100 * self.share:.3g} % of what is possible, without trusting "
            f"{whom} needs {size(self.times)} times the people: {self.users:,}, "
            f"with {self.protocol}"
        )


def price_of_trust(found: Plan, progress: Progress = lambda name, share: None) -> list[Price]:
    """For the accuracy of the plan's best protocol of the most trusting kind, relative to the
    crowd: how many people the other trusts need, with the best of their protocols then.
    """
    best = {trust: found.best_of(trust) for trust in Trust}
    present = [(trust, one) for trust, one in best.items() if one is not None]
    if not present:
        return []
    (trust, reference), *others = present
    users = found.crowd.users
    goal = reference.margin / found.task.answer_size(users)
    prices = [Price(trust, reference.protocol, users, 1.0, goal)]
    dishonest = 1 - found.crowd.honest / users
    if goal >= 1:
        return prices
    for other, _ in others:
        needs = needed_crowd(
            found.task,
            found.budget,
            Margin(goal, found.confidence, share=True),
            dishonest=dishonest,
            trust=other,
            progress=progress,
        )
        if needs.answers:
            need = needs.answers[0]
            prices.append(Price(other, need.protocol, need.users, need.users / users, goal))
    return prices


def dishonest_plans(
    task: Task,
    budget: Budget,
    users: int,
    shares: Iterable[float],
    *,
    confidence: float = 0.95,
    trust: Trust | str | None = None,
    progress: Progress = lambda name, share: None,
) -> dict[float, Plan]:
    """A plan for each share of people who may not follow the protocol."""
    plans = {}
    for share in shares:
        crowd = crowd_with(users, share)
        plans[share] = plan(
            task, budget, crowd, confidence=confidence, trust=trust, progress=progress
        )
    return plans


def crowd_with(users: int, dishonest: float) -> Crowd:
    """A crowd of which such a share may not follow the protocol."""
    if not 0 <= checks.real("dishonest", dishonest) < 1:
        raise InvalidParameter(f"`dishonest` must be a share from 0, below 1, got {dishonest}")
    everyone = Crowd(users).users
    return Crowd(everyone, max(1, everyone - math.ceil(dishonest * everyone - 1e-9)))
