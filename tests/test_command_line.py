"""The commands as a user sees them: output, JSON, exit status, and one line for every refusal."""

import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyarrow import csv, parquet

from commands import Headcount
from fuzzing import lines
from headcount.cli import estimate
from headcount.cli.app import app
from headcount.planner import plan


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("trust", ["central", "shuffle", "local"])
@pytest.mark.parametrize(
    ("file", "column"), [("people.csv", "smoker"), ("people.parquet", "smoker"),
                         ("people.parquet", "number")]
)  # fmt: skip
def test_estimate(headcount: Headcount, trust: str, file: str, column: str) -> None:
    arguments = ["estimate", file, "--column", column, "--task", "count", "--epsilon", "2"]
    arguments += ["--delta", "1e-4", "--trust", trust]
    status, out, err = headcount(*arguments)
    assert (status, err) == (0, "")
    assert trust in out
    assert "2,000 people" in out
    status, out, err = headcount(*arguments, "--json", "--confidence", "0.9999999")
    assert (status, err) == (0, "")
    answer = json.loads(out)
    assert {"task", "protocol", "value", "standard_error", "interval", "users"} <= set(answer)
    assert answer["users"] == answer["guarantee"]["honest"] == 2000
    assert answer["guarantee"]["trust"] == trust
    assert answer["interval"]["low"] <= 500 <= answer["interval"]["high"]
    assert answer["guarantee"]["epsilon"] <= 2


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("trust", ["central", "shuffle", "local"])
@pytest.mark.parametrize(
    ("task", "whole"),
    [
        ("sum", True),
        ("mean", False),
        pytest.param("sum", False, marks=pytest.mark.slow),
        pytest.param("mean", True, marks=pytest.mark.slow),
    ],
)
def test_sums_and_means(headcount: Headcount, trust: str, task: str, whole: bool) -> None:
    arguments = ["estimate", "people.parquet", "--column", "age", "--task", task, "--low", "-1"]
    arguments += ["--high", "89", "--epsilon", "2", "--delta", "1e-4", "--trust", trust]
    arguments += ["--whole"] * whole
    status, out, err = headcount(*arguments)
    assert (status, err) == (0, "")
    assert "2,000 people" in out
    answer = json.loads(headcount(*arguments, "--json", "--confidence", "0.9999999").out)
    truth = sum(i % 90 for i in range(2000)) / (2000 if task == "mean" else 1)
    assert answer["task"] == task
    assert answer["interval"]["low"] <= truth <= answer["interval"]["high"]
    assert ("sampling_error" in answer) == (task == "mean")


@pytest.mark.usefixtures("people")
def test_clamped_values_and_populations(headcount: Headcount) -> None:
    arguments = ["estimate", "people.csv", "--column", "age", "--low", "0", "--high", "50"]
    arguments += ["--epsilon", "1"]
    refused = headcount(*arguments)
    assert refused.status == 2
    plain = headcount(*arguments, "--clamp", "--json")
    wide = headcount(*arguments, "--clamp", "--json", "--sampling")
    assert (plain.status, wide.status) == (0, 0)
    narrow, broad = (json.loads(found.out)["interval"] for found in (plain, wide))
    assert json.loads(plain.out)["task"] == "mean"  # bounds mean a mean
    assert broad["high"] - broad["low"] > 3 * (narrow["high"] - narrow["low"])
    assert "for the population" in headcount(*arguments, "--clamp", "--sampling").out
    total = headcount(*arguments, "--clamp", "--task", "sum", "--sampling")
    assert total.status == 2
    assert "--sampling must come with a count or histogram or table or mean or" in total.err


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("trust", ["central", "shuffle", "local"])
def test_densities(headcount: Headcount, trust: str, tmp_path: Path) -> None:
    arguments = ["estimate", "people.parquet", "--column", "age", "--low", "-10", "--high", "110"]
    arguments += ["--epsilon", "2", "--delta", "1e-4", "--trust", trust, "--smoothness", "1.5"]
    status, out, err = headcount(*arguments, "--out", str(tmp_path / "ages.png"))
    assert (status, err) == (0, "")
    assert "20 of 256 points" in out
    assert "ages.png" in out
    assert (tmp_path / "ages.png").read_bytes().startswith(b"\x89PNG")
    status, out, err = headcount(
        *arguments, "--json", "--sampling", "--simultaneous", "--postprocess", "density",
        "--confidence", "0.9999999",
    )  # fmt: skip
    answer = json.loads(out)
    assert answer["task"] == "density"
    assert answer["postprocessing"] == ["density"]
    assert len(answer["buckets"]) == len(answer["value"]) == 256
    assert sum(answer["value"]) / 256 == pytest.approx(1 / 120)
    assert min(answer["value"]) >= 0
    assert answer["interval"]["of"] == "population"
    assert answer["interval"]["simultaneous"] is True
    flat = 1 / 90  # from −½ to 89½; no value lies beyond
    for at, low, high in zip(
        answer["buckets"], answer["interval"]["low"], answer["interval"]["high"], strict=True
    ):
        if 10 < at < 70:  # away from the edges, where bins smooth
            assert low <= flat <= high
    bins = headcount(
        *arguments[:-2], "--protocol", f"{trust}.density-histogram", "--option", "bins=7", "--json"
    )
    assert bins.status == (2 if trust == "central" else 0)


