"""Random lives of two surveys on the same services: people answer, repeat, and come late; the clock
moves; operators extend, close and destroy; processes crash at any step.

The model keeps what must be true: who was accepted, and where each survey stands.
"""

import atexit
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import headcount as hc
from collection import analyzer, distinct, shuffler
from headcount.collect.client import response
from headcount.collect.document import Document
from headcount.collect.refusals import Closed, Conflict, TooFewPeople
from headcount.collect.shuffler import Sent
from test_collection import ANALYZER_STEPS, SHUFFLER_STEPS, handed_to

PEOPLE = 4
FOLDER = Path(tempfile.mkdtemp(prefix="headcount-life-"))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
SURVEYS: tuple[Document, ...] = (
    distinct(FOLDER, PEOPLE),
    distinct(FOLDER, PEOPLE, admission="codes"),
)
BODIES = {
    survey.digest: [response(survey, {"who": str(one)}, hc.SecureSource()) for one in range(PEOPLE)]
    for survey in SURVEYS
}
CLOSES = 100.0
# After these steps, the store of the shuffler or of the analyzer has changed.
STORED = {"committed, not answered", "closed", "forwarded", "counted"}
RECEIVED = {"received", "sent, not recorded", "forwarded"}
SEEN: Counter[str] = Counter()  # what happened in all lives together


class Died(BaseException):
    """A process that ends at a step without warning."""


@dataclass
class Model:
    """What must be true of one survey."""

    survey: Document
    codes: list[str | None]
    closes_at: float | None = CLOSES
    accepted: set[int] = field(default_factory=set)
    state: str = "open"
    batch: str | None = None
    received: bool = False
    counted: bool = False

    def due(self, now: float) -> bool:
        return self.state == "open" and self.closes_at is not None and now >= self.closes_at


WHICH = st.integers(0, len(SURVEYS) - 1)


