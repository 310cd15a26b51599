"""Capped noise against figures and laws of its own: nobody ever has more than K messages.

Laws here are powers of one person's law by a Fourier transform of two dimensions, or enumerated.
They share no code with the package.
"""

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import headcount as hc
from headcount.accounting.capped import CappedNoise, HonestPeople, crowd_law
from headcount.accounting.capped_curves import capped_curve
from headcount.accounting.capped_search import Fit
from headcount.accounting.divergence import hockey_stick
from headcount.accounting.laws import Law

Array = NDArray[np.float64]
CENTRAL = math.sqrt(2 * math.exp(-1)) / (1 - math.exp(-1))
CENTRAL_BUCKET = math.sqrt(2 * math.exp(-0.5)) / (1 - math.exp(-0.5))
COUNT, HISTOGRAM = "shuffle.correlated", "shuffle.correlated-histogram"

# n, K, the rates of +1 and of −1, c, κ, δ in both directions, and the ratio of the error.
ROWS = [
    (1000, 15, 0.995, 0.981, 1.009, 1.9, 6.36348e-7, 6.54955e-7, 1.01777),
    (1000, 11, 0.992, 0.976, 1.022, 22.7, 8.22824e-7, 9.46518e-7, 1.03487),
    (1000, 9, 0.985, 0.974, 1.052, 17.1, 8.94505e-7, 9.57960e-7, 1.07512),
    (1000, 7, 0.978, 0.959, 1.134, 9.4, 9.29048e-7, 9.61112e-7, 1.17663),
    (1000, 5, 0.956, 0.937, 1.399, 6.1, 9.95428e-7, 9.95224e-7, 1.46830),
    (10_000, 12, 0.999, 0.991, 1.009, 2.8, 9.65156e-7, 9.51253e-7, 1.01010),
    (10_000, 10, 0.997, 0.995, 1.037, 27.8, 8.18134e-7, 9.70567e-7, 1.03918),
    (10_000, 9, 0.997, 0.996, 1.061, 23.5, 9.64713e-7, 9.16655e-7, 1.06696),
    (10_000, 7, 0.962, 0.957, 1.076, 8.3, 9.70648e-7, 9.35269e-7, 1.14923),
    (10_000, 5, 0.991, 0.991, 1.465, 6.7, 9.94595e-7, 9.80882e-7, 1.44328),
    (100_000, 11, 1.001, 1.001, 1.021, 40.9, 9.20351e-7, 9.19149e-7, 1.01899),
    (100_000, 10, 1, 1, 1.041, 32.0, 8.90765e-7, 8.90755e-7, 1.03878),
    (100_000, 9, 1, 0.999, 1.068, 24.0, 7.84241e-7, 9.02314e-7, 1.06718),
    (100_000, 7, 1.001, 1.001, 1.179, 10.7, 8.71830e-7, 6.50105e-7, 1.16025),
    (100_000, 5, 0.997, 0.996, 1.479, 6.8, 9.51430e-7, 9.69627e-7, 1.44394),
]


def build(name: str, task: hc.Task, users: int, **options: Any) -> Any:
    epsilon, delta = options.pop("epsilon", 1.0), options.pop("delta", 1e-6)
    crowd = hc.Crowd(users, options.pop("honest", users))
    return hc.protocol(name, task, hc.Budget(epsilon, delta), crowd, **options)


# A person's law, by its definition --------------------------------------------------------------


def pairs(room: int) -> dict[int, float]:
    if room < 2:
        return dict.fromkeys(range(room + 1), 1 / (room + 1))
    return {0: 0.45, 1: 0.1, room: 0.45}


