"""Running the services: tokens, warnings, settings, metrics, logs, readiness, and stopping."""

import asyncio
import json
import logging
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

import headcount as hc
import headcount.collect.server as serving
from collection import (
    RESULTS_TOKEN,
    TOKEN,
    analyzer,
    distinct,
    pair,
    shuffler,
    two_questions,
)
from commands import Headcount
from headcount.collect import keys
from headcount.collect.analyzer import Analyzer
from headcount.collect.analyzer_app import analyzer_app
from headcount.collect.client import response
from headcount.collect.document import Addresses
from headcount.collect.http import logger
from headcount.collect.refusals import Unavailable
from headcount.collect.settings import AnalyzerSettings, Settings, ShufflerSettings
from headcount.collect.shuffler import Shuffler
from headcount.collect.shuffler_app import Keeper, shuffler_app
from headcount.collect.store import opened
from postgres import server as postgres_server
from test_collection import SOURCE, answered, collected, handed_to

SURVEY = """
[privacy]
{trust}
epsilon = 2
least_people = 30

[[question]]
id = "smoke"
text = "Do you smoke?"
kind = "yes-no"
"""


def reply_of(app: Starlette, path: str, token: str = "", method: str = "GET") -> httpx.Response:
    """The reply to one request without a network, and without the background task."""

    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(asked())


# Tokens -------------------------------------------------------------------------------------------


def test_the_shuffler_cannot_read_results_before_they_are_published(tmp_path: Path) -> None:
    """It knows the noise that it added. With the results, it would know the exact counts."""
    survey = two_questions(tmp_path, 30)
    one, other = shuffler(tmp_path), analyzer(tmp_path)
    one.register(survey)
    other.register(survey)
    one.accept(answered(survey, 30))
    collected(one, other, survey)
    place = f"/surveys/{survey.digest}/results"
    settings = AnalyzerSettings(token=TOKEN, results_token=RESULTS_TOKEN)
    app = analyzer_app(other, settings)
    for refused in ("", TOKEN, RESULTS_TOKEN[:-1]):
        reply = reply_of(app, place, refused)
        assert (reply.status_code, reply.json()["error"]["code"]) == (401, "unauthorized")
    assert reply_of(app, place, RESULTS_TOKEN).json()["people"] == 30
    # Whoever may read results cannot hand over a batch.
    batch = f"/surveys/{survey.digest}/batches/{'0' * 32}"
    assert reply_of(app, batch, RESULTS_TOKEN, "PUT").status_code == 401
    assert reply_of(app, batch, TOKEN, "PUT").status_code == 400  # there is no batch
    without = analyzer_app(other, AnalyzerSettings(token=TOKEN))
    assert reply_of(without, place, TOKEN).status_code == 401
    public = analyzer_app(other, AnalyzerSettings(token=TOKEN, publish=True))
    assert reply_of(public, place).json()["people"] == 30


def test_the_two_tokens_must_differ() -> None:
    with pytest.raises(hc.InvalidParameter, match="`results_token` must not be `token`"):
        AnalyzerSettings(token=TOKEN, results_token=TOKEN)
    with pytest.raises(hc.InvalidParameter, match="`results_token` must have at least 16"):
        AnalyzerSettings(token=TOKEN, results_token="short")


# Commands that serve ------------------------------------------------------------------------------


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings with which a command would have served. Nothing is served."""
    found: list[Settings] = []
    monkeypatch.setattr(serving, "serve", lambda app, settings: found.append(settings))
    for name in os.environ:
        if name.startswith("HEADCOUNT_") and name != "HEADCOUNT_CACHE":
            monkeypatch.delenv(name)
    return found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The folder of an analyzer."""
    folder = tmp_path / "home"
    keys.create(folder, None)
    keys.create_tokens(folder)
    return folder


def opened_survey(headcount: Headcount, folder: Path, *words: str, trust: str = "shuffle") -> str:
    """What `headcount survey open` writes to standard error."""
    (folder / "s.toml").write_text(SURVEY.format(trust=TRUSTS[trust]))
    done = headcount(
        "survey", "open", "s.toml", "--key", "home/key.json", "--out", "s.json", *words
    )
    assert done.status == 0, done.err
    return done.err


