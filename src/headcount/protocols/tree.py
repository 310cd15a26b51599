"""A tree of counts over a grid of cells, fitted to noisy counts by least squares.

Notation    The grid has N = B₁⋯B_h cells. Level l = 1, …, h of the tree divides every node of the
            level above into B_l children, so it has N_l = B₁⋯B_l nodes. The nodes of level h are
            the cells. The root contains everybody, and its count n is public. Node v has the count
            c_v and the noisy count o_v. The noises of all nodes are independent. On level l, they
            have the variance σ_l².
Fit         From the cells up: z_v is the best estimate of c_v from o_v and the nodes below v. Its
            variance τ_l² is 1/(1/σ_l² + 1/(B_{l+1}τ_{l+1}²)), and τ_h² = σ_h². From the root down:
            the difference between the fitted count of a node and the sum of the z of its children
            is divided equally among the children. The result is the least-squares fit (Hay,
            Rastogi, Miklau, Suciu 2010), even if variances and fan-outs differ between levels.
Error       A linear query has a weight w for each cell. m_v is the mean weight of the cells of
            node v, and p is the parent of v. The answer has the variance Σ_l τ_l² Σ_v (m_v − m_p)²,
            where the inner sum is over the nodes v of level l. The answer has the error
            Σ_v b_v·(noise of v), where b_v = (m_v − m_p)·τ_l²/σ_l² + b_p·σ_{l−1}²/(B_l·σ_l²), with
            b = 0 at the root.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import mul
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.cached import cached_property
from headcount.core.errors import InvalidParameter

# For each level, an array of coefficients of the noise, and an array with the number of nodes that
# have each coefficient. Both arrays have a row for each query.
Terms: TypeAlias = list[tuple[NDArray[np.float64], NDArray[np.float64]]]
_SOME_EDGES = 4096  # the best fan-outs have the least error on average over at most this many edges


@dataclass(frozen=True)
class Tree:
    """The shape of a tree. Its nodes are numbered level by level, without the root."""

    fanouts: tuple[int, ...]

    @property
    def levels(self) -> int:
        return len(self.fanouts)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of nodes on each level."""
        return tuple(accumulate(self.fanouts, mul))

    @property
    def cells(self) -> int:
        return self.sizes[-1]

    @property
    def nodes(self) -> int:
        return sum(self.sizes)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The index of the first node of each level."""
        return (0, *accumulate(self.sizes[:-1]))

    def split(self, nodes: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Numbers for all nodes, split into one array per level. The last axis is over nodes."""
        return np.split(nodes, self.starts[1:], axis=-1)

    def paths(self, cells: NDArray[np.integer]) -> NDArray[np.int64]:
        """For each of these cells, the nodes that contain it, from level 1 to the cell itself."""
        widths = [self.cells // size for size in self.sizes]
        return np.stack(
            [cells.astype(np.int64) // w + s for w, s in zip(widths, self.starts, strict=True)],
            axis=-1,
        )

    def extended(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The weights of all cells of the tree, from the weights of the task's cells.

        The task's cells come first. The fitted counts of all additional cells are added to the last
        cell of the task. So the additional cells have the weight of that cell.
        """
        return np.pad(weights, (0, self.cells - len(weights)), mode="edge")

    def node_counts(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """The counts of all nodes, from the counts of the cells."""
        return np.concatenate([cells.reshape(size, -1).sum(axis=1) for size in self.sizes])


class Cut(NamedTuple):
    """The coefficients b of one level of a tree, for several edges. Each edge cuts one node.

    This node has the coefficient `b_cut`. Its siblings have the coefficient `b_below` if they are
    below the edge, and `b_above` if they are above it.
    """

    level: int
    width: int  # the number of cells of a node
    start: NDArray[np.integer]  # the first cell of the node that is cut
    below: NDArray[np.integer]  # the number of siblings below the edge
    above: NDArray[np.integer]  # the number of siblings above the edge
    b_below: NDArray[np.float64]
    b_cut: NDArray[np.float64]
    b_above: NDArray[np.float64]


@dataclass(frozen=True)
class TreeFit:
    """The least-squares fit to noisy counts whose noise has the variance σ_l² on level l."""

    tree: Tree
    variances: tuple[float, ...]

    @cached_property
    def fitted_variances(self) -> tuple[float, ...]:
        """The variance τ_l² of the best estimate from a node and all nodes below it."""
        fitted = [self.variances[-1]]
        for variance, fanout in zip(self.variances[-2::-1], self.tree.fanouts[:0:-1], strict=True):
            fitted.append(1 / (1 / variance + 1 / (fanout * fitted[-1])))
        return tuple(fitted[::-1])

    def cells(self, noisy: NDArray[np.float64], total: float) -> NDArray[np.float64]:
        """The fitted counts of all cells, from the noisy counts of all nodes.

        The last axis is that of the nodes, so several trees can be fitted at once.
        """
        levels, fitted = self.tree.split(noisy), self.fitted_variances
        best = [levels[-1]]
        for level in range(self.tree.levels - 2, -1, -1):
            below = _children(best[-1], self.tree.fanouts[level + 1]).sum(axis=-1)
            share = fitted[level] / self.variances[level]
            best.append(share * levels[level] + (1 - share) * below)
        counts = np.full((*noisy.shape[:-1], 1), float(total))
        for z, fanout in zip(best[::-1], self.tree.fanouts, strict=True):
            children = _children(z, fanout)
            missing = (counts - children.sum(axis=-1)) / fanout
            counts = (children + missing[..., None]).reshape(z.shape)
        return counts

    def variance(self, weights: NDArray[np.float64]) -> float:
        """The variance of the answer to a linear query with these weights of the cells."""
        squares = (np.sum(difference**2) for difference in self._differences(weights))
        return math.fsum(
            tau * float(square) for tau, square in zip(self.fitted_variances, squares, strict=True)
        )

    def variances_below(self, edges: NDArray[np.integer]) -> NDArray[np.float64]:
        """The variance of the number of people in cells 0, …, t − 1, for each edge t."""
        out = np.zeros(len(edges))
        for tau, fanout, size in zip(
            self.fitted_variances, self.tree.fanouts, self.tree.sizes, strict=True
        ):
            width = self.tree.cells // size
            # The edge cuts a node of the level above. The first `below` children of this node are
            # below the edge, and so is the fraction `part` of the next child.
            below, rest = np.divmod(edges % (fanout * width), width)
            part = rest / width
            out += tau * (below + part**2 - (below + part) ** 2 / fanout)
        return out

    def coefficients_below(self, edges: NDArray[np.integer]) -> "Terms":
        """The coefficients b_v for the number of people in cells 0, …, t − 1, for each edge t.

        An edge cuts one node of each level. All other nodes have few different coefficients. For
        each level there are two arrays, with a row for each edge: the different coefficients, and
        the number of nodes that have each of them.
        """
        # The coefficients of nodes that are not cut, and the number of nodes with each of them. All
        # children of such a node have the same coefficient.
        b, nodes = np.zeros((len(edges), 0)), np.zeros((len(edges), 0))
        out = []
        for cut in self.cuts(edges):
            handed_down = b * self.handed_down[cut.level]
            b = np.column_stack([handed_down, cut.b_below, cut.b_above])
            children = nodes * self.tree.fanouts[cut.level]
            nodes = np.column_stack([children, cut.below, cut.above])
            out.append(
                (
                    np.column_stack([b, cut.b_cut]),
                    np.column_stack([nodes, np.ones(len(edges))]),
                )
            )
        return out

    def coefficients(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The coefficient b_v of each node's noise in the answer to a linear query."""
        b, out = np.zeros(1), []
        for level, difference in enumerate(self._differences(weights)):
            handed_down = np.repeat(b, self.tree.fanouts[level]) * self.handed_down[level]
            b = difference * self._own_share(level) + handed_down
            out.append(b)
        return np.concatenate(out)

    @cached_property
    def handed_down(self) -> tuple[float, ...]:
        """For each level, the factor σ_{l−1}²/(B_l·σ_l²). If a node has the same mean weight as its
        parent, its coefficient is this factor times the coefficient of its parent.
        """
        above = (0.0, *self.variances[:-1])
        rows = zip(above, self.tree.fanouts, self.variances, strict=True)
        return tuple(before / (fanout * variance) for before, fanout, variance in rows)

    def _own_share(self, level: int) -> float:
        """The factor τ_l²/σ_l²."""
        return self.fitted_variances[level] / self.variances[level]

    def cuts(self, edges: NDArray[np.integer]) -> Iterator["Cut"]:
        """For each level, the coefficients b for the number of people in cells 0, …, t − 1.

        On each level, an edge t cuts one node or is at the lower end of one. Only the children of
        the node that is cut on the level above have mean weights that differ from those of their
        parents.
        """
        b = np.zeros(len(edges))
        for level, (fanout, size) in enumerate(
            zip(self.tree.fanouts, self.tree.sizes, strict=True)
        ):
            width = self.tree.cells // size
            start = edges - edges % width
            below, part = (edges % (fanout * width)) // width, (edges - start) / width
            mean, share = (below + part) / fanout, self._own_share(level)
            handed_down = b * self.handed_down[level]
            b = (part - mean) * share + handed_down
            yield Cut(
                level=level,
                width=width,
                start=start,
                below=below,
                above=fanout - 1 - below,
                b_below=(1 - mean) * share + handed_down,
                b_cut=b,
                b_above=-mean * share + handed_down,
            )

    def extreme_coefficients(
        self, edges: NDArray[np.integer]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The smallest and the largest coefficient of all nodes, for each edge.

        The noise of all levels must have the same variance.
        """
        least, most = np.full(len(edges), np.inf), np.full(len(edges), -np.inf)
        for cut in self.cuts(edges):
            # The descendants of a node that is not cut are left out. Their coefficients have the
            # sign of the node's coefficient, and are closer to 0.
            for b, exists in (
                (cut.b_below, cut.below > 0),
                (cut.b_cut, cut.below >= 0),
                (cut.b_above, cut.above > 0),
            ):
                least = np.where(exists, np.minimum(least, b), least)
                most = np.where(exists, np.maximum(most, b), most)
        return least, most

    def positive_sums(self, edges: NDArray[np.integer]) -> NDArray[np.float64]:
        """The largest sum of a level's positive coefficients, for each edge.

        On every level, all coefficients together add up to 0. So the negative coefficients of a
        level add up to minus the sum of its positive coefficients.
        """
        largest, others = np.zeros(len(edges)), np.zeros(len(edges))
        for cut in self.cuts(edges):
            # `others` is the sum of this level's positive coefficients, except that of the node
            # that is cut. The first line computes it for nodes whose parents are not cut, and the
            # next two lines add the siblings of the node that is cut.
            others = others * self.handed_down[cut.level] * self.tree.fanouts[cut.level]
            others = others + cut.below * np.maximum(cut.b_below, 0.0)
            others = others + cut.above * np.maximum(cut.b_above, 0.0)
            largest = np.maximum(largest, others + np.maximum(cut.b_cut, 0.0))
        return largest

    def mean_squares(
        self, edges: NDArray[np.integer], below: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """For each edge, the sum of b² over the nodes that contain a person, averaged over people.

        `below` is the share of people below each of the N + 1 edges of cells.
        """
        out = np.zeros(len(edges))
        for cut in self.cuts(edges):
            stop = cut.start + cut.width
            first = cut.start - cut.below * cut.width
            last = stop + cut.above * cut.width
            apart = (below[cut.start] - below[first]) * cut.b_below**2
            apart = apart + (below[last] - below[stop]) * cut.b_above**2
            out += apart * self._squares[cut.level]
            out += (below[stop] - below[cut.start]) * cut.b_cut**2
        return out

    def squares(
        self, edges: NDArray[np.integer], cells: int
    ) -> Iterator[tuple[NDArray[np.integer], NDArray[np.float64]]]:
        """For each edge, the sum of b² over the nodes that contain a cell, for some cells.

        Each item has one cell for each edge, and the sum for this cell. These cells represent all
        others: for each edge, every cell from 0 to `cells` − 1 has the same sum as the cell of some
        item on the same side of the edge. The cell of an item may be outside this range.
        """
        path = np.zeros(len(edges))
        for cut in self.cuts(edges):
            share = self._squares[cut.level]
            below = np.where(cut.below > 0, cut.start - cut.width, -1)
            yield below, path + cut.b_below**2 * share
            above = np.where(cut.above > 0, cut.start + cut.width, cells)
            yield above, path + cut.b_above**2 * share
            path = path + cut.b_cut**2
        yield edges, path

    @cached_property
    def _squares(self) -> tuple[float, ...]:
        """For each level, the sum of b² over a node with b = 1 and one descendant of the node on
        each lower level, if all descendants have the node's mean weight.
        """
        sums = [1.0]
        for factor in self.handed_down[:0:-1]:
            sums.append(1 + factor**2 * sums[-1])
        return tuple(sums[::-1])

    def _differences(self, weights: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """For each level, the mean weight of each node minus that of its parent."""
        means = [weights.reshape(size, -1).mean(axis=1) for size in (1, *self.tree.sizes)]
        return [
            nodes - np.repeat(parents, fanout)
            for (parents, nodes), fanout in zip(pairwise(means), self.tree.fanouts, strict=True)
        ]


def shapes(cells: int) -> Iterator[tuple[int, ...]]:
    """The fan-outs that are worth trying, for all numbers of levels.

    The fan-outs of a tree differ as little as the number of cells allows. The tree may have more
    cells than are needed.
    """
    for levels in range(1, cells.bit_length()):
        yield from {_near_equal(cells, levels), _powers_of_two(cells, levels)}


def some_edges(cells: int) -> NDArray[np.int64]:
    """The edges over which errors are averaged, to choose the best fan-outs."""
    return np.unique(np.linspace(1, cells - 1, min(cells - 1, _SOME_EDGES)).astype(np.int64))


def best_fanouts(cells: int, variance: Callable[[int], float | None]) -> tuple[int, ...]:
    """The fan-outs with the smallest mean squared error of the number of people below an edge.

    `variance` returns the variance of the noise for a number of levels, or None if this number of
    levels is not possible.
    """
    edges = some_edges(cells)
    found: list[tuple[float, tuple[int, ...]]] = []
    for fanouts in shapes(cells):
        noise = variance(len(fanouts))
        if noise is not None:
            fit = TreeFit(Tree(fanouts), (noise,) * len(fanouts))
            found.append((float(fit.variances_below(edges).mean()), fanouts))
    return min(found)[1]


def checked_fanouts(text: str, cells: int) -> tuple[int, ...]:
    """The fan-outs in a text like "16,8,8". Their product must be from `cells` to 4·`cells`."""
    try:
        fanouts = tuple(int(part) for part in str(text).split(","))
    except ValueError:
        fanouts = ()
    if not fanouts or min(fanouts) < 2 or not cells <= math.prod(fanouts) <= 4 * cells:
        raise InvalidParameter(
            f"`fanouts` must be whole numbers of at least 2 such as 16,8,8, whose product is "
            f"between {cells} and {4 * cells}, got {checks.shown(text)}"
        )
    if math.prod(fanouts[1:]) >= cells:
        raise InvalidParameter(
            f"`fanouts` must divide {cells} cells among at least two nodes of the first level, "
            f"got {checks.shown(text)}, which puts all cells into one node"
        )
    return fanouts


def _near_equal(cells: int, levels: int) -> tuple[int, ...]:
    """Nearly equal fan-outs, the largest first, whose product is at least the number of cells."""
    fanouts: list[int] = []
    for left in range(levels, 0, -1):
        needed = -(-cells // math.prod(fanouts))
        fanouts.append(max(2, _root(needed, left)))
    return tuple(fanouts)


def _root(number: int, degree: int) -> int:
    """The least whole number whose power of this degree is at least `number`."""
    root = round(math.pow(number, 1 / degree))
    while root**degree < number:
        root += 1
    while root > 1 and (root - 1) ** degree >= number:
        root -= 1
    return root


def _powers_of_two(cells: int, levels: int) -> tuple[int, ...]:
    """Nearly equal powers of two, the largest first, whose product is at least `cells`."""
    each, more = divmod((cells - 1).bit_length(), levels)
    return tuple(2 ** (each + (level < more)) for level in range(levels))


def _children(nodes: NDArray[np.float64], fanout: int) -> NDArray[np.float64]:
    """The numbers of a level's nodes, with one row for the children of each parent."""
    return nodes.reshape(*nodes.shape[:-1], -1, fanout)
