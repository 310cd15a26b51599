"""Binary randomized response, which a local and a shuffle protocol share.

Notation    x ∈ {0,1} is a person's value, n is the number of people, and c is the number of people
            with the value 1. q = t/2^64 < ½ is the probability of a lie.
Randomizer  Report x or, with probability q, its opposite.
Analyzer    c is estimated by ĉ = (Σy − qn)/(1−2q), where the sum is over all reports y.
Error       Unbiased. The variance is nq(1−q)/(1−2q)² for all data.
Messages    1 message of 1 bit per person. The local privacy loss of a report is ln((1−q)/q).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.estimator import Estimator
from headcount.core.lattice import LatticeLaw, Reports
from headcount.core.messages import Alphabet, Messages
from headcount.core.randomizer import BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding
from headcount.protocols.responses import ratio_epsilon
from headcount.randomness.draws import WHOLE, bernoulli
from headcount.randomness.totals import binomial


@dataclass(frozen=True)
class FlipRandomizer(Randomizer):
    """Sends a person's bit or, with probability q = t/2^64, its opposite."""

    weight: int  # t

    alphabet = Alphabet(np.uint8, range(2))
    fixed_messages = 1

    @property
    def lie_probability(self) -> Fraction:
        """The probability q of a lie."""
        return Fraction(self.weight, WHOLE)

    @property
    def local_epsilon(self) -> float:
        return ratio_epsilon(Fraction(WHOLE - 2 * self.weight, self.weight))

    @property
    def instructions(self) -> Mapping[str, Any]:
        return {"kind": "flip", "weight": str(self.weight)}

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        reports = bernoulli(source, len(encoded), self.weight)
        np.bitwise_xor(reports, encoded.astype(np.uint8, copy=False), out=reports)
        return Messages.one_each(reports)

    def law(self, value: int) -> BundleLaw:
        lie = self.lie_probability
        return {((value, 1),): 1 - lie, ((1 - value, 1),): lie}


@dataclass(frozen=True)
class FlipError:
    """The error of the estimate ĉ. Σy has the law Bin(c, 1−q) + Bin(n−c, q)."""

    users: int
    lie: Fraction
    value: float

    @property
    def _slope(self) -> Fraction:
        """P(report 1 | x = 1) − P(report 1 | x = 0)."""
        return 1 - 2 * self.lie

    @property
    def standard_error(self) -> float:
        """The standard error, which is the same for all data."""
        return math.sqrt(self.users * self.lie * (1 - self.lie) / self._slope**2)

    def margins(self, confidence: float) -> tuple[float, float]:
        from headcount.protocols.supported_counts import supported_counts  # slow: loads SciPy

        ones = round(Fraction(self.value) * self._slope + self.users * self.lie)
        low, high = supported_counts(
            self.users, 1 - self.lie, self.lie, np.array([ones]), confidence
        )
        return float(high[0] - self.value), float(self.value - low[0])

    def reports(self) -> Reports:
        return Reports(self.users, float(1 - self.lie), float(self.lie), LatticeLaw.none())


@dataclass(frozen=True)
class FlipEstimator(Estimator):
    """Counts the ones, and corrects for the lies: ĉ = (Σy − qn)/(1−2q)."""

    lie: Fraction  # q

    tally_size = 1

    def count(self, payload: NDArray[np.uint8]) -> NDArray[np.int64]:
        return np.array([np.count_nonzero(payload)])

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        lies = [int(binomial(source, int(n), self.lie)[0]) for n in held.counts]
        return np.array([lies[0] + held.counts[1] - lies[1]])

    def unbiased(self, tally: Tally, source: Source | None = None) -> float:
        # (Σy − qn)/(1 − 2q) is computed in integers, because floats lose digits for q near ½.
        lie, whole = self.lie.as_integer_ratio()
        numerator = int(tally.counts[0]) * whole - lie * tally.users
        return float(Fraction(numerator, whole - 2 * lie))

    def standard_error(self, users: int, held: Holding | None) -> float:
        return FlipError(users, self.lie, 0.0).standard_error

    def error_law(self, users: int, unbiased: float) -> FlipError:
        return FlipError(users, self.lie, unbiased)
