"""The shuffler that adds the noise: its laws by enumeration and to 50 digits, and its views."""

import itertools
import json
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

import enumeration
import headcount as hc
from commands import Headcount
from enumeration import log_likelihood_ratio
from headcount.core.protocol import check_crowd

ALARM = 1e-6
NAME = "shuffle.noisy-shuffler"
BUDGET = hc.Budget(1, 1e-6)


def build(
    task: hc.Task | None = None,
    budget: hc.Budget = BUDGET,
    users: int = 10_000,
    honest: int | None = None,
    **options: Any,
) -> hc.Protocol:
    return hc.protocol(NAME, task or hc.Count(), budget, hc.Crowd(users, honest), **options)


def central(rate: float) -> mpmath.mpf:
    """The standard error of a curator's noise."""
    a = mpmath.exp(-mpmath.mpf(rate))
    return mpmath.sqrt(2 * a) / (1 - a)


def count_law(epsilon: float, most: int) -> list[mpmath.mpf]:
    masses = [mpmath.exp(-mpmath.mpf(epsilon) * abs(k - most // 2)) for k in range(most + 1)]
    return [mass / mpmath.fsum(masses) for mass in masses]


def bucket_law(epsilon: float, most: int, buckets: int) -> dict[tuple[int, ...], mpmath.mpf]:
    """All dummies of a histogram with a fixed total, by enumeration."""
    a = mpmath.exp(-mpmath.mpf(epsilon) / 2)
    law = {
        z: a ** sum(abs(k - most // 2) for k in z)
        for z in itertools.product(range(most + 1), repeat=buckets)
        if sum(z) == buckets * most // 2
    }
    total = mpmath.fsum(law.values())
    return {z: mass / total for z, mass in law.items()}


# Count -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "delta", "most", "stated", "ratio"),
    [
        (0.1, 1e-6, 218, 9.22160e-7, 0.999378),
        (0.5, 1e-6, 50, 9.12729e-7, 0.999864),
        (1.0, 1e-4, 18, 5.70336e-5, 0.997996),
        (1.0, 1e-6, 28, 3.84264e-7, 0.999971),
        (1.0, 1e-8, 36, 7.03804e-9, 0.999999),
        (2.0, 1e-6, 14, 6.33288e-7, 0.999982),
    ],
)
def test_counts_have_the_fewest_dummies_and_a_curators_error(
    epsilon: float, delta: float, most: int, stated: float, ratio: float
) -> None:
    protocol = build(budget=hc.Budget(epsilon, delta))
    assert protocol.parameters == {"dummies": most, "all_dummies": most}
    assert protocol.guarantee.delta == pytest.approx(stated, rel=2e-6)
    law = count_law(epsilon, most)
    assert protocol.guarantee.delta == pytest.approx(float(law[0]), rel=1e-12)
    assert count_law(epsilon, most - 2)[0] > delta
    variance = mpmath.fsum((k - most // 2) ** 2 * mass for k, mass in enumerate(law))
    assert protocol.standard_error() == pytest.approx(float(mpmath.sqrt(variance)), rel=1e-12)
    assert protocol.standard_error() / float(central(epsilon)) == pytest.approx(ratio, abs=6e-7)
    assert protocol.guarantee.exact
    assert protocol.guarantee.honest == 1
    assert protocol.messages_per_user == 1
    assert math.isinf(protocol.local_epsilon)


def test_the_curve_of_a_count() -> None:
    curve = build().curve
    points = {0.0: 0.462117, 0.5: 0.287649, 0.9: 0.0695698, 1.0: 3.84264e-7, 1.1: 3.84264e-7}
    for epsilon, delta in points.items():
        assert curve.delta(epsilon) == pytest.approx(delta, rel=2e-6)


@pytest.mark.parametrize("users", [1, 2, 4])
@pytest.mark.parametrize("task", [hc.Count(), hc.Histogram(3), hc.Histogram(4)])
def test_every_crowd_has_the_same_privacy(users: int, task: hc.Task) -> None:
    """By enumeration of all datasets, with a law of the noise that is written down here."""
    if isinstance(task, hc.Histogram) and users > 2:
        return
    protocol = build(task, hc.Budget(1, 0.25), users)
    most = int(protocol.parameters["dummies"])
    law = bucket_law(1.0, most, task.domain)
    if isinstance(task, hc.Count):
        law = {(most - k, k): mass for k, mass in enumerate(count_law(1.0, most))}
    listed = protocol.shuffler.noise_law(users)
    assert listed is not None
    for z, mass in law.items():
        bundle = tuple(pair for pair in enumerate(z) if pair[1])
        assert float(listed[bundle, False]) == pytest.approx(float(mass), rel=1e-12)
    assert len(listed) == len(law)
    for epsilon in (0.0, 0.4, 1.0, 2.0):
        worst = max(
            divergence(law, held, other, epsilon) for held, other in pairs(users, task.domain)
        )
        assert protocol.curve.delta(epsilon) == pytest.approx(float(worst), rel=1e-11)


def pairs(users: int, values: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """All numbers of people by value that differ in one person."""
    out: list[Any] = []
    for others in enumeration.datasets(users - 1, values):
        each = [tuple(n + (v == own) for v, n in enumerate(others)) for own in range(values)]
        out += itertools.permutations(each, 2)
    return out


def divergence(
    law: dict[tuple[int, ...], mpmath.mpf],
    held: tuple[int, ...],
    other: tuple[int, ...],
    epsilon: float,
) -> mpmath.mpf:
    factor = mpmath.exp(mpmath.mpf(epsilon))
    total = mpmath.mpf(0)
    for z, mass in law.items():
        partner = tuple(k + one - two for k, one, two in zip(z, held, other, strict=True))
        total += max(mass - factor * law.get(partner, 0), 0)
    return total


# The best law of any count -----------------------------------------------------------------------


def best_law(epsilon: float, delta: float) -> list[mpmath.mpf]:
    """Slopes e^±ε throughout, and δ spent on the last two points of each side."""
    grow, most = mpmath.exp(mpmath.mpf(epsilon)), 1 / mpmath.mpf(delta)

    def mass(half: int) -> mpmath.mpf:
        return 2 * (grow**half - 1) / (grow - 1) + grow**half

    half = next(v for v in itertools.count(1) if mass(v) >= most)
    first = (most - mass(half - 1)) / (mass(half) - mass(half - 1))
    left = [(first * grow**k + (1 - first) * grow ** (k - 1)) / most for k in range(1, half + 1)]
    left.insert(0, first / most)
    return left + left[-2::-1]


@pytest.mark.parametrize(
    ("epsilon", "delta", "ratio"),
    [
        (0.1, 1e-6, 0.999334),
        (0.5, 1e-6, 0.999854),
        (1.0, 1e-4, 0.996918),
        (1.0, 1e-6, 0.999933),
        (1.0, 1e-8, 0.999999),
        (2.0, 1e-6, 0.999974),
        (1.0, 1e-3, 0.981514),
        (0.1, 1e-4, 0.975044),
    ],
)
def test_no_law_has_much_less_error_than_the_dummies(
    epsilon: float, delta: float, ratio: float
) -> None:
    law, grow = best_law(epsilon, delta), mpmath.exp(mpmath.mpf(epsilon))
    assert float(mpmath.fsum(law)) == pytest.approx(1, abs=1e-15)
    excess = mpmath.fsum(max(p - grow * q, 0) for q, p in itertools.pairwise([0, *law]))
    assert float(excess) == pytest.approx(delta, rel=1e-12)  # and the same from the other side
    center = len(law) // 2
    variance = mpmath.fsum((k - center) ** 2 * mass for k, mass in enumerate(law))
    best = float(mpmath.sqrt(variance) / central(epsilon))
    assert best == pytest.approx(ratio, abs=6e-7)
    protocol = build(budget=hc.Budget(epsilon, delta))
    found = protocol.standard_error() / float(central(epsilon))
    assert best < found <= 1
    assert protocol.parameters["dummies"] == len(law) - 1  # and no law has fewer


def least_error(most: int, epsilon: float, delta: float, mean: float) -> tuple[float, float] | None:
    """The least standard error of a law on {0..T} with a mean near this one, and its mean.

    A linear program for a fixed center, which is then moved to the mean. Masses are in units of a
    geometric law, since they differ by many orders of magnitude.
    """
    places, size = np.arange(most + 1), most + 1
    while True:
        units = np.exp(-epsilon * np.abs(places - mean))
        own = np.diag(units / delta)
        rows: list[NDArray[np.float64]] = []
        for side, step in enumerate((1, -1)):
            beside = np.eye(size, k=-step) * math.exp(epsilon) * units / delta
            spent = np.zeros((size, 2 * size))
            spent[:, side * size :][:, :size] = -np.eye(size)
            rows.append(np.hstack([own - beside, spent]))
        whole = np.kron(np.eye(2), np.ones(size))  # what each side spends, of 1
        bounds = np.vstack([*rows, np.hstack([np.zeros((2, size)), whole])])
        scales = np.concatenate([np.tile(np.maximum(units / delta, 1), 2), np.ones(2)])
        nothing = np.zeros(2 * size)
        found = linprog(
            np.concatenate([(places - mean) ** 2 * units, nothing]),
            A_ub=bounds / scales[:, None],
            b_ub=np.concatenate([np.zeros(2 * size), np.ones(2)]),
            A_eq=np.concatenate([units, nothing])[None],
            b_eq=[1.0],
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        if found.status == 2:  # no law is private
            return None
        law = found.x[:size] * units
        moved = float(law @ places)
        if abs(moved - mean) < 1e-8:
            return math.sqrt(law @ (places - moved) ** 2), moved
        mean = moved


def test_no_law_on_fewer_or_more_dummies_is_better() -> None:
    """All laws on {0..T}, at ε = 1 and δ = 1e-6, by a linear program."""
    curator = float(central(1))
    for most in (20, 25, 26):
        # P(Z = k) ≤ δ·e^min(k, T−k), so the whole mass would be below 1.
        whole = mpmath.fsum(mpmath.exp(min(k, most - k)) for k in range(most + 1))
        assert whole * mpmath.mpf("1e-6") < 1
        assert least_error(most, 1.0, 1e-6, most / 2) is None
    for most, ratio in ((27, 1.01687), (28, 0.999933), (29, 0.999933), (33, 0.999933)):
        tried = [least_error(most, 1.0, 1e-6, most / 2 + off) for off in (-1.2, -0.3, 0.0, 0.8)]
        error, mean = min(one for one in tried if one is not None)
        assert error / curator == pytest.approx(ratio, abs=2e-6 if most == 27 else 6e-7)
        if most == 27:  # it is lopsided
            assert abs(mean - most / 2) > 0.4
    fewer = least_error(18, 1.0, 1e-4, 9.0)
    assert fewer is not None
    assert fewer[0] / curator == pytest.approx(0.996918, abs=6e-7)


def test_independent_dummies_for_yes_and_no_have_twice_the_error() -> None:
    """Zeros with noise of their own are one more thing to hide: each has the rate ε/2."""

    def view(rate: float) -> Any:
        weights = [int(mass * 10**30) for mass in count_law(rate, 6)]
        law = {k: Fraction(weight, sum(weights)) for k, weight in enumerate(weights)}

        def both(held: tuple[int, ...]) -> dict[Any, Fraction]:
            ones, zeros = sum(held), len(held) - sum(held)
            drawn = itertools.product(law.items(), repeat=2)
            return {(ones + y, zeros + z): p * q for (y, p), (z, q) in drawn}

        return both, float(1 - (1 - law[0]) ** 2)

    for rate, epsilon in ((0.5, 1.0), (1.0, 2.0)):
        both, delta = view(rate)
        found = hc.exact_audit(
            both, values=[0, 1], users=2, view="central", claim=1.0, delta=delta * (1 + 1e-9)
        )
        assert found.refuted == (epsilon > 1)
        assert found.epsilon == pytest.approx(epsilon, abs=1e-6)
    law = count_law(0.5, 54)
    variance = mpmath.fsum((k - 27) ** 2 * mass for k, mass in enumerate(law))
    ratio = float(mpmath.sqrt(variance)) / build().standard_error()
    assert ratio == pytest.approx(2.06, abs=5e-3)
    # An analyzer who knows the number of people has the mean of two answers.
    free = build(hc.Histogram(2), total="free")
    assert free.parameters["dummies"] == 54
    assert free.standard_error() / build().standard_error() == pytest.approx(ratio / math.sqrt(2))


# Histogram and density ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("buckets", "most", "dummies", "delta", "ratio"),
    [
        (2, 28, 28, 3.84264e-7, 0.484758),
        (3, 32, 48, 5.69228e-7, 0.635340),
        (5, 36, 90, 7.19276e-7, 0.768588),
        (10, 42, 210, 6.33035e-7, 0.878539),
        (20, 46, 460, 8.142e-7, 0.937621),
        (50, 50, 1250, 8.017e-7, 0.974597),
        (100, 52, 2600, 7.155e-7, 0.987200),
        (300, 52, 7800, 9.593e-7, 0.995660),
        (1000, 54, 27000, 6.413e-7, 0.998664),
    ],
)
def test_histograms_with_a_fixed_total(
    buckets: int, most: int, dummies: int, delta: float, ratio: float
) -> None:
    protocol = build(hc.Histogram(buckets), total="fixed")
    assert protocol.parameters == {"dummies": most, "all_dummies": dummies}
    assert protocol.guarantee.delta == pytest.approx(delta, rel=6e-5)
    assert protocol.standard_error() / float(central(0.5)) == pytest.approx(ratio, abs=6e-7)
    default = build(hc.Histogram(buckets))
    assert (default.standard_error() == protocol.standard_error()) == (buckets <= 300)


def test_independent_buckets_and_other_points_of_curves() -> None:
    free = build(hc.Histogram(1000))
    assert free.parameters["dummies"] == 54
    assert free.guarantee.delta == pytest.approx(6.71548e-7, rel=2e-6)
    ratio = 0.999943 * math.sqrt(1 - 1 / 1000)  # since the number of people is known
    assert free.standard_error() / float(central(0.5)) == pytest.approx(ratio, abs=6e-7)
    half = hc.Budget(0.5, 1e-6)
    assert build(hc.Histogram(1000), half).parameters["dummies"] == 100
    assert build(hc.Histogram(5)).curve.delta(0.5) == pytest.approx(0.174585, rel=4e-6)
    assert build(hc.Histogram(10)).curve.delta(0.5) == pytest.approx(0.161462, rel=4e-6)
    for buckets, most, ratio in ((5, 68, 0.773078), (100, 98, 0.987371)):
        protocol = build(hc.Histogram(buckets), half)
        assert protocol.parameters["dummies"] == most
        assert protocol.standard_error() / float(central(0.25)) == pytest.approx(ratio, abs=6e-7)


def test_buckets_together_have_less_error_than_independent_ones() -> None:
    """K buckets together have the variance k·Var·(d−k)/(d−1), by enumeration and as stated."""
    law = bucket_law(1.0, 4, 3)
    protocol = build(hc.Histogram(3), hc.Budget(1, 0.2))
    assert protocol.parameters["dummies"] == 4
    stated = protocol.estimator.error_law(10, np.zeros(3))
    for weights in ([1, 0, 0], [1, 1, 0], [1, 1, 1], [1, -1, 0], [2, 1, -3]):
        variance = sum(
            mass * sum(w * (k - 2) for w, k in zip(weights, z, strict=True)) ** 2
            for z, mass in law.items()
        )
        found = stated.combined(np.array([weights], dtype=float))[0]  # type: ignore[attr-defined]
        assert found == pytest.approx(float(mpmath.sqrt(abs(variance))), abs=1e-7)


def test_densities_count_bins() -> None:
    free = build(hc.Density(0, 1), total="free")
    assert free.parameters["bins"] == 32
    squared = free.estimator.squared_error(10_000, periods=1)  # type: ignore[attr-defined]
    # The number of people is known, which takes V/K from the variance of a bin.
    spared = 32 * (0.999943 * float(central(0.5)) / 10_000) ** 2
    assert math.sqrt(squared + spared) == pytest.approx(0.0699043, abs=6e-8)
    fixed = build(hc.Density(0, 1))
    assert fixed.parameters["bins"] == 32
    assert fixed.standard_error() < free.standard_error()
    counted = hc.protocol(
        "shuffle.density-histogram", hc.Density(0, 1), BUDGET, hc.Crowd(10_000), histogram=NAME
    )
    assert counted.parameters == fixed.parameters


# Pure privacy ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("users", "most", "thrown_away", "ratio"),
    [
        (1000, 44, 7.83963e-8, 1.00723),
        (10_000, 58, 6.88133e-10, 1.00623),
        (100_000, 72, 6.24271e-12, 1.00564),
    ],
)
def test_pure_counts(users: int, most: int, thrown_away: float, ratio: float) -> None:
    protocol = build(budget=hc.Budget(1), users=users)
    assert protocol.parameters["dummies"] == most
    assert protocol.parameters["thrown_away"] == pytest.approx(thrown_away, rel=2e-6)
    assert protocol.standard_error() / float(central(1)) == pytest.approx(ratio, abs=6e-6)
    assert (protocol.guarantee.epsilon, protocol.guarantee.delta) == (1, 0)


@pytest.mark.parametrize(
    ("buckets", "most", "thrown_away"), [(3, 74, 3.89207e-10), (10, 160, 9.61333e-10)]
)
def test_pure_histograms(buckets: int, most: int, thrown_away: float) -> None:
    protocol = build(hc.Histogram(buckets), hc.Budget(1))
    assert protocol.parameters["dummies"] == most
    assert protocol.parameters["thrown_away"] == pytest.approx(thrown_away, rel=2e-6)


@pytest.mark.parametrize(
    ("task", "epsilon", "users"),
    [(hc.Count(), 1.0, 1), (hc.Count(), 1.0, 4), (hc.Count(), 3.0, 3), (hc.Histogram(3), 6.0, 2)],
)
def test_pure_privacy_is_used_up_and_kept(task: hc.Task, epsilon: float, users: int) -> None:
    protocol = build(task, hc.Budget(epsilon), users)
    found = hc.exact_audit(protocol)
    assert found.verdict == "kept"
    assert found.epsilon == pytest.approx(epsilon, abs=1e-9)
    assert enumeration.worst_delta(protocol, epsilon) <= 1e-25
    for at in (0.0, epsilon / 2):
        truth = float(enumeration.worst_delta(protocol, at))
        assert truth <= protocol.curve.delta(at) * (1 + 1e-12)
        assert protocol.curve.delta(at) <= truth + 1e-2
    check_moments(protocol)


def check_moments(protocol: hc.Protocol) -> None:
    """The estimate is unbiased, and has the stated error, for every dataset."""
    users, values = protocol.crowd.users, protocol.task.domain
    for held in enumeration.datasets(users, values):
        law = enumeration.crowd_view(protocol, held)
        assert isinstance(law, dict)
        mean, square = np.zeros(values), np.zeros(values)
        for counts, chance in law.items():
            tally = hc.Tally(np.array(counts), users, NAME, noises=1)
            value = np.atleast_1d(protocol.estimate(tally).value)
            mean += float(chance) * value
            square += float(chance) * (value - np.array(held)[-len(value) :]) ** 2
        truth = np.broadcast_to(np.array(held)[-len(value) :], values)
        assert mean == pytest.approx(truth, abs=1e-8)
        stated = protocol.standard_error(list(held))
        assert math.sqrt(square.max()) == pytest.approx(stated, rel=1e-9)


# Options -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "error"), [(4.0, 13.8577), (6.0, 5.17401), (8.0, 2.28047), (10.0, 1.51512)]
)
def test_random_responses_leave_something_if_everybody_else_colludes(
    epsilon: float, error: float
) -> None:
    protocol = build(response_epsilon=epsilon)
    assert protocol.standard_error() == pytest.approx(error, abs=1.1e-5)
    p = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
    law = count_law(1.0, 28)
    noise = mpmath.fsum((k - 14) ** 2 * mass for k, mass in enumerate(law))
    exact = mpmath.sqrt(10_000 * p * (1 - p) + noise) / (2 * p - 1)
    assert protocol.standard_error() == pytest.approx(float(exact), rel=1e-9)
    assert protocol.local_epsilon == pytest.approx(epsilon, rel=1e-9)
    assert protocol.local_epsilon <= epsilon * (1 + 1e-15)
    assert not protocol.guarantee.exact
    assert protocol.guarantee.delta <= BUDGET.delta


@pytest.mark.parametrize("task", [hc.Count(), hc.Histogram(4), hc.Density(0, 1, points=4)])
def test_noise_of_the_analyzer_and_of_a_chain(task: hc.Task) -> None:
    bins: dict[str, Any] = {"bins": 30} if isinstance(task, hc.Density) else {}
    plain, chain = build(task, **bins), build(task, shufflers=3, **bins)
    assert chain.standard_error() == pytest.approx(math.sqrt(3) * plain.standard_error())
    assert chain.guarantee.delta == plain.guarantee.delta
    published = build(task, publish_noise=True, **bins)
    assert published.guarantee.delta == plain.guarantee.delta
    if task == hc.Count():
        ratio = published.standard_error() / plain.standard_error()
        assert ratio == pytest.approx(math.sqrt(2), rel=3e-5)
    with pytest.raises(hc.Infeasible, match="chain"):
        build(task, hc.Budget(1), shufflers=2)


def test_noise_of_the_analyzer_must_be_secure() -> None:
    for published in (False, True):
        protocol = build(users=100, publish_noise=published)
        batch = hc.shuffle(
            protocol.randomize([1] * 100, hc.SecureSource()), hc.SecureSource(), protocol
        )
        tally = protocol.tally(batch)
        assert protocol.estimate(tally).guarantee.secure
        assert protocol.estimate(tally, hc.SeededSource(1)).guarantee.secure is not published
        answers = {protocol.estimate(tally).value for _ in range(40)}
        assert (len(answers) > 1) is published


def test_dishonest_people_change_nothing() -> None:
    for task in (hc.Count(), hc.Histogram(5)):
        one, all_honest = build(task, honest=1), build(task)
        assert one.standard_error() == all_honest.standard_error()
        assert one.guarantee == all_honest.guarantee
        check_crowd(all_honest, hc.Crowd(10_000, 1))
    alone = build(users=1)
    assert alone.guarantee.delta == build().guarantee.delta
    plans = hc.dishonest_plans(hc.Count(), BUDGET, 1000, shares=(0.0, 0.5))
    errors = [
        next(one.standard_error for one in plan.candidates if one.protocol == NAME)
        for plan in plans.values()
    ]
    assert errors[0] == errors[1]
    # It is listed, but is chosen only by name: its shuffler learns more than others do.
    ranked = hc.plan(hc.Count(), BUDGET, hc.Crowd(1000), trust="shuffle")
    assert ranked.candidates[0].protocol == NAME
    assert ranked.best.protocol != NAME
    assert f"not chosen: {NAME} relies on the shuffler" in str(ranked)


# Views and leaks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [hc.Count(), hc.Histogram(3)])
@pytest.mark.parametrize("published", [False, True])
def test_what_each_party_learns(task: hc.Task, published: bool) -> None:
    protocol = build(task, hc.Budget(1, 0.2), 2, publish_noise=published)
    for users in (1, 2):  # the analyzer, and the analyzer with all other people
        found = hc.exact_audit(protocol, users=users)
        assert found.verdict == "kept"
        assert found.epsilon == pytest.approx(1, abs=1e-9)
    knowing = hc.exact_audit(protocol, view="shuffler", claim=1.0, delta=0.0, users=1)
    assert knowing.verdict == ("kept" if published else "refuted")
    assert knowing.epsilon == (pytest.approx(1, abs=1e-9) if published else math.inf)
    own = hc.exact_audit(protocol, view="shuffler", users=1)
    assert own.claim == (1.0 if published else None)
    assert math.isinf(hc.exact_audit(protocol, view="local").epsilon)


def test_an_audit_by_runs_sees_what_the_shuffler_knows() -> None:
    protocol = build(budget=hc.Budget(1, 0.05), users=3)
    found = hc.audit(protocol, view="shuffler", claim=1.0, runs=4000, source=hc.SeededSource(3))
    assert found.refuted
    with pytest.raises(hc.InvalidParameter, match="unless the shuffler adds noise"):
        hc.audit(hc.protocol("local.k-ary", hc.Histogram(3), BUDGET, hc.Crowd(5)), view="shuffler")


def test_the_command_takes_flags(headcount: Headcount) -> None:
    asking = ["audit", NAME, "--epsilon", "1", "--delta", "0.2", "--users", "2", "--exact"]
    for word, least in (("true", 1.0), ("false", None)):
        done = headcount(
            *asking, "--view", "shuffler", "--option", f"publish_noise={word}", "--json"
        )
        assert json.loads(done.out)["epsilon"] == (least and pytest.approx(least, abs=1e-9))


def fractions(most: int, middle: int | None = None) -> dict[int, Fraction]:
    """Integers near e^−|k − middle|, as a law."""
    at = most // 2 if middle is None else middle
    weights = {k: int(mpmath.exp(-abs(k - at)) * 10**20) for k in range(most + 1)}
    return {k: Fraction(weight, sum(weights.values())) for k, weight in weights.items()}


def test_leaks_of_wrong_dummies() -> None:
    law = fractions(6)

    def ones_alone(held: tuple[int, ...]) -> dict[Any, Fraction]:
        return {(sum(held) + z, len(held) - sum(held)): chance for z, chance in law.items()}

    def twice(held: tuple[int, ...]) -> dict[Any, Fraction]:
        both = itertools.product(law.items(), repeat=2)
        return {(sum(held) + y, sum(held) + z): p * q for (y, p), (z, q) in both}

    def once(held: tuple[int, ...]) -> dict[Any, Fraction]:
        return {sum(held) + z: chance for z, chance in law.items()}

    listed = {"values": [0, 1], "users": 2, "view": "central", "claim": 1.0}
    end = float(law[0])
    assert math.isinf(hc.exact_audit(ones_alone, **listed, delta=0.99).epsilon)  # type: ignore[arg-type]
    assert not hc.exact_audit(once, **listed, delta=end * (1 + 1e-9)).refuted  # type: ignore[arg-type]
    again = hc.exact_audit(twice, **listed, delta=3 * end)  # type: ignore[arg-type]
    assert again.epsilon == pytest.approx(2, abs=0.05)
    # The network sees who sends nothing, and so holds 0.
    silent = hc.exact_audit(lambda x: {((1, 1),) if x else (): Fraction(1)}, [0, 1], claim=1.0)
    assert math.isinf(silent.epsilon)
    # An odd T has no integer in its middle, and T/2 is not the mean.
    odd = fractions(7, 3)
    assert abs(sum(k * chance for k, chance in odd.items()) - Fraction(7, 2)) > Fraction(1, 5)


def test_noise_is_added_once() -> None:
    protocol, source = build(users=50), hc.SeededSource(5)
    sent = protocol.randomize([1] * 50, source)
    without = hc.shuffle(sent, source)
    with pytest.raises(hc.InvalidValue, match="added 0 times"):
        protocol.estimate(protocol.tally(without))
    halves = [hc.shuffle(sent, source, protocol) for _ in range(2)]
    both = protocol.tally(halves[0]) + protocol.tally(halves[1])
    with pytest.raises(hc.InvalidValue, match="added 2 times"):
        protocol.estimate(both)
    with pytest.raises(hc.InvalidValue, match="each person must send 1 message"):
        protocol.tally(hc.Batch(np.ones(77, dtype=np.uint8), 50))


# Draws -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("total", ["fixed", "free"])
def test_dummies_follow_their_law_and_no_other(total: str) -> None:
    protocol = build(hc.Histogram(3), hc.Budget(1, 0.4), 2, total=total)
    most = int(protocol.parameters["dummies"])
    assert most <= 4
    source, seen = hc.SeededSource(11), Counter[tuple[int, ...]]()
    for _ in range(40_000):
        noise = protocol.shuffler.noise(2, source)
        assert not noise.alone
        seen[tuple(np.bincount(noise.messages, minlength=3).tolist())] += 1

    def law(epsilon: float) -> dict[tuple[int, ...], float]:
        if total == "fixed":
            return {z: float(mass) for z, mass in bucket_law(epsilon, most, 3).items()}
        one = [float(mass) for mass in count_law(epsilon / 2, most)]
        return {
            z: math.prod(one[k] for k in z) for z in itertools.product(range(most + 1), repeat=3)
        }

    assert log_likelihood_ratio(seen, law(1.0))[1] > ALARM
    assert log_likelihood_ratio(seen, law(1.2))[1] < ALARM


def test_what_is_sent_instead_is_uniform() -> None:
    protocol = build(hc.Histogram(3), hc.Budget(8), 3)
    source, seen, alone = hc.SeededSource(12), Counter[tuple[int, ...]](), 0
    share = protocol.parameters["thrown_away"]
    views = protocol.shuffler.dummies.views(3)  # type: ignore[attr-defined]
    total = 3 + int(protocol.parameters["all_dummies"])
    assert views == math.comb(total + 2, 2)
    assert 0 < share < 0.05
    from headcount.randomness.bucket_noise import composition

    for _ in range(40_000):
        seen[tuple(composition(source, 5, 3).tolist())] += 1
    assert log_likelihood_ratio(seen, dict.fromkeys(enumeration.datasets(5, 3), 1 / 21))[1] > ALARM
    for _ in range(200_000 if share > 1e-4 else 0):
        alone += protocol.shuffler.noise(3, source).alone
    spread = math.sqrt(200_000 * share) + 1
    assert share <= 1e-4 or abs(alone - 200_000 * share) < 6 * spread


@pytest.mark.parametrize(
    ("task", "options"),
    [
        (hc.Count(), {}),
        (hc.Count(), {"publish_noise": True}),
        (hc.Count(), {"shufflers": 2, "response_epsilon": 3.0}),
        (hc.Histogram(4), {}),
        (hc.Histogram(4), {"total": "free", "publish_noise": True}),
        (hc.Histogram(4), {"response_epsilon": 3.0}),
    ],
)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_runs_on_real_messages(task: hc.Task, options: dict[str, Any], delta: float) -> None:
    if delta == 0 and ("shufflers" in options or "total" in options):
        return
    users, runs = 300, 200
    protocol = build(task, hc.Budget(1, delta), users, **options)
    values = np.arange(users) % 3 % task.domain
    truth = np.bincount(values, minlength=task.domain)
    counted = truth[1] if isinstance(task, hc.Count) else truth
    source = hc.SeededSource(21)
    errors, covered = [], np.zeros(np.shape(counted))
    for _ in range(runs):
        batch = hc.shuffle(protocol.randomize(values, source), source, protocol)
        answer = protocol.estimate(protocol.tally(batch), source)
        errors.append(answer.value - counted)
        interval = answer.interval(0.9)
        covered += (interval.low <= counted) & (counted <= interval.high)
    stated = protocol.standard_error(truth.tolist())
    squares = np.square(errors).mean(axis=0)
    # The fourth moment of geometric noise is 6 times its squared variance or less: seven standard
    # deviations of the mean square.
    assert np.max(squares) <= stated**2 * (1 + 7 * math.sqrt(5.5 / runs))
    assert np.max(squares) >= stated**2 * (1 - 0.5)
    assert np.all(np.abs(np.mean(errors, axis=0)) <= 6 * stated / math.sqrt(runs))
    # 200 tosses of 0.9 are below 155 with a chance below 1e-6.
    assert np.all(covered >= 155)


# In words ----------------------------------------------------------------------------------------


def test_guarantees_say_whom_they_rely_on() -> None:
    plain = build().guarantee
    assert "learns the exact answer" in plain.relies_on
    assert "no more than epsilon" in build(publish_noise=True).guarantee.relies_on
    assert "one of 3 shufflers" in build(shufflers=3).guarantee.relies_on
    assert plain.relies_on in json.dumps(plain.to_dict())
    assert plain.relies_on in str(plain.table()).replace("\n", " ")
    report = hc.privacy_report(build())
    assert f"This relies on {plain.relies_on}." in report.sentences
    assert report.to_dict()["relies_on"] == plain.relies_on
    usual = {
        "central.geometric": "the curator, who sees all values and adds the noise",
        "local.randomized-response": "nobody else: people add the noise to what they send",
        "shuffle.zero-exact": "the shuffler, and on 900 people to follow the protocol",
    }
    for name, words in usual.items():
        made = hc.protocol(name, hc.Count(), hc.Budget(1, 1e-3), hc.Crowd(1000, 900))
        assert made.guarantee.relies_on == words
    old = plain.to_dict()
    del old["relies_on"]
    old["trust"] = hc.Trust(old["trust"])
    assert hc.Guarantee(**old).relies_on == "the shuffler, and on 1 person to follow the protocol"


@pytest.mark.parametrize(
    ("options", "budget"),
    [
        ({"shufflers": 0}, BUDGET),
        ({"publish_noise": 1}, BUDGET),
        ({"response_epsilon": -1.0}, BUDGET),
        ({"total": "some"}, BUDGET),
        ({"total": "free"}, hc.Budget(1)),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], budget: hc.Budget) -> None:
    with pytest.raises((hc.InvalidParameter, hc.Infeasible)):
        build(hc.Histogram(3), budget, **options)


@pytest.mark.slow
def test_too_many_dummies_are_refused() -> None:
    with pytest.raises(hc.Infeasible) as refused:
        build(budget=hc.Budget(1e-7, 1e-9))
    nearest = refused.value.nearest
    assert nearest is not None
    assert build(budget=hc.Budget(nearest["epsilon"], 1e-9)).guarantee.delta <= 1e-9


@pytest.mark.parametrize("task", [hc.Count(), hc.Histogram(3)], ids=str)
def test_published_noise_is_no_influence(task: hc.Task) -> None:
    protocol = hc.protocol(NAME, task, hc.Budget(1, 1e-6), hc.Crowd(100), publish_noise=True)
    assert (protocol.influence.up, protocol.influence.down) == pytest.approx((1, 0))
