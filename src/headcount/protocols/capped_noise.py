"""Noise of single messages and of pairs that cancel, with at most K messages per person.

Notation    Each person has K slots, and so sends at most K messages. Each message is +1 or −1 for
            one cell, which is the count itself or one bucket of a histogram. A person's noise
            consists of a jump, which shifts the answer, and of pairs of +1 and −1, which cancel.
            `accounting.capped` defines the law of jumps and pairs, and the scale c of the jumps. In
            a histogram, each person's noise is in one of d buckets, which is secret and drawn
            uniformly.
Randomizer  A table of at most K² entries lists all combinations of a jump and a number R of pairs.
            Draw one entry. Send max(jump, 0) + R messages +1 and max(−jump, 0) + R messages −1.
            Together with the message for the person's value, these are at most K messages, so no
            draw ever has to be rejected.
Analyzer    The estimate is (number of +1) − (number of −1) − (mean of the noise). In a histogram,
            the excess of the total over the number n of people, divided by d, is then subtracted
            from each estimate (see `known_total`).
Privacy     The δ of a count is exact, except in crowds that are too large for the exact law, where
            it is an upper bound. The δ of a histogram is always an upper bound, because the
            adversary is assumed to know how many people have noise in each bucket.
Error       The error is the sum of all people's independent jumps, minus its mean.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.capped import CappedNoise, HonestPeople
from headcount.accounting.capped_curves import capped_curve
from headcount.accounting.capped_search import Fit, Wish, best_noise, quick_delta
from headcount.accounting.lattice_sums import Term, sum_law
from headcount.accounting.laws import ROUNDING, Law
from headcount.core.budget import Budget, Crowd
from headcount.core.bundles import RESERVED
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible
from headcount.core.guarantee import NearCurve, PrivacyCurve
from headcount.core.lattice import LatticeLaw
from headcount.core.source import Source
from headcount.core.table import counted, counted_people, short
from headcount.protocols.fixed_total import FixedTotalError
from headcount.protocols.geometric_error import CenteredError
from headcount.protocols.known_total import bounded_margins
from headcount.randomness.table import FINE, ThresholdTable
from headcount.randomness.totals import multinomial

LEAST_CAPPED_SLOTS = 2
MOST_CAPPED_SLOTS = 32
# The smallest ε for a count and for a histogram. For a smaller ε, the laws are too long to compute.
_LEAST_EPSILON = (0.1, 0.4)
_USUAL_RATIO = 1.05  # the default ratio of the error to that of central noise
_TINY = 50  # the largest number of honest people in a crowd that counts as tiny
# If ε times the number of honest people is below this, the exception for too few slots names no
# setting that works. The search for such a setting would take minutes, since nearly everybody has
# noise.
_LEAST_PRODUCT = 50
_FEWER = 3  # if the search fails, this many smaller numbers of slots are tried
# For each ratio of the error to that of central noise, about the longest jump that is needed, times
# the rate of central noise. The rate is ε for a count and ε/2 for a histogram.
_RATIOS, _NEEDED = [1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0], [11.0, 10.0, 9.0, 8.0, 6.0, 4.0, 2.0]
_TRIES = 5  # how often the scale c is corrected to bring the exact δ within the budget
_CLOSE = 1e-3  # the relative error of δ at which c is close enough
# In each pair, the first number is for a count, and the second for a histogram, where a person may
# change two buckets.
_UNUSED = (6e-3, 3e-2)  # the part of δ that may be left unused
_QUICK = (1e-3, 6e-3)  # about the relative error of `quick_delta`


@dataclass(frozen=True)
class CappedError(CenteredError):
    """The error in a cell: the sum of all people's jumps, minus its mean."""

    noise: CappedNoise
    users: int
    share: Fraction  # the probability that a person's noise is in this cell

    @property
    def standard_error(self) -> float:
        mean = self.noise.mean * self.share
        return math.sqrt(self.users * (self.noise.square * self.share - mean**2))

    @property
    def mean(self) -> Fraction:
        return self.users * self.noise.mean * self.share

    @property
    def law(self) -> Law:
        return _total(self)


