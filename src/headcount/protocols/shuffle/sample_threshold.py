"""Sample and threshold (Cormode, Bharadwaj 2022): a histogram without noise messages.

Notation    x ∈ {0, …, d−1} is a person's bucket. n is the number of people; up to m of them may be
            dishonest. p = t/2^64, with an integer t, is the sampling rate, τ is the threshold, and
            S_b is the number of messages of bucket b.
Randomizer  With probability p send x, and otherwise nothing. Each person decides independently,
            because a sample of fixed size would not be private.
Shuffler    Leave out everybody who sent more than one message. Of the other messages, pass on only
            those with at least τ + m copies. The m is added because m cheaters could lift a small
            bucket over τ.
Analyzer    The answer is S_b/p, or 0 if the messages of bucket b were withheld.
Privacy     A person is hidden because nobody knows who was sampled. δ is the maximum over all
            crowds. It is computed from the exact law of the two buckets that change if a value is
            replaced (see `accounting.sampling`). With `calibration="paper"`, p = α(1−e^−ε) and
            τ = ln(1/δ)/(ln(1/α) − 1/(1+α)), with α = 0.2 unless `rate` is given.
Error       The mean squared error of a bucket of c people is E[(S·1{S ≥ τ+m}/p − c)²], where
            S ~ Bin(c, p). The estimates of small buckets are biased downwards. The standard error
            of large buckets is about √(c(1−p)/p).
Messages    p messages on average, each with a bucket. A message is the person's true bucket, so the
            local ε is infinite.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headcount.accounting import laws
from headcount.accounting.sampling import (
    MOST_THRESHOLD,
    ThresholdCurve,
    closed_form,
    least_threshold,
    threshold_delta,
)
from headcount.core import checks
from headcount.core.budget import MOST_USERS, Budget, Crowd, Trust
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible, InvalidParameter
from headcount.core.estimate import Answer
from headcount.core.estimator import Estimator
from headcount.core.guarantee import Guarantee
from headcount.core.influence import Shifts
from headcount.core.limits import Limits
from headcount.core.messages import Alphabet, Messages
from headcount.core.promise import promise
from headcount.core.protocol import Calibration, Protocol
from headcount.core.randomizer import BundleLaw, Randomizer
from headcount.core.shuffler import Shuffler
from headcount.core.source import Source
from headcount.core.table import short
from headcount.core.tally import Tally
from headcount.core.task import Holding, Task
from headcount.core.tasks.histogram import Histogram
from headcount.randomness.draws import WHOLE, bernoulli
from headcount.randomness.totals import binomial

_SHARE = 0.5  # the default threshold is the least that is private for the rate _SHARE·(1 − e^−ε)
_PAPER_SHARE = 0.2  # α: the paper's closed form needs a smaller rate, which is α·(1 − e^−ε)
_STEPS = 12  # the number of bisection steps that raise the rate until δ is spent
_COUNTS = 250  # the number of counts that are tried in one step of the search for the worst error


# Randomizer -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class SamplingRandomizer(Randomizer):
    """Sends x with probability p = t/2^64, and otherwise nothing."""

    buckets: int
    weight: int  # t

    @property
    def alphabet(self) -> Alphabet:
        return Alphabet.numbers(self.buckets, dummies=True)

    @property
    def rate(self) -> Fraction:
        """The sampling rate p."""
        return Fraction(self.weight, WHOLE)

    @property
    def messages_per_user(self) -> float:
        return float(self.rate)

    def send(self, encoded: NDArray[Any], source: Source) -> Messages:
        taking_part = bernoulli(source, len(encoded), self.weight)
        sent = encoded[taking_part.view(np.bool_)].astype(self.alphabet.dtype)
        return Messages(sent, len(encoded), taking_part)

    def law(self, value: int) -> BundleLaw:
        return {(): 1 - self.rate, ((value, 1),): self.rate}

    def overflow(self, slots: int) -> float:
        return float(self.rate) if slots < 1 else 0.0


# Analyzer and its error -----------------------------------------------------------------------


@dataclass(frozen=True)
class SampledError:
    """The error of S/p, given the number S of messages that are seen of each bucket.

    A count c is in the interval if neither P(Bin(c, p) ≤ S) nor P(Bin(c, p) ≥ S) is too small. So
    the interval misses the true count with probability at most 1 − confidence. If a bucket was
    withheld, `seen` is 0, and S is only known to be below the threshold.
    """

    rate: float
    threshold: int
    seen: NDArray[np.int64]

    @property
    def standard_error(self) -> Answer:
        kept = np.sqrt(self.seen * (1 - self.rate)) / self.rate
        return np.where(self.seen > 0, kept, self.threshold / self.rate)

    def margins(self, confidence: float) -> tuple[Answer, Answer]:
        from scipy.special import bdtr, bdtrc

        half = (1 - confidence) / 2
        value = self.seen / self.rate
        most = np.where(self.seen > 0, self.seen, self.threshold - 1)
        # `high` is the largest c with P(Bin(c, p) ≤ S) > half. `low` is the smallest c with
        # P(Bin(c, p) ≥ S) > half.
        high = _last(lambda c: bdtr(most, c, self.rate) > half, most)
        low = 1 + _last(lambda c: bdtrc(self.seen - 1, c, self.rate) <= half, self.seen - 1)
        return high - value, value - np.where(self.seen > 0, low, 0)


def _last(holds: Callable[[Any], NDArray[np.bool_]], start: NDArray[np.int64]) -> Answer:
    """For each entry, the last integer from `start` on for which the condition holds.

    The condition must hold at `start`, and must not hold again once it has failed.
    """
    low, step = start, np.ones_like(start)
    while (going := holds(low + step)).any():
        low = np.where(going, low + step, low)
        step = np.where(going, 2 * step, step)
    high = low + step
    while (high - low > 1).any():
        middle = (low + high) // 2
        inside = holds(middle)
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return low


@dataclass(frozen=True)
class SampledCounts(Estimator):
    """Computes S/p in every bucket, or 0 if fewer than `least_copies` messages were sent."""

    rate: Fraction  # p
    least_copies: int  # τ + m
    people: int  # n

    @property
    def tally_size(self) -> int:
        return self.task.domain

    @property
    def most_users(self) -> int:
        """The number n. Among more people, there may be more than m cheaters."""
        return self.people

    def simulate(self, held: Holding, source: Source) -> NDArray[np.int64]:
        sampled = [int(binomial(source, int(people), self.rate)[0]) for people in held.counts]
        return np.array(sampled)

    def unbiased(self, tally: Tally, source: Source | None = None) -> Answer:
        return tally.counts / float(self.rate)

    def postprocessing(self, tally: Tally) -> tuple[str, Callable[[Answer], Answer]] | None:
        return "threshold", lambda value: value  # the shuffler has already applied the threshold

    def shifts(self, users: int, alphabet: Alphabet) -> Shifts:
        """A message adds 1/p, or (τ+m)/p if it lifts the bucket to the threshold.

        An honest person sends a message with probability p. So an honest person who holds a bucket
        just below the threshold adds τ+m to it on average.
        """
        one = float(1 / self.rate)
        return Shifts(
            most=one,
            least=0.0,
            honest=(0.0, float(self.least_copies)),
            over_threshold=self.least_copies * one,
        )

    def standard_error(self, users: int, held: Holding | None) -> float:
        if held is not None:
            return math.sqrt(max(self._squared_error(int(c)) for c in np.unique(held.counts)))
        # If c is at least a few times τ/p, the bucket is almost never withheld, and the error grows
        # with c. So only c = n is tried above this range.
        low, high = 0, min(users, math.ceil(4 * self.least_copies / self.rate))
        while high - low > _COUNTS:
            # Each step searches a shorter range around the worst count so far.
            step = -(-(high - low) // _COUNTS)
            near = max(range(low, high + 1, step), key=self._squared_error)
            low, high = max(low, near - step), min(high, near + step)
        return math.sqrt(max(self._squared_error(c) for c in (*range(low, high + 1), users)))

    def _squared_error(self, people: int) -> float:
        law, rate = laws.binomial(people, self.rate), float(self.rate)
        answers = np.where(law.values >= self.least_copies, law.values / rate, 0.0)
        return float(law.mass @ np.square(answers - people))

    def error_law(self, users: int, unbiased: Answer) -> SampledError:
        rate = float(self.rate)
        seen = np.rint(unbiased * rate).astype(np.int64)
        return SampledError(rate, self.least_copies, seen)


# Calibration and privacy ----------------------------------------------------------------------


@lru_cache(maxsize=256)
def _calibrate(
    budget: Budget, rate: float | None, calibration: Calibration
) -> tuple[int, int] | None:
    """Numbers t and τ whose δ is within the budget in every crowd; None if there are none."""
    most = -math.expm1(-budget.epsilon)

    def delta(weight: int, threshold: int) -> float:
        # In this protocol a larger crowd is never more private, so the largest crowd is assumed.
        return threshold_delta(MOST_USERS, Fraction(weight, WHOLE), threshold, budget.epsilon)

    if not budget.delta:
        return None
    if calibration == "paper":
        try:
            share = _PAPER_SHARE if rate is None else rate / most
            exact_rate, threshold = closed_form(budget.epsilon, budget.delta, share)
        except InvalidParameter:
            return None
        weight = math.floor(exact_rate * WHOLE)
        fits = threshold <= MOST_THRESHOLD and delta(weight, threshold) <= budget.delta
        return (weight, threshold) if fits else None
    weight = math.floor(Fraction(_SHARE * most if rate is None else rate) * WHOLE)
    least = least_threshold(MOST_USERS, Fraction(weight, WHOLE), budget.epsilon, budget.delta)
    if least is None:
        return None
    if rate is None:
        # The smallest threshold does not spend all of δ, so it allows a larger rate.
        low, high = weight, min(2 * weight, WHOLE - 1)
        for _ in range(_STEPS):
            middle = (low + high) // 2
            low, high = (middle, high) if delta(middle, least) <= budget.delta else (low, middle)
        weight = low
    return weight, least


@dataclass(frozen=True)
class SampleThreshold(Protocol):
    name = "shuffle.sample-threshold"
    trust = Trust.SHUFFLE
    tasks = (Histogram,)

    rate: float | None = None  # the sampling probability p; by default it is chosen for the budget

    @classmethod
    def settings_within(
        cls, task: Task, budget: Budget, crowd: Crowd, limits: Limits
    ) -> Iterator[dict[str, Any]]:
        yield {}
        if limits.messages is not None and limits.messages < 1:
            yield {"rate": limits.messages}

    def check_options(self) -> None:
        if self.rate is not None:
            rate = checks.real("rate", self.rate)
            if not 0 < rate < 1:
                raise InvalidParameter(f"`rate` must be strictly between 0 and 1, got {rate}")
            object.__setattr__(self, "rate", rate)

    @cached_property
    def _calibrated(self) -> tuple[int, int]:
        """The weight t of the sampling rate t/2^64, and the threshold τ."""
        calibrated = _calibrate(self.budget, self.rate, self.calibration)
        if calibrated is not None:
            return calibrated
        setting = f"epsilon={short(self.budget.epsilon)}, delta={short(self.budget.delta)}"
        if not self.budget.delta:
            raise Infeasible(
                f"{self.name} needs delta above 0: it may happen that a whole bucket is sampled",
                nearest={"delta": 1e-9},
            )
        if self.calibration == "paper":
            raise Infeasible(
                f"the paper's threshold for {self.name} cannot be confirmed for {setting}; "
                "the exact calibration may find one"
            )
        smaller = _calibrate(self.budget, None, "exact")
        raise Infeasible(
            f"{self.name} finds no threshold up to {MOST_THRESHOLD} for {setting}"
            + (f", rate={short(self.rate)}" if self.rate else ""),
            nearest={"rate": math.floor(smaller[0] / WHOLE * 1e4) / 1e4}
            if smaller and self.rate
            else None,
        )

    @property
    def _rate(self) -> Fraction:
        """The sampling rate p."""
        return Fraction(self._calibrated[0], WHOLE)

    @cached_property
    def shuffler(self) -> Shuffler:
        return Shuffler(self._calibrated[1] + self.crowd.users - self.crowd.honest)

    @cached_property
    def randomizer(self) -> SamplingRandomizer:
        return SamplingRandomizer(self.task.domain, self._calibrated[0])

    @cached_property
    def estimator(self) -> SampledCounts:
        return SampledCounts(self.task, self._rate, self.shuffler.least_copies, self.crowd.users)

    @property
    def parameters(self) -> Mapping[str, float]:
        return {"rate": float(self._rate), "threshold": self.shuffler.least_copies}

    @cached_property
    def curve(self) -> ThresholdCurve:
        return ThresholdCurve(MOST_USERS, self._rate, self._calibrated[1])

    @cached_property
    def guarantee(self) -> Guarantee:
        worst, computed = self.curve.worst(self.budget.epsilon), self.calibration == "exact"
        # δ is exact if the worst crowd is possible. The worst crowd has `leaving` and `joining`
        # people in the two buckets that change, and everybody else in a third bucket.
        attained = worst.leaving + worst.joining <= self.crowd.honest == self.crowd.users
        attained &= self.task.domain > 2
        return promise(
            self,
            "law of two sampled buckets" if computed else "Cormode and Bharadwaj 2022",
            delta=worst.delta if computed else self.budget.delta,
            exact=computed and worst.exact and attained,
        )

    @property
    def local_epsilon(self) -> float:
        return math.inf
