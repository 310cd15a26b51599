"""A count, a histogram or a density whose noise is added by the shuffler.

This is the augmented shuffle model (Murakami, Sei, Eriguchi 2025), with noise that can be drawn
exactly and whose error is no larger than that of a trusted curator.

Notation    n people each hold one of d values; a count has d = 2. Z_b is the number of dummies with
            the value b that the shuffler adds, and 0 ≤ Z_b ≤ T. T is even, and depends on the
            budget.
Randomizer  Send the value itself, encrypted for the analyzer. With `response_epsilon`, apply k-ary
            randomized response to the value first.
Shuffler    Add the dummies, and mix all messages. With a = e^{−ε/2}, the probability that the
            numbers Z_b are z_b is proportional to a^{Σ|z_b − T/2|} for all z_b that add up to
            d·T/2. For a count, the dummies are Z ones and T − Z zeros, where Z is two-sided
            geometric of rate ε around T/2, cut off at 0 and T. For many buckets, the numbers Z_b
            are independent (`total="free"`). If δ = 0, the shuffler sometimes throws away the
            messages of all people (see `protocols.dummies`).
Analyzer    Subtract the mean number of dummies, which is T/2 for each shuffler, from the number of
            messages with each value. If δ = 0, or with `response_epsilon`, the estimates are
            corrected further (see `protocols.dummy_counts`). If the numbers Z_b are independent and
            there are no randomized responses, then shift all estimates by the same number, so that
            they add up to n (see `known_total`).
Privacy     Only the dummies hide people. So the guarantee of a person needs no other honest people,
            and holds against the analyzer and all other people together. If one person's message is
            replaced, the number of messages with the old value falls by 1, and the number with the
            new value rises by 1. δ is the probability that the dummies cannot make up for this
            change, because the number of dummies with one of the two values is at an end of its
            range. T is the least even number with which δ is within the budget. If δ = 0, T is the
            least even number with which throwing messages away adds at most 0.8 % to the error. The
            shuffler knows the numbers Z_b, so it learns the exact answer once the noisy answer is
            published. With `publish_noise`, the analyzer adds two-sided geometric noise to the
            answer before publishing it, and the shuffler learns no more than ε allows. With several
            `shufflers`, each adds its own dummies, and the guarantee holds against the analyzer and
            all shufflers but one.
Error       Unbiased. If δ > 0, the variance is that of Z_b, whatever the data are. Randomized
            responses and `publish_noise` increase it. If the total number of dummies is fixed, two
            buckets have the covariance −Var/(d−1). The variance is at most that of a curator's
            noise. It is smaller for few buckets if the total is fixed, because the noise of all
            buckets then adds up to 0.
            If the numbers Z_b are independent, the variance is (1 − 1/d)·Var(Z_b).
            With s shufflers, the error is √s times as large.
Messages    1 message per person, and d·T/2 dummies in total. If the shuffler and the analyzer
            collude, only the randomized responses of `response_epsilon` protect people.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Literal

from headcount.accounting.bucket_noise import (
    MOST_TOGETHER,
    BucketNoise,
    least_bucket_noise,
)
from headcount.accounting.calibration import least_private
from headcount.accounting.truncated_geometric import MOST, TruncatedGeometric, least_most
from headcount.core import checks
from headcount.core.budget import LEAST_EPSILON, MOST_EPSILON, Trust
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible, InvalidParameter
from headcount.core.guarantee import Guarantee, PrivacyCurve
from headcount.core.messages import Alphabet
from headcount.core.promise import promise
from headcount.core.protocol import Protocol
from headcount.core.randomizer import Randomizer
from headcount.core.table import short
from headcount.core.task import Task
from headcount.core.tasks.count import Count
from headcount.core.tasks.histogram import Histogram
from headcount.protocols.density_histogram import DensityHistogram
from headcount.protocols.disclosure import Disclosure
from headcount.protocols.dummies import BucketDummies, CountDummies, Dummies, DummyShuffler
from headcount.protocols.dummy_counts import AddedNoise, DummyCounts, DummyError
from headcount.protocols.frequency_oracle import Support
from headcount.protocols.responses import KAryRandomizer, lie_weight, ratio_epsilon
from headcount.randomness.draws import WHOLE

_MOST_SHUFFLERS = 64
_MOST_FIXED = 300  # with more buckets, a fixed total would make the error smaller by less than 1 %
_WORSE = 0.008  # the largest relative increase of the error that throwing messages away may cause
SHUFFLER_KNOWS = (
    "the shuffler, which adds the noise. It knows the noise, and learns the exact answer once the "
    "noisy answer is published"
)
_PUBLISHED = (
    "the shuffler, which adds the noise, and on the analyzer, which adds noise before publishing. "
    "The shuffler then learns no more than epsilon allows"
)


@dataclass(frozen=True)
class DummyProtocol(Protocol):
    """A protocol whose shuffler adds dummies. A subclass says how many."""

    name = "shuffle.noisy-shuffler"
    trust = Trust.SHUFFLE

    # The epsilon that holds even if the shuffler and the analyzer collude. By default it is
    # infinite, and people send their values without randomized response.
    response_epsilon: float | None = None
    # Whether the analyzer adds noise before it publishes the answer. The shuffler knows its
    # dummies, but not this noise.
    publish_noise: bool = False
    # The number of shufflers in a chain. Each adds its own dummies.
    shufflers: int = 1

    def check_options(self) -> None:
        flag = checks.flag("publish_noise", self.publish_noise)
        object.__setattr__(self, "publish_noise", flag)
        number = checks.whole("shufflers", self.shufflers, low=1, high=_MOST_SHUFFLERS)
        object.__setattr__(self, "shufflers", number)
        if number > 1 and self.budget.delta == 0:
            raise Infeasible(
                f"{self.name} needs delta above 0 for a chain of {number} shufflers",
                nearest={"delta": 1e-9},
            )
        if self.response_epsilon is not None:
            epsilon = checks.real("response_epsilon", self.response_epsilon)
            if not LEAST_EPSILON <= epsilon <= MOST_EPSILON:
                raise InvalidParameter(
                    f"`response_epsilon` must be between {short(LEAST_EPSILON)} and "
                    f"{short(MOST_EPSILON)}, got {short(epsilon)}"
                )
            object.__setattr__(self, "response_epsilon", epsilon)

    # Randomizer ---------------------------------------------------------------------------------

    @cached_property
    def randomizer(self) -> Randomizer:
        if self.response_epsilon is None:
            return Disclosure(Alphabet.numbers(self.task.domain))
        return KAryRandomizer(self.task.domain, lie_weight(self.task.domain, self.response_epsilon))

    @cached_property
    def support(self) -> Support | None:
        """The probabilities of randomized responses; None if people send their values."""
        if self.response_epsilon is None:
            return None
        lie = Fraction(lie_weight(self.task.domain, self.response_epsilon), WHOLE)
        support = Support(1 - (self.task.domain - 1) * lie, lie, Fraction(0), Fraction(0))
        if support.slope <= 0:
            raise Infeasible(
                f"{self.name} needs a larger response_epsilon for {self.task.domain} values, "
                f"got {short(self.response_epsilon)}",
                nearest={"response_epsilon": self.task.domain * 2.0**-60},
            )
        return support

    # Shuffler -----------------------------------------------------------------------------------

    @property
    @abstractmethod
    def rate(self) -> Fraction:
        """The rate of the noise that the analyzer adds to each number if `publish_noise` is set."""

    @abstractmethod
    def least_dummies(self, epsilon: float) -> Dummies | None:
        """The fewest dummies whose δ at this ε is within the budget; None if that is too many."""

    @cached_property
    def dummies(self) -> Dummies:
        """The law of the numbers of dummies of one shuffler."""
        budget = self.budget
        found = self.least_dummies(budget.epsilon)
        if found is not None:
            return found
        nearest = 2 * budget.epsilon
        while nearest < MOST_EPSILON and self.least_dummies(nearest) is None:
            nearest *= 2
        raise Infeasible(
            f"{self.name} needs too many dummies for epsilon={short(budget.epsilon)}, "
            f"delta={short(budget.delta)} and {self.task.domain} values",
            nearest={"epsilon": nearest} if nearest < MOST_EPSILON else {"delta": 1e-9},
        )

    @property
    def pure_epsilon(self) -> float | None:
        """The ε of pure privacy, for which messages are sometimes thrown away; None if δ > 0."""
        return self.budget.epsilon if self.budget.delta == 0 else None

    @cached_property
    def shuffler(self) -> DummyShuffler:
        return DummyShuffler(
            dummies=self.dummies, shufflers=self.shufflers, pure_epsilon=self.pure_epsilon
        )

    # Analyzer -----------------------------------------------------------------------------------

    @cached_property
    def estimator(self) -> DummyCounts:
        published = self.rate if self.publish_noise else None
        return DummyCounts(self.task, AddedNoise(self.shuffler, published), self.support)

    @property
    def parameters(self) -> Mapping[str, float]:
        found: dict[str, float] = {
            "dummies": self.dummies.most,
            "all_dummies": self.shufflers * self.dummies.total,
        }
        if self.pure_epsilon is not None:
            thrown_away = self.dummies.thrown_away(self.crowd.users, self.pure_epsilon)
            found["thrown_away"] = float(thrown_away)
        if self.support is not None:
            found["lie_probability"] = float(1 - self.support.own)
        return found

    # Privacy ------------------------------------------------------------------------------------

    @cached_property
    def curve(self) -> PrivacyCurve:
        if self.pure_epsilon is None:
            return self.dummies.curve
        return self.dummies.pure_curve(self.crowd.users, self.pure_epsilon)

    @cached_property
    def guarantee(self) -> Guarantee:
        # Randomized responses and the dummies of other shufflers hide people even better, so δ is
        # then only an upper bound.
        return promise(
            self,
            "law of the dummies",
            delta=self.curve.delta(self.budget.epsilon),
            exact=self.response_epsilon is None and self.shufflers == 1,
            honest=1,
            relies_on=self._relies_on,
        )

    @property
    def _relies_on(self) -> str:
        if self.shufflers > 1:
            return (
                f"one of {self.shufflers} shufflers to keep its noise secret: each adds its own. "
                "All of them together learn the exact answer once the noisy answer is published"
            )
        return _PUBLISHED if self.publish_noise else SHUFFLER_KNOWS

    @property
    def local_epsilon(self) -> float:
        return math.inf if self.support is None else ratio_epsilon(self.support.ratio)


@dataclass(frozen=True)
class NoisyShuffler(DummyProtocol):
    tasks: ClassVar[tuple[type[Task], ...]] = (Count,)

    @property
    def rate(self) -> Fraction:
        return Fraction(self.budget.epsilon)

    def least_dummies(self, epsilon: float) -> Dummies | None:
        rate = Fraction(epsilon)
        if self.budget.delta == 0:
            return _pure(
                lambda most: CountDummies(TruncatedGeometric(rate, most)), self.crowd.users, epsilon
            )
        most = least_most(rate, 1, self.budget.delta)
        return None if most is None else CountDummies(TruncatedGeometric(rate, most))


@dataclass(frozen=True)
class NoisyShufflerHistogram(DummyProtocol):
    tasks: ClassVar[tuple[type[Task], ...]] = (Histogram,)

    # Whether the total number of dummies is fixed, which makes the error smaller. By default, it is
    # fixed for up to 300 buckets, unless that needs too many dummies. If delta is 0, it is always
    # fixed.
    total: Literal["fixed", "free"] | None = None

    def check_options(self) -> None:
        super().check_options()
        if self.total is not None:
            checks.choice("total", self.total, ("fixed", "free"))
        if self.total == "free" and self.budget.delta == 0:
            raise Infeasible(
                f"{self.name} needs delta above 0 if the number of dummies is not fixed",
                nearest={"delta": 1e-9},
            )

    @property
    def rate(self) -> Fraction:
        return Fraction(self.budget.epsilon) / 2

    def least_dummies(self, epsilon: float) -> Dummies | None:
        rate, buckets, delta = Fraction(epsilon) / 2, self.task.domain, self.budget.delta
        if delta == 0:
            return _pure_buckets(rate, buckets, self.crowd.users)
        found = None
        if self.total == "fixed" or (self.total is None and buckets <= _MOST_FIXED):
            found = least_bucket_noise(rate, buckets, delta, fixed_total=True)
        if found is None and self.total != "fixed":
            found = least_bucket_noise(rate, buckets, delta, fixed_total=False)
        return None if found is None else BucketDummies(found)


@lru_cache(maxsize=64)
def _pure_buckets(rate: Fraction, buckets: int, users: int) -> Dummies | None:
    def dummies(most: int) -> Dummies:
        return BucketDummies(BucketNoise(TruncatedGeometric(rate, most), buckets, fixed_total=True))

    return _pure(dummies, users, 2 * float(rate), MOST_TOGETHER // buckets)


def _pure(
    dummies: Callable[[int], Dummies], users: int, epsilon: float, most: int = MOST
) -> Dummies | None:
    """The fewest dummies with which throwing messages away increases the error by at most the
    fraction `_WORSE`; None if too many are needed.
    """

    def worse(half: int) -> float:
        found = dummies(2 * half)
        if found.thrown_away(users, epsilon) >= Fraction(1, 2):
            return math.inf
        noise = AddedNoise(DummyShuffler(dummies=found, pure_epsilon=epsilon), None)
        worst = DummyError(users, noise, None, float(users)).standard_error
        return float(worst) / math.sqrt(found.variance) - 1

    half = least_private(worse, _WORSE, start=1, stop=max(1, most // 2), steps=3)
    return None if half is None else dummies(2 * half)


@dataclass(frozen=True)
class NoisyShufflerDensity(DensityHistogram):
    name = "shuffle.noisy-shuffler"
    trust = Trust.SHUFFLE

    # The options of the histogram protocol that counts the bins.
    response_epsilon: float | None = None
    publish_noise: bool = False
    shufflers: int = 1
    total: Literal["fixed", "free"] | None = None

    def counting(self, bins: int) -> Protocol:
        return NoisyShufflerHistogram(
            Histogram(bins),
            self.budget,
            self.crowd,
            response_epsilon=self.response_epsilon,
            publish_noise=self.publish_noise,
            shufflers=self.shufflers,
            total=self.total,
        )
