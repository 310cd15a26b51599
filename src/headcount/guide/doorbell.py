"""Part 1, the doorbell: evasive answers bias a statistic, and a coin protects an honest answer."""

import math
from typing import Any

import headcount as hc
from headcount.collect.device import device_data

QUESTION = "Have you ever taken something from a shop without paying?"
EPSILON = math.log(3)  # one answer in four is a lie
PEOPLE = 1000
YES = 300  # of these people
DENIAL = 1 / 3  # the probability that somebody who should say yes says no


def numbers() -> dict[str, Any]:
    protocol = hc.protocol(
        "local.randomized-response", hc.Count(), hc.Budget(EPSILON), hc.Crowd(PEOPLE)
    )
    return {
        "question": QUESTION,
        "epsilon": EPSILON,
        "lie_probability": protocol.parameters["lie_probability"],
        "device": device_data(protocol),
        "bits_per_message": protocol.alphabet.bits,
        "people": PEOPLE,
        "yes": YES,
        "denial": DENIAL,
        "evasive": YES * (1 - DENIAL),  # the expected answer to the direct question
        "standard_error": protocol.standard_error(),
    }
