"""A search for the smallest amount of noise that makes δ small enough."""

import math
from collections.abc import Callable

from headcount.accounting.laws import LEAST_FLOAT


def least_private(
    delta_at: Callable[[int], float], delta: float, *, start: int, stop: int, steps: int = 10
) -> int | None:
    """An integer amount of noise in [start, stop] with delta_at(noise) ≤ delta.

    If δ always falls as the noise grows, the result is the smallest such amount. δ usually falls as
    the noise grows, but it is not monotone, and it may rise again at the end of the range. So the
    search first walks up from `start`. Each step adds a fraction 1/steps of the noise, and not less
    than 1. When δ is small enough, the search bisects the last step. The search has evaluated
    `delta_at` at the result, so the bound on δ holds in any case. The result is None if δ is never
    small enough on the walk.
    """
    insufficient, noise = start - 1, start
    while delta_at(noise) > delta:
        if noise >= stop:
            return None
        insufficient, noise = noise, min(stop, noise + max(1, noise // steps))
    private = noise
    while private - insufficient > 1:
        middle = (insufficient + private) // 2
        if delta_at(middle) <= delta:
            private = middle
        else:
            insufficient = middle
    return private


def near_least_private(
    delta_at: Callable[[int], float], delta: float, *, start: int, stop: int, close: float = 1e-3
) -> int | None:
    """An integer amount of noise in [start, stop] with delta·(1 − close) ≤ delta_at(noise) ≤ delta.

    Call an amount of noise private if delta_at(noise) ≤ delta. δ must fall smoothly with more
    noise. Few evaluations of δ are needed, because ln δ is nearly linear in the noise. If `start`
    is private, the result is `start`. If no private amount meets the lower bound, the result is the
    smallest private amount. The search has evaluated `delta_at` at the result, so the result is
    private even if δ does not fall smoothly. The result is None if `stop` is not private.
    """

    def log_at(noise: int) -> float:
        return math.log(max(delta_at(noise), LEAST_FLOAT))

    goal = math.log(delta * (1 - close / 2))
    low, high, step = start, start, max(1, start // 16)
    at_low = at_high = log_at(start)
    while at_high > math.log(delta):
        if high >= stop:
            return None
        # A straight line through the last two points reaches the goal at some amount of noise. The
        # next point is a little beyond this amount.
        slope = (at_high - at_low) / (high - low) if at_high < at_low else 0.0
        ahead = math.ceil((goal - at_high) / slope) + 1 if slope else step
        low, at_low = high, at_high
        high = min(stop, high + min(max(1, ahead), max(step, 4 * (high - start))))
        at_high = log_at(high)
    while high - low > 1 and at_high < goal + math.log1p(-close / 2):
        share = min(max((goal - at_low) / (at_high - at_low), 0.05), 0.95)
        middle = min(max(low + round(share * (high - low)), low + 1), high - 1)
        at_middle = log_at(middle)
        if at_middle <= math.log(delta):
            high, at_high = middle, at_middle
        else:
            low, at_low = middle, at_middle
    return high
