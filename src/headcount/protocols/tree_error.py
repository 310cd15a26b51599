"""The exact law of the errors of answers that are read from a noisy tree.

The error of a linear query is Σ_v b_v·Z_v over the nodes v, with known coefficients b_v and the
noise Z_v of each node. All nodes of a level have the same law of noise. The characteristic function
of the error is a product over all nodes. Inverting this function gives the quantiles of the error
(Gil-Pelaez 1951).

The scale of an error is its standard deviation, or the largest |b_v| if that is larger. With many
nodes on several levels, the characteristic function vanishes at high frequencies, and the inversion
is exact. With few nodes, or with one level, the error may have atoms, because the noise is a whole
number. Then a small normal variable is added to the error. Its standard deviation is 1/64 of the
scale. Let α be the probability with which the error may exceed a margin on one side. The sum of the
error and the normal variable exceeds some number x with probability 99α/100. The normal variable is
below some number −y with probability α/100. So the error exceeds the margin x + y with probability
at most α. For a confidence of 95 %, y is about 3.5 standard deviations of the normal variable.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.truncated_geometric import TruncatedGeometric
from headcount.core.cached import cached_property
from headcount.core.distribution import EdgeMargins
from headcount.protocols.tree import Terms, Tree, TreeFit

_SMOOTHING = 1 / 64  # the added normal's standard deviation, divided by the error's scale
_REACH = 20.0  # the law beyond this many scales is negligible
# The characteristic function of the added normal variable is negligible at frequencies above this
# number divided by its standard deviation.
_HIGHEST = 6.0
_POINTS = 5000  # the number of points at which a law is computed
# There may be atoms if the characteristic function is larger than this at high frequencies.
_ROUGH = 1e-7
_RARE = 0.01  # if there are atoms, this share of α is left for the normal variable
_NEGLIGIBLE = -45.0  # a characteristic function with a smaller logarithm is negligible
_BATCH = 32  # the number of queries whose characteristic functions are inverted at once
_MOST_EXACT = 4096  # with at most this many cells, the margins of every edge are computed
_SOME_EDGES = 256  # in larger trees, the margins of about this many edges are computed
# A confidence band for all edges comes from simulated trees.
_MOST_SIMULATED = 4_000_000  # about the largest number of nodes in all simulated trees together
_MOST_BANDS = 4000  # the largest number of simulated trees

# The logarithm of the characteristic function of an error that comes on top of the noise, such as
# the sampling error.
Added = Callable[[NDArray[np.float64]], NDArray[np.complex128]]


class NodeNoise(Protocol):
    """The law of one node's noise. Its mean is 0."""

    @property
    def variance(self) -> float: ...

    def log_transform(self, frequencies: NDArray[np.float64]) -> NDArray[Any]:
        """The logarithm of the characteristic function. It is real if the noise is symmetric."""

    def draw(self, generator: np.random.Generator, count: int) -> NDArray[np.float64]:
        """Pseudorandom noise for simulations of the error. It is never used for a release."""


@dataclass(frozen=True)
class GeometricNoise:
    """Two-sided geometric noise: P(z) ∝ e^{−rate·|z|}.

    If people add shares of noise, the sum of the shares of h honest people has this law. The noise
    of all n people is then the sum of `times` = n/h independent numbers with this law. `times` need
    not be a whole number, since the law is infinitely divisible.
    """

    rate: float
    times: float = 1.0

    @property
    def variance(self) -> float:
        return self.times / (2 * math.sinh(self.rate / 2) ** 2)

    def log_transform(self, frequencies: NDArray[np.float64]) -> NDArray[np.float64]:
        # For a = e^{−rate}, (1−a)²/(1 − 2a·cos s + a²) = 1/(1 + sin²(s/2)/sinh²(rate/2)).
        ratio = math.sinh(self.rate / 2) ** -2
        waves = np.sin(frequencies / 2)
        return -self.times * np.log(1 + ratio * waves * waves)

    def draw(self, generator: np.random.Generator, count: int) -> NDArray[np.float64]:
        p = -math.expm1(-self.rate)
        up, down = (generator.negative_binomial(self.times, p, count) for _ in range(2))
        drawn: NDArray[np.int64] = up - down
        return drawn.astype(np.float64)