TRUSTS = {
    "shuffle": 'trust = "shuffle"\nnoise = "shuffler"\ndelta = 1e-3',
    "local": 'trust = "local"',
}
TWO_HOSTS = ("--shuffler", "https://mix.example", "--analyzer", "https://count.example")
ONE_HOST = ("--shuffler", "https://a.example/mix", "--analyzer", "https://A.example:8402")
SAME = "WARNING: the shuffler and the analyzer have the same host."
ANYBODY = "WARNING: anybody can answer this survey any number of times."
NO_TOKEN = "WARNING: there is no token, so the analyzer will refuse the batch."


@pytest.mark.parametrize("trust", list(TRUSTS))
@pytest.mark.parametrize("addresses", [TWO_HOSTS, ONE_HOST])
@pytest.mark.parametrize("admission", ["codes", "open"])
def test_every_command_warns_about_one_host_and_open_surveys(
    headcount: Headcount, home: Path, served: list[Settings], trust: str,
    addresses: tuple[str, ...], admission: str,
) -> None:  # fmt: skip
    words = (*addresses, "--admission", admission)
    said = [opened_survey(headcount, home.parent, *words, trust=trust)]
    (home.parent / "token").write_bytes((home / "token").read_bytes())
    said += [
        headcount("analyzer", "serve", "home", "--survey", "s.json").err,
        headcount("shuffler", "serve", "--survey", "s.json", "--token-file", "token").err,
    ]
    assert len(served) == 2
    for text in said:
        assert (SAME in text) == (addresses == ONE_HOST and trust == "shuffle")
        assert (ANYBODY in text) == (admission == "open")
        assert text.count("WARNING") == (SAME in text) + (ANYBODY in text)


def test_a_shuffler_warns_about_its_token(
    headcount: Headcount, home: Path, served: list[Settings]
) -> None:
    opened_survey(headcount, home.parent, *TWO_HOSTS)
    serve = ("shuffler", "serve", "--survey", "s.json")
    assert headcount(*serve).err.startswith(NO_TOKEN)
    said = headcount(*serve, "--token-file", "home/token").err
    for name in ("private.pem", "results-token"):
        assert f"WARNING: the analyzer's {name} is on the shuffler's machine" in said
    assert said.count("WARNING") == 2
    assert [one.token for one in served] == ["", (home / "token").read_text().strip()]


@pytest.mark.parametrize(
    ("shuffler", "analyzer", "same"),
    [
        ("https://a.example", "https://b.example", False),
        ("https://a.example", "https://a.example.org", False),
        ("https://a.example", "http://A.EXAMPLE.:8402/x", True),
        ("http://127.0.0.1:1", "http://127.0.0.1:2", True),
        ("http://127.0.0.1:1", "http://localhost:2", True),
        ("http://[::1]:1", "http://127.0.0.2:2", True),
        ("http://[2001:db8::1]:1", "http://[2001:db8::1]:2", True),
        ("http://[2001:db8::1]:1", "http://[2001:db8::2]:1", False),
        ("http://user@a.example", "http://a.example", True),
        ("http://[", "http://]", False),
    ],
)
def test_addresses_of_one_host(shuffler: str, analyzer: str, same: bool) -> None:
    assert Addresses(shuffler, analyzer).one_host is same


# Settings -----------------------------------------------------------------------------------------


