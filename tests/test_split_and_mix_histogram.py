"""Split and mix of counts and histograms: shares in any group, and the protocols."""

import itertools
import math
import pickle
import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Mapping
from fractions import Fraction
from math import factorial, prod
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import headcount as hc
from enumeration import Counts, datasets, geometric_mass, log_likelihood_ratio
from headcount.data.spark.columns import message_column, payload_of
from headcount.protocols.secret_sharing import read, shares_needed
from headcount.road.pieces import tally_of_part

ALARM = 1e-6
SHARINGS = ["vectors", "buckets"]

# The security of shares in any group ---------------------------------------------------------
#
# Everybody writes an element of a group of Q elements as m shares. If shares j of all people are
# mixed with each other alone, the view has a χ² divergence from uniform messages of the same sum of
# at most E[Q^(C−1)] − 1, with C orbits of m − 1 random permutations.


def orbits(permutations: Any, people: int) -> int:
    seen: set[int] = set()
    number = 0
    for start in range(people):
        if start not in seen:
            number += 1
            waiting = [start]
            while waiting:
                at = waiting.pop()
                if at not in seen:
                    seen.add(at)
                    waiting += [one[at] for one in permutations]
    return number


def mean_power(people: int, order: int, shares: int) -> Fraction:
    """E[Q^C], the sum of 1/M^(m−2) over all multinomial coefficients M of Q numbers.

    By the coefficients of (Σ j!^(m−2) z^j)^Q, which follow from each other.
    """
    first = [Fraction(factorial(j)) ** (shares - 2) for j in range(people + 1)]
    power = [Fraction(1)]
    for n in range(1, people + 1):
        terms = ((order * j - (n - j)) * first[j] * power[n - j] for j in range(1, n + 1))
        power.append(sum(terms, Fraction(0)) / n)
    return power[people] / Fraction(factorial(people)) ** (shares - 2)


@pytest.mark.parametrize(("people", "shares"), [(2, 3), (3, 3), (4, 3), (3, 4), (5, 3)])
def test_orbits_of_random_permutations(people: int, shares: int) -> None:
    every = list(itertools.permutations(range(people)))
    # One of two permutations may be any, the other follows by its cycles; all of them for three.
    numbers = Counter(
        orbits(chosen, people) for chosen in itertools.product(every, repeat=shares - 1)
    )
    total = sum(numbers.values())
    for order in (2, 3, 4, 9):
        mean = sum(Fraction(order**number * times, total) for number, times in numbers.items())
        assert mean == mean_power(people, order, shares)


Element = tuple[int, ...]


def group(*moduli: int) -> list[Element]:
    return list(itertools.product(*map(range, moduli)))


def added(one: Element, other: Element, moduli: tuple[int, ...]) -> Element:
    return tuple((a + b) % q for a, b, q in zip(one, other, moduli, strict=True))


@pytest.mark.parametrize(
    ("moduli", "people", "shares"),
    [((2, 2), 2, 3), ((4,), 2, 3), ((3,), 3, 3), ((2,), 4, 3), ((2,), 3, 4), ((2,), 5, 3)],
)
def test_divergence_of_separately_mixed_shares(
    moduli: tuple[int, ...], people: int, shares: int
) -> None:
    """By listing all shares of all people; the worst inputs attain the bound."""
    elements = group(*moduli)
    zero = (0,) * len(moduli)
    columns = list(itertools.product(elements, repeat=people))
    order = len(elements)

    def divergence(inputs: tuple[Element, ...]) -> Fraction:
        seen: Counter[Any] = Counter()
        for chosen in itertools.product(columns, repeat=shares - 1):
            last = []
            for person, secret in enumerate(inputs):
                total = zero
                for column in chosen:
                    total = added(total, column[person], moduli)
                rest = tuple((a - b) % q for a, b, q in zip(secret, total, moduli, strict=True))
                last.append(rest)
            seen[tuple(tuple(sorted(column)) for column in (*chosen, last))] += 1
        views = sum(seen.values())
        # Uniform lists of the same sum, of which the view shows each column without its order.
        out = Fraction(0)
        for view, times in seen.items():
            orders = prod(
                factorial(people) // prod(map(factorial, Counter(column).values()))
                for column in view
            )
            uniform = Fraction(orders, order ** (people * shares - 1))
            out += Fraction(times, views) ** 2 / uniform
        return out - 1

    bound = mean_power(people, order, shares) / order - 1
    # Where all hold the same, every component of the graph adds up.
    assert divergence((zero,) * people) == bound
    other = (
        elements[1],
        *[zero] * (people - 2),
        tuple(-a % q for a, q in zip(elements[1], moduli, strict=True)),
    )
    assert divergence(other) <= bound


