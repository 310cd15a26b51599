"""Comparisons of two crowds. Privacy noise is the only source of error.

Notation    A and B are the quantities of two crowds, such as shares, and Â and B̂ their estimates.
            X = Â − A and Y = B̂ − B are independent errors whose laws are known. 1 − α is the
            confidence.
Difference  Â − B̂ has the error X − Y. The margin is the least c with P(|X − Y| > c) ≤ α.
Test        If A = B, the difference is at least as large as the observed d with probability
            P(|X − Y| ≥ |d|), which includes ties. This probability is the exact p-value.
Ratio       If A = ρB, then Â − ρB̂ = X − ρY. The interval has all ρ that the test of A = ρB does not
            reject (Fieller 1954), with the exact law in place of a normal law. The ends are found
            as angles atan ρ. The angle π/2 stands for an infinite end.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from headcount.core.lattice import LatticeLaw

TIE = 1e-7  # numbers that differ by less than this part of a step count as equal
_CLOSE = 1e-11  # the relative error of a margin
_ANGLES = 256  # the number of angles that are tried
_FINER = 64  # the number of finer steps between two neighboring angles
_HALVINGS = 20  # after this many halvings, the ends of an interval are exact to 1e-10


@dataclass(frozen=True, eq=False)
class TwoErrors:
    """The laws of the independent errors X and Y."""

    first: LatticeLaw
    second: LatticeLaw

    def reached(self, distance: float, weights: tuple[float, float] = (1.0, 1.0)) -> float:
        """P(|u·X − v·Y| ≥ distance) for the weights u and v ≥ 0, rounded up."""
        u, v = weights[0], max(weights[1], 1e-200)
        one, other = self.first, self.second
        near = distance - TIE * (u * one.step + v * other.step)
        near -= u * one.blur + v * other.blur
        if near <= 0:
            return 1.0
        x = u * one.values
        tails = other.at_most((x - near) / v) + other.at_least((x + near) / v)
        return min(1.0, float(one.mass @ tails) + one.missing + other.missing)

    def same_ratio(self, angle: float, first: float, second: float) -> float:
        """The p-value of A = ρB for ρ = tan(angle), if the estimates are `first` and `second`."""
        u, v = math.cos(angle), math.sin(angle)
        return self.reached(abs(u * first - v * second), (u, v))


@lru_cache(maxsize=8)  # buckets often share their laws
def margin(errors: TwoErrors, wrong: float) -> float:
    """The least c with P(|X − Y| > c) ≤ `wrong`, up to rounding errors. It is infinite if `wrong`
    is below the precision of the laws.
    """
    if errors.first.missing + errors.second.missing >= wrong:
        return math.inf
    low, high = 0.0, errors.first.step + errors.second.step
    while errors.reached(high) > wrong:
        low, high = high, 2 * high
    while high - low > _CLOSE * high:
        middle = (low + high) / 2
        low, high = (middle, high) if errors.reached(middle) > wrong else (low, middle)
    # A distance that equals the margin counts as reached, so the search ends just above the margin.
    return high - 0.99 * TIE * (errors.first.step + errors.second.step)


def square_and_add(
    first: tuple[float, float, float],
    second: tuple[float, float, float],
    weights: tuple[float, float] = (1.0, 1.0),
    limits: tuple[float, float] = (-math.inf, math.inf),
) -> tuple[float, float]:
    """An interval for u·A − v·B with weights u and v, from (low, estimate, high) of A and of B.

    The squared distances from the estimates to the ends are added (Newcombe 1998; Zou and Donner
    2008). This assumes that both errors are rarely this large at once. If an end is one of
    `limits`, which bound A and B, the true quantity may often be near this end. Then the distances
    themselves are added.
    """
    low, value, high = (weights[0] * number for number in first)
    least, other, most = (weights[1] * number for number in second)
    middle = value - other

    def together(one: float, two: float, *, certain: bool) -> float:
        return one + two if certain else math.hypot(one, two)

    lowest = first[0] <= limits[0], second[0] <= limits[0]
    highest = first[2] >= limits[1], second[2] >= limits[1]
    return (
        middle - together(value - low, most - other, certain=lowest[0] or highest[1]),
        middle + together(high - value, other - least, certain=highest[0] or lowest[1]),
    )


def ratios(possible: Callable[[float], bool], likely: float) -> tuple[float, float]:
    """The least and the largest ratio whose angle is possible.

    `likely` is the angle of the estimates. Angles are tried from both ends, 0 and π/2, up to the
    first possible angle. If no angle is possible, both results are the ratio of `likely`, after
    `likely` is clamped to [0, π/2].
    """
    end = math.pi / 2
    likely = min(max(likely, 0.0), end)
    angles = np.union1d(np.linspace(0.0, end, _ANGLES), [likely]).tolist()
    low = _first(possible, angles)
    high = _first(possible, angles[::-1])
    if low is None or high is None:
        low = high = likely
    return _ratio(low), _ratio(high)


def _first(possible: Callable[[float], bool], angles: Sequence[float]) -> float | None:
    """The first possible angle, or an angle just before it. None if no angle is possible."""
    at = next((at for at, angle in enumerate(angles) if possible(angle)), None)
    if not at:
        return None if at is None else angles[0]
    # Laws have steps. So a possible angle may lie between two angles that are not possible.
    finer: list[float] = np.linspace(angles[at - 1], angles[at], _FINER + 1).tolist()
    at = next((at for at in range(1, _FINER) if possible(finer[at])), _FINER)
    outside, inside = finer[at - 1], finer[at]
    for _ in range(_HALVINGS):
        middle = (outside + inside) / 2
        outside, inside = (outside, middle) if possible(middle) else (middle, inside)
    return outside


def _ratio(angle: float) -> float:
    return math.inf if angle >= math.pi / 2 else math.tan(angle)
