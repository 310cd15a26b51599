"""Distributions and quantiles: the laws of their errors, readings, intervals and privacy."""

import itertools
import json
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import beta, binom

import headcount as hc
from commands import Headcount
from enumeration import datasets, exactly, geometric_mass, log_likelihood_ratio
from headcount.core.distribution import DistributionEstimate
from headcount.core.postprocessing import postprocessed
from headcount.core.quantiles import QuantilesEstimate
from headcount.protocols.tree import Tree, TreeFit
from headcount.protocols.tree_error import GeometricNoise, PoissonNoise, TreeError, TreeNoise
from headcount.randomness.exponential import exponential_choice

ALARM = 1e-6


def tree_noise(fanouts: tuple[int, ...], epsilon: float = 1.0) -> TreeNoise:
    noise, levels = GeometricNoise(epsilon / (2 * len(fanouts))), len(fanouts)
    return TreeNoise(TreeFit(Tree(fanouts), (noise.variance,) * levels), (noise,) * levels)


def asked(
    task: hc.Task, values: Any, epsilon: float = 1.0, seed: int = 1, name: str = "central.tree"
) -> Any:
    p = hc.protocol(name, task, hc.Budget(epsilon), hc.Crowd(len(values)))
    return hc.run(p, values, hc.SeededSource(seed))


# The law of the error ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fanouts", "edge", "expected"),
    [
        ((16, 8, 8), 512, 31.2673),
        ((16, 8, 8), 271, 35.9763),
        ((16, 8, 8), 341, 41.3840),
        ((4,) * 5, 512, 24.3453),
        ((2,) * 10, 512, 28.0832),
    ],
)
def test_quantiles_of_the_error(fanouts: tuple[int, ...], edge: int, expected: float) -> None:
    """They are those of an independent inversion, for ε = 1 and 1,024 cells."""
    noise = tree_noise(fanouts)
    below, above = noise.margins_below(np.array([edge]), 0.95)
    assert below == pytest.approx(above)
    assert above[0] == pytest.approx(expected, rel=2e-5)
    weights = (np.arange(1024) < edge).astype(float)
    assert noise.margins(weights, 0.95) == pytest.approx((below[0], above[0]), rel=1e-9)


def listed_law(noise: TreeNoise, edge: int, masses: list[dict[int, float]]) -> NDArray[np.float64]:
    """The law of the error at an edge, as rows (value, probability) in rising order."""
    weights = (np.arange(noise.fit.tree.cells) < edge).astype(float)
    law: dict[float, float] = {0.0: 1.0}
    for coefficient, mass in zip(noise.fit.coefficients(weights), masses, strict=True):
        grown: dict[float, float] = {}
        for (error, chance), (z, p) in itertools.product(law.items(), mass.items()):
            place = round(error + coefficient * z, 9)
            grown[place] = grown.get(place, 0.0) + chance * p
        law = {error: chance for error, chance in grown.items() if chance > 1e-12}
    return np.array(sorted(law.items()))


@pytest.mark.parametrize(
    ("fanouts", "epsilon"),
    [((2,), 0.5), ((2,), 12.0), ((3,), 2.0), ((3,), 8.0), ((2, 2), 20.0)],
)
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_margins_of_small_trees_hold_by_enumeration(
    fanouts: tuple[int, ...], epsilon: float, confidence: float
) -> None:
    """The noise of few nodes has atoms. A margin includes its atom, and is not much longer."""
    noise = tree_noise(fanouts, epsilon)
    rate = epsilon / (2 * len(fanouts))
    reach = math.ceil(24 / rate)
    mass = {z: float(geometric_mass(rate, z)) for z in range(-reach, reach + 1)}
    half = (1 - confidence) / 2
    for edge in range(1, noise.fit.tree.cells):
        law = listed_law(noise, edge, [mass] * noise.fit.tree.nodes)
        (below,), (above,) = noise.margins_below(np.array([edge]), confidence)
        assert law[law[:, 0] > above + 1e-9, 1].sum() <= half + 1e-10
        assert law[law[:, 0] < -below - 1e-9, 1].sum() <= half + 1e-10
        tails = law[::-1, 1].cumsum()[::-1]  # the probability of at least this error
        least = law[np.flatnonzero(tails > 0.98 * half)[-1], 0]
        largest = np.abs(
            noise.fit.coefficients((np.arange(noise.fit.tree.cells) < edge).astype(float))
        ).max()
        deviation = math.sqrt(noise.fit.variances_below(np.array([edge]))[0])
        assert above <= least + 0.15 * max(deviation, largest)


