"""`headcount survey demo`: a survey with all roles on this machine."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import segno
from playwright.sync_api import Browser, expect

from browsing import phone
from commands import Headcount
from headcount.console.pages import qr_text
from respondents import choose, press, seal, thanked, to_questions

COMMAND = [sys.executable, "-m", "headcount", "survey", "demo", "--people", "100"]
NEEDED = {"smoke": 25, "drink": 8}  # how many of 100 made-up people say yes


def check_results(found: dict[str, Any], folder: Path, people: int) -> None:
    """The results are as exact as they claim, and both files have them."""
    assert found["people"] == people
    assert found["messages"]["refused"] == 0
    assert found["truth"] == {**NEEDED, "commute": [30, 30, 30, 10]}
    for name, truth in NEEDED.items():
        one = found["questions"][name]
        # Six standard errors, and one more for the person at the browser.
        assert abs(one["value"] - truth) <= 6 * one["standard_error"] + people - 100
    assert json.loads((folder / "survey-demo.json").read_text()) == found
    page = (folder / "survey-demo.html").read_text()
    for words in ("A made-up campus", f"{people} people answered", "Do you smoke?", "bicycle"):
        assert words in page


@pytest.mark.slow
def test_a_demonstration_finishes_by_itself(tmp_path: Path) -> None:
    done = subprocess.run(
        COMMAND, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("link: http://127.0.0.1:")
    for words in ("A made-up campus: 100 people", "25 smoke", "results: survey-demo.json",
                  "page: survey-demo.html"):  # fmt: skip
        assert words in done.stdout
    check_results(json.loads((tmp_path / "survey-demo.json").read_text()), tmp_path, 100)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.slow
def test_somebody_answers_a_demonstration_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "--wait", "--json"], cwd=tmp_path, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            assert process.stderr is not None
            link = process.stderr.readline().removeprefix("link: ").strip()
            said = [process.stderr.readline().rstrip("\n")]
            while "press Enter" not in said[-1]:
                said.append(process.stderr.readline().rstrip("\n"))
            assert qr_text(link).splitlines() == [line for line in said if set(line) & {"█", "▀"}]
            assert any(line.startswith("This link works only on this machine.") for line in said)
            with phone(browser) as device:
                page = device.new_page()
                page.goto(link)
                expect(page.get_by_role("heading", name="A made-up campus")).to_be_visible()
                to_questions(page)
                choose(page, {1: "Yes", 2: "No", 3: "bicycle"})
                seal(page)
                press(page, "Send")
                thanked(page)
            out, err = process.communicate("\n", timeout=300)
        finally:
            process.kill()
    assert (process.returncode, err.strip()) == (0, "")
    check_results(json.loads(out), tmp_path, 101)


def test_the_code_in_a_terminal_is_that_of_the_link() -> None:
    link = "https://survey.example/surveys/" + "0123456789abcdef" * 4 + "/"
    halves = {"█": (0, 0), "▀": (0, 1), "▄": (1, 0), " ": (1, 1)}
    rows: list[list[int]] = []
    for line in qr_text(link).splitlines():
        rows.extend([halves[one][half] for one in line] for half in (0, 1))
    dark = [list(row) for row in segno.make_qr(link, error="m").matrix_iter(border=4)]
    assert rows[: len(dark)] == dark


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--people", "99"], "people"),
        (["--out", "demo.html"], "must end in .json"),
        (["--out", "nowhere/demo.json"], "there must be a folder"),
    ],
)
def test_wishes_are_refused_before_anything_starts(
    headcount: Headcount, tmp_path: Path, arguments: list[str], said: str
) -> None:
    outcome = headcount("survey", "demo", *arguments)
    assert outcome.status == 2
    assert said in outcome.err
    assert not list(tmp_path.iterdir())
