"""Lower bounds with their constants, as variances of a count (or of a sum of numbers in [0, 1]).

Two facts carry them. First, an (ε, δ)-private answer to "is it x or x'?" tells at most what the
following does: with probability δ the truth, else randomized response with ε (Kairouz, Oh,
Viswanath 2015). In squares, that is worth κ = δ + (1−δ)·tanh²(ε/2) of the truth. Second, whoever
replaces t people's values has (tε, δₜ) with δₜ = δ(e^{tε}−1)/(e^ε−1).
"""

import math

import numpy as np
from numpy.typing import NDArray

_STEPS = 400  # numbers of people that are tried; every one gives a bound, the best is taken
_FAR = 600.0  # tε at which e^{tε}/ε is still a float; no bound is left there


def _groups(epsilon: float, delta: float, people: int) -> tuple[NDArray[np.float64], ...]:
    """Numbers t of people, and for replacing them all κₜ and 1 − κₜ (without cancellation)."""
    most = max(1.0, min(people, math.floor(_FAR / epsilon)))
    groups = np.unique(np.round(np.geomspace(1, most, _STEPS)))
    deltas = np.minimum(1.0, delta * np.expm1(groups * epsilon) / math.expm1(epsilon))
    far = np.exp(-groups * epsilon)
    told = deltas + (1 - deltas) * np.tanh(groups * epsilon / 2) ** 2
    return groups, told, (1 - deltas) * 4 * far / (1 + far) ** 2


def unbiased(epsilon: float, delta: float, people: int) -> float:
    """Of unbiased answers about `people` whose values may be replaced: max (t²/4)(1/κₜ − 1).

    For laws P, Q of an answer T with means 0 and t, the mean of both variances is at least
    t²/(2D) − t²/4 with D = Σ (P−Q)²/(P+Q) by Cauchy and Schwarz, and D ≤ 2κₜ.
    """
    groups, told, lost = _groups(epsilon, delta, people)
    return float((groups**2 / 4 * lost / told).max())


def any_answer(epsilon: float, delta: float, people: int) -> float:
    """Of any answers, biased ones too: max (t²/4)(1 − κₜ).

    That is the Bayes risk of telling 0 from t, both equally likely: (t²/2)·Σ PQ/(P+Q).
    """
    groups, _, lost = _groups(epsilon, delta, people)
    return float((groups**2 / 4 * lost).max())


def any_local_answer(epsilon: float, delta: float, people: int) -> float:
    """Of any count from messages that are private one by one, biased or not.

    People say yes with a random probability (1+u)/2, u with density cos²(πu/2w)/w on [−w, w]. The
    count, given messages and u, keeps a variance of at least n(1−κ)(1−E[u²])/4; and what messages
    tell about u is bounded by van Trees' inequality, which adds n²(1−κ)²/(nI + J): I is the Fisher
    information of a message about (1+u)/2, J = 4π²/w² that of the prior. Every w gives a bound.
    """
    width = np.linspace(0.002, 0.998, 499)
    far = math.exp(-epsilon)
    told = (math.expm1(-epsilon) / (1 + far)) ** 2  # tanh²(ε/2)
    lost = (1 - delta) * 4 * far / (1 + far) ** 2  # 1 − κ
    spread = width**2 * (1 / 3 - 2 / math.pi**2)  # E[u²]
    message = 4 * (delta / (1 - width**2) + (1 - delta) * told / (1 - told * width**2))
    prior = 4 * math.pi**2 / width**2
    variance = people * lost * (1 - spread) / 4 + (people * lost) ** 2 / (people * message + prior)
    return float(variance.max())


def all_buckets(epsilon: float, buckets: int) -> float:
    """Of the unbiased counts of all buckets from one pure ε-private message, on average.

    With everybody's bucket uniform, the variances of d buckets add up to Σ 1/λ − 1 over the
    eigenvalues of K = Q·diag(1/m)·Qᵀ, Q the law of the message by bucket and m its mean. One
    eigenvalue is d; the others add up to tr K − d, and sum and number bound Σ 1/λ. The trace is
    largest where a message is e^ε times likelier for w buckets than for the others:
    tr K − d ≤ d·w(d−w)(1−b)²/(w+(d−w)b)² with b = e^−ε, which rises up to w = db/(1+b).
    """
    far, near = math.exp(-epsilon), -math.expm1(-epsilon)
    turn = math.floor(buckets * far / (1 + far))

    def gain(size: int) -> float:
        return size * (buckets - size) / (size + (buckets - size) * far) ** 2

    size = max((min(max(1, size), buckets - 1) for size in (turn, turn + 1)), key=gain)
    if size == 1:  # the general form would cancel where b is small
        return (buckets - 1) / buckets * far * (2 + (buckets - 2) * far) / near**2
    return ((buckets - 1) ** 2 / (gain(size) * near**2) - (buckets - 1)) / buckets**2


def added_real(epsilon: float) -> float:
    """Of real noise that hides a change by up to 1: the staircase (Geng, Viswanath)."""
    far = math.exp(-epsilon)
    return (math.pow(far * (1 + far) / 2, 2 / 3) + far) / math.expm1(-epsilon) ** 2


def added_whole(epsilon: float, span: int) -> float:
    """Of whole-number noise that hides a change by up to `span`, relative to span².

    The discrete staircase: P(z) = a·b^⌊|z|/span⌋, times b where |z| mod span ≥ r. For span 1 that
    is the two-sided geometric law, 2b/(1−b)². In r the variance is a convex function over a linear
    one, so that it falls and then rises.
    """
    far, near = math.exp(-epsilon), -math.expm1(-epsilon)

    def moment(upto: int) -> float:
        """Σ over j < upto and k of b^k(k·span + j)², over span²."""
        once, twice = upto * (upto - 1) / 2, (upto - 1) * upto * (2 * upto - 1) / 6
        steps = upto * (far * (1 + far) / near**3)
        return steps + 2 * once / span * (far / near**2) + twice / span / span / near

    def variance(width: int) -> float:
        square = near * moment(width) + far * moment(span)
        return 2 * near * square / (2 * (width + far * (span - width)) - near)

    low, high = 1, span
    while high - low > 2:
        third = (high - low) // 3
        left, right = low + third, high - third
        low, high = (low, right) if variance(left) <= variance(right) else (left, high)
    return min(variance(width) for width in range(low, high + 1))
