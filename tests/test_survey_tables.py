"""Surveys and reports of messy tables: however a table is written, its answers are the same.

The budget is so large that the noise is far smaller than one person, so estimates are the truth.
"""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pyarrow
import pytest
from pyarrow import parquet

import headcount as hc
from commands import Headcount
from headcount.data.reading import Reading
from headcount.survey.questions import Choice, Number, Several, YesNo
from headcount.survey.spark import CheckStep, Reader

QUESTIONS = [
    YesNo("smoke", "Do you smoke?", optional=True),
    YesNo("help", "Did you get help?"),
    Choice("city", "Where do you live?", ("Köln", "Zürich"), optional=True),
    Several("boxes", "Which?", ("x", "y"), optional=True),
    Number("hours", "How long?", 0, 10, want=("mean",), cells=20, optional=True),
]
SURVEY = hc.Survey(QUESTIONS, hc.Budget(60), hc.Trust.CENTRAL, 1)
HEADER = ["smoke", "help", "city", "boxes.x", "boxes.y", "hours"]
ROWS = [
    ["Ja", "Ja", "Köln", "JA", "nein", "3,5"],
    ["nein", "Nein", "Zürich", "Nein", "Ja", "0,5"],
    ["-", "ja", "k.A.", "-", "-", "-"],
    ["JA", "nein", "-", "ja", "ja", "9"],
]
SETTINGS: dict[str, Any] = {"yes": "ja", "no": "nein", "na": ["-", "k.A."], "decimal": ","}
OPTIONS = ("--yes", "ja", "--no", "nein", "--na", "-,k.A.", "--decimal", ",")
REPEATS = 50


def lines(sign: str, quote: str = "") -> str:
    rows = [HEADER, *ROWS * REPEATS]
    return "\n".join(sign.join(f"{quote}{cell}{quote}" for cell in row) for row in rows) + "\n"


def counted(results: hc.SurveyResults) -> dict[str, Any]:
    """The counts of each question, as whole numbers of rows."""
    found = {}
    for name, estimate in results.estimates.items():
        value = np.asarray(estimate.value, dtype=float)
        if estimate.task == "distribution":  # its values are shares of people, added up
            value = estimate.users * np.diff([0.0, *value, 1.0])
        found[name] = np.round(value / REPEATS).astype(int).tolist()
    return found


EXPECTED = {
    "smoke": [1, 2, 1],  # no, yes, no answer
    "help": 2,
    "city": [1, 1, 2],
    "boxes": [2, 2, 1],
}


def check(results: hc.SurveyResults) -> None:
    counts = counted(results)
    assert {name: counts[name] for name in EXPECTED} == EXPECTED
    cells = np.flatnonzero(counts["hours"])
    assert cells.tolist() == [1, 7, 18, 20]  # cells have a width of 0.5, and 20 is "no answer"


def workbook(path: Path) -> None:
    book = openpyxl.Workbook()
    book.active.title = "notes"
    sheet = book.create_sheet("answers")
    for row in [HEADER, *ROWS * REPEATS]:
        sheet.append(row)
    book.save(path)


