"""The design of a survey: which releases are made, with which protocols, and what they promise
together.

A question becomes an `Ask`: the task that answers it, and how exact the answer must be. A `Release`
answers one question, or several questions at once. A `Design` has all releases. Its guarantee
protects everything that one person says.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.errors import InvalidParameter, UnknownName
from headcount.core.estimate import ErrorLaw, Estimate
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.influence import Influence
from headcount.core.protocol import Protocol
from headcount.core.task import Task

Noise: TypeAlias = Literal["people", "shuffler"]  # who adds the noise in shuffle trust
NOISES: tuple[Noise, ...] = ("people", "shuffler")


@dataclass(frozen=True)
class Ask:
    """What the design of a survey has to know about a question.

    The errors of questions are proportional to their weights. So a question of weight 3 may have
    three times the error of a question of weight 1. Errors are compared as shares of the possible
    range: people among all people, or a mean within its bounds. A `protocol` with its `options` is
    chosen by the design unless it is given.
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
class Release:
    """One release. It answers the questions with these ids.

    At least `asked` people answer it. In local trust, these are only some of the people.
    """

    ids: tuple[str, ...]
    protocol: Protocol
    asked: int
    asks: tuple[Ask, ...] = field(repr=False)

    @property
    def _joined(self) -> bool:
        """Whether several yes-no questions are the boxes of this release."""
        return len(self.ids) > 1

    @property
    def _split(self) -> bool:
        """Whether a yes-no question is a histogram of two buckets."""
        return self.asks[0].task.name == "count" and self.protocol.task.name == "histogram"

    def join(self, columns: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """The encoded values of the release, from the encoded values of its questions."""
        if not self._joined:
            return columns[self.ids[0]]
        codes = np.zeros(len(columns[self.ids[0]]), dtype=self.protocol.task.encoded_dtype)
        for place, name in enumerate(self.ids):
            codes |= columns[name].astype(codes.dtype) << codes.dtype.type(place)
        return codes

    def separate(self, estimate: Estimate) -> dict[str, Estimate]:
        """The estimates of its questions, each with the law of its own error."""
        if self._joined:
            return {ask.id: _one_number(estimate, ask.task, at) for at, ask in enumerate(self.asks)}
        if self._split:
            return {self.ids[0]: _one_number(estimate, self.asks[0].task, 1)}
        return {self.ids[0]: estimate}

    def standard_error(self, question: str) -> float:
        """The standard error of a question, for the worst data."""
        return self.protocol.standard_error()

    def margin(self, question: str, confidence: float) -> float:
        """The "plus or minus" of a question, for the worst data."""
        return self.protocol.margin(confidence)


@dataclass(frozen=True)
class OneNumber:
    """The error of one number of an answer."""

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
    """The answer to a yes-no question, which is one number of a longer answer."""
    law = estimate.error_law
    alike = np.ndim(law.standard_error) == 0  # then the law is the same for all numbers
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
    """All releases of a survey, and what they promise together.

    In local trust, each person answers `questions_each` questions. In other trust models, everybody
    answers all questions.
    """

    trust: Trust
    budget: Budget
    crowd: Crowd
    asks: tuple[Ask, ...]
    releases: tuple[Release, ...]
    guarantee: Guarantee
    curve: PrivacyCurve = field(repr=False)
    questions_each: int
    waves: int = 1

    def release(self, question: str) -> Release:
        """The release that answers a question."""
        for release in self.releases:
            if question in release.ids:
                return release
        known = ", ".join(ask.id for ask in self.asks)
        raise UnknownName(f"a question must be one of {known}, got {checks.shown(question)}")

    def standard_error(self, question: str) -> float:
        """The standard error of a question, for the worst data."""
        return self.release(question).standard_error(question)

    def margin(self, question: str, confidence: float = 0.95) -> float:
        """The "plus or minus" of a question: half the length of its interval, for the worst
        data.
        """
        return self.release(question).margin(question, confidence)

    def influence(self, question: str) -> Influence:
        """How far one dishonest person can shift the answer to a question."""
        return self.release(question).protocol.influence

    @property
    def messages_per_user(self) -> float:
        """The expected number of messages in one person's whole response."""
        return float(np.sum([one.protocol.messages_per_user for one in self.releases]))

    @property
    def slots(self) -> int:
        """The number of messages in everybody's whole response, with the dummies."""
        return sum(one.protocol.slots for one in self.releases)

    @property
    def sealed_bytes(self) -> int:
        """The number of bytes of a whole response if each message is sealed."""
        return sum(one.protocol.sealed_bytes for one in self.releases)
