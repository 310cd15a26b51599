"""The privacy of all answers of one person together.

The curve of a release is the largest divergence over all its neighboring pairs, in both directions.
So the composition of these curves covers every combination of answers and directions. Every such
combination is possible, since the answer to a question does not limit the answers to others. So the
composition is attained if the pair of each release has the same curve in both directions. Then the
joint guarantee is exact. Otherwise it is an upper bound.

All of this holds only if the messages of one person cannot be linked.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from headcount.accounting.divergence import PointCurve
from headcount.accounting.joint_curve import joint_curve
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.protocol import Protocol

NEIGHBORS = "replace all answers of one person"
# Protocols whose pairs of views have the same curve in both directions.
_SYMMETRIC = (
    "central.geometric", "central.laplace", "central.sum-zero", "central.cube", "central.tree",
    "shuffle.fake-users", "shuffle.tree", "shuffle.margins",
)  # fmt: skip
_SAFE = 1 + 1e-12
_NEARLY = 1 - 1e-10  # an ε above this part of the budget is stated as the whole budget


def pure_sum(protocols: Sequence[Protocol], waves: int) -> float:
    """The sum of the pure epsilons of all releases, rounded up. Infinite if one is not pure."""
    pure = [
        math.inf if one.guarantee.delta else min(one.guarantee.epsilon, one.curve.epsilon(0.0))
        for one in protocols
    ]
    return waves * math.fsum(pure) * _SAFE


def added_up(
    protocols: Sequence[Protocol], budget: Budget, waves: int
) -> tuple[float, float] | None:
    """The sums of all epsilons and of all deltas, rounded up. None if they exceed the budget."""
    promises = [one.guarantee for one in protocols]
    epsilon = waves * math.fsum(one.epsilon for one in promises) * _SAFE
    delta = waves * math.fsum(one.delta for one in promises) * _SAFE
    within = epsilon <= budget.epsilon * _SAFE**2 and delta <= budget.delta
    return (min(epsilon, budget.epsilon), delta) if within else None


def joint(
    protocols: Sequence[Protocol], budget: Budget, crowd: Crowd, trust: Trust, waves: int = 1
) -> tuple[Guarantee, PrivacyCurve]:
    """The guarantee and the curve of all releases together, if each is made `waves` times."""
    alone = protocols[0].guarantee
    if len(protocols) == waves == 1 and alone.epsilon <= budget.epsilon:
        method = f"{alone.method}; messages of one person are not linked"
        return replace(alone, method=method, neighbors=NEIGHBORS), protocols[0].curve
    curve = joint_curve([one.curve for one in protocols], waves)
    pure, sums = pure_sum(protocols, waves), added_up(protocols, budget, waves)
    if pure <= budget.epsilon * _SAFE**2:
        # The curve is rounded up, and the guarantee must be a point of it.
        epsilon, delta, exact = max(pure, curve.epsilon(0.0)), 0.0, True
        epsilon = budget.epsilon if epsilon > budget.epsilon * _NEARLY else epsilon
        method = "the epsilons of all questions are added"
    elif sums is not None:
        epsilon, delta, exact = *sums, False
        method = "the epsilons and the deltas of all questions are added"
        curve = PointCurve(epsilon, delta)
    else:
        epsilon, delta = budget.epsilon, curve.delta(budget.epsilon)
        exact = all(_is_symmetric(one) for one in protocols)
        method = "composition of the privacy losses of all questions"
    if waves > 1:
        method += f", in {waves} waves"
    guarantee = Guarantee(
        epsilon=epsilon,
        delta=delta,
        trust=trust,
        exact=exact,
        method=f"{method}; messages of one person are not linked",
        honest=crowd.honest,
        neighbors=NEIGHBORS + (" in all waves" if waves > 1 else ""),
        relies_on=reliance(protocols),
    )
    return guarantee, curve


def reliance(protocols: Sequence[Protocol]) -> str:
    """Whom people must trust. It is empty if this is the same as usual in the trust model."""
    promises = [one.guarantee for one in protocols]
    if all(one.relies_as_usual for one in promises):
        return ""
    return "; and on ".join(dict.fromkeys(one.relies_on for one in promises))


def _is_symmetric(protocol: Protocol) -> bool:
    """Whether the largest divergence is that of one pair of views, in both directions.

    A `PointCurve` has only one known point. It does not belong to one pair of views. Boxes with a
    limit on ticks have such a curve.
    """
    known = protocol.guarantee.exact and not isinstance(protocol.curve, PointCurve)
    return known and protocol.name in _SYMMETRIC
