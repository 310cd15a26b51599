"""What an adversary sees of a protocol in each run.

In the local view, the adversary sees one person's messages. In the shuffle view, the adversary sees
all messages of a crowd without their order. In the central view, the adversary sees the release. In
the shuffler view, the adversary is a shuffler that knows the noise it added, and sees the release.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, combinations, pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.auditor.features import Outputs
from headcount.auditor.sampling import Mechanism
from headcount.auditor.view import View
from headcount.core import checks
from headcount.core.budget import Trust
from headcount.core.errors import InvalidParameter
from headcount.core.estimate import Answer, Estimate
from headcount.core.messages import Batch, Messages
from headcount.core.protocol import Protocol
from headcount.core.quantiles import QuantilesEstimate
from headcount.core.shuffler import joined
from headcount.core.source import Source
from headcount.core.task import all_codes
from headcount.randomness.draws import permutation
from headcount.randomness.sources import SecureSource
from headcount.road.pieces import collect
from headcount.road.road import run
from headcount.road.shuffler import shuffle

_PEOPLE = 1 << 20  # the messages of about this many people are made at a time
_KINDS = 1024  # with more kinds of messages, the shuffle view shows only the estimate


def checked_view(view: object, target: Any) -> View:
    """The view with this name. The shuffler view is refused if the shuffler adds no noise."""
    seen = View(checks.choice("view", view, tuple(View)))
    adds = isinstance(target, Protocol) and target.shuffler.adds
    if seen is View.SHUFFLER and not adds:
        raise InvalidParameter(
            "`view` must be local, shuffle or central unless the shuffler adds noise, got shuffler"
        )
    return seen


def view_of(protocol: Protocol, view: View, source: Source) -> Mechanism:
    """A mechanism whose outputs are what an adversary with this view sees of the protocol. In the
    local view, a dataset is one person's value. In the other views, it holds the values of a crowd.
    """
    views = {
        View.LOCAL: _alone,
        View.SHUFFLE: _shuffled,
        View.CENTRAL: _released,
        View.SHUFFLER: _published,
    }
    return lambda dataset, count: views[view](protocol, dataset, count, source)


def promised(protocol: Protocol, view: View, delta: float | None) -> tuple[float | None, float]:
    """The ε and δ that a protocol claims for a view. If `delta` is given, the claim is for
    this δ. The ε is None if the protocol claims nothing for the view.

    If the view shows no more than the view of the protocol's trust model, the claim is the
    protocol's guarantee. Otherwise the claim is the ε of one person's messages alone. For the
    shuffler view, there is a claim only if the analyzer adds noise to the release.
    """
    if view is View.SHUFFLER:
        return protocol.guarantee.epsilon if protocol.estimator.adds_noise else None, delta or 0.0
    order = tuple(View)
    if order.index(view) >= order.index(View(protocol.trust)):
        known = protocol.guarantee
        at = known.delta if delta is None else delta
        epsilon = known.epsilon if delta is None else protocol.curve.epsilon(delta)
    else:
        at, epsilon = delta or 0.0, protocol.local_epsilon
    return None if math.isinf(epsilon) else epsilon, at


def neighbors(protocol: Protocol, view: View) -> list[tuple[Any, Any]]:
    """Pairs of datasets to try. The datasets of a pair differ in one person's value. Either all
    other people hold the first of these two values, or all hold the second, or they are split
    evenly between the two, or all hold a third value.
    """
    values = some_values(protocol)
    pairs = list(combinations(values, 2))
    if view is View.LOCAL:
        return pairs
    others = (seen_people(protocol) if view is View.SHUFFLE else protocol.crowd.users) - 1
    crowds = []
    for one, other in pairs:
        third = next((value for value in values if value not in (one, other)), one)
        half = [one] * (others // 2) + [other] * (others - others // 2)
        for rest in ([one] * others, [other] * others, half, [third] * others):
            if ([*rest, one], [*rest, other]) not in crowds:
                crowds.append(([*rest, one], [*rest, other]))
    return crowds


def seen_people(protocol: Protocol) -> int:
    """The number of people whose messages hide each other in the shuffle view. These are the honest
    people. If the shuffler adds the noise, honesty does not matter, and everybody is counted.
    """
    return protocol.crowd.users if protocol.shuffler.adds else protocol.crowd.honest


def some_values(protocol: Protocol) -> Sequence[Any]:
    """Some values that people may hold: up to three listed values, or both ends and the middle of
    a range.
    """
    task = protocol.task
    # The task `Distribution` encodes values as indices of cells, so it is `numbered`. But people
    # hold values from its range. For such a task, `task.bounded` is the task itself.
    if task.bounded is None or (task.numbered and task.bounded is not task):
        held: Sequence[Any]
        if task.open_values and task.buckets:
            held = task.buckets
        else:
            held = task.listed_values or all_codes(task)
        return list(dict.fromkeys([held[0], held[-1], *held[1:2]]))
    low, high = task.bounded.low, task.bounded.high
    middle = (low + high) / 2
    return [low, high, math.floor(middle) if task.bounded.whole else middle]


def crowd_of(randomizer: Mechanism) -> Mechanism:
    """A mechanism that randomizes each person's value and returns all messages in random order."""

    def seen(dataset: Any, count: int) -> Outputs:
        columns = [randomizer(value, count) for value in dataset]
        if all(isinstance(column, np.ndarray) and column.ndim == 1 for column in columns):
            return _mixed(np.stack(columns, axis=1))
        rows = ([m for sent in row for m in _messages(sent)] for row in zip(*columns, strict=True))
        source = SecureSource()
        return [[row[at] for at in permutation(source, len(row))] for row in rows]

    return seen


