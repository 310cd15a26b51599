"""Two-way tables and shares among buckets, judged by enumeration and by simulated crowds."""

import itertools
import json
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pyarrow
import pytest
from numpy.typing import NDArray
from pyarrow import parquet
from scipy import stats

import headcount as hc
from commands import Headcount
from enumeration import log_likelihood_ratio
from headcount.core.share_tables import ShareTable
from headcount.protocols.central.fitted_table import Fit
from headcount.protocols.geometric_error import GeometricError
from headcount.protocols.shuffle.fake_users import PoissonError

ALARM = 1e-6
TOTALS, CELLS = "central.margins", "central.summed-cells"
LATE = ("shuffle.k-ary", "shuffle.amplified")  # their calibration takes long
REGIONS, ANSWERS = ["north", "south"], ["yes", "no", "none"]
TASK = hc.Table(REGIONS, ANSWERS)
COUNTS = np.array([[120, 300, 40], [90, 400, 50]])


def released(epsilon: float, counts: list[float], task: hc.Task | None = None) -> hc.Estimate:
    """A central answer with these numbers, and with independent geometric noise of rate ε/2."""
    protocol = hc.protocol(
        "central.geometric", task or hc.Histogram(len(counts)), hc.Budget(epsilon), hc.Crowd(10**6)
    )
    made = protocol.estimate(protocol.simulate(protocol.task.example(10**6), hc.SeededSource(1)))
    law = GeometricError(epsilon / 2)
    return replace(made, value=np.array(counts, dtype=np.float64), error_law=law)


def noise(rate: float, reach: int) -> NDArray[np.float64]:
    """P(Z = z) for z from −reach to reach, of two-sided geometric noise."""
    z = np.abs(np.arange(-reach, reach + 1))
    return math.tanh(rate / 2) * np.exp(-rate * z)


def reached(rate: float, share: float, statistic: float) -> float:
    """P(|(1−θ)Z − θZ'| ≥ |T|), with ties."""
    mass, z = noise(rate, 150), np.arange(-150, 151)
    sums = np.abs((1 - share) * z[:, None] - share * z)
    return float((np.outer(mass, mass) * (sums >= abs(statistic) - 1e-9)).sum())


# Shares among buckets ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "yes", "no", "low", "high"),
    [
        (1.0, 300, 500, 0.369674, 0.380299),
        (1.0, 12, 20, 0.228571, 0.5),
        (0.5, 12, 20, 0.0, 0.642857),
        (1.0, 3, 4, 0.0, 1.0),
        (0.5, 3, 4, 0.0, 1.0),
    ],
)
def test_share_among_those_who_answered(
    epsilon: float, yes: int, no: int, low: float, high: float
) -> None:
    """The third bucket has those who did not answer."""
    found = hc.share(released(epsilon, [yes, no, 77]), 0, among=[0, 1])
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high), abs=6e-7)
    assert found.value == pytest.approx(yes / (yes + no))
    assert found.method == "exact law of the noise"


@pytest.mark.parametrize(
    ("epsilon", "yes", "no", "expected"),
    [(1.0, 300, 500, 0.952745), (1.0, 12, 20, 0.952745), (0.5, 3, 4, 0.951082)],
)
def test_test_behind_a_share_has_its_level(
    epsilon: float, yes: int, no: int, expected: float
) -> None:
    """The judge of the next test: the probability that the true share is not rejected."""
    rate, share, reach = epsilon / 2, yes / (yes + no), 100
    mass, z = noise(rate, reach), np.arange(-reach, reach + 1)
    statistics = np.abs((1 - share) * z[:, None] - share * z)
    weights = np.outer(mass, mass).ravel()
    order = np.argsort(-statistics.ravel(), kind="stable")
    ordered, above = statistics.ravel()[order], np.cumsum(weights[order])
    last = np.searchsorted(-ordered, -ordered + 1e-9, side="right") - 1  # ties count
    kept = weights[order][above[last] > 0.05].sum()
    assert kept == pytest.approx(expected, abs=2e-6)


def test_a_share_contains_what_its_test_does_not_reject() -> None:
    yes, no, rate = 12, 20, 0.5
    truth = yes / (yes + no)
    for a, b in itertools.product((-9, 0, 11), repeat=2):
        found = hc.share(released(1.0, [yes + a, no + b, 5]), 0, among=[0, 1]).interval
        statistic = (1 - truth) * (yes + a) - truth * (no + b)
        if reached(rate, truth, statistic) > 0.05:
            assert found.low <= truth <= found.high
        for end, outside in ((found.low, -1e-6), (found.high, 1e-6)):
            share = end + outside
            if 0 < share < 1:
                left = (1 - share) * (yes + a) - share * (no + b)
                assert reached(rate, share, left) <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "yes", "no", "least"), [(1.0, 12, 20, 0.952745), (0.5, 3, 4, 0.951082)]
)
def test_shares_cover_the_crowd(epsilon: float, yes: int, no: int, least: float) -> None:
    """By enumeration of all noise but a probability of 1e-4. If nobody is estimated to answer, the
    interval is [0, 1]. In this case, we count whether the true share is possible.
    """
    reach = round(22 / epsilon)
    truth, mass = yes / (yes + no), noise(epsilon / 2, reach)
    covered = 0.0
    for a, b in itertools.product(range(-reach, reach + 1), repeat=2):
        weight = mass[a + reach] * mass[b + reach]
        if weight < 1e-9:
            continue
        found = hc.share(released(epsilon, [yes + a, no + b, 5]), 0, among=[0, 1]).interval
        if yes + a + no + b <= 0:
            assert (found.low, found.high) == (0, 1)
            statistic = (1 - truth) * (yes + a) - truth * (no + b)
            covered += weight * (reached(epsilon / 2, truth, statistic) > 0.05)
        else:
            covered += weight * (found.low <= truth <= found.high)
    assert least - 2e-4 <= covered <= 0.97


