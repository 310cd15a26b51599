"""The privacy of a histogram: one person moves from one bucket to another.

The observations of different buckets are independent, and only two buckets change. The observation
of a bucket has the law `held` if the person is in it, and the law `left` otherwise. So every
neighboring pair, in either direction, is P = held × left and Q = left × held. The hockey-stick
divergence is exactly

    HS_ε(P‖Q) = Σ_i held(i) · HS_{ε − loss(i)}(left‖held),   loss(i) = ln(held(i)/left(i)).

Separate bounds for the two buckets would require about twice the noise.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.divergence import PairCurve
from headcount.accounting.laws import ROUNDING, Law
from headcount.core.cached import cached_property
from headcount.core.guarantee import PrivacyCurve

_BENDS = 20_000  # the number of points that a `MovedCurve` lists as its bends


@dataclass(frozen=True, eq=False)
class MovedCurve(PrivacyCurve):
    """The privacy curve for one person who moves between two buckets with the same laws.

    `leaving` is the pair of laws (held, left), or a pair that dominates it. `entering` is the pair
    (left, held), or a pair that dominates it. A pair dominates another pair if its hockey-stick
    divergence is nowhere smaller.
    """

    leaving: tuple[Law, Law] = field(repr=False)
    entering: tuple[Law, Law] = field(repr=False)

    @classmethod
    def of(cls, held: Law, left: Law) -> "MovedCurve":
        return cls((held, left), (left, held))

    @property
    def attained(self) -> bool:
        """Whether `leaving` and `entering` are the exact pairs (held, left) and (left, held). If
        so, both directions have the same curve.
        """
        held, left = self.leaving
        return self.entering[0] is left and self.entering[1] is held

    @cached_property
    def _first(self) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        """The losses (rounded up), masses and tail of the bucket that the person leaves."""
        losses, masses, _, blur = PairCurve((self.leaving,)).losses[0]
        return losses + blur, masses, self.leaving[0].tail

    @cached_property
    def _second(self) -> PairCurve:
        return PairCurve((self.entering,))

    def _delta(self, epsilon: float) -> float:
        losses, masses, tail = self._first
        # An infinite loss counts with its whole mass, because HS_{−∞} is 1.
        beyond = np.maximum(epsilon - losses, -700.0)
        total = float(masses @ self._second.deltas(beyond)) * (1 + len(masses) * ROUNDING)
        return min(1.0, total * (1 + 8 * ROUNDING) + tail)

    def _deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.array([self._delta(float(epsilon)) for epsilon in epsilons])

    @cached_property
    def bends(self) -> NDArray[np.float64]:
        """Points between which δ may be interpolated.

        δ bends at every sum of a loss of the first bucket and a loss of the second. There are too
        many such sums to list. δ is convex in e^ε, so straight lines between fewer points lie above
        the curve.
        """
        losses = self._first[0]
        least, most = (
            float(end(losses[np.isfinite(losses)])) + float(end(self._second.bends))
            for end in (np.min, np.max)
        )
        return np.linspace(least, most, _BENDS)
