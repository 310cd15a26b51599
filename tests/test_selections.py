"""Which questions a device answers in local trust. It draws them before it knows an answer."""

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import headcount as hc
from asked import DRINK, SEX, SLEEP, SMOKE, document, question
from commands import Headcount
from devices import Recorded
from headcount.collect import keys
from headcount.collect.client import Respondent, response
from headcount.collect.document import Addresses, Document
from headcount.protocols.local.some_boxes import BlockRandomizer
from headcount.survey.response import Response, Selection

PLACES = Addresses("http://127.0.0.1:9", "http://127.0.0.1:9")
YES_NO = [SMOKE, DRINK, *(question(f"q{at}", f"Question {at}?", "yes-no") for at in range(3))]
ANSWERS: dict[str, Any] = {
    **{one["id"]: True for one in YES_NO}, "sex": "male", "sleep": 4
}  # fmt: skip
OTHERS: dict[str, Any] = {
    **{one["id"]: False for one in YES_NO}, "sex": "female", "sleep": 1
}  # fmt: skip


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Document:
    """Several yes-no questions in one release, two other questions, and a table."""
    return document(
        {"trust": "local", "epsilon": 1, "least_people": 500},
        [*YES_NO, SEX, SLEEP],
        keys.create(tmp_path_factory.mktemp("key"), None),
        PLACES,
        title="Some",
        table=[{"of": ["sex", "sleep"]}],
    )


def test_a_device_asks_what_it_sends(survey: Document) -> None:
    """With any draw, the questions that are asked are those of the messages that are sent."""
    design, seen = survey.design, Counter[tuple[str, ...]]()
    for seed in range(200):
        source = hc.SeededSource(seed)
        selection = Selection.drawn(design, source)
        asked = selection.questions(design)
        seen[asked] += 1
        encoded = survey.encoded({name: ANSWERS[name] for name in asked}, asked)
        sent = Response.of(design, encoded, source, selection).messages
        about: set[str] = set()
        for one in sent:
            if one.payload is not None:
                ids = design.releases[one.release].ids
                if len(ids) > 1:  # the first byte of a message is its first box
                    each = int(design.releases[one.release].protocol.parameters["boxes_each"])
                    ids = tuple(ids[(one.payload[0] + at) % len(ids)] for at in range(each))
                about.update(side for name in ids for side in name.split(" × "))
        assert set(asked) == about
    assert len(seen) >= 7
    assert {name for asked in seen for name in asked} == set(ANSWERS)
    assert max(map(len, seen)) < len(ANSWERS)


def test_other_answers_are_not_used(survey: Document) -> None:
    design = survey.design
    for seed in range(60):
        sent = []
        asked = Selection.drawn(design, hc.SeededSource(seed)).questions(design)
        for others in (OTHERS, ANSWERS):
            answers = {**others, **{name: ANSWERS[name] for name in asked}}
            source = Recorded(seed)
            sent.append((Response.of(design, survey.encoded(answers), source), source.data))
        assert sent[0] == sent[1]
        rest = {name: value for name, value in ANSWERS.items() if name != asked[0]}
        with pytest.raises(hc.InvalidValue, match=f"'{asked[0]}'"):
            response(survey, rest, hc.SeededSource(seed))


def test_drawing_before_changes_no_law() -> None:
    randomizer = BlockRandomizer(5, 2, 3 << 60)
    for value in (0, 5, 31):
        whole: dict[Any, Fraction] = {}
        for first in range(5):
            one = BlockRandomizer(5, 2, 3 << 60, first).law(value) or {}
            for bundle, chance in one.items():
                whole[bundle] = whole.get(bundle, Fraction(0)) + chance / 5
        assert whole == randomizer.law(value)


def test_every_box_is_drawn_equally_often() -> None:
    source = hc.SeededSource(5)
    firsts = Counter(BlockRandomizer(5, 2, 1).drawn(source).first for _ in range(20_000))
    expected = 20_000 / 5
    # The statistic exceeds 40 with probability 4e-8.
    assert sum((firsts[at] - expected) ** 2 / expected for at in range(5)) < 40


# Devices --------------------------------------------------------------------------------------


def test_a_device_draws_once(survey: Document, tmp_path: Path) -> None:
    person = Respondent(survey, tmp_path)
    drawn = person.questions()
    assert [person.questions() for _ in range(9)] == [drawn] * 9
    assert Respondent(survey, tmp_path).questions() == drawn
    (kept,) = tmp_path.iterdir()
    assert kept.stat().st_mtime == 0
    assert set(json.loads(kept.read_text())) == {"releases", "firsts"}
    with pytest.raises(hc.InvalidValue, match="must be answered"):
        person.answer({name: ANSWERS[name] for name in ANSWERS if name not in drawn})
    assert not person.answered
    person.answer({name: ANSWERS[name] for name in drawn})
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]  # what was drawn is forgotten
    assert len(person.sealed) == survey.response_bytes
    with pytest.raises(hc.InvalidParameter, match="must answer once"):
        person.questions()
    assert len(list(tmp_path.iterdir())) == 1


def test_damaged_draws_are_refused(survey: Document, tmp_path: Path) -> None:
    person = Respondent(survey, tmp_path)
    person.questions()
    (kept,) = tmp_path.iterdir()
    for text in ("", "{}", "[]", '{"releases": 3, "firsts": []}'):
        kept.write_text(text)
        with pytest.raises(hc.UnreadableData, match="has drawn"):
            person.answer(ANSWERS)
    assert not person.answered


def test_everybody_answers_everything_in_shuffle_trust(tmp_path: Path) -> None:
    privacy = {"trust": "shuffle", "epsilon": 3, "delta": 1e-3, "least_people": 200}
    shuffled = document(privacy, [SMOKE, SEX], keys.create(tmp_path / "key", None), PLACES)
    person = Respondent(shuffled, tmp_path / "person")
    assert person.questions() == ("smoke", "sex")
    assert not (tmp_path / "person").exists()


@pytest.mark.slow
def test_the_command_asks_only_what_was_drawn(
    headcount: Headcount, survey: Document, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    survey.save(tmp_path / "survey.json")
    prompts: list[str] = []

    def prompt(text: str) -> str:
        prompts.append(text)
        asked = next(one for one in (*YES_NO, SEX, SLEEP) if text.startswith(one["text"]))
        value = ANSWERS[asked["id"]]
        return "yes" if value is True else str(value)

    monkeypatch.setattr("typer.prompt", prompt)
    drawn = Respondent(survey, tmp_path / "me").questions()
    outcome = headcount("survey", "answer", "survey.json", "--folder", "me")
    assert f"answers {len(drawn)} of 7 questions" in outcome.out
    assert len(prompts) == len(drawn)
    assert Respondent(survey, tmp_path / "me").answered  # nobody listens at its address
