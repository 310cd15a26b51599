"""Intervals for a count between bounds, from an estimate near normal (Feldman, Cousins 1998).

Notation    c ∈ [0, n] the count, ĉ its estimate, normal with mean c and spread σ(c); μ the distance
            of c from the nearer bound and x that of ĉ, in units of σ(c).
Interval    All c for which ĉ is among the likeliest 1 − α of estimates, compared with how likely
            its best c would make it. Far from both bounds that is |ĉ − c| ≤ z·σ(c). Near one, for
            μ < z, it is −(μ² + b²)/2μ ≤ x − μ ≤ b with Φ(b) − Φ(−(μ² + b²)/2μ) = 1 − α: an estimate
            beyond the bound tells no more than one at it, and b falls to the one-sided quantile.
            So c is covered with probability 1 − α everywhere, at the bounds too, where a two-sided
            interval that is cut to the possible counts would do so with 1 − α/2.
"""

from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from scipy import special

Numbers = NDArray[np.float64]
_STEPS = 512  # of the table of b
_HALVINGS = 24
_CERTAIN = 1e-9  # a spread so small is none: so are counts that a huge epsilon gives away


def count_interval(
    estimate: Numbers, most: float, spread: Callable[[Numbers], Numbers], confidence: float
) -> tuple[Numbers, Numbers]:
    """The least and the largest c in [0, most], for each estimate.

    `spread` is σ, largest at one of the bounds.
    """
    best = np.clip(estimate, 0.0, most)
    reach = _quantile(confidence) * np.max(spread(np.array([0.0, most])))
    ends = []
    for sign in (-1, 1):
        inside, outside = best, np.clip(best + sign * reach, 0.0, most)
        # The bound itself may be inside.
        far = _too_far(sign, estimate, outside, most, spread, confidence)
        inside = np.where(far, inside, outside)
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            far = _too_far(sign, estimate, middle, most, spread, confidence)
            inside, outside = np.where(far, inside, middle), np.where(far, middle, outside)
        ends.append(inside)
    return ends[0], ends[1]


def _too_far(
    sign: int,
    estimate: Numbers,
    count: Numbers,
    most: float,
    spread: Callable[[Numbers], Numbers],
    confidence: float,
) -> NDArray[np.bool_]:
    """Whether a count on one side of the estimate is too far from it to be believed."""
    sigma = np.maximum(spread(count), _CERTAIN)
    distance = np.minimum(count, most - count) / sigma
    inner = np.interp(distance, *_table(confidence))
    with np.errstate(divide="ignore"):
        outer = np.where(distance < inner, (distance**2 + inner**2) / (2 * distance), inner)
    # The estimate may lie `inner` away from the nearer bound, and `outer` towards it.
    towards = (sign > 0) == (2 * count <= most)
    too_far: NDArray[np.bool_] = sign * (count - estimate) / sigma > np.where(towards, outer, inner)
    return too_far


def _quantile(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)


@lru_cache(maxsize=64)
def _table(confidence: float) -> tuple[Numbers, Numbers]:
    """The number b for distances from 0 to z."""
    z = _quantile(confidence)
    distance = np.linspace(0.0, z, _STEPS + 1)
    low, high = np.zeros(_STEPS + 1), np.full(_STEPS + 1, z)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            outer = (distance**2 + middle**2) / (2 * distance)
        outer[0] = np.inf
        enough = special.ndtr(middle) - special.ndtr(-outer) >= confidence
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return distance, high
