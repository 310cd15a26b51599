"""The shuffler, which hides the senders and the order of messages.

A protocol may also ask the shuffler to withhold or add messages.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.budget import MOST_USERS
from headcount.core.errors import InvalidParameter
from headcount.core.messages import Batch, Messages
from headcount.core.protocol import Protocol
from headcount.core.shuffler import Shuffler, joined
from headcount.core.source import Source
from headcount.core.table import counted
from headcount.randomness.draws import permutation


def shuffle(
    messages: Messages,
    source: Source,
    protocol: Protocol | None = None,
    *,
    least_copies: int = 1,
    dummy: tuple[int, ...] | None = None,
) -> Batch:
    """The messages of all people in a uniformly random order, without their senders.

    Pass the `protocol`, because it may require the shuffler to withhold rare messages or to add
    noise messages. Without a protocol, messages with fewer than `least_copies` copies are withheld,
    and messages that equal `dummy` are removed.
    """
    checks.instance("messages", messages, Messages)
    checks.instance("source", source, Source)
    least = checks.whole("least_copies", least_copies, low=1, high=MOST_USERS)
    if protocol is None:
        return mixed(Shuffler(least), messages, source, dummy)
    checks.instance("protocol", protocol, Protocol)
    if least > 1 or dummy is not None:
        raise InvalidParameter("`protocol` must be given alone, got `least_copies` or `dummy` too")
    return mixed(protocol.shuffler, messages, source, protocol.alphabet.dummy)


def mixed(
    shuffler: Shuffler, messages: Messages, source: Source, dummy: tuple[int, ...] | None
) -> Batch:
    """The messages that the shuffler passes on, in a uniformly random order, without their senders.

    If the shuffler withholds rare messages, it must also remove messages that equal `dummy`,
    because their number would reveal how many messages were withheld.
    """
    payload = shuffler.admitted(messages).payload
    if dummy is not None:
        payload = _without_dummies(payload, dummy)
    if shuffler.adds:
        payload = joined(shuffler.noise(messages.users, source), payload)
    if shuffler.withholds:
        _, where, copies = np.unique(payload, axis=0, return_inverse=True, return_counts=True)
        payload = payload[shuffler.passes(copies)[where]]
    order = permutation(source, len(payload))
    secure = messages.secure and source.secure
    return Batch(payload[order], messages.users, secure=secure, bundled=messages.bundled)


def _without_dummies(payload: NDArray[Any], dummy: tuple[int, ...]) -> NDArray[Any]:
    width = payload.shape[1] if payload.ndim > 1 else 1
    if not isinstance(dummy, tuple) or len(dummy) != width:
        raise InvalidParameter(
            f"`dummy` must be one message, a tuple of {counted(width, 'number')}, "
            f"got {checks.shown(dummy)}"
        )
    numbers = [checks.integer("dummy", number) for number in dummy]
    kept: NDArray[Any] = payload[(payload.reshape(-1, width) != numbers).any(axis=1)]
    return kept