@pytest.mark.usefixtures("people")
def test_simultaneous_and_postprocessed_histograms(headcount: Headcount) -> None:
    arguments = ["estimate", "people.parquet", "--column", "age", "--buckets", "90"]
    arguments += ["--epsilon", "0.5", "--trust", "local"]
    alone = json.loads(headcount(*arguments, "--json").out)["interval"]
    together = json.loads(headcount(*arguments, "--simultaneous", "--json").out)["interval"]
    widths = [sum(i["high"]) - sum(i["low"]) for i in (alone, together)]
    assert widths[1] > 1.3 * widths[0]
    shown = headcount(*arguments, "--simultaneous", "--postprocess", "norm-sub")
    assert "simultaneous 95 % interval" in shown.out
    assert "norm-sub" in shown.out
    answer = json.loads(headcount(*arguments, "--postprocess", "simplex", "--json").out)
    assert sum(answer["value"]) == pytest.approx(2000)
    assert min(answer["value"]) == 0 > min(answer["unbiased_value"])


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ["--simultaneous"],
            "--simultaneous must come with a histogram or table or density or distribution",
        ),
        (
            ["--postprocess", "simplex"],
            "`postprocess` simplex must come with a histogram or table, got a",
        ),
        (
            ["--postprocess", "trim"],
            "`postprocess` must be one of clip, norm-sub, simplex",
        ),
        (["--out", "x.png"], "--out x.png must come with a table or density or distribution"),
        (["--task", "density"], "a density must have --low and --high, got none"),
        (["--smoothness", "2", "--low", "0"], "a density must have --high, got none"),
        (
            ["--smoothness", "9", "--low", "0", "--high", "1"],
            "`smoothness` must be between 0.1 and 4.0, got 9",
        ),
        (
            ["--smoothness", "1", "--low", "0", "--high", "1", "--out", "x.jpg"],
            "a result must end in .json, .csv, .parquet, .html, .png, .svg, .pdf, got 'x.jpg'",
        ),
    ],
)
def test_flags_that_do_not_fit_the_question(
    headcount: Headcount, flags: list[str], said: str
) -> None:
    status, out, err = headcount(
        "estimate", "people.csv", "--column", "smoker", "--epsilon", "1", *flags
    )
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.usefixtures("people")
def test_estimate_by_protocol_with_options(headcount: Headcount) -> None:
    arguments = [
        "estimate",
        "people.csv",
        "--column",
        "smoker",
        "--epsilon",
        "2",
        "--delta",
        "0.01",
    ]
    arguments += [
        "--protocol",
        "shuffle.zero-exact",
        "--option",
        "analyzer=zero-exact",
        "--honest",
        "1500",
    ]
    answer = json.loads(headcount(*arguments, "--calibration", "paper", "--json").out)
    assert answer["postprocessing"] == ["zero-exact"]
    assert answer["guarantee"]["honest"] == 1500
    assert answer["guarantee"]["exact"] is False
    assert answer["local_epsilon"] is None
    assert "zero-exact" in headcount(*arguments).out


