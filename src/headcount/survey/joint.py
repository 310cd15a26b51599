"""The privacy of all answers of one person together."""

import math
from collections.abc import Sequence

from headcount.accounting.divergence import PointCurve
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.protocol import Protocol

NEIGHBORS = "replace all answers of one person"


def joint(
    protocols: Sequence[Protocol], budget: Budget, crowd: Crowd, trust: Trust, waves: int
) -> tuple[Guarantee, PrivacyCurve]:
    """The guarantee and the curve of all releases together, if each is made `waves` times."""
    epsilon = waves * math.fsum(one.guarantee.epsilon for one in protocols)
    delta = waves * math.fsum(one.guarantee.delta for one in protocols)
    guarantee = Guarantee(
        epsilon=min(max(epsilon, budget.epsilon), epsilon * (1 + 1e-12)),
        delta=delta * (1 + 1e-12),
        trust=trust,
        exact=False,
        method="epsilon and delta are summed over all questions",
        honest=crowd.honest,
        neighbors=NEIGHBORS,
    )
    return guarantee, PointCurve(guarantee.epsilon, guarantee.delta)
