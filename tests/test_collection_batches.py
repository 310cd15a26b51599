"""Batches as Parquet files: what they hold, and that they are counted once, here and on Spark."""

import hashlib
import json
import os
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

import headcount as hc
from collection import TOKEN, analyzer, distinct, document, shuffler, two_questions
from commands import Headcount
from headcount.collect import batch_files
from headcount.collect.analyzer import Analyzer
from headcount.collect.batch import SealedBatch
from headcount.collect.batch_files import BatchFiles
from headcount.collect.client import response
from headcount.collect.document import Document
from headcount.collect.opening import Opened, Opener
from headcount.collect.refusals import Conflict, Malformed, Unauthorized
from headcount.collect.shuffler import Sent
from headcount.collect.spark import files_on_spark, opened_on_spark

SOURCE = hc.SecureSource()
slow = pytest.mark.slow
BOTH = ("where", ["here", pytest.param("spark", marks=slow)])
PEOPLE = 40
NAME = "0123456789abcdef" * 2


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven messages in a file, so that small batches have many files."""
    monkeypatch.setattr(batch_files, "_FILE", 7)


@pytest.fixture
def engine(where: str, request: pytest.FixtureRequest) -> SparkSession | None:
    """Spark, or None if messages are opened here."""
    return request.getfixturevalue("spark") if where == "spark" else None


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One real Spark session for this file, with two tasks at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
        session = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.memory", "512m")
            .config("spark.sql.shuffle.partitions", "3")
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
            .config("spark.sql.codegen.wholeStage", "false")
            .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


def messages_of(survey: Document, people: int = PEOPLE) -> list[bytes]:
    """The sealed messages of people who each have a value of their own."""
    sealed = b"".join(response(survey, {"who": str(person)}, SOURCE) for person in range(people))
    size = survey.envelope.size
    return [sealed[at : at + size] for at in range(0, len(sealed), size)]


def written(folder: Path, survey: Document, messages: list[bytes], **changes: Any) -> BatchFiles:
    batch = SealedBatch(changes.get("people", PEOPLE), survey.envelope.size, b"".join(messages))
    return BatchFiles.write(folder, survey.digest, changes.get("name", NAME), batch, TOKEN)


def counted(one: Analyzer, files: BatchFiles, spark: SparkSession | None = None) -> bool:
    def opened(opener: Opener) -> Opened:
        return files.opened(opener, 1) if spark is None else opened_on_spark(files, opener, spark)

    return one.count_files(files, opened)


def tallies(folder: Path) -> dict[str, list[int]]:
    with sqlite3.connect(folder / "analyzer.db") as store:
        row = store.execute("SELECT tallies FROM analyses").fetchone()
    store.close()
    found: dict[str, list[int]] = json.loads(row[0])
    return found


# The files ------------------------------------------------------------------------------------


def test_files_hold_the_messages_of_the_batch_in_their_order_and_nothing_else(
    tmp_path: Path,
) -> None:
    survey = distinct(tmp_path / "key", PEOPLE)
    messages = messages_of(survey)
    files = written(tmp_path / "batch", survey, messages)
    found: list[bytes] = []
    for path in sorted((tmp_path / "batch").glob("*.parquet")):
        about = pyarrow.parquet.ParquetFile(path)
        assert about.schema_arrow.names == ["sealed"]
        assert about.schema_arrow.metadata is None
        assert not about.metadata.row_group(0).column(0).is_stats_set
        found += about.read().column("sealed").to_pylist()
    assert found == messages
    named = json.loads((tmp_path / "batch" / "batch.json").read_text())
    assert set(named) == {
        "version", "survey", "batch", "people", "message_bytes", "sha256", "files", "messages",
        "code",
    }  # fmt: skip
    head = b"HCB1" + PEOPLE.to_bytes(8, "big") + survey.envelope.size.to_bytes(4, "big")
    assert named["sha256"] == hashlib.sha256(head + b"".join(messages)).hexdigest()
    assert BatchFiles.load(tmp_path / "batch", TOKEN) == files


def test_a_batch_is_written_alike_every_time(tmp_path: Path) -> None:
    survey = distinct(tmp_path / "key", PEOPLE)
    messages = messages_of(survey)
    one, other = (written(tmp_path / name, survey, messages) for name in ("a", "b"))
    assert one.to_dict() == other.to_dict()


@pytest.mark.parametrize(*BOTH)
def test_damaged_files_are_refused(tmp_path: Path, engine: SparkSession | None) -> None:
    survey = distinct(tmp_path, PEOPLE)
    files = written(tmp_path / "batch", survey, messages_of(survey))
    one = analyzer(tmp_path)
    one.register(survey)
    path = tmp_path / "batch" / files.files[2].name
    whole = path.read_bytes()
    for damaged in (whole[:40] + bytes([whole[40] ^ 1]) + whole[41:], b"", None):
        path.unlink() if damaged is None else path.write_bytes(damaged)
        with pytest.raises(hc.UnreadableData):
            counted(one, files, engine)
    path.write_bytes(whole)
    assert counted(one, files, engine)
    assert tallies(tmp_path)["who"] == [1] * PEOPLE


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found | {"version": 1},
        lambda found: found | {"people": 0},
        lambda found: found | {"people": True},
        lambda found: found | {"messages": 1},
        lambda found: found | {"survey": "0"},
        lambda found: found | {"batch": "../x"},
        lambda found: found | {"files": [found["files"][0]] * 2},
        lambda found: found | {"files": [found["files"][0] | {"name": "../part-00000.parquet"}]},
        lambda found: found | {"files": [found["files"][0] | {"sha256": 7}]},
        lambda found: {name: found[name] for name in found if name != "people"},
        lambda found: {name: found[name] for name in found if name != "code"},
        lambda found: found | {"code": 7},
        lambda found: [found],
    ],
)
def test_damaged_descriptions_are_refused(tmp_path: Path, change: Any) -> None:
    survey = distinct(tmp_path / "key", PEOPLE)
    written(tmp_path / "batch", survey, messages_of(survey))
    path = tmp_path / "batch" / "batch.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(hc.UnreadableData):
        BatchFiles.load(tmp_path / "batch", TOKEN)


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found | {"people": PEOPLE + 1},
        lambda found: found | {"files": found["files"][:-1], "messages": 35},
        lambda found: found | {"files": found["files"][::-1]},
        lambda found: found | {"sha256": "0" * 64},
        lambda found: found | {"batch": NAME[::-1]},
        lambda found: found | {"code": "0" * 64},
        lambda found: found | {"code": ""},
    ],
)
def test_nobody_without_the_token_makes_or_changes_a_batch(tmp_path: Path, change: Any) -> None:
    """The right batch may still come."""
    survey = distinct(tmp_path, PEOPLE)
    written(tmp_path / "batch", survey, messages_of(survey))
    path = tmp_path / "batch" / "batch.json"
    right = path.read_text()
    path.write_text(json.dumps(change(json.loads(right))))
    with pytest.raises(Unauthorized, match="a shuffler that has the analyzer's token"):
        BatchFiles.load(tmp_path / "batch", TOKEN)
    path.write_text(right)
    with pytest.raises(Unauthorized):
        BatchFiles.load(tmp_path / "batch", TOKEN[::-1])
    one = analyzer(tmp_path)
    one.register(survey)
    assert counted(one, BatchFiles.load(tmp_path / "batch", TOKEN))


def test_a_batch_needs_a_token(tmp_path: Path) -> None:
    survey = distinct(tmp_path, PEOPLE)
    batch = SealedBatch(PEOPLE, survey.envelope.size, b"".join(messages_of(survey)))
    with pytest.raises(hc.InvalidParameter, match="a token must authenticate"):
        BatchFiles.write(tmp_path / "batch", survey.digest, NAME, batch, "")
    assert not (tmp_path / "batch").exists()
    BatchFiles.write(tmp_path / "batch", survey.digest, NAME, batch, TOKEN)
    with pytest.raises(hc.InvalidParameter, match="a token must authenticate"):
        BatchFiles.load(tmp_path / "batch", "")


@pytest.mark.parametrize(
    "change",
    [
        lambda found: {"people": found.people + 1},
        lambda found: {"files": found.files[:-1]},
        lambda found: {"files": found.files[::-1]},
        lambda found: {"sha256": "0" * 64},
    ],
)
def test_the_digest_of_a_batch_covers_people_and_files(tmp_path: Path, change: Any) -> None:
    """A shuffler that states a wrong digest does not keep the right batch from being counted."""
    survey = distinct(tmp_path, PEOPLE)
    right = written(tmp_path / "batch", survey, messages_of(survey))
    one = analyzer(tmp_path)
    one.register(survey)
    with pytest.raises(hc.UnreadableData, match="the whole batch must have the SHA-256"):
        counted(one, replace(right, **change(right)))
    assert one.unfinished() == [survey.digest]
    assert counted(one, right)
    assert tallies(tmp_path)["who"] == [1] * PEOPLE


@pytest.mark.parametrize("where", ["here", pytest.param("spark", marks=pytest.mark.slow)])
def test_files_of_other_messages_are_refused(tmp_path: Path, engine: SparkSession | None) -> None:
    """Somebody replaces a file by one with the same number of messages."""
    survey = distinct(tmp_path, PEOPLE)
    right = written(tmp_path / "batch", survey, messages_of(survey))
    other = written(tmp_path / "other", survey, messages_of(survey))
    name = right.files[2].name
    path, kept = tmp_path / "batch" / name, (tmp_path / "batch" / name).read_bytes()
    path.write_bytes((tmp_path / "other" / name).read_bytes())
    one = analyzer(tmp_path)
    one.register(survey)
    with pytest.raises(hc.UnreadableData, match=f"{name} must have the SHA-256"):
        counted(one, right, engine)
    path.write_bytes(kept)
    assert counted(one, right, engine)
    assert tallies(tmp_path)["who"] == [1] * PEOPLE
    with pytest.raises(Conflict):
        counted(one, other, engine)


@pytest.mark.slow
def test_a_batch_with_an_empty_file_is_refused_on_spark(
    tmp_path: Path, spark: SparkSession
) -> None:
    """Spark leaves out empty files. With fewer messages, there would be less noise."""
    survey = distinct(tmp_path, PEOPLE)
    messages = messages_of(survey)
    files = written(tmp_path / "batch", survey, [*messages, messages[0]])
    one = analyzer(tmp_path)
    one.register(survey)
    path = tmp_path / "batch" / files.files[2].name
    kept = path.read_bytes()
    path.write_bytes(b"")
    with pytest.raises(hc.UnreadableData, match="must read all 41 messages of the batch, got 34"):
        counted(one, files, spark)
    assert one.unfinished() == [survey.digest]
    path.write_bytes(kept)
    assert counted(one, files, spark)
    assert tallies(tmp_path)["who"] == [1] * PEOPLE
    assert one.results(survey.digest)["messages"]["copies"] == 1


@pytest.mark.parametrize("address", ["batch*", "/data/b?tch", "/data/[ab]", "s3://data/{a,b}/"])
def test_an_address_for_spark_names_one_folder(address: str, spark: SparkSession) -> None:
    with pytest.raises(hc.InvalidParameter, match="must have none of the characters"):
        files_on_spark(address, spark, TOKEN)


def test_a_folder_without_its_description_is_not_a_batch(tmp_path: Path) -> None:
    survey = distinct(tmp_path / "key", PEOPLE)
    written(tmp_path / "batch", survey, messages_of(survey))
    (tmp_path / "batch" / "batch.json").unlink()
    with pytest.raises(hc.UnreadableData, match="must be the folder of a batch"):
        BatchFiles.load(tmp_path / "batch", TOKEN)


# Counting -------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["here", "spark"])
def test_everybody_is_counted_once_and_bad_messages_not_at_all(
    tmp_path: Path, engine: SparkSession | None
) -> None:
    """Copies, junk, messages of another survey, unknown releases and values outside the range."""
    survey = distinct(tmp_path, PEOPLE)
    other = distinct(tmp_path, PEOPLE + 1)
    good, envelope, key = messages_of(survey), survey.envelope, survey.key.key
    number = np.array([PEOPLE], survey.releases[0].protocol.alphabet.dtype)
    bad = [
        bytes(envelope.size),
        good[0][:-1] + bytes([good[0][-1] ^ 1]),
        messages_of(other, 1)[0],
        envelope.seal(key, 1, None),
        envelope.seal(key, 0, number.astype(number.dtype.newbyteorder("<")).tobytes()),
    ]
    dummies = [envelope.seal(key, 0, None) for _ in range(3)]
    messages = [*good, *bad, *dummies, good[3], good[3], good[30], bad[0]]
    files = written(tmp_path / "batch", survey, messages)
    one = analyzer(tmp_path)
    one.register(survey)
    assert counted(one, files, engine)
    assert tallies(tmp_path)["who"] == [1] * PEOPLE
    assert one.results(survey.digest)["messages"] == {
        "received": len(messages), "dummies": 3, "refused": len(bad), "copies": 4,
    }  # fmt: skip


def test_copies_are_also_counted_once_in_a_batch_that_comes_over_the_network(
    tmp_path: Path,
) -> None:
    survey = distinct(tmp_path, PEOPLE)
    good = messages_of(survey)
    one = analyzer(tmp_path)
    one.register(survey)
    sealed = b"".join([*good, good[0], good[39], good[39]])
    one.receive(survey.digest, NAME, SealedBatch(PEOPLE, survey.envelope.size, sealed))
    one.count(survey.digest)
    assert tallies(tmp_path)["who"] == [1] * PEOPLE
    assert one.results(survey.digest)["messages"]["copies"] == 3


@slow
def test_shares_are_added_up_modulo_their_modulus_on_spark(
    tmp_path: Path, spark: SparkSession
) -> None:
    """Parts of a secret have no meaning by themselves. Only the sum of all partitions is right."""
    made = hc.protocol(
        "shuffle.split-and-mix", hc.Sum(0, 10, whole=True), hc.Budget(1, 1e-3), hc.Crowd(PEOPLE)
    )
    survey = document(tmp_path, {"sum": made}, least_people=PEOPLE)
    sealed = b"".join(response(survey, {"sum": 10}, SOURCE) for _ in range(PEOPLE))
    batch = SealedBatch(PEOPLE, survey.envelope.size, sealed)
    files = BatchFiles.write(tmp_path / "batch", survey.digest, NAME, batch, TOKEN)
    here, there = analyzer(tmp_path), Analyzer(shuffler(tmp_path).store, analyzer(tmp_path)._key)
    for one, engine in ((here, None), (there, spark)):
        one.register(survey)
        assert counted(one, files, engine)
    found = [one.results(survey.digest)["questions"]["sum"]["value"] for one in (here, there)]
    assert found[0] == found[1]
    assert abs(found[0] - 10 * PEOPLE) < 200


def test_the_same_batch_is_counted_once_and_another_one_is_refused(tmp_path: Path) -> None:
    survey = distinct(tmp_path, PEOPLE)
    good = messages_of(survey)
    files = written(tmp_path / "batch", survey, good)
    one = analyzer(tmp_path)
    one.register(survey)
    assert counted(one, files)
    before = one.results(survey.digest)
    assert not counted(one, files)
    assert not one.receive(
        survey.digest, NAME, SealedBatch(PEOPLE, survey.envelope.size, b"".join(good))
    )
    again = written(tmp_path / "again", survey, messages_of(survey))
    renamed = written(tmp_path / "renamed", survey, good, name=NAME[::-1])
    for another in (again, renamed):
        with pytest.raises(Conflict):
            counted(one, another)
    assert one.results(survey.digest) == before


def test_a_batch_that_was_claimed_but_not_counted_is_still_stored(tmp_path: Path) -> None:
    """Counting files may fail. Then the same batch may come over the network, and must be kept."""
    survey = distinct(tmp_path, PEOPLE)
    good = messages_of(survey)
    files = written(tmp_path / "batch", survey, good)
    one = analyzer(tmp_path)
    one.register(survey)

    def fails(opener: Opener) -> Opened:
        raise hc.UnreadableData("the cluster must run")

    with pytest.raises(hc.UnreadableData):
        one.count_files(files, fails)
    assert one.pending() == []
    sealed = SealedBatch(PEOPLE, survey.envelope.size, b"".join(good))
    assert one.receive(survey.digest, NAME, sealed)
    assert not one.receive(survey.digest, NAME, sealed)
    assert one.pending() == [survey.digest]
    one.count(survey.digest)
    assert tallies(tmp_path)["who"] == [1] * PEOPLE


def test_too_few_people_are_not_counted(tmp_path: Path) -> None:
    survey = distinct(tmp_path, PEOPLE)
    files = written(tmp_path / "batch", survey, messages_of(survey), people=PEOPLE - 1)
    one = analyzer(tmp_path)
    one.register(survey)
    with pytest.raises(Malformed, match="at least 40 people"):
        counted(one, files)


# Commands -------------------------------------------------------------------------------------


@pytest.mark.parametrize(*BOTH)
def test_from_the_shuffler_to_the_results_by_commands(
    headcount: Headcount, tmp_path: Path, engine: SparkSession | None
) -> None:
    assert headcount("analyzer", "init", "home", "--no-passphrase").status == 0
    survey = two_questions(tmp_path / "home", PEOPLE)
    survey.save(tmp_path / "survey.json")
    mixer = shuffler(tmp_path)
    mixer.register(survey)
    mixer.accept([
        Sent(survey.digest, response(survey, {"smoke": at % 2, "drink": 1}, SOURCE))
        for at in range(PEOPLE)
    ])  # fmt: skip
    early = headcount(
        "shuffler", "export", "survey.json", "--out", "batch", "--token-file", "home/token"
    )
    assert early.status == 2
    assert not (tmp_path / "batch").exists()
    assert headcount("shuffler", "close", "survey.json").status == 0
    unsigned = headcount("shuffler", "export", "survey.json", "--out", "batch")
    assert unsigned.status == 2
    assert "a token must authenticate the files of a batch" in unsigned.err
    export = ("shuffler", "export", "survey.json", "--out", "batch", "--token-file", "home/token")
    assert headcount(*export).status == 0
    assert mixer.status(survey.digest).state == "forwarded"
    with sqlite3.connect(tmp_path / "shuffler.db") as store:
        assert store.execute("SELECT COUNT(*) FROM outbox").fetchone() == (0,)
    store.close()
    option = [] if engine is None else ["--spark"]
    batch = str(tmp_path / "batch")  # the folder of a running Spark is another one
    words = ("analyzer", "count", "home", batch, "--survey", "survey.json", *option, "--json")
    first, second = headcount(*words), headcount(*words)
    assert first.status == second.status == 0, first.err
    assert first.out == second.out
    found = json.loads(first.out)
    assert found["people"] == PEOPLE
    assert found["messages"]["refused"] == found["messages"]["copies"] == 0
    # The noise of 40 people with epsilon 1 has a standard error of about 1.5.
    assert abs(found["questions"]["drink"]["value"] - PEOPLE) < 40
    wrong = headcount("analyzer", "count", "home", "nowhere", "--survey", "survey.json", *option)
    assert wrong.status == 2


@slow
def test_the_description_is_also_read_by_spark(tmp_path: Path, spark: SparkSession) -> None:
    survey = distinct(tmp_path / "key", PEOPLE)
    files = written(tmp_path / "batch", survey, messages_of(survey))
    assert files_on_spark(f"{tmp_path / 'batch'}/", spark, TOKEN) == files
    with pytest.raises(Unauthorized):
        files_on_spark(str(tmp_path / "batch"), spark, TOKEN[::-1])
