"""An independent judge: exact laws of small crowds by enumeration.

Nothing here comes from `headcount.accounting`. Probabilities are rational, e^ε has 50 digits.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import pairwise
from math import comb
from typing import Any, TypeVar

import mpmath

from headcount import Protocol, Trust
from headcount.core.protocol import BundleLaw

mpmath.mp.dps = 50

View = tuple[Any, ...]
Outcome = TypeVar("Outcome")


def crowd_view(laws: Iterable[BundleLaw]) -> dict[View, Fraction]:
    """The law of the multiset of everybody's messages."""
    view: dict[View, Fraction] = {(): Fraction(1)}
    for law in laws:
        grown: dict[View, Fraction] = defaultdict(Fraction)
        for seen, chance in view.items():
            for bundle, probability in law.items():
                grown[tuple(sorted(seen + bundle))] += chance * probability
        view = dict(grown)
    return view


def hockey_stick(
    upper: Mapping[Outcome, Fraction], lower: Mapping[Outcome, Fraction], epsilon: float
) -> mpmath.mpf:
    factor = mpmath.exp(mpmath.mpf(epsilon))
    total = mpmath.mpf(0)
    for outcome, probability in upper.items():
        total += max(exactly(probability) - factor * exactly(lower.get(outcome, Fraction(0))), 0)
    return total


def exactly(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def neighboring_views(
    protocol: Protocol,
) -> list[tuple[dict[View, Fraction], dict[View, Fraction]]]:
    """Every ordered pair of views that differ in one honest person's value.

    Dishonest people may tell the adversary all they sent, so only the honest ones' messages hide
    anybody. In local trust the view is one person's bundle.
    """
    values = range(protocol.task.domain)
    laws = [protocol.law(value) for value in values]
    if protocol.trust is Trust.LOCAL:
        views = [dict(law) for law in laws]
        return [(one, other) for one in views for other in views if one is not other]
    # The order of people does not matter: a dataset is how many hold each value.
    honest = protocol.crowd.honest
    assert protocol.task.domain == 2, "teach the judge to enumerate larger domains"
    by_ones = [
        crowd_view([laws[1]] * ones + [laws[0]] * (honest - ones)) for ones in range(honest + 1)
    ]
    return [pair for one, other in pairwise(by_ones) for pair in ((one, other), (other, one))]


def worst_delta(protocol: Protocol, epsilon: float) -> mpmath.mpf:
    return max(hockey_stick(one, other, epsilon) for one, other in neighboring_views(protocol))


def geometric_mass(epsilon: float, z: int) -> mpmath.mpf:
    """Two-sided geometric law, to 50 digits."""
    a = mpmath.exp(-mpmath.mpf(epsilon))
    return (1 - a) / (1 + a) * a ** abs(z)


def binomial_mass(trials: int, p: Fraction, k: int) -> mpmath.mpf:
    if trials <= 2000:
        return exactly(comb(trials, k) * p**k * (1 - p) ** (trials - k))
    log = mpmath.loggamma(trials + 1) - mpmath.loggamma(k + 1) - mpmath.loggamma(trials - k + 1)
    return mpmath.exp(log + k * mpmath.log(exactly(p)) + (trials - k) * mpmath.log(exactly(1 - p)))


def log_likelihood_ratio(
    observed: Counter[Outcome], law: Mapping[Outcome, float]
) -> tuple[float, float]:
    """(G statistic, its p-value) of counts against a law; rare outcomes are put together."""
    total = sum(observed.values())
    if any(law.get(outcome, 0.0) <= 0 for outcome in observed):
        return float("inf"), 0.0
    common = [outcome for outcome, probability in law.items() if probability * total >= 10]
    groups = [(observed[outcome], law[outcome]) for outcome in common]
    rest = max(0.0, 1 - sum(probability for _, probability in groups))
    others = total - sum(count for count, _ in groups)
    if rest * total > 1e-9 or others:
        if rest <= 0:
            return float("inf"), 0.0
        groups.append((others, rest))
    g = sum(2 * n * float(mpmath.log(n / (total * p))) for n, p in groups if n)
    freedom = len(groups) - 1
    if freedom == 0:
        return g, 1.0
    return g, float(mpmath.gammainc(freedom / 2, max(g, 0.0) / 2, regularized=True))
