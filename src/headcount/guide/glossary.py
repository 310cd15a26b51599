"""Part 12, glossary and references: numbers that expose mistakes in texts in circulation."""

import math
from fractions import Fraction
from typing import Any

import headcount as hc
from headcount.accounting import laws
from headcount.accounting.smooth import binomial_lemma, smoothness_delta
from headcount.theory import bounds

ALPHA = 1  # the ε of all protocols here, which the texts call α
BUCKETS = 4
CROWDS = (10_000, 1_000_000)
TRIALS, GAMMA, SLOPE = 1000, Fraction(1, 10), 0.5  # n, γ and α of the binomial lemma


def numbers() -> dict[str, Any]:
    return {"moment": _moment(), "bins": _bins(), "lemma": _lemma(), "density": _density()}


def _moment() -> dict[str, Any]:
    """The mean estimate of the share of an answer that nobody holds, if the estimate subtracts 1
    instead of the flip probability. The right formula has the mean 0.
    """
    protocol = hc.protocol(
        "local.unary-symmetric", hc.Histogram(BUCKETS), hc.Budget(ALPHA), hc.Crowd(CROWDS[0])
    )
    flip = protocol.parameters["q"]
    return {"alpha": ALPHA, "flip": flip, "wrong": (flip - 1) / (1 - 2 * flip)}


def _bins() -> list[dict[str, Any]]:
    """The number of bins for each crowd, and the number of bins that a formula with a negative
    exponent would give.
    """
    rows = []
    for people in CROWDS:
        protocol = hc.protocol(
            "local.density-histogram",
            hc.Density(0, 1, smoothness=1),
            hc.Budget(ALPHA),
            hc.Crowd(people),
            calibration="paper",
        )
        rows.append(
            {
                "people": people,
                "bins": int(protocol.parameters["bins"]),
                "wrong": (people * ALPHA**2) ** (-1 / 4),
            }
        )
    return rows


def _lemma() -> dict[str, Any]:
    """The binomial lemma at the largest distance that it allows."""
    distance = math.floor(SLOPE * GAMMA * TRIALS / 2)
    epsilon, delta = binomial_lemma(TRIALS, float(GAMMA), SLOPE, distance)
    exact = smoothness_delta(laws.binomial(TRIALS, GAMMA), epsilon, distance)
    return {
        "trials": TRIALS,
        "gamma": float(GAMMA),
        "alpha": SLOPE,
        "distance": distance,
        "epsilon": epsilon,
        "delta": delta,
        "exact": exact,
        "one_in": 1 / exact,
        "without_n": SLOPE * float(GAMMA) / 2,
    }


def _density() -> dict[str, Any]:
    """The rates of densities of smoothness 1, as squared errors."""
    people = CROWDS[1]
    task = hc.Density(0, 1, smoothness=1)
    known = {one.name: one.value for one in bounds(task, hc.Budget(ALPHA), hc.Crowd(people))}
    return {
        "people": people,
        "without_privacy": known["central.density.rate"] ** 2,
        "local": known["local.density.rate"] ** 2,
    }
