"""Faults of real processes: each person is counted once, and nobody is lost after a 201.

Every person has a value of their own. So any count above one is a double count.
"""

import errno
import itertools
import json
import os
import random
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import httpx
import psycopg
import pytest

import headcount as hc
from collection import Service, distinct, free_port, pair, results, two_questions
from collection_process import Nursery
from dropping_proxy import dropping_proxy
from fuzzing.faults import built_shim
from headcount.collect import keys
from headcount.collect.analyzer import Analyzer
from headcount.collect.client import response
from headcount.collect.document import Document
from headcount.collect.refusals import Full, Unavailable
from headcount.collect.shuffler import Sent, Shuffler
from headcount.collect.store import opened
from postgres import Server, small_disk
from postgres import server as postgres_server
from test_collection import ANALYZER_STEPS, SHUFFLER_STEPS, handed_to

SOURCE = hc.SecureSource()
# Some of the statuses after which a device sends the same bytes again. On a busy machine, a body
# may arrive too late (408).
LATER = (408, 503, 507)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgres_server() as made:
        yield made


@pytest.fixture
def settings(request: pytest.FixtureRequest, kind: str) -> dict[str, str]:
    """Settings for processes that store in SQLite, or in a database of their own."""
    if kind == "sqlite":
        return {}
    made: Server = request.getfixturevalue("server")
    database = f"test_{random.SystemRandom().randrange(10**12)}"
    with psycopg.connect(made.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database}")
    return {"STORE": made.url.replace("/postgres?", f"/{database}?")}


def counted(folder: Path, settings: Mapping[str, str]) -> list[int]:
    """How often each person was counted, from the analyzer's store."""
    with closing(opened(settings.get("STORE") or str(folder / "analyzer.db"))) as store:
        with store.reading() as run:
            tally: list[int] = json.loads(run("SELECT tallies FROM analyses")[0][0])["who"]
        return tally


def answers(survey: Document, people: int) -> list[bytes]:
    return [response(survey, {"who": str(number)}, SOURCE) for number in range(people)]


def posted(url: str, body: bytes) -> int:
    """The status of the reply, or 0 if there is none."""
    host, port = url.removeprefix("http://").split("/")[0].split(":")
    asked = HTTPConnection(host, int(port), timeout=10)
    try:
        asked.request("POST", "/" + url.split("/", 3)[3], body)
        return asked.getresponse().status
    except (OSError, HTTPException):
        return 0
    finally:
        asked.close()


def send_all(
    survey: Document,
    bodies: Sequence[bytes],
    *,
    urls: Sequence[str] = (),
    ready: Callable[[int], bool] = lambda number: True,
) -> None:
    """Everybody sends until the shuffler confirms. One in ten sends once more. A person begins when
    `ready`.
    """
    chosen = random.Random(1)
    times = [1 + (chosen.random() < 0.1) for _ in bodies]
    places = [
        f"{url}/surveys/{survey.digest}/responses" for url in urls or [survey.addresses.shuffler]
    ]

    def person(number: int) -> None:
        until(lambda: ready(number))
        deadline, tried, left = time.monotonic() + 600, False, times[number]
        while left:
            assert time.monotonic() < deadline
            status = posted(places[number % len(places)], bodies[number])
            if status in (200, 201):
                left -= 1
            elif status == 410:
                # The survey closes when everybody is in. So an earlier try was stored.
                assert tried
                return
            else:
                assert status in (0, *LATER), status
                time.sleep(0.02)
            tried = True

    with ThreadPoolExecutor(8) as crowd:
        list(crowd.map(person, range(len(bodies))))


def until(done: Callable[[], bool], *, seconds: float = 600) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@contextmanager
def kept_running(*services: Service, steps: Mapping[str, Sequence[str]] = {}) -> Iterator[None]:
    """Start services again whenever they were killed. Each time, a service kills itself at the next
    of the `steps` of its role.
    """
    done = threading.Event()

    def watch(one: Service) -> None:
        for step in itertools.chain(steps.get(one.role, ()), itertools.repeat("")):
            while one.running:
                if done.wait(0.02):
                    return
            one.start(kill_at=step)

    with ThreadPoolExecutor(len(services)) as pool:
        watching = [pool.submit(watch, one) for one in services]
        try:
            yield
        finally:
            done.set()
        for one in watching:
            one.result()


