"""The noise of `ball_noise`, cut to a ball of radius J. So J plus a box's noise is never negative.

Notation    Each person ticks at most k of m boxes. z is the noise on the counts of all boxes, N(z)
            is the size of z, and B_j is the ball of all z with N(z) ≤ j (see `ball_noise`). Only z
            in B_J are drawn. The integer p_j is the weight of each z of size j. The weights of all
            z add up to W.
Weights     p_0 is a large power of 2, and p_{j+1} = ⌈e^−ε·p_j⌉ for j < J. Beyond J, weights are 0.
            So p_j/p_{j+1} is at most e^ε for all j < J.
Draw        Draw j with a weight of |B_j|·(p_j − p_{j+1}), and then z uniformly in B_j.
Privacy     If a value is replaced, the same released counts need the noise z + v instead of z, for
            some v. Let E_j(v) be the number of z in B_j with z + v outside B_j. Such a z has the
            size j, and z + v has the size j + 1. So the loss is ∞ with probability
            δ_v = p_J·E_J(v)/W, and ε or a little less with probability u_v = Σ_{j<J} p_j·E_j(v)/W.
            Otherwise, the loss is not positive. The privacy curve is the largest
            δ_v + u_v·(1 − e^{ε'−ε}) over all v, and δ_v alone for ε' ≥ ε. Since −z has the same
            weight as z, −v has the same losses as v. So both directions have the same curve.
Moves       In a cube, E_j(v) is largest if all boxes change: (2j+1)^m − (2j)^m. In other balls, v
            has g ≤ k gained and l ≤ k lost ticks. All pairs (g, l) are tried. Suppose that z and
            z + v are in B_j, that G of the gained boxes have z_b ≥ 0, and that L of the lost boxes
            have z_b ≥ 1. Then Σz⁺ grows by G − L, and Σz⁻ grows by (l−L) − (g−G). Let a and b be
            the numbers of positive and negative boxes among the m − g − l others. For each choice
            of all these boxes, the number of such z is
            A_{G+L+a}(j, kj + min(G, L)) · A_{g+l−G−L+b}(j, kj + min(g−G, l−L)), with A as in
            `ball_noise`. A_N(j, kj + s) is a polynomial in j of degree N if s < N. So E_j(v) is a
            polynomial of degree m at most, which is computed from its first m + 1 values. If this
            would take too long, E_j(v) is replaced by the number of all z of size j, which is an
            upper bound. Then only a bound on δ(ε) is known, and no other point of the curve.
Error       Given j, the error is that of a uniform z in B_j.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from operator import mul, sub
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.ball_noise import BallNoise, box_shares, chosen, sums_within
from headcount.accounting.calibration import least_private
from headcount.accounting.divergence import PointCurve
from headcount.accounting.laws import ROUNDING, Law
from headcount.accounting.truncated_geometric import float_above
from headcount.core.cached import cached_property
from headcount.core.decimal_digits import decimal_digits, exponential
from headcount.core.guarantee import PrivacyCurve

Move: TypeAlias = tuple[int, int]  # how many ticks are gained, and how many are lost
MOST_RADIUS = 1 << 14
_BITS = 128  # the least weight has about this many binary digits
_MOST_TERMS = 40_000  # if all E_j(v) have more terms than this, only an upper bound is computed
_MOST_STEPS = 2e7  # if the law of one box takes more steps, it is taken as uniform for each radius


@dataclass(frozen=True)
class CutBall:
    """Noise in the ball of radius J."""

    noise: BallNoise
    radius: int  # J

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """p_0, …, p_J."""
        bits = _BITS + math.ceil(float(self.noise.epsilon) * self.radius / math.log(2))
        digits = bits // 3 + 20  # more than the number of digits of p_0
        with decimal_digits(digits):
            shrink, sure = exponential(-self.noise.epsilon), Decimal("1e-10")
            found = [1 << bits]
            for _ in range(self.radius):
                exact = found[-1] * shrink + sure
                found.append(int(exact.to_integral_value(ROUND_CEILING)))
        return tuple(found)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """|B_0|, …, |B_J|."""
        degree = self.noise.boxes
        first = [self.noise.size(radius) for radius in range(min(degree, self.radius) + 1)]
        return continued(first, degree, self.radius)

    @cached_property
    def layers(self) -> tuple[int, ...]:
        """The weights with which the radii j = 0, …, J are drawn."""
        steps = zip(self.weights, (*self.weights[1:], 0), strict=True)
        return tuple(
            size * (one - more) for size, (one, more) in zip(self.sizes, steps, strict=True)
        )

    @cached_property
    def total(self) -> int:
        """The sum W of all weights."""
        return sum(self.layers)

    def chance(self, size: int) -> Fraction:
        """The probability of one noise vector of this size."""
        return Fraction(self.weights[size], self.total)

    # Privacy ------------------------------------------------------------------------------------

    @property
    def is_exact(self) -> bool:
        """Whether E_j(v) is counted exactly."""
        return _terms(self.noise.boxes, self.noise.ticks) <= _MOST_TERMS

    @cached_property
    def delta(self) -> float:
        """The largest δ_v, rounded up."""
        last = max(numbers[-1] for numbers in self._leaving.values())
        return float_above(last * self.chance(self.radius))

    @cached_property
    def _leaving(self) -> dict[Move, tuple[int, ...]]:
        """E_0(v), …, E_J(v) for each move v, or upper bounds that hold for all moves."""
        noise, last = self.noise, self.radius
        if self.is_exact:
            first = [leaving(noise, radius) for radius in range(min(noise.boxes, last) + 1)]
            return {
                move: continued([one[move] for one in first], noise.boxes, last)
                for move in first[0]
            }
        smaller = (0, *self.sizes)
        return {(0, 0): tuple(map(sub, self.sizes, smaller[:-1]))}

    @cached_property
    def curve(self) -> PrivacyCurve:
        epsilon = float(self.noise.epsilon)
        if not self.is_exact:
            return PointCurve(epsilon, self.delta)
        moves = []
        for numbers in self._leaving.values():
            *rising, unpaired = map(mul, numbers, self.weights)
            shares = Fraction(unpaired, self.total), Fraction(sum(rising), self.total)
            moves.append((float_above(shares[0]), float_above(shares[1])))
        return CutBallCurve(epsilon, tuple(moves))

    # Error --------------------------------------------------------------------------------------

    @cached_property
    def variance(self) -> float:
        """The variance of the noise of one box."""
        degree = self.noise.boxes + 2
        first = [self.noise.squares(radius) for radius in range(min(degree, self.radius) + 1)]
        squares = continued(first, degree, self.radius)
        steps = zip(squares, self.weights, (*self.weights[1:], 0), strict=True)
        return float(Fraction(sum(one * (own - more) for one, own, more in steps), self.total))

    @cached_property
    def one(self) -> Law:
        """The law of the noise of one box. If it is too slow to compute, a law with wider margins
        of error is used instead.
        """
        boxes, ticks, radius = self.noise.boxes, self.noise.ticks, self.radius
        uniform = self.noise.is_cube or boxes * ticks * float(radius) ** 2 > _MOST_STEPS
        half = np.zeros(radius + 1)
        for j, layer in enumerate(self.layers):
            shares = np.full(j + 1, 1 / (2 * j + 1)) if uniform else box_shares(boxes, ticks, j)
            half[: j + 1] += float(Fraction(layer, self.total)) * shares
        mass = np.concatenate([half[:0:-1], half])
        return Law(-radius, mass / mass.sum(), slack=len(mass) * 8 * ROUNDING)


@dataclass(frozen=True, eq=False)
class CutBallCurve(PrivacyCurve):
    """The privacy curve of a cut ball. `moves` holds δ_v and u_v of each move v, rounded up."""

    most: float  # ε
    moves: tuple[tuple[float, float], ...]

    def _delta(self, epsilon: float) -> float:
        return float(self._deltas(np.array([epsilon]))[0])

    def _deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        sizes = np.abs(epsilons)
        unpaired, rising = np.array(self.moves).T
        excess = -np.expm1(np.minimum(sizes - self.most, 0.0))[:, None]
        inside = (unpaired + rising * excess).max(axis=1) * (1 + 8 * ROUNDING)
        known = np.where(sizes >= self.most, unpaired.max(), inside)
        # HS_{−ε}(P‖Q) = 1 − e^−ε + e^−ε·HS_ε(Q‖P)
        below = (np.exp(-sizes) * known - np.expm1(-sizes)) * (1 + 8 * ROUNDING)
        capped: NDArray[np.float64] = np.minimum(np.where(epsilons < 0, below, known), 1.0)
        return capped

    @property
    def bends(self) -> NDArray[np.float64]:
        return np.array([-self.most, 0.0, self.most])


@lru_cache(maxsize=1 << 12)
def leaving(noise: BallNoise, radius: int) -> dict[Move, int]:
    """E_j(v) for each pair (g, l) with g ≥ l, where v gains g ticks and loses l ticks.

    Since −v has the same losses as v, pairs with g < l are not needed.
    """
    boxes, ticks = noise.boxes, noise.ticks
    if noise.is_cube:
        return {(boxes, 0): (2 * radius + 1) ** boxes - (2 * radius) ** boxes}
    return {
        (gained, lost): noise.size(radius) - _staying(boxes, ticks, radius, gained, lost)
        for gained, lost in _moves(boxes, ticks)
    }


def _moves(boxes: int, ticks: int) -> list[Move]:
    pairs = ((gained, lost) for gained in range(1, ticks + 1) for lost in range(gained + 1))
    return [pair for pair in pairs if sum(pair) <= boxes]


def _terms(boxes: int, ticks: int) -> int:
    """The number of terms in the sums for all E_j(v). A cube has one term."""
    if ticks == boxes:
        return 1
    return sum(
        (gained + 1) * (lost + 1) * math.comb(boxes - gained - lost + 2, 2)
        for gained, lost in _moves(boxes, ticks)
    )


def _staying(boxes: int, ticks: int, radius: int, gained: int, lost: int) -> int:
    """The number of z in B_j with z + v in B_j."""
    others, limit, total = boxes - gained - lost, ticks * radius, 0
    for up in range(gained + 1):  # G
        for down in range(lost + 1):  # L
            first, second = up + down, gained + lost - up - down
            above = [
                sums_within(first + a, radius, limit + min(up, down)) for a in range(others + 1)
            ]
            room = limit + min(gained - up, lost - down)
            below = [sums_within(second + b, radius, room) for b in range(others + 1)]
            ways = sum(
                chosen(others, a, b) * above[a] * below[b]
                for a in range(others + 1)
                for b in range(others - a + 1)
            )
            total += math.comb(gained, up) * math.comb(lost, down) * ways
    return total


def continued(first: Sequence[int], degree: int, last: int) -> tuple[int, ...]:
    """The values of a polynomial at 0, …, last, from its `first` values at 0, …, degree."""
    found, row, ends = list(first), list(first), []
    while row:  # collects the last difference of each order
        ends.append(row[-1])
        row = [after - before for before, after in pairwise(row)]
    for _ in range(last - degree):
        for order in reversed(range(degree)):
            ends[order] += ends[order + 1]
        found.append(ends[0])
    return tuple(found)


@lru_cache(maxsize=256)
def least_cut_ball(noise: BallNoise, delta: float) -> CutBall | None:
    """The cut ball with the least radius for which δ is at most `delta`, or None if this radius
    would exceed `MOST_RADIUS`.
    """
    radius = least_private(
        lambda radius: CutBall(noise, radius).delta, delta, start=1, stop=MOST_RADIUS, steps=1
    )
    return None if radius is None else CutBall(noise, radius)
