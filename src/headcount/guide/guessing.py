"""Part 3, what does it hide: how often an attacker guesses right, and what ε permits.

Game        A person's bit is a fair coin. The attacker sees the person's message and guesses the
            bit. No guess is right with a probability above e^ε/(1+e^ε). `auditor.report` has the
            proof.
Score       Whoever believes every message of randomized response is right with exactly this
            probability, so that the score of a game with r rounds has the law Bin(r, e^ε/(1+e^ε)).
"""

import math
from fractions import Fraction
from typing import Any

import headcount as hc
from headcount.accounting import laws
from headcount.collect.device import device_data
from headcount.guide.doorbell import EPSILON, response

ROUNDS = 20
GAMES = 10_000
EPSILONS = (0.1, 0.25, 0.5, EPSILON, 2.0, 3.0, 4.0, 5.0)
LOUDER = 1.11  # a little more than EPSILON


def numbers() -> dict[str, Any]:
    settings = [_setting(epsilon) for epsilon in EPSILONS]
    return {
        "rounds": ROUNDS,
        "games": GAMES,
        "first": EPSILONS.index(EPSILON),
        "settings": settings,
        "doorbell": settings[EPSILONS.index(EPSILON)],
        "louder": _louder(),
    }


def _setting(epsilon: float) -> dict[str, Any]:
    protocol = response(epsilon, 1)
    right = _right(protocol)
    return {
        "epsilon": epsilon,
        "factor": math.exp(epsilon),
        "device": device_data(protocol),
        "right": right,
        # At most this many of 100 guesses are right on average. The report rounds probabilities up
        # by a tiny amount, which 1e-9 takes away.
        "right_of_100": math.ceil(100 * right - 1e-9),
        "scores": _scores(right),
    }


def _louder() -> dict[str, Any]:
    """Why δ is not the probability that ε fails. With LOUDER instead of EPSILON, every true message
    raises the odds by more than e^EPSILON. This happens far more often than δ says.
    """
    protocol = response(LOUDER, 1)
    curve = protocol.curve
    assert curve is not None
    return {
        "epsilon": LOUDER,
        "factor": math.exp(LOUDER),
        "delta": curve.delta(EPSILON),
        "truth": 1 - protocol.parameters["lie_probability"],
    }


def _right(protocol: hc.Protocol) -> float:
    """The largest probability of a right guess, if both bits are equally likely."""
    found = hc.privacy_report(protocol, secret=2).singled_out.value
    assert found is not None
    return found


def _scores(right: float) -> list[float]:
    """The probability of each score of the best attacker: 0, …, ROUNDS."""
    law = laws.binomial(ROUNDS, Fraction(right))
    chances = [0.0] * (ROUNDS + 1)
    for score, chance in zip(law.values, law.mass, strict=True):
        chances[score] = float(chance)
    return chances
