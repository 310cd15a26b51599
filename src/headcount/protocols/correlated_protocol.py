"""The options of all protocols with correlated noise, and the search for suitable noise.

Notation    A part ε1 of ε is spent on noise in the answer itself, like the noise that a trusted
            curator would add. The rest of ε is spent on a flood of messages that cancel each other
            and hide this noise. In a count, only the noise that lowers the answer is calibrated to
            ε1. The noise that raises the answer is calibrated to the whole ε. n is the number of
            people, and h of them are honest. A person changes the answer by at most k units.
Options     If ε1 is near ε, the error is near that of central noise, but people send more messages.
            A caller may state one of these: the ratio of the error to that of central noise
            (`error_ratio`), the largest number of messages (`max_messages`), or ε1 itself
            (`epsilon1`). For each ε1, the protocol uses the flood with the fewest messages that is
            enough for privacy.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from headcount.core import checks
from headcount.core.budget import Budget, Crowd
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible, InvalidParameter
from headcount.core.limits import Limits
from headcount.core.promise import check_curve, paper_is_not_private
from headcount.core.protocol import Protocol
from headcount.core.table import short
from headcount.core.task import Task

_MOST_MESSAGES = 2.0**20  # the largest expected number of messages per person
_STEPS = 8  # steps of the search for the largest ε1 within the allowed number of messages
# A caller may give at most one of these options.
WISHES = ("error_ratio", "max_messages", "epsilon1")

Noise = TypeVar("Noise")


@dataclass(frozen=True)
class NoiseFamily(Generic[Noise]):
    """The noise of a protocol as a function of ε1, with its error and its number of messages."""

    crowd: Crowd
    most_epsilon1: float  # the ε1 of a trusted curator, who spends all of ε on the answer's noise
    calibrate: Callable[[float], Noise | None]  # the private noise with this ε1, if there is any
    messages: Callable[[Noise], float]  # the expected number of messages for the worst value
    units: int = 1  # k
    # Whether only the noise that lowers the answer is calibrated to ε1. The noise that raises the
    # answer is then the same as the curator's.
    one_sided: bool = False
    # The default ratio of the error to that of central noise, if everyone is honest.
    usual_ratio: float = 1.05
    # The least part of ε that must be left for the flood. With less, the laws of the flood have too
    # many values to compute.
    least_spare: float = 2e-3

    @property
    def largest_epsilon1(self) -> float:
        return self.most_epsilon1 - self.least_spare

    @property
    def dishonesty(self) -> float:
        """The factor √(n/h) by which the error grows because all n people add noise.

        The noise of the h honest people alone is enough for privacy.
        """
        return math.sqrt(self.crowd.users / self.crowd.honest)

    def error_ratio(self, epsilon1: float) -> float:
        """The ratio of the error with this ε1 to the error of central noise.

        The standard error of two-sided geometric noise with rate ε1/k is 1/(√2·sinh(ε1/(2k))). If
        only one side of the noise is calibrated to ε1, the ratio is √((1 + ρ²)/2), where ρ is the
        ratio if both sides are calibrated to ε1.
        """
        central, own = (math.sinh(e / (2 * self.units)) for e in (self.most_epsilon1, epsilon1))
        both = central / own
        return (math.sqrt((1 + both**2) / 2) if self.one_sided else both) * self.dishonesty

    def epsilon1(self, error_ratio: float) -> float:
        """The ε1 whose error has this ratio to the error of central noise."""
        halves, ratio = 2 * self.units, error_ratio / self.dishonesty
        both = math.sqrt(2 * ratio**2 - 1) if self.one_sided else ratio
        return halves * math.asinh(math.sinh(self.most_epsilon1 / halves) / both)

    def cost(self, epsilon1: float) -> float:
        """The expected number of messages with this ε1. It is infinite if no noise is found."""
        noise = self.calibrate(epsilon1)
        return math.inf if noise is None else self.messages(noise)


@dataclass(frozen=True)
class CorrelatedProtocol(Protocol, Generic[Noise]):
    """A protocol with correlated noise. A subclass defines the noise for each ε1."""

    error_ratio: float | None = None  # the standard error divided by that of central noise, above 1
    max_messages: float | None = None  # the maximum expected number of messages per person
    epsilon1: float | None = None  # the part of epsilon spent on noise in the answer itself

    def __post_init__(self) -> None:
        super().__post_init__()
        check_curve(self)

    @property
    def wishes(self) -> list[str]:
        """The names of the options of `WISHES` that the caller gave."""
        return [name for name in WISHES if getattr(self, name) is not None]

    def check_options(self) -> None:
        given = self.wishes
        if len(given) > 1:
            raise InvalidParameter(
                f"at most one of {', '.join(WISHES)} may be given, got {', '.join(given)}"
            )
        for name in given:
            number = checks.real(name, getattr(self, name))
            if number <= 0:
                raise InvalidParameter(f"`{name}` must be positive, got {number}")
            object.__setattr__(self, name, number)

    @classmethod
    def settings_within(
        cls, task: Task, budget: Budget, crowd: Crowd, limits: Limits
    ) -> Iterator[dict[str, Any]]:
        yield {} if limits.messages is None else {"max_messages": limits.messages}

    @property
    @abstractmethod
    def family(self) -> NoiseFamily[Noise]:
        """The noise as a function of ε1."""

    def check_delta(self) -> None:
        """Raise an error if delta is 0."""
        if not self.budget.delta:
            raise Infeasible(
                f"{self.name} needs delta above 0: with a small probability, nobody sends noise",
                nearest={"delta": 1e-9},
            )

    @cached_property
    def noise(self) -> Noise:
        """The noise that the options ask for."""
        self.check_delta()
        family = self.family
        if family.largest_epsilon1 < family.least_spare:
            least = 2.0001 * family.least_spare * self.budget.epsilon / family.most_epsilon1
            raise Infeasible(
                f"{self.name} needs epsilon of at least {short(least)}, "
                f"got {short(self.budget.epsilon)}",
                nearest={"epsilon": least},
            )
        if self.max_messages is not None:
            return self._within(family, self.max_messages)
        epsilon1 = self._wanted_epsilon1(family)
        noise = family.calibrate(epsilon1)
        if noise is None:
            if self.calibration == "paper":
                raise paper_is_not_private(self)
            raise Infeasible(
                f"{self.name} finds no private noise for epsilon={short(self.budget.epsilon)}, "
                f"delta={short(self.budget.delta)}, epsilon1={short(epsilon1)}"
            )
        messages = family.messages(noise)
        if messages > _MOST_MESSAGES:
            raise Infeasible(
                f"{self.name} needs {short(messages, 3)} messages per person with "
                f"{self.crowd.honest} honest people, but at most {_MOST_MESSAGES:.0f} are allowed",
                nearest={"honest": math.ceil(self.crowd.honest * messages / _MOST_MESSAGES)},
            )
        return noise

    def _wanted_epsilon1(self, family: NoiseFamily[Noise]) -> float:
        """The ε1 that the caller stated, or the ε1 for the stated or default ratio of the error.

        The result is at most `family.largest_epsilon1`.
        """
        most, largest = family.most_epsilon1, family.largest_epsilon1
        if self.epsilon1 is not None:
            if self.epsilon1 > largest:
                raise Infeasible(
                    f"{self.name} needs epsilon1 of at most {short(largest)}, "
                    f"got {short(self.epsilon1)}: for epsilon1 near {short(most)}, the law of its "
                    "noise has too many values",
                    nearest={"epsilon1": min(0.99 * most, largest)},
                )
            return self.epsilon1
        if self.error_ratio is None:
            return min(family.epsilon1(family.usual_ratio * family.dishonesty), largest)
        least = family.error_ratio(largest)
        if self.error_ratio <= family.dishonesty:
            safe = max(least, 1.01 * family.dishonesty)
            raise Infeasible(
                f"{self.name} needs an error_ratio above {short(family.dishonesty)} with "
                f"{self.crowd.honest} honest people out of {self.crowd.users}, "
                f"got {short(self.error_ratio)}",
                nearest={"error_ratio": math.ceil(safe * 1e4) / 1e4},
            )
        epsilon1 = family.epsilon1(self.error_ratio)
        if epsilon1 > largest:
            raise Infeasible(
                f"{self.name} needs an error_ratio of at least {short(least)}, "
                f"got {short(self.error_ratio)}",
                nearest={"error_ratio": math.ceil(least * 1e6) / 1e6},
            )
        return epsilon1

    def _within(self, family: NoiseFamily[Noise], allowed: float) -> Noise:
        """The noise with about the largest ε1, and so the smallest error, within `allowed` messages
        per person.
        """
        most = family.most_epsilon1
        # As ε1 grows, the number of messages first falls, because there is less noise in the
        # answer. Then it rises, because the flood grows.
        share = 0.5
        if family.cost(share * most) > allowed:
            shares = (0.02, 0.1, 0.2, 0.3, 0.4, 0.6)
            least, share = min((family.cost(other * most), other) for other in shares)
            if least > allowed:
                raise Infeasible(
                    f"{self.name} needs at least {short(least, 4)} messages per person for epsilon="
                    f"{short(self.budget.epsilon)}, delta={short(self.budget.delta)} with "
                    f"{self.crowd.honest} honest people, got max_messages={short(allowed)}",
                    nearest={"max_messages": math.ceil(least * 1000 + 1) / 1000},
                )
        # Here ε1 is (1 − gap)·most. The size of the flood is about inversely proportional to the
        # gap, so each step corrects the gap by the ratio of the needed and the allowed messages.
        best = gap = 1 - share
        for _ in range(_STEPS):
            ratio = (family.cost((1 - gap) * most) - 1) / (allowed - 1)
            if ratio <= 1:
                best = min(best, gap)
                if ratio > 0.995:
                    break
            gap = max(gap * ratio * 1.002, family.least_spare / most)
        noise = family.calibrate((1 - best) * most)
        assert noise is not None
        return noise
