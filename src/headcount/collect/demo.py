"""A survey of a made-up campus, with all roles as processes of this machine.

The analyzer and the shuffler are the same programs that a real survey runs. Made-up respondents
answer over the network, on loopback.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from headcount.collect import keys
from headcount.collect.client import Respondent, results_at
from headcount.collect.document import Addresses, Document
from headcount.collect.refusals import NoResults, Unavailable
from headcount.core.budget import Budget, Trust
from headcount.core.errors import UnreadableData
from headcount.survey.questions import Choice, YesNo
from headcount.survey.survey import Survey

WAYS = ("on foot", "bicycle", "bus", "car")
_SECONDS = 60.0  # the longest time to wait for a process


@dataclass(frozen=True)
class Demo:
    """The results of the made-up campus, and the true answers."""

    document: Document
    results: dict[str, Any]
    truth: dict[str, Any]


def demonstrate(folder: Path, people: int, said: Callable[[str], None]) -> Demo:
    """Run a whole survey. `said` is called with each step."""
    analyzer, shuffler = folder / "analyzer", folder / "shuffler.db"
    said("making the analyzer's key")
    _headcount("analyzer", "init", str(analyzer), "--no-passphrase")
    document = campus(keys.PublicKey.load(analyzer), people)
    path = folder / "survey.json"
    document.save(path)
    answers = made_up(people)
    with ExitStack() as running:
        said("starting the analyzer and the shuffler")
        ports = [url.rpartition(":")[2] for url in (
            document.addresses.analyzer, document.addresses.shuffler)]  # fmt: skip
        running.enter_context(_service(
            "analyzer", "serve", str(analyzer), "--survey", str(path), "--port", ports[0],
            log=folder / "analyzer.log"))  # fmt: skip
        running.enter_context(_service(
            "shuffler", "serve", "--survey", str(path), "--port", ports[1],
            "--store", str(shuffler), "--token-file", str(analyzer / "token"),
            "--close-with", str(people), log=folder / "shuffler.log"))  # fmt: skip
        for url in (document.addresses.shuffler, document.addresses.analyzer):
            _until(partial(results_at, f"{url}/readyz", ""))
        said(f"{people} people answer")
        with ThreadPoolExecutor(8) as crowd:
            list(
                crowd.map(lambda number: _answer(document, folder, number, answers), range(people))
            )
        said("closing, mixing, opening and counting")
        token = (analyzer / "token").read_text().strip()
        place = f"{document.addresses.analyzer}/surveys/{document.digest}/results"
        found = _until(lambda: results_at(place, token))
    truth = {"smoke": answers["smoke"].count("yes"), "drink": answers["drink"].count("yes"),
             "commute": [answers["commute"].count(way) for way in WAYS]}  # fmt: skip
    return Demo(document, found, truth)


def campus(key: keys.PublicKey, people: int) -> Document:
    """The survey of the made-up campus."""
    survey = Survey(
        (
            YesNo("smoke", "Do you smoke?"),
            YesNo("drink", "Did you drive after drinking last month?"),
            Choice("commute", "How do you come to the campus?", choices=WAYS),
        ),
        Budget(2, 1e-6),
        Trust.SHUFFLE,
        people,
        title="A made-up campus",
    )
    places = (f"http://127.0.0.1:{_free_port()}" for _ in range(2))
    return Document.of(survey, key, Addresses(*places))


def made_up(people: int) -> dict[str, list[Any]]:
    """The answers of the made-up people. They follow from the number of each person."""
    return {
        "smoke": ["yes" if number * 7 % 20 < 5 else "no" for number in range(people)],
        "drink": ["yes" if number * 13 % 25 < 2 else "no" for number in range(people)],
        "commute": [WAYS[min(3, number * 11 % 10 // 3)] for number in range(people)],
    }


def _answer(document: Document, folder: Path, number: int, answers: dict[str, list[Any]]) -> None:
    person = Respondent(document, folder / "respondents" / str(number))
    person.answer({name: column[number] for name, column in answers.items()})
    person.send()


def _headcount(*words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headcount", *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise UnreadableData(f"headcount {words[0]} must succeed: {done.stderr.strip()}")


@contextmanager
def _service(*words: str, log: Path) -> Iterator[None]:
    """A service that runs during the block."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "headcount", *words],
            stdout=output,
            stderr=output,
            # All people of the demonstration have the same address.
            env={**os.environ, "HEADCOUNT_SHUFFLER_BURST": "1000000"},
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(_SECONDS)


def _until(ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The first answer of a service that is starting or counting."""
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            return ask()
        except (Unavailable, NoResults):
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port
