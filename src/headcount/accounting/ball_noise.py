"""Noise on the counts of several boxes, with probabilities that fall with the size of the noise.

Notation    Each person ticks at most k of m boxes. z is the noise on the counts of all boxes, and
            x = e^−ε. The size of z is N(z) = ⌈max(max|z_b|, Σz⁺/k, Σz⁻/k)⌉, where z⁺ and z⁻ are the
            positive and the negative part. P(z) is proportional to x^N(z). B_j is the ball of all z
            with N(z) ≤ j. Without a limit on ticks, k = m and N(z) = max|z_b|, so each ball is a
            cube.
Privacy     If a person's value is replaced, at most k boxes gain a tick and at most k boxes lose
            one. So the difference v has N(v) ≤ 1, and N(z + v) is at most N(z) + 1. The guarantee
            is pure ε. Losses are ε, 0 or −ε. In a cube, a difference in all boxes has the largest
            probability of a loss of ε: Σ_s x^s·((2s+1)^m − (2s)^m), divided by Σ_z x^N(z). For
            other balls, the curve of the worst ε-private mechanism is used as an upper bound.
Radius      Draw j with a weight of |B_j|·x^j, and then z uniformly in B_j. Balls are the multiples
            of a polytope with integer corners. So |B_j| is a polynomial in j, and Σ_j |B_j|·x^j =
            h(x)/(1−x)^{m+1} for a polynomial h of degree m at most, whose coefficients are not
            negative (Stanley 1980). So j is I plus m + 1 geometric numbers of ratio x, with
            P(I = i) proportional to h_i·x^i.
Counts      Let A_a(j, s) be the number of sequences of length a with elements in 1, …, j and a sum
            of at most s. Then |B_j| = Σ m!/(a!b!(m−a−b)!)·A_a(j, kj)·A_b(j, kj), where a is the
            number of boxes with positive noise, and b is the number with negative noise.
Error       The variance of a box is Σ_j Q_j·x^j/Σ_j |B_j|·x^j, with Q_j = Σ z_1² over B_j. Q_j is a
            polynomial of degree m + 2. Given j, z_1 has the law |{z ∈ B_j: z_1 = t}|/|B_j|, which
            is uniform in a cube. In other balls this law falls with |t|, so a uniform law in its
            place gives wider margins of error.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from headcount.accounting import laws
from headcount.accounting.divergence import PointCurve, SymmetricCurve
from headcount.accounting.laws import ROUNDING, Law
from headcount.core.cached import cached_property
from headcount.core.decimal_digits import decimal_digits, exponential
from headcount.core.guarantee import PrivacyCurve

_DIGITS = 50
_LISTED_DIGITS = 65  # the probability of a release is computed with this many digits
_WHOLE = 1 << 300  # the probability of a release is an integer divided by this
# A law of releases is listed only if the number of noise vectors, times the number of possible true
# counts, is at most 30 times this number.
_MOST_POINTS = 400_000
_FINEST = 2.0**-12  # if ε is below this, the law of one box is tabulated in larger steps
_MOST_STEPS = 2e7  # if the law of one box takes more steps, it is taken as uniform for each radius


@dataclass(frozen=True)
class BallNoise:
    """The noise of m boxes with at most k ticks."""

    epsilon: Fraction
    boxes: int  # m
    ticks: int  # k

    @property
    def is_cube(self) -> bool:
        return self.ticks == self.boxes

    # Counts -------------------------------------------------------------------------------------

    def size(self, radius: int) -> int:
        """The number |B_j| of noise vectors in the ball of this radius."""
        if self.is_cube:
            return int((2 * radius + 1) ** self.boxes)
        return sum(weight for _, weight in self.patterns(radius))

    def patterns(self, radius: int) -> list[tuple[tuple[int, int], int]]:
        """For each (a, b), the number of noise vectors in the ball of this radius with a positive
        and b negative boxes.
        """
        ways = [
            sums_within(number, radius, self.ticks * radius) for number in range(self.boxes + 1)
        ]
        return [
            ((a, b), chosen(self.boxes, a, b) * ways[a] * ways[b])
            for a in range(self.boxes + 1)
            for b in range(self.boxes - a + 1)
        ]

    def squares(self, radius: int) -> int:
        """Q_j, the sum of z_1² over the ball of this radius."""
        if self.is_cube:
            return int((2 * radius + 1) ** self.boxes) * radius * (radius + 1) // 3
        others, limit = self.boxes - 1, self.ticks * radius
        ways = [sums_within(number, radius, limit) for number in range(self.boxes)]
        total = 0
        for a in range(self.boxes):
            negative = sum(chosen(others, a, b) * ways[b] for b in range(self.boxes - a))
            total += negative * sum(
                t * t * sums_within(a, radius, limit - t) for t in range(1, radius + 1)
            )
        return 2 * total

    # The radius ---------------------------------------------------------------------------------

    @cached_property
    def starts(self) -> list[int]:
        """The coefficients h_i."""
        sizes = [self.size(radius) for radius in range(self.boxes + 1)]
        return _numerator(sizes, self.boxes + 1)

    def weights(self, digits: int) -> list[Decimal]:
        """h_i·x^i for all i, with a relative error below 10^−digits."""
        with decimal_digits(digits + 12):
            x = exponential(-self.epsilon)
            return [Decimal(start) * x**i for i, start in enumerate(self.starts)]

    @property
    def parts(self) -> int:
        """The number of geometric numbers that are added to I."""
        return self.boxes + 1

    # Privacy ------------------------------------------------------------------------------------

    @cached_property
    def _likely(self) -> float:
        """In a cube, the largest probability of the loss ε, rounded up."""
        m = self.boxes
        leaving = [(2 * s + 1) ** m - (2 * s) ** m for s in range(m + 1)]
        with decimal_digits(_DIGITS + m):
            x = exponential(-self.epsilon)
            # Σ_s x^s·leaving[s] is a polynomial divided by (1−x)^m. Σ_z x^N(z) is h(x)/(1−x)^m.
            above = sum(Decimal(one) * x**i for i, one in enumerate(_numerator(leaving, m)))
            return float(above / sum(self.weights(_DIGITS + m))) * (1 + 4 * ROUNDING)

    @property
    def curve(self) -> PrivacyCurve:
        epsilon = float(self.epsilon)
        if not self.is_cube:
            return PointCurve(epsilon, 0.0)
        return SymmetricCurve(
            lambda smaller: -math.expm1(smaller - epsilon) * self._likely * (1 + 4 * ROUNDING),
            epsilon,
            2,
            one_pair=True,
        )

    # Error --------------------------------------------------------------------------------------

    @cached_property
    def variance(self) -> float:
        """The variance of the noise of one box."""
        squares = [self.squares(radius) for radius in range(self.boxes + 3)]
        # The coefficients of the numerator may be negative, so more digits are needed.
        digits = _DIGITS + 4 * self.boxes
        with decimal_digits(digits):
            x = exponential(-self.epsilon)
            terms = enumerate(_numerator(squares, self.boxes + 3))
            above = sum((one * x**i for i, one in terms), Decimal(0))
            return float(above / sum(self.weights(digits)) / (1 - x) ** 2)

    @property
    def step(self) -> int:
        """The law `one` counts noise in steps. One step is this many units of noise."""
        return math.ceil(_FINEST / self.epsilon)

    @cached_property
    def one(self) -> Law:
        """The law of the noise of one box in units of `step`. If it is too slow to compute, a law
        with wider margins of error is used instead.
        """
        radii = self._radii
        steps = self.boxes * self.ticks * float(radii.stop) ** 2
        if self.is_cube or self.step > 1 or steps > _MOST_STEPS:
            shares = radii.mass / (2 * radii.values + 1)
            tails = np.cumsum(shares[::-1])[::-1]
            half = np.concatenate([np.full(radii.start, tails[0]), tails])
        else:
            half = np.zeros(radii.stop)
            for radius, chance in zip(radii.values.tolist(), radii.mass, strict=True):
                half[: radius + 1] += chance * box_shares(self.boxes, self.ticks, radius)
        mass = np.concatenate([half[:0:-1], half])
        slack = radii.slack + len(mass) * 8 * ROUNDING
        return Law(1 - len(half), mass / mass.sum(), slack, radii.tail)

    @property
    def _radii(self) -> Law:
        """The law of the radius j in units of `step`. If the step is above 1, j is rounded up."""
        with decimal_digits(_DIGITS):
            weights = self.weights(_DIGITS)
            shares = np.array([float(weight / sum(weights)) for weight in weights])
        ratio = math.exp(-float(self.epsilon) * self.step)
        added = laws.negative_binomial(Fraction(self.parts), Fraction(ratio))
        law = added.plus(Law(0, shares, 4 * ROUNDING)).trimmed(laws.TAIL)
        # Each of the `parts` geometric numbers was rounded down to whole steps. Adding one step for
        # each of them rounds the radius up.
        return law if self.step == 1 else law.shift(self.parts)

    # Releases -----------------------------------------------------------------------------------

    def listed(
        self, counts: tuple[int, ...], users: int, most: int
    ) -> Mapping[tuple[int, ...], Fraction] | None:
        """The law of counts plus noise, to 60 digits, or None if it is too long to list.

        Outcomes are merged if they have the same likelihood ratios for all counts c of `users`
        people. Two outcomes y have the same ratios if the sizes N(y − c), minus the least of these
        sizes over all c, are the same for both. A merged outcome is named by these differences.
        """
        reach = math.ceil(_LISTED_DIGITS * math.log(10) / float(self.epsilon)) + users
        if (2 * reach + 1) ** self.boxes * (users + 1) ** self.boxes > 30 * _MOST_POINTS:
            return None
        classes, sizes = _classes(self.boxes, self.ticks, reach, users)
        if len(classes) > most:
            return None
        place = list(product(range(users + 1), repeat=self.boxes)).index(counts)
        with decimal_digits(_LISTED_DIGITS + 15):
            x = exponential(-self.epsilon)
            every = sum(self.weights(_LISTED_DIGITS)) / (1 - x) ** self.boxes
            powers = [x**size for size in range(4 * reach + 2)]
            law = {}
            for name, found in zip(classes, sizes, strict=True):
                total = sum(number * powers[size + name[place]] for size, number in found.items())
                law[name] = Fraction(int(total / every * _WHOLE), _WHOLE)
        likely = max(law, key=lambda name: law[name])
        law[likely] += 1 - sum(law.values())
        return law


def ball_size(noise: NDArray[np.int64], ticks: int) -> NDArray[np.int64]:
    """The size N(z) of each row z."""
    gained, lost = np.maximum(noise, 0).sum(axis=-1), np.maximum(-noise, 0).sum(axis=-1)
    most: NDArray[np.int64] = np.maximum(gained, lost)
    found: NDArray[np.int64] = np.maximum(np.abs(noise).max(axis=-1), -(-most // ticks))
    return found


@lru_cache(maxsize=1 << 16)
def sums_within(number: int, largest: int, limit: int) -> int:
    """A_a(j, s) for a = `number`, j = `largest` and s = `limit`."""
    return sum(
        (-1) ** i * math.comb(number, i) * math.comb(limit - i * largest, number)
        for i in range(number + 1)
        if limit - i * largest >= number
    )


def chosen(boxes: int, one: int, other: int) -> int:
    """The number of ways to choose `one` positive and `other` negative boxes."""
    return math.comb(boxes, one) * math.comb(boxes - one, other)


def _numerator(values: list[int], power: int) -> list[int]:
    """The first coefficients of Σ_j values[j]·x^j times (1−x)^power."""
    signs = [(-1) ** i * math.comb(power, i) for i in range(len(values))]
    return [
        sum(signs[i] * values[j - i] for i in range(min(j, power) + 1)) for j in range(len(values))
    ]


def box_shares(boxes: int, ticks: int, radius: int) -> NDArray[np.float64]:
    """The share of noise vectors with z_1 = t in the ball of radius j, for t = 0, …, j.

    `row[s]` is the number of sequences of length a with elements in 1, …, j and the sum s, divided
    by j^a. It is a difference of running sums. The sum over a has only positive terms.
    """
    if not radius:
        return np.ones(1)
    limit, others = ticks * radius, boxes - 1
    row, within = np.zeros(limit + 1), []
    row[0] = 1.0
    for _ in range(boxes):
        within.append(np.cumsum(row))
        moved = np.concatenate([np.zeros(1), within[-1]])
        before = np.concatenate([np.zeros(radius + 1), within[-1]])[: limit + 2]
        row = ((moved - before[: len(moved)]) / radius)[: limit + 1]
        row = np.maximum(row, 0.0)
    found = np.zeros(radius + 1)
    ends = limit - np.arange(radius + 1)
    for a in range(boxes):
        negative = sum(
            chosen(others, a, b) * float(radius) ** (a + b - others) * float(within[b][-1])
            for b in range(boxes - a)
        )
        found += negative * within[a][ends]
    shares: NDArray[np.float64] = found / (2 * found.sum() - found[0])
    return shares


@lru_cache(maxsize=8)
def _classes(
    boxes: int, ticks: int, reach: int, users: int
) -> tuple[list[tuple[int, ...]], list[Counter[int]]]:
    """Classes of releases y with the same likelihood ratios: the name and a counter of each class.

    The name of a class lists the sizes N(y − c) for all counts c, minus the least of these sizes.
    The releases of a class may differ in this least size. The counter says how many of them have
    each least size.
    """
    line = np.arange(-reach, reach + users + 1)
    seen = np.stack(np.meshgrid(*[line] * boxes, indexing="ij"), axis=-1).reshape(-1, boxes)
    counts = np.array(list(product(range(users + 1), repeat=boxes)))
    sizes = np.stack([ball_size(seen - count, ticks) for count in counts], axis=1)
    least = sizes.min(axis=1)
    # Rows are compared as bytes, which is many times faster than number by number.
    rows = np.ascontiguousarray(sizes - least[:, None])
    whole = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first, place = np.unique(whole, return_index=True, return_inverse=True)
    names = rows[first]
    found: list[Counter[int]] = [Counter() for _ in names]
    pairs, times = np.unique(np.stack([place.ravel(), least], axis=1), axis=0, return_counts=True)
    for (name, size), number in zip(pairs.tolist(), times.tolist(), strict=True):
        found[name][size] = number
    return [tuple(name) for name in names.tolist()], found