@pytest.mark.parametrize("people", [3, 5, 8, 19, 20, 25, 40, 80])
def test_rule_holds_in_groups_of_every_order(people: int) -> None:
    """E[Q^(C−1)] − 1 ≤ Q(e/h)^(m−2) = 2^−2σ, wherever that is below 1."""
    tried = 0
    for shares in (3, 4, 6, 11):
        for order in (2, 3, 4, 2**5, 2**12, 3**9, 2**40, 2**60):
            promised = order * (mpmath.e / people) ** (shares - 2)
            if promised <= 1:
                excess = mean_power(people, order, shares) / order - 1
                assert 0 < mpmath.mpf(excess.numerator) / excess.denominator <= promised
                tried += 1
    assert tried or people == 3


def test_rule_holds_for_every_order_and_number_of_shares() -> None:
    """All orders at once: the part of compositions into r numbers, at Q = (h/e)^(m−2).

    As n!/(h_1!⋯h_r!) ≥ n(n−1)⋯(n−r+2) ≥ (n/e)^(r−1), each term falls with m: m = 3 is the worst.
    """
    for people in [*range(19, 60), 100, 200]:
        scale = people / mpmath.e
        # exp(scale·Σ_{j≥1} j! z^j), by its coefficients.
        power = [mpmath.mpf(1)]
        for n in range(1, people + 1):
            terms = [j * mpmath.factorial(j) * power[n - j] for j in range(1, n + 1)]
            power.append(scale / n * mpmath.fsum(terms))
        rest = power[people] / mpmath.factorial(people) / scale - 1
        assert mpmath.exp(1 / mpmath.e) - 1 < rest < 0.54


def counts_of_shares(moduli: tuple[int, ...], shares: int) -> dict[Element, dict[Counts, int]]:
    """For each element, in how many ways its shares have which counts."""
    elements = group(*moduli)
    laws: dict[Element, dict[Counts, int]] = {element: {} for element in elements}
    for counts in datasets(shares, len(elements)):
        total = (0,) * len(moduli)
        for element, copies in zip(elements, counts, strict=True):
            for _ in range(copies):
                total = added(total, element, moduli)
        laws[total][counts] = factorial(shares) // prod(map(factorial, counts))
    return laws


def test_vectors_are_as_secure_as_promised() -> None:
    """Vectors of two bits: 20 people and 3 shares, all mixed, exactly."""
    moduli, people, shares = (2, 2), 20, 3
    laws = counts_of_shares(moduli, shares)

    def view(holding: Mapping[Any, int]) -> dict[Counts, int]:
        whole: dict[Counts, int] = {(0, 0, 0, 0): 1}
        for element, number in holding.items():
            for _ in range(number):
                grown: dict[Counts, int] = defaultdict(int)
                for seen, already in whole.items():
                    for sent, orders in laws[element].items():
                        grown[tuple(map(int.__add__, seen, sent))] += already * orders
                whole = grown
        return whole

    views = [
        view(holding)
        for holding in (
            {(0, 0): 20},
            {(0, 1): 20},
            {(1, 1): 20},
            {(0, 0): 10, (0, 1): 10},
            {(0, 0): 18, (1, 0): 2},
        )
    ]
    worst = max(
        Fraction(
            sum(abs(one.get(k, 0) - other.get(k, 0)) for k in one.keys() | other.keys()),
            2 * sum(one.values()),
        )
        for one, other in itertools.combinations(views, 2)
    )
    sigma = ((shares - 2) * (math.log2(people) - math.log2(math.e)) - 2) / 2
    assert shares_needed(people, 2, sigma * (1 - 1e-9)) == shares
    assert 0 < worst <= 2**-sigma


