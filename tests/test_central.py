"""Central trust: the released value, against the law of its noise to 50 digits."""

import math
from collections import Counter

import mpmath
import numpy as np
import pytest

import headcount as hc
from enumeration import geometric_mass, log_likelihood_ratio

ALARM = 1e-6
# The judge's own law of each central protocol's noise: (budget epsilon, noise) to probability.
NOISE = {"central.geometric": geometric_mass}
EPSILONS = (0.3, 1.0, 2.5)


def build(name: str, epsilon: float) -> hc.Protocol:
    return hc.protocol(name, hc.Count(), hc.Budget(epsilon), hc.Crowd(10))


def test_every_central_protocol_has_a_judge() -> None:
    assert set(NOISE) == set(hc.protocol_names(trust=hc.Trust.CENTRAL))


def check_release(name: str, epsilon: float, draws: int, off: float) -> None:
    """The released noise has its law, and neither one scaled nor one tilted by `off`."""
    protocol, source = build(name, epsilon), hc.SeededSource(21)
    tally = protocol.tally(protocol.randomize([1] * 7 + [0] * 3, source))
    noise = Counter(int(protocol.estimate(tally, source).value) - 7 for _ in range(draws))
    reach = range(-400, 401)
    law = {z: float(NOISE[name](epsilon, z)) for z in reach}
    assert log_likelihood_ratio(noise, law)[1] > ALARM
    tilted = {z: p * (1 + off * ((z > 0) - (z < 0))) for z, p in law.items()}
    for wrong_epsilon in (epsilon * (1 - off), epsilon * (1 + off)):
        wrong = {z: float(NOISE[name](wrong_epsilon, z)) for z in reach}
        assert log_likelihood_ratio(noise, wrong)[1] < ALARM
    assert log_likelihood_ratio(noise, tilted)[1] < ALARM


@pytest.mark.parametrize("name", NOISE)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_release_follows_the_law_and_no_other(name: str, epsilon: float) -> None:
    check_release(name, epsilon, 40_000, off=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("name", NOISE)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_release_is_right_to_two_percent(name: str, epsilon: float) -> None:
    check_release(name, epsilon, 1_500_000, off=0.02)


@pytest.mark.parametrize("name", NOISE)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_guarantee_and_curve(name: str, epsilon: float) -> None:
    protocol = build(name, epsilon)
    assert protocol.guarantee.epsilon == epsilon
    assert protocol.guarantee.delta == 0
    mass = {z: NOISE[name](epsilon, z) for z in range(-400, 402)}
    limit = mpmath.exp(mpmath.mpf(epsilon))
    for z in range(-400, 401):
        assert mass[z] <= limit * mass[z + 1] * (1 + mpmath.mpf(10) ** -45)
        assert mass[z + 1] <= limit * mass[z] * (1 + mpmath.mpf(10) ** -45)
    for smaller in (0.0, 0.2, epsilon / 2, epsilon):
        factor = mpmath.exp(mpmath.mpf(smaller))
        truth = sum(max(mass[z] - factor * mass[z + 1], 0) for z in range(-400, 401))
        stated = protocol.curve.delta(smaller)
        assert truth - mpmath.mpf(10) ** -45 <= stated <= truth * (1 + 1e-9) + 1e-14


@pytest.mark.parametrize("name", NOISE)
@pytest.mark.parametrize("epsilon", [*EPSILONS, 0.01, 40.0])
def test_error_and_intervals(name: str, epsilon: float) -> None:
    protocol = build(name, epsilon)
    reach = range(-int(60 / epsilon) - 2, int(60 / epsilon) + 3)
    law = {z: NOISE[name](epsilon, z) for z in reach}
    variance = sum(z * z * p for z, p in law.items())
    assert protocol.standard_error() == pytest.approx(float(mpmath.sqrt(variance)), rel=1e-9)
    assert protocol.standard_error([4, 6]) == protocol.standard_error()
    with pytest.raises(hc.InvalidValue):
        protocol.standard_error([4, 6, 1])
    estimate = protocol.estimate(hc.Tally(np.array([5, 5]), 10, name))
    for confidence in (0.5, 0.95, 0.999):
        below, above = estimate.error_law.margins(confidence)
        covered = sum(p for z, p in law.items() if -below <= z <= above)
        assert covered >= confidence
        narrower = sum(p for z, p in law.items() if -below < z < above)
        assert narrower < confidence or below == 0


def test_every_estimate_is_a_new_release() -> None:
    protocol = build("central.geometric", 0.1)
    tally = hc.Tally(np.array([5, 5]), 10, protocol.name)
    assert len({protocol.estimate(tally).value for _ in range(50)}) > 10


def test_tiny_epsilon_still_answers() -> None:
    protocol = build("central.geometric", 1e-12)
    tally = hc.Tally(np.array([5, 5]), 10, protocol.name)
    assert math.isfinite(protocol.estimate(tally).value)


def test_histogram_has_independent_noise_in_every_bucket() -> None:
    """Half of epsilon for each of the two buckets that a person moves between."""
    epsilon, runs = 1.6, 20_000
    protocol = hc.protocol("central.geometric", hc.Histogram(3), hc.Budget(epsilon), hc.Crowd(10))
    source = hc.SeededSource(8)
    tally = protocol.tally(protocol.randomize([0] * 6 + [1] * 4, source))
    assert tally.counts.tolist() == [6, 4, 0]
    noise = np.array([protocol.estimate(tally, source).value - [6, 4, 0] for _ in range(runs)])
    law = {z: float(geometric_mass(epsilon / 2, z)) for z in range(-100, 101)}
    for bucket in range(3):
        found = Counter(noise[:, bucket].astype(int).tolist())
        assert log_likelihood_ratio(found, law)[1] > ALARM
    pairs = Counter(zip(*noise[:, :2].astype(int).T.tolist(), strict=True))
    both = {(y, z): law[y] * law[z] for y in range(-30, 31) for z in range(-30, 31)}
    assert log_likelihood_ratio(pairs, both)[1] > ALARM
    assert protocol.guarantee.epsilon == epsilon
    # Two counts of epsilon/2 each, by all their pairs of outcomes.
    mass = np.array([float(geometric_mass(epsilon / 2, z)) for z in range(-60, 61)])
    moved, still = np.append(0, mass), np.append(mass, 0)
    for at in (0.0, 0.5, 1.2, epsilon):
        upper, lower = np.multiply.outer(moved, still), np.multiply.outer(still, moved)
        truth = float(np.maximum(upper - math.exp(at) * lower, 0).sum())
        assert truth == pytest.approx(protocol.curve.delta(at), abs=1e-12)
