"""Answers inverse questions: which epsilon, or how large a crowd, does a margin of error need?

A search assesses each protocol at several settings. The margin holds with the epsilon or crowd that
is found, but not with one percent less.
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
from headcount.core.table import Table, counted_people, short, size
from headcount.core.task import Task
from headcount.planner.candidate import Candidate, Refusal, assess
from headcount.planner.margin import Margin
from headcount.planner.plan import Plan, crowd_words, plan, trust_of
from headcount.protocols.registry import protocol_names

Progress: TypeAlias = Callable[[str, float], None]
LEAST_ASKED, MOST_ASKED = 1e-3, 100.0  # the range in which an epsilon is searched for
MOST_PEOPLE = 10**12  # the largest crowd that is searched for
_CLOSE = 1.005  # a search stops when the ends of its range differ by less than this factor
# More people help if ten times as many reduce the margin, divided by the allowed margin, to at most
# this share.
_FALLING = 0.97
_ASIDE = 1.0007  # a search tries points that are above and below its guess by this factor


@dataclass(frozen=True)
class Need:
    """The epsilon or the crowd of `users` that a protocol needs for a margin.

    If the error grows with the crowd, the margin holds only up to a crowd of `most_users`.
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
    """The answer to an inverse question. Protocols that need the least come first."""

    task: Task
    margin: Margin
    asked: Literal["epsilon", "users"]  # what was searched for
    given: str  # a description of the other settings
    answers: tuple[Need, ...]
    refused: tuple[Refusal, ...]

    def table(self) -> Table:
        """A table of the epsilon or crowd that each protocol needs. The smallest come first."""
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
                    size(self.margin.total(need.candidate.margin, self.task, need.users)),
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
        yield from (f"refused: {refusal}" for refusal in self.refused)
        if any(need.most_users for need in self.answers):
            yield (
                "If the table shows a range of people, the error grows with the crowd, and a "
                "larger crowd misses the margin."
            )
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
        """The answer as a dictionary for JSON."""
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
    """The smallest epsilon, from 0.001 on, with which each protocol stays within a margin.

    `delta` is the δ of every budget that is tried.

        needed_epsilon(Count(), Crowd(20_000), Margin(0.01, share=True), delta=1e-6)
    """
    _check(task, margin)
    checks.instance("crowd", crowd, Crowd)
    start = [1.0]  # the first guess is the epsilon that the previous protocol needed

    def attempt(name: str) -> Need | Refusal:
        tried: list[Candidate | Refusal] = []

        def assess_at(epsilon: float) -> Candidate | Refusal:
            tried.append(assess(name, task, Budget(epsilon, delta), crowd, margin.confidence))
            return tried[-1]

        def excess(epsilon: float) -> float:
            return _excess(assess_at(epsilon), margin, task, crowd.users)

        around = _around(excess, start[0])
        if around is None:
            nearest = min(tried, key=lambda one: _excess(one, margin, task, crowd.users))
            return _refusal(nearest, margin, f"the largest epsilon tried is {short(MOST_ASKED)}")
        low, epsilon = around
        epsilon = _least(excess, low, epsilon) if low else epsilon
        # As ε changes, the interval may switch to a different distribution, and then the margin
        # jumps. So a much smaller ε may be enough.
        for less in (epsilon / 2, epsilon / 4):
            if less > LEAST_ASKED and excess(less) <= 1:
                epsilon = _least(excess, max(less / 10, LEAST_ASKED), less)
        start[0] = epsilon
        candidate = assess_at(epsilon)
        assert isinstance(candidate, Candidate)
        return Need(name, candidate.trust, epsilon, crowd.users, None, candidate)

    given = f"{crowd_words(crowd)}, δ = {short(delta)}"
    return _answers(task, margin, "epsilon", given, trust, attempt, progress)


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

    `dishonest` is the share of people who might not follow the protocol. If the error of a count or
    sum grows with the crowd, the largest crowd within the margin is found, too.

        needed_crowd(Count(), Budget(1, 1e-6), Margin(0.01, share=True))
    """
    _check(task, margin)
    checks.instance("budget", budget, Budget)

    def attempt(name: str) -> Need | Refusal:
        def assess_with(users: float) -> Candidate | Refusal:
            crowd = crowd_with(round(users), dishonest)
            return assess(name, task, budget, crowd, margin.confidence)

        def excess(users: float) -> float:
            return _excess(assess_with(users), margin, task, round(users))

        people = 1.0
        while excess(people) > 1 and people < MOST_PEOPLE:
            people *= 10
            result = assess_with(people)
            # A margin is at most half of the range of possible answers. Close to this limit, the
            # margin does not show whether more people help.
            possible = task.answer_size(round(people))
            useful = isinstance(result, Candidate) and result.margin < 0.4 * possible
            useful = useful and not margin.sampling  # a larger sample always helps
            if useful and excess(people) > _FALLING * excess(people / 10):
                break  # more people do not help
        if excess(people) > 1:
            return _refusal(
                assess_with(people), margin, f"more than {short(people)} people would not help"
            )
        users = round(people if people == 1 else _least(excess, people / 10, people, integers=True))
        candidate = assess_with(users)
        assert isinstance(candidate, Candidate)
        grows = task.answer_size(2) > task.answer_size(1) and not margin.share
        most = _most(excess, people) if grows else None
        return Need(name, candidate.trust, budget.epsilon, users, most, candidate)

    honest = f"{100 * (1 - dishonest):.4g} % honest, " if dishonest else ""
    given = f"{honest}ε = {short(budget.epsilon)}, δ = {short(budget.delta)}"
    return _answers(task, margin, "users", given, trust, attempt, progress)


def _answers(
    task: Task,
    margin: Margin,
    asked: Literal["epsilon", "users"],
    given: str,
    trust: Trust | str | None,
    attempt: Callable[[str], Need | Refusal],
    progress: Progress,
) -> Needs:
    results = []
    names = protocol_names(task, trust_of(trust))
    for done, name in enumerate(names):
        progress(name, done / len(names))
        results.append(attempt(name))
    answers = [result for result in results if isinstance(result, Need)]
    answers.sort(key=lambda need: (getattr(need, asked), need.candidate.margin))
    refused = tuple(result for result in results if isinstance(result, Refusal))
    return Needs(task, margin, asked, given, tuple(answers), refused)


def _check(task: Task, margin: Margin) -> None:
    checks.instance("task", task, Task)
    checks.instance("margin", margin, Margin)
    margin.check(task)


def _excess(result: Candidate | Refusal, margin: Margin, task: Task, users: int) -> float:
    """A candidate's margin divided by the allowed margin, or infinity for a refusal."""
    if not isinstance(result, Candidate):
        return math.inf
    return margin.total(result.margin, task, users) / margin.allowed(task, users)


