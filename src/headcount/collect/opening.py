"""Opening and counting sealed messages, in several processes.

Opening takes most of the analyzer's time, about 0.05 ms for each message. The processes get the key
and parts of the batch, and return counts. The counts of parts add up to those of the whole batch,
so any engine can open parts anywhere.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from headcount.collect.batch import SealedBatch, first_copies
from headcount.collect.sealing import Envelope
from headcount.core.errors import InvalidValue
from headcount.core.messages import Alphabet, Messages
from headcount.core.protocol import Protocol, tally_of
from headcount.core.tally import Tally

_PART = 8192  # messages that a process opens at a time
_FEW = 2000  # up to this many messages are opened in this process, which is faster


@dataclass(frozen=True)
class Opened:
    """What a part of a batch holds. `counts[i]` is the tally of the messages of release i, and
    `sent[i]` is their number. `dummies`, `refused` and `copies` are the numbers of dummies, of
    messages that were refused, and of copies of other messages. Copies are not opened.
    """

    counts: tuple[NDArray[np.int64], ...]
    sent: tuple[int, ...]
    dummies: int = 0
    refused: int = 0
    copies: int = 0

    @property
    def messages(self) -> int:
        """The number of messages in the part."""
        return sum(self.sent) + self.dummies + self.refused + self.copies


@dataclass(frozen=True)
class Opener:
    """Opens parts of a batch, and counts what they hold. It can be sent to other processes."""

    private: bytes
    envelope: Envelope
    protocols: tuple[Protocol, ...]

    def __call__(self, part: bytes) -> Opened:
        """The counts of sealed messages that lie one after another."""
        key = X25519PrivateKey.from_private_bytes(self.private)
        sizes = tuple(one.alphabet.bytes_per_message for one in self.protocols)
        size, opened = self.envelope.size, self.envelope.open
        payloads: list[list[bytes]] = [[] for _ in sizes]
        dummies = refused = 0
        for start in range(0, len(part), size):
            try:
                release, payload = opened(key, part[start : start + size], sizes)
            except InvalidValue:
                refused += 1
                continue
            if payload is None:
                dummies += 1
            else:
                payloads[release].append(payload)
        counts, sent = [], []
        for protocol, found in zip(self.protocols, payloads, strict=True):
            messages = _within(found, protocol.alphabet)
            refused += len(found) - len(messages)
            estimator = protocol.estimator
            empty = np.zeros(estimator.tally_size, dtype=np.int64)
            counts.append(estimator.count(messages) if len(messages) else empty)
            sent.append(len(messages))
        return Opened(tuple(counts), tuple(sent), dummies, refused)

    def added(self, parts: Iterable[Opened]) -> Opened:
        """All parts together. Counts of shares are added modulo their modulus."""
        zeros = [np.zeros(one.estimator.tally_size, dtype=np.int64) for one in self.protocols]
        total = Opened(tuple(zeros), (0,) * len(zeros))
        for part in parts:
            total = Opened(
                tuple(map(self._plus, self.protocols, total.counts, part.counts)),
                tuple(a + b for a, b in zip(total.sent, part.sent, strict=True)),
                total.dummies + part.dummies,
                total.refused + part.refused,
                total.copies + part.copies,
            )
        return total

    def _plus(
        self, protocol: Protocol, one: NDArray[np.int64], other: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        both: Tally = tally_of(protocol, one, 1, secure=True) + tally_of(
            protocol, other, 1, secure=True
        )
        return both.counts


def open_batch(batch: SealedBatch, opener: Opener, *, processes: int = 1) -> Opened:
    """Open all messages of a batch, each of them once."""
    first = first_copies([batch.messages], batch.size)
    return open_parts(
        kept_parts([batch.messages], batch.size, first), opener, len(batch), processes
    )


def open_parts(
    parts: Iterable[tuple[bytes, int]], opener: Opener, messages: int, processes: int
) -> Opened:
    """Open the parts that `kept_parts` yields. `messages` is their number of messages, including
    copies.
    """

    def opened() -> Iterator[Opened]:
        if processes == 1 or messages <= _FEW:
            yield from (replace(opener(part), copies=copies) for part, copies in parts)
            return
        # A server has threads. In a forked process, the locks of its threads would stay locked.
        spawned = get_context("spawn")
        running: deque[tuple[Future[Opened], int]] = deque()
        with ProcessPoolExecutor(
            processes, mp_context=spawned, initializer=_keep, initargs=(opener,)
        ) as pool:
            for part, copies in parts:
                running.append((pool.submit(_open, part), copies))
                if len(running) > 2 * processes:  # the parts that wait need memory
                    done, skipped = running.popleft()
                    yield replace(done.result(), copies=skipped)
            for done, skipped in running:
                yield replace(done.result(), copies=skipped)

    return opener.added(opened())


_kept: list[Opener] = []  # the opener of this process


def _keep(opener: Opener) -> None:
    _kept[:] = [opener]


def _open(part: bytes) -> Opened:
    return _kept[0](part)


def kept_parts(
    chunks: Iterable[bytes], size: int, first: NDArray[np.bool_]
) -> Iterator[tuple[bytes, int]]:
    """The messages of all chunks without copies, in parts, and the number of copies that were left
    out of each part. With these copies, a part has at most `_PART` messages.
    """
    number = 0
    for chunk in chunks:
        for start in range(0, len(chunk), _PART * size):
            part = chunk[start : start + _PART * size]
            wanted = first[number : number + len(part) // size]
            number += len(wanted)
            copies = len(wanted) - int(wanted.sum())
            if copies:
                rows = np.frombuffer(part, np.uint8).reshape(-1, size)
                part = rows[wanted].tobytes()
            yield part, copies


def _within(payloads: Sequence[bytes], alphabet: Alphabet) -> NDArray[Any]:
    """The messages within the alphabet. All others are left out."""
    try:
        return Messages.receive(b"".join(payloads), alphabet).payload
    except InvalidValue:
        good = b"".join(one for one in payloads if _fits(one, alphabet))
        return Messages.receive(good, alphabet).payload


def _fits(message: bytes, alphabet: Alphabet) -> bool:
    try:
        Messages.receive(message, alphabet)
    except InvalidValue:
        return False
    return True
