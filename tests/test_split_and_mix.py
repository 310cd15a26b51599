"""Split and mix: what shares reveal, by the laws of their counts, and the theorem's bound."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product
from math import ceil, e, factorial, log2, prod
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.fft import irfftn, next_fast_len, rfftn
from scipy.spatial.distance import cdist

import headcount as hc
from enumeration import GRID_ERROR, Counts, datasets, geometric_mass, log_likelihood_ratio
from headcount.protocols.secret_sharing import shares_needed

# The security of shares ---------------------------------------------------------------------
#
# Everybody writes a number modulo q as m shares, which are uniform among those with this sum. The
# view is how often each share occurs among all n·m, and its law is a convolution. An input is the
# number of people who hold each number. Only inputs with the same sum are compared.


@lru_cache(maxsize=64)
def ways(modulus: int, shares: int) -> list[dict[Counts, int]]:
    """For each number, the number of ways to get each vector of counts."""
    laws: list[dict[Counts, int]] = [{} for _ in range(modulus)]
    for counts in datasets(shares, modulus):
        orders = factorial(shares) // prod(map(factorial, counts))
        laws[held_sum(counts) % modulus][counts] = orders
    return laws


def held_sum(holding: Counts) -> int:
    return sum(number * people for number, people in enumerate(holding))


@lru_cache(maxsize=512)
def view(holding: Counts, shares: int) -> dict[Counts, int]:
    """The number of ways in which the shares of all people have each vector of counts."""
    laws = ways(len(holding), shares)
    whole: dict[Counts, int] = {(0,) * len(holding): 1}
    for law, people in zip(laws, holding, strict=True):
        for _ in range(people):
            grown: dict[Counts, int] = defaultdict(int)
            for seen, already in whole.items():
                for sent, orders in law.items():
                    grown[tuple(map(int.__add__, seen, sent))] += already * orders
            whole = grown
    return whole


def total_variation(one: Counts, other: Counts, shares: int) -> Fraction:
    """The exact total variation between the views of two inputs."""
    first, second = view(one, shares), view(other, shares)
    apart = sum(abs(first.get(k, 0) - second.get(k, 0)) for k in first.keys() | second.keys())
    return Fraction(apart, 2 * sum(first.values()))


def of_equal_sums(people: int, modulus: int) -> Iterator[list[Counts]]:
    inputs = list(datasets(people, modulus))
    for total in range(modulus):
        yield [holding for holding in inputs if held_sum(holding) % modulus == total]


def all_pairs(people: int, modulus: int) -> Iterator[tuple[Counts, Counts]]:
    for inputs in of_equal_sums(people, modulus):
        yield from combinations(inputs, 2)


def grid_views(inputs: list[Counts], shares: int) -> NDArray[np.float64]:
    """The laws of views, with a row for each input, in floats with an error of `GRID_ERROR`."""
    people, modulus = sum(inputs[0]), len(inputs[0])
    shape = (next_fast_len(people * shares + 1, real=True),) * (modulus - 1)
    transforms = []
    for law in ways(modulus, shares):
        grid = np.zeros(shape)
        for counts, orders in law.items():
            grid[counts[1:]] = orders / modulus ** (shares - 1)
        transforms.append(rfftn(grid))
    rows = []
    for holding in inputs:
        whole = prod(t**number for t, number in zip(transforms, holding, strict=True))
        rows.append(irfftn(whole, shape).ravel())
    laws = np.array(rows)
    return laws[:, laws.max(axis=0) > 1e-17]  # most counts cannot be


def worst_pair(people: int, modulus: int, shares: int) -> tuple[float, Counts, Counts]:
    """The inputs whose views are farthest apart, and their distance, up to `GRID_ERROR`."""
    found = []
    for inputs in of_equal_sums(people, modulus):
        laws = grid_views(inputs, shares)
        apart = cdist(laws, laws, "cityblock") / 2
        one, other = divmod(int(apart.argmax()), len(inputs))
        found.append((float(apart[one, other]), inputs[one], inputs[other]))
    return max(found)


def promised(people: int, modulus: int, shares: int, fixed: int = 2) -> float:
    """The largest σ for which the rule fixed + (2σ + log2 q)/(log2 n − log2 e) requires at most
    this many shares.
    """
    return ((shares - fixed) * (log2(people) - log2(e)) - log2(modulus)) / 2


def test_views_are_those_of_all_shares() -> None:
    for holding, shares in (((1, 1, 1), 2), ((2, 1), 3), ((0, 1, 0, 1), 2)):
        modulus = len(holding)
        numbers = [number for number, people in enumerate(holding) for _ in range(people)]
        bundles = list(product(range(modulus), repeat=shares))
        seen: Counter[Counts] = Counter()
        for sent in product(bundles, repeat=len(numbers)):
            sums = [sum(bundle) % modulus for bundle in sent]
            if sums == numbers:
                flat = [share for bundle in sent for share in bundle]
                seen[tuple(flat.count(share) for share in range(modulus))] += 1
        assert seen == view(holding, shares)


@pytest.mark.parametrize("modulus", [2, 3, 5, 2**20, 2**62])
@pytest.mark.parametrize("people", [19, 30, 10**6])
def test_rule_at_its_edges(people: int, modulus: int) -> None:
    for shares in range(3, 60):
        sigma = promised(people, modulus, shares)
        if sigma > 0:
            assert shares_needed(people, log2(modulus), sigma * (1 - 1e-9)) == shares
            assert shares_needed(people, log2(modulus), sigma * (1 + 1e-9)) == shares + 1


@pytest.mark.parametrize(
    ("people", "shares"),
    [*product(range(19, 31), range(3, 7)), (19, 9), (20, 9), (40, 5), (60, 4), (100, 3)],
)
def test_bits_are_as_secure_as_promised(people: int, shares: int) -> None:
    worst = max(total_variation(*pair, shares) for pair in all_pairs(people, 2))
    assert 0 < worst <= 2 ** -promised(people, 2, shares)


@pytest.mark.parametrize(
    ("people", "shares"),
    [(19, 3), (19, 4), (19, 5), (20, 4), (21, 4), (22, 3), (24, 4), (27, 3), (30, 4)],
)
def test_numbers_modulo_three_are_as_secure_as_promised(people: int, shares: int) -> None:
    apart, one, other = worst_pair(people, 3, shares)
    exact = total_variation(one, other, shares)
    assert abs(float(exact) - apart) < GRID_ERROR
    assert apart + GRID_ERROR <= 2 ** -promised(people, 3, shares)


def test_numbers_modulo_four_are_as_secure_as_promised() -> None:
    # For three numbers or for bits, the worst inputs are those in which all or nearly all hold the
    # same.
    inputs = [(20, 0, 0, 0), (0, 20, 0, 0), (0, 0, 20, 0), (10, 0, 10, 0), (18, 1, 0, 1)]
    worst = max(total_variation(one, other, 3) for one, other in combinations(inputs, 2))
    assert 0 < worst <= 2 ** -promised(20, 4, 3)


@pytest.mark.parametrize(
    ("people", "modulus", "shares", "pair"),
    [
        (20, 2, 2, ((0, 20), (20, 0))),
        (100, 2, 2, ((0, 100), (100, 0))),
        (24, 3, 2, ((0, 0, 24), (24, 0, 0))),
        (200, 2, 3, ((0, 200), (200, 0))),
    ],
)
def test_one_share_fewer_is_not_enough(
    people: int, modulus: int, shares: int, pair: tuple[Counts, Counts]
) -> None:
    """With 1 in place of 2, the rule promises too much, and not only for two shares."""
    sigma = promised(people, modulus, shares, fixed=1)
    assert sigma > 0
    assert shares_needed(people, log2(modulus), sigma - 1e-9) == shares + 1
    gained = log2(people) - log2(e)
    assert ceil(1 + (2 * (sigma - 1e-9) + log2(modulus)) / gained) == shares
    assert total_variation(*pair, shares) > 2**-sigma


# The protocol -------------------------------------------------------------------------------

ALARM = 1e-6


def build(task: hc.Task, users: int, **options: Any) -> Any:
    budget = hc.Budget(options.pop("epsilon", 1.0), options.pop("delta", 1e-6))
    crowd = hc.Crowd(users, options.pop("honest", users))
    return hc.protocol("shuffle.split-and-mix", task, budget, crowd, **options)


def small(users: int = 20, **options: Any) -> Any:
    """A protocol with a small modulus, so that shares and sums are easy to inspect."""
    given = {"epsilon": 2.0, "delta": 1e-3} | options
    return build(hc.Sum(0, 2, whole=True), users, **given)


def follows(values: Iterable[Any], law: Mapping[Any, float]) -> bool:
    return log_likelihood_ratio(Counter(values), law)[1] > ALARM


def shares_of(protocol: Any, values: Any, seed: int) -> NDArray[np.uint64]:
    """The shares, with a row for each person."""
    messages = protocol.randomize(values, hc.SeededSource(seed))
    assert set(messages.counts.tolist()) == {protocol.randomizer.fixed_messages}
    rows: NDArray[np.uint64] = messages.payload.astype(np.uint64)
    return rows.reshape(len(values), -1)


def signed(totals: NDArray[np.uint64], modulus: int) -> NDArray[np.int64]:
    """The number of each residue class that is nearest to 0."""
    below = (totals % np.uint64(modulus)).astype(np.int64)
    out: NDArray[np.int64] = np.where(below >= modulus // 2, below - modulus, below)
    return out


def geometric_law(rate: float) -> dict[int, float]:
    reach = ceil(45 / rate)
    return {z: float(geometric_mass(rate, z)) for z in range(-reach, reach + 1)}


def test_all_shares_but_one_are_uniform() -> None:
    protocol, people = small(), 100_000
    modulus, number = protocol.modulus, protocol.randomizer.fixed_messages
    assert modulus == protocol.parameters["modulus"] == 1024
    shares = shares_of(protocol, np.full(people, 2), 1)
    assert shares.shape == (people, number)
    uniform = dict.fromkeys(range(modulus), 1 / modulus)
    for column in range(number):
        assert follows(shares[:, column].tolist(), uniform)
        # All the other shares together are uniform, too. Only all shares of a person reveal
        # anything.
        others = (shares.sum(axis=1) - shares[:, column]) % np.uint64(modulus)
        assert follows(others.tolist(), uniform)
    corners = dict.fromkeys(product(range(8), repeat=2), 1 / 64)
    low, high = shares & np.uint64(7), shares >> np.uint64(7)
    for one, other in combinations(range(number), 2):
        for bits in (low, high):
            seen = zip(bits[:, one].tolist(), bits[:, other].tolist(), strict=True)
            assert follows(seen, corners)
    # The same holds for two people who hold the same value.
    assert follows(zip(low[::2, 0].tolist(), low[1::2, 0].tolist(), strict=True), corners)
    # A bit that is set slightly too often is noticed.
    top = shares[:, 0] >> np.uint64(9)
    assert follows(top.tolist(), {0: 0.5, 1: 0.5})
    assert not follows(top.tolist(), {0: 0.485, 1: 0.515})


@pytest.mark.parametrize(("users", "honest", "epsilon"), [(20, 20, 2.0), (40, 20, 1.0)])
def test_shares_add_up_to_a_level_and_a_little_noise(
    users: int, honest: int, epsilon: float
) -> None:
    protocol = small(users, honest=honest, epsilon=epsilon)
    values = np.arange(150_000) % 3
    totals = signed(shares_of(protocol, values, 2).sum(axis=1), protocol.modulus) - values
    # The difference of two shares of NB(1/h, a).
    reach = 200
    masses = stats.nbinom.pmf(np.arange(reach), 1 / honest, -np.expm1(-epsilon / 2))
    both = np.convolve(masses, masses[::-1])
    law = dict(zip(range(1 - reach, reach), both.tolist(), strict=True))
    for level in range(3):
        assert follows(totals[values == level].tolist(), law)
    masses = stats.nbinom.pmf(np.arange(reach), 1.1 / honest, -np.expm1(-epsilon / 2))
    wrong = np.convolve(masses, masses[::-1])
    assert not follows(
        totals.tolist(), dict(zip(range(1 - reach, reach), wrong.tolist(), strict=True))
    )


@pytest.mark.parametrize("users", [19, 40])
def test_noise_of_a_crowd_is_that_of_a_curator(users: int) -> None:
    protocol, crowds = small(users), 1_200_000 // users
    people = shares_of(protocol, np.zeros(crowds * users, dtype=int), 3).sum(axis=1)
    sums = signed(people.reshape(crowds, users).sum(axis=1), protocol.modulus)
    assert follows(sums.tolist(), geometric_law(1.0))
    for wrong in (0.93, 1.07):
        assert not follows(sums.tolist(), geometric_law(wrong))
    a = np.exp(-1.0)
    assert protocol.standard_error() == pytest.approx(np.sqrt(2 * a) / (1 - a))


@pytest.mark.parametrize(("users", "honest"), [(30, 30), (40, 20)])
def test_simulated_noise_is_that_of_messages(users: int, honest: int) -> None:
    protocol, source = small(users, honest=honest), hc.SeededSource(4)
    reach, t = 300, users / honest
    masses = stats.nbinom.pmf(np.arange(reach), t, -np.expm1(-1.0))
    both = np.convolve(masses, masses[::-1])
    law = dict(zip(range(1 - reach, reach), both.tolist(), strict=True))
    found = [
        protocol.estimate(protocol.simulate({0: users - 7, 2: 7}, source)).value - 14
        for _ in range(4000)
    ]
    assert follows(found, law)
    assert not follows(found, geometric_law(1.2))
    assert protocol.standard_error() == pytest.approx(
        np.sqrt(sum(z * z * chance for z, chance in law.items()))
    )


def test_sums_below_zero_are_read_right() -> None:
    protocol = build(hc.Sum(-3, 5), 25, epsilon=0.01, precision=4)
    source = hc.SeededSource(5)
    seen = []
    for value in (-3, 5):
        for _ in range(40):
            messages = protocol.randomize(np.full(25, value), source)
            total = int(messages.payload.sum(dtype=np.uint64)) % protocol.modulus
            level_sum = total if 2 * total < protocol.modulus else total - protocol.modulus
            estimate = protocol.estimate(protocol.tally(hc.shuffle(messages, source)))
            assert estimate.value == pytest.approx(-75 + 2 * level_sum)
            seen.append(estimate.value)
    # Sums far beyond the possible ones, on both sides, with noise of a hundred ranges.
    assert min(seen) < -300
    assert max(seen) > 300


def test_tallies_of_parts_add_up_modulo() -> None:
    protocol, source = small(40), hc.SeededSource(6)
    messages = protocol.randomize(np.arange(40) % 3, source)
    payload, number = messages.payload, protocol.randomizer.fixed_messages
    parts = [
        protocol.tally(hc.Batch(payload[: 15 * number], 15)),
        protocol.tally(hc.Batch(payload[15 * number :], 25)),
    ]
    whole = protocol.tally(hc.Batch(payload, 40))
    both = parts[0] + parts[1]
    assert both.users == 40
    assert np.array_equal(both.counts, whole.counts)
    assert protocol.estimate(both).value == protocol.estimate(whole).value
    with pytest.raises(hc.InvalidValue, match="each person must send"):
        protocol.tally(hc.Batch(payload[1:], 40))


# Noise of 2^20 times the honest people needs room.
LARGEST: list[tuple[dict[str, Any], int]] = [
    ({"users": 2**30, "epsilon": 1.0}, 2**62),
    ({"users": 2**40, "honest": 2**20, "epsilon": 2.0**-20, "precision": 2**20}, 2**63),
]


@pytest.mark.parametrize(("options", "modulus"), LARGEST)
def test_the_largest_moduli(options: dict[str, Any], modulus: int) -> None:
    protocol = build(hc.Sum(0, 2**30, whole=True), **options)
    assert protocol.modulus == modulus
    levels = int(protocol.parameters["precision"])
    unit = 2**30 // levels
    users = protocol.crowd.users

    def tally(count: int, people: int = users) -> hc.Tally:
        return hc.Tally(np.array([count]), people, protocol.name, modulus)

    for level_sum in (0, 1, users * levels, users * levels + 12345, -1, -(2**40)):
        answer = protocol.estimate(tally(level_sum % modulus)).value
        assert answer == pytest.approx(unit * level_sum, rel=1e-15)
    together = tally(modulus - 1, 1) + tally(modulus - 1, users - 1)
    assert together.counts.tolist() == [modulus - 2]
    assert protocol.estimate(together).value == -2 * unit
    # The shares of a few people, who have almost no noise in such a crowd.
    shares = shares_of(protocol, np.array([0, 2**30, 2**29]), 7)
    assert shares.dtype == np.uint64
    assert shares.max() < modulus
    totals = [sum(map(int, row)) % modulus for row in shares]
    assert totals == [0, levels, levels // 2]
    counted = protocol.tally(hc.Batch(shares.reshape(-1), 3))
    assert counted.counts.tolist() == [levels + levels // 2]
    for bit in (0, modulus.bit_length() - 2):
        many = shares_of(protocol, np.zeros(3000, dtype=int), 8)[:, :-1] >> np.uint64(bit)
        assert abs(np.mean(many & np.uint64(1)) - 0.5) < 2.5 / np.sqrt(many.size)
    if users == protocol.crowd.honest:  # otherwise there is too much noise to draw quickly
        simulated = protocol.simulate({0: users - 5, 2**30: 5}, hc.SeededSource(9))
        error = protocol.estimate(simulated).value - 5 * 2**30
        assert abs(error) < 12 * protocol.standard_error({0: users})


@pytest.mark.parametrize(("users", "honest"), [(19, 19), (100, 60), (10**6, 10**6)])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 5.0])
def test_sums_hardly_ever_wrap_around(users: int, honest: int, epsilon: float) -> None:
    protocol = build(hc.Mean(0, 1), users, honest=honest, epsilon=epsilon)
    levels, most = int(protocol.parameters["precision"]), protocol.estimator.most_users
    assert most >= 2 * users
    ratio = mpmath.exp(-mpmath.mpf(epsilon) / levels)
    for people in (users, most):
        # The distance from the possible sums, on either side, to the sums that would be misread.
        gap = (protocol.modulus - people * levels) // 2
        times = mpmath.mpf(people) / honest
        # A bound on P(NB(times, ratio) ≥ gap), with the best tilt.
        tilt = min(gap / (gap + times), ratio + (1 - ratio) * mpmath.mpf("0.9999"))
        grown = tilt / ratio
        log_bound = times * mpmath.log((1 - ratio) / (1 - ratio * grown)) - gap * mpmath.log(grown)
        assert 2 * mpmath.exp(log_bound) <= mpmath.mpf(2) ** -99

    def tally(people: int) -> hc.Tally:
        return hc.Tally(np.array([5]), people, protocol.name, protocol.modulus)

    # The largest possible sum is read correctly, and sums that wrap around are read as negative.
    for level_sum in (most * levels, -levels):
        seen = np.array([level_sum % protocol.modulus])
        estimate = protocol.estimate(hc.Tally(seen, most, protocol.name, protocol.modulus))
        assert estimate.value == pytest.approx(level_sum / levels / most)
    protocol.estimate(tally(most))
    with pytest.raises(hc.CrowdMismatch, match=f"at most {most:,} people"):
        protocol.estimate(tally(most + 1))
    with pytest.raises(hc.CrowdMismatch):
        protocol.estimate(tally(users - 1))


@pytest.mark.parametrize("delta", [0.3, 1e-3, 1e-6, 1e-12, 1e-18])
@pytest.mark.parametrize(("epsilon", "honest"), [(1.0, 19), (0.1, 500), (8.0, 10**5)])
def test_shares_and_what_they_promise(epsilon: float, honest: int, delta: float) -> None:
    protocol = build(hc.Sum(0, 1), honest, epsilon=epsilon, delta=delta)
    number, modulus = protocol.randomizer.fixed_messages, protocol.modulus
    assert protocol.messages_per_user == number == protocol.parameters["shares"]
    # A thousandth of delta is reserved for the tables.
    sigma = mpmath.log((1 + mpmath.exp(epsilon)) / (delta * (1 - mpmath.mpf(2) ** -10)), 2)
    gained = mpmath.log(honest, 2) - mpmath.log(mpmath.e, 2)
    assert number == int(mpmath.ceil(2 + (2 * sigma + mpmath.log(modulus, 2)) / gained))
    reached = ((number - 2) * gained - mpmath.log(modulus, 2)) / 2
    assert protocol.parameters["sigma"] == pytest.approx(float(reached), rel=1e-9)
    bound = (1 + mpmath.exp(epsilon)) * mpmath.mpf(2) ** -reached
    assert bound <= protocol.guarantee.delta <= delta
    assert protocol.guarantee.delta <= bound + delta / 1000
    assert not protocol.guarantee.exact
    # At other epsilons, the δ of the noise in the sum is added. At 0, it is that of noise moved by
    # all levels.
    half = protocol.curve.delta(0.0) - float(2 * mpmath.mpf(2) ** -reached)
    assert half == pytest.approx(-np.expm1(-epsilon / 2), rel=0.02, abs=2e-3 * delta)
    if epsilon <= 1:
        assert protocol.curve.delta(0.99 * epsilon) > protocol.guarantee.delta + 1e-4 * epsilon


def test_refusals_of_split_and_mix() -> None:
    task = hc.Sum(0, 2, whole=True)
    with pytest.raises(hc.Infeasible, match="at least 19 honest people, got 18") as caught:
        build(task, 100, honest=18)
    build(task, 100, **caught.value.nearest)
    with pytest.raises(hc.Infeasible, match="needs delta above 0") as caught:
        build(task, 100, delta=0.0)
    build(task, 100, **caught.value.nearest)
    with pytest.raises(hc.Infeasible, match="needs fewer than") as caught:
        build(hc.Sum(0, 1), 100, epsilon=0.001, precision=2**40)
    build(hc.Sum(0, 1), 100, epsilon=0.001, **caught.value.nearest)
    with pytest.raises(hc.Infeasible, match="modulus above 2\\^63"):
        build(task, 2**40, honest=19, epsilon=2.0**-20, precision=2**20)
    for wrong in (0, -1, 1.5, "many", 2**41):
        with pytest.raises(hc.InvalidParameter, match="`precision`"):
            build(task, 100, precision=wrong)


def test_precision_of_split_and_mix() -> None:
    exact = small(1000)
    assert exact.parameters["precision"] == 2
    assert exact.standard_error({0: 600, 1: 400}) == exact.standard_error()
    for precision in (1, 3, 5):
        protocol = small(1000, precision=precision)
        assert protocol.parameters["precision"] == precision
        a = np.exp(-2 / precision)
        noise = np.sqrt(2 * a) / (1 - a) * 2 / precision
        assert protocol.standard_error({0: 600, 2: 400}) == pytest.approx(noise)
        # One stands at half of them, which is between two levels.
        unit = 2 / precision
        assert protocol.standard_error({1: 1000}) == pytest.approx(
            np.hypot(noise, unit * np.sqrt(1000 / 4))
        )
        assert protocol.standard_error() == protocol.standard_error({1: 1000})
    default = build(hc.Mean(0, 1), 10_000)
    levels = int(default.parameters["precision"])
    noise = np.sqrt(2) * levels
    assert 1 / 260 < 10_000 / 4 / noise**2 <= 1 / 256
