"""The survey document: everything that respondents, the shuffler and the analyzer must agree on.

A document is canonical JSON: sorted keys, no spaces, UTF-8. Its SHA-256 is the survey's name. The
document holds the calibrated protocol of each release, the joint guarantee, the analyzer's public
key, and how responses are formed. Whoever receives a document calibrates the protocols anew. A
document that claims more privacy than its parameters give is refused.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from numpy.typing import NDArray

from headcount.collect.keys import PublicKey
from headcount.collect.sealing import Envelope
from headcount.core import checks
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.cached import cached_property
from headcount.core.errors import (
    HeadcountError,
    Infeasible,
    InvalidParameter,
    InvalidValue,
    UnreadableData,
)
from headcount.core.guarantee import Guarantee, fitted_delta
from headcount.core.protocol import Protocol, option_names
from headcount.core.sealing import OVERHEAD, sealed_size
from headcount.core.table import short
from headcount.core.task import task_from
from headcount.core.tasks.boxes import Boxes
from headcount.core.tasks.count import Count
from headcount.core.writing import write_file
from headcount.protocols.registry import protocol
from headcount.survey.design import Ask, Release
from headcount.survey.file import survey_from
from headcount.survey.joint import joint
from headcount.survey.split import YES_NO
from headcount.survey.survey import Survey

VERSION = 1
MOST_BYTES = 2**20  # the largest document that is read
MOST_RELEASES = 1000
MOST_MESSAGES = 10_000  # of one person, in all releases together
_MOST_EXTRA = 256  # how many slots beyond the least are tried
Admission: TypeAlias = Literal["open", "codes"]


@dataclass(frozen=True)
class Addresses:
    """Where the shuffler and the analyzer can be reached: URLs without a slash at the end."""

    shuffler: str
    analyzer: str

    def __post_init__(self) -> None:
        for name, url in asdict(self).items():
            if not isinstance(url, str) or not url.startswith(("http://", "https://")):
                raise InvalidParameter(
                    f"the address of the {name} must begin with https:// or http://, "
                    f"got {checks.shown(url)}"
                )
            object.__setattr__(self, name, url.rstrip("/"))


def release_data(release: Release, slots: int) -> dict[str, Any]:
    """A release and its bundle size for JSON. Each question has its task."""
    made = release.protocol
    return {
        "questions": [{"id": ask.id, "task": ask.task.to_dict()} for ask in release.asks],
        "asked": release.asked,
        "protocol": made.name,
        "task": made.task.to_dict(),
        "budget": asdict(made.budget),
        "crowd": asdict(made.crowd),
        "options": {name: getattr(made, name) for name in option_names(type(made))},
        "parameters": dict(made.parameters),
        "slots": slots,
    }


def release_from(document: Mapping[str, Any]) -> Release:
    """The release that `release_data` wrote. Its protocol is calibrated anew, and compared."""
    made = protocol(
        document["protocol"],
        task_from(document["task"]),
        Budget(**document["budget"]),
        Crowd(**document["crowd"]),
        **document["options"],
    )
    asks = tuple(Ask(one["id"], task_from(one["task"])) for one in document["questions"])
    release = Release(tuple(ask.id for ask in asks), made, document["asked"], asks)
    for what, computed in release_data(release, document["slots"]).items():
        if _plain(computed) != document[what]:
            raise InvalidParameter(
                f"this version of headcount computes the {what} {checks.shown(computed)} for "
                f"{made.name}, but the document says {checks.shown(document[what])}"
            )
    return release


@dataclass(frozen=True)
class Document:
    """A survey that is ready to be collected. `survey` is the survey file as data: the title, the
    words of the questions, and whatever else clients show. `slots` has the size of everybody's
    bundle for each release.
    """

    survey: Mapping[str, Any]
    releases: tuple[Release, ...]
    slots: tuple[int, ...]
    budget: Budget
    key: PublicKey
    addresses: Addresses
    least_people: int
    admission: Admission = "open"
    waves: int = 1

    def __post_init__(self) -> None:
        checks.whole("least_people", self.least_people, low=1, high=2**50)
        checks.whole("waves", self.waves, low=1, high=10_000)
        checks.choice("admission", self.admission, ("open", "codes"))
        if not 1 <= len(self.releases) <= MOST_RELEASES:
            raise InvalidParameter(
                f"a survey must have 1 to {MOST_RELEASES} releases, got {len(self.releases)}"
            )
        trusts = {release.protocol.trust for release in self.releases}
        if len(trusts) > 1 or trusts == {Trust.CENTRAL}:
            raise InvalidParameter(
                "a survey that is collected must have local or shuffle trust for all questions, "
                f"got {', '.join(sorted(trusts))}"
            )
        if len(self.slots) != len(self.releases):
            raise InvalidParameter("every release must have a bundle size")
        self._check_questions()
        for release, slots in zip(self.releases, self.slots, strict=True):
            self._check(release.protocol)
            least = release.protocol.slots
            fixed = release.protocol.randomizer.fixed_messages is not None
            checks.whole("slots", slots, low=least, high=least if fixed else MOST_MESSAGES)
        if self.messages > MOST_MESSAGES:
            raise InvalidParameter(
                f"a response must have at most {MOST_MESSAGES:,} messages, got {self.messages:,}"
            )

    def _check_questions(self) -> None:
        """Refuse releases that do not answer the questions that people read.

        Otherwise, an answer could become a message that the noise of its release does not hide.
        """
        for release in self.releases:
            if not _answers(release):
                raise InvalidParameter(
                    f"the release of {', '.join(release.ids)} must have the task of its questions, "
                    f"got {release.protocol.task}"
                )
        survey = self.questions
        if survey is None:
            return
        if survey.keep_answers:
            raise InvalidParameter(
                "a survey that is collected must not keep answers, since devices randomize anew in "
                "each wave",
                hint="keep_answers = false",
            )
        if survey.tables:
            raise InvalidParameter(
                "a survey that is collected must have no tables of two questions, got "
                f"{len(survey.tables)}",
                hint="ask both questions as one choice instead",
            )
        stated = {ask.id: ask.task.to_dict() for one in self.releases for ask in one.asks}
        asked = {one.id: one.task.to_dict() for one in survey.questions}
        if stated != asked or len(stated) != sum(len(one.asks) for one in self.releases):
            raise InvalidParameter("every question must be answered by one release of its own task")
        told = (survey.budget, survey.least_people, survey.trust, survey.waves)
        kept = (self.budget, self.least_people, self.trust, self.waves)
        if told != kept:
            raise InvalidParameter(
                "the budget, the least number of people, the trust model and the waves of the "
                "survey must be those of its releases"
            )

    def _check(self, made: Protocol) -> None:
        if made.shuffler.withholds:
            raise InvalidParameter(
                f"{made.name} cannot be collected, since a shuffler cannot withhold rare messages "
                "that are sealed"
            )
        if made.crowd.users > self.least_people:
            raise InvalidParameter(
                f"{made.name} was built for at least {made.crowd.users:,} people, but the survey "
                f"may close with {self.least_people:,}"
            )
        if made.shuffler.adds and not made.budget.delta and len(self.releases) > 1:
            raise InvalidParameter(
                f"{made.name} with delta = 0 must be the only release, since its shuffler may "
                "have to discard all messages of one release, and it cannot tell them apart"
            )

    @classmethod
    def of(
        cls, survey: Survey, key: PublicKey, addresses: Addresses, admission: Admission = "open"
    ) -> "Document":
        """The document of a survey."""
        design = survey.design
        if design.questions_each != len(design.asks):
            raise InvalidParameter(
                "every person must answer all questions of a survey that is collected, but this "
                f"design asks each person {design.questions_each} of {len(design.asks)} questions"
            )
        protocols = [release.protocol for release in design.releases]
        slots = enough_slots(protocols, design.budget, design.trust, design.waves)
        return cls(
            survey.to_dict(), design.releases, slots, design.budget, key, addresses,
            design.crowd.users, admission, design.waves,
        )  # fmt: skip

    @cached_property
    def questions(self) -> Survey | None:
        """The survey with the words of its questions, or None if the document has no questions."""
        return survey_from(self.survey) if "question" in self.survey else None

    def encoded(self, answers: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """One person's answers as the protocols take them, by the ids of questions."""
        tasks = {ask.id: ask.task for release in self.releases for ask in release.asks}
        if unknown := sorted(set(answers) - set(tasks)):
            raise InvalidValue(
                f"the survey must have the question that is answered, got {unknown[0]!r}"
            )
        if missing := [name for name in tasks if name not in answers]:
            raise InvalidValue(f"every question must be answered, but {missing[0]!r} is not")
        if self.questions is not None:
            return self.questions.columns({name: [answers[name]] for name in tasks})
        return {name: task.encode([answers[name]]) for name, task in tasks.items()}

    # What follows from the releases ---------------------------------------------------------------

    @property
    def trust(self) -> Trust:
        """Whom the respondents have to trust."""
        return self.releases[0].protocol.trust

    @property
    def messages(self) -> int:
        """The number of sealed messages in every response."""
        return sum(self.slots)

    @property
    def content_bytes(self) -> int:
        """The size of the content of every message."""
        sizes = (sealed_size(release.protocol.alphabet) for release in self.releases)
        return max(sizes) - OVERHEAD

    @property
    def response_bytes(self) -> int:
        """The size of every response."""
        return self.messages * self.envelope.size

    @cached_property
    def payload_sizes(self) -> tuple[int, ...]:
        """The number of bytes of a message of each release."""
        return tuple(one.protocol.alphabet.bytes_per_message for one in self.releases)

    @cached_property
    def guarantee(self) -> Guarantee:
        """The guarantee for everything that one person sends, computed for `least_people`."""
        protocols = [release.protocol for release in self.releases]
        return joint_guarantee(protocols, self.slots, self.budget, self.trust, self.waves)

    @property
    def local_epsilon(self) -> float:
        """The ε that is left if the shuffler and the analyzer collude. It may be infinite."""
        return self.waves * sum(release.protocol.local_epsilon for release in self.releases)

    # As bytes -------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The document as a dictionary for JSON."""
        return {
            "version": VERSION,
            "survey": dict(self.survey),
            "releases": [
                release_data(release, slots)
                for release, slots in zip(self.releases, self.slots, strict=True)
            ],
            "budget": asdict(self.budget),
            "waves": self.waves,
            "guarantee": self.guarantee.to_dict(),
            "local_epsilon": self.local_epsilon if math.isfinite(self.local_epsilon) else None,
            "message_bytes": self.content_bytes,
            "messages": self.messages,
            "key": self.key.to_dict(),
            "addresses": asdict(self.addresses),
            "admission": self.admission,
            "least_people": self.least_people,
        }

    @cached_property
    def data(self) -> bytes:
        """The document as bytes."""
        return canonical(self.to_dict())

    @cached_property
    def digest(self) -> str:
        """The survey's name: the SHA-256 of the document, in hexadecimal."""
        return hashlib.sha256(self.data).hexdigest()

    @cached_property
    def envelope(self) -> Envelope:
        """How the messages of this survey are sealed."""
        return Envelope(bytes.fromhex(self.digest), self.content_bytes)

    @property
    def title(self) -> str:
        """The title of the survey, or an empty text."""
        return str(self.survey.get("title", ""))

    def save(self, path: Path) -> None:
        """Write a file that `load` reads. Its bytes are exactly the document's."""
        write_file(path, self.data)

    @classmethod
    def load(cls, path: Path) -> "Document":
        """Read a document that `save` wrote."""
        try:
            with path.open("rb") as file:
                data = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise UnreadableData(
                f"{str(path)!r} must be a survey document, got: {error.strerror}"
            ) from None
        return cls.from_bytes(data)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Document":
        """The document in these bytes, checked. All protocols are calibrated anew."""
        if len(data) > MOST_BYTES:
            raise UnreadableData(f"a survey document must have at most {MOST_BYTES:,} bytes")
        try:
            found = json.loads(data, parse_constant=_no_constant)
            if found["version"] != VERSION:
                raise UnreadableData(
                    f"a survey document must have version {VERSION}, got "
                    f"{checks.shown(found['version'])}"
                )
            made = cls(
                dict(found["survey"]),
                tuple(release_from(release) for release in found["releases"]),
                tuple(release["slots"] for release in found["releases"]),
                Budget(**found["budget"]),
                PublicKey.from_dict(found["key"]),
                Addresses(**found["addresses"]),
                found["least_people"],
                found["admission"],
                found["waves"],
            )
            _check_claim(found["guarantee"], made.guarantee)
            # A document may claim less privacy than its parameters give.
            same = canonical({**_plain(made.to_dict()), "guarantee": found["guarantee"]}) == data
        except HeadcountError as error:
            raise UnreadableData(f"a survey document must be valid: {error}") from None
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise UnreadableData(
                f"a survey document must be complete, got {type(error).__name__}: "
                f"{checks.shown(str(error))}"
            ) from None
        if not same:
            raise UnreadableData(
                "a survey document must be the canonical JSON of what it says",
                hint="the document was changed after headcount survey open had written it",
            )
        object.__setattr__(made, "data", data)
        return made


