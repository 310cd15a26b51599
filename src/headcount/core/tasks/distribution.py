"""The distribution of people's numbers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.core import checks
from headcount.core.cached import cached_property
from headcount.core.distribution import DistributionEstimate
from headcount.core.estimate import Answer, Estimate
from headcount.core.task import Counts, Holding, Task
from headcount.core.tasks.bounded import Bounded
from headcount.core.values import evenly

MOST_CELLS = 2**20


@dataclass(frozen=True, init=False)
class Distribution(Bounded):
    """Which share of the people is below each number?

    The range is divided into `cells` equal cells. The data never decide where cells begin. Numbers
    in the same cell are not told apart. The answer is the share of people below each edge between
    two cells. One release answers all further questions: see `DistributionEstimate`.
    """

    cells: int

    name = "distribution"
    postprocessing: ClassVar[tuple[str, ...]] = ("clip", "monotone")
    whole_answers = False
    example_words = "people are spread evenly over the range"
    ranking_note = (
        "Candidates are ordered by the root mean squared error of the share of people below an "
        "edge, over all edges between cells."
    )

    def __init__(self, low: float, high: float, cells: int = 1024, *, clamp: bool = False) -> None:
        super().__init__(low, high, clamp=clamp)
        object.__setattr__(self, "cells", checks.whole("cells", cells, low=2, high=MOST_CELLS))

    @property
    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings.items() if name != "whole"}

    def __str__(self) -> str:
        return f"{super().__str__()}, {self.cells:,} cells"

    @cached_property
    def edges(self) -> tuple[float, ...]:
        """The edges of all cells, from the low end to the high end."""
        places = self.low + float(self.span) * (np.arange(self.cells + 1) / self.cells)
        return tuple(places.tolist())

    # What people may hold -----------------------------------------------------------------------

    @property
    def domain(self) -> int:
        return self.cells

    @property
    def numbered(self) -> bool:
        return True

    @property
    def encoded_dtype(self) -> np.dtype[Any]:
        return np.min_scalar_type(self.cells - 1)

    def encode(self, values: ArrayLike, *, first: int = 0) -> NDArray[Any]:
        """The number of each value's cell. An edge belongs to the cell above it."""
        numbers = super().encode(values, first=first)
        places = (numbers - self.low) * (self.cells / float(self.span))
        found = np.clip(places, 0, self.cells - 1).astype(np.int64)
        # Rounding may move a place across an edge.
        edges = np.array(self.edges)
        found += (numbers >= edges[found + 1]) & (found < self.cells - 1)
        found -= numbers < edges[found]
        return found.astype(self.encoded_dtype)

    def holding(self, counts: Counts) -> Holding:
        """How many people hold each value: {value: people}, or a number for each cell."""
        if not isinstance(counts, Mapping):
            return Task.holding(self, counts)
        held = super().holding(counts)
        people = np.zeros(self.cells, dtype=np.int64)
        np.add.at(people, held.values.astype(np.int64), held.counts)
        return Holding(np.arange(self.cells), people)

    def example(self, users: int) -> Counts:
        return evenly(users, self.cells)

    # What is answered ---------------------------------------------------------------------------

    def estimate(self, **parts: Any) -> Estimate:
        return DistributionEstimate(**parts, edges=self.edges)

    @property
    def buckets(self) -> Sequence[float] | None:
        """The edges between two cells."""
        return self.edges[1:-1]

    def below(self, held: Holding) -> NDArray[np.float64]:
        """The share of people below each edge between two cells."""
        shares: NDArray[np.float64] = np.cumsum(held.counts)[:-1] / held.users
        return shares

    def answer(self, held: Holding) -> Answer:
        return self.below(held)

    @property
    def reading(self) -> tuple[str, Callable[[Answer], Answer]] | None:
        """What is read from the shares below all edges: its name, and the function that reads it.
        None if these shares are the answer.
        """
        return None

    def errors(self, answer: Answer, held: Holding) -> NDArray[np.float64]:
        """The errors of an answer, as shares of the people, if it is known what they hold."""
        missed: NDArray[np.float64] = np.asarray(answer) - self.below(held)
        return missed

    def answer_range(self, users: int) -> tuple[float, float]:
        return 0.0, 1.0
