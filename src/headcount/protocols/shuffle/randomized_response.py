"""Randomized response behind a shuffler (Cheu, Smith, Ullman, Zeber, Zhilyaev 2019).

Notation    x ∈ {0,1} a person's value, n people, h of them honest; q = λ/(2h) = t/2^64 the
            probability of a lie.
Randomizer  With probability λ/h report a fair coin, else x: flip x with probability q.
Analyzer    Of flipped bits, n/(n−λ)·(Σy − λ/2) if all are honest: see `flipped_bits`.
Privacy     The view is the number of ones among the reports. If k of the other h−1 honest people
            hold a one, it is, up to a shift, W_k + Bernoulli(q) or W_k + Bernoulli(1−q), with
            W_k = Bin(h−1−k, q) − Bin(k, q). δ is the largest divergence over all k, both ways:
            the worst dataset is not always the edge k = 0, and δ is wavy in k.
            Up to 2,000 honest people all k are computed. Beyond, k is taken in blocks of m+1: the
            views of k, …, k+m all arise from W_k without m of its zeros by adding independent
            noise, so its δ bounds theirs. An upper bound, less than a percent of noise from exact.
            Paper: λ = (64/ε²) ln(4/δ), or λ = h − εh^{3/2}/√(432 ln(4/δ)) if ε is below
            √(192 ln(4/δ)/h).
Error       Of flipped bits: about √(λ/2), whatever n.
Messages    1 of 1 bit. Alone it has ε = ln((1−q)/q): little is left if the shuffler colludes.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from headcount.accounting import laws
from headcount.accounting.calibration import least_private
from headcount.accounting.divergence import PairCurve, hockey_stick
from headcount.accounting.laws import Law
from headcount.core.budget import Budget, Trust
from headcount.core.errors import Infeasible
from headcount.core.guarantee import Guarantee
from headcount.core.protocol import Calibration
from headcount.protocols.flipped_bits import FlippedBits, local_weight
from headcount.randomness.draws import WHOLE

_ALL_DATASETS = 2000  # honest people up to whom every dataset is looked at
_BLOCKS = 1000  # of datasets, for larger crowds
_CURVE_BLOCKS = 100  # the same for the whole curve, which is asked for many values


def _neighbors(zeros: int, ones: int, lie: Fraction) -> tuple[Law, Law]:
    """The two views of a victim among so many honest others."""
    others = laws.binomial(zeros, lie).plus(laws.binomial(ones, lie).mirror())
    return others.plus(laws.binomial(1, lie)), others.plus(laws.binomial(1, 1 - lie))


def _datasets(honest: int, lie: Fraction, blocks: int) -> Iterator[tuple[Law, Law]]:
    """Pairs of views that between them cover every dataset; exactly if there is a block for each.

    A dataset and its opposite are one pair in the two directions, so half of them is enough.
    """
    others = honest - 1
    size = -(-honest // blocks)  # datasets in a block: k, …, k + size − 1
    for ones in range(0, others // 2 + 1, size):
        spared = min(size - 1, others - ones)
        yield _neighbors(others - ones - spared, ones, lie)


def _divergence(pair: tuple[Law, Law], epsilon: float) -> float:
    no, yes = pair
    return max(hockey_stick(no, yes, epsilon), hockey_stick(yes, no, epsilon))


def _worst_delta(honest: int, weight: int, epsilon: float) -> float:
    if weight >= local_weight(epsilon):
        return 0.0  # private without the shuffler
    blocks = honest if honest <= _ALL_DATASETS else _BLOCKS
    pairs = _datasets(honest, Fraction(weight, WHOLE), blocks)
    return max(_divergence(pair, epsilon) for pair in pairs)


@lru_cache(maxsize=256)
def _calibrate(honest: int, budget: Budget, calibration: Calibration) -> tuple[int, float] | None:
    """(t, its δ over all datasets), within the budget; None if the paper's t is not."""
    if calibration == "paper":
        weight = _paper_weight(honest, budget)
        delta = _worst_delta(honest, weight, budget.epsilon)
        return (weight, delta) if delta <= budget.delta else None
    # Search on the edge, where a divergence is quick; aim lower while some dataset is worse.
    enough = local_weight(budget.epsilon)

    def edge_delta(weight: int) -> float:
        if weight >= enough:
            return 0.0
        return _divergence(_neighbors(honest - 1, 0, Fraction(weight, WHOLE)), budget.epsilon)

    aim = budget.delta
    while True:
        start = max(1, min(enough, WHOLE // (100 * honest)))
        weight = least_private(edge_delta, aim, start=start, stop=enough) or enough
        delta = _worst_delta(honest, weight, budget.epsilon)
        if delta <= budget.delta:
            return weight, delta
        aim *= budget.delta / delta * (1 - 1e-4)


def _paper_weight(honest: int, budget: Budget) -> int:
    if budget.delta == 0:
        return local_weight(budget.epsilon)
    log = math.log(4 / budget.delta)
    if budget.epsilon >= math.sqrt(192 * log / honest):
        coins = 64 / budget.epsilon**2 * log
    else:
        coins = honest - budget.epsilon * honest**1.5 / math.sqrt(432 * log)
    return math.ceil(Fraction(coins) / (2 * honest) * WHOLE)


@dataclass(frozen=True)
class ShuffledResponse(FlippedBits):
    name = "shuffle.randomized-response"
    trust = Trust.SHUFFLE

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._calibrated  # an infeasible request is refused now, not at the first use

    @cached_property
    def _calibrated(self) -> tuple[int, float]:
        found = _calibrate(self.crowd.honest, self.budget, self.calibration)
        if found is None:
            raise Infeasible(
                f"the paper's parameters for {self.name} do not keep epsilon="
                f"{self.budget.epsilon:g}, delta={self.budget.delta:g} with "
                f"{self.crowd.honest} honest people; the exact calibration does"
            )
        return found

    @property
    def _lie(self) -> int:
        return self._calibrated[0]

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"lambda": float(2 * self.crowd.honest * self._lie_probability)}

    @property
    def guarantee(self) -> Guarantee:
        computed = self.calibration == "exact"
        every_dataset = self.crowd.honest <= _ALL_DATASETS
        method = "law of the number of ones, " + (
            "every dataset" if every_dataset else "bounded over blocks of datasets"
        )
        return Guarantee(
            epsilon=self.budget.epsilon,
            delta=self._calibrated[1] if computed else self.budget.delta,
            trust=self.trust,
            exact=computed and every_dataset,
            method=method if computed else "Cheu, Smith, Ullman, Zeber, Zhilyaev 2019",
            honest=self.crowd.honest,
        )

    @cached_property
    def curve(self) -> PairCurve:
        blocks = min(self.crowd.honest, _CURVE_BLOCKS)
        pairs = _datasets(self.crowd.honest, self._lie_probability, blocks)
        both = [pair for no, yes in pairs for pair in ((no, yes), (yes, no))]
        return PairCurve(tuple(both))
