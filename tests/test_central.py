"""Central trust: the released value, compared with the law of its noise to 50 digits."""

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import headcount as hc
from enumeration import geometric_mass, log_likelihood_ratio
from headcount.protocols.central.geometric import CuratedSum
from headcount.protocols.central.tree import CuratedTree
from headcount.randomness.discrete_laplace import discrete_laplace

ALARM = 1e-6
# The judge's own law of each central protocol's noise. It is two-sided geometric. The budget's
# epsilon is divided by this many steps for one person (of a count, or in a bucket).
NOISE = {"central.geometric": 1, "central.laplace": 1024}
OTHER_NOISE = {
    "central.cube": "tests/test_boxes.py",
    "central.fitted-table": "tests/test_tables.py",
    "central.margins": "tests/test_tables.py",
    "central.sum-zero": "tests/test_sum_zero.py",
    "central.summed-cells": "tests/test_tables.py",
}
EPSILONS = (0.3, 1.0, 2.5)
COUNT, WHOLE, REAL = hc.Count(), hc.Sum(-3, 4, whole=True), hc.Mean(-1, 2.5)


def build(name: str, epsilon: float, task: hc.Task = COUNT) -> hc.Protocol:
    return hc.protocol(name, task, hc.Budget(epsilon), hc.Crowd(10))


def steps_of(protocol: hc.Protocol) -> int:
    """By how many steps of the noise one person can change the sum or the count."""
    levels = int(protocol.parameters["levels"])
    if protocol.task == REAL:
        # A protocol may choose the number of levels of reals, if rounding adds no more than a
        # ten-thousandth to the variance of the noise.
        assert 2 * levels**2 / protocol.budget.epsilon**2 >= 10_000 * 10 / 4
    else:
        assert levels == NOISE[protocol.name] * (7 if protocol.task == WHOLE else 1)
    return levels


def bounds_of(task: hc.Task) -> tuple[float, float]:
    return (task.low, task.high) if isinstance(task, hc.Sum | hc.Mean) else (0, 1)


def below(rate: mpmath.mpf, z: int) -> mpmath.mpf:
    """P(Z < z) of two-sided geometric noise."""
    a = mpmath.exp(-rate)
    return a ** (1 - z) / (1 + a) if z <= 0 else 1 - a**z / (1 + a)


def binned(rate: mpmath.mpf, width: int) -> dict[int, float]:
    """The law of the bin that the noise falls into. Bins have an odd width, and one contains 0."""
    reach = range(-math.ceil(60 / (rate * width)) - 1, math.ceil(60 / (rate * width)) + 2)
    half = width // 2
    ends = {b: below(rate, b * width - half) for b in (*reach, reach[-1] + 1)}
    return {b: float(ends[b + 1] - ends[b]) for b in reach}


def test_every_central_protocol_has_a_judge() -> None:
    elsewhere = {"central.exponential-quantile"}  # tests/test_quantiles.py
    named = {*NOISE, *OTHER_NOISE, *elsewhere, "central.tree"}
    assert named == set(hc.protocol_names(trust=hc.Trust.CENTRAL))


def test_all_nodes_of_a_tree_have_noise_of_the_law_and_no_other() -> None:
    task, source = hc.Distribution(0, 4, cells=4), hc.SeededSource(4)
    protocol = hc.protocol("central.tree", task, hc.Budget(1.5), hc.Crowd(10), fanouts="2,2")
    tally = hc.Tally(np.array([7, 0, 2, 1]), 10, protocol.name)
    estimator = protocol.estimator
    assert isinstance(estimator, CuratedTree)
    nodes = [np.rint(estimator.noisy_counts(tally, source)) for _ in range(2500)]
    noise = np.array(nodes).astype(int) - [7, 3, 7, 0, 2, 1]
    check_noise(Counter(noise.ravel().tolist()), mpmath.mpf(1.5) / 4, off=0.15)
    for node in noise.T:
        law = binned(mpmath.mpf(1.5) / 4, 1)
        assert log_likelihood_ratio(Counter(node.tolist()), law)[1] > ALARM
    # Least squares: the released shares are those of the fitted counts, which add up to 10.
    assert estimator.unbiased(tally, source).shape == (3,)


