"""The privacy of all answers of one person together.

The privacy curve of a release is the largest hockey-stick divergence over all neighboring pairs of
the release, in both directions. So the composition of the curves of all releases covers every
combination of answers and directions. A view is the law of what an adversary sees. The composition
is exact if a single pair of views attains it. Two conditions are needed. Each release must have a
pair of views that attains its curve in both directions. And one person's answers must be able to
change in all these ways at once.

Answers to different questions do not limit each other. But the cell of a two-way table follows from
the answers to its two questions. If both answers change, the cell changes too. So the guarantee of
a survey with tables is exact if any two different answers to a question attain its curve, and any
two different cells attain the curve of the table. In an optional question with boxes, a person who
gives no answer cannot tick any box. So the guarantee of such a question is only an upper bound.

In shuffle trust, all of this holds only if the messages of one person cannot be linked.
"""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

from headcount.accounting.divergence import PointCurve
from headcount.accounting.joint_curve import joint_curve
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.errors import Infeasible
from headcount.core.guarantee import Guarantee, PrivacyCurve, rounded_up
from headcount.core.protocol import Protocol
from headcount.core.table import counted, short
from headcount.survey.answers import NO_ANSWER

NEIGHBORS = "replace all answers of one person"
_NEARLY = 1 - 1e-10  # an ε above this fraction of the budget is stated as the whole budget


def total(numbers: Iterable[float], times: int = 1) -> float:
    """`times` times the sum of all numbers, rounded up."""
    listed = list(numbers)
    if math.inf in listed:
        return math.inf
    exact = times * sum(map(Fraction, listed), Fraction(0))
    near = float(exact)
    return near if Fraction(near) >= exact else math.nextafter(near, math.inf)


def stated(epsilon: float, budget: Budget) -> float:
    """The ε to state. This is the ε of the budget if `epsilon` is only a little smaller, and
    otherwise `epsilon` itself.
    """
    return budget.epsilon if budget.epsilon * _NEARLY < epsilon <= budget.epsilon else epsilon


def joint(
    protocols: Sequence[Protocol], budget: Budget, crowd: Crowd, trust: Trust, waves: int = 1
) -> tuple[Guarantee, PrivacyCurve]:
    """The joint guarantee and the joint privacy curve of all releases, if each release is made
    `waves` times.

    Two ways are tried: all ε and all δ are added, or all privacy losses are composed. If one of
    these ways is within the budget, so is the guarantee. Otherwise, the δ of the guarantee is
    larger than the δ of the budget.
    """
    promises = [one.guarantee for one in protocols]
    curve = joint_curve([one.curve for one in protocols], waves)
    pure = total(map(_pure_epsilon, protocols), waves)
    epsilon, delta = (total(column, waves) for column in zip(*map(_pair, promises), strict=True))
    added = epsilon <= budget.epsilon and (
        delta <= budget.delta or delta < curve.delta(budget.epsilon)
    )
    if pure <= budget.epsilon:
        # The curve is rounded up, so its ε may be a little larger than the sum. The guarantee
        # should be a point on the curve.
        least = curve.epsilon(0.0)
        epsilon, delta = max(pure, least) if least <= budget.epsilon else pure, 0.0
        exact = is_exact(protocols)
        method = "the epsilons of all questions are added"
    elif len(protocols) == waves == 1 and added:
        exact, method = is_exact(protocols), promises[0].method
    elif added:
        exact = False
        method = "the epsilons and the deltas of all questions are added"
        curve = PointCurve(epsilon, delta)
    else:
        epsilon, delta = budget.epsilon, curve.delta(budget.epsilon)
        exact = is_exact(protocols) and curve.attained
        method = "composition of the privacy losses of all questions"
    if waves > 1:
        method += f", in {waves} waves"
    if trust is Trust.SHUFFLE:
        method += "; messages of one person are not linked"
    guarantee = Guarantee(
        epsilon=stated(epsilon, budget),
        delta=delta,
        trust=trust,
        exact=exact,
        method=method,
        honest=crowd.honest,
        neighbors=NEIGHBORS + (" in all waves" if waves > 1 else ""),
        relies_on=reliance(protocols),
    )
    return guarantee, curve


def check_within(guarantee: Guarantee, budget: Budget, questions: int) -> None:
    """Refuse a joint guarantee that exceeds the budget. `questions` is the number of questions."""
    if guarantee.epsilon <= budget.epsilon and guarantee.delta <= budget.delta:
        return
    raise Infeasible(
        f"the budget epsilon={short(budget.epsilon)}, delta={short(budget.delta)} is too small for "
        f"{counted(questions, 'question')}, which would spend epsilon="
        f"{rounded_up(guarantee.epsilon)}, delta={rounded_up(guarantee.delta)}",
        nearest={"delta": max(2 * guarantee.delta, budget.delta)},
    )


def _pair(promise: Guarantee) -> tuple[float, float]:
    return promise.epsilon, promise.delta


def _pure_epsilon(protocol: Protocol) -> float:
    """The largest privacy loss of a release. It is infinite if the guarantee has δ above 0."""
    promise = protocol.guarantee
    return math.inf if promise.delta else min(promise.epsilon, protocol.curve.epsilon(0.0))


def is_exact(protocols: Sequence[Protocol]) -> bool:
    """Whether the guarantees of all releases are exact, and one pair of answers can attain all of
    them at once.
    """
    exact = all(one.guarantee.exact and _every_answer(one) for one in protocols)
    tables = any(one.task.uses.shares == "cells" for one in protocols)
    return exact and (not tables or all(one.curve.attained for one in protocols))


def _every_answer(protocol: Protocol) -> bool:
    """Whether people can give every answer that the task of the release allows. In an optional
    question with boxes, they cannot tick boxes and give no answer at the same time.
    """
    task = protocol.task
    return task.value_kind != "collections" or NO_ANSWER not in (task.buckets or ())


def reliance(protocols: Sequence[Protocol]) -> str:
    """Whom people must trust, in words. The text is empty if all releases need only the trust that
    is usual in the trust model.
    """
    promises = [one.guarantee for one in protocols]
    if all(one.relies_as_usual for one in promises):
        return ""
    return "; and on ".join(dict.fromkeys(one.relies_on for one in promises))
