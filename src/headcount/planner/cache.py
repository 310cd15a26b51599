"""A cache on disk for answers that take a long time to compute.

One SQLite file holds the answers. The key of an answer is a digest of the question and of the code
that computes the answer. So a change in this code, in NumPy or in SciPy gives a new key. The file
holds the errors, costs and parameters of protocols, and refusals. It never holds data or code:
protocols are always calibrated again from their settings. Each answer is stored with a digest of
its key and its text, so that a damaged answer is noticed and computed again. If the folder is not
writable, nothing is stored.
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

FOLDER = "HEADCOUNT_CACHE"  # the environment variable that can name another folder
_REFUSED = (sqlite3.Error, UnicodeDecodeError)  # errors that SQLite raises, e.g. for a damaged file
# Errors that come from reading an answer that is missing or damaged.
_UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, RecursionError)
Parsed = TypeVar("Parsed")
# The packages whose code determines the answers: the planner and all packages that it may import.
_PACKAGES = ("planner", "protocols", "randomness", "accounting", "theory", "core")
_DIGITS = 64  # the number of hexadecimal digits of a digest
_MOST = 20_000  # if there are more answers than this, the older half is deleted


def cached(
    question: dict[str, Any], compute: Callable[[], Any], parse: Callable[[Any], Parsed]
) -> Parsed:
    """The answer to this question, from the cache or computed, and read by `parse`.

    The result of `compute` must be JSON-serializable. If `parse` cannot read a stored answer, the
    answer is computed again.
    """
    key = digest({"question": question, "code": _code()})
    with _opened() as store:
        with contextlib.suppress(*_UNREADABLE):
            return parse(_read(store, key))
        answer = compute()
        _write(store, key, json.dumps(answer))
    return parse(answer)


def digest(document: Any) -> str:
    """The SHA-256 digest of a JSON-serializable document, in hexadecimal digits."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def folder() -> Path:
    """The folder where answers are stored."""
    if named := os.environ.get(FOLDER):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(base) if base else Path.home() / ".cache") / "headcount"


@cache
def _code() -> str:
    """A digest of the code that computes the answers, and of the versions of its libraries."""
    hashed = hashlib.sha256()
    # Versions are read from files, since importing SciPy is slow.
    for library in ("numpy", "scipy"):
        spec = find_spec(library)
        if spec and spec.origin:
            hashed.update(Path(spec.origin).with_name("version.py").read_bytes())
    package = Path(__file__).parents[1]
    for name in _PACKAGES:
        for path in sorted((package / name).rglob("*.py")):
            hashed.update(str(path.relative_to(package)).encode())
            hashed.update(path.read_bytes())
    return hashed.hexdigest()


@contextlib.contextmanager
def _opened() -> Iterator[sqlite3.Connection | None]:
    store = None
    with contextlib.suppress(OSError, RuntimeError, *_REFUSED):  # RuntimeError: no home folder
        place = folder()
        place.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(place / "plans.sqlite", timeout=0.2)
        connection.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT)")
        store = connection
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
    """The answer in a stored text. Raises ValueError if the digest in the text does not match."""
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
