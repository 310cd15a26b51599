"""Text files as other programs write them, and damaged ones. One row is always one person."""

import csv
import io
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

import headcount as hc
from commands import Headcount
from headcount.data import files
from headcount.data.sources import rows_of

BUDGET = hc.Budget(500)


def read(place: Any, *columns: str) -> list[tuple[Any, ...]]:
    batches = rows_of(place).batches(columns, dict.fromkeys(columns, "text"))
    found = (
        zip(*(column.to_pylist() for column in batch.columns), strict=True) for batch, _ in batches
    )
    return [tuple(cell or "" for cell in row) for rows in found for row in rows]


def test_quoted_values_are_as_python_wrote_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values may contain line ends, wherever a block of the file ends."""
    draw, path = random.Random(5), tmp_path / "people.csv"
    parts = ["a", "b", " ", ",", '"', "\n", "\r\n", "\r", "wwwww", ""]
    for _ in range(300):
        rows = [
            tuple("".join(draw.choices(parts, k=draw.randint(0, 6))) for _ in range(2))
            for _ in range(draw.randint(1, 60))
        ]
        text = io.StringIO(newline="")
        end = draw.choice(["\n", "\r\n"])
        writer = csv.writer(text, lineterminator=end, quoting=csv.QUOTE_ALL)
        writer.writerows([("v", "w"), *rows])
        whole = text.getvalue()
        path.write_bytes((whole if draw.random() < 0.7 else whole.removesuffix(end)).encode())
        monkeypatch.setattr(files, "_BLOCK", draw.choice([100, 128, 200, 333, 1000]))
        assert read(path, "v", "w") == rows
        assert read(path, "w") == [row[1:] for row in rows]


def test_quoted_line_ends_in_a_large_file(tmp_path: Path) -> None:
    """The file is larger than a block. Rows would be cut in two at the end of the block."""
    path, said = tmp_path / "people.csv", '"she said:\n""1,yes\n0,no""\n1"'
    path.write_text("v,w\n" + f"1,{said}\n0,\n" * 160_000)
    assert path.stat().st_size > files._BLOCK
    found = hc.estimate(path, hc.Count(), column="v", budget=BUDGET)
    assert isinstance(found, hc.Estimate)
    assert (found.value, found.users) == (160_000, 320_000)


@pytest.mark.parametrize(
    "text", ['v,w\n1,"a\n0,b\n1,c\n', 'v,w\n1,a\n0,"b', 'v,w\n1,a\n1,"\n', 'v\n1\n"0\n1\n']
)
def test_a_quote_without_its_end_is_refused(tmp_path: Path, text: str) -> None:
    """An open quote would swallow all later rows."""
    path = tmp_path / "people.csv"
    path.write_text(text)
    with pytest.raises(hc.UnreadableData, match=r"people\.csv must be a readable \.csv file, got"):
        read(path, text[0])
    path.write_text(text.replace('"', ""))
    assert read(path, "v")


def test_columns_that_nobody_asked_for_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(b"v,w\n" + b"1,2\n" * 1_100_000 + b"1,\xff\n")
    assert len(read(path, "v")) == 1_100_001
    lines = tmp_path / "people.jsonl"
    lines.write_text('{"v": "1", "w": 2}\n' * 300_000 + '{"v": "1", "w": "x", "new": []}\n')
    assert len(read(lines, "v")) == 300_001


@pytest.mark.parametrize("text", ['{"v": %s1%s}', '{"v": 1, "w": %s1%s}'], ids=["asked", "other"])
@pytest.mark.parametrize("ends", ["[]", ('{"v":', "}")], ids=["lists", "objects"])
def test_deep_json_is_refused_in_a_line(tmp_path: Path, text: str, ends: Any) -> None:
    """The test runs in a separate process, since Arrow would crash it."""
    path = tmp_path / "deep.jsonl"
    path.write_text(text % (ends[0] * 100_000, ends[1] * 100_000) + "\n")
    command = [sys.executable, "-m", "headcount", "estimate", str(path), "--column", "v"]
    done = subprocess.run([*command, "--epsilon", "1"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "deep.jsonl must be a readable file of JSON lines, got: values that" in done.stderr


def test_brackets_in_strings_are_not_deep(tmp_path: Path) -> None:
    path = tmp_path / "people.jsonl"
    words = ["[" * 1000, '"' + "{" * 1000, "\\" + "[" * 1000 + '\\"', "]" * 1000]
    path.write_text("".join(json.dumps({"v": word}) + "\n" for word in words))
    assert read(path, "v") == [(word,) for word in words]


# Words ------------------------------------------------------------------------------------------


def counted(data: Any, labels: list[str], **settings: Any) -> list[float]:
    found = hc.estimate(data, hc.Histogram(labels), budget=BUDGET, **settings)
    assert isinstance(found, hc.Estimate)
    return list(found.value)


def test_a_nul_at_the_end_is_a_part_of_a_word() -> None:
    words = ["a", "a\0", "a\0\0", "a\0"]
    labels = ["a\0\0", "a\0", "a"]
    assert counted(words, labels) == [1, 2, 1]
    assert counted(pyarrow.array(words), labels) == [1, 2, 1]
    closed, opened = hc.Histogram(labels), hc.Histogram(labels, open=True)
    assert closed.encode(words).tolist() == [2, 1, 0, 1]
    assert opened.encode(words).tolist() == opened.keys[[2, 1, 0, 1]].tolist()
    assert len(set(opened.keys.tolist())) == 3
    found = hc.estimate(
        words * 2000, opened, budget=hc.Budget(5, 1e-4), protocol="shuffle.hashed-histogram",
        source=hc.SeededSource(2),
    )  # fmt: skip
    assert isinstance(found, hc.Estimate)
    assert np.allclose(found.value, [2000, 4000, 2000], atol=200)


def test_one_long_word_among_many(tmp_path: Path) -> None:
    """The long word takes its own memory, but does not make the others longer."""
    words = [*(f"w{i}" for i in range(100_000)), "x" * 10_000_000]
    task = hc.Histogram(["w1", "w2"], open=True)
    keys = task.encode(words)
    assert (len(keys), keys[1]) == (100_001, task.keys[0])
    parquet.write_table(pyarrow.table({"v": words}), tmp_path / "long.parquet")
    for data in (words, tmp_path / "long.parquet"):
        found = hc.estimate(
            data, task, column="value" if data is words else "v", budget=hc.Budget(1, 1e-4),
            protocol="shuffle.hashed-histogram",
        )  # fmt: skip
        assert isinstance(found, hc.Estimate)
        assert found.users == 100_001


# Refused in a line ------------------------------------------------------------------------------

OPEN = ["--buckets", "a,b", "--open", "--protocol", "shuffle.hashed-histogram", "--delta", "0.1"]
DIGITS = "9" * 5000


def no_text(folder: Path) -> None:
    raw = pyarrow.array([b"a", b"\xff\xfe"])
    text = pyarrow.StringArray.from_buffers(2, raw.buffers()[1], raw.buffers()[2])
    parquet.write_table(pyarrow.table({"v": [1, 0], "t": text}), folder / "no.parquet")
    (folder / "no.csv").write_bytes(b"v,t\n1,a\n0,\xff\n")
    (folder / "no.jsonl").write_bytes(b'{"v": 1, "t": "a"}\n{"v": 0, "t": "\xff"}\n')
    (folder / "digits.csv").write_text(f"v,t\n1,{DIGITS}\n{DIGITS},1\n")
    (folder / "digits.jsonl").write_text(f'{{"v": 1, "t": "a"}}\n{{"v": {DIGITS}, "t": "a"}}\n')
    (folder / "ok.csv").write_text("v,t\n1,a\n0,b\n")


@pytest.mark.parametrize("file", ["no.parquet", "no.csv", "no.jsonl"])
@pytest.mark.parametrize(
    "asked",
    [
        ["--column", "t", *OPEN],
        ["--column", "v", "--group", "t"],
        ["--column", "v", "--group", "t", "--groups", "a,b"],
        ["--column", "v", "--person", "t"],
        ["--column", "t", "--buckets", "a,b"],
    ],
    ids=["open", "group", "groups", "person", "buckets"],
)
def test_text_that_is_no_utf8(
    headcount: Headcount, tmp_path: Path, file: str, asked: list[str]
) -> None:
    no_text(tmp_path)
    done = headcount("estimate", file, *asked, "--epsilon", "1")
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert "UTF" in done.err or r"got b'\xff" in done.err


@pytest.mark.parametrize(
    "asked",
    [
        ["--query", "SELECT '\udcff' AS v"],
        ["--query", "SELECT t FROM 'no.csv'"],
        ["ok.csv", "--column", "\udcff"],
        ["ok.csv", "--column", "v", "--group", "\udcff"],
        ["ok.csv", "--column", "v", "--person", "\udcff"],
        ["\udcff.csv", "--column", "v"],
        ["ok.csv", "--column", "t", "--buckets", "a,\udcff"],
        ["digits.csv", "--column", "v"],
        ["digits.jsonl", "--column", "v"],
        ["ok.csv", "--column", "v", "--buckets", DIGITS],
        ["ok.csv", "--column", "v", "--buckets", f"1,{DIGITS}"],
        ["ok.csv", "--column", "v", "--bins", f"0,1,{DIGITS}"],
        ["ok.csv", "--column", "v", "--missing", DIGITS],
        ["ok.csv", "--column", "v", "--group", "t", "--groups", f"{DIGITS},1"],
    ],
    ids=lambda asked: " ".join(asked).replace(DIGITS, "9…").encode(errors="replace").decode(),
)
def test_odd_text_and_numbers_are_refused_in_a_line(
    headcount: Headcount, tmp_path: Path, asked: list[str]
) -> None:
    no_text(tmp_path)
    done = headcount("estimate", *asked, "--epsilon", "1")
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert len(done.err) < 400


HUGE = 10**5000
TABLE = {"v": [1, 0], "t": [1, 2]}


@pytest.mark.parametrize(
    "settings",
    [
        {"task": hc.Count(), "group": ["t", "t"]},
        {"task": hc.Count(), "person": ["t"]},
        {"task": hc.Count(), "group": np.array(["t", "v"])},
        {"task": hc.Count(), "column": ["v"]},
        {"task": hc.Count(), "column": 0},
        {"task": hc.Count(), "missing": HUGE},
        {"task": hc.Count(), "group": "t", "groups": [1, HUGE]},
        {"task": hc.Count(), "person": "t", "rows_per_person": HUGE},
        {"bins": [0, 1, HUGE]},
    ],
    ids=" ".join,
)
def test_settings_that_are_none_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(hc.InvalidParameter) as refused:
        hc.estimate(TABLE, **{"column": "v", "budget": BUDGET, **settings})
    assert len(str(refused.value)) < 300


def test_numbers_of_too_many_digits_are_no_task() -> None:
    for task in (
        lambda: hc.Histogram(HUGE),
        lambda: hc.Histogram([1, HUGE]),
        lambda: hc.Mean(0, HUGE),
        lambda: hc.Sum(0, HUGE, whole=True),
    ):
        with pytest.raises(hc.InvalidParameter):
            task()


def odd_frames() -> Iterator[tuple[Any, str]]:
    import polars

    lazy = polars.LazyFrame({"v": ["a"]})
    yield lazy.with_columns(polars.col("v").cast(polars.Int64)), "conversion from `str`"
    yield lazy.select("w"), "unable to find column"
    yield np.ma.array([1, 0, 1], mask=[False, True, False]), "everyone must have a value"


def test_odd_frames_are_refused_in_a_line() -> None:
    for data, says in odd_frames():
        with pytest.raises(hc.HeadcountError, match=says) as refused:
            hc.estimate(data, hc.Count(), budget=BUDGET)
        assert "\n" not in str(refused.value)


# Names ------------------------------------------------------------------------------------------


def test_an_empty_name_is_the_name_of_a_column(headcount: Headcount, tmp_path: Path) -> None:
    """Pandas names its index this way."""
    (tmp_path / "people.csv").write_text(",v\na,1\nb,0\na,1\n")
    asked = ["estimate", "people.csv", "--column", "v", "--epsilon", "500", "--json"]
    done = json.loads(headcount(*asked, "--group", "").out)
    assert done["grouped_by"] == ""
    assert [(one["group"], one["value"]) for one in done["groups"]] == [("a", 2), ("b", 0)]
    done = json.loads(headcount(*asked, "--person", "").out)
    assert (done["users"], done["value"]) == (2, 1)
    assert done["guarantee"]["neighbors"] == "replace all rows of one person"
    by_name = ["--column", "", "--buckets", "a,b", "--epsilon", "500", "--json"]
    assert json.loads(headcount("estimate", "people.csv", *by_name).out)["value"] == [2, 1]
    lost = headcount("estimate", "people.csv", "--column", "w", "--epsilon", "1")
    assert "must have a column 'w', got '', v" in lost.err


@pytest.mark.parametrize("many", [5, 12])
def test_a_refusal_says_that_there_are_more_groups(many: int) -> None:
    names = [f"g{i}" for i in range(many)]
    with pytest.raises(hc.InvalidValue) as refused:
        hc.estimate(
            {"v": [1], "g": ["other"]}, hc.Count(), column="v", group="g", groups=names,
            budget=BUDGET,
        )  # fmt: skip
    said = str(refused.value)
    assert said.startswith("every group must be one of 'g0', 'g1', ")
    assert said.endswith(f"{', …' * (many > 5)}, got 'other'")


def test_names_without_quotes_are_text_in_json_too(tmp_path: Path) -> None:
    """Names of persons and groups, and labels, are read as in CSV. Names with digits that a float
    would lose are refused.
    """
    folder = tmp_path / "people"
    folder.mkdir()
    for name, text in {"a.jsonl": "%d", "b.jsonl": '"%d"'}.items():
        rows = [f'{{"x": {i % 2}, "id": {text % (i // 2)}, "ok": true}}' for i in range(6)]
        (folder / name).write_text("\n".join(rows))
    assert read(folder, "id", "ok") == [(str(i // 2), "true") for i in [*range(6)] * 2]
    answer = hc.estimate(folder, hc.Count(), budget=BUDGET, column="x", person="id", group="ok")
    assert isinstance(answer, hc.GroupedEstimate)
    assert answer["true"].users == 3
    (large := tmp_path / "large.jsonl").write_text('{"x": 1, "id": 12345678901234567890}')
    with pytest.raises(hc.InvalidValue, match="column 'id' must hold text or whole numbers"):
        hc.estimate(large, hc.Count(), budget=BUDGET, column="x", person="id")
