"""Spark's frames: the same answers and laws as elsewhere, and no raw values for the driver."""

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyspark import SparkContext, TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame
from scipy import stats

import headcount as hc
from headcount.core.source import Source
from headcount.data.cleaning import cleaning
from headcount.data.engine import Crowds, Engine
from headcount.data.local import LocalEngine
from headcount.data.question import Question
from headcount.data.reading import Reading
from headcount.data.sources import rows_of
from headcount.data.spark import SparkEngine, randomized, tallied
from headcount.data.spark.columns import payload_of
from headcount.data.spark.frames import mapped
from headcount.protocols.dummies import DummyShuffler
from headcount.road.pieces import collect

PARTITIONS = 3  # of a frame
slow = pytest.mark.slow
ALARM = 1e-7  # of one comparison; there are fewer than ten in a test


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One real Spark session for this file. It runs two tasks at a time, and each may fail once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        # Executors must be able to import what these tests import.
        patch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
        session = (
            SparkSession.builder.master("local[2,2]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.memory", "512m")
            .config("spark.default.parallelism", str(PARTITIONS))
            .config("spark.sql.shuffle.partitions", str(PARTITIONS))
            # Quick to start, since these tests are short.
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
            .config("spark.sql.codegen.wholeStage", "false")
            .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        session.sparkContext.setCheckpointDir(str(tmp_path_factory.mktemp("messages")))
        yield session
        session.stop()


def frame_of(spark: SparkSession, table: dict[str, Any], partitions: int = PARTITIONS) -> DataFrame:
    """A frame with the rows in their order, divided into equal partitions."""
    made: DataFrame = spark.createDataFrame(pyarrow.table(table))
    return made.coalesce(1) if partitions == 1 else made


def silent(share: float) -> None:
    """A function that shows no progress."""


def asked(engine: Engine, data: Any, question: Question, source: Source | None = None) -> Crowds:
    rows = rows_of(data) if isinstance(engine, LocalEngine) else data
    return engine.census(rows, question, source or hc.SeededSource(1), silent)


# Central trust: the same numbers -----------------------------------------------------------------

PEOPLE: dict[str, Any] = {
    "smoker": [i % 4 == 0 for i in range(3000)],
    "color": [["red", "green", "green", "blue"][i % 4] for i in range(3000)],
    "age": [float(i % 97) if i % 50 else None for i in range(3000)],
    "steps": [i * 7919 % 1000 for i in range(3000)],
    "city": [["York", "Ely", "Bath"][i % 3] for i in range(3000)],
    "person": [f"p{i % 1100}" for i in range(3000)],
}
CITY = ("city",)
CENTRAL = {
    "count": Question(cleaning("smoker", hc.Count())),
    "labels, groups": Question(
        cleaning("color", hc.Histogram(["blue", "green", "red"])), group_columns=CITY
    ),
    "bins, other": Question(
        cleaning("age", None, missing="drop", outside="other", bins=[0, 18, 65, 90])
    ),
    "filled, declared groups": Question(
        cleaning("age", hc.Histogram(98), missing=97), None, 1, CITY, ("Bath", "Ely", "York")
    ),
    "sum": Question(cleaning("steps", hc.Sum(0, 999, whole=True))),
    "mean, groups": Question(cleaning("steps", hc.Mean(0, 999, whole=True)), None, 1, CITY),
}


QUICK = ("labels, groups", "sum")


@pytest.mark.parametrize(
    "question",
    [pytest.param(CENTRAL[n], id=n, marks=[] if n in QUICK else [slow]) for n in CENTRAL],
)
def test_central_tallies_are_those_of_the_local_engine(
    spark: SparkSession, question: Question
) -> None:
    here, there = (
        asked(engine, data, question)
        for engine, data in (
            (LocalEngine(), pyarrow.table(PEOPLE)),
            (SparkEngine(), frame_of(spark, PEOPLE)),
        )
    )
    assert list(here.censuses) == list(there.censuses)
    for group, census in here.censuses.items():
        assert there.censuses[group].users == census.users
        assert np.array_equal(there.censuses[group].counts, census.counts)  # type: ignore[arg-type]
    if all(census.counts is not None for census in here.censuses.values()):
        return
    protocols = {
        group: hc.protocol("central.geometric", question.task, hc.Budget(1), hc.Crowd(census.users))
        for group, census in here.censuses.items()
    }
    tallies = [crowds.tallies(protocols, hc.SeededSource(2), silent) for crowds in (here, there)]
    assert tallies[0].keys() == tallies[1].keys()
    for group, tally in tallies[0].items():
        other = tallies[1][group]
        assert (tally.users, tally.protocol) == (other.users, other.protocol)
        assert np.array_equal(tally.counts, other.counts)


def test_estimate_chooses_the_engine_by_the_frame(spark: SparkSession) -> None:
    frame = frame_of(spark, PEOPLE)
    found = hc.estimate(
        frame, hc.Count(), column="smoker", budget=hc.Budget(50), source=hc.SeededSource(3)
    )
    assert isinstance(found, hc.Estimate)
    assert (found.users, round(float(found.value))) == (3000, 750)
    grouped = hc.estimate(
        frame, hc.Count(), column="smoker", budget=hc.Budget(2, 1e-6), trust="shuffle", group="city"
    )
    assert isinstance(grouped, hc.GroupedEstimate)
    assert {group: one.users for group, one in grouped.items()} == dict.fromkeys(
        ["Bath", "Ely", "York"], 1000
    )
    assert all(250 in one.interval(1 - ALARM) for one in grouped.values())


# Shuffle and local trust: the same law -----------------------------------------------------------

RUNS = 40  # groups for each protocol, each a crowd of its own
LAWS: dict[str, tuple[hc.Task, list[Any], list[str]]] = {
    "count": (
        hc.Count(),
        [0, 0, 1],
        ["local.randomized-response", "shuffle.zero-exact", "shuffle.correlated"],
    ),
    "histogram": (
        hc.Histogram(5),
        [0, 1, 1, 2],
        ["local.unary-optimized", "local.hashing", "local.subset", "shuffle.fake-users"],
    ),
    "mean": (
        hc.Mean(0, 10),
        [0.25, 2.0, 9.5],
        ["local.piecewise-mean", "shuffle.split-and-mix", "shuffle.fixed-point-sum"],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("task", ["count", "histogram", pytest.param("mean", marks=slow)])
def test_tallies_of_messages_have_the_law_of_simulations(spark: SparkSession, task: str) -> None:
    """There are many crowds, one per group. Their estimates spread like those of simulations."""
    asked_for, held, names = LAWS[task]
    users = 60
    values = [held[i % len(held)] for i in range(users)]
    groups = [(name, run) for name in names for run in range(RUNS)]
    table = {
        "value": values * len(groups),
        "group": np.repeat([f"{name} {run}" for name, run in groups], users),
    }
    question = Question(cleaning("value", asked_for), group_columns=("group",), values_stay=True)
    crowds = asked(SparkEngine(), frame_of(spark, table), question)
    assert all(census.counts is None for census in crowds.censuses.values())
    protocols = {
        name: hc.protocol(name, asked_for, hc.Budget(1, 1e-2), hc.Crowd(users)) for name in names
    }
    tallies = crowds.tallies(
        {f"{name} {run}": protocols[name] for name, run in groups}, hc.SecureSource(), silent
    )
    counts: Any = Counter(values)
    if not isinstance(asked_for, hc.Mean):
        counts = [counts[value] for value in range(asked_for.domain)]
    for name, protocol in protocols.items():
        sent = [protocol.estimate(tallies[f"{name} {run}"]) for run in range(RUNS)]
        source = hc.SeededSource(5)
        drawn = [protocol.estimate(protocol.simulate(counts, source)) for _ in range(1000)]
        one, other = (
            [float(np.atleast_1d(e.unbiased_value)[0]) for e in found] for found in (sent, drawn)
        )
        assert stats.ks_2samp(one, other).pvalue > ALARM, name
        # By Chernoff's bound, the mean square of true errors is this small less often than ALARM.
        truth = float(np.atleast_1d(protocol.estimator.truth(protocol.task.holding(counts)))[0])
        spreads = [np.mean(np.square(np.subtract(found, truth))) for found in (one, other)]
        assert spreads[0] > spreads[1] / 20, name


@pytest.mark.slow
def test_partitions_and_pieces_never_share_their_noise(spark: SparkSession) -> None:
    """Partitions with the same values send different messages. Only the same seed repeats them."""
    protocol = hc.protocol("local.randomized-response", hc.Count(), hc.Budget(1), hc.Crowd(1200))
    frame = frame_of(spark, {"value": [0] * 1200})

    def parts(source: Source | None) -> list[tuple[int, ...]]:
        sent = randomized(frame, protocol, "value", source=source)
        listed = [row[0] for row in sent.collect()]
        return [tuple(listed[at : at + 400]) for at in (0, 400, 800)]

    first, again, other = (parts(hc.SeededSource(seed)) for seed in (6, 6, 7))
    assert first == again
    every = [*first, *other, *parts(None), *parts(None)]
    assert len(set(every)) == len(every)


def test_every_piece_of_a_group_of_a_partition_has_its_part_of_a_seed(spark: SparkSession) -> None:
    rows, source = 300_000, hc.SeededSource(11)
    frame = spark.range(0, 2 * rows, 1, 2).selectExpr("id DIV 3 % 2 AS value", "id % 2 AS team")
    question = Question(cleaning("value", hc.Count()), group_columns=("team",), values_stay=True)
    crowds = asked(SparkEngine(), frame, question)
    assert {group: census.users for group, census in crowds.censuses.items()} == {0: rows, 1: rows}
    protocol = some("local.randomized-response", hc.Count())
    tallies = crowds.tallies({0: protocol, 1: protocol}, source, silent)
    for team in (0, 1):
        expected = np.zeros(protocol.estimator.tally_size, dtype=np.int64)
        for partition in (0, 1):
            ids = np.arange(partition * rows + team, (partition + 1) * rows, 2)
            values = (ids // 3 % 2).astype(np.uint8)
            size = protocol.randomizer.people_at_once
            for number, start in enumerate(range(0, len(values), size)):
                part = source.part(partition).part(team).part(number)
                expected += collect(protocol, values[start : start + size], part).counts
        assert np.array_equal(tallies[team].counts, expected)


@slow
def test_the_page_says_what_can_be_done(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = Path(__file__).parents[1] / "docs" / "spark.md"
    people = frame_of(
        spark,
        {
            "smoker": [i % 4 == 0 for i in range(2000)],
            "age": [i % 97 for i in range(2000)],
            "city": ["York", "Ely"] * 1000,
            "color": [i % 4 for i in range(2000)],
        },
    )
    before = spark.sparkContext.getCheckpointDir()
    assert before is not None
    names = {"people": people, "spark": spark, "folder": str(tmp_path)}
    for block in re.findall(r"```py\n(.*?)```", page.read_text(), flags=re.DOTALL):
        exec(compile(block, page.name, "exec"), names)
    spark.sparkContext.setCheckpointDir(before)
    assert "2,000 people" in capsys.readouterr().out


# What comes home ---------------------------------------------------------------------------------


def never(*_: Any, **__: Any) -> None:
    raise AssertionError("the driver sees rows or draws noise")


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> list[pyarrow.Table]:
    """Everything that the driver receives."""
    seen: list[pyarrow.Table] = []
    to_arrow = ClassicFrame.toArrow

    def spied(frame: ClassicFrame) -> pyarrow.Table:
        seen.append(to_arrow(frame))
        return seen[-1]

    monkeypatch.setattr(ClassicFrame, "toArrow", spied)
    for name in ("collect", "toPandas", "toLocalIterator", "take", "head", "tail"):
        monkeypatch.setattr(ClassicFrame, name, never)
    return seen


@pytest.mark.parametrize("trust", ["shuffle", pytest.param("local", marks=slow)])
def test_only_people_and_the_whole_tally_come_home(
    spark: SparkSession, home: list[pyarrow.Table], trust: str
) -> None:
    task = hc.Histogram(["blue", "green", "red"])
    hc.estimate(
        frame_of(spark, PEOPLE), task, column="color", budget=hc.Budget(1, 1e-6), trust=trust
    )
    census, tally = (table.to_pylist() for table in home)
    assert census == [{"name": "null", "users": 3000, "counts": None, "refusal": None}]
    assert [row["users"] for row in tally] == [3000]  # one row, for three partitions


def test_a_curator_is_handed_counts_and_no_rows(
    spark: SparkSession, home: list[pyarrow.Table]
) -> None:
    hc.estimate(frame_of(spark, PEOPLE), hc.Count(), column="smoker", budget=hc.Budget(1))
    ((row,),) = (table.to_pylist() for table in home)
    assert np.frombuffer(row["counts"], "<i8").tolist() == [2250, 750]


SECRET = "Secret"


@pytest.mark.parametrize(
    ("task", "column", "person"),
    [
        (hc.Count(), "word", None),
        pytest.param(hc.Histogram(["a", "b"]), "word", "id", marks=slow),
        (hc.Histogram(["a", "b"]), "word", None),
        pytest.param(hc.Histogram(5), "number", None, marks=slow),
    ],
)
@pytest.mark.parametrize("trust", ["central", "shuffle", pytest.param("local", marks=slow)])
def test_refusals_show_values_to_a_curator_alone(
    spark: SparkSession, task: hc.Task, column: str, person: str | None, trust: str
) -> None:
    table = {"word": [SECRET, *"ab" * 50], "number": [7717, *[1, 2] * 50], "id": list(range(101))}
    with pytest.raises(hc.HeadcountError) as refused:
        hc.estimate(
            frame_of(spark, table),
            task,
            column=column,
            person=person,
            budget=hc.Budget(1, 1e-6),
            trust=trust,
        )
    shown = str(refused.value)
    assert "\n" not in shown
    assert any(secret in shown for secret in (SECRET, "7717")) == (trust == "central")


# What is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"column": "smokr"}, "must have a column 'smokr', got .*did you mean 'smoker'"),
        ({"column": "gap"}, "everyone must have a value, got none in 20 rows .*missing='drop'"),
        ({"column": "steps"}, "must be 0 or 1, got \\d+, \\d+, \\d+, … in 2,994 rows"),
        ({"column": "color"}, "column 'color' must hold numbers or true/false, got text"),
        pytest.param(
            {"column": "day"},
            "column 'day' must hold numbers, true/false or text, got date32",
            marks=slow,
        ),
        pytest.param(
            {"column": "pair"},
            "column 'pair' must hold numbers, true/false or text, got list",
            marks=slow,
        ),
        ({"column": "nothing", "missing": "drop"}, "at least one row with a value, got none"),
        pytest.param(
            {"column": "smoker", "group": "age"},
            "column 'age' must hold text or whole numbers",
            marks=slow,
        ),
        pytest.param(
            {"column": "smoker", "group": "gap"},
            "every row must have a value in column 'gap', got none",
            marks=slow,
        ),
        pytest.param(
            {"column": "smoker", "person": "gap"},
            "every row must have a value in column 'gap', got none",
            marks=slow,
        ),
        pytest.param(
            {"column": "smoker", "group": "city", "groups": ["Ely"]},
            "every group must be one of",
            marks=slow,
        ),
        ({}, "`column` must be given"),
        ({"column": "smoker", "query": "SELECT 1"}, "`query` must come with the local engine"),
    ],
)
def test_bad_data_are_refused_in_one_line(
    spark: SparkSession, settings: dict[str, Any], line: str
) -> None:
    table = PEOPLE | {
        "age": [1.5] * 3000,
        "gap": [None if i % 150 == 0 else i % 2 for i in range(3000)],
        "day": pyarrow.array([7] * 3000, pyarrow.date32()),
        "pair": [[1, 2]] * 3000,
        "nothing": pyarrow.nulls(3000, pyarrow.int64()),
    }
    with pytest.raises(hc.HeadcountError, match=line) as refused:
        hc.estimate(frame_of(spark, table), hc.Count(), budget=hc.Budget(1), **settings)
    assert "\n" not in str(refused.value)


@slow
def test_odd_names_of_columns_are_names(spark: SparkSession) -> None:
    frame = frame_of(spark, {"a.b `c`": [0, 1, 1]}, 1)
    census = asked(SparkEngine(), frame, Question(cleaning("a.b `c`", hc.Count()))).censuses[None]
    assert census.counts is not None
    assert census.counts.tolist() == [1, 2]


def test_only_sources_that_executors_can_have(spark: SparkSession) -> None:
    class Odd(Source):
        def fill(self, buffer: Any) -> None:
            buffer[:] = 0

    with pytest.raises(hc.InvalidParameter, match="`source` must be a SecureSource or a Seeded"):
        hc.estimate(
            frame_of(spark, PEOPLE),
            hc.Count(),
            column="smoker",
            budget=hc.Budget(1),
            trust="local",
            source=Odd(),
        )


def test_other_data_are_not_for_this_engine() -> None:
    with pytest.raises(hc.InvalidParameter, match="data must be a Spark DataFrame"):
        hc.estimate([0, 1], hc.Count(), column="x", budget=hc.Budget(1), engine="spark")


# Rows of one person ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("rows", [pytest.param(1, marks=slow), 2])
def test_a_person_counts_with_so_many_rows(spark: SparkSession, rows: int) -> None:
    """Each person has 4 different rows. This many of them are kept, each equally often."""
    people = 500
    table = {
        "person": [f"p{i % people}" for i in range(4 * people)],
        "value": np.repeat(np.arange(4), people),
        "group": np.repeat(["a", "b", "c", "c"], people),
    }
    question = Question(cleaning("value", hc.Histogram(4)), "person", rows)
    frame = frame_of(spark, table)
    counts = asked(SparkEngine(), frame, question).censuses[None].counts
    assert counts is not None
    assert counts.sum() == people * rows
    assert all(0 < count < people for count in counts)
    deviation = np.sqrt(people * rows / 4 * (1 - rows / 4))
    assert np.abs(counts - people * rows / 4).max() < stats.norm.isf(ALARM / 8) * deviation
    # The chosen rows are those that are randomized.
    grouped = Question(cleaning("value", hc.Histogram(4)), "person", rows, ("group",))
    crowds = asked(SparkEngine(), frame, grouped)
    found = {group: census.users for group, census in crowds.censuses.items()}
    assert list(found) == ["a", "b", "c"]
    assert sum(found.values()) == people * rows
    protocols = {
        group: hc.protocol("central.geometric", grouped.task, hc.Budget(1), hc.Crowd(users))
        for group, users in found.items()
    }
    for group, tally in crowds.tallies(protocols, hc.SeededSource(1), silent).items():
        assert np.array_equal(tally.counts, crowds.censuses[group].counts)  # type: ignore[arg-type]
    same = asked(SparkEngine(), frame, grouped).censuses
    assert found == {group: census.users for group, census in same.items()}


@slow
def test_missing_values_are_dropped_before_rows_are_chosen(spark: SparkSession) -> None:
    table = {"person": [i % 100 for i in range(300)], "value": [*[None] * 200, *[1] * 100]}
    question = Question(cleaning("value", hc.Count(), missing="drop"), "person")
    found = asked(SparkEngine(), frame_of(spark, table), question).censuses[None]
    assert (found.users, found.counts.tolist()) == (100, [0, 100])  # type: ignore[union-attr]


# Who is relied on --------------------------------------------------------------------------------

GAPS: dict[str, Any] = {
    "person": [None if at == 7 else f"p{at % 90}" for at in range(180)],
    "value": [None if at % 90 < 8 else at % 2 for at in range(180)],
    "city": [None if at == 3 else ["Bonn", "Ulm"][at % 2] for at in range(180)],
}


@pytest.mark.parametrize(
    ("person", "rows"), [(None, 1), ("person", 2), pytest.param("person", 1, marks=slow)]
)
def test_all_people_are_counted_as_by_the_local_engine(
    spark: SparkSession, person: str | None, rows: int
) -> None:
    question = Question(cleaning("value", hc.Count(), missing="drop"), person, rows, ("city",))
    here = asked(LocalEngine(), pyarrow.table(GAPS), question)
    there = asked(SparkEngine(), frame_of(spark, GAPS), question)
    # Of 90 people, one row has no name, and may be another person's.
    assert here.people == there.people == (180 if person is None else 91)


def test_words_for_a_missing_name_count_as_by_the_local_engine(spark: SparkSession) -> None:
    """Each row without a name may be another person's, so six words count as six people."""
    words = ["NA", " NA", "NA\t", "-", "-", "NA"]
    table = {"person": [*words, *["p1", "p2"] * 7], "value": [1] * 20}
    cleaned = cleaning("value", hc.Count(), missing="drop", reading=Reading(na=("NA", "-")))
    question = Question(cleaned, "person")
    here = asked(LocalEngine(), pyarrow.table(table), question)
    there = asked(SparkEngine(), frame_of(spark, table), question)
    assert here.people == there.people == 8


def test_what_is_relied_on_and_a_seed_are_said(spark: SparkSession) -> None:
    found = hc.estimate(
        frame_of(spark, GAPS), hc.Count(), column="value", budget=hc.Budget(1, 1e-3),
        protocol="shuffle.randomized-response", group="city", missing="drop", honest=160,
        source=hc.SeededSource(1),
    )  # fmt: skip
    assert isinstance(found, hc.GroupedEstimate)
    assert [one.guarantee.honest for one in found.values()] == [
        one.users - 20 for one in found.values()
    ]
    assert found.guarantee.honest == 160
    assert not found.guarantee.secure


# Stored messages ---------------------------------------------------------------------------------


def stored_again(table: DataFrame, folder: Path) -> DataFrame:
    table.write.parquet(str(folder))
    return table.sparkSession.read.parquet(str(folder))


def test_local_messages_are_one_row_a_person_and_follow_the_law(
    spark: SparkSession, tmp_path: Path
) -> None:
    values = [0, 1, 1, 2, 2, 2] * 500
    protocol = hc.protocol("local.k-ary", hc.Histogram(4), hc.Budget(1), hc.Crowd(3000))
    table = randomized(frame_of(spark, {"value": values, "id": range(3000)}), protocol, "value")
    assert table.columns == ["message"]
    kept = table.toArrow()["message"].to_numpy()
    assert np.array_equal(kept, table.toArrow()["message"].to_numpy())  # whenever it is read
    for value in range(3):
        bundles = protocol.law(value)
        assert bundles is not None
        law = {bundle[0][0]: float(p) for bundle, p in bundles.items()}
        sent = Counter(kept[np.array(values) == value].tolist())
        people = sum(sent.values())
        seen, expected = zip(*[(sent[m], people * p) for m, p in law.items()], strict=True)
        assert stats.chisquare(seen, expected).pvalue > ALARM
        wrong = np.roll(expected, 1)  # and would not follow another one
        assert stats.chisquare(seen, wrong).pvalue < ALARM
    tally = tallied(stored_again(table, tmp_path / "messages"), protocol)
    assert (tally.users, tally.protocol) == (3000, "local.k-ary")
    assert np.array_equal(tally.counts, np.bincount(kept, minlength=4))


@slow
def test_shuffled_messages_are_in_an_order_that_says_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    """People who hold 1 come last, and each sends many equal messages. The order hides this."""
    users = 1000
    protocol = hc.protocol(
        "shuffle.fixed-point-sum", hc.Sum(0, 7, whole=True), hc.Budget(4, 1e-6), hc.Crowd(users)
    )
    frame = frame_of(spark, {"value": [0] * (users // 2) + [7] * (users // 2)})
    table = randomized(frame, protocol, "value")
    assert table.columns == ["message"]
    sent = table.toArrow()["message"].to_numpy()
    assert np.array_equal(sent, table.toArrow()["message"].to_numpy())
    half = len(sent) // 2
    for message, copies in Counter(sent.tolist()).items():
        first = int((sent[:half] == message).sum())
        law = stats.hypergeom(len(sent), copies, half)
        assert min(law.cdf(first), law.sf(first - 1)) > ALARM / 20
    pairs = sum(c * (c - 1) for c in Counter(sent.tolist()).values()) / len(sent)
    alike = int((sent[1:] == sent[:-1]).sum())
    assert abs(alike - pairs) < 6 * np.sqrt(pairs)
    tally = tallied(stored_again(table, tmp_path / "messages"), protocol, users=users)
    e = protocol.estimate(tally)
    assert 3500 in e.interval(1 - ALARM)


@pytest.mark.slow
def test_rare_messages_are_withheld_before_anything_is_written(spark: SparkSession) -> None:
    values = ["common"] * 1500 + ["rare"] * 5
    protocol = hc.protocol(
        "shuffle.sample-threshold",
        hc.Histogram(["rare", "common", "none"]),
        hc.Budget(1, 1e-6),
        hc.Crowd(len(values)),
    )
    assert protocol.shuffler.least_copies > 5
    frame = frame_of(spark, {"value": values})
    found = Counter(row[0] for row in randomized(frame, protocol, "value").collect())
    assert set(found) == {1}
    e = hc.estimate(frame, column="value", protocol=protocol)
    assert isinstance(e, hc.Estimate)
    low, high = stats.binom(1500, protocol.parameters["rate"]).ppf([ALARM, 1 - ALARM])
    assert low <= found[1] <= high
    assert low <= e.value[1] * protocol.parameters["rate"] <= high
    assert e.value[0] == e.value[2] == 0


def some(name: str, task: hc.Task, users: int = 400, **options: Any) -> hc.Protocol:
    return hc.protocol(name, task, hc.Budget(1, 1e-4), hc.Crowd(users), **options)


ALPHABETS: dict[str, Callable[[], hc.Protocol]] = {
    "bits": lambda: some("local.randomized-response", hc.Count()),
    "signs": lambda: some("shuffle.correlated", hc.Count()),
    "rows of bits": lambda: some("local.unary-optimized", hc.Histogram(20)),
    "pairs": lambda: some("local.hashing", hc.Histogram(20)),
    "all of 64 bits": lambda: some("shuffle.hashed-histogram", hc.Histogram(["a", "b"], open=True)),
    "shares": lambda: some("shuffle.split-and-mix", hc.Sum(0, 100, whole=True)),
}


@pytest.mark.parametrize(
    "built",
    [
        pytest.param(built, id=name, marks=[] if name == "all of 64 bits" else [slow])
        for name, built in ALPHABETS.items()
    ],
)
def test_every_alphabet_is_stored_and_read_as_it_is(
    spark: SparkSession, built: Callable[[], hc.Protocol], tmp_path: Path
) -> None:
    """With a seed and one partition, the stored messages are those that `randomize` returns."""
    protocol = built()
    text = isinstance(protocol.task, hc.Histogram) and protocol.task.open
    values = ["a", "b", "zebra"] * 134 if text else [0, 1] * 201
    frame = frame_of(spark, {"value": values}, 1)
    stored = randomized(frame, protocol, "value", source=hc.SeededSource(8))
    part = hc.SeededSource(8).part(0).part(0).part(0)
    expected = protocol.tally(protocol.randomize(values, part))
    tally = tallied(stored_again(stored, tmp_path / "messages"), protocol, users=402)
    assert (tally.users, tally.modulus) == (402, protocol.estimator.tally_modulus)
    assert np.array_equal(tally.counts, expected.counts)


@pytest.mark.parametrize(
    ("name", "messages", "line"),
    [
        ("bits", [0, 2], "every message must be in range"),
        ("bits", [0, -256], "every message must be of type uint8, got values from -256 to 0"),
        ("bits", [0, None], "none may be missing"),
        ("bits", ["0", "1"], "every message must be 1 whole number"),
        ("bits", [[0], [1]], "every message must be 1 whole number"),
        ("rows of bits", [0, 1], "every message must be 3 whole numbers"),
        ("rows of bits", [[0, 1], [1, 2, 3, 4]], "every message must be 3 whole numbers"),
    ],
)
def test_messages_that_are_none_are_refused(name: str, messages: list[Any], line: str) -> None:
    protocol = ALPHABETS[name]()
    with pytest.raises(hc.InvalidValue, match=line):
        protocol.alphabet.messages(payload_of(pyarrow.array(messages), protocol.alphabet))


@slow
def test_stored_messages_must_be_those_of_the_protocol(spark: SparkSession) -> None:
    table, bits = frame_of(spark, {"message": [0, 1, 1]}), ALPHABETS["bits"]()
    assert tallied(table, bits).users == 3
    with pytest.raises(hc.InvalidValue, match="each person must send 1 message, got"):
        tallied(table, bits, users=2)
    with pytest.raises(hc.InvalidValue, match="every message must be 3 whole numbers"):
        tallied(table, ALPHABETS["rows of bits"]())
    with pytest.raises(hc.UnreadableData, match="must have a column 'message'"):
        tallied(table.withColumnRenamed("message", "sent"), bits)


@slow
def test_how_many_people_sent_messages_must_be_said(spark: SparkSession) -> None:
    with pytest.raises(hc.InvalidParameter, match="`users` must be the number of people"):
        tallied(frame_of(spark, {"message": [1, -1, 1]}), ALPHABETS["signs"]())


def test_crowds_and_trusts_that_do_not_fit_store_nothing(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = frame_of(spark, {"value": [0, 1, 1, None]})
    with pytest.raises(hc.InvalidParameter, match=r"local or shuffle .* got central\.geom"):
        randomized(frame, some("central.geometric", hc.Count(), 3), "value")
    local = some("local.randomized-response", hc.Count(), 4)
    with pytest.raises(hc.InvalidValue, match="got none in 1 row"):
        randomized(frame, local, "value")
    with pytest.raises(hc.CrowdMismatch, match="built for at least 4 people, got 3"):
        randomized(frame, some("shuffle.amplified", hc.Count(), 4), "value", missing="drop")
    rare = some("shuffle.sample-threshold", hc.Histogram(2), 3)
    with pytest.raises(hc.CrowdMismatch, match="built for at most 3 people, got 4"):
        randomized(frame, rare, "value", missing=0)

    def nowhere(frame: ClassicFrame, eager: bool = True) -> None:
        raise PySparkException("Checkpoint directory has not been set in the SparkContext")

    monkeypatch.setattr(ClassicFrame, "checkpoint", nowhere)
    with pytest.raises(hc.InvalidParameter, match=r"checkpoint directory .*setCheckpointDir"):
        randomized(frame, local, "value", missing=0)


# The shuffler's noise ----------------------------------------------------------------------------


def test_the_driver_does_not_know_the_shufflers_noise(
    spark: SparkSession, home: list[pyarrow.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DummyShuffler, "noise", never)
    table: dict[str, Any] = {"value": [1, 0, 0] * 800, "team": np.repeat(np.arange(60), 40)}
    found = hc.estimate(
        frame_of(spark, table), hc.Count(), column="value", group="team",
        budget=hc.Budget(1, 1e-6), protocol="shuffle.noisy-shuffler",
    )  # fmt: skip
    assert isinstance(found, hc.GroupedEstimate)
    tallies = {int(row["name"]): np.frombuffer(row["counts"], "<i8") for row in home[1].to_pylist()}
    exact = [sum(table["value"][40 * team : 40 * team + 40]) for team in range(60)]
    noise = np.array([tallies[team][1] - exact[team] for team in range(60)])
    assert {int(counts.sum()) for counts in tallies.values()} == {40 + 28}
    assert np.all((noise >= 0) & (noise <= 28))
    assert len(set(noise.tolist())) > 1  # all are alike once in 10^20 times
    assert [found[team].value for team in range(60)] == [tallies[t][1] - 14 for t in range(60)]


# When tasks fail ---------------------------------------------------------------------------------


def lossy(spark: SparkSession, values: list[int]) -> DataFrame:
    """The rows unchanged. In the first attempt, the task is lost after all rows were read."""

    def failing(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        yield from batches
        task = TaskContext.get()
        assert task is not None
        if task.attemptNumber() == 0 and task.partitionId() == 1:
            raise OSError("lost")

    return mapped(frame_of(spark, {"value": values}), failing, "value bigint")


@slow
def test_a_task_that_runs_twice_counts_once(spark: SparkSession) -> None:
    values = [0, 1, 1] * 400
    question = Question(cleaning("value", hc.Histogram(3)), values_stay=True)
    crowds = asked(SparkEngine(), lossy(spark, values), question)
    assert crowds.censuses[None].users == len(values)
    protocol = some("shuffle.k-ary", hc.Histogram(3), len(values))
    tally = crowds.tallies({None: protocol}, hc.SecureSource(), silent)[None]
    assert (tally.users, tally.counts.sum()) == (len(values), len(values))


@slow
def test_messages_of_a_task_that_runs_twice_are_written_once(spark: SparkSession) -> None:
    values = [0, 1, 1] * 400
    protocol = some("shuffle.k-ary", hc.Histogram(3), len(values))
    table = randomized(lossy(spark, values), protocol, "value")
    one, other = (tallied(table, protocol, users=len(values)).counts for _ in range(2))
    assert one.sum() == len(values)
    assert np.array_equal(one, other)


@slow
def test_work_that_fails_for_good_is_one_line(spark: SparkSession) -> None:
    def broken(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        raise OSError("no such disk")

    rows = spark.range(1, numPartitions=1)
    for frame, line in (
        (mapped(rows, broken, "value bigint"), "OSError: no such disk"),
        (rows.selectExpr("1 / id as value"), "Division by zero"),
    ):
        with pytest.raises(hc.UnreadableData, match=line) as refused:
            hc.estimate(frame, hc.Count(), column="value", budget=hc.Budget(1))
        assert "\n" not in str(refused.value)


def test_a_stopped_session_is_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = frame_of(spark, {"v": [1, 0]})
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)  # as `stop` leaves it
    with pytest.raises(hc.UnreadableData, match="Spark must be running, but its session was"):
        hc.estimate(frame, hc.Count(), column="v", budget=hc.Budget(1))


def test_an_empty_name_is_the_name_of_a_column(spark: SparkSession) -> None:
    frame = frame_of(spark, {"": ["a", "b", "a"], "v": [1, 0, 1]})
    found = hc.estimate(frame, hc.Count(), column="v", group="", budget=hc.Budget(500))
    assert isinstance(found, hc.GroupedEstimate)
    assert {group: one.value for group, one in found.items()} == {"a": 2, "b": 0}
