"""The survey document: everything that respondents, the shuffler and the analyzer must agree on.

A document is canonical JSON: sorted keys, no spaces, UTF-8. Its SHA-256 is the name of the survey.
A release is one run of a protocol, which answers one or more questions. The document holds the
calibrated protocol of each release, the joint guarantee, the analyzer's public key, and the form of
a response. Whoever receives a document calibrates the protocols again. A document that claims more
privacy than its parameters give is refused.

If the same people are asked several times, each time is a wave. Each wave has a document of its
own, which holds the number of the wave. The guarantee is for all waves together.
"""

import hashlib
import ipaddress
import json
import math
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from numpy.typing import NDArray

from headcount.collect.device import device_data
from headcount.collect.keys import PublicKey
from headcount.collect.releases import (
    answers_its_questions,
    plain,
    release_data,
    release_from,
)
from headcount.collect.sealing import Envelope
from headcount.core import checks
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.cached import cached_property
from headcount.core.errors import (
    HeadcountError,
    InvalidParameter,
    InvalidValue,
    UnreadableData,
)
from headcount.core.guarantee import Guarantee
from headcount.core.protocol import option_names
from headcount.core.sealing import OVERHEAD, sealed_size
from headcount.core.table import short
from headcount.core.task import Task
from headcount.core.writing import write_file
from headcount.survey.design import LINE, Ask, AskedTable, Design, Release
from headcount.survey.file import survey_from
from headcount.survey.joint import total
from headcount.survey.promise import promise_of, releases_each
from headcount.survey.survey import Survey

VERSION = 1
MOST_BYTES = 2**20  # the largest document that is read
MOST_RELEASES = 1000
MOST_MESSAGES = 10_000  # the most messages from one person, in all releases together
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

    @property
    def one_host(self) -> bool:
        """Whether both addresses name the same host."""
        return _host(self.shuffler) == _host(self.analyzer)


