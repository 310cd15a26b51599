"""A survey: several questions to the same people, with one budget for all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from headcount.core import checks
from headcount.core.budget import MOST_USERS, Budget, Crowd, Trust
from headcount.core.cached import cached_property
from headcount.core.errors import InvalidParameter
from headcount.core.guarantee import Guarantee
from headcount.core.source import Source
from headcount.ledger.ledger import Ledger
from headcount.survey.answers import columns_of
from headcount.survey.design import Ask, Design, Noise
from headcount.survey.plan import SurveyPlan
from headcount.survey.questions import Question
from headcount.survey.results import SurveyResults
from headcount.survey.run import charged, check_charged, people_of, ready
from headcount.survey.spark import SparkColumns, is_spark
from headcount.survey.split import design


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

    def columns(self, answers: Any) -> Mapping[str, Any]:
        """The encoded answers of all people to each question.

        `answers` is a mapping from ids to lists, a data frame, a path, or any other table. The
        answers of a Spark data frame stay on the executors.
        """
        if is_spark(answers):
            return SparkColumns.of(self.questions, answers)
        columns = columns_of(self.questions, answers)
        return {one.id: one.task.encode(one.values(columns[one.id])) for one in self.questions}

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Survey":
        """The survey of a file. Errors name the line and the fix."""
        from headcount.survey.file import load

        return load(path)

    def to_dict(self) -> dict[str, Any]:
        """The survey as data, in the form that its file has."""
        from headcount.survey.file import survey_data

        return survey_data(self)

    def plan(self, users: int | None = None, confidence: float = 0.95) -> SurveyPlan:
        """How exact each answer will be, what a person sends, and who sees what.

        The plan is for the least number of people, or for `users` people.
        """
        return SurveyPlan(self, self.least_people if users is None else users, confidence)

    def run(
        self,
        answers: Any,
        source: Source | None = None,
        ledger: Ledger | None = None,
        dataset: str | None = None,
    ) -> SurveyResults:
        """Make all releases. The design is made for the number of people who answered.

        With a ledger, the whole survey is charged as one entry before anything is released. Each
        run is a wave of its own.
        """
        columns = self.columns(answers)
        users = people_of(self.design, columns)
        design = self.designed(users)
        prepared = ready(design, columns, source)
        if ledger is not None:
            check_charged(source)
            charged(design, ledger, dataset, users)
        return SurveyResults(self, design, prepared.released(), users)
