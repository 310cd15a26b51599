"""Shuffle protocols whose bundles are small enough to be sent: how fast they are set up and run."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import headcount as hc
from benchmarks.comparison import Comparison
from benchmarks.stopwatch import race, seconds

_COUNT, _HISTOGRAM = "shuffle.correlated", "shuffle.correlated-histogram"
_BUDGET = hc.Budget(1.0, 1e-6)
_HARD = hc.Budget(0.5, 1e-10)  # its laws of noise are long
_CROWD = 100_000
_ALLOWED = 3.0  # the seconds that a search may take
# The protocol, the number of its buckets, the budget and the options.
_SEARCHES: tuple[tuple[str, int, hc.Budget, dict[str, Any]], ...] = (
    (_COUNT, 0, _BUDGET, {"minimize": "slots"}),
    (_COUNT, 0, _BUDGET, {"max_slots": 10}),
    (_HISTOGRAM, 5, _BUDGET, {"minimize": "slots"}),
    (_HISTOGRAM, 5, _BUDGET, {"max_slots": 16}),
    (_HISTOGRAM, 50, _BUDGET, {"max_slots": 20}),
    (_HISTOGRAM, 5, _HARD, {"max_slots": 24}),
)
_PEOPLE = 10**7
_RANDOMIZED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("shuffle.noisy-shuffler", {}),
    (_COUNT, {"max_slots": 10}),
    ("shuffle.split-and-mix", {}),
)


def slot_searches(crowd: int = _CROWD) -> Iterator[Comparison]:
    """The search for noise with at most K messages per person, compared with the time allowed."""
    for number, (name, buckets, budget, options) in enumerate(_SEARCHES):
        task = hc.Histogram(buckets) if buckets else hc.Count()
        # Every search is for another crowd, so that it finds nothing in a cache.
        people = hc.Crowd(crowd - number)
        time = seconds(partial(hc.protocol, name, task, budget, people, **options))
        asked = ", ".join(f"{option}={value}" for option, value in options.items())
        kind = f"{buckets} buckets" if buckets else "count"
        hard = f", ε = {budget.epsilon:g}, δ = {budget.delta:g}" if budget is _HARD else ""
        subject = f"calibrate {name}, {kind}, {asked}{hard}"
        yield Comparison.of_times(subject, time, "time allowed", _ALLOWED, "≥ 1")


def bundles(people: int = _PEOPLE) -> Iterator[Comparison]:
    """Randomizing, compared with one message each, and with writing as many messages."""
    values = (np.random.default_rng(1).random(people) < 0.3).astype(np.uint8)
    source = hc.SecureSource()
    response = _protocol("local.randomized-response", people)
    for name, options in _RANDOMIZED:
        protocol = _protocol(name, people, **options)
        sent = protocol.randomize(values, source)
        held = values.astype(sent.payload.dtype)
        ours, one_each, written = race(
            partial(protocol.randomize, values, source),
            partial(response.randomize, values, source),
            partial(np.repeat, held, sent.counts),
            rounds=5,
        )
        each = len(sent.payload) / people
        subject = f"randomize {name}, {people:.0e} people, {each:.3g} messages each"
        yield Comparison.of_times(subject, ours, response.name, one_each, "≥ 1/5")
        if each > 1:
            peer = "numpy.repeat of as many messages"
            yield Comparison.of_times(subject, ours, peer, written, "–")


def _protocol(name: str, people: int, **options: Any) -> hc.Protocol:
    return hc.protocol(name, hc.Count(), _BUDGET, hc.Crowd(people), **options)
