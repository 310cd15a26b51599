"""Random lives of a survey: people answer, repeat, and come late; the clock moves; processes end.

The model keeps what must be true: who was accepted, and whether the survey is open.
"""

import atexit
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import headcount as hc
from collection import analyzer, distinct, shuffler
from headcount.collect.client import response
from headcount.collect.document import Document
from headcount.collect.refusals import Closed, Conflict, TooFewPeople
from headcount.collect.shuffler import Sent
from test_collection import handed_to

PEOPLE, LEAST = 6, 3
FOLDER = Path(tempfile.mkdtemp(prefix="headcount-life-"))
SURVEY: Document = distinct(FOLDER, PEOPLE)
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
BODIES = [response(SURVEY, {"who": str(number)}, hc.SecureSource()) for number in range(PEOPLE)]


class Life(RuleBasedStateMachine):
    """The life of one survey in one folder."""

    @initialize()
    def begin(self) -> None:
        self.kept = tempfile.TemporaryDirectory(dir=FOLDER)
        self.folder = Path(self.kept.name)
        for name in ("key.json", "private.pem"):
            (self.folder / name).write_bytes((FOLDER / name).read_bytes())
        self.now = 0.0
        self.accepted: set[int] = set()
        self.state = "open"
        self.counted = False
        self.batch: Any = None
        self.start()
        self.one.register(SURVEY, closes_at=100.0)
        self.other.register(SURVEY)

    def start(self) -> None:
        self.one = shuffler(self.folder, clock=lambda: self.now)
        self.other = analyzer(self.folder)

    @rule()
    def restart(self) -> None:
        """A process that ends keeps nothing but its files."""
        self.one.store.close()
        self.start()

    @rule(people=st.lists(st.integers(0, PEOPLE - 1), min_size=1, max_size=4))
    def answer(self, people: list[int]) -> None:
        outcomes = self.one.accept([Sent(SURVEY.digest, BODIES[number]) for number in people])
        for number, outcome in zip(people, outcomes, strict=True):
            if self.state != "open":
                assert isinstance(outcome, Closed)
            else:
                assert outcome == ("seen before" if number in self.accepted else "stored")
                self.accepted.add(number)

    @rule(seconds=st.sampled_from([1.0, 60.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        due = self.state == "open" and self.now >= 100
        assert self.one.due() == ([SURVEY.digest] if due else [])
        few = len(self.accepted) < PEOPLE
        assert self.one.status(SURVEY.digest).overdue == (due and few)

    @rule()
    def close(self) -> None:
        try:
            name = self.one.close(SURVEY.digest)
        except TooFewPeople:
            assert self.state == "open"
            assert len(self.accepted) < PEOPLE
            return
        except Closed:
            assert self.state == "destroyed"
            return
        assert len(self.accepted) == PEOPLE
        self.state = "closed" if self.state == "open" else self.state
        assert self.batch in (None, name)
        self.batch = name

    @precondition(lambda self: self.state == "open" and len(self.accepted) > LEAST)
    @rule()
    def destroy(self) -> None:
        self.one.destroy(SURVEY.digest)
        self.state = "destroyed"

    @rule()
    def forward(self) -> None:
        try:
            self.one.forward(SURVEY.digest, handed_to(self.other))
        except Conflict:
            assert self.state != "closed"
            return
        assert self.state == "closed"
        self.state = "forwarded"

    @rule()
    def count(self) -> None:
        self.other.count(SURVEY.digest)
        if self.state == "forwarded":
            self.counted = True
            with self.other.store.reading() as run:
                tally = json.loads(run("SELECT tallies FROM analyses")[0][0])["who"]
            assert tally == [1] * PEOPLE

    @invariant()
    def the_store_agrees(self) -> None:
        if hasattr(self, "one"):
            status = self.one.status(SURVEY.digest)
            assert (status.state, status.responses) == (self.state, len(self.accepted))

    def teardown(self) -> None:
        if hasattr(self, "one"):
            self.one.store.close()
            self.other.store.close()
            self.kept.cleanup()


Life.TestCase.settings = settings(
    max_examples=10, stateful_step_count=25, deadline=None, derandomize=True
)
TestLife = Life.TestCase
