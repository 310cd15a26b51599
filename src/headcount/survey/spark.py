"""Surveys whose answers are in a Spark data frame. Answers stay on the executors.

Executors read the answers twice. First, they check all answers and count the people. Then they make
the messages of all questions in one pass. The driver gets the number of people and the tallies of
all people together. Error messages never show an answer. docs/spark.md describes the trust that
each machine needs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.errors import CrowdMismatch, HeadcountError, InvalidParameter, InvalidValue
from headcount.core.protocol import Protocol
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.data.reading import Reading
from headcount.data.spark.frames import gathered, needed, seed_of, spark_errors
from headcount.data.spark.remote_refusals import RemoteRefusal
from headcount.data.spark.results import Batches, ShufflerNoise, count_result, result_batch
from headcount.data.spark.rows import partition_source
from headcount.data.written import Written
from headcount.randomness.sources import SeededSource
from headcount.road.people import Group, People, Progress
from headcount.road.pieces import tally_of_part
from headcount.survey.answers import WrongAnswer, columns_of, wanted_columns
from headcount.survey.design import Design
from headcount.survey.local import dealt, drawn_releases
from headcount.survey.questions import Question

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame

_ALLOWED = "an answer"
_FEW = 10_000  # in local trust, a crowd of at most this many people is put into one partition


def is_spark(data: Any) -> bool:
    return type(data).__module__.startswith("pyspark.")


@dataclass(frozen=True)
class Reader:
    """Reads the answers in a batch of rows. Its columns are those in `names`, in this order."""

    questions: tuple[Question, ...]
    names: tuple[str, ...]
    rules: Reading

    def encoded(self, batch: "pyarrow.RecordBatch") -> dict[str, NDArray[Any]]:
        """The encoded answers to each question."""
        import pyarrow

        table = pyarrow.Table.from_batches([batch]).rename_columns(list(self.names))
        try:
            columns = columns_of(self.questions, table, Written(self.rules))
            return {one.id: one.task.encode(one.values(columns[one.id])) for one in self.questions}
        except WrongAnswer as error:
            raise InvalidValue(error.discreet, hint=error.hint) from None
        except (HeadcountError, pyarrow.ArrowException, ValueError, TypeError, OverflowError):
            # The message of this error may show an answer, so another message replaces it.
            raise InvalidValue(
                "every column must hold answers to its question, got a column that cannot be read"
            ) from None


@dataclass(frozen=True)
class CheckStep:
    """Checks all answers of a partition, and counts the people."""

    reader: Reader

    def __call__(self, batches: Batches) -> Batches:
        users = 0
        try:
            for batch in batches:
                if batch.num_rows:
                    self.reader.encoded(batch)
                    users += batch.num_rows
        except InvalidValue as error:
            yield _refusal(error)
            return
        yield count_result(None, users, None)


@dataclass(frozen=True)
class AnswerStep:
    """Makes the messages of a partition's people for all releases, and tallies the messages."""

    reader: Reader
    design: Design
    seed: SeededSource | None

    def __call__(self, batches: Batches) -> Batches:
        source = partition_source(self.seed)
        tallies: dict[int, Tally] = {}
        try:
            for number, batch in enumerate(batches):
                if batch.num_rows:
                    for at, tally in self._tallies(batch, source.part(number)):
                        tallies[at] = tallies[at] + tally if at in tallies else tally
        except InvalidValue as error:
            yield _refusal(error)
            return
        for at, tally in tallies.items():
            yield count_result(at, tally.users, tally.counts)

    def _tallies(self, batch: "pyarrow.RecordBatch", source: Source) -> Iterator[tuple[int, Tally]]:
        releases = self.design.releases
        columns = self.design.with_tables(self.reader.encoded(batch))
        answering = [np.ones(batch.num_rows, dtype=np.bool_)] * len(releases)
        if self.design.releases_each is not None:
            answering = drawn_releases(self.design, dealt(batch.num_rows, source.part(0)))
        for at, release in enumerate(releases):
            values, own = release.join(columns)[answering[at]], source.part(1 + at)
            size = release.protocol.randomizer.people_at_once
            for piece, start in enumerate(range(0, len(values), size)):
                part = values[start : start + size]
                yield at, tally_of_part(release.protocol, part, own.part(piece))