def test_judge_is_right() -> None:
    for rate in (mpmath.mpf(2), mpmath.mpf(1) / 5):
        for z in range(-40, 41):
            mass = geometric_mass(rate, z)
            assert mpmath.almosteq(below(rate, z + 1) - below(rate, z), mass, abs_eps=1e-45)
        for width in (1, 5):
            assert sum(binned(rate, width).values()) == pytest.approx(1, abs=1e-12)


def check_noise(noise: Counter[int], rate: mpmath.mpf, off: float) -> None:
    """Noise has its law, and is distinguished from laws that are scaled or tilted by `off`."""
    width = 2 * int(1 / (8 * rate)) + 1
    bins: Counter[int] = Counter()
    for z, times in noise.items():
        bins[(z + width // 2) // width] += times
    law = binned(rate, width)
    assert log_likelihood_ratio(bins, law)[1] > ALARM
    for factor in (1 - off, 1 + off):
        assert log_likelihood_ratio(bins, binned(rate * factor, width))[1] < ALARM
    tilted = {b: p * (1 + off * ((b > 0) - (b < 0))) for b, p in law.items()}
    assert log_likelihood_ratio(bins, tilted)[1] < ALARM


def check_release(name: str, task: hc.Task, epsilon: float, draws: int, off: float) -> None:
    protocol, source = build(name, epsilon, task), hc.SeededSource(21)
    levels = steps_of(protocol)
    tally = protocol.tally(protocol.randomize([1] * 7 + [0] * 3, source))
    low, high = map(Fraction, bounds_of(task))
    # Zeros and ones are levels themselves, except for the mean.
    (total,) = tally.counts.tolist()
    place = (7 - 10 * low) * levels / (high - low)
    assert total == place if task != REAL else abs(total - place) < 10
    share = 10 if isinstance(task, hc.Mean) else 1
    noise: Counter[int] = Counter()
    for _ in range(draws):
        value = Fraction(protocol.estimate(tally, source).value)
        steps = (value * share - 10 * low) * levels / (high - low) - total
        assert abs(steps - round(steps)) < 1e-6
        noise[round(steps)] += 1
    check_noise(noise, mpmath.mpf(epsilon) / levels, off)


@pytest.mark.parametrize("name", NOISE)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_release_follows_the_law_and_no_other(name: str, epsilon: float) -> None:
    # Noise of 0 shows no tilt.
    draws = 18_000 if epsilon > 2 and NOISE[name] == 1 else 7_000
    check_release(name, COUNT, epsilon, draws, off=0.15)


@pytest.mark.parametrize("name", NOISE)
@pytest.mark.parametrize("task", [WHOLE, REAL], ids=str)
def test_release_of_numbers_follows_the_law_and_no_other(name: str, task: hc.Task) -> None:
    check_release(name, task, 1.3, 7_000, off=0.15)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "task", "epsilon"),
    [
        *(("central.geometric", COUNT, epsilon) for epsilon in EPSILONS),
        ("central.laplace", COUNT, 1.0),
        *((name, task, 1.0) for name in NOISE for task in (WHOLE, REAL)),
    ],
    ids=str,
)
def test_noise_is_right_to_two_percent(name: str, task: hc.Task, epsilon: float) -> None:
    """A release draws one number. So the numbers are drawn a few at a time, which is the same way
    through the code.
    """
    protocol, source = build(name, epsilon, task), hc.SeededSource(21)
    assert isinstance(protocol.estimator, CuratedSum)
    noise: Counter[int] = Counter()
    for _ in range(1_500):
        noise.update(discrete_laplace(source, protocol.estimator.rate, 1_000).tolist())
    check_noise(noise, mpmath.mpf(epsilon) / steps_of(protocol), off=0.02)


