"""The people whose values an estimate is about. The values may be in memory or in tables."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headcount.core.budget import Trust
from headcount.core.protocol import Protocol
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.road.pieces import tally_of_part
from headcount.road.shuffler import shuffle

# The name of a group. It is None if everybody is in one group.
Group: TypeAlias = str | int | bool | None
# A function that is called with the completed share of the work, from 0 to 1.
Progress: TypeAlias = Callable[[float], None]


class People(ABC):
    """People in one group or several, whose values can be counted or randomized."""

    @property
    @abstractmethod
    def users(self) -> Mapping[Group, int]:
        """The number of people in each group. The keys are in the order of the groups."""

    @abstractmethod
    def counts(self, group: Group) -> NDArray[np.int64] | None:
        """For each value, the number of people in a group who hold it.

        The result is None if people are not counted by value.
        """

    @abstractmethod
    def tallies(
        self, protocols: Mapping[Group, Protocol], source: Source, progress: Progress
    ) -> Mapping[Group, Tally]:
        """The tally of each group's messages, which are made with the group's protocol. This tally
        may be made before or after the shuffler withholds or adds messages.

        People are processed in the order of their rows, in pieces of `randomizer.people_at_once`
        people. Piece i of group g uses the source `source.part(g).part(i)`, unless a subclass says
        otherwise. The number g is the group's place among all groups, not only among the keys of
        `protocols`. Neither i nor g depends on batches or threads.
        """


@dataclass(frozen=True, eq=False)
class Values(People):
    """One group of people with their encoded values in memory. All of their messages draw from one
    source. In shuffle trust, the messages are shuffled.
    """

    encoded: NDArray[Any]

    @property
    def users(self) -> Mapping[Group, int]:
        return {None: len(self.encoded)}

    def counts(self, group: Group) -> None:
        return None

    def tallies(
        self, protocols: Mapping[Group, Protocol], source: Source, progress: Progress
    ) -> Mapping[Group, Tally]:
        return {group: self._tally(protocol, source) for group, protocol in protocols.items()}

    def _tally(self, protocol: Protocol, source: Source) -> Tally:
        if protocol.trust is not Trust.SHUFFLE:
            return tally_of_part(protocol, self.encoded, source)
        messages = protocol.randomizer.send(self.encoded, source)
        return protocol.tally(shuffle(messages, source, protocol))
