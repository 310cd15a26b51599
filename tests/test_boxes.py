"""Boxes that people tick: values, and noise that is uniform in a ball, judged by enumeration."""

import itertools
import json
import math
import pickle
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pyarrow
import pytest

import headcount as hc
from commands import Headcount
from enumeration import log_likelihood_ratio
from headcount.core.task import task_from
from headcount.randomness.ball_noise import sum_within

ALARM = 1e-6
CUBE, GEOMETRIC = "central.cube", "central.geometric"
# The standard error of one of m boxes at epsilon = 1, if ticks have no limit.
CUBES = {2: 1.97555, 5: 3.73047, 8: 5.46961, 10: 6.62697, 20: 12.4063, 50: 29.7307}
# Boxes, ticks, epsilon, and the largest noise that is enumerated.
LAWS = [(1, 1, 0.5, 160), (2, 2, 1.0, 80), (3, 1, 2.5, 24), (3, 2, 2.0, 24), (4, 2, 4.0, 9)]
laws = pytest.mark.parametrize(("boxes", "ticks", "epsilon", "reach"), LAWS)


def task_of(boxes: int, ticks: int | None = None) -> hc.Boxes:
    return hc.Boxes([f"box {number}" for number in range(boxes)], at_most=ticks)


def build(
    boxes: int, ticks: int | None = None, epsilon: float = 1.0, name: str = CUBE, users: int = 10
) -> hc.Protocol:
    return hc.protocol(name, task_of(boxes, ticks), hc.Budget(epsilon), hc.Crowd(users))


def values_of(boxes: int, ticks: int) -> list[tuple[int, ...]]:
    """All ways to tick boxes, as rows."""
    return [row for row in itertools.product((0, 1), repeat=boxes) if sum(row) <= ticks]


def size(noise: Any, ticks: int) -> Any:
    """N(z) of each row."""
    up, down = np.where(noise > 0, noise, 0).sum(-1), -np.where(noise < 0, noise, 0).sum(-1)
    parts = [np.abs(noise).max(-1), up / ticks, down / ticks]
    return np.ceil(np.maximum.reduce(parts) - 1e-9)


@cache
def law(boxes: int, ticks: int, epsilon: float, reach: int) -> tuple[Any, Any, float]:
    """Every noise up to `reach` with its probability, and the sum of all weights."""
    noise = np.indices((2 * reach + 1,) * boxes).reshape(boxes, -1).T - reach
    weights = np.exp(-epsilon * size(noise, ticks))
    return noise, weights / weights.sum(), float(weights.sum())


# Figures -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("boxes", "error"), CUBES.items())
def test_standard_errors_of_cubes(boxes: int, error: float) -> None:
    assert build(boxes).standard_error() == pytest.approx(error, rel=4e-6)


def test_standard_errors_with_few_ticks() -> None:
    assert build(8, 3).standard_error() == pytest.approx(5.17984, rel=2e-6)
    assert build(8, 3, name=GEOMETRIC).standard_error() == pytest.approx(8.47547, rel=2e-6)
    assert build(8, name=GEOMETRIC).standard_error() == pytest.approx(11.3063, rel=5e-6)
    # More ticks are harder to hide, up to as many as there are boxes.
    errors = [build(8, ticks).standard_error() for ticks in range(1, 9)]
    assert errors == sorted(errors)
    assert errors[-1] == build(8).standard_error()


@pytest.mark.parametrize("boxes", [1, 2, 4, 7, 19])
def test_one_tick_is_a_histogram_with_one_more_bucket(boxes: int) -> None:
    histogram = hc.protocol("central.sum-zero", hc.Histogram(boxes + 1), hc.Budget(1), hc.Crowd(10))
    assert build(boxes, 1).standard_error() == pytest.approx(histogram.standard_error(), rel=1e-12)
    for confidence in (0.5, 0.95, 0.999):
        found, known = (
            protocol.estimator.error_law(10, np.zeros(boxes)).margins(confidence)
            for protocol in (build(boxes, 1), histogram)
        )
        assert found == known


