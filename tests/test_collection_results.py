"""Results of collected surveys: charged to a ledger exactly once, and shown without new noise."""

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import headcount as hc
from collection import analyzer, shuffler
from commands import Headcount
from headcount.collect import keys
from headcount.collect.analyzer import Analyzer
from headcount.collect.batch import SealedBatch
from headcount.collect.charges import Charges
from headcount.collect.client import response
from headcount.collect.document import Addresses, Document
from headcount.collect.shuffler import Sent
from headcount.core.budget import Trust
from headcount.survey.questions import Choice, Number, Scale, YesNo
from headcount.survey.survey import Survey
from pdfs import pages

PEOPLE = 60
SOURCE = hc.SecureSource()
NOTE = "A note <script>"
QUESTIONS = (
    YesNo("smoke", "Do you <b>smoke</b>?"),
    Choice("way", "How do you come?", choices=("foot", "car"), optional=True),
    Scale("sleep", "How well do you sleep?", low=1, high=5),
    Number("age", "How old are you?", low=0, high=100, whole=True),
)


class Killed(BaseException):
    """A process that ends without warning."""


def opened(folder: Path, title: str = "A campus", **settings: Any) -> Document:
    """A survey of a few questions, for the key in the folder."""
    survey = Survey(
        QUESTIONS, hc.Budget(4, 1e-4), Trust.SHUFFLE, PEOPLE, title=title,
        introduction=NOTE, noise="shuffler", tables=(("smoke", "way"),), **settings,
    )  # fmt: skip
    known = (folder / "key.json").exists()
    key = keys.PublicKey.load(folder) if known else keys.create(folder, None)
    return Document.of(survey, key, Addresses("http://127.0.0.1:1", "http://127.0.0.1:2"))


def answers(person: int) -> dict[str, Any]:
    return {
        "smoke": "yes" if person % 3 == 0 else "no",
        "way": (None, "foot", "car")[person % 3],
        "sleep": person % 5 + 1,
        "age": 20 + person % 50,
    }


def delivered(folder: Path, survey: Document, one: Analyzer, extra: bytes = b"") -> None:
    """Let everybody answer, and hand the batch to an analyzer."""
    mixer = shuffler(folder)
    mixer.register(survey)
    mixer.accept(
        [Sent(survey.digest, response(survey, answers(at), SOURCE)) for at in range(PEOPLE)]
    )
    mixer.close(survey.digest)
    one.register(survey)

    def send(document: Document, name: str, batch: SealedBatch) -> None:
        one.receive(document.digest, name, replace(batch, messages=batch.messages + extra))

    mixer.forward(survey.digest, send)


def book(folder: Path, epsilon: float = 10.0, delta: float = 1e-2) -> hc.Ledger:
    ledger = hc.Ledger.create(folder / "spent.db")
    ledger.create_dataset("campus", hc.Budget(epsilon, delta))
    return ledger


# The ledger -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step", ["opening", "opened", "estimated", "counted, not committed", "counted"]
)
def test_a_survey_is_charged_once_wherever_the_analyzer_is_killed(
    tmp_path: Path, step: str
) -> None:
    survey, ledger = opened(tmp_path), book(tmp_path)

    def reached(name: str) -> None:
        if name == step:
            raise Killed

    delivered(tmp_path, survey, analyzer(tmp_path))
    first = analyzer(tmp_path, charge=Charges(ledger), reached=reached)
    with pytest.raises(Killed):
        first.count(survey.digest)
    (entry,) = ledger.spending("campus").entries
    second = analyzer(tmp_path, charge=Charges(hc.Ledger.open(tmp_path / "spent.db"), "campus"))
    second.count(survey.digest)
    second.count(survey.digest)
    assert ledger.spending("campus").entries == (entry,)
    assert second.results(survey.digest)["people"] == PEOPLE
    promise = survey.guarantee
    assert (entry.epsilon, entry.delta) == (promise.epsilon, promise.delta)
    assert entry.note["survey"] == survey.digest
    assert entry.users == PEOPLE


def test_asking_the_same_people_again_is_charged_again(tmp_path: Path) -> None:
    ledger = book(tmp_path)
    surveys = [opened(tmp_path, title) for title in ("first", "second")]
    one = analyzer(tmp_path, charge=Charges(ledger))
    for survey in surveys:
        delivered(tmp_path, survey, one)
        one.count(survey.digest)
    entries = ledger.spending("campus").entries
    assert len({entry.note["survey"] for entry in entries}) == len(entries) == 2


