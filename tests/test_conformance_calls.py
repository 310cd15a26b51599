"""Rules for every registered protocol: how it is called, and what it refuses.

A new protocol is tested here as soon as it is registered.
"""

import dataclasses
import math
import typing
from typing import Any

import numpy as np
import pytest

import headcount as hc
from conformance import every, standard


@every
def test_more_people_are_welcome_and_fewer_refused(name: str, task: hc.Task) -> None:
    """Fewer people are refused only where people hide each other."""
    protocol = standard(name, task)
    if protocol.shuffler.least_copies > 1:  # cheaters among them could undo the withholding
        with pytest.raises(hc.CrowdMismatch, match="may be dishonest"):
            hc.run(protocol, [1] * 400)
    else:
        assert hc.run(protocol, [1] * 400).users == 400
    if protocol.trust is hc.Trust.SHUFFLE:
        with pytest.raises(hc.CrowdMismatch, match="at least 200 people, got 199"):
            hc.run(protocol, [1] * 199)
    else:
        fewer = hc.run(protocol, [1] * 199)
        assert (fewer.users, fewer.guarantee.honest) == (199, 199)
        assert fewer.guarantee.epsilon == protocol.guarantee.epsilon
    for users in (199, 2**60) if protocol.trust is hc.Trust.SHUFFLE else (2**60,):
        with pytest.raises(hc.CrowdMismatch):
            protocol.estimate(
                hc.Tally(
                    np.full(protocol.estimator.tally_size, 5),
                    users,
                    name,
                    protocol.estimator.tally_modulus,
                )
            )


@every
def test_protocols_are_values(name: str, task: hc.Task) -> None:
    protocol = standard(name, task)
    assert protocol == standard(name, task)
    assert hash(protocol) == hash(standard(name, task))
    with pytest.raises(dataclasses.FrozenInstanceError):
        protocol.budget = hc.Budget(2)  # type: ignore[misc]
    assert protocol.name == name
    assert name.split(".", maxsplit=1)[0] == protocol.trust
    assert protocol.alphabet.bits >= 1
    assert all(math.isfinite(value) for value in protocol.parameters.values())


@every
@pytest.mark.parametrize(
    "values",
    [
        [0, 1, 3],
        [0, -1.5],
        [0.5, 2.5],
        [float("nan")],
        [float("inf")],
        ["1"],
        [None],
        [],
        [[0, 3]],
        [[0], [0, 1]],
        3,
        "101",
        [2**70],
        np.array([300], dtype=np.uint16),
        np.array([1 + 0j]),
    ],
    ids=str,
)
def test_bad_values_are_refused(name: str, task: hc.Task, values: Any) -> None:
    if isinstance(task, hc.Table | hc.Margins) and str(values) in ("[0, 1, 3]", "[[0, 1]]"):
        pytest.skip("these are pairs, or numbers of pairs")
    protocol = standard(name, task)
    with pytest.raises(hc.InvalidValue) as caught:
        protocol.randomize(values, hc.SeededSource(1))
    assert caught.value.code == "invalid-value"
    assert "must be" in caught.value.message


@every
def test_bad_messages_tallies_and_counts_are_refused(name: str, task: hc.Task) -> None:
    protocol = standard(name, task)
    for wrong in (np.array([7], np.int64), np.array([1.0]), np.ones((2, 7), np.uint8)):
        with pytest.raises(hc.InvalidValue):
            protocol.tally(hc.Batch(wrong, 200))
    right = np.full(protocol.estimator.tally_size, 1)
    for counts in (-right, np.append(right, 1)):
        with pytest.raises(hc.InvalidValue):
            protocol.estimate(hc.Tally(counts, 200, name, protocol.estimator.tally_modulus))
    with pytest.raises(hc.InvalidValue, match="must come from"):
        protocol.estimate(hc.Tally(right, 200, "another", protocol.estimator.tally_modulus))
    with pytest.raises(hc.InvalidValue, match="modulo"):
        protocol.estimate(hc.Tally(right, 200, name, 12345))
    lists = ([1], [1, 2, 3, 4, 5], [-1, 5, 5], [-1, 5], [0, 0], [0.5, 1.5], "ab", None)
    for people in (*lists, {}, {7: 300}, {0: -1, 1: 300}, {0: 0}, {0: 200.5}, {"a": 300}):
        with pytest.raises(hc.InvalidValue):
            protocol.simulate(typing.cast(Any, people), hc.SeededSource(1))


@every
def test_bad_options_are_refused(name: str, task: hc.Task) -> None:
    budget, crowd = hc.Budget(1, 1e-3), hc.Crowd(200)
    with pytest.raises(hc.UnknownName, match="takes the options calibration"):
        hc.protocol(name, task, budget, crowd, colour="red")
    with pytest.raises(hc.InvalidParameter, match="`calibration` must be one of exact, paper"):
        hc.protocol(name, task, budget, crowd, calibration="guess")
    wrong: Any = 1.0
    with pytest.raises(hc.InvalidParameter, match="`budget` must be a Budget"):
        hc.protocol(name, task, wrong, crowd)
    with pytest.raises(hc.InvalidParameter, match="`crowd` must be a Crowd"):
        hc.protocol(name, task, budget, wrong)
    with pytest.raises(hc.InvalidParameter, match="`task` must be a Task"):
        hc.protocol(name, wrong, budget, crowd)