@pytest.mark.parametrize(("boxes", "ticks"), [(5, 1), (5, 2), (5, 3), (5, 5), (4, 2)])
def test_two_values_differ_in_twice_as_many_boxes(boxes: int, ticks: int) -> None:
    rows = np.array(values_of(boxes, ticks))
    apart = np.abs(rows[:, None] - rows[None]).sum(axis=-1).max()
    assert apart == min(2 * ticks, boxes)
    # So the noise of each box must be that of epsilon divided by this number.
    protocol = build(boxes, ticks, name=GEOMETRIC)
    rate = 1 / apart
    assert protocol.standard_error() == pytest.approx(1 / (math.sqrt(2) * math.sinh(rate / 2)))
    assert len(rows) == task_of(boxes, ticks).domain


# Laws ---------------------------------------------------------------------------------------------


@laws
def test_error_and_intervals_are_those_of_the_law(
    boxes: int, ticks: int, epsilon: float, reach: int
) -> None:
    protocol = build(boxes, ticks, epsilon)
    noise, chances, _ = law(boxes, ticks, epsilon, reach)
    own = noise[:, 0]
    assert protocol.standard_error() == pytest.approx(math.sqrt(own**2 @ chances), rel=1e-6)
    error = protocol.estimator.error_law(10, np.zeros(boxes))
    for confidence in (0.5, 0.9, 0.99, 0.9999):
        half = (1 - confidence) / 2
        below, above = error.margins(confidence)
        assert below == above == int(above)
        assert chances[own > above].sum() <= half * (1 + 1e-6)
        assert above == 0 or chances[own >= above].sum() > half * (1 - 1e-6)


@laws
def test_curve_is_that_of_every_change(boxes: int, ticks: int, epsilon: float, reach: int) -> None:
    protocol = build(boxes, ticks, epsilon)
    guarantee = protocol.guarantee
    assert (guarantee.epsilon, guarantee.delta, guarantee.exact) == (epsilon, 0, True)
    noise, chances, total = law(boxes, ticks, epsilon, reach)
    rows = values_of(boxes, ticks)
    changes = {tuple(np.subtract(a, b).tolist()) for a, b in itertools.permutations(rows, 2)}
    worst: dict[float, float] = defaultdict(float)
    for change in changes:
        others = np.exp(-epsilon * size(noise + np.array(change), ticks)) / total
        assert np.abs(np.log(chances / others)).max() <= epsilon * (1 + 1e-12)
        for smaller in (-0.5, 0.0, epsilon / 2, 0.9 * epsilon):
            excess = float(np.maximum(chances - math.exp(smaller) * others, 0).sum())
            worst[smaller] = max(worst[smaller], excess)
    for smaller, truth in worst.items():
        stated = protocol.curve.delta(smaller)
        assert stated >= truth * (1 - 1e-9)
        if ticks == boxes:
            assert stated == pytest.approx(truth, rel=1e-6)
        # All epsilon-private mechanisms have at most this divergence.
        most = max((math.exp(epsilon) - math.exp(smaller)) / (1 + math.exp(epsilon)), 0)
        assert stated <= max(most, 1 - math.exp(smaller)) * (1 + 1e-9)
    assert protocol.curve.delta(epsilon) == 0


@pytest.mark.parametrize(("boxes", "ticks"), [(3, 3), (4, 2), (5, 1)])
def test_curve_of_independent_noise(boxes: int, ticks: int) -> None:
    epsilon, changed = 1.3, min(2 * ticks, boxes)
    protocol = build(boxes, ticks, epsilon, GEOMETRIC)
    p = 1 / (1 + math.exp(-epsilon / changed))
    for smaller in (0.0, 0.4, 1.1):
        truth = 0.0
        # Each count has a loss of plus or minus epsilon/changed.
        for signs in itertools.product((1, -1), repeat=changed):
            chance = math.prod(p if sign > 0 else 1 - p for sign in signs)
            loss = sum(signs) * epsilon / changed
            truth += chance * max(0.0, 1 - math.exp(smaller - loss))
        assert protocol.curve.delta(smaller) == pytest.approx(truth, rel=1e-9, abs=1e-13)
    assert protocol.curve.delta(epsilon) == 0


