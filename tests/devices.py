"""Protocols whose randomizers run in browsers, with values and a source that records its bytes."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

import headcount as hc
from headcount.collect.device import device_data
from headcount.core.source import Source
from headcount.core.tasks.boxes import Boxes
from headcount.core.tasks.distribution import Distribution
from headcount.core.tasks.margins import Margins
from headcount.randomness.shares import poisson_share

BOXES = Boxes(["a", "b", "c", "d", "e"], 3)
MANY_BOXES = Boxes([str(box) for box in range(61)], 3)
CELLS = Distribution(0, 50, 51)


class Recorded(Source):
    """Gives the bytes `first`, and then those of a seeded source. It keeps all of them."""

    def __init__(self, seed: int, first: bytes = b"") -> None:
        self._source, self._first = hc.SeededSource(seed), first
        self.data = b""

    def fill(self, buffer: NDArray[np.uint8]) -> None:
        given = np.frombuffer(self._first[: len(buffer)], np.uint8)
        self._first = self._first[len(buffer) :]
        buffer[: len(given)] = given
        self._source.fill(buffer[len(given) :])
        self.data += buffer.tobytes()


@dataclass(frozen=True)
class Case:
    """A protocol, by its settings."""

    name: str
    task: Any
    epsilon: float
    values: tuple[Any, ...]
    users: int = 300
    options: tuple[tuple[str, Any], ...] = ()
    slow: bool = False  # whether its calibration takes more than a second

    @property
    def protocol(self) -> hc.Protocol:
        delta = 0 if self.name.startswith("local") else 1e-6
        budget, crowd = hc.Budget(self.epsilon, delta), hc.Crowd(self.users)
        return hc.protocol(self.name, self.task, budget, crowd, **dict(self.options))

    def __str__(self) -> str:
        return f"{self.name}, {self.task}"


# Split-and-mix has few people here, so that most of them draw noise.
CASES = (
    Case("shuffle.fake-users", hc.Histogram(3), 1, (0, 2)),
    Case("shuffle.fake-users", hc.Histogram(300), 1, (7, 299)),
    Case("shuffle.fake-user-boxes", BOXES, 1, (["a", "c"], [])),
    Case("shuffle.tree", CELLS, 1, (0, 37.5), slow=True),
    Case("shuffle.tree", CELLS, 1, (50,), options=(("noise", "shuffler"),)),
    Case("shuffle.margins", Margins(3, 4), 1, ((1, 2),)),
    Case("shuffle.noisy-shuffler", hc.Count(), 1, (0, 1)),
    Case("shuffle.noisy-shuffler", hc.Histogram(5), 1, (3,), options=(("response_epsilon", 2.0),)),
    Case("shuffle.noisy-shuffler", hc.Mean(0, 10, whole=True), 1, (0, 7)),
    Case(
        "shuffle.noisy-shuffler", hc.Mean(0, 1e3), 1, (333.3,), options=(("levels_as", "digits"),)
    ),
    Case("shuffle.noisy-shuffler", hc.Mean(0, 1000.5), 1, (0, 333.3)),
    Case("shuffle.noisy-shuffler", BOXES, 1, ([], ["e", "b"], ["a", "c", "d"])),
    Case("shuffle.split-and-mix", hc.Count(), 3, (0, 1), 19),
    Case("shuffle.split-and-mix", hc.Mean(-3, 50, whole=True), 1, (-3, 17), 19),
    Case("shuffle.split-and-mix", hc.Mean(0, 1e3), 1, (1 / 3, 999.9), 19),
    Case("shuffle.split-and-mix", hc.Mean(0, 1e3), 1, (1 / 3,), 19, (("precision", 1_000_000),)),
    Case("shuffle.split-and-mix", hc.Histogram(4), 3, (0, 3), 19),
    Case("shuffle.split-and-mix", hc.Histogram(3), 3, (1,), 19, (("sharing", "buckets"),)),
    Case("shuffle.hashed-histogram", hc.Histogram(300), 1, (0, 299)),
    Case("shuffle.correlated", hc.Count(), 1, (0, 1), options=(("max_slots", 16),), slow=True),
    Case(
        "shuffle.correlated-histogram",
        hc.Histogram(3),
        3,
        (0, 2),
        options=(("max_slots", 16),),
        slow=True,
    ),
    Case("shuffle.zero-exact", hc.Count(), 1, (0, 1)),
    Case("shuffle.zero-exact-histogram", hc.Histogram(4), 1, (0, 3)),
    Case("shuffle.unary-sum", hc.Mean(0, 1), 1, (0.3,), slow=True),
    Case("shuffle.fixed-point-sum", hc.Mean(0, 1), 1, (0.3,), slow=True),
    Case("shuffle.k-ary", hc.Histogram(4), 1, (0, 3), slow=True),
    Case("shuffle.randomized-response", hc.Count(), 1, (0, 1)),
    Case("shuffle.amplified", hc.Histogram(100), 1, (8,), slow=True),
    Case("local.randomized-response", hc.Count(), 1, (0, 1)),
    Case("local.some-boxes", BOXES, 1, (["a", "e"],)),
    Case("local.some-boxes", BOXES, 4, (["a", "e"], [])),
    Case("local.padded-boxes", BOXES, 1, ([], ["a", "c", "e"])),
    Case("local.padded-boxes", MANY_BOXES, 1, (["7"], ["0", "58", "60"])),
    Case("local.tree", CELLS, 1, (0, 37.5)),
    Case("local.k-ary", hc.Histogram(3), 1, (2,)),
    Case("local.k-ary", hc.Histogram(300), 6, (2, 299)),
    Case("local.unary-optimized", hc.Histogram(9), 1, (8,)),
    Case("local.unary-symmetric", hc.Histogram(100), 1, (8,)),
    Case("local.subset", hc.Histogram(5), 1, (0, 4)),
    Case("local.subset", hc.Histogram(100), 1, (0, 99)),
    Case("local.hadamard", hc.Histogram(100), 1, (77,)),
    Case("local.hashing", hc.Histogram(100), 1, (77,)),
    Case("local.hashing", hc.Histogram(100), 3, (77,)),
    Case("local.one-bit-mean", hc.Mean(0, 10), 1, (3.3,)),
    Case("local.piecewise-mean", hc.Mean(0, 10), 1, (3.3,)),
    Case("local.hybrid-mean", hc.Mean(0, 10), 3, (3.3,)),
    Case("local.hybrid-mean", hc.Mean(0, 10), 0.3, (3.3,)),
    Case("local.laplace-mean", hc.Mean(0, 10), 1, (3.3,)),
)


def plain(encoded: NDArray[Any]) -> Any:
    """An encoded value for JSON. Whole numbers are texts, since they may be long."""
    value = encoded[0].item()
    return str(value) if isinstance(value, int) else value


def drawn(case: Case, seeds: range) -> Iterator[dict[str, Any]]:
    """The messages of one person for each value and seed, with the random bytes."""
    made = case.protocol
    for value in case.values:
        for seed in seeds:
            yield vector(made, value, Recorded(seed))


def vector(made: hc.Protocol, value: Any, source: Recorded) -> dict[str, Any]:
    """The messages of one person, with everything from which they follow."""
    encoded = made.task.encode([value])
    sent = made.randomizer.send_fitting(encoded, source, made.slots).to_bytes()
    size = made.alphabet.bytes_per_message
    return {
        "protocol": made.name,
        "device": device_data(made),
        "value": plain(encoded),
        "slots": made.slots,
        "random": source.data.hex(),
        "messages": [sent[at : at + size].hex() for at in range(0, len(sent), size)],
    }


def edges() -> Iterator[dict[str, Any]]:
    """Draws at the thresholds of tables, and one step beside them. A table that is wrong by one
    part in 2^128 gives other messages.
    """
    flip = Case("local.randomized-response", hc.Count(), 1, (1,)).protocol
    top, more = divmod(int((device_data(flip) or {})["weight"]), 1 << 56)
    for step in (-1, 0, 1):
        first = bytes([top]) + (more + step << 8).to_bytes(8, "little")
        yield vector(flip, 1, Recorded(0, first))
    fake = Case("shuffle.fake-users", hc.Histogram(3), 1, (1,)).protocol
    mean = Fraction((device_data(fake) or {})["mean"])
    law = poisson_share(mean).law
    ends = accumulate(int(chance * 2**128) for chance in law.values())
    for end in ends:
        for place in (end - 1, end % 2**128):
            high, low = divmod(place, 1 << 64)
            first = high.to_bytes(8, "little") + low.to_bytes(8, "little")
            yield vector(fake, 1, Recorded(0, first))
