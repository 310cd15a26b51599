"""Collected surveys that ask each person only some questions, tables of two questions, and waves.

Documents are read as JSON here, as a client in another language would read them.
"""

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import headcount as hc
from collection import analyzer, contents_of, shuffler
from headcount.collect import keys
from headcount.collect.client import response
from headcount.collect.document import Addresses, Document, canonical
from headcount.collect.releases import release_of
from headcount.collect.shuffler import Sent
from headcount.survey.design import Ask
from headcount.survey.file import read
from test_collection import collected

PLACES = Addresses("http://s", "http://a")
LINE = 2**32

SURVEY = """
title = "Class"

[privacy]
trust = "TRUST"
epsilon = 4
delta = DELTA
least_people = 120
waves = WAVES
noise = "NOISE"

[[question]]
id = "smoke"
text = "Do you smoke?"
kind = "yes-no"

[[question]]
id = "sleep"
text = "How well do you sleep?"
kind = "scale"
low = 1
high = 3
"""
AGE = """
[[question]]
id = "age"
text = "How old are you?"
kind = "number"
low = 0
high = 64
whole = true
"""
TABLE = '\n[[table]]\nof = ["smoke", "sleep"]\n'


def opened_survey(
    folder: Path, trust: str, *, table: bool = False, waves: int = 1, wave: int = 1,
    noise: str = "people",
) -> Document:  # fmt: skip
    text = SURVEY.replace("TRUST", trust).replace("WAVES", str(waves)).replace("NOISE", noise)
    text = text.replace("DELTA", "0" if trust == "local" else "1e-3")
    text += AGE * (trust == "local") + TABLE * table
    known = (folder / "key.json").exists()
    key = keys.PublicKey.load(folder) if known else keys.create(folder, None)
    return Document.of(read(text), key, PLACES, wave=wave)


def answers_of(person: int, *, age: bool = False) -> dict[str, Any]:
    found = {"smoke": "yes" if person % 4 else "no", "sleep": 1 + person % 3}
    return {**found, "age": person % 60} if age else found


def run(folder: Path, survey: Document, people: int) -> dict[str, Any]:
    """The results of a survey that passed through the shuffler and the analyzer as bytes."""
    survey, source = Document.from_bytes(survey.data), hc.SeededSource(7)
    one, other = shuffler(folder), analyzer(folder)
    one.register(survey)
    other.register(survey)
    age = survey.trust is hc.Trust.LOCAL
    sealed = [response(survey, answers_of(person, age=age), source) for person in range(people)]
    assert {len(body) for body in sealed} == {survey.response_bytes}
    one.accept([Sent(survey.digest, body) for body in sealed])
    return collected(one, other, survey)


def releases_in(survey: Document, key: Any, body: bytes) -> list[int]:
    """The releases of the messages in a response that are not dummies."""
    contents = contents_of(survey, key, body)
    return sorted(release for release, payload in contents if payload is not None)


def changed(survey: Document, change: Any) -> bytes:
    found = json.loads(survey.data)
    change(found)
    return canonical(found)


# Some of the questions --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Document]:
    folder = tmp_path_factory.mktemp("local")
    return folder, opened_survey(folder, "local", table=True)


def test_local_surveys_ask_each_person_some_questions(local: tuple[Path, Document]) -> None:
    folder, survey = local
    stated = json.loads(survey.data)
    assert survey.data == Document.from_bytes(survey.data).data
    each = stated["releases_each"]
    assert each < len(stated["releases"]) == 4
    assert sum(one["share"] for one in stated["releases"]) == each * LINE
    assert stated["messages"] == each
    found = run(folder, survey, 1500)
    assert found["messages"]["received"] == 1500 * each
    truth = {"smoke": 1125, "sleep": [500] * 3, "age": None}
    for name, wanted in truth.items():
        estimate = found["questions"][name]
        assert estimate["users"] == 1500
        if wanted is None:
            continue
        values = estimate["value"] if isinstance(wanted, list) else [estimate["value"]]
        errors = estimate["standard_error"]
        errors = errors if isinstance(errors, list) else [errors] * len(values)
        for value, error, true in zip(
            values, errors, wanted if isinstance(wanted, list) else [wanted], strict=True
        ):
            assert 0 < error < 600
            assert abs(value - true) < 5.5 * error
    assert [one["of"] for one in found["results"]["tables"]] == [["smoke", "sleep"]]


