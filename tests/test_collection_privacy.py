"""The analyzer's view of real rounds, audited against the joint guarantee of the survey.

A round is run as the service runs it: people seal, the shuffler stores, closes and hands over, and
the analyzer opens. Only the network is left out. Each broken shuffler or device must be refuted.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headcount as hc
from collection import document
from headcount.collect import keys
from headcount.collect.batch import SealedBatch
from headcount.collect.client import response
from headcount.collect.document import Document
from headcount.collect.shuffler import Sent, Shuffler
from headcount.collect.store import opened

pytestmark = pytest.mark.slow
SOURCE = hc.SeededSource(5)
Answers = list[dict[str, int]]
PAIR = ([{"a": 0, "b": 0}, {"a": 0, "b": 1}], [{"a": 1, "b": 1}, {"a": 0, "b": 1}])


@pytest.fixture(autouse=True)
def fixed_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test draws the same bits, whatever ran before it."""
    monkeypatch.setitem(globals(), "SOURCE", hc.SeededSource(5))


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> tuple[Document, Any]:
    """Two questions to two people, with a small guarantee that few runs can refute."""
    folder = tmp_path_factory.mktemp("privacy")
    made = hc.protocol("shuffle.noisy-shuffler", hc.Count(), hc.Budget(0.7, 0.05), hc.Crowd(2))
    found = document(folder, {"a": made, "b": made}, least_people=2)
    return found, keys.private_key(folder, None)


def opened_contents(survey: Document, key: Any, batch: SealedBatch) -> list[tuple[int, int]]:
    """The messages in the order in which the analyzer gets them: (release, bit)."""
    sizes, envelope, size = survey.payload_sizes, survey.envelope, batch.size
    contents = (
        envelope.open(key, batch.messages[at : at + size], sizes)
        for at in range(0, len(batch.messages), size)
    )
    return [(release, payload[0] if payload else 2) for release, payload in contents]


def round_of(survey: Document, answers: Answers, *, closings: int = 1) -> list[SealedBatch]:
    """One round in the memory of this process. A broken shuffler may mix the same answers twice."""
    one = Shuffler(opened(":memory:"), source=SOURCE)
    one.register(survey)
    bodies = [response(survey, person, SOURCE) for person in answers]
    one.accept([Sent(survey.digest, body) for body in bodies])
    if closings == 1:
        one.close(survey.digest)
        found = [one.batch(survey.digest)[1]]
    else:
        found = [one.mixed(survey, bodies, len(answers)) for _ in range(closings)]
    one.store.close()
    return found


def counts(contents: list[tuple[int, int]]) -> tuple[int, ...]:
    """How many ones each release has. The order of a mixed batch carries no information."""
    return tuple(contents.count((release, 1)) for release in range(2))


def refuted(survey: Document, mechanism: Callable[[Answers], Any], runs: int) -> bool:
    promise = survey.guarantee
    found = hc.audit(mechanism, [PAIR], claim=promise.epsilon, delta=promise.delta, runs=runs)
    return found.refuted


def test_the_analyzers_view_is_as_private_as_the_document_says(
    survey: tuple[Document, Any],
) -> None:
    found, key = survey

    def view(answers: Answers) -> tuple[int, ...]:
        return counts(opened_contents(found, key, round_of(found, answers)[0]))

    assert not refuted(found, view, 1000)


def test_the_order_of_a_batch_says_nothing(survey: tuple[Document, Any]) -> None:
    found, key = survey

    def first(answers: Answers) -> tuple[int, int]:
        return opened_contents(found, key, round_of(found, answers)[0])[0]

    assert not refuted(found, first, 1000)


def test_an_analyzer_that_sees_the_order_is_refuted(survey: tuple[Document, Any]) -> None:
    """Without the shuffle, the messages of the first person come first."""
    found, key = survey

    def unmixed(answers: Answers) -> list[tuple[int, int]]:
        body = response(found, answers[0], SOURCE)
        return sorted(opened_contents(found, key, SealedBatch(1, found.envelope.size, body)))

    assert refuted(found, lambda answers: str(unmixed(answers)), 1000)


def test_missing_noise_is_refuted(survey: tuple[Document, Any]) -> None:
    """The shuffler forgets its dummies."""
    found, key = survey

    def silent(answers: Answers) -> tuple[int, ...]:
        bodies = b"".join(response(found, person, SOURCE) for person in answers)
        batch = SealedBatch(len(answers), found.envelope.size, bodies)
        return counts(opened_contents(found, key, batch))

    assert refuted(found, silent, 1000)


def test_linked_responses_are_refuted(survey: tuple[Document, Any]) -> None:
    """Somebody sees which two messages are from one person."""
    found, key = survey

    def linked(answers: Answers) -> str:
        pairs = []
        for person in answers:
            batch = SealedBatch(1, found.envelope.size, response(found, person, SOURCE))
            pairs.append(tuple(sorted(opened_contents(found, key, batch))))
        return str(sorted(pairs))

    assert refuted(found, linked, 1000)


def test_unfilled_slots_are_refuted(tmp_path: Path) -> None:
    """Devices that do not fill up their bundles show how many messages they send."""
    made = hc.protocol("shuffle.zero-exact", hc.Count(), hc.Budget(1, 0.05), hc.Crowd(12))
    found = document(tmp_path, {"a": made}, least_people=12)
    key = keys.private_key(tmp_path, None)
    promise = found.guarantee

    def sent(value: int) -> int:
        batch = SealedBatch(1, found.envelope.size, response(found, {"a": value}, SOURCE))
        return sum(bit != 2 for _, bit in opened_contents(found, key, batch))

    done = hc.audit(sent, [(0, 1)], claim=promise.epsilon, delta=promise.delta, runs=1000)
    assert done.refuted
    sizes = {len(response(found, {"a": value}, SOURCE)) for value in (0, 1) for _ in range(20)}
    assert len(sizes) == 1


def test_noise_that_is_drawn_twice_is_refuted(survey: tuple[Document, Any]) -> None:
    """The same answers with fresh noise: the mean of many closings shows the answers."""
    found, key = survey

    def again(answers: Answers) -> int:
        views = [
            counts(opened_contents(found, key, batch))
            for batch in round_of(found, answers, closings=8)
        ]
        return int(np.sum(views))

    assert refuted(found, again, 1000)
