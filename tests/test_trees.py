"""Trees of counts: the fit and its errors, by dense linear algebra and by known figures."""

import math

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

import headcount as hc
from headcount.protocols.tree import Tree, TreeFit


def deviation(rate: float) -> float:
    """The standard deviation of two-sided geometric noise."""
    return 1 / (math.sqrt(2) * math.sinh(rate / 2))


def incidence(fanouts: tuple[int, ...]) -> NDArray[np.float64]:
    """The matrix that adds up the cells below each node, level by level."""
    cells = math.prod(fanouts)
    rows = []
    size = 1
    for fanout in fanouts:
        size *= fanout
        rows.append(np.kron(np.eye(size), np.ones(cells // size)))
    return np.vstack(rows)


def dense_fit(
    fanouts: tuple[int, ...], variances: tuple[float, ...]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The least-squares solution with a known total as (matrix for the noise, covariance)."""
    nodes = incidence(fanouts)
    sizes = [math.prod(fanouts[: level + 1]) for level in range(len(fanouts))]
    weights = np.diag(np.repeat([1 / v for v in variances], sizes))
    cells = nodes.shape[1]
    ones = np.ones((cells, 1))
    normal = np.block([[nodes.T @ weights @ nodes, ones], [ones.T, np.zeros((1, 1))]])
    solve = np.linalg.inv(normal)[:cells, :cells] @ nodes.T @ weights
    return solve, solve @ np.linalg.inv(weights) @ solve.T


SHAPES = [
    ((3, 2), (1.0, 4.0)),
    ((2, 3, 2), (5.0, 1.0, 2.5)),
    ((6,), (2.0,)),
    ((2,) * 4, (1.0,) * 4),
]


@pytest.mark.parametrize(("fanouts", "variances"), SHAPES)
def test_the_fit_is_the_least_squares_solution(
    fanouts: tuple[int, ...], variances: tuple[float, ...]
) -> None:
    fit = TreeFit(Tree(fanouts), variances)
    generator = np.random.default_rng(3)
    people = generator.integers(0, 20, fit.tree.cells)
    noise = generator.normal(size=(4, fit.tree.nodes))
    fitted = fit.cells(fit.tree.node_counts(people) + noise, float(people.sum()))
    solve, covariance = dense_fit(fanouts, variances)
    assert fitted == pytest.approx(people + noise @ solve.T)
    for _ in range(5):
        weights = generator.normal(size=fit.tree.cells)
        assert fit.variance(weights) == pytest.approx(weights @ covariance @ weights)
        assert fit.coefficients(weights) == pytest.approx(solve.T @ weights)
    below = np.tri(fit.tree.cells + 1, fit.tree.cells, -1)
    expected = np.einsum("ij,jk,ik->i", below, covariance, below)
    assert fit.variances_below(np.arange(fit.tree.cells + 1)) == pytest.approx(expected)


def test_paths_are_the_nodes_of_the_incidence_matrix() -> None:
    fanouts = (3, 2, 4)
    tree, nodes = Tree(fanouts), incidence(fanouts)
    for cell, path in enumerate(tree.paths(np.arange(tree.cells))):
        assert path.tolist() == np.flatnonzero(nodes[:, cell]).tolist()
    counts = np.arange(tree.cells)
    assert tree.node_counts(counts).tolist() == (nodes @ counts).tolist()


# For 1,024 cells and ε = 1, the error of the number below an edge: the root mean square over all
# inner edges, the largest, that of edge 512, and the error of the number in cells 100 to 611.
CENTRAL = {
    (16, 8, 8): (18.0745, 22.1149, 15.8717, 26.9766),
    (32, 32): (18.1503, 22.2186, 15.7148, 21.5183),
    (4,) * 5: (20.8074, 25.2394, 12.2483, 27.8123),
    (2,) * 10: (29.2449, 34.9449, 14.1476, 36.8538),
    (1024,): (36.5862, 44.7868, 44.7868, 44.7868),
}


@pytest.mark.parametrize("fanouts", CENTRAL)
def test_errors_of_central_trees(fanouts: tuple[int, ...]) -> None:
    rate = 1 / (2 * len(fanouts))
    fit = TreeFit(Tree(fanouts), (deviation(rate) ** 2,) * len(fanouts))
    below = np.sqrt(fit.variances_below(np.arange(1, 1024)))
    cells = np.zeros(1024)
    cells[100:612] = 1
    found = (
        math.sqrt(np.mean(below**2)),
        below.max(),
        below[511],
        math.sqrt(fit.variance(cells)),
    )
    assert found == pytest.approx(CENTRAL[fanouts], rel=1e-5)


@pytest.mark.parametrize(
    ("fanouts", "mean", "expected"),
    [
        ((4,) * 5, 180.263, (19.7623, 23.9717, 11.6331)),
        ((16, 8, 8), 109.742, (22.3402, 27.3343, 19.6175)),
        ((1024,), 42.6545, (85.3628, 104.497, 104.497)),
    ],
)
def test_errors_of_trees_with_poisson_noise(
    fanouts: tuple[int, ...], mean: float, expected: tuple[float, ...]
) -> None:
    fit = TreeFit(Tree(fanouts), (mean,) * len(fanouts))
    below = np.sqrt(fit.variances_below(np.arange(1, 1024)))
    found = (math.sqrt(np.mean(below**2)), below.max(), below[511])
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("epsilon", [0.5, 30.0, 80.0, 300.0])
@pytest.mark.parametrize("fanouts", ["4", "2,2"])
def test_the_curve_of_a_central_tree_at_every_rate(epsilon: float, fanouts: str) -> None:
    """Losses of 2h counts with noise of rate ε/(2h), to 60 digits. δ is never below the truth."""
    task, budget = hc.Distribution(0, 4, cells=4), hc.Budget(epsilon)
    protocol = hc.protocol("central.tree", task, budget, hc.Crowd(5), fanouts=fanouts)
    changed = 2 * len(fanouts.split(","))
    with mpmath.workdps(60):
        rate = mpmath.mpf(epsilon) / changed
        p, q = 1 / (1 + mpmath.exp(-rate)), 1 / (1 + mpmath.exp(rate))
        for at in (0.0, 0.3 * epsilon, 0.9 * epsilon, 0.999 * epsilon, epsilon):
            truth = sum(
                mpmath.binomial(changed, j) * p ** (changed - j) * q**j
                * max(0, 1 - mpmath.exp(at - (changed - 2 * j) * rate))
                for j in range(changed + 1)
            )  # fmt: skip
            stated = protocol.curve.delta(at)
            assert truth <= stated <= truth * (1 + mpmath.mpf(10) ** -9) + mpmath.mpf(10) ** -9
