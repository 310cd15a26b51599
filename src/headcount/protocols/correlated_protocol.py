"""What a caller may wish of correlated noise, and the noise that grants it.

Notation    ε1 of the budget is spent on noise in the answer itself, like a trusted curator's, and
            the rest on hiding it in a flood of messages that cancel. n people, h of them honest; k
            units are the most by which a person can change the answer.
Options     ε1 near ε is near central error and costs messages. One may state the error wanted
            (`error_ratio`, to central), the messages allowed (`max_messages`), or `epsilon1`; the
            flood is the one with the fewest messages that is private.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from headcount.core import checks
from headcount.core.budget import Budget, Crowd
from headcount.core.cached import cached_property
from headcount.core.errors import Infeasible, InvalidParameter
from headcount.core.old_form import OldForm
from headcount.core.table import short
from headcount.core.task import Task

_MOST_MESSAGES = 2.0**20
_STEPS = 8

Noise = TypeVar("Noise")


@dataclass(frozen=True)
class CorrelatedProtocol(OldForm, Generic[Noise]):
    """A protocol with noise of some ε1; a subclass says which noise that is, and what it costs."""

    # Between ε1 and the most that it can be: less makes laws too long.
    least_spare: ClassVar[float] = 2e-3

    error_ratio: float | None = None  # standard error wanted, over the central one; above 1
    max_messages: float | None = None  # the most that a person may send, on average
    epsilon1: float | None = None  # what of epsilon is spent on noise in the answer itself

    def __post_init__(self) -> None:
        super().__post_init__()
        wishes = ("error_ratio", "max_messages", "epsilon1")
        given = [name for name in wishes if getattr(self, name) is not None]
        if len(given) > 1:
            raise InvalidParameter(
                f"at most one of {', '.join(wishes)} must be given, got {', '.join(given)}"
            )
        for name in given:
            number = checks.real(name, getattr(self, name))
            if number <= 0:
                raise InvalidParameter(f"`{name}` must be positive, got {number}")
            object.__setattr__(self, name, number)
        _ = self._noise  # an infeasible request is refused now, not at the first use
        self._check_curve()

    @classmethod
    def settings_within(
        cls, task: Task, budget: Budget, crowd: Crowd, max_messages: float
    ) -> Iterator[dict[str, Any]]:
        yield {"max_messages": max_messages}

    @abstractmethod
    def _calibrate(self, epsilon1: float) -> Noise | None:
        """Noise of this ε1 within the budget; None if there is none."""

    @abstractmethod
    def _messages(self, noise: Noise) -> float:
        """What the person who sends most is expected to send."""

    @property
    @abstractmethod
    def _most_epsilon1(self) -> float:
        """That of a trusted curator, who spends all of ε on noise."""

    @property
    def _usual_ratio(self) -> float:
        """Of the error to the best there can be, where the caller states nothing."""
        return 1.05

    @property
    def _units(self) -> int:
        """The number k."""
        return 1

    @cached_property
    def _noise(self) -> Noise:
        if not self.budget.delta:
            raise Infeasible(
                f"{self.name} needs delta above 0: it may happen that nobody sends noise",
                nearest={"delta": 1e-9},
            )
        largest = self._most_epsilon1 - self.least_spare
        if largest < self.least_spare:
            least = 2.0001 * self.least_spare * self.budget.epsilon / self._most_epsilon1
            raise Infeasible(
                f"{self.name} needs epsilon of at least {short(least)}, "
                f"got {short(self.budget.epsilon)}",
                nearest={"epsilon": least},
            )
        if self.max_messages is not None:
            return self._within(self.max_messages)
        if self.epsilon1 is not None:
            epsilon1 = self.epsilon1
        elif self.error_ratio is not None:
            epsilon1 = self._epsilon1(self.error_ratio)
        else:
            epsilon1 = min(self._epsilon1(self._usual_ratio * self._dishonesty), largest)
        if epsilon1 > largest and self.error_ratio is not None:
            least_ratio = self._relative(largest)
            raise Infeasible(
                f"{self.name} needs an error_ratio of at least {short(least_ratio)}, "
                f"got {short(self.error_ratio)}",
                nearest={"error_ratio": math.ceil(least_ratio * 1e6) / 1e6},
            )
        if epsilon1 > largest:
            raise Infeasible(
                f"{self.name} needs epsilon1 of at most {short(largest)} (nearer to "
                f"{short(self._most_epsilon1)} the laws of its noise are too long), "
                f"got {short(epsilon1)}",
                nearest={"epsilon1": min(0.99 * self._most_epsilon1, largest)},
            )
        noise = self._calibrate(epsilon1)
        if noise is None:
            if self.calibration == "paper":
                raise self._not_private()
            raise Infeasible(
                f"{self.name} finds no flood for epsilon={short(self.budget.epsilon)}, "
                f"delta={short(self.budget.delta)}, epsilon1={short(epsilon1)}"
            )
        if self._messages(noise) > _MOST_MESSAGES:
            fewer = math.ceil(self.crowd.honest * self._messages(noise) / _MOST_MESSAGES)
            raise Infeasible(
                f"{self.name} needs {short(self._messages(noise), 3)} messages per person of "
                f"{self.crowd.honest} honest people, more than {_MOST_MESSAGES:.0f}",
                nearest={"honest": fewer},
            )
        return noise

    @property
    def _dishonesty(self) -> float:
        """What the noise of those who are not counted on adds to the standard error."""
        return math.sqrt(self.crowd.users / self.crowd.honest)

    def _epsilon1(self, ratio: float) -> float:
        if ratio <= self._dishonesty:
            least = self._relative(self._most_epsilon1 - self.least_spare)
            raise Infeasible(
                f"{self.name} needs an error_ratio above {short(self._dishonesty)} with "
                f"{self.crowd.honest} honest of {self.crowd.users} people, got {short(ratio)}",
                nearest={"error_ratio": math.ceil(max(least, 1.01 * self._dishonesty) * 1e4) / 1e4},
            )
        halves = 2 * self._units
        return halves * math.asinh(
            math.sinh(self._most_epsilon1 / halves) * self._dishonesty / ratio
        )

    def _relative(self, epsilon1: float) -> float:
        """The error of this ε1 to that of central noise.

        The standard error of two-sided geometric noise of ε1/k is 1/(√2·sinh(ε1/(2k))).
        """
        central, own = (math.sinh(e / (2 * self._units)) for e in (self._most_epsilon1, epsilon1))
        return central / own * self._dishonesty

    def _within(self, allowed: float) -> Noise:
        """The least error for so many messages: ε1 up to where they are too many."""

        def cost(epsilon1: float) -> float:
            noise = self._calibrate(epsilon1)
            return math.inf if noise is None else self._messages(noise)

        # Messages fall with ε1, as there is less single noise, and then rise with the flood.
        share = 0.5
        if cost(share * self._most_epsilon1) > allowed:
            shares = (0.02, 0.1, 0.2, 0.3, 0.4, 0.6)
            least, share = min((cost(other * self._most_epsilon1), other) for other in shares)
            if least > allowed:
                raise Infeasible(
                    f"{self.name} needs at least {short(least, 4)} messages per person for epsilon="
                    f"{short(self.budget.epsilon)}, delta={short(self.budget.delta)} with "
                    f"{self.crowd.honest} honest people, got max_messages={short(allowed)}",
                    nearest={"max_messages": math.ceil(least * 1000 + 1) / 1000},
                )
        # The flood is about inverse to what ε1 leaves of ε.
        best = gap = 1 - share
        for _ in range(_STEPS):
            ratio = (cost((1 - gap) * self._most_epsilon1) - 1) / (allowed - 1)
            if ratio <= 1:
                best = min(best, gap)
                if ratio > 0.995:
                    break
            gap = max(gap * ratio * 1.002, self.least_spare / self._most_epsilon1)
        noise = self._calibrate((1 - best) * self._most_epsilon1)
        assert noise is not None
        return noise
