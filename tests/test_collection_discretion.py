"""What the collection service does not say: answers, times, exact numbers, and its own insides.

Also: what it keeps after a crash, and that one bad survey does not hold up the others.
"""

import asyncio
import json
import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

import headcount as hc
import postgres
from collection import TOKEN, analyzer, distinct, document, shuffler, two_questions
from commands import Headcount
from headcount.collect.analyzer import Analyzer
from headcount.collect.analyzer_app import analyzer_app
from headcount.collect.client import Respondent, opened, response, results_at
from headcount.collect.refusals import Closed, Conflict, Refused, Unavailable
from headcount.collect.settings import AnalyzerSettings, ShufflerSettings
from headcount.collect.shuffler import Sent, Shuffler
from headcount.collect.shuffler_app import Keeper, shuffler_app
from headcount.collect.store import opened as store_at
from test_collection import SOURCE, Killed, answered, dying, handed_to


def replies_of(app: Starlette, *requests: tuple[str, str, bytes]) -> list[httpx.Response]:
    """The replies to requests, one after another, without a network. A background task runs, too.

    The last request is repeated for some time if there is nothing to see yet.
    """

    async def asked() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://x", headers=headers) as client,
        ):
            found = []
            for method, path, body in requests:
                for _ in range(200 if path.endswith("/results") else 1):
                    reply = await client.request(method, path, content=body)
                    if reply.status_code == 200:
                        break
                    await asyncio.sleep(0.05)
                found.append(reply)
            return found

    return asyncio.run(asked())


# Replies ----------------------------------------------------------------------------------------


def test_replies_have_fixed_texts(tmp_path: Path) -> None:
    """Nothing of an exception's own text reaches the network: no path, no name, no number."""
    survey = distinct(tmp_path, 12)
    one = shuffler(tmp_path)
    one.register(survey)
    app = shuffler_app(one, ShufflerSettings(), clock=lambda: 0.0)
    place = f"/surveys/{survey.digest}"
    known = {(kind.code, kind.text, kind.advice) for kind in Refused.__subclasses__()}
    replies = replies_of(
        app,
        ("POST", f"{place}/responses", b"x"),
        ("POST", f"{place}/responses", bytes(2**20)),
        ("GET", f"/surveys/{tmp_path.name}", b""),
    )
    with one.store.writing() as run:
        run("DROP TABLE rounds")
    replies += replies_of(
        app, ("GET", f"{place}/status", b""), ("GET", "/readyz/x", b""), ("PUT", place, b"")
    )
    found = [tuple(reply.json()["error"].values()) for reply in replies]
    assert set(found[:4]) <= known
    assert [code for code, _, _ in found] == [
        "wrong-size", "too-large", "unknown-survey", "unavailable", "not-found",
        "method-not-allowed",
    ]  # fmt: skip
    for reply in replies:
        assert "rounds" not in reply.text
        assert "shuffler.db" not in reply.text
        assert tmp_path.name not in reply.text
        assert not re.search(r"\d", reply.json()["error"]["message"])


def test_an_unreadable_document_is_a_failure_without_words(tmp_path: Path) -> None:
    survey = distinct(tmp_path, 12)
    one = shuffler(tmp_path)
    one.register(survey)
    spoil(tmp_path / "shuffler.db", "surveys", survey.digest)
    app = shuffler_app(shuffler(tmp_path), ShufflerSettings(), clock=lambda: 0.0)
    (reply,) = replies_of(app, ("GET", f"/surveys/{survey.digest}", b""))
    assert (reply.status_code, reply.json()["error"]["code"]) == (500, "bug")
    assert "document" not in reply.text


@pytest.mark.parametrize("people", [3, 12, 19, 30, 250])
def test_everybody_sees_only_coarse_numbers(tmp_path: Path, people: int) -> None:
    survey = distinct(tmp_path, 12)
    one = shuffler(tmp_path)
    one.register(survey)
    with one.store.writing() as run:
        run("UPDATE rounds SET responses = ?", people)
    app = shuffler_app(one, ShufflerSettings(), clock=lambda: 0.0)
    status, metrics = replies_of(
        app, ("GET", f"/surveys/{survey.digest}/status", b""), ("GET", "/metrics", b"")
    )
    shown = status.json()["responses"]
    assert shown == people // 10 * 10
    assert f'headcount_responses{{survey="{survey.digest}"}} {shown}\n' in metrics.text


# One bad survey ---------------------------------------------------------------------------------


def spoil(path: Path, table: str, digest: str) -> None:
    """Replace a document in a store by something that no version of Headcount reads."""
    with sqlite3.connect(path) as store:
        store.execute(f"UPDATE {table} SET document = ? WHERE digest = ?", (b"spoiled", digest))
    store.close()