def test_devices_draw_their_questions_without_regard_to_answers(
    local: tuple[Path, Document],
) -> None:
    """The same bits choose the same releases, whatever the answers are. Shares are as stated."""
    folder, survey = local
    key, stated = keys.private_key(folder, None), json.loads(survey.data)
    each = stated["releases_each"]
    asked: Counter[int] = Counter()
    for seed in range(300):
        chosen = {
            tuple(releases_in(survey, key, response(survey, answers, hc.SeededSource(seed))))
            for answers in (answers_of(1, age=True), answers_of(8, age=True))
        }
        assert len(chosen) == 1
        (one,) = chosen
        assert len(set(one)) == len(one) == each
        asked.update(one)
    for number, release in enumerate(stated["releases"]):
        share = release["share"] / LINE
        assert abs(asked[number] - 300 * share) < 5.5 * math.sqrt(300 * share * (1 - share)) + 1


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.update(releases_each=found["releases_each"] + 1),
        lambda found: found["releases"][0].update(share=found["releases"][0]["share"] - 1),
        lambda found: found["releases"][0].update(share=0),
        lambda found: found["releases"][0].update(share=1.5),
        # Everybody would answer everything, each time with the ε of one answer.
        lambda found: [one.update(share=LINE) for one in found["releases"]],
        lambda found: found["releases"][0]["crowd"].update(users=5000, honest=5000),
        lambda found: found["releases"][3]["questions"][0].update(of=["smoke", "age"]),
        lambda found: found["releases"][3].update(
            questions=[{**found["releases"][3]["questions"][0], "of": ["smoke"]}]
        ),
        lambda found: found["survey"]["table"][0].update(of=["sleep", "smoke"]),
        lambda found: found["survey"].pop("table"),
        lambda found: found["releases"].pop(),
        lambda found: found["releases"].append(found["releases"][0]),
        lambda found: found.update(messages=found["messages"] + 1),
        lambda found: found.update(wave=2),
        lambda found: found.update(wave=0),
    ],
)
def test_documents_that_ask_otherwise_than_they_say_are_refused(
    local: tuple[Path, Document], change: Any
) -> None:
    with pytest.raises(hc.UnreadableData):
        Document.from_bytes(changed(local[1], change))


