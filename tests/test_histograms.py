"""The histogram protocols and the correlated count, compared with known figures.

The divergences of two buckets are computed here from scipy's laws and plain sums, not by
accounting.
"""

import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

import enumeration
import headcount as hc
from enumeration import log_likelihood_ratio
from headcount.core.messages import Batch
from headcount.core.protocol import passed_on
from headcount.core.tally import Tally
from headcount.road.pieces import collect

ALARM = 1e-6
Array = np.ndarray[Any, Any]
CENTRAL = math.sqrt(2 * math.exp(-1)) / (1 - math.exp(-1))  # two-sided geometric noise, epsilon 1
CENTRAL_BUCKET = math.sqrt(2 * math.exp(-0.5)) / (1 - math.exp(-0.5))  # epsilon 1/2 each


def build(name: str, task: hc.Task, users: int, **options: Any) -> Any:
    epsilon, delta = options.pop("epsilon", 1.0), options.pop("delta", 1e-6)
    honest = options.pop("honest", users)
    crowd = hc.Crowd(users, honest)
    return hc.protocol(name, task, hc.Budget(epsilon, delta), crowd, **options)


def pair_delta(without: Array, with_one: Array, epsilon: float) -> float:
    """HS of (with, without) against (without, with), from the full table of two buckets.

    `without` and `with_one` are the masses of the same outcomes of one bucket.
    """
    upper = np.multiply.outer(with_one, without)
    lower = np.multiply.outer(without, with_one)
    return float(np.maximum(upper - math.exp(epsilon) * lower, 0).sum())


# Fake users ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "delta", "noise"),
    [(1.0, 1e-6, 42.65), (0.5, 1e-6, 136.1), (2.0, 1e-6, 18.1), (1.0, 1e-10, 82.1)],
)
@pytest.mark.parametrize("users", [10_000, 10**8])
def test_noise_of_fake_users(epsilon: float, delta: float, noise: float, users: int) -> None:
    protocol = build("shuffle.fake-users", hc.Histogram(20), users, epsilon=epsilon, delta=delta)
    found = protocol.parameters["noise_per_bucket"]
    assert found == pytest.approx(noise, rel=3e-3)
    assert protocol.messages_per_user == pytest.approx(1 + 20 * found / users)
    k = np.arange(0, 400)
    masses = stats.poisson.pmf(k, found)
    truth = pair_delta(np.append(masses, 0), np.insert(masses, 0, 0), epsilon)
    assert truth == pytest.approx(protocol.guarantee.delta, rel=1e-6)
    # A thousandth of delta is reserved for bundles of one size.
    assert 0.997 * delta < truth <= protocol.guarantee.delta < delta


def test_two_counts_would_need_more_noise_than_the_pair() -> None:
    """Each bucket alone at (epsilon/2, delta/2), compared with both buckets together."""
    k = np.arange(0, 2000)

    def count_delta(mean: float) -> float:
        masses = stats.poisson.pmf(k, mean)
        up, down = (
            masses[1:] - math.exp(0.5) * masses[:-1],
            masses[:-1] - math.exp(0.5) * masses[1:],
        )
        return float(max(np.maximum(up, 0).sum(), np.maximum(down, 0).sum() + masses[-1]))

    mean = 20.0
    while count_delta(mean) > 5e-7:
        mean *= 1.01
    ours = build("shuffle.fake-users", hc.Histogram(20), 1000).parameters["noise_per_bucket"]
    assert 1.7 < mean / ours < 2.6


# Zero-exact histogram -----------------------------------------------------------------------


@pytest.mark.parametrize("users", [1000, 20_000])
def test_zero_exact_histogram_uses_the_pair(users: int) -> None:
    protocol = build("shuffle.zero-exact-histogram", hc.Histogram(10), users)
    q = 1 - protocol.parameters["p"]
    masses = stats.binom.pmf(np.arange(0, 300), users, q)
    truth = pair_delta(np.append(masses, 0), np.insert(masses, 0, 0), 1.0)
    assert 0.99e-6 < truth <= 1e-6
    assert truth == pytest.approx(protocol.guarantee.delta, rel=1e-6)


