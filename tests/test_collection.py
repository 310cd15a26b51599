"""The collection service: documents, sealing, storing, mixing, counting, and its HTTP interface."""

import json
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from starlette.routing import Route

import headcount as hc
from collection import (
    RESULTS_TOKEN,
    TOKEN,
    analyzer,
    distinct,
    document,
    pair,
    post,
    results,
    shuffler,
    two_questions,
)
from headcount.collect import keys
from headcount.collect.analyzer import Analyzer
from headcount.collect.analyzer_app import analyzer_app
from headcount.collect.batch import SealedBatch
from headcount.collect.client import Respondent, response
from headcount.collect.document import Addresses, Document, canonical
from headcount.collect.refusals import (
    Closed,
    Conflict,
    Malformed,
    NoResults,
    Refused,
    TooFewPeople,
    Unauthorized,
    Unavailable,
)
from headcount.collect.sealing import Envelope
from headcount.collect.settings import AnalyzerSettings, ShufflerSettings
from headcount.collect.shuffler import Sent, Shuffler
from headcount.collect.shuffler_app import shuffler_app
from headcount.survey.survey import Survey

SOURCE = hc.SecureSource()


class Killed(BaseException):
    """A process that ends without warning."""


def answered(survey: Document, people: int) -> list[Sent]:
    if survey.releases[0].ids == ("who",):
        return [
            Sent(survey.digest, response(survey, {"who": str(one)}, SOURCE))
            for one in range(people)
        ]
    return [
        Sent(survey.digest, response(survey, {"smoke": one % 2, "drink": 1}, SOURCE))
        for one in range(people)
    ]


def collected(one: Shuffler, other: Analyzer, survey: Document) -> dict[str, Any]:
    one.close(survey.digest)
    one.forward(survey.digest, handed_to(other))
    other.count(survey.digest)
    return other.results(survey.digest)


def handed_to(other: Analyzer) -> Callable[[Document, str, SealedBatch], None]:
    """Send batches to an analyzer without a network."""

    def send(survey: Document, name: str, batch: SealedBatch) -> None:
        other.receive(survey.digest, name, batch)

    return send


def tallies(folder: Path) -> dict[str, list[int]]:
    """The tallies in the file of an analyzer."""
    with sqlite3.connect(folder / "analyzer.db") as store:
        found: dict[str, list[int]] = json.loads(
            store.execute("SELECT tallies FROM analyses").fetchone()[0]
        )
    store.close()
    return found


# Documents ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Document:
    return two_questions(tmp_path_factory.mktemp("example"), 30)


def changed(survey: Document, /, **changes: Any) -> bytes:
    return canonical({**json.loads(survey.data), **changes})


def test_a_document_is_canonical_and_named_by_its_digest(example: Document) -> None:
    again = Document.from_bytes(example.data)
    assert again.data == example.data
    assert again.digest == example.digest
    assert b": " not in example.data
    assert again.response_bytes == again.messages * (again.content_bytes + 48)


def test_documents_that_claim_too_much_privacy_are_refused(example: Document) -> None:
    promised = example.guarantee.to_dict()
    for name in ("epsilon", "delta"):
        less = {**promised, name: promised[name] * 0.999}
        with pytest.raises(hc.UnreadableData, match=f"claims {name}"):
            Document.from_bytes(changed(example, guarantee=less))
    more = {**promised, "epsilon": promised["epsilon"] * 2}
    assert Document.from_bytes(changed(example, guarantee=more)).messages == example.messages


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-1],
        lambda text: text.replace('"version":1', '"version":2'),
        lambda text: text.replace('"messages":', '"messages": '),
        lambda text: text.replace('"least_people":30', '"least_people":29'),
        lambda text: text.replace('"least_people":30', '"least_people":NaN'),
        lambda text: text.replace('"trust":"shuffle"', '"trust":"local"'),
        lambda text: text.replace("shuffle.zero-exact", "shuffle.sample-threshold"),
        lambda text: text.replace('"slots":1', '"slots":2'),
        lambda text: text.replace('"admission":"open"', '"admission":"anybody"'),
        lambda text: text.replace("http://", "ftp://"),
        lambda text: "[]",
        lambda text: "[" * 100_000,
        lambda text: "",
    ],
)
def test_damaged_documents_are_refused(example: Document, damage: Any) -> None:
    damaged = damage(example.data.decode())
    assert damaged != example.data.decode()
    with pytest.raises(hc.UnreadableData):
        Document.from_bytes(damaged.encode())


