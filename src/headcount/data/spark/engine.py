"""The engine for Spark data frames. Rows stay on the executors, and the driver gets only totals.

In central trust, the driver belongs to the curator. It gets counts of people by value, or sums of
values. In shuffle and local trust, each executor acts for the people whose rows it holds. The
driver gets numbers of people and tallies of messages. docs/spark.md describes the trust that each
machine needs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headcount.core.errors import InvalidParameter, InvalidValue
from headcount.core.protocol import Protocol
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.data.encoded_rows import group_order
from headcount.data.engine import Census, Crowds, Engine, check_same
from headcount.data.frames import DATA
from headcount.data.question import Question
from headcount.data.spark.columns import type_name
from headcount.data.spark.executor_steps import CensusStep, ChoiceStep, NamesStep, TallyStep
from headcount.data.spark.frames import gathered, kept, mapped, needed, seed_of, spark_errors
from headcount.data.spark.messages import messages, tallied
from headcount.data.spark.remote_refusals import (
    DiscreetCleaning,
    RemoteRefusal,
    joint_refusal,
    refuse,
)
from headcount.data.spark.results import ShufflerNoise
from headcount.data.spark.rows import EncodedChoice, RawRows, Reader
from headcount.road.people import Group, Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SparkEngine(Engine):
    name = "spark"
    remote = True

    def census(self, data: Any, question: Question, source: Source, progress: Progress) -> Crowds:
        # Spark brings the rows of a person together by the untrimmed name.
        if question.person is not None and question.cleaning.reading.trim:
            raise InvalidParameter("`trim` must come without `person` on Spark, got both")
        if question.values_stay:
            question = replace(question, cleaning=DiscreetCleaning.of(question.cleaning))
        progress(0.0)
        raw = rows = needed(data, question.columns)
        allowed = question.cleaning.allowed
        with spark_errors():
            reader: Reader = RawRows(question)
            if question.person is not None:
                rows, reader = _chosen(raw, question, source), EncodedChoice(question)
            groups = gathered(rows, CensusStep(reader), allowed)
        censuses = {group: Census(*groups[group]) for group in group_order(list(groups))}
        if not any(census.users for census in censuses.values()):
            raise InvalidValue(
                f"column {question.cleaning.column!r} of {DATA} must have at least one row with a "
                "value, got none"
            )
        with spark_errors():
            people = _people(raw, question, censuses)
        progress(1.0)
        return SparkCrowds(rows, reader, censuses, people)


def _people(raw: "DataFrame", question: Question, censuses: Mapping[Group, Census]) -> int:
    """The number of people in the table. Rows are read again only if `censuses` are not enough."""
    rows = sum(census.users for census in censuses.values())
    each = question.rows_per_person
    if each == 1 and not question.cleaning.dropping:
        return rows
    if question.person is None:
        return max(rows, raw.count())
    person = f"c{question.columns.index(question.person)}"
    names = raw.select(person)
    if question.cleaning.reading.changes_texts:
        kind = names.schema[person].dataType.simpleString()
        names = mapped(names, NamesStep(question.cleaning.reading), f"{person} {kind}")
    persons = names.distinct().where(f"{person} IS NOT NULL").count()
    nameless = names.where(f"{person} IS NULL").count()
    return max(-(-rows // each), persons + nameless)


def _chosen(rows: "DataFrame", question: Question, source: Source) -> "DataFrame":
    """The encoded rows that count. The executors keep these rows, since a second random choice
    would give different rows.
    """
    assert question.person is not None
    seed = seed_of(source)
    together = rows.repartition(f"c{question.columns.index(question.person)}")
    if seed is not None:  # Spark returns rows in any order, but a seed must fix the choice
        together = together.sortWithinPartitions(*together.columns)
    schema = f"code {type_name(question.cleaning.dtype)}, name string, refusal string"
    chosen = kept(mapped(together, ChoiceStep(question, seed), schema))
    refusals = chosen.where("refusal IS NOT NULL").select("refusal").toArrow()
    refused = joint_refusal(map(RemoteRefusal.from_json, refusals.column("refusal").to_pylist()))
    if refused is not None:
        refuse(refused, question.cleaning.allowed)
    return chosen.select("code", "name")


@dataclass(frozen=True, eq=False)
class SparkCrowds(Crowds):
    rows: "DataFrame"
    reader: Reader
    censuses: Mapping[Group, Census]
    people: int

    def tallies(
        self, protocols: Mapping[Group, Protocol], source: Source, progress: Progress
    ) -> Mapping[Group, Tally]:
        """The tally of each group, as in `People.tallies`.

        Each piece of a group's values is part of one partition. Piece i of group g in partition p
        draws from `source.part(p).part(g).part(i)`.
        """
        seed, groups = seed_of(source), tuple(self.censuses)
        allowed = self.reader.question.cleaning.allowed
        # A shuffler that withholds messages needs the messages of all partitions.
        mixed = {group: one for group, one in protocols.items() if one.shuffler.withholds}
        plain = {group: one for group, one in protocols.items() if group not in mixed}
        tallies: dict[Group, Tally] = {}
        progress(0.0)
        with spark_errors():
            if plain:
                kinds = {
                    group: (one.name, one.estimator.tally_modulus) for group, one in plain.items()
                }
                step = TallyStep(self.reader, groups, plain, seed)
                noise = ShufflerNoise(plain, groups, seed)
                found = gathered(self.rows, step, allowed, kinds, noise)
                for group, (users, counts) in found.items():
                    tally = Tally(counts, users, *kinds[group], source.secure)
                    tallies[group] = replace(tally, noises=int(plain[group].shuffler.adds))
            for group, one in mixed.items():
                users = self.censuses[group].users
                sent = messages(
                    self.rows, self.reader, one, seed, groups, group, users=users, ordered=False
                )
                tally = tallied(sent, one, users=users)
                tallies[group] = replace(tally, secure=source.secure)
        progress(1.0)
        check_same(self.censuses, tallies, protocols, DATA)
        return tallies