FILES: dict[str, tuple[Callable[[Path], Any], dict[str, str]]] = {
    "semicolons.csv": (lambda p: p.write_text(lines(";")), {}),
    "named.csv": (lambda p: p.write_text(lines(";")), {"separator": "semicolon"}),
    "tabs.tsv": (lambda p: p.write_text(lines("\t")), {}),
    "quotes.csv": (lambda p: p.write_text(lines(",", "'")), {"quote": "'", "separator": ","}),
    "latin.csv": (lambda p: p.write_text(lines(";"), "latin-1"), {"encoding": "latin-1"}),
    "utf16.csv": (lambda p: p.write_text(lines(";"), "utf-16"), {}),
    "packed.csv.gz": (lambda p: p.write_bytes(gzip.compress(lines(";").encode())), {}),
    "book.xlsx": (workbook, {"sheet": "answers"}),
    "words.parquet": (
        lambda p: parquet.write_table(
            pyarrow.table(dict(zip(HEADER, zip(*ROWS * REPEATS, strict=True), strict=True))), p
        ),
        {},
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_survey_reads_tables_as_they_are(name: str, tmp_path: Path) -> None:
    write, settings = FILES[name]
    write(tmp_path / name)
    given: Any = {**SETTINGS, **settings}
    check(SURVEY.run(tmp_path / name, **given))


def test_answers_in_memory_are_read_by_the_same_rules() -> None:
    columns = dict(zip(HEADER, zip(*ROWS * REPEATS, strict=True), strict=True))
    check(SURVEY.run(pyarrow.table(columns), **SETTINGS))
    ticked = {("JA", "nein"): "x", ("Nein", "Ja"): "y", ("-", "-"): "-", ("ja", "ja"): "x;y"}
    boxes = [ticked[pair] for pair in zip(columns["boxes.x"], columns["boxes.y"], strict=True)]
    check(SURVEY.run({**columns, "boxes": boxes}, **SETTINGS))


def test_numbers_may_stand_for_yes_no_and_missing() -> None:
    survey = hc.Survey(
        [YesNo("a", "?", optional=True), Number("b", "?", 0, 10, cells=10, optional=True)],
        hc.Budget(60), hc.Trust.CENTRAL, 1,
    )  # fmt: skip
    codes: Any = {"yes": "1", "no": "2", "na": ["-9", "9"]}
    for kind in (int, float):
        found = survey.run(
            {
                "a": [*map(kind, [1, 2, 2, -9])] * REPEATS,
                "b": [*map(kind, [9, 4, 9, -9])] * REPEATS,
            },
            **codes,
        )
        counts = counted(found)
        assert counts["a"] == [2, 1, 1]
        assert np.flatnonzero(counts["b"]).tolist() == [4, 10]
    ticks = {"a": [True, False] * REPEATS, "b": [4, 4] * REPEATS}
    assert counted(survey.run(ticks, **codes))["a"] == [1, 1, 0]
    with pytest.raises(hc.InvalidValue, match=r"1 for yes, or 2 for no, got 0 \(row 2\)"):
        survey.run({"a": [1, 0], "b": [4, 4]}, **codes)


def test_commands_read_tables_as_they_are(headcount: Headcount, tmp_path: Path) -> None:
    (tmp_path / "town.csv").write_text(lines(";"), "latin-1")
    file = ['[privacy]\ntrust = "central"\nepsilon = 60\nleast_people = 1']
    for one in SURVEY.to_dict()["question"]:
        file.append("[[question]]\n" + "\n".join(f"{k} = {json.dumps(v)}" for k, v in one.items()))
    (tmp_path / "q.toml").write_text("\n".join(file))
    for command in (("report",), ("survey", "run")):
        call = (*command, str(tmp_path / "q.toml"), str(tmp_path / "town.csv"))
        unread = headcount(*call, *OPTIONS)
        assert unread.status == 2
        assert "--encoding latin-1" in unread.err
        done = headcount(*call, *OPTIONS, "--encoding", "latin-1", "--json")
        assert done.status == 0, done.err
        first, *_ = json.loads(done.out)["questions"]
        assert [round(count / REPEATS) for count in first["estimate"]["value"]] == [1, 2, 1]


@pytest.mark.parametrize(
    ("answers", "settings", "said"),
    [
        ({"a": ["ja"], "b": [1]}, {}, "got 'ja' (row 1) (yes='ja' and no=… (--yes ja --no …)"),
        ({"a": ["NA"], "b": [1]}, {}, "got 'NA' (row 1) (na='NA' (--na NA) reads it as"),
        ({"a": ["no"], "b": ["2,5"]}, {}, "(decimal=',' (--decimal ,) reads a decimal comma"),
        ({"a": ["no"], "b": ["2.5"]}, {"decimal": ","}, "got '2.5' (row 1)"),
        ({"a": ["no"], "b": ["1,2,5"]}, {"decimal": ","}, "got '1,2,5' (row 1)"),
        ({"a": ["-"], "b": [1]}, {"na": "-"}, "got no answer (row 1) (write optional = true"),
        ({"a": ["so"], "b": [1]}, {"yes": "ja", "no": "nein"}, "ja for yes, or nein for no, got"),
        ({"a": ["no"], "b": [1]}, {"yes": "ja"}, "`no` must say which answers mean no"),
        ({"a": ["no"], "b": [1]}, {"separator": ";"}, "`separator` must come with files"),
        ({"a": ["no"], "b": [1]}, {"decimal": ";"}, "`decimal` must be one of"),
    ],
)  # fmt: skip
def test_refusals_name_the_way_out(answers: Any, settings: dict[str, Any], said: str) -> None:
    survey = hc.Survey(
        [YesNo("a", "?"), Number("b", "?", 0, 10)], hc.Budget(1), hc.Trust.CENTRAL, 1
    )
    with pytest.raises(hc.HeadcountError) as caught:
        survey.run(answers, **settings)
    assert said in str(caught.value)


def test_an_executor_reads_by_the_same_rules_and_shows_no_answer() -> None:
    rules = Reading(yes=("ja",), no=("nein",), na=("-",), decimal=",")
    reader = Reader((QUESTIONS[0], QUESTIONS[4]), ("smoke", "hours"), rules)
    batch = pyarrow.record_batch({"p": ["JA", "nein", "-"], "q": ["3,5", "-", "9"]})
    assert reader.encoded(batch)["smoke"].tolist() == [1, 0, 2]
    for wrong in ({"p": ["vielleicht"], "q": ["1"]}, {"p": ["ja"], "q": ["7.25"]}):
        (refused,) = CheckStep(reader)(iter([pyarrow.record_batch(wrong)]))
        said = str(refused.to_pylist())
        assert "must be answered" in said
        assert "vielleicht" not in said
        assert "7.25" not in said


# Kept answers on the command line --------------------------------------------------------------

PANEL = """
[privacy]
trust = "local"
epsilon = 1
least_people = 100
waves = 12
keep_answers = true
[[question]]
id = "smoke"
text = "Do you smoke?"
kind = "yes-no"
"""


def test_waves_with_kept_answers_are_run_by_a_command(
    headcount: Headcount, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("panel.toml").write_text(PANEL)
    people = [(f"p{at}", "yes" if at % 3 else "no") for at in range(200)]
    for name, order in (("first.csv", people), ("second.csv", people[::-1])):
        rows = "\n".join(f"{who};{said}" for who, said in order)
        Path(name).write_text(f"who;smoke\n{rows}\n")
    headcount("ledger", "create", "spent.db", "--dataset", "panel", "--epsilon", "1")
    kept = ("--kept", "kept.json", "--person", "who", "--ledger", "spent.db", "--json")
    values = []
    for name in ("first.csv", "second.csv"):
        done = headcount("survey", "run", "panel.toml", name, *kept)
        assert done.status == 0, done.err  # the second wave repeats the first, and costs nothing
        values.append(json.loads(done.out)["questions"][0]["estimate"]["value"])
    assert values[0] == values[1]
    assert (tmp_path / "kept.json").stat().st_mode & 0o077 == 0
    Path("third.csv").write_text(Path("first.csv").read_text().replace("p7;yes", "p7;no"))
    spent = headcount("survey", "run", "panel.toml", "third.csv", *kept)
    assert spent.status == 4  # a further answer of one person would be charged


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--kept kept.json --person COLUMN"),
        (("--kept", "kept.json"), "--kept and --person must come together"),
        (("--kept", "kept.json", "--person", "smoke"), "a column without answers"),
        (("--kept", "kept.json", "--person", "name"), "must have a column 'name'"),
        (("--kept", "kept.json", "--person", "who"), "'who' must have a name for each person"),
        (("--kept", "kept.json", "--person", "who", "--out", "kept.json"), "a different file from"),
    ],
)  # fmt: skip
def test_waves_without_names_are_refused(
    headcount: Headcount,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("panel.toml").write_text(PANEL)
    Path("a.csv").write_text("who,smoke\np1,yes\n,no\n")
    refused = headcount("survey", "run", "panel.toml", "a.csv", *options)
    assert refused.status == 2
    assert said in refused.err
    assert not Path("kept.json").exists()