def test_zero_exact_histogram_needs_a_seventieth_of_the_papers_noise() -> None:
    users = 1_000_000
    ours = 1 - build("shuffle.zero-exact-histogram", hc.Histogram(10), users).parameters["p"]
    papers = build("shuffle.zero-exact-histogram", hc.Histogram(10), users, calibration="paper")
    # 50/(ε/2)² ln(2/(δ/2)).
    assert users * (1 - papers.parameters["p"]) == pytest.approx(200 * math.log(4e6), rel=1e-6)
    assert (1 - papers.parameters["p"]) / ours > 70


def test_empty_buckets_are_answered_zero_with_certainty() -> None:
    protocol = build("shuffle.zero-exact-histogram", hc.Histogram(5), 2000, analyzer="zero-exact")
    source = hc.SeededSource(9)
    for _ in range(50):
        estimate = hc.run(protocol, np.arange(2000) % 2, source)
        assert estimate.value[2:].tolist() == [0, 0, 0]
        assert np.all(np.abs(estimate.value[:2] - 1000) < 60)


# Correlated noise ---------------------------------------------------------------------------


def correlated_view(b: float, a: float, r: float, p: float, size: int) -> tuple[Array, Array]:
    """The law of (number of +1, number of −1) over all honest people, for x = 0 and x = 1.

    It comes from the three laws of the definition, not from the decomposition that accounting uses.
    """
    k = np.arange(size)
    plus, minus = (1 - b) * b**k, (1 - a) * a**k
    flood = stats.nbinom.pmf(k, r, 1 - p)
    table = np.zeros((size, size))
    for z3 in range(size):
        rest = size - z3
        table[z3:, z3:] += flood[z3] * np.multiply.outer(plus[:rest], minus[:rest])
    return table, np.vstack([np.zeros((1, size)), table[:-1]])


def table_deltas(one: Array, other: Array, epsilon: float) -> tuple[float, float]:
    factor = math.exp(epsilon)
    return (
        float(np.maximum(one - factor * other, 0)[:-2].sum()),
        float(np.maximum(other - factor * one, 0)[:-2].sum()),
    )


@pytest.mark.parametrize(
    ("epsilon", "epsilon1", "pairs"),
    [
        (1.0, 0.9, 300.835),
        (1.0, 0.8, 160.506),
        (1.0, 0.95, 555.122),
        (1.0, 0.98, 1225.30),
        (0.5, 0.4, 296.375),
    ],
)
def test_flood_of_the_correlated_count(epsilon: float, epsilon1: float, pairs: float) -> None:
    protocol = build("shuffle.correlated", hc.Count(), 100_000, epsilon=epsilon, epsilon1=epsilon1)
    found = protocol.parameters
    assert found["epsilon1"] == pytest.approx(epsilon1)
    assert found["flood_pairs"] == pytest.approx(pairs, rel=2e-3)
    assert found["flood_pairs"] == pytest.approx(
        found["r"] * found["flood_p"] / (1 - found["flood_p"])
    )


@pytest.mark.parametrize(
    ("options", "ratio", "minus", "pairs"),
    [
        ({"error_ratio": 1.02}, 1.02, 0.96464, 750.5),
        ({"error_ratio": 1.05}, 1.05, 0.91695, 355.0),
        ({"error_ratio": 1.1}, 1.1, 0.84887, 207.4),
        ({"epsilon1": 0.9}, 1.06160, 0.9, 300.8),
        ({"epsilon1": 0.9, "calibration": "paper"}, 1.11981, 0.9, 2200.18),
    ],
)
def test_only_the_noise_that_lowers_a_count_is_flooded(
    options: dict[str, Any], ratio: float, minus: float, pairs: float
) -> None:
    protocol = build("shuffle.correlated", hc.Count(), 100_000, **options)
    found = protocol.parameters
    assert protocol.standard_error() == pytest.approx(ratio * CENTRAL, rel=5e-6)
    assert found["epsilon1"] == pytest.approx(minus, abs=5e-6)
    assert found["flood_pairs"] == pytest.approx(pairs, rel=1e-3)
    assert found.get("epsilon_plus", 1.0) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("honest", [40, 25])
