"""Messages of many people, made and counted piece by piece, on all cores.

A piece is as many people as their randomizer takes at once. It has a source of its own, so that the
same seed gives the same tally for any batches of rows and any number of threads.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import reduce
from operator import add
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.core.protocol import Protocol, passed_on, tally_of
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.road.memory import workers

_Key = TypeVar("_Key", bound=Hashable)


class Piece(NamedTuple):
    """Encoded values of some people, and how they are randomized."""

    protocol: Protocol
    codes: NDArray[Any]
    source: Source


def collect(protocol: Protocol, values: ArrayLike, source: Source) -> Tally:
    """The tally of a whole crowd's messages. Rare ones are withheld if the protocol asks for it."""
    return passed_on(protocol, tally_of_part(protocol, protocol.task.encode(values), source))


def tally_of_part(protocol: Protocol, encoded: NDArray[Any], source: Source) -> Tally:
    """The tally of the messages of a part of the crowd, made for some people at a time.

    Nothing is shuffled, since the order of messages makes no difference to a tally. Nothing is
    withheld, since only the tally of the whole crowd shows which messages are rare.
    """
    randomizer, count = protocol.randomizer, protocol.estimator.count
    alphabet, size = randomizer.alphabet, randomizer.people_at_once
    pieces = (encoded[at : at + size] for at in range(0, len(encoded), size))
    sent = (randomizer.send(piece, source) for piece in pieces)
    tallies: Iterator[Tally] = (
        tally_of(protocol, count(alphabet.messages(one.payload)), one.users, secure=source.secure)
        for one in sent
    )
    return reduce(add, tallies)


def collected(pieces: Iterable[tuple[_Key, Piece]], workers: int) -> dict[_Key, Tally]:
    """The tallies of pieces, added up by key. Each worker takes one piece at a time."""
    waiting: deque[tuple[_Key, Future[Tally]]] = deque()
    out: dict[_Key, Tally] = {}

    def gather(most: int) -> None:
        while len(waiting) > most:
            key, future = waiting.popleft()
            tally = future.result()
            out[key] = out[key] + tally if key in out else tally

    with ThreadPoolExecutor(workers) as pool:
        for key, (protocol, codes, source) in pieces:
            waiting.append((key, pool.submit(tally_of_part, protocol, codes, source)))
            gather(2 * workers if workers > 1 else 0)
        gather(0)
    return out


def workers_for(source: Source, protocols: Mapping[Any, Protocol], users: int) -> int:
    """The number of workers: one for each core, as far as memory allows. Only one if the source has
    no parts of its own, since nothing says that two threads may use it at once.
    """
    return 1 if type(source).part is Source.part else workers(protocols.values(), users)


def counted_pieces(
    protocol: Protocol, counts: NDArray[np.int64], source: Source
) -> Iterator[Piece]:
    """The people of a crowd of whom `counts[v]` hold value v, in the order of values.

    The order of people makes no difference to the law of their tally.
    """
    ends, dtype = np.cumsum(counts), np.min_scalar_type(len(counts) - 1)
    size = protocol.randomizer.people_at_once
    for number, start in enumerate(range(0, int(ends[-1]), size)):
        stop = min(start + size, int(ends[-1]))
        first, last = np.searchsorted(ends, [start, stop - 1], side="right")
        values = np.arange(first, last + 1)
        inside = np.minimum(ends[values], stop) - np.maximum(ends[values] - counts[values], start)
        yield Piece(protocol, np.repeat(values.astype(dtype), inside), source.part(number))
