"""Messages as a table of Spark: randomized now, kept, and analyzed whenever that is wanted."""

from typing import TYPE_CHECKING, Any

import numpy as np

from headcount.core import checks
from headcount.core.budget import Trust
from headcount.core.errors import InvalidParameter, InvalidValue
from headcount.core.protocol import Protocol, check_users, tally_of
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.data.cleaning import Fill, cleaning
from headcount.data.question import Question
from headcount.data.spark.columns import message_type
from headcount.data.spark.frames import gathered, mapped, needed, seed_of, spark_errors, written
from headcount.data.spark.refusals import DiscreetCleaning
from headcount.data.spark.rows import RawRows, Reader
from headcount.data.spark.sending import Counted, Sending
from headcount.data.spark.steps import Surveying
from headcount.randomness.sources import SecureSource, SeededSource
from headcount.road.people import Group
from headcount.road.shuffler import Shuffler

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MESSAGE = "message"  # the name of the only column


def randomized(
    frame: Any,
    protocol: Protocol,
    column: str,
    *,
    missing: Fill = "error",
    source: Source | None = None,
) -> "DataFrame":
    """The messages that people send about a column, as a table with the column `message` alone.

    In local trust one row is one person. In shuffle trust one row is one message, in an order that
    says nothing, and rare ones are withheld if the protocol wants that. In central trust nothing is
    randomized, and this is refused.

    A message is a whole number, or an array of them. The table is computed now, once, and is the
    same whenever it is read; write it to wherever it shall stay. How many people took part is
    public, and is not in the table: see `tallied`.
    """
    if protocol.trust is Trust.CENTRAL:
        raise InvalidParameter(
            f"a protocol must be local or shuffle for messages to be stored, got {protocol.name}, "
            "which keeps values as they are"
        )
    policy = DiscreetCleaning.of(cleaning(column, protocol.task, missing=missing))
    question = Question(policy, values_stay=True)
    seed = seed_of(source or SecureSource())
    rows, reader = needed(frame, question.columns), RawRows(question)
    with spark_errors():
        found = gathered(rows, Surveying(reader), policy.allowed)
        people = found[None][0] if found else 0
        check_users(protocol, people)
        return messages(rows, reader, protocol, seed)


def tallied(frame: Any, protocol: Protocol, *, users: int | None = None) -> Tally:
    """The tally of stored messages. `users` is how many people sent them; it can be left out where
    everybody sends the same number of messages, as in local trust.
    """
    rows = needed(frame, [MESSAGE])
    kinds: dict[Group, tuple[str, int | None]]
    kinds = {None: (protocol.name, protocol.estimator.tally_modulus)}
    with spark_errors():
        found = gathered(rows, Counted(protocol), "a message", kinds)
    sent, counts = found.get(None, (0, np.zeros(protocol.estimator.tally_size, dtype=np.int64)))
    each = protocol.randomizer.fixed_messages
    if users is None:
        if not each:
            raise InvalidParameter(
                f"`users` must say how many people sent messages with {protocol.name}, got none"
            )
        users = -(-sent // each)
    people = checks.whole("users", users, low=0, high=2**63 - 1)
    if each and sent != each * people:
        raise InvalidValue(
            f"with {protocol.name}, the number of messages per person must be {each}, "
            f"got {sent:,} messages from a crowd of {people:,}"
        )
    return tally_of(protocol, counts, people, secure=True)


def messages(
    rows: "DataFrame",
    reader: Reader,
    protocol: Protocol,
    seed: SeededSource | None,
    groups: tuple[Group, ...] = (None,),
    group: Group = None,
    *,
    ordered: bool = True,
) -> "DataFrame":
    """The messages of a group as its protocol's trust lets others see them."""
    mixed = protocol.trust is Trust.SHUFFLE
    schema = f"{MESSAGE} {message_type(protocol.alphabet)}" + ", key bigint, tie bigint" * mixed
    step = Sending(reader, groups, group, protocol, mixed, seed)
    # Before anything looks at them: what is counted is what is passed on.
    sent = written(mapped(rows, step, schema))
    if not mixed:
        return sent
    shuffler = Shuffler.of(protocol)
    if shuffler.withholds:
        copies = sent.groupBy(MESSAGE).count()
        common = copies.where(shuffler.passes(copies["count"])).select(MESSAGE)
        sent = sent.join(common, MESSAGE, "left_semi")
    return (sent.orderBy("key", "tie") if ordered else sent).select(MESSAGE)
