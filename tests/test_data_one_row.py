"""One person's value never changes how other people's values are read.

Every guarantee assumes that neighboring tables differ in one value. Programs that read tables often
choose the type of a column by its values. If one value changed the type, all values could change.
"""

import csv
import json
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pyarrow
import pytest
from pyarrow import parquet

import headcount as hc
from headcount.survey.questions import Choice

BIG = 2**53
NOON = datetime(2024, 5, 1, 12, 30)
TOKYO = timezone(timedelta(hours=9))
EXACT = hc.Budget(500)  # with such a large ε, there is practically no noise

NUMBERS: list[Any] = [
    0, 1, 2, 3, 15, 29, 1.0, 0.0, 2.5, 0.1, -0.0, True, None, float("nan"), float("inf"), -1,
    Decimal(1), Decimal(15), Decimal("0.5"), Decimal("2.50000"), Decimal("1.00000000001"),
    Decimal("1E+2"), BIG, BIG + 1, BIG + 3, 2**62 + 1, 2**63 + 1, 10**20, np.float64(0.1),
]  # fmt: skip
WORDS: list[Any] = [
    "0", "1", "2", "3", "1.0", "01", "+1", "1,5", "1.5", "NA", "-", "", "x", " 1", "1e0", "inf",
    "9007199254740993", "9007199254740993.0", "true", "yes", "No", "2024-05-01", "a", "b", "é",
]  # fmt: skip
TIMES: list[Any] = [
    NOON, NOON.replace(tzinfo=TOKYO), NOON.replace(tzinfo=UTC), date(2024, 5, 1), None,
    np.datetime64("2024-05-01"), np.datetime64("2024-05-01T12:30", "s"), pd.Timestamp(NOON),
    pd.Timestamp(NOON, tz="Asia/Tokyo"), pd.Timestamp("2024-05-01T12:30:00.123456789"),
]  # fmt: skip
MOMENTS: list[Any] = [
    "2024-05-01", "2024-05-01T12:30:00", "2024-05-01 12:30", "2024-05-01T12:30:00Z",
    "2024-05-01T12:30:00+09:00", "2024-05-01T12:30:00.123", " 2024-05-01", "2024-05", "x", "",
    "0000-01-01", "20240501", "2024-05-01T1230", "2024-05-01T12", "2024-05-01T12:30:00.1234567",
    "2024-05-01T23:59:59.9999999", "2024-02-30", "2024-05-01T24:00", "12024-05-01", "2024-05-01\n",
]  # fmt: skip

TASKS: list[dict[str, Any]] = [
    {"task": hc.Histogram(4)},
    {"task": hc.Histogram([0, 1, 3, 15])},
    {"task": hc.Histogram([0, BIG, BIG + 1, BIG + 2, 2**62, 2**62 + 1])},
    {"task": hc.Histogram(["a", "b", "1", "2", "é", "01"])},
    {"bins": [0, 1, 3, 15, 29, 100]},
    {"bins": [0, BIG + 1, 2**61]},
]
SUMS: list[hc.Task] = [hc.Sum(0, 100, whole=True), hc.Sum(0, 2**61, whole=True), hc.Sum(0, 100)]
PERIODS: list[dict[str, Any]] = [
    {"period": "hour"},
    {"period": "weekday"},
    {"period": "day", "bins": ["2024-04-01", "2024-05-31"]},
]


# Kinds of tables ------------------------------------------------------------------------------


def in_list(values: list[Any], _: Path) -> Any:
    return values


def in_records(values: list[Any], _: Path) -> Any:
    return [{"value": value} for value in values]


def in_objects(values: list[Any], _: Path) -> Any:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def in_frame(values: list[Any], _: Path) -> Any:
    return pd.DataFrame({"value": pd.Series(values, dtype=object)})


def in_categories(values: list[Any], _: Path) -> Any:
    return pd.DataFrame({"value": pd.Categorical(pd.Series(values, dtype=object))})


def decimals_of(scale: int) -> Callable[[list[Any], Path], Any]:
    def in_decimals(values: list[Any], _: Path) -> Any:
        kind = pyarrow.decimal128(38, scale)
        return pyarrow.table({"value": pyarrow.array(values, type=kind)})

    return in_decimals


def text(value: Any) -> str:
    if value is None:
        return ""
    return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)


def in_csv(values: list[Any], folder: Path) -> Any:
    path = folder / "table.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("value", "other"), *((text(one), 1) for one in values)])
    return path


