"""What every registered protocol must keep: nobody can shift an answer by more than it states.

A new protocol is tested here by being registered.
"""

import itertools
import json
import math

import numpy as np
import pytest

import headcount as hc
from conformance import every, standard
from manipulation import CLOSE, added, answer, bundles, crowd_of_others, payload


@every
def test_nobody_shifts_an_answer_by_more_than_stated(name: str, task: hc.Task) -> None:
    """Bundles that are admitted attain the bounds."""
    protocol = standard(name, task)
    influence = protocol.influence
    if influence.any_answer:
        return
    rng = np.random.default_rng(3)
    up, down = -math.inf, math.inf
    for others, users in crowd_of_others(protocol):
        for bundle in bundles(protocol, int(influence.messages), rng):
            try:
                shift = added(protocol, others, users, bundle)
            except hc.InvalidValue:  # the analyzer refuses such messages
                continue
            up, down = max(up, shift.max()), min(down, shift.min())
    scale = influence.up - influence.down
    assert up == pytest.approx(influence.up, abs=CLOSE * scale)
    assert down == pytest.approx(influence.down, abs=CLOSE * scale)


@every
def test_any_answer_is_in_one_persons_hands(name: str, task: hc.Task) -> None:
    protocol = standard(name, task)
    influence = protocol.influence
    if not influence.any_answer:
        return
    assert influence.lost_message == math.inf
    others, users = next(crowd_of_others(protocol))
    columns = protocol.alphabet.columns
    assert len(set(columns)) == 1  # a message is one share, or one of each bucket
    # Of the others, the sum of levels or the counts are any numbers. One share makes them any
    # others modulo q.
    shares = np.linspace(0, len(columns[0]) - 1, 4001).astype(np.int64).tolist()
    rows = [(share,) * len(columns) for share in shares]
    if len(columns) > 1:
        # All buckets add up to the number of people. So one is largest if the others are smallest.
        rows, modulus = [], len(columns[0])
        high, sums = (users + modulus) // 2, protocol.estimator.count(others)
        low = high + 1 - modulus
        for bucket, (own, rest) in itertools.product(
            range(len(columns)), ((high, low), (low, high))
        ):
            wanted = [own if place == bucket else rest for place in range(len(columns))]
            rows.append(tuple(((np.array(wanted) - sums) % modulus).tolist()))
    messages = [payload(protocol, [row]) for row in rows]
    found = np.array([answer(protocol, np.concatenate([others, one]), users) for one in messages])
    if isinstance(task, hc.Mean):
        found = found / users + task.low
    assert influence.all_at_once == (found.shape[1] > 1)
    step = 1e-3 * (influence.up - influence.down)
    for places in found.T:
        assert influence.up - step < places.max() <= influence.up
        assert influence.down <= places.min() < influence.down + step


@every
def test_influence_is_told_in_words_and_numbers(name: str, task: hc.Task) -> None:
    influence = standard(name, task).influence
    assert influence.users == 200
    assert influence.up >= influence.down
    assert influence.up_against_honesty > 0
    assert influence.down_against_honesty > 0
    assert influence.lost_message > 0
    document = json.loads(json.dumps(influence.to_dict()))
    assert document["up"] == influence.up
    assert "dishonest person" in str(influence)
    assert "compared with honesty" in str(influence.table())
    nobody, all_people = influence.of_share(0), influence.of_share(1)
    assert (nobody.people, nobody.up, nobody.down) == (0, 0, 0)
    assert all_people.people == 200
    assert all_people.up >= influence.up
    assert all_people.up_over_error == all_people.up / influence.standard_error
    with pytest.raises(hc.InvalidParameter, match="`share` must be between 0 and 1"):
        influence.of_share(1.5)
