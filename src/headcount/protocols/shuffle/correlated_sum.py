"""Sums with correlated noise (Ghazi, Kumar, Manurangsi, Pagh, Sinha 2021).

Notation    The levels are 0, …, Δ (see `fixed_point`). n is the number of people; h of them are
            honest. ε1 is the part of ε that is spent on the noise in the sum. The paper calls it
            ε*. a = e^{−ε1/Δ}. NB is the negative binomial law (see `geometric_error`). An atom is a
            set of numbers that add up to 0. The atoms are {1, −1}, and {i, −⌈i/2⌉, −⌊i/2⌋} for all
            i from −⌈Δ/2⌉ to Δ with |i| ≥ 2.
Randomizer  Send the person's level unless it is 0. Send NB(1/h, a) messages +1, and independently
            NB(1/h, a) messages −1. Also send copies of each atom. To send a copy is to send all
            elements of the atom. The number of copies is NB(r/h, e^−rate), or a sum of several such
            numbers, where r and the rate depend on the atom.
Analyzer    Add up all messages. The elements of an atom cancel in this sum.
Privacy     The adversary sees how often each number is sent. δ is the largest divergence over all
            ordered pairs of levels (see `accounting.correlated_sums`). With `calibration="paper"`,
            or for more than 64 levels, the noise is that of the paper, and δ is the upper bound of
            its theorem. The logarithms of Δ in this theorem are to base 2.
Error       If everyone is honest, the error is two-sided geometric noise of rate ε1/Δ, plus
            rounding. Otherwise the variance of the noise is n/h times as large.
Messages    On average at most 1 + (expected number of noise messages of all honest people)/h
            messages of about log2(3Δ/2) bits. Whoever sees one person's messages can usually tell
            the level, so the local ε is infinite. The options of `correlated_protocol` trade
            messages for error.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.correlated_sums import (
    CorrelatedSumNoise,
    atoms,
    calibrate,
    paper,
)
from headcount.accounting.divergence import PointCurve
from headcount.core.budget import Trust
from headcount.core.bundles import RESERVED
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible
from headcount.core.guarantee import Guarantee, NearCurve, PrivacyCurve
from headcount.core.influence import Shifts
from headcount.core.messages import Alphabet, Messages
from headcount.core.promise import promise
from headcount.core.randomizer import BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.core.table import short
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task
from headcount.core.tasks.bounded import Mean, Sum
from headcount.protocols.correlated_protocol import CorrelatedProtocol, NoiseFamily
from headcount.protocols.fixed_point import Grid
from headcount.protocols.geometric_error import GeometricError
from headcount.protocols.levels import NoisySum, Rounding, bounded, check_levels, enough_levels
from headcount.randomness.shares import NegativeBinomialShare
from headcount.randomness.totals import long_negative_binomial

_MOST_EXACT_LEVELS = 64  # the largest number of levels for which δ is computed exactly
_MOST_NOISE = 2**27  # the largest expected number of noise messages of all honest people
_USUAL_LEVELS = 16  # the largest default number of levels if numbers are rounded
# The largest default number of levels if whole numbers are not rounded, or with `max_messages`.
_MANY_LEVELS = 32
_FEW_LEVELS = 8  # with at most this many levels, an error near the best needs few messages
# If enough levels are allowed, rounding adds at most this share of the variance of central noise.
_ROUNDING_SHARE = 0.05
_TILTS = 400  # the number of exponents θ that `overflow` tries in Chernoff's bound


# Messages -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Codes:
    """The codes 0, 1, … of messages.

    The codes stand for 1, …, Δ, and then for −1, …, −⌈Δ/2⌉. There is always a code for −1, which
    the noise needs.
    """

    levels: int

    @property
    def negative(self) -> int:
        """The number of codes that stand for a negative number."""
        return max(1, (self.levels + 1) // 2)

    @property
    def size(self) -> int:
        return self.levels + self.negative

    @property
    def values(self) -> NDArray[np.int64]:
        """The number that each code stands for."""
        return np.concatenate([np.arange(1, self.levels + 1), -np.arange(1, self.negative + 1)])

    def of(self, element: int) -> int:
        return element - 1 if element > 0 else self.levels - element - 1


def _kinds(noise: CorrelatedSumNoise) -> Iterator[tuple[tuple[int, ...], float, float]]:
    """The independent kinds of noise, each as (elements, r, rate).

    All honest people together send NB(r, e^−rate) copies of each element of a kind.
    """
    yield (1,), 1.0, noise.rate
    yield (-1,), 1.0, noise.rate
    for atom, flood in zip(atoms(noise.levels), noise.floods, strict=True):
        for r, rate in flood:
            yield atom, r, rate


# Randomizer -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class LevelRandomizer(Randomizer):
    """Sends a person's level and the person's share of the noise."""

    noise: CorrelatedSumNoise
    honest: int

    @property
    def codes(self) -> Codes:
        return Codes(self.noise.levels)

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.numbers(self.codes.size, dummies=True)

    @property
    def messages_per_user(self) -> float:
        return 1 + self.noise.messages / self.honest

    @cached_property
    def _shares(self) -> list[tuple[tuple[int, ...], NegativeBinomialShare]]:
        return [
            (elements, NegativeBinomialShare(Fraction(r) / self.honest, Fraction(rate)))
            for elements, r, rate in _kinds(self.noise)
        ]

    @property
    def variation(self) -> float:
        """A bound on the total variation between the real and ideal laws of a person's noise."""
        return sum(share.variation for _, share in self._shares)

    def send(self, encoded: NDArray[np.integer], source: Source) -> Messages:
        dtype, codes = self.alphabet.dtype, self.codes
        positive = encoded > 0
        own = Messages(
            (encoded[positive] - 1).astype(dtype), len(encoded), positive.astype(np.uint8)
        )
        senders, sent = [], []
        for elements, share in self._shares:
            people, copies = share.draw(source, len(encoded))
            messages = np.array([codes.of(element) for element in elements], dtype=dtype)
            senders.append(np.repeat(people, copies * len(messages)))
            sent.append(np.tile(messages, int(copies.sum())))
        people = np.concatenate(senders)
        order = np.argsort(people, kind="stable")
        return own.plus(people[order], np.concatenate(sent)[order])

    def law(self, value: int) -> BundleLaw | None:
        return None  # the law is a product over all atoms, which is too long to list

    def fewer_messages(self, encoded: NDArray[np.integer]) -> int:
        return int(encoded[0] == 0)

    def overflow(self, slots: int) -> float:
        """Chernoff's bound on P(N ≥ slots), where N is the number of a person's noise messages.

        E[e^{θN}] = Π ((1−p)/(1−p·e^{θ|s|}))^{r/h} for every tilt θ. The product is over all kinds
        of noise. |s| is the number of elements of a kind, and p = e^−rate.
        """
        kinds = [(len(elements), r, rate) for elements, r, rate in _kinds(self.noise)]
        most = min(rate / size for size, _, rate in kinds)
        tilts = most * np.linspace(0, 1, _TILTS, endpoint=False)
        log = -tilts * slots  # N ≥ slots is too many, because one slot is for the level
        for size, r, rate in kinds:
            ratio = np.log(-np.expm1(-rate)) - np.log(-np.expm1(size * tilts - rate))
            log += r / self.honest * ratio
        return min(1.0, math.exp(log.min()) * (1 + 1e-9))


