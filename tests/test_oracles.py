"""Frequency oracles: laws by enumeration, published variances, intervals, large domains."""

import math
import tracemalloc
from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.stats import chi2

import headcount as hc
from enumeration import exactly, laws_of, log_likelihood_ratio, worst_delta
from headcount.protocols.frequency_oracle import FrequencyOracle, SupportError
from headcount.protocols.local.hashing import Hashing, best_values
from headcount.protocols.local.subset import Subset, best_size

Array = np.ndarray[Any, Any]
ORACLES = [
    "local.k-ary",
    "local.unary-symmetric",
    "local.unary-optimized",
    "local.hashing",
    "local.hadamard",
    "local.subset",
]
oracles = pytest.mark.parametrize("name", ORACLES)
slow = pytest.mark.slow
SET_BY_SET = ("local.hashing", "local.hadamard", "local.subset")


def oracle(
    name: str, buckets: int = 20, epsilon: float = 1.0, users: int = 1000, **options: Any
) -> FrequencyOracle:
    built = hc.protocol(name, hc.Histogram(buckets), hc.Budget(epsilon), hc.Crowd(users), **options)
    assert isinstance(built, FrequencyOracle)
    return built


def supported(protocol: hc.Protocol, message: Any) -> tuple[int, ...]:
    payload = np.array([message], dtype=protocol.alphabet.dtype)
    return tuple(protocol.tally(hc.Batch(payload, 1)).counts.tolist())


def _listed() -> Iterator[Any]:
    for name, buckets, epsilon in product(ORACLES, (2, 3, 4, 5), (0.02, 0.7, 1.0, 3.0, 9.0)):
        options = {"values": 2 if buckets > 3 else 4} if name == "local.hashing" else {}
        yield pytest.param(
            oracle(name, buckets, epsilon, **options), id=f"{name}-{buckets}-{epsilon}"
        )


@pytest.mark.parametrize("protocol", list(_listed()))
def test_support_and_ratio_are_those_of_the_whole_law(protocol: FrequencyOracle) -> None:
    laws, support, d = laws_of(protocol), protocol.support, protocol.task.domain
    seen = {bundle: supported(protocol, bundle[0][0]) for law in laws for bundle in law}
    for owner, law in enumerate(laws):
        for x in range(d):
            chance = sum(p for bundle, p in law.items() if seen[bundle][x])
            assert chance == (support.own if x == owner else support.other)
        for x, y in permutations(range(d), 2):
            both = sum(p for bundle, p in law.items() if seen[bundle][x] and seen[bundle][y])
            assert both == (support.own_and_other if owner in (x, y) else support.two_others)
    pairs = permutations(laws, 2)
    ratio = max(one[bundle] / other[bundle] for one, other in pairs for bundle in one)
    assert ratio == 1 + support.ratio
    # ε' is never above the budget, at 50 digits, and nothing is wasted.
    epsilon = mpmath.log(exactly(ratio))
    assert epsilon <= mpmath.mpf(protocol.budget.epsilon)
    assert epsilon > mpmath.mpf(protocol.budget.epsilon) * (1 - mpmath.mpf("1e-14"))
    assert protocol.guarantee.epsilon <= protocol.budget.epsilon
    assert float(epsilon) <= protocol.local_epsilon <= float(epsilon) * (1 + 1e-14)


@oracles
@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.5, 2.0, 6.0, 20.0])
def test_ratio_of_many_buckets_keeps_the_budget(name: str, epsilon: float) -> None:
    protocol = oracle(name, 1000, epsilon)
    found = mpmath.log(exactly(1 + protocol.support.ratio))
    assert mpmath.mpf(epsilon) * (1 - mpmath.mpf("1e-9")) - 1e-12 < found <= mpmath.mpf(epsilon)


def published(name: str, d: int, epsilon: float) -> float:
    """The variance per person of an empty bucket. The published one is for hashes that may be the
    same for all buckets. Without these, two buckets agree less often.
    """
    e, root = math.exp(epsilon), math.exp(epsilon / 2)
    g = min(range(2, 400), key=lambda g: (e + g - 1) ** 2 / (g - 1))
    equal = {"local.hashing": _same_hash(d, g), "local.hadamard": _same_hash(d, 2)}
    if name in equal:
        truth = e / (e + (g if name == "local.hashing" else 2) - 1)
        other = equal[name] * truth + (1 - equal[name]) * truth / e
        return other * (1 - other) / (truth - other) ** 2
    return {
        "local.k-ary": (e + d - 2) / (e - 1) ** 2,
        "local.unary-symmetric": root / (root - 1) ** 2,
        "local.unary-optimized": 4 * e / (e - 1) ** 2,
        "local.subset": min(_subset_variance(d, w, epsilon) for w in range(1, d)),
    }[name]