@dataclass(frozen=True)
class PoissonNoise:
    """Poisson noise minus its mean."""

    mean: float

    @property
    def variance(self) -> float:
        return self.mean

    def log_transform(self, frequencies: NDArray[np.float64]) -> NDArray[np.complex128]:
        # mean·(e^{is} − 1 − is)
        found = np.empty(frequencies.shape, dtype=np.complex128)
        found.real = -2 * self.mean * np.sin(frequencies / 2) ** 2
        found.imag = self.mean * (np.sin(frequencies) - frequencies)
        return found

    def draw(self, generator: np.random.Generator, count: int) -> NDArray[np.float64]:
        return generator.poisson(self.mean, count).astype(np.float64) - self.mean


@dataclass(frozen=True)
class TruncatedNoise:
    """Two-sided geometric noise on 0, …, 2T, minus its mean T."""

    noise: TruncatedGeometric

    @cached_property
    def variance(self) -> float:
        return float(self.noise.variance)

    def log_transform(self, frequencies: NDArray[np.float64]) -> NDArray[np.complex128]:
        # For P(k) ∝ a^|k| with |k| ≤ T, the sum of a^k·cos(ks) over k = 1, …, T has a closed form.
        # The characteristic function may be negative or 0.
        ratio, half = math.exp(-float(self.noise.rate)), self.noise.most // 2

        def total(angle: NDArray[np.float64]) -> NDArray[np.float64]:
            near = ratio * np.cos(angle)
            last = np.cos(half * angle) * ratio - np.cos((half + 1) * angle)
            one_side = (near - ratio**2 + ratio ** (half + 1) * last) / (1 - 2 * near + ratio**2)
            sums: NDArray[np.float64] = 1 + 2 * one_side
            return sums

        values = total(frequencies) / total(np.zeros(1))
        logs: NDArray[np.complex128] = np.log(np.where(values == 0, 1e-300, values) + 0j)
        return logs

    def draw(self, generator: np.random.Generator, count: int) -> NDArray[np.float64]:
        law = self.noise.centered
        return generator.choice(law.values.astype(np.float64), count, p=law.mass / law.mass.sum())


@dataclass(frozen=True)
class TreeNoise:
    """A fitted tree, and for every level the law of the noise of its nodes."""

    fit: TreeFit
    noises: tuple[NodeNoise, ...]

    @classmethod
    def alike(cls, tree: Tree, noise: NodeNoise) -> "TreeNoise":
        """A tree with the same law of noise on all levels."""
        fit = TreeFit(tree, (noise.variance,) * tree.levels)
        return cls(fit, (noise,) * tree.levels)

    @cached_property
    def deviations_below(self) -> NDArray[np.float64]:
        """The standard error of the number of people below each inner edge."""
        edges = np.arange(1, self.fit.tree.cells)
        return np.sqrt(self.fit.variances_below(edges))

    def margins_below(
        self, edges: NDArray[np.integer], confidence: float, added: Added | None = None
    ) -> EdgeMargins:
        """(a, b) for each edge, such that −a ≤ error ≤ b with probability at least `confidence`.

        The error is that of the number of people below the edge.
        """
        below, above = np.empty(len(edges)), np.empty(len(edges))
        for start in range(0, len(edges), _BATCH):
            piece = slice(start, start + _BATCH)
            terms = self.fit.coefficients_below(edges[piece])
            below[piece], above[piece] = self._margins(terms, confidence, added)
        return below, above

    def margins(self, weights: NDArray[np.float64], confidence: float) -> tuple[float, float]:
        """(a, b) such that −a ≤ error ≤ b with probability at least `confidence`.

        The error is that of the linear query with these weights of the cells.
        """
        terms = []
        for level in self.fit.tree.split(self.fit.coefficients(weights)):
            # Many nodes have the same coefficient, up to rounding errors.
            unique, nodes = np.unique(np.round(level, 12), return_counts=True)
            terms.append((unique[None], nodes[None].astype(np.float64)))
        below, above = self._margins(terms, confidence, None)
        return float(below[0]), float(above[0])

    @cached_property
    def symmetric(self) -> bool:
        """Whether the noise of all nodes has a symmetric law."""
        return all(np.isrealobj(noise.log_transform(np.ones(1))) for noise in self.noises)

    def _margins(self, terms: Terms, confidence: float, added: Added | None) -> EdgeMargins:
        return _Laws.of(self.noises, terms, added).margins((1 - confidence) / 2)


