"""The analyzer: it opens the batch of each survey, counts its messages, and estimates once.

A batch is stored when it arrives, so that the shuffler may delete its copy. Then the analyzer opens
and counts the messages. One transaction stores the counts and the results, and deletes the sealed
messages. If the process is killed before this transaction, nothing was published, and the batch is
opened again. If a batch comes in files, only its id and its digest are stored. Its messages stay in
the files.

A survey has one batch. The same batch may arrive any number of times. Another batch of the same
survey is refused, because it could hold fresh noise for the same answers.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from headcount.collect.batch import SealedBatch
from headcount.collect.batch_files import BatchFiles
from headcount.collect.document import Document
from headcount.collect.keys import PublicKey
from headcount.collect.opening import Opened, Opener, open_batch
from headcount.collect.refusals import Conflict, Malformed, NoResults, UnknownSurvey
from headcount.collect.report import report
from headcount.collect.store import Run, Store
from headcount.core import checks
from headcount.core.errors import HeadcountError, InvalidParameter, UnreadableData
from headcount.core.estimate import Estimate
from headcount.core.protocol import has_noise, tally_of
from headcount.core.source import Source
from headcount.core.table import counted_people
from headcount.core.tally import Tally
from headcount.core.writing import json_text
from headcount.survey.design import Release


class Analyzer:
    """The analyzer of any number of surveys whose messages are sealed for its key. Without the
    private key, it can only show results.

    `charge` is called with the document and the number of people before a batch is opened. After a
    crash, it is called again for the same survey. `reached` is called with the name of each step
    that a crash may interrupt. Tests use it.
    """

    def __init__(
        self,
        store: Store,
        key: X25519PrivateKey | None,
        *,
        processes: int = 1,
        source: Source | None = None,
        charge: Callable[[Document, int], None] | None = None,
        reached: Callable[[str], None] = lambda step: None,
    ) -> None:
        self.store, self._key, self._processes = store, key, processes
        self._source, self._charge, self._reached = source, charge, reached
        self._documents: dict[str, Document] = {}
        # An earlier process may have crashed after it deleted rows and before it scrubbed.
        self.has_traces = True
        with store.writing() as run:
            for table in (
                "analyses (number INTEGER PRIMARY KEY, digest TEXT UNIQUE NOT NULL, "
                "document {0} NOT NULL, batch TEXT, batch_digest TEXT, results TEXT, tallies TEXT)",
                "parts (number INTEGER, part INTEGER, body {0} NOT NULL, "
                "PRIMARY KEY (number, part))",
            ):
                run(f"CREATE TABLE IF NOT EXISTS {table.format(store.bytes_type)}{store.table_end}")

    # Surveys ------------------------------------------------------------------------------------

    def register(self, document: Document) -> None:
        """Register a survey, so that its batch is accepted when it arrives."""
        public = PublicKey(self._private.public_key().public_bytes_raw())
        if document.key != public:
            raise InvalidParameter(
                f"the survey must be sealed for this analyzer's key {public.id}, "
                f"got a survey for key {document.key.id}"
            )
        with self.store.writing() as run:
            if not run("SELECT 1 FROM analyses WHERE digest = ?", document.digest):
                run(
                    "INSERT INTO analyses (number, digest, document) "
                    "SELECT COALESCE(MAX(number), 0) + 1, ?, ? FROM analyses",
                    document.digest,
                    document.data,
                )
        self._documents[document.digest] = document

    def surveys(self) -> list[str]:
        """The digests of all surveys."""
        with self.store.reading() as run:
            return [digest for (digest,) in run("SELECT digest FROM analyses ORDER BY digest")]

    def document(self, digest: str) -> Document:
        """The document of a survey."""
        if digest not in self._documents:
            with self.store.reading() as run:
                data = self._row(run, digest, "document")[0]
            self._documents[digest] = Document.from_bytes(bytes(data))
        return self._documents[digest]

    # Batches ------------------------------------------------------------------------------------

    def receive(self, digest: str, name: str, batch: SealedBatch) -> bool:
        """Store a batch durably. False means that exactly this batch was stored before."""
        self._check_shape(self.document(digest), batch.size, batch.people)
        self._reached("receiving")
        with self.store.writing() as run:
            number = self._claimed(run, digest, name, batch.digest)
            if self._row(run, digest, "results")[0] is not None or self._has_parts(run, number):
                return False
            run.many("INSERT INTO parts VALUES (?, ?, ?)", batch.rows(number))
            self._reached("received, not committed")
        self._reached("received")
        return True

    def _check_shape(self, document: Document, size: int, people: int) -> None:
        """Refuse a batch that cannot belong to this survey."""
        if size != document.envelope.size:
            raise Malformed(
                f"the messages of this survey have {document.envelope.size} bytes each, got {size}"
            )
        if people < document.least_people:
            raise Malformed(
                f"a batch must come from at least {counted_people(document.least_people)}, "
                f"got {people:,}"
            )

    def _claimed(self, run: Run, digest: str, name: str, content: str) -> int:
        """Record that the batch of a survey has this id and this digest, and return the number of
        the survey. If another batch was recorded before, this one is refused.
        """
        number, known, known_content = self._row(run, digest, "number, batch, batch_digest")
        if known is None:
            run("UPDATE analyses SET batch = ?, batch_digest = ? WHERE number = ?",
                name, content, number)  # fmt: skip
        elif (known, known_content) != (name, content):
            raise Conflict(
                "another batch of this survey was accepted before",
                hint="a survey is closed once, and its batch is never mixed again",
            )
        return int(number)

    def _has_parts(self, run: Run, number: int) -> bool:
        return bool(run("SELECT 1 FROM parts WHERE number = ? AND part = 0", number))

    def pending(self) -> list[str]:
        """The digests of the surveys whose batch was received, but not counted yet."""
        with self.store.reading() as run:
            return [
                digest
                for (digest,) in run(
                    "SELECT digest FROM analyses JOIN parts USING (number) "
                    "WHERE part = 0 AND results IS NULL ORDER BY digest"
                )
            ]

    def count(self, digest: str) -> None:
        """Open the batch of a survey, count its messages, and estimate. If the survey already has
        results, or has no stored batch, nothing happens.
        """
        document = self.document(digest)
        with self.store.reading() as run:
            number, results = self._row(run, digest, "number, results")
            parts = run("SELECT body FROM parts WHERE number = ? ORDER BY part", number)
        if results is not None or not parts:
            return
        batch = SealedBatch.from_parts(parts)
        del parts
        self._about_to_open(document, batch.people)
        opened = open_batch(batch, self.opener(document), processes=self._processes)
        self._publish(document, batch.people, opened)

    def count_files(self, files: BatchFiles, opened: Callable[[Opener], Opened]) -> bool:
        """Count a batch in files. `opened` is the function that opens the files. The result is
        False if the batch was counted before. If the files cannot be read, nothing is published,
        and the survey can still get another batch.
        """
        document = self.document(files.survey)
        self._check_shape(document, files.message_bytes, files.people)
        with self.store.writing() as run:
            self._claimed(run, files.survey, files.batch, files.sha256)
            if self._row(run, files.survey, "results")[0] is not None:
                return False
        self._about_to_open(document, files.people)
        try:
            found = opened(self.opener(document))
        except UnreadableData:
            with self.store.writing() as run:
                run(
                    "UPDATE analyses SET batch = NULL, batch_digest = NULL WHERE digest = ? "
                    "AND batch = ? AND batch_digest = ? AND results IS NULL "
                    "AND NOT EXISTS (SELECT 1 FROM parts WHERE parts.number = analyses.number)",
                    files.survey, files.batch, files.sha256,
                )  # fmt: skip
            raise
        self._publish(document, files.people, found)
        return True

    def _about_to_open(self, document: Document, people: int) -> None:
        if self._charge is not None:
            self._charge(document, people)
        self._reached("opening")

    def _publish(self, document: Document, people: int, opened: Opened) -> None:
        """Estimate, store the results, and delete the stored messages. If another process has
        stored results in the meantime, its results stay.
        """
        self._reached("opened")
        tallies, found = self._results(document, people, opened)
        self._reached("estimated")
        with self.store.writing() as run:
            number, done = self._row(run, document.digest, "number, results")
            if done is not None:  # another process has already published results with its noise
                return
            run("UPDATE analyses SET results = ?, tallies = ? WHERE number = ?",
                json_text(found), json_text(tallies), number)  # fmt: skip
            run("DELETE FROM parts WHERE number = ?", number)
            self._reached("counted, not committed")
        self._reached("counted")
        self.scrub()

    def scrub(self) -> None:
        """Remove the traces of deleted rows from the store."""
        self.has_traces = True
        self.store.scrub(("parts",))
        self.has_traces = False

    def opener(self, document: Document) -> Opener:
        """An object that opens the messages of a survey. It holds the private key."""
        protocols = tuple(release.protocol for release in document.releases)
        return Opener(self._private.private_bytes_raw(), document.envelope, protocols)

    @property
    def _private(self) -> X25519PrivateKey:
        if self._key is None:
            raise InvalidParameter("the analyzer must have its private key to do this, got none")
        return self._key

    def unfinished(self) -> list[str]:
        """The digests of the surveys that have no results yet."""
        with self.store.reading() as run:
            rows = run("SELECT digest FROM analyses WHERE results IS NULL ORDER BY digest")
            return [digest for (digest,) in rows]

    def results(self, digest: str) -> dict[str, Any]:
        """The stored results of a survey."""
        with self.store.reading() as run:
            batch, found = self._row(run, digest, "batch, results")
        if found is None:
            waiting = "no batch has arrived" if batch is None else "its batch is being opened"
            raise NoResults(f"this survey has no results yet: {waiting}")
        results: dict[str, Any] = json.loads(found)
        return results

    def _results(
        self, document: Document, people: int, opened: Opened
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The tallies and the results, as dictionaries for JSON."""
        tallies: dict[str, Any] = {}
        answers: dict[str, Any] = {}
        estimates: dict[str, Estimate] = {}
        for at, release in enumerate(document.releases):
            try:
                tally = tally_of_people(release, opened.counts[at], opened.sent[at], people)
                estimate = release.protocol.estimate(tally, self._source)
            except HeadcountError as error:
                answers |= {name: {"error": str(error)} for name in release.ids}
                continue
            tallies[", ".join(release.ids)] = tally.counts.tolist()
            for name, one in release.separate(estimate, people).items():
                promise = replace(document.guarantee, secure=one.guarantee.secure)
                estimates[name] = replace(one, guarantee=promise)
                answers[name] = estimates[name].to_dict()
        read = report(document, estimates, people)
        return tallies, {
            "survey": document.digest,
            "title": document.title,
            "wave": document.wave,
            "waves": document.waves,
            "people": people,
            "questions": answers,
            **({} if read is None else {"results": read}),
            "guarantee": document.guarantee.to_dict(),
            "local_epsilon": document.local_epsilon,
            "admission": document.admission,
            "messages": {
                "received": opened.messages,
                "dummies": opened.dummies,
                "refused": opened.refused,
                "copies": opened.copies,
            },
        }

    def _row(self, run: Run, digest: str, columns: str) -> tuple[Any, ...]:
        found = run(f"SELECT {columns} FROM analyses WHERE digest = ?", digest)
        if not found:
            raise UnknownSurvey(f"no survey here has the digest {checks.shown(digest)}")
        return found[0]


def tally_of_people(release: Release, counts: NDArray[np.int64], sent: int, people: int) -> Tally:
    """The tally of a release with `sent` messages. A person whose messages were refused still
    counts as one of the people, like a dishonest person who sends messages without effect.

    If only some people answer the release, each of them sends one message. So the number of
    messages is the number of these people. If the messages are shares of a secret, a tally with
    missing messages is refused, because the remaining shares do not add up.
    """
    protocol = release.protocol
    if release.for_some:
        people = min(people, sent)
    tally = tally_of(protocol, counts, people, secure=True, bundled=True)
    noises = int(protocol.shuffler.adds)
    if protocol.estimator.tally_modulus is not None:
        noises = int(has_noise(protocol, sent, people))
    return replace(tally, noises=noises)
