"""A survey: several questions to the same people, with one budget for all of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Unpack

from headcount.core import checks
from headcount.core.budget import MOST_USERS, Budget, Crowd, Trust
from headcount.core.cached import cached_property
from headcount.core.errors import InvalidParameter
from headcount.core.guarantee import Guarantee
from headcount.core.source import Source, check_secure
from headcount.data.hints import hint_for
from headcount.data.written import USUAL, TableSettings, Written
from headcount.ledger.ledger import Ledger
from headcount.survey.answers import WrongAnswer, columns_of, with_names
from headcount.survey.design import Ask, Design, Noise
from headcount.survey.kept import KeptAnswers, kept_design
from headcount.survey.plan import SurveyPlan
from headcount.survey.questions import Question
from headcount.survey.results import SurveyResults
from headcount.survey.run import (
    Ready,
    ReadyWave,
    charged,
    people_of,
    ready,
    ready_wave,
)
from headcount.survey.spark import SparkColumns, is_spark
from headcount.survey.split import design


@dataclass(frozen=True, eq=False)
class Survey:
    """Questions to the same people. The budget is for everything that one person says.

    Nothing is analyzed if fewer than `least_people` people answer. `tables` has pairs of ids of
    questions whose two-way tables are wanted. With `noise="shuffler"`, the shuffler adds the noise
    instead of the people. If the same people are asked again, `waves` says how often they are asked
    in all. The budget is then for all waves together, and all waves have the design for
    `least_people`. In local trust, `keep_answers` makes a device randomize each answer once and
    repeat the result in all waves. Then the budget is for people whose answers stay the same.
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
    keep_answers: bool = False

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
        checks.flag("keep_answers", self.keep_answers)
        if self.keep_answers:
            self._check_kept()

    def _check_kept(self) -> None:
        if self.trust == Trust.SHUFFLE:
            raise InvalidParameter(
                "`keep_answers` must be false in shuffle trust, got true: messages that repeat in "
                "each wave link the answers of one person",
                hint="delete keep_answers; the noise of each wave is then new",
            )
        if self.trust == Trust.CENTRAL:
            raise InvalidParameter(
                "`keep_answers` must be false in central trust, got true: there, devices do not "
                "randomize answers",
                hint="delete keep_answers",
            )
        if self.waves == 1:
            raise InvalidParameter(
                "`keep_answers` must come with several waves, got waves = 1", hint="waves = 12"
            )

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
            made = design(
                self.asks, self.tables, self.budget, Crowd(users), self.trust, self.noise,
                waves=1 if self.keep_answers else self.waves,
            )  # fmt: skip
            self._designs[users] = kept_design(made, self.waves) if self.keep_answers else made
        return self._designs[users]

    @property
    def guarantee(self) -> Guarantee:
        """What is promised to each person, for all answers together."""
        return self.design.guarantee

    def columns(self, answers: Any, written: Written = USUAL) -> dict[str, Any]:
        """The encoded answers of all people to each question.

        `answers` is a mapping from ids to lists, a data frame, a path, or any other table. The
        answers of a Spark data frame stay on the executors. `written` says how the table is
        written.
        """
        if is_spark(answers):
            return SparkColumns.of(self.questions, answers, written)
        columns = columns_of(self.questions, answers, written)
        return {one.id: _encoded(one, columns[one.id]) for one in self.questions}

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "Survey":
        """The survey in a file. Errors name the line and the fix."""
        from headcount.survey.file import load

        return load(path)

    def to_dict(self) -> dict[str, Any]:
        """The survey as data, in the form that its file has."""
        from headcount.survey.file import survey_data

        return survey_data(self)

    def plan(self, users: int | None = None, confidence: float = 0.95) -> SurveyPlan:
        """How exact each answer will be, what a person sends, and who sees what.

        The plan is for the least number of people, or for `users` people. With several waves,
        `users` stands for the least number of people in each wave.
        """
        return SurveyPlan(self, self.least_people if users is None else users, confidence)

    def run(
        self,
        answers: Any,
        source: Source | None = None,
        ledger: Ledger | None = None,
        dataset: str | None = None,
        *,
        kept: KeptAnswers | None = None,
        people: Sequence[Any] | str | None = None,
        **written: Unpack[TableSettings],
    ) -> SurveyResults:
        """Make all releases. The design is made for the number of people who answered, or for
        `least_people` if there are several waves.

        Each run is one wave. With a ledger, all releases of the run are charged as one entry before
        anything is released. If the survey keeps answers, `kept` has the answers of earlier
        waves, and `people` has the name of each person, or is the column with these names. Such a
        wave is charged only if somebody has held more different answers than the ledger was
        charged for.

        The other arguments say how the table is written, as in `estimate`: `yes`, `no`, `na`,
        `decimal`, `thousands`, `trim`, `separator`, `quote`, `encoding`, `sheet` and `header_row`.
        Blanks around answers are always ignored.
        """
        how = Written.of(**written)
        if how.rules.date_format is not None:
            raise InvalidParameter(
                "`date_format` must come with dates, got a survey, which does not ask for dates"
            )
        self._check_run(answers, kept, people)
        if isinstance(people, str):
            answers, people = with_names(self.questions, answers, people, how)
            how = USUAL
        columns = self.columns(answers, how)
        users = people_of(columns, self.least_people)
        # All waves must have the same design, because their guarantee is that of this design.
        design = self.design if self.waves > 1 else self.designed(users)
        prepared: Ready | ReadyWave
        if kept is None or people is None:
            prepared = ready(design, columns, source)
        else:
            prepared = ready_wave(design, columns, source, kept, people)
        if ledger is not None:
            check_secure(source)
            charged(prepared, ledger, dataset)
        return SurveyResults(self, design, prepared.released(), users)

    def _check_run(self, answers: Any, kept: KeptAnswers | None, people: Any) -> None:
        if self.keep_answers != (kept is not None) or self.keep_answers != (people is not None):
            wanted = "be given" if self.keep_answers else "not be given"
            raise InvalidParameter(
                f"`kept` and `people` must {wanted}, since the survey "
                f"{'keeps' if self.keep_answers else 'does not keep'} answers",
                hint="kept=hc.KeptAnswers(), people=names (--kept kept.json --person COLUMN)"
                if self.keep_answers
                else "keep_answers = true",
            )
        if self.keep_answers and is_spark(answers):
            raise InvalidParameter(
                "a survey that keeps answers must have them on this machine, got a Spark data frame"
            )


def _encoded(question: Question, column: Any) -> Any:
    """The encoded answers to a question. A hint says how an unknown word can be read."""
    try:
        return question.task.encode(question.values(column))
    except WrongAnswer as error:
        error.hint = error.hint or hint_for(error.word, counting=question.yes_or_no)
        raise
