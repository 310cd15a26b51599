"""Shares of populations: an interval for one share, and a test whether two shares are equal.

Notation    n people were drawn at random from a large population. π is the share of the population
            that holds the counted value. S is what the estimate is computed from (see `Reports`).
            Its law P_π is known: it is Bin(n, θ) plus noise, where θ = π without random responses.
            y is the observed S.
One share   S grows stochastically with π. So the interval of all π with P_π(S ≥ y) > α/2 and
            P_π(S ≤ y) > α/2 covers the share with probability 1 − α at least (Clopper, Pearson
            1934).
Equality    The statistic is T = |π̂_A − π̂_B|/√V(m). Here m is the estimated share in both crowds
            together, clamped to [0, 1], and V(m) is the variance of the difference if both shares
            are m. t is the observed T. The p-value is γ + max P_π(T ≥ t) over all π in an interval
            that covers the common share with probability 1 − γ (Berger, Boos 1994). The p-value is
            valid for all π, and is never below γ. At least half of a p-value up to 2γ is γ itself.
            So such a p-value is only an upper bound. P_π includes random responses.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headcount.core.lattice import LatticeLaw, Reports

Reals = NDArray[np.float64]
GAMMA = 1e-3  # γ: the probability that the interval of the test of equality misses the common share
_TIE = 1e-9  # statistics with a smaller relative difference count as equal
_SAME = 1e-3  # points of a lattice that differ by less than this part of a step are the same
_HALVINGS = 48
_SHARES = 64  # the number of shares that are tried
_NARROWINGS = 14


@dataclass(frozen=True, eq=False)
class Sample:
    """The reports of a crowd, and the share that is estimated from them, which may be negative."""

    reports: Reports
    share: float

    def ends(self, wrong: float) -> tuple[float, float]:
        """The interval for the population's share. `wrong` is α."""
        return (
            _end(lambda share: self._tail(share, up=True) > wrong / 2, inside=1.0),
            _end(lambda share: self._tail(share, up=False) > wrong / 2, inside=0.0),
        )

    def _tail(self, share: float, *, up: bool) -> float:
        """P(S ≥ y) or P(S ≤ y), rounded up."""
        reports, noise = self.reports, self.reports.noise
        seen = reports.seen(self.share)
        chance = min(max(reports.other + reports.slope * share, 0.0), 1.0)
        drawn = LatticeLaw.binomial(reports.users, chance)
        spare = _SAME * min(noise.step, 1.0) + noise.blur
        left = seen - drawn.values
        tails = noise.at_least(left - spare) if up else noise.at_most(left + spare)
        return float(drawn.mass @ tails) + drawn.missing + noise.missing


def _end(possible: Callable[[float], bool], inside: float) -> float:
    """The possible share that is farthest from `inside`, which is 0 or 1. If no share is possible,
    the result is `inside`.
    """
    outside = 1.0 - inside
    if possible(outside):
        return outside
    if not possible(inside):
        return inside
    for _ in range(_HALVINGS):
        middle = (outside + inside) / 2
        outside, inside = (outside, middle) if possible(middle) else (middle, inside)
    return outside


def equal_shares(first: Sample, second: Sample) -> float:
    """The p-value of the hypothesis that both populations have the same share."""
    test = _Test(first.reports, second.reports)
    statistic = test.statistic(first.share, second.share)
    if statistic <= 0:
        return 1.0
    low, high = _common_share(first, second)
    if low > high:
        return GAMMA

    def chance(share: float) -> float:
        return test.reached(statistic, share)

    shares = np.linspace(low, high, _SHARES).tolist()
    best = int(np.argmax([chance(share) for share in shares]))
    left, right = shares[max(best - 1, 0)], shares[min(best + 1, _SHARES - 1)]
    for _ in range(_NARROWINGS):
        one, two = left + (right - left) / 3, right - (right - left) / 3
        left, right = (left, two) if chance(one) >= chance(two) else (one, right)
    return min(1.0, GAMMA + max(chance(share) for share in (left, right, shares[best])))