def _same_hash(buckets: int, values: int) -> float:
    """The chance that two buckets have the same hash, over all pairs of numbers of l bits. Rows for
    the first bit, and for the second if there is an odd number of values, are not 0.
    """
    bits = (values - 1).bit_length()
    bits += 0 if values == 1 << bits else 4
    rows = 2 ** (buckets - 1).bit_length() - 1
    linear = np.arange(1 << bits)
    places = linear ^ (linear >> (bits - 1) << (bits - 2)) if values % 2 else linear
    hashed = places * values >> bits
    differing = linear[:, None] ^ linear
    weights = np.where(differing >> (bits - 1) & 1, rows + 1, rows - 1) / rows
    if values % 2:
        weights *= np.where(differing >> (bits - 2) & 1, rows + 1, rows - 1) / rows
    return float((weights * (hashed[:, None] == hashed)).mean())


def test_variances_without_guards_are_the_published_ones() -> None:
    """With many buckets, hardly any hash is the same for all of them."""
    for epsilon in (0.37, 1.0, 3.0):
        e = math.exp(epsilon)
        g = min(range(2, 400), key=lambda g: (e + g - 1) ** 2 / (g - 1))
        wanted = {
            "local.hashing": (e + g - 1) ** 2 / ((g - 1) * (e - 1) ** 2),
            "local.hadamard": ((e + 1) / (e - 1)) ** 2,
        }
        for name, variance in wanted.items():
            support = oracle(name, 2**20, epsilon).support
            found = float(support.other * (1 - support.other) / support.slope**2)
            # Where g is no power of two, its intervals are not quite alike.
            assert found == pytest.approx(variance, rel=2e-3 if name == "local.hashing" else 1e-5)


@oracles
@pytest.mark.parametrize(("buckets", "epsilon"), [(37, 0.37), (16, 1.0), (1000, 3.0), (64, 5.0)])
def test_variance_is_the_published_one(name: str, buckets: int, epsilon: float) -> None:
    protocol = oracle(name, buckets, epsilon, users=1000)
    rare = protocol.standard_error([1000] + [0] * (buckets - 1)) ** 2 / 1000
    support = protocol.support
    wanted = published(name, buckets, epsilon)
    alone = float(support.other * (1 - support.other) / support.slope**2)
    assert alone == pytest.approx(wanted, rel=1e-9)
    common = float(support.own * (1 - support.own) / support.slope**2)
    assert rare == pytest.approx(max(alone, common))
    assert protocol.standard_error() ** 2 == pytest.approx(1000 * max(alone, common))


def test_variance_near_zero_is_not_the_worst_case() -> None:
    k_ary = oracle("local.k-ary", 37, 0.37, 1000)
    assert k_ary.standard_error() ** 2 / 1000 == pytest.approx(260, rel=0.01)
    assert published("local.k-ary", 37, 0.37) == pytest.approx(182, rel=0.01)
    k_ary = oracle("local.k-ary", 1000, 3.0, 1000)
    assert k_ary.standard_error() ** 2 / 1000 == pytest.approx(55, rel=0.01)
    assert published("local.k-ary", 1000, 3.0) == pytest.approx(2.8, rel=0.01)


def test_values_and_sizes_are_the_best_whole_numbers() -> None:
    odd = 0
    for epsilon in np.linspace(0.05, 6.0, 200):
        e = math.exp(epsilon)
        best = min(range(2, 600), key=lambda g: (e + g - 1) ** 2 / (g - 1))
        assert best_values(epsilon) == best
        odd += best != math.floor(e) + 1
        for d in (2, 3, 17, 128):
            variances = {w: _subset_variance(d, w, epsilon) for w in range(1, d)}
            assert variances[best_size(d, epsilon)] == pytest.approx(min(variances.values()))
    assert odd > 50  # ⌊e^ε⌋ + 1 is often not the best


def _subset_variance(d: int, w: int, epsilon: float) -> float:
    e = math.exp(epsilon)
    p = e * w / (e * w + d - w)
    q = p * (w - 1) / (d - 1) + (1 - p) * w / (d - 1)
    return q * (1 - q) / (p - q) ** 2