def test_flags_override_variables_and_variables_override_the_file(
    headcount: Headcount, home: Path, served: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened_survey(headcount, home.parent, *TWO_HOSTS)
    for role, settings in (("analyzer", AnalyzerSettings), ("shuffler", ShufflerSettings)):
        words = [role, "serve", *(["home"] if role == "analyzer" else []), "--survey", "s.json"]
        prefix, default = f"HEADCOUNT_{settings.prefix}", settings().port
        file = home.parent / f"{role}.toml"
        file.write_text('port = 1001\nhost = "10.0.0.1"\nbody_seconds = 3\nconnections = 7\n')
        for more, found in (
            ([], (default, "127.0.0.1", 20.0, 20_000)),
            (["--settings", file.name], (1001, "10.0.0.1", 3.0, 7)),
        ):
            assert headcount(*words, *more).status == 0
            assert shown(served[-1]) == found
        monkeypatch.setenv(f"{prefix}_PORT", "1002")
        monkeypatch.setenv(f"{prefix}_HOST", "10.0.0.2")
        headcount(*words, "--settings", file.name)
        assert shown(served[-1]) == (1002, "10.0.0.2", 3.0, 7)
        headcount(*words, "--settings", file.name, "--port", "1003")
        assert shown(served[-1]) == (1003, "10.0.0.2", 3.0, 7)
        assert isinstance(served[-1], settings)


def shown(settings: Settings) -> tuple[Any, ...]:
    return settings.port, settings.host, settings.body_seconds, settings.connections


def test_tokens_come_from_settings_or_from_the_folder(
    headcount: Headcount, home: Path, served: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    def tokens() -> tuple[str, str]:
        done = headcount("analyzer", "serve", "home", "--settings", "a.toml")
        assert done.status == 0, done.err
        last = served[-1]
        assert isinstance(last, AnalyzerSettings)
        return last.token, last.results_token

    file, own = home.parent / "a.toml", (home / "results-token").read_text().strip()
    file.write_text("publish = true\n")
    assert tokens() == ((home / "token").read_text().strip(), own)
    file.write_text('token = "the token of the file"\n')
    assert tokens() == ("the token of the file", own)
    monkeypatch.setenv("HEADCOUNT_ANALYZER_TOKEN", "the token of the variable")
    monkeypatch.setenv("HEADCOUNT_ANALYZER_RESULTS_TOKEN", "the results token of the variable")
    assert tokens() == ("the token of the variable", "the results token of the variable")
    monkeypatch.delenv("HEADCOUNT_ANALYZER_RESULTS_TOKEN")
    (home / "results-token").unlink()
    refused = headcount("analyzer", "serve", "home")
    assert refused.status == 2
    assert "results-token' must be a file with a token" in refused.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("port = 'x'", "`port` must be a int"),
        ("port = 70000", "`port` must be"),
        ("prot = 1", "must have only the settings"),
        ("port = ", "must be TOML"),
        ("publish = 'perhaps'", "`publish` must be a bool"),
        ("token = 'short'", "`token` must have at least 16"),
        (None, "must be a file of settings"),
    ],
)
def test_wrong_settings_are_refused(
    headcount: Headcount, home: Path, served: list[Settings], text: str | None, said: str
) -> None:
    if text is not None:
        (home.parent / "a.toml").write_text(text)
    refused = headcount("analyzer", "serve", "home", "--settings", "a.toml")
    assert (refused.status, served) == (2, [])
    assert said in " ".join(refused.err.split())


# Metrics and logs ---------------------------------------------------------------------------------


