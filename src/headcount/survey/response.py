"""One person's whole response to a survey: the same number of messages for everybody.

Each message carries the number of its release inside, and must be sealed by itself. The messages
of a response are in random order. So nobody can tell how many of them are dummies, and after mixing
nothing links two answers of one person. Linked messages would break the joint guarantee.

In local trust, a device answers only some of the releases. The response is filled up with dummies,
so that it has the same size whichever releases the device has drawn.
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
from headcount.core.source import Source
from headcount.randomness.draws import permutation
from headcount.survey.design import Design
from headcount.survey.local import drawn_releases


@dataclass(frozen=True)
class Message:
    """One message: the number of its release, and its payload. The payload of a dummy is None."""

    release: int
    payload: bytes | None


_FILLING = Message(0, None)  # fills up a response, and belongs to no release


@dataclass(frozen=True)
class Response:
    """One person's messages, in random order."""

    messages: tuple[Message, ...]
    secure: bool

    @classmethod
    def of(cls, design: Design, answers: Mapping[str, NDArray[Any]], source: Source) -> "Response":
        """The response of a person with these answers, one encoded answer for each question.

        Make a response only once: a second one would spend the budget again.
        """
        checks.instance("design", design, Design)
        checks.instance("source", source, Source)
        if design.trust is Trust.CENTRAL:
            raise InvalidParameter("a response must be sent in shuffle or local trust, got central")
        for ask in design.asked:
            if len(answers.get(ask.id, ())) != 1:
                raise InvalidValue(f"there must be one answer to question {ask.id!r}")
        columns = design.with_tables(answers)
        messages: list[Message] = []
        for number in _answered(design, source):
            release, slots = design.releases[number], design.slots_of[number]
            randomizer = release.protocol.randomizer
            data = filled_bundle(randomizer, release.join(columns), source, slots).to_bytes()
            size, dummy = randomizer.alphabet.bytes_per_message, randomizer.alphabet.dummy_bytes
            payloads = (data[at : at + size] for at in range(0, len(data), size))
            messages += [Message(number, None if one == dummy else one) for one in payloads]
        messages += [_FILLING] * (design.slots - len(messages))
        order = permutation(source, len(messages)).tolist()
        return cls(tuple(messages[at] for at in order), source.secure)


def _answered(design: Design, source: Source) -> list[int]:
    """The releases that a person answers. In local trust, the device draws them."""
    if design.releases_each is None:
        return list(range(len(design.releases)))
    drawn = drawn_releases(design, source.integers(1, np.uint32).astype(np.uint64))
    return [number for number, some in enumerate(drawn) if some[0]]
