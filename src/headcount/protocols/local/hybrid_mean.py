"""The hybrid mechanism for numbers (Wang, Xiao, Yang, Zhao, Hui, Shin, Shin, Yu 2019).

Notation    Levels 0, …, L of `fixed_point`, n people; β that of `local.piecewise-mean`, α the
            probability of a piecewise response, q = t/2^64 that of a lie, t the least integer for
            which (1−q)/q ≤ e^ε.
Randomizer  With probability α the output of `local.piecewise-mean` for one's level j; else one bit,
            1 with probability j/L, and then flipped with probability q. A message says which.
Analyzer    S is the piecewise estimate from the outputs, plus L·(Σy − qN)/(1−2q) from N bits y.
Privacy     Pure: the larger of the two ratios, both at most e^ε. Which of the two a person sends
            says nothing.
Error       α·(piecewise variance) + (1−α)·L²·(q(1−q)/(1−2q)² + (j/L)(1−j/L)) for level j. Piecewise
            is worst at the ends, by L²/4·β/(1−β), and one bit in the middle, by L²/4: for α = 1−β
            the sum is the same everywhere. But α = 0 where that would be no better than one bit.
            Paper: its window, for which 1−β is near 1−e^{−ε/2}, and α = 0 up to ε = 0.61. On
            [−1, 1] and for ε = 1 that is 4.29, with the best window 4.27; one bit has 4.68.
Messages    1: the bits 0 and 1, or 2 + an output.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.divergence import PairCurve
from headcount.accounting.laws import UNIT, Law
from headcount.core.budget import MOST_USERS
from headcount.core.cached import cached_property
from headcount.core.messages import Alphabet, Messages
from headcount.core.protocol import Bundle, BundleLaw
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding
from headcount.protocols.level_protocol import MOST_SUM
from headcount.protocols.response_sum import in_parts
from headcount.protocols.responses import lie_weight, ratio_epsilon
from headcount.protocols.windows import (
    WindowedSum,
    Windows,
    paper_window,
    window_variances,
)
from headcount.randomness.draws import WHOLE, bernoulli, uniform
from headcount.randomness.totals import binomial

_ONE_BIT = 0.61  # the ε up to which one bit is better, with the paper's window


@dataclass(frozen=True)
class HybridMean(WindowedSum):
    name = "local.hybrid-mean"
    tally_size = 3  # the sum of outputs, how many bits, and how many ones

    # Calibration --------------------------------------------------------------------------------

    @cached_property
    def _windows(self) -> Windows | None:
        """Of piecewise responses, with which α = 1 − β; none where α = 0."""
        levels, epsilon = self._levels, self.budget.epsilon
        if self.calibration == "paper":
            size = paper_window(levels, epsilon)
            return Windows(levels, size, epsilon) if epsilon > _ONE_BIT else None
        blind, variances = window_variances(levels, epsilon)
        both = (1 - blind) * variances + blind * self._bit_variances[0]
        best = int(both.argmin())
        # One bit has more variance in the middle only; rounding may add ¼.
        worse = self._bit_variances[levels // 2] > both[best] + 1 / 4
        return Windows(levels, best + 1, epsilon) if worse else None

    @property
    def _share_weight(self) -> int:
        """α·2^64."""
        return WHOLE - self._windows.weight if self._windows else 0

    @property
    def _share(self) -> Fraction:
        """The number α."""
        return Fraction(self._share_weight, WHOLE)

    @cached_property
    def _lie(self) -> int:
        """The number t."""
        return lie_weight(2, self.budget.epsilon)

    @cached_property
    def _bit_variances(self) -> NDArray[np.float64]:
        lie, place = self._lie / WHOLE, np.arange(self._levels + 1) / self._levels
        return self._levels**2 * (lie * (1 - lie) / self._slope**2 + place * (1 - place))

    @property
    def _slope(self) -> float:
        """1 − 2q."""
        return float(1 - Fraction(2 * self._lie, WHOLE))

    def _one(self, level: int) -> Fraction:
        """How often a bit is 1."""
        lie = Fraction(self._lie, WHOLE)
        return lie + Fraction(level, self._levels) * (1 - 2 * lie)

    # What follows -------------------------------------------------------------------------------

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.numbers(2 + (self._windows.outputs if self._windows else 0))

    @property
    def most_users(self) -> int:
        return min(MOST_USERS, MOST_SUM // (2 * self._levels))

    @property
    def parameters(self) -> Mapping[str, float]:
        windows = self._windows.parameters if self._windows else {"levels": self._levels}
        lie = self._lie / WHOLE
        return {**windows, "piecewise_probability": float(self._share), "lie_probability": lie}

    @property
    def local_epsilon(self) -> float:
        of_bits = ratio_epsilon(Fraction(WHOLE - 2 * self._lie, self._lie))
        return max(of_bits, self._windows.local_epsilon) if self._windows else of_bits

    @cached_property
    def curve(self) -> PairCurve:
        # Both ways of responding tell the two ends apart best.
        outputs = self._windows.ends if self._windows else ((), ())
        low, high = (
            np.array(
                [float(self._share * chance) for chance in end]
                + [float((1 - self._share) * chance) for chance in (1 - one, one)]
            )
            for end, one in zip(outputs, (self._one(0), self._one(self._levels)), strict=True)
        )
        return PairCurve.both_directions(Law(0, low, UNIT), Law(0, high, UNIT))

    def _level_law(self, level: int) -> BundleLaw:
        one = self._one(level)
        law: dict[Bundle, Fraction] = {
            ((bit, 1),): (1 - self._share) * chance for bit, chance in enumerate((1 - one, one))
        }
        if self._windows:
            for output, chance in self._windows.law(level).items():
                law[((2 + output, 1),)] = self._share * chance
        return law

    @cached_property
    def _level_variances(self) -> NDArray[np.float64]:
        if not self._windows:
            return self._bit_variances
        share = float(self._share)
        return share * self._windows.variances + (1 - share) * self._bit_variances

    @property
    def _width(self) -> float:
        # Estimates from outputs and from bits both have their middle at L/2.
        of_bits = self._levels / self._slope
        return max(of_bits, self._windows.width) if self._windows else of_bits

    def _send(self, levels: NDArray[np.integer], source: Source) -> Messages:
        return in_parts(self._respond, levels, source, self.alphabet.dtype)

    def _respond(self, levels: NDArray[np.integer], source: Source) -> NDArray[np.int64]:
        if not self._windows:
            return self._bits(levels, source)
        piecewise = bernoulli(source, len(levels), self._share_weight).view(np.bool_)
        outputs, bits = np.flatnonzero(piecewise), np.flatnonzero(~piecewise)
        out = np.empty(len(levels), dtype=np.int64)
        out[outputs] = 2 + self._windows.respond(levels[outputs], source)
        out[bits] = self._bits(levels[bits], source)
        return out

    def _bits(self, levels: NDArray[np.integer], source: Source) -> NDArray[np.int64]:
        ones = uniform(source, len(levels), self._levels).astype(np.int64) < levels
        return (ones ^ bernoulli(source, len(levels), self._lie)).astype(np.int64)

    def _tally(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        bits, ones = np.count_nonzero(payload < 2), np.count_nonzero(payload == 1)
        outputs = int(payload.sum(dtype=np.int64)) - ones - 2 * (len(payload) - bits)
        return np.array([outputs, bits, ones])

    def _level_sum(self, tally: Tally, source: Source | None) -> Fraction:
        outputs, bits, ones = tally.counts.tolist()
        share = Fraction(ones * WHOLE - bits * self._lie, WHOLE - 2 * self._lie)
        from_outputs = self._windows.level_sum(outputs, tally.users - bits) if self._windows else 0
        return from_outputs + self._levels * share

    def _simulate_levels(self, held: Holding, source: Source) -> NDArray[np.int64]:
        drawn = [int(binomial(source, n, self._share)[0]) for n in held.counts.tolist()]
        piecewise = Holding(held.values, np.array(drawn, dtype=np.int64))
        outputs = self._windows.simulate(piecewise, source) if self._windows else 0
        bits = held.counts - piecewise.counts
        ones = sum(
            int(binomial(source, people, self._one(level))[0])
            for level, people in zip(held.values.tolist(), bits.tolist(), strict=True)
        )
        return np.array([outputs, bits.sum(), ones])