class Life(RuleBasedStateMachine):
    """The life of two surveys in one folder."""

    @initialize()
    def begin(self) -> None:
        self.kept = tempfile.TemporaryDirectory(dir=FOLDER)
        self.folder = Path(self.kept.name)
        for name in ("key.json", "private.pem"):
            (self.folder / name).write_bytes((FOLDER / name).read_bytes())
        self.now, self.dies_at = 0.0, ""
        self.start()
        for survey in SURVEYS:
            self.one.register(survey, closes_at=CLOSES)
            self.other.register(survey)
        codes = self.one.new_codes(SURVEYS[1].digest, PEOPLE)
        self.models = [Model(SURVEYS[0], [None] * PEOPLE), Model(SURVEYS[1], [*codes])]

    def start(self) -> None:
        self.one = shuffler(self.folder, clock=lambda: self.now, reached=self.reached)
        self.other = analyzer(self.folder, reached=self.reached)

    def reached(self, step: str) -> None:
        if step == self.dies_at:
            self.dies_at = ""
            raise Died(step)

    def tried(self, action: Callable[[], Any]) -> tuple[Any, str]:
        """The outcome of an action, and the step at which the process died, if it did."""
        try:
            return action(), ""
        except Died as died:
            SEEN[f"died: {died}"] += 1
            self.restart()
            return None, str(died)

    @rule()
    def restart(self) -> None:
        """A process that ends keeps nothing but its files."""
        self.one.store.close()
        self.other.store.close()
        self.start()

    @rule(which=WHICH, people=st.lists(st.integers(0, PEOPLE - 1), min_size=1, max_size=4))
    def answer(self, which: int, people: list[int]) -> None:
        model = self.models[which]
        digest = model.survey.digest
        sent = [Sent(digest, BODIES[digest][one], model.codes[one]) for one in people]
        outcomes, died = self.tried(lambda: self.one.accept(sent))
        if died:
            if died in STORED and model.state == "open":
                model.accepted |= set(people)
            return
        for number, outcome in zip(people, outcomes, strict=True):
            if model.state != "open":
                SEEN["late"] += 1
                assert isinstance(outcome, Closed)
            else:
                assert outcome == ("seen before" if number in model.accepted else "stored")
                SEEN[outcome] += 1
                model.accepted.add(number)

    @rule(seconds=st.sampled_from([1.0, 60.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        due = {one.survey.digest for one in self.models if one.due(self.now)}
        assert set(self.one.due()) == due
        for model in self.models:
            overdue = model.due(self.now) and len(model.accepted) < PEOPLE
            assert self.one.status(model.survey.digest).overdue == overdue
            SEEN["overdue"] += overdue

    @rule(which=WHICH, more=st.sampled_from([None, 50.0]))
    def extend(self, which: int, more: float | None) -> None:
        model = self.models[which]
        closes_at = None if more is None else self.now + more
        try:
            self.one.extend(model.survey.digest, closes_at)
        except Closed:
            assert model.state != "open"
            return
        assert model.state == "open"
        SEEN["extended"] += 1
        model.closes_at = closes_at

    @rule(which=WHICH)
    def close(self, which: int) -> None:
        model = self.models[which]
        try:
            name, died = self.tried(lambda: self.one.close(model.survey.digest))
        except TooFewPeople:
            SEEN["too few"] += 1
            assert model.state == "open"
            assert len(model.accepted) < PEOPLE
            return
        except Closed:
            assert model.state == "destroyed"
            return
        if died and died not in STORED:
            return
        assert len(model.accepted) == PEOPLE
        model.state = "closed" if model.state == "open" else model.state
        assert died or model.batch in (None, name)
        model.batch = name or model.batch

    @precondition(lambda self: self.now > CLOSES)  # otherwise, few surveys live on
    @rule(which=WHICH)
    def destroy(self, which: int) -> None:
        model = self.models[which]
        try:
            self.one.destroy(model.survey.digest)
        except Closed:
            assert model.state != "open"
            return
        assert model.state == "open"
        SEEN["destroyed"] += 1
        model.state = "destroyed"

    @rule(which=WHICH)
    def forward(self, which: int) -> None:
        model = self.models[which]
        digest = model.survey.digest
        try:
            _, died = self.tried(lambda: self.one.forward(digest, handed_to(self.other)))
        except Conflict:
            assert model.state != "closed"
            return
        assert model.state == "closed"
        model.received = model.received or not died or died in RECEIVED
        if not died or died in STORED:
            model.state = "forwarded"

    @rule(which=WHICH)
    def count(self, which: int) -> None:
        model = self.models[which]
        _, died = self.tried(lambda: self.other.count(model.survey.digest))
        if model.received and (not died or died in STORED):
            model.counted = True

    @rule(which=WHICH, dies=st.integers(0, 6))
    def advance(self, which: int, dies: int) -> None:
        """Go on as operators do. The process dies at one of the steps on the way, or at none."""
        model = self.models[which]
        steps, action = {
            "open": (SHUFFLER_STEPS[3:8], self.close),
            "closed": (SHUFFLER_STEPS[8:] + ANALYZER_STEPS[:3], self.forward),
        }.get(model.state, (ANALYZER_STEPS[3:], self.count))
        if model.state == "open" and len(model.accepted) < PEOPLE:
            steps, action = SHUFFLER_STEPS[:3], self.everybody_answers
        self.dies_at = dict(enumerate(steps)).get(dies, "")
        action(which)
        self.dies_at = ""

    def everybody_answers(self, which: int) -> None:
        self.answer(which, list(range(PEOPLE)))

    @invariant()
    def the_stores_agree(self) -> None:
        if not hasattr(self, "models"):
            return
        for model in self.models:
            status = self.one.status(model.survey.digest)
            assert (status.state, status.responses) == (model.state, len(model.accepted))
            with self.other.store.reading() as run:
                found = run("SELECT batch, tallies FROM analyses WHERE digest = ?",
                            model.survey.digest)  # fmt: skip
            batch, tallies = found[0]
            assert (batch is not None) == model.received
            assert (tallies is not None) == model.counted
            if model.counted:
                SEEN["counted"] += 1
                assert json.loads(tallies)["who"] == [1] * PEOPLE
        SEEN["both counted"] += all(one.counted for one in self.models)

    def teardown(self) -> None:
        if hasattr(self, "models"):
            self.one.store.close()
            self.other.store.close()
            self.kept.cleanup()


EVENTS = ("late", "stored", "seen before", "overdue", "extended", "too few", "destroyed", "counted",
          "both counted")  # fmt: skip


def test_some_lives() -> None:
    run_state_machine_as_test(
        Life,
        settings=settings(max_examples=8, stateful_step_count=25, deadline=None, derandomize=True),
    )


@pytest.mark.slow
def test_many_lives() -> None:
    """Everything happens in some life: each event, and a crash at each step."""
    SEEN.clear()
    run_state_machine_as_test(
        Life,
        settings=settings(
            max_examples=200, stateful_step_count=40, deadline=None, derandomize=True
        ),
    )
    steps = {f"died: {step}" for step in (*SHUFFLER_STEPS, *ANALYZER_STEPS)}
    missing = {*EVENTS, *steps} - {name for name, count in SEEN.items() if count}
    assert not missing
