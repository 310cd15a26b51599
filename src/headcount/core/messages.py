"""The messages that people send to the analyzer.

Each message is an integer, or a short row of integers. All messages of a protocol have the same
NumPy type and the same ranges. The type and the ranges are the protocol's *alphabet*. People may
send different numbers of messages, so the messages of many people are stored in one flat array, the
*payload*. Before shuffling, `counts` says how many messages each person sent. The shuffler mixes
the payload and drops the counts.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.errors import InvalidValue
from headcount.core.table import counted


@dataclass(frozen=True, init=False)
class Alphabet:
    """The possible messages of a protocol. A message consists of one or more integers, each from
    its own range.

    For example, a bit has the range `range(2)`, a sign has `range(-1, 2, 2)`, and a secret share
    has `range(modulus)`. If messages consist of several integers, the payload has a row for each
    message and a column for each integer, and each column has its own range. A `dummy` fills up a
    bundle and is not counted. It lies outside the ranges.
    """

    dtype: np.dtype[np.integer]
    columns: tuple[range, ...]
    dummy: tuple[int, ...] | None

    def __init__(
        self, dtype: type[np.integer], *columns: range, dummy: tuple[int, ...] | None = None
    ) -> None:
        object.__setattr__(self, "dtype", np.dtype(dtype))
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "dummy", dummy)

    @classmethod
    def numbers(cls, count: int, *, dummies: bool = False) -> "Alphabet":
        """The numbers 0, …, count − 1, in the smallest sufficient type. The dummy, if any, is
        `count`.
        """
        dtype = np.min_scalar_type(count if dummies else count - 1).type
        return cls(dtype, range(count), dummy=(count,) if dummies else None)

    @classmethod
    def packed(cls, bits: int) -> "Alphabet":
        """Rows of `bits` bits, packed eight to a byte. Bit i has the value 2^(i mod 8) in byte
        ⌊i/8⌋.
        """
        full, rest = divmod(bits, 8)
        return cls(np.uint8, *[range(256)] * full, *[range(1 << rest)] * (rest > 0))

    @property
    def bits(self) -> int:
        """The number of bits that distinguish messages. It is at least 1. Even if only one message
        is possible, the fact that it was sent carries information.
        """
        return max(1, sum(((c[-1] - c[0]) // c.step).bit_length() for c in self.columns))

    @property
    def bytes_per_message(self) -> int:
        """The number of bytes that one message takes in a payload."""
        return self.dtype.itemsize * len(self.columns)

    @property
    def dummy_bytes(self) -> bytes | None:
        """The dummy as `to_bytes` writes it, or None if there are no dummies."""
        if self.dummy is None:
            return None
        return np.array(self.dummy, dtype=self.dtype.newbyteorder("<")).tobytes()

    def messages(self, payload: NDArray[Any]) -> NDArray[Any]:
        """The messages of a payload: checked, and without dummies."""
        checks.instance("payload", payload, np.ndarray)
        width = payload.shape[1] if payload.ndim == 2 else 1
        if payload.dtype != self.dtype or payload.ndim > 2 or width != len(self.columns):
            raise InvalidValue(
                f"every message must be {counted(len(self.columns), 'number')} of type "
                f"{self.dtype}, got {counted(width, 'number')} of type {payload.dtype} in "
                f"{counted(payload.ndim, 'dimension')}"
            )
        if self.dummy is not None and self._misfit(payload):
            rows = payload.reshape(-1, width)
            payload = payload[(rows != np.array(self.dummy, dtype=self.dtype)).any(axis=1)]
        if misfit := self._misfit(payload):
            column, values = misfit
            raise InvalidValue(
                f"every message must be in {column}, got values from {values.min()} to "
                f"{values.max()}"
            )
        return payload

    def padding(self, count: int) -> NDArray[Any]:
        """A payload of `count` dummies."""
        rows = np.tile(np.array(self.dummy, dtype=self.dtype), (count, 1))
        return rows if len(self.columns) > 1 else rows[:, 0]

    def _misfit(self, payload: NDArray[Any]) -> tuple[range, NDArray[Any]] | None:
        """The range and the values of the first column with a number outside its range."""
        if payload.size:
            limits = np.iinfo(self.dtype)
            everything = range(limits.min, limits.max + 1)  # all numbers of the type
            columns = payload.reshape(len(payload), -1).T
            for column, values in zip(self.columns, columns, strict=True):
                if column != everything and not self._fits(column, values):
                    return column, values
        return None

    def _fits(self, column: range, values: NDArray[Any]) -> bool:
        # A bound that the type itself enforces is not checked.
        type_range = np.iinfo(self.dtype)
        too_low = column[0] > type_range.min and values.min() < column[0]
        too_high = column[-1] < type_range.max and values.max() > column[-1]
        between = column.step > 1 and ((values - column[0]) % column.step).any()
        return not (too_low or too_high or between)


@dataclass(frozen=True, eq=False)
class Batch:
    """Messages of `users` people, as the analyzer gets them. Nothing says who sent which message.

    `secure` says whether all random bits for the messages were secure. For messages that arrive as
    bytes, this is unknown and assumed to be true. `bundled` says whether people may have drawn
    their messages again until the messages fit into a bundle. It is assumed to be true for messages
    that arrive as bytes.
    """

    payload: NDArray[Any] = field(repr=False)
    users: int
    secure: bool = field(default=True, kw_only=True)
    bundled: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        checks.instance("payload", self.payload, np.ndarray)
        if checks.whole("users", self.users, low=-(2**63), high=2**63) < 1:
            raise InvalidValue(f"a batch must come from at least one person, got {self.users}")


@dataclass(frozen=True, eq=False)
class Messages(Batch):
    """Messages whose senders are still known. The payload lists the messages person by person, and
    person i sent `counts[i]` of them.

    `messages[i]` is the bundle of person i. `to_bytes` turns a bundle into bytes, and `receive`
    reads these bytes.
    """

    counts: NDArray[np.integer] = field(repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.instance("counts", self.counts, np.ndarray)
        if self.counts.shape != (self.users,):
            raise InvalidValue(
                f"there must be a count for each of {self.users} people, got {self.counts.size}"
            )

    @classmethod
    def one_each(cls, payload: NDArray[Any]) -> "Messages":
        """Messages of people who sent one message each."""
        # A broadcast 1 takes no memory, even for a large crowd.
        return cls(payload, len(payload), np.broadcast_to(np.int64(1), len(payload)))

    @classmethod
    def join(cls, parts: Iterable["Messages"]) -> "Messages":
        """The messages of several groups of people, joined into one group."""
        listed = list(parts)
        if not listed:
            raise InvalidValue("there must be messages of at least one person to join, got none")
        return cls(
            np.concatenate([part.payload for part in listed]),
            sum(part.users for part in listed),
            np.concatenate([part.counts for part in listed]),
            secure=all(part.secure for part in listed),
            bundled=any(part.bundled for part in listed),
        )

    def plus(self, people: NDArray[np.integer], extra: NDArray[Any]) -> "Messages":
        """These messages together with the messages in `extra`. Person `people[j]` sent `extra[j]`.
        `people` must be sorted.
        """
        if not len(people):
            return self
        starts = np.flatnonzero(np.diff(people, prepend=-1))  # where each sender's extras begin
        senders, copies = people[starts], np.diff(starts, append=len(people))
        ends = _sums_through(self.counts, senders)  # where each sender's own messages stop
        each = self.counts[:1] if _all_equal(self.counts) else self.counts
        most = int(each.max()) + int(copies.max())
        counts = np.empty(self.users, dtype=np.min_scalar_type(most))
        counts[:] = each
        counts[senders] += copies.astype(counts.dtype)
        payload = np.insert(self.payload, np.repeat(ends, copies), extra, axis=0)
        return replace(self, payload=payload, counts=counts)

    def only_single(self) -> "Messages":
        """Only the messages of people who sent exactly one message. A person who sends several
        copies could lift a rare message to the number of copies that the shuffler passes on.
        """
        single = self.counts <= 1
        payload = self.payload[np.repeat(single, self.counts)]
        return replace(self, payload=payload, counts=np.where(single, self.counts, 0))

    @classmethod
    def receive(cls, data: bytes, alphabet: Alphabet, slots: int | None = None) -> "Messages":
        """One person's bundle, read from the bytes that `to_bytes` wrote.

        If `slots` is given, bundles of any other size are refused.
        """
        size = alphabet.bytes_per_message
        if len(data) % size:
            raise InvalidValue(
                f"a bundle must consist of whole messages of {counted(size, 'byte')}, "
                f"got {counted(len(data), 'byte')}"
            )
        payload = np.frombuffer(data, alphabet.dtype.newbyteorder("<")).astype(alphabet.dtype)
        if len(alphabet.columns) > 1:
            payload = payload.reshape(-1, len(alphabet.columns))
        if slots is not None and len(payload) != slots:
            raise InvalidValue(
                f"a bundle must have {counted(slots, 'slot')}, got {counted(len(payload), 'slot')}"
            )
        alphabet.messages(payload)  # this refuses numbers outside the ranges
        return cls(payload, 1, np.array([len(payload)], dtype=np.int64), bundled=True)

    def to_bytes(self) -> bytes:
        """One person's bundle as bytes: its messages, little-endian, and nothing else."""
        if self.users != 1:
            raise InvalidValue(f"a bundle must come from one person, got {self.users} people")
        wire = self.payload.dtype.newbyteorder("<")
        return self.payload.astype(wire, copy=False).tobytes()

    def __getitem__(self, person: int) -> "Messages":
        if not 0 <= person < self.users:
            raise IndexError(person)
        start = int(self.counts[:person].sum(dtype=np.int64))
        return self._bundle(person, start)

    def __iter__(self) -> Iterator["Messages"]:
        start = 0
        for person in range(self.users):
            yield self._bundle(person, start)
            start += int(self.counts[person])

    def _bundle(self, person: int, start: int) -> "Messages":
        payload = self.payload[start : start + int(self.counts[person])]
        return replace(self, payload=payload, users=1, counts=self.counts[person : person + 1])


