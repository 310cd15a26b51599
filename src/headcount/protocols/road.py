"""From values to a tally."""

from collections.abc import Iterable
from functools import reduce
from operator import add
from typing import Any

from numpy.typing import ArrayLike, NDArray

from headcount.core.protocol import Protocol, passed_on, tally_of
from headcount.core.source import Source
from headcount.core.tally import Tally


def collect(protocol: Protocol, values: ArrayLike, source: Source) -> Tally:
    """The tally of a whole crowd's messages. Rare ones are withheld if the protocol asks for it."""
    return passed_on(protocol, tally_of_part(protocol, protocol.task.encode(values), source))


def tally_of_part(protocol: Protocol, encoded: NDArray[Any], source: Source) -> Tally:
    """The tally of the messages of a part of the crowd, made for some people at a time.

    Nothing is shuffled, since the order of messages makes no difference to a tally. Nothing is
    withheld, since only the tally of the whole crowd shows which messages are rare.
    """
    randomizer, estimator = protocol.randomizer, protocol.estimator
    size = randomizer.people_at_once
    pieces = (encoded[at : at + size] for at in range(0, len(encoded), size))
    sent = (randomizer.send(piece, source) for piece in pieces)
    tallies: Iterable[Tally] = (
        tally_of(
            protocol,
            estimator.count(randomizer.alphabet.messages(messages.payload)),
            messages.users,
            secure=source.secure,
        )
        for messages in sent
    )
    return reduce(add, tallies)