def test_parameters_are_calibrated_anew(example: Document) -> None:
    found = json.loads(example.data)
    name, value = next(iter(found["releases"][0]["parameters"].items()))
    found["releases"][0]["parameters"][name] = value - 1
    with pytest.raises(hc.UnreadableData, match="computes the parameters"):
        Document.from_bytes(canonical(found))


def test_surveys_that_a_shuffler_cannot_serve_are_refused(tmp_path: Path) -> None:
    budget, crowd = hc.Budget(1, 1e-3), hc.Crowd(50)
    central = hc.protocol("central.geometric", hc.Count(), budget, crowd)
    made = hc.protocol("shuffle.zero-exact", hc.Count(), budget, crowd)
    pure = hc.protocol("shuffle.noisy-shuffler", hc.Count(), hc.Budget(1), crowd)
    with pytest.raises(hc.InvalidParameter, match="local or shuffle trust"):
        document(tmp_path, {"a": central}, least_people=50)
    with pytest.raises(hc.InvalidParameter, match="may close with 49"):
        document(tmp_path, {"a": made}, least_people=49)
    with pytest.raises(hc.InvalidParameter, match="only release"):
        document(tmp_path, {"a": pure, "b": made}, least_people=50)


# Sealing --------------------------------------------------------------------------------------


def test_sealed_messages_open_only_as_they_were_sealed() -> None:
    key, digest = X25519PrivateKey.generate(), bytes(range(32))
    envelope = Envelope(digest, 64)
    sealed = envelope.seal(key.public_key(), 1, b"\x07")
    assert len(sealed) == envelope.size == 112
    assert envelope.open(key, sealed, (4, 1)) == (1, b"\x07")
    assert envelope.open(key, envelope.seal(key.public_key(), 0, None), (4, 1)) == (0, None)
    flipped = bytes([*sealed[:-1], sealed[-1] ^ 1])
    for wrong in (flipped, sealed[:-1], b"", bytes(112), sealed + b"\0"):
        with pytest.raises(hc.InvalidValue):
            envelope.open(key, wrong, (4, 1))
    with pytest.raises(hc.InvalidValue):
        Envelope(digest[::-1], 64).open(key, sealed, (4, 1))  # another survey
    with pytest.raises(hc.InvalidValue):
        envelope.open(X25519PrivateKey.generate(), sealed, (4, 1))


@pytest.mark.parametrize("place", [0, 1, 2, 3, 4, 19, 21, 63])
def test_contents_that_no_device_makes_are_refused(place: int) -> None:
    envelope = Envelope(bytes(range(32)), 64)
    content = bytearray(envelope.packed(1, b"\x07"))
    assert envelope.unpacked(bytes(content), (4, 1)) == (1, b"\x07")
    content[place] ^= 0x80
    with pytest.raises(hc.InvalidValue):
        envelope.unpacked(bytes(content), (4, 1))


def test_dummies_look_like_messages(tmp_path: Path) -> None:
    """Everybody sends the same number of bytes, and dummies are marked inside the seal only."""
    made = hc.protocol("shuffle.fake-users", hc.Histogram(2), hc.Budget(2, 1e-2), hc.Crowd(30))
    survey = document(tmp_path, {"a": made}, least_people=30)
    assert survey.messages > 1
    sent = [Sent(survey.digest, response(survey, {"a": 1}, SOURCE)) for _ in range(30)]
    assert {len(one.body) for one in sent} == {survey.response_bytes}
    one, other = shuffler(tmp_path), analyzer(tmp_path)
    one.register(survey)
    other.register(survey)
    one.accept(sent)
    found = collected(one, other, survey)
    assert found["messages"]["received"] == 30 * survey.messages
    assert 0 < found["messages"]["dummies"] < 30 * survey.messages
    assert "error" not in found["questions"]["a"]


# The life of a survey ---------------------------------------------------------------------------


def test_each_person_is_counted_once(tmp_path: Path) -> None:
    survey = distinct(tmp_path, 50)
    one, other = shuffler(tmp_path), analyzer(tmp_path)
    one.register(survey)
    other.register(survey)
    sent = answered(survey, 50)
    with pytest.raises(NoResults):
        other.results(survey.digest)
    assert one.accept(sent[:49]) == ["stored"] * 49
    assert one.accept(sent[:49]) == ["seen before"] * 49
    with pytest.raises(TooFewPeople, match="got 49"):
        one.close(survey.digest)
    assert one.accept([sent[49], sent[49]]) == ["stored", "seen before"]
    found = collected(one, other, survey)
    assert found["people"] == 50
    assert tallies(tmp_path)["who"] == [1] * 50
    assert isinstance(one.accept(sent[:1])[0], Closed)
    assert one.status(survey.digest).state == "forwarded"


