"""Densities from histograms: bins, polynomials, errors, bands, and how fast the error falls."""

import json
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.stats import beta

import headcount as hc
from enumeration import truth_of
from headcount.core.tasks.histogram import Histogram
from headcount.protocols.local.density_histogram import LaplaceBins

LOCAL, SHUFFLE = "local.density-histogram", "shuffle.density-histogram"
# Every protocol, with its options.
WAYS: list[tuple[str, dict[str, Any]]] = [
    ("central.geometric", {}),
    ("central.laplace", {}),
    ("central.sum-zero", {}),
    (LOCAL, {}),
    (LOCAL, {"calibration": "paper"}),
    (LOCAL, {"histogram": "local.k-ary"}),
    (LOCAL, {"histogram": "local.hadamard"}),
    (SHUFFLE, {}),
    (SHUFFLE, {"calibration": "paper"}),
    (SHUFFLE, {"histogram": "shuffle.zero-exact-histogram"}),
    (SHUFFLE, {"histogram": "shuffle.hashed-histogram"}),
]
every_way = pytest.mark.parametrize(
    ("name", "options"), WAYS, ids=["-".join([name, *o.values()]) for name, o in WAYS]
)


def build(
    name: str, task: hc.Density, users: int, epsilon: float = 1.0, **options: Any
) -> hc.Protocol:
    delta = 1e-4 if name.startswith("shuffle") else 0.0
    return hc.protocol(name, task, hc.Budget(epsilon, delta), hc.Crowd(users), **options)


def in_bins(task: hc.Density, counts: Any) -> dict[float, int]:
    """These numbers of people, in the middles of equal bins."""
    middles = task.low + (task.high - task.low) * (np.arange(len(counts)) + 0.5) / len(counts)
    return dict(zip(middles.tolist(), map(int, counts), strict=True))


def as_values(people: dict[float, int]) -> np.ndarray[Any, Any]:
    return np.repeat(list(people), list(people.values()))


def matrix(task: hc.Density, bins: int, order: int) -> np.ndarray[Any, Any]:
    """The weight of every bin at every place of the grid, computed in another way: as the
    derivative of the polynomial that interpolates the cumulative heights at the edges.
    """
    rows = np.zeros((task.points, bins))
    for row, place in zip(rows, (np.arange(task.points) + 0.5) / task.points, strict=True):
        windows = range(bins - order + 1)
        first = min(windows, key=lambda start: abs(start + order / 2 - place * bins))
        edges = range(order + 1)
        for height in range(order):
            slope = 0.0
            for edge in edges[height + 1 :]:
                roots = [other for other in edges if other != edge]
                basis = np.poly(roots) / math.prod(edge - root for root in roots)
                slope += float(np.polyval(np.polyder(basis), place * bins - first))
            row[first + height] = slope
    return rows


# Bins and polynomials -----------------------------------------------------------------------------


def test_bins_share_the_range_and_each_holds_its_lower_end() -> None:
    protocol = build("central.geometric", hc.Density(-3, 5), 1, bins=8)
    assert protocol.parameters["bins"] == 8

    def bin_of(value: float) -> int:
        (((message, _),),) = protocol.law(value) or {}
        assert isinstance(message, int)
        return message

    edges = [-3.0 + k for k in range(9)]
    assert [bin_of(edge) for edge in edges] == [0, 1, 2, 3, 4, 5, 6, 7, 7]
    below = [bin_of(edge - 1e-12) for edge in edges[1:]]
    assert below == [0, 1, 2, 3, 4, 5, 6, 7]
    values = np.sort(np.random.default_rng(1).uniform(-3, 5, 5000))
    sent = protocol.randomize(values, hc.SeededSource(1)).payload
    assert np.all(np.diff(sent.astype(int)) >= 0)
    assert np.array_equal(sent, [bin_of(value) for value in values])
    told = protocol.simulate(dict.fromkeys(values.tolist(), 1), hc.SeededSource(1))
    assert np.array_equal(told.counts, np.bincount(sent, minlength=8))


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("bins", [4, 5, 11])
def test_polynomials_are_found_again(order: int, bins: int) -> None:
    # A polynomial of degree r − 1, positive between 0 and 1: its integrals over bins, as whole
    # people.
    coefficients = [Fraction(7), Fraction(3), Fraction(-2), Fraction(1)][:order]
    integrals = [
        sum(
            c * (Fraction(b + 1, bins) ** (m + 1) - Fraction(b, bins) ** (m + 1)) / (m + 1)
            for m, c in enumerate(coefficients)
        )
        for b in range(bins)
    ]
    scale = math.lcm(*(share.denominator for share in integrals))
    task = hc.Density(-3, 5, float(order), points=37)
    protocol = build("central.geometric", task, 1, bins=bins)
    people = in_bins(task, [share * scale for share in integrals])
    places = (np.arange(37) + 0.5) / 37
    heights = sum(float(c) * places**m for m, c in enumerate(coefficients))
    wanted = heights / float(sum(integrals)) / 8
    assert truth_of(protocol, people) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("smoothness", [0.5, 1.0, 1.5, 2.0, 2.5, 4.0])
