"""Known figures of quantiles and bands: errors of medians, widths and coverage of intervals.

The figures were computed by other programs, for 1,024 cells, ε = 1 and δ = 1e-6. They have errors
of about 2 %, since they come from a few thousand simulated releases. Here, the errors of many
releases are drawn at once.
"""

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta

import headcount as hc
from headcount.core.distribution import SharesBelow
from test_tree_protocols import built, people, tent

pytestmark = pytest.mark.slow

KINDS = ("uniform", "beta", "humps")
CELLS, RUNS, BATCH = 1024, 4000, 500
EDGES = np.linspace(0, 1, CELLS + 1)


def median(kind: str) -> float:
    if kind == "humps":
        x = np.linspace(0, 1, 10**6 + 1)
        return float(np.interp(0.5, 0.6 * tent(x, 0.25, 0.15) + 0.4 * tent(x, 0.75, 0.2), x))
    return 0.5 if kind == "uniform" else float(beta.ppf(0.5, 2, 5))


@cache
def noise_errors(protocol: hc.Protocol, users: int) -> NDArray[np.float64]:
    """Errors of the number of people below each edge, in rows. They do not depend on the data."""
    estimator: Any = protocol.estimator
    noise, generator = estimator.noise_of(users), np.random.default_rng(1)
    rows: list[NDArray[np.float64]] = []
    for _ in range(RUNS // BATCH):
        drawn = [
            law.draw(generator, BATCH * size).reshape(BATCH, size)
            for law, size in zip(noise.noises, noise.fit.tree.sizes, strict=True)
        ]
        fitted = noise.fit.cells(np.concatenate(drawn, axis=1), 0.0)
        rows.append(np.cumsum(fitted, axis=1)[:, :-1])
    return np.concatenate(rows)


def local_errors(protocol: Any, counts: NDArray[np.int64]) -> NDArray[np.float64]:
    design, generator = protocol.estimator.design, np.random.default_rng(2)
    return np.concatenate(
        [design.simulated(counts, BATCH, generator) for _ in range(RUNS // BATCH)]
    )


def curves(counts: NDArray[Any], errors: NDArray[np.float64]) -> list[SharesBelow]:
    below = (np.cumsum(counts)[:-1] + errors) / round(counts.sum())
    return [SharesBelow.of(EDGES, row) for row in below]


MEDIANS: list[tuple[str, str, int, tuple[float, float, float], float]] = [
    ("central.tree", "16,8,8", 10**4, (1.86e-3, 7.69e-4, 7.17e-4), 0.05),
    ("central.tree", "16,8,8", 10**5, (1.57e-4, 7.97e-5, 6.86e-5), 0.05),
    ("central.tree", "1024", 10**4, (4.43e-3, 1.70e-3, 1.83e-3), 0.05),
    ("shuffle.tree", "4,4,4,4,4", 10**4, (1.65e-3, 7.47e-4, 7.36e-4), 0.05),
    ("shuffle.tree", "4,4,4,4,4", 10**5, (1.19e-4, 7.79e-5, 7.62e-5), 0.05),
    ("shuffle.tree", "1024", 10**4, (1.06e-2, 3.94e-3, 4.17e-3), 0.05),
    ("local.tree", "4,4,4,4,4", 10**4, (0.0512, 0.0212, 0.0394), 0.05),
    ("local.tree", "1024", 10**4, (0.211, 0.148, 0.244), 0.07),
]


@pytest.mark.parametrize(("name", "fanouts", "users", "known", "spare"), MEDIANS)
def test_errors_of_medians(
    name: str, fanouts: str, users: int, known: tuple[float, ...], spare: float
) -> None:
    protocol = built(name, CELLS, 1.0, users, fanouts=fanouts)
    for kind, expected in zip(KINDS, known, strict=True):
        counts = people(kind, users)
        local = name == "local.tree"
        errors = local_errors(protocol, counts) if local else noise_errors(protocol, users)
        found = np.array([one.quantiles([0.5])[0] for one in curves(counts, errors)])
        rms = math.sqrt(np.mean((found - median(kind)) ** 2))
        assert rms == pytest.approx(expected, rel=spare), kind


def read(
    counts: NDArray[Any], errors: NDArray[np.float64], margins: Any, below: NDArray[np.float64]
) -> tuple[float, float]:
    """How often the interval of the median contains its cell, and the interval's mean length.

    `below` has the true share below each edge. The cell of the median is k with F_k < ½ ≤ F_{k+1}.
    """
    cell = int(np.flatnonzero((below[:-1] < 0.5) & (below[1:] >= 0.5))[0])
    ends = np.array([one.quantile_ends(0.5, margins) for one in curves(counts, errors)])
    inside = (ends[:, 0] <= EDGES[cell]) & (EDGES[cell + 1] <= ends[:, 1])
    return float(inside.mean()), float(np.mean(ends[:, 1] - ends[:, 0]))


def test_intervals_of_the_median() -> None:
    """Coverage at n = 10,000, and mean lengths by the law at each edge and by the band."""
    covered = {"uniform": 0.974, "beta": 0.984, "humps": 0.982}
    lengths = {
        (10**4, "law"): (0.00883, 0.00421, 0.00401),
        (10**4, "band"): (0.0180, 0.00830, 0.00803),
        (10**3, "law"): (0.102, 0.038, 0.057),
    }
    for (users, way), known in lengths.items():
        protocol = built("central.tree", CELLS, 1.0, users, fanouts="16,8,8")
        law: Any = protocol.estimator.error_law(users, None)
        margins = law.margins(0.95) if way == "law" else law.band_margins(0.95)
        for kind, length in zip(KINDS, known, strict=True):
            counts = people(kind, users)
            below = np.concatenate([[0], np.cumsum(counts)]) / users
            share, found = read(counts, noise_errors(protocol, users), margins, below)
            assert found == pytest.approx(length, rel=0.03), (users, way, kind)
            if way == "band":
                assert share >= 0.999
            elif users == 10**4:
                assert share == pytest.approx(covered[kind], abs=0.012)


@pytest.mark.parametrize(("users", "known"), [(500, (0.997, 0.991)), (5000, (0.969, 0.961))])
def test_intervals_of_the_median_of_a_population(users: int, known: tuple[float, float]) -> None:
    protocol = built("central.tree", CELLS, 1.0, users, fanouts="16,8,8")
    law: Any = protocol.estimator.error_law(users, None)
    margins, generator = law.population_margins(0.5, 0.95), np.random.default_rng(4)
    errors = noise_errors(protocol, users)
    for below, expected in zip((EDGES, beta.cdf(EDGES, 2, 5)), known, strict=True):
        drawn = generator.multinomial(users, np.diff(below), RUNS)
        # The errors of the number of people below each edge, about the population's share.
        off = errors + np.cumsum(drawn, axis=1)[:, :-1] - users * below[1:-1]
        share, _ = read(users * np.diff(below), off, margins, below)
        assert share == pytest.approx(expected, abs=0.012)


def test_widths_of_the_band() -> None:
    """κ = 4.30 ± 0.01 standard errors, or 77.2 ± 0.2 people for all edges, with fan-outs 16,8,8."""
    protocol = built("central.tree", CELLS, 1.0, 10**4, fanouts="16,8,8")
    law: Any = protocol.estimator.error_law(10**4, None)
    fit, deviations = law.noise.fit, law.standard_error * 10**4
    generator, runs, rate = np.random.default_rng(5), 40_000, 1 / 6
    largest, widest = np.empty(runs), np.empty(runs)
    for start in range(0, runs, BATCH):
        up, down = np.floor(generator.exponential(1 / rate, (2, BATCH, fit.tree.nodes)))
        off = np.abs(np.cumsum(fit.cells(up - down, 0.0), axis=1)[:, :-1])
        largest[start : start + BATCH] = np.max(off / deviations, axis=1)
        widest[start : start + BATCH] = np.max(off, axis=1)
    # Each of these simulations leaves an error of about 0.01 in κ, and of 0.2 in the width.
    assert np.quantile(largest, 0.95) == pytest.approx(4.30, abs=0.04)
    assert np.quantile(widest, 0.95) == pytest.approx(77.2, abs=0.8)
    # The library simulates fewer crowds, and takes a rank that makes the coverage at least 95 %.
    stated = law.band_margins(0.95)[0] / law.standard_error
    assert np.ptp(stated) < 1e-9
    assert stated[0] == pytest.approx(4.30, abs=0.15)
    assert np.mean(largest <= stated[0]) >= 0.945
