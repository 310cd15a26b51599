"""Responses on their way into the shuffler's store. One transaction stores a group of responses."""

import hashlib
from collections import Counter
from typing import Literal, NamedTuple, TypeAlias

from headcount.collect.document import Document
from headcount.collect.inbox import PLACE_BITS, Inbox
from headcount.collect.store import Run, Store

State: TypeAlias = Literal["open", "closed", "forwarded", "destroyed"]
_ROW = 500  # a row has at most this many bytes of a response, unless one message has more


class Round(NamedTuple):
    """The state of one survey: a row of the table `rounds`, which has one row for each survey."""

    number: int
    hash_key: bytes
    state: State
    responses: int
    closes_at: float | None
    closes_with: int | None
    batch: str | None


class Arrivals:
    """The responses that one transaction stores. Each survey is looked up and updated once."""

    def __init__(self, store: Store, run: Run) -> None:
        self._store, self.run = store, run
        self.rounds: dict[str, Round] = {}
        self._inboxes: dict[int, Inbox] = {}
        self._stored: Counter[int] = Counter()

    def inbox(self, number: int, document: Document) -> Inbox:
        """The inbox with the responses to survey `number`."""
        if number not in self._inboxes:
            self._inboxes[number] = self._store.inbox(self.run, number, row_bytes(document))
        return self._inboxes[number]

    def add(self, number: int, places: list[tuple[int, bytes]]) -> None:
        """Add the rows of one response to survey `number`."""
        for place, body in places:
            self._inboxes[number].add(place, body)
        self._stored[number] += 1

    def write(self) -> None:
        """Write all rows, and update the number of responses of each survey."""
        for number, stored in self._stored.items():
            self._inboxes[number].write()
            self.run("UPDATE rounds SET responses = responses + ? WHERE number = ?",
                     stored, number)  # fmt: skip


def row_bytes(document: Document) -> int:
    """The number of bytes of a response that are stored in one row. A row has whole messages."""
    size = document.envelope.size
    return min(max(1, _ROW // size) * size, document.response_bytes)


def places_of(key: bytes, body: bytes, chunk: int, attempt: int) -> list[tuple[int, bytes]]:
    """The rows of a response, each with its place. A place is a keyed hash, so it shows neither
    when the response came nor which rows belong together. If another response has taken a place,
    the next `attempt` gives other places. `chunk` is the number of bytes in a row.
    """
    own = hashlib.blake2b(body, key=key, digest_size=32).digest() + attempt.to_bytes(4, "big")
    return [
        (
            int.from_bytes(
                hashlib.blake2b(own + at.to_bytes(4, "big"), key=key, digest_size=8).digest(), "big"
            )
            >> (64 - PLACE_BITS),
            body[at : at + chunk],
        )
        for at in range(0, len(body), chunk)
    ]