def test_smoothness_says_which_polynomials(smoothness: float) -> None:
    task = hc.Density(-3, 5, smoothness, points=23)
    counts = np.array([5, 0, 17, 8, 40, 2, 28])
    protocol = build("central.geometric", task, 1, bins=7)
    wanted = matrix(task, 7, math.ceil(smoothness)) @ (counts / 100) * 7 / 8
    assert truth_of(protocol, in_bins(task, counts)) == pytest.approx(wanted, abs=1e-12)


def test_heights_of_bins_integrate_to_one() -> None:
    task = hc.Density(-3, 5, points=60)
    protocol = build("central.geometric", task, 1, bins=6)
    counts = np.array([1, 2, 3, 4, 0, 10])
    found = truth_of(protocol, in_bins(task, counts))
    assert found == pytest.approx(np.repeat(counts / 20 * 6 / 8, 10), rel=1e-12)
    assert found.mean() * 8 == pytest.approx(1, rel=1e-12)


def test_fewer_bins_than_coefficients_take_what_there_is() -> None:
    task = hc.Density(0, 1, 4, points=9)
    protocol = build("central.geometric", task, 1, bins=2)
    wanted = matrix(task, 2, 2) @ [0.25, 0.75] * 2
    assert truth_of(protocol, {0.1: 1, 0.9: 3}) == pytest.approx(wanted)


# How many bins ------------------------------------------------------------------------------------


@every_way
def test_the_number_of_bins_depends_on_no_range(name: str, options: dict[str, Any]) -> None:
    one, other = (build(name, hc.Density(*ends, 2), 5000, **options) for ends in ((0, 1), (-3, 5)))
    assert one.parameters == other.parameters
    assert one.parameters["bins"] >= 3
    assert one.standard_error() == pytest.approx(8 * other.standard_error())


