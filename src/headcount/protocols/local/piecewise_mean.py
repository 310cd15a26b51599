"""The piecewise mechanism for numbers (Wang, Xiao, Yang, Zhao, Hui, Shin, Shin, Yu 2019).

Notation    The levels are 0, …, L (see `fixed_point`). n is the number of people. A window has
            W ≤ L outputs, and there are T = L + W possible outputs. β = b/2^64 is the probability
            of an output that does not depend on the level.
Randomizer  For level j, send a uniform output of the window j, …, j + W − 1, or with probability β
            a uniform output among all T outputs. The paper describes the same law: an output is in
            the window with probability 1 − β + βW/T. b is the smallest integer for which the ε'
            under Privacy is at most ε.
Analyzer    The mean of an output is (1−β)j + (W−1)/2 + βL/2. So the estimate of the sum of all
            levels is S = (sum of outputs − n((W−1)/2 + βL/2))/(1 − β).
Privacy     Pure: each report is ε'-private with ε' = ln(1 + (1−β)T/(βW)) ≤ ε. Here 1 + (1−β)T/(βW)
            is the ratio of the probabilities of an output inside and outside the window.
Error       The variance for level j is
            ((1−β)(W²−1) + β(T²−1))/(12(1−β)²) + (j−L/2)²·β/(1−β). It is largest for j = 0 and
            j = L. W minimizes this largest variance. The paper has W = L·e^{−ε/2}. On [−1, 1] with
            many levels, the paper's variance for a number x is
            x²/(e^{ε/2}−1) + (e^{ε/2}+3)/(3(e^{ε/2}−1)²). For ε = 1, the largest variance is 5.07
            with the best W, 5.22 with the paper's W, and 4.68 in `local.one-bit-mean`. For ε = 8,
            the largest variance with the best W is a third of that with the paper's W.
Messages    1 message, which is one of T outputs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.divergence import PairCurve
from headcount.accounting.laws import ROUNDING, Law
from headcount.core.budget import MOST_USERS
from headcount.core.cached import cached_property
from headcount.core.estimator import linear_shifts
from headcount.core.influence import Shifts, end_messages
from headcount.core.messages import Alphabet, Messages
from headcount.core.randomizer import BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding
from headcount.protocols.level_responses import ResponseEstimator, in_parts
from headcount.protocols.levels import MOST_SUM, Rounding
from headcount.protocols.windows import WindowedMean, Windows, paper_window, window_variances


@dataclass(frozen=True)
class PiecewiseRandomizer(Randomizer):
    """Sends a uniform output of the person's window, or with probability β one of all outputs."""

    windows: Windows

    fixed_messages = 1

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.numbers(self.windows.outputs)

    @property
    def instructions(self) -> Mapping[str, Any]:
        return {"kind": "windows", **self.windows.instructions}

    def send(self, encoded: NDArray[np.integer], source: Source) -> Messages:
        return in_parts(self.windows.respond, encoded, source, self.alphabet.dtype)

    def law(self, value: int) -> BundleLaw:
        return {((output, 1),): chance for output, chance in self.windows.law(value).items()}


@dataclass(frozen=True, eq=False)
class PiecewiseEstimator(ResponseEstimator):
    """Computes S from the sum of all outputs."""

    windows: Windows

    tally_size = 1

    @property
    def most_users(self) -> int:
        return min(MOST_USERS, MOST_SUM // self.windows.outputs)

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        return np.array([payload.sum(dtype=np.int64)])

    def level_sum(self, tally: Tally, source: Source | None) -> Fraction:
        return self.windows.level_sum(int(tally.counts[0]), tally.users)

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        return linear_shifts(self, users, end_messages(alphabet))

    def simulate_levels(self, held: Holding, source: Source) -> NDArray[np.int64]:
        return np.array([self.windows.simulate(held, source)])

    @property
    def level_variances(self) -> NDArray[np.float64]:
        return self.windows.variances

    @property
    def width(self) -> float:
        return self.windows.width


@dataclass(frozen=True)
class PiecewiseMean(WindowedMean):
    name = "local.piecewise-mean"

    @cached_property
    def windows(self) -> Windows:
        levels, epsilon = self.grid.levels, self.budget.epsilon
        if self.calibration == "paper":
            return Windows(levels, paper_window(levels, epsilon), epsilon)
        return Windows(levels, 1 + int(window_variances(levels, epsilon)[1].argmin()), epsilon)

    @cached_property
    def randomizer(self) -> Rounding:
        return Rounding(self.grid, PiecewiseRandomizer(self.windows))

    @cached_property
    def estimator(self) -> PiecewiseEstimator:
        return PiecewiseEstimator(self.task, self.grid, self.windows)

    @property
    def parameters(self) -> Mapping[str, float]:
        return self.windows.parameters

    @cached_property
    def curve(self) -> PairCurve:
        low, high = (np.array([float(chance) for chance in end]) for end in self.windows.ends)
        return PairCurve.both_directions(Law(0, low, ROUNDING), Law(0, high, ROUNDING))

    @property
    def local_epsilon(self) -> float:
        return self.windows.local_epsilon
