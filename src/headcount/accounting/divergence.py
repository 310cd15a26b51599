"""The hockey-stick divergence, and the privacy curve of a set of pairs of neighboring views.

HS_ε(P‖Q) = Σ (P − e^ε Q)₊ = max over events A of P(A) − e^ε Q(A). A mechanism is (ε, δ)-private if
HS_ε ≤ δ for every ordered pair of neighbors. As a function of e^ε, HS_ε is piecewise linear, and it
bends at the losses ln(P/Q). All results are rounded up.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.laws import ROUNDING, Law
from headcount.core.cached import cached_property
from headcount.core.guarantee import PrivacyCurve

BENDS = 500  # a curve with more bends lists about this many points instead
_LEAST_DELTA = 1e-25  # bends with a smaller δ are not listed


def _bounds(upper: Law, lower: Law) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The masses of `upper`, rounded up, and of `lower`, rounded down, on the window of `upper`.

    Masses that `lower` cut off count as zero, which can only increase a divergence.
    """
    high = upper.mass * ((1 + upper.slack) * (1 + 4 * ROUNDING))
    low = np.zeros(len(high))
    start, stop = max(upper.start, lower.start), min(upper.stop, lower.stop)
    if start < stop:
        shared = lower.mass[start - lower.start : stop - lower.start]
        rounded = shared * (max(0.0, 1 - lower.slack) * (1 - 4 * ROUNDING))
        low[start - upper.start : stop - upper.start] = rounded
    return high, low


def _factor(epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
    """e^ε, rounded down. Where e^ε would overflow, e^700 is used. A smaller factor can only
    increase a divergence.
    """
    factor: NDArray[np.float64] = np.exp(np.minimum(epsilons, 700.0)) * (1 - 8 * ROUNDING)
    return factor


def hockey_stick(upper: Law, lower: Law, epsilon: float) -> float:
    """An upper bound on HS_ε(upper‖lower). Its error is of the order of the two laws' slack."""
    high, low = _bounds(upper, lower)
    excess = high - _factor(np.array(epsilon)) * low
    # A sum of n terms has a relative error below n times `ROUNDING`. This error is tiny, because a
    # window has far fewer than 2^40 terms.
    total = float(excess[excess > 0].sum()) * (1 + len(excess) * ROUNDING)
    return min(1.0, total * (1 + 8 * ROUNDING) + upper.tail)


@dataclass(frozen=True, eq=False)
class PairCurve(PrivacyCurve):
    """δ(ε) is the largest HS_ε over the given ordered pairs, which must include both directions."""

    pairs: tuple[tuple[Law, Law], ...] = field(repr=False)

    @classmethod
    def both_directions(cls, one: Law, other: Law) -> "PairCurve":
        return cls(((one, other), (other, one)))

    @cached_property
    def attained(self) -> bool:
        """Whether all pairs have the same probabilities, up to the order of the outcomes. If so,
        each pair has this curve in both directions.
        """
        windows = {(law.start, len(law.mass)) for pair in self.pairs for law in pair}
        if len(windows) > 1:
            return False
        laws = {
            tuple(sorted(zip(upper.mass.tolist(), lower.mass.tolist(), strict=True)))
            for upper, lower in self.pairs
        }
        return len(laws) == 1

    def _delta(self, epsilon: float) -> float:
        return max(hockey_stick(upper, lower, epsilon) for upper, lower in self.pairs)

    def _deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        worst = np.zeros(len(epsilons))
        for losses, high, low, tail, blur in self._sorted:
            # Losses have errors of up to `blur`. `inside` is the number of losses that may exceed
            # ε. Some of them may be below ε by up to 2·blur. Each of these lowers the sum by at
            # most 2·blur·P, so the P are multiplied by 1 + 2·blur.
            inside = np.searchsorted(-losses, blur - epsilons, side="left")
            sums = high[inside] * (1 + 2 * blur) - _factor(epsilons) * low[inside]
            worst = np.maximum(worst, np.maximum(sums, 0.0) * (1 + 8 * ROUNDING) + tail)
        return np.minimum(worst, 1.0)

    @cached_property
    def bends(self) -> NDArray[np.float64]:
        losses = np.concatenate([losses for losses, *_ in self._sorted])
        return np.unique(losses[np.isfinite(losses)])

    @cached_property
    def losses(
        self,
    ) -> list[tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float]]:
        """For each pair: the losses ln(P/Q) of all outcomes, the masses of the outcomes under P
        (rounded up) and under Q (rounded down), and a bound on the error of the losses.

        The losses have an error because logarithms are rounded.
        """
        out = []
        for upper, lower in self.pairs:
            high, low = _bounds(upper, lower)
            high, low = high[upper.mass > 0], low[upper.mass > 0]
            with np.errstate(divide="ignore"):
                logs, other_logs = np.log(high), np.log(low)
            finite = other_logs[np.isfinite(other_logs)]
            largest = np.abs(logs).max() + np.abs(finite).max(initial=0.0)
            out.append((logs - other_logs, high, low, float(4 * ROUNDING * (4 + largest))))
        return out

    @cached_property
    def _sorted(
        self,
    ) -> list[tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float, float]]:
        """For each pair: the losses in descending order, the cumulative sums of P and of Q in this
        order, the tail of P, and a bound on the error of the losses.
        """
        out = []
        for (upper, _), (losses, high, low, blur) in zip(self.pairs, self.losses, strict=True):
            order = np.argsort(-losses)
            grow = 1 + len(order) * ROUNDING
            high_sums = np.concatenate([[0.0], np.cumsum(high[order])]) * grow
            low_sums = np.concatenate([[0.0], np.cumsum(low[order])]) / grow
            out.append((losses[order], high_sums, low_sums, upper.tail, blur))
        return out


