"""The code follows the road that docs/architecture.md draws."""

import re
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

import headcount as hc
from commands import Headcount
from headcount.road.ways import Way

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src" / "headcount"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
STOP = re.compile(r"^    (\S+\.py)\s+(\S+)", re.MULTILINE)


def drawn() -> list[tuple[str, str]]:
    """The stops in the drawing: files and functions, in order."""
    drawing = PAGE.partition("## The road")[2].partition("\n## ")[0]
    return STOP.findall(drawing)


class Trace:
    """The functions of Headcount that were called, and the protocols that were built."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.built: list[tuple[Any, ...]] = []

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(str(SOURCES)):
            return
        file = str(Path(code.co_filename).relative_to(SOURCES))
        self.calls.append((file, code.co_qualname))
        if (file, code.co_qualname) == ("core/protocol.py", "Protocol.__post_init__"):
            made = frame.f_locals["self"]
            settings = tuple(getattr(made, field.name) for field in fields(made))
            self.built.append((made.name, *settings))


@contextmanager
def traced() -> Iterator[Trace]:
    trace = Trace()
    before, of_threads = sys.getprofile(), threading.getprofile()
    sys.setprofile(trace)
    threading.setprofile(trace)
    try:
        yield trace
    finally:
        sys.setprofile(before)
        threading.setprofile(of_threads)


@pytest.fixture
def people(tmp_path: Path) -> Path:
    smokes = np.arange(1000) % 3 == 0
    parquet.write_table(pyarrow.table({"smokes": smokes}), tmp_path / "people.parquet")
    ledger = hc.Ledger.create(tmp_path / "spent.db")
    ledger.create_dataset("people", hc.Budget(5, 1e-3))
    return tmp_path


@pytest.mark.parametrize("named", [("--protocol", "shuffle.zero-exact"), ("--trust", "shuffle")])
def test_the_command_walks_the_road_as_drawn(
    headcount: Headcount, people: Path, named: tuple[str, str]
) -> None:
    stops = drawn()
    assert len(stops) > 8
    place, spent = people / "people.parquet", people / "spent.db"
    asked = [str(place), "--column", "smokes", "--epsilon", "1", "--delta", "1e-4", *named]
    with traced() as trace:
        done = headcount("estimate", *asked, "--ledger", str(spent), "--json")
    assert done.status == 0, done
    missing = [stop for stop in stops if stop not in trace.calls]
    assert not missing
    first = [trace.calls.index(stop) for stop in stops]
    assert first == sorted(first)
    times = Counter(trace.calls)
    assert {stop: times[stop] for stop in stops} == dict.fromkeys(stops, 1)
    twice = [one for one, number in Counter(map(repr, trace.built)).items() if number > 1]
    assert not twice
    if named[0] == "--protocol":
        assert len(trace.built) == 1


def test_the_command_says_how_the_tally_was_made(headcount: Headcount, people: Path) -> None:
    place = str(people / "people.parquet")
    for trust, way in (("central", Way.COUNTED), ("local", Way.FROM_COUNTS)):
        done = headcount(
            "estimate", place, "--column", "smokes", "--epsilon", "1", "--trust", trust
        )
        assert f"how: {way.words}" in done.out.splitlines()


def test_run_walks_the_same_road() -> None:
    protocol = hc.protocol("shuffle.zero-exact", hc.Count(), hc.Budget(1, 1e-4), hc.Crowd(1000))
    with traced() as trace:
        found = hc.run(protocol, np.arange(1000) % 2)
    assert ("road/road.py", "walk") in trace.calls
    assert ("road/shuffler.py", "shuffle") in trace.calls
    assert found.way == Way.MESSAGES.words


@pytest.mark.parametrize(
    ("trust", "task", "values", "way"),
    [
        ("central", hc.Count(), [0, 1] * 50, Way.COUNTED),
        ("central", hc.Mean(0, 1), [0.5, 0.7] * 50, Way.MESSAGES),
        ("local", hc.Count(), [0, 1] * 50, Way.FROM_COUNTS),
        ("shuffle", hc.Count(), [0, 1] * 50, Way.FROM_COUNTS),
        ("shuffle", hc.Mean(0, 1), [0.5, 0.7] * 50, Way.MESSAGES),
    ],
)
def test_the_way_is_part_of_the_result(trust: str, task: hc.Task, values: Any, way: Way) -> None:
    found = hc.estimate(values, task, budget=hc.Budget(1, 1e-3), trust=trust)
    assert isinstance(found, hc.Estimate)
    assert found.way == way.words
    assert found.to_dict()["way"] == way.words
