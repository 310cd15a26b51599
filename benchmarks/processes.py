"""Measurements that need a new Python process: whole programs, first calls, and peak memory."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.stopwatch import Contender


@contextmanager
def program(*words: str) -> Iterator[Contender]:
    """Calls of Python with these words. They share a cache of plans, which is empty at first."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "HEADCOUNT_CACHE": folder}
        command = [sys.executable, *words]
        yield partial(subprocess.run, command, check=True, env=environment, capture_output=True)


def in_new_process(function: Callable[..., float], *arguments: str | int) -> float:
    """The result of a function of a module, called in a new process."""
    called = f"{function.__name__}({', '.join(map(repr, arguments))})"
    code = f"from {function.__module__} import {function.__name__}; print({called})"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(json.loads(found.stdout))


def peak() -> int:
    """The peak memory of this process in bytes."""
    # `getrusage` may report the peak of the process that started this one.
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
