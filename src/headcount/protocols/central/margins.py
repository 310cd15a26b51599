"""Two-sided geometric noise on the totals of a table's rows and columns, or on its cells.

Notation    There are n people, each in one cell of a table with d rows and e columns. Z is noise of
            rate r: P(Z = z) = (1−a)/(1+a)·a^|z| with a = e^{−r}.
Randomizer  None. People send their cell to the curator.
Analyzer    `central.margins`: add Z with r = ε/4 to each total. `central.summed-cells`: add Z with
            r = ε/2 to each cell, and add up noisy cells to get the totals. Z is sampled exactly,
            with r as a rational number.
Privacy     Totals: replacing one value changes two rows and two columns by 1 each. So the guarantee
            is pure ε-differential privacy. The privacy curve is that of four noisy counts that
            change by 1 each. Cells: replacing one value changes only two cells by 1 each, so noise
            of rate ε/2 gives the same guarantee. It covers the release of all noisy cells.
Error       Unbiased. Totals: the variance is 2a/(1−a)², for all data. Cells: the variance 2a/(1−a)²
            of a cell is multiplied by e for the total of a row, and by d for the total of a column.
            So for rows, noise on cells is at least as good as noise on totals if e ≤ 4cosh²(ε/8),
            which is near 4 unless ε is large.
Messages    1 per person, to the curator. The local ε is infinite, so the curator must be trusted.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.geometric import listed_laws, moved_together_curve
from headcount.core.budget import Trust
from headcount.core.cached import cached_property
from headcount.core.estimate import Answer, ErrorLaw
from headcount.core.estimator import Estimator
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.influence import Shifts
from headcount.core.messages import Alphabet
from headcount.core.promise import promise
from headcount.core.protocol import Protocol
from headcount.core.randomizer import MOST_BUNDLES
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task
from headcount.core.tasks.margins import Margins
from headcount.core.two_way import TotalsError
from headcount.protocols.disclosure import Disclosure
from headcount.protocols.geometric_error import GeometricError
from headcount.randomness.discrete_laplace import discrete_laplace
from headcount.randomness.sources import SecureSource


@dataclass(frozen=True)
class CuratedMargins(Estimator):
    """Counts the people in each cell, and adds noise to the totals or to the cells."""

    task: Margins
    rate: Fraction  # r
    cells: bool  # whether the noise is added to the cells

    @property
    def tally_size(self) -> int:
        return self.task.domain

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        return held.counts

    def _counts(self, tally: Tally) -> NDArray[np.int64]:
        """The counts to which noise is added."""
        return tally.counts if self.cells else self.task.totals(tally.counts)

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        source, counts = source or SecureSource(), self._counts(tally)
        noisy = counts + discrete_laplace(source, self.rate, len(counts))
        return (self.task.totals(noisy) if self.cells else noisy).astype(np.float64)

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        # The curator's noise does not depend on the messages.
        return Shifts(most=1.0, least=0.0)

    def release_law(self, tally: Tally) -> Mapping[Any, Fraction] | None:
        return listed_laws(self._counts(tally).tolist(), tally.users, self.rate, MOST_BUNDLES)

    def standard_error(self, users: int, held: Holding | None) -> float:
        return float(np.max(self.error_law(users, None).standard_error))

    def error_law(self, users: int, unbiased: Answer) -> ErrorLaw:
        noise = GeometricError(float(self.rate))
        return TotalsError(noise, self.task.shape, ("rows", "columns")) if self.cells else noise


@dataclass(frozen=True)
class CentralMargins(Protocol):
    name = "central.margins"
    trust = Trust.CENTRAL
    tasks: ClassVar[tuple[type[Task], ...]] = (Margins,)

    task: Margins
    cells: ClassVar[bool] = False  # whether the noise is added to the cells
    moved: ClassVar[int] = 4  # how many of the noisy counts change if one value is replaced

    @cached_property
    def randomizer(self) -> Disclosure:
        return Disclosure(Alphabet.numbers(self.task.domain))

    @cached_property
    def estimator(self) -> CuratedMargins:
        rate = Fraction(self.budget.epsilon) / self.moved
        return CuratedMargins(self.task, rate, self.cells)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"scale": self.moved / self.budget.epsilon}

    @cached_property
    def curve(self) -> PrivacyCurve:
        return moved_together_curve(self.budget.epsilon, self.moved)

    @property
    def guarantee(self) -> Guarantee:
        return promise(self, "two-sided geometric noise, sampled exactly")

    @property
    def local_epsilon(self) -> float:
        return math.inf


@dataclass(frozen=True)
class SummedCells(CentralMargins):
    name = "central.summed-cells"
    cells = True
    moved = 2
