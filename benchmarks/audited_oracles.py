"""Frequency oracles of pure-ldp and multi-freq-ldpy. Each output is one person's report."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.audited import Audited, each

_FLOATS = (
    "the noise and the answer are floats, and the last bits of their sum reveal the value (Mironov "
    "2012); with exact numbers, the claim would hold"
)


def _supported(report: tuple[int, int], size: int, items: tuple[int, int]) -> tuple[bool, bool]:
    """Whether a hashed report supports each of two items. A server uses nothing else of it."""
    import xxhash

    value, seed = report
    one, other = (xxhash.xxh32(str(item), seed=int(seed)).intdigest() % size for item in items)
    return bool(one == value), bool(other == value)


def pure_ldp() -> Iterator[Audited]:
    """Items are numbered from 1, but hash functions take numbers from 0."""
    from pure_ldp.frequency_oracles.apple_cms import CMSClient
    from pure_ldp.frequency_oracles.direct_encoding import DEClient
    from pure_ldp.frequency_oracles.hadamard_mechanism import HadamardMechClient
    from pure_ldp.frequency_oracles.hadamard_response import (
        HadamardResponseClient,
        HadamardResponseServer,
    )
    from pure_ldp.frequency_oracles.histogram_encoding import HEClient
    from pure_ldp.frequency_oracles.local_hashing import FastLHClient, LHClient
    from pure_ldp.frequency_oracles.unary_encoding import UEClient

    def case(name: str, epsilon: float, call: Callable[[Any], Any], **more: Any) -> Audited:
        return Audited("pure-ldp", name, epsilon, each(call), [(1, 2), (1, 4), (3, 4)], **more)

    for epsilon in (0.2, 1.0, 5.0):
        yield case("DEClient, d=4", epsilon, DEClient(epsilon, 4).privatise)
    yield case("UEClient, symmetric, d=4", 1.0, UEClient(1.0, 4).privatise, runs=30_000)
    yield case("UEClient, optimized, d=4", 1.0, UEClient(1.0, 4, use_oue=True).privatise)
    for name, client in (
        ("LHClient, binary", LHClient(1.0, 4)),
        ("LHClient, optimized", LHClient(1.0, 4, use_olh=True)),
        ("FastLHClient, 50 hashes", FastLHClient(1.0, 4, 50, use_olh=True)),
    ):

        def hashed(item: int, client: Any = client) -> Any:
            # Each output shows what the report says about items 1 and 4, the pair of the audit.
            return _supported(client.privatise(item), client.g, (0, 3))

        yield Audited("pure-ldp", f"{name}, d=4", 1.0, each(hashed), [(1, 4)], runs=100_000)
    for epsilon in (0.3, 1.0, 3.0):
        client = HadamardMechClient(epsilon, 4, 1, use_optimal_t=True)

        def rows(item: int, client: Any = client) -> Any:
            return [number for pair in client.privatise(item) for number in pair]

        yield case(f"HadamardMechClient, d=4, t={client.t}", epsilon, rows)
    for epsilon in (0.3, 1.0, 3.0):
        keys = HadamardResponseServer(epsilon, 4).get_hash_funcs()
        response = HadamardResponseClient(epsilon, 4, keys)
        yield case("HadamardResponseClient, d=4", epsilon, response.privatise)
    sketch = CMSClient(1.0, [lambda item: int(item) % 4], 4)
    yield case("CMSClient, 1 hash, m=4", 1.0, lambda item: sketch.privatise(item)[0], runs=30_000)
    yield case("HEClient, d=4", 1.0, HEClient(1.0, 4).privatise, runs=30_000, reason=_FLOATS)
    yield _rappor()


def _rappor() -> Audited:
    from pure_ldp.frequency_oracles.rappor import RAPPORClient

    # There are two items with one bit each, so only f hides them.
    client = RAPPORClient(0.5, 4, [[lambda index: int(index) % 4]], num_of_cohorts=1)
    return Audited(
        "pure-ldp",
        "RAPPORClient, f=0.5, 1 hash, m=4",
        client.convert_f_to_eps(0.5, 1),
        each(lambda item: client.privatise(item)[0]),
        [(1, 2)],
        reason="`_perturb` sets bits to 1 and never to 0: a set bit is always sent, so a 0 in its "
        "place rules the item out, and no finite ε holds",
    )


def multi_freq_ldpy() -> Iterator[Audited]:
    from multi_freq_ldpy.long_freq_est.L_GRR import L_GRR_Client
    from multi_freq_ldpy.long_freq_est.L_OSUE import L_OSUE_Client
    from multi_freq_ldpy.long_freq_est.L_SUE import L_SUE_Client
    from multi_freq_ldpy.mdim_freq_est.SMP_solution import SMP_GRR_Client
    from multi_freq_ldpy.mdim_freq_est.SPL_solution import SPL_GRR_Client
    from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client
    from multi_freq_ldpy.pure_frequency_oracles.HE import HE_Client
    from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Client
    from multi_freq_ldpy.pure_frequency_oracles.SS import SS_Client
    from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Client

    def case(name: str, epsilon: float, call: Callable[[Any], Any], **more: Any) -> Audited:
        return Audited("multi-freq-ldpy", name, epsilon, each(call), [(0, 1), (0, 3)], **more)

    for small in (0.2, 1.0, 5.0):
        yield case("GRR_Client, k=4", small, partial(GRR_Client, k=4, epsilon=small))
    for optimal in (False, True):
        name = "optimized" if optimal else "symmetric"
        yield case(
            f"UE_Client, {name}, k=4", 1.0, partial(UE_Client, k=4, epsilon=1.0, optimal=optimal)
        )
        size = round(math.e) + 1 if optimal else 2

        def hashed(value: int, optimal: bool = optimal, size: int = size) -> Any:
            return _supported(LH_Client(value, 4, 1.0, optimal=optimal), size, (0, 3))

        name = "optimized" if optimal else "binary"
        yield Audited(
            "multi-freq-ldpy", f"LH_Client, {name}, k=4", 1.0, each(hashed), [(0, 3)], runs=100_000
        )

    def subset(value: int, epsilon: float) -> Any:
        return np.sort(SS_Client(value, 6, epsilon))

    for small in (0.3, 1.0):
        yield case("SS_Client, k=6, as a set", small, partial(subset, epsilon=small))
    yield case(
        "SS_Client, k=6, in order",
        0.3,
        lambda v: SS_Client(v, 6, 0.3),
        reason="the set is sent as a list, and the true value comes first if it is in the set; "
        "without the order, the claim would hold",
    )
    yield case("HE_Client, k=4", 1.0, lambda v: HE_Client(v, 4, 1.0), runs=30_000, reason=_FLOATS)
    yield case("L_GRR_Client, k=4, first report", 1.0, lambda v: L_GRR_Client(v, 4, 2.0, 1.0))
    yield case("L_SUE_Client, k=4, first report", 1.0, lambda v: L_SUE_Client(v, 4, 2.0, 1.0))
    yield case("L_OSUE_Client, k=4, first report", 1.0, lambda v: L_OSUE_Client(v, 4, 2.0, 1.0))
    whole: dict[str, Any] = {"relation": "any two records of three attributes"}
    pairs = [((0, 0, 0), (1, 1, 1))]
    for named, record in (("SPL_GRR_Client", SPL_GRR_Client), ("SMP_GRR_Client", SMP_GRR_Client)):
        yield Audited(
            "multi-freq-ldpy",
            f"{named}, k=2, d=3",
            1.0,
            each(partial(record, lst_k=[2, 2, 2], d=3, epsilon=1.0)),
            pairs,
            **whole,
        )
    yield from _fake_data(pairs, whole)


def _fake_data(pairs: Any, whole: dict[str, Any]) -> Iterator[Audited]:
    from multi_freq_ldpy.mdim_freq_est.RSpFD_solution import (
        RSpFD_GRR_Client,
        RSpFD_UE_zero_Client,
    )

    reason = (
        "the library relies on amplification, because it samples one attribute in three; but some "
        "attribute is always sampled, so records that differ in all attributes have an ε of "
        "ln(d(e^ε − 1) + 1) = 1.82; for records that differ in one attribute, the claim holds"
    )
    yield Audited(
        "multi-freq-ldpy",
        "RSpFD_GRR_Client, k=2, d=3",
        1.0,
        each(lambda v: RSpFD_GRR_Client(v, [2, 2, 2], 3, 1.0)),
        pairs,
        reason=reason,
        **whole,
    )
    yield Audited(
        "multi-freq-ldpy",
        "RSpFD_GRR_Client, k=2, d=3",
        1.0,
        each(lambda v: RSpFD_GRR_Client(v, [2, 2, 2], 3, 1.0)),
        [((0, 0, 0), (1, 0, 0))],
        relation="records that differ in one attribute",
    )
    yield Audited(
        "multi-freq-ldpy",
        "RSpFD_UE_zero_Client, k=2, d=3",
        1.0,
        each(lambda v: np.ravel(RSpFD_UE_zero_Client(v, [2, 2, 2], 3, 1.0))),
        pairs,
        reason=reason,
        **whole,
    )
