"""The analyzers of noisy trees. They are shared by all protocols that release a tree."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headcount.core.estimate import Answer
from headcount.core.estimator import Estimator
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding
from headcount.core.tasks.distribution import Distribution
from headcount.protocols.tree import Tree, TreeFit, best_fanouts
from headcount.protocols.tree_error import GeometricNoise, TreeError, TreeNoise


@dataclass(frozen=True)
class FittedTree(Estimator):
    """Fits a tree to noisy counts, and answers with the share of people below each edge. Some tasks
    compute their answer, such as quantiles, from these shares. Stated errors are always those of
    the shares.

    The tree may have more cells than the task. The additional cells come last, and are empty.
    """

    task: Distribution

    @property
    @abstractmethod
    def fit(self) -> TreeFit: ...

    @property
    def tree(self) -> Tree:
        return self.fit.tree

    @abstractmethod
    def noisy_counts(self, tally: Tally, source: Source | None) -> NDArray[np.float64]:
        """Unbiased noisy counts of all nodes."""

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        cells = self.fit.cells(self.noisy_counts(tally, source), tally.users)
        return np.cumsum(cells)[: self.task.cells - 1] / tally.users

    def postprocessing(self, tally: Tally) -> tuple[str, Callable[[Answer], Answer]] | None:
        return self.task.reading

    def truth(self, held: Holding) -> Answer:
        return self.task.below(held)

    def answer_range(self, users: int) -> tuple[float, float]:
        return 0.0, 1.0

    def errors(self, answer: Answer, held: Holding) -> NDArray[np.float64]:
        return self.task.errors(answer, held)


@dataclass(frozen=True)
class TreeEstimator(FittedTree):
    """The analyzer of a tree whose nodes have independent noise. The law of the noise does not
    depend on people's values.
    """

    noise: TreeNoise

    @property
    def fit(self) -> TreeFit:
        return self.noise.fit

    def noise_of(self, users: int) -> TreeNoise:
        """The noise if this many people take part. By default it is the same for all crowds."""
        return self.noise

    def standard_error(self, users: int, held: Holding | None) -> float:
        return float(np.max(self.error_law(users, None).standard_error))

    def ranking_error(self, users: int) -> float:
        errors = self.error_law(users, None).standard_error
        return float(np.sqrt(np.mean(errors**2)))

    def error_law(self, users: int, unbiased: Answer) -> TreeError:
        return TreeError(self.noise_of(users), users, self.task.cells)


@lru_cache(maxsize=64)
def best_pure_fanouts(cells: int, epsilon: float) -> tuple[int, ...]:
    """The best shape of a tree if the noise of each node has the rate ε/(2h), for h levels."""
    return best_fanouts(cells, lambda levels: GeometricNoise(epsilon / (2 * levels)).variance)
