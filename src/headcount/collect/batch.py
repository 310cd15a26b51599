"""A batch: all sealed messages of a survey in random order, as the shuffler hands them over.

    bytes 0–3     "HCB1"
    bytes 4–11    the number of people, big-endian
    bytes 12–15   the size of one sealed message, big-endian
    then          the sealed messages, one after another

The number of people is public. Nothing else about them is in a batch.
"""

import hashlib
from dataclasses import dataclass

from headcount.collect.refusals import Malformed
from headcount.core.cached import cached_property

_MAGIC = b"HCB1"
_HEAD = 16


@dataclass(frozen=True)
class SealedBatch:
    """The sealed messages of `people` people and of the shuffler, each of `size` bytes."""

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
        head = _MAGIC + self.people.to_bytes(8, "big") + self.size.to_bytes(4, "big")
        return head + self.messages

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
