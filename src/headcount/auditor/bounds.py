"""Certified lower bounds on ε from counted events (Clopper, Pearson 1934)."""

import math


def lower_chance(hits: int, runs: int, wrong: float) -> float:
    """A chance that is below the true one, but for a probability of `wrong`."""
    from scipy.special import betaincinv  # loads when it is used

    return float(betaincinv(hits, runs - hits + 1, wrong)) if hits else 0.0


def upper_chance(hits: int, runs: int, wrong: float) -> float:
    """A chance that is above the true one, but for a probability of `wrong`."""
    from scipy.special import betainccinv

    return float(betainccinv(hits + 1, runs - hits, wrong)) if hits < runs else 1.0


def lower_epsilon(hits: int, other_hits: int, runs: int, delta: float, wrong: float) -> float:
    """An ε that is below the true one, but for a probability of `wrong`.

    If P(E) ≤ e^ε·Q(E) + δ, then ε ≥ ln((P(E) − δ)/Q(E)), here for bounds of both chances.
    """
    above = lower_chance(hits, runs, wrong / 2) - delta
    return (
        max(math.log(above / upper_chance(other_hits, runs, wrong / 2)), 0.0) if above > 0 else 0.0
    )
