"""The inbox, where the shuffler keeps responses until a survey is closed.

A response is cut into rows. The place of a row is a keyed hash, which shows neither when the
response came nor which rows belong to it. There are two kinds of inboxes:

- `Rows` is a plain table. Each row of a response is one row of the table. The database decides
  where on the disk a row lies, and usually puts rows there in the order of arrival.
- `Buckets` is a table of blocks, which have one size and are made before they are filled. The
  contents of the blocks depend only on the set of responses, so they cannot show the order of
  arrival.
"""

import struct
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, NamedTuple

if TYPE_CHECKING:
    from headcount.collect.store import Run

PLACE_BITS = 63  # so a place fits into a signed integer of 64 bits, which every database has
_BLOCK = 16_000  # bytes; in SQLite, a block of this size fills one page of 16 KiB
_LEAST_ROWS = 16  # a block has room for at least this many rows; long rows get longer blocks
_PLACE, _LENGTH = 8, 4  # bytes of a place, and of the length of a row or of the number of rows
_MOST_LEVELS = 2**6
_MOST_BLOCKS = 2**32


class Inbox(ABC):
    """The rows of survey `number`, as one transaction reads and changes them. `most` is the number
    of bytes of the longest row. Rows that were added reach the database when `write` is called.
    """

    columns: ClassVar[str]  # of the table `inbox`; {0} stands for the database's type of bytes

    def __init__(self, run: "Run", number: int, most: int) -> None:
        self._run, self._number, self._most = run, number, most

    @abstractmethod
    def at(self, place: int) -> bytes | None:
        """The row at a place, or None if the place is free."""

    @abstractmethod
    def add(self, place: int, body: bytes) -> None:
        """Add a row at a free place."""

    @abstractmethod
    def write(self) -> None:
        """Write the rows that were added."""

    @abstractmethod
    def bodies(self) -> Iterator[bytes]:
        """All rows that were written."""

    @staticmethod
    @abstractmethod
    def delete(run: "Run", number: int) -> None:
        """Delete all rows of survey `number`."""


class Rows(Inbox):
    """One row of the table for each row of a response."""

    columns = "place BIGINT PRIMARY KEY, number INTEGER NOT NULL, body {0} NOT NULL"

    def __init__(self, run: "Run", number: int, most: int) -> None:
        super().__init__(run, number, most)
        self._added: dict[int, bytes] = {}

    def at(self, place: int) -> bytes | None:
        if place in self._added:
            return self._added[place]
        found = self._run("SELECT body FROM inbox WHERE place = ?", place)
        return bytes(found[0][0]) if found else None

    def add(self, place: int, body: bytes) -> None:
        self._added[place] = body

    def write(self) -> None:
        rows = [(place, self._number, self._added[place]) for place in sorted(self._added)]
        self._run.many("INSERT INTO inbox VALUES (?, ?, ?)", rows)
        self._added = {}

    def bodies(self) -> Iterator[bytes]:
        found = self._run("SELECT body FROM inbox WHERE number = ?", self._number)
        return (bytes(body) for (body,) in found)

    @staticmethod
    def delete(run: "Run", number: int) -> None:
        run("DELETE FROM inbox WHERE number = ?", number)


class Block(NamedTuple):
    """Places in increasing order, and the rows at these places, one after another. Each row begins
    with its length, and is filled up with zeros, so that all rows have the same size.
    """

    places: list[int]
    rows: bytes


_EMPTY = Block([], b"")


