"""The shuffler: forgets who sent what, and in which order."""

from headcount.core.messages import Batch, Messages
from headcount.core.source import Source
from headcount.randomness.draws import permutation


def shuffle(messages: Messages, source: Source) -> Batch:
    """All messages in an exactly uniform order, without the boundaries between people."""
    order = permutation(source, len(messages.payload))
    return Batch(messages.payload[order], messages.users)
