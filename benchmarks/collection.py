"""The collection service under load: real services, real HTTP, and made-up people.

Everything is measured in one run. The shuffler and its bare peer take turns, so that other work of
the machine affects both.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

import headcount as hc
from benchmarks.comparison import Comparison, duration
from benchmarks.load import send_all
from benchmarks.stopwatch import race
from headcount.collect import keys
from headcount.collect.arrivals import row_bytes
from headcount.collect.batch import SealedBatch
from headcount.collect.client import response, results_at
from headcount.collect.document import Addresses, Document
from headcount.collect.opening import Opener, open_batch
from headcount.collect.pair import first_answer, free_port
from headcount.core.budget import Trust
from headcount.survey.questions import Choice, Scale, YesNo
from headcount.survey.survey import Survey

_PEOPLE = 100_000
_OPENED = 200_000  # messages that are opened to compare the speed of opening
_TURNS = 10
_CORES = os.cpu_count() or 1
_WAYS = ("on foot", "bicycle", "bus", "car")
_FACULTIES = ("arts", "law", "medicine", "science", "engineering", "economics", "theology", "other")
_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)


def collection(people: int = _PEOPLE) -> Iterator[Comparison]:
    """Durable responses, opening, and the whole way from the last response to the results."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        home = Path(folder)
        survey = _survey(home, people)
        bodies = _bodies(survey, people)
        yield from _opening(survey, home, bodies)
        services = _started(running, home, survey, people)
        ours, bare = _ingest(services, bodies)
        subject = f"durable responses, {people:,}"
        yield Comparison(
            subject, f"{people / ours:,.0f} per s", "bare Starlette, the same SQLite inserts",
            f"{people / bare:,.0f} per s", bare / ours, "≥ 0.6",
        )  # fmt: skip
        yield from _close_to_result(services, survey, people, home)


def _survey(home: Path, people: int) -> Document:
    """Eight questions. The shuffler adds the noise, so everybody sends eight messages."""
    survey = Survey(
        (
            YesNo("smoke", "Do you smoke?"),
            YesNo("drive", "Did you drive after drinking last month?"),
            YesNo("sick", "Were you sick last month?"),
            YesNo("work", "Do you work?"),
            Choice("commute", "How do you come to the campus?", choices=_WAYS),
            Choice("faculty", "What do you study?", choices=_FACULTIES),
            Scale("stress", "How stressed were you last week?", low=1, high=5),
            Scale("sleep", "How well do you sleep?", low=1, high=5),
        ),
        hc.Budget(2, 1e-8),
        Trust.SHUFFLE,
        people,
        title="A made-up campus",
        noise="shuffler",
    )
    places = Addresses(*(f"http://127.0.0.1:{free_port()}" for _ in range(2)))
    return Document.of(survey, keys.create(home / "analyzer", None), places)


def _answers(person: int) -> dict[str, Any]:
    return {
        "smoke": "yes" if person * 7 % 20 < 5 else "no",
        "drive": "yes" if person * 13 % 25 < 2 else "no",
        "sick": "yes" if person * 3 % 10 < 3 else "no",
        "work": "yes" if person % 2 else "no",
        "commute": _WAYS[person * 11 % 4],
        "faculty": _FACULTIES[person * 5 % 8],
        "stress": person * 17 % 5 + 1,
        "sleep": person * 19 % 5 + 1,
    }


def _sealed(document: bytes, people: Sequence[int]) -> list[bytes]:
    survey, source = Document.from_bytes(document), hc.SecureSource()
    return [response(survey, _answers(person), source) for person in people]


def _bodies(survey: Document, people: int) -> list[bytes]:
    """The sealed responses of everybody, made on all cores."""
    parts = [range(at, min(at + 1000, people)) for at in range(0, people, 1000)]
    with _pool() as pool:
        made = pool.map(partial(_sealed, survey.data), parts)
        return [body for part in made for body in part]


def _pool(**settings: Any) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(_CORES, mp_context=get_context("spawn"), **settings)


# Opening --------------------------------------------------------------------------------------


def _opening(survey: Document, home: Path, bodies: Sequence[bytes]) -> Iterator[Comparison]:
    """Open and count messages, compared with decrypting them in as many processes."""
    size = survey.envelope.size
    some = b"".join(bodies)[: _OPENED * size]
    private = keys.private_key(home / "analyzer", None).private_bytes_raw()
    opener = Opener(
        private, survey.envelope, tuple(release.protocol for release in survey.releases)
    )
    batch, step = SealedBatch(len(bodies), size, some), 8192 * size

    def ours() -> None:
        opened = open_batch(batch, opener, processes=_CORES)
        assert sum(opened.sent) == len(batch)

    def bare() -> None:
        decrypt = partial(_decrypted, private, survey.envelope.info, size)
        parts = (some[at : at + step] for at in range(0, len(some), step))
        with _pool() as pool:
            assert sum(pool.map(decrypt, parts)) == len(batch)

    own_time, bare_time = race(ours, bare, rounds=3)
    yield Comparison(
        f"open and count {len(batch):,} messages, {_CORES} processes", duration(own_time),
        "bare HPKE opens, as many processes", duration(bare_time), bare_time / own_time, "≥ 0.8",
    )  # fmt: skip


