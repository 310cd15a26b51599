"""A task: the question about the crowd, and the values that people may hold.

The package `core/tasks` has the tasks themselves, and `core/tasks/registry.py` lists them.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.core import checks
from headcount.core.budget import MOST_USERS
from headcount.core.errors import InvalidParameter, InvalidValue
from headcount.core.estimate import Answer, Estimate
from headcount.core.tasks.registry import TASKS, task_class
from headcount.core.tasks.uses import Uses
from headcount.core.values import array_of_counts, evenly

if TYPE_CHECKING:
    from headcount.core.tasks.bounded import Bounded

# The number of people who hold each value. For numbers within bounds, this is a mapping from values
# to counts: {0.5: 1000, 2: 300}.
Counts: TypeAlias = ArrayLike | Mapping[float, int]
# The kind of values that people hold. Bools count as whole numbers, and times count as dates. A
# collection has several labels.
ValueKind: TypeAlias = Literal["words", "whole numbers", "real numbers", "dates", "collections"]


@dataclass(frozen=True, eq=False)
class Holding:
    """The values of a crowd: `counts[j]` people hold the encoded value `values[j]`."""

    values: NDArray[Any]
    counts: NDArray[np.int64]

    @property
    def users(self) -> int:
        return int(self.counts.sum())


class Task(ABC):
    """A question about a crowd. Protocols see people's values only after `encode`.

    `smoothness` is None unless protocols smooth the answer. If they do, it is the number of times
    that the answer can be differentiated, and the stated errors include privacy noise alone and
    differ from point to point. `postprocessing` lists the names of the steps in
    `core.postprocessing` that make sense for the answer. The step "clip" never leaves an answer
    below `least_clipped`. `uses` says what else can be done with an estimate.

    If `yes_no`, values are 0 for no and 1 for yes, and the answer is the number of people who say
    yes. If the answer is a row of histograms, and each person is in one bucket of each histogram,
    `histograms` is the number of histograms. Comparisons of protocols use `example_settings` if the
    user gives no settings.
    """

    name: ClassVar[str]
    postprocessing: ClassVar[tuple[str, ...]] = ("clip",)
    least_clipped: ClassVar[float] = -math.inf
    uses: ClassVar[Uses] = Uses()
    yes_no: ClassVar[bool] = False
    histograms: ClassVar[int] = 1
    example_settings: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    smoothness: float | None = None
    error_unit: ClassVar[str] = ""  # the end of an axis title, such as ", in a bucket (people)"

    # Values that people may hold ----------------------------------------------------------------

    @property
    @abstractmethod
    def domain(self) -> int:
        """How many different values a person can hold."""

    @abstractmethod
    def encode(self, values: ArrayLike, *, first: int = 0) -> NDArray[Any]:
        """People's values in the form that protocols take.

        Raises `InvalidValue` if a value is outside the domain. The result may share memory with
        `values`. `first` is the number of people whose values were encoded earlier. Error messages
        use it to say which person's value is wrong.
        """

    def fits(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """A mask of the values that a person may hold. By default, each value is tested by encoding
        it alone.
        """

        def alone(value: NDArray[Any]) -> bool:
            try:
                self.encode(value)
            except InvalidValue:
                return False
            return True

        return np.array([alone(values[at : at + 1]) for at in range(len(values))], dtype=np.bool_)

    @property
    def allowed(self) -> str:
        """The values that a person may hold, in words that complete "every value must be …"."""
        return f"a value for {checks.a_task(self.name)}"

    @property
    def value_kind(self) -> ValueKind:
        """The kind of people's values. By default, they are whole numbers, such as 0 for no."""
        return "whole numbers"

    @property
    def listed_values(self) -> Sequence[int | str] | None:
        """All values in the order of their codes, or None if values are not a list of labels."""
        return None

    @property
    def numbered(self) -> bool:
        """Whether encoded values are the numbers 0, …, domain − 1."""
        return False

    @property
    def encoded_dtype(self) -> np.dtype[Any]:
        """The type of encoded values.

        By default, it is the smallest integer type if values are numbered, or else float64.
        """
        return np.min_scalar_type(self.domain - 1) if self.numbered else np.dtype(np.float64)

    @property
    def open_values(self) -> bool:
        """Whether people may hold values that the task does not list."""
        return False

    @property
    def bounded(self) -> "Bounded | None":
        """The same question, asked about numbers within bounds, or None if there is no such
        question.
        """
        return None

    def holding(self, counts: Counts) -> Holding:
        """How many people hold each value. By default, `counts` has a number for each value, in
        order.
        """
        array = array_of_counts(counts)
        whole = array.dtype.kind in "iu" and array.shape == (self.domain,)
        if not whole or array.min() < 0 or not 1 <= sum(array.tolist()) <= MOST_USERS:
            raise InvalidValue(
                f"true counts must be {self.domain} whole numbers that say how many people hold "
                f"each value, none negative, with a sum of 1 to {MOST_USERS}, "
                f"got {checks.shown(counts)}"
            )
        return Holding(np.arange(self.domain), array.astype(np.int64))

    def example(self, users: int) -> Counts:
        """The values of a made-up crowd, for comparisons. By default, all are equally common."""
        return evenly(users, self.domain)

    @property
    def example_words(self) -> str:
        """The values of the made-up crowd of `example`, in words."""
        return "people are spread evenly over the values"

    # The answer ---------------------------------------------------------------------------------

    @property
    @abstractmethod
    def whole_answers(self) -> bool:
        """Whether the answer is a whole number, or consists of whole numbers."""

    @abstractmethod
    def answer(self, held: Holding) -> Answer:
        """The true answer for a crowd that holds these values."""

    @abstractmethod
    def answer_range(self, users: int) -> tuple[float, float]:
        """The least and the largest possible answer for `users` people."""

    def answer_size(self, users: int) -> float:
        """The size that counts as 100 % if an error is stated as a percentage.

        By default, it is the length of the answer's range.
        """
        low, high = self.answer_range(users)
        return high - low

    @property
    def buckets(self) -> Sequence[int | str | float] | None:
        """The values or points to which the numbers of an answer belong, or None for a single
        number.
        """
        return None

    def estimate(self, **parts: Any) -> Estimate:
        """An estimate with these fields. A task may return a subclass that has further methods."""
        return Estimate(**parts)

    def total(self, users: int) -> float | None:
        """The sum of the numbers of an answer if it is known in advance, or else None."""
        return None

    @property
    def margin_note(self) -> str:
        """A sentence about the errors that margins leave out. It is empty if margins include all
        errors.
        """
        return ""

    @property
    def ranking_note(self) -> str:
        """A sentence about the error by which plans rank protocols. It is empty if this error is
        the standard error.
        """
        return ""

    # Settings -----------------------------------------------------------------------------------

    @property
    def settings(self) -> Mapping[str, Any]:
        """The arguments that create this task, by name."""
        return {}

    def changed(self, **settings: Any) -> Self:
        """The same question with some settings changed."""
        make: Callable[..., Self] = type(self)
        return make(**{**self.settings, **settings})

    def to_dict(self) -> dict[str, Any]:
        """The task for JSON: its name, and its settings as `task_from` takes them."""
        return {"name": self.name, **self.settings}


def all_codes(task: Task) -> Sequence[int]:
    """All encoded values of a task whose values can be listed, in the order of `holding`."""
    if task.numbered:
        return range(task.domain)
    codes: list[int] = task.holding(np.ones(task.domain, dtype=np.int64)).values.tolist()
    return codes


def task_from(document: object) -> Task:
    """The task that a document of `Task.to_dict` describes."""
    if not isinstance(document, Mapping) or document.get("name") not in TASKS:
        raise InvalidParameter(
            f"a task must have one of the names {', '.join(TASKS)}, got {checks.shown(document)}"
        )
    settings = {str(key): value for key, value in document.items() if key != "name"}
    kind = task_class(document["name"])
    try:
        return kind(**settings)
    except TypeError:
        raise InvalidParameter(
            f"the settings must fit {checks.a_task(kind.name)}, got {', '.join(settings) or 'none'}"
        ) from None
