"""The messages of many people, made and counted in pieces, on all cores.

A piece consists of people of the same group whose messages are made at once. Each piece has its own
source of randomness. So the tally for a seed does not depend on batches of rows or on the number of
threads.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import reduce
from operator import add
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.core.protocol import Protocol, passed_on, tally_of
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.road.memory import workers

# The values of one piece, in several arrays. A worker joins these arrays.
Arrays: TypeAlias = Sequence[NDArray[Any]]
_Key = TypeVar("_Key", bound=Hashable)


class Piece(NamedTuple):
    """The encoded values of some people, with the protocol and the source that randomize them."""

    protocol: Protocol
    codes: Arrays
    source: Source


def joined(arrays: Arrays) -> NDArray[Any]:
    """One array with the values of all arrays."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def collect(protocol: Protocol, values: ArrayLike, source: Source) -> Tally:
    """The tally of a whole crowd's messages, after the shuffler has withheld or added some."""
    sent = tally_of_part(protocol, protocol.task.encode(values), source)
    return passed_on(protocol, sent, source)


def tally_of_part(protocol: Protocol, encoded: NDArray[Any], source: Source) -> Tally:
    """The tally of the messages of a part of the crowd. Messages are made for a limited number of
    people at a time.

    Nothing is shuffled, because a tally does not depend on the order of messages. Nothing is
    withheld, because only the tally of the whole crowd shows which messages are rare.
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
    """For each key, the sum of the tallies of all pieces with this key. Each worker processes one
    piece at a time.
    """
    waiting: deque[tuple[_Key, Future[Tally]]] = deque()
    out: dict[_Key, Tally] = {}

    def gather(most: int) -> None:
        while len(waiting) > most:
            key, future = waiting.popleft()
            tally = future.result()
            out[key] = out[key] + tally if key in out else tally

    with ThreadPoolExecutor(workers) as pool:
        for key, piece in pieces:
            waiting.append((key, pool.submit(_tally_of_piece, piece)))
            gather(2 * workers if workers > 1 else 0)
        gather(0)
    return out


def _tally_of_piece(piece: Piece) -> Tally:
    return tally_of_part(piece.protocol, joined(piece.codes), piece.source)


def workers_for(source: Source, protocols: Mapping[Any, Protocol], users: int) -> int:
    """The number of workers: one for each core, as far as memory allows.

    If the source cannot be divided into parts, there is only one worker, because two threads may
    not be able to use the source at the same time.
    """
    return 1 if type(source).part is Source.part else workers(protocols.values(), users)


def counted_pieces(
    protocol: Protocol, counts: NDArray[np.int64], source: Source
) -> Iterator[Piece]:
    """The pieces of a crowd in which `counts[v]` people hold value v. People are sorted by value.

    The order of people does not change the law of the tally.
    """
    ends, dtype = np.cumsum(counts), np.min_scalar_type(len(counts) - 1)
    size = protocol.randomizer.people_at_once
    for number, start in enumerate(range(0, int(ends[-1]), size)):
        stop = min(start + size, int(ends[-1]))
        first, last = np.searchsorted(ends, [start, stop - 1], side="right")
        values = np.arange(first, last + 1)
        inside = np.minimum(ends[values], stop) - np.maximum(ends[values] - counts[values], start)
        yield Piece(protocol, [np.repeat(values.astype(dtype), inside)], source.part(number))
