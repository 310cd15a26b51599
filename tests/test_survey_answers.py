"""Questions and their readings, plans, results and pages of surveys."""

import json
from html import escape
from pathlib import Path

import numpy as np
import pytest

import headcount as hc
from commands import Headcount
from headcount.core.guarantee import Guarantee
from headcount.core.shares import share
from headcount.plot import survey_pages
from headcount.survey.questions import Question

USERS = 400


def released(question: Question, answers: object, seed: int = 1, epsilon: float = 1) -> hc.Estimate:
    protocol = hc.best_protocol(question.task, hc.Budget(epsilon), hc.Crowd(USERS), "central")
    return hc.run(protocol, question.values(answers), hc.SeededSource(seed))


QUESTIONS: list[tuple[Question, list[object], dict[str, float]]] = [
    (hc.YesNo("a", "?"), ["yes", "No", True, 0], {"yes": 0.5}),
    (hc.Choice("c", "?", ("x", "y")), ["x", "x", "y", "x"], {"x": 0.75, "y": 0.25}),
    (
        hc.Scale("d", "?", 1, 3, optional=True),
        [1, 3, 3.0, None],
        {"mean": 7 / 3, "1": 1 / 3, "2": 0, "3": 2 / 3, "no answer": 0.25},
    ),
    (hc.Scale("e", "?", 1, 3), ["1", "3", "3", "2"], {"mean": 2.25, "1": 0.25, "3": 0.5}),
    (
        hc.Several("f", "?", ("x", "y", "z"), 2, optional=True),
        ["x;y", "x", ";", None],
        {"x": 2 / 3, "y": 1 / 3, "z": 0, "no answer": 0.25},
    ),
    (hc.Several("g", "?", ("x", "y")), [["x"], ["x", "y"], [], ["y"]], {"x": 0.5, "y": 0.5}),
    (hc.Number("h", "?", 0, 10), [0, 5.5, 10, 4.5], {"mean": 5}),
    (
        hc.Number("i", "?", 0, 9, True, ("mean", "quantiles", "shares"), bins=(0, 5, 9)),
        [0, 9, 9, 3],
        {"mean": 5.25, "75 % quantile": 9, "0 to under 5": 0.5, "5 to 9": 0.5},
    ),
    (
        hc.Number("j", "?", 0, 9, True, ("mean", "shares"), bins=(0, 5, 9), optional=True),
        [0, 9, None, 3, "", 9],
        {"mean": 5.25, "0 to under 5": 0.5, "5 to 9": 0.5, "no answer": 1 / 3},
    ),
    (
        hc.Number("k", "?", 0, 1, want=("mean", "quantiles"), optional=True, cells=16),
        [0.1, 1.0, 1.0, None],
        {"mean": 0.7, "median": 1.0, "no answer": 0.25},
    ),
]


