"""Intervals of ratios, and of differences between populations, cover as often as they say.

Coverages are exact: all outcomes but a probability of about 1e-5 are listed. The interval of a
ratio consists of all ratios that a test does not reject. So only the test of the true ratio is
made, not the search for the ends.
"""

import math
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import headcount as hc
from headcount.core.contrasts import pairs
from test_contrasts import (
    CENTRAL,
    PAIRS,
    Law,
    Reals,
    answered,
    binomial,
    built,
    estimate,
    geometric,
    halved_difference,
    plus,
    together,
)

pytestmark = pytest.mark.slow

RESPONSE, ZERO_EXACT = "local.randomized-response", "shuffle.zero-exact"
RARE = 1e-7


def mirrored(law: Law) -> Law:
    return dict(sorted((-k, p) for k, p in law.items()))


# Crowds -------------------------------------------------------------------------------------------


def outcomes(name: str, users: int, epsilon: float, yes: int) -> dict[float, float]:
    """The law of the estimate if `yes` people say yes."""
    if name == RESPONSE:
        lie = 1 / (1 + math.exp(epsilon))
        law = plus(binomial(yes, 1 - lie), binomial(users - yes, lie))
        return {(k - users * lie) / (1 - 2 * lie): p for k, p in law.items()}
    if name == ZERO_EXACT:
        missing = 1 - built(name, users, epsilon).parameters["p"]
        law = mirrored(binomial(users, missing))
        return {yes + k + users * missing: p for k, p in law.items()}
    return {float(yes + k): p for k, p in geometric(epsilon).items()}