def person(slots: int, crowd: float, plus: float, minus: float, c: float, last: float) -> Any:
    """The law of (jump, number of −1) of one person."""
    jumps = {}
    for size in range(1, slots):
        factor = c / (size * crowd) * (last if size == slots - 1 else 1)
        jumps[size] = factor * math.exp(-plus * size)
        jumps[-size] = factor * math.exp(-minus * size)
    jumps[0] = 1 - sum(jumps.values())
    law: Any = Counter()
    for jump, chance in jumps.items():
        for number, part in pairs((slots - 1 - abs(jump)) // 2).items():
            law[jump, max(-jump, 0) + number] += chance * part
    return law


def of_protocol(protocol: Any, crowd: float) -> Any:
    found = protocol.parameters
    return person(
        int(found["slots"]),
        crowd,
        found["epsilon_plus"],
        found["epsilon_minus"],
        found["jump_scale"],
        found["longest_jump_factor"],
    )


def power(law: Any, people: int, reach: int, deviations: float = 15) -> Array:
    """The law of the sums of this number of people, modulo the size of the table."""
    values = np.array([minus for _, minus in law])
    chances = np.array(list(law.values()))
    mean = chances @ values
    spread = deviations * math.sqrt(people * (chances @ (values - mean) ** 2))
    width = math.ceil(min(spread + 200, people * values.max() + 1))
    table = np.zeros((2 * reach, width))
    for (jump, minus), chance in law.items():
        table[jump % (2 * reach), minus % width] += chance
    total = np.fft.irfft2(np.fft.rfft2(table) ** people, table.shape)
    return np.maximum(total, 0.0)


def both_ways(table: Array, epsilon: float) -> tuple[float, float]:
    """δ if the sum of all jumps is moved by one, and back."""
    moved, factor = np.roll(table, 1, axis=0), math.exp(epsilon)
    forth, back = table - factor * moved, moved - factor * table
    return float(forth[forth > 0].sum()), float(back[back > 0].sum())


def pair_delta(table: Array, epsilon: float) -> float:
    """Σ_y held(y)·HS_{ε − ln(held(y)/left(y))}(left‖held), for a move between two buckets."""
    held, left = np.roll(table, 1, axis=0).ravel(), table.ravel()
    likely = (held > 1e-17) & (left > 1e-17)
    lost = held[~likely].sum()
    held, left = held[likely], left[likely]
    losses = np.log(left / held)
    order = np.argsort(-losses)
    left_sums = np.concatenate([[0.0], np.cumsum(left[order])])
    held_sums = np.concatenate([[0.0], np.cumsum(held[order])])
    inside = np.searchsorted(-losses[order], -(epsilon + losses))
    terms = left_sums[inside] - np.exp(epsilon + losses) * held_sums[inside]
    return float(held @ terms + lost)


# The law of a count -----------------------------------------------------------------------------


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_known_noise_has_its_known_privacy_and_error(row: tuple[float, ...]) -> None:
    users, slots, plus, minus, c, last, forth, back, ratio = row
    noise = CappedNoise(int(slots), users, plus, minus, c, last)
    view = crowd_law(noise, int(users), 1e-13)
    assert hockey_stick(view.law, view.moved, 1.0) == pytest.approx(forth, rel=1e-5)
    assert hockey_stick(view.moved, view.law, 1.0) == pytest.approx(back, rel=1e-5)
    error = math.sqrt(users * float(noise.square - noise.mean**2))
    assert error == pytest.approx(ratio * CENTRAL, abs=1e-5 * CENTRAL)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=f"{row[0]}-{row[1]}", marks=[pytest.mark.slow] * (row[0] > 10_000))
        for row in ROWS
    ],
)
def test_known_noise_by_a_fourier_transform(row: tuple[float, ...]) -> None:
    users, slots, plus, minus, c, last, forth, back, ratio = row
    one = person(int(slots), users, plus, minus, c, last)
    found = both_ways(power(one, int(users), 48), 1.0)
    assert found == pytest.approx((forth, back), rel=2e-5)
    mean, square = (sum(chance * jump**k for (jump, _), chance in one.items()) for k in (1, 2))
    error = math.sqrt(users * (square - mean**2))
    assert error == pytest.approx(ratio * CENTRAL, abs=1e-5 * CENTRAL)


@pytest.mark.parametrize(
    ("people", "slots", "c"), [(1, 5, 0.1), (3, 4, 0.9), (5, 6, 0.8), (4, 2, 1.5), (6, 3, 2.0)]
)
def test_the_law_of_a_small_crowd_is_that_of_all_its_draws(
    people: int, slots: int, c: float
) -> None:
    one = person(slots, people, 1.1, 0.8, c, 2.5)
    total: Any = Counter({(0, 0): 1.0})
    for _ in range(people):
        grown: Any = Counter()
        for (jump, minus), chance in total.items():
            for (more, other), part in one.items():
                grown[jump + more, minus + other] += chance * part
        total = grown
    view = crowd_law(CappedNoise(slots, people, 1.1, 0.8, c, 2.5), people, 1e-14)
    for epsilon in (0.0, 0.5, 1.0, 3.0):
        factor = math.exp(epsilon)
        forth = sum(max(0.0, p - factor * total[d - 1, v]) for (d, v), p in list(total.items()))
        back = sum(max(0.0, p - factor * total[d + 1, v]) for (d, v), p in list(total.items()))
        found = hockey_stick(view.law, view.moved, epsilon)
        assert forth <= found + 1e-15
        assert found == pytest.approx(forth, abs=1e-12)
        assert hockey_stick(view.moved, view.law, epsilon) == pytest.approx(back, abs=1e-12)


