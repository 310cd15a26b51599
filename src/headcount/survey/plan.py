"""The plan of a survey: how exact each answer will be, what a person sends, and who sees what."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from headcount.core import checks
from headcount.core.budget import MOST_USERS, Budget, Trust
from headcount.core.cached import cached_property
from headcount.core.errors import HeadcountError, Infeasible
from headcount.core.guarantee import Guarantee
from headcount.core.table import Table, counted, counted_people, number, short
from headcount.core.task import Task
from headcount.survey import words
from headcount.survey.design import Design
from headcount.survey.joint import total
from headcount.survey.kept import shown_changes
from headcount.survey.local import questions_answered

if TYPE_CHECKING:
    from headcount.survey.survey import Survey

_MOST_EPSILON = 30.0
_LEAST_EPSILON = 1e-3
_CLOSE = 1.01  # `needed_epsilon` and `needed_people` are exact up to about this factor
_STEPS = 24  # how often a search may double or halve its first guess


@dataclass(frozen=True)
class PlannedAnswer:
    """How exact the answer to one question will be.

    `margin` is half the length of an interval that allows for privacy alone. `with_sampling` also
    allows for sampling from a population, in the most uncertain case. Margins are shares of the
    people, or of the range of a mean if `unit` is "number". `size` is the length of this range, or
    1 if margins are shares of the people.
    """

    id: str
    text: str
    kind: str
    protocol: str
    margin: float
    with_sampling: float
    size: float
    unit: str
    messages: float
    asked: int

    @property
    def shown(self) -> tuple[str, str]:
        """Both margins as text."""
        return self._text(self.margin), self._text(self.with_sampling)

    def _text(self, margin: float) -> str:
        if self.unit == "number":
            return f"±{number(margin * self.size, margin * self.size)}"
        return f"±{_points(margin)} points"

    def to_dict(self) -> dict[str, Any]:
        """The margins for JSON."""
        return {
            "id": self.id,
            "text": self.text,
            "kind": self.kind,
            "protocol": self.protocol,
            "margin": self.margin * self.size,
            "margin_with_sampling": self.with_sampling * self.size,
            "unit": self.unit,
            "messages_per_user": self.messages,
            "people_asked": self.asked,
        }


@dataclass(frozen=True, eq=False)
class SurveyPlan:
    """The plan of a survey for `users` people."""

    survey: "Survey"
    users: int
    confidence: float = 0.95

    def __post_init__(self) -> None:
        checks.whole("users", self.users, low=1, high=MOST_USERS)
        checks.confidence(self.confidence)

    @cached_property
    def design(self) -> Design:
        """The releases of the survey, and what they promise together."""
        return self.survey.designed(self.users)

    @property
    def guarantee(self) -> Guarantee:
        """What is promised to each person, for all answers together."""
        return self.design.guarantee

    @cached_property
    def odds(self) -> words.Odds:
        """How many of 100 people guess right about somebody."""
        return words.Odds.of(self.design)

    @cached_property
    def answers(self) -> tuple[PlannedAnswer, ...]:
        """How exact the answer to each question will be."""
        return tuple(
            self._answer(one.id, one.text, one.kind, one.task) for one in self.survey.questions
        )

    @cached_property
    def tables(self) -> tuple[PlannedAnswer, ...]:
        """How exact the cells of the tables of two questions will be."""
        texts = {one.id: one.text for one in self.survey.questions}
        return tuple(
            self._answer(
                one.id,
                f"{texts[one.rows.id]} × {texts[one.columns.id]}",
                "table",
                one.ask.task,
            )
            for one in self.design.tables
        )

    def _answer(self, name: str, text: str, kind: str, task: Task) -> PlannedAnswer:
        release = self.design.release(name)
        mean = task.uses.comparison == "mean"
        size = task.answer_size(self.users) if mean else 1.0
        whole = task.answer_size(self.users)
        margin = self.design.margin(name, self.confidence) / whole
        # The most uncertain share is one half. Numbers are the most uncertain if one half of them
        # lies at each end of the range.
        deviations = -NormalDist().inv_cdf((1 - self.confidence) / 2)
        drawn = deviations * 0.5 / math.sqrt(self.users)
        return PlannedAnswer(
            id=name,
            text=text,
            kind=kind,
            protocol=release.protocol.name,
            margin=margin,
            with_sampling=math.hypot(margin, drawn),
            size=size,
            unit="number" if mean else "share",
            messages=float(release.protocol.messages_per_user),
            asked=release.asked,
        )

    @property
    def worst_margin(self) -> float:
        """The largest margin of all questions, from privacy alone."""
        return max(answer.margin for answer in self.answers)

    @property
    def collusion(self) -> float:
        """The ε that is left if shuffler and analyzer work together. It may be infinite."""
        if self.survey.trust == Trust.LOCAL:
            return self.guarantee.epsilon
        return total(
            (one.protocol.local_epsilon for one in self.design.releases), self.design.waves
        )

    @property
    def questions_each(self) -> tuple[int, int]:
        """The least and the largest number of questions that a person answers. In local trust,
        tables of two questions count as questions.
        """
        if self.survey.trust != Trust.LOCAL:
            return len(self.survey.questions), len(self.survey.questions)
        return questions_answered(self.design.releases)

    @property
    def sends(self) -> str:
        """What a person sends, in words."""
        survey = self.survey
        slots = self.design.slots if survey.trust == Trust.SHUFFLE else 0
        asked = len(self.design.asks)
        return words.shared(
            survey.trust,
            survey.noise,
            asked,
            tables=bool(survey.tables),
            each=None if self.questions_each[0] == asked else self.questions_each,
            messages=slots,
        )

    @property
    def repeated(self) -> tuple[str, ...]:
        """How devices repeat their answers, in words. It is empty if no answers are kept."""
        return words.repeated(self.survey.waves) if self.survey.keep_answers else ()

    @property
    def not_hidden(self) -> tuple[str, ...]:
        """What kept answers do not hide, in words. It is empty if no answers are kept."""
        if not self.survey.keep_answers:
            return ()
        return words.not_hidden(self.guarantee.epsilon, shown_changes(self.design))

    @property
    def seen(self) -> tuple[tuple[str, str], ...]:
        """Who could see what."""
        return words.who_sees(self.survey.trust, self.survey.noise, self.collusion)

    @property
    def relies_on(self) -> str:
        """What people have to rely on."""
        return words.relies_on(self.survey.trust, self.survey.noise, self.design.crowd.honest)

    @property
    def consent(self) -> tuple[str, ...]:
        """A text that people can agree to, in paragraphs."""
        survey = self.survey
        relied = words.you_rely_on(survey.trust, survey.noise, self.design.crowd.honest)
        return words.consent(
            survey.title, len(survey.questions), survey.contact, survey.trust, self.odds, relied
        )

    @property
    def promised(self) -> str:
        """The guarantee in one line."""
        waves = words.in_waves(self.survey.waves, kept=self.survey.keep_answers)
        return f"{self.guarantee}, for everything that one person says, together{waves}"

    def table(self) -> Table:
        """The margins of all questions, with the words of the plan as notes."""
        shown = 100 * self.confidence
        rows = [
            (
                one.id,
                one.kind,
                *one.shown,
                one.protocol,
                *([f"{one.asked:,}"] if self.survey.trust == Trust.LOCAL else []),
            )
            for one in (*self.answers, *self.tables)
        ]
        asked = ("people asked",) if self.survey.trust == Trust.LOCAL else ()
        return Table(
            ("question", "kind", "privacy alone", "with sampling", "protocol", *asked),
            tuple(rows),
            title=f"{self.survey.title or 'Survey'}: {counted_people(self.users)}, "
            f"{counted(len(self.survey.questions), 'question')}, {self.survey.trust} trust",
            notes=(
                f"Margins hold with {shown:.10g} % confidence. If a share is estimated at 30 % "
                "±2 points, the true share is between 28 % and 32 %. The second margin is for the "
                "population from which people are drawn at random.",
                f"Promised: {self.promised}.",
                f"{self.odds.sentence} {self.odds.explanation}",
                self.odds.delta,
                self.sends,
                *self.repeated,
                *self.not_hidden,
                *(f"{who}: {what}" for who, what in self.seen),
            ),
            words=2,
            spare=("protocol", "kind"),
        )

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table().html()

    def to_dict(self) -> dict[str, Any]:
        """The plan for JSON."""
        survey, odds = self.survey, self.odds
        return {
            "title": survey.title,
            "trust": str(survey.trust),
            "users": self.users,
            "confidence": self.confidence,
            "budget": {"epsilon": survey.budget.epsilon, "delta": survey.budget.delta},
            "guarantee": self.guarantee.to_dict(),
            "questions": [one.to_dict() for one in self.answers],
            "tables": [one.to_dict() for one in self.tables],
            "waves": survey.waves,
            "keep_answers": survey.keep_answers,
            "questions_each": list(self.questions_each),
            "messages_per_user": self.design.messages_per_user,
            "slots": self.design.slots,
            "sealed_bytes": self.design.sealed_bytes,
            "local_epsilon": self.collusion,
            "odds": {
                "of": 100,
                "without": odds.without,
                "with": odds.within,
                "sentence": odds.sentence,
                "delta": odds.delta,
            },
            "sends": self.sends,
            "not_hidden": list(self.not_hidden),
            "sees": [{"who": who, "what": what} for who, what in self.seen],
            "consent": list(self.consent),
        }


# Inverse questions ----------------------------------------------------------------------------


def needed_epsilon(
    survey: "Survey", margin: float, *, users: int | None = None, confidence: float = 0.95
) -> float:
    """About the smallest ε for which the margins of all questions are at most `margin`, which is a
    share. These margins allow for privacy alone. Tables of two questions may have larger margins.
    """
    target, people = checks.share("margin", margin), users or survey.least_people

    def worst(epsilon: float) -> float:
        changed = _changed(survey, budget=Budget(epsilon, survey.budget.delta))
        return SurveyPlan(changed, people, confidence).worst_margin

    found = _least(worst, target, survey.budget.epsilon, _LEAST_EPSILON, _MOST_EPSILON)
    if found is None:
        raise Infeasible(
            f"a margin of ±{_points(target)} points must be possible with an epsilon of at most "
            f"{_MOST_EPSILON:g}, got {counted_people(people)}"
        )
    return found


def needed_people(survey: "Survey", margin: float, *, confidence: float = 0.95) -> int:
    """About the least number of people for whom the margins of all questions are at most `margin`,
    which is a share. These margins allow for privacy and sampling together. Tables of two questions
    may have larger margins.
    """
    target = checks.share("margin", margin)

    def worst(users: float) -> float:
        changed = _changed(survey, least_people=round(users))
        plan = SurveyPlan(changed, changed.least_people, confidence)
        return max(answer.with_sampling for answer in plan.answers)

    found = _least(worst, target, float(survey.least_people), 2.0, 1e10)
    if found is None:
        raise Infeasible(f"a margin of ±{_points(target)} points must be possible with some crowd")
    return round(found)


def _changed(survey: "Survey", **setting: Any) -> "Survey":
    """The survey with another setting. If nothing changes, it is the same object, whose designs
    are already computed.
    """
    same = all(getattr(survey, name) == value for name, value in setting.items())
    return survey if same else replace(survey, **setting)


def _least(
    worst: Callable[[float], float], target: float, start: float, low: float, high: float
) -> float | None:
    """About the least number for which `worst` is at most the target. Numbers with few digits are
    preferred. The result is None if there is no such number. `worst` must fall as the number grows.
    """

    def fits(value: float) -> bool:
        try:
            return worst(value) <= target
        except HeadcountError:
            return False

    inside: float | None = None
    outside = low
    value, factor = min(max(start, low), high), 2.0
    for _ in range(_STEPS):
        if fits(value):
            inside = value
            if outside > low or value <= low:
                break
            value = max(value / factor, low)
        else:
            outside = value
            if inside is not None or value >= high:
                break
            value = min(value * factor, high)
    if inside is None:
        return None
    while inside / outside > _CLOSE:
        middle = _two_digits(math.sqrt(inside * outside), outside, inside)
        if middle is None:
            break
        inside, outside = (middle, outside) if fits(middle) else (inside, middle)
    return inside


def _two_digits(value: float, low: float, high: float) -> float | None:
    """A number near the value with two or three digits, strictly between `low` and `high`. The
    result is None if there is no such number.
    """
    for digits in (2, 3):
        near = float(f"{value:.{digits}g}")
        if low < near < high:
            return near
    return None


def _points(share: float) -> str:
    """A share in percentage points."""
    points = 100 * share
    return short(points, 2) if points < 9.95 else f"{points:.0f}"
