"""The smallest violations that an audit finds with a probability of at least `POWER`.

A violation is a leak or a randomized response (see below). A side consists of all runs on one of
the two datasets. Only the last round is considered, because earlier rounds can only find more. The
last round has n runs on each side. Its events are learned from m runs on each side in the previous
round. An audit may miss a violation with a probability of 1 − POWER. This probability is divided
among the binomial counts below: each count may be too small with a probability of at most its
share. The counts of the two sides need not be independent.

Leak        An output has a chance of x on one side and of 0 on the other. If the output occurs
            k ≥ 2 times in the m runs, it is one of the `Leaks`. All leaks together occur at most 2m
            times, so this output gets at least a share k/(2m) of the error probability of the
            leaks. Each leak is counted by itself, so the other outputs of the mechanism do not
            matter. Half of 1 − POWER is for the case that the output occurs fewer than k times in
            the m runs. The other half is for the case that the output occurs too rarely in the n
            runs to refute the claim.
Response    There are two answers, one for each side. Each side gives its own answer with a chance
            of 1 − q, where q = (1 − δ)/(1 + e^ε), and the other answer with a chance of q. An event
            consists of a single answer or of both answers. An event of both answers always occurs
            on both sides, so it shows nothing. The first half of the m runs decides which side
            gives an answer more often. This decision is correct if it names the answer's own side.
            The other half of the m runs decides between the single answer and both answers
            together: the event with the larger expected ε is chosen. Then the event is counted in
            the n runs. Most of 1 − POWER is for this last count, since the two decisions are hardly
            ever wrong.
"""

import math
from functools import lru_cache

import numpy as np

from headcount.auditor.bounds import lower_epsilon
from headcount.auditor.events import expected_epsilon

POWER = 0.9
_LEFT_OUT = 1 - POWER
_MOST_EPSILON = 50.0
_STEPS = 40  # the number of steps of each bisection


@lru_cache(maxsize=256)
def smallest_leak(claim: float, delta: float, learned: int, runs: int, wrong: float) -> float:
    """The smallest chance of a leak that an audit finds, or `inf` if it finds no leak.

    Leaks are learned from `learned` runs and counted in `runs` runs on each side. `wrong` is the
    error probability of all leaks together.
    """

    def is_found(chance: float) -> bool:
        seen = _at_least(learned, chance, _LEFT_OUT / 2)
        counted = _at_least(runs, chance, _LEFT_OUT / 2)
        share = wrong * seen / (2 * learned)
        return seen >= 2 and lower_epsilon(counted, 0, runs, delta, share) > claim

    if not is_found(1.0):
        return math.inf
    low, high = 1e-12, 1.0
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_found(middle) else (middle, high)
    return high


@lru_cache(maxsize=256)
def smallest_response(claim: float, delta: float, learned: int, runs: int, wrong: float) -> float:
    """The smallest ε of a randomized response that an audit finds, or `inf` if it finds none.

    The event is learned from `learned` runs and counted in `runs` runs on each side. `wrong` is the
    error probability of the lower bound on ε.
    """
    half, rest = learned // 2, learned - learned // 2

    def is_found(epsilon: float) -> bool:
        truth = 1 - (1 - delta) / (1 + math.exp(epsilon))

        def counts(tries: int, left_out: float) -> tuple[int, int]:
            """A lower bound on the count of an answer on its own side, and an upper bound on its
            count on the other side. Each bound fails with a probability of at most left_out/2.
            """
            least = _at_least(tries, truth, left_out / 2)
            return least, tries - least

        ours, theirs = counts(half, _LEFT_OUT / 100)
        once, beside = counts(rest, _LEFT_OUT / 100)
        one, both = expected_epsilon(np.array([once, rest]), np.array([beside, rest]), rest, delta)
        hits, others = counts(runs, _LEFT_OUT * 98 / 100)
        chosen = ours > theirs and one > both
        return bool(chosen) and lower_epsilon(hits, others, runs, delta, wrong) > claim

    if not is_found(_MOST_EPSILON):
        return math.inf
    low, high = claim, _MOST_EPSILON
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_found(middle) else (middle, high)
    return high


def _at_least(tries: int, chance: float, left_out: float) -> int:
    """The largest number of hits that is reached with a probability of at least 1 − `left_out`."""
    from scipy.special import bdtr  # loaded here, since it is slow to load

    if chance >= 1:
        return tries
    low, high = 0, tries + 1  # P(fewer than `low` hits) ≤ left_out
    while high - low > 1:
        middle = (low + high) // 2
        small = float(bdtr(middle - 1, tries, chance)) <= left_out
        low, high = (middle, high) if small else (low, middle)
    return low
