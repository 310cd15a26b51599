"""The hybrid mechanism for numbers (Wang, Xiao, Yang, Zhao, Hui, Shin, Shin, Yu 2019).

Notation    The levels are 0, …, L (see `fixed_point`). n is the number of people. Windows and β
            are defined in `local.piecewise-mean`. α is the probability of a piecewise response.
            q = t/2^64 is the probability that a bit is flipped. t is the smallest integer with
            (1−q)/q ≤ e^ε.
Randomizer  With probability α, send the output of `local.piecewise-mean` for the person's level j.
            Otherwise send one bit, which is 1 with probability j/L and is then flipped with
            probability q. The message shows which kind of response it is.
Analyzer    The estimate S of the sum of all levels is the piecewise estimate from the outputs, plus
            L·(Σy − qN)/(1−2q) from the N bits y.
Privacy     Pure. For each kind of response, the largest ratio of a message's probabilities for two
            values is at most e^ε. The largest ratio of the protocol is the larger of these two,
            because the choice between the responses does not depend on the value.
Error       The variance for level j is
            α·(piecewise variance) + (1−α)·L²·(q(1−q)/(1−2q)² + (j/L)(1−j/L)). The piecewise
            variance is larger at the ends of the range than in the middle, by L²/4·β/(1−β). The
            variance of one bit is larger in the middle than at the ends, by L²/4. For α = 1−β the
            two differences cancel, and the variance is the same for all levels. If this variance is
            not smaller than the largest variance of one bit, α = 0. In the paper, 1−β is near
            1−e^{−ε/2} because of the size of its windows, and α = 0 up to ε = 0.61. On [−1, 1] with
            ε = 1, the variance is 4.29 with the paper's window, 4.27 with the best window, and 4.68
            with one bit.
Messages    1 message: the bit 0 or 1, or an output plus 2.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.divergence import PairCurve
from headcount.accounting.laws import ROUNDING, Law
from headcount.core.budget import MOST_USERS
from headcount.core.cached import cached_property
from headcount.core.messages import Alphabet, Messages
from headcount.core.randomizer import Bundle, BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Holding
from headcount.protocols.level_responses import ResponseEstimator, in_parts
from headcount.protocols.levels import MOST_SUM, Rounding
from headcount.protocols.responses import lie_weight, ratio_epsilon
from headcount.protocols.windows import WindowedMean, Windows, paper_window, window_variances
from headcount.randomness.draws import WHOLE, bernoulli, uniform
from headcount.randomness.totals import binomial

_ONE_BIT = 0.61  # up to this ε, one bit is better than a mixture with the paper's window


@dataclass(frozen=True)
class OneBit:
    """A bit that is 1 with probability j/L, and is then flipped with probability q = t/2^64."""

    levels: int
    lie: int  # t

    @property
    def slope(self) -> float:
        """The number 1 − 2q."""
        return float(1 - Fraction(2 * self.lie, WHOLE))

    def one(self, level: int) -> Fraction:
        """The probability of a 1."""
        lie = Fraction(self.lie, WHOLE)
        return lie + Fraction(level, self.levels) * (1 - 2 * lie)

    def respond(self, levels: NDArray[np.integer], source: Source) -> NDArray[np.int64]:
        ones = uniform(source, len(levels), self.levels).astype(np.int64) < levels
        return (ones ^ bernoulli(source, len(levels), self.lie)).astype(np.int64)

    @cached_property
    def variances(self) -> NDArray[np.float64]:
        """The variance L²·(q(1−q)/(1−2q)² + (j/L)(1−j/L)) for every level j."""
        lie, place = self.lie / WHOLE, np.arange(self.levels + 1) / self.levels
        return self.levels**2 * (lie * (1 - lie) / self.slope**2 + place * (1 - place))


@dataclass(frozen=True)
class Mixture:
    """A piecewise response with probability α, and otherwise one bit. Without windows, α = 0."""

    bit: OneBit
    windows: Windows | None

    @property
    def share_weight(self) -> int:
        """The number α·2^64. α is 1 − β, or 0 without windows."""
        return WHOLE - self.windows.weight if self.windows else 0

    @property
    def share(self) -> Fraction:
        """The probability α of a piecewise response."""
        return Fraction(self.share_weight, WHOLE)


@dataclass(frozen=True)
class HybridRandomizer(Randomizer):
    """Sends 2 + a piecewise output, or the bit 0 or 1."""

    mixture: Mixture

    fixed_messages = 1

    @property
    def alphabet(self) -> Alphabet:
        windows = self.mixture.windows
        return Alphabet.numbers(2 + (windows.outputs if windows else 0))

    @property
    def instructions(self) -> Mapping[str, Any]:
        return {
            "kind": "hybrid",
            "levels": self.mixture.bit.levels,
            "lie": str(self.mixture.bit.lie),
            "share": str(self.mixture.share_weight),
            "windows": self.mixture.windows.instructions if self.mixture.windows else None,
        }

    def send(self, encoded: NDArray[np.integer], source: Source) -> Messages:
        return in_parts(self._respond, encoded, source, self.alphabet.dtype)

    def _respond(self, levels: NDArray[np.integer], source: Source) -> NDArray[np.int64]:
        bit, windows = self.mixture.bit, self.mixture.windows
        if not windows:
            return bit.respond(levels, source)
        piecewise = bernoulli(source, len(levels), self.mixture.share_weight).view(np.bool_)
        outputs, bits = np.flatnonzero(piecewise), np.flatnonzero(~piecewise)
        out = np.empty(len(levels), dtype=np.int64)
        out[outputs] = 2 + windows.respond(levels[outputs], source)
        out[bits] = bit.respond(levels[bits], source)
        return out

    def law(self, value: int) -> BundleLaw:
        one, share = self.mixture.bit.one(value), self.mixture.share
        law: dict[Bundle, Fraction] = {
            ((bit, 1),): (1 - share) * chance for bit, chance in enumerate((1 - one, one))
        }
        if self.mixture.windows:
            for output, chance in self.mixture.windows.law(value).items():
                law[((2 + output, 1),)] = share * chance
        return law


@dataclass(frozen=True, eq=False)
class HybridEstimator(ResponseEstimator):
    """Adds the estimates from outputs and from bits.

    A tally has the sum of the outputs, the number of bits, and the number of ones among the bits.
    """

    mixture: Mixture

    tally_size = 3

    @property
    def most_users(self) -> int:
        return min(MOST_USERS, MOST_SUM // (2 * self.grid.levels))

    def count(self, payload: NDArray[Any]) -> NDArray[np.int64]:
        bits, ones = np.count_nonzero(payload < 2), np.count_nonzero(payload == 1)
        outputs = int(payload.sum(dtype=np.int64)) - ones - 2 * (len(payload) - bits)
        return np.array([outputs, bits, ones])

    def level_sum(self, tally: Tally, source: Source | None) -> Fraction:
        outputs, bits, ones = tally.counts.tolist()
        windows, lie = self.mixture.windows, self.mixture.bit.lie
        from_outputs = windows.level_sum(outputs, tally.users - bits) if windows else 0
        return from_outputs + self.grid.levels * Fraction(
            ones * WHOLE - bits * lie, WHOLE - 2 * lie
        )

    def simulate_levels(self, held: Holding, source: Source) -> NDArray[np.int64]:
        bit, windows, share = self.mixture.bit, self.mixture.windows, self.mixture.share
        drawn = [int(binomial(source, n, share)[0]) for n in held.counts.tolist()]
        piecewise = Holding(held.values, np.array(drawn, dtype=np.int64))
        outputs = windows.simulate(piecewise, source) if windows else 0
        bits = held.counts - piecewise.counts
        ones = sum(
            int(binomial(source, people, bit.one(level))[0])
            for level, people in zip(held.values.tolist(), bits.tolist(), strict=True)
        )
        return np.array([outputs, bits.sum(), ones])

    @cached_property
    def level_variances(self) -> NDArray[np.float64]:
        bit, windows, share = self.mixture.bit, self.mixture.windows, float(self.mixture.share)
        return share * windows.variances + (1 - share) * bit.variances if windows else bit.variances

    @property
    def width(self) -> float:
        # The ranges of both estimates are centered at L/2, so the wider range contains the other.
        of_bits = self.grid.levels / self.mixture.bit.slope
        return max(of_bits, self.mixture.windows.width) if self.mixture.windows else of_bits


@dataclass(frozen=True)
class HybridMean(WindowedMean):
    name = "local.hybrid-mean"

    @cached_property
    def mixture(self) -> Mixture:
        bit = OneBit(self.grid.levels, lie_weight(2, self.budget.epsilon))
        return Mixture(bit, self._windows(bit))

    def _windows(self, bit: OneBit) -> Windows | None:
        """The windows with the smallest variance for α = 1 − β, or the windows of the paper.

        The result is None if one bit is at least as good.
        """
        levels, epsilon = bit.levels, self.budget.epsilon
        if self.calibration == "paper":
            size = paper_window(levels, epsilon)
            return Windows(levels, size, epsilon) if epsilon > _ONE_BIT else None
        blind, variances = window_variances(levels, epsilon)
        both = (1 - blind) * variances + blind * bit.variances[0]
        best = int(both.argmin())
        # One bit has its largest variance in the middle. Rounding may add ¼ to the variance of the
        # mixture, so the mixture must be better by more than ¼.
        worse = bit.variances[levels // 2] > both[best] + 1 / 4
        return Windows(levels, best + 1, epsilon) if worse else None

    @cached_property
    def randomizer(self) -> Rounding:
        return Rounding(self.grid, HybridRandomizer(self.mixture))

    @cached_property
    def estimator(self) -> HybridEstimator:
        return HybridEstimator(self.task, self.grid, self.mixture)

    @property
    def parameters(self) -> Mapping[str, float]:
        windows, levels = self.mixture.windows, self.grid.levels
        return {
            **(windows.parameters if windows else {"levels": levels}),
            "piecewise_probability": float(self.mixture.share),
            "lie_probability": self.mixture.bit.lie / WHOLE,
        }

    @cached_property
    def curve(self) -> PairCurve:
        # For both kinds of response, the levels 0 and L have the largest divergence.
        bit, windows, share = self.mixture.bit, self.mixture.windows, self.mixture.share
        low, high = (
            np.array(
                [float(share * chance) for chance in end]
                + [float((1 - share) * chance) for chance in (1 - one, one)]
            )
            for end, one in zip(
                windows.ends if windows else ((), ()),
                (bit.one(0), bit.one(bit.levels)),
                strict=True,
            )
        )
        return PairCurve.both_directions(Law(0, low, ROUNDING), Law(0, high, ROUNDING))

    @property
    def local_epsilon(self) -> float:
        lie, windows = self.mixture.bit.lie, self.mixture.windows
        of_bits = ratio_epsilon(Fraction(WHOLE - 2 * lie, lie))
        return max(of_bits, windows.local_epsilon) if windows else of_bits