@dataclass(frozen=True)
class _Laws:
    """The characteristic functions of several errors, at multiples of π/(20 scales)."""

    scales: NDArray[np.float64]
    values: NDArray[Any]  # a row for each error
    rough: NDArray[np.bool_]  # which errors may have atoms

    @classmethod
    def of(cls, noises: tuple[NodeNoise, ...], terms: Terms, added: Added | None) -> "_Laws":
        variances, largest = np.zeros(len(terms[0][0])), np.full(len(terms[0][0]), 1e-300)
        if added is not None:
            # At a small frequency s, the logarithm has the real part −variance·s²/2.
            variances += -2 * added(np.array([1e-4])).real / 1e-8
            largest[:] = 1.0
        for noise, (coefficients, nodes) in zip(noises, terms, strict=True):
            variances += noise.variance * np.sum(nodes * coefficients**2, axis=1)
            used = np.where(nodes > 0, np.abs(coefficients), 0.0)
            largest = np.maximum(largest, used.max(axis=1))
        scales = np.maximum(np.sqrt(variances), largest)
        steps = _frequencies()
        kept = np.arange(len(steps))  # the frequencies at which some product is not yet negligible
        total: NDArray[Any] = np.zeros((len(scales), len(steps)))
        if added is not None:
            total = added(steps / scales[:, None])
        for noise, (coefficients, nodes) in zip(noises, terms, strict=True):
            here = total.real.max(axis=0) > _NEGLIGIBLE
            kept, total = kept[here], total[:, here]
            frequencies = steps[kept] / scales[:, None]
            for coefficient, count in zip(coefficients.T, nodes.T, strict=True):
                if count.any():
                    found = noise.log_transform(coefficient[:, None] * frequencies)
                    total = total + count[:, None] * found
        values = np.zeros((len(scales), len(steps)), dtype=total.dtype)
        high = total.real[:, kept >= len(steps) // 2]
        rough = (high.max(axis=1, initial=-np.inf) > math.log(_ROUGH)) | (len(noises) == 1)
        values[:, kept] = np.exp(total - rough[:, None] * (_SMOOTHING * steps[kept]) ** 2 / 2)
        return cls(scales, values, rough)

    def margins(self, beyond: float) -> EdgeMargins:
        """(a, b) for each error, such that P(error < −a) and P(error > b) are at most `beyond`."""
        steps = _frequencies()
        step = steps[0]
        # P(error ≤ x) = 1/2 + x·step/2π − (step/π)·Σ_k Im(e^{−i·s_k·x}·φ(s_k))/s_k, by an FFT.
        spectrum = np.zeros((len(self.values), _POINTS // 2 + 1), dtype=np.complex128)
        spectrum[:, 1 : len(steps) + 1] = 1j * self.values / steps
        places = (np.arange(_POINTS) - _POINTS // 2) * (2 * math.pi / step / _POINTS)
        sums = np.fft.fftshift(np.fft.hfft(spectrum, _POINTS, axis=1), axes=1)
        shares = 0.5 + places * step / (2 * math.pi) + sums * step / (2 * math.pi)
        rare = _RARE * beyond
        wrong = beyond - np.where(self.rough, rare, 0.0)
        raised = np.where(self.rough, -NormalDist().inv_cdf(rare) * _SMOOTHING, 0.0)
        below = raised - _crossings(places, shares, wrong)
        above = raised + _crossings(places, shares, 1 - wrong)
        return below * self.scales, above * self.scales


def _crossings(
    places: NDArray[np.float64], shares: NDArray[np.float64], wanted: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The place where each row of shares first reaches the wanted share, by interpolation."""
    after = np.argmax(shares >= wanted[:, None], axis=1)
    every = np.arange(len(shares))
    low, high = shares[every, after - 1], shares[every, after]
    part = (wanted - low) / np.maximum(high - low, 1e-300)
    found: NDArray[np.float64] = places[after - 1] + part * (places[after] - places[after - 1])
    return found


@lru_cache(maxsize=1)
def _frequencies() -> NDArray[np.float64]:
    """The frequencies at which laws are computed, in units of 1/scale.

    They are multiples of π/_REACH, since errors beyond _REACH scales are negligible.
    """
    number = math.ceil(_HIGHEST / _SMOOTHING / (math.pi / _REACH))
    return np.arange(1, number + 1, dtype=np.float64) * (math.pi / _REACH)


@dataclass(frozen=True)
class TreeError:
    """The errors of the shares of people below each edge between cells, for `users` people.

    If the tree has more cells than the task, only its first cells are used.
    """

    noise: TreeNoise
    users: int
    cells: int

    @property
    def standard_error(self) -> NDArray[np.float64]:
        return self._shares(self.noise.deviations_below)

    def margins(self, confidence: float) -> EdgeMargins:
        below, above = _edge_margins(self.noise, confidence)
        return self._shares(below), self._shares(above)

    def population_margins(self, share: float, confidence: float) -> EdgeMargins:
        below, above = _edge_margins(self.noise, confidence, (self.users, share))
        return self._shares(below), self._shares(above)

    def band_margins(self, confidence: float) -> EdgeMargins:
        width = self._shares(_band(self.noise, confidence) * self.noise.deviations_below)
        return width, width

    def query_margins(self, weights: NDArray[np.float64], confidence: float) -> tuple[float, float]:
        below, above = self.noise.margins(self.noise.fit.tree.extended(weights), confidence)
        return below / self.users, above / self.users

    def _shares(self, people: NDArray[np.float64]) -> NDArray[np.float64]:
        return people[: self.cells - 1] / self.users


@lru_cache(maxsize=32)
def _edge_margins(
    noise: TreeNoise, confidence: float, sampled: tuple[int, float] | None = None
) -> EdgeMargins:
    """The margins of the number of people below each edge.

    With `sampled` = (n, q), the sampling error is added, which is Bin(n, q) minus its mean. In
    large trees, margins are computed for some edges only. The largest of their quotients
    (margin)/(standard error) is then used for all edges.
    """
    cells = noise.fit.tree.cells
    edges = np.arange(1, cells)
    added, spread = (None, 0.0) if sampled is None else _binomial(*sampled)
    if cells > _MOST_EXACT:
        some = edges[:: cells // _SOME_EDGES]
        variances = np.asarray(noise.deviations_below**2 + spread)
        scale = np.sqrt(variances[some - 1])
        below, above = noise.margins_below(some, confidence, added)
        wide = np.sqrt(variances)
        return np.max(below / scale) * wide, np.max(above / scale) * wide
    if added is not None and not noise.symmetric:
        return noise.margins_below(edges, confidence, added)
    # The tree is symmetric, and the number of people above an edge has the opposite error. So the
    # margins of the first half of the edges give those of the second half.
    below, above = noise.margins_below(edges[: cells // 2], confidence, added)
    others = (above, below) if added is None else (below, above)
    last = slice(0, (cells - 1) // 2)
    return (
        np.concatenate([below, others[0][last][::-1]]),
        np.concatenate([above, others[1][last][::-1]]),
    )


def _binomial(users: int, share: float) -> tuple[Added, float]:
    """The law of Bin(users, share) minus its mean: the logarithm of its characteristic function,
    and its variance.
    """

    def added(frequencies: NDArray[np.float64]) -> NDArray[np.complex128]:
        # The logarithm of 1 − q + q·e^{is} is computed from its absolute value and its angle.
        size = np.log1p(-4 * share * (1 - share) * np.sin(frequencies / 2) ** 2) / 2
        angle = np.arctan2(share * np.sin(frequencies), 1 - share + share * np.cos(frequencies))
        return users * (size + 1j * (angle - share * frequencies))

    return added, users * share * (1 - share)


@lru_cache(maxsize=32)
def _band(noise: TreeNoise, confidence: float) -> float:
    """κ such that the errors of all edges are within κ standard errors with this confidence.

    κ is computed from simulated trees (see `ranked`). For each tree, the largest error of an edge
    is recorded, in standard errors.
    """
    tree = noise.fit.tree
    number = min(max(_MOST_SIMULATED // tree.nodes, math.ceil(2 / (1 - confidence))), _MOST_BANDS)
    generator = np.random.default_rng(0)
    largest = np.empty(number)
    for run in range(number):
        drawn = np.concatenate(
            [law.draw(generator, size) for law, size in zip(noise.noises, tree.sizes, strict=True)]
        )
        below = np.cumsum(noise.fit.cells(drawn, 0.0))[:-1]
        largest[run] = np.max(np.abs(below) / noise.deviations_below)
    return ranked(largest, confidence)


def ranked(errors: NDArray[np.float64], confidence: float) -> float:
    """A number that a new error with the same law exceeds with probability at most 1 − confidence.

    All errors are exchangeable, so the number can be one of `errors`, chosen by its rank. It is
    infinite if there are too few errors for this confidence.
    """
    rank = math.ceil(confidence * (len(errors) + 1))
    return float(np.sort(errors)[rank - 1]) if rank <= len(errors) else math.inf