@pytest.mark.parametrize(("users", "honest", "slots"), [(1000, 1000, 9), (400, 250, 6)])
def test_privacy_of_a_capped_count_by_its_definition(users: int, honest: int, slots: int) -> None:
    protocol = build(COUNT, hc.Count(), users, honest=honest, max_slots=slots)
    table = power(of_protocol(protocol, honest), honest, 64)
    for epsilon in (0.0, 0.4, 0.9, 1.0, 1.1, 1.5):
        expected = max(both_ways(table, epsilon))
        assert protocol.curve.delta(epsilon) == pytest.approx(expected, rel=1e-4, abs=3e-11)
    assert protocol.guarantee.exact
    assert 0.98e-6 < protocol.guarantee.delta <= 1e-6
    assert protocol.slots == slots == protocol.parameters["slots"]


def test_a_count_with_too_many_people_for_its_exact_law_has_an_upper_bound() -> None:
    """The adversary is told who has no secret mark. People with a mark jump more often."""
    crowds = HonestPeople(40_000, Fraction(1), moved=False, halvings=2, missed=1e-9)
    noise = CappedNoise(9, 40_000, 0.99, 0.99, 1.1, 20.0)
    bound = capped_curve(noise, crowds, 1.0, 1e-6)
    exact = max(both_ways(power(person(9, 40_000, 0.99, 0.99, 1.1, 20.0), 40_000, 64), 1.0))
    assert exact < bound.delta(1.0)
    (marked_people,) = crowds.ranges
    fewest = marked_people.people
    assert stats.binom.cdf(fewest - 1, 40_000, 0.25) <= 1e-9
    # The bound is that of the fewest marked people, who jump four times as often.
    marked = max(both_ways(power(person(9, 10_000, 0.99, 0.99, 1.1, 20.0), fewest, 64), 1.0))
    assert bound.delta(1.0) == pytest.approx(marked + 1e-9, rel=1e-3)


# The law of two buckets -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("people", "numbers", "delta", "ratio"),
    [
        # With losses rounded up they were known as 9.87439e-8, 2.67768e-7 and 1.41457e-7.
        (1994, (14, 2000, 0.491, 0.491, 1.103, 9.7), 9.86914e-8, 1.08939),
        (1994, (11, 2000, 0.494, 0.494, 1.198, 8.9), 2.67736e-7, 1.16520),
        (202, (9, 200, 0.483, 0.483, 1.48, 6.0), 1.41429e-7, 1.33035),
    ],
)
def test_known_noise_of_two_buckets(
    people: int, numbers: tuple[Any, ...], delta: float, ratio: float
) -> None:
    noise = CappedNoise(*numbers)
    error = math.sqrt(noise.crowd * float(noise.square))
    assert error == pytest.approx(ratio * CENTRAL_BUCKET, rel=1e-5)
    table = power(person(*numbers), people, 128)
    assert pair_delta(table, 1.0) == pytest.approx(delta, rel=2e-5)
    # The number of people is certain, so there is only one range.
    surely = HonestPeople(people, Fraction(1), moved=True)
    found = capped_curve(noise, surely, 1.0, 1e-6).delta(1.0)
    assert delta * (1 - 1e-5) < found < 1.02 * delta


def ranges(honest: int, buckets: int, step: int = 3) -> list[tuple[int, float]]:
    """Numbers of people, with the chance that the smaller of two buckets has about that number."""
    law = stats.binom(honest, 1 / buckets)
    numbers = np.arange(int(law.ppf(1e-11)), int(law.ppf(1 - 1e-4)), step)
    below = np.minimum(2 * law.cdf(numbers - 1), 1.0)
    chances = np.diff(below, append=1.0)
    return [(int(n), float(p)) for n, p in zip(numbers, chances, strict=True) if p > 0]


