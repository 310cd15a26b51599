"""Surveys in local trust: everybody answers some of the releases.

Each person answers s of R releases, and spends ε/s on each of them. A share π_r of the people
answers release r, and Σπ_r = s. The releases divide the line from 0 to s·2^32 into parts. The part
of release r has the length π_r·2^32. A device draws a number u below 2^32, without regard to any
value. It answers each release in whose part one of the numbers u, u + 2^32, u + 2·2^32, … lies.
Which releases a person answers is public, so no amplification by sampling is claimed.

Suppose that a share f of the n people in the crowd holds a value, and that the share π of the
people is asked. Let v be the variance of the noise if f is estimated from a single person. Then the
estimate of f has the variance v/(nπ) + f(1−f)·(1/(nπ) − 1/n)·n/(n−1). The second term comes from
the random choice of the people who are asked. Every interval includes this term, even if the crowd
is not seen as a sample of a population.

A relative error is an error, as a fraction of the possible range, divided by the weight of its
question. The number s and the shares π_r are chosen such that the largest relative error is as
small as possible.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.divergence import PointCurve
from headcount.accounting.geometric import moved_together_curve
from headcount.accounting.joint_curve import joint_curve
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.errors import Infeasible, InvalidParameter
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.protocol import Protocol
from headcount.core.source import Source
from headcount.core.task import Task
from headcount.core.tasks.boxes import Boxes
from headcount.protocols.registry import protocol, protocol_class, protocol_names
from headcount.survey.design import LINE, Ask, Design, Release
from headcount.survey.joint import NEIGHBORS, check_within, is_exact, stated, total

_BELOW = 1 - 1e-12  # each ε is reduced by this factor, so that rounded sums stay within the budget
_LISTED_WAVES = 500  # up to this number of waves, all privacy losses of the waves are listed
_FEWEST = 2  # on average, at least this many people answer a release, if there are enough people
# `asked` is this many standard deviations below the expected number of people. Fewer people answer
# with a probability of about 1e-9.
_DEVIATIONS = 6.0
# The protocols to choose from for a task. For other tasks, all protocols in local trust are tried.
_NAMES = {
    "count": ("local.randomized-response",),
    "boxes": ("local.some-boxes", "local.padded-boxes"),
    "distribution": ("local.tree",),
}


@dataclass(frozen=True)
class _Choice:
    """The protocol that a release of these questions would have with a given ε."""

    asks: tuple[Ask, ...]
    built: Protocol
    noise: float  # the variance of the relative error from noise, if only one person is asked
    spread: float  # the largest variance of one person's answer, as a relative error


def local_design(asks: Sequence[Ask], budget: Budget, crowd: Crowd, waves: int) -> Design:
    """The design whose largest relative error is the smallest. Each wave has the same design."""
    spent = of_wave(budget, waves)
    groups = _groups(asks)
    best: tuple[float, int, list[_Choice]] | None = None
    for each in range(1, len(groups) + 1):
        part = Budget(spent / each * _BELOW)
        choices = [_chosen(group, part, crowd) for group in groups]
        least = _least_share(len(choices), each, crowd.users)
        error = _error(choices, each, crowd.users, least)
        if best is None or error < best[0] * (1 - 1e-9):
            best = error, each, choices
    if best is None:
        raise InvalidParameter("a survey must have at least one question, got none")
    error, each, choices = best
    least = _least_share(len(choices), each, crowd.users)
    shares = _whole_shares([_share(one, error, crowd.users, least) for one in choices], each)
    releases = tuple(
        _release(choice, share, crowd) for choice, share in zip(choices, shares, strict=True)
    )
    guarantee, curve = promised(releases, budget, waves)
    check_within(guarantee, budget, len(asks))
    return Design(Trust.LOCAL, budget, crowd, tuple(asks), releases, guarantee, curve, waves, each)


def of_wave(budget: Budget, waves: int) -> float:
    """The ε that each wave may spend."""
    if waves == 1:
        return budget.epsilon
    low, high = budget.epsilon / waves * _BELOW, budget.epsilon
    if not budget.delta:
        return low
    allowed = budget.delta * (1 - 1e-5)  # curves of the releases are rounded up a little more
    for _ in range(40):
        middle = (low + high) / 2
        within = _of_waves(middle, waves).delta(budget.epsilon) <= allowed
        low, high = (middle, high) if within else (low, middle)
    return low


def _of_waves(epsilon: float, waves: int) -> PrivacyCurve:
    """The privacy curve of several waves, each with this ε. Of all ε-private mechanisms, randomized
    response has the largest curve. Its privacy losses are those of geometric noise.
    """
    if waves <= _LISTED_WAVES:
        return replace(moved_together_curve(total([epsilon], waves), waves), one_pair=False)
    return joint_curve([PointCurve(epsilon, 0.0)], waves)


def promised(
    releases: Sequence[Release], budget: Budget, waves: int
) -> tuple[Guarantee, PrivacyCurve]:
    """The guarantee and the privacy curve of all answers of one person in all waves, whichever
    releases the person answers. A person may answer different releases in each wave.
    """
    protocols = [one.protocol for one in releases]
    sets = [[protocols[at].guarantee for at in some] for some in answered_sets(releases)]
    epsilon = max(total(one.epsilon for one in some) for some in sets)
    delta = max(total(one.delta for one in some) for some in sets)
    exact = is_exact(protocols) and not delta
    curve: PrivacyCurve = PointCurve(epsilon, delta)
    method = "the epsilons of the questions that one person answers are added"
    if waves > 1 and not delta:
        alone = protocols[0].curve if len(protocols) == 1 else None
        curve = _of_waves(epsilon, waves) if alone is None else joint_curve([alone], waves)
    if waves == 1 or delta or not budget.delta or total([epsilon], waves) <= budget.epsilon:
        epsilon, delta = total([epsilon], waves), total([delta], waves)
        curve = PointCurve(epsilon, delta) if delta else curve
    else:
        epsilon, delta = budget.epsilon, curve.delta(budget.epsilon)
        exact = exact and curve.attained
        method += f"; composition of {waves} waves"
    promise = Guarantee(
        epsilon=stated(epsilon, budget), delta=delta, trust=Trust.LOCAL, exact=exact,
        method=method, honest=1,
        neighbors=f"{NEIGHBORS}{' in all waves' * (waves > 1)}; which questions a person answers "
        "is public",
    )  # fmt: skip
    return promise, curve


def answered_sets(releases: Sequence[Release]) -> list[tuple[int, ...]]:
    """All sets of releases that one person may answer together. A set has the indices of its
    releases.

    As u grows, the set changes only where a number u + k·2^32 enters or leaves the part of a
    release. So only these values of u are tried.
    """
    ends = accumulate(int(one.share) for one in releases)
    places = np.unique(np.array([0, *(end % LINE for end in ends)], dtype=np.uint64))
    drawn = np.transpose(_drawn(releases, places))
    return sorted({tuple(np.flatnonzero(some).tolist()) for some in drawn})


def questions_answered(releases: Sequence[Release]) -> tuple[int, int]:
    """The least and the largest number of questions that one person answers.

    If several yes-no questions are the boxes of one release, a person answers only some of these
    questions.
    """
    numbers = [
        int(one.protocol.parameters.get("boxes_each", len(one.ids))) if len(one.ids) > 1 else 1
        for one in releases
    ]
    every = [sum(numbers[at] for at in some) for some in answered_sets(releases)]
    return min(every), max(every)


def _groups(asks: Sequence[Ask]) -> list[tuple[Ask, ...]]:
    """The questions of each release. Yes-no questions of equal weight are the boxes of one release,
    unless they name a protocol.
    """
    groups: dict[object, list[Ask]] = {}
    for at, ask in enumerate(asks):
        alone = not ask.task.yes_no or ask.protocol is not None
        groups.setdefault(at if alone else ("yes-no", ask.weight), []).append(ask)
    return [tuple(group) for group in groups.values()]


def _chosen(asks: tuple[Ask, ...], budget: Budget, crowd: Crowd) -> _Choice:
    """The protocol with the smallest error, or the protocol that the question names."""
    ask = asks[0]
    task: Task = ask.task if len(asks) == 1 else Boxes([one.id for one in asks])
    if ask.protocol is not None and protocol_class(ask.protocol, task).trust is not Trust.LOCAL:
        raise InvalidParameter(
            f"`protocol` of {ask.id!r} must be in local trust, got {ask.protocol}"
        )
    names = _NAMES.get(task.name) or tuple(protocol_names(task, Trust.LOCAL))
    names = (ask.protocol,) if ask.protocol is not None else names
    found, refusal = [], Infeasible(f"no protocol in local trust answers {ask.id!r}")
    for name in names:
        try:
            found.append(protocol(name, task, budget, crowd, **ask.options))
        except Infeasible as error:
            refusal = error
    if not found:
        raise refusal
    built = min(found, key=lambda one: one.estimator.ranking_error(crowd.users))
    unit = ask.task.answer_size(crowd.users) * ask.weight
    noise = (built.estimator.ranking_error(crowd.users) / unit) ** 2 * crowd.users
    return _Choice(asks, built, noise, 0.25 / ask.weight**2)


def _least_share(releases: int, each: int, users: int) -> float:
    """The smallest share of people that a release may have, so that somebody answers it."""
    if users * each < releases:
        raise Infeasible(
            f"{releases} releases need at least {releases} people, got {users}",
            nearest={"users": releases},
        )
    return min(_FEWEST / users, each / releases)


def _share(choice: _Choice, error: float, users: int, least: float) -> float:
    """The share of people who must answer a release so that it has this relative error. The share
    is at least `least`, and at most 1.
    """
    needed = (choice.noise + choice.spread) / (users * error**2 + choice.spread)
    return min(1.0, max(needed, least))


def _error(choices: Sequence[_Choice], each: int, users: int, least: float) -> float:
    """The smallest relative error that all releases can have if everybody answers `each` of them.
    `least` is the smallest share of people that a release may have.
    """
    # The error cannot be smaller than if everybody answered all releases.
    low = max(math.sqrt(one.noise / users) for one in choices)
    high = 1e6 * low
    for _ in range(100):
        middle = math.sqrt(low * high)
        needed = math.fsum(_share(one, middle, users, least) for one in choices)
        enough = needed <= each * (1 + 1e-12)
        low, high = (low, middle) if enough else (middle, high)
    return high


def _whole_shares(shares: Sequence[float], each: int) -> list[int]:
    """The lengths of the parts of the line, for these shares. They are integers that add up to
    each·2^32, and none exceeds 2^32.
    """
    scale = each / math.fsum(shares)
    ends = [0, *(round(end * scale * LINE) for end in accumulate(shares))]
    parts = [min(LINE, high - low) for low, high in pairwise(ends)]
    left = each * LINE - sum(parts)
    for at, part in enumerate(parts):
        more = min(LINE - part, left)
        parts[at], left = part + more, left - more
    return parts


def _release(choice: _Choice, share: int, crowd: Crowd) -> Release:
    """The release with this protocol, if this share of the people answers it. Its protocol is built
    for `asked` people. It is very unlikely that fewer people answer.
    """
    asked, expected = people_asked(share, crowd.users)
    built = replace(choice.built, crowd=Crowd(asked))
    ids = tuple(ask.id for ask in choice.asks)
    return Release(ids, built, asked, choice.asks, share, expected, crowd.users)


def people_asked(share: int, users: int) -> tuple[int, int]:
    """The least and the average number of people who answer a release, if this share of `users`
    people answers it. Unless the least number is 1, fewer people answer with a probability of only
    about 1e-9.
    """
    part = share / LINE
    expected = max(1, round(users * part))
    missing = _DEVIATIONS * math.sqrt(users * part * (1 - part))
    return max(1, min(expected, math.floor(users * part - missing))), expected


def drawn_releases(design: Design, places: NDArray[np.uint64]) -> list[NDArray[np.bool_]]:
    """For each release, whether each person answers it. `places` has the numbers u that people's
    devices drew.
    """
    return _drawn(design.releases, places)


def _drawn(releases: Sequence[Release], places: NDArray[np.uint64]) -> list[NDArray[np.bool_]]:
    ends = [0, *accumulate(int(one.share) for one in releases)]
    found = []
    for low, high in pairwise(ends):
        # The smallest number u + k·2^32 that is at least `low` must be below `high`.
        first = -(-(low - places.astype(np.int64)) // LINE)
        found.append(places.astype(np.int64) + first * LINE < high)
    return found


def dealt(users: int, source: Source) -> NDArray[np.uint64]:
    """A number u for each person. The numbers are evenly spread, and in random order. So the number
    of people who answer a release differs from its expected value by at most one.
    """
    order = np.argsort(source.integers(users, np.uint64), kind="stable").astype(np.uint64)
    start = int(source.integers(1, np.uint32)[0])
    spread: NDArray[np.uint64] = (order * np.uint64(LINE)) // np.uint64(users)
    return (spread + np.uint64(start)) % np.uint64(LINE)
