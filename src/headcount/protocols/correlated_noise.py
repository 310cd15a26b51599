"""Noise of single messages and of pairs that cancel, for the correlated count and histogram.

Notation    A cell is a count, or a bucket of a histogram, and x people are in it. n people take
            part, and h of them are honest. NB(r, p) is the negative binomial law, under which k has
            a probability proportional to binom(k+r−1, k)·p^k. The sum of h independent shares
            NB(r/h, p) has the law NB(r, p). The parameters a, b, p and r are calibrated.
Randomizer  For each cell, draw Z1 ~ NB(1/h, b), Z2 ~ NB(1/h, a) and Z3 ~ NB(r/h, p). Send Z1 + Z3
            messages +1 and Z2 + Z3 messages −1 for that cell.
Analyzer    The estimate of x is (number of +1) − (number of −1) − (n/h)(b/(1−b) − a/(1−a)). The Z3
            pairs of +1 and −1, which are called the flood, cancel.
Privacy     All sums are over the honest people. D = ΣZ1 − ΣZ2 has the law
            P(D = d) = (1−a)(1−b)/(1−ab)·b^d for d ≥ 0, and the same with a^−d in place of b^d for
            d ≤ 0. D is independent of M = min(ΣZ1, ΣZ2) + ΣZ3, whose law f is that of a sum of
            independent variables NB(1, ab) and NB(r, p). The view of the cell consists of
            (number of +1) − (number of −1), which is x + D, and of the number of −1, which is
            M + max(0, −D). Compare x people in the cell with x + 1. The event that the first
            coordinate of the view exceeds x has the probability b(1−a)/(1−ab) for x people and
            (1−a)/(1−ab) for x + 1. All outcomes in this event have the same privacy loss, so the
            event counts as one point. Outside this event, subtract x from the first coordinate, and
            then add the first coordinate to the second. Then the first coordinate tells nothing
            more, and the part of the second coordinate's law outside the event is
            (1−b)/(1−ab)·f for x people and (1−b)/(1−ab)·a·f(· − 1) for x + 1. All divergences are
            computed from these two laws on the integers and one additional point. If a person moves
            in several histograms, or on several levels of a tree, the privacy losses of all changed
            cells add up (see `accounting.moved_pairs`).
Error       The error is the difference between independent variables NB(n/h, b) and NB(n/h, a),
            minus its mean. If b = a and everyone is honest, the error is two-sided geometric noise.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray

from headcount.accounting import laws
from headcount.accounting.buckets import MovedCurve
from headcount.accounting.divergence import PairCurve
from headcount.accounting.laws import ROUNDING, Law
from headcount.accounting.moved_pairs import CorrelatedAccounts
from headcount.accounting.product_curve import ProductCurve, delta_near
from headcount.core.cached import cached_property
from headcount.core.guarantee import NearCurve, PrivacyCurve
from headcount.core.randomizer import MOST_BUNDLES, RARE
from headcount.core.source import Source
from headcount.protocols.geometric_error import GeometricError, UnequalError
from headcount.randomness.draws import successes
from headcount.randomness.shares import negative_binomial_share
from headcount.randomness.table import FINE, ThresholdTable
from headcount.randomness.totals import negative_binomial

_LEAST_R = 1e-3  # below this r, the search stops, since the flood is then negligibly small


@dataclass(frozen=True)
class CorrelatedNoise:
    """The noise of one cell, divided into shares for `honest` people.

    Computations take the floats b, a, r and p as exact binary fractions.
    """

    honest: int
    b: float
    a: float
    r: float
    p: float

    @property
    def flood_pairs(self) -> float:
        """The expected number E[ΣZ3] of pairs from all honest people."""
        return self.r * self.p / (1 - self.p)

    def messages_per_user(self, cells: int, own: int = 1) -> float:
        """The expected number of a person's messages: `own` messages for the value, and noise."""
        singles = self.b / (1 - self.b) + self.a / (1 - self.a)
        return own + cells * (singles + 2 * self.flood_pairs) / self.honest

    @property
    def mean(self) -> Fraction:
        """The mean of (number of +1) − (number of −1) in one person's noise in a cell."""
        plus, minus = Fraction(self.b), Fraction(self.a)
        return (plus / (1 - plus) - minus / (1 - minus)) / self.honest

    def error(self, users: int) -> GeometricError | UnequalError:
        """The law of the error in each cell if `users` people take part."""
        times = Fraction(users, self.honest)
        if self.b == self.a:
            return GeometricError(-math.log(self.a), times)
        return UnequalError(-math.log(self.b), -math.log(self.a), times)

    # Privacy ------------------------------------------------------------------------------------

    @cached_property
    def _hidden(self) -> Law:
        """The law f of M."""
        flood = laws.negative_binomial(Fraction(self.r), Fraction(self.p))
        return flood.plus_geometric(self.a * self.b)

    @cached_property
    def views(self) -> tuple[Law, Law]:
        """The laws of the view of a cell, without and with one more person in it."""
        f = self._hidden
        whole = 1 - self.a * self.b
        above, inside = (1 - self.a) / whole, (1 - self.b) / whole
        # The differences 1 − a and 1 − b are exact or nearly exact. The product ab is rounded, and
        # its error matters more if a and b are near 1.
        slack = f.slack + (8 + 2 / whole) * ROUNDING
        without = Law(
            f.start - 2,
            np.concatenate([[self.b * above, 0.0], f.mass * inside]),
            slack,
            f.tail,
        )
        with_one = Law(
            f.start - 2,
            np.concatenate([[above, 0.0, 0.0], f.mass * (self.a * inside)]),
            slack,
            f.tail,
        )
        return without, with_one

    def delta(self, epsilon: float, changed: int, scale: float) -> float:
        """The δ of the ideal law, without the rounding of tables (see `curve`).

        If a person changes more than two cells, the result is an upper bound. It is accurate if δ
        is near `scale`.
        """
        if changed > 2:
            return delta_near(self._accounts(changed), epsilon, scale)
        return self._ideal_curve(changed).delta(epsilon)

    def _accounts(self, changed: int) -> CorrelatedAccounts:
        return CorrelatedAccounts(self._hidden, changed // 2, self.a, self.b)

    def curve(self, changed: int) -> PrivacyCurve:
        """The privacy curve for a person who changes `changed` cells.

        If `changed` is 1, the person joins or leaves a cell. Otherwise, the cells form pairs, and
        the person moves from one cell of each pair to the other.
        """
        # All other cells have the same law for both neighboring datasets, even after tables are
        # rounded. So only the rounding in the changed cells counts.
        return NearCurve(self._ideal_curve(changed), changed * self.honest * self.variation)

    def _ideal_curve(self, changed: int) -> PrivacyCurve:
        if changed > 2:
            return ProductCurve(self._accounts(changed))
        without, with_one = self.views
        if changed == 2:
            return MovedCurve.of(with_one, without)
        return PairCurve.both_directions(without, with_one)

    # Sampling -----------------------------------------------------------------------------------

    @cached_property
    def _shares(self) -> tuple[ThresholdTable, ThresholdTable, ThresholdTable]:
        """The tables of Z1, Z2 and Z3."""
        plus, minus, pairs = (
            negative_binomial_share(Fraction(r) / self.honest, Fraction(p))
            for r, p in ((1, self.b), (1, self.a), (self.r, self.p))
        )
        return plus, minus, pairs

    @cached_property
    def _sampler(self) -> tuple[int, ThresholdTable, tuple[ThresholdTable, ...]]:
        """A number and four tables, for the three steps of `draw`.

        The number, divided by 2^128, is the probability that at least one of Z1, Z2 and Z3 is
        positive. The first table draws which of them are positive, as the bits of a number. The
        other tables draw Z1, Z2 and Z3, each given that it is positive. These steps are fast,
        because most shares are zero.
        """
        zeros = [share.law.get(0, Fraction(0)) for share in self._shares]
        some = 1 - zeros[0] * zeros[1] * zeros[2] or Fraction(1)
        patterns = [Fraction(0)]
        for bits in list(product((0, 1), repeat=3))[1:]:
            chances = [1 - z if bit else z for bit, z in zip(bits, zeros, strict=True)]
            patterns.append(chances[0] * chances[1] * chances[2] / some)
        positive = tuple(_positive_part(share) for share in self._shares)
        weight = round((1 - zeros[0] * zeros[1] * zeros[2]) * FINE)
        if not weight:
            patterns[-1] = Fraction(1)  # arbitrary, because the table is never used
        return weight, ThresholdTable.fine(patterns), positive

    @cached_property
    def variation(self) -> float:
        """A bound on the total variation between the real and ideal laws of a person's noise."""
        _, patterns, positive = self._sampler
        tables = (*self._shares, patterns, *positive)
        return sum(table.total_variation for table in tables) + 1 / FINE

    def draw(self, source: Source, cells: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Independent noise in `cells` cells.

        The result is the list of cells with noise, and for each of them a row with the numbers of
        +1 and −1.
        """
        weight, patterns, positive = self._sampler
        touched = successes(source, cells, weight, bits=128)
        pattern = patterns.sample(source, len(touched))
        drawn = np.zeros((3, len(touched)), dtype=np.int64)
        for row, bit, table in zip(drawn, (4, 2, 1), positive, strict=True):
            at = np.flatnonzero(pattern & bit)
            row[at] = table.sample(source, len(at))
        return touched, np.stack([drawn[0] + drawn[2], drawn[1] + drawn[2]], axis=1)

    def share_law(self) -> dict[tuple[int, int], Fraction] | None:
        """The joint law of the numbers of +1 and −1 that one person adds to one cell.

        The result is None if the law is too long to list.
        """
        up, down, flood = (
            [(k, chance) for k, chance in table.law.items() if chance >= RARE]
            for table in self._shares
        )
        if max(len(up), len(down)) * (max(len(up), len(down)) + len(flood)) > MOST_BUNDLES:
            return None
        law: dict[tuple[int, int], Fraction] = {}
        for z3, p3 in flood:
            for z1, p1 in up:
                if p1 * p3 < RARE:
                    break  # larger shares are less likely
                for z2, p2 in down:
                    chance = p1 * p2 * p3
                    if chance < RARE:
                        break
                    key = (z1 + z3, z2 + z3)
                    law[key] = law.get(key, Fraction(0)) + chance
        return law

    def number_law(self, cells: int) -> Law:
        """The law of the number of noise messages that one person sends."""
        share = Fraction(cells, self.honest)
        up, down = (laws.negative_binomial(share, Fraction(p)) for p in (self.b, self.a))
        pairs = laws.negative_binomial(Fraction(self.r) * cells / self.honest, Fraction(self.p))
        doubled = np.zeros(2 * len(pairs.mass) - 1)
        doubled[::2] = pairs.mass
        return up.plus(down).plus(Law(2 * pairs.start, doubled, pairs.slack, pairs.tail))

    def totals(self, users: int, cells: int, source: Source) -> NDArray[np.int64]:
        """The total noise of all people. For each cell, a row has the numbers of +1 and −1."""
        times = Fraction(users, self.honest)
        up, down = (negative_binomial(source, times, Fraction(p), cells) for p in (self.b, self.a))
        pairs = negative_binomial(source, Fraction(self.r) * times, Fraction(self.p), cells)
        return np.stack([up + pairs, down + pairs], axis=1)


def _positive_part(share: ThresholdTable) -> ThresholdTable:
    """The law of a share, given that it is not 0."""
    rest = 1 - share.law.get(0, Fraction(0))
    if not rest:
        return ThresholdTable([FINE], start=1)  # arbitrary, because the table is never used
    largest = max(share.law)
    masses = [share.law.get(k, Fraction(0)) / rest for k in range(1, largest + 1)]
    return ThresholdTable.fine(masses, start=1)


def cheapest_flood(
    honest: int, b: float, a: float, epsilon: float, delta: float, *, changed: int
) -> CorrelatedNoise | None:
    """The (ε, δ)-private noise with these b and a that has the fewest pairs; None if none is found.

    `changed` is the number of cells that a person changes. As a function of p, the number of pairs
    has one minimum. A golden-section search looks for it around p = e^−0.57s, where s is the part
    of ε that is left for the flood.
    """
    spare = epsilon + changed * math.log(a)
    candidates: list[CorrelatedNoise] = []

    def cost(log_rate: float) -> float:
        p = math.exp(-math.exp(log_rate))
        noise = (
            _least_flood(CorrelatedNoise(honest, b, a, 0.0, p), epsilon, delta, changed=changed)
            if 0 < p < 1
            else None
        )
        if noise is None:
            return math.inf
        candidates.append(noise)
        return noise.flood_pairs

    golden = (math.sqrt(5) - 1) / 2
    start = math.log(0.57 * spare)
    left, right = start - 1.0, start + 1.0
    points = [right - golden * (right - left), left + golden * (right - left)]
    costs = [cost(point) for point in points]
    for _ in range(8):
        if costs[0] <= costs[1]:
            right, points[1], costs[1] = points[1], points[0], costs[0]
            points[0] = right - golden * (right - left)
            costs[0] = cost(points[0])
        else:
            left, points[0], costs[0] = points[0], points[1], costs[1]
            points[1] = left + golden * (right - left)
            costs[1] = cost(points[1])
    return min(candidates, key=lambda noise: noise.flood_pairs, default=None)


def _least_flood(
    bare: CorrelatedNoise, epsilon: float, delta: float, *, changed: int
) -> CorrelatedNoise | None:
    """The private noise with the smallest r. Its other parameters are those of `bare`.

    ln δ falls nearly linearly in r. So each step of the search interpolates between the nearest
    points on both sides of the wanted δ.
    """

    def measure(r: float) -> tuple[float, float]:
        reached = replace(bare, r=r).delta(epsilon, changed, delta)
        return r, math.log(max(reached, 1e-300) / delta)

    low, high = (0.0, math.inf), measure(1.3 * math.log(1 / delta))
    while high[1] > 0:
        low, high = high, measure(2 * high[0])
        if high[0] > 1e6 * math.log(1 / delta):
            return None
    for _ in range(60):
        if high[0] - low[0] < 2e-4 * high[0] or high[1] > -2e-4 or high[0] < _LEAST_R:
            break
        share = low[1] / (low[1] - high[1]) if math.isfinite(low[1]) else 0.5
        # Aim a little beyond the crossing, and keep away from both ends of the interval.
        share = min(max(share + 1e-4, 0.05), 0.98)
        point = measure(low[0] + share * (high[0] - low[0]))
        low, high = (low, point) if point[1] <= 0 else (point, high)
    return replace(bare, r=high[0])
