"""Densities by Fourier coefficients of random signs.

The judges are rational numbers, mpmath with 50 digits, and enumeration of all rounded waves and all
messages.
"""

import math
from collections import Counter, defaultdict
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, permutations, product
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import headcount as hc
from enumeration import datasets, exactly, hockey_stick, log_likelihood_ratio, truth_of
from headcount.protocols.local import density_series
from headcount.randomness import totals

ALARM = 1e-6
NAME = "local.density-series"
EPSILONS = [0.1, 1.0, 3.0]
PLACES = [0.0, 0.04, 0.125, 0.25, 0.3, 0.5, 0.77, 1.0]


def build(
    epsilon: float = 1.0, users: int = 1, task: hc.Density | None = None, **options: Any
) -> Any:
    chosen = task or hc.Density(0, 1, points=16)
    return hc.protocol(NAME, chosen, hc.Budget(epsilon), hc.Crowd(users), **options)


def phi(j: int, places: Any) -> NDArray[np.float64]:
    """The waves as the paper writes them, with j from 1 on."""
    turns = 2 * np.pi * math.ceil(j / 2) * np.asarray(places, dtype=np.float64)
    return math.sqrt(2) * (np.cos(turns) if j % 2 else np.sin(turns))


def series(terms: int, places: Any) -> NDArray[np.float64]:
    """The waves, with a row for each."""
    return np.array([phi(j, places) for j in range(1, terms + 1)])


def lie(epsilon: float) -> Fraction:
    """The least number over 2^64 that is at least 1/(1 + e^ε)."""
    return Fraction(int(mpmath.ceil(mpmath.mpf(2) ** 64 / (1 + mpmath.exp(epsilon)))), 2**64)


def amplitude(terms: int, epsilon: float) -> float:
    """The factor for a mean sign, from all sums of k signs."""
    sums = [abs(sum(signs)) for signs in product((-1, 1), repeat=terms)]
    return math.sqrt(2) * float(Fraction(terms * len(sums), sum(sums)) / (1 - 2 * lie(epsilon)))


