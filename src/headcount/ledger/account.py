"""Does it fit? A data set's limit, and everything that was charged against it.

Every rule (`rule`) accepts what plain sums allow: Σε up to the limit's ε, and Σδ up to a share of
the limit's δ. Sums are rational numbers, of the shortest decimal text of each float. So ten charges
of 0.1 fill a limit of 1, and what is left can be spent to the last digit. A float is within half a
unit of its text, and a curve, which rounds up, may be a little above a guarantee that was proved
without rounding: so plain sums hold a limit to one part in 10^11 of ε and in 10^8 of δ.

Under a limit of δ = 0 only plain sums count.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

from headcount.accounting.divergence import PointCurve
from headcount.accounting.dominating import STEP, DominatingLaw
from headcount.core.budget import Budget
from headcount.core.cached import cached_property

# By how much a curve may be above a guarantee: a share of it, so that no charge is for nothing, and
# of δ no more than that in all.
_MORE_EPSILON, _SHARE, _MORE_DELTA = 1e-11, 1e-8, 1e-15


@dataclass(frozen=True)
class Charge:
    """Releases of one kind: (epsilon, delta) each, with this law of losses."""

    epsilon: float
    delta: float
    law: DominatingLaw | None
    times: int

    @property
    def is_sound(self) -> bool:
        """Whether the law keeps the pair: a pair is never believed by itself.

        Laws round up more than curves do: to the next point of the grid, and δ for many ε at once.
        """
        if self.law is None:
            return True
        epsilon = math.ceil(self.epsilon / STEP) * STEP
        return is_kept(epsilon, 1.1 * self.delta + 1e-11, self.law.delta)


@dataclass(frozen=True)
class Account(ABC):
    """A limit and the charges against it, in no order."""

    limit: Budget
    charges: tuple[Charge, ...] = ()

    def adding(self, charge: Charge) -> Self:
        return replace(self, charges=(*self.charges, charge))

    @property
    def plainly(self) -> Self:
        """The same without laws: only plain sums are looked at."""
        return replace(self, charges=tuple(replace(one, law=None) for one in self.charges))

    @property
    def releases(self) -> int:
        return sum(charge.times for charge in self.charges)

    @cached_property
    def sums(self) -> tuple[Fraction, Fraction]:
        """Σε and Σδ."""
        return (
            sum((exactly(one.epsilon) * one.times for one in self.charges), Fraction()),
            sum((exactly(one.delta) * one.times for one in self.charges), Fraction()),
        )

    @property
    def plain_delta(self) -> Fraction:
        """The most that Σδ may be."""
        return exactly(self.limit.delta)

    @property
    def fits_plainly(self) -> bool:
        epsilons, deltas = self.sums
        return epsilons <= exactly(self.limit.epsilon) and deltas <= self.plain_delta

    def plain_room(self, delta: float) -> float:
        """The largest ε with which plain sums allow one more release of (ε, delta)."""
        epsilons, deltas = self.sums
        if deltas + exactly(delta) > self.plain_delta:
            return 0.0
        return downward(exactly(self.limit.epsilon) - epsilons)

    @property
    def is_ready(self) -> bool:
        """Whether `fits` can be asked without loading what takes seconds."""
        return True

    @property
    def is_composed(self) -> bool:
        """Whether privacy-loss distributions are composed."""
        return False

    @property
    @abstractmethod
    def fits(self) -> bool: ...

    @property
    @abstractmethod
    def epsilon(self) -> float:
        """What was spent at the limit's δ: the least ε that would allow all charges with that δ."""

    @property
    @abstractmethod
    def delta(self) -> float:
        """What was spent at the limit's ε: the least δ that would allow all charges with that ε."""

    @property
    @abstractmethod
    def spare_delta(self) -> float:
        """A δ that one more release may have."""

    @abstractmethod
    def room(self, delta: float) -> float:
        """The largest ε with which any one release of (ε, delta) surely fits; 0 if none does.

        Exact by plain sums, else to within two steps of the grid of losses, and for the worst
        release of that pair: a better one may have more.
        """

    def fits_with(self, steps: int, delta: float) -> bool:
        """Whether the worst release of (so many steps of the grid of losses, delta) still fits."""
        law = DominatingLaw.of(PointCurve(steps * STEP, delta))
        return self.adding(Charge(steps * STEP, delta, law, 1)).fits

    def most_steps(self, fits: Callable[[int], bool]) -> int:
        """How many steps of the grid fit, by bisection; more than the limit's ε never do."""
        few, many = 0, math.ceil(self.limit.epsilon / STEP) + 1
        while many - few > 1:
            middle = (few + many) // 2
            few, many = (middle, many) if fits(middle) else (few, middle)
        return few


def less_a_step(steps: int) -> float:
    """The ε of one step less: a release between two points of the grid counts as the next one."""
    return round(max(0, steps - 1) * STEP, 4)


def is_kept(epsilon: float, delta: float, curve: Callable[[float], float]) -> bool:
    """Whether a curve is nowhere worse than the pair says, but for rounding."""
    more = min(_MORE_DELTA, _SHARE * delta)
    return curve(epsilon * (1 + _MORE_EPSILON)) <= delta + more


def exactly(number: float) -> Fraction:
    """The number that the shortest text of a float says."""
    return Fraction(repr(number))


def upward(number: Fraction) -> float:
    """The least float whose text says no less."""
    found = float(number)
    while exactly(found) < number:
        found = math.nextafter(found, math.inf)
    return found


def downward(number: Fraction) -> float:
    """The largest float, from 0 on, whose text says no more."""
    found = max(0.0, float(number))
    while found and exactly(found) > number:
        found = math.nextafter(found, 0.0)
    return found
