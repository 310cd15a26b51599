"""Surveys whose answers are in Spark data frames or in folders of Parquet files."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

import headcount as hc
from headcount.data.reading import Reading
from headcount.survey.answers import wanted_columns
from headcount.survey.design import LINE
from headcount.survey.questions import Choice, Number, Scale, Several, YesNo
from headcount.survey.spark import AnswerStep, CheckStep, Reader
from headcount.survey.survey import Survey
from test_spark import spark  # noqa: F401, the session of Spark's tests

PEOPLE = 1500
QUESTIONS = [
    YesNo("smokes", "?"),
    YesNo("drives", "?", optional=True),
    Choice("city", "?", ("York", "Ely", "Bath")),
    Several("fruit", "?", ("apple", "pear", "plum"), 2),
    Several("pets", "?", ("cat", "dog"), 2, optional=True),
    Scale("mood", "?", 1, 4),
    Number("age", "?", 0, 100, whole=True, want=("mean",)),
]
TABLE: dict[str, Any] = {
    "smokes": [i % 4 == 0 for i in range(PEOPLE)],
    "drives": [("yes", "no", None)[i % 3] for i in range(PEOPLE)],
    "city": [("York", "Ely", "Bath")[i % 3] for i in range(PEOPLE)],
    "fruit": [(["apple", "plum"], ["pear"], [], ["plum"])[i % 4] for i in range(PEOPLE)],
    "pets.cat": [i % 2 for i in range(PEOPLE)],
    "pets.dog": [i % 5 == 0 for i in range(PEOPLE)],
    "mood": [1 + i % 4 for i in range(PEOPLE)],
    "age": [i % 90 for i in range(PEOPLE)],
    "unasked": ["secret"] * PEOPLE,
}
TRUTH = {
    "smokes": 375,
    "city": [500, 500, 500],
    "fruit": [375, 375, 750],
    "city × mood": [125] * 12,
}


def survey(trust: str, epsilon: float = 30.0, **more: Any) -> Survey:
    budget = hc.Budget(epsilon, 0.0 if trust == "local" else 1e-3)
    return Survey(QUESTIONS, budget, hc.Trust(trust), 1000, tables=[("city", "mood")], **more)


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:  # noqa: F811
    made: DataFrame = spark.createDataFrame(pyarrow.table(TABLE))
    return made


@pytest.fixture
def executors(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the columns that are read in this process, outside the executors."""
    from headcount.survey import answers

    read: list[str] = []
    inner = answers.Given.of

    def watched(column: Any) -> Any:
        read.append(type(column).__name__)
        return inner(column)

    monkeypatch.setattr(answers.Given, "of", staticmethod(watched))
    return read


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trust", "noise"),
    [("central", "people"), ("shuffle", "people"), ("shuffle", "shuffler"), ("local", "people")],
)
def test_answers_on_spark_are_estimated(
    frame: DataFrame, executors: list[str], trust: str, noise: Any
) -> None:
    asked = survey(trust, noise=noise)
    found = asked.run(frame)
    assert executors == []  # the driver reads no answer
    assert found.users == PEOPLE
    here = asked.run(pyarrow.table(TABLE))
    assert executors
    assert set(found.estimates) == set(here.estimates)
    for name, truth in TRUTH.items():
        estimate, other = found.estimates[name], here.estimates[name]
        error = np.max(np.asarray(estimate.standard_error)) + 1e-9
        assert np.abs(np.asarray(estimate.value) - truth).max() < 8 * error, name
        assert estimate.guarantee == other.guarantee
        assert estimate.users == other.users == PEOPLE
    assert abs(found.estimates["age"].value - np.mean(TABLE["age"])) < 8 * np.max(
        found.estimates["age"].standard_error
    )


@pytest.mark.slow
def test_a_seed_fixes_the_answers(frame: DataFrame) -> None:
    asked = survey("shuffle", 3.0)
    one, two, other = (
        asked.run(frame.coalesce(1), hc.SeededSource(seed)).estimates["city"].value
        for seed in (1, 1, 2)
    )
    assert one.tolist() == two.tolist() != other.tolist()


