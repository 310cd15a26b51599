"""Answers that take long to compute, kept on disk for the next time.

One SQLite file holds them, keyed by the question and by the code that answers it: whatever changes
in the package, or in NumPy and SciPy, is another key. It holds parameters and errors, never data,
and nothing that is run: protocols are calibrated anew from their settings. Each answer is stored
with a digest of it and of its key, so that a damaged one is noticed and computed anew. Where there
is no place to write, nothing is kept.
"""

import contextlib
import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

FOLDER = "HEADCOUNT_CACHE"  # the variable that names another folder
_REFUSED = (sqlite3.Error, UnicodeDecodeError)  # what SQLite raises, for a damaged file, say
_UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, RecursionError)
Parsed = TypeVar("Parsed")
# The planner's own room, and those that it may import.
_ROOMS = ("planner", "protocols", "randomness", "accounting", "theory", "core")
_DIGITS = 64  # of a digest
_MOST = 20_000  # answers, of which the older half is forgotten


def cached(
    question: dict[str, Any], compute: Callable[[], Any], parse: Callable[[Any], Parsed]
) -> Parsed:
    """What `compute` gave for this question before, or gives now, as `parse` understands it.

    What is computed is something that JSON can hold. What cannot be parsed is computed anew.
    """
    key = digest({"question": question, "code": _code()})
    with _opened() as store:
        with contextlib.suppress(*_UNREADABLE):
            return parse(_read(store, key))
        answer = compute()
        _write(store, key, json.dumps(answer))
    return parse(answer)


def digest(document: Any) -> str:
    """A name for a document that no other one has."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def folder() -> Path:
    """Where answers are kept."""
    if named := os.environ.get(FOLDER):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(base) if base else Path.home() / ".cache") / "headcount"


@cache
def _code() -> str:
    """What computes the answers: every line of the rooms below, and the libraries under them."""
    found = hashlib.sha256()
    for library in ("numpy", "scipy"):  # by a file of each: to import SciPy takes longer
        spec = find_spec(library)
        if spec and spec.origin:
            found.update(Path(spec.origin).with_name("version.py").read_bytes())
    package = Path(__file__).parents[1]
    for room in _ROOMS:
        for path in sorted((package / room).rglob("*.py")):
            found.update(str(path.relative_to(package)).encode())
            found.update(path.read_bytes())
    return found.hexdigest()


@contextlib.contextmanager
def _opened() -> Iterator[sqlite3.Connection | None]:
    store = None
    with contextlib.suppress(OSError, RuntimeError, *_REFUSED):  # no home folder: RuntimeError
        place = folder()
        place.mkdir(parents=True, exist_ok=True)
        found = sqlite3.connect(place / "plans.sqlite", timeout=0.2)
        found.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT)")
        store = found
    try:
        yield store
    finally:
        if store is not None:
            store.close()


def _read(store: sqlite3.Connection | None, key: str) -> Any:
    if store is not None:
        with contextlib.suppress(*_REFUSED):
            row = store.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
            return json.loads(_unsealed(key, row[0])) if row else None
    return None


def _sealed(key: str, answer: str) -> str:
    return digest([key, answer]) + answer


def _unsealed(key: str, stored: str) -> str:
    """The answer; a ValueError if it is not what was written for this key."""
    answer = stored[_DIGITS:]
    if stored != _sealed(key, answer):
        raise ValueError("a damaged answer")
    return answer


def _write(store: sqlite3.Connection | None, key: str, answer: str) -> None:
    if store is None:
        return
    with contextlib.suppress(*_REFUSED), store:
        store.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, _sealed(key, answer)))
        (last,) = store.execute("SELECT MAX(rowid) FROM answers").fetchone()
        (count,) = store.execute("SELECT COUNT(*) FROM answers").fetchone()
        if count > _MOST:
            store.execute("DELETE FROM answers WHERE rowid < ?", (last - _MOST // 2,))