@pytest.mark.parametrize(("boxes", "ticks", "epsilon", "reach"), [(2, 2, 2.0, 80), (2, 1, 1.5, 80)])
def test_law_of_a_release(boxes: int, ticks: int, epsilon: float, reach: int) -> None:
    """Merged outcomes tell apart as much as all outcomes."""
    users = 3
    protocol = build(boxes, ticks, epsilon, users=users)

    def stated(counts: tuple[int, ...]) -> Any:
        found = protocol.estimator.release_law(hc.Tally(np.array(counts), users, CUBE))
        assert found is not None
        assert sum(found.values()) == 1
        return found

    noise, chances, total = law(boxes, ticks, epsilon, reach)
    for one, other in [((0, 0), (1, 1)), ((2, 1), (1, 2)), ((3, 0), (2, 0)), ((3, 3), (2, 2))]:
        moved = np.exp(-epsilon * size(noise + one - np.array(other), ticks)) / total
        for smaller in (0.0, 0.5, 1.4):
            truth = float(np.maximum(chances - math.exp(smaller) * moved, 0).sum())
            laws_of_both = stated(one), stated(other)
            found = sum(
                max(float(p) - math.exp(smaller) * float(laws_of_both[1].get(name, 0)), 0)
                for name, p in laws_of_both[0].items()
            )
            assert found == pytest.approx(truth, rel=1e-9, abs=1e-13)
    assert protocol.estimator.release_law(hc.Tally(np.array([50, 0]), 100, CUBE)) is None


def test_exact_audit_finds_all_of_epsilon() -> None:
    for ticks in (1, 2):
        found = hc.exact_audit(build(2, ticks, 1.5, users=2), users=2, view="central")
        assert not found.refuted
        assert float(found.epsilon) == pytest.approx(1.5, rel=1e-9)


# Draws --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("boxes", "ticks", "epsilon", "reach"),
    [(2, 2, 1.0, 60), (3, 1, 2.5, 24), (3, 2, 2.0, 24), (4, 2, 4.0, 9)],
)
def test_noise_has_its_law_and_no_other(boxes: int, ticks: int, epsilon: float, reach: int) -> None:
    source, tally = hc.SeededSource(8), hc.Tally(np.full(boxes, 5), 5 * boxes, CUBE)
    estimator = build(boxes, ticks, epsilon).estimator
    seen = np.array([estimator.unbiased(tally, source) - 5 for _ in range(800)], dtype=int)

    def kinds(noise: Any, box: int) -> Any:
        """One box, the sign of another, and the size, on which the probability depends."""
        sizes = size(noise, ticks).astype(int)
        return (noise[:, box] + 500) * 10_000 + (np.sign(noise[:, box - 1]) + 1) * 1000 + sizes

    def fits(rate: float, boxes_seen: Any) -> list[float]:
        noise, chances, _ = law(boxes, ticks, rate, reach)
        summed = np.bincount(kinds(noise, 0), chances)
        expected = {kind: float(summed[kind]) for kind in np.flatnonzero(summed).tolist()}
        return [
            log_likelihood_ratio(Counter(kinds(seen, box).tolist()), expected)[1]
            for box in boxes_seen
        ]

    assert min(fits(epsilon, range(boxes))) > ALARM
    assert max(fits(1.4 * epsilon, [0]) + fits(epsilon / 1.4, [0])) < ALARM


@pytest.mark.parametrize(
    ("number", "largest", "limit"), [(3, 4, 8), (3, 4, 6), (3, 4, 9), (4, 5, 7), (1, 2, 1)]
)
def test_numbers_with_a_limited_sum_are_uniform(number: int, largest: int, limit: int) -> None:
    every = itertools.product(range(1, largest + 1), repeat=number)
    possible = [numbers for numbers in every if sum(numbers) <= limit]
    source = hc.SeededSource(12)
    seen = Counter(tuple(sum_within(source, number, largest, limit).tolist()) for _ in range(1000))
    assert set(seen) == set(possible)
    even = dict.fromkeys(possible, 1 / len(possible))
    assert len(possible) == 1 or log_likelihood_ratio(seen, even)[1] > ALARM


@pytest.mark.parametrize(
    ("boxes", "ticks"), [(50, 50), (30, 1), (12, 5), pytest.param(62, 20, marks=pytest.mark.slow)]
)
def test_many_boxes(boxes: int, ticks: int) -> None:
    protocol, source = build(boxes, ticks, 2.0), hc.SeededSource(2)
    tally = hc.Tally(np.zeros(boxes, dtype=np.int64), 10, CUBE)
    drawn = np.array([protocol.estimate(tally, source).value for _ in range(20)])
    # Hundreds of numbers, that depend on each other by their size.
    assert np.sqrt(np.mean(drawn**2)) == pytest.approx(protocol.standard_error(), rel=0.25)
    assert protocol.margin(0.95) <= 5


