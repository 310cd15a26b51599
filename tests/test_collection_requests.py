"""Bad requests over HTTP: each is answered as the interface says, and the service goes on."""

import contextlib
import hashlib
import json
import os
import random
import resource
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.core.result import Ok

import headcount as hc
from collection import RESULTS_TOKEN, TOKEN, Service, distinct, pair, post, results
from collection_process import Nursery
from headcount.collect.batch import SealedBatch
from headcount.collect.client import response
from headcount.collect.document import Document
from headcount.collect.http import RateLimit
from headcount.collect.refusals import TooMany

SOURCE = hc.SecureSource()
PEOPLE = 12
DESCRIPTIONS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Document, Service]]:
    """A shuffler that waits 1 s for a request, and an analyzer."""
    folder = tmp_path_factory.mktemp("requests")
    survey = distinct(folder, PEOPLE)
    with pair(folder, survey) as (one, other):
        one.start()
        other.start()
        yield survey, one


def connected(survey: Document) -> socket.socket:
    host, port = survey.addresses.shuffler.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def head(survey: Document, *lines: str) -> bytes:
    first = f"POST /surveys/{survey.digest}/responses HTTP/1.1"
    return "\r\n".join([first, "Host: x", *lines, "", ""]).encode()


def reply(line: socket.socket) -> bytes:
    """Everything until the service closes the connection, or all of one answer."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while some := line.recv(65536):
            found += some
            begin, end, body = found.partition(b"\r\n\r\n")
            stated = begin.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]
            if end and stated and len(body) >= int(stated):
                break
    return found


def status(found: bytes) -> int:
    return int(found.split(b" ")[1])


def is_well(survey: Document) -> bool:
    return httpx.get(f"{survey.addresses.shuffler}/readyz", timeout=20).status_code == 200


# Bodies -------------------------------------------------------------------------------------------


def test_wrong_sizes(running: tuple[Document, Service]) -> None:
    survey, _ = running
    size = survey.response_bytes
    for wrong, expected in ((0, 400), (1, 400), (size - 1, 400), (size + 1, 413), (2**20, 413)):
        found = post(survey, bytes(wrong))
        assert found.status_code == expected
        assert set(found.json()["error"]) == {"code", "message", "hint"}


def test_fifty_mebibytes_are_refused_before_they_are_read(
    running: tuple[Document, Service],
) -> None:
    survey, one = running
    before = memory(one)
    with connected(survey) as line:
        line.sendall(head(survey, f"Content-Length: {50 * 2**20}"))
        with contextlib.suppress(ConnectionError):
            for _ in range(50):
                line.sendall(bytes(2**20))
        line.settimeout(20)
        with contextlib.suppress(ConnectionError):
            assert status(reply(line)) == 413
    assert memory(one) - before < 20 * 2**20
    assert is_well(survey)


@pytest.mark.parametrize(
    ("lines", "body", "expected"),
    [
        (["Content-Length: -1"], b"", 400),
        (["Content-Length: 1e3"], b"", 400),
        (["Content-Length: 99999999999999999999999"], b"", 400),
        (["Content-Length: 5", "Content-Length: 6"], b"xxxxxx", 400),
        (["Content-Length: 5", "Transfer-Encoding: chunked"], b"0\r\n\r\n", 400),
        (["Transfer-Encoding: chunked"], b"5\r\nhello\r\n0\r\n\r\n", 411),
        ([], b"", 411),
        (["Content-Length: 3"], b"four, and more", 400),
        (["X: " + "x" * 1_000_000], b"", 400),
    ],
)
def test_wrong_lengths(
    running: tuple[Document, Service], lines: list[str], body: bytes, expected: int
) -> None:
    survey, _ = running
    with connected(survey) as line:
        line.sendall(head(survey, *lines) + body)
        assert status(reply(line)) == expected
    assert is_well(survey)


def test_bodies_that_end_early_are_not_stored(running: tuple[Document, Service]) -> None:
    survey, one = running
    body = response(survey, {"who": "11"}, SOURCE)
    with connected(survey) as line:
        line.sendall(head(survey, f"Content-Length: {survey.response_bytes}") + body[:-1])
    assert post(survey, body).status_code == 201  # it was not seen before
    assert "failed" not in one.log


@pytest.mark.parametrize("what", ["nothing", "head", "body", "second head"])
def test_slow_requests_are_ended(running: tuple[Document, Service], what: str) -> None:
    """The service waits for 1 s, however often another byte comes."""
    survey, _ = running
    whole = head(survey, f"Content-Length: {survey.response_bytes}")
    begun = time.monotonic()
    with connected(survey) as line:
        if what == "body":
            line.sendall(whole)
        if what == "second head":
            line.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert status(reply(line)) == 200
        line.settimeout(0.1)
        found = b""
        while not found and time.monotonic() < begun + 10:
            with contextlib.suppress(TimeoutError):
                found = line.recv(1000)
            if not found and what != "nothing":
                line.sendall(whole[:1] if what != "body" else b"x")
                whole = whole[1:]
        with contextlib.suppress(OSError):
            while not found.endswith(b"}"):  # the body may come later than the head
                found += line.recv(1000)
        assert status(found) == 408
        assert json.loads(found.partition(b"\r\n\r\n")[2])["error"]["code"] == "too-slow"
    assert 0.9 < time.monotonic() - begun < 8


@pytest.mark.slow
def test_junk_is_stored_and_refused_when_it_is_opened(tmp_path: Path) -> None:
    """A thousand responses of random bytes change nothing but the number of people."""
    survey = distinct(tmp_path, 6)
    chosen = random.Random(1)
    bodies = [response(survey, {"who": str(number)}, SOURCE) for number in range(6)]
    bodies += [chosen.randbytes(survey.response_bytes) for _ in range(1000)]
    with (
        pair(tmp_path, survey, CLOSES_WITH="1006") as (one, other),
        httpx.Client(timeout=30) as client,
        ThreadPoolExecutor(8) as crowd,
    ):
        one.start()
        other.start()
        url = f"{survey.addresses.shuffler}/surveys/{survey.digest}/responses"
        replies = crowd.map(lambda body: client.post(url, content=body), bodies)
        assert {one.status_code for one in replies} == {201}
        found = results(survey)
    assert found["people"] == 1006
    assert found["messages"]["refused"] == 1000
    assert "error" not in found["questions"]["who"]


def test_too_many_requests(tmp_path: Path) -> None:
    survey = distinct(tmp_path, PEOPLE)
    limits = json.dumps({"rate": 0.001, "burst": 3})
    with pair(tmp_path, survey, SETTINGS=limits) as (one, _):
        one.start()
        replies = [
            post(survey, response(survey, {"who": str(number)}, SOURCE)) for number in range(5)
        ]
    assert [one.status_code for one in replies] == [201] * 3 + [429] * 2
    assert replies[-1].json()["error"]["code"] == "too-many-requests"
    assert int(replies[-1].headers["retry-after"]) > 0


def test_limits_recover_with_time() -> None:
    now = [0.0]
    limit = RateLimit(60, 3, lambda: now[0])
    for address in ("192.0.2.1", "192.0.2.2", "192.0.2.3"):
        limit.check(address)
    with pytest.raises(TooMany):
        limit.check("192.0.2.4")
    limit.check("198.51.100.1")  # another part of the network
    now[0] = 1.0
    limit.check("192.0.2.4")
    with pytest.raises(TooMany):
        limit.check("192.0.2.4")


# Many connections ---------------------------------------------------------------------------------


def memory(one: Service) -> int:
    """The bytes of memory that a service uses."""
    pages = int(Path(f"/proc/{one.process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


@pytest.mark.slow
def test_ten_thousand_connections_at_once(tmp_path: Path) -> None:
    """Half of them say nothing, and half of them begin a request. Meanwhile, people answer. The
    service starts with the usual limit of 1,024 files, and raises it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    survey, own = distinct(tmp_path, PEOPLE), Nursery()
    resource.setrlimit(resource.RLIMIT_NOFILE, (12_000, hard))
    patient = json.dumps({"body_seconds": 600.0})
    with pair(tmp_path, survey, SETTINGS=patient) as (one, _), contextlib.ExitStack() as lines:
        one.nursery = own
        one.start()
        before = memory(one)
        for number in range(10_000):
            line = lines.enter_context(connected(survey))
            if number % 2:
                line.sendall(head(survey)[:40])
        for number in range(PEOPLE):
            body = response(survey, {"who": str(number)}, SOURCE)
            assert post(survey, body, timeout=30).status_code == 201
        open_files = len(list(Path(f"/proc/{one.process}/fd").iterdir()))
        assert open_files > 10_000
        assert memory(one) - before < 500 * 2**20
    own.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# The described interface --------------------------------------------------------------------------


