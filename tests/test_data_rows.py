"""The same rows give the same answer from any source, and other objects are refused in one line."""

import datetime
import json
import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas
import polars
import pyarrow
import pytest
from pyarrow import csv, dataset, parquet

import headcount as hc

ROWS = 3000
BUDGET = hc.Budget(1, 1e-4)


def table() -> pyarrow.Table:
    random = np.random.default_rng(5)
    return pyarrow.table(
        {
            "smoker": random.integers(0, 2, ROWS),
            "age": random.integers(0, 90, ROWS),
            "weight": np.round(random.random(ROWS) * 100, 3),
            "color": random.choice(["red", "green", "blue"], ROWS),
            "city": random.choice(["Ulm", "Bonn"], ROWS),
        }
    )


class Capsule:
    """An object that has only Arrow's C stream interface."""

    def __init__(self, held: Any) -> None:
        self._held = held

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._held.__arrow_c_stream__(requested_schema)


def written(kind: str, folder: Path) -> Path:
    found, path = table(), folder / f"people.{kind}"
    if kind == "csv":
        csv.write_csv(found, path)
    elif kind == "parquet":
        parquet.write_table(found, path, row_group_size=700)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in found.to_pylist()))
    return path


def parts(folder: Path) -> Path:
    """A folder of several files, in the order of their names."""
    place = folder / "parts"
    place.mkdir()
    for at, start in enumerate(range(0, ROWS, 1000)):
        parquet.write_table(table().slice(start, 1000), place / f"{at}.parquet")
    (place / "_SUCCESS").write_text("")
    return place


SOURCES: dict[str, Callable[[Path], Any]] = {
    "pandas": lambda folder: table().to_pandas(),
    "pandas categories": lambda folder: table().to_pandas().astype({"color": "category"}),
    "polars": lambda folder: polars.DataFrame(table()),
    "polars categories": lambda folder: polars.DataFrame(table()).with_columns(
        polars.col("color").cast(polars.Categorical)
    ),
    "polars lazy": lambda folder: polars.DataFrame(table()).lazy(),
    "arrow": lambda folder: table(),
    "arrow in chunks": lambda folder: pyarrow.concat_tables([table()[:7], table()[7:]]),
    "arrow dictionaries": lambda folder: table().set_column(
        3, "color", table()["color"].dictionary_encode()
    ),
    "batch": lambda folder: table().combine_chunks().to_batches()[0],
    "reader": lambda folder: table().to_reader(max_chunksize=11),
    "capsule": lambda folder: Capsule(table()),
    "dataset": lambda folder: dataset.dataset(written("parquet", folder)),
    "numpy": lambda folder: {
        n: c.to_numpy() for n, c in zip(table().column_names, table(), strict=True)
    },
    "records": lambda folder: table().to_pandas().to_records(index=False),
    "list": lambda folder: table().to_pylist(),
    "generator": lambda folder: iter(table().to_pylist()),
    "csv": lambda folder: written("csv", folder),
    "parquet": lambda folder: str(written("parquet", folder)),
    "jsonl": lambda folder: written("jsonl", folder),
    "folder": parts,
    "pattern": lambda folder: str(parts(folder) / "*.parquet"),
    "relation": lambda folder: duckdb.connect().from_arrow(table()),
    "query": lambda folder: f"SELECT * FROM '{written('parquet', folder)}'",
}
# Protocols are named, since planning takes longer than answering.
QUESTIONS: dict[str, dict[str, Any]] = {
    "count": {"task": hc.Count(), "column": "smoker", "protocol": "local.randomized-response"},
    "words": {
        "task": hc.Histogram(["red", "green", "blue"]),
        "column": "color",
        "protocol": "central.geometric",
    },
    "oracle": {"task": hc.Histogram(90), "column": "age", "protocol": "local.hadamard"},
    "open": {
        "task": hc.Histogram(["red", "green"], open=True),
        "column": "color",
        "protocol": "shuffle.hashed-histogram",
    },
    "mean": {"task": hc.Mean(0, 100), "column": "weight", "protocol": "local.laplace-mean"},
    "sum": {
        "task": hc.Sum(0, 100, whole=True),
        "column": "age",
        "protocol": "shuffle.split-and-mix",
    },
    "density": {
        "task": hc.Density(0, 100),
        "column": "weight",
        "protocol": "local.density-series",
    },
    "bins": {"bins": [0, 18, 65, 90], "column": "age", "protocol": "local.k-ary"},
    "groups": {
        "task": hc.Mean(0, 100),
        "column": "weight",
        "protocol": "local.one-bit-mean",
        "group": "city",
    },
}


