"""Exact draws of the noise of `accounting.ball_noise` and `accounting.cut_ball`.

People tick boxes. Each box has a count, to which noise is added. A ball is the set of all noise
vectors up to some size, which is called its radius. The radius is drawn first, and then a noise
vector is drawn uniformly from the ball of this radius.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.ball_noise import BallNoise
from headcount.accounting.cut_ball import CutBall
from headcount.core.cached import cached_property
from headcount.core.source import Source
from headcount.randomness.bucket_noise import composition
from headcount.randomness.discrete_laplace import geometric
from headcount.randomness.draws import permutation, uniform, uniform_below
from headcount.randomness.exact_table import ExactTable


@dataclass(frozen=True)
class BallDraws:
    """Draws the noise on the counts of all boxes."""

    noise: BallNoise

    def draw(self, source: Source) -> NDArray[np.int64]:
        """The noise of all boxes."""
        radius = self._start.sample(source)
        radius += int(geometric(source, self.noise.epsilon, self.noise.parts).sum())
        return in_ball(source, self.noise, radius)

    @cached_property
    def _start(self) -> ExactTable:
        return ExactTable(self.noise.weights)


def in_cut_ball(source: Source, cut: CutBall) -> NDArray[np.int64]:
    """The noise of all boxes, under a law that allows only noise inside the largest ball."""
    return in_ball(source, cut.noise, drawn_place(source, cut.layers))


def in_ball(source: Source, ball: BallNoise, radius: int) -> NDArray[np.int64]:
    """A noise vector, uniform in the ball of this radius.

    In a cube, the noise of each box is drawn independently. In other balls, the numbers of boxes
    with positive and with negative noise are drawn first. Then these boxes are drawn, and then
    their noise.
    """
    if ball.is_cube:
        drawn = uniform(source, ball.boxes, 2 * radius + 1)
        return drawn.astype(np.int64) - radius
    patterns, limit = ball.patterns(radius), ball.ticks * radius
    gaining, losing = patterns[drawn_place(source, [weight for _, weight in patterns])][0]
    order = permutation(source, ball.boxes)
    noise = np.zeros(ball.boxes, dtype=np.int64)
    noise[order[:gaining]] = sum_within(source, gaining, radius, limit)
    noise[order[gaining : gaining + losing]] = -sum_within(source, losing, radius, limit)
    return noise


def drawn_place(source: Source, weights: Sequence[int]) -> int:
    """A random place in the list. Each place has a probability proportional to its weight."""
    ends = list(accumulate(weights))
    return bisect_right(ends, uniform_below(source, ends[-1]))


def sum_within(source: Source, number: int, largest: int, limit: int) -> NDArray[np.int64]:
    """A uniform choice of `number` numbers from 1, …, largest with a sum of at most `limit`.

    There are two ways. Either numbers up to `largest` are drawn until their sum is at most `limit`,
    or numbers with a sum of at most `limit` are drawn until none is above `largest`. The way with
    fewer possible draws is used.
    """
    if not number:
        return np.zeros(0, dtype=np.int64)
    simple = largest**number <= math.comb(limit, number)
    while True:
        if simple:
            drawn = uniform(source, number, largest).astype(np.int64) + 1
        else:
            drawn = composition(source, limit - number, number + 1)[:-1] + 1
        if drawn.sum() <= limit and drawn.max() <= largest:
            return drawn
