"""Divides the budget of a survey among its questions.

A relative error is a share of the possible range, divided by the weight of the question. The
largest relative error is as small as possible if all of them are equal: a release with a smaller
error could give some of its budget to the others. So all releases have the same relative error t.
Their joint δ falls as t grows. The split searches for the smallest t within the budget.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby

from scipy.optimize import brentq

from headcount.accounting.joint_curve import JointAccounts
from headcount.accounting.product_curve import COARSE, delta_near
from headcount.core import checks
from headcount.core.budget import LEAST_DELTA, Budget, Crowd, Trust
from headcount.core.bundles import RESERVED
from headcount.core.errors import Infeasible, InvalidParameter, UnknownName
from headcount.core.protocol import Protocol
from headcount.core.table import counted, short
from headcount.core.tasks.boxes import MOST_BOXES, Boxes
from headcount.core.tasks.histogram import Histogram
from headcount.protocols.registry import protocol, protocol_class
from headcount.survey.design import Ask, AskedTable, Design, Noise, Release
from headcount.survey.joint import check_within, joint
from headcount.survey.local import local_design
from headcount.survey.offers import Offer, PoissonOffer, ScaledOffer, least_split

# The protocol for each task, by trust model and by who adds the noise.
_CENTRAL = {
    "count": "central.geometric",
    "histogram": "central.sum-zero",
    "table": "central.sum-zero",
    "boxes": "central.cube",
    "sum": "central.geometric",
    "mean": "central.geometric",
    "distribution": "central.tree",
}
_PEOPLE = {
    "count": "shuffle.fake-users",
    "histogram": "shuffle.fake-users",
    "table": "shuffle.fake-users",
    "boxes": "shuffle.fake-user-boxes",
    "sum": "shuffle.split-and-mix",
    "mean": "shuffle.split-and-mix",
    "distribution": "shuffle.tree",
}
_SHUFFLER = {
    "count": "shuffle.noisy-shuffler",
    "histogram": "shuffle.noisy-shuffler",
    "table": "shuffle.noisy-shuffler",
    "boxes": "shuffle.noisy-shuffler",
    "sum": "shuffle.noisy-shuffler",
    "mean": "shuffle.noisy-shuffler",
    "distribution": "shuffle.tree",
}
_POISSON = ("shuffle.fake-users", "shuffle.fake-user-boxes", "shuffle.tree", "shuffle.margins")
# With fewer releases than this, composition gains at most 1 % over adding up the ε of geometric
# noise.
_MANY = 15
_MOST_CORRELATED = 4  # correlated noise is tried for at most this many questions
_CORRELATED_SLOTS = 16  # a person sends at most this many messages for each of these questions
_CLOSE = 1e-5  # an error is found up to this relative amount
_CORRECTIONS = 5  # how often an error from a quick search is corrected
YES_NO = Histogram(["no", "yes"])  # a count as a histogram of two buckets


def design(
    asks: Sequence[Ask],
    tables: Sequence[tuple[str, str]],
    budget: Budget,
    crowd: Crowd,
    trust: Trust,
    noise: Noise = "people",
    *,
    waves: int = 1,
) -> Design:
    """The releases for these questions. Raises `Infeasible` if the budget cannot be met.

    `tables` has pairs of ids of questions. The two-way table of each pair is released in addition
    to the answers.
    """
    checks.choice("noise", noise, ("people", "shuffler"))
    if not asks:
        raise InvalidParameter("a survey must have at least one question, got none")
    asked_tables = _tables(asks, tables)
    asks = [*asks, *(one.ask for one in asked_tables)]
    if trust is Trust.LOCAL:
        return replace(local_design(asks, budget, crowd, waves), tables=asked_tables)
    groups = _groups(asks, trust)
    sharing = len(groups) * waves
    offers = [_offer(group, budget, crowd, trust, noise, sharing) for group in groups]
    protocols = _split(offers, budget, crowd, trust, waves, added=noise == "shuffler")
    if trust is Trust.SHUFFLE and noise == "people" and waves == 1:
        protocols = _correlated(offers, protocols, budget, crowd) or protocols
    releases = tuple(
        Release(tuple(ask.id for ask in offer.asks), built, crowd.users, offer.asks)
        for offer, built in zip(offers, protocols, strict=True)
    )
    guarantee, curve = joint(protocols, budget, crowd, trust, waves)
    check_within(guarantee, budget, len(asks))
    return Design(
        trust, budget, crowd, tuple(asks), releases, guarantee, curve, waves,
        tables=asked_tables,
    )  # fmt: skip


def _tables(asks: Sequence[Ask], tables: Sequence[tuple[str, str]]) -> tuple[AskedTable, ...]:
    """The tables of these pairs of questions."""
    known = {ask.id: ask for ask in asks}
    for name in (name for pair in tables for name in pair):
        if name not in known:
            raise UnknownName(
                f"a question of a table must be one of {', '.join(known)}, got {name!r}"
            )
    return tuple(AskedTable(known[rows], known[columns]) for rows, columns in tables)


def _groups(asks: Sequence[Ask], trust: Trust) -> list[tuple[Ask, ...]]:
    """The questions of each release. In central trust, yes-no questions of equal weight share
    releases of up to `MOST_BOXES` questions, unless they name a protocol.
    """
    joined = [
        ask for ask in asks if trust is Trust.CENTRAL and ask.task.yes_no and ask.protocol is None
    ]
    groups: list[tuple[Ask, ...]] = []
    for _, alike in groupby(sorted(joined, key=lambda ask: ask.weight), lambda ask: ask.weight):
        together = list(alike)
        groups += [
            tuple(together[at : at + MOST_BOXES]) for at in range(0, len(together), MOST_BOXES)
        ]
    groups += [(ask,) for ask in asks if ask not in joined]
    return groups


def _offer(
    asks: tuple[Ask, ...], budget: Budget, crowd: Crowd, trust: Trust, noise: Noise, sharing: int
) -> Offer:
    ask, task = asks[0], asks[0].task
    options: Mapping[str, object] = ask.options
    if len(asks) > 1:
        task = Boxes([one.id for one in asks])
    name = ask.protocol
    if name is None:
        names = {Trust.CENTRAL: _CENTRAL, Trust.SHUFFLE: _PEOPLE}[trust]
        names = _SHUFFLER if noise == "shuffler" and trust is Trust.SHUFFLE else names
        name = names.get(task.name)
        if name is None:
            raise Infeasible(
                f"no protocol answers {ask.id!r} in {trust} trust if the {noise} add the noise"
            )
        if name == "shuffle.tree" and noise == "shuffler":
            options = {"noise": "shuffler", **options}
    elif protocol_class(name, task).trust is not trust:
        raise InvalidParameter(f"`protocol` of {ask.id!r} must be in {trust} trust, got {name}")
    if name == "shuffle.fake-users" and task.yes_no:
        task = YES_NO
    given = (asks, task, name, crowd, budget, sharing, options)
    if name in _POISSON and options.get("noise") != "shuffler":
        if not budget.delta:
            raise Infeasible(
                f"{name} needs delta above 0: it may happen that nobody sends noise",
                nearest={"delta": 1e-9},
            )
        return PoissonOffer(*given)
    return ScaledOffer(*given, points=33 if trust is Trust.CENTRAL else 9)


# Splits -----------------------------------------------------------------------------------------


def _split(
    offers: Sequence[Offer],
    budget: Budget,
    crowd: Crowd,
    trust: Trust,
    waves: int,
    *,
    added: bool,
) -> list[Protocol]:
    """The protocols of all offers, with equal relative errors within the budget."""
    scaled = [offer for offer in offers if isinstance(offer, ScaledOffer)]
    few = trust is Trust.CENTRAL and len(offers) * waves < _MANY
    if len(scaled) == len(offers) and (not budget.delta or added or few):
        # The ε of all releases are added. Together, the releases have δ = 1 − ∏(1 − δ_q) ≤ Σδ_q,
        # where δ_q is the δ of release q. A little ε is left: the sum of the curves' ε is rounded
        # up later, and must stay within the budget.
        error = least_split(scaled, budget.epsilon / waves * (1 - 1e-11))
        return [offer.build(error) for offer in offers]
    return _joint_split(offers, budget, crowd, trust, waves)


def _correlated(
    offers: Sequence[Offer], protocols: Sequence[Protocol], budget: Budget, crowd: Crowd
) -> list[Protocol] | None:
    """Correlated noise for a few yes-no questions of equal weight, or None if its error is not
    smaller than the error of `protocols`.

    Its privacy losses are near those of geometric noise, so composition gains nothing. Therefore ε
    and δ are divided among the questions. The error of `shuffle.fake-users` grows more slowly with
    the number of questions, so correlated noise is tried for only a few.
    """
    asks = [ask for offer in offers for ask in offer.asks]
    alike = all(ask.task.yes_no and ask.protocol is None for ask in asks)
    if not alike or len({ask.weight for ask in asks}) > 1 or len(asks) > _MOST_CORRELATED:
        return None
    share = len(asks) * (1 + 1e-12)
    each = Budget(budget.epsilon / share, budget.delta / share)
    # Geometric noise has a smaller error than correlated noise. If even this error is too large,
    # no search is needed.
    least = 1 / (math.sqrt(2) * math.sinh(each.epsilon / 2))
    if each.delta < LEAST_DELTA or least > 0.9 * protocols[0].standard_error():
        return None
    try:
        found = protocol(
            "shuffle.correlated", asks[0].task, each, crowd, max_slots=_CORRELATED_SLOTS
        )
    except Infeasible:
        return None
    better = found.standard_error() < protocols[0].standard_error()
    return [found] * len(asks) if better else None


def _joint_split(
    offers: Sequence[Offer], budget: Budget, crowd: Crowd, trust: Trust, waves: int
) -> list[Protocol]:
    # The search is less accurate than the final check, so it leaves a little δ.
    allowed = budget.delta * (1 - RESERVED) * (1 - 2 * COARSE)

    same: dict[Hashable, Offer] = {}
    alike = [same.setdefault(offer.key, offer) for offer in offers]

    @cache  # the ends of the bracket are needed twice
    def excess(log_error: float, quick: bool = True) -> float:
        error = math.exp(log_error)
        found = {key: offer.observations(error, quick=quick) for key, offer in same.items()}
        seen = tuple(found[offer.key] for offer in alike)
        delta = delta_near(JointAccounts(seen, waves), budget.epsilon, allowed)
        return math.log(max(delta, 1e-300) / allowed)

    low, high = _bracket(excess, offers)
    if high is None:
        raise Infeasible(
            f"the budget epsilon={short(budget.epsilon)}, delta={short(budget.delta)} is too "
            f"small for {counted(sum(len(offer.asks) for offer in offers), 'question')}",
            nearest={"delta": 10 * budget.delta},
        )
    best = high if low == high else float(brentq(excess, low, high, xtol=_CLOSE, rtol=1e-12))
    if any(offer.has_quick for offer in same.values()):
        # The true excess is a little larger than the quick one. Both have about the same slope.
        slope = (excess(best + 1e-3) - excess(best)) / 1e-3
        for _ in range(_CORRECTIONS):
            over = excess(best, quick=False)
            if abs(over) <= _CLOSE * abs(slope) or (over < 0 and low == high):
                break
            best -= over / slope
    step = 1e-4
    while True:
        made = {key: offer.build(math.exp(best)) for key, offer in same.items()}
        protocols = [made[offer.key] for offer in offers]
        if joint(protocols, budget, crowd, trust, waves)[0].delta <= budget.delta:
            return protocols
        best, step = best + step, 2 * step
        if step > 1:
            raise Infeasible("the joint privacy of all questions cannot be computed accurately")


def _bracket(
    excess: Callable[[float], float], offers: Sequence[Offer]
) -> tuple[float, float | None]:
    """The logarithms of two errors. The error that just meets the budget lies between them.

    If even the smallest error is within the budget, both logarithms are equal. If no error is
    within the budget, the second is None.
    """
    least = max(math.log(offer.errors[0]) for offer in offers)
    most = max(math.log(offer.errors[1]) for offer in offers)
    low = high = max(least, *(math.log(offer.guess) for offer in offers))
    if excess(high) <= 0:
        while low > least:
            low, high = max(least, low - 0.4), low
            if excess(low) > 0:
                return low, high
        return low, low
    while high < most:
        low, high = high, high + 0.4
        if excess(high) <= 0:
            return low, high
    return low, None
