"""Bundles: a person's messages, filled up with dummies to a fixed size that hides their number.

Every bundle keeps room for the value with the most messages, whatever value the person holds. The
rest of the bundle is for noise. Otherwise, a value with fewer messages would leave more room for
noise, and the law of the noise would depend on the value. The probability that the noise does not
fit is at most `Randomizer.overflow(slots)`. If the noise does not fit, all messages of this person
are drawn again. `FittedCurve` states the cost in privacy.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.budget import Budget
from headcount.core.guarantee import FittedCurve, Guarantee, PrivacyCurve, fitted_delta
from headcount.core.messages import Messages
from headcount.core.randomizer import Randomizer
from headcount.core.source import Source

MOST_SLOTS = 2**24
# The fraction of δ that protocols set aside for bundles and for rounded tables of probabilities.
RESERVED = 2.0**-10


def least_slots(
    randomizer: Randomizer, curve: PrivacyCurve, budget: Budget, honest: int
) -> int | None:
    """The smallest bundle size that the budget allows, or None if it would exceed `MOST_SLOTS`."""
    known = curve.delta(budget.epsilon)

    def too_few(slots: int) -> bool:
        redrawn = honest * randomizer.overflow(slots)
        return redrawn > 0 and fitted_delta(known, budget.epsilon, redrawn) > budget.delta

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
    redrawn = honest * randomizer.overflow(slots)
    return FittedCurve(curve, redrawn) if redrawn else curve


def bundled(
    guarantee: Guarantee, randomizer: Randomizer, curve: PrivacyCurve, slots: int
) -> Guarantee:
    """The guarantee if everybody sends a bundle of this size."""
    if not randomizer.overflow(slots):
        return guarantee
    fitted = bundled_curve(randomizer, curve, guarantee.honest, slots)
    return replace(
        guarantee,
        delta=fitted.delta(guarantee.epsilon),
        exact=False,
        method=f"{guarantee.method}; bundles of {slots:,} slots, noise drawn until it fits",
    )


def filled_bundle(
    randomizer: Randomizer, encoded: NDArray[Any], source: Source, slots: int
) -> Messages:
    """One person's messages, drawn again until the noise fits, and filled up with dummies."""
    payload = randomizer.send_fitting(encoded, source, slots).payload
    if len(payload) < slots:
        payload = np.concatenate([payload, randomizer.alphabet.padding(slots - len(payload))])
    return Messages(payload, 1, np.array([slots]), secure=source.secure, bundled=True)