def is_bound(chance: float) -> bool:
    """Whether a p-value of `equal_shares` is only an upper bound: at least half of it is γ."""
    return chance <= 2 * GAMMA


def _common_share(first: Sample, second: Sample) -> tuple[float, float]:
    """An interval that contains the common share with probability 1 − γ."""
    one, other = first.reports, second.reports
    if (one.own, one.other) == (other.own, other.other):
        users = one.users + other.users
        both = Reports(users, one.own, one.other, one.noise.plus(other.noise))
        share = (first.share * one.users + second.share * other.users) / users
        return Sample(both, share).ends(GAMMA)
    (low, high), (least, most) = first.ends(GAMMA / 2), second.ends(GAMMA / 2)
    return max(low, least), min(high, most)


@dataclass(frozen=True, eq=False)
class _Test:
    """The test of two shares. V(m) is v₀ + v₁m − v₂m² for m in [0, 1]."""

    first: Reports
    second: Reports

    @property
    def _variance(self) -> tuple[float, float, float]:
        v0 = v1 = v2 = 0.0
        for one in (self.first, self.second):
            n, q, slope = one.users, one.other, one.slope
            v0 += (q * (1 - q) + one.noise.variance / n) / (n * slope**2)
            v1 += (1 - 2 * q) / (n * slope)
            v2 += 1 / n
        return v0, v1, v2

    @property
    def _weight(self) -> float:
        """The share of all people in both crowds who are in the second crowd."""
        return self.second.users / (self.first.users + self.second.users)

    def statistic(self, first: float, second: float) -> float:
        """T for the estimated shares."""
        v0, v1, v2 = self._variance
        m = min(max(first + self._weight * (second - first), 0.0), 1.0)
        return abs(first - second) / math.sqrt(v0 + v1 * m - v2 * m * m)

    def reached(self, statistic: float, share: float) -> float:
        """P_π(T ≥ t), rounded up."""
        one, other = (reports.population(share) for reports in (self.first, self.second))
        v0, v1, v2 = self._variance
        t = statistic * (1 - _TIE)
        x = self.first.shares(one.values)
        # `_distance` looks to the right. Replacing x by 1 − x and m by 1 − m makes it look to the
        # left.
        above = x + _distance(x, self._weight, t, (v0, v1, v2))
        below = x - _distance(1 - x, self._weight, t, (v0 + v1 - v2, 2 * v2 - v1, v2))
        n, q, slope = self.second.users, self.second.other, self.second.slope
        # The points of a law that was made coarser may be off by up to its blur, on either side.
        unit = n * slope / (self.first.users * self.first.slope)
        spare = _TIE + other.blur + 2 * unit * one.blur
        low, high = (n * (q + slope * ends) for ends in (below, above))
        tails = other.at_most(low + spare) + other.at_least(high - spare)
        return min(1.0, float(one.mass @ tails) + one.missing + other.missing)


def _distance(x: Reals, weight: float, t: float, variance: tuple[float, float, float]) -> Reals:
    """The least w > 0 with w = t·√V(m), for each x, where m = x + weight·w is clamped to [0, 1].

    T reaches t if the first share is x and the second share is x + w. In rare cases, T is below t
    again for a still larger second share. These cases are counted, too, so the p-value is never too
    small.
    """
    v0, v1, v2 = variance
    lower, upper = t * math.sqrt(v0), t * math.sqrt(v0 + v1 - v2)
    # If m is between 0 and 1, w is the larger root of w² = t²(v₀ + v₁m − v₂m²).
    a = 1 + t * t * v2 * weight**2
    b = t * t * weight * (v1 - 2 * v2 * x) / 2
    c = t * t * (v0 + v1 * x - v2 * x * x)
    between = (b + np.sqrt(np.maximum(b * b + a * c, 0.0))) / a
    inside = np.where(x + weight * between <= 1, between, upper)
    inside = np.where(x >= 1, upper, inside)
    return np.where(x + weight * lower <= 0, lower, inside)
