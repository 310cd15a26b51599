"""What an engine does: it looks at people's rows, where they are, and brings back small numbers.

Two steps, since a protocol is built for a crowd whose size is known:

1. `Engine.survey` reads the rows once. It refuses those that do not fit the question, and counts
   people: in each group, and where a task has few values, by value. Surveys of parts add up.
2. `Crowds.tallies` randomizes every row and counts, for tasks of many values. Tallies of parts add
   up as well. Where values are few, their counts say all: rows are not read again, and
   `data.estimate` makes the messages of a crowd with such counts.

The local engine (`data.local`) is the default. Another one, on a cluster, cleans batches of rows by
the same `Question`, and need not bring any row home.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.errors import InvalidValue, UnreadableData
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.data.question import Question
from headcount.road.people import Group, People, Progress


@dataclass(frozen=True, eq=False)
class Survey:
    """How many people there are; of a task of few values, `counts[v]` of them hold value v."""

    users: int
    counts: NDArray[np.int64] | None = None

    def __add__(self, other: "Survey") -> "Survey":
        if (self.counts is None) != (other.counts is None):
            raise InvalidValue("surveys must be of one question to be added, got different ones")
        counts = None if self.counts is None or other.counts is None else self.counts + other.counts
        return Survey(self.users + other.users, counts)


def check_same(
    surveys: Mapping[Group, Survey],
    tallies: Mapping[Group, Tally],
    wanted: Iterable[Group],
    name: str,
) -> None:
    """Refuse tallies of other people than were surveyed: rows changed in between."""
    for group in wanted:
        seen, again = surveys[group].users, tallies[group].users if group in tallies else 0
        if seen != again:
            raise UnreadableData(
                f"{name} must have the same rows when read again, "
                f"got {again:,} people instead of {seen:,}"
            )


class Crowds(People):
    """People who were surveyed, and whose rows can be read again.

    `surveys` are those of each group, sorted by name; of everybody under None, if there are no
    groups. `people` is how many people the table has. It counts everybody once, also those who
    have no value and are left out of every survey. A row without a name in the person column
    counts as one person.
    """

    surveys: Mapping[Group, Survey]
    people: int

    @property
    def users(self) -> Mapping[Group, int]:
        return {group: survey.users for group, survey in self.surveys.items()}

    def counts(self, group: Group) -> NDArray[np.int64] | None:
        return self.surveys[group].counts


class Engine(ABC):
    """Where rows are read. An engine has no state: a name, and what it does."""

    name: str
    remote: bool = False  # whether rows are on other machines, which need not trust this one

    @abstractmethod
    def survey(self, data: Any, question: Question, source: Source, progress: Progress) -> Crowds:
        """Read the rows once; `HeadcountError` if they do not fit.

        `source` chooses among the rows of one person, if the question names a person column.
        """
