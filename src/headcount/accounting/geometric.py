"""The privacy of two-sided geometric noise, which central protocols add.

The noise has the law P(z) = (1−a)/(1+a)·a^|z| with a = e^−rate. If one person changes the sum by m
steps, the neighboring law is Q(z) = P(z − m). The loss falls from m·rate at z ≤ 0 to −m·rate at
z ≥ m, by 2·rate at each step. A smaller change of the sum has a smaller divergence, because P is
log-concave. The module `divergence` defines the hockey-stick divergence HS_ε.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np

from headcount.accounting.divergence import BENDS, SymmetricCurve
from headcount.accounting.laws import ROUNDING, Law
from headcount.core.decimal_digits import decimal_digits, exponential

_WHOLE = 1 << 300  # the common denominator of all probabilities


def moved_laws(rate: float, steps: int) -> tuple[Law, Law]:
    """The laws P and Q for m = `steps`. All z ≤ 0 are merged into one outcome, and all z ≥ m into
    another outcome.

    Merging changes no divergence, because merged outcomes have the same loss.
    """
    inside = np.exp(-rate * np.arange(1, steps)) * math.tanh(rate / 2)
    ends = 1 / (1 + math.exp(-rate)), math.exp(-rate * steps) / (1 + math.exp(-rate))
    # The relative error of an exponential is the absolute error of its exponent.
    slack = (16 + 4 * rate * steps) * ROUNDING
    mass = np.concatenate([[ends[0]], inside, [ends[1]]])
    return Law(0, mass, slack), Law(0, mass[::-1], slack)


def moved_delta(rate: float, steps: int, epsilon: float) -> float:
    """HS_ε(P‖Q) for 0 ≤ ε ≤ m·rate and m = `steps`, in closed form.

    The divergence is P(z < k) − e^ε Q(z < k), where k is the number of z ≥ 0 whose loss exceeds ε.
    In the code, `excess` is the divergence times 1 + a. It equals
    (1 − a^k) + a(1 − e^{ε − rate(m−k)}). For k = 1, the excess is 1 − e^{ε − m·rate}.
    """
    k = math.ceil((steps - epsilon / rate) / 2 * (1 - 4 * ROUNDING))
    if k <= 1:
        excess = -math.expm1(epsilon - rate * steps)
    else:
        excess = -math.expm1(-rate * k) - math.exp(-rate) * math.expm1(epsilon - rate * (steps - k))
    # If rounding gives a different k, the excess changes only by rounding errors.
    return (
        max(excess, 0.0) / (1 + math.exp(-rate)) * (1 + 16 * ROUNDING) + 8 * ROUNDING * rate * steps
    )


def noise_law(rate: float) -> Law:
    """The law P. The tails that are cut off have a probability below 2^−80."""
    reach = math.ceil(80 * math.log(2) / rate)
    sizes = rate * np.abs(np.arange(-reach, reach + 1))
    mass = np.exp(-sizes) * math.tanh(rate / 2)
    tail = 2 * math.exp(-rate * (reach + 1)) / (1 + math.exp(-rate))
    return Law(-reach, mass, (16 + 4 * rate * reach) * ROUNDING, tail * (1 + 1e-9))


def listed_law(at: int, most: int, rate: Fraction) -> dict[int, Fraction]:
    """The law of the count `at` plus noise, as fractions with 80 digits. `at` is between 0 and
    `most`.

    All outcomes below 0 count as 0, and all outcomes above `most` count as `most`. This does not
    change the privacy: for any two counts, the ratio of the two laws is constant beyond each end.
    """
    with decimal_digits(90):
        shrink = exponential(-rate)
        inside = (1 - shrink) / (1 + shrink)
        mass = {z: inside * exponential(-rate * abs(z - at)) for z in range(most + 1)}
        for end in (0, most):
            mass[end] /= 1 - shrink  # adds the mass of all outcomes beyond this end
        law = {z: Fraction(int(chance * _WHOLE), _WHOLE) for z, chance in mass.items()}
    law[at] += 1 - sum(law.values())
    return law


def listed_laws(
    counts: Sequence[int], most: int, rate: Fraction | Sequence[Fraction], longest: int
) -> dict[tuple[int, ...], Fraction] | None:
    """The joint law of several counts with independent noise, each as in `listed_law`.

    `rate` is one rate for all counts, or a list with one rate for each count. The result is None if
    the law has more than `longest` outcomes.
    """
    if (most + 1) ** len(counts) > longest:
        return None
    rates = [rate] * len(counts) if isinstance(rate, Fraction) else rate
    every = [listed_law(at, most, own) for at, own in zip(counts, rates, strict=True)]
    return {
        outcome: math.prod(
            (law[z] for law, z in zip(every, outcome, strict=True)), start=Fraction(1)
        )
        for outcome in product(range(most + 1), repeat=len(counts))
    }


def exponential_weight(exponent: Fraction) -> Fraction:
    """e^−exponent, with 80 digits."""
    with decimal_digits(90):
        return Fraction(exponential(-exponent))


def moved_steps_curve(rate: float, steps: int) -> SymmetricCurve:
    return SymmetricCurve(
        lambda epsilon: moved_delta(rate, steps, epsilon),
        rate * steps * (1 + 4 * ROUNDING),
        steps,
        one_pair=True,
    )


def moved_together_curve(epsilon: float, counts: int) -> SymmetricCurve:
    """The privacy curve for a person who changes s = `counts` counts by 1, each with noise of rate
    ε/s.

    The loss is (s − 2j)·ε/s with probability C(s,j)·p^{s−j}·(1−p)^j, for p = 1/(1 + e^{−ε/s}).
    """
    rate = epsilon / counts
    likely, unlikely = 1 / (1 + math.exp(-rate)), 1 / (1 + math.exp(rate))

    def delta_at(smaller: float) -> float:
        total = math.fsum(
            math.comb(counts, j)
            * likely ** (counts - j)
            * unlikely**j
            * -math.expm1(min(smaller - (counts - 2 * j) * rate, 0.0))
            for j in range(counts // 2 + 1)
        )
        return total * (1 + 8 * (counts + 8) * ROUNDING) + 8 * ROUNDING * epsilon

    return SymmetricCurve(delta_at, epsilon, counts, one_pair=True)


def moved_counts_curve(epsilon: float, rates: Sequence[float]) -> SymmetricCurve:
    """The privacy curve for a person who changes several counts by 1, if each count has its own
    rate of noise.

    The floats in `rates` are rounded. The exact rates add up to `epsilon`. The loss of a count with
    rate r is r with probability 1/(1+e^−r), and −r otherwise. So HS_ε'(P‖Q) is the mean of
    (1 − e^{ε'−L})₊, where L is the sum of the losses of all counts.
    """
    outcomes = [(0.0, 1.0)]  # the losses L and their probabilities
    for rate in rates:
        likely, unlikely = 1 / (1 + math.exp(-rate)), 1 / (1 + math.exp(rate))
        outcomes = [
            (loss + sign * rate, chance * share)
            for loss, chance in outcomes
            for sign, share in ((1, likely), (-1, unlikely))
        ]

    def delta(smaller: float) -> float:
        terms = (-math.expm1(min(0.0, smaller - loss)) * chance for loss, chance in outcomes)
        return math.fsum(terms) * (1 + 64 * ROUNDING) + 16 * ROUNDING * epsilon

    steps = len(rates) if len(set(rates)) == 1 else BENDS
    return SymmetricCurve(delta, epsilon, steps, one_pair=True)
