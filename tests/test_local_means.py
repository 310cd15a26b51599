"""Laplace, piecewise and hybrid responses for numbers.

The judges are rational numbers, mpmath with 50 digits, enumeration of all messages, and scipy.
"""

import math
from collections import Counter
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import pairwise, product
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import headcount as hc
from enumeration import exactly, geometric_mass, log_likelihood_ratio
from headcount.core.budget import MOST_USERS
from headcount.protocols.local.laplace_mean import Noise
from headcount.randomness import totals

ALARM = 1e-6
LAPLACE, PIECEWISE, HYBRID = NAMES = tuple(
    f"local.{kind}-mean" for kind in ("laplace", "piecewise", "hybrid")
)
every = pytest.mark.parametrize("name", NAMES)
EPSILONS = [0.01, 0.1, 0.62, 1.0, 3.0, 8.0, 20.0]


def late(value: float) -> Any:
    """A setting that only the slow tests try."""
    return pytest.param(value, marks=pytest.mark.slow)


def build(
    name: str, epsilon: float, task: hc.Task | None = None, users: int = 1, **options: Any
) -> Any:
    return hc.protocol(name, task or hc.Sum(-1, 1), hc.Budget(epsilon), hc.Crowd(users), **options)


@lru_cache(maxsize=64)
def on_levels(name: str, epsilon: float, levels: int | None, calibration: str = "exact") -> Any:
    """A protocol for numbers from 0 to L, so that each number is a level."""
    found = levels or int(build(name, epsilon).parameters["levels"])
    task = hc.Sum(0, found)
    protocol = build(name, epsilon, task, levels=levels, calibration=calibration)
    assert protocol.parameters["levels"] == found
    return protocol


def law_of(protocol: Any, value: float) -> dict[int, Fraction]:
    return {message: chance for ((message, _),), chance in protocol.law(value).items()}


