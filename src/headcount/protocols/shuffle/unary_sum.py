"""The sum of numbers by many bits each (Cheu, Smith, Ullman, Zeber, Zhilyaev 2019).

Notation    Levels 0, …, r of `fixed_point`; n people, h of them honest; q = λ/(2h) = t/2^64 the
            probability that a bit is flipped.
Randomizer  Send r bits, as many ones as one's level, each of them flipped with probability q.
Analyzer    S = (Σy − qnr)/(1−2q) over all bits y.
Privacy     Bits are not labelled, so the view is the number of ones among hr bits. For whatever the
            others hold, the worst neighbors are levels 0 and r; δ is the largest divergence over
            all sums of the others' levels, both ways: see `accounting.amplification`. Paper: every
            place of a bit by itself, with ε' = ε/√(8r ln(2/δ)) and δ' = δ/(2r), and composed.
Error       Variance nrq(1−q)/(1−2q)², whatever the data, and rounding; about that of a count by
            randomized response, whatever n and r, with r = ⌈ε√n⌉ by default.
Messages    r of 1 bit. If shuffler and analyzer collude, r·ln((1−q)/q) is left of ε.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.accounting.amplification import EVERY_DATASET, flip_delta, unary_lie
from headcount.accounting.divergence import SymmetricCurve
from headcount.accounting.laws import UNIT
from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible
from headcount.core.guarantee import Guarantee
from headcount.core.messages import Alphabet, Messages
from headcount.core.protocol import Calibration
from headcount.core.randomizer import BundleLaw
from headcount.core.source import Source
from headcount.core.table import short
from headcount.core.tally import Tally
from headcount.core.task import Bounded, Holding, Task
from headcount.protocols.level_protocol import level_sum
from headcount.protocols.response_sum import ResponseSum
from headcount.protocols.responses import lie_weight
from headcount.protocols.shuffle.randomized_response import paper_weight
from headcount.randomness.draws import WHOLE, bernoulli
from headcount.randomness.totals import binomial

_MOST_BITS = 2**16
_FEW_BITS = 16
_CHUNK = 1 << 18  # bits whose pattern is made at a time


@lru_cache(maxsize=256)
def _calibrate(
    honest: int, budget: Budget, bits: int, calibration: Calibration
) -> tuple[int, float] | None:
    """(t, its δ over all datasets), within the budget; None if the paper's t is not."""
    # Private without the shuffler; what the division rounds up must not be spent.
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
    # A few whole numbers are better sent as they are than rounded.
    if isinstance(task, Bounded) and task.whole and task.span <= max(usual, _FEW_BITS):
        return int(task.span)
    return usual