REPETITIONS = 400


def repeated(protocol: hc.Protocol, values: Any, source: hc.Source) -> np.ndarray[Any, Any]:
    return np.array([hc.run(protocol, values, source).value for _ in range(REPETITIONS)])


@oracles
@pytest.mark.parametrize("buckets", [5, 33])
def test_repetitions_have_the_stated_mean_and_variance(name: str, buckets: int) -> None:
    users = 2000
    values = np.minimum(np.arange(users) % (2 * buckets), buckets - 1)
    truth = np.bincount(values, minlength=buckets)
    protocol = oracle(name, buckets, users=users)
    found = repeated(protocol, values, hc.SeededSource(41))
    law = SupportError(users, protocol.support, truth.astype(np.float64))
    z = (found - truth) / law.standard_error
    assert np.abs(z.mean(axis=0)).max() * math.sqrt(REPETITIONS) < 5.5
    # The variance of each bucket, and their mean, which would show an error of 10 %.
    low, high = chi2.ppf([1e-7, 1 - 1e-7], REPETITIONS) / REPETITIONS
    squares = np.mean(z**2, axis=0)
    assert ((low < squares) & (squares < high)).all()
    if buckets == 33:
        assert squares.mean() == pytest.approx(1, abs=0.08)
    # Sums of buckets, which are dependent with some oracles.
    weights = np.vstack([np.eye(buckets)[0] + np.eye(buckets)[1], np.ones(buckets),
                         np.linspace(-1, 2, buckets)])  # fmt: skip
    stated = law.combined(weights)
    spread = np.sqrt(np.mean(((found - truth) @ weights.T) ** 2, axis=0))
    small = stated < 1e-6 * law.standard_error.max()
    assert (spread[small] < 1e-3).all()
    ratio = (spread[~small] / stated[~small]) ** 2
    assert ((low < ratio) & (ratio < high)).all()
    if name in ("local.k-ary", "local.subset"):
        assert small[1]  # all buckets together: known without error


@pytest.mark.parametrize("name", ["local.k-ary", "local.subset"])
def test_buckets_that_depend_on_each_other_are_not_taken_for_independent(name: str) -> None:
    law = SupportError(1000, oracle(name, 4).support, np.full(4, 250.0))
    together = law.combined(np.array([[1.0, 1.0, 0.0, 0.0]]))[0]
    assert together < 0.95 * math.hypot(*law.standard_error[:2])


# Intervals ------------------------------------------------------------------------------------


def covered(
    name: str,
    epsilon: float,
    counts: list[int],
    runs: int,
    *,
    together: bool = False,
    share: int | None = None,
) -> Any:
    """How often the intervals of simulated runs contain each count, or all counts at once.

    The error probability is divided by `share`, by default as `simultaneous` does.
    """
    users, truth = sum(counts), np.array(counts)
    protocol = oracle(name, len(counts), epsilon, users=users)
    source = hc.SeededSource(12)
    tallies = [protocol.simulate(counts, source) for _ in range(runs)]
    values = np.array([protocol.estimate(tally).value for tally in tallies])
    # All runs are one histogram, since an interval depends on one bucket only.
    share = share or (len(counts) if together else 1)
    confidence = 1 - 0.05 / share
    below, above = protocol.estimator.error_law(users, values.ravel()).margins(confidence)
    low, high = (values.ravel() - above), (values.ravel() + below)
    inside = (low <= np.tile(truth, runs)) & (np.tile(truth, runs) <= high)
    table = inside.reshape(runs, -1)
    one = protocol.estimate(tallies[0]).interval(0.95, simultaneous=share > 1)
    assert np.array_equal((one.low <= truth) & (truth <= one.high), table[0])
    return np.mean(table.all(axis=1)) if together else table.mean(axis=0)


COUNTS = [5, 20, 100, 400, 1475]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        # For these, reports of few buckets are simulated set by set, which takes long.
        pytest.param(one, marks=[slow] if one in SET_BY_SET else [])
        for one in ORACLES
    ],
)
def test_intervals_cover_small_and_large_counts(name: str) -> None:
    found = covered(name, 1.0, COUNTS, 5000)
    assert ((found > 0.94) & (found < 0.965)).all(), found


def test_intervals_cover_everybody() -> None:
    """Everyone is in one bucket. A two-sided interval that is cut at n would cover too often."""
    everyone = covered("local.unary-optimized", 1.0, [2000, 0, 0, 0, 0], 5000)
    assert 0.94 < everyone[0] < 0.965