def test_margins_of_poisson_noise_hold_by_enumeration() -> None:
    """Its tails differ. Margins of mirrored edges are mirrored."""
    mean, fanouts = 2.0, (3,)
    noise = TreeNoise(TreeFit(Tree(fanouts), (mean,)), (PoissonNoise(mean),))
    mass = {k: math.exp(-mean) * mean**k / math.factorial(k) for k in range(40)}
    for edge in (1, 2):
        law = listed_law(noise, edge, [mass] * 3)
        shift = mean * noise.fit.coefficients((np.arange(3) < edge).astype(float)).sum()
        (below,), (above,) = noise.margins_below(np.array([edge]), 0.95)
        assert law[law[:, 0] - shift > above + 1e-9, 1].sum() <= 0.025
        assert law[law[:, 0] - shift < -below - 1e-9, 1].sum() <= 0.025
    below, above = TreeError(noise, 1, 3).margins(0.95)
    alone = noise.margins_below(np.array([1, 2]), 0.95)
    assert below == pytest.approx(alone[0])
    assert above == pytest.approx(alone[1])
    assert below[0] == pytest.approx(above[1])


def test_margins_of_a_population_include_the_draw_by_enumeration() -> None:
    """For one level of two cells: the noise (Z₁ − Z₂)/2, and a binomial number of people."""
    noise, users, share = tree_noise((2,), 2.0), 9, 0.3
    mass = {z: float(geometric_mass(1.0, z)) for z in range(-40, 41)}
    law = listed_law(noise, 1, [mass] * 2)
    drawn = binom.pmf(np.arange(users + 1), users, share)
    errors = np.add.outer(law[:, 0], np.arange(users + 1) - users * share).ravel()
    chances = np.outer(law[:, 1], drawn).ravel()
    for confidence in (0.8, 0.95, 0.99):
        below, above = TreeError(noise, users, 2).population_margins(share, confidence)
        half = (1 - confidence) / 2
        assert chances[errors > users * above[0] + 1e-9].sum() <= half
        assert chances[errors < -users * below[0] - 1e-9].sum() <= half


def test_margins_are_quick_and_exist_for_a_million_cells() -> None:
    task = hc.Distribution(0, 1, cells=2**20)
    e = asked(task, np.linspace(0, 1, 500), seed=3)
    assert e.interval().low.shape == (2**20 - 1,)
    assert 0.5 in e.quantile_interval(0.5)
    assert e.quantile(0.5) == pytest.approx(0.5, abs=0.3)
    flat = asked(hc.Distribution(0, 1, cells=2), [0.1] * 30 + [0.7] * 10)
    assert flat.value.shape == (1,)
    assert 0.75 in flat.interval(0.999)
    assert flat.interval(simultaneous=True).low <= flat.value


# Readings ----------------------------------------------------------------------------------------


def pooled(values: list[float]) -> list[float]:
    """The nearest rising numbers, by the largest of the smallest means of stretches."""
    n = len(values)
    means = {(s, t): sum(values[s : t + 1]) / (t - s + 1) for s in range(n) for t in range(s, n)}
    return [
        min(1.0, max(0.0, *(min(means[s, t] for t in range(i, n)) for s in range(i + 1))))
        for i in range(n)
    ]


@given(st.lists(st.floats(-0.5, 1.5), min_size=1, max_size=9))
@settings(max_examples=100, deadline=None)
def test_monotone_takes_the_nearest_rising_shares(values: list[float]) -> None:
    found = postprocessed("monotone", "distribution", np.array(values), (0.0, 1.0), None)
    assert found == pytest.approx(pooled(values), abs=1e-12)


