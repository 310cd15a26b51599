"""Responses on their way into the shuffler's store. One transaction writes a group of them."""

import hashlib
from collections import Counter
from typing import Literal, NamedTuple, TypeAlias

from headcount.collect.store import Run

State: TypeAlias = Literal["open", "closed", "forwarded", "destroyed"]
_ROW = 500  # the most bytes of a response in one row, unless one message has more


class Round(NamedTuple):
    """One row of the table `rounds`, which has a row for each survey."""

    number: int
    hash_key: bytes
    state: State
    responses: int
    closes_at: float | None
    closes_with: int | None
    batch: str | None


class Arrivals:
    """Responses that are stored in one transaction. Each survey is looked up and updated once."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.rounds: dict[str, Round] = {}
        self._rows: dict[int, tuple[int, bytes]] = {}
        self._stored: Counter[int] = Counter()

    def at(self, place: int) -> bytes | None:
        """The row at a place, or None if the place is free."""
        if place in self._rows:
            return self._rows[place][1]
        found = self.run("SELECT body FROM inbox WHERE place = ?", place)
        return bytes(found[0][0]) if found else None

    def add(self, number: int, places: list[tuple[int, bytes]]) -> None:
        """Add the rows of one response to survey `number`."""
        self._rows.update({place: (number, body) for place, body in places})
        self._stored[number] += 1

    def write(self) -> None:
        """Write all rows and the numbers of responses."""
        # Rows are written in the order of their places, so they do not show which came first.
        rows = sorted((place, number, body) for place, (number, body) in self._rows.items())
        self.run.many("INSERT INTO inbox VALUES (?, ?, ?)", rows)
        for number, stored in self._stored.items():
            self.run("UPDATE rounds SET responses = responses + ? WHERE number = ?",
                     stored, number)  # fmt: skip


def row_bytes(size: int) -> int:
    """The number of bytes of a response that one row of the inbox holds: whole messages of this
    size.
    """
    return max(1, _ROW // size) * size


def places_of(key: bytes, body: bytes, chunk: int, attempt: int) -> list[tuple[int, bytes]]:
    """The rows of a response. Their places are keyed hashes, which show neither when a response
    came nor which rows belong together.
    """
    own = hashlib.blake2b(body, key=key, digest_size=32).digest() + attempt.to_bytes(4, "big")
    return [
        (
            int.from_bytes(
                hashlib.blake2b(own + at.to_bytes(4, "big"), key=key, digest_size=8).digest(), "big"
            )
            >> 1,
            body[at : at + chunk],
        )
        for at in range(0, len(body), chunk)
    ]
