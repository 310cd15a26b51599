"""Margins of a mean over people, each of whom answers about one of several groups.

Notation    A group is what one person answers about: a level of a tree, or one side of a table (its
            rows or its columns). Each device draws its group. Each of n people adds an independent
            term to the mean. A term is within ± width of its expectation. z is the number of
            standard deviations in a normal margin.
Normal      The error is treated as nearly normal if about 50 people or more answer about each
            group. With 1,000 people or more per group, the variance is computed from the estimates.
            With fewer people, such a variance may be far too small, so the largest possible
            variance is used instead. Rare lies make the error skewed. The third moment is at most
            the width times the variance, so the Cornish–Fisher expansion adds at most
            width·(z² − 1)/(6n) to the margin.
Few         With fewer than about 50 people per group, Bernstein's inequality gives the margin s:
            the error exceeds s with probability at most exp(−ns²/(2(variance + width·s/3))). Here
            the variance is the largest possible one.
"""

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

_SOME = 50  # with this many people per group or more, the error is treated as normal
_MANY = 1000  # with this many people per group or more, the variance is estimated


def nearly_normal(users: int, groups: int) -> bool:
    """Whether the error of a mean over `users` people is treated as nearly normal."""
    return users / groups >= _SOME


def used_variances(
    users: int,
    *,
    groups: int,
    variances: NDArray[np.float64],
    worst: NDArray[np.float64] | float,
) -> NDArray[np.float64]:
    """The variances that margins use: `variances` in a large crowd, `worst` in a smaller one."""
    enough = users / groups >= _MANY
    return variances if enough else np.broadcast_to(worst, variances.shape)


def mean_margin(
    users: int,
    *,
    groups: int,
    variances: NDArray[np.float64],
    worst: NDArray[np.float64] | float,
    width: NDArray[np.float64] | float,
    confidence: float,
) -> NDArray[np.float64]:
    """The margin of each of several means over `users` people.

    For each mean, `variances` has an estimate of the variance of a person's term, averaged over
    people. `worst` has the largest possible variances.
    """
    if nearly_normal(users, groups):
        deviations = -NormalDist().inv_cdf((1 - confidence) / 2)
        skew = width * max(0.0, deviations**2 - 1) / (6 * users)
        used = used_variances(users, groups=groups, variances=variances, worst=worst)
        return deviations * np.sqrt(used / users) + skew
    log = math.log(2 / (1 - confidence))
    third = log * width / (3 * users)
    margin = third + np.sqrt(third**2 + 2 * log * worst / users)
    return np.broadcast_to(margin, variances.shape)