@dataclass(frozen=True)
class CappedTotalError(FixedTotalError):
    """The error of a bucket after the excess of the total over n, divided by d, was subtracted.

    A person whose noise has the jump J adds J·(1 − 1/d) to the error of the bucket with this noise,
    and −J/d to the error of each other bucket. So the variance is n(1 − 1/d)/d·E[J²].
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

    def lattice(self) -> LatticeLaw:
        law = _fixed_total(self)
        if law is None:
            return LatticeLaw.normal(self.standard_error, self.standard_error / 16)
        return law.lattice(0).scaled(1 / self.buckets)


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
    """The noise that each person sends, and how many honest people have noise in each cell."""

    noise: CappedNoise
    crowds: HonestPeople

    @property
    def slots(self) -> int:
        return self.noise.slots

    @property
    def mean(self) -> Fraction:
        """The mean of (number of +1) − (number of −1) in one person's noise in a cell."""
        return self.noise.mean * self.crowds.share

    def error(self, users: int) -> CappedError:
        """The law of the error in each cell if `users` people take part."""
        return CappedError(self.noise, users, self.crowds.share)

    @property
    def messages_per_user(self) -> float:
        """The expected number of messages of a person, including the one for the value."""
        return 1 + float(self._chances @ (self.plus + self.minus))

    def above(self, number: int) -> float:
        """A bound on the probability that a person sends more than `number` noise messages."""
        more = (self.plus + self.minus) > number
        return min(1.0, float(self._chances[more].sum()) * (1 + 2 * len(more) * ROUNDING))

    # Privacy ------------------------------------------------------------------------------------

    def curve(self, budget: Budget) -> PrivacyCurve:
        """The privacy curve, including the effect of rounding the table."""
        return _curve(self, budget)

    # Sampling -----------------------------------------------------------------------------------

    @cached_property
    def _outcomes(self) -> list[tuple[int, int, Fraction]]:
        """All pairs (number of +1, number of −1), with their probabilities before rounding."""
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
    def copies(self) -> NDArray[np.uint16]:
        """The numbers of +1 and of −1 for each entry of the table, in two bytes."""
        return np.stack([self.plus, self.minus], axis=1).view(np.uint16).ravel()

    @cached_property
    def table(self) -> ThresholdTable:
        return ThresholdTable.fine([chance for _, _, chance in self._outcomes])

    @cached_property
    def _chances(self) -> NDArray[np.float64]:
        law = self.table.law
        return np.array([float(law.get(entry, 0)) for entry in range(len(self._outcomes))])

    def law(self) -> dict[tuple[int, int], Fraction]:
        """The exact joint law of the numbers of +1 and −1 that one person draws."""
        out: dict[tuple[int, int], Fraction] = {}
        for entry, chance in self.table.law.items():
            key = (int(self.plus[entry]), int(self.minus[entry]))
            out[key] = out.get(key, Fraction(0)) + chance
        return out

    @property
    def weights(self) -> list[int]:
        """The probability of each entry of the table, times 2^128."""
        law = self.table.law
        return [int(law.get(entry, 0) * FINE) for entry in range(len(self._outcomes))]

    @property
    def instructions(self) -> Mapping[str, Any]:
        """The data that other programs need to draw noise with the same law, for JSON."""
        return {
            "copies": [[plus, minus] for plus, minus, _ in self._outcomes],
            "weights": [str(weight) for weight in self.weights],
        }

    def totals(self, users: int, cells: int, source: Source) -> NDArray[np.int64]:
        """The total noise of all people. For each cell, a row has the numbers of +1 and −1."""
        weights = self.weights
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
    """The target of the search. Its δ is a little below the allowed δ, because the search computes
    δ only approximately.
    """
    crowds = HonestPeople.of(honest, cells, slots, budget.epsilon / min(cells, 2), budget.delta)
    allowed = budget.delta * (1 - RESERVED)
    return Wish(crowds, slots, budget.epsilon, allowed * (1 - _QUICK[crowds.moved]))


@lru_cache(maxsize=64)
def calibrated(honest: int, cells: int, slots: int, budget: Budget) -> CappedShares | None:
    """The noise with the smallest error, among the noise that is tried and is within the budget.

    The result is None if no noise that is tried is within the budget.
    """
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
        # ln δ is nearly linear in ln c, where c is `scale`. So this is a step of the secant method.
        point = (math.log(noise.scale), math.log(max(exact, 1e-300) / allowed))
        if before != (0.0, 0.0) and point[0] != before[0]:
            slope = min((point[1] - before[1]) / (point[0] - before[0]), -1.0)
        before = point
        step = -(point[1] + _UNUSED[crowds.moved] / 3) / slope
        noise = replace(noise, scale=math.exp(point[0] + min(max(step, -0.2), 0.2)))
    return best


