"""A new task is one small file and one line. See `multiples.py`, which is registered only here."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headcount as hc
from headcount.core.task import task_from
from headcount.core.tasks.registry import TASKS, task_class, tasks_with, uses_of
from headcount.core.tasks.uses import Uses
from headcount.data.cleaning import cleaning
from headcount.protocols.central.geometric import Geometric
from multiples import Multiples

TASK = Multiples(3)
BUDGET, CROWD = hc.Budget(1, 1e-6), hc.Crowd(1000)
COLUMN = {"age": [3, 4, 6, 9, 10]}


class MultiplesWithNoise(Geometric):
    """A protocol that answers the new task."""

    name = "central.multiples"
    tasks = (Multiples,)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the task with one line."""
    monkeypatch.setitem(TASKS, "multiples", "multiples:Multiples")


@pytest.mark.parametrize("name", TASKS)
def test_every_task_is_found_by_its_name(name: str) -> None:
    kind = task_class(name)
    assert kind.name == name
    assert getattr(hc, kind.__name__) is kind
    assert kind.__name__ in dir(hc)


@pytest.mark.parametrize(
    "task",
    [
        hc.Count(),
        hc.Sum(0, 10, whole=True, clamp=True),
        hc.Mean(-1, 2.5),
        hc.Histogram(5),
        hc.Histogram(["a", "b"], open=True),
        hc.Table(["a", "b"], 3),
        hc.Margins(3, ["a", "b"]),
        hc.Density(0, 1, 2.0, points=16),
        hc.Distribution(0, 200, 64, clamp=True),
        hc.Quantiles(0, 200, (0.1, 0.9), 64),
        hc.Median(-1, 1),
        TASK,
    ],
    ids=str,
)
def test_settings_make_the_same_task(task: hc.Task) -> None:
    assert task.changed() == task
    assert task_from(json.loads(json.dumps(task.to_dict()))) == task
    assert pickle.loads(pickle.dumps(task)) == task
    for setting in task.settings:
        with pytest.raises(hc.InvalidParameter, match=f"`{setting}`"):
            task.changed(**{setting: None})


@pytest.mark.parametrize(
    ("task", "values"),
    [
        (hc.Count(), [0, 1, 2, 0.5, -1, np.nan, np.inf]),
        (hc.Histogram(3), [0, 2, 3, 0.5, -1, np.nan, -np.inf]),
        (hc.Histogram([7, 2, 40]), [7, 2, 40, 3, 41, 2.5, np.nan]),
        (hc.Histogram([7, 2], open=True), [7, 8, 2.0**52, 2.0**53, 2.0**64, 0.5, -1, np.nan]),
        (hc.Sum(-1, 2), [-1, 2, 0.5, -1.5, 2.5, np.nan, np.inf]),
        (hc.Sum(-1, 2, whole=True), [-1, 2, 0.5, -2, 3, np.nan, np.inf]),
        (hc.Mean(0, 1, clamp=True), [-5, 7, np.inf, np.nan]),
        (hc.Density(0, 1), [0, 1, 2, np.nan]),
        (hc.Median(0, 1), [0, 1, 2, np.nan]),
        (TASK, [3, 4, -6, 0.5, np.nan]),
    ],
    ids=str,
)
def test_values_fit_if_they_can_be_encoded(task: hc.Task, values: list[float]) -> None:
    array = np.array(values, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        found = task.fits(array)
        assert found.tolist() == hc.Task.fits(task, array).tolist()  # which tries each alone
        assert task.encode(array[found]).dtype == task.encoded_dtype
    assert not found.all()
    with pytest.raises(hc.InvalidValue, match=f"must be {task.allowed.split(' ')[0]}"):
        task.encode(array)


def test_whatever_is_allowed_besides_candidates_is_not_blamed() -> None:
    opened = hc.Histogram([7, 2], open=True)
    assert opened.encode([True, False]).tolist() == [1, 0]
    with pytest.raises(hc.InvalidValue, match=r"2\^64 − 1, got -4 from person 2(?!.*more like it)"):
        hc.estimate([3, -4, 9], opened, budget=BUDGET)


def test_a_new_task_is_planned_and_no_protocol_answers_yet(tmp_path: Path) -> None:
    found = hc.plan(TASK, BUDGET, CROWD)
    assert (found.candidates, found.refused, found.bounds) == ((), (), ())
    assert "Multiples of 3: 1,000 people" in str(found)
    with pytest.raises(hc.InvalidParameter, match="no protocol of this plan answers the task"):
        _ = found.best
    found.save(tmp_path / "plan.json")
    loaded = hc.Plan.load(tmp_path / "plan.json")
    assert loaded == found
    assert loaded.task == TASK
    with pytest.raises(hc.InvalidParameter, match=r"`task` must be a count or .*, got Multiples"):
        hc.protocol("central.geometric", TASK, BUDGET, CROWD)
    with pytest.raises(hc.InvalidParameter, match="no protocol of this plan answers the task"):
        hc.estimate(COLUMN, TASK, budget=BUDGET)


def test_a_new_task_is_found_like_all_others() -> None:
    assert hc.Multiples is Multiples
    vars(hc).pop("Multiples")
    with pytest.raises(hc.InvalidParameter, match=r"one of the names .*count, .*multiples, got"):
        task_from({"name": "nothing"})
    with pytest.raises(hc.InvalidParameter, match="the settings must fit multiples, got a"):
        task_from({"name": "multiples", "above": 3})
    with pytest.raises(hc.InvalidParameter, match="`of` must be between 2 and"):
        task_from({"name": "multiples", "of": 1})


def test_a_column_is_cleaned_for_a_new_task() -> None:
    import pyarrow

    made = cleaning("age", TASK, missing=9)
    assert (made.kind, made.dtype.name, made.few_values) == ("whole", "uint8", True)
    cleaned = made.clean(pyarrow.array([3, None, 4]))
    assert (cleaned.codes.tolist(), cleaned.codes.dtype.name) == ([1, 1, 0], "uint8")
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        ([3, 0.5, 6], {}, "every value must be a whole number, got 0.5 from person 2"),
        (["x", "y"], {}, "must hold numbers or true/false, got text like 'x'"),
        ([3], {"missing": 0.5}, "must be error, drop, bucket, or a whole number, got 0.5"),
        ([3], {"outside": "clamp"}, "clamp only with numbers within bounds or with bins"),
        ([3], {"outside": "other"}, "other only with a histogram that is not open, got mul"),
    ]
    for values, settings, said in wrong:
        with pytest.raises(hc.HeadcountError) as refused:
            hc.estimate({"age": values}, TASK, budget=BUDGET, **settings)
        assert said in str(refused.value)


