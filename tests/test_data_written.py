"""Numbers, dates, labels and headers in the forms in which people write them.

A budget of 40 leaves no noise: an answer differs from the truth with probability below 1e-15.
"""

import json
import warnings
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import headcount as hc
from commands import Headcount
from headcount.data.cleaning import cleaning
from headcount.data.question import Question
from headcount.data.reading import Reading, reading
from headcount.data.spark.engine import SparkEngine
from headcount.survey.questions import Number

EXACT = hc.Budget(40)
EDGES = [0, 1000, 2000, 10_000_000]


def ask(data: Any, task: hc.Task | None = None, **settings: Any) -> Any:
    settings = {"column": "v", "budget": EXACT, "source": hc.SeededSource(3), **settings}
    return hc.estimate(data, task, **settings)


def counts(data: Any, task: hc.Task | None = None, **settings: Any) -> list[int]:
    found: list[int] = ask(data, task, **settings).value.tolist()
    return found


def refusal(data: Any, task: hc.Task | None = None, **settings: Any) -> str:
    with pytest.raises(hc.HeadcountError) as caught:
        ask(data, task, **settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def csv_of(folder: Path, values: list[str], name: str = "people.csv") -> Path:
    path = folder / name
    path.write_text("v;w\n" + "".join(f'"{value}";x\n' for value in values), encoding="utf-8")
    return path


def book(path: Path, rows: list[list[Any]]) -> Path:
    made = openpyxl.Workbook()
    for row in rows:
        made.active.append(row)
    made.save(path)
    return path


def forms(folder: Path, values: list[str]) -> list[Any]:
    """The same texts as a file, a frame, an Arrow dictionary, a query and a workbook."""
    path = csv_of(folder, values)
    return [
        path,
        pd.DataFrame({"v": values}),
        pl.DataFrame({"v": pl.Series(values, dtype=pl.Categorical)}),
        f"SELECT v FROM read_csv('{path}', delim=';', all_varchar=true)",
        book(folder / "people.xlsx", [["v"], *[[value] for value in values]]),
    ]


# Thousands -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "values"),
    [
        ({"thousands": ","}, ["999", "1,234.50", "-0.5", "1,234,567", "1500"]),
        ({"thousands": ".", "decimal": ","}, ["999", "1.234,50", "-0,5", "1.234.567", "1500"]),
        ({"thousands": "'"}, ["999", "1'234.50", "-0.5", "1'234'567", "1500"]),
        ({"thousands": " ", "decimal": ","}, ["999", "1 234,50", "-0,5", "1 234 567", "1500"]),
        ({"thousands": "\u202f"}, ["999", "1\u202f234.50", "-0.5", "1\u00a0234\u00a0567", "1500"]),
    ],
)
def test_thousands_separators(settings: Any, values: list[str], tmp_path: Path) -> None:
    for data in forms(tmp_path, values):
        edges = [-2_000_000, *EDGES]
        assert counts(data, bins=edges, **settings) == [1, 1, 2, 1], data
    for data in forms(tmp_path, [values[0], values[1][:5], values[4]]):
        found = counts(data, hc.Histogram(2000), **settings)
        assert np.flatnonzero(found).tolist() == [999, 1234, 1500], data


def test_negative_groups_and_separators_of_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("v;w\n-12,345;1,000\n12,345;2,000\n")
    assert counts(tmp_path / "a.csv", bins=[-99_999, 0, 99_999], thousands=",") == [1, 1]
    (tmp_path / "b.jsonl").write_text('{"v": "1,234"}\n{"v": "5"}\n')
    assert counts(tmp_path / "b.jsonl", bins=EDGES, thousands=",") == [1, 1, 0]
    (tmp_path / "c.jsonl").write_text('{"v": 1234.5}\n{"v": 5.5}\n')
    assert counts(tmp_path / "c.jsonl", bins=EDGES, thousands=",") == [1, 1, 0]
    (tmp_path / "d.csv").write_text("v,w\n" + "5,x\n" * 1_200_000 + '"1,234",x\n')
    assert counts(tmp_path / "d.csv", bins=EDGES, thousands=",") == [1_200_000, 1, 0]
    (tmp_path / "e.csv").write_text("v\ntrue\nfalse\n")
    assert ask(tmp_path / "e.csv", hc.Count(), thousands=",").value == 1


