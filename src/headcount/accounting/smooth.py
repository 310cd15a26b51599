"""Smooth distributions, which papers use to prove that noise is private.

The definition and the lemma for binomial noise are from Ghazi, Golowich, Kumar, Pagh, Velingker
2021 (On the Power of Multiple Anonymous Messages). Balcer, Cheu 2020 use them for the protocol
`shuffle.zero-exact`.

A law D on the integers is (ε, δ, k)-smooth if for every k' with 0 < |k'| ≤ k, the inequality
P(Y)/P(Y + k') < e^{|k'|ε} holds with probability at least 1 − δ over Y ~ D. If one person changes
an integer by at most 1, adding noise from an (ε, δ, 1)-smooth law is (ε, δ)-private. A proof by
smoothness is loose in two ways. First, a lemma only bounds the probability P(loss > ε). Second,
this probability is larger than the hockey-stick divergence (see `divergence`), which would be
enough as δ. For binomial noise at ε = 1 and δ = 1e-6, the lemma needs 17 times as much noise as the
exact divergence. The definition of smoothness, without the lemma, needs 1.3 times as much.
"""

import math

import numpy as np

from headcount.accounting.laws import ROUNDING, Law
from headcount.core.errors import InvalidParameter
from headcount.core.table import short


def smoothness_delta(law: Law, epsilon: float, distance: int = 1) -> float:
    """The smallest δ for which the law is (ε, δ, distance)-smooth by definition, rounded up."""
    worst = 0.0
    for step in (*range(-distance, 0), *range(1, distance + 1)):
        # Outside the window, P(Y + step) counts as zero. The ratio is then infinite, which can only
        # increase δ.
        ahead = np.zeros_like(law.mass)
        if abs(step) < len(law.mass):
            if step > 0:
                ahead[:-step] = law.mass[step:]
            else:
                ahead[-step:] = law.mass[:step]
        bound = math.exp(abs(step) * epsilon) * (1 - 2 * law.slack - 8 * ROUNDING)
        mass = float(law.mass[law.mass >= bound * ahead].sum())
        worst = max(worst, mass * (1 + law.slack + len(law.mass) * ROUNDING) + law.tail)
    return min(1.0, worst)


def binomial_lemma(
    trials: int, gamma: float, alpha: float, distance: int = 1
) -> tuple[float, float]:
    """The (ε, δ) with which Bin(trials, γ) is (ε, δ, distance)-smooth, by the lemma of Ghazi et al.

    For γ ≤ ½, α in [0, 1) and distance ≤ αγ·trials/2, the lemma gives ε = ln((1+α)/(1−α)) and
    δ = exp(−α²γ·trials/8) + exp(−α²γ·trials/(8+2α)).
    """
    if not (0 < gamma <= 0.5 and 0 <= alpha < 1):
        raise InvalidParameter(
            f"the lemma needs `gamma` in (0, 1/2] and `alpha` in [0, 1), got {gamma} and {alpha}"
        )
    mean = gamma * trials
    if distance > alpha * mean / 2:
        raise InvalidParameter(
            f"the lemma needs a `distance` of at most alpha*gamma*trials/2 = "
            f"{short(alpha * mean / 2)}, got {distance}"
        )
    delta = math.exp(-(alpha**2) * mean / 8) + math.exp(-(alpha**2) * mean / (8 + 2 * alpha))
    return math.log((1 + alpha) / (1 - alpha)), delta