@pytest.mark.slow
@pytest.mark.parametrize(("users", "buckets", "slots"), [(1000, 5, 9), (600, 3, 12)])
def test_the_bound_of_a_capped_histogram_holds(users: int, buckets: int, slots: int) -> None:
    """It is above the average over finer ranges, each of which counts with its lowest number."""
    protocol = build(HISTOGRAM, hc.Histogram(buckets), users, max_slots=slots)
    assert not protocol.guarantee.exact
    one = of_protocol(protocol, users / buckets)
    for epsilon in (1.0, 0.6):
        finer = sum(
            chance * pair_delta(power(one, people, 128), epsilon)
            for people, chance in ranges(users, buckets)
        )
        assert finer <= protocol.curve.delta(epsilon) * (1 + 1e-6)
        assert protocol.curve.delta(epsilon) < 3 * finer
    assert protocol.guarantee.delta <= 1e-6


def own_bound(one: Any, honest: int, buckets: int, deviations: float) -> float:
    """An upper bound of δ(1): the lowest number of people stands for each range of numbers."""
    step = max(1, round(deviations * math.sqrt(honest / buckets * (1 - 1 / buckets))))
    parts = ranges(honest, buckets, step)
    fewer = 2 * float(stats.binom.cdf(parts[0][0] - 1, honest, 1 / buckets))
    return fewer + sum(chance * pair_delta(power(one, people, 64), 1.0) for people, chance in parts)


@pytest.mark.slow
def test_the_bound_of_known_noise_in_five_buckets() -> None:
    """With ranges of a quarter of a standard deviation, δ is well below the known 9.94e-7."""
    numbers = (9, 200, 0.483, 0.483, 1.48, 6.0)
    bound = own_bound(person(*numbers), 1000, 5, 0.25)
    assert 1.41429e-7 < bound < 9.94e-7
    crowds = HonestPeople(1000, Fraction(1, 5), moved=True, missed=1e-6 * 2.0**-12)
    stated = capped_curve(CappedNoise(*numbers), crowds, 1.0, 1e-6).delta(1.0)
    # The ranges of the package are wider, so its search takes a little more noise.
    assert bound < stated < 1.06e-6


def test_the_bound_of_a_tiny_histogram_is_above_every_view() -> None:
    """All views of two buckets, by enumeration of what four people send."""
    honest, buckets, slots = 4, 3, 5
    noise = CappedNoise(slots, honest / buckets, 0.8, 0.8, 0.9, 1.5)
    crowds = HonestPeople(honest, Fraction(1, buckets), moved=True, missed=0.5)
    one = person(slots, honest / buckets, 0.8, 0.8, 0.9, 1.5)
    own: Counter[Any] = Counter()
    for (jump, minus), chance in one.items():
        for bucket in range(buckets):
            sums = [0] * (2 * buckets)
            sums[2 * bucket : 2 * bucket + 2] = [jump + minus, minus]
            own[tuple(sums)] += chance / buckets
    total: Counter[Any] = Counter({(0,) * (2 * buckets): 1.0})
    for _ in range(honest):
        grown: Counter[Any] = Counter()
        for sums, chance in total.items():
            for more, part in own.items():
                grown[tuple(a + b for a, b in zip(sums, more, strict=True))] += chance * part
        total = grown
    curve = capped_curve(noise, crowds, 1.0, 0.5)
    for epsilon in (0.2, 1.0, 2.0):
        view, factor = 0.0, math.exp(epsilon)
        for sums, chance in total.items():
            other = (sums[0] + 1, sums[1], sums[2] - 1, *sums[3:])
            view += max(0.0, chance - factor * total.get(other, 0.0))
        assert view <= curve.delta(epsilon)