@pytest.mark.parametrize(
    ("value", "settings"),
    [
        ("12,34", {"thousands": ","}),
        ("1,2345", {"thousands": ","}),
        ("1234,567", {"thousands": ","}),
        ("0,123", {"thousands": ","}),
        (",123", {"thousands": ","}),
        ("1,234,", {"thousands": ","}),
        ("1.23,456", {"thousands": ","}),
        ("1 234 56", {"thousands": " "}),
        ("12.34", {"thousands": ".", "decimal": ","}),
        ("1.234.5", {"thousands": ".", "decimal": ","}),
    ],
)
def test_other_groups_are_refused(value: str, settings: Any, tmp_path: Path) -> None:
    for data in forms(tmp_path, ["7", value]):
        assert f"got text like '{value}'" in refusal(data, bins=EDGES, **settings)


@pytest.mark.parametrize(
    ("value", "settings", "hint"),
    [
        ("1,234", {}, "thousands=',' (--thousands ,) reads a thousands separator, and decimal=','"),
        ("2,477", {}, "thousands=',' (--thousands ,) reads a thousands separator, and decimal=','"),
        ("1,234.5", {}, "(thousands=',' (--thousands ,) reads"),
        ("1,234,567", {}, "(thousands=',' (--thousands ,) reads"),
        ("1.234,5", {}, "(thousands='.' and decimal=',' (--thousands . --decimal ,) reads"),
        ("1 234", {}, "(thousands=' ' (--thousands \" \") reads"),
        ("1'234", {}, '(thousands="\'" (--thousands "\'") reads'),
        ("2.477", {"decimal": ","}, "(thousands='.' and decimal=',' (--thousands . --decimal ,)"),
        ("2,47", {}, "(decimal=',' (--decimal ,) reads a decimal comma)"),
    ],
)
def test_a_refusal_knows_thousands(value: str, settings: Any, hint: str, tmp_path: Path) -> None:
    for data in (csv_of(tmp_path, [value]), pd.DataFrame({"v": [value]})):
        assert hint in refusal(data, bins=EDGES, **settings)
    (tmp_path / "late.csv").write_text("v;w\n" + "5;x\n" * 1_200_000 + f'"{value}";x\n')
    assert hint in refusal(tmp_path / "late.csv", bins=EDGES, **settings)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"thousands": "_"}, "`thousands` must be a comma, a point, ' or a space, got '_'"),
        ({"thousands": ""}, "`thousands` must be a comma"),
        ({"thousands": 1000}, "`thousands` must be a comma"),
        ({"thousands": "."}, "`thousands` must differ from `decimal`, got '.' for both"),
        ({"thousands": ",", "decimal": ","}, "`thousands` must differ from `decimal`"),
        ({"date_format": "%d.%m.%Y"}, "`date_format` must come with `period` or with dates"),
        ({"trim": 1}, "`trim` must be"),
        ({"header_row": 0}, "`header_row` must be between 1 and"),
        ({"header_row": 2}, "`header_row` must come with files of separated values or an .xlsx"),
    ],
)
def test_wrong_settings_are_refused(settings: Any, said: str) -> None:
    assert said in refusal(pd.DataFrame({"v": [1]}), hc.Count(), **settings)


# Dates -----------------------------------------------------------------------------------------

ENDS = ["2024-01-01", "2024-12-31"]
MEDIAN = hc.Median("2024-01-01", "2024-12-31")


@pytest.mark.parametrize(
    ("date_format", "values"),
    [
        ("%d.%m.%Y", ["31.12.2024", "1.2.2024", " 03.02.2024 "]),
        ("%m/%d/%Y", ["12/31/2024", "2/1/2024", "02/03/2024"]),
        ("%d.%m.%Y %H:%M", ["31.12.2024 23:59", "01.02.2024 00:00", "03.02.2024 12:30"]),
        ("%Y%m%d %H%M %z", ["20241231 2359 +0200", "20240201 0000 -1100", "20240203 1200 +0000"]),
    ],
)
def test_dates_in_other_forms(date_format: str, values: list[str], tmp_path: Path) -> None:
    expected = [0, 2, *[0] * 9, 1]
    for data in forms(tmp_path, values):
        found = ask(data, period="month", bins=ENDS, date_format=date_format)
        assert found.value.tolist() == expected, data
        task = hc.Distribution("2024-01-01", "2024-12-31", 400)
        shares = ask(data, task, date_format=date_format)
        assert shares.share("2024-02-01", "2024-02-02") == pytest.approx(1 / 3)
        assert shares.share("2024-12-31", "2025-01-01") == pytest.approx(1 / 3)
        median = ask(data, hc.Median("2024-01-01", "2024-12-31", 400), date_format=date_format)
        assert str(median.value)[:10] == "2024-02-03"


