"""The privacy of a histogram: one person moves from one bucket to another.

If buckets are seen independently of each other, two of them change: what is seen of a bucket has
the law `held` if the person is in it and `left` if not. Then P = held × left against Q = left ×
held is every neighboring pair, in both directions, and

    HS_ε(P‖Q) = Σ_i held(i) · HS_{ε − loss(i)}(left‖held),   loss(i) = ln(held(i)/left(i)),

exactly; bounding the two buckets one by one would cost about twice the noise.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.divergence import PairCurve
from headcount.accounting.laws import UNIT, Law
from headcount.core.cached import cached_property
from headcount.core.guarantee import PrivacyCurve

_BENDS = 20_000


@dataclass(frozen=True, eq=False)
class MovedCurve(PrivacyCurve):
    """The curve of a person who moves between two of many buckets, all of them alike."""

    held: Law = field(repr=False)
    left: Law = field(repr=False)

    @cached_property
    def _first(self) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """Of the bucket that the person is in: losses, rounded up; their masses; the tail."""
        losses, masses, _, blur = PairCurve(((self.held, self.left),)).losses[0]
        return losses + blur, masses, self.held.tail

    @cached_property
    def _second(self) -> PairCurve:
        return PairCurve(((self.left, self.held),))

    def _delta(self, epsilon: float) -> float:
        losses, masses, tail = self._first
        # An infinite loss counts in full: e^−∞ times anything is nothing.
        beyond = np.maximum(epsilon - losses, -700.0)
        total = float(masses @ self._second.deltas(beyond)) * (1 + len(masses) * UNIT)
        return min(1.0, total * (1 + 8 * UNIT) + tail)

    def _deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.array([self._delta(float(epsilon)) for epsilon in epsilons])

    @cached_property
    def bends(self) -> NDArray[np.float64]:
        """Where δ bends: at the sums of two losses, too many to list. It is convex in e^ε, so that
        straight lines between fewer points lie above it.
        """
        losses = self._first[0]
        least, most = (
            float(end(losses[np.isfinite(losses)])) + float(end(self._second.bends))
            for end in (np.min, np.max)
        )
        return np.linspace(least, most, _BENDS)