def moved(rate: mpmath.mpf, steps: int, epsilon: float) -> mpmath.mpf:
    """HS_ε of noise against noise moved by some steps. Beyond these steps, all ratios are equal."""
    factor, a = mpmath.exp(mpmath.mpf(epsilon)), mpmath.exp(-rate)
    first = below(rate, 1), below(rate, 1 - steps)
    last = 1 - below(rate, steps), 1 - below(rate, 0)
    mass = [(1 - a) / (1 + a)]
    while len(mass) < steps:
        mass.append(mass[-1] * a)
    inside = zip(mass[1:], mass[:0:-1], strict=True)
    return mpmath.fsum(max(p - factor * q, 0) for p, q in (first, *inside, last))


def test_moved_noise_is_the_sum_over_all_of_it() -> None:
    for rate, steps, epsilon in ((mpmath.mpf(2) / 5, 3, 0.7), (mpmath.mpf(1), 1, 0.2)):
        factor = mpmath.exp(mpmath.mpf(epsilon))
        truth = sum(
            max(geometric_mass(rate, z) - factor * geometric_mass(rate, z - steps), 0)
            for z in range(-400, 400)
        )
        assert mpmath.almosteq(truth, moved(rate, steps, epsilon), rel_eps=1e-40)


@pytest.mark.parametrize(
    ("name", "task"),
    [(name, task) for name in NOISE for task in (COUNT, WHOLE)] + [("central.geometric", REAL)],
    ids=str,
)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_guarantee_and_curve(name: str, epsilon: float, task: hc.Task) -> None:
    protocol = build(name, epsilon, task)
    assert protocol.guarantee.epsilon == epsilon
    assert protocol.guarantee.delta == 0
    assert protocol.guarantee.exact
    levels = steps_of(protocol)
    rate = mpmath.mpf(epsilon) / levels
    limit = mpmath.exp(mpmath.mpf(epsilon)) * (1 + mpmath.mpf(10) ** -45)
    for z in range(-20, 21):
        here, there = geometric_mass(rate, z), geometric_mass(rate, z + levels)
        assert here <= limit * there
        assert there <= limit * here
    for smaller in (0.0, 0.2, epsilon / 2, epsilon):
        truth = moved(rate, levels, smaller)
        stated = protocol.curve.delta(smaller)
        assert truth - mpmath.mpf(10) ** -45 <= stated <= truth * (1 + 1e-9) + 1e-14
        # A person who changes the sum by less is hidden at least as well.
        for steps in {1, levels // 2, levels - 1} - {0}:
            assert moved(rate, steps, smaller) <= stated


@pytest.mark.parametrize("name", NOISE)
@pytest.mark.parametrize("epsilon", [*EPSILONS, 0.01, 40.0])
def test_error_and_intervals(name: str, epsilon: float) -> None:
    protocol = build(name, epsilon)
    steps = NOISE[name]
    rate = mpmath.mpf(epsilon) / steps
    a = mpmath.exp(-rate)
    deviation = mpmath.sqrt(2 * a) / (1 - a) / steps
    if steps == 1:
        reach = range(-int(60 / epsilon) - 2, int(60 / epsilon) + 3)
        variance = sum(z * z * geometric_mass(epsilon, z) for z in reach)
        assert mpmath.almosteq(deviation, mpmath.sqrt(variance), rel_eps=1e-15)
    assert protocol.standard_error() == pytest.approx(float(deviation), rel=1e-9)
    assert protocol.standard_error([4, 6]) == protocol.standard_error()
    with pytest.raises(hc.InvalidValue):
        protocol.standard_error([4, 6, 1])
    estimate = protocol.estimate(hc.Tally(np.array([5 * steps]), 10, name))
    for confidence in (0.5, 0.95, 0.999):
        margins = estimate.error_law.margins(confidence)
        assert margins[0] == margins[1]
        most = margins[0] * steps
        assert most == int(most)
        assert 1 - 2 * below(rate, -int(most)) >= confidence
        assert most == 0 or 1 - 2 * below(rate, 1 - int(most)) < confidence
        # A truth within the margins is within the interval, even at its ends.
        for truth in (0, 3, 10):
            for noise in (-margins[0], margins[1]):
                assert truth in replace(estimate, value=truth + noise).interval(confidence)
            if truth == 3:
                outside = replace(estimate, value=3 + margins[1] + 1.01)
                assert truth not in outside.interval(confidence)


@pytest.mark.parametrize("name", NOISE)
@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.9, 0.95])
def test_intervals_of_means_hold_what_lies_on_their_ends(name: str, confidence: float) -> None:
    """Means of whole numbers are tenths here, which floats cannot represent exactly."""
    task = hc.Mean(0, 1, whole=True)
    protocol = build(name, 1.0, task)
    steps = NOISE[name]
    estimate = protocol.estimate(hc.Tally(np.array([5 * steps]), 10, name))
    a = mpmath.exp(-mpmath.mpf(1) / steps)
    margins = estimate.error_law.margins(confidence)
    most = round(margins[0] * 10 * steps)
    assert 1 - 2 * a ** (most + 1) / (1 + a) >= confidence
    for truth in range(11):
        for noise in (-most, most):
            value = float(Fraction(truth, 10) + Fraction(noise, 10 * steps))
            assert truth / 10 in replace(estimate, value=value).interval(confidence)


