"""The totals of a table's rows and columns with fake users.

Noise from fake users was proposed by Luo, Wang, Yi 2022 and Cheu, Zhilyaev 2022.

Notation    n people, each in one cell of a table with d rows and e columns; h people are honest. μ
            is the expected noise per row and per column.
Randomizer  Send two messages: the row and the column. Rows and columns have different numbers.
            Messages of one person are not linked after shuffling. Also send Poisson((d+e)μ/h)
            messages, each a uniform row or column.
Analyzer    The number of messages of each row and column, minus the mean nμ/h of the noise.
Privacy     The noise of the honest people is Poisson(μ) in every row and column, independently. A
            person who moves to another row and another column changes two pairs of numbers, and
            nobody changes more. Let N and N' be the noise of a pair. δ is the divergence of
            (N+1, N') and (N, N'+1), for both pairs together (see `accounting.moved_pairs`). Its
            computation rounds it up by up to 0.03 %.
Error       Poisson(nμ/h) minus its mean in each row and column, for all data. A histogram of cells
            has a smaller μ, but a total then has the noise of all its cells.
Messages    2 + (d+e)μ/h on average, each a row or a column. Their number does not depend on the
            value, but the row and the column are two of them. So the local ε is infinite.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.accounting import laws
from headcount.accounting.moved_pairs import moved_curve
from headcount.core.budget import Trust
from headcount.core.cached import cached_property
from headcount.core.guarantee import Guarantee, NearCurve, PrivacyCurve
from headcount.core.promise import check_curve, promise
from headcount.core.protocol import Protocol
from headcount.core.task import Holding, Task
from headcount.core.tasks.margins import Margins
from headcount.protocols.shuffle.fake_users import BucketRandomizer, NoisyTotals, joint_noise

_PAIRS = 2  # a person who moves changes a pair of rows and a pair of columns


# Randomizer -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class MarginsRandomizer(BucketRandomizer):
    """Sends the row and the column, and noise messages, each a uniform row or column.

    The message of column j is the number of rows plus j. The cells of the noise are the rows and
    the columns.
    """

    shape: tuple[int, int]

    @property
    def own_messages(self) -> int:
        return 2

    @property
    def own_instructions(self) -> Mapping[str, Any]:
        return {"kind": "margins", "shape": list(self.shape)}

    def own(self, encoded: NDArray[Any]) -> NDArray[Any]:
        rows, columns = self.shape
        cells = encoded.astype(np.int64)
        return np.stack([cells // columns, rows + cells % columns], axis=1)


# Analyzer and its error -----------------------------------------------------------------------


@dataclass(frozen=True)
class NoisyMargins(NoisyTotals):
    """Subtracts the mean of the noise from the number of messages of every row and column."""

    task: Margins

    @property
    def tally_size(self) -> int:
        return sum(self.task.shape)

    def totals(self, held: Holding) -> NDArray[np.int64]:
        return self.task.totals(held.counts)


# Calibration and privacy ----------------------------------------------------------------------


@dataclass(frozen=True)
class ShuffledMargins(Protocol):
    name = "shuffle.margins"
    trust = Trust.SHUFFLE
    tasks: ClassVar[tuple[type[Task], ...]] = (Margins,)

    task: Margins

    def __post_init__(self) -> None:
        super().__post_init__()
        check_curve(self)

    @cached_property
    def noise(self) -> Fraction:
        """The expected noise μ per row and per column."""
        return joint_noise(self, _PAIRS, sum(self.task.shape))

    @cached_property
    def randomizer(self) -> MarginsRandomizer:
        shape = self.task.shape
        return MarginsRandomizer(sum(shape), self.noise / self.crowd.honest, shape)

    @cached_property
    def estimator(self) -> NoisyMargins:
        return NoisyMargins(self.task, self.noise / self.crowd.honest)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"noise_per_total": float(self.noise)}

    @cached_property
    def curve(self) -> PrivacyCurve:
        variation = self.crowd.honest * self.randomizer.share.total_variation
        return NearCurve(moved_curve(laws.poisson(self.noise), _PAIRS), variation)

    @cached_property
    def guarantee(self) -> Guarantee:
        delta = self.curve.delta(self.budget.epsilon)
        return promise(self, "law of two rows and two columns", delta=delta, exact=True)

    @property
    def local_epsilon(self) -> float:
        return math.inf
