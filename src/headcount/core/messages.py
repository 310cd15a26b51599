"""What travels from people to the analyzer.

A protocol's messages are integers, or short rows of integers, of one NumPy type: its *alphabet*.
People send different numbers of them, so many people's messages are held as one flat payload; while
they are still at the clients, `counts` says how many belong to whom. The shuffler keeps the payload
and throws the boundaries away.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.errors import InvalidValue


@dataclass(frozen=True, init=False)
class Alphabet:
    """The messages a protocol knows: one or more integers each, every one from its own range.

    A bit is `Alphabet(np.uint8, range(2))`, a sign `range(-1, 2, 2)`, a share `range(modulus)`; a
    record has a range for each of its columns, and a payload of records is a row for each message.
    """

    dtype: np.dtype[np.integer]
    columns: tuple[range, ...]

    def __init__(self, dtype: type[np.integer], *columns: range) -> None:
        object.__setattr__(self, "dtype", np.dtype(dtype))
        object.__setattr__(self, "columns", columns)

    @property
    def bits(self) -> int:
        """Bits that tell one message from another; 1 at least, since a message is there or not."""
        return max(1, sum(((c[-1] - c[0]) // c.step).bit_length() for c in self.columns))

    @property
    def bytes_per_message(self) -> int:
        return self.dtype.itemsize * len(self.columns)

    def check(self, payload: NDArray[Any]) -> None:
        """Refuse a payload of another type or shape, or with a message that is none."""
        width = payload.shape[1] if payload.ndim == 2 else 1
        if payload.dtype != self.dtype or payload.ndim > 2 or width != len(self.columns):
            raise InvalidValue(
                f"messages must be {len(self.columns)} {self.dtype} each, "
                f"got {width} {payload.dtype} in {payload.ndim} dimension(s)"
            )
        if payload.size:
            for column, values in zip(self.columns, payload.reshape(-1, width).T, strict=True):
                self._check_column(column, values)

    def _check_column(self, column: range, values: NDArray[Any]) -> None:
        # Bounds that the type itself keeps need no look at the data.
        fits = np.iinfo(self.dtype)
        too_low = column[0] > fits.min and values.min() < column[0]
        too_high = column[-1] < fits.max and values.max() > column[-1]
        if too_low or too_high or (column.step > 1 and ((values - column[0]) % column.step).any()):
            raise InvalidValue(
                f"messages must be among {column}, "
                f"got some that are not, from {values.min()} to {values.max()}"
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
        if len(data) % alphabet.bytes_per_message:
            raise InvalidValue(
                f"a bundle must be whole messages of {alphabet.bytes_per_message} byte(s), "
                f"got {len(data)} bytes"
            )
        payload = np.frombuffer(data, alphabet.dtype.newbyteorder("<")).astype(alphabet.dtype)
        if len(alphabet.columns) > 1:
            payload = payload.reshape(-1, len(alphabet.columns))
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
