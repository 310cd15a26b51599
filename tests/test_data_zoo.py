"""Small tables as people really have them. Each has its answer, or its refusal in one line.

A budget of 40 leaves no noise: an answer differs from the truth with probability below 1e-15.
"""

import bz2
import gzip
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, ipc

import headcount as hc

COUNT = hc.Count()
MEAN = hc.Mean(0, 10)
SEX = hc.Histogram(["F", "M"])
NUMBERS = None  # a histogram of numbers below and above 4


@dataclass
class Animal:
    """A file (its name and content) or other data, a question, and the answer or refusal."""

    name: str
    data: Any
    task: hc.Task | None
    expected: float | list[float] | str
    settings: dict[str, Any] = field(default_factory=dict)

    def put(self, folder: Path) -> Any:
        """The data, after they were written if they are a file."""
        if not isinstance(self.data, bytes):
            return self.data() if callable(self.data) else self.data
        path = folder / self.name
        path.write_bytes(self.data)
        return path


def file(
    name: str,
    content: str | bytes,
    task: hc.Task | None,
    expected: float | list[float] | str,
    **settings: Any,
) -> Animal:
    data = content if isinstance(content, bytes) else content.encode()
    return Animal(name, data, task, expected, {"column": "v", **settings})


def frame(
    name: str,
    data: Any,
    task: hc.Task | None,
    expected: float | list[float] | str,
    **settings: Any,
) -> Animal:
    return Animal(name, data, task, expected, {"column": "v", **settings})


def stored(write: Callable[[Any, io.BytesIO], None], data: Any) -> bytes:
    out = io.BytesIO()
    write(data, out)
    return out.getvalue()


def book(sheets: dict[str, list[list[Any]]]) -> bytes:
    """A workbook with these sheets."""
    made = openpyxl.Workbook()
    made.remove(made.active)
    for title, rows in sheets.items():
        sheet = made.create_sheet(title)
        for row in rows:
            sheet.append(row)
    return stored(lambda one, out: one.save(out), made)


def arrow_stream(table: pa.Table, out: io.BytesIO) -> None:
    with ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)


