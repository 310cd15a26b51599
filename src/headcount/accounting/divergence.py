"""The hockey-stick divergence, and the privacy curve of a set of neighboring views.

HS_ε(P‖Q) = Σ (P − e^ε Q)₊ = max over events A of P(A) − e^ε Q(A). A mechanism is (ε, δ)-private if
HS_ε ≤ δ for every ordered pair of neighbors. Everything here rounds up.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.laws import UNIT, Law
from headcount.core.cached import cached_property
from headcount.core.guarantee import PrivacyCurve

_BENDS = 500  # of a curve that has more than can be listed
_LEAST_DELTA = 1e-25  # smaller ones need no bends


def _bounds(upper: Law, lower: Law) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """On the window of `upper`: its masses rounded up, those of `lower` rounded down.

    What `lower` cut off counts as zero, which only adds to a divergence.
    """
    high = upper.mass * ((1 + upper.slack) * (1 + 4 * UNIT))
    low = np.zeros(len(high))
    start, stop = max(upper.start, lower.start), min(upper.stop, lower.stop)
    if start < stop:
        shared = lower.mass[start - lower.start : stop - lower.start]
        rounded = shared * (max(0.0, 1 - lower.slack) * (1 - 4 * UNIT))
        low[start - upper.start : stop - upper.start] = rounded
    return high, low


def _factor(epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
    """e^ε, rounded down; beyond what a float holds, a smaller number does on the safe side."""
    factor: NDArray[np.float64] = np.exp(np.minimum(epsilons, 700.0)) * (1 - 8 * UNIT)
    return factor


def hockey_stick(upper: Law, lower: Law, epsilon: float) -> float:
    """An upper bound on HS_ε(upper‖lower), within the laws' own slack of the truth."""
    high, low = _bounds(upper, lower)
    excess = high - _factor(np.array(epsilon)) * low
    # Pairwise summation of n terms errs by less than n units; windows are far below 2^40.
    total = float(excess[excess > 0].sum()) * (1 + len(excess) * UNIT)
    return min(1.0, total * (1 + 8 * UNIT) + upper.tail)


@dataclass(frozen=True, eq=False)
class PairCurve(PrivacyCurve):
    """δ(ε) = the largest HS_ε over the given ordered pairs (list both directions)."""

    pairs: tuple[tuple[Law, Law], ...] = field(repr=False)

    @classmethod
    def both_directions(cls, one: Law, other: Law) -> "PairCurve":
        return cls(((one, other), (other, one)))

    def _delta(self, epsilon: float) -> float:
        return max(hockey_stick(upper, lower, epsilon) for upper, lower in self.pairs)

    def _deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        worst = np.zeros(len(epsilons))
        for losses, high, low, tail, blur in self._sorted:
            # How many losses exceed ε, or may, as they are known up to `blur`. One that does not
            # takes at most blur·P from the sum.
            inside = np.searchsorted(-losses, blur - epsilons, side="left")
            sums = high[inside] * (1 + 2 * blur) - _factor(epsilons) * low[inside]
            worst = np.maximum(worst, np.maximum(sums, 0.0) * (1 + 8 * UNIT) + tail)
        return np.minimum(worst, 1.0)

    @cached_property
    def bends(self) -> NDArray[np.float64]:
        losses = np.concatenate([losses for losses, *_ in self._sorted])
        return np.unique(losses[np.isfinite(losses)])

    @cached_property
    def losses(
        self,
    ) -> list[tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float]]:
        """For each pair: all losses ln(P/Q), their P rounded up, their Q rounded down.

        Then how far off the losses may be by the rounding of logarithms.
        """
        out = []
        for upper, lower in self.pairs:
            high, low = _bounds(upper, lower)
            high, low = high[upper.mass > 0], low[upper.mass > 0]
            with np.errstate(divide="ignore"):
                logs, other_logs = np.log(high), np.log(low)
            finite = other_logs[np.isfinite(other_logs)]
            largest = np.abs(logs).max() + np.abs(finite).max(initial=0.0)
            out.append((logs - other_logs, high, low, float(4 * UNIT * (4 + largest))))
        return out

    @cached_property
    def _sorted(
        self,
    ) -> list[tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float, float]]:
        """For each pair: losses, falling; the sums of P and of Q over the k largest; P's tail; how
        far off the losses may be.
        """
        out = []
        for (upper, _), (losses, high, low, blur) in zip(self.pairs, self.losses, strict=True):
            order = np.argsort(-losses)
            grow = 1 + len(order) * UNIT
            high_sums = np.concatenate([[0.0], np.cumsum(high[order])]) * grow
            low_sums = np.concatenate([[0.0], np.cumsum(low[order])]) / grow
            out.append((losses[order], high_sums, low_sums, upper.tail, blur))
        return out


