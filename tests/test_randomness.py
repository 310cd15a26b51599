"""Random bits and exact draws. A scripted source checks every edge; statistics check the rest."""

import itertools
import os
import threading
from collections import Counter
from fractions import Fraction
from math import e, factorial, sqrt
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from enumeration import binomial_mass, exactly, geometric_mass, log_likelihood_ratio
from headcount import InvalidParameter, SecureSource, SeededSource, Source
from headcount.accounting.laws import Law
from headcount.accounting.laws import binomial as binomial_law
from headcount.randomness import discrete_laplace as laplace
from headcount.randomness import sources
from headcount.randomness.draws import (
    WHOLE,
    bernoulli,
    packed_bernoulli,
    permutation,
    real_bernoulli,
    successes,
    uniform,
    uniform_below,
)
from headcount.randomness.shares import negative_binomial_share, poisson_share
from headcount.randomness.table import ThresholdTable
from headcount.randomness.totals import binomial, multinomial, table

ALARM = 1e-6


class Scripted(Source):
    """A source that returns exactly the bytes that it was given."""

    def __init__(self, *parts: NDArray[Any]) -> None:
        self.left = b"".join(part.astype(part.dtype.newbyteorder("<")).tobytes() for part in parts)

    def fill(self, buffer: NDArray[np.uint8]) -> None:
        assert len(buffer) <= len(self.left), "more bits asked for than written"
        said, self.left = self.left[: len(buffer)], self.left[len(buffer) :]
        buffer[:] = np.frombuffer(said, np.uint8)


def words(*values: int) -> NDArray[np.uint64]:
    return np.array(values, dtype=np.uint64)


# Sources ------------------------------------------------------------------------------------


def test_seeded_source_repeats_and_differs_by_seed() -> None:
    one, again, other = (SeededSource(seed).integers(1000, np.uint64) for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.intersect1d(one, other).size
    parts = SeededSource(1)
    joined = np.concatenate([parts.integers(n, np.uint64) for n in (1, 99, 900)])
    assert np.array_equal(joined, one)
    # These bytes are pinned, and openssl's command gives the same ones: a seed is portable.
    assert one[0] == 16840601836788118689


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, "1", None])
def test_bad_seed(seed: Any) -> None:
    with pytest.raises(InvalidParameter, match="`seed` must be"):
        SeededSource(seed)


def test_secure_source_never_repeats() -> None:
    shared = SecureSource()
    drawn = [shared.integers(1000, np.uint64) for _ in range(5)]
    drawn += [SecureSource().integers(1000, np.uint64) for _ in range(5)]

    def draw() -> None:
        drawn.append(shared.integers(1000, np.uint64))

    threads = [threading.Thread(target=draw) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    together = np.concatenate(drawn)
    assert len(np.unique(together)) == 18_000


def test_secure_source_is_new_in_a_forked_child() -> None:
    source = SecureSource()
    source.integers(10, np.uint64)
    said = []
    for _ in range(3):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, source.integers(10, np.uint64).tobytes())
            os._exit(0)
        os.waitpid(child, 0)
        said.append(os.read(reader, 80))
        os.close(reader)
        os.close(writer)
    said.append(source.integers(10, np.uint64).tobytes())
    assert len(set(said)) == 4


def test_secure_source_is_rekeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = []

    def spy(key: bytes, nonce: bytes, real: Any = sources._keystream) -> Any:
        keys.append(key)
        return real(key, nonce)

    monkeypatch.setattr(sources, "_keystream", spy)
    monkeypatch.setattr(sources, "_REKEY_AFTER", 1 << 20)
    source = SecureSource()
    for _ in range(10):
        source.fill(np.empty(1 << 19, np.uint8))
    source.fill(np.empty(5 << 20, np.uint8))
    assert len(set(keys)) == len(keys) == 10


