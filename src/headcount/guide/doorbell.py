"""Part 1, the doorbell: evasive answers bias a statistic, and a coin protects an honest answer.

Notation    n people are asked, and the share s of them should say yes. If they are asked directly,
            each of these sn people says no with probability d.
Direct      The number of people who say yes has the law Bin(sn, 1−d). As a share of n, this number
            has the bias −sd and the variance sd(1−d)/n.
"""

import math
from typing import Any

import headcount as hc
from headcount.collect.device import device_data

QUESTION = "Have you ever taken something from a shop without paying?"
EPSILON = math.log(3)  # one answer in four is a lie
PEOPLE = 1000
SHARE = 0.3  # the share s of people who should say yes
DENIAL = 1 / 3  # the probability d that such a person says no if asked directly
DENIALS = tuple(percent / 100 for percent in range(0, 65, 5))
CROWDS = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 10**6)


def response(epsilon: float, people: int) -> hc.Protocol:
    """Randomized response for this many people."""
    return hc.protocol(
        "local.randomized-response", hc.Count(), hc.Budget(epsilon), hc.Crowd(people)
    )


def numbers() -> dict[str, Any]:
    protocol = response(EPSILON, PEOPLE)
    return {
        "question": QUESTION,
        "epsilon": EPSILON,
        "lie_probability": protocol.parameters["lie_probability"],
        "device": device_data(protocol),
        "message_bytes": protocol.alphabet.bytes_per_message,
        "sealed_bytes": protocol.sealed_bytes,
        "people": PEOPLE,
        "yes": round(SHARE * PEOPLE),
        "share": SHARE,
        "counted": round(SHARE * (1 - DENIAL) * PEOPLE),
        "share_counted": SHARE * (1 - DENIAL),
        "standard_error": protocol.standard_error(),
        "crowds": CROWDS,
        "randomized_errors": [response(EPSILON, n).standard_error() / n for n in CROWDS],
        "evasion": [
            {
                "denial": denial,
                "counted": SHARE * (1 - denial),
                "errors": [_direct_error(denial, n) for n in CROWDS],
                "enough_people": _enough_people(denial),
            }
            for denial in DENIALS
        ],
    }


def _direct_error(denial: float, people: int) -> float:
    """The root of the mean square error of the share, if people are asked directly."""
    return math.sqrt((SHARE * denial) ** 2 + SHARE * denial * (1 - denial) / people)


def _enough_people(denial: float) -> int | None:
    """The smallest crowd for which randomized response is at least as exact as asking directly, or
    None if there is none.
    """
    if not denial:
        return None
    # Each way of asking has a mean square error of a/n, with an a of its own. The direct question
    # also has the square of its bias.
    wide = response(EPSILON, PEOPLE).standard_error() ** 2 / PEOPLE - SHARE * denial * (1 - denial)
    return max(1, math.ceil(wide / (SHARE * denial) ** 2 - 1e-9))