@pytest.mark.parametrize("name", NOISE)
def test_every_estimate_is_a_new_release(name: str) -> None:
    protocol = build(name, 0.1)
    tally = hc.Tally(np.array([5 * NOISE[name]]), 10, protocol.name)
    assert len({protocol.estimate(tally).value for _ in range(50)}) > 10


@pytest.mark.parametrize("name", NOISE)
@pytest.mark.parametrize("task", [COUNT, WHOLE, REAL, hc.Histogram(2)], ids=str)
def test_tiny_epsilon_still_answers(name: str, task: hc.Task) -> None:
    protocol = build(name, 1e-12, task)
    tally = protocol.tally(protocol.randomize([1] * 10, hc.SeededSource(1)))
    estimate = protocol.estimate(tally)
    assert np.isfinite(estimate.value).all()
    assert np.isfinite(estimate.interval().low).all()


@pytest.mark.parametrize("name", NOISE)
@pytest.mark.parametrize("task", [COUNT, WHOLE, REAL], ids=str)
def test_messages_are_levels_and_tallies_their_sums(name: str, task: hc.Task) -> None:
    protocol = build(name, 1.0, task)
    levels = steps_of(protocol)
    low, high = bounds_of(task)
    tally = protocol.tally(protocol.randomize([low] * 4 + [high] * 6, hc.SeededSource(1)))
    assert tally.counts.tolist() == [6 * levels]
    people = [4, 6] if isinstance(task, hc.Count) else {low: 4, high: 6}
    assert protocol.simulate(people, hc.SeededSource(1)).counts.tolist() == [6 * levels]
    with pytest.raises(hc.InvalidValue):
        protocol.tally(hc.Batch(np.array([levels + 1]), 1))
    if levels > 7 and task != REAL:
        # Counts are whole people.
        with pytest.raises(hc.InvalidValue):
            protocol.tally(hc.Batch(np.array([1]), 1))


