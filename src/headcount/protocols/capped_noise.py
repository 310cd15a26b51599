"""Noise in pairs that cancel, with at most K messages for everybody.

Notation    K slots. `accounting.capped` has the law of a person's jump and pairs. In a histogram of
            d buckets each person has noise in one secret bucket, drawn uniformly.
Randomizer  One table of at most K² entries has all jumps with all numbers R of pairs. Draw from it
            once. Send max(jump, 0) + R messages +1 and max(−jump, 0) + R messages −1. With the
            person's own message, that is never more than K, so nothing is ever drawn again.
Analyzer    (number of +1) − (number of −1) − (mean of the noise). In a histogram, the mean excess
            over n is subtracted instead (see `known_total`).
Privacy     δ of a count is exact. δ of a histogram is an upper bound, since the number of people
            with noise in each bucket is told to the adversary.
Error       The sum of all people's independent jumps, minus its mean.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.capped import CappedNoise, Crowds
from headcount.accounting.capped_curves import capped_curve
from headcount.accounting.capped_search import Fit, Wish, best_noise, quick_delta
from headcount.accounting.lattice_sums import Term, sum_law
from headcount.accounting.laws import ROUNDING, Law
from headcount.core.budget import Budget, Crowd
from headcount.core.bundles import RESERVED
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible
from headcount.core.guarantee import NearCurve, PrivacyCurve
from headcount.core.source import Source
from headcount.core.table import short
from headcount.protocols.fixed_total import FixedTotalError
from headcount.protocols.known_total import bounded_margins
from headcount.randomness.table import FINE, ThresholdTable
from headcount.randomness.totals import multinomial

LEAST_SLOTS = 2
MOST_SLOTS = 32
_LEAST_EPSILON = (0.1, 0.4)  # for a count, a histogram; below, the laws of D are too long
_USUAL_RATIO = 1.05
_TINY = 50  # the largest number of honest people in a crowd that counts as tiny
_FEWER = 3  # if the search fails, this many smaller numbers of slots are tried
# About the longest jump, times the rate of its noise, that is needed for these ratios of the error.
_RATIOS, _NEEDED = [1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0], [11.0, 10.0, 9.0, 8.0, 6.0, 4.0, 2.0]
_TRIES = 5  # how often c is corrected until the exact δ is within the budget
_CLOSE = 1e-3  # the relative error of δ at which c is close enough
_UNUSED = (6e-3, 3e-2)  # the part of δ that may be left unused: for a count, for two buckets
_QUICK = (1e-3, 6e-3)  # about the relative error of `quick_delta`: for a count, for two buckets


@dataclass(frozen=True)
class CappedError:
    """The error in a cell: all people's jumps, minus their mean."""

    noise: CappedNoise
    users: int
    share: Fraction  # the probability that a person's noise is in this cell

    @property
    def standard_error(self) -> float:
        mean = self.noise.mean * self.share
        return math.sqrt(self.users * (self.noise.square * self.share - mean**2))

    def margins(self, confidence: float) -> tuple[float, float]:
        low, high = _total(self).central_interval(confidence)
        mean = float(self.users * self.noise.mean * self.share)
        return mean - low, high - mean


@dataclass(frozen=True)
class CappedTotalError(FixedTotalError):
    """The error of a bucket after the mean excess was subtracted from all buckets.

    A person whose noise has the jump J adds J·(1 − 1/d) to the error of its bucket, and −J/d to the
    errors of all others. So the variance is n(1 − 1/d)/d·E[J²].
    """

    error: CappedError

    @property
    def standard_error(self) -> float:
        square = self.error.users * self.error.noise.square
        return math.sqrt(square * (self.buckets - 1)) / self.buckets

    def margins(self, confidence: float) -> tuple[float, float]:
        law, half = _fixed_total(self), (1 - confidence) / 2
        if law is not None and law.tail <= half / 64:
            low, high = law.central_interval(confidence)
            return -low / self.buckets, high / self.buckets
        jumps = Term.of(self.error.noise.jump_law(Fraction(1)), times=self.error.users)
        return bounded_margins(self.error.margins, jumps, self.buckets, half)