def test_dates_that_are_dates_need_no_format(tmp_path: Path) -> None:
    """A workbook may mix dates and texts. A date that is filled in needs no format, either."""
    mixed = book(tmp_path / "a.xlsx", [["v"], [date(2024, 3, 1)], ["01.02.2024"]])
    assert counts(mixed, period="quarter", bins=ENDS, date_format="%d.%m.%Y") == [2, 0, 0, 0]
    dates = book(tmp_path / "b.xlsx", [["v"], [datetime(2024, 3, 1, 8)], [datetime(2024, 8, 1)]])
    plain = pl.DataFrame({"v": [date(2024, 3, 1), date(2024, 8, 1)]})
    for data in (dates, plain):
        for form in (None, "%d.%m.%Y"):
            found = counts(data, period="quarter", bins=ENDS, date_format=form)
            assert found == [1, 0, 1, 0]
    gap = pl.DataFrame({"v": ["01.02.2024", None]})
    task = hc.Median("2024-01-01", "2024-12-31", 400)
    ask(gap, task, date_format="%d.%m.%Y", missing="2024-02-01")


@pytest.mark.parametrize(
    ("values", "hint"),
    [
        (["31.12.2024"], "date_format='%d.%m.%Y' (--date-format %d.%m.%Y) reads such dates"),
        (["12/31/2024"], "(date_format='%m/%d/%Y' (--date-format %m/%d/%Y) reads"),
        (["01/02/2024"], "--date-format %m/%d/%Y) or date_format='%d/%m/%Y'"),
        (["01/02/2024", "31/12/2024"], "(date_format='%d/%m/%Y' (--date-format %d/%m/%Y) reads"),
        (["31.12.2024 18:30"], '(--date-format "%d.%m.%Y %H:%M") reads'),
        (["n/a"], "(na='n/a' (--na n/a) reads it as a missing value)"),
    ],
)
def test_a_refusal_knows_forms_of_dates(values: list[str], hint: str, tmp_path: Path) -> None:
    for data in forms(tmp_path, ["2024-01-01", *values]):
        for settings in ({"period": "month", "bins": ENDS}, {"task": MEDIAN}):
            said = refusal(data, **settings)
            assert hint in said
            assert "clamp" not in said


def test_only_dates_are_clamped(tmp_path: Path) -> None:
    asked: Any = {"period": "month", "bins": ENDS}
    for word in ("soon", "never"):
        said = refusal([word, "2023-05-01"], column=None, **asked)
        assert "clamp" not in said
    assert "--outside clamp" in refusal(["2023-05-01"], column=None, **asked)
    for format_ in ("%d.%m.%Y",):
        said = refusal(["2024-05-01"], column=None, **asked, date_format=format_)
        assert "a date from 2024-01-01 to 2024-12-31, in the form %d.%m.%Y, got" in said
        assert "clamp" not in said
        late = refusal(["01.05.2023"], column=None, **asked, date_format=format_)
        assert "--outside clamp" in late


@pytest.mark.parametrize(
    ("date_format", "period"),
    [
        ("", "month"), ("%Q", "month"), ("%d.%m", "month"), ("%d%d%Y", "month"), ("%", "month"),
        (7, "month"), ("%Y", "month"), ("%m/%Y", "day"), ("%d.%m.%Y", "hour"), ("%H:%M", "hour"),
        ("%d.%m.%Y %I:%M", "hour"), ("dd.mm.yyyy", "year"),
    ],
)  # fmt: skip
def test_wrong_formats_are_refused(date_format: Any, period: str) -> None:
    ends = None if period == "hour" else ENDS
    said = refusal(["1"], column=None, period=period, bins=ends, date_format=date_format)
    assert said.startswith("`date_format` must")


def test_a_format_needs_only_what_the_period_needs() -> None:
    for date_format, period in (("%Y", "year"), ("%m/%Y", "month"), ("%d.%m.%y %I %p", "hour")):
        assert reading(date_format=date_format, period=period).date_format == date_format


ZONES = [
    "2024-12-12T10:33:00+02:00", "2024-12-12T10:33:00+0200", "2024-12-12 10:33:00.25-11:00",
    "2024-12-12T10:33:00Z", "2024-12-12 10:33", "2024-12-12T10:33:00.123456789", "2024-12-12T10",
]  # fmt: skip


