"""The truncated geometric law: its integers, against 50-digit arithmetic and all outcomes."""

from collections import Counter
from fractions import Fraction

import mpmath
import pytest

import headcount as hc
from enumeration import log_likelihood_ratio
from headcount.accounting.truncated_geometric import (
    ShiftCurve,
    TruncatedGeometric,
    exp_below,
    float_above,
    least_most,
)
from headcount.randomness.table import ThresholdTable

ALARM = 1e-6
LAWS = [(1.0, 28), (0.1, 218), (2.0, 14), (0.5, 2), (0.01, 2), (0.01, 2732), (30.0, 4), (500.0, 2)]


def ideal(rate: float, most: int) -> list[mpmath.mpf]:
    """The law before rounding, with 50 digits."""
    masses = [mpmath.exp(-mpmath.mpf(rate) * abs(k - most // 2)) for k in range(most + 1)]
    total = mpmath.fsum(masses)
    return [mass / total for mass in masses]


def number(exact: Fraction) -> mpmath.mpf:
    return mpmath.mpf(exact.numerator) / exact.denominator


def divergence(weights: tuple[int, ...], move: int, epsilon: float) -> mpmath.mpf:
    """HS of the noise against the noise that is moved, by all outcomes."""
    factor = mpmath.exp(mpmath.mpf(epsilon))
    own, other = dict(enumerate(weights)), {k + move: w for k, w in enumerate(weights)}
    excess = (own.get(k, 0) - factor * other.get(k, 0) for k in {*own, *other})
    return mpmath.fsum(max(one, mpmath.mpf(0)) for one in excess) / 2**128


@pytest.mark.parametrize(("rate", "most"), LAWS)
def test_integers_follow_the_law_and_never_exceed_its_ratio(rate: float, most: int) -> None:
    law = TruncatedGeometric(Fraction(rate), most)
    assert sum(law.weights) == 2**128
    assert law.weights == law.weights[::-1]
    for weight, mass in zip(law.weights, ideal(rate, most), strict=True):
        assert abs(weight - mass * 2**128) <= (most + 4) ** 2 + mpmath.mpf(4) / rate
    most_ratio = mpmath.exp(mpmath.mpf(rate))
    for one, other in zip(law.weights, law.weights[1:], strict=False):
        assert max(one, other) <= most_ratio * min(one, other)
    moments = [(k - most // 2) ** 2 * w for k, w in enumerate(law.weights)]
    assert law.variance == Fraction(sum(moments), 2**128)
    assert law.below(1) == Fraction(law.weights[0], 2**128)


@pytest.mark.parametrize(("rate", "most"), LAWS)
@pytest.mark.parametrize("move", [1, 2, 3])
def test_curve_is_that_of_all_outcomes_in_both_directions(
    rate: float, most: int, move: int
) -> None:
    if move > most:
        return
    law = TruncatedGeometric(Fraction(rate), most)
    curve = ShiftCurve(law, move)
    for epsilon in (0.0, 0.3, rate * move * 0.99, rate * move, rate * move + 0.1, -0.4):
        there, back = (divergence(law.weights, sign * move, epsilon) for sign in (1, -1))
        stated = curve.delta(epsilon)
        assert max(there, back) <= stated + mpmath.mpf("1e-45")
        assert stated <= max(there, back) * (1 + 1e-15) + mpmath.mpf("1e-45")
    assert curve.delta(rate * move * (1 + 1e-15)) == float_above(law.below(move))
    assert curve.delta(float("inf")) == float_above(law.below(move))


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 7.0])
@pytest.mark.parametrize("delta", [0.3, 1e-3, 1e-6, 1e-12])
@pytest.mark.parametrize("steps", [1, 4])
def test_the_longest_noise_is_the_shortest_that_is_private(
    epsilon: float, delta: float, steps: int
) -> None:
    most = least_most(Fraction(epsilon) / steps, steps, delta)
    assert most is not None
    assert most % 2 == 0
    assert mpmath.fsum(ideal(epsilon / steps, most)[:steps]) <= delta
    shorter = most - 2
    fewest = max(2, steps + steps % 2)
    assert shorter < fewest or mpmath.fsum(ideal(epsilon / steps, shorter)[:steps]) > delta


def test_a_law_that_would_be_too_long_is_refused() -> None:
    assert least_most(Fraction(1, 10**9), 1, 1e-12) is None


def test_draws_follow_the_law_and_no_other() -> None:
    law = TruncatedGeometric(Fraction(1), 10)
    drawn = ThresholdTable(law.weights).sample(hc.SeededSource(4), 400_000)
    observed = Counter(drawn.tolist())
    chances = {k: float(mass) for k, mass in enumerate(ideal(1.0, 10))}
    assert log_likelihood_ratio(observed, chances)[1] > ALARM
    wrong = {k: float(mass) for k, mass in enumerate(ideal(1.02, 10))}
    assert log_likelihood_ratio(observed, wrong)[1] < ALARM


@pytest.mark.parametrize("exponent", [-3.0, 0.0, 1.0, 80.0])
def test_exponentials_are_rounded_down(exponent: float) -> None:
    with mpmath.workdps(120):
        exact = mpmath.exp(mpmath.mpf(exponent))
        assert exact * (1 - mpmath.mpf("1e-55")) <= number(exp_below(exponent)) <= exact
