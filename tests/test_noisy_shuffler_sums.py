"""Sums with a shuffler's noise: figures of 50 digits, enumerated views, runs, and planted leaks."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise, permutations, product
from math import e, exp, factorial, log2, sqrt
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.stats import binom, chi2

import headcount as hc
from enumeration import exactly, geometric_mass, log_likelihood_ratio
from headcount.core.limits import Limits
from headcount.core.shuffler import Noise
from headcount.protocols.registry import protocol_class

NAME = "shuffle.noisy-shuffler"
ALARM = 1e-6
WAYS = ("bits", "digits", "shares")


def build(task: hc.Task, users: int = 1000, **options: Any) -> Any:
    budget = hc.Budget(options.pop("epsilon", 1.0), options.pop("delta", 1e-6))
    crowd = hc.Crowd(users, options.pop("honest", users))
    return hc.protocol(NAME, task, budget, crowd, **options)


def whole(levels: int, users: int = 1000, **options: Any) -> Any:
    """A sum of the levels themselves."""
    return build(hc.Sum(0, levels, whole=True), users, levels=levels, **options)


# The law of the noise, to 50 digits ---------------------------------------------------------------


def truncated(rate: Any, most: int) -> list[mpmath.mpf]:
    """P(Z = k) for k = 0, …, T, in proportion to a^|k − T/2|."""
    a = mpmath.exp(-mpmath.mpf(rate))
    masses = [a ** abs(k - most // 2) for k in range(most + 1)]
    total = mpmath.fsum(masses)
    return [mass / total for mass in masses]


def variance(masses: list[mpmath.mpf]) -> mpmath.mpf:
    middle = (len(masses) - 1) // 2
    return mpmath.fsum((k - middle) ** 2 * mass for k, mass in enumerate(masses))


def least_even(rate: Any, steps: int, delta: float) -> int:
    """The least even T with P(Z < steps) ≤ δ, by the geometric series."""
    a = mpmath.exp(-mpmath.mpf(rate))
    half = (steps + 1) // 2
    while a ** (half - steps + 1) * (1 - a**steps) / (1 + a - 2 * a ** (half + 1)) > delta:
        half += 1
    return 2 * half


def central_error(epsilon: float, levels: int) -> mpmath.mpf:
    a = mpmath.exp(-mpmath.mpf(epsilon) / levels)
    return mpmath.sqrt(2 * a) / (1 - a)


def noise_counts(protocol: Any) -> dict[tuple[int, ...], Fraction]:
    """The stated law of how many ones the shuffler adds at each place."""
    places = protocol.estimator.tally_size
    law: dict[tuple[int, ...], Fraction] = {}
    for (bundle, alone), chance in protocol.shuffler.noise_law(1).items():
        assert not alone
        assert sum(copies for _, copies in bundle) == protocol.parameters["all_dummies"]
        law[tuple(dict(bundle).get(2 * place + 1, 0) for place in range(places))] = chance
    assert sum(law.values()) == 1
    return law


FIGURES = {
    1: (28, "3.84264e-7", "1.35692"),
    2: (54, "8.89371e-7", "2.79902"),
    4: (110, "8.03239e-7", "5.64186"),
    8: (218, "9.74567e-7", "11.3057"),
    16: (438, "9.45966e-7", "22.6224"),
    100: (2732, "9.98678e-7", "141.412"),
}


@pytest.mark.parametrize("levels", FIGURES)
def test_bits_have_the_published_figures(levels: int) -> None:
    protocol = whole(levels, levels_as="bits")
    most, delta, error = FIGURES[levels]
    rate = mpmath.mpf(1) / levels
    assert protocol.parameters == {"levels": levels, "all_dummies": most}
    assert least_even(rate, levels, 1e-6) == most
    masses, fewer = truncated(rate, most), truncated(rate, most - 2)
    below = mpmath.fsum(masses[:levels])
    assert mpmath.nstr(below, 6) == mpmath.nstr(mpmath.mpf(delta), 6)
    assert mpmath.fsum(fewer[:levels]) > 1e-6
    assert protocol.guarantee.delta == pytest.approx(float(below), rel=1e-14)
    assert protocol.guarantee.exact
    deviation = mpmath.sqrt(variance(masses))
    assert mpmath.nstr(deviation, 6) == mpmath.nstr(mpmath.mpf(error), 6)
    assert protocol.standard_error() == pytest.approx(float(deviation), rel=1e-12)
    # The error of a curator, and a little less, since the noise is truncated.
    task = hc.Sum(0, levels, whole=True)
    central = hc.protocol("central.geometric", task, hc.Budget(1, 0), hc.Crowd(1000))
    ratio = protocol.standard_error() / central.standard_error()
    assert 0.9995 < ratio < 1
    assert central.standard_error() == pytest.approx(float(central_error(1, levels)), rel=1e-12)


@pytest.mark.parametrize(
    ("levels", "epsilon", "delta"), [(2, 1.0, 1e-6), (3, 2.0, 0.05), (8, 1, 0.2)]
)
def test_curve_of_bits_is_that_of_the_integers(levels: int, epsilon: float, delta: float) -> None:
    """For every move up to L and in both directions, by the probabilities that are drawn from."""
    protocol = whole(levels, levels_as="bits", epsilon=epsilon, delta=delta)
    law = noise_counts(protocol)
    most = protocol.parameters["all_dummies"]
    masses = [law[(k,)] for k in range(most + 1)]
    for mass, known in zip(masses, truncated(mpmath.mpf(epsilon) / levels, most), strict=True):
        assert (mass * 2**128).denominator == 1
        assert abs(exactly(mass) / known - 1) < 1e-20
    for at in (0.0, 0.2, 0.77 * epsilon, 0.999 * epsilon, epsilon, epsilon + 0.5, 5.0):
        factor = mpmath.exp(mpmath.mpf(at))
        stated = protocol.curve.delta(at)
        worst = mpmath.mpf(0)
        for move in range(-levels, levels + 1):
            moved: dict[tuple[int, ...], Fraction] = {
                (k + move,): chance for (k,), chance in law.items()
            }
            excess = mpmath.fsum(
                max(exactly(chance) - factor * exactly(moved.get(k, Fraction(0))), 0)
                for k, chance in law.items()
            )
            worst = max(worst, excess)
        assert worst <= stated <= worst * (1 + 1e-14)
    assert protocol.curve.delta(5.0) == protocol.guarantee.delta > 0


# Binary digits ------------------------------------------------------------------------------------


def digit_rates(epsilon: float, digits: int) -> list[mpmath.mpf]:
    weights = [mpmath.mpf(4) ** (mpmath.mpf(j) / 3) for j in range(digits)]
    return [mpmath.mpf(epsilon) * weight / mpmath.fsum(weights) for weight in weights]


def test_digits_have_the_published_figures() -> None:
    protocol = whole(127, levels_as="digits")
    rates = digit_rates(1.0, 7)
    each = 1 - (1 - mpmath.mpf("1e-6")) ** (mpmath.mpf(1) / 7)
    tops = [least_even(rate, 1, float(each)) for rate in rates]
    assert tops == [944, 618, 406, 266, 174, 114, 74]
    assert protocol.parameters == {"levels": 127, "digits": 7, "all_dummies": 2596}
    assert sum(tops) == 2596
    laws = [truncated(rate, most) for rate, most in zip(rates, tops, strict=True)]
    hidden = 1 - mpmath.fprod(1 - law[0] for law in laws)
    assert protocol.guarantee.delta == pytest.approx(float(hidden), rel=1e-9)
    assert protocol.guarantee.exact
    error = mpmath.sqrt(mpmath.fsum(4**j * variance(law) for j, law in enumerate(laws)))
    assert protocol.standard_error() == pytest.approx(float(error), rel=1e-12)
    # Without truncation the noise of the same rates has 2.10118 times the error of a curator.
    ratio = protocol.standard_error() / float(central_error(1, 127))
    assert ratio == pytest.approx(2.101006, abs=1e-6)
    long = mpmath.sqrt(
        mpmath.fsum(
            4**j * 2 * mpmath.exp(-rate) / (1 - mpmath.exp(-rate)) ** 2
            for j, rate in enumerate(rates)
        )
    )
    assert mpmath.nstr(long / central_error(1, 127), 6) == "2.10118"


def test_curve_of_seven_digits_is_that_of_all_losses() -> None:
    protocol = whole(127, levels_as="digits")
    kinds = []
    for law in protocol.places:
        masses, half = truncated(exactly(law.rate), law.most), law.most // 2
        own = [mpmath.fsum(masses[1 : half + 1]), mpmath.fsum(masses[half + 1 :])]
        other = [mpmath.fsum(masses[:half]), mpmath.fsum(masses[half:-1])]
        kinds.append(list(zip(own, other, strict=True)))
    hidden = 1 - mpmath.fprod(own[0] + other[0] for own, other in kinds)
    for epsilon in (0.0, 0.3, 0.9, 0.999, 1.0, 2.0):
        factor = mpmath.exp(mpmath.mpf(epsilon))
        excess = mpmath.fsum(
            max(mpmath.fprod(p for p, _ in one) - factor * mpmath.fprod(q for _, q in one), 0)
            for one in product(*kinds)
        )
        truth = hidden + excess
        assert truth * (1 - 1e-20) <= protocol.curve.delta(epsilon) <= truth * (1 + 1e-9)


# Every view of small crowds -----------------------------------------------------------------------


def views(protocol: Any, users: int, levels: int) -> dict[tuple[int, ...], dict[Any, Fraction]]:
    """The law of the multiset of all messages for every crowd, from messages that are really sent
    and the stated law of the noise.
    """
    sent = [protocol.randomize([level], hc.SeededSource(1)).payload for level in range(levels + 1)]
    out: dict[tuple[int, ...], dict[Any, Fraction]] = {}
    for crowd in product(range(levels + 1), repeat=users):
        law: dict[Any, Fraction] = defaultdict(Fraction)
        people = Counter(np.concatenate([sent[level] for level in crowd]).tolist())
        for (bundle, _), chance in protocol.shuffler.noise_law(users).items():
            seen = people + Counter(dict(bundle))
            law[tuple(sorted(seen.items()))] += chance
        out[crowd] = dict(law)
    return out


def worst(seen: Mapping[tuple[int, ...], Mapping[Any, Fraction]], epsilon: float) -> mpmath.mpf:
    factor = mpmath.exp(mpmath.mpf(epsilon))
    return max(
        mpmath.fsum(
            max(exactly(chance) - factor * exactly(seen[other].get(view, Fraction(0))), 0)
            for view, chance in seen[one].items()
        )
        for one, other in permutations(seen, 2)
        if sum(a != b for a, b in zip(one, other, strict=True)) == 1
    )


@pytest.mark.parametrize("users", [1, 2])
@pytest.mark.parametrize(
    ("way", "levels", "epsilon", "delta"),
    [
        ("bits", 1, 2.0, 0.05),
        ("bits", 2, 2.0, 0.1),
        ("bits", 2, 0.7, 0.3),
        ("digits", 1, 2.0, 0.05),
        ("digits", 2, 3.0, 0.2),
        ("digits", 3, 4.0, 0.1),
        ("digits", 5, 9.0, 0.3),
    ],
)
def test_every_view_of_one_or_two_people(
    way: str, levels: int, epsilon: float, delta: float, users: int
) -> None:
    protocol = whole(levels, users, levels_as=way, epsilon=epsilon, delta=delta)
    if levels == 5 and users == 2:
        users = 1  # the noise is the same for all, and these are many views
    seen = views(protocol, users, levels)
    assert protocol.guarantee.exact
    assert worst(seen, epsilon) <= protocol.guarantee.delta <= delta
    for at in (0.0, 0.4, epsilon / 2, epsilon, 2 * epsilon):
        truth = worst(seen, at)
        assert truth <= protocol.curve.delta(at) <= float(truth) * (1 + 1e-9)


@pytest.mark.parametrize("way", ["bits", "digits"])
def test_ones_alone_as_noise_tell_everything(way: str) -> None:
    """If the shuffler added ones only, all zeros would be a person's."""
    protocol = whole(2, 1, levels_as=way, epsilon=2.0, delta=0.2)
    assert worst(views(protocol, 1, 2), 2.0) <= 0.2
    zeros: dict[tuple[int, ...], dict[Any, Fraction]] = {}
    for level in range(3):
        sent = protocol.randomize([level], hc.SeededSource(1)).payload
        zeros[(level,)] = {tuple(sorted(sent[sent % 2 == 0].tolist())): Fraction(1)}
    assert worst(zeros, 2.0) == 1


