"""Quantiles by the exponential mechanism (McSherry, Talwar 2007; Smith 2011).

Notation    There are n people, each in one of N cells. Edge t = 1, …, N−1 is the border between
            cells t and t + 1, and F_t is the number of people below it. q₁, …, q_m are the shares
            of people below the m wanted quantiles, and γ = ε/(2m).
Randomizer  None. People send their cell to the curator.
Analyzer    For each share q, an edge t is chosen with probability proportional to
            e^{−γ·|F_t − qn|}. The choices for different shares are independent. The chosen edges
            are sorted. To draw an edge exactly, edges are drawn uniformly until one is accepted.
            Edge t is accepted with probability e^{−γ·(s_t − min s)}, where s_t = |F_t − qn|. This
            probability is exact, since the exponent is a rational number.
Privacy     Replacing one value changes each F_t, and so each s_t, by at most 1. Some s_t may grow
            while others fall. So the choice of one edge is ε/m-private, since ε/m = 2γ, and all
            choices together are ε-private. The true privacy loss may be smaller than ε. The privacy
            curve is an upper bound, too: every pure mechanism is dominated by randomized response
            (Kairouz, Oh, Viswanath 2015), and the curve is computed from the losses of randomized
            response.
Error       The error of the share below a chosen edge is F_t/n − q. If the data are known, its
            exact law follows from the probabilities above. If cells have few people, n times the
            error is nearly two-sided geometric with rate γ. Otherwise the error is at most about
            the share of people in one cell. If one cell has everybody, all edges on the same side
            of this cell are equally likely. Every confidence interval is the whole range, since a
            chosen edge does not tell how many people are near it.
Messages    1 per person, to the curator. The local ε is infinite, so the curator must be trusted.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.geometric import exponential_weight, moved_together_curve
from headcount.core.budget import Trust
from headcount.core.cached import cached_property
from headcount.core.distribution import EdgeMargins
from headcount.core.estimate import Answer
from headcount.core.estimator import Estimator
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.influence import Shifts
from headcount.core.messages import Alphabet
from headcount.core.promise import promise
from headcount.core.protocol import Protocol
from headcount.core.randomizer import MOST_BUNDLES
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task
from headcount.core.tasks.quantiles import Quantiles
from headcount.protocols.disclosure import Disclosure
from headcount.randomness.exponential import exponential_choice
from headcount.randomness.sources import SecureSource

# Analyzer and its error -----------------------------------------------------------------------


@dataclass(frozen=True)
class UnknownShares:
    """The error of shares whose true values may be anything from 0 to 1."""

    standard_error: NDArray[np.float64]

    def margins(self, confidence: float) -> EdgeMargins:
        return self._whole, self._whole

    def band_margins(self, confidence: float) -> EdgeMargins:
        return self._whole, self._whole

    def query_margins(self, weights: NDArray[np.float64], confidence: float) -> tuple[float, float]:
        # The shares of all cells add up to 1, so the answer is between the smallest and the largest
        # weight.
        reach = float(np.ptp(weights))
        return reach, reach

    def population_margins(self, share: float, confidence: float) -> EdgeMargins:
        return self._whole, self._whole

    @property
    def _whole(self) -> NDArray[np.float64]:
        return np.ones(len(self.standard_error))


@dataclass(frozen=True)
class EdgeChooser(Estimator):
    """Counts the people in each cell, and chooses an edge for each quantile."""

    task: Quantiles
    rate: Fraction  # γ

    @property
    def tally_size(self) -> int:
        return self.task.cells

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        return held.counts

    def computed(self, tally: Tally, source: Source | None = None) -> Answer:
        """The share below each edge: a biased step function that jumps at the chosen edges."""
        bits, below = source or SecureSource(), self._below(tally.counts)
        chosen = sorted(
            exponential_choice(bits, self.rate, below, Fraction(share) * tally.users)
            for share in self.task.at
        )
        shares = np.zeros(len(below))
        for edge, share in zip(chosen, self.task.at, strict=True):
            shares[edge:] = share
        return shares

    def postprocessing(self, tally: Tally) -> tuple[str, Callable[[Answer], Answer]] | None:
        return self.task.reading

    def release_law(self, tally: Tally) -> Mapping[Any, Fraction] | None:
        edges, at = self.task.cells - 1, self.task.at
        if edges ** len(at) > MOST_BUNDLES:
            return None
        laws = []
        for share in at:
            scores = self._scores(tally, Fraction(share))
            weights = [exponential_weight(self.rate * (score - min(scores))) for score in scores]
            laws.append([weight / sum(weights) for weight in weights])
        return {
            chosen: math.prod(
                (law[edge] for law, edge in zip(laws, chosen, strict=True)), start=Fraction(1)
            )
            for chosen in product(range(edges), repeat=len(at))
        }

    def _below(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number F_t of people below each edge."""
        people: NDArray[np.int64] = np.cumsum(counts)[:-1]
        return people

    def _scores(self, tally: Tally, share: Fraction) -> list[Fraction]:
        """The distance s_t for each edge."""
        return [abs(people - share * tally.users) for people in self._below(tally.counts).tolist()]

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        # A person in the first cell is below all edges, so one message can raise all shares.
        return Shifts(most=1.0, least=0.0, everywhere=True).scaled(1 / users)

    def truth(self, held: Holding) -> Answer:
        return self.task.below(held)

    def answer_range(self, users: int) -> tuple[float, float]:
        return 0.0, 1.0

    def errors(self, answer: Answer, held: Holding) -> NDArray[np.float64]:
        return self.task.errors(answer, held)

    def standard_error(self, users: int, held: Holding | None) -> float:
        if held is None:  # for the worst data, everybody is in the first or in the last cell
            return max(max(share, 1 - share) for share in self.task.at)
        below, rate = self._below(held.counts), float(self.rate)
        worst = 0.0
        for share in self.task.at:
            missed = below - share * users
            weights = np.exp(-rate * (np.abs(missed) - np.abs(missed).min()))
            worst = max(worst, float(np.sum(weights * missed**2) / np.sum(weights)))
        return math.sqrt(worst) / users

    def error_law(self, users: int, unbiased: Answer) -> UnknownShares:
        return UnknownShares(np.full(self.task.cells - 1, self.standard_error(users, None)))


# Calibration and privacy ----------------------------------------------------------------------


@dataclass(frozen=True)
class ExponentialQuantile(Protocol):
    name = "central.exponential-quantile"
    trust = Trust.CENTRAL
    tasks: ClassVar[tuple[type[Task], ...]] = (Quantiles,)

    task: Quantiles

    @property
    def epsilon_each(self) -> Fraction:
        """The ε of each quantile, ε/m."""
        return Fraction(self.budget.epsilon) / len(self.task.at)

    @cached_property
    def randomizer(self) -> Disclosure:
        return Disclosure(Alphabet.numbers(self.task.cells))

    @cached_property
    def estimator(self) -> EdgeChooser:
        return EdgeChooser(self.task, self.epsilon_each / 2)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"scale": 2 / float(self.epsilon_each)}

    @cached_property
    def curve(self) -> PrivacyCurve:
        # Each choice of an edge is ε/m-private. A count with geometric noise of rate ε/m has the
        # largest privacy curve of all ε/m-private mechanisms.
        return moved_together_curve(self.budget.epsilon, len(self.task.at))

    @property
    def guarantee(self) -> Guarantee:
        return promise(self, "exponential mechanism over edges, drawn exactly", exact=False)

    @property
    def local_epsilon(self) -> float:
        return math.inf
