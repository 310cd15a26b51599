"""What people need to know before they trust an answer: remarks about budgets and shuffling."""

from collections.abc import Iterator, Sequence

from headcount.core.budget import Budget, Trust
from headcount.core.protocol import Protocol
from headcount.core.table import short

_LARGE_EPSILON = 10.0
_FEWER = 10  # δ should be smaller than 1/users by this factor
_ROUNDED = 1 + 1e-9  # a local epsilon is rounded up


def cautions(budget: Budget, protocols: Sequence[Protocol], users: int) -> Iterator[str]:
    """Remarks about a budget, and about the protocols that spend it on `users` people or rows."""
    most = 1 / (_FEWER * users)
    if budget.delta >= most:
        yield (
            f"δ = {short(budget.delta)} is large: with this probability, everything about a person "
            f"may become known. A common choice here is below {short(most, 2)}"
        )
    if budget.epsilon > _LARGE_EPSILON:
        shown = short(budget.epsilon)
        yield f"ε = {shown} is large: it protects little. A common choice is 1 or less"
    if any(_gains_nothing(one) for one in protocols):
        yield (
            "shuffling gains nothing with δ = 0 here: the error is that of local trust. Use a δ "
            f"above 0, such as --delta {short(min(1e-6, most), 1)}"
        )


def _gains_nothing(protocol: Protocol) -> bool:
    """Whether each person's messages alone are as private as the shuffled ones must be."""
    return (
        protocol.trust is Trust.SHUFFLE
        and not protocol.budget.delta
        and protocol.local_epsilon <= protocol.budget.epsilon * _ROUNDED
    )