@lru_cache(maxsize=16)
def _fixed_total(error: CappedTotalError) -> Law | None:
    """The law of d times the error. None if it is too long to compute."""
    jump, buckets = error.error.noise.jump_law(Fraction(1)), error.buckets
    values = np.concatenate([jump.values * (buckets - 1), -jump.values])
    masses = np.concatenate([jump.mass / buckets, jump.mass * (1 - 1 / buckets)])
    return sum_law([Term(values, masses / masses.sum(), error.error.users, jump.slack)])


@lru_cache(maxsize=64)
def _total(error: CappedError) -> Law:
    """The law of the sum of all people's jumps in a cell."""
    return error.noise.jump_law(error.share).times(error.users)


@dataclass(frozen=True)
class CappedShares:
    """The noise that each person sends, and the honest people who hide each other by it."""

    noise: CappedNoise
    crowds: Crowds

    @property
    def slots(self) -> int:
        return self.noise.slots

    @property
    def mean(self) -> Fraction:
        """The mean of (number of +1) − (number of −1) that one person adds to a cell."""
        return self.noise.mean * self.crowds.share

    def error(self, users: int) -> CappedError:
        """The law of the error in each cell if `users` people take part."""
        return CappedError(self.noise, users, self.crowds.share)

    @property
    def messages_per_user(self) -> float:
        """The expected number of messages of a person, including their own message."""
        return 1 + float(self._chances @ (self.plus + self.minus))

    def above(self, number: int) -> float:
        """An upper bound on the probability of more noise messages than this."""
        more = (self.plus + self.minus) > number
        return min(1.0, float(self._chances[more].sum()) * (1 + 2 * len(more) * ROUNDING))

    # Privacy ------------------------------------------------------------------------------------

    def curve(self, budget: Budget) -> PrivacyCurve:
        """The privacy curve, with the rounding of the table included."""
        return _curve(self, budget)

    # Sampling -----------------------------------------------------------------------------------

    @cached_property
    def _outcomes(self) -> list[tuple[int, int, Fraction]]:
        """All (number of +1, number of −1), with their probabilities before rounding."""
        return [
            (max(jump, 0) + pairs, max(-jump, 0) + pairs, chance)
            for jump, pairs, chance in self.noise.outcomes()
        ]

    @cached_property
    def plus(self) -> NDArray[np.uint8]:
        """The number of +1 for each entry of the table."""
        return np.array([plus for plus, _, _ in self._outcomes], dtype=np.uint8)

    @cached_property
    def minus(self) -> NDArray[np.uint8]:
        """The number of −1 for each entry of the table."""
        return np.array([minus for _, minus, _ in self._outcomes], dtype=np.uint8)

    @cached_property
    def table(self) -> ThresholdTable:
        return ThresholdTable.fine([chance for _, _, chance in self._outcomes])

    @cached_property
    def _chances(self) -> NDArray[np.float64]:
        law = self.table.law
        return np.array([float(law.get(entry, 0)) for entry in range(len(self._outcomes))])

    def law(self) -> dict[tuple[int, int], Fraction]:
        """The exact law of the numbers (of +1, of −1) that one person draws."""
        out: dict[tuple[int, int], Fraction] = {}
        for entry, chance in self.table.law.items():
            key = (int(self.plus[entry]), int(self.minus[entry]))
            out[key] = out.get(key, Fraction(0)) + chance
        return out

    def totals(self, users: int, cells: int, source: Source) -> NDArray[np.int64]:
        """The sum of all people's noise: for each cell a row with the numbers of +1 and of −1."""
        law = self.table.law
        weights = [int(law.get(entry, 0) * FINE) for entry in range(len(self._outcomes))]
        copies = np.stack([self.plus, self.minus], axis=1).astype(np.int64)
        people = multinomial(source, users, [1] * cells).tolist()
        return np.stack([multinomial(source, number, weights) @ copies for number in people])


