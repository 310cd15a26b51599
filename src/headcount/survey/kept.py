"""Kept answers: the same people are asked again in local trust, and each device repeats itself.

A device draws once which releases it answers. For each release, it randomizes a value when it holds
the value for the first time. Whenever it holds the same value again, it sends the same messages.

Let ε be the privacy loss of one wave. If a person's values never change, all waves together have
the loss ε, because later waves repeat the first one. Changes are not hidden: messages that differ
from earlier ones show that a value has changed, and when. Compare two people who hold new
values at the same times. If both hold at most v different values in each release, the loss between
the messages of the two is at most v·ε.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from operator import eq
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.errors import CrowdMismatch, InvalidParameter, InvalidValue, UnreadableData
from headcount.core.messages import Batch
from headcount.core.protocol import Protocol
from headcount.core.source import Source
from headcount.core.table import counted_people
from headcount.randomness.sources import this_process
from headcount.survey.design import LINE, Design
from headcount.survey.kept_file import KeptFile, fingerprint, stored_name
from headcount.survey.local import dealt, drawn_releases

if TYPE_CHECKING:
    from headcount.survey.survey import Survey

# The laws of the messages for any two values are compared only if the square of the number of
# values times the number of possible messages is at most this.
_MOST_COMPARED = 200_000


@dataclass(frozen=True)
class Drawings:
    """What devices have drawn for one release: a row for each person and each value held so far."""

    people: NDArray[np.int64]
    values: NDArray[Any]
    messages: NDArray[Any]  # one message for each row

    @property
    def most(self) -> int:
        """The largest number of values that one person has held."""
        return int(np.bincount(self.people).max(initial=0))

    def to_dict(self) -> dict[str, Any]:
        """The drawings for JSON."""
        return {name: column.tolist() for name, column in vars(self).items()}

    @classmethod
    def of(cls, found: Mapping[str, Any], protocol: Protocol, users: int) -> "Drawings":
        """The drawings that `to_dict` wrote. Damaged drawings are refused."""
        empty = _nothing(protocol)
        people, values, messages = (
            np.array(found[name], dtype=column.dtype).reshape(-1, *column.shape[1:])
            for name, column in vars(empty).items()
        )
        within = not len(people) or 0 <= people.min() <= people.max() < users
        if not within or not len(people) == len(values) == len(messages):
            raise UnreadableData("each drawing must have a person, a value and a message")
        if protocol.task.numbered and (values >= protocol.task.domain).any():
            raise UnreadableData("each value must fit the task of its release")
        protocol.alphabet.messages(messages)  # this refuses numbers outside the ranges
        return cls(people, values, messages)

    def with_values(
        self, people: NDArray[np.int64], values: NDArray[Any], protocol: Protocol, source: Source
    ) -> tuple["Drawings", NDArray[Any]]:
        """The drawings after these people have held these values, and the messages for them."""
        every = np.concatenate([self.values, values])
        kinds, numbers = np.unique(every, return_inverse=True)
        keys = np.concatenate([self.people, people]) * len(kinds) + numbers
        _, first, which = np.unique(keys, return_index=True, return_inverse=True)
        known = len(self.people)
        new = np.sort(first[first >= known]) - known  # places of values that are new for a person
        drawn = self
        if len(new):
            sent = protocol.randomizer.send(values[new], source).payload
            drawn = Drawings(
                np.concatenate([self.people, people[new]]),
                np.concatenate([self.values, values[new]]),
                np.concatenate([self.messages, sent]),
            )
        # For the first place of each key, its row in `drawn`. Old rows come first, and then the new
        # ones. Other places are not used.
        rows = np.concatenate([np.arange(known), np.full(len(people), -1)])
        rows[known + new] = known + np.arange(len(new))
        return drawn, drawn.messages[rows[first[which[known:]]]]


@dataclass(frozen=True)
class Wave:
    """A wave that is prepared but not sent yet. `charges` has the names of all charges so far.
    There are as many charges as the largest number of values that one person has held in a release.
    """

    batches: tuple[Batch, ...]
    names: Mapping[Any, int]
    places: NDArray[np.uint64]
    drawings: tuple[Drawings, ...]
    secure: bool
    charges: tuple[str, ...]
    before: tuple[Drawings, ...]  # what was kept before this wave


@dataclass
class KeptAnswers:
    """What the devices of all people keep between the waves of a survey with `keep_answers`.

    Give the same object to each `Survey.run`, or open the same file before each run. It knows
    people's true answers. In a real collection, each device keeps its own part, and nobody has the
    whole. This object is for simulations, and for a curator who randomizes answers on behalf of
    people.

        kept = KeptAnswers.open("kept.json", survey)
        survey.run(answers, kept=kept, people=names)
    """

    _file: KeptFile | None = field(default=None, init=False, repr=False)
    _releases: tuple[Any, ...] = field(default=(), init=False, repr=False)
    _names: Mapping[Any, int] = field(default_factory=dict, init=False, repr=False)
    _places: NDArray[np.uint64] = field(
        default_factory=lambda: np.zeros(0, dtype=np.uint64), init=False, repr=False
    )
    _drawings: tuple[Drawings, ...] = field(default=(), init=False, repr=False)
    _secure: bool = field(default=True, init=False, repr=False)
    _id: str = field(default_factory=lambda: uuid4().hex, init=False, repr=False)
    _process: tuple[int, int] = field(default_factory=this_process, init=False, repr=False)
    _sending: Any = field(default_factory=Lock, init=False, repr=False)

    def __reduce__(self) -> NoReturn:
        raise InvalidParameter(
            "kept answers must not be copied or pickled, since copies would randomize the same "
            "answers differently",
            hint="KeptAnswers.open keeps them in a file",
        )

    @property
    def users(self) -> int:
        """The number of people who took part so far."""
        return len(self._names)

    def prepared(
        self,
        design: Design,
        columns: Mapping[str, NDArray[Any]],
        people: Sequence[Any],
        source: Source,
    ) -> Wave:
        """The messages of one wave. Nothing is kept before `sent` is called."""
        if self._process != this_process():
            raise InvalidParameter(
                "kept answers must be used by the process that made them, got a forked process",
                hint="KeptAnswers.open keeps them in a file",
            )
        if self._releases and self._releases != _identity(design):
            raise InvalidParameter("`kept` must come from earlier waves of the same survey")
        names, who = self._numbered(people, design, columns)
        joined = dealt(len(names) - self.users, source.part(0)) if len(names) > self.users else ()
        places = np.concatenate([self._places, np.asarray(joined, dtype=np.uint64)])
        columns = design.with_tables(columns)
        answering = drawn_releases(design, places[who])
        batches, drawings, secure = [], [], self._secure and source.secure
        for at, (release, some) in enumerate(zip(design.releases, answering, strict=True)):
            known = self._drawings[at] if self._drawings else _nothing(release.protocol)
            if not some.any():
                raise CrowdMismatch(
                    f"somebody must answer {', '.join(release.ids)}, got none of these people",
                    hint="ask more people",
                )
            drawn, messages = known.with_values(
                who[some], release.join(columns)[some], release.protocol, source.part(at + 1)
            )
            drawings.append(drawn)
            batches.append(Batch(messages, int(some.sum()), secure=secure))
        most = max(one.most for one in drawings)
        charges = tuple(f"kept answers {self._id}, value {held}" for held in range(1, most + 1))
        return Wave(tuple(batches), names, places, tuple(drawings), secure, charges, self._drawings)

    @classmethod
    def open(cls, path: str | PathLike[str], survey: "Survey") -> "KeptAnswers":
        """The kept answers in a file, or none yet if there is no file. Each wave writes the file
        before its messages are sent. Only one program may use a file at a time.
        """
        kept, design = cls(), survey.design
        kept._file = KeptFile(Path(path))
        kept._file.read(lambda found: kept._take(found, design))
        return kept

    def _take(self, found: Mapping[str, Any], design: Design) -> None:
        if found["survey"] != fingerprint(design):
            raise UnreadableData("they must belong to this survey, got those of another one")
        names, places = found["people"], np.array(found["places"], dtype=np.uint64)
        drawings = tuple(
            Drawings.of(one, release.protocol, len(names))
            for one, release in zip(found["releases"], design.releases, strict=True)
        )
        if len(places) != len(names) or len({*names}) != len(names) or (places >= LINE).any():
            raise UnreadableData("everybody must have one name and one place")
        self._releases, self._names = _identity(design), {name: at for at, name in enumerate(names)}
        self._places, self._drawings = places, drawings
        self._secure, self._id = checks.flag("secure", found["secure"]), str(found["id"])

    def _document(self, design: Design, wave: Wave) -> dict[str, Any]:
        return {
            "survey": fingerprint(design),
            "id": self._id,
            "secure": wave.secure,
            "people": [stored_name(name) for name in wave.names],
            "places": wave.places.tolist(),
            "releases": [one.to_dict() for one in wave.drawings],
        }

    def sent(self, design: Design, wave: Wave) -> None:
        """Keep what was drawn for a wave, because it is sent now."""
        with self._sending:
            if wave.before is not self._drawings:
                raise InvalidParameter(
                    "`kept` must be used for one wave at a time, but another wave was sent since "
                    "this one was prepared"
                )
            if self._file is not None:
                self._file.write(self._document(design, wave))
            self._releases, self._names = _identity(design), wave.names
            self._places, self._drawings, self._secure = wave.places, wave.drawings, wave.secure

    def _numbered(
        self, people: Sequence[Any], design: Design, columns: Mapping[str, NDArray[Any]]
    ) -> tuple[dict[Any, int], NDArray[np.int64]]:
        """The index of everybody who ever took part, by name, and the indices of the people who
        answer now.
        """
        users = len(next(iter(columns.values())))
        listed = list(people)
        # NaN differs from itself, so it would be somebody else in each wave.
        if not all(isinstance(name, Hashable) and eq(name, name) for name in listed):
            raise InvalidValue("`people` must have words or numbers as names, got something else")
        texts = {isinstance(name, str) for name in (*self._names, *listed)}
        if len(texts) > 1:
            raise InvalidValue(
                "`people` must have either words or numbers as names in all waves, got both",
                hint="a person who gets another name would be randomized anew",
            )
        if len(listed) != users or len(set(listed)) != users:
            raise InvalidValue(
                f"`people` must have a different name for each of {counted_people(users)}, got "
                f"{len(set(listed)):,} different names in a list of {len(listed):,}"
            )
        names = dict(self._names)
        who = [names.setdefault(name, len(names)) for name in listed]
        return names, np.array(who, dtype=np.int64)


def kept_design(design: Design, waves: int) -> Design:
    """The design of one wave, if every wave repeats the answers of the first one."""
    promise = design.guarantee
    return replace(
        design,
        kept_waves=waves,
        guarantee=replace(
            promise,
            method=f"{promise.method}; each value is randomized once, and repeated in all waves",
            neighbors="replace all answers of one person, if they are the same in all waves; "
            "which questions a person answers is public; changes of answers are not hidden",
        ),
    )


def shown_changes(design: Design) -> float | None:
    """The largest probability with which a change of a value shows in the messages of a release.

    The messages m and m' for two values are independent and have the laws P and P'. So they differ
    with the probability 1 − Σ_m P(m)·P'(m). For a yes-no question that is answered truthfully with
    the probability p, this is p² + (1−p)². The result is None if some laws are not known or too
    long to be listed.
    """
    found = [_shown_change(one.protocol) for one in design.releases]
    known = [one for one in found if one is not None]
    return float(max(known)) if len(known) == len(found) else None


def _shown_change(protocol: Protocol) -> Fraction | None:
    task = protocol.task
    first = protocol.law(0) if task.numbered else None
    if first is None or task.domain**2 * len(first) > _MOST_COMPARED:
        return None
    listed = [law for law in map(protocol.law, range(task.domain)) if law is not None]
    same = (
        sum((chance * other.get(sent, Fraction(0)) for sent, chance in law.items()), Fraction(0))
        for law, other in combinations(listed, 2)
    )
    return 1 - min(same)


def _identity(design: Design) -> tuple[Any, ...]:
    """Designs with equal identities have the same releases."""
    return tuple((one.ids, one.share, one.protocol) for one in design.releases)


def _nothing(protocol: Protocol) -> Drawings:
    alphabet, task = protocol.alphabet, protocol.task
    shape = (0,) if len(alphabet.columns) == 1 else (0, len(alphabet.columns))
    return Drawings(
        np.zeros(0, dtype=np.int64),
        np.zeros(0, dtype=task.encoded_dtype),
        np.zeros(shape, dtype=alphabet.dtype),
    )
