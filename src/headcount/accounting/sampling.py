"""Sample and threshold: the privacy of counts in a random sample after small counts are removed.

Notation    There are h people, each in one bucket. Each person takes part independently with
            probability p. τ is the threshold, c is the number of people in a bucket, and
            F_c(k) = P(Bin(c, p) ≤ k).
View        For each bucket the adversary sees S ~ Bin(c, p) if S ≥ τ, and nothing otherwise.
Neighbors   One person moves from a bucket of c people to a bucket of c' other people, with
            c + c' ≤ h. The opposite direction is the pair (c'+1, c−1), so the set of all pairs
            (c, c') contains both directions.
Leaving     In the bucket that the person leaves, the law of the outcome changes from P_c to
            P_{c−1}. The ratio P_{c−1}/P_c is (c−i)/(c(1−p)) for a count i ≥ τ. It is
            F_{c−1}(τ−1)/F_c(τ−1) ≥ 1 for the outcome "nothing". At i = c the loss is infinite.
Joining     In the bucket that the person joins, the law of the outcome changes from R_c' to
            R_{c'+1}. The ratio R_c'/R_{c'+1} falls as the count grows. It is
            (c'+1−j)/((c'+1)(1−p)) for a count j ≥ τ.
            So D_c'(y) = Σ (R_c' − y·R_{c'+1})₊ is the larger of F_c'(k) − y·F_{c'+1}(k) and 0.
            Here k is the largest j below (c'+1)(1−(1−p)y), but at least τ−1. D_c'(y) is convex,
            and it is 0 for y ≥ 1/(1−p).
Privacy     δ(ε) = max over (c, c') of Σ_i P_c(i)·D_c'(e^ε P_{c−1}(i)/P_c(i)).
            Bin(c+m, p) is Bin(c, p) plus independent noise, and leaving out small counts is
            post-processing. So for any N, a bucket of N people without a threshold has at least the
            δ of any bucket of N or more people with a threshold. The table of pairs therefore needs
            only the counts below a large N, and one more row and column for N. δ is exact if a pair
            of counts below N attains it. Otherwise δ is only an upper bound. This happens mostly
            for ε below 0.03 or p below τ/4000.
Limits      δ is at least p^τ, because the loss is infinite at i = c = τ. For large ε, δ equals p^τ.
            As τ grows, δ tends to 0 for every p < 1 and ε > 0, because losses above ε have
            exponentially small probability. This holds even if p ≥ 1−e^−ε. δ never falls as h
            grows, so h must be the largest possible number of people. If m people cheat, a count
            may be too large by m. To protect against them, release only counts of at least τ + m.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.calibration import least_private
from headcount.accounting.laws import ROUNDING, TAIL
from headcount.core import checks
from headcount.core.budget import MOST_EPSILON, MOST_USERS
from headcount.core.cached import cached_property
from headcount.core.errors import InvalidParameter
from headcount.core.guarantee import PrivacyCurve

MOST_THRESHOLD = 300  # tables grow with the threshold; useful thresholds are below 100
_MOST_COUNTS = 2**13  # the largest number of counts in a table
_MOST_WORK = 10**7  # after computing this many numbers, `worst` returns only an upper bound
_CHORDS, _KNOTS = 192, 512  # about how many points `_largest` and `_knots` have
# Each step may leave out this mass, which is so small that a δ of 1e-18 has nine correct digits.
_CUT = TAIL * 2.0**-20

Array = NDArray[np.float64]
Counts = NDArray[np.int64]


class Worst(NamedTuple):
    """The largest δ, rounded up, whether it is exact, and the worst known pair (c, c').

    `leaving` is c, and `joining` is c'.
    """

    delta: float
    exact: bool
    leaving: int
    joining: int


@lru_cache(maxsize=2)
def _binomials(rate: Fraction, counts: int, least: int) -> tuple[Array, Array]:
    """Two tables with P(Bin(c, p) = k) and P(Bin(c, p) ≤ k) in row c and column k."""
    p, q = float(rate), float(1 - rate)
    # The columns end at k = `most`. By Bernstein's inequality, larger k have a probability below
    # `_CUT`. Column `least` is included.
    log = math.log(1 / _CUT)
    reach = log / 3 + math.sqrt(log**2 / 9 + 2 * counts * p * q * log)
    most = min(counts, max(least, math.ceil(counts * p + reach)))
    mass = np.zeros((counts + 1, most + 1))
    mass[0, 0] = 1.0
    for c in range(1, counts + 1):
        # P(Bin(c, p) = k) = (1−p)·P(Bin(c−1, p) = k) + p·P(Bin(c−1, p) = k−1)
        mass[c] = q * mass[c - 1]
        mass[c, 1:] += p * mass[c - 1, :-1]
    return mass, np.cumsum(mass, axis=1)


@dataclass(frozen=True, eq=False)
class ThresholdCurve(PrivacyCurve):
    """The largest δ(ε) over all pairs. `worst` says whether `delta` is exact.

    δ is a maximum of convex functions of e^ε, so it is convex too, and its chords lie above it.
    `deltas` uses the chords between the `bends`. All pairs occur in both directions, so
    δ(−ε) = 1 − e^−ε + e^−ε·δ(ε).
    """

    honest: int
    rate: Fraction
    threshold: int

    def __post_init__(self) -> None:
        for name, most in (("honest", MOST_USERS), ("threshold", MOST_THRESHOLD)):
            value = checks.whole(name, getattr(self, name), low=1, high=most)
            object.__setattr__(self, name, value)
        if not isinstance(self.rate, Fraction) or not 1 <= self.rate * 2**64 <= 2**64 - 1:
            raise InvalidParameter(
                f"`rate` must be a Fraction from 2^-64 to 1 - 2^-64, got {self.rate!r}"
            )

    def worst(self, epsilon: float) -> Worst:
        """The largest divergence over all pairs.

        The search visits the values of c in descending order of their upper bounds. It stops when
        no bound exceeds the largest divergence so far.
        """
        if epsilon != math.inf and checks.real("epsilon", epsilon) < 0:
            raise InvalidParameter(f"`epsilon` must be at least 0, got {epsilon}")
        if self.honest < self.threshold:
            return Worst(0.0, True, 1, 0)  # no bucket is ever shown
        size, chance, y = outcomes = self._leaving(epsilon)
        above = self._bounds(outcomes)
        delta = attained = self._certain
        pair, work = (self.threshold, 0), 0
        for c in np.argsort(-above).tolist():
            if above[c] <= delta:
                break
            mine = size == c
            work += len(self._joining) * int(mine.sum())
            if work > _MOST_WORK:
                return Worst(min(1.0, float(above[c])), False, *pair)
            # Σ_i P_c(i)·D_c'(y_i), for all c' at once
            row = self._divergences(y[mine]) @ chance[mine] * (1 + self._slack)
            row[self._joining > self.honest - c] = 0.0
            delta = max(delta, float(row.max()) + 4 * _CUT)
            row[(self._joining == self._end) | (c == self._end)] = 0.0
            if row.max() > attained:
                attained, pair = float(row.max()), (c, int(self._joining[row.argmax()]))
        exact = delta - 4 * _CUT <= attained * (1 + 1e-9)
        return Worst(min(1.0, delta), exact, *pair)

    def _delta(self, epsilon: float) -> float:
        known = self.worst(abs(epsilon)).delta
        if epsilon < 0:
            known = (math.exp(epsilon) * known - math.expm1(epsilon)) * (1 + 8 * ROUNDING)
        return min(1.0, known)

    def _deltas(self, epsilons: Array) -> Array:
        knots, values = self._knots
        size = np.abs(epsilons)
        # Rounding errors must not make the interpolated δ too small. δ falls as ε grows, so the
        # knots are moved up, and the points are moved down.
        at = np.exp(np.minimum(size, knots[-1])) * (1 - 8 * ROUNDING)
        known = np.interp(at, np.exp(knots) * (1 + 8 * ROUNDING), values)
        known = np.where(epsilons < 0, np.exp(-size) * known - np.expm1(-size), known)
        rounded: Array = np.minimum(known * (1 + 16 * ROUNDING), 1.0)
        return rounded

    @property
    def bends(self) -> Array:
        knots, _ = self._knots
        return np.concatenate([-knots[:0:-1], knots])

    @cached_property
    def _knots(self) -> tuple[Array, Array]:
        """Values of ε, and an upper bound on δ at each. Beyond the last ε, δ falls no further."""
        if self.honest < self.threshold:
            return np.zeros(1), np.zeros(1)

        def bound(epsilon: float) -> float:
            return min(1.0, max(self._certain, float(self._bounds(self._leaving(epsilon)).max())))

        last, final = math.log(self.threshold + 1), bound(MOST_EPSILON)
        while bound(last) > final:
            last += 0.25
        knots = np.linspace(0, last, _KNOTS)
        return knots, np.array([bound(epsilon) for epsilon in knots.tolist()])

    # The table of pairs -----------------------------------------------------------------------

    @cached_property
    def _end(self) -> int:
        """The number N. It is a small multiple of τ/p, because the worst counts are below it."""
        enough = math.ceil(1.5 * (self.threshold + 6) / float(self.rate)) + 10
        return min(enough, _MOST_COUNTS, self.honest + 1)

    @cached_property
    def _laws(self) -> tuple[Array, Array]:
        return _binomials(self.rate, self._end + 1, self.threshold)

    @cached_property
    def _slack(self) -> float:
        """A bound on the relative error of all computed numbers.

        Each row of the tables adds three rounding errors, and each column adds one.
        """
        rows, columns = self._laws[0].shape
        return ROUNDING * float(8 * rows + 4 * columns + 256)

    @cached_property
    def _certain(self) -> float:
        """p^τ, rounded up to the next float.

        There is no further margin, so that a budget of δ = p^τ can be met.
        """
        exact: Fraction = self.rate**self.threshold
        near = float(exact)
        return near if Fraction(near) >= exact else math.nextafter(near, 1.0)

    @cached_property
    def _joining(self) -> Counts:
        """The values of c' to consider. If c' < τ−1, the bucket that the person joins never shows
        anything, so c' = 0 stands for all these values.
        """
        listed = np.array([0, *range(max(1, self.threshold - 1), self._end + 1)])
        return listed[listed < self.honest]

    def _divergences(self, y: Array) -> Array:
        """A table of D_c'(y), with one row per c'."""
        (mass, below), p, others = self._laws, float(self.rate), self._joining[:, np.newaxis]
        least = np.where(others < self._end, self.threshold - 1, 0)
        ahead = 1 - float(1 - self.rate) * y + 8 * ROUNDING
        last = np.ceil((others + 1) * ahead).astype(np.int64) - 1
        cells = others * mass.shape[1] + np.clip(last, least, mass.shape[1] - 1)
        # F_c'(k) − y·F_{c'+1}(k) = (1−y)·F_c'(k) + yp·P(Bin(c', p) = k). If rounding chooses the
        # wrong k, the result changes by at most 16(c'+1) rounding errors of the mass at k.
        gains = ((1 - y) + self._slack * np.abs(1 - y)) * below.take(cells)
        gains += (p * (1 + self._slack) * y + 16 * ROUNDING * (others + 1)) * mass.take(cells)
        bounded: Array = np.clip(gains, 0.0, 1.0)
        return bounded

    @cached_property
    def _largest(self) -> tuple[Array, Array]:
        """Values of y, and the largest D_c'(y) over all c'. This maximum is convex in y."""
        dense = np.linspace(
            max(0.0, 1 - 3 * float(self.rate)), (1 + 8 * ROUNDING) / float(1 - self.rate), _CHORDS
        )
        y = np.unique(np.concatenate([np.linspace(0, dense[0], _CHORDS // 4), dense]))
        return y, self._divergences(y).max(axis=0)

    def _leaving(self, epsilon: float) -> tuple[Counts, Array, Array]:
        """Arrays of c, P_c(i) and y = e^ε P_{c−1}(i)/P_c(i) for all outcomes with y < 1/(1−p)."""
        (mass, below), q, tau = self._laws, float(1 - self.rate), self.threshold
        factor = math.exp(min(epsilon, MOST_EPSILON)) * (1 - 16 * ROUNDING)
        counts = self._joining + 1
        counts = counts[counts <= self._end]
        # y < 1/(1−p) where i > c(1−e^−ε)
        share, i = -math.expm1(-epsilon), np.arange(mass.shape[1])
        few = counts[counts * share <= len(i)][:, np.newaxis]
        shown = np.where(few < self._end, tau, 0)
        row, i = np.nonzero((i >= shown) & (i <= few) & (i > few * share - 1e-6))
        c, hidden = few[row, 0], counts[counts < self._end]
        # F_c(τ−1) = F_{c−1}(τ−1) − p·P(Bin(c−1, p) = τ−1)
        before = np.maximum(below[hidden - 1, tau - 1], 1e-300)
        drop = float(self.rate) * mass[hidden - 1, tau - 1] / before * (1 - self._slack)
        size = np.concatenate([c, hidden])
        chance = np.concatenate([mass[c, i], below[hidden, tau - 1]])
        y = np.concatenate([(c - i) / (c * q), 1 / (1 - drop)]) * factor
        kept = (y < 1 / q) & (chance > _CUT / mass.shape[1])
        if factor * q * (1 - 8 * ROUNDING) >= 1:
            kept &= size != tau  # c = τ has the divergence p^τ for every c': see `_certain`
        return size[kept], chance[kept] * (1 + self._slack), y[kept]

    def _bounds(self, outcomes: tuple[Counts, Array, Array]) -> Array:
        """For each c, an upper bound on the largest divergence over all c'. The bound includes the
        masses that are left out.
        """
        size, chance, y = outcomes
        weights = chance * np.interp(y * (1 - 8 * ROUNDING), *self._largest) * (1 + self._slack)
        return np.bincount(size, weights, minlength=self._end + 1).astype(np.float64) + 4 * _CUT


def threshold_delta(honest: int, rate: Fraction, threshold: int, epsilon: float) -> float:
    """δ(ε) for replacing one person's bucket, rounded up."""
    return ThresholdCurve(honest, rate, threshold).worst(epsilon).delta


def least_threshold(honest: int, rate: Fraction, epsilon: float, delta: float) -> int | None:
    """The smallest τ with δ(ε) ≤ delta, or None if it is above `MOST_THRESHOLD`.

    The search has computed δ(ε) at the result, so the result is surely private. No τ above
    honest + 1 is needed: with τ = honest + 1, no bucket is ever shown, and δ(ε) = 0.
    """
    if not 0 <= checks.real("delta", delta) <= 1:
        raise InvalidParameter(f"`delta` must be between 0 and 1, got {delta}")
    stop = min(MOST_THRESHOLD, ThresholdCurve(honest, rate, 1).honest + 1)
    # No τ with p^τ > δ is private.
    start = next((least for least in range(1, stop) if rate**least <= delta), stop)

    def delta_at(threshold: int) -> float:
        return threshold_delta(honest, rate, threshold, epsilon)

    return least_private(delta_at, delta, start=start, stop=stop, steps=2)


def closed_form(epsilon: float, delta: float, alpha: float) -> tuple[Fraction, int]:
    """The pair (p, τ) that the closed form of Cormode and Bharadwaj (2022) gives.

    The formulas are p = α(1−e^−ε) and τ = ln(1/δ)/(ln(1/α) − 1/(1+α)), for α < 0.51.
    """
    given = {"epsilon": epsilon, "delta": delta, "alpha": alpha}
    epsilon, delta, alpha = (checks.real(name, value) for name, value in given.items())
    gain = math.log(1 / alpha) - 1 / (1 + alpha) if 0 < alpha < 1 else 0.0
    if epsilon <= 0 or not 0 < delta < 1 or gain <= 0:
        raise InvalidParameter(
            "the closed form needs `epsilon` above 0, `delta` in (0, 1) and `alpha` with "
            f"ln(1/alpha) > 1/(1+alpha), got {epsilon}, {delta} and {alpha}"
        )
    rate = Fraction(int(-math.expm1(-epsilon) * alpha * 2**64), 2**64)
    return rate, math.ceil(math.log(1 / delta) / gain)
