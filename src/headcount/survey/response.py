"""One person's whole response to a survey: the same number of messages for everybody.

Each message carries the number of its release inside, and must be sealed by itself. The messages
of a response are in random order. So nobody can tell how many of them are dummies, and after mixing
nothing links two answers of one person. Linked messages would break the joint guarantee.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.budget import Trust
from headcount.core.bundles import filled_bundle
from headcount.core.errors import InvalidParameter, InvalidValue
from headcount.core.messages import Batch
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.survey.design import LINE, Design
from headcount.survey.local import drawn_releases


@dataclass(frozen=True)
class Message:
    """One message: the number of its release, its payload, and whether it is a dummy."""

    release: int
    payload: bytes
    dummy: bool


@dataclass(frozen=True)
class Response:
    """One person's messages, in random order."""

    messages: tuple[Message, ...]
    secure: bool

    @classmethod
    def of(cls, design: Design, answers: Mapping[str, Any], source: Source) -> "Response":
        """The response of a person who gives these answers, one for each question.

        An answer is a value that the task of its question encodes. Make a response only once: a
        second one would spend the budget again.
        """
        checks.instance("design", design, Design)
        checks.instance("source", source, Source)
        if design.trust is Trust.CENTRAL:
            raise InvalidParameter("a response must be sent in shuffle or local trust, got central")
        columns: dict[str, NDArray[Any]] = {}
        of_table = {table.id for table in design.tables}
        for ask in design.asks:
            if ask.id in of_table:
                continue
            if ask.id not in answers:
                raise InvalidValue(f"there must be an answer to question {ask.id!r}, got none")
            columns[ask.id] = ask.task.encode([answers[ask.id]])
        columns = design.with_tables(columns)
        messages: list[Message] = []
        for number in _answered(design, source):
            release, slots = design.releases[number], design.slots_of[number]
            randomizer = release.protocol.randomizer
            sent = filled_bundle(randomizer, release.join(columns), source, slots)
            dummy = randomizer.alphabet.dummy
            for row in sent.payload:
                plain = tuple(np.atleast_1d(row).tolist())
                wire = np.asarray(row).astype(sent.payload.dtype.newbyteorder("<"))
                messages.append(Message(number, wire.tobytes(), plain == dummy))
        order = np.argsort(source.integers(len(messages), np.uint64), kind="stable")
        return cls(tuple(messages[at] for at in order.tolist()), source.secure)


def _answered(design: Design, source: Source) -> list[int]:
    """The releases that a person answers. In local trust, the device draws them."""
    if design.releases_each is None:
        return list(range(len(design.releases)))
    place = source.integers(1, np.uint32).astype(np.uint64) % np.uint64(LINE)
    drawn = drawn_releases(design, place)
    return [number for number, some in enumerate(drawn) if some[0]]


def tally_of_messages(
    design: Design, number: int, payloads: list[bytes], users: int, *, secure: bool = True
) -> Tally:
    """The tally of a release, from the payloads of all its messages and the number of people who
    answered it. The messages must have passed the shuffler.
    """
    protocol = design.releases[number].protocol
    alphabet = protocol.alphabet
    wire = np.frombuffer(b"".join(payloads), dtype=alphabet.dtype.newbyteorder("<"))
    payload = wire.astype(alphabet.dtype)
    if len(alphabet.columns) > 1:
        payload = payload.reshape(-1, len(alphabet.columns))
    bundled = design.trust is Trust.SHUFFLE
    return protocol.tally(Batch(payload, users, secure=secure, bundled=bundled))