class Buckets(Inbox):
    """A hash table that does not remember its history.

    At level l there are 2^l blocks. The first l bits of a row's place are the number of its block.
    A block is stored as the number of its rows, their places in increasing order, and the rows in
    the same order. Zeros fill the room that is left for more places and rows. All blocks of a
    survey have the same size. To add a row, its block is written again. If a block has no room for
    a row, all blocks are replaced by the blocks of the first level at which every row has room. So
    the level and the blocks depend only on the set of rows.
    """

    columns = "block INTEGER PRIMARY KEY, body {0} NOT NULL"

    def __init__(self, run: "Run", number: int, most: int) -> None:
        super().__init__(run, number, most)
        self._row = _LENGTH + most
        entry = _PLACE + self._row
        self._room = max(_LEAST_ROWS, (_BLOCK - _LENGTH) // entry)
        self._size = max(_BLOCK, _LENGTH + self._room * entry)
        self._first, last = _keys_of(number)
        ((largest,),) = run(
            "SELECT MAX(block) FROM inbox WHERE block BETWEEN ? AND ?", self._first, last
        )
        self._level = -1 if largest is None else (largest - self._first) // _MOST_BLOCKS
        self._read: dict[int, Block] = {}
        self._changed: set[int] = set()

    def at(self, place: int) -> bytes | None:
        block = self._block_at(self._number_of(place))
        index = bisect_left(block.places, place)
        if block.places[index : index + 1] != [place]:
            return None
        return self._body(block, index)

    def add(self, place: int, body: bytes) -> None:
        number = self._number_of(place)
        places, rows = self._block_at(number)
        index = bisect_left(places, place)
        row = len(body).to_bytes(_LENGTH, "big") + body.ljust(self._most, b"\0")
        cut = index * self._row
        self._read[number] = Block(
            [*places[:index], place, *places[index:]], rows[:cut] + row + rows[cut:]
        )
        self._changed.add(number)

    def write(self) -> None:
        while self._level < 0 or any(self._is_crowded(block) for block in self._read.values()):
            self._grow()
        blocks = [
            (self._packed(self._read[number]), self._key(self._level, number))
            for number in sorted(self._changed)
        ]
        self._run.many("UPDATE inbox SET body = ? WHERE block = ?", blocks)
        self._changed = set()

    def bodies(self) -> Iterator[bytes]:
        for number in range(1 << self._level if self._level >= 0 else 0):
            block = self._stored(number)
            yield from (self._body(block, index) for index in range(len(block.places)))

    @staticmethod
    def delete(run: "Run", number: int) -> None:
        run("DELETE FROM inbox WHERE block BETWEEN ? AND ?", *_keys_of(number))

    # Blocks -------------------------------------------------------------------------------------

    def _key(self, level: int, number: int) -> int:
        return self._first + level * _MOST_BLOCKS + number

    def _number_of(self, place: int) -> int:
        return place >> (PLACE_BITS - max(0, self._level))

    def _is_crowded(self, block: Block) -> bool:
        return len(block.places) > self._room

    def _body(self, block: Block, index: int) -> bytes:
        start = index * self._row
        length = int.from_bytes(block.rows[start : start + _LENGTH], "big")
        return block.rows[start + _LENGTH : start + _LENGTH + length]

    def _block_at(self, number: int) -> Block:
        """A block, including the rows that were added but not written yet."""
        if number not in self._read:
            self._read[number] = self._stored(number)
        return self._read[number]

    def _stored(self, number: int) -> Block:
        """A block as it was last written. It is empty if no block was written yet."""
        if self._level < 0:
            return _EMPTY
        key = self._key(self._level, number)
        ((body,),) = self._run("SELECT body FROM inbox WHERE block = ?", key)
        count = int.from_bytes(body[:_LENGTH], "big")
        start = _LENGTH + self._room * _PLACE
        places = struct.unpack_from(f">{count}Q", body, _LENGTH)
        return Block([*places], body[start : start + count * self._row])

    def _packed(self, block: Block) -> bytes:
        count = len(block.places)
        places = struct.pack(f">{count}Q", *block.places).ljust(self._room * _PLACE, b"\0")
        whole = count.to_bytes(_LENGTH, "big") + places + block.rows
        return whole.ljust(self._size, b"\0")

    def _halves(self, number: int) -> list[Block]:
        """The two blocks of the next level that replace a block."""
        places, rows = self._block_at(number)
        index = bisect_left(places, (2 * number + 1) << (PLACE_BITS - self._level - 1))
        cut = index * self._row
        return [Block(places[:index], rows[:cut]), Block(places[index:], rows[cut:])]

    def _grow(self) -> None:
        """Replace all blocks by the blocks of the next level. A block that is still too full stays
        in memory, and an empty block is written in its place. So the database file grows by the
        same steps, whether a transaction adds one level or several.
        """
        level = self._level + 1
        crowded: dict[int, Block] = {}
        for number in range(1 << max(0, self._level)):
            halves = self._halves(number) if level else [self._block_at(number)]
            found = dict(enumerate(halves, 2 * number))
            crowded |= {one: block for one, block in found.items() if self._is_crowded(block)}
            self._run.many(
                "INSERT INTO inbox VALUES (?, ?)",
                [
                    (self._key(level, one), self._packed(_EMPTY if one in crowded else half))
                    for one, half in found.items()
                ],
            )
            del self._read[number]
        self._run("DELETE FROM inbox WHERE block BETWEEN ? AND ?",
                  self._first, self._key(level, 0) - 1)  # fmt: skip
        self._level, self._read, self._changed = level, crowded, set(crowded)


def _keys_of(number: int) -> tuple[int, int]:
    """The first and the last key that a block of survey `number` may have."""
    keys = _MOST_LEVELS * _MOST_BLOCKS
    return number * keys, (number + 1) * keys - 1
