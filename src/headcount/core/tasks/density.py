"""The density of people's numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.cached import cached_property
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Answer
from headcount.core.table import short
from headcount.core.task import Counts, Holding
from headcount.core.tasks.bounded import Bounded
from headcount.core.tasks.uses import Uses
from headcount.core.values import evenly

LEAST_SMOOTHNESS, MOST_SMOOTHNESS = 0.1, 4.0
MOST_POINTS = 2**16
_SPREAD = 1024  # a made-up crowd holds at most this many different numbers


@dataclass(frozen=True, init=False)
class Density(Bounded):
    """How are people's numbers distributed? The people are a sample of a population with a density.

    `smoothness` is β, the number of times that the density can be differentiated, in the sense of
    Hölder or Sobolev. It need not be an integer. Together with the crowd and the budget, it decides
    how finely a protocol divides the range. The data never influence this choice. The answer is the
    density at the midpoints of `points` equal steps from `low` to `high`.
    """

    smoothness: float
    points: int

    name = "density"
    postprocessing = ("clip", "density")
    least_clipped = 0.0
    uses = Uses(
        sampling="stated", instead="histogram", simultaneous=True, figure="one group", curve=True
    )
    whole_answers = False
    example_words = "people are spread evenly over the range"
    margin_note = "Margins of densities include privacy noise, but neither sampling nor smoothing."
    ranking_note = (
        "Candidates are ordered by the total error, which includes noise, sampling and smoothing "
        "over the range. It is approximately the largest error over all densities that are no "
        "rougher than a curve that rises and falls twice."
    )

    def __init__(
        self,
        low: float,
        high: float,
        smoothness: float = 1.0,
        *,
        points: int = 256,
        clamp: bool = False,
    ) -> None:
        super().__init__(low, high, clamp=clamp)
        number = checks.real("smoothness", smoothness)
        if not LEAST_SMOOTHNESS <= number <= MOST_SMOOTHNESS:
            raise InvalidParameter(
                f"`smoothness` must be between {LEAST_SMOOTHNESS} and {MOST_SMOOTHNESS}, "
                f"got {short(number)}"
            )
        object.__setattr__(self, "smoothness", number)
        object.__setattr__(self, "points", checks.whole("points", points, low=2, high=MOST_POINTS))

    @property
    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings.items() if name != "whole"}

    def __str__(self) -> str:
        return f"{super().__str__()}, smoothness {short(self.smoothness)}"

    @cached_property
    def grid(self) -> NDArray[np.float64]:
        """The points at which the answer states the density."""
        middles = (np.arange(self.points) + 0.5) / self.points
        return self.low + float(self.span) * middles

    @property
    def buckets(self) -> Sequence[float]:
        return tuple(self.grid.tolist())

    def places(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The positions of values in the range, from 0 at the low end to 1 at the high end."""
        places = values - self.low
        places /= float(self.span)
        return np.clip(places, 0.0, 1.0, out=places)

    def example(self, users: int) -> Counts:
        numbers = min(users, _SPREAD)
        middles = self.low + float(self.span) * (np.arange(numbers) + 0.5) / numbers
        return dict(zip(middles.tolist(), evenly(users, numbers).tolist(), strict=True))

    def answer(self, held: Holding) -> Answer:
        """The density of the crowd itself, at the resolution of the grid."""
        steps = np.minimum(self.places(held.values) * self.points, self.points - 1).astype(int)
        counts = np.bincount(steps, held.counts, minlength=self.points)
        return counts / held.users * self.points / float(self.span)

    def answer_range(self, users: int) -> tuple[float, float]:
        """All real numbers. A density is never negative, but a smoothed density may be."""
        return -math.inf, math.inf

    def answer_size(self, users: int) -> float:
        """The uniform density over the range, since there is no largest density."""
        return 1 / float(self.span)

    def total(self, users: int) -> float | None:
        return self.points / float(self.span)
