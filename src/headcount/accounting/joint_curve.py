"""The joint privacy curve of several releases about the same people, without a fixed grid.

Notation    Release q has the curve δ_q(ε), which is the largest hockey-stick divergence over all
            its neighboring pairs, in both directions. x = e^ε.
Pairs       A convex curve in x that begins at δ = 1 for x = 0 is the curve of one pair (A_q, B_q):
            the losses of this pair are the bends of the curve. By Blackwell's theorem, all pairs of
            the release are post-processings of (A_q, B_q). So the product of all (A_q, B_q)
            dominates the product of any pairs, whichever direction each pair has (Dong, Roth, Su
            2019; Zhu, Dong, Wang 2022). The curve of this product is attained if each release has
            one pair whose two directions have the same curve.
Grid        A curve is known at some points. Straight lines in x between these points lie above it.
            The values of δ at the points of a grid are taken from these lines. Straight lines
            between the points of the grid then also lie above the curve. If δ has the values
            D_{j−1}, D_j, D_{j+1} at neighboring points with the distances g and h in ε, A_q has the
            mass (D_{j−1} − D_j)/(1 − e^−g) − (D_j − D_{j+1})/(e^h − 1) at the middle point. At
            infinity, A_q has the mass of the last D.
Product     The module `losses` computes the law of the sum of all losses. It rounds so that δ never
            becomes smaller.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.buckets import MovedCurve
from headcount.accounting.laws import ROUNDING
from headcount.accounting.losses import (
    KeptLaws,
    Losses,
    LossLaw,
    MovedLaw,
    Part,
    View,
    products_for,
)
from headcount.accounting.product_curve import ProductCurve
from headcount.core.cached import cached_property
from headcount.core.guarantee import NearCurve, PrivacyCurve

_POINTS = 600  # a curve with more bends is computed at this many points
_RARE = 1e-21  # the largest losses count as infinite if they add at most this to δ

# The observations of one release, and a function that returns the law of their losses.
Observations: TypeAlias = tuple[tuple[tuple[Part, ...], ...], Losses]


class CurveLosses:
    """The losses of the pair (A_q, B_q) that has a given curve."""

    def __init__(self, curve: PrivacyCurve) -> None:
        most = _reach(curve)
        bends = curve.bends
        inside = bends[np.abs(bends) <= most]
        if len(inside) > _POINTS:
            inside = np.linspace(-most, most, _POINTS)
        self._points = np.unique(np.concatenate([[-most], inside, [most]]))
        self._deltas = np.minimum.accumulate(curve.deltas(self._points))
        self._kept = KeptLaws()

    def law(self, step: float) -> LossLaw:
        """The law of the losses on a grid with this step."""
        return self._kept.get(step, lambda: self._computed(step))

    def _computed(self, step: float) -> LossLaw:
        places = self._points / step
        grid = np.unique(np.concatenate([np.floor(places), np.ceil(places)]).astype(np.int64))
        # The grid is extended at both ends, because `places` have rounding errors.
        grid = np.unique(np.concatenate([[grid[0] - 1], grid, [grid[-1] + 1]]))
        deltas = self._chords(grid * np.float64(step))
        kept, masses = _hull(grid, step, deltas)
        mass = np.zeros(kept[-1] - kept[0] + 1)
        mass[np.array(kept) - kept[0]] = masses
        return LossLaw(int(kept[0]), step, mass, float(deltas[-1]))

    def _chords(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        """δ on the straight lines between the known points, rounded up."""
        points, known = self._points, self._deltas
        after = np.clip(np.searchsorted(points, epsilons, side="left"), 1, len(points) - 1)
        low, high = points[after - 1], points[after]
        inside = np.clip(epsilons, low, high)
        # Linear in x: (x − x_low)/(x_high − x_low), without overflow.
        share = np.exp(np.minimum(inside - high, 0.0)) * -np.expm1(low - inside)
        share = share / -np.expm1(low - high)
        lines = known[after - 1] + (known[after] - known[after - 1]) * np.clip(share, 0.0, 1.0)
        lines = lines * (1 + 16 * ROUNDING) + 8 * ROUNDING * known[after - 1]
        # Before the first point, the line begins at δ = 1 for x = 0. Beyond the last point, δ is at
        # most its last known value.
        first = 1 - (1 - known[0]) * np.exp(np.minimum(epsilons - points[0], 0.0))
        lines = np.where(epsilons < points[0], first + 16 * ROUNDING, lines)
        lines = np.where(epsilons > points[-1], known[-1], lines)
        return np.minimum.accumulate(np.minimum(lines, 1.0))


def _reach(curve: PrivacyCurve) -> float:
    """An ε at which finite losses above ε add at most `_RARE` to δ. This ε may be 0.1 % larger than
    needed, because a closer search would be slow.
    """
    low, high = 0.0, curve.last
    most, least = curve.deltas(np.array([low, high]))
    while most > least + _RARE and high - low > 1e-3 * high and high > 1e-9:
        middle = (low + high) / 2
        rare = curve.deltas(np.array([middle]))[0] <= least + _RARE
        low, high = (low, middle) if rare else (middle, high)
    return max(high if most > least + _RARE else 0.0, 1e-9)


def _hull(
    grid: NDArray[np.int64], step: float, deltas: NDArray[np.float64]
) -> tuple[list[int], list[float]]:
    """The bends of the largest curve below these δ that is convex in e^ε, and the masses of A_q at
    these bends.

    The mass at a point is `fall` − `rise`. These are the two terms of the formula in "Grid" above:
    `fall` depends on the previous point, and `rise` depends on the next point.
    """
    places: list[int] = []
    heights: list[float] = []
    falls: list[float] = []
    rises: list[float] = []  # the last point has no rise yet, because it has no next point
    for at, delta in zip(grid.tolist(), deltas.tolist(), strict=True):
        while places:
            rise = (heights[-1] - delta) / math.expm1(min((at - places[-1]) * step, 700.0))
            if falls[-1] - rise >= 0:
                rises.append(rise)
                break
            for column in (places, heights, falls):
                column.pop()
            if rises:
                rises.pop()
        fall = 1 - delta
        if places:
            fall = (heights[-1] - delta) / -math.expm1(-(at - places[-1]) * step)
        places.append(at)
        heights.append(delta)
        falls.append(fall)
    rises.append(0.0)
    # Each quotient has a small relative error.
    masses = [
        max(0.0, fall - rise) + 16 * ROUNDING * (fall + rise)
        for fall, rise in zip(falls, rises, strict=True)
    ]
    return places, masses


@lru_cache(maxsize=64)  # a curve is often composed with several others, one after another
def observations_of(curve: PrivacyCurve) -> tuple[Observations, float]:
    """Independent observations, and a total variation. The release differs by at most this total
    variation from a release that the observations dominate.

    If a release has a single pair of views that consists of independent observations, these
    observations are used, because they are more accurate than the curve.
    """
    if isinstance(curve, NearCurve):
        found, more = observations_of(curve.known)
        return found, curve.variation + more
    if isinstance(curve, ProductCurve) and len(curve.accounts.views) == 1:
        return (tuple(curve.accounts.views[0]), curve.accounts.law), 0.0
    if isinstance(curve, MovedCurve) and curve.leaving[0].mass is curve.leaving[1].mass:
        held, left = curve.leaving
        if curve.entering == (left, held) and left.tail == held.tail:
            return moved_observations(MovedLaw(left), held.start - left.start), 0.0
    known = CurveLosses(curve)
    return ((((1.0, 0.0, 0),),), lambda name, step, negligible: known.law(step)), 0.0


def moved_observations(noise: MovedLaw, by: int = 1, pairs: int = 1) -> Observations:
    """The observations if a person moves from one bucket to another in each of `pairs` histograms
    with this noise. The person changes each of the two counts by `by`.
    """
    parts: tuple[tuple[Part, ...], ...] = tuple(((1.0, 0.0, sign * by),) for sign in (1, -1))

    def law(name: Hashable, step: float, negligible: float) -> LossLaw:
        return noise.losses(cast(int, name), step, negligible)

    return parts * pairs, law


@dataclass(frozen=True, eq=False)
class JointAccounts:
    """All observations of several releases. The name of an observation begins with the index of its
    release in `releases`.

    If the same observations occur several times, their losses are computed only once.
    """

    releases: tuple[Observations, ...] = field(repr=False)
    times: int = 1  # how often each release is made

    @cached_property
    def view(self) -> View:
        places: dict[int, int] = {}
        return [
            tuple(
                (weight, loss, (places.setdefault(id(one), at), name))
                for weight, loss, name in parts
            )
            for at, one in enumerate(self.releases)
            for parts in one[0]
        ] * self.times

    @property
    def views(self) -> Sequence[View]:
        return [self.view]

    @property
    def usual(self) -> Sequence[View]:
        return [self.view]

    def law(self, name: Hashable, step: float, negligible: float) -> LossLaw:
        place, own = cast(tuple[int, Hashable], name)
        return self.releases[place][1](own, step, negligible)

    def delta(self, epsilon: float) -> float:
        return products_for(self.views, self.law, epsilon)[1]


@dataclass(frozen=True, eq=False)
class JointCurve(PrivacyCurve):
    """The curve of several releases together, each made `times` times."""

    curves: tuple[PrivacyCurve, ...]
    times: int = 1

    @property
    def attained(self) -> bool:
        """Whether every release attains its curve. The joint curve is attained only if, in
        addition, one person's values can change in all releases at once.
        """
        return all(curve.attained for curve in self.curves)

    @cached_property
    def pure_epsilon(self) -> float:
        """An upper bound on all losses, which may be infinite."""
        if any(isinstance(curve, NearCurve | ProductCurve) for curve in self.curves):
            return math.inf
        pure = self.times * math.fsum(curve.epsilon(0.0) for curve in self.curves)
        return pure * (1 + 1e-12)

    @cached_property
    def _known(self) -> PrivacyCurve:
        found: dict[int, tuple[Observations, float]] = {}
        for curve in self.curves:
            if id(curve) not in found:
                found[id(curve)] = observations_of(curve)
        every = [found[id(curve)] for curve in self.curves]
        known = ProductCurve(JointAccounts(tuple(one for one, _ in every), self.times))
        # Total variations of independent releases add up.
        variation = self.times * math.fsum(more for _, more in every) * (1 + 1e-12)
        return NearCurve(known, variation) if variation else known

    @cached_property
    def _end(self) -> float:
        """The ε beyond which the δ of `_known` grows. δ grows there because the total variation is
        multiplied by 1 + e^ε. So the δ at this ε is also used for every larger ε.
        """
        points = self._known.bends
        points = points[points >= 0]
        return float(points[np.argmin(self._known.deltas(points))])

    def _delta(self, epsilon: float) -> float:
        if epsilon >= self.pure_epsilon:
            return 0.0
        known = self._known.delta(epsilon)
        # Finding `_end` takes long. It is needed only if the total variation matters.
        if isinstance(self._known, NearCurve):
            charged = known - self._known.known.delta(epsilon)
            if charged > known / 8 and epsilon > self._end:
                known = self._known.delta(self._end)
        return known

    def _deltas(self, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
        known = self._known.deltas(np.minimum(epsilons, self._end))
        return np.where(epsilons >= self.pure_epsilon, 0.0, known)

    def _epsilon(self, delta: float) -> float:
        if not delta:
            return self.pure_epsilon
        found = min(self._known.epsilon(delta), self.pure_epsilon)
        if found > self._end and self._known.delta(self._end) <= delta:
            return self._end
        return found

    @cached_property
    def bends(self) -> NDArray[np.float64]:
        inner = self._known.bends
        inner = inner[inner <= self._end]
        if math.isinf(self.pure_epsilon):
            return inner
        inner = inner[np.abs(inner) < self.pure_epsilon]
        return np.unique(np.concatenate([inner, [-self.pure_epsilon, self.pure_epsilon]]))

    @property
    def last(self) -> float:
        return min(self._end, self.pure_epsilon)


def joint_curve(curves: Sequence[PrivacyCurve], times: int = 1) -> PrivacyCurve:
    """The curve of all these releases, each made `times` times."""
    return curves[0] if len(curves) == 1 == times else JointCurve(tuple(curves), times)
