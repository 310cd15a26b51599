"""What Headcount gives out says what it means: units, rows or people, and columns."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas
import pytest

import headcount as hc
from commands import Headcount

INCOMES = ["--column", "income", "--task", "quantiles", "--low", "0", "--high", "9000"]


@pytest.fixture
def incomes(tmp_path: Path) -> None:
    """900 rows of 300 persons in two cities."""
    random = np.random.default_rng(5)
    table = pandas.DataFrame(
        {
            "who": [f"p{i % 300}" for i in range(900)],
            "income": random.uniform(500, 8000, 900).round(2),
            "smoker": random.integers(0, 2, 900),
            "city": random.choice(["North", "South"], 900),
            "sex": random.integers(1, 3, 900),
            "when": [
                f"2024-{1 + i % 12:02}-{1 + i % 28:02} {i * 7 % 24:02}:00" for i in range(900)
            ],
        }
    )
    table.to_csv(tmp_path / "people.csv", index=False)


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch, headcount: Headcount) -> None:
    """A terminal on which no column is left out."""
    from headcount.cli import output

    monkeypatch.setattr(output.console, "width", 200)


def heads(line: str) -> Sequence[str]:
    return [one.strip() for one in line.split("  ") if one.strip()]


@pytest.mark.usefixtures("incomes")
def test_the_error_of_quantiles_is_named_as_that_of_the_share(headcount: Headcount) -> None:
    asked = ["estimate", "people.csv", *INCOMES, "--epsilon", "1"]
    assert headcount(*asked, "--out", "q.csv").status == 0
    found = pandas.read_csv("q.csv")
    assert "standard_error" not in found
    assert (found.standard_error_of_share < 0.1).all()
    document = json.loads(headcount(*asked, "--sampling", "--json").out)
    assert {"standard_error", "sampling_error"}.isdisjoint(document)
    assert document["standard_error_of_share"][0] < 0.1
    assert document["sampling_error_of_share"][0] == pytest.approx(np.sqrt(0.25 * 0.75 / 900))
    frame = hc.estimate(
        {"v": range(900)}, hc.Median(0, 900), column="v", budget=hc.Budget(1)
    ).to_pandas()
    assert "standard_error" not in frame
    assert "standard_error_of_share" in frame


def test_p_values_of_populations_say_where_they_are_only_upper_bounds() -> None:
    random = np.random.default_rng(1)
    shares = {"A": 0.2, "B": 0.5, "C": 0.8, "D": 0.81}
    table = {
        "group": [name for name in shares for _ in range(800)],
        "yes": [int(random.random() < share) for share in shares.values() for _ in range(800)],
    }
    found = hc.estimate(table, hc.Count(), column="yes", group="group", budget=hc.Budget(1))
    apart, near = hc.difference(found["A"], found["B"]), hc.difference(found["C"], found["D"])
    assert apart.population_p_value == pytest.approx(0.001, rel=1e-3)
    assert "≤ 0.001" in str(apart)
    assert "≤" not in str(near)
    told = [one.to_dict()["populations"]["p_value_is_upper_bound"] for one in (apart, near)]
    assert told == [True, False]
    three = hc.contrasts(found, [("A", "B"), ("B", "C"), ("C", "D")])
    assert str(three).count("≤ 0.003") == 2
    listed = [one["populations"] for one in three.to_dict()["contrasts"]]
    assert [one["adjusted_p_value_is_upper_bound"] for one in listed] == [True, True, False]
    histograms = hc.estimate(
        table, hc.Histogram(2), column="yes", group="group", budget=hc.Budget(1)
    )
    two = hc.contrasts(histograms, [("A", "B"), ("C", "D")]).to_dict()["contrasts"]
    assert two[0]["populations"]["adjusted_p_value_is_upper_bound"] == [True, True]
    assert two[1]["populations"]["p_value_is_upper_bound"] == [False, False]


@pytest.mark.usefixtures("incomes")
def test_rows_are_called_rows_if_a_person_may_have_several(headcount: Headcount) -> None:
    smoker = ["estimate", "people.csv", "--column", "smoker", "--epsilon", "1", "--person", "who"]
    several = [*smoker, "--rows-per-person", "2"]
    shown = headcount(*several).out
    assert ", 600 rows," in shown
    assert "600 people" not in shown
    assert "% (" not in shown  # these would be shares of rows
    document = json.loads(headcount(*several, "--json").out)
    assert (document["users"], document["users_are"], document["rows_per_person"]) == (
        600, "rows", 2,
    )  # fmt: skip
    assert "share" not in document
    grouped = headcount(*several, "--group", "city").out
    assert heads(grouped.splitlines()[0])[:2] == ["city", "rows"]
    assert "2 groups, 600 rows" in grouped
    assert headcount(*several, "--out", "rows.html").status == 0
    page = Path("rows.html").read_text()
    assert "600 rows" in page
    assert "600 people" not in page
    assert ", 300 people," in headcount(*smoker).out


@pytest.mark.usefixtures("incomes", "wide")
def test_counts_show_the_share_of_people(headcount: Headcount) -> None:
    smoker = ["estimate", "people.csv", "--column", "smoker", "--epsilon", "1"]
    line = headcount(*smoker).out.splitlines()[1]
    assert "% (" in line
    for more in ([], ["--sampling"]):
        found = json.loads(headcount(*smoker, *more, "--json").out)
        assert found["share"]["value"] == found["value"] / 900
        assert found["share"]["low"] == found["interval"]["low"] / 900
        assert found["share"]["high"] == found["interval"]["high"] / 900
    shown = headcount(*smoker, "--group", "city", "--sampling").out
    assert "share of people" in heads(shown.splitlines()[0])
    assert all("% (" in line for line in shown.splitlines()[1:3])
    assert headcount(*smoker, "--group", "city", "--out", "c.csv").status == 0
    table = pandas.read_csv("c.csv")
    assert np.allclose(table.share, table.value / table.users)
    assert np.allclose(table.share_high, table.high / table.users)
    document = json.loads(headcount(*smoker, "--group", "city", "--json").out)
    assert all(one["share"]["low"] < one["share"]["high"] for one in document["groups"])


@pytest.mark.usefixtures("incomes", "wide")
def test_each_group_has_its_sampling_error(headcount: Headcount) -> None:
    asked = ["estimate", "people.csv", "--column", "smoker", "--epsilon", "1", "--sampling"]
    for more in ([], ["--group", "city"]):
        shown = headcount(*asked, *more).out
        assert "sampling error:" not in shown
        assert "sampling error" in heads(shown.splitlines()[0])
    mean = ["--column", "income", "--low", "0", "--high", "9000", "--epsilon", "1", "--sampling"]
    shown = headcount("estimate", "people.csv", *mean).out
    assert "sampling error, at most" in heads(shown.splitlines()[0])


@pytest.mark.usefixtures("incomes")
@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--epsilon", "1", "--delta", "0.5"], "δ = 0.5 is large: "),
        (["--epsilon", "1", "--delta", "0.0002"], "here is below 0.00011"),
        (["--epsilon", "1", "--delta", "1e-6"], ""),
        (["--epsilon", "10.5"], "ε = 10.5 is large: it protects little"),
        (["--epsilon", "10"], ""),
        (["--epsilon", "1", "--trust", "shuffle"], "shuffling gains nothing with δ = 0 here"),
        (["--epsilon", "1", "--trust", "shuffle", "--delta", "1e-6"], ""),
    ],
)
def test_weak_settings_are_warned_of_in_a_line(
    headcount: Headcount, caplog: pytest.LogCaptureFixture, more: list[str], says: str
) -> None:
    asked = ["estimate", "people.csv", "--column", "smoker", "--json", *more]
    done = headcount(*asked)
    assert json.loads(done.out)["users"] == 900
    assert [one.levelname for one in caplog.records] == ["WARNING"] * bool(says)
    assert all(says in one.getMessage() for one in caplog.records)
    caplog.clear()
    assert headcount(*asked, "--quiet").status == 0
    assert not caplog.records


@pytest.mark.usefixtures("incomes")
def test_warnings_go_to_standard_error(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "headcount", "estimate", "people.csv", "--column", "smoker"]
    done = subprocess.run(
        [*line, "--epsilon", "20", "--json"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    assert json.loads(done.stdout)["users"] == 900
    assert done.stderr.startswith("headcount: ε = 20 is large")
    assert done.stderr.count("\n") == 1


@pytest.mark.usefixtures("incomes")
def test_files_of_tables_have_labels_and_totals_in_columns_of_their_own(
    headcount: Headcount,
) -> None:
    asked = ["estimate", "people.csv", "--column", "city,sex", "--rows", "North,South", "--columns",
             "1,2", "--epsilon", "500", "--sampling", "--confidence", "0.9"]  # fmt: skip
    for ending in ("csv", "parquet"):
        assert headcount(*asked, "--out", f"t.{ending}").status == 0
    people, found = pandas.read_csv("people.csv"), pandas.read_csv("t.csv", dtype={"sex": str})
    saved = pandas.read_parquet("t.parquet")
    assert list(saved) == list(found)
    assert saved.city.tolist() == found.city.tolist()
    assert list(found)[:4] == ["city", "sex", "kind", "value"]
    assert found.kind.value_counts().to_dict() == {
        "cell": 4, "total of a row": 2, "total of a column": 2, "total": 1,
    }  # fmt: skip
    cells = found[found.kind == "cell"].set_index(["city", "sex"]).value
    assert cells["North", "2"] == ((people.city == "North") & (people.sex == 2)).sum()
    totals = found[found.kind != "cell"].set_index(["city", "sex"])
    assert totals.value["South", "all"] == (people.city == "South").sum()
    assert totals.value["all", "1"] == (people.sex == 1).sum()
    assert (totals.value["all", "all"], totals.high["all", "all"]) == (900, 900)
    assert (totals.low < totals.high)[:-1].all()
    assert set(found.confidence) == {0.9}
    assert set(found.interval_of) == {"population"}


def test_frames_of_tables_are_those_of_files() -> None:
    pairs = [("N", 1), ("S", 0), ("N", 0), ("N", 1)] * 50
    task = hc.Table(["N", "S"], 2)
    built = hc.protocol("central.geometric", task, hc.Budget(1), hc.Crowd(200))
    found = hc.run(built, pairs)
    pandas_frame, polars_frame = found.to_pandas(), found.to_polars()
    assert list(pandas_frame)[:3] == polars_frame.columns[:3] == ["row", "column", "kind"]
    assert len(pandas_frame) == len(polars_frame) == 9
    assert set(pandas_frame.interval_of) == {"crowd"}


@pytest.mark.usefixtures("incomes")
def test_contrasts_are_not_lost_in_a_csv_file(headcount: Headcount) -> None:
    asked = ["estimate", "people.csv", "--column", "smoker", "--group", "city", "--epsilon", "1"]
    done = headcount(*asked, "--contrast", "North,South", "--out", "c.csv")
    assert (done.status, done.out) == (2, "")
    assert "--out must end in .json, .parquet or .html with --contrast" in done.err
    assert not Path("c.csv").exists()


@pytest.mark.usefixtures("incomes")
def test_periods_are_shown_in_the_order_of_time(headcount: Headcount) -> None:
    when = ["estimate", "people.csv", "--column", "when", "--epsilon", "1"]
    shown = headcount(*when, "--period", "hour").out.splitlines()
    assert [line.split()[0] for line in shown[1:25]] == [f"{hour:02}" for hour in range(24)]
    weekdays = headcount(*when, "--period", "weekday").out.splitlines()
    assert [line.split()[0] for line in weekdays[1:4]] == ["Monday", "Tuesday", "Wednesday"]
    days = ["--period", "day", "--bins", "2024-01-01,2024-12-31"]
    shown = headcount(*when, *days).out.splitlines()
    listed = [line.split()[0] for line in shown[1:101]]
    assert listed == sorted(listed)
    assert all(day.startswith("2024-") for day in listed)
    assert "… and 266 smaller buckets" in "\n".join(shown)


@pytest.mark.usefixtures("incomes")
def test_pages_say_what_was_asked_of_what(headcount: Headcount) -> None:
    asked = ["estimate", "people.csv", *INCOMES, "--epsilon", "1", "--group", "city"]
    assert headcount(*asked, "--out", "q.html").status == 0
    page = Path("q.html").read_text()
    assert "<h1>Quantiles of income by city, 900 people</h1>" in page
    assert "from the data in people.csv." in page
    assert "honest people" not in page
    assert '<div style="overflow-x:auto"><table>' in page


def test_results_of_a_report_are_rows_of_a_csv_file(headcount: Headcount) -> None:
    Path("q.toml").write_text(
        'title = "Town"\ncontact = "us@example.org"\n'
        '[privacy]\ntrust = "central"\nepsilon = 1\nleast_people = 10\n'
        '[[question]]\nid = "smoke"\nkind = "yes-no"\ntext = "Smoke?"\n'
    )
    Path("t.csv").write_text("smoke\n" + "yes\nno\n" * 50)
    for ending in ("csv", "parquet", "html"):
        done = headcount("report", "q.toml", "t.csv", "--out", f"r.{ending}", "--sampling")
        assert done.status == 0, done.err
    table, saved = pandas.read_csv("r.csv"), pandas.read_parquet("r.parquet")
    assert list(table) == list(saved)
    assert {"question", "name", "value", "low", "high", "confidence", "interval_of"} <= {*table}
    assert set(table.interval_of) == {"population"}
    page = Path("r.html").read_text()
    assert "100 people were asked 1 question." in page
    assert "Contact: us@example.org" in page