def test_copies_of_somebodys_message_count_once(tmp_path: Path) -> None:
    """Whoever copies a sealed message into another response moves no count."""
    survey = distinct(tmp_path, 5)
    sent = answered(survey, 5)
    one, other = shuffler(tmp_path), analyzer(tmp_path)
    one.register(survey)
    other.register(survey)
    batch = one.mixed(survey, [sent[0].body] * 3 + [item.body for item in sent], 8)
    other.receive(survey.digest, "0" * 32, batch)
    other.count(survey.digest)
    assert tallies(tmp_path)["who"] == [1] * 5


def test_the_batch_is_mixed_once(tmp_path: Path) -> None:
    survey = two_questions(tmp_path, 30)
    one, other = shuffler(tmp_path), analyzer(tmp_path)
    one.register(survey)
    other.register(survey)
    sent = answered(survey, 30)
    one.accept(sent)
    name = one.close(survey.digest)
    first = one.batch(survey.digest)
    assert one.close(survey.digest) == name
    again = shuffler(tmp_path).batch(survey.digest)
    assert again == first
    assert other.receive(survey.digest, *first) is True
    assert other.receive(survey.digest, *first) is False
    for fresh in ((name, one.mixed(survey, [item.body for item in sent], 30)),
                  ("1" * 32, first[1])):  # fmt: skip
        with pytest.raises(Conflict):
            other.receive(survey.digest, *fresh)
    other.count(survey.digest)
    kept = other.results(survey.digest)
    other.count(survey.digest)
    assert other.results(survey.digest) == kept


def test_batches_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    survey = two_questions(tmp_path, 30)
    other = analyzer(tmp_path)
    other.register(survey)
    size = survey.envelope.size
    with pytest.raises(Malformed, match="at least 30 people"):
        other.receive(survey.digest, "0" * 32, SealedBatch(29, size, bytes(size)))
    with pytest.raises(Malformed, match="bytes each"):
        other.receive(survey.digest, "0" * 32, SealedBatch(30, size - 1, bytes(size - 1)))
    for wrong in (b"", b"HCB1", b"HCB2" + bytes(20), b"HCB1" + bytes(12)):
        with pytest.raises(Malformed):
            SealedBatch.from_bytes(wrong)


def test_junk_is_counted_and_does_no_harm(tmp_path: Path) -> None:
    survey = two_questions(tmp_path, 40)
    one, other = shuffler(tmp_path), analyzer(tmp_path)
    one.register(survey)
    other.register(survey)
    junk = np.random.default_rng(1).bytes(survey.response_bytes)
    one.accept([*answered(survey, 40), Sent(survey.digest, junk)])
    found = collected(one, other, survey)
    assert found["messages"]["refused"] == survey.messages
    assert abs(found["questions"]["smoke"]["value"] - 20) < 30


def test_codes_are_used_once(tmp_path: Path) -> None:
    survey = distinct(tmp_path, 3, admission="codes")
    one = shuffler(tmp_path)
    one.register(survey)
    code, other_code = one.new_codes(survey.digest, 2)
    first, second = (item.body for item in answered(survey, 2))

    def outcome(body: bytes, code: str | None) -> Any:
        found = one.accept([Sent(survey.digest, body, code)])[0]
        return found if isinstance(found, str) else type(found)

    assert outcome(first, None) is Unauthorized
    assert outcome(first, "0" * 20) is Unauthorized
    assert outcome(first, code) == "stored"
    assert outcome(first, code.upper()) == "seen before"
    assert outcome(second, code) is Conflict
    assert outcome(second, other_code) == "stored"
    files = b"".join(path.read_bytes() for path in tmp_path.glob("shuffler.db*"))
    assert code.encode() not in files


