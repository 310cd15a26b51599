"""The protocols for sums and means, compared with formulas, scipy's laws and known figures."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats

import headcount as hc
from enumeration import bundled_curve, exactly, geometric_mass, log_likelihood_ratio

ALARM = 1e-6
Array = np.ndarray[Any, Any]


def build(name: str, task: hc.Task, users: int, **options: Any) -> Any:
    epsilon, delta = options.pop("epsilon", 1.0), options.pop("delta", 1e-6)
    crowd = hc.Crowd(users, options.pop("honest", users))
    return hc.protocol(name, task, hc.Budget(epsilon, delta), crowd, **options)


def follows(values: Iterable[Any], law: dict[Any, float]) -> bool:
    return log_likelihood_ratio(Counter(values), law)[1] > ALARM


def geometric_law(rate: float) -> dict[int, float]:
    reach = math.ceil(45 / rate)
    return {z: float(geometric_mass(rate, z)) for z in range(-reach, reach + 1)}


@pytest.mark.parametrize("trust", list(hc.Trust))
@pytest.mark.parametrize("task", [hc.Count(), hc.Histogram(3), hc.Sum(0, 1), hc.Mean(-1, 5)])
def test_every_question_has_an_answer_in_every_trust(task: hc.Task, trust: hc.Trust) -> None:
    names = hc.protocol_names(task, trust)
    assert names
    for name in names:
        assert build(name, task, 200, delta=1e-3).trust is trust


# The mean of a large crowd ------------------------------------------------------------------

PEOPLE = 100_000
PLACES = np.arange(21) / 20  # between levels, so that rounding is tested as well
# The mean of 200 squares of Laplace-like noise, relative to its expectation, is beyond these with
# probability 1e-6. (Of a million such means, none was beyond 0.445 and 2.16.)
LEAST_SQUARE, MOST_SQUARE = 0.42, 2.3


@lru_cache(maxsize=1)
def best_mean() -> hc.Protocol:
    return hc.best_protocol(hc.Mean(0, 1), hc.Budget(1, 1e-6), hc.Crowd(PEOPLE), hc.Trust.SHUFFLE)


def test_best_mean_behind_a_shuffler_is_near_central() -> None:
    central = build("central.geometric", hc.Mean(0, 1), PEOPLE)
    assert best_mean().standard_error() <= 1.05 * central.standard_error()
    assert central.standard_error() >= math.sqrt(2) / PEOPLE * 0.99
    assert best_mean().messages_per_user <= 100


@pytest.mark.slow
@pytest.mark.parametrize("sent", [True, False], ids=["messages", "simulated"])
def test_error_of_the_best_mean_is_as_stated(sent: bool) -> None:
    protocol, source = best_mean(), hc.SeededSource(31)
    values = np.random.default_rng(7).choice(PLACES, PEOPLE)
    counts = np.bincount(np.round(values * 20).astype(int))
    people = dict(zip(PLACES.tolist(), counts.tolist(), strict=True))
    truth = float(sum(Fraction(v) * n for v, n in people.items()) / PEOPLE)
    found = [
        hc.run(protocol, values, source)
        if sent
        else protocol.estimate(protocol.simulate(people, source))
        for _ in range(200)
    ]
    errors = np.array([estimate.value for estimate in found]) - truth
    stated = protocol.standard_error(people)
    assert stated <= protocol.standard_error() == pytest.approx(found[0].standard_error)
    assert LEAST_SQUARE < float(np.mean(errors**2)) / stated**2 < MOST_SQUARE
    assert abs(errors.mean()) < 5 * stated / math.sqrt(200)
    covered = np.mean([truth in estimate.interval(0.9) for estimate in found])
    assert covered > 0.9 - 5 * math.sqrt(0.09 / 200)


# Unary sums ---------------------------------------------------------------------------------


def ones_law(ones: int, zeros: int, q: float) -> tuple[int, Array]:
    """The law of the number of ones after flips: the first number listed, and the masses from there
    on.
    """
    parts = []
    for bits, p in ((ones, 1 - q), (zeros, q)):
        reach = 9 * math.sqrt(bits * q * (1 - q)) + 40
        start = max(0, math.floor(bits * p - reach))
        counts = np.arange(start, min(bits, math.ceil(bits * p + reach)) + 1)
        parts.append((start, stats.binom.pmf(counts, bits, p)))
    return parts[0][0] + parts[1][0], np.convolve(parts[0][1], parts[1][1])


def divergence(one: tuple[int, Array], other: tuple[int, Array], epsilon: float) -> float:
    start = min(one[0], other[0])
    stop = max(law[0] + len(law[1]) for law in (one, other))
    a, b = np.zeros(stop - start), np.zeros(stop - start)
    for masses, (first, law) in ((a, one), (b, other)):
        masses[first - start : first - start + len(law)] = law
    return float(np.maximum(a - math.exp(epsilon) * b, 0).sum())


def unary_delta(honest: int, bits: int, q: float, epsilon: float, others: int) -> float:
    """δ of a person at either end, if the others' levels have this sum, in both directions."""
    all_bits = honest * bits
    low = ones_law(others, all_bits - others, q)
    high = ones_law(others + bits, all_bits - others - bits, q)
    return max(divergence(low, high, epsilon), divergence(high, low, epsilon))