@dataclass(frozen=True, eq=False)
class PointCurve(PrivacyCurve):
    """The curve of a mechanism about which only one (ε, δ) is known.

    It is the curve of the least private (ε, δ)-private mechanism. That mechanism reveals everything
    with probability δ. Otherwise it is binary randomized response with parameter ε.
    """

    known_epsilon: float
    known_delta: float

    def _delta(self, epsilon: float) -> float:
        return float(self._deltas(np.array([epsilon]))[0])

    def _deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        known = self.known_epsilon
        # `response` is (e^known − e^ε)/(1 + e^known). For ε below −known, 1 − e^ε is larger.
        response = -np.expm1(np.minimum(epsilons - known, 0.0)) / (1 + math.exp(-known))
        spread = np.maximum(response, -np.expm1(np.minimum(epsilons, 0.0)))
        total: NDArray[np.float64] = self.known_delta + (1 - self.known_delta) * spread
        return np.minimum(total * (1 + 16 * ROUNDING), 1.0)

    @property
    def bends(self) -> NDArray[np.float64]:
        return np.array([-self.known_epsilon, self.known_epsilon])


@dataclass(frozen=True, eq=False)
class SymmetricCurve(PrivacyCurve):
    """The curve of a set of pairs that contains both directions of each pair.

    For ε ≥ 0, `delta_at` returns δ. For negative arguments, δ follows from the identity
    HS_{−ε}(P‖Q) = 1 − e^−ε + e^−ε·HS_ε(Q‖P). δ is convex in e^ε, so straight lines between the
    `bends` lie above it. δ is 0 for ε ≥ `pure_epsilon`. If the losses are equally spaced, `steps`
    can be their number minus 1. If `steps` is below `BENDS`, the bends divide the interval from
    −pure_epsilon to pure_epsilon into `steps` equal steps. Otherwise the bends only cover the ε at
    which δ is not negligible. `one_pair` says that a single pair has this curve in both directions.
    Then the curve is `attained` (see `PrivacyCurve`). Searches use `quick_at`, a lower bound on δ
    that is much faster to compute.
    """

    delta_at: Callable[[float], float]
    pure_epsilon: float
    steps: int = BENDS
    one_pair: bool = False
    quick_at: Callable[[float], float] | None = None

    @property
    def attained(self) -> bool:
        return self.one_pair

    @property
    def quick(self) -> "SymmetricCurve":
        """A curve for searches, which may lie below this curve."""
        return self if self.quick_at is None else replace(self, delta_at=self.quick_at)

    def _delta(self, epsilon: float) -> float:
        return self._mirrored(epsilon, self._known(abs(epsilon)))

    def _deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        sizes, at = np.unique(np.abs(epsilons), return_inverse=True)
        known = [self._known(float(size)) for size in sizes]  # computed once for both signs
        return np.array(
            [self._mirrored(float(epsilons[i]), known[j]) for i, j in enumerate(at)], dtype=float
        )

    def _known(self, epsilon: float) -> float:
        return 0.0 if epsilon >= self.pure_epsilon else min(1.0, self.delta_at(epsilon))

    @staticmethod
    def _mirrored(epsilon: float, known: float) -> float:
        """δ at ε, computed from δ at |ε|."""
        if epsilon >= 0:
            return known
        return min(1.0, (math.exp(epsilon) * known - math.expm1(epsilon)) * (1 + 8 * ROUNDING))

    @cached_property
    def bends(self) -> NDArray[np.float64]:
        most = self.pure_epsilon
        # If δ is below `_LEAST_DELTA` everywhere, no search is needed.
        if self.steps >= BENDS and self._delta(0.0) >= _LEAST_DELTA:
            while self._delta(most / 2) < _LEAST_DELTA:
                most /= 2
        return np.linspace(-most, most, min(self.steps, BENDS) + 1)

    @property
    def last(self) -> float:
        return self.pure_epsilon