def test_intervals_of_noise_that_is_not_symmetric(honest: int) -> None:
    """The error is a difference of two negative binomials with different rates."""
    protocol = build("shuffle.correlated", hc.Count(), 40, honest=honest, delta=0.01, epsilon1=0.4)
    found, share, k = protocol.parameters, 40 / honest, np.arange(400)
    rates = (found["epsilon_plus"], found["epsilon1"])
    plus, minus = (stats.nbinom.pmf(k, share, -math.expm1(-rate)) for rate in rates)
    law, values = np.convolve(plus, minus[::-1]), np.arange(-399, 400)
    mean = float(law @ values)
    assert protocol.standard_error() == pytest.approx(math.sqrt(law @ (values - mean) ** 2))
    tally = protocol.simulate([10, 30], hc.SeededSource(1))
    estimate = protocol.estimate(tally)
    assert estimate.value == pytest.approx(tally.counts[0] - tally.counts[1] - mean)
    for confidence in (0.5, 0.95, 0.999):
        below, above = estimate.error_law.margins(confidence)
        error = values - mean
        for outside, narrower in (
            (error > above + 1e-9, error > above - 1 + 1e-9),
            (error < -below - 1e-9, error < -below + 1 - 1e-9),
        ):
            assert law[outside].sum() <= (1 - confidence) / 2 < law[narrower].sum()


@pytest.mark.parametrize("epsilon1", [0.5, 0.8])
def test_privacy_of_the_correlated_count_by_its_definition(epsilon1: float) -> None:
    protocol = build("shuffle.correlated", hc.Count(), 100_000, delta=1e-4, epsilon1=epsilon1)
    found = protocol.parameters
    b, a = math.exp(-found["epsilon_plus"]), math.exp(-epsilon1)
    one, other = correlated_view(b, a, found["r"], found["flood_p"], 800)
    forth, back = table_deltas(one, other, 1.0)
    assert forth == pytest.approx(protocol.guarantee.delta, rel=1e-6)
    assert back < 1e-12
    assert 0.997e-4 < protocol.guarantee.delta < 1e-4
    for epsilon in (0.0, 0.3, 0.7, 1.2):
        worst = max(table_deltas(one, other, epsilon))
        assert worst == pytest.approx(protocol.curve.delta(epsilon), rel=1e-6, abs=1e-12)


def test_privacy_of_the_correlated_histogram_by_its_definition() -> None:
    protocol = build(
        "shuffle.correlated-histogram",
        hc.Histogram(4),
        50,
        epsilon=3.0,
        delta=1e-2,
        epsilon1=0.9,
    )
    found = protocol.parameters
    size = 60
    a = math.exp(-0.9)
    one, other = correlated_view(a, a, found["r"], found["flood_p"], size)
    keep = (one > 1e-9) | (other > 1e-9)
    for epsilon in (3.0, 1.5, 0.5):
        truth = pair_delta(one[keep], other[keep], epsilon)
        assert truth == pytest.approx(protocol.curve.delta(epsilon), rel=1e-4)
    assert protocol.guarantee.delta == pytest.approx(
        pair_delta(one[keep], other[keep], 3.0), rel=1e-4
    )