def test_metrics_and_logs_show_surveys_that_are_stuck(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A survey is overdue with too few people, then full but not forwarded, and then done. One log
    line says that too few people have answered, however often the shuffler tries to close it.
    """
    lines: list[dict[str, Any]] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(json.loads(record.getMessage()))  # type: ignore[method-assign]
    monkeypatch.setattr(logger, "handlers", [handler])
    monkeypatch.setattr(logger, "level", logging.INFO)
    survey, reachable = distinct(tmp_path, 3), [False]
    one, other = shuffler(tmp_path), analyzer(tmp_path)
    one.register(survey, closes_at=0.0)
    other.register(survey)
    one.accept(answered(survey, 2))
    app = shuffler_app(one, ShufflerSettings(), clock=lambda: 0.0)
    keeper = Keeper(one, TOKEN)

    def send(*words: Any) -> None:
        if not reachable[0]:
            raise Unavailable("the analyzer must be reachable")
        handed_to(other)(*words)

    monkeypatch.setattr(keeper, "_send", send)

    def metrics() -> tuple[int, ...]:
        for _ in range(3):
            keeper.tick()
        rows = reply_of(app, "/metrics").text.splitlines()
        label = f'{{survey="{survey.digest}"}}'
        return tuple(
            int(row.split()[1])
            for name in ("headcount_overdue", "headcount_not_forwarded")
            for row in rows
            if row.startswith(name + label)
        )

    assert metrics() == (1, 0)
    (few,) = lines
    assert (few["event"], few["survey"]) == ("too few people", survey.digest)
    assert few["message"] == "at least 3 people must answer before this survey is closed, got 2"
    assert few["hint"] == "extend the survey, or destroy it"
    lines.clear()
    one.accept(answered(survey, 3))  # two of them again
    one.accept(answered(survey, 1))
    assert metrics() == (0, 1)
    assert [line["event"] for line in lines] == ["closed", *["not forwarded"] * 3]
    reachable[0] = True
    assert metrics() == (0, 0)
    assert [line["event"] for line in lines[4:]] == ["forwarded"]


# Readiness ----------------------------------------------------------------------------------------


def check_unready(app: Starlette) -> None:
    """A service without its database is healthy, but not ready."""
    reply = reply_of(app, "/readyz")
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "unavailable")
    assert reply.headers["retry-after"] == "30"
    assert reply_of(app, "/healthz").status_code == 200
    assert reply_of(app, "/metrics").status_code == 503


@contextmanager
def app_at(folder: Path, role: str, place: str) -> Iterator[Starlette]:
    """A service with a survey, and with its store at a place."""
    survey = distinct(folder, 3)
    with closing(opened(place, wait=5)) as store:
        if role == "shuffler":
            one = Shuffler(store)
            one.register(survey)
            yield shuffler_app(one, ShufflerSettings(), clock=lambda: 0.0)
        else:
            other = Analyzer(store, keys.private_key(folder, None))
            other.register(survey)
            yield analyzer_app(other, AnalyzerSettings())


@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_a_service_without_its_database_is_not_ready(tmp_path: Path, role: str) -> None:
    file = tmp_path / "store.db"
    with app_at(tmp_path, role, str(file)) as app:
        assert reply_of(app, "/readyz").json() == {"ready": True}
        whole = file.read_bytes()
        file.write_bytes(b"not a database".ljust(len(whole), b"!"))
        check_unready(app)
        file.write_bytes(whole)
        assert reply_of(app, "/readyz").json() == {"ready": True}


@pytest.mark.slow
@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_a_service_is_not_ready_while_postgresql_is_stopped(tmp_path: Path, role: str) -> None:
    with postgres_server() as server, app_at(tmp_path, role, server.url) as app:
        assert reply_of(app, "/readyz").json() == {"ready": True}
        server.stop()
        check_unready(app)
        server.start()
        assert reply_of(app, "/readyz").json() == {"ready": True}


# Stopping -----------------------------------------------------------------------------------------


def test_a_request_under_way_is_answered_before_the_service_stops(tmp_path: Path) -> None:
    """SIGTERM comes when half of a response has arrived. The rest is still taken, stored and
    answered with 201. New connections are refused, and then the process ends.
    """
    survey = two_questions(tmp_path, 30)
    body = response(survey, {"smoke": 1, "drink": 0}, SOURCE)
    with pair(tmp_path, survey, SETTINGS='{"body_seconds": 20}') as (one, _):
        one.start()
        assert one.process is not None
        host, port = one.url.removeprefix("http://").split(":")
        head = f"POST /surveys/{survey.digest}/responses HTTP/1.1\r\nHost: x\r\n"
        with socket.create_connection((host, int(port)), timeout=20) as line:
            line.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:100])
            time.sleep(0.2)  # the request has begun
            os.kill(one.process, signal.SIGTERM)
            deadline = time.monotonic() + 20
            while listens(host, int(port)):
                assert time.monotonic() < deadline
                time.sleep(0.02)
            time.sleep(0.3)  # the service waits for the request
            assert one.running
            line.sendall(body[100:])
            reply = line.recv(1000)
        assert reply.startswith(b"HTTP/1.1 201")
        while one.running:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert one.nursery.status(one.process) == -signal.SIGTERM
    assert shuffler(tmp_path).status(survey.digest).responses == 1
    assert json.loads(one.log.splitlines()[0])["event"] == "serving"


def listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError:
        return False
    return True
