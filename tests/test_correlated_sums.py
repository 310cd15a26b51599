"""Correlated sums, compared with the joint law of the whole view, by enumeration and without
Fourier.
"""

import math
from collections.abc import Hashable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from headcount.accounting.correlated_sums import (
    CorrelatedSumNoise,
    atoms,
    calibrate,
    paper,
)
from headcount.accounting.losses import LossGrid, LossLaw, Products, grid_for

Array = NDArray[np.float64]
Flood = tuple[tuple[float, float], ...]

# Expected messages of all noise at ε = 1, δ = 1e-6, ε* = 0.8.
TOTALS = {1: 320, 2: 1156, 4: 5214, 8: 16_500, 16: 49_900, 32: 134_000}
PAPER_TOTALS = {2: 109e3, 4: 552e3, 8: 2.25e6, 16: 7.63e6}


class Enumeration:
    """All views of a crowd in which everybody holds 0, each as one number, and their masses.

    The digits of the number, in a large base, say how often each i is seen.
    """

    def __init__(self, levels: int, rate: float, floods: tuple[Flood, ...], rare: float) -> None:
        values = [i for i in range(-levels, levels + 1) if i]
        self.unit = {0: 0} | {i: 1024**j for j, i in enumerate(values)}
        assert 1024 ** len(values) < 2**63
        self.views: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        self.masses, self.lost = np.ones(1), 0.0
        for sign in (1, -1):
            self._add((sign,), 1.0, rate, rare)
        for atom, flood in zip(atoms_by_hand(levels), floods, strict=True):
            for r, flood_rate in flood:
                self._add(atom, r, flood_rate, rare)

    def _add(self, messages: tuple[int, ...], r: float, rate: float, rare: float) -> None:
        q = -math.expm1(-rate)
        copies = np.arange(int(stats.nbinom.isf(rare / 100, r, q)) + 1)
        assert len(copies) < 128  # digits must not overflow
        unit = sum(self.unit[message] for message in messages)
        views = np.add.outer(self.views, copies * unit).ravel()
        masses = np.multiply.outer(self.masses, stats.nbinom.pmf(copies, r, q)).ravel()
        views, masses = views[masses > rare], masses[masses > rare]
        self.views, where = np.unique(views, return_inverse=True)
        self.masses = np.bincount(where, weights=masses).astype(np.float64)
        self.lost = 1 - float(self.masses.sum())

    def delta(self, held: int, other: int, epsilon: float) -> float:
        """HS of the view of a person who holds `held` against `other`, for the listed views."""
        sought = self.views + (self.unit[held] - self.unit[other])
        where = np.minimum(np.searchsorted(self.views, sought), len(self.views) - 1)
        found = np.where(self.views[where] == sought, self.masses[where], 0.0)
        return float(np.maximum(self.masses - math.exp(epsilon) * found, 0.0).sum())

    def largest(self, levels: int, epsilon: float) -> float:
        values = range(levels + 1)
        return max(self.delta(x, y, epsilon) for x in values for y in values if x != y)


def atoms_by_hand(levels: int) -> list[tuple[int, ...]]:
    """The atoms in the order in which floods are given."""
    listed: dict[int, list[tuple[int, ...]]] = {
        1: [(1, -1)],
        2: [(1, -1), (2, -1, -1)],
        3: [(1, -1), (2, -1, -1), (3, -2, -1), (-2, 1, 1)],
    }
    return listed[levels]


CASES: list[tuple[int, float, tuple[Flood, ...], float]] = [
    (1, 0.7, (((6.0, 0.5),),), 1e-12),
    (1, 0.4, (((0.6, 1.5),),), 1e-12),
    (1, 0.7, (((3.0, 0.6), (2.5, 0.9)),), 1e-12),
    (2, 0.5, (((5.0, 0.6),), ((7.0, 0.9),)), 1e-11),
    (2, 0.8, (((0.7, 1.1),), ((6.0, 0.7),)), 1e-11),
    (2, 0.5, (((9.0, 0.7),), ((2.0, 1.0),)), 1e-11),
    (2, 0.5, (((12.0, 0.5),), ((14.0, 0.7),)), 1e-13),
    (3, 0.6, (((4.0, 1.0),), ((3.0, 1.2),), ((4.0, 1.4),), ((6.0, 1.2),)), 1e-10),
    (3, 0.9, (((3.0, 1.2),), ((5.0, 1.3),), ((6.0, 1.7),), ((2.0, 1.5),)), 1e-10),
    (3, 0.8, (((7.0, 1.5),), ((8.0, 1.4),), ((9.0, 1.6),), ((10.0, 1.6),)), 1e-10),
]


