"""The analyzer and the shuffler of one survey, as two processes on this machine.

This is for trials, and for surveys whose people trust whoever runs this machine. The two processes
run the same programs that two organizations would run. They stop when this process ends.
"""

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

from headcount.collect import keys
from headcount.collect.client import results_at
from headcount.collect.document import Addresses, Document
from headcount.collect.refusals import NoResults, Unavailable
from headcount.collect.settings import PARENT
from headcount.core.cached import cached_property
from headcount.core.errors import UnreadableData
from headcount.core.writing import json_text, write_file

_SECONDS = 60.0  # the longest time to wait for a process
_PORTS = range(10_000, 30_000)  # below the ports that systems choose for outgoing connections


class Pair:
    """Both services of one survey. Their keys, databases and logs are in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.analyzer, self.shuffler_store = folder / "analyzer", folder / "shuffler.db"
        self.path, self.ports_path = folder / "survey.json", folder / "ports.json"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._alive: list[int] = []  # pipes; when they close, the services stop

    @classmethod
    def create(
        cls,
        folder: Path,
        document: Callable[[keys.PublicKey, Addresses], Document],
        *,
        address: str | None = None,
        port: int | None = None,
    ) -> Self:
        """Make the analyzer's key, and then the survey's document.

        `document` makes the document from the public key and the addresses of both services.
        `address` is the address at which people's devices reach the shuffler. By default, it is the
        shuffler's port on this machine. The environment variable HEADCOUNT_PASSPHRASE may have a
        passphrase for the key.
        """
        made = cls(folder)
        passphrase = os.environ.get("HEADCOUNT_PASSPHRASE", "").encode() or None
        key = keys.create(made.analyzer, passphrase)
        keys.create_tokens(made.analyzer)
        ports = {"shuffler": port or free_port(), "analyzer": free_port()}
        local = f"http://127.0.0.1:{ports['shuffler']}"
        places = Addresses(address or local, f"http://127.0.0.1:{ports['analyzer']}")
        write_file(made.ports_path, json_text(ports) + "\n")
        document(key, places).save(made.path)
        return made

    @cached_property
    def document(self) -> Document:
        """The document of the survey."""
        return Document.load(self.path)

    def start(self) -> None:
        """Start both processes, and wait until they answer."""
        ports = json.loads(self.ports_path.read_text())
        self._run("analyzer", "serve", str(self.analyzer), "--survey", str(self.path),
                  "--port", str(ports["analyzer"]))  # fmt: skip
        self._run("shuffler", "serve", "--survey", str(self.path),
                  "--store", str(self.shuffler_store), "--port", str(ports["shuffler"]),
                  "--token-file", str(self.analyzer / keys.TOKEN))  # fmt: skip
        for role, port in ports.items():
            self.until(partial(results_at, f"http://127.0.0.1:{port}/readyz", ""), role)

    def until(self, ask: Callable[[], dict[str, Any]], role: str = "") -> dict[str, Any]:
        """Call `ask` until a service that is starting or counting answers, and return its answer.
        An error is raised if the process with this `role` has ended.
        """

        def check_running() -> None:
            if role and self._processes[role].poll() is not None:
                raise UnreadableData(f"the {role} must start, got: {self._last_words(role)}")

        return first_answer(ask, _SECONDS, check_running)

    def results(self) -> dict[str, Any]:
        """The results of the survey. The running analyzer is asked for them."""
        digest, place = self.document.digest, self.document.addresses.analyzer
        token = (self.analyzer / keys.RESULTS_TOKEN).read_text().strip()
        return results_at(f"{place}/surveys/{digest}/results", token)

    def stop(self) -> None:
        """Stop both processes."""
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.wait(_SECONDS)
        for pipe in self._alive:
            os.close(pipe)
        self._processes, self._alive = {}, []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _run(self, role: str, *words: str) -> None:
        watched, alive = os.pipe()
        self._alive.append(alive)
        # In a demonstration or in a class, all people may share one network address. So the rate
        # limit must allow many responses at once from one address.
        environment = {**os.environ, "HEADCOUNT_SHUFFLER_BURST": "1000000", PARENT: str(watched)}
        try:
            with self._log(role).open("wb") as log:
                self._processes[role] = subprocess.Popen(
                    [sys.executable, "-m", "headcount", role, *words], pass_fds=(watched,),
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
                )  # fmt: skip
        finally:
            os.close(watched)

    def _log(self, role: str) -> Path:
        return self.folder / f"{role}.log"

    def _last_words(self, role: str) -> str:
        lines = self._log(role).read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "nothing in its log"


def free_port() -> int:
    """A port on loopback that nobody uses at the moment."""
    while True:
        port = secrets.choice(_PORTS)
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port


def first_answer(
    ask: Callable[[], dict[str, Any]], seconds: float, meanwhile: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Call `ask` until a service that is starting or counting answers, for at most `seconds`
    seconds, and return its answer. `meanwhile` is called after each failed attempt.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return ask()
        except (Unavailable, NoResults):
            if time.monotonic() > deadline:
                raise
        meanwhile()
        time.sleep(0.1)
