"""Totals of rows and columns in local trust: known figures, the better protocol, and coverage."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

import headcount as hc

ONE, CELLS = "local.margins", "local.summed-cells"


def built(name: str, shape: tuple[int, int], epsilon: float, users: int) -> hc.Protocol:
    return hc.protocol(name, hc.Margins(*shape), hc.Budget(epsilon), hc.Crowd(users))


def probabilities(among: int, epsilon: float) -> tuple[float, float]:
    """The probabilities p and q of the best sets among this many buckets."""
    found = []
    for size in range(1, among):
        truth = math.exp(epsilon) * size / (math.exp(epsilon) * size + among - size)
        other = (truth * (size - 1) + (1 - truth) * size) / (among - 1)
        found.append((other * (1 - other) / (truth - other) ** 2, truth, other))
    return min(found)[1:]


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.5])
@pytest.mark.parametrize("shape", [(2, 2), (3, 4), (5, 12)])
def test_error_of_one_question_each(shape: tuple[int, int], epsilon: float) -> None:
    """Twice the variance of an oracle, and the error of who was asked."""
    users = 1200
    cells = np.full(shape, users // math.prod(shape))
    p = built(ONE, shape, epsilon, users)
    found = []
    for among in shape:
        own, other = probabilities(among, epsilon)
        v = (other * (1 - other) + (own * (1 - own) - other * (1 - other)) / among) / (
            own - other
        ) ** 2
        share = 1 / among
        found += [math.sqrt(users * (2 * v + share * (1 - share)))] * among
    totals = np.concatenate([cells.sum(axis=1), cells.sum(axis=0)]).astype(float)
    assert p.estimator.error_law(users, totals).standard_error == pytest.approx(found, rel=1e-9)
    assert p.standard_error(cells.ravel()) == pytest.approx(max(found), rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.7, 1.5, 4.0])
def test_error_of_cells_that_are_added_up(epsilon: float) -> None:
    """A response about D cells is a response about a row, with P* and Q*."""
    shape, users = (3, 4), 2400
    whole = math.exp(epsilon) + 12 - 1
    totals = np.repeat([users / 3, users / 4], shape)
    found = []
    for among in shape:
        truth, other = (math.exp(epsilon) + 12 / among - 1) / whole, 12 / among / whole
        spread = truth * (1 - truth) / among + other * (1 - other) * (1 - 1 / among)
        found += [math.sqrt(users * spread) / (truth - other)] * among
    p = built(CELLS, shape, epsilon, users)
    assert p.estimator.error_law(users, totals).standard_error == pytest.approx(found, rel=1e-9)


def test_plans_choose_the_better_of_the_two() -> None:
    """For two questions with two answers each, blocks are better from ε = 1.34245 on."""

    def best(shape: tuple[int, int], epsilon: float) -> str:
        plan = hc.plan(hc.Margins(*shape), hc.Budget(epsilon), hc.Crowd(10**4), trust="local")
        return plan.candidates[0].protocol

    assert best((2, 2), 1.342) == ONE
    assert best((2, 2), 1.343) == CELLS
    assert {best(shape, 1.0) for shape in ((3, 3), (3, 30), (10, 10))} == {ONE}
    assert best((10, 10), 6.0) == CELLS


@pytest.mark.parametrize(("name", "shape"), [(ONE, (3, 12)), (CELLS, (3, 12)), (ONE, (2, 2))])
def test_reports_have_the_stated_error(name: str, shape: tuple[int, int]) -> None:
    users, runs = 400, 300
    p = built(name, shape, 1.5, users)
    rng = np.random.default_rng(4)
    held = rng.multinomial(users, rng.dirichlet(np.ones(math.prod(shape))))
    values = np.repeat(np.arange(len(held)), held)
    source = hc.SeededSource(8)
    answers = np.array([hc.run(p, values, source=source).value for _ in range(runs)])
    cells = held.reshape(shape)
    truth = np.concatenate([cells.sum(axis=1), cells.sum(axis=0)]).astype(float)
    stated = np.asarray(p.estimator.error_law(users, truth).standard_error)
    assert np.all(np.abs(answers.mean(axis=0) - truth) < 5.5 * stated / math.sqrt(runs))
    assert answers.std(axis=0) == pytest.approx(stated, rel=0.25)
    # The totals of each side add up to the number of people.
    assert answers[:, : shape[0]].sum(axis=1) == pytest.approx(np.full(runs, float(users)))


def answers_about(
    total: int, users: int, among: int, epsilon: float, runs: int
) -> NDArray[np.float64]:
    """Estimates of one total by the definition of the protocol."""
    rng, (own, other) = np.random.default_rng(total), probabilities(among, epsilon)
    inside, outside = rng.binomial(total, 0.5, runs), rng.binomial(users - total, 0.5, runs)
    reports, asked = rng.binomial(inside, own) + rng.binomial(outside, other), inside + outside
    answered = (reports - asked * other) / (own - other)
    return users / among + 2 * (answered - asked / among)


@pytest.mark.slow
@pytest.mark.parametrize("users", [30, 120, 600, 5000])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_intervals_of_one_question_each_hold(users: int, epsilon: float) -> None:
    among, runs = 3, 20_000
    p = built(ONE, (3, 3), epsilon, users)
    for total in (0, 1, users // 3, users - 2, users):
        answers = answers_about(total, users, among, epsilon, runs)
        values, times = np.unique(np.round(answers, 9), return_counts=True)
        covered = 0
        for value, number in zip(values.tolist(), times.tolist(), strict=True):
            below, above = p.estimator.error_law(users, np.full(6, value)).margins(0.95)
            covered += number * bool(-below[0] <= value - total <= above[0])
        assert covered / runs > 0.95 - 5.5 * math.sqrt(0.05 * 0.95 / runs)