@pytest.mark.parametrize("way", ["bits", "digits"])
def test_shuffler_draws_the_stated_noise(way: str) -> None:
    protocol = whole(3, levels_as=way, epsilon=2.0, delta=0.02)
    law = noise_counts(protocol)
    source, places = hc.SeededSource(3), protocol.estimator.tally_size
    seen: Counter[tuple[int, ...]] = Counter()
    for _ in range(20_000):
        noise = protocol.shuffler.noise(5, source)
        assert len(noise.messages) == protocol.parameters["all_dummies"]
        assert not noise.alone
        ones = np.bincount(noise.messages, minlength=2 * places)[1::2]
        seen[tuple(ones.tolist())] += 1
    floats = {ones: float(chance) for ones, chance in law.items()}
    assert log_likelihood_ratio(seen, floats)[1] > ALARM
    # A law that falls 8 % more slowly is told apart.
    wrong = {ones: chance**0.92 for ones, chance in floats.items()}
    total = sum(wrong.values())
    assert log_likelihood_ratio(seen, {k: v / total for k, v in wrong.items()})[1] < ALARM


# Errors and intervals -----------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("task", [hc.Mean(-1, 3), hc.Sum(0, 40, whole=True)])
def test_runs_have_the_stated_error(way: str, task: Any) -> None:
    runs, users = 200, 300
    protocol = build(task, users, levels_as=way)
    values = np.linspace(task.low, task.high, users)
    values = np.round(values) if task.whole else values
    truth = values.mean() if isinstance(task, hc.Mean) else values.sum()
    source = hc.SeededSource(17)
    estimates = [hc.run(protocol, values, source) for _ in range(runs)]
    held = {float(v): int(n) for v, n in zip(*np.unique(values, return_counts=True), strict=True)}
    stated = protocol.standard_error(held)
    errors = np.array([one.value - truth for one in estimates]) / stated
    assert abs(errors.mean()) * sqrt(runs) < 5
    # Two-sided geometric noise has heavier tails than normal noise.
    low, high = chi2.ppf(1e-7, runs) / runs, 1.6 * chi2.isf(1e-7, runs) / runs
    assert low < np.mean(errors**2) < high
    for confidence in (0.5, 0.9):
        covered = sum(truth in one.interval(confidence) for one in estimates)
        assert covered >= binom.ppf(1e-7, runs, confidence)
    # Not far too long either.
    assert sum(truth in one.interval(0.5) for one in estimates) <= binom.isf(1e-7, runs, 0.8)


