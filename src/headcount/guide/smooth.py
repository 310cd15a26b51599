"""Part 6, somebody to mix: smooth distributions, with which papers prove that noise is private.

The definition and the lemma for binomial noise are from Ghazi, Golowich, Kumar, Pagh, Velingker
2021. Balcer, Cheu 2020 use them for the zero-exact count.
"""

import math
from fractions import Fraction
from typing import Any

from headcount.accounting import laws
from headcount.accounting.calibration import least_private
from headcount.accounting.divergence import hockey_stick
from headcount.accounting.smooth import binomial_lemma, smoothness_delta

TRIALS = 100_000
DELTA = 1e-6
EPSILONS = (0.5, 1.0, 2.0)
# Means of the noise. Each is about a sixth larger than the one before.
MEANS = tuple(sorted({round(10 ** (0.7 + step / 14)) for step in range(38)}))


def lemma(mean: Fraction, epsilon: float) -> float | None:
    """The δ of the lemma for binomial noise (see `binomial_lemma`); None if it does not apply."""
    alpha = math.tanh(epsilon / 2)  # ln((1 + α)/(1 − α)) = ε
    if alpha * mean < 2:
        return None
    return min(1.0, binomial_lemma(TRIALS, float(mean / TRIALS), alpha)[1])


def definition(mean: Fraction, epsilon: float) -> float:
    return smoothness_delta(laws.binomial(TRIALS, mean / TRIALS), epsilon)


def divergence(mean: Fraction, epsilon: float) -> float:
    law = laws.binomial(TRIALS, mean / TRIALS)
    moved = law.shift(1)
    return max(hockey_stick(law, moved, epsilon), hockey_stick(moved, law, epsilon))


def needed(method: Any, epsilon: float) -> float:
    """The least mean whose δ is within the budget, to a hundredth."""

    def delta(hundredths: int) -> float:
        found = method(Fraction(hundredths, 100), epsilon)
        return 1.0 if found is None else float(found)

    least = least_private(delta, DELTA, start=1000, stop=10**7)
    assert least is not None
    return least / 100


def numbers() -> dict[str, Any]:
    return {
        "trials": TRIALS,
        "delta": DELTA,
        "means": MEANS,
        "levels": [
            {
                "epsilon": epsilon,
                "lemma": [lemma(Fraction(mean), epsilon) for mean in MEANS],
                "definition": [definition(Fraction(mean), epsilon) for mean in MEANS],
                "exact": [divergence(Fraction(mean), epsilon) for mean in MEANS],
                "needed": {
                    "lemma": needed(lemma, epsilon),
                    "definition": needed(definition, epsilon),
                    "exact": needed(divergence, epsilon),
                },
            }
            for epsilon in EPSILONS
        ],
    }
