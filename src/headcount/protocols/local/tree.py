"""A tree of counts in local trust: each person answers about one random level.

Cormode, Kulkarni, Srivastava 2019 proposed trees in local trust. The probabilities of the bits are
those of Wang, Blocki, Li, Jha 2017.

Notation    There are n people, each in one of N cells. The tree has h levels (see
            `protocols.tree`). Level l has N_l nodes. p is the probability of a 1 for the node that
            contains a person, and q is the probability of a 1 for each other node.
Randomizer  Draw a uniform level l. Send l, and an independent bit for each of the N_l nodes of this
            level, with p = ½ and q near 1/(1+e^ε), as in `local.unary-optimized`. Devices draw the
            level, so nobody has to assign it. The level does not depend on the value. The number of
            people who answer about a level is random, and the stated error includes the resulting
            variance.
Analyzer    If n_l people answer about level l, and y of them send a 1 for a node, the count of the
            node is estimated by h(y − n_l·q)/(p − q). A tree is fitted to these counts by least
            squares. The number of people below an edge between two cells is the sum of the fitted
            counts of all cells below the edge.
Privacy     Pure: on every level, at most two bits of a report have different laws for two cells. So
            ε' = ln(p(1−q)/(q(1−p))) ≤ ε. The level is public. People who answer about other levels
            hide nobody, so no amplification by sampling is claimed. If people answered about all
            levels with ε/h each, the variance would be about h times as large.
Error       Unbiased. Let b_v be the coefficient of node v in the number of people below edge t. Let
            b_l(x) be the coefficient of the node of level l that contains cell x. People are
            independent, and a person in cell x adds the variance

                h·Σ_l (σ²·Σ_v b_v² + (κ+1)·b_l(x)²) − (1[x < t] − t/N)²,

            with σ² = q(1−q)/(p−q)² and κ = (1−p−q)/(p−q). The sum over v is over the nodes of level
            l. The terms after it come from the random levels, and from a person's own bit. The
            variance does not include the error of sampling the crowd from a population. The error
            is largest if the whole crowd is in one cell. Intervals are those of `sampled_groups`,
            and treat the error as nearly normal unless the crowd is small. The width of a
            confidence band for all edges comes from simulated crowds. Without the option `fanouts`,
            the shape of the tree minimizes the mean squared error of the share below an edge, for
            people who are spread evenly over the cells. This shape has fewer levels if ε is large.
Messages    1 message, with the level and N bits.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.cached import cached_property
from headcount.core.distribution import EdgeMargins
from headcount.core.estimate import Answer
from headcount.core.influence import Shifts
from headcount.core.messages import Alphabet, Messages
from headcount.core.postprocessing import monotone
from headcount.core.randomizer import MOST_BUNDLES, BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding
from headcount.protocols import packed_bits
from headcount.protocols.frequency_oracle import FrequencyOracle, Support
from headcount.protocols.responses import lie_weight
from headcount.protocols.sampled_groups import mean_margin, nearly_normal, used_variances
from headcount.protocols.tree import Tree, TreeFit, shapes, some_edges
from headcount.protocols.tree_error import ranked
from headcount.protocols.tree_estimator import FittedTree
from headcount.protocols.tree_protocol import TreeProtocol
from headcount.randomness.draws import WHOLE, bernoulli, packed_bernoulli, uniform
from headcount.randomness.totals import binomial, groups

# A confidence band for all edges comes from simulated crowds.
_MOST_SIMULATED = 1_000_000  # about the largest number of nodes in all simulations together
_MOST_BANDS = 1000  # the largest number of simulations
_AT_ONCE = 100_000  # about the number of nodes that are simulated at once


# Randomizer -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class LevelRandomizer(Randomizer):
    """Sends a uniform level, and a bit for each of its nodes.

    All messages have as many bits as the largest level needs. Bits that a level does not need are
    0.
    """

    tree: Tree
    own: int  # p·2^64
    other: int  # q·2^64

    fixed_messages = 1

    @property
    def alphabet(self) -> Alphabet:
        bits = Alphabet.packed(self.tree.cells)
        return Alphabet(np.uint8, range(self.tree.levels), *bits.columns)

    @property
    def instructions(self) -> Mapping[str, Any]:
        return {
            "kind": "level",
            "fanouts": list(self.tree.fanouts),
            "own": str(self.own),
            "other": str(self.other),
        }

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        levels = uniform(source, len(encoded), self.tree.levels, np.uint8)
        reports = np.zeros((len(encoded), len(self.alphabet.columns)), dtype=np.uint8)
        reports[:, 0] = levels
        for level, size in enumerate(self.tree.sizes):
            people, width = np.flatnonzero(levels == level), packed_bits.row_bytes(size)
            rows = packed_bernoulli(source, len(people) * width, self.other)
            rows = packed_bits.cleared(rows.reshape(-1, width), size)
            nodes = encoded[people].astype(np.int64) // (self.tree.cells // size)
            packed_bits.put(rows, nodes, bernoulli(source, len(people), self.own))
            reports[people, 1 : 1 + width] = rows
        return Messages.one_each(reports)

    def law(self, value: int) -> BundleLaw | None:
        if sum(2**size for size in self.tree.sizes) > MOST_BUNDLES:
            return None
        own, other = Fraction(self.own, WHOLE), Fraction(self.other, WHOLE)
        width = len(self.alphabet.columns) - 1
        out: dict[Any, Fraction] = {}
        for level, size in enumerate(self.tree.sizes):
            node = value // (self.tree.cells // size)
            for bits in product((0, 1), repeat=size):
                chance = Fraction(1, self.tree.levels)
                for place, bit in enumerate(bits):
                    one = own if place == node else other
                    chance *= one if bit else 1 - one
                row = np.packbits(bits, bitorder="little").tolist()
                message = (level, *row, *[0] * (width - len(row)))
                out[((message, 1),)] = chance
        return out


# Analyzer and its error -----------------------------------------------------------------------


@dataclass(frozen=True)
class Design:
    """The variance that each person adds to the estimated number of people below an edge."""

    fit: TreeFit  # with noise of variance 1 on all levels
    support: Support
    cells: int  # the number of cells in which people may be

    @property
    def _levels(self) -> int:
        return self.fit.tree.levels

    @property
    def _slope(self) -> float:
        return float(self.support.slope)

    @cached_property
    def _variances(self) -> tuple[float, float]:
        """The numbers h·σ² and h(κ + 1)."""
        own, other = self.support.variances
        v, kappa = other / self._slope**2, (own - other) / self._slope**2
        return self._levels * v, self._levels * (kappa + 1)

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        """All edges between two cells."""
        return np.arange(1, self.cells)

    def variances(
        self, below: NDArray[np.float64], edges: NDArray[np.int64] | None = None
    ) -> NDArray[np.float64]:
        """The variance that a person adds, averaged over people, for each of `edges`.

        `below` is the share of people below each edge between two cells. If `edges` is None, the
        result has a variance for every edge between two cells.
        """
        edges = self.edges if edges is None else edges
        every = np.concatenate([[0.0], below, np.ones(self.fit.tree.cells - self.cells + 1)])
        middle, share = edges / self.fit.tree.cells, every[edges]
        found = self._variances[0] * self.fit.variances_below(edges)
        found += self._variances[1] * self.fit.mean_squares(edges, every)
        found -= share * (1 - middle) ** 2 + (1 - share) * middle**2
        return found

    def even_variance(self, edges: NDArray[np.int64]) -> float:
        """The variance, averaged over these edges, if people are spread evenly over the cells."""
        return float(self.variances(self.edges / self.cells, edges).mean())

    @cached_property
    def worst(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """For each edge, the largest variance that a person can add, and a cell that has it."""
        most = np.full(len(self.edges), -np.inf)
        where = np.zeros(len(self.edges), dtype=np.int64)
        middle = self.edges / self.fit.tree.cells
        noise = self._variances[0] * self.fit.variances_below(self.edges)
        for at, squares in self.fit.squares(self.edges, self.cells):
            known = np.where(at < self.edges, 1 - middle, middle) ** 2
            found = noise + self._variances[1] * squares - known
            larger = (found > most) & (at >= 0) & (at < self.cells)
            most, where = np.where(larger, found, most), np.where(larger, at, where)
        return most, where

    @cached_property
    def reach(self) -> NDArray[np.float64]:
        """For each edge, the most that a report can add to the estimate or subtract from it."""
        return self._levels / self._slope * self.fit.positive_sums(self.edges)

    def of_query(
        self, weights: NDArray[np.float64], below: NDArray[np.float64]
    ) -> tuple[float, float, float]:
        """Three numbers for a linear query: the variance that a person adds, averaged over people;
        the largest such variance; and the `reach`.
        """
        tree, b = self.fit.tree, self.fit.coefficients(weights)
        own = b[tree.paths(np.arange(self.cells))]
        variances = self._variances[0] * float(b @ b) + self._variances[1] * (own**2).sum(axis=1)
        variances -= (weights[: self.cells] - weights.mean()) ** 2
        shares = np.diff(np.concatenate([[0.0], below, [1.0]]))
        sums = max(float(np.maximum(level, 0.0).sum()) for level in tree.split(b))
        return float(shares @ variances), float(variances.max()), self._levels / self._slope * sums

    def simulated(
        self, people: NDArray[np.int64], number: int, generator: np.random.Generator
    ) -> NDArray[np.float64]:
        """Pseudorandom errors of the number of people below each edge, for `number` simulated runs.

        Each run is a row. `people` is the number of people in each cell. The errors are never used
        in a release.
        """
        tree, h, q = self.fit.tree, self._levels, float(self.support.other)
        left = np.broadcast_to(people, (number, tree.cells))
        counts = []
        for level, size in enumerate(tree.sizes):
            # Of the people who have no level yet, this share answers about this level.
            asked = generator.binomial(left, 1 / (h - level))
            left = left - asked
            of_node = asked.reshape(number, size, -1).sum(axis=2)
            users = of_node.sum(axis=1, keepdims=True)
            ones = generator.binomial(of_node, float(self.support.own))
            ones = ones + generator.binomial(users - of_node, q)
            counts.append(h * (ones - users * q) / self._slope)
        fitted = self.fit.cells(np.concatenate(counts, axis=1), float(people.sum()))
        below: NDArray[np.float64] = np.cumsum(fitted - people, axis=1)[:, : self.cells - 1]
        return below


@dataclass(frozen=True, eq=False)
class LocalTreeError:
    """The error of the shares of people below all edges. The shares themselves are near `below`."""

    design: Design
    users: int
    below: NDArray[np.float64]

    @cached_property
    def _variances(self) -> NDArray[np.float64]:
        return self.design.variances(self.below)

    @property
    def standard_error(self) -> NDArray[np.float64]:
        return np.sqrt(self._variances / self.users)

    def margins(self, confidence: float) -> EdgeMargins:
        margin = self._margin(
            self._variances, self.design.worst[0], self.design.reach + 1, confidence
        )
        return margin, margin

    def population_margins(self, share: float, confidence: float) -> EdgeMargins:
        sampled = share * (1 - share)
        margin = self._margin(
            self._variances + sampled,
            self.design.worst[0] + sampled,
            self.design.reach + 2,
            confidence,
        )
        return margin, margin

    def query_margins(self, weights: NDArray[np.float64], confidence: float) -> tuple[float, float]:
        query = self.design.fit.tree.extended(weights)
        variance, worst, reach = self.design.of_query(query, self.below)
        width = np.array(reach + float(np.ptp(query)))
        margin = float(self._margin(np.array(variance), np.array(worst), width, confidence))
        return margin, margin

    def _margin(
        self,
        variances: NDArray[np.float64],
        worst: NDArray[np.float64],
        width: NDArray[np.float64],
        confidence: float,
    ) -> NDArray[np.float64]:
        return mean_margin(
            self.users,
            groups=self.design.fit.tree.levels,
            variances=variances,
            worst=worst,
            width=width,
            confidence=confidence,
        )

    def band_margins(self, confidence: float) -> EdgeMargins:
        """Margins from simulated errors of a crowd with the estimated shares (see `tree_error`).

        A small crowd may differ too much from its estimate. In this case, each edge gets its own
        margin, and the allowed probability of an error is divided equally among all edges.
        """
        tree, users = self.design.fit.tree, self.users
        if not nearly_normal(users, tree.levels):
            return self.margins(1 - (1 - confidence) / len(self.design.edges))
        number = max(_MOST_SIMULATED // tree.nodes, math.ceil(2 / (1 - confidence)))
        number = min(number, _MOST_BANDS)
        ends = np.rint(users * np.concatenate([[0.0], self.below, [1.0]]))
        people = np.zeros(tree.cells, dtype=np.int64)
        people[: self.design.cells] = np.diff(ends)
        generator, largest = np.random.default_rng(0), np.empty(number)
        errors, at_once = users * self.standard_error, max(1, _AT_ONCE // tree.nodes)
        for start in range(0, number, at_once):
            piece = largest[start : start + at_once]
            found = np.abs(self.design.simulated(people, len(piece), generator))
            piece[:] = np.max(found / errors, axis=1)
        used = used_variances(
            users, groups=tree.levels, variances=self._variances, worst=self.design.worst[0]
        )
        width = ranked(largest, confidence) * np.sqrt(used / users)
        return width, width


@dataclass(frozen=True)
class LocalTreeEstimator(FittedTree):
    """Computes h(y − n_l·q)/(p − q) for every node, and fits a tree.

    A tally has the number y of ones of every node, and then the number n_l of reports of every
    level.
    """

    design: Design

    @property
    def fit(self) -> TreeFit:
        return self.design.fit

    @property
    def tally_size(self) -> int:
        return self.tree.nodes + self.tree.levels

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        ones, reports = [], []
        for level, size in enumerate(self.tree.sizes):
            width = packed_bits.row_bytes(size)
            rows = np.ascontiguousarray(payload[payload[:, 0] == level, 1 : 1 + width])
            ones.append(packed_bits.column_sums(rows, size))
            reports.append(len(rows))
        return np.concatenate([*ones, np.array(reports)]).astype(np.int64)

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        support, left = self.design.support, held.counts
        ones, reports = [], []
        for level, size in enumerate(self.tree.sizes):
            asked = np.zeros(self.tree.cells, dtype=np.int64)
            # Of the people who have no level yet, this share answers about this level.
            share = Fraction(1, self.tree.levels - level)
            for number, alike in groups(left):
                asked[alike] = binomial(source, number, share, len(alike))
            left = left - asked[: len(left)]
            of_node = asked.reshape(size, -1).sum(axis=1)
            users = int(of_node.sum())
            found = np.zeros(size, dtype=np.int64)
            for number, alike in groups(of_node):
                found[alike] = binomial(source, number, support.own, len(alike))
                found[alike] += binomial(source, users - number, support.other, len(alike))
            ones.append(found)
            reports.append(users)
        return np.concatenate([*ones, np.array(reports)])

    def noisy_counts(self, tally: Tally, source: Source | None) -> NDArray[np.float64]:
        support, levels = self.design.support, self.tree.levels
        ones, reports = np.split(tally.counts, [self.tree.nodes])
        expected = np.repeat(reports, self.tree.sizes) * float(support.other)
        return levels * (ones - expected) / float(support.slope)

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        # A message may set all bits of a level that raise the answer, or all that lower it.
        # One more person also adds 1 to the known total, which is divided evenly among all cells.
        reach = self.design.reach
        person = self.design.edges / self.tree.cells
        return Shifts(most=reach, least=-reach, person=person).scaled(1 / users)

    def standard_error(self, users: int, held: Holding | None) -> float:
        if held is None:
            variances = self.design.worst[0]
        else:
            variances = self.design.variances(self.task.below(held))
        return math.sqrt(float(variances.max()) / users)

    def ranking_error(self, users: int) -> float:
        """The root mean squared error over all edges, if people are spread evenly."""
        return math.sqrt(self.design.even_variance(self.design.edges) / users)

    def extremes(self, users: int, confidence: float) -> Iterable[Answer]:
        # The error is largest if the whole crowd is in one cell.
        most, where = self.design.worst
        yield (self.design.edges > where[np.argmax(most)]).astype(np.float64)

    def error_law(self, users: int, unbiased: Answer) -> LocalTreeError:
        return LocalTreeError(self.design, users, monotone(np.asarray(unbiased)))


# Calibration and privacy ----------------------------------------------------------------------


@lru_cache(maxsize=64)
def _best(cells: int, support: Support) -> tuple[int, ...]:
    def variance(fanouts: tuple[int, ...]) -> float:
        fit = TreeFit(Tree(fanouts), (1.0,) * len(fanouts))
        return Design(fit, support, cells).even_variance(some_edges(cells))

    return min(shapes(cells), key=variance)


@dataclass(frozen=True)
class LocalTree(TreeProtocol, FrequencyOracle):
    name = "local.tree"

    def best_fanouts(self) -> tuple[int, ...]:
        return _best(self.task.cells, self.support)

    @cached_property
    def weights(self) -> tuple[int, int]:
        """The integers p·2^64 and q·2^64."""
        return WHOLE // 2, lie_weight(2, self.budget.epsilon)

    @cached_property
    def support(self) -> Support:
        own, other = (Fraction(weight, WHOLE) for weight in self.weights)
        return Support(own, other, own * other, other * other)

    @cached_property
    def randomizer(self) -> LevelRandomizer:
        return LevelRandomizer(self.tree, *self.weights)

    @cached_property
    def estimator(self) -> LocalTreeEstimator:
        fit = TreeFit(self.tree, (1.0,) * self.tree.levels)
        return LocalTreeEstimator(self.task, Design(fit, self.support, self.task.cells))

    @property
    def parameters(self) -> Mapping[str, float]:
        support = self.support
        return {
            "levels": self.tree.levels,
            "p": float(support.own),
            "q": float(support.other),
        }
