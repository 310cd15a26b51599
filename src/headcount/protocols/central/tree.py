"""A tree of counts with two-sided geometric noise (Hay, Rastogi, Miklau, Suciu 2010).

Notation    There are n people, each in one of N cells. An edge is the border between two
            neighboring cells. The tree has h levels (see `protocols.tree`), and a = e^{−ε/(2h)}.
Randomizer  None. People send their cell to the curator.
Analyzer    Add noise Z to the count of each node, where P(Z = z) = (1−a)/(1+a)·a^|z|. Z is sampled
            exactly, with ε/(2h) as a rational number. Fit a tree to the noisy counts by least
            squares. The number of people below an edge is estimated by the sum of the fitted cells
            below this edge.
Privacy     Replacing one value changes at most two counts of each level, by 1 each. So the
            guarantee is pure ε-differential privacy. Each changed count has a privacy loss of
            ε/(2h) or −ε/(2h). The number of positive losses is binomial, and it determines the
            privacy curve.
Error       Unbiased. `protocols.tree` states the variance, and `protocols.tree_error` computes the
            exact law. Without the option `fanouts`, the shape of the tree minimizes the mean
            squared error of the share of people below an edge, averaged over edges. This shape
            depends only on N.
Messages    1 per person, to the curator. The local ε is infinite, so the curator must be trusted.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.geometric import listed_laws, moved_together_curve
from headcount.core.budget import Trust
from headcount.core.cached import cached_property
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.influence import Shifts
from headcount.core.messages import Alphabet
from headcount.core.promise import promise
from headcount.core.randomizer import MOST_BUNDLES
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding
from headcount.protocols.disclosure import Disclosure
from headcount.protocols.tree import TreeFit, best_fanouts
from headcount.protocols.tree_error import GeometricNoise, TreeNoise
from headcount.protocols.tree_estimator import TreeEstimator
from headcount.protocols.tree_protocol import TreeProtocol
from headcount.randomness.discrete_laplace import discrete_laplace
from headcount.randomness.sources import SecureSource


@dataclass(frozen=True)
class CuratedTree(TreeEstimator):
    """Counts the people in each cell, and adds noise to the counts of all nodes."""

    rate: Fraction  # ε/(2h)

    @property
    def tally_size(self) -> int:
        return self.task.cells

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        return held.counts

    def noisy_counts(self, tally: Tally, source: Source | None) -> NDArray[np.float64]:
        noise = discrete_laplace(source or SecureSource(), self.rate, self.tree.nodes)
        noisy: NDArray[np.float64] = (self._counts(tally) + noise).astype(np.float64)
        return noisy

    def _counts(self, tally: Tally) -> NDArray[np.int64]:
        cells = np.zeros(self.tree.cells, dtype=np.int64)
        cells[: self.task.cells] = tally.counts
        return self.tree.node_counts(cells)

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        # The curator's noise does not depend on the messages. A person in the first cell is below
        # all edges, so one message can raise the answers at all edges.
        return Shifts(most=1.0, least=0.0, everywhere=True).scaled(1 / users)

    def release_law(self, tally: Tally) -> Mapping[Any, Fraction] | None:
        return listed_laws(self._counts(tally).tolist(), tally.users, self.rate, MOST_BUNDLES)


@lru_cache(maxsize=64)
def _best(cells: int) -> tuple[int, ...]:
    # With h levels, the noise has h times the scale of the noise with one level, and so h² times
    # its variance. The best shape is nearly the same for all ε, so ε is left out here.
    return best_fanouts(cells, lambda levels: float(levels**2))


@dataclass(frozen=True)
class CentralTree(TreeProtocol):
    name = "central.tree"
    trust = Trust.CENTRAL

    def best_fanouts(self) -> tuple[int, ...]:
        return _best(self.task.cells)

    @property
    def rate(self) -> Fraction:
        """The rate ε/(2h) of the noise."""
        return Fraction(self.budget.epsilon) / (2 * self.tree.levels)

    @cached_property
    def randomizer(self) -> Disclosure:
        return Disclosure(Alphabet.numbers(self.task.cells))

    @cached_property
    def estimator(self) -> CuratedTree:
        noise, levels = GeometricNoise(float(self.rate)), self.tree.levels
        fit = TreeFit(self.tree, (noise.variance,) * levels)
        return CuratedTree(self.task, TreeNoise(fit, (noise,) * levels), self.rate)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"scale": 1 / float(self.rate), "levels": self.tree.levels}

    @cached_property
    def curve(self) -> PrivacyCurve:
        return moved_together_curve(self.budget.epsilon, 2 * self.tree.levels)

    @property
    def guarantee(self) -> Guarantee:
        return promise(self, "two-sided geometric noise in every node, sampled exactly")

    @property
    def local_epsilon(self) -> float:
        return math.inf
