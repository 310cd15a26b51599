"""A table whose cells, row totals and column totals all have noise, fitted by least squares.

Notation    There are n people, each in one cell of a table with d rows and e columns. The noise of
            a cell has the rate r, and the noise of a row's or a column's total has the rate s.
            Noise Z of some rate has P(Z = z) = (1−a)/(1+a)·a^|z| with a = e^{−rate}. The variance
            of Z is σ² for a cell and ρ² for a total. C is the noisy count of a cell. M and N are
            the means of C in the cell's row and in its column, and G is the mean of C over all
            cells. R is the noisy total of the cell's row, and H is the mean of R over all rows.
Randomizer  None. People send their cell to the curator.
Analyzer    Fit a table to all noisy counts by least squares, as in an analysis of variance. The
            fitted count of a cell is n/(de) + α + β + (C − M − N + G), with
            α = (e/σ²·(M − G) + e/ρ²·(R − H))/(e/σ² + e²/ρ²). β is the same expression for columns.
Privacy     Replacing one value changes two cells, two rows and two columns by 1 each. So the
            guarantee is pure ε-differential privacy with ε = 2r + 4s. The option `margins` is the
            share 4s/ε of ε that is spent on the totals.
Error       Unbiased. The variance of a row's total is (1 − 1/d)/(1/(eσ²) + 1/ρ²) for all data. If
            more of ε is spent on the totals, the error of the cells grows.
Messages    1 per person, to the curator. The local ε is infinite, so the curator must be trusted.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.geometric import listed_laws, moved_counts_curve
from headcount.core import checks
from headcount.core.bucket_sums import KnownSum, Part, Weights, independent_parts, lattice_of
from headcount.core.budget import Trust
from headcount.core.cached import cached_property
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Answer
from headcount.core.estimator import Estimator
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.influence import Shifts
from headcount.core.messages import Alphabet
from headcount.core.promise import promise
from headcount.core.protocol import Protocol
from headcount.core.randomizer import MOST_BUNDLES
from headcount.core.source import Source
from headcount.core.table import short
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task
from headcount.core.tasks.table import Table
from headcount.protocols.disclosure import Disclosure
from headcount.protocols.geometric_error import GeometricError
from headcount.randomness.discrete_laplace import discrete_laplace
from headcount.randomness.sources import SecureSource

_DIGITS = 12  # coefficients that agree to this many decimal places count as equal


@dataclass(frozen=True)
class Fit:
    """The least-squares fit of a table, and the law of the errors of its cells."""

    shape: tuple[int, int]
    cell_rate: float  # r
    margin_rate: float  # s

    @property
    def _factors(self) -> tuple[float, float]:
        """The weights of noisy cells in α and in β. Noisy totals have 1 minus these weights."""
        cell, total = (
            GeometricError(rate).standard_error ** 2 for rate in (self.cell_rate, self.margin_rate)
        )
        rows, columns = self.shape
        return total / (total + columns * cell), total / (total + rows * cell)

    def coefficients(self, weights: Weights) -> tuple[Weights, Weights, Weights]:
        """The coefficients of the noise of cells, rows and columns in a weighted sum of cells."""
        matrix = weights.reshape(self.shape)
        across, down = _centered(matrix.mean(axis=1)), _centered(matrix.mean(axis=0))
        cells = matrix - matrix.mean() - across[:, None] - down
        by_rows, by_columns = self._factors
        cells = cells + by_rows * across[:, None] + by_columns * down
        return cells.ravel(), (1 - by_rows) * across, (1 - by_columns) * down

    def cells(
        self, users: int, cells: Weights, rows: Weights, columns: Weights
    ) -> NDArray[np.float64]:
        """The fitted cells."""
        matrix = cells.reshape(self.shape)
        across, down = _centered(matrix.mean(axis=1)), _centered(matrix.mean(axis=0))
        inner = matrix - matrix.mean() - across[:, None] - down
        by_rows, by_columns = self._factors
        alpha = by_rows * across + (1 - by_rows) * _centered(rows) / self.shape[1]
        beta = by_columns * down + (1 - by_columns) * _centered(columns) / self.shape[0]
        fitted: NDArray[np.float64] = users / matrix.size + alpha[:, None] + beta + inner
        return fitted.ravel()

    def weighted(self, weights: Weights) -> list[Part]:
        rates = (self.cell_rate, self.margin_rate, self.margin_rate)
        return [
            part
            for rate, found in zip(rates, self.coefficients(weights), strict=True)
            for part in independent_parts(
                lattice_of(GeometricError(rate)), np.round(found, _DIGITS)
            )
        ]

    @cached_property
    def _cell(self) -> KnownSum:
        """The error of a cell, which has the same law for all cells."""
        weights = np.zeros(math.prod(self.shape))
        weights[0] = 1.0
        return KnownSum(tuple(self.weighted(weights)))

    @property
    def standard_error(self) -> float:
        return self._cell.standard_error

    def margins(self, confidence: float) -> tuple[float, float]:
        return self._cell.margins(confidence)


def _centered(numbers: Weights) -> Weights:
    centered: Weights = numbers - numbers.mean()
    return centered


@dataclass(frozen=True)
class FittedCells(Estimator):
    """Counts the people in each cell, adds noise to cells and totals, and fits a table to them."""

    task: Table
    cell_rate: Fraction
    margin_rate: Fraction

    @property
    def tally_size(self) -> int:
        return self.task.domain

    @cached_property
    def fit(self) -> Fit:
        rows, columns = self.task.sides
        shape = rows.domain, columns.domain
        return Fit(shape, float(self.cell_rate), float(self.margin_rate))

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        return held.counts

    def _numbers(self, tally: Tally) -> list[tuple[NDArray[np.int64], Fraction]]:
        """The numbers of people in all cells, rows and columns, and the rates of their noise."""
        matrix = tally.counts.reshape(self.fit.shape)
        totals = [(matrix.sum(axis=axis), self.margin_rate) for axis in (1, 0)]
        return [(tally.counts, self.cell_rate), *totals]

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        random_bits = source or SecureSource()
        noisy = [
            np.asarray(counts + discrete_laplace(random_bits, rate, len(counts)), dtype=np.float64)
            for counts, rate in self._numbers(tally)
        ]
        return self.fit.cells(tally.users, *noisy)

    def release_law(self, tally: Tally) -> Mapping[Any, Fraction] | None:
        """The law of all noisy numbers. The fitted table is computed from them alone."""
        numbers = [(n, rate) for counts, rate in self._numbers(tally) for n in counts.tolist()]
        counts, rates = zip(*numbers, strict=True)
        return listed_laws(counts, tally.users, rates, MOST_BUNDLES)

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        # The curator's noise does not depend on the messages.
        return Shifts(most=1.0, least=0.0)

    def standard_error(self, users: int, held: Holding | None) -> float:
        return self.fit.standard_error

    def error_law(self, users: int, unbiased: Answer) -> Fit:
        return self.fit


@dataclass(frozen=True)
class FittedTable(Protocol):
    name = "central.fitted-table"
    trust = Trust.CENTRAL
    tasks: ClassVar[tuple[type[Task], ...]] = (Table,)

    task: Table
    # The share of epsilon that is spent on the totals of rows and columns.
    margins: float = 0.5

    def check_options(self) -> None:
        share = checks.real("margins", self.margins)
        if not 0.01 <= share <= 0.99:
            raise InvalidParameter(f"`margins` must be from 0.01 to 0.99, got {short(share)}")
        object.__setattr__(self, "margins", share)

    @cached_property
    def rates(self) -> tuple[Fraction, Fraction]:
        """The rates r and s of the noise of cells and of totals: 2r + 4s = ε."""
        epsilon, share = Fraction(self.budget.epsilon), Fraction(self.margins)
        return (1 - share) * epsilon / 2, share * epsilon / 4

    @cached_property
    def randomizer(self) -> Disclosure:
        return Disclosure(Alphabet.numbers(self.task.domain))

    @cached_property
    def estimator(self) -> FittedCells:
        return FittedCells(self.task, *self.rates)

    @property
    def parameters(self) -> Mapping[str, float]:
        cell, margin = self.rates
        return {"scale": float(1 / cell), "margin_scale": float(1 / margin)}

    @cached_property
    def curve(self) -> PrivacyCurve:
        cell, margin = map(float, self.rates)
        return moved_counts_curve(self.budget.epsilon, [cell] * 2 + [margin] * 4)

    @property
    def guarantee(self) -> Guarantee:
        return promise(self, "two-sided geometric noise, sampled exactly")

    @property
    def local_epsilon(self) -> float:
        return math.inf
