"""The option for the shape of a tree, which all protocols with a tree of counts share."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from headcount.core.cached import cached_property
from headcount.core.protocol import Protocol
from headcount.core.task import Task
from headcount.core.tasks.distribution import Distribution
from headcount.protocols.tree import Tree, checked_fanouts


@dataclass(frozen=True)
class TreeProtocol(Protocol):
    """A protocol that counts people in the nodes of a tree."""

    tasks: ClassVar[tuple[type[Task], ...]] = (Distribution,)

    task: Distribution
    # The number of children of each node, level by level from the root down, as in "16,8,8".
    fanouts: str | None = None

    def check_options(self) -> None:
        super().check_options()
        if self.fanouts is not None:
            _ = checked_fanouts(self.fanouts, self.task.cells)

    @abstractmethod
    def best_fanouts(self) -> tuple[int, ...]:
        """The numbers of children, level by level, for which the error is smallest."""

    @cached_property
    def tree(self) -> Tree:
        if self.fanouts is None:
            return Tree(self.best_fanouts())
        return Tree(checked_fanouts(self.fanouts, self.task.cells))