def test_correlated_noise_in_a_bucket_is_that_of_the_count() -> None:
    """The messages of one bucket that a person sends follow the stated law of a share."""
    users, people = 6, 100_000
    protocol = build(
        "shuffle.correlated-histogram",
        hc.Histogram(3),
        users,
        epsilon=4.0,
        delta=0.05,
        epsilon1=1.5,
    )
    found = protocol.parameters
    messages = protocol.randomize(np.full(people, 2), hc.SeededSource(12))
    owner = np.repeat(np.arange(people), messages.counts)
    for bucket in range(3):
        plus = np.bincount(owner[messages.payload == 2 * bucket], minlength=people)
        minus = np.bincount(owner[messages.payload == 2 * bucket + 1], minlength=people)
        plus -= bucket == 2
        k = np.arange(40)
        single = stats.nbinom.pmf(k, 1 / users, 1 - math.exp(-1.5))
        flood = stats.nbinom.pmf(k, found["r"] / users, 1 - found["flood_p"])
        law: dict[Any, float] = {}
        for z1 in range(12):
            for z2 in range(12):
                for z3 in range(28):
                    key = (z1 + z3, z2 + z3)
                    law[key] = law.get(key, 0.0) + single[z1] * single[z2] * flood[z3]
        observed = Counter(zip(plus.tolist(), minus.tolist(), strict=True))
        assert log_likelihood_ratio(observed, law)[1] > ALARM
        wrong = {key: chance * (1.06 if key == (0, 0) else 1) for key, chance in law.items()}
        total = sum(wrong.values())
        wrong = {key: chance / total for key, chance in wrong.items()}
        assert log_likelihood_ratio(observed, wrong)[1] < ALARM


def test_error_wanted_and_messages_allowed() -> None:
    count = build("shuffle.correlated", hc.Count(), 100_000, error_ratio=1.022)
    assert count.standard_error() == pytest.approx(1.022 * CENTRAL)
    fewer = build("shuffle.correlated", hc.Count(), 100_000, max_messages=1.01)
    more = build("shuffle.correlated", hc.Count(), 100_000, max_messages=1.05)
    assert 1.0095 < fewer.messages_per_user <= 1.01
    assert 1.0475 < more.messages_per_user <= 1.05
    assert CENTRAL < more.standard_error() < fewer.standard_error() < 1.1 * CENTRAL
    plain = build("shuffle.correlated", hc.Count(), 100_000)
    assert plain.standard_error() == pytest.approx(1.05 * CENTRAL)


def test_errors_grow_with_those_who_may_not_follow() -> None:
    some = build("shuffle.correlated", hc.Count(), 1000, honest=800, epsilon1=0.9)
    all_of_them = build("shuffle.correlated", hc.Count(), 800, epsilon1=0.9)
    assert some.standard_error() == pytest.approx(
        math.sqrt(1000 / 800) * all_of_them.standard_error()
    )
    assert some.parameters["flood_pairs"] == pytest.approx(
        1000 / 800 * all_of_them.parameters["flood_pairs"]
    )
    with pytest.raises(hc.Infeasible, match="error_ratio above") as caught:
        build("shuffle.correlated", hc.Count(), 1000, honest=800, error_ratio=1.1)
    build("shuffle.correlated", hc.Count(), 1000, honest=800, **caught.value.nearest)


def test_refusals_of_correlated_noise() -> None:
    with pytest.raises(hc.Infeasible, match=r"at least .* messages per person") as caught:
        build("shuffle.correlated", hc.Count(), 100, max_messages=1.5)
    feasible = build("shuffle.correlated", hc.Count(), 100, **caught.value.nearest)
    assert feasible.messages_per_user <= caught.value.nearest["max_messages"]
    with pytest.raises(hc.Infeasible, match=r"needs epsilon1 of at most 0\.998, got") as caught:
        build("shuffle.correlated", hc.Count(), 100, epsilon1=1.0)
    build("shuffle.correlated", hc.Count(), 100, **caught.value.nearest)
    with pytest.raises(hc.Infeasible, match=r"needs epsilon1 of at most 0\.498, got"):
        build("shuffle.correlated-histogram", hc.Histogram(3), 100, epsilon1=0.5)
    with pytest.raises(hc.Infeasible, match="needs delta above 0") as caught:
        build("shuffle.correlated", hc.Count(), 100, delta=0.0)
    build("shuffle.correlated", hc.Count(), 100, delta=caught.value.nearest["delta"])
    with pytest.raises(hc.InvalidParameter, match="at most one of"):
        build("shuffle.correlated", hc.Count(), 100, epsilon1=0.5, max_messages=5)
    for wrong in (-1, 0, "many", math.inf):
        with pytest.raises(hc.InvalidParameter):
            build("shuffle.correlated", hc.Count(), 100, error_ratio=wrong)