GOOD = {"file": "people.parquet", "--column": "smoker", "--epsilon": "1"}


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(
    ("change", "status", "code", "says"),
    [
        ({"file": "absent.csv"}, 2, "unreadable-data", "must be a file"),
        ({"file": "folder.csv"}, 2, "unreadable-data", "must be a file"),
        ({"file": "people.txt"}, 2, "unreadable-data", "must end in .csv or .parquet"),
        ({"file": "broken.parquet"}, 2, "unreadable-data", "must be a readable .parquet file"),
        ({"file": "nothing.csv"}, 2, "unreadable-data", "must be a readable .csv file"),
        ({"file": "empty.csv"}, 2, "invalid-value", "at least one row"),
        ({"file": "twice.csv"}, 2, "unreadable-data", "got 2 columns with this name"),
        ({"--column": "smokes"}, 2, "unreadable-data", "must have a column 'smokes', got smoker"),
        ({"--column": "age"}, 2, "invalid-value", "must be 0 or 1, got 2 from person 3, and"),
        (
            {"--column": "name"},
            2,
            "invalid-value",
            "must hold numbers or true/false, got text like",
        ),
        (
            {"--column": "missing"},
            2,
            "invalid-value",
            "everyone must have a value, got none for person 1",
        ),
        ({"--column": "unsure"}, 2, "invalid-value", "got nan from person 2"),
        ({"--epsilon": "0"}, 2, "invalid-parameter", "`epsilon` must be positive"),
        ({"--epsilon": "-1"}, 2, "invalid-parameter", "`epsilon` must be positive"),
        ({"--epsilon": "nan"}, 2, "invalid-parameter", "`epsilon` must be finite"),
        ({"--epsilon": "one"}, 2, "usage", "should be a valid number"),
        ({"--delta": "1"}, 2, "invalid-parameter", "`delta` must be at least 0 and below 1"),
        ({"--delta": "-0.5"}, 2, "invalid-parameter", "`delta` must be at least 0 and below 1"),
        ({"--honest": "3000"}, 2, "invalid-parameter", "`honest` must be between 1 and 2000"),
        ({"--confidence": "95"}, 2, "invalid-parameter", "`confidence` must be strictly"),
        ({"--task": "vote"}, 2, "invalid-parameter", "`task` must be one of count"),
        ({"--trust": "blind"}, 2, "usage", "'blind' is not one of"),
        ({"--protocol": "magic"}, 2, "unknown-name", "`protocol` must be one of"),
        ({"--option": "analyzer=unbiased"}, 2, "invalid-parameter", "must come with --protocol"),
        (
            {"--protocol": "central.geometric", "--option": "analyzer=unbiased"},
            2,
            "unknown-name",
            "takes the options calibration",
        ),
        ({"--low": "0"}, 2, "invalid-parameter", "a mean must have --high, got none"),
        (
            {"--low": "0", "--task": "count"},
            2,
            "invalid-parameter",
            "--low must come with a sum or mean or density or distribution or",
        ),
        ({"--task": "mean"}, 2, "invalid-parameter", "a mean must have --low and --high, got none"),
        ({"--task": "sum", "--low": "0"}, 2, "invalid-parameter", "must have --high, got none"),
        (
            {"--task": "sum", "--low": "9", "--high": "1"},
            2,
            "invalid-parameter",
            "`low` must be below `high`, got 9.0 and 1.0",
        ),
        (
            {"--task": "mean", "--column": "age", "--low": "0", "--high": "80"},
            2,
            "invalid-value",
            "must be a number from 0.0 to 80.0, got 81 from person 82, and 197 more like it",
        ),
        (
            {"--task": "mean", "--low": "0", "--high": "1", "--buckets": "5"},
            2,
            "invalid-parameter",
            "--buckets must come with a histogram, got a mean",
        ),
        (
            {"--task": "sum", "--low": "0", "--high": "1", "--protocol": "shuffle.split-and-mix"},
            3,
            "infeasible",
            "nearest feasible: delta=",
        ),
        (
            {"--task": "sum", "--low": "0", "--high": "1", "--protocol": "local.k-ary"},
            2,
            "invalid-parameter",
            "`task` must be a histogram",
        ),
        ({"file": "gap.csv"}, 2, "invalid-value", "got none for person 3"),
        (
            {"--protocol": "central.geometric", "--trust": "local"},
            2,
            "invalid-parameter",
            "`trust` must be central for the protocol central.geometric, got local",
        ),
        ({"--protocol": "shuffle.zero-exact"}, 3, "infeasible", "needs delta above 0"),
        (
            {"--protocol": "shuffle.zero-exact", "--delta": "1e-9", "--epsilon": "0.01"},
            3,
            "infeasible",
            "nearest feasible: honest=",
        ),
    ],
    ids=lambda value: (
        " ".join(value) + str(list(value.values())) if isinstance(value, dict) else ""
    ),
)
def test_refusals_are_one_line(
    headcount: Headcount, tmp_path: Path, change: dict[str, str], status: int, code: str, says: str
) -> None:
    before = sorted(tmp_path.iterdir())
    options = {**GOOD, **change}
    arguments = ["estimate", options.pop("file")]
    for option, value in options.items():
        arguments += [option, value]
    for extra in ([], ["--json"]):
        outcome = headcount(*arguments, *extra)
        assert outcome.status == status
        assert outcome.err.count("\n") == 1
        assert outcome.err.startswith(f"headcount: {code}: ")
        assert says in outcome.err
        if extra:  # a document as well
            error = json.loads(outcome.out)["error"]
            assert (error["code"], error["exit_status"]) == (code, status)
            assert " ".join(error["message"].split()) in outcome.err
        else:
            assert outcome.out == ""
    assert sorted(tmp_path.iterdir()) == before