def halves(folder: Path, people: int) -> Document:
    """Two questions without noise worth mentioning. Each person answers one of them."""
    task = hc.Histogram(["a", "b"])
    made = hc.protocol("local.k-ary", task, hc.Budget(40), hc.Crowd(1))
    return Document(
        {"title": "Halves"},
        tuple(
            release_of((Ask(name, task),), made, people, share)
            for name, share in (("one", LINE // 4), ("two", 3 * (LINE // 4)))
        ),
        hc.Budget(40),
        keys.create(folder, None),
        PLACES,
        people,
    )


def test_estimates_include_the_error_of_who_was_asked(tmp_path: Path) -> None:
    survey, people = halves(tmp_path, 400), 400
    one, other = shuffler(tmp_path), analyzer(tmp_path)
    one.register(survey)
    other.register(survey)
    source = hc.SeededSource(3)
    bodies = [
        response(survey, dict.fromkeys(("one", "two"), "ab"[person % 2]), source)
        for person in range(people)
    ]
    one.accept([Sent(survey.digest, body) for body in bodies])
    found = collected(one, other, survey)
    with other.store.reading() as read:
        tallies = json.loads(read("SELECT tallies FROM analyses")[0][0])
    assert sum(tallies["one"]) + sum(tallies["two"]) == people
    for name in ("one", "two"):
        asked = sum(tallies[name])
        share = tallies[name][0] / asked
        spread = math.sqrt(share * (1 - share) * (1 / asked - 1 / people) * people / (people - 1))
        estimate = found["questions"][name]
        assert estimate["value"][0] == pytest.approx(people * share, rel=1e-6)
        assert estimate["standard_error"][0] == pytest.approx(people * spread, rel=1e-3)
        assert abs(estimate["value"][0] - 200) < 5.5 * people * spread


def test_only_single_messages_in_local_trust_may_be_asked_of_some(tmp_path: Path) -> None:
    made = hc.protocol("shuffle.zero-exact", hc.Count(), hc.Budget(1, 1e-3), hc.Crowd(30))
    key = keys.create(tmp_path, None)
    releases = (release_of((Ask("a", hc.Count()),), made, 30, LINE // 2),
                release_of((Ask("b", hc.Count()),), made, 30, LINE // 2))  # fmt: skip
    with pytest.raises(hc.InvalidParameter, match="may close with"):
        Document({}, releases, hc.Budget(2, 2e-3), key, PLACES, 30)
    with pytest.raises(hc.InvalidParameter, match="everybody must answer a"):
        Document({}, tuple(
            release_of(one.asks, made, 400, one.share) for one in releases
        ), hc.Budget(2, 2e-3), key, PLACES, 400)  # fmt: skip


# Tables -----------------------------------------------------------------------------------------


def test_tables_of_two_questions_are_collected(tmp_path: Path) -> None:
    survey = opened_survey(tmp_path, "shuffle", table=True, noise="shuffler")
    stated = json.loads(survey.data)
    questions = [one for release in stated["releases"] for one in release["questions"]]
    assert {one["id"]: one["of"] for one in questions} == {
        "smoke": ["smoke"], "sleep": ["sleep"], "smoke × sleep": ["smoke", "sleep"],
    }  # fmt: skip
    with pytest.raises(hc.InvalidValue, match="got 'smoke × sleep'"):
        response(survey, {**answers_of(1), "smoke × sleep": 0}, hc.SecureSource())
    found = run(tmp_path, survey, 120)
    cells = found["questions"]["smoke × sleep"]
    # Of 12 people in turn, numbers 0, 4 and 8 do not smoke, and each level of sleep has four.
    errors = cells["standard_error"]
    for at, value in enumerate(cells["value"]):
        error = errors[at] if isinstance(errors, list) else errors
        assert abs(value - (10 if at < 3 else 30)) < 5.5 * error
    assert len(found["results"]["tables"]) == 1


# Waves ------------------------------------------------------------------------------------------


def test_each_wave_has_a_document_of_its_own(tmp_path: Path) -> None:
    first, second = (opened_survey(tmp_path, "shuffle", waves=2, wave=one) for one in (1, 2))
    assert first.digest != second.digest
    assert "in all waves" in first.guarantee.neighbors
    assert first.guarantee == second.guarantee
    assert first.guarantee.epsilon <= 4
    differing = {
        name
        for name, value in json.loads(first.data).items()
        if json.loads(second.data)[name] != value
    }
    assert differing == {"wave"}
    with pytest.raises(hc.InvalidParameter, match="`wave` must be"):
        opened_survey(tmp_path, "shuffle", waves=2, wave=3)
    one, other = shuffler(tmp_path), analyzer(tmp_path)
    sealed = [response(first, answers_of(person), hc.SeededSource(1)) for person in range(120)]
    for survey in (first, second):  # the responses of the first wave do not open in the second
        one.register(survey)
        other.register(survey)
        one.accept([Sent(survey.digest, body) for body in sealed])
        found = collected(one, other, survey)
        assert (found["wave"], found["waves"]) == (survey.wave, 2)
        wrong = survey.messages * 120 if survey is second else 0
        assert found["messages"]["refused"] == wrong


# Claims -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("method", "magic"), ("secure", False), ("honest", 1), ("neighbors", "nobody"),
        ("relies_on", "nobody"), ("note", "perfectly private"), ("exact", 1), ("exact", None),
    ],
)  # fmt: skip
def test_documents_may_not_change_the_words_of_the_guarantee(
    tmp_path: Path, name: str, value: Any
) -> None:
    survey = opened_survey(tmp_path, "shuffle")
    with pytest.raises(hc.UnreadableData):
        Document.from_bytes(changed(survey, lambda found: found["guarantee"].update({name: value})))


def test_a_bound_may_not_be_called_exact(tmp_path: Path) -> None:
    survey = opened_survey(tmp_path, "shuffle")
    assert not survey.guarantee.exact
    with pytest.raises(hc.UnreadableData, match="exact"):
        Document.from_bytes(changed(survey, lambda found: found["guarantee"].update(exact=True)))
    exact = opened_survey(tmp_path, "local")
    assert exact.guarantee.exact

    def less(found: dict[str, Any]) -> None:
        found["guarantee"]["epsilon"] *= 1.5

    with pytest.raises(hc.UnreadableData, match="exact"):
        Document.from_bytes(changed(exact, less))


def test_the_guarantee_must_stay_within_the_stated_budget(tmp_path: Path) -> None:
    made = hc.protocol("local.k-ary", hc.Histogram(3), hc.Budget(1), hc.Crowd(1))
    key = keys.create(tmp_path, None)
    releases = tuple(release_of((Ask(name, made.task),), made, 5) for name in "ab")
    assert Document({}, releases, hc.Budget(2), key, PLACES, 5).guarantee.epsilon <= 2
    with pytest.raises(hc.InvalidParameter, match="must stay within"):
        Document({}, releases, hc.Budget(1.99), key, PLACES, 5)
