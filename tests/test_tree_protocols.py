"""Trees in shuffle and local trust: noise, privacy and errors, by other methods and figures."""

import itertools
import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta, chi2, poisson

import headcount as hc
from headcount.accounting.calibration import near_least_private
from headcount.accounting.truncated_geometric import TruncatedGeometric
from headcount.protocols.tree import Tree, TreeFit
from headcount.protocols.tree_error import NodeNoise, PoissonNoise, TruncatedNoise
from test_trees import SHAPES, dense_fit, incidence

ALARM = 1e-7


def built(
    name: str, cells: int, epsilon: float, users: int, delta: float = 1e-6, **options: Any
) -> Any:
    task, budget = hc.Distribution(0, 1, cells), hc.Budget(epsilon, delta)
    return hc.protocol(name, task, budget, hc.Crowd(users), **options)


def written(fanouts: tuple[int, ...]) -> str:
    return ",".join(map(str, fanouts))


# Shuffle trust: how much noise -------------------------------------------------------------------

# The least Poisson noise per node for (ε, 1e-6), by the number of levels.
NOISE = {
    1.0: {1: 42.6545, 2: 75.1434, 3: 109.742, 5: 180.263, 10: 358.096},
    2.0: {1: 18.0867, 2: 24.4533, 3: 32.9475, 5: 51.7544, 10: 100.733},
    4.0: {1: 13.8155, 2: 14.5199, 3: 15.0342, 5: 17.2065, 10: 29.9158},
}


@pytest.mark.parametrize("epsilon", NOISE)
def test_noise_of_fake_users_is_that_of_all_levels_together(epsilon: float) -> None:
    for levels, least in NOISE[epsilon].items():
        fanouts = written((2,) * levels)
        protocol = built("shuffle.tree", 2**levels, epsilon, 10**5, fanouts=fanouts)
        # One part in a thousand of δ is kept for bundles, and the search leaves as much.
        assert least * (1 - 1e-5) < protocol.parameters["noise_per_node"] < least * (1 + 2e-4)
        assert 0.995e-6 < protocol.guarantee.delta <= 1e-6
        assert protocol.guarantee.exact


def listed_delta(mean: float, levels: int, epsilon: float) -> float:
    """The larger divergence of all counts of two nodes per level, by listing them."""
    counts = np.arange(int(poisson.isf(1e-13, mean)) + 2)
    left, held = poisson.pmf(counts, mean), poisson.pmf(counts - 1, mean)
    # On each level the person is in the first node or in the second one.
    one = two = np.ones(1)
    for _ in range(levels):
        first, second = np.multiply.outer(held, left), np.multiply.outer(left, held)
        one, two = (np.multiply.outer(a, b).ravel() for a, b in ((one, first), (two, second)))
        kept = one + two > 1e-14
        one, two = one[kept], two[kept]
    scale = math.exp(epsilon)
    return float(max(np.maximum(a - scale * b, 0).sum() for a, b in ((one, two), (two, one))))


@pytest.mark.parametrize(
    ("epsilon", "delta", "users", "honest", "levels"),
    [
        (2.0, 0.05, 5, 5, 2),
        (1.0, 0.3, 6, 4, 2),
        (3.0, 0.1, 7, 4, 2),
        pytest.param(8.0, 0.3, 4, 3, 3, marks=pytest.mark.slow),
    ],
)
def test_delta_of_fake_users_is_that_of_all_views(
    epsilon: float, delta: float, users: int, honest: int, levels: int
) -> None:
    task, budget = hc.Distribution(0, 1, 2**levels), hc.Budget(epsilon, delta)
    crowd, fanouts = hc.Crowd(users, honest), written((2,) * levels)
    protocol = hc.protocol("shuffle.tree", task, budget, crowd, fanouts=fanouts)
    mean = protocol.parameters["noise_per_node"]
    for at in (0.0, 0.7, epsilon):
        truth = listed_delta(mean, levels, at)
        assert truth * (1 - 1e-9) <= protocol.curve.delta(at) <= truth * (1 + 4e-4) + 1e-7
        below = protocol.curve.deltas(np.array([-at]))[0]
        mirrored = 1 - math.exp(-at) + math.exp(-at) * truth
        assert mirrored * (1 - 1e-9) <= below <= mirrored * (1 + 2e-2)
    assert 0.99 * delta < protocol.guarantee.delta <= delta
    # All people of whom some are dishonest add more noise than the honest ones alone.
    assert protocol.standard_error() * users == pytest.approx(
        math.sqrt(mean * users / honest * largest_variance((2,) * levels))
    )