def test_a_bad_survey_does_not_hold_up_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    surveys = sorted((distinct(tmp_path, number) for number in (3, 4)), key=lambda one: one.digest)
    first, second = surveys  # the steps take surveys in this order
    one, other = shuffler(tmp_path), analyzer(tmp_path)
    for survey in surveys:
        one.register(survey, closes_at=0.0)
        other.register(survey)
        one.accept(answered(survey, survey.least_people))
    spoil(tmp_path / "shuffler.db", "surveys", first.digest)
    keeper = Keeper(shuffler(tmp_path), TOKEN)
    monkeypatch.setattr(keeper, "_send", handed_to(other))
    keeper.tick()
    assert one.status(second.digest).state == "forwarded"
    assert f'headcount_failures_total{{survey="{first.digest}"}} 1\n' in keeper.attempts.metric

    one.close(first.digest)
    one.forward(first.digest, handed_to(other))
    assert other.pending() == [survey.digest for survey in surveys]
    spoil(tmp_path / "analyzer.db", "analyses", first.digest)
    app = analyzer_app(analyzer(tmp_path), AnalyzerSettings(results_token=TOKEN))
    counted, metrics = replies_of(
        app, ("GET", f"/surveys/{second.digest}/results", b""), ("GET", "/metrics", b"")
    )
    assert counted.status_code == 200
    assert f'survey="{first.digest}"}} 1\n' in metrics.text


def test_the_status_of_other_surveys_is_shown_beside_an_unreadable_one(
    headcount: Headcount, tmp_path: Path
) -> None:
    one = shuffler(tmp_path)
    good, bad = distinct(tmp_path, 3), distinct(tmp_path, 4)
    for survey in (good, bad):
        one.register(survey)
        one.accept(answered(survey, 2))
    assert headcount("shuffler", "status").status == 0
    spoil(tmp_path / "shuffler.db", "surveys", bad.digest)
    shown = headcount("shuffler", "status")
    assert shown.status == 2
    assert good.digest[:12] in shown.out
    assert bad.digest[:12] not in shown.out
    assert f"{bad.digest[:12]}: a survey document must be complete" in shown.err
    listed = headcount("shuffler", "status", "--json")
    found = json.loads(listed.out)
    assert listed.status == 2
    assert [(row["survey"], row["responses"]) for row in found["surveys"]] == [(good.digest, 2)]
    assert list(found["unreadable"]) == [bad.digest]
    assert found["error"]["code"] == "unreadable-data"


# Respondents ------------------------------------------------------------------------------------


def test_errors_do_not_repeat_answers(tmp_path: Path) -> None:
    survey = two_questions(tmp_path, 30)
    with pytest.raises(hc.InvalidValue) as refused:
        response(survey, {"smoke": "heroin", "drink": 0}, SOURCE)
    assert "heroin" not in str(refused.value)
    assert "'smoke'" in str(refused.value)


def test_the_folder_of_a_respondent_holds_no_time(tmp_path: Path) -> None:
    survey = two_questions(tmp_path / "key", 30)
    person = Respondent(survey, tmp_path / "person")
    person.answer({"smoke": 1, "drink": 0})
    found = [tmp_path / "person", *(tmp_path / "person").iterdir()]
    assert len(found) == 2
    for path in found:
        assert path.stat().st_mtime == 0