@pytest.mark.slow
def test_wrong_answers_are_refused_without_showing_them(
    spark: SparkSession,  # noqa: F811
    frame: DataFrame,
    tmp_path: Path,
) -> None:
    asked = survey("local")
    book = hc.Ledger.create(tmp_path / "ledger.db")
    book.create_dataset("people", hc.Budget(100))
    for column, value, message in (
        ("city", "Atlantis", "question 'city' must be answered with one of York"),
        ("age", 400, "question 'age' must be answered"),
        ("smokes", None, "got no answer in a row"),
    ):
        table = dict(TABLE) | {column: [value, *TABLE[column][1:]]}
        bad = spark.createDataFrame(pyarrow.table(table))
        with pytest.raises(hc.InvalidValue) as caught:
            asked.run(bad, ledger=book, dataset="people")
        assert message in str(caught.value)
        assert str(value) not in str(caught.value) or value is None
    with pytest.raises(hc.UnreadableData, match="'city'"):
        asked.run(frame.drop("city"), ledger=book, dataset="people")
    with pytest.raises(hc.CrowdMismatch, match="at least 1,000 people, got 900"):
        asked.run(frame.limit(900), ledger=book, dataset="people")
    assert not book.spending("people").entries
    asked.run(frame, ledger=book, dataset="people")
    assert len(book.spending("people").entries) == 1


# Without Spark -----------------------------------------------------------------------------------


def batches(table: dict[str, Any], names: tuple[str, ...], size: int) -> list[Any]:
    made = pyarrow.table({name: table[name] for name in names})
    return list(made.to_batches(max_chunksize=size))


@pytest.mark.parametrize("trust", ["central", "shuffle", "local"])
def test_an_executor_counts_the_messages_of_all_releases(trust: str) -> None:
    asked = [QUESTIONS[0], *QUESTIONS[2:6]]
    names = tuple(wanted_columns(asked, list(TABLE)))
    design = replace(survey(trust), questions=asked).designed(PEOPLE)
    reader = Reader(tuple(asked), names, Reading())
    (counted,) = CheckStep(reader)(iter(batches(TABLE, names, 400)))
    assert counted.to_pylist()[0]["users"] == PEOPLE
    step = AnswerStep(reader, design, None)
    rows = [one for batch in step(iter(batches(TABLE, names, 400))) for one in batch.to_pylist()]
    users = {json.loads(row["name"]): row["users"] for row in rows}
    assert set(users) == set(range(len(design.releases)))
    if trust != "local":
        assert set(users.values()) == {PEOPLE}
    else:  # four batches, each of which is spread evenly
        for at, release in enumerate(design.releases):
            assert abs(users[at] - PEOPLE * release.share / LINE) <= 4
    for row in rows:
        protocol = design.releases[json.loads(row["name"])].protocol
        counts = np.frombuffer(row["counts"], "<i8")
        assert len(counts) == protocol.estimator.tally_size
        if protocol.task.name == "histogram" and trust == "central":
            assert counts.sum() == PEOPLE


def test_an_executor_shows_no_answer() -> None:
    names = ("city", "age")
    reader = Reader((QUESTIONS[2], QUESTIONS[6]), names, Reading())
    for column, value, wanted in (
        ("city", "Atlantis", "must be answered with"),
        ("age", 4711, "must be answered with"),
        ("age", None, "got no answer in a row"),
        ("age", {"years": 4711}, "must be answered with"),
        ("age", [{"years": 4711}], "cannot be read"),
    ):
        table = {"city": ["York"], "age": [5]} | {column: [value]}
        (refused,) = CheckStep(reader)(iter(batches(table, names, 10)))
        (row,) = refused.to_pylist()
        assert wanted in row["refusal"]
        assert "Atlantis" not in row["refusal"]
        assert "4711" not in row["refusal"]


def test_folders_of_parquet_files_are_read(tmp_path: Path) -> None:
    table = pyarrow.table(TABLE)
    for at in range(3):
        parquet.write_table(table.slice(500 * at, 500), tmp_path / f"part-{at}.parquet")
    for place in (tmp_path, str(tmp_path), str(tmp_path / "*.parquet")):
        found = survey("central").run(place)
        assert found.users == PEOPLE
        assert found.estimates["city"].value.tolist() == pytest.approx([500] * 3, abs=15)
