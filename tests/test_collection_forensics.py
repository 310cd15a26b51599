"""What the files of a shuffler tell somebody who takes them."""

import re
from pathlib import Path

import numpy as np
import pytest

import headcount as hc
from collection import document, pair, post, shuffler
from headcount.collect.client import response
from headcount.collect.document import Document
from headcount.collect.shuffler import Sent

ARRIVALS = 2000


def files_of(folder: Path) -> bytes:
    """All bytes of the shuffler's files, one after another."""
    return b"".join(path.read_bytes() for path in sorted(folder.glob("shuffler.db*")))


def many_messages(folder: Path, messages: int) -> Document:
    """A survey with responses of several rows in the store."""
    budget, crowd = hc.Budget(1, 1e-3), hc.Crowd(2)
    made = hc.protocol("shuffle.noisy-shuffler", hc.Count(), budget, crowd)
    return document(folder, {f"q{one}": made for one in range(messages)}, least_people=2)


def guessed_right(places: list[int], seed: int) -> float:
    """How often an attacker is right who believes that a later place means a later arrival, or the
    opposite if that is right more often. Pairs are chosen at random.
    """
    chosen = np.random.default_rng(seed).integers(0, len(places), (200_000, 2))
    chosen = chosen[chosen[:, 0] != chosen[:, 1]]
    where = np.array(places)
    later = where[chosen[:, 0]] < where[chosen[:, 1]]
    right = float(np.mean(later == (chosen[:, 0] < chosen[:, 1])))
    return max(right, 1 - right)


@pytest.mark.parametrize("messages", [1, 20])
def test_the_file_does_not_remember_the_order(tmp_path: Path, messages: int) -> None:
    """With 2,000 arrivals in any order, guesses about pairs are right with probability 1/2. Their
    share has a standard deviation of about (2/3/2000)^½/2 = 0.009, and 0.03 is more than three of
    these. The hash key is fixed, so that the test never fails by chance.
    """
    survey = many_messages(tmp_path, messages)
    one = shuffler(tmp_path)
    one.register(survey)
    with one.store.writing() as run:
        run("UPDATE rounds SET hash_key = ?", bytes(range(32)))
    random = np.random.default_rng(5)
    bodies = [random.bytes(survey.response_bytes) for _ in range(ARRIVALS)]
    for start in range(0, ARRIVALS, 10):
        one.accept([Sent(survey.digest, body) for body in bodies[start : start + 10]])
    stored = files_of(tmp_path)
    places = [stored.index(body[: survey.envelope.size]) for body in bodies]
    assert abs(guessed_right(places, 1) - 0.5) < 0.03


def test_an_ordered_file_would_be_found_out(tmp_path: Path) -> None:
    """The attacker of the test above is right about rows in the order of arrival."""
    assert guessed_right(list(range(ARRIVALS)), 1) == 1
    mostly = np.arange(ARRIVALS) + np.random.default_rng(2).normal(0, ARRIVALS, ARRIVALS)
    assert guessed_right(list(np.argsort(np.argsort(mostly))), 1) > 0.55


def test_nothing_sealed_is_left_after_closing(tmp_path: Path) -> None:
    survey = many_messages(tmp_path, 9)
    one = shuffler(tmp_path)
    one.register(survey)
    source = hc.SecureSource()
    answers = {f"q{number}": 1 for number in range(9)}
    bodies = [response(survey, answers, source) for _ in range(30)]
    one.accept([Sent(survey.digest, body) for body in bodies])
    size = survey.envelope.size
    pieces = [body[at : at + size] for body in bodies for at in range(0, len(body), size)]
    assert all(piece in files_of(tmp_path) for piece in pieces)
    one.close(survey.digest)
    batch = one.batch(survey.digest)[1].messages
    closed = files_of(tmp_path)
    # Only the batch is left, in its own order. Pieces that cross a page are not found.
    assert sum(closed.count(piece) for piece in pieces) <= len(pieces)
    assert all(piece in batch for piece in pieces)
    one.forward(survey.digest, lambda document, name, batch: None)
    forwarded = files_of(tmp_path)
    assert not any(piece[:32] in forwarded or piece[-32:] in forwarded for piece in pieces)


def test_no_address_agent_or_time_is_kept(tmp_path: Path) -> None:
    """A person with an unusual agent and address answers. Neither is in any file or log."""
    survey = many_messages(tmp_path, 1)
    source = hc.SecureSource()
    with pair(tmp_path, survey) as (one, _):
        one.start()
        for _ in range(2):
            reply = post(
                survey,
                response(survey, {"q0": 1}, source),
                headers={"User-Agent": "Netscape 4.8", "X-Forwarded-For": "203.0.113.77"},
            )
            assert reply.status_code == 201
            assert not {"date", "server", "set-cookie"} & set(reply.headers)
        stopped = one.stop()
        kept = files_of(tmp_path) + one.log.encode()
    assert stopped == -15
    for word in (b"Netscape", b"203.0.113", bytes([203, 0, 113, 77]), b"GET", b"POST"):
        assert word not in kept
    assert not re.search(rb"20\d\d-\d\d-\d\d", one.log.encode())
    assert len(one.log.splitlines()) == 1  # that it is serving