def _answers(release: Release) -> bool:
    """Whether the protocol of a release takes the answers to its questions."""
    task = release.protocol.task
    if len(release.asks) == 1:
        ask = release.asks[0].task
        return ask.to_dict() == task.to_dict() or (ask == Count() and task == YES_NO)
    yes_no = all(ask.task == Count() for ask in release.asks)
    return yes_no and task.to_dict() == Boxes(release.ids).to_dict()


def enough_slots(
    protocols: Sequence[Protocol], budget: Budget, trust: Trust, waves: int
) -> tuple[int, ...]:
    """Bundle sizes with which all releases together stay within the budget.

    The bundle size of a protocol is the smallest that its own share of the budget allows. In larger
    bundles the noise fits more often, which costs less of δ.
    """
    stated = _together(protocols, budget, trust, waves)
    slots = [made.slots for made in protocols]
    for _ in range(_MOST_EXTRA):
        if _fitted(stated, protocols, slots, waves).delta <= budget.delta:
            return tuple(slots)
        slots = [
            size + (made.randomizer.overflow(size) > 0)
            for size, made in zip(slots, protocols, strict=True)
        ]
    raise Infeasible(
        f"bundles of up to {sum(slots):,} messages exceed delta={short(budget.delta)}",
        nearest={"delta": 10 * budget.delta},
    )