def _decrypted(private: bytes, info: bytes, size: int, part: bytes) -> int:
    key = X25519PrivateKey.from_private_bytes(private)
    for at in range(0, len(part), size):
        _SUITE.decrypt(part[at : at + size], key, info)
    return len(part) // size


# Services -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Services:
    """The addresses of the shuffler's responses and of its bare peer, and the two processes."""

    shuffler_url: str
    bare_url: str
    shuffler: int
    analyzer: int
    end_bare: Callable[[], None]


def _started(running: ExitStack, home: Path, survey: Document, people: int) -> _Services:
    path, port = home / "survey.json", free_port()
    survey.save(path)
    keys.create_tokens(home / "analyzer")
    token = home / "analyzer" / keys.TOKEN
    ports = [url.rpartition(":")[2] for url in
             (survey.addresses.shuffler, survey.addresses.analyzer)]  # fmt: skip
    command = ["-m", "headcount"]
    shuffler = running.enter_context(_process(
        *command, "shuffler", "serve", "--survey", str(path), "--port", ports[0], "--store",
        str(home / "shuffler.db"), "--token-file", str(token), "--close-with", str(people),
        log=home / "shuffler.log",
    ))  # fmt: skip
    analyzer = running.enter_context(_process(
        *command, "analyzer", "serve", str(home / "analyzer"), "--survey", str(path), "--port",
        ports[1], log=home / "analyzer.log",
    ))  # fmt: skip
    chunk = row_bytes(survey)
    bare = running.enter_context(_process(
        "-m", "benchmarks.bare_server", str(port), str(home / "bare.db"),
        str(survey.response_bytes), str(chunk), log=home / "bare.log",
    ))  # fmt: skip
    bare_url = f"http://127.0.0.1:{port}"
    for url in (survey.addresses.shuffler, survey.addresses.analyzer, bare_url):
        first_answer(partial(results_at, f"{url}/healthz", ""), 60)
    place = f"/surveys/{survey.digest}/responses"
    return _Services(
        survey.addresses.shuffler + place, bare_url + place, shuffler.pid, analyzer.pid,
        bare.terminate,
    )  # fmt: skip


def _ingest(services: _Services, bodies: Sequence[bytes]) -> tuple[float, float]:
    """The seconds until all responses were answered with 201, by the shuffler and by its peer."""
    ours = bare = 0.0
    step = -(-len(bodies) // _TURNS)
    for at in range(0, len(bodies), step):
        bare += send_all(services.bare_url, bodies[at : at + step])
        ours += send_all(services.shuffler_url, bodies[at : at + step])
    services.end_bare()
    return ours, bare


def _close_to_result(
    services: _Services, survey: Document, people: int, home: Path
) -> Iterator[Comparison]:
    """From the last response to the results, and the memory of both services."""
    start = time.perf_counter()
    url = f"{survey.addresses.analyzer}/surveys/{survey.digest}/results"
    token = (home / "analyzer" / keys.RESULTS_TOKEN).read_text().strip()
    with _memory(services.shuffler, services.analyzer) as most:
        found = first_answer(lambda: results_at(url, token), 900)
    seconds = time.perf_counter() - start
    assert found["people"] == people
    assert found["messages"]["refused"] == found["messages"]["copies"] == 0
    subject = f"last of {people:,} responses of 8 questions to results"
    yield Comparison(subject, duration(seconds), "3 minutes", "180 s", 180 / seconds, "≥ 1")
    for role, used in zip(("shuffler", "analyzer"), most, strict=True):
        subject = f"the {role}, {people:,} responses of 8 questions"
        yield Comparison.of_memory(subject, used, 1.5)


@contextmanager
def _process(*words: str, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *words],
            stdout=output,
            stderr=output,
            # All made-up people have the same address.
            env={**os.environ, "HEADCOUNT_SHUFFLER_BURST": "1000000000"},
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def _memory(*roots: int) -> Iterator[list[int]]:
    """The largest memory of each process and its children during the block, in bytes."""
    most, done = [0] * len(roots), threading.Event()

    def watch() -> None:
        while not done.wait(0.1):
            for at, root in enumerate(roots):
                most[at] = max(most[at], _used(root))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield most
    finally:
        done.set()
        watching.join()


def _used(process: int) -> int:
    """The memory of a process and of its children. Pages that they share are counted twice."""
    try:
        folder = Path(f"/proc/{process}")
        own = 4096 * int((folder / "statm").read_text().split()[1])
        listed = [one.read_text() for one in (folder / "task").glob("*/children")]
    except (OSError, IndexError):
        return 0
    return own + sum(_used(int(child)) for child in " ".join(listed).split())