@pytest.mark.parametrize("source", [SecureSource(), SeededSource(3)], ids=["secure", "seeded"])
def test_every_byte_is_written_and_fair(source: Source) -> None:
    # Chunks of 256 KiB are filled one by one. An odd size across several chunks is tested.
    buffer = np.zeros((1 << 20) + 12_345, np.uint8)
    source.fill(buffer)
    observed = Counter(buffer.tolist())
    assert log_likelihood_ratio(observed, dict.fromkeys(range(256), 1 / 256))[1] > 1e-9
    assert not (buffer[: len(buffer) // 8 * 8].view(np.uint64) == 0).any()
    ones = int(np.unpackbits(buffer).sum())
    assert abs(ones - 4 * len(buffer)) < 6.5 * (2 * len(buffer)) ** 0.5


# Bernoulli ----------------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [0, 1, 2, 100, 255, 256])
def test_bernoulli_counts_every_byte(weight: int) -> None:
    tops = np.arange(256, dtype=np.uint8)
    ties = words(0) if weight < 256 else words()
    got = bernoulli(Scripted(tops, ties), 256, weight, bits=8)
    assert got.dtype == np.uint8
    assert got.tolist() == [1] * weight + [0] * (256 - weight)


@given(st.integers(0, 2**64 - 1), st.sampled_from([-2, -1, 0, 1, 2]))
def test_bernoulli_is_one_exactly_below_the_threshold(weight: int, step: int) -> None:
    uniform_word = weight + step
    if not 0 <= uniform_word < 2**64:
        return
    top, rest = divmod(uniform_word, 2**56)
    script = Scripted(np.array([top], np.uint8), words((rest << 8) | 0xA5))
    assert bernoulli(script, 1, weight).tolist() == [int(uniform_word < weight)]


def test_bernoulli_ends_and_refusals() -> None:
    source = SeededSource(1)
    assert bernoulli(source, 1000, 0).sum() == 0
    assert bernoulli(source, 1000, 2**64).sum() == 1000
    assert bernoulli(source, 0, 5).size == 0
    for weight, bits in ((-1, 64), (2**64 + 1, 64), (3, 1), (1, 0), (1, 129)):
        with pytest.raises(InvalidParameter):
            bernoulli(source, 1, weight, bits)


def test_bernoulli_across_chunks() -> None:
    p, count = 0.3, 3_000_001
    drawn = bernoulli(SeededSource(2), count, round(p * 2**64))
    deviation = (count * p * (1 - p)) ** 0.5
    assert abs(int(drawn.sum()) - count * p) < 4.9 * deviation
    assert abs(int(drawn.sum()) - count * p * 1.02) > 4.9 * deviation


# Uniform integers and permutations ----------------------------------------------------------


def test_uniform_rejects_what_is_too_large() -> None:
    assert uniform(Scripted(words(7, 6, 5), words(7, 4), words(3)), 3, 6).tolist() == [3, 4, 5]
    assert uniform(Scripted(words(2**64 - 1)), 1, 2**64).tolist() == [2**64 - 1]
    assert uniform(Scripted(words(2**64 - 1)), 1, 1).tolist() == [0]
    for below in (0, -1, 2**64 + 1):
        with pytest.raises(InvalidParameter):
            uniform(SeededSource(1), 1, below)


@pytest.mark.parametrize("below", [1, 2, 3, 10, 256, 257])
def test_uniform_laws(below: int) -> None:
    law = dict.fromkeys(range(below), 1 / below)
    assert log_likelihood_ratio(Counter(uniform(SeededSource(3), 50_000, below).tolist()), law)[
        1
    ] > (ALARM)
    source = SeededSource(4)
    scalars = Counter(uniform_below(source, below) for _ in range(20_000))
    assert log_likelihood_ratio(scalars, law)[1] > ALARM


def test_uniform_below_large_numbers() -> None:
    source, below = SeededSource(5), 10**40
    drawn = [uniform_below(source, below) for _ in range(4000)]
    assert max(drawn) < below
    tenths = Counter(number * 10 // below for number in drawn)
    assert log_likelihood_ratio(tenths, dict.fromkeys(range(10), 0.1))[1] > ALARM


def test_permutation_is_uniform() -> None:
    source = SeededSource(6)
    seen = Counter(tuple(permutation(source, 4).tolist()) for _ in range(24_000))
    law = dict.fromkeys(itertools.permutations(range(4)), 1 / factorial(4))
    assert log_likelihood_ratio(seen, law)[1] > ALARM
    assert sorted(permutation(source, 1000).tolist()) == list(range(1000))
    assert permutation(source, 0).size == 0


def test_permutation_orders_equal_keys_by_chance() -> None:
    # Three numbers take two bits. The keys are the bits above them: 5, 9 and 5 again.
    keys = words(5 << 2, 9 << 2, 5 << 2)
    assert permutation(Scripted(keys, words(1, 2)), 3).tolist() == [0, 2, 1]
    assert permutation(Scripted(keys, words(2, 1)), 3).tolist() == [2, 0, 1]
    # Equal again: drawn once more.
    assert permutation(Scripted(keys, words(4, 4), words(2, 1)), 3).tolist() == [2, 0, 1]
    everything = words(*[7 << 3] * 5)
    assert permutation(Scripted(everything, words(5, 4, 3, 2, 1)), 5).tolist() == [4, 3, 2, 1, 0]


# Tables -------------------------------------------------------------------------------------


def test_table_edges() -> None:
    table = ThresholdTable([3, 0, 2**63 - 3, 2**63], start=10)
    drawn = table.sample(Scripted(words(0, 2, 3, 2**63 - 1, 2**63, 2**64 - 1)), 6)
    assert drawn.tolist() == [10, 10, 12, 12, 13, 13]
    assert table.total_variation == 0


def test_table_guide_agrees_with_search() -> None:
    """Many draws use only their first 16 bits. The same uniforms must give the same outcomes."""
    weights = [2**40 + 5, 2**48, 3 * 2**47 + 1, 7]
    weights.append(2**64 - sum(weights))
    table = ThresholdTable(weights)
    firsts = np.cumsum([0, *weights[:-1]], dtype=np.uint64)
    edges = np.concatenate([firsts, firsts[1:] - np.uint64(1), words(2**64 - 1)])
    wide = np.concatenate([edges, SeededSource(1).integers(5000 - len(edges), np.uint64)])
    expected = np.searchsorted(firsts, wide, side="right") - 1
    tops = (wide >> np.uint64(48)).astype(np.uint16)
    undecided = [
        word
        for word in wide.tolist()
        if ((firsts > words(word >> 48 << 48)) & (firsts <= words(word | 2**48 - 1))).any()
    ]
    script = Scripted(tops, words(*((word << 16) % 2**64 for word in undecided)))
    assert np.array_equal(table.sample(script, 5000), expected)
    assert not script.left


@pytest.mark.parametrize("weights", [[], [1], [2**64, 1], [-1, 2**64 + 1]])
def test_table_refuses_what_is_no_law(weights: list[int]) -> None:
    with pytest.raises(InvalidParameter):
        ThresholdTable(weights)


@settings(max_examples=60)
@given(st.lists(st.floats(1e-30, 1.0), min_size=1, max_size=40))
def test_table_is_as_near_to_its_law_as_it_says(masses: list[float]) -> None:
    mass = np.array(masses) / np.sum(masses)
    table = ThresholdTable.of(Law(-3, mass, slack=1e-15))
    firsts = [int(first) for first in table._firsts] + [2**64]
    drawn = dict(
        zip(table._outcomes.tolist(), np.diff(np.array(firsts, dtype=object)), strict=True)
    )
    exact = [Fraction(p) for p in mass]
    variation = sum(
        abs(Fraction(drawn.get(i - 3, 0), 2**64) - p / sum(exact)) for i, p in enumerate(exact)
    )
    assert variation / 2 <= table.total_variation < 1e-10
    assert sum(drawn.values()) == 2**64


@pytest.mark.parametrize("p", [Fraction(1, 3), Fraction(999, 1000), Fraction(1, 2**60)])
@pytest.mark.parametrize("trials", [1, 10, pytest.param(700, marks=pytest.mark.slow)])
def test_binomial_table_is_as_near_as_it_says(trials: int, p: Fraction) -> None:
    drawn = table(binomial_law, trials, p)
    firsts = [int(first) for first in drawn._firsts] + [2**64]
    weights = dict(zip(drawn._outcomes.tolist(), np.diff(np.array(firsts, object)), strict=True))
    variation = sum(
        abs(exactly(Fraction(weights.get(k, 0), 2**64)) - binomial_mass(trials, p, k))
        for k in range(trials + 1)
    )
    assert variation / 2 <= drawn.total_variation < 1e-9


def test_binomial_of_a_billion() -> None:
    trials, p = 10**9, Fraction(731, 1000)
    assert table(binomial_law, trials, p).total_variation < 1e-8
    drawn = binomial(SeededSource(7), trials, p, 100_000)
    z = (drawn - float(trials * p)) / float(trials * p * (1 - p)) ** 0.5
    assert abs(z.mean()) < 5 / 100_000**0.5
    assert abs(z.var() - 1) < 5 * (2 / 100_000) ** 0.5


def test_binomial_of_more_than_a_table_holds() -> None:
    trials, p = 2**40 + 12345, Fraction(1, 3)
    drawn = binomial(SeededSource(12), trials, p, 500)
    z = (drawn - float(trials * p)) / float(trials * p * (1 - p)) ** 0.5
    assert abs(z.mean()) < 5 / 500**0.5
    assert 0.7 < z.var() < 1.4


def test_degenerate_binomials() -> None:
    source = SeededSource(8)
    assert binomial(source, 5, Fraction(0), 3).tolist() == [0, 0, 0]
    assert binomial(source, 5, Fraction(1), 3).tolist() == [5, 5, 5]
    assert binomial(source, 0, Fraction(1, 3), 2).tolist() == [0, 0]


def test_multinomial_has_its_law() -> None:
    weights, trials = [1, 2, 0, 3], 4
    source = SeededSource(9)
    seen = Counter(tuple(multinomial(source, trials, weights).tolist()) for _ in range(20_000))
    law = {}
    for counts in itertools.product(range(trials + 1), repeat=4):
        if sum(counts) == trials:
            ways = factorial(trials)
            chance = Fraction(1)
            for count, weight in zip(counts, weights, strict=True):
                ways //= factorial(count)
                chance *= Fraction(weight, 6) ** count
            law[counts] = float(ways * chance)
    law = {counts: chance for counts, chance in law.items() if chance}
    assert log_likelihood_ratio(seen, law)[1] > ALARM
    for wrong in ([], [0, 0], [-1, 2]):
        with pytest.raises(InvalidParameter):
            multinomial(source, 3, wrong)


# Discrete Laplace ---------------------------------------------------------------------------

RATES = [Fraction(1, 40), Fraction(1, 3), Fraction(0.7), Fraction(3), Fraction(20)]


@pytest.mark.parametrize("large", [1, 14])  # with 1, many numbers have a part beyond the digits
@pytest.mark.parametrize("rate", RATES, ids=str)
@pytest.mark.parametrize("at_once", [False, True])
def test_discrete_laplace_law(
    rate: Fraction, large: int, at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(laplace, "_LARGE", large)
    source = SeededSource(10)
    pieces = [60_000] if at_once else [600] * 100  # few numbers are drawn in another way
    drawn = Counter(
        np.concatenate([laplace.discrete_laplace(source, rate, n) for n in pieces]).tolist()
    )
    reach = range(-1500, 1501)
    law = {z: float(geometric_mass(float(rate), z)) for z in reach}
    assert log_likelihood_ratio(drawn, law)[1] > ALARM
    if rate < 10:  # otherwise nearly all are 0
        wrong = {z: float(geometric_mass(float(rate) * 1.08, z)) for z in reach}
        assert log_likelihood_ratio(drawn, wrong)[1] < ALARM


def test_digits_of_geometric_numbers_have_their_exact_probabilities() -> None:
    """The law of three digits and a part beyond them is geometric, to sixty digits."""
    with mpmath.workdps(60):
        a = mpmath.exp(-exactly(Fraction(2, 7)))
        ones = [1 / (1 + a ** -(2**place)) for place in range(3)]
        for number in range(20):
            high, low = divmod(number, 8)
            mass = (1 - a**8) * a ** (8 * high)
            for place, one in enumerate(ones):
                mass *= one if low >> place & 1 else 1 - one
            assert mpmath.almosteq(mass, (1 - a) * a**number, rel_eps=mpmath.mpf(10) ** -55)


@pytest.mark.parametrize("rate", [*RATES, Fraction(1, 2**60), Fraction(500)], ids=str)
@pytest.mark.parametrize("digits", [64, 128, 320])
def test_coins_know_their_binary_digits(rate: Fraction, digits: int) -> None:
    with mpmath.workdps(150 + int(rate)):
        power = mpmath.exp(exactly(rate))
        for plus in (0, 1):
            expected = int(mpmath.floor(mpmath.mpf(2) ** digits / (power + plus)))
            assert laplace._binary(rate, plus, digits) == expected


@pytest.mark.parametrize("step", [-1, 0, 1])
def test_a_coin_of_any_bias_is_decided_by_all_its_digits(step: int) -> None:
    binary = {d: 2**d // 3 for d in (64, 128, 192)}  # one third
    first, second, third = (binary[d] % 2**64 for d in (64, 128, 192))
    uniform_words = words((first & (2**56 - 1)) << 8, second, third + step)
    script = Scripted(np.array([first >> 56], dtype=np.uint8), uniform_words)
    if step == 0:  # still equal, so one more word is asked for
        with pytest.raises(AssertionError, match="more bits asked for"):
            real_bernoulli(script, 1, binary.__getitem__)
    else:
        assert real_bernoulli(script, 1, binary.__getitem__).tolist() == [int(step < 0)]


@pytest.mark.parametrize("step", [-1, 1])
def test_ties_of_few_numbers_are_decided_by_further_digits(step: int) -> None:
    rate = Fraction(20)  # only the coin of the part beyond all digits is tossed
    first = laplace._binary(rate, 0, 64)
    second = laplace._binary(rate, 0, 128) % 2**64
    ended = np.array([255], dtype=np.uint8)  # the next coin fails
    script = Scripted(words(first), words(second + step), ended)
    assert laplace.geometric(script, rate, 1).tolist() == [int(step < 0)]


def test_huge_noise_is_made_of_python_integers() -> None:
    drawn = laplace.discrete_laplace(SeededSource(3), Fraction(1, 2**70), 1000)
    assert drawn.dtype == object
    spread = np.mean(np.abs(drawn / 2**70).astype(float))
    assert abs(spread - 1) < 0.2  # the mean of 1,000 exponential numbers


def test_law_of_binomial_is_where_tables_come_from() -> None:
    law = binomial_law(10, Fraction(1, 4))
    table = ThresholdTable.of(law)
    drawn = Counter(table.sample(SeededSource(11), 100_000).tolist())
    exact = {k: float(binomial_mass(10, Fraction(1, 4), k)) for k in range(11)}
    assert log_likelihood_ratio(drawn, exact)[1] > ALARM
    shifted = {k + 1: p for k, p in exact.items()}
    assert log_likelihood_ratio(drawn, shifted)[1] < ALARM


FINE_WEIGHTS = [3, 2**128 - 3 - 5 - 2**70, 5, 2**70]


@pytest.mark.parametrize(
    ("top", "bottom", "outcome"),
    [
        (0, 2, 0),  # the first three of 2^128
        (0, 3, 1),
        (1, None, 1),
        (2**64 - 65, 2**64 - 6, 1),  # the last before the five
        (2**64 - 65, 2**64 - 5, 2),
        (2**64 - 65, 2**64 - 1, 2),
        (2**64 - 64, 0, 3),
        (2**64 - 1, None, 3),
    ],
)
def test_fine_table_decides_by_all_128_bits(top: int, bottom: int | None, outcome: int) -> None:
    table = ThresholdTable(FINE_WEIGHTS, start=0)
    script = Scripted(words(top), words() if bottom is None else words(bottom))
    assert table.sample(script, 1).tolist() == [outcome]
    assert script.left == b""
    assert sum(table.law.values()) == 1
    assert table.law[0] == Fraction(3, 2**128)


def test_fine_table_by_its_guide() -> None:
    """Many draws at once, including frequent outcomes but none that is too rare."""
    weights = [2**127, 2**126, 2**126 - 7, 7]
    drawn = ThresholdTable(weights).sample(SeededSource(5), 200_000)
    law = {i: weight / 2**128 for i, weight in enumerate(weights)}
    assert log_likelihood_ratio(Counter(drawn.tolist()), law)[1] > 1e-6
    edge = ThresholdTable([2**112 + 1, 2**128 - 2**112 - 1])
    assert edge._guide[0] == 0  # all of the first sixteenth bits
    assert edge._guide[1] == -1  # its first word is undecided: one of 2^128 belongs to 0
    assert edge._guide[2] == 1


@pytest.mark.parametrize("further", [0, 1, 2**64 - 1])
def test_bernoulli_decides_by_all_128_bits(further: int) -> None:
    # Probability (2^64 + 1)/2^128: ties in the first 64 bits are decided by the last.
    for first, last, expected in ((0, None, 1), (1, further, further < 1), (2, None, 0)):
        more = words() if last is None else words(last)
        # A top byte of 0 ties with that of the weight.
        script = Scripted(np.zeros(1, np.uint8), words(first << 8), more)
        assert bernoulli(script, 1, 2**64 + 1, bits=128).tolist() == [int(expected)]
        assert script.left == b""


def test_successes_are_where_bernoulli_has_ones() -> None:
    for count, weight in ((0, 5), (10, 2**63), (300_000, 2**60), (2**18, 2**50), (70, 2**64)):
        ones = bernoulli(SeededSource(3), count, weight)
        assert np.array_equal(successes(SeededSource(3), count, weight), np.flatnonzero(ones))


@pytest.mark.parametrize(
    ("table", "law"),
    [
        (negative_binomial_share(Fraction(1, 7), Fraction(0.4)), stats.nbinom(1 / 7, 0.6)),
        (
            negative_binomial_share(Fraction(17.1) / 100, Fraction(0.946)),
            stats.nbinom(0.171, 0.054),
        ),
        (poisson_share(Fraction(3, 7)), stats.poisson(3 / 7)),
        (poisson_share(Fraction(40)), stats.poisson(40)),
    ],
)
def test_shares_have_their_law(table: ThresholdTable, law: Any) -> None:
    assert sum(table.law.values()) == 1
    assert table.total_variation < 1e-34
    for outcome, chance in list(table.law.items())[:60]:
        assert float(chance) == pytest.approx(law.pmf(outcome), rel=1e-9)
    drawn = Counter(table.sample(SeededSource(2), 100_000).tolist())
    shown = {k: float(chance) for k, chance in table.law.items()}
    assert log_likelihood_ratio(drawn, shown)[1] > 1e-6


def test_nonzero_draws_are_decided_by_all_bits() -> None:
    """Only draws whose first byte may mean another outcome than 0 are completed."""
    zeros = 250 * 2**120 + 7  # the first byte 250 is undecided
    table = ThresholdTable([zeros, 2**122, 2**128 - 2**122 - zeros])
    ends = (zeros, zeros + 2**122)
    uniforms = [ends[0] - 1, ends[0], 252 * 2**120, ends[1] - 1, ends[1], 2**128 - 1]
    firsts = np.full(5000, 255, dtype=np.uint8)
    positions = np.array([0, 17, 18, 255, 4000, 4999])
    firsts[positions] = 5  # below 6, the number of first bytes that are not surely 0
    firsts[1] = 6  # equals the threshold, which needs more bits to be decided
    tops = words(*((one >> 120) - 250 for one in uniforms))
    rest = words(*((one >> 64) % 2**56 << 8 for one in uniforms))
    # The uniform numbers next to a threshold need all 128 bits.
    last = words(*(one % 2**64 for one in uniforms if one >> 64 in (ends[0] >> 64, ends[1] >> 64)))
    script = Scripted(firsts, words(0), tops, rest, last)
    where, outcomes = table.sample_nonzero(script, 5000)
    assert script.left == b""
    expected = [sum(one >= end for end in ends) for one in uniforms]
    assert expected == [0, 1, 1, 1, 2, 2]
    assert where.tolist() == positions[1:].tolist()
    assert outcomes.tolist() == expected[1:]


@pytest.mark.parametrize("mean", [0.0009, 0.05, 0.13, 0.3, 2.0, 40.0])
@pytest.mark.parametrize("count", [3000, 300_000])
def test_nonzero_draws_have_their_law(mean: float, count: int) -> None:
    table = poisson_share(Fraction(mean))
    where, outcomes = table.sample_nonzero(SeededSource(8), count)
    assert (np.diff(where) > 0).all()
    assert 0 <= where[0] <= where[-1] < count
    assert (outcomes > 0).all()
    drawn = Counter(outcomes.tolist())
    drawn[0] = count - len(outcomes)
    law = {k: float(chance) for k, chance in table.law.items()}
    assert log_likelihood_ratio(drawn, law)[1] > ALARM
    # Positions are uniform: each tenth of them has its share.
    tenths = Counter((where * 10 // count).tolist())
    assert log_likelihood_ratio(tenths, dict.fromkeys(range(10), 0.1))[1] > ALARM
    if count * mean > 1000:
        wrong = {k: float(chance) for k, chance in poisson_share(Fraction(mean * 1.3)).law.items()}
        assert log_likelihood_ratio(drawn, wrong)[1] < ALARM


@pytest.mark.parametrize("count", [10, 10_000])
def test_draws_owe_what_their_table_is_off(count: int) -> None:
    table = poisson_share(Fraction(1, 100))
    for draw in (table.sample, table.sample_nonzero):
        source = sources.Owing(SeededSource(1))
        draw(source, count)
        assert source.owed == count * table.total_variation > 0


def test_nonzero_draws_of_other_tables() -> None:
    """A table whose outcomes are all 0, and tables whose first outcome is not 0."""
    where, outcomes = ThresholdTable([2**64]).sample_nonzero(SeededSource(1), 10_000)
    assert not len(where)
    assert not len(outcomes)
    where, outcomes = ThresholdTable([2**64], start=3).sample_nonzero(SeededSource(1), 10_000)
    assert where.tolist() == list(range(10_000))
    assert (outcomes == 3).all()
    signs = ThresholdTable([2**62, 2**63, 2**62], start=-1)
    where, outcomes = signs.sample_nonzero(SeededSource(1), 10_000)
    drawn = Counter(outcomes.tolist())
    drawn[0] = 10_000 - len(where)
    assert log_likelihood_ratio(drawn, {-1: 0.25, 0: 0.5, 1: 0.25})[1] > ALARM


@pytest.mark.parametrize("people", [1, 7, 1000])
def test_shares_add_up(people: int) -> None:
    """NB(r/n, p) to 45 digits: n of them have exactly the mean and the variance of NB(r, p)."""
    r, p = Fraction(5, 2), Fraction(0.7)
    law = negative_binomial_share(r / people, p).law
    mean = sum(k * chance for k, chance in law.items())
    square = sum(k * k * chance for k, chance in law.items())
    assert abs(people * mean - r * p / (1 - p)) < Fraction(1, 10**30)
    assert abs(people * (square - mean**2) - r * p / (1 - p) ** 2) < Fraction(1, 10**28)


class _Digits(Source):
    """Bits that count upward: uniform number i has the binary digits of i, first digit first.

    They are in the order in which `packed_bernoulli` reads them: a row of words for each digit of a
    piece, then a row of the remaining words for each further digit.
    """

    def __init__(self, digits: int) -> None:
        self.digits = digits

    def fill(self, buffer: NDArray[Any]) -> None:
        words = buffer.view(np.uint64)
        rows = words.reshape(self.digits, -1)
        numbers = np.arange(64 * rows.shape[1]) % 2**self.digits
        for place in range(self.digits):
            bits = (numbers >> (self.digits - 1 - place)) & 1
            rows[place] = np.packbits(bits.astype(np.uint8), bitorder="little").view(np.uint64)


@pytest.mark.parametrize("digits", [1, 2, 5, pytest.param(9, marks=pytest.mark.slow)])
def test_packed_bits_of_few_digits_are_exact(digits: int) -> None:
    """Of all possible numbers, exactly `weight` are below the threshold."""
    for weight in range(1, 2**digits, 2):
        packed = packed_bernoulli(_Digits(digits), 1024, weight << (64 - digits))
        bits = np.unpackbits(packed, bitorder="little").reshape(-1, 2**digits)
        assert (bits.sum(axis=1) == weight).all()


@pytest.mark.parametrize(
    "weight", [1 << 60, 3 << 61, WHOLE // 3, int(WHOLE / (1 + e)), WHOLE - 12345, 1 << 54]
)
def test_packed_bits_have_their_law_and_no_other(weight: int) -> None:
    size = 1_000_003
    packed = packed_bernoulli(SeededSource(17), size, weight)
    assert packed.shape == (size,)
    p, n = weight / WHOLE, 8 * size
    ones = int(np.bitwise_count(packed).sum(dtype=np.int64))
    assert abs(ones - n * p) < 5.5 * sqrt(n * p * (1 - p)) + 1
    # Whole bytes show that neighbors are independent. A different probability is noticed.
    seen = np.bincount(packed, minlength=256)
    law = {byte: p ** byte.bit_count() * (1 - p) ** (8 - byte.bit_count()) for byte in range(256)}
    observed = +Counter(dict(enumerate(seen.tolist())))
    assert log_likelihood_ratio(observed, law)[1] > ALARM
    if 0.05 < p < 0.95:
        assert abs(ones - n * p * 1.01) > 5.5 * sqrt(n * p * (1 - p))


def test_packed_bits_use_all_64_digits() -> None:
    """A probability that differs only in late digits gives a different number of ones."""
    size, base = 2**22, 1 << 62
    more = base + (1 << 54)  # 2^-10 more: the tenth digit
    few, many = (
        int(np.bitwise_count(packed_bernoulli(SeededSource(3), size, w)).sum(dtype=np.int64))
        for w in (base, more)
    )
    n = 8 * size
    assert abs(many - few - n / 1024) < 6 * sqrt(2 * n * 3 / 16)
    assert abs(many - n * more / WHOLE) < 5.5 * sqrt(n * 3 / 16)


def test_packed_bits_at_the_ends() -> None:
    assert not packed_bernoulli(SeededSource(1), 77, 0).any()
    assert (packed_bernoulli(SeededSource(1), 77, WHOLE) == 255).all()
    assert packed_bernoulli(SeededSource(1), 0, 12345).size == 0
    for weight in (-1, WHOLE + 1):
        with pytest.raises(InvalidParameter, match="weight/2"):
            packed_bernoulli(SeededSource(1), 8, weight)


@pytest.mark.parametrize("below", [1, 2, 3, 200, 256])
def test_small_uniform_numbers(below: int) -> None:
    drawn = uniform(SeededSource(4), 200_000, below, np.uint8)
    assert drawn.dtype == np.uint8
    observed = Counter(drawn.tolist())
    assert log_likelihood_ratio(observed, dict.fromkeys(range(below), 1 / below))[1] > ALARM
    with pytest.raises(InvalidParameter, match="`below` must be"):
        uniform(SeededSource(4), 2, 257, np.uint8)