@pytest.mark.parametrize(
    ("name", "epsilon", "first", "second"),
    [
        (CENTRAL, 1.0, (6, 30), (10, 40)),
        (CENTRAL, 0.5, (0, 30), (3, 30)),
        (ZERO_EXACT, 3.0, (6, 30), (10, 40)),
        (ZERO_EXACT, 3.0, (12, 30), (1, 40)),
        (RESPONSE, 2.0, (6, 30), (10, 40)),
        (RESPONSE, 2.0, (15, 30), (2, 40)),
        (RESPONSE, 1.0, (0, 30), (20, 25)),
    ],
)
def test_ratios_of_crowds_cover(
    name: str,
    epsilon: float,
    first: tuple[int, int],
    second: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    angle = math.atan2(first[0] / first[1], second[0] / second[1])

    def one_test(possible: Callable[[float], bool], likely: float) -> tuple[float, float]:
        return (0.0, 0.0) if possible(angle) else (1.0, 1.0)

    monkeypatch.setattr(pairs, "ratios", one_test)
    likely = [
        [
            (estimate(value, users, epsilon, name), chance)
            for value, chance in outcomes(name, users, epsilon, yes).items()
            if chance > RARE
        ]
        for yes, users in (first, second)
    ]
    covered = 0.0
    for one, chance in likely[0]:
        for other, weight in likely[1]:
            if chance * weight > RARE:
                covered += chance * weight * (hc.ratio(one, other).interval(0.95).low == 0)
    assert covered >= 0.95
    if name == CENTRAL:
        assert covered <= 0.995


# Populations --------------------------------------------------------------------------------------


def sampled(
    name: str, users: int, epsilon: float
) -> tuple[list[hc.Estimate], Callable[[float], Reals]]:
    """All likely estimates, and their probabilities for a share of the population."""
    noise: Law = {0: 1.0}
    task: hc.Histogram | None = None
    own, other, unit, start = 1.0, 0.0, 1, 0.0
    if name == RESPONSE:
        own, other = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
    elif name == "local.k-ary":
        task, other = hc.Histogram(3), 1 / (2 + math.exp(epsilon))
        own = 1 - 2 * other
    elif name == ZERO_EXACT:
        missing = 1 - built(name, users, epsilon).parameters["p"]
        noise, start = mirrored(binomial(users, missing)), -users * missing
    else:  # two buckets, in halves, since the number of people is known
        task, unit = hc.Histogram(2), 2
        noise = halved_difference(built(name, users, epsilon, task).parameters["noise_per_bucket"])
    protocol = built(name, users, epsilon, task)

    def law(share: float) -> Law:
        counted = binomial(users, other + (own - other) * share)
        if unit == 2:
            counted = {k: counted[k // 2] * (k % 2 == 0) for k in range(2 * users + 1)}
        return plus(counted, noise)

    shares = {share for pair in PAIRS for share in pair}
    laws = {share: law(share) for share in shares}
    seen = [k for k in laws[0.5] if max(one[k] for one in laws.values()) > RARE]
    found = []
    for k in seen:
        count = (k / unit - start - users * other) / (own - other)
        values = {1: count, 2: np.array([count, users - count]), 3: np.array([count, 0.0, 0.0])}
        value: Any = values[1 if task is None else task.domain]
        error = protocol.estimator.error_law(users, value)
        found.append(replace(answered(protocol), value=value, error_law=copy(error)))
    return found, lambda share: np.array([laws[share][k] for k in seen])


def first_of(numbers: Any) -> float:
    return float(np.atleast_1d(numbers)[0])


@pytest.mark.parametrize(
    ("name", "users", "epsilon"),
    [
        (RESPONSE, 60, 1.0),
        (RESPONSE, 40, 3.0),
        ("local.k-ary", 40, 2.0),
        (ZERO_EXACT, 40, 3.0),
        ("shuffle.fake-users", 40, 2.0),
        # Square-and-add alone would cover 94.5 % here, if the shares are 2 % and 80 %.
        ("shuffle.fake-users", 40, 1.0),
    ],
)
def test_differences_and_ratios_of_populations_cover(name: str, users: int, epsilon: float) -> None:
    """Square-and-add is repeated here, and compared with the library."""
    estimates, chances = sampled(name, users, epsilon)
    ends = [hc.population_share(one) for one in estimates]
    low = np.array([first_of(one.low) for one in ends])
    high = np.array([first_of(one.high) for one in ends])
    value = np.array([first_of(one.unbiased_value) for one in estimates]) / users
    value = np.clip(value, low, high)

    def between(u: float, v: float) -> tuple[Reals, Reals]:
        """The interval of uA − vB for all pairs of outcomes."""
        middle = np.subtract.outer(u * value, v * value)
        return (
            middle - together(u * (value - low), v * (high - value), low, high),
            middle + together(u * (high - value), v * (value - low), high, low),
        )

    bottom, top = between(1, 1)
    size = len(estimates)
    for at, other in ((size // 3, size // 2), (size // 2, size // 4)):
        one, two = estimates[at], estimates[other]
        difference = hc.difference(one, two).interval(0.95, sampling=True)
        assert first_of(difference.low) == pytest.approx(max(bottom[at, other], -1), abs=1e-9)
        assert first_of(difference.high) == pytest.approx(min(top[at, other], 1), abs=1e-9)
        ratio = hc.ratio(one, two).interval(0.95, sampling=True)
        for end, outside in ((first_of(ratio.low), 1 - 1e-6), (first_of(ratio.high), 1 + 1e-6)):
            if 0 < end < math.inf:
                for factor, possible in ((outside, False), (1 / outside, True)):
                    angle = math.atan(end * factor)
                    least, most = between(math.cos(angle), math.sin(angle))
                    assert (least[at, other] <= 0 <= most[at, other]) == possible
    for pair in PAIRS:
        first, second = map(chances, pair)
        inside = (bottom <= pair[0] - pair[1]) & (pair[0] - pair[1] <= top)
        assert first @ inside @ second >= 0.95, pair
        angle = math.atan2(*pair)
        least, most = between(math.cos(angle), math.sin(angle))
        assert first @ ((least <= 0) & (most >= 0)) @ second >= 0.95, pair