# Figures -------------------------------------------------------------------------------------


def build(task: hc.Task, users: int, honest: int | None = None, **options: Any) -> Any:
    budget = hc.Budget(options.pop("epsilon", 1.0), options.pop("delta", 1e-6))
    return hc.protocol("shuffle.split-and-mix", task, budget, hc.Crowd(users, honest), **options)


@pytest.mark.parametrize(
    ("users", "bits", "count", "buckets", "vectors"),
    [
        (1000, 12, 9, (45, 450), (15, 78)),
        (10_000, 15, 7, (40, 400), (13, 70)),
        (100_000, 18, 7, (35, 350), (11, 65)),
    ],
)
def test_slots_and_moduli(
    users: int, bits: int, count: int, buckets: tuple[int, int], vectors: tuple[int, int]
) -> None:
    protocol = build(hc.Count(), users)
    assert (protocol.slots, protocol.modulus) == (count, 2**bits)
    for at, number in enumerate((5, 50)):
        for sharing, slots in (("buckets", buckets[at]), ("vectors", vectors[at])):
            protocol = build(hc.Histogram(number), users, sharing=sharing)
            assert protocol.slots == protocol.messages_per_user == slots
            assert protocol.modulus == 2**bits
    # Twice the sums that are likely, and a power of two.
    for task, rate in ((hc.Count(), 1.0), (hc.Histogram(5), 0.5)):
        reach = math.ceil(2 * math.log(2) * 101 / rate) + 1
        room = 2 * (users + 2 * reach + 1)
        assert 2 ** (bits - 1) < room <= 2**bits == build(task, users).modulus


@pytest.mark.parametrize(("users", "honest"), [(1000, 1000), (300, 100), (10_000, 19)])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_errors_are_those_of_a_curator(users: int, honest: int, epsilon: float) -> None:
    for task, rate in ((hc.Count(), epsilon), (hc.Histogram(5), epsilon / 2)):
        a = mpmath.exp(-mpmath.mpf(rate))
        exact = mpmath.sqrt(2 * a * users / honest) / (1 - a)
        if rate != epsilon:  # the number of people is known, and there are five buckets
            exact *= mpmath.sqrt(mpmath.mpf(4) / 5)
        central = hc.protocol("central.geometric", task, hc.Budget(epsilon), hc.Crowd(users))
        for options in [{}] if rate == epsilon else [{"sharing": one} for one in SHARINGS]:
            protocol = build(task, users, honest, epsilon=epsilon, **options)
            assert protocol.standard_error() == pytest.approx(float(exact), rel=1e-12)
            ratio = protocol.standard_error() / central.standard_error()
            assert ratio == pytest.approx(math.sqrt(users / honest), rel=1e-12)


@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.parametrize("delta", [0.3, 1e-6, 1e-12, 1e-18])
@pytest.mark.parametrize(("epsilon", "honest"), [(1.0, 19), (0.1, 500), (8.0, 10**5)])
def test_shares_of_histograms_and_what_they_promise(
    epsilon: float, honest: int, delta: float, sharing: str
) -> None:
    number = 6
    protocol = build(hc.Histogram(number), honest, epsilon=epsilon, delta=delta, sharing=sharing)
    together, secrets = (number, 1) if sharing == "vectors" else (1, 2)
    bits = together * mpmath.log(protocol.modulus, 2)
    allowed = delta * (1 - mpmath.mpf(2) ** -10) / secrets
    sigma = mpmath.log((1 + mpmath.exp(epsilon)) / allowed, 2)
    gained = mpmath.log(honest, 2) - mpmath.log(mpmath.e, 2)
    assert protocol.parameters["shares"] == int(mpmath.ceil(2 + (2 * sigma + bits) / gained))
    reached = ((protocol.parameters["shares"] - 2) * gained - bits) / 2
    assert protocol.parameters["sigma"] == pytest.approx(float(reached), rel=1e-9)
    near = secrets * mpmath.mpf(2) ** -reached
    assert near * (1 + mpmath.exp(epsilon)) <= protocol.guarantee.delta <= delta
    assert not protocol.guarantee.exact
    # At smaller epsilons, the divergence of two buckets of noise comes on top, to 50 digits.
    reach = math.ceil(120 / epsilon)
    for smaller in (0.0, epsilon / 3, 0.9 * epsilon):
        factor = mpmath.exp(mpmath.mpf(smaller))
        # Of a bucket only the loss counts, which has three values: at 0 or less, or above.
        low = sum(geometric_mass(epsilon / 2, z) for z in range(-4 * reach, 1))
        high = 1 - low
        # Somebody is in the first bucket, or else in the second: z moves up by one.
        one = {(1, 1): high * low, (1, 0): low * low, (0, 1): high * high, (0, 0): high * low}
        other = {(1, 1): high * low, (1, 0): high * high, (0, 1): low * low, (0, 0): high * low}
        divergence = sum(max(one[k] - factor * other[k], 0) for k in one)
        stated = protocol.curve.delta(smaller)
        bound = divergence + near * (1 + factor)
        assert min(bound, 1) * (1 - mpmath.mpf(1e-15)) <= stated
        assert stated <= bound * (1 + mpmath.mpf(1e-9)) + delta / 1000