def test_nothing_is_opened_if_the_budget_is_exhausted(tmp_path: Path) -> None:
    survey, ledger = opened(tmp_path), book(tmp_path, epsilon=3)
    steps: list[str] = []
    one = analyzer(tmp_path, charge=Charges(ledger), reached=steps.append)
    delivered(tmp_path, survey, one)
    steps.clear()
    with pytest.raises(hc.BudgetExhausted):
        one.count(survey.digest)
    assert steps == []
    assert ledger.spending("campus").entries == ()
    assert one.pending() == [survey.digest]
    ledger.create_dataset("more", hc.Budget(5, 1e-3))
    again = analyzer(tmp_path, charge=Charges(ledger, "more"))
    again.count(survey.digest)
    assert len(ledger.spending("more").entries) == 1


def test_all_waves_fit_into_the_budget_that_the_survey_promises(tmp_path: Path) -> None:
    """Each wave is charged by itself, and one more than was promised is refused."""
    first = opened(tmp_path, waves=3)
    ledger = book(tmp_path, first.budget.epsilon, first.budget.delta)
    for wave in (1, 2, 3):
        Charges(ledger)(replace(first, wave=wave), PEOPLE)
    assert len(ledger.spending("campus").entries) == 3
    with pytest.raises(hc.BudgetExhausted):
        Charges(ledger)(opened(tmp_path, "One more", waves=3), PEOPLE)


def test_a_named_release_is_charged_once_for_each_dataset(tmp_path: Path) -> None:
    made = hc.protocol("central.geometric", hc.Count(), hc.Budget(0.5), hc.Crowd(10))
    ledger = book(tmp_path)
    ledger.create_dataset("others", hc.Budget(10, 1e-2))

    def charge(name: str, once: str) -> Callable[[], str]:
        own = hc.Ledger.open(tmp_path / "spent.db")
        return lambda: own.charge(name, made.guarantee, made.curve, once=once).id

    calls = [charge("campus", "a") for _ in range(8)] + [charge("others", "a")]
    with ThreadPoolExecutor(9) as pool:
        ids = list(pool.map(lambda call: call(), calls))
    assert len(set(ids)) == 2
    assert len(ledger.spending("campus").entries) == len(ledger.spending("others").entries) == 1
    assert charge("campus", "b")() not in ids
    assert charge("campus", "")() != charge("campus", "")()
    assert len(ledger.spending("campus").entries) == 4


def test_a_name_does_not_hide_a_larger_charge(tmp_path: Path) -> None:
    ledger = book(tmp_path)

    def charge(epsilon: float, times: int) -> str:
        made = hc.protocol("central.geometric", hc.Count(), hc.Budget(epsilon), hc.Crowd(10))
        return ledger.charge(None, made.guarantee, made.curve, times=times, once="a").id

    first = charge(0.5, 2)
    assert charge(0.5, 2) == charge(0.4, 1) == first
    for epsilon, times in ((0.6, 2), (0.5, 3)):
        with pytest.raises(hc.InvalidParameter, match="`once` must name a single release"):
            charge(epsilon, times)
    assert len(ledger.spending("campus").entries) == 1


# Pages and tables -----------------------------------------------------------------------------