def _refusal(error: InvalidValue) -> "pyarrow.RecordBatch":
    refusal = RemoteRefusal(error.message, error.hint, None)
    return result_batch(None, None, None, refusal.to_json())


class SparkColumns(dict[str, Any]):
    """The answers in a Spark data frame. The driver knows only how many rows a column has."""

    def __init__(self, rows: "DataFrame", reader: Reader, users: int) -> None:
        super().__init__((question.id, range(users)) for question in reader.questions)
        self.rows, self.reader, self.users = rows, reader, users

    @classmethod
    def of(cls, questions: Sequence[Question], frame: Any, written: Written) -> "SparkColumns":
        """The answers to these questions. All answers are checked."""
        written.dialect.check_matters("a Spark data frame")
        with spark_errors():
            names = wanted_columns(questions, frame.columns)
        reader = Reader(tuple(questions), tuple(names), written.rules)
        rows = needed(frame, names)
        with spark_errors():
            groups = gathered(rows, CheckStep(reader), _ALLOWED)
        return cls(rows, reader, groups[None][0] if groups else 0)

    def respondents(self, design: Design, source: Source) -> "SparkRespondents":
        """The people who answered. Protocols that cannot run on Spark are refused."""
        for release in design.releases:
            if release.protocol.shuffler.withholds:
                raise InvalidParameter(
                    f"the protocols of a survey on Spark must not withhold messages, got "
                    f"{release.protocol.name} for {release.ids[0]!r}"
                )
        return SparkRespondents(self, design, seed_of(source))


@dataclass(frozen=True, eq=False)
class SparkRespondents(People):
    """The people who answered on Spark. Each release has a group, named by the release's index."""

    columns: SparkColumns
    design: Design
    seed: SeededSource | None

    @property
    def protocols(self) -> Mapping[Group, Protocol]:
        return {at: release.protocol for at, release in enumerate(self.design.releases)}

    @property
    def users(self) -> Mapping[Group, int]:
        """The number of all people, for every release. In local trust, only some of them answer a
        release. The executors draw these people at random, so their number is not known yet.
        """
        return dict.fromkeys(self.protocols, self.columns.users)

    def counts(self, group: Group) -> None:
        return None

    def tallies(
        self, protocols: Mapping[Group, Protocol], source: Source, progress: Progress
    ) -> Mapping[Group, Tally]:
        kinds: dict[Group, tuple[str, int | None]] = {
            at: (one.name, one.estimator.tally_modulus) for at, one in protocols.items()
        }
        step = AnswerStep(self.columns.reader, self.design, self.seed)
        with spark_errors():
            # In a single partition, a small crowd is spread more evenly over the releases.
            few = self.design.releases_each is not None and self.columns.users <= _FEW
            rows = self.columns.rows.coalesce(1) if few else self.columns.rows
            noise = ShufflerNoise(protocols, tuple(protocols), self.seed)
            groups = gathered(rows, step, _ALLOWED, kinds, noise)
        tallies = {
            at: replace(
                Tally(counts, users, *kinds[at], source.secure),
                noises=int(protocols[at].shuffler.adds),
            )
            for at, (users, counts) in groups.items()
        }
        everybody = self.design.releases_each is None
        for at in protocols:
            people = tallies[at].users if at in tallies else 0
            if not people and not everybody:
                raise CrowdMismatch("somebody must answer each question, got nobody by chance")
            if people > self.columns.users or (everybody and people < self.columns.users):
                raise InvalidValue(
                    f"the answers must be the same each time they are read, got "
                    f"{self.columns.users:,} people and then {people:,}"
                )
        return tallies
