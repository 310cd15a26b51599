"""The zero-exact count (Balcer, Cheu 2020, "Separating local and shuffled differential privacy").

Notation    x ∈ {0,1} is a person's value. n is the number of people; h of them are honest. c = Σx
            is the true count. p = 1 − t/2^64 is the probability of a noise message, where t is an
            integer, and q = 1 − p.
Randomizer  Send x + Bernoulli(p) messages. All messages are identical.
Analyzer    |y| is the number of messages. The `unbiased` answer is ĉ = |y| − np. The `zero-exact`
            answer is ĉ if |y| > n, and 0 otherwise. So the `zero-exact` answer is certainly 0 if
            the true count is 0.
Privacy     The view is only |y| = c + Bin(n, p), so neighboring views differ by a shift of 1. δ is
            the hockey-stick divergence of Bin(h, q) and the same law shifted by 1, in the direction
            that gives the larger value. δ is computed exactly. With `calibration="paper"`,
            q = (50/(ε²h)) ln(2/δ), which requires h ≥ (100/ε²) ln(2/δ).
Error       Unbiased: the variance is npq for all data. Zero-exact: let M ~ Bin(n, q) be the number
            of noise messages that are not sent. The mean squared error is
            E[(nq−M)²; M < c] + c² P(M ≥ c). This error depends on c, so an estimate states the
            largest error over all c that are possible with |y| messages.
Messages    x + p messages on average, without content. Whoever can count one person's messages can
            learn x, so the local ε is infinite.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from headcount.accounting import laws
from headcount.accounting.calibration import least_private
from headcount.accounting.divergence import PairCurve
from headcount.accounting.laws import Law
from headcount.core import checks
from headcount.core.bucket_sums import Part, Weights, independent_parts, lattice_of
from headcount.core.budget import Budget, Trust
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible
from headcount.core.estimate import Answer, ErrorLaw
from headcount.core.estimator import Estimator
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.influence import Shifts
from headcount.core.lattice import LatticeLaw
from headcount.core.messages import Alphabet, Messages
from headcount.core.promise import promise
from headcount.core.protocol import Calibration, Protocol
from headcount.core.randomizer import BundleLaw, Randomizer
from headcount.core.source import Source
from headcount.core.table import short
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task
from headcount.core.tasks.count import Count
from headcount.randomness.draws import WHOLE, bernoulli
from headcount.randomness.totals import binomial

# Up to this many honest people, q is searched in finer steps, since q = ½ may not be most private.
_SMALL = 100
# The largest expected number of noise messages that honest people do not send. It is also the
# largest crowd that an error message suggests.
_MOST_NOISE = 10**9


# Randomizer -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class CountRandomizer(Randomizer):
    """Sends x messages and, with probability p = 1 − t/2^64, one more."""

    weight: int  # t

    alphabet = Alphabet(np.uint8, range(1, 2), dummy=(0,))

    @property
    def withheld(self) -> Fraction:
        """The probability q that no noise message is sent."""
        return Fraction(self.weight, WHOLE)

    @property
    def messages_per_user(self) -> float:
        return float(2 - self.withheld)

    @property
    def instructions(self) -> Mapping[str, Any]:
        return {"kind": "one-more", "weight": str(WHOLE - self.weight)}

    def send(self, encoded: NDArray[np.uint8], source: Source) -> Messages:
        counts = bernoulli(source, len(encoded), WHOLE - self.weight)
        counts += encoded
        payload = np.ones(int(counts.sum(dtype=np.int64)), dtype=np.uint8)
        return Messages(payload, len(encoded), counts)

    def law(self, value: int) -> BundleLaw:
        sent = ((1, value),) if value else ()
        return {sent: self.withheld, ((1, value + 1),): 1 - self.withheld}

    def fewer_messages(self, encoded: NDArray[np.uint8]) -> int:
        return 1 - int(encoded[0])

    def overflow(self, slots: int) -> float:
        return (1.0, float(1 - self.withheld))[slots] if slots < 2 else 0.0


# Analyzer and its error -----------------------------------------------------------------------


def _missing(people: int, weight: int) -> Law:
    """The law of M, the number of noise messages that `people` honest people do not send."""
    return laws.binomial(people, Fraction(weight, WHOLE))


@dataclass(frozen=True)
class MissingNoise:
    """The error of the unbiased count: nq − M, for M ~ Bin(n, q)."""

    users: int
    weight: int

    grain: ClassVar[int] = 1

    @property
    def standard_error(self) -> float:
        q = Fraction(self.weight, WHOLE)
        return math.sqrt(self.users * q * (1 - q))

    @property
    def law(self) -> Law:
        """The law of −M, which differs from nq − M by a constant."""
        return _missing(self.users, self.weight).mirror()

    def margins(self, confidence: float) -> tuple[float, float]:
        low, high = _missing(self.users, self.weight).central_interval(confidence)
        mean = float(self.users * Fraction(self.weight, WHOLE))
        return high - mean, mean - low

    def lattice(self) -> LatticeLaw:
        missing = _missing(self.users, self.weight)
        return missing.mirror().lattice(-self.users * Fraction(self.weight, WHOLE))

    def weighted(self, weights: Weights) -> list[Part]:
        return independent_parts(lattice_of(self), weights)


@dataclass(frozen=True)
class ThresholdedErrors:
    """The mean squared error of the zero-exact answer, for each true count."""

    users: int
    weight: int

    @cached_property
    def _law(self) -> Law:
        return _missing(self.users, self.weight)

    def of(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """The errors E[(nq−M)²; M < c] + c² P(M ≥ c) for these counts."""
        law = self._law
        squares = np.square(float(self.users * Fraction(self.weight, WHOLE)) - law.values)
        below = np.clip(counts - law.start, 0, len(squares))  # entries with M < c
        seen = np.concatenate([[0.0], np.cumsum(squares * law.mass)])[below]
        hidden = np.concatenate([np.cumsum(law.mass[::-1])[::-1], [0.0]])[below]
        errors: NDArray[np.float64] = seen + np.square(counts.astype(np.float64)) * hidden
        return errors

    def worst(self, low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.float64]:
        """For each pair of `low` and `high`, the largest error over all counts in this range."""
        # The window is the range of values of M. For counts below the window the error is c², and
        # for counts above the window it is the variance of M. So the largest error is at `low`, at
        # `high`, or in the window.
        window = np.append(self._law.values, self._law.stop)
        errors = self.of(window)
        first, last = (np.clip(ends - window[0], 0, len(window)) for ends in (low, high + 1))
        inside = [errors[a:b].max(initial=0.0) for a, b in zip(first, last, strict=True)]
        worst: NDArray[np.float64] = np.maximum(np.maximum(self.of(low), self.of(high)), inside)
        return worst


@dataclass(frozen=True, eq=False)
class ThresholdedNoise(MissingNoise):
    """The error of the zero-exact answer, given the unbiased count of each bucket.

    Intervals are those of the unbiased count. They are valid for the unbiased and for the
    zero-exact answer.
    """

    unbiased: Answer

    @property
    def standard_error(self) -> Answer:
        """The largest root mean squared error over all true counts that are possible."""
        law = _missing(self.users, self.weight)
        mean = float(self.users * Fraction(self.weight, WHOLE))
        # |y| − n = ĉ − nq, and c = |y| − n + M.
        over, where = np.unique(np.rint(np.asarray(self.unbiased) - mean), return_inverse=True)
        low, high = over + law.start, over + law.stop - 1
        none = (high < 0) | (low > self.users)  # no honest crowd sends this number of messages
        low = np.where(none, 0, np.maximum(low, 0)).astype(np.int64)
        high = np.where(none, self.users, np.minimum(high, self.users)).astype(np.int64)
        worst = ThresholdedErrors(self.users, self.weight).worst(low, high)
        return np.sqrt(worst)[where].reshape(np.shape(self.unbiased))


@dataclass(frozen=True)
class NoisyCounts(Estimator):
    """Computes ĉ = |y| − np from the number |y| of messages.

    If `thresholded`, the answer is 0 unless |y| > n.
    """

    weight: int
    thresholded: bool

    @property
    def tally_size(self) -> int:
        return 1

    def count(self, payload: NDArray[np.uint8]) -> NDArray[np.int64]:
        return np.array([len(payload)])

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        withheld = binomial(source, held.users, Fraction(self.weight, WHOLE), self.tally_size)
        return self.true_counts(held) + held.users - withheld

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        return Shifts(most=1.0, least=0.0, person=self.weight / WHOLE - 1)

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        sent = Fraction(WHOLE - self.weight, WHOLE)
        return float(int(tally.counts[0]) - tally.users * sent)

    def postprocessing(self, tally: Tally) -> tuple[str, Callable[[Answer], Answer]] | None:
        if not self.thresholded:
            return None
        above = tally.counts > tally.users
        return "zero-exact", lambda value: np.where(above.reshape(np.shape(value)), value, 0.0)[()]

    def standard_error(self, users: int, held: Holding | None) -> float:
        if not self.thresholded:
            return MissingNoise(users, self.weight).standard_error
        errors = ThresholdedErrors(users, self.weight)
        if held is None:
            largest = errors.worst(np.array([0]), np.array([users]))
        else:
            largest = errors.of(self.true_counts(held))
        return math.sqrt(float(np.max(largest)))

    def error_law(self, users: int, unbiased: Answer) -> ErrorLaw:
        if not self.thresholded:
            return MissingNoise(users, self.weight)
        return ThresholdedNoise(users, self.weight, unbiased)

    def true_counts(self, held: Holding) -> NDArray[np.int64]:
        """The true count c, or the true count c_b of each bucket."""
        return held.counts[1:]


# Calibration and privacy ----------------------------------------------------------------------


@dataclass(frozen=True)
class Neighbors:
    """The effect of replacing one value.

    `counts` is the number of counts that change. `curve` computes the privacy curve from the law of
    the noise in one count and the same law shifted by 1.
    """

    counts: int
    curve: Callable[[Law, Law], PrivacyCurve]

    def of(self, honest: int, weight: int) -> PrivacyCurve:
        # Sending one more message has the same effect as withholding one fewer noise message.
        law = _missing(honest, weight)
        return self.curve(law, law.shift(1))

    def delta(self, honest: int, weight: int, epsilon: float) -> float:
        return self.of(honest, weight).delta(epsilon)


@lru_cache(maxsize=256)
def _calibrate(
    neighbors: Neighbors, honest: int, budget: Budget, calibration: Calibration
) -> int | None:
    """An integer t whose exact δ is within the budget; None if none is found."""
    if budget.delta == 0:
        return None  # δ is at least p^h, the probability that everybody sends noise

    def delta_at(weight: int) -> float:
        return neighbors.delta(honest, weight, budget.epsilon)

    if calibration == "paper":
        epsilon, delta = budget.epsilon / neighbors.counts, budget.delta / neighbors.counts
        withheld = 50 / epsilon**2 * math.log(2 / delta)
        weight = math.ceil(Fraction(withheld) / honest * WHOLE)
        return weight if 2 * weight <= WHOLE and delta_at(weight) <= budget.delta else None
    # δ is at least the probability (1−q)^h that nobody withholds a noise message. So a q below
    # `least` is not private.
    least = -math.expm1(math.log(budget.delta) / honest) * (1 - 1e-9)
    return least_private(
        delta_at,
        budget.delta,
        start=min(int(least * WHOLE) + 1, _most_withheld(honest)),
        stop=_most_withheld(honest),
        steps=10 if honest > _SMALL else 1000,
    )


def _most_withheld(honest: int) -> int:
    """The largest t that is tried: that of a fair coin, or less if the law of M would be too long
    to tabulate.
    """
    return min(WHOLE // 2, WHOLE * _MOST_NOISE // honest)


@dataclass(frozen=True)
class ZeroExact(Protocol):
    name = "shuffle.zero-exact"
    trust = Trust.SHUFFLE
    tasks: ClassVar[tuple[type[Task], ...]] = (Count,)
    neighbors: ClassVar[Neighbors] = Neighbors(1, PairCurve.both_directions)

    # With zero-exact, the answer is always 0 if the true count is 0, but it is biased.
    analyzer: Literal["unbiased", "zero-exact"] = "unbiased"

    def check_options(self) -> None:
        checks.choice("analyzer", self.analyzer, ("unbiased", "zero-exact"))

    @cached_property
    def weight(self) -> int:
        """The weight t. A noise message is withheld with probability t/2^64."""
        weight = _calibrate(self.neighbors, self.crowd.honest, self.budget, self.calibration)
        if weight is None:
            raise self._infeasible()
        return weight

    @cached_property
    def randomizer(self) -> Randomizer:
        return CountRandomizer(self.weight)

    @cached_property
    def estimator(self) -> NoisyCounts:
        return NoisyCounts(self.task, self.weight, self.analyzer == "zero-exact")

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"p": float(1 - Fraction(self.weight, WHOLE))}

    @cached_property
    def curve(self) -> PrivacyCurve:
        return self.neighbors.of(self.crowd.honest, self.weight)

    @cached_property
    def guarantee(self) -> Guarantee:
        exact = self.calibration == "exact"
        return promise(
            self,
            "law of the number of messages" if exact else "Balcer and Cheu 2020",
            delta=self.curve.delta(self.budget.epsilon) if exact else self.budget.delta,
            exact=exact,
        )

    @property
    def local_epsilon(self) -> float:
        return math.inf

    def _infeasible(self) -> Infeasible:
        honest, budget = self.crowd.honest, self.budget
        if budget.delta == 0:
            exact, counts = self.calibration == "exact", self.neighbors.counts
            least = (
                self.neighbors.delta(honest, _most_withheld(honest), budget.epsilon)
                if exact
                # The paper's closed form has q ≤ ½ for this δ and for every larger δ.
                else 2.000001 * counts * math.exp(-honest * (budget.epsilon / counts) ** 2 / 100)
            )
            least = max(least, 1e-9)  # nobody needs a smaller δ
            feasible = least < 1 and _calibrate(
                self.neighbors, honest, Budget(budget.epsilon, least), self.calibration
            )
            return Infeasible(
                f"{self.name} needs delta above 0: it may happen that everybody sends noise",
                nearest={"delta": least} if feasible else None,
            )

        def works(people: int) -> bool:
            return _calibrate(self.neighbors, people, budget, self.calibration) is not None

        def surely_works(people: int) -> bool:
            # This check is faster than `works`. A fair coin is nearly the most private coin, and a
            # larger crowd is more private.
            if self.calibration == "paper":
                return works(people)
            return self.neighbors.delta(people, WHOLE // 2, budget.epsilon) <= budget.delta

        few, enough = honest, 2 * honest
        while enough < _MOST_NOISE and not surely_works(enough):
            few, enough = enough, 2 * enough
        setting = f"epsilon={short(budget.epsilon)}, delta={short(budget.delta)}"
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
