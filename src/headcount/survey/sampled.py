"""Estimates about a whole crowd from the answers of some of its people, who were drawn at random.

If n' of n people were asked and a share f of all n holds a value, the share among those asked has
the variance f(1−f)·(1/n' − 1/n)·n/(n−1). This error is independent of the noise. It is treated as
normal, except in bands, which hold for all edges at once. The standard error uses an estimate of f.
Even an interval for the crowd alone, and not for a population, must allow for this error.
"""

import math
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.core.distribution import EdgeMargins
from headcount.core.estimate import Answer, Estimate
from headcount.core.estimator import is_average
from headcount.core.task import Task


def share_left_out(asked: int, users: int) -> float:
    """The factor (1/n' − 1/n)·n/(n−1) of f(1−f) in the variance."""
    return (1 / asked - 1 / users) * users / max(1, users - 1)


@dataclass(frozen=True)
class SampledError:
    """The noise of those asked, and the error that comes from who was asked.

    `scale` turns the noise into an error of the whole crowd. `spread` is the standard deviation
    that comes from who was asked, and `left_out` is what `share_left_out` returns. `size` is the
    length of the range, `share` is the estimate as a share of the range, and `asked` is the number
    of people asked.
    """

    noise: Any  # the law of the noise
    scale: float
    spread: Answer
    left_out: float
    share: Answer
    size: float
    asked: int
    _known: dict[float, tuple[Answer, Answer]] = field(default_factory=dict, repr=False)

    @property
    def standard_error(self) -> Answer:
        return np.hypot(self.scale * np.asarray(self.noise.standard_error), self.spread)

    def margins(self, confidence: float) -> tuple[Answer, Answer]:
        """The margins of the estimate. Each end of the interval is the most extreme share that can
        still explain the estimate (Wilson 1927).

        The spread is computed at this share. With few people asked, the spread at the estimated
        share may be far too small.
        """
        if confidence not in self._known:  # one share's interval needs the margins many times
            below, above = self.noise.margins(confidence)
            # `below` bounds how far the estimate is below the truth. So its end of the interval is
            # above the estimate.
            ends = self._reach(below, 1, confidence), self._reach(above, -1, confidence)
            self._known[confidence] = ends
        return self._known[confidence]

    def _reach(self, noise: Answer, sign: int, confidence: float) -> Answer:
        """How far an end f of the interval is from the estimate. This end solves
        (f − share)² = noise² + z²·f(1−f)·left_out. It is above the estimate if `sign` is 1.
        """
        own = np.asarray(noise) * self.scale / self.size
        drawn = _deviations(confidence) ** 2 * self.left_out
        middle = 2 * self.share + drawn
        root = np.sqrt(middle**2 - 4 * (1 + drawn) * (self.share**2 - own**2))
        end = (middle + sign * root) / (2 * (1 + drawn))
        # One person shifts the share of those asked by about `left_out`. Half of this is added,
        # since the share moves in steps.
        reach = np.maximum(np.abs(end - self.share), own) + self.left_out / 2
        found = reach * self.size
        return found if np.ndim(found) else float(found)

    # Shares below edges -------------------------------------------------------------------------

    def band_margins(self, confidence: float) -> EdgeMargins:
        """One half of the error probability is for the noise, and the other half for who was asked.
        The latter error is bounded for all edges at once by the inequality of Dvoretzky, Kiefer,
        Wolfowitz and Massart. For people drawn without replacement, we use its form for two
        samples: those asked, and all others. Wei and Dudley (2012) prove this form for samples of
        equal size, from 458 people on. For unequal sizes, they checked it up to 200 people, and
        conjecture it for more. Tests check these margins exactly for some crowds.
        """
        half = (1 + confidence) / 2
        below, above = self.noise.band_margins(half)
        # √(−ln(α/2)/(2n')), where 1/left_out takes the place of n'.
        drawn = math.sqrt(-math.log((1 - half) / 2) / 2 * self.left_out)
        return below + drawn, above + drawn

    def query_margins(self, weights: NDArray[np.float64], confidence: float) -> tuple[float, float]:
        """The margins of a weighted sum of the shares of all cells. They allow for the worst data:
        the variance of people's weights is at most a quarter of their squared range.
        """
        below, above = self.noise.query_margins(weights, confidence)
        size = float(np.ptp(weights))
        drawn = _deviations(confidence) * size * math.sqrt(0.25 * self.left_out)
        person = size / (2 * self.asked)  # one person shifts the sum by up to twice this
        return math.hypot(below, drawn) + person, math.hypot(above, drawn) + person

    def population_margins(self, share: float, confidence: float) -> EdgeMargins:
        """Those asked are a sample of the population, too. So nothing has to be added."""
        found: EdgeMargins = self.noise.population_margins(share, confidence)
        return found


def _deviations(confidence: float) -> float:
    return -NormalDist().inv_cdf((1 - confidence) / 2)


def of_crowd(estimate: Estimate, task: Task, users: int) -> Estimate:
    """The same estimate about all people of a crowd, if only some of them were asked."""
    asked = estimate.users
    if asked == users:
        return estimate
    scale = 1.0 if is_average(task) else users / asked
    low, high = task.answer_range(asked)
    left_out = share_left_out(asked, users)
    # The variance f(1−f) is largest at one half. So the share is moved toward one half by its
    # standard error, to avoid a spread that is too small.
    error = np.asarray(estimate.error_law.standard_error) / (high - low)
    share = np.clip((np.asarray(estimate.unbiased_value) - low) / (high - low), 0.0, 1.0)
    likely = np.where(share < 0.5, np.minimum(share + error, 0.5), np.maximum(share - error, 0.5))
    spread = _size(task, users) * np.sqrt(likely * (1 - likely) * left_out)
    return replace(
        estimate,
        value=estimate.value * scale,
        users=users,
        error_law=SampledError(
            estimate.error_law, scale, spread, left_out, share, _size(task, users), asked
        ),
        answer_range=task.answer_range(users),
        total=task.total(users),
        whole=False if scale != 1 else estimate.whole,
    )


def largest_spread(task: Task, asked: int, users: int) -> float:
    """The standard deviation that comes from who was asked, for the worst data."""
    return _size(task, users) * math.sqrt(0.25 * share_left_out(asked, users))


def _size(task: Task, users: int) -> float:
    low, high = task.answer_range(users)
    return high - low
