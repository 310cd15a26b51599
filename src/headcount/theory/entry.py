"""One entry of the table of bounds, and the numbers on which its value depends.

The value of an entry is the error of a count, of a sum of numbers in [0, 1], or of a density on
[0, 1]. For other sums, for means and for other densities, the value is multiplied by a scale.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from headcount.core.budget import Budget, Crowd, Trust
from headcount.core.estimator import is_average
from headcount.core.task import Task
from headcount.theory.bound import Bound, Kind, Measure, MessageLimit


@dataclass(frozen=True)
class Setting:
    """The numbers of a task, a budget and a crowd on which bounds depend."""

    users: int
    honest: int
    epsilon: float
    delta: float
    task: str
    scale: float  # the factor by which the value of an entry is multiplied
    scale_formula: str  # this factor as text, which is put before the formula of an entry
    span: float  # the highest number minus the lowest; 1 for counts
    whole: bool  # whether the numbers are whole; true for counts
    buckets: int  # the number of buckets; 2 if the task has none
    smoothness: float  # β, or 0 if the answer is not smoothed

    @classmethod
    def of(cls, task: Task, budget: Budget, crowd: Crowd) -> "Setting":
        bounded, buckets = task.bounded, task.buckets
        span = float(bounded.span) if bounded else 1.0
        scale, formula = _scale(task, span, crowd.users)
        return cls(
            users=crowd.users,
            honest=crowd.honest,
            epsilon=budget.epsilon,
            delta=budget.delta,
            task=task.name,
            scale=scale,
            scale_formula=formula,
            span=span,
            whole=bounded.whole if bounded else True,
            buckets=max(2, len(buckets)) if buckets and not bounded else 2,
            smoothness=task.smoothness or 0.0,
        )

    @property
    def noise(self) -> float:
        """The factor √(n/h) by which the total noise exceeds the noise that is needed. The noise of
        h people alone must be enough, but all n people add noise.
        """
        return math.sqrt(self.users / self.honest)


def _scale(task: Task, span: float, users: int) -> tuple[float, str]:
    """The scale of a task's errors, and the formula of this scale."""
    if task.smoothness is not None:
        # A density is proportional to 1/span, and its squared error is integrated over the span.
        return 1 / math.sqrt(span), "1/√(high − low) · "
    if task.bounded is not task:
        return span, ""
    if is_average(task):
        return span / users, "(high − low)/n · "
    return span, "(high − low) · "


@dataclass(frozen=True)
class Entry:
    """A row of the table. `ending` is the last part of its name. `holds` checks the conditions that
    `conditions` states in words.
    """

    trust: Trust
    ending: str
    tasks: tuple[str, ...]
    kind: Kind
    formula: str
    statement: str
    conditions: str
    source: str
    holds: Callable[[Setting], bool]
    value: Callable[[Setting], float]
    tight: bool = True
    messages: MessageLimit = "any"
    measure: Measure = "standard error"

    def name(self, task: str) -> str:
        return f"{self.trust}.{task}.{self.ending}"

    def at(self, setting: Setting) -> Bound:
        return Bound(
            name=self.name(setting.task),
            task=setting.task,
            trust=self.trust,
            kind=self.kind,
            formula=setting.scale_formula + self.formula,
            statement=self.statement,
            conditions=self.conditions,
            source=self.source,
            messages=self.messages,
            measure=self.measure,
            tight=self.tight,
            value=setting.scale * self.value(setting),
        )
