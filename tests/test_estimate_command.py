"""`headcount estimate` on real data: every kind of place, every policy, and unreadable files."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from commands import Headcount

SURE = ["--epsilon", "500", "--json"]


def asked(headcount: Headcount, *arguments: str) -> dict[str, Any]:
    status, out, err = headcount("estimate", *arguments)
    assert (status, err) == (0, "")
    answer: dict[str, Any] = json.loads(out)
    return answer


@pytest.fixture
def town(tmp_path: Path) -> None:
    """One table in many formats."""
    random = np.random.default_rng(4)
    table = pyarrow.table(
        {
            "who": [f"p{i}" for i in random.integers(0, 300, 900)],
            "smoker": random.integers(0, 2, 900),
            "age": random.integers(0, 100, 900),
            "color": random.choice(["red", "green", "blue", "lilac"], 900),
            "city": random.choice(["Ulm", "Bonn"], 900),
            "gap": [None if i % 10 == 0 else i % 2 for i in range(900)],
        }
    )
    parquet.write_table(table, tmp_path / "town.parquet")
    (tmp_path / "folder").mkdir()
    for at in range(3):
        piece = table.slice(300 * at, 300)
        parquet.write_table(piece, tmp_path / "folder" / f"{at}.parquet")
        with (tmp_path / f"{at}.jsonl").open("w") as file:
            file.writelines(json.dumps(row) + "\n" for row in piece.to_pylist())


def truth(tmp_path: Path) -> Any:
    return parquet.read_table(tmp_path / "town.parquet").to_pandas()


@pytest.mark.usefixtures("town")
@pytest.mark.parametrize("place", ["town.parquet", "folder", "folder/*.parquet", "*.jsonl"])
def test_places(headcount: Headcount, tmp_path: Path, place: str) -> None:
    answer = asked(headcount, place, "--column", "smoker", *SURE)
    assert (answer["value"], answer["users"]) == (truth(tmp_path).smoker.sum(), 900)


@pytest.mark.usefixtures("town")
def test_a_file_with_the_name_of_a_query(headcount: Headcount, tmp_path: Path) -> None:
    (tmp_path / "town.parquet").rename(tmp_path / "from town.parquet")
    assert asked(headcount, "from town.parquet", "--column", "smoker", *SURE)["users"] == 900


@pytest.mark.usefixtures("town")
def test_queries(headcount: Headcount, tmp_path: Path) -> None:
    query = "SELECT smoker FROM 'folder/*.parquet' WHERE age >= 50"
    people = truth(tmp_path)
    answer = asked(headcount, "--query", query, *SURE)
    assert answer["value"] == people[people.age >= 50].smoker.sum()
    for arguments, says in (
        (["town.parquet", "--query", query], "a file or --query must be given, but not both"),
        (["--query", "SELECT nothing FROM nowhere"], "unreadable-data: the query must be readable"),
        (["--query", "DROP TABLE x"], "`query` must be a single SELECT statement, got 'DROP"),
        (["--query", "SELECT * FROM 'town.parquet'"], "`column` must name one of the columns"),
        (["town.parquet"], "--column or --table must be given with a file"),
    ):
        status, out, err = headcount("estimate", *arguments, "--epsilon", "1")
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert says in err


@pytest.mark.usefixtures("town")
def test_missing_and_outside(headcount: Headcount, tmp_path: Path) -> None:
    people = truth(tmp_path)
    gap = ["town.parquet", "--column", "gap"]
    assert asked(headcount, *gap, "--missing", "drop", *SURE)["users"] == 810
    filled = asked(headcount, *gap, "--missing", "1", *SURE)
    assert (filled["users"], filled["value"]) == (900, people.gap.fillna(1).sum())
    shown = headcount("estimate", *gap, "--missing", "drop", "--epsilon", "1").out
    hidden = "it is not hidden which people have no value"
    assert f"protected: replace one person's value; {hidden}" in shown
    age = ["town.parquet", "--column", "age"]
    answer = asked(headcount, *age, "--bins", "0,18,65,99", *SURE)
    assert answer["buckets"] == ["[0, 18)", "[18, 65)", "[65, 99]"]
    assert sum(answer["value"]) == 900
    answer = asked(headcount, *age, "--bins", "18,65,80", "--outside", "clamp", *SURE)
    assert answer["value"] == [(people.age < 65).sum(), (people.age >= 65).sum()]
    color = ["town.parquet", "--column", "color", "--buckets", "red,blue"]
    answer = asked(headcount, *color, "--outside", "other", *SURE)
    assert answer["buckets"] == ["red", "blue", "other"]
    assert answer["value"][2] == people.color.isin(["green", "lilac"]).sum()
    clamp = ["--low", "0", "--high", "50", "--task", "sum", "--whole"]
    by_flag = asked(headcount, *age, *clamp, "--clamp", *SURE)
    by_word = asked(headcount, *age, *clamp, "--outside", "clamp", *SURE)
    assert by_flag["value"] == by_word["value"] == people.age.clip(upper=50).sum()


@pytest.mark.usefixtures("town")
def test_persons_and_groups(headcount: Headcount, tmp_path: Path) -> None:
    people = truth(tmp_path)
    smoker = ["town.parquet", "--column", "smoker"]
    answer = asked(headcount, *smoker, "--person", "who", *SURE)
    assert answer["users"] == people.who.nunique()
    several = [*smoker, "--person", "who", "--rows-per-person", "2", "--epsilon", "1"]
    answer = asked(headcount, *several, "--delta", "1e-6", "--trust", "shuffle", "--json")
    assert answer["users"] == people.groupby("who").size().clip(upper=2).sum()
    promise = answer["guarantee"]
    assert promise["epsilon"] <= 1
    assert promise["delta"] <= 1e-6
    assert promise["neighbors"].startswith("replace all rows (up to 2) of one person")
    assert (
        "protected: replace all rows (up to 2) of one person" in headcount("estimate", *several).out
    )
    answer = asked(headcount, *smoker, "--group", "city", *SURE)
    sums = people.groupby("city").smoker.sum()
    assert {one["group"]: one["value"] for one in answer["groups"]} == sums.to_dict()
    shown = headcount("estimate", *smoker, "--group", "city", "--epsilon", "1").out
    assert re.search(r"^Bonn +\d+ +central", shown, flags=re.MULTILINE)
    assert "2 groups, 900 people" in shown
    assert "spent for all groups together: (1, 0)-DP" in shown
    for groups, says in (("Ulm", "every group must be one of"), ("Ulm,Ulm", "distinct words")):
        refused = headcount(
            "estimate", *smoker, "--group", "city", "--groups", groups, "--epsilon", "1"
        )
        assert refused.status == 2
        assert says in refused.err
    named = asked(headcount, *smoker, "--group", "city", "--groups", "Ulm,Bonn", *SURE)
    assert [one["group"] for one in named["groups"]] == ["Bonn", "Ulm"]


@pytest.mark.usefixtures("town")
@pytest.mark.parametrize(
    "question",
    [
        ["--column", "smoker"],
        ["--column", "age", "--low", "0", "--high", "100"],
        ["--column", "age", "--buckets", "100"],
        ["--column", "age", "--low", "0", "--high", "100", "--task", "density"],
        ["--column", "smoker", "--group", "city"],
        ["--column", "color", "--buckets", "red,green,blue,lilac", "--group", "city"],
    ],
    ids=" ".join,
)
def test_results_as_files(headcount: Headcount, tmp_path: Path, question: list[str]) -> None:
    arguments = ["town.parquet", *question, "--epsilon", "1"]
    for ending in ("json", "parquet", "html"):
        shown = headcount("estimate", *arguments, "--out", f"result.{ending}")
        assert (shown.status, shown.err) == (0, "")
        assert f"saved: result.{ending}" in shown.out
    grouped, many = "--group" in question, "--buckets" in question or "density" in question
    document = json.loads((tmp_path / "result.json").read_text())
    assert document["guarantee"]["epsilon"] == 1
    assert ("groups" in document) == grouped
    table = parquet.read_table(tmp_path / "result.parquet")
    assert {"value", "standard_error", "low", "high", "users"} <= set(table.column_names)
    assert ("group" in table.column_names) == grouped
    assert ("bucket" in table.column_names) == many
    about = json.loads(table.schema.metadata[b"headcount"])
    assert about["guarantee"]["epsilon"] == 1
    assert about["confidence"] == 0.95
    page = (tmp_path / "result.html").read_text()
    assert ("<svg" in page) == many
    assert "What is promised" in page
    assert "900" in page
    assert not re.search(r"(src|href)=[\"']?http", page)  # it holds all that it needs


@pytest.mark.usefixtures("town")
def test_results_that_cannot_be_written(headcount: Headcount, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    for out, says in (
        ("absent/x.json", "there must be a folder 'absent' to write to, got none"),
        ("x.txt", "must end in"),
        ("x.svg", "--out x.svg must come with a table or density or distribution"),
    ):
        shown = headcount(
            "estimate", "town.parquet", "--column", "smoker", "--epsilon", "1", "--out", out
        )
        assert (shown.status, shown.out, shown.err.count("\n")) == (2, "", 1)
        assert says in shown.err
    grouped = headcount(
        "estimate", "town.parquet", "--column", "age", "--task", "density", "--low", "0", "--high",
        "100", "--epsilon", "1", "--group", "city", "--out", "x.png",
    )  # fmt: skip
    assert grouped.status == 2
    assert "a figure must show one group" in grouped.err
    assert sorted(tmp_path.iterdir()) == before


def bad(folder: Path) -> None:
    """Files that give no answer."""
    good = pyarrow.table({"v": np.arange(10**5) % 2})
    parquet.write_table(good, folder / "good.parquet")
    whole = (folder / "good.parquet").read_bytes()
    (folder / "half.parquet").write_bytes(whole[: len(whole) // 2])
    # The end of the file, with its metadata, is there, but its middle is missing.
    (folder / "hole.parquet").write_bytes(whole[:100] + bytes(len(whole) - 1100) + whole[-1000:])
    (folder / "mixed.csv").write_text("v\n1\n0\nmaybe\n1\n")
    (folder / "late.csv").write_text("v\n" + "1\n" * 3 * 10**6 + "maybe\n")
    (folder / "mixed.jsonl").write_text('{"v": 1}\n{"v": "yes"}\n')
    (folder / "broken.jsonl").write_text('{"v": 1}\n{"v": \n')
    (folder / "huge.csv").write_text(f"v\n1\n{10**30}\n")
    (folder / "huge.jsonl").write_text(f'{{"v": 1}}\n{{"v": {10**30}}}\n')
    words = "".join(f"w{i}\n" for i in range(10**6))
    (folder / "words.csv").write_text(f"v\n{words}")
    (folder / "latin.csv").write_bytes("v\nä\nö\n".encode("latin-1"))
    (folder / "empty.csv").write_text("")
    (folder / "empty.jsonl").write_text("")
    (folder / "empty.parquet").write_bytes(b"")
    parquet.write_table(good[:0], folder / "norows.parquet")
    parquet.write_table(pyarrow.table({"v": [[1], [0]]}), folder / "lists.parquet")
    parquet.write_table(pyarrow.table({"v": [{"a": 1}]}), folder / "structs.parquet")
    (folder / "dates.csv").write_text("v\n2020-01-01\n2020-01-02\n")
    (folder / "ragged.csv").write_text("v,w\n1,2\n1\n")
    for name in ("empty", "two", "unlike"):
        (folder / name).mkdir()
    (folder / "two" / "a.csv").write_text("v\n1\n")
    parquet.write_table(good, folder / "two" / "b.parquet")
    parquet.write_table(good, folder / "unlike" / "a.parquet")
    parquet.write_table(pyarrow.table({"v": ["a"]}), folder / "unlike" / "b.parquet")


@pytest.mark.parametrize(
    ("file", "more", "says"),
    [
        ("half.parquet", [], "half.parquet must be a readable .parquet file, got: "),
        ("hole.parquet", [], "hole.parquet must be a readable .parquet file, got: "),
        ("good.parquet", ["--column", "value"], "good.parquet must have a column 'value', got v"),
        (
            "mixed.csv",
            [],
            "of mixed.csv must hold numbers or true/false, got text like 'maybe'",
        ),
        ("late.csv", [], "late.csv must be a readable .csv file, got: "),
        ("mixed.jsonl", [], "mixed.jsonl must be a readable file of JSON lines, got: "),
        ("broken.jsonl", [], "broken.jsonl must be a readable file of JSON lines, got: "),
        ("huge.csv", [], "every value must be 0 or 1, got 1e+30 from person 2"),
        ("huge.jsonl", [], "must be"),
        ("words.csv", ["--buckets", "w0,w1"], "got 'w2' from person 3, and 999,997 more like it"),
        (
            "words.csv",
            [],
            "of words.csv must hold numbers or true/false, got text like 'w0'",
        ),
        ("latin.csv", ["--buckets", "a,b"], "got text that is not UTF-8 (encoding='latin-1'"),
        ("latin.csv", [], "latin.csv must be a readable .csv file, got text that is not UTF-8"),
        ("empty.csv", [], "empty.csv must be a readable .csv file, got: "),
        ("empty.jsonl", [], "empty.jsonl must be a readable file of JSON lines, got: "),
        ("empty.parquet", [], "empty.parquet must be a readable .parquet file, got: "),
        ("norows.parquet", [], "column 'v' of norows.parquet must have at least one row"),
        ("lists.parquet", [], "must hold numbers, true/false or text, got list<element: int64>"),
        ("structs.parquet", [], "must hold numbers, true/false or text, got struct<a: int64>"),
        ("dates.csv", [], "must hold numbers, true/false or text, got date32[day]"),
        (
            "ragged.csv",
            [],
            "ragged.csv must have 2 values in each row, as in its first row, got",
        ),
        (
            "empty",
            [],
            "there must be a file that ends in .csv, .parquet or .jsonl in 'empty', got none",
        ),
        ("two", [], "files must all have the same format, got .csv, .parquet in two"),
        ("unlike", [], "all files must have the same type of column 'v', got int64 in unlike"),
        ("absent*.csv", [], "there must be a file or folder at 'absent*.csv', got none"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_bad_files_are_refused_in_a_line(
    headcount: Headcount, tmp_path: Path, file: str, more: list[str], says: str
) -> None:
    bad(tmp_path)
    column = [] if "--column" in more else ["--column", "v"]
    status, out, err = headcount("estimate", file, *column, *more, "--epsilon", "1")
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert len(err) < 400
    assert says in err


# With a ledger --------------------------------------------------------------------------------


@pytest.mark.usefixtures("people")
def test_what_is_spent_is_recorded_and_refused_beyond_the_limit(headcount: Headcount) -> None:
    limit = ["--dataset", "town", "--epsilon", "1"]
    assert headcount("ledger", "create", "spent.db", *limit).status == 0
    asked = ["estimate", "people.csv", "--column", "smoker", "--ledger", "spent.db"]
    for epsilon in ("0.1", "0.2", "0.3", "0.4"):
        done = headcount(*asked, "--epsilon", epsilon)
        assert (done.status, done.err) == (0, "")
        assert "recorded in: spent.db" in done.out
    refused = headcount(*asked, "--epsilon", "1e-9")
    assert refused.status == 4
    assert refused.out == ""
    assert refused.err.startswith("headcount: budget-exhausted: ")
    assert refused.err.count("\n") == 1
    shown = json.loads(headcount("ledger", "show", "spent.db", "--json").out)
    (town,) = shown["datasets"]
    assert [entry["epsilon"] for entry in town["entries"]] == [0.1, 0.2, 0.3, 0.4]
    assert town["entries"][0]["note"]["column"] == "smoker"
    assert town["entries"][0]["users"] == 2000


@pytest.mark.usefixtures("people")
def test_trusts_groups_and_people_are_recorded_together(headcount: Headcount) -> None:
    limit = ["--dataset", "town", "--epsilon", "4", "--delta", "1e-5"]
    assert headcount("ledger", "create", "spent.db", *limit).status == 0
    asked = ["estimate", "people.parquet", "--column", "number", "--epsilon", "1"]
    asked += ["--ledger", "spent.db", "--dataset", "town", "--json"]
    for more in (
        ["--trust", "local"],
        ["--trust", "shuffle", "--delta", "1e-6"],
        ["--group", "smoker"],
        ["--person", "age", "--rows-per-person", "2"],
    ):
        done = headcount(*asked, *more)
        assert (done.status, done.err) == (0, ""), more
        assert json.loads(done.out)["charge"]["ledger"] == "spent.db"
    shown = json.loads(headcount("ledger", "show", "spent.db", "--json").out)
    entries = shown["datasets"][0]["entries"]
    assert [entry["trust"] for entry in entries] == ["local", "shuffle", "central", "central"]
    assert "rows (up to 2) of one person" in entries[-1]["note"]["protected"]


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ledger", "none.db"], "there must be a ledger"),
        (["--ledger", "people.csv"], "must be a ledger"),
        (["--ledger", "spent.db", "--dataset", "village"], "no dataset 'village'"),
        (["--dataset", "town"], "must come with a ledger"),
        (
            ["--ledger", "spent.db", "--seed", "1", "--not-private"],
            "--ledger must come without --seed",
        ),
    ],
)
def test_ledgers_that_do_not_fit_are_one_line(
    headcount: Headcount, arguments: list[str], message: str
) -> None:
    headcount("ledger", "create", "spent.db", "--dataset", "town", "--epsilon", "1")
    done = headcount("estimate", "people.csv", "--column", "smoker", "--epsilon", "1", *arguments)
    assert (done.status, done.out) == (2, "")
    assert message in done.err
    assert done.err.count("\n") == 1


@pytest.mark.usefixtures("people")
def test_what_cannot_be_saved_is_refused_before_it_is_spent(
    headcount: Headcount, tmp_path: Path
) -> None:
    headcount("ledger", "create", "spent.db", "--dataset", "town", "--epsilon", "1")
    (tmp_path / "taken.json").mkdir()
    asked = ["estimate", "people.csv", "--column", "smoker", "--epsilon", "1"]
    done = headcount(*asked, "--ledger", "spent.db", "--out", "taken.json")
    assert (done.status, done.out) == (2, "")
    assert "must be a place to write to" in done.err
    shown = json.loads(headcount("ledger", "show", "spent.db", "--json").out)
    assert shown["datasets"][0]["entries"] == []


def test_groups_of_files_go_by_their_text(headcount: Headcount, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "a.csv").write_text("v,g\n" + "1,1\n" * 30)
    (folder / "b.csv").write_text("v,g\n" + "0,1\n0,x\n" * 20)
    asked = ["estimate", "parts", "--column", "v", "--group", "g", "--epsilon", "1", "--json"]
    for more in ([], ["--groups", "1,x"]):
        found = json.loads(headcount(*asked, *more).out)
        assert found["grouped_by"] == "g"
        assert [(one["group"], one["users"]) for one in found["groups"]] == [("1", 50), ("x", 20)]
    done = headcount(*asked, "--groups", "1")
    assert done.status == 2
    assert "every group must be one of" in done.err


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("flag", ["--group", "--person"])
def test_what_is_public_is_not_the_question(headcount: Headcount, flag: str) -> None:
    done = headcount(
        "estimate", "people.csv", "--column", "smoker", flag, "smoker", "--epsilon", "1"
    )
    assert (done.status, done.out) == (2, "")
    assert "`column` must differ from the columns of persons and groups" in done.err


@pytest.mark.usefixtures("people")
def test_what_was_asked_is_a_line_however_long(headcount: Headcount) -> None:
    """In a pipe, no terminal limits the width of a line. One message is one line."""
    done = headcount(
        "estimate", "people.csv", "--column", "smoker", "--task", "density", "--low", "0", "--high",
        "1", "--epsilon", "1", "--trust", "local", "--postprocess", "density",
    )  # fmt: skip
    assert done.status == 0
    last = " people, 1 message each, post-processed: density"
    assert any(line.endswith(last) for line in done.out.splitlines())


def test_one_person_is_not_called_people(headcount: Headcount, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("v,g\n1,a\n")
    asked = ["estimate", "one.csv", "--column", "v", "--epsilon", "1"]
    assert "central.geometric, 1 person, 1 message each" in headcount(*asked).out
    assert "central.geometric, 1 group, 1 person" in headcount(*asked, "--group", "g").out
