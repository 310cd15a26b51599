"""Histograms by hashing: the hash, the privacy and the error are each enumerated."""

import math
from collections import Counter
from collections.abc import Mapping
from itertools import combinations, combinations_with_replacement, pairwise, product
from typing import Any

import mpmath
import numpy as np
import pytest

import headcount as hc
from enumeration import log_likelihood_ratio
from headcount.protocols.seeds import chacha, words_of
from headcount.protocols.shuffle.hashed_histogram import _ODD, HashedHistogram, cells_of, spread

ALARM = 1e-6
BUDGET = hc.Budget(1, 1e-6)
WORDS = [f"word {number}" for number in range(1000)]


def formula(x: int, u: int, v: int, word: int, log_cells: int) -> int:
    """The hash, for words of any size."""
    return ((u * x + v) % (1 << word)) >> (word - log_cells)


def hashed(task: hc.Histogram, users: int, budget: hc.Budget = BUDGET, **more: Any) -> Any:
    return HashedHistogram(task, budget, hc.Crowd(users, more.pop("honest", None)), **more)


# The hash -------------------------------------------------------------------------------------


def chacha_words(seed: int, rounds: int = 8) -> tuple[int, int]:
    """The words of a seed in plain integers, quarter round by quarter round (RFC 8439, 2.1)."""
    start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, seed % 2**32, seed >> 32, *[0] * 10]
    x = list(start)

    def turn(a: int, b: int, c: int, by: int) -> None:
        x[a] = (x[a] + x[b]) % 2**32
        mixed = x[c] ^ x[a]
        x[c] = (mixed << by | mixed >> (32 - by)) % 2**32

    for number in range(rounds):
        for i in range(4):
            a, b, c, d = i, 4 + i, 8 + i, 12 + i
            if number % 2:
                b, c, d = 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4
            for one, other, left, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                turn(one, other, left, by)
    block = [(one + other) % 2**32 for one, other in zip(x, start, strict=True)]
    return block[0] + (block[1] << 32), block[2] + (block[3] << 32)


def test_block_function_is_that_of_the_standard() -> None:
    """RFC 8439, section 2.3.2, with 20 rounds."""
    key, nonce = bytes(range(32)), bytes.fromhex("000000090000004a00000000")
    given = b"expand 32-byte k" + key + (1).to_bytes(4, "little") + nonce
    state = np.frombuffer(given, "<u4").astype(np.uint32).reshape(4, 4, 1)
    block = chacha(np.repeat(state, 3, axis=2), 20)
    wanted = (
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )
    for copy in range(3):
        assert block[:, :, copy].astype("<u4").tobytes().hex() == wanted


def test_words_of_seeds() -> None:
    seeds = [0, 1, 2**32, 2**64 - 1, *range(10**9, 10**9 + 5000)]
    words = words_of(np.array(seeds, dtype=np.uint64)).tolist()
    for at in (0, 1, 2, 3, 4, 4095, 4096, 4097, len(seeds) - 1):
        assert tuple(words[at]) == chacha_words(seeds[at])
    assert words_of(np.array([], dtype=np.uint64)).shape == (0, 2)


@pytest.mark.parametrize("log_cells", [1, 4, 10])
def test_seeds_in_a_row_are_as_good_as_random_ones(log_cells: int) -> None:
    """Pairs of cells are equally likely, even for seeds and keys without any randomness."""
    hashes, cells = words_of(np.arange(200_000, dtype=np.uint64)), 2**log_cells
    keys = [cells_of(np.full(1, key, np.uint64), hashes, log_cells) for key in (0, 1, 2, 12345)]
    few = max(0, log_cells - 4)  # the first bits of a cell
    for one, other in combinations(keys, 2):
        same = np.count_nonzero(one == other)
        expected = len(hashes) / cells
        assert same == pytest.approx(expected, abs=6 * math.sqrt(expected))
        pairs = Counter(zip((one >> few).tolist(), (other >> few).tolist(), strict=True))
        law = dict.fromkeys(product(range(cells >> few), repeat=2), (cells >> few) ** -2.0)
        assert log_likelihood_ratio(pairs, law)[1] > ALARM


