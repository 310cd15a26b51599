"""Quantiles of people's numbers or dates, such as the median."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.dates import Moment
from headcount.core.distribution import QUARTILES, SharesBelow, last_before
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Answer, Estimate
from headcount.core.quantiles import MEDIAN, QuantilesEstimate
from headcount.core.table import short
from headcount.core.task import Holding
from headcount.core.tasks.distribution import Distribution
from headcount.core.tasks.uses import Uses

MOST_QUANTILES = 100


@dataclass(frozen=True, init=False)
class Quantiles(Distribution):
    """Below which numbers do given shares of the people lie? `at` lists the shares.

    The numbers are read from a distribution over `cells` equal cells. Within a cell, people are
    assumed to be spread evenly. The numbers are slightly biased. Their errors depend on how many
    people are near them, so plans state the error of the share of people below a number instead.
    Quantiles of dates or times are of NumPy's type `datetime64`.
    """

    at: tuple[float, ...]

    name = "quantiles"
    postprocessing: ClassVar[tuple[str, ...]] = ()
    uses = Uses(sampling="stated", simultaneous=True, figure="all groups")
    margin_note = "Margins of quantiles are those of the share of people below a fixed number."
    ranking_note = (
        "Candidates are ordered by the root mean squared error of the share of people below a "
        "number, for the worst data. How far a quantile is off depends on the data."
    )

    def __init__(
        self,
        low: float | Moment,
        high: float | Moment,
        at: Sequence[float] | NDArray[np.float64] = QUARTILES,
        cells: int = 1024,
        *,
        clamp: bool = False,
    ) -> None:
        super().__init__(low, high, cells, clamp=clamp)
        plain: Any = at.tolist() if isinstance(at, np.ndarray) else at
        given = plain if isinstance(plain, list | tuple) else [plain]
        shares = tuple(checks.share("at", share) for share in given)
        rising = all(one < other for one, other in pairwise(shares))
        if not 1 <= len(shares) <= MOST_QUANTILES or not rising:
            raise InvalidParameter(
                f"`at` must be 1 to {MOST_QUANTILES} rising shares such as 0.25, 0.5, 0.75, "
                f"got {checks.shown(at)}"
            )
        object.__setattr__(self, "at", shares)

    def __str__(self) -> str:
        shown = ", ".join(short(100 * share) for share in self.at)
        return f"{super().__str__()}, at {shown} %"

    def estimate(self, **parts: Any) -> Estimate:
        return QuantilesEstimate(**parts, edges=self.edges, calendar=self.calendar)

    @property
    def buckets(self) -> Sequence[float | str] | None:
        """The shares of people below the quantiles."""
        return self.at

    def answer(self, held: Holding) -> Answer:
        return self._quantiles(self.below(held))

    @property
    def reading(self) -> tuple[str, Callable[[Answer], Answer]] | None:
        return "quantiles", self._quantiles

    def _quantiles(self, below: Answer) -> Answer:
        found = SharesBelow.of(self.edges, below).quantiles(self.at)
        return found if self.calendar is None else self.calendar.moments(last_before(found))

    def errors(self, answer: Answer, held: Holding) -> NDArray[np.float64]:
        """The share of people below each answer, minus the share that was asked for."""
        curve = SharesBelow.of(self.edges, self.below(held))
        places = np.atleast_1d(answer)
        if self.calendar is not None:
            places = self.calendar.numbers(places)
        shares = np.interp(places, curve.edges, curve.below)
        missed: NDArray[np.float64] = shares - np.array(self.at)
        return missed


@dataclass(frozen=True, init=False)
class Median(Quantiles):
    """Below which number do half of the people lie? This is the quantile at the share 0.5."""

    name = "median"
    uses = Uses(sampling="stated", figure="all groups")

    def __init__(
        self,
        low: float | Moment,
        high: float | Moment,
        cells: int = 1024,
        *,
        clamp: bool = False,
    ) -> None:
        super().__init__(low, high, (MEDIAN,), cells, clamp=clamp)

    @property
    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings.items() if name != "at"}

    def __str__(self) -> str:
        return Distribution.__str__(self)

    @property
    def buckets(self) -> Sequence[float | str] | None:
        """None: a median is one number."""
        return None

    def _quantiles(self, below: Answer) -> Answer:
        found = super()._quantiles(below)[0]
        return float(found) if self.calendar is None else found
