"""The memory of answers is stated and bounded. Too much is refused before anything is spent."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headcount as hc
from headcount.core import work
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


@pytest.mark.parametrize("buckets", [10**6, 10**7])
def test_people_do_not_send_a_bit_for_every_bucket_if_this_takes_long(buckets: int) -> None:
    """A bit for each of a million buckets and people takes one core more than ten minutes."""
    planned = hc.plan(hc.Histogram(buckets), BUDGET, hc.Crowd(10**6), trust="local")
    assert planned.best.protocol == "local.hadamard"
    assert planned.best.seconds < 60
    assert planned["local.unary-symmetric"].expected_error < planned.best.expected_error
    assert "not chosen: local.unary-symmetric takes one core about" in str(planned)
    few = hc.plan(hc.Histogram(buckets), BUDGET, hc.Crowd(1000), trust="local")
    assert few.best.protocol == "local.unary-symmetric"


def test_shuffled_messages_are_not_compared_with_every_bucket_if_this_takes_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def planned() -> hc.Plan:
        return hc.plan(hc.Histogram(20_000), BUDGET, hc.Crowd(1000), trust="shuffle")

    slow = planned()["shuffle.hashed-histogram"]
    assert planned().best == slow
    monkeypatch.setattr("headcount.planner.plan.MANY_SECONDS", slow.seconds / 2)
    assert planned().best.seconds < slow.seconds


def test_the_stated_time_grows_with_the_comparisons_of_messages_and_buckets() -> None:
    def seconds(name: str, buckets: int, epsilon: float = 1.0, people: int = 1000) -> float:
        task, budget = hc.Histogram(buckets), hc.Budget(epsilon, 1e-6)
        protocol = hc.protocol(name, task, budget, hc.Crowd(people))
        return work.seconds_of_messages(protocol, people)

    for name, epsilon in (
        ("local.unary-symmetric", 1.0),
        ("local.subset", 1.0),
        ("local.hashing", 10.0),  # all buckets are hashed
        ("shuffle.hashed-histogram", 1.0),
    ):
        few, many = (seconds(name, buckets, epsilon) for buckets in (2**11, 2**15))
        assert many / few == pytest.approx(16, rel=0.05)
        if name.startswith("local"):
            assert seconds(name, 2**11, epsilon, 5000) == pytest.approx(5 * few)
    # One transform serves all buckets, so their number hardly matters.
    for name, epsilon in (("local.hashing", 2.0), ("local.hadamard", 10.0)):
        assert seconds(name, 2**19, epsilon) < 4 * seconds(name, 2**14, epsilon)
    assert seconds("central.geometric", 2**15) == 0


def test_messages_that_take_too_long_are_refused_before_they_are_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = hc.Ledger.create(tmp_path / "spent.db")
    book.create_dataset("town", hc.Budget(10))
    data = {"value": list(range(100)), "city": ["Bonn", "Ulm"] * 50}

    def asked(**settings: Any) -> Any:
        return hc.estimate(
            data, hc.Histogram(10**5), column="value", budget=hc.Budget(1), ledger=book,
            protocol="local.unary-symmetric", **settings,
        )  # fmt: skip

    monkeypatch.setattr(work, "MOST_SECONDS", 0.005)
    for group in (None, "city"):
        with pytest.raises(
            hc.Infeasible, match=r"messages of local\.unary-symmetric take"
        ) as found:
            asked(group=group)
        assert found.value.nearest == {"users": 66}  # 100 people take 0.0075 s
    assert book.spending("town").entries == ()
    monkeypatch.setattr(work, "MOST_SECONDS", 0.01)
    asked()
    assert len(book.spending("town").entries) == 1


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "1 second"),
        (119, "119 seconds"),
        (120, "2 minutes"),
        (7300, "2 hours"),
        (1e6, "12 days"),
    ],
)
def test_times_are_shown_in_words(seconds: float, words: str) -> None:
    assert work.shown_time(seconds) == words
