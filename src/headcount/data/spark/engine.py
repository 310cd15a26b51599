"""The engine for frames of Spark: rows stay with the executors, small sums come home.

In central trust the driver is the curator's: what comes home are counts of people by value, or sums
of values. In shuffle and local trust each executor stands for the people whose rows it has: numbers
of people come home, and tallies of messages. See docs/spark.md for who is trusted with what.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headcount.core.errors import InvalidValue
from headcount.core.protocol import Protocol
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.data.engine import Crowds, Engine, Survey, check_same
from headcount.data.frames import DATA
from headcount.data.parts import group_order
from headcount.data.question import Question
from headcount.data.spark.columns import type_name
from headcount.data.spark.frames import gathered, kept, mapped, needed, seed_of, spark_errors
from headcount.data.spark.messages import messages, tallied
from headcount.data.spark.refusals import DiscreetCleaning, Refusal, joint, refuse
from headcount.data.spark.rows import ChosenRows, RawRows, Reader
from headcount.data.spark.steps import Choosing, Surveying, Tallying
from headcount.road.people import Group, Progress
from headcount.road.shuffler import Shuffler

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SparkEngine(Engine):
    name = "spark"
    remote = True

    def survey(self, data: Any, question: Question, source: Source, progress: Progress) -> Crowds:
        if question.values_stay:
            question = replace(question, cleaning=DiscreetCleaning.of(question.cleaning))
        progress(0.0)
        raw = rows = needed(data, question.columns)
        allowed = question.cleaning.allowed
        with spark_errors():
            chosen: Reader = RawRows(question)
            if question.person is not None:
                rows, chosen = _chosen(raw, question, source), ChosenRows(question)
            found = gathered(rows, Surveying(chosen), allowed)
        surveys = {group: Survey(*found[group]) for group in group_order(list(found))}
        if not any(survey.users for survey in surveys.values()):
            raise InvalidValue(
                f"column {question.cleaning.column!r} of {DATA} must have at least one row with a "
                "value, got none"
            )
        with spark_errors():
            people = _people(raw, question, surveys)
        progress(1.0)
        return SparkCrowds(rows, chosen, surveys, people)


def _people(raw: "DataFrame", question: Question, surveys: Mapping[Group, Survey]) -> int:
    """How many people the table has. Rows are read again only if surveys do not tell."""
    rows = sum(survey.users for survey in surveys.values())
    each = question.rows_per_person
    if each == 1 and not question.cleaning.dropping:
        return rows
    if question.person is None:
        return max(rows, raw.count())
    person = f"c{question.columns.index(question.person)}"
    persons = raw.select(person).distinct().where(f"{person} IS NOT NULL").count()
    nameless = raw.where(f"{person} IS NULL").count()
    return max(-(-rows // each), persons + nameless)


def _chosen(rows: "DataFrame", question: Question, source: Source) -> "DataFrame":
    """The rows that count, of each person, encoded and kept: another choice would be others."""
    assert question.person is not None
    seed = seed_of(source)
    together = rows.repartition(f"c{question.columns.index(question.person)}")
    if seed is not None:  # then the order of rows matters, which Spark leaves to chance
        together = together.sortWithinPartitions(*together.columns)
    schema = f"code {type_name(question.cleaning.dtype)}, name string, refusal string"
    found = kept(mapped(together, Choosing(question, seed), schema))
    refusals = found.where("refusal IS NOT NULL").select("refusal").toArrow()
    refused = joint(map(Refusal.from_json, refusals.column("refusal").to_pylist()))
    if refused is not None:
        refuse(refused, question.cleaning.allowed)
    return found.select("code", "name")


@dataclass(frozen=True, eq=False)
class SparkCrowds(Crowds):
    rows: "DataFrame"
    reader: Reader
    surveys: Mapping[Group, Survey]
    people: int

    def tallies(
        self, protocols: Mapping[Group, Protocol], source: Source, progress: Progress
    ) -> Mapping[Group, Tally]:
        """As the interface says, but pieces are those of a partition: its number p comes first, in
        `source.part(p).part(g).part(i)`.
        """
        seed, groups = seed_of(source), tuple(self.surveys)
        allowed = self.reader.question.cleaning.allowed
        # What is withheld depends on the messages of all partitions.
        mixed = {group: one for group, one in protocols.items() if Shuffler.of(one).withholds}
        plain = {group: one for group, one in protocols.items() if group not in mixed}
        tallies: dict[Group, Tally] = {}
        progress(0.0)
        with spark_errors():
            if plain:
                kinds = {
                    group: (one.name, one.estimator.tally_modulus) for group, one in plain.items()
                }
                step = Tallying(self.reader, groups, plain, seed)
                for group, (users, counts) in gathered(self.rows, step, allowed, kinds).items():
                    tallies[group] = Tally(counts, users, *kinds[group], source.secure)
            for group, one in mixed.items():
                sent = messages(self.rows, self.reader, one, seed, groups, group, ordered=False)
                tally = tallied(sent, one, users=self.surveys[group].users)
                tallies[group] = replace(tally, secure=source.secure)
        progress(1.0)
        check_same(self.surveys, tallies, protocols, DATA)
        return tallies
