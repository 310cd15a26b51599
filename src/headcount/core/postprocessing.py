"""What may be done to an answer after it is private, by name. It costs no privacy.

Estimates are unbiased, and so may be negative or add up to something else than the crowd. What
makes them look right makes them biased; each step marks its result, and `unbiased_value` stays.

- clip: every number to the nearest that is possible.
- norm-sub: of a histogram. Negative numbers become 0, and the same is taken from (or given to) all
  others, again and again, until they add up to the crowd (Wang, Lopuhaä-Zwakenberg et al. 2020).
- simplex: of a histogram. The nearest numbers, by squares, that are not negative and add up to the
  crowd. Equal to norm-sub, unless the positive numbers come to less than the crowd.
- density: the nearest density, by squares, that is not negative and integrates to one.
"""

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.errors import InvalidParameter, UnknownName
from headcount.core.tasks.registry import TASKS, task_class

STEPS = ("clip", "norm-sub", "simplex", "density")


def check_step(name: str, task: str) -> None:
    """Refuse what is no step, or none for such a task."""
    if not isinstance(name, str) or name not in STEPS:
        raise UnknownName(
            f"`postprocess` must be one of {', '.join(STEPS)}, got {checks.shown(name)}"
        )
    if name not in task_class(task).postprocessing:
        kinds = " or ".join(one for one in TASKS if name in task_class(one).postprocessing)
        raise InvalidParameter(f"`postprocess` {name} must come with a {kinds}, got a {task}")


def postprocessed(
    name: str,
    task: str,
    values: NDArray[np.float64],
    limits: tuple[float, float],
    total: float | None,
) -> NDArray[np.float64]:
    """The values of a task after a step: within limits, adding up to the total if it is known."""
    check_step(name, task)
    if name == "clip":
        low, high = limits
        clipped: NDArray[np.float64] = np.clip(
            values, max(low, 0.0) if task == "density" else low, high
        )
        return clipped
    if total is None:
        raise InvalidParameter(f"{name} needs buckets that everyone is in, got open ones")
    return _norm_sub(values, total) if name == "norm-sub" else _simplex(values, total)


def _norm_sub(values: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    out = np.maximum(values, 0.0)
    positive = out > 0
    if not positive.any():
        return np.full(len(values), total / len(values))
    while True:
        out[positive] += (total - out.sum()) / np.count_nonzero(positive)
        if out.min() >= 0:
            return out
        positive &= out > 0
        out[~positive] = 0.0


def _simplex(values: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    # The nearest is (v − θ)₊ with θ such that they add up (Held, Wolfe, Crowder 1974).
    ordered = np.sort(values)[::-1]
    levels = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    level = levels[np.flatnonzero(ordered > levels)[-1]]
    nearest: NDArray[np.float64] = np.maximum(values - level, 0.0)
    return nearest