# Analyzer and its error -----------------------------------------------------------------------


@dataclass(frozen=True)
class MessageSum(NoisySum):
    """Computes the answer from the sum of all messages."""

    noise: CorrelatedSumNoise
    honest: int

    @property
    def codes(self) -> Codes:
        return Codes(self.noise.levels)

    @property
    def tally_size(self) -> int:
        return self.codes.size

    def level_sum(self, tally: Tally, source: Source | None) -> int:
        return int(tally.counts @ self._values)

    @cached_property
    def _values(self) -> NDArray[np.int64]:
        return self.codes.values

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        return self.level_shifts(users, int(self._values.min()), int(self._values.max()))

    def noise_error(self, users: int) -> GeometricError:
        return GeometricError(self.noise.rate, Fraction(users, self.honest))

    def simulate_levels(self, held: Holding, source: Source) -> NDArray[np.int64]:
        codes = self.codes
        counts = np.zeros(codes.size, dtype=np.int64)
        positive = held.values > 0
        counts[held.values[positive] - 1] = held.counts[positive]
        for elements, r, rate in _kinds(self.noise):
            times = Fraction(r) * held.users / self.honest
            copies = long_negative_binomial(source, times, Fraction(rate))[0]
            for element in elements:
                counts[codes.of(element)] += copies
        return counts


# Calibration and privacy ----------------------------------------------------------------------


@lru_cache(maxsize=64)
def _calibrate(
    levels: int, epsilon: float, delta: float, epsilon1: float, by_paper: bool
) -> CorrelatedSumNoise | None:
    if not 0 < epsilon1 < epsilon:
        return None
    if by_paper:
        return paper(levels, epsilon, delta, epsilon1)
    return calibrate(levels, epsilon, delta, epsilon1)


