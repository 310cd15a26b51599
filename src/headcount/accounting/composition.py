"""Several releases about the same people: the privacy curve of all of them together.

Convolution of privacy-loss distributions is dp-accounting's work; what it gets from us is one
dominating law for each release (`dominating`).

It holds for questions that are chosen in the light of earlier answers, if the curves of the
releases are not: who picks each next *curve* by what came out before can make more of the losses
than they add up to here.

dp-accounting takes seconds to import, so nothing loads this file but who composes.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

from headcount.accounting.dominating import STEP, DominatingLaw
from headcount.accounting.laws import UNIT
from headcount.core import checks
from headcount.core.errors import InvalidParameter, MissingPackage
from headcount.core.guarantee import PrivacyCurve

try:
    from dp_accounting.pld import pld_pmf
except ImportError:
    raise MissingPackage(
        "composition needs dp-accounting", hint="pip install 'headcount[compose]'"
    ) from None

MOST_RELEASES = 10**6  # of one kind
# What is put at infinity in each convolution of different laws, so that their ranges do not add up.
_TAILS = 1e-15


@dataclass(frozen=True, eq=False)
class ComposedCurve:
    """The curve of a composition: an upper bound, by discretization and by numerical error."""

    losses: pld_pmf.PLDPmf
    releases: int
    pure_epsilon: float  # the sum of all pure guarantees; infinite if one has none

    @property
    def numerical_error(self) -> float:
        """Charged to every δ: what the Fourier transforms may have lost.

        A transform errs by c·u·log2(N) of the 2-norm (c < 8), a k-th power by k times that, and a
        sum over N entries by √N times as much; the 2-norm of probabilities is at most 1.
        """
        size = max(2, self.losses.size)
        return 8 * UNIT * math.log2(size) * math.sqrt(size) * self.releases

    def delta(self, epsilon: float) -> float:
        if epsilon >= self.pure_epsilon:
            return 0.0
        known = float(self.losses.get_delta_for_epsilon(epsilon))
        return min(1.0, max(0.0, known) + self.numerical_error)

    def delta_with(self, epsilon: float, more_epsilon: float, more_delta: float) -> float:
        """`delta` after one more release, of which an (ε, δ) is all that is known.

        The worst such release tells all with probability δ and else is a randomized response, of
        loss ε or −ε.
        """
        truth = 1 / (1 + math.exp(-more_epsilon))
        told = truth * self.delta(epsilon - more_epsilon)
        lied = (1 - truth) * self.delta(epsilon + more_epsilon)
        return min(1.0, more_delta + (1 - more_delta) * (told + lied))

    def epsilon(self, delta: float) -> float:
        left = delta - self.numerical_error
        known = float(self.losses.get_epsilon_for_delta(left)) if left > 0 else math.inf
        # dp-accounting's inverse walks down a grid and gathers rounding errors on the way.
        step = 1e-12
        while self.delta(known) > delta and known < self.pure_epsilon:
            known, step = known + step, 2 * step
        return min(known, self.pure_epsilon)


def compose(
    releases: Sequence[tuple[PrivacyCurve, int]], *, discretization: float = STEP
) -> ComposedCurve:
    """The curve of all releases together, each repeated as often as its number says.

    Losses are rounded to multiples of `discretization`, to the private side; a finer one is
    tighter and slower.
    """
    return compose_laws(
        [(DominatingLaw.of(curve, discretization), count) for curve, count in releases]
    )


def compose_laws(releases: Sequence[tuple[DominatingLaw, int]]) -> ComposedCurve:
    """The same for dominating laws, all on one grid."""
    if not releases:
        raise InvalidParameter("there must be at least one release to compose, got none")
    if len({law.step for law, _ in releases}) > 1:
        raise InvalidParameter("laws must have one grid to be composed, got several")
    times = [checks.whole("times", count, low=1, high=MOST_RELEASES) for _, count in releases]
    parts = [_losses(law, count) for (law, _), count in zip(releases, times, strict=True)]
    # The two shortest first; the number in between decides where sizes are the same.
    line = [(part.size, at, part) for at, part in enumerate(parts)]
    heapq.heapify(line)
    for at in range(len(parts), 2 * len(parts) - 1):
        (_, _, one), (_, _, other) = heapq.heappop(line), heapq.heappop(line)
        both = one.compose(other, _TAILS)
        heapq.heappush(line, (both.size, at, both))
    pure = sum(count * law.pure_epsilon for (law, _), count in zip(releases, times, strict=True))
    return ComposedCurve(line[0][2], sum(times), pure * (1 + 1e-12))


def _losses(law: DominatingLaw, times: int) -> pld_pmf.PLDPmf:
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(law.step, law.grid, law.deltas)
    dense = pmf.to_dense_pmf()  # sparse and dense ones do not mix
    return dense if times == 1 else dense.self_compose(times)
