"""The joint guarantee of a survey, judged by listing all views of small crowds."""

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import poisson

import enumeration
import headcount as hc
from headcount.survey.design import Ask, Design
from headcount.survey.split import design

# A pair of views: the probabilities of all outcomes for one answer and for another one.
Pair = tuple[NDArray[np.float64], NDArray[np.float64]]
MOST = 10**7  # products of views are listed if they have at most this many outcomes
RARE = 1e-13  # outcomes with a smaller product of probabilities are left out


def as_pair(upper: Any, lower: Any) -> Pair:
    if isinstance(upper, np.ndarray):
        return upper.reshape(-1), lower.reshape(-1)
    names = {*upper, *lower}
    one, other = (
        np.array([float(law.get(name, Fraction(0))) for name in names]) for law in (upper, lower)
    )
    return one, other


def merged(pair: Pair) -> Pair:
    """Outcomes with the same loss become one outcome. This changes no divergence.

    Losses that differ by less than 1e-9 are merged, too, which can only lower a divergence.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.log(pair[0]) - np.log(pair[1])
    seen = (pair[0] > 0) | (pair[1] > 0)
    kinds, which = np.unique(np.round(losses[seen], 9), return_inverse=True)
    weights = [mass[seen].astype(np.float64) for mass in pair]
    sums = [np.zeros(len(kinds)), np.zeros(len(kinds))]
    for total, mass in zip(sums, weights, strict=True):
        np.add.at(total, which, mass)
    return sums[0], sums[1]


def divergence(pair: Pair, epsilon: float) -> float:
    return float(np.maximum(pair[0] - math.exp(epsilon) * pair[1], 0).sum())


def product(one: Pair, other: Pair) -> Pair:
    """The pair of two independent views. Rare outcomes are left out, which lowers divergences."""
    assert len(one[0]) * len(other[0]) <= MOST
    both = [np.multiply.outer(one[at], other[at]).reshape(-1) for at in (0, 1)]
    kept = both[0] > RARE
    return merged((both[0][kept], both[1][kept]))


def worst(choices: Sequence[Sequence[Pair]], epsilon: float) -> float:
    """The largest divergence over all pairs and directions, chosen separately for each question."""
    joint = list(choices[0])
    for more in choices[1:-1]:
        joint = [product(one, other) for one in joint for other in more]
    if len(choices) == 1:
        return max(divergence(one, epsilon) for one in joint)
    return max(_last(one, other, epsilon) for one in joint for other in choices[-1])


def _last(one: Pair, other: Pair, epsilon: float) -> float:
    """The divergence of a product, from sums over the sorted losses of the second view."""
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.where(other[0] > 0, np.log(other[0]) - np.log(other[1]), -np.inf)
        first = np.log(one[0]) - np.log(one[1])
    order = np.argsort(-losses)
    high = np.concatenate([[0.0], np.cumsum(other[0][order])])
    low = np.concatenate([[0.0], np.cumsum(other[1][order])])
    left = np.where(one[0] > 0, epsilon - first, np.inf)
    inside = np.searchsorted(-losses[order], -left, side="left")
    terms = one[0] * high[inside] - math.exp(epsilon) * one[1] * low[inside]
    return float(np.maximum(terms, 0).sum())


def distinct(pairs: list[Pair]) -> list[Pair]:
    """Pairs with the same divergences at several ε, of both signs, are kept once."""
    kept: dict[tuple[float, ...], Pair] = {}
    for pair in pairs:
        key = tuple(round(divergence(pair, epsilon), 11) for epsilon in (-1.5, -0.4, 0, 0.3, 1, 2))
        kept.setdefault(key, merged(pair))
    return list(kept.values())


def pairs_of(protocol: hc.Protocol) -> list[Pair]:
    if protocol.trust is not hc.Trust.CENTRAL:
        return distinct([as_pair(*views) for views in enumeration.neighboring_views(protocol)])
    values = range(len(enumeration.asked(protocol)))
    laws = {}
    for holding in enumeration.datasets(protocol.crowd.users, len(values)):
        counts = enumeration.held(protocol, holding)
        tally = protocol.simulate(counts, hc.SeededSource(1))
        laws[holding] = protocol.estimator.release_law(tally)
        assert laws[holding] is not None
    moved = [
        (one, other)
        for one, other in itertools.permutations(laws, 2)
        if sum(abs(a - b) for a, b in zip(one, other, strict=True)) == 2
    ]
    return distinct([as_pair(laws[one], laws[other]) for one, other in moved])


def check(found: Design) -> None:
    """The guarantee and the curve are never below the truth."""
    choices = [pairs_of(release.protocol) for release in found.releases]
    each = found.releases_each or len(choices)
    answered = list(itertools.combinations(choices, each))
    promised = found.guarantee
    assert promised.epsilon <= found.budget.epsilon
    assert promised.delta <= found.budget.delta
    for epsilon in (promised.epsilon, 0.0, promised.epsilon / 2):
        truth = max(worst(some, epsilon) for some in answered)
        assert found.curve.delta(epsilon) >= truth - 1e-11
        if epsilon == promised.epsilon:
            assert promised.delta >= truth - 1e-11
            if promised.exact and promised.delta:
                assert promised.delta <= truth * 1.002 + 1e-9


def random_survey(seed: int) -> Design:
    rng = np.random.default_rng(seed)
    trust = hc.Trust(rng.choice(["central", "shuffle", "local"]))
    users = int(rng.integers(2, 4))
    number = int(rng.integers(2, 4))
    asks = []
    for at in range(number):
        kind = rng.choice(["count", "histogram", "boxes", "mean"])
        weight = float(rng.choice([1.0, 1.0, 2.0]))
        task: hc.Task = hc.Count()
        protocol = None
        if kind == "histogram":
            task = hc.Histogram(int(rng.integers(2, 4)) if trust is not hc.Trust.SHUFFLE else 2)
        elif kind == "boxes":
            task = hc.Boxes(["a", "b"], at_most=int(rng.integers(1, 3)))
        elif kind == "mean" and trust is hc.Trust.CENTRAL:
            task = hc.Sum(0, 2, whole=True)
        elif kind == "mean" and trust is hc.Trust.SHUFFLE and seed % 10 == 0:
            protocol = str(rng.choice(["shuffle.randomized-response", "shuffle.zero-exact"]))
        asks.append(Ask(f"q{at}", task, weight, protocol))
    central = trust is hc.Trust.CENTRAL
    epsilon = float(rng.uniform(2, 4)) if central else float(rng.uniform(1, 3))
    delta = 0.0 if trust is not hc.Trust.SHUFFLE else float(rng.uniform(0.15, 0.4))
    return design(asks, (), hc.Budget(epsilon, delta), hc.Crowd(users), trust)


def judge(seeds: Sequence[int]) -> int:
    judged = 0
    for seed in seeds:
        try:
            found = random_survey(seed)
        except hc.Infeasible:  # a protocol that needs more people
            continue
        protocols = [release.protocol for release in found.releases]
        if found.trust is not hc.Trust.CENTRAL and not all(map(enumeration.is_small, protocols)):
            continue
        check(found)
        judged += 1
    return judged


def test_random_surveys_keep_their_joint_guarantee() -> None:
    assert judge([0, 2, 4, 5, 6, 7, 9, 11, 13]) == 9


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
def test_many_random_surveys_keep_their_joint_guarantee(part: int) -> None:
    assert judge(range(100 + 50 * part, 150 + 50 * part)) >= 20


# Figures that are known from other computations --------------------------------------------------


def responses(people: int, flip: float) -> list[Pair]:
    """Shuffled randomized response: all datasets of the others, in both directions."""
    laws = {}
    for ones in range(people + 1):
        law = np.ones(1)
        for holder in [1 - flip] * ones + [flip] * (people - ones):
            law = np.convolve(law, [1 - holder, holder])
        laws[ones] = law
    near = [(a, b) for a, b in itertools.permutations(laws, 2) if abs(a - b) == 1]
    return [(laws[a], laws[b]) for a, b in near]


def zero_exact(people: int, p: float) -> list[Pair]:
    noise = np.array(
        [math.comb(people, k) * p**k * (1 - p) ** (people - k) for k in range(people + 1)]
    )
    one, other = np.append(noise, 0.0), np.append(0.0, noise)
    return [(one, other), (other, one)]


def test_every_question_has_its_own_worst_dataset_and_direction() -> None:
    found = worst([zero_exact(3, 0.5), responses(3, 0.25)], 0.7)
    assert found == pytest.approx(0.328225, abs=5e-7)


def test_directions_are_mixed() -> None:
    counts = np.arange(250)
    mass = poisson.pmf(counts, 50.0379)
    up = (np.append(mass, 0.0), np.append(0.0, mass))  # noise on "yes" only
    down = (up[1], up[0])  # messages are withheld instead: the mirror image
    same = max(_last(up, down, 1.0), _last(down, up, 1.0))
    mixed = max(_last(up, up, 1.0), _last(down, down, 1.0))
    assert same == pytest.approx(1.70092e-7, rel=1e-4)
    assert mixed == pytest.approx(1e-6, rel=1e-4)


def test_linked_messages_break_the_promise() -> None:
    """If the shuffler mixes whole responses, the view has pairs of answers and shows more."""
    people, flip, epsilon = 4, 0.2, 1.0
    unlinked = worst([responses(people, flip)] * 2, epsilon)
    tuples = list(itertools.product((0, 1), repeat=2))

    def one(person: tuple[int, ...]) -> dict[tuple[int, ...], float]:
        law = {}
        for at, reported in enumerate(tuples):
            wrong = sum(a != b for a, b in zip(person, reported, strict=True))
            counts = tuple(int(at == place) for place in range(4))
            law[counts] = flip**wrong * (1 - flip) ** (2 - wrong)
        return law

    def view(crowd: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], float]:
        law: dict[tuple[int, ...], float] = {(0, 0, 0, 0): 1.0}
        for person in crowd:
            grown: dict[tuple[int, ...], float] = defaultdict(float)
            for counts, chance in law.items():
                for more, share in one(person).items():
                    grown[tuple(map(sum, zip(counts, more, strict=True)))] += chance * share
            law = dict(grown)
        return law

    linked = 0.0
    for others in itertools.combinations_with_replacement(tuples, people - 1):
        views = [view([*others, own]) for own in tuples]
        for upper, lower in itertools.permutations(views, 2):
            factor = math.exp(epsilon)
            gap = math.fsum(max(p - factor * lower[name], 0.0) for name, p in upper.items())
            linked = max(linked, gap)
    assert unlinked == pytest.approx(0.204032, abs=5e-7)
    assert linked == pytest.approx(0.271977, abs=5e-7)


@pytest.mark.parametrize(("boxes", "ticks", "noise"), [(8, 3, 109.742), (8, 8, 155.657)])
def test_boxes_with_fake_users_count_all_boxes_that_change(
    boxes: int, ticks: int, noise: float
) -> None:
    task = hc.Boxes([f"box {at}" for at in range(boxes)], at_most=ticks)
    found = hc.protocol("shuffle.fake-user-boxes", task, hc.Budget(1, 1e-6), hc.Crowd(1000))
    assert float(found.parameters["noise_per_box"]) == pytest.approx(noise, rel=3e-4)


@pytest.mark.parametrize(("boxes", "ticks"), [(2, 1), (2, 2), (3, 1), (3, 2)])
def test_boxes_with_fake_users_keep_their_guarantee(boxes: int, ticks: int) -> None:
    task = hc.Boxes(["a", "b", "c"][:boxes], at_most=ticks)
    found = hc.protocol("shuffle.fake-user-boxes", task, hc.Budget(1.5, 0.1), hc.Crowd(2))
    counts = np.arange(60)
    mass = poisson.pmf(counts, found.parameters["noise_per_box"])
    gained = (np.append(0.0, mass), np.append(mass, 0.0))
    choices = []
    for one, other in itertools.permutations(task.codes, 2):
        bits = [(one >> at & 1) - (other >> at & 1) for at in range(boxes)]
        choices.append([[gained if bit > 0 else gained[::-1]] for bit in bits if bit])
    for epsilon in (0.0, 0.7, 1.5):
        truth = max(worst(pairs, epsilon) for pairs in choices)
        assert truth * (1 - 1e-9) <= found.curve.delta(epsilon) <= truth * 1.001
    assert found.guarantee.delta <= 0.1


def test_a_person_who_answers_several_releases_spends_their_sum() -> None:
    asks = [Ask("a", hc.Histogram(3)), Ask("b", hc.Histogram(3)), Ask("c", hc.Histogram(2))]
    found = design(asks, (), hc.Budget(9.0), hc.Crowd(1000), hc.Trust.LOCAL)
    assert found.releases_each is not None
    assert found.releases_each > 1
    assert found.guarantee.epsilon == pytest.approx(9.0, rel=1e-9)
    check(found)
