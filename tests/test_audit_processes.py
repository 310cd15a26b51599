"""An audit in several processes leaves none behind, and runs where no process may be started."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import headcount as hc

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
# Each side is one long request, so the processes do not look at their pipes meanwhile.
PROGRAM = """
import os, sys, time
import headcount as hc

def slow(data):
    with open(sys.argv[1], "a") as file:
        file.write(f"{os.getpid()}\\n")
    time.sleep(0.05)
    return 1

hc.audit(slow, [([0], [1])], claim=1.0, runs=100_000, parallel=True)
"""


def runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc here")
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_no_process_outlives_the_program(tmp_path: Path, end: signal.Signals) -> None:
    noted = tmp_path / "processes.txt"
    noted.touch()
    sides: set[int] = set()
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(noted)]) as program:
        until = time.monotonic() + 60
        while len(sides) < 2 and time.monotonic() < until:
            time.sleep(0.05)
            sides = {int(line) for line in noted.read_text().split()}
        program.send_signal(end)
    assert len(sides) == 2
    until = time.monotonic() + 10
    while any(map(runs, sides)) and time.monotonic() < until:
        time.sleep(0.05)
    left = [side for side in sides if runs(side)]
    for side in left:
        os.kill(side, signal.SIGKILL)
    assert not left


def coin(data: list[int]) -> int:
    return data[0]


def audited(number: int) -> float:
    return hc.audit(coin, [([0], [1])], claim=1.0, runs=2_000, parallel=True).epsilon


def test_an_audit_in_a_pool_runs_in_the_process_of_the_pool() -> None:
    with multiprocessing.get_context("fork").Pool(1) as pool:
        (found,) = pool.map(audited, range(1))
    assert found > 1
