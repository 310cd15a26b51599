"""Distributions and quantiles of dates and times."""

import json
from collections import Counter
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import headcount as hc
from commands import Headcount
from headcount.core.errors import HeadcountError
from headcount.core.task import task_from

LOW, HIGH = date(1997, 2, 20), date(2000, 8, 5)
SURE = hc.Budget(500)  # hardly any noise


def days(count: int = 401, seed: int = 3) -> list[date]:
    numbers = np.random.default_rng(seed).integers(0, (HIGH - LOW).days + 1, count)
    return [LOW + timedelta(days=int(number)) for number in numbers]


def asked(values: Any, task: hc.Task, **settings: Any) -> Any:
    settings = {"budget": SURE, **settings}
    return hc.estimate(values, task, source=hc.SeededSource(1), **settings)


@pytest.mark.parametrize("cells", [2, 3, 7, 1000, 2**20])
def test_cells_consist_of_whole_days(cells: int) -> None:
    """The cell of each day by counting the edges up to it. Every cell has a day."""
    task = hc.Distribution(LOW, HIGH, cells)
    every: Any = [LOW + timedelta(days=at) for at in range((HIGH - LOW).days + 1)]
    assert task.cells == min(cells, len(every))
    edges = [date(1970, 1, 1) + timedelta(days=int(edge)) for edge in task.edges]
    assert edges[0] == LOW
    assert edges[-1] == HIGH + timedelta(days=1)
    found = task.encode(every).tolist()
    assert found == [sum(edge <= day for edge in edges[1:-1]) for day in every]
    widths = Counter(found).values()
    assert len(widths) == task.cells
    assert max(widths) - min(widths) <= 1


def test_a_day_for_each_cell_gives_the_quantiles_of_the_people() -> None:
    held = sorted(days())
    e = asked(held, hc.Quantiles(LOW, HIGH, (0.1, 0.5, 0.9), 10_000))
    truth = [held[40], held[200], held[360]]  # the days on which these shares are reached
    assert e.value.tolist() == truth
    assert e.interval().low.tolist() == e.interval().high.tolist() == truth
    assert e.quantile(0.5).item() == truth[1]
    assert e.cdf(truth[1]) == pytest.approx(sum(day < truth[1] for day in held) / 401)
    assert e.share("1998-01-01", np.datetime64("1999-01-01")) == pytest.approx(
        sum(day.year == 1998 for day in held) / 401
    )
    assert e.cdf_interval(truth[1]).low == pytest.approx(e.cdf(truth[1]), abs=1e-3)


def test_a_median_and_its_interval_are_days_in_the_range() -> None:
    """With much noise too, and the interval holds the median of the people."""
    held = sorted(days(50))
    for seed in range(20):
        e = asked(held, hc.Median(LOW, HIGH, 16), budget=hc.Budget(1), protocol="central.tree")
        assert isinstance(e.value, np.datetime64)
        assert LOW <= e.value.item() <= HIGH
        whole = e.interval(1 - 1e-9)
        assert LOW <= whole.low.item() <= held[24] <= whole.high.item() <= HIGH, seed
        assert 0 < e.standard_error < 1


UTC = [datetime(1999, 12, 31, 23, 30), datetime(2000, 1, 1, 0, 30), datetime(2000, 6, 1, 12)]


@pytest.mark.parametrize(
    "column",
    [
        pyarrow.array([time.date() for time in UTC]),
        pyarrow.array([time.date() for time in UTC], pyarrow.date64()),
        pyarrow.array(UTC, pyarrow.timestamp("s")),
        pyarrow.array(UTC, pyarrow.timestamp("ns")),
        pyarrow.array([time.date().isoformat() for time in UTC]),
        pyarrow.array([time.isoformat() for time in UTC]),
        pyarrow.array([time.isoformat(" ") for time in UTC]).dictionary_encode(),
        pyarrow.array([time.date() for time in UTC]).dictionary_encode(),
        # An hour later in Berlin, so the first two are on the same day.
        pyarrow.array([UTC[1] - timedelta(hours=2), *UTC[1:]], pyarrow.timestamp("us", "UTC")),
    ],
    ids=lambda column: str(column.type),
)
def test_columns_of_every_type(column: pyarrow.Array) -> None:
    e = asked(pyarrow.table({"at": column}), hc.Distribution("1999-12-31", "2000-12-30", 366))
    counts = np.diff(np.concatenate([[0], e.value, [1]])) * 3
    expected = np.zeros(366)
    expected[[0, 1, 153]] = 1
    assert counts == pytest.approx(expected, abs=1e-6)


def test_times_are_those_of_the_clocks_in_their_zone() -> None:
    column = pyarrow.array(UTC[:1], pyarrow.timestamp("us", "Europe/Berlin"))
    e = asked(pyarrow.table({"at": column}), hc.Distribution("1999-12-31", "2000-01-01", 2))
    assert e.value == pytest.approx(0, abs=1e-6)  # it was the first of January there
    berlin: Any = datetime(2000, 1, 1, 0, 30, tzinfo=timezone(timedelta(hours=1)))
    assert hc.Distribution("1999-12-31", "2000-01-01", 2).encode([berlin]).tolist() == [1]


