"""Decides whether all charges to a dataset fit its limit.

Every rule (see `rule`) accepts charges that plain sums (basic composition) allow: Σε is at most the
limit's ε, and Σδ is at most a share of the limit's δ. The rule sets this share. Each float is read
as its shortest decimal text, and the sums are exact rational numbers. So ten charges of 0.1 fill a
limit of 1, and the rest of a limit can be spent to the last digit.

Charges that plain sums allow may exceed a limit by one part in 10^11 of ε and one part in 10^8 of
δ. There are two reasons. A float may differ from its text by half a unit in the last place. A
privacy curve rounds up, so it may lie a little above a guarantee that was proved without rounding.

If the limit has δ = 0, only plain sums are used.
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

# Tolerances for comparing a curve with a guarantee: the relative tolerance of ε, the relative
# tolerance of δ, and the largest absolute tolerance of δ. At zero, relative tolerances are zero, so
# a charge of zero never pays for a release that has a cost.
_MORE_EPSILON, _SHARE, _MORE_DELTA = 1e-11, 1e-8, 1e-15


@dataclass(frozen=True)
class Charge:
    """`times` releases of the same kind. Each costs (epsilon, delta). `law` is the privacy-loss
    distribution of each release.
    """

    epsilon: float
    delta: float
    law: DominatingLaw | None
    times: int

    @property
    def is_sound(self) -> bool:
        """Whether `law` satisfies (epsilon, delta).

        A caller may state a smaller pair than `law` satisfies, so the pair is checked. Without a
        law, there is nothing to check.

        A distribution rounds up more than a privacy curve: it rounds ε up to the next point of the
        grid of losses, and it computes δ for many ε at once. So this check tolerates more rounding
        than `is_kept` alone.
        """
        if self.law is None:
            return True
        epsilon = math.ceil(self.epsilon / STEP) * STEP
        return is_kept(epsilon, 1.1 * self.delta + 1e-11, self.law.delta)


@dataclass(frozen=True)
class Account(ABC):
    """A limit and the charges against it. The order of the charges does not matter."""

    limit: Budget
    charges: tuple[Charge, ...] = ()

    def adding(self, charge: Charge) -> Self:
        return replace(self, charges=(*self.charges, charge))

    @property
    def without_laws(self) -> Self:
        """The same account without privacy-loss distributions. It uses only plain sums."""
        return replace(self, charges=tuple(replace(one, law=None) for one in self.charges))

    @property
    def releases(self) -> int:
        return sum(charge.times for charge in self.charges)

    @cached_property
    def sums(self) -> tuple[Fraction, Fraction]:
        """The exact sums Σε and Σδ over all releases."""
        return (
            sum((exactly(one.epsilon) * one.times for one in self.charges), Fraction()),
            sum((exactly(one.delta) * one.times for one in self.charges), Fraction()),
        )

    @property
    def plain_delta(self) -> Fraction:
        """The largest Σδ that plain sums allow."""
        return exactly(self.limit.delta)

    @property
    def fits_plainly(self) -> bool:
        epsilons, deltas = self.sums
        return epsilons <= exactly(self.limit.epsilon) and deltas <= self.plain_delta

    def plain_room(self, delta: float) -> float:
        """The largest ε for which plain sums allow one more release of (ε, delta)."""
        epsilons, deltas = self.sums
        if deltas + exactly(delta) > self.plain_delta:
            return 0.0
        return downward(exactly(self.limit.epsilon) - epsilons)

    @property
    def is_ready(self) -> bool:
        """Whether `fits` is quick. If not, `fits` first loads a module, which takes seconds."""
        return True

    @property
    def is_composed(self) -> bool:
        """Whether the account composes privacy-loss distributions."""
        return False

    @property
    @abstractmethod
    def fits(self) -> bool: ...

    @property
    @abstractmethod
    def epsilon(self) -> float:
        """The ε spent at the limit's δ: the least ε of a limit that allows all charges."""

    @property
    @abstractmethod
    def delta(self) -> float:
        """The δ spent at the limit's ε: the least δ of a limit that allows all charges."""

    @property
    @abstractmethod
    def spare_delta(self) -> float:
        """A δ that one more release may cost. At this δ, its ε may be up to `room(spare_delta)`."""

    @abstractmethod
    def room(self, delta: float) -> float:
        """The largest ε with which one more release of (ε, delta) always fits. It may be 0.

        The result is exact if it comes from plain sums. Otherwise it may be too small by up to two
        steps of the grid of losses. The result holds for the worst release of (ε, delta). A release
        with a better privacy curve may fit with a larger ε.
        """

    def fits_with(self, steps: int, delta: float) -> bool:
        """Whether the worst release of (ε, delta) still fits, if ε is `steps` steps of the grid."""
        law = DominatingLaw.of(PointCurve(steps * STEP, delta))
        return self.adding(Charge(steps * STEP, delta, law, 1)).fits

    def most_steps(self, fits: Callable[[int], bool]) -> int:
        """The largest number of steps of the grid for which `fits` is true, found by bisection. The
        search stops at the limit's ε, since no larger ε fits.
        """
        few, many = 0, math.ceil(self.limit.epsilon / STEP) + 1
        while many - few > 1:
            middle = (few + many) // 2
            few, many = (middle, many) if fits(middle) else (few, middle)
        return few


def less_a_step(steps: int) -> float:
    """The ε of `steps` − 1 steps of the grid, but at least 0. One step is subtracted because an ε
    between two points of the grid counts as the higher point.
    """
    return round(max(0, steps - 1) * STEP, 4)


def is_kept(epsilon: float, delta: float, curve: Callable[[float], float]) -> bool:
    """Whether a privacy curve satisfies (epsilon, delta), up to rounding errors."""
    more = min(_MORE_DELTA, _SHARE * delta)
    return curve(epsilon * (1 + _MORE_EPSILON)) <= delta + more


def exactly(number: float) -> Fraction:
    """The exact value of the shortest decimal text of a float."""
    return Fraction(repr(number))


def upward(number: Fraction) -> float:
    """The smallest float whose decimal text is at least this number."""
    rounded = float(number)
    while exactly(rounded) < number:
        rounded = math.nextafter(rounded, math.inf)
    return rounded


def downward(number: Fraction) -> float:
    """The largest float whose decimal text is at most this number, or 0 for a negative number."""
    rounded = max(0.0, float(number))
    while rounded and exactly(rounded) > number:
        rounded = math.nextafter(rounded, 0.0)
    return rounded