def in_json(values: list[Any], folder: Path) -> Any:
    path = folder / "table.jsonl"

    def shown(one: Any) -> str:
        is_number = isinstance(one, int | float | Decimal) and not isinstance(one, bool)
        plain = one if isinstance(one, bool | str | None) else text(one)
        return str(one) if is_number else json.dumps(plain)

    path.write_text("".join(f'{{"value": {shown(one)}}}\n' for one in values))
    return path


def in_sheet(values: list[Any], folder: Path) -> Any:
    book = openpyxl.Workbook()
    book.active.append(["value", "other"])
    for one in values:
        plain: Any = float(one) if isinstance(one, Decimal) else one
        book.active.append([plain.item() if isinstance(one, np.generic) else plain, 1])
    path = folder / "table.xlsx"
    book.save(path)
    return path


KINDS: dict[str, Callable[[list[Any], Path], Any]] = {
    "list": in_list,
    "records": in_records,
    "objects": in_objects,
    "frame": in_frame,
    "categories": in_categories,
    "csv": in_csv,
    "json": in_json,
    "sheet": in_sheet,
    **{f"decimals {scale}": decimals_of(scale) for scale in (5, 9, 11)},
}


# What is asked --------------------------------------------------------------------------------


def answer(data: Any, settings: dict[str, Any]) -> Any:
    """The exact answer, or None if the table is refused or cannot be made."""
    column = None if isinstance(data, list) and not isinstance(data[0], dict) else "value"
    if isinstance(data, np.ndarray):
        column = None
    try:
        return hc.estimate(data, column=column, budget=EXACT, **settings).value
    except hc.HeadcountError:
        return None


def compared(
    kind: str, one: list[Any], other: list[Any], settings: dict[str, Any], folder: Path
) -> bool:
    """Whether both tables were answered. If so, the answers must differ by one person only."""
    answers = []
    for values in (one, other):
        try:
            data = KINDS[kind](values, folder)
        except (pyarrow.ArrowException, TypeError, ValueError, OverflowError):
            return False  # the other program refuses such values
        answers.append(answer(data, settings))
    if any(found is None for found in answers):
        return False
    first, second = answers
    if settings.get("task") in SUMS:
        task = settings["task"]
        moved = abs(first - second) / (task.high - task.low)
        assert moved <= 1.5, (kind, one, other, settings)  # random rounding adds a little
    else:
        assert np.abs(first - second).sum() <= 2.5, (kind, one, other, settings)
    return True


def compare_many(kind: str, seed: int, runs: int, folder: Path) -> int:
    draw, answered = random.Random(seed), 0
    for _ in range(runs):
        dated = draw.random() < 0.3 and "decimals" not in kind
        if dated:
            settings = dict(draw.choice(PERIODS))
            pool = draw.choice([TIMES, MOMENTS, TIMES + MOMENTS])
        else:
            settings = draw.choice([*map(dict, TASKS), *({"task": one} for one in SUMS)])
            pool = draw.choice([NUMBERS, WORDS, NUMBERS + WORDS])
        if "decimals" in kind:
            pool = [one for one in NUMBERS if isinstance(one, int | Decimal)]
        summed = settings.get("task") in SUMS
        settings["outside"] = draw.choice(["clamp" if summed else "other", "error"])
        settings["missing"] = draw.choice(["error" if summed else "bucket", "error"])
        if draw.random() < 0.2:
            settings["na"] = draw.choice([["NA", "-"], ["15"], ["x", ""]])
        held = [draw.choice(pool) for _ in range(draw.choice([1, 1, 2]))]
        one = [draw.choice(held) for _ in range(8)]
        other, at = list(one), draw.choice([0, 3, 7])
        one[at], other[at] = draw.sample(pool, 2)
        answered += compared(kind, one, other, settings, folder)
    return answered


@pytest.mark.filterwarnings("ignore")  # of programs that make the tables
@pytest.mark.parametrize("kind", KINDS)
def test_one_value_changes_one_answer(kind: str, tmp_path: Path) -> None:
    assert compare_many(kind, 1, 150, tmp_path) > 5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(2, 6))
@pytest.mark.parametrize("kind", KINDS)
def test_one_value_changes_one_answer_in_many_tables(kind: str, seed: int, tmp_path: Path) -> None:
    assert compare_many(kind, seed, 2000, tmp_path) > 100


