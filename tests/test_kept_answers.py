"""Kept answers: what repeated messages hide, what they show, and what a ledger says about them."""

import copy
import itertools
import json
import math
import os
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headcount as hc
from headcount.collect import keys
from headcount.collect.document import Addresses, Document
from headcount.planner.cache import digest
from headcount.survey.file import read, survey_data
from headcount.survey.kept import shown_changes
from headcount.survey.questions import Choice, Number, Several, YesNo

PEOPLE = 400
NAMES = [f"person {at}" for at in range(PEOPLE)]


def asked(epsilon: float = 1.0, waves: int = 12, users: int = PEOPLE) -> hc.Survey:
    """One yes-no question, asked again and again."""
    return hc.Survey(
        [YesNo("a", "?")], hc.Budget(epsilon), hc.Trust.LOCAL, users, waves=waves, keep_answers=True
    )


def mixed() -> hc.Survey:
    questions = [
        YesNo("a", "?"),
        Choice("b", "?", ("x", "y", "z"), weight=2.0),
        Several("c", "?", ("u", "v"), weight=3.0),
        Number("d", "?", 0, 10, weight=5.0),
    ]
    return hc.Survey(questions, hc.Budget(2), hc.Trust.LOCAL, 100, waves=5, keep_answers=True)


def answers_to(made: hc.Survey, users: int = PEOPLE) -> dict[str, list[Any]]:
    every: dict[str, list[Any]] = {
        "a": ["yes", "no"] * (users // 2),
        "b": ["x", "y", "y", "z"] * (users // 4),
        "c": ["u", "u;v"] * (users // 2),
        "d": [1.5, 9.0] * (users // 2),
    }
    return {one.id: every[one.id] for one in made.questions}


def run(made: hc.Survey, answers: Any, kept: hc.KeptAnswers, seed: int) -> dict[str, Any]:
    found = made.run(answers, source=hc.SeededSource(seed), kept=kept, people=NAMES)
    return {name: np.asarray(one.value) for name, one in found.estimates.items()}


# What is hidden -------------------------------------------------------------------------------


def test_answers_that_stay_the_same_are_sent_once() -> None:
    made, kept = mixed(), hc.KeptAnswers()
    answers = answers_to(made)
    first = run(made, answers, kept, 1)
    for seed in (2, 3):
        again = run(made, answers, kept, seed)
        assert all(np.array_equal(first[name], again[name]) for name in first)
    fresh = run(made, answers, hc.KeptAnswers(), 4)
    assert not all(np.array_equal(first[name], fresh[name]) for name in first)
    assert made.guarantee.epsilon == made.budget.epsilon
    assert "if they are the same in all waves" in made.guarantee.neighbors
    assert "changes of answers are not hidden" in made.guarantee.neighbors


def test_people_may_come_in_another_order_or_stay_away() -> None:
    made, kept = mixed(), hc.KeptAnswers()
    answers = answers_to(made)
    first = run(made, answers, kept, 1)
    order = np.random.default_rng(1).permutation(PEOPLE)
    turned = {name: [column[at] for at in order] for name, column in answers.items()}
    names = [NAMES[at] for at in order]
    again = made.run(turned, source=hc.SeededSource(9), kept=kept, people=names)
    assert all(np.array_equal(first[name], again[name].value) for name in first)
    some = {name: column[:200] for name, column in answers.items()}
    made.run(some, source=hc.SeededSource(10), kept=kept, people=NAMES[:200])
    assert kept.users == PEOPLE


def test_one_wave_has_the_whole_epsilon() -> None:
    """The variance is n·v(ε), with v = 1/(4 sinh²(ε/2)). The number of waves does not
    matter.
    """
    for waves in (2, 52):
        error = asked(1.0, waves).design.standard_error("a")
        assert error**2 / PEOPLE == pytest.approx(0.920674, rel=1e-5)
    fresh = hc.Survey(
        [YesNo("a", "?")], hc.Budget(1, 1e-6), hc.Trust.LOCAL, PEOPLE, waves=52
    ).design.standard_error("a")
    assert fresh**2 / PEOPLE == pytest.approx(1 / 0.0337416**2, rel=1e-3)


# What is not hidden ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "shown"), [(0.5, 0.529993), (1.0, 0.606776), (2.0, 0.790013), (4.0, 0.964675)]
)
def test_changes_show(epsilon: float, shown: float) -> None:
    made = asked(epsilon)
    assert shown_changes(made.design) == pytest.approx(shown, abs=5e-7)
    law = {value: made.design.releases[0].protocol.law(value) for value in (0, 1)}

    def history(*values: int) -> dict[Any, Fraction]:
        """The law of the kept messages of a person who held these values."""
        found: dict[Any, Fraction] = {}
        kinds = sorted(set(values))
        for sent in itertools.product(*(dict(law[kind] or {}).items() for kind in kinds)):
            own = {kind: message for kind, (message, _) in zip(kinds, sent, strict=True)}
            chance = math.prod((chance for _, chance in sent), start=Fraction(1))
            name = tuple(own[value] for value in values)
            found[name] = found.get(name, Fraction(0)) + chance
        return found

    constant, changed, other = history(1, 1, 1), history(1, 1, 0), history(0, 0, 1)
    # Some outcomes of the changed history are impossible for a constant one, at any ε.
    impossible = sum(chance for name, chance in changed.items() if name not in constant)
    assert float(impossible) == pytest.approx(shown, abs=5e-7)
    # Answers that change at the same times have a loss of 2ε, and constant ones have ε.
    assert _loss(changed, other) == pytest.approx(2 * epsilon, rel=1e-9)
    assert _loss(constant, history(0, 0, 0)) == pytest.approx(epsilon, rel=1e-9)


def _loss(one: dict[Any, Fraction], other: dict[Any, Fraction]) -> float:
    return math.log(max(chance / other[name] for name, chance in one.items()))


def test_messages_are_kept_for_each_value_and_not_for_each_wave() -> None:
    users = 20_000
    made, kept = asked(users=users), hc.KeptAnswers()
    names, rows = list(range(users)), []
    for wave, value in enumerate((1, 0, 1, 0)):
        columns = {"a": np.full(users, value, dtype=np.uint8)}
        found = kept.prepared(made.design, columns, names, hc.SeededSource(wave))
        kept.sent(made.design, found)
        rows.append(found.batches[0].payload)
    assert np.array_equal(rows[0], rows[2])
    assert np.array_equal(rows[1], rows[3])
    differ = float(np.mean(rows[0] != rows[1]))
    assert abs(differ - 0.606776) < 6 * math.sqrt(0.6068 * 0.3932 / users)


def test_only_people_who_changed_add_noise_to_a_difference() -> None:
    made, kept = asked(), hc.KeptAnswers()
    before = run(made, {"a": ["yes"] * 100 + ["no"] * 300}, kept, 1)["a"]
    after = run(made, {"a": ["yes"] * 120 + ["no"] * 280}, kept, 2)["a"]
    assert after != before
    assert abs(after - before - 20) <= 6 * math.sqrt(20 * 2 * 0.920674)


def test_the_plan_says_what_is_not_hidden() -> None:
    plan = asked(waves=7).plan()
    text = str(plan)
    assert "in all 7 waves, if the answers stay the same" in text
    assert "Changes are not hidden" in text
    assert "up to 60.7 %" in text
    assert "epsilon = 2 instead of 1" in text
    assert "The mean over several waves is hardly more exact" in text
    assert plan.to_dict()["not_hidden"] == list(plan.not_hidden)
    assert "we may notice that it changed" in " ".join(plan.consent)
    assert "if the answers stay the same" in plan.odds.explanation
    fresh = hc.Survey([YesNo("a", "?")], hc.Budget(1), hc.Trust.LOCAL, PEOPLE, waves=7).plan()
    assert fresh.not_hidden == ()
    assert "stay the same" not in str(fresh)


# The ledger -----------------------------------------------------------------------------------


def test_a_wave_is_charged_if_somebody_gives_a_further_answer(tmp_path: Path) -> None:
    ledger = hc.Ledger.create(tmp_path / "spent.db")
    ledger.create_dataset("people", hc.Budget(2.0))
    made, kept = asked(), hc.KeptAnswers()

    def wave(yes: int) -> int:
        answers = {"a": ["yes"] * yes + ["no"] * (PEOPLE - yes)}
        made.run(answers, ledger=ledger, kept=kept, people=NAMES)
        return len(ledger.spending("people").entries)

    assert [wave(100), wave(100), wave(101), wave(99), wave(100)] == [1, 1, 2, 2, 2]
    for entry in ledger.spending("people").entries:
        assert entry.epsilon == 1.0
        assert "if they are the same in all waves" in entry.note["protected"]
        assert "changes of answers are not hidden" in entry.note["protected"]


def test_a_ledger_is_charged_for_waves_that_were_run_without_it(tmp_path: Path) -> None:
    ledger = hc.Ledger.create(tmp_path / "spent.db")
    for name in ("people", "others"):
        ledger.create_dataset(name, hc.Budget(5.0))
    made, kept = asked(), hc.KeptAnswers()

    def wave(yes: int, dataset: str | None) -> list[int]:
        answers = {"a": ["yes"] * yes + ["no"] * (PEOPLE - yes)}
        book = None if dataset is None else ledger
        made.run(answers, ledger=book, dataset=dataset, kept=kept, people=NAMES)
        return [len(ledger.spending(name).entries) for name in ("people", "others")]

    assert wave(100, None) == [0, 0]
    assert wave(100, "people") == [1, 0]
    assert wave(101, None) == [1, 0]
    assert wave(100, "people") == [2, 0]
    assert wave(100, "others") == [2, 2]
    assert wave(100, "people") == [2, 2]
    # What other devices keep is charged by itself.
    answers = {"a": ["yes"] * PEOPLE}
    made.run(answers, ledger=ledger, dataset="people", kept=hc.KeptAnswers(), people=NAMES)
    assert len(ledger.spending("people").entries) == 3


def test_messages_from_a_seed_are_not_charged(tmp_path: Path) -> None:
    ledger = hc.Ledger.create(tmp_path / "spent.db")
    ledger.create_dataset("people", hc.Budget(2.0))
    made, kept = asked(), hc.KeptAnswers()
    run(made, answers_to(made), kept, 1)
    with pytest.raises(hc.InvalidParameter, match="secure source"):
        made.run(answers_to(made), ledger=ledger, kept=kept, people=NAMES)
    assert not ledger.spending("people").entries


@pytest.mark.parametrize("names", [[math.nan], [["p"]], [0, "0"], ["0", 0]])
def test_people_keep_their_names(names: list[Any]) -> None:
    """A person with a new name would be randomized anew, and no ledger would be charged."""
    made, kept = asked(users=1), hc.KeptAnswers()
    *earlier, last = names
    for name in earlier:
        made.run({"a": ["yes"]}, kept=kept, people=[name])
    with pytest.raises(hc.InvalidValue, match="`people` must have"):
        made.run({"a": ["yes"]}, kept=kept, people=[last])
    assert kept.users == len(earlier)


def test_a_wave_that_is_refused_is_not_kept(tmp_path: Path) -> None:
    ledger = hc.Ledger.create(tmp_path / "spent.db")
    ledger.create_dataset("people", hc.Budget(0.5))
    made, kept = asked(), hc.KeptAnswers()
    with pytest.raises(hc.BudgetExhausted):
        made.run(answers_to(made), ledger=ledger, kept=kept, people=NAMES)
    assert kept.users == 0


def test_messages_from_a_seed_are_never_called_private() -> None:
    made, kept = asked(), hc.KeptAnswers()
    run(made, answers_to(made), kept, 1)
    found = made.run(answers_to(made), kept=kept, people=NAMES)
    assert not found.guarantee.secure


# What is refused ------------------------------------------------------------------------------


def file(privacy: str) -> str:
    question = '[[question]]\nid = "a"\ntext = "?"\nkind = "yes-no"\n'
    return f"[privacy]\nepsilon = 1\nleast_people = 10\n{privacy}\n{question}"


@pytest.mark.parametrize(
    ("privacy", "said"),
    [
        ('trust = "shuffle"\ndelta = 1e-6\nwaves = 3\nkeep_answers = true', "line 7: .*shuffle"),
        ('trust = "central"\nwaves = 3\nkeep_answers = true', "line 6: .*central trust"),
        ('trust = "local"\nkeep_answers = true', "line 5: .*several waves"),
        ('trust = "local"\nwaves = 3\nkeep_answers = "yes"', "line 6: .*keep_answers"),
        ('trust = "local"\nwaves = 3\nkeep_answer = true', "line 6: .*did you mean 'keep_answers'"),
    ],
)
def test_files_are_refused_with_the_line(privacy: str, said: str) -> None:
    with pytest.raises(hc.InvalidParameter, match=said):
        read(file(privacy), "survey.toml")


def test_a_file_may_keep_answers() -> None:
    made = read(file('trust = "local"\nwaves = 3\nkeep_answers = true'))
    assert made.keep_answers
    assert survey_data(made)["privacy"]["keep_answers"] is True


def test_runs_are_refused_without_what_was_kept() -> None:
    made = asked()
    answers = answers_to(made)
    with pytest.raises(hc.InvalidParameter, match="`kept` and `people` must be given"):
        made.run(answers)
    with pytest.raises(hc.InvalidValue, match="a different name for each of 400 people"):
        made.run(answers, kept=hc.KeptAnswers(), people=["same"] * PEOPLE)
    fresh = hc.Survey([YesNo("a", "?")], hc.Budget(1), hc.Trust.LOCAL, PEOPLE)
    with pytest.raises(hc.InvalidParameter, match="must not be given"):
        fresh.run(answers, kept=hc.KeptAnswers(), people=NAMES)
    kept = hc.KeptAnswers()
    run(made, answers, kept, 1)
    with pytest.raises(hc.InvalidParameter, match="earlier waves of the same survey"):
        run(asked(2.0), answers, kept, 2)


def test_a_survey_that_keeps_answers_is_not_collected(tmp_path: Path) -> None:
    key = keys.create(tmp_path / "keys", None)
    with pytest.raises(hc.InvalidParameter, match="must not keep answers"):
        Document.of(asked(), key, Addresses("https://a.example", "https://b.example"))


# In a file --------------------------------------------------------------------------------------


def test_a_file_keeps_answers_as_an_object_does(tmp_path: Path) -> None:
    """Two waves with one object, and two waves that open the same file, send the same messages."""
    made, path = mixed(), tmp_path / "kept.json"
    answers = answers_to(made)
    changed = {**answers, "a": ["no"] * PEOPLE, "d": [-0.0, 9.0] * (PEOPLE // 2)}
    object_kept = hc.KeptAnswers()
    for seed, given in ((1, answers), (2, changed), (3, answers)):
        expected = run(made, given, object_kept, seed)
        kept = hc.KeptAnswers.open(path, mixed())
        assert kept.users == (0 if seed == 1 else PEOPLE)
        found = run(made, given, kept, seed)
        assert all(np.array_equal(found[name], expected[name]) for name in expected)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("names", [range(PEOPLE), np.arange(PEOPLE), np.arange(PEOPLE) / 2])
def test_names_in_a_file_are_words_or_numbers(tmp_path: Path, names: Any) -> None:
    made, path = asked(), tmp_path / "kept.json"
    source = hc.SeededSource(1)
    made.run(answers_to(made), source, kept=hc.KeptAnswers.open(path, made), people=names)
    again = hc.KeptAnswers.open(path, made)
    made.run(answers_to(made), source, kept=again, people=names)
    assert again.users == PEOPLE


def test_names_that_a_file_cannot_hold_are_refused_before_anything_is_sent(tmp_path: Path) -> None:
    made, path = asked(), tmp_path / "kept.json"
    kept = hc.KeptAnswers.open(path, made)
    with pytest.raises(hc.InvalidValue, match=r"words or numbers .* got a tuple"):
        made.run(answers_to(made), kept=kept, people=[(at, at) for at in range(PEOPLE)])
    assert kept.users == 0
    assert not path.exists()


def test_a_file_that_cannot_be_written_keeps_messages_from_being_sent(tmp_path: Path) -> None:
    made = asked()
    kept = hc.KeptAnswers.open(tmp_path / "missing" / "kept.json", made)
    with pytest.raises(hc.UnreadableData, match="must be a place to write to"):
        made.run(answers_to(made), kept=kept, people=NAMES)
    assert kept.users == 0


def damaged(change: Any) -> Any:
    """A change of the document whose digest fits."""

    def changed(text: str) -> str:
        document = json.loads(text)
        change(document)
        del document["digest"]
        return json.dumps({**document, "digest": digest(document)})

    return changed


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: "", "not JSON"),
        (lambda text: text[: len(text) // 2], "not JSON"),
        (lambda text: "[]", "of another kind"),
        (lambda text: text.replace("person 7", "person X"), "changed after it was written"),
        (damaged(lambda found: found.update(version=2)), "the version must be 1"),
        (damaged(lambda found: found.update(survey="0" * 64)), "those of another one"),
        (damaged(lambda found: found.pop("places")), "not complete: KeyError"),
        (damaged(lambda found: found["places"].pop()), "one name and one place"),
        (damaged(lambda found: found["people"].__setitem__(0, "person 1")), "one name"),
        (damaged(lambda found: found["releases"].pop()), "not complete: ValueError"),
        (damaged(lambda found: found["releases"][0]["people"].__setitem__(0, PEOPLE)), "drawing"),
        (damaged(lambda found: found["releases"][0]["values"].pop()), "each drawing must have"),
        (damaged(lambda found: found["releases"][0]["values"].__setitem__(0, 2)), "must fit"),
        (
            damaged(lambda found: found["releases"][0]["messages"].__setitem__(0, 2)),
            "every message",
        ),
        (damaged(lambda found: found.update(secure="yes")), "`secure` must be"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, change: Any, says: str) -> None:
    made, path = asked(), tmp_path / "kept.json"
    run(made, answers_to(made), hc.KeptAnswers.open(path, made), 1)
    path.write_text(change(path.read_text()))
    with pytest.raises(hc.UnreadableData, match=f"kept.json' must have kept answers: .*{says}"):
        hc.KeptAnswers.open(path, made)


def test_the_file_of_another_survey_is_refused(tmp_path: Path) -> None:
    made, path = asked(), tmp_path / "kept.json"
    run(made, answers_to(made), hc.KeptAnswers.open(path, made), 1)
    for other in (asked(epsilon=1.01), asked(users=PEOPLE + 1), mixed()):
        with pytest.raises(hc.UnreadableData, match="those of another one"):
            hc.KeptAnswers.open(path, other)
    assert hc.KeptAnswers.open(path, asked()).users == PEOPLE


def test_two_programs_do_not_overwrite_what_the_other_has_kept(tmp_path: Path) -> None:
    made, path = asked(), tmp_path / "kept.json"
    one, other = (hc.KeptAnswers.open(path, made) for _ in range(2))
    run(made, answers_to(made), one, 1)
    before = path.read_text()
    with pytest.raises(hc.InvalidParameter, match="one program at a time"):
        run(made, answers_to(made), other, 2)
    assert path.read_text() == before
    run(made, answers_to(made), one, 3)


def test_one_object_sends_one_wave_at_a_time() -> None:
    """Copies, forks and threads would randomize the same answers differently for one charge."""
    made, kept = asked(), hc.KeptAnswers()
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(hc.InvalidParameter, match="must not be copied or pickled"):
            copied(kept)
    columns = {"a": np.array([1, 0] * (PEOPLE // 2))}
    source = hc.SeededSource(1)
    waves = [kept.prepared(made.design, columns, NAMES, source.part(at)) for at in range(2)]
    kept.sent(made.design, waves[0])
    with pytest.raises(hc.InvalidParameter, match="another wave was sent since this one"):
        kept.sent(made.design, waves[1])
    repeated = kept.prepared(made.design, columns, NAMES, source.part(2))
    assert (repeated.batches[0].payload == waves[0].batches[0].payload).all()
    child = os.fork()
    if not child:
        try:
            kept.prepared(made.design, columns, NAMES, source.part(3))
        except hc.InvalidParameter:
            os._exit(3)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3


def test_a_ledger_knows_answers_that_come_from_a_file(tmp_path: Path) -> None:
    made, path = asked(), tmp_path / "kept.json"
    ledger = hc.Ledger.create(tmp_path / "spent.db")
    ledger.create_dataset("people", hc.Budget(3))
    for _ in range(3):
        kept = hc.KeptAnswers.open(path, made)
        made.run(answers_to(made), ledger=ledger, dataset="people", kept=kept, people=NAMES)
    assert len(ledger.spending("people").entries) == 1
