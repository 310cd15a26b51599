"""The shuffler. It removes senders and order from messages, and withholds rare messages."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.budget import MOST_USERS
from headcount.core.errors import InvalidParameter
from headcount.core.messages import Batch, Messages
from headcount.core.protocol import Protocol
from headcount.core.source import Source
from headcount.randomness.draws import permutation


@dataclass(frozen=True)
class Shuffler:
    """A shuffler with its two settings.

    Messages with fewer than `least_copies` copies are withheld, for protocols that hide rare values
    in this way. If `least_copies` is above 1, a person who sends several messages is left out,
    because their copies could make a rare message pass. If `dummy` is given, dummies with this
    message are removed. They must be removed if rare messages are withheld, because the number of
    dummies would reveal how many messages were withheld.
    """

    least_copies: int = 1
    dummy: tuple[int, ...] | None = None

    @classmethod
    def of(cls, protocol: Protocol) -> "Shuffler":
        """The shuffler that a protocol asks for."""
        return cls(protocol.least_copies, protocol.alphabet.dummy)

    @property
    def withholds(self) -> bool:
        """Whether rare messages are withheld."""
        return self.least_copies > 1

    def mix(self, messages: Messages, source: Source) -> Batch:
        """The messages that are passed on, in a uniformly random order, without their senders."""
        payload = self.admitted(messages).payload
        if self.dummy is not None:
            payload = self._without_dummies(payload, self.dummy)
        if self.withholds:
            _, where, copies = np.unique(payload, axis=0, return_inverse=True, return_counts=True)
            payload = payload[self.passes(copies)[where]]
        order = permutation(source, len(payload))
        secure = messages.secure and source.secure
        return Batch(payload[order], messages.users, secure=secure, bundled=messages.bundled)

    def admitted(self, messages: Messages) -> Messages:
        """The messages of the people who are not left out."""
        return messages.only_single() if self.withholds else messages

    def passes(self, copies: Any) -> Any:
        """Whether a message with this number of copies is passed on. `copies` may be an array."""
        return copies >= self.least_copies

    @staticmethod
    def _without_dummies(payload: NDArray[Any], dummy: tuple[int, ...]) -> NDArray[Any]:
        width = payload.shape[1] if payload.ndim > 1 else 1
        if not isinstance(dummy, tuple) or len(dummy) != width:
            raise InvalidParameter(
                f"`dummy` must be one message, a tuple of {width}, got {checks.shown(dummy)}"
            )
        numbers = [checks.integer("dummy", number) for number in dummy]
        kept: NDArray[Any] = payload[(payload.reshape(-1, width) != numbers).any(axis=1)]
        return kept


def shuffle(
    messages: Messages,
    source: Source,
    *,
    least_copies: int = 1,
    dummy: tuple[int, ...] | None = None,
) -> Batch:
    """All messages in a uniformly random order, without the boundaries between people.

    `Shuffler` explains `least_copies` and `dummy`.
    """
    checks.instance("messages", messages, Messages)
    checks.instance("source", source, Source)
    least = checks.whole("least_copies", least_copies, low=1, high=MOST_USERS)
    return Shuffler(least, dummy).mix(messages, source)
