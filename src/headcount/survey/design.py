"""The design of a survey: its releases, their protocols, and their joint guarantee.

A question becomes an `Ask`, which has the task that answers the question, and how exact the answer
must be. A `Release` is one run of a protocol. It answers one question, or several questions at
once. A `Design` has all releases. Its guarantee protects all answers of one person together.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.bundles import MOST_SLOTS
from headcount.core.cached import cached_property
from headcount.core.cells import BETWEEN
from headcount.core.errors import Infeasible, InvalidParameter, UnknownName
from headcount.core.estimate import ErrorLaw, Estimate
from headcount.core.estimator import is_average
from headcount.core.guarantee import Guarantee, PrivacyCurve, fitted_delta
from headcount.core.influence import Influence
from headcount.core.protocol import Protocol
from headcount.core.sealing import sealed_size
from headcount.core.task import Task
from headcount.core.tasks.table import Table
from headcount.survey.sampled import largest_spread, of_crowd

LINE = 1 << 32  # a share of people is stored as an integer, which is the share times this number
Noise: TypeAlias = Literal["people", "shuffler"]  # who adds the noise in shuffle trust
NOISES: tuple[Noise, ...] = ("people", "shuffler")


@dataclass(frozen=True)
class Ask:
    """A question, as the design of a survey sees it.

    The design makes the errors of questions proportional to their weights. So a question of weight
    3 may have three times the error of a question of weight 1. Errors are compared as fractions of
    the possible range. For a number of people, the range is the number of all people. For a mean,
    it is the distance between the bounds. If `protocol` is None, the design chooses the protocol.
    """

    id: str
    task: Task
    weight: float = 1.0
    protocol: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:
            raise InvalidParameter(f"`id` must be a word, got {checks.shown(self.id)}")
        checks.instance("task", self.task, Task)
        if not checks.real("weight", self.weight) > 0:
            raise InvalidParameter(f"`weight` must be positive, got {self.weight}")


@dataclass(frozen=True)
class AskedTable:
    """A two-way table of two questions. It is released in addition to the answers to both."""

    rows: Ask
    columns: Ask

    @property
    def id(self) -> str:
        return f"{self.rows.id}{BETWEEN}{self.columns.id}"

    @property
    def ask(self) -> Ask:
        """The table as a question. Its weight is the larger of the weights of the two questions."""
        sides = (_labels(self.rows), _labels(self.columns))
        return Ask(self.id, Table(*sides), max(self.rows.weight, self.columns.weight))

    def cells(self, columns: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """The number of each person's cell, from the encoded answers to both questions."""
        table = self.ask.task
        width = len(_labels(self.columns))
        rows, others = (columns[one.id].astype(np.int64) for one in (self.rows, self.columns))
        return (rows * width + others).astype(table.encoded_dtype)


def _labels(ask: Ask) -> list[int | str]:
    if ask.task.yes_no:
        return ["no", "yes"]
    if ask.task.uses.shares != "buckets" or ask.task.buckets is None:
        raise InvalidParameter(
            f"each question of a table must ask for one answer from a list, got {ask.id!r}, which "
            f"asks for {checks.a_task(ask.task.name)}"
        )
    return [label if isinstance(label, str) else int(label) for label in ask.task.buckets]


