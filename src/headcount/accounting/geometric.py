"""Two-sided geometric noise against the same noise, moved: the pair behind central privacy.

P(z) = (1−a)/(1+a)·a^|z|, a = e^−rate, and Q(z) = P(z − m) for a person who moves a sum by m steps.
The loss falls from m·rate at z ≤ 0 to −m·rate at z ≥ m, by 2·rate at each step. Whoever moves the
sum by less is better hidden, since P is log-concave.
"""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np

from headcount.accounting.divergence import SymmetricCurve
from headcount.accounting.laws import UNIT, Law

_WHOLE = 1 << 300  # chances are integers over it


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


def listed_law(at: int, most: int, rate: Fraction) -> dict[int, Fraction]:
    """The law of a number between 0 and `most` with noise, in fractions, to 80 digits.

    What is at most 0 counts as 0, and what is `most` at least as that: beyond the ends all ratios
    of two such laws are as at the ends.
    """
    with localcontext(prec=90):
        step = Decimal(rate.numerator) / Decimal(rate.denominator)
        shrink = (-step).exp()
        inside = (1 - shrink) / (1 + shrink)
        mass = {z: inside * (-step * abs(z - at)).exp() for z in range(most + 1)}
        for end in (0, most):
            mass[end] /= 1 - shrink  # and all beyond it
        law = {z: Fraction(int(chance * _WHOLE), _WHOLE) for z, chance in mass.items()}
    law[at] += 1 - sum(law.values())
    return law


def moved_curve(rate: float, steps: int) -> SymmetricCurve:
    return SymmetricCurve(
        lambda epsilon: moved_delta(rate, steps, epsilon), rate * steps * (1 + 4 * UNIT), steps
    )
