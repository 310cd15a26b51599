"""How many people each of two groups needs, so that a test finds a difference of their shares.

Notation    π_A and π_B are the shares, Δ = π_B − π_A, and π̄ is their mean. Each group has n people,
            and its count has privacy noise of variance σ², which may depend on n. z is the
            two-sided normal quantile of the test's confidence, and z' is the one-sided normal
            quantile of its power.
Crowd       The least n with nΔ ≥ z·√(2nπ̄(1−π̄) + 2σ²) + z'·√(nπ_A(1−π_A) + nπ_B(1−π_B) + 2σ²). This
            treats the estimates as normal. The test itself is valid for every crowd.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

from headcount.core import checks
from headcount.core.budget import Budget, Trust
from headcount.core.errors import InvalidParameter
from headcount.core.table import Table, short, size
from headcount.core.tasks.count import Count
from headcount.planner.candidate import Candidate, Refusal, assess
from headcount.planner.needs import MOST_PEOPLE, Progress, crowd_with
from headcount.planner.plan import trust_of
from headcount.protocols.registry import protocol_names

# The search for the least crowd that a protocol can protect stops when the ends of its range differ
# by at most this factor.
_CLOSE = 1.002
_TRIES = 40  # the largest number of steps of the search for the crowd that a protocol needs


@dataclass(frozen=True)
class Detection:
    """A difference of two shares, and how likely a test should be to find it.

    `share` is the lower of the two shares. By default, the mean of the two shares is one half,
    which is the case that needs the most people. `power` is the probability that the test finds the
    difference.
    """

    difference: float
    share: float | None = None
    power: float = 0.8
    confidence: float = 0.95

    def __post_init__(self) -> None:
        for name in ("difference", "power"):
            number = checks.real(name, getattr(self, name))
            if not 0 < number < 1:
                raise InvalidParameter(
                    f"`{name}` must be strictly between 0 and 1, got {short(number)}"
                )
        checks.confidence(self.confidence)
        if self.share is not None:
            share = checks.real("share", self.share)
            if not 0 <= share <= 1 - self.difference:
                raise InvalidParameter(
                    f"`share` must be between 0 and {short(1 - self.difference)}, so that the "
                    f"other share is at most 1, got {short(share)}"
                )

    @property
    def shares(self) -> tuple[float, float]:
        """The two shares."""
        low = (1 - self.difference) / 2 if self.share is None else self.share
        return low, low + self.difference

    def needed(self, variance: Callable[[float], float]) -> int:
        """The least n for privacy noise whose variance is a function of n."""
        low, high = 1, 2
        while not self._enough(high, variance(high)) and high < 2 * MOST_PEOPLE:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            found = self._enough(middle, variance(middle))
            low, high = (low, middle) if found else (middle, high)
        return high

    def _enough(self, users: int, variance: float) -> bool:
        one, other = self.shares
        mean = (one + other) / 2
        z = -NormalDist().inv_cdf((1 - self.confidence) / 2)
        equal = 2 * users * mean * (1 - mean) + 2 * variance
        different = users * (one * (1 - one) + other * (1 - other)) + 2 * variance
        reached = z * math.sqrt(equal) + NormalDist().inv_cdf(self.power) * math.sqrt(different)
        return users * self.difference >= reached

    def __str__(self) -> str:
        low, high = (f"{100 * share:.4g} %" for share in self.shares)
        return f"{low} and {high} apart with a power of {100 * self.power:g} %"


@dataclass(frozen=True)
class GroupNeed:
    """How many people a protocol needs in each of the two groups."""

    protocol: str
    trust: Trust
    users: int
    candidate: Candidate

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "candidate": self.candidate.to_dict()}


@dataclass(frozen=True)
class GroupNeeds:
    """How many people each protocol needs. Protocols that need the fewest come first."""

    detection: Detection
    budget: Budget
    without_privacy: int
    answers: tuple[GroupNeed, ...]
    refused: tuple[Refusal, ...]

    def table(self) -> Table:
        """A table of the people that each group needs."""
        least = self.without_privacy
        budget = f"ε = {short(self.budget.epsilon)}, δ = {short(self.budget.delta)}"
        rows = [
            (
                need.protocol,
                str(need.trust),
                f"{need.users:,}",
                size(need.users / least),
                size(need.candidate.standard_error),
            )
            for need in self.answers
        ]
        return Table(
            title=f"Count: people per group to tell shares of {self.detection}, tested with "
            f"{100 * self.detection.confidence:g} % confidence; {budget}",
            columns=("protocol", "trust", "people per group", "times", "standard error"),
            rows=(("without privacy", "", f"{least:,}", "1", "0"), *rows),
            words=2,
            notes=tuple(self._notes()),
        )

    def _notes(self) -> Iterator[str]:
        yield from (f"refused: {refusal}" for refusal in self.refused)
        yield "The numbers treat estimates as normal. The test is valid for every crowd."

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table().html()

    def to_dict(self) -> dict[str, Any]:
        """The answer for JSON."""
        return {
            "task": Count().to_dict(),
            "difference": self.detection.difference,
            "shares": list(self.detection.shares),
            "power": self.detection.power,
            "confidence": self.detection.confidence,
            "budget": asdict(self.budget),
            "without_privacy": self.without_privacy,
            "answers": [need.to_dict() for need in self.answers],
            "refused": [refusal.to_dict() for refusal in self.refused],
        }


def needed_groups(
    difference: float,
    budget: Budget,
    *,
    share: float | None = None,
    power: float = 0.8,
    confidence: float = 0.95,
    dishonest: float = 0.0,
    trust: Trust | str | None = None,
    progress: Progress = lambda name, share: None,
) -> GroupNeeds:
    """How many people each of two groups needs, so that a test finds a difference of their shares.

        needed_groups(0.05, Budget(1, 1e-6), share=0.3)

    The groups have the shares `share` and `share + difference`, and different people. Each group
    gets the whole budget. `power` is the probability that the test finds the difference. If there
    is no difference, the test finds one with a probability of at most 1 − confidence. `dishonest`
    is the share of people who might not follow the protocol.
    """
    checks.instance("budget", budget, Budget)
    wanted = Detection(difference, share, power, confidence)
    least = wanted.needed(lambda n: 0.0)
    if least > MOST_PEOPLE:
        raise InvalidParameter(
            f"`difference` must be large enough to be found by {short(MOST_PEOPLE)} people, "
            f"got {short(difference)}"
        )
    results = []
    names = protocol_names(Count(), trust_of(trust))
    for done, name in enumerate(names):
        progress(name, done / len(names))
        results.append(_needed(name, wanted, budget, dishonest))
    answers = [result for result in results if isinstance(result, GroupNeed)]
    answers.sort(key=lambda need: (need.users, need.candidate.standard_error))
    refused = tuple(result for result in results if isinstance(result, Refusal))
    return GroupNeeds(wanted, budget, least, tuple(answers), refused)


def _needed(name: str, wanted: Detection, budget: Budget, dishonest: float) -> GroupNeed | Refusal:
    """How many people a protocol needs in each group, or why it is refused.

    The variance of the noise is nearly a power of n. The exponent of this power is estimated from
    the last two crowds that were assessed, and then determines the crowd to assess next.
    """

    def assessed(users: int) -> Candidate | Refusal:
        return assess(name, Count(), budget, crowd_with(users, dishonest), wanted.confidence)

    users, power, before = wanted.needed(lambda n: 0.0), 0.0, (0, 0.0)
    for _ in range(_TRIES):
        result = assessed(users)
        if isinstance(result, Refusal):
            found = _protected(assessed, users)
            if isinstance(found, Refusal):
                return result
            users, result = found
        variance = result.standard_error**2
        if before[0] and before[0] != users:
            power = math.log(variance / before[1]) / math.log(users / before[0])
        before = (users, variance)
        following = wanted.needed(_power_law(users, variance, power))
        if following > MOST_PEOPLE:
            return Refusal(name, result.trust, f"it needs more than {short(MOST_PEOPLE)} people")
        if following == users or (following < users and isinstance(assessed(following), Refusal)):
            break
        users = following
    final = assessed(users)
    return final if isinstance(final, Refusal) else GroupNeed(name, final.trust, users, final)


def _power_law(users: int, variance: float, power: float) -> Callable[[float], float]:
    return lambda n: variance * (n / users) ** power


def _protected(
    assessed: Callable[[int], Candidate | Refusal], users: int
) -> tuple[int, Candidate] | Refusal:
    """The least crowd above `users` that a protocol can protect, up to the factor `_CLOSE`. The
    protocol refuses a crowd of `users`.
    """
    low, high = users, 2 * users
    while isinstance(result := assessed(high), Refusal):
        low, high = high, 2 * high
        if high > MOST_PEOPLE:
            return result
    while high > _CLOSE * low and high - low > 1:
        middle = (low + high) // 2
        tried = assessed(middle)
        if isinstance(tried, Refusal):
            low = middle
        else:
            high, result = middle, tried
    return high, result