def test_a_protocol_can_answer_a_new_task() -> None:
    built = MultiplesWithNoise(TASK, hc.Budget(500), hc.Crowd(5))
    answer = hc.estimate(COLUMN, protocol=built, source=hc.SeededSource(1))
    assert isinstance(answer, hc.Estimate)
    assert (answer.task, answer.value) == ("multiples", 3)
    assert answer.postprocess("clip").value == 3
    with pytest.raises(hc.InvalidParameter, match="with a histogram or table, got mul"):
        answer.postprocess("norm-sub")
    audited = hc.exact_audit(MultiplesWithNoise(TASK, hc.Budget(1), hc.Crowd(2)))
    assert {*audited.dataset, *audited.neighbor} == {0, 1}
    assert built.standard_error(TASK.example(5)) == pytest.approx(built.standard_error())


def test_what_estimates_can_be_used_for() -> None:
    names = {use: tasks_with(use) for use in ("sampling", "comparison", "simultaneous", "figure")}
    spread = ["distribution", "quantiles", "median"]
    assert names == {
        "sampling": ["count", "histogram", "table", "mean", "density", *spread],
        "comparison": ["count", "histogram", "mean"],
        "simultaneous": ["histogram", "table", "density", "distribution", "quantiles"],
        "figure": ["table", "density", *spread],
    }
    assert [name for name in TASKS if task_class(name).yes_no] == ["count"]
    assert uses_of("a task of somebody else") == Uses()


def test_a_new_task_says_what_its_estimates_can_be_used_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built = MultiplesWithNoise(TASK, hc.Budget(1), hc.Crowd(5))
    first, second = (
        hc.estimate(COLUMN, protocol=built, source=hc.SeededSource(seed)) for seed in (1, 2)
    )
    assert isinstance(first, hc.Estimate)
    assert isinstance(second, hc.Estimate)
    plain = first.to_dict()
    with pytest.raises(hc.InvalidParameter, match="has a sampling error, got multiples"):
        first.interval(sampling=True)
    with pytest.raises(hc.InvalidParameter, match="histograms or means to be compared, got mul"):
        _ = first - second
    with pytest.raises(hc.InvalidParameter, match="a count or histogram or table or mean, got mul"):
        hc.Margin(0.1, share=True, sampling=True).check(TASK)
    monkeypatch.setattr(Multiples, "uses", Uses(sampling="binomial", comparison="share"))
    counted = first.to_dict()
    assert counted.pop("share")["value"] == pytest.approx(first.value / 5)
    assert counted == plain
    wide, narrow = first.interval(sampling=True), first.interval()
    assert wide.high - wide.low > narrow.high - narrow.low
    compared = first - second
    assert compared.quantity == "share"
    assert compared.value == pytest.approx((first.value - second.value) / 5)
    hc.Margin(0.1, share=True, sampling=True).check(TASK)
