"""The margin of error that is asked for."""

from dataclasses import dataclass

from headcount.core import checks
from headcount.core.errors import InvalidParameter
from headcount.core.table import short
from headcount.core.task import Task


@dataclass(frozen=True)
class Margin:
    """How far an answer may be from the truth: half the length of a confidence interval.

    With `share=True`, `size` is a share. For a count or a bucket, it is a share of the crowd. For a
    sum, it is a share of the crowd times the range. For a mean, it is a share of the range. For a
    density, it is a share of the uniform density over the range.
    """

    size: float
    confidence: float = 0.95
    share: bool = False

    def __post_init__(self) -> None:
        size = checks.real("margin", self.size)
        if size <= 0:
            raise InvalidParameter(f"`margin` must be positive, got {short(size)}")
        object.__setattr__(self, "share", checks.flag("share", self.share))
        if self.share and size >= 1:
            raise InvalidParameter(f"`margin` must be a share below 100 %, got {size:.0%}")
        checks.confidence(self.confidence)

    def allowed(self, task: Task, users: int) -> float:
        """The largest error that the margin allows, in the units of the answer."""
        return self.size * task.answer_size(users) if self.share else self.size

    def __str__(self) -> str:
        return f"±{100 * self.size:g} %" if self.share else f"±{short(self.size)}"
