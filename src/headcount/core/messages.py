"""What travels from people to the analyzer.

A protocol's messages are integers of one NumPy type, its *alphabet*. People send different numbers
of them, so many people's messages are held as one flat payload; while they are still at the
clients, `counts` says how many belong to whom. The shuffler keeps the payload and throws the
boundaries away.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.errors import InvalidValue


@dataclass(frozen=True, eq=False)
class Alphabet:
    """The messages a protocol knows: integers from `low` to `high`, stored as `dtype`."""

    dtype: np.dtype[Any]
    low: int
    high: int

    @property
    def bits(self) -> int:
        """Bits that tell one message from another; 1 at least, since a message is there or not."""
        return max(1, (self.high - self.low).bit_length())

    def check(self, payload: NDArray[Any]) -> None:
        """Refuse a payload of another type, or with a message out of bounds."""
        if payload.dtype != self.dtype or payload.ndim != 1:
            raise InvalidValue(
                f"messages must be a vector of {self.dtype}, "
                f"got {payload.ndim} dimension(s) of {payload.dtype}"
            )
        # Bounds that the type itself keeps need no look at the data.
        fits = np.iinfo(self.dtype)
        too_low = self.low > fits.min and payload.size and payload.min() < self.low
        too_high = self.high < fits.max and payload.size and payload.max() > self.high
        if too_low or too_high:
            raise InvalidValue(
                f"messages must be between {self.low} and {self.high}, "
                f"got values from {payload.min()} to {payload.max()}"
            )


@dataclass(frozen=True, eq=False)
class Batch:
    """Messages of `users` people, as the analyzer is handed them: whose is whose is not said."""

    payload: NDArray[Any] = field(repr=False)
    users: int

    def __post_init__(self) -> None:
        if self.users < 1:
            raise InvalidValue(f"a batch must be of at least one person, got {self.users}")


@dataclass(frozen=True, eq=False)
class Messages(Batch):
    """Messages that still know whose they are: person i sent `counts[i]` of the payload, in order.

    `messages[i]` is one person's bundle; its bytes can travel alone and come back by `receive`.
    """

    counts: NDArray[np.integer] = field(repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.counts.shape != (self.users,):
            raise InvalidValue(
                f"there must be a number of messages for each of {self.users} people, "
                f"got {self.counts.size}"
            )

    @classmethod
    def one_each(cls, payload: NDArray[Any]) -> "Messages":
        # A broadcast 1 takes no memory, however large the crowd.
        return cls(payload, len(payload), np.broadcast_to(np.int64(1), len(payload)))

    @classmethod
    def join(cls, parts: Iterable["Messages"]) -> "Messages":
        """The messages of several groups of people as those of one."""
        listed = list(parts)
        if not listed:
            raise InvalidValue("there must be messages of at least one person to join, got none")
        return cls(
            np.concatenate([part.payload for part in listed]),
            sum(part.users for part in listed),
            np.concatenate([part.counts for part in listed]),
        )

    @classmethod
    def receive(cls, data: bytes, alphabet: Alphabet) -> "Messages":
        """One person's bundle, back from the bytes that `to_bytes` gave."""
        if len(data) % alphabet.dtype.itemsize:
            raise InvalidValue(
                f"a bundle must be whole messages of {alphabet.dtype.itemsize} byte(s), "
                f"got {len(data)} bytes"
            )
        wire = alphabet.dtype.newbyteorder("<")
        payload = np.frombuffer(data, dtype=wire).astype(alphabet.dtype)
        alphabet.check(payload)
        return cls(payload, 1, np.array([len(payload)], dtype=np.int64))

    def to_bytes(self) -> bytes:
        """One person's bundle for the wire: its messages, little-endian, nothing else."""
        if self.users != 1:
            raise InvalidValue(f"a bundle must be one person's, got {self.users} people's")
        wire = self.payload.dtype.newbyteorder("<")
        return self.payload.astype(wire, copy=False).tobytes()

    def __getitem__(self, person: int) -> "Messages":
        if not 0 <= person < self.users:
            raise IndexError(person)
        start = int(self.counts[:person].sum(dtype=np.int64))
        stop = start + int(self.counts[person])
        return Messages(self.payload[start:stop], 1, self.counts[person : person + 1])

    def __iter__(self) -> Iterator["Messages"]:
        stop = 0
        for person in range(self.users):
            start, stop = stop, stop + int(self.counts[person])
            yield Messages(self.payload[start:stop], 1, self.counts[person : person + 1])