@dataclass(frozen=True)
class SlotSearch:
    """Finds capped noise for the options of a protocol, or raises `Infeasible`."""

    name: str
    budget: Budget
    crowd: Crowd
    cells: int

    @property
    def _touched(self) -> int:
        """The number of cells whose counts change if one value is replaced."""
        return min(self.cells, 2)

    def within(self, slots: int) -> CappedShares:
        """The noise with the smallest error that is found for at most `slots` slots.

        More slots make the error smaller, except in tiny crowds. In tiny crowds, all numbers of
        slots are tried. In other crowds, the search may fail for `slots`, or find too large an
        error. Then a few smaller numbers of slots are tried.
        """
        self._check_epsilon()
        tiny, found = self.crowd.honest <= _TINY, list[CappedShares]()
        for number in range(slots, LEAST_CAPPED_SLOTS - 1, -1):
            shares = self._calibrated(number)
            if shares is not None:
                found.append(shares)
            if not tiny and (self._as_hoped(shares, number) or slots - number >= _FEWER):
                break
        if not found:
            raise self._infeasible(slots)
        return min(found, key=self.error_ratio)

    def _as_hoped(self, shares: CappedShares | None, slots: int) -> bool:
        """Whether the exact calibration found nearly as small an error as the search before it."""
        wish = self._wish(slots)
        noise = best_noise(wish)
        if shares is None or noise is None:
            return False
        return shares.noise.variance <= 1.01 * noise.variance

    def least(self, error_ratio: float | None, most: int | None) -> CappedShares:
        """The noise with the fewest slots, up to `most`, whose error is small enough.

        The error is small enough if its ratio to that of central noise is at most `error_ratio`.
        """
        self._check_epsilon()
        dishonesty = math.sqrt(self.crowd.users / self.crowd.honest)
        wanted, most = error_ratio or _USUAL_RATIO * dishonesty, most or MOST_CAPPED_SLOTS

        def enough(slots: int) -> bool:
            """Whether the search finds a small enough error. The exact δ is not checked here."""
            wish = self._wish(slots)
            noise = best_noise(wish)
            return noise is not None and wish.error_ratio(noise) * dishonesty <= wanted

        rate, log = self.budget.epsilon / self._touched, math.log(1 / self.budget.delta)
        needed = float(np.interp(wanted / dishonesty, _RATIOS, _NEEDED)) / rate
        slots = min(
            max(round(1 + needed * max(log, 1.0) / math.log(1e6)), LEAST_CAPPED_SLOTS), most
        )
        if enough(slots):
            while slots > LEAST_CAPPED_SLOTS and enough(slots - 1):
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
            # The exception names no nearest setting, since this crowd may be too small even with
            # ε = `least`.
            raise Infeasible(
                f"{self.name} with slots needs epsilon of at least {least}, "
                f"got {short(self.budget.epsilon)}"
            )

    def _wish(self, slots: int) -> Wish:
        return wish_of(self.crowd.honest, self.cells, slots, self.budget)

    def _infeasible(self, slots: int) -> Infeasible:
        """The exception for too few slots, with the nearest setting that is known to work."""
        buckets = "" if self.cells == 1 else f" in {self.cells} buckets"
        refusal = (
            f"{self.name} finds no noise with {counted(slots, 'slot')} for epsilon="
            f"{short(self.budget.epsilon)}, delta={short(self.budget.delta)} and "
            f"{counted_people(self.crowd.honest, 'honest')}{buckets}"
        )
        if self.budget.epsilon * self.crowd.honest < _LEAST_PRODUCT:
            return Infeasible(refusal)
        for more in (slots + 2, slots + 6):
            if more <= MOST_CAPPED_SLOTS and self._calibrated(more) is not None:
                return Infeasible(refusal, nearest={"max_slots": more})
        for factor in (4, 16, 64, 256):
            honest = self.crowd.honest * factor
            if calibrated(honest, self.cells, slots, self.budget) is not None:
                return Infeasible(refusal, nearest={"honest": honest})
        return Infeasible(refusal)

    def _too_exact(self, wanted: float, most: int) -> Infeasible:
        """The exception for a ratio of the error that no allowed number of slots reaches."""
        wish = self._wish(most)
        noise = best_noise(wish)
        if noise is None:
            return self._infeasible(most)
        # The exact calibration may need a little more noise than the search says.
        least = 1.005 * wish.error_ratio(noise) * math.sqrt(self.crowd.users / self.crowd.honest)
        return Infeasible(
            f"{self.name} needs an error_ratio of at least {short(least)} with up to "
            f"{counted(most, 'slot')}, got {short(wanted)}",
            nearest={"error_ratio": math.ceil(least * 1e4) / 1e4},
        )