# Measured, not only by formula --------------------------------------------------------------


def measured(protocol: Any, counts: list[int], runs: int) -> tuple[float, float]:
    """The root mean squared error over runs with real messages, and the messages per person."""
    values = np.repeat(np.arange(len(counts)), counts)
    truth = protocol.task.answer(protocol.task.holding(counts))
    source = hc.SeededSource(2024)
    squares, sent = 0.0, 0
    for _ in range(runs):
        messages = protocol.randomize(values, source)
        sent += len(messages.payload)
        estimate = protocol.estimate(protocol.tally(hc.shuffle(messages, source)))
        squares += float(np.mean(np.square(estimate.value - truth)))
    return math.sqrt(squares / runs), sent / runs / len(values)


def test_a_count_near_central_for_three_percent_more_messages() -> None:
    protocol = build("shuffle.correlated", hc.Count(), 100_000, error_ratio=1.0221)
    assert protocol.standard_error() <= 1.023 * CENTRAL
    assert protocol.messages_per_user <= 1.03
    error, messages = measured(protocol, [0, 100_000], 200)
    # 200 squares of such noise have a relative standard deviation of 0.158. The bound is five times
    # that.
    assert error**2 == pytest.approx(protocol.standard_error() ** 2, rel=0.8)
    assert messages == pytest.approx(protocol.messages_per_user, abs=0.002)
    assert messages <= 1.03


def test_a_histogram_near_central_for_half_a_message_more() -> None:
    protocol = build("shuffle.correlated-histogram", hc.Histogram(50), 100_000, error_ratio=1.09)
    assert protocol.standard_error() <= 1.1 * CENTRAL_BUCKET
    assert protocol.messages_per_user <= 1.5
    error, messages = measured(protocol, [2000] * 50, 200)
    # 10,000 squares: 0.0224.
    assert error**2 == pytest.approx(protocol.standard_error() ** 2, rel=0.11)
    assert error <= 1.1 * CENTRAL_BUCKET * 1.06
    assert messages == pytest.approx(protocol.messages_per_user, rel=0.01)


# k-ary response -----------------------------------------------------------------------------


@pytest.mark.parametrize("buckets", [2, 3, 16, 1000])
@pytest.mark.parametrize("epsilon", [0.37, 1.0, 3.0, 8.0])
def test_k_ary_lies_just_enough_and_errs_by_the_formula(buckets: int, epsilon: float) -> None:
    users = 5000
    protocol = build("local.k-ary", hc.Histogram(buckets), users, epsilon=epsilon)
    law = protocol.law(1)
    truth, lie = law[((1, 1),)], law[((0, 1),)]
    assert sum(law.values()) == 1
    assert float(truth / lie) <= math.exp(epsilon) * (1 + 1e-15)
    step = Fraction(1, 2**64)
    assert float((truth + (buckets - 1) * step) / (lie - step)) > math.exp(epsilon) * (1 - 1e-12)
    e = math.exp(epsilon)
    at_zero = (e + buckets - 2) / (e - 1) ** 2 * users
    zero = [0] * buckets
    zero[0] = users
    p, q = float(truth), float(lie)
    at_all = users * p * (1 - p) / (p - q) ** 2
    assert protocol.standard_error(zero) ** 2 == pytest.approx(max(at_zero, at_all), rel=1e-6)
    assert protocol.standard_error() ** 2 == pytest.approx(max(at_zero, at_all), rel=1e-6)


def test_worst_error_of_k_ary_is_not_that_of_an_empty_bucket() -> None:
    """Known values: 260 compared with 182 at epsilon 0.37 and 37 buckets, and 55 compared with 2.8
    at 3 and 1000.
    """
    small = build("local.k-ary", hc.Histogram(37), 1, epsilon=0.37)
    assert small.standard_error() ** 2 == pytest.approx(260, rel=0.01)
    large = build("local.k-ary", hc.Histogram(1000), 1, epsilon=3.0)
    assert large.standard_error() ** 2 == pytest.approx(55, rel=0.01)