@pytest.mark.parametrize("value", ZONES)
@pytest.mark.parametrize("others", [[], ["2024-12-12T10:00:00"], ["2024-12-12T10:00:00+05:30"]])
def test_times_with_an_offset_are_those_of_clocks(
    value: str, others: list[str], tmp_path: Path
) -> None:
    """They are asked alone, among texts that Arrow reads, and among texts that it refuses."""
    late = value.replace("T10", "T23").replace(" 10", " 23")
    for data in forms(tmp_path, [value, *others])[:2]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            hours = counts(data, period="hour")
        assert hours[10] == 1 + len(others)
    for text in (value, late):
        for data in forms(tmp_path, [text, *others])[:2]:
            days = counts(data, period="day", bins=["2024-12-11", "2024-12-13"])
            assert days == [0, 1 + len(others), 0]
            weekdays = counts(data, period="weekday")
            assert weekdays[3] == 1 + len(others)
            task = hc.Median("2024-12-12", "2024-12-13")
            assert str(ask(data, task).value) == "2024-12-12"


def test_years_and_months_are_dates_too() -> None:
    values = ["2024-12", "2023", " 2024-01 "]
    assert counts(values, column=None, period="year", bins=["2023", "2024"]) == [1, 2]
    assert "got '2024-13'" in refusal(
        ["2024-13"], column=None, period="year", bins=["2023", "2024"]
    )


# Workbooks -------------------------------------------------------------------------------------


