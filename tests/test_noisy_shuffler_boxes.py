"""Boxes with the noise of the shuffler. Sizes, moves and divergences are written here from their
definitions, and all noises are listed.
"""

import itertools
import math
from collections import Counter

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

import enumeration
import headcount as hc
from headcount.accounting import cut_ball

NAME = "shuffle.noisy-shuffler"
LABELS = "abcdefghijklmnopqrstuvwxyzABCD"


def made(boxes: int, ticks: int, epsilon: float, delta: float, users: int = 1) -> hc.Protocol:
    task = hc.Boxes(list(LABELS[:boxes]), at_most=ticks)
    return hc.protocol(NAME, task, hc.Budget(epsilon, delta), hc.Crowd(users))


def size(noise: NDArray[np.int64], ticks: int) -> NDArray[np.int64]:
    """The least j such that noise/j gains at most k ticks, loses at most k, and one in a box."""
    gained, lost = np.maximum(noise, 0).sum(axis=1), np.maximum(-noise, 0).sum(axis=1)
    most = np.abs(noise).max(axis=1)
    found: NDArray[np.int64] = np.maximum(most, np.ceil(np.maximum(gained, lost) / ticks))
    return found.astype(np.int64)


def answers(boxes: int, ticks: int) -> list[tuple[int, ...]]:
    return [one for one in itertools.product((0, 1), repeat=boxes) if sum(one) <= ticks]


def moves(boxes: int, ticks: int) -> set[tuple[int, ...]]:
    """All differences of two answers, up to the order of the boxes."""
    pairs = itertools.permutations(answers(boxes, ticks), 2)
    return {tuple(sorted(a - b for a, b in zip(*pair, strict=True))) for pair in pairs}


def worst(boxes: int, ticks: int, radius: int, epsilon: float, at: float) -> mpmath.mpf:
    """The largest divergence at `at`, over all moves, from a list of all noises in a cube."""
    line = np.arange(-radius, radius + 1)
    noise = np.array(list(itertools.product(line, repeat=boxes)))
    sizes = size(noise, ticks)
    weights = [mpmath.exp(-mpmath.mpf(epsilon) * j) for j in range(radius + 1)]
    total = mpmath.fsum(int((sizes == j).sum()) * weights[j] for j in range(radius + 1))
    found = []
    for move in moves(boxes, ticks):
        moved = np.minimum(size(noise + np.array(move), ticks), radius + 1)
        kinds = Counter(zip(sizes.tolist(), moved.tolist(), strict=True))
        excess = mpmath.mpf(0)
        for (own, other), number in kinds.items():
            if own > radius:
                continue
            against = weights[other] if other <= radius else mpmath.mpf(0)
            excess += number * max(weights[own] - mpmath.exp(at) * against, mpmath.mpf(0))
        found.append(excess / total)
    return max(found)


def test_eight_boxes_need_28_dummies_each() -> None:
    protocol = made(8, 8, 1.0, 1e-6, 1000)
    assert protocol.parameters == {"dummies": 2 * 28, "all_dummies": 8 * 28 + 8 * 28}
    assert protocol.standard_error() == pytest.approx(5.46961, rel=2e-5)
    assert protocol.messages_per_user == protocol.slots == 8
    assert protocol.guarantee.exact
    assert protocol.guarantee.honest == 1
    assert "learns the exact answer" in protocol.guarantee.relies_on
    with mpmath.workdps(40):
        j, every = 28, [(2 * r + 1) ** 8 for r in range(29)]
        shells = [every[0], *(b - a for a, b in itertools.pairwise(every))]
        total = mpmath.fsum(number * mpmath.exp(-r) for r, number in enumerate(shells))
        delta = mpmath.exp(-j) * ((2 * j + 1) ** 8 - (2 * j) ** 8) / total
    assert protocol.guarantee.delta == pytest.approx(float(delta), rel=1e-12)
    assert protocol.guarantee.delta >= delta * (1 - mpmath.mpf(10) ** -30)
    limited = made(8, 3, 1.0, 1e-6, 1000)
    assert limited.standard_error() == pytest.approx(5.17984, rel=2e-5)
    assert limited.slots == 3


def test_one_tick_is_a_histogram_with_a_bucket_for_nothing() -> None:
    """The noise of the buckets, with the bucket for nothing, adds up to 0."""
    protocol = made(4, 1, 1.0, 1e-6)
    assert protocol.standard_error() == pytest.approx(2.15148, rel=1e-4)
    one = made(1, 1, 1.0, 1e-6)
    count = hc.protocol(NAME, hc.Count(), hc.Budget(1, 1e-6), hc.Crowd(1))
    assert one.parameters == count.parameters
    assert one.guarantee.delta == pytest.approx(count.guarantee.delta, rel=1e-12)


