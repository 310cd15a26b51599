"""Frequency oracles, compared with two libraries for local privacy.

Clients and servers are timed separately.

The libraries make a call for each person. They are timed on the data of some of the people, which
takes a few seconds, and their time is scaled up. Headcount is timed on the data of all people.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import headcount as hc
from benchmarks.comparison import Comparison
from benchmarks.processes import in_new_process, peak
from benchmarks.stopwatch import race, seconds

_EPSILON = 1.0
_CROWDS = (10**5, 10**6)
_BUCKETS = (16, 128, 1024)
_SECONDS = 1.0  # about how long a library's client or server is timed
_MOST = 20_000  # the maximum number of people for whom a library is timed


@dataclass(frozen=True)
class Library:
    """An oracle of another library. A client makes one report, and a server counts reports."""

    name: str
    client: Callable[[int], Any]
    server: Callable[[list[Any]], Any]


def pure_ldp(oracle: str, buckets: int) -> Library | None:
    from pure_ldp.frequency_oracles import direct_encoding, local_hashing, unary_encoding
    from pure_ldp.frequency_oracles.hadamard_mechanism import (
        HadamardMechClient,
        HadamardMechServer,
    )

    kinds: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "local.k-ary": (direct_encoding.DEClient, direct_encoding.DEServer, {}),
        "local.unary-symmetric": (
            unary_encoding.UEClient,
            unary_encoding.UEServer,
            {"use_oue": False},
        ),
        "local.unary-optimized": (
            unary_encoding.UEClient,
            unary_encoding.UEServer,
            {"use_oue": True},
        ),
        "local.hashing": (local_hashing.LHClient, local_hashing.LHServer, {"use_olh": True}),
        "local.hadamard": (HadamardMechClient, HadamardMechServer, {"t": 1}),
    }
    if oracle not in kinds:
        return None
    client, server, options = kinds[oracle]
    people = client(_EPSILON, buckets, **options)

    def estimate(reports: list[Any]) -> Any:
        analyzer = server(_EPSILON, buckets, **options)
        for report in reports:
            analyzer.aggregate(report)
        return analyzer.estimate(1, suppress_warnings=True)

    return Library("pure-ldp", lambda item: people.privatise(item + 1), estimate)


def multi_freq_ldpy(oracle: str, buckets: int) -> Library | None:
    from multi_freq_ldpy.pure_frequency_oracles import GRR, LH, SS, UE

    def unary(optimal: bool) -> tuple[Any, Any]:
        return (
            lambda item: UE.UE_Client(item, buckets, _EPSILON, optimal),
            lambda reports: UE.UE_Aggregator_MI(reports, _EPSILON, optimal),
        )

    kinds: dict[str, tuple[Any, Any]] = {
        "local.k-ary": (
            lambda item: GRR.GRR_Client(item, buckets, _EPSILON),
            lambda reports: GRR.GRR_Aggregator_MI(reports, buckets, _EPSILON),
        ),
        "local.unary-symmetric": unary(False),
        "local.unary-optimized": unary(True),
        "local.hashing": (
            lambda item: LH.LH_Client(item, buckets, _EPSILON),
            lambda reports: LH.LH_Aggregator_MI(reports, buckets, _EPSILON),
        ),
        "local.subset": (
            lambda item: SS.SS_Client(item, buckets, _EPSILON),
            lambda reports: SS.SS_Aggregator_MI(reports, buckets, _EPSILON),
        ),
    }
    return Library("multi-freq-ldpy", *kinds[oracle]) if oracle in kinds else None


def oracle_comparisons() -> Iterator[Comparison]:
    """Each oracle that a library has, compared with the faster library."""
    for oracle in hc.protocol_names(hc.Histogram(2), hc.Trust.LOCAL):
        for buckets in _BUCKETS:
            built = [library(oracle, buckets) for library in (pure_ldp, multi_freq_ldpy)]
            libraries = [library for library in built if library]
            for people in _CROWDS:
                yield from _compared(oracle, buckets, people, libraries)


def _compared(
    oracle: str, buckets: int, people: int, libraries: Sequence[Library]
) -> Iterator[Comparison]:
    values = np.random.default_rng(1).integers(0, buckets, people)
    protocol = hc.protocol(oracle, hc.Histogram(buckets), hc.Budget(_EPSILON), hc.Crowd(people))
    source = hc.SecureSource()
    messages = protocol.randomize(values, source)
    for library in libraries:
        library.server([library.client(item) for item in values[:50].tolist()])  # compiles
    theirs = [_times(library, values) for library in libraries]
    ours = race(
        partial(protocol.randomize, values, source), partial(protocol.tally, messages), rounds=5
    )
    again = [_times(library, values) for library in libraries]  # the machine may have been busy
    for side, time, wanted in (
        (0, ours[0], "≥ 25" if oracle == "local.subset" else "≥ 40"),
        (1, ours[1], "≥ 30"),
    ):
        times = [min(one[side], other[side]) for one, other in zip(theirs, again, strict=True)]
        fastest = int(np.argmin(times))
        subject = f"{('client', 'server')[side]} of {oracle}, d = {buckets}, {people:,} people"
        yield Comparison.of_times(
            subject, time, libraries[fastest].name, times[fastest] * people, wanted
        )


def _times(library: Library, values: Any) -> tuple[float, float]:
    """The seconds per person of the client and of the server."""
    few = values[:20].tolist()
    sent = [library.client(item) for item in few]
    each = max(seconds(lambda: [library.client(item) for item in few]) / len(few), 1e-9)
    served = max(seconds(partial(library.server, sent)) / len(few), 1e-9)
    items = values[: _enough(each)].tolist()
    reports: list[Any] = []
    client = seconds(lambda: reports.extend(library.client(item) for item in items))
    some = reports[: _enough(served)]
    return client / len(items), seconds(partial(library.server, some)) / len(some)


def _enough(time: float) -> int:
    return max(50, min(_MOST, int(_SECONDS / time)))


def memory_comparisons() -> Iterator[Comparison]:
    """The peak memory of a process with ten million people, compared with 2 GiB."""
    for how in ("run", "all messages at once"):
        used = in_new_process(most_memory, how)
        subject = f"local.unary-optimized, d = 128, 10⁷ people, {how}"
        yield Comparison.of_memory(subject, used, 2)


def most_memory(how: str) -> int:
    """The peak memory of this process in bytes."""
    people = 10**7
    values = np.random.default_rng(1).integers(0, 128, people, dtype=np.uint8)
    task, budget = hc.Histogram(128), hc.Budget(_EPSILON)
    protocol = hc.protocol("local.unary-optimized", task, budget, hc.Crowd(people))
    if how == "run":
        hc.run(protocol, values)
    else:
        protocol.tally(protocol.randomize(values, hc.SecureSource()))
    return peak()