def test_shares_that_say_nothing_are_answers() -> None:
    found = hc.share(released(1.0, [-3.0, -2.0, 77.0]), 0, among=[0, 1])
    assert (found.interval.low, found.interval.high) == (0.0, 1.0)
    assert math.isnan(found.value)
    assert found.to_dict()["value"] is None
    assert json.dumps(found.to_dict())
    assert str(found) == "– (0.0 to 100.0)"
    # There is no share if the estimates say that nobody is in these buckets.
    nobody = hc.share(released(1.0, [-60.0, -1.0, 200.0]), 0, among=[0, 1]).interval
    assert (nobody.low, nobody.high) == (0.0, 1.0)
    # The interval is never empty, even if the noise is beyond what a test allows.
    far = hc.share(released(1.0, [-60.0, 900.0, 0.0]), 0, among=[0, 1]).interval
    assert (far.low, far.high) == (0.0, 0.0)


def test_share_of_everybody_uses_the_known_number_of_people() -> None:
    """Then only the noise of the counted buckets matters, and the interval is that of the count."""
    answer = released(1.0, [300_000.0, 500_000.0, 200_010.0])
    found, counted = hc.share(answer, 0), answer.interval()
    assert found.value == pytest.approx(0.3)
    assert found.interval.low == pytest.approx(counted.low[0] / 10**6, abs=1e-6)
    assert found.interval.high == pytest.approx(counted.high[0] / 10**6, abs=1e-6)


def test_several_buckets_share_with_several() -> None:
    """(1−θ)(Z1 + Z2) − θ(Z3 + Z4), by convolution."""
    answer = released(1.0, [30.0, 25.0, 41.0, 60.0, 9.0])
    found = hc.share(answer, [0, 1], among=[0, 1, 2, 3]).interval
    one, z = noise(0.5, 150), np.arange(-300, 301)
    two = np.convolve(one, one)
    for share, possible in (
        (found.low + 1e-6, True), (found.low - 1e-6, False),
        (found.high - 1e-6, True), (found.high + 1e-6, False),
    ):  # fmt: skip
        statistic = abs((1 - share) * 55 - share * 101)
        sums = np.abs((1 - share) * z[:, None] - share * z)
        chance = float((np.outer(two, two) * (sums >= statistic - 1e-9)).sum())
        assert (chance > 0.05) == possible


def test_wrong_shares_are_refused() -> None:
    answer = released(1.0, [30.0, 25.0, 41.0])
    for of, among in ((3, None), (0, [1, 2]), (0, []), ("a", None), ([], None), (0, [0, 9])):
        with pytest.raises(hc.InvalidParameter):
            hc.share(answer, of, among)
    count = hc.run(hc.protocol("central.geometric", hc.Count(), hc.Budget(1), hc.Crowd(3)), [0] * 3)
    with pytest.raises(hc.InvalidParameter, match="buckets of a histogram or table, or boxes, got"):
        hc.share(count, 0)
    # A person may tick several boxes, so boxes cannot be added up.
    boxes = hc.protocol("central.cube", hc.Boxes(["a", "b"]), hc.Budget(1), hc.Crowd(3))
    ticked = hc.run(boxes, [["a"], [], ["a", "b"]])
    for wrong in (
        {"of": ["a", "b"]},
        {"of": "a", "among": ["a", "b"]},
        {"of": "a", "without": "a"},
    ):
        with pytest.raises(hc.InvalidParameter, match="the share of a box must have one box"):
            hc.share(ticked, **wrong)
    with pytest.raises(hc.InvalidParameter, match="`without` must come with boxes"):
        hc.share(answer, 0, without=1)


# Populations -------------------------------------------------------------------------------------


def test_population_share_without_noise_is_that_of_a_sample() -> None:
    """If there is nearly no noise, the interval inverts a two-sided binomial test."""
    people, yes, epsilon = 60, 21, 60.0
    answer = replace(released(epsilon, [yes, people - yes, 7]), users=people + 7)
    found = hc.share(answer, 0, among=[0, 1], sampling=True).interval

    def chance(share: float) -> float:
        k = np.arange(people + 1)
        far = np.abs(k - people * share) >= abs(yes - people * share) - 1e-9
        return float(stats.binom.pmf(k, people, share)[far].sum())

    # A lattice of an eighth of a percent of the deviation widens the interval a little.
    assert chance(found.low + 2e-3) > 0.049
    assert chance(found.low - 1e-6) <= 0.05
    assert chance(found.high - 2e-3) > 0.049
    assert chance(found.high + 1e-6) <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["central.geometric", "shuffle.fake-users", "local.k-ary"])
