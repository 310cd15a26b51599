"""Messages of many people, made and counted piece by piece, on all cores.

A piece is as many people as their protocol takes at once. It has a source of its own, so that the
same seed gives the same tally, whatever the batches of rows and the number of threads.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from headcount.core.protocol import Protocol
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.data.memory import workers
from headcount.protocols.road import tally_of_part

_Key = TypeVar("_Key", bound=Hashable)


class Piece(NamedTuple):
    """Encoded values of some people, and how they are randomized."""

    protocol: Protocol
    codes: NDArray[Any]
    source: Source


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
    """How many workers there may be: as many as there are cores, and memory for. Only one if the
    source has no parts of its own, since nothing says that two threads may use it at once.
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
