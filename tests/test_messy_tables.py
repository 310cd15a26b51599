"""Groups of several columns, missing values as a bucket, data dictionaries, and answers in other
forms.

A budget of 40 leaves no noise: an answer differs from the truth with probability below 1e-15.
"""

import csv
import json
import logging
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import headcount as hc
from commands import Headcount

EXACT = hc.Budget(40)
PEOPLE = pl.DataFrame(
    {
        "region": ["N", "N", "S", "S", "S", None],
        "sex": ["F", "M", "F", "F", None, "M"],
        "team": [1, 2, 1, 1, 2, 2],
        "v": [1, 0, 1, 0, 1, 1],
    }
)


def asked(task: hc.Task | None, **settings: Any) -> hc.Estimate:
    source = hc.SeededSource(1)
    return hc.estimate(PEOPLE, task, budget=EXACT, source=source, group=None, **settings)


def test_groups_of_several_columns() -> None:
    found = hc.estimate(
        PEOPLE, hc.Count(), column="v", group=["region", "team"], missing="drop", budget=EXACT,
        source=hc.SeededSource(1),
    )  # fmt: skip
    assert found.group == "region × team"
    assert {group: one.value for group, one in found.items()} == {
        "N × 1": 1, "N × 2": 0, "S × 1": 1, "S × 2": 1,
    }  # fmt: skip
    assert found["S", 1].users == 2
    table = found.to_polars()
    assert table["region"].to_list() == ["N", "N", "S", "S"]
    assert table["team"].to_list() == ["1", "2", "1", "2"]
    assert found.to_pandas()["value"].tolist() == [1, 0, 1, 1]


def test_groups_of_several_columns_can_be_declared() -> None:
    people = PEOPLE.drop_nulls()
    settings: dict[str, Any] = {"column": "v", "group": ["region", "sex"], "budget": EXACT}
    groups = [("N", "F"), ("N", "M"), ("S", "F")]
    found = hc.estimate(people, hc.Count(), groups=groups, **settings)
    assert list(found) == ["N × F", "N × M", "S × F"]
    with pytest.raises(hc.InvalidValue, match=r"every group must be one of .* got 'S × F'"):
        hc.estimate(people, hc.Count(), groups=groups[:2], **settings)
    for wrong in ([], ["v", "region"], ["sex", "sex"], ["sex", 3], 5):
        with pytest.raises(hc.InvalidParameter, match=r"`group`|must differ"):
            hc.estimate(people, hc.Count(), **{**settings, "group": wrong})


def test_groups_of_several_columns_on_the_command_line(
    headcount: Headcount, tmp_path: Path
) -> None:
    PEOPLE.drop_nulls().write_csv(tmp_path / "people.csv")
    call = ("estimate", str(tmp_path / "people.csv"), "--column", "v", "--epsilon", "40", "--json")
    counts = {"N × F": 1, "N × M": 0, "S × F": 1}
    for group in ("region,sex", " region , sex "):
        done = headcount(*call, "--group", group)
        assert done.status == 0, done.err
        found = json.loads(done.out)["groups"]
        assert {one["group"]: round(one["value"]) for one in found} == counts
    assert headcount(*call, "--group", "region,sex", "--groups", ",".join(counts)).status == 0
    few = headcount(*call, "--group", "region,sex", "--groups", "N × F,N × M")
    assert few.status == 2
    assert "got 'S × F'" in few.err
    assert "'gender'" in headcount(*call, "--group", "region,gender").err


def test_missing_values_have_a_bucket() -> None:
    found = asked(hc.Histogram(["N", "S"]), column="region", missing="bucket")
    assert list(found.buckets or ()) == ["N", "S", "missing"]
    assert found.value.tolist() == [2, 3, 1]
    both = asked(hc.Histogram(["N", "W"]),
                 column="region", missing="bucket", outside="other")  # fmt: skip
    assert list(both.buckets or ()) == ["N", "W", "missing", "other"]
    assert both.value.tolist() == [2, 0, 1, 3]
    bins = hc.estimate([1.0, None, 7.0], bins=[0, 5, 10], missing="bucket", budget=EXACT)
    assert bins.value.tolist() == [1, 1, 1]
    table = asked(hc.Table(["N", "S"], ["F", "M"]), column=["region", "sex"], missing="bucket")
    assert table.value.tolist() == [1, 1, 0, 2, 0, 1, 0, 1, 0]
    for task in (hc.Count(), hc.Histogram(["bucket", "N"]), hc.Histogram(["missing", "N"])):
        with pytest.raises(hc.InvalidParameter, match=r"`missing`"):
            asked(task, column="region", missing="bucket")


