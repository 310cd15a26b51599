"""Divides the budget of a survey among its questions."""

from collections.abc import Sequence

from headcount.core import checks
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.errors import Infeasible, InvalidParameter
from headcount.core.protocol import Protocol
from headcount.protocols.registry import protocol, protocol_names
from headcount.survey.design import Ask, Design, Noise, Release
from headcount.survey.joint import joint


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
    """The releases for these questions. Raises `Infeasible` if the budget cannot be met."""
    checks.choice("noise", noise, ("people", "shuffler"))
    share = len(asks) * waves
    each = Budget(budget.epsilon / share, budget.delta / share)
    releases = tuple(
        Release((ask.id,), _built(ask, each, crowd, trust), crowd.users) for ask in asks
    )
    guarantee, curve = joint([one.protocol for one in releases], budget, crowd, trust, waves)
    return Design(trust, budget, crowd, tuple(asks), releases, guarantee, curve, len(asks))


def _built(ask: Ask, budget: Budget, crowd: Crowd, trust: Trust) -> Protocol:
    """The protocol with the smallest error, or the one that the question asks for."""
    if ask.protocol is not None:
        return protocol(ask.protocol, ask.task, budget, crowd, **ask.options)
    found: list[Protocol] = []
    for name in protocol_names(ask.task, trust):
        try:
            found.append(protocol(name, ask.task, budget, crowd))
        except (Infeasible, InvalidParameter):
            continue
    if not found:
        raise Infeasible(f"no protocol in {trust} trust answers {ask.id!r} with this budget")
    return min(found, key=lambda one: one.estimator.ranking_error(crowd.users))
