"""Opening and counting sealed messages, in several processes.

Opening takes most of the analyzer's time, about 0.05 ms for each message. The processes get the key
and parts of the batch, and return counts. The counts of the parts add up to the counts of the whole
batch. So the parts may also be opened on other machines.
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
_FEW = 2000  # up to this many messages are opened here, since starting processes takes longer


@dataclass(frozen=True)
class Opened:
    """The contents of a part of a batch. `counts[i]` is the tally of the messages of release i, and
    `sent[i]` is the number of these messages. `dummies` is the number of dummies, `refused` is the
    number of messages that were refused, and `copies` is the number of copies of other messages.
    Copies are not opened.
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
    """Opens parts of a batch, and counts their messages. It can be sent to other processes.
    `private` is the private key, and `protocols` has the protocol of each release.
    """

    private: bytes
    envelope: Envelope
    protocols: tuple[Protocol, ...]

    def __call__(self, part: bytes) -> Opened:
        """Open and count the sealed messages in `part`, where they lie one after another."""
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
        """The sum of all parts. If messages are shares of a secret, their counts are added modulo
        the modulus of the shares.
        """
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
    """Open and count all messages of a batch. A message that has copies is opened once."""
    first = first_copies([batch.messages], batch.size)
    return open_parts(
        kept_parts([batch.messages], batch.size, first), opener, len(batch), processes
    )


def open_parts(
    parts: Iterable[tuple[bytes, int]], opener: Opener, messages: int, processes: int
) -> Opened:
    """Open the parts that `kept_parts` yields. `messages` is the number of messages in all parts,
    including copies.
    """

    def opened() -> Iterator[Opened]:
        if processes == 1 or messages <= _FEW:
            yield from (replace(opener(part), copies=copies) for part, copies in parts)
            return
        # A server has threads. A forked process would inherit the locks that they hold, and nobody
        # would ever release these locks.
        spawned = get_context("spawn")
        running: deque[tuple[Future[Opened], int]] = deque()
        with ProcessPoolExecutor(
            processes, mp_context=spawned, initializer=_keep, initargs=(opener,)
        ) as pool:
            for part, copies in parts:
                running.append((pool.submit(_open, part), copies))
                if len(running) > 2 * processes:  # more waiting parts would need more memory
                    done, skipped = running.popleft()
                    yield replace(done.result(), copies=skipped)
            for done, skipped in running:
                yield replace(done.result(), copies=skipped)

    return opener.added(opened())


_kept: list[Opener] = []  # in a new process, the opener that it got when it started


def _keep(opener: Opener) -> None:
    _kept[:] = [opener]


def _open(part: bytes) -> Opened:
    return _kept[0](part)


def kept_parts(
    chunks: Iterable[bytes], size: int, first: NDArray[np.bool_]
) -> Iterator[tuple[bytes, int]]:
    """The messages of all chunks in parts, without copies. Each part comes with the number of
    copies that were left out of it. `first` says which messages are not copies. Including copies, a
    part has at most `_PART` messages.
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
    """The messages within the alphabet, which has all possible messages. Others are left out."""
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
