"""The interface of an engine, which reads people's rows where they are stored and returns counts.

An engine works in two steps, since a protocol is built for a crowd of known size:

1. `Engine.census` reads the rows once. It refuses rows that do not fit the question. It counts the
   people in each group. If the task has few values, it also counts the people with each value,
   unless values must stay on other machines (`Question.values_stay`). Censuses of separate rows
   can be added.
2. If the census does not count people by value, `Crowds.tallies` randomizes every row and counts
   the messages. Tallies of separate rows can be added, too. If the census counts people by value,
   rows are not read again, and `road.road.walk` makes messages from the counts.

The local engine (`data.local`) is the default. An engine on a cluster cleans rows with the
same `Question`, and the rows can stay on the cluster.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.errors import InvalidValue, UnreadableData
from headcount.core.source import Source
from headcount.core.table import counted_people
from headcount.core.tally import Tally
from headcount.data.question import Question
from headcount.road.people import Group, People, Progress


@dataclass(frozen=True, eq=False)
class Census:
    """The number of people. If people are counted by value, `counts[v]` people have the value v.
    Otherwise, `counts` is None.
    """

    users: int
    counts: NDArray[np.int64] | None = None

    def __add__(self, other: "Census") -> "Census":
        if (self.counts is None) != (other.counts is None):
            raise InvalidValue(
                "censuses must be of the same question to be added, got different questions"
            )
        counts = None if self.counts is None or other.counts is None else self.counts + other.counts
        return Census(self.users + other.users, counts)


def check_same(
    censuses: Mapping[Group, Census],
    tallies: Mapping[Group, Tally],
    wanted: Iterable[Group],
    name: str,
) -> None:
    """Refuse tallies with more or fewer people than the census, since then the rows changed."""
    for group in wanted:
        seen, again = censuses[group].users, tallies[group].users if group in tallies else 0
        if seen != again:
            raise UnreadableData(
                f"{name} must have the same rows when read again, "
                f"got {counted_people(again)} instead of {seen:,}"
            )


class Crowds(People):
    """People who were counted, and whose rows can be read again.

    `censuses` has the census of each group, sorted by name. Without groups, it has one census,
    whose key is None. `people` is the number of people in the table. Everybody counts once, even
    people who have no value and are in no census. A row that is empty in the person column counts
    as one person.
    """

    censuses: Mapping[Group, Census]
    people: int

    @property
    def users(self) -> Mapping[Group, int]:
        return {group: census.users for group, census in self.censuses.items()}

    def counts(self, group: Group) -> NDArray[np.int64] | None:
        return self.censuses[group].counts


class Engine(ABC):
    """Reads the rows of a table. An engine has no state."""

    name: str
    remote: bool = False  # whether rows are on other machines, which may not trust this machine

    @abstractmethod
    def census(self, data: Any, question: Question, source: Source, progress: Progress) -> Crowds:
        """Read the rows once. `HeadcountError` is raised if the rows do not fit the question.

        If the question names a person column, random bits from `source` choose which rows of each
        person are used.
        """