def signs_of(message: Any, terms: int) -> tuple[int, ...]:
    """The z of a message."""
    parts = message if isinstance(message, tuple) else (message,)
    return tuple(2 * (parts[j // 8] >> (j % 8) & 1) - 1 for j in range(terms))


def law_of(protocol: Any, value: float) -> dict[tuple[int, ...], Fraction]:
    terms = int(protocol.parameters["terms"])
    return {signs_of(sent, terms): chance for ((sent, _),), chance in protocol.law(value).items()}


def law_given(v: tuple[int, ...], epsilon: float) -> dict[tuple[int, ...], Fraction]:
    """The law of z given the rounded waves, which are signs."""
    share, terms = lie(epsilon), len(v)
    return {
        z: (1 - share if sum(a * b for a, b in zip(z, v, strict=True)) > 0 else share)
        / 2 ** (terms - 1)
        for z in product((-1, 1), repeat=terms)
    }


def mixed_law(place: float, terms: int, epsilon: float) -> dict[tuple[int, ...], mpmath.mpf]:
    """The law of z for a number: a mixture over all roundings of its waves, to 50 digits."""
    out: dict[tuple[int, ...], mpmath.mpf] = defaultdict(mpmath.mpf)
    for v in product((-1, 1), repeat=terms):
        chance = mpmath.mpf(1)
        for j, sign in enumerate(v, start=1):
            turns = 2 * mpmath.pi * ((j + 1) // 2) * mpmath.mpf(place)
            chance *= (1 + sign * (mpmath.cos(turns) if j % 2 else mpmath.sin(turns))) / 2
        for z, given in law_given(v, epsilon).items():
            out[z] += chance * exactly(given)
    return out


def tally_of(z: Any, protocol: Any) -> hc.Tally:
    """The tally of one person who sent these signs."""
    return hc.Tally((np.array(z) + 1) // 2, 1, protocol.name)


def fix_waves(monkeypatch: pytest.MonkeyPatch, v: tuple[int, ...]) -> None:
    """Make everybody's waves these signs, for any number, so that nothing is rounded."""
    monkeypatch.setattr(
        density_series,
        "waves",
        lambda places, terms: (np.full(len(places), float(sign)) for sign in v),
    )


# The law and its privacy


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("terms", [1, 3, 5])
def test_law_is_the_mixture_over_all_rounded_waves(terms: int, epsilon: float) -> None:
    protocol = build(epsilon, terms=terms)
    for place in PLACES:
        law, mixed = law_of(protocol, place), mixed_law(place, terms, epsilon)
        assert sum(law.values()) == 1
        assert law.keys() == mixed.keys()
        assert all(abs(exactly(law[z]) / mixed[z] - 1) < 1e-13 for z in law)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("terms", [1, 3, 5, 9])
def test_ratio_for_rounded_waves_is_that_of_the_budget(
    terms: int, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol = build(epsilon, terms=terms)
    for v in list(product((-1, 1), repeat=terms))[:: max(1, 2**terms // 5)]:
        fix_waves(monkeypatch, v)
        law = law_of(protocol, 0.4)
        assert law == law_given(v, epsilon)
        ratio = exactly(max(law.values()) / min(law.values()))
        assert ratio <= mpmath.exp(mpmath.mpf(epsilon))
        assert ratio >= mpmath.exp(mpmath.mpf(epsilon)) * (1 - mpmath.mpf("1e-9"))
        assert mpmath.log(ratio) <= protocol.local_epsilon


@pytest.mark.parametrize("epsilon", [*EPSILONS, 20.0])
@pytest.mark.parametrize("terms", [1, 3, 5])
def test_budget_and_curve_hold_for_all_pairs_of_numbers(terms: int, epsilon: float) -> None:
    protocol = build(epsilon, terms=terms)
    laws = [law_of(protocol, place) for place in PLACES]
    ratios = [exactly(one[z] / other[z]) for one, other in permutations(laws, 2) for z in one]
    assert max(ratios) <= mpmath.exp(mpmath.mpf(epsilon))
    assert max(ratios) <= mpmath.exp(mpmath.mpf(protocol.guarantee.epsilon))
    assert protocol.guarantee.epsilon <= epsilon
    assert protocol.guarantee.delta == 0
    assert not protocol.guarantee.exact
    # At 0, ¼ and ½, up to three waves have their largest size.
    assert mpmath.log(max(ratios)) >= (1 - 1e-9 if terms <= 3 else 0.95) * mpmath.mpf(epsilon)
    for asked in (0.0, 0.3 * epsilon, 0.9 * epsilon, epsilon):
        worst = max(hockey_stick(one, other, asked) for one, other in permutations(laws, 2))
        stated = protocol.curve.delta(asked)
        assert worst <= stated
        if terms == 1:
            assert stated <= worst * (1 + 1e-9) + 1e-14
        elif asked < epsilon:
            assert worst < 0.7 * stated


@pytest.mark.parametrize("terms", [0, 2, 8, 1024, 1025, -1, 2.5, True, "3"])
def test_an_even_number_of_terms_and_other_nonsense_is_refused(terms: Any) -> None:
    with pytest.raises(hc.InvalidParameter, match="`terms` must be"):
        build(terms=terms)


def test_a_whole_number_of_terms_may_be_a_float() -> None:
    assert build(terms=5.0).estimator.tally_size == 5
    assert isinstance(build(terms=5.0).terms, int)


def test_an_even_number_of_terms_would_not_be_private() -> None:
    """If signs may balance and both halves include these ties, a ratio is infinite or too large."""
    v, share = (1, 1), lie(1.0)
    halves = [
        [z for z in product((-1, 1), repeat=2) if sign * sum(np.multiply(z, v)) >= 0]
        for sign in (1, -1)
    ]
    tied = (1, -1)
    chance = (1 - share) / len(halves[0]) + share / len(halves[1])
    assert all(tied in half for half in halves)
    assert exactly(chance / (share / len(halves[1]))) > mpmath.e * (1 + 1e-9)


def test_what_is_too_long_to_list_is_not_listed() -> None:
    assert len(build(terms=13).law(0.2)) == 2**13
    assert build(terms=15).law(0.2) is None


# Estimates


@pytest.mark.parametrize("terms", [1, 3, 5, 7])
def test_amplitude_is_that_of_all_sums_of_signs(terms: int) -> None:
    for epsilon in EPSILONS:
        assert build(epsilon, terms=terms).estimator.amplitude == pytest.approx(
            amplitude(terms, epsilon), rel=1e-13
        )
    # The mean of a sign lies between −1 and 1.
    assert build(20.0, terms=terms).estimator.amplitude > 1.4


@pytest.mark.parametrize("task", [hc.Density(0, 1, points=7), hc.Density(-3, 5, points=10)])
@pytest.mark.parametrize("terms", [1, 3, 5])
def test_estimates_are_unbiased_with_the_stated_variance(terms: int, task: hc.Density) -> None:
    """For each number, all messages are listed. In crowds, the variances of people add up."""
    epsilon, span = 1.3, task.high - task.low
    protocol = build(epsilon, 1, task, terms=terms)
    on_grid = series(terms, (task.grid - task.low) / span)
    variances = []
    for place in PLACES:
        value = task.low + span * place
        waves = series(terms, [place])[:, 0]
        outcomes = [
            (float(chance), np.array(z), protocol.estimate(tally_of(z, protocol)).value)
            for z, chance in law_of(protocol, value).items()
        ]
        signs = sum(chance * z for chance, z, _ in outcomes)
        assert amplitude(terms, epsilon) * signs == pytest.approx(waves, abs=1e-12)
        mean = sum(chance * found for chance, _, found in outcomes)
        truth = (1 + waves @ on_grid) / span
        assert mean == pytest.approx(truth, abs=1e-12)
        assert truth_of(protocol, {value: 3}) == pytest.approx(truth, abs=1e-12)
        variances.append(sum(chance * (found - truth) ** 2 for chance, _, found in outcomes))
        assert protocol.standard_error({value: 1}) ** 2 == pytest.approx(variances[-1].max())
        # A stated error does not depend on the numbers: it is that of the worst data.
        stated = protocol.estimate(tally_of((1,) * terms, protocol)).standard_error
        assert np.all(stated**2 >= variances[-1] * (1 - 1e-12) - 1e-30)
        assert stated.max() == pytest.approx(protocol.standard_error())
    counts = [5, 0, 2, 9, 1, 4, 3, 6]
    held = {task.low + span * place: n for place, n in zip(PLACES, counts, strict=True)}
    total = sum(n * one for n, one in zip(counts, variances, strict=True)) / sum(counts) ** 2
    assert protocol.standard_error(held) ** 2 == pytest.approx(total.max())
    truths = [n * truth_of(protocol, {x: 1}) for x, n in held.items()]
    assert truth_of(protocol, held) == pytest.approx(sum(truths) / sum(counts))


def test_worst_standard_error_is_reached() -> None:
    protocol = build(2.0, 50, terms=3)
    found = [protocol.standard_error({place: 50}) for place in np.linspace(0, 1, 400)]
    assert 0.9999 * protocol.standard_error() < max(found) <= protocol.standard_error()


def test_stated_error_is_that_of_people_drawn_from_a_population() -> None:
    """The population is uniform, so the means of the waves are 0. All numbers and messages are
    listed.
    """
    protocol, numbers = build(2.0, 1, terms=5), (np.arange(30) + 0.5) / 30
    spread = np.zeros(16)
    for number in numbers.tolist():
        for z, chance in law_of(protocol, number).items():
            found = protocol.estimate(tally_of(z, protocol)).value
            spread += float(chance) * (found - 1) ** 2 / len(numbers)
    stated = protocol.estimate(tally_of((1,) * 5, protocol)).standard_error
    assert stated**2 == pytest.approx(spread)


@pytest.mark.parametrize("terms", [1, 3, 5, 9])
def test_repeated_estimates_have_the_stated_mean_and_variance(terms: int) -> None:
    users, runs = 1000, 400
    protocol, source = build(1.5, users, terms=terms), hc.SeededSource(terms)
    values = np.repeat([0.1, 0.15, 0.6], [500, 300, 200])
    held = {0.1: 500, 0.15: 300, 0.6: 200}
    on_grid = series(terms, protocol.task.grid)
    variance = amplitude(terms, 1.5) ** 2 * (on_grid**2).sum(axis=0)
    for value, people in held.items():
        variance -= people / users * (series(terms, [value])[:, 0] @ on_grid) ** 2
    estimates = np.array([hc.run(protocol, values, source).value for _ in range(runs)])
    z = (estimates - truth_of(protocol, held)) / np.sqrt(variance / users)
    assert np.abs(z.mean(axis=0)).max() * math.sqrt(runs) < 5
    low, high = (chi / runs for chi in stats.chi2.ppf([1e-7, 1 - 1e-7], runs))
    assert np.all((low < np.mean(z**2, axis=0)) & (np.mean(z**2, axis=0) < high))


def test_bounds_only_stretch_the_density() -> None:
    values = np.random.default_rng(1).random(500)
    near, far = hc.Density(0, 1), hc.Density(-3, 5)
    for options in ({}, {"calibration": "paper"}, {"terms": 11}):
        one, other = (build(1, 500, task, **options) for task in (near, far))
        first = hc.run(one, values, hc.SeededSource(3))
        second = hc.run(other, 8 * values - 3, hc.SeededSource(3))
        assert second.value == pytest.approx(first.value / 8, abs=1e-12)
        assert second.standard_error == pytest.approx(first.standard_error / 8)
        assert other.standard_error() == pytest.approx(one.standard_error() / 8)


def test_number_of_terms_is_the_best_for_its_bound_and_the_papers_its_own() -> None:
    for epsilon, users, smoothness in product((0.2, 1.0, 4.0), (1, 300, 10**6), (0.5, 1.0, 3.0)):
        task = hc.Density(0, 1, smoothness)

        def bound(terms: int, epsilon: float, users: int, smoothness: float) -> float:
            spread = Fraction(2 ** (terms - 1), math.comb(terms - 1, terms // 2))
            largest = 2 * float(spread / (1 - 2 * lie(epsilon))) ** 2
            return float(((terms + 1) / 4) ** (-2 * smoothness) / 2 + terms * largest / users)

        found = build(epsilon, users, task).parameters
        bounds = {k: bound(k, epsilon, users, smoothness) for k in range(1, 1024, 2)}
        assert bounds[int(found["terms"])] == pytest.approx(min(bounds.values()), rel=1e-9)
        assert found["lie_probability"] == float(lie(epsilon))
        paper = build(epsilon, users, task, calibration="paper").parameters["terms"]
        near = (users * epsilon**2) ** (1 / (2 * smoothness + 2))
        assert paper % 2 == 1
        assert abs(paper - near) <= 1
    assert build(1, 10**9, hc.Density(0, 1, 0.1)).parameters["terms"] == 1023
    assert build(1, 10**9, hc.Density(0, 1, 0.1), calibration="paper").parameters["terms"] == 1023


# Samplers


@pytest.mark.parametrize("terms", [1, 3, 7, 9])
def test_sampler_follows_its_law_and_no_other(terms: int) -> None:
    """Laws with an ε that is off by a twentieth, or that are shifted, are at least e^5 times less
    likely.
    """
    people, source = 1_000_000, hc.SeededSource(2)
    for place in (0.05, 0.42):
        protocol = build(2.0, terms=terms)
        payload = protocol.randomize(np.full(people, place), source).payload
        codes = payload.reshape(people, -1) @ 256 ** np.arange(math.ceil(terms / 8))
        often = np.bincount(codes, minlength=2**terms).tolist()
        sent = [signs_of((code % 256, code // 256), terms) for code in range(2**terms)]
        laws = [
            {z: float(chance) for z, chance in law_of(build(epsilon, terms=terms), at).items()}
            for epsilon, at in ((2.0, place), (1.9, place), (2.1, place), (2.0, place + 0.02))
        ]
        assert (
            log_likelihood_ratio(Counter(dict(zip(sent, often, strict=True))), laws[0])[1] > ALARM
        )
        likely, *less = (
            math.fsum(n * math.log(law[z]) for z, n in zip(sent, often, strict=True))
            for law in laws
        )
        assert likely > max(less) + 5


@pytest.mark.parametrize("terms", [5, 15, 17, 101])
def test_signs_agree_with_rounded_waves_as_often_as_they_should(
    terms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which signs agree, and how many, is tested even if there are too many messages to list."""
    people, epsilon = 100_000, 1.0
    protocol, source = build(epsilon, terms=terms), hc.SeededSource(9)
    v = np.where(np.arange(terms) % 3, 1, -1)
    fix_waves(monkeypatch, tuple(v.tolist()))
    payload = protocol.randomize(np.full(people, 0.5), source).payload.reshape(people, -1)
    assert payload.shape[1] == math.ceil(terms / 8)
    bits = np.unpackbits(payload, axis=1, bitorder="little")
    assert not bits[:, terms:].any()
    agreeing = (2 * bits[:, :terms].astype(np.int8) - 1) * v
    share = float(lie(epsilon))
    law = {
        k: 2 * stats.binom.pmf(k, terms, 0.5) * (1 - share if 2 * k > terms else share)
        for k in range(terms + 1)
    }
    observed = Counter(np.count_nonzero(agreeing > 0, axis=1).tolist())
    assert log_likelihood_ratio(observed, law)[1] > ALARM
    # By symmetry every sign agrees equally often, and two signs are uncorrelated.
    means = agreeing.mean(axis=0) - math.sqrt(2) / protocol.estimator.amplitude
    assert np.abs(means).max() * math.sqrt(people) < 5.5
    products = [agreeing[:, i] @ agreeing[:, j] for i, j in combinations(range(min(terms, 17)), 2)]
    assert np.abs(products).max() / math.sqrt(people) < 5.5


@pytest.mark.parametrize("terms", [17, 101, 1023])
def test_long_messages_estimate_every_coefficient(terms: int) -> None:
    """Pieces of people, bytes and recurring waves fit together. Everybody holds the same number."""
    people = 20_000
    protocol, place = build(8.0, terms=terms), 0.1234
    tally = protocol.tally(protocol.randomize(np.full(people, place), hc.SeededSource(6)))
    scale = protocol.estimator.amplitude
    found = scale * (2 * tally.counts / people - 1)
    expected = series(terms, [place])[:, 0]
    z = (found - expected) / np.sqrt((scale**2 - expected**2) / people)
    assert np.abs(z).max() < 5
    assert stats.chi2.sf(np.sum(z**2), terms) > ALARM


def test_people_of_all_pieces_are_answered_for_their_own_numbers() -> None:
    """At 0 and at ½ the first wave is certain. With hardly any lies, signs distinguish them."""
    values = np.where(np.arange(30_000) % 7 < 3, 0.0, 0.5)
    sent = build(40.0, terms=1).randomize(values, hc.SeededSource(1)).payload
    assert np.array_equal(sent, (values == 0).astype(np.uint8))


@lru_cache(maxsize=8)
def sign_chance(place: float, terms: int, epsilon: float, j: int) -> float:
    return float((1 + phi(j, [place])[0] / amplitude(terms, epsilon)) / 2)


@pytest.mark.slow
@pytest.mark.parametrize("coins", [1 << 28, 20])
def test_simulation_of_large_crowds_gives_every_sign_its_law(
    coins: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small crowd is simulated like a large one. Its law is a product of few binomials."""
    monkeypatch.setattr(density_series, "_SENT", 0)
    monkeypatch.setattr(totals, "_COINS", coins)
    held, terms, runs, source = {0.0: 70, 0.2: 3, 0.55: 30}, 3, 2000, hc.SeededSource(5)
    protocol = build(3.0, 100, terms=terms)
    tallies = np.array([protocol.simulate(held, source).counts for _ in range(runs)])
    for off in (0.0, 0.05):
        for j in range(1, terms + 1):
            law = np.ones(1)
            for place, people in held.items():
                chance = 0.5 + (sign_chance(place, terms, 3.0, j) - 0.5) * (1 + off) + off / 5
                law = np.convolve(law, stats.binom.pmf(np.arange(people + 1), people, chance))
            counted = Counter(tallies[:, j - 1].tolist())
            fit = log_likelihood_ratio(counted, dict(enumerate(law.tolist())))[1]
            assert fit < ALARM if off else fit > ALARM


def test_what_is_certain_is_simulated_as_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(density_series, "_SENT", 0)
    protocol = build(60.0, 800, terms=1)
    assert protocol.simulate({0.0: 500, 0.5: 300}, hc.SeededSource(1)).counts.tolist() == [500]


def test_simulation_of_small_crowds_has_the_joint_law_of_messages() -> None:
    held, terms, runs, source = {0.02: 2, 0.4: 1}, 3, 5000, hc.SeededSource(5)
    protocol = build(4.0, 3, terms=terms)
    law: dict[tuple[int, ...], float] = {(0,) * terms: 1.0}
    for place in (0.02, 0.02, 0.4):
        grown: dict[tuple[int, ...], float] = defaultdict(float)
        for z, chance in law_of(protocol, place).items():
            for seen, before in law.items():
                plus = tuple(a + (b > 0) for a, b in zip(seen, z, strict=True))
                grown[plus] += before * float(chance)
        law = dict(grown)
    simulated = Counter(tuple(protocol.simulate(held, source).counts.tolist()) for _ in range(runs))
    assert log_likelihood_ratio(simulated, law)[1] > ALARM


def population(smoothness: float, places: NDArray[np.float64]) -> NDArray[np.float64]:
    """A density whose coefficients fall as slowly as the smoothness allows. It has only cosines."""
    periods = np.arange(1, 2000)
    falling = 0.2 * periods ** -(smoothness + 0.5)
    waves = np.cos(2 * np.pi * np.outer(places, periods))
    density: NDArray[np.float64] = 1 + math.sqrt(2) * waves @ falling
    return density


def crowd(
    smoothness: float, users: int, numbers: int, low: float = 0.0, high: float = 1.0
) -> dict[float, int]:
    """People who hold this many different numbers, with frequencies given by the density."""
    places = (np.arange(numbers) + 0.5) / numbers
    shares = population(smoothness, places)
    assert shares.min() > 0
    ends = np.rint(np.cumsum(shares) / shares.sum() * users).astype(int)
    counts = np.diff(ends, prepend=0)
    return dict(zip((low + (high - low) * places).tolist(), counts.tolist(), strict=True))


def test_ten_million_people_of_thousands_of_numbers_are_simulated() -> None:
    users, source = 10_000_000, hc.SeededSource(8)
    protocol = build(1.0, users, hc.Density(-3, 5))
    terms, held = int(protocol.parameters["terms"]), crowd(1.0, users, 4096, -3.0, 5.0)
    places, counts = (np.array(list(held)) + 3) / 8, np.array(list(held.values()))
    expected = series(terms, places) @ counts / users
    scale = protocol.estimator.amplitude
    found = scale * (2 * protocol.simulate(held, source).counts / users - 1)
    z = (found - expected) / (scale / math.sqrt(users))
    assert np.abs(z).max() < 5
    assert ALARM < stats.chi2.sf(np.sum(z**2), terms) < 1 - ALARM


# Accuracy


@pytest.mark.slow
@pytest.mark.parametrize("smoothness", [1.0, 2.0])
def test_integrated_squared_error_falls_as_it_should(smoothness: float) -> None:
    """It falls like n^(−2β/(2β+2)). Exact bias and stated variance agree with simulated runs."""
    crowds = [round(10 ** (3 + step / 2)) for step in range(9)]
    worst, errors = [], []
    for users in crowds:
        protocol = build(1.0, users, hc.Density(0, 1, smoothness))
        terms = int(protocol.parameters["terms"])
        periods = (terms + 1) // 2
        known = 0.2 * np.arange(1, periods + 1) ** -(smoothness + 0.5)
        left_out = 0.04 * float(mpmath.zeta(2 * smoothness + 1, periods + 1))
        variance = terms * protocol.estimator.amplitude**2 / users
        errors.append(left_out + variance - np.sum(known**2) / users)
        worst.append((periods / 2) ** (-2 * smoothness) / 2 + variance)
    rate = -2 * smoothness / (2 * smoothness + 2)

    # The bound for the worst density of this smoothness, and the error of this one.
    for found in (worst, errors):
        slope = np.polyfit(np.log(crowds), np.log(found), 1)[0]
        assert slope == pytest.approx(rate, rel=0.1)
    users, source = 100_000, hc.SeededSource(4)
    protocol = build(1.0, users, hc.Density(0, 1, smoothness, points=512))
    held = crowd(smoothness, users, 1024)
    density = population(smoothness, protocol.task.grid)
    runs = [
        np.mean((protocol.estimate(protocol.simulate(held, source)).value - density) ** 2)
        for _ in range(200)
    ]
    assert np.mean(runs) == pytest.approx(errors[crowds.index(users)], rel=0.15)


@pytest.mark.slow
def test_intervals_hold_as_often_as_they_say() -> None:
    users, runs, source = 20_000, 1500, hc.SeededSource(12)
    protocol = build(1.0, users, hc.Density(-3, 5, points=40))
    held = crowd(1.0, users, 256, -3.0, 5.0)
    truth, covered = truth_of(protocol, held), np.zeros(40)
    for _ in range(runs):
        interval = protocol.estimate(protocol.simulate(held, source)).interval(0.95)
        covered += (interval.low <= truth) & (truth <= interval.high)
    assert 0.94 < covered.mean() / runs < 0.97
    assert covered.min() / runs > 0.95 - 4.5 * math.sqrt(0.95 * 0.05 / runs)
    assert covered.max() / runs < 0.975


@pytest.mark.slow
def test_intervals_hold_for_the_population_that_people_are_drawn_from() -> None:
    """1 + ½·√2·cos(2πu) has one coefficient, ½. The margins cover the sampled estimates."""
    users, runs, source = 1000, 1500, hc.SeededSource(2)
    random = np.random.default_rng(3)
    protocol = build(2.0, users, hc.Density(0, 1, points=10), terms=3)
    density, covered = 1 + 0.5 * phi(1, protocol.task.grid), np.zeros(10)
    for _ in range(runs):
        places, heights = random.random(4 * users), 2 * random.random(4 * users)
        people = places[heights < 1 + 0.5 * phi(1, places)][:users]
        estimate = hc.run(protocol, people, source)
        interval = estimate.interval(0.95, sampling=True)
        assert np.array_equal(interval.high, estimate.interval(0.95).high)
        covered += (interval.low <= density) & (density <= interval.high)
    assert 0.94 < covered.mean() / runs < 0.97
    assert covered.min() / runs > 0.95 - 4.5 * math.sqrt(0.95 * 0.05 / runs)


def test_sampling_error_is_about_that_of_people_drawn() -> None:
    """The density is 1 + 0.4·√2·cos(2πu), and the sums of the waves have no privacy noise."""
    terms, users, numbers = 15, 500, (np.arange(1000) + 0.5) / 1000
    task = hc.Density(-3, 5, points=12)
    protocol = build(1.0, users, task, terms=terms)
    kernel = series(terms, numbers).T @ series(terms, (task.grid + 3) / 8)
    shares = (1 + 0.4 * phi(1, numbers)) / len(numbers)
    exact = np.sqrt((shares @ kernel**2 - (shares @ kernel) ** 2) / users) / 8
    law = protocol.estimator.error_law(users, (1 + shares @ kernel) / 8)
    assert law.sampling_error == pytest.approx(exact, rel=0.15)


@pytest.mark.parametrize("terms", [1, 3])
@pytest.mark.parametrize(("epsilon", "users"), [(1.0, 1), (16.0, 2), (3.0, 3), (2.0, 4), (16.0, 4)])
def test_intervals_hold_in_the_smallest_crowds(terms: int, epsilon: float, users: int) -> None:
    """All tallies are listed. The true density is never negative, but a sum of few waves may be."""
    task, places = hc.Density(0, 1, points=6), (0.2, 0.6, 0.95)
    protocol = build(epsilon, users, task, terms=terms)
    laws = [law_of(protocol, place) for place in places]
    for holding in datasets(users, 3):
        tallies: dict[tuple[int, ...], float] = {(0,) * terms: 1.0}
        for law in (law for law, n in zip(laws, holding, strict=True) for _ in range(n)):
            grown: dict[tuple[int, ...], float] = defaultdict(float)
            for (seen, before), (z, chance) in product(tallies.items(), law.items()):
                plus = tuple(a + (b > 0) for a, b in zip(seen, z, strict=True))
                grown[plus] += before * float(chance)
            tallies = dict(grown)
        truth = truth_of(protocol, dict(zip(places, holding, strict=True)))
        for confidence in (0.5, 0.95, 0.999):
            covered = np.zeros(6)
            for tally, chance_of_it in tallies.items():
                estimate = protocol.estimate(hc.Tally(np.array(tally), users, NAME))
                interval = estimate.interval(confidence)
                covered += chance_of_it * ((interval.low <= truth) & (truth <= interval.high))
            assert covered.min() >= confidence - 1e-12