def _all_equal(counts: NDArray[np.integer]) -> bool:
    """Whether all counts are known to be equal, since they are one number that was broadcast."""
    return counts.strides == (0,)


def _sums_through(counts: NDArray[np.integer], places: NDArray[np.integer]) -> NDArray[np.int64]:
    """The sum of all counts up to and including each place. If there are few places, the sums are
    computed by blocks, which is faster.
    """
    if _all_equal(counts):
        return (places.astype(np.int64) + 1) * int(counts[0])
    size = 256
    if len(places) * size > len(counts):
        running: NDArray[np.int64] = np.cumsum(counts, dtype=np.int64)[places]
        return running
    whole = len(counts) // size
    exact = np.uint16 if counts.dtype == np.uint8 else np.int64  # 256 bytes sum to less than 2^16
    sums = counts[: whole * size].reshape(whole, size).sum(axis=1, dtype=exact)
    before = np.concatenate([[0], np.cumsum(sums, dtype=np.int64)])
    block, last = np.divmod(places, size)
    inside = np.arange(size)
    rows = counts[np.minimum(block[:, None] * size + inside, len(counts) - 1)]
    within = np.where(inside <= last[:, None], rows, 0).sum(axis=1, dtype=np.int64)
    total: NDArray[np.int64] = before[block] + within
    return total
