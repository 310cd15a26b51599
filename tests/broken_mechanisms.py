"""Mechanisms that claim an ε or a δ that they do not keep. An audit must refute every one.

Each mechanism is a function of a dataset and a number of runs. It comes with a pair of datasets,
its claim, and a twin without the fault that keeps the same claim.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

generator = np.random.default_rng(20)
TRUTH = math.e / (1 + math.e)  # the chance of a lie in randomized response with ε = 1
GRID = 2.0**20  # a float that is a multiple of 1/GRID has no last bits that reveal anything


@dataclass(frozen=True)
class Broken:
    name: str
    run: Callable[[Any, int], Any]
    sound: Callable[[Any, int], Any]
    datasets: tuple[Any, Any]
    claim: float = 1.0
    delta: float = 0.0
    runs: int = 200_000


def rounded(numbers: Any) -> Any:
    return np.rint(numbers * GRID) / GRID


def float_laplace(data: Any, runs: int) -> Any:
    """The last bits of a float reveal the value to which the noise was added (Mironov 2012)."""
    return sum(data) + generator.laplace(0, 1, runs)


def rounded_laplace(data: Any, runs: int) -> Any:
    return rounded(float_laplace(data, runs))


def biased_coin(value: int, runs: int, excess: float = 0.01) -> Any:
    """The truth is told one percent too often."""
    return np.where(generator.random(runs) < TRUTH + excess, value, 1 - value)


def fair_coin(value: int, runs: int) -> Any:
    return biased_coin(value, runs, excess=0.0)


def whole_budget_for_each_bit(bucket: int, runs: int, epsilon: float = 1.0) -> Any:
    """Unary encoding: two bits differ, and each uses the whole ε."""
    own = np.arange(4) == bucket
    flipped = generator.random((runs, 4)) >= 1 / (1 + math.exp(-epsilon))
    return (own ^ flipped).astype(int)


def half_for_each_bit(bucket: int, runs: int) -> Any:
    return whole_budget_for_each_bit(bucket, runs, epsilon=0.5)


def noise_divided_twice(data: Any, runs: int, times: int = 2) -> Any:
    """A mean whose noise was scaled for the sum and then divided by n twice. It is rounded, so that
    only the scale reveals the fault.
    """
    return rounded(np.mean(data) + generator.laplace(0, 1, runs) / len(data) ** times)


def noise_divided_once(data: Any, runs: int) -> Any:
    return noise_divided_twice(data, runs, times=1)


def order_kept(data: Any, runs: int) -> Any:
    """A shuffler that does not shuffle: the first message is the first person's. In order, the
    mechanism is (0.93, 0.05)-private; shuffled messages of eight people are (0.38, 0.05)-private.
    """
    lies = generator.random((runs, len(data))) >= TRUTH
    return (np.array(data) ^ lies).astype(int)


def order_lost(data: Any, runs: int) -> Any:
    return generator.permuted(order_kept(data, runs), axis=1)


RATE, THRESHOLD = 0.36, 3


def shown(drawn: Any, data: Any) -> Any:
    """How many people with each value were drawn, if there are enough of them."""
    counts = np.stack([(drawn & (np.array(data) == value)).sum(axis=1) for value in (0, 1)], axis=1)
    return np.where(counts >= THRESHOLD, counts, 0)


def sample_of_fixed_size(data: Any, runs: int) -> Any:
    """Four of twelve people are drawn. If all others hold one value and it is shown three times,
    somebody must hold another. Independent draws are (1, 0.05)-private.
    """
    order = generator.permuted(np.tile(np.arange(len(data)), (runs, 1)), axis=1)
    return shown(order < round(RATE * len(data)), data)


def sample_of_any_size(data: Any, runs: int) -> Any:
    return shown(generator.random((runs, len(data))) < RATE, data)


def ties_on_both_sides(signs: Any, runs: int, tie: float = 0.0) -> Any:
    """A random vector with an even number of signs on the side of the truth. A vector with the
    product 0 is on both sides, and has the chances of both.
    """
    size = len(signs)
    every = np.array(
        [[1 - 2 * (code >> bit & 1) for bit in range(size)] for code in range(2**size)]
    )
    product = every @ np.array(signs) + tie * every[:, 0] * signs[0]
    sides = np.flatnonzero(product >= 0), np.flatnonzero(product <= 0)
    truthful = generator.random(runs) < TRUTH
    return np.where(truthful, generator.choice(sides[0], runs), generator.choice(sides[1], runs))


def ties_on_one_side(signs: Any, runs: int) -> Any:
    """Ties are decided by the first sign, so half of them are on each side."""
    return ties_on_both_sides(signs, runs, tie=0.5)


def split_in_too_few(bits: Any, runs: int, shares: int = 2) -> Any:
    """Split and mix without noise, with 20 people and shares of one bit. All zeros and all ones
    have the same sum, so the numbers of ones should differ by a total variation of at most 2^−σ =
    0.52. For this, m ≥ 1 + (2σ + log2 q)/(log2 n − log2 e) requires two shares; with 2 in place of
    1, three.
    """
    drawn = generator.integers(0, 2, (runs, len(bits), shares - 1))
    last = drawn.sum(axis=2) % 2 ^ np.array(bits)
    return drawn.sum(axis=(1, 2)) + last.sum(axis=1)


def split_in_enough(bits: Any, runs: int) -> Any:
    return split_in_too_few(bits, runs, shares=3)


def seeds_reused(data: Any, runs: int, seeds: int = 1) -> Any:
    """Two people lie at the same time, so an adversary knows whether they agree."""
    lies = generator.random((runs, seeds)) >= TRUTH
    return (np.array(data) ^ lies).astype(int)


def seeds_of_their_own(data: Any, runs: int) -> Any:
    return seeds_reused(data, runs, seeds=len(data))


def one_direction(value: int, runs: int, floor: float = 0.0) -> Any:
    """Only one direction is calibrated: P(E|0) ≤ e·P(E|1) holds for all E, but the converse was not
    tried.
    """
    chance = 1 - 1 / math.e + floor / math.e
    return np.where(generator.random(runs) < (chance if value else floor), 1, 0)


def both_directions(value: int, runs: int) -> Any:
    """It sends 1 with a chance of p for 0, and with a chance of 1 − (1 − p)/e ≤ e·p for 1."""
    return one_direction(value, runs, floor=0.3)


EIGHT = [0] + [1] * 7, [1] * 8
TWELVE = [0] * 12, [0] * 11 + [1]
ALIKE = tuple([0] * 20), tuple([1] * 20)
BATTERY = [
    Broken("float Laplace", float_laplace, rounded_laplace, ([0, 1, 1], [0, 0, 1])),
    Broken("biased coin", biased_coin, fair_coin, (0, 1), runs=2_000_000),
    Broken("whole budget for each bit", whole_budget_for_each_bit, half_for_each_bit, (0, 1)),
    Broken(
        "noise divided twice", noise_divided_twice, noise_divided_once, ([0.0, 1, 1], [0.0, 0, 1])
    ),
    Broken("order kept", order_kept, order_lost, EIGHT, claim=0.5, delta=0.05),
    Broken("sample of fixed size", sample_of_fixed_size, sample_of_any_size, TWELVE, delta=0.05),
    Broken(
        "ties on both sides", ties_on_both_sides, ties_on_one_side, ((1, 1, 1, 1), (-1, -1, -1, 1))
    ),
    Broken("too few shares", split_in_too_few, split_in_enough, ALIKE, claim=0.0, delta=0.52),
    Broken("seeds reused", seeds_reused, seeds_of_their_own, ([0, 0], [0, 1])),
    Broken("one direction", one_direction, both_directions, (0, 1)),
]
