"""The privacy curve of views that consist of independent observations, computed by `losses`."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.laws import ROUNDING
from headcount.accounting.losses import (
    STEEPEST,
    LossLaw,
    Products,
    View,
    grid_for,
    products_for,
)
from headcount.core.cached import cached_property
from headcount.core.guarantee import PrivacyCurve

COARSE = 2e-3  # the relative error of δ that a grid may cause during a search
_LEAST_DELTA = 1e-18  # a curve has no further points below this δ
_LAST_EPSILON = 700.0  # δ hardly falls beyond this ε
_AT_ONCE = 30  # the number of points of a curve that one grid computes


class Accounts(Protocol):
    """The views of all neighboring pairs in both directions, and their privacy losses.

    A `View` stands for one ordered pair of neighbors (see `losses`).
    """

    @property
    def views(self) -> Sequence[View]: ...

    @property
    def usual(self) -> Sequence[View]:
        """The views that usually have the largest δ."""

    def law(self, name: Hashable, step: float, negligible: float) -> LossLaw:
        """The law of the losses of the observation with this name."""

    def delta(self, epsilon: float) -> float:
        """The largest δ of all views, at ε ≥ 0."""


@dataclass(frozen=True, eq=False)
class ProductCurve(PrivacyCurve):
    """The privacy curve of views that consist of independent observations.

    `delta` computes δ at one ε. `deltas` interpolates between points where δ is known. δ is convex
    in e^ε, so straight lines between these points lie above it. Beyond the last point, δ falls no
    further or is negligible.
    """

    accounts: Accounts = field(repr=False)

    @property
    def attained(self) -> bool:
        """Whether a single view stands for all pairs in both directions."""
        return len(self.accounts.views) == 1

    def _delta(self, epsilon: float) -> float:
        known = self.accounts.delta(min(abs(epsilon), _LAST_EPSILON))
        if epsilon >= 0:
            return known
        # δ(−ε) = 1 − e^−ε + e^−ε·δ(ε), because every pair is considered in both directions.
        return min(1.0, (math.exp(epsilon) * known - math.expm1(epsilon)) * (1 + 8 * ROUNDING))

    def _deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        points, known = self._points
        # For ε < 0, the formula in `_delta` gives δ(ε) from δ(−ε).
        sizes = np.minimum(np.abs(epsilons), points[-1])
        lines = np.interp(np.exp(sizes), np.exp(points), known) * (1 + 1e-12)
        factors = np.exp(np.minimum(epsilons, 0.0))
        mirrored: NDArray[np.float64] = (1 - factors + factors * lines) * (1 + 8 * ROUNDING)
        return np.minimum(mirrored, 1.0)

    def _epsilon(self, delta: float) -> float:
        """An ε for this δ. It usually exceeds the smallest such ε by at most one part in 10,000. A
        closer search would be slow.
        """
        points, known = self._points
        if known[0] <= delta:
            return 0.0
        if known[-1] > delta or not delta:
            return math.inf
        end = int(np.argmax(known <= delta))
        (low, above), (high, below) = ((points[i], known[i]) for i in (end - 1, end))
        # `sure` is where the line between the two points reaches `delta`. `near` is where the curve
        # would reach `delta` if ln δ were linear in ε.
        line = math.exp(low) + (above - delta) / (above - below) * (math.exp(high) - math.exp(low))
        sure = min(math.log(line) * (1 + 1e-12) + 1e-15, float(high))
        share = math.log(above / delta) / math.log(above / below)
        for near in (float(low + share * (high - low)) * (1 + step) for step in (1e-5, 1e-4)):
            if near < sure and self._delta(near) <= delta:
                return near
        return sure

    @cached_property
    def bends(self) -> NDArray[np.float64]:
        points = self._points[0]
        return np.concatenate([-points[:0:-1], points])

    @cached_property
    def _points(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Values of ε, beginning at 0, and δ at each of them. ln δ falls by about 0.3 from each
        value to the next.
        """
        accounts = self.accounts
        points, known = [0.0], [accounts.delta(0.0)]
        while known[-1] > _LEAST_DELTA and points[-1] < _LAST_EPSILON:
            start = points[-1]
            _, delta, slope = products_for(
                accounts.usual, accounts.law, start, scale=known[-1], accuracy=COARSE
            )
            slope = min(slope, STEEPEST)
            for _ in range(8):
                ahead = start + np.arange(_AT_ONCE + 1) * (0.3 / slope)
                grid = grid_for(
                    accounts.usual,
                    accounts.law,
                    start,
                    scale=delta * math.exp(-0.35 * _AT_ONCE),
                    slope=1.3 * slope,
                    reach=float(ahead[-1]) - start,
                    accuracy=COARSE,
                )
                deltas = Products(grid, accounts.law).deltas(accounts.views, list(ahead))
                falls = -np.diff(np.log(deltas))
                # Only the first `fine` steps are kept. After them, δ falls faster than expected, so
                # the points must be closer together.
                fine = int(np.argmax(np.append(falls, np.inf) > 0.6))
                if fine or slope >= STEEPEST:
                    break
                slope = min(2 * slope, STEEPEST)
            fine = max(fine, 1)
            known[-1] = min(known[-1], float(deltas[0]))
            points += [float(point) for point in ahead[1 : fine + 1]]
            known += [float(delta) for delta in deltas[1 : fine + 1]]
            if fine == _AT_ONCE and float(falls.sum()) < 1e-3:
                break  # the rest of δ comes from infinite losses
        return np.array(points), np.minimum.accumulate(known)


def delta_near(accounts: Accounts, epsilon: float, scale: float) -> float:
    """An upper bound on the largest δ of all views, which is accurate to about 0.2 % if δ is near
    `scale`.

    It is faster to compute than `Accounts.delta`.
    """
    slope = 10.0
    for _ in range(8):
        grid = grid_for(
            accounts.views, accounts.law, epsilon, scale=scale / 8, slope=slope, accuracy=COARSE
        )
        beside = epsilon + 0.3 / slope
        found = Products(grid, accounts.law).deltas(accounts.views, [epsilon, beside])
        delta, less = (float(value) for value in found)
        steep = math.log(delta / less) / (beside - epsilon) if less else 0.0
        if steep < 1.3 * slope or delta < scale / 16 or slope >= STEEPEST:
            break
        slope = min(1.2 * steep, STEEPEST)
    return delta
