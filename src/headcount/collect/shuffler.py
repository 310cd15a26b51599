"""The shuffler: it takes sealed responses, and hands their messages over in random order, once.

    open ──close──▶ closed ──forwarded──▶ forwarded
      └───destroy──▶ destroyed

A survey is *open* until it is closed. It is closed by a command, at a set time, or after a set
number of responses. Closing is one transaction. It reads the responses, adds the noise messages of
the protocols in which the shuffler adds noise, and permutes all messages. It writes this batch, and
deletes the responses. If sending the batch fails, the same batch is sent again, because fresh noise
for the same answers would spend the budget twice. When the analyzer has acknowledged the batch, the
batch is deleted too.

The shuffler stores neither addresses nor times of arrival. It cannot open the messages that it
stores.
"""

import hashlib
import itertools
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from headcount.collect.arrivals import Arrivals, Round, State, places_of, row_bytes
from headcount.collect.batch import SealedBatch, first_copies
from headcount.collect.document import Document
from headcount.collect.inbox import Inbox
from headcount.collect.refusals import (
    Closed,
    Conflict,
    Refused,
    TooFewPeople,
    Unauthorized,
    UnknownSurvey,
    WrongSize,
)
from headcount.collect.store import Run, Store
from headcount.core import checks
from headcount.core.errors import InvalidParameter
from headcount.core.source import Source
from headcount.core.table import counted_people
from headcount.randomness.draws import permutation
from headcount.randomness.sources import SecureSource

Clock: TypeAlias = Callable[[], float]  # in seconds; the clock of a `Shuffler` begins in 1970
Outcome: TypeAlias = Literal["stored", "seen before"] | Refused
_COARSE = 10  # the smallest step to which the public number of responses is rounded
# The value of the column `used_for` before a code is used. The later value has the same length, so
# the row stays where it is. Rows that move would show in which order codes were used.
_UNUSED = bytes(16)


class Sent(NamedTuple):
    """A response as it arrives: sealed messages, and an invitation code if the survey asks for
    one.
    """

    survey: str
    body: bytes
    code: str | None = None