def test_usage_errors(headcount: Headcount) -> None:
    for arguments in (["estimate"], ["estimate", "x.csv"], ["magic"], ["demo", "--colour"]):
        outcome = headcount(*arguments)
        assert outcome.status == 2
        assert outcome.err.startswith("headcount: usage: ")
        assert outcome.err.count("\n") == 1


CURVE = ["curve", "shuffle.zero-exact", "--users", "1000", "--epsilon", "1", "--delta", "1e-6"]


def test_curve(headcount: Headcount, tmp_path: Path) -> None:
    status, out, err = headcount(*CURVE)
    assert (status, err) == (0, "")
    assert "1e-6         1\n" in out
    answer = json.loads(headcount(*CURVE, "--json").out)
    points = {point["delta"]: point["epsilon"] for point in answer["curve"]}
    assert points[1e-6] == pytest.approx(1)
    assert sorted(points.values()) == [points[delta] for delta in sorted(points, reverse=True)]
    for ending in ("png", "svg", "pdf", "html"):
        assert headcount(*CURVE, "--out", f"curve.{ending}").status == 0
        assert (tmp_path / f"curve.{ending}").stat().st_size > 1000


def test_curve_of_a_sum(headcount: Headcount) -> None:
    arguments = ["curve", "shuffle.split-and-mix", *CURVE[2:], "--json"]
    bounds = ["--low", "0", "--high", "5", "--whole"]
    answer = json.loads(headcount(*arguments, *bounds).out)
    points = {point["delta"]: point["epsilon"] for point in answer["curve"]}
    assert points[1e-6] <= 1
    arguments[1] = "shuffle.correlated-sum"
    without = headcount(*arguments)
    assert without.status == 2
    assert "must have --low and --high, got none" in without.err


