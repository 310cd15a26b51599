"""Laws on lattices: the whole law of an error, as far as a protocol can state it.

These laws are for intervals and tests. Their masses have an absolute error of about 1e-12. So these
laws are not accurate far out in the tails, unlike the laws of `accounting.laws`.
"""

import math
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from headcount.core.cached import cached_property

MOST_MASSES = 1 << 18  # a longer law is made coarser
_DIRECT = 256  # if two laws are both longer than this, Fourier transforms compute their sum
_TRANSFORMED = 1e-14  # a probability from a Fourier transform has a smaller error than this
_RARE = 1e-18  # the probability outside the window of a binomial law


@dataclass(frozen=True, eq=False)
class LatticeLaw:
    """P(X = start + i·step) is mass[i].

    The masses leave out at most the probability `missing`. If values were moved to the lattice, X
    may be up to `blur` away from its point. If the law is not `exact`, it is an approximation.
    """

    start: float
    mass: NDArray[np.float64] = field(repr=False)
    step: float = 1.0
    missing: float = 0.0
    blur: float = 0.0
    exact: bool = True

    @classmethod
    def none(cls) -> "LatticeLaw":
        """The law of a number that is always 0."""
        return cls(0.0, np.ones(1))

    @classmethod
    def binomial(cls, trials: int, chance: float) -> "LatticeLaw":
        """Bin(trials, chance), computed from the ratios of neighboring masses."""
        if not 0 < chance < 1 or not trials:
            return cls(float(trials) if chance >= 1 else 0.0, np.ones(1))
        # Bernstein: P(|X − mean| ≥ h) ≤ 2 exp(−h²/(2(v + h/3))).
        log = math.log(2 / _RARE)
        reach = log / 3 + math.sqrt(log**2 / 9 + 2 * trials * chance * (1 - chance) * log)
        low = max(0, math.floor(trials * chance - reach))
        high = min(trials, math.ceil(trials * chance + reach))
        k = np.arange(low + 1, high + 1, dtype=np.float64)
        ratios = np.log((trials - k + 1) / k) + math.log(chance / (1 - chance))
        logs = np.concatenate([[0.0], np.cumsum(ratios)])
        weights = np.exp(logs - logs.max())
        return cls(float(low), weights / weights.sum(), missing=_RARE)

    @classmethod
    def normal(cls, deviation: float, step: float) -> "LatticeLaw":
        """A normal law with mean 0, moved to the nearest points of a lattice."""
        reach = math.ceil(9 * deviation / step)
        edges = [step * (at - 0.5) for at in range(-reach, reach + 2)]
        below = np.array([NormalDist(0.0, deviation).cdf(edge) for edge in edges])
        return cls(-reach * step, np.diff(below), step, _RARE, step / 2, exact=False)

    @property
    def values(self) -> NDArray[np.float64]:
        """The points of the lattice, one for each mass."""
        return self.start + self.step * np.arange(len(self.mass), dtype=np.float64)

    @cached_property
    def variance(self) -> float:
        mean = float(self.mass @ self.values)
        return float(self.mass @ (self.values - mean) ** 2)

    @cached_property
    def _sums(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The probability of the first i points, and of all points from i on."""
        below = np.concatenate([[0.0], np.cumsum(self.mass)])
        above = np.concatenate([np.cumsum(self.mass[::-1])[::-1], [0.0]])
        return below, above

    def at_most(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(X ≤ v) for each v, without the missing probability."""
        points = np.floor((values - self.start) / self.step) + 1
        below, _ = self._sums
        chances: NDArray[np.float64] = below[np.clip(points, 0, len(self.mass)).astype(np.int64)]
        return chances

    def at_least(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(X ≥ v) for each v, without the missing probability."""
        points = np.ceil((values - self.start) / self.step)
        _, above = self._sums
        return above[np.clip(points, 0, len(self.mass)).astype(np.int64)]

    def moved(self, by: float) -> "LatticeLaw":
        """The law of X + by."""
        return replace(self, start=self.start + by)

    def scaled(self, by: float) -> "LatticeLaw":
        """The law of by·X, for a positive number."""
        return replace(self, start=self.start * by, step=self.step * by, blur=self.blur * by)

    def coarser(self, times: int) -> "LatticeLaw":
        """The law in which every `times` neighboring points are merged into their middle."""
        padded = np.concatenate([self.mass, np.zeros(-len(self.mass) % times)])
        aside = (times - 1) / 2 * self.step
        return replace(
            self,
            start=self.start + aside,
            mass=padded.reshape(-1, times).sum(axis=1),
            step=self.step * times,
            blur=self.blur + aside,
        )

    def plus(self, other: "LatticeLaw") -> "LatticeLaw":
        """The law of X + Y for independent X and Y. One step must be a multiple of the other."""
        for one, two in ((self, other), (other, self)):
            if len(one.mass) == 1:
                return two._with(one)
        fine, coarse = sorted((self, other), key=lambda law: law.step)
        times, mass = round(coarse.step / fine.step), coarse.mass
        if times > 1 and len(mass) * times <= MOST_MASSES:
            mass = np.zeros((len(coarse.mass) - 1) * times + 1)
            mass[::times] = coarse.mass
        elif times > 1:
            fine = fine.coarser(times)
        return replace(fine._with(coarse), mass=_convolved(fine.mass, mass))

    def _with(self, other: "LatticeLaw") -> "LatticeLaw":
        """The same masses, with the start and the errors of the sum of both laws."""
        return replace(
            self,
            start=self.start + other.start,
            missing=self.missing + other.missing + _TRANSFORMED,
            blur=self.blur + other.blur,
            exact=self.exact and other.exact,
        )


def _convolved(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    if min(len(one), len(other)) <= _DIRECT:
        return np.convolve(one, other)
    size = len(one) + len(other) - 1
    quarter = 1 << ((size - 1).bit_length() - 3)
    length = -(-size // quarter) * quarter  # 5 to 8 times a power of two, which is fast
    product = np.fft.rfft(one, length) * np.fft.rfft(other, length)
    return np.maximum(np.fft.irfft(product, length)[:size], 0.0)


@dataclass(frozen=True, eq=False)
class Reports:
    """What the estimate of a count is computed from: S = Bin(c, own) + Bin(n − c, other) + noise.

    c of n people are counted. A counted person adds 1 to S with probability `own`, and any other
    person with probability `other`. The noise is independent of everything, and its mean is 0. The
    estimate of c is (S − n·other)/(own − other). Without random responses, own is 1 and other is 0.
    """

    users: int
    own: float
    other: float
    noise: LatticeLaw

    @property
    def slope(self) -> float:
        return self.own - self.other

    @property
    def responding(self) -> bool:
        """Whether people respond at random, so that the law of the error depends on c."""
        return self.own < 1 or self.other > 0

    def seen(self, share: float) -> float:
        """The S for which c/n is estimated by this share."""
        return self.users * (self.other + self.slope * share)

    def shares(self, seen: NDArray[np.float64]) -> NDArray[np.float64]:
        """The estimates of c/n for these S."""
        return (seen / self.users - self.other) / self.slope

    def crowd(self, count: int) -> LatticeLaw:
        """The law of the error of the estimated share, if c is this count."""
        if not self.responding:
            return self.noise.scaled(1 / self.users)
        counted = LatticeLaw.binomial(count, self.own)
        others = LatticeLaw.binomial(self.users - count, self.other)
        mean = count * self.own + (self.users - count) * self.other
        law = counted.plus(others).plus(self.noise)
        return law.moved(-mean).scaled(1 / (self.users * self.slope))

    def near(self, share: float, reach: float) -> LatticeLaw:
        """The widest law of the error if c/n is at most `reach` away from this share.

        The variance is linear in c, so it is largest at an end of this range. The points of the
        lattice depend on c, too, so they are known only up to half a step.
        """
        grows = self.own * (1 - self.own) > self.other * (1 - self.other)
        falls = self.own * (1 - self.own) < self.other * (1 - self.other)
        widest = min(max(share + reach * (grows - falls), 0.0), 1.0)
        law = self.crowd(round(widest * self.users))
        return replace(law, blur=law.blur + law.step / 2) if self.responding else law

    def population(self, share: float) -> LatticeLaw:
        """The law of S if each person is counted with this probability, independently."""
        chance = min(max(self.other + self.slope * share, 0.0), 1.0)
        return LatticeLaw.binomial(self.users, chance).plus(self.noise)


@runtime_checkable
class WholeLaw(Protocol):
    """An error law that is known as a whole, and is the same for all data."""

    def lattice(self) -> LatticeLaw:
        """The law of (unbiased estimate − truth)."""


@runtime_checkable
class ReportedLaw(Protocol):
    """An error law of a count, or of every bucket, that comes from reports of people."""

    def reports(self) -> Reports | None:
        """The reports and the noise. None if their law cannot be stated like this."""