DICTIONARIES: dict[str, str] = {
    "d.toml": 'region = ["N", "S"]\nsex = ["F", "M"]\n',
    "d.json": '{"region": ["N", "S"], "sex": ["F", "M"]}',
    "schema.json": json.dumps(
        {
            "fields": [
                {"name": "v", "type": "integer"},
                {"name": "region", "constraints": {"enum": ["N", "S"]}},
                {"name": "sex", "constraints": {"enum": ["F", "M"]}},
            ]
        }
    ),
    "d.csv": "column,label\nregion,N\nsex,F\nregion,S\nsex,M\n",
}


@pytest.mark.parametrize("name", DICTIONARIES)
def test_a_table_with_labels_from_a_data_dictionary(
    headcount: Headcount, tmp_path: Path, name: str
) -> None:
    PEOPLE.drop_nulls().write_csv(tmp_path / "people.csv")
    (tmp_path / name).write_text(DICTIONARIES[name])
    done = headcount("estimate", "people.csv", "--table", "region,sex", "--dictionary", name,
                     "--epsilon", "40", "--json")  # fmt: skip
    found = json.loads(done.out)
    assert found["buckets"] == ["N × F", "N × M", "S × F", "S × M"]
    assert found["value"] == [1, 1, 2, 0]
    done = headcount("estimate", "people.csv", "--column", "sex", "--dictionary", name,
                     "--epsilon", "40", "--out", "sexes.csv")  # fmt: skip
    assert done.status == 0
    rows = list(csv.DictReader((tmp_path / "sexes.csv").read_text().splitlines()))
    assert [(row["bucket"], float(row["value"]), row["users"]) for row in rows] == [
        ("F", 3.0, "4"),
        ("M", 1.0, "4"),
    ]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--table", "region,v", "--dictionary", "d.toml"], "labels of column 'v', got only"),
        (["--table", "region", "--dictionary", "d.toml"], "--table must be two columns"),
        (["--table", "region,sex"], "labels of both columns, got none (give --rows and --columns"),
        (["--table", "region,sex", "--column", "v"], "--column must come without --table"),
        (["--column", "v", "--task", "count", "--dictionary", "d.toml"], "--dictionary must come"),
        (["--table", "region,sex", "--dictionary", "bad.json"], "bad.json must be a readable"),
        (["--table", "region,sex", "--dictionary", "d.yaml"], "must end in .json, .toml, .csv"),
        (["--table", "region,sex", "--dictionary", "none.toml"], "dictionary, got: No such file"),
        (["--table", "region,sex", "--dictionary", "flat.toml"], "list of labels for each column"),
        (["--column", "v", "--quiet", "--verbose"], "must not come together"),
    ],
)
def test_refusals_about_labels(
    headcount: Headcount, tmp_path: Path, options: list[str], says: str
) -> None:
    PEOPLE.drop_nulls().write_csv(tmp_path / "people.csv")
    (tmp_path / "d.toml").write_text(DICTIONARIES["d.toml"])
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "flat.toml").write_text('region = "N"\nsex = ["F", "M"]\n')
    done = headcount("estimate", "people.csv", *options, "--epsilon", "1")
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert says in done.err


