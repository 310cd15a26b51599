"""Inverse questions about a survey: the least ε and the least number of people for a margin."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

import headcount as hc
from commands import Headcount
from headcount.survey.plan import needed_epsilon, needed_people
from headcount.survey.questions import Choice, YesNo

PEOPLE = 1000
ONE = hc.Survey([YesNo("a", "?")], hc.Budget(1), hc.Trust.CENTRAL, PEOPLE)
TWO = replace(ONE, questions=[YesNo("a", "?"), Choice("b", "?", ("x", "y", "z"))])
LOCAL = replace(ONE, trust=hc.Trust.LOCAL)


def outside(epsilon: float, people: int) -> float:
    """The probability that two-sided geometric noise is above a number of people."""
    ratio = math.exp(-epsilon)
    return 2 * ratio ** (people + 1) / (1 + ratio)


def test_the_epsilon_of_one_count_is_that_of_geometric_noise() -> None:
    found = needed_epsilon(ONE, 0.005)
    assert outside(found, 5) <= 0.05 < outside(0.9 * found, 5)


@pytest.mark.parametrize("survey", [ONE, TWO, LOCAL], ids=["one", "two", "local"])
@pytest.mark.parametrize("confidence", [0.9, 0.99])
def test_a_smaller_epsilon_is_not_enough(survey: hc.Survey, confidence: float) -> None:
    margin = 0.1 if survey is LOCAL else 0.01
    found = needed_epsilon(survey, margin, confidence=confidence)
    margins = [
        replace(survey, budget=hc.Budget(epsilon)).plan(PEOPLE, confidence).worst_margin
        for epsilon in (found, 0.9 * found)
    ]
    assert margins[0] <= margin < margins[1]


@pytest.mark.parametrize("survey", [ONE, TWO, LOCAL], ids=["one", "two", "local"])
def test_fewer_people_are_not_enough(survey: hc.Survey) -> None:
    margin = 0.05
    found = needed_people(survey, margin)
    assert found > 0.25 * (1.95 / margin) ** 2  # the sampling error alone needs so many people
    plans = [replace(survey, least_people=users).plan() for users in (found, int(0.9 * found))]
    worst = [max(one.with_sampling for one in plan.answers) for plan in plans]
    assert worst[0] <= margin < worst[1]


def test_margins_that_nothing_meets_are_refused() -> None:
    with pytest.raises(hc.Infeasible, match="must be possible with some crowd"):
        needed_people(ONE, 1e-9)
    for wrong in (0.0, -0.1, 1.5, math.nan):
        with pytest.raises(hc.InvalidParameter, match="margin"):
            needed_people(ONE, wrong)


def test_the_command_answers_both_questions(headcount: Headcount, tmp_path: Path) -> None:
    path = tmp_path / "q.toml"
    path.write_text(
        '[privacy]\ntrust = "central"\nepsilon = 1\nleast_people = 1000\n'
        '[[question]]\nid = "a"\ntext = "?"\nkind = "yes-no"\n'
    )
    call = ("survey", "plan", str(path), "--margin", "5%")
    done = headcount(*call, "--json")
    assert done.status == 0, done.err
    needed = json.loads(done.out)["needed"]
    assert needed == {
        "margin": 0.05,
        "epsilon": needed_epsilon(ONE, 0.05),
        "users": needed_people(ONE, 0.05),
    }
    shown = headcount(*call)
    assert "for ±5 points from privacy alone: epsilon = " in shown.out
    assert f"for ±5 points with sampling: {needed['users']:,} people" in shown.out
    assert headcount(*call[:-1], "much").status == 2
    assert headcount(*call[:-1], "1e-9").status == 3