def test_surveys_close_by_time_and_by_number(tmp_path: Path) -> None:
    now = [100.0]
    survey = distinct(tmp_path, 3)
    one = shuffler(tmp_path, clock=lambda: now[0])
    one.register(survey, closes_at=200.0)
    one.accept(answered(survey, 2))
    assert one.due() == []
    now[0] = 200.0
    assert one.due() == [survey.digest]
    assert one.status(survey.digest).overdue
    one.extend(survey.digest, 300.0)
    assert one.due() == []
    one.register(survey, closes_with=3)
    one.accept(answered(survey, 1))
    assert one.due() == [survey.digest]
    with pytest.raises(hc.InvalidParameter):
        one.register(survey, closes_with=2)


def test_a_survey_can_be_destroyed(tmp_path: Path) -> None:
    survey = distinct(tmp_path, 3)
    one = shuffler(tmp_path)
    one.register(survey)
    one.accept(answered(survey, 3))
    one.destroy(survey.digest)
    assert isinstance(one.accept(answered(survey, 1))[0], Closed)
    with pytest.raises(Closed):
        one.close(survey.digest)


SURVEY = """
title = "Class"

[privacy]
trust = "shuffle"
epsilon = 4
delta = 1e-3
least_people = 60

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


def test_releases_answer_the_questions_that_people_read(tmp_path: Path) -> None:
    (tmp_path / "class.toml").write_text(SURVEY)
    key, places = keys.create(tmp_path, None), Addresses("http://s", "http://a")
    made = Document.of(Survey.load(tmp_path / "class.toml"), key, places)

    def told(**settings: Any) -> None:
        survey: dict[str, Any] = json.loads(made.data)["survey"]
        question = {**survey["question"][1], **settings.pop("question", {})}
        survey["question"] = [survey["question"][0], question]
        survey["privacy"] = {**survey["privacy"], **settings}
        Document.from_bytes(changed(made, survey=survey))

    told()
    # A scale of six levels would send buckets that get no noise.
    for wrong in (
        {"question": {"high": 6}}, {"question": {"id": "dream"}}, {"epsilon": 0.01},
        {"least_people": 4000}, {"trust": "local"},
    ):  # fmt: skip
        with pytest.raises(hc.UnreadableData):
            told(**wrong)
    scale = json.loads(made.data)["releases"]
    place = next(at for at, one in enumerate(scale) if one["questions"][0]["id"] == "sleep")
    scale[place]["questions"][0]["task"]["buckets"] = ["1", "2", "3", "4"]
    with pytest.raises(hc.UnreadableData, match="must have the task of its questions"):
        Document.from_bytes(changed(made, releases=scale))


@pytest.mark.parametrize("noise", ["people", "shuffler"])
def test_a_survey_from_its_file_to_its_results(tmp_path: Path, noise: str) -> None:
    path = tmp_path / "class.toml"
    path.write_text(SURVEY.replace("epsilon = 4", f'epsilon = 4\nnoise = "{noise}"'))
    made = Document.of(
        Survey.load(path), keys.create(tmp_path, None), Addresses("http://s", "http://a")
    )
    survey = Document.from_bytes(made.data)
    assert survey.guarantee.delta <= 1e-3
    assert survey.guarantee.epsilon <= 4 * (1 + 1e-9)
    assert "all answers of one person" in survey.guarantee.neighbors
    with pytest.raises(hc.InvalidValue, match="'smoke' must be answered yes or no"):
        response(survey, {"smoke": "perhaps", "sleep": 1}, SOURCE)
    one, other = shuffler(tmp_path), analyzer(tmp_path)
    one.register(survey)
    other.register(survey)
    answers = [{"smoke": "yes" if at % 4 else "no", "sleep": 1 + at % 3} for at in range(60)]
    one.accept([Sent(survey.digest, response(survey, one, SOURCE)) for one in answers])
    found = collected(one, other, survey)
    read = {one["id"]: one for one in found["results"]["questions"]}
    assert set(read) == {"smoke", "sleep"}
    assert abs(found["questions"]["smoke"]["value"] - 45) < 30
    assert found["questions"]["smoke"]["guarantee"]["epsilon"] == survey.guarantee.epsilon


# Crashes, in one process --------------------------------------------------------------------------

SHUFFLER_STEPS = (
    "accepting",
    "accepted, not committed",
    "committed, not answered",
    "closing",
    "mixed",
    "batch written",
    "closed, not committed",
    "closed",
    "sending",
    "sent, not recorded",
    "forwarded",
)
ANALYZER_STEPS = (
    "receiving",
    "received, not committed",
    "received",
    "opening",
    "opened",
    "estimated",
    "counted, not committed",
    "counted",
)


def dying(at: str) -> Any:
    left = [at]

    def reached(step: str) -> None:
        if left == [step]:
            left.clear()
            raise Killed

    return reached


@pytest.mark.parametrize("step", [*SHUFFLER_STEPS, *ANALYZER_STEPS])
def test_a_crash_at_any_step_loses_nothing_and_counts_nothing_twice(
    tmp_path: Path, step: str
) -> None:
    survey = distinct(tmp_path, 8)
    sent = answered(survey, 8)
    reached = dying(step)
    crashes = 0
    while True:
        try:
            one = shuffler(tmp_path, reached=reached)
            other = analyzer(tmp_path, reached=reached)
            one.register(survey)
            other.register(survey)
            if one.status(survey.digest).state == "open":
                one.accept(sent)
                one.close(survey.digest)
            for digest in one.waiting():
                one.forward(digest, handed_to(other))
            other.count(survey.digest)
            break
        except Killed:
            crashes += 1
    assert crashes == 1
    assert tallies(tmp_path)["who"] == [1] * 8


def test_two_closers_make_one_batch(tmp_path: Path) -> None:
    survey = two_questions(tmp_path, 30)
    first = shuffler(tmp_path)
    first.register(survey)
    first.accept(answered(survey, 30))
    start = threading.Barrier(4)

    def close(_: int) -> str:
        one = shuffler(tmp_path)
        start.wait()
        return one.close(survey.digest)

    with ThreadPoolExecutor(4) as pool:
        names = set(pool.map(close, range(4)))
    assert len(names) == 1


# Respondents --------------------------------------------------------------------------------------


def test_a_respondent_randomizes_once(tmp_path: Path) -> None:
    survey = two_questions(tmp_path / "key", 30)
    person = Respondent(survey, tmp_path / "person")
    with pytest.raises(hc.InvalidValue, match="'drink' is not"):
        person.answer({"smoke": 1})
    with pytest.raises(hc.InvalidValue, match="got 'eat'"):
        person.answer({"smoke": 1, "drink": 0, "eat": 1})
    person.answer({"smoke": 1, "drink": 0})
    sealed = person.sealed
    with pytest.raises(hc.InvalidParameter, match="must answer once"):
        person.answer({"smoke": 1, "drink": 0})
    slept: list[float] = []
    with pytest.raises(Unavailable, match="reachable"):
        person.send(tries=3, sleep=slept.append)
    assert len(slept) == 2
    again = Respondent(survey, tmp_path / "person")
    assert again.sealed == sealed
    assert not again.accepted


# Keys ---------------------------------------------------------------------------------------------


def test_keys_need_their_passphrase_and_can_be_destroyed(tmp_path: Path) -> None:
    public = keys.create(tmp_path, b"open sesame")
    assert keys.state(tmp_path) == "pending"
    assert (tmp_path / "private.pem").stat().st_mode & 0o777 == 0o600
    for wrong in (None, b"wrong"):
        with pytest.raises(hc.InvalidParameter, match="passphrase"):
            keys.private_key(tmp_path, wrong)
    private = keys.private_key(tmp_path, b"open sesame")
    assert private.public_key().public_bytes_raw() == public.raw
    with pytest.raises(hc.InvalidParameter, match="not have a key yet"):
        keys.create(tmp_path, None)
    keys.activate(tmp_path)
    assert keys.state(tmp_path) == "active"
    keys.destroy(tmp_path)
    with pytest.raises(hc.UnreadableData, match="destroyed"):
        keys.private_key(tmp_path, b"open sesame")
    assert not (tmp_path / "private.pem").exists()


# Over HTTP ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Document]]:
    folder = tmp_path_factory.mktemp("running")
    survey = distinct(folder, 12)
    with pair(folder, survey) as (one, other):
        one.start()
        other.start()
        yield folder, survey


def code(reply: httpx.Response) -> tuple[int, str]:
    error = reply.json()["error"]
    assert set(error) == {"code", "message", "hint"}
    return reply.status_code, error["code"]


def test_bad_requests_are_refused_in_one_shape(running: tuple[Path, Document]) -> None:
    _, survey = running
    one, other = survey.addresses.shuffler, survey.addresses.analyzer
    with httpx.Client() as client:
        place = f"{one}/surveys/{survey.digest}"
        assert client.get(place).content == survey.data
        assert code(client.post(f"{place}/responses", content=b"")) == (400, "wrong-size")
        assert code(client.post(f"{place}/responses", content=b"x")) == (400, "wrong-size")
        large = client.post(f"{place}/responses", content=bytes(2**20))
        assert code(large) == (413, "too-large")
        chunked = client.post(f"{place}/responses", content=iter([b"x" * survey.response_bytes]))
        assert code(chunked) == (411, "length-required")
        assert code(client.get(f"{one}/surveys/{'0' * 64}")) == (404, "unknown-survey")
        assert code(client.get(f"{one}/elsewhere")) == (404, "not-found")
        assert code(client.delete(place)) == (405, "method-not-allowed")
        assert client.get(f"{one}/readyz").json() == {"ready": True}
        batch = f"{other}/surveys/{survey.digest}/batches/{'0' * 32}"
        assert code(client.put(batch, content=b"")) == (401, "unauthorized")
        token = {"Authorization": f"Bearer {TOKEN}"}
        assert code(client.put(batch, content=b"", headers=token)) == (400, "malformed")
        assert code(client.put(batch[:-1], content=b"", headers=token)) == (400, "malformed")
        place = f"{other}/surveys/{survey.digest}/results"
        assert code(client.get(place)) == (401, "unauthorized")
        assert code(client.get(place, headers=token)) == (401, "unauthorized")
        reader = {"Authorization": f"Bearer {RESULTS_TOKEN}"}
        assert code(client.get(place, headers=reader)) == (404, "no-results")
        assert code(client.put(batch, content=b"", headers=reader)) == (401, "unauthorized")
        assert "headcount_batches_pending 0" in client.get(f"{other}/metrics").text


def test_slow_bodies_are_refused(running: tuple[Path, Document]) -> None:
    _, survey = running
    host, port = survey.addresses.shuffler.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as slow:
        head = f"POST /surveys/{survey.digest}/responses HTTP/1.1\r\nHost: x\r\n"
        slow.sendall(f"{head}Content-Length: {survey.response_bytes}\r\n\r\nx".encode())
        assert slow.recv(100).startswith(b"HTTP/1.1 408")


def test_a_whole_survey_over_the_network(running: tuple[Path, Document]) -> None:
    """Twelve people answer, one of them twice and one with lost replies."""
    folder, survey = running
    for number in range(12):
        place = f"{survey.addresses.shuffler}/surveys/{survey.digest}"
        person = Respondent(place if number == 0 else survey, folder / f"person {number}")
        person.answer({"who": str(number)})
        assert person.send() == "stored"
        assert person.accepted
        assert person.send() == "seen before"
    shuffler(folder).close(survey.digest)
    found = results(survey)
    assert found["people"] == 12
    assert tallies(folder)["who"] == [1] * 12
    last = Respondent(survey, folder / "late")
    last.answer({"who": "0"})
    with pytest.raises(Closed):
        last.send()
    assert post(survey, b"x").status_code == 400


@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_every_endpoint_is_described(tmp_path: Path, role: str) -> None:
    """The OpenAPI description has exactly the endpoints of the service, and all its statuses."""
    keys.create(tmp_path, None)
    app = (
        shuffler_app(shuffler(tmp_path), ShufflerSettings(), clock=lambda: 0.0)
        if role == "shuffler"
        else analyzer_app(analyzer(tmp_path), AnalyzerSettings())
    )
    path = Path(__file__).parents[1] / "docs" / f"openapi-{role}.json"
    described = json.loads(path.read_text())["paths"]
    served = {
        route.path: {method.lower() for method in route.methods or ()} - {"head"}
        for route in app.routes
        if isinstance(route, Route)
    }
    assert served == {path: set(methods) for path, methods in described.items()}
    statuses = {
        int(status)
        for methods in described.values()
        for one in methods.values()
        for status in one["responses"]
    }
    shape = json.loads(path.read_text())["components"]["schemas"]["Error"]
    codes = set(shape["properties"]["error"]["properties"]["code"]["enum"])
    others = {"refused", "not-found", "method-not-allowed", "bug"}
    # The console has refusals of its own.
    refusals = [kind for kind in Refused.__subclasses__() if kind.__module__ == Refused.__module__]
    assert codes == {kind.code for kind in refusals} | others
    stated = {kind.http_status for kind in refusals}
    assert statuses - {200, 201} <= stated
    assert stated - statuses <= {410, 429}  # these two concern responses alone
