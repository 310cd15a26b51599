"""The joint guarantee of all releases of a survey, in every trust model."""

from collections.abc import Sequence

from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.survey.design import LINE, Release
from headcount.survey.joint import joint
from headcount.survey.local import promised


def promise_of(
    releases: Sequence[Release], budget: Budget, crowd: Crowd, waves: int = 1
) -> tuple[Guarantee, PrivacyCurve]:
    """The joint guarantee and the joint privacy curve of all releases, if each release is made
    `waves` times.
    """
    trust = releases[0].protocol.trust
    if trust is Trust.LOCAL:
        return promised(releases, budget, waves)
    return joint([one.protocol for one in releases], budget, crowd, trust, waves)


def releases_each(releases: Sequence[Release]) -> int:
    """The number of releases that each person answers."""
    return sum(one.share for one in releases) // LINE