def differences(rate: mpmath.mpf, width: int) -> dict[int, float]:
    """The law of the bin of Z − Z', for two independent noises."""
    a = mpmath.exp(-rate)
    reach = range(-math.ceil(60 / (rate * width)) - 1, math.ceil(60 / (rate * width)) + 2)
    values = np.arange(reach[0] * width - width // 2, (reach[-1] + 1) * width - width // 2)
    # P(Z − Z' = k) = ((1−a)/(1+a))²·a^|k|·(|k| + (1+a²)/(1−a²))
    sizes, ratio = np.abs(values), float(a)
    masses = np.exp(-float(rate) * sizes) * (sizes + (1 + ratio**2) / (1 - ratio**2))
    bins = masses.reshape(-1, width).sum(axis=1) * float((1 - a) / (1 + a)) ** 2
    return dict(zip(reach, bins.tolist(), strict=True))


@pytest.mark.parametrize("name", NOISE)
def test_histogram_has_independent_noise_in_every_bucket(name: str) -> None:
    """Each of the two buckets between which a person moves gets half of epsilon.

    The mean of all noises is subtracted, so only differences of buckets show the noise.
    """
    epsilon, runs, steps = 1.6, 6_000, NOISE[name]
    protocol = build(name, epsilon, hc.Histogram(4))
    source = hc.SeededSource(8)
    tally = protocol.tally(protocol.randomize([0] * 6 + [1] * 4, source))
    assert tally.counts.tolist() == [6, 4, 0, 0]
    found = [(protocol.estimate(tally, source).value - [6, 4, 0, 0]) * steps for _ in range(runs)]
    errors = np.array(found)
    assert np.abs(errors.sum(axis=1)).max() < 1e-6
    rate = mpmath.mpf(epsilon) / 2 / steps
    # Differences of numbers, in bins of about one person.
    width = steps | 1
    law = differences(rate, width)
    assert sum(law.values()) == pytest.approx(1, abs=1e-9)
    bins = {}
    for one, other in ((0, 1), (1, 2), (2, 3)):
        apart = errors[:, one] - errors[:, other]
        assert np.abs(apart - np.round(apart)).max() < 1e-6
        bins[one] = (np.round(apart).astype(int) + width // 2) // width
        seen = Counter(bins[one].tolist())
        assert log_likelihood_ratio(seen, law)[1] > ALARM
        for factor in (0.85, 1.15):
            assert log_likelihood_ratio(seen, differences(rate * factor, width))[1] < ALARM
    # Two differences without a common bucket are independent.
    both = {(y, z): law[y] * law[z] for y in range(-30, 31) for z in range(-30, 31)}
    seen_pairs = Counter(zip(bins[0].tolist(), bins[2].tolist(), strict=True))
    assert log_likelihood_ratio(seen_pairs, both)[1] > ALARM
    assert protocol.guarantee.epsilon == epsilon
    assert protocol.guarantee.delta == 0
    a = math.exp(-epsilon / 2 / steps)
    deviation = math.sqrt(2 * a) / (1 - a) / steps * math.sqrt(3 / 4)
    assert protocol.standard_error() == pytest.approx(deviation, rel=1e-9)
    assert protocol.standard_error([6, 4, 0, 0]) == protocol.standard_error()
    # tests/test_known_total.py judges the margins.


@pytest.mark.parametrize("name", NOISE)
@pytest.mark.parametrize("at", [0.0, 0.5, 1.2, 1.6])
def test_histogram_curve(name: str, at: float) -> None:
    """Two counts with epsilon/2 each, by all pairs of their outcomes."""
    epsilon, steps = 1.6, NOISE[name]
    rate = epsilon / 2 / steps
    # The outcomes of one count: noise up to 0, each step up to one person, and all noise beyond.
    ends = 1 / (1 + math.exp(-rate)), math.exp(-rate * steps) / (1 + math.exp(-rate))
    inside = np.exp(-rate * np.arange(1, steps)) * math.tanh(rate / 2)
    still = np.concatenate([[ends[0]], inside, [ends[1]]])
    assert still.sum() == pytest.approx(1, abs=1e-12)
    upper = np.multiply.outer(still, still[::-1])
    truth = float(np.maximum(upper - math.exp(at) * upper.T, 0).sum())
    stated = build(name, epsilon, hc.Histogram(3)).curve.delta(at)
    assert truth - 1e-12 <= stated <= truth + 1e-12 + 1e-9 * truth
