"""Intervals for a count, by how many reports support it. They hold at least as often as they say.

Notation    c ∈ {0, …, n} the count; p and q < p the chances that a report supports it, if its owner
            is counted and if not; N ~ Bin(c, p) + Bin(n−c, q) the reports that do, m those that
            did; 1 − α the confidence.
Interval    All c with P(N ≥ m) > αu(c) and P(N ≤ m) > α(1−u(c)): each c is missed with probability
            α at most. With c the chance of m or more grows and u falls, so that the first holds
            from some c on, and the second up to some c.
Shares      The number u(c) is that of a normal estimate (Feldman, Cousins 1998): ½ far from both
            bounds, 1 at c = 0 and 0 at c = n, where the estimate can mislead on one side only.
            Of a count that is μ < z deviations from 0, the estimate may be b deviations above it
            and (μ²+b²)/2μ below, with Φ(−b) + Φ(−(μ²+b²)/2μ) = α, of which u has the first part.
Speed       Ends rise with m. Where N varies by hundreds, they are computed for some m only, on the
            outer side of each, and to a small part of a deviation.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from headcount.accounting.two_binomials import Reals, TwoBinomials

Integers = NDArray[np.int64]
_FINE = 128  # parts of a deviation to which ends are computed, at least
_STEPS = 512  # of the table of u
_HALVINGS = 40
_PATIENCE = 4  # after so many guesses, one step is a bisection


def supported_counts(
    users: int, own: Fraction, other: Fraction, reports: Integers, confidence: float
) -> tuple[Integers, Integers]:
    """The least and the largest c for each number of reports."""
    success, failure = (float(own), float(other)), (float(1 - own), float(1 - other))
    law = _Support(users, success, failure, float(own - other))
    # Those who are not counted are a count, too. Reports that do not support the one support it.
    turned = _Support(users, failure[::-1], success[::-1], law.slope)
    wrong = 1 - confidence
    step = law.step(reports)
    least = law.least(reports // step * step, wrong)
    most = users - turned.least(users + -reports // step * step, wrong)
    return np.minimum(least, most), np.maximum(least, most)


@dataclass(frozen=True)
class _Support:
    """The chances that a report supports a count, or not: of people in the count, and of others."""

    users: int
    success: tuple[float, float]
    failure: tuple[float, float]
    slope: float  # by how much more often those who are in it support it

    def _law(self, counts: Integers) -> TwoBinomials:
        trials = counts.astype(np.float64), (self.users - counts).astype(np.float64)
        return TwoBinomials(trials, self.success, self.failure)

    def _likely(self, reports: Integers) -> Reals:
        likely: Reals = np.clip(
            (reports - self.users * self.success[1]) / self.slope, 0.0, self.users
        )
        return likely

    def _deviation(self, counts: Reals | Integers) -> Reals:
        """The standard deviation of the estimate, if the count is this."""
        deviation: Reals = np.sqrt(self._law(counts.astype(np.int64)).variance) / self.slope
        return deviation

    def step(self, reports: Integers) -> Integers:
        """The distance of the numbers of reports for which ends are computed: a power of two."""
        grain = self._deviation(self._likely(reports)) * self.slope / _FINE
        return np.exp2(np.floor(np.log2(np.maximum(grain, 1.0)))).astype(np.int64)

    def _share(self, counts: Integers, wrong: float) -> Reals:
        """The number u(c)."""
        distance = np.minimum(counts, self.users - counts)
        near = np.interp(distance / np.maximum(self._deviation(counts), 1e-9), *_shares(wrong))
        side = np.sign(self.users - 2 * counts)
        share: Reals = 0.5 + side * (near - 0.5)
        return share

    def least(self, reports: Integers, wrong: float) -> Integers:
        """The least c with P(N ≥ m) > αu(c), or a little less."""
        seen, where = np.unique(reports, return_inverse=True)
        likely = self._likely(seen)
        # The first is too few, or below 0; the second is enough, as u(n) = 0.
        low, high = np.full(len(seen), -1), np.full(len(seen), self.users)
        fine = np.maximum(self._deviation(likely) / _FINE, 1.0)
        guess = likely + special.ndtri(wrong / 2) * self._deviation(likely)
        turn = 0
        while len(at := np.flatnonzero(high - low > fine)):
            turn += 1
            middle = (low[at] + high[at]) / 2 if turn % _PATIENCE == 0 else guess[at]
            tried = np.clip(np.rint(middle), low[at] + 1, high[at] - 1).astype(np.int64)
            wanted = wrong * self._share(tried, wrong)
            tail = self._law(tried).at_least(seen[at].astype(np.float64), wrong)
            enough = tail > wanted
            low[at], high[at] = np.where(enough, low[at], tried), np.where(enough, tried, high[at])
            # The next guess is as if N were normal, and a little further, to have the end between.
            gap = special.ndtri(np.maximum(tail, 1e-300)) - special.ndtri(
                np.maximum(wanted, 1e-300)
            )
            gap = np.clip(gap, -40.0, 40.0)
            ahead = np.where(enough, -fine[at] / 2, fine[at] / 2)
            guess[at] = tried - gap * self._deviation(tried) + ahead
        return (low + 1)[where]


@lru_cache(maxsize=64)
def _shares(wrong: float) -> tuple[Reals, Reals]:
    """Distances μ from a bound, from 0 to z deviations, and u of each."""
    z = -float(special.ndtri(wrong / 2))
    distance = np.linspace(0.0, z, _STEPS + 1)[1:]
    low, high = np.zeros(_STEPS), np.full(_STEPS, z)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        outside = special.ndtr(-middle) + special.ndtr(-(distance**2 + middle**2) / (2 * distance))
        low, high = np.where(outside > wrong, middle, low), np.where(outside > wrong, high, middle)
    beyond = special.ndtr(-high)
    before = special.ndtr(-(distance**2 + high**2) / (2 * distance))
    share = np.minimum.accumulate(np.concatenate([[1.0], beyond / (beyond + before)]))
    return np.concatenate([[0.0], distance]), share