def test_readings_agree_with_the_people_if_there_is_hardly_noise() -> None:
    values = np.repeat(np.arange(8) + 0.5, [3, 0, 5, 1, 0, 0, 9, 2])
    e = asked(hc.Distribution(0, 8, cells=8), values, epsilon=400)
    assert isinstance(e, DistributionEstimate)
    assert e.value == pytest.approx(np.cumsum([3, 0, 5, 1, 0, 0, 9]) / 20)
    assert e.cdf(2.5) == pytest.approx((3 + 2.5) / 20)
    assert (e.cdf(0), e.cdf(8)) == (0, 1)
    assert e.share(2, 4) == pytest.approx(6 / 20)
    # Inside a cell, everybody or nobody may be in the range.
    ends = e.share_interval(2.5, 6.5)
    assert (ends.low, ends.high) == pytest.approx((1 / 20, 15 / 20), abs=0.02)
    assert e.quantile(0.5) == pytest.approx(6 + 1 / 9)
    inside = e.quantile_interval(0.5)
    assert (inside.low, inside.high) == (6, 7)
    # 9 of 20 people are below all numbers from 4 to 6: each of them is a 45 % quantile.
    assert e.quantile_interval(0.45).low <= 4
    rising = e.postprocess("monotone")
    assert rising.postprocessing == ("monotone",)
    assert np.all(np.diff(rising.value) >= 0)
    quartiles = asked(hc.Quantiles(0, 8, cells=8), values, epsilon=400)
    assert isinstance(quartiles, QuantilesEstimate)
    assert quartiles.value == pytest.approx([2.4, 6 + 1 / 9, 6 + 6 / 9])
    assert quartiles.cdf(4) == pytest.approx(9 / 20)
    assert quartiles.postprocessing == ("quantiles",)
    median = asked(hc.Median(0, 8, cells=8), values, epsilon=400)
    assert median.value == pytest.approx(6 + 1 / 9)
    assert (median.interval().low, median.interval().high) == (6, 7)


def test_an_edge_belongs_to_the_cell_above_it() -> None:
    for low, high, cells in ((0.0, 200_000.0, 1024), (-0.3, 0.4, 7), (1e-3, 1.1e-3, 100)):
        task = hc.Distribution(low, high, cells=cells)
        edges = np.array(task.edges)
        assert task.encode(edges).tolist() == [*range(cells), cells - 1]
        assert task.encode(np.nextafter(edges[1:], -np.inf)).tolist() == [*range(cells)]


def test_quantiles_are_in_their_intervals_and_simultaneous_ones_are_longer() -> None:
    for seed in range(20):
        e = asked(hc.Quantiles(0, 1, cells=64), np.linspace(0, 1, 60), seed=seed, epsilon=0.3)
        alone, together = e.interval(), e.interval(simultaneous=True)
        assert e.value in alone
        assert np.all((together.low <= alone.low) & (alone.high <= together.high))
        assert np.all(np.diff(e.value) >= 0)
        wider = e.interval(sampling=True)
        assert np.all((wider.low <= alone.low) & (alone.high <= wider.high))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda e: e.quantile(1), "`share` must be strictly between 0 and 1, got 1"),
        (lambda e: e.quantile_interval(0.5, 1), "`confidence` must be strictly"),
        (lambda e: e.cdf(9), "`x` must be from 0 to 8, got 9"),
        (lambda e: e.share(3, 2), "`low` must not be above `high`, got 3 and 2"),
        (lambda e: e.share_interval(-1, 2), "`low` must be from 0 to 8, got -1"),
        (
            lambda e: e.postprocess("simplex"),
            "simplex must come with a histogram or table, got a dist",
        ),
        (lambda e: hc.Quantiles(0, 1, (0.5, 0.2)), "`at` must be 1 to 100 rising shares"),
        (lambda e: hc.Quantiles(0, 1, [1.5]), "`at` must be strictly between 0 and 1, got 1.5"),
        (lambda e: hc.Median(0, 1, cells=1), "`cells` must be between 2 and 1048576, got 1"),
    ],
)
def test_wrong_questions_are_refused(call: Any, said: str) -> None:
    e = asked(hc.Distribution(0, 8, cells=8), [1, 2, 3])
    with pytest.raises(hc.InvalidParameter) as refused:
        call(e)
    assert said in str(refused.value)


def test_tables_and_json_have_the_quantiles() -> None:
    values = np.linspace(0, 1, 400)
    e = asked(hc.Distribution(0, 1, cells=64), values)
    document = json.loads(json.dumps(e.to_dict(sampling=True, simultaneous=True)))
    assert [one["share"] for one in document["quantiles"]] == [0.25, 0.5, 0.75]
    assert document["quantiles"][1]["value"] == e.quantile(0.5)
    assert len(document["value"]) == len(document["sampling_error"]) == 63
    assert "median" in str(e)
    assert "share below 0.1" in str(e)
    q = asked(hc.Quantiles(0, 1, (0.1, 0.5), cells=64), values)
    document = json.loads(json.dumps(q.to_dict()))
    assert document["value"] == q.value.tolist()
    assert document["buckets"] == [0.1, 0.5]
    assert "unbiased_value" not in document
    assert "10 % quantile" in str(q)
    assert "post-processed: quantiles" in str(q)


