"""The question that is asked of the crowd, and which values may answer it.

The tasks themselves are in `core/tasks`, and `core/tasks/registry.py` has a line for each.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.core import checks
from headcount.core.budget import MOST_USERS
from headcount.core.errors import InvalidParameter, InvalidValue
from headcount.core.estimate import Answer
from headcount.core.tasks.registry import TASKS, task_class
from headcount.core.values import array_of_counts, evenly

if TYPE_CHECKING:
    from headcount.core.tasks.bounded import Bounded

# How many people hold each value; for numbers within bounds, by value: {0.5: 1000, 2: 300}.
Counts: TypeAlias = ArrayLike | Mapping[float, int]
# What people hold; bools count as whole numbers.
ValueKind: TypeAlias = Literal["words", "whole numbers", "real numbers"]


@dataclass(frozen=True, eq=False)
class Holding:
    """What a crowd holds: counts[j] people the (encoded) value values[j]."""

    values: NDArray[Any]
    counts: NDArray[np.int64]

    @property
    def users(self) -> int:
        return int(self.counts.sum())


class Task(ABC):
    """A question. It knows its values; protocols see them only after `encode`.

    Where protocols smooth the answer, `smoothness` is how often it can be differentiated. The
    errors that they state are then those of privacy noise, and differ from point to point.
    `postprocessing` names the steps of `core.postprocessing` that make sense for the answer.
    """

    name: ClassVar[str]
    postprocessing: ClassVar[tuple[str, ...]] = ("clip",)
    smoothness: float | None = None

    # What people may hold -----------------------------------------------------------------------

    @property
    @abstractmethod
    def domain(self) -> int:
        """How many different values a person can hold."""

    @abstractmethod
    def encode(self, values: ArrayLike, *, first: int = 0) -> NDArray[Any]:
        """People's values as protocols take them; `InvalidValue` for one outside the domain.

        The result may share memory with `values`.

        `first` is how many people came before these, for the error's text.
        """

    def fits(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of some numbers a person may hold. By default, each is encoded alone."""

        def alone(value: NDArray[Any]) -> bool:
            try:
                self.encode(value)
            except InvalidValue:
                return False
            return True

        return np.array([alone(values[at : at + 1]) for at in range(len(values))], dtype=np.bool_)

    @property
    def allowed(self) -> str:
        """The values that a person may hold, in words: "every value must be …"."""
        return f"one that a {self.name} takes"

    @property
    def value_kind(self) -> ValueKind:
        """What a person's value is. By default a whole number, such as 0 for no and 1 for yes."""
        return "whole numbers"

    @property
    def listed_values(self) -> Sequence[int | str] | None:
        """All values in the order of their codes, where they are a list of labels."""
        return None

    @property
    def numbered(self) -> bool:
        """Whether encoded values are the numbers 0, …, domain − 1."""
        return False

    @property
    def encoded_dtype(self) -> np.dtype[Any]:
        """The type of encoded values. By default the smallest for numbered ones, else a float."""
        return np.min_scalar_type(self.domain - 1) if self.numbered else np.dtype(np.float64)

    @property
    def open_values(self) -> bool:
        """Whether people may hold values that are not declared."""
        return False

    @property
    def bounded(self) -> "Bounded | None":
        """The same question about numbers within bounds; None if it cannot be asked so."""
        return None

    def holding(self, counts: Counts) -> Holding:
        """How many people hold each value: here a number for every one of the domain, in order."""
        array = array_of_counts(counts)
        whole = array.dtype.kind in "iu" and array.shape == (self.domain,)
        if not whole or array.min() < 0 or not 1 <= sum(array.tolist()) <= MOST_USERS:
            raise InvalidValue(
                f"true counts must be {self.domain} whole numbers, none negative, of 1 to "
                f"{MOST_USERS} people (how many hold each value), got {checks.shown(counts)}"
            )
        return Holding(np.arange(self.domain), array.astype(np.int64))

    def example(self, users: int) -> Counts:
        """What a made-up crowd holds, for comparisons. By default every value equally often."""
        return evenly(users, self.domain)

    @property
    def example_words(self) -> str:
        """What the made-up crowd of `example` holds, in words."""
        return "people are spread evenly over the values"

    # What is answered ---------------------------------------------------------------------------

    @property
    @abstractmethod
    def whole_answers(self) -> bool:
        """Whether the answer is a whole number, or several."""

    @abstractmethod
    def answer(self, held: Holding) -> Answer:
        """The true answer of a crowd that holds such values."""

    @abstractmethod
    def answer_range(self, users: int) -> tuple[float, float]:
        """Between which bounds the answer lies, whatever the values of `users` people."""

    def answer_size(self, users: int) -> float:
        """What a share of an answer is a share of. By default the length of the range."""
        low, high = self.answer_range(users)
        return high - low

    @property
    def buckets(self) -> Sequence[int | str | float] | None:
        """What the numbers of an answer belong to, where there are several."""
        return None

    def total(self, users: int) -> float | None:
        """What the numbers of an answer add up to, where that is known beforehand."""
        return None

    @property
    def margin_note(self) -> str:
        """A sentence on what the margins of protocols leave out; empty if they hold all errors."""
        return ""

    @property
    def ranking_note(self) -> str:
        """A sentence on the error by which plans rank; empty if it is the standard error."""
        return ""

    # How it is written --------------------------------------------------------------------------

    @property
    def settings(self) -> Mapping[str, Any]:
        """The arguments that make the same task, by name."""
        return {}

    def changed(self, **settings: Any) -> Self:
        """The same question with some other settings."""
        make: Callable[..., Self] = type(self)
        return make(**{**self.settings, **settings})

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the name, and the settings as `task_from` takes them."""
        return {"name": self.name, **self.settings}


def task_from(document: object) -> Task:
    """The task that `Task.to_dict` wrote."""
    if not isinstance(document, Mapping) or document.get("name") not in TASKS:
        raise InvalidParameter(
            f"a task must have a name, one of {', '.join(TASKS)}, got {checks.shown(document)}"
        )
    settings = {str(key): value for key, value in document.items() if key != "name"}
    kind = task_class(document["name"])
    try:
        return kind(**settings)
    except TypeError:
        raise InvalidParameter(
            f"a {kind.name} must have its own settings, got {', '.join(settings) or 'none'}"
        ) from None
