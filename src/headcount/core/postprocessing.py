"""Named steps that change a private answer. They cost no privacy.

Estimates are unbiased. So they may be negative, and their sum may differ from the size of the
crowd. A step turns them into possible answers, but makes them biased. The result names the step,
and `unbiased_value` does not change.

- clip moves every number to the nearest number in the possible range.
- norm-sub is for histograms and tables. It sets negative numbers to 0, and adds the same number to
  all others, so that the sum is the size of the crowd. It repeats both until no number is negative
  (Wang, Lopuhaä-Zwakenberg et al. 2020).
- simplex is for histograms and tables. It takes the nearest histogram, in squared distance, that is
  not negative and adds up to the size of the crowd. The result is the same as with norm-sub, unless
  the sum of the positive numbers is less than the size of the crowd.
- monotone is for distributions. It takes the nearest shares, in squared distance, that rise and
  are between 0 and 1.
- density is for densities. It takes the nearest density, in squared distance, that is not negative
  and integrates to 1.
"""

import numpy as np
from numpy.typing import NDArray

from headcount.core import checks
from headcount.core.errors import InvalidParameter, UnknownName
from headcount.core.tasks.registry import TASKS, task_class

STEPS = ("clip", "norm-sub", "simplex", "density", "monotone")


def check_step(name: str, task: str) -> None:
    """Refuse an unknown step, and a step that does not fit the task."""
    if not isinstance(name, str) or name not in STEPS:
        raise UnknownName(
            f"`postprocess` must be one of {', '.join(STEPS)}, got {checks.shown(name)}"
        )
    if name not in task_class(task).postprocessing:
        kinds = " or ".join(one for one in TASKS if name in task_class(one).postprocessing)
        raise InvalidParameter(
            f"`postprocess` {name} must come with {checks.a_task(kinds)}, got {checks.a_task(task)}"
        )


def postprocessed(
    name: str,
    task: str,
    values: NDArray[np.float64],
    limits: tuple[float, float],
    total: float | None,
) -> NDArray[np.float64]:
    """The values of an answer after a step. The step clip moves them into the limits, and monotone
    makes them rise. All other steps make them add up to the total, which must be known.
    """
    check_step(name, task)
    if name == "clip":
        low, high = limits
        clipped: NDArray[np.float64] = np.clip(
            values, max(low, task_class(task).least_clipped), high
        )
        return clipped
    if name == "monotone":
        return monotone(values)
    if total is None:
        raise InvalidParameter(
            f"{name} needs a histogram with buckets for everybody, got an open histogram"
        )
    return _norm_sub(values, total) if name == "norm-sub" else _simplex(values, total)


def monotone(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest rising shares in squared distance, within [0, 1].

    Neighbors in the wrong order are pooled (Ayer et al. 1955).
    """
    from scipy.optimize import isotonic_regression  # loaded here, since it is slow to load

    rising: NDArray[np.float64] = np.clip(isotonic_regression(shares).x, 0.0, 1.0)
    return rising


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
    # The nearest numbers are (v − θ)₊, with θ such that their sum is the total (Held, Wolfe,
    # Crowder 1974).
    ordered = np.sort(values)[::-1]
    levels = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    level = levels[np.flatnonzero(ordered > levels)[-1]]
    nearest: NDArray[np.float64] = np.maximum(values - level, 0.0)
    return nearest
