"""The joint privacy curve of several releases about the same people.

The package dp-accounting convolves privacy loss distributions. This module passes it one dominating
law for each release (see `dominating`).

Questions may depend on earlier answers, but the *curves* of the releases must not. If earlier
answers decide the next curve, the privacy loss can exceed the computed curve; see `privacy_filter`.

Importing dp-accounting takes seconds. So only code that composes releases should import this
module.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

from headcount.accounting.dominating import STEP, DominatingLaw
from headcount.accounting.laws import ROUNDING
from headcount.core import checks
from headcount.core.errors import InvalidParameter, MissingPackage
from headcount.core.guarantee import PrivacyCurve

try:
    from dp_accounting.pld import pld_pmf
except ImportError:
    raise MissingPackage(
        "composition needs dp-accounting", hint="pip install 'headcount[compose]'"
    ) from None

MOST_RELEASES = 10**6  # the largest number of releases with the same law
# Each convolution of two laws counts up to this mass as an infinite loss, so the result is short.
_TAILS = 1e-15


@dataclass(frozen=True, eq=False)
class ComposedCurve:
    """The curve of a composition. It is an upper bound that includes the numerical errors."""

    losses: pld_pmf.PLDPmf
    releases: int
    pure_epsilon: float  # the sum of the releases' pure ε; infinite if a release has none

    @property
    def numerical_error(self) -> float:
        """A bound on the error of the Fourier transforms. It is added to every δ.

        Let u be `ROUNDING`. The error of a transform of N entries is c·u·log2(N) times the 2-norm
        of the entries, with c < 8. A k-th power multiplies the error by k, and a sum over N entries
        multiplies it by √N. The 2-norm of probabilities is at most 1.
        """
        size = max(2, self.losses.size)
        return 8 * ROUNDING * math.log2(size) * math.sqrt(size) * self.releases

    def delta(self, epsilon: float) -> float:
        if epsilon >= self.pure_epsilon:
            return 0.0
        known = float(self.losses.get_delta_for_epsilon(epsilon))
        return min(1.0, max(0.0, known) + self.numerical_error)

    def delta_with(self, epsilon: float, more_epsilon: float, more_delta: float) -> float:
        """The δ at `epsilon` after one more release, of which only (more_epsilon, more_delta) is
        known.

        The worst such release reveals everything with probability more_delta. Otherwise it is a
        randomized response whose loss is more_epsilon or −more_epsilon.
        """
        truth = 1 / (1 + math.exp(-more_epsilon))
        told = truth * self.delta(epsilon - more_epsilon)
        lied = (1 - truth) * self.delta(epsilon + more_epsilon)
        return min(1.0, more_delta + (1 - more_delta) * (told + lied))

    def epsilon(self, delta: float) -> float:
        left = delta - self.numerical_error
        known = float(self.losses.get_epsilon_for_delta(left)) if left > 0 else math.inf
        # dp-accounting accumulates rounding errors when it computes ε. So ε is raised until δ is
        # small enough.
        step = 1e-12
        while self.delta(known) > delta and known < self.pure_epsilon:
            known, step = known + step, 2 * step
        return min(known, self.pure_epsilon)


def compose(
    releases: Sequence[tuple[PrivacyCurve, int]], *, discretization: float = STEP
) -> ComposedCurve:
    """The curve of all releases together. Each curve comes with the number of releases that have
    this curve.

    Losses are rounded to multiples of `discretization`. The rounding never decreases δ. A smaller
    `discretization` is more accurate and slower.
    """
    return compose_laws(
        [(DominatingLaw.of(curve, discretization), count) for curve, count in releases]
    )


def compose_laws(releases: Sequence[tuple[DominatingLaw, int]]) -> ComposedCurve:
    """The curve of all releases together. Each law comes with the number of releases that have this
    law. All laws must have the same grid step.
    """
    if not releases:
        raise InvalidParameter("there must be at least one release to compose, got none")
    if len({law.step for law, _ in releases}) > 1:
        raise InvalidParameter("composed laws must have the same grid step, got several steps")
    times = [checks.whole("times", count, low=1, high=MOST_RELEASES) for _, count in releases]
    parts = [_losses(law, count) for (law, _), count in zip(releases, times, strict=True)]
    # The two shortest laws are composed first. The index breaks ties between equal sizes.
    waiting = [(part.size, at, part) for at, part in enumerate(parts)]
    heapq.heapify(waiting)
    for at in range(len(parts), 2 * len(parts) - 1):
        (_, _, one), (_, _, other) = heapq.heappop(waiting), heapq.heappop(waiting)
        both = one.compose(other, _TAILS)
        heapq.heappush(waiting, (both.size, at, both))
    pure = sum(count * law.pure_epsilon for (law, _), count in zip(releases, times, strict=True))
    return ComposedCurve(waiting[0][2], sum(times), pure * (1 + 1e-12))


def _losses(law: DominatingLaw, times: int) -> pld_pmf.PLDPmf:
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(law.step, law.grid, law.deltas)
    dense = pmf.to_dense_pmf()  # sparse and dense laws cannot be composed with each other
    return dense if times == 1 else dense.self_compose(times)