# What is found ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("ratio", "slots"), [(1.02, 15), (1.05, 11), (1.1, 9), (1.2, 7), (1.5, 5)])
def test_the_least_slots_of_a_count_of_a_thousand(ratio: float, slots: int) -> None:
    protocol = build(COUNT, hc.Count(), 1000, minimize="slots", error_ratio=ratio)
    assert protocol.slots <= slots
    assert protocol.standard_error() <= ratio * CENTRAL
    # A few slots less are too few: with jumps of at most J, these ratios need J + 1 slots or more.
    assert protocol.slots >= slots - 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("users", "ratio", "slots"),
    [
        (10_000, 1.02, 12),
        (10_000, 1.05, 10),
        (10_000, 1.1, 9),
        (10_000, 1.2, 7),
        (10_000, 1.5, 5),
        (100_000, 1.02, 11),
        (100_000, 1.05, 10),
        (100_000, 1.1, 9),
        (100_000, 1.2, 7),
        (100_000, 1.5, 5),
    ],
)
def test_the_least_slots_of_larger_counts(users: int, ratio: float, slots: int) -> None:
    protocol = build(COUNT, hc.Count(), users, minimize="slots", error_ratio=ratio)
    assert slots - 1 <= protocol.slots <= slots
    assert protocol.standard_error() <= ratio * CENTRAL


@pytest.mark.parametrize("row", ROWS[::4], ids=lambda row: f"{row[0]}-{row[1]}")
def test_the_search_finds_no_larger_error_than_is_known(row: tuple[float, ...]) -> None:
    users, slots, ratio = int(row[0]), int(row[1]), row[-1]
    protocol = build(COUNT, hc.Count(), users, max_slots=slots)
    assert protocol.standard_error() <= ratio * CENTRAL * 1.001
    assert protocol.guarantee.delta <= 1e-6


# People, buckets, slots, and the known ratio of the error of a bucket to that of central noise. The
# known number of people then takes 1/d from both variances.
BUCKET_ROWS = [
    (10_000, 5, 14, 1.089),
    (1000, 5, 14, 1.196),
    (100_000, 5, 7, 1.418),
    (100_000, 5, 10, 1.199),
    (100_000, 5, 13, 1.091),
    (100_000, 5, 16, 1.050),
    (100_000, 5, 19, 1.027),
    (100_000, 5, 21, 1.020),
    (100_000, 50, 7, 1.431),
    (100_000, 50, 11, 1.178),
    (100_000, 50, 14, 1.092),
    (100_000, 50, 20, 1.050),
    (10_000, 5, 7, 1.431),
    (10_000, 5, 11, 1.165),
    (10_000, 5, 19, 1.050),
    (10_000, 50, 8, 1.441),
    (10_000, 50, 15, 1.198),
    (1000, 5, 8, 1.441),
    (1000, 5, 9, 1.3324),  # 1.330 is known, with narrower ranges than those of the package
]


def of_buckets(users: int, buckets: int, slots: int, ratio: float) -> Any:
    """The protocol with these slots, after its error was compared with that of its own law."""
    protocol = build(HISTOGRAM, hc.Histogram(buckets), users, max_slots=slots)
    one = of_protocol(protocol, users / buckets)
    square = sum(chance * jump**2 for (jump, _), chance in one.items())
    error = math.sqrt(users / buckets * square)
    assert error <= 1.001 * ratio * CENTRAL_BUCKET
    known_total = math.sqrt(1 - 1 / buckets)
    assert protocol.standard_error() == pytest.approx(known_total * error, rel=1e-9)
    assert protocol.slots == slots
    return protocol


@pytest.mark.parametrize("row", BUCKET_ROWS[:2], ids=str)
def test_slots_of_a_histogram(row: tuple[int, int, int, float]) -> None:
    of_buckets(*row)


@pytest.mark.slow
@pytest.mark.parametrize("row", BUCKET_ROWS, ids=str)
def test_slots_and_privacy_of_histograms(row: tuple[int, int, int, float]) -> None:
    """With ranges that are narrower than those of the package."""
    users, buckets, _, _ = row
    protocol = of_buckets(*row)
    deviations = 0.25 if users // buckets < 1000 else 0.5
    bound = own_bound(of_protocol(protocol, users / buckets), users, buckets, deviations)
    assert 1e-8 < bound <= protocol.guarantee.delta <= 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-10, 1e-7, 1e-4])