def some_levels(protocol: Any) -> list[int]:
    """All of them if they are few."""
    most = int(protocol.parameters["levels"])
    return list(range(most + 1)) if most <= 20 else [0, 1, 2, most // 3, most // 2, most - 1, most]


def level_estimate(protocol: Any, message: int) -> Fraction:
    """The analyzer's exact estimate from one message."""
    counts = protocol.estimator.count(np.array([message], dtype=protocol.alphabet.dtype))
    return Fraction(protocol.estimator.level_sum(hc.Tally(counts, 1, protocol.name), None))


CASES = [
    *[(name, epsilon, None, "exact") for name in NAMES for epsilon in EPSILONS],
    *[(name, epsilon, None, "paper") for name in NAMES[1:] for epsilon in (0.5, 1.0, 8.0)],
    *[(name, epsilon, n, "exact") for name in NAMES for epsilon in (0.3, 2.0) for n in (1, 2, 7)],
]
cases = pytest.mark.parametrize(("name", "epsilon", "levels", "calibration"), CASES)

# Laws --------------------------------------------------------------------------------------------


@cases
def test_no_message_betrays_more_than_epsilon_nor_much_less(
    name: str, epsilon: float, levels: int | None, calibration: str
) -> None:
    protocol = on_levels(name, epsilon, levels, calibration)
    laws = [law_of(protocol, level) for level in some_levels(protocol)]
    assert {tuple(law) for law in laws} == {tuple(range(protocol.alphabet.columns[0].stop))}
    assert all(sum(law.values()) == 1 for law in laws)
    largest = max(
        max(law[message] for law in laws) / min(law[message] for law in laws) for message in laws[0]
    )
    loss = mpmath.log(exactly(largest))
    assert exactly(largest) <= mpmath.exp(mpmath.mpf(epsilon))
    assert loss >= epsilon * (1 - 1e-6)
    promised = protocol.guarantee
    assert loss <= promised.epsilon <= epsilon
    assert (promised.delta, promised.exact) == (0, True)
    assert loss <= protocol.local_epsilon <= loss * (1 + 1e-14)


def piecewise_law(levels: int, window: int, level: int, epsilon: float) -> list[mpmath.mpf]:
    """The paper's law: an output is in the window with probability P, and otherwise outside."""
    odds = mpmath.exp(mpmath.mpf(epsilon)) * window / levels
    inside = odds / (1 + odds)
    return [
        inside / window if level <= output < level + window else (1 - inside) / levels
        for output in range(levels + window)
    ]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("levels", [None, 1, 2, 5])
def test_piecewise_law_is_that_of_the_paper(epsilon: float, levels: int | None) -> None:
    protocol = on_levels(PIECEWISE, epsilon, levels)
    most, window = (int(protocol.parameters[key]) for key in ("levels", "window"))
    for level in some_levels(protocol):
        truth = piecewise_law(most, window, level, epsilon)
        stated = law_of(protocol, level)
        assert len(stated) == len(truth)
        assert all(abs(exactly(stated[at]) - p) < 2.0**-63 for at, p in enumerate(truth))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("levels", [None, 1, 2, 5])
def test_hybrid_law_is_piecewise_or_one_bit(epsilon: float, levels: int | None) -> None:
    protocol = on_levels(HYBRID, epsilon, levels)
    share, most = protocol.parameters["piecewise_probability"], int(protocol.parameters["levels"])
    lie = 1 / (1 + mpmath.exp(mpmath.mpf(epsilon)))
    for level in some_levels(protocol):
        one = lie + (1 - 2 * lie) * mpmath.mpf(level) / most
        truth = [(1 - share) * (1 - one), (1 - share) * one]
        if share:
            window = int(protocol.parameters["window"])
            truth += [share * p for p in piecewise_law(most, window, level, epsilon)]
        stated = law_of(protocol, level)
        assert len(stated) == len(truth)
        assert all(abs(exactly(stated[at]) - p) < 1e-15 for at, p in enumerate(truth))
    if share:
        # α is 1 − β of the piecewise part. Then all numbers have the same variance.
        assert share == pytest.approx(1 - protocol.parameters["blind_probability"], rel=1e-9)


@pytest.mark.parametrize(("epsilon", "levels"), [(0.1, None), (1, None), (8, 1), (8, 3), (20, 2)])
def test_laplace_law_is_moved_noise(epsilon: float, levels: int | None) -> None:
    protocol = on_levels(LAPLACE, epsilon, levels)
    most, rate = int(protocol.parameters["levels"]), protocol.parameters["rate"]
    reach = int(protocol.parameters["reach"])
    assert epsilon * (1 - 1e-8) <= rate * most <= epsilon
    a = mpmath.exp(-mpmath.mpf(rate))
    for level in {0, 1, most}:
        truth = [geometric_mass(rate, sent - reach - level) for sent in range(2 * reach + most + 1)]
        truth[0] = a ** (reach + level) / (1 + a)
        truth[-1] = a ** (reach + most - level) / (1 + a)
        stated = law_of(protocol, level)
        assert len(stated) == len(truth)
        off = len(truth) * mpmath.mpf(2) ** -127
        assert all(abs(exactly(stated[at]) - p) <= off for at, p in enumerate(truth))
    # The mass that is moved to the ends of the range is negligible.
    assert law_of(protocol, 0)[0] < 1e-19


@pytest.mark.parametrize("levels", [1, 2, 4])
@pytest.mark.parametrize("seed", range(20))
def test_every_message_of_rounded_noise_is_looked_at(levels: int, seed: int) -> None:
    """The probabilities fall in any way. The largest ratio may be at the ends or anywhere else."""
    rng = np.random.default_rng(seed)
    weights = sorted(rng.integers(1, 2 ** rng.integers(5, 60), levels + 5).tolist(), reverse=True)
    last = len(weights) - 1
    reach = last - levels
    laws = []
    for level in range(levels + 1):
        law = Counter[int]()
        for z in range(-last, last + 1):
            law[min(max(level + z, -reach), levels + reach)] += weights[abs(z)]
        laws.append(law)
    largest = max(Fraction(a[y], b[y]) for a, b in product(laws, repeat=2) for y in laws[0])
    loss = mpmath.log(exactly(largest))
    assert loss <= Noise(1.0, levels, weights).local_epsilon <= loss * (1 + 1e-14)


@cases
def test_estimates_are_unbiased_and_have_the_stated_variance(
    name: str, epsilon: float, levels: int | None, calibration: str
) -> None:
    protocol = on_levels(name, epsilon, levels, calibration)
    estimates = [level_estimate(protocol, at) for at in range(protocol.alphabet.columns[0].stop)]
    for level in some_levels(protocol):
        law = law_of(protocol, level)
        mean = sum((law[at] * guess for at, guess in enumerate(estimates)), Fraction(0))
        # Noise that is moved into its range changes almost nothing.
        assert abs(mean - level) <= (1e-17 if name == LAPLACE else 0)
        variance = sum(law[at] * (guess - level) ** 2 for at, guess in enumerate(estimates))
        stated = protocol.standard_error({level: 1}) ** 2
        assert stated == pytest.approx(float(variance), rel=1e-11)
    if name != LAPLACE:
        # The change of the answer by one message, for intervals.
        width = protocol.estimator.error_law(1, 0.0).width
        assert width == pytest.approx(float(max(estimates) - min(estimates)), rel=1e-12)
    # Between levels, rounding adds to the variance. The law of a number mixes those of both levels.
    for value in (0.25, protocol.task.high - 0.5):
        law = law_of(protocol, value)
        mean = sum((law[at] * guess for at, guess in enumerate(estimates)), Fraction(0))
        assert abs(mean - Fraction(value)) < 1e-17
        variance = sum(law[at] * (guess - mean) ** 2 for at, guess in enumerate(estimates))
        stated = protocol.standard_error({value: 1}) ** 2
        assert stated == pytest.approx(float(variance), rel=1e-11)
        assert protocol.standard_error() ** 2 >= stated * (1 - 1e-12)


@every
def test_answers_are_in_the_task_s_own_numbers(name: str) -> None:
    """Levels, bounds and the mean, tested with all messages of two people."""
    task = hc.Mean(-3, 5)
    protocol = build(name, 2.0, task, users=2, levels=3 if name != LAPLACE else 1)
    values = (-1.5, 4.0)
    mean = 0.0
    for pair in product(*(law_of(protocol, value).items() for value in values)):
        sent = np.array([message for message, _ in pair], dtype=protocol.alphabet.dtype)
        answer = protocol.estimate(protocol.tally(hc.Batch(sent, 2))).value
        mean += answer * float(pair[0][1] * pair[1][1])
    assert mean == pytest.approx(1.25, abs=1e-9)


# Errors ------------------------------------------------------------------------------------------


def worst(name: str, epsilon: float, **options: Any) -> float:
    """The largest variance for one number in [−1, 1]."""
    return float(build(name, epsilon, **options).standard_error() ** 2)


def test_published_figures() -> None:
    assert worst("local.one-bit-mean", 1.0) == pytest.approx(4.68, abs=0.005)
    assert worst(PIECEWISE, 1.0, calibration="paper") == pytest.approx(5.22, abs=0.005)
    assert worst(HYBRID, 1.0, calibration="paper") == pytest.approx(4.29, abs=0.005)
    assert worst(PIECEWISE, 1.0) == pytest.approx(5.066, abs=0.0005)
    assert worst(HYBRID, 1.0) == pytest.approx(4.267, abs=0.0005)
    # Beyond about 1.29 the piecewise mechanism is better than one bit, as the paper says.
    for epsilon, better in ((1.2, False), (1.35, True)):
        piecewise = worst(PIECEWISE, epsilon, calibration="paper")
        assert (piecewise < worst("local.one-bit-mean", epsilon)) == better


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 6.0])
def test_piecewise_variance_is_the_paper_s(epsilon: float) -> None:
    protocol = build(PIECEWISE, epsilon, levels=4096, calibration="paper")
    root = math.expm1(epsilon / 2)
    for x in (-1, -0.5, 0, 0.3, 1):
        variance = x**2 / root + (root + 4) / (3 * root**2)
        assert protocol.standard_error({x: 1}) ** 2 == pytest.approx(variance, rel=2e-3)