def test_many_buckets_at_once_take_many_trials() -> None:
    """Of t buckets, a share b^−(t−1) of seeds has one cell for all. No message has its own hash."""
    protocol = hashed(hc.Histogram(4), 200, cells=16)
    hashes = words_of(np.arange(400_000, dtype=np.uint64))
    cells = np.array([cells_of(key, hashes, 4) for key in protocol.estimator.keys.reshape(-1, 1)])
    for together in (2, 3, 4):
        found = np.count_nonzero((cells[:together] == cells[0]).all(axis=0))
        expected = len(hashes) / 16 ** (together - 1)
        assert found == pytest.approx(expected, abs=6 * math.sqrt(expected))
    assert protocol.influence.all_at_once  # 16^3 trials are few
    assert not hashed(hc.Histogram(10), 10_000).influence.all_at_once  # 1024^9 are not
    old = np.array([[0, 7 << 59, 3]], dtype=np.uint64)  # u = 0, v, and its cell
    with pytest.raises(hc.InvalidValue, match="must be 2 numbers of type uint64, got 3 numbers"):
        protocol.tally(hc.Batch(old, 200))


def test_influence_of_all_slots() -> None:
    """(K − μ/h − 1/b)/(1 − 1/b) and −(μ/h + 1/b)/(1 − 1/b)."""
    protocol = hashed(hc.Histogram(10), 10_000)
    cells, noise = 1024, protocol.parameters["noise_per_bucket"] / 10_000
    influence = protocol.influence
    assert influence.up == pytest.approx((protocol.slots - noise - 1 / cells) * cells / (cells - 1))
    assert influence.down == pytest.approx(-(noise + 1 / cells) * cells / (cells - 1))
    assert protocol.slots == 29
    assert influence.up == pytest.approx(29.0231, rel=5e-6)
    assert influence.down == pytest.approx(-0.00524754, rel=5e-6)
    assert influence.lost_message == pytest.approx(cells / (cells - 1))


@pytest.mark.parametrize("agreeing", [0.0, 0.001, 0.03, 0.3, 0.9, 1.0])
def test_privacy_owes_nothing_to_the_hash(agreeing: float) -> None:
    """Whatever share of seeds have one cell for two keys, the stated delta is a bound."""
    protocol = hashed(hc.Histogram(3), 50, hc.Budget(1, 0.05), cells=4)
    noise = protocol.parameters["noise_per_bucket"]
    single, both = (
        poisson_masses(noise * share, 40).astype(float) for share in (1 - agreeing, agreeing)
    )
    a, b, c = np.ogrid[:40, :40, :40]
    law = single[:, None, None] * single[:, None] * both
    for epsilon in (0.3, 1.0):
        excess = np.maximum(a + c - math.exp(epsilon) * (b + c), 0) / noise
        assert float((law * excess).sum()) <= protocol.curve.delta(epsilon)


