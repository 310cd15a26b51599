"""Opening sealed messages in several processes.

Opening takes most of the analyzer's time, about 0.1 ms for each message. The processes get the key
and parts of the batch, and return what the messages hold, release by release.
"""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from headcount.collect.batch import SealedBatch
from headcount.collect.sealing import Envelope
from headcount.core.errors import InvalidValue
from headcount.core.messages import Alphabet, Messages

_PART = 4096  # messages that a process opens at a time
_FEW = 2000  # up to this many messages are opened here: starting processes takes longer


@dataclass(frozen=True)
class Opened:
    """The payloads of each release, the number of dummies, and the number of messages that were
    refused.
    """

    payloads: tuple[NDArray[Any], ...]
    dummies: int
    refused: int


@dataclass(frozen=True)
class _Opener:
    """Opens parts of a batch. It can be sent to other processes."""

    private: bytes
    envelope: Envelope
    sizes: tuple[int, ...]

    def __call__(self, part: bytes) -> tuple[list[bytes], int, int]:
        """The joined payloads of each release, and the numbers of dummies and of refusals."""
        key = X25519PrivateKey.from_private_bytes(self.private)
        found: list[list[bytes]] = [[] for _ in self.sizes]
        tally: Counter[str] = Counter()
        size = self.envelope.size
        for start in range(0, len(part), size):
            try:
                release, payload = self.envelope.open(key, part[start : start + size], self.sizes)
            except InvalidValue:
                tally["refused"] += 1
                continue
            if payload is None:
                tally["dummies"] += 1
            else:
                found[release].append(payload)
        return [b"".join(one) for one in found], tally["dummies"], tally["refused"]


def open_batch(
    batch: SealedBatch,
    key: X25519PrivateKey,
    envelope: Envelope,
    alphabets: tuple[Alphabet, ...],
    *,
    processes: int = 1,
) -> Opened:
    """Open all messages of a batch. Messages outside their alphabet are refused one by one."""
    sizes = tuple(alphabet.bytes_per_message for alphabet in alphabets)
    opener = _Opener(key.private_bytes_raw(), envelope, sizes)
    step = _PART * batch.size
    parts = [batch.messages[at : at + step] for at in range(0, len(batch.messages), step)]
    if processes > 1 and len(batch) > _FEW:
        # A server has threads. In a forked process, the locks of its threads would stay locked.
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            opened = list(pool.map(opener, parts))
    else:
        opened = [opener(part) for part in parts]
    refused = sum(one[2] for one in opened)
    payloads = []
    for number, alphabet in enumerate(alphabets):
        payload, wrong = _within(b"".join(one[0][number] for one in opened), alphabet)
        payloads.append(payload)
        refused += wrong
    return Opened(tuple(payloads), sum(one[1] for one in opened), refused)


def _within(data: bytes, alphabet: Alphabet) -> tuple[NDArray[Any], int]:
    """The messages within the alphabet, and the number of all others."""
    try:
        return Messages.receive(data, alphabet).payload, 0
    except InvalidValue:
        good = b"".join(one for one in _each(data, alphabet) if _fits(one, alphabet))
        wrong = (len(data) - len(good)) // alphabet.bytes_per_message
        return Messages.receive(good, alphabet).payload, wrong


def _each(data: bytes, alphabet: Alphabet) -> Iterator[bytes]:
    size = alphabet.bytes_per_message
    return (data[at : at + size] for at in range(0, len(data), size))


def _fits(message: bytes, alphabet: Alphabet) -> bool:
    try:
        Messages.receive(message, alphabet)
    except InvalidValue:
        return False
    return True
