"""How small a violation an audit surely finds: with a probability of `POWER` at least.

Two kinds of violations are looked at. Both are computed for the last round, which has n runs of a
side and learned from the outputs of m runs; earlier rounds can only find more. "Surely" leaves out
a probability of 1 − POWER. Each binomial count below has a share of it, with which the count may
fall short. The counts of the two sides need not be independent.

Leak        An output has chance x on one side, 0 on the other. If it was seen k ≥ 2 times while
            learning, it is one of the `Leaks`, with a share of at least k/2m in what may go wrong
            with them: all of them were seen 2m times at most. It is then counted by itself, so that
            nothing else that the mechanism gives matters. Half of what is left out is for its being
            seen less than k times, half for its being counted too seldom to refute the claim.
Response    Two answers; each side gives one of them with chance 1 − q, and q = (1 − δ)/(1 + e^ε).
            The events that can be chosen are one answer, or both together, which show nothing. In
            the first half of the m runs it is learned which side gives an answer more often. That
            is right if the side with 1 − q did so. The answer is chosen before both together if its
            promise is larger in the other half. Then it is counted. Most of what is left out is for
            this last count: what is learned is hardly ever wrong.
"""

import math
from functools import lru_cache

import numpy as np

from headcount.auditor.bounds import lower_epsilon
from headcount.auditor.events import promise

POWER = 0.9
_LEFT_OUT = 1 - POWER
_MOST_EPSILON = 50.0
_STEPS = 40  # of a search


@lru_cache(maxsize=256)
def smallest_leak(claim: float, delta: float, learned: int, runs: int, wrong: float) -> float:
    """The least chance of a leak that is surely found; `inf` if none is."""

    def found(chance: float) -> bool:
        seen = _at_least(learned, chance, _LEFT_OUT / 2)
        counted = _at_least(runs, chance, _LEFT_OUT / 2)
        share = wrong * seen / (2 * learned)
        return seen >= 2 and lower_epsilon(counted, 0, runs, delta, share) > claim

    if not found(1.0):
        return math.inf
    low, high = 1e-12, 1.0
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if found(middle) else (middle, high)
    return high


@lru_cache(maxsize=256)
def smallest_response(claim: float, delta: float, learned: int, runs: int, wrong: float) -> float:
    """The least ε of a randomized response that is surely found; `inf` if none is."""
    half, rest = learned // 2, learned - learned // 2

    def found(epsilon: float) -> bool:
        truth = 1 - (1 - delta) / (1 + math.exp(epsilon))

        def counts(tries: int, left_out: float) -> tuple[int, int]:
            """How often an answer comes at least on its own side, and at most on the other."""
            least = _at_least(tries, truth, left_out / 2)
            return least, tries - least

        ours, theirs = counts(half, _LEFT_OUT / 100)
        once, beside = counts(rest, _LEFT_OUT / 100)
        one, both = promise(np.array([once, rest]), np.array([beside, rest]), rest, delta)
        hits, others = counts(runs, _LEFT_OUT * 98 / 100)
        chosen = ours > theirs and one > both
        return bool(chosen) and lower_epsilon(hits, others, runs, delta, wrong) > claim

    if not found(_MOST_EPSILON):
        return math.inf
    low, high = claim, _MOST_EPSILON
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if found(middle) else (middle, high)
    return high


def _at_least(tries: int, chance: float, left_out: float) -> int:
    """The least number of hits in so many tries, but for a probability of `left_out`."""
    from scipy.special import bdtr  # loads when it is used

    if chance >= 1:
        return tries
    low, high = 0, tries + 1  # P(less than low) ≤ left_out
    while high - low > 1:
        middle = (low + high) // 2
        small = float(bdtr(middle - 1, tries, chance)) <= left_out
        low, high = (middle, high) if small else (low, middle)
    return low