@dataclass(frozen=True, eq=False)
class PointCurve(PrivacyCurve):
    """All that is known is one (ε, δ): the worst mechanism with it.

    With probability δ it tells all, else it is binary randomized response of ε.
    """

    known_epsilon: float
    known_delta: float

    def _delta(self, epsilon: float) -> float:
        return float(self._deltas(np.array([epsilon]))[0])

    def _deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        known = self.known_epsilon
        # (e^known − e^ε)/(1 + e^known), and 1 − e^ε below −known.
        response = -np.expm1(np.minimum(epsilons - known, 0.0)) / (1 + math.exp(-known))
        spread = np.maximum(response, -np.expm1(np.minimum(epsilons, 0.0)))
        total: NDArray[np.float64] = self.known_delta + (1 - self.known_delta) * spread
        return np.minimum(total * (1 + 16 * UNIT), 1.0)

    @property
    def bends(self) -> NDArray[np.float64]:
        return np.array([-self.known_epsilon, self.known_epsilon])


@dataclass(frozen=True, eq=False)
class SymmetricCurve(PrivacyCurve):
    """A curve known for ε ≥ 0, of pairs that are there in both directions.

    HS_{−ε}(P‖Q) = 1 − e^−ε + e^−ε·HS_ε(Q‖P). Between the `bends` that are given δ is convex in e^ε,
    so that straight lines lie above it; from `pure_epsilon` on it is 0. If the losses are `steps`
    equal steps apart from −pure_epsilon to pure_epsilon, and not too many, these are the bends;
    else they lie where δ is no less than anybody asks for.
    """

    delta_at: Callable[[float], float]
    pure_epsilon: float
    steps: int = _BENDS

    def _delta(self, epsilon: float) -> float:
        return self._mirrored(epsilon, self._known(abs(epsilon)))

    def _deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        sizes, at = np.unique(np.abs(epsilons), return_inverse=True)
        known = [self._known(float(size)) for size in sizes]  # once for both signs
        return np.array(
            [self._mirrored(float(epsilons[i]), known[j]) for i, j in enumerate(at)], dtype=float
        )

    def _known(self, epsilon: float) -> float:
        return 0.0 if epsilon >= self.pure_epsilon else min(1.0, self.delta_at(epsilon))

    @staticmethod
    def _mirrored(epsilon: float, known: float) -> float:
        """δ at ε, from that at |ε|."""
        if epsilon >= 0:
            return known
        return min(1.0, (math.exp(epsilon) * known - math.expm1(epsilon)) * (1 + 8 * UNIT))

    @cached_property
    def bends(self) -> NDArray[np.float64]:
        most = self.pure_epsilon
        # A δ that is less than that everywhere needs no search.
        if self.steps >= _BENDS and self._delta(0.0) >= _LEAST_DELTA:
            while self._delta(most / 2) < _LEAST_DELTA:
                most /= 2
        return np.linspace(-most, most, min(self.steps, _BENDS) + 1)

    @property
    def last(self) -> float:
        return self.pure_epsilon
