"""The results of a survey: every answer with its interval, from one release for each question."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headcount.core import checks
from headcount.core.cached import cached_property
from headcount.core.estimate import Estimate, plain
from headcount.core.guarantee import Guarantee
from headcount.core.share_tables import ShareTable
from headcount.core.table import Table, counted, counted_people, number
from headcount.core.two_way import TableEstimate
from headcount.survey.design import Design
from headcount.survey.questions import Question
from headcount.survey.readings import EVERYBODY, Reading, share_reading
from headcount.survey.words import Odds, in_waves

if TYPE_CHECKING:
    from headcount.survey.survey import Survey


@dataclass(frozen=True, eq=False)
class Answered:
    """A question with its estimate, and with everything that is read from it."""

    question: Question
    estimate: Estimate
    readings: tuple[Reading, ...]

    def to_dict(self, confidence: float) -> dict[str, Any]:
        """The answers for JSON."""
        return {
            "id": self.question.id,
            "text": self.question.text,
            "kind": self.question.kind,
            "protocol": self.estimate.protocol,
            "readings": [one.to_dict() for one in self.readings],
            "estimate": self.estimate.to_dict(confidence),
        }


@dataclass(frozen=True, eq=False)
class Crossed:
    """The table of two questions, with the shares within its rows."""

    rows: Question
    columns: Question
    estimate: TableEstimate
    shares: ShareTable

    def cells(self) -> list[dict[str, Any]]:
        """Two entries for each cell: its number of people, and its share of the row."""
        made, names = self.shares, self.estimate.names
        ends = self.estimate.interval(made.confidence, sampling=made.sampling)
        counts = zip(
            *(plain(one) for one in (self.estimate.value, ends.low, ends.high)), strict=True
        )
        shares = [
            (label, one)
            for label, line in zip(names.rows, made.shares, strict=True)
            for one in line
        ]
        found = []
        for name, (value, low, high), (label, part) in zip(names, counts, shares, strict=True):
            count = Reading(name, value, low, high, False)
            share = share_reading(name, part, f"{self.rows.id} = {label}")
            found += [{**count.to_dict(), "unit": "people"}, share.to_dict()]
        return found

    def to_dict(self, confidence: float) -> dict[str, Any]:
        """The table for JSON."""
        return {
            "of": [self.rows.id, self.columns.id],
            "estimate": self.estimate.to_dict(confidence),
            **self.shares.to_dict(),
        }


@dataclass(frozen=True, eq=False)
class SurveyResults:
    """All answers of a survey. `estimates` has the estimate of each question, by its id.

    With `sampling=True`, intervals are for the population from which people were drawn.
    """

    survey: "Survey"
    design: Design
    estimates: Mapping[str, Estimate]
    users: int
    confidence: float = 0.95
    sampling: bool = False

    def __post_init__(self) -> None:
        checks.confidence(self.confidence)

    def __getitem__(self, question: str) -> Estimate:
        return self.estimates[question]

    @property
    def guarantee(self) -> Guarantee:
        """What is promised to each person, for all answers together."""
        return next(iter(self.estimates.values())).guarantee

    @property
    def protected(self) -> str:
        """What the guarantee is for, in words."""
        waves = in_waves(self.survey.waves, kept=self.survey.keep_answers)
        return f"everything that one person said, together{waves}"

    @cached_property
    def odds(self) -> Odds:
        """How many of 100 guesses about one person are right, without and with the answers."""
        return Odds.of(self.design)

    @cached_property
    def answers(self) -> tuple[Answered, ...]:
        """Every question with its answers."""
        return tuple(
            Answered(
                one,
                self.estimates[one.id],
                one.readings(self.estimates[one.id], self.confidence, sampling=self.sampling),
            )
            for one in self.survey.questions
        )

    @cached_property
    def tables(self) -> tuple[Crossed, ...]:
        """The tables of two questions."""
        known = {one.id: one for one in self.survey.questions}
        found = []
        for rows, columns in self.survey.tables:
            estimate = self.estimates.get(f"{rows} × {columns}")
            if isinstance(estimate, TableEstimate):
                shares = ShareTable.of_cells(
                    estimate, "rows", self.confidence, sampling=self.sampling
                )
                found.append(Crossed(known[rows], known[columns], estimate, shares))
        return tuple(found)

    def table(self) -> Table:
        """All readings with their intervals."""
        rows = [
            (one.question.id if not at else "", reading.name, *shown(reading), _whom(reading))
            for one in self.answers
            for at, reading in enumerate(one.readings)
        ]
        whose = " of the population" if self.sampling else ""
        survey, promise = self.survey, self.guarantee
        return Table(
            (
                "question",
                "answer",
                "estimate",
                f"{100 * self.confidence:.10g} % interval{whose}",
                "among",
            ),
            tuple(rows),
            title=f"{survey.title or 'Survey'}: {counted_people(self.users)}, "
            f"{counted(len(survey.questions), 'question')}",
            notes=(
                *([promise.warning] if promise.warning else []),
                f"{promise}, for {self.protected}",
                *([] if promise.warning else [self.odds.sentence]),
            ),
            words=2,
            spare=("among",),
        )

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table().html()

    def to_dict(self) -> dict[str, Any]:
        """The results for JSON."""
        return {
            "title": self.survey.title,
            "introduction": self.survey.introduction,
            "users": self.users,
            "confidence": self.confidence,
            "sampling": self.sampling,
            "questions": [one.to_dict(self.confidence) for one in self.answers],
            "tables": [one.to_dict(self.confidence) for one in self.tables],
            "guarantee": self.guarantee.to_dict(),
        }


def shown(reading: Reading) -> tuple[str, str]:
    """A reading and its interval as text. Shares are percentages."""
    low, value, high = reading.low, reading.value, reading.high
    if reading.is_share:
        value_text = "–" if math.isnan(value) else f"{100 * value:.1f} %"
        return value_text, f"{100 * low:.1f} to {100 * high:.1f} %"
    error = (high - low) / 4
    value_text = "–" if math.isnan(value) else number(value, error)
    return value_text, f"{number(low, error)} to {number(high, error)}"


def _whom(reading: Reading) -> str:
    return "" if reading.among == EVERYBODY else reading.among
