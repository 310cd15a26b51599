"""A shuffler that adds noise, on Spark: an executor draws the noise, and only once."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

import headcount as hc
from headcount.core.shuffler import Noise
from headcount.core.source import Source
from headcount.data.spark import randomized, tallied
from headcount.protocols.dummies import DummyShuffler
from test_spark import frame_of, never, spark  # noqa: F401, the session of Spark's tests

pytestmark = pytest.mark.slow


def noisy(task: hc.Task, users: int) -> hc.Protocol:
    return hc.protocol("shuffle.noisy-shuffler", task, hc.Budget(1, 1e-6), hc.Crowd(users))


@pytest.mark.parametrize(
    ("task", "held"),
    [(hc.Count(), [0, 0, 1]), (hc.Histogram(4), [0, 1, 1, 2])],
)
def test_stored_messages_have_the_shufflers_noise_once(
    spark: SparkSession,  # noqa: F811
    task: hc.Task,
    held: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Exact counts and dummies within T. Messages without dummies, or with more, are refused."""
    monkeypatch.setattr(DummyShuffler, "noise", never)
    values = held * 75
    users = len(values)
    protocol = noisy(task, users)
    most, dummies = (int(protocol.parameters[name]) for name in ("dummies", "all_dummies"))
    table = randomized(frame_of(spark, {"value": values}), protocol, "value")
    exact = np.bincount(values, minlength=task.domain)
    sent = np.bincount(table.toArrow()["message"].to_numpy(), minlength=task.domain)
    assert sent.sum() == users + dummies
    assert np.all((exact <= sent) & (sent <= exact + most))
    tally = tallied(table, protocol, users=users)
    assert np.array_equal(tally.counts, sent)  # noise is the same whenever it is read
    answer = np.atleast_1d(protocol.estimate(tally).value)
    assert np.array_equal(answer, (sent - most // 2)[-len(answer) :])
    plain = tallied(frame_of(spark, {"message": values}), protocol, users=users)
    with pytest.raises(hc.InvalidValue, match="added 0 times"):
        protocol.estimate(plain)
    again = np.repeat(np.arange(task.domain), sent - exact)
    twice = table.union(frame_of(spark, {"message": again}))
    with pytest.raises(hc.InvalidValue, match=f"got {users + 2 * dummies} messages from {users}"):
        tallied(twice, protocol, users=users)


@dataclass(frozen=True)
class Replacing(DummyShuffler):
    """It always throws the messages of people away."""

    def noise(self, users: int, source: Source) -> Noise:
        ones = np.ones(users + self.dummies.total, dtype=np.uint8)
        return Noise(ones, alone=True)


def test_noise_may_replace_the_messages_of_people(spark: SparkSession) -> None:  # noqa: F811
    protocol = noisy(hc.Count(), 90)
    plain: Any = protocol.shuffler
    vars(protocol)["shuffler"] = Replacing(dummies=plain.dummies)
    table = randomized(frame_of(spark, {"value": [0] * 90}), protocol, "value")
    assert table.columns == ["message"]
    assert tallied(table, protocol, users=90).counts.tolist() == [0, 90 + 28]


def test_a_seed_repeats_the_noise(spark: SparkSession) -> None:  # noqa: F811
    frame = frame_of(spark, {"value": [0, 1] * 60, "team": np.repeat(np.arange(10), 12)})

    def asked(seed: int) -> list[float]:
        found = hc.estimate(
            frame, hc.Count(), column="value", group="team", budget=hc.Budget(0.1, 1e-3),
            protocol="shuffle.noisy-shuffler", source=hc.SeededSource(seed),
        )  # fmt: skip
        assert isinstance(found, hc.GroupedEstimate)
        assert not found.guarantee.secure
        return [float(one.value) for one in found.values()]

    first, again, other = (asked(seed) for seed in (1, 1, 2))
    assert first == again != other
    assert len(set(first)) > 3  # groups have noise of their own
