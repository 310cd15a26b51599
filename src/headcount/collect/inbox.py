"""Where the shuffler keeps responses until a survey is closed. A response is cut into rows. The
place of a row is a keyed hash, which shows neither when the response came nor which rows belong to
it.

- `Rows` is a plain table with one row each. A database decides where on the disk a row lies, and
  mostly decides by the order of arrival.
- `Buckets` is a table of blocks of one size that are made before they are filled. What the blocks
  hold is a function of the set of responses alone, so it cannot show their order.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from headcount.collect.store import Run

PLACE_BITS = 63  # places are whole numbers that every database can order
_BLOCK = 16_000  # bytes; with it, a block of SQLite fills one page of 16 KiB
_LEAST_ROWS = 16  # blocks for long rows are longer, so that they have room for this many
_PLACE, _LENGTH = 8, 4  # bytes of a place, and of the length of a row or of the number of rows
_MOST_LEVELS = 2**6
_MOST_BLOCKS = 2**32


class Inbox(ABC):
    """The rows of survey `number` in one transaction. `most` is the number of bytes of the longest
    row. Rows that are added are written by `write`.
    """

    columns: ClassVar[str]  # of the table `inbox`; {0} is the type of bytes

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


class Buckets(Inbox):
    """A hash table that does not remember its history.

    At level l there are 2^l blocks, and a row is in the block that the first l bits of its place
    name. A block holds the number of its rows, then the rows in the order of their places, then
    zeros. All blocks of a survey have the same size. A row is added by writing its block again. If
    a block has no room for a row, all blocks are replaced by those of the first level at which
    every row has room. So the level, like the blocks, depends only on which rows there are.
    """

    columns = "block INTEGER PRIMARY KEY, body {0} NOT NULL"

    def __init__(self, run: "Run", number: int, most: int) -> None:
        super().__init__(run, number, most)
        self._entry = _PLACE + _LENGTH + most
        self._block = max(_BLOCK, _LENGTH + _LEAST_ROWS * self._entry)
        self._room = (self._block - _LENGTH) // self._entry
        self._first, last = _keys_of(number)
        ((largest,),) = run(
            "SELECT MAX(block) FROM inbox WHERE block BETWEEN ? AND ?", self._first, last
        )
        self._level = -1 if largest is None else (largest - self._first) // _MOST_BLOCKS
        self._read: dict[int, dict[int, bytes]] = {}
        self._changed: set[int] = set()

    def at(self, place: int) -> bytes | None:
        return self._rows_beside(place).get(place)

    def add(self, place: int, body: bytes) -> None:
        self._rows_beside(place)[place] = body
        self._changed.add(self._block_of(place, self._level))

    def write(self) -> None:
        while self._level < 0 or any(len(rows) > self._room for rows in self._read.values()):
            self._grow()
        blocks = [
            (self._packed(self._read[at]), self._key(self._level, at))
            for at in sorted(self._changed)
        ]
        self._run.many("UPDATE inbox SET body = ? WHERE block = ?", blocks)
        self._changed = set()

    def bodies(self) -> Iterator[bytes]:
        for at in range(1 << self._level if self._level >= 0 else 0):
            yield from self._rows_of(at).values()

    @staticmethod
    def delete(run: "Run", number: int) -> None:
        run("DELETE FROM inbox WHERE block BETWEEN ? AND ?", *_keys_of(number))

    # Blocks -------------------------------------------------------------------------------------

    def _key(self, level: int, at: int) -> int:
        return self._first + level * _MOST_BLOCKS + at

    @staticmethod
    def _block_of(place: int, level: int) -> int:
        return place >> (PLACE_BITS - max(0, level))

    def _rows_beside(self, place: int) -> dict[int, bytes]:
        """The rows in the block of a place, with those that were added."""
        at = self._block_of(place, self._level)
        if at not in self._read:
            self._read[at] = self._rows_of(at)
        return self._read[at]

    def _rows_of(self, at: int) -> dict[int, bytes]:
        """The rows in a block as it was written. Before the first block is written, there are no
        rows.
        """
        if self._level < 0:
            return {}
        key = self._key(self._level, at)
        ((body,),) = self._run("SELECT body FROM inbox WHERE block = ?", key)
        rows = {}
        for number in range(int.from_bytes(body[:_LENGTH], "big")):
            start = _LENGTH + number * self._entry
            begin = start + _PLACE + _LENGTH
            length = int.from_bytes(body[start + _PLACE : begin], "big")
            rows[int.from_bytes(body[start : start + _PLACE], "big")] = body[begin : begin + length]
        return rows

    def _packed(self, rows: dict[int, bytes]) -> bytes:
        entries = [
            place.to_bytes(_PLACE, "big")
            + len(rows[place]).to_bytes(_LENGTH, "big")
            + rows[place].ljust(self._most, b"\0")
            for place in sorted(rows)
        ]
        return b"".join([len(rows).to_bytes(_LENGTH, "big"), *entries]).ljust(self._block, b"\0")

    def _grow(self) -> None:
        """Replace all blocks by those of the next level. A block that is still too full stays in
        memory, and an empty one is written for it. So every file grows by the same steps.
        """
        level = self._level + 1
        crowded: dict[int, dict[int, bytes]] = {}
        for at in range(1 << max(0, self._level)):
            parts: dict[int, dict[int, bytes]] = {
                part: {} for part in ((2 * at, 2 * at + 1) if level else (0,))
            }
            for place, body in (self._read[at] if at in self._read else self._rows_of(at)).items():
                parts[self._block_of(place, level)][place] = body
            crowded |= {part: rows for part, rows in parts.items() if len(rows) > self._room}
            self._run.many(
                "INSERT INTO inbox VALUES (?, ?)",
                [
                    (self._key(level, part), self._packed({} if part in crowded else rows))
                    for part, rows in parts.items()
                ],
            )
        self._run("DELETE FROM inbox WHERE block BETWEEN ? AND ?",
                  self._first, self._key(level, 0) - 1)  # fmt: skip
        self._level, self._read, self._changed = level, crowded, set(crowded)


def _keys_of(number: int) -> tuple[int, int]:
    """The first and the last key that a block of survey `number` may have."""
    keys = _MOST_LEVELS * _MOST_BLOCKS
    return number * keys, (number + 1) * keys - 1
