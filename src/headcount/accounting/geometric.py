"""Two-sided geometric noise against the same noise, moved: the pair behind central privacy.

P(z) = (1−a)/(1+a)·a^|z|, a = e^−rate, and Q(z) = P(z − m) for a person who moves a sum by m steps.
The loss falls from m·rate at z ≤ 0 to −m·rate at z ≥ m, by 2·rate at each step. Whoever moves the
sum by less is better hidden, since P is log-concave.
"""

import math

import numpy as np

from headcount.accounting.divergence import SymmetricCurve
from headcount.accounting.laws import UNIT, Law


def moved_laws(rate: float, steps: int) -> tuple[Law, Law]:
    """P and Q, with z ≤ 0 as one point and z ≥ m as another: the loss there is the same."""
    inside = np.exp(-rate * np.arange(1, steps)) * math.tanh(rate / 2)
    ends = 1 / (1 + math.exp(-rate)), math.exp(-rate * steps) / (1 + math.exp(-rate))
    # Exponentials err by a unit of their exponent.
    slack = (16 + 4 * rate * steps) * UNIT
    mass = np.concatenate([[ends[0]], inside, [ends[1]]])
    return Law(0, mass, slack), Law(0, mass[::-1], slack)


def moved_delta(rate: float, steps: int, epsilon: float) -> float:
    """HS_ε(P‖Q) for 0 ≤ ε ≤ m·rate, in closed form.

    The event is z < k, with k the number of losses above ε from z = 0 on; its excess, times 1 + a,
    is (1 − a^k) + a(1 − e^{ε − rate(m−k)}), and 1 − e^{ε − m·rate} for k = 1.
    """
    k = math.ceil((steps - epsilon / rate) / 2 * (1 - 4 * UNIT))
    if k <= 1:
        excess = -math.expm1(epsilon - rate * steps)
    else:
        excess = -math.expm1(-rate * k) - math.exp(-rate) * math.expm1(epsilon - rate * (steps - k))
    # Another event than the best has less excess, by no more than rounding.
    return max(excess, 0.0) / (1 + math.exp(-rate)) * (1 + 16 * UNIT) + 8 * UNIT * rate * steps


def moved_curve(rate: float, steps: int) -> SymmetricCurve:
    return SymmetricCurve(
        lambda epsilon: moved_delta(rate, steps, epsilon), rate * steps * (1 + 4 * UNIT), steps
    )