def largest_variance(fanouts: tuple[int, ...]) -> float:
    _, covariance = dense_fit(fanouts, (1.0,) * len(fanouts))
    below = np.tri(len(covariance) - 1, len(covariance))
    return float(np.einsum("ij,jk,ik->i", below, covariance, below).max())


def test_people_send_their_path_and_poisson_noise_in_every_node() -> None:
    fanouts, people, cell = (3, 2, 2), 100_000, 7
    protocol = built("shuffle.tree", 12, 2.0, 40, 1e-3, fanouts=written(fanouts))
    share = protocol.parameters["noise_per_node"] / 40
    messages = protocol.randomize(np.full(people, cell / 12 + 0.01), hc.SeededSource(3))
    path = np.flatnonzero(incidence(fanouts)[:, cell])
    nodes, extra = len(incidence(fanouts)), messages.counts.astype(np.int64) - len(path)
    assert messages[17].payload[: len(path)].tolist() == path.tolist()
    noise = np.bincount(messages.payload, minlength=nodes)
    noise[path] -= people
    assert np.all(np.abs(noise - people * share) < 5.5 * math.sqrt(people * share))
    expected = people * poisson.pmf(np.arange(30), nodes * share)
    found = np.bincount(extra, minlength=30)[:30]
    common = expected > 10
    statistic = float(((found - expected) ** 2 / expected)[common].sum())
    assert chi2.sf(statistic, int(common.sum()) - 1) > ALARM


def test_trees_that_do_not_divide_the_cells_are_refused() -> None:
    with pytest.raises(hc.InvalidParameter, match="two nodes of the first level"):
        built("shuffle.tree", 8, 1.0, 100, fanouts="2,8")
    with pytest.raises(hc.InvalidParameter, match="whole numbers of at least 2"):
        built("local.tree", 8, 1.0, 100, fanouts="2,x")
    with pytest.raises(hc.Infeasible, match="needs delta above 0"):
        built("shuffle.tree", 8, 1.0, 100, 0.0)


# Shuffle trust: noise of the shuffler ------------------------------------------------------------


@pytest.mark.parametrize(("levels", "half"), [(1, 27), (3, 79), (5, 132), (10, 263)])
def test_the_shuffler_adds_the_least_range_of_dummies(levels: int, half: int) -> None:
    fanouts = written((2,) * levels)
    p = built("shuffle.tree", 2**levels, 1.0, 1000, fanouts=fanouts, noise="shuffler")
    assert p.parameters["dummies"] == 2 * half

    def delta(most: int) -> mpmath.mpf:
        a = mpmath.exp(mpmath.mpf(-1) / (2 * levels))
        end = a**most * (1 - a) / (1 + a - 2 * a ** (most + 1))
        return 1 - (1 - end) ** (2 * levels)

    assert delta(half) <= 1e-6 < delta(half - 1)
    assert p.guarantee.delta == pytest.approx(float(delta(half)), rel=1e-9)
    assert p.guarantee.honest == 1


def test_dummies_cost_no_accuracy_against_a_curator() -> None:
    protocol = built("shuffle.tree", 1024, 1.0, 1000, fanouts="16,8,8", noise="shuffler")
    assert protocol.parameters["all_dummies"] == 92_272
    assert protocol.messages_per_user == 3
    assert protocol.estimator.ranking_error(1000) * 1000 == pytest.approx(18.0745, rel=2e-4)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_curve_of_dummies_is_that_of_all_losses(epsilon: float) -> None:
    """Each of 2h numbers has the loss ±ε/(2h), or an infinite one at an end of its range."""
    levels = 2
    p = built("shuffle.tree", 4, epsilon, 10, 0.05, fanouts="2,2", noise="shuffler")
    weights = [mpmath.mpf(w) for w in p.dummies.bucket.weights]
    whole = sum(weights)
    losses = []  # pairs of the probabilities of an outcome with and without the person
    for up in (1, -1):
        here, there = [0, *weights], [*weights, 0]
        pair = (here, there) if up > 0 else (there, here)
        losses.append([(a / whole, b / whole) for a, b in zip(*pair, strict=True)])
    node = [[float(a), float(b)] for a, b in losses[0]]
    other = [[float(a), float(b)] for a, b in losses[1]]
    one, two = np.ones(1), np.ones(1)
    for law in (node, other) * levels:
        one, two = (
            np.multiply.outer(sofar, [pair[side] for pair in law]).ravel()
            for side, sofar in enumerate((one, two))
        )
    for at in (0.0, 0.3 * epsilon, 0.9 * epsilon, epsilon):
        truth = np.maximum(one - math.exp(at) * two, 0).sum()
        assert p.curve.delta(at) == pytest.approx(truth, rel=1e-9)


# Errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fanouts", "rms", "most"),
    [
        ((4,) + (2,) * 8, 19.2821, 23.2759),
        ((4,) * 5, 19.7623, 23.9717),
        ((1024,), 85.3628, 104.497),
    ],
)
def test_errors_of_fake_users(fanouts: tuple[int, ...], rms: float, most: float) -> None:
    protocol = built("shuffle.tree", 1024, 1.0, 10**4, fanouts=written(fanouts))
    assert protocol.estimator.ranking_error(10**4) * 10**4 == pytest.approx(rms, rel=1e-4)
    assert protocol.standard_error() * 10**4 == pytest.approx(most, rel=1e-4)


def test_the_best_shapes_are_found() -> None:
    assert built("shuffle.tree", 1024, 1.0, 10**4).tree.fanouts == (4,) + (2,) * 8
    assert built("shuffle.tree", 1024, 1.0, 10**4, noise="shuffler").tree.fanouts == (16, 8, 8)
    best = built("local.tree", 1024, 1.0, 10**4)
    for fanouts in ((4,) * 5, (2,) * 10, (32, 32), (1024,)):
        other = built("local.tree", 1024, 1.0, 10**4, fanouts=written(fanouts))
        assert best.estimator.ranking_error(10**4) <= other.estimator.ranking_error(10**4)
    # For a large ε, asking everybody about the same level is better than less noise.
    assert built("local.tree", 1024, 8.0, 10**4).tree.levels == 1


@pytest.mark.parametrize(
    ("name", "flat", "least"),
    [("central.tree", "1024", 2.0), ("shuffle.tree", "1024", 4.0), ("local.tree", "1024", 4.0)],
)
def test_trees_err_less_than_a_flat_histogram(name: str, flat: str, least: float) -> None:
    errors = [
        built(name, 1024, 1.0, 10**5, fanouts=fanouts).estimator.ranking_error(10**5)
        for fanouts in (None, flat)
    ]
    assert errors[1] >= least * errors[0]


def test_the_shuffled_tree_errs_half_as_much_as_the_best_flat_histogram() -> None:
    """The number below an edge is a sum of buckets whose errors add up to 0. Over all edges, its
    mean variance is (N+1)/6 times that of a noise, which is N/(N−1) times that of a bucket.
    """
    task, budget, crowd = hc.Histogram(1024), hc.Budget(1, 1e-6), hc.Crowd(10**5)
    buckets = hc.protocol("shuffle.split-and-mix", task, budget, crowd, sharing="buckets")
    flat = math.sqrt(1024 / 1023 * 1025 / 6) * buckets.standard_error()
    assert flat == pytest.approx(36.5862, rel=1e-3)
    for noise, gain in (("fake-users", 1.897), ("shuffler", 2.024)):
        tree = built("shuffle.tree", 1024, 1.0, 10**5, noise=noise)
        error = tree.estimator.ranking_error(10**5) * 10**5
        assert flat / error == pytest.approx(gain, rel=2e-3)


def tent(x: NDArray[np.float64], middle: float, half: float) -> NDArray[np.float64]:
    u = np.clip((x - middle) / half, -1, 1)
    return np.where(u < 0, (1 + u) ** 2 / 2, 1 - (1 - u) ** 2 / 2)


def people(kind: str, users: int, cells: int = 1024) -> NDArray[np.int64]:
    """How many people are in each cell if they hold the quantiles of (i − ½)/n."""
    x = np.linspace(0, 1, cells + 1)
    shares = {
        "uniform": x,
        "beta": beta.cdf(x, 2, 5),
        "humps": 0.6 * tent(x, 0.25, 0.15) + 0.4 * tent(x, 0.75, 0.2),
    }[kind]
    below = np.ceil(users * shares - 0.5).astype(np.int64).clip(0, users)
    counts: NDArray[np.int64] = np.diff(below)
    return counts


