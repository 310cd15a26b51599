"""Binary randomized response in other implementations, from values to an estimated count.

None of them is secure: their random bits are predictable, and their probabilities are rounded.
"""

import numpy as np
from numpy.typing import NDArray

from benchmarks.stopwatch import Contender

Bits = NDArray[np.bool_]
Values = NDArray[np.uint8]


class PlainNumpy:
    """The usual way to write it: every step makes a new array."""

    name = "NumPy, as usually written"

    def __init__(self, people: int, probability: float) -> None:
        self.people = people
        self.probability = probability
        self.generator = np.random.default_rng()

    def lies(self) -> Bits:
        return self.generator.random(self.people) < self.probability

    def reported(self, values: Values) -> int:
        return int((values ^ self.lies()).sum())

    def estimate(self, values: Values) -> float:
        expected_lies = self.probability * self.people
        return (self.reported(values) - expected_lies) / (1 - 2 * self.probability)


class ThriftyNumpy(PlainNumpy):
    """Results go into existing arrays, which avoids page faults. Small pieces stay in the cache."""

    def __init__(self, people: int, probability: float, piece: int) -> None:
        super().__init__(people, probability)
        self.name = f"NumPy, into preallocated arrays, {piece:,} at a time"
        self.uniforms = np.empty(piece)
        self.bits = np.empty(people, dtype=np.bool_)

    def lies(self) -> Bits:
        for start in range(0, self.people, len(self.uniforms)):
            bits = self.bits[start : start + len(self.uniforms)]
            uniforms = self.generator.random(out=self.uniforms[: len(bits)])
            np.less(uniforms, self.probability, out=bits)
        return self.bits

    def reported(self, values: Values) -> int:
        reports = np.logical_xor(self.lies(), values.view(np.bool_), out=self.bits)
        return int(np.count_nonzero(reports))


def pure_ldp(values: Values, epsilon: float) -> Contender:
    """Direct encoding in pure-ldp, with a call of the client and of the server for each person."""
    from pure_ldp.frequency_oracles.direct_encoding import DEClient, DEServer

    items = (values + 1).tolist()  # its items are numbered from 1

    def estimate() -> float:
        client, server = DEClient(epsilon, 2), DEServer(epsilon, 2)
        for item in items:
            server.aggregate(client.privatise(item))
        return float(server.estimate(2, suppress_warnings=True))

    return estimate


def multi_freq_ldpy(values: Values, epsilon: float) -> Contender:
    """Generalized randomized response in multi-freq-ldpy, with a compiled call for each person."""
    from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Aggregator_MI, GRR_Client

    items = values.tolist()

    def estimate() -> float:
        reports = [GRR_Client(item, 2, epsilon) for item in items]
        return float(GRR_Aggregator_MI(reports, 2, epsilon)[1]) * len(items)

    return estimate
