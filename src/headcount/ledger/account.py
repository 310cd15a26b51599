"""Does it fit? A data set's limit, and everything that was charged against it.

It fits if either of two sums does:

Plain       Σε ≤ limit ε and Σδ ≤ limit δ, in rational numbers, of the shortest decimal text of each
            float: ten charges of 0.1 fill a limit of 1, and what is left can be spent to the last
            digit. A float is within half a unit of its text, and a curve, which rounds up, may be a
            little above a guarantee that was proved without rounding: so this holds a limit to one
            part in 10^11 of ε and in 10^8 of δ. It holds however later charges are chosen.
Composed    δ(limit ε) ≤ limit δ for the composed privacy-loss distributions, rounded to the private
            side. It may allow many times as much. It holds if the curves that are charged are not
            chosen by what came out before; questions may be (see `accounting.composition`).

A limit of δ = 0 knows only the plain one.
"""

import math
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from headcount.accounting.divergence import PointCurve
from headcount.accounting.dominating import STEP, DominatingLaw
from headcount.core.budget import Budget
from headcount.core.cached import cached_property

if TYPE_CHECKING:
    from headcount.accounting.composition import ComposedCurve

_COMPOSITION = "headcount.accounting.composition"  # which takes seconds to load
_MOST_RELEASES = 10**6  # that are composed; more would drown in numerical error
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
class Account:
    """A limit and the charges against it, in no order."""

    limit: Budget
    charges: tuple[Charge, ...] = ()

    def adding(self, charge: Charge) -> "Account":
        return replace(self, charges=(*self.charges, charge))

    @property
    def plainly(self) -> "Account":
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
    def fits_plainly(self) -> bool:
        epsilons, deltas = self.sums
        return epsilons <= exactly(self.limit.epsilon) and deltas <= exactly(self.limit.delta)

    @property
    def is_ready(self) -> bool:
        """Whether `fits` can be asked without loading what takes seconds."""
        return self.fits_plainly or not self._may_fit or _COMPOSITION in sys.modules

    @property
    def fits(self) -> bool:
        if self.fits_plainly:
            return True
        if not self._may_fit or self.composed is None:
            return False
        return self.composed.delta(self.limit.epsilon) <= self.limit.delta

    @property
    def _may_fit(self) -> bool:
        """Whether it is worth composing: no single release exceeds the limit by itself."""
        return self.limit.delta > 0 and not any(
            one.law is None or one.law.delta(self.limit.epsilon) > self.limit.delta
            for one in self.charges
        )

    @cached_property
    def composed(self) -> "ComposedCurve | None":
        """All releases together; None if there are none, or too many, or without laws."""
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
        """What was spent at the limit's δ, by the better of the two sums."""
        epsilons, deltas = self.sums
        plain = upward(epsilons) if deltas <= exactly(self.limit.delta) else math.inf
        if not self.limit.delta or self.composed is None:
            return plain
        return min(plain, self.composed.epsilon(self.limit.delta))

    @property
    def delta(self) -> float:
        """What was spent at the limit's ε, by the better of the two sums."""
        epsilons, deltas = self.sums
        plain = upward(deltas) if epsilons <= exactly(self.limit.epsilon) else 1.0
        if not self.limit.delta or self.composed is None:
            return plain
        return min(plain, self.composed.delta(self.limit.epsilon))

    @property
    def spare_delta(self) -> float:
        """A δ that one more release may have: what plain sums leave, or half of what composition
        leaves.
        """
        epsilons, deltas = self.sums
        if epsilons < exactly(self.limit.epsilon) or self.composed is None:
            return downward(exactly(self.limit.delta) - deltas)
        return max(0.0, self.limit.delta - self.composed.delta(self.limit.epsilon)) / 2

    def room(self, delta: float) -> float:
        """The largest ε with which any one release of (ε, delta) surely fits; 0 if none does.

        Exact by plain sums; by composition to within two steps of its grid, and for the worst
        release of that pair: a better one may have more.
        """
        epsilons, deltas = self.sums
        plain = 0.0
        if deltas + exactly(delta) <= exactly(self.limit.delta):
            plain = downward(exactly(self.limit.epsilon) - epsilons)
        return max(plain, self._composed_room(delta))

    def _composed_room(self, delta: float) -> float:
        if not self.limit.delta or self.composed is None:
            return 0.0
        composed = self.composed

        def seems_to_fit(steps: int) -> bool:
            with_it = composed.delta_with(self.limit.epsilon, steps * STEP, delta)
            return with_it <= self.limit.delta

        def fits(steps: int) -> bool:
            law = DominatingLaw.of(PointCurve(steps * STEP, delta))
            return self.adding(Charge(steps * STEP, delta, law, 1)).fits

        few, many = 0, math.ceil(self.limit.epsilon / STEP) + 1
        while many - few > 1:
            middle = (few + many) // 2
            few, many = (middle, many) if seems_to_fit(middle) else (few, middle)
        while few > 1 and not fits(few):  # the numerical error grew, too
            few -= 1 + few // 100
        return round(
            max(0, few - 1) * STEP, 4
        )  # a release between two points of the grid counts as the next


@lru_cache(maxsize=8)
def _composed(releases: tuple[tuple[DominatingLaw, int], ...]) -> "ComposedCurve":
    """Kept, so that what was composed before a transaction need not be again in it."""
    from headcount.accounting.composition import compose_laws

    return compose_laws(releases)


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
