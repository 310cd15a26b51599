"""The guarantee of two releases together."""

import math
from dataclasses import replace

from headcount.core.budget import Trust
from headcount.core.guarantee import Guarantee

_TRUSTED = (Trust.CENTRAL, Trust.SHUFFLE, Trust.LOCAL)  # from the most trust to the least
_SUMMED = "epsilon and delta are summed over both releases"


def joint_guarantee(
    first: Guarantee, second: Guarantee, users: tuple[int, int], *, same_people: bool
) -> Guarantee:
    """The guarantee of two releases together. `users` has the number of people in each.

    If each person is in only one release, the larger epsilon and the larger delta hold for
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
        honest=_honest(both, users, same_people=same_people),
        secure=first.secure and second.secure,
        relies_on="; and on ".join(reliance),
        neighbors="; or ".join(neighbors),
    )


def _honest(both: tuple[Guarantee, Guarantee], users: tuple[int, int], *, same_people: bool) -> int:
    """How many people in both crowds together must be honest, so that each crowd certainly has the
    number of honest people that its guarantee needs.

    In the worst case, all dishonest people are in one crowd. In central and local trust, people do
    not rely on each other.
    """
    spare = [
        people - one.honest
        for people, one in zip(users, both, strict=True)
        if one.trust is Trust.SHUFFLE and one.honest > 1
    ]
    if not spare:
        return min(one.honest for one in both)
    return (max(users) if same_people else sum(users)) - min(spare)


def _sum_above(numbers: list[float]) -> float:
    """The sum, rounded up."""
    total = math.fsum(numbers)
    return math.nextafter(total, math.inf) if total else 0.0
