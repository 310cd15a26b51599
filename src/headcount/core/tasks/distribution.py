"""The distribution of people's numbers or dates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.core import checks
from headcount.core.cached import cached_property
from headcount.core.dates import Calendar, Moment
from headcount.core.distribution import DistributionEstimate
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Answer, Estimate
from headcount.core.task import Counts, Holding, Task, ValueKind
from headcount.core.tasks.bounded import Bounded
from headcount.core.tasks.uses import Uses
from headcount.core.values import evenly, moments

MOST_CELLS = 2**20
_BLOCK = 2**14  # how many numbers are encoded at a time; they fit into the CPU cache


@dataclass(frozen=True, init=False)
class Distribution(Bounded):
    """Which share of the people is below each number?

    The range is divided into `cells` equal cells. The data never decide where cells begin. Numbers
    in the same cell are not told apart. The answer is the share of people below each edge between
    two cells. Further shares and quantiles can be read from it: see `DistributionEstimate`.

    People may also hold dates or times: `Distribution("1940-01-01", "2010-12-31")`. Then `calendar`
    says how they are counted, and `low` and `high` become numbers of days or seconds since the
    beginning of 1970. A cell consists of whole days or seconds, so the lengths of cells may
    differ by one. There are at most as many cells as days or seconds.
    """

    cells: int
    calendar: Calendar | None

    name = "distribution"
    postprocessing: ClassVar[tuple[str, ...]] = ("clip", "monotone")
    uses = Uses(sampling="stated", simultaneous=True, figure="one group")
    whole_answers = False
    example_words = "people are spread evenly over the range"
    ranking_note = (
        "Candidates are ordered by the root mean squared error of the share of people below an "
        "edge, over all edges between cells."
    )

    def __init__(
        self,
        low: float | Moment,
        high: float | Moment,
        cells: int = 1024,
        *,
        clamp: bool = False,
    ) -> None:
        calendar = Calendar.of(low, high)
        bounds: list[Any] = [low, high]
        if calendar is not None:
            bounds = [calendar.number("low", low), calendar.number("high", high)]
            if not bounds[0] < bounds[1]:
                raise InvalidParameter(f"`low` must be below `high`, got {low} and {high}")
        super().__init__(*bounds, clamp=clamp)
        number = checks.whole("cells", cells, low=2, high=MOST_CELLS)
        object.__setattr__(self, "calendar", calendar)
        object.__setattr__(self, "cells", min(number, int(self.span)) if calendar else number)

    @property
    def settings(self) -> dict[str, Any]:
        given = super().settings
        if self.calendar is not None:
            given["low"], given["high"] = self.calendar.texts([self.low, self.high])
        return {key: value for key, value in given.items() if key not in ("whole", "calendar")}

    def __str__(self) -> str:
        if self.calendar is None:
            return f"{super().__str__()}, {self.cells:,} cells"
        low, high = self.calendar.texts([self.low, self.high])
        kind = f"{type(self).__name__} of {self.calendar.noun}s"
        return f"{kind} from {low} to {high}, {self.cells:,} cells"

    @property
    def span(self) -> Fraction:
        """The difference between the highest and the lowest number. For dates or times, it is the
        number of days or seconds in the range, which includes both bounds.
        """
        return super().span if self.calendar is None else super().span + 1

    @cached_property
    def edges(self) -> tuple[float, ...]:
        """The edges of all cells, from the low end to the high end. For dates or times, the last
        edge is the day or second after the highest one.
        """
        steps = np.arange(self.cells + 1)
        if self.calendar is None:
            return tuple(self._edge(steps.astype(np.float64)).tolist())
        return tuple((self.low + steps * int(self.span) // self.cells).tolist())

    def _edge(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        """The edges that are this many cells above the lowest number."""
        return self.low + float(self.span) * (steps / self.cells)

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

    @property
    def allowed(self) -> str:
        if self.calendar is None:
            return super().allowed
        low, high = self.calendar.texts([self.low, self.high])
        return f"a {self.calendar.noun} from {low} to {high}"

    @property
    def value_kind(self) -> ValueKind:
        return super().value_kind if self.calendar is None else "dates"

    def encode(self, values: ArrayLike, *, first: int = 0) -> NDArray[Any]:
        """The number of each value's cell. An edge belongs to the cell above it."""
        numbers = super().encode(values, first=first)
        if self.calendar is not None:
            # Edge i is ⌊i·n/N⌋ days or seconds after `low`, for n days or seconds and N cells.
            after = (numbers - self.low).astype(np.int64) + 1
            cells = (after * self.cells - 1) // int(self.span)
            return cells.astype(self.encoded_dtype)
        found = np.empty(len(numbers), dtype=self.encoded_dtype)
        for start in range(0, len(numbers), _BLOCK):
            some = slice(start, start + _BLOCK)
            found[some] = self._cells(numbers[some])
        return found

    def _cells(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """The cells of some numbers."""
        places = (numbers - self.low) * (self.cells / float(self.span))
        found = np.minimum(np.floor(places), self.cells - 1)
        # Rounding may move a place across an edge, but this is rare. If there are many edges,
        # computing an edge is faster than looking it up.
        too_low = numbers >= self._edge(found + 1)
        if too_low.any():
            found[too_low & (found < self.cells - 1)] += 1
        too_high = numbers < self._edge(found)
        if too_high.any():
            found[too_high] -= 1
        return found

    def _given(self, values: ArrayLike) -> NDArray[Any]:
        return super()._given(values) if self.calendar is None else moments(values)

    def _read(self, given: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        return super()._read(given if self.calendar is None else self.calendar.numbers(given))

    def holding(self, counts: Counts) -> Holding:
        """How many people hold each value. `counts` is {value: people} or a list of all cells."""
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
        return DistributionEstimate(**parts, edges=self.edges, calendar=self.calendar)

    @property
    def buckets(self) -> Sequence[float | str] | None:
        """The edges between two cells. Dates and times are text."""
        if self.calendar is None:
            return self.edges[1:-1]
        return tuple(self.calendar.texts(self.edges[1:-1]))

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
        """The errors of an answer for people who hold these values, as shares of the people."""
        missed: NDArray[np.float64] = np.asarray(answer) - self.below(held)
        return missed

    def answer_range(self, users: int) -> tuple[float, float]:
        return 0.0, 1.0