class Texts(HTMLParser):
    """The visible text of a page, and its elements."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[str] = []
        self.feed(page)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture
def collected(tmp_path: Path) -> dict[str, Any]:
    """The results of a survey in which one message cannot be read, in the folder `home`."""
    home = tmp_path / "home"
    home.mkdir()
    survey = opened(home)
    survey.save(tmp_path / "survey.json")
    one = analyzer(home)
    delivered(tmp_path, survey, one, extra=bytes(survey.envelope.size))
    one.count(survey.digest)
    return one.results(survey.digest)


def test_the_page_shows_every_answer_and_what_was_promised(
    headcount: Headcount, tmp_path: Path, collected: dict[str, Any]
) -> None:
    words = ("analyzer", "results", "home", "survey.json", "--out")
    for name in ("results.html", "results.json", "results.parquet"):
        done = headcount(*words, name)
        assert done.status == 0, done.err
    saved = json.loads((tmp_path / "results.json").read_text())
    assert saved == json.loads(json.dumps(collected))
    page = Texts((tmp_path / "results.html").read_text())
    assert page.text.startswith(f"A campus {NOTE} Anybody could answer", page.text.index(NOTE) - 9)
    for question in QUESTIONS:
        assert question.text in page.text
    assert not {"b", "script", "link", "iframe"} & set(page.tags)
    for one in saved["results"]["questions"]:
        for reading in one["readings"]:
            low, high = reading["low"], reading["high"]
            wide = reading["population"]
            assert wide["low"] <= low <= high <= wide["high"]
            if reading["unit"] == "share" and reading["name"] != "no answer":
                assert f"({100 * low:.1f} to {100 * high:.1f} %; population: " in page.text
    assert "Anybody could answer any number of times" in page.text
    assert "1 message could not be read" in page.text
    for one in saved["results"]["sees"]:
        assert one["who"] in page.text
        assert one["what"] in page.text
    assert "Shares within each row" in page.text
    assert f"Fingerprint of the survey (SHA-256): {saved['survey']}" in page.text
    table = pyarrow.parquet.read_table(tmp_path / "results.parquet")
    assert set(table.column("question").to_pylist()) == {
        *(one.id for one in QUESTIONS), "smoke × way",
    }  # fmt: skip
    (crossed,) = saved["results"]["tables"]
    cells = [row for row in table.to_pylist() if row["question"] == "smoke × way"]
    counts = [row["value"] for row in cells if row["unit"] == "people"]
    assert counts == crossed["estimate"]["value"]
    shares = [one for line in crossed["shares"]["lines"] for one in line["shares"]]
    assert [row["value"] for row in cells if row["unit"] == "share"] == [
        one["value"] for one in shares
    ]
    for row in cells:
        assert row["population_low"] <= row["low"] <= row["high"] <= row["population_high"]
    about = json.loads(table.schema.metadata[b"headcount"])
    assert about["guarantee"] == saved["guarantee"]
    assert about["messages"]["refused"] == 1
    assert headcount(*words, "results.txt").status == 2


@pytest.mark.slow
def test_the_page_is_printed_as_pdf(
    headcount: Headcount, tmp_path: Path, collected: dict[str, Any]
) -> None:
    done = headcount("analyzer", "results", "home", "survey.json", "--out", "results.pdf")
    assert done.status == 0, done.err
    assert 2 <= pages((tmp_path / "results.pdf").read_bytes()) <= 4


def test_skipped_questions_have_a_response_rate(collected: dict[str, Any]) -> None:
    by_id = {one["id"]: one for one in collected["results"]["questions"]}
    assert by_id["smoke"]["answered"] is None
    answered = by_id["way"]["answered"]
    (skipped,) = (one for one in by_id["way"]["readings"] if one["name"] == "no answer")
    assert answered["value"] == pytest.approx(1 - skipped["value"])
    assert answered["low"] == pytest.approx(1 - skipped["high"])
    assert answered["population"]["high"] == pytest.approx(1 - skipped["population"]["low"])


def test_results_are_the_same_however_often_they_are_shown(
    headcount: Headcount, collected: dict[str, Any]
) -> None:
    """An analyzer that estimated again could draw its noise again."""
    outs = {headcount("analyzer", "results", "home", "survey.json", "--json").out for _ in "12"}
    assert len(outs) == 1
    assert json.loads(outs.pop())["questions"] == json.loads(json.dumps(collected["questions"]))


def test_the_ledger_is_an_option_of_the_commands(headcount: Headcount, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    survey, ledger = opened(home), book(tmp_path)
    survey.save(tmp_path / "survey.json")
    mixer = shuffler(tmp_path)
    mixer.register(survey)
    mixer.accept(
        [Sent(survey.digest, response(survey, answers(at), SOURCE)) for at in range(PEOPLE)]
    )
    mixer.close(survey.digest)
    keys.create_tokens(home)
    export = ("shuffler", "export", "survey.json", "--out", "batch", "--token-file", "home/token")
    assert headcount(*export).status == 0
    words = ("analyzer", "count", "home", "batch", "--survey", "survey.json")
    assert headcount(*words, "--dataset", "campus").status == 2
    assert headcount(*words, "--ledger", "spent.db", "--dataset", "nobody").status == 2
    for _ in range(2):
        done = headcount(*words, "--ledger", "spent.db", "--out", "out.html")
        assert done.status == 0, done.err
        assert re.search("A campus: 60 people", done.out)
    assert len(ledger.spending("campus").entries) == 1
