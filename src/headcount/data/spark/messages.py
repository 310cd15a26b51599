"""Stores randomized messages in a Spark table, and tallies stored messages later."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from headcount.core import checks
from headcount.core.budget import Trust
from headcount.core.errors import InvalidParameter
from headcount.core.protocol import Protocol, check_users, has_noise, tally_of
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.data.cleaning import Fill
from headcount.data.question import Question
from headcount.data.several_columns import cleaning_of
from headcount.data.spark.columns import message_type
from headcount.data.spark.executor_steps import CensusStep
from headcount.data.spark.frames import gathered, mapped, needed, seed_of, spark_errors, written
from headcount.data.spark.message_steps import CountStep, NoiseStep, SendStep
from headcount.data.spark.remote_refusals import DiscreetCleaning
from headcount.data.spark.rows import RawRows, Reader
from headcount.randomness.sources import SecureSource, SeededSource
from headcount.road.people import Group

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MESSAGE = "message"  # the name of the only column of a table of messages


def randomized(
    frame: Any,
    protocol: Protocol,
    column: str,
    *,
    missing: Fill = "error",
    source: Source | None = None,
) -> "DataFrame":
    """The messages that people send about a column, as a table with the single column `message`.

    In local trust, each row is one person's message. In shuffle trust, each row is one message, and
    the rows are in random order. If the protocol requires it, rare messages are withheld or noise
    messages are added. In central trust, nothing is randomized, so a central protocol is refused.

    A message is a whole number or an array of whole numbers. The table is computed only once, by
    this call, and always has the same rows when it is read. Write it to permanent storage if you
    want to keep it. The number of people is public and is not in the table: see `tallied`.
    """
    if protocol.trust is Trust.CENTRAL:
        raise InvalidParameter(
            f"`protocol` must be local or shuffle if messages are stored, got {protocol.name}, "
            "which does not randomize values"
        )
    policy = DiscreetCleaning.of(cleaning_of(column, protocol.task, missing=missing))
    question = Question(policy, values_stay=True)
    seed = seed_of(source or SecureSource())
    rows, reader = needed(frame, question.columns), RawRows(question)
    with spark_errors():
        groups = gathered(rows, CensusStep(reader), policy.allowed)
        people = groups[None][0] if groups else 0
        check_users(protocol, people)
        return messages(rows, reader, protocol, seed, users=people)


def tallied(frame: Any, protocol: Protocol, *, users: int | None = None) -> Tally:
    """The tally of stored messages. `users` is the number of people who sent the messages. It can
    be left out if everybody sends the same number of messages and the shuffler adds no messages, as
    in local trust.
    """
    rows = needed(frame, [MESSAGE])
    kinds: dict[Group, tuple[str, int | None]]
    kinds = {None: (protocol.name, protocol.estimator.tally_modulus)}
    with spark_errors():
        groups = gathered(rows, CountStep(protocol), "a message", kinds)
    sent, counts = groups.get(None, (0, np.zeros(protocol.estimator.tally_size, dtype=np.int64)))
    each = protocol.randomizer.fixed_messages
    if users is None:
        if not each or protocol.shuffler.adds:
            raise InvalidParameter(
                f"`users` must be the number of people who sent messages with {protocol.name}, "
                "got none"
            )
        users = -(-sent // each)
    people = checks.whole("users", users, low=0, high=2**63 - 1)
    noises = int(has_noise(protocol, sent, people))
    return replace(tally_of(protocol, counts, people, secure=True), noises=noises)


def messages(
    rows: "DataFrame",
    reader: Reader,
    protocol: Protocol,
    seed: SeededSource | None,
    groups: tuple[Group, ...] = (None,),
    group: Group = None,
    *,
    users: int,
    ordered: bool = True,
) -> "DataFrame":
    """The messages of a group of `users` people, as the analyzer may see them in the protocol's
    trust model. If `ordered` is false, the rows are not sorted by their random keys. This saves
    time if the messages are only counted.
    """
    mixed = protocol.trust is Trust.SHUFFLE
    schema = f"{MESSAGE} {message_type(protocol.alphabet)}" + ", key bigint, tie bigint" * mixed
    step = SendStep(reader, groups, group, protocol, mixed, seed)
    # Messages are written before they are counted, so that the counted messages are the same as
    # the returned messages.
    sent = written(mapped(rows, step, schema))
    if not mixed:
        return sent
    shuffler = protocol.shuffler
    if shuffler.adds:
        # An executor draws the noise, since the driver must not know it. The noise is written, so
        # that it is drawn only once.
        task = rows.sparkSession.range(0, 1, 1, 1)
        noise = NoiseStep(protocol, users, seed, groups.index(group))
        added = written(mapped(task, noise, f"{schema}, alone boolean"))
        thrown_away = added.selectExpr("coalesce(bool_or(alone), false) AS alone")
        sent = sent.crossJoin(thrown_away).where("NOT alone").unionByName(added).drop("alone")
    if shuffler.withholds:
        copies = sent.groupBy(MESSAGE).count()
        common = copies.where(shuffler.passes(copies["count"])).select(MESSAGE)
        sent = sent.join(common, MESSAGE, "left_semi")
    return (sent.orderBy("key", "tie") if ordered else sent).select(MESSAGE)