@lru_cache(maxsize=4)
def _curve(shares: CappedShares, budget: Budget) -> PrivacyCurve:
    crowds = shares.crowds
    known = capped_curve(shares.noise, crowds, budget.epsilon, budget.delta)
    return NearCurve(known, crowds.honest * shares.table.total_variation)


# Calibration ----------------------------------------------------------------------------------


def wish_of(honest: int, cells: int, slots: int, budget: Budget) -> Wish:
    """What the search looks for, a little below the allowed δ."""
    crowds = Crowds.of(honest, cells, slots, budget.epsilon / min(cells, 2), budget.delta)
    allowed = budget.delta * (1 - RESERVED)
    return Wish(crowds, slots, budget.epsilon, allowed * (1 - _QUICK[crowds.moved]))


@lru_cache(maxsize=64)
def calibrated(honest: int, cells: int, slots: int, budget: Budget) -> CappedShares | None:
    """The noise with the smallest error that the search finds and the exact δ confirms, or None."""
    wish, allowed = wish_of(honest, cells, slots, budget), budget.delta * (1 - RESERVED)
    crowds = wish.crowds
    noise = best_noise(wish)
    if noise is None:
        return None
    fit = Fit(lambda other: quick_delta(wish, other), wish.delta)
    noise = fit.near(noise, _CLOSE) or noise
    slope, before = fit.slope, (0.0, 0.0)
    best: CappedShares | None = None
    for _ in range(_TRIES):
        if noise.jumping >= 1:
            break
        shares = CappedShares(noise, crowds)
        exact = shares.curve(budget).delta(budget.epsilon)
        if exact <= allowed and (best is None or noise.variance < best.noise.variance):
            best = shares
        if allowed * (1 - _UNUSED[crowds.moved]) < exact <= allowed:
            break
        # ln δ is nearly linear in ln c: a step of the secant.
        point = (math.log(noise.scale), math.log(max(exact, 1e-300) / allowed))
        if before != (0.0, 0.0) and point[0] != before[0]:
            slope = min((point[1] - before[1]) / (point[0] - before[0]), -1.0)
        before = point
        step = -(point[1] + _UNUSED[crowds.moved] / 3) / slope
        noise = replace(noise, scale=math.exp(point[0] + min(max(step, -0.2), 0.2)))
    return best