@pytest.mark.parametrize("sampling", [False, True])
def test_conditional_shares_cover(protocol: str, sampling: bool) -> None:
    """In simulated crowds. The tests above enumerate the noise of small ones."""
    users, chances = 2000, np.array([0.02, 0.05, 0.13, 0.2, 0.3, 0.3])
    built = hc.protocol(protocol, TASK, hc.Budget(1, 1e-6), hc.Crowd(users))
    generator, source = np.random.default_rng(5), hc.SeededSource(8)
    runs = 300 if sampling and protocol != "local.k-ary" else 2000
    held, hits = generator.multinomial(users, chances), 0
    truth = held[0] / held[:3].sum()
    for _ in range(runs):
        if sampling:
            held, truth = generator.multinomial(users, chances), chances[0] / chances[:3].sum()
        answer = built.estimate(built.simulate(held, source), source)
        assert isinstance(answer, hc.TableEstimate)
        found = answer.share("yes", given_row="north", sampling=sampling).interval
        hits += found.low <= truth <= found.high
    assert stats.binom.cdf(hits, runs, 0.95) > 1e-6
    assert hits <= 0.995 * runs


@pytest.mark.slow
def test_bounds_of_dependent_buckets_cover() -> None:
    users = 3000
    built = hc.protocol("shuffle.sample-threshold", TASK, hc.Budget(1, 1e-6), hc.Crowd(users))
    held, source, runs = np.array([300, 500, 200, 700, 800, 500]), hc.SeededSource(2), 500
    covered = np.zeros(2)
    for _ in range(runs):
        answer = built.estimate(built.simulate(held, source), source)
        assert isinstance(answer, hc.TableEstimate)
        interval = answer.rows.interval()
        covered[0] += interval.low[0] <= 1000 <= interval.high[0]
        share = answer.share("yes", given_row="north").interval
        covered[1] += share.low <= 0.3 <= share.high
    assert (covered >= 0.95 * runs).all()


# Totals ------------------------------------------------------------------------------------------


def test_totals_have_the_exact_law_of_their_sum() -> None:
    answer = released(1.0, COUNTS.ravel().tolist(), TASK)
    assert isinstance(answer, hc.TableEstimate)
    for totals, cells in ((answer.rows, 3), (answer.columns, 2)):
        law = noise(0.5, 200)
        for _ in range(cells - 1):
            law = np.convolve(law, noise(0.5, 200))
        beyond = np.cumsum(law[::-1])[::-1]  # beyond[i] is P(sum ≥ i − middle)
        middle = len(law) // 2
        margin = next(z for z in range(500) if beyond[middle + z + 1] <= 0.025)
        interval = totals.interval()
        assert (totals.value - interval.low == margin).all()
        assert (interval.high - totals.value == margin).all()
        assert totals.standard_error == pytest.approx(math.sqrt(cells) * 2.79918, rel=1e-5)
    assert answer.rows.value.tolist() == COUNTS.sum(axis=1).tolist()
    assert answer.columns.value.tolist() == COUNTS.sum(axis=0).tolist()
    assert answer.cells.tolist() == COUNTS.tolist()


def test_totals_of_poisson_noise_are_poisson() -> None:
    answer = replace(
        released(1.0, COUNTS.ravel().tolist(), TASK), error_law=PoissonError(Fraction(43))
    )
    assert isinstance(answer, hc.TableEstimate)
    below, above = answer.rows.error_law.margins(0.95)
    assert below == pytest.approx(129 - stats.poisson.ppf(0.025, 129))
    assert above == pytest.approx(stats.poisson.ppf(0.975, 129) - 129)


def with_protocol(name: str, task: hc.Task, counts: list[float]) -> hc.Estimate:
    """An answer of this protocol with these numbers, for ε = 1."""
    users = round(sum(counts))
    built = hc.protocol(name, task, hc.Budget(1), hc.Crowd(users))
    tally = built.simulate(task.example(users), hc.SeededSource(1))
    return replace(built.estimate(tally), value=np.array(counts, dtype=np.float64))


def test_totals_and_shares_of_noise_that_adds_up_to_zero() -> None:
    """By the joint law of two groups of buckets: P(s, t) is proportional to f(s)·g(t)·h(−s−t)."""
    one, z = noise(0.5, 60), np.arange(-60, 61)
    two = np.convolve(one, one)  # from −120 to 120
    answer = with_protocol("central.sum-zero", hc.Table(2, 2), [30.0, 25.0, 41.0, 60.0])
    assert isinstance(answer, hc.TableEstimate)
    totals = two * two[::-1]
    beyond = np.cumsum((totals / totals.sum())[::-1])[::-1]
    margin = next(k for k in range(120) if beyond[120 + k + 1] <= 0.025)
    below, above = answer.rows.error_law.margins(0.95)
    assert below == pytest.approx(margin, abs=0.05)
    assert above == pytest.approx(margin, abs=0.05)
    joint = np.outer(one, one) * two[120 - z[:, None] - z]
    joint /= joint.sum()
    found = answer.share(0, given_row=0).interval
    for share, possible in (
        (found.low + 1e-3, True), (found.low - 1e-5, False),
        (found.high - 1e-3, True), (found.high + 1e-5, False),
    ):  # fmt: skip
        statistic = abs((1 - share) * 30 - share * 25)
        sums = np.abs((1 - share) * z[:, None] - share * z)
        assert (float(joint[sums >= statistic - 1e-9].sum()) > 0.05) == possible


