"""The questions of a survey: what people may answer, and the task that counts the answers.

One release answers a question, and it may answer other questions, too. Everything that people read
about the question comes from this release, which is charged once. If a question is optional, "no
answer" is counted and hidden like any other answer.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.cached import cached_property
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Estimate
from headcount.core.task import Task
from headcount.core.tasks.bounded import Mean
from headcount.core.tasks.boxes import Boxes
from headcount.core.tasks.count import Count
from headcount.core.tasks.distribution import Distribution
from headcount.core.tasks.histogram import Histogram
from headcount.survey import settings
from headcount.survey.answers import NO, NO_ANSWER, YES, Given, numbers_given
from headcount.survey.numbers import mean_reading, number_readings, part_readings
from headcount.survey.readings import (
    Reading,
    box_readings,
    level_readings,
    share_readings,
    yes_readings,
)

_ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
_MOST_CHOICES = 1000
_MOST_LEVELS = 101
_FINE = 256  # by default, a range of numbers is divided into this many cells
_MOST_CELLS = 4096
WANTED = ("mean", "quantiles", "shares")


@dataclass(frozen=True)
class Question(ABC):
    """A question of a survey.

    `weight` says how exact the answer must be in relation to the other questions: a question of
    weight 2 may err twice as much as a question of weight 1. An `optional` question may be left
    out. `protocol` names the protocol of the question, and `options` are the options of this
    protocol. By default, the design of the survey chooses both.
    """

    id: str
    text: str
    weight: float = field(default=1.0, kw_only=True)
    optional: bool = field(default=False, kw_only=True)
    protocol: str | None = field(default=None, kw_only=True)
    options: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not _ID.fullmatch(self.id):
            raise InvalidParameter(
                "`id` must be a letter, followed by at most 39 letters, digits, - or _, got "
                f"{checks.shown(self.id)}",
                hint="people see the text, and `id` names the column of answers",
            )
        settings.text("text", self.text)
        weight = checks.real("weight", self.weight)
        if not 1e-3 <= weight <= 1e3:
            raise InvalidParameter(f"`weight` must be between 0.001 and 1000, got {weight:g}")
        checks.flag("optional", self.optional)
        if self.protocol is not None:
            settings.text("protocol", self.protocol)
        checks.instance("options", self.options, Mapping)
        if self.options and self.protocol is None:
            raise InvalidParameter("`options` must come with a `protocol`, got no protocol")

    @property
    @abstractmethod
    def task(self) -> Task:
        """The task that answers the question."""

    @abstractmethod
    def values(self, answers: Any) -> Any:
        """People's answers as values of the task. The error for a wrong answer names its row."""

    @abstractmethod
    def readings(
        self, estimate: Estimate, confidence: float = 0.95, *, sampling: bool = False
    ) -> tuple[Reading, ...]:
        """Everything that people read from the one release, with intervals.

        With `sampling=True`, the intervals are for the population from which people were drawn.
        """

    @property
    @abstractmethod
    def allowed(self) -> str:
        """The possible answers, in words that complete "must be answered …"."""

    @property
    def boxes(self) -> tuple[str, ...]:
        """The labels of the boxes, if people tick boxes."""
        return ()

    @property
    def of_numbers(self) -> bool:
        """Whether answers are numbers."""
        return False

    @property
    def yes_or_no(self) -> bool:
        """Whether answers are yes and no."""
        return False

    def to_dict(self) -> dict[str, Any]:
        """The question as data, as the survey file has it."""
        document: dict[str, Any] = {"id": self.id, "text": self.text, "kind": self.kind}
        for one in fields(self):
            value = getattr(self, one.name)
            default = one.default_factory() if one.default_factory is not MISSING else one.default
            if one.name not in document and value != default:
                document[one.name] = _plain(value)
        return document


@dataclass(frozen=True)
class _Listed(Question):
    """A question with a list of labels, of which a person chooses one."""

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """The labels of the possible answers, without "no answer"."""

    @property
    def buckets(self) -> tuple[str, ...]:
        """The labels of all possible answers."""
        return (*self.labels, NO_ANSWER) if self.optional else self.labels

    @cached_property
    def task(self) -> Task:
        """The task that answers the question."""
        return Histogram(self.buckets)

    @cached_property
    def _words(self) -> dict[str, int]:
        """The words that people may give, each with the number of its bucket."""
        return {label: at for at, label in enumerate(self.labels)}

    def values(self, answers: Any) -> Any:
        """People's answers as values of the task."""
        found = Given.of(answers).numbered(self, self._words)
        return np.array(self.buckets, dtype=object)[found]

    def readings(
        self, estimate: Estimate, confidence: float = 0.95, *, sampling: bool = False
    ) -> tuple[Reading, ...]:
        return share_readings(
            estimate, self.labels, confidence, sampling=sampling, optional=self.optional
        )


