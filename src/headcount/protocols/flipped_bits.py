"""Bits that are flipped now and then: what local and shuffled randomized response share.

Notation    x ∈ {0,1} a person's value, n people, q = t/2^64 < ½ the probability of a lie.
Randomizer  Report x, or with probability q its opposite.
Analyzer    ĉ = (Σy − qn)/(1−2q) over the reports y.
Error       Unbiased; variance nq(1−q)/(1−2q)², whatever the data.
Messages    1 of 1 bit; alone, a report has the ratio (1−q)/q.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headcount.accounting import laws
from headcount.core.estimate import NormalError
from headcount.core.messages import Alphabet, Messages
from headcount.core.protocol import BundleLaw, Protocol
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Count, Holding
from headcount.protocols.responses import ratio_epsilon
from headcount.randomness.draws import WHOLE, bernoulli
from headcount.randomness.totals import binomial


@dataclass(frozen=True)
class FlipError:
    """The error of the estimate, (lies of zeros − lies of ones − their mean)/(1 − 2q).

    Its variance is the same for all data. It is most lopsided when all hold the same value; then
    the lies are Bin(n, q), one way or the other, and the wider side of that law serves for all.
    """

    users: int
    lie: Fraction

    @property
    def _spread(self) -> Fraction:
        """How far one report more moves the estimate."""
        return 1 / (1 - 2 * self.lie)

    @property
    def standard_error(self) -> float:
        return math.sqrt(self.users * self.lie * (1 - self.lie) * self._spread**2)

    def margins(self, confidence: float) -> tuple[float, float]:
        mean = self.users * self.lie
        if mean > 10**8:  # normal to any precision that matters, and too large to tabulate
            return NormalError(self.standard_error, float(self._spread)).margins(confidence)
        low, high = laws.binomial(self.users, self.lie).central_interval(confidence)
        # Other data put the errors elsewhere between two steps: a step more covers them too.
        margin = float((max(high - mean, mean - low) + 1) * self._spread)
        return margin, margin


@dataclass(frozen=True)
class FlippedBits(Protocol):
    """A protocol whose people flip their bit with probability t/2^64; a subclass says which t."""

    tasks = (Count,)
    alphabet = Alphabet(np.uint8, range(2))
    tally_size = 1
    fixed_messages = 1

    @property
    @abstractmethod
    def _lie(self) -> int:
        """The number t."""

    @property
    def _lie_probability(self) -> Fraction:
        return Fraction(self._lie, WHOLE)

    @property
    def local_epsilon(self) -> float:
        return ratio_epsilon(Fraction(WHOLE - 2 * self._lie, self._lie))

    def law(self, value: int) -> BundleLaw:
        lie = self._lie_probability
        return {((value, 1),): 1 - lie, ((1 - value, 1),): lie}

    def _standard_error(self, users: int, held: Holding | None) -> float:
        return FlipError(users, self._lie_probability).standard_error

    def _randomize(self, encoded: NDArray[np.uint8], source: Source) -> Messages:
        reports = bernoulli(source, len(encoded), self._lie)
        np.bitwise_xor(reports, encoded, out=reports)
        return Messages.one_each(reports)

    def _tally(self, payload: NDArray[np.uint8]) -> NDArray[np.int64]:
        return np.array([np.count_nonzero(payload)])

    def _unbiased(self, tally: Tally, source: Source | None) -> float:
        # (Σy − qn)/(1 − 2q) in whole numbers, so that nothing cancels for q near ½.
        numerator = (int(tally.counts[0]) << 64) - self._lie * tally.users
        return float(Fraction(numerator, WHOLE - 2 * self._lie))

    def _error_law(self, users: int, value: float) -> FlipError:
        return FlipError(users, self._lie_probability)

    def _simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        lies = [int(binomial(source, int(n), self._lie_probability)[0]) for n in held.counts]
        return np.array([lies[0] + held.counts[1] - lies[1]])