ANSWERS = [
    file("yes-no.csv", "v,w\nYes,1\nNo,2\nyes,3\nYES,4\n", COUNT, 3, yes="Yes"),
    file("yes-no-spaces.csv", "v,w\n Yes ,1\nNo,2\n", COUNT, 1, yes="yes"),
    file("count-the-no.csv", "v,w\nYes,1\nNo,2\nNo,3\n", COUNT, 2, yes="No"),
    file("y-n.csv", "v\nY\nN\ny\n", COUNT, 2, yes="Y"),
    file("true-false.csv", "v\nTRUE\nfalse\nTrue\n", COUNT, 2),
    file("true-false-said.csv", "v\nTRUE\nfalse\nTrue\n", COUNT, 2, yes="true"),
    file("one-zero-said.csv", "v\n1\n0\n1\n", COUNT, 2, yes="1"),
    file("coded.csv", "v\n1\n2\n2\n9\n", COUNT, 2, yes="2", no="1", na="9", missing="drop"),
    file("own-words.csv", "v\nnever\ndaily\nformer\n", COUNT, 1, yes="daily",
         no=["never", "former"]),
    file("filled.csv", "v,w\nYes,1\n,2\n", COUNT, 2, yes="Yes", missing="Yes"),
    frame("yes-frame", pd.DataFrame({"v": ["Yes", "no", "YES"]}), COUNT, 2, yes="Yes"),
    frame("yes-categories", pd.DataFrame({"v": pd.Categorical(["Yes", "No", "Yes"])}), COUNT, 2,
          yes="Yes"),
    frame("yes-polars", pl.DataFrame({"v": ["Y", "N", None]}), COUNT, 1, yes="y", missing="drop"),
    frame("yes-booleans", pl.DataFrame({"v": [True, False, True]}), COUNT, 2, yes="Yes"),
    frame("no-booleans", pl.DataFrame({"v": [True, False, True]}), COUNT, 1, yes="No"),
    frame("floats-of-pandas", pd.DataFrame({"v": [1.0, 0.0, None]}), COUNT, 1, yes="1",
          missing="drop"),
    file("semicolon.csv", "v;w\n1;a\n0;b\n1;c\n", COUNT, 2),
    file("semicolon-commas.csv", "v;w\n1;a,b\n0;b\n1;c\n", COUNT, 2),
    file("tab.csv", "v\tw\n1\ta\n0\tb\n", COUNT, 1),
    file("tab.tsv", "v\tw\n1\ta, b\n0\tb, c\n", COUNT, 1),
    file("one-column.tsv", "v\n1\n0\n1\n", COUNT, 2),
    file("pipe.csv", "v|w\n1|a\n0|b\n", COUNT, 1),
    file("said.csv", "v,w;x\n1,a;b\n0,c;d\n", COUNT, 1, separator=","),
    file("said-by-name.csv", "v;w,x\n1;a,b\n0;c,d\n", COUNT, 1, separator="semicolon"),
    file("sep-line.csv", "sep=;\nv;w\n1;a\n0;b\n", COUNT, 1),
    file("decimal-comma.csv", "v;w\n2,5;a\n7,5;b\n", NUMBERS, [1, 1], decimal=","),
    file("decimal-comma-quoted.csv", 'v,w\n"2,5",a\n"7,5",b\n', NUMBERS, [1, 1], decimal=","),
    frame("decimal-comma-frame", {"v": np.array(["2,5", "7,5"])}, NUMBERS, [1, 1], decimal=","),
    file("quoted.csv", 'v,w\n"F","a, b"\n"M","say ""hi"""\n', SEX, [1, 1]),
    file("quoted-lines.csv", 'v,w\nF,"two\nlines"\nM,x\n', SEX, [1, 1]),
    file("single-quotes.csv", "v,w\n'F','a, b'\n'M','c'\n", SEX, [1, 1], quote="'"),
    file("windows-lines.csv", "v,w\r\nF,1\r\nM,2\r\nF,3\r\n", SEX, [2, 1]),
    file("old-mac-lines.csv", "v,w\rF,1\rM,2\r", SEX, [1, 1]),
    file("marked.csv", "\ufeffv,w\nF,1\nM,2\n", SEX, [1, 1]),
    file("marked-semicolon.csv", "\ufeffv;w\nF;1\nM;2\n", SEX, [1, 1]),
    file("utf16.csv", "v\tw\nF\t1\nM\t2\n".encode("utf-16"), SEX, [1, 1]),
    file("latin.csv", "v;w\nKöln;1\nMünster;2\n".encode("latin-1"),
         hc.Histogram(["Köln", "Münster"]), [1, 1], encoding="latin-1"),
    file("latin-header.csv", "Größe;v\n1;F\n2;M\n".encode("cp1252"), SEX, [1, 1],
         encoding="cp1252"),
    file("packed.csv.gz", gzip.compress(b"v;w\nF;1\nM;2\n"), SEX, [1, 1]),
    file("packed.csv.bz2", bz2.compress("v;w\nK\xf6ln;1\n".encode("latin-1")),
         hc.Histogram(["Köln", "Bonn"]), [1, 0], encoding="latin-1"),
    file("packed.tsv.zst", pa.compress(b"v\tw\nF\t1\nM\t2\n", "zstd", asbytes=True), SEX, [1, 1]),
    file("na.csv", "v,w\n1,a\nNA,b\n-,c\n,d\n1,e\n", COUNT, 2, na=["NA", "-"], missing="drop"),
    file("na-label.csv", "v\nF\nNA\nM\n", SEX, [1, 1], na="NA", missing="drop"),
    file("na-code.csv", "v\n3\n99\n5\n", NUMBERS, [1, 1], na="99", missing="drop"),
    frame("na-frame", pd.DataFrame({"v": ["1", "NA", "0"]}), COUNT, 1, na="NA", missing="drop"),
    frame("na-code-frame", {"v": np.array([3.0, 99.0, 5.0])}, NUMBERS, [1, 1], na="99",
          missing="drop"),
    frame("empty-text-frame", pl.DataFrame({"v": ["F", "", "M"]}), SEX, [1, 1], na="",
          missing="drop"),
    file("zeros.csv", "v\n01\n02\n01\n", hc.Histogram(["01", "02"]), [2, 1]),
    file("zip-codes.csv", "v,w\n00501,1\n10001,2\n", hc.Histogram(["00501", "10001"]), [1, 1]),
    file("numbers-as-labels.csv", "v\n1\n2\n1\n", hc.Histogram(["1", "2"]), [2, 1]),
    file("one-column.csv", "v\nF\nM\n", SEX, [1, 1]),
    file("no-last-line-end.csv", "v\nF\nM", SEX, [1, 1]),
    file("people.xlsx", book({"people": [["v", "w"], ["Yes", 1], ["No", 2], ["Yes", 3]]}), COUNT,
         2, yes="Yes"),
    file("numbers.xlsx", book({"a": [["w", "v"], ["x", 2.5], ["y", 7.5]]}), NUMBERS, [1, 1]),
    file("whole.xlsx", book({"a": [["v"], [1], [0], [1]]}), COUNT, 2),
    file("booleans.xlsx", book({"a": [["v"], [True], [False]]}), COUNT, 1),
    file("empty-end.xlsx", book({"a": [["v"], [1], [0], [None], [""]]}), COUNT, 1),
    file("hole.xlsx", book({"a": [["v", "w"], [1, "x"], [None, "y"], [1, "z"]]}), COUNT, 2,
         missing="drop"),
    file("na.xlsx", book({"a": [["v"], [3], ["n/a"], [5]]}), NUMBERS, [1, 1], na="n/a",
         missing="drop"),
    file("labels.xlsx", book({"a": [["v"], ["007"], [8]]}), hc.Histogram(["007", "8"]), [1, 1]),
    file("sheets.xlsx", book({"notes": [["hello"]], "data": [["v"], [1], [0]]}), COUNT, 1,
         sheet="data"),
    file("people.feather", stored(feather.write_feather, pa.table({"v": ["F", "M", "F"]})), SEX,
         [2, 1]),
    file("people.arrow", stored(arrow_stream, pa.table({"v": [1, 0, 1]})), COUNT, 2),
    file("lines.jsonl", '{"v": "Yes"}\n{"v": "no"}\n', COUNT, 1, yes="yes"),
    frame("decimals", pa.table({"v": pa.array([Decimal("2.5"), Decimal("7.5")])}), NUMBERS, [1, 1]),
    frame("nullable", pd.DataFrame({"v": pd.array([1, None, 1], dtype="Int64")}), COUNT, 2,
          missing="drop"),
    frame("enum", pl.DataFrame({"v": pl.Series(["F", "M"], dtype=pl.Enum(["F", "M"]))}), SEX,
          [1, 1]),
    frame("dictionaries", [{"v": "F"}, {"v": "M"}, {"v": "F"}], SEX, [2, 1]),
]  # fmt: skip

