"""Faults of real processes: each person is counted once, and nobody is lost after a 201.

Every person has a value of their own. So any count above one is a double count.
"""

import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import httpx
import psycopg
import pytest

import headcount as hc
from collection import Service, distinct, free_port, pair, results, two_questions
from headcount.collect import keys
from headcount.collect.analyzer import Analyzer
from headcount.collect.client import response
from headcount.collect.document import Document
from headcount.collect.refusals import Full, Unavailable
from headcount.collect.shuffler import Sent, Shuffler
from headcount.collect.store import opened
from postgres import running as postgres_server
from test_collection import ANALYZER_STEPS, SHUFFLER_STEPS, handed_to

pytestmark = pytest.mark.slow
SOURCE = hc.SecureSource()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres_server() as url:
        yield url


@contextmanager
def stores(kind: str, server: str, name: str) -> Iterator[dict[str, str]]:
    """Settings for processes that store in SQLite, or in a database of their own."""
    if kind == "sqlite":
        yield {}
        return
    database = f"test_{abs(hash(name)) % 10**9}_{random.randrange(10**9)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database}")
    yield {"STORE": server.replace("/postgres?", f"/{database}?")}


def counted(folder: Path, settings: dict[str, str]) -> list[int]:
    """How often each person was counted, from the analyzer's store."""
    with closing(opened(settings.get("STORE") or str(folder / "analyzer.db"))) as store:
        with store.reading() as run:
            tally: list[int] = json.loads(run("SELECT tallies FROM analyses")[0][0])["who"]
        return tally


def send_all(survey: Document, people: int, *, copies: float = 0.1, seed: int = 1) -> None:
    """Everybody sends until the shuffler confirms. Some send again afterwards."""
    url = f"{survey.addresses.shuffler}/surveys/{survey.digest}/responses"
    chosen = random.Random(seed)
    again = [chosen.random() < copies for _ in range(people)]

    def person(number: int) -> None:
        body = response(survey, {"who": str(number)}, SOURCE)
        left = 1 + again[number]
        deadline = time.monotonic() + 1800
        with httpx.Client(timeout=5) as client:
            while left:
                assert time.monotonic() < deadline
                with suppress(httpx.HTTPError):
                    reply = client.post(url, content=body)
                    if reply.status_code in (200, 201):
                        left -= 1
                        continue
                    assert reply.status_code in (500, 503, 507), reply.text
                time.sleep(0.05)

    with ThreadPoolExecutor(8) as crowd:
        list(crowd.map(person, range(people)))


@contextmanager
def kept_running(*services: Service, pauses: Iterator[float] | None = None) -> Iterator[None]:
    """Start services again whenever they have died. With `pauses`, also kill them."""
    done = threading.Event()

    def watch(one: Service) -> None:
        while not done.is_set():
            if not one.running:
                with suppress(AssertionError):  # it was killed while it started
                    one.start()
            time.sleep(0.05)

    def harm() -> None:
        for pause in pauses or iter(()):
            if done.wait(pause):
                return
            random.choice(services).kill()

    threads = [threading.Thread(target=watch, args=(one,)) for one in services]
    threads.append(threading.Thread(target=harm))
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("step", [*SHUFFLER_STEPS, *ANALYZER_STEPS])
def test_killed_at_every_step(tmp_path: Path, server: str, kind: str, step: str) -> None:
    people = 12
    survey = distinct(tmp_path, people)
    with (
        stores(kind, server, step) as settings,
        pair(tmp_path, survey, CLOSES_WITH=str(people), **settings) as (one, other),
    ):
        one.start(kill_at=step if step in SHUFFLER_STEPS else "")
        other.start(kill_at=step if step in ANALYZER_STEPS else "")
        killed = one if step in SHUFFLER_STEPS else other
        with kept_running(one, other):
            send_all(survey, people)
            found = results(survey)
        assert killed.log.count("serving") == 2, killed.log
        assert found["people"] == people
        assert counted(tmp_path, settings) == [1] * people


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize(("people", "kills"), [(200, 5), (3000, 50)])
def test_killed_at_random_moments(
    tmp_path: Path, server: str, kind: str, people: int, kills: int
) -> None:
    chosen = random.Random(7)
    survey = distinct(tmp_path, people)
    pauses = (chosen.uniform(0.3, 1.5) for _ in range(kills))
    with (
        stores(kind, server, "random") as settings,
        pair(tmp_path, survey, CLOSES_WITH=str(people), **settings) as (one, other),
    ):
        one.start()
        other.start()
        with kept_running(one, other, pauses=pauses):
            send_all(survey, people)
            results(survey, seconds=600)
        assert counted(tmp_path, settings) == [1] * people


