"""The best protocol for a question. Planning takes a while, so a plan is made only if needed."""

from contextlib import suppress
from typing import TYPE_CHECKING, Unpack

from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.errors import Infeasible
from headcount.core.protocol import Protocol
from headcount.core.task import Task
from headcount.protocols.registry import outside_names, own_names, protocol

if TYPE_CHECKING:
    from headcount.planner.wishes import LimitArguments, Purpose


def best_protocol(
    task: Task,
    budget: Budget,
    crowd: Crowd,
    trust: Trust | str | None,
    *,
    purpose: "Purpose | str" = "accuracy",
    **limits: "Unpack[LimitArguments]",
) -> Protocol:
    """The best protocol of a trust model. `Plan` defines "best", and `plan` explains the limits.

    Without limits, the protocol has its default options. With `trust=None`, protocols of all trust
    models compete.
    """
    if not limits and purpose == "accuracy" and trust == Trust.CENTRAL:
        found = _best_central(task, budget, crowd)
        if found is not None:
            return found
    from headcount.planner.plan import plan

    if limits or purpose != "accuracy":
        return plan(task, budget, crowd, trust=trust, purpose=purpose, **limits).protocol()
    built: dict[str, Protocol] = {}

    def keep(made: Protocol) -> None:
        built[made.name] = made

    ranked = plan(task, budget, crowd, trust=trust, keep=keep)
    return built.get(ranked.best.protocol) or ranked.protocol()


def _best_central(task: Task, budget: Budget, crowd: Crowd) -> Protocol | None:
    """The central protocol with the least expected error. In central protocols, each person sends
    one message, and calibration is quick, so no plan is needed to find the best of them.

    The result is None if a plan must decide. A plan must decide if there are protocols from outside
    Headcount, whose code may fail. It must also decide if no protocol fits, because a plan says why
    protocols were refused.
    """
    if outside_names(task, Trust.CENTRAL):
        return None
    built = []
    for name in own_names(task, Trust.CENTRAL):
        with suppress(Infeasible):
            built.append(protocol(name, task, budget, crowd))
    return min(built, key=lambda one: float(one.estimator.ranking_error(crowd.users)), default=None)