# Sample and threshold -----------------------------------------------------------------------


def test_thresholds_of_sampling() -> None:
    most = 1 - math.exp(-1)
    for share, threshold in ((0.1, 6), (0.2, 9)):
        protocol = build("shuffle.sample-threshold", hc.Histogram(5), 10_000, rate=share * most)
        assert protocol.parameters["threshold"] == threshold
    papers = build("shuffle.sample-threshold", hc.Histogram(5), 10_000, calibration="paper")
    assert papers.parameters["threshold"] == 18


def test_rare_values_are_withheld_by_the_shuffler() -> None:
    protocol = build("shuffle.sample-threshold", hc.Histogram(5), 10_000)
    values = np.repeat([0, 1, 2, 3], [9000, 980, 10, 10])
    source = hc.SeededSource(1)
    messages = protocol.randomize(values, source)
    batch = hc.shuffle(messages, source, least_copies=protocol.shuffler.least_copies)
    assert set(np.unique(messages.payload)) >= {0, 1, 2}
    assert set(np.unique(batch.payload)) == {0, 1}
    for tally in (protocol.tally(batch), collect(protocol, values, source)):
        estimate = protocol.estimate(tally)
        assert estimate.value[2:].tolist() == [0, 0, 0]
        assert estimate.postprocessing == ("threshold",)
        assert [9000, 980, 10, 10, 0] in estimate.interval(0.9999)


def test_an_analyzer_refuses_rare_messages_that_no_shuffler_withheld() -> None:
    protocol = build("shuffle.sample-threshold", hc.Histogram(3), 200)
    few = protocol.shuffler.least_copies - 1
    passed = np.repeat(np.arange(2, dtype=np.uint8), [few + 1, few])
    with pytest.raises(hc.InvalidValue, match=f"must withhold .*got a message with {few} copies"):
        protocol.tally(Batch(passed, 200))
    counts = np.array([few + 1, few, 0])
    with pytest.raises(hc.InvalidValue, match="must withhold"):
        protocol.estimate(Tally(counts, 200, protocol.name))
    withheld = passed_on(protocol, Tally(counts, 200, protocol.name), hc.SeededSource(1))
    assert withheld.counts.tolist() == [few + 1, 0, 0]
    assert protocol.tally(Batch(passed[: few + 1], 200)).counts.tolist() == [few + 1, 0, 0]


def test_cheaters_raise_the_threshold() -> None:
    """Thirty cheaters could lift a bucket of one person over the threshold."""
    honest = build("shuffle.sample-threshold", hc.Histogram(5), 1000)
    some = build("shuffle.sample-threshold", hc.Histogram(5), 1000, honest=970)
    assert some.parameters["threshold"] == honest.parameters["threshold"] + 30
    assert not some.guarantee.exact
    with pytest.raises(hc.CrowdMismatch, match="may be dishonest"):
        hc.run(some, [1] * 1001)


def test_refusals_of_sampling() -> None:
    with pytest.raises(hc.Infeasible, match="needs delta above 0"):
        build("shuffle.sample-threshold", hc.Histogram(5), 1000, delta=0.0)
    with pytest.raises(hc.Infeasible, match="no threshold up to") as caught:
        build("shuffle.sample-threshold", hc.Histogram(5), 1000, rate=0.99)
    build("shuffle.sample-threshold", hc.Histogram(5), 1000, **caught.value.nearest)
    for rate in (0, 1, -0.5, "half"):
        with pytest.raises(hc.InvalidParameter, match="`rate` must"):
            build("shuffle.sample-threshold", hc.Histogram(5), 1000, rate=rate)