@pytest.mark.parametrize("users", [100, 3000, 10**7])
@pytest.mark.parametrize("name", [COUNT, HISTOGRAM])
def test_capped_noise_of_many_budgets(name: str, users: int, delta: float, epsilon: float) -> None:
    """It is found, or refused with a setting that works, or with the least ε."""
    task: hc.Task = hc.Count() if name == COUNT else hc.Histogram(5)
    slots = min(max(4, round(7 / epsilon)), 24)
    asked: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "max_slots": slots}
    if name == HISTOGRAM and epsilon < 0.4:
        with pytest.raises(hc.Infeasible, match=r"needs epsilon of at least 0\.4"):
            build(name, task, users, **asked)
        asked["epsilon"] = 0.4
    try:
        protocol = build(name, task, users, **asked)
    except hc.Infeasible as refusal:
        nearest = dict(refusal.nearest or {})
        if not nearest and users * asked["epsilon"] < 50:
            return  # in such a small crowd, no setting is looked for
        larger = int(nearest.pop("honest", users))
        protocol = build(name, task, larger, **{**asked, **nearest})
    assert protocol.guarantee.delta <= delta
    assert protocol.slots == protocol.parameters["slots"]


def test_exact_delta_of_a_large_epsilon() -> None:
    """Outcomes that are too rare for δ still matter if their probability counts e^16 times."""
    protocol = build(COUNT, hc.Count(), 5, epsilon=16.0, delta=0.3, max_slots=6)
    one, everybody = of_protocol(protocol, 5), Counter({(0, 0): 1.0})
    for _ in range(5):
        grown: Any = Counter()
        for (jumps, minus), chance in everybody.items():
            for (jump, more), part in one.items():
                grown[jumps + jump, minus + more] += chance * part
        everybody = grown
    factor = math.exp(16.0)
    truth = max(
        sum(max(p - factor * everybody[jumps + way, minus], 0.0) for (jumps, minus), p in view)
        for view in (list(everybody.items()),)
        for way in (-1, 1)
    )
    assert protocol.guarantee.exact
    assert protocol.guarantee.delta == pytest.approx(truth, rel=1e-10)


def test_search_ends_where_delta_jumps() -> None:
    noise = CappedNoise(7, 1000.0, 1.0, 1.0, 1.2, 10.0)
    fit = Fit(lambda one: 1e-3 if one.scale <= 1.2 else 1e-9, 1e-6, slope=-1e15)
    found = fit.near(noise)
    assert found is not None
    assert found.scale == pytest.approx(1.2)


# Messages and estimates -------------------------------------------------------------------------


def test_nobody_has_more_messages_than_slots() -> None:
    for name, task in ((COUNT, hc.Count()), (HISTOGRAM, hc.Histogram(3))):
        protocol = build(name, task, 300, delta=1e-3, max_slots=9)
        source = hc.SeededSource(5)
        sent = protocol.randomize(np.ones(200_000, dtype=int), source)
        assert sent.counts.max() == 9 == protocol.slots
        assert protocol.randomizer.overflow(9) == 0.0 < protocol.randomizer.overflow(8)
        assert sent.counts.mean() == pytest.approx(protocol.messages_per_user, rel=0.01)
        assert protocol.bundled_guarantee == protocol.guarantee
        assert {len(protocol.bundle(1, source).payload) for _ in range(50)} == {9}


def test_the_table_is_the_law_up_to_its_rounding() -> None:
    protocol = build(COUNT, hc.Count(), 300, delta=1e-3, max_slots=9)
    one = of_protocol(protocol, 300)
    drawn = protocol.capped_noise.law()
    assert sum(drawn.values()) == 1
    assert len(protocol.capped_noise.plus) <= 9**2
    for (plus, minus), chance in drawn.items():
        assert float(chance) == pytest.approx(one[plus - minus, minus], rel=1e-12)
    assert mpmath.mpf(protocol.capped_noise.table.total_variation) < 81 * mpmath.mpf(2) ** -128


@pytest.mark.parametrize(
    ("name", "task", "honest"),
    [(COUNT, hc.Count(), 300), (COUNT, hc.Count(), 200), (HISTOGRAM, hc.Histogram(3), 300)],
)
def test_estimates_from_real_messages(name: str, task: hc.Task, honest: int) -> None:
    protocol = build(name, task, 300, honest=honest, delta=1e-3, max_slots=8)
    values = np.arange(300) % task.domain
    counts = np.bincount(values, minlength=task.domain).tolist()
    truth = protocol.task.answer(protocol.task.holding(counts))
    source, covered, errors = hc.SeededSource(11), [], []
    for _ in range(200):
        batch = hc.shuffle(protocol.randomize(values, source), source)
        estimate = protocol.estimate(protocol.tally(batch))
        interval = estimate.interval(0.9)
        covered.append((np.asarray(interval.low) <= truth) & (truth <= np.asarray(interval.high)))
        errors.append(np.asarray(estimate.value) - truth)
    answers = np.size(covered)
    assert stats.binom.cdf(np.sum(covered), answers, 0.9) > 1e-6
    spread = protocol.standard_error()
    assert abs(np.mean(errors)) < 5 * spread / math.sqrt(answers)
    # Squares of such noise have a relative standard deviation below 3.
    assert np.mean(np.square(errors)) == pytest.approx(spread**2, rel=15 / math.sqrt(answers))


