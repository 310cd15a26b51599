"""Truncated geometric noise in every bucket of a histogram.

There are d buckets. The noise Z_b of bucket b has a `truncated_geometric` law on 0, …, T with the
rate ε/2. If the total is fixed, the joint law of all Z_b is conditioned on the sum d·T/2. Otherwise
the numbers Z_b are independent.

If a person moves from bucket i to bucket j, the same observation needs the noise z + e_i − e_j
instead of z, where e_i is a unit vector. In each of the two buckets, the probability changes by a
factor of at most e^{ε/2}. So the ratio of the probabilities of z and z + e_i − e_j is at most e^ε.
If Z_i = T or Z_j = 0, the noise z + e_i − e_j is impossible, and the loss is infinite. δ(ε) is the
probability of these outcomes. Up to rounding, the loss of every other outcome is ε, 0 or −ε. Since
a move does not change the total, all pairs of buckets and all datasets have the same curve.

Let w be the law of Z_b − T/2 for independent buckets. Let u = Z_i − T/2 and v = Z_j − T/2. If the
total is fixed, P(u, v) = w(u)·w(v)·S_{d−2}(−u−v)/S_d(0), where S_k is the k-fold convolution of w.
All convolutions are direct sums of positive terms, so small probabilities are as accurate as large
ones.

A person may also move in k histograms at once. Then the total must not be fixed, and the rate is
ε/(2k). The noise of all histograms is independent, so the losses of the k moves are independent
too. The finite losses of each move are ε/k, 0 and −ε/k.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.calibration import least_private
from headcount.accounting.laws import ROUNDING, Law
from headcount.accounting.truncated_geometric import MOST, TruncatedGeometric, least_most
from headcount.core.cached import cached_property
from headcount.core.decimal_digits import decimal_digits, exponential
from headcount.core.guarantee import PrivacyCurve

_TINY = 1e-250  # smaller probabilities are cut off, because they are far too small to matter
MOST_TOGETHER = 1 << 16  # the largest d·T with a fixed total; longer convolutions take too long
_FIRST_STEP = 8  # the first step of the search for T/2 is about this large


@dataclass(frozen=True)
class BucketNoise:
    """The noise of d buckets."""

    bucket: TruncatedGeometric
    buckets: int  # d
    fixed_total: bool

    @property
    def most(self) -> int:
        """The largest noise T of a bucket."""
        return self.bucket.most

    @property
    def total(self) -> int:
        """The number of noise messages. If the total is not fixed, this is the mean number."""
        return self.buckets * self.most // 2

    @cached_property
    def slack(self) -> float:
        """A bound on the relative error of all probabilities that this class computes."""
        # A convolution of n terms has a relative error of n times `ROUNDING`.
        return 4 * ROUNDING * (self.buckets * (self.most + 8) + 64)

    @cached_property
    def one(self) -> Law:
        """The law of a bucket's noise minus its mean T/2."""
        law = self.bucket.centered
        if not self.fixed_total:
            return law
        others = _convolved(law.mass, self.buckets - 1, len(law.mass))
        mass = law.mass * others[::-1]
        return Law(law.start, mass / mass.sum(), slack=self.slack)

    @cached_property
    def variance(self) -> float:
        """The variance of a bucket's noise."""
        return float(self.one.values.astype(np.float64) ** 2 @ self.one.mass)

    @cached_property
    def middle(self) -> float:
        """The probability S_d(0) that the noise of independent buckets adds up to d·T/2."""
        law = self.bucket.centered
        return float(law.mass @ _convolved(law.mass, self.buckets - 1, len(law.mass))[::-1])

    @cached_property
    def unpaired(self) -> float:
        """The probability P(Z_i = T or Z_j = 0) of an infinite loss, rounded up."""
        ends = 2 * self.one.mass[-1]
        both = self._row(self.most)[0]
        return min(1.0, float(ends - both) * (1 + 4 * self.slack))

    def unpaired_in(self, moves: int) -> float:
        """The probability that at least one of several independent moves has an infinite loss,
        rounded up.
        """
        if moves == 1:
            return self.unpaired
        paired = moves * math.log1p(-min(self.unpaired, 1 - ROUNDING))
        return min(1.0, -math.expm1(paired) * (1 + 8 * moves * ROUNDING) + ROUNDING**2)

    @cached_property
    def losses(self) -> tuple[float, float, float, float]:
        """The probabilities that a move has the loss ∞, ε, 0 or −ε. They are rounded up."""
        # In z + e_i − e_j, the noise of bucket i is larger by 1, which is less likely if Z_i ≥ T/2.
        # The noise of bucket j is smaller by 1, which is less likely if Z_j ≤ T/2.
        half, sums = self.most // 2, np.zeros(3)
        if self.fixed_total:
            for u in range(self.most):
                row, own = self._row(u), int(u >= half)
                sums[own + 1] += row[1 : half + 1].sum()
                sums[own] += row[half + 1 :].sum()
        else:  # Z_i and Z_j are independent
            mass = self.bucket.centered.mass
            grows = mass[:half].sum(), mass[half:-1].sum()
            shrinks = mass[half + 1 :].sum(), mass[1 : half + 1].sum()
            for own, other in product((0, 1), repeat=2):
                sums[own + other] += grows[own] * shrinks[other]
        least, none, most = (min(1.0, float(chance) * (1 + 2 * self.slack)) for chance in sums)
        return self.unpaired, most, none, least

    def _row(self, u: int) -> NDArray[np.float64]:
        """P(Z_i = u, Z_j = v) for all v."""
        mass = self.bucket.centered.mass
        row: NDArray[np.float64] = mass[u] * mass
        if self.fixed_total:
            # This is S_{d−2} at T − u − v, because u and v are counted from 0 here.
            row *= self._others[2 * self.most - u - np.arange(len(mass))] / self.middle
        return row

    @cached_property
    def _others(self) -> NDArray[np.float64]:
        """S_{d−2} from −T to T."""
        mass = self.bucket.centered.mass
        return _convolved(mass, self.buckets - 2, 2 * len(mass) - 1)

    @cached_property
    def rounding(self) -> float:
        """The largest relative difference between w(k)/w(0) and the same ratio before the weights
        were rounded. The result is rounded up.
        """
        weights, half = self.bucket.weights, self.most // 2
        with decimal_digits(60):
            worst = max(
                Decimal(weights[half - step]) / weights[half] * exponential(self.bucket.rate * step)
                for step in range(half + 1)
            )
            return float(worst - 1 + Decimal("1e-50")) * (1 + 4 * ROUNDING)


