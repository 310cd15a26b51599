"""`headcount plan` and `headcount compare` as a user sees them, and plans that are run."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import headcount as hc
from commands import Headcount

COUNT = ["plan", "count", "--users", "2000", "--epsilon", "1", "--delta", "1e-6"]
MEAN = ["plan", "mean", "--low", "0", "--high", "1", "--trust", "local"]


def test_plan_shows_every_protocol(headcount: Headcount) -> None:
    done = headcount(*COUNT)
    assert (done.status, done.err) == (0, "")
    for name in hc.protocol_names(hc.Count()):
        assert re.search(rf"^{re.escape(name)} ", done.out, flags=re.MULTILINE), name
    assert "theory: in shuffle trust" in done.out
    assert "best of each trust model: central.geometric, shuffle.split-and-mix" in done.out


@pytest.mark.parametrize(
    "task",
    [
        ["count"],
        ["sum", "--low", "0", "--high", "5", "--whole"],
        ["mean", "--low", "0", "--high", "120"],
        ["histogram", "--buckets", "red,green,blue"],
        ["density", "--low", "0", "--high", "1", "--smoothness", "2"],
    ],
    ids=lambda task: task[0],
)
def test_plan_as_json(headcount: Headcount, task: list[str]) -> None:
    done = headcount(
        "plan", *task, "--users", "3000", "--epsilon", "1", "--honest", "2500", "--json"
    )
    document = json.loads(done.out)
    assert (done.status, done.err) == (0, "")
    assert document["task"]["name"] == task[0]
    assert document["budget"] == {"epsilon": 1.0, "delta": 0.0}
    assert document["crowd"] == {"users": 3000, "honest": 2500}
    for candidate in document["candidates"]:
        assert candidate["standard_error_is"] in ("exact", "upper bound")
        assert candidate["trust"] == candidate["protocol"].split(".")[0]
        assert set(candidate["guarantee"]) >= {"epsilon", "delta", "exact", "method", "honest"}
        assert candidate["standard_error"] > 0
        assert candidate["messages_per_user"] > 0
        assert candidate["bits_per_message"] >= 1
        assert candidate["local_epsilon"] is None or candidate["local_epsilon"] > 0
        assert isinstance(candidate["parameters"], dict)
    assert {"protocol", "reason"} <= set(document["refused"][0])
    names = [one["protocol"] for one in document["candidates"] + document["refused"]]
    assert sorted(names) == sorted(set(names))
    assert hc.Plan.from_dict(document).digest == document["digest"]


def test_filters(headcount: Headcount) -> None:
    done = headcount(*COUNT, "--trust", "shuffle", "--max-messages", "1.9", "--exact", "--json")
    document = json.loads(done.out)
    assert {one["trust"] for one in document["candidates"]} <= {"shuffle"}
    assert all(one["messages_per_user"] <= 1.9 for one in document["candidates"])
    assert all(one["guarantee"]["exact"] for one in document["candidates"])
    assert document["refused"]
    close = json.loads(headcount(*COUNT, "--margin", "20", "--json").out)
    assert all(one["margin"] <= 20 for one in close["candidates"])


def test_limits_of_a_collection(headcount: Headcount) -> None:
    limits = ["--max-slots", "5", "--max-bytes", "500", "--max-influence", "1.5"]
    done = headcount(*COUNT, *limits, "--dishonest", "10%", "--json")
    document = json.loads(done.out)
    assert (done.status, document["crowd"]["honest"]) == (0, 1800)
    for one in document["candidates"]:
        assert one["slots"] <= 5
        assert one["sealed_bytes"] <= 500
        assert max(one["influence"]["up"], -one["influence"]["down"]) <= 1.5
        assert (one["shuffler_duties"] is None) == (one["trust"] != "shuffle")
        assert isinstance(one["relies_on_honest_people"], bool)
    assert all(one["reason"] for one in document["refused"])


def test_plans_for_a_collection(headcount: Headcount, tmp_path: Path) -> None:
    done = headcount(*COUNT, "--for", "collection", "--out", "plan.json")
    assert (done.status, done.err) == (0, "")
    heading = done.out.splitlines()[2].split()
    assert heading[-4:] == ["slots", "bytes", "influence", "shuffler"]
    assert "central." not in done.out
    assert "these protocols rely on honest people for privacy: shuffle." in done.out
    plan = hc.Plan.load(tmp_path / "plan.json")
    assert plan.purpose == "collection"
    assert f"saved: plan.json (runs {plan.chosen}" in done.out
    narrow = run(*COUNT, "--for", "collection", COLUMNS="100").stdout
    assert max(map(len, narrow.split("\n\n")[1].splitlines())) <= 100


def test_inverse_questions(headcount: Headcount) -> None:
    arguments = ["plan", "count", "--delta", "1e-6", "--margin", "2%", "--trust", "local"]
    people_needed = json.loads(headcount(*arguments, "--epsilon", "1", "--json").out)
    (need,) = people_needed["answers"]
    users = need["users"]
    again = json.loads(
        headcount("plan", "count", "--users", str(users), "--epsilon", "1", "--json").out
    )
    margins = {one["protocol"]: one["margin"] for one in again["candidates"]}
    assert margins["local.randomized-response"] <= 0.02 * users
    shown = headcount(*arguments, "--users", "5000")
    assert "smallest epsilon for ±2 % with 95 % confidence" in shown.out
    assert "local.randomized-response" in shown.out
    ranges = headcount("plan", "count", "--epsilon", "1", "--margin", "60", "--trust", "local").out
    assert re.search(r"1 to [\d,]+", ranges)


def test_honesty_and_prices(headcount: Headcount) -> None:
    table = headcount(*COUNT, "--dishonest", "0%,0.5,90%").out
    assert "0 % dishonest" in table
    assert "50 % dishonest" in table
    one = json.loads(headcount(*COUNT, "--dishonest", "25%", "--json").out)
    assert one["crowd"] == {"users": 2000, "honest": 1500}
    many = json.loads(headcount(*COUNT, "--dishonest", "0%,25%", "--json").out)
    assert [plan["crowd"]["honest"] for plan in many["plans"]] == [2000, 1500]
    prices = headcount(*COUNT, "--prices")
    assert re.search(r"without trusting anyone, .*, 7[\d.]+ times as many as planned", prices.out)
    paid = json.loads(headcount(*COUNT, "--prices", "--json").out)["prices"]
    assert [one["trust"] for one in paid] == ["central", "shuffle", "local"]


@pytest.mark.usefixtures("people")
def test_plans_are_saved_and_run(headcount: Headcount, tmp_path: Path) -> None:
    saved = headcount(*COUNT, "--trust", "shuffle", "--out", "plan.json")
    assert saved.status == 0
    plan = hc.Plan.load(tmp_path / "plan.json")
    assert f"digest {plan.digest[:12]}" in saved.out
    arguments = ["estimate", "people.csv", "--column", "smoker", "--plan", "plan.json"]
    answer = json.loads(headcount(*arguments, "--json").out)
    assert answer["protocol"] == "shuffle.split-and-mix"
    assert answer["plan"] == plan.digest
    assert answer["parameters"] == plan.best.parameters
    assert abs(answer["value"] - 500) < 20
    shown = headcount(*arguments, "--protocol", "shuffle.zero-exact").out
    assert "shuffle.zero-exact, 2,000 people" in shown
    assert "plan: " in shown


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["plan", "mode", "--users", "5", "--epsilon", "1"], 2, "`task` must be one of count"),
        (["plan", "count", "--users", "5"], 2, "--users and --epsilon must be given, or --margin"),
        (
            ["plan", "count", "--epsilon", "1"],
            2,
            "--users and --epsilon must be given, or --margin",
        ),
        (["plan", "count", "--margin", "5"], 2, "--users and --epsilon must be given, or --margin"),
        (["plan", "mean", "--users", "5", "--epsilon", "1"], 2, "must have --low and --high"),
        ([*COUNT, "--margin", "much"], 2, "`margin` must be a number or a share, got 'much'"),
        ([*COUNT, "--margin", "-3"], 2, "`margin` must be positive"),
        ([*COUNT, "--confidence", "2"], 2, "`confidence` must be strictly between 0 and 1"),
        ([*COUNT, "--dishonest", "most"], 2, "`dishonest` must be a share like 10% or 0.1"),
        ([*COUNT, "--dishonest", "100%"], 2, "`dishonest` must be a share, at least 0 and below 1"),
        ([*COUNT, "--dishonest", "1%", "--honest", "5"], 2, "--honest and --dishonest"),
        ([*COUNT, "--out", "plan.txt"], 2, "a plan must end in .json"),
        ([*COUNT, "--out", "plan.json"], 2, "--out must come with --trust or --protocol"),
        ([*COUNT, "--dishonest", "0%,9%", "--prices"], 2, "must not come with several shares"),
        ([*COUNT, "--max-messages", "0.5"], 3, "no protocol fits: "),
        ([*COUNT, "--max-bytes", "100"], 3, "at most 100 is allowed (nearest feasible: max_bytes"),
        ([*COUNT, "--max-influence", "0.1"], 3, "(nearest feasible: max_influence=1)"),
        ([*COUNT, "--max-slots", "0"], 2, "`max_slots` must be between 1 and"),
        ([*COUNT, "--max-influence", "-1"], 2, "`max_influence` must be positive, got -1"),
        ([*COUNT, "--for", "fun"], 2, "'fun' is not one of 'accuracy', 'collection'"),
        ([*COUNT, "--for", "collection", "--trust", "central"], 2, "must be shuffle or local"),
        ([*COUNT, "--for", "collection", "--prices"], 2, "must come without --for collection"),
        (["plan", "count", "--epsilon", "1", "--margin", "3", "--max-slots", "3"], 2, "--users"),
        ([*COUNT, "--dishonest", "0%,9%", "--for", "collection"], 2, "come with several shares"),
        (["compare", "count", "--over", "slots", "--values", "1.5"], 2, "`slots` must be a whole"),
        (["compare", "count", "--protocols", ","], 2, "`protocols` must name at least one"),
        ([*COUNT, "--dishonest", ","], 2, "`dishonest` must be a share"),
        (["compare", "count", "--values", ""], 2, "`values` must be numbers separated by commas"),
        ([*COUNT, "--trust", "local", "--out", "none/plan.json"], 2, "must be a place to write to"),
        ([*COUNT, "--protocol", "local.k-ary"], 2, "must be a protocol of the plan"),
        ([*COUNT, "--margin", "0.5"], 3, "was asked for"),
        ([*MEAN, "--users", "9", "--margin", "1e-9"], 3, "was asked for"),
        (["plan", "count", "--epsilon", "1", "--margin", "3", "--exact"], 2, "must come with --us"),
        (["plan", "count", "--users", "0", "--epsilon", "1"], 2, "`users` must be between"),
        (["compare", "count", "--over", "time"], 2, "`over` must be one of users, epsilon"),
        (["compare", "count", "--over", "buckets"], 2, "buckets must come with a histogram"),
        (["compare", "count", "--values", "1,x"], 2, "`values` must be numbers separated by"),
        (["compare", "count", "--protocols", "local.k-ary"], 2, "must answer a count"),
        (["compare", "count", "--out", "figure.gif"], 2, "a figure must end in .png"),
        (["compare", "count", "--runs", "1"], 2, "at least 2"),
        (["compare", "count", "--calibration", "none"], 2, "`calibration` must be one of"),
        (["compare", "count", "--protocols", "shuffle.zero-exact", "--delta", "0"], 3, "above 0"),
        (["estimate", "people.csv", "--column", "smoker"], 2, "--epsilon or --plan must be given"),
        (["estimate", "people.csv", "--column", "smoker", "--plan", "x.json"], 2, "must be a plan"),
        (["estimate", "people.csv", "--column", "smoker", "--plan", "people.csv"], 2, "not JSON"),
        (
            ["estimate", "people.csv", "--column", "smoker", "--plan", "p.json", "--epsilon", "1"],
            2,
            "--epsilon must come without --plan",
        ),
        (
            ["estimate", "people.csv", "--column", "smoker", "--plan", "p.json", "--low", "0"],
            2,
            "--low must come without --plan",
        ),
        (
            ["estimate", "people.csv", "--column", "smoker", "--epsilon", "1", "--seed", "3"],
            2,
            "--seed and --not-private must come together",
        ),
        (
            ["estimate", "people.csv", "--column", "smoker", "--epsilon", "1", "--not-private"],
            2,
            "--seed and --not-private must come together",
        ),
    ],
)
def test_refusals_are_one_line(
    headcount: Headcount,
    arguments: list[str],
    status: int,
    message: str,
) -> None:
    done = headcount(*arguments)
    assert done.status == status, done
    assert message in done.err
    assert done.err.startswith("headcount: ")
    assert done.err.count("\n") == 1
    assert not Path("plan.txt").exists()


@pytest.mark.usefixtures("people")
def test_seeds_repeat_and_are_called_not_private(headcount: Headcount) -> None:
    arguments = [
        "estimate",
        "people.csv",
        "--column",
        "smoker",
        "--epsilon",
        "0.1",
        "--not-private",
    ]
    one, same, other = (headcount(*arguments, "--seed", seed, "--json").out for seed in "778")
    assert one == same != other
    assert "seed" in json.loads(one)["not_private"]
    assert "not private" in headcount(*arguments, "--seed", "7").out


@pytest.mark.usefixtures("people")
def test_small_crowds_for_a_plan_are_refused(headcount: Headcount) -> None:
    """In local trust, nobody relies on others, so fewer people may answer."""
    large = ["plan", "count", "--users", "2001", "--epsilon", "1", "--delta", "1e-6"]
    for trust in ("local", "shuffle"):
        assert headcount(*large, "--trust", trust, "--out", "plan.json").status == 0
        done = headcount("estimate", "people.csv", "--column", "smoker", "--plan", "plan.json")
        assert done.status == (0 if trust == "local" else 2)
    assert "at least 2,001 people, got 2,000 (people's messages hide each other" in done.err


def test_compare(headcount: Headcount, tmp_path: Path) -> None:
    arguments = ["compare", "count", "--values", "100,10000", "--runs", "20", "--seed", "4"]
    done = headcount(*arguments, "--out", "errors.svg")
    assert (done.status, done.err) == (0, "")
    assert "people in the crowd" in done.out
    assert "20 simulated runs" in done.out
    drawn = (tmp_path / "errors.svg").read_text()
    for label in ("central.geometric", "local.randomized-response", "lower bound"):
        assert label in drawn
    document = json.loads(headcount(*arguments, "--json").out)
    assert [one["trust"] for one in document["series"]] == ["central", "shuffle", "local"]
    assert document["theory"][0]["source"]
    assert document == json.loads(headcount(*arguments, "--json").out)


@pytest.mark.parametrize(
    "arguments",
    [
        ["histogram", "--over", "buckets", "--values", "4,16", "--protocols", "local"],
        ["mean", "--over", "epsilon", "--values", "0.5,1"],
        ["count", "--over", "messages", "--protocols", "shuffle.correlated,shuffle.zero-exact"],
        ["sum", "--over", "slots", "--protocols", "shuffle.unary-sum,shuffle.split-and-mix"],
        ["count", "--protocols", "shuffle.zero-exact", "--calibration", "both"],
        ["density", "--values", "1000,10000"],
    ],
    ids=lambda arguments: "-".join(arguments[:3]),
)
def test_comparisons_of_many_kinds(headcount: Headcount, arguments: list[str]) -> None:
    done = headcount("compare", *arguments)
    assert (done.status, done.err) == (0, "")
    assert headcount("compare", *arguments, "--json").status == 0


def test_comparisons_over_slots(headcount: Headcount) -> None:
    """A point is at the slots that a protocol uses. If it has options, some limits are refused."""
    names = ["shuffle.noisy-shuffler", "shuffle.split-and-mix", "shuffle.zero-exact"]
    arguments = ["compare", "count", "--over", "slots", "--values", "1,4,9", "--users", "1000"]
    arguments += ["--protocols", ",".join(names)]
    document = json.loads(headcount(*arguments, "--json").out)
    assert document["axis"] == "slots"
    series = {one["protocol"]: one for one in document["series"]}
    places = {name: [point["at"] for point in series[name]["points"]] for name in names}
    assert places == dict(zip(names, ([1], [9], [2]), strict=True))
    refused = {name: list(series[name]["refused"]) for name in names}
    assert refused == dict(zip(names, ([], ["1", "4"], []), strict=True))
    curator = math.sqrt(2 * math.exp(-1)) / (1 - math.exp(-1))
    for name, ratio in zip(names, (0.999971, 1.0), strict=False):
        (point,) = series[name]["points"]
        assert point["standard_error"] / curator == pytest.approx(ratio, abs=1e-6)
    shown = headcount(*arguments)
    assert (shown.status, shown.err) == (0, "")
    assert "Standard error by slots per person: 1,000 people" in shown.out
    assert "shuffle.split-and-mix is refused at 1: its number of slots per person is 9" in shown.out
    pure = json.loads(headcount(*arguments, "--delta", "0", "--json").out)["series"]
    assert [list(one["refused"]) for one in pure] == [[], ["1", "4", "9"], ["1", "4", "9"]]


@pytest.mark.slow
def test_more_slots_mean_smaller_errors(headcount: Headcount) -> None:
    arguments = ["count", "--over", "slots", "--values", "5,7,9", "--users", "1000"]
    done = headcount("compare", *arguments, "--protocols", "shuffle.correlated", "--json")
    (one,) = json.loads(done.out)["series"]
    curator = math.sqrt(2 * math.exp(-1)) / (1 - math.exp(-1))
    assert [point["at"] for point in one["points"]] == [5, 7, 9]
    for point, ratio in zip(one["points"], (1.4683, 1.17663, 1.07512), strict=True):
        assert 1 < point["standard_error"] / curator <= 1.001 * ratio


def run(*arguments: str, **environment: str) -> Any:
    return subprocess.run(
        [str(Path(sys.executable).with_name("headcount")), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_terminals_are_narrow_plain_or_colored() -> None:
    wide, narrow = run(*COUNT), run(*COUNT, COLUMNS="50")
    assert "standard error  ± 95 %" in wide.stdout
    assert "  standard error: 1.357" in narrow.stdout
    middle = run(*COUNT, COLUMNS="80").stdout
    table = middle.split("\n\n")[1]
    assert max(map(len, table.splitlines())) <= 80
    assert "messages" in table
    assert "\x1b[" in run(*COUNT, FORCE_COLOR="1").stdout
    assert "\x1b[3" not in run(*COUNT, FORCE_COLOR="1", NO_COLOR="1").stdout


@pytest.mark.slow
def test_shells_complete_names() -> None:
    done = run(
        _HEADCOUNT_COMPLETE="complete_bash",
        COMP_WORDS="headcount curve shuffle.z",
        COMP_CWORD="2",
    )
    assert "shuffle.zero-exact" in done.stdout
    tasks = run(_HEADCOUNT_COMPLETE="complete_bash", COMP_WORDS="headcount plan hi", COMP_CWORD="2")
    assert "histogram" in tasks.stdout


def test_the_nearest_miss_is_named(headcount: Headcount) -> None:
    """The named protocol is not the worst of those that miss the margin."""
    shown = headcount("plan", "count", "--users", "100", "--epsilon", "1", "--margin", "1%")
    assert shown.status == 3
    assert re.search(r"no protocol fits: central\.\w+: its margin is ±3\b", shown.err)
