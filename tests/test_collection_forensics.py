"""What the files of a shuffler tell somebody who takes them."""

import itertools
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from numpy.typing import NDArray

import headcount as hc
import headcount.collect.arrivals as arriving
import headcount.collect.shuffler as shuffling
from collection import analyzer, document, shuffler
from headcount.collect.client import response
from headcount.collect.document import Document
from headcount.collect.inbox import Rows
from headcount.collect.shuffler import Sent, Shuffler
from headcount.collect.sqlite import SqliteStore
from headcount.collect.store import opened
from postgres import Server
from postgres import server as postgres_server
from test_collection import Killed, dying, handed_to

ARRIVALS = 2000


def files_of(folder: Path, name: str = "shuffler.db*") -> bytes:
    """All bytes of these files, one after another."""
    return b"".join(path.read_bytes() for path in sorted(folder.glob(name)))


def many_messages(folder: Path, messages: int) -> Document:
    """A survey with responses of several rows in the store."""
    budget, crowd = hc.Budget(1, 1e-3), hc.Crowd(2)
    made = hc.protocol("shuffle.noisy-shuffler", hc.Count(), budget, crowd)
    return document(folder, {f"q{one}": made for one in range(messages)}, least_people=2)


def pieces_of(survey: Document, bodies: list[bytes]) -> list[bytes]:
    """The sealed messages of responses."""
    size = survey.envelope.size
    return [body[at : at + size] for body in bodies for at in range(0, len(body), size)]


