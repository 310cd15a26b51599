"""Sums by noise that cancels (Ghazi, Kumar, Manurangsi, Pagh, Sinha 2021).

Notation    Levels 0, …, Δ of `fixed_point`; n people, h of them honest; ε1 = ε* of the paper,
            a = e^{−ε1/Δ}; atoms s, whose elements add up to 0: {1, −1}, and {i, −⌈i/2⌉, −⌊i/2⌋} for
            |i| ≥ 2, i from −⌈Δ/2⌉ to Δ.
Randomizer  Send one's level, if it is not 0; NB(1/h, a) messages +1, and by another draw −1; and
            for each atom a share of its flood, NB(r/h, e^−rate), times all its elements.
Analyzer    Sum of all messages: atoms cancel.
Privacy     Of what is seen, how often each number is sent, all ordered pairs of levels: see
            `accounting.correlated_sums`. With the paper's noise, and for more than 64 levels, its
            theorem, an upper bound (with logarithms of base 2).
Error       Two-sided geometric noise of ε1/Δ if everyone is honest, of n/h times that variance
            else; and rounding.
Messages    1 + (expected noise of all)/h, of about log2(3Δ/2) bits. Somebody who sees one person's
            can tell the level. The options that trade messages for error are those of
            `correlated_protocol`.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache

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
from headcount.core.messages import Alphabet, Messages
from headcount.core.randomizer import BundleLaw
from headcount.core.source import Source
from headcount.core.table import short
from headcount.core.tally import Tally
from headcount.core.task import Holding
from headcount.protocols.correlated_protocol import CorrelatedProtocol
from headcount.protocols.geometric_error import GeometricError
from headcount.protocols.level_protocol import NoisySum, enough_levels
from headcount.randomness.shares import NegativeBinomialShare
from headcount.randomness.totals import long_negative_binomial

_MOST_EXACT_LEVELS = 64  # that are accounted for exactly
_MOST_NOISE = 2**27  # messages
_USUAL_LEVELS = 16  # of what is rounded: more are a lot of messages
_MANY_LEVELS = 32  # whole numbers that are not rounded
_FEW_LEVELS = 8
_ROUNDING_SHARE = 0.05  # of the variance, where so many levels are possible
_TILTS = 400  # tried in Chernoff's bound


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
class CorrelatedSum(CorrelatedProtocol[CorrelatedSumNoise], NoisySum):
    name = "shuffle.correlated-sum"
    trust = Trust.SHUFFLE
    least_spare = 1e-2

    # By default up to 16, or 32 if these are all whole numbers. With `max_messages` it is the best
    # number up to 32.
    levels: int | None = None

    def _check_options(self) -> None:
        self._keep_levels("levels")

    # Calibration --------------------------------------------------------------------------------

    @cached_property
    def _levels(self) -> int:
        if self.levels is not None:
            return self.levels
        users, epsilon = self.crowd.users, self.budget.epsilon
        enough = enough_levels(self._bounds, users, epsilon, _ROUNDING_SHARE)
        few = self._bounds.whole and enough <= _MANY_LEVELS
        usual = enough if few else min(enough, _USUAL_LEVELS)
        if self.max_messages is None:
            return usual
        return self._best_levels(usual, min(enough, _MANY_LEVELS))

    def _best_levels(self, start: int, most: int) -> int:
        """Those with the least error for the messages allowed: more are rounded to less, and leave
        less of ε to the answer. The error falls with them, and then rises.
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
    def _units(self) -> int:
        return self._levels

    @property
    def _usual_ratio(self) -> float:
        # Messages grow with the levels, and faster the nearer the error is to the best.
        return 1.05 if self._levels <= _FEW_LEVELS else 1.25

    @property
    def _most_epsilon1(self) -> float:
        return self.budget.epsilon

    @property
    def _by_paper(self) -> bool:
        return self.calibration == "paper" or self._levels > _MOST_EXACT_LEVELS

    def _calibrate(self, epsilon1: float) -> CorrelatedSumNoise | None:
        delta = self.budget.delta * (1 - RESERVED)
        noise = _calibrate(self._levels, self.budget.epsilon, delta, epsilon1, self._by_paper)
        if noise is not None and noise.messages > _MOST_NOISE and self._by_paper:
            raise Infeasible(
                f"{self.name} needs {short(noise.messages, 3)} noise messages for {self._levels} "
                f"levels by its paper, more than {_MOST_NOISE}",
                nearest={"levels": min(self._levels - 1, _MOST_EXACT_LEVELS)},
            )
        return noise

    def _messages(self, noise: CorrelatedSumNoise) -> float:
        return 1 + noise.messages / self.crowd.honest

    # The noise of one person --------------------------------------------------------------------

    def _kinds(self) -> Iterator[tuple[tuple[int, ...], float, float]]:
        """(elements, r, rate) of all that is sent independently, r over all honest people."""
        yield (1,), 1.0, self._noise.rate
        yield (-1,), 1.0, self._noise.rate
        for atom, flood in zip(atoms(self._levels), self._noise.floods, strict=True):
            for r, rate in flood:
                yield atom, r, rate

    @cached_property
    def _shares(self) -> list[tuple[tuple[int, ...], NegativeBinomialShare]]:
        honest = self.crowd.honest
        return [
            (elements, NegativeBinomialShare(Fraction(r) / honest, Fraction(rate)))
            for elements, r, rate in self._kinds()
        ]

    def _excess(self, slots: int) -> float:
        """By Chernoff: E[e^{θN}] = Π ((1−p)/(1−p·e^{θ|s|}))^{r/h} over all kinds."""
        kinds = [(len(elements), r, rate) for elements, r, rate in self._kinds()]
        most = min(rate / size for size, _, rate in kinds)
        tilts = most * np.linspace(0, 1, _TILTS, endpoint=False)
        log = -tilts * slots  # one slot is for the level
        for size, r, rate in kinds:
            ratio = np.log(-np.expm1(-rate)) - np.log(-np.expm1(size * tilts - rate))
            log += r / self.crowd.honest * ratio
        return min(1.0, math.exp(log.min()) * (1 + 1e-9))

    # What follows -------------------------------------------------------------------------------

    @cached_property
    def _values(self) -> NDArray[np.int64]:
        """What the messages 0, 1, … stand for: 1, …, Δ and then −1, …, −⌈Δ/2⌉ (or just −1)."""
        least = max(1, (self._levels + 1) // 2)
        return np.concatenate([np.arange(1, self._levels + 1), -np.arange(1, least + 1)])

    def _code(self, element: int) -> int:
        return element - 1 if element > 0 else self._levels - element - 1

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.numbers(len(self._values), dummies=True)

    @property
    def tally_size(self) -> int:
        return len(self._values)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {
            "epsilon1": self._noise.rate * self._levels,
            "levels": self._levels,
            "noise_messages": self._noise.messages * self.crowd.users / self.crowd.honest,
        }

    @cached_property
    def guarantee(self) -> Guarantee:
        exact = not self._by_paper
        return self._promise(
            "law of how often each number is sent, all pairs of levels"
            if exact
            else "Ghazi, Kumar, Manurangsi, Pagh and Sinha 2021",
            delta=self.curve.delta(self.budget.epsilon) if exact else self.budget.delta,
            exact=exact and self.grid.full,
        )

    @cached_property
    def curve(self) -> PrivacyCurve:
        drawn = self.crowd.honest * sum(share.variation for _, share in self._shares)
        if self._by_paper:
            delta = self.budget.delta * (1 - RESERVED)
            return NearCurve(PointCurve(self.budget.epsilon, delta), drawn)
        return NearCurve(self._noise.curve, drawn)

    @property
    def messages_per_user(self) -> float:
        return self._messages(self._noise)

    @property
    def local_epsilon(self) -> float:
        return math.inf

    def _level_law(self, level: int) -> BundleLaw | None:
        return None  # a product over all atoms

    def _noise_error(self, users: int) -> GeometricError:
        return GeometricError(self._noise.rate, Fraction(users, self.crowd.honest))

    def _send(self, levels: NDArray[np.integer], source: Source) -> Messages:
        dtype = self.alphabet.dtype
        own = Messages(
            (levels[levels > 0] - 1).astype(dtype), len(levels), (levels > 0).astype(np.uint8)
        )
        senders, sent = [], []
        for elements, share in self._shares:
            people, copies = share.draw(source, len(levels))
            codes = np.array([self._code(element) for element in elements], dtype=dtype)
            senders.append(np.repeat(people, copies * len(codes)))
            sent.append(np.tile(codes, int(copies.sum())))
        people = np.concatenate(senders)
        order = np.argsort(people, kind="stable")
        return own.plus(people[order], np.concatenate(sent)[order])

    def _level_sum(self, tally: Tally, source: Source | None) -> int:
        return int(tally.counts @ self._values)

    def _simulate_levels(self, held: Holding, source: Source) -> NDArray[np.int64]:
        counts = np.zeros(self.tally_size, dtype=np.int64)
        positive = held.values > 0
        counts[held.values[positive] - 1] = held.counts[positive]
        for elements, r, rate in self._kinds():
            times = Fraction(r) * held.users / self.crowd.honest
            copies = long_negative_binomial(source, times, Fraction(rate))
            for element in elements:
                counts[self._code(element)] += copies
        return counts