# What is sent --------------------------------------------------------------------------------


def small(sharing: str, users: int = 20, honest: int | None = None, **options: Any) -> Any:
    given = {"epsilon": 4.0, "delta": 1e-2} | options
    return build(hc.Histogram(3), users, honest, sharing=sharing, **given)


def shares_of(protocol: Any, values: Any, seed: int) -> NDArray[np.int64]:
    """Entry (i, j, b) is share j of bucket b of person i."""
    sent = protocol.randomize(values, hc.SeededSource(seed))
    assert set(sent.counts.tolist()) == {protocol.slots}
    payload: NDArray[np.int64] = sent.payload.astype(np.int64)
    people, number = len(values), protocol.task.domain
    if protocol.sharing == "vectors":
        return payload.reshape(people, -1, number)
    rows = payload.reshape(people, -1, 2)
    order = np.argsort(rows[..., 0], axis=1, kind="stable")
    sorted_rows: NDArray[np.int64] = np.take_along_axis(rows, order[..., None], axis=1)
    assert np.array_equal(
        sorted_rows[..., 0].reshape(people, number, -1)[0, :, 0], np.arange(number)
    )
    shares: NDArray[np.int64] = sorted_rows[..., 1].reshape(people, number, -1)
    return shares.transpose(0, 2, 1)


def follows(values: Any, law: dict[Any, float]) -> bool:
    return log_likelihood_ratio(Counter(values), law)[1] > ALARM


def known_total(sums: Any, users: int) -> Any:
    """Sums of buckets after they were made to add up to the number of people."""
    return sums - (sums.sum() - users) / len(sums)