def test_the_law_of_the_error_is_that_of_all_people() -> None:
    protocol = build(COUNT, hc.Count(), 300, honest=200, delta=1e-3, max_slots=8)
    law = np.zeros(400)
    for (jump, _), chance in of_protocol(protocol, 200).items():
        law[jump % 400] += chance
    total = np.fft.irfft(np.fft.rfft(law) ** 300, 400)
    values = (np.arange(400) + 200) % 400 - 200
    mean = float(total @ values)
    variance = float(total @ (values - mean) ** 2)
    assert protocol.standard_error() == pytest.approx(math.sqrt(variance))
    error = protocol.estimator.error_law(300, 0.0)
    for confidence in (0.5, 0.9, 0.999):
        below, above = error.margins(confidence)
        for side, outside in ((above, values - mean), (below, mean - values)):
            assert total[outside > side + 1e-9].sum() <= (1 - confidence) / 2 + 1e-12
            assert total[outside > side - 1 + 1e-9].sum() > (1 - confidence) / 2 - 1e-12


def test_sums_of_copies_of_a_law() -> None:
    law = Law(-1, np.array([0.2, 0.5, 0.3]))
    total = law.times(37)
    expected = np.ones(1)
    for _ in range(37):
        expected = np.convolve(expected, law.mass)
    for value, chance in zip(range(-37, 38), expected.tolist(), strict=True):
        if chance > 1e-40:
            assert total.mass[value - total.start] == pytest.approx(chance, rel=1e-12)


# Options ----------------------------------------------------------------------------------------


def test_wrong_options_of_capped_noise() -> None:
    for options in ({"error_ratio": 1.1}, {"max_messages": 3}, {"epsilon1": 0.5}):
        with pytest.raises(hc.InvalidParameter, match="at most one of"):
            build(COUNT, hc.Count(), 1000, max_slots=9, **options)
    for options in ({"max_messages": 3}, {"epsilon1": 0.5}):
        with pytest.raises(hc.InvalidParameter, match="must not be given with minimize"):
            build(COUNT, hc.Count(), 1000, minimize="slots", **options)
    for wrong in (1, 33, 2.5, "many"):
        with pytest.raises(hc.InvalidParameter, match="max_slots"):
            build(COUNT, hc.Count(), 1000, max_slots=wrong)
    with pytest.raises(hc.InvalidParameter, match="minimize"):
        build(COUNT, hc.Count(), 1000, minimize="error")


def test_refusals_of_capped_noise() -> None:
    with pytest.raises(hc.Infeasible, match="no largest number of slots"):
        build(COUNT, hc.Count(), 1000, max_slots=9, calibration="paper")
    with pytest.raises(hc.Infeasible, match="needs delta above 0"):
        build(COUNT, hc.Count(), 1000, max_slots=9, delta=0.0)
    with pytest.raises(hc.Infeasible, match=r"needs epsilon of at least 0\.1") as caught:
        build(COUNT, hc.Count(), 1000, max_slots=9, epsilon=0.05)
    assert not caught.value.nearest  # with 9 slots, even 0.1 may be too little
    with pytest.raises(hc.Infeasible, match="needs an error_ratio of at least") as caught:
        build(COUNT, hc.Count(), 1000, minimize="slots", max_slots=5)
    nearest = caught.value.nearest
    assert nearest
    found = build(COUNT, hc.Count(), 1000, minimize="slots", **nearest)
    assert found.slots <= 5


@pytest.mark.slow
def test_too_few_people_for_each_bucket_are_refused() -> None:
    with pytest.raises(hc.Infeasible, match="1,000 honest people in 50 buckets") as caught:
        build(HISTOGRAM, hc.Histogram(50), 1000, max_slots=12)
    nearest = caught.value.nearest
    assert nearest
    build(HISTOGRAM, hc.Histogram(50), int(nearest["honest"]), max_slots=12)
