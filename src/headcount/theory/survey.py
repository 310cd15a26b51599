"""The worth of a private survey, stated as a number of answers without privacy."""

from headcount.core import checks
from headcount.core.budget import LEAST_EPSILON, MOST_USERS
from headcount.core.errors import InvalidParameter
from headcount.core.table import short
from headcount.core.tasks.histogram import MOST_BUCKETS


def survey_worth(users: int, epsilon: float, buckets: int = 2) -> float:
    """The number of answers without privacy that are worth as much as `users` private answers.

    If the shares of d buckets are estimated in local trust with ε ≤ 1, this number is nε²/d up to a
    constant (Duchi, Jordan, Wainwright 2018, Minimax Optimal Procedures for Locally Private
    Estimation). The result has the constant 1. For a larger ε, compare standard errors instead.
    """
    users = checks.whole("users", users, low=1, high=MOST_USERS)
    buckets = checks.whole("buckets", buckets, low=2, high=MOST_BUCKETS)
    epsilon = checks.real("epsilon", epsilon)
    if not LEAST_EPSILON <= epsilon <= 1:
        raise InvalidParameter(
            f"`epsilon` must be between {short(LEAST_EPSILON)} and 1 for the worth of a survey, "
            f"got {short(epsilon)}"
        )
    return users * epsilon**2 / buckets
