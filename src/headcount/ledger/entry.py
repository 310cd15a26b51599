"""An entry of a ledger. It describes one or more releases and their cost."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from headcount.core import checks
from headcount.core.budget import MOST_USERS, Trust
from headcount.core.errors import InvalidParameter

MOST_TIMES = 10**9  # the largest number of releases in one entry
_MOST_WORDS = 200  # the largest number of characters in a name
_MOST_NOTE = 10_000  # the largest number of characters of JSON in a note


@dataclass(frozen=True)
class Entry:
    """`times` releases of the same kind. Each of them costs (epsilon, delta).

    An entry contains no data and no results. `number` is the position of the entry in its dataset,
    from 1. `time` is in UTC. `users` is the number of people, if it is known. `curve` is the digest
    of the privacy-loss distribution of each release, from which the rule computes the total loss.
    `curve` is None if the limit has δ = 0, since plain sums need no distribution. `note` comes from
    the caller.
    """

    id: str
    dataset: str
    number: int
    time: str
    protocol: str
    trust: Trust
    task: str
    epsilon: float
    delta: float
    times: int
    users: int | None
    curve: str | None
    note: Mapping[str, Any]

    @property
    def place(self) -> str:
        """Where the entry is in its ledger, with its id."""
        return f"entry {self.number} of dataset {self.dataset!r}, with the id {self.id}"

    def to_dict(self) -> dict[str, Any]:
        """The entry as a dictionary for JSON."""
        return {**asdict(self), "trust": str(self.trust), "note": dict(self.note)}

    def receipt(self, ledger: str) -> dict[str, Any]:
        """What identifies the entry in any ledger. `ledger` is the name of its ledger."""
        return {"ledger": ledger, "dataset": self.dataset, "entry": self.number, "id": self.id}

    def to_row(self) -> tuple[object, ...]:
        """The entry as a row of a table. ε and δ are written as their shortest decimal text, since
        sums are computed from this text.
        """
        return (
            self.id, self.dataset, self.number, self.time, self.protocol, str(self.trust),
            self.task, repr(self.epsilon), repr(self.delta), self.times, self.users, self.curve,
            json.dumps(self.note, sort_keys=True),
        )  # fmt: skip

    @classmethod
    def from_row(cls, row: tuple[Any, ...]) -> "Entry":
        """The entry that `to_row` wrote. Any other row raises ValueError."""
        named, time, protocol, trust, task, epsilon, delta, times, users, curve, note = (
            row[:3], *row[3:],
        )  # fmt: skip
        words = (named[0], named[1], time, protocol, task, note)
        parsed = json.loads(note) if all(isinstance(word, str) for word in words) else None
        if not isinstance(parsed, dict) or not (curve is None or isinstance(curve, str)):
            raise ValueError("an entry with text that cannot be read")
        return cls(
            id=named[0],
            dataset=named[1],
            number=count(named[2], MOST_USERS),
            time=time,
            protocol=protocol,
            trust=Trust(trust),
            task=task,
            epsilon=amount(epsilon),
            delta=amount(delta),
            times=count(times, MOST_TIMES),
            users=None if users is None else count(users, MOST_USERS),
            curve=curve,
            note=parsed,
        )


def amount(text: object) -> float:
    """Parse a stored ε, δ or Rényi order. Text that `to_row` would not write raises ValueError."""
    number = float(text) if isinstance(text, str) else math.nan
    if not 0 <= number < math.inf or repr(number) != text:
        raise ValueError(f"an epsilon or delta that reads {text!r}")
    return number


def count(stored: object, most: int) -> int:
    """Check a stored number: unless it is an integer from 1 to `most`, raise ValueError."""
    if not isinstance(stored, int) or not 1 <= stored <= most:
        raise ValueError(f"a number that reads {stored!r}")
    return stored


def words(name: str, value: object, *, least: int = 0) -> str:
    """Check a name, and return it. It must be printable, on one line and not too long."""
    if not isinstance(value, str) or not least <= len(value) <= _MOST_WORDS:
        raise InvalidParameter(
            f"`{name}` must be text of {least} to {_MOST_WORDS} characters, got {value!r}"
        )
    if not value.isprintable():
        raise InvalidParameter(f"`{name}` must have only printable characters, got {value!r}")
    return value


def noted(note: object) -> Mapping[str, Any]:
    """Check a note, and return it as it will be after it is read back from JSON."""
    checks.instance("note", note, Mapping)
    try:
        text = json.dumps(dict(note), allow_nan=False)  # type: ignore[call-overload]
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidParameter(f"`note` must be JSON-serializable: {error}") from None
    if len(text) > _MOST_NOTE:
        raise InvalidParameter(
            f"`note` must be at most {_MOST_NOTE:,} characters of JSON, got {len(text):,}"
        )
    stored: Mapping[str, Any] = json.loads(text)
    return stored
