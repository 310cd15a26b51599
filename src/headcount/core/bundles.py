"""Bundles of one size: a person's messages are filled up with dummies, which hides their number.

A person has more messages than a bundle holds with probability `Randomizer.overflow(slots)`. Then
all messages of this person are drawn again. This costs at most (1 + e^ε)·honest·overflow of δ.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.budget import Budget
from headcount.core.guarantee import Guarantee, NearCurve, PrivacyCurve
from headcount.core.messages import Messages
from headcount.core.randomizer import Randomizer
from headcount.core.source import Source

MOST_SLOTS = 2**24
# The share of δ that protocols set aside for bundles and for rounded tables of probabilities.
RESERVED = 2.0**-10


def least_slots(
    randomizer: Randomizer, curve: PrivacyCurve, budget: Budget, honest: int
) -> int | None:
    """The least size of bundles that the budget allows, or None if it is above `MOST_SLOTS`."""
    spare = budget.delta - curve.delta(budget.epsilon)
    price = (1 + math.exp(budget.epsilon)) * honest

    def too_few(slots: int) -> bool:
        cost = randomizer.overflow(slots)
        return cost > 0 and cost * price > spare

    few, enough = 0, 1
    while too_few(enough):
        if enough >= MOST_SLOTS:
            return None
        few, enough = enough, 2 * enough
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (middle, enough) if too_few(middle) else (few, middle)
    return enough


def bundled_curve(
    randomizer: Randomizer, curve: PrivacyCurve, honest: int, slots: int
) -> PrivacyCurve:
    """The privacy curve if everybody sends a bundle of this size."""
    return NearCurve(curve, honest * randomizer.overflow(slots))


def bundled(
    guarantee: Guarantee, randomizer: Randomizer, curve: PrivacyCurve, slots: int
) -> Guarantee:
    """The guarantee if everybody sends a bundle of this size."""
    if not randomizer.overflow(slots):
        return guarantee
    near = bundled_curve(randomizer, curve, guarantee.honest, slots)
    return replace(
        guarantee,
        delta=near.delta(guarantee.epsilon),
        exact=False,
        method=f"{guarantee.method}; bundles of {slots:,} slots, drawn until they fit",
    )


def filled_bundle(
    randomizer: Randomizer, encoded: NDArray[Any], source: Source, slots: int
) -> Messages:
    """One person's messages, drawn again until they fit, and filled up with dummies."""
    payload = randomizer.send(encoded, source).payload
    while len(payload) > slots:
        payload = randomizer.send(encoded, source).payload
    if len(payload) < slots:
        payload = np.concatenate([payload, randomizer.alphabet.padding(slots - len(payload))])
    return Messages(payload, 1, np.array([slots]), secure=source.secure, bundled=True)