@dataclass(frozen=True)
class YesNo(_Listed):
    """A question that is answered with yes or no."""

    kind = "yes-no"
    labels = ("no", "yes")
    allowed = "yes or no"
    yes_or_no = True

    @cached_property
    def task(self) -> Task:
        """The task that answers the question."""
        return Histogram(self.buckets) if self.optional else Count()

    @cached_property
    def _words(self) -> dict[str, int]:
        said = dict.fromkeys(NO, 0) | dict.fromkeys(YES, 1)
        return {
            form: at
            for word, at in said.items()
            for form in (word, word.capitalize(), word.upper())
        }

    def values(self, answers: Any) -> Any:
        """People's answers as values of the task."""
        if self.optional:
            return super().values(answers)
        return Given.of(answers).numbered(self, self._words).astype(np.uint8)

    def readings(
        self, estimate: Estimate, confidence: float = 0.95, *, sampling: bool = False
    ) -> tuple[Reading, ...]:
        if self.optional:
            kind: dict[str, Any] = {"sampling": sampling, "optional": True}
            return share_readings(estimate, ("yes", "no"), confidence, **kind)
        return yes_readings(estimate, confidence, sampling=sampling)


@dataclass(frozen=True)
class Choice(_Listed):
    """A question that is answered with one of several choices."""

    choices: tuple[str, ...] = ()

    kind = "choice"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "choices", settings.labels(self.choices, 2, _MOST_CHOICES))

    @property
    def labels(self) -> tuple[str, ...]:
        return self.choices

    @property
    def allowed(self) -> str:
        return f"with one of {checks.few(self.choices)}"


@dataclass(frozen=True)
class Scale(_Listed):
    """A question that is answered with a whole number from `low` to `high`, on a row of buttons.

    One release gives the share of each number and the mean.
    """

    low: int = 1
    high: int = 5

    kind = "scale"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("low", "high"):
            number = checks.whole(name, getattr(self, name), low=-1000, high=1000)
            object.__setattr__(self, name, number)
        if not 1 <= self.high - self.low < _MOST_LEVELS:
            raise InvalidParameter(
                f"`high` must be above `low`, and by at most {_MOST_LEVELS - 1}, got "
                f"{self.low} and {self.high}",
                hint='for a wider range use kind = "number"',
            )

    @property
    def levels(self) -> tuple[int, ...]:
        """The possible answers as numbers."""
        return tuple(range(self.low, self.high + 1))

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(map(str, self.levels))

    @cached_property
    def _words(self) -> dict[str, int]:
        return {f"{level}{end}": at for at, level in enumerate(self.levels) for end in ("", ".0")}

    @property
    def allowed(self) -> str:
        return f"with a whole number from {self.low} to {self.high}"

    def readings(
        self, estimate: Estimate, confidence: float = 0.95, *, sampling: bool = False
    ) -> tuple[Reading, ...]:
        kind: dict[str, Any] = {"sampling": sampling, "optional": self.optional}
        return (
            level_readings(estimate, self.levels, confidence, **kind),
            *share_readings(estimate, self.labels, confidence, **kind),
        )


@dataclass(frozen=True)
class Several(Question):
    """A question that is answered with any of several choices, or with at most `at_most` of them.

    A person may also choose none of them. Privacy depends on `at_most`: the answers of two people
    differ in at most 2·`at_most` boxes.
    """

    choices: tuple[str, ...] = ()
    at_most: int | None = None

    kind = "several"

    def __post_init__(self) -> None:
        super().__post_init__()
        choices = settings.labels(self.choices, 2, 61)
        object.__setattr__(self, "choices", choices)
        if any(";" in label for label in choices):
            raise InvalidParameter(
                "`choices` must not contain a semicolon, which separates the labels of an answer"
            )
        if self.at_most is not None:
            most = checks.whole("at_most", self.at_most, low=1, high=len(choices))
            object.__setattr__(self, "at_most", most)

    @property
    def boxes(self) -> tuple[str, ...]:
        return self.choices

    @property
    def most(self) -> int:
        """How many choices a person may tick."""
        return len(self.choices) if self.at_most is None else self.at_most

    @cached_property
    def task(self) -> Task:
        """The task that answers the question."""
        if not self.optional:
            return Boxes(self.choices, self.most)
        return Boxes((*self.choices, NO_ANSWER), self.most)

    @property
    def allowed(self) -> str:
        limit = "" if self.at_most is None else f"at most {self.at_most} of "
        return f"with {limit}{checks.few(self.choices)}"

    def values(self, answers: Any) -> NDArray[np.int64]:
        """A whole number for each person. Its binary digit b says whether box b is ticked."""
        given = Given.of(answers)
        places = {label: 1 << at for at, label in enumerate(self.choices)}

        def code(answer: Any) -> int | None:
            if isinstance(answer, str):  # a semicolon alone is an answer without a tick
                ticked = [word.strip() for word in answer.split(";") if word.strip()]
            else:
                ticked = [str(one) for one in answer] if isinstance(answer, Sequence) else ["?"]
            if len(set(ticked)) > self.most or not all(label in places for label in ticked):
                return None
            return sum(places[label] for label in set(ticked))

        skipped = 1 << len(self.choices) if self.optional else None
        return given.coded(self, code, skipped)

    def readings(
        self, estimate: Estimate, confidence: float = 0.95, *, sampling: bool = False
    ) -> tuple[Reading, ...]:
        return box_readings(
            estimate, self.choices, confidence, sampling=sampling, optional=self.optional
        )