def _convolved(mass: NDArray[np.float64], times: int, window: int) -> NDArray[np.float64]:
    """The middle of the `times`-fold convolution of a symmetric law: the `window` masses around 0.
    Outside the support, they are 0.
    """
    half = _folded(mass, times // 2)
    other = _folded(mass, times - times // 2)
    width = len(half) + len(other) - 1
    if width <= window:
        whole = np.convolve(half, other)
        before = (window - width) // 2
        return np.pad(whole, (before, window - width - before))
    # Only the middle is needed, so each mass is one sum of products.
    around = np.pad(half, len(other))
    center, reach = len(around) // 2, window // 2
    first = center - len(other) // 2
    middle = [
        float(around[first + at : first + at + len(other)] @ other) for at in range(-reach, 1)
    ]
    return np.array(middle + middle[-2::-1])


def _folded(mass: NDArray[np.float64], times: int) -> NDArray[np.float64]:
    """The `times`-fold convolution. Masses below `_TINY` at both ends are cut off."""
    out = np.ones(1)
    for digit in bin(times)[2:]:
        out = np.convolve(out, out)
        if digit == "1":
            out = np.convolve(out, mass)
        kept = np.flatnonzero(out >= _TINY)
        out = out[kept[0] : kept[-1] + 1]
    return out


@lru_cache(maxsize=512)
def least_bucket_noise(
    rate: Fraction, buckets: int, delta: float, *, fixed_total: bool, moves: int = 1
) -> BucketNoise | None:
    """The noise with the least T for which δ is at most `delta`, or None if this T is too large.

    A person moves in `moves` histograms. If the total is fixed, `moves` must be 1.
    """

    def noise(half: int) -> BucketNoise:
        return BucketNoise(TruncatedGeometric(rate, 2 * half), buckets, fixed_total)

    def delta_at(half: int) -> float:
        return noise(half).unpaired_in(moves) if noise(half).bucket.falls else 1.0

    # The search for T starts below the least T and stops above it. Let p_0 = P(Z_b = 0). If the
    # buckets are independent, δ = 1 − (1−p_0)^{2·moves}, which gives T = `longest`. A fixed total
    # makes Z_b = 0 and Z_b = T less likely, but their probability is never below (p_0)².
    longest = least_most(rate, 1, -math.expm1(math.log1p(-delta) / (2 * moves)) * (1 - 2.0**-40))
    if longest is None or (fixed_total and buckets * longest > MOST_TOGETHER):
        return None
    start = max(1, longest // 4 - 2) if fixed_total else max(1, longest // 2 - 1)
    step = max(1, start // _FIRST_STEP)
    half = least_private(delta_at, delta, start=start, stop=min(longest, MOST // 2), steps=step)
    return None if half is None else noise(half)


@dataclass(frozen=True, eq=False)
class BucketCurve(PrivacyCurve):
    """The privacy curve for a person who moves in `moves` histograms with this noise.

    The losses of one move are ∞, e, 0 or −e with e = 2·rate.
    """

    noise: BucketNoise
    moves: int = 1

    @property
    def _most(self) -> float:
        """The largest finite loss."""
        return float(2 * self.noise.bucket.rate * self.moves)

    @cached_property
    def _finite(self) -> NDArray[np.float64]:
        """The probabilities of the losses −moves·e, …, moves·e, rounded up."""
        _, most, none, least = self.noise.losses
        masses = np.ones(1)
        for _ in range(self.moves):
            masses = np.convolve(masses, [least, none, most])
        return masses * (1 + 4 * self.moves * ROUNDING)

    def _delta(self, epsilon: float) -> float:
        return float(self._deltas(np.array([epsilon]))[0])

    def _deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        infinite = self.noise.unpaired_in(self.moves)
        excess = -np.expm1(np.minimum(epsilons[:, None] - self.bends, 0.0))
        total = infinite + excess @ self._finite
        # No finite loss exceeds `_most`, because rounding never raises a ratio of weights above
        # e^rate. But the finite losses differ from the `bends` by rounding errors.
        off = self.moves * (2 * self.noise.rounding + 8 * ROUNDING)
        total = np.where(epsilons < self._most, total * (1 + 8 * ROUNDING) + off, infinite)
        capped: NDArray[np.float64] = np.minimum(total, 1.0)
        return capped

    @property
    def bends(self) -> NDArray[np.float64]:
        return np.arange(-self.moves, self.moves + 1, dtype=np.float64) * (self._most / self.moves)
