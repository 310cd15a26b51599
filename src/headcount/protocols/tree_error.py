"""The exact law of what noise does to the answers that are read from a tree.

The error of a linear query is Σ_v b_v·Z_v over the nodes v, with known coefficients b_v and the
noise Z_v of each node. All nodes of a level have the same law of noise. The characteristic function
of the error is a product, and its inverse gives the law's quantiles (Gil-Pelaez 1951).

The error is a sum of lattice variables with different steps, so its characteristic function does
not vanish at high frequencies. Therefore a small normal number is added to the error. Its standard
deviation is 1/64 of the error's. The inversion then converges, and the quantiles of 95 % intervals
become larger by about 0.01 %. If an error has few possible values, as in small trees, they are
listed instead. Then a single value may have a large probability, which smoothing would hide.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.geometric import noise_law
from headcount.accounting.laws import poisson
from headcount.accounting.truncated_geometric import TruncatedGeometric
from headcount.core.cached import cached_property
from headcount.core.distribution import Margins
from headcount.protocols.tree import Tree, TreeFit

_SMOOTHING = 1 / 64  # the added normal's standard deviation, divided by the error's
_REACH = 20.0  # the law beyond this many standard deviations is negligible
_HIGHEST = 6.0  # the normal's characteristic function is negligible beyond 6/(its deviation)
_LEAST_LOG = -45.0  # characteristic functions below e to this power are negligible
_LEAST_GRID = 512
_STEPS = 4  # of Newton's method, from a point that is already close
_BATCH = 64  # the number of queries whose laws are inverted at once
_MOST_VALUES = 1 << 16  # an error with at most this many values is listed
_SAME = 9  # errors are the same if they agree in this number of decimals
_MOST_EXACT = 4096  # with at most this many cells, the law of every edge is inverted
_SOME_EDGES = 256  # in larger trees, about this many laws are inverted
_MOST_SIMULATED = 4_000_000  # the number of nodes that are simulated for a band
_MOST_BANDS = 4000


class NodeNoise(Protocol):
    """The law of one node's noise: its mean is 0."""

    @property
    def variance(self) -> float: ...

    def log_transform(self, frequencies: NDArray[np.float64]) -> NDArray[np.complex128]:
        """The logarithm of the characteristic function."""

    @property
    def listed(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """All values and their probabilities, without a negligible tail."""

    def draw(self, generator: np.random.Generator, count: int) -> NDArray[np.float64]:
        """Pseudorandom noise, for simulations of the error. Never for a release."""


@dataclass(frozen=True)
class GeometricNoise:
    """Two-sided geometric noise: P(z) ∝ e^{−rate·|z|}."""

    rate: float

    @property
    def variance(self) -> float:
        return 1 / (2 * math.sinh(self.rate / 2) ** 2)

    def log_transform(self, frequencies: NDArray[np.float64]) -> NDArray[np.complex128]:
        # (1−a)²/(1 − 2a·cos s + a²), divided by (1−a)².
        ratio = math.sinh(self.rate / 2) ** -2
        return -np.log1p(ratio * np.sin(frequencies / 2) ** 2).astype(np.complex128)

    @cached_property
    def listed(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        law = noise_law(self.rate)
        return law.values.astype(np.float64), law.mass

    def draw(self, generator: np.random.Generator, count: int) -> NDArray[np.float64]:
        p = -math.expm1(-self.rate)
        drawn = generator.geometric(p, count) - generator.geometric(p, count)
        return drawn.astype(np.float64)


@dataclass(frozen=True)
class PoissonNoise:
    """Poisson noise minus its mean."""

    mean: float

    @property
    def variance(self) -> float:
        return self.mean

    def log_transform(self, frequencies: NDArray[np.float64]) -> NDArray[np.complex128]:
        # e^{is} − 1 − is
        logs = np.empty(frequencies.shape, dtype=np.complex128)
        logs.real = -2 * self.mean * np.sin(frequencies / 2) ** 2
        logs.imag = self.mean * (np.sin(frequencies) - frequencies)
        return logs

    @cached_property
    def listed(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        law = poisson(Fraction(self.mean))
        return law.values.astype(np.float64) - self.mean, law.mass

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
        # The sum over |k| ≤ T of z^|k| is 1 + 2·Re(z(1 − z^T)/(1 − z)), with z = a·e^{is}.
        rate, half = float(self.noise.rate), self.noise.most // 2

        def total(angle: NDArray[np.float64]) -> NDArray[np.complex128]:
            z = np.exp(1j * angle - rate)
            sums: NDArray[np.complex128] = 1 + 2 * (z * (1 - z**half) / (1 - z)).real + 0j
            return sums

        with np.errstate(divide="ignore"):
            logs: NDArray[np.complex128] = np.log(total(frequencies) / total(np.zeros(1)))
        return logs

    @cached_property
    def listed(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        law = self.noise.centered
        return law.values.astype(np.float64), law.mass

    def draw(self, generator: np.random.Generator, count: int) -> NDArray[np.float64]:
        values, masses = self.listed
        return generator.choice(values, count, p=masses / masses.sum())


@dataclass(frozen=True)
class TreeNoise:
    """A fitted tree, with the law of its nodes' noise on every level."""

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

    def margins(
        self,
        queries: NDArray[np.float64],
        confidence: float,
        added: Callable[[NDArray[np.float64]], NDArray[np.complex128]] | None = None,
        added_variance: float = 0.0,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(a, b) for each query, such that −a ≤ error ≤ b holds with at least this probability.

        A query is a row of weights, one for each cell. `added` is the logarithm of the
        characteristic function of an independent error that is added to all.
        """
        half = (1 - confidence) / 2
        if added is None and (errors := self._listed_errors(queries)) is not None:
            ends = np.array([_central(*law, half) for law in errors])
            return ends[:, 0], ends[:, 1]
        below, above = np.empty(len(queries)), np.empty(len(queries))
        for start in range(0, len(queries), _BATCH):
            piece = slice(start, start + _BATCH)
            transforms = _Transforms.of(self, queries[piece], added, added_variance)
            below[piece] = -transforms.quantiles(half)
            above[piece] = transforms.quantiles(1 - half)
        return below, above

    def _listed_errors(
        self, queries: NDArray[np.float64]
    ) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]] | None:
        """All errors of each query and their probabilities. None if a query has too many."""
        out = []
        for weights in queries:
            groups = self.grouped(weights)
            if math.prod(nodes * len(law.listed[0]) for law, _, nodes in groups) > _MOST_VALUES:
                return None
            values: NDArray[np.float64] = np.zeros(1)
            masses: NDArray[np.float64] = np.ones(1)
            for law, coefficient, nodes in groups:
                for _ in range(nodes):
                    more, chances = law.listed
                    sums = np.round(np.add.outer(values, coefficient * more).ravel(), _SAME)
                    values, which = np.unique(sums, return_inverse=True)
                    both = np.multiply.outer(masses, chances).ravel()
                    masses = np.bincount(which, weights=both).astype(np.float64)
            out.append((values, masses))
        return out

    def grouped(self, weights: NDArray[np.float64]) -> list[tuple[NodeNoise, float, int]]:
        """The laws of noise in a query, each with its coefficient and its number of nodes."""
        out = []
        coefficients = self.fit.tree.split(self.fit.coefficients(weights))
        for law, level in zip(self.noises, coefficients, strict=True):
            # Many nodes have the same coefficient, up to rounding errors.
            unique, nodes = np.unique(np.round(level, 12), return_counts=True)
            out += [
                (law, float(one), int(number))
                for one, number in zip(unique, nodes, strict=True)
                if one
            ]
        return out


def _central(
    values: NDArray[np.float64], masses: NDArray[np.float64], half: float
) -> tuple[float, float]:
    """(a, b) such that values are below −a or above b with at most this probability each."""
    rounding = 2 * 10.0**-_SAME
    ends = []
    for outwards, chances in ((-values, masses), (values[::-1], masses[::-1])):
        # The first value, from outside, at which the probability exceeds what may be left out.
        first = int(np.searchsorted(np.cumsum(chances), half * (1 - 1e-9), side="right"))
        ends.append(float(outwards[min(first, len(values) - 1)]) + rounding)
    return ends[0], ends[1]


@dataclass(frozen=True)
class _Transforms:
    """The characteristic functions of several errors, at frequencies in steps of 1/their scale."""

    scales: NDArray[np.float64]  # the standard deviation of each error
    steps: NDArray[np.float64]  # the distance between two frequencies, in 1/(standard deviation)
    values: NDArray[np.complex128]  # a row for each error

    @classmethod
    def of(
        cls,
        noise: TreeNoise,
        queries: NDArray[np.float64],
        added: Callable[[NDArray[np.float64]], NDArray[np.complex128]] | None,
        added_variance: float,
    ) -> "_Transforms":
        # Frequencies are multiples of π/_REACH, since the law lies within ±_REACH deviations.
        number = math.ceil(_HIGHEST / _SMOOTHING / (math.pi / _REACH))
        steps: NDArray[np.float64] = np.arange(1, number + 1, dtype=np.float64) * math.pi / _REACH
        scales, rows = [], []
        for weights in queries:
            variance = noise.fit.variance(weights) + added_variance
            scale = math.sqrt(variance)
            frequencies = steps / scale
            total = -(((_SMOOTHING * steps) ** 2) / 2).astype(np.complex128)
            if added is not None:
                total += added(frequencies)
            # Every factor is at most 1, and the first ones decide most frequencies.
            groups = sorted(noise.grouped(weights), key=lambda one: -abs(one[1]) * one[2])
            left = np.arange(number)
            for law, coefficient, nodes in groups:
                total[left] += nodes * law.log_transform(coefficient * frequencies[left])
                left = left[total.real[left] > _LEAST_LOG]
            scales.append(scale)
            rows.append(np.exp(total))
        values = np.array(rows)
        last = int(np.flatnonzero((np.abs(values) > math.exp(_LEAST_LOG)).any(axis=0))[-1]) + 1
        return cls(np.array(scales), steps[:last], values[:, :last])

    def quantiles(self, probability: float) -> NDArray[np.float64]:
        """The quantile of each error."""
        step = self.steps[0]
        # The density of each standardized error on a grid, to start close.
        size = 4 * max(len(self.steps), _LEAST_GRID)
        grid = (np.arange(size) - size // 2) * (2 * math.pi / step / size)
        spectrum = np.zeros((len(self.values), size), dtype=np.complex128)
        spectrum[:, 0] = 0.5
        spectrum[:, 1 : len(self.steps) + 1] = self.values
        density = np.fft.fftshift(np.fft.fft(spectrum, axis=1).real, axes=1) * step / math.pi
        cumulated = np.cumsum(density, axis=1) * (grid[1] - grid[0])
        places = grid[np.argmax(cumulated >= probability, axis=1)]
        for _ in range(_STEPS):
            turned = np.exp(-1j * places[:, None] * self.steps) * self.values
            share = 0.5 + places * step / (2 * math.pi)
            share -= (turned.imag / self.steps).sum(axis=1) * step / math.pi
            slope = (0.5 + turned.real.sum(axis=1)) * step / math.pi
            places = places - (share - probability) / np.maximum(slope, 1e-12)
        quantiles: NDArray[np.float64] = places * self.scales
        return quantiles


@dataclass(frozen=True)
class TreeError:
    """The error of the shares below all edges between cells, for `users` people.

    Only the first cells of the tree are used, if it has more than the task.
    """

    noise: TreeNoise
    users: int
    cells: int

    @property
    def standard_error(self) -> NDArray[np.float64]:
        return self._shares(self.noise.deviations_below)

    def margins(self, confidence: float) -> Margins:
        below, above = _edge_margins(self.noise, confidence)
        return self._shares(below), self._shares(above)

    def population_margins(self, share: float, confidence: float) -> Margins:
        below, above = _edge_margins(self.noise, confidence, (self.users, share))
        return self._shares(below), self._shares(above)

    def band_margins(self, confidence: float) -> Margins:
        width = self._shares(_band(self.noise, confidence) * self.noise.deviations_below)
        return width, width

    def range_margins(self, first: int, last: int, confidence: float) -> tuple[float, float]:
        cells = np.arange(self.noise.fit.tree.cells)
        query = ((first <= cells) & (cells < last)).astype(np.float64)
        below, above = self.noise.margins(query[None], confidence)
        return float(below[0]) / self.users, float(above[0]) / self.users

    def _shares(self, people: NDArray[np.float64]) -> NDArray[np.float64]:
        return people[: self.cells - 1] / self.users


@lru_cache(maxsize=32)
def _edge_margins(
    noise: TreeNoise, confidence: float, sampled: tuple[int, float] | None = None
) -> Margins:
    """The margins of the number of people below each edge.

    With `sampled` = (n, q), a binomial number of n people with probability q is added, minus its
    mean. In large trees the laws of some edges are inverted. The largest of their quotients
    (margin)/(standard error) is used for all edges.
    """
    cells = noise.fit.tree.cells
    edges = np.arange(1, cells)
    some = edges if cells <= _MOST_EXACT else edges[:: cells // _SOME_EDGES]
    queries = (np.arange(cells) < some[:, None]).astype(np.float64)
    if sampled is None:
        below, above = noise.margins(queries, confidence)
        spread = 0.0
    else:
        users, share = sampled
        spread = users * share * (1 - share)

        def added(frequencies: NDArray[np.float64]) -> NDArray[np.complex128]:
            turned = 1j * frequencies
            logs: NDArray[np.complex128] = np.log1p(share * np.expm1(turned)) - share * turned
            return users * logs

        below, above = noise.margins(queries, confidence, added, spread)
    if len(some) == len(edges):
        return below, above
    variances = np.asarray(noise.deviations_below**2 + spread)
    scale = np.sqrt(variances[some - 1])
    return np.max(below / scale) * np.sqrt(variances), np.max(above / scale) * np.sqrt(variances)


@lru_cache(maxsize=32)
def _band(noise: TreeNoise, confidence: float) -> float:
    """κ such that all errors are within κ standard errors with at least this probability.

    Errors are simulated. The true error and the simulated ones are exchangeable, so the rank of the
    bound makes the probability at least `confidence`, whatever their number.
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
    rank = min(math.ceil(confidence * (number + 1)), number)
    return float(np.sort(largest)[rank - 1])
