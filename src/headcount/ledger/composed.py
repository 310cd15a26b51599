"""The composed rule: plain sums, or composed privacy-loss distributions.

Charges fit if one of two conditions holds:

Plain       Σε ≤ limit ε and Σδ ≤ limit δ (see `account`).
Composed    δ(limit ε) ≤ limit δ for the composed privacy-loss distributions, which are rounded
            toward more loss. This condition may allow many more releases than plain sums do.

The rule holds if the sequence of privacy curves was fixed before the first answer. The privacy
curve of a release depends on its protocol, budget, crowd and options. The question, such as the
choice of a column, may depend on earlier answers. If a privacy curve may depend on them too, use
the adaptive rule (see `adaptive`).
"""

import math
import sys
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from headcount.accounting.dominating import STEP, DominatingLaw
from headcount.core.cached import cached_property
from headcount.ledger.account import Account, downward, exactly, less_a_step, upward

if TYPE_CHECKING:
    from headcount.accounting.composition import ComposedCurve

_COMPOSITION = "headcount.accounting.composition"  # importing this module takes seconds
_MOST_RELEASES = 10**6  # with more releases, the numerical error of composition is too large


@dataclass(frozen=True)
class ComposedAccount(Account):
    @property
    def is_ready(self) -> bool:
        return self.fits_plainly or not self._may_fit or _COMPOSITION in sys.modules

    @property
    def is_composed(self) -> bool:
        return bool(self.limit.delta) and self.composed is not None

    @property
    def fits(self) -> bool:
        if self.fits_plainly:
            return True
        if not self._may_fit or self.composed is None:
            return False
        return self.composed.delta(self.limit.epsilon) <= self.limit.delta

    @property
    def _may_fit(self) -> bool:
        """Whether composition may allow the charges. Composition cannot allow them if the limit has
        δ = 0, if a release has no privacy-loss distribution, or if a single release exceeds the
        limit.
        """
        return self.limit.delta > 0 and not any(
            one.law is None or one.law.delta(self.limit.epsilon) > self.limit.delta
            for one in self.charges
        )

    @cached_property
    def composed(self) -> "ComposedCurve | None":
        """The privacy curve of all releases together. It is None if there are no releases or too
        many, or if a release has no privacy-loss distribution.
        """
        counts: Counter[DominatingLaw] = Counter()
        for one in self.charges:
            if one.law is None:
                return None
            counts[one.law] += one.times
        if not 0 < counts.total() <= _MOST_RELEASES:
            return None
        return _composed(tuple(sorted(counts.items(), key=lambda item: item[0].digest)))

    @property
    def epsilon(self) -> float:
        epsilons, deltas = self.sums
        plain = upward(epsilons) if deltas <= self.plain_delta else math.inf
        if not self.limit.delta or self.composed is None:
            return plain
        return min(plain, self.composed.epsilon(self.limit.delta))

    @property
    def delta(self) -> float:
        epsilons, deltas = self.sums
        plain = upward(deltas) if epsilons <= exactly(self.limit.epsilon) else 1.0
        if not self.limit.delta or self.composed is None:
            return plain
        return min(plain, self.composed.delta(self.limit.epsilon))

    @property
    def spare_delta(self) -> float:
        """The δ that plain sums leave, if they also leave some ε or if there is no composition.
        Otherwise, half of the δ that composition leaves.
        """
        epsilons, deltas = self.sums
        if epsilons < exactly(self.limit.epsilon) or self.composed is None:
            return downward(self.plain_delta - deltas)
        return max(0.0, self.limit.delta - self.composed.delta(self.limit.epsilon)) / 2

    def room(self, delta: float) -> float:
        return max(self.plain_room(delta), self._composed_room(delta))

    def _composed_room(self, delta: float) -> float:
        if not self.limit.delta or self.composed is None:
            return 0.0
        composed = self.composed

        def seems_to_fit(steps: int) -> bool:
            with_it = composed.delta_with(self.limit.epsilon, steps * STEP, delta)
            return with_it <= self.limit.delta

        steps = self.most_steps(seems_to_fit)
        # One more release also increases the numerical error, so the result is checked.
        while steps > 1 and not self.fits_with(steps, delta):
            steps -= 1 + steps // 100
        return less_a_step(steps)


@lru_cache(maxsize=8)
def _composed(releases: tuple[tuple[DominatingLaw, int], ...]) -> "ComposedCurve":
    """The composed curve of these laws, each with its number of releases. It is cached, since
    `Ledger.charge` needs it before the transaction and again inside the transaction.
    """
    from headcount.accounting.composition import compose_laws

    return compose_laws(releases)
