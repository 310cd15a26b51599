"""The count protocols, compared with their papers' figures, and with 50 digits at full size."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

import headcount as hc
from enumeration import binomial_mass, laws_of
from headcount.protocols.local.randomized_response import RandomizedResponse
from headcount.protocols.shuffle.zero_exact import ZeroExact

COUNT = hc.Count()


def zero_exact(epsilon: float, delta: float, users: int, **options: str) -> hc.Protocol:
    return hc.protocol(
        "shuffle.zero-exact", COUNT, hc.Budget(epsilon, delta), hc.Crowd(users), **options
    )


def withheld(protocol: hc.Protocol) -> Fraction:
    """The exact probability that a noise message is not sent, from the stated law."""
    return laws_of(protocol)[0][()]


def exact_delta(honest: int, q: Fraction, epsilon: float) -> mpmath.mpf:
    """The δ of Bin(honest, q) against itself moved by one, in both directions, to 50 digits."""
    reach = min(honest, int(honest * q + 40 * math.sqrt(honest * q) + 60))
    start = max(0, int(honest * q - 40 * math.sqrt(honest * q) - 60))
    # Masses follow from one exact mass by the ratios of neighboring masses.
    masses = {start: binomial_mass(honest, q, start)}
    odds = mpmath.mpf(q.numerator) / (q.denominator - q.numerator)
    for k in range(start, reach):
        masses[k + 1] = masses[k] * (honest - k) / (k + 1) * odds
    factor = mpmath.exp(mpmath.mpf(epsilon))
    zero = mpmath.mpf(0)
    up = sum(max(m - factor * masses.get(k - 1, zero), zero) for k, m in masses.items())
    down = sum(max(m - factor * masses.get(k + 1, zero), zero) for k, m in masses.items())
    return max(up, down)


@pytest.mark.parametrize(("epsilon", "exact", "paper"), [(1.0, 34.1, 725.4), (0.5, 90.2, 2901.7)])
@pytest.mark.parametrize("users", [20_000, 1_000_000, 10**9])
def test_noise_of_zero_exact(epsilon: float, exact: float, paper: float, users: int) -> None:
    found = users * float(withheld(zero_exact(epsilon, 1e-6, users)))
    assert found == pytest.approx(exact, abs=0.1)
    published = zero_exact(epsilon, 1e-6, users, calibration="paper")
    assert users * float(withheld(published)) == pytest.approx(paper, abs=0.1)
    assert not published.guarantee.exact
    assert published.guarantee.delta == 1e-6
    assert published.curve.delta(epsilon) < 1e-20


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 5.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-10])
@pytest.mark.parametrize("users", [100, 10_000, 1_000_000])
def test_zero_exact_meets_its_budget_to_50_digits(epsilon: float, delta: float, users: int) -> None:
    try:
        protocol = zero_exact(epsilon, delta, users)
    except hc.Infeasible as refusal:
        # The refusal is correct, since a fair coin for everyone is not enough. So is its advice.
        assert exact_delta(users, Fraction(1, 2), epsilon) > delta
        zero_exact(epsilon, delta, int(refusal.nearest["honest"]))
        return
    truth = exact_delta(users, withheld(protocol), epsilon)
    assert 0.99 * delta < truth <= protocol.guarantee.delta <= delta


@pytest.mark.parametrize("users", [4, 8, 11, 12])
def test_zero_exact_finds_the_best_coin_of_small_crowds(users: int) -> None:
    """A fair coin is not always the most private. A budget that some coin meets must not be
    refused.
    """
    coins = [Fraction(percent, 200) for percent in range(1, 101)]
    least = float(min(exact_delta(users, q, 1.0) for q in coins))
    zero_exact(1.0, least * 1.001, users)


def test_zero_exact_curve_and_guarantee_agree() -> None:
    for users in (100, 1000, 100_000):
        protocol = zero_exact(1, 1e-6, users)
        assert protocol.curve.delta(1.0) == protocol.guarantee.delta <= 1e-6
        assert protocol.curve.epsilon(1e-6) <= 1.0 + 2.0**-49


@pytest.mark.parametrize("epsilon", [1e-12, 1e-3, 50.0, 500.0])
@pytest.mark.parametrize("name", hc.protocol_names(COUNT))
def test_ends_of_the_range_of_epsilon(name: str, epsilon: float) -> None:
    for calibration in ("exact", "paper"):
        try:
            protocol = hc.protocol(
                name, COUNT, hc.Budget(epsilon, 1e-18), hc.Crowd(500), calibration=calibration
            )
        except hc.Infeasible as refusal:
            needy = ("shuffle.zero-exact", "shuffle.correlated", "shuffle.split-and-mix")
            if (name, epsilon) == ("shuffle.noisy-shuffler", 1e-12):  # it needs 3·10^13 dummies
                feasible = hc.Budget(refusal.nearest["epsilon"], 1e-18)
                assert feasible.epsilon < 1e-3
                hc.protocol(name, COUNT, feasible, hc.Crowd(500), calibration=calibration)
                continue
            assert name in needy or (name, calibration) == ("shuffle.amplified", "paper")
            continue
        assert math.isfinite(protocol.standard_error())
        assert math.isfinite(hc.run(protocol, [1] * 500).value)
        for point in (0.0, epsilon, 1000.0):
            assert 0 <= protocol.curve.delta(point) <= 1


def test_zero_exact_counts_honest_people_only() -> None:
    budget = hc.Budget(1, 1e-6)
    some = hc.protocol("shuffle.zero-exact", COUNT, budget, hc.Crowd(10_000, honest=2000))
    assert exact_delta(2000, withheld(some), 1.0) <= 1e-6 < exact_delta(1900, withheld(some), 1.0)
    # More people only add noise.
    assert exact_delta(10_000, withheld(some), 1.0) < 1e-6


def test_zero_exact_answers_nobody_with_certainty() -> None:
    protocol = zero_exact(1, 1e-6, 1000, analyzer="zero-exact")
    for messages in (0, 900, 1000):
        estimate = protocol.estimate(hc.Tally(np.array([messages]), 1000, protocol.name))
        assert estimate.value == 0
        assert estimate.postprocessing == ("zero-exact",)
        assert estimate.unbiased_value != 0
    source = hc.SeededSource(3)
    assert all(hc.run(protocol, [0] * 1000, source).value == 0 for _ in range(100))
    above = protocol.estimate(hc.Tally(np.array([1001]), 1000, protocol.name))
    assert above.value == above.unbiased_value > 0


def thresholded_errors(users: int, q: Fraction, counts: range) -> list[Fraction]:
    """The mean squared errors of |y| − np if |y| > n, and of 0 otherwise, in exact rationals."""
    withheld = [math.comb(users, m) * q**m * (1 - q) ** (users - m) for m in range(users + 1)]

    def squared(count: int, m: int) -> Fraction:
        return (users * q - m if m < count else Fraction(-count)) ** 2

    return [
        sum((chance * squared(count, m) for m, chance in enumerate(withheld)), Fraction())
        for count in counts
    ]


@pytest.mark.parametrize(("users", "delta"), [(12, 0.1), (40, 0.01)])
def test_thresholded_counts_state_the_worst_error_that_is_possible(
    users: int, delta: float
) -> None:
    """The stated error is the largest over all counts that can send this number of messages."""
    protocol = zero_exact(1, delta, users, analyzer="zero-exact")
    exact = thresholded_errors(users, withheld(protocol), range(users + 1))
    for count in range(users + 1):
        stated = protocol.standard_error([users - count, count])
        assert stated == pytest.approx(math.sqrt(exact[count]), rel=1e-9, abs=1e-12)
    assert protocol.standard_error() == pytest.approx(math.sqrt(max(exact)), rel=1e-9)
    for messages in range(2 * users + 1):
        estimate = protocol.estimate(hc.Tally(np.array([messages]), users, protocol.name))
        # A count of c sends at least c and at most n + c messages.
        possible = exact[max(0, messages - users) : min(users, messages) + 1]
        assert estimate.standard_error == pytest.approx(math.sqrt(max(possible)), rel=1e-9)


@pytest.mark.parametrize("name", ["shuffle.zero-exact", "shuffle.zero-exact-histogram"])
def test_small_counts_do_not_state_the_error_of_large_ones(name: str) -> None:
    """With 20,000 people and ε = 1, the error is 20 to 30 if 20 to 40 people are counted."""
    users, buckets = 20_000, 5
    task = hc.Histogram(buckets) if name.endswith("histogram") else COUNT
    budget, crowd = hc.Budget(1, 1e-6), hc.Crowd(users)
    protocol = hc.protocol(name, task, budget, crowd, analyzer="zero-exact")
    plain = hc.protocol(name, task, budget, crowd)
    q = 1 - protocol.parameters["p"]
    missing = np.arange(0, 300)
    chances = stats.binom.pmf(missing, users, q)
    likely = missing[chances > 1e-13]
    worst, wide = 0.0, 0.0
    for count in (0, 1, 5, 10, 20, 30, 40, 50, 60, 80, 120, 400, 10_000):
        answers = np.where(missing < count, count + users * q - missing, 0)
        error = math.sqrt(float(np.sum(chances * (answers - count) ** 2)))
        worst = max(worst, error)
        tally = np.zeros((len(likely), protocol.estimator.tally_size), dtype=np.int64)
        tally[:, 0] = count + users - likely
        estimates = [protocol.estimate(hc.Tally(row, users, protocol.name)) for row in tally]
        stated = np.array([np.ravel(e.standard_error)[0] for e in estimates])
        assert (stated >= error * (1 - 1e-6)).all()
        if count >= 400:
            # This analyzer does not use that the number of people is known.
            assert stated == pytest.approx(math.sqrt(users * q * (1 - q)), rel=1e-3)
        wide = max(wide, stated.max())
        for confidence in (0.5, 0.95, 0.999):
            ends = [e.interval(confidence) for e in estimates]
            held = [np.ravel(i.low)[0] <= count <= np.ravel(i.high)[0] for i in ends]
            assert chances[likely][held].sum() >= confidence - 1e-9
    assert worst > 3 * plain.standard_error()
    assert worst * (1 - 1e-9) <= protocol.standard_error() < 1.1 * worst
    assert wide == pytest.approx(protocol.standard_error())
    assert (
        protocol.estimator.ranking_error(protocol.crowd.users) == protocol.standard_error()
    )  # the error by which plans rank


@pytest.mark.parametrize("beta", [0.5, 0.05, 1e-4])
def test_paper_error_bound_holds(beta: float) -> None:
    users, epsilon, delta = 100_000, 1.0, 1e-6
    protocol = zero_exact(epsilon, delta, users, calibration="paper", analyzer="zero-exact")
    bound = (
        50 / epsilon**2 * math.log(2 / delta)
        + math.sqrt(200 * math.log(2 / delta) * math.log(2 / beta)) / epsilon
    )
    source = hc.SeededSource(5)
    for ones in (0, 300, 725, 2000, 50_000):
        tallies = [protocol.simulate([users - ones, ones], source) for _ in range(300)]
        off = [abs(protocol.estimate(tally).value - ones) > bound for tally in tallies]
        assert sum(off) <= 300 * beta


def test_exact_calibration_needs_a_twentieth_of_the_noise() -> None:
    ours = zero_exact(1, 1e-6, 100_000).standard_error()
    papers = zero_exact(1, 1e-6, 100_000, calibration="paper").standard_error()
    assert papers / ours > 4.5


def test_zero_exact_refusals() -> None:
    with pytest.raises(
        hc.Infeasible, match=r"needs at least 80 honest people .*, got 50"
    ) as caught:
        zero_exact(1, 1e-6, 50)
    enough = int(caught.value.nearest["honest"])
    zero_exact(1, 1e-6, enough)
    with pytest.raises(hc.Infeasible):
        zero_exact(1, 1e-6, enough - 1)
    with pytest.raises(hc.Infeasible, match="needs more than 1000000000 people") as caught:
        zero_exact(1e-12, 1e-6, 50)
    assert caught.value.nearest == {}
    with pytest.raises(hc.Infeasible):
        zero_exact(1e-12, 1e-6, 2**50)
    with pytest.raises(hc.Infeasible, match="needs delta above 0"):
        zero_exact(1, 0, 2**50)
    with pytest.raises(hc.Infeasible, match="needs delta above 0") as caught:
        zero_exact(1, 0, 50)
    zero_exact(1, caught.value.nearest["delta"], 50)
    with pytest.raises(hc.Infeasible) as caught:
        zero_exact(1, 0, 1000, calibration="paper")
    zero_exact(1, caught.value.nearest["delta"], 1000, calibration="paper")
    with pytest.raises(hc.Infeasible) as caught:
        zero_exact(1, 0, 5, calibration="paper")
    assert caught.value.nearest == {}
    with pytest.raises(hc.Infeasible) as caught:
        zero_exact(1, 1e-6, 1000, calibration="paper")
    assert caught.value.nearest["honest"] == math.ceil(100 * math.log(2e6))
    assert caught.value.exit_status == 3


# Shuffled randomized response ---------------------------------------------------------------


def shuffled_response(epsilon: float, delta: float, users: int, **options: str) -> hc.Protocol:
    return hc.protocol(
        "shuffle.randomized-response", COUNT, hc.Budget(epsilon, delta), hc.Crowd(users), **options
    )


def response_deltas(honest: int, q: Fraction, epsilon: float) -> list[mpmath.mpf]:
    """δ for every number of ones among the other honest people, both directions, to 50 digits."""

    def flips(people: int, p: Fraction) -> list[mpmath.mpf]:
        return [binomial_mass(people, p, k) for k in range(people + 1)]

    def together(one: list[mpmath.mpf], other: list[mpmath.mpf]) -> list[mpmath.mpf]:
        out = [mpmath.mpf(0)] * (len(one) + len(other) - 1)
        for i, a in enumerate(one):
            for j, b in enumerate(other):
                out[i + j] += a * b
        return out

    factor = mpmath.exp(mpmath.mpf(epsilon))
    worst = []
    for ones in range(honest):
        others = together(flips(honest - 1 - ones, q), flips(ones, 1 - q))
        no, yes = together(others, flips(1, q)), together(others, flips(1, 1 - q))
        up = sum(max(a - factor * b, 0) for a, b in zip(no, yes, strict=True))
        down = sum(max(b - factor * a, 0) for a, b in zip(no, yes, strict=True))
        worst.append(max(up, down))
    return worst


def test_the_edge_is_not_always_the_worst_dataset() -> None:
    deltas = response_deltas(20, Fraction(1, 20), 0.02)
    assert max(deltas) > 1.24 * deltas[0]


@pytest.mark.parametrize(
    ("epsilon", "delta", "users"), [(0.02, 0.2, 20), (0.5, 1e-2, 30), (1.0, 1e-6, 40), (1, 0, 12)]
)
def test_shuffled_response_keeps_its_budget_over_all_datasets(
    epsilon: float, delta: float, users: int
) -> None:
    protocol = shuffled_response(epsilon, delta, users)
    truth = max(response_deltas(users, laws_of(protocol)[0][((1, 1),)], epsilon))
    assert protocol.guarantee.exact
    assert truth - mpmath.mpf(10) ** -45 <= protocol.guarantee.delta <= delta
    assert truth >= 0.99 * delta


@pytest.mark.parametrize(
    ("epsilon", "least", "most", "paper"), [(1.0, 67, 68.5, 972.9), (0.5, 175, 181, 3891.7)]
)
@pytest.mark.parametrize("users", [10_000, 1_000_000])
def test_coins_of_shuffled_response(
    epsilon: float, least: float, most: float, paper: float, users: int
) -> None:
    protocol = shuffled_response(epsilon, 1e-6, users)
    assert least <= protocol.parameters["lambda"] <= most
    assert protocol.guarantee.exact is (users <= 10_000)
    assert 0.999e-6 < protocol.guarantee.delta <= 1e-6
    published = shuffled_response(epsilon, 1e-6, users, calibration="paper")
    if users == 1_000_000:
        assert published.parameters["lambda"] == pytest.approx(paper, abs=0.1)


def test_shuffled_response_holds_for_every_dataset() -> None:
    """With 2,400 people, many datasets are compared with an independent convolution."""
    from scipy.stats import binom

    users, epsilon = 2400, 1.0
    protocol = shuffled_response(epsilon, 1e-6, users)
    q = float(laws_of(protocol)[0][((1, 1),)])
    worst = 0.0
    for ones in range(0, users // 2 + 1, 7):
        zeros_lie = binom.pmf(np.arange(150), users - 1 - ones, q)
        ones_lie = binom.pmf(np.arange(150), ones, q)[::-1]
        others = np.convolve(zeros_lie, ones_lie)
        no, yes = np.convolve(others, [1 - q, q]), np.convolve(others, [q, 1 - q])
        for a, b in ((no, yes), (yes, no)):
            worst = max(worst, float(np.maximum(a - math.exp(epsilon) * b, 0).sum()))
    assert worst <= protocol.guarantee.delta <= 1.001 * worst
    assert protocol.curve.delta(epsilon) == protocol.guarantee.delta


def test_shuffled_response_never_needs_more_than_local_noise() -> None:
    local = hc.protocol("local.randomized-response", COUNT, hc.Budget(1), hc.Crowd(10))
    assert shuffled_response(1, 0, 10).law(0) == local.law(0)
    assert shuffled_response(1, 1e-6, 10).standard_error() <= local.standard_error()
    few = hc.protocol(
        "shuffle.randomized-response", COUNT, hc.Budget(1, 1e-6), hc.Crowd(5000, honest=1000)
    )
    assert few.law(0) == shuffled_response(1, 1e-6, 1000).law(0)


def test_shuffled_response_refuses_papers_that_do_not_hold() -> None:
    with pytest.raises(hc.Infeasible, match="the exact calibration does"):
        shuffled_response(8.0, 1e-12, 100_000, calibration="paper")


# Randomized response ------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e-12, 1e-6, 0.1, 0.5, 1.0, 3.0, 10.0, 44.0, 80.0, 500.0])
def test_response_lies_just_enough(epsilon: float) -> None:
    protocol = RandomizedResponse(COUNT, hc.Budget(epsilon), hc.Crowd(10))
    lie = laws_of(protocol)[0][((1, 1),)]
    t = int(lie * 2**64)
    assert lie == Fraction(t, 2**64)
    limit = mpmath.exp(mpmath.mpf(epsilon))
    assert mpmath.mpf(2**64 - t) / t <= limit
    if t > 1:
        assert mpmath.mpf(2**64 - t + 1) / (t - 1) > limit
    truth = mpmath.log(mpmath.mpf(2**64 - t) / t)
    assert truth - 1e-16 * truth <= protocol.guarantee.epsilon <= epsilon


def test_response_variance_is_the_formula() -> None:
    epsilon, users = 0.7, 5000
    gamma = math.exp(epsilon) / (1 + math.exp(epsilon)) - 0.5
    formula = users * (0.25 - gamma**2) / (4 * gamma**2)
    protocol = RandomizedResponse(COUNT, hc.Budget(epsilon), hc.Crowd(users))
    assert protocol.standard_error() == pytest.approx(math.sqrt(formula))


def test_simulating_a_billion_people() -> None:
    for name in hc.protocol_names(COUNT):
        protocol = hc.protocol(name, COUNT, hc.Budget(1, 1e-6), hc.Crowd(10**9))
        source = hc.SeededSource(6)
        tally = protocol.simulate([9 * 10**8, 10**8], source)
        estimate = protocol.estimate(tally, source)
        assert abs(estimate.value - 10**8) < 6 * protocol.standard_error()


def test_zero_exact_class_is_what_the_registry_says() -> None:
    assert isinstance(zero_exact(1, 1e-6, 1000), ZeroExact)
