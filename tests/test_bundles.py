"""Bundles of one size: what drawing again until the noise fits costs, by exact enumeration."""

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import product, zip_longest
from math import comb
from typing import Any, TypeAlias

import mpmath
import numpy as np
import pytest
from scipy import stats

import headcount as hc
from enumeration import log_likelihood_ratio
from headcount.core.guarantee import FittedCurve
from headcount.core.messages import Alphabet
from headcount.core.randomizer import Randomizer

ALARM = 1e-6

# The claim ----------------------------------------------------------------------------------
#
# Everybody sends x ∈ {0, 1} messages and a number of noise messages, all alike. What is seen is
# their number. e^ε is a rational number here, so that all of it is exact.

Law: TypeAlias = tuple[Fraction, ...]  # of a number 0, 1, …


def geometric(p: Fraction, most: int) -> Law:
    law = [(1 - p) * p**k for k in range(most)]
    return (*law, 1 - sum(law, Fraction(0)))


def binomial(trials: int, p: Fraction) -> Law:
    return tuple(comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(trials + 1))


NOISES: dict[str, Law] = {
    "geometric": geometric(Fraction(1, 5), 6),
    "long": geometric(Fraction(1, 2), 6),
    "binomial": binomial(5, Fraction(1, 3)),
    "uniform": (Fraction(1, 4),) * 4,
    "two humps": tuple(Fraction(n, 20) for n in (16, 1, 1, 0, 2)),
}
FACTORS = [Fraction(1), Fraction(11, 10), Fraction(3, 2), Fraction(4)]


def given_at_most(law: Law, most: int) -> Law:
    fits = law[: most + 1]
    return tuple(chance / sum(fits) for chance in fits)


def sums(parts: Sequence[Law]) -> Law:
    whole: Law = (Fraction(1),)
    for part in parts:
        grown = [Fraction(0)] * (len(whole) + len(part) - 1)
        for (i, one), (j, other) in product(enumerate(whole), enumerate(part)):
            grown[i + j] += one * other
        whole = tuple(grown)
    return whole


def divergence(one: Law, other: Law, factor: Fraction) -> Fraction:
    pairs = zip_longest(one, other, fillvalue=Fraction(0))
    return sum((max(p - factor * q, Fraction(0)) for p, q in pairs), Fraction(0))


@cache
def views(noise: Law, others: int, holding: int, slots: int | None, own: bool) -> list[Law]:
    """The laws if one person holds 0 and if one holds 1. Of the others, `holding` hold 1.

    With `own`, all messages must fit, as if a person who holds 0 might have more noise.
    """

    def sent(value: int) -> Law:
        if slots is None:
            return (Fraction(0),) * value + noise
        room = slots - (value if own else 1)
        return (Fraction(0),) * value + given_at_most(noise, room)

    rest = [sent(int(i < holding)) for i in range(others)]
    return [sums([*rest, sent(value)]) for value in (0, 1)]


def settings() -> list[tuple[Law, int, int, int, Fraction]]:
    """Noise, slots, people, those of the others who hold 1, and e^ε."""
    return [
        (noise, slots, people, holding, factor)
        for noise in NOISES.values()
        for people in (1, 2, 3)
        for slots in range(2, len(noise))
        for holding in range(people)
        for factor in FACTORS
        if 0 < people * sum(noise[slots:]) < 1
    ]


@pytest.mark.parametrize("own", [False, True], ids=["noise alone", "all messages"])
def test_redrawn_views_keep_the_bound_in_both_directions(own: bool) -> None:
    """The bound also holds if the value decides how much noise fits, so that f differs."""
    nearest = Fraction(0)
    for noise, slots, people, holding, factor in settings():
        plain = views(noise, people - 1, holding, None, own)
        drawn = views(noise, people - 1, holding, slots, own)
        redrawn = people * sum(noise[slots:])
        for this, that in ((0, 1), (1, 0)):
            known = divergence(plain[this], plain[that], factor)
            bound = (known + factor * redrawn) / (1 - redrawn)
            found = divergence(drawn[this], drawn[that], factor)
            assert found <= bound
            nearest = max(nearest, found / bound)
    assert nearest > Fraction(1, 2)  # the bound is not loose