@pytest.mark.parametrize("epsilon", [0.7, 1.0, 3.0, 6.0])
def test_hybrid_variance_is_the_paper_s(epsilon: float) -> None:
    protocol = build(HYBRID, epsilon, levels=4096, calibration="paper")
    root, e = math.exp(epsilon / 2), math.exp(epsilon)
    variance = (root + 3) / (3 * root * (root - 1)) + (e + 1) ** 2 / (root * (e - 1) ** 2)
    for x in (-1, -0.5, 0, 0.3, 1):
        assert protocol.standard_error({x: 1}) ** 2 == pytest.approx(variance, rel=2e-3)
    assert protocol.parameters["piecewise_probability"] == pytest.approx(1 - 1 / root, rel=2e-3)


def continuous(window: NDArray[np.float64], epsilon: float) -> tuple[Any, Any]:
    """The variance at the ends of [0, 1] and in its middle, for windows of any real length.

    It follows from moments: the output is in the window with probability P, and otherwise uniform
    on the rest of [0, 1 + w].
    """
    odds = np.exp(epsilon) * window
    inside = odds / (1 + odds)
    slope = inside - (1 - inside) * window
    found = []
    for at in (0.0, 0.5):
        ends = (at, at + window)
        moments = []
        for k in (1, 2):
            within = (ends[1] ** (k + 1) - ends[0] ** (k + 1)) / (k + 1)
            without = (1 + window) ** (k + 1) / (k + 1) - within
            moments.append(inside * within / window + (1 - inside) * without)
        found.append((moments[1] - moments[0] ** 2) / slope**2)
    return found[0], found[1]


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 2.0, 4.0, 8.0, 12.0, 15.0])
def test_windows_are_the_best_and_levels_enough(epsilon: float) -> None:
    windows = np.geomspace(1e-3, 2, 20_000)
    ends, middle = continuous(windows, epsilon)
    assert worst(PIECEWISE, epsilon) / 4 == pytest.approx(ends.min(), rel=1e-3)
    lie = 1 / (1 + math.exp(epsilon))
    noise = lie * (1 - lie) / (1 - 2 * lie) ** 2
    # One bit has the variance noise at the ends and ¼ more in the middle. Any share of both:
    best = min(
        float(np.maximum(a * ends + (1 - a) * noise, a * middle + (1 - a) * (noise + 0.25)).min())
        for a in (*np.linspace(0, 1, 401), *(1 - np.geomspace(1e-8, 1, 400)))
    )
    assert worst(HYBRID, epsilon) / 4 == pytest.approx(best, rel=1.5e-3)


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 0.5, 0.6, 0.61, 0.62, 0.7, 1.0, 4.0, 20.0])
@pytest.mark.parametrize("calibration", ["exact", "paper"])
def test_hybrid_is_never_worse_than_one_bit(epsilon: float, calibration: str) -> None:
    one_bit = worst("local.one-bit-mean", epsilon)
    hybrid = worst(HYBRID, epsilon, calibration=calibration)
    assert hybrid <= one_bit * (1 + 1e-12)
    assert worst(HYBRID, epsilon) <= hybrid * (1 + 1e-12)
    protocol = build(HYBRID, epsilon, calibration=calibration)
    if epsilon <= 0.6:
        # Then it is one bit, with the same messages.
        assert protocol.alphabet.bits == 1
        for value in (-1, 0.1, 1 / 3, 1):
            assert protocol.law(value) == build("local.one-bit-mean", epsilon).law(value)
    if epsilon > 0.61:
        assert hybrid < one_bit
        assert protocol.alphabet.bits > 1


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 5.0, 20.0, 30.0])
@pytest.mark.parametrize(("users", "bound"), [(1, 1.0), (300, 7.0)])
def test_laplace_variance(epsilon: float, users: int, bound: float) -> None:
    protocol = build(LAPLACE, epsilon, hc.Mean(-bound, bound), users)
    limit = 8 * bound**2 / (users * epsilon**2)
    assert protocol.standard_error() ** 2 == pytest.approx(limit, rel=6e-4)
    # Rounding adds at most ¼ level², and nothing at a level.
    unit = 2 * bound / protocol.parameters["levels"]
    noise = protocol.standard_error({bound: users}) ** 2
    assert protocol.standard_error() ** 2 - noise == pytest.approx(unit**2 / 4 / users, rel=1e-5)