# The exponential mechanism -----------------------------------------------------------------------


def test_rank_errors_of_the_exponential_mechanism() -> None:
    """The figures for 10,000 people at ε = 1, and for one person in each cell: DLap(1/2)."""
    places, task = (np.arange(10_000) + 0.5) / 10_000, hc.Median(0, 1)
    for values, expected in (
        (places, 1.16886),
        (beta.ppf(places, 2, 5), 5.04585),
        ((np.arange(1024) + 0.5) / 1024, 2.79918),
    ):
        name, users = "central.exponential-quantile", len(values)
        p = hc.protocol(name, task, hc.Budget(1), hc.Crowd(users))
        held = np.bincount(task.encode(values), minlength=1024)
        assert p.standard_error(held) * users == pytest.approx(expected, rel=2e-5)
    three = hc.protocol(name, hc.Quantiles(0, 1), hc.Budget(3), hc.Crowd(1024))
    assert three.standard_error(held) * 1024 == pytest.approx(2.79918, rel=2e-3)


NUMBERS = np.array([0, 0, 3, 4, 9, 9, 30])


@pytest.mark.parametrize(
    ("rate", "target"),
    [
        (Fraction(1, 3), Fraction(7, 2)),
        (Fraction(1, 3), Fraction(4)),
        (Fraction(1, 3), Fraction(-1)),
        (Fraction(2), Fraction(39, 10)),
        (Fraction(2), Fraction(31, 10)),
    ],
)
def test_choices_follow_their_law_and_no_other(rate: Fraction, target: Fraction) -> None:
    def law(scale: float) -> dict[int, float]:
        weights = [
            mpmath.exp(-scale * exactly(rate) * abs(int(number) - exactly(target)))
            for number in NUMBERS
        ]
        return {at: float(weight / sum(weights)) for at, weight in enumerate(weights)}

    source = hc.SeededSource(8)
    found = Counter(exponential_choice(source, rate, NUMBERS, target) for _ in range(1000))
    assert log_likelihood_ratio(found, law(1.0))[1] > ALARM
    for wrong in (0.5, 2.0):
        assert log_likelihood_ratio(found, law(wrong))[1] < ALARM


def chances(counts: tuple[int, ...], at: tuple[float, ...], epsilon: float) -> Any:
    """The law of the chosen edges, to 50 digits."""
    users, below = sum(counts), list(itertools.accumulate(counts))[:-1]
    laws = []
    for share in at:
        scores = [abs(f - mpmath.mpf(share) * users) for f in below]
        weights = [mpmath.exp(-mpmath.mpf(epsilon) / (2 * len(at)) * score) for score in scores]
        laws.append([weight / sum(weights) for weight in weights])
    return {
        edges: mpmath.fprod(law[edge] for law, edge in zip(laws, edges, strict=True))
        for edges in itertools.product(range(len(below)), repeat=len(at))
    }


@pytest.mark.parametrize(("at", "users"), [((0.5,), 4), ((0.3, 0.5), 3), ((0.9,), 5)])
def test_choices_are_private_for_all_neighbors(at: tuple[float, ...], users: int) -> None:
    task, budget = hc.Quantiles(0, 4, at, cells=4), hc.Budget(1.5)
    p = hc.protocol("central.exponential-quantile", task, budget, hc.Crowd(users))
    assert (p.guarantee.epsilon, p.guarantee.delta, p.guarantee.exact) == (1.5, 0, False)
    worst = mpmath.mpf(0)
    for others in datasets(users - 1, 4):
        laws = [
            chances(tuple(n + (v == held) for v, n in enumerate(others)), at, 1.5)
            for held in range(4)
        ]
        for one, other in itertools.permutations(laws, 2):
            worst = max(worst, *(mpmath.log(one[edges] / other[edges]) for edges in one))
    assert 0.6 < worst <= 1.5
    counts = np.array([users - 2, 1, 0, 1])
    stated = p.estimator.release_law(hc.Tally(counts, users, p.name))
    assert stated is not None
    for edges, chance in chances(tuple(counts.tolist()), at, 1.5).items():
        assert mpmath.almosteq(
            mpmath.mpf(stated[edges].numerator) / stated[edges].denominator, chance, 1e-45
        )
    for epsilon in (0.0, 0.3, 1.0):
        assert p.curve.delta(epsilon) >= max(
            sum(max(one[e] - mpmath.exp(epsilon) * other[e], 0) for e in one)
            for one, other in itertools.permutations(laws, 2)
        )