@dataclass(frozen=True)
class CorrelatedSum(CorrelatedProtocol[CorrelatedSumNoise]):
    name = "shuffle.correlated-sum"
    trust = Trust.SHUFFLE
    tasks: ClassVar[tuple[type[Task], ...]] = (Sum, Mean)

    # The number of levels above 0. If people hold whole numbers and high − low is at most 32, each
    # whole number is a level by default. Otherwise the default is at most 16. With `max_messages`,
    # the default is about the best number up to 32.
    levels: int | None = None

    def check_options(self) -> None:
        check_levels(self, "levels")
        super().check_options()

    @cached_property
    def grid(self) -> Grid:
        return Grid(bounded(self), self.levels or self._default_levels())

    def _default_levels(self) -> int:
        task = bounded(self)
        enough = enough_levels(task, self.crowd.users, self.budget.epsilon, _ROUNDING_SHARE)
        few = task.whole and enough <= _MANY_LEVELS
        usual = enough if few else min(enough, _USUAL_LEVELS)
        if self.max_messages is None:
            return usual
        return self._best_levels(usual, min(enough, _MANY_LEVELS))

    def _best_levels(self, start: int, most: int) -> int:
        """A number of levels with nearly the smallest error for the allowed number of messages.

        With more levels, rounding adds less error, but less of ε is left for the answer. So the
        error first falls, and then rises.
        """

        @cache
        def error(levels: int) -> float:
            try:
                return replace(self, levels=levels).standard_error()
            except Infeasible:
                return math.inf

        best = start
        while error(best) == math.inf and best > 1:
            best //= 2
        step = max(1, best // 4)
        while step > best // 16:
            near = min(max(best - step, 1), min(best + step, most), key=error)
            if error(near) < error(best):
                best = near
            else:
                step //= 2
        return best

    @property
    def family(self) -> NoiseFamily[CorrelatedSumNoise]:
        levels, honest = self.grid.levels, self.crowd.honest
        return NoiseFamily(
            self.crowd,
            most_epsilon1=self.budget.epsilon,
            calibrate=self._calibrated,
            messages=lambda noise: LevelRandomizer(noise, honest).messages_per_user,
            units=levels,
            # The number of messages grows with the number of levels, and it grows faster if the
            # error must be close to the smallest possible error. Therefore, the default ratio is
            # larger for many levels.
            usual_ratio=1.05 if levels <= _FEW_LEVELS else 1.25,
            least_spare=1e-2,
        )

    @property
    def _by_paper(self) -> bool:
        return self.calibration == "paper" or self.grid.levels > _MOST_EXACT_LEVELS

    def _calibrated(self, epsilon1: float) -> CorrelatedSumNoise | None:
        levels, delta = self.grid.levels, self.budget.delta * (1 - RESERVED)
        noise = _calibrate(levels, self.budget.epsilon, delta, epsilon1, self._by_paper)
        if noise is not None and noise.messages > _MOST_NOISE and self._by_paper:
            raise Infeasible(
                f"{self.name} needs {short(noise.messages, 3)} noise messages for {levels} "
                f"levels according to its paper, but at most {_MOST_NOISE} are allowed",
                nearest={"levels": min(levels - 1, _MOST_EXACT_LEVELS)},
            )
        return noise

    @cached_property
    def _level_randomizer(self) -> LevelRandomizer:
        return LevelRandomizer(self.noise, self.crowd.honest)

    @cached_property
    def randomizer(self) -> Randomizer:
        return Rounding(self.grid, self._level_randomizer)

    @cached_property
    def estimator(self) -> MessageSum:
        return MessageSum(self.task, self.grid, self.noise, self.crowd.honest)

    @property
    def parameters(self) -> Mapping[str, float]:
        levels, noise = self.grid.levels, self.noise
        return {
            "epsilon1": noise.rate * levels,
            "levels": levels,
            "noise_messages": noise.messages * self.crowd.users / self.crowd.honest,
        }

    @cached_property
    def curve(self) -> PrivacyCurve:
        drawn = self.crowd.honest * self._level_randomizer.variation
        if self._by_paper:
            delta = self.budget.delta * (1 - RESERVED)
            return NearCurve(PointCurve(self.budget.epsilon, delta), drawn)
        return NearCurve(self.noise.curve, drawn)

    @cached_property
    def guarantee(self) -> Guarantee:
        exact = not self._by_paper
        return promise(
            self,
            "law of how often each number is sent, all pairs of levels"
            if exact
            else "Ghazi, Kumar, Manurangsi, Pagh and Sinha 2021",
            delta=self.curve.delta(self.budget.epsilon) if exact else self.budget.delta,
            exact=exact and self.grid.full,
        )

    @property
    def local_epsilon(self) -> float:
        return math.inf