QUIET = settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    database=None,
)


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_services_are_as_described(
    running: tuple[Document, Service], role: str, mode: GenerationMode
) -> None:
    """Requests that are valid are about a survey that exists, and have bodies of its form, which a
    description of types cannot state.
    """
    survey, one = running
    batch = SealedBatch(PEOPLE, survey.envelope.size, bytes(survey.envelope.size * PEOPLE))
    described = schemathesis.openapi.from_path(DESCRIPTIONS / f"openapi-{role}.json")
    described.config.update(base_url=getattr(survey.addresses, role))
    tested = set()

    def check(case: schemathesis.Case[Any]) -> None:
        if mode.is_positive:
            token = RESULTS_TOKEN if case.path.endswith("/results") else TOKEN
            case.headers["Authorization"] = f"Bearer {token}"
            if "digest" in case.path_parameters:
                case.path_parameters["digest"] = survey.digest
            if case.method == "POST":
                case.body = hashlib.shake_128(repr(case.body).encode()).digest(
                    survey.response_bytes
                )
            if case.method == "PUT":
                case.body = batch.data
                case.headers["Headcount-SHA256"] = batch.digest
        case.call_and_validate()
        tested.add((case.method, case.path))

    operations = list(described.get_all_operations())
    for found in operations:
        assert isinstance(found, Ok)
        operation = found.ok()
        with contextlib.suppress(Unsatisfiable):  # nothing about some requests can be wrong
            QUIET(given(operation.as_strategy(generation_mode=mode))(check))()
    if mode.is_positive:
        assert len(tested) == len(operations)
    else:
        assert {"POST", "PUT"} & {method for method, _ in tested}
    assert one.running