def test_quiet_and_verbose(headcount: Headcount, tmp_path: Path) -> None:
    PEOPLE.write_csv(tmp_path / "people.csv")
    question = ["estimate", "people.csv", "--column", "v", "--epsilon", "9"]
    assert headcount(*question, "--quiet").err == ""
    said = headcount(*question, "--verbose").err.splitlines()
    assert [line.partition("INFO: ")[2] for line in said] == [
        "counted 6 people in 1 crowd",
        "ready: central.geometric, which will spend (9, 0)-DP, central trust, exact",
        "answered: central.geometric",
    ]
    assert headcount(*question).err == ""  # nothing is left behind
    done = headcount("ledger", "create", "l.db", "--dataset", "d", "--epsilon", "99", "--quiet")
    assert (done.status, done.err) == (0, "")
    said = headcount(*question, "--ledger", "l.db", "--verbose").err.splitlines()
    assert any("headcount.ledger.ledger INFO: charged (9, 0)-DP" in line for line in said)


def test_every_command_can_be_quiet_and_verbose() -> None:
    from typer.main import get_command

    from headcount.cli.app import app

    def leaves(command: Any) -> list[Any]:
        below = getattr(command, "commands", {}).values()
        return [leaf for one in below for leaf in leaves(one)] if below else [command]

    commands = leaves(get_command(app()))
    assert len(commands) > 10
    for command in commands:
        options = {flag for parameter in command.params for flag in parameter.opts}
        assert {"--quiet", "--verbose"} <= options, command.name


def test_python_logs_in_the_standard_way(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="headcount"):
        asked(hc.Count(), column="v")
    assert "counted 6 people in 1 crowd" in caplog.messages


ESTIMATES: dict[str, Callable[[], hc.Estimate]] = {
    "count": lambda: asked(hc.Count(), column="v"),
    "mean": lambda: asked(hc.Mean(0, 1), column="v"),
    "histogram": lambda: asked(hc.Histogram(["N", "S"]), column="region", missing="bucket"),
    "table": lambda: asked(
        hc.Table(["N", "S"], ["F", "M"]), column=["region", "sex"], missing="bucket"
    ),
    "median": lambda: asked(hc.Median(0, 1), column="v"),
    "distribution": lambda: asked(hc.Distribution(0, 1, cells=4), column="v"),
}


@pytest.mark.parametrize("name", ESTIMATES)
def test_frames_and_figures(name: str) -> None:
    found = ESTIMATES[name]()
    interval = found.interval(0.9)
    for frame in (found.to_pandas(0.9), found.to_polars(0.9)):
        if name == "table":  # the totals follow the cells
            totals = ["total of a row"] * 3 + ["total of a column"] * 3 + ["total"]
            assert list(frame["kind"]) == ["cell"] * 9 + totals
        cells = frame[:9] if name == "table" else frame
        columns = {column: list(cells[column]) for column in frame.columns}
        assert np.array_equal(columns["value"], np.ravel(found.value))
        assert np.array_equal(columns["low"], np.ravel(interval.low))
        assert np.array_equal(columns["high"], np.ravel(interval.high))
        assert set(columns["users"]) == {6}
        assert ("bucket" in columns) == (found.buckets is not None and name != "table")
    assert "layer" in found.plot(0.9).to_dict()


def test_a_figure_of_groups() -> None:
    found = hc.estimate(PEOPLE, hc.Count(), column="v", group="team", budget=EXACT)
    drawn = json.dumps(found.plot().to_dict())
    assert '"row": "1"' in drawn
    assert '"row": "2"' in drawn
    histograms = hc.estimate(PEOPLE, hc.Histogram(2), column="v", group="team", budget=EXACT)
    with pytest.raises(hc.InvalidParameter, match="a figure must show one estimate"):
        histograms.plot()


def test_fewer_people_than_planned() -> None:
    """In local trust, nobody relies on others. In shuffle trust, a plan says how many it needs."""
    local = hc.protocol("local.randomized-response", hc.Count(), hc.Budget(1), hc.Crowd(2000))
    found = hc.estimate([0, 1] * 900, protocol=local)
    assert (found.users, found.guarantee.epsilon, found.guarantee.honest) == (1800, 1, 1800)
    low, high = found.interval(1 - 1e-9).low, found.interval(1 - 1e-9).high
    assert low <= 900 <= high
    plan = hc.plan(hc.Count(), hc.Budget(1, 1e-6), hc.Crowd(2000))
    assert plan.to_dict()["least_users"] == {"central": 1, "local": 1, "shuffle": 2000}
    assert "with shuffle trust, at least 2,000 people must take part" in str(plan.table())