@dataclass(frozen=True)
class UnarySum(ResponseSum):
    name = "shuffle.unary-sum"
    trust = Trust.SHUFFLE
    alphabet = Alphabet(np.uint8, range(2))
    tally_size = 1

    bits: int | None = None  # by default the paper's number

    @classmethod
    def settings_within(
        cls, task: Task, budget: Budget, crowd: Crowd, max_messages: float
    ) -> Iterator[dict[str, Any]]:
        usual = _usual_bits(task, budget, crowd)
        allowed = min(math.floor(max_messages), 4 * usual, _MOST_BITS)  # more hardly help
        yield {"bits": allowed} if allowed > 0 else {}
        span = int(task.span) if isinstance(task, Bounded) and task.whole else 0
        if 0 < span < allowed:
            yield {"bits": allowed // span * span}  # whole numbers, which are not rounded

    def _check_options(self) -> None:
        self._keep_levels("bits", _MOST_BITS)

    def __post_init__(self) -> None:
        super().__post_init__()
        if 2 * self._lie >= WHOLE:
            raise Infeasible(
                f"{self.name} needs a larger epsilon for {self._levels} bits, "
                f"got {short(self.budget.epsilon)}",
                nearest={"epsilon": self._levels * 2.0**-60},
            )

    # Calibration --------------------------------------------------------------------------------

    @cached_property
    def _levels(self) -> int:
        if self.bits is not None:
            return self.bits
        return _usual_bits(self.task, self.budget, self.crowd)

    @cached_property
    def _calibrated(self) -> tuple[int, float]:
        found = _calibrate(self.crowd.honest, self.budget, self._levels, self.calibration)
        if found is None:
            raise self._not_private()
        return found

    @property
    def _lie(self) -> int:
        """The number t."""
        return self._calibrated[0]

    @property
    def _lie_probability(self) -> Fraction:
        return Fraction(self._lie, WHOLE)

    # What follows -------------------------------------------------------------------------------

    @property
    def parameters(self) -> Mapping[str, float]:
        return {
            "lambda": float(2 * self.crowd.honest * self._lie_probability),
            "bits": self._levels,
        }

    @property
    def fixed_messages(self) -> int:
        return self._levels

    @property
    def guarantee(self) -> Guarantee:
        computed = self.calibration == "exact"
        every = self.crowd.honest * self._levels <= EVERY_DATASET
        datasets = "every dataset" if every else "bounded over blocks of datasets"
        return self._promise(
            f"law of the number of ones, {datasets}"
            if computed
            else "Cheu, Smith, Ullman, Zeber, Zhilyaev 2019",
            delta=self._calibrated[1] if computed else self.budget.delta,
            # No dataset may be the worst one if it would need a level that nobody can hold.
            exact=computed and every and self.grid.full,
        )

    @cached_property
    def curve(self) -> SymmetricCurve:
        alone = min(self.local_epsilon, self.budget.epsilon)
        return SymmetricCurve(
            lambda epsilon: flip_delta(
                self.crowd.honest, self._lie_probability, epsilon, self._levels
            ),
            self.local_epsilon if self._calibrated[1] else alone,
        )

    @property
    def local_epsilon(self) -> float:
        # r·ln((1−q)/q) of a ratio above 1, rounded up.
        ratio = Fraction(WHOLE - 2 * self._lie, self._lie)
        return self._levels * math.log1p(float(ratio)) * (1 + 8 * UNIT)

    def _level_law(self, level: int) -> BundleLaw:
        lie = self._lie_probability
        law: dict[Any, Fraction] = {}
        for lost in range(level + 1):
            for gained in range(self._levels - level + 1):
                ones = level - lost + gained
                flips = lost + gained
                ways = math.comb(level, lost) * math.comb(self._levels - level, gained)
                copies = ((0, self._levels - ones), (1, ones))
                bundle = tuple(pair for pair in copies if pair[1])
                chance = ways * lie**flips * (1 - lie) ** (self._levels - flips)
                law[bundle] = law.get(bundle, Fraction(0)) + chance
        return law

    @cached_property
    def _level_variances(self) -> NDArray[np.float64]:
        lie = self._lie_probability
        variance = self._levels * lie * (1 - lie) / (1 - 2 * lie) ** 2
        return np.full(self._levels + 1, float(variance))

    @property
    def _width(self) -> float:
        return float(1 / (1 - 2 * self._lie_probability))

    def _send(self, levels: NDArray[np.integer], source: Source) -> Messages:
        bits = self._levels
        flips = bernoulli(source, len(levels) * bits, self._lie).reshape(-1, bits)
        places = np.arange(bits)
        rows = max(1, _CHUNK // bits)
        for start in range(0, len(levels), rows):
            piece = flips[start : start + rows]
            piece ^= places < levels[start : start + rows, None]
        counts = np.broadcast_to(np.int64(bits), len(levels))
        return Messages(flips.reshape(-1), len(levels), counts)

    def _tally(self, payload: NDArray[np.uint8]) -> NDArray[np.int64]:
        return np.array([np.count_nonzero(payload)])

    def _level_sum(self, tally: Tally, source: Source | None) -> Fraction:
        # (Σy − qnr)/(1 − 2q) in whole numbers, so that nothing cancels for q near ½.
        bits = tally.users * self._levels
        numerator = (int(tally.counts[0]) << 64) - self._lie * bits
        return Fraction(numerator, WHOLE - 2 * self._lie)

    def _simulate_levels(self, held: Holding, source: Source) -> NDArray[np.int64]:
        ones = level_sum(held)
        lie, zeros = self._lie_probability, held.users * self._levels - ones
        lost, gained = (int(binomial(source, bits, lie)[0]) for bits in (ones, zeros))
        return np.array([ones - lost + gained])