def test_curve_of_several_releases(headcount: Headcount) -> None:
    alone = json.loads(headcount(*CURVE, "--json").out)["curve"]
    thrice = json.loads(headcount(*CURVE, "--json", "--releases", "3").out)["curve"]
    for one, three in zip(alone[2:6], thrice[2:6], strict=True):
        assert one["epsilon"] < three["epsilon"] < 3 * one["epsilon"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--out", "curve.gif"], "invalid-parameter"),
        (["--out", "absent/curve.png"], "unreadable-data"),
        (["--releases", "0"], "invalid-parameter"),
        (["--users", "0"], "invalid-parameter"),
        (["--calibration", "guess"], "invalid-parameter"),
    ],
)
def test_curve_refusals(
    headcount: Headcount, tmp_path: Path, arguments: list[str], code: str
) -> None:
    outcome = headcount(*CURVE, *arguments)
    assert outcome.status == 2
    assert outcome.err.startswith(f"headcount: {code}: ")
    assert outcome.out == ""
    assert list(tmp_path.iterdir()) == []


def test_demo(headcount: Headcount, tmp_path: Path) -> None:
    status, out, err = headcount("demo")
    assert (status, err) == (0, "")
    for word in ("central", "shuffle", "local", "●", "figure: headcount-demo.png"):
        assert word in out
    assert (tmp_path / "headcount-demo.png").read_bytes().startswith(b"\x89PNG")
    answer = json.loads(headcount("demo", "--json", "--out", "town.svg").out)
    widths = [e["interval"]["high"] - e["interval"]["low"] for e in answer["estimates"]]
    assert widths == sorted(widths)
    for found in answer["estimates"]:
        assert abs(found["value"] - answer["truth"]) < 8 * found["standard_error"]


def test_help_lists_every_option_with_a_text(headcount: Headcount) -> None:
    for command in ("estimate", "curve", "demo"):
        shown = headcount(command, "--help").out
        assert "Example: headcount " in shown
    assert "Exit status" in headcount("--help").out
    assert headcount().out == headcount("--help").out
    assert headcount("--version").out.startswith("headcount 0.")


def test_help_texts_are_sentences() -> None:
    for command in lines.commands().values():
        for setting in (*command.arguments, *command.options):
            sentence = re.sub(r"\s*\[default: .+\]$", "", setting.help)
            assert re.fullmatch(r"[A-Z].*\.", sentence), (command.words, setting.name)
            assert "(s)" not in sentence


def test_options_are_declared_once() -> None:
    """Each option has one text, except for options whose meaning differs between commands."""
    texts: dict[str, set[str]] = {}
    for command in lines.commands().values():
        for option in command.options:
            texts.setdefault(option.flag, set()).add(option.help)
    assert {flag for flag, known in texts.items() if len(known) > 1} == {
        "--epsilon", "--delta", "--users", "--trust", "--dishonest", "--calibration", "--protocol",
        "--dataset", "--exact", "--values", "--runs", "--seed", "--confidence", "--out",
        "--sampling", "--yes", "--store", "--port", "--close-at", "--margin",
        "--token-file", "--person",
    }  # fmt: skip


def test_module_runs_as_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headcount", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("headcount ")


def run_module(*arguments: str, **more: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "headcount", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        **more,
    )


def test_output_that_cannot_be_written() -> None:
    with Path("/dev/full").open("w") as full:
        done = run_module(*CURVE, "--json", stdout=full)
    assert done.returncode == 2
    assert done.stderr.startswith("headcount: unwritable: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("stream", ["full", "a pipe without a reader"])
def test_a_refusal_that_cannot_be_said_keeps_its_status(stream: str) -> None:
    if stream == "full":
        end = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, end = os.pipe()
        os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "headcount", "estimate", "nothing.csv", "--epsilon", "1"],
        stderr=end,
        check=False,
    )
    os.close(end)
    assert done.returncode == 2


