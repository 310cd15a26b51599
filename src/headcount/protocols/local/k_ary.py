"""k-ary randomized response (Warner 1965; Kairouz, Bonawitz, Ramage 2016).

Notation    x ∈ {0, …, k−1} a person's bucket, n people, q = t/2^64 the probability of each lie,
            p = 1 − (k−1)q that of the truth; c the true count of a bucket, N its reports.
Randomizer  Report x, or with probability q each of the other buckets. t is the least integer for
            which p/q ≤ e^ε: the rounding is on the private side, and the law is exactly this one.
Analyzer    ĉ = (N − nq)/(p − q) in every bucket.
Privacy     Pure: ε' = ln(p/q) ≤ ε for each person alone.
Error       Unbiased; variance (cp(1−p) + (n−c)q(1−q))/(p−q)² of a bucket of c people.
Messages    1 of a bucket.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.accounting import laws
from headcount.accounting.divergence import PairCurve
from headcount.accounting.laws import UNIT, Law
from headcount.core.budget import Trust
from headcount.core.errors import Infeasible
from headcount.core.estimate import Answer
from headcount.core.guarantee import Guarantee
from headcount.core.messages import Alphabet, Messages
from headcount.core.protocol import BundleLaw, Protocol
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Histogram, Holding
from headcount.protocols.flipped_bits import lie_weight
from headcount.randomness.draws import WHOLE, bernoulli, uniform
from headcount.randomness.totals import binomial, multinomial

_FEW = 100  # people of whom every true count is tried for an interval


@dataclass(frozen=True)
class ReportError:
    """The error of a bucket with the estimate ĉ: N is Bin(c, p) + Bin(n−c, q).

    In small crowds every c is tried: it is in the interval if neither N or fewer nor N or more is
    too improbable. In others N is taken to be normal, with the variance that c itself would give
    (a score interval), which is right for small counts too.
    """

    users: int
    truth: Fraction  # p
    lie: Fraction  # q
    value: Answer

    def _variance(self, count: Answer) -> Answer:
        """Of N."""
        kept, moved = (float(chance * (1 - chance)) for chance in (self.truth, self.lie))
        return self.users * moved + count * (kept - moved)

    @property
    def _slope(self) -> float:
        return float(self.truth - self.lie)

    @property
    def standard_error(self) -> Answer:
        likely = np.clip(self.value, 0, self.users)
        return np.sqrt(self._variance(likely)) / self._slope

    def margins(self, confidence: float) -> tuple[Answer, Answer]:
        low, high = self._by_trial(confidence) if self.users <= _FEW else self._by_score(confidence)
        return high - self.value, self.value - low

    def _by_trial(self, confidence: float) -> tuple[Answer, Answer]:
        spare = (1 - confidence) / 2
        reports = np.rint(self.value * self._slope + self.users * float(self.lie)).astype(int)
        lows, highs = np.full(len(reports), self.users), np.zeros(len(reports))
        for count in range(self.users + 1):
            law = laws.binomial(count, self.truth).plus(laws.binomial(self.users - count, self.lie))
            mass = np.zeros(self.users + 1)
            mass[law.start : law.stop] = law.mass
            below, above = np.cumsum(mass)[reports], np.cumsum(mass[::-1])[::-1][reports]
            likely = np.minimum(below, above) > spare - 1e-12
            lows = np.where(likely, np.minimum(lows, count), lows)
            highs = np.where(likely, np.maximum(highs, count), highs)
        return lows, highs

    def _by_score(self, confidence: float) -> tuple[Answer, Answer]:
        # (slope·(ĉ − c))² = z²·variance(c), a square equation in c − ĉ; half a step for N whole.
        z = NormalDist().inv_cdf((1 + confidence) / 2) / self._slope
        growth = z**2 * (self._variance(1) - self._variance(0))
        spread = np.maximum(z**2 * self._variance(self.value), 0.0)
        middle, half = growth / 2, np.sqrt(growth**2 / 4 + spread)
        step = 0.5 / self._slope
        return self.value + middle - half - step, self.value + middle + half + step


@dataclass(frozen=True)
class KAry(Protocol):
    name = "local.k-ary"
    trust = Trust.LOCAL
    tasks = (Histogram,)
    fixed_messages = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.task.domain * self._weight >= WHOLE:
            raise Infeasible(
                f"{self.name} needs a larger epsilon for {self.task.domain} buckets, "
                f"got {self.budget.epsilon:g}",
                nearest={"epsilon": self.task.domain * 2.0**-60},
            )

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.numbers(self.task.domain)

    @property
    def tally_size(self) -> int:
        return self.task.domain

    @cached_property
    def _weight(self) -> int:
        """The number t."""
        return lie_weight(self.task.domain, self.budget.epsilon)

    @property
    def _lie(self) -> Fraction:
        return Fraction(self._weight, WHOLE)

    @property
    def _truth(self) -> Fraction:
        return 1 - (self.task.domain - 1) * self._lie

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"lie_probability": float((self.task.domain - 1) * self._lie)}

    @property
    def guarantee(self) -> Guarantee:
        return self._promise(
            "largest ratio of the randomizer's law",
            epsilon=min(self.budget.epsilon, self.local_epsilon),
        )

    @cached_property
    def curve(self) -> PairCurve:
        # Of the victim's two buckets, and of any other.
        other = float((self.task.domain - 2) * self._lie)
        ends = [float(self._truth), float(self._lie)]
        one, two = (Law(0, np.array([*pair, other]), UNIT) for pair in (ends, ends[::-1]))
        return PairCurve.both_directions(one, two)

    @property
    def local_epsilon(self) -> float:
        # ln(p/q) of a ratio above 1, rounded up.
        excess = Fraction(WHOLE - self.task.domain * self._weight, self._weight)
        return math.log1p(float(excess)) * (1 + 4 * UNIT)

    def law(self, value: int) -> BundleLaw:
        return {
            ((bucket, 1),): self._truth if bucket == value else self._lie
            for bucket in range(self.task.domain)
        }

    def _standard_error(self, users: int, held: Holding | None) -> float:
        # The variance is linear in the count: the worst is at an end.
        counts = np.array([0, users]) if held is None else held.counts
        return float(np.max(self._error_law(users, counts.astype(np.float64)).standard_error))

    def _error_law(self, users: int, value: Answer) -> ReportError:
        return ReportError(users, self._truth, self._lie, value)

    def _randomize(self, encoded: NDArray[Any], source: Source) -> Messages:
        # With probability kq a uniform bucket, else the truth: that makes q for each other one.
        buckets, dtype = self.task.domain, self.alphabet.dtype
        blind = np.flatnonzero(bernoulli(source, len(encoded), buckets * self._weight))
        reports = encoded.astype(dtype)
        reports[blind] = uniform(source, len(blind), buckets).astype(dtype)
        return Messages.one_each(reports)

    def _unbiased(self, tally: Tally, source: Source | None) -> Answer:
        # (N − nq)/(p − q) in whole numbers, so that nothing cancels for p near q.
        slope = WHOLE - self.task.domain * self._weight
        return np.array(
            [
                float(Fraction((reports << 64) - self._weight * tally.users, slope))
                for reports in tally.counts.tolist()
            ]
        )

    def _simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        share = self.task.domain * self._lie
        blind = [int(binomial(source, n, share)[0]) for n in held.counts.tolist()]
        return held.counts - blind + multinomial(source, sum(blind), [1] * len(held.counts))