def test_totals_and_shares_with_a_known_total() -> None:
    """The mean of all noises is subtracted: Z1 + Z2 − (Z1 + Z2 + Z3 + Z4)/2, by convolution."""
    one = noise(0.5, 90)
    two = np.convolve(one, one)
    half = np.convolve(two, two)  # the law of (Z1 + Z2) − (Z3 + Z4), which is twice the error
    answer = with_protocol("central.geometric", hc.Table(2, 2), [30.0, 25.0, 41.0, 60.0])
    assert isinstance(answer, hc.TableEstimate)
    beyond = np.cumsum(half[::-1])[::-1]
    margin = next(k for k in range(300) if beyond[len(half) // 2 + k + 1] <= 0.025) / 2
    for margins in answer.rows.error_law.margins(0.95):
        assert margins == pytest.approx(margin, abs=0.05)
        assert (margins >= margin - 1e-9).all()
    assert answer.rows.standard_error == pytest.approx(2.79918, rel=1e-4)
    assert answer.share(0, given_row=0).method == "exact law of the noise"


def test_changed_tables_keep_their_totals() -> None:
    answer = released(1.0, [-4.0, *COUNTS.ravel().tolist()[1:]], TASK)
    clipped = answer.postprocess("clip")
    assert isinstance(clipped, hc.TableEstimate)
    assert isinstance(answer, hc.TableEstimate)
    assert clipped.rows.value[0] == answer.rows.value[0] + 4
    assert clipped.rows.unbiased_value[0] == answer.rows.value[0]
    assert clipped.rows.postprocessing == ("clip",)


# Margins -----------------------------------------------------------------------------------------


def margins(epsilon: float, shape: tuple[int, int], name: str) -> hc.Protocol:
    return hc.protocol(name, hc.Margins(*shape), hc.Budget(epsilon), hc.Crowd(30))


@pytest.mark.parametrize(
    ("shape", "best"),
    [((2, 3), CELLS), ((4, 2), CELLS), ((5, 2), TOTALS)],
)
def test_plan_says_whether_cells_or_totals_get_noise(shape: tuple[int, int], best: str) -> None:
    """Cells are at least as good up to 4cosh²(ε/8) columns, which is 4.06 for ε = 1."""
    found = hc.plan(hc.Margins(*shape), hc.Budget(1), hc.Crowd(1000), trust="central")
    errors = {one.protocol: one.standard_error for one in found.candidates}
    assert errors[TOTALS] == pytest.approx(5.64215, rel=2e-6)
    assert errors[CELLS] == pytest.approx(2.79918 * math.sqrt(max(shape)), rel=2e-6)
    assert found.best.protocol == best


@pytest.mark.parametrize(("name", "rate"), [(TOTALS, 0.4), (CELLS, 0.8)])
def test_margins_have_independent_geometric_noise(name: str, rate: float) -> None:
    """The noise of a total is that of the total itself, or the sum of its cells' noise."""
    built, source, runs = margins(1.6, (2, 2), name), hc.SeededSource(5), 1500
    tally = built.tally(built.randomize([(0, 0)] * 20 + [(1, 0)] * 10, source))
    assert tally.counts.tolist() == [20, 0, 10, 0]
    noise_seen = np.array([built.estimate(tally, source).value for _ in range(runs)])
    noise_seen -= [20, 10, 30, 0]
    law = noise(rate, 80)
    law = np.convolve(law, law) if name == CELLS else law
    expected = dict(enumerate(law.tolist(), start=-(len(law) // 2)))
    for total in range(4):
        seen = Counter(noise_seen[:, total].astype(int).tolist())
        assert log_likelihood_ratio(seen, expected)[1] > ALARM
    both = np.corrcoef(noise_seen.T)
    # A row and a column have one cell of their two in common.
    assert abs(both[0, 1]) < 0.1
    assert abs(both[0, 2] - (0.5 if name == CELLS else 0)) < 0.1


@pytest.mark.parametrize(("name", "moved"), [(TOTALS, 4), (CELLS, 2)])
@pytest.mark.parametrize("at", [0.0, 0.3, 0.8, 1.2, 1.6])
def test_curve_of_margins(name: str, moved: int, at: float) -> None:
    """By all outcomes of the numbers that a person changes. Each has two different ratios."""
    rate = mpmath.mpf("1.6") / moved
    likely = 1 / (1 + mpmath.exp(-rate))
    truth = mpmath.mpf(0)
    for outcome in itertools.product((1, -1), repeat=moved):
        chance = mpmath.fprod(likely if sign > 0 else 1 - likely for sign in outcome)
        truth += chance * max(0, 1 - mpmath.exp(at - rate * sum(outcome)))
    stated = margins(1.6, (2, 3), name).curve.delta(at)
    assert truth - mpmath.mpf(10) ** -15 <= stated <= truth * (1 + 1e-9) + 1e-14


def shuffled(epsilon: float, delta: float, users: int, honest: int | None = None) -> hc.Protocol:
    crowd = hc.Crowd(users, honest or users)
    return hc.protocol("shuffle.margins", hc.Margins(2, 2), hc.Budget(epsilon, delta), crowd)


@pytest.mark.parametrize(("epsilon", "noise"), [(1, 75.1434), (2, 24.4533), (4, 14.5199)])
def test_shuffled_margins_have_the_least_noise(epsilon: float, noise: float) -> None:
    """It is a little more than the least noise, since a thousandth of δ is kept for bundles."""
    built = shuffled(epsilon, 1e-6, 10_000)
    assert noise <= built.parameters["noise_per_total"] <= 1.0003 * noise
    assert built.standard_error() == pytest.approx(math.sqrt(noise), rel=2e-4)


@pytest.mark.parametrize(("epsilon", "delta"), [(2.0, 0.05), (1.0, 0.3), (8.0, 0.3)])
def test_shuffled_margins_are_as_private_as_stated(epsilon: float, delta: float) -> None:
    """All outcomes of the two rows and two columns between which a person moves, in both
    directions, by the law of the honest people's noise.
    """
    built = shuffled(epsilon, delta, 8, 6)
    noise = stats.poisson.pmf(np.arange(60), built.parameters["noise_per_total"])
    stays, comes = np.append(noise, 0.0), np.insert(noise, 0, 0.0)
    pair, moved = np.outer(comes, stays).ravel(), np.outer(stays, comes).ravel()
    likely = pair + moved > 1e-12
    pair, moved = pair[likely], moved[likely]
    for at in (0.0, epsilon / 2, epsilon):
        truths = []
        for one, other in ((pair, moved), (moved, pair)):
            left = np.multiply.outer(one, one) - math.exp(at) * np.multiply.outer(other, other)
            truths.append(float(np.maximum(left, 0).sum()))
        assert truths[0] == pytest.approx(truths[1], rel=1e-9)
        assert truths[0] - 1e-9 <= built.curve.delta(at) <= 1.0005 * truths[0] + 1e-9
    assert delta * 0.998 <= built.guarantee.delta <= delta
    assert built.guarantee.honest == 6


def test_shuffled_margins_have_poisson_noise() -> None:
    """In every total, whether messages are made or the tally is drawn at once."""
    built, source = shuffled(4.0, 0.05, 12, 8), hc.SeededSource(7)
    values, totals = [(0, 0)] * 6 + [(0, 1)] * 4 + [(1, 1)] * 2, [10, 2, 6, 6]
    mean = built.parameters["noise_per_total"] * 12 / 8
    law = dict(enumerate(stats.poisson.pmf(np.arange(40), mean).tolist()))
    made = [built.tally(built.randomize(values, source)) for _ in range(800)]
    drawn = [built.simulate([6, 4, 0, 2], source) for _ in range(3000)]
    for tallies in (made, drawn):
        seen = np.array([tally.counts for tally in tallies]) - totals
        for at in range(4):
            assert log_likelihood_ratio(Counter(seen[:, at].tolist()), law)[1] > ALARM
            wrong = stats.poisson.pmf(np.arange(40), 1.3 * mean).tolist()
            assert (
                log_likelihood_ratio(Counter(seen[:, at].tolist()), dict(enumerate(wrong)))[1]
                < ALARM
            )
        assert np.abs(np.corrcoef(seen.T) - np.eye(4)).max() < 0.16
    answer = built.estimate(drawn[0])
    assert answer.value == pytest.approx(drawn[0].counts - mean)
    below, above = answer.error_law.margins(0.95)
    assert stats.poisson.cdf(mean + above, mean) - stats.poisson.cdf(mean - below - 1, mean) >= 0.95


def test_law_of_a_bundle_of_margins() -> None:
    """The row and the column are in every bundle, and each other message is uniform."""
    built = shuffled(16.0, 0.3, 5)
    law = built.law(2)  # the second row and the first column
    assert law is not None
    assert float(sum(law.values())) == pytest.approx(1, abs=1e-9)
    mean = built.parameters["noise_per_total"] / 5
    for message, own in enumerate((0, 1, 1, 0)):
        expected = sum(
            float(chance) * dict(bundle).get(message, 0) for bundle, chance in law.items()
        )
        assert expected == pytest.approx(own + mean, rel=1e-6)
    assert all(dict(bundle).get(1, 0) and dict(bundle).get(2, 0) for bundle in law)


# Fitted tables -----------------------------------------------------------------------------------


def fitted(epsilon: float, shape: tuple[int, int], margins: float = 0.5) -> hc.Protocol:
    task, crowd = hc.Table(*shape), hc.Crowd(2)
    return hc.protocol("central.fitted-table", task, hc.Budget(epsilon), crowd, margins=margins)


def deviation(rate: float) -> float:
    return 1 / (math.sqrt(2) * math.sinh(rate / 2))


def test_fitted_table_is_the_least_squares_estimate() -> None:
    """By the normal equations, with the known total as a weighty equation."""
    rows, columns, users = 3, 4, 100
    cell_rate, margin_rate = 0.4, 0.7
    generator = np.random.default_rng(3)
    cells = generator.normal(8, 5, rows * columns)
    across, down = generator.normal(30, 9, rows), generator.normal(25, 9, columns)
    every = np.eye(rows * columns)
    totals = every.reshape(-1, rows, columns)
    design = np.vstack([every, totals.sum(axis=2).T, totals.sum(axis=1).T, np.ones(len(every))])
    errors = [deviation(cell_rate)] * 12 + [deviation(margin_rate)] * 7 + [1e-7]
    seen = np.concatenate([cells, across, down, [users]])
    weights = 1 / np.array(errors)
    expected = np.linalg.lstsq(design * weights[:, None], seen * weights, rcond=None)[0]
    found = Fit((rows, columns), cell_rate, margin_rate).cells(users, cells, across, down)
    assert found == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("shape", "share"), [((2, 3), 0.5), ((4, 2), 0.2), ((3, 5), 0.9)])
def test_errors_of_a_fitted_table(shape: tuple[int, int], share: float) -> None:
    """The variance of a row's total is (1 − 1/d)/(1/(eσ²) + 1/ρ²)."""
    built = fitted(1.0, shape, share)
    tally = built.simulate(np.ones(math.prod(shape), dtype=int), hc.SeededSource(1))
    found = built.estimate(tally, hc.SeededSource(2))
    assert isinstance(found, hc.TableEstimate)
    cell, total = deviation((1 - share) / 2) ** 2, deviation(share / 4) ** 2
    for totals, here, there in ((found.rows, *shape), (found.columns, *shape[::-1])):
        variance = (1 - 1 / here) / (1 / (there * cell) + 1 / total)
        assert totals.standard_error == pytest.approx(math.sqrt(variance), rel=1e-6)
    assert found.value.sum() == pytest.approx(tally.users)


@pytest.mark.slow
def test_fitted_tables_are_unbiased_and_cover() -> None:
    counts, source, runs = np.array([5, 0, 3, 1, 0, 2]), hc.SeededSource(6), 1500
    built = hc.protocol("central.fitted-table", TASK, hc.Budget(2), hc.Crowd(11))
    tally = built.simulate(counts, source)
    found = [built.estimate(tally, source) for _ in range(runs)]
    errors = np.array([one.value for one in found]) - counts
    stated = found[0].standard_error[0]
    assert np.abs(errors.mean(axis=0)).max() < 5 * stated / math.sqrt(runs)
    assert errors.std(axis=0) == pytest.approx(stated, rel=0.12)
    below, above = found[0].error_law.margins(0.9)
    hits = ((-below <= errors) & (errors <= above)).sum(axis=0)
    assert (stats.binom.cdf(hits, runs, 0.9) > ALARM).all()
    assert hits.max() < 0.94 * runs


@pytest.mark.parametrize("at", [0.0, 0.4, 1.1, 1.6])
def test_curve_of_a_fitted_table(at: float) -> None:
    rates = [mpmath.mpf("0.8") * 1.2 / 2] * 2 + [mpmath.mpf("0.2") * 1.2 / 4] * 4
    truth = mpmath.mpf(0)
    for outcome in itertools.product((1, -1), repeat=6):
        loss = mpmath.fsum(sign * rate for sign, rate in zip(outcome, rates, strict=True))
        chance = mpmath.fprod(
            1 / (1 + mpmath.exp(-sign * rate)) for sign, rate in zip(outcome, rates, strict=True)
        )
        truth += chance * max(0, 1 - mpmath.exp(at - loss))
    built = fitted(1.2, (2, 3), 0.2)
    assert truth - mpmath.mpf(10) ** -15 <= built.curve.delta(at) <= truth * (1 + 1e-9) + 1e-14
    assert (built.guarantee.epsilon, built.guarantee.delta) == (1.2, 0)


@pytest.mark.parametrize("share", [0.2, 0.99])
def test_law_of_all_numbers_of_a_fitted_table(share: float) -> None:
    """The law of one person's table, by the masses of the noise."""
    built = fitted(1.2, (2, 2), share)
    rates = [(1 - share) * 1.2 / 2] * 4 + [share * 1.2 / 4] * 4

    def law(cells: tuple[int, ...]) -> dict[Any, float]:
        matrix = np.array(cells).reshape(2, 2)
        numbers = [*cells, *matrix.sum(axis=1).tolist(), *matrix.sum(axis=0).tolist()]
        stated = built.estimator.release_law(hc.Tally(np.array(cells), 1, built.name))
        assert stated is not None
        assert sum(stated.values()) == 1
        for seen in ((0, 1, 1, 0, 1, 1, 1, 0), (1, 0, 1, 1, 0, 0, 1, 0)):
            # 0 stands for all smaller numbers too, and 1 for all larger ones.
            expected = math.prod(
                math.exp(-rate * abs(y - number)) / (1 + math.exp(-rate))
                for y, number, rate in zip(seen, numbers, rates, strict=True)
            )
            assert float(stated[seen]) == pytest.approx(expected, rel=1e-12)
        return {seen: float(chance) for seen, chance in stated.items()}

    one, other = law((1, 0, 0, 0)), law((0, 0, 0, 1))
    losses = {seen: math.log(one[seen] / other[seen]) for seen in one}
    assert max(losses.values()) == pytest.approx(1.2, rel=1e-12)
    assert min(losses.values()) == pytest.approx(-1.2, rel=1e-12)
    for at in (0.0, 0.5, 1.1):
        truth = math.fsum(max(one[seen] - math.exp(at) * other[seen], 0.0) for seen in one)
        assert built.curve.delta(at) == pytest.approx(truth, rel=1e-9)


def test_margins_are_asked_about_two_columns() -> None:
    found = asked(hc.Margins(REGIONS, ANSWERS), ["region", "smokes"])
    assert found.value.tolist() == [460, 540, 210, 700, 90]
    assert found.buckets[:3] == ("row north", "row south", "column yes")


# The task ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in LATE else [])
        for name in hc.protocol_names(hc.Histogram(6))
    ],
)
def test_a_table_is_a_histogram_of_pairs(name: str) -> None:
    """With the same seed, a protocol gives the same answer to both."""
    budget, crowd = hc.Budget(2, 1e-3), hc.Crowd(500)
    table, histogram = (hc.protocol(name, task, budget, crowd) for task in (TASK, hc.Histogram(6)))
    codes = np.arange(500) % 6
    pairs = [(REGIONS[code // 3], ANSWERS[code % 3]) for code in codes]
    one, other = (
        hc.run(protocol, values, hc.SeededSource(4))
        for protocol, values in ((table, pairs), (histogram, codes))
    )
    assert one.value.tolist() == other.value.tolist()
    assert one.interval().low.tolist() == other.interval().low.tolist()
    assert isinstance(one, hc.TableEstimate)
    assert list(one.buckets or ()) == [f"{row} × {column}" for row in REGIONS for column in ANSWERS]
    assert table.guarantee == histogram.guarantee


def test_values_are_pairs_or_names_of_cells() -> None:
    assert TASK.encode([("south", "no"), ["north", "none"]]).tolist() == [4, 2]
    assert TASK.encode(np.array([["south", "no"]])).tolist() == [4]
    assert TASK.encode(["south × no"]).tolist() == [4]
    assert TASK.encode([4, 0]).tolist() == [4, 0]
    numbered = hc.Table(2, 3)
    assert numbered.encode(np.array([[1, 2], [0, 1]])).tolist() == [5, 1]
    assert numbered.encode([(1, 0)]).tolist() == [3]
    assert TASK.answer(TASK.holding(COUNTS)).tolist() == COUNTS.ravel().tolist()
    assert str(TASK) == "Table of 2 rows and 3 columns"
    for values in ([("north", "maybe")], ["north"], [("north",)], [("a", "b", "c")], [], [6]):
        with pytest.raises(hc.InvalidValue):
            TASK.encode(values)


@pytest.mark.parametrize(
    ("rows", "columns"),
    [(1, 3), (["a"], 3), (2, ["b", "b"]), (2000, 2000), (["a × b", "c"], 2), ("ab", 2), (2, [])],
)
def test_wrong_tables_are_refused(rows: Any, columns: Any) -> None:
    with pytest.raises(hc.InvalidParameter):
        hc.Table(rows, columns)


def test_wrong_conditions_are_refused() -> None:
    answer = released(1.0, COUNTS.ravel().tolist(), TASK)
    assert isinstance(answer, hc.TableEstimate)
    wrong: list[dict[str, Any]] = [
        {},
        {"given_row": "north", "given_column": "yes"},
        {"given_row": "yes"},
    ]
    for given in wrong:
        with pytest.raises(hc.InvalidParameter):
            answer.share("no", **given)
    with pytest.raises(hc.InvalidParameter):
        answer.share("north", given_row="north")
    one, other = answer.share("no", given_row="south"), answer.share("south", given_column="no")
    assert one.value == pytest.approx(400 / 540)
    assert other.value == pytest.approx(400 / 700)
    for found, alone in (
        (answer.shares("rows")[1][1], one),
        (answer.shares("columns")[1][1], other),
    ):
        assert found.value == pytest.approx(alone.value, abs=1e-12)
        ends = (alone.interval.low, alone.interval.high)
        assert (found.interval.low, found.interval.high) == pytest.approx(ends, abs=1e-12)


# Two columns of a table --------------------------------------------------------------------------


def people() -> pyarrow.Table:
    codes = np.repeat(np.arange(6), COUNTS.ravel())
    smokes = [ANSWERS[code % 3] for code in codes]
    return pyarrow.table(
        {
            "region": [REGIONS[code // 3] for code in codes],
            "smokes": smokes,
            "answer": [None if answer == "none" else answer for answer in smokes],
            "site": ["a" if at % 2 else "b" for at in range(len(codes))],
        }
    )


def asked(task: hc.Task, columns: Any, **settings: Any) -> Any:
    return hc.estimate(
        people(), task, column=columns, budget=hc.Budget(400), source=hc.SeededSource(1), **settings
    )


def test_two_columns_make_a_table() -> None:
    exact = COUNTS.tolist()
    assert asked(TASK, ["region", "smokes"]).cells.tolist() == exact
    assert asked(TASK, ("region", "answer"), missing="none").cells.tolist() == exact
    dropped = asked(hc.Table(REGIONS, ["yes", "no"]), ("region", "answer"), missing="drop")
    assert dropped.cells.tolist() == COUNTS[:, :2].tolist()
    turned = asked(hc.Table(ANSWERS, REGIONS), ["smokes", "region"])
    assert turned.cells.tolist() == COUNTS.T.tolist()
    grouped = asked(TASK, ["region", "smokes"], group="site")
    assert sum(one.cells for one in grouped.values()).tolist() == exact


@pytest.mark.parametrize(
    ("columns", "settings", "why"),
    [
        (["region"], {}, "2 different columns"),
        (["region", "region"], {}, "2 different columns"),
        (["region", "answer"], {}, "everyone must have a value"),
        (["region", "answer"], {"missing": "maybe"}, "a label of the rows or columns"),
        (["region", "smokes"], {"outside": "other"}, "without `bins` and `outside`"),
        (["region", "smokes"], {"group": "region"}, "which are public"),
        (["smokes", "region"], {}, "one of north, south in 'smokes'"),
        (["region", "nothing"], {}, "a column 'nothing'"),
    ],
)
def test_wrong_columns_are_refused(columns: Any, settings: dict[str, Any], why: str) -> None:
    with pytest.raises(hc.HeadcountError, match=why):
        asked(TASK, columns, **settings)
    with pytest.raises(hc.InvalidParameter, match="unless the task is a table or boxes"):
        asked(hc.Histogram(ANSWERS), columns)


# The command line --------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = tmp_path / "people.parquet"
    parquet.write_table(people(), place)
    return place


def test_command_shows_a_matrix_with_shares(headcount: Headcount, file: Path) -> None:
    result = headcount(
        "estimate", str(file), "--rows", "north,south", "--columns", "yes,no,none", "--column",
        "region,smokes", "--epsilon", "400", "--within", "rows",
    )  # fmt: skip
    assert result.status == 0, result.out
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert "yes no none all" in lines
    assert "north 120 (120 to 120) 300 (300 to 300) 40 (40 to 40) 460 (460 to 460)" in lines
    assert "all 210 (210 to 210) 700 (700 to 700) 90 (90 to 90) 1,000" in lines
    assert "south 16.7 % (16.7 to 16.7) 74.1 % (74.1 to 74.1) 9.3 % (9.3 to 9.3)" in lines


def test_command_writes_json(headcount: Headcount, file: Path, tmp_path: Path) -> None:
    saved = tmp_path / "answer.json"
    result = headcount(
        "estimate", str(file), "--task", "table", "--rows", "2", "--columns", "yes,no,none",
        "--column", "region,smokes", "--epsilon", "1", "--json",
    )  # fmt: skip
    assert result.status == 2  # the regions are words
    result = headcount(
        "estimate", str(file), "--rows", "north,south", "--columns", "yes,no,none", "--column",
        "region,smokes", "--epsilon", "400", "--within", "columns", "--json", "--out", str(saved),
    )  # fmt: skip
    document = json.loads(result.out)
    assert document["value"] == COUNTS.ravel().tolist()
    assert document["rows"]["value"] == [460, 540]
    assert document["columns"]["buckets"] == ANSWERS
    shares = document["shares"]["lines"][0]["shares"]
    assert shares[0]["value"] == pytest.approx(120 / 210)
    assert json.loads(saved.read_text())["shares"] == document["shares"]


def test_command_shows_shares_among_buckets(headcount: Headcount, file: Path) -> None:
    asking = ["estimate", str(file), "--column", "smokes", "--epsilon", "400"]
    result = headcount(*asking, "--buckets", "yes,no,none", "--among", "yes,no", "--sampling")
    assert result.status == 0, result.out
    assert "shares among yes, no, of the population" in result.out
    for wrong in (["--among", "yes,maybe"], ["--within", "rows"]):
        result = headcount(*asking, "--buckets", "yes,no,none", *wrong)
        assert result.status == 2, wrong


def test_plan_ranks_protocols_of_a_table(headcount: Headcount) -> None:
    result = headcount(
        "plan", "table", "--rows", "north,south", "--columns", "yes,no,none", "--users", "10000",
        "--epsilon", "1", "--trust", "central", "--json",
    )  # fmt: skip
    document = json.loads(result.out)
    assert document["task"] == {"name": "table", "rows": REGIONS, "columns": ANSWERS}
    errors = {one["protocol"]: one["standard_error"] for one in document["candidates"]}
    assert errors["central.geometric"] == pytest.approx(2.79918 * math.sqrt(5 / 6), rel=1e-5)


def test_share_tables_state_their_kind() -> None:
    answer = released(1.0, COUNTS.ravel().tolist(), TASK)
    shown = str(ShareTable.of_cells(answer, "columns").table())
    assert "shares within columns, of the people, with 95 % intervals" in shown
    with pytest.raises(hc.InvalidParameter, match="that of a table, got a histogram"):
        ShareTable.of_cells(released(1.0, [1.0, 2.0]), "rows")
