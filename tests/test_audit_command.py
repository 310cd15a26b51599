"""`headcount audit` as a user meets it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from commands import Headcount

MINE = """
import os
import sys
from fractions import Fraction
import numpy as np

generator = np.random.default_rng(5)

def noisy(data):
    return sum(data) + generator.laplace(0, 1)

def fast(data, count):
    return sum(data) + generator.geometric(0.6, count) - generator.geometric(0.6, count)

def both(x):
    return {((x, 1), (1 - x, 1)): Fraction(1)}

def bit(x):
    return x ^ int(generator.random() < 0.2)

def fails(data):
    raise RuntimeError("no idea")

def chatty(data):
    print("hello")
    return noisy(data)

def unsendable(data):
    return lambda: data

def told(x):
    return {((x, 1),): Fraction(1)}

def silent(data):
    pass

def dictionary(data):
    return [{}]

def huge(data):
    return 10**400

def leaves(data):
    sys.exit(0)

def dies(data):
    os._exit(0)
"""
# Wrong once in ten million runs.
CERTAIN = ["--runs", "20000", "--confidence", "0.9999999"]
PAIR = ["--dataset", "[0, 1, 1]", "--neighbor", "[0, 0, 1]"]


@pytest.fixture
def mine(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "broken.py").write_text("import no_such_package")
    (tmp_path / "leaving.py").write_text("import sys; sys.exit(0)")


def test_a_protocol_is_measured(headcount: Headcount) -> None:
    done = headcount("audit", "local.randomized-response", "--epsilon", "1", *CERTAIN)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("Consistent: no event showed less privacy than was claimed")
    assert "found by at least 90 % of such audits: a randomized response with ε ≥ 1." in done.out
    asked = ["audit", "local.k-ary", "--buckets", "3", "--epsilon", "1", *CERTAIN]
    found = json.loads(headcount(*asked, "--json").out)
    assert found["verdict"] == "consistent"
    assert 0.5 < found["epsilon"] < 1.0
    assert found["claim"] == pytest.approx(1)


@pytest.mark.usefixtures("mine")
def test_a_function_of_ones_own_is_refuted(headcount: Headcount) -> None:
    asked = ["audit", "mine.py:noisy", "--epsilon", "1", *PAIR, "--runs", "20000"]
    done = headcount(*asked)
    assert (done.status, done.err) == (1, "")
    assert done.out.startswith("Refuted: less privacy than was claimed")
    assert "last bits" in done.out
    assert headcount(*asked, "--json").status == 1
    sound = json.loads(
        headcount("audit", "mine.py:fast", "--batch", *PAIR, "--epsilon", "1", "--json").out
    )
    assert sound["verdict"] == "consistent"
    assert sound["epsilon"] > 0.8
    chatty = headcount("audit", "mine.py:chatty", *PAIR, "--runs", "2000", "--json")
    assert json.loads(chatty.out)["runs"] > 0
    unclaimed = json.loads(headcount("audit", "mine.py:fast", "--batch", *PAIR, "--json").out)
    assert unclaimed["verdict"] == "no claim"


@pytest.mark.usefixtures("mine")
def test_a_function_is_seen_shuffled(headcount: Headcount) -> None:
    pair = ["--dataset", "[0, 0]", "--neighbor", "[0, 1]"]
    shuffled = ["audit", "mine.py:bit", "--epsilon", "2", *pair, "--view", "shuffle"]
    found = json.loads(headcount(*shuffled, "--runs", "8000", "--json").out)
    assert found["verdict"] == "consistent"
    assert 0.5 < found["epsilon"] < 1.4


@pytest.mark.usefixtures("mine")
def test_all_outcomes_are_listed(headcount: Headcount) -> None:
    response = ["audit", "shuffle.randomized-response", "--epsilon", "1", "--delta", "0.01"]
    done = headcount(*response, "--exact")
    assert done.status == 0
    assert done.out.startswith("Kept: ")
    assert "event: 8 × 0" in done.out
    found = json.loads(headcount(*response, "--exact", "--users", "5", "--json").out)
    assert found["users"] == 5
    assert found["epsilon"] == pytest.approx(1)
    law = ["audit", "mine.py:both", "--exact", "--values", "[0, 1]", "--users", "3"]
    assert json.loads(headcount(*law, "--view", "shuffle", "--json").out)["epsilon"] == 0
    alone = json.loads(headcount(*law, "--epsilon", "1", "--json").out)
    assert alone["view"] == "local"
    assert alone["verdict"] == "kept"  # one person's two messages have no order either
    wrong = ["audit", "mine.py:told", "--exact", "--values", "[0, 1]", "--epsilon", "1"]
    done = headcount(*wrong)
    assert (done.status, done.err) == (1, "")
    assert done.out.startswith("Refuted: ")
    assert json.loads(headcount(*wrong, "--json").out)["refuted"]


def test_a_promise_is_put_into_words(headcount: Headcount, tmp_path: Path) -> None:
    asked = ["audit", "shuffle.zero-exact", "--epsilon", "1", "--delta", "1e-6", "--users", "1000"]
    done = headcount(*asked, "--report", "--out", "report.html", "--threshold", "odds=2")
    assert (done.status, done.err) == (1, "")
    assert done.out.startswith("Beyond your thresholds (odds)")
    assert "report: report.html" in done.out
    assert (tmp_path / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert headcount(*asked, "--report", "--threshold", "odds=2", "--json").status == 1
    within = headcount(*asked, "--report", "--secret", "50", "--json")
    assert within.status == 0
    found = json.loads(within.out)
    assert found["secret"] == 50
    assert found["within"]


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["garbage"], "must be a protocol"),
        (["mine.py:nothing", *PAIR], "must have a function"),
        (["nowhere.py:f", *PAIR], "there must be a file"),
        (["broken.py:f", *PAIR], "must load as Python, got ModuleNotFoundError"),
        (["no_such_module:f", *PAIR], "must load as Python"),
        (["mine.py:fails", *PAIR], "got RuntimeError: no idea"),
        (["mine.py:unsendable", *PAIR], "pickle"),
        (["mine.py:silent", *PAIR, "--runs", "2000"], "must give something, got None"),
        (["mine.py:dictionary", *PAIR], "must give numbers, words or lists of them"),
        (["mine.py:huge", *PAIR], "must give numbers that a float can hold"),
        (["mine.py:leaves", *PAIR], "got SystemExit: 0"),
        (["mine.py:dies", *PAIR], "must not stop the process that runs it, got exit status 0"),
        (["leaving.py:f", *PAIR], "must load as Python, got SystemExit: 0"),
        (["mine.py:leaves", "--exact", "--values", "[0, 1]"], "got SystemExit: 0"),
        (["mine.py:dies", "--exact", "--values", "[0, 1]"], "must not stop the process"),
        (
            ["mine.py:bit", "--view", "shuffle", "--dataset", "0", "--neighbor", "1"],
            "`datasets` must be lists of people's values in this view, such as [0, 1], got 0",
        ),
        (["mine.py:bit", "--dataset", "[" * 10**5, "--neighbor", "1"], "must be JSON"),
        (["mine.py:noisy"], "--dataset and --neighbor must be given"),
        (["mine.py:noisy", "--dataset", "[0]"], "must come together"),
        (["mine.py:noisy", "--dataset", "[0", "--neighbor", "[1]"], "must be JSON"),
        (["mine.py:noisy", "--report"], "--report must come with a protocol"),
        (["mine.py:noisy", "--dataset", "[0]", "--neighbor", "[0]"], "must differ"),
        (["mine.py:both", "--exact"], "`values` must be"),
        (["local.k-ary", "--epsilon", "1"], "must have --buckets"),
        (["local.randomized-response"], "--epsilon must be given"),
        (["local.randomized-response", "--epsilon", "1", "--runs", "3"], "`runs` must be"),
        (["local.randomized-response", "--epsilon", "1", "--out", "x.html"], "with --report"),
        (["local.randomized-response", "--epsilon", "1", "--values", "[0]"], "with --exact"),
        (["mine.py:noisy", "--exact", "--report"], "must not come together"),
        (
            ["local.randomized-response", "--epsilon", "1", "--report", "--out", "x.doc"],
            "must end in",
        ),
        (
            ["local.randomized-response", "--epsilon", "1", "--report", "--threshold", "odd=1"],
            "must be one of odds",
        ),
    ],
    ids=lambda value: None if isinstance(value, list) else value,
)
def test_bad_audits_are_one_line(headcount: Headcount, arguments: list[str], message: str) -> None:
    done = headcount("audit", *arguments)
    assert done.status == 2
    assert done.out == ""
    assert message in done.err
    assert done.err.count("\n") == 1


def test_no_process_outlives_an_audit_that_is_killed(tmp_path: Path) -> None:
    """Each side runs in its own process, which ends when the process that asks has ended."""
    (tmp_path / "mine.py").write_text(
        "import os, time\n\n\ndef slow(data):\n"
        "    with open('pids', 'a') as file:\n        print(os.getpid(), file=file)\n"
        "    time.sleep(0.0005)\n    return data[0]\n"
    )
    command = "audit mine.py:slow --epsilon 1 --dataset [0] --neighbor [1] --runs 20000"
    started = subprocess.Popen(
        [sys.executable, "-m", "headcount", *command.split()],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def workers() -> set[int]:
        written = tmp_path / "pids"
        return {int(line) for line in written.read_text().split()} if written.exists() else set()

    def wait_until(done: Callable[[], bool]) -> None:
        end = time.monotonic() + 60
        while not done():
            assert time.monotonic() < end
            time.sleep(0.05)

    wait_until(lambda: len(workers()) == 2)
    started.kill()
    started.wait()
    wait_until(lambda: not any(is_there(pid) for pid in workers()))


def is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