def found_of(pieces: list[bytes], files: bytes) -> int:
    """How many messages left a trace: 8 bytes at their begin, middle or end."""
    parts = [piece[at : at + 8] for piece in pieces for at in (0, 56, len(piece) - 8)]
    which, _ = places_of(parts, files)
    return len(set((which // 3).tolist()))


def places_of(parts: list[bytes], files: bytes) -> tuple[NDArray[Any], NDArray[Any]]:
    """Where parts of 8 bytes occur: the numbers of the parts, and their places in the files."""
    keys = np.frombuffer(b"".join(parts), np.uint64)
    order = np.argsort(keys)
    numbers, places = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for shift in range(8):
        whole = (len(files) - shift) // 8
        words = np.frombuffer(files, np.uint64, max(0, whole), shift) if whole > 0 else keys[:0]
        at = np.minimum(np.searchsorted(keys[order], words), len(keys) - 1)
        hits = np.flatnonzero(keys[order][at] == words)
        numbers.append(order[at[hits]])
        places.append(8 * hits + shift)
    return np.concatenate(numbers), np.concatenate(places)


# The order of arrivals ----------------------------------------------------------------------------


def people_at(folder: Path, survey: Document, people: int, order: NDArray[Any], group: int) -> None:
    """People answer, some in each transaction. The key of the places is fixed, so that the tests
    never fail by chance.
    """
    one = shuffler(folder)
    one.register(survey)
    with one.store.writing() as run:
        run("UPDATE rounds SET hash_key = ?", bytes(range(32)))
    bodies = bodies_of(survey, people)
    for start in range(0, people, group):
        chosen = order[start : start + group]
        one.accept([Sent(survey.digest, bodies[person]) for person in chosen])


def bodies_of(survey: Document, people: int) -> list[bytes]:
    random = np.random.default_rng(5)
    return [random.bytes(survey.response_bytes) for _ in range(people)]


def guesses(folder: Path, survey: Document, bodies: list[bytes]) -> dict[str, NDArray[Any]]:
    """Each guess is a number for every response. A larger number means a later arrival. NaN means
    that there is no guess.
    """
    page = 16384
    parts = [piece[:8] for piece in pieces_of(survey, bodies)]
    made: dict[str, NDArray[Any]] = {}
    for path in sorted(folder.glob("shuffler.db*")):
        which, places = places_of(parts, path.read_bytes())
        if not len(which):
            continue
        found = np.full(len(parts), np.nan)
        last_to_first = np.argsort(-places)
        found[which[last_to_first]] = places[last_to_first]  # the first place is written last
        first = found.reshape(len(bodies), -1)
        within = -(first % page)  # SQLite fills a page from its end
        copies = np.bincount(which, minlength=len(parts)).reshape(len(bodies), -1)
        ways = {
            "place": first[:, 0],
            "page": first[:, 0] // page,
            "place within its page": within[:, 0],
            "page, then place within it": first[:, 0] // page * 1e9 + within[:, 0],
            "old copies": -copies.sum(axis=1),
            # Files do not show which rows belong together. Somebody who knows a response does.
            "earliest row, known": first.min(axis=1),
            "latest row, known": first.max(axis=1),
            "mean place within pages, known": within.mean(axis=1),
        }
        made |= {f"{path.name}: {way}": guess for way, guess in ways.items()}
    return made


def right(guess: NDArray[Any]) -> float:
    """How often a guess about two random responses is right, or wrong if that is more often. Coins
    decide where there is no guess. The responses are in the order of arrival.
    """
    chosen = np.random.default_rng(1).integers(0, len(guess), (200_000, 2))
    first, second = np.sort(chosen[chosen[:, 0] != chosen[:, 1]], axis=1).T
    less, more = guess[first] < guess[second], guess[first] > guess[second]
    share = float(np.mean(less) + np.mean(~less & ~more) / 2)
    return max(share, 1 - share)


def shares_of(folder: Path, messages: int, people: int = ARRIVALS) -> dict[str, float]:
    """How often each guess is right."""
    survey = many_messages(folder, messages)
    people_at(folder, survey, people, np.arange(people), group=10)
    found = guesses(folder, survey, bodies_of(survey, people))
    return {name: right(guess) for name, guess in found.items()}


@pytest.mark.parametrize("messages", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_the_file_does_not_remember_the_order(tmp_path: Path, messages: int) -> None:
    """With 2,000 arrivals in any order, guesses about pairs are right with probability 1/2. Their
    share has a standard deviation of about (2/3/2000)^½/2 = 0.009, and 0.03 is more than three of
    these.
    """
    shares = shares_of(tmp_path, messages)
    known = {name: share for name, share in shares.items() if "known" in name}
    assert (len(shares), len(known)) == (8, 3)
    assert max(shares.values()) < 0.53, shares


@pytest.mark.parametrize(
    ("people", "messages", "group"),
    [
        (5, 1, 1),
        (30, 8, 1),
        (300, 1, 10),
        pytest.param(100, 200, 10, marks=pytest.mark.slow),
        pytest.param(2000, 20, 10, marks=pytest.mark.slow),
        pytest.param(5000, 1, 50, marks=pytest.mark.slow),
    ],
)
def test_the_file_is_the_same_in_every_order(
    tmp_path: Path, people: int, messages: int, group: int
) -> None:
    """If all bytes are the same whoever came first, they show nothing about who came first."""
    survey = many_messages(tmp_path, messages)
    assert len({stored(tmp_path, survey, people, group, seed) for seed in range(3)}) == 1


def stored(folder: Path, survey: Document, people: int, group: int, seed: int) -> bytes:
    """The shuffler's files after people answered in a random order."""
    own = folder / str(seed)
    own.mkdir()
    people_at(own, survey, people, np.random.default_rng(seed).permutation(people), group)
    return files_of(own)


@pytest.mark.parametrize("group", [1, 10])
def test_the_file_does_not_remember_the_order_of_codes(tmp_path: Path, group: int) -> None:
    made = hc.protocol("shuffle.noisy-shuffler", hc.Count(), hc.Budget(1, 1e-3), hc.Crowd(2))
    survey = document(tmp_path, {"q": made}, least_people=2, admission="codes")
    before = shuffler(tmp_path)
    before.register(survey)
    codes = before.new_codes(survey.digest, 40)
    before.store.close()
    bodies, found = bodies_of(survey, 30), set()
    for seed in range(3):
        own = tmp_path / str(seed)
        own.mkdir()
        (own / "shuffler.db").write_bytes((tmp_path / "shuffler.db").read_bytes())
        one, order = shuffler(own), np.random.default_rng(seed).permutation(30)
        for start in range(0, 30, group):
            chosen = order[start : start + group]
            one.accept([Sent(survey.digest, bodies[at], codes[at]) for at in chosen])
        one.store.close()
        found.add(files_of(own))
    assert len(found) == 1


def test_keys_in_the_order_of_arrival_are_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers, places = itertools.count(), arriving.places_of
    monkeypatch.setattr(
        shuffling,
        "places_of",
        lambda *all_: [(next(numbers) << 53, body) for _, body in places(*all_)],
    )
    shares = shares_of(tmp_path, 1, 500)
    assert shares["shuffler.db: place"] > 0.8, shares


def test_a_write_ahead_log_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = SqliteStore._open

    def logging(self: SqliteStore) -> sqlite3.Connection:
        made = own(self)
        made.execute("PRAGMA journal_mode = WAL")
        made.execute("PRAGMA wal_autocheckpoint = 0")
        return made

    monkeypatch.setattr(SqliteStore, "_open", logging)
    shares = shares_of(tmp_path, 1, 500)
    assert shares["shuffler.db-wal: place"] > 0.9, shares


def test_rows_of_their_own_are_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a plain table, rows lie on their page in the order of arrival."""
    monkeypatch.setattr(SqliteStore, "inbox", Rows)
    shares = shares_of(tmp_path, 1, 100)
    assert shares["shuffler.db: place"] > 0.9, shares
    survey = many_messages(tmp_path, 1)
    assert len({stored(tmp_path, survey, 30, 1, seed) for seed in range(3)}) == 3


# Sealed messages after closing --------------------------------------------------------------------


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Document, list[bytes]]:
    """A survey of nine questions with thirty answers, and the analyzer's key in a folder."""
    folder = tmp_path_factory.mktemp("answered")
    survey, source = many_messages(folder, 9), hc.SecureSource()
    answers = {f"q{number}": 1 for number in range(9)}
    return folder, survey, [response(survey, answers, source) for _ in range(30)]


def test_nothing_sealed_is_left_after_closing(
    tmp_path: Path, answered: tuple[Path, Document, list[bytes]]
) -> None:
    keys, survey, bodies = answered
    for name in ("key.json", "private.pem"):
        (tmp_path / name).write_bytes((keys / name).read_bytes())
    one, other = shuffler(tmp_path), analyzer(tmp_path)
    one.register(survey)
    other.register(survey)
    one.accept([Sent(survey.digest, body) for body in bodies])
    pieces = pieces_of(survey, bodies)
    assert found_of(pieces, files_of(tmp_path)) == len(pieces)
    one.close(survey.digest)
    batch = one.batch(survey.digest)[1].messages
    closed = files_of(tmp_path)
    # Only the batch is left, in its own order. Pieces that cross a page are not found.
    assert sum(closed.count(piece) for piece in pieces) <= len(pieces)
    assert all(piece in batch for piece in pieces)
    one.forward(survey.digest, handed_to(other))
    assert found_of(pieces, files_of(tmp_path)) == 0
    assert found_of(pieces, files_of(tmp_path, "analyzer.db*")) == len(pieces)
    other.count(survey.digest)
    assert found_of(pieces, files_of(tmp_path, "*")) == 0


def test_nothing_sealed_is_left_after_destroying(
    tmp_path: Path, answered: tuple[Path, Document, list[bytes]]
) -> None:
    _, survey, bodies = answered
    one = shuffler(tmp_path)
    one.register(survey)
    one.accept([Sent(survey.digest, body) for body in bodies])
    one.destroy(survey.digest)
    assert found_of(pieces_of(survey, bodies), files_of(tmp_path)) == 0


@pytest.mark.parametrize("step", ["closed, not committed", "closed", "forwarded"])
def test_nothing_sealed_is_left_after_a_crash(
    tmp_path: Path, answered: tuple[Path, Document, list[bytes]], step: str
) -> None:
    _, survey, bodies = answered
    reached = dying(step)
    one = shuffler(tmp_path, reached=reached)
    one.register(survey)
    one.accept([Sent(survey.digest, body) for body in bodies])
    for _ in range(2):
        try:
            one.close(survey.digest)
            if one.status(survey.digest).state == "closed":
                one.forward(survey.digest, lambda *_: None)
        except Killed:
            one = shuffler(tmp_path)
    assert one.status(survey.digest).state == "forwarded"
    assert found_of(pieces_of(survey, bodies), files_of(tmp_path)) == 0


def test_rows_that_are_not_overwritten_are_found_out(
    tmp_path: Path, answered: tuple[Path, Document, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = SqliteStore._open

    def keeping(self: SqliteStore) -> sqlite3.Connection:
        made = own(self)
        made.execute("PRAGMA secure_delete = OFF")
        return made

    monkeypatch.setattr(SqliteStore, "_open", keeping)
    _, survey, bodies = answered
    one = shuffler(tmp_path)
    one.register(survey)
    one.accept([Sent(survey.digest, body) for body in bodies])
    one.destroy(survey.digest)
    assert found_of(pieces_of(survey, bodies), files_of(tmp_path)) > 100


# PostgreSQL ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgres_server() as made:
        yield made


def left_in(server: Server, folder: str, pieces: list[bytes]) -> int:
    """How many messages are found in the files below a folder of the server."""
    files = (path for path in sorted((server.data / folder).rglob("*")) if path.is_file())
    return found_of(pieces, b"".join(path.read_bytes() for path in files))


@pytest.mark.slow
@pytest.mark.parametrize("step", ["", "closed", "forwarded"])
def test_what_postgres_remembers(
    server: Server, answered: tuple[Path, Document, list[bytes]], step: str
) -> None:
    """It shows the order while a survey is open. After closing, the tables hold nothing, even after
    a crash. The write-ahead log does until it is removed, as the documentation says.
    """
    _, survey, bodies = answered
    pieces = pieces_of(survey, bodies)
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS collect CASCADE")
        connection.execute("CHECKPOINT")
        one = Shuffler(opened(server.url), reached=dying(step))
        one.register(survey)
        for body in bodies:
            one.accept([Sent(survey.digest, body)])
        size = survey.envelope.size
        for column in ("ctid", "xmin::text::bigint"):
            asked = f"SELECT body FROM collect.inbox ORDER BY {column}"
            rows = connection.execute(asked).fetchall()
            order = {bytes(body)[:size]: at for at, (body,) in enumerate(rows)}
            assert right(np.array([order[body[:size]] for body in bodies])) > 0.99
        for _ in range(2):
            try:
                one.close(survey.digest)
                if one.status(survey.digest).state == "closed":
                    one.forward(survey.digest, lambda *_: None)
            except Killed:
                one.store.close()
                one = Shuffler(opened(server.url))
                one.scrub()
        assert one.status(survey.digest).state == "forwarded"
        one.store.close()
        connection.execute("CHECKPOINT")
        assert left_in(server, "base", pieces) == 0
        assert left_in(server, "pg_wal", pieces) > 100
        connection.execute("ALTER SYSTEM SET wal_recycle = off")
        connection.execute("SELECT pg_reload_conf()")
        for _ in range(2):
            connection.execute("SELECT pg_switch_wal()")
            connection.execute("CHECKPOINT")
        assert left_in(server, ".", pieces) == 0