CASES: list[tuple[str, Any, Any, dict[str, Any]]] = [
    ("list", NOON, date(2024, 5, 1), {"period": "hour"}),
    ("list", NOON, NOON.replace(tzinfo=TOKYO), {"period": "hour"}),
    ("records", NOON, date(2024, 5, 1), {"period": "hour"}),
    ("objects", NOON, NOON.replace(tzinfo=TOKYO), {"period": "hour"}),
    ("frame", NOON, date(2024, 5, 1), {"period": "hour"}),
    ("categories", NOON, NOON.replace(tzinfo=TOKYO), {"period": "hour"}),
    ("list", Decimal(1), Decimal("1.00000000001"), {"bins": [0, 1, 3, 15]}),
    (
        "decimals 9", Decimal(15), Decimal("0.5"),
        {"task": hc.Histogram([0, 1, 15]), "outside": "other"},
    ),
    ("decimals 11", Decimal(1), Decimal("0.5"), {"bins": [0, 1, 3, 15]}),
    ("list", 15, 0.5, {"task": hc.Histogram([0, 1, 15]), "outside": "other"}),
    ("csv", "0000-01-01", "x", {"period": "weekday", "outside": "other"}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "usual", "odd", "settings"), CASES)
def test_cases_that_once_changed_everybody(
    kind: str, usual: Any, odd: Any, settings: dict[str, Any], tmp_path: Path
) -> None:
    """Both tables are answered, and 99 of 100 people are read as before."""
    assert compared(kind, [usual] * 100, [odd, *[usual] * 99], settings, tmp_path)


@pytest.mark.parametrize("kind", ["list", "objects", "csv", "json"])
@pytest.mark.parametrize("task", [hc.Histogram([0, BIG, BIG + 1]), hc.Sum(0, BIG + 9, whole=True)])
def test_large_numbers_next_to_a_fraction_are_refused(
    kind: str, task: hc.Task, tmp_path: Path
) -> None:
    """As floats, they would be other numbers."""
    whole = [0, *[BIG + 1] * 99]
    found = answer(KINDS[kind](whole, tmp_path), {"task": task})
    exact = [1, 0, 99] if isinstance(task, hc.Histogram) else 99 * (BIG + 1)
    assert found == pytest.approx(exact, rel=0.02)  # a sum of such large numbers has some noise
    fraction = [0.0, *whole[1:]]
    data = KINDS[kind](fraction, tmp_path)
    column = None if kind in ("list", "objects") else "value"
    with pytest.raises(hc.HeadcountError, match=r"whole numbers from 2\^53 on|exactly represent"):
        hc.estimate(data, task, column=column, budget=EXACT)


def test_large_numbers_in_a_run() -> None:
    task = hc.Histogram([0, BIG, BIG + 1])
    protocol = hc.protocol("central.geometric", task, EXACT, hc.Crowd(100))
    assert hc.run(protocol, [0, *[BIG + 1] * 99]).value.tolist() == [1, 0, 99]
    with pytest.raises(hc.InvalidValue, match=r"whole numbers from 2\^53 on"):
        hc.run(protocol, [0.0, *[BIG + 1] * 99])
    assert hc.Sum(0, BIG + 9, whole=True).encode([0.0, BIG + 1]).tolist() == [0, BIG + 1]


def test_labels_on_both_sides_of_2_to_the_63() -> None:
    task = hc.Histogram([-1, 2**63, 2**63 + 1])
    assert task.encode([2**63 + 1, -1, 2**63]).tolist() == [2, 0, 1]
    assert hc.Histogram([0, 2**63 - 1]).encode(np.array([2**63 - 1, 0], np.uint64)).tolist() == [
        1,
        0,
    ]
    with pytest.raises(hc.InvalidValue):
        hc.Histogram([0, 2**63 - 1]).encode(np.array([2**63], np.uint64))


@pytest.mark.parametrize("large", [True, False])
def test_files_of_a_folder_agree_on_times(tmp_path: Path, large: bool) -> None:
    """Arrow would convert the second file to the type of the first."""
    days = pyarrow.table({"value": [date(2024, 5, 1)] * 9})
    times = pyarrow.table({"value": [NOON] * 9})
    parquet.write_table(days, tmp_path / "1.parquet")
    parquet.write_table(times, tmp_path / "2.parquet", row_group_size=100 if large else 2)
    with pytest.raises(hc.UnreadableData, match="all files must have the same type of column"):
        hc.estimate(tmp_path, period="hour", column="value", budget=EXACT)


