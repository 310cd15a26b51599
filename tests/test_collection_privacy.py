"""The analyzer's view of whole rounds, audited against the joint guarantee of the survey.

A round is run as the service runs it: people randomize and fill up their responses, the shuffler
stores, closes and mixes them, and hands the batch over. Only the network is left out. In most
rounds, messages are not encrypted, which takes a tenth of the time. Each broken shuffler or device
must be refuted. All random bits have fixed seeds.
"""

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

import headcount as hc
from collection import contents_of, document
from headcount.collect import keys
from headcount.collect.batch import SealedBatch
from headcount.collect.client import response
from headcount.collect.document import Document
from headcount.collect.sealing import Content, Envelope
from headcount.collect.shuffler import Sent, Shuffler
from headcount.collect.store import opened
from headcount.randomness.draws import permutation
from headcount.survey.response import Response

pytestmark = pytest.mark.slow
Answers = list[dict[str, int]]
Code = int  # a message: three times its release, and 0, 1, or 2 for a dummy
RUNS = 40_000


class Subject(NamedTuple):
    """A survey of two yes-no questions, the analyzer's key, and neighboring answers."""

    survey: Document
    key: X25519PrivateKey
    pairs: list[tuple[Answers, Answers]]

    @property
    def worst(self) -> tuple[Answers, Answers]:
        """The pair in which a person changes both answers from no to yes."""
        return self.pairs[2]


def made(factory: pytest.TempPathFactory, name: str, budget: hc.Budget, people: int) -> Subject:
    folder = factory.mktemp("privacy")
    protocol = hc.protocol(name, hc.Count(), budget, hc.Crowd(people))
    survey = document(folder, {"a": protocol, "b": protocol}, least_people=people)
    # One person changes both answers, or one of them. The others only shift the law of the counts.
    others = [{"a": 0, "b": number % 2} for number in range(people - 1)]
    own = [{"a": one, "b": other} for one, other in itertools.product((0, 1), repeat=2)]
    pairs = [
        ([one, *others], [another, *others]) for one, another in itertools.combinations(own, 2)
    ]
    return Subject(survey, keys.private_key(folder, None), pairs)