@contextmanager
def answering(reply: bytes, length: int, seen: list[Any]) -> Iterator[str]:
    """A server that sends `reply` again and again until `length` bytes are sent."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(200)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            sent = 0
            try:
                while sent < length:
                    sent += self.wfile.write(reply[: length - sent])
            except OSError:
                pass
            seen.append(sent)

        def log_message(self, *words: Any) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_client_says_nothing_about_itself_and_reads_no_endless_reply(tmp_path: Path) -> None:
    survey, seen = two_questions(tmp_path, 30), []  # type: ignore[var-annotated]
    with answering(survey.data, len(survey.data), seen) as place:
        assert opened(f"{place}/surveys/{survey.digest}").digest == survey.digest
    assert set(seen[0]) == {"host", "accept", "accept-encoding", "connection"}
    seen.clear()
    with answering(bytes(2**16), 2**28, seen) as place, pytest.raises(Unavailable, match="at most"):
        opened(f"{place}/surveys/{survey.digest}")
    assert seen[-1] < 2**26  # the rest was never sent
    with answering(b"[" * 10, 10, seen) as place, pytest.raises(Unavailable, match="JSON"):
        results_at(place, "")


# Invitation codes -------------------------------------------------------------------------------


def rows(folder: Path, table: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(folder / "shuffler.db") as store:
        found = store.execute(f"SELECT * FROM {table}").fetchall()
    store.close()
    return found


def test_the_database_links_no_code_to_a_response(tmp_path: Path) -> None:
    """What is stored with a used code appears nowhere else, and does not follow from the database.

    After closing, codes and the key of their hashes are gone.
    """
    survey = distinct(tmp_path, 3, admission="codes")
    one = shuffler(tmp_path)
    one.register(survey)
    codes = one.new_codes(survey.digest, 4)
    bodies = [item.body for item in (*answered(survey, 3), *answered(survey, 1))]
    for code, body in zip(codes[:3], bodies, strict=False):
        assert one.accept([Sent(survey.digest, body, code)]) == ["stored"]
    assert one.accept([Sent(survey.digest, bodies[0], codes[0])]) == ["seen before"]
    assert isinstance(one.accept([Sent(survey.digest, bodies[3], codes[0])])[0], Conflict)
    stored = {row[2] for row in rows(tmp_path, "codes")}
    assert len(stored - {bytes(16)}) == 3
    blocks = b"".join(body for _, body in rows(tmp_path, "inbox"))
    assert all(value not in blocks for value in stored - {bytes(16)})
    ((_, hash_key, *_),) = rows(tmp_path, "rounds")
    assert len(hash_key) == 32
    one.close(survey.digest)
    assert rows(tmp_path, "codes") == []
    assert rows(tmp_path, "rounds")[0][1] == b""
    assert hash_key not in (tmp_path / "shuffler.db").read_bytes()
    assert isinstance(one.accept([Sent(survey.digest, bodies[0], codes[0])])[0], Closed)
    with pytest.raises(Closed):
        one.new_codes(survey.digest, 1)


# Crashes ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_postgresql_forgets_responses_even_after_a_crash(tmp_path: Path) -> None:
    """A process dies after closing and before scrubbing. The next one scrubs."""
    survey = distinct(tmp_path, 30, admission="codes")
    with postgres.running() as address:
        one = Shuffler(store_at(address), reached=dying("closed"))
        one.register(survey)
        codes = one.new_codes(survey.digest, 30)
        bodies = [item.body for item in answered(survey, 30)]
        one.accept([Sent(survey.digest, *pair) for pair in zip(bodies, codes, strict=True)])
        with pytest.raises(Killed):
            one.close(survey.digest)
        one.store.close()
        again = Shuffler(store_at(address))

        def pages() -> int:
            with again.store.reading() as run:
                return sum(run(f"SELECT pg_relation_size('{table}')")[0][0]
                           for table in ("inbox", "codes"))  # fmt: skip

        assert pages() > 0
        Keeper(again, TOKEN).tick()
        assert pages() == 0
        again.store.close()


@pytest.mark.parametrize(
    "step", ["opening", "opened", "estimated", "counted, not committed", "counted"]
)
def test_noise_that_the_analyzer_adds_is_published_once(tmp_path: Path, step: str) -> None:
    """Whatever a crash interrupts, everybody who asks for results gets the same numbers."""
    made = hc.protocol("shuffle.noisy-shuffler", hc.Count(), hc.Budget(1, 1e-3), hc.Crowd(30),
                       publish_noise=True)  # fmt: skip
    survey = document(tmp_path, {"a": made}, least_people=30)
    one, seen = shuffler(tmp_path), []
    one.register(survey)
    one.accept([Sent(survey.digest, response(survey, {"a": 1}, SOURCE)) for _ in range(30)])
    one.close(survey.digest)
    dead = analyzer(tmp_path, reached=dying(step))
    dead.register(survey)
    one.forward(survey.digest, handed_to(dead))
    with pytest.raises(Killed):
        dead.count(survey.digest)
    for _ in range(3):
        again = analyzer(tmp_path)
        with again.store.reading() as run:  # what was published before this process started
            seen += [json.loads(text) for (text,) in run("SELECT results FROM analyses") if text]
        again.count(survey.digest)
        seen.append(again.results(survey.digest))
    assert len(seen) >= 5
    assert all(found == seen[0] for found in seen)
    keyless = Analyzer(again.store, None)
    assert keyless.results(survey.digest) == seen[0]
    with pytest.raises(hc.InvalidParameter, match="private key"):
        keyless.register(survey)


def test_of_two_analyzers_only_one_publishes(tmp_path: Path) -> None:
    """A second process counts the same batch while the first one is about to store its results."""
    made = hc.protocol("shuffle.noisy-shuffler", hc.Count(), hc.Budget(0.01, 1e-3), hc.Crowd(30),
                       publish_noise=True)  # fmt: skip
    survey = document(tmp_path, {"a": made}, least_people=30)
    one, second, published = shuffler(tmp_path), analyzer(tmp_path), []

    def reached(step: str) -> None:
        if step == "estimated":
            second.count(survey.digest)
            published.append(second.results(survey.digest))

    first = analyzer(tmp_path, reached=reached)
    one.register(survey)
    first.register(survey)
    one.accept([Sent(survey.digest, response(survey, {"a": 1}, SOURCE)) for _ in range(30)])
    one.close(survey.digest)
    one.forward(survey.digest, handed_to(first))
    first.count(survey.digest)
    assert [first.results(survey.digest)] == published
