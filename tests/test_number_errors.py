"""Sums and means: the errors and the privacy curves that result from rounding and noise.

The judges are mpmath with 50 digits, enumeration, and scipy's laws.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations_with_replacement

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import headcount as hc
from enumeration import geometric_mass
from headcount.accounting.divergence import PointCurve, SymmetricCurve
from headcount.accounting.geometric import moved_delta, moved_laws, moved_steps_curve
from headcount.core.estimate import Estimate
from headcount.protocols.fixed_point import RoundedError
from headcount.protocols.geometric_error import GeometricError
from headcount.protocols.level_responses import BoundedError

ALARM = 1e-6

# Errors ------------------------------------------------------------------------------------------


def geometric_tail(rate: mpmath.mpf, z: int) -> mpmath.mpf:
    """P(Z > z)."""
    a = mpmath.exp(-mpmath.mpf(rate))
    return a ** (z + 1) / (1 + a) if z >= 0 else 1 - a**-z / (1 + a)


def double_tail(rate: float, z: int) -> mpmath.mpf:
    """P(Z₁ + Z₂ > z), z ≥ 0, from P(y) = c²·a^y·(y + 1 + 2a²/(1−a²)): times = 2."""
    a = mpmath.exp(-mpmath.mpf(rate))
    first, constant = z + 1, 1 + 2 * a**2 / (1 - a**2)
    rest = a**first * ((first + constant) / (1 - a) + a / (1 - a) ** 2)
    return ((1 - a) / (1 + a)) ** 2 * rest


@lru_cache
def difference_tails(rate: float, times: float) -> NDArray[np.float64]:
    """P(difference > z) for z = 0, 1, … of two negative binomials, by direct sums."""
    length = int((60 + 12 * times) / rate) + 60
    mass = stats.nbinom.pmf(np.arange(length), times, -math.expm1(-rate))
    if length < 4_000:
        both = np.convolve(mass, mass[::-1])
    else:
        size = 1 << (2 * length).bit_length()
        both = np.fft.irfft(np.fft.rfft(mass, size) * np.fft.rfft(mass[::-1], size), size)
        both = both[: 2 * length - 1]
    upper: NDArray[np.float64] = np.cumsum(both[length - 1 :][::-1])[::-1][1:]
    return upper


@pytest.mark.parametrize("rate", [5.0, 1.0, 0.3, 0.01, 1e-4, 1e-6])
def test_tails_of_one_noise(rate: float) -> None:
    error = GeometricError(rate)
    places = sorted({int(x / rate) for x in (0, 0.01, 0.5, 1, 5, 20, 30)} | {0, 1, 2, 7})
    for z in [*places, *(-z for z in places)]:
        truth = geometric_tail(rate, z)
        assert error.tail(np.array([float(z)]))[0] == pytest.approx(float(truth), rel=1e-12)
    a = mpmath.exp(-mpmath.mpf(rate))
    assert error.standard_error == pytest.approx(float(mpmath.sqrt(2 * a) / (1 - a)), rel=1e-13)
    for confidence in (0.1, 0.5, 0.95, 0.999, 1 - 1e-9):
        margin, other = error.margins(confidence)
        assert margin == other == int(margin) >= 0
        half = mpmath.mpf(1 - confidence) / 2
        assert geometric_tail(rate, int(margin)) <= half * (1 + 1e-11)
        assert margin == 0 or geometric_tail(rate, int(margin) - 1) > half


@pytest.mark.parametrize("rate", [5.0, 1.0, 0.3, 0.01, 1e-4, 1e-5, 1e-6])
def test_tails_of_two_noises(rate: float) -> None:
    """The tails are never too light, and on a coarse grid hardly too heavy."""
    error = GeometricError(rate, Fraction(2))
    fine = rate > 2.0**-12
    places = {int(x / rate) for x in (0, 1e-4, 3e-4, 1e-3, 0.01, 0.1, 0.5, 1, 3, 5, 10, 20, 30)}
    for z in sorted(places | {0, 1, 2, 7}):
        truth = double_tail(rate, z)
        stated = error.tail(np.array([float(z)]))[0]
        assert truth <= stated <= truth * (1 + (1e-9 if fine else 2e-3)) + 3e-13
    for z in (-1, -2, -int(1 / rate) - 1):
        truth = 1 - double_tail(rate, -z - 1)
        assert error.tail(np.array([float(z)]))[0] >= truth - 1e-12
    a = mpmath.exp(-mpmath.mpf(rate))
    assert error.standard_error == pytest.approx(float(2 * mpmath.sqrt(a) / (1 - a)), rel=1e-13)
    for confidence in (0.01, 0.5, 0.95, 0.999, 1 - 1e-9):
        margin = int(error.margins(confidence)[0])
        half = mpmath.mpf(1 - confidence) / 2
        assert double_tail(rate, margin) <= half * (1 + 1e-11)
        if fine:
            assert margin == 0 or double_tail(rate, margin - 1) > half * (1 - 1e-3)
        else:
            assert double_tail(rate, int(margin * 0.998 - 3e-3 / rate)) > half


@pytest.mark.parametrize("times", [Fraction(10, 9), Fraction(7, 2), Fraction(1, 3)], ids=str)
@pytest.mark.parametrize("rate", [5.0, 1.0, 0.03, 1e-4])
def test_tails_of_broken_times(rate: float, times: Fraction) -> None:
    error = GeometricError(rate, times)
    truth = difference_tails(rate, float(times))
    stated = error.tail(np.arange(len(truth), dtype=np.float64))
    fine = rate > 2.0**-12
    assert (stated >= truth * (1 - 1e-10) - 1e-14).all()
    common = truth > 1e-11
    excess = 1e-3 if fine else 1e-2
    assert (stated[common] <= truth[common] * (1 + excess) + 1e-12).all()
    a = math.exp(-rate)
    deviation = math.sqrt(2 * float(times) * a) / -math.expm1(-rate)
    assert error.standard_error == pytest.approx(deviation, rel=1e-12)
    for confidence in (0.5, 0.95, 0.999):
        margin = int(error.margins(confidence)[0])
        half = (1 - confidence) / 2
        assert truth[margin] <= half * (1 + 1e-9)
        least = margin - 1 if fine else int(margin * 0.998 - 1e-3 / rate) - 1
        assert margin == 0 or truth[max(least, 0)] > half * (1 - 1e-9)


@pytest.mark.parametrize("times", [Fraction(1), Fraction(10, 9)], ids=str)
def test_the_largest_confidence_has_margins(times: Fraction) -> None:
    """Tables end, but confidence may be arbitrarily close to 1."""
    error = GeometricError(0.05, times)
    for confidence in (1 - 1e-12, 1 - 1e-13, 1 - 2.0**-53):
        wide = error.margins(confidence)[0]
        assert error.margins(0.999)[0] < wide < 1e5
        assert error.margins(0.999)[0] < RoundedError(error, 1.0, 50, 12.5).margins(confidence)[0]


def covered(
    margin: float, rounding: Sequence[tuple[float, float]], rate: float, times: float = 1.0
) -> float:
    """P(|noise + rounding| ≤ margin), for a law of the rounding."""
    errors = np.array([r for r, _ in rounding])
    # An error on the margin counts as inside, in spite of rounding.
    most = np.floor(margin - errors + 1e-9).astype(np.int64)
    least = -np.floor(margin + errors + 1e-9).astype(np.int64)
    if times == 1:
        a = math.exp(-rate)

        def tail(z: NDArray[np.int64]) -> NDArray[np.float64]:
            size = a ** np.where(z >= 0, z + 1, -z).astype(np.float64) / (1 + a)
            return np.where(z >= 0, size, 1 - size)
    else:
        table = difference_tails(rate, times)

        def tail(z: NDArray[np.int64]) -> NDArray[np.float64]:
            known: NDArray[np.float64] = table[
                np.clip(np.where(z >= 0, z, -z - 1), 0, len(table) - 1)
            ]
            return np.where(z >= 0, known, 1 - known)

    inside = np.maximum(tail(least - 1) - tail(most), 0.0)
    return float(inside @ np.array([p for _, p in rounding]))


def summed(shares: Sequence[Fraction]) -> list[tuple[float, float]]:
    """The law of the sum of all rounding errors."""
    law = {Fraction(0): Fraction(1)}
    for share in shares:
        grown: dict[Fraction, Fraction] = {}
        for at, chance in law.items():
            for error, p in ((-share, 1 - share), (1 - share, share)):
                grown[at + error] = grown.get(at + error, Fraction(0)) + chance * p
        law = grown
    return [(float(at), float(chance)) for at, chance in law.items() if chance]


@pytest.mark.parametrize("people", [1, 2, 5])
@pytest.mark.parametrize("rate", [0.05, 0.4, 1.0, 3.0])
def test_margins_cover_small_crowds(people: int, rate: float) -> None:
    """All multisets of sixths are tried."""
    error = RoundedError(GeometricError(rate), 0.25, people, people / 4)
    sixths = [Fraction(k, 6) for k in range(6)]
    crowds = [summed(shares) for shares in combinations_with_replacement(sixths, people)]
    for confidence in (0.5, 0.8, 0.95, 0.999):
        above, below = error.margins(confidence)
        assert above == below
        for rounding in crowds:
            assert covered(above / 0.25, rounding, rate) >= confidence
    # The margins are not much too wide if noise is most of the error.
    if rate == 0.05:
        noise = GeometricError(rate).margins(0.95)[0]
        assert error.margins(0.95)[0] / 0.25 < noise + 3 * math.sqrt(people)


@pytest.mark.parametrize("people", [800, 2000, 30_000])
@pytest.mark.parametrize("times", [Fraction(1), Fraction(10, 9)], ids=str)
@pytest.mark.parametrize("rate", [0.004, 0.01, 0.05, 0.5])
def test_margins_cover_large_crowds(people: int, times: Fraction, rate: float) -> None:
    error = RoundedError(GeometricError(rate, times), 1.0, people, people / 4)

    def law(share: float) -> list[tuple[float, float]]:
        k = np.arange(people + 1)
        chance = stats.binom.pmf(k, people, share)
        some = chance > 1e-16
        return list(zip(k[some] - people * share, chance[some], strict=True))

    deviation = math.sqrt(2 * float(times)) / (2 * math.sinh(rate / 2))
    assert error.standard_error == pytest.approx(math.hypot(deviation, math.sqrt(people) / 2))
    for confidence in (0.5, 0.9, 0.95, 0.999):
        margin = error.margins(confidence)[0]
        for share in (0.5, 0.3, 0.02, 1 / people, 1 - 0.2 / people):
            assert covered(margin, law(share), rate, float(times)) >= confidence - 1e-9
        # Hoeffding's bound for small crowds is wider if rounding is most of the error.
        if people > 1000:
            narrow = margin * 0.96 - 1.5
            assert covered(narrow, law(0.5), rate, float(times)) < confidence


def test_without_rounding_margins_are_those_of_noise() -> None:
    noise = GeometricError(0.2)
    assert RoundedError(noise, 0.5, 100, 0.0).margins(0.9) == tuple(
        margin / 2 for margin in noise.margins(0.9)
    )


def two_binomials(people: int, ones: int, p: float, q: float) -> NDArray[np.float64]:
    """The law of the number of yeses, if `ones` people say yes with probability p and the others
    with q.
    """
    law = np.convolve(
        stats.binom.pmf(np.arange(ones + 1), ones, p),
        stats.binom.pmf(np.arange(people - ones + 1), people - ones, q),
    )
    return np.asarray(law)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0, 6.0])
@pytest.mark.parametrize("people", [1, 7, 60, 400, 1000, 3000])
def test_margins_cover_responses(people: int, epsilon: float) -> None:
    """One bit for a number: sums of bits, each of which may be a lie and is rounded."""
    protocol = hc.protocol("local.one-bit-mean", hc.Sum(0, 1), hc.Budget(epsilon), hc.Crowd(people))
    tally = protocol.simulate({0: people}, hc.SeededSource(1))
    error = protocol.estimate(tally).error_law
    assert isinstance(error, BoundedError)
    lie = 1 / (1 + math.exp(epsilon))
    width = 1 / (1 - 2 * lie)
    assert error.width == pytest.approx(width, rel=1e-9)
    assert error.standard_error == pytest.approx(width * math.sqrt(people) / 2, rel=1e-9)
    crowds = [
        (people, lie, lie), (people, 0.5, 0.5), (people // 2, lie, 1 - lie), (people, 1 - lie, lie),
        (people // 3, lie + 0.1 / width, 1 - lie), (people, lie + 0.5 / people / width, lie),
    ]  # fmt: skip
    for ones, p, q in crowds:
        law = two_binomials(people, ones, p, q)
        mean = ones * p + (people - ones) * q
        errors = np.abs(np.arange(people + 1) - mean) * width
        for confidence in (0.5, 0.9, 0.95, 0.99, 0.999):
            margin = error.margins(confidence)[0]
            assert law[errors <= margin + 1e-9].sum() >= confidence
            if people >= 1000 and p == 0.5:
                assert law[errors <= 0.95 * margin - width].sum() < confidence


@pytest.mark.parametrize("deviation", [0.01, 1.0, 9.9])
def test_margins_of_few_responses_are_those_of_bernstein(deviation: float) -> None:
    """The exact laws are far inside these margins, so they do not test the last factor of 2."""
    for confidence in (0.5, 0.95, 0.999):
        margin = BoundedError(deviation, 1.0).margins(confidence)[0]
        bound = 2 * math.exp(-(margin**2) / (2 * (deviation**2 + margin / 3)))
        assert bound == pytest.approx(1 - confidence, rel=1e-9)


# The mean of a population ------------------------------------------------------------------------


def population_coverage(
    estimate: Estimate, people: NDArray[np.float64], noise: NDArray[np.float64], mean: float
) -> float:
    """For zeros and ones: how often the interval contains the population's mean.

    It is computed from the laws of the number of ones and of the noise, from −k to k steps of a
    person.
    """
    reach, users = len(noise) // 2, len(people) - 1
    law = np.convolve(people, noise)
    inside = 0.0
    for at in np.flatnonzero(law > 1e-9).tolist():
        value = (at - reach) / users
        inside += law[at] * (mean in replace(estimate, value=value).interval(0.95, sampling=True))
    return inside


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("people", [30, 1000])
def test_intervals_of_populations_of_zeros_and_ones(people: int, epsilon: float) -> None:
    task = hc.Mean(0, 1, whole=True)
    protocol = hc.protocol("central.geometric", task, hc.Budget(epsilon), hc.Crowd(people))
    estimate = protocol.estimate(protocol.simulate({0: people}, hc.SeededSource(1)))
    reach = int(25 / epsilon)
    noise = np.array([float(geometric_mass(epsilon, z)) for z in range(-reach, reach + 1)])
    for mean in (0.02, 0.1, 0.37, 0.5, 0.95):
        ones = stats.binom.pmf(np.arange(people + 1), people, mean)
        assert population_coverage(estimate, ones, noise, mean) >= 0.95 * 0.985


def test_intervals_of_populations_where_noise_is_most() -> None:
    people, epsilon, mean = 1000, 0.01, 0.5
    task = hc.Mean(0, 1, whole=True)
    protocol = hc.protocol("central.geometric", task, hc.Budget(epsilon), hc.Crowd(people))
    estimate = protocol.estimate(protocol.simulate({0: people}, hc.SeededSource(1)))
    noise = math.tanh(epsilon / 2) * np.exp(-epsilon * np.abs(np.arange(-1200, 1201)))
    ones = stats.binom.pmf(np.arange(people + 1), people, mean)
    assert 0.95 <= population_coverage(estimate, ones, noise, mean) <= 0.98


@pytest.mark.parametrize("people", [30, 1000])
def test_intervals_of_uniform_populations(people: int) -> None:
    task, runs = hc.Mean(-1, 3), 20_000
    protocol = hc.protocol("central.geometric", task, hc.Budget(1.0), hc.Crowd(people))
    levels = int(protocol.parameters["levels"])
    estimate = protocol.estimate(protocol.simulate({0: people}, hc.SeededSource(1)))
    rng = np.random.default_rng(3)
    for low, high in ((-1.0, 3.0), (-1.0, -0.9)):
        drawn = np.concatenate(
            [rng.uniform(low, high, (100, people)).mean(axis=1) for _ in range(runs // 100)]
        )
        a = math.exp(-1 / levels)
        noise = rng.geometric(1 - a, runs) - rng.geometric(1 - a, runs)
        values = drawn + noise * (4 / levels / people)
        middle = (low + high) / 2
        # The ends rise with the value, so the interval contains the mean for a range of values.

        def holds(value: float, middle: float = middle) -> bool:
            return middle in replace(estimate, value=value).interval(0.95, sampling=True)

        ends = []
        for end in (-20.0, 20.0):
            inner, outer = middle, middle + end
            for _ in range(30):
                between = (inner + outer) / 2
                inner, outer = (between, outer) if holds(between) else (inner, between)
            ends.append(inner)
        assert all(holds(v) == (ends[0] <= v <= ends[1]) for v in values[:200].tolist())
        inside = int(np.count_nonzero((values >= ends[0]) & (values <= ends[1])))
        # Uniform numbers vary less than the widest spread within these bounds.
        assert stats.binom.cdf(inside, runs, 0.95) > ALARM


def test_intervals_of_populations_in_the_shuffle_model() -> None:
    people, runs, mean = 1000, 800, 0.04
    protocol = hc.protocol(
        "shuffle.split-and-mix", hc.Mean(0, 1), hc.Budget(1.0, 1e-6), hc.Crowd(people)
    )
    source, rng, inside = hc.SeededSource(4), np.random.default_rng(4), 0
    for ones in rng.binomial(people, mean, runs).tolist():
        estimate = protocol.estimate(protocol.simulate({0: people - ones, 1: ones}, source))
        interval = estimate.interval(0.9, sampling=True)
        inside += mean in interval
        plain = estimate.interval(0.9)
        assert interval.low <= plain.low
        assert interval.high >= plain.high
    assert stats.binom.cdf(inside, runs, 0.9) > ALARM
    # Both errors have about the same size, so adding their bounds makes the coverage a few percent
    # too high.
    assert inside < 0.995 * runs


def test_sampling_error() -> None:
    protocol = hc.protocol("central.geometric", hc.Mean(-1, 3), hc.Budget(1.0), hc.Crowd(100))
    estimate = protocol.estimate(protocol.simulate({0: 100}, hc.SeededSource(1)))
    for value, variance in ((0.0, 3.0), (1.0, 4.0), (-1.0, 0.0), (3.5, 0.0), (-9.0, 0.0)):
        moved = replace(estimate, value=value)
        assert moved.sampling_error == pytest.approx(math.sqrt(variance / 100))
        interval = moved.interval(0.95, sampling=True)
        assert -1 <= interval.low < interval.high <= 3
        assert interval.confidence == 0.95
        # Even at the ends of the range, the population's mean may be elsewhere.
        assert interval.high - interval.low > 0.01
        assert moved.to_dict()["sampling_error"] == moved.sampling_error
    # Postprocessing of the value says nothing about the population.
    cut = replace(estimate, value=1.0).changed("cut", lambda value: 0.0 * value)
    assert cut.sampling_error == pytest.approx(0.2)


def test_a_sum_says_nothing_about_a_population() -> None:
    protocol = hc.protocol("central.geometric", hc.Sum(0, 1), hc.Budget(1.0), hc.Crowd(10))
    estimate = protocol.estimate(protocol.tally(protocol.randomize([1] * 10, hc.SeededSource(1))))
    for ask in (lambda: estimate.sampling_error, lambda: estimate.interval(0.9, sampling=True)):
        with pytest.raises(hc.InvalidParameter, match="has a sampling error, got a sum"):
            ask()
    assert "sampling_error" not in estimate.to_dict()


# Curves ------------------------------------------------------------------------------------------


def moved_truth(rate: float, steps: int, epsilon: float) -> mpmath.mpf:
    """HS_ε of two-sided geometric noise against the same noise, moved, from its whole law.

    Up to 0, and from `steps` on, ratios are constant, so each of these sums is one term.
    """
    a, factor = mpmath.exp(-mpmath.mpf(rate)), mpmath.exp(mpmath.mpf(epsilon))
    mass = [(1 - a) / (1 + a)]
    while len(mass) <= steps:
        mass.append(mass[-1] * a)
    first, last = 1 / (1 + a), mass[steps] / (1 - a)
    terms = [first - factor * last, last - factor * first]
    terms += [mass[z] - factor * mass[steps - z] for z in range(1, steps)]
    return mpmath.fsum(max(term, 0) for term in terms)


@pytest.mark.parametrize("steps", [1, 2, 3, 10, 1000])
@pytest.mark.parametrize("epsilon", [1e-3, 0.3, 1.0, 5.0, 40.0])
def test_moved_noise(steps: int, epsilon: float) -> None:
    rate = epsilon / steps
    pure = mpmath.mpf(rate) * steps
    curve = moved_steps_curve(rate, steps)
    shares = [0.0, 0.1, 1 / 3, 0.5, 0.77, 0.999, 1 - 1e-6]
    # At the losses themselves, the best event changes.
    shares += [k / steps for k in range(steps % 2, min(steps, 8), 2)]
    for share in shares:
        truth = moved_truth(rate, steps, share * epsilon)
        stated = moved_delta(rate, steps, share * epsilon)
        assert truth <= stated <= truth * (1 + 1e-9) + 2e-15 * max(epsilon, 1)
        assert curve.delta(share * epsilon) == min(stated, 1.0)
        # Pairs occur in both directions.
        negative = moved_truth(rate, steps, -share * epsilon)
        assert (
            negative * (1 - 1e-15)
            <= curve.delta(-share * epsilon)
            <= negative * (1 + 1e-9) + (2e-15 * max(epsilon, 1))
        )
    # δ is 0 at the largest loss, which is rounded up by little.
    assert curve.delta(float(pure) * (1 + 1e-12)) == 0
    assert curve.delta(epsilon) <= 1e-15 * max(epsilon, 1)
    assert pure <= curve.last <= pure * (1 + 1e-12)
    bends = curve.bends
    if steps < 500:
        losses = [epsilon * (1 - 2 * k / steps) for k in range(steps, -1, -1)]
        assert bends == pytest.approx(losses, rel=1e-12, abs=1e-15)
    assert (np.diff(bends) > 0).all()
    assert bends[0] == -bends[-1]
    assert (curve.deltas(bends) == [curve.delta(float(bend)) for bend in bends]).all()


@pytest.mark.parametrize(("rate", "steps"), [(0.5, 1), (0.5, 2), (0.01, 50), (30.0, 3)])
def test_moved_laws_are_the_noise(rate: float, steps: int) -> None:
    here, there = moved_laws(rate, steps)
    truth = [1 - geometric_tail(rate, 0)]
    truth += [geometric_mass(rate, z) for z in range(1, steps)]
    truth += [geometric_tail(rate, steps - 1)]
    assert here.start == there.start == 0
    for law, masses in ((here, truth), (there, truth[::-1])):
        assert len(law.mass) == steps + 1
        assert law.tail == 0
        for found, mass in zip(law.mass, masses, strict=True):
            assert abs(found - mass) <= law.slack * mass
        assert law.slack < 1e-12


@pytest.mark.parametrize("delta", [0.0, 1e-9, 0.1])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 6.0])
def test_one_known_point(epsilon: float, delta: float) -> None:
    curve = PointCurve(epsilon, delta)
    # Reveal everything with probability δ, and otherwise tell the truth with odds e^ε: four
    # outcomes.
    e = mpmath.exp(mpmath.mpf(epsilon))
    lie = (1 - mpmath.mpf(delta)) / (1 + e)
    outcomes = [(mpmath.mpf(delta), 0), (0, mpmath.mpf(delta)), (lie * e, lie), (lie, lie * e)]
    ats = [-2 * epsilon, -epsilon, -epsilon / 2, 0.0, epsilon / 3, epsilon, 2 * epsilon]
    for at in ats:
        factor = mpmath.exp(mpmath.mpf(at))
        truth = mpmath.fsum(max(p - factor * q, 0) for p, q in outcomes)
        assert truth * (1 - 1e-40) <= curve.delta(at) <= truth * (1 + 1e-13)
        assert curve.delta(at) <= 1
    assert (curve.deltas(np.array(ats)) == [curve.delta(at) for at in ats]).all()
    assert curve.delta(epsilon) == pytest.approx(delta, rel=1e-14)
    assert curve.bends.tolist() == [-epsilon, epsilon]
    # The curve is convex in e^ε, and no mechanism with this point is worse. Here it is noise of few
    # steps.
    grid = np.linspace(math.exp(-2 * epsilon), math.exp(2 * epsilon), 400)
    assert (np.diff(curve.deltas(np.log(grid)), 2) >= -1e-13).all()
    for steps in (1, 2, 7):
        for at in ats[3:]:
            other = delta + (1 - mpmath.mpf(delta)) * moved_truth(epsilon / steps, steps, at)
            assert curve.delta(at) >= other * (1 - 1e-15) - 1e-45


def test_bends_of_a_curve_that_is_next_to_nothing() -> None:
    """The whole curve may be negligible. Then there is nothing to search, and the search ends."""
    for nothing in (lambda _: 0.0, lambda _: 1e-30):
        bends = SymmetricCurve(nothing, 1.0).bends
        assert (bends[0], bends[-1]) == (-1.0, 1.0)
    falling = SymmetricCurve(lambda epsilon: math.exp(-60 * epsilon), 100.0).bends
    assert 0.5 < falling[-1] < 4


def test_margins_try_the_middle_of_the_range() -> None:
    """The longest interval may be in the middle, far from both ends."""
    users, task = 100_000, hc.Mean(0, 120)
    built = hc.protocol("local.one-bit-mean", task, hc.Budget(1), hc.Crowd(users))
    assert {0.0, 60.0, 120.0} <= set(built.estimator.extremes(users, 0.95))