@pytest.mark.parametrize(
    ("query", "guessed"),
    [
        ("SELECT value FROM '{}'", True),
        ("SELECT value FROM read_csv('{}')", True),
        ("SELECT CAST(value AS INT) AS value FROM read_csv('{}', all_varchar=true)", False),
        ("SELECT value FROM read_csv('{}', columns={{'value': 'INT', 'other': 'INT'}})", False),
    ],
)
def test_a_query_says_that_types_are_guessed(
    query: str, guessed: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = in_csv([0, 1] * 50, tmp_path)
    found = hc.estimate(query=query.format(path), task=hc.Count(), column="value", budget=EXACT)
    assert found.value == 50
    assert ("DuckDB guesses the types" in caplog.text) == guessed


LATER_CASES: list[tuple[str, Any, Any, dict[str, Any]]] = [
    ("csv", "3", "1;", {"task": hc.Boxes(["1", "2", "3"])}),
    ("sheet", "3", "1;", {"task": hc.Boxes(["1", "2", "3"])}),
    ("csv", "99.0", " NA", {"bins": [0, 50, 100], "na": ["99", "NA"], "missing": "bucket"}),
    ("sheet", "99", "NA", {"bins": [0, 50, 100], "na": ["99.0", "NA"], "missing": "bucket"}),
    (
        "csv", "99,0", " NA",
        {"bins": [0, 50, 100], "na": ["99,00", "NA"], "decimal": ",", "missing": "bucket"},
    ),
    (
        "sheet", datetime(1950, 5, 1), "01.05.70",
        {"period": "year", "bins": ["1940-01-01", "2060-01-01"], "date_format": "%d.%m.%y"},
    ),
    ("sheet", NOON, "01.05.2024", {"period": "weekday", "date_format": "%d.%m.%Y"}),
    ("list", np.float16(0.5), 3, {"bins": [0, 0.25, 1, 4]}),
    ("frame", np.float16(0.5), 3, {"bins": [0, 0.25, 1, 4]}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "usual", "odd", "settings"), LATER_CASES)
def test_more_cases_that_once_changed_everybody(
    kind: str, usual: Any, odd: Any, settings: dict[str, Any], tmp_path: Path
) -> None:
    for place in (0, 99):
        changed = [usual] * 100
        changed[place] = odd
        assert compared(kind, [usual] * 100, changed, settings, tmp_path)


def test_files_of_a_folder_agree_on_kinds_of_numbers(tmp_path: Path) -> None:
    """As truth values, 2 and 3 would be 1. As a number, the label 01 would be 1."""
    for first, second in (([True], [0, 1, 2, 3]), (["1"], [1, 2]), ([1], ["01"])):
        for name, values in (("1", first), ("2", second)):
            parquet.write_table(pyarrow.table({"value": values}), tmp_path / f"{name}.parquet")
        with pytest.raises(hc.UnreadableData, match="all files must have the same type of column"):
            hc.estimate(tmp_path, hc.Histogram(4), column="value", budget=EXACT)


def test_names_of_folders_are_not_rewritten(tmp_path: Path) -> None:
    for name in ("01", "2"):
        (tmp_path / f"value={name}").mkdir()
        table = pyarrow.table({"other": [0]})
        parquet.write_table(table, tmp_path / f"value={name}" / "1.parquet")
    task = hc.Histogram(["01", "1", "2", "b"])
    with pytest.raises(hc.UnreadableData, match="without leading zeros, got value=01"):
        hc.estimate(tmp_path, task, column="value", budget=EXACT)
    (tmp_path / "value=2").rename(tmp_path / "value=b")  # now all names are text
    assert hc.estimate(tmp_path, task, column="value", budget=EXACT).value.tolist() == [1, 0, 0, 1]


def test_equal_numbers_may_be_different_answers() -> None:
    """The first person's 1.0 does not decide that others answered 1.0 instead of 1."""
    survey = hc.Survey([Choice("a", "?", ("1", "1.0", "2"))], EXACT, hc.Trust.CENTRAL, 5)
    found = [survey.run({"a": [first, *[1] * 20]}).estimates["a"].value for first in (1.0, 2)]
    assert np.array(found).round().tolist() == [[20, 1, 0], [20, 0, 1]]
