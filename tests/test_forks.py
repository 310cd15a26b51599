"""Processes that are forked while threads are at work must not inherit a locked lock."""

import os
import signal
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

import headcount as hc

CHILDREN = 12
pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


def calibrated() -> None:
    """Several properties that take a moment to compute, of new objects."""
    drawn = float(np.random.default_rng().uniform(1e-7, 1e-6))
    protocol = hc.protocol("shuffle.correlated", hc.Count(), hc.Budget(1, drawn), hc.Crowd(50))
    assert protocol.guarantee.delta <= drawn


def finished(work: Callable[[], object]) -> int:
    """How many forked children end by themselves, if they are forked while threads do the same
    work.
    """
    work()  # load now what is loaded at the first use
    done = threading.Event()

    def again() -> None:
        while not done.is_set():
            work()

    threads = [threading.Thread(target=again) for _ in range(3)]
    for thread in threads:
        thread.start()
    children = []
    try:
        for _ in range(CHILDREN):
            time.sleep(0.02)
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    work()
                    status = 0
                finally:
                    os._exit(status)
            children.append(child)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    return sum(ended(child) for child in children)


def ended(child: int, seconds: float = 30.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def test_children_calibrate_while_threads_do() -> None:
    assert finished(calibrated) == CHILDREN


def test_children_draw_from_a_seeded_source_that_threads_use() -> None:
    source = hc.SeededSource(1)
    assert finished(lambda: source.integers(2**20, np.uint64)) == CHILDREN


def test_a_child_goes_on_where_its_parent_was() -> None:
    source, same = hc.SeededSource(1), hc.SeededSource(1)
    same.integers(10, np.uint64)
    source.integers(10, np.uint64)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, source.integers(10, np.uint64).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    said = os.read(reader, 80)
    os.close(reader)
    os.close(writer)
    assert (
        said == same.integers(10, np.uint64).tobytes() == source.integers(10, np.uint64).tobytes()
    )


def test_threads_that_ask_at_once_get_one_value() -> None:
    protocol = hc.protocol("shuffle.correlated", hc.Count(), hc.Budget(1, 1e-6), hc.Crowd(50))
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(protocol.curve)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(curve) for curve in found}) == 1