@pytest.mark.parametrize(("question", "answers", "truth"), QUESTIONS, ids=lambda one: "")
def test_readings_hold_the_truth(
    question: Question, answers: list[object], truth: dict[str, float]
) -> None:
    """The seed is fixed. Intervals for the population are longer than those for the people."""
    people = (answers * USERS)[: USERS // len(answers) * len(answers)]
    estimate = released(question, people + answers[: USERS - len(people)], epsilon=2)
    for sampling in (False, True)[: 1 if question.optional else 2]:
        readings = {one.name: one for one in question.readings(estimate, sampling=sampling)}
        assert truth.keys() <= readings.keys()
        for name, wanted in truth.items():
            one = readings[name]
            assert one.low <= one.value <= one.high
            assert one.low - 0.02 <= wanted <= one.high + 0.02, (name, one)
            reach = 0.15 if one.is_share else 0.15 * 9
            assert abs(one.value - wanted) < reach


def test_share_of_a_box_among_those_who_answered_is_fieller() -> None:
    """T(θ) = Ŷ + θÔ − θn has the law of Z₁ + θZ₂ for θ = Y/(n−O). The law is listed here."""
    boxes, n, rate = hc.Boxes(["x", "no answer"], 1), 60, 0.5
    protocol = hc.protocol("central.geometric", boxes, hc.Budget(2 * rate), hc.Crowd(n))
    estimate = hc.run(protocol, [1] * 12 + [2] * 20 + [0] * 28, hc.SeededSource(3))
    counted, left_out = estimate.unbiased_value
    found = share(estimate, "x", without="no answer")
    z = np.arange(-80, 81)
    mass = np.exp(-rate * np.abs(z))
    mass /= mass.sum()
    both = np.multiply.outer(mass, mass)

    def possible(theta: float) -> bool:
        reached = abs(counted + theta * left_out - theta * n)
        return float(both[np.abs(np.add.outer(z, theta * z)) >= reached - 1e-9].sum()) > 0.05

    inside = [theta for theta in np.linspace(0, 1, 2001) if possible(theta)]
    assert found.interval.low == pytest.approx(min(inside), abs=1e-3)
    assert found.interval.high == pytest.approx(max(inside), abs=1e-3)
    assert found.value == pytest.approx(counted / (n - left_out))


@pytest.mark.parametrize(
    ("question", "answers", "said"),
    [
        (hc.YesNo("a", "?"), ["yes", "perhaps"], "answered yes or no, got 'perhaps' (row 2)"),
        (hc.YesNo("a", "?"), ["yes", None], "got no answer (row 2)"),
        (hc.Choice("a", "?", ("x", "y")), ["z"], "with one of x, y, got 'z' (row 1)"),
        (hc.Scale("a", "?", 1, 5), [3, 6], "a whole number from 1 to 5, got 6 (row 2)"),
        (hc.Several("a", "?", ("x", "y", "z"), 2), ["x", "x;y;z"], "at most 2 of x, y, z, got"),
        (hc.Number("a", "?", 0, 5), [5, 5.1], "with a number from 0 to 5, got 5.1 (row 2)"),
        (hc.Number("a", "?", 0, 5, True), [5, 0.5], "a whole number from 0 to 5, got 0.5"),
        (hc.Number("a", "?", 0, 5), ["5", "many"], "got 'many' (row 2)"),
    ],
)  # fmt: skip
def test_wrong_answers_are_refused(question: Question, answers: list[object], said: str) -> None:
    with pytest.raises(hc.InvalidValue) as caught:
        question.values(answers)
    assert said in str(caught.value)


SURVEY = """
title = "Town <b>"
[privacy]
trust = "central"
epsilon = 2
[[question]]
id = "smoke"
text = "Do you smoke?"
kind = "yes-no"
[[question]]
id = "boxes"
text = "Which?"
kind = "several"
choices = ["x", "y"]
optional = true
[[question]]
id = "age"
text = "Age"
kind = "number"
low = 0
high = 100
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "q.toml").write_text(SURVEY)
    lines = ["smoke,boxes.x,boxes.y,age"]
    lines += [f"{'yes' if i % 4 == 0 else 'no'},{i % 2},0,{20 + i % 50}" for i in range(USERS)]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_survey_commands(headcount: Headcount, place: Path) -> None:
    assert headcount("survey", "new", "--out", "new.toml").status == 0
    assert headcount("survey", "new", "--out", "new.toml").status == 2
    other = headcount("survey", "new", "--out", "new.csv")
    assert (other.status, (place / "new.csv").exists()) == (2, False)
    assert "the file name of a survey must end in .toml, got 'new.csv'" in other.err
    assert len(hc.Survey.load("new.toml").questions) == 8
    checked = headcount("survey", "check", "q.toml")
    assert checked.status == 0
    assert "q.toml is fine" in checked.out
    (place / "bad.toml").write_text(SURVEY.replace("yes-no", "yesno"))
    refused = headcount("survey", "check", "bad.toml")
    assert refused.status == 2
    assert "bad.toml, line 9: `kind`" in refused.err
    planned = headcount("survey", "plan", "q.toml", "--users", "400", "--json", "--out", "b.html")
    plan = json.loads(planned.out)
    assert [one["id"] for one in plan["questions"]] == ["smoke", "boxes", "age"]
    assert plan["odds"]["with"] == 89
    assert plan["guarantee"]["epsilon"] <= 2
    for one in plan["questions"]:
        assert 0 < one["margin"] < one["margin_with_sampling"]
    page = (place / "b.html").read_text()
    assert "Town &lt;b&gt;" in page
    assert "<b>" not in page
    assert plan["odds"]["sentence"] in page


def test_survey_run_and_report(headcount: Headcount, place: Path) -> None:
    headcount("ledger", "create", "spent.db", "--dataset", "town", "--epsilon", "3")
    done = headcount("survey", "run", "q.toml", "a.csv", "--ledger", "spent.db", "--json",
                     "--out", "r.parquet")  # fmt: skip
    assert done.status == 0
    result = json.loads(done.out)
    assert result["users"] == USERS
    readings = {one["id"]: one["readings"] for one in result["questions"]}
    assert abs(readings["smoke"][0]["value"] - 0.25) < 0.1
    assert [one["name"] for one in readings["boxes"]] == ["x", "y", "no answer"]
    assert (place / "r.parquet").stat().st_size > 0
    again = headcount("survey", "run", "q.toml", "a.csv", "--ledger", "spent.db")
    assert again.status == 4  # one entry of epsilon 2 was charged for the whole survey
    shown = headcount("report", "q.toml", "a.csv", "--out", "r.html")
    assert shown.status == 0
    assert "those who answered" in shown.out
    assert "Which?" in (place / "r.html").read_text()
    (place / "q2.toml").write_text(SURVEY.replace('"central"', '"local"\nleast_people = 10'))
    assert headcount("report", "q2.toml", "a.csv").status == 2


def test_board_page_says_what_is_left_of_the_promise() -> None:
    survey = hc.Survey([hc.YesNo("a", "Do you?")], budget=hc.Budget(1, 1e-6),
                       trust=hc.Trust.SHUFFLE, least_people=1000)  # fmt: skip
    plan = survey.plan()
    assert isinstance(plan.guarantee, Guarantee)
    page = survey_pages.board_page(plan)
    for said in (plan.odds.sentence, plan.odds.delta, plan.sends, *(what for _, what in plan.seen)):
        assert escape(said) in page
    assert plan.odds.within == 74  # e/(1+e) = 73.1 %, and a little δ