@pytest.mark.parametrize(("name", "smoothness"), [(LOCAL, 1.0), (LOCAL, 2.0), (SHUFFLE, 1.0)])
def test_the_number_of_bins_has_the_least_error(name: str, smoothness: float) -> None:
    """The error for 1 − cos(2πx), from privacy noise of evenly spread people and from sampling."""
    users = 20_000
    task = hc.Density(0, 1, smoothness, points=5040)
    places = (np.arange(5040) + 0.5) / 5040

    def error(protocol: hc.Protocol) -> float:
        bins = int(protocol.parameters["bins"])
        edges = np.arange(bins + 1) / bins
        shares = np.diff(edges - np.sin(2 * math.pi * edges) / (2 * math.pi))
        smoothed = truth_of(protocol, in_bins(task, shares * 10**12))
        even = in_bins(task, [users // bins] * bins)
        noise = protocol.standard_error(even) ** 2
        bias = np.mean((smoothed - 1 + np.cos(2 * math.pi * places)) ** 2)
        return float(bias + noise + bins / users)

    chosen = build(name, task, users)
    found = int(chosen.parameters["bins"])
    others = [build(name, task, users, bins=round(found * part)) for part in (0.7, 0.85, 1.2, 1.5)]
    # For polynomials the formula is rough, and the largest noise at a place is above the average.
    rough = 1.002 if smoothness == 1 else 1.3
    assert error(chosen) <= rough * min(map(error, others))


def test_the_paper_has_its_own_number_of_bins() -> None:
    for users, epsilon, smoothness, wanted in (
        (100_000, 1.0, 1.0, 18),
        (100_000, 0.5, 1.0, 13),
        (100_000, 1.0, 2.0, 7),
        (3, 1.0, 1.0, 2),
    ):
        task = hc.Density(0, 1, smoothness)
        protocol = build(LOCAL, task, users, epsilon, calibration="paper")
        assert protocol.parameters["bins"] == wanted
    assert build(LOCAL, task, 100_000, calibration="paper", bins=5).parameters["bins"] == 5


def test_the_default_oracle_is_the_best() -> None:
    for bins, epsilon in ((2, 1.0), (6, 0.5), (40, 2.0), (300, 1.0)):
        budget, crowd = hc.Budget(epsilon), hc.Crowd(12_000)
        errors = {
            name: hc.protocol(name, Histogram(bins), budget, crowd).standard_error(
                [12_000 // bins] * bins
            )
            for name in hc.protocol_names(Histogram(bins), hc.Trust.LOCAL)
        }
        assert errors["local.subset"] <= min(errors.values()) * (1 + 1e-12)


def test_many_bins_and_points() -> None:
    task = hc.Density(0, 1, 3, points=2**16)
    protocol = build(LOCAL, task, 10**6, bins=4096)
    answer = protocol.estimate(protocol.simulate({0.3: 10**6}, hc.SeededSource(1)))
    assert answer.interval(sampling=True, simultaneous=True).low.shape == (2**16,)
    assert math.isfinite(protocol.standard_error())


# Errors and bands ---------------------------------------------------------------------------------


def shares_of(protocol: hc.Protocol) -> np.ndarray[Any, Any]:
    """A skewed population, as shares of the protocol's bins."""
    inner = protocol if "bins" in protocol.parameters else vars(protocol)["_inner"]
    bins = int(inner.parameters["bins"])
    found: np.ndarray[Any, Any] = np.diff(beta(2, 3).cdf(np.linspace(0, 1, bins + 1)))
    return found


@pytest.mark.slow
@every_way
@pytest.mark.parametrize("smoothness", [1.0, 3.0])
def test_estimates_have_the_stated_mean_and_error(
    name: str, options: dict[str, Any], smoothness: float
) -> None:
    task, users, runs = hc.Density(-3, 5, smoothness, points=11), 600, 400
    protocol = build(name, task, users, bins=6, **options)
    people = in_bins(task, np.random.default_rng(1).multinomial(users, shares_of(protocol)))
    truth, values = truth_of(protocol, people), as_values(people)
    source = hc.SeededSource(5)
    sent = [hc.run(protocol, values, source) for _ in range(runs)]
    simulated = [protocol.estimate(protocol.simulate(people, source), source) for _ in range(runs)]
    for found in (sent, simulated):
        errors = np.array([answer.value - truth for answer in found])
        stated = np.sqrt(np.mean([answer.standard_error**2 for answer in found], axis=0))
        assert np.max(np.abs(errors.mean(axis=0)) / stated) * math.sqrt(runs) < 4.5
        assert np.all(np.abs(np.mean(errors**2, axis=0) / stated**2 - 1) < 0.45)
        assert np.mean(errors**2) / np.mean(stated**2) == pytest.approx(1, abs=0.13)
    # The error for these data, at the worst place.
    assert protocol.standard_error(people) == pytest.approx(stated.max(), rel=0.05)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_bins_that_are_correlated_have_their_exact_error(order: int) -> None:
    task, counts = hc.Density(0, 2, float(order), points=13), np.array([100, 0, 40, 60])
    protocol = build(LOCAL, task, 200, histogram="local.k-ary", bins=4)
    laws = [protocol.law(value) or {} for value in in_bins(task, counts)]
    chances = np.array([[float(law[((b, 1),)]) for b in range(4)] for law in laws])
    covariance = sum(
        people * (np.diag(row) - np.outer(row, row))
        for people, row in zip(counts, chances, strict=True)
    )
    slope = chances[0, 0] - chances[0, 1]
    weights = matrix(task, 4, order) * 4 / (2 * 200 * slope)
    variance = np.einsum("tb,bc,tc->t", weights, covariance, weights)
    stated = protocol.standard_error(in_bins(task, counts))
    assert stated == pytest.approx(math.sqrt(variance.max()), rel=1e-9)
    # The worst data have everybody in one bin.
    worst = max(
        protocol.standard_error(in_bins(task, 200 * row)) for row in np.eye(4, dtype=np.int64)
    )
    assert protocol.standard_error() == pytest.approx(worst, rel=1e-9)
    assert worst > stated


@pytest.mark.parametrize(
    ("name", "smoothness", "users", "options"),
    [
        pytest.param(LOCAL, 2.0, 500, {"histogram": "local.k-ary"}, marks=pytest.mark.slow),
        pytest.param(
            LOCAL, 1.0, 90, {"histogram": "local.unary-optimized"}, marks=pytest.mark.slow
        ),
        pytest.param(LOCAL, 1.0, 90, {"histogram": "local.hadamard"}, marks=pytest.mark.slow),
        pytest.param(LOCAL, 2.0, 5000, {"calibration": "paper"}, marks=pytest.mark.slow),
        pytest.param(SHUFFLE, 1.0, 2000, {}, marks=pytest.mark.slow),
        (SHUFFLE, 2.0, 60, {}),
        pytest.param("central.laplace", 1.0, 2000, {"epsilon": 4.0}, marks=pytest.mark.slow),
        ("central.laplace", 4.0, 2000, {"epsilon": 30.0}),
        ("central.geometric", 2.0, 60, {}),
        ("central.sum-zero", 2.0, 60, {}),
    ],
)
def test_bands_cover(name: str, smoothness: float, users: int, options: dict[str, Any]) -> None:
    task = hc.Density(-3, 5, smoothness, points=20)
    protocol = build(name, task, users, **options)
    source, generator = hc.SeededSource(3), np.random.default_rng(3)
    shares = shares_of(protocol)
    population = truth_of(protocol, in_bins(task, shares * 10**12))
    hits: dict[str, list[Any]] = {kind: [] for kind in ("crowd", "all", "population", "all of it")}
    for _ in range(1000):
        people = in_bins(task, generator.multinomial(users, shares))
        answer = protocol.estimate(protocol.simulate(people, source), source)
        for sampling, target, each, every in (
            (False, truth_of(protocol, people), "crowd", "all"),
            (True, population, "population", "all of it"),
        ):
            band = answer.interval(0.95, sampling=sampling)
            hits[each].append((band.low <= target) & (target <= band.high))
            wide = answer.interval(0.95, sampling=sampling, simultaneous=True)
            hits[every].append(target in wide)
    # Few people are discrete, so bands are a little too wide.
    most = 0.975 if users < 100 else 0.965
    assert 0.945 < np.mean(hits["crowd"]) < most
    assert 0.945 < np.mean(hits["population"]) < most
    assert np.min(np.mean(hits["crowd"], axis=0)) > 0.925
    assert np.min(np.mean(hits["population"], axis=0)) > 0.925
    # The bound is 0.95 minus four standard deviations of 1000 runs.
    assert np.mean(hits["all"]) > 0.922
    assert np.mean(hits["all of it"]) > 0.922


def test_sampling_error_is_that_of_people_drawn() -> None:
    task, users = hc.Density(-3, 5, 2, points=15), 10**6
    protocol = build("central.geometric", task, users, bins=5)
    shares = np.array([0.3, 0.1, 0.05, 0.35, 0.2])
    answer = protocol.estimate(protocol.simulate(in_bins(task, shares * users), hc.SeededSource(1)))
    weights = matrix(task, 5, 2) * 5 / 8
    covariance = (np.diag(shares) - np.outer(shares, shares)) / users
    wanted = np.sqrt(np.einsum("tb,bc,tc->t", weights, covariance, weights))
    assert answer.sampling_error == pytest.approx(wanted, rel=1e-3)
    # Both errors are normal here, and independent.
    band, deviations = answer.interval(0.9, sampling=True), 1.6448536
    half = (band.high - band.low) / 2
    noise = (answer.interval(0.9).high - answer.interval(0.9).low) / 2
    assert half == pytest.approx(np.hypot(noise, deviations * wanted), rel=1e-3)


def test_a_band_for_all_places_counts_different_numbers() -> None:
    for smoothness, bins, numbers in ((1.0, 4, 4), (1.0, 100, 20), (2.0, 4, 20)):
        task = hc.Density(0, 1, smoothness, points=20)
        protocol = build(LOCAL, task, 1000, histogram="local.unary-optimized", bins=bins)
        answer = protocol.estimate(protocol.simulate({0.5: 1000}, hc.SeededSource(1)))
        wide, each = answer.interval(0.9, simultaneous=True), answer.interval(1 - 0.1 / numbers)
        assert wide.high == pytest.approx(each.high, rel=1e-12)


def test_answers_as_json_and_as_densities() -> None:
    task = hc.Density(0, 2, points=12)
    answer = hc.run(build(LOCAL, task, 500), [0.5] * 500, hc.SeededSource(1))
    told = json.loads(json.dumps(answer.to_dict(sampling=True, simultaneous=True)))
    assert len(told["sampling_error"]) == len(told["value"]) == 12
    assert told["interval"]["of"] == "population"
    proper = answer.postprocess("density")
    assert proper.value.min() >= 0
    assert proper.value.mean() * 2 == pytest.approx(1)


# How fast the error falls -------------------------------------------------------------------------

POPULATIONS: dict[float, Any] = {
    # A tent, which is Lipschitz, and a bell with two derivatives: densities and distributions.
    1.0: (
        lambda x: 2 - 4 * abs(x - 0.5),
        lambda x: np.where(x < 0.5, 2 * x**2, 1 - 2 * (1 - x) ** 2),
    ),
    2.0: (beta(3, 3).pdf, beta(3, 3).cdf),
}


def integrated_errors(name: str, smoothness: float, users: int) -> tuple[float, float, float]:
    """The integrated squares of bias, privacy noise and sampling. Only the noise is as stated."""
    density, cumulated = POPULATIONS[smoothness]
    task = hc.Density(0, 1, smoothness, points=720)
    protocol = build(name, task, users)
    bins = int(protocol.parameters["bins"])
    shares = np.diff(cumulated(np.linspace(0, 1, bins + 1)))
    weights = matrix(task, bins, math.ceil(smoothness)) * bins
    bias = weights @ shares - density((np.arange(720) + 0.5) / 720)
    drawn = (weights**2 @ shares - (weights @ shares) ** 2) / users
    people = in_bins(task, np.maximum(shares * users, 0))
    people[next(iter(people))] += users - sum(people.values())
    answer = protocol.estimate(protocol.simulate(people, hc.SeededSource(1)), hc.SeededSource(2))
    noise = answer.standard_error**2
    return float(np.mean(bias**2)), float(np.mean(noise)), float(np.mean(drawn))


@pytest.mark.parametrize("smoothness", [1.0, 2.0])
@pytest.mark.parametrize("name", [LOCAL, SHUFFLE, "central.laplace"])
def test_the_error_falls_as_fast_as_it_should(name: str, smoothness: float) -> None:
    crowds = [10**power for power in range(3, 8)]
    totals = [sum(integrated_errors(name, smoothness, users)) for users in crowds]
    slope = np.polyfit(np.log(crowds), np.log(totals), 1)[0]
    rate = -2 * smoothness / (2 * smoothness + (2 if name == LOCAL else 1))
    assert slope == pytest.approx(rate, rel=0.1)


def test_the_error_is_what_it_is_said_to_be() -> None:
    task, users, runs = hc.Density(0, 1, 1, points=720), 10_000, 100
    source, generator = hc.SeededSource(1), np.random.default_rng(1)
    protocol = build(LOCAL, task, users)
    density = POPULATIONS[1.0][0]((np.arange(720) + 0.5) / 720)
    squares = [
        np.mean(
            (hc.run(protocol, generator.triangular(0, 0.5, 1, users), source).value - density) ** 2
        )
        for _ in range(runs)
    ]
    assert np.mean(squares) == pytest.approx(sum(integrated_errors(LOCAL, 1.0, users)), rel=0.08)


# The paper's noise --------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [6.0, 9.0, 16.0])
def test_noise_on_two_bins_keeps_its_epsilon_exactly(epsilon: float) -> None:
    oracle = LaplaceBins(Histogram(2), hc.Budget(epsilon), hc.Crowd(10))
    first, second = (oracle.law(bucket) or {} for bucket in (0, 1))
    assert sum(first.values()) == sum(second.values()) == 1
    assert first.keys() == second.keys()
    scale = 2**256
    weights = [(int(first[sent] * scale), int(second[sent] * scale)) for sent in first]
    assert all(
        Fraction(a, scale) == first[sent] for (a, _), sent in zip(weights, first, strict=True)
    )
    ratio = max(max(Fraction(a, b), Fraction(b, a)) for a, b in weights)
    worst = mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)
    assert worst <= mpmath.mpf(oracle.local_epsilon) <= epsilon
    assert worst > epsilon * (1 - 1e-9)
    assert oracle.guarantee.epsilon == oracle.local_epsilon
    for part in (0.0, 0.3, 0.9):
        least = part * epsilon
        delta = sum(max(mpmath.mpf(a) - mpmath.exp(least) * b, 0) / scale for a, b in weights)
        assert float(delta) == pytest.approx(oracle.curve.delta(least), rel=1e-9, abs=1e-15)
        assert delta <= oracle.curve.delta(least)
    assert oracle.curve.delta(oracle.local_epsilon) == 0


def test_noise_on_bins_follows_its_law() -> None:
    oracle = LaplaceBins(Histogram(2), hc.Budget(8.0), hc.Crowd(10))
    people = 100_000
    sent = oracle.randomize([1] * people, hc.SeededSource(1)).payload
    found = Counter(map(tuple, sent.tolist()))
    law: dict[Any, float] = {
        bundle[0][0]: float(chance) for bundle, chance in (oracle.law(1) or {}).items()
    }
    assert found.keys() <= law.keys()
    common = [message for message, chance in law.items() if people * chance > 10]
    square = sum((found[m] - people * law[m]) ** 2 / (people * law[m]) for m in common)
    assert abs(square - len(common)) < 6 * math.sqrt(2 * len(common))
    mean = [sum(message[at] * chance for message, chance in law.items()) for at in (0, 1)]
    assert np.array(mean) - oracle.parameters["reach"] == pytest.approx([0, 1], abs=1e-12)


def test_noise_on_bins_is_simulated_as_it_is_sent() -> None:
    oracle = LaplaceBins(Histogram(3), hc.Budget(1.0), hc.Crowd(50))
    source, counts = hc.SeededSource(1), [30, 0, 20]
    values = np.repeat(np.arange(3), counts)
    sent = np.array([hc.run(oracle, values, source).value for _ in range(1500)])
    simulated = np.array(
        [oracle.estimate(oracle.simulate(counts, source)).value for _ in range(1500)]
    )
    stated = oracle.standard_error()
    a = math.exp(-0.5)
    assert stated == pytest.approx(math.sqrt(50 * 2 * a / (1 - a) ** 2), rel=1e-9)
    for found in (sent, simulated):
        assert np.max(np.abs(found.mean(axis=0) - counts)) < 4.5 * stated / math.sqrt(1500)
        assert found.std(axis=0) == pytest.approx(np.full(3, stated), rel=0.08)
        assert np.max(np.abs(np.corrcoef(found.T)[np.triu_indices(3, 1)])) < 0.12


# Options, and what runs inside --------------------------------------------------------------------


def test_options_that_are_refused() -> None:
    task = hc.Density(0, 1)
    for bins in (1, 4097, 2.5, "many"):
        with pytest.raises(hc.InvalidParameter, match="`bins` must be"):
            build(LOCAL, task, 100, bins=bins)
    assert build(LOCAL, task, 100, bins=3.0).parameters["bins"] == 3
    for name in ("shuffle.fake-users", "central.laplace", "local.one-bit-mean", LOCAL):
        with pytest.raises(hc.InvalidParameter, match="`histogram` must be one of local"):
            build(LOCAL, task, 100, histogram=name)
    for name in ("local.k-ary", "central.geometric", "shuffle.unary-sum", SHUFFLE):
        with pytest.raises(hc.InvalidParameter, match="`histogram` must be one of shuffle"):
            build(SHUFFLE, task, 100, histogram=name)
    with pytest.raises(hc.InvalidParameter, match="does not withhold small bins"):
        build(SHUFFLE, task, 100, histogram="shuffle.sample-threshold")
    with pytest.raises(hc.InvalidParameter, match="`histogram` must be one of"):
        build(LOCAL, task, 100, histogram="local.guess")
    with pytest.raises(hc.InvalidParameter, match="left out for the paper's calibration"):
        build(LOCAL, task, 100, histogram="local.k-ary", calibration="paper")
    with pytest.raises(hc.Infeasible, match="needs delta above 0"):
        hc.protocol(SHUFFLE, task, hc.Budget(1), hc.Crowd(100))
    with pytest.raises(hc.InvalidValue):
        build(LOCAL, task, 2).randomize([0.5, 1.5], hc.SeededSource(1))


@every_way
def test_privacy_is_that_of_what_runs_inside(name: str, options: dict[str, Any]) -> None:
    protocol = build(name, hc.Density(0, 1), 3000, bins=5, **options)
    inside = options.get("histogram") or (name if name.startswith("central") else None)
    if inside is None:
        inside = "shuffle.fake-users" if name == SHUFFLE else "local.subset"
    if name == LOCAL and options.get("calibration") == "paper":
        bins: hc.Protocol = LaplaceBins(Histogram(5), protocol.budget, protocol.crowd)
    else:
        chosen = {"calibration": options.get("calibration", "exact")}
        bins = hc.protocol(inside, Histogram(5), protocol.budget, protocol.crowd, **chosen)
    assert protocol.guarantee == bins.guarantee
    assert protocol.guarantee.trust == protocol.trust
    assert protocol.local_epsilon == bins.local_epsilon
    assert protocol.messages_per_user == bins.messages_per_user
    assert protocol.alphabet == bins.alphabet
    assert protocol.slots == bins.slots
    assert protocol.curve.delta(0.5) == bins.curve.delta(0.5)
    assert dict(protocol.parameters) == {"bins": 5, **bins.parameters}
    for slots in (1, 3):
        assert protocol.randomizer.overflow(slots) == bins.randomizer.overflow(slots)
    bundles = [protocol.bundle(value, hc.SeededSource(1)) for value in (0.1, 0.9)]
    assert [len(bundle.payload) for bundle in bundles] == [protocol.slots] * 2


def test_shuffled_local_densities() -> None:
    task, users = hc.Density(-3, 5, 2, points=15), 20_000
    protocol = build("shuffle.amplified", task, users)
    inside = hc.protocol(
        LOCAL, task, hc.Budget(protocol.parameters["local_epsilon"]), hc.Crowd(users)
    )
    assert protocol.parameters["local_epsilon"] > 3
    assert protocol.guarantee.delta <= 1e-4
    assert not protocol.guarantee.exact  # by clones
    people = in_bins(task, np.full(20, 1000))
    assert np.array_equal(
        truth_of(protocol, people),
        truth_of(inside, people),
    )
    assert protocol.standard_error(people) == inside.standard_error(people)
    answer = hc.run(protocol, as_values(people), hc.SeededSource(1))
    assert truth_of(protocol, people) in answer.interval(0.9999, simultaneous=True)
    assert answer.sampling_error.shape == (15,)
