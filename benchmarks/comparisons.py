"""The comparisons with peers. Each function yields lines of the table."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

import headcount as hc
from benchmarks import (
    bundles,
    collection,
    distributions,
    large,
    oracles,
    pages,
    peers,
    real_data,
    surveys,
    tables,
)
from benchmarks.comparison import Comparison
from benchmarks.processes import program
from benchmarks.stopwatch import race, seconds
from headcount.randomness.draws import bernoulli
from headcount.randomness.totals import table

_EPSILON = 1.0
_LIE_WEIGHT = int(2**64 / (1 + math.exp(_EPSILON)))
_PEOPLE = 10**8
_FEWER_PEOPLE = 10**6  # for peers that make a call for each person
_MORE_PEOPLE = 10**9


def secure_bits() -> Iterator[Comparison]:
    """Secure and exact biased bits, compared with bits that are neither secure nor exact."""
    source = hc.SecureSource()
    forms = _numpy_forms()
    ours, *times = race(
        lambda: bernoulli(source, _PEOPLE, _LIE_WEIGHT), *(form.lies for form in forms), rounds=15
    )
    for form, time, wanted in zip(forms, times, ("≥ 6", "–", "–"), strict=True):
        yield Comparison.of_times("biased bits, 10⁸", ours, form.name, time, wanted)


def whole_path() -> Iterator[Comparison]:
    """Randomized response from values to the estimate, including checks of values and messages."""
    values = _values(_PEOPLE)
    protocol = _protocol("local.randomized-response", _PEOPLE)
    forms = _numpy_forms()
    estimates = [partial(form.estimate, values) for form in forms]
    ours, *times = race(lambda: hc.run(protocol, values), *estimates, rounds=15)
    for form, time, wanted in zip(forms, times, ("≥ 2", "–", "–"), strict=True):
        yield Comparison.of_times(f"{protocol.name}, 10⁸ people", ours, form.name, time, wanted)


def libraries() -> Iterator[Comparison]:
    """The same path in other libraries."""
    values = _values(_FEWER_PEOPLE)
    protocol = _protocol("local.randomized-response", _FEWER_PEOPLE)
    subject = f"{protocol.name}, 10⁶ people"
    for name, prepare in (
        ("pure-ldp", peers.pure_ldp),
        ("multi-freq-ldpy", peers.multi_freq_ldpy),
    ):
        try:
            estimate = prepare(values, _EPSILON)
        except ImportError as error:  # its text may contain a path of this machine
            reason = f"not measured: {error.name} cannot be imported"
            yield Comparison(subject, "–", name, reason, None, "≥ 50")
        else:
            ours, theirs = race(lambda: hc.run(protocol, values), estimate, rounds=7)
            yield Comparison.of_times(subject, ours, name, theirs, "≥ 50")


def sparse_noise() -> Iterator[Comparison]:
    """The correlated count, compared with one message per person, and with a loop over people."""
    people = 10**7
    values = _values(people)
    source = hc.SecureSource()
    correlated = _protocol("shuffle.correlated", people)
    response = _protocol("local.randomized-response", people)
    ours, one_each = race(
        lambda: correlated.randomize(values, source),
        lambda: response.randomize(values, source),
        rounds=15,
    )
    subject = f"randomize {correlated.name}, 10⁷ people"
    yield Comparison.of_times(subject, ours, response.name, one_each, "≥ 1/5")
    few = values[:2000]
    loop = seconds(lambda: [correlated.randomize([value], source) for value in few])
    theirs = loop * people / len(few)
    peer = "one call per person for 2,000 people, times 5,000"
    yield Comparison.of_times(subject, ours, peer, theirs, "≥ 50")


def shares() -> Iterator[Comparison]:
    """Split and mix, from numbers to their sum, compared with drawing a word for each share."""
    people = _FEWER_PEOPLE
    source = hc.SecureSource()
    reals = np.random.default_rng(1).random(people)
    tasks = {"reals": hc.Mean(0, 1), "whole numbers": hc.Sum(0, 1000, whole=True)}
    for kind, task in tasks.items():
        values = reals if kind == "reals" else (1000 * reals).astype(np.int64)
        protocol = hc.protocol(
            "shuffle.split-and-mix", task, hc.Budget(_EPSILON, 1e-12), hc.Crowd(people)
        )
        sent = int(protocol.messages_per_user)
        ours, words = race(
            partial(_shared, protocol, values, source),
            partial(source.integers, people * sent, np.uint64),
            rounds=15,
        )
        subject = f"randomize and tally {protocol.name}, 10⁶ {kind}, {sent} shares"
        peer = "the same number of random 8-byte words"
        yield Comparison.of_times(subject, ours, peer, words, "≥ 1/4")


def _shared(protocol: hc.Protocol, values: NDArray[Any], source: hc.Source) -> hc.Tally:
    return protocol.tally(protocol.randomize(values, source))


def calibrations() -> Iterator[Comparison]:
    """From a new budget to parameters, compared with the time allowed."""
    budget, crowd = hc.Budget(_EPSILON, 1.01e-6), hc.Crowd(99_991)
    wishes = {"shuffle.correlated": {"max_messages": 1.03}}
    tasks: tuple[hc.Task, ...] = (
        hc.Count(),
        hc.Mean(0, 1),
        hc.Sum(0, 8, whole=True),
        hc.Histogram(50),
    )
    for task in tasks:
        for name in hc.protocol_names(task, hc.Trust.SHUFFLE):
            build = partial(hc.protocol, name, task, budget, crowd, **wishes.get(name, {}))
            allowed = 5.0 if "correlated" in name else 2.0
            subject = f"calibrate {name}, {task.name}"
            yield Comparison.of_times(subject, seconds(build), "time allowed", allowed, "≥ 1")


def plans() -> Iterator[Comparison]:
    """A program that is started anew: once with an empty cache, and once with its plan cached."""
    tasks = {
        "count": "Count()",
        "sum": "Sum(0, 100, whole=True)",
        "mean": "Mean(0, 1)",
        "histogram": "Histogram(50)",
        "density": "Density(0, 1)",
    }
    for task, noun in tasks.items():
        line = f"import headcount as hc; hc.plan(hc.{noun}, hc.Budget(1, 1e-6), hc.Crowd(100_000))"
        with program("-c", line) as ask:
            cold = seconds(ask)
            warm = min(seconds(ask) for _ in range(5))
        yield Comparison.of_times(f"plan a {task}, cold", cold, "time allowed", 10.0, "≥ 1")
        yield Comparison.of_times(f"plan a {task}, warm", warm, "time allowed", 0.3, "≥ 1")


def simulations() -> Iterator[Comparison]:
    """A tally drawn without messages from new tables, compared with the path with all messages.

    That path is timed once, for a tenth of the people, and its time is multiplied by ten.
    """
    values = _values(_PEOPLE)
    for name in hc.protocol_names(hc.Count()):
        path = seconds(partial(hc.run, _protocol(name, _PEOPLE), values))
        theirs = path * _MORE_PEOPLE / _PEOPLE
        (ours,) = race(partial(_simulate, _protocol(name, _MORE_PEOPLE)), rounds=15)
        peer = "its own messages for 10⁸ people, times 10"
        yield Comparison.of_times(f"simulate {name}, 10⁹ people", ours, peer, theirs, "below 1 s")


def keystream() -> Iterator[Comparison]:
    """Random bytes in memory, compared with the bare cipher in the cache, which is the limit."""
    source = hc.SecureSource()
    large = np.empty(1 << 29, dtype=np.uint8)
    piece, zeros = bytearray(1 << 18), bytes(1 << 18)
    cipher = Cipher(algorithms.AES(bytes(32)), modes.CTR(bytes(16))).encryptor()

    def bare() -> None:
        for _ in range(len(large) // len(piece)):
            cipher.update_into(zeros, piece)

    ours, theirs = race(lambda: source.fill(large), bare, rounds=15)
    speed, roof = (f"{len(large) / time / 1e9:.2f} GB/s" for time in (ours, theirs))
    peer = "bare AES-256-CTR, into one buffer of 256 KiB"
    yield Comparison("random bytes, 512 MiB", speed, peer, roof, theirs / ours)


def _numpy_forms() -> list[peers.PlainNumpy]:
    probability = _LIE_WEIGHT / 2**64
    return [
        peers.PlainNumpy(_PEOPLE, probability),
        peers.ThriftyNumpy(_PEOPLE, probability, piece=_PEOPLE),
        peers.ThriftyNumpy(_PEOPLE, probability, piece=1 << 15),
    ]


def _values(people: int) -> peers.Values:
    """Random values: a yes with probability 0.3."""
    return (np.random.default_rng(1).random(people) < 0.3).astype(np.uint8)


def _protocol(name: str, people: int) -> hc.Protocol:
    return hc.protocol(name, hc.Count(), hc.Budget(_EPSILON, 1e-6), hc.Crowd(people))


def _simulate(protocol: hc.Protocol) -> hc.Tally:
    users = protocol.crowd.users
    table.cache_clear()
    return protocol.simulate([users - users * 3 // 10, users * 3 // 10], hc.SecureSource())


SECTIONS: dict[str, Callable[[], Iterator[Comparison]]] = {
    "bits": secure_bits,
    "path": whole_path,
    "libraries": libraries,
    "oracles": oracles.oracle_comparisons,
    "memory": oracles.memory_comparisons,
    "tables": tables.table_comparisons,
    "reals": real_data.reals,
    "persons": real_data.persons,
    "folders": real_data.folders,
    "curator": real_data.curator_noise,
    "start": real_data.command_line,
    "trees": distributions.trees,
    "large": large.large_reals,
    "large-tables": large.large_tables,
    "noise": sparse_noise,
    "bundles": bundles.bundles,
    "shares": shares,
    "calibrations": calibrations,
    "slots": bundles.slot_searches,
    "plans": plans,
    "distribution-plans": distributions.distribution_plans,
    "surveys": surveys.surveys,
    "simulations": simulations,
    "keystream": keystream,
    "collection": collection.collection,
    "pages": pages.pages,
}
