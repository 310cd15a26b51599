"""One person's whole response to a survey: the same number of messages for everybody.

Each message holds the number of its release, and must be sealed separately. The messages of a
response are in random order, and some of them are dummies. When all messages are sealed, nobody can
tell how many of them are dummies. After the shuffler has mixed them, nothing links two answers of
one person. Linked messages would break the joint guarantee.

In local trust, a device answers only some of the questions. It draws these questions at random
before it knows any answer, so the person has to answer only these. The response is filled up with
dummies, so that it has the same size whichever questions the device has drawn.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.budget import Trust
from headcount.core.bundles import filled_bundle
from headcount.core.errors import InvalidParameter, InvalidValue
from headcount.core.randomizer import Randomizer
from headcount.core.source import Source
from headcount.protocols.local.some_boxes import BlockRandomizer
from headcount.randomness.draws import permutation
from headcount.survey.design import Design, Release
from headcount.survey.local import drawn_releases


@dataclass(frozen=True)
class Message:
    """One message: the number of its release, and its payload. The payload of a dummy is None."""

    release: int
    payload: bytes | None


_FILLING = Message(0, None)  # a dummy of release 0 that fills up a response


@dataclass(frozen=True)
class Selection:
    """The releases that one device answers, and the first box of each release.

    A selection is drawn once, without regard to any answer, and is public. In some releases, each
    box is a question, and a person answers only some consecutive boxes. For such a release, the
    first of these boxes is drawn here. For other releases, the first box is None.
    """

    releases: tuple[int, ...]
    firsts: tuple[int | None, ...]

    @classmethod
    def drawn(cls, design: Design, source: Source) -> "Selection":
        """Draw the selection of a device. In shuffle trust, everybody answers all releases."""
        releases = tuple(_drawn_releases(design, source))
        blocks = (_blocks(design.releases[number]) for number in releases)
        firsts = (None if one is None else one.drawn(source).first for one in blocks)
        return cls(releases, tuple(firsts))

    def randomizer(self, design: Design, place: int) -> Randomizer:
        """The randomizer of the release at this place in the selection."""
        release, first = design.releases[self.releases[place]], self.firsts[place]
        blocks = _blocks(release)
        return release.protocol.randomizer if blocks is None else replace(blocks, first=first)

    def questions(self, design: Design) -> tuple[str, ...]:
        """The ids of the questions that the person has to answer, in the order of the survey."""
        sides = {table.id: (table.rows.id, table.columns.id) for table in design.tables}
        found: set[str] = set()
        for place, number in enumerate(self.releases):
            release, first = design.releases[number], self.firsts[place]
            blocks = _blocks(release)
            places = (
                range(len(release.ids)) if blocks is None else replace(blocks, first=first).asked
            )
            ids = tuple(release.ids[at] for at in places)
            found.update(side for name in ids for side in sides.get(name, (name,)))
        return tuple(ask.id for ask in design.asked if ask.id in found)


def _blocks(release: Release) -> BlockRandomizer | None:
    """The randomizer of a release, if each box of the release is a question and a person answers
    only some boxes. Otherwise, the result is None.
    """
    found = release.protocol.randomizer
    return found if len(release.ids) > 1 and isinstance(found, BlockRandomizer) else None


@dataclass(frozen=True)
class Response:
    """One person's messages, in random order."""

    messages: tuple[Message, ...]
    secure: bool

    @classmethod
    def of(
        cls,
        design: Design,
        answers: Mapping[str, NDArray[Any]],
        source: Source,
        selection: Selection | None = None,
    ) -> "Response":
        """The response of a person with these answers. `answers` has an array with one encoded
        answer for each question.

        The answers to questions outside the selection are not used. Make a response only once,
        because a second response would spend the budget again.
        """
        checks.instance("design", design, Design)
        checks.instance("source", source, Source)
        if design.trust is Trust.CENTRAL:
            raise InvalidParameter("a response must be sent in shuffle or local trust, got central")
        chosen = Selection.drawn(design, source) if selection is None else selection
        columns = design.with_tables(_used(design, chosen, answers))
        messages: list[Message] = []
        for place, number in enumerate(chosen.releases):
            release, slots = design.releases[number], design.slots_of[number]
            randomizer = chosen.randomizer(design, place)
            data = filled_bundle(randomizer, release.join(columns), source, slots).to_bytes()
            size, dummy = randomizer.alphabet.bytes_per_message, randomizer.alphabet.dummy_bytes
            payloads = (data[at : at + size] for at in range(0, len(data), size))
            messages += [Message(number, None if one == dummy else one) for one in payloads]
        messages += [_FILLING] * (design.slots - len(messages))
        order = permutation(source, len(messages)).tolist()
        return cls(tuple(messages[at] for at in order), source.secure)


def _used(
    design: Design, selection: Selection, answers: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """The answers to all questions. Answers outside the selection are replaced by 0, so that the
    response cannot depend on them.
    """
    asked, found = selection.questions(design), {}
    for ask in design.asked:
        if ask.id not in asked:
            found[ask.id] = np.zeros(1, dtype=ask.task.encoded_dtype)
        elif len(answers.get(ask.id, ())) != 1:
            raise InvalidValue(f"there must be one answer to question {ask.id!r}")
        else:
            found[ask.id] = answers[ask.id]
    return found


def _drawn_releases(design: Design, source: Source) -> list[int]:
    """The numbers of the releases that a person answers. In local trust, the device draws them."""
    if design.releases_each is None:
        return list(range(len(design.releases)))
    drawn = drawn_releases(design, source.integers(1, np.uint32).astype(np.uint64))
    return [number for number, some in enumerate(drawn) if some[0]]
