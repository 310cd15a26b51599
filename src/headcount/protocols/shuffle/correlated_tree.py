"""A tree of counts with correlated noise in every node.

Such trees were proposed by Hay, Rastogi, Miklau, Suciu 2010, and the noise by Ghazi, Kumar,
Manurangsi, Pagh 2020.

Notation    Each of n people is in one of N cells; m people are honest. An edge is the border
            between two neighboring cells. The tree has h levels (see `protocols.tree`) and M nodes
            in total. ε1 = −ln a is the rate of the noise. r and p are the parameters of the noise
            pairs that cancel (see `correlated_noise`).
Randomizer  On each level, send the message +1 of the node to which the person's cell belongs. For
            every node, also send noise messages +1 and −1, which mostly cancel. No two nodes have
            the same number, so a message tells its level. After shuffling, the messages of one
            person are not linked.
Analyzer    (number of +1) − (number of −1), in every node. Then a tree is fitted to these counts by
            least squares. The number of people below an edge is estimated by the sum of the fitted
            cells below this edge.
Privacy     If a person's cell is replaced by a cell below another node of the first level, the
            person's message changes on every level. So the view changes in 2h nodes, whose noise is
            independent. No replacement changes more nodes. δ is the divergence of the views of all
            these nodes together. With more than one level, the computation rounds δ up by about
            0.03 % (see `accounting.moved_pairs`).
Error       Unbiased. If everyone is honest, each node has two-sided geometric noise of rate
            ε1 < ε/(2h). In central trust, the rate is ε/(2h). The option `error_ratio` is the ratio
            of the errors of these two rates. Without the option `fanouts`, the tree has the shape
            that is best in central trust. So the error can approach that of central noise. With
            the noise of fake users (see `shuffle.tree`), the error cannot approach it, and is much
            larger if ε is large. If ε is 1 or less, fake users need fewer messages for nearly the
            same error.
Messages    h + 2M(a/(1−a) + rp/(1−p))/m messages on average, each with a node and a sign. The local
            ε is infinite.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.budget import Budget, Trust
from headcount.core.bundles import RESERVED
from headcount.core.cached import cached_property
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.influence import Shifts
from headcount.core.messages import Alphabet
from headcount.core.promise import promise
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding
from headcount.protocols.correlated_noise import CorrelatedNoise, cheapest_flood
from headcount.protocols.correlated_protocol import CorrelatedProtocol, NoiseFamily
from headcount.protocols.shuffle.correlated_histogram import HistogramRandomizer
from headcount.protocols.tree import Tree
from headcount.protocols.tree_error import GeometricNoise, TreeNoise
from headcount.protocols.tree_estimator import TreeEstimator, best_pure_fanouts
from headcount.protocols.tree_protocol import TreeProtocol

# Randomizer -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class SignedPathRandomizer(HistogramRandomizer):
    """Sends +1 for the person's node on each level, and noise messages +1 and −1 for every node."""

    tree: Tree

    @property
    def own_messages(self) -> int:
        return self.tree.levels

    def own(self, encoded: NDArray[Any]) -> NDArray[Any]:
        return self.tree.paths(encoded)


# Analyzer and its error -----------------------------------------------------------------------


@dataclass(frozen=True)
class SignedTree(TreeEstimator):
    """Computes the number of +1 minus the number of −1 in every node, and fits a tree."""

    shares: CorrelatedNoise

    @property
    def tally_size(self) -> int:
        return 2 * self.tree.nodes

    def noise_of(self, users: int) -> TreeNoise:
        return tree_noise(self.tree, self.shares, users)

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        cells = np.zeros(self.tree.cells, dtype=np.int64)
        cells[: self.task.cells] = held.counts
        tally = self.shares.totals(held.users, self.tree.nodes, source)
        tally[:, 0] += self.tree.node_counts(cells)
        return tally.ravel()

    def noisy_counts(self, tally: Tally, source: Source | None) -> NDArray[np.float64]:
        return (tally.counts[::2] - tally.counts[1::2]).astype(np.float64)

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        # One message adds +1 or −1 to the count of any node. One more person adds 1 to the known
        # total, which is divided evenly among all cells.
        edges = np.arange(1, self.task.cells)
        least, most = self.fit.extreme_coefficients(edges)
        reach = np.maximum(most, -least)
        return Shifts(
            most=reach,
            least=-reach,
            person=edges / self.tree.cells,
            everywhere=self.tree.levels == 1 and self.task.cells > 2,
        ).scaled(1 / users)


def tree_noise(tree: Tree, shares: CorrelatedNoise, users: int) -> TreeNoise:
    """The noise of all nodes if each of `users` people adds these shares."""
    return TreeNoise.alike(tree, GeometricNoise(-math.log(shares.a), users / shares.honest))


# Calibration and privacy ----------------------------------------------------------------------


@lru_cache(maxsize=64)
def _calibrate(honest: int, budget: Budget, epsilon1: float, levels: int) -> CorrelatedNoise | None:
    """Noise with this ε1 whose δ is within the budget; None if there is none."""
    a, most = math.exp(-epsilon1), budget.delta * (1 - RESERVED)
    if not (0 < a < 1 and budget.epsilon > 2 * levels * epsilon1):
        return None
    return cheapest_flood(honest, a, a, budget.epsilon, most, changed=2 * levels)


@dataclass(frozen=True)
class CorrelatedTree(TreeProtocol, CorrelatedProtocol[CorrelatedNoise]):
    name = "shuffle.correlated-tree"
    trust = Trust.SHUFFLE

    def best_fanouts(self) -> tuple[int, ...]:
        return best_pure_fanouts(self.task.cells, self.budget.epsilon)

    @property
    def family(self) -> NoiseFamily[CorrelatedNoise]:
        tree = self.tree

        def calibrate(epsilon1: float) -> CorrelatedNoise | None:
            return _calibrate(self.crowd.honest, self.budget, epsilon1, tree.levels)

        return NoiseFamily(
            self.crowd,
            most_epsilon1=self.budget.epsilon / (2 * tree.levels),
            calibrate=calibrate,
            messages=lambda noise: noise.messages_per_user(tree.nodes, tree.levels),
            least_spare=2e-3 / tree.levels,
        )

    @cached_property
    def randomizer(self) -> SignedPathRandomizer:
        return SignedPathRandomizer(self.tree.nodes, self.noise, self.tree)

    @cached_property
    def estimator(self) -> SignedTree:
        noise = tree_noise(self.tree, self.noise, self.crowd.users)
        return SignedTree(self.task, noise, self.noise)

    @property
    def parameters(self) -> Mapping[str, float]:
        noise = self.noise
        return {
            "levels": self.tree.levels,
            "nodes": self.tree.nodes,
            "epsilon1": -math.log(noise.a),
            "r": noise.r,
            "flood_p": noise.p,
            "flood_pairs": noise.flood_pairs * self.crowd.users / self.crowd.honest,
        }

    @cached_property
    def curve(self) -> PrivacyCurve:
        return self.noise.curve(2 * self.tree.levels)

    @cached_property
    def guarantee(self) -> Guarantee:
        delta = self.curve.delta(self.budget.epsilon)
        return promise(self, "law of two nodes per level, all levels together", delta=delta)

    @property
    def local_epsilon(self) -> float:
        return math.inf