@pytest.mark.parametrize(("word", "log_cells"), [(5, 1), (6, 2), (6, 3), (7, 4), (4, 4)])
def test_hash_is_pairwise_independent_up_to_the_last_bit(word: int, log_cells: int) -> None:
    u, v = np.divmod(np.arange(4**word), 2**word)
    cells, bits = 2**log_cells, word + 1 - log_cells
    of_key = [((u * x + v) % 2**word) >> (word - log_cells) for x in range(2 ** (bits + 1))]
    for one, other in combinations(range(2**bits), 2):
        pairs = np.bincount(of_key[one] * cells + of_key[other], minlength=cells**2)
        assert np.all(pairs == 4**word // cells**2)
    # Keys with one more bit are too long.
    pairs = np.bincount(of_key[0] * cells + of_key[2**bits], minlength=cells**2)
    assert not np.all(pairs == 4**word // cells**2)


@pytest.mark.parametrize("log_cells", [1, 2, 11, 25])
def test_code_computes_that_hash(log_cells: int) -> None:
    keys, u, v = np.random.default_rng(1).integers(0, 2**64, (3, 500), dtype=np.uint64)
    keys >>= np.uint64(log_cells - 1)
    by_code = cells_of(keys, np.stack([u, v], axis=1), log_cells).tolist()
    for x, one, other, cell in zip(*map(np.ndarray.tolist, (keys, u, v)), by_code, strict=True):
        assert cell == formula(x, one, other, 64, log_cells)


def test_spreading_keys_keeps_them_apart() -> None:
    for bits in (9, 10, 13):
        assert np.array_equal(np.sort(spread(np.arange(2**bits), bits)), np.arange(2**bits))
    # Open buckets: the bits that are cut are not those in which neighbors differ. 2^19/2^40·10^5
    # collisions are expected.
    task = hc.Histogram([0, 1], open=True)
    protocol = hashed(task, 2**50)
    assert protocol.parameters["cells"] == 2**25
    near = [start + np.arange(100_000, dtype=np.uint64) for start in (0, 2**64 - 100_000)]
    for numbers in (*near, near[0] << np.uint64(40)):
        keys = protocol.randomizer.keys(task.encode(numbers))
        assert keys.max() < 2**40
        assert len(np.unique(keys)) >= 100_000 - 3


def test_no_three_keys_meet_more_often_than_by_chance() -> None:
    """Pairs never meet more often. Three consecutive keys would meet with a chance of 1/(2b)."""
    protocol = hashed(hc.Histogram(7), 1000, cells=16)
    hashes = hc.SeededSource(3).integers(400_000, np.uint64).reshape(-1, 2)
    cells = [cells_of(key, hashes, 4) for key in protocol.estimator.keys.reshape(-1, 1)]
    plain = [cells_of(np.full(1, key, np.uint64), hashes, 4) for key in range(3)]
    expected = len(hashes) / 16**2
    for x, y, z in combinations(range(7), 3):
        meet = np.count_nonzero((cells[x] == cells[y]) & (cells[y] == cells[z]))
        assert meet == pytest.approx(expected, abs=7 * math.sqrt(expected))
    meet = np.count_nonzero((plain[0] == plain[1]) & (plain[1] == plain[2]))
    assert meet == pytest.approx(len(hashes) / 32, rel=0.05)


# Privacy --------------------------------------------------------------------------------------


def poisson_masses(mean: Any, stop: int) -> Any:
    """P(0), …, P(stop − 1), to 50 digits."""
    masses = [mpmath.exp(-mpmath.mpf(mean))]
    for k in range(1, stop):
        masses.append(masses[-1] * mean / k)
    return np.array(masses)


def view_delta(noise: float, cells: int, epsilon: float, stop: int, *, fine: bool = False) -> Any:
    """HS of the numbers of messages that match only x, only x', and both, for x against x'.

    The sum is cut at `stop`, so it is a lower bound. It has 50 digits, or is in floats.
    """
    b, mu = mpmath.mpf(cells), mpmath.mpf(noise)
    single, both = poisson_masses(mu * (b - 1) / b, stop), poisson_masses(mu / b, min(stop, 30))
    if not fine:
        b, single, both = cells, single.astype(float), both.astype(float)
    more_single, more_both = (np.append(masses[:1] * 0, masses[:-1]) for masses in (single, both))

    def joint(only: Any, only_other: Any, common: Any) -> Any:
        return only[:, None, None] * only_other[:, None] * common

    # A person's own message matches only their key, or both keys.
    common = joint(single, single, more_both) / b
    held = joint(more_single, single, both) * (b - 1) / b + common
    left = joint(single, more_single, both) * (b - 1) / b + common
    excess = held - (mpmath.exp(epsilon) if fine else math.exp(epsilon)) * left
    return excess[excess > 0].sum()


@pytest.mark.parametrize(("cells", "delta"), [(2, 0.2), (4, 0.2), (4, 0.05)])
def test_stated_delta_bounds_the_view_to_50_digits(cells: int, delta: float) -> None:
    protocol = hashed(hc.Histogram(3), 50, hc.Budget(1, delta), cells=cells)
    noise = protocol.parameters["noise_per_bucket"]
    for epsilon in (0.3, 1.0):
        truth = view_delta(noise, cells, epsilon, 24, fine=True)
        stated = protocol.curve.delta(epsilon)
        assert truth <= stated
        assert stated <= truth * (4 if cells == 2 else 2)  # few cells hide more than the bound says
    assert 0.99 * delta < protocol.guarantee.delta <= delta
    assert not protocol.guarantee.exact


@pytest.mark.parametrize(("cells", "above"), [(128, 0.07), (2048, 0.005), (2**16, 2e-4)])
def test_stated_delta_is_near_that_of_the_view(cells: int, above: float) -> None:
    protocol = hashed(hc.Histogram(3), 20_000, cells=cells)
    noise = protocol.parameters["noise_per_bucket"]
    assert noise == pytest.approx(42.65, rel=1e-3)
    truth = view_delta(noise, cells, 1.0, 130)
    stated = protocol.guarantee.delta
    assert 0.998e-6 < stated <= 1e-6
    assert truth <= stated <= truth * (1 + above)
    # With 2 % less noise the budget would not be met, except with few cells.
    assert view_delta(0.98 * noise, cells, 1.0, 130) > 1e-6


Views = Mapping[tuple[int, ...], float]


def test_matches_are_all_that_a_view_tells() -> None:
    """All views of a tiny hash: words of 2 bits, 2 cells, all 32 messages."""
    word, cells, mu = 2, 2, 0.1
    messages = list(product(range(4), range(4), range(2)))
    own = [
        [at for at, (u, v, cell) in enumerate(messages) if cell == formula(x, u, v, word, 1)]
        for x in range(4)
    ]

    def dummies(most: int) -> dict[tuple[int, ...], float]:
        """Poisson(mu·cells) uniform dummies. Each message occurs Poisson(rate) times."""
        rate = mu * cells / len(messages)
        return {
            view: math.exp(-mu * cells)
            * math.prod(rate**n / math.factorial(n) for n in Counter(view).values())
            for size in range(most + 1)
            for view in combinations_with_replacement(range(len(messages)), size)
        }

    def plus(views: Views, x: int) -> dict[tuple[int, ...], float]:
        """The view with the message of a person who holds x."""
        out: dict[tuple[int, ...], float] = {}
        for view, chance in views.items():
            for at in own[x]:
                seen = tuple(sorted((*view, at)))
                out[seen] = out.get(seen, 0.0) + chance / len(own[x])
        return out

    def hockey_stick(held: Views, left: Views, epsilon: float) -> float:
        factor = math.exp(epsilon)
        return sum(max(chance - factor * left.get(view, 0.0), 0.0) for view, chance in held.items())

    alone, epsilon, most = dummies(3), 0.5, 3
    rest = 1 - sum(alone.values())  # the chance of more dummies than are listed
    assert 0 < rest < 1e-4
    by_key = [plus(alone, x) for x in range(4)]
    expected = float(view_delta(mu, cells, epsilon, 20))
    for x, other in combinations(range(4), 2):
        seen = hockey_stick(by_key[x], by_key[other], epsilon)
        assert expected - rest <= seen <= expected
    for view, chance in list(by_key[1].items())[::50]:
        matching = sum(at in own[1] for at in view)
        if len(view) <= most:
            assert chance == pytest.approx(alone[view] * matching / mu)
    # Another honest person hides more, whatever they hold.
    fewer = dummies(2)
    for third in range(4):
        held, left = (plus(plus(fewer, third), x) for x in (0, 1))
        assert hockey_stick(held, left, epsilon) <= expected


def test_paper_and_budget() -> None:
    published = hashed(hc.Histogram(3), 20_000, calibration="paper")
    assert published.parameters["noise_per_bucket"] == pytest.approx(32 * math.log(2e6), rel=1e-6)
    assert published.guarantee.delta == 1e-6
    assert not published.guarantee.exact
    assert published.curve.delta(1.0) < 1e-20
    some = hashed(hc.Histogram(3), 20_000, honest=10_000)
    everyone = hashed(hc.Histogram(3), 20_000)
    assert some.messages_per_user - 1 == pytest.approx(2 * (everyone.messages_per_user - 1))
    assert everyone.messages_per_user == pytest.approx(1 + 2048 * 42.65 / 20_000, rel=1e-3)
    assert everyone.local_epsilon == math.inf
    assert everyone.alphabet.bits == 64 + 11


@pytest.mark.parametrize(
    ("users", "cells"), [(1, 2), (3, 2), (200, 32), (20_000, 2048), (10**6, 2**16), (2**50, 2**25)]
)
def test_cells_are_near_n_over_ln_n(users: int, cells: int) -> None:
    protocol = hashed(hc.Histogram(3), users, hc.Budget(1, 0.1))
    assert protocol.parameters["cells"] == cells
    assert protocol == hashed(hc.Histogram(3), users, hc.Budget(1, 0.1))


# Messages -------------------------------------------------------------------------------------


def test_dummies_are_uniform_and_as_many_as_calibrated() -> None:
    protocol = hashed(hc.Histogram(40), 20_000)
    noise, cells = protocol.parameters["noise_per_bucket"], 2048
    source, dummies, runs = hc.SeededSource(5), [], 5
    for _ in range(runs):
        messages = protocol.randomize(np.arange(20_000) % 40, source)
        first = np.cumsum(messages.counts, dtype=np.int64) - messages.counts
        own = messages.payload[first]
        keys = protocol.estimator.keys[np.arange(20_000) % 40]
        assert np.array_equal(own[:, 1], cells_of(keys, words_of(own[:, 0]), 11))
        assert len(np.unique(own[:, 0])) == 20_000
        dummies.append(np.delete(messages.payload, first, axis=0))
        counts = Counter((messages.counts - 1).tolist())
        law = {k: float(p) for k, p in enumerate(poisson_masses(cells * noise / 20_000, 40))}
        assert log_likelihood_ratio(counts, law)[1] > ALARM
    every = np.concatenate(dummies)
    expected = runs * cells * noise
    assert len(every) == pytest.approx(expected, abs=5 * math.sqrt(expected))
    assert 0.02 * expected > 12 * math.sqrt(expected)  # two percent would be seen
    for column, bits in ((0, 64), (1, 11)):
        for shift in (bits - 8, 0):  # the first and the last byte
            found = Counter(((every[:, column] >> np.uint64(shift)) & np.uint64(255)).tolist())
            assert log_likelihood_ratio(found, dict.fromkeys(range(256), 1 / 256))[1] > ALARM
    # They match any key as rarely as they should.
    matching = np.count_nonzero(
        every[:, 1] == cells_of(np.full(1, 12345, np.uint64), words_of(every[:, 0]), 11)
    )
    assert matching == pytest.approx(len(every) / cells, abs=5 * math.sqrt(len(every) / cells))


@pytest.mark.parametrize(
    "task",
    [
        hc.Histogram(5),
        hc.Histogram(WORDS[:5], open=True),
        hc.Histogram([2**64 - 1, 2**64 - 2, 2**63 + 1], open=True),
    ],
    ids=str,
)
def test_tally_counts_matches_one_by_one(task: hc.Histogram) -> None:
    protocol = hashed(task, 500)
    values = np.array(task.buckets)[np.arange(500) % len(task.buckets)]
    batch = hc.shuffle(protocol.randomize(values, hc.SeededSource(1)), hc.SeededSource(2))
    log_cells = int(protocol.parameters["cells"]).bit_length() - 1
    rows = [(*chacha_words(seed), cell) for seed, cell in batch.payload.tolist()]
    matches = [
        sum(formula(int(key), u, v, 64, log_cells) == cell for u, v, cell in rows)
        for key in protocol.estimator.keys
    ]
    assert protocol.tally(batch).counts.tolist() == matches


def test_parts_add_up_however_they_are_cut() -> None:
    protocol = hashed(hc.Histogram(3), 20_000)
    messages = protocol.randomize(np.arange(20_000) % 3, hc.SeededSource(4))
    assert len(messages.payload) > 3 * 2**15
    whole = protocol.tally(messages)
    edges = [0, 1, 2**15 + 7, 70_000, len(messages.payload)]
    parts = [
        protocol.tally(hc.Batch(messages.payload[start:stop], 5_000))
        for start, stop in pairwise(edges)
    ]
    total = parts[0] + parts[1] + parts[2] + parts[3]
    assert np.array_equal(total.counts, whole.counts)
    assert total.users == whole.users


@pytest.mark.parametrize(
    ("task", "value"),
    [
        (hc.Histogram(3), 2),
        (hc.Histogram(WORDS[:3], open=True), WORDS[1]),
        (hc.Histogram([2**64 - 1, 2**64 - 2], open=True), 2**64 - 1),
        (hc.Histogram(WORDS[:3], open=True), "something else"),
    ],
    ids=str,
)
def test_bundles_have_one_size(task: hc.Histogram, value: Any) -> None:
    protocol = hashed(task, 2000)
    source, slots = hc.SeededSource(9), protocol.slots
    redrawn = 2000 * protocol.randomizer.overflow(slots)
    assert (protocol.curve.delta(1.0) + math.e * redrawn) / (1 - redrawn) <= 1e-6
    sent = [protocol.bundle(value, source) for _ in range(50)]
    assert {len(one.payload) for one in sent} == {slots}
    received = [hc.Messages.receive(one.to_bytes(), protocol.alphabet) for one in sent]
    tally = protocol.tally(hc.Messages.join(received))
    assert tally.users == 50
    buckets = list(task.buckets)
    if value in buckets:
        assert tally.counts[buckets.index(value)] >= 50
    kept = [len(protocol.alphabet.messages(one.payload)) for one in sent]
    assert 1 <= min(kept) < max(kept) < slots


# Estimates ------------------------------------------------------------------------------------

CLOSED = hc.Histogram(4)
STRINGS = hc.Histogram(["red", "green", "blue", "black"], open=True)
NUMBERS = hc.Histogram([2**64 - 1, 2**64 - 2, 2**63 + 5, 2**63 + 6], open=True)


@pytest.mark.parametrize("cells", [None, 16])
@pytest.mark.parametrize(
    ("task", "others"),
    [
        (CLOSED, []),
        (STRINGS, ["redd", "", "grün", "Blue"]),
        (NUMBERS, [2**64 - 3, 2**63 + 7, 2**63, 2**64 - 4]),
    ],
    ids=["closed", "strings", "numbers"],
)
def test_estimates_are_unbiased_with_the_stated_spread(
    task: hc.Histogram, others: list[Any], cells: int | None
) -> None:
    """People who hold none of the candidates are counted nowhere."""
    users, runs = 1200, 150
    protocol = hashed(task, users, cells=cells)
    truth = np.array([700, 200, 0, 300] if not others else [700, 20, 0, 1])
    held = np.repeat(np.array(task.buckets), truth)
    if others:
        held = np.append(held, np.resize(np.array(others, dtype=held.dtype), users - truth.sum()))
    source = hc.SeededSource(12)
    found = [hc.run(protocol, held, source) for _ in range(runs)]
    errors = np.array([estimate.unbiased_value - truth for estimate in found])
    b = protocol.parameters["cells"]
    noise = protocol.parameters["noise_per_bucket"]
    spread_of = np.sqrt(noise + (users - truth) / b * (1 - 1 / b)) / (1 - 1 / b)
    # 24 means within 5.5 standard deviations have a false alarm rate of 1e-6.
    assert np.all(np.abs(errors.mean(axis=0)) < 5.5 * spread_of / math.sqrt(runs))
    assert np.mean((errors / spread_of) ** 2) == pytest.approx(1, abs=5 * math.sqrt(2 / (4 * runs)))
    counts = truth.tolist() + ([users - int(truth.sum())] if others else [])
    assert protocol.standard_error(counts) == pytest.approx(spread_of.max())
    worst = math.sqrt(noise + users / b * (1 - 1 / b)) / (1 - 1 / b)
    assert protocol.standard_error() == pytest.approx(worst)
    stated = np.mean([estimate.standard_error**2 for estimate in found], axis=0)
    assert stated == pytest.approx(spread_of**2, rel=0.02)
    covered = [(e.interval(0.9).low <= truth) & (truth <= e.interval(0.9).high) for e in found]
    assert np.mean(covered) > 0.9 - 5 * math.sqrt(0.09 / (4 * runs))


def test_noise_of_the_dishonest_and_of_more_people_is_counted() -> None:
    protocol = hashed(STRINGS, 1000, honest=500)
    held, runs, source = np.repeat(["red", "green", "?"], 500), 100, hc.SeededSource(14)
    found = [hc.run(protocol, held, source) for _ in range(runs)]
    errors = np.array([estimate.value for estimate in found]) - [500, 500, 0, 0]
    error = protocol.standard_error([500, 500, 0, 0, 500])
    noise, b = 3 * protocol.parameters["noise_per_bucket"], protocol.parameters["cells"]
    assert error == pytest.approx(math.sqrt(noise + 1500 / b * (1 - 1 / b)) / (1 - 1 / b))
    assert np.all(np.abs(errors.mean(axis=0)) < 5.5 * error / math.sqrt(runs))
    assert np.mean(errors**2) == pytest.approx(error**2, rel=5 * math.sqrt(2 / (4 * runs)))
    simulated = [
        protocol.estimate(protocol.simulate([500, 500, 0, 0, 500], source)).value
        for _ in range(runs)
    ]
    assert np.all(np.abs(np.mean(simulated, axis=0) - [500, 500, 0, 0]) < 5.5 * error / 10)


def test_heavy_hitters_are_found_among_a_thousand_words() -> None:
    shares = 1 / np.arange(1, 1001)
    counts = np.floor(16_000 * shares / shares.sum()).astype(int)
    held = np.append(np.repeat(np.array(WORDS), counts), [f"{n}?" for n in range(20_000)])[:20_000]
    assert np.count_nonzero(np.char.endswith(held, "?")) > 4000
    protocol = hashed(hc.Histogram(WORDS, open=True), 20_000)
    estimate = hc.run(protocol, held, hc.SeededSource(6))
    largest = estimate.largest(10)
    assert {word for word, _ in largest} == set(WORDS[:10])
    for word, value in largest:
        assert abs(value - counts[WORDS.index(str(word))]) < 5 * protocol.standard_error()


def match_law(users: int, count: int, cells: int, noise: float, stop: int) -> Any:
    """The law of c + Poisson(noise) + Bin(users − c, 1/cells), below `stop`."""
    dummies = poisson_masses(noise, stop).astype(float)
    others, p = users - count, 1 / cells
    by_chance = [math.comb(others, k) * p**k * (1 - p) ** (others - k) for k in range(others + 1)]
    return np.append(np.zeros(count), np.convolve(dummies, by_chance))[:stop]


@pytest.mark.parametrize(
    ("epsilon", "delta", "users", "cells"),
    [(1, 1e-6, 150, 32), (1, 0.05, 60, 4), (4, 0.1, 40, 8), (6, 0.3, 34, 64), (3, 0.3, 25, 2)],
)
def test_intervals_cover_every_count(epsilon: int, delta: float, users: int, cells: int) -> None:
    stop = 400
    protocol = hashed(hc.Histogram(stop), users, hc.Budget(epsilon, delta), cells=cells)
    # One estimate for every possible number of matches.
    every = protocol.estimate(hc.Tally(np.arange(stop), users, protocol.name))
    noise = protocol.parameters["noise_per_bucket"]
    by_count = [match_law(users, count, cells, noise, stop) for count in range(users + 1)]
    assert [law.sum() for law in by_count] == pytest.approx([1] * (users + 1), abs=1e-12)
    for confidence in (0.36, 0.5, 0.58, 0.9, 0.95, 0.99, 0.999):
        interval = every.interval(confidence)
        covers = [
            law[(interval.low <= count) & (count <= interval.high)].sum()
            for count, law in enumerate(by_count)
        ]
        assert min(covers) >= confidence - 1e-12
        if noise > 40:
            assert min(covers) <= confidence + 0.3 * (1 - confidence) + 0.02


@pytest.mark.slow
@pytest.mark.parametrize("open_ones", [False, True], ids=["closed", "open"])
def test_simulation_and_messages_have_the_law_of_matches(open_ones: bool) -> None:
    users, cells, budget = 40, 8, hc.Budget(2, 0.05)
    truth = [25, 10, 0]
    counts = [*truth, 5] if open_ones else [*truth[:2], 5]
    source, runs = hc.SeededSource(21), 3000
    protocol = hashed(hc.Histogram(3, open=open_ones), users, budget, cells=cells)
    held = np.repeat(np.arange(len(counts)), counts)
    noise = protocol.parameters["noise_per_bucket"]
    sent = [protocol.tally(protocol.randomize(held, source)).counts for _ in range(runs)]
    simulated = [protocol.simulate(counts, source).counts for _ in range(runs)]
    for tallies in (np.array(sent), np.array(simulated)):
        assert tallies.shape == (runs, 3)
        for bucket, count in enumerate(counts[:3]):
            law = dict(enumerate(match_law(users, count, cells, noise, 120).tolist()))
            found = Counter(tallies[:, bucket].tolist())
            assert log_likelihood_ratio(found, law)[1] > ALARM
            wrong = dict(enumerate(match_law(users, count, cells, noise * 1.25, 120).tolist()))
            assert log_likelihood_ratio(found, wrong)[1] < ALARM
    # Two buckets are nearly independent. Their covariance comes from dummies that match both.
    covariance = np.cov(np.array(sent).T)[0, 1]
    off = 6 * math.sqrt(np.prod(np.var(sent, axis=0)[:2]) / runs)
    assert covariance == pytest.approx(noise / cells, abs=off)


def test_simulation_of_many_buckets_and_people() -> None:
    protocol = hashed(hc.Histogram(5000), 10**9)
    counts = np.zeros(5000, dtype=np.int64)
    counts[:500], counts[500] = np.arange(500), 10**9 - 500 * 499 // 2
    estimate = protocol.estimate(protocol.simulate(counts, hc.SeededSource(2)))
    z = (estimate.unbiased_value - counts) / estimate.standard_error
    assert abs(z.mean()) < 5 / math.sqrt(5000)
    assert np.mean(z**2) == pytest.approx(1, abs=5 * math.sqrt(2 / 5000))


# Refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("cells", [0, 1, 3, 2.5, -4, 2**26, "8", True])
def test_bad_cells_are_refused(cells: Any) -> None:
    with pytest.raises(hc.InvalidParameter, match="`cells` must be"):
        hashed(hc.Histogram(3), 100, cells=cells)


@pytest.mark.slow
def test_infeasible_requests_are_refused() -> None:
    with pytest.raises(hc.Infeasible, match="needs delta above 0") as caught:
        hashed(hc.Histogram(3), 100, hc.Budget(1))
    hashed(hc.Histogram(3), 100, hc.Budget(1, caught.value.nearest["delta"]))
    with pytest.raises(hc.Infeasible, match="at most 1048576 are allowed") as caught:
        hashed(hc.Histogram(3), 10**6, honest=1)
    honest = int(caught.value.nearest["honest"])
    hashed(hc.Histogram(3), 10**6, honest=honest)
    with pytest.raises(hc.Infeasible):
        hashed(hc.Histogram(3), 10**6, honest=honest - 1)
    # A larger crowd has more cells, and the advice allows for them.
    with pytest.raises(hc.Infeasible) as caught:
        hashed(hc.Histogram(3), 2000, hc.Budget(1e-3, 1e-6))
    hashed(hc.Histogram(3), int(caught.value.nearest["honest"]), hc.Budget(1e-3, 1e-6))
    with pytest.raises(hc.InvalidParameter, match="must be a histogram"):
        HashedHistogram(hc.Count(), BUDGET, hc.Crowd(100))  # type: ignore[arg-type]


def unspread(number: int) -> int:
    """The value whose spread 64-bit key is this number."""
    for odd in reversed(_ODD):
        number ^= number >> 32
        number = number * pow(int(odd), -1, 2**64) % 2**64
    return number ^ (number >> 32)


def test_candidates_that_share_a_key_are_refused() -> None:
    alike = [unspread(2**63 + 6), unspread(2**63 + 7)]
    task = hc.Histogram(alike, open=True)
    assert spread(task.keys, 64).tolist() == [2**63 + 6, 2**63 + 7]
    with pytest.raises(
        hc.InvalidParameter, match="keys of 58 bits, got two with the same key"
    ) as caught:
        hashed(task, 1000)
    assert "fewer `cells`" in caught.value.hint
    hashed(task, 1000, cells=2)


@pytest.mark.parametrize(
    ("task", "values"),
    [
        (hc.Histogram(3), [0, 3]),
        (hc.Histogram(["a", "b"]), ["a", "c"]),
        (STRINGS, [1, 2]),
        (NUMBERS, ["red"]),
        (NUMBERS, [-1]),
        (NUMBERS, [0.5]),
        (NUMBERS, [2**64]),
    ],
    ids=str,
)
def test_bad_values_are_refused(task: hc.Histogram, values: Any) -> None:
    with pytest.raises(hc.InvalidValue):
        hashed(task, 2).randomize(values, hc.SeededSource(1))


def test_bad_messages_are_refused() -> None:
    protocol = hashed(hc.Histogram(3), 100, cells=8)
    good = np.array([[2**64 - 1, 7], [0, 8]], dtype=np.uint64)  # the second is a dummy
    assert protocol.tally(hc.Batch(good, 100)).counts.max() <= 1
    for bad in (
        np.array([[5, 8]], dtype=np.uint64),
        np.array([[0, 2**64 - 1]], dtype=np.uint64),
        np.array([[0, 1]], dtype=np.int64),
        np.array([[0, 0, 1]], dtype=np.uint64),
        np.array([0, 1, 2], dtype=np.uint64),
    ):
        with pytest.raises(hc.InvalidValue):
            protocol.tally(hc.Batch(bad, 100))
    with pytest.raises(hc.InvalidValue, match="must be 3 count"):
        protocol.estimate(hc.Tally(np.arange(4), 100, protocol.name))
    with pytest.raises(hc.InvalidValue, match="true counts must be 5 whole numbers"):
        hashed(STRINGS, 10).simulate([1, 2, 3, 4], hc.SeededSource(1))
    with pytest.raises(hc.CrowdMismatch):
        hc.run(protocol, [1] * 99)
