"""Known figures of surveys, recomputed from the laws of the noise and compared with the library.

A figure with six digits is checked from both sides: with half a unit of the last digit less noise,
δ is larger than allowed, and with half a unit more noise it is smaller. So the δ of the tests must
be more accurate than a grid of losses is.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import binom, poisson

import headcount as hc
from headcount.accounting.composition import compose
from headcount.accounting.joint_curve import joint_curve
from headcount.core.bucket_sums import sum_error
from headcount.survey.design import Ask, Design
from headcount.survey.joint import joint
from headcount.survey.split import design

# The probabilities of the same outcomes for one answer and for another one.
Pair = tuple[NDArray[np.float64], NDArray[np.float64]]
DELTA = 1e-6


def listed(pairs: Sequence[Pair], epsilon: float) -> float:
    """The divergence of independent observations, by listing all their outcomes.

    The outcomes of half of the observations are sorted by their loss. For each outcome of the other
    half, those with a large enough loss are then known from two sums.
    """
    halves = []
    for half in (pairs[: len(pairs) // 2], pairs[len(pairs) // 2 :]):
        one = other = np.ones(1)
        for upper, lower in half:
            one = np.multiply.outer(one, upper).reshape(-1)
            other = np.multiply.outer(other, lower).reshape(-1)
        halves.append((one[one > 0], other[one > 0]))
    (upper, lower), (one, other) = halves
    ratios = other / one
    order = np.argsort(ratios)
    ones, others = (np.concatenate([[0.0], np.cumsum(law[order])]) for law in (one, other))
    with np.errstate(divide="ignore"):  # infinite losses
        last = np.searchsorted(ratios[order], upper / lower * math.exp(-epsilon))
    return float(upper @ ones[last] - math.exp(epsilon) * (lower @ others[last]))


def inverted(pairs: Sequence[Pair], epsilon: float, times: int = 1) -> float:
    """The same if all pairs occur several times, by inverting the transform of the losses.

    Let M(θ) be the mean of e^(θL) for the sum L of all losses, without infinite ones. The mean of
    (1 − e^(ε−L))₊ is the integral of e^(−θε) M(θ)/(θ(θ+1)) over a line to the right of 0, divided
    by 2πi. On this line, the integrand falls fast if there are 6 observations or more.
    """
    finite, laws = 1.0, []
    for upper, lower in pairs:
        finite *= 1 - float(upper[lower == 0].sum())
        kept = (upper > 0) & (lower > 0)
        laws.append((upper[kept], np.log(upper[kept] / lower[kept])))

    def height(real: float) -> float:
        means = (math.log(float(mass @ np.exp(real * losses))) for mass, losses in laws)
        return times * math.fsum(means) - real * epsilon - math.log(real * (real + 1))

    real = float(minimize_scalar(height, bounds=(0.1, 100), method="bounded").x)
    step = 0.5  # the sum adds values at distances of 4π in ε, where they are negligible
    along = step * np.arange(3000)
    values = np.exp(-1j * epsilon * along) / ((real + 1j * along) * (real + 1 + 1j * along))
    for mass, losses in laws:
        tilted = mass * np.exp(real * losses)
        values *= (np.exp(1j * np.outer(along, losses)) @ (tilted / tilted.sum())) ** times
    integral = float((values[0] / 2 + values[1:].sum()).real) * step / math.pi
    return 1 - finite**times + real * (real + 1) * math.exp(height(real)) * integral


def delta_of(pairs: Sequence[Pair], epsilon: float, times: int) -> float:
    """The more suitable of both ways."""
    few = len(pairs) * times <= 4
    return listed([*pairs] * times, epsilon) if few else inverted(pairs, epsilon, times)


def test_both_ways_to_compute_a_divergence_agree() -> None:
    pairs = poisson_moved(15.0342)
    assert inverted(pairs, 4.0, 3) == pytest.approx(listed(pairs * 3, 4.0), rel=1e-6)


def poisson_moved(mean: float) -> list[Pair]:
    """Two buckets with Poisson noise. A person moves from one to the other."""
    first = max(0, math.floor(mean - 11 * math.sqrt(mean) - 20))
    seen = np.arange(first, math.ceil(mean + 11 * math.sqrt(mean) + 40))
    own, more = poisson.pmf(seen, mean), poisson.pmf(seen - 1, mean)
    return [(more, own), (own, more)]


def check_least(delta: Callable[[float], float], figure: float, allowed: float = DELTA) -> None:
    """The figure is where δ falls to what is allowed, up to half a unit of the sixth digit."""
    half = 0.5 * 10.0 ** (math.floor(math.log10(figure)) - 5)
    assert delta(figure - half) > allowed > delta(figure + half)


def sd(rate: float) -> float:
    """The standard deviation of two-sided geometric noise."""
    return 1 / (math.sqrt(2) * math.sinh(rate / 2))


def counts(number: int, protocol: str | None = None) -> list[Ask]:
    return [Ask(f"q{at}", hc.Count(), protocol=protocol) for at in range(number)]


def designed(asks: list[Ask], epsilon: float, delta: float, trust: str) -> Design:
    return design(asks, (), hc.Budget(epsilon, delta), hc.Crowd(10_000), hc.Trust(trust))


# Joint privacy ----------------------------------------------------------------------------------


def test_the_bound_of_two_zero_exact_counts_is_near_the_worst_mix_of_directions() -> None:
    people, epsilon = 10_000, 0.7
    count = hc.protocol("shuffle.zero-exact", hc.Count(), hc.Budget(0.5, 1e-7), hc.Crowd(people))
    withheld = 1 - float(count.parameters["p"])
    assert people * withheld == pytest.approx(112.846, rel=5e-6)
    seen = np.arange(400)
    fewer, more = binom.pmf(seen, people, withheld), binom.pmf(seen - 1, people, withheld)
    ways = [(fewer, more), (more, fewer)]
    mixed = max(listed(both, epsilon) for both in itertools.combinations_with_replacement(ways, 2))
    assert mixed == pytest.approx(6.60291e-8, abs=5e-14)
    # In one direction δ(ε) is larger for all ε ≥ 0, in the other one for all ε ≤ 0. So the pair of
    # the larger curve has the losses of the first above 0, and those of the second below 0.
    # Between losses, both curves are straight lines in e^ε.
    above = fewer > more
    losses = np.log(fewer[1:] / more[1:])
    assert listed([ways[0]], 0.0) == pytest.approx(listed([ways[1]], 0.0), rel=1e-12)
    for at in np.abs(losses).tolist():
        assert listed([ways[0]], at) > listed([ways[1]], at)
    upper = np.concatenate([fewer[above], more[above]])
    lower = np.concatenate([more[above], fewer[above]])
    rest = np.array([1 - upper.sum()])
    larger = np.concatenate([upper, rest]), np.concatenate([lower, rest])
    bound = listed([larger] * 2, epsilon)
    assert bound == pytest.approx(6.60309e-8, abs=5e-14)
    # The library rounds losses to the private side.
    found = compose([(count.curve, 2)]).delta(epsilon)
    assert found == pytest.approx(6.60367e-8, abs=5e-14)
    assert bound < joint_curve([count.curve], 2).delta(epsilon) <= bound * (1 + 2e-4)


# The same with exact numbers.
ExactPair = tuple[list[Fraction], list[Fraction]]


def floats(pair: ExactPair) -> Pair:
    return np.array(pair[0], dtype=np.float64), np.array(pair[1], dtype=np.float64)


def largest_pair(pairs: Sequence[ExactPair]) -> ExactPair:
    """The pair whose curve is the largest of the curves of all these pairs.

    All curves are straight lines in x = e^ε between losses, and so is the largest one, except where
    two of them cross. The other probability at a loss is the change of the slope there.
    """
    points = {a / b for pair in pairs for a, b in zip(*pair, strict=True)}

    def curves(x: Fraction) -> list[Fraction]:
        return [sum((max(a - x * b, Fraction(0)) for a, b in zip(*pair, strict=True)), Fraction(0))
                for pair in pairs]  # fmt: skip

    for low, high in itertools.pairwise(sorted(points)):
        ends = zip(curves(low), curves(high), strict=True)
        for (a, b), (c, d) in itertools.combinations(ends, 2):
            if (a - c) * (b - d) < 0:
                points.add(low + (a - c) / (a - c - b + d) * (high - low))
    places = sorted(points)
    heights = [max(curves(x)) for x in places]
    slopes = [
        (after - before) / (high - low)
        for (low, high), (before, after) in zip(
            itertools.pairwise(places), itertools.pairwise(heights), strict=True
        )
    ]
    slopes = [Fraction(-1), *slopes, Fraction(0)]
    lower = [after - before for before, after in itertools.pairwise(slopes)]
    return [x * mass for x, mass in zip(places, lower, strict=True)], lower


def shuffled_responses(people: int, flip: Fraction) -> list[ExactPair]:
    """All neighboring pairs. Only the number of reported ones is seen."""
    laws = []
    for ones in range(people + 1):
        law = [Fraction(1)]
        for at in range(people):
            yes = 1 - flip if at < ones else flip
            shifted = zip([*law, Fraction(0)], [Fraction(0), *law], strict=True)
            law = [same * (1 - yes) + fewer * yes for same, fewer in shifted]
        laws.append(law)
    return [both for one in itertools.pairwise(laws) for both in (one, one[::-1])]


def test_the_bound_of_two_shuffled_responses_is_too_large_in_a_tiny_crowd() -> None:
    people, flip = 4, Fraction(1, 5)
    exact = shuffled_responses(people, flip)
    pairs = [floats(pair) for pair in exact]
    truth = max(listed(both, 1.0) for both in itertools.combinations_with_replacement(pairs, 2))
    assert truth == pytest.approx(0.204032, abs=5e-7)
    largest = largest_pair(exact)
    assert sum(largest[0]) == sum(largest[1]) == 1
    assert listed([floats(largest)] * 2, 1.0) == pytest.approx(0.267367, abs=5e-7)
    # The library flips a little more often than needed.
    alone = max(listed([pair], 1.0) for pair in pairs)
    budget = hc.Budget(1.0, alone * (1 + 1e-12))
    count = hc.protocol("shuffle.randomized-response", hc.Count(), budget, hc.Crowd(people))
    chance = Fraction(float(count.parameters["lambda"])) / (2 * people)
    assert flip * (1 - Fraction(1, 10**12)) <= chance <= flip * (1 + Fraction(1, 10**6))
    bound = listed([floats(largest_pair(shuffled_responses(people, chance)))] * 2, 1.0)
    for found in (compose([(count.curve, 2)]).delta(1.0), joint_curve([count.curve], 2).delta(1.0)):
        assert bound * (1 - 1e-12) <= found <= bound * (1 + 1e-6)


def test_five_releases_with_fake_users() -> None:
    least = float(brentq(lambda mean: listed(poisson_moved(mean), 0.5) - 1e-7, 50, 500))
    check_least(lambda epsilon: inverted(poisson_moved(least), epsilon, 5), 1.03380)
    # The library has a little more noise than needed.
    alone = hc.protocol("shuffle.fake-users", hc.Histogram(2), hc.Budget(0.5, 1e-7), hc.Crowd(1000))
    mean = float(alone.parameters["noise_per_bucket"])
    assert least <= mean <= least * (1 + 1e-4)
    check_least(lambda epsilon: inverted(poisson_moved(mean), epsilon, 5), 1.03376)
    assert 1.033755 <= compose([(alone.curve, 5)]).epsilon(DELTA) <= 1.033765
    assert 1.033755 <= joint_curve([alone.curve], 5).epsilon(DELTA) <= 1.0340


# Yes-no questions -------------------------------------------------------------------------------


def of_responses(number: int, rate: float, epsilon: float) -> float:
    """δ of several randomized responses, or of as many counts with geometric noise."""
    truth = 1 / (1 + math.exp(-rate))
    return math.fsum(
        math.comb(number, lies) * truth ** (number - lies) * (1 - truth) ** lies
        * -math.expm1(min(0.0, epsilon - (number - 2 * lies) * rate))
        for lies in range(number + 1)
    )  # fmt: skip


def largest_rate(number: int, epsilon: float) -> float:
    least = epsilon / number
    found = brentq(
        lambda rate: of_responses(number, rate, epsilon) - DELTA, least, 3 * least, xtol=1e-14
    )
    return float(found)


GAINS = {
    2: (1.0, 1.0, 1.0),
    5: (1.00002, 1.00001, 1.0),
    10: (1.00063, 1.00020, 1.00004),
    20: (1.139, 1.11572, 1.03948),
    50: (1.71826, 1.64173, 1.54489),
}


@pytest.mark.parametrize("number", GAINS)
def test_what_composition_gains_for_counts(number: int) -> None:
    for epsilon, gain in zip((1, 2, 4), GAINS[number], strict=True):
        assert largest_rate(number, epsilon) * number / epsilon == pytest.approx(gain, abs=6e-6)


def test_composition_gains_one_percent_up_to_14_counts() -> None:
    assert 14 * largest_rate(14, 1.0) == pytest.approx(1.01003, abs=6e-6)
    assert 16 * largest_rate(16, 1.0) == pytest.approx(1.04008, abs=6e-6)


@pytest.mark.parametrize(
    ("number", "split", "together"),
    [(2, 2.79918, 2.79917), (5, 7.05930, 7.05916), (10, 14.1362, 14.1274), (20, 28.2813, 24.8291),
     (50, 70.7095, 41.1504)],
)  # fmt: skip
def test_errors_of_counts_with_geometric_noise(number: int, split: float, together: float) -> None:
    rate = largest_rate(number, 1.0)
    assert sd(1 / number) == pytest.approx(split, rel=5e-6)
    assert sd(rate) == pytest.approx(together, rel=5e-6)
    count = hc.protocol("central.geometric", hc.Count(), hc.Budget(rate), hc.Crowd(100))
    assert count.standard_error() == pytest.approx(together, rel=5e-6)
    promise, _ = joint([count] * number, hc.Budget(1, 1e-5), hc.Crowd(100), hc.Trust.CENTRAL)
    assert DELTA * (1 - 1e-9) <= promise.delta <= DELTA * (1 + 2e-4)


@pytest.mark.parametrize(("number", "error"), [(20, 24.8291), (50, 41.1504)])
def test_many_counts_with_geometric_noise_are_accounted_for_together(
    number: int, error: float
) -> None:
    found = designed(counts(number, "central.geometric"), 1.0, DELTA, "central")
    errors = [found.standard_error(f"q{at}") for at in range(number)]
    assert max(errors) <= error * (1 + 1e-3)
    rate = 2 * math.asinh(1 / (math.sqrt(2) * min(errors)))
    assert of_responses(number, rate, 1.0) <= found.guarantee.delta <= DELTA


# Fake users: the noise for ε = 1, 2 and 4 together, for ε = 1 if divided, and the gain in error.
FAKE_USERS = {
    1: (42.6545, 18.0867, 13.8155, 42.6545, 1.0),
    2: (75.1434, 24.4533, 14.5199, 146.083, 1.39430),
    3: (109.742, 32.9475, 15.0342, 317.684, 1.70142),
    5: (180.263, 51.7544, 17.2065, 864.923, 2.19046),
    10: (358.096, 100.733, 29.9158, 3422.78, 3.09165),
    20: (714.734, 199.862, 57.9166, 13637.1, 4.36806),
}


@pytest.mark.parametrize(
    "number",
    [1, 2, 3, *(pytest.param(more, marks=pytest.mark.slow) for more in (5, 10, 20))],
)
def test_noise_of_fake_users_for_several_questions(number: int) -> None:
    for epsilon, figure in zip((1.0, 2.0, 4.0), FAKE_USERS[number], strict=False):

        def delta(mean: float, at: float = epsilon) -> float:
            return delta_of(poisson_moved(mean), at, number)

        check_least(delta, figure)


@pytest.mark.parametrize("number", FAKE_USERS)
def test_noise_of_fake_users_if_the_budget_is_divided(number: int) -> None:
    together, *_, figure, gain = FAKE_USERS[number]
    each = hc.Budget(1 / number, DELTA / number)

    def delta(mean: float) -> float:
        return listed(poisson_moved(mean), each.epsilon)

    check_least(delta, figure, each.delta)
    assert math.sqrt(figure / together) == pytest.approx(gain, abs=1e-5)
    alone = hc.protocol("shuffle.fake-users", hc.Histogram(2), each, hc.Crowd(10**5))
    mean = float(alone.parameters["noise_per_bucket"])
    assert delta(mean) <= each.delta
    assert mean <= figure * (1 + 2e-4)


@pytest.mark.parametrize(("epsilon", "figure"), [(1.0, 714.734), (2.0, 199.862), (4.0, 57.9166)])
def test_twenty_questions_with_fake_users_are_accounted_for_together(
    epsilon: float, figure: float
) -> None:
    found = designed(counts(20), epsilon, DELTA, "shuffle")
    means = [float(one.protocol.parameters["noise_per_bucket"]) for one in found.releases]
    assert len(means) == 20
    assert max(means) <= figure * (1 + 1e-3)
    assert inverted(poisson_moved(min(means)), epsilon, 20) <= found.guarantee.delta <= DELTA


@pytest.mark.parametrize(
    ("number", "one_sided", "halved"), [(1, 34.0679, 21.3273), (10, 191.257, 179.048)]
)
def test_two_buckets_need_less_noise_than_one(number: int, one_sided: float, halved: float) -> None:
    def delta(mean: float) -> float:
        ways = poisson_moved(mean)
        return max(delta_of([way], 1.0, number) for way in ways)

    check_least(delta, one_sided)
    assert FAKE_USERS[number][0] / 2 == pytest.approx(halved, rel=5e-6)
    boxes = hc.Boxes([f"box {at}" for at in range(number)])
    budget, crowd = hc.Budget(1, DELTA), hc.Crowd(10**5)
    found = hc.protocol("shuffle.fake-user-boxes", boxes, budget, crowd)
    mean = float(found.parameters["noise_per_box"])
    assert delta(mean) <= DELTA
    assert mean <= one_sided * (1 + 2e-4)


# Scales, and the split of the budget ------------------------------------------------------------


def test_the_sum_of_a_scale_from_its_histogram() -> None:
    seen = np.arange(-200, 201)
    weight = np.exp(-np.abs(seen) / 2)
    others = np.ones(1)
    for _ in range(4):
        others = np.convolve(others, weight)
    middle = len(others) // 2
    law = weight * others[middle - seen]  # the other four buckets make up for this one
    variance = float(law @ seen**2 / law.sum())
    assert math.sqrt(variance) == pytest.approx(2.15148, rel=5e-6)
    levels = np.arange(5, dtype=np.float64) - 2
    # Two buckets have the covariance −variance/4.
    covariances = variance * (1.25 * np.eye(5) - 0.25)
    total = math.sqrt(levels @ covariances @ levels)
    assert total == pytest.approx(7.60663, rel=5e-6)
    built = hc.protocol("central.sum-zero", hc.Histogram(5), hc.Budget(1), hc.Crowd(1000))
    estimate = hc.run(built, np.arange(1000) % 5, hc.SeededSource(1))
    assert sum_error(estimate.error_law, levels).standard_error == pytest.approx(total, rel=1e-6)
    assert (sd(1 / 4), sd(1 / 8)) == pytest.approx((5.64215, 11.3063), rel=5e-6)


def moved(rate: float, steps: int = 1) -> Pair:
    """Geometric noise that is moved by some steps. Outcomes beyond both ends are added up."""
    a, inside = math.exp(-rate), math.tanh(rate / 2)
    mass = [1 / (1 + a), *(inside * a**z for z in range(1, steps)), a**steps / (1 + a)]
    return np.array(mass), np.array(mass[::-1])


def test_composition_gains_little_for_three_questions() -> None:
    """A count, a histogram and a sum from 0 to 4 whose error may be twice as large."""
    assert max(sd(1 / 3), sd(1 / 6), sd(1 / 12) / 2) == pytest.approx(8.48283, rel=5e-6)

    def rates(error: float) -> tuple[float, float]:
        one, two = (2 * math.asinh(1 / (math.sqrt(2) * error * weight)) for weight in (1, 2))
        return one, two

    def delta(error: float) -> float:
        one, two = rates(error)
        return listed([moved(one)] * 3 + [moved(two, 4)], 1.0)

    check_least(delta, 7.06275)
    one, two = rates(7.06275)
    crowd = hc.Crowd(100)
    parts = [
        hc.protocol("central.geometric", task, hc.Budget(epsilon), crowd)
        for task, epsilon in (
            (hc.Count(), one),
            (hc.Boxes(["a", "b"], at_most=1), 2 * one),
            (hc.Sum(0, 4, whole=True), 4 * two),
        )
    ]
    promise, _ = joint(parts, hc.Budget(1.0, 1e-3), crowd, hc.Trust.CENTRAL)
    assert delta(7.06275) * (1 - 1e-9) <= promise.delta <= delta(7.06275) * (1 + 1e-5)


# Local trust ------------------------------------------------------------------------------------


def of_response(epsilon: float) -> float:
    """The variance of randomized response for one person."""
    return 1 / (4 * math.sinh(epsilon / 2) ** 2)


def of_block(epsilon: float, questions: int) -> float:
    """The variance for one of several questions that are answered as one k-ary response. Half of
    the people say yes.
    """
    answers = list(itertools.product((0, 1), repeat=questions))
    weights = [math.exp(epsilon) if answer == answers[-1] else 1.0 for answer in answers]
    chances = [weight / math.fsum(weights) for weight in weights]
    kept = math.fsum(c for c, answer in zip(chances, answers, strict=True) if answer[0])
    # By symmetry, people who say no report yes as often as people who say yes report no.
    return kept * (1 - kept) / (2 * kept - 1) ** 2


def of_some(noise: float, asked: int, number: int, spread: float = 0.25) -> float:
    """The variance times n if everybody is asked some of all questions."""
    return number / asked * (noise + spread) - spread


# For ε and the number of questions: split over all, one question, the best number of questions and
# its variance, and the same as one block.
LOCAL = {
    (1, 5): (24.9168, 5.60337, 1, 5.60337, 1, 5.60337),
    (1, 10): (99.9167, 11.4567, 1, 11.4567, 1, 11.4567),
    (1, 20): (399.917, 23.1635, 1, 23.1635, 1, 23.1635),
    (2, 5): (6.16733, 1.90508, 1, 1.90508, 2, 1.40257),
    (2, 10): (24.9168, 4.06015, 1, 4.06015, 2, 3.05513),
    (2, 20): (99.9167, 8.37031, 1, 8.37031, 2, 6.36026),
    (4, 5): (1.48177, 1.09503, 2, 0.827539, 4, 0.276921),
    (4, 10): (6.16733, 2.44005, 2, 1.90508, 4, 0.803843),
    (4, 20): (24.9168, 5.13011, 2, 4.06015, 4, 1.85769),
}


@pytest.mark.parametrize(("epsilon", "number"), LOCAL)
def test_errors_of_local_questions(epsilon: int, number: int) -> None:
    split, one, best, some, joined, block = LOCAL[epsilon, number]
    alone = [of_some(of_response(epsilon / s), s, number) for s in range(1, number + 1)]
    blocks = [of_some(of_block(epsilon, s), s, number) for s in range(1, 6)]
    assert (alone[-1], alone[0]) == pytest.approx((split, one), rel=5e-6)
    assert (min(alone), min(blocks)) == pytest.approx((some, block), rel=5e-6)
    assert (alone.index(min(alone)), blocks.index(min(blocks))) == (best - 1, joined - 1)
    # The library: all questions with a part of ε, one of them, and the best block.
    users = 10_000
    task, crowd = hc.Boxes([f"box {at}" for at in range(number)]), hc.Crowd(users)
    part = hc.Budget(epsilon / number)
    whole = hc.protocol("local.randomized-response", hc.Count(), part, crowd)
    single = hc.protocol("local.some-boxes", task, hc.Budget(epsilon), crowd, boxes_each=1)
    assert whole.standard_error() ** 2 / users == pytest.approx(split, rel=1e-5)
    assert single.standard_error() ** 2 / users == pytest.approx(one, rel=1e-4)
    found = designed(counts(number), epsilon, 0.0, "local")
    assert found.standard_error("q0") ** 2 / users == pytest.approx(block, rel=1e-4)
    assert found.releases[0].protocol.parameters["boxes_each"] == joined
    assert found.guarantee.epsilon == pytest.approx(epsilon, rel=1e-9)  # no amplification
    apart = designed(counts(number, "local.randomized-response"), epsilon, 0.0, "local")
    assert apart.standard_error("q0") ** 2 / users == pytest.approx(some, rel=1e-3)
    assert apart.releases_each == best


def test_who_is_asked_adds_to_the_variance() -> None:
    """All ways to ask 2 of 4 people, and all that they can report."""
    values, epsilon = (1, 1, 1, 0), 1.0
    truth = 1 / (1 + math.exp(-epsilon))
    squares = []
    for asked in itertools.combinations(values, 2):
        for reports in itertools.product((0, 1), repeat=2):
            told = sum(one == other for one, other in zip(asked, reports, strict=True))
            chance = truth**told * (1 - truth) ** (2 - told) / 6
            share = (sum(reports) / 2 - (1 - truth)) / (2 * truth - 1)
            squares.append(chance * (share - 0.75) ** 2)
    spread = 0.75 * 0.25 * (1 / 2 - 1 / 4) * 4 / 3
    assert math.fsum(squares) == pytest.approx(of_response(epsilon) / 2 + spread, rel=1e-12)


def crossing(noise: Callable[[float, int], float], asked: int, spread: float = 0.25) -> float:
    """The ε from which on one more question should be asked. The number of questions cancels."""

    def gain(epsilon: float) -> float:
        few, more = ((noise(epsilon, s) + spread) / s for s in (asked, asked + 1))
        return few - more

    return float(brentq(gain, 0.3, 15, xtol=1e-12))


def part_of(epsilon: float, asked: int) -> float:
    return of_response(epsilon / asked)


@pytest.mark.parametrize(
    ("asked", "figure"), [(1, 3.05714), (2, 5.31987), (3, 7.53281), (4, 9.72975)]
)
def test_from_which_epsilon_on_more_questions_are_asked(asked: int, figure: float) -> None:
    assert crossing(part_of, asked) == pytest.approx(figure, abs=6e-6)
    for factor, each in ((0.99, asked), (1.01, asked + 1)):
        found = designed(counts(6, "local.randomized-response"), factor * figure, 0.0, "local")
        assert found.releases_each == each


def test_from_which_epsilon_on_two_questions_are_asked_about_rarer_answers() -> None:
    spread = 0.3 * 0.7
    found = crossing(part_of, 1, spread)
    assert found == pytest.approx(3.33610, abs=6e-6)
    y = math.cosh(found / 4) ** 2
    assert 8 * spread * y**2 - (8 * spread + 2) * y + 1 == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(("asked", "figure"), [(1, 1.34245), (2, 2.69449), (3, 3.80026)])
def test_from_which_epsilon_on_blocks_are_longer(asked: int, figure: float) -> None:
    assert crossing(of_block, asked) == pytest.approx(figure, abs=6e-6)
    task = hc.Boxes([f"box {at}" for at in range(12)])
    for factor, each in ((0.999, asked), (1.001, asked + 1)):
        budget = hc.Budget(factor * figure)
        found = hc.protocol("local.some-boxes", task, budget, hc.Crowd(10_000))
        assert found.parameters["boxes_each"] == each


@pytest.mark.parametrize(("number", "figure"), [(2, 1.48988), (3, 1.81724)])
def test_a_secret_question_with_fake_answers_to_the_others_protects_one_answer_only(
    number: int, figure: float
) -> None:
    larger = math.log(number * math.expm1(1.0) + 1)
    truth = 1 / (1 + math.exp(-larger))
    records = list(itertools.product((0, 1), repeat=number))

    def chance(record: tuple[int, ...], sent: tuple[int, ...]) -> float:
        told = (truth if a == b else 1 - truth for a, b in zip(record, sent, strict=True))
        return math.fsum(told) / number * 0.5 ** (number - 1)

    losses: dict[int, float] = {}
    for one, other in itertools.permutations(records, 2):
        changed = sum(a != b for a, b in zip(one, other, strict=True))
        loss = max(math.log(chance(one, sent) / chance(other, sent)) for sent in records)
        losses[changed] = max(loss, losses.get(changed, 0.0))
    assert losses[1] == pytest.approx(1.0, rel=1e-12)
    assert max(losses.values()) == pytest.approx(figure, abs=6e-6)


# Waves ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("waves", "figure"), [(12, 1.19772), (26, 2.14871), (52, 3.24127), (104, 4.89715)]
)
def test_waves_of_randomized_response(waves: int, figure: float) -> None:
    check_least(lambda epsilon: of_responses(waves, 0.1, epsilon), figure)
    count = hc.protocol("local.randomized-response", hc.Count(), hc.Budget(0.1), hc.Crowd(100))
    truth = of_responses(waves, 0.1, figure)
    found = joint_curve([count.curve], waves).delta(figure)
    assert truth * (1 - 1e-9) <= found <= truth * (1 + 1e-6)


def test_closed_forms_for_waves_are_larger() -> None:
    waves, epsilon = 52, 0.1
    spread = math.sqrt(2 * waves * math.log(1 / DELTA)) * epsilon
    assert spread + waves * epsilon * math.expm1(epsilon) == pytest.approx(4.33742, rel=5e-6)
    assert spread + waves * epsilon**2 / 2 == pytest.approx(4.05053, rel=5e-6)


def test_noise_of_fake_users_in_one_wave() -> None:
    check_least(lambda mean: listed(poisson_moved(mean), 0.1), 2641.13)
    alone = hc.protocol(
        "shuffle.fake-users", hc.Histogram(3), hc.Budget(0.1, DELTA), hc.Crowd(10**5)
    )
    mean = float(alone.parameters["noise_per_bucket"])
    assert listed(poisson_moved(mean), 0.1) <= DELTA
    assert mean <= 2641.13 * (1 + 2e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("waves", "figure"), [(12, 0.377131), (52, 0.827214)])
def test_waves_of_fake_users(waves: int, figure: float) -> None:
    check_least(lambda epsilon: inverted(poisson_moved(2641.13), epsilon, waves), figure)
    alone = hc.protocol(
        "shuffle.fake-users", hc.Histogram(3), hc.Budget(0.1, DELTA), hc.Crowd(10**5)
    )
    truth = inverted(poisson_moved(float(alone.parameters["noise_per_bucket"])), figure, waves)
    assert truth <= joint_curve([alone.curve], waves).delta(figure) <= truth * (1 + 2e-3)


@pytest.mark.parametrize(
    ("kept", "fresh", "figure"), [(2.0, 1.0, 23.7031), (2.0, 0.5, 10.1245), (1.0, 0.5, 9.33864)]
)
def test_a_change_shows_if_kept_answers_are_randomized_again(
    kept: float, fresh: float, figure: float
) -> None:
    """One person keeps a value for 52 waves. Another one changes it in the middle."""
    own, told = (1 / (1 + math.exp(-epsilon)) for epsilon in (kept, fresh))
    seen = [binom.pmf(range(27), 26, chance) for chance in (1 - told, told)]
    stays = own * np.multiply.outer(seen[0], seen[0]) + (1 - own) * np.multiply.outer(
        seen[1], seen[1]
    )
    before, after = own * seen[0] + (1 - own) * seen[1], (1 - own) * seen[0] + own * seen[1]
    changes = np.multiply.outer(before, after)
    both = (stays.reshape(-1), changes.reshape(-1)), (changes.reshape(-1), stays.reshape(-1))
    check_least(lambda epsilon: max(listed([pair], epsilon) for pair in both), figure)