def _messages(sent: Any) -> Sequence[Any]:
    return list(sent) if isinstance(sent, list | tuple | np.ndarray) else [sent]


def _mixed(rows: NDArray[Any]) -> NDArray[Any]:
    """The rows, with the elements of each row in a random order."""
    keys = SecureSource().integers(rows.size, np.uint64).reshape(rows.shape)
    return np.take_along_axis(rows, np.argsort(keys, axis=1), axis=1)


def _alone(protocol: Protocol, value: Any, count: int, source: Source) -> Outputs:
    """One person's messages in each of `count` runs. If everybody sends one message, and a message
    has several numbers, the tally of the message is appended, because the tally may show more than
    each number alone.
    """
    sent = protocol.randomize([value] * count, source)
    if protocol.randomizer.fixed_messages == 1:
        if sent.payload.ndim == 1:
            return sent.payload
        rows, which = np.unique(sent.payload, axis=0, return_inverse=True)
        told = [protocol.tally(Batch(row[None], 1)).counts for row in rows]
        return np.hstack([sent.payload.astype(np.int64), np.array(told)[which]])
    ends = accumulate(sent.counts.tolist(), initial=0)
    return [sent.payload[start:stop].tolist() for start, stop in pairwise(ends)]


def _shuffled(
    protocol: Protocol, dataset: Sequence[Any], count: int, source: Source
) -> NDArray[Any]:
    """What the adversary sees of the shuffled messages in each of `count` runs.

    If there are few kinds of messages, this is the number of copies of each kind. Unless everybody
    sends exactly one message, the estimate is appended, because the estimate may show more than
    each number of copies alone. If there are many kinds of messages, only the estimate is shown.
    """
    at_once = max(1, _PEOPLE // len(dataset))
    few = math.prod(map(_size, protocol.alphabet.columns)) <= _KINDS
    seen = []
    for start in range(0, count, at_once):
        runs = min(at_once, count - start)
        sent = protocol.randomize(list(dataset) * runs, source)
        show = _counted if few else _tallied
        seen.append(show(protocol, sent, runs, source))
    return np.concatenate(seen)


def _counted(protocol: Protocol, sent: Messages, runs: int, source: Source) -> NDArray[Any]:
    copies = _copies(protocol, sent, runs, source)
    if protocol.randomizer.fixed_messages == 1:
        return copies
    people = sent.users // runs
    kinds = np.array(list(product(*protocol.alphabet.columns)), dtype=protocol.alphabet.dtype)
    kinds = kinds if sent.payload.ndim > 1 else kinds[:, 0]
    rows, which = np.unique(copies, axis=0, return_inverse=True)  # few rows are distinct
    told = [_estimate(protocol, Batch(np.repeat(kinds, row, axis=0), people)) for row in rows]
    return np.hstack([copies, np.array(told)[which]])


def _tallied(protocol: Protocol, sent: Messages, runs: int, source: Source) -> NDArray[Any]:
    crowds = _crowds(protocol, sent, runs, source)
    return np.array([_estimate(protocol, crowd) for crowd in crowds])


def _estimate(protocol: Protocol, crowd: Batch) -> NDArray[np.float64]:
    """The estimate before post-processing. The size of `crowd` may differ from the size of the
    protocol's crowd.
    """
    return np.atleast_1d(protocol.estimator.computed(protocol.tally(crowd), None))


def _size(column: range) -> int:
    """The number of elements of a range. `len` fails for very long ranges."""
    return (column[-1] - column[0]) // column.step + 1


def _copies(protocol: Protocol, sent: Messages, runs: int, source: Source) -> NDArray[np.int64]:
    """The number of copies of each message that the shuffler passes on, with one row per run."""
    people = sent.users // runs
    shuffler = protocol.shuffler
    sent = shuffler.admitted(sent)
    kinds = math.prod(map(len, protocol.alphabet.columns))
    run = np.repeat(np.arange(sent.users) // people, sent.counts)
    places = run * kinds + _codes(protocol, sent.payload)
    copies = np.bincount(places, minlength=runs * kinds).reshape(runs, kinds)
    if shuffler.adds:
        for row in copies:
            noise = shuffler.noise(people, source)
            added = np.bincount(_codes(protocol, noise.messages), minlength=kinds)
            row[:] = added if noise.alone else row + added
    return np.where(shuffler.passes(copies), copies, 0)


def _codes(protocol: Protocol, payload: NDArray[Any]) -> NDArray[np.int64]:
    """The position of each message in the alphabet."""
    columns = protocol.alphabet.columns
    code = np.zeros(len(payload), dtype=np.int64)
    for column, values in zip(columns, payload.reshape(len(payload), -1).T, strict=True):
        code = code * len(column) + (values.astype(np.int64) - column[0]) // column.step
    return code


def _crowds(protocol: Protocol, sent: Messages, runs: int, source: Source) -> Iterator[Batch]:
    """The messages that the shuffler passes on in each run."""
    shuffler = protocol.shuffler
    people = sent.users // runs
    ends = accumulate(np.asarray(sent.counts).reshape(runs, people).sum(axis=1).tolist(), initial=0)
    for number, (start, stop) in enumerate(pairwise(ends)):
        whose = sent.counts[number * people : (number + 1) * people]
        crowd = Messages(sent.payload[start:stop], people, whose)
        # A tally does not depend on the order of messages. So messages are only shuffled if the
        # shuffler also withholds or adds some.
        changed = shuffler.withholds or shuffler.adds
        yield shuffle(crowd, source, protocol) if changed else crowd


def _published(
    protocol: Protocol, dataset: Sequence[Any], count: int, source: Source
) -> NDArray[np.float64]:
    """The release, and the release minus the shuffler's noise, in each of `count` runs."""
    people, rows = len(dataset), []
    for _ in range(count):
        sent = protocol.randomize(dataset, source)
        noise = protocol.shuffler.noise(people, source)
        payload = joined(noise, sent.payload)
        tally = protocol.tally(Batch(payload, people))
        release = np.atleast_1d(protocol.estimator.computed(tally, source))
        added = protocol.estimator.count(noise.messages)[-len(release) :]
        rows.append(np.concatenate([release, release - added]))
    return np.array(rows)


def _released(
    protocol: Protocol, dataset: Sequence[Any], count: int, source: Source
) -> NDArray[np.float64]:
    if protocol.trust is Trust.CENTRAL and protocol.task.whole_answers:
        tally = collect(protocol, dataset, source)  # this step is not random
        return np.array([_told(protocol.estimate(tally, source)) for _ in range(count)])
    return np.array([_told(run(protocol, dataset, source)) for _ in range(count)])


def _told(estimate: Estimate) -> Answer:
    """The value of an estimate, or the shares from which quantiles were read."""
    read = isinstance(estimate, QuantilesEstimate)
    return estimate.unbiased_value if read else estimate.value
