"""Boxes in local trust with padded ticks. Laws are listed, and judged by their definitions."""

import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

import headcount as hc
from headcount.protocols import supported_counts
from headcount.survey.design import Ask
from headcount.survey.split import design

NAME = "local.padded-boxes"


def made(
    boxes: int, ticks: int, epsilon: float, users: int = 1000, name: str = NAME
) -> hc.Protocol:
    task = hc.Boxes([f"box {at}" for at in range(boxes)], at_most=ticks)
    return hc.protocol(name, task, hc.Budget(epsilon), hc.Crowd(users))


def listed_law(
    boxes: int, ticks: int, size: int, epsilon: float, code: int
) -> dict[int, mpmath.mpf]:
    """Every set of boxes and fillers, as a number. It is e^ε times as likely if it has a value of
    the person.
    """
    own = [box for box in range(boxes) if code >> box & 1]
    own += [boxes + at for at in range(ticks - len(own))]
    sets = list(itertools.combinations(range(boxes + ticks), size))
    weights = [mpmath.exp(epsilon) if set(own) & set(one) else mpmath.mpf(1) for one in sets]
    return {
        sum(1 << value for value in one): weight / mpmath.fsum(weights)
        for one, weight in zip(sets, weights, strict=True)
    }


@pytest.mark.parametrize(
    ("boxes", "ticks", "epsilon"), [(3, 2, 1.0), (3, 3, 0.4), (4, 1, 0.7), (5, 2, 2.0), (6, 1, 0.1)]
)
def test_the_law_is_that_of_the_definition(boxes: int, ticks: int, epsilon: float) -> None:
    protocol = made(boxes, ticks, epsilon)
    size = int(protocol.parameters["size"])
    laws: list[dict[object, Fraction]] = []
    for code in protocol.task.codes:  # type: ignore[attr-defined]
        law = {bundle[0][0]: chance for bundle, chance in protocol.randomizer.law(code).items()}  # type: ignore[union-attr]
        assert sum(law.values()) == 1
        numbers = {
            one if isinstance(one, int) else sum(byte << 8 * at for at, byte in enumerate(one)): p
            for one, p in law.items()
        }
        expected = listed_law(boxes, ticks, size, epsilon, code)
        assert set(numbers) == set(expected)
        for one, chance in numbers.items():
            assert float(chance) == pytest.approx(float(expected[one]), rel=1e-12)
        laws.append(law)
    largest = max(
        one[report] / other[report]
        for one, other in itertools.permutations(laws, 2)
        for report in one
    )
    assert (
        0 <= 1 - mpmath.mpf(largest.numerator) / largest.denominator / mpmath.exp(epsilon) < 1e-12
    )
    assert protocol.local_epsilon == pytest.approx(epsilon, rel=1e-12)
    for at in (0.0, epsilon / 3, 0.9 * epsilon):
        worst = max(
            math.fsum(max(float(one[r]) - math.exp(at) * float(other[r]), 0.0) for r in one)
            for one, other in itertools.permutations(laws, 2)
        )
        assert protocol.curve.delta(at) == pytest.approx(worst, rel=1e-9)
        assert protocol.curve.delta(at) >= worst * (1 - 1e-12)
    # The mean number of reports that support a box gives the estimate, and its variance the error.
    p, q = (protocol.parameters[name] for name in ("p", "q"))
    for code, law in zip(protocol.task.codes, laws, strict=True):  # type: ignore[attr-defined]
        for box in range(boxes):
            byte, bit = divmod(box, 8)
            support = math.fsum(
                float(chance)
                for report, chance in law.items()
                if (report if isinstance(report, int) else report[byte]) >> bit & 1  # type: ignore[index]
            )
            assert support == pytest.approx(p if code >> box & 1 else q, rel=1e-12)
    variance = max(p * (1 - p), q * (1 - q)) / (p - q) ** 2
    assert protocol.standard_error() == pytest.approx(math.sqrt(1000 * variance), rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
@pytest.mark.parametrize(("boxes", "ticks"), [(4, 1), (8, 1), (20, 2), (40, 3), (62, 3)])
def test_sets_are_better_than_one_slot_of_k(boxes: int, ticks: int, epsilon: float) -> None:
    """One of k slots is drawn, and its value reported by `local.unary-optimized`: a noise of k²·4v
    if a box is rare. This is better than asking about one box if m > 4k², and so are sets.
    """
    protocol = made(boxes, ticks, epsilon)
    q, v = 1 / (math.exp(epsilon) + 1), 1 / (4 * math.sinh(epsilon / 2) ** 2)
    slots = [
        ticks**2 * support * (1 - support) / (1 / 2 - q) ** 2
        for support in (q, (1 / 2 + (ticks - 1) * q) / ticks)
    ]
    assert slots[0] == pytest.approx(ticks**2 * 4 * v)
    assert protocol.standard_error() ** 2 / 1000 < max(slots)
    if boxes > 4 * ticks**2:
        asked = made(boxes, ticks, epsilon, name="local.some-boxes")
        assert protocol.standard_error() < asked.standard_error()


def test_reports_are_drawn_from_their_law() -> None:
    protocol = made(3, 2, 1.0)
    values, source = np.repeat([0, 3, 4], 4000), hc.SeededSource(3)
    payload = protocol.randomize(values, source).payload
    for code in (0, 3, 4):
        seen = Counter(payload[values == code].tolist())
        law = protocol.randomizer.law(code)
        assert law is not None
        chances = {bundle[0][0]: float(chance) for bundle, chance in law.items()}
        statistic = sum((seen[r] - 4000 * p) ** 2 / (4000 * p) for r, p in chances.items())
        assert mpmath.gammainc((len(chances) - 1) / 2, statistic / 2, regularized=True) > 1e-6


def test_many_boxes_are_simulated_box_by_box() -> None:
    protocol = made(20, 3, 2.0, 50_000)
    assert not protocol.estimator.simulates_exactly
    counts: dict[float, int] = {0b111: 20_000, 0: 25_000, 1 << 19: 5_000}
    truth = np.array([20_000] * 3 + [0] * 16 + [5_000])
    error = protocol.standard_error()
    for answer in (
        protocol.estimate(protocol.simulate(counts, hc.SeededSource(1))),
        hc.run(protocol, np.repeat(list(counts), list(counts.values())), hc.SeededSource(2)),
    ):
        assert np.abs(np.asarray(answer.value) - truth).max() < 6 * error
        interval = answer.interval(1 - 1e-6)
        assert (interval.low <= truth).all()
        assert (truth <= interval.high).all()


def test_shares_of_many_boxes_need_few_computations_of_margins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[float] = []
    computed = supported_counts.supported_counts

    def counted(users: int, own: Any, other: Any, reports: Any, confidence: float) -> Any:
        calls.append(confidence)
        return computed(users, own, other, reports, confidence)

    monkeypatch.setattr(supported_counts, "supported_counts", counted)
    protocol = made(20, 2, 3.0, 300)
    answer = hc.run(protocol, [1 << box for box in range(20)] * 15, hc.SeededSource(1))
    for box in protocol.task.labels:  # type: ignore[attr-defined]
        assert 0 <= hc.share(answer, box).interval.low <= 0.05
    assert 0 < len(calls) == len(set(calls)) <= 4


def test_bad_messages_are_refused() -> None:
    protocol = made(4, 1, 0.1, 2)
    assert protocol.parameters["size"] == 2
    with pytest.raises(hc.InvalidValue, match="sets of 2 values, got sets of 1 to 3"):
        protocol.tally(hc.Batch(np.array([0b111, 0b1], dtype=np.uint8), 2))


@pytest.mark.parametrize("ticks", [1, 3, 62])
def test_the_smallest_epsilon_still_tells_boxes_apart(ticks: int) -> None:
    protocol = made(62, ticks, 1e-12)
    assert 0 < protocol.local_epsilon <= 1.001e-12
    assert math.isfinite(protocol.standard_error())


def test_surveys_choose_the_protocol_with_the_smaller_error() -> None:
    for boxes, ticks, expected in ((40, 3, NAME), (4, 4, "local.some-boxes")):
        task = hc.Boxes([f"box {at}" for at in range(boxes)], at_most=ticks)
        found = design([Ask("boxes", task)], [], hc.Budget(1), hc.Crowd(1000), hc.Trust.LOCAL)
        assert found.releases[0].protocol.name == expected
