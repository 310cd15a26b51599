"""What a survey says about its promise, and what it records in a ledger."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headcount as hc
from headcount.survey.questions import Choice, Question, Scale, Several, YesNo
from headcount.survey.survey import Survey

PEOPLE = 40
ANSWERS: dict[str, list[Any]] = {
    "a": ["yes", "no"] * 20,
    "b": ["x", "y", "z", "x"] * 10,
    "c": [1, 3] * 20,
    "d": ["u", "v;w"] * 20,
}


def asked(*names: str) -> list[Question]:
    made: dict[str, Question] = {
        "a": YesNo("a", "?"),
        "b": Choice("b", "?", ("x", "y", "z")),
        "c": Scale("c", "?", 1, 3),
        "d": Several("d", "?", ("u", "v", "w"), 2),
    }
    return [made[name] for name in names]


def survey(*names: str, delta: float = 0.0, trust: str = "central", **options: Any) -> Survey:
    return Survey(asked(*names), hc.Budget(1.0, delta), hc.Trust(trust), PEOPLE, **options)


def answers_to(made: Survey) -> dict[str, list[Any]]:
    return {one.id: ANSWERS[one.id] for one in made.questions}


@pytest.fixture
def ledger(tmp_path: Path) -> hc.Ledger:
    book = hc.Ledger.create(tmp_path / "spent.db")
    book.create_dataset("people", hc.Budget(1.0))
    book.create_dataset("others", hc.Budget(1.0, 1e-6))
    return book


# Exact or upper bound -------------------------------------------------------------------------


def test_boxes_with_a_limit_on_ticks_are_an_upper_bound_if_losses_are_composed() -> None:
    """The curve of such noise is the worst that its epsilon allows, which no two answers attain."""
    found = survey("d", delta=1e-6, waves=20)
    noise = found.design.releases[0].protocol
    # All noises of three boxes up to a size of 25, and the noise for another answer.
    line = np.arange(-25, 26)
    rate = 8 * noise.budget.epsilon  # larger, so that few noises have to be listed

    def size(*z: Any) -> Any:
        gained, lost = (sum(np.maximum(sign * one, 0) for one in z) for sign in (1, -1))
        largest = np.maximum.reduce(np.broadcast_arrays(*map(np.abs, z)))
        return np.maximum(largest, -(-np.maximum(gained, lost) // 2))

    grid = np.meshgrid(line, line, line, indexing="ij", sparse=True)
    own = np.exp(-rate * size(*grid))
    worst = 0.0
    for shift in product((-1, 0, 1), repeat=3):
        if max(shift.count(1), shift.count(-1)) <= 2:
            moved = np.exp(-rate * size(*(z - by for z, by in zip(grid, shift, strict=True))))
            worst = max(worst, float(np.maximum(own - moved, 0).sum() / own.sum()))
    response = float(np.tanh(rate / 2))  # what the worst noise with this epsilon would have
    assert worst < 0.95 * response
    assert not found.guarantee.exact


def test_a_mixed_survey_relies_on_people_and_on_the_shuffler() -> None:
    own = YesNo("a", "?", protocol="shuffle.fake-users")
    made = Survey(
        [own, *asked("b")], hc.Budget(1, 1e-6), hc.Trust.SHUFFLE, PEOPLE, noise="shuffler"
    )
    assert "which adds the noise" in made.guarantee.relies_on
    assert "40 people to follow the protocol" in made.guarantee.relies_on
    assert not made.guarantee.exact


# Ledger ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("trust", "dataset"), [("central", "people"), ("local", "people")])
def test_all_waves_together_spend_the_budget_of_the_survey(
    ledger: hc.Ledger, trust: str, dataset: str
) -> None:
    made = survey("a", "b", trust=trust, waves=4)
    for _ in range(4):
        made.run(answers_to(made), ledger=ledger, dataset=dataset)
    entries = ledger.spending(dataset).entries
    assert len(entries) == 4
    assert [one.epsilon for one in entries] == pytest.approx([0.25] * 4, rel=1e-9)
    with pytest.raises(hc.BudgetExhausted):
        made.run(answers_to(made), ledger=ledger, dataset=dataset)


@pytest.mark.slow
def test_waves_of_fake_users_are_charged_one_by_one(ledger: hc.Ledger) -> None:
    made = survey("a", "b", trust="shuffle", delta=1e-6, waves=2)
    made.run(answers_to(made), ledger=ledger, dataset="others")
    entry = ledger.spending("others").entries[0]
    assert entry.delta <= 1e-6 / 2
    assert made.guarantee.epsilon / 2 < entry.epsilon < made.guarantee.epsilon
    assert "waves" not in entry.note["protected"]


def test_each_run_is_charged_once(ledger: hc.Ledger) -> None:
    ledger.create_dataset("twice", hc.Budget(2.0))
    made = survey("a", "c")
    one, two = (made.run(answers_to(made), ledger=ledger, dataset="twice") for _ in range(2))
    for results in (one, two):  # readings are not releases
        assert str(results)
        assert results.to_dict() == results.to_dict()
    entries = ledger.spending("twice").entries
    assert [one.epsilon for one in entries] == [made.guarantee.epsilon] * 2
    assert [one.delta for one in entries] == [made.guarantee.delta] * 2


@pytest.mark.parametrize("wrong", ["source", "answer", "number", "memory"])
def test_a_run_that_is_refused_is_not_charged(
    ledger: hc.Ledger, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = survey("a", "b")
    answers = answers_to(made)
    source: Any = 17 if wrong == "source" else None
    if wrong == "answer":
        answers["b"] = [*answers["b"][:-1], "q"]
    elif wrong == "number":
        answers["b"] = answers["b"][:-1]
    elif wrong == "memory":

        def refuse(*_: Any) -> None:
            raise hc.Infeasible("too little memory")

        monkeypatch.setattr("headcount.survey.run.check_memory", refuse)
    with pytest.raises(hc.HeadcountError):
        made.run(answers, source=source, ledger=ledger, dataset="people")
    assert ledger.spending("people").entries == ()


def test_pure_surveys_are_charged_quickly_to_a_dataset_with_a_delta(ledger: hc.Ledger) -> None:
    """The joint curve falls to 0 at once at its largest loss. Its points must end there."""
    made = survey("a", "b", "c")
    made.run(answers_to(made), ledger=ledger, dataset="others")
    curve = made.designed(PEOPLE).curve
    assert len(curve.bends) < 2000
    assert curve.deltas(np.array([made.guarantee.epsilon * (1 + 1e-9)]))[0] == 0


def test_a_table_is_charged_as_one_more_release() -> None:
    alone = survey("a", "b", trust="shuffle", delta=1e-6)
    more = survey("a", "b", trust="shuffle", delta=1e-6, tables=[("a", "b")])
    noise = [
        float(one.design.release("a").protocol.parameters["noise_per_bucket"])
        for one in (alone, more)
    ]
    assert len(more.design.releases) == 3
    assert noise[1] > 1.3 * noise[0]


# Noise and results ----------------------------------------------------------------------------


@pytest.mark.parametrize("trust", ["central", "shuffle", "local"])
def test_questions_with_the_same_answers_have_noise_of_their_own(trust: str) -> None:
    questions = [Choice(name, "?", ("x", "y", "z")) for name in ("b", "c")]
    made = Survey(questions, hc.Budget(2, 1e-3 * (trust == "shuffle")), hc.Trust(trust), PEOPLE)
    same = {"b": ANSWERS["b"], "c": ANSWERS["b"]}
    found = [made.run(same, source=hc.SeededSource(seed)) for seed in range(40)]
    one, other = (np.array([each[name].value[0] for each in found]) for name in ("b", "c"))
    assert abs(float(np.corrcoef(one, other)[0, 1])) < 0.8
    assert len({(float(a), float(b)) for a, b in zip(one, other, strict=True) if a == b}) < 20


def test_results_do_not_contain_true_counts() -> None:
    made = survey("a", "b", "d")
    document = json.dumps(made.run(answers_to(made), source=hc.SeededSource(3)).to_dict())
    for word in ("tally", "counts", "true", "raw"):
        assert f'"{word}"' not in document


# Who was asked --------------------------------------------------------------------------------


def test_intervals_hold_if_few_people_are_asked_a_question() -> None:
    """With a large epsilon, who was asked is the main error of a question of a large weight."""
    weights = {"b": 5.0, "c": 0.2}
    questions = [Choice(name, "?", ("x", "y", "z"), weight=w) for name, w in weights.items()]
    made = Survey(questions, hc.Budget(8), hc.Trust.LOCAL, 1000)
    said = ["x"] * 50 + ["y"] * 950
    held = 0
    for seed in range(100):
        found = made.run({"b": said, "c": said}, source=hc.SeededSource(seed))["b"].interval()
        held += bool(np.asarray(found.low)[0] <= 50 <= np.asarray(found.high)[0])
    assert held >= 94


def test_somebody_answers_every_question() -> None:
    questions = [YesNo("a", "?", weight=5.0), Choice("b", "?", ("x", "y", "z"), weight=0.2)]
    made = Survey(questions, hc.Budget(1), hc.Trust.LOCAL, 3)
    for seed in range(20):
        answers = {"a": ["yes", "no", "no"], "b": ["x", "y", "z"]}
        found = made.run(answers, source=hc.SeededSource(seed))
        assert np.isfinite(found["a"].value)
    with pytest.raises(hc.Infeasible, match="at least 2 people"):
        _ = Survey(questions, hc.Budget(1), hc.Trust.LOCAL, 1).design
