"""Surveys, processes and people for the tests of the collection service. Everything runs on
loopback.
"""

import os
import secrets
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

import collection_process
import headcount as hc
from headcount.collect import keys
from headcount.collect.analyzer import Analyzer
from headcount.collect.document import Addresses, Document
from headcount.collect.releases import release_of
from headcount.collect.sealing import Content
from headcount.collect.shuffler import Shuffler
from headcount.collect.store import opened
from headcount.survey.design import Ask

TOKEN, RESULTS_TOKEN = collection_process.TOKEN, collection_process.RESULTS_TOKEN


def free_port() -> int:
    """A port on loopback that nobody uses at the moment. It is below the ports that the system
    gives to connections, so that no connection takes it before a service does.
    """
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port


def document(
    folder: Path, releases: dict[str, hc.Protocol], *, least_people: int, admission: Any = "open"
) -> Document:
    """A survey for the key in a folder, which is made if there is none."""
    key = keys.PublicKey.load(folder) if (folder / "key.json").exists() else None
    return Document(
        {"title": "Test"},
        tuple(
            release_of((Ask(name, made.task),), made, least_people)
            for name, made in releases.items()
        ),
        hc.Budget(
            sum(made.budget.epsilon for made in releases.values()),
            sum(made.budget.delta for made in releases.values()),
        ),
        key or keys.create(folder, None),
        Addresses(*(f"http://127.0.0.1:{free_port()}" for _ in range(2))),
        least_people,
        admission,
    )


def distinct(folder: Path, people: int, **settings: Any) -> Document:
    """A survey in which each person has a value of their own. With so large an epsilon nobody
    lies, so the tally shows how often each person was counted.
    """
    task = hc.Histogram([str(number) for number in range(people)])
    made = hc.protocol("local.k-ary", task, hc.Budget(80), hc.Crowd(people))
    return document(folder, {"who": made}, least_people=people, **settings)


def two_questions(folder: Path, people: int, **settings: Any) -> Document:
    """A count by a shuffler that adds the noise, and a count by people who do."""
    budget, crowd = hc.Budget(1, 1e-3), hc.Crowd(people)
    return document(
        folder,
        {
            "smoke": hc.protocol("shuffle.noisy-shuffler", hc.Count(), budget, crowd),
            "drink": hc.protocol("shuffle.zero-exact", hc.Count(), budget, crowd),
        },
        least_people=people,
        **settings,
    )


def contents_of(survey: Document, key: X25519PrivateKey, messages: bytes) -> list[Content]:
    """What sealed messages, one after another, hold: their release, and their payload."""
    sizes = tuple(one.protocol.alphabet.bytes_per_message for one in survey.releases)
    size = survey.envelope.size
    return [
        survey.envelope.open(key, messages[at : at + size], sizes)
        for at in range(0, len(messages), size)
    ]


def shuffler(folder: Path, **settings: Any) -> Shuffler:
    return Shuffler(opened(str(folder / "shuffler.db"), wait=5), **settings)


def analyzer(folder: Path, **settings: Any) -> Analyzer:
    return Analyzer(
        opened(str(folder / "analyzer.db"), wait=5), keys.private_key(folder, None), **settings
    )


class Service:
    """A service in a process of its own, which can be killed and started again. `settings` are
    variables of its environment.
    """

    def __init__(self, role: str, folder: Path, survey: Document, **settings: str) -> None:
        self.role, self.folder, self.survey, self.settings = role, folder, survey, settings
        addresses = survey.addresses
        self.url = addresses.shuffler if role == "shuffler" else addresses.analyzer
        self.nursery = collection_process.nursery()
        self.process: int | None = None

    def start(self, kill_at: str = "", **settings: str) -> None:
        """Start the process. It kills itself when it reaches the step `kill_at`."""
        self.survey.save(self.folder / "survey.json")
        environment = {**self.settings, **settings, "KILL_AT": kill_at}
        self.process = self.nursery.start(self.role, self.folder, environment)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.running:
            if healthy(self.url):
                return
            time.sleep(0.02)
        assert self.nursery.status(self.process) == -signal.SIGKILL, self.log

    @property
    def running(self) -> bool:
        return self.process is not None and self.nursery.status(self.process) is None

    @property
    def log(self) -> str:
        return (self.folder / f"{self.role}.log").read_text()

    def kill(self) -> None:
        if self.running:
            self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask the process to stop, and return its exit status."""
        return self._end(signal.SIGTERM)

    def _end(self, number: int) -> int:
        """Send a signal, and return the exit status when the process has ended. Meanwhile, another
        thread may start the next process.
        """
        process = self.process
        assert process is not None
        with suppress(ProcessLookupError):
            os.kill(process, number)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            status = self.nursery.status(process)
            if status is not None:
                return status
            time.sleep(0.01)
        raise AssertionError(f"the {self.role} must end")


def healthy(url: str) -> bool:
    """Whether a service answers."""
    host, port = url.removeprefix("http://").split(":")
    asked = HTTPConnection(host, int(port), timeout=5)
    try:
        asked.request("GET", "/healthz")
        return asked.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        asked.close()


@contextmanager
def pair(folder: Path, survey: Document, **settings: str) -> Iterator[tuple[Service, Service]]:
    """A shuffler and an analyzer. They are killed afterwards."""
    both = (
        Service("shuffler", folder, survey, **settings),
        Service("analyzer", folder, survey, **settings),
    )
    try:
        yield both
    finally:
        for one in both:
            one.kill()


def post(survey: Document, body: bytes, **settings: Any) -> httpx.Response:
    return httpx.post(
        f"{survey.addresses.shuffler}/surveys/{survey.digest}/responses", content=body, **settings
    )


def results(survey: Document, *, seconds: float = 180) -> dict[str, Any]:
    """The results, when they are there."""
    url = f"{survey.addresses.analyzer}/surveys/{survey.digest}/results"
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(httpx.HTTPError):  # the analyzer may be starting again
            reply = httpx.get(url, headers={"Authorization": f"Bearer {RESULTS_TOKEN}"})
            if reply.status_code == 200:
                found: dict[str, Any] = reply.json()
                return found
        time.sleep(0.1)
    raise AssertionError("the analyzer must have results")