@dataclass(frozen=True)
class Document:
    """A survey that is ready to be collected. `survey` is the survey file as data: the title, the
    texts of the questions, and whatever else clients show. The document is for wave number `wave`
    of `waves`.
    """

    survey: Mapping[str, Any]
    releases: tuple[Release, ...]
    budget: Budget
    key: PublicKey
    addresses: Addresses
    least_people: int
    admission: Admission = "open"
    waves: int = 1
    wave: int = 1

    def __post_init__(self) -> None:
        checks.whole("least_people", self.least_people, low=1, high=2**50)
        checks.whole("waves", self.waves, low=1, high=10_000)
        checks.whole("wave", self.wave, low=1, high=self.waves)
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
        self._check_questions()
        for release in self.releases:
            self._check(release)
        if sum(one.share for one in self.releases) % LINE:
            raise InvalidParameter("the shares of all releases must add up to a whole number")
        if self.messages > MOST_MESSAGES:
            raise InvalidParameter(
                f"a response must have at most {MOST_MESSAGES:,} messages, got {self.messages:,}"
            )
        promise, budget = self.guarantee, self.budget
        if promise.epsilon > budget.epsilon or promise.delta > budget.delta:
            raise InvalidParameter(
                f"all releases together must stay within epsilon={short(budget.epsilon)}, "
                f"delta={short(budget.delta)}, got epsilon={short(promise.epsilon)}, "
                f"delta={short(promise.delta)}"
            )

    def _check_questions(self) -> None:
        """Refuse releases whose tasks differ from those of the questions that people read.

        With another task, an answer could become a message that the noise of its release does not
        hide.
        """
        for release in self.releases:
            if not answers_its_questions(release):
                raise InvalidParameter(
                    f"the release of {', '.join(release.ids)} must have the task of its questions, "
                    f"got {release.protocol.task}"
                )
        stated = {ask.id: ask.task.to_dict() for ask in self.asks}
        if len(stated) != len(self.asks):
            raise InvalidParameter("every question must be answered by one release, got two")
        survey = self.questions
        if survey is None:
            return
        if survey.keep_answers:
            raise InvalidParameter(
                "a survey that is collected must not keep answers, since devices randomize anew in "
                "each wave",
                hint="keep_answers = false",
            )
        asked = {one.id: one.task.to_dict() for one in survey.asks}
        if missing := sorted(set(asked) - set(stated)):
            raise InvalidParameter(f"every question must be answered, but {missing[0]!r} is not")
        asked |= {name: one.ask.task.to_dict() for name, one in self.tables.items()}
        if stated != asked:
            raise InvalidParameter("every question must be answered by one release of its own task")
        of_survey = (survey.budget, survey.least_people, survey.trust, survey.waves)
        of_releases = (self.budget, self.least_people, self.trust, self.waves)
        if of_survey != of_releases:
            raise InvalidParameter(
                "the budget, the least number of people, the trust model and the waves of the "
                "survey must be those of its releases"
            )

    def _check(self, release: Release) -> None:
        made = release.protocol
        if made.shuffler.withholds:
            raise InvalidParameter(
                f"{made.name} cannot be collected, since a shuffler cannot withhold rare messages "
                "that are sealed"
            )
        if device_data(made) is None:
            capped = "max_slots" in option_names(type(made))
            raise InvalidParameter(
                f"{made.name} cannot be collected, since browsers cannot run its randomizer",
                hint="give `max_slots` as an option" if capped else "choose another protocol",
            )
        if made.crowd.users > release.asked:
            raise InvalidParameter(
                f"{made.name} was built for at least {made.crowd.users:,} people, but the survey "
                f"may close with {release.asked:,}"
            )
        if made.shuffler.adds and not made.budget.delta and len(self.releases) > 1:
            raise InvalidParameter(
                f"{made.name} with delta = 0 must be the only release, since its shuffler may "
                "have to discard all messages of one release, and it cannot tell them apart"
            )
        if release.for_some and (made.trust, made.randomizer.fixed_messages) != (Trust.LOCAL, 1):
            raise InvalidParameter(
                f"everybody must answer {', '.join(release.ids)}: only in local trust, and with "
                "one message each, can the analyzer tell how many people answered"
            )

    @classmethod
    def of(
        cls,
        survey: Survey,
        key: PublicKey,
        addresses: Addresses,
        admission: Admission = "open",
        wave: int = 1,
    ) -> "Document":
        """The document of a survey, or of one of its waves."""
        design = survey.design
        return cls(
            survey.to_dict(), design.releases, design.budget, key, addresses, design.crowd.users,
            admission, design.waves, wave,
        )  # fmt: skip

    @cached_property
    def questions(self) -> Survey | None:
        """The survey with the texts of its questions, or None if the document has no texts."""
        return survey_from(self.survey) if "question" in self.survey else None

    def encoded(
        self, answers: Mapping[str, Any], asked: Collection[str] | None = None
    ) -> dict[str, NDArray[Any]]:
        """One person's answers in the encoding that the protocols take, by the ids of questions.

        The questions in `asked` must be answered. By default, all questions must be answered. Error
        messages do not repeat an answer, since they may end up in logs.
        """
        tasks = {ask.id: ask.task for ask in self.design.asked}
        if unknown := sorted(set(answers) - set(tasks)):
            raise InvalidValue(
                f"the survey must have the question that is answered, got {unknown[0]!r}"
            )
        if missing := [name for name in asked or tasks if name not in answers]:
            raise InvalidValue(f"every question must be answered, but {missing[0]!r} is not")
        if self.questions is None:
            return {name: _encoded(tasks[name], answer, name) for name, answer in answers.items()}
        found: dict[str, NDArray[Any]] = {}
        for one in self.questions.questions:
            if one.id not in answers:
                continue
            try:
                found[one.id] = one.task.encode(one.values([answers[one.id]]))
            except InvalidValue:
                raise InvalidValue(f"question {one.id!r} must be answered {one.allowed}") from None
        return found

    # What follows from the releases ---------------------------------------------------------------

    @property
    def trust(self) -> Trust:
        """The trust model, which all releases share."""
        return self.releases[0].protocol.trust

    @property
    def asks(self) -> tuple[Ask, ...]:
        """All questions and two-way tables that the releases answer."""
        return tuple(ask for release in self.releases for ask in release.asks)

    @cached_property
    def tables(self) -> dict[str, AskedTable]:
        """The two-way tables of questions, by the ids of the tables."""
        pairs = () if self.questions is None else self.questions.tables
        asks = {ask.id: ask for ask in self.asks}
        found = [AskedTable(asks[rows], asks[columns]) for rows, columns in pairs]
        return {one.id: one for one in found}

    @cached_property
    def design(self) -> Design:
        """The releases with everything that follows from them: the guarantee, the number of
        messages for each release, and the number of releases that each person answers.
        """
        honest = max(release.protocol.crowd.honest for release in self.releases)
        crowd = Crowd(self.least_people, honest)
        promise, curve = promise_of(self.releases, self.budget, crowd, self.waves)
        each = releases_each(self.releases) if self.trust is Trust.LOCAL else None
        return Design(
            self.trust, self.budget, crowd, self.asks, self.releases, promise, curve,
            self.waves, each, tuple(self.tables.values()),
        )  # fmt: skip

    @property
    def messages(self) -> int:
        """The number of sealed messages in every response."""
        return self.design.slots

    @property
    def content_bytes(self) -> int:
        """The size of the content of every message, in bytes."""
        sizes = (sealed_size(release.protocol.alphabet) for release in self.releases)
        return max(sizes) - OVERHEAD

    @property
    def response_bytes(self) -> int:
        """The size of every response, in bytes."""
        return self.messages * self.envelope.size

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for everything that one person sends in all waves, computed for
        `least_people`.
        """
        return self.design.bundled_guarantee

    @property
    def local_epsilon(self) -> float:
        """The ε that is left if the shuffler and the analyzer collude, rounded up. It may be
        infinite.
        """
        each = sorted((one.protocol.local_epsilon for one in self.releases), reverse=True)
        return total(each[: self.design.releases_each], self.waves)

    # As bytes -------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The document as a dictionary for JSON."""
        return {
            "version": VERSION,
            "survey": dict(self.survey),
            "releases": [
                release_data(release, slots, self.tables)
                for release, slots in zip(self.releases, self.design.slots_of, strict=True)
            ],
            "releases_each": releases_each(self.releases),
            "budget": asdict(self.budget),
            "waves": self.waves,
            "wave": self.wave,
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
        """Write the bytes of the document to a file."""
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
        """The document in these bytes. All protocols are calibrated again. A document is refused if
        any of its values differs from what is computed. Only its guarantee may be weaker than the
        computed one.
        """
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
                tuple(release_from(one, found["least_people"]) for one in found["releases"]),
                Budget(**found["budget"]),
                PublicKey.from_dict(found["key"]),
                Addresses(**found["addresses"]),
                found["least_people"],
                found["admission"],
                found["waves"],
                found["wave"],
            )
            _check_claim(found["guarantee"], made.guarantee)
            # A document may claim less privacy than its parameters give, so guarantees may differ.
            same = canonical({**plain(made.to_dict()), "guarantee": found["guarantee"]}) == data
        except HeadcountError as error:
            raise UnreadableData(f"a survey document must be valid: {error}") from None
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise UnreadableData(
                f"a survey document must be complete, got {type(error).__name__}: "
                f"{checks.shown(str(error))}"
            ) from None
        if not same:
            raise UnreadableData(
                "a survey document must be canonical JSON, with every value as it is computed",
                hint="the document was changed after headcount survey open had written it",
            )
        object.__setattr__(made, "data", data)
        return made