def _refusal(result: Candidate | Refusal, margin: Margin, reach: str) -> Refusal:
    """Why a protocol misses the margin. `reach` says how far the search went."""
    if isinstance(result, Refusal):
        return result
    least = f"its margin is at least ±{short(result.margin, 4)}"
    return Refusal(result.protocol, result.trust, f"{least}, but {margin} was asked for; {reach}")


def _around(excess: Callable[[float], float], start: float) -> tuple[float, float] | None:
    """An ε that is too small and a larger ε that is enough, near each other.

    The first is 0 if even the ε `LEAST_ASKED` is enough. The result is None if no ε is enough.
    Errors are roughly proportional to 1/ε, so ε·excess(ε) is roughly the least ε that is enough.
    The search next tries an ε close to this value. Above some ε, a protocol may refuse because it
    finds no valid parameters.
    """
    low, high, most = 0.0, math.inf, MOST_ASKED
    excess_at_low = math.inf
    epsilon = start
    while True:
        ratio = excess(epsilon)
        if ratio <= 1:
            high = epsilon
            if low or epsilon <= LEAST_ASKED:
                return low, high
            epsilon = max(epsilon * max(ratio / 1.01, 0.1), LEAST_ASKED)
        elif math.isinf(ratio) and excess_at_low < math.inf:
            most = epsilon
            if most / low < 1.2:
                return None
            epsilon = math.sqrt(low * most)
        else:
            low, excess_at_low = epsilon, ratio
            if high < math.inf:
                return low, high
            if epsilon >= most:
                return None
            epsilon = min(epsilon * (10.0 if math.isinf(ratio) else min(ratio * 1.01, 10.0)), most)


