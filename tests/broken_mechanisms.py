"""Mechanisms that claim an ε, or a δ, which they do not keep. An audit must refute every one.

Each is a function of a dataset and a number of runs, with a pair of datasets and its claim.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

generator = np.random.default_rng(20)
TRUTH = math.e / (1 + math.e)  # the chance of it in randomized response with ε = 1


@dataclass(frozen=True)
class Broken:
    name: str
    run: Callable[[Any, int], Any]
    datasets: tuple[Any, Any]
    claim: float = 1.0
    delta: float = 0.0
    runs: int = 200_000


def float_laplace(data: Any, runs: int) -> Any:
    """The last bits of a float tell what was added to the noise."""
    return sum(data) + generator.laplace(0, 1, runs)


def biased_coin(value: int, runs: int) -> Any:
    """The truth one percent too often."""
    return np.where(generator.random(runs) < TRUTH + 0.01, value, 1 - value)


def whole_budget_for_each_bit(bucket: int, runs: int) -> Any:
    """Unary encoding: two bits differ, and each was given all of ε."""
    own = np.arange(4) == bucket
    flipped = generator.random((runs, 4)) >= TRUTH
    return (own ^ flipped).astype(int).tolist()


def noise_divided_twice(data: Any, runs: int) -> Any:
    """A mean whose noise was scaled for the mean, and divided by n once more."""
    return np.mean(data) + generator.laplace(0, 1 / len(data), runs) / len(data)


def order_kept(data: Any, runs: int) -> Any:
    """A shuffler that does not shuffle: ε of the response, where ε of the crowd was claimed."""
    lies = generator.random((runs, len(data))) >= TRUTH
    return (np.array(data) ^ lies).astype(int).tolist()


def sample_of_fixed_size(data: Any, runs: int) -> Any:
    """Half of the people are drawn, and buckets with three of them or more are shown: who sees
    fewer than half knows the rest.
    """
    drawn = generator.permuted(np.tile(data, (runs, 1)), axis=1)[:, : len(data) // 2]
    ones = drawn.sum(axis=1)
    zeros = drawn.shape[1] - ones
    return [
        (int(one) if one >= 3 else 0, int(zero) if zero >= 3 else 0)
        for one, zero in zip(ones, zeros, strict=True)
    ]


def ties_on_both_sides(signs: Any, runs: int) -> Any:
    """A random vector of an even number of signs on the side of the truth; a product of 0 is on
    both sides.
    """
    size = len(signs)
    every = np.array(
        [[1 - 2 * (code >> bit & 1) for bit in range(size)] for code in range(2**size)]
    )
    product = every @ np.array(signs)
    sides = np.flatnonzero(product >= 0), np.flatnonzero(product <= 0)
    truthful = generator.random(runs) < TRUTH
    return np.where(truthful, generator.choice(sides[0], runs), generator.choice(sides[1], runs))


def split_in_too_few(bits: Any, runs: int) -> Any:
    """Split and mix with the shares that the rule with "+1" has: 20 people, two bits each. Sums are
    alike, and the view should be but for δ = 0.52.
    """
    first = generator.integers(0, 2, (runs, len(bits)))
    second = first ^ np.array(bits)
    return first.sum(axis=1) + second.sum(axis=1)


def seeds_reused(data: Any, runs: int) -> Any:
    """Two people lie at the same time."""
    lies = generator.random((runs, 1)) >= TRUTH
    return (np.array(data) ^ lies).astype(int).tolist()


def one_direction(value: int, runs: int) -> Any:
    """Calibrated as max(a, a): P(E|0) ≤ e·P(E|1) holds for all E, the converse was not tried."""
    return np.where(generator.random(runs) < (1 - 1 / math.e) * value, 1, 0)


EVEN = tuple([0] * 20), tuple([1] * 20)
BATTERY = [
    Broken("float Laplace", float_laplace, ([0, 1, 1], [0, 0, 1])),
    Broken("biased coin", biased_coin, (0, 1), runs=2_000_000),
    Broken("whole budget for each bit", whole_budget_for_each_bit, (0, 1)),
    Broken("noise divided twice", noise_divided_twice, ([0.0, 1.0, 1.0], [0.0, 0.0, 1.0])),
    Broken("order kept", order_kept, ([0, 1, 1, 1], [1, 1, 1, 1]), claim=0.7),
    Broken("sample of fixed size", sample_of_fixed_size, ([0] * 3 + [1] * 3, [0] * 4 + [1] * 2)),
    Broken("ties on both sides", ties_on_both_sides, ((1, 1, 1, 1), (-1, -1, -1, 1))),
    Broken("too few shares", split_in_too_few, EVEN, claim=0.0, delta=0.52),
    Broken("seeds reused", seeds_reused, ([0, 0], [0, 1])),
    Broken("one direction", one_direction, (0, 1)),
]
