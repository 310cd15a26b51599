"""Confidence intervals for a count, from the number of reports that support it.

The coverage of an interval is at least the stated confidence.

Notation    c ∈ {0, …, n} is the count. A report supports the count with probability p if its owner
            is counted, and with probability q < p otherwise. N ~ Bin(c, p) + Bin(n−c, q) is the
            number of supporting reports, and m is its observed value. 1 − α is the confidence.
Interval    The interval contains all c with P(N ≥ m) > αu(c) and P(N ≤ m) > α(1−u(c)), where u(c)
            is a number from 0 to 1 (see Shares below). So the interval misses the true count with
            probability at most α. As c grows, P(N ≥ m) grows and u falls. So the first condition
            holds from some c on, and the second condition holds up to some c.
Shares      u(c) divides α between the two sides in the same way as for a normal estimate (Feldman,
            Cousins 1998). It is ½ if c is far from the bounds 0 and n. It is 1 at c = 0 and 0 at
            c = n, where the estimate can err on one side only. Let Φ be the normal distribution
            function, and let z be the number with Φ(−z) = α/2. For a count that is μ < z standard
            deviations above 0, find b with Φ(−b) + Φ(−(μ²+b²)/2μ) = α. The interval then contains
            the count if the estimate is at most b standard deviations above it and at most
            (μ²+b²)/2μ standard deviations below it. So u = Φ(−b)/α.
Speed       The ends of the interval rise with m. If the standard deviation of N is in the hundreds,
            the ends are computed only for some m. They are rounded outward, by a small fraction of
            a standard deviation.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from headcount.accounting.two_binomials import Reals, TwoBinomials

Integers = NDArray[np.int64]
_FINE = 128  # the ends are accurate to a standard deviation divided by this number
_STEPS = 512  # the number of steps in the table of u
_HALVINGS = 40  # the number of bisection steps in the search for b
_PATIENCE = 4  # in the search for an end of the interval, one step in this many is a bisection


def supported_counts(
    users: int, own: Fraction, other: Fraction, reports: Integers, confidence: float
) -> tuple[Integers, Integers]:
    """The smallest and the largest c of the interval, for each number of supporting reports."""
    success, failure = (float(own), float(other)), (float(1 - own), float(1 - other))
    law = _Support(users, success, failure, float(own - other))
    # The number of people who are not counted is a second count. A report supports the second
    # count if and only if it does not support the first.
    turned = _Support(users, failure[::-1], success[::-1], law.slope)
    wrong = 1 - confidence
    step = law.step(reports)
    least = law.least(reports // step * step, wrong)
    most = users - turned.least(users + -reports // step * step, wrong)
    return np.minimum(least, most), np.maximum(least, most)


@dataclass(frozen=True)
class _Support:
    """The probabilities that a report supports a count (`success`) or does not (`failure`).

    The first number of each pair is for people who are counted, and the second for all others.
    """

    users: int
    success: tuple[float, float]
    failure: tuple[float, float]
    slope: float  # p − q

    def _law(self, counts: Integers) -> TwoBinomials:
        trials = counts.astype(np.float64), (self.users - counts).astype(np.float64)
        return TwoBinomials(trials, self.success, self.failure)

    def _likely(self, reports: Integers) -> Reals:
        likely: Reals = np.clip(
            (reports - self.users * self.success[1]) / self.slope, 0.0, self.users
        )
        return likely

    def _deviation(self, counts: Reals | Integers) -> Reals:
        """The standard deviation of the estimate for each of these true counts."""
        deviation: Reals = np.sqrt(self._law(counts.astype(np.int64)).variance) / self.slope
        return deviation

    def step(self, reports: Integers) -> Integers:
        """The distance between the values of m for which ends are computed, a power of two."""
        grain = self._deviation(self._likely(reports)) * self.slope / _FINE
        return np.exp2(np.floor(np.log2(np.maximum(grain, 1.0)))).astype(np.int64)

    def _share(self, counts: Integers, wrong: float) -> Reals:
        """The share u(c) of α."""
        distance = np.minimum(counts, self.users - counts)
        near = np.interp(distance / np.maximum(self._deviation(counts), 1e-9), *_shares(wrong))
        side = np.sign(self.users - 2 * counts)
        share: Reals = 0.5 + side * (near - 0.5)
        return share

    def least(self, reports: Integers, wrong: float) -> Integers:
        """The smallest c with P(N ≥ m) > αu(c), or a slightly smaller number."""
        seen, where = np.unique(reports, return_inverse=True)
        likely = self._likely(seen)
        # The condition fails at `low` and holds at `high`. It holds at n, where u = 0.
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
            # The next guess treats N as normal. It overshoots a little, to bracket the end.
            gap = special.ndtri(np.maximum(tail, 1e-300)) - special.ndtri(
                np.maximum(wanted, 1e-300)
            )
            gap = np.clip(gap, -40.0, 40.0)
            ahead = np.where(enough, -fine[at] / 2, fine[at] / 2)
            guess[at] = tried - gap * self._deviation(tried) + ahead
        return (low + 1)[where]


@lru_cache(maxsize=64)
def _shares(wrong: float) -> tuple[Reals, Reals]:
    """A table of u as a function of μ, the distance from a bound, for μ from 0 to z."""
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