@dataclass(frozen=True)
class Release:
    """One run of a protocol, which answers the questions whose ids are `ids`.

    `asked` is the least number of people who answer the release. In local trust, each person's
    device decides at random whether it answers. Then, unless `asked` is 1, fewer people answer with
    a probability of only about 1e-9. In other trust models, `asked` is the whole crowd.
    """

    ids: tuple[str, ...]
    protocol: Protocol
    asked: int
    asks: tuple[Ask, ...] = field(repr=False)
    share: int = LINE  # the share of people who answer the release, times `LINE`
    expected: int = 0  # how many people answer the release on average
    users: int = 0  # how many people are in the crowd

    @property
    def _joined(self) -> bool:
        """Whether the release answers several yes-no questions. Then each question is a box, which
        a person ticks for yes.
        """
        return len(self.ids) > 1

    @property
    def _split(self) -> bool:
        """Whether the release answers a yes-no question with a histogram of two buckets."""
        return self.asks[0].task.yes_no and self.protocol.task.uses.shares == "buckets"

    def join(self, columns: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """The encoded values of the release, computed from the encoded answers to its questions."""
        if not self._joined:
            return columns[self.ids[0]]
        codes = np.zeros(len(columns[self.ids[0]]), dtype=self.protocol.task.encoded_dtype)
        for place, name in enumerate(self.ids):
            codes |= columns[name].astype(codes.dtype) << codes.dtype.type(place)
        return codes

    def separate(self, estimate: Estimate, users: int | None = None) -> dict[str, Estimate]:
        """The estimate of each question of this release, with the law of its own error.

        `users` is given if only some people answered the release. It is the number of people in
        the whole crowd.
        """
        whole = estimate if users is None else of_crowd(estimate, self.protocol.task, users)
        if self._joined:
            return {ask.id: _one_number(whole, ask.task, at) for at, ask in enumerate(self.asks)}
        if self._split:
            return {self.ids[0]: _one_number(whole, self.asks[0].task, 1)}
        return {self.ids[0]: whole}

    @property
    def for_some(self) -> bool:
        """Whether only some people answer this release."""
        return self.share < LINE

    def standard_error(self, question: str) -> float:
        """The standard error of the answer to a question, for the worst data."""
        if not self.for_some:
            return self.protocol.standard_error()
        noise = self.protocol.estimator.standard_error(self.expected, None)
        return math.hypot(noise * self._scale, self._spread)

    def margin(self, question: str, confidence: float) -> float:
        """Half the length of the interval of a question, for the worst data."""
        if not self.for_some:
            return self.protocol.margin(confidence)
        expected = replace(self.protocol, crowd=Crowd(self.expected))
        deviations = -NormalDist().inv_cdf((1 - checks.confidence(confidence)) / 2)
        low, high = self.protocol.task.answer_range(self.users)
        margin = math.hypot(expected.margin(confidence) * self._scale, deviations * self._spread)
        return min(margin, (high - low) / 2)

    @property
    def _scale(self) -> float:
        """The factor that turns an error about the people who answer into an error about the whole
        crowd.
        """
        return 1.0 if is_average(self.protocol.task) else self.users / self.expected

    @property
    def _spread(self) -> float:
        return largest_spread(self.protocol.task, self.expected, self.users)


@dataclass(frozen=True)
class OneNumber:
    """The error law of one number, if the answer has several numbers. `law` is the law of the whole
    answer, and `at` is the index of the number.
    """

    law: ErrorLaw
    at: int

    @property
    def standard_error(self) -> float:
        return float(self._of(self.law.standard_error))

    def margins(self, confidence: float) -> tuple[float, float]:
        below, above = self.law.margins(confidence)
        return float(self._of(below)), float(self._of(above))

    def _of(self, numbers: Any) -> Any:
        return numbers[self.at] if np.ndim(numbers) else numbers


def _one_number(estimate: Estimate, task: Task, at: int) -> Estimate:
    """The answer to a yes-no question. It is the number with the index `at` in a longer answer."""
    law = estimate.error_law
    alike = np.ndim(law.standard_error) == 0  # the errors of all numbers have the same law
    return replace(
        estimate,
        task=task.name,
        value=float(estimate.value[at]),
        error_law=law if alike else OneNumber(law, at),
        buckets=None,
        total=None,
        answer_range=task.answer_range(estimate.users),
    )


@dataclass(frozen=True)
class Design:
    """All releases of a survey, and their joint guarantee.

    In local trust, each person answers `releases_each` releases. In other trust models, everybody
    answers all releases. `asks` has all questions, including `tables`.
    """

    trust: Trust
    budget: Budget
    crowd: Crowd
    asks: tuple[Ask, ...]
    releases: tuple[Release, ...]
    guarantee: Guarantee
    curve: PrivacyCurve = field(repr=False)
    waves: int = 1
    releases_each: int | None = None  # how many releases a person answers; None means all
    tables: tuple["AskedTable", ...] = ()
    kept_waves: int = 1  # the number of waves in which devices repeat their answers

    @property
    def asked(self) -> tuple[Ask, ...]:
        """The questions that people answer. Tables are left out, because they are computed from the
        answers to other questions.
        """
        of_table = {table.id for table in self.tables}
        return tuple(ask for ask in self.asks if ask.id not in of_table)

    def with_tables(self, columns: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The encoded answers to all questions, and the cells of all tables."""
        return {**columns, **{one.id: one.cells(columns) for one in self.tables}}

    def release(self, question: str) -> Release:
        """The release that answers a question."""
        for release in self.releases:
            if question in release.ids:
                return release
        known = ", ".join(ask.id for ask in self.asks)
        raise UnknownName(f"a question must be one of {known}, got {checks.shown(question)}")

    def standard_error(self, question: str) -> float:
        """The standard error of the answer to a question, for the worst data."""
        return self.release(question).standard_error(question)

    def margin(self, question: str, confidence: float = 0.95) -> float:
        """Half the length of the interval of a question, for the worst data."""
        return self.release(question).margin(question, confidence)

    def influence(self, question: str) -> Influence:
        """How far one dishonest person can shift the answer to a question."""
        return self.release(question).protocol.influence

    @property
    def messages_per_user(self) -> float:
        """The expected number of messages in one person's whole response."""
        shares = ((one.share / LINE, one.protocol.messages_per_user) for one in self.releases)
        return math.fsum(share * number for share, number in shares)

    @cached_property
    def slots_of(self) -> tuple[int, ...]:
        """The bundle size of each release: the number of messages, including dummies, that a person
        who answers the release sends for it.

        If a person's noise does not fit into the bundle, it is drawn again (see `core.bundles`).
        The probability of drawing again must be so small that the joint δ stays within the budget.
        """
        left = self.budget.delta - self.guarantee.delta
        each = left / (4 * len(self.releases) * self.waves * math.exp(self.budget.epsilon))
        return tuple(_slots(one.protocol, each / self.crowd.honest) for one in self.releases)

    @cached_property
    def bundled_guarantee(self) -> Guarantee:
        """The guarantee if all responses have the same number of messages. It includes the cost of
        drawing noise again.
        """
        if not self.redrawn:
            return self.guarantee
        fitted = fitted_delta(self.guarantee.delta, self.guarantee.epsilon, self.redrawn)
        return replace(
            self.guarantee,
            delta=float(fitted),
            exact=False,
            method=f"{self.guarantee.method}; {self.slots:,} messages each, noise drawn until it "
            "fits",
        )

    @property
    def redrawn(self) -> float:
        """A bound on the probability that noise is drawn again. Noise is drawn again if some honest
        person's noise does not fit into a bundle in some wave.
        """
        overflow = math.fsum(
            one.protocol.randomizer.overflow(slots)
            for one, slots in zip(self.releases, self.slots_of, strict=True)
        )
        return self.waves * self.crowd.honest * overflow * (1 + 1e-12)

    @property
    def slots(self) -> int:
        """The number of messages in a whole response, including dummies. It is the same for
        everybody.
        """
        if self.releases_each is None:
            return sum(self.slots_of)
        return sum(sorted(self.slots_of, reverse=True)[: self.releases_each])

    @property
    def sealed_bytes(self) -> int:
        """The number of bytes of a whole response if each message is sealed.

        All messages have the size of the longest message, so that nobody can tell from its size
        which question a message answers.
        """
        return self.slots * max(sealed_size(one.protocol.alphabet) for one in self.releases)


def _slots(protocol: Protocol, allowed: float) -> int:
    """The smallest bundle size that is too small with a probability of at most `allowed`."""
    randomizer = protocol.randomizer
    if randomizer.fixed_messages is not None:
        return randomizer.fixed_messages
    few, enough = 0, 1
    while randomizer.overflow(enough) > allowed:
        if enough >= MOST_SLOTS:
            raise Infeasible(f"{protocol.name} needs bundles of more than {MOST_SLOTS} messages")
        few, enough = enough, 2 * enough
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (middle, enough) if randomizer.overflow(middle) > allowed else (few, middle)
    return enough
