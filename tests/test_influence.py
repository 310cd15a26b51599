"""How far dishonest people can shift answers: figures, attacks, and what is said about them."""

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import headcount as hc
from manipulation import added, crowd_of_others, payload

BUDGET, CROWD = hc.Budget(1, 1e-6), hc.Crowd(10_000)
COUNT, SUM, HISTOGRAM, DENSITY = hc.Count(), hc.Sum(0, 1), hc.Histogram(10), hc.Density(0, 1)


def built(name: str, task: hc.Task, **options: Any) -> hc.Protocol:
    return hc.protocol(name, task, BUDGET, CROWD, **options)


# Figures -----------------------------------------------------------------------------------------

# For 10,000 people at epsilon = 1 and delta = 1e-6, 10 buckets and numbers from 0 to 1: s⁺, s⁻, and
# the shift by 1 % of people over the standard error.
FIXED_NUMBERS = [
    ("central.geometric", COUNT, 1, 0, 74),
    ("central.geometric", SUM, 1, 0, 71),
    ("central.geometric", HISTOGRAM, 1, 0, 38),
    ("central.laplace", COUNT, 1, 0, 71),
    ("local.randomized-response", COUNT, 1.58198, -0.581977, 1.6),
    ("local.one-bit-mean", SUM, 1.58198, -0.581977, 1.5),
    ("local.laplace-mean", SUM, 46, -45, 33),
    ("local.piecewise-mean", SUM, 2.56087, -1.56087, 2.3),
    ("local.hybrid-mean", SUM, 2.54425, -1.54425, 2.5),
    ("local.k-ary", HISTOGRAM, 6.23779, -0.581977, 2.2),
    ("local.unary-symmetric", HISTOGRAM, 2.54149, -1.54149, 1.3),
    ("local.unary-optimized", HISTOGRAM, 3.16395, -1.16395, 1.5),
    ("local.subset", HISTOGRAM, 3.61890, -0.779724, 1.7),
    ("local.density-histogram", DENSITY, 0.00242953, -0.000676512, 1.6),
    ("shuffle.randomized-response", COUNT, 1.00339, -0.00339445, 17),
    ("shuffle.amplified", COUNT, 1.00339, -0.00339445, 17),
    ("shuffle.zero-exact", COUNT, 1.00341, -0.996593, 17),
    ("shuffle.unary-sum", SUM, 1.15550, -0.155497, 27),
    ("shuffle.fixed-point-sum", SUM, 1.01643, -0.0164332, 8.3),
    ("shuffle.zero-exact-histogram", HISTOGRAM, 10, -1, 162),
    ("shuffle.k-ary", HISTOGRAM, 1.03664, -0.00407075, 5.4),
    ("shuffle.amplified", HISTOGRAM, 1.03664, -0.00407075, 5.4),
    ("shuffle.noisy-shuffler", COUNT, 1, 0, 74),
    ("shuffle.noisy-shuffler", hc.Sum(0, 1, whole=True), 1, 0, 74),
    ("shuffle.noisy-shuffler", HISTOGRAM, 1, 0, 41),
]


@pytest.mark.parametrize(
    ("name", "task", "up", "down", "ratio"),
    FIXED_NUMBERS,
    ids=lambda one: getattr(one, "name", str(one)),
)
def test_figures(name: str, task: hc.Task, up: float, down: float, ratio: float) -> None:
    influence = built(name, task).influence
    assert influence.up == pytest.approx(up, rel=5e-6)
    assert influence.down == pytest.approx(down, rel=5e-6)
    assert influence.of_share(0.01).up == pytest.approx(100 * up, rel=5e-6)
    digits = 1 if ratio < 10 else 0
    assert round(influence.of_share(0.01).up_over_error, digits) == ratio


