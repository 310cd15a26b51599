"""A survey: several questions to the same people, with one budget for all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.budget import MOST_USERS, Budget, Crowd, Trust
from headcount.core.cached import cached_property
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Estimate
from headcount.core.guarantee import Guarantee
from headcount.core.source import Source
from headcount.core.task import Task
from headcount.data.rows import Kind
from headcount.ledger.ledger import Ledger
from headcount.survey.design import Ask, Design, Noise
from headcount.survey.run import answer_columns, charged, check_charged, people_of, released
from headcount.survey.split import design

# The kind of a column in a file without types, by the kind of values.
_KINDS: Mapping[str, Kind] = {"words": "text", "real numbers": "real"}


class Question(Protocol):
    """What a survey has to know about a question."""

    @property
    def id(self) -> str: ...
    @property
    def weight(self) -> float: ...
    @property
    def protocol(self) -> str | None: ...
    @property
    def options(self) -> Mapping[str, Any]: ...
    @property
    def task(self) -> Task: ...
    def values(self, answers: Any) -> Any: ...


@dataclass(frozen=True, eq=False)
class Survey:
    """Questions to the same people. The budget is for everything that one person says.

    Nothing is analyzed if fewer than `least_people` people answer. `tables` has pairs of ids of
    questions whose two-way tables are wanted. With `noise="shuffler"`, the shuffler adds the noise,
    and not the people. If the same people are asked again, `waves` says how often they are asked
    in all. The budget is then for all waves together.
    """

    questions: Sequence[Question]
    budget: Budget
    trust: Trust
    least_people: int
    title: str = ""
    introduction: str = ""
    contact: str = ""
    tables: Sequence[tuple[str, str]] = ()
    noise: Noise = "people"
    waves: int = 1

    _designs: dict[int, Design] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.questions:
            raise InvalidParameter("a survey must have at least one question, got none")
        ids = [question.id for question in self.questions]
        if twice := [one for one in ids if ids.count(one) > 1]:
            raise InvalidParameter(f"every question must have its own id, got {twice[0]!r} twice")
        checks.instance("budget", self.budget, Budget)
        object.__setattr__(self, "trust", Trust(checks.choice("trust", self.trust, list(Trust))))
        checks.whole("least_people", self.least_people, low=1, high=MOST_USERS)
        checks.whole("waves", self.waves, low=1, high=10_000)

    @cached_property
    def asks(self) -> tuple[Ask, ...]:
        """What the design has to know about each question."""
        return tuple(
            Ask(one.id, one.task, one.weight, one.protocol, one.options) for one in self.questions
        )

    @property
    def design(self) -> Design:
        """The design for the least number of people."""
        return self.designed(self.least_people)

    def designed(self, users: int) -> Design:
        """The design for this number of people."""
        if users not in self._designs:
            self._designs[users] = design(
                self.asks, self.tables, self.budget, Crowd(users), self.trust, self.noise,
                waves=self.waves,
            )  # fmt: skip
        return self._designs[users]

    @property
    def guarantee(self) -> Guarantee:
        """What is promised to each person, for all answers together."""
        return self.design.guarantee

    def columns(self, answers: Any) -> dict[str, NDArray[Any]]:
        """The encoded answers of all people to each question.

        `answers` is a mapping from ids to lists, a data frame, a path, or any other table.
        """
        kinds = {one.id: _KINDS.get(one.task.value_kind) for one in self.questions}
        columns = answer_columns(answers, kinds)
        return {one.id: one.task.encode(one.values(columns[one.id])) for one in self.questions}

    def estimates(
        self,
        answers: Any,
        source: Source | None = None,
        ledger: Ledger | None = None,
        dataset: str | None = None,
    ) -> dict[str, Estimate]:
        """Make all releases. The design is made for the number of people who answered.

        With a ledger, the whole survey is charged as one entry before anything is released.
        """
        columns = self.columns(answers)
        users = people_of(self.design, columns)
        design = self.designed(users)
        if ledger is not None:
            check_charged(source)
            charged(design, ledger, dataset, users)
        return released(design, columns, source)