def test_chosen_edges_are_the_answer_and_have_no_interval() -> None:
    values = np.full(300, 0.1)
    e = asked(hc.Quantiles(0, 1, cells=8), values, name="central.exponential-quantile")
    assert np.all(np.isin(e.value * 8, np.arange(1, 8)) | (e.value * 8 % 1 > 0))
    assert np.all(np.diff(e.value) >= 0)
    assert (e.interval().low.tolist(), e.interval().high.tolist()) == ([0] * 3, [1] * 3)
    assert (e.cdf_interval(0.5).low, e.cdf_interval(0.5).high) == (0, 1)
    # If one cell has everybody, all edges are equally likely.
    median = hc.Median(0, 1, cells=8)
    p = hc.protocol("central.exponential-quantile", median, hc.Budget(1), hc.Crowd(300))
    assert p.standard_error() == p.standard_error([300, *[0] * 7]) == 0.5
    source = hc.SeededSource(2)
    found = Counter(float(hc.run(p, values, source).value * 8) for _ in range(700))
    even = {float(edge): 1 / 7 for edge in range(1, 8)}
    assert log_likelihood_ratio(found, even)[1] > ALARM


def test_plans_prefer_the_protocol_with_intervals() -> None:
    for task in (hc.Median(0, 1), hc.Quantiles(0, 1)):
        found = hc.plan(task, hc.Budget(1), hc.Crowd(10_000), trust="central")
        names = [candidate.protocol for candidate in found.candidates]
        assert names == ["central.tree", "central.exponential-quantile"]
        assert found.best.expected_error == pytest.approx(18.0745 / 10_000, rel=1e-4)
        assert "share of people below" in str(found)


# Coverage ----------------------------------------------------------------------------------------

# Small crowds: evenly spread, with a gap in the middle, and all in two cells.
CROWDS = {
    "even": np.full(16, 4),
    "gap": np.array([5, 6, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0, 6, 4, 5, 5]),
    "two": np.array([0, 0, 13, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0]),
}
SHARES = (0.1, 0.25, 0.5, 0.9)


def covered(runs: int, crowd: str, confidence: float) -> dict[str, NDArray[np.float64]]:
    """How often each kind of interval contains the truth of the crowd."""
    people = CROWDS[crowd]
    users = int(people.sum())
    quantiles, whole = (
        hc.protocol("central.tree", task, hc.Budget(2), hc.Crowd(users), fanouts="4,4")
        for task in (hc.Quantiles(0, 16, SHARES, cells=16), hc.Distribution(0, 16, cells=16))
    )
    tally = hc.Tally(people, users, whole.name)
    below = np.concatenate([[0], np.cumsum(people)]) / users
    # The cell of the quantile: F_k < q ≤ F_{k+1}.
    cells = [int(np.flatnonzero((below[:-1] < q) & (q <= below[1:]))[0]) for q in SHARES]
    source, hits = hc.SeededSource(5), dict.fromkeys(("one", "all", "cdf", "band", "range"), 0.0)
    found: dict[str, Any] = hits
    for _ in range(runs):
        read, e = (p.estimate(tally, source) for p in (quantiles, whole))
        for kind, together in (("one", False), ("all", True)):
            ends = read.interval(confidence, simultaneous=together)
            inside = (ends.low <= np.array(cells)) & (np.array(cells) + 1 <= ends.high)
            found[kind] = found[kind] + (inside.all() if together else inside)
        assert isinstance(e, DistributionEstimate)
        plain = e.interval(confidence)
        found["cdf"] = found["cdf"] + ((plain.low <= below[1:-1]) & (below[1:-1] <= plain.high))
        band = e.interval(confidence, simultaneous=True)
        found["band"] += bool(np.all((band.low <= below[1:-1]) & (below[1:-1] <= band.high)))
        found["range"] += below[11] - below[3] in e.share_interval(3, 11, confidence)
    return {kind: np.atleast_1d(times) / runs for kind, times in found.items()}


def least(confidence: float, runs: int) -> float:
    """A true coverage of `confidence` falls below this once in a million times."""
    return float(binom.ppf(ALARM, runs, confidence)) / runs


def test_intervals_cover_in_few_runs() -> None:
    for kind, rate in covered(60, "gap", 0.9).items():
        assert np.all(rate >= least(0.9, 60)), kind