@pytest.mark.parametrize(("boxes", "ticks"), [(2, 2), (5, 2)])
def test_tiny_epsilon_has_safe_margins(boxes: int, ticks: int) -> None:
    """With noise 1,000 times larger, everything is 1,000 times larger."""
    errors = [build(boxes, ticks, epsilon) for epsilon in (1e-2, 1e-5)]
    small, large = (protocol.estimator.error_law(10, np.zeros(boxes)) for protocol in errors)
    assert large.standard_error == pytest.approx(1000 * small.standard_error, rel=1e-3)
    for confidence in (0.5, 0.95):
        ratio = large.margins(confidence)[0] / small.margins(confidence)[0]
        assert 995 <= ratio <= (1010 if ticks == boxes else 1200)


# Values -------------------------------------------------------------------------------------------


def test_values_are_collections_rows_or_numbers() -> None:
    task = hc.Boxes(["bus", "train", "car"], at_most=2)
    people: Any = [["bus", "car"], [], {"train"}, ("car",)]
    assert task.encode(people).tolist() == [5, 0, 2, 4]
    rows = [[1, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert task.encode(rows).tolist() == [5, 0, 2, 4]
    assert task.encode(np.array(rows)).tolist() == [5, 0, 2, 4]
    assert task.encode(np.array(rows, dtype=bool)).tolist() == [5, 0, 2, 4]
    assert task.encode([5, 0, 2, 4]).tolist() == [5, 0, 2, 4]
    assert task.encode([5]).dtype == np.uint8
    wide = hc.Boxes([str(number) for number in range(62)])
    assert wide.encode([["61", "0"]]).tolist() == [2**61 + 1]
    wrong: Any
    for wrong in (
        [["bus"], ["plane"]],
        [["bus"], ["bus", "bus"]],
        [["bus"], ["bus", "train", "car"]],
        [[1, 0, 0], [1, 1, 1]],
        [[1, 0, 0], [1, 0]],
        [[1, 0, 0], [1, 0, 2]],
        [1, 7],
        [1, 8],
        [1, -1],
        [1, 0.5],
        np.array([[1, 0, 0], [1, 1, 1]]),
    ):
        with pytest.raises(hc.InvalidValue, match=r"at most 2 of the boxes .* from person 2"):
            task.encode(wrong)
    for wrong in ("bus", [], 5, ["bus"], {"bus": 1}, [[["bus"]], 1]):
        with pytest.raises(hc.InvalidValue):
            task.encode(wrong)


def test_settings_that_are_refused() -> None:
    labels: Any
    for labels in ([], "ab", 3, ["a", ""], ["a", 1], [f"{n}" for n in range(63)], None):
        with pytest.raises(hc.InvalidParameter, match="`labels` must be 1 to 62 words"):
            hc.Boxes(labels)
    with pytest.raises(hc.InvalidParameter, match="different from each other"):
        hc.Boxes(["a", "a"])
    most: Any
    for most in (0, 3, 1.5, "two"):
        with pytest.raises(hc.InvalidParameter, match="`at_most` must be"):
            hc.Boxes(["a", "b"], at_most=most)
    assert hc.Boxes(["a", "b"]) == hc.Boxes(["a", "b"], at_most=2)
    task = hc.Boxes(["a", "b", "c"], at_most=2)
    assert task_from(json.loads(json.dumps(task.to_dict()))) == task
    assert pickle.loads(pickle.dumps(task)) == task
    assert task.changed(at_most=3) == hc.Boxes(["a", "b", "c"])


def test_all_values_are_listed() -> None:
    for boxes, ticks in ((4, 2), (3, 3), (5, 1)):
        rows = values_of(boxes, ticks)
        codes = [sum(tick << place for place, tick in enumerate(row)) for row in rows]
        assert list(task_of(boxes, ticks).codes) == sorted(codes)
    with pytest.raises(hc.InvalidParameter, match="values must be given"):
        _ = task_of(60, 30).codes


def test_answers() -> None:
    protocol = hc.protocol(
        CUBE, hc.Boxes(["bus", "train", "car"], at_most=2), hc.Budget(50), hc.Crowd(4)
    )
    answer = hc.run(protocol, [["bus", "car"], ["bus"], [], ["train", "bus"]])
    assert answer.value.tolist() == [3, 1, 1]
    assert list(answer.buckets or ()) == ["bus", "train", "car"]
    assert answer.total is None
    assert "train" in str(answer)
    # Counts of people by their numbers, or for all seven values.
    counts: Any
    for counts in ({5: 1, 1: 1, 0: 1, 3: 1}, [1, 1, 0, 1, 0, 1, 0]):
        assert protocol.simulate(counts, hc.SeededSource(1)).counts.tolist() == [3, 1, 1]
    with pytest.raises(hc.InvalidValue):
        protocol.simulate({7: 4}, hc.SeededSource(1))
    with pytest.raises(hc.InvalidValue, match="at most 2 ticks, got one with 3"):
        protocol.tally(hc.Batch(np.array([1, 7], dtype=np.uint8), 2))
    influence = protocol.influence
    assert (influence.up, influence.down) == (1, 0)
    assert not influence.all_at_once


def test_plans_rank_the_cube_first(headcount: Headcount) -> None:
    task = hc.Boxes(["a", "b", "c"], at_most=2)
    found = hc.plan(task, hc.Budget(1), hc.Crowd(1000))
    assert [candidate.protocol for candidate in found.candidates] == [
        CUBE, GEOMETRIC, "local.some-boxes", "local.padded-boxes",
    ]  # fmt: skip
    result = headcount(
        "plan", "boxes", "--labels", "a,b,c", "--at-most", "2", "--users", "1000", "--epsilon", "1",
        "--json",
    )  # fmt: skip
    document = json.loads(result.out)
    assert document["task"] == {"name": "boxes", "labels": ["a", "b", "c"], "at_most": 2}
    assert document["chosen"] == CUBE
    refused = headcount("plan", "count", "--at-most", "2", "--users", "10", "--epsilon", "1")
    assert refused.status == 2
    assert "--at-most must come with boxes, got a count" in refused.err


# Tables ------------------------------------------------------------------------------------------

DRINKS = ("tea", "coffee", "milk")
TICKS = [(1, 0, 0), (0, 1, 1), (0, 0, 0), (1, 0, 1), (1, 1, 0), (0, 0, 0)]


def drinks_of(data: Any, column: Any, at_most: int = 3, **settings: Any) -> list[float]:
    e: Any = hc.estimate(
        data, hc.Boxes(DRINKS, at_most), column=column, budget=hc.Budget(500),
        source=hc.SeededSource(1), **settings,
    )  # fmt: skip
    return [float(number) for number in e.value]


@pytest.mark.parametrize("at_most", [2, 3])
def test_ticks_come_from_several_columns_or_from_labels(at_most: int) -> None:
    columns = dict(zip(DRINKS, zip(*TICKS, strict=True), strict=True))
    flags = {name: [bool(tick) for tick in ticks] for name, ticks in columns.items()}
    lists = [[name for name, tick in zip(DRINKS, row, strict=True) if tick] for row in TICKS]
    joined = pyarrow.array(["; ".join(one) for one in lists])
    expected = [3.0, 2.0, 2.0]
    for data, column in (
        (pyarrow.table(columns), DRINKS),
        (pyarrow.table(flags), [*DRINKS]),
        (pyarrow.table({"all": lists}), "all"),
        (pyarrow.table({"all": joined}), "all"),
        (pyarrow.table({"all": joined.dictionary_encode()}), "all"),
        (pyarrow.table({"all": [1, 6, 0, 5, 3, 0]}), "all"),
    ):
        assert drinks_of(data, column, at_most) == expected
    # The order of the columns is that of the boxes.
    assert drinks_of(pyarrow.table(columns), DRINKS[::-1], at_most) == expected[::-1]


TEXTS = [
    pyarrow.string(),
    pyarrow.large_string(),
    pyarrow.string_view(),
    pyarrow.dictionary(pyarrow.int32(), pyarrow.string()),
    pyarrow.dictionary(pyarrow.uint8(), pyarrow.large_string()),
]


@pytest.mark.parametrize("text", TEXTS, ids=str)
@pytest.mark.parametrize(
    "lists",
    [pyarrow.list_, pyarrow.large_list, pyarrow.list_view, pyarrow.large_list_view],
    ids=lambda kind: kind.__name__,
)
def test_ticks_come_from_lists_of_any_kind(lists: Any, text: Any) -> None:
    ticked = [["tea"], ["coffee", "milk"], [], ["tea", "milk"]]
    column = pyarrow.array(ticked, lists(text))
    assert drinks_of(pyarrow.table({"all": column[1:]}), "all") == [1.0, 1.0, 2.0]
    assert drinks_of(pyarrow.table({"all": column}).slice(0, 3), "all") == [1.0, 1.0, 1.0]
    with pytest.raises(hc.InvalidValue, match="got none for person 2"):
        drinks_of(pyarrow.table({"all": pyarrow.array([["tea"], None], lists(text))}), "all")


@pytest.mark.parametrize("text", TEXTS, ids=str)
def test_ticks_come_from_lists_of_a_fixed_size(text: Any) -> None:
    pairs = [["tea", "coffee"], ["tea", "milk"], ["milk", "coffee"], None]
    column = pyarrow.array(pairs, pyarrow.list_(text, 2))
    assert drinks_of(pyarrow.table({"all": column[1:3]}), "all") == [1.0, 1.0, 2.0]
    assert drinks_of(pyarrow.table({"all": column}), "all", missing="drop") == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("kind", [polars.String, polars.Categorical, polars.Enum([*DRINKS])])
def test_ticks_come_from_lists_of_polars(kind: Any) -> None:
    ticked = polars.Series("all", [["tea"], ["coffee", "milk"], []], dtype=polars.List(kind))
    for frame in (polars.DataFrame(ticked), polars.LazyFrame(ticked)):
        assert drinks_of(frame, "all") == [1.0, 1.0, 1.0]


def test_ticks_that_are_missing_or_do_not_fit() -> None:
    gaps = pyarrow.table({"tea": [1, None, 1, 1], "coffee": [0, 1, 1, 0], "milk": [0, 1, 1, 1]})
    assert drinks_of(gaps, DRINKS, missing=0) == [3.0, 2.0, 3.0]
    assert drinks_of(gaps, DRINKS, missing="drop") == [3.0, 1.0, 2.0]
    texts = pyarrow.table({"all": ["tea", None]})
    assert drinks_of(texts, "all", missing="") == [1.0, 0.0, 0.0]
    for data, column, settings, why in (
        (gaps, DRINKS, {}, "got none for person 2"),
        (gaps, DRINKS, {"at_most": 2, "missing": 0}, "got 'tea;coffee;milk' from person 3$"),
        (gaps, DRINKS, {"at_most": 2, "missing": "drop"}, "got 'tea;coffee;milk' from person 3$"),
        (gaps, DRINKS[:2], {}, "3 different columns"),
        (gaps, ("tea", "tea", "milk"), {}, "3 different columns"),
        (gaps, DRINKS, {"outside": "clamp"}, "without `bins` and `outside`"),
        (pyarrow.table({name: [2] for name in DRINKS}), DRINKS, {}, "got 2 from person 1"),
        (texts, "all", {"missing": "beer"}, "`missing` must be"),
        (pyarrow.table({"all": ["tea", "tea;beer"]}), "all", {}, "got 'tea;beer' from person 2"),
        (pyarrow.table({"all": ["tea;tea"]}), "all", {}, "got 'tea;tea'"),
        (pyarrow.table({"all": ["tea", "tea;milk"]}), "all", {"at_most": 1}, "got 'tea;milk'"),
    ):
        with pytest.raises(hc.HeadcountError, match=why):
            drinks_of(data, column, **settings)


def test_columns_of_boxes_on_the_command_line(headcount: Headcount, tmp_path: Path) -> None:
    file = tmp_path / "drinks.csv"
    rows = [*map(",".join, [map(str, row) for row in TICKS])]
    file.write_text("\n".join([",".join(DRINKS), *rows]) + "\n")
    options = ("--task", "boxes", "--column", "tea,coffee,milk", "--epsilon", "400", "--json")
    for more in ((), ("--at-most", "2"), ("--missing", "0")):
        told = json.loads(headcount("estimate", str(file), *options, *more).out)
        assert told["buckets"] == [*DRINKS]
        assert told["value"] == [3, 2, 2]
    outcome = headcount("estimate", str(file), *options, "--at-most", "1")
    assert outcome.status == 2
    assert "at most 1 of the boxes" in outcome.err