def answer(data: Any, question: dict[str, Any]) -> Any:
    found = hc.estimate(data, budget=BUDGET, source=hc.SeededSource(3), **question)
    if isinstance(found, hc.GroupedEstimate):
        return {group: one.value for group, one in found.items()}
    return found.value


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return {name: answer(table(), question) for name, question in QUESTIONS.items()}


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many pieces of a crowd, although it is small."""
    monkeypatch.setattr("headcount.core.randomizer.MOST_AT_ONCE", 256)


@pytest.mark.parametrize("kind", SOURCES)
def test_same_rows_give_the_same_answer(
    kind: str, tmp_path: Path, expected: dict[str, Any]
) -> None:
    data = SOURCES[kind](tmp_path)
    once = kind in ("reader", "capsule", "generator")
    for name, question in QUESTIONS.items():
        if once:
            again = tmp_path / name
            again.mkdir()
            data = SOURCES[kind](again)
        assert np.array_equal(np.array(answer(data, question)), np.array(expected[name])), name


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_batches_and_threads_change_nothing(
    question: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It also makes no difference whether rows are kept or read twice."""
    from headcount.data import frames, local

    found = []
    for size, kept, cores in ((2**17, 2**26, 1), (97, 2**26, 2), (1000, 0, 5), (2999, 100, 2)):
        monkeypatch.setattr(frames, "_BATCH", size)
        monkeypatch.setattr(local, "_KEPT", kept)
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        found.append(answer(table(), question))
    assert all(np.array_equal(np.array(found[0]), np.array(one)) for one in found[1:])


@pytest.mark.usefixtures("pieces")
def test_pieces_have_randomness_of_their_own() -> None:
    """If eight equal pieces had the same randomness, lies would come in groups of eight."""
    people = 256 * 8
    name, lie = "local.randomized-response", 1 / (1 + math.exp(1))
    left = set()
    for seed in range(12):
        found = hc.estimate(
            np.zeros(people, dtype=np.int64), hc.Count(), budget=hc.Budget(1), protocol=name,
            source=hc.SeededSource(seed),
        )  # fmt: skip
        assert isinstance(found, hc.Estimate)
        left.add(round(found.value * (1 - 2 * lie) + lie * people) % 8)
    assert len(left) > 1


@pytest.mark.parametrize(
    "values",
    [
        np.array([0, 1, 1, 0] * 50),
        np.array([0, 1, 1, 0] * 50, dtype=np.uint64),
        np.array([0, 1, 1, 0] * 50, dtype=np.float16),
        np.array([False, True, True, False] * 50),
        [0, 1, 1, 0] * 50,
        (bit for bit in [0, 1, 1, 0] * 50),
        [Decimal(0), Decimal(1), Decimal("1.0"), Decimal(0)] * 50,
        pyarrow.array([0, 1, 1, 0] * 50, type=pyarrow.decimal128(3, 1)),
        pandas.Series([0, 1, 1, 0] * 50),
        polars.Series([0, 1, 1, 0] * 50),
        pyarrow.chunked_array([[0, 1], [1, 0] + [0, 1, 1, 0] * 49]),
    ],
    ids=lambda values: f"{type(values).__module__}.{getattr(values, 'dtype', '')}",
)
def test_a_vector_needs_no_name(values: Any) -> None:
    found = hc.estimate(values, hc.Count(), budget=hc.Budget(30), source=hc.SeededSource(1))
    assert isinstance(found, hc.Estimate)
    assert (found.value, found.users) == (100.0, 200)