def test_figures_of_bundles() -> None:
    """Whoever has K slots can fill all of them."""
    count, histogram = (
        built("shuffle.correlated", COUNT),
        built("shuffle.correlated-histogram", HISTOGRAM),
    )
    # The analyzer of a count subtracts the mean of the noise of each person, which has unequal
    # rates. In a histogram of 10 buckets, a message has 9/10 of its effect, and one more person
    # adds 1/10.
    rates = (count.parameters["epsilon_plus"], count.parameters["epsilon1"])
    plus, minus = (1 / math.expm1(rate) / CROWD.honest for rate in rates)
    assert 1e-6 < minus - plus < 1e-4
    for protocol, each, more in ((count, 1.0, minus - plus), (histogram, 0.9, 0.1)):
        slots, influence = protocol.slots, protocol.influence
        assert influence.messages == slots
        assert influence.up - each * slots == pytest.approx(more, rel=1e-6)
        assert influence.down + each * slots == pytest.approx(more, rel=1e-6)
    total = built("shuffle.correlated-sum", SUM)
    levels = total.parameters["levels"]
    assert total.influence.up == pytest.approx(total.slots)
    assert total.influence.down == pytest.approx(-total.slots * math.ceil(levels / 2) / levels)
    fake = built("shuffle.fake-users", HISTOGRAM)
    noise = fake.parameters["noise_per_bucket"] / CROWD.honest
    assert noise == pytest.approx(0.00426586, rel=1e-5)
    assert fake.influence.up == pytest.approx(0.9 * fake.slots + 0.1)
    assert fake.influence.down == pytest.approx(-0.1 * fake.slots + 0.1)
    bins = built("shuffle.density-histogram", DENSITY)
    number = bins.parameters["bins"]
    # A message has (K−1)/K of its effect on one of K bins, and one more person adds 1/K.
    most = (bins.slots * (number - 1) + 1) / number
    assert (bins.slots, number) == (9, 30)
    assert bins.influence.up == pytest.approx(number / CROWD.users * most) == 0.0262
    # That is less than without the known number of people: K − μ/h in one bin.
    noise = bins.parameters["noise_per_bucket"] / CROWD.honest
    alone = number / CROWD.users * (bins.slots - noise)
    assert alone == pytest.approx(0.0269872, rel=5e-6)
    others, users = next(crowd_of_others(bins))
    shift = added(bins, others, users, payload(bins, [(7,)] * 9))
    assert shift.max() == pytest.approx(bins.influence.up, rel=1e-9)


def test_split_and_mix_is_in_one_persons_hands() -> None:
    influence = built("shuffle.split-and-mix", SUM).influence
    assert influence.any_answer
    assert influence.up == pytest.approx(19820.9, abs=0.05)
    assert influence.down == pytest.approx(-9820.86, abs=0.005)
    assert influence.lost_message == math.inf
    assert influence.to_dict()["lost_message"] is None
    assert influence.of_share(0.01).up == influence.up
    assert str(influence) == "one dishonest person can make the answer any number"
    assert "the answer becomes useless" in str(influence.table())


def test_a_threshold_makes_one_message_count_for_many() -> None:
    influence = built("shuffle.sample-threshold", HISTOGRAM).influence
    assert influence.each_more == pytest.approx(3.16010, rel=5e-6)
    assert influence.up == pytest.approx(56.8817, rel=5e-6)
    assert influence.down == 0  # nobody can take another's message away
    assert influence.lost_message == influence.up
    # An honest person sends with probability 1/3.1601, and then adds 56.8817.
    assert influence.down_against_honesty == pytest.approx(56.8817 / 3.16010, rel=1e-5)
    hundred = influence.of_share(0.01)
    assert hundred.up == pytest.approx(influence.up + 99 * influence.each_more)
    assert round(100 * influence.each_more / influence.standard_error, 1) in (2.1, 2.2)


