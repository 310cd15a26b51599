"""The memory of answers is stated and bounded. Too much is refused before anything is spent."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headcount as hc
from headcount.road import memory
from headcount.road.pieces import tally_of_part

BUDGET = hc.Budget(1, 1e-6)
TASKS: list[tuple[hc.Task, int]] = [
    (hc.Count(), 5000),
    (hc.Histogram(1000), 1000),
    (hc.Histogram(20_000), 30),
    (hc.Mean(0, 1), 5000),
    (hc.Density(0, 1), 5000),
]


def built(task: hc.Task, users: int) -> list[hc.Protocol]:
    found = []
    for name in hc.protocol_names():
        try:
            found.append(hc.protocol(name, task, BUDGET, hc.Crowd(users)))
        except (hc.InvalidParameter, hc.Infeasible):
            continue
    return found


@pytest.mark.parametrize(("task", "users"), TASKS, ids=str)
def test_no_protocol_takes_more_memory_than_it_states(task: hc.Task, users: int) -> None:
    protocols = built(task, users)
    assert len(protocols) > 3
    encoded = task.encode(np.random.default_rng(1).integers(0, min(task.domain or 2, 2), users))
    for protocol in protocols:
        tally_of_part(protocol, encoded, hc.SecureSource())  # tables are made once
        tracemalloc.start()
        tally_of_part(protocol, encoded, hc.SecureSource())
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        stated = users * protocol.randomizer.bytes_per_user + 48 * protocol.estimator.tally_size
        assert peak <= stated + 2**20, protocol.name  # and what draws take, whoever draws
        assert protocol.randomizer.people_at_once * protocol.randomizer.bytes_per_user <= 2**28
        assert protocol.randomizer.people_at_once >= 1


def test_a_million_buckets_are_made_for_few_people_at_a_time() -> None:
    """The bits of a million people for a million buckets would take 116 GiB."""
    protocol = hc.best_protocol(hc.Histogram(10**6), hc.Budget(1), hc.Crowd(10**6), "local")
    assert protocol.randomizer.people_at_once * protocol.alphabet.bytes_per_message <= 2**28
    small = hc.protocol("local.randomized-response", hc.Count(), hc.Budget(1), hc.Crowd(9))
    assert small.randomizer.people_at_once == 2**20


@pytest.mark.parametrize("group", [None, "city"])
def test_what_does_not_fit_is_refused_before_it_is_spent(
    group: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = hc.Ledger.create(tmp_path / "spent.db")
    book.create_dataset("town", hc.Budget(10))
    data = {"value": list(range(100)), "city": ["Bonn", "Ulm"] * 50}

    def asked(buckets: int) -> Any:
        return hc.estimate(
            data, hc.Histogram(buckets), column="value", group=group, budget=hc.Budget(1),
            trust="local", ledger=book,
        )  # fmt: skip

    monkeypatch.setattr(memory, "memory_there", lambda: 2**26)
    with pytest.raises(hc.Infeasible, match=r"of memory .* buckets in all would fit"):
        asked(10**6)
    assert book.spending("town").entries == ()
    asked(1000)
    assert len(book.spending("town").entries) == 1


def test_cores_and_memory_do_not_change_a_tally(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headcount.core.randomizer._BYTES_AT_ONCE", 2**16)
    values = np.random.default_rng(2).integers(0, 300, 3000)

    def asked(cores: int, there: int) -> list[float]:
        monkeypatch.setattr("os.cpu_count", lambda: cores)
        monkeypatch.setattr(memory, "memory_there", lambda: there)
        found = hc.estimate(
            values, hc.Histogram(300), budget=hc.Budget(1), protocol="local.unary-optimized",
            source=hc.SeededSource(3),
        )  # fmt: skip
        answer: list[float] = found.value.tolist()
        return answer

    assert asked(1, 2**40) == asked(4, 2**40) == asked(4, 2**20)
    protocol = hc.protocol("local.unary-optimized", hc.Histogram(300), hc.Budget(1), hc.Crowd(3000))
    assert protocol.randomizer.people_at_once < 1000
    used = []
    for there in (2**40, 2**18, 0):
        monkeypatch.setattr(memory, "memory_there", lambda there=there: there)
        used.append(memory.workers([protocol], 3000))
    assert used[0] == 4
    assert used[1] in (1, 2, 3)
    assert used[2] == 1


def test_the_least_of_all_limits_counts() -> None:
    assert 2**20 < memory.memory_there() < 2**62
