"""Several releases about the same people: the privacy curve of all of them together.

Convolution of privacy-loss distributions is dp-accounting's work; what it gets from us is one
dominating pair for each release. A release has many neighboring pairs, and the neighbor that is
worst in one release, or the direction, need not be worst in the next: so its pair dominates the
*pointwise maximum* of all its curves, and every mix of neighbors and directions is covered.

dp-accounting takes seconds to import, so nothing loads this file but who composes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

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

# Losses that occur with less than this are put at infinity.
_RARE = 1e-18


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

    def epsilon(self, delta: float) -> float:
        left = delta - self.numerical_error
        known = float(self.losses.get_epsilon_for_delta(left)) if left > 0 else math.inf
        # dp-accounting's inverse walks down a grid and gathers rounding errors on the way.
        step = 1e-12
        while self.delta(known) > delta and known < self.pure_epsilon:
            known, step = known + step, 2 * step
        return min(known, self.pure_epsilon)


def compose(
    releases: Sequence[tuple[PrivacyCurve, int]], *, discretization: float = 1e-4
) -> ComposedCurve:
    """The curve of all releases together, each repeated as often as its number says.

    Losses are rounded to multiples of `discretization`, to the private side; a finer one is
    tighter and slower.
    """
    if not releases:
        raise InvalidParameter("there must be at least one release to compose, got none")
    if not 1e-7 <= checks.real("discretization", discretization) <= 1:
        raise InvalidParameter(
            f"`discretization` must be between 1e-07 and 1, got {discretization}"
        )
    times = [checks.whole("times", count, low=1, high=10**6) for _, count in releases]
    parts = [
        _dominating(curve, discretization).self_compose(count)
        for (curve, _), count in zip(releases, times, strict=True)
    ]
    whole = reduce(lambda one, other: one.compose(other), parts)
    pure = sum(
        count * curve.epsilon(0.0) for (curve, _), count in zip(releases, times, strict=True)
    )
    return ComposedCurve(whole, sum(times), pure * (1 + 1e-12))


def _dominating(curve: PrivacyCurve, discretization: float) -> pld_pmf.PLDPmf:
    """A law of the privacy loss whose curve lies nowhere below the given one ("connect the dots").

    δ is convex in e^ε, and straight between losses that occur. So the chords between the grid
    points that enclose the occurring losses lie on it or above it, and no further points are
    needed.
    """
    certain = curve.delta(curve.last)  # what no finite ε takes away
    most = max(curve.epsilon(certain + _RARE), discretization)
    bends = curve.bends / discretization
    ends = np.array([-1.0, 1.0]) * math.ceil(most / discretization)
    points = np.clip(np.concatenate([np.floor(bends), np.ceil(bends), ends]), *ends)
    grid = np.unique(points.astype(np.int64))
    deltas = np.minimum.accumulate(curve.deltas(grid * discretization))
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(discretization, grid, deltas)
    return pmf.to_dense_pmf()  # sparse and dense ones do not mix
