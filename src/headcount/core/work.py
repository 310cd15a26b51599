"""An estimate of the time that messages take. It depends only on public facts.

The estimate is rough: it says whether an answer takes seconds, hours or weeks. Most protocols take
a few nanoseconds for each byte of a message. Some estimators compare every message with many
buckets, and state this time themselves.
"""

from collections.abc import Hashable, Mapping
from typing import TypeVar

from headcount.core.budget import Trust
from headcount.core.errors import Infeasible
from headcount.core.protocol import Protocol
from headcount.core.table import counted

_Group = TypeVar("_Group", bound=Hashable)
_BYTE = 6e-9  # the seconds that one core takes to draw and count one byte of messages
MOST_SECONDS = 1800.0  # an answer that takes one core longer than this is refused


def seconds_of_messages(protocol: Protocol, users: int) -> float:
    """About how many seconds one core takes to make and count the messages of this many people. In
    central trust, there are no messages.
    """
    if protocol.trust is Trust.CENTRAL:
        return 0.0
    one = _BYTE * protocol.alphabet.bytes_per_message + protocol.estimator.seconds_per_message
    return users * protocol.messages_per_user * one


def can_be_drawn_at_once(protocol: Protocol) -> bool:
    """Whether the tally of all messages can be drawn in a single step. Such a draw has only
    approximately the right law, so a part of δ must pay for the difference.
    """
    return protocol.guarantee.delta > 0 and protocol.estimator.simulates_exactly


def check_work(protocols: Mapping[_Group, Protocol], users: Mapping[_Group, int]) -> None:
    """Refuse messages that take too long to make and count. Each group has its own protocol."""
    seconds = sum(seconds_of_messages(one, users[group]) for group, one in protocols.items())
    if seconds <= MOST_SECONDS:
        return
    names = ", ".join(dict.fromkeys(one.name for one in protocols.values()))
    everybody = sum(users[group] for group in protocols)
    raise Infeasible(
        f"the messages of {names} take one core about {shown_time(seconds)}, but must take at most "
        f"{shown_time(MOST_SECONDS)}; fewer buckets or another protocol take less time",
        nearest={"users": int(everybody * MOST_SECONDS / seconds)},
    )


def shown_time(seconds: float) -> str:
    """A time in words, rounded: "30 minutes"."""
    units = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
    size, name = next(
        (unit for unit in units if seconds >= 2 * unit[0]), units[-1]
    )  # a unit is used from two on: "90 minutes", but "2 hours"
    return counted(max(1, round(seconds / size)), name)
