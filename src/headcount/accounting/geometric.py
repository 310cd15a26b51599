"""The privacy of two-sided geometric noise, which central protocols add.

P(z) = (1−a)/(1+a)·a^|z| with a = e^−rate. If one person changes the sum by m steps, the neighboring
law is Q(z) = P(z − m). The loss falls from m·rate at z ≤ 0 to −m·rate at z ≥ m, by 2·rate at each
step. A person who changes the sum by less has a smaller divergence, because P is log-concave.
"""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np

from headcount.accounting.divergence import SymmetricCurve
from headcount.accounting.laws import ROUNDING, Law

_WHOLE = 1 << 300  # probabilities are integers divided by this


def moved_laws(rate: float, steps: int) -> tuple[Law, Law]:
    """P and Q, with all z ≤ 0 merged into one point, and all z ≥ m into another.

    Merging is exact, because the merged outcomes have the same loss.
    """
    inside = np.exp(-rate * np.arange(1, steps)) * math.tanh(rate / 2)
    ends = 1 / (1 + math.exp(-rate)), math.exp(-rate * steps) / (1 + math.exp(-rate))
    # The relative error of an exponential is the absolute error of its exponent.
    slack = (16 + 4 * rate * steps) * ROUNDING
    mass = np.concatenate([[ends[0]], inside, [ends[1]]])
    return Law(0, mass, slack), Law(0, mass[::-1], slack)


def moved_delta(rate: float, steps: int, epsilon: float) -> float:
    """HS_ε(P‖Q) for 0 ≤ ε ≤ m·rate, in closed form.

    The best event is z < k, where k is the number of z ≥ 0 whose loss exceeds ε. The excess
    P − e^ε Q of this event, times 1 + a, is (1 − a^k) + a(1 − e^{ε − rate(m−k)}). For k = 1 it is
    1 − e^{ε − m·rate}.
    """
    k = math.ceil((steps - epsilon / rate) / 2 * (1 - 4 * ROUNDING))
    if k <= 1:
        excess = -math.expm1(epsilon - rate * steps)
    else:
        excess = -math.expm1(-rate * k) - math.exp(-rate) * math.expm1(epsilon - rate * (steps - k))
    # If rounding chooses another event than the best, the excess changes by rounding errors only.
    return (
        max(excess, 0.0) / (1 + math.exp(-rate)) * (1 + 16 * ROUNDING) + 8 * ROUNDING * rate * steps
    )


def noise_law(rate: float) -> Law:
    """The law P itself, up to a tail below 2^−80."""
    reach = math.ceil(80 * math.log(2) / rate)
    sizes = rate * np.abs(np.arange(-reach, reach + 1))
    mass = np.exp(-sizes) * math.tanh(rate / 2)
    tail = 2 * math.exp(-rate * (reach + 1)) / (1 + math.exp(-rate))
    return Law(-reach, mass, (16 + 4 * rate * reach) * ROUNDING, tail * (1 + 1e-9))


def listed_law(at: int, most: int, rate: Fraction) -> dict[int, Fraction]:
    """The law of the number `at`, between 0 and `most`, plus noise, as fractions with 80 digits.

    All outcomes below 0 count as 0, and all above `most` count as `most`. This is exact for
    privacy, because the ratios of two of these laws are constant beyond both ends.
    """
    with localcontext(prec=90):
        step = Decimal(rate.numerator) / Decimal(rate.denominator)
        shrink = (-step).exp()
        inside = (1 - shrink) / (1 + shrink)
        mass = {z: inside * (-step * abs(z - at)).exp() for z in range(most + 1)}
        for end in (0, most):
            mass[end] /= 1 - shrink  # adds the mass of all outcomes beyond this end
        law = {z: Fraction(int(chance * _WHOLE), _WHOLE) for z, chance in mass.items()}
    law[at] += 1 - sum(law.values())
    return law


def exponential_weight(exponent: Fraction) -> Fraction:
    """e^−exponent, with 80 digits."""
    with localcontext(prec=90):
        return Fraction((-Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp())


def moved_curve(rate: float, steps: int) -> SymmetricCurve:
    return SymmetricCurve(
        lambda epsilon: moved_delta(rate, steps, epsilon), rate * steps * (1 + 4 * ROUNDING), steps
    )


def moved_between_curve(epsilon: float) -> SymmetricCurve:
    """The curve of a person who moves between two sums, each with noise of rate ε/2.

    A loss is ε with probability 1/(1+a)², −ε with probability a²/(1+a)², and otherwise 0, for
    a = e^{−ε/2}. So HS_ε'(P‖Q) = (1 − e^{ε'−ε})/(1+a)² for 0 ≤ ε' ≤ ε.
    """
    likely = 1 / (1 + math.exp(-epsilon / 2)) ** 2 * (1 + 16 * ROUNDING)
    return SymmetricCurve(lambda smaller: -math.expm1(smaller - epsilon) * likely, epsilon, 2)