def test_the_bound_is_needed_and_is_below_the_sum_of_two_variations() -> None:
    exceeded = 0
    for noise, slots, people, holding, factor in settings():
        plain = views(noise, people - 1, holding, None, own=False)
        drawn = views(noise, people - 1, holding, slots, own=False)
        redrawn = people * sum(noise[slots:])
        known = divergence(plain[1], plain[0], factor)
        exceeded += divergence(drawn[1], drawn[0], factor) > known
        coupled = known + (1 + factor) * redrawn
        assert (known + factor * redrawn) / (1 - redrawn) <= coupled or coupled > 1
    assert exceeded > 50


def test_other_peoples_values_say_nothing_if_noise_alone_must_fit() -> None:
    noise, factor = NOISES["long"], Fraction(3, 2)

    def found(own: bool) -> list[set[Fraction]]:
        drawn = [views(noise, 2, holding, 3, own) for holding in range(3)]
        return [
            {divergence(pair[this], pair[1 - this], factor) for pair in drawn} for this in (0, 1)
        ]

    assert [len(different) for different in found(own=False)] == [1, 1]
    assert min(len(different) for different in found(own=True)) > 1


@pytest.mark.parametrize("redrawn", [1e-9, 1e-3, 0.2])
def test_the_curve_is_the_bound_rounded_up(redrawn: float) -> None:
    known = hc.protocol("local.randomized-response", hc.Count(), hc.Budget(1), hc.Crowd(5)).curve
    curve = FittedCurve(known, redrawn)

    def bound(delta: float, epsilon: float) -> mpmath.mpf:
        cost = mpmath.exp(epsilon) * mpmath.mpf(redrawn)
        return min(1, (mpmath.mpf(delta) + cost) / (1 - mpmath.mpf(redrawn)))

    for epsilon in (-0.5, 0.0, 0.3, 0.99, 1.0, 2.0):
        at = np.array([epsilon])
        exact = bound(float(known.deltas(at)[0]), epsilon)
        assert exact <= curve.deltas(at)[0] <= exact * (1 + mpmath.mpf(1e-12))
        exact = bound(known.delta(epsilon), epsilon)
        assert exact <= curve.delta(epsilon) <= exact * (1 + mpmath.mpf(1e-12))
    for delta in (0.4, 0.1, 1e-3, 1e-8):
        epsilon = curve.epsilon(delta)
        if math.isinf(epsilon):
            assert curve.delta(1.0) > delta
        else:
            assert curve.delta(epsilon) <= delta
            assert epsilon == 0 or curve.delta(epsilon * (1 - 1e-9)) > delta
    assert FittedCurve(known, 1.0).delta(0.0) == FittedCurve(known, 7.0).delta(3.0) == 1
    assert FittedCurve(known, 1.0).epsilon(0.5) == math.inf


# What is drawn ------------------------------------------------------------------------------


def correlated_sum(levels: int) -> Any:
    task = hc.Sum(0, 2, whole=True)
    return hc.protocol(
        "shuffle.correlated-sum", task, hc.Budget(4, 0.2), hc.Crowd(5), levels=levels
    )


def bundles(protocol: Any, value: Any, slots: int, people: int) -> list[Any]:
    source, encoded = hc.SeededSource(8), protocol.task.encode([value])
    return [protocol.randomizer.send_fitting(encoded, source, slots).payload for _ in range(people)]


def test_levels_are_rounded_once_before_noise_is_drawn_again() -> None:
    """Half of those between two levels are at 0, however little noise fits."""
    protocol, slots, people = correlated_sum(1), 3, 2000
    # With one level, the code 0 is +1 and the code 1 is −1. What a person sends adds up to the
    # level and to a difference of noise, which has mean 0 also if it must fit.
    sent = bundles(protocol, 1, slots, people)
    total = [np.count_nonzero(one == 0) - np.count_nonzero(one == 1) for one in sent]
    assert abs(np.mean(total) - 0.5) < 5.5 * np.std(total) / math.sqrt(people)
    assert {len(one) for one in sent} == {0, 1, 2, 3}


