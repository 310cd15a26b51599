"""The shuffler: forgets who sent what, and in which order."""

import numpy as np

from headcount.core import checks
from headcount.core.budget import MOST_USERS
from headcount.core.errors import InvalidParameter
from headcount.core.messages import Batch, Messages
from headcount.core.source import Source
from headcount.randomness.draws import permutation


def shuffle(
    messages: Messages,
    source: Source,
    *,
    least_copies: int = 1,
    dummy: tuple[int, ...] | None = None,
) -> Batch:
    """All messages in an exactly uniform order, without the boundaries between people.

    Messages of which there are fewer than `least_copies` are left out, for protocols that hide
    rare values in this way; then a person's messages count only if it is no more than one.
    Dummies are left out if they are named; with such protocols they must
    be, since their number would tell how many messages were withheld.
    """
    checks.instance("messages", messages, Messages)
    checks.instance("source", source, Source)
    least_copies = checks.whole("least_copies", least_copies, low=1, high=MOST_USERS)
    payload = messages.payload if least_copies == 1 else messages.only_single().payload
    if dummy is not None:
        width = payload.shape[1] if payload.ndim > 1 else 1
        if not isinstance(dummy, tuple) or len(dummy) != width:
            raise InvalidParameter(
                f"`dummy` must be one message, a tuple of {width}, got {checks.shown(dummy)}"
            )
        numbers = [checks.integer("dummy", number) for number in dummy]
        payload = payload[(payload.reshape(-1, width) != numbers).any(axis=1)]
    if least_copies > 1:
        _, where, copies = np.unique(payload, axis=0, return_inverse=True, return_counts=True)
        payload = payload[copies[where] >= least_copies]
    order = permutation(source, len(payload))
    secure = messages.secure and source.secure
    return Batch(payload[order], messages.users, secure=secure, bundled=messages.bundled)
