"""What two releases promise together."""

import math
from dataclasses import replace

from headcount.core.budget import Trust
from headcount.core.guarantee import Guarantee

_TRUSTED = (Trust.CENTRAL, Trust.SHUFFLE, Trust.LOCAL)  # the most trust first
_SUMMED = "epsilon and delta are summed over both releases"


def joint_guarantee(first: Guarantee, second: Guarantee, *, same_people: bool) -> Guarantee:
    """The guarantee of two releases.

    If each person is in only one of them, the larger epsilon and the larger delta hold for
    everybody. If the same people are in both, the epsilons are added, and so are the deltas.
    """
    both = (first, second)
    epsilons, deltas = [one.epsilon for one in both], [one.delta for one in both]
    methods = [*dict.fromkeys(one.method for one in both)]
    reliance = dict.fromkeys(one.relies_on for one in both)
    neighbors = dict.fromkeys(one.neighbors for one in both)
    return replace(
        min(both, key=lambda one: _TRUSTED.index(one.trust)),
        epsilon=_sum_above(epsilons) if same_people else max(epsilons),
        delta=_sum_above(deltas) if same_people else max(deltas),
        exact=not same_people and first.exact and second.exact and epsilons[0] == epsilons[1],
        method="; ".join([*methods, _SUMMED] if same_people else methods),
        honest=min(one.honest for one in both),
        secure=first.secure and second.secure,
        relies_on="; and on ".join(reliance),
        neighbors="; or ".join(neighbors),
    )


def _sum_above(numbers: list[float]) -> float:
    """The sum, rounded up."""
    total = math.fsum(numbers)
    return math.nextafter(total, math.inf) if total else 0.0
