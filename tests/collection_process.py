"""Processes of shufflers and analyzers for the tests. They can kill themselves at any step.

The *nursery* is a process that has loaded everything, and forks a service whenever a test asks for
one. So a service starts in a twentieth of a second, and tests can kill it many times. It reads one
request on each line of its standard input, and answers on its standard output.
"""

import atexit
import ctypes
import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any

from headcount.collect import keys
from headcount.collect.analyzer import Analyzer
from headcount.collect.analyzer_app import analyzer_app
from headcount.collect.document import Document
from headcount.collect.server import serve
from headcount.collect.settings import AnalyzerSettings, ShufflerSettings
from headcount.collect.shuffler import Shuffler
from headcount.collect.shuffler_app import shuffler_app
from headcount.collect.store import opened

TOKEN = "a token that only the tests know"
RESULTS_TOKEN = "a token for the results of the tests"


class Nursery:
    """The process that forks. With the library `shim`, disks of its services can be full."""

    def __init__(self, shim: Path | None = None) -> None:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        if shim is not None:
            environment["LD_PRELOAD"] = str(shim)
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__))],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        atexit.register(self.close)

    def start(self, role: str, folder: Path, environment: dict[str, str]) -> int:
        """Start a service, and return its process id."""
        made: int = self._ask({"role": role, "folder": str(folder), "environment": environment})
        return made

    def status(self, process: int) -> int | None:
        """The exit status of a service that was started here, or None if it is running."""
        found: int | None = self._ask({"process": process})
        return found

    def close(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()

    def _ask(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        with self._lock:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())


@cache
def nursery() -> Nursery:
    """The nursery of this test run."""
    return Nursery()


# The following code runs in the nursery and in the services.


def reached(step: str) -> None:
    if step == os.environ.get("KILL_AT"):
        os.kill(os.getpid(), signal.SIGKILL)


def run(role: str, folder: Path) -> None:
    """Run a service until it is stopped."""
    survey = Document.load(folder / "survey.json")
    place = Path(os.environ.get("STORE") or folder / f"{role}.db")
    store = opened(os.environ.get("STORE") or str(place), wait=5)
    if "LD_PRELOAD" in os.environ:
        _fill_disk_by_signal(place.parent)
    if role == "shuffler":
        port = int(survey.addresses.shuffler.rpartition(":")[2])
        settings = ShufflerSettings.load(
            **{"token": TOKEN, "body_seconds": 1.0, "rate": 1e9, "burst": 10**9, "port": port}
            | json.loads(os.environ.get("SETTINGS", "{}"))
        )
        closes_with = int(os.environ.get("CLOSES_WITH", "0")) or None
        made = Shuffler(store, reached=reached)
        made.register(survey, closes_with=closes_with)
        serve(shuffler_app(made, settings, clock=time.monotonic, seconds=0.1), settings)
    else:
        port = int(survey.addresses.analyzer.rpartition(":")[2])
        analysis = AnalyzerSettings.load(
            **{"token": TOKEN, "results_token": RESULTS_TOKEN, "port": port}
            | json.loads(os.environ.get("SETTINGS", "{}"))
        )
        found = Analyzer(store, keys.private_key(folder, None), reached=reached)
        found.register(survey)
        serve(analyzer_app(found, analysis), analysis)


def _fill_disk_by_signal(folder: Path) -> None:
    """After SIGUSR1, the disk of the folder is full from the n-th write on, where n is FULL_AT.
    After SIGUSR2, it has room again.
    """
    shim: Any = ctypes.CDLL(None)
    where, nowhere = os.path.realpath(folder).encode(), os.open(os.devnull, os.O_WRONLY)

    def fault(at: int) -> None:
        shim.fault_at(ctypes.c_long(at), errno.ENOSPC, 0, 1, where, nowhere)

    signal.signal(signal.SIGUSR1, lambda *_: fault(int(os.environ.get("FULL_AT", "1"))))
    signal.signal(signal.SIGUSR2, lambda *_: fault(0))


def forked(role: str, folder: Path, environment: dict[str, str]) -> int:
    """Fork a service. It writes to its log."""
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        log = os.open(folder / f"{role}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, end in enumerate((nothing, log, log)):
            os.dup2(end, number)
        os.environ.update(environment)
        run(role, folder)
        status = 0
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(status)


def main() -> None:
    ended: dict[int, int] = {}
    for line in sys.stdin:
        request = json.loads(line)
        answer: int | None
        if "role" in request:
            answer = forked(request["role"], Path(request["folder"]), request["environment"])
        else:
            process = request["process"]
            if process not in ended:
                found, status = os.waitpid(process, os.WNOHANG)
                if found:
                    ended[process] = os.waitstatus_to_exitcode(status)
            answer = ended.get(process)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