def survives(
    folder: Path, people: int, settings: dict[str, str], steps: Mapping[str, Sequence[str]]
) -> None:
    """A whole survey in which the services kill themselves at these steps, one after another."""
    survey = distinct(folder, people)
    bodies = answers(survey, people)
    with pair(folder, survey, CLOSES_WITH=str(people), **settings) as both:

        def all_reached() -> bool:
            return all(one.log.count("serving") == len(steps[one.role]) + 1 for one in both)

        with kept_running(*both, steps=steps):
            send_all(survey, bodies)
            found = results(survey)
            until(all_reached, seconds=60)
        assert found["people"] == people
        assert counted(folder, settings) == [1] * people


@pytest.mark.parametrize("kind", ["sqlite"])
def test_killed_at_every_step_of_one_survey(tmp_path: Path, settings: dict[str, str]) -> None:
    steps = {"shuffler": SHUFFLER_STEPS, "analyzer": ANALYZER_STEPS}
    survives(tmp_path, 12, settings, steps)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_3000_people_and_processes_killed_at_every_step(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    steps = {"shuffler": SHUFFLER_STEPS, "analyzer": ANALYZER_STEPS}
    survives(tmp_path, 3000, settings, steps)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("step", [*SHUFFLER_STEPS, *ANALYZER_STEPS])
def test_killed_at_one_step(tmp_path: Path, settings: dict[str, str], step: str) -> None:
    steps = {
        role: [step] if step in known else []
        for role, known in (("shuffler", SHUFFLER_STEPS), ("analyzer", ANALYZER_STEPS))
    }
    survives(tmp_path, 12, settings, steps)


class Pace:
    """Kills and people keep step: neither is more than two kills ahead of the other. The last kills
    come when everybody has answered.
    """

    def __init__(self, people: int, early: int) -> None:
        self._each, self._early = people / early, early
        self._begun, self.killed, self.all_answered = 0, 0, False

    def may_answer(self, number: int) -> bool:
        ready = number < (self.killed + 1) * self._each
        self._begun = max(self._begun, number if ready else 0)
        return ready

    def may_kill(self) -> bool:
        in_time = self.killed < self._early and self._begun >= (self.killed - 1) * self._each
        return in_time or self.all_answered


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_3000_people_50_kills_and_lost_replies(tmp_path: Path, settings: dict[str, str]) -> None:
    """Services are killed at random moments, and a proxy drops one reply in ten. The first 35 kills
    come while people answer, the others while the survey is closed, handed over and counted.
    """
    people, kills = 3000, 50
    survey = distinct(tmp_path, people)
    bodies = answers(survey, people)
    chosen = random.Random(7)
    pace = Pace(people, 35)

    def harm() -> None:
        while pace.killed < kills:
            until(pace.may_kill)
            time.sleep(chosen.uniform(0, 0.3))
            one = both[pace.killed % 2]
            while not one.running:
                time.sleep(0.01)
            one.kill()
            pace.killed += 1

    with (
        pair(tmp_path, survey, CLOSES_WITH=str(people), **settings) as both,
        dropping_proxy(survey.addresses.shuffler, share=0.1, seed=3) as (url, dropped),
        ThreadPoolExecutor(1) as pool,
        kept_running(*both),
    ):
        harming = pool.submit(harm)
        try:
            send_all(survey, bodies, urls=[url], ready=pace.may_answer)
            assert 33 <= pace.killed <= 35
        finally:
            pace.all_answered = True
            harming.result()
        found = results(survey)
    assert found["people"] == people
    assert dropped() > 0.05 * people
    assert counted(tmp_path, settings) == [1] * people


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_two_shufflers_on_one_store_close_once(tmp_path: Path, settings: dict[str, str]) -> None:
    """Both take responses, and both close the survey as soon as it is full."""
    people = 300
    survey = distinct(tmp_path, people)
    bodies = answers(survey, people)
    port = free_port()
    with pair(tmp_path, survey, CLOSES_WITH=str(people), **settings) as (one, other):
        second = Service("shuffler", tmp_path, survey, **one.settings,
                         SETTINGS=json.dumps({"port": port}))  # fmt: skip
        second.url = f"http://127.0.0.1:{port}"
        try:
            for service in (one, second, other):
                service.start()
            send_all(survey, bodies, urls=[one.url, second.url])
            results(survey)
        finally:
            second.kill()
        assert counted(tmp_path, settings) == [1] * people


# The disk -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_full_disk_is_answered_by_507_and_recovers(tmp_path: Path) -> None:
    """The disks of both services are full again and again. Every write of SQLite may be the one
    that fails.
    """
    people = 40
    survey = distinct(tmp_path, people)
    bodies = answers(survey, people)
    url = f"{survey.addresses.shuffler}/surveys/{survey.digest}/responses"
    (tmp_path / "disk").mkdir()
    faulty = Nursery(built_shim(tmp_path))
    statuses: set[int] = set()
    with pair(tmp_path, survey, CLOSES_WITH=str(people)) as both:
        for one in both:
            one.nursery = faulty
            one.settings["STORE"] = str(tmp_path / "disk" / f"{one.role}.db")
        shuffling, analyzing = both
        analyzing.start()
        for number in range(people - 1):
            shuffling.settings["FULL_AT"] = str(number % 13 + 1)
            shuffling.start()
            with full(shuffling):
                first = posted(url, bodies[number])
                second = posted(url, bodies[number])
            assert {first, second} <= {201, 200, *LATER}
            again = posted(url, bodies[number])
            assert again == (200 if {first, second} & {200, 201} else 201)
            statuses |= {first, second}
            shuffling.kill()
        assert 507 in statuses
        shuffling.settings["FULL_AT"] = "1"
        shuffling.start()
        assert posted(url, bodies[-1]) == 201
        with full(shuffling), full(analyzing):
            time.sleep(2.5)  # the shuffler tries to close
        with full(analyzing):
            until(lambda: '"closed"' in shuffling.log, seconds=30)
            time.sleep(1.5)  # the shuffler tries to hand over
        results(survey)
        assert counted(tmp_path, {"STORE": str(tmp_path / "disk" / "analyzer.db")}) == [1] * people
        assert shuffling.running
        assert analyzing.log.count("serving") == 1
    faulty.close()


@pytest.mark.slow
def test_a_full_disk_of_postgresql_is_answered_by_507_and_recovers(tmp_path: Path) -> None:
    """The tables are on a small disk, and the write-ahead log is elsewhere. Another file fills the
    disk. Everything that was answered with 201 is counted when there is room again.
    """
    people, begun = 300, 100
    survey = distinct(tmp_path, people)
    bodies = answers(survey, people)
    url = f"{survey.addresses.shuffler}/surveys/{survey.digest}/responses"
    with small_disk(32_768) as disk, postgres_server() as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{disk}'")
            connection.execute("CREATE DATABASE small TABLESPACE small")
        settings = {"STORE": server.url.replace("/postgres?", "/small?")}
        with pair(tmp_path, survey, CLOSES_WITH=str(people), **settings) as both:
            for one in both:
                one.start()
            assert {posted(url, body) for body in bodies[:begun]} == {201}
            ballast = disk / "ballast"
            with suppress(OSError), ballast.open("wb", buffering=0) as file:
                while file.write(bytes(4096)) == 4096:
                    pass
            # Pages that the tables have already still take some rows.
            statuses = [posted(url, body) for body in bodies[begun:]]
            stored = begun + statuses.count(201)
            assert set(statuses) <= {201, 507}
            assert statuses.count(507) > 100
            asked = httpx.get(url.replace("responses", "status")).json()
            assert asked["responses"] == stored // 30 * 30
            assert httpx.get(f"{survey.addresses.shuffler}/readyz").status_code == 200
            ballast.unlink()
            again = [posted(url, body) for body in bodies]
            assert (again.count(200), again.count(201)) == (stored, people - stored)
            results(survey)
            assert counted(tmp_path, settings) == [1] * people
            assert all(one.running and one.log.count("serving") == 1 for one in both)


@contextmanager
def full(one: Service) -> Iterator[None]:
    """The disk of a service is full."""
    assert one.process is not None
    os.kill(one.process, signal.SIGUSR1)
    time.sleep(0.1)
    yield
    os.kill(one.process, signal.SIGUSR2)
    time.sleep(0.1)


@pytest.mark.slow
def test_a_store_that_must_not_grow_refuses_and_recovers(tmp_path: Path) -> None:
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
    with suppress(Full):
        while stored < 10_000:
            one.accept([sent()])
            stored += 1
    assert stored < 10_000
    assert one.status(survey.digest).responses == stored
    one.accept([sent()])  # a new connection has no limit
    assert one.status(survey.digest).responses == stored + 1


@pytest.mark.parametrize("reason", [None, errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_an_error_of_the_disk_is_not_called_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: int | None
) -> None:
    """The file may not grow, so SQLite fails to write, but there is room on the disk. If there is
    no room either, or no room within a quota, the disk is full.
    """
    survey = distinct(tmp_path, 6)
    one = Shuffler(opened(str(tmp_path / "shuffler.db")))
    one.register(survey)
    sent = [Sent(survey.digest, body) for body in answers(survey, 2)]
    assert one.accept(sent[:1]) == ["stored"]
    files = {*tmp_path.iterdir()}
    if reason is not None:
        failure = OSError(reason, os.strerror(reason))
        monkeypatch.setattr(os, "fsync", lambda file: (_ for _ in ()).throw(failure))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**15, before[1]))
    try:
        with pytest.raises((Full, Unavailable)) as refused:
            one.accept(sent)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    full = reason in (errno.ENOSPC, errno.EDQUOT)
    assert (refused.value.code, refused.value.http_status) == (
        ("full", 507) if full else ("unavailable", 503)
    )
    monkeypatch.undo()
    assert one.accept(sent) == ["seen before", "stored"]
    assert {*tmp_path.iterdir()} == files