@pytest.mark.slow
@pytest.mark.parametrize("crowd", CROWDS)
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_intervals_cover(crowd: str, confidence: float) -> None:
    """The coverage of a share is at most 99.5 %. Whole cells may cover quantiles more often."""
    found = covered(5000, crowd, confidence)
    for kind, rate in found.items():
        assert np.all(rate >= least(confidence, 5000)), kind
    # The range of possible shares cuts off errors near its ends, but not in the middle.
    assert np.median(found["cdf"]) <= 0.995
    assert found["range"] <= 0.995


@pytest.mark.slow
@pytest.mark.parametrize("users", [40, 400])
def test_intervals_of_the_population_cover(users: int) -> None:
    task, runs, source = hc.Distribution(0, 16, cells=16), 5000, hc.SeededSource(9)
    p = hc.protocol("central.tree", task, hc.Budget(1), hc.Crowd(users), fanouts="4,4")
    shares = np.array([1, 2, 3, 0, 0, 0, 4, 8, 2, 1, 1, 0, 0, 3, 2, 1]) / 28
    below = np.concatenate([[0], np.cumsum(shares)])
    cells = np.array([np.flatnonzero((below[:-1] < q) & (q <= below[1:]))[0] for q in SHARES])
    generator = np.random.default_rng(3)
    quantiles, cdf, ranges, bands = np.zeros(4), np.zeros(15), 0, 0
    for _ in range(runs):
        people = generator.multinomial(users, shares)
        e: Any = p.estimate(hc.Tally(people, users, p.name), source)
        ends = [e.quantile_interval(share, sampling=True) for share in SHARES]
        quantiles += [
            one.low <= cell < one.high for one, cell in zip(ends, cells.tolist(), strict=True)
        ]
        plain = e.interval(sampling=True)
        cdf += (plain.low <= below[1:-1]) & (below[1:-1] <= plain.high)
        band = e.interval(sampling=True, simultaneous=True)
        bands += bool(np.all((band.low <= below[1:-1]) & (below[1:-1] <= band.high)))
        ranges += below[9] - below[2] in e.share_interval(2, 9, sampling=True)
    for hits in (quantiles, cdf, np.array([ranges, bands])):
        assert np.all(hits / runs >= least(0.95, runs))


# Commands ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("people")
def test_quantiles_by_group_from_the_command_line(headcount: Headcount) -> None:
    arguments = "estimate people.parquet --column age --low 0 --high 90 --epsilon 1 --cells 90"
    done = headcount(*arguments.split(), "--at", "0.25,50%", "--group", "number", "--json")
    assert (done.status, done.err) == (0, "")
    groups = json.loads(done.out)["groups"]
    assert [one["group"] for one in groups] == [0, 1]
    for one in groups:
        assert one["task"] == "quantiles"
        assert one["buckets"] == [0.25, 0.5]
        assert one["interval"]["low"][1] <= 45 <= one["interval"]["high"][1]
    shown = headcount(*arguments.split(), "--task", "median", "--sampling")
    assert "median" in shown.out
    assert "95 % interval of the population" in shown.out
    whole = headcount(*arguments.split(), "--task", "distribution", "--postprocess", "monotone")
    assert "post-processed: monotone" in whole.out
    for extra, said in (
        ("--task median --at 0.5", "--at must come with quantiles, got a median"),
        ("--task count", "--low must come with a sum or mean"),
        ("--at 0.5 --postprocess clip", "clip must come with a count or"),
        ("--at half", "`at` must be a share like 10% or 0.1, got 'half'"),
    ):
        refused = headcount(*arguments.split(), *extra.split())
        assert refused.status == 2
        assert said in " ".join(refused.err.split())


def test_plans_and_comparisons_of_quantiles(headcount: Headcount) -> None:
    planned = headcount(
        *["plan", "median", "--low", "0", "--high", "1", "--users", "5000", "--epsilon", "1"]
    )
    assert "central.tree" in planned.out
    assert "How far a quantile is off depends on the data" in " ".join(planned.out.split())
    options = "--protocols central --values 997 --cells 50 --runs 60 --seed 2 --json"
    compared = headcount("compare", "quantiles", *options.split())
    lines = {one["protocol"]: one["points"][0] for one in json.loads(compared.out)["series"]}
    chosen = lines["central.exponential-quantile"]
    assert chosen["low"] * 0.8 <= chosen["standard_error"] <= chosen["high"] * 1.2
    # The stated error is that of the worst edge.
    assert lines["central.tree"]["low"] <= lines["central.tree"]["standard_error"]
