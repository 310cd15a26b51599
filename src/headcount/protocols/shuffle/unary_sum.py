"""The sum of numbers, with many bits from each person (Cheu, Smith, Ullman, Zeber, Zhilyaev 2019).

Notation    The levels are 0, …, r (see `fixed_point`). n is the number of people; h of them are
            honest. q = t/2^64 is the probability that a bit is flipped, where t is an integer. The
            paper states λ = 2hq instead of q.
Randomizer  Write the person's level as r bits. The number of ones is the level. Flip each bit with
            probability q, and send all bits.
Analyzer    The estimate of the sum of all levels is S = (Σy − qnr)/(1−2q) over all bits y.
Privacy     Bits have no labels, so the view is the number of ones among hr bits. The worst
            neighbors are the levels 0 and r, whatever levels all other people hold. δ is the
            largest divergence over all sums of the other people's levels and over both directions
            (see `accounting.amplification`). With `calibration="paper"`, q is that of a composition
            of r separate bits with ε' = ε/√(8r ln(2/δ)) and δ' = δ/(2r) each.
Error       The variance of S is nrq(1−q)/(1−2q)² for all data. Rounding adds to this variance. With
            the default r = ⌈ε√n⌉, the error divided by high − low is about that of a count by
            `shuffle.randomized-response`, for any n.
Messages    r messages of 1 bit. If the shuffler and the analyzer collude, the privacy loss is
            r·ln((1−q)/q).
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.amplification import EVERY_DATASET, flip_delta, unary_lie
from headcount.accounting.divergence import SymmetricCurve
from headcount.accounting.laws import ROUNDING
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible
from headcount.core.guarantee import Guarantee
from headcount.core.limits import Limits
from headcount.core.messages import Alphabet, Messages
from headcount.core.promise import paper_is_not_private, promise
from headcount.core.protocol import Calibration, Protocol
from headcount.core.randomizer import BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.core.table import short
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task
from headcount.core.tasks.bounded import Mean, Sum
from headcount.protocols.fixed_point import Grid
from headcount.protocols.level_responses import ResponseEstimator
from headcount.protocols.levels import Rounding, bounded, check_levels, level_sum
from headcount.protocols.responses import lie_weight
from headcount.protocols.shuffle.randomized_response import paper_weight
from headcount.randomness.draws import WHOLE, bernoulli
from headcount.randomness.totals import binomial

_MOST_BITS = 2**16
_FEW_BITS = 16  # whole numbers are not rounded if high − low is at most this
_CHUNK = 1 << 18  # the number of bits that are set at a time


@dataclass(frozen=True)
class UnaryRandomizer(Randomizer):
    """Sends r bits, with a person's level as the number of ones. Each bit is flipped at random."""

    bits: int  # r
    weight: int  # t

    alphabet = Alphabet(np.uint8, range(2))

    @property
    def fixed_messages(self) -> int:
        return self.bits

    @property
    def instructions(self) -> Mapping[str, Any]:
        return {"kind": "bits", "bits": self.bits, "weight": str(self.weight)}

    def send(self, encoded: NDArray[np.integer], source: Source) -> Messages:
        bits = self.bits
        flips = bernoulli(source, len(encoded) * bits, self.weight).reshape(-1, bits)
        places = np.arange(bits)
        rows = max(1, _CHUNK // bits)
        for start in range(0, len(encoded), rows):
            piece = flips[start : start + rows]
            piece ^= places < encoded[start : start + rows, None]
        counts = np.broadcast_to(np.int64(bits), len(encoded))
        return Messages(flips.reshape(-1), len(encoded), counts)

    def law(self, value: int) -> BundleLaw:
        flip = Fraction(self.weight, WHOLE)
        law: dict[Any, Fraction] = {}
        for lost in range(value + 1):
            for gained in range(self.bits - value + 1):
                ones = value - lost + gained
                flips = lost + gained
                ways = math.comb(value, lost) * math.comb(self.bits - value, gained)
                copies = ((0, self.bits - ones), (1, ones))
                bundle = tuple(pair for pair in copies if pair[1])
                chance = ways * flip**flips * (1 - flip) ** (self.bits - flips)
                law[bundle] = law.get(bundle, Fraction(0)) + chance
        return law


@dataclass(frozen=True, eq=False)
class UnaryEstimator(ResponseEstimator):
    """Counts the ones, and corrects for flips: S = (Σy − qnr)/(1−2q)."""

    flip: Fraction  # q

    tally_size = 1

    def count(self, payload: NDArray[np.uint8]) -> NDArray[np.int64]:
        return np.array([np.count_nonzero(payload)])

    def level_sum(self, tally: Tally, source: Source | None) -> Fraction:
        # For q near ½, floats would lose accuracy in the differences, but fractions are exact.
        bits = tally.users * self.grid.levels
        return (int(tally.counts[0]) - self.flip * bits) / (1 - 2 * self.flip)

    def simulate_levels(self, held: Holding, source: Source) -> NDArray[np.int64]:
        ones = level_sum(held)
        zeros = held.users * self.grid.levels - ones
        lost, gained = (int(binomial(source, bits, self.flip)[0]) for bits in (ones, zeros))
        return np.array([ones - lost + gained])

    @cached_property
    def level_variances(self) -> NDArray[np.float64]:
        levels, flip = self.grid.levels, self.flip
        return np.full(levels + 1, float(levels * flip * (1 - flip) / (1 - 2 * flip) ** 2))

    @property
    def width(self) -> float:
        return float(1 / (1 - 2 * self.flip))


@lru_cache(maxsize=256)
def _calibrate(
    honest: int, budget: Budget, bits: int, calibration: Calibration
) -> tuple[int, float] | None:
    """A weight t whose δ is within the budget, and this δ, which is the largest over all datasets.

    None if the δ of the paper's t exceeds the budget.
    """
    # With the weight `alone`, the bits satisfy ε even without the shuffler. The division by `bits`
    # may round up, so the next smaller float is used.
    alone = lie_weight(2, math.nextafter(budget.epsilon / bits, 0.0))
    if not budget.delta:
        return alone, 0.0
    if calibration == "paper":
        epsilon = budget.epsilon / math.sqrt(8 * bits * math.log(2 / budget.delta))
        weight = paper_weight(honest, epsilon, budget.delta / (2 * bits))
    else:
        weight = unary_lie(honest, bits, budget.epsilon, budget.delta) or alone
    if weight >= alone:
        return alone, 0.0
    delta = flip_delta(honest, Fraction(weight, WHOLE), budget.epsilon, bits)
    return (weight, delta) if delta <= budget.delta else None


def _usual_bits(task: Task, budget: Budget, crowd: Crowd) -> int:
    usual = min(math.ceil(budget.epsilon * math.sqrt(crowd.users)), _MOST_BITS)
    # If the range has few whole numbers, it is better not to round them.
    span = _whole_span(task)
    return span if 0 < span <= max(usual, _FEW_BITS) else usual


def _whole_span(task: Task) -> int:
    """The number of levels with which whole numbers are not rounded; 0 for real numbers."""
    return int(task.bounded.span) if task.bounded and task.bounded.whole else 0


@dataclass(frozen=True)
class UnarySum(Protocol):
    name = "shuffle.unary-sum"
    trust = Trust.SHUFFLE
    tasks: ClassVar[tuple[type[Task], ...]] = (Sum, Mean)

    # The number r of bits. The default is ⌈ε√n⌉, as in the paper. If the range has few whole
    # numbers, the default is high − low, so that nothing is rounded.
    bits: int | None = None

    @classmethod
    def settings_within(
        cls, task: Task, budget: Budget, crowd: Crowd, limits: Limits
    ) -> Iterator[dict[str, Any]]:
        usual = _usual_bits(task, budget, crowd)
        allowed = min(limits.fixed, 4 * usual, _MOST_BITS)  # more than 4·usual bits hardly help
        yield {"bits": max(allowed, 1)}
        span = _whole_span(task)
        if 0 < span < allowed:
            yield {"bits": allowed // span * span}  # so that whole numbers are not rounded

    def check_options(self) -> None:
        check_levels(self, "bits", _MOST_BITS)

    @cached_property
    def grid(self) -> Grid:
        return Grid(bounded(self), self.bits or _usual_bits(self.task, self.budget, self.crowd))

    @cached_property
    def _calibrated(self) -> tuple[int, float]:
        bits = self.grid.levels
        calibrated = _calibrate(self.crowd.honest, self.budget, bits, self.calibration)
        if calibrated is None:
            raise paper_is_not_private(self)
        if 2 * calibrated[0] >= WHOLE:
            raise Infeasible(
                f"{self.name} needs a larger epsilon for {bits} bits, "
                f"got {short(self.budget.epsilon)}",
                nearest={"epsilon": bits * 2.0**-60},
            )
        return calibrated

    @property
    def flip(self) -> Fraction:
        """The probability q that a bit is flipped."""
        return Fraction(self._calibrated[0], WHOLE)

    @cached_property
    def randomizer(self) -> Rounding:
        return Rounding(self.grid, UnaryRandomizer(self.grid.levels, self._calibrated[0]))

    @cached_property
    def estimator(self) -> UnaryEstimator:
        return UnaryEstimator(self.task, self.grid, self.flip)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"lambda": float(2 * self.crowd.honest * self.flip), "bits": self.grid.levels}

    @cached_property
    def curve(self) -> SymmetricCurve:
        honest, bits, flip = self.crowd.honest, self.grid.levels, self.flip
        alone = min(self.local_epsilon, self.budget.epsilon)
        return SymmetricCurve(
            lambda epsilon: flip_delta(honest, flip, epsilon, bits),
            self.local_epsilon if self._calibrated[1] else alone,
        )

    @property
    def guarantee(self) -> Guarantee:
        computed = self.calibration == "exact"
        every = self.crowd.honest * self.grid.levels <= EVERY_DATASET
        datasets = "every dataset" if every else "bounded over blocks of datasets"
        return promise(
            self,
            f"law of the number of ones, {datasets}"
            if computed
            else "Cheu, Smith, Ullman, Zeber, Zhilyaev 2019",
            delta=self._calibrated[1] if computed else self.budget.delta,
            # If there are levels that nobody can hold, the worst dataset may be impossible.
            exact=computed and every and self.grid.full,
        )

    @property
    def local_epsilon(self) -> float:
        # r·ln((1−q)/q), rounded up.
        ratio = (1 - 2 * self.flip) / self.flip
        return self.grid.levels * math.log1p(float(ratio)) * (1 + 8 * ROUNDING)