def joint_guarantee(
    protocols: Sequence[Protocol], slots: Sequence[int], budget: Budget, trust: Trust, waves: int
) -> Guarantee:
    """The guarantee of all releases together, if everybody sends bundles of these sizes."""
    return _fitted(_together(protocols, budget, trust, waves), protocols, slots, waves)


def _together(protocols: Sequence[Protocol], budget: Budget, trust: Trust, waves: int) -> Guarantee:
    """The guarantee of all releases if the size of bundles had no limit."""
    if len(protocols) == waves == 1:
        return protocols[0].guarantee
    crowd = min((made.crowd for made in protocols), key=lambda one: one.honest)
    return joint(protocols, budget, crowd, trust, waves)[0]


def _fitted(
    stated: Guarantee, protocols: Sequence[Protocol], slots: Sequence[int], waves: int
) -> Guarantee:
    """The guarantee if noise is drawn again until it fits.

    Noise does not depend on values. So the views of all releases are conditioned on one event: the
    noise of all people fits in all releases. The probability that some noise does not fit is at
    most the sum of the probabilities of all people, releases and waves.
    """
    redrawn = waves * math.fsum(
        made.guarantee.honest * made.randomizer.overflow(size)
        for made, size in zip(protocols, slots, strict=True)
    )
    if not redrawn:
        return stated
    return replace(
        stated,
        delta=min(1.0, float(fitted_delta(stated.delta, stated.epsilon, redrawn))),
        exact=False,
        method=f"{stated.method}; bundles of fixed sizes, noise drawn until it fits",
    )


def canonical(document: Mapping[str, Any]) -> bytes:
    """Canonical JSON: sorted keys, no spaces, UTF-8."""
    text = json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode()


def _check_claim(claimed: Mapping[str, Any], computed: Guarantee) -> None:
    for name, least in (("epsilon", computed.epsilon), ("delta", computed.delta)):
        if checks.real(name, claimed[name]) < least:
            raise InvalidParameter(
                f"the document claims {name} = {short(claimed[name])}, but its parameters give "
                f"only {short(least)}"
            )
    for name in ("trust", "honest", "neighbors", "relies_on"):
        if claimed[name] != _plain(computed.to_dict())[name]:
            raise InvalidParameter(
                f"the document's guarantee must have the {name} "
                f"{checks.shown(computed.to_dict()[name])}, got {checks.shown(claimed[name])}"
            )


def _plain(value: Any) -> Any:
    """The value as JSON returns it: lists for tuples, texts for words of an enumeration."""
    return json.loads(canonical({"value": value}))["value"]


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