@pytest.mark.parametrize(("levels", "rate", "floods", "rare"), CASES)
def test_delta_is_that_of_the_joint_law(
    levels: int, rate: float, floods: tuple[Flood, ...], rare: float
) -> None:
    judge = Enumeration(levels, rate, floods, rare)
    noise = CorrelatedSumNoise(levels, rate, floods)
    assert judge.lost < 2e-5
    epsilons = (-0.5, 0.0, 0.3, 1.0, 2.0, 3.0, 4.5)
    chords = noise.curve.deltas(np.array(epsilons))
    for epsilon, chord in zip(epsilons, chords, strict=True):
        found = {
            (x, y): judge.delta(x, y, epsilon)
            for x in range(levels + 1)
            for y in range(levels + 1)
            if x != y
        }
        # The mass that was left out may be missing on either side.
        truth, missing = max(found.values()), math.exp(epsilon) * judge.lost
        assert truth - missing <= noise.delta(epsilon) <= 1.001 * truth + judge.lost
        assert truth - missing <= chord <= 1.04 * truth + judge.lost
        if epsilon in {0.3, 2.0}:
            for (x, y), one in found.items():
                stated = noise.pair_delta(x, y, epsilon)
                assert one - missing <= stated <= 1.001 * one + judge.lost


def two_counts(rate: float, r: float, flood_rate: float, most: int) -> Array:
    """The law of (number of +1, number of −1) for Δ = 1, by adding up products."""
    singles = stats.nbinom.pmf(np.arange(most), 1, -math.expm1(-rate))
    flood = stats.nbinom.pmf(np.arange(most), r, -math.expm1(-flood_rate))
    law, square = np.zeros((most, most)), np.multiply.outer(singles, singles)
    for copies in range(most):
        law[copies:, copies:] += flood[copies] * square[: most - copies, : most - copies]
    return law


def test_tiny_delta_without_fourier() -> None:
    """One direction adds a +1, and the other removes it."""
    noise = CorrelatedSumNoise(1, 0.8, (((17.0, 0.12),),))
    law = two_counts(0.8, 17.0, 0.12, 700)
    for epsilon, size in ((1.0, 1e-6), (1.6, 1e-12), (2.2, 1e-15)):
        more = np.maximum(law[:-1] - math.exp(epsilon) * law[1:], 0.0).sum()
        less = np.maximum(law[1:] - math.exp(epsilon) * law[:-1], 0.0).sum() + law[0].sum()
        truth = max(more, less)
        assert size / 30 < truth < size * 30
        assert 0.9999999 * truth < noise.delta(epsilon) < 1.001 * truth
        pairs = sorted(noise.pair_delta(x, 1 - x, epsilon) for x in (0, 1))
        assert pairs == pytest.approx(sorted([more, less]), rel=1e-3)


def grid_laws(step: float) -> dict[Hashable, LossLaw]:
    """A few asymmetric laws with losses on the grid itself, so that nothing is rounded."""
    laws: dict[Hashable, LossLaw] = {}
    for j, (mean, width) in enumerate([(10, 8), (-5, 14), (20, 11), (3, 25)]):
        points = np.arange(-120, 160)
        mass = np.exp(-(((points - mean) / width) ** 2) / 2) * (1 + 0.3 * np.cos(points + j))
        laws[j] = LossLaw(-120, step, mass / mass.sum(), 0.0)
    return laws


def product_delta(laws: dict[Hashable, LossLaw], step: float, epsilon: float) -> float:
    mass, start = np.ones(1), 0
    for law in laws.values():
        mass, start = np.convolve(mass, law.mass), start + law.start
    excess = (start + np.arange(len(mass))) * step - epsilon
    return float(mass @ -np.expm1(-np.maximum(excess, 0.0)))


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 1.7, 2.4, 2.8])
def test_products_are_convolutions(epsilon: float) -> None:
    step = 0.01
    laws = grid_laws(step)
    view = [((1.0, 0.0, name),) for name in laws]
    truth = product_delta(laws, step, epsilon)
    coarse = grid_for([view], lambda name, *_: laws[name], epsilon, scale=truth, slope=15.0)
    grid = LossGrid(step, 4096, -1500, coarse.tilt, coarse.top_tilt, coarse.negligible)
    (found,) = Products(grid, lambda name, *_: laws[name]).deltas([view], [epsilon])
    assert truth <= found <= truth * (1 + 1e-5) + 1e-22
    assert epsilon != 2.8 or truth < 1e-15


