"""The zero-exact count (Balcer, Cheu 2020, "Separating local and shuffled differential privacy").

Notation    x ∈ {0,1} a person's value, n people, h of them honest, c = Σx the true count,
            p = 1 − t/2^64 the probability of a noise message, q = 1 − p.
Randomizer  Send x + Bernoulli(p) messages, all alike.
Analyzer    From the number |y| of messages: ĉ = |y| − np (`unbiased`), or that if |y| > n and else
            0 (`zero-exact`): a crowd of zeros is then answered 0 with certainty.
Privacy     The view is |y| = c + Bin(n, p) and nothing else, so all neighbors are one shift:
            δ = max HS_ε of Bin(h, q) against itself moved by 1, both ways, computed exactly.
            Paper: q = (50/(ε²h)) ln(2/δ) for h ≥ (100/ε²) ln(2/δ).
Error       Unbiased: variance npq, whatever the data. Zero-exact, with M ~ Bin(n, q) the noise
            messages not sent: E[(nq−M)²; M < c] + c² P(M ≥ c).
Messages    x + p of nothing but their presence. Their number betrays x to whoever can count one
            person's, so local ε is infinite.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headcount.accounting import laws
from headcount.accounting.calibration import least_private
from headcount.accounting.divergence import PairCurve, hockey_stick
from headcount.accounting.laws import Law
from headcount.core import checks
from headcount.core.budget import Budget, Trust
from headcount.core.errors import Infeasible
from headcount.core.guarantee import Guarantee
from headcount.core.messages import Alphabet, Messages
from headcount.core.protocol import BundleLaw, Calibration, Protocol
from headcount.core.source import Source
from headcount.core.tally import Tally
from headcount.core.task import Count
from headcount.randomness.binomial import binomial
from headcount.randomness.draws import WHOLE, bernoulli

_SMALL = 100  # crowds whose best coin is looked for closely: it need not be the fair one
_MOST_NOISE = 10**9


def _missing(people: int, weight: int) -> Law:
    """The law of M, the noise messages not sent by `people` who follow the protocol."""
    return laws.binomial(people, Fraction(weight, WHOLE))


def _delta(honest: int, weight: int, epsilon: float) -> float:
    law = _missing(honest, weight)
    return max(hockey_stick(law, law.shift(1), epsilon), hockey_stick(law.shift(1), law, epsilon))


@lru_cache(maxsize=256)
def _calibrate(honest: int, budget: Budget, calibration: Calibration) -> int | None:
    """The t to use, looked at again: its exact δ is within the budget. None if there is none."""
    if budget.delta == 0:
        return None  # p^h > 0 is part of δ, whatever p
    if calibration == "paper":
        withheld = 50 / budget.epsilon**2 * math.log(2 / budget.delta)
        weight = math.ceil(Fraction(withheld) / honest * WHOLE)
        fits = 2 * weight <= WHOLE and _delta(honest, weight, budget.epsilon) <= budget.delta
        return weight if fits else None
    # That nobody withholds a message is part of δ, so (1−q)^h ≤ δ: less noise cannot do.
    least = -math.expm1(math.log(budget.delta) / honest) * (1 - 1e-9)
    return least_private(
        lambda weight: _delta(honest, weight, budget.epsilon),
        budget.delta,
        start=min(int(least * WHOLE) + 1, _most_withheld(honest)),
        stop=_most_withheld(honest),
        steps=10 if honest > _SMALL else 1000,
    )


def _most_withheld(honest: int) -> int:
    """The t of most noise: a fair coin, or as many messages withheld as a law can tabulate."""
    return min(WHOLE // 2, WHOLE * _MOST_NOISE // honest)


@dataclass(frozen=True)
class MissingNoise:
    """The error of the unbiased count: nq − M, for M ~ Bin(n, q)."""

    users: int
    weight: int

    @property
    def standard_error(self) -> float:
        q = Fraction(self.weight, WHOLE)
        return math.sqrt(self.users * q * (1 - q))

    def margins(self, confidence: float) -> tuple[float, float]:
        low, high = _missing(self.users, self.weight).central_interval(confidence)
        mean = float(self.users * Fraction(self.weight, WHOLE))
        return high - mean, mean - low


@dataclass(frozen=True)
class ZeroExact(Protocol):
    name = "shuffle.zero-exact"
    trust = Trust.SHUFFLE
    tasks = (Count,)
    alphabet = Alphabet(np.uint8, range(1, 2))
    tally_size = 1

    analyzer: Literal["unbiased", "zero-exact"] = "unbiased"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.choice("analyzer", self.analyzer, ("unbiased", "zero-exact"))
        _ = self._weight  # an infeasible request is refused now, not at the first use

    @cached_property
    def _weight(self) -> int:
        """t: a noise message is withheld with probability t/2^64."""
        weight = _calibrate(self.crowd.honest, self.budget, self.calibration)
        if weight is None:
            raise self._infeasible()
        return weight

    def _infeasible(self) -> Infeasible:
        honest, budget = self.crowd.honest, self.budget
        if budget.delta == 0:
            exact = self.calibration == "exact"
            least = (
                _delta(honest, _most_withheld(honest), budget.epsilon)
                if exact
                else 2.000001 * math.exp(-honest * budget.epsilon**2 / 100)
            )
            least = max(least, 1e-9)  # less is no use to anybody
            feasible = least < 1 and _calibrate(
                honest, Budget(budget.epsilon, least), self.calibration
            )
            return Infeasible(
                f"{self.name} needs delta above 0: it may happen that all send a noise message",
                nearest={"delta": least} if feasible else None,
            )

        def works(people: int) -> bool:
            return _calibrate(people, budget, self.calibration) is not None

        def surely_works(people: int) -> bool:
            # Quicker: a fair coin is near the most private, and more of them are more private.
            if self.calibration == "paper":
                return works(people)
            return _delta(people, WHOLE // 2, budget.epsilon) <= budget.delta

        few, enough = honest, 2 * honest
        while enough < _MOST_NOISE and not surely_works(enough):
            few, enough = enough, 2 * enough
        setting = f"epsilon={budget.epsilon:g}, delta={budget.delta:g}"
        if enough >= _MOST_NOISE:
            return Infeasible(f"{self.name} needs more than {_MOST_NOISE} people for {setting}")
        while enough - few > 1:
            middle = (few + enough) // 2
            few, enough = (few, middle) if surely_works(middle) else (middle, enough)
        while works(enough - 1):
            enough -= 1
        return Infeasible(
            f"{self.name} needs at least {enough} honest people for {setting}, got {honest}",
            nearest={"honest": enough},
        )

    @property
    def _withheld(self) -> Fraction:
        return Fraction(self._weight, WHOLE)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"p": float(1 - self._withheld)}

    @cached_property
    def guarantee(self) -> Guarantee:
        exact = self.calibration == "exact"
        return Guarantee(
            epsilon=self.budget.epsilon,
            delta=_delta(self.crowd.honest, self._weight, self.budget.epsilon)
            if exact
            else self.budget.delta,
            trust=self.trust,
            exact=exact,
            method="law of the number of messages" if exact else "Balcer and Cheu 2020",
            honest=self.crowd.honest,
        )

    @cached_property
    def curve(self) -> PairCurve:
        law = _missing(self.crowd.honest, self._weight)
        return PairCurve.both_directions(law, law.shift(1))

    @property
    def messages_per_user(self) -> float:
        return float(2 - self._withheld)

    @property
    def local_epsilon(self) -> float:
        return math.inf

    def law(self, value: int) -> BundleLaw:
        return {(1,) * value: self._withheld, (1,) * (value + 1): 1 - self._withheld}

    def standard_error(self, counts: ArrayLike | None = None) -> float:
        true = None if counts is None else self.task.check_counts(counts)
        users = self.crowd.users if true is None else int(true.sum())
        if self.analyzer == "unbiased":
            return self._error_law(users).standard_error
        law = _missing(users, self._weight)
        missing = np.arange(law.start, law.stop)
        squares = np.square(float(users * self._withheld) - missing)
        # Below the window the error is c itself, above it the unbiased one: the worst is inside.
        window = np.arange(law.start, min(law.stop, users) + 1)
        candidates = window if true is None else true[1:]
        below = np.clip(candidates - law.start, 0, len(missing))  # entries with M < c
        seen = np.concatenate([[0.0], np.cumsum(squares * law.mass)])[below]
        hidden = np.concatenate([np.cumsum(law.mass[::-1])[::-1], [0.0]])[below]
        return math.sqrt(float(np.max(seen + np.square(candidates.astype(float)) * hidden)))

    def _randomize(self, encoded: NDArray[np.uint8], source: Source) -> Messages:
        counts = bernoulli(source, len(encoded), WHOLE - self._weight)
        counts += encoded
        payload = np.ones(int(counts.sum(dtype=np.int64)), dtype=np.uint8)
        return Messages(payload, len(encoded), counts)

    def _tally(self, payload: NDArray[np.uint8], users: int) -> NDArray[np.int64]:
        return np.array([len(payload)])

    def _unbiased(self, tally: Tally, source: Source | None) -> float:
        return float(int(tally.counts[0]) - tally.users * (1 - self._withheld))

    def _postprocessing(self, tally: Tally) -> tuple[str, Callable[[float], float]] | None:
        if self.analyzer == "unbiased":
            return None
        above = int(tally.counts[0]) > tally.users
        return "zero-exact", lambda value: value if above else 0.0

    def _error_law(self, users: int) -> MissingNoise:
        return MissingNoise(users, self._weight)

    def _simulate(self, counts: NDArray[np.int64], source: Source) -> NDArray[np.int64]:
        users = int(counts.sum())
        withheld = int(binomial(source, users, self._withheld)[0])
        return np.array([int(counts[1]) + users - withheld])