def test_a_level_of_zero_has_no_room_for_more_noise() -> None:
    protocol, slots, people = correlated_sum(2), 14, 1000
    sizes = [
        Counter(len(sent) + (value == 0) for sent in bundles(protocol, value, slots, people))
        for value in (0, 1, 2)
    ]
    for found in sizes:
        assert max(found) == slots
    for found in sizes[1:]:
        table = np.array([[one[size] for size in range(1, slots + 1)] for one in (sizes[0], found)])
        assert stats.chi2_contingency(table).pvalue > ALARM


@pytest.mark.parametrize("value", [0, 1])
def test_noise_of_correlated_counts_fits_beside_a_one(value: int) -> None:
    """The number of noise messages, against its law by convolution, given that it fits."""
    protocol: Any = hc.protocol(
        "shuffle.correlated", hc.Count(), hc.Budget(2, 0.05), hc.Crowd(2), error_ratio=1.5
    )
    noise, slots = protocol.noise, 5
    single = stats.nbinom.pmf(np.arange(60), 1 / 2, 1 - noise.a)
    pairs = np.zeros(119)
    pairs[::2] = stats.nbinom.pmf(np.arange(60), noise.r / 2, 1 - noise.p)
    law = np.convolve(np.convolve(single, single), pairs)[:slots]
    sizes = Counter(len(sent) - value for sent in bundles(protocol, value, slots, 2000))
    expected = dict(enumerate((law / law.sum()).tolist()))
    assert log_likelihood_ratio(sizes, expected)[1] > ALARM
    wider = np.convolve(np.convolve(single, single), pairs)[: slots + 1]
    assert log_likelihood_ratio(sizes, dict(enumerate((wider / wider.sum()).tolist())))[1] < ALARM


# Sizes, with laws and the bound computed here ------------------------------------------------


@pytest.mark.parametrize(("users", "buckets"), [(1000, 5), (10_000, 20), (300, 50)])
def test_slots_of_fake_users(users: int, buckets: int) -> None:
    budget = hc.Budget(1, 1e-6)
    protocol = hc.protocol("shuffle.fake-users", hc.Histogram(buckets), budget, hc.Crowd(users))
    mean = buckets * protocol.parameters["noise_per_bucket"] / users
    empty = mpmath.exp(-mean)
    law = [float(empty * mpmath.power(mean, k) / mpmath.factorial(k)) for k in range(60)]
    # Tails by their own sum, since 1 − Σ cancels.
    tails = [math.fsum(law[k:]) for k in range(1, 60)]
    known = protocol.curve.delta(1.0)
    enough = [
        slots
        for slots, tail in enumerate(tails, 1)
        if users * tail < 1 and (known + math.e * users * tail) / (1 - users * tail) <= budget.delta
    ]
    assert protocol.slots == enough[0]


class Silent(Randomizer):
    """Sends 0, 1 or 2 messages for the value itself, and none or one of noise."""

    alphabet = Alphabet(np.uint8, range(1, 2), dummy=(0,))
    messages_per_user = 2.5

    def send(self, encoded: Any, source: hc.Source) -> hc.Messages:
        counts = encoded + source.integers(len(encoded), np.uint8) % 2
        return hc.Messages(np.ones(int(counts.sum()), np.uint8), len(encoded), counts)

    def law(self, value: int) -> None:
        return None

    def fewer_messages(self, encoded: Any) -> int:
        return 2 - int(encoded[0])


def test_a_device_draws_until_the_largest_value_would_fit() -> None:
    source = hc.SeededSource(9)
    for value in range(3):
        encoded = np.array([value], np.uint8)
        for slots, sizes in ((2, {value}), (3, {value, value + 1})):
            sent = [Silent().send_fitting(encoded, source, slots) for _ in range(60)]
            assert {len(one.payload) for one in sent} == sizes