def test_noise_of_the_unary_sum() -> None:
    protocol = build("shuffle.unary-sum", hc.Sum(0, 1), 10_000, bits=100)
    coins = protocol.parameters["lambda"]
    assert 2300 < coins <= 2400
    assert protocol.standard_error() <= 4.3
    q = coins / 20_000
    # In units of the range: 10,000 times the variance of 100 bits, and of rounding to a hundredth.
    formula = 10_000 * (100 * q * (1 - q) / (1 - 2 * q) ** 2 + 0.25) / 100**2
    assert protocol.standard_error() == pytest.approx(math.sqrt(formula), rel=1e-9)
    assert protocol.standard_error({0.5: 5000, 1: 5000}) == pytest.approx(
        math.sqrt(formula - 0.25), rel=1e-9
    )
    paper = build("shuffle.unary-sum", hc.Sum(0, 1), 10_000, bits=100, calibration="paper")
    assert paper.parameters["lambda"] == pytest.approx(9901, abs=1)
    assert not paper.guarantee.exact
    assert paper.guarantee.delta == 1e-6
    assert unary_delta(10_000, 100, 9901 / 20_000, 1.0, 0) < 1e-9


def test_privacy_of_the_unary_sum_at_many_datasets() -> None:
    protocol = build("shuffle.unary-sum", hc.Sum(0, 1), 10_000, bits=100)
    q = protocol.parameters["lambda"] / 20_000
    most = 9999 * 100
    found = [
        unary_delta(10_000, 100, q, 1.0, others)
        for others in (0, 1, 1000, most // 3, most // 2, most - 37, most)
    ]
    assert max(found) <= protocol.guarantee.delta * (1 + 1e-9)
    assert protocol.guarantee.delta <= 1e-6
    assert max(found) > 0.99e-6
    fewer = unary_delta(10_000, 100, 0.99 * q, 1.0, 0)
    assert fewer > 1e-6


@pytest.mark.parametrize("value", [0, 0.4, 0.5, 1])
def test_unary_bits_have_their_law(value: float) -> None:
    protocol = build("shuffle.unary-sum", hc.Mean(0, 1), 20, bits=5, epsilon=3, delta=0.01)
    people = 100_000
    q = protocol.parameters["lambda"] / 40
    messages = protocol.randomize(np.full(people, value), hc.SeededSource(8))
    ones = messages.payload.reshape(people, 5).sum(axis=1)
    place = Fraction(value) * 5
    share = float(place % 1)

    def law(q: float) -> dict[int, float]:
        masses = (1 - share) * ones_law(int(place), 5 - int(place), q)[1]
        if share:
            masses = masses + share * ones_law(int(place) + 1, 4 - int(place), q)[1]
        return dict(enumerate(masses.tolist()))

    assert follows(ones.tolist(), law(q))
    assert not follows(ones.tolist(), law(1.05 * q))
    simulated = [
        int(protocol.simulate({value: 1}, hc.SeededSource(seed)).counts[0]) for seed in range(4000)
    ]
    assert follows(simulated, law(q))


def test_the_unary_sum_is_read_without_bias() -> None:
    """The estimate is (ones − qnr)/(1 − 2q) levels. It is linear, and correct if each bit is
    expected.
    """
    protocol = build("shuffle.unary-sum", hc.Sum(-1, 3), 50, bits=8, epsilon=3, delta=0.01)
    q = protocol.parameters["lambda"] / 100
    for ones in (0, 137, 400):
        answer = protocol.estimate(hc.Tally(np.array([ones]), 50, protocol.name)).value
        assert answer == pytest.approx(-50 + (ones - 400 * q) / (1 - 2 * q) / 2, rel=1e-9)


def test_bits_of_the_unary_sum() -> None:
    """The default is the paper's number. If there are few whole numbers, they are not rounded."""
    assert build("shuffle.unary-sum", hc.Sum(0, 1), 10_000).parameters["bits"] == 100
    assert build("shuffle.unary-sum", hc.Sum(0, 1), 10_000, epsilon=0.5).parameters["bits"] == 50
    assert build("shuffle.unary-sum", hc.Sum(0, 70, whole=True), 10_000).parameters["bits"] == 70
    assert build("shuffle.unary-sum", hc.Sum(0, 101, whole=True), 10_000).parameters["bits"] == 100
    assert build("shuffle.unary-sum", hc.Sum(3, 19, whole=True), 25).parameters["bits"] == 16
    for wrong in (0, -1, 2.5, 2**16 + 1, "ten"):
        with pytest.raises(hc.InvalidParameter, match="`bits`"):
            build("shuffle.unary-sum", hc.Sum(0, 1), 100, bits=wrong)


# Correlated sums ----------------------------------------------------------------------------


def correlated(levels: int, users: int = 4, **options: Any) -> Any:
    """A protocol with little noise: with a large budget, a crowd of four can hide anybody."""
    given = {"epsilon": 4, "delta": 0.05, "epsilon1": 2.0} | options
    return build("shuffle.correlated-sum", hc.Sum(0, levels, whole=True), users, **given)


def atoms_of(levels: int) -> Iterator[tuple[int, ...]]:
    """The atoms of the paper, in the order of accounting."""
    yield 1, -1
    for i in range(2, levels + 1):
        yield i, -math.ceil(i / 2), -math.floor(i / 2)
    for i in range(2, math.ceil(levels / 2) + 1):
        yield -i, math.ceil(i / 2), math.floor(i / 2)


def meanings(protocol: Any) -> list[int]:
    """The number that each message adds to the answer."""
    size, users = protocol.estimator.tally_size, protocol.crowd.users
    return [
        round(protocol.estimate(hc.Tally(row, users, protocol.name, None)).value)
        for row in np.eye(size, dtype=np.int64)
    ]


def atoms_seen(protocol: Any, counts: Array, levels: Array) -> dict[int, Array]:
    """The number of atoms of each kind, by their first element. The rest are messages 1 and −1.

    `counts` has a row for each crowd, and `levels` has the number of its people at each level.
    """
    most = levels.shape[1] - 1
    sent = {value: counts[:, code].copy() for code, value in enumerate(meanings(protocol))}
    for level in range(1, most + 1):
        sent[level] = sent[level] - levels[:, level]
    for atom in sorted(list(atoms_of(most))[1:], key=lambda atom: -abs(atom[0])):
        for element in atom[1:]:
            sent[element] = sent[element] - sent[atom[0]]
    return sent


def crowd_counts(protocol: Any, values: Array, size: int, source: hc.Source) -> Array:
    """How often each message is sent by each group of `size` consecutive people."""
    messages = protocol.randomize(values, source)
    owner = np.repeat(np.arange(len(values)) // size, messages.counts)
    kinds, groups = protocol.estimator.tally_size, len(values) // size
    cells = np.bincount(owner * kinds + messages.payload, minlength=groups * kinds)
    return cells.reshape(groups, kinds)


def flood_laws(protocol: Any, times: float = 1.0) -> dict[int, Array]:
    """The law of the number of each atom, by its first element, as accounting assumes it."""
    noise = protocol.noise
    out = {}
    for atom, flood in zip(atoms_of(noise.levels), noise.floods, strict=True):
        law = np.ones(1)
        for r, rate in flood:
            law = np.convolve(law, stats.nbinom.pmf(np.arange(400), times * r, -np.expm1(-rate)))
        out[atom[0]] = law[:400]
    return out


def ones_and_minus_ones(protocol: Any, times: float = 1.0) -> dict[tuple[int, int], float]:
    """The law of (U₊ + Z, U₋ + Z), where Z is the number of atoms {1, −1}."""
    k = np.arange(120)
    single = stats.nbinom.pmf(k, times, -np.expm1(-protocol.noise.rate))
    table = np.zeros((120, 120))
    for z, chance in enumerate(flood_laws(protocol, times)[1][:120]):
        rest = 120 - z
        table[z:, z:] += chance * np.multiply.outer(single[:rest], single[:rest])
    return {(int(i), int(j)): float(table[i, j]) for i, j in np.argwhere(table > 1e-12)}


def check_atoms(protocol: Any, seen: dict[int, Array], times: float = 1.0) -> None:
    """The whole view in atoms: each atom has its law, and atoms are independent."""
    for number in seen.values():
        assert number.min() >= 0
    pairs = ones_and_minus_ones(protocol, times)
    assert follows(zip(seen[1].tolist(), seen[-1].tolist(), strict=True), pairs)
    laws = flood_laws(protocol, times)
    for first, law in laws.items():
        if first != 1:
            assert follows(seen[first].tolist(), dict(enumerate(law)))
    # Pairs of atoms, by whether they are above their medians.
    single: dict[int, float] = dict.fromkeys(range(120), 0.0)
    for (plus, _), chance in pairs.items():
        single[plus] += chance
    marginals = laws | {1: np.array([single[k] for k in range(120)])}
    marginals[-1] = marginals[1]
    high, chances = {}, {}
    for first, law in marginals.items():
        median = int(np.searchsorted(np.cumsum(law), 0.5))
        high[first] = seen[first] > median
        chances[first] = float(law[median + 1 :].sum())
    for one, other in combinations(marginals, 2):
        if (one, other) not in ((1, -1), (-1, 1)):
            p, q = chances[one], chances[other]
            law2 = {
                (a, b): (p if a else 1 - p) * (q if b else 1 - q)
                for a in (False, True)
                for b in (False, True)
            }
            assert follows(zip(high[one].tolist(), high[other].tolist(), strict=True), law2)


@pytest.mark.parametrize(
    ("levels", "messages"), [(1, 320), (2, 1156), (4, 5214), (8, 16_500), (16, 49_900)]
)
def test_noise_of_correlated_sums(levels: int, messages: float) -> None:
    task = hc.Sum(0, levels, whole=True)
    protocol = build("shuffle.correlated-sum", task, 100_000, epsilon1=0.8)
    found = protocol.parameters
    assert 0.95 * messages < found["noise_messages"] <= 1.1 * messages
    assert found["levels"] == levels
    assert found["epsilon1"] == pytest.approx(0.8)
    assert protocol.messages_per_user == pytest.approx(1 + found["noise_messages"] / 100_000)
    a = math.exp(-0.8 / levels)
    assert protocol.standard_error() == pytest.approx(math.sqrt(2 * a) / (1 - a), rel=1e-9)
    assert protocol.guarantee.exact
    assert 0.99e-6 < protocol.guarantee.delta <= 1e-6


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
def test_messages_of_correlated_sums_have_the_law_that_is_accounted_for(levels: int) -> None:
    protocol, crowds = correlated(levels), 30_000
    hold = [0, levels, 1, levels // 2]
    values = np.tile(hold, crowds)
    counts = crowd_counts(protocol, values, 4, hc.SeededSource(levels))
    held = np.tile(np.bincount(hold, minlength=levels + 1), (crowds, 1))
    seen = atoms_seen(protocol, counts, held)
    check_atoms(protocol, seen)
    # Laws that are wrong by a few percent are noticed.
    assert not follows(
        zip(seen[1].tolist(), seen[-1].tolist(), strict=True), ones_and_minus_ones(protocol, 1.05)
    )
    for first, law in flood_laws(protocol, 1.05).items():
        if first != 1:
            assert not follows(seen[first].tolist(), dict(enumerate(law)))
    # The answer: atoms cancel, and two-sided geometric noise is left.
    errors = counts @ np.array(meanings(protocol)) - sum(hold)
    assert np.array_equal(errors, seen[1] - seen[-1])
    assert follows(errors.tolist(), geometric_law(2 / levels))
    assert not follows(errors.tolist(), geometric_law(1.05 * 2 / levels))


@pytest.mark.parametrize("levels", [1, 2, 3, 6])
def test_everybody_sends_a_level_once_and_whole_atoms(levels: int) -> None:
    """For each person alone: without the level, only atoms and single messages are left."""
    protocol = correlated(levels, 200)
    values = np.arange(20_000) % (levels + 1)
    counts = crowd_counts(protocol, values, 1, hc.SeededSource(77))
    held = (values[:, None] == np.arange(levels + 1)).astype(np.int64)
    seen = atoms_seen(protocol, counts, held)
    assert all(number.min() >= 0 for number in seen.values())
    # Most people have no noise. Then they send only the level, or nothing for 0.
    quiet = np.array(list(seen.values())).sum(axis=0) == 0
    assert 0.5 < quiet.mean() < 1
    assert np.array_equal(counts[quiet].sum(axis=1), (values > 0)[quiet])


@pytest.mark.parametrize("levels", [1, 2, 5, 8, 64])
def test_codes_of_correlated_sums(levels: int) -> None:
    protocol = build(
        "shuffle.correlated-sum",
        hc.Sum(0, levels, whole=True),
        10**6,
        epsilon=16,
        delta=0.01,
        epsilon1=1.0,
        levels=levels,
        calibration="paper",
    )
    negative = max(1, math.ceil(levels / 2))
    assert meanings(protocol) == [*range(1, levels + 1), *range(-1, -negative - 1, -1)]
    assert protocol.alphabet.columns == (range(levels + negative),)
    assert protocol.alphabet.dummy == (levels + negative,)
    assert protocol.alphabet.bits == max(1, (levels + negative - 1).bit_length())


def test_noise_of_those_who_are_not_counted_on() -> None:
    protocol, crowds = correlated(2, 8, honest=4), 20_000
    whole = correlated(2)
    assert protocol.noise == whole.noise
    assert protocol.messages_per_user == whole.messages_per_user
    twice = 2 * whole.parameters["noise_messages"]
    assert protocol.parameters["noise_messages"] == pytest.approx(twice)
    assert protocol.standard_error() == pytest.approx(math.sqrt(2) * whole.standard_error())
    hold = [0, 0, 1, 1, 2, 2, 2, 1]
    held = np.tile(np.bincount(hold, minlength=3), (crowds, 1))
    counts = crowd_counts(protocol, np.tile(hold, crowds), 8, hc.SeededSource(3))
    check_atoms(protocol, atoms_seen(protocol, counts, held), times=2.0)
    # Any four people have the noise that accounting assumes.
    counts = crowd_counts(protocol, np.tile(hold, crowds), 4, hc.SeededSource(3))[::2]
    held = np.tile(np.bincount(hold[:4], minlength=3), (crowds, 1))
    check_atoms(protocol, atoms_seen(protocol, counts, held))


@pytest.mark.slow
@pytest.mark.parametrize("honest", [4, 2])
def test_simulated_correlated_sums_have_the_law_of_messages(honest: int) -> None:
    protocol = correlated(3, 4, honest=honest)
    source = hc.SeededSource(55)
    counts = np.array([protocol.simulate({0: 1, 3: 2, 1: 1}, source).counts for _ in range(2000)])
    held = np.tile([1, 1, 0, 2], (2000, 1))
    check_atoms(protocol, atoms_seen(protocol, counts, held), times=4 / honest)


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_bundles_of_correlated_sums_hold_what_is_sent(levels: int) -> None:
    protocol = correlated(levels, 5)
    noise = protocol.noise
    q = -math.expm1(-noise.rate)
    law = np.convolve(*(stats.nbinom.pmf(np.arange(2000), 0.2, q) for _ in range(2)))
    for atom, flood in zip(atoms_of(levels), noise.floods, strict=True):
        for r, rate in flood:
            copies = np.zeros(2000)
            masses = stats.nbinom.pmf(np.arange(2000), r / 5, -math.expm1(-rate))
            copies[:: len(atom)] = masses[: len(copies[:: len(atom)])]
            law = np.convolve(law, copies)[:2000]
    # A person who sends a level sends one more message.
    tails = np.cumsum(law[::-1])[::-1]
    for slots in (1, 2, 5, 10, 20, 40, 80):
        assert tails[slots] <= protocol.randomizer.overflow(slots) <= 1
    assert protocol.randomizer.overflow(40) < min(1.0, 50 * tails[40])
    assert protocol.randomizer.overflow(0) == 1
    sent = protocol.randomize(np.full(50_000, levels), hc.SeededSource(4)).counts
    share = float(np.mean(sent > 10))
    assert share == pytest.approx(tails[10], abs=5 * math.sqrt(tails[10] / 50_000))
    bundle = protocol.bundle(levels, hc.SeededSource(5))
    assert len(bundle.payload) == protocol.slots
    assert bundled_curve(protocol).delta(4) <= 0.05
    own = protocol.alphabet.messages(bundle.payload)
    assert len(own) < protocol.slots
    total = protocol.tally(hc.Batch(bundle.payload, 1)).counts
    assert total.sum() == len(own)


@pytest.mark.slow
def test_wishes_of_correlated_sums() -> None:
    def wish(**options: Any) -> Any:
        return build("shuffle.correlated-sum", hc.Sum(0, 2, whole=True), 1000, **options)

    def error(epsilon: float) -> float:
        a = math.exp(-epsilon / 2)
        return math.sqrt(2 * a) / (1 - a)

    assert wish().standard_error() == pytest.approx(1.05 * error(1))
    assert wish(error_ratio=1.3).standard_error() == pytest.approx(1.3 * error(1))
    assert wish(epsilon1=0.6).standard_error() == pytest.approx(error(0.6))
    few, many = wish(max_messages=1.6), wish(max_messages=4)
    assert 1.55 < few.messages_per_user <= 1.6
    assert 3.9 < many.messages_per_user <= 4
    assert error(1) < many.standard_error() < few.standard_error()
    # Half of the people follow the protocol, and their noise alone is half of the variance.
    half = wish(honest=500, error_ratio=2.0)
    assert half.standard_error() == pytest.approx(2 * error(1))
    assert wish(honest=500).standard_error() == pytest.approx(1.05 * math.sqrt(2) * error(1))
    for refused in (
        {"max_messages": 1.05},
        {"error_ratio": 1.0},
        {"error_ratio": 1.001},
        {"epsilon1": 0.999},
        {"epsilon1": 1.5},
    ):
        with pytest.raises(hc.Infeasible, match="needs") as caught:
            wish(**refused)
        wish(**caught.value.nearest)
    with pytest.raises(hc.Infeasible, match="needs delta above 0") as caught:
        wish(delta=0.0)
    wish(**caught.value.nearest)
    with pytest.raises(hc.Infeasible, match="needs epsilon of at least") as caught:
        wish(epsilon=0.005)
    assert caught.value.nearest["epsilon"] > 0.005
    with pytest.raises(hc.InvalidParameter, match="at most one of"):
        wish(epsilon1=0.5, error_ratio=2)
    for option in ("epsilon1", "error_ratio", "max_messages"):
        for wrong in (-1, 0, "many", math.nan):
            with pytest.raises(hc.InvalidParameter):
                wish(**{option: wrong})
    for wrong in (0, -3, 1.5, "two", 2**41):
        with pytest.raises(hc.InvalidParameter, match="`levels`"):
            wish(levels=wrong)
    # A level between two whole numbers, and too few for them.
    assert wish(levels=4).standard_error() == pytest.approx(
        1.05 * math.sqrt(2 * math.exp(-0.25)) / (1 - math.exp(-0.25)) / 2
    )
    one = wish(levels=1)
    assert one.standard_error() == pytest.approx(
        2 * math.sqrt(one.standard_error({0: 1000}) ** 2 / 4 + 1000 / 4)
    )


def test_many_levels_rely_on_the_paper() -> None:
    exact = build("shuffle.correlated-sum", hc.Sum(0, 1), 1000, levels=3)
    assert exact.guarantee.exact
    many = build("shuffle.correlated-sum", hc.Sum(0, 1), 10_000, levels=65)
    assert not many.guarantee.exact
    assert many.guarantee.delta == 1e-6
    assert "2021" in many.guarantee.method
    assert 0.99e-6 < many.curve.delta(1.0) <= 1e-6
    assert many.curve.delta(2.0) == pytest.approx(many.curve.delta(1.0), rel=1e-3)
    published = build(
        "shuffle.correlated-sum", hc.Sum(0, 1), 10_000, levels=65, calibration="paper"
    )
    assert published.parameters == many.parameters
    few = build("shuffle.correlated-sum", hc.Sum(0, 1), 10_000, levels=3, calibration="paper")
    assert not few.guarantee.exact
    assert few.curve.delta(1.0) <= few.guarantee.delta == 1e-6
    assert few.parameters["noise_messages"] > 10 * exact.parameters["noise_messages"]


# One message for a number -------------------------------------------------------------------


def response_law(protocol: Any, place: Fraction) -> dict[int, Fraction]:
    """The law of the reports of a person between two levels, with the stated γ."""
    k, gamma = int(protocol.parameters["levels"]), Fraction(protocol.parameters["gamma"])
    chances = dict.fromkeys(range(k + 1), gamma / (k + 1))
    below, share = divmod(place, 1)
    chances[int(below)] += (1 - gamma) * (1 - share)
    if share:
        chances[int(below) + 1] += (1 - gamma) * share
    return chances


@pytest.mark.parametrize("value", [-1, -0.3, 0.25, 2])
def test_reports_of_the_fixed_point_sum(value: float) -> None:
    protocol = build("shuffle.fixed-point-sum", hc.Mean(-1, 2), 50, levels=4, epsilon=2, delta=0.01)
    law = response_law(protocol, (Fraction(value) + 1) * Fraction(4, 3))
    stated = {message: chance for ((message, _),), chance in protocol.law(value).items()}
    assert stated.keys() == law.keys()
    assert all(abs(float(stated[j] - law[j])) < 1e-15 for j in law)
    messages = protocol.randomize(np.full(200_000, value), hc.SeededSource(6))
    floats = {j: float(chance) for j, chance in law.items()}
    assert follows(messages.payload.tolist(), floats)
    wrong = {j: 0.97 * chance + 0.03 / 5 for j, chance in floats.items()}
    assert not follows(messages.payload.tolist(), wrong)
    # The variance of one person by this law, with Fractions.
    gamma, unit = Fraction(protocol.parameters["gamma"]), Fraction(3, 4)
    mean = sum(chance * j for j, chance in law.items())
    square = sum(chance * j * j for j, chance in law.items()) - mean**2
    variance = square * unit**2 / (1 - gamma) ** 2
    assert protocol.standard_error({value: 50}) == pytest.approx(
        math.sqrt(float(variance) / 50), rel=1e-9
    )
    # Without bias: (mean − γk/2)/(1 − γ) is the place.
    place = (mean - gamma * 2) / (1 - gamma)
    assert place == (Fraction(value) + 1) * Fraction(4, 3)


def test_worst_error_of_one_message() -> None:
    """Places are a thousandth of a level apart."""
    for levels, users in ((1, 200), (4, 200), (4, 20_000), (9, 3000)):
        protocol = build("shuffle.fixed-point-sum", hc.Sum(0, 1), users, levels=levels, delta=1e-4)
        places = np.arange(0, levels * 500 + 1) / (levels * 1000)
        worst = max(protocol.standard_error({float(x): users}) for x in places)
        assert worst == pytest.approx(protocol.standard_error(), rel=1e-4)
        assert worst <= protocol.standard_error() * (1 + 1e-9)


def test_error_of_one_message_grows_like_the_sixth_root() -> None:
    sizes = [10**4, 10**5, 10**6, 10**7, 10**8]
    errors = [
        build("shuffle.fixed-point-sum", hc.Mean(0, 1), n).standard_error() * n for n in sizes
    ]
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert slope == pytest.approx(1 / 6, abs=0.004)


@pytest.mark.parametrize(
    ("epsilon", "users"), [(1, 100), (1, 10_000), (1, 10**6), (4, 1000), (0.3, 1000), (0.3, 10**5)]
)
def test_levels_of_one_message_are_the_best(epsilon: float, users: int) -> None:
    task = hc.Sum(0, 1)
    protocol = build("shuffle.fixed-point-sum", task, users, epsilon=epsilon)
    levels = int(protocol.parameters["levels"])
    for other in {levels - 2, levels - 1, levels + 1, levels + 2, 2 * levels} - {-1, 0}:
        fewer = build("shuffle.fixed-point-sum", task, users, epsilon=epsilon, levels=other)
        assert protocol.standard_error() <= 1.005 * fewer.standard_error()


@pytest.mark.parametrize(("span", "users"), [(4, 1000), (7, 10_000), (12, 50_000), (40, 10_000)])
def test_whole_numbers_have_a_level_each_where_that_is_best(span: int, users: int) -> None:
    task = hc.Sum(0, span, whole=True)
    protocol = build("shuffle.fixed-point-sum", task, users)
    each = build("shuffle.fixed-point-sum", task, users, levels=span)
    assert protocol.standard_error() <= each.standard_error()
    assert (protocol.parameters["levels"] == span) is (span < 40)


@pytest.mark.parametrize(
    ("epsilon", "delta", "users", "levels"),
    [(1, 1e-6, 10_000, 3), (1, 1e-6, 10**6, 20), (4, 1e-2, 5000, 5), (0.5, 1e-8, 10**6, None)],
)
def test_papers_noise_of_one_message(
    epsilon: float, delta: float, users: int, levels: int | None
) -> None:
    protocol = build(
        "shuffle.fixed-point-sum",
        hc.Sum(0, 1),
        users,
        epsilon=epsilon,
        delta=delta,
        levels=levels,
        calibration="paper",
    )
    k = protocol.parameters["levels"]
    coins = max(14 * math.log(2 / delta) / epsilon**2, 27 / epsilon)
    assert protocol.parameters["gamma"] == pytest.approx((k + 1) * coins / (users - 1), rel=1e-6)
    assert protocol.guarantee.delta == delta
    assert not protocol.guarantee.exact
    assert protocol.curve.delta(epsilon) <= delta
    exact = build(
        "shuffle.fixed-point-sum", hc.Sum(0, 1), users, epsilon=epsilon, delta=delta, levels=levels
    )
    assert exact.parameters["gamma"] < protocol.parameters["gamma"]


def test_refusals_of_one_message() -> None:
    with pytest.raises(hc.Infeasible, match="the exact calibration does"):
        build("shuffle.fixed-point-sum", hc.Sum(0, 1), 500, levels=2, calibration="paper")
    with pytest.raises(hc.Infeasible):
        build("shuffle.fixed-point-sum", hc.Sum(0, 1), 5000, delta=0.0, calibration="paper")
    for wrong in (0, 2.5, 2**24, "two"):
        with pytest.raises(hc.InvalidParameter, match="`levels`"):
            build("shuffle.fixed-point-sum", hc.Sum(0, 1), 5000, levels=wrong)
    # There are so many people that a tally has no room for the best number of levels.
    crowded = build("shuffle.fixed-point-sum", hc.Sum(0, 1), 2**50, epsilon=8, delta=1e-3)
    assert crowded.parameters["levels"] == 2**10


# One bit for a number -----------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_one_bit_for_a_number(epsilon: float) -> None:
    protocol = build("local.one-bit-mean", hc.Sum(-1, 1), 1, epsilon=epsilon, delta=0)
    e = mpmath.exp(mpmath.mpf(epsilon))
    factor = (e + 1) / (e - 1)
    for value in (-1, -0.25, 0, 0.3, 1):
        law = protocol.law(value)
        up, down = law[((1, 1),)], law[((0, 1),)]
        # The answers to either bit are ± the same number, and unbiased.
        answers = [
            protocol.estimate(hc.Tally(np.array(bits), 1, protocol.name)).value
            for bits in ([0], [1])
            if protocol.estimator.tally_size == 1
        ] or [
            protocol.estimate(hc.Tally(np.array(bits), 1, protocol.name)).value
            for bits in ([1, 0], [0, 1])
        ]
        assert answers[1] == pytest.approx(float(factor), rel=1e-14)
        assert answers[0] == -answers[1]
        assert up + down == 1
        # The lie is rounded toward more privacy by less than 2^−64.
        lie = 1 / (e + 1)
        chance = lie + (1 - 2 * lie) * (1 + exactly(Fraction(value))) / 2
        assert abs(exactly(up) - chance) < mpmath.mpf(2) ** -64
        variance = float(factor**2 - exactly(Fraction(value)) ** 2)
        assert protocol.standard_error({value: 1}) ** 2 == pytest.approx(variance, rel=1e-12)
    many = build("local.one-bit-mean", hc.Mean(-1, 1), 500, epsilon=epsilon, delta=0)
    assert many.standard_error() == pytest.approx(float(factor) / math.sqrt(500), rel=1e-12)
    assert many.standard_error({0: 500}) == pytest.approx(many.standard_error())
    messages = protocol.randomize(np.full(200_000, 0.3), hc.SeededSource(2))
    law = {message: float(chance) for ((message, _),), chance in protocol.law(0.3).items()}
    assert follows(messages.payload.tolist(), law)
    wrong = {1: 0.97 * law[1], 0: 1 - 0.97 * law[1]}
    assert not follows(messages.payload.tolist(), wrong)


@pytest.mark.parametrize("task", [hc.Sum(-2, 3), hc.Mean(0, 10, whole=True)])
def test_amplified_numbers_are_one_bit_each(task: hc.Sum | hc.Mean) -> None:
    protocol = build("shuffle.amplified", task, 1000)
    epsilon = protocol.parameters["local_epsilon"]
    assert epsilon > 2
    alone = build("local.one-bit-mean", task, 1000, epsilon=epsilon, delta=0)
    assert protocol.local_epsilon == alone.local_epsilon
    assert protocol.local_epsilon <= epsilon * (1 + 1e-14)
    for value in (0, 1, 3):
        assert protocol.law(value) == alone.law(value)
    people = {0: 400, 1: 350, 3: 250}
    assert protocol.standard_error() == alone.standard_error()
    assert protocol.standard_error(people) == alone.standard_error(people)
    values = np.repeat([0, 1, 3], [400, 350, 250])
    one, other = (p.randomize(values, hc.SeededSource(9)).payload for p in (protocol, alone))
    assert np.array_equal(one, other)
    found = [p.simulate(people, hc.SeededSource(9)) for p in (protocol, alone)]
    assert np.array_equal(found[0].counts, found[1].counts)
    first, second = (p.estimate(t) for p, t in zip((protocol, alone), found, strict=True))
    assert first.value == second.value
    assert first.guarantee.delta <= 1e-6
    # Bits are flipped as in a count: privacy by scipy at the edge of all datasets.
    lie = float(laws_lie(alone, task))
    low = ones_law(0, 1000, lie)
    high = ones_law(1, 999, lie)
    edge = max(divergence(low, high, 1.0), divergence(high, low, 1.0))
    assert 0.9e-6 < edge <= 1e-6


def laws_lie(protocol: Any, task: hc.Sum | hc.Mean) -> Fraction:
    """The probability that a person at the low end reports the high end."""
    lie: Fraction = protocol.law(task.low)[((1, 1),)]
    return lie


def test_pure_sums_have_pure_curves() -> None:
    """Without a delta, each person is private alone, at exactly ε."""
    for name, options in (
        ("shuffle.unary-sum", {"bits": 7}),
        ("shuffle.unary-sum", {"bits": 1000}),
        ("shuffle.fixed-point-sum", {"levels": 2}),
    ):
        for epsilon in (0.3, 1.0, 20.0):
            protocol = hc.protocol(
                name, hc.Mean(0, 1), hc.Budget(epsilon), hc.Crowd(10**4), **options
            )
            assert protocol.guarantee.delta == 0
            assert protocol.curve.delta(epsilon) == 0
            assert protocol.curve.delta(0.9 * epsilon) > 0
            assert protocol.curve.epsilon(0.0) == pytest.approx(epsilon, rel=1e-9)
            alone = protocol.local_epsilon
            assert alone == pytest.approx(epsilon, rel=1e-9)
    # Not even what the division of ε by the bits rounds up is spent: in exact numbers.
    for bits in (3, 7, 11, 49):
        protocol = hc.protocol(
            "shuffle.unary-sum", hc.Mean(0, 1), hc.Budget(1.0), hc.Crowd(10), bits=bits
        )
        highest, lowest = protocol.law(1.0), protocol.law(0.0)
        assert highest
        assert lowest
        assert mpmath.log(exactly(highest[((1, bits),)] / lowest[((1, bits),)])) <= 1
