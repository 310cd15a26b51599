"""Noise that is uniform in a cube, for several boxes that people tick (Hardt, Talwar 2010; Awan,
Slavković 2021).

Notation    There are m boxes, and each person ticks at most k of them. z_b is the noise of box b,
            and z is the vector of all z_b. The size of z is N(z) = ⌈max(max|z_b|, Σz⁺/k, Σz⁻/k)⌉,
            where z⁺ and z⁻ are the positive and the negative parts of z. If people may tick all
            boxes, the size is max|z_b|. The ball of radius j contains all z of size at most j.
Randomizer  None. People send their ticks to the curator.
Analyzer    Add z_b to the count of each box b. P(z) is proportional to e^{−ε·N(z)}. The noise is
            sampled exactly: first the radius of a ball, then z uniformly in this ball (see
            `accounting.ball_noise`). The ball is a cube if people may tick all boxes.
Privacy     Two values differ in up to min(2k, m) boxes, since each of the two may have k ticks that
            the other does not have. The vector of their differences has size 1, and adding it to z
            changes the size of z by at most 1. So the guarantee is pure ε-differential privacy. The
            privacy curve is exact for a cube. For other balls, it is an upper bound: the curve of
            the worst ε-private mechanism.
Error       Unbiased. All boxes have the same variance, for all data. In a cube of random radius j,
            the variance is E[j(j+1)]/3, which is near (m+1)(m+2)/(3ε²) if ε is small. Independent
            noise with ε/m in each box has up to 6 times this variance. In a cube, the errors of
            boxes are uncorrelated, but not independent.
Messages    1 per person, to the curator. The local ε is infinite, so the curator must be trusted.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from headcount.accounting.ball_noise import BallNoise
from headcount.core.budget import Trust
from headcount.core.cached import cached_property
from headcount.core.estimate import Answer
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.messages import Alphabet
from headcount.core.promise import promise
from headcount.core.protocol import Protocol
from headcount.core.randomizer import MOST_BUNDLES
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task
from headcount.core.tasks.boxes import Boxes
from headcount.protocols.central.boxes import CountedBoxes
from headcount.protocols.disclosure import Disclosure
from headcount.randomness.ball_noise import BallDraws
from headcount.randomness.sources import SecureSource


@dataclass(frozen=True)
class BallError:
    """The error of one box, which is its noise z_b."""

    noise: BallNoise

    @property
    def standard_error(self) -> float:
        return math.sqrt(self.noise.variance)

    def margins(self, confidence: float) -> tuple[float, float]:
        low, high = self.noise.one.central_interval(confidence)
        step = self.noise.step
        more = 1 if step > 1 else 0  # one more step covers the integers between the steps
        return float((more - low) * step), float((high + more) * step)


@dataclass(frozen=True)
class CubeBoxes(CountedBoxes):
    """Counts the ticks of each box, and adds noise that is uniform in a ball."""

    noise: BallNoise

    @cached_property
    def _draws(self) -> BallDraws:
        return BallDraws(self.noise)

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        return (tally.counts + self._draws.draw(source or SecureSource())).astype(np.float64)

    def release_law(self, tally: Tally) -> Mapping[Any, Fraction] | None:
        return self.noise.listed(tuple(tally.counts.tolist()), tally.users, MOST_BUNDLES)

    def standard_error(self, users: int, held: Holding | None) -> float:
        return self.error_law(users, None).standard_error

    def error_law(self, users: int, unbiased: Answer) -> BallError:
        return BallError(self.noise)


@dataclass(frozen=True)
class Cube(Protocol):
    name = "central.cube"
    trust = Trust.CENTRAL
    tasks: ClassVar[tuple[type[Task], ...]] = (Boxes,)

    task: Boxes

    @cached_property
    def noise(self) -> BallNoise:
        return BallNoise(Fraction(self.budget.epsilon), len(self.task.labels), self.task.at_most)

    @cached_property
    def randomizer(self) -> Disclosure:
        return Disclosure(Alphabet.numbers(1 << len(self.task.labels)))

    @cached_property
    def estimator(self) -> CubeBoxes:
        return CubeBoxes(self.task, self.noise)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"scale": 1 / self.budget.epsilon}

    @cached_property
    def curve(self) -> PrivacyCurve:
        return self.noise.curve

    @property
    def guarantee(self) -> Guarantee:
        return promise(self, "noise uniform in a ball, sampled exactly")

    @property
    def local_epsilon(self) -> float:
        return math.inf