# A crowd of all kinds of numbers.
VALUES = {-1.0: 130, -0.37: 120, 0.0: 70, 0.2: 100, 1.0: 80}


@every
@pytest.mark.parametrize("epsilon", [late(0.5), 1.0, late(4.0)])
@pytest.mark.parametrize("way", ["messages", "simulation"])
@pytest.mark.slow
def test_errors_of_many_runs(name: str, epsilon: float, way: str) -> None:
    runs, users = 400, sum(VALUES.values())
    protocol = build(name, epsilon, hc.Mean(-1, 1), users)
    source = hc.SeededSource(11)
    data = np.repeat(list(VALUES), list(VALUES.values()))
    truth = math.fsum(data) / users
    found = np.array(
        [
            (
                hc.run(protocol, data, source)
                if way == "messages"
                else protocol.estimate(protocol.simulate(VALUES, source))
            ).value
            for _ in range(runs)
        ]
    )
    z = (found - truth) / protocol.standard_error(VALUES)
    assert abs(z.mean()) * math.sqrt(runs) < 5

    def likely(squares: float) -> bool:
        return bool(min(stats.chi2.cdf(squares, runs), stats.chi2.sf(squares, runs)) > ALARM)

    assert likely(z @ z)
    # A standard error that is 30 % off would be seen.
    assert not likely(z @ z / 1.3**2)
    assert not likely(z @ z * 1.3**2)


# Draws -------------------------------------------------------------------------------------------


def follows(found: Counter[Any], law: dict[Any, float]) -> bool:
    return log_likelihood_ratio(found, law)[1] > ALARM


