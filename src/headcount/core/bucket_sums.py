"""Weighted sums of a histogram's buckets, and what is known about their errors.

Notation    X_b is the error of bucket b, and w_b is a weight. S = Σ w_b·X_b is the error of the
            weighted sum. 1 − α is the confidence.
Law         If the law of S is known, the margins leave a probability of at most α/2 on each side.
Normal      If S is a sum over many people, and only its variance is known, S is treated as normal.
            This is approximate. If a report adds at most w to S, the third moment of S is at most w
            times the variance of S. So the Cornish–Fisher expansion for the skewness of S adds at
            most w(z² − 1)/6 to the margin, where z is the normal quantile.
Bounded     Otherwise, each of the k buckets whose weight is not 0 gets a margin at confidence
            1 − α/k. The margins, multiplied by the absolute weights, are added. This is valid
            however the errors depend on each other.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from headcount.core.cached import cached_property
from headcount.core.contrasts.crowds import TIE, TwoErrors
from headcount.core.estimate import ErrorLaw
from headcount.core.lattice import LatticeLaw, WholeLaw

Weights: TypeAlias = NDArray[np.float64]
Part: TypeAlias = tuple[float, LatticeLaw]  # a term f·X of a sum: the factor f and the law of X

_RARE = 1e-17  # each tail that is cut off from the law of a sum has at most this probability
_FAINT = 1e-15  # the same for terms that are moved to a fine lattice, where long laws cost time
_UNLIKELY = 1e-9  # the same for sums whose joint law is tabulated: see `_given_zero`
_COARSE = 128  # one error's law has at most about twice this many points in a standard deviation
_MOST_POINTS = 1 << 18  # the most points of the lattice of a sum
_FINE = 1024  # the most lattice points in a standard deviation of a sum of several terms
_ROUGH = (32, 256)  # lattice points in a standard deviation, for lattices that are tried first
_CLOSE = 1e-9  # rounding and cut tails change a probability by less than this


@runtime_checkable
class KnownSums(Protocol):
    """An error law of buckets that can split weighted sums into independent terms."""

    def weighted(self, weights: Weights) -> list[Part] | None:
        """Independent terms that add up to Σ w_b·X_b. None if they are not known."""


@runtime_checkable
class DependentSums(Protocol):
    """An error law of buckets that knows the law of weighted sums, although the errors of buckets
    depend on each other.
    """

    def summed(self, weights: Weights) -> "SumError | None":
        """The error Σ w_b·X_b. None if its law is not known."""


@runtime_checkable
class KnownVariances(Protocol):
    """An error law of buckets that knows the variance of weighted sums."""

    def combined(self, weights: Weights) -> Weights:
        """The standard errors of weighted sums. Each row of `weights` is one sum."""


@runtime_checkable
class NearlyNormalSums(KnownVariances, Protocol):
    """An error law of buckets. Weighted sums are nearly normal, since there are many people."""

    def largest_report(self, weights: Weights) -> float:
        """The most that one report adds to a weighted sum, if the report is about one bucket."""


@lru_cache(maxsize=64)
def lattice_of(law: WholeLaw) -> LatticeLaw:
    """The law on its lattice, computed once. A very fine law is made coarser."""
    return thinned(law.lattice())


def thinned(law: LatticeLaw) -> LatticeLaw:
    """The same law, made coarser if it is very fine."""
    times = math.floor(math.sqrt(law.variance) / law.step / _COARSE)
    return law.coarser(times) if times > 1 else law


def independent_parts(law: LatticeLaw, weights: Weights) -> list[Part]:
    """The terms of a weighted sum of independent errors that all have this law. There is one term
    for each different weight.
    """
    factors, copies = np.unique(weights[weights != 0], return_counts=True)
    return [
        (factor, _copies(law, times))
        for factor, times in zip(factors.tolist(), copies.tolist(), strict=True)
    ]


class SumError(ABC):
    """The error S of a weighted sum. `method` says in words how its intervals are computed."""

    method: str

    @property
    @abstractmethod
    def standard_error(self) -> float: ...

    @abstractmethod
    def margins(self, confidence: float) -> tuple[float, float]:
        """(a, b) such that −a ≤ S ≤ b holds with at least this probability."""

    @abstractmethod
    def is_possible(self, value: float, wrong: float) -> bool:
        """Whether a test with error probability `wrong` allows S to be this value."""

    @abstractmethod
    def sampled(self, people: int, share: float) -> "SumError":
        """The error S + Bin(people, share) − people·share: noise and sampling together."""


def sum_error(law: ErrorLaw, weights: Weights) -> SumError:
    """The error of a weighted sum of buckets whose errors have this law."""
    parts = law.weighted(weights) if isinstance(law, KnownSums) else None
    if parts is not None:
        return KnownSum(tuple(parts))
    dependent = law.summed(weights) if isinstance(law, DependentSums) else None
    if dependent is not None:
        return dependent
    if isinstance(law, NearlyNormalSums):
        return NormalSum(
            float(law.combined(weights[np.newaxis])[0]), float(law.largest_report(weights))
        )
    return BoundedSum(law, weights)


@dataclass(frozen=True, eq=False)
class KnownSum(SumError):
    """A sum of independent terms with known laws."""

    parts: tuple[Part, ...]
    fine: int = _FINE

    method = "exact law of the noise"

    @property
    def standard_error(self) -> float:
        return math.sqrt(sum(factor**2 * law.variance for factor, law in self.parts))

    @cached_property
    def _law(self) -> LatticeLaw:
        """The law of the sum. If there are several terms, the values of each term are moved to the
        nearest points of a fine lattice.
        """
        if not self.parts:
            return LatticeLaw.none()
        if len(self.parts) == 1:
            return _multiplied(*self.parts[0])
        parts = [(factor, _trimmed(law, _FAINT)) for factor, law in self.parts]
        span = sum(abs(factor) * law.step * len(law.mass) for factor, law in parts)
        step = max(self.standard_error / self.fine, span / _MOST_POINTS)
        laws = [_moved_to_lattice(factor, law, step) for factor, law in parts]
        total = laws[0]
        for law in laws[1:]:
            total = _trimmed(total.plus(law))
        return total

    def margins(self, confidence: float) -> tuple[float, float]:
        law, half = self._law, (1 - confidence) / 2
        if law.missing >= half:
            return math.inf, math.inf
        # From outside, each end is the first point that must lie inside: if it lay outside, too,
        # the probability outside would exceed α/2.
        ends = []
        for mass, values in ((law.mass, law.values), (law.mass[::-1], law.values[::-1])):
            outside = np.cumsum(mass) + law.missing
            at = int(np.searchsorted(outside, half, side="right"))
            ends.append(float(values[min(at, len(values) - 1)]))
        return law.blur - ends[0], law.blur + ends[1]

    def is_possible(self, value: float, wrong: float) -> bool:
        if value**2 * wrong > self.standard_error**2 * (1 + 1e-9):
            return False  # by Chebyshev's inequality, which is fast
        if len(self.parts) == 2:  # two terms need no lattice: their sum is computed exactly
            (factor, law), (other_factor, other) = self.parts
            errors = TwoErrors(_signed(factor, law), _signed(-other_factor, other))
            return errors.reached(abs(value), (abs(factor), abs(other_factor))) > wrong
        rougher = [fine for fine in _ROUGH if fine < self.fine and len(self.parts) > 2]
        for fine in rougher:
            # Moving S to a lattice changes S by at most the blur of the lattice, which is smallest
            # for the finest lattice. So a decision with a margin of three blurs would be the same
            # on the finest lattice.
            rough = replace(self, fine=fine)._law
            if _reached(rough, abs(value) - 3 * rough.blur) < wrong - _CLOSE:
                return False
            if _reached(rough, abs(value) + 3 * rough.blur) > wrong + _CLOSE:
                return True
        return _reached(self._law, abs(value)) > wrong

    def sampled(self, people: int, share: float) -> "KnownSum":
        drawn = LatticeLaw.binomial(people, share).moved(-people * share)
        return replace(self, parts=(*self.parts, (1.0, drawn)), fine=_FINE // 8)


@dataclass(frozen=True, eq=False)
class SumOfZeros(SumError):
    """A weighted sum of errors that add up to 0. Errors with the same weight form a group. The
    weighted sum is Σ f_i·Y_i over all groups except the last. Y_i is the sum of the errors in group
    i, and f_i is the group's weight minus the weight of the last group.
    """

    groups: "ZeroGroups"
    factors: Weights

    method = "exact law of the noise"

    @property
    def standard_error(self) -> float:
        return math.sqrt(float(self.factors @ self.groups.covariance @ self.factors))

    def margins(self, confidence: float) -> tuple[float, float]:
        return self.on_lattice.margins(confidence)

    @cached_property
    def on_lattice(self) -> KnownSum:
        """The same sum on a lattice with at most `_COARSE` points in a standard error."""
        values, mass = self.groups.sums @ self.factors, self.groups.mass.ravel()
        step = max(self.standard_error / _COARSE, float(np.ptp(values)) / _MOST_POINTS) or 1.0
        places = np.rint(values / step).astype(np.int64)
        binned = np.bincount(places - places.min(), mass).astype(np.float64)
        law = LatticeLaw(places.min() * step, binned, step, self.groups.missing, step / 2)
        return KnownSum(((1.0, law),))

    def is_possible(self, value: float, wrong: float) -> bool:
        if value**2 * wrong > self.standard_error**2 * (1 + 1e-9):
            return False  # by Chebyshev's inequality, which is fast
        return self.groups.reached(self.factors, abs(value)) > wrong

    def sampled(self, people: int, share: float) -> "SampledZeros":
        return SampledZeros(self, people, share)


@dataclass(frozen=True, eq=False)
class SampledZeros(SumError):
    """The sampling error, plus a weighted sum of errors that add up to 0."""

    noise: SumOfZeros
    people: int
    share: float

    method = SumOfZeros.method

    @property
    def standard_error(self) -> float:
        drawn = self.people * self.share * (1 - self.share)
        return math.sqrt(self.noise.standard_error**2 + drawn)

    @property
    def _known(self) -> KnownSum:
        return self.noise.on_lattice.sampled(self.people, self.share)

    def margins(self, confidence: float) -> tuple[float, float]:
        return self._known.margins(confidence)

    def is_possible(self, value: float, wrong: float) -> bool:
        if value**2 * wrong > self.standard_error**2 * (1 + 1e-3):
            return False  # by Chebyshev's inequality, before the law is put on a lattice
        return self._known.is_possible(value, wrong)

    def sampled(self, people: int, share: float) -> KnownSum:
        return self._known.sampled(people, share)


@dataclass(frozen=True, eq=False)
class NormalSum(SumError):
    """A sum that is treated as normal, and corrected for its skewness."""

    deviation: float
    largest: float  # the most that one person adds

    method = "approximate: the error is treated as normal"

    @property
    def standard_error(self) -> float:
        return self.deviation

    def margins(self, confidence: float) -> tuple[float, float]:
        deviations = -NormalDist().inv_cdf((1 - confidence) / 2)
        margin = deviations * self.deviation + self.largest * max(0.0, deviations**2 - 1) / 6
        return margin, margin

    def is_possible(self, value: float, wrong: float) -> bool:
        return abs(value) <= self.margins(1 - wrong)[0]

    def sampled(self, people: int, share: float) -> "NormalSum":
        drawn = math.sqrt(people * share * (1 - share))
        return NormalSum(math.hypot(self.deviation, drawn), self.largest + 1)


@dataclass(frozen=True, eq=False)
class BoundedSum(SumError):
    """A sum that is bounded by the margins of its buckets.

    If people are sampled, half of the error probability is for sampling, by Hoeffding's inequality:
    P(|Bin(m, p) − mp| ≥ s) ≤ 2e^{−2s²/m}.
    """

    law: ErrorLaw
    weights: Weights
    people: int = 0

    method = "upper bound: the intervals of single buckets are added"

    @property
    def standard_error(self) -> float:
        """The standard error, or an upper bound by the triangle inequality."""
        if isinstance(self.law, KnownVariances):
            noise = float(self.law.combined(self.weights[np.newaxis])[0])
        else:
            each = np.broadcast_to(self.law.standard_error, self.weights.shape)
            noise = float(np.abs(self.weights) @ each)
        return math.hypot(noise, math.sqrt(self.people) / 2)

    def margins(self, confidence: float) -> tuple[float, float]:
        wrong, drawn = 1 - confidence, 0.0
        if self.people:
            wrong /= 2
            drawn = math.sqrt(self.people * math.log(2 / wrong) / 2)
        buckets = max(1, int(np.count_nonzero(self.weights)))
        below, above = (
            np.broadcast_to(margin, self.weights.shape)
            for margin in self.law.margins(1 - wrong / buckets)
        )
        up, down = np.maximum(self.weights, 0.0), np.maximum(-self.weights, 0.0)
        return (
            float(up @ below + down @ above) + drawn,
            float(up @ above + down @ below) + drawn,
        )

    def is_possible(self, value: float, wrong: float) -> bool:
        below, above = self.margins(1 - wrong)
        return -below <= value <= above

    def sampled(self, people: int, share: float) -> "BoundedSum":
        return replace(self, people=people)


# Laws of sums ---------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _copies(law: LatticeLaw, times: int) -> LatticeLaw:
    """The law of the sum of `times` independent copies of an error, by repeated doubling."""
    if times == 1:
        return law
    half = _copies(law, times // 2)
    both = _trimmed(half.plus(half))
    return _trimmed(both.plus(law)) if times % 2 else both


def _trimmed(law: LatticeLaw, rare: float = _RARE) -> LatticeLaw:
    """The law without its far tails, each of which has a probability of at most `rare`."""
    first = int(np.searchsorted(np.cumsum(law.mass), rare))
    last = len(law.mass) - int(np.searchsorted(np.cumsum(law.mass[::-1]), rare))
    return replace(
        law,
        start=law.start + first * law.step,
        mass=law.mass[first:last],
        missing=law.missing + 2 * rare,
    )


@dataclass(frozen=True, eq=False)
class ZeroGroups:
    """The joint law of the sums Y_i of one or two groups of errors, given that all errors add up to
    0. There is one more group, which needs no Y_i: its sum is minus the sum of all Y_i. If there
    are two Y_i, `mass` is a table.
    """

    lines: tuple[NDArray[np.float64], ...]  # the possible values of each Y_i, in equal steps
    mass: NDArray[np.float64]
    missing: float

    @property
    def sums(self) -> NDArray[np.float64]:
        """The values of all Y_i, with a row for each entry of `mass`."""
        grids = np.meshgrid(*self.lines, indexing="ij")
        return np.stack([grid.ravel() for grid in grids], axis=1)

    @cached_property
    def covariance(self) -> NDArray[np.float64]:
        """The means of all products Y_i·Y_j. The means of all Y_i are 0."""
        sums = self.sums
        return (sums * self.mass.ravel()[:, None]).T @ sums

    @cached_property
    def _below(self) -> NDArray[np.float64]:
        """The cumulative probabilities of the last Y_i, with a row for each value of the other."""
        rows = self.mass.reshape(-1, len(self.lines[-1]))
        return np.pad(np.cumsum(rows, axis=1), ((0, 0), (1, 0)))

    def reached(self, factors: Weights, distance: float) -> float:
        """P(|Σ f_i·Y_i| ≥ distance), rounded up. Ties count as reached."""
        last, line = float(factors[-1]), self.lines[-1]
        others = self.lines[0] * factors[0] if len(self.lines) > 1 else np.zeros(1)
        step = float(line[1] - line[0]) if len(line) > 1 else 1.0
        near = distance - TIE * step * float(np.abs(factors).sum())
        if near <= 0:
            return 1.0
        below = self._below
        if not last:
            outside = below[np.abs(others) >= near, -1].sum()
        else:
            # The distance is reached if Y ≥ (near − others)/f or Y ≤ (−near − others)/f. If f is
            # negative, ≥ and ≤ are exchanged.
            ends = np.sort(np.stack([(near - others) / last, (-near - others) / last]), axis=0)
            first = np.clip(np.floor((ends[0] - line[0]) / step) + 1, 0, len(line)).astype(int)
            after = np.clip(np.ceil((ends[1] - line[0]) / step), 0, len(line)).astype(int)
            rows = np.arange(len(below))
            outside = (below[rows, first] + below[:, -1] - below[rows, after]).sum()
        return min(1.0, float(outside) * (1 + 1e-12) + self.missing)


def sum_of_zeros(law: LatticeLaw, weights: Weights) -> SumError | None:
    """The weighted sum of errors that are independent with this law, given that they add up to 0.
    None if there are more than three different weights, or if a law would have too many points.
    """
    factors, copies = np.unique(weights, return_counts=True)
    order = np.argsort(copies, kind="stable")
    factors, sizes = factors[order], tuple(copies[order].tolist())
    if len(factors) == 1:
        return KnownSum(())
    groups = _given_zero(law, sizes) if len(factors) <= 3 else None
    return None if groups is None else SumOfZeros(groups, factors[:-1] - factors[-1])


@lru_cache(maxsize=32)
def _given_zero(law: LatticeLaw, sizes: tuple[int, ...]) -> ZeroGroups | None:
    """The joint law of the sums of groups of errors, without the last group, given that all errors
    add up to 0. None if the joint law would have too many points.
    """
    *groups, last = (_trimmed(_copies(law, size), _UNLIKELY) for size in sizes)
    if math.prod(len(group.mass) for group in groups) > _MOST_POINTS * 16:
        return None
    grids = np.meshgrid(*(group.values for group in groups), indexing="ij")
    mass: NDArray[np.float64] = np.ones(grids[0].shape)
    for at, group in enumerate(groups):
        mass = mass * group.mass.reshape([-1 if one == at else 1 for one in range(len(groups))])
    places = np.rint((-sum(grids) - last.start) / last.step).astype(np.int64)
    inside = (places >= 0) & (places < len(last.mass))
    mass = mass * np.where(inside, last.mass[np.where(inside, places, 0)], 0.0)
    total = float(mass.sum())
    missing = sum(group.missing for group in (*groups, last)) / total
    return ZeroGroups(tuple(group.values for group in groups), mass / total, missing)


def _signed(factor: float, law: LatticeLaw) -> LatticeLaw:
    """The law of X or, if the factor is negative, of −X."""
    if factor >= 0:
        return law
    return replace(law, start=-float(law.values[-1]), mass=law.mass[::-1])


def _reached(law: LatticeLaw, distance: float) -> float:
    """P(|X| ≥ distance), rounded up. Ties count as reached."""
    near = distance - TIE * law.step - law.blur
    if near <= 0:
        return 1.0
    end = np.array([near])
    outside = law.at_most(-end) + law.at_least(end)
    return min(1.0, float(outside[0]) + law.missing)


def _multiplied(factor: float, law: LatticeLaw) -> LatticeLaw:
    """The law of factor·X."""
    return _signed(factor, law).scaled(abs(factor))


def _moved_to_lattice(factor: float, law: LatticeLaw, step: float) -> LatticeLaw:
    """The law of factor·X on the multiples of `step`."""
    exact = _multiplied(factor, law)
    places = np.rint(exact.values / step).astype(np.int64)
    mass = np.bincount(places - places[0], exact.mass).astype(np.float64)
    return replace(
        exact, start=float(places[0]) * step, mass=mass, step=step, blur=exact.blur + step / 2
    )
