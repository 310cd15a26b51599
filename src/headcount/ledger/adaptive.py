"""The adaptive rule: a privacy filter. It holds even if releases depend on earlier answers.

Charges fit if two conditions hold. First, Σδ is at most half of the limit's δ. Second, either Σε is
at most the limit's ε, or the sum of the Rényi divergences is at most an allowance. The allowance
follows from the limit's ε and from the other half of its δ. The order of the divergences is fixed
when the limit is set. `accounting.privacy_filter` has the proof.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from headcount.accounting import privacy_filter
from headcount.core.cached import cached_property
from headcount.ledger.account import Account, downward, exactly, less_a_step, upward


@dataclass(frozen=True)
class AdaptiveAccount(Account):
    order: float = math.nan  # the order of the divergences; NaN if the limit has δ = 0

    @property
    def plain_delta(self) -> Fraction:
        return exactly(self.limit.delta) / privacy_filter.PARTS

    @property
    def fits(self) -> bool:
        return self.fits_plainly or (
            self.sums[1] <= self.plain_delta and self.divergences <= self._allowance
        )

    @cached_property
    def divergences(self) -> float:
        """The sum of the Rényi divergences of all charges, or infinity if one is unknown."""
        return math.fsum(
            one.times * privacy_filter.divergence(one.law, one.epsilon, one.delta, self.order)
            if one.law is not None
            else math.inf
            for one in self.charges
        )

    @cached_property
    def _allowance(self) -> float:
        if not self.limit.delta:
            return -math.inf
        return privacy_filter.allowance(self.order, self.limit.epsilon, self.limit.delta)

    @property
    def epsilon(self) -> float:
        epsilons, deltas = self.sums
        if deltas > self.plain_delta:
            return math.inf
        if not self.limit.delta:
            return upward(epsilons)
        filtered = privacy_filter.least_epsilon(self.order, self.divergences, self.limit.delta)
        return min(upward(epsilons), filtered)

    @property
    def delta(self) -> float:
        epsilons, deltas = self.sums
        plain = min(1.0, upward(privacy_filter.PARTS * deltas))
        if epsilons <= exactly(self.limit.epsilon):
            return plain
        if not self.limit.delta:
            return 1.0
        filtered = privacy_filter.least_delta(self.order, self.divergences, self.limit.epsilon)
        return max(plain, filtered)

    @property
    def spare_delta(self) -> float:
        return downward(self.plain_delta - self.sums[1])

    def room(self, delta: float) -> float:
        return max(self.plain_room(delta), self._filtered_room(delta))

    def _filtered_room(self, delta: float) -> float:
        if not self.limit.delta or not self.fits_with(1, delta):
            return 0.0
        return less_a_step(self.most_steps(lambda steps: self.fits_with(steps, delta)))