@pytest.mark.slow
@pytest.mark.parametrize(
    ("users", "epsilon", "name"),
    [
        (users, epsilon, name)
        for name in ORACLES
        for users, epsilon in product([1000, 50_000], [0.3, 1.0, 2.0, 3.0])
        # Those that are simulated set by set would take hours in all settings.
        if name not in SET_BY_SET or (users == 1000 and epsilon <= 1)
    ],
)
def test_intervals_cover_everywhere(name: str, epsilon: float, users: int) -> None:
    counts = [5, 20, users // 50, users // 10, users // 3]
    found = covered(name, epsilon, [*counts, users - sum(counts)], 5000)
    assert ((found > 0.94) & (found < 0.965)).all(), found
    everyone = covered(name, epsilon, [users, 0, 0, 0, 0, 0], 5000)
    assert 0.94 < everyone[0] < 0.965


@pytest.mark.parametrize("name", ["local.unary-optimized", "local.k-ary"])
@pytest.mark.slow
def test_simultaneous_intervals_cover_all_buckets(name: str) -> None:
    assert covered(name, 1.0, COUNTS, 2000, together=True) > 0.94
    # Intervals for single buckets do not cover all buckets at once.
    assert covered(name, 1.0, COUNTS, 2000, together=True, share=1) < 0.9
    protocol = oracle(name, len(COUNTS), users=sum(COUNTS))
    estimate = protocol.estimate(protocol.simulate(COUNTS, hc.SeededSource(1)))
    alone, all_of_them = estimate.interval(), estimate.interval(simultaneous=True)
    assert (all_of_them.low <= alone.low).all()
    assert (all_of_them.high >= alone.high).all()


def reports_of(users: int, count: int, own: float, other: float) -> tuple[Array, Array]:
    """The numbers of reports that support a count, and their probabilities, up to 1e-13: two
    binomials.
    """

    def window(trials: int, chance: float) -> tuple[int, Array]:
        low, high = stats.binom.ppf([1e-14, 1 - 1e-14], trials, chance)
        numbers = np.arange(max(0, low), min(trials, high) + 1)
        return int(numbers[0]), stats.binom.pmf(numbers, trials, chance)

    (first, one), (second, two) = window(count, own), window(users - count, other)
    chances = np.convolve(one, two)
    return np.arange(first + second, first + second + len(chances)), chances


def misses(
    protocol: hc.Protocol, counts: Iterable[int], own: float, other: float, confidence: float
) -> list[float]:
    """How often intervals miss each count, computed from all numbers of reports, without
    simulation.
    """
    users, found = protocol.crowd.users, []
    laws = [(count, *reports_of(users, count, own, other)) for count in counts]
    every = np.unique(np.concatenate([reports for _, reports, _ in laws]))
    values = (every - users * other) / (own - other)
    if protocol.estimator.tally_size == 1:
        margins = [
            protocol.estimator.error_law(users, value).margins(confidence) for value in values
        ]
        below, above = np.array(margins).T
    else:
        below, above = protocol.estimator.error_law(users, values).margins(confidence)
    for count, reports, chances in laws:
        at = np.searchsorted(every, reports)
        inside = (values - above <= count + 1e-6) & (count - 1e-6 <= values + below)
        found.append(1 - float(chances[inside[at]].sum()))
    return found


CONFIDENCES = (0.95, 0.99, 0.999, 0.9999)


@pytest.mark.parametrize(
    ("name", "epsilon", "users"),
    [
        ("local.unary-optimized", 1.0, 10),
        ("local.unary-optimized", 4.0, 60),
        ("local.k-ary", 3.0, 60),
        ("local.k-ary", 5.0, 5000),
        ("local.unary-optimized", 5.0, 5000),
        ("local.hadamard", 1.0, 5000),
        ("local.unary-optimized", 6.0, 40_000),
        ("local.hashing", 2.0, 1_000_000),
    ],
)
def test_intervals_miss_no_more_often_than_they_say(name: str, epsilon: float, users: int) -> None:
    protocol = oracle(name, 100, epsilon, users)
    own, other = float(protocol.support.own), float(protocol.support.other)
    some = [0, 1, 30, users // 100, users // 8, users // 2, users - 40, users]
    spread = math.sqrt(users * other * (1 - other)) / (own - other)
    for confidence in CONFIDENCES:
        wrong = 1 - confidence
        counts = range(users + 1) if users < 100 else some[:: 1 if users < 10**6 else 3]
        found = misses(protocol, counts, own, other, confidence)
        assert max(found) <= wrong * (1 + 1e-6), (confidence, max(found) / wrong)
        if users >= 5000 and spread > 100:  # nor much less often: reports come in whole numbers
            assert min(found) >= 0.75 * wrong, (confidence, min(found) / wrong)


@pytest.mark.parametrize("trust", ["local", "shuffle"])
@pytest.mark.parametrize(("epsilon", "users"), [(2.0, 12), (1.0, 60), (6.0, 400)])
def test_intervals_of_flipped_bits_miss_no_more_often_than_they_say(
    trust: str, epsilon: float, users: int
) -> None:
    budget, crowd = hc.Budget(epsilon, 0.01 * (trust == "shuffle")), hc.Crowd(users)
    protocol = hc.protocol(f"{trust}.randomized-response", hc.Count(), budget, crowd)
    lie = float(protocol.law(0)[(1, 1),])  # type: ignore[index]
    counts = range(users + 1) if users < 100 else [0, 3, 400]
    for confidence in CONFIDENCES:
        found = misses(protocol, counts, 1 - lie, lie, confidence)
        assert max(found) <= (1 - confidence) * (1 + 1e-6)


@pytest.mark.parametrize("users", [40, 150])
def test_intervals_are_no_wider_than_those_of_equal_tails(users: int) -> None:
    """A count is in an equal-tailed interval if neither tail of the law of its reports is too
    light.
    """
    protocol = oracle("local.unary-optimized", 8, 4.0, users)
    own, other = float(protocol.support.own), float(protocol.support.other)
    values = (np.arange(users + 1) - users * other) / (own - other)
    counts = np.arange(users + 1)
    laws = np.zeros((users + 1, users + 1))
    for count in counts:
        reports, chances = reports_of(users, int(count), own, other)
        laws[count, reports] = chances
    fewer = np.cumsum(laws, axis=1)
    more = np.cumsum(laws[:, ::-1], axis=1)[:, ::-1]
    for confidence in CONFIDENCES:
        spare = (1 - confidence) / 2
        equal = ((fewer > spare) & (more > spare)).sum(axis=0)
        below, above = protocol.estimator.error_law(users, values).margins(confidence)
        widths = below + above + 1
        # Weights are the frequencies of reports for a crowd that is spread evenly over all counts.
        often = laws.mean(axis=0)
        assert (widths * often).sum() <= 1.01 * (equal * often).sum()


@pytest.mark.parametrize(("confidence", "deviations"), [(0.95, 1.95996), (0.999, 3.29053)])
def test_intervals_of_large_crowds_are_as_wide_as_normal_ones(
    confidence: float, deviations: float
) -> None:
    users = 1_000_000
    protocol = oracle("local.unary-optimized", 1000, 1.0, users)
    values = np.array([100_000.0, 400_000.0])
    law = SupportError(users, protocol.support, values)
    below, above = law.margins(confidence)
    normal = 2 * deviations * law.standard_error
    assert (below + above <= 1.01 * normal).all()
    assert (below + above >= 0.99 * normal).all()


@pytest.mark.parametrize("users", [10**9, 2**50])
def test_intervals_of_huge_crowds_are_computed_fast(users: int) -> None:
    protocol = oracle("local.unary-optimized", 1000, 1.0, users)
    values = np.linspace(-3e5, users / 2, 2000)
    law = SupportError(users, protocol.support, values)
    below, above = law.margins(0.999)
    middle = slice(1000, None)
    wide = (below + above)[middle] / law.standard_error[middle]
    assert wide == pytest.approx(2 * 3.29053, rel=0.02)


@pytest.mark.parametrize("epsilon", [1e-9, 40.0, 300.0])
def test_intervals_at_the_ends_of_the_range_of_epsilon(epsilon: float) -> None:
    protocol = oracle("local.k-ary", 3, epsilon, 100)
    held = [70, 30, 0]
    estimate = protocol.estimate(protocol.simulate(held, hc.SeededSource(3)))
    interval = estimate.interval(0.999999)
    assert held in interval
    width = interval.high - interval.low
    assert (width == 100).all() if epsilon < 1 else (width <= 0).all()


# Packed bits, hashes and transforms -----------------------------------------------------------


@pytest.mark.parametrize("buckets", [3, 8, 16, 21, 128, 300])
@pytest.mark.parametrize("name", ["local.unary-optimized", "local.subset"])
def test_tally_counts_every_bit(name: str, buckets: int) -> None:
    protocol, people = oracle(name, buckets), 3001
    messages = protocol.randomize(np.arange(people) % buckets, hc.SeededSource(2))
    rows = messages.payload.reshape(people, -1)
    bits = np.unpackbits(rows, axis=1, bitorder="little")
    assert not bits[:, buckets:].any()
    assert np.array_equal(protocol.tally(messages).counts, bits.sum(axis=0)[:buckets])
    if isinstance(protocol, Subset):
        assert set(bits.sum(axis=1).tolist()) == {protocol.parameters["size"]}


def test_sets_of_another_size_are_refused() -> None:
    protocol = oracle("local.subset", 16)
    for wrong in (0, 0xFFFF):
        payload = np.frombuffer(wrong.to_bytes(2, "little"), dtype=np.uint8).reshape(1, 2)
        with pytest.raises(hc.InvalidValue, match="must be sets of 4 buckets"):
            protocol.tally(hc.Batch(payload, 1))


@pytest.mark.parametrize("buckets", [30, 64])
def test_large_subsets_are_uniform_given_their_owner(buckets: int) -> None:
    """There are too many sets to list. Pairs of other buckets are equally likely in both kinds of
    sets.
    """
    protocol, people = oracle("local.subset", buckets, 1.0), 200_000
    own = 7
    messages = protocol.randomize(np.full(people, own), hc.SeededSource(4))
    bits = np.unpackbits(messages.payload, axis=1, bitorder="little")[:, :buckets].astype(float)
    size = protocol.parameters["size"]
    for having in (1, 0):
        rows = np.delete(bits[bits[:, own] == having], own, axis=1)
        share = (size - having) / (buckets - 1)
        expected = (len(rows) * share, len(rows) * share * (size - having - 1) / (buckets - 2))
        pairs = rows.T @ rows
        z = (np.diag(pairs) - expected[0]) / math.sqrt(expected[0] * (1 - share))
        assert np.abs(z).max() < 5.5
        others = pairs[np.triu_indices(len(pairs), 1)]
        z = (others - expected[1]) / math.sqrt(expected[1])
        assert np.abs(z).max() < 6
        assert np.mean(z**2) < 1.2


def _hash(words: list[int], bucket: int, buckets: int, values: int) -> int:
    asked = 2 * bucket + 1
    number = sum((word & asked).bit_count() % 2 << place for place, word in enumerate(words))
    if values % 2 and number >> (len(words) - 1):
        number ^= 1 << (len(words) - 2)
    return number * values >> len(words)


@pytest.mark.parametrize("values", [2, 3, 4, 5, 16, 20, 300])
def test_hashing_counts_by_trial_and_by_transform(values: int, monkeypatch: Any) -> None:
    buckets, people = 11, 60
    protocol = oracle("local.hashing", buckets, 2.0, values=values)
    assert isinstance(protocol, Hashing)
    messages = protocol.randomize(np.arange(people) % buckets, hc.SeededSource(6))
    expected = [
        sum(_hash(row[:-1], x, buckets, values) == row[-1] for row in messages.payload.tolist())
        for x in range(buckets)
    ]
    assert protocol.tally(messages).counts.tolist() == expected
    monkeypatch.setattr("headcount.protocols.local.hashing._TRANSFORM", 0)
    if values < 300:
        assert protocol.tally(messages).counts.tolist() == expected


@pytest.mark.parametrize(
    ("buckets", "values"), [(2, 2), (5, 2), (8, 2), (3, 4), (7, 4), (2, 3), (3, 3), (4, 3), (3, 6)]
)
def test_no_hash_is_the_same_for_all_buckets(buckets: int, values: int) -> None:
    """All hashes that the alphabet has: each value is equally likely, pairs and triples of buckets
    agree as often as stated, and at most half of all numbers have the same hash.
    """
    protocol = oracle("local.hashing", buckets, values=values)
    assert isinstance(protocol, Hashing)
    *columns, _ = protocol.alphabet.columns
    words = np.stack([w.ravel() for w in np.meshgrid(*columns, indexing="ij")], axis=1)
    hashed = np.zeros((buckets, len(words)), dtype=np.int64)
    for x in range(buckets):
        for place in range(len(columns)):
            hashed[x] |= (np.bitwise_count(words[:, place] & (2 * x + 1)) & 1).astype(int) << place
    if values % 2:
        hashed ^= hashed >> (len(columns) - 1) << (len(columns) - 2)
    sizes = np.bincount(np.arange(1 << len(columns)) * values >> len(columns))
    hashed = hashed * values >> len(columns)
    assert (hashed != hashed[0]).any(axis=0).all()
    half = 2 ** ((buckets - 1).bit_length() - 1)
    supported = np.array([(hashed == y).sum(axis=0) for y in range(values)])
    assert (supported.min(), supported.max()) == protocol.estimator.supported
    assert supported.max() == half
    pairs, triples = protocol.hashes.collisions
    for x in range(buckets):
        assert (np.bincount(hashed[x]) * sizes.sum() == sizes * len(words)).all()
    for x, y in permutations(range(buckets), 2):
        assert Fraction(int((hashed[x] == hashed[y]).sum()), len(words)) == pairs
    for x, y, z in permutations(range(buckets), 3):
        same = (hashed[x] == hashed[y]) & (hashed[x] == hashed[z])
        assert Fraction(int(same.sum()), len(words)) == triples


@pytest.mark.parametrize(("name", "row"), [("local.hashing", (5, 1, 2)), ("local.hadamard", 1)])
def test_messages_that_would_support_all_buckets_are_refused(name: str, row: Any) -> None:
    """Guards of 0 and the coefficient 0: the alphabet does not have them."""
    protocol = oracle(name, 10)
    message = np.array([row], dtype=protocol.alphabet.dtype)
    with pytest.raises(hc.InvalidValue, match=r"every message must be in range\(2, "):
        protocol.tally(hc.Batch(message, 1))
    with pytest.raises(hc.InvalidValue, match=r"every message must be in range\(2, "):
        hc.Messages.receive(message.tobytes(), protocol.alphabet)


def test_uneven_hashes_state_their_exact_chances() -> None:
    """With 3 values, the intervals of a hash differ. Other buckets are supported as stated."""
    protocol, people = oracle("local.hashing", 4, 1.0, values=3), 400_000
    messages = protocol.randomize(np.zeros(people, dtype=int), hc.SeededSource(9))
    counts = protocol.tally(messages).counts
    for bucket, count in enumerate(counts):
        chance = float(protocol.support.own if bucket == 0 else protocol.support.other)
        assert abs(count - people * chance) < 5.5 * math.sqrt(people * chance * (1 - chance))
    assert protocol.support.other != Fraction(1, 3)


@pytest.mark.parametrize("name", ["local.hadamard", "local.hashing"])
def test_a_million_buckets(name: str) -> None:
    buckets, people = 2**20 + 5, 100_000
    values = np.random.default_rng(3).integers(0, buckets, people)
    values[: people // 2] = 777_777
    protocol = oracle(name, buckets, 2.0, users=people)
    messages = protocol.randomize(values, hc.SeededSource(10))
    assert messages.payload.nbytes <= 30 * people
    estimate = protocol.estimate(protocol.tally(messages))
    assert estimate.largest(1)[0][0] == 777_777
    z = (estimate.value - np.bincount(values, minlength=buckets)) / estimate.standard_error
    assert abs(z[777_777]) < 5.5
    assert np.mean(z**2) == pytest.approx(1, abs=0.02)


def test_messages_are_packed() -> None:
    """128 bits take 16 bytes in a message and in memory."""
    protocol = oracle("local.unary-optimized", 128)
    assert protocol.alphabet.bytes_per_message == 16
    assert protocol.alphabet.bits == 128
    assert oracle("local.hadamard", 128).alphabet.bytes_per_message == 1
    assert oracle("local.hashing", 128).alphabet.bytes_per_message == 3


@oracles
def test_bad_options_are_refused(name: str) -> None:
    if name == "local.hashing":
        for wrong in (1, 0, 2**17, 2.5, "4"):
            with pytest.raises(hc.InvalidParameter, match="`values` must be"):
                oracle(name, values=wrong)
    with pytest.raises(hc.InvalidParameter, match="with all buckets declared"):
        hc.protocol(name, hc.Histogram([1, 2], open=True), hc.Budget(1), hc.Crowd(10))


@oracles
def test_reports_of_one_person_follow_no_other(name: str) -> None:
    """The law of a report on many buckets, by which of a few buckets it supports."""
    protocol, people = oracle(name, 24, 1.5), 8000
    payload = protocol.randomize(np.full(people, 3), hc.SeededSource(21)).payload
    own, other, both, none = (float(chance) for chance in protocol.support.cells)
    law = {(1, 0): own, (0, 1): other, (1, 1): both, (0, 0): none}
    seen = [protocol.tally(hc.Batch(payload[i : i + 1], 1)).counts for i in range(people)]
    observed = Counter((int(row[3]), int(row[5])) for row in seen)
    assert log_likelihood_ratio(observed, {k: p for k, p in law.items() if p})[1] > 1e-6
    wrong = {**law, (1, 0): own * 0.8, (0, 0): none + own * 0.2}
    assert log_likelihood_ratio(observed, {k: p for k, p in wrong.items() if p})[1] < 1e-6


@pytest.mark.parametrize(
    "name", ["local.unary-symmetric", "local.unary-optimized", "local.hadamard"]
)
def test_behind_a_shuffler_every_crowd_keeps_the_promise(name: str) -> None:
    """All views of all crowds with three people and two buckets."""
    protocol = hc.protocol(
        "shuffle.amplified", hc.Histogram(2), hc.Budget(0.8, 0.2), hc.Crowd(3), local=name
    )
    assert protocol.parameters["local_epsilon"] > 0.8
    assert worst_delta(protocol, 0.8) <= protocol.guarantee.delta <= 0.2
    for epsilon in (0.0, 0.3, 1.2):
        assert worst_delta(protocol, epsilon) <= protocol.curve.delta(epsilon) + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "buckets", "epsilon", "users"),
    [("local.subset", 1000, 12.0, 300), ("local.hashing", 500, 7.3, 1000),
     ("local.unary-optimized", 300, 5.0, 1000),
     pytest.param("local.k-ary", 200, 3.0, 101, marks=pytest.mark.slow)],
)  # fmt: skip
def test_simultaneous_intervals_hold_where_supports_are_few(
    name: str, buckets: int, epsilon: float, users: int
) -> None:
    """At such a confidence N is far from normal. Some people hold their own bucket, half hold one
    bucket.
    """
    protocol = oracle(name, buckets, epsilon, users)
    half = users // 2
    others = np.bincount(np.arange(users - half) % (buckets - 1), minlength=buckets - 1)
    counts = np.concatenate([[half], others])
    source, runs = hc.SeededSource(3), 300
    held = sum(
        counts in protocol.estimate(protocol.simulate(counts, source)).interval(simultaneous=True)
        for _ in range(runs)
    )
    assert held > runs * 0.95 - 4.5 * math.sqrt(runs * 0.95 * 0.05)


@pytest.mark.parametrize(("local", "buckets"), [("local.hashing", 2), ("local.subset", 9)])
@pytest.mark.parametrize("epsilon", [0.01, 1.0])
def test_any_oracle_goes_behind_a_shuffler(local: str, buckets: int, epsilon: float) -> None:
    """One of the oracles has a number of messages that changes with its epsilon."""
    protocol = hc.protocol(
        "shuffle.amplified", hc.Histogram(buckets), hc.Budget(epsilon, 1e-6), hc.Crowd(1000),
        local=local,
    )  # fmt: skip
    assert protocol.guarantee.delta <= 1e-6


def test_hashes_to_more_values_than_a_tiny_epsilon_tells_apart_are_refused() -> None:
    with pytest.raises(hc.Infeasible, match="needs a larger epsilon for 60000 values"):
        oracle("local.hashing", 10, 1e-12, values=60_000)


@pytest.mark.parametrize(("log_buckets", "epsilon"), [(15, 9.0), (22, 12.0)])
def test_many_buckets_and_values_take_bounded_memory(log_buckets: int, epsilon: float) -> None:
    buckets, people = 2**log_buckets + 1, 24
    protocol = oracle("local.hashing", buckets, epsilon, people)
    values = np.arange(people) * (buckets // people)
    messages = protocol.randomize(values, hc.SeededSource(1))
    tracemalloc.start()
    counts = protocol.tally(messages).counts
    assert tracemalloc.get_traced_memory()[1] < 600 * 2**20
    tracemalloc.stop()
    some = [0, 1, 8191, 8192, 8193, buckets - 1, *values[:4].tolist()]
    for bucket in some:
        rows = messages.payload.tolist()
        g = int(protocol.parameters["values"])
        assert counts[bucket] == sum(_hash(row[:-1], bucket, buckets, g) == row[-1] for row in rows)