@dataclass(frozen=True)
class Status:
    """The state of a survey at the shuffler."""

    survey: str
    title: str
    state: State
    responses: int
    least_people: int
    closes_at: float | None
    closes_with: int | None
    overdue: bool  # it should be closed, but too few people have answered

    @property
    def coarse(self) -> int:
        """The number of responses, rounded down to a multiple of `step`. This number is public. The
        exact number would show everybody when each response came.
        """
        return self.responses // self.step * self.step

    @property
    def step(self) -> int:
        """The step to which the public number of responses is rounded: a tenth of `least_people`,
        but at least 10.
        """
        return max(_COARSE, self.least_people // 10)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class Shuffler:
    """The shuffler of any number of surveys.

    `reached` is called with the name of each step that a crash may interrupt. Tests use it.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock = time.time,
        source: Source | None = None,
        reached: Callable[[str], None] = lambda step: None,
    ) -> None:
        self.store, self._clock, self._reached = store, clock, reached
        # An earlier process may have crashed after it deleted rows and before it scrubbed.
        self.has_traces = True
        self._source = SecureSource() if source is None else source
        self._documents: dict[str, Document] = {}
        with store.writing() as run:
            for table in (
                "surveys (number INTEGER PRIMARY KEY, digest TEXT UNIQUE NOT NULL, "
                "document {0} NOT NULL)",
                "rounds (number INTEGER PRIMARY KEY, hash_key {0} NOT NULL, state TEXT NOT NULL, "
                "responses BIGINT NOT NULL, closes_at DOUBLE PRECISION, closes_with BIGINT, "
                "batch TEXT)",
                "codes (number INTEGER, code {0}, used_for {0} NOT NULL, "
                "PRIMARY KEY (number, code))",
                "outbox (number INTEGER, part INTEGER, body {0} NOT NULL, "
                "PRIMARY KEY (number, part))",
            ):
                made = table.format(store.bytes_type)
                run(f"CREATE TABLE IF NOT EXISTS {made}{store.table_end}")
            columns = store.inbox.columns.format(store.bytes_type)
            run(f"CREATE TABLE IF NOT EXISTS inbox ({columns})")

    # Surveys ------------------------------------------------------------------------------------

    def register(
        self, document: Document, *, closes_at: float | None = None, closes_with: int | None = None
    ) -> None:
        """Register a survey, so that responses to it are accepted. The survey is due for closing at
        the time `closes_at`, or with `closes_with` responses. If the survey is already registered,
        it keeps its state. If new rules for closing are given, they replace the old ones.
        """
        if document.envelope.size > self.store.largest_row:
            raise InvalidParameter(
                f"a sealed message must have at most {self.store.largest_row} bytes in "
                f"{self.store.shown}, got {document.envelope.size}",
                hint="ask with fewer buckets, or choose a protocol with shorter messages",
            )
        if closes_with is not None and closes_with < document.least_people:
            raise InvalidParameter(
                f"a survey must not close with fewer than {document.least_people:,} people, "
                f"got {closes_with:,}"
            )
        with self.store.writing() as run:
            found = run("SELECT number FROM surveys WHERE digest = ?", document.digest)
            if not found:
                number = run("SELECT COALESCE(MAX(number), 0) + 1 FROM surveys")[0][0]
                run("INSERT INTO surveys VALUES (?, ?, ?)",
                    number, document.digest, document.data)  # fmt: skip
                run("INSERT INTO rounds VALUES (?, ?, 'open', 0, ?, ?, NULL)",
                    number, secrets.token_bytes(32), closes_at, closes_with)  # fmt: skip
            elif closes_at is not None or closes_with is not None:
                run("UPDATE rounds SET closes_at = ?, closes_with = ? WHERE number = ?",
                    closes_at, closes_with, found[0][0])  # fmt: skip
        self._documents[document.digest] = document

    def surveys(self) -> list[str]:
        """The digests of all surveys."""
        with self.store.reading() as run:
            return [digest for (digest,) in run("SELECT digest FROM surveys ORDER BY digest")]

    def knows(self, digest: str) -> bool:
        """Whether the document of a survey is in memory."""
        return digest in self._documents

    def document(self, digest: str) -> Document:
        """The document of a survey."""
        if digest not in self._documents:
            with self.store.reading() as run:
                found = run("SELECT document FROM surveys WHERE digest = ?", digest)
            if not found:
                raise UnknownSurvey(f"no survey here has the digest {checks.shown(digest)}")
            self._documents[digest] = Document.from_bytes(bytes(found[0][0]))
        return self._documents[digest]

    def status(self, digest: str) -> Status:
        """The state of a survey, and its number of responses."""
        document = self.document(digest)
        with self.store.reading() as run:
            found = self._round(run, digest)
        few = found.responses < document.least_people
        return Status(
            digest, document.title, found.state, found.responses, document.least_people,
            found.closes_at, found.closes_with, overdue=self._due(found) and few,
        )  # fmt: skip

    def new_codes(self, digest: str, count: int) -> list[str]:
        """Make one-time invitation codes. Only their hashes are stored. The hashes are deleted when
        the survey is closed or destroyed.
        """
        if self.document(digest).admission != "codes":
            raise InvalidParameter("the survey must ask for codes, but it is open to everybody")
        checks.whole("count", count, low=1, high=10**7)
        codes = [secrets.token_hex(10) for _ in range(count)]
        with self.store.writing() as run:
            found = self._round(run, digest)
            if found.state != "open":
                raise Closed("only an open survey can have more codes")
            run.many(
                "INSERT INTO codes VALUES (?, ?, ?)",
                [(found.number, _code_hash(digest, code), _UNUSED) for code in codes],
            )
        return codes

    # Responses ----------------------------------------------------------------------------------

    def accept(self, sent: Sequence[Sent]) -> list[Outcome]:
        """Store responses in one transaction, and return the outcome of each response."""
        for digest in {one.survey for one in sent}:
            with suppress(UnknownSurvey):
                self.document(digest)  # this loads the document into memory
        self._reached("accepting")
        with self.store.writing() as run:
            arrivals = Arrivals(self.store, run)
            outcomes = [self._accepted(arrivals, one) for one in sent]
            arrivals.write()
            self._reached("accepted, not committed")
        self._reached("committed, not answered")
        return outcomes

    def _accepted(self, arrivals: Arrivals, sent: Sent) -> Outcome:
        run = arrivals.run
        try:
            if not self.knows(sent.survey):
                raise UnknownSurvey(f"no survey here has the digest {checks.shown(sent.survey)}")
            document = self.document(sent.survey)
            if len(sent.body) != document.response_bytes:
                raise WrongSize(
                    f"a response must have exactly {document.response_bytes:,} bytes, "
                    f"got {len(sent.body):,}"
                )
            found = arrivals.rounds.get(sent.survey) or self._round(run, sent.survey)
            arrivals.rounds[sent.survey] = found
            if found.state != "open":
                raise Closed("this survey takes no more responses")
            inbox = arrivals.inbox(found.number, document)
            places, new = self._free_places(inbox, found, document, sent.body)
            code = self._code(run, document, found, sent)
        except Refused as refused:
            return refused
        if not new:
            return "seen before"
        arrivals.add(found.number, places)
        if code is not None:
            run("UPDATE codes SET used_for = ? WHERE number = ? AND code = ?",
                _used_for(found.hash_key, sent), found.number, code)  # fmt: skip
        return "stored"

    def _free_places(
        self, inbox: Inbox, found: Round, document: Document, body: bytes
    ) -> tuple[list[tuple[int, bytes]], bool]:
        """The rows of a response with their places, and whether the response is new. If another
        response already has one of these places, other places are tried.
        """
        for attempt in itertools.count():
            places = places_of(found.hash_key, body, row_bytes(document), attempt)
            taken = [inbox.at(place) for place, _ in places]
            if not any(taken):
                return places, True
            if taken == [body for _, body in places]:
                return places, False
        raise AssertionError  # this is never reached, since the loop has no end

    def _code(self, run: Run, document: Document, found: Round, sent: Sent) -> bytes | None:
        """The hash of the invitation code, or None if the survey asks for no code. A code that is
        missing, unknown, or used for another response is refused.
        """
        if document.admission == "open":
            return None
        if not sent.code:
            raise Unauthorized("this survey asks for an invitation code, got none")
        code = _code_hash(sent.survey, sent.code)
        known = run("SELECT used_for FROM codes WHERE number = ? AND code = ?", found.number, code)
        if not known:
            raise Unauthorized("this invitation code is unknown")
        (used,) = known[0]
        if bytes(used) not in (_UNUSED, _used_for(found.hash_key, sent)):
            raise Conflict("this invitation code was used for another response")
        return code

    # Closing ------------------------------------------------------------------------------------

    def due(self) -> list[str]:
        """The digests of the surveys that should be closed now, because of the time or because of
        the number of responses.
        """
        with self.store.reading() as run:
            rows = run("SELECT digest FROM surveys ORDER BY digest")
            return [digest for (digest,) in rows if self._due(self._round(run, digest))]

    def _due(self, found: Round) -> bool:
        timed = found.closes_at is not None and self._clock() >= found.closes_at
        counted_out = found.closes_with is not None and found.responses >= found.closes_with
        return found.state == "open" and (timed or counted_out)

    def close(self, digest: str) -> str:
        """Close a survey, and return the id of its batch. If it is closed already, nothing changes.

        If fewer than `least_people` people have answered, no batch is made, and the survey stays
        open.
        """
        document = self.document(digest)
        self._reached("closing")
        with self.store.writing() as run:
            found = self._round(run, digest)
            if found.batch is not None:
                return found.batch
            if found.state != "open":
                raise Closed("this survey was destroyed")
            if found.responses < document.least_people:
                raise TooFewPeople(
                    f"at least {counted_people(document.least_people)} must answer before this "
                    f"survey is closed, got {found.responses:,}",
                    hint="extend the survey, or destroy it",
                )
            inbox = self.store.inbox(run, found.number, row_bytes(document))
            batch = self.mixed(document, list(inbox.bodies()), found.responses)
            self._reached("mixed")
            name = secrets.token_hex(16)
            run.many("INSERT INTO outbox VALUES (?, ?, ?)", batch.rows(found.number))
            self._reached("batch written")
            self._forget(run, found.number)
            run("UPDATE rounds SET state = 'closed', batch = ? WHERE number = ?",
                name, found.number)  # fmt: skip
            self._reached("closed, not committed")
        self._reached("closed")
        self.scrub()
        return name

    def destroy(self, digest: str) -> None:
        """Delete all responses to an open survey, so that nobody ever analyzes them."""
        with self.store.writing() as run:
            found = self._round(run, digest)
            if found.state != "open":
                raise Closed("only an open survey can be destroyed")
            self._forget(run, found.number)
            run("UPDATE rounds SET state = 'destroyed' WHERE number = ?", found.number)
        self.scrub()

    def extend(self, digest: str, closes_at: float | None) -> None:
        """Set another time for closing. With None, the survey has no time for closing."""
        with self.store.writing() as run:
            found = self._round(run, digest)
            if found.state != "open":
                raise Closed("only an open survey can be extended")
            run("UPDATE rounds SET closes_at = ? WHERE number = ?", closes_at, found.number)

    def _forget(self, run: Run, number: int) -> None:
        """Delete the responses, the codes, and the key of the hashes. A disk or a backup may have
        kept responses and codes. Without the key, nobody can link them.
        """
        self.store.inbox.delete(run, number)
        run("DELETE FROM codes WHERE number = ?", number)
        run("UPDATE rounds SET hash_key = ? WHERE number = ?", b"", number)

    def mixed(self, document: Document, bodies: list[bytes], people: int) -> SealedBatch:
        """All messages of people and the shuffler's own noise messages, without copies, in a
        uniformly random order. If the noise is to replace the messages of people, the batch has
        only noise messages.
        """
        size = document.envelope.size
        noise, alone = self._noise(document, people)
        sealed = b"".join(noise if alone else [*bodies, *noise])
        kept = np.flatnonzero(first_copies([sealed], size))
        order = kept[permutation(self._source, len(kept))]
        messages = np.frombuffer(sealed, np.uint8).reshape(-1, size)
        return SealedBatch(people, size, messages[order].tobytes())

    def _noise(self, document: Document, people: int) -> tuple[list[bytes], bool]:
        """The sealed noise messages, and whether they replace the messages of people. With δ = 0, a
        shuffler must sometimes do so (see `core.shuffler.Noise`).
        """
        key, alone = document.key.key, False
        sealed: list[bytes] = []
        for number, release in enumerate(document.releases):
            shuffler = release.protocol.shuffler
            if shuffler.adds:
                noise = shuffler.noise(people, self._source)
                alone = alone or noise.alone
                wire = noise.messages.astype(noise.messages.dtype.newbyteorder("<"))
                sealed += [document.envelope.seal(key, number, one.tobytes()) for one in wire]
        return sealed, alone

    # Handing over -------------------------------------------------------------------------------

    def waiting(self) -> list[str]:
        """The digests of closed surveys whose batch the analyzer has not acknowledged yet."""
        with self.store.reading() as run:
            return [
                digest
                for (digest,) in run(
                    "SELECT digest FROM surveys JOIN rounds USING (number) "
                    "WHERE state = 'closed' ORDER BY digest"
                )
            ]

    def batch(self, digest: str) -> tuple[str, SealedBatch]:
        """The id and the batch of a closed survey. Every call returns the same batch."""
        with self.store.reading() as run:
            found = self._round(run, digest)
            if found.state != "closed" or found.batch is None:
                raise Conflict(f"a survey must be closed to have a batch, but it is {found.state}")
            parts = run("SELECT body FROM outbox WHERE number = ? ORDER BY part", found.number)
        return found.batch, SealedBatch.from_parts(parts)

    def forward(self, digest: str, send: Callable[[Document, str, SealedBatch], None]) -> None:
        """Send the batch of a closed survey with the function `send`. After `send` has returned,
        the batch is deleted.
        """
        document, (name, batch) = self.document(digest), self.batch(digest)
        self._reached("sending")
        send(document, name, batch)
        self._reached("sent, not recorded")
        with self.store.writing() as run:
            number = self._round(run, digest).number
            run("DELETE FROM outbox WHERE number = ?", number)
            run("UPDATE rounds SET state = 'forwarded' WHERE number = ?", number)
        self._reached("forwarded")
        self.scrub()

    def scrub(self) -> None:
        """Remove the traces of deleted rows from the store."""
        self.has_traces = True
        self.store.scrub(("inbox", "codes", "rounds", "outbox"))
        self.has_traces = False

    def _round(self, run: Run, digest: str) -> Round:
        found = run(
            "SELECT number, hash_key, state, responses, closes_at, closes_with, batch "
            "FROM rounds JOIN surveys USING (number) WHERE digest = ?",
            digest,
        )
        if not found:
            raise UnknownSurvey(f"no survey here has the digest {checks.shown(digest)}")
        number, hash_key, *rest = found[0]
        return Round(number, bytes(hash_key), *rest)


def _code_hash(digest: str, code: str) -> bytes:
    """The hash of a code. Codes have 80 random bits, so a plain hash cannot be inverted."""
    return hashlib.sha256(f"{digest} {_plain(code)}".encode()).digest()


def _used_for(key: bytes, sent: Sent) -> bytes:
    """The hash that is stored with a code after it was used. It shows whether a response is the one
    for which the code was used. Whoever does not have the code itself cannot find this response.
    """
    code = _plain(sent.code or "").encode()
    return hashlib.blake2b(code + sent.body, key=key, digest_size=len(_UNUSED)).digest()


def _plain(code: str) -> str:
    return code.strip().lower()