VISITS = [
    date(2024, 1, 1), date(2024, 1, 31), date(2024, 2, 29), date(2024, 3, 31), date(2023, 12, 31)
]  # fmt: skip


@pytest.mark.parametrize(
    ("period", "ends", "labels", "counts"),
    [
        ("year", ("2023-05-01", "2024-12-31"), ["2023", "2024"], [1, 4]),
        ("quarter", ("2023-10-01", "2024-03-31"), ["2023-Q4", "2024-Q1"], [1, 4]),
        ("month", ("2023-12-01", "2024-03-31"), ["2023-12", "2024-01", "2024-02", "2024-03"],
         [1, 2, 1, 1]),
        ("week", ("2023-12-31", "2024-01-07"), ["2023-W52", "2024-W01"], [1, 1]),
        ("day", ("2023-12-31", "2024-01-01"), ["2023-12-31", "2024-01-01"], [1, 1]),
        ("weekday", None, ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday",
                           "Sunday"], [1, 0, 1, 1, 0, 0, 2]),
    ],
)  # fmt: skip
def test_dates_by_period(
    period: str, ends: tuple[str, str] | None, labels: list[str], counts: list[int]
) -> None:
    """The same dates as dates, as times and as text."""
    texts = [day.isoformat() for day in VISITS]
    times = [datetime(day.year, day.month, day.day, 23, 59) for day in VISITS]
    for values in (VISITS, texts, times):
        found = hc.estimate(
            pl.DataFrame({"v": values}), period=period, bins=ends, outside="other", column="v",
            budget=EXACT, source=hc.SeededSource(1),
        )  # fmt: skip
        assert list(found.buckets or ()) == [*labels, "other"]
        assert found.value.tolist() == [*counts, len(VISITS) - sum(counts)]


def test_hours_and_dates_of_files(headcount: Headcount, tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("v\n2024-01-31 08:15\n2024-02-01 23:59\n2024-02-01T08:00\n")
    asked = ["estimate", "v.csv", "--column", "v", "--epsilon", "40", "--json"]
    hours = json.loads(headcount(*asked, "--period", "hour").out)["value"]
    assert [at for at, people in enumerate(hours) if people] == [8, 23]
    months = [*asked, "--period", "month", "--bins"]
    found = json.loads(headcount(*months, "2024-01-01,2024-03-31").out)
    assert (found["buckets"], found["value"]) == (["2024-01", "2024-02", "2024-03"], [1, 2, 0])
    late = headcount(*months, "2024-02-01,2024-03-31")
    assert "a date from 2024-02-01 to 2024-03-31, got '2024-01-31 08:15' from person 1" in late.err


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"period": "month"}, "first and the last day"),
        ({"period": "month", "bins": ["2024-01-01", "soon"]}, "first and the last day"),
        ({"period": "month", "bins": ["today", "2924-01-01"]}, "first and the last day"),
        ({"period": "month", "bins": ["2024-02-01", "2024-01-01"]}, "first and the last day"),
        ({"period": "month", "bins": ["2024-02-01", "2024-02-29"]}, "2 to 100,000 periods, got 1"),
        ({"period": "day", "bins": ["0001-01-01", "9000-01-01"]}, "2 to 100,000 periods"),
        ({"period": "hour", "bins": [0, 12]}, "must not come with"),
        ({"period": "fortnight"}, "`period` must be"),
        ({"period": "hour", "task": hc.Count()}, "must come without a task"),
    ],
)
def test_wrong_periods_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(hc.InvalidParameter, match=says):
        hc.estimate({"v": np.array(["2024-01-01"], "M8[D]")}, budget=EXACT, **settings)


def test_what_is_no_date_is_refused() -> None:
    ends = ["2024-01-01", "2024-12-31"]
    for values, says in (
        (["2024-01-01", "31.12.2024", "now"], "got '31.12.2024' from person 2, and 1 more"),
        ([1, 2], "must hold dates, times or their texts, got int64"),
    ):
        with pytest.raises(hc.InvalidValue, match=says):
            hc.estimate(values, period="month", bins=ends, budget=EXACT)
