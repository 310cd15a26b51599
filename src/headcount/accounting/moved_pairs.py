"""The privacy of several histograms of the same people: one person moves in each of them.

The noise of all buckets is independent and has the law of X. In each of k histograms, the person
moves from one bucket to another. Such a pair of buckets is called a moved pair. In one law, the
view of a moved pair is (X + 1, X'), and in the other law it is (X, X' + 1), where X' is an
independent copy of X. All k pairs are independent. Exchanging the two buckets of all pairs
exchanges the two laws, so both directions have the same δ.

A person who moves in fewer histograms has a smaller δ, because a view of k pairs contains a view of
fewer pairs. If a person can move in all k histograms at once, δ is exactly that of k pairs.
Splitting δ and ε among the histograms would take about k times as much noise.

The noise may also be correlated (see `protocols.correlated_noise`). Then the observation of a
bucket is one of two alternatives, which `losses` calls parts, and the adversary sees which part
occurred. If it is the first part, nothing else is seen. If it is the second part, X + 1 is also
seen if the person is in the bucket, and X otherwise.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import cast

from headcount.accounting.buckets import MovedCurve
from headcount.accounting.laws import ROUNDING, Law
from headcount.accounting.losses import LossLaw, MovedLaw, Part, View, products_for
from headcount.accounting.product_curve import ProductCurve
from headcount.core.cached import cached_property
from headcount.core.guarantee import PrivacyCurve


@dataclass(frozen=True, eq=False)
class PairAccounts:
    """The view of k moved pairs, where k is `pairs`. Each bucket is one observation. Its name is 1
    if X + 1 is compared with X in this bucket, and −1 if X is compared with X + 1.
    """

    noise: Law = field(repr=False)
    pairs: int

    @property
    def views(self) -> Sequence[View]:
        return [[((1.0, 0.0, by),) for by in (1, -1)] * self.pairs]

    @property
    def usual(self) -> Sequence[View]:
        return self.views

    @cached_property
    def _moved(self) -> MovedLaw:
        return MovedLaw(self.noise)

    def law(self, name: Hashable, step: float, negligible: float) -> LossLaw:
        return self._moved.losses(cast(int, name), step, negligible)

    def delta(self, epsilon: float) -> float:
        return products_for(self.views, self.law, epsilon)[1]


@dataclass(frozen=True, eq=False)
class CorrelatedAccounts(PairAccounts):
    """The view of k moved pairs of buckets with correlated noise, which has the parameters a and b.

    If the person is in a bucket, the first part of its observation has the probability
    (1−a)/(1−ab), and the second part has the probability a(1−b)/(1−ab). Otherwise, the first part
    has the probability b(1−a)/(1−ab), and the second part has the probability (1−b)/(1−ab).
    """

    a: float
    b: float

    @property
    def views(self) -> Sequence[View]:
        a, b, whole = self.a, self.b, 1 - self.a * self.b
        first, second = (1 - a) / whole, (1 - b) / whole
        left: tuple[Part, ...] = (
            self._part(first, -math.log(b), 0),
            self._part(a * second, math.log(a), 1),
        )
        entered: tuple[Part, ...] = (
            self._part(b * first, math.log(b), 0),
            self._part(second, -math.log(a), -1),
        )
        return [[left, entered] * self.pairs]

    def _part(self, weight: float, loss: float, by: int) -> Part:
        # The product ab is rounded, and its error matters more if a and b are near 1.
        error = (8 + 2 / (1 - self.a * self.b)) * ROUNDING
        return weight * (1 + error), loss + 2 * error, by


@dataclass(frozen=True, eq=False)
class BoxAccounts(PairAccounts):
    """The views of a person who ticks at most k of m boxes, where k is `ticks`.

    If the person's value is replaced, up to k boxes gain a tick, and up to k other boxes lose one.
    A view with more changes contains a view with fewer changes. So only views with the largest
    number of changes, `pairs` = min(2k, m), are considered. These views differ in the number of
    gained ticks. If 2k ≤ m, there is only one view: k ticks are gained, and k are lost.
    """

    ticks: int

    @property
    def views(self) -> Sequence[View]:
        gained = range(self.pairs - self.ticks, self.ticks + 1)
        return [
            [((1.0, 0.0, 1),)] * more + [((1.0, 0.0, -1),)] * (self.pairs - more) for more in gained
        ]


def boxes_curve(noise: Law, boxes: int, ticks: int) -> PrivacyCurve:
    """The privacy curve of `boxes` boxes with independent noise, if each person ticks at most
    `ticks` of them.
    """
    return ProductCurve(BoxAccounts(noise, min(2 * ticks, boxes), ticks))


def moved_curve(noise: Law, pairs: int) -> PrivacyCurve:
    """The privacy curve of moved pairs. For one pair, it is computed without a grid of losses."""
    if pairs == 1:
        return MovedCurve.of(noise.shift(1), noise)
    return ProductCurve(PairAccounts(noise, pairs))
