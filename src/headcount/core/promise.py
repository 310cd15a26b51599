"""Guarantees and errors that several protocols share."""

from headcount.core.errors import Infeasible
from headcount.core.guarantee import Guarantee
from headcount.core.protocol import Protocol
from headcount.core.table import short


def promise(
    protocol: Protocol,
    method: str,
    *,
    delta: float = 0.0,
    exact: bool = True,
    epsilon: float | None = None,
    honest: int | None = None,
    relies_on: str = "",
) -> Guarantee:
    """The guarantee at the budget's ε, or at a smaller ε. By default, it relies on all honest
    people of the crowd and on the usual assumptions of its trust model.
    """
    return Guarantee(
        epsilon=protocol.budget.epsilon if epsilon is None else epsilon,
        delta=delta,
        trust=protocol.trust,
        exact=exact,
        method=method,
        honest=protocol.crowd.honest if honest is None else honest,
        relies_on=relies_on,
    )


def promise_alone(protocol: Protocol) -> Guarantee:
    """The guarantee of a local protocol. It covers one person's messages alone."""
    epsilon = min(protocol.budget.epsilon, protocol.local_epsilon)
    return promise(protocol, "largest ratio of the randomizer's law", epsilon=epsilon)


def paper_is_not_private(protocol: Protocol) -> Infeasible:
    """The error for a protocol if the parameters of its paper exceed the budget."""
    return Infeasible(
        f"the paper's parameters for {protocol.name} do not satisfy epsilon="
        f"{short(protocol.budget.epsilon)}, delta={short(protocol.budget.delta)} with "
        f"{protocol.crowd.honest} honest people; the exact calibration does"
    )


def check_curve(protocol: Protocol) -> None:
    """Refuse a protocol whose rounded probabilities cost more δ than the budget allows."""
    budget = protocol.budget
    if protocol.curve.delta(budget.epsilon) > budget.delta:
        raise Infeasible(
            f"{protocol.name} cannot draw its noise exactly enough for epsilon="
            f"{short(budget.epsilon)}, delta={short(budget.delta)} with "
            f"{protocol.crowd.honest} honest people"
        )