@pytest.mark.parametrize(("way", "levels"), [("bits", 3), ("digits", 3), ("digits", 6)])
def test_intervals_are_those_of_the_noise(way: str, levels: int) -> None:
    protocol = whole(levels, levels_as=way, epsilon=1.5, delta=0.01)
    law: dict[int, mpmath.mpf] = {0: mpmath.mpf(1)}
    for j, place in enumerate(protocol.places):
        masses = truncated(exactly(place.rate), place.most)
        grown: dict[int, mpmath.mpf] = defaultdict(mpmath.mpf)
        for z, chance in law.items():
            for k, mass in enumerate(masses):
                grown[z + (k - place.most // 2) * 2**j] += chance * mass
        law = grown
    error = protocol.estimator.error_law(1000, 5.0)
    for confidence in (0.1, 0.5, 0.9, 0.99, 0.99999):
        below, above = error.margins(confidence)
        assert below == above
        half = (1 - confidence) / 2
        assert mpmath.fsum(p for z, p in law.items() if z > above) <= half
        if above:
            assert mpmath.fsum(p for z, p in law.items() if z > above - 1) > half
    # Beyond the noise that is possible, nothing is left.
    assert error.margins(1 - 1e-15)[0] <= max(law)


@pytest.mark.slow
def test_intervals_of_long_noise_are_a_little_longer() -> None:
    """A law of millions of values is rounded to a coarser grid."""
    protocol = build(hc.Sum(0, 1), 10**6, levels_as="digits", levels=4095, epsilon=0.2)
    places = protocol.places
    size = sum(place.most << j for j, place in enumerate(places)) + 1
    assert size > 2**20
    length = 1 << size.bit_length()
    spectrum: Any = 1.0
    for j, place in enumerate(places):
        grid = np.zeros(length)
        offsets = (np.arange(place.most + 1) - place.most // 2) << j
        rate = float(place.rate)
        masses = np.exp(-rate * np.abs(np.arange(place.most + 1) - place.most // 2))
        grid[offsets] = masses / masses.sum()
        spectrum = spectrum * np.fft.rfft(grid)
    law = np.fft.fftshift(np.fft.irfft(spectrum, length))
    tails = np.cumsum(law[::-1])[::-1]
    noise = protocol.estimator.noise_error(10**6)
    for confidence in (0.5, 0.95, 0.999):
        exact = int(np.argmax(tails <= (1 - confidence) / 2)) - 1 - length // 2
        assert exact <= noise.margins(confidence)[0] <= exact + 64
    at = np.array([-(10.0**5), -1.0, 0.0, 1.0, 10.0**4, 10.0**6])
    truth = tails[at.astype(int) + 1 + length // 2]
    assert np.all(truth - 1e-12 <= noise.tail(at))
    assert np.all(noise.tail(at) <= truth + 1e-3)


# Shares -------------------------------------------------------------------------------------------
#
# The theorem, by a way of its own. N people split uniform numbers into s shares each. Two numbers
# are compared by the collision of views: with a random order of all N·s shares, join the persons
# whose shares take each other's place. C is the number of connected parts. Then views of random
# numbers of one sum are on average within ½·√(E[q^(C−1)] − 1) of their mean. Any numbers become
# random if each person gives away one more share, so views of s + 1 shares are within
# √(E[q^(C−1)] − 1) of each other, whatever the numbers.


def parts(people: int, shares: int, modulus: int) -> mpmath.mpf:
    """E[q^(C−1)] − 1, from the series Σ (Ns)!·x^N/N! to the power q."""
    with mpmath.workdps(120):
        series = [mpmath.factorial(n * shares) / mpmath.factorial(n) for n in range(people + 1)]
        power = [mpmath.mpf(1)]
        for n in range(1, people + 1):
            terms = (((modulus + 1) * k - n) * series[k] * power[n - k] for k in range(1, n + 1))
            power.append(mpmath.fsum(terms) / n)
        return power[people] / series[people] / modulus - 1


def bound(people: int, shares: int, modulus: int) -> mpmath.mpf:
    """How far views of m shares can be apart, for numbers of the same sum."""
    return mpmath.sqrt(parts(people, shares - 1, modulus))


def rule(people: int, modulus: int, sigma: float) -> int:
    return int(np.ceil(2 + (2 * sigma + log2(modulus)) / (log2(people) - log2(e))))


@pytest.mark.parametrize(("people", "shares"), [(2, 2), (3, 2), (4, 2), (2, 4), (3, 3)])
@pytest.mark.slow
def test_parts_are_those_of_all_orders(people: int, shares: int) -> None:
    modulus, total = 5, Fraction(0)
    for order in permutations(range(people * shares)):
        group = list(range(people))
        for at, to in enumerate(order):
            one, other = group[at // shares], group[to // shares]
            group = [one if g == other else g for g in group]
        total += Fraction(modulus) ** (len(set(group)) - 1)
    mean = total / factorial(people * shares)
    assert abs(parts(people, shares, modulus) + 1 - exactly(mean)) < 1e-40


@pytest.mark.parametrize(
    ("people", "shares", "modulus"), [(2, 3, 3), (3, 2, 3), (3, 3, 2), (4, 3, 2)]
)
def test_views_are_as_near_as_the_parts_say(people: int, shares: int, modulus: int) -> None:
    """By listing all shares of all numbers."""
    bundles = list(product(range(modulus), repeat=shares))
    seen: dict[tuple[int, ...], Counter[Any]] = defaultdict(Counter)
    for sent in product(bundles, repeat=people):
        numbers = tuple(sum(bundle) % modulus for bundle in sent)
        seen[numbers][tuple(sorted(share for bundle in sent for share in bundle))] += 1
    ways = modulus ** (people * (shares - 1))
    worst_apart = max(
        Fraction(sum(abs(seen[one][view] - seen[other][view]) for view in seen[one] | seen[other]))
        / (2 * ways)
        for one, other in permutations(seen, 2)
        if sum(one) % modulus == sum(other) % modulus
    )
    assert 0 < exactly(worst_apart) <= bound(people, shares, modulus)


@pytest.mark.parametrize("people", [19, 25, 60, 100])
@pytest.mark.parametrize("bits", [8, 24, 32, 60])
@pytest.mark.parametrize("sigma", [5, 21.83, 40])
def test_rule_for_shares_follows_from_the_parts(people: int, bits: int, sigma: float) -> None:
    shares = rule(people, 2**bits, sigma)
    assert bound(people, shares, 2**bits) <= mpmath.mpf(2) ** -sigma


SHARES = {18: (27, 29), 99: (16, 17), 999: (10, 11), 9_999: (8, 9), 99_999: (7, 7)}


@pytest.mark.parametrize("dummies", SHARES)
@pytest.mark.parametrize("bits", [24, 32])
def test_shares_have_the_published_figures(dummies: int, bits: int) -> None:
    levels = {24: 566, 32: 200_000}[bits]
    protocol = build(hc.Mean(0, 1), 10_000, levels_as="shares", levels=levels, dummy_people=dummies)
    shares = SHARES[dummies][bits == 32]
    found = protocol.parameters
    assert (found["modulus"], found["shares"]) == (2**bits, shares)
    assert (found["dummy_people"], found["all_dummies"]) == (dummies, dummies * shares)
    sigma = mpmath.log((1 + mpmath.e) / mpmath.mpf("1e-6"), 2)
    assert shares == rule(1 + dummies, 2**bits, float(sigma))
    assert found["sigma"] >= sigma
    # What one honest person and the dummy people leave.
    near = (1 + mpmath.e) * mpmath.mpf(2) ** -mpmath.mpf(found["sigma"])
    assert near * (1 - 1e-12) <= protocol.guarantee.delta <= 1e-6
    assert not protocol.guarantee.exact
    if dummies <= 99:
        assert (1 + mpmath.e) * bound(1 + dummies, shares, 2**bits) <= protocol.guarantee.delta


def test_one_honest_person_is_enough() -> None:
    """Nothing depends on how many others are honest."""
    for way in WAYS:
        for task in (hc.Mean(0, 1), hc.Sum(0, 5, whole=True)):
            built = [build(task, 500, honest=honest, levels_as=way) for honest in (500, 30, 1)]
            assert len({str(dict(one.parameters)) for one in built}) == 1
            assert len({one.guarantee.delta for one in built}) == 1
            assert len({one.standard_error() for one in built}) == 1


@pytest.mark.parametrize(("users", "epsilon"), [(1, 1.0), (300, 0.1), (10_000, 1.0), (10**6, 3.0)])
def test_default_dummy_people_send_the_fewest_shares(users: int, epsilon: float) -> None:
    protocol = build(hc.Mean(0, 1), users, levels_as="shares", epsilon=epsilon)
    found = protocol.parameters
    sigma = log2((1 + exp(epsilon)) / 1e-6)
    sent = found["shares"] * (users + found["dummy_people"])
    tried = np.unique(np.geomspace(18, 2**20, 3000).astype(int))
    assert sent <= min(rule(1 + k, found["modulus"], sigma) * (users + k) for k in tried) + 1
    assert found["dummy_people"] >= 18


@pytest.mark.slow
def test_dummy_people_share_the_noise() -> None:
    protocol = whole(2, 30, levels_as="shares", epsilon=2.0, delta=1e-3, dummy_people=20)
    modulus, shares = protocol.parameters["modulus"], protocol.parameters["shares"]
    source, noises = hc.SeededSource(5), []
    firsts: Counter[int] = Counter()
    for _ in range(20_000):
        payload = protocol.shuffler.noise(30, source).messages
        assert len(payload) == 20 * shares
        sums = payload.astype(np.int64).reshape(20, shares).sum(axis=1) % modulus
        assert not sums[1:].any()
        noises.append(int(sums[0] if 2 * sums[0] < modulus else sums[0] - modulus))
        firsts.update((payload.reshape(20, shares)[0] >> np.uint16(0) & np.uint16(7)).tolist())
    reach = range(-60, 61)
    law = {z: float(geometric_mass(1.0, z)) for z in reach}
    assert log_likelihood_ratio(Counter(noises), law)[1] > ALARM
    wrong = {z: float(geometric_mass(1.07, z)) for z in reach}
    assert log_likelihood_ratio(Counter(noises), wrong)[1] < ALARM
    # The shares of the one who carries the noise are uniform, as all others are.
    assert log_likelihood_ratio(firsts, dict.fromkeys(range(8), 1 / 8))[1] > ALARM


@pytest.mark.parametrize(("users", "epsilon"), [(1, 1.0), (100, 0.01), (10**6, 5.0)])
def test_sums_hardly_ever_wrap_around(users: int, epsilon: float) -> None:
    protocol = build(hc.Mean(0, 1), users, levels_as="shares", epsilon=epsilon)
    levels, modulus = protocol.parameters["levels"], protocol.parameters["modulus"]
    most = protocol.estimator.most_users
    assert most >= 2 * users
    ratio = mpmath.exp(-mpmath.mpf(epsilon) / levels)
    for people in (users, most):
        gap = (modulus - people * levels) // 2
        assert ratio**gap <= mpmath.mpf(2) ** -100
    for level_sum in (most * levels, -levels, 0, -1):
        seen = np.array([level_sum % modulus])
        tally = hc.Tally(seen, most, NAME, modulus, noises=1)
        assert protocol.estimate(tally).value == pytest.approx(level_sum / levels / most)
    with pytest.raises(hc.CrowdMismatch):
        protocol.estimate(hc.Tally(seen, most + 1, NAME, modulus, noises=1))


def test_error_of_shares_is_that_of_a_curator() -> None:
    for levels in (1, 7, 100):
        protocol = whole(levels, levels_as="shares")
        error = float(central_error(1, levels))
        assert protocol.standard_error() == pytest.approx(error, rel=1e-12)
    task = hc.Mean(0, 1)
    central = hc.protocol("central.geometric", task, hc.Budget(1, 0), hc.Crowd(10_000))
    ratio = build(task, 10_000).standard_error() / central.standard_error()
    assert 1 <= ratio < 1.002  # levels are a little coarser


# Leaks that are planted ---------------------------------------------------------------------------


def planted(protocol: Any, *, shared: bool) -> Any:
    """What the adversary looks for, who knows all others: is the sum itself among the messages? If
    noise is one message by itself, and the victim holds 0, it always is.
    """
    sharing, source = protocol.sharing, hc.SeededSource(23)

    def noise() -> Noise:
        drawn: Noise = protocol.shuffler.noise(1, source)
        if shared:
            return drawn
        rows = drawn.messages.reshape(-1, sharing.shares).astype(np.uint64)
        carried = rows[0].sum() % np.uint64(sharing.modulus)
        zeros = sharing.split(np.zeros(len(rows), dtype=np.uint64), source).payload
        return Noise(np.append(zeros, carried.astype(zeros.dtype)))

    def seen(data: Any, runs: int) -> Any:
        out = []
        for _ in range(runs):
            sent = protocol.randomize(data, source).payload
            everything = np.concatenate([sent, noise().messages]).astype(np.int64)
            total = everything.sum() % sharing.modulus
            out.append(int(total in everything))
        return np.array(out)

    return seen


@pytest.mark.slow
def test_noise_in_one_message_is_refuted() -> None:
    protocol = whole(100, 1, levels_as="shares", delta=0.01, dummy_people=18)
    shares, modulus = protocol.parameters["shares"], protocol.parameters["modulus"]
    # By law: the sum is there with certainty, or by chance among this many uniform messages.
    chance = 19 * shares / modulus
    assert 1 - e * chance > 0.9
    pair = [([0], [100])]
    options: Any = {"claim": 1.0, "delta": 0.01, "batch": True, "runs": 3000, "confidence": 0.999}
    assert hc.audit(planted(protocol, shared=False), pair, **options).refuted
    assert not hc.audit(planted(protocol, shared=True), pair, **options).refuted


def test_too_few_shares_are_refuted() -> None:
    """With two shares, somebody who holds 0 sends a number and its opposite."""
    protocol = whole(100, 1, levels_as="shares", delta=0.01, dummy_people=18)
    source, modulus = hc.SeededSource(29), protocol.parameters["modulus"]

    def seen(shares: int) -> Any:
        sharing = type(protocol.sharing)(modulus, shares)

        def paired(data: Any, runs: int) -> Any:
            out = []
            for _ in range(runs):
                numbers = np.array([*data, 7, *[0] * 17], dtype=np.uint64)
                sent = sharing.split(numbers, source).payload.astype(np.int64)
                out.append(int(np.isin(-sent % modulus, sent).sum()))
            return np.array(out)

        return paired

    pair = [([0], [100])]
    options: Any = {"claim": 1.0, "delta": 0.01, "batch": True, "runs": 3000, "confidence": 0.999}
    assert hc.audit(seen(2), pair, **options).refuted
    assert not hc.audit(seen(protocol.sharing.shares), pair, **options).refuted


# What is lost, and what is refused ----------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_tallies_with_a_wrong_number_of_messages_are_refused(way: str) -> None:
    protocol, source = whole(6, 40, levels_as=way), hc.SeededSource(7)
    sent = protocol.randomize(np.arange(40) % 7, source)
    batch = hc.shuffle(sent, source, protocol)
    each = int(protocol.messages_per_user)
    assert len(batch.payload) == 40 * each + protocol.parameters["all_dummies"]
    assert protocol.tally(batch).noises == 1
    assert protocol.tally(sent).noises == 0
    for payload in (batch.payload[1:], np.append(batch.payload, batch.payload[:1])):
        with pytest.raises(hc.InvalidValue, match="each person must send"):
            protocol.tally(hc.Batch(payload, 40))
    with pytest.raises(hc.InvalidValue, match="added 0 times"):
        protocol.estimate(protocol.tally(sent))
    halves = [
        protocol.tally(hc.shuffle(hc.Messages.join(list(sent)[a:b]), source, protocol))
        for a, b in pairwise((0, 20, 40))
    ]
    with pytest.raises(hc.InvalidValue, match="added 2 times"):
        protocol.estimate(halves[0] + halves[1])


@pytest.mark.parametrize("way", WAYS)
def test_what_a_lost_message_costs(way: str) -> None:
    """If the analyzer counted anyway: one level of a bit, 2^j of a digit, and all of a share."""
    protocol, source = whole(6, 40, levels_as=way), hc.SeededSource(9)
    batch = hc.shuffle(protocol.randomize(np.full(40, 5), source), source, protocol)

    def answer(payload: Any) -> float:
        counts = protocol.estimator.count(payload)
        modulus = protocol.estimator.tally_modulus
        return float(protocol.estimate(hc.Tally(counts, 40, NAME, modulus, noises=1)).value)

    whole_answer = answer(batch.payload)
    lost = {
        int(batch.payload[at]): whole_answer - answer(np.delete(batch.payload, at))
        for at in range(len(batch.payload))
    }
    if way == "bits":
        assert lost == {0: 0, 1: 1}
    elif way == "digits":
        assert lost == {0: 0, 1: 1, 2: 0, 3: 2, 4: 0, 5: 4}
    else:
        far = sum(abs(change) > 1000 for change in lost.values())
        assert far > 0.5 * len(lost)


def test_default_ways_and_levels() -> None:
    def chosen(task: hc.Task, **options: Any) -> tuple[str, float]:
        protocol = build(task, 1000, **options)
        return protocol.sent_as, protocol.parameters["levels"]

    assert chosen(hc.Sum(-3, 5, whole=True)) == ("bits", 8)
    assert chosen(hc.Sum(0, 16, whole=True)) == ("bits", 16)
    assert chosen(hc.Sum(0, 17, whole=True)) == ("shares", 17)
    assert chosen(hc.Mean(0, 1), levels=16) == ("bits", 16)
    assert chosen(hc.Mean(0, 1), levels=17) == ("shares", 17)
    assert chosen(hc.Mean(0, 1))[0] == "shares"
    assert chosen(hc.Mean(0, 1), levels_as="bits") == ("bits", 32)  # ε√n
    assert chosen(hc.Sum(0, 100, whole=True), levels_as="bits") == ("bits", 32)
    assert chosen(hc.Sum(0, 100, whole=True), levels_as="digits") == ("digits", 100)
    way, levels = chosen(hc.Mean(0, 1), levels_as="digits")
    assert (way, (int(levels) + 1).bit_count()) == ("digits", 1)
    assert build(hc.Sum(0, 6000, whole=True), levels_as="digits").parameters["digits"] <= 12


@pytest.mark.parametrize("way", WAYS)
def test_rounding_is_in_the_error(way: str) -> None:
    protocol = build(hc.Sum(0, 1), 500, levels_as=way, levels=5)
    exact = protocol.standard_error({0.0: 300, 1.0: 200})
    between = protocol.standard_error({0.5: 500})
    assert between == pytest.approx(sqrt(exact**2 + 500 / 4 / 25), rel=1e-12)
    assert protocol.standard_error() == pytest.approx(between, rel=1e-12)


def test_refusals() -> None:
    task = hc.Sum(0, 5, whole=True)
    for way in WAYS:
        with pytest.raises(hc.Infeasible, match="needs delta above 0") as caught:
            build(task, delta=0.0, levels_as=way)
        nearest: Any = caught.value.nearest
        build(task, levels_as=way, **nearest)
    with pytest.raises(hc.InvalidParameter, match="`levels_as` must be one of bits"):
        build(task, levels_as="words")
    for wrong in (0, 1.5, "many", 5000):
        with pytest.raises(hc.InvalidParameter, match="`levels` must be"):
            build(task, levels_as="bits", levels=wrong)
        with pytest.raises(hc.InvalidParameter, match="`levels` must be"):
            build(task, levels_as="digits", levels=wrong)
    for wrong in (17, 2**20 + 1, 20.5):
        with pytest.raises(hc.InvalidParameter, match="`dummy_people` must be"):
            build(task, levels_as="shares", dummy_people=wrong)
    for way in ("bits", "digits"):
        with pytest.raises(hc.InvalidParameter, match="`dummy_people` must be left out"):
            build(task, levels_as=way, dummy_people=50)
    with pytest.raises(hc.Infeasible, match="more than 262,144 noise bits") as caught:
        build(hc.Sum(0, 1), levels_as="bits", levels=4000, epsilon=0.1)
    nearest = caught.value.nearest
    build(hc.Sum(0, 1), levels_as="bits", epsilon=0.1, **nearest)
    with pytest.raises(hc.Infeasible, match="more than 262,144 noise bits") as caught:
        build(hc.Sum(0, 1), levels_as="digits", levels=4095, epsilon=0.001)
    nearest = caught.value.nearest
    build(hc.Sum(0, 1), levels_as="digits", epsilon=0.001, **nearest)
    with pytest.raises(hc.Infeasible, match="modulus above 2\\^63"):
        build(hc.Sum(0, 2**40, whole=True), 2**20, levels_as="shares", epsilon=1e-6)


def test_settings_within_a_number_of_messages() -> None:
    task, budget, crowd = hc.Mean(0, 1), hc.Budget(1, 1e-6), hc.Crowd(10_000)
    found = {}
    for most in (1, 2, 5, 8, 12, 1000):
        settings = list(
            protocol_class(NAME, task).settings_within(task, budget, crowd, Limits(most))
        )
        built = [hc.protocol(NAME, task, budget, crowd, **options) for options in settings]
        fitting = [one.standard_error() for one in built if one.messages_per_user <= most]
        found[most] = min(fitting)
    assert list(found.values()) == sorted(found.values(), reverse=True)
    central = hc.protocol("central.geometric", task, budget, crowd).standard_error()
    assert found[8] < 1.003 * central  # shares, with more dummy people
    assert found[2] < 60 * central