def local_variances(
    fanouts: tuple[int, ...], counts: NDArray[np.int64], p: float, q: float, *, assigned: bool
) -> NDArray[np.float64]:
    """The variance of the share below each edge, by dense linear algebra.

    If levels are `assigned`, exactly n/h people answer about each. Otherwise devices draw them.
    """
    nodes, users, levels = incidence(fanouts), int(counts.sum()), len(fanouts)
    solve, _ = dense_fit(fanouts, (1.0,) * levels)
    cells = len(counts)
    below = np.tri(cells - 1, cells)
    b, shares = below @ solve, counts / users
    out = np.zeros(cells - 1)
    sizes = np.cumprod(fanouts)
    for part in np.split(np.arange(len(nodes)), np.cumsum(sizes)[:-1]):
        own = b[:, part] @ nodes[part]  # the coefficient of each cell's node, for each edge
        mean, square = own @ shares, own**2 @ shares
        noise = q * (1 - q) / (p - q) ** 2 * (b[:, part] ** 2).sum(axis=1)
        spread = (square - mean**2) * users / (users - 1) if assigned else square
        out += levels / users * (noise + (1 - p - q) / (p - q) * square + spread)
    if assigned:
        share = below @ shares
        return out - share * (1 - share) / (users - 1)
    middle = np.arange(1, cells)[:, None] / cells
    return out - ((below - middle) ** 2 @ shares) / users


# The root mean squared error over all edges at ε = 1 with fan-outs 4⁵, if exactly n/h people answer
# about each level.
ASSIGNED = {
    (10**4, "uniform"): 0.0638251,
    (10**4, "beta"): 0.0637126,
    (10**4, "humps"): 0.0638185,
    (10**5, "uniform"): 0.0201833,
    (10**5, "beta"): 0.0201477,
    (10**5, "humps"): 0.0201812,
}


@pytest.mark.parametrize(("users", "kind"), ASSIGNED)
def test_errors_in_local_trust(users: int, kind: str) -> None:
    fanouts = (4,) * 5
    protocol = built("local.tree", 1024, 1.0, users, fanouts=written(fanouts))
    counts = people(kind, users)
    truth = np.cumsum(counts)[:-1] / users
    found = protocol.estimator.error_law(users, truth).standard_error
    rms = math.sqrt(np.mean(found**2))
    if kind != "uniform":
        # Drawing the levels costs a little, because people need not be divided evenly.
        assert ASSIGNED[users, kind] < rms < ASSIGNED[users, kind] * 1.002
    else:
        assert rms == pytest.approx(ASSIGNED[users, kind], rel=3e-6)


@pytest.mark.parametrize(
    ("cells", "fanouts", "kind"),
    [
        (48, (4, 3, 4), "beta"),
        (60, (4, 4, 4), "humps"),
        pytest.param(1024, (4,) * 5, "beta", marks=pytest.mark.slow),
    ],
)
def test_errors_in_local_trust_by_dense_algebra(
    cells: int, fanouts: tuple[int, ...], kind: str
) -> None:
    users = 10**4
    protocol = built("local.tree", cells, 1.0, users, fanouts=written(fanouts))
    p, q = protocol.parameters["p"], protocol.parameters["q"]
    counts = people(kind, users, cells)
    every = np.pad(counts, (0, math.prod(fanouts) - cells))
    known = local_variances(fanouts, every, p, q, assigned=False)[: cells - 1]
    found = protocol.estimator.error_law(users, np.cumsum(counts)[:-1] / users).standard_error
    assert found**2 == pytest.approx(known)
    assert protocol.standard_error(counts) == pytest.approx(math.sqrt(known.max()))
    if cells == 1024:
        assigned = local_variances(fanouts, counts, p, q, assigned=True)
        assert math.sqrt(assigned.mean()) == pytest.approx(ASSIGNED[users, kind], rel=1e-5)