def test_hive_folders_are_columns(tmp_path: Path) -> None:
    parquet.write_to_dataset(table(), tmp_path / "by", partition_cols=["city"])
    whole = table().to_pandas()
    found = hc.estimate(
        tmp_path / "by", hc.Count(), column="smoker", budget=hc.Budget(30), group="city"
    )
    assert isinstance(found, hc.GroupedEstimate)
    for city, one in found.items():
        assert one.value == whole[whole.city == city].smoker.sum()


LONG = 2**70
BAD: dict[str, tuple[Any, str]] = {
    "nothing": (None, "data must be a data frame"),
    "number": (5, "data must be a data frame"),
    "bytes": (b"01", "data must be a data frame"),
    "matrix": (np.zeros((2, 2)), "arrays must be one-dimensional"),
    "lengths": ({"a": [1, 2], "b": [1]}, "arrays must be one-dimensional and equally long"),
    "mixed": ([1, "one", 0], "the data must be readable, got"),
    "mixed frame": (pandas.DataFrame({"a": [1, "one"]}), "the data must be readable, got"),
    "huge": ([1, LONG], "the data must be readable, got"),
    "empty list": ([], "must have at least one row"),
    "empty frame": (pandas.DataFrame({"a": []}), "must have at least one row"),
    "no columns": (pandas.DataFrame(), "`column` must name one of the columns"),
    "two columns": (
        {"a": [1], "b": [0]},
        "`column` must name one of the columns of the data (a, b), got none",
    ),
    "dates": ([datetime.date(2020, 1, 1)], "must hold numbers, true/false or text, got timestamp"),
    "times": (
        np.array(["2020-01-01"], dtype="datetime64[s]"),
        "must hold numbers, true/false or text, got timestamp",
    ),
    "nested": ([[1], [0]], "must hold numbers, true/false or text, got list"),
    "bytes each": ([b"1"], "must hold numbers, true/false or text, got binary"),
    "complex": (np.array([1j]), "the data must be readable, got"),
}


@pytest.mark.parametrize(("data", "says"), BAD.values(), ids=BAD)
def test_what_is_no_table_is_refused_in_a_line(data: Any, says: str) -> None:
    with pytest.raises(hc.HeadcountError) as refused:
        hc.estimate(data, hc.Count(), budget=hc.Budget(1))
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_queries_that_are_none() -> None:
    for query, says in (
        ("SELECT 1 AS", "the query must be readable, got"),
        ("CREATE TABLE t (a INT)", "`query` must be a single SELECT statement"),
        ("", "`query` must be a single SELECT statement"),
        ("SELECT * FROM 'absent.parquet'", "the query must be readable, got"),
        ("SELECT CAST(x AS INT) AS v FROM (VALUES ('1'), ('b')) t(x)", "must be readable, got"),
    ):
        with pytest.raises(hc.HeadcountError, match=says):
            hc.estimate(query=query, task=hc.Count(), budget=hc.Budget(1))
    with pytest.raises(hc.InvalidParameter, match="without other data"):
        hc.estimate([1], hc.Count(), query="SELECT 1", budget=hc.Budget(1))


def test_data_that_change_between_two_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The crowd consists of the people who were counted. People who come later are not asked."""

    class Growing(list[float]):
        def __iter__(self) -> Iterator[float]:
            self.append(0.5)
            return super().__iter__()

    from headcount.data import local

    monkeypatch.setattr(local, "_KEPT", 0)
    task, growing = hc.Mean(0, 1), Growing([0.5] * 100)
    with pytest.raises(hc.UnreadableData, match="must have the same rows when read again"):
        hc.estimate(growing, task, budget=hc.Budget(1), protocol="local.one-bit-mean")
