"""Certified lower bounds on ε from counted events (Clopper, Pearson 1934)."""

import math


def lower_chance(hits: int, runs: int, wrong: float) -> float:
    """A lower bound on the chance of an event that occurred `hits` times in `runs` runs.

    The bound is wrong with a probability of at most `wrong`.
    """
    from scipy.special import betaincinv  # loaded here, since it is slow to load

    return float(betaincinv(hits, runs - hits + 1, wrong)) if hits else 0.0


def upper_chance(hits: int, runs: int, wrong: float) -> float:
    """An upper bound on the chance of an event that occurred `hits` times in `runs` runs.

    The bound is wrong with a probability of at most `wrong`.
    """
    from scipy.special import betainccinv

    return float(betainccinv(hits + 1, runs - hits, wrong)) if hits < runs else 1.0


def lower_epsilon(hits: int, other_hits: int, runs: int, delta: float, wrong: float) -> float:
    """A lower bound on ε, from how often an event E occurred in `runs` runs on each side.

    The bound is wrong with a probability of at most `wrong`. If P(E) ≤ e^ε·Q(E) + δ, then
    ε ≥ ln((P(E) − δ)/Q(E)). Here, a lower bound replaces P(E), and an upper bound replaces Q(E).
    """
    above = lower_chance(hits, runs, wrong / 2) - delta
    return (
        max(math.log(above / upper_chance(other_hits, runs, wrong / 2)), 0.0) if above > 0 else 0.0
    )
