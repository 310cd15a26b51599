"""The number of people who say yes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.core.estimate import Answer
from headcount.core.task import Holding, Task
from headcount.core.tasks.bounded import Bounded, Sum
from headcount.core.tasks.uses import Uses
from headcount.core.values import bad_value, vector


@dataclass(frozen=True)
class Count(Task):
    """How many people say yes? Values are 0 and 1, or False and True."""

    name = "count"
    uses = Uses(sampling="binomial", comparison="share")
    yes_no = True
    error_unit = " (people)"
    whole_answers = True
    numbered = True
    allowed = "0 or 1"
    example_words = "three in ten people say yes"

    def __str__(self) -> str:
        return "Count"

    @property
    def domain(self) -> int:
        return 2

    @property
    def bounded(self) -> Bounded:
        return Sum(0, 1, whole=True)

    def encode(self, values: ArrayLike, *, first: int = 0) -> NDArray[np.uint8]:
        array = vector(values)
        if array.dtype == np.bool_:
            # The bytes are checked, since NumPy may store any byte in a bool.
            array = array.view(np.uint8)
        if array.dtype == np.uint8 and array.max() <= 1:
            return array  # the common case is fast: one pass and no copy
        fits = self.fits(array)
        if not fits.all():
            raise bad_value(array, ~fits, self.allowed, first)
        return array.astype(np.uint8)

    def fits(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        fitting: NDArray[np.bool_] = (values == 0) | (values == 1)
        return fitting

    def example(self, users: int) -> NDArray[np.int64]:
        yes = round(0.3 * users)
        return np.array([users - yes, yes])

    def answer(self, held: Holding) -> Answer:
        return float(held.counts[1])

    def answer_range(self, users: int) -> tuple[float, float]:
        return 0.0, float(users)
