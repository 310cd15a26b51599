"""Responses on their way into the shuffler's store. One transaction writes a group of them."""

import hashlib
from collections import Counter
from typing import Literal, NamedTuple, TypeAlias

from headcount.collect.document import Document
from headcount.collect.inbox import PLACE_BITS, Inbox
from headcount.collect.store import Run, Store

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

    def __init__(self, store: Store, run: Run) -> None:
        self._store, self.run = store, run
        self.rounds: dict[str, Round] = {}
        self._inboxes: dict[int, Inbox] = {}
        self._stored: Counter[int] = Counter()

    def inbox(self, number: int, document: Document) -> Inbox:
        """The responses to survey `number`."""
        if number not in self._inboxes:
            self._inboxes[number] = self._store.inbox(self.run, number, row_bytes(document))
        return self._inboxes[number]

    def add(self, number: int, places: list[tuple[int, bytes]]) -> None:
        """Add the rows of one response to survey `number`."""
        for place, body in places:
            self._inboxes[number].add(place, body)
        self._stored[number] += 1

    def write(self) -> None:
        """Write all rows and the numbers of responses."""
        for number, stored in self._stored.items():
            self._inboxes[number].write()
            self.run("UPDATE rounds SET responses = responses + ? WHERE number = ?",
                     stored, number)  # fmt: skip


def row_bytes(document: Document) -> int:
    """How many bytes of a response are stored in one row: some whole messages."""
    size = document.envelope.size
    return min(max(1, _ROW // size) * size, document.response_bytes)


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
            >> (64 - PLACE_BITS),
            body[at : at + chunk],
        )
        for at in range(0, len(body), chunk)
    ]
