"""Limits on how much a person sends."""

import math
from dataclasses import dataclass
from typing import Protocol

from headcount.core import checks
from headcount.core.bundles import MOST_SLOTS
from headcount.core.errors import Infeasible, InvalidParameter
from headcount.core.table import short


class Sending(Protocol):
    """An object that states how much a person sends."""

    @property
    def messages_per_user(self) -> float: ...

    @property
    def slots(self) -> int: ...


@dataclass(frozen=True)
class Limits:
    """How much a person may send. None means that there is no limit.

    `messages` limits the expected number of messages, and `slots` limits the size of a bundle.
    """

    messages: float | None = None
    slots: int | None = None

    def __post_init__(self) -> None:
        if self.messages is not None:
            number = checks.real("max_messages", self.messages)
            if number <= 0:
                raise InvalidParameter(f"`max_messages` must be positive, got {short(number)}")
            object.__setattr__(self, "messages", number)
        if self.slots is not None:
            slots = checks.whole("max_slots", self.slots, low=1, high=MOST_SLOTS)
            object.__setattr__(self, "slots", slots)

    @property
    def fixed(self) -> int:
        """The largest number of messages that the limits allow if everybody sends the same number.
        It may be 0.
        """
        most = MOST_SLOTS if self.slots is None else self.slots
        return most if self.messages is None else math.floor(min(self.messages, most))

    def allow(self, sending: Sending) -> bool:
        """Whether people send no more than the limits allow. If bundles are not feasible, no limit
        on slots is met.
        """
        if self.messages is not None and sending.messages_per_user > self.messages:
            return False
        try:
            return self.slots is None or sending.slots <= self.slots
        except Infeasible:
            return False