@pytest.mark.parametrize(("fanouts", "cells"), [((3, 2, 2), 12), ((2, 3), 5), ((4,), 4)])
def test_the_worst_crowd_of_a_local_tree_is_in_one_cell(
    fanouts: tuple[int, ...], cells: int
) -> None:
    protocol = built("local.tree", cells, 2.0, 30, fanouts=written(fanouts))
    p, q = protocol.parameters["p"], protocol.parameters["q"]
    worst = 0.0
    for cell in range(cells):
        counts = np.zeros(math.prod(fanouts), dtype=np.int64)
        counts[cell] = 30
        variances = local_variances(fanouts, counts, p, q, assigned=False)[: cells - 1]
        assert protocol.standard_error(counts[:cells]) == pytest.approx(math.sqrt(variances.max()))
        worst = max(worst, float(variances.max()))
    assert protocol.standard_error() == pytest.approx(math.sqrt(worst))
    margin = protocol.margin(0.9)
    assert margin >= 1.64 * math.sqrt(worst) or margin == 0.5


@pytest.mark.parametrize(("fanouts", "variances"), SHAPES)
def test_coefficients_of_edges(fanouts: tuple[int, ...], variances: tuple[float, ...]) -> None:
    solve, _ = dense_fit(fanouts, variances)
    cells, nodes = math.prod(fanouts), incidence(fanouts)
    edges = np.arange(1, cells)
    b = np.tri(cells - 1, cells) @ solve
    fit = TreeFit(Tree(fanouts), variances)
    shares = np.random.default_rng(2).dirichlet(np.ones(cells))
    below = np.concatenate([[0.0], np.cumsum(shares)])
    squares = b**2 @ nodes
    assert fit.mean_squares(edges, below) == pytest.approx(squares @ shares)
    levels = np.split(np.arange(len(nodes)), np.cumsum(np.cumprod(fanouts))[:-1])
    sums = [np.maximum(b[:, part], 0).sum(axis=1) for part in levels]
    assert fit.positive_sums(edges) == pytest.approx(np.max(sums, axis=0))
    for at, found in fit.squares(edges, cells):
        inside = (at >= 0) & (at < cells)
        assert found[inside] == pytest.approx(squares[edges[inside] - 1, at[inside]])
    if len(set(variances)) == 1:
        least, most = fit.extreme_coefficients(edges)
        assert least == pytest.approx(b.min(axis=1))
        assert most == pytest.approx(b.max(axis=1))


def test_transforms_and_draws_are_those_of_the_laws() -> None:
    frequencies = np.linspace(-7, 7, 101)
    counts = np.arange(60, dtype=np.float64)
    sizes = np.exp(-0.4 * np.abs(np.arange(-4, 5)))
    cases: list[tuple[NodeNoise, NDArray[np.float64], NDArray[np.float64]]] = [
        (PoissonNoise(3.7), counts - 3.7, poisson.pmf(counts, 3.7)),
        (
            TruncatedNoise(TruncatedGeometric(Fraction(2, 5), 8)),
            np.arange(-4.0, 5.0),
            sizes / sizes.sum(),
        ),
    ]
    for noise, values, masses in cases:
        expected = np.exp(1j * np.multiply.outer(frequencies, values)) @ masses
        assert np.exp(noise.log_transform(frequencies)) == pytest.approx(expected, abs=1e-12)
        assert values**2 @ masses == pytest.approx(noise.variance)
        drawn = noise.draw(np.random.default_rng(1), 100_000)
        assert abs(drawn.mean()) < 5.5 * math.sqrt(noise.variance / 100_000)
        assert drawn.var() == pytest.approx(noise.variance, rel=0.05)


# Intervals and bands in local trust --------------------------------------------------------------


def test_local_intervals_and_bands_cover() -> None:
    users, cells, runs = 2000, 16, 150
    values = np.repeat((np.arange(cells) + 0.5) / cells, people("beta", users, cells))
    protocol = built("local.tree", cells, 2.0, users, fanouts="4,4")
    counts = people("beta", users, cells)
    truth, source = np.cumsum(counts)[:-1] / users, hc.SeededSource(6)
    inside, banded, ranged = np.zeros(cells - 1), 0, 0
    ranges = np.where((np.arange(cells) >= 2) & (np.arange(cells) < 7), 1.0, 0.0)
    for run in range(runs):
        estimate = hc.run(protocol, values, source)
        law: Any = estimate.error_law
        off = estimate.unbiased_value - truth
        inside += np.abs(off) <= law.margins(0.95)[0]
        ranged += abs(off[6] - off[1]) <= law.query_margins(ranges, 0.95)[0]
        if run < 3:
            banded += bool(np.all(np.abs(off) <= law.band_margins(0.9)[0]))
    # With a probability above 1 − 1e-6, 150 intervals of 95 % miss fewer than 24 times.
    assert inside.min() > runs - 24
    assert ranged > runs - 24
    assert inside.mean() < runs - 2
    assert banded > 0
    # Rare lies make the error skewed, which adds a term of order 1/n to the margin.
    reach, skew = law.design.reach, (1.959964**2 - 1) / (6 * users)
    alone = law.margins(0.95)[0] - (reach + 1) * skew
    wider = law.population_margins(0.5, 0.95)[0] - (reach + 2) * skew
    assert alone == pytest.approx(1.959964 * law.standard_error)
    assert wider**2 == pytest.approx(alone**2 + 1.959964**2 * 0.25 / users)