@dataclass(frozen=True)
class Number(Question):
    """A question that is answered with a number from `low` to `high`.

    `want` says what is read from the answers: the mean, quantiles at the shares `at`, or the shares
    of people in bins. `bins` has the edges of the bins. If only the mean is wanted and the question
    is not optional, only the mean is released. Otherwise the whole distribution is released. It
    divides the range into `cells` cells, and does not tell numbers in one cell apart. By default,
    it has 256 cells, or one cell for each number if `whole` is true and the range has at most 4,096
    numbers.
    """

    low: float = math.nan
    high: float = math.nan
    whole: bool = False
    want: tuple[str, ...] = ("mean",)
    at: tuple[float, ...] = (0.25, 0.5, 0.75)
    bins: tuple[float, ...] = ()
    cells: int | None = None

    kind = "number"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("low", "high"):
            if isinstance(bound := getattr(self, name), float) and math.isnan(bound):
                raise InvalidParameter(
                    f"a number must have the bound `{name}`, got none",
                    hint="choose the bounds before you know the answers",
                )
        bounds = Mean(self.low, self.high, whole=self.whole)
        object.__setattr__(self, "low", bounds.low)
        object.__setattr__(self, "high", bounds.high)
        want = settings.listed("want", self.want, "words such as mean")
        for word in want:
            if word not in WANTED:
                raise InvalidParameter(
                    f"`want` must consist of {', '.join(WANTED)}, got {checks.shown(word)}"
                )
        object.__setattr__(self, "want", want)
        at = tuple(
            checks.share("at", one) for one in settings.listed("at", self.at, "shares such as 0.5")
        )
        object.__setattr__(self, "at", at)
        self._check_bins()
        if self.cells is not None:
            object.__setattr__(
                self, "cells", checks.whole("cells", self.cells, low=2, high=_MOST_CELLS)
            )

    def _check_bins(self) -> None:
        if not self.bins:
            if "shares" in self.want:
                raise InvalidParameter(
                    "`want` must come with `bins` to have shares, got no bins",
                    hint="bins = [0, 18, 65, 120] has three bins",
                )
            return
        bins = tuple(
            checks.real("bins", edge) for edge in settings.listed("bins", self.bins, "numbers")
        )
        inside = len(bins) >= 2 and self.low <= bins[0] and bins[-1] <= self.high
        if not inside or any(a >= b for a, b in pairwise(bins)):
            raise InvalidParameter(
                f"`bins` must be increasing edges from {self.low:g} to {self.high:g}, got "
                f"{list(bins)}"
            )
        object.__setattr__(self, "bins", bins)
        if "shares" not in self.want:
            object.__setattr__(self, "want", (*self.want, "shares"))

    @property
    def of_numbers(self) -> bool:
        return True

    @property
    def only_mean(self) -> bool:
        """Whether the mean is the only answer, so that no distribution is needed."""
        return self.want == ("mean",) and not self.optional

    @property
    def exact(self) -> bool:
        """Whether each possible number has a cell of its own."""
        return self.whole and self.cells is None and self.high - self.low < _MOST_CELLS

    @cached_property
    def grid(self) -> tuple[float, int]:
        """The width of a cell, and the number of cells. The cell of "no answer" is not counted."""
        if self.exact:
            return 1.0, int(self.high - self.low) + 1
        cells = self.cells or _FINE
        return (self.high - self.low) / cells, cells

    @property
    def top(self) -> float:
        """The upper edge of the cells of numbers. The cell of "no answer" is above it."""
        width, cells = self.grid
        return self.low + width * cells

    @cached_property
    def task(self) -> Task:
        """The task that answers the question."""
        if self.only_mean:
            return Mean(self.low, self.high, whole=self.whole)
        width, cells = self.grid
        every = cells + self.optional
        return Distribution(self.low, self.low + width * every, every)

    @property
    def allowed(self) -> str:
        return f"with a {'whole ' * self.whole}number from {self.low:g} to {self.high:g}"

    def values(self, answers: Any) -> NDArray[Any]:
        """People's answers as values of the task."""
        numbers, skipped = numbers_given(self, answers, self.low, self.high, whole=self.whole)
        if self.only_mean:
            return numbers.astype(np.int64) if self.whole else numbers
        width, cells = self.grid
        # The highest number belongs to the last cell of numbers, and "no answer" to the next.
        numbers = (
            np.minimum(numbers, self.low + width * (cells - 0.5)) if self.optional else numbers
        )
        return np.where(skipped, self.low + width * (cells + 0.5), numbers)

    def readings(
        self, estimate: Estimate, confidence: float = 0.95, *, sampling: bool = False
    ) -> tuple[Reading, ...]:
        if self.only_mean:
            return (mean_reading(estimate, confidence, sampling=sampling),)
        read = part_readings if self.optional else number_readings
        return read(self, estimate, confidence, sampling=sampling)


KINDS: dict[str, type[Question]] = {
    kind.kind: kind for kind in (YesNo, Choice, Several, Scale, Number)
}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