REFUSALS = [
    file("yes.csv", "v\nYes\nNo\n", COUNT, r"got text like 'Yes' \(yes='Yes' \(--yes Yes\) counts"),
    frame("yes.frame", pd.DataFrame({"v": ["Y", "N"]}), COUNT, r"yes='Y' \(--yes Y\) counts"),
    file("maybe.csv", "v\nYes\nmaybe\n", COUNT, r"yes for yes, or no for no, got 'maybe' from",
         yes="Yes"),
    file("own.csv", "v\ndaily\nnever\n", COUNT, r"yes='daily' and no=…"),
    file("alone.csv", "v\ndaily\nnever\n", COUNT, r"`no` must say which answers mean no",
         yes="daily"),
    file("both.csv", "v\nYes\n", COUNT, r"`yes` and `no` must differ", yes="Yes", no="yes"),
    file("mean.csv", "v\nYes\n", MEAN, r"`yes` must come with a count, got a mean", yes="Yes"),
    file("na.csv", "v\n3\nNA\n", MEAN, r"got text like 'NA' \(na='NA' \(--na NA\) reads"),
    file("late-na.csv", "v,w\n" + "3,x\n" * 1_200_000 + "NA,x\n", MEAN,
         r"late-na.csv must be a readable .csv file, got: .*'NA' \(na='NA' \(--na NA\) reads"),
    file("comma.csv", "v;w\n2,5;a\n", MEAN, r"'2,5' \(decimal=',' \(--decimal ,\) reads"),
    file("unclear.csv", "v,w;x\n1,a;b\n0,c;d\n", COUNT,
         r"unclear.csv must have a clear separator, got lines that comma and semicolon both"),
    file("wrong.csv", "v;w\n1;a\n", COUNT, r"wrong.csv must have a column 'v', got v;w",
         separator=","),
    file("strange.csv", "v\n1\n", COUNT, r"`separator` must be one of", separator="#"),
    file("ragged.csv", "v,w\n1,a\n0\n", COUNT,
         r"ragged.csv must have 2 values in each row, as in its first row, got 1 in another row$"),
    file("open-quote.csv", 'v,w\n1,"a\n0,b\n', COUNT, r"without a closing quote"),
    file("latin.csv", "v;w\nK\xf6ln;1\n".encode("latin-1"), hc.Histogram(["Köln", "Bonn"]),
         r"latin.csv must be a readable .csv file, got text that is not UTF-8 \(encoding="),
    file("latin-header.csv", "Gr\xf6\xdfe;v\n1;F\n".encode("latin-1"), SEX,
         r"not UTF-8 \(encoding="),
    file("ascii.csv", "v\nK\xf6ln\n", hc.Histogram(["Köln", "Bonn"]), r"text that is not ASCII",
         encoding="ascii"),
    file("no-code.csv", "v\n1\n", COUNT, r"`encoding` must be an encoding of text",
         encoding="klingon"),
    file("empty.csv", "", COUNT, r"empty.csv must be a readable .csv file"),
    file("header.csv", "v,w\n", COUNT, r"must have at least one row with a value"),
    file("missing.csv", "v,w\n1,a\n,b\n", COUNT,
         r"everyone must have a value, got none for person 2"),
    file("damaged.csv.gz", gzip.compress(b"v\n1\n" * 99)[:-9], COUNT,
         r"damaged.csv.gz must be a readable"),
    file("not.xlsx", "v\n1\n", COUNT, r"not.xlsx must be a readable .xlsx file"),
    file("sheets.xlsx", book({"a": [["v"], [1]], "b": [["v"], [0]]}), COUNT,
         r"sheets.xlsx has several sheets \(a, b\), so `sheet` \(--sheet\) must name one"),
    file("sheet.xlsx", book({"a": [["v"], [1]]}), COUNT, r"got 'b' \(the sheets are a\)",
         sheet="b"),
    file("mixed.xlsx", book({"a": [["v"], [1], ["x"]]}), COUNT, r"must hold numbers.*'x'"),
    file("dates.xlsx", book({"a": [["v"], [date(2024, 1, 1)]]}), COUNT, r"got timestamp"),
    file("not.feather", "v\n1\n", COUNT, r"not.feather must be a readable Arrow file"),
    file("sheet.csv", "v\n1\n", COUNT, r"`sheet` must come with an .xlsx file", sheet="a"),
    file("data.parquet", "not Parquet", COUNT, r"data.parquet must be a readable .parquet file"),
    frame("separator", pd.DataFrame({"v": [1]}), COUNT, r"`separator` must come with files",
          separator=";"),
    frame("dates", pl.DataFrame({"v": [datetime(2024, 1, 1)]}), COUNT, r"must hold numbers"),
    frame("object", pd.DataFrame({"v": [1, "x"]}, dtype=object), COUNT,
          r"the data must be readable"),
    frame("nothing", pd.DataFrame({"v": [None, None]}), COUNT, r"everyone must have a value"),
]  # fmt: skip