def test_local_intervals_cover_rare_values_in_small_crowds() -> None:
    counts = np.zeros(16, dtype=np.int64)
    counts[0], counts[9] = 394, 6
    protocol = built("local.tree", 16, 6.0, 400)
    truth, runs, inside = np.cumsum(counts)[:-1] / 400, 1000, np.zeros(15)
    for run in range(runs):
        estimate = protocol.estimate(protocol.simulate(counts, hc.SeededSource(run)))
        law: Any = estimate.error_law
        inside += np.abs(estimate.unbiased_value - truth) <= law.margins(0.95)[0]
    # Without the term for skewness, and with an estimated variance, 930 are inside.
    assert inside.min() >= 950


def test_levels_are_uniform_and_independent_of_values() -> None:
    protocol = built("local.tree", 12, 1.0, 100, fanouts="3,2,2")
    for value in (0.01, 0.99):
        sent = protocol.randomize(np.full(90_000, value), hc.SeededSource(2)).payload
        found = np.bincount(sent[:, 0], minlength=3)
        assert np.all(np.abs(found - 30_000) < 5.5 * math.sqrt(20_000))
        # Bits behind the last node of a level are 0.
        assert not sent[sent[:, 0] == 0, 1].max() >> 3
        assert not sent[sent[:, 0] < 2, 2].any()


def test_bits_behind_the_last_node_change_nothing() -> None:
    protocol = built("local.tree", 12, 1.0, 2, fanouts="3,2,2")
    honest = np.array([[0, 0b101, 0], [2, 0b11, 0b1]], dtype=np.uint8)
    dishonest = np.array([[0, 0b11111101, 0b1111], [2, 0b11, 0b1]], dtype=np.uint8)
    one, other = (protocol.tally(hc.Batch(sent, 2)).counts for sent in (honest, dishonest))
    assert one.tolist() == other.tolist()


# Plans -------------------------------------------------------------------------------------------


def test_plans_rank_trees() -> None:
    found = hc.plan(hc.Distribution(0, 1, 64), hc.Budget(1, 1e-6), hc.Crowd(10**5))
    names = [candidate.protocol for candidate in found.candidates]
    order = [names.index(f"{trust}.tree") for trust in ("central", "shuffle", "local")]
    assert order == sorted(order)


@pytest.mark.slow
def test_limits_on_messages_choose_the_shape() -> None:
    task, budget, crowd = hc.Distribution(0, 1, 1024), hc.Budget(1, 1e-6), hc.Crowd(10**5)
    for most, fanouts in ((8, "4,4,4,4,4"), (1.5, "1024")):
        plan = hc.plan(task, budget, crowd, trust="shuffle", max_messages=most)
        (found,) = [one for one in plan.candidates if one.protocol == "shuffle.tree"]
        assert found.options == {"fanouts": fanouts}
        assert found.messages_per_user <= most


def test_search_for_the_least_noise() -> None:
    for rate, goal in itertools.product((1e-3, 0.02, 1.0), (0.3, 1e-6, 1e-15)):
        tried: list[int] = []

        def delta_at(noise: int, rate: float = rate, tried: list[int] = tried) -> float:
            tried.append(noise)
            return math.exp(-rate * noise - 0.1 * math.sqrt(noise))

        noise = near_least_private(delta_at, goal, start=1, stop=10**6)
        assert noise is not None
        assert delta_at(noise) <= goal < delta_at(noise - 1) * (1 + 1e-3)
        assert len(tried) < 40
    assert near_least_private(lambda noise: 0.5, 0.1, start=1, stop=100) is None
