"""The totals of a table's rows and columns with fake users.

Fake users are noise messages that look as if more people took part. They were proposed by Luo,
Wang, Yi 2022 and Cheu, Zhilyaev 2022.

Notation    Each of n people is in one cell of a table with d rows and e columns; h people are
            honest. μ is the expected number of noise messages per row and per column that all
            honest people together send.
Randomizer  Send two messages: the row and the column. No row has the same number as a column, so a
            message tells which of the two it is. Also send Poisson((d+e)μ/h) noise messages, each a
            uniform row or column. After shuffling, the messages of one person are not linked.
Analyzer    The number of messages of each row and column, minus the mean nμ/h of the noise.
Privacy     The noise of the honest people is Poisson(μ) in every row and column, independently. A
            person who moves to another row and another column changes a pair of row totals and a
            pair of column totals. No replacement changes more totals. Let N and N' be the noise of
            a pair. δ is the divergence of (N+1, N') and (N, N'+1), for both pairs together (see
            `accounting.moved_pairs`). The computation rounds δ up by at most 0.03 %.
Error       The error of each total is Poisson(nμ/h) minus its mean, for all data. A histogram of
            the cells needs a smaller μ, but the total of a row then has the noise of all cells in
            this row.
Messages    2 + (d+e)μ/h messages on average, each with a row or a column. Their number does not
            depend on the value, but two of them are the person's row and column. So the local ε is
            infinite.
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

    The message of column j is the number of rows plus j. `cells` is the number of rows and columns
    together.
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
        """The expected number μ of noise messages per row and per column."""
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
