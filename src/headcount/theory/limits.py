"""Lower bounds with their constants, as variances of a count or of a sum of numbers in [0, 1].

The functions `unbiased`, `any_answer` and `any_local_answer` rest on two facts. First, one
mechanism reveals at least as much as any (ε, δ)-private answer to the question "x or x'?". This
mechanism tells the truth with probability δ, and otherwise uses randomized response with ε
(Kairouz, Oh, Viswanath 2015). If x and x' are equally likely, its answer explains the share
κ = δ + (1−δ)·tanh²(ε/2) of the variance of the truth. Second, if the values of t people are
replaced, the answer is (tε, δₜ)-private with δₜ = δ(e^{tε}−1)/(e^ε−1). κₜ is κ with tε and δₜ in
place of ε and δ.
"""

import math

import numpy as np
from numpy.typing import NDArray

_STEPS = 400  # the number of values of t that are tried; the best bound is used
_FAR = 600.0  # the largest tε that is tried; beyond it, e^{tε} may overflow and bounds are near 0


def _groups(epsilon: float, delta: float, people: int) -> tuple[NDArray[np.float64], ...]:
    """The numbers t of people that are tried, and κₜ and 1 − κₜ for each t. Both are computed
    without cancellation.
    """
    most = max(1.0, min(people, math.floor(_FAR / epsilon)))
    groups = np.unique(np.round(np.geomspace(1, most, _STEPS)))
    deltas = np.minimum(1.0, delta * np.expm1(groups * epsilon) / math.expm1(epsilon))
    far = np.exp(-groups * epsilon)
    told = deltas + (1 - deltas) * np.tanh(groups * epsilon / 2) ** 2
    return groups, told, (1 - deltas) * 4 * far / (1 + far) ** 2


def unbiased(epsilon: float, delta: float, people: int) -> float:
    """A lower bound on the variance of unbiased answers about `people` people.

    It is the largest value of (t²/4)(1/κₜ − 1) for t ≤ people. Let P and Q be laws of an answer
    with means 0 and t. By the Cauchy-Schwarz inequality, the mean of their variances is at least
    t²/(2D) − t²/4 with D = Σ (P−Q)²/(P+Q), and D ≤ 2κₜ.
    """
    groups, told, lost = _groups(epsilon, delta, people)
    return float((groups**2 / 4 * lost / told).max())


def any_answer(epsilon: float, delta: float, people: int) -> float:
    """A lower bound on the mean squared error of all answers about `people` people.

    The bound also holds for biased answers. It is the largest value of (t²/4)(1 − κₜ) for
    t ≤ people. For each t, this value is a lower bound on the Bayes risk (t²/2)·Σ PQ/(P+Q) of a
    count that is 0 or t with equal probability. P and Q are the laws of the answer for these two
    counts.
    """
    groups, _, lost = _groups(epsilon, delta, people)
    return float((groups**2 / 4 * lost).max())


def any_local_answer(epsilon: float, delta: float, people: int) -> float:
    """A lower bound on the mean squared error of any count that is estimated from private messages.

    Each message is (ε, δ)-private. The bound also holds for biased counts. Let each person say yes
    with probability (1+u)/2, where u is random with density cos²(πu/2w)/w on [−w, w]. Given the
    messages and u, the variance of the count is at least n(1−κ)(1−E[u²])/4 on average. By van
    Trees' inequality, the uncertainty about u adds at least n²(1−κ)²/(nI + J). Here I is the Fisher
    information of a message about (1+u)/2, and J = 4π²/w² is the Fisher information of the prior.
    Each w gives a valid bound, and the largest bound is used.
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
    """A lower bound on the variance of unbiased counts from one message, averaged over all buckets.

    The message is ε-private with δ = 0. Let the person's bucket be uniform. Let Q be the law of the
    message given the bucket, m the mean of this law over buckets, and λ the eigenvalues of
    K = Q·diag(1/m)·Qᵀ. The variances of the d buckets add up to Σ 1/λ − 1. One eigenvalue is d, and
    the other d−1 eigenvalues add up to tr K − d. By convexity, this sum gives a lower bound on
    Σ 1/λ. The trace is largest if each message is e^ε times as likely for w buckets as for the
    other buckets. So tr K − d ≤ d·w(d−w)(1−b)²/(w+(d−w)b)² with b = e^−ε. As w grows, the right
    side rises up to w = db/(1+b), and then falls.
    """
    far, near = math.exp(-epsilon), -math.expm1(-epsilon)
    turn = math.floor(buckets * far / (1 + far))

    def gain(size: int) -> float:
        return size * (buckets - size) / (size + (buckets - size) * far) ** 2

    size = max((min(max(1, size), buckets - 1) for size in (turn, turn + 1)), key=gain)
    if size == 1:  # the general formula would lose precision for a small b
        return (buckets - 1) / buckets * far * (2 + (buckets - 2) * far) / near**2
    return ((buckets - 1) ** 2 / (gain(size) * near**2) - (buckets - 1)) / buckets**2


def added_real(epsilon: float) -> float:
    """The smallest variance of real-valued noise that is ε-private for changes of up to 1.

    The staircase mechanism has this variance (Geng, Viswanath 2014).
    """
    far = math.exp(-epsilon)
    return (math.pow(far * (1 + far) / 2, 2 / 3) + far) / math.expm1(-epsilon) ** 2


def added_whole(epsilon: float, span: int) -> float:
    """The smallest variance of integer noise that is ε-private for changes of up to `span`.

    The result is this variance divided by span². The best law is the discrete staircase. With
    b = e^−ε and a constant a, its P(z) is a·b^⌊|z|/span⌋, multiplied by b once more if
    |z| mod span ≥ r. For span 1, this is the two-sided geometric law with the variance 2b/(1−b)².
    As a function of r, the variance is a convex function divided by a linear function. So the
    variance first falls and then rises, and the search finds the best r.
    """
    far, near = math.exp(-epsilon), -math.expm1(-epsilon)

    def moment(upto: int) -> float:
        """The sum over j < upto and k ≥ 0 of b^k(k·span + j)², divided by span²."""
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