SAMPLED = [
    (LAPLACE, 1.0, None), (LAPLACE, 8.0, 1), (LAPLACE, 4.0, 3), (PIECEWISE, 1.0, None),
    (PIECEWISE, 3.0, 5), (PIECEWISE, 1.0, 1), (PIECEWISE, 8.0, 7), (HYBRID, 1.0, None),
    (HYBRID, 0.5, None), (HYBRID, 3.0, 5), (HYBRID, 1.5, 2),
]  # fmt: skip


@pytest.mark.parametrize(("name", "epsilon", "levels"), SAMPLED)
def test_sampler_follows_its_law_and_no_other(
    name: str, epsilon: float, levels: int | None
) -> None:
    protocol = on_levels(name, epsilon, levels)
    most, people = int(protocol.parameters["levels"]), 1_000_000
    near = build(name, 0.97 * epsilon, protocol.task, levels=most)
    for at, value in enumerate((0, 0.5, most // 2 + 0.25, most)):
        source = hc.SeededSource(100 + at)
        sent = protocol.randomize(np.full(people, value), source)
        assert sent.payload.dtype == protocol.alphabet.dtype
        found = Counter(dict(enumerate(np.bincount(sent.payload).tolist())))
        law = {message: float(p) for message, p in law_of(protocol, value).items()}
        assert follows(+found, law)
        # Other numbers (nearby ones if there are few levels), and a budget that is 3 % off.
        for step in (1, 0.1) if levels else (max(1, most // 16),):
            other = value + step if value < most / 2 else value - step
            wrong = {message: float(p) for message, p in law_of(protocol, other).items()}
            assert not follows(+found, wrong)
        if near.alphabet == protocol.alphabet and at in (0, 3):
            wrong = {message: float(p) for message, p in law_of(near, value).items()}
            assert not follows(+found, wrong)


@every
def test_people_are_independent_also_across_parts(name: str) -> None:
    protocol, people = build(name, 1.0, levels=2), 200_000
    values = np.tile([-1.0, 1.0], people // 2)
    sent = protocol.randomize(values, hc.SeededSource(5)).payload
    centered = sent - np.tile([sent[::2].mean(), sent[1::2].mean()], people // 2)
    for gap in (1, 2, 65_536, 65_537, 131_072):
        product_mean = np.mean(centered[gap:] * centered[:-gap]) / centered.var()
        assert abs(product_mean) * math.sqrt(people - gap) < 5
    # Parts of the crowd are put back in order: people who hold more send more, in every part.
    laws = [law_of(protocol, end) for end in (-1, 1)]
    for end, law in enumerate(laws):
        mean = float(sum(message * p for message, p in law.items()))
        spread = math.sqrt(float(sum(message**2 * p for message, p in law.items())) - mean**2)
        for part in np.array_split(sent[end::2].astype(float), 5):
            assert abs(part.mean() - mean) < 5 * spread / math.sqrt(len(part))


def tally_law(protocol: Any, values: list[float]) -> dict[tuple[int, ...], float]:
    """The law of the tally, enumerated from the stated laws."""

    def plus(
        one: dict[tuple[int, ...], Fraction], other: dict[tuple[int, ...], Fraction]
    ) -> dict[tuple[int, ...], Fraction]:
        out: dict[tuple[int, ...], Fraction] = {}
        for (a, p), (b, q) in product(one.items(), other.items()):
            at = tuple(x + y for x, y in zip(a, b, strict=True))
            out[at] = out.get(at, Fraction(0)) + p * q
        return out

    alone = []
    for value in values:
        law: dict[tuple[int, ...], Fraction] = {}
        for message, p in law_of(protocol, value).items():
            counts = protocol.estimator.count(np.array([message], dtype=protocol.alphabet.dtype))
            at = tuple(counts.tolist())
            law[at] = law.get(at, Fraction(0)) + p
        alone.append(law)
    return {at: float(p) for at, p in reduce(plus, alone).items()}


@pytest.mark.parametrize(
    ("name", "epsilon", "levels"),
    [
        (LAPLACE, 8.0, 1), (LAPLACE, 5.0, 2), (PIECEWISE, 1.0, 2), (PIECEWISE, 3.0, 5),
        (PIECEWISE, 0.8, 7), (HYBRID, 1.0, 2), (HYBRID, 3.0, 5), (HYBRID, 0.3, 3),
    ],
)  # fmt: skip
def test_simulation_and_messages_have_the_law_of_the_tally(
    name: str, epsilon: float, levels: int
) -> None:
    protocol = build(name, epsilon, hc.Sum(0, 1), 3, levels=levels)
    values, runs, source = [0.0, 0.3, 1.0], 3000, hc.SeededSource(3)
    law, wrong = tally_law(protocol, values), tally_law(protocol, [0.0, 0.0, 0.3])
    people = dict.fromkeys(values, 1)
    drawn = [tuple(protocol.simulate(people, source).counts.tolist()) for _ in range(runs)]
    sent = protocol.randomize(np.tile(values, runs), source).payload.reshape(runs, 3)
    tallied = [tuple(protocol.tally(hc.Batch(row, 3)).counts.tolist()) for row in sent]
    for found in (drawn, tallied):
        assert follows(Counter(found), law)
        assert not follows(Counter(found), wrong)


@every
@pytest.mark.parametrize("epsilon", [late(0.01), 1.0, late(8.0)])
@pytest.mark.slow
def test_a_billion_people(name: str, epsilon: float) -> None:
    people = {-1: 10**8, -0.3: 2 * 10**8, 0.123: 3 * 10**8, 1: 4 * 10**8}
    protocol = build(name, epsilon, hc.Mean(-1, 1), 10**9)
    source, runs = hc.SeededSource(6), 25
    tallies = [protocol.simulate(people, source) for _ in range(runs)]
    assert all((tally.counts >= 0).all() and tally.users == 10**9 for tally in tallies)
    errors = np.array([protocol.estimate(tally).value - 0.2769 for tally in tallies])
    z = errors / protocol.standard_error(people)
    assert abs(z.mean()) * math.sqrt(runs) < 5
    assert stats.chi2.ppf(ALARM, runs) < z @ z < stats.chi2.isf(ALARM, runs)
    # The sum of two tallies is the tally of all their people.
    both = tallies[0] + tallies[1]
    total = protocol.estimate(both).value
    assert total == pytest.approx(0.2769 + (errors[0] + errors[1]) / 2, rel=1e-12)


@every
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_more_people_than_a_tally_holds_are_refused(name: str, epsilon: float) -> None:
    protocol = build(name, epsilon)
    assert protocol.estimator.most_users >= 10**12
    largest = protocol.alphabet.columns[0][-1]
    assert int(protocol.estimator.most_users) * largest < 2**61
    if protocol.estimator.most_users < MOST_USERS:  # else there is no such crowd
        with pytest.raises(hc.CrowdMismatch, match="can handle at most"):
            build(name, epsilon, users=protocol.estimator.most_users + 1)


@pytest.mark.parametrize("below", [1, 2, 3, 5, late(6), 7, late(8), 12, late(100)])
@pytest.mark.parametrize("people", [0, 1, 3])
def test_sums_of_uniform_numbers(below: int, people: int) -> None:
    source = hc.SeededSource(below)
    found = Counter(totals.uniform_sum(source, people, below) for _ in range(4000))
    law = reduce(np.convolve, [np.full(below, 1 / below)] * people, np.ones(1))
    assert follows(found, dict(enumerate(law.tolist())))
    if 1 < below < 20 and people:
        other = reduce(np.convolve, [np.full(below + 1, 1 / (below + 1))] * people, np.ones(1))
        shifted = {at + 1: p for at, p in enumerate(law.tolist())}
        assert not follows(found, shifted)
        assert not follows(found, dict(enumerate(other.tolist())))


@pytest.mark.parametrize("largest", [2**32, 50, 3])
def test_sums_of_geometric_numbers(largest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(totals, "_LARGEST_VARIANCE", largest)
    source, ratio = hc.SeededSource(8), Fraction(3, 4)
    for people in (1, 2, 7, 13):
        found = Counter(totals.geometric_sum(source, people, ratio) for _ in range(4000))
        laws = [stats.nbinom.pmf(np.arange(400), n, 0.25) for n in (people, people + 1)]
        assert follows(found, dict(enumerate(laws[0].tolist())))
        assert not follows(found, dict(enumerate(laws[1].tolist())))


# Intervals ---------------------------------------------------------------------------------------


def error_laws(protocol: Any, people: int, value: float) -> tuple[Any, Any]:
    """All errors of the mean if all people hold one value, and their probabilities."""
    law = np.array([float(p) for p in law_of(protocol, value).values()])
    total = np.zeros(1)
    total[0] = 1.0
    for _ in range(people):
        total = np.convolve(total, law)
    first, second = (
        protocol.estimate(hc.Tally(np.array([at]), people, protocol.name)).value for at in (0, 1)
    )
    return first + (second - first) * np.arange(len(total)) - value, total


@pytest.mark.parametrize("name", [LAPLACE, PIECEWISE])
@pytest.mark.parametrize("people", [1, 2, 10, 60])
@pytest.mark.parametrize("epsilon", [0.7, 4.0])
def test_intervals_cover(name: str, people: int, epsilon: float) -> None:
    protocol = build(name, epsilon, hc.Mean(0, 1), people, levels=8)
    tally = protocol.simulate({0: people}, hc.SeededSource(1))
    estimate = protocol.estimate(tally)
    for value in (0.0, 1 / 16, 0.5, 1.0):
        errors, chances = error_laws(protocol, people, value)
        mean_square = math.sqrt(chances @ errors**2)
        assert protocol.standard_error({value: people}) == pytest.approx(mean_square, rel=1e-9)
        for confidence in (0.5, 0.95, 0.999):
            above, below = estimate.error_law.margins(confidence)
            inside = (errors >= -above - 1e-12) & (errors <= below + 1e-12)
            assert chances[inside].sum() >= confidence - 1e-9


@pytest.mark.parametrize("epsilon", [0.4, 1.0, 4.0])
@pytest.mark.parametrize("people", [1, 2])
def test_hybrid_intervals_cover(people: int, epsilon: float) -> None:
    protocol = build(HYBRID, epsilon, hc.Mean(0, 1), people, levels=4)
    for value in (0.0, 0.125, 0.5, 1.0):
        law = tally_law(protocol, [value] * people)
        for confidence in (0.5, 0.95, 0.999):
            covered = sum(
                p * (value in estimate.interval(confidence))
                for at, p in law.items()
                for estimate in [protocol.estimate(hc.Tally(np.array(at), people, protocol.name))]
            )
            assert covered >= confidence - 1e-9


@every
@pytest.mark.parametrize("epsilon", [1.0, late(6.0)])
@pytest.mark.parametrize("people", [300, late(20_000)])
def test_intervals_of_crowds_are_neither_narrow_nor_wide(
    name: str, epsilon: float, people: int
) -> None:
    protocol, runs, source = build(name, epsilon, hc.Mean(0, 1), people), 600, hc.SeededSource(21)
    held = {0.5: people}
    estimates = [protocol.estimate(protocol.simulate(held, source)) for _ in range(runs)]
    inside = sum(0.5 in estimate.interval(0.8) for estimate in estimates)
    assert stats.binom.cdf(inside, runs, 0.8) > ALARM
    # Few bounded messages have Bernstein's bound, which is wider. All others have a coverage near
    # 80 %, except for numbers that vary more than these.
    if people > 1000 or name == LAPLACE:
        spread = protocol.standard_error() / protocol.standard_error(held)
        wider = 2 * stats.norm.cdf(1.1 * stats.norm.ppf(0.9) * spread) - 1
        assert stats.binom.sf(inside, runs, wider) > ALARM


# Curves ------------------------------------------------------------------------------------------


def divergence(one: list[mpmath.mpf], other: list[mpmath.mpf], epsilon: float) -> mpmath.mpf:
    factor = mpmath.exp(mpmath.mpf(epsilon))
    return mpmath.fsum(max(p - factor * q, 0) for p, q in zip(one, other, strict=True))


@every
@pytest.mark.parametrize("calibration", ["exact", "paper"])
@pytest.mark.parametrize("levels", [1, 2, late(3), 5])
@pytest.mark.parametrize("epsilon", [late(0.4), 1.0, late(5.0)])
def test_curves_are_those_of_the_worst_pair(
    name: str, calibration: str, levels: int, epsilon: float
) -> None:
    protocol = on_levels(name, epsilon, levels, calibration)
    laws = [[exactly(p) for p in law_of(protocol, level).values()] for level in range(levels + 1)]
    at = [-epsilon / 3, 0.0, epsilon / 4, 0.61 * epsilon, 0.999 * epsilon]
    for each in at:
        by_distance = [
            max(
                divergence(laws[i], laws[j], each)
                for i, j in product(range(levels + 1), repeat=2)
                if abs(i - j) == distance
            )
            for distance in range(1, levels + 1)
        ]
        # Levels that are farther apart are easier to distinguish. The ends are the easiest.
        assert all(a <= b + 1e-30 for a, b in pairwise(by_distance))
        truth = by_distance[-1]
        stated = protocol.curve.delta(each)
        assert truth <= stated <= truth * (1 + 1e-9) + 1e-14
        many = protocol.curve.deltas(np.array([each, 0.3]))[0]
        assert stated * (1 - 1e-9) <= many <= truth * (1 + 1e-6) + 1e-13
    assert protocol.curve.delta(epsilon * (1 + 1e-12)) == 0
    bends = protocol.curve.bends
    assert bends[-1] == pytest.approx(epsilon, rel=1e-9)
    assert bends[0] == pytest.approx(-epsilon, rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_curves_of_default_grids(name: str, epsilon: float) -> None:
    protocol = on_levels(name, epsilon, None)
    most = int(protocol.parameters["levels"])
    laws = [np.array([float(p) for p in law_of(protocol, at).values()]) for at in range(most + 1)]
    for each in (0.0, epsilon / 3, 0.9 * epsilon):
        factor = math.exp(each)
        truth = max(
            float(np.maximum(laws[i] - factor * other, 0).sum())
            for i in (0, 1, most // 2, most)
            for other in laws
        )
        assert protocol.curve.delta(each) == pytest.approx(truth, rel=1e-9, abs=1e-14)


# Settings ----------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("levels", [0, -1, 2.5, "3", True, 2**12 + 1, math.nan, [2]])
def test_numbers_of_levels_that_are_none(name: str, levels: Any) -> None:
    with pytest.raises(hc.InvalidParameter, match="`levels` must be"):
        build(name, 1.0, levels=levels)


@every
def test_levels_are_plain_numbers(name: str) -> None:
    protocol = build(name, 1.0, levels=np.float64(4))
    assert protocol == build(name, 1.0, levels=4)
    assert protocol.parameters["levels"] == 4
    assert build(name, 8.0, levels=2**12).parameters["levels"] == 2**12


@every
@pytest.mark.parametrize("epsilon", [1e-12, 1e-6, 1e-3, 0.01, 0.1, 8.0, 20.0, 31.0, 60.0, 500.0])
def test_tiny_and_huge_budgets(name: str, epsilon: float) -> None:
    if name == LAPLACE and epsilon < 3e-4:
        with pytest.raises(hc.Infeasible, match="too long a table of noise") as caught:
            build(name, epsilon)
        nearest = caught.value.nearest["epsilon"]
        assert build(name, nearest * (1 + 1e-9)).guarantee.epsilon <= nearest * (1 + 1e-9)
        with pytest.raises(hc.Infeasible):
            build(name, nearest * 0.999)
        return
    protocol = build(name, epsilon, hc.Mean(-1, 1), 1000)
    promised = protocol.guarantee.epsilon
    # Beyond this, there are not enough bits for rarer messages. Privacy is then better than
    # requested.
    spent = 30 if name == LAPLACE else 40
    assert min(epsilon, spent) * (1 - 1e-5) <= promised <= epsilon
    assert math.isfinite(protocol.standard_error())
    estimate = hc.run(protocol, np.linspace(-1, 1, 1000), hc.SeededSource(4))
    assert abs(estimate.value) < 6 * protocol.standard_error()
    assert 0 in estimate.interval(0.999999)


@pytest.mark.parametrize("levels", [1, 50, 4096])
def test_nearest_feasible_budget_for_given_levels(levels: int) -> None:
    with pytest.raises(hc.Infeasible) as caught:
        build(LAPLACE, 1e-5, levels=levels)
    nearest = caught.value.nearest["epsilon"]
    assert build(LAPLACE, nearest, levels=levels).parameters["levels"] == levels


@every
def test_whole_numbers_are_levels_themselves(name: str) -> None:
    for low, high in ((0, 1), (-1, 1), (5, 12)):
        protocol = build(name, 2.0, hc.Sum(low, high, whole=True), 10)
        assert protocol.parameters["levels"] == high - low
        for value in range(low, high + 1):
            exact = build(name, 2.0, hc.Sum(0, high - low), levels=high - low)
            assert protocol.law(value) == exact.law(value - low)
    # Too many of them are rounded.
    wide = build(name, 2.0, hc.Sum(0, 10**6, whole=True), 10)
    assert wide.parameters["levels"] == build(name, 2.0).parameters["levels"]
    # Nothing is rounded, so that the middle costs a bit no more than it must.
    binary = build(name, 2.0, hc.Sum(0, 1, whole=True))
    lie = 1 / (1 + math.exp(2.0))
    if name != LAPLACE:
        variance = lie * (1 - lie) / (1 - 2 * lie) ** 2
        assert binary.standard_error() ** 2 == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize("name", [PIECEWISE, HYBRID])
def test_large_crowds_have_fewer_levels(name: str) -> None:
    crowded = build(name, 20.0, users=MOST_USERS)
    assert crowded.parameters["levels"] == 2**9
    assert build(name, 20.0).parameters["levels"] == 2**12


def test_best_protocol_for_means() -> None:
    for epsilon, name in ((0.3, "one-bit"), (1.0, "hybrid"), (6.0, "hybrid")):
        best = hc.best_protocol(hc.Mean(-1, 1), hc.Budget(epsilon), hc.Crowd(1000), hc.Trust.LOCAL)
        assert best.name == f"local.{name}-mean"