@pytest.fixture(scope="module")
def shufflers_noise(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    """The shuffler adds the noise."""
    return made(tmp_path_factory, "shuffle.noisy-shuffler", hc.Budget(0.7, 0.05), 2)


@pytest.fixture(scope="module")
def peoples_noise(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    """People add the noise. Their responses are filled up with dummies."""
    return made(tmp_path_factory, "shuffle.zero-exact", hc.Budget(1.5, 0.05), 5)


@pytest.fixture(params=["shufflers_noise", "peoples_noise"])
def subject(request: pytest.FixtureRequest) -> Subject:
    found: Subject = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def source() -> hc.SeededSource:
    return hc.SeededSource(5)


@pytest.fixture
def unsealed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages are followed by random bytes, but not encrypted."""
    chosen = random.Random(5)

    def seal(self: Envelope, key: X25519PublicKey, release: int, payload: bytes | None) -> bytes:
        return self.packed(release, payload) + chosen.randbytes(self.size - self.content)

    def open_it(
        self: Envelope, key: X25519PrivateKey, sealed: bytes, sizes: tuple[int, ...]
    ) -> Content:
        return self.unpacked(sealed[: self.content], sizes)

    monkeypatch.setattr(Envelope, "seal", seal)
    monkeypatch.setattr(Envelope, "open", open_it)


class Rounds:
    """Rounds of a survey, one after another, each with its own noise and order."""

    def __init__(self, of: Subject, source: hc.SeededSource, kind: type[Shuffler] = Shuffler):
        self._of, self._source, self._kind = of, source, kind
        self._one = kind(opened(":memory:"), source=source)

    def bodies(self, answers: Answers) -> list[bytes]:
        return [response(self._of.survey, person, self._source) for person in answers]

    def mixed(self, bodies: list[bytes]) -> list[Code]:
        """The messages in the order in which the analyzer gets them, from memory."""
        return codes(self._of, self._one.mixed(self._of.survey, bodies, len(bodies)).messages)

    def stored(self, bodies: list[bytes]) -> list[Code]:
        """The same, from a shuffler that stores the responses, closes the survey and hands over."""
        one, survey = self._kind(opened(":memory:"), source=self._source), self._of.survey
        one.register(survey)
        assert set(one.accept([Sent(survey.digest, body) for body in bodies])) == {"stored"}
        one.close(survey.digest)
        batch = one.batch(survey.digest)[1]
        one.store.close()
        return codes(self._of, batch.messages)

    def __call__(self, answers: Answers) -> list[Code]:
        return self.mixed(self.bodies(answers))


def codes(of: Subject, messages: bytes) -> list[Code]:
    contents = contents_of(of.survey, of.key, messages)
    return [3 * release + (2 if payload is None else payload[0]) for release, payload in contents]


def counts(messages: list[Code]) -> tuple[int, ...]:
    """How often each message came. If all orders are equally likely, the order adds nothing."""
    return tuple(messages.count(code) for code in range(6))


def audited(
    of: Subject,
    view: Callable[[Answers], Any],
    runs: int = RUNS,
    pairs: list[tuple[Answers, Answers]] | None = None,
) -> hc.Audit:
    promise = of.survey.guarantee
    return hc.audit(view, pairs or of.pairs, claim=promise.epsilon, delta=promise.delta, runs=runs)


# Sound rounds -------------------------------------------------------------------------------------


def test_the_analyzers_view_is_as_private_as_the_document_says(
    shufflers_noise: Subject, source: hc.SeededSource, unsealed: None
) -> None:
    """These runs would refute a guarantee of 0.85 times the ε that the document states. They find
    any randomized response whose ε is larger than stated by 0.1, with a probability of 0.9.

    Here is why this many runs find it. Half of them are in the last round: n = 20,000 on each
    side. Let s = √(q(1−q)/n) be the standard error of the chance q = (1 − δ)/(1 + e^ε) of a lie.
    The audit sees a chance that is too large by up to 1.65 s (with a probability of 0.9), and adds
    3.02 s for a confidence of 0.99 over all rounds. A chance that is larger by x lowers the ε that
    it shows by about (1/q + 1/(1 − q − δ))x. With ε = 1.4 and δ = 0.09, q = 0.18 and s = 0.0027. So
    ε is lowered by about 6.9 · 4.67 s = 0.088.
    """
    of, rounds = shufflers_noise, Rounds(shufflers_noise, source)
    found = audited(of, lambda answers: counts(rounds(answers)))
    assert not found.refuted
    assert found.epsilon > 0.85 * of.survey.guarantee.epsilon
    assert found.smallest_seen is not None
    assert found.smallest_seen < of.survey.guarantee.epsilon + 0.1


def test_the_view_of_peoples_noise_is_as_private_as_the_document_says(
    peoples_noise: Subject, source: hc.SeededSource, unsealed: None
) -> None:
    """These runs find any randomized response whose ε is larger than stated by 0.5."""
    of, rounds = peoples_noise, Rounds(peoples_noise, source)
    found = audited(of, lambda answers: counts(rounds(answers)), 6000, [of.worst])
    assert not found.refuted
    assert found.smallest_seen is not None
    assert found.smallest_seen < of.survey.guarantee.epsilon + 0.5


def test_the_order_of_a_batch_says_nothing(
    shufflers_noise: Subject, source: hc.SeededSource, unsealed: None
) -> None:
    of, rounds = shufflers_noise, Rounds(shufflers_noise, source)

    def ends(answers: Answers) -> tuple[int, ...]:
        messages = rounds(answers)
        return (*messages[:2], *messages[-2:])

    found = audited(of, ends, 6000, [of.worst])
    assert not found.refuted


def test_rounds_that_are_stored_and_sealed_are_as_private(
    shufflers_noise: Subject, source: hc.SeededSource
) -> None:
    """As above, with a store and encryption, and fewer runs."""
    of, rounds = shufflers_noise, Rounds(shufflers_noise, source)
    found = audited(
        of, lambda answers: counts(rounds.stored(rounds.bodies(answers))), 1500, [of.worst]
    )
    assert not found.refuted
    assert found.epsilon > 0.5 * of.survey.guarantee.epsilon


# Broken rounds ------------------------------------------------------------------------------------


class Unmixed(Shuffler):
    """It hands messages over in the order of arrival, and its noise after them."""

    def mixed(self, document: Document, bodies: list[bytes], people: int) -> SealedBatch:
        noise, _ = self._noise(document, people)
        return SealedBatch(people, document.envelope.size, b"".join([*bodies, *noise]))


class Linking(Shuffler):
    """It permutes responses, but leaves the messages of a person together."""

    def mixed(self, document: Document, bodies: list[bytes], people: int) -> SealedBatch:
        noise, _ = self._noise(document, people)
        pieces = [*bodies, *noise]
        order = permutation(self._source, len(pieces))
        return SealedBatch(
            people, document.envelope.size, b"".join(pieces[place] for place in order)
        )


class Silent(Shuffler):
    """It forgets its noise."""

    def _noise(self, document: Document, people: int) -> tuple[list[bytes], bool]:
        return [], False


def test_an_analyzer_that_sees_the_order_is_refuted(
    subject: Subject, source: hc.SeededSource, unsealed: None
) -> None:
    """The messages of the first person come first."""
    rounds = Rounds(subject, source, Unmixed)

    def first(answers: Answers) -> tuple[int, ...]:
        return counts(rounds(answers)[: subject.survey.messages])

    assert audited(subject, first, 4000, [subject.worst]).refuted


def test_linked_responses_are_refuted(
    shufflers_noise: Subject, source: hc.SeededSource, unsealed: None
) -> None:
    """Somebody counts neighboring messages that say yes to both questions."""
    of, rounds = shufflers_noise, Rounds(shufflers_noise, source, Linking)

    def both(answers: Answers) -> int:
        near = itertools.pairwise(rounds(answers))
        return sum({one, other} == {1, 4} for one, other in near)

    assert audited(of, both, 4000, [of.worst]).refuted


def test_linked_responses_of_people_who_add_the_noise_are_refuted(
    peoples_noise: Subject, source: hc.SeededSource, unsealed: None
) -> None:
    """Whoever says no sends at most one message about a question, and whoever says yes sends one or
    two. In a mixed batch, somebody else may have sent the second one.
    """
    of, each = peoples_noise, peoples_noise.survey.messages

    def two_of_one_person(kind: type[Shuffler]) -> Callable[[Answers], bool]:
        rounds = Rounds(of, source, kind)

        def seen(answers: Answers) -> bool:
            messages = rounds(answers)
            return any(
                messages[at : at + each].count(1) == 2 for at in range(0, len(messages), each)
            )

        return seen

    assert audited(of, two_of_one_person(Linking), 4000, [of.worst]).refuted
    assert not audited(of, two_of_one_person(Shuffler), 4000, [of.worst]).refuted


def test_missing_noise_is_refuted(
    shufflers_noise: Subject, source: hc.SeededSource, unsealed: None
) -> None:
    of, rounds = shufflers_noise, Rounds(shufflers_noise, source, Silent)
    assert audited(of, lambda answers: counts(rounds(answers)), 4000, [of.worst]).refuted


def test_unfilled_slots_are_refuted(
    peoples_noise: Subject,
    source: hc.SeededSource,
    unsealed: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Devices that do not fill up their responses show how many messages they have."""
    of, filled = peoples_noise, Response.of

    def size(answers: Answers) -> int:
        return len(response(of.survey, answers[0], source))

    def unfilled(*arguments: Any) -> Response:
        made = filled(*arguments)
        return replace(made, messages=tuple(one for one in made.messages if one.payload))

    assert len({size(answers) for pair in of.pairs for answers in pair for _ in range(50)}) == 1
    monkeypatch.setattr(Response, "of", unfilled)
    assert audited(of, size, 8000, [of.worst]).refuted


def test_noise_that_is_drawn_twice_is_refuted(
    shufflers_noise: Subject, source: hc.SeededSource, unsealed: None
) -> None:
    """A shuffler that was restored from a copy closes the survey again."""
    of, rounds = shufflers_noise, Rounds(shufflers_noise, source)

    def twice(answers: Answers) -> tuple[int, ...]:
        bodies = rounds.bodies(answers)
        views = [counts(rounds.mixed(bodies)) for _ in range(2)]
        return tuple(one + other for one, other in zip(*views, strict=True))

    found = audited(of, twice, 8000, [of.worst])
    assert found.refuted