def test_any_grid_is_safe() -> None:
    """Windows that are too short, tilts that are too large, and losses that wrap around."""
    step, rng = 0.01, np.random.default_rng(5)
    laws = grid_laws(step)
    view = [((1.0, 0.0, name),) for name in laws]
    for epsilon in (0.0, 0.8, 2.0):
        truth = product_delta(laws, step, epsilon)
        for _ in range(200):
            tilt, top_tilt = np.exp(rng.uniform(-2, 9, 2))
            size, start = int(rng.integers(8, 2000)), int(epsilon / step) - int(rng.integers(500))
            grid = LossGrid(step, size, start, float(tilt), float(top_tilt), 0.0)
            (found,) = Products(grid, lambda name, *_: laws[name]).deltas([view], [epsilon])
            assert found >= truth
    noise = CorrelatedSumNoise(1, 0.8, (((17.0, 0.12),),))
    law = two_counts(0.8, 17.0, 0.12, 500)
    assert noise.curve.last > 1.4
    for epsilon in np.linspace(0, 1.4, 30):
        more = np.maximum(law[:-1] - math.exp(epsilon) * law[1:], 0.0).sum()
        less = np.maximum(law[1:] - math.exp(epsilon) * law[:-1], 0.0).sum() + law[0].sum()
        (chord,) = noise.curve.deltas(np.array([epsilon]))
        assert 0.9999999 * max(more, less) <= chord <= 1.05 * max(more, less)


def test_atoms_cancel_and_are_complete() -> None:
    assert atoms(4) == ((1, -1), (2, -1, -1), (3, -2, -1), (4, -2, -2), (-2, 1, 1))
    for levels in range(1, 65):
        listed = atoms(levels)
        assert all(sum(atom) == 0 for atom in listed)
        assert len(listed) == levels + max(0, -(-levels // 2) - 1)
        # Every element of an atom has its own atom.
        heads = {atom[0] for atom in listed} | {-1}
        assert {element for atom in listed for element in atom} <= heads


@pytest.mark.parametrize("levels", [1, 2, 4, 8, 16, pytest.param(32, marks=pytest.mark.slow)])
def test_totals(levels: int) -> None:
    noise = calibrate(levels, 1.0, 1e-6, 0.8)
    assert noise is not None
    assert 0.9 * TOTALS[levels] < noise.messages < 1.02 * TOTALS[levels]
    assert 0.99e-6 < noise.delta(1.0) <= 1e-6
    assert noise.rate == 0.8 / levels


@pytest.mark.slow
def test_sixty_four_levels() -> None:
    noise = calibrate(64, 1.0, 1e-6, 0.8)
    assert noise is not None
    assert noise.messages < 360_000
    assert noise.delta(1.0) <= 1e-6


@pytest.mark.parametrize(
    ("levels", "epsilon", "delta", "part"),
    [
        (1, 0.1, 1e-9, 0.9),
        (2, 3.0, 1e-12, 0.5),
        (3, 1.0, 1e-2, 0.9),
        (5, 8.0, 1e-4, 0.8),
        (2, 10.0, 1e-2, 0.5),
    ],
)
def test_other_budgets(levels: int, epsilon: float, delta: float, part: float) -> None:
    noise = calibrate(levels, epsilon, delta, part * epsilon)
    assert noise is not None
    assert 0.9 * delta < noise.delta(epsilon) <= delta
    assert noise.messages < paper(levels, epsilon, delta, part * epsilon).messages


@pytest.mark.parametrize("levels", [2, 4, 8, 16])
def test_paper(levels: int) -> None:
    noise = paper(levels, 1.0, 1e-6, 0.8)
    # The published total includes atoms that no message needs.
    rounds = int(math.log2(levels)) + 1
    (r, _), *_ = noise.floods[1]
    useless = sum(
        3 * r / math.expm1(0.01 / math.ceil(levels * rounds / i))
        for i in range(levels // 2 + 1, levels + 1)
        if i >= 2
    )
    assert noise.messages + useless == pytest.approx(PAPER_TOTALS[levels], rel=0.005)
    if levels <= 8:
        assert noise.delta(1.0) <= 1e-6