def _least(
    excess: Callable[[float], float], low: float, high: float, *, integers: bool = False
) -> float:
    """The least x with excess(x) ≤ 1, up to a factor of 1.005. The excess of `high` must be ≤ 1.

    On logarithmic scales, the excess is nearly a straight line. The search guesses where the line
    reaches 1. It tries an x a little above this guess, and then an x a little below. Every third
    try is the geometric mean of `low` and `high`, so that the search also ends if the guesses are
    bad. The excess may not be monotonic. So if an x that is 1 % smaller also has an excess of at
    most 1, the search is repeated below it.
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
        ratio = excess(guess)
        if ratio <= 1:
            high, above = guess, ratio
        else:
            low, below = guess, ratio
    less = math.floor(0.99 * high) if integers else 0.99 * high
    if less >= (1 if integers else LEAST_ASKED) and excess(less) <= 1:
        return _least(excess, max(less / 10, 1) if integers else less / 10, less, integers=integers)
    return high


def _most(excess: Callable[[float], float], people: float) -> int | None:
    """The largest crowd within the margin. None if the error hardly grows with the crowd, or if the
    margin still holds for a crowd of `MOST_PEOPLE`.
    """
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
    """The number of people that a trust model needs for the margin of the reference protocol (see
    `price_of_trust`).
    """

    trust: Trust
    protocol: str
    users: int
    times: float  # `users` divided by the number of people in the plan
    share: float  # the margin as a share: see `Margin`

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        how = {
            Trust.CENTRAL: "with a trusted curator",
            Trust.SHUFFLE: "without trusting a curator",
            Trust.LOCAL: "without trusting anyone",
        }[self.trust]
        times = size(self.times)
        factor = "about as many as" if times == "1" else f"{times} times as many as"
        return (
            f"{how}, the same relative margin of {100 * self.share:.3g} % needs "
            f"{counted_people(self.users)} with {self.protocol}, {factor} planned"
        )


def price_of_trust(found: Plan, progress: Progress = lambda name, share: None) -> list[Price]:
    """The number of people that each trust model needs for the same relative margin.

    The margin, as a share (see `Margin`), is that of a reference protocol: the plan's best protocol
    in central trust, or else in shuffle or local trust. The price of its trust model comes first.
    For each other trust model of the plan, the price is that of the protocol that needs the fewest
    people.
    """
    best = {trust: found.best_of(trust) for trust in Trust}
    present = [(trust, candidate) for trust, candidate in best.items() if candidate is not None]
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
    """A plan for each share of people who might not follow the protocol."""
    plans = {}
    for share in shares:
        crowd = crowd_with(users, share)
        plans[share] = plan(
            task, budget, crowd, confidence=confidence, trust=trust, progress=progress
        )
    return plans


def crowd_with(users: int, dishonest: float) -> Crowd:
    """A crowd in which the share `dishonest` might not follow the protocol."""
    if not 0 <= checks.real("dishonest", dishonest) < 1:
        raise InvalidParameter(
            f"`dishonest` must be a share, at least 0 and below 1, got {dishonest}"
        )
    everyone = Crowd(users).users
    return Crowd(everyone, max(1, everyone - math.ceil(dishonest * everyone - 1e-9)))
