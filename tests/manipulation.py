"""Dishonest people: bundles that nobody who follows a protocol would send, and what they do."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

import headcount as hc

MOST_LISTED = 4096
CLOSE = 1e-9


def size_of(column: range) -> int:
    """How many numbers a range has. `len` cannot tell for a range of 2^64."""
    return (column[-1] - column[0]) // column.step + 1


def list_messages(protocol: hc.Protocol, rng: np.random.Generator) -> list[Any]:
    """All messages of the alphabet, or its corners and some at random if there are too many."""
    columns = protocol.alphabet.columns
    if math.prod(map(size_of, columns)) <= MOST_LISTED:
        return list(itertools.product(*columns))
    corners = [tuple(column[end] for column in columns) for end in (0, -1)]
    words = rng.integers(2**64, size=(MOST_LISTED, len(columns)), dtype=np.uint64).tolist()
    drawn = [
        tuple(column[word % size_of(column)] for word, column in zip(row, columns, strict=True))
        for row in words
    ]
    return corners + drawn


def payload(protocol: hc.Protocol, rows: list[Any]) -> np.ndarray:
    """These messages as the analyzer gets them."""
    width = len(protocol.alphabet.columns)
    array = np.array(rows, dtype=object).reshape(-1, width).astype(protocol.alphabet.dtype)
    return array if width > 1 else array[:, 0]


def bundles(protocol: hc.Protocol, slots: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Bundles that alphabet and size admit: the same message in all slots, and random ones."""
    fixed = protocol.randomizer.fixed_messages is not None
    rows = list_messages(protocol, rng)
    for row in rows:
        yield payload(protocol, [row] * slots)
    if not fixed:
        yield payload(protocol, [])
    for _ in range(200):
        number = slots if fixed else int(rng.integers(slots + 1))
        few = [rows[i] for i in rng.integers(len(rows), size=min(number, 3))]
        yield payload(
            protocol, [few[i] for i in rng.integers(len(few), size=number)] if few else []
        )


def answer(protocol: hc.Protocol, messages: np.ndarray, users: int) -> np.ndarray:
    """The unbiased answer, times the number of people if it is an average. A mean is measured from
    its lowest value, and the series of a density from the even density. Of quantiles, it is how
    many people are below each edge: a curator draws quantiles from these numbers.
    """
    estimator, task = protocol.estimator, protocol.task
    counts = estimator.count(protocol.alphabet.messages(messages))
    counts = np.where(protocol.shuffler.passes(counts), counts, 0)
    tally = hc.Tally(counts, users, protocol.name, estimator.tally_modulus)
    if isinstance(task, hc.Quantiles) and protocol.trust is hc.Trust.CENTRAL:
        return np.cumsum(counts)[:-1]
    noise = hc.SeededSource(5)  # the curator's noise is the same for all
    value = np.atleast_1d(estimator.answer(users, estimator.computed(tally, noise)))
    if isinstance(task, hc.Mean):
        return users * (value - task.low)
    if isinstance(task, hc.Density):
        series = type(estimator).__name__ == "SeriesEstimator"
        return users * (value - series / float(task.span))
    return users * value if isinstance(task, hc.Distribution) else value


def added(protocol: hc.Protocol, others: np.ndarray, users: int, bundle: np.ndarray) -> np.ndarray:
    """What a bundle adds to the answer of others, for the crowd of the protocol."""
    together = np.concatenate([others, bundle])
    more: np.ndarray = answer(protocol, together, users + 1) - answer(protocol, others, users)
    average = isinstance(protocol.task, hc.Mean | hc.Density | hc.Distribution)
    return more / protocol.crowd.users if average else more


def crowd_of_others(protocol: hc.Protocol) -> Iterator[tuple[np.ndarray, int]]:
    """Honest people, whose answer a dishonest person shifts; with a bucket just below the threshold
    if there is one.
    """
    held: Any = protocol.task.example(protocol.crowd.users)
    counts = held.items() if isinstance(held, dict) else enumerate(held)
    values = [value for value, people in counts for _ in range(people)]
    yield protocol.randomize(values, hc.SeededSource(11)).payload, len(values)
    if protocol.shuffler.least_copies > 1:
        just_below = protocol.shuffler.least_copies - 1
        yield payload(protocol, [(0,)] * just_below), protocol.crowd.users