@pytest.mark.slow
def test_terminals_without_unicode_or_room(tmp_path: Path) -> None:
    done = run_module(
        "demo",
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "40"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "95 % interval: " in done.stdout
    assert "…" not in done.stdout


@pytest.mark.usefixtures("people")
def test_an_impossible_estimate_is_explained(headcount: Headcount) -> None:
    arguments = ["estimate", "people.csv", "--column", "smoker", "--epsilon", "1e-9"]
    assert "The interval contains only possible values" in headcount(*arguments).out


def test_import_is_light() -> None:
    """Heavy packages are loaded when they are first used."""
    heavy = ["numpy", "cryptography", "scipy", "altair", "vl_convert", "pyarrow", "typer", "rich"]
    heavy += ["dp_accounting", "pandas"]
    program = f"import sys, headcount; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


# What goes wrong ---------------------------------------------------------------------------------


def test_options_that_change_nothing_are_refused(headcount: Headcount) -> None:
    asked = ["estimate", "people.csv", "--column", "smoker", "--epsilon", "1"]
    planned = ["estimate", "people.csv", "--column", "smoker", "--plan", "plan.json"]
    protocol = ["audit", "local.randomized-response", "--epsilon", "1"]
    function = ["audit", "mine.py:lie", "--dataset", "0", "--neighbor", "1"]
    plan = ["plan", "count", "--epsilon", "1"]
    compare = ["compare", "count", "--protocols", "central.geometric"]
    for arguments, says in (
        ([*asked, "--rows-per-person", "1"], "--rows-per-person must come with --person, got 1"),
        ([*asked, "--groups", "a,b"], "--groups must come with --group, got a,b"),
        ([*asked, "--dataset", "town"], "--dataset must come with a ledger, got town"),
        ([*asked, "--bins", "0,1,2", "--low", "0"], "--low must come without --bins, got 0"),
        ([*asked, "--bins", "0,1", "--task", "sum"], "--task must be a histogram with --bins"),
        ([*planned, "--delta", "0"], "--delta must come without --plan, got 0.0"),
        ([*planned, "--open"], "--open must come without --plan"),
        ([*planned, "--honest", "9"], "--honest must come without --plan, got 9"),
        ([*plan, "--max-messages", "0"], "--max-messages must come with --users and --epsilon"),
        ([*plan, "--dishonest", "0%,1%"], "--dishonest must be a single share if --users or"),
        (
            [*plan, "--users", "9", "--prices", "--trust", "local"],
            "--prices must come without --trust",
        ),
        (
            [*plan, "--users", "9", "--dishonest", "0%,1%", "--margin", "1%"],
            "--margin must not come with several shares in --dishonest, got 1%",
        ),
        ([*compare, "--seed", "1"], "--seed must come with --runs, got 1"),
        (
            [*compare, "--users", "100"],
            "--users must be given in --values, because --over users varies it, got 100",
        ),
        (
            [*compare, "--over", "epsilon", "--epsilon", "2"],
            "--epsilon must be given in --values, because --over epsilon varies it, got 2.0",
        ),
        ([*protocol, "--secret", "5"], "--secret must come with --report, got 5"),
        ([*protocol, "--values", "[0]"], "--values must come with --exact, got [0]"),
        ([*protocol, "--exact", "--runs", "9"], "--runs must come without --exact, got 9"),
        ([*protocol, "--exact", "--dataset", "0"], "--dataset must come without --exact, got 0"),
        (
            [*protocol, "--report", "--confidence", "0.9"],
            "--confidence must come without --report, got 0.9",
        ),
        ([*protocol, "--report", "--view", "local"], "--view must come without --report"),
        ([*protocol, "--batch"], "--batch must come with a function"),
        ([*function, "--honest", "3"], "--honest must come with a protocol, got 3"),
        ([*function, "--option", "a=1"], "--option must come with a protocol, got a=1"),
        ([*function, "--users", "3"], "--users must come with a protocol or --exact, got 3"),
    ):
        status, out, err = headcount(*arguments)
        assert (status, out) == (2, ""), arguments
        assert says in err, (arguments, err)
        assert err.count("\n") == 1


def test_deltas_are_short_but_for_what_remains(headcount: Headcount, people: None) -> None:
    delta = "1.23456789012345e-7"
    headcount("ledger", "create", "spent.db", "--dataset", "a", "--epsilon", "1", "--delta", "1e-6")
    asked = ["estimate", "people.csv", "--column", "smoker", "--delta", delta]
    asked += ["--protocol", "shuffle.correlated", "--ledger", "spent.db", "--epsilon"]
    assert headcount(*asked, "0.5").status == 0
    refused = headcount(*asked, "0.9")
    assert refused.status == 4
    was, left = refused.err.split(" is left of its limit ")
    assert re.search(r"epsilon=0\.9, delta=1\.\d{1,3}e-7 was asked", was)
    assert left == "epsilon=1, delta=1e-6\n"
    shown = headcount("ledger", "show", "spent.db").out
    assert "limit ε = 1, δ = 1e-6" in shown
    assert "e-0" not in shown


def test_memory_that_runs_out_is_one_line(
    headcount: Headcount, people: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def greedy(*arguments: Any, **more: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(estimate, "prepare", greedy)
    asked = ["estimate", "people.csv", "--column", "smoker", "--epsilon", "1"]
    status, out, err = headcount(*asked)
    assert (status, out) == (2, "")
    assert err == "headcount: out-of-memory: the command needs more memory than is available\n"
    error = json.loads(headcount(*asked, "--json").out)["error"]
    assert (error["code"], error["exit_status"]) == ("out-of-memory", 2)


def test_a_fault_of_ours_shows_where_it_is(
    headcount: Headcount, people: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*arguments: Any, **more: Any) -> None:
        raise RuntimeError("so wrong")

    monkeypatch.setattr(estimate, "prepare", wrong)
    shown = headcount("estimate", "people.csv", "--column", "smoker", "--epsilon", "1")
    assert (shown.status, shown.out) == (70, "")
    *_, where, last = shown.err.splitlines()
    assert where == "RuntimeError: so wrong"
    assert "please report it" in last


def test_paths_that_cannot_be_read_are_named(headcount: Headcount, people: None) -> None:
    long = 300 * "x"
    for arguments in (
        ["estimate", f"{long}.csv", "--column", "smoker", "--epsilon", "1"],
        ["estimate", "people.csv", "--column", "a", "--epsilon", "1", "--ledger", f"{long}.db"],
        ["estimate", "people.csv", "--column", "a", "--plan", f"{long}.json"],
        ["ledger", "show", f"{long}.db"],
    ):
        status, out, err = headcount(*arguments)
        assert (status, out) == (2, "")
        assert err.startswith("headcount: unreadable-data: ")
        assert long in err
        assert err.count("\n") == 1
        assert "output" not in err


def test_plans_that_never_end_are_refused(
    headcount: Headcount, people: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo("pipe.json")
    Path("zero.json").symlink_to("/dev/zero")
    Path("large.json").write_text(1001 * " ")
    monkeypatch.setattr(plan, "MOST_BYTES", 1000)
    for name, says in (
        ("pipe.json", "'pipe.json' must be a plan, got: not a regular file"),
        ("zero.json", "'zero.json' must be a plan, got: not a regular file"),
        ("large.json", "'large.json' must be a plan, got: more than 1,000 bytes"),
    ):
        shown = headcount("estimate", "people.csv", "--column", "smoker", "--plan", name)
        assert (shown.status, shown.out) == (2, "")
        assert says in shown.err


def test_numbers_of_thousands_of_digits(headcount: Headcount, people: None) -> None:
    digits = 5000 * "9"
    asked = ["estimate", "people.csv", "--column", "smoker", "--epsilon", "1"]
    for more in (["--buckets", digits], ["--buckets", f"1,{digits}"], ["--missing", digits]):
        status, out, err = headcount(*asked, *more)
        assert (status, out) == (2, "")
        assert err.startswith("headcount: invalid-parameter: ")
        assert len(err) < 300
    nested = 100_000 * "["
    shown = headcount("audit", "mine.py:lie", "--dataset", nested, "--neighbor", "1")
    assert shown.status == 2
    assert "--dataset must be JSON" in shown.err


def test_an_interrupt_while_packages_load_is_one_line() -> None:
    program = """
import signal, sys
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "rich.console":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Slow())
sys.argv = ["headcount", "--version"]
from headcount.cli.main import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "headcount: interrupted: stopped before the command was done\n"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_an_estimate_loads_only_what_it_needs(tmp_path: Path, ending: str) -> None:
    """Large packages and other commands would double the time of a small estimate."""
    people = tmp_path / "people.csv"
    people.write_text("smoker\n" + "1\n0\n" * 100)
    if ending == "parquet":
        parquet.write_table(csv.read_csv(people), tmp_path / "people.parquet")
    program = f"""
import sys
sys.argv = ["headcount", "estimate", "people.{ending}", "--column", "smoker", "--epsilon", "1"]
from headcount.cli.main import main
try:
    main()
finally:
    slow = ("pandas", "scipy.special", "altair", "duckdb", "pydantic", "sqlite3", "pyarrow.compute",
            "pyarrow.dataset", "rich.progress", "headcount.auditor", "headcount.plot",
            "headcount.theory", "headcount.ledger", "headcount.planner.plan")
    print([name for name in slow if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "[]"), done.stderr


def test_core_works_without_the_extras(tmp_path: Path) -> None:
    """A missing package is named, with the command that installs it."""
    for extra, module, arguments in (
        ("cli", "typer", ["--version"]),
        ("data", "pyarrow", ["estimate", "people.csv", "--column", "a", "--epsilon", "1"]),
        ("plot", "altair", ["demo"]),
        ("compose", "dp_accounting", [*CURVE, "--releases", "2"]),
    ):
        program = (
            f"import sys; sys.modules[{module!r}] = None; sys.argv = ['headcount', *{arguments}];"
            "from headcount.cli.main import main; main()"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith("headcount: missing-package: ")
        assert f"pip install 'headcount[{extra}]'" in done.stderr
        assert done.stderr.count("\n") == 1


def test_every_public_name_is_documented() -> None:
    import headcount as hc

    for name in hc.__all__:
        documented: Any = getattr(hc, name)
        assert documented.__doc__, name


def test_a_refusal_never_gives_orders_to_the_terminal(headcount: Headcount, tmp_path: Path) -> None:
    """A refusal quotes names and values from files, which may contain escape sequences."""
    (tmp_path / "odd.csv").write_text("smo\x1b[31mker\u202e\n1\n", encoding="utf-8")
    shown = headcount("estimate", "odd.csv", "--column", "smoker", "--epsilon", "1")
    assert shown.status == 2
    assert r"smo\x1b[31mker\u202e" in shown.err
    assert shown.err.rstrip("\n").isprintable()


TEXTS = ["", " ", "1", "-3", "+7", "1.5", ".5", "5.", "1e-6", "1E3", "nan", "inf", "1_000", " 2 ",
         "٣", "0x10", "9" * 30, "word", "true", "central", "CENTRAL", "collection", "rows", "a/b",
         "ä\udcff"]  # fmt: skip


@pytest.mark.parametrize("command", ["plan", "estimate", "audit", "compare"])
def test_options_are_read_as_typer_reads_them(command: str) -> None:
    """Commands convert plain values by themselves, since that is faster."""
    from typer.core import TyperArgument, TyperOption
    from typer.main import get_command

    def read(reader: Any, given: Any) -> Any:
        try:
            return reader(context, given)
        except Exception as error:
            return type(error), str(error)

    group: Any = get_command(app(command))
    chosen = group.commands[command]
    context = chosen.context_class(chosen)
    for parameter in chosen.get_params(context):
        typers = TyperOption if isinstance(parameter, TyperOption) else TyperArgument
        for given in [None, parameter.default, *TEXTS]:
            if parameter.name == "help" or (parameter.multiple and isinstance(given, str)):
                continue
            quick = read(parameter.process_value, given)
            slow = read(partial(typers.process_value, parameter), given)
            assert repr(quick) == repr(slow), (parameter.name, given)