def test_dummies_do_not_tell_how_many_were_withheld() -> None:
    """One person is alone in a bucket. The batch must not show that a message was withheld."""
    protocol = build("shuffle.sample-threshold", hc.Histogram(3), 200, rate=0.3)
    source = hc.SeededSource(6)
    bundles = [protocol.bundle(int(person == 0), source) for person in range(200)]
    assert {len(one.payload) for one in bundles} == {protocol.slots} == {1}
    batch = hc.shuffle(
        hc.Messages.join(bundles),
        source,
        least_copies=protocol.shuffler.least_copies,
        dummy=protocol.alphabet.dummy,
    )
    assert set(np.unique(batch.payload)) == {0}
    assert protocol.estimate(protocol.tally(batch)).value[1:].tolist() == [0, 0]
    dropped = hc.shuffle(
        hc.Messages(np.array([[1, 2], [0, 9], [1, 3]], np.uint8), 3, np.ones(3, int)),
        source,
        dummy=(0, 9),
    )
    assert sorted(dropped.payload.tolist()) == [[1, 2], [1, 3]]


def test_noise_that_cannot_be_drawn_exactly_enough_is_refused() -> None:
    """The rounding of tables is charged to delta, and must not exceed the budget."""
    for name, task in (("shuffle.correlated", hc.Count()), ("shuffle.fake-users", hc.Histogram(3))):
        with pytest.raises(hc.Infeasible, match="exactly enough"):
            build(name, task, 10, epsilon=90.0)
        protocol = build(name, task, 10, epsilon=30.0)
        assert protocol.guarantee.delta <= 1e-6


@pytest.mark.parametrize("users", [1, 2, 3])
def test_few_people_add_much_noise(users: int) -> None:
    """These shares are hardly ever zero."""
    protocol = build("shuffle.correlated", hc.Count(), users, delta=1e-15)
    assert protocol.guarantee.delta <= 1e-15
    estimates = [hc.run(protocol, [1] * users, hc.SeededSource(i)).value for i in range(300)]
    assert abs(np.mean(estimates) - users) < 5 * protocol.standard_error() / math.sqrt(300)


@pytest.mark.parametrize(
    ("name", "task", "epsilon", "delta"),
    [
        ("shuffle.fake-users", hc.Histogram(2), 1, 0.1),
        ("shuffle.correlated", hc.Count(), 2, 0.05),
    ],
)
def test_an_estimate_from_bundles_states_what_bundles_keep(
    name: str, task: hc.Task, epsilon: float, delta: float
) -> None:
    """Bundles that do not fit are drawn again, so δ is slightly above that of the plain view."""
    people, source = 2, hc.SecureSource()
    protocol = build(name, task, people, epsilon=epsilon, delta=delta)
    sent = [protocol.bundle(value, source).to_bytes() for value in range(people)]
    received = hc.Messages.join(hc.Messages.receive(data, protocol.alphabet) for data in sent)
    halves = [protocol.tally(half) for half in received]
    batch = hc.shuffle(received, source)
    drawn = redrawn_delta(protocol)
    assert drawn > protocol.guarantee.delta  # which is exact for messages without bundles
    for tally in (protocol.tally(batch), protocol.tally(received), halves[0] + halves[1]):
        promise = protocol.estimate(tally).guarantee
        assert drawn <= promise.delta <= delta
        assert not promise.exact
        assert f"bundles of {protocol.slots} slots" in promise.method
    plain = protocol.estimate(protocol.tally(protocol.randomize([0, 1], source)))
    assert plain.guarantee == protocol.guarantee
    assert protocol.guarantee.exact


def redrawn_delta(protocol: hc.Protocol) -> float:
    """The largest δ over all crowds and neighbors, if everybody draws until the noise fits."""
    laws = enumeration.fitting(enumeration.laws_of(protocol), protocol.slots)
    kinds = enumeration.kinds(laws)
    by_value = [enumeration.as_counts(law, kinds) for law in laws]
    people, shape = protocol.crowd.users, enumeration.shape_of(by_value, protocol.crowd.users)

    def view(others: tuple[int, ...], value: int) -> Any:
        holding = tuple(count + (at == value) for at, count in enumerate(others))
        return enumeration.grid_view(by_value, holding, shape)

    return max(
        float(enumeration.hockey_stick(view(others, x), view(others, y), protocol.budget.epsilon))
        for others in enumeration.datasets(people - 1, len(laws))
        for x, y in itertools.permutations(range(len(laws)), 2)
    )