def signed(totals: NDArray[np.int64], modulus: int) -> NDArray[np.int64]:
    below = totals % modulus
    return np.where(below >= modulus // 2, below - modulus, below)


@pytest.mark.parametrize("sharing", SHARINGS)
def test_all_shares_but_one_are_uniform(sharing: str) -> None:
    protocol, people = small(sharing), 40_000
    modulus = protocol.modulus
    assert modulus <= 1024
    shares = shares_of(protocol, np.full(people, 1), 1)
    uniform = dict.fromkeys(range(modulus), 1 / modulus)
    corners = dict.fromkeys(itertools.product(range(8), repeat=2), 1 / 64)
    for column in range(shares.shape[1]):
        for bucket in range(3):
            assert follows(shares[:, column, bucket].tolist(), uniform)
            others = shares[..., bucket].sum(axis=1) - shares[:, column, bucket]
            assert follows((others % modulus).tolist(), uniform)
        # Of two buckets of one share, and of the next share.
        low = shares[:, column] & 7
        after = shares[:, (column + 1) % shares.shape[1]] & 7
        assert follows(zip(low[:, 0].tolist(), low[:, 1].tolist(), strict=True), corners)
        assert follows(zip(low[:, 1].tolist(), after[:, 1].tolist(), strict=True), corners)


@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.parametrize(("users", "honest"), [(20, 20), (40, 20)])
def test_shares_add_up_to_counts_and_a_little_noise(sharing: str, users: int, honest: int) -> None:
    protocol = small(sharing, users, honest, epsilon=1.5)
    values = np.arange(60_000) % 3
    totals = signed(shares_of(protocol, values, 2).sum(axis=1), protocol.modulus)
    noise = totals - (values[:, None] == np.arange(3))
    reach = 200
    masses = stats.nbinom.pmf(np.arange(reach), 1 / honest, -np.expm1(-0.75))
    both = np.convolve(masses, masses[::-1])
    law = dict(zip(range(1 - reach, reach), both.tolist(), strict=True))
    for bucket in range(3):
        assert follows(noise[values == 0, bucket].tolist(), law)
    # Buckets are independent of each other: whether each has noise.
    some = noise != 0
    share = some.mean()
    chances = {
        pattern: float(prod(share if one else 1 - share for one in pattern))
        for pattern in itertools.product((False, True), repeat=3)
    }
    assert follows(map(tuple, some.tolist()), chances)


@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.parametrize(("users", "honest"), [(19, 19), (40, 20)])
def test_noise_of_messages_and_of_simulations_is_that_of_a_curator(
    sharing: str, users: int, honest: int
) -> None:
    protocol, crowds = small(sharing, users, honest), 3000
    held = np.arange(users) % 2
    counts = np.bincount(held, minlength=3)
    people = shares_of(protocol, np.tile(held, crowds), 3).sum(axis=1)
    sent = signed(people.reshape(crowds, users, 3).sum(axis=1), protocol.modulus) - counts
    source = hc.SeededSource(4)
    drawn = signed(
        np.array([protocol.simulate(counts, source).counts for _ in range(crowds)]),
        protocol.modulus,
    )
    reach = 100
    masses = stats.nbinom.pmf(np.arange(reach), users / honest, -np.expm1(-2.0))
    one = np.convolve(masses, masses[::-1])[reach - 6 : reach + 5]
    law = {
        (x, y, z): float(one[x + 5] * one[y + 5] * one[z + 5])
        for x, y, z in itertools.product(range(-5, 6), repeat=3)
    }
    for noise in (sent, drawn - counts):
        inside = noise[(np.abs(noise) <= 5).all(axis=1)]
        seen: list[Any] = [tuple(row) for row in inside.tolist()]
        assert len(seen) > 0.98 * crowds
        total = sum(law.values())
        assert follows(seen, {key: chance / total for key, chance in law.items()})
        wrong = {key: chance * 1.25 ** sum(map(abs, key)) for key, chance in law.items()}
        whole = sum(wrong.values())
        assert not follows(seen, {key: chance / whole for key, chance in wrong.items()})


def test_counts_are_sums_of_one_level() -> None:
    """A count is the sum of 0 and 1, and the same seed gives the same messages."""
    count, total = build(hc.Count(), 50), build(hc.Sum(0, 1, whole=True), 50)
    assert count.parameters == total.parameters
    values = np.arange(50) % 2
    sent = [one.randomize(values, hc.SeededSource(7)).payload for one in (count, total)]
    assert np.array_equal(*sent)
    estimate = hc.run(count, values, hc.SeededSource(7))
    assert estimate.task == "count"
    assert estimate.interval(0.99).low <= 25 <= estimate.interval(0.99).high


# What arrives --------------------------------------------------------------------------------


@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.parametrize("lost", [1, 2, 5])
def test_a_lost_message_is_noticed(sharing: str, lost: int) -> None:
    protocol, source = small(sharing), hc.SeededSource(5)
    sent = protocol.randomize(np.arange(20) % 3, source)
    batch = hc.shuffle(sent, source)
    assert protocol.tally(batch).users == 20
    with pytest.raises(hc.InvalidValue, match="each person must send"):
        protocol.tally(hc.Batch(batch.payload[lost:], 20))
    twice = np.concatenate([batch.payload, batch.payload[:lost]])
    with pytest.raises(hc.InvalidValue, match="each person must send"):
        protocol.tally(hc.Batch(twice, 20))


@pytest.mark.parametrize("sharing", SHARINGS)
def test_messages_travel_as_bytes_and_as_columns(sharing: str) -> None:
    protocol, source = small(sharing, 19), hc.SeededSource(6)
    values = np.arange(19) % 3
    bundles = [protocol.bundle(value, source) for value in values]
    received = [hc.Messages.receive(one.to_bytes(), protocol.alphabet) for one in bundles]
    whole = hc.Messages.join(received)
    tally = protocol.tally(hc.shuffle(whole, source))
    parts = [protocol.tally(one) for one in received]
    total = parts[0]
    for part in parts[1:]:
        total += part
    assert np.array_equal(total.counts, tally.counts)
    again = payload_of(message_column(whole.payload), protocol.alphabet)
    assert again.dtype == whole.payload.dtype
    assert np.array_equal(again, whole.payload)
    copy = pickle.loads(pickle.dumps(protocol))
    sent = [one.randomize(values, hc.SeededSource(1)).payload for one in (protocol, copy)]
    assert np.array_equal(*sent)
    wrong = whole.payload.copy()
    wrong[3, -1] = protocol.modulus
    within = rf"every message must be in range\(0, {protocol.modulus}\), got .* {protocol.modulus}$"
    with pytest.raises(hc.InvalidValue, match=within):
        protocol.tally(hc.Batch(wrong, 19))


def test_a_message_names_its_bucket() -> None:
    protocol = small("buckets")
    sent = protocol.randomize([2] * 20, hc.SeededSource(2)).payload
    assert Counter(sent[:, 0].tolist()) == dict.fromkeys(range(3), 20 * protocol.slots // 3)
    sent[0, 0] = 3
    with pytest.raises(hc.InvalidValue, match=r"must be in range\(0, 3\), got values from 0 to 3"):
        protocol.tally(hc.Batch(sent, 20))
    assert protocol.alphabet.bits == 2 + protocol.modulus.bit_length() - 1
    assert small("vectors").alphabet.bits == 3 * (protocol.modulus.bit_length() - 1)
    many = build(hc.Histogram(70_000), 30, sharing="buckets", delta=0.1, epsilon=8)
    assert many.alphabet.dtype == np.uint32


@pytest.mark.parametrize("sharing", SHARINGS)
def test_one_person_chooses_the_answers_of_all_buckets(sharing: str) -> None:
    protocol = small(sharing)
    influence, source = protocol.influence, hc.SeededSource(8)
    assert influence.any_answer
    assert influence.all_at_once
    assert "can make the answer any number in all buckets at once" in str(influence)
    sent = protocol.randomize(np.arange(20) % 3, source).payload
    others, own = sent[: -protocol.slots], sent[-protocol.slots :]
    high = (20 + protocol.modulus) // 2
    low = high + 1 - protocol.modulus  # these are all numbers modulo q
    for wanted in ([low] * 3, [high] * 3, [high, -7, low], [high, low, low], [low, high, high]):
        lies = own.copy()
        totals = protocol.tally(hc.Batch(sent, 20)).counts
        for bucket, change in enumerate((np.array(wanted, dtype=np.int64) - totals).tolist()):
            # Bucket b is column b of the first vector, or in the share of the first pair of b.
            place = (0, bucket) if sharing == "vectors" else (own[:, 0].tolist().index(bucket), 1)
            lies[place] = (int(own[place]) + change) % protocol.modulus
        batch = hc.Batch(np.concatenate([others, lies]), 20)
        answers = protocol.estimate(protocol.tally(batch)).value
        assert answers == pytest.approx(known_total(np.array(wanted), 20), rel=1e-12)
        if wanted == [high, low, low]:
            assert influence.up == pytest.approx(answers[0], rel=1e-12)
        if wanted == [low, high, high]:
            assert influence.down == pytest.approx(answers[0], rel=1e-12)


@pytest.mark.parametrize("sharing", SHARINGS)
def test_counts_below_zero_and_large_moduli_are_read_right(sharing: str) -> None:
    protocol = small(sharing, epsilon=0.01)
    seen: list[float] = []
    for seed in range(30):
        sent = shares_of(protocol, [0] * 20, seed).sum(axis=(0, 1))
        source = hc.SeededSource(seed)
        estimate = protocol.estimate(protocol.tally(protocol.randomize([0] * 20, source)))
        wanted = known_total(signed(sent, protocol.modulus), 20)
        assert estimate.value == pytest.approx(wanted, abs=1e-9)
        seen += estimate.value.tolist()
    assert min(seen) < -100 < 100 < max(seen)
    users = 2**40
    wide = build(hc.Histogram(3), users, epsilon=2.0**-30, delta=1e-3, sharing=sharing)
    assert wide.modulus == 2**42
    tally = wide.simulate([users - 5, 5, 0], hc.SeededSource(1))
    error = wide.estimate(tally).value - np.array([users - 5, 5, 0])
    assert 0 < np.abs(error).max() < 20 * wide.standard_error()


def test_the_largest_modulus_is_read_right() -> None:
    for total, stands_for in (
        (0, 0),
        (2**62 + 4, 2**62 + 4),
        (2**62 + 6, 6 - 2**62),
        (2**63 - 1, -1),
    ):
        assert read(np.array([total]), 2**63, 9).tolist() == [stands_for]
    for total, stands_for in ((12, 12), (13, -3), (15, -1)):
        assert read(np.array([total]), 16, 9).tolist() == [stands_for]


# Limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("sharing", SHARINGS)
@pytest.mark.parametrize(("buckets", "users"), [(3, 4000), (200, 60), (500, 30)])
def test_memory_is_as_stated(sharing: str, buckets: int, users: int) -> None:
    protocol = build(hc.Histogram(buckets), users, sharing=sharing)
    encoded = protocol.task.encode(np.arange(users) % buckets)
    tally_of_part(protocol, encoded[:20], hc.SeededSource(1))
    tracemalloc.start()
    tally_of_part(protocol, encoded, hc.SeededSource(2))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    at_once = min(users, protocol.randomizer.people_at_once)
    assert peak <= at_once * protocol.randomizer.bytes_per_user + 48 * buckets + 2**20
    assert protocol.randomizer.people_at_once * protocol.randomizer.bytes_per_user <= 2**28


def test_refusals() -> None:
    with pytest.raises(hc.Infeasible, match="sharing='buckets' needs fewer"):
        build(hc.Histogram(2000), 100_000)
    assert build(hc.Histogram(2000), 100_000, sharing="buckets").slots == 14_000
    with pytest.raises(hc.Infeasible, match="at most 1048576 are allowed"):
        build(hc.Histogram(10**6), 100_000, sharing="buckets")
    for sharing in SHARINGS:
        with pytest.raises(hc.Infeasible, match="at least 19 honest people, got 18") as caught:
            small(sharing, 100, 18)
        small(sharing, 100, **dict[str, Any](caught.value.nearest))
        with pytest.raises(hc.Infeasible, match="needs delta above 0") as caught:
            small(sharing, 100, delta=0.0)
        small(sharing, 100, **dict[str, Any](caught.value.nearest))
        with pytest.raises(hc.Infeasible, match="needs an epsilon of at least") as caught:
            small(sharing, 100, epsilon=1e-12)
        small(sharing, 100, **dict[str, Any](caught.value.nearest))
        protocol = small(sharing, 100)
        most = protocol.estimator.most_users
        with pytest.raises(hc.CrowdMismatch, match=f"at most {most:,} people"):
            protocol.estimate(protocol.simulate([most + 1, 0, 0], hc.SeededSource(1)))
    with pytest.raises(hc.InvalidParameter, match="`sharing` must be"):
        small("rows")


def test_plans_find_it_within_a_limit_of_messages() -> None:
    plan = hc.plan(
        hc.Histogram(5), hc.Budget(1, 1e-6), hc.Crowd(10_000), trust="shuffle", max_messages=13
    )
    assert plan.chosen == "shuffle.split-and-mix"
    plan = hc.plan(
        hc.Histogram(5), hc.Budget(1, 1e-6), hc.Crowd(10_000), trust="shuffle", max_messages=12
    )
    assert plan.chosen != "shuffle.split-and-mix"
