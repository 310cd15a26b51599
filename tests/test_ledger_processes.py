"""Ledgers and processes: many at once, killed ones, and the packages that they load."""

import contextlib
import itertools
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import headcount as hc
from ledgers import (
    exact_delta,
    exact_sum,
    made,
    rows_of,
    spend,
)

STORM = Path(__file__).with_name("ledger_storm.py")


# Processes ---------------------------------------------------------------------------------------


def run_storm(place: str, folder: Path, processes: int, kills: int, seed: int) -> None:
    ledger = hc.Ledger.create(place)
    ledger.create_dataset("many", hc.Budget(40))
    ledger.create_dataset("few", hc.Budget(0.1))
    ledger.create_dataset("composed", hc.Budget(1, 1e-6))
    released = folder / "released"
    subprocess.run(
        [sys.executable, STORM, "storm", place, released, str(processes), str(kills), str(seed)],
        check=True,
        timeout=900,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    entries = {
        name: (dataset, float(epsilon))
        for name, dataset, epsilon in rows_of(place, "SELECT id, dataset, epsilon FROM entries")
    }
    lines = [line.split() for line in released.read_text().splitlines()]
    assert len(lines) == len({name for name, _, _ in lines}) > kills
    for name, dataset, epsilon in lines:
        assert entries[name] == (dataset, float(epsilon))
    spent = {
        dataset: Counter(epsilon for where, epsilon in entries.values() if where == dataset)
        for dataset in ("many", "few", "composed")
    }
    assert exact_sum(spent["many"].elements()) == 40
    assert exact_sum(spent["few"].elements()) == Fraction("0.1")
    composed = sorted(spent["composed"].items())
    assert exact_delta(composed, 1) <= 1e-6
    assert exact_sum(spent["composed"].elements()) > 1
    assert exact_delta([*composed, (0.02, 1)], 1) > 0.9e-6
    numbers = rows_of(place, "SELECT COUNT(*), MAX(number) FROM entries GROUP BY dataset")
    assert all(count == last for count, last in numbers)
    for dataset in spent:
        found = ledger.spending(dataset)
        assert found.epsilon <= found.limit.epsilon
        assert found.delta <= found.limit.delta


def test_what_others_spend_meanwhile_counts(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process spends between the first check and the transaction."""
    ledger = made(place, 1)
    kind = type(ledger.store)
    writing, others = kind.writing, [1.0]

    @contextlib.contextmanager
    def later(store: Any) -> Iterator[Any]:
        while others:
            spend(ledger, others.pop())
        with writing(store) as run:
            yield run

    monkeypatch.setattr(kind, "writing", later)
    with pytest.raises(hc.BudgetExhausted):
        spend(ledger, 0.5)
    assert rows_of(place, "SELECT epsilon FROM entries") == [("1.0",)]


@pytest.mark.slow
def test_killed_processes_never_overspend(tmp_path: Path) -> None:
    run_storm(str(tmp_path / "spent.db"), tmp_path, processes=4, kills=4, seed=1)


@pytest.mark.slow
def test_hundreds_of_killed_processes_never_overspend(place: str, tmp_path: Path) -> None:
    run_storm(place, tmp_path, processes=32, kills=200, seed=2)


def crashed(place: Path, statement: int, when: str) -> int:
    """The number of statements of a charge, or 0 if the process was killed at one."""
    done = subprocess.run(
        [sys.executable, STORM, "crash", place, str(statement), when],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode == -signal.SIGKILL:
        return 0
    assert (done.returncode, done.stderr) == (0, "")
    return int(done.stdout)


def check_crashes(place: Path, latest: int) -> None:
    """A charge is killed at one of its last statements. It is recorded as a whole if it was
    committed, and otherwise not at all. The next charge works.
    """
    ledger = hc.Ledger.create(place)
    ledger.create_dataset("few", hc.Budget(1, 1e-6))
    spend(ledger, 0.001)
    last = crashed(place, 0, "never")
    entries = 2
    for statement, when in itertools.product(
        range(max(1, last - latest), last + 1), ("before", "after")
    ):
        assert crashed(place, statement, when) == 0
        entries += (statement, when) == (last, "after")  # COMMIT
        assert rows_of(str(place), "SELECT COUNT(*), MAX(number) FROM entries") == [(entries,) * 2]
        entries += 1
        assert spend(ledger, 0.001).number == entries == len(ledger.spending().entries)


def test_killed_while_it_is_written(tmp_path: Path) -> None:
    check_crashes(tmp_path / "spent.db", latest=1)


@pytest.mark.slow
def test_killed_at_any_statement(tmp_path: Path) -> None:
    check_crashes(tmp_path / "spent.db", latest=1000)


# Packages ----------------------------------------------------------------------------------------


def test_nothing_heavy_is_loaded_without_need(tmp_path: Path) -> None:
    """Heavy packages are not loaded if plain sums fit, or if no distribution could help."""
    program = """
import sys, headcount as hc
from headcount.accounting.divergence import PointCurve
assert "psycopg" not in sys.modules
ledger = hc.Ledger.create("spent.db")
ledger.create_dataset("people", hc.Budget(1, 1e-6))
ledger.create_dataset("pure", hc.Budget(1))
def spend(name, epsilon):
    guarantee = hc.Guarantee(epsilon, 0.0, hc.Trust.LOCAL, True, "", 1)
    return ledger.charge(name, guarantee, PointCurve(epsilon, 0.0))
for _ in range(10):
    spend("people", 0.1)
    spend("pure", 0.1)
try:
    spend("pure", 0.1)
except hc.BudgetExhausted:
    assert "psycopg" not in sys.modules and "dp_accounting" not in sys.modules
    sys.modules["dp_accounting"] = None
    assert ledger.spending("people").pure_remaining == 0
    spend("people", 0.1)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert rows_of(str(tmp_path / "spent.db"), "SELECT COUNT(*) FROM entries") == [(20,)]
    last = done.stderr.splitlines()[-1]
    assert last.startswith("headcount.core.errors.MissingPackage: composition needs dp-accounting")


def test_nothing_heavy_is_loaded_in_a_transaction(tmp_path: Path) -> None:
    """Another process spends the rest of the sum between the first check and the transaction."""
    program = """
import contextlib, sys, headcount as hc
from headcount.accounting.divergence import PointCurve
from headcount.ledger.sqlite import SqliteStore
writing, others, seen = SqliteStore.writing, [0.1] * 10, []
@contextlib.contextmanager
def watched(store):
    while others:
        spend(others.pop())
    before = "dp_accounting" in sys.modules
    with writing(store) as run:
        yield run
        seen.append((before, "dp_accounting" in sys.modules))
def spend(epsilon):
    guarantee = hc.Guarantee(epsilon, 0.0, hc.Trust.LOCAL, True, "", 1)
    return ledger.charge(None, guarantee, PointCurve(epsilon, 0.0))
ledger = hc.Ledger.create("spent.db")
ledger.create_dataset("people", hc.Budget(1, 1e-2))
SqliteStore.writing = watched
print(spend(0.1).number, seen == [(False, False)] * 11 + [(True, True)])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("11 True\n", "")


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(hc.MissingPackage, match=r"pip install 'headcount\[postgres\]'"):
        hc.Ledger.open("postgresql:///x")
