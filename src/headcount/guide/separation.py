"""Part 7, what shuffling cannot do, and can: all outcomes of small crowds are listed."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import comb
from typing import Any

import headcount as hc

FACTOR = 2  # e^ε of one bit that is sometimes a lie
GAP = 2  # of four bits, people who hold 1 never send this number of ones
PEOPLE = (1, 2, 3, 4, 5)
DELTAS = ("0", "0.01", "0.05")

Law = Mapping[tuple[tuple[int, int], ...], Fraction]


def response(x: int) -> Law:
    """One bit, which is a lie with probability 1/(1 + e^ε)."""
    truth = Fraction(FACTOR, 1 + FACTOR)
    return {((x, 1),): truth, ((1 - x, 1),): 1 - truth}


def gap(x: int) -> Law:
    """Four fair bits, but never two ones if x is 1."""
    ones = [k for k in range(5) if not (x and k == GAP)]
    total = sum(comb(4, k) for k in ones)
    return {((0, 4 - k), (1, k)): Fraction(comb(4, k), total) for k in ones}


def row(randomizer: Callable[[int], Law], people: int, delta: str) -> dict[str, Any]:
    """The exact e^ε of a shuffled crowd."""
    found = hc.exact_audit(randomizer, [0, 1], users=people, view="shuffle", delta=float(delta))
    ratio = found.loss.ratio
    return {
        "people": people,
        "ratio": "infinite" if ratio is None else str(ratio),
        "epsilon": None if ratio is None else found.epsilon,
        "factor": None if ratio is None else float(ratio),
    }


def numbers() -> dict[str, Any]:
    return {
        "factor": FACTOR,
        "gap": GAP,
        "deltas": DELTAS,
        "response": [row(response, people, DELTAS[0]) for people in PEOPLE],
        "loose": [row(response, people, DELTAS[-1]) for people in PEOPLE],
        "least": str(gap(1)[((0, 4), (1, 0))] / gap(0)[((0, 4), (1, 0))]),
        "gaps": [row(gap, people, DELTAS[0]) for people in PEOPLE],
    }