def test_signs_of_a_series_agree_with_one_place() -> None:
    """B·max Σ|φ_j(s)|/n, where 4,096 points are nearer to the worst s than 256."""
    series = built("local.density-series", hc.Density(0, 1, points=4096))
    terms = int(series.parameters["terms"])
    lie = mp.mpf(series.parameters["lie_probability"])
    central = mp.binomial(terms - 1, terms // 2) / mp.mpf(2) ** (terms - 1)
    amplitude = mp.sqrt(2) / (central * (1 - 2 * lie))

    def size(place: mp.mpf) -> mp.mpf:
        waves = [
            (mp.cos if j % 2 == 0 else mp.sin)(2 * mp.pi * (j // 2 + 1) * place)
            for j in range(terms)
        ]
        return mp.sqrt(2) * sum(abs(wave) for wave in waves)

    worst = max(size((i + mp.mpf("0.5")) / 4096) for i in range(4096))
    up = float(amplitude * worst / CROWD.users)
    assert series.influence.up == pytest.approx(up, rel=1e-9)
    assert up == pytest.approx(0.00676802, rel=5e-6)
    assert series.influence.down == -series.influence.up


@pytest.mark.parametrize(
    ("name", "task", "up", "down"),
    [
        ("local.randomized-response", COUNT, 1.58198, 1.58198),
        ("shuffle.zero-exact", COUNT, 1.00341, 1.99659),
        ("central.geometric", COUNT, 1, 1),
    ],
)
def test_against_honesty(name: str, task: hc.Task, up: float, down: float) -> None:
    influence = built(name, task).influence
    assert influence.up_against_honesty == pytest.approx(up, rel=5e-6)
    assert influence.down_against_honesty == pytest.approx(down, rel=5e-6)


def test_units_are_those_of_the_answer() -> None:
    """A sum from 18 to 90 has 72 times the shifts of one from 0 to 1, from 18 on."""
    unit = built("local.one-bit-mean", SUM).influence
    total = built("local.one-bit-mean", hc.Sum(18, 90)).influence
    assert total.up == pytest.approx(18 + 72 * unit.up)
    assert total.down == pytest.approx(18 + 72 * unit.down)
    assert total.up_against_honesty == pytest.approx(72 * unit.up_against_honesty)
    mean = built("local.one-bit-mean", hc.Mean(18, 90)).influence
    assert mean.up == pytest.approx(72 * unit.up / 10_000)
    assert mean.down == pytest.approx(72 * unit.down / 10_000)
    assert mean.down_against_honesty == pytest.approx(total.down_against_honesty / 10_000)


def test_some_shift_all_buckets_at_once() -> None:
    everywhere = {
        name: built(name, HISTOGRAM).influence.all_at_once for name in hc.protocol_names(HISTOGRAM)
    }
    assert {name for name, all_of_them in everywhere.items() if all_of_them} == {
        "local.unary-symmetric",
        "local.unary-optimized",
        "shuffle.split-and-mix",  # and to any number
    }


def test_without_bundles_nothing_is_bounded() -> None:
    """If no size of bundles keeps delta, a person may send any number of messages."""
    protocol = hc.protocol("shuffle.correlated", COUNT, hc.Budget(1, 1e-6), hc.Crowd(1000))
    object.__setattr__(protocol.randomizer, "overflow", lambda slots: 1.0)
    influence = protocol.influence
    assert (influence.up, influence.down) == (math.inf, -math.inf)
    assert influence.to_dict()["up"] is None
    assert "any number of messages" in str(influence)


def test_hashes_that_are_not_the_same_for_all_buckets() -> None:
    """With 16 numbers of 4 bits, two buckets have the same parity with chance 7/15."""
    e = math.e
    for name, values, same in (("local.hashing", 4, 7 / 30), ("local.hadamard", 2, 7 / 15)):
        truth, lie = e / (e + values - 1), 1 / (e + values - 1)
        other = same * truth + (1 - same) * lie
        influence = built(name, HISTOGRAM).influence
        assert influence.up == pytest.approx((1 - other) / (truth - other), rel=1e-9)
        assert influence.down == pytest.approx(-other / (truth - other), rel=1e-9)


@pytest.mark.parametrize(
    ("name", "row"), [("local.hashing", (1, 16 + 1, 3)), ("local.hadamard", (2 * 8,))]
)
def test_a_chosen_hash_supports_half_of_all_numbers(name: str, row: tuple[int, ...]) -> None:
    """A hash by the last bit of four: buckets 0 to 7 of 10 are shifted at once, and not 8 and 9."""
    protocol = built(name, HISTOGRAM)
    others, users = next(crowd_of_others(protocol))
    shift = added(protocol, others, users, payload(protocol, [row]))
    up, down = protocol.influence.up, protocol.influence.down
    assert shift == pytest.approx(np.array([up] * 8 + [down] * 2), rel=1e-9)


# Attacks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "task", "message", "end"),
    [
        ("local.laplace-mean", SUM, -1, "up"),
        ("local.laplace-mean", SUM, 0, "down"),
        ("local.k-ary", HISTOGRAM, 3, "up"),
        ("shuffle.zero-exact", COUNT, 1, "up"),
        ("shuffle.correlated", COUNT, 1, "up"),
        ("shuffle.correlated", COUNT, -1, "down"),
        ("shuffle.correlated-histogram", HISTOGRAM, 7, "down"),
        ("shuffle.fake-users", HISTOGRAM, 4, "up"),
        ("shuffle.zero-exact-histogram", HISTOGRAM, 4, "up"),
        ("shuffle.unary-sum", SUM, 1, "up"),
        ("shuffle.k-ary", HISTOGRAM, 2, "up"),
    ],
)
def test_attacks_attain_the_bounds(name: str, task: hc.Task, message: int, end: str) -> None:
    protocol = built(name, task)
    column = protocol.alphabet.columns[0]
    row = column[-1] if name == "local.laplace-mean" and message < 0 else message
    bundle = payload(protocol, [(row,)] * int(protocol.influence.messages))
    others, users = next(crowd_of_others(protocol))
    shift = added(protocol, others, users, bundle)
    extreme = shift.max() if end == "up" else shift.min()
    assert extreme == pytest.approx(getattr(protocol.influence, end), rel=1e-9)


@pytest.mark.parametrize(
    ("name", "task"), [("shuffle.correlated", COUNT), ("shuffle.correlated-histogram", HISTOGRAM)]
)
def test_attacks_with_capped_noise_attain_the_bounds(name: str, task: hc.Task) -> None:
    protocol = hc.protocol(name, task, hc.Budget(1, 1e-3), hc.Crowd(300), max_slots=9)
    assert protocol.influence.messages == 9
    others, users = next(crowd_of_others(protocol))
    first = protocol.alphabet.columns[0]
    shifts = [added(protocol, others, users, payload(protocol, [(row,)] * 9)) for row in first[:2]]
    assert np.max(shifts) == pytest.approx(protocol.influence.up, rel=1e-12)
    assert np.min(shifts) == pytest.approx(protocol.influence.down, rel=1e-12)


@pytest.mark.parametrize("name", ["local.unary-symmetric", "local.unary-optimized"])
def test_all_ones_shift_all_buckets_at_once(name: str) -> None:
    protocol = built(name, HISTOGRAM)
    others, users = next(crowd_of_others(protocol))
    for row, end in (((255, 3), protocol.influence.up), ((0, 0), protocol.influence.down)):
        shift = added(protocol, others, users, payload(protocol, [row]))
        assert shift == pytest.approx(np.full(10, end), rel=1e-9)


@pytest.mark.parametrize("smoothness", [1, 2, 3.5])
@pytest.mark.parametrize(
    "histogram", ["local.k-ary", "local.unary-optimized", "local.subset", "central"]
)
def test_polynomials_through_bins(smoothness: float, histogram: str) -> None:
    """Weights of bins may be negative. All subsets of bins that a report can support are tried."""
    task = hc.Density(0, 2, smoothness, points=24)
    if histogram == "central":
        protocol = hc.protocol("central.geometric", task, BUDGET, hc.Crowd(500), bins=6)
        rows = [(bucket,) for bucket in range(6)]
    else:
        protocol = hc.protocol(
            "local.density-histogram", task, BUDGET, hc.Crowd(500), bins=6, histogram=histogram
        )
        rows = [(code,) for code in protocol.alphabet.columns[0]]
    others, users = next(crowd_of_others(protocol))
    up, down = -math.inf, math.inf
    for row in rows:
        try:
            shift = added(protocol, others, users, payload(protocol, [row]))
        except hc.InvalidValue:
            continue
        up, down = max(up, shift.max()), min(down, shift.min())
    assert protocol.influence.up == pytest.approx(up, rel=1e-9)
    assert protocol.influence.down == pytest.approx(down, rel=1e-9, abs=1e-12)


# Protocols from outside --------------------------------------------------------------------------


class Lopsided(hc.MatrixProtocol):
    name = "local.lopsided"
    tasks = (hc.Histogram,)

    def matrix(self) -> list[list[int]]:
        return [[5, 2, 2, 1], [3, 4, 2, 1], [2, 2, 3, 3]]


def test_a_matrix_from_outside() -> None:
    """Each message shifts each bucket by its own number: a(j,y) + 1/k by exact arithmetic."""
    protocol = Lopsided(hc.Histogram(3), hc.Budget(2), hc.Crowd(300))
    rows = mp.matrix([[5, 2, 2, 1], [3, 4, 2, 1], [2, 2, 3, 3]]) / 10
    means = [sum(rows[x, y] for x in range(3)) / 3 for y in range(4)]
    # The least-squares estimate of counts with weights 1/μ, which is unbiased.
    weights = mp.diag([1 / mean for mean in means])
    inverse = (rows * weights * rows.T) ** -1 * rows * weights
    shifts = [float(inverse[j, y]) for j in range(3) for y in range(4)]
    assert protocol.influence.up == pytest.approx(max(shifts), rel=1e-6)
    assert protocol.influence.down == pytest.approx(min(shifts), rel=1e-6)
    others, users = next(crowd_of_others(protocol))
    found = [added(protocol, others, users, payload(protocol, [(y,)])) for y in range(4)]
    assert np.max(found) == pytest.approx(protocol.influence.up, rel=1e-9)
    assert np.min(found) == pytest.approx(protocol.influence.down, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("task", [COUNT, SUM, HISTOGRAM], ids=str)
def test_amplified_protocols_have_the_influence_of_the_local_one(task: hc.Task) -> None:
    for local in hc.protocol_names(task, hc.Trust.LOCAL):
        amplified = built("shuffle.amplified", task, local=local)
        epsilon = amplified.parameters["local_epsilon"]
        alone = hc.protocol(local, task, hc.Budget(epsilon), CROWD).influence
        assert (amplified.influence.up, amplified.influence.down) == (alone.up, alone.down)


@pytest.mark.parametrize(
    ("name", "duties"),
    [
        ("central.geometric", "none"),
        ("local.randomized-response", "none"),
        ("shuffle.zero-exact", "mix"),
        ("shuffle.noisy-shuffler", "mix and add dummies"),
    ],
)
def test_duties_of_the_shuffler(name: str, duties: str) -> None:
    protocol = hc.protocol(name, hc.Count(), hc.Budget(1, 1e-6), hc.Crowd(1000))
    assert protocol.shuffler_duties == duties


def test_a_shuffler_withholds_rare_messages() -> None:
    task, crowd = hc.Histogram(3), hc.Crowd(1000)
    protocol = hc.protocol("shuffle.sample-threshold", task, hc.Budget(1, 1e-6), crowd)
    assert protocol.shuffler_duties == "mix and withhold"