def test_texts_of_numbers_in_a_workbook(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    mixed: Any = [["v"], ["2148.25"], [" 12.5 "], [7], [1500.5], [None], [""]]
    assert counts(book(path, mixed), bins=EDGES, missing="drop") == [2, 1, 1]
    edges = [0, 7, 12.5, 100, 1500.5, 2148.25, 3000]
    assert counts(path, bins=edges, missing="drop") == [0, 1, 1, 0, 1, 1]
    signs: Any = {"decimal": ",", "thousands": "."}
    book(path, [["v"], ["2.148,25"], ["12,5"], [7.5], [1500]])
    assert counts(path, bins=EDGES, **signs) == [2, 1, 1]
    assert ask(book(path, [["v"], ["1"], ["0"], [1]]), hc.Count()).value == 2
    book(path, [["v"], ["1"], ["-"], [1500]])
    assert counts(path, bins=EDGES, na="-", missing="drop") == [1, 1, 0]
    for number in (7, 7.5):
        said = refusal(book(path, [["v"], [number], ["x"]]), bins=EDGES, **signs)
        assert "column 'v' of a.xlsx must hold numbers or true/false, got text like 'x'" in said
    labels = hc.Histogram(["007", "8"])
    assert counts(book(path, [["v"], ["007"], [8], ["8"]]), labels) == [1, 2]
    boxes = book(path, [["v"], ["1;2"], ["2"]])
    assert counts(boxes, hc.Boxes(["1", "2"])) == [1, 2]


# Headers ---------------------------------------------------------------------------------------


def test_lines_above_the_header(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for end in ("\n", "\r\n", "\r"):
        for above in ("Report, of 2024;\n\nmade, by hand, yes\n", "sep=;\n\nx;y;z\n"):
            text = above + "v;w\n1;a\n0;b\n"
            path.write_bytes(text.replace("\n", end).encode())
            assert ask(path, hc.Count(), header_row=4).value == 1
            path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", end).encode())
            assert ask(path, hc.Count(), header_row=4).value == 1
            path.write_bytes(text.replace("\n", end).encode("utf-16"))
            assert ask(path, hc.Count(), header_row=4).value == 1
    path.write_text("sep=;\nv;w\n1;a\n0;b\n")
    assert ask(path, hc.Count(), header_row=2).value == 1
    assert ask(path, hc.Count(), header_row=1).value == 1
    assert "a.csv must be a readable .csv file" in refusal(path, hc.Count(), header_row=99)


def test_rows_above_the_header_of_a_workbook(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    rows: Any = [
        ["Report"],
        [],
        [None, None, "2024"],
        ["when", "v"],
        [date(2024, 1, 5), 1],
        [None, 0],
    ]
    assert ask(book(path, rows), hc.Count(), header_row=4).value == 1
    settings: Any = {"column": "when", "header_row": 4, "missing": "drop"}
    assert counts(path, period="quarter", bins=ENDS, **settings) == [1, 0, 0, 0]
    book(path, [[], [], ["v"], [1]])
    assert ask(path, hc.Count()).value == 1  # empty rows at the top do not count
    assert ask(path, hc.Count(), header_row=3).value == 1
    assert "must have a column 'v', got none" in refusal(path, hc.Count(), header_row=50)


def test_a_title_is_recognized(tmp_path: Path) -> None:
    hint = "header_row=… (--header-row …) says in which row"
    path = tmp_path / "a.csv"
    path.write_text("Report,,\n,,\nv,w,x\n1,2,3\n")
    assert hint in refusal(path, hc.Count())
    path.write_text("Report\nv,w,x\n1,2,3\n")
    said = refusal(path, hc.Count())
    assert "a.csv must have 1 value in each row, as in its first row, got 3 in another row" in said
    assert hint in said
    assert hint in refusal(book(tmp_path / "a.xlsx", [["Report"], ["v", "w"], [1, 2]]), hc.Count())
    path.write_text("w,x\n1,2\n")
    assert hint not in refusal(path, hc.Count())


# Blanks ----------------------------------------------------------------------------------------

LABELS = ["North", "North ", " North", "South\u00a0", "South"]


def test_blanks_around_labels(tmp_path: Path) -> None:
    task = hc.Histogram(["North", "South"])
    for data in forms(tmp_path, LABELS):
        assert counts(data, task, trim=True) == [3, 2]
        if str(data).endswith(".xlsx"):  # cells of workbooks never have blanks around them
            continue
        for outside in ("error", "other"):
            said = refusal(data, task, outside=outside)
            assert "got 'North '" in said
            assert "(trim=True (--trim) ignores blanks around texts)" in said
    assert counts(["North", "East "], task, column=None, outside="other") == [1, 0, 1]
    assert "--outside other" in refusal(["East "], task, column=None)
    blank = ["North", "  ", ""]
    assert counts(blank, task, column=None, trim=True, missing="drop") == [1, 0]
    assert "got none for person 2" in refusal(blank, task, column=None, trim=True)


def test_blanks_around_groups_and_persons() -> None:
    table = pd.DataFrame(
        {"v": [1, 0, 1, 1], "g": ["N", "N ", "S", " S"], "h": ["a", "a", "b", "b "],
         "who": ["x", "x ", " x", "y"]}
    )  # fmt: skip
    said = refusal(table, hc.Count(), group="g")
    assert "groups must differ in more than blanks around their names, got " in said
    assert "(trim=True (--trim)" in said
    assert "(trim=True (--trim)" in refusal(table, hc.Count(), group=["h", "g"])
    assert "(trim=True (--trim)" in refusal(table, hc.Count(), group="g", groups=["N", "S"])
    found = ask(table, hc.Count(), group="g", trim=True)
    assert {name: (one.users, one.value) for name, one in found.items()} == {
        "N": (2, 1), "S": (2, 2),
    }  # fmt: skip
    assert [*ask(table, hc.Count(), group=["h", "g"], trim=True)] == ["a × N", "b × S"]
    assert ask(table, hc.Count(), person="who", trim=True).users == 2
    assert ask(table, hc.Count(), person="who").users == 4


def test_blanks_around_labels_of_tables() -> None:
    table = pl.DataFrame({"a": ["N", "N ", "S"], "b": ["yes", "no", " no"]})
    task = hc.Table(["N", "S"], ["yes", "no"])
    found = ask(table, task, column=["a", "b"], trim=True).value
    assert np.ravel(found).tolist() == [1, 1, 0, 1]
    assert "(trim=True (--trim)" in refusal(table, task, column=["a", "b"])


# Refusals --------------------------------------------------------------------------------------


def test_refusals_say_what_helps(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("income;w\nx;1\n")
    said = refusal(path, hc.Mean(0, 1), column="income")
    assert "column 'income' of people.csv must hold numbers" in said
    wrong = refusal(path, hc.Mean(0, 1), column="v", separator=",")
    assert "got income;w (separator=';' (--separator semicolon) divides this name)" in wrong
    for name in ("old.xls", "open.ods"):
        (tmp_path / name).write_bytes(b"")
        assert "(save it as .xlsx)" in refusal(tmp_path / name, hc.Count())
    codes = "(yes='1' and no='2' (--yes 1 --no 2) read 1 as yes and 2 as no)"
    assert codes in refusal([1, 2, 2], hc.Count(), column=None)
    assert codes in refusal([1.0, 2.0], hc.Count(), column=None)
    assert codes not in refusal([1, 2, 3], hc.Count(), column=None)
    gap = pl.DataFrame({"v": [1, 0], "g": ["N", None]})
    assert "(missing='drop' (--missing drop) leaves such rows out)" in refusal(
        gap, hc.Count(), group="g"
    )


# Commands and surveys --------------------------------------------------------------------------


def test_the_settings_on_the_command_line(headcount: Headcount, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "Report\n\nv;when;region\n1,234;31.12.2024;North\n999;01.02.2024;North \n"
    )
    call = [
        "estimate",
        "a.csv",
        "--epsilon",
        "40",
        "--header-row",
        "3",
        "--json",
        "--separator",
        ";",
    ]
    bins = ["--column", "v", "--bins", "0,1000,2000", "--thousands", ","]
    assert json.loads(headcount(*call, *bins).out)["value"] == [1, 1]
    dates = ["--column", "when", "--period", "quarter", "--bins", "2024-01-01,2024-12-31"]
    found = headcount(*call, *dates, "--date-format", "%d.%m.%Y")
    assert json.loads(found.out)["value"] == [1, 0, 0, 1]
    asked = ["--column", "when", "--task", "median", "--low", "2024-01-01", "--high", "2024-12-31"]
    assert headcount(*call, *asked, "--date-format", "%d.%m.%Y").status == 0
    labels = ["--column", "region", "--buckets", "North,South", "--trim"]
    assert json.loads(headcount(*call, *labels).out)["value"] == [2, 0]


def test_surveys_read_thousands_and_headers(headcount: Headcount, tmp_path: Path) -> None:
    survey = hc.Survey(
        [Number("income", "?", 0, 4000, want=("mean",), cells=4, optional=True)],
        EXACT,
        hc.Trust.CENTRAL,
        1,
    )
    (tmp_path / "a.csv").write_text("Report;\nincome;x\n1.234,5;a\n2500;b\n500;\n")
    signs: Any = {"thousands": ".", "decimal": ","}
    values = ["1.234,5", "2500", "500"]
    paths = [
        book(tmp_path / "a.xlsx", [["Report"], ["income"], ["1.234,5"], [2500], ["500"]]),
        tmp_path / "a.csv",
    ]
    for path in paths:
        found = survey.run(path, **signs, header_row=2, trim=True).estimates["income"]
        assert np.diff([0, *found.value, 1]) * 3 == pytest.approx([1, 1, 1, 0, 0], abs=1e-3)
    found = survey.run({"income": values}, **signs).estimates["income"]
    assert np.diff([0, *found.value, 1]) * 3 == pytest.approx([1, 1, 1, 0, 0], abs=1e-3)
    with pytest.raises(hc.InvalidValue, match=r"'1,23' \(row 1\)"):
        survey.run({"income": ["1,23"]}, thousands=",")
    with pytest.raises(hc.InvalidValue, match=r"--thousands . --decimal ,"):
        survey.run({"income": ["2.477"]}, decimal=",")
    with pytest.raises(hc.InvalidValue, match=r"--decimal ,\) reads a decimal comma"):
        survey.run({"income": ["2,477"]})
    with pytest.raises(hc.InvalidParameter, match="`date_format` must come with dates"):
        survey.run({"income": [1]}, date_format="%d.%m.%Y")
    (tmp_path / "q.toml").write_text(
        '[privacy]\ntrust = "central"\nepsilon = 60\nleast_people = 1\n[[question]]\n'
        'id = "income"\ntext = "?"\nkind = "number"\nlow = 0\nhigh = 4000\n'
        'want = ["mean"]\ncells = 4\n'
    )
    options = ("--thousands", ".", "--decimal", ",", "--header-row", "2", "--trim")
    for command in (["report"], ["survey", "run"]):
        done = headcount(*command, "q.toml", "a.csv", *options)
        assert done.status == 0, done.err


def test_an_executor_reads_by_the_same_rules() -> None:
    """Rules for reading travel to the executors of Spark with the question."""
    rules = Reading(thousands=",", trim=True)
    cleaned = cleaning("v", None, bins=EDGES, reading=rules)
    codes = cleaned.clean(pa.array(["1,234", "5 "])).codes
    assert codes.tolist() == [1, 0]


def test_names_of_persons_keep_their_blanks_on_spark() -> None:
    """Otherwise a person's rows would be on several machines and count as several persons."""
    question = Question(cleaning("v", hc.Count(), reading=Reading(trim=True)), person="who")
    with pytest.raises(hc.InvalidParameter, match="`trim` must come without `person` on Spark"):
        SparkEngine().census(None, question, hc.SeededSource(1), lambda share: None)
