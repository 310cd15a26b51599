"""A task that Headcount does not have. One small file is all that a task needs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.core import checks
from headcount.core.estimate import Answer
from headcount.core.task import Holding, Task
from headcount.core.tasks.bounded import Sum
from headcount.core.values import bad_value, vector


@dataclass(frozen=True)
class Multiples(Task):
    """How many people hold a multiple of a number?"""

    of: int

    name = "multiples"
    whole_answers = True
    domain = 2
    numbered = True
    allowed = "a whole number"
    bounded = Sum(0, 1, whole=True)

    def __post_init__(self) -> None:
        checks.whole("of", self.of, low=2, high=2**32)

    def __str__(self) -> str:
        return f"Multiples of {self.of}"

    @property
    def settings(self) -> Mapping[str, Any]:
        return {"of": self.of}

    def encode(self, values: ArrayLike, *, first: int = 0) -> NDArray[np.uint8]:
        array = vector(values)
        wrong = array != np.floor(array)
        if wrong.any():
            raise bad_value(array, wrong, self.allowed, first)
        rest: NDArray[Any] = array % self.of
        return np.where(rest == 0, np.uint8(1), np.uint8(0))

    def answer(self, held: Holding) -> Answer:
        return float(held.counts[1])

    def answer_range(self, users: int) -> tuple[float, float]:
        return 0.0, float(users)
