"""Part 2, one lie in a crowd: randomized response, and how exact its estimate is.

Notation    n people, of whom c hold a yes. A message is true with probability ½+γ, and ĉ is the
            estimate of c. Errors are shares of n.
Bounds      The reports are independent numbers in [0, 1], and ĉ − c is their sum minus its mean,
            divided by 2γ. By Hoeffding's inequality, P(|ĉ−c| ≥ τn) ≤ 2·exp(−8γ²τ²n). By Chebyshev's
            inequality, this probability is at most (¼−γ²)/(4γ²τ²n).
"""

import math
from fractions import Fraction
from typing import Any

import headcount as hc
from headcount.accounting import laws
from headcount.collect.device import device_data
from headcount.guide.doorbell import EPSILON, response

FEW = 200  # people in the first crowd
RUNS = 200  # crowds in the second experiment
SHARE = Fraction(3, 10)  # the share of people who hold a yes
MARGIN = Fraction(1, 20)  # τ
CONFIDENCE = 0.95
CROWDS = (100, 300, 1000, 3000)
HONESTIES = tuple(Fraction(percent, 100) for percent in range(55, 100, 5))  # ½+γ


def numbers() -> dict[str, Any]:
    first = response(EPSILON, FEW)
    lie = first.parameters["lie_probability"]
    return {
        "epsilon": EPSILON,
        "gamma": 0.5 - lie,
        "first": {
            "people": FEW,
            "device": device_data(first),
            "lies": lie * FEW,
            "slope": 1 - 2 * lie,
            "standard_error": first.standard_error(),
        },
        "runs": RUNS,
        "share": float(SHARE),
        "margin": float(MARGIN),
        "margin_points": int(100 * MARGIN),
        "confidence": CONFIDENCE,
        "crowds": CROWDS,
        "honesties": [_nothing(), *(_setting(honesty) for honesty in HONESTIES)],
        "example": next(
            row for row in _setting(Fraction(3, 4))["crowds"] if row["people"] == CROWDS[2]
        ),
        "needed": _needed(EPSILON),
        "needed_hoeffding": _hoeffding_crowd(Fraction(1, 4)),
    }


def _nothing() -> dict[str, Any]:
    """The numbers for γ = 0. Half of all messages are lies, so nothing can be estimated."""
    return {
        "honesty": 0.5,
        "gamma": 0.0,
        "epsilon": 0.0,
        "device": {"bytes": 1, "kind": "flip", "weight": str(2**63)},
        "needed": None,
        "needed_hoeffding": None,
        "crowds": [{"people": people} for people in CROWDS],
    }


def _setting(honesty: Fraction) -> dict[str, Any]:
    """The numbers for one probability of telling the truth."""
    epsilon = math.log(honesty / (1 - honesty))
    return {
        "honesty": float(honesty),
        "gamma": float(honesty - Fraction(1, 2)),
        "epsilon": epsilon,
        "device": device_data(response(epsilon, CROWDS[0])),
        "needed": _needed(epsilon),
        "needed_hoeffding": _hoeffding_crowd(honesty - Fraction(1, 2)),
        "crowds": [_crowd(honesty, epsilon, people) for people in CROWDS],
    }


def _crowd(honesty: Fraction, epsilon: float, people: int) -> dict[str, Any]:
    gamma = honesty - Fraction(1, 2)
    chebyshev = (Fraction(1, 4) - gamma**2) / (4 * gamma**2 * MARGIN**2 * people)
    hoeffding = 2 * math.exp(-8 * gamma**2 * MARGIN**2 * people)
    return {
        "people": people,
        "standard_error": response(epsilon, people).standard_error() / people,
        "within": _within(honesty, people),
        "within_chebyshev": float(max(Fraction(0), 1 - chebyshev)),
        "within_hoeffding": max(0.0, 1 - hoeffding),
    }


def _within(honesty: Fraction, people: int) -> float:
    """The probability that the estimate is within the margin."""
    yes = int(SHARE * people)
    law = laws.binomial(yes, honesty).plus(laws.binomial(people - yes, 1 - honesty))
    estimates = (law.values - float((1 - honesty) * people)) / float(2 * honesty - 1)
    close = abs(estimates - yes) <= float(MARGIN * people) * (1 + 1e-9)
    return float(law.mass[close].sum())


def _needed(epsilon: float) -> int:
    """The number of people that a plan asks for, so that an interval stays within the margin."""
    margin = hc.Margin(float(MARGIN), share=True, confidence=CONFIDENCE)
    found = hc.needed_crowd(hc.Count(), hc.Budget(epsilon), margin, trust="local")
    return min(need.users for need in found.answers)


def _hoeffding_crowd(gamma: Fraction) -> int:
    """The number of people that Hoeffding's inequality asks for: ln(2/β)/(8γ²τ²), rounded up. Here
    β is 1 − CONFIDENCE, the probability of an error outside the margin.
    """
    return math.ceil(math.log(2 / (1 - CONFIDENCE)) / float(8 * gamma**2 * MARGIN**2))