def test_lost_replies(tmp_path: Path) -> None:
    """A proxy passes requests on and drops every second reply."""
    people = 20
    survey = distinct(tmp_path, people)
    target = survey.addresses.shuffler.rpartition(":")[2]
    port, count = free_port(), [0]

    def serve(listening: socket.socket) -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            with client, socket.create_connection(("127.0.0.1", int(target))) as behind:
                client.settimeout(5)
                data = b""
                while len(data.partition(b"\r\n\r\n")[2]) < survey.response_bytes:
                    data += client.recv(65536)
                behind.sendall(data)
                reply = behind.recv(65536)
                count[0] += 1
                if count[0] % 2:
                    client.sendall(reply)

    with (
        socket.create_server(("127.0.0.1", port)) as listening,
        pair(tmp_path, survey, CLOSES_WITH=str(people)) as (one, other),
    ):
        threading.Thread(target=serve, args=(listening,), daemon=True).start()
        one.start()
        other.start()
        url = f"http://127.0.0.1:{port}/surveys/{survey.digest}/responses"
        for number in range(people):
            body = response(survey, {"who": str(number)}, SOURCE)
            while True:
                with suppress(httpx.HTTPError):
                    status = httpx.post(url, content=body, timeout=10).status_code
                    assert status in (200, 201, 410)
                    break
        results(survey)
        assert counted(tmp_path, {}) == [1] * people


def test_a_full_disk_refuses_and_recovers(tmp_path: Path) -> None:
    """SQLite may not grow beyond a number of pages. Nothing of a refused response is stored."""
    survey = two_questions(tmp_path, 30)
    one = Shuffler(opened(str(tmp_path / "shuffler.db")))
    one.register(survey)

    def sent() -> Sent:
        return Sent(survey.digest, response(survey, {"smoke": 1, "drink": 1}, SOURCE))

    with one.store.writing() as run:
        pages = run("PRAGMA page_count")[0][0]
        run(f"PRAGMA max_page_count = {pages + 2}")
    stored = 0
    try:
        while stored < 10_000:
            one.accept([sent()])
            stored += 1
    except Full:
        pass
    assert stored < 10_000
    assert one.status(survey.digest).responses == stored
    one.accept([sent()])  # a new connection has no limit
    assert one.status(survey.digest).responses == stored + 1


def test_a_damaged_file_is_refused_until_it_is_whole_again(tmp_path: Path) -> None:
    survey = distinct(tmp_path, 6)
    file = tmp_path / "shuffler.db"
    one = Shuffler(opened(str(file)))
    one.register(survey)
    sent = [Sent(survey.digest, response(survey, {"who": str(at)}, SOURCE)) for at in range(2)]
    assert one.accept(sent[:1]) == ["stored"]
    one.store.close()
    whole = file.read_bytes()
    file.write_bytes(b"not a database".ljust(len(whole), b"!"))
    with pytest.raises(Unavailable):
        one.accept(sent[1:])
    file.write_bytes(whole)
    assert one.accept(sent) == ["seen before", "stored"]


def test_postgres_goes_away_and_comes_back(tmp_path: Path, server: str) -> None:
    """The server ends the connections. The shuffler answers 503 or connects anew."""
    people = 6
    survey = distinct(tmp_path, people)
    with (
        stores("postgres", server, "gone") as settings,
        pair(tmp_path, survey, CLOSES_WITH=str(people), **settings) as (one, other),
    ):
        one.start()
        other.start()
        with psycopg.connect(server, autocommit=True) as connection:
            for _ in range(3):
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE pid <> pg_backend_pid() AND datname LIKE 'test_%'"
                )
        send_all(survey, people)
        results(survey)
        assert counted(tmp_path, settings) == [1] * people


def test_stores_of_both_kinds_behave_alike(tmp_path: Path, server: str) -> None:
    survey = two_questions(tmp_path, 30)
    with ExitStack() as stack, stores("postgres", server, "alike") as settings:
        both = stack.enter_context(closing(opened(settings["STORE"])))
        one, other = Shuffler(both), Analyzer(both, keys.private_key(tmp_path, None))
        one.register(survey)
        other.register(survey)
        sent = [
            Sent(survey.digest, response(survey, {"smoke": 1, "drink": 0}, SOURCE))
            for _ in range(30)
        ]
        assert one.accept(sent) == ["stored"] * 30
        assert one.accept(sent) == ["seen before"] * 30
        name = one.close(survey.digest)
        assert one.batch(survey.digest)[0] == name
        one.forward(survey.digest, handed_to(other))
        other.count(survey.digest)
        assert other.results(survey.digest)["people"] == 30
