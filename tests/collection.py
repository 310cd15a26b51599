"""Surveys, processes and people for the tests of the collection service. Everything runs on
loopback.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

import headcount as hc
from headcount.collect import keys
from headcount.collect.analyzer import Analyzer
from headcount.collect.document import Addresses, Document
from headcount.collect.releases import release_of
from headcount.collect.shuffler import Shuffler
from headcount.collect.store import opened
from headcount.survey.design import Ask

TOKEN = "a token that only the tests know"
HERE = Path(__file__).parent


def free_port() -> int:
    """A port on loopback that nobody uses at the moment."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
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


def shuffler(folder: Path, **settings: Any) -> Shuffler:
    return Shuffler(opened(str(folder / "shuffler.db"), wait=5), **settings)


def analyzer(folder: Path, **settings: Any) -> Analyzer:
    return Analyzer(
        opened(str(folder / "analyzer.db"), wait=5), keys.private_key(folder, None), **settings
    )


class Service:
    """A service in a process of its own, which can be killed and started again."""

    def __init__(self, role: str, folder: Path, survey: Document, **settings: str) -> None:
        self.role, self.folder, self.survey, self.settings = role, folder, survey, settings
        addresses = survey.addresses
        self.url = addresses.shuffler if role == "shuffler" else addresses.analyzer
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, kill_at: str = "", **settings: str) -> None:
        """Start the process. It kills itself when it reaches the step `kill_at`."""
        path = self.folder / "survey.json"
        self.survey.save(path)
        with (self.folder / f"{self.role}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / "collection_process.py"), self.role, str(self.folder)],
                stdout=log,
                stderr=log,
                env={**os.environ, **self.settings, **settings, "KILL_AT": kill_at},
            )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.running:
            with suppress(httpx.HTTPError):
                if httpx.get(f"{self.url}/healthz").status_code == 200:
                    return
            time.sleep(0.05)
        assert kill_at, self.log

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def log(self) -> str:
        return (self.folder / f"{self.role}.log").read_text()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> int:
        """Ask the process to stop, and return its exit status."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(60)


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
            reply = httpx.get(url, headers={"Authorization": f"Bearer {TOKEN}"})
            if reply.status_code == 200:
                found: dict[str, Any] = reply.json()
                return found
        time.sleep(0.1)
    raise AssertionError("the analyzer must have results")
