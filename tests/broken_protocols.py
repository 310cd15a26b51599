"""Headcount's own protocols with a planted fault: the code differs in one place only.

There is no fault for ties of `local.density-series`. It draws z first and sends z or −z, so a tie
is sent with the same chance for every value, and an even number of signs keeps ε as well.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import headcount as hc
from broken_mechanisms import Broken
from headcount.core.cached import cached_property
from headcount.core.shuffler import Shuffler
from headcount.protocols.levels import Rounding
from headcount.protocols.shuffle.sample_threshold import SampleThreshold, SamplingRandomizer
from headcount.protocols.shuffle.split_and_mix import SplitAndMix, SplitRandomizer

BUDGET, CROWD = hc.Budget(1, 0.05), hc.Crowd(12)


@dataclass(frozen=True)
class FixedSampling(SamplingRandomizer):
    """Draws the same number of people from every crowd."""

    people: int

    def send(self, encoded: NDArray[Any], source: hc.Source) -> hc.Messages:
        keys = source.integers(len(encoded), np.uint64).reshape(-1, self.people)
        drawn = keys.argsort(axis=1).argsort(axis=1) < round(float(self.rate) * self.people)
        taking_part = drawn.reshape(-1).astype(np.uint8)
        sent = encoded[taking_part.view(np.bool_)].astype(self.alphabet.dtype)
        return hc.Messages(sent, len(encoded), taking_part)


class FixedSample(SampleThreshold):
    @property
    def randomizer(self) -> SamplingRandomizer:
        sound = super().randomizer
        return FixedSampling(sound.buckets, sound.weight, self.crowd.users)


class NoThreshold(SampleThreshold):
    """Sampling alone hides that somebody left, but not that somebody joined. Only one direction is
    private.
    """

    shuffler = Shuffler()


class TwoShares(SplitAndMix):
    """People split their secret into two shares, which are fewer than the protocol needs."""

    @cached_property
    def randomizer(self) -> Rounding:
        return Rounding(self.grid, SplitRandomizer(self.modulus, 2, self.noise))


@dataclass(frozen=True)
class BrokenProtocol:
    """A protocol that is audited in the view of its trust. Its claim is that of its twin, or is
    derived from it.
    """

    name: str
    protocol: hc.Protocol
    sound: hc.Protocol
    datasets: tuple[Any, Any]
    claim: float


def sampled(kind: type[SampleThreshold]) -> hc.Protocol:
    return kind(hc.Histogram(3), BUDGET, CROWD)


PROTOCOLS = [
    BrokenProtocol(
        "sample of fixed size",
        sampled(FixedSample),
        sampled(SampleThreshold),
        ([0] * 12, [0] * 11 + [1]),
        1.0,
    ),
    BrokenProtocol(
        "no threshold",
        sampled(NoThreshold),
        sampled(SampleThreshold),
        ([0] * 12, [0] * 11 + [1]),
        1.0,
    ),
    BrokenProtocol(
        "whole budget for each bit",
        hc.protocol("local.unary-symmetric", hc.Histogram(3), hc.Budget(2), CROWD),
        hc.protocol("local.unary-symmetric", hc.Histogram(3), hc.Budget(1), CROWD),
        (0, 1),
        1.0,
    ),
]

# Views of an adversary, for faults that single numbers do not show -------------------------------

SOURCE = hc.SeededSource(8)
RESPONSE = hc.protocol("shuffle.randomized-response", hc.Count(), BUDGET, CROWD)


def unshuffled(data: Any, runs: int) -> Any:
    """The messages in their original order."""
    return RESPONSE.randomize(data * runs, SOURCE).payload.reshape(runs, -1)


def shuffled(data: Any, runs: int) -> Any:
    crowds = unshuffled(data, runs)
    return np.array([hc.shuffle(hc.Messages.one_each(one), SOURCE).payload for one in crowds])


def opposites(protocol: SplitAndMix) -> Callable[[Any, int], Any]:
    """For how many messages the opposite message occurs too. With two shares, this holds for all
    who hold 0.
    """

    def seen(data: Any, runs: int) -> Any:
        sent = protocol.randomize(data * runs, SOURCE).payload.astype(np.int64)
        crowds = sent.reshape(runs, -1)
        return np.array([np.isin(-one % protocol.modulus, one).sum() for one in crowds])

    return seen


def splitting(kind: type[SplitAndMix]) -> SplitAndMix:
    return kind(hc.Sum(0, 1, whole=True), hc.Budget(2, 0.1), hc.Crowd(19))


RESPONDING = hc.protocol("local.randomized-response", hc.Count(), hc.Budget(1), hc.Crowd(2))


generator = np.random.default_rng(21)


def seeded(apart: int) -> Callable[[Any, int], Any]:
    """Two people who draw from streams of the same seed, or of different seeds."""

    def seen(data: Any, runs: int) -> Any:
        seeds = generator.integers(0, 2**60, runs).tolist()
        return np.array(
            [
                [
                    int(RESPONDING.randomize([bit], hc.SeededSource(seed + at * apart)).payload[0])
                    for at, bit in enumerate(data)
                ]
                for seed in seeds
            ]
        )

    return seen


VIEWS = [
    Broken(
        "order kept",
        unshuffled,
        shuffled,
        ([1] * 12, [0] + [1] * 11),
        claim=1.0,
        delta=0.05,
        runs=20_000,
    ),
    Broken(
        "two shares",
        opposites(splitting(TwoShares)),
        opposites(splitting(SplitAndMix)),
        ([0] * 19, [0] * 18 + [1]),
        claim=2.0,
        delta=0.1,
        runs=20_000,
    ),
    Broken("seeds reused", seeded(0), seeded(1), ([0, 0], [0, 1]), runs=3000),
]
