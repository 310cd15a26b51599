"""The answer that is published: a value, how far off it may be, and what it cost."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any, Protocol

from headcount.core import checks
from headcount.core.errors import InvalidParameter
from headcount.core.guarantee import Guarantee


class ErrorLaw(Protocol):
    """The law of (unbiased estimate − truth), as far as it is known without the truth."""

    @property
    def standard_error(self) -> float: ...

    def margins(self, confidence: float) -> tuple[float, float]:
        """(a, b) such that −a ≤ estimate − truth ≤ b holds with at least this probability."""


@dataclass(frozen=True)
class NormalError:
    """An error near normal, on a lattice of the given step; the half step keeps coverage up."""

    standard_error: float
    step: float = 0.0

    def margins(self, confidence: float) -> tuple[float, float]:
        deviations = -NormalDist().inv_cdf((1 - confidence) / 2)
        margin = deviations * self.standard_error + self.step / 2
        return margin, margin


@dataclass(frozen=True)
class Interval:
    low: float
    high: float
    confidence: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def to_dict(self) -> dict[str, float]:
        return {"low": self.low, "high": self.high, "confidence": self.confidence}


@dataclass(frozen=True)
class Estimate:
    """A private answer. It contains nothing that the guarantee does not cover.

    `value` is unbiased unless `postprocessing` names what was done to it; `unbiased_value` is what
    it was before. `standard_error` and intervals are those of the unbiased value.
    """

    task: str
    protocol: str
    value: float
    users: int
    guarantee: Guarantee
    answer_range: tuple[float, float]
    whole: bool
    error_law: ErrorLaw = field(repr=False)
    postprocessing: tuple[str, ...] = ()
    unbiased_value: float = math.nan

    def __post_init__(self) -> None:
        if not self.postprocessing:
            object.__setattr__(self, "unbiased_value", self.value)

    @property
    def standard_error(self) -> float:
        """Standard deviation of the privacy noise in the unbiased value."""
        return self.error_law.standard_error

    def interval(self, confidence: float = 0.95) -> Interval:
        """An interval that holds the true answer with this probability.

        At least with this one where the error's law is known exactly, close to it where the law is
        taken to be normal. It is cut to the answers that are possible
        (within range, whole if the task's are), which costs no coverage.
        """
        confidence = checks.real("confidence", confidence)
        if not 0 < confidence < 1:
            raise InvalidParameter(f"`confidence` must lie strictly in (0, 1), got {confidence}")
        below, above = self.error_law.margins(confidence)
        low, high = self.unbiased_value - above, self.unbiased_value + below
        if self.whole:
            # What floats lose on the way must not push an end past the whole number it stands for.
            grain = 2.0**-40 * max(1.0, abs(low), abs(high))
            inner = math.ceil(low - grain), math.floor(high + grain)
            low, high = inner if inner[0] <= inner[1] else (low, high)
        least, most = self.answer_range
        return Interval(
            float(min(max(low, least), most)), float(max(min(high, most), least)), confidence
        )

    def postprocess(self, name: str, change: Callable[[float], float]) -> "Estimate":
        """The same estimate with its value changed, marked as such. Costs no privacy."""
        return replace(self, value=change(self.value), postprocessing=(*self.postprocessing, name))

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        return {
            "task": self.task,
            "protocol": self.protocol,
            "value": self.value,
            "unbiased_value": self.unbiased_value,
            "postprocessing": list(self.postprocessing),
            "standard_error": self.standard_error,
            "interval": self.interval(confidence).to_dict(),
            "users": self.users,
            "guarantee": self.guarantee.to_dict(),
        }