@dataclass(frozen=True)
class SlotSearch:
    """Finds capped noise for the options of a protocol, or refuses."""

    name: str
    budget: Budget
    crowd: Crowd
    cells: int

    @property
    def _touched(self) -> int:
        """The number of cells that a person changes."""
        return min(self.cells, 2)

    def within(self, slots: int) -> CappedShares:
        """The noise with the smallest error that is found for at most this number of slots.

        More slots make the error smaller, except in tiny crowds, in which all numbers are tried.
        For some numbers the search fails or does badly. Then smaller numbers are tried, too.
        """
        self._check_epsilon()
        tiny, found = self.crowd.honest <= _TINY, list[CappedShares]()
        for number in range(slots, LEAST_SLOTS - 1, -1):
            shares = self._calibrated(number)
            if shares is not None:
                found.append(shares)
            if not tiny and (self._as_hoped(shares, number) or slots - number >= _FEWER):
                break
        if not found:
            raise self._infeasible(slots)
        return min(found, key=self.error_ratio)

    def _as_hoped(self, shares: CappedShares | None, slots: int) -> bool:
        """Whether the exact calibration confirms nearly the error that the search found."""
        wish = self._wish(slots)
        noise = best_noise(wish)
        if shares is None or noise is None:
            return False
        return shares.noise.variance <= 1.01 * noise.variance

    def least(self, error_ratio: float | None, most: int | None) -> CappedShares:
        """The noise with the least number of slots, up to `most`, for this error."""
        self._check_epsilon()
        dishonesty = math.sqrt(self.crowd.users / self.crowd.honest)
        wanted, most = error_ratio or _USUAL_RATIO * dishonesty, most or MOST_SLOTS

        def enough(slots: int) -> bool:
            """Whether the search finds a small enough error. It is not checked exactly yet."""
            wish = self._wish(slots)
            noise = best_noise(wish)
            return noise is not None and wish.error_ratio(noise) * dishonesty <= wanted

        rate, log = self.budget.epsilon / self._touched, math.log(1 / self.budget.delta)
        needed = float(np.interp(wanted / dishonesty, _RATIOS, _NEEDED)) / rate
        slots = min(max(round(1 + needed * max(log, 1.0) / math.log(1e6)), LEAST_SLOTS), most)
        if enough(slots):
            while slots > LEAST_SLOTS and enough(slots - 1):
                slots -= 1
        else:
            few, step = slots, 1
            while not enough(slots := min(few + step, most)):
                if slots == most:
                    raise self._too_exact(wanted, most)
                few, step = slots, 2 * step
            while slots - few > 1:
                middle = (few + slots) // 2
                few, slots = (few, middle) if enough(middle) else (middle, slots)
        for candidate in range(slots, min(slots + 2, most + 1)):
            found = self._calibrated(candidate)
            if found is not None and self.error_ratio(found) <= wanted:
                return found
        raise self._too_exact(wanted, most)

    def error_ratio(self, shares: CappedShares) -> float:
        """The standard error of all people's noise, divided by that of central noise."""
        central = 1 / (math.sqrt(2) * math.sinh(self.budget.epsilon / self._touched / 2))
        return shares.error(self.crowd.users).standard_error / central

    def _calibrated(self, slots: int) -> CappedShares | None:
        return calibrated(self.crowd.honest, self.cells, slots, self.budget)

    def _check_epsilon(self) -> None:
        least = _LEAST_EPSILON[self._touched - 1]
        if self.budget.epsilon < least:
            raise Infeasible(
                f"{self.name} with slots needs epsilon of at least {least}, "
                f"got {short(self.budget.epsilon)}",
                nearest={"epsilon": least},
            )

    def _wish(self, slots: int) -> Wish:
        return wish_of(self.crowd.honest, self.cells, slots, self.budget)

    def _infeasible(self, slots: int) -> Infeasible:
        """The refusal of a number of slots, with the nearest setting that is known."""
        buckets = "" if self.cells == 1 else f" in {self.cells} buckets"
        refusal = (
            f"{self.name} finds no noise with {slots} slots for epsilon="
            f"{short(self.budget.epsilon)}, delta={short(self.budget.delta)} and "
            f"{self.crowd.honest} honest people{buckets}"
        )
        for more in (slots + 2, slots + 6):
            if more <= MOST_SLOTS and self._calibrated(more) is not None:
                return Infeasible(refusal, nearest={"max_slots": more})
        for factor in (4, 16, 64, 256):
            honest = self.crowd.honest * factor
            if calibrated(honest, self.cells, slots, self.budget) is not None:
                return Infeasible(refusal, nearest={"honest": honest})
        return Infeasible(refusal)

    def _too_exact(self, wanted: float, most: int) -> Infeasible:
        """The refusal of an error that no number of slots has."""
        wish = self._wish(most)
        noise = best_noise(wish)
        if noise is None:
            return self._infeasible(most)
        # The exact calibration may need a little more noise than the search says.
        least = 1.005 * wish.error_ratio(noise) * math.sqrt(self.crowd.users / self.crowd.honest)
        return Infeasible(
            f"{self.name} needs an error_ratio of at least {short(least)} with up to {most} slots, "
            f"got {short(wanted)}",
            nearest={"error_ratio": math.ceil(least * 1e4) / 1e4},
        )