def _encoded(task: Task, answer: Any, name: str) -> NDArray[Any]:
    try:
        return task.encode([answer])
    except InvalidValue:
        raise InvalidValue(f"question {name!r} must be answered with a value of its task") from None


def canonical(document: Mapping[str, Any]) -> bytes:
    """Canonical JSON: sorted keys, no spaces, UTF-8."""
    text = json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode()


def _check_claim(claimed: Mapping[str, Any], computed: Guarantee) -> None:
    """Refuse a guarantee that is stronger than the computed one, or differs from it in anything
    but ε, δ and whether they are exact.
    """
    exact = computed.exact
    for name, least in (("epsilon", computed.epsilon), ("delta", computed.delta)):
        if checks.real(name, claimed[name]) < least:
            raise InvalidParameter(
                f"the document claims {name} = {claimed[name]!r}, but its parameters give "
                f"only {least!r}"
            )
        exact = exact and math.isclose(claimed[name], least, rel_tol=1e-9)
    if claimed["exact"] is not False and (claimed["exact"] is not True or not exact):
        raise InvalidParameter("the document claims that its guarantee is exact, but it is a bound")
    known = plain(computed.to_dict())
    for name in {*known, *claimed} - {"epsilon", "delta", "exact"}:
        if claimed.get(name) != known.get(name):
            raise InvalidParameter(
                f"the document's guarantee must have the {name} {checks.shown(known.get(name))}, "
                f"got {checks.shown(claimed.get(name))}"
            )


def _host(url: str) -> str:
    """The host name in an address. All loopback addresses and names count as "localhost"."""
    name = url
    with suppress(ValueError):
        name = (urlsplit(url).hostname or url).rstrip(".")
        if ipaddress.ip_address(name).is_loopback:
            return "localhost"
    return "localhost" if name.endswith(".localhost") else name


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