def test_times_are_whole_seconds() -> None:
    task = hc.Median("2000-01-01T00:00:00", "2000-01-01T00:00:09")
    assert task.cells == 10
    times: Any = [
        datetime(2000, 1, 1, 0, 0, 4, 999_999),
        datetime(1999, 12, 31, 23, 59, 59, 999_999),
    ]
    assert task.encode(times[:1]).tolist() == [4]
    with pytest.raises(HeadcountError, match="a time from 2000-01-01T00:00:00 to"):
        task.encode(times)
    assert asked(times[:1], task).value == np.datetime64("2000-01-01T00:00:04")


def test_missing_and_outside_dates() -> None:
    task = hc.Distribution("2000-01-01", "2000-01-04", 4)
    texts = pyarrow.table({"at": ["2000-01-02", None, "1999-05-05", "2000-01-04"]})
    e = asked(texts, task, missing="2000-01-03", outside="clamp")
    assert e.value * 4 == pytest.approx([1, 2, 3], abs=1e-6)
    with pytest.raises(HeadcountError, match="a date from 2000-01-01 to 2000-01-04, got '1999-05"):
        asked(texts, task, missing="drop")
    for wrong in (["2000-01-02", "soon"], ["2000-01-02", "2000-13-01"], ["7", "8"]):
        with pytest.raises(HeadcountError, match=f"got '{wrong[-1]}' from person 2|got '7'"):
            asked(pyarrow.table({"at": wrong}), task)
    with pytest.raises(HeadcountError, match="must hold dates, times or their texts, got int64"):
        asked(pyarrow.table({"at": [3]}), task)
    with pytest.raises(HeadcountError, match="date"):
        asked(texts, task, missing="never")
    with pytest.raises(HeadcountError, match="2000-01-05"):
        e.cdf("2000-01-06")


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ("2000-01-01", 5),
        (0, date(2000, 1, 1)),
        ("2000-01-01", "2000-01-02T05:00"),
        ("2000-01-02", "2000-01-01"),
        ("2000-01-01", "2000-01-01"),
        ("0", "1"),
        ("yesterday", "today"),
        (np.datetime64("NaT"), np.datetime64("2000-01-01")),
        (np.datetime64(-1_000_000, "Y"), np.datetime64("2000-01-01")),
    ],
)
def test_wrong_bounds_are_refused(low: Any, high: Any) -> None:
    with pytest.raises(hc.InvalidParameter, match="`low`"):
        hc.Distribution(low, high)


def test_a_task_of_dates_is_read_from_its_document() -> None:
    for task in (hc.Distribution(LOW, HIGH, 50), hc.Median("2000-01-01T10:00", "2000-01-01T11:00")):
        document = json.loads(json.dumps(task.to_dict()))
        assert task_from(document) == task
    assert hc.Distribution(LOW, HIGH) != hc.Distribution(9912, 11174)
    assert str(hc.Median(LOW, HIGH)) == "Median of dates from 1997-02-20 to 2000-08-05, 1,024 cells"
    held: Any = {LOW: 3, "2000-08-05": 4}
    assert hc.Quantiles(LOW, HIGH).holding(held).counts[-1] == 4


def test_dates_on_the_command_line(headcount: Headcount, tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    held = days()
    file.write_text("born\n" + "".join(f"{day}\n" for day in held))
    bounds = ("--low", str(LOW), "--high", str(HIGH))
    options = (str(file), "--column", "born", *bounds, "--cells", "64", "--epsilon", "50")
    told = json.loads(headcount("estimate", *options, "--task", "quantiles", "--json").out)
    ends = told["interval"]
    for low, value, high in zip(ends["low"], told["value"], ends["high"], strict=True):
        assert date.fromisoformat(low) <= date.fromisoformat(value) <= date.fromisoformat(high)
    told = json.loads(headcount("estimate", *options, "--task", "distribution", "--json").out)
    assert told["edges"][0] == "1997-02-20"
    assert told["buckets"] == told["edges"][1:-1]
    assert date.fromisoformat(told["quantiles"][1]["value"])
    out = tmp_path / "born.svg"
    headcount("estimate", *options, "--task", "distribution", "--out", str(out))
    drawn = out.read_text()
    assert ">born<" in drawn
    assert ">2000-01<" in drawn
    out = tmp_path / "born.parquet"
    shown = headcount("estimate", *options, "--task", "median", "--out", str(out)).out
    table = pyarrow.parquet.read_table(out)
    assert str(np.datetime64(table["value"][0].as_py(), "D")) in shown
    assert (
        "dates from 1997-02-20"
        in headcount("plan", "median", *bounds, "--users", "99", "--epsilon", "1").out
    )