def test_a_damaged_file_is_refused_until_it_is_whole_again(tmp_path: Path) -> None:
    survey = distinct(tmp_path, 6)
    file = tmp_path / "shuffler.db"
    one = Shuffler(opened(str(file)))
    one.register(survey)
    sent = [Sent(survey.digest, body) for body in answers(survey, 2)]
    assert one.accept(sent[:1]) == ["stored"]
    one.store.close()
    whole = file.read_bytes()
    file.write_bytes(b"not a database".ljust(len(whole), b"!"))
    with pytest.raises(Unavailable):
        one.accept(sent[1:])
    file.write_bytes(whole)
    assert one.accept(sent) == ["seen before", "stored"]


# The database ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgres"])
def test_the_database_stops_and_starts(
    tmp_path: Path, server: Server, settings: dict[str, str]
) -> None:
    """PostgreSQL stops as in a crash while people answer, and while the survey is closed and
    counted. The services keep running.
    """
    people = 600
    survey = distinct(tmp_path, people)
    bodies = answers(survey, people)
    stops = [0]

    def harm() -> None:
        for pause in (0.2, 0.1, 0.3, 0.5, 1.2):
            time.sleep(pause)
            server.stop()
            time.sleep(pause)
            server.start()
            stops[0] += 1

    with (
        pair(tmp_path, survey, CLOSES_WITH=str(people), **settings) as both,
        ThreadPoolExecutor(1) as pool,
    ):
        for one in both:
            one.start()
        harming = pool.submit(harm)
        try:
            send_all(survey, bodies, ready=lambda number: number * 3 < (stops[0] + 1) * people)
        finally:
            harming.result()
        results(survey)
        assert counted(tmp_path, settings) == [1] * people
        assert all(one.running and one.log.count("serving") == 1 for one in both)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgres"])
def test_stores_of_both_kinds_behave_alike(tmp_path: Path, settings: dict[str, str]) -> None:
    survey = two_questions(tmp_path, 30)
    with ExitStack() as stack:
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