def test_the_zoo_is_large() -> None:
    assert len(ANSWERS) + len(REFUSALS) >= 100


def names(animal: Animal) -> str:
    return animal.name


def ask(animal: Animal, folder: Path) -> Any:
    found = hc.estimate(
        animal.put(folder),
        animal.task,
        budget=hc.Budget(40),
        bins=[0, 4, 10] if animal.task is NUMBERS else None,
        source=hc.SeededSource(7),
        **animal.settings,
    )
    assert isinstance(found, hc.Estimate)
    return found.value


@pytest.mark.parametrize("animal", ANSWERS, ids=names)
def test_a_real_table_has_its_answer(animal: Animal, tmp_path: Path) -> None:
    assert np.array_equal(ask(animal, tmp_path), animal.expected)


@pytest.mark.parametrize("animal", REFUSALS, ids=names)
def test_a_damaged_table_is_refused_in_one_line(animal: Animal, tmp_path: Path) -> None:
    with pytest.raises(hc.HeadcountError, match=str(animal.expected)) as refusal:
        ask(animal, tmp_path)
    assert "\n" not in str(refusal.value)


# DuckDB reads these files only with settings of its own.
# Files that some version of DuckDB does not read as Headcount does, and the settings that help.
HARD_FOR_DUCKDB = {
    "utf16.csv": "encoding='utf-16'",
    "sep-line.csv": "skip=1",
    "zeros.csv": "all_varchar=true",
    "zip-codes.csv": "all_varchar=true",
    "old-mac-lines.csv": r"new_line='\r'",
}
QUERIED = [
    one
    for one in ANSWERS
    if one.name.endswith(".csv")
    and one.name not in HARD_FOR_DUCKDB
    and one.settings.keys() <= {"column", "yes", "no", "na", "missing"}
]


@pytest.mark.parametrize(
    "animal", [one for one in ANSWERS if one.name in HARD_FOR_DUCKDB], ids=names
)
def test_a_query_with_settings_reads_the_other_files(animal: Animal, tmp_path: Path) -> None:
    settings = HARD_FOR_DUCKDB[animal.name]
    data = f"SELECT v FROM read_csv('{animal.put(tmp_path)}', {settings})"
    query = Animal(animal.name, data, animal.task, animal.expected, animal.settings)
    assert np.array_equal(ask(query, tmp_path), animal.expected)
    page = (Path(__file__).parents[1] / "docs/data.md").read_text(encoding="utf-8")
    assert settings in page


@pytest.mark.parametrize("animal", QUERIED, ids=names)
def test_a_query_reads_a_file_like_the_file_itself(animal: Animal, tmp_path: Path) -> None:
    path = animal.put(tmp_path)
    data = f"SELECT v FROM '{path}'"
    query = Animal(animal.name, data, animal.task, animal.expected, animal.settings)
    assert np.array_equal(ask(query, tmp_path), animal.expected)
