"""The privacy of several histograms of the same people: one person moves in each of them.

The noise of all buckets is independent and has the law of X. In each histogram the person moves
from one bucket to another. So the view is k pairs (X + 1, X') against (X, X' + 1), all independent.
Exchanging the two buckets of all pairs exchanges the two laws, so both directions have the same δ.

A person who moves in fewer histograms has a smaller δ, because a view of k pairs contains that of
fewer pairs. If some values differ in all k histograms, δ is exactly that of k pairs. Splitting δ
and ε among the histograms would take about k times as much noise.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import cast

from headcount.accounting.buckets import MovedCurve
from headcount.accounting.laws import Law
from headcount.accounting.losses import LossLaw, MovedLaw, View, products_for
from headcount.accounting.product_curve import ProductCurve
from headcount.core.cached import cached_property
from headcount.core.guarantee import PrivacyCurve


@dataclass(frozen=True, eq=False)
class PairAccounts:
    """The view of k moved pairs. The name of an observation is the shift of its bucket: 1 or −1."""

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
class BoxAccounts(PairAccounts):
    """The views of a person who ticks at most k of m boxes.

    A replaced value may gain up to k ticks and lose up to k others. A view with more changes
    contains that of fewer changes. So there are `pairs` = min(2k, m) changes, and only the number
    of gained ticks differs. If 2k ≤ m, there is one view: k ticks are gained, and k are lost.
    """

    ticks: int

    @property
    def views(self) -> Sequence[View]:
        gained = range(self.pairs - self.ticks, self.ticks + 1)
        return [
            [((1.0, 0.0, 1),)] * more + [((1.0, 0.0, -1),)] * (self.pairs - more) for more in gained
        ]


def boxes_curve(noise: Law, boxes: int, ticks: int) -> PrivacyCurve:
    """The privacy curve of boxes with independent noise, if people tick at most `ticks` of them."""
    return ProductCurve(BoxAccounts(noise, min(2 * ticks, boxes), ticks))


def moved_curve(noise: Law, pairs: int) -> PrivacyCurve:
    """The privacy curve. One pair is computed without a grid of losses."""
    if pairs == 1:
        return MovedCurve.of(noise.shift(1), noise)
    return ProductCurve(PairAccounts(noise, pairs))
