"""What people need to know before they trust an answer: remarks about budgets and shuffling."""

from collections.abc import Iterator, Sequence

from headcount.core.budget import Budget, Trust
from headcount.core.protocol import Protocol
from headcount.core.table import short

_LARGE_EPSILON = 10.0
_FEWER = 10  # δ should be below 1/users, by this factor
_ROUNDED = 1 + 1e-9  # a local epsilon is rounded up


def cautions(budget: Budget, protocols: Sequence[Protocol], users: int) -> Iterator[str]:
    """Remarks about a budget, and about the protocols that spend it on `users` people or rows."""
    least = 1 / (_FEWER * users)
    if budget.delta >= least:
        yield (
            f"δ = {short(budget.delta)} is large: everything about a person may become known with "
            f"this probability, so a common choice is below 1/people, here below {short(least, 2)}"
        )
    if budget.epsilon > _LARGE_EPSILON:
        yield (
            f"ε = {short(budget.epsilon)} is large: it protects little, and a common choice is 1 "
            "or less"
        )
    if any(_gains_nothing(one) for one in protocols):
        yield (
            "shuffling gains nothing with δ = 0 here: the error is that of local trust, unless "
            f"--delta is above 0, such as {short(min(1e-6, least), 1)}"
        )


def _gains_nothing(protocol: Protocol) -> bool:
    """Whether each person's messages alone are as private as the shuffled ones must be."""
    return (
        protocol.trust is Trust.SHUFFLE
        and not protocol.budget.delta
        and protocol.local_epsilon <= protocol.budget.epsilon * _ROUNDED
    )
