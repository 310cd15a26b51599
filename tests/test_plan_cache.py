"""The cache of plans: it returns computed answers, and nothing else."""

import json
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import headcount as hc
from headcount.planner import cache
from headcount.planner import plan as planning

BUDGET, CROWD = hc.Budget(1, 1e-6), hc.Crowd(5000)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(cache.FOLDER, str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_what_was_computed_is_not_computed_again(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = hc.plan(hc.Count(), BUDGET, CROWD)

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("asked again")

    monkeypatch.setattr(planning, "assess_within", never)
    assert hc.plan(hc.Count(), BUDGET, CROWD) == first
    for other in (hc.Budget(1.01, 1e-6), hc.Budget(1, 1e-7)):
        with pytest.raises(AssertionError, match="asked again"):
            hc.plan(hc.Count(), other, CROWD)
    with pytest.raises(AssertionError, match="asked again"):
        hc.plan(hc.Count(), BUDGET, hc.Crowd(5000, 4999))
    monkeypatch.setattr(cache, "_code", lambda: "another version")
    with pytest.raises(AssertionError, match="asked again"):
        hc.plan(hc.Count(), BUDGET, CROWD)
    assert (own_cache / "plans.sqlite").exists()


def test_a_broken_cache_is_none(own_cache: Path) -> None:
    plan = hc.plan(hc.Count(), BUDGET, CROWD)
    for answer in ("{", "5", "[]", "{}", None, "[" * 100_000, '{"candidate": {}}'):
        with sqlite3.connect(own_cache / "plans.sqlite") as store:
            store.execute("UPDATE answers SET answer = ?", (answer,))
        assert hc.plan(hc.Count(), BUDGET, CROWD) == plan


def test_a_damaged_cache_never_answers(own_cache: Path) -> None:
    """Each bit of an answer, and some others, are flipped in turn. It is computed again."""
    answer = {"error": 1.2345678, "users": 90123}

    def ask() -> Any:
        return cache.cached({"number": 1}, lambda: answer, dict)

    assert ask() == answer
    path = own_cache / "plans.sqlite"
    data = path.read_bytes()
    text = json.dumps(answer).encode()
    start = data.index(text)
    used = [8 * at + bit for at, byte in enumerate(data) if byte for bit in range(8)]
    for bit in [*range(8 * start, 8 * (start + len(text))), *used[::40]]:
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        for left in own_cache.glob("plans.sqlite*"):
            left.unlink()
        path.write_bytes(damaged)
        assert ask() == answer


def test_no_cache_makes_anyone_trust_more(own_cache: Path) -> None:
    """The answer for one trust is stored under the key of another trust."""
    answers = {}
    for trust in ("central", "local"):
        hc.plan(hc.Count(), BUDGET, CROWD, trust=trust)
        with sqlite3.connect(own_cache / "plans.sqlite") as store:
            rows = dict(store.execute("SELECT key, answer FROM answers").fetchall())
        answers[trust] = {key: text for key, text in rows.items() if '"theory"' in text}
    (central,) = answers["central"].values()
    with sqlite3.connect(own_cache / "plans.sqlite") as store:
        store.execute("UPDATE answers SET answer = ?", (central,))
    assert hc.best_protocol(hc.Count(), BUDGET, CROWD, "local").trust is hc.Trust.LOCAL


def test_a_locked_cache_is_none(own_cache: Path) -> None:
    hc.plan(hc.Count(), BUDGET, CROWD)
    with sqlite3.connect(own_cache / "plans.sqlite") as store:
        store.execute("BEGIN EXCLUSIVE")
        assert hc.plan(hc.Count(), BUDGET, CROWD, trust="local").candidates


def test_another_database_is_no_cache(own_cache: Path) -> None:
    plan = hc.plan(hc.Count(), BUDGET, CROWD)
    (own_cache / "plans.sqlite").write_bytes(b"no database at all, " * 100)
    assert hc.plan(hc.Count(), BUDGET, CROWD) == plan


def test_no_cache_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(cache.FOLDER, str(tmp_path / "file"))
    assert hc.plan(hc.Count(), BUDGET, CROWD).candidates


def test_old_answers_are_forgotten(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_MOST", 10)
    for number in range(40):
        assert cache.cached({"number": number}, partial(int, number), int) == number
    with sqlite3.connect(own_cache / "plans.sqlite") as store:
        (kept,) = store.execute("SELECT COUNT(*) FROM answers").fetchone()
    assert 5 <= kept <= 11
    assert cache.cached({"number": 39}, lambda: -1, int) == 39
    assert cache.cached({"number": 0}, lambda: -1, int) == -1
