"""Trees with correlated noise: privacy by its definition, messages, errors and plans."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import headcount as hc
from test_trees import dense_fit, incidence

ALARM = 1e-7
NAME = "shuffle.correlated-tree"
Array = NDArray[np.float64]


def built(
    cells: int, epsilon: float, users: int, delta: float = 1e-6, honest: int = 0, **options: Any
) -> Any:
    task, budget = hc.Distribution(0, 1, cells), hc.Budget(epsilon, delta)
    return hc.protocol(NAME, task, budget, hc.Crowd(users, honest or users), **options)


# Privacy -----------------------------------------------------------------------------------------


def node_views(a: float, r: float, p: float, size: int = 90) -> tuple[Array, Array]:
    """The law of (number of +1, number of −1) of a node, without and with one more person."""
    k = np.arange(size)
    single, flood = (1 - a) * a**k, stats.nbinom.pmf(k, r, 1 - p)
    table = np.zeros((size, size))
    for pairs in range(size):
        rest = size - pairs
        table[pairs:, pairs:] += flood[pairs] * np.multiply.outer(single[:rest], single[:rest])
    return table, np.vstack([np.zeros((1, size)), table[:-1]])


def merged(one: Array, two: Array) -> tuple[Array, Array]:
    """The two laws, with all outcomes of nearly the same likelihood ratio as one outcome."""
    kept = (one > 1e-13) | (two > 1e-13)
    one, two = one[kept], two[kept]
    with np.errstate(divide="ignore"):
        ratios = np.log(one) - np.log(two)
    _, where = np.unique(np.round(ratios, 9), return_inverse=True)
    found = [np.bincount(where, law).astype(np.float64) for law in (one, two)]
    return found[0], found[1]


def listed_delta(a: float, r: float, p: float, levels: int, epsilon: float) -> float:
    """The divergence of the views of two nodes per level, by listing all outcomes.

    The person leaves one node of each level and enters another one.
    """
    left, held = node_views(a, r, p)
    one = two = np.ones(1)
    for pair in [(held, left), (left, held)] * levels:
        first, second = merged(*pair)
        one, two = (np.multiply.outer(x, y).ravel() for x, y in ((one, first), (two, second)))
        one, two = merged(one, two)
    return float(np.maximum(one - math.exp(epsilon) * two, 0).sum())


@pytest.mark.parametrize(
    ("epsilon", "delta", "users", "honest", "levels"),
    [
        (3.0, 0.05, 20, 20, 2),
        (4.0, 0.02, 30, 20, 2),
        pytest.param(6.0, 0.05, 12, 12, 3, marks=pytest.mark.slow),
    ],
)
def test_delta_is_that_of_all_views(
    epsilon: float, delta: float, users: int, honest: int, levels: int
) -> None:
    fanouts = ",".join(["2"] * levels)
    p = built(2**levels, epsilon, users, delta, honest, fanouts=fanouts, error_ratio=1.6)
    known = p.parameters
    noise = math.exp(-known["epsilon1"]), known["r"], known["flood_p"]
    # Outcomes below 1e-13 and numbers of messages above the listed ones are left out.
    for at in (0.0, epsilon / 3, epsilon):
        truth = listed_delta(*noise, levels, at)
        assert truth * (1 - 1e-5) <= p.curve.delta(at) <= truth * (1 + 1e-3) + 1e-6
        below = p.curve.deltas(np.array([-at]))[0]
        mirrored = 1 - math.exp(-at) + math.exp(-at) * truth
        assert mirrored * (1 - 1e-5) <= below <= mirrored * (1 + 2e-2)
    assert 0.98 * delta < p.guarantee.delta <= delta


def test_more_levels_need_more_privacy_than_one_level_has() -> None:
    """The noise of a histogram is not enough for a tree of two levels."""
    flat = built(4, 3.0, 20, 0.05, fanouts="4", epsilon1=0.5)
    known = flat.parameters
    noise = math.exp(-known["epsilon1"]), known["r"], known["flood_p"]
    assert listed_delta(*noise, 1, 3.0) <= 0.05 < 1.5 * listed_delta(*noise, 2, 3.0)
    deep = built(4, 3.0, 20, 0.05, fanouts="2,2", epsilon1=0.5)
    assert deep.parameters["flood_pairs"] > 1.2 * known["flood_pairs"]


# Messages and errors -----------------------------------------------------------------------------


def test_people_send_their_path_and_noise_in_every_node() -> None:
    fanouts, crowds, users, honest, cell = (3, 2, 2), 4000, 25, 20, 7
    p = built(12, 4.0, users, 0.05, honest, fanouts="3,2,2", error_ratio=1.8)
    messages = p.randomize(np.full(crowds * users, cell / 12 + 0.01), hc.SeededSource(5))
    path = np.flatnonzero(incidence(fanouts)[:, cell])
    assert messages[3].payload[: len(path)].tolist() == (2 * path).tolist()
    nodes = len(incidence(fanouts))
    counts = messages.counts.astype(np.int64)
    crowd = np.repeat(np.arange(crowds), counts.reshape(crowds, users).sum(axis=1))
    sent = np.zeros((crowds, 2 * nodes), dtype=np.int64)
    np.add.at(sent, (crowd, messages.payload.astype(np.int64)), 1)
    sent[:, 2 * path] -= users
    assert counts.mean() == pytest.approx(p.messages_per_user, rel=0.02)
    # The numbers +1 and −1 of a node have the law NB(n/h, a) + NB(rn/h, p).
    a, r, flood = (p.parameters[key] for key in ("epsilon1", "r", "flood_p"))
    a, times = math.exp(-a), users / honest
    plain = stats.nbinom.pmf(np.arange(400), times, 1 - a)
    pairs = stats.nbinom.pmf(np.arange(400), r * times, 1 - flood)
    law = np.convolve(plain, pairs)[:400]
    found = np.bincount(np.minimum(sent.ravel(), 399), minlength=400)
    assert fits(found, law)
    # Their difference is the difference of two numbers with the law NB(n/h, a).
    difference = (sent[:, ::2] - sent[:, 1::2]).ravel()
    both = np.convolve(plain[:60], plain[:60][::-1])
    assert fits(np.bincount(np.clip(difference + 59, 0, 118), minlength=119), both)
    # Nodes are independent.
    assert abs(np.corrcoef(sent[:, 0], sent[:, 4])[0, 1]) < 5.5 / math.sqrt(crowds)


def fits(found: NDArray[np.int64], law: Array) -> bool:
    expected = found.sum() * law
    common = expected > 10
    rest = found[~common].sum(), max(expected[~common].sum(), 10.0)
    statistic = ((found - expected)[common] ** 2 / expected[common]).sum()
    statistic += (rest[0] - rest[1]) ** 2 / rest[1]
    return bool(stats.chi2.sf(statistic, int(common.sum())) > ALARM)


@pytest.mark.parametrize(("ratio", "honest"), [(1.05, 10**4), (1.2, 10**4), (1.4, 8000)])
def test_the_error_is_that_of_central_trust_times_a_ratio(ratio: float, honest: int) -> None:
    p = built(1024, 1.0, 10**4, honest=honest, error_ratio=ratio, fanouts="16,8,8")
    assert p.estimator.ranking_error(10**4) * 10**4 == pytest.approx(18.0745 * ratio, rel=1e-5)
    assert p.standard_error() * 10**4 == pytest.approx(22.1149 * ratio, rel=1e-5)


def test_fewer_messages_have_a_larger_error() -> None:
    usual, few = built(64, 2.0, 10**4), built(64, 2.0, 10**4, max_messages=3.0)
    assert few.messages_per_user <= 3 < usual.messages_per_user
    assert few.estimator.ranking_error(10**4) > usual.estimator.ranking_error(10**4)


@pytest.mark.parametrize(("cells", "fanouts", "honest"), [(6, "3,2", 40), (4, "4", 30)])
def test_intervals_are_those_of_the_drawn_errors(cells: int, fanouts: str, honest: int) -> None:
    p = built(cells, 3.0, 40, 0.01, honest, fanouts=fanouts, error_ratio=2.0)
    law = p.estimator.error_law(40, None)
    below, above = (margin * 40 for margin in law.margins(0.9))
    shape = tuple(map(int, fanouts.split(",")))
    solve, _ = dense_fit(shape, (1.0,) * len(shape))
    coefficients = np.tri(cells - 1, cells) @ solve
    rng, runs = np.random.default_rng(0), 200_000
    a = math.exp(-p.parameters["epsilon1"])
    up, down = (
        rng.negative_binomial(40 / honest, 1 - a, (runs, coefficients.shape[1])) for _ in range(2)
    )
    errors = (up - down) @ coefficients.T
    assert law.standard_error * 40 == pytest.approx(errors.std(axis=0), rel=0.02)
    missed_below, missed_above = (errors < -below).mean(axis=0), (errors > above).mean(axis=0)
    for missed in (missed_below, missed_above):
        assert np.all(missed < 0.05 + 5.5 * math.sqrt(0.05 / runs))
        # Errors of small trees have atoms, so a margin may be as large as the next atom.
        assert np.all(missed > (0.04 if len(shape) > 1 else 0.02))


# Plans -------------------------------------------------------------------------------------------


def test_plans_rank_correlated_noise_by_its_error() -> None:
    task, crowd = hc.Distribution(0, 1, 1024), hc.Crowd(10**5)
    plan = hc.plan(task, hc.Budget(2, 1e-6), crowd, trust="shuffle")
    names = [candidate.protocol for candidate in plan.candidates]
    assert names.index(NAME) < names.index("shuffle.tree")
    assert plan.candidates[0].expected_error * 10**5 == pytest.approx(1.05 * 9.0047, rel=1e-3)
    limited = hc.plan(task, hc.Budget(2, 1e-6), crowd, trust="shuffle", max_slots=50)
    assert [candidate.protocol for candidate in limited.candidates] == ["shuffle.tree"]


def test_without_delta_it_is_refused() -> None:
    with pytest.raises(hc.Infeasible, match="needs delta above 0"):
        built(8, 1.0, 100, 0.0)
    with pytest.raises(hc.Infeasible, match="messages per person"):
        built(1024, 1.0, 1)
