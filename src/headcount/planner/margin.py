"""The margin of error that is asked for."""

import math
from dataclasses import dataclass
from statistics import NormalDist

from headcount.core import checks
from headcount.core.errors import InvalidParameter
from headcount.core.table import short
from headcount.core.task import Task
from headcount.core.tasks.registry import tasks_with, uses_of

SAMPLED = ("binomial", "widest")  # kinds of sampling error that are known before a release


@dataclass(frozen=True)
class Margin:
    """How far an answer may be from the truth: half the length of a confidence interval.

    With `share=True`, `size` is a share. For a count or a bucket, it is a share of the crowd. For a
    sum, it is a share of the crowd times the range. For a mean, it is a share of the range. For a
    density, it is a share of the uniform density over the range.

    With `sampling=True`, the truth is that of a population from which people are drawn at random.
    The margin then includes the largest sampling error of any population, treated as normal.
    """

    size: float
    confidence: float = 0.95
    share: bool = False
    sampling: bool = False

    def __post_init__(self) -> None:
        size = checks.real("margin", self.size)
        if size <= 0:
            raise InvalidParameter(f"`margin` must be positive, got {short(size)}")
        object.__setattr__(self, "share", checks.flag("share", self.share))
        if self.share and size >= 1:
            raise InvalidParameter(f"`margin` must be a share below 100 %, got {size:.0%}")
        object.__setattr__(self, "sampling", checks.flag("sampling", self.sampling))
        checks.confidence(self.confidence)

    def check(self, task: Task) -> None:
        """Refuse a task whose sampling error is not known."""
        if self.sampling and task.uses.sampling not in SAMPLED:
            names = [name for name in tasks_with("sampling") if uses_of(name).sampling in SAMPLED]
            raise InvalidParameter(
                f"`sampling` must come with a {' or '.join(names)}, got {checks.a_task(task.name)}"
            )

    def total(self, noise: float, task: Task, users: int) -> float:
        """The margin of an answer. `noise` is the margin of its privacy noise alone. If `sampling`
        is true, the sampling error is added.

        Values in a range of length r have a standard deviation of at most r/2.
        """
        if not self.sampling:
            return noise
        deviations = -NormalDist().inv_cdf((1 - self.confidence) / 2)
        return math.hypot(noise, deviations * task.answer_size(users) / (2 * math.sqrt(users)))

    def allowed(self, task: Task, users: int) -> float:
        """The largest error that the margin allows, in the units of the answer."""
        return self.size * task.answer_size(users) if self.share else self.size

    def __str__(self) -> str:
        said = f"±{100 * self.size:g} %" if self.share else f"±{short(self.size)}"
        return f"{said} of the population" if self.sampling else said
