"""A batch: all sealed messages of a survey in random order, as the analyzer gets them.

    bytes 0–3     "HCB1"
    bytes 4–11    the number of people, big-endian
    bytes 12–15   the size of one sealed message, big-endian
    then          the sealed messages, one after another

The number of people is public. A batch holds nothing else about the people.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.collect.refusals import Malformed
from headcount.core.cached import cached_property

_MAGIC = b"HCB1"
_HEAD = 16
_FINGERPRINT = 16  # bytes
_PART = 2**20  # bytes of a batch in one row of a database


@dataclass(frozen=True)
class SealedBatch:
    """The sealed messages of `people` people and of the shuffler. Each message has `size` bytes."""

    people: int
    size: int
    messages: bytes

    def __post_init__(self) -> None:
        if self.people < 1 or self.size < 1 or len(self.messages) % self.size:
            raise Malformed("a batch must consist of whole messages of at least one person")

    def __len__(self) -> int:
        return len(self.messages) // self.size

    @cached_property
    def data(self) -> bytes:
        return head(self.people, self.size) + self.messages

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the whole batch, in hexadecimal."""
        return hashlib.sha256(self.data).hexdigest()

    @classmethod
    def from_bytes(cls, data: bytes) -> "SealedBatch":
        if len(data) < _HEAD or data[:4] != _MAGIC:
            raise Malformed("a batch must begin with HCB1 and a head of 16 bytes")
        people, size = int.from_bytes(data[4:12], "big"), int.from_bytes(data[12:16], "big")
        return cls(people, size, data[_HEAD:])

    def rows(self, number: int) -> list[tuple[int, int, bytes]]:
        """The batch as rows of a database. Each row has the `number` of the survey, the number of a
        part of the batch, and the bytes of this part.
        """
        starts = range(0, len(self.data), _PART)
        return [
            (number, part, self.data[start : start + _PART]) for part, start in enumerate(starts)
        ]

    @classmethod
    def from_parts(cls, parts: Sequence[tuple[Any, ...]]) -> "SealedBatch":
        """The batch whose parts are in these rows, in order. Each row has one column, the bytes of
        a part.
        """
        return cls.from_bytes(b"".join(bytes(body) for (body,) in parts))


def head(people: int, size: int) -> bytes:
    """The bytes before the messages of a batch."""
    return _MAGIC + people.to_bytes(8, "big") + size.to_bytes(4, "big")


def first_copies(chunks: Iterable[bytes], size: int) -> NDArray[np.bool_]:
    """Whether each message is the first message with its bytes. Later messages are copies. If
    somebody else sends a copy of a sealed message, the message must not count twice.
    """
    prints = bytearray()
    for chunk in chunks:
        for at in range(0, len(chunk), size):
            prints += hashlib.blake2b(chunk[at : at + size], digest_size=_FINGERPRINT).digest()
    rows = np.frombuffer(prints, np.dtype((np.void, _FINGERPRINT)))
    first = np.zeros(len(rows), dtype=np.bool_)
    first[np.unique(rows, return_index=True)[1]] = True
    return first