@pytest.mark.parametrize(
    ("boxes", "ticks", "epsilon", "delta"),
    [(2, 2, 1.0, 0.1), (3, 1, 2.0, 0.1), (3, 2, 1.5, 0.2), (3, 3, 2.5, 0.1), (4, 2, 2.0, 0.3)],
)
def test_the_curve_is_that_of_every_view_of_one_person(
    boxes: int, ticks: int, epsilon: float, delta: float
) -> None:
    """Views have the messages of one person, and all dummies, with the fillers."""
    protocol = made(boxes, ticks, epsilon, delta)
    noises = protocol.shuffler.noise_law(1)
    assert noises is not None
    assert sum(noises.values()) == 1
    views: list[dict[tuple[int, ...], float]] = []
    for value in protocol.task.codes:  # type: ignore[attr-defined]
        (bundle,) = protocol.randomizer.law(value)  # type: ignore[misc]
        own = Counter(dict(bundle))
        assert sum(own.values()) == ticks
        view = {}
        for (dummies, alone), chance in noises.items():
            assert not alone
            seen = own + Counter(dict(dummies))
            view[tuple(seen[kind] for kind in range(boxes + 1))] = float(chance)
        views.append(view)
    for at in (0.0, 0.3 * epsilon, 0.9 * epsilon, epsilon, 1.5 * epsilon, -0.4 * epsilon):
        factor = math.exp(at)
        largest = max(
            math.fsum(
                max(chance - factor * other.get(view, 0.0), 0.0) for view, chance in one.items()
            )
            for one, other in itertools.permutations(views, 2)
        )
        assert protocol.curve.delta(at) >= largest * (1 - 1e-12)
        assert protocol.curve.delta(at) <= largest * (1 + 1e-9)
    smaller = worst(boxes, ticks, int(protocol.parameters["dummies"]) // 2 - 1, epsilon, epsilon)
    assert smaller > delta  # no smaller ball would do


def test_the_worst_move_may_lose_no_tick() -> None:
    """With two ticks of seven boxes, it is worst to go from nothing to two ticks."""
    protocol = made(7, 2, 3.0, 0.4)
    radius = int(protocol.parameters["dummies"]) // 2
    assert radius == 2
    for at in (3.0, 1.0, 0.0):
        truth = float(worst(7, 2, radius, 3.0, at))
        assert protocol.curve.delta(at) >= truth * (1 - 1e-12)
        assert protocol.curve.delta(at) == pytest.approx(truth, rel=1e-9)


def test_very_many_boxes_have_an_upper_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    many = made(30, 15, 1.0, 1e-6)
    assert not many.guarantee.exact
    assert many.guarantee.delta <= 1e-6
    cut_ball.least_cut_ball.cache_clear()
    monkeypatch.setattr(cut_ball, "_MOST_TERMS", 0)
    few = made(4, 2, 1.5, 0.05)
    cut_ball.least_cut_ball.cache_clear()
    assert not few.guarantee.exact
    radius = int(few.parameters["dummies"]) // 2
    for at in (-1.0, 0.0, 0.7, 1.5):
        truth = float(worst(4, 2, radius, 1.5, at)) if at >= 0 else 0.0
        if at < 0:
            truth = 1 - math.exp(at) + math.exp(at) * float(worst(4, 2, radius, 1.5, -at))
        assert few.curve.delta(at) >= truth * (1 - 1e-12)


def test_noise_is_drawn_from_its_law() -> None:
    protocol = made(3, 2, 1.5, 0.2)
    law = protocol.shuffler.noise_law(1)
    assert law is not None
    source, runs = hc.SeededSource(7), 12_000
    drawn: Counter[tuple[int, ...]] = Counter()
    for _ in range(runs):
        messages = protocol.shuffler.noise(1, source).messages
        assert len(messages) == protocol.parameters["all_dummies"]
        drawn[tuple(np.bincount(messages, minlength=4).tolist())] += 1
    chances = {
        tuple(Counter(dict(dummies))[kind] for kind in range(4)): float(chance)
        for (dummies, _), chance in law.items()
    }
    assert set(drawn) <= set(chances)
    statistic = sum((drawn[z] - runs * p) ** 2 / (runs * p) for z, p in chances.items())
    assert mpmath.gammainc((len(chances) - 1) / 2, statistic / 2, regularized=True) > 1e-6


def test_the_error_is_that_of_the_noise() -> None:
    protocol = made(3, 2, 1.0, 0.01, 5)
    radius = int(protocol.parameters["dummies"]) // 2
    line = np.arange(-radius, radius + 1)
    noise = np.array(list(itertools.product(line, repeat=3)))
    sizes = size(noise, 2)
    weights = np.where(sizes <= radius, np.exp(-1.0 * sizes), 0.0)
    one = np.array([weights[noise[:, 0] == z].sum() for z in line]) / weights.sum()
    assert protocol.standard_error() == pytest.approx(math.sqrt((one * line**2).sum()), rel=1e-9)
    law = protocol.estimator.error_law(5, np.zeros(3))
    below, above = law.margins(0.9)
    assert below == above
    beyond = [one[np.abs(line) > margin].sum() for margin in (below, below - 1)]
    assert beyond[0] <= 0.1 < beyond[1]


def test_a_run_counts_ticks_and_hides_people_without_any() -> None:
    protocol = made(4, 2, 1.0, 1e-6, 300)
    values = [["a", "b"]] * 100 + [["c"]] * 50 + [[]] * 150
    messages = protocol.randomize(values, hc.SeededSource(1))
    assert np.bincount(messages.payload).tolist() == [100, 100, 50, 0, 350]
    assert set(messages.counts.tolist()) == {2}
    answer = hc.run(protocol, values)
    error = np.abs(np.asarray(answer.value) - [100, 100, 50, 0])
    assert error.max() <= protocol.parameters["dummies"] / 2
    assert protocol.influence.up == 2  # both messages may name one box
    with pytest.raises(hc.Infeasible, match="delta above 0"):
        made(4, 2, 1.0, 0.0)
    with pytest.raises(hc.Infeasible, match="dummies in a box"):
        made(4, 2, 1e-6, 1e-6)


def test_small_crowds_have_the_guarantee_of_one_person() -> None:
    protocol = made(2, 1, 1.0, 0.05, 3)
    truth = enumeration.worst_delta(protocol, 1.0)
    assert protocol.guarantee.delta == pytest.approx(float(truth), rel=1e-9)
